//! The end of transactions: commit, rollback, savepoints, and the purge behind them.

use rowlock_model::Isolation;
use rowlock_model::schedule::SessionId;

use super::key::{Key, Pos};
use super::object::name;
use super::records::{Version, Writer};
use super::shape::{IndexId, IndexShape, Shape};
use super::store::Store;
use super::trx::Undo;
use crate::loose::catalog::TableId;
use crate::trace::Trace;

impl Store {
    /// A transaction that reads or locks something of InnoDB takes part from then on.
    pub fn join(&mut self, session: SessionId, level: Isolation) {
        if !self.trx(session).joined {
            let trx = self.trx_mut(session);
            trx.joined = true;
            trx.level = level;
        }
    }

    /// Opens the transaction's read view if none is open. `keeps`: it outlives the statement.
    pub fn open_view(&mut self, session: SessionId, keeps: bool) -> u64 {
        if let Some(view) = self.trx(session).view {
            return view;
        }
        let view = self.world.counters().commit;
        if keeps {
            self.world.footprint.read(name::COMMITS);
        }
        self.trx_mut(session).view = Some(view);
        self.views_changed();
        view
    }

    /// The statement stops, and its read view stays until it goes on: which one it is decides what it
    /// sees then.
    pub fn view_persists(&mut self, session: SessionId) {
        if self.trx(session).view.is_some() {
            self.world.footprint.read(name::COMMITS);
        }
    }

    /// Closes the transaction's read view.
    pub fn close_view(&mut self, session: SessionId) {
        if self.trx(session).view.is_some() {
            self.trx_mut(session).view = None;
            self.views_changed();
        }
    }

    /// Commits: changes become visible, locks go.
    pub fn commit(&mut self, session: SessionId) {
        let undo = std::mem::take(&mut self.trx_mut(session).undo);
        if undo.is_empty() {
            self.world.trace.push(Trace::Committed(session, None));
        } else {
            self.world.footprint.write(name::COMMITS);
            let counters = self.world.counters_mut();
            counters.commit += 1;
            counters.committed += 1;
            let number = counters.commit;
            self.world
                .trace
                .push(Trace::Committed(session, Some(number)));
            for change in &undo {
                self.stamp(session, change, number);
            }
            let places = undo.iter().map(|change| {
                let (table, index, key) = change.place();
                (table, index, key.clone())
            });
            let places: Vec<_> = places.collect();
            self.server_mut().history.extend(places);
        }
        self.finish(session);
    }

    /// A record that the transaction wrote has a committed newest version from now on. Versions in
    /// between were seen by nobody who looks at committed ones.
    fn stamp(&mut self, session: SessionId, change: &Undo, number: u64) {
        let (_, index, key) = change.place();
        if self.records(index).get(key).and_then(|r| r.holder()) != Some(session) {
            return;
        }
        let record = self.record_mut(index, key, true);
        record.newest.writer = Writer::Committed(number);
        record.older.retain(|v| v.writer != Writer::Active(session));
    }

    /// Undoes everything and gives all locks back.
    pub fn rollback(&mut self, session: SessionId) {
        self.world.trace.push(Trace::RolledBack(session));
        self.undo_changes(session, 0, false);
        self.finish(session);
    }

    fn finish(&mut self, session: SessionId) {
        self.release_locks(session);
        self.close_view(session);
        let trx = self.trx_mut(session);
        trx.joined = false;
        trx.duplicates = false;
    }

    /// Undoes what the transaction did after its first `keep` changes; locks stay.
    pub fn rollback_to(&mut self, session: SessionId, keep: usize) {
        self.undo_changes(session, keep, true);
    }

    fn undo_changes(&mut self, session: SessionId, keep: usize, partial: bool) {
        while self.trx(session).undo.len() > keep {
            match self.trx_mut(session).undo.pop() {
                Some(Undo::Row { table, index, key }) => {
                    self.undo_row(session, table, index, &key, partial);
                }
                Some(Undo::Entry {
                    table,
                    index,
                    key,
                    before: Some(before),
                }) => {
                    *self.record_mut(index, &key, false) = *before;
                    self.server_mut().history.push((table, index, key));
                }
                Some(Undo::Entry {
                    table, index, key, ..
                }) => self.undo_insert(session, table, index, &key, partial),
                None => unreachable!("the length was checked"),
            }
        }
    }

    fn undo_row(
        &mut self,
        session: SessionId,
        table: TableId,
        index: IndexId,
        key: &Key,
        partial: bool,
    ) {
        if partial && self.world.trace.is_on() {
            self.trace_undone(table, index, key);
        }
        if self
            .records(index)
            .get(key)
            .is_some_and(|r| r.older.is_empty())
        {
            self.undo_insert(session, table, index, key, partial);
            return;
        }
        let record = self.record_mut(index, key, false);
        record.newest = record.older.remove(0);
        self.server_mut().history.push((table, index, key.clone()));
    }

    fn undo_insert(
        &mut self,
        session: SessionId,
        table: TableId,
        index: IndexId,
        key: &Key,
        partial: bool,
    ) {
        let shape = self.shape(table);
        let Some(index) = shape.indexes.iter().find(|i| i.id == index) else {
            return;
        };
        let level = self.trx(session).level;
        if partial && self.flavour.partial_rollback_leaves_gaps(level) {
            self.hold_explicitly(session, table, index, &Pos::Record(key.clone()));
        }
        let keeps = partial
            && self
                .flavour
                .partial_rollback_leaves_gaps(Isolation::RepeatableRead);
        self.take_out(&shape, index, key, keeps.then_some(session));
    }

    /// Takes a record out of its index; what was locked of it is locked of the gap from now on. `undone` is
    /// the transaction that undoes its insert and keeps its lock at every level.
    fn take_out(
        &mut self,
        shape: &Shape,
        index: &IndexShape,
        key: &Key,
        undone: Option<SessionId>,
    ) {
        let successor = self.records(index.id).successor(key);
        let pos = Pos::Record(key.clone());
        self.merge_gap(shape.table.id, index, &pos, &successor, undone);
        self.take_record(index.id, key);
    }

    /// Takes records away that nobody can see and nobody waits for, and versions that nobody can
    /// see. The server does this in the background, mostly within milliseconds: here it is done between
    /// steps, as soon as nobody is on the way to such a record.
    pub fn purge(&mut self) {
        if self.server().history.is_empty() {
            return;
        }
        let oldest = self.sessions().filter_map(|s| self.trx(s).view).min();
        let mut history = std::mem::take(&mut self.server_mut().history);
        history.sort();
        history.dedup();
        let mut left = Vec::new();
        for (table, index, key) in history {
            let Some(shape) = self.schema().shape(table).cloned() else {
                continue;
            };
            let Some(index) = shape.indexes.iter().find(|i| i.id == index) else {
                continue;
            };
            let done = if shape.is_clustered(index) {
                self.purge_row(&shape, index, &key, oldest)
            } else {
                self.purge_entry(&shape, index, &key)
            };
            if !done {
                left.push((table, index.id, key));
            }
        }
        self.server_mut().history = left;
    }

    /// Whether nobody waits for a lock on a record.
    fn is_quiet(&mut self, index: IndexId, key: &Key) -> bool {
        let locks = self.locks(index, &Pos::Record(key.clone()));
        if locks.iter().any(|l| l.waiting) {
            return false;
        }
        let pos = Pos::Record(key.clone());
        // Who was granted it just now has not gone on yet.
        !self.sessions().any(|s| {
            let wait = self.trx(s).wait.as_ref();
            wait.is_some_and(|w| w.index == index && w.pos == pos)
        })
    }

    fn purge_row(
        &mut self,
        shape: &Shape,
        index: &IndexShape,
        key: &Key,
        oldest: Option<u64>,
    ) -> bool {
        let Some(record) = self.records(index.id).get(key) else {
            return true;
        };
        let old = |v: &Version| match v.writer {
            Writer::Active(_) => false,
            Writer::Committed(number) => oldest.is_none_or(|oldest| number <= oldest),
        };
        // The first version that everybody sees hides all behind it.
        let kept = record.versions().position(old);
        let surplus = kept.is_some_and(|kept| kept < record.older.len());
        let ghost = kept == Some(0) && record.newest.deleted;
        let clean = record.older.is_empty() && !record.newest.deleted;
        if let Some(kept) = kept.filter(|_| surplus) {
            self.record_mut(index.id, key, false).older.truncate(kept);
        }
        if ghost && self.is_quiet(index.id, key) {
            self.take_out(shape, index, key, None);
            return true;
        }
        clean || (kept == Some(0) && !ghost)
    }

    fn purge_entry(&mut self, shape: &Shape, index: &IndexShape, key: &Key) -> bool {
        let Some(record) = self.records(index.id).get(key) else {
            return true;
        };
        if !record.newest.deleted {
            return true;
        }
        if record.holder().is_some() {
            return false;
        }
        let row_key = record.row_key.clone();
        let row = row_key.and_then(|row| self.records(shape.clustered().id).get(&row));
        let needed = row.is_some_and(|row| {
            let mut versions = row.versions().filter(|v| !v.deleted);
            versions.any(|v| shape.key(index, &v.row) == *key)
        });
        if needed || !self.is_quiet(index.id, key) {
            return false;
        }
        self.take_out(shape, index, key, None);
        true
    }
}
