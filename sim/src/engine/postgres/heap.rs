//! Tables: versions in the order in which they were appended.

use std::ops::Deref;
use std::rc::Rc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Row, Value};

use super::{Object, RelId, Run, Snapshot, Store, Version, VersionId};
use crate::world::{Digest, World};

/// The versions of a table, in physical order.
#[derive(Clone, Debug)]
pub struct Heap {
    /// Which table.
    pub rel: RelId,
    /// Its versions.
    pub items: Vec<VersionId>,
}

impl Heap {
    pub(super) fn digest(&self, world: &World<Object>, digest: &mut Digest) {
        todo!("{world:?} {digest:?}")
    }
}

/// The versions of a table as they were when a scan began; later changes do not show.
#[derive(Clone, Debug)]
pub struct Items(pub(super) Rc<Object>);

impl Deref for Items {
    type Target = [VersionId];

    fn deref(&self) -> &[VersionId] {
        match &*self.0 {
            Object::Heap(heap) => &heap.items,
            _ => &[],
        }
    }
}

impl Store {
    /// Creates an empty table; gone again if the transaction of `session` is rolled back.
    pub fn create_heap(&mut self, session: SessionId, rel: RelId) {
        todo!("{session:?} {rel:?}")
    }

    /// Drops a table or an index; takes place when the transaction of `session` commits.
    pub fn drop_relation(&mut self, session: SessionId, rel: RelId) {
        todo!("{session:?} {rel:?}")
    }

    /// All versions of a table in physical order, for a sequential scan: the step depends on every
    /// commit that writes the table.
    pub fn scan(&mut self, rel: RelId) -> Items {
        todo!("{rel:?}")
    }

    /// Whether a version is visible under a snapshot of `session`.
    pub fn visible(&mut self, session: SessionId, snapshot: &Snapshot, version: VersionId) -> bool {
        todo!("{session:?} {snapshot:?} {version:?}")
    }

    /// Whether a version is what a command that looks at the newest state sees: not deleted or
    /// updated by anybody committed or by the session itself, and made by a committed transaction or
    /// by the session itself. For foreign keys under REPEATABLE READ, and for properties.
    pub fn live(&mut self, session: Option<SessionId>, version: VersionId) -> bool {
        todo!("{session:?} {version:?}")
    }

    /// The stored columns of a version.
    pub fn row(&self, version: VersionId) -> &Row {
        &self.version(version).row
    }

    /// A version with all that belongs to it.
    pub fn version(&self, version: VersionId) -> &Version {
        match self.world.read(version) {
            Object::Version(version) => version,
            other => panic!("{version:?} is not a version but {other:?}"),
        }
    }

    /// Appends a row. Its index entries are the caller's next business
    /// ([`index_insert`](Self::index_insert), for every index).
    pub fn insert(&mut self, run: &mut Run, rel: RelId, row: Row, cid: u32) -> VersionId {
        todo!("{run:?} {rel:?} {row:?} {cid}")
    }

    /// Rewrites the stored columns of every version of a table, for `ALTER TABLE`. `None` leaves a
    /// row as it is.
    ///
    /// The caller holds AccessExclusive. Undone if the transaction is rolled back.
    pub fn rewrite(
        &mut self,
        session: SessionId,
        rel: RelId,
        change: impl FnMut(&[Value]) -> Option<Row>,
    ) {
        let _ = change;
        todo!("{session:?} {rel:?}")
    }

    /// Removes all rows of a table and their index entries (`TRUNCATE`). The caller holds
    /// AccessExclusive. Undone if the transaction is rolled back.
    pub fn truncate(&mut self, session: SessionId, rel: RelId) {
        todo!("{session:?} {rel:?}")
    }
}
