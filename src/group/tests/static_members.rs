//! Static members (KIP-345) and skipped assignments (KIP-814).

use super::check;

/// Static members a (leads) and b are stable; continues `script`.
#[track_caller]
fn with_two(script: &str) {
    check(&format!(
        "join a instance=i1
         join b instance=i2
         sleep 6s
         sync b
         sync a assign=a:p0,b:p1
         expect group state=Stable generation=1 members=a,b writes=2
         {script}"
    ));
}

#[test]
fn static_members_are_not_asked_to_come_back() {
    check(
        "join a instance=i1 v=5
         expect join a answered=no
         sleep 3s
         expect join a error=0 generation=1",
    );
}

#[test]
fn b101_a_restarted_static_member_takes_its_place_without_a_rebalance() {
    with_two(
        "join b2 instance=i2
         expect join b2 error=0 generation=1 leader=a members=
         expect group state=Stable generation=1 writes=3
         sync b2
         expect sync b2 assignment=p1
         heartbeat b = 82
         commit b = 82
         heartbeat a = 0
         join b
         expect join b error=82
         leave b
         expect leave b members=82
         heartbeat b2 = 0",
    );
}

#[test]
fn a_restarted_leader_does_not_assign_again() {
    // Before version 9 it is told its former id as the leader's, so that it does not know itself in it.
    with_two(
        "join a2 instance=i1 v=8
         expect join a2 error=0 generation=1 members= skip=false leader=a
         expect group leader=a2 state=Stable
         sync a2
         expect sync a2 assignment=p0",
    );
    with_two(
        "join a2 instance=i1 v=9
         expect join a2 error=0 generation=1 members=a2,b skip=true leader=a2
         join b2 instance=i2 v=9
         expect join b2 members= skip=false leader=a2
         sync a2
         expect sync a2 assignment=p0",
    );
}

#[test]
fn a_restarted_member_with_another_choice_of_protocol_rebalances() {
    check(
        "join a instance=i1 protocols=range:1,rr:1
         join b instance=i2 protocols=range:1,rr:1
         sleep 6s
         sync a
         join b2 instance=i2 protocols=rr:1
         expect join b2 answered=no
         expect group state=PreparingRebalance
         join a protocols=range:1,rr:1
         expect join a generation=2 protocol=rr members=a,b2",
    );
}

#[test]
fn a_replacement_during_a_rebalance_fences_what_waits() {
    with_two(
        "join c
         join b
         expect join b answered=no
         join b2 instance=i2
         expect join b error=82
         join a
         expect join b2 generation=2
         expect join a members=a,b2,c
         sync b2
         join b3 instance=i2
         # the old id may be at the leader already: all join again
         expect sync b2 error=82
         expect group state=PreparingRebalance
         heartbeat a = 27",
    );
}

#[test]
fn static_members_stay_when_they_miss_a_rebalance() {
    with_two(
        "join a
         sleep 60s beating=b
         expect join a generation=2 members=a,b
         sync a assign=a:p0,b:p1
         # the session timeout is what removes them
         sleep 10s beating=a
         expect group state=PreparingRebalance members=a",
    );
}

#[test]
fn if_only_absent_static_members_are_left_the_rebalance_waits_on() {
    with_two(
        "join c
         sleep 59s beating=a,b
         gone c
         sleep 1s beating=a,b
         expect group state=PreparingRebalance members=a,b generation=1
         join a
         join b
         expect join a generation=2 members=a,b",
    );
}

#[test]
fn a_rebalance_that_waits_on_does_not_spin_however_short_its_timeout() {
    check(
        "join a instance=i1 rebalance=0s session=30s
         sleep 3s
         sync a assign=a:p0
         join c rebalance=0s
         gone c
         sleep 5s
         expect group state=PreparingRebalance members=a generation=1
         join a
         expect join a generation=2 members=a",
    );
}

#[test]
fn instance_ids_are_checked() {
    with_two(
        "join x instance=i9 id=stranger
         expect join x error=25
         heartbeat x id=stranger generation=1 = 25",
    );
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance_id() {
    with_two(
        "leave admin instance=i2 id=none
         expect leave admin members=0
         expect group members=a state=PreparingRebalance
         leave admin instance=i7 id=none
         expect leave admin members=25",
    );
}
