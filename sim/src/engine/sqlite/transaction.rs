//! Transactions and savepoints.

use std::rc::Rc;

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::Sqlite;
use super::foreign_key;
use super::lock::Refused;
use super::session::{Lock, Need, Savepoint};
use super::statement::Halt;
use crate::loose::ast::BeginKind;
use crate::loose::errors;
use crate::trace::Trace;

fn error(message: &str) -> Halt {
    Halt::error(errors::sqlite(1, message))
}

impl Sqlite {
    /// What becomes of a refused lock: with a timeout, and where the busy handler is asked, the
    /// connection waits.
    pub(super) fn refused(
        &self,
        session: SessionId,
        refused: Refused,
        handler: bool,
        need: Need,
    ) -> Halt {
        let timeout = self.session(session).settings.busy_timeout_ms;
        match refused {
            Refused::Busy if handler && timeout > 0 => Halt::Wait(need),
            _ => Halt::error(refused.error()),
        }
    }

    pub(super) fn begin(&mut self, session: SessionId, kind: BeginKind) -> Result<(), Halt> {
        if self.session(session).in_transaction {
            return Err(error("cannot start a transaction within a transaction"));
        }
        if kind != BeginKind::Deferred {
            // Of a second attempt of BEGIN EXCLUSIVE, the lock is there already.
            self.lock_reserved(session)
                .map_err(|refused| self.refused(session, refused, true, Need::Write))?;
            if kind == BeginKind::Exclusive
                && !self.file().wal
                && let Err(refused) = self.lock_exclusive(session)
            {
                let halt = self.refused(session, refused, true, Need::Alone);
                if !matches!(halt, Halt::Wait(_)) {
                    self.rollback(session);
                }
                return Err(halt);
            }
        }
        self.session_mut(session).in_transaction = true;
        Ok(())
    }

    /// `COMMIT`. Busy, the transaction stays open and may be committed again.
    pub(super) fn commit_statement(&mut self, session: SessionId) -> Result<(), Halt> {
        if !self.session(session).in_transaction {
            return Err(error("cannot commit - no transaction is active"));
        }
        self.commit(session)
    }

    /// Ends the transaction, or the statement that is one.
    pub(super) fn commit(&mut self, session: SessionId) -> Result<(), Halt> {
        let state = self.session(session);
        if state.lock < Lock::Reserved {
            self.world.trace.push(Trace::Committed(session, None));
            self.rollback(session);
            return Ok(());
        }
        let dirty = state.dirty;
        if state.settings.foreign_keys
            && let (Some(work), Some((start, _))) = (&state.work, &state.snapshot)
            && foreign_key::violations(work, foreign_key::Which::Deferred, state.settings)
                > foreign_key::violations(start, foreign_key::Which::Deferred, state.settings)
        {
            return Err(Halt::error(foreign_key::failed()));
        }
        if !self.file().wal {
            self.lock_exclusive(session)
                .map_err(|refused| self.refused(session, refused, true, Need::Alone))?;
        }
        if !dirty {
            // Nothing was written; a rollback journal wanted to be alone all the same.
            self.world.trace.push(Trace::Committed(session, None));
            self.rollback(session);
            return Ok(());
        }
        let work = self.session_mut(session).work.take();
        if let Some(work) = &work {
            for table in work.changed_tables(&self.file().image) {
                self.note_table(table, true);
            }
        }
        self.note_commit();
        let file = self.file_mut();
        if let Some(work) = work {
            file.image = Rc::new(work);
        }
        // Pages were written, whatever is on them: snapshots taken before are old.
        file.version += 1;
        let number = Some(file.version);
        self.world.trace.push(Trace::Committed(session, number));
        self.world.counters_mut().committed += 1;
        self.touch_sessions();
        self.rollback(session);
        Ok(())
    }

    /// Ends the transaction and forgets what it did.
    pub(super) fn rollback(&mut self, session: SessionId) {
        let state = self.session(session);
        if state.lock == Lock::None && !state.in_transaction {
            return;
        }
        let wrote = state.lock >= Lock::Reserved;
        // After a commit nothing is open any more.
        self.world.trace.push(Trace::RolledBack(session));
        let state = self.session(session);
        if state.lock != Lock::None {
            self.note_release(session, wrote);
        }
        self.session_mut(session).release();
    }

    pub(super) fn rollback_statement(&mut self, session: SessionId) -> Result<(), Halt> {
        if !self.session(session).in_transaction {
            return Err(error("cannot rollback - no transaction is active"));
        }
        self.rollback(session);
        Ok(())
    }

    pub(super) fn savepoint(&mut self, session: SessionId, name: &str) {
        let state = self.session_mut(session);
        if !state.in_transaction {
            state.in_transaction = true;
            state.begun_by_savepoint = true;
        }
        let work = state.work.clone();
        state.savepoints.push(Savepoint {
            name: name.into(),
            work,
        });
    }

    fn find_savepoint(&self, session: SessionId, name: &str) -> Result<usize, Halt> {
        let savepoints = &self.session(session).savepoints;
        let found = savepoints
            .iter()
            .rposition(|savepoint| savepoint.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| error(&format!("no such savepoint: {name}")))
    }

    /// `ROLLBACK TO`: the locks stay.
    pub(super) fn rollback_to(&mut self, session: SessionId, name: &str) -> Result<(), Halt> {
        let place = self.find_savepoint(session, name)?;
        self.world.trace.push(Trace::Lost("ROLLBACK TO on SQLite"));
        let state = self.session_mut(session);
        state.savepoints.truncate(place + 1);
        state.work = state.savepoints[place].work.clone();
        Ok(())
    }

    /// `RELEASE`: of the savepoint that began the transaction, it is `COMMIT`.
    pub(super) fn release_savepoint(&mut self, session: SessionId, name: &str) -> Result<(), Halt> {
        let place = self.find_savepoint(session, name)?;
        if place == 0 && self.session(session).begun_by_savepoint {
            return self.commit(session);
        }
        self.session_mut(session).savepoints.truncate(place);
        Ok(())
    }

    /// `PRAGMA journal_mode = ..`: the file must be nobody else's.
    pub(super) fn set_journal_mode(&mut self, session: SessionId, wal: bool) -> Result<(), Halt> {
        if self.file().wal == wal {
            return Ok(());
        }
        if self.session(session).in_transaction {
            let message = match wal {
                true => "cannot change into wal mode from within a transaction",
                false => "cannot change out of wal mode from within a transaction",
            };
            return Err(error(message));
        }
        let open = !wal
            && self
                .sessions()
                .any(|other| other != session && self.keeps_log(other));
        self.note_exclusive(session);
        self.note_writer();
        self.note_commit();
        if open || !self.in_the_way(session, Need::Alone).is_empty() {
            return Err(self.refused(session, Refused::Busy, wal, Need::Alone));
        }
        self.file_mut().wal = wal;
        self.session_mut(session).seen_wal = Some(wal);
        Ok(())
    }

    /// Whether a connection keeps the write-ahead log open.
    fn keeps_log(&self, session: SessionId) -> bool {
        let state = self.session(session);
        state.gone.is_none() && state.seen_wal == Some(true)
    }
}

/// The error of a connection that was ended from outside.
pub(super) fn ended() -> DbError {
    DbError::connection_lost("the connection is closed")
}
