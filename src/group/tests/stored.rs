//! What is stored, when, and how a group goes on with it.

use super::check;

#[test]
fn nothing_is_told_before_it_is_stored() {
    check(
        "join a
         hold
         sleep 3s
         expect join a answered=no
         expect group state=PreparingRebalance generation=0
         stored
         expect join a generation=1
         sync a assign=a:p0
         expect sync a answered=no
         heartbeat a = 0
         stored
         expect sync a assignment=p0
         leave a
         expect leave a answered=no
         heartbeat a = 0
         stored
         expect leave a error=0
         expect group state=Empty writes=3",
    );
}

#[test]
fn what_could_not_be_stored_has_not_happened() {
    check(
        "join a
         sleep 3s
         sync a assign=a:p0
         hold
         leave a
         refused
         expect leave a answered=no
         heartbeat a = 0
         expect group state=Stable members=a generation=1",
    );
}

#[test]
fn heartbeats_and_joins_store_nothing() {
    check(
        "join a
         join b v=4
         sleep 3s
         expect group writes=1
         sync a
         expect group writes=2
         sleep 60s beating=a
         join c
         sync c
         expect group writes=2",
    );
}

#[test]
fn a_restart_continues_a_stable_group_without_a_rebalance() {
    check(
        "join a instance=i1
         join b protocols=range:m,rr:n session=20s
         sleep 6s
         sync a assign=a:p0,b:p1
         sync b
         restart
         expect group state=Stable generation=1 members=a,b leader=a type=consumer protocol=range
         heartbeat a = 0
         heartbeat b = 0
         commit b = 0
         sync b
         expect sync b assignment=p1
         # a follower that joins unchanged is recognised
         join b protocols=range:m,rr:n
         expect join b generation=1
         # and a static member too
         join a2 instance=i1
         expect join a2 generation=1 leader=a
         heartbeat a = 82
         # each has its own session timeout from the restart on
         sleep 10s beating=b
         expect group members=b state=PreparingRebalance",
    );
}

#[test]
fn a_restart_begins_a_rebalance_again_with_the_ids_kept() {
    check(
        "join a
         join b
         sleep 6s
         restart
         expect group state=PreparingRebalance generation=1 members=a,b
         heartbeat a = 27
         sync a
         expect sync a error=27
         join a
         expect join a answered=no
         join b
         expect join a generation=2 members=a,b",
    );
    check(
        "join a
         join b
         sleep 6s
         sync a assign=a:0,b:1
         leave b
         restart
         expect group state=PreparingRebalance members=a
         heartbeat a = 27
         join a
         expect join a generation=2 members=a",
    );
}

#[test]
fn members_that_stay_away_after_a_restart_expire() {
    check(
        "join a
         sleep 3s
         sync a
         restart
         sleep 9s
         expect group state=Stable
         sleep 1s
         expect group state=Empty generation=2",
    );
}

#[test]
fn the_leader_is_kept_though_it_is_not_the_first_member() {
    check(
        "join a instance=i1
         join b
         sleep 6s
         join b protocols=range:new
         sleep 60s beating=a
         expect join b generation=2 leader=b members=a,b
         sync b assign=b:1
         restart
         expect group state=Stable leader=b members=a,b",
    );
}

#[test]
fn an_empty_group_keeps_its_generation() {
    check(
        "join a
         sleep 3s
         sync a
         leave a
         restart
         expect group state=Empty generation=2 members= type=consumer
         join a id=none
         sleep 3s
         expect join a generation=3",
    );
}
