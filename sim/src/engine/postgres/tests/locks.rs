//! Row-lock conflicts, heavyweight queues, advisory locks, deadlocks.

use super::*;

const A: SessionId = SessionId(0);
const B: SessionId = SessionId(1);
const C: SessionId = SessionId(2);
const D: SessionId = SessionId(3);
const BLOCK: WaitPolicy = WaitPolicy::Block;
const ALL: [RowLock; 4] = [
    RowLock::KeyShare,
    RowLock::Share,
    RowLock::NoKeyUpdate,
    RowLock::Update,
];

fn begin(bench: &mut Bench, sessions: &[SessionId]) {
    for session in sessions {
        bench.store.begin(*session);
    }
}

fn take(bench: &mut Bench, session: SessionId, tag: Tag, mode: LockMode) -> Result<bool, Stop> {
    let scope = LockScope::Transaction;
    bench
        .store
        .lock(&mut Run::new(session), tag, mode, scope, BLOCK)
}

fn advisory(key: i64) -> Tag {
    Tag::Advisory(AdvisoryKey::Big(key))
}

#[test]
fn all_sixteen_pairs_with_and_without_a_third() {
    // The manual's table 13.3, and the same with the first lock held by two transactions.
    for first in ALL {
        for second in ALL {
            for shared in [false, true] {
                if shared && first >= RowLock::NoKeyUpdate {
                    continue;
                }
                let mut bench = Bench::new(3, 1);
                begin(&mut bench, &[A, B, C]);
                bench
                    .lock(&mut statement(A), 1, first, BLOCK)
                    .expect("free");
                if shared {
                    bench
                        .lock(&mut statement(C), 1, first, BLOCK)
                        .expect("shared");
                }
                let skip = bench.lock(&mut statement(B), 1, second, WaitPolicy::Skip);
                let block = bench.lock(&mut statement(B), 1, second, BLOCK);
                if first.conflicts(second) {
                    assert_eq!(skip, Ok(LockOutcome::WouldBlock), "{first:?} {second:?}");
                    assert_eq!(block, Err(Stop::Wait), "{first:?} {second:?}");
                    assert_eq!(bench.store.blockers(B), [A]);
                } else {
                    assert_eq!(block, Ok(LockOutcome::Locked), "{first:?} {second:?}");
                }
            }
        }
    }
}

#[test]
fn only_the_head_of_the_queue_waits_for_the_transaction() {
    let mut bench = Bench::new(4, 1);
    begin(&mut bench, &[A, B, C, D]);
    bench
        .lock(&mut statement(A), 1, RowLock::Update, BLOCK)
        .expect("free");
    let (mut b, mut c) = (statement(B), statement(C));
    assert_eq!(
        bench.lock(&mut b, 1, RowLock::Update, BLOCK),
        Err(Stop::Wait)
    );
    assert_eq!(
        bench.lock(&mut c, 1, RowLock::Update, BLOCK),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(B), [A]);
    assert_eq!(bench.store.blockers(C), [B]);
    // SKIP LOCKED refuses a row whose queue is taken, holder or not.
    bench.store.commit(A);
    assert!(bench.store.is_granted(B) && bench.store.is_waiting(C));
    let granted = bench.lock(&mut b, 1, RowLock::Update, BLOCK);
    assert_eq!(granted, Ok(LockOutcome::Locked));
    assert!(bench.store.is_granted(C), "B left the queue");
    assert_eq!(
        bench.lock(&mut c, 1, RowLock::Update, BLOCK),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(C), [B]);
}

#[test]
fn key_share_joins_past_a_queued_for_update() {
    let mut bench = Bench::new(3, 1);
    begin(&mut bench, &[A, B, C]);
    bench
        .lock(&mut statement(A), 1, RowLock::Share, BLOCK)
        .expect("free");
    let mut b = statement(B);
    assert_eq!(
        bench.lock(&mut b, 1, RowLock::Update, BLOCK),
        Err(Stop::Wait)
    );
    let joins = bench.lock(&mut statement(C), 1, RowLock::KeyShare, BLOCK);
    assert_eq!(joins, Ok(LockOutcome::Locked));
    bench.store.commit(A);
    assert_eq!(
        bench.lock(&mut b, 1, RowLock::Update, BLOCK),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(B), [C]);
}

#[test]
fn an_upgrade_skips_the_queue() {
    // tuplelock-upgrade-no-deadlock: who holds a lock on the row does not queue for more.
    let mut bench = Bench::new(3, 1);
    begin(&mut bench, &[A, B, C]);
    for session in [A, B] {
        bench
            .lock(&mut statement(session), 1, RowLock::Share, BLOCK)
            .expect("shared");
    }
    let mut c = statement(C);
    assert_eq!(
        bench.lock(&mut c, 1, RowLock::Update, BLOCK),
        Err(Stop::Wait)
    );
    let mut a = statement(A);
    assert_eq!(
        bench.lock(&mut a, 1, RowLock::NoKeyUpdate, BLOCK),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(A), [B]);
    bench.store.commit(B);
    let upgraded = bench.lock(&mut a, 1, RowLock::NoKeyUpdate, BLOCK);
    assert_eq!(upgraded, Ok(LockOutcome::Locked));
}

#[test]
fn what_is_held_suffices_even_if_others_queue() {
    let mut bench = Bench::new(2, 1);
    begin(&mut bench, &[A, B]);
    bench
        .lock(&mut statement(A), 1, RowLock::Update, BLOCK)
        .expect("free");
    let mut b = statement(B);
    assert_eq!(
        bench.lock(&mut b, 1, RowLock::Update, BLOCK),
        Err(Stop::Wait)
    );
    for strength in ALL {
        let again = bench.lock(&mut statement(A), 1, strength, BLOCK);
        assert_eq!(again, Ok(LockOutcome::Locked));
    }
}

#[test]
fn the_try_form_fails_on_a_waiter_too() {
    let mut bench = Bench::new(3, 0);
    begin(&mut bench, &[A, B, C]);
    assert_eq!(take(&mut bench, A, advisory(1), LockMode::Share), Ok(true));
    let waits = take(&mut bench, B, advisory(1), LockMode::Exclusive);
    assert_eq!(waits, Err(Stop::Wait));
    let tried = bench.store.lock(
        &mut Run::new(C),
        advisory(1),
        LockMode::Share,
        LockScope::Session,
        WaitPolicy::Skip,
    );
    assert_eq!(tried, Ok(false), "a waiter counts");
    assert_eq!(
        take(&mut bench, C, advisory(1), LockMode::Share),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(C), [B]);
    bench.store.commit(A);
    assert!(bench.store.is_granted(B) && bench.store.is_waiting(C));
    bench.store.cancel_wait(B);
    bench.store.rollback(B);
    assert!(bench.store.is_granted(C));
}

#[test]
fn advisory_locks_by_session_and_by_transaction() {
    let mut bench = Bench::new(2, 0);
    begin(&mut bench, &[A, B]);
    let lock = |bench: &mut Bench, scope| {
        let mut run = Run::new(A);
        bench
            .store
            .lock(&mut run, advisory(7), LockMode::Exclusive, scope, BLOCK)
    };
    bench.store.push_level(A);
    assert_eq!(lock(&mut bench, LockScope::Transaction), Ok(true));
    let waits = take(&mut bench, B, advisory(7), LockMode::Exclusive);
    assert_eq!(waits, Err(Stop::Wait));
    bench.store.rollback_level(A);
    assert!(bench.store.is_granted(B), "ROLLBACK TO releases it");
    bench.store.cancel_wait(B);
    bench.store.rollback(B);

    // At session level: as many unlocks as locks, whatever the transaction does.
    assert_eq!(lock(&mut bench, LockScope::Session), Ok(true));
    assert_eq!(lock(&mut bench, LockScope::Session), Ok(true));
    bench.store.rollback(A);
    let mode = LockMode::Exclusive;
    begin(&mut bench, &[B]);
    let pair = Tag::Advisory(AdvisoryKey::Pair(0, 7));
    assert_eq!(take(&mut bench, B, pair, mode), Ok(true), "another space");
    assert_eq!(take(&mut bench, B, advisory(7), mode), Err(Stop::Wait));
    assert!(bench.store.unlock(A, advisory(7), mode));
    assert!(bench.store.is_waiting(B));
    assert!(bench.store.unlock(A, advisory(7), mode));
    assert!(bench.store.is_granted(B));
    assert!(!bench.store.unlock(A, advisory(7), mode));
}

#[test]
fn weak_table_locks_are_seen_by_a_strong_one() {
    let mut bench = Bench::new(3, 0);
    begin(&mut bench, &[A, B, C]);
    let table = Tag::Relation(TABLE);
    assert_eq!(take(&mut bench, A, table, LockMode::RowExclusive), Ok(true));
    assert_eq!(take(&mut bench, B, table, LockMode::AccessShare), Ok(true));
    assert_eq!(
        take(&mut bench, C, table, LockMode::AccessExclusive),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(C), [A, B]);
    bench.store.commit(A);
    assert_eq!(bench.store.blockers(C), [B]);
    bench.store.commit(B);
    assert!(bench.store.is_granted(C));
    begin(&mut bench, &[A]);
    assert_eq!(
        take(&mut bench, A, table, LockMode::AccessShare),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(A), [C]);
}

#[test]
fn a_holder_goes_before_those_who_wait_for_it() {
    // LOCK TABLE in ACCESS SHARE by A, ACCESS EXCLUSIVE wanted by B, then A wants ROW EXCLUSIVE:
    // granted at once, for it goes before B.
    let mut bench = Bench::new(3, 0);
    begin(&mut bench, &[A, B, C]);
    let table = Tag::Relation(TABLE);
    assert_eq!(take(&mut bench, A, table, LockMode::AccessShare), Ok(true));
    assert_eq!(
        take(&mut bench, B, table, LockMode::AccessExclusive),
        Err(Stop::Wait)
    );
    assert_eq!(take(&mut bench, A, table, LockMode::RowExclusive), Ok(true));
    assert_eq!(
        take(&mut bench, C, table, LockMode::RowExclusive),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.blockers(C), [B]);
}

#[test]
fn an_upgrade_against_an_upgrade_is_a_deadlock_at_once() {
    // deadlock-simple: both hold ACCESS SHARE, both ask for ACCESS EXCLUSIVE.
    let mut bench = Bench::new(2, 0);
    begin(&mut bench, &[A, B]);
    let table = Tag::Relation(TABLE);
    assert_eq!(take(&mut bench, A, table, LockMode::AccessShare), Ok(true));
    assert_eq!(take(&mut bench, B, table, LockMode::AccessShare), Ok(true));
    assert_eq!(
        take(&mut bench, A, table, LockMode::AccessExclusive),
        Err(Stop::Wait)
    );
    let Err(Stop::Error(error)) = take(&mut bench, B, table, LockMode::AccessExclusive) else {
        panic!("no deadlock");
    };
    assert_eq!(&*error.code, "40P01");
}

#[test]
fn a_wake_up_lets_everybody_through_who_does_not_conflict() {
    let mut bench = Bench::new(4, 0);
    begin(&mut bench, &[A, B, C, D]);
    assert_eq!(
        take(&mut bench, A, advisory(1), LockMode::Exclusive),
        Ok(true)
    );
    assert_eq!(
        take(&mut bench, B, advisory(1), LockMode::Share),
        Err(Stop::Wait)
    );
    assert_eq!(
        take(&mut bench, C, advisory(1), LockMode::Exclusive),
        Err(Stop::Wait)
    );
    assert_eq!(
        take(&mut bench, D, advisory(1), LockMode::Share),
        Err(Stop::Wait)
    );
    bench.store.commit(A);
    assert!(bench.store.is_granted(B));
    assert!(bench.store.is_waiting(C));
    assert!(
        bench.store.is_waiting(D),
        "D conflicts with C, who waits before it"
    );
}

#[test]
fn a_cycle_over_rows_and_advisory_keys_is_a_deadlock_for_each_member() {
    let mut bench = Bench::new(3, 2);
    begin(&mut bench, &[A, B, C]);
    bench.update(&mut statement(A), 1, (1, 11)).expect("free");
    assert_eq!(
        take(&mut bench, B, advisory(1), LockMode::Exclusive),
        Ok(true)
    );
    assert_eq!(
        take(&mut bench, A, advisory(1), LockMode::Exclusive),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.deadlock(A), None);
    assert_eq!(bench.update(&mut statement(B), 1, (1, 12)), Err(Stop::Wait));
    assert_eq!(bench.update(&mut statement(C), 1, (1, 13)), Err(Stop::Wait));
    let order = |deadlock: Option<Deadlock>| {
        let cycle = deadlock.map(|d| d.cycle.into_iter().map(|(s, ..)| s).collect::<Vec<_>>());
        cycle.unwrap_or_default()
    };
    assert_eq!(order(bench.store.deadlock(A)), [A, B]);
    assert_eq!(order(bench.store.deadlock(B)), [B, A]);
    assert_eq!(
        order(bench.store.deadlock(C)),
        [],
        "C waits for the cycle from outside"
    );
    bench.store.cancel_wait(B);
    bench.store.rollback(B);
    assert!(bench.store.is_granted(A));
    assert_eq!(bench.store.deadlock(C), None);
}

#[test]
fn a_soft_deadlock_is_resolved_by_a_reversal() {
    // deadlock-soft: d1 holds a1 in ACCESS SHARE, d2 holds a2 in ACCESS SHARE; e1 waits for ACCESS
    // EXCLUSIVE on a1, e2 on a2; then d1 wants a2 and d2 wants a1, both ACCESS SHARE.
    let mut bench = Bench::new(4, 0);
    let (d1, d2, e1, e2) = (A, B, C, D);
    begin(&mut bench, &[d1, d2, e1, e2]);
    let (a1, a2) = (advisory(1), advisory(2));
    assert_eq!(take(&mut bench, d1, a1, LockMode::AccessShare), Ok(true));
    assert_eq!(take(&mut bench, d2, a2, LockMode::AccessShare), Ok(true));
    assert_eq!(
        take(&mut bench, e1, a1, LockMode::AccessExclusive),
        Err(Stop::Wait)
    );
    assert_eq!(
        take(&mut bench, e2, a2, LockMode::AccessExclusive),
        Err(Stop::Wait)
    );
    assert_eq!(
        take(&mut bench, d1, a2, LockMode::AccessShare),
        Err(Stop::Wait)
    );
    assert_eq!(
        take(&mut bench, d2, a1, LockMode::AccessShare),
        Err(Stop::Wait)
    );
    assert_eq!(bench.store.deadlock(d1), None);
    let DeadlockCheck::Soft(orders) = bench.store.check_deadlock(d1) else {
        panic!("no soft deadlock: {:?}", bench.store.check_deadlock(d1));
    };
    bench.store.reorder_queues(&orders);
    assert!(bench.store.is_granted(d1) || bench.store.is_granted(d2));
    for session in [d1, d2, e1, e2] {
        assert_eq!(bench.store.check_deadlock(session), DeadlockCheck::None);
    }
}
