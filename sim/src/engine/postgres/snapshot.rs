//! Snapshots: which commits a statement sees.

use std::hash::Hash;

use super::{Object, Store};
use crate::world::{Digest, World};
use rowlock_model::schedule::SessionId;

/// What a statement sees: everything committed up to `csn`, and what its own transaction wrote in
/// commands before `cid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last commit that is seen. Commits are numbered in their order.
    pub csn: u64,
    /// The command of the own transaction that runs under this snapshot; what it writes is stamped
    /// with this number and not seen by itself.
    pub cid: u32,
}

impl Snapshot {
    /// Adds the snapshot to a digest. Which commits it misses is told by the versions that carry
    /// them, so only the command counts.
    pub fn digest(&self, _world: &World<Object>, digest: &mut Digest) {
        self.cid.hash(digest);
    }
}

impl Store {
    /// Takes a snapshot of now for `session` and keeps what it sees alive until
    /// [`drop_snapshot`](Self::drop_snapshot) or the end of the transaction.
    pub fn take_snapshot(&mut self, session: SessionId) -> Snapshot {
        let csn = self.world.counters().csn;
        if self.xact(session).snapshots.is_empty() {
            self.note_xmin(session);
        }
        let xact = self.xact_mut(session);
        xact.snapshots.push(csn);
        Snapshot {
            csn,
            cid: xact.command,
        }
    }

    /// The same view with the transaction's present command id: a later statement of a REPEATABLE
    /// READ transaction sees what earlier ones wrote. Not registered again.
    pub fn renew_snapshot(&self, session: SessionId, snapshot: Snapshot) -> Snapshot {
        Snapshot {
            csn: snapshot.csn,
            cid: self.xact(session).command,
        }
    }

    /// Lets go of a snapshot taken by [`take_snapshot`](Self::take_snapshot); versions that only it
    /// could see are removed.
    pub fn drop_snapshot(&mut self, session: SessionId, snapshot: Snapshot) {
        let snapshots = &mut self.xact_mut(session).snapshots;
        if let Some(at) = snapshots.iter().rposition(|csn| *csn == snapshot.csn) {
            snapshots.remove(at);
            self.forget_xmin(session);
            self.settle_commits();
        }
    }

    /// A statement is analysed under a snapshot of its own already: while it waits for the lock of
    /// its table, views show an `xmin`.
    pub(super) fn note_xmin(&mut self, session: SessionId) {
        if self.has_viewers() && self.xact(session).snapshots.is_empty() {
            self.xact_mut(session).xmin = Some(self.xid_bounds().0);
        }
    }

    /// Once no snapshot is kept, no transaction is kept in mind either.
    pub(super) fn forget_xmin(&mut self, session: SessionId) {
        let xact = self.xact(session);
        if xact.xmin.is_some() && xact.snapshots.is_empty() {
            self.xact_mut(session).xmin = None;
        }
    }

    /// To be called when a snapshot outlives the step that took it (REPEATABLE READ, or a statement
    /// that waits): from then on it depends on the order of commits.
    pub fn snapshot_persists(&mut self) {
        self.world.footprint.read(super::object::name::COMMITS);
    }

    /// The oldest commit number up to which every kept snapshot sees everything, and whether any
    /// snapshot is kept at all.
    pub(super) fn horizon(&self) -> Option<u64> {
        let kept = self
            .sessions()
            .flat_map(|session| &self.xact(session).snapshots);
        kept.min().copied()
    }
}
