//! Small looks at the store that the executor needs.

use rowlock_model::Row;
use rowlock_model::schedule::SessionId;

use super::object::{Key, Object};
use super::{Catalog, RelId, Run, Snapshot, Store, Xid};
use crate::database::Wait;

impl Store {
    /// The server's clock; not recorded as a read, for whoever drives the server.
    pub(super) fn clock(&self) -> i64 {
        match self.world.find(Key::Server).map(|s| self.world.read(s)) {
            Some(Object::Server(server)) => server.now_micros,
            _ => unreachable!("every world has its server"),
        }
    }

    /// The schema; not recorded as a read.
    pub(super) fn catalog_unrecorded(&self) -> &Catalog {
        match self.world.find(Key::Catalog).map(|s| self.world.read(s)) {
            Some(Object::Catalog(catalog)) => catalog,
            _ => unreachable!("every world has its catalogue"),
        }
    }

    /// Whether the open transaction of a session has changed the schema.
    pub(super) fn has_catalog_edits(&self, session: SessionId) -> bool {
        self.catalog_unrecorded().has_edits(session)
    }

    /// The rows of all versions of a table; not recorded as a read.
    pub(super) fn rows_unrecorded(&self, rel: RelId) -> impl Iterator<Item = &Row> {
        let items = match self.world.find(Key::Heap(rel)).map(|s| self.world.read(s)) {
            Some(Object::Heap(heap)) => &heap.items[..],
            _ => &[],
        };
        items.iter().map(|version| self.row(*version))
    }

    /// Who waits for whom, with relation names from `name`.
    pub(super) fn waits_named(&self, name: impl Fn(RelId) -> String) -> Vec<Wait> {
        let _ = name;
        self.waits()
    }

    /// Keeps only the first `n` snapshots of a session's transaction.
    pub(super) fn keep_snapshots(&mut self, session: SessionId, n: usize) {
        while let Some(&csn) = self.xact(session).snapshots.get(n) {
            let last = *self.xact(session).snapshots.last().unwrap_or(&csn);
            self.drop_snapshot(session, Snapshot { csn: last, cid: 0 });
        }
    }

    /// The oldest transaction id in progress, and the next one to be handed out: what
    /// `pg_snapshot_xmin` and `pg_snapshot_xmax` give for a snapshot taken now.
    pub(super) fn xid_bounds(&self) -> (Xid, Xid) {
        let next = Xid(self.world.counters().xid + 1);
        let oldest = (0..self.session_count())
            .map(|s| self.xact(SessionId(s)))
            .filter(|xact| xact.open)
            .flat_map(|xact| &xact.levels)
            .flat_map(|level| &level.xids)
            .min()
            .copied();
        (oldest.unwrap_or(next), next)
    }
}

impl Run {
    /// Whether nothing but lock grants has been recorded.
    pub(super) fn holds_only_locks(&self) -> bool {
        self.entries()
            .iter()
            .all(|entry| matches!(entry, super::Entry::Granted(_)))
    }
}
