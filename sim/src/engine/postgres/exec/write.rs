//! `INSERT`, `UPDATE`, `DELETE`.
//!
//! Rows are written one by one, as the source finds them. In READ COMMITTED a row that another
//! transaction changed meanwhile is locked in its newest version, the statement's whole condition is
//! checked again for it, and what is written is computed from it (EvalPlanQual). A row on which
//! somebody held only a lock is written as computed before the wait.

use rowlock_model::{Row, Value};

use super::bound::{Around, Bound};
use super::constraint::{changes_index, update_strength};
use super::foreign_key::Event;
use super::select::RowSink;
use super::{Exec, Flow, Stop};
use crate::engine::postgres::{
    Follow, LockOutcome, RowLock, VersionId, WaitPolicy, WriteOutcome, errors,
};
use crate::plan::catalog::Table;
use crate::plan::expr::Host as _;
use crate::plan::query::{Cte, Source};
use crate::plan::write::{Assignment, Delete, Insert, Returning, Update, Write};

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
        }
    }

    /// The `WITH` of a write, for [`finish_ctes`](Self::finish_ctes).
    pub(super) fn write_with(write: &Write) -> &[Cte] {
        match write {
            Write::Insert(insert) => &insert.with,
            Write::Update(update) => &update.with,
            Write::Delete(delete) => &delete.with,
        }
    }

    fn insert(
        &mut self,
        insert: &Insert,
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<u64, Stop> {
        self.open_ctes(&insert.with, around);
        let mut affected = 0;
        let Some(source) = &insert.source else {
            let bound = [Bound::default(), Bound::computed([].into())];
            self.insert_row(insert, &bound, around, &mut affected, sink)?;
            return Ok(affected);
        };
        let scope = around.scope();
        self.query(source, Around::inside(&scope), &mut |exec, row| {
            let bound = [Bound::default(), Bound::computed(row)];
            exec.insert_row(insert, &bound, around, &mut affected, sink)?;
            Ok(Flow::More)
        })?;
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
        let row = self.finish_row(&insert.table, row, around)?;
        self.open_indexes(&insert.table);
        let written = match &insert.conflict {
            None => Some(self.store_row(&insert.table, &row, around)?),
            Some(conflict) => self.insert_or(&insert.table, conflict, &row, around)?,
        };
        if let Some(version) = written {
            *affected += 1;
            let bound = [self.bind(version)];
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
        self.index_row(table, row, version, &[], around)?;
        self.queue(table, Event::Insert(Row::clone(row)), version);
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
        let mut affected = 0;
        self.source(&update.source, around, None, &mut |exec, bound| {
            let mut bound = bound.to_vec();
            loop {
                let Some(version) = bound[0].version else {
                    unreachable!("the target of an update is bound")
                };
                let row = exec.updated_row(update, &mut bound, around)?;
                let outcome = exec.replace(&update.table, &update.set, version, row, around)?;
                match outcome {
                    Replaced::Done(new) => {
                        affected += 1;
                        bound[0] = exec.bind(new);
                        exec.returning(&update.returning, &bound, around, sink)?;
                        return Ok(Flow::More);
                    }
                    Replaced::Skip => return Ok(Flow::More),
                    Replaced::Newer(newer) => {
                        bound[0] = exec.bind(newer);
                        if !exec.passes_again(&update.source, &mut bound, around)? {
                            return Ok(Flow::More);
                        }
                    }
                }
            }
        })?;
        Ok(affected)
    }

    /// The new image of the row bound at entry 0. Rows of multiple assignment are appended to
    /// `bound`.
    fn updated_row(
        &mut self,
        update: &Update,
        bound: &mut Vec<Bound>,
        around: Around<'_>,
    ) -> Result<Row, Stop> {
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
        let old = match &bound[0].row {
            Some(row) => row.to_vec(),
            None => unreachable!("the target of an update is bound"),
        };
        let new = self.assigned(&update.set, old, bound, around)?;
        self.finish_row(&update.table, new, around)
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
                self.index_row(table, &row, new, &[], around)?;
                if in_chain {
                    // No index entry is made on the server, so no key is checked.
                    self.rechecks.clear();
                }
                self.queue_update(table, old, row, new, own);
                Ok(Replaced::Done(new))
            }
            WriteOutcome::Updated => self.newest(version, set_strength(table, set)),
            WriteOutcome::Deleted => self.gone(),
            WriteOutcome::SelfModified(cid) => self.modified_by_self(cid, "updated"),
            WriteOutcome::Invisible => Ok(Replaced::Skip),
        }
    }

    /// The row was changed by a transaction that has committed: the newest version, locked.
    fn newest(&mut self, version: VersionId, strength: RowLock) -> Result<Replaced, Stop> {
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
            LockOutcome::Deleted | LockOutcome::SelfModified(_) | LockOutcome::Invisible => {
                Ok(Replaced::Skip)
            }
            LockOutcome::Updated | LockOutcome::WouldBlock => {
                unreachable!("a lock that follows and waits does neither")
            }
        }
    }

    fn gone(&self) -> Result<Replaced, Stop> {
        if self.keeps_snapshot() {
            return Err(errors::concurrent_delete().into());
        }
        Ok(Replaced::Skip)
    }

    fn modified_by_self(&self, cid: u32, verb: &str) -> Result<Replaced, Stop> {
        // The same command reached the row twice: the second time does nothing.
        if cid == self.snapshot.cid {
            return Ok(Replaced::Skip);
        }
        Err(errors::modified_by_current_command(verb).into())
    }

    /// Checks the whole condition of a write again for one combination of rows.
    fn passes_again(
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
        let mut affected = 0;
        self.source(&delete.source, around, None, &mut |exec, bound| {
            let mut bound = bound.to_vec();
            loop {
                let Some(version) = bound[0].version else {
                    unreachable!("the target of a delete is bound")
                };
                match exec.remove(&delete.table, version)? {
                    Replaced::Done(_) => {
                        affected += 1;
                        exec.returning(&delete.returning, &bound, around, sink)?;
                        return Ok(Flow::More);
                    }
                    Replaced::Skip => return Ok(Flow::More),
                    Replaced::Newer(newer) => {
                        bound[0] = exec.bind(newer);
                        if !exec.passes_again(&delete.source, &mut bound, around)? {
                            return Ok(Flow::More);
                        }
                    }
                }
            }
        })?;
        Ok(affected)
    }

    /// Deletes a version, with foreign-key events.
    pub(super) fn remove(&mut self, table: &Table, version: VersionId) -> Result<Replaced, Stop> {
        let old = Row::clone(self.store.row(version));
        match self.store.delete(&mut self.run, &self.snapshot, version)? {
            WriteOutcome::Done(_) => {
                self.queue(table, Event::Delete(old), version);
                Ok(Replaced::Done(version))
            }
            WriteOutcome::Updated => self.newest(version, RowLock::Update),
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
