//! Row locks.

use super::{Object, Run, Snapshot, Stop, Store, VersionId, WaitPolicy};
use crate::world::{Digest, World};

/// The four strengths, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowLock {
    /// `FOR KEY SHARE`.
    KeyShare,
    /// `FOR SHARE`.
    Share,
    /// `FOR NO KEY UPDATE`.
    NoKeyUpdate,
    /// `FOR UPDATE`.
    Update,
}

/// What came of asking for a row lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The version that was asked for is locked.
    Locked,
    /// It had been updated; the newest version is locked. Re-check the quals on it.
    LockedNewer(VersionId),
    /// Updated by a transaction that committed, and following was not asked for: 40001 in
    /// REPEATABLE READ.
    Updated,
    /// Deleted by a transaction that committed (the row, or its newest version).
    Deleted,
    /// Changed by the own transaction, in its command of this number: the same command as the
    /// caller's is a silent skip, a later one an error.
    SelfModified(u32),
    /// Not visible to the own command: made by a later one.
    Invisible,
    /// It would have to wait, and must not: skip the row, or 55P03 for `NOWAIT`.
    WouldBlock,
}

impl LockOutcome {
    pub(super) fn digest(&self, rank: impl Fn(VersionId) -> u64, digest: &mut Digest) {
        let _ = (rank, digest);
        todo!()
    }
}

/// Where [`Store::lock_row`] waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLockState {}

impl RowLockState {
    pub(super) fn digest(&self, _world: &World<Object>, _digest: &mut Digest) {}
}

impl Store {
    /// Locks a version for the transaction of the run's session, waiting as `policy` says.
    ///
    /// With `follow` (READ COMMITTED), a version that a committed transaction updated leads to the
    /// newest one, waiting again where needed. Otherwise its update is reported.
    ///
    /// # Errors
    /// [`Stop::Wait`] if it waits; a deadlock or a lock timeout when it is run again.
    pub fn lock_row(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
        strength: RowLock,
        policy: WaitPolicy,
        follow: bool,
    ) -> Result<LockOutcome, Stop> {
        todo!("{run:?} {snapshot:?} {version:?} {strength:?} {policy:?} {follow}")
    }
}
