//! Rebalances, generations, timeouts: what every group goes through.

use super::check;

/// Two stable members, a leads; continues `script`.
#[track_caller]
fn with_two(script: &str) {
    check(&format!(
        "join a
         join b
         sleep 3s
         sleep 3s
         expect join a generation=1 leader=a members=a,b
         expect join b generation=1 leader=a members=
         sync b
         expect sync b answered=no
         sync a assign=a:p0,b:p1
         expect sync a assignment=p0 error=0 protocol=range
         expect sync b assignment=p1 error=0
         expect group state=Stable generation=1 writes=2
         {script}"
    ));
}

#[test]
fn the_first_rebalance_waits_longer_while_members_come() {
    check(
        "join a rebalance=7s
         sleep 2s
         join b rebalance=7s
         sleep 2s
         expect join a answered=no
         join c rebalance=7s
         # 3 s, then 3 s more for b, then what is left of 7 s for c
         sleep 2s
         expect join a answered=no
         sleep 1s
         expect join a generation=1 members=a,b,c
         expect join c generation=1 leader=a members=",
    );
    check(
        "join a
         sleep 2999ms
         expect join a answered=no
         sleep 1ms
         expect join a generation=1 members=a",
    );
}

#[test]
fn b091_a_new_member_moves_all_to_one_new_generation() {
    with_two(
        "join c
         expect join c answered=no
         expect group state=PreparingRebalance
         heartbeat a = 27
         heartbeat b = 27
         commit a = 0
         join a
         expect join a answered=no
         join b
         expect join a generation=2 leader=a members=a,b,c
         expect join b generation=2 leader=a members=
         expect join c generation=2 leader=a members=
         heartbeat a generation=1 = 22
         heartbeat a = 0
         commit a = 27
         sync a assign=a:x,b:y,c:z
         sync c
         expect sync c assignment=z
         commit c = 0",
    );
}

#[test]
fn b092_a_followers_sync_waits_for_the_leader() {
    with_two(
        "join c
         join a
         join b
         sync b
         sync c
         sleep 5s beating=a
         expect sync b answered=no
         expect group state=CompletingRebalance generation=2
         sync a assign=b:only
         expect sync b assignment=only
         # who is assigned nothing is told so, without an error
         expect sync c assignment= error=0
         expect group state=Stable generation=2",
    );
}

#[test]
fn b093_a_leave_lets_the_others_join_complete_at_once() {
    with_two(
        "join c
         join a
         expect join c answered=no
         leave b
         expect leave b error=0 members=0
         expect join a generation=2 members=a,c
         expect join c generation=2",
    );
}

#[test]
fn b093_an_expired_member_lets_the_others_join_complete() {
    with_two(
        "sleep 4s beating=a
         join a
         sleep 5s
         expect join a answered=no
         sleep 1s
         expect join a generation=2 members=a leader=a
         heartbeat b = 25
         commit b = 25",
    );
}

#[test]
fn who_does_not_join_within_the_rebalance_timeout_is_removed() {
    with_two(
        "join c
         join a
         sleep 59s beating=b
         expect join a answered=no
         sleep 1s beating=b
         expect join a generation=2 members=a,c
         heartbeat b = 25",
    );
}

#[test]
fn b095_followers_of_a_lost_leader_elect_another() {
    with_two(
        "join c
         join a
         join b
         sync b
         sync c
         # a is never heard of again
         sleep 9s
         expect sync b answered=no
         sleep 1s
         expect sync b error=27 assignment=
         expect sync c error=27
         join b
         join c
         expect join b generation=3 leader=b members=b,c",
    );
}

#[test]
fn a_leader_that_does_not_join_in_time_loses_the_lead() {
    with_two(
        "join b protocols=range:new
         sleep 59s beating=a
         expect join b answered=no
         sleep 1s beating=a
         expect join b generation=2 leader=b members=b",
    );
}

#[test]
fn b100_members_that_wait_are_not_expired() {
    check(
        "join a session=6s
         join b session=6s
         sleep 6s
         sync a assign=a:1,b:2
         sync b
         join slow
         join a session=6s
         # b comes 20 s later; a waited longer than its session
         sleep 20s beating=b
         heartbeat b = 27
         join b session=6s
         expect join a generation=2 error=0 members=a,b,slow
         sync b
         sync slow
         sleep 20s beating=a
         expect sync b answered=no
         expect group members=a,b,slow
         sync a assign=b:2
         expect sync b assignment=2
         sleep 5s
         heartbeat b = 0",
    );
}

#[test]
fn members_that_never_sync_are_removed_after_the_rebalance_timeout() {
    with_two(
        "join c rebalance=60s
         join a
         join b
         sync a assign=a:1
         sleep 59s beating=a,b,c
         expect group state=Stable members=a,b,c
         sleep 1s beating=a,b,c
         expect group state=PreparingRebalance members=a
         heartbeat a = 27
         heartbeat b = 25",
    );
}

#[test]
fn heartbeats_commits_and_syncs_are_checked() {
    with_two(
        "heartbeat a generation=0 = 22
         heartbeat a generation=2 = 22
         heartbeat a id=nobody = 25
         commit a generation=0 = 22
         commit x = 25
         commit a id=none generation=-1 = 25
         sync b generation=0
         expect sync b error=22
         sync b protocol=roundrobin
         expect sync b error=23
         # a stable group repeats the assignment
         sync b
         expect sync b error=0 assignment=p1
         leave x id=nobody
         expect leave x error=0 members=25
         expect group state=Stable writes=2",
    );
    check(
        "commit simple = 0
         commit simple generation=3 = 25
         heartbeat x generation=1 = 25",
    );
}

#[test]
fn a_commit_keeps_the_session_alive() {
    with_two(
        "sleep 9s beating=b
         commit a = 0
         sleep 9s beating=b
         heartbeat a = 0
         sleep 10s beating=b
         heartbeat a = 25",
    );
}

#[test]
fn a_follower_that_joins_unchanged_gets_the_present_generation() {
    with_two(
        "join b
         expect join b generation=1 leader=a members= error=0
         heartbeat a = 0
         # changed metadata is another matter
         join b protocols=range:new
         expect join b answered=no
         heartbeat a = 27
         join a
         expect join b generation=2",
    );
}

#[test]
fn a_leader_that_joins_again_rebalances() {
    with_two(
        "join a
         expect join a answered=no
         heartbeat b = 27
         join b
         expect join a generation=2 members=a,b",
    );
}

#[test]
fn a_lost_join_answer_is_repeated_while_the_assignment_is_awaited() {
    check(
        "join a
         join b
         sleep 6s
         join b
         expect join b generation=1 leader=a members= error=0
         join a
         expect join a generation=1 leader=a members=a,b
         expect group state=CompletingRebalance
         join b protocols=range:changed
         expect join b answered=no
         expect group state=PreparingRebalance
         heartbeat a = 27",
    );
}

#[test]
fn b104_b105_refused_joins_leave_the_group_as_it_was() {
    check(
        "join a protocols=none
         expect join a error=23
         join a type=
         expect join a error=23
         expect group state=Empty members=",
    );
    with_two(
        "join c protocols=none
         expect join c error=23
         join c protocols=roundrobin:x
         expect join c error=23
         join c type=connect
         expect join c error=23
         join a protocols=other:x
         expect join a error=23
         heartbeat a = 0
         heartbeat b = 0
         expect group state=Stable generation=1 members=a,b writes=2",
    );
}

#[test]
fn the_protocol_is_chosen_by_votes_among_what_all_support() {
    check(
        "join a protocols=x:1,range:1,rr:1
         join b protocols=rr:2,range:2
         join c protocols=rr:3,range:3
         sleep 9s
         expect join a protocol=rr generation=1",
    );
    check(
        "join a protocols=range:1,rr:1
         join b protocols=rr:2,range:2
         sleep 6s
         # a draw goes to the earlier member
         expect join b protocol=range",
    );
}

#[test]
fn the_group_size_limit_turns_members_away() {
    check(
        "limit size=2
         join a
         join b
         join c
         expect join c error=81
         sleep 6s
         expect join a members=a,b
         sync a
         join c
         expect join c error=81
         join b
         expect join b error=0
         # lowered: the last to come back has no place any more
         limit size=1
         join a
         expect join a answered=no
         join b
         expect join b error=81
         expect join a generation=2 members=a",
    );
}

#[test]
fn what_cannot_be_stored_is_refused() {
    check(
        "limit bytes=1500
         join a
         sleep 3s
         sync a assign=a:p0
         join b protocols=range:0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789
         expect join b error=81
         heartbeat a = 0",
    );
    check(
        "limit bytes=1100
         join a
         sleep 3s
         sync a assign=a:0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789
         expect sync a error=-1
         expect group state=PreparingRebalance members=a",
    );
}

#[test]
fn the_last_to_leave_empties_the_group() {
    with_two(
        "leave a
         leave b
         expect group state=Empty generation=2 members= type=consumer protocol= leader=
         heartbeat b = 25
         join a id=none
         sleep 3s
         expect join a generation=3 members=a",
    );
    with_two(
        "sleep 10s
         expect group state=Empty generation=2 members=
         expect group writes=3",
    );
}

#[test]
fn many_leave_at_once() {
    with_two(
        "join c
         join a
         join b
         sync a
         leave b x c
         expect leave b error=0 members=0,25,0
         expect group state=PreparingRebalance members=a",
    );
}

#[test]
fn a_client_that_is_gone_does_not_hold_up_the_join() {
    with_two(
        "join c
         join a
         gone c
         heartbeat a = 27
         join b
         # c was new: the generation is formed without it
         expect join a generation=2 members=a,b
         expect group pending=1
         join c
         join a
         join b
         expect join c generation=3",
    );
    with_two(
        "join c
         join a
         gone a
         # a is known: it has a session timeout to come back
         join b
         sleep 9s
         expect join b answered=no
         join a
         expect join b generation=2
         expect join a generation=2 members=a,b,c",
    );
}
