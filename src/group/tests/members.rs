//! Member ids that must be known (KIP-394), and how they expire.

use super::check;

#[test]
fn b097_a_new_member_comes_back_with_its_id() {
    check(
        "join a v=4
         expect join a error=79 generation=-1 id=a-2
         expect group state=Empty pending=1 members=
         sleep 3s
         join a v=4
         expect group state=PreparingRebalance pending=0 members=a
         sleep 3s
         expect join a error=0 generation=1 id=a-2
         # before version 4 nobody is sent away
         join b v=3
         expect join b answered=no",
    );
}

#[test]
fn b097_an_id_is_kept_for_the_session_timeout_and_no_longer() {
    check(
        "join a v=5 session=10s
         sleep 9999ms
         join a v=5
         expect join a answered=no",
    );
    check(
        "join a v=5 session=10s
         sleep 10s
         expect group pending=0
         join a v=5
         expect join a error=25",
    );
}

#[test]
fn b096_an_id_that_is_not_used_holds_up_a_join_only_briefly() {
    check(
        "join a v=4
         join a v=4
         sleep 3s
         expect join a generation=1
         sync a
         join dropped v=4
         expect join dropped error=79
         join b v=4
         join b v=4
         join a v=4
         sleep 2999ms
         expect join b answered=no
         sleep 1ms
         expect join b generation=2
         expect join a members=a,b
         # its owner may still come
         join dropped v=4
         expect join dropped answered=no",
    );
}

#[test]
fn a_member_that_comes_back_quickly_is_part_of_the_rebalance() {
    check(
        "join a v=4
         join a v=4
         sleep 3s
         sync a
         join b v=4
         join c v=4
         join b v=4
         join a v=4
         expect join a answered=no
         join c v=4
         expect join a generation=2 members=a,b,c",
    );
}

#[test]
fn a_pending_member_can_leave() {
    check(
        "join a v=4
         leave a
         expect leave a error=0 members=0
         expect group pending=0 state=Empty writes=0",
    );
}

#[test]
fn an_unknown_member_id_is_refused() {
    check(
        "join a id=stranger
         expect join a error=25 id=stranger
         expect group state=Empty",
    );
}

#[test]
fn a_new_member_is_given_up_after_five_minutes() {
    check(
        "join a
         sleep 3s
         sync a
         join b
         sleep 299s beating=a
         # the rebalance timeout made a lose its place long ago, and b its first generation
         expect join b generation=2 members=b",
    );
    check(
        "join a rebalance=900s
         sleep 3s
         sync a
         join b rebalance=900s
         sleep 299s beating=a
         expect join b answered=no
         sleep 1s beating=a
         expect join b error=25",
    );
}

#[test]
fn ids_are_not_given_out_without_end() {
    let mut script = String::new();
    for number in 0..crate::limits::PENDING_MEMBERS_MAX {
        script.push_str(&format!("join x{number} v=4\n"));
    }
    check(&format!(
        "{script} join a v=4\n expect join a error=81\n sleep 10s\n join a v=4 id=none\n expect join a error=79"
    ));
}
