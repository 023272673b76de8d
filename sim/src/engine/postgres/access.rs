//! Small looks at the store that the executor needs.

use rowlock_model::Row;
use rowlock_model::schedule::SessionId;

use super::object::{Key, Object, name};
use super::{RelId, Run, Snapshot, Store, Xid};

impl Store {
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

    /// Keeps only the first `n` snapshots of a session's transaction.
    pub(super) fn keep_snapshots(&mut self, session: SessionId, n: usize) {
        while let Some(&csn) = self.xact(session).snapshots.get(n) {
            let last = *self.xact(session).snapshots.last().unwrap_or(&csn);
            self.drop_snapshot(session, Snapshot { csn: last, cid: 0 });
        }
    }

    /// Whether `CREATE INDEX CONCURRENTLY` on a table would wait: for transactions that have written the
    /// table, and for older snapshots.
    pub(super) fn outlasts_others(&self, session: SessionId, table: RelId) -> bool {
        let writes = super::conflicts(super::LockMode::Share);
        self.sessions()
            .filter(|other| *other != session)
            .any(|other| {
                let modes = self.modes_listed(other, super::Tag::Relation(table));
                writes.meets(modes) || !self.xact(other).snapshots.is_empty()
            })
    }

    /// The oldest transaction id in progress, and the next one to be handed out: what
    /// `pg_snapshot_xmin` and `pg_snapshot_xmax` give for a snapshot taken now.
    pub(super) fn xid_bounds(&mut self) -> (Xid, Xid) {
        self.world.footprint.read(name::XIDS);
        let next = Xid(self.world.counters().xid + 1);
        let oldest = self
            .sessions()
            .map(|session| self.xact(session))
            .flat_map(|xact| &xact.levels)
            .flat_map(|level| &level.xids)
            .min()
            .copied();
        (oldest.unwrap_or(next), next)
    }
}

impl Run {
    /// Whether the statement waits for a table's lock, and has only been granted such so far.
    pub(super) fn waits_for_table(&self) -> bool {
        let is_lock = matches!(self.position(), Some(super::Suspended::Lock(..)));
        let granted = |entry: &super::Entry| matches!(entry, super::Entry::Granted(_));
        is_lock && self.entries().iter().all(granted)
    }
}
