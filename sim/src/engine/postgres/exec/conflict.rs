//! `INSERT ... ON CONFLICT`.
//!
//! The arbiter indexes are probed first, without storing anything. A free key leads to a speculative
//! insertion, which is taken back if somebody was faster; a taken one to the row that has it, in its
//! newest version: `DO UPDATE` in READ COMMITTED acts on a row that its snapshot cannot see. There is
//! no recheck: if the row is gone or changed once it could be locked, everything starts over.

use rowlock_model::Row;

use super::bound::{Around, Bound};
use super::foreign_key::Event;
use super::partition::Leaf;
use super::trigger::{Action, columns_set};
use super::write::{Replaced, set_strength};
use super::{Exec, Stop, walk};
use crate::engine::postgres::{
    Birth, Follow, LockOutcome, UniqueCheck, VersionId, WaitPolicy, errors,
};
use crate::plan::catalog::{Index, Table};
use crate::plan::expr;
use crate::plan::write::{ConflictAction, OnConflict};

impl Exec<'_> {
    /// Inserts a row or does what the conflict clause says. Returns the version that was written.
    pub(super) fn insert_or(
        &mut self,
        root: &Table,
        leaf: &Leaf,
        conflict: &OnConflict,
        row: &Row,
        around: Around<'_>,
    ) -> Result<Option<VersionId>, Stop> {
        let table = &*leaf.table;
        let arbiters: Vec<usize> = if conflict.arbiters.is_empty() {
            if table.indexes.iter().any(|i| i.unique && i.deferrable) {
                return Err(errors::deferrable_arbiter().into());
            }
            (0..table.indexes.len())
                .filter(|i| table.indexes[*i].unique)
                .collect()
        } else {
            self.own_arbiters(root, table, &conflict.arbiters)
        };
        loop {
            match self.holder_of_key(table, &arbiters, row, around)? {
                None => {
                    if let Some(version) = self.speculate(table, &arbiters, row, around)? {
                        return Ok(Some(version));
                    }
                }
                Some(existing) => match &conflict.action {
                    ConflictAction::Nothing => {
                        self.must_see(existing)?;
                        return Ok(None);
                    }
                    ConflictAction::Update { set, filter } => {
                        let set = &*leaf.own_set(set);
                        if !self.lock_existing(table, set, existing)? {
                            continue;
                        }
                        self.must_see(existing)?;
                        let bound = [
                            self.bind_of(leaf, existing),
                            Bound::computed(leaf.ancestors_row(row)),
                        ];
                        if let Some(filter) = filter {
                            let passes =
                                around.with(&bound, |scope| expr::test(filter, scope, self))?;
                            if passes != Some(true) {
                                return Ok(None);
                            }
                        }
                        let old = self.store.row(existing).to_vec();
                        let new = self.assigned(set, old, &bound, around)?;
                        let old = Row::clone(self.store.row(existing));
                        let columns = columns_set(set);
                        let new =
                            self.before_row(table, Action::Update, &columns, Some(&old), new)?;
                        let Some(new) = new else {
                            return Ok(None);
                        };
                        if table.id != root.id {
                            let mut whole = new.clone();
                            self.generate(table, &mut whole, around)?;
                            if !self.belongs(table, &whole.into())? {
                                return Err(errors::upsert_moves().into());
                            }
                        }
                        let new = self.finish_row(table, new, around)?;
                        return match self.replace(table, set, existing, new, around)? {
                            Replaced::Done(version) => Ok(Some(version)),
                            Replaced::Skip | Replaced::Gone | Replaced::Again => Ok(None),
                            Replaced::Newer(_) => continue,
                        };
                    }
                },
            }
        }
    }

    /// The positions of a partition's indexes that belong to those of the partitioned table.
    fn own_arbiters(&self, root: &Table, table: &Table, arbiters: &[usize]) -> Vec<usize> {
        if root.id == table.id {
            return arbiters.to_vec();
        }
        let wanted: Vec<_> = arbiters.iter().map(|a| root.indexes[*a].id).collect();
        let chain = self.ancestors(table.id);
        let belongs = |index: &&Index| {
            let mut at = index.parent;
            while let Some(id) = at {
                if wanted.contains(&id) {
                    return true;
                }
                let mut indexes = chain.iter().flat_map(|t| &t.indexes);
                at = indexes.find(|i| i.id == id).and_then(|i| i.parent);
            }
            false
        };
        let own = table.indexes.iter().enumerate();
        own.filter(|(_, index)| belongs(index))
            .map(|(i, _)| i)
            .collect()
    }

    /// The live row that has the key of `row` in one of the indexes, if there is one. Waits for
    /// transactions that decide it.
    fn holder_of_key(
        &mut self,
        table: &Table,
        arbiters: &[usize],
        row: &Row,
        around: Around<'_>,
    ) -> Result<Option<VersionId>, Stop> {
        for &arbiter in arbiters {
            let index = &table.indexes[arbiter];
            let Some(key) = self.index_key(index, row, around)? else {
                continue;
            };
            if index.keys.iter().any(|k| walk::calls_routine(&k.expr)) {
                // The server computes the key of the row that it finds, too, and says so.
                while let Some((found, depends)) =
                    self.store.peek_unique(&mut self.run, index.id, &key)
                {
                    let existing = Row::clone(self.store.row(found));
                    self.index_key(index, &existing, around)?;
                    if !depends {
                        return Ok(Some(found));
                    }
                    // Waits, and looks again.
                    self.store.probe_unique(&mut self.run, index.id, &key)?;
                }
                continue;
            }
            let check = self.store.probe_unique(&mut self.run, index.id, &key)?;
            if let UniqueCheck::Conflict(existing) = check {
                return Ok(Some(existing));
            }
        }
        Ok(None)
    }

    /// Stores the row; `None` if another one took an arbiter's key meanwhile.
    fn speculate(
        &mut self,
        table: &Table,
        arbiters: &[usize],
        row: &Row,
        around: Around<'_>,
    ) -> Result<Option<VersionId>, Stop> {
        self.note_insert(table)?;
        let version = self
            .store
            .insert(&mut self.run, &self.snapshot, table.id, Row::clone(row));
        self.store.set_speculative(&mut self.run, version, true);
        if self
            .index_row(table, row, version, None, arbiters, around)?
            .is_some()
        {
            self.store.retract(&mut self.run, version);
            return Ok(None);
        }
        self.store.set_speculative(&mut self.run, version, false);
        self.queue(table, Event::Insert(Row::clone(row)), version);
        self.after_row(table, Action::Insert, &[], None, Some(row))?;
        Ok(Some(version))
    }

    /// Locks the row that has the key; `false` if it changed meanwhile.
    fn lock_existing(
        &mut self,
        table: &Table,
        set: &[crate::plan::write::Assignment],
        existing: VersionId,
    ) -> Result<bool, Stop> {
        let outcome = self.store.lock_row(
            &mut self.run,
            &self.snapshot,
            existing,
            set_strength(table, set),
            WaitPolicy::Block,
            Follow::NONE,
        )?;
        match outcome {
            LockOutcome::Locked => Ok(true),
            LockOutcome::Invisible | LockOutcome::SelfModified(_) => {
                Err(errors::upsert_twice().into())
            }
            LockOutcome::Updated | LockOutcome::LockedNewer(_) if self.keeps_snapshot() => {
                Err(errors::concurrent_update().into())
            }
            LockOutcome::Deleted if self.keeps_snapshot() => {
                Err(errors::concurrent_delete().into())
            }
            LockOutcome::Updated | LockOutcome::LockedNewer(_) | LockOutcome::Deleted => Ok(false),
            LockOutcome::WouldBlock => unreachable!("a lock that waits does not give up"),
        }
    }

    /// REPEATABLE READ: a row that decides the outcome must be in the snapshot, or be the
    /// transaction's own.
    fn must_see(&mut self, existing: VersionId) -> Result<(), Stop> {
        if !self.keeps_snapshot() || self.store.visible(self.session, &self.snapshot, existing) {
            return Ok(());
        }
        let own = match self.store.version(existing).birth {
            Birth::Running { owner, .. } => owner.session == self.session,
            _ => false,
        };
        if own {
            return Ok(());
        }
        Err(errors::concurrent_update().into())
    }
}
