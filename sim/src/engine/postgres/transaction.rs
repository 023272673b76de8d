//! Ends of transactions and sessions, for rows, locks, schema and settings alike.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::session::{Block, Flight, Waiting};
use super::{Store, errors};
use crate::database::{Answer, Request};
use crate::numbers;

/// The process number of a session, as `pg_backend_pid()` gives it.
pub fn pid(session: SessionId) -> i64 {
    numbers::POSTGRES_PROCESS.start + i64::from(session.0)
}

impl Store {
    /// Commits the open transaction of a session.
    pub(super) fn commit_block(&mut self, session: SessionId) {
        if self.has_catalog_edits(session) {
            self.catalog_mut().commit(session);
        }
        self.commit_notifying(session);
        self.commit(session);
        let state = self.session_mut(session);
        state.settings.commit();
        state.close_transaction();
    }

    /// Hands the open transaction of a session over under an identifier, and leaves the block.
    pub(super) fn prepare_block(&mut self, session: SessionId, identifier: &Arc<str>) {
        self.prepare(session, identifier);
        let state = self.session_mut(session);
        state.settings.commit();
        state.close_transaction();
    }

    /// Rolls the transaction back, also a failed one, and leaves the block.
    pub(super) fn abort_block(&mut self, session: SessionId) {
        if self.xact(session).is_open() {
            self.rollback_catalog(session, 0);
            self.rollback(session);
        }
        let state = self.session_mut(session);
        state.settings.abort();
        state.close_transaction();
    }

    /// An error ends the statement: the transaction, or its innermost savepoint, is undone at once; a
    /// block stays open as failed.
    pub(super) fn fail_block(&mut self, session: SessionId) {
        match self.session(session).block {
            Block::Idle | Block::Implicit => self.abort_block(session),
            Block::Open => {
                // Blocks of functions that catch errors, which the error has left.
                while self.xact(session).levels.len() > self.session(session).savepoints.len() + 1 {
                    self.rollback_savepoint(session);
                }
                if self.session(session).savepoints.is_empty() {
                    self.rollback_catalog(session, 0);
                    self.rollback(session);
                    let state = self.session_mut(session);
                    state.settings.abort();
                    state.deferred = Rc::default();
                } else {
                    self.rollback_savepoint(session);
                }
                self.session_mut(session).block = Block::Failed;
            }
            Block::Failed => {}
        }
    }

    /// Undoes the innermost level.
    pub(super) fn rollback_savepoint(&mut self, session: SessionId) {
        let level = (self.xact(session).levels.len() - 1) as u8;
        self.rollback_catalog(session, level);
        self.rollback_level(session);
        let state = self.session_mut(session);
        state.settings.rollback();
        if state.deferred.iter().any(|d| d.level >= level) {
            Rc::make_mut(&mut state.deferred).retain(|d| d.level < level);
        }
    }

    /// Gives the catalogue changes of a released savepoint to its parent, and what it said.
    pub(super) fn release_catalog(&mut self, session: SessionId, level: u8) {
        self.release_notifying(session, level);
        if self.has_catalog_edits(session) {
            self.catalog_mut().release(session, level);
        }
    }

    /// Undoes what the transaction has asked of the catalogue and said to others.
    fn rollback_catalog(&mut self, session: SessionId, level: u8) {
        self.forget_notifying(session, level);
        if self.has_catalog_edits(session) {
            self.catalog_mut().rollback(session, level);
        }
    }

    /// A request that waits is given up with an error.
    pub(super) fn abandon(&mut self, session: SessionId) {
        self.cancel_wait(session);
        self.session_mut(session).flight = None;
        self.fail_block(session);
        self.end_statement(session);
    }

    /// A statement ended, one way or another: what it kept alive for itself is let go.
    pub(super) fn end_statement(&mut self, session: SessionId) {
        let kept = usize::from(
            self.session(session)
                .transaction
                .is_some_and(|t| t.snapshot.is_some()),
        );
        self.keep_snapshots(session, kept);
        self.forget_xmin(session);
    }

    /// Ends a session from the server's side.
    pub(super) fn end(&mut self, session: SessionId, error: DbError) {
        if self.session(session).gone.is_some() {
            return;
        }
        if self.xact(session).is_open() {
            self.rollback_catalog(session, 0);
        }
        self.end_session(session);
        self.stop_listening(session);
        let state = self.session_mut(session);
        state.flight = None;
        state.settings.abort();
        state.close_transaction();
        state.gone = Some(Box::new(error));
    }

    /// Another session's `pg_terminate_backend` or `pg_cancel_backend`; whether there is such a session.
    ///
    /// One that waits gets its answer when it is resumed; an idle one is gone at once, or not
    /// interested in being cancelled.
    pub(super) fn interrupt(&mut self, session: SessionId, error: DbError) -> bool {
        if self.session(session).gone.is_some() {
            return false;
        }
        let fatal = error.code == errors::terminated().code;
        let flight = self.session(session).flight.clone();
        match flight {
            None if fatal => self.end(session, error),
            None => {}
            Some(flight) if matches!(flight.waiting, Waiting::Nothing(_)) && !fatal => {}
            Some(flight) => {
                if fatal {
                    self.end(session, error.clone());
                } else {
                    self.abandon(session);
                }
                let answer = match &flight.request {
                    Request::Exec(..) => Answer::Exec(Err(error)),
                    Request::Batch(_) if fatal => Answer::Batch(Err(error)),
                    Request::Batch(_) => Answer::Batch(Ok(rowlock_model::Batch {
                        replies: flight.replies.clone(),
                        error: Some(error),
                        status: self.session(session).status(),
                    })),
                };
                let state = self.session_mut(session);
                state.flight = Some(Rc::new(Flight {
                    waiting: Waiting::Nothing(Box::new(answer)),
                    ..Flight::clone(&flight)
                }));
            }
        }
        true
    }
}
