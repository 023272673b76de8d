//! Heavyweight locks: what is locked, in which modes, and who holds and waits.
//!
//! A lock that somebody holds in a strong mode, or that somebody waits for, is a [`LockQueue`]
//! object. The weak modes of relations (AccessShare, RowShare, RowExclusive) do not conflict with
//! each other; while nobody has or wants a stronger one they are only listed in their transaction,
//! so that the statements of different sessions do not touch a common object. The holder of a
//! transaction id is its transaction, so that queue exists only while somebody waits.

mod acquire;
mod deadlock;
mod listing;
mod queue;
mod release;
mod report;

use std::hash::Hash;

use rowlock_model::schedule::SessionId;

pub(super) use self::acquire::{Request, deadlock_error};
pub use self::deadlock::{Deadlock, DeadlockCheck};
pub use self::listing::HeldLock;
pub(super) use self::listing::{SHARED, is_shared};
pub use self::queue::{LockQueue, Waiter};
use super::{Key, Object, RelId, Store, VersionId, Xid};
pub use crate::sql::control::TableLockMode as LockMode;
use crate::world::{Digest, World};

/// A set of modes, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes(pub u16);

impl Modes {
    /// Adds a mode.
    #[must_use]
    pub fn with(self, mode: LockMode) -> Modes {
        Modes(self.0 | 1 << mode as u16)
    }

    /// Whether a mode is in it.
    pub fn has(self, mode: LockMode) -> bool {
        self.0 & 1 << mode as u16 != 0
    }

    /// Whether any mode is in both.
    pub fn meets(self, other: Modes) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether no mode is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The modes that conflict with `mode` (manual, table 13.2).
pub fn conflicts(mode: LockMode) -> Modes {
    use LockMode as M;
    let all = [
        M::AccessShare,
        M::RowShare,
        M::RowExclusive,
        M::ShareUpdateExclusive,
        M::Share,
        M::ShareRowExclusive,
        M::Exclusive,
        M::AccessExclusive,
    ];
    let list: &[LockMode] = match mode {
        M::AccessShare => &all[7..],
        M::RowShare => &all[6..],
        M::RowExclusive => &all[4..],
        M::ShareUpdateExclusive => &all[3..],
        M::Share => &[
            M::RowExclusive,
            M::ShareUpdateExclusive,
            M::ShareRowExclusive,
            M::Exclusive,
            M::AccessExclusive,
        ],
        M::ShareRowExclusive => &all[2..],
        M::Exclusive => &all[1..],
        M::AccessExclusive => &all[..],
    };
    list.iter()
        .fold(Modes::default(), |set, mode| set.with(*mode))
}

/// The name of a mode as `pg_locks` and error details spell it.
pub fn mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::AccessShare => "AccessShareLock",
        LockMode::RowShare => "RowShareLock",
        LockMode::RowExclusive => "RowExclusiveLock",
        LockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
        LockMode::Share => "ShareLock",
        LockMode::ShareRowExclusive => "ShareRowExclusiveLock",
        LockMode::Exclusive => "ExclusiveLock",
        LockMode::AccessExclusive => "AccessExclusiveLock",
    }
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
    /// All indexes of a table, in the mode in which a statement locked it. Never waited for: what
    /// could conflict there is kept out by the table's lock. For `pg_locks` only.
    Indexes(RelId),
    /// A row version: the queue of those that want to lock a row which somebody holds.
    Tuple(RelId, VersionId),
    /// The end of a transaction or savepoint.
    Transaction(Xid),
    /// The end of a transaction, with or without a transaction id.
    Virtual(SessionId),
    /// An application's own lock.
    Advisory(AdvisoryKey),
}

impl Tag {
    /// Adds the tag to a digest: versions by rank, transaction ids by whose they are.
    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        std::mem::discriminant(self).hash(digest);
        match self {
            Tag::Relation(rel) | Tag::Indexes(rel) => rel.hash(digest),
            Tag::Tuple(rel, version) => {
                rel.hash(digest);
                digest.word(Store::rank(world, *version));
            }
            Tag::Transaction(xid) => Store::xid_owner_in(world, *xid).hash(digest),
            Tag::Virtual(session) => session.hash(digest),
            Tag::Advisory(key) => key.hash(digest),
        }
    }

    /// Whether a lock of this mode is one of those that are listed in their transaction only, as
    /// long as nobody has or wants a stronger one.
    fn is_weak(self, mode: LockMode) -> bool {
        matches!(self, Tag::Relation(_)) && mode < LockMode::ShareUpdateExclusive
    }

    fn key(self) -> Key {
        Key::Lock(self)
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

/// What a session waits for, kept in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// The lock.
    pub tag: Tag,
    /// The mode.
    pub mode: LockMode,
    /// Who shall own it once granted.
    pub scope: LockScope,
    /// Granted; the statement was not run again yet.
    pub granted: bool,
    /// Waits are numbered by their beginning.
    pub number: u64,
    /// Versions that the waiting primitive will look at again: they must not be removed.
    pub versions: [Option<VersionId>; 2],
}
