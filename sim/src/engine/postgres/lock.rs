//! Heavyweight locks.

use rowlock_model::schedule::SessionId;

use super::{Object, Owner, RelId, Run, Stop, Store, VersionId, Xid};
use crate::database::Wait;
use crate::world::{Digest, World};

/// The eight modes, in PostgreSQL's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// An advisory key: one of two separate spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdvisoryKey {
    /// One `bigint`.
    Big(i64),
    /// Two `integer`s.
    Pair(i32, i32),
}

/// What a heavyweight lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tag {
    /// A table, index, view or sequence.
    Relation(RelId),
    /// A row version: the queue of those that want to lock a row which somebody holds.
    Tuple(RelId, VersionId),
    /// The end of a transaction or savepoint.
    Transaction(Xid),
    /// The end of a transaction, with or without a transaction id.
    Virtual(SessionId),
    /// The end of a speculative insertion.
    Speculative(Xid),
    /// An application's own lock.
    Advisory(AdvisoryKey),
}

impl Tag {
    pub(super) fn digest(&self, _world: &World<Object>, _digest: &mut Digest) {
        todo!()
    }
}

/// How long a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockScope {
    /// Until the transaction ends or its savepoint is rolled back.
    Transaction,
    /// Until it is unlocked or the session ends.
    Session,
}

/// What to do when a lock is not to be had at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitPolicy {
    /// Wait.
    Block,
    /// Go on without it (`SKIP LOCKED`, the `try` functions).
    Skip,
    /// Give up (`NOWAIT`); the caller words the error.
    Error,
}

/// A heavyweight lock that somebody holds or waits for.
#[derive(Clone, Debug)]
pub struct LockQueue {}

impl LockQueue {
    pub(super) fn digest(&self, _world: &World<Object>, _digest: &mut Digest) {}
}

/// A row of `pg_locks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldLock {
    /// On what.
    pub tag: Tag,
    /// Whose it is.
    pub session: SessionId,
    /// The mode.
    pub mode: LockMode,
    /// Held, or waited for.
    pub granted: bool,
}

/// A cycle of waits: each session waits for the next, the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each session with what it waits for; the victim first.
    pub cycle: Vec<(SessionId, Tag, LockMode)>,
}

impl Store {
    /// Takes a heavyweight lock for the run's session. `Ok(false)` only with a policy that does not
    /// wait.
    ///
    /// # Errors
    /// [`Stop::Wait`]; 40P01 at once where the queue shows a deadlock already.
    pub fn lock(
        &mut self,
        run: &mut Run,
        tag: Tag,
        mode: LockMode,
        scope: LockScope,
        policy: WaitPolicy,
    ) -> Result<bool, Stop> {
        todo!("{run:?} {tag:?} {mode:?} {scope:?} {policy:?}")
    }

    /// Releases a session-level advisory lock once; `false` if it is not held.
    pub fn unlock(&mut self, session: SessionId, tag: Tag, mode: LockMode) -> bool {
        todo!("{session:?} {tag:?} {mode:?}")
    }

    /// Releases all session-level advisory locks.
    pub fn unlock_all(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// Every lock held and waited for (`pg_locks`), in a stable order.
    pub fn locks(&self) -> Vec<HeldLock> {
        todo!()
    }

    /// Who waits for whom.
    pub fn waits(&self) -> Vec<Wait> {
        todo!()
    }

    /// Whether the session waits, and was not granted yet.
    pub fn is_waiting(&self, session: SessionId) -> bool {
        todo!("{session:?}")
    }

    /// Whether the session was granted what it waited for, and its statement can be run again.
    pub fn is_granted(&self, session: SessionId) -> bool {
        todo!("{session:?}")
    }

    /// The deadlock that the check of a waiting session would find now: one that reordering the
    /// queues cannot solve.
    pub fn deadlock(&self, session: SessionId) -> Option<Deadlock> {
        todo!("{session:?}")
    }

    /// Takes the session's request back, as an error in its wait does (deadlock, timeout, cancel);
    /// waiters behind it may be granted. The statement must not be run again.
    pub fn cancel_wait(&mut self, session: SessionId) {
        todo!("{session:?}")
    }

    /// A person's name for what a lock is on, with relation names from `name`.
    pub fn describe(&self, tag: Tag, name: impl Fn(RelId) -> String) -> String {
        let _ = Owner {
            session: SessionId(0),
            level: 0,
        };
        todo!("{tag:?} {}", name(RelId(0)))
    }
}
