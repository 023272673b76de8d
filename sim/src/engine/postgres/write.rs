//! Updates, deletes and unique keys.

use rowlock_model::Row;

use super::index::Key;
use super::{Object, RelId, RowLock, Run, Snapshot, Stop, Store, VersionId};
use crate::world::{Digest, World};

/// What came of an update or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Done; the new version, if it was an update. Its index entries are the caller's next business.
    Done(Option<VersionId>),
    /// A transaction that committed meanwhile updated the version: lock the newest one with
    /// [`Store::lock_row`], re-check the quals on it, and write that (READ COMMITTED), or 40001.
    Updated,
    /// A transaction that committed meanwhile deleted it.
    Deleted,
    /// The own transaction changed it, in its command of this number.
    SelfModified(u32),
    /// Not visible to the own command.
    Invisible,
}

impl WriteOutcome {
    pub(super) fn digest(&self, rank: impl Fn(VersionId) -> u64, digest: &mut Digest) {
        let _ = (rank, digest);
        todo!()
    }
}

/// What came of a unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniqueCheck {
    /// The entry is in the index (or, for a probe, no other row has the key).
    Unique,
    /// This version has the key already: 23505, or `ON CONFLICT`.
    Conflict(VersionId),
}

impl UniqueCheck {
    pub(super) fn digest(&self, rank: impl Fn(VersionId) -> u64, digest: &mut Digest) {
        let _ = (rank, digest);
        todo!()
    }
}

/// Where [`Store::update`] or [`Store::delete`] waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteState {}

impl WriteState {
    pub(super) fn digest(&self, _world: &World<Object>, _digest: &mut Digest) {}
}

/// Where a unique check waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueState {}

impl UniqueState {
    pub(super) fn digest(&self, _world: &World<Object>, _digest: &mut Digest) {}
}

impl Store {
    /// Replaces a version by a new one with `row`. `strength` is [`RowLock::Update`] if the value of
    /// a key column differs, else [`RowLock::NoKeyUpdate`].
    ///
    /// # Errors
    /// [`Stop::Wait`] if another transaction holds the row; a deadlock or a lock timeout when it is
    /// run again.
    pub fn update(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
        row: Row,
        strength: RowLock,
    ) -> Result<WriteOutcome, Stop> {
        todo!("{run:?} {snapshot:?} {version:?} {row:?} {strength:?}")
    }

    /// Deletes a version.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn delete(
        &mut self,
        run: &mut Run,
        snapshot: &Snapshot,
        version: VersionId,
    ) -> Result<WriteOutcome, Stop> {
        todo!("{run:?} {snapshot:?} {version:?}")
    }

    /// Adds the entry of a new version to an index. If the index is unique and an in-progress
    /// transaction decides whether the key is free, waits for its end and looks again. On a
    /// conflict nothing is added; the version stays (the statement fails, or the caller takes it
    /// back with [`retract`](Self::retract)).
    ///
    /// # Errors
    /// [`Stop::Wait`]; a deadlock or a lock timeout when it is run again.
    pub fn index_insert(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
        version: VersionId,
    ) -> Result<UniqueCheck, Stop> {
        todo!("{run:?} {index:?} {key:?} {version:?}")
    }

    /// Looks for a live row with the key, without adding anything: the first step of `ON CONFLICT`.
    /// Waits for in-progress transactions as [`index_insert`](Self::index_insert) does.
    ///
    /// # Errors
    /// As [`index_insert`](Self::index_insert).
    pub fn probe_unique(
        &mut self,
        run: &mut Run,
        index: RelId,
        key: &Key,
    ) -> Result<UniqueCheck, Stop> {
        todo!("{run:?} {index:?} {key:?}")
    }

    /// Takes back a version that the same statement inserted (a failed speculative insertion).
    pub fn retract(&mut self, run: &mut Run, version: VersionId) {
        todo!("{run:?} {version:?}")
    }
}
