//! Transactions, savepoints and their ends.

use rowlock_model::schedule::SessionId;

use super::lock::{LockMode, LockScope, Tag};
use super::{Object, RelId, Store, VersionId, Xid};
use crate::world::{Digest, World};

/// Who did something: a session, at a nesting level of its transaction (0 is the transaction
/// itself, each open savepoint adds one). What a savepoint did belongs to its parent's level once it
/// is released, and is gone when it is rolled back; so this is enough to know what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The session.
    pub session: SessionId,
    /// The level.
    pub level: u8,
}

/// One nesting level of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Its own transaction id, once it has one, followed by those of released savepoints below it.
    pub xids: Vec<Xid>,
    /// The versions that it inserted, locked, updated or deleted, in order; may repeat.
    pub touched: Vec<VersionId>,
    /// Heaps and indexes that it created; they go when it is rolled back.
    pub created: Vec<RelId>,
    /// Heaps and indexes that it dropped; they go when the transaction commits.
    pub dropped: Vec<RelId>,
    /// Heavyweight locks that it took beyond those of its parents.
    pub locks: Vec<(Tag, LockMode)>,
}

/// The transaction of a session, present also while none is open (then empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xact {
    /// Whose it is.
    pub session: SessionId,
    /// Whether a transaction (explicit, or of a single statement) is open.
    pub open: bool,
    /// The levels, outermost first; never empty while open.
    pub levels: Vec<Level>,
    /// The present command id.
    pub command: u32,
    /// The commit numbers of the snapshots that are kept; each once for every holder.
    pub snapshots: Vec<u64>,
    /// Advisory locks held at session level, once for every time they were taken.
    pub session_locks: Vec<(Tag, LockMode)>,
}

impl Xact {
    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        todo!("{world:?} {digest:?}")
    }
}

impl Store {
    /// The transaction of a session.
    pub fn xact(&self, session: SessionId) -> &Xact {
        todo!("{session:?}")
    }

    pub(super) fn xact_mut(&mut self, session: SessionId) -> &mut Xact {
        todo!("{session:?}")
    }

    /// Opens a transaction.
    ///
    /// # Panics
    /// If one is open.
    pub fn begin(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// Commits: what it wrote becomes visible to snapshots taken from now on, its locks go, waiters
    /// that can go on are granted.
    ///
    /// # Panics
    /// If none is open.
    pub fn commit(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// Rolls the whole transaction back.
    ///
    /// # Panics
    /// If none is open.
    pub fn rollback(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// Opens a savepoint: one more level. Its name is the executor's business.
    pub fn push_level(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// Gives everything of the innermost level to its parent (`RELEASE`).
    ///
    /// # Panics
    /// If no savepoint is open.
    pub fn release_level(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// Undoes everything of the innermost level and closes it. `ROLLBACK TO` is this, for all
    /// levels down to the savepoint's own, followed by [`push_level`](Self::push_level).
    ///
    /// # Panics
    /// If no savepoint is open.
    pub fn rollback_level(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// The transaction id of the innermost level, handed out now if it has none.
    pub fn ensure_xid(&mut self, session: SessionId) -> Xid {
        todo!("{session:?}")
    }

    /// Makes what was written so far visible to the transaction's next commands.
    pub fn advance_command(&mut self, session: SessionId) {
        self.xact_mut(session).command += 1;
    }

    /// Ends a session: rolls back, releases session-level locks, forgets its wait.
    pub fn end_session(&mut self, session: SessionId) {
        let _ = LockScope::Session;
        todo!("{session:?}")
    }

    pub(super) fn settle_commits(&mut self) {
        todo!()
    }
}
