//! Visibility, writes, unique keys, savepoints.

use super::*;

const A: SessionId = SessionId(0);
const B: SessionId = SessionId(1);
const C: SessionId = SessionId(2);

#[test]
fn an_update_shows_after_its_commit_and_to_newer_snapshots_only() {
    let mut bench = Bench::new(3, 1);
    bench.store.begin(A);
    bench.store.begin(B);
    bench.store.begin(C);
    let old = bench.store.take_snapshot(C);
    let done = bench.update(&mut statement(A), 1, (1, 11));
    assert!(matches!(done, Ok(WriteOutcome::Done(Some(_)))));
    assert_eq!(bench.read(A, 1), Some(11));
    assert_eq!(bench.read(B, 1), Some(10));
    bench.store.commit(A);
    assert_eq!(bench.read(B, 1), Some(11));
    let seen = bench.see(C, &old, 1).expect("the old version is kept");
    assert_eq!(bench.store.row(seen)[1], Value::Int(10));
    bench.store.drop_snapshot(C, old);
    assert_eq!(bench.read(C, 1), Some(11));
    assert_eq!(bench.store.scan(TABLE).len(), 1, "the old version is gone");
}

#[test]
fn a_rollback_leaves_no_trace() {
    let mut bench = Bench::new(2, 2);
    let before = bench.store.fingerprint();
    bench.store.begin(A);
    bench
        .update(&mut statement(A), 1, (1, 11))
        .expect("no wait");
    bench.delete(&mut statement(A), 2).expect("no wait");
    let mut run = Run::new(A);
    bench.insert(&mut run, 3, 30).expect("no wait");
    assert_ne!(bench.store.fingerprint(), before);
    bench.store.rollback(A);
    assert_eq!(bench.store.fingerprint(), before);
}

#[test]
fn a_statement_does_not_see_its_own_writes() {
    let mut bench = Bench::new(1, 1);
    bench.store.begin(A);
    let snapshot = bench.store.take_snapshot(A);
    let mut run = Run::new(A);
    let version = bench.see(A, &snapshot, 1).expect("the row");
    let first = bench.store.update(
        &mut run,
        &snapshot,
        version,
        row(1, 11),
        RowLock::NoKeyUpdate,
    );
    assert!(matches!(first, Ok(WriteOutcome::Done(Some(_)))));
    assert_eq!(bench.see(A, &snapshot, 1), Some(version));
    let again = bench.store.delete(&mut run, &snapshot, version, false);
    assert_eq!(again, Ok(WriteOutcome::SelfModified(snapshot.cid)));
}

#[test]
fn a_waiting_update_goes_on_by_the_outcome_of_the_first() {
    for commits in [true, false] {
        let mut bench = Bench::new(2, 1);
        bench.store.begin(A);
        bench.store.begin(B);
        bench
            .update(&mut statement(A), 1, (1, 11))
            .expect("no wait");
        let mut waiting = statement(B);
        assert_eq!(bench.update(&mut waiting, 1, (1, 12)), Err(Stop::Wait));
        assert_eq!(bench.store.blockers(B), [A]);
        if commits {
            bench.store.commit(A);
        } else {
            bench.store.rollback(A);
        }
        assert!(bench.store.is_granted(B));
        let outcome = bench.update(&mut waiting, 1, (1, 12));
        if commits {
            assert_eq!(outcome, Ok(WriteOutcome::Updated));
        } else {
            assert!(matches!(outcome, Ok(WriteOutcome::Done(Some(_)))));
        }
    }
}

#[test]
fn a_lock_follows_the_chain_to_its_end() {
    let mut bench = Bench::new(3, 1);
    for session in [A, B, C] {
        bench.store.begin(session);
    }
    bench
        .update(&mut statement(A), 1, (1, 11))
        .expect("no wait");
    let mut waiting = statement(B);
    let policy = WaitPolicy::Block;
    let lock = bench.lock(&mut waiting, 1, RowLock::Update, policy);
    assert_eq!(lock, Err(Stop::Wait));
    bench.store.commit(A);
    bench
        .update(&mut statement(C), 1, (1, 12))
        .expect("C passes by");
    let lock = bench.lock(&mut waiting, 1, RowLock::Update, policy);
    assert_eq!(lock, Err(Stop::Wait));
    assert_eq!(bench.store.blockers(B), [C]);
    bench.store.commit(C);
    let lock = bench.lock(&mut waiting, 1, RowLock::Update, policy);
    let Ok(LockOutcome::LockedNewer(version)) = lock else {
        panic!("{lock:?}")
    };
    assert_eq!(bench.store.row(version)[1], Value::Int(12));
}

#[test]
fn an_insert_of_a_key_in_doubt_waits() {
    // PostgreSQL: the second INSERT waits for the first transaction; 23505 if that commits.
    for commits in [true, false] {
        let mut bench = Bench::new(2, 0);
        bench.store.begin(A);
        bench.store.begin(B);
        bench.insert(&mut Run::new(A), 1, 10).expect("no wait");
        let mut waiting = Run::new(B);
        assert_eq!(bench.insert(&mut waiting, 1, 11), Err(Stop::Wait));
        assert_eq!(bench.store.blockers(B), [A]);
        if commits {
            bench.store.commit(A);
        } else {
            bench.store.rollback(A);
        }
        waiting.rewind();
        let check = bench.insert(&mut waiting, 1, 11);
        match commits {
            true => assert!(matches!(check, Ok(UniqueCheck::Conflict(_)))),
            false => assert_eq!(check, Ok(UniqueCheck::Unique)),
        }
    }
}

#[test]
fn a_key_whose_row_is_being_deleted_is_in_doubt() {
    let mut bench = Bench::new(2, 1);
    bench.store.begin(A);
    bench.store.begin(B);
    bench.delete(&mut statement(A), 1).expect("no wait");
    assert_eq!(
        bench.insert(&mut Run::new(A), 1, 11),
        Ok(UniqueCheck::Unique)
    );
    let mut waiting = Run::new(B);
    assert_eq!(bench.insert(&mut waiting, 1, 12), Err(Stop::Wait));
    bench.store.commit(A);
    waiting.rewind();
    let check = bench.insert(&mut waiting, 1, 12);
    assert!(matches!(check, Ok(UniqueCheck::Conflict(_))), "{check:?}");
}

#[test]
fn rolling_back_to_a_savepoint_restores_the_weaker_lock_and_wakes() {
    let mut bench = Bench::new(2, 1);
    bench.store.begin(A);
    bench.store.begin(B);
    let block = WaitPolicy::Block;
    let lock = bench.lock(&mut statement(A), 1, RowLock::KeyShare, block);
    assert_eq!(lock, Ok(LockOutcome::Locked));
    bench.store.push_level(A);
    bench
        .update(&mut statement(A), 1, (2, 11))
        .expect("no wait");
    let mut waiting = statement(B);
    let lock = bench.lock(&mut waiting, 1, RowLock::NoKeyUpdate, block);
    assert_eq!(lock, Err(Stop::Wait));
    bench.store.rollback_level(A);
    assert!(bench.store.is_granted(B));
    let lock = bench.lock(&mut waiting, 1, RowLock::NoKeyUpdate, block);
    assert_eq!(lock, Ok(LockOutcome::Locked), "KEY SHARE does not conflict");
    let mut deleter = statement(B);
    assert_eq!(bench.delete(&mut deleter, 1), Err(Stop::Wait));
    assert_eq!(bench.store.blockers(B), [A], "the KEY SHARE lock is left");
}

#[test]
fn releasing_a_savepoint_keeps_waiters_waiting_for_the_transaction() {
    let mut bench = Bench::new(2, 1);
    bench.store.begin(A);
    bench.store.begin(B);
    bench.store.push_level(A);
    bench
        .update(&mut statement(A), 1, (1, 11))
        .expect("no wait");
    let mut waiting = statement(B);
    assert_eq!(bench.update(&mut waiting, 1, (1, 12)), Err(Stop::Wait));
    bench.store.release_level(A);
    assert!(bench.store.is_waiting(B));
    bench.store.commit(A);
    assert!(bench.store.is_granted(B));
    assert_eq!(
        bench.update(&mut waiting, 1, (1, 12)),
        Ok(WriteOutcome::Updated)
    );
}

#[test]
fn an_update_carries_the_key_share_lock_of_another() {
    let mut bench = Bench::new(3, 1);
    for session in [A, B, C] {
        bench.store.begin(session);
    }
    let block = WaitPolicy::Block;
    bench
        .lock(&mut statement(A), 1, RowLock::KeyShare, block)
        .expect("no wait");
    bench
        .update(&mut statement(B), 1, (1, 11))
        .expect("KEY SHARE lets it pass");
    bench.store.commit(B);
    let mut deleter = statement(C);
    assert_eq!(bench.delete(&mut deleter, 1), Err(Stop::Wait));
    assert_eq!(bench.store.blockers(C), [A]);
    bench.store.commit(A);
    let deleted = bench.delete(&mut deleter, 1);
    assert_eq!(deleted, Ok(WriteOutcome::Done(None)));
    bench.store.commit(C);
    assert_eq!(bench.store.scan(TABLE).len(), 0);
}

#[test]
fn key_share_passes_by_a_committed_update_of_no_key() {
    let mut bench = Bench::new(2, 1);
    bench.store.begin(A);
    bench.store.begin(B);
    let snapshot = bench.store.take_snapshot(B);
    let old = bench.see(B, &snapshot, 1).expect("the row");
    bench
        .update(&mut statement(A), 1, (1, 11))
        .expect("no wait");
    bench.store.commit(A);
    let mut run = Run::new(B);
    let lock = bench.store.lock_row(
        &mut run,
        &snapshot,
        old,
        RowLock::KeyShare,
        WaitPolicy::Block,
        Follow::select(true),
    );
    assert_eq!(lock, Ok(LockOutcome::Locked));
    // The newer version is locked along.
    let newer = bench.find(B, 1).expect("the newer version");
    assert_eq!(bench.store.version(newer).holders.len(), 1);
}

#[test]
fn versions_between_two_snapshots_do_not_pile_up() {
    let mut bench = Bench::new(2, 1);
    bench.store.begin(B);
    let old = bench.store.take_snapshot(B);
    let mut seen = Vec::new();
    for round in 0..4 {
        bench.store.begin(A);
        bench
            .update(&mut statement(A), 1, (1, 50))
            .expect("no wait");
        bench.store.commit(A);
        assert_eq!(bench.store.scan(TABLE).len(), 2, "round {round}");
        seen.push(bench.store.fingerprint());
    }
    assert!(seen.iter().all(|f| *f == seen[0]), "{seen:?}");
    assert_eq!(bench.read(A, 1), Some(50));
    let kept = bench.see(B, &old, 1).expect("the old version");
    assert_eq!(bench.store.row(kept)[1], Value::Int(10));
}

#[test]
fn truncate_empties_the_table_for_everybody_at_commit() {
    let mut bench = Bench::new(2, 3);
    bench.store.begin(B);
    let old = bench.store.take_snapshot(B);
    let before = bench.store.fingerprint();
    for commits in [false, true] {
        bench.store.begin(A);
        let snapshot = bench.store.take_snapshot(A);
        bench.store.truncate(A, &snapshot, TABLE);
        bench.store.advance_command(A);
        assert_eq!(bench.read(A, 2), None);
        assert!(bench.see(B, &old, 2).is_some());
        if commits {
            bench.store.commit(A);
        } else {
            bench.store.rollback(A);
            assert_eq!(bench.store.fingerprint(), before);
        }
    }
    assert_eq!(bench.see(B, &old, 2), None, "TRUNCATE is not MVCC-safe");
    assert_eq!(bench.store.scan(TABLE).len(), 0);
}
