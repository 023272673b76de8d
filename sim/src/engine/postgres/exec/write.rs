//! `INSERT`, `UPDATE`, `DELETE`.
//!
//! Rows are written one by one, as the source finds them. In READ COMMITTED a row that another
//! transaction changed meanwhile is locked in its newest version, the statement's whole condition is
//! checked again for it, and what is written is computed from it (EvalPlanQual). A row on which
//! somebody held only a lock is written as computed before the wait.

use std::sync::Arc;

use rowlock_model::{Row, Value};

use super::bound::{Around, Bound};
use super::constraint::{changes_index, update_strength};
use super::foreign_key::Event;
use super::partition::Leaf;
use super::select::RowSink;
use super::trigger::{Action, columns_set};
use super::{Exec, Flow, Stop};
use crate::engine::postgres::{
    Follow, LockOutcome, RowLock, VersionId, WaitPolicy, WriteOutcome, errors,
};
use crate::plan::catalog::{Table, Timing};
use crate::plan::expr::Host as _;
use crate::plan::query::{Cte, Source};
use crate::plan::write::{
    Assignment, ConflictAction, Delete, Insert, OnConflict, Returning, Update, Write,
};

impl Exec<'_> {
    /// Runs a write and gives the rows of its `RETURNING` to `sink`. Returns how many rows it
    /// affected.
    pub(super) fn write(
        &mut self,
        write: &Write,
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<u64, Stop> {
        match write {
            Write::Insert(insert) => self.insert(insert, around, sink),
            Write::Update(update) => self.update(update, around, sink),
            Write::Delete(delete) => self.delete(delete, around, sink),
            Write::Merge(merge) => self.merge(merge, around),
        }
    }

    /// The `WITH` of a write, for [`finish_ctes`](Self::finish_ctes).
    pub(super) fn write_with(write: &Write) -> &[Cte] {
        match write {
            Write::Insert(insert) => &insert.with,
            Write::Update(update) => &update.with,
            Write::Delete(delete) => &delete.with,
            Write::Merge(merge) => &merge.with,
        }
    }

    fn insert(
        &mut self,
        insert: &Insert,
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<u64, Stop> {
        self.open_ctes(&insert.with, around);
        let updated = match &insert.conflict {
            Some(OnConflict {
                action: ConflictAction::Update { set, .. },
                ..
            }) => Some(columns_set(set)),
            _ => None,
        };
        self.before_statement(&insert.table, Action::Insert, &[])?;
        if let Some(columns) = &updated {
            self.before_statement(&insert.table, Action::Update, columns)?;
        }
        let mut affected = 0;
        if let Some(source) = &insert.source {
            let scope = around.scope();
            self.query(source, Around::inside(&scope), &mut |exec, row| {
                let bound = [Bound::default(), Bound::computed(row)];
                exec.insert_row(insert, &bound, around, &mut affected, sink)?;
                Ok(Flow::More)
            })?;
        } else {
            let bound = [Bound::default(), Bound::computed([].into())];
            self.insert_row(insert, &bound, around, &mut affected, sink)?;
        }
        if let Some(columns) = &updated {
            self.after_statement(&insert.table, Action::Update, columns);
        }
        self.after_statement(&insert.table, Action::Insert, &[]);
        Ok(affected)
    }

    fn insert_row(
        &mut self,
        insert: &Insert,
        bound: &[Bound],
        around: Around<'_>,
        affected: &mut u64,
        sink: RowSink<'_>,
    ) -> Result<(), Stop> {
        let row = self.project(&insert.values, bound, around)?;
        let (leaf, row) = self.route(&insert.table, row)?;
        let Some(row) = self.before_row(&leaf.table, Action::Insert, &[], None, row)? else {
            return Ok(());
        };
        let row = self.finish_row(&leaf.table, row, around)?;
        self.open_indexes(&leaf.table);
        let written = match &insert.conflict {
            None => Some(self.store_row(&leaf.table, &row, around)?),
            Some(conflict) => self.insert_or(&insert.table, &leaf, conflict, &row, around)?,
        };
        if let Some(version) = written {
            *affected += 1;
            let bound = [self.bind_of(&leaf, version)];
            self.returning(&insert.returning, &bound, around, sink)?;
        }
        Ok(())
    }

    /// The first row of an INSERT locks the indexes of its table until the statement ends.
    fn open_indexes(&mut self, table: &Table) {
        if self.store.has_viewers() && !self.opened.contains(&table.id) {
            self.opened.push(table.id);
        }
    }

    /// Stores a new row with its index entries.
    pub(super) fn store_row(
        &mut self,
        table: &Table,
        row: &Row,
        around: Around<'_>,
    ) -> Result<VersionId, Stop> {
        self.note_insert(table)?;
        let version = self
            .store
            .insert(&mut self.run, &self.snapshot, table.id, Row::clone(row));
        self.index_row(table, row, version, None, &[], around)?;
        self.queue(table, Event::Insert(Row::clone(row)), version);
        self.after_row(table, Action::Insert, &[], None, Some(row))?;
        Ok(version)
    }

    /// SERIALIZABLE: a row is about to be inserted.
    pub(super) fn note_insert(&mut self, table: &Table) -> Result<(), Stop> {
        if self.is_serializable() && !self.run.is_replaying() {
            self.store.ssi_insert(self.session, table.id)?;
        }
        Ok(())
    }

    fn update(
        &mut self,
        update: &Update,
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<u64, Stop> {
        self.open_ctes(&update.with, around);
        let columns = columns_set(&update.set);
        self.before_statement(&update.table, Action::Update, &columns)?;
        let target = &update.source.range[0];
        let mut affected = 0;
        let unread = std::mem::replace(&mut self.unread, 1);
        let found = self.source(&update.source, around, None, &mut |exec, bound| {
            let mut bound = bound.to_vec();
            loop {
                let Some(version) = bound[0].version else {
                    unreachable!("the target of an update is bound")
                };
                let leaf = exec.leaf_of(&update.table, target, version);
                let row = exec.updated_row(update, &leaf, version, &mut bound, around)?;
                let (table, set) = (&update.table, &update.set);
                let outcome = exec.write_updated(table, set, &leaf, version, row, around)?;
                match outcome {
                    Replaced::Done(new) => {
                        affected += 1;
                        bound[0] = exec.bind_written(update, new);
                        exec.returning(&update.returning, &bound, around, sink)?;
                        return Ok(Flow::More);
                    }
                    Replaced::Skip | Replaced::Gone | Replaced::Again => return Ok(Flow::More),
                    Replaced::Newer(newer) => {
                        bound[0] = exec.bind_at(target, newer);
                        if !exec.passes_again(&update.source, &mut bound, around)? {
                            return Ok(Flow::More);
                        }
                    }
                }
            }
        });
        self.unread = unread;
        found?;
        self.after_statement(&update.table, Action::Update, &columns);
        Ok(affected)
    }

    /// The new image of the row bound at entry 0, before triggers and checks. Rows of multiple assignment are appended to
    /// `bound`.
    fn updated_row(
        &mut self,
        update: &Update,
        leaf: &Leaf,
        version: VersionId,
        bound: &mut Vec<Bound>,
        around: Around<'_>,
    ) -> Result<Vec<Value>, Stop> {
        bound.truncate(update.source.range.len());
        for plan in &update.rows {
            let rows = around.with(bound, |scope| self.rows(plan, scope))?;
            let row = match &rows[..] {
                [] => vec![Value::Null; plan.query.columns.len()].into(),
                [row] => Row::clone(row),
                _ => return Err(errors::more_than_one_row().into()),
            };
            bound.push(Bound::computed(row));
        }
        let old = self.store.row(version).to_vec();
        self.assigned(&leaf.own_set(&update.set), old, bound, around)
    }

    /// Writes the new image of a row: triggers, checks, and the way into another partition.
    pub(super) fn write_updated(
        &mut self,
        root: &Arc<Table>,
        set: &[Assignment],
        leaf: &Leaf,
        version: VersionId,
        row: Vec<Value>,
        around: Around<'_>,
    ) -> Result<Replaced, Stop> {
        let table = &leaf.table;
        let set = leaf.own_set(set);
        let mut row = row;
        if !table.triggers.is_empty() {
            let columns = columns_set(&set);
            if table.has_triggers(Timing::Before, true, Action::Update) {
                match self.lock_for_trigger(version, set_strength(table, &set))? {
                    Replaced::Done(_) => {}
                    other => return Ok(other),
                }
            }
            let old = Row::clone(self.store.row(version));
            match self.before_row(table, Action::Update, &columns, Some(&old), row)? {
                Some(changed) => row = changed,
                None => return Ok(Replaced::Skip),
            }
        }
        if table.partition.is_some() && root.partitioned.is_some() {
            self.generate(table, &mut row, around)?;
            let whole: Row = row.clone().into();
            if !self.belongs(table, &whole)? {
                return self.move_row(root, leaf, version, &whole, around);
            }
        }
        let row = self.finish_row(table, row, around)?;
        self.replace(table, &set, version, row, around)
    }

    /// An update takes a row into another partition: it is deleted here and inserted there.
    fn move_row(
        &mut self,
        root: &Arc<Table>,
        leaf: &Leaf,
        version: VersionId,
        row: &Row,
        around: Around<'_>,
    ) -> Result<Replaced, Stop> {
        let table = &leaf.table;
        if table.has_triggers(Timing::Before, true, Action::Delete) {
            match self.lock_for_trigger(version, RowLock::Update)? {
                Replaced::Done(_) => {}
                other => return Ok(other),
            }
            let old = Row::clone(self.store.row(version));
            if !self.before_delete(table, &old)? {
                return Ok(Replaced::Skip);
            }
        }
        let old = Row::clone(self.store.row(version));
        match self.take_away(table, version, true)? {
            Replaced::Done(_) => {}
            other => return Ok(other),
        }
        let new = leaf.ancestors_row(row);
        let (dest, row) = self.route(root, new.to_vec())?;
        let row = self.before_row(&dest.table, Action::Insert, &[], None, row)?;
        let Some(row) = row else {
            return Ok(Replaced::Skip);
        };
        let row = self.finish_row(&dest.table, row, around)?;
        let written = self.store_row(&dest.table, &row, around)?;
        // For keys that refer to the partitioned table, the row was updated.
        let old = leaf.ancestors_row(&old);
        let new = dest.ancestors_row(&row);
        self.queue_update(root, old, new, written, false);
        Ok(Replaced::Done(written))
    }

    /// The row that an update has written, as its `RETURNING` sees it.
    fn bind_written(&self, update: &Update, version: VersionId) -> Bound {
        let target = &update.source.range[0];
        let Some(members) = &target.members else {
            return self.bind(version);
        };
        let stored = self.store.version(version).table;
        if members.iter().any(|m| m.table.id == stored) {
            return self.bind_at(target, version);
        }
        // It went into a partition that the statement did not read.
        let table = self.table(stored);
        let leaf = Leaf {
            map: crate::plan::column_map(&update.table, &table),
            table,
        };
        self.bind_of(&leaf, version)
    }

    /// `row` with the assignments made.
    pub(super) fn assigned(
        &mut self,
        set: &[Assignment],
        mut row: Vec<Value>,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<Vec<Value>, Stop> {
        for assignment in set {
            row[assignment.column] = self.evaluate(&assignment.value, bound, around)?;
        }
        Ok(row)
    }

    /// Replaces a version by a new row, with index entries and foreign-key events.
    pub(super) fn replace(
        &mut self,
        table: &Table,
        set: &[Assignment],
        version: VersionId,
        row: Row,
        around: Around<'_>,
    ) -> Result<Replaced, Stop> {
        let old = Row::clone(self.store.row(version));
        let strength = update_strength(table, &old, &row);
        let own = self.is_own(version);
        let outcome = self.store.update(
            &mut self.run,
            &self.snapshot,
            version,
            Row::clone(&row),
            strength,
        )?;
        match outcome {
            WriteOutcome::Done(new) => {
                let new = new.unwrap_or_else(|| unreachable!("an update makes a version"));
                let in_chain = !changes_index(table, &old, &row);
                if in_chain {
                    self.store.keep_chain(version, new);
                }
                let chain = in_chain.then_some(version);
                self.index_row(table, &row, new, chain, &[], around)?;
                if in_chain {
                    // No index entry is made on the server, so no key is checked.
                    self.rechecks.clear();
                }
                let (before, after) = (Row::clone(&old), Row::clone(&row));
                self.queue_update(table, old, row, new, own);
                let columns = columns_set(set);
                self.after_row(table, Action::Update, &columns, Some(&before), Some(&after))?;
                Ok(Replaced::Done(new))
            }
            WriteOutcome::Updated => self.newest(version, set_strength(table, set), "updated"),
            WriteOutcome::Deleted => self.gone(),
            WriteOutcome::SelfModified(cid) => self.modified_by_self(cid, "updated"),
            WriteOutcome::Invisible => Ok(Replaced::Skip),
        }
    }

    /// The row was changed by a transaction that has committed: the newest version, locked.
    fn newest(
        &mut self,
        version: VersionId,
        strength: RowLock,
        verb: &str,
    ) -> Result<Replaced, Stop> {
        if self.keeps_snapshot() {
            return Err(errors::concurrent_update().into());
        }
        let outcome = self.store.lock_row(
            &mut self.run,
            &self.snapshot,
            version,
            strength,
            WaitPolicy::Block,
            Follow::RECHECK,
        )?;
        match outcome {
            LockOutcome::LockedNewer(newer) => Ok(Replaced::Newer(newer)),
            LockOutcome::Locked => Ok(Replaced::Newer(version)),
            LockOutcome::SelfModified(cid) => self.modified_by_self(cid, verb),
            LockOutcome::Deleted => Ok(Replaced::Gone),
            LockOutcome::Invisible => Ok(Replaced::Skip),
            LockOutcome::Updated | LockOutcome::WouldBlock => {
                unreachable!("a lock that follows and waits does neither")
            }
        }
    }

    fn gone(&self) -> Result<Replaced, Stop> {
        if self.keeps_snapshot() {
            return Err(errors::concurrent_delete().into());
        }
        Ok(Replaced::Gone)
    }

    fn modified_by_self(&self, cid: u32, verb: &str) -> Result<Replaced, Stop> {
        // The same command reached the row twice: the second time does nothing.
        if cid == self.snapshot.cid {
            return Ok(Replaced::Again);
        }
        Err(errors::modified_by_current_command(verb).into())
    }

    /// Checks the whole condition of a write again for one combination of rows.
    pub(super) fn passes_again(
        &mut self,
        source: &Source,
        bound: &mut Vec<Bound>,
        around: Around<'_>,
    ) -> Result<bool, Stop> {
        let fixed = bound.clone();
        let mut passed = false;
        self.source(source, around, Some(&fixed), &mut |_, again| {
            bound.clear();
            bound.extend_from_slice(again);
            passed = true;
            Ok(Flow::Enough)
        })?;
        Ok(passed)
    }

    fn delete(
        &mut self,
        delete: &Delete,
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<u64, Stop> {
        self.open_ctes(&delete.with, around);
        self.before_statement(&delete.table, Action::Delete, &[])?;
        let target = &delete.source.range[0];
        let mut affected = 0;
        let unread = std::mem::replace(&mut self.unread, 1);
        let found = self.source(&delete.source, around, None, &mut |exec, bound| {
            let mut bound = bound.to_vec();
            loop {
                let Some(version) = bound[0].version else {
                    unreachable!("the target of a delete is bound")
                };
                let leaf = exec.leaf_of(&delete.table, target, version);
                let before = leaf
                    .table
                    .has_triggers(Timing::Before, true, Action::Delete);
                let outcome = if before {
                    exec.lock_for_trigger(version, RowLock::Update)?
                } else {
                    Replaced::Done(version)
                };
                let outcome = match outcome {
                    Replaced::Done(_) => {
                        let old = Row::clone(exec.store.row(version));
                        if before && !exec.before_delete(&leaf.table, &old)? {
                            return Ok(Flow::More);
                        }
                        exec.remove(&leaf.table, version)?
                    }
                    other => other,
                };
                match outcome {
                    Replaced::Done(_) => {
                        affected += 1;
                        exec.returning(&delete.returning, &bound, around, sink)?;
                        return Ok(Flow::More);
                    }
                    Replaced::Skip | Replaced::Gone | Replaced::Again => return Ok(Flow::More),
                    Replaced::Newer(newer) => {
                        bound[0] = exec.bind_at(target, newer);
                        if !exec.passes_again(&delete.source, &mut bound, around)? {
                            return Ok(Flow::More);
                        }
                    }
                }
            }
        });
        self.unread = unread;
        found?;
        self.after_statement(&delete.table, Action::Delete, &[]);
        Ok(affected)
    }

    /// Deletes a version, with foreign-key events.
    pub(super) fn remove(&mut self, table: &Table, version: VersionId) -> Result<Replaced, Stop> {
        self.take_away(table, version, false)
    }

    /// Deletes a version; `moving`: the row goes on in another partition.
    fn take_away(
        &mut self,
        table: &Table,
        version: VersionId,
        moving: bool,
    ) -> Result<Replaced, Stop> {
        let old = Row::clone(self.store.row(version));
        let outcome = self
            .store
            .delete(&mut self.run, &self.snapshot, version, moving)?;
        match outcome {
            WriteOutcome::Done(_) => {
                self.queue_delete(table, Row::clone(&old), version, moving);
                self.after_row(table, Action::Delete, &[], Some(&old), None)?;
                Ok(Replaced::Done(version))
            }
            WriteOutcome::Updated => self.newest(version, RowLock::Update, "deleted"),
            WriteOutcome::Deleted => self.gone(),
            WriteOutcome::SelfModified(cid) => self.modified_by_self(cid, "deleted"),
            WriteOutcome::Invisible => Ok(Replaced::Skip),
        }
    }

    fn returning(
        &mut self,
        returning: &Returning,
        bound: &[Bound],
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<(), Stop> {
        if returning.columns.is_empty() {
            return Ok(());
        }
        let row = self.project(&returning.exprs, bound, around)?;
        sink(self, row.into())?;
        Ok(())
    }
}

/// What came of writing a row.
#[derive(Debug)]
pub(super) enum Replaced {
    /// Written; the new version (of a deleted row: the old one).
    Done(VersionId),
    /// This newer version is locked now: check again, and write that.
    Newer(VersionId),
    /// Not written, silently.
    Skip,
    /// Not written: somebody has deleted it.
    Gone,
    /// Not written: the same command has done so before.
    Again,
}

/// The lock that is taken on a row before it is written again: by the columns that are assigned to,
/// whatever their values.
pub(super) fn set_strength(table: &Table, set: &[Assignment]) -> RowLock {
    if set.iter().any(|a| table.is_key_column(a.column)) {
        RowLock::Update
    } else {
        RowLock::NoKeyUpdate
    }
}
