//! Tests of the storage half, on a table of one key and one value column.

mod locks;
mod properties;
mod rows;
mod tables;

use std::rc::Rc;

use rowlock_model::Value;
use rowlock_model::schedule::SessionId;

use super::*;

pub(super) const TABLE: RelId = RelId(100);
pub(super) const PKEY: RelId = RelId(101);

/// A server with sessions 0 .. n-1 and a table that has rows (1, 10), (2, 20), ...
pub(super) struct Bench {
    pub(super) store: Store,
}

impl Bench {
    pub(super) fn new(sessions: u8, rows: i64) -> Bench {
        let mut bench = Bench {
            store: Store::new(0),
        };
        for _ in 0..sessions {
            bench.store.open_session(SessionState::default());
        }
        let s = SessionId(0);
        bench.store.begin(s);
        bench.store.create_heap(s, TABLE);
        bench.store.create_index(
            s,
            IndexShape {
                rel: PKEY,
                table: TABLE,
                unique: true,
                nulls_not_distinct: false,
                order: Rc::from([(false, false)]),
            },
        );
        let mut run = Run::new(s);
        for key in 1..=rows {
            let inserted = bench.insert(&mut run, key, key * 10);
            assert_eq!(inserted, Ok(UniqueCheck::Unique));
        }
        bench.store.commit(s);
        bench
    }

    /// Inserts a row with its index entry, as one statement of the run's session.
    pub(super) fn insert(
        &mut self,
        run: &mut Run,
        key: i64,
        value: i64,
    ) -> Result<UniqueCheck, Stop> {
        let snapshot = self.store.take_snapshot(run.session);
        let version = self.store.insert(run, &snapshot, TABLE, row(key, value));
        let check = self
            .store
            .index_insert(run, PKEY, &Rc::from([Value::Int(key)]), version);
        if check != Err(Stop::Wait) {
            self.store.drop_snapshot(run.session, snapshot);
            self.store.advance_command(run.session);
        }
        check
    }

    /// The version with this key that the session's new snapshot sees.
    pub(super) fn find(&mut self, session: SessionId, key: i64) -> Option<VersionId> {
        let snapshot = self.store.take_snapshot(session);
        let found = self.see(session, &snapshot, key);
        self.store.drop_snapshot(session, snapshot);
        found
    }

    /// The version with this key that a snapshot sees.
    pub(super) fn see(
        &mut self,
        session: SessionId,
        snapshot: &Snapshot,
        key: i64,
    ) -> Option<VersionId> {
        let versions = self.store.index_lookup(PKEY, &[Value::Int(key)], false);
        let mut seen = versions
            .into_iter()
            .filter(|v| self.store.visible(session, snapshot, *v));
        let found = seen.next();
        assert_eq!(
            seen.next(),
            None,
            "a snapshot sees two versions of row {key}"
        );
        found
    }

    /// The value that a new statement of the session reads.
    pub(super) fn read(&mut self, session: SessionId, key: i64) -> Option<i64> {
        let found = self.find(session, key)?;
        self.store.row(found)[1].as_int()
    }

    /// Updates the value of a row that a new snapshot sees. A key update if `new_key` differs.
    pub(super) fn update(
        &mut self,
        statement: &mut Statement,
        key: i64,
        new: (i64, i64),
    ) -> Result<WriteOutcome, Stop> {
        let session = statement.run.session;
        let snapshot = *statement
            .snapshot
            .get_or_insert_with(|| self.store.take_snapshot(session));
        statement.run.rewind();
        let Some(version) = self.see(session, &snapshot, key) else {
            self.end(statement);
            return Ok(WriteOutcome::Deleted);
        };
        let strength = if key == new.0 {
            RowLock::NoKeyUpdate
        } else {
            RowLock::Update
        };
        let run = &mut statement.run;
        let outcome = self
            .store
            .update(run, &snapshot, version, row(new.0, new.1), strength);
        if let Ok(WriteOutcome::Done(Some(version))) = outcome {
            let key: IndexKeyValues = Rc::from([Value::Int(new.0)]);
            let check = self.store.index_insert(run, PKEY, &key, version);
            if check == Err(Stop::Wait) {
                return Err(Stop::Wait);
            }
            if check != Ok(UniqueCheck::Unique) {
                return Err(rowlock_model::DbError::postgres("23505", "duplicate").into());
            }
        }
        if outcome != Err(Stop::Wait) {
            self.end(statement);
        }
        outcome
    }

    /// Deletes a row that a new snapshot sees.
    pub(super) fn delete(
        &mut self,
        statement: &mut Statement,
        key: i64,
    ) -> Result<WriteOutcome, Stop> {
        let session = statement.run.session;
        let snapshot = *statement
            .snapshot
            .get_or_insert_with(|| self.store.take_snapshot(session));
        statement.run.rewind();
        let Some(version) = self.see(session, &snapshot, key) else {
            self.end(statement);
            return Ok(WriteOutcome::Deleted);
        };
        let outcome = self
            .store
            .delete(&mut statement.run, &snapshot, version, false);
        if outcome != Err(Stop::Wait) {
            self.end(statement);
        }
        outcome
    }

    /// Locks a row that a new snapshot sees.
    pub(super) fn lock(
        &mut self,
        statement: &mut Statement,
        key: i64,
        strength: RowLock,
        policy: WaitPolicy,
    ) -> Result<LockOutcome, Stop> {
        let session = statement.run.session;
        let snapshot = *statement
            .snapshot
            .get_or_insert_with(|| self.store.take_snapshot(session));
        statement.run.rewind();
        let Some(version) = self.see(session, &snapshot, key) else {
            self.end(statement);
            return Ok(LockOutcome::Deleted);
        };
        let outcome = self.store.lock_row(
            &mut statement.run,
            &snapshot,
            version,
            strength,
            policy,
            Follow::select(true),
        );
        if outcome != Err(Stop::Wait) {
            self.end(statement);
        }
        outcome
    }

    fn end(&mut self, statement: &mut Statement) {
        let session = statement.run.session;
        if let Some(snapshot) = statement.snapshot.take() {
            self.store.drop_snapshot(session, snapshot);
        }
        self.store.advance_command(session);
    }
}

/// A statement in flight.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) run: Run,
    pub(super) snapshot: Option<Snapshot>,
}

pub(super) fn statement(session: SessionId) -> Statement {
    Statement {
        run: Run::new(session),
        snapshot: None,
    }
}

pub(super) fn row(key: i64, value: i64) -> rowlock_model::Row {
    [Value::Int(key), Value::Int(value)].into()
}
