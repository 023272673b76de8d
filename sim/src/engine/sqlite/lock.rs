//! Who may read, write and commit, and what happens to those who may not.
//!
//! The rules are those of `pager.c` and `wal.c` as seen from outside; [the README](super) tells them.

use rowlock_model::DbError;
use rowlock_model::schedule::SessionId;

use super::Sqlite;
use super::session::{Lock, Need};
use crate::loose::errors;

/// Why a lock is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Others are in the way: `SQLITE_BUSY`.
    Busy,
    /// The snapshot is old: `SQLITE_BUSY_SNAPSHOT`.
    Snapshot,
}

/// `SQLITE_BUSY`.
pub(super) fn busy() -> DbError {
    errors::sqlite(5, "database is locked")
}

/// `SQLITE_BUSY_SNAPSHOT`.
pub(super) fn busy_snapshot() -> DbError {
    errors::sqlite(517, "database is locked")
}

impl Refused {
    pub(super) fn error(self) -> DbError {
        match self {
            Refused::Busy => busy(),
            Refused::Snapshot => busy_snapshot(),
        }
    }
}

impl Sqlite {
    /// Other connections that hold at least this lock, ascending.
    fn others(&self, session: SessionId, least: Lock) -> Vec<SessionId> {
        self.sessions()
            .filter(|other| *other != session && self.session(*other).lock >= least)
            .collect()
    }

    /// Who keeps a connection from what it needs.
    pub(super) fn in_the_way(&self, session: SessionId, need: Need) -> Vec<SessionId> {
        match (need, self.file().wal) {
            (Need::Read, true) => Vec::new(),
            (Need::Read, false) => self.others(session, Lock::Pending),
            (Need::Write, _) => self.others(session, Lock::Reserved),
            (Need::Alone, _) => self.others(session, Lock::Shared),
        }
    }

    /// Begins to read, if the connection does not yet.
    pub(super) fn lock_shared(&mut self, session: SessionId) -> Result<(), Refused> {
        if self.session(session).lock >= Lock::Shared {
            return Ok(());
        }
        self.note_shared(session);
        if !self.in_the_way(session, Need::Read).is_empty() {
            return Err(Refused::Busy);
        }
        let file = self.file();
        let snapshot = (file.image.clone(), file.version);
        let wal = file.wal;
        let state = self.session_mut(session);
        state.lock = Lock::Shared;
        state.snapshot = Some(snapshot);
        state.seen_wal = Some(wal);
        Ok(())
    }

    /// Begins to write, if the connection does not yet. What was begun to read for it is ended again
    /// if that fails.
    pub(super) fn lock_reserved(&mut self, session: SessionId) -> Result<(), Refused> {
        let had = self.session(session).lock;
        if had >= Lock::Reserved {
            return Ok(());
        }
        self.note_writer();
        self.lock_shared(session)?;
        let refused = if !self.in_the_way(session, Need::Write).is_empty() {
            Some(Refused::Busy)
        } else if self.file().wal && self.is_old(session) {
            Some(Refused::Snapshot)
        } else {
            None
        };
        match refused {
            None => {
                self.session_mut(session).lock = Lock::Reserved;
                Ok(())
            }
            Some(refused) => {
                if had == Lock::None {
                    let state = self.session_mut(session);
                    state.lock = Lock::None;
                    state.snapshot = None;
                }
                Err(refused)
            }
        }
    }

    /// Whether something was committed since the connection began to read.
    fn is_old(&self, session: SessionId) -> bool {
        let committed = self.file().version;
        let snapshot = &self.session(session).snapshot;
        snapshot.as_ref().is_some_and(|(_, v)| *v != committed)
    }

    /// Shuts all readers out (rollback journal). Whoever fails keeps `Pending`: no new reader begins.
    pub(super) fn lock_exclusive(&mut self, session: SessionId) -> Result<(), Refused> {
        self.note_exclusive(session);
        let alone = self.in_the_way(session, Need::Alone).is_empty();
        self.session_mut(session).lock = match alone {
            true => Lock::Exclusive,
            false => Lock::Pending,
        };
        match alone {
            true => Ok(()),
            false => Err(Refused::Busy),
        }
    }
}
