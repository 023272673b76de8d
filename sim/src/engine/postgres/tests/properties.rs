//! Random operations of three sessions on two rows: undo restores everything, digests kept agree
//! with digests computed afresh, and steps whose footprints do not conflict commute.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::database::Footprint;

const SESSIONS: u8 = 3;

/// What a session does next. A session that waits ignores all but [`Op::Resume`] and [`Op::Cancel`].
#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(i64),
    Update(i64, i64),
    UpdateKey(i64, i64),
    Delete(i64),
    Lock(i64, RowLock, WaitPolicy),
    Advisory(i64, LockMode, LockScope, WaitPolicy),
    Unlock(i64),
    Table(LockMode),
    Savepoint,
    Release,
    RollbackTo,
    Commit,
    Rollback,
    /// Under an identifier that tells the session.
    Prepare,
    /// Ends what a session has prepared.
    Finish(u8, bool),
    Snapshot,
    Resume,
    Cancel,
}

#[derive(Clone, Debug)]
enum Flight {
    Insert(i64, Run),
    Update(Statement, i64, (i64, i64)),
    Delete(Statement, i64),
    Lock(Statement, i64, RowLock, WaitPolicy),
    Heavy(Run, Tag, LockMode, LockScope),
}

/// A bench whose sessions have statements in flight.
struct Drive {
    bench: Bench,
    flights: [Option<Flight>; SESSIONS as usize],
    depth: [u8; SESSIONS as usize],
}

impl Drive {
    fn new() -> Drive {
        Drive {
            bench: Bench::new(SESSIONS, 2),
            flights: [const { None }; SESSIONS as usize],
            depth: [0; SESSIONS as usize],
        }
    }

    /// Whether the session can do this now.
    fn can(&self, session: u8, op: Op) -> bool {
        let waits = self.flights[usize::from(session)].is_some();
        match op {
            Op::Resume => waits && self.bench.store.is_granted(SessionId(session)),
            Op::Cancel => waits,
            _ => !waits,
        }
    }

    /// Carries an operation out, if the session can; gives the outcome as text.
    fn act(&mut self, session: u8, op: Op) -> String {
        let id = SessionId(session);
        let at = usize::from(session);
        let waits = self.flights[at].is_some();
        match op {
            Op::Resume if waits && self.bench.store.is_granted(id) => {
                let Some(flight) = self.flights[at].take() else {
                    return String::new();
                };
                self.fly(at, flight)
            }
            Op::Cancel if waits => {
                self.flights[at] = None;
                self.depth[at] = 0;
                self.bench.store.cancel_wait(id);
                self.bench.store.rollback(id);
                "cancelled".to_owned()
            }
            Op::Resume | Op::Cancel => String::new(),
            _ if waits => String::new(),
            _ => {
                if !self.bench.store.xact(id).is_open() {
                    self.bench.store.begin(id);
                }
                self.start(session, op)
            }
        }
    }

    fn start(&mut self, session: u8, op: Op) -> String {
        let id = SessionId(session);
        let at = usize::from(session);
        let store = &mut self.bench.store;
        match op {
            Op::Insert(key) => self.fly(at, Flight::Insert(key, Run::new(id))),
            Op::Update(key, value) => {
                self.fly(at, Flight::Update(statement(id), key, (key, value)))
            }
            Op::UpdateKey(key, new) => self.fly(at, Flight::Update(statement(id), key, (new, 1))),
            Op::Delete(key) => self.fly(at, Flight::Delete(statement(id), key)),
            Op::Lock(key, strength, policy) => {
                self.fly(at, Flight::Lock(statement(id), key, strength, policy))
            }
            Op::Advisory(key, mode, scope, WaitPolicy::Block) => {
                let tag = Tag::Advisory(AdvisoryKey::Big(key));
                self.fly(at, Flight::Heavy(Run::new(id), tag, mode, scope))
            }
            Op::Advisory(key, mode, scope, policy) => {
                let tag = Tag::Advisory(AdvisoryKey::Big(key));
                let outcome = store.lock(&mut Run::new(id), tag, mode, scope, policy);
                format!("{outcome:?}")
            }
            Op::Unlock(key) => {
                let tag = Tag::Advisory(AdvisoryKey::Big(key));
                store.unlock(id, tag, LockMode::Exclusive).to_string()
            }
            Op::Table(mode) => {
                let tag = Tag::Relation(TABLE);
                self.fly(
                    at,
                    Flight::Heavy(Run::new(id), tag, mode, LockScope::Transaction),
                )
            }
            Op::Savepoint if self.depth[at] < 3 => {
                self.depth[at] += 1;
                store.push_level(id);
                String::new()
            }
            Op::Release if self.depth[at] > 0 => {
                self.depth[at] -= 1;
                store.release_level(id);
                String::new()
            }
            Op::RollbackTo if self.depth[at] > 0 => {
                self.depth[at] -= 1;
                store.rollback_level(id);
                String::new()
            }
            Op::Commit => {
                self.depth[at] = 0;
                store.commit(id);
                String::new()
            }
            Op::Rollback => {
                self.depth[at] = 0;
                store.rollback(id);
                String::new()
            }
            Op::Prepare => {
                self.depth[at] = 0;
                let identifier: Arc<str> = session.to_string().into();
                let checked = store.check_prepare(id, &identifier);
                match checked {
                    Ok(()) => store.prepare(id, &identifier),
                    Err(_) => store.rollback(id),
                }
                format!("{checked:?}")
            }
            Op::Finish(whose, commits) => {
                let done = store.finish_prepared(&whose.to_string(), commits);
                format!("{done:?}")
            }
            Op::Snapshot if store.xact(id).snapshots.is_empty() => {
                store.take_snapshot(id);
                store.snapshot_persists();
                String::new()
            }
            _ => String::new(),
        }
    }

    /// Runs a statement; keeps it if it waits, rolls back if it fails.
    fn fly(&mut self, at: usize, flight: Flight) -> String {
        let bench = &mut self.bench;
        let mut flight = flight;
        let (waits, fails, text) = match &mut flight {
            Flight::Insert(key, run) => {
                run.rewind();
                let outcome = bench.insert(run, *key, 1);
                let fails = !matches!(outcome, Ok(UniqueCheck::Unique));
                (outcome == Err(Stop::Wait), fails, kind(&outcome))
            }
            Flight::Update(statement, key, new) => {
                let outcome = bench.update(statement, *key, *new);
                let waits = outcome == Err(Stop::Wait);
                (waits, outcome.is_err(), kind(&outcome))
            }
            Flight::Delete(statement, key) => {
                let outcome = bench.delete(statement, *key);
                let waits = outcome == Err(Stop::Wait);
                (waits, outcome.is_err(), kind(&outcome))
            }
            Flight::Lock(statement, key, strength, policy) => {
                let outcome = bench.lock(statement, *key, *strength, *policy);
                let waits = outcome == Err(Stop::Wait);
                (waits, outcome.is_err(), kind(&outcome))
            }
            Flight::Heavy(run, tag, mode, scope) => {
                run.rewind();
                let outcome = bench
                    .store
                    .lock(run, *tag, *mode, *scope, WaitPolicy::Block);
                let waits = outcome == Err(Stop::Wait);
                (waits, outcome.is_err(), kind(&outcome))
            }
        };
        if waits {
            self.bench.store.snapshot_persists();
            self.flights[at] = Some(flight);
        } else if fails {
            self.depth[at] = 0;
            self.bench.store.rollback(SessionId(at as u8));
        }
        text
    }

    fn dump(&self) -> String {
        self.bench
            .store
            .world
            .objects()
            .map(|(slot, object)| format!("{slot:?} {object:?}\n"))
            .collect()
    }
}

/// The outcome without version ids, which are not canonical.
fn kind(outcome: &impl std::fmt::Debug) -> String {
    let text = format!("{outcome:?}");
    text.chars()
        .take_while(|c| !"0123456789".contains(*c))
        .collect()
}

fn key() -> impl Strategy<Value = i64> {
    1..=3i64
}

fn strength() -> impl Strategy<Value = RowLock> {
    prop_oneof![
        Just(RowLock::KeyShare),
        Just(RowLock::Share),
        Just(RowLock::NoKeyUpdate),
        Just(RowLock::Update)
    ]
}

fn policy() -> impl Strategy<Value = WaitPolicy> {
    prop_oneof![2 => Just(WaitPolicy::Block), 1 => Just(WaitPolicy::Skip)]
}

fn op() -> impl Strategy<Value = Op> {
    let mode = prop_oneof![Just(LockMode::Share), Just(LockMode::Exclusive)];
    let scope = prop_oneof![Just(LockScope::Transaction), Just(LockScope::Session)];
    let table = prop_oneof![
        Just(LockMode::AccessShare),
        Just(LockMode::RowExclusive),
        Just(LockMode::Share),
        Just(LockMode::AccessExclusive)
    ];
    prop_oneof![
        2 => key().prop_map(Op::Insert),
        4 => (key(), 0..2i64).prop_map(|(key, value)| Op::Update(key, value)),
        1 => (key(), key()).prop_map(|(key, new)| Op::UpdateKey(key, new)),
        2 => key().prop_map(Op::Delete),
        4 => (key(), strength(), policy()).prop_map(|(k, s, p)| Op::Lock(k, s, p)),
        2 => (1..3i64, mode, scope, policy()).prop_map(|(k, m, s, p)| Op::Advisory(k, m, s, p)),
        1 => (1..3i64).prop_map(Op::Unlock),
        1 => table.prop_map(Op::Table),
        1 => Just(Op::Savepoint),
        1 => Just(Op::Release),
        1 => Just(Op::RollbackTo),
        3 => Just(Op::Commit),
        1 => Just(Op::Rollback),
        1 => Just(Op::Prepare),
        2 => (0..SESSIONS, any::<bool>()).prop_map(|(whose, commits)| Op::Finish(whose, commits)),
        1 => Just(Op::Snapshot),
        4 => Just(Op::Resume),
        1 => Just(Op::Cancel),
    ]
}

fn ops(count: usize) -> impl Strategy<Value = Vec<(u8, Op)>> {
    prop::collection::vec((0..SESSIONS, op()), 0..count)
}

/// One step with its footprint, from the present state.
fn step(drive: &mut Drive, session: u8, op: Op) -> (String, Footprint) {
    drive.bench.store.begin_footprint();
    let text = drive.act(session, op);
    (text, drive.bench.store.footprint())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn undo_restores_every_object(before in ops(25), after in ops(25)) {
        let mut drive = Drive::new();
        for (session, op) in before {
            drive.act(session, op);
        }
        let fingerprint = drive.bench.store.fingerprint();
        let dump = drive.dump();
        let mark = drive.bench.store.mark();
        for (session, op) in after {
            drive.act(session, op);
            let kept = drive.bench.store.fingerprint();
            prop_assert_eq!(kept, drive.bench.store.world.fingerprint_from_scratch());
        }
        drive.bench.store.undo_to(mark);
        prop_assert_eq!(drive.dump(), dump);
        prop_assert_eq!(drive.bench.store.fingerprint(), fingerprint);
    }

    #[test]
    fn undo_restores_the_exact_fingerprint_also_if_it_became_exact_since(
        before in ops(10),
        after in ops(10),
    ) {
        let mut drive = Drive::new();
        let start = drive.bench.store.mark();
        for (session, op) in before {
            drive.act(session, op);
            drive.bench.store.fingerprint();
        }
        drive.bench.store.show_numbers();
        let mark = drive.bench.store.mark();
        let fingerprint = drive.bench.store.fingerprint();
        for (session, op) in after {
            drive.act(session, op);
            drive.bench.store.fingerprint();
        }
        drive.bench.store.undo_to(mark);
        prop_assert_eq!(drive.bench.store.fingerprint(), fingerprint);
        drive.bench.store.undo_to(start);
        let kept = drive.bench.store.fingerprint();
        prop_assert_eq!(kept, drive.bench.store.world.fingerprint_from_scratch());
    }

    #[test]
    fn when_all_have_ended_only_rows_and_session_locks_are_left(steps in ops(40)) {
        let mut drive = Drive::new();
        for (session, op) in steps {
            drive.act(session, op);
        }
        for session in 0..SESSIONS {
            drive.bench.store.end_session(SessionId(session));
        }
        for session in 0..SESSIONS {
            let _ = drive.bench.store.finish_prepared(&session.to_string(), session == 0);
        }
        prop_assert_eq!(drive.bench.store.locks(), []);
        prop_assert_eq!(drive.bench.store.queues().count(), 0);
        let items = drive.bench.store.scan(TABLE);
        for item in items.iter() {
            let version = drive.bench.store.version(*item);
            prop_assert_eq!(version.birth, Birth::Settled);
            prop_assert!(version.holders.is_empty() && version.death.is_none());
        }
        prop_assert_eq!(drive.bench.store.index(PKEY).entries.len(), items.len());
    }

    #[test]
    fn steps_without_conflict_commute(
        before in ops(25),
        a in op(),
        b in op(),
        sessions in prop_oneof![Just((0, 1)), Just((1, 2)), Just((2, 0))],
    ) {
        let mut drive = Drive::new();
        for (session, op) in before {
            drive.act(session, op);
        }
        if !drive.can(sessions.0, a) || !drive.can(sessions.1, b) {
            return Ok(());
        }
        let flights = drive.flights.clone();
        let depth = drive.depth;
        let mark = drive.bench.store.mark();
        let (outcome_a, footprint_a) = step(&mut drive, sessions.0, a);
        let (outcome_ab, footprint_ab) = step(&mut drive, sessions.1, b);
        let end_ab = drive.bench.store.fingerprint();
        drive.bench.store.undo_to(mark);
        drive.flights = flights;
        drive.depth = depth;
        let (outcome_b, footprint_b) = step(&mut drive, sessions.1, b);
        if footprint_a.conflicts(&footprint_b) {
            return Ok(());
        }
        let (outcome_ba, footprint_ba) = step(&mut drive, sessions.0, a);
        prop_assert_eq!(outcome_a, outcome_ba, "{:?}", a);
        prop_assert_eq!(outcome_b, outcome_ab, "{:?}", b);
        prop_assert_eq!(end_ab, drive.bench.store.fingerprint());
        let _ = (footprint_ab, footprint_ba);
    }
}
