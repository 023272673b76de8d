//! One statement over one image: rows, constraints, conflicts.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Dialect, Row, Value};

use super::choose;
use super::image::{Image, master_rows};
use super::session::{Counts, Settings};
use super::tracing::Tracing;
use crate::loose::catalog::VirtualTable;
use crate::loose::catalog::{ConflictAction, ForeignKey, Index, KeyPart, Table, TableId};
use crate::loose::errors;
use crate::loose::eval::Tuple;
use crate::loose::expr::{Comparison, Expr, HostFunction};
use crate::loose::plan::{Upsert, UpsertTarget};
use crate::loose::run::Executor;
use crate::loose::storage::{
    Access, Candidate, Choice, Host, Inserted, NewRow, Scan, SourcePlan, Stop, Storage, StoredRow,
};
use crate::loose::value::{compare, truth};
use crate::trace::{Condition, Sees, Trace};

/// Milliseconds from the beginning of Julian days to 1970-01-01.
const EPOCH_JULIAN_MS: i64 = 210_866_760_000_000;

/// What a statement works on. It is given an image and changes it; whoever gave it decides what
/// becomes of it.
#[derive(Debug)]
pub(super) struct Exec<'a> {
    pub(super) image: Image,
    pub(super) args: &'a [Value],
    pub(super) now_micros: i64,
    pub(super) settings: Settings,
    pub(super) counts: Counts,
    /// What the constraint that refused asks for.
    pub(super) action: Option<ConflictAction>,
    /// Tables read and written.
    pub(super) reads: BTreeSet<TableId>,
    pub(super) writes: BTreeSet<TableId>,
    /// The clock was read.
    pub(super) read_clock: bool,
    /// How deep actions of foreign keys are nested.
    pub(super) depth: u32,
    /// What it reads and writes, if somebody wants to know.
    pub(super) tracing: Option<Tracing>,
    /// Rows that the statement has written so far.
    pub(super) done: i64,
}

/// A scan: the rowids in their order, and how many are read.
#[derive(Debug)]
pub(super) struct Cursor {
    table: TableId,
    rowids: Vec<i64>,
    at: usize,
}

/// A child, its foreign key, and the parent's columns that it refers to.
pub(super) type Referring = (Arc<Table>, ForeignKey, Vec<usize>);

impl<'a> Exec<'a> {
    pub(super) fn new(
        image: Image,
        args: &'a [Value],
        now_micros: i64,
        settings: Settings,
        counts: Counts,
    ) -> Exec<'a> {
        Exec {
            image,
            args,
            now_micros,
            settings,
            counts,
            action: None,
            reads: BTreeSet::new(),
            writes: BTreeSet::new(),
            read_clock: false,
            depth: 0,
            tracing: None,
            done: 0,
        }
    }

    /// The value of an expression over one row.
    fn of_row(&mut self, expr: &Expr, row: &Row, rowid: i64) -> Result<Value, Stop> {
        let tuple = Tuple {
            values: Arc::clone(row),
            rowid,
        };
        Executor::new(self, Dialect::Sqlite).value_of_row(expr, tuple)
    }

    /// The keys of a row in an index; `None` if a partial index leaves it out.
    pub(super) fn index_keys(
        &mut self,
        index: &Index,
        row: &Row,
        rowid: i64,
    ) -> Result<Option<Vec<Value>>, Stop> {
        if let Some(filter) = &index.filter
            && truth(&self.of_row(filter, row, rowid)?) != Some(true)
        {
            return Ok(None);
        }
        let mut keys = Vec::with_capacity(index.keys.len());
        for key in &index.keys {
            keys.push(match &key.part {
                KeyPart::Column(column) => row[*column].clone(),
                KeyPart::Expr(expr) => self.of_row(expr, row, rowid)?,
            });
        }
        Ok(Some(keys))
    }

    /// The rowids of a table in the order of an access path.
    fn ordered(&mut self, table: &Table, access: &Access) -> Result<Vec<i64>, Stop> {
        let rows: Vec<(i64, Row)> = self
            .image
            .data(table.id)
            .rows
            .iter()
            .map(|(rowid, row)| (*rowid, Arc::clone(row)))
            .collect();
        let index = match access.index {
            Some(index) => Some(&table.indexes[index]),
            None if table.without_rowid => table.indexes.first(),
            None => None,
        };
        let Some(index) = index else {
            let mut rowids: Vec<i64> = rows.iter().map(|(rowid, _)| *rowid).collect();
            if access.reverse {
                rowids.reverse();
            }
            return Ok(rowids);
        };
        let mut entries = Vec::with_capacity(rows.len());
        for (rowid, row) in &rows {
            if let Some(keys) = self.index_keys(index, row, *rowid)? {
                entries.push((keys, *rowid));
            }
        }
        entries.sort_by(|(a, x), (b, y)| compare_keys(index, a, b).then(x.cmp(y)));
        if access.reverse {
            entries.reverse();
        }
        Ok(entries.into_iter().map(|(_, rowid)| rowid).collect())
    }

    pub(super) fn stored(&self, table: &Table, rowid: i64) -> Option<StoredRow<i64>> {
        let values = Arc::clone(self.image.row(table.id, rowid)?);
        Some(StoredRow {
            id: rowid,
            values,
            rowid: if table.without_rowid { 0 } else { rowid },
        })
    }

    /// Another row with the same keys in a unique index.
    fn duplicate(
        &mut self,
        table: &Table,
        index: &Index,
        row: &Row,
        rowid: i64,
        but: Option<i64>,
    ) -> Result<Option<i64>, Stop> {
        let Some(keys) = self.index_keys(index, row, rowid)? else {
            return Ok(None);
        };
        if keys.iter().any(Value::is_null) && !(table.without_rowid && index.primary) {
            return Ok(None);
        }
        let rows: Vec<(i64, Row)> = self
            .image
            .data(table.id)
            .rows
            .iter()
            .filter(|(other, _)| Some(**other) != but)
            .map(|(rowid, row)| (*rowid, Arc::clone(row)))
            .collect();
        for (other, row) in rows {
            if let Some(theirs) = self.index_keys(index, &row, other)?
                && compare_keys(index, &keys, &theirs) == Ordering::Equal
            {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// A new rowid: one more than the largest; with `AUTOINCREMENT`, than the largest ever.
    fn next_rowid(&self, table: &Table) -> Result<i64, Stop> {
        let data = self.image.data(table.id);
        let largest = data.rows.last_key_value().map_or(0, |(rowid, _)| *rowid);
        let largest = match table.autoincrement {
            true => largest.max(data.sequence),
            false => largest,
        };
        match largest.max(0).checked_add(1) {
            Some(next) if data.rows.is_empty() || largest >= 0 => Ok(next),
            Some(_) => Ok(largest + 1),
            None if table.autoincrement => {
                Err(errors::sqlite(13, "database or disk is full").into())
            }
            None => Err(DbError::unsupported("a random rowid after the largest", None).into()),
        }
    }

    fn put(&mut self, table: &Table, rowid: i64, row: Row) {
        if let Some(tracing) = &mut self.tracing {
            let old = self.image.row(table.id, rowid);
            tracing.write(table, old, Some(&row));
        }
        let autoincrement = table.autoincrement;
        let data = self.image.data_mut(table.id);
        data.rows.insert(rowid, row);
        if autoincrement {
            data.sequence = data.sequence.max(rowid);
        }
        self.writes.insert(table.id);
    }

    fn take(&mut self, table: &Table, rowid: i64) {
        if let Some(tracing) = &mut self.tracing {
            let old = self.image.row(table.id, rowid);
            tracing.write(table, old, None);
        }
        self.image.data_mut(table.id).rows.remove(&rowid);
        self.writes.insert(table.id);
    }

    /// What a duplicate does: `Err` refuses, `Ok(true)` means that the row in the way is deleted,
    /// `Ok(false)` that the new one is skipped.
    fn on_duplicate(
        &mut self,
        table: &Table,
        index: Option<&Index>,
        or: Option<ConflictAction>,
    ) -> Result<bool, Stop> {
        let declared = index.map_or(ConflictAction::Abort, |index| index.on_conflict);
        match or.unwrap_or(declared) {
            ConflictAction::Ignore => Ok(false),
            ConflictAction::Replace => Ok(true),
            action => Err(self.refuse(action, duplicate_error(table, index))),
        }
    }

    /// Deletes a row, with what foreign keys ask for.
    pub(super) fn delete_row(&mut self, table: &Arc<Table>, rowid: i64) -> Result<(), Stop> {
        let Some(old) = self.image.row(table.id, rowid).cloned() else {
            return Ok(());
        };
        self.take(table, rowid);
        if self.settings.foreign_keys {
            self.parent_changed(table, &old, None)?;
        }
        Ok(())
    }
}

/// The error of a duplicate; `None` is the rowid.
pub(super) fn duplicate_error(table: &Table, index: Option<&Index>) -> DbError {
    let column = |c: usize| format!("{}.{}", table.name, table.columns[c].name);
    match index {
        None => {
            let name = table
                .rowid_alias
                .map_or_else(|| format!("{}.rowid", table.name), column);
            let code = if table.rowid_alias.is_some() {
                1555
            } else {
                2579
            };
            errors::sqlite(code, format!("UNIQUE constraint failed: {name}"))
        }
        Some(index) => {
            let code = if index.primary { 1555 } else { 2067 };
            let columns: Option<Vec<String>> =
                index.keys.iter().map(|k| k.column().map(column)).collect();
            let what = match columns {
                Some(columns) => columns.join(", "),
                None => format!("index '{}'", index.name),
            };
            errors::sqlite(code, format!("UNIQUE constraint failed: {what}"))
        }
    }
}

/// The order of two records of an index.
pub(super) fn compare_keys(index: &Index, a: &[Value], b: &[Value]) -> Ordering {
    for (key, (a, b)) in index.keys.iter().zip(a.iter().zip(b)) {
        let by = Comparison::Classes {
            left: None,
            right: None,
            collation: key.collation,
        };
        let ordering = compare(by, a, b);
        let ordering = if key.descending {
            ordering.reverse()
        } else {
            ordering
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

impl Host for Exec<'_> {
    fn param(&self, index: usize) -> Result<Value, Stop> {
        // A parameter that was not bound is NULL.
        Ok(self.args.get(index).cloned().unwrap_or(Value::Null))
    }

    fn call(&mut self, function: HostFunction, _args: &[Value]) -> Result<Value, Stop> {
        Ok(match function {
            HostFunction::JulianNow => {
                self.read_clock = true;
                Value::Int(EPOCH_JULIAN_MS + self.now_micros.div_euclid(1_000))
            }
            HostFunction::LastInsertId => Value::Int(self.counts.last_insert_rowid),
            HostFunction::RowCount => Value::Int(self.counts.changes),
            HostFunction::TotalChanges => Value::Int(self.counts.total_changes),
            HostFunction::Version => Value::text(super::VERSION),
            HostFunction::Random => {
                return Err(DbError::unsupported("random numbers", None).into());
            }
            other => {
                return Err(DbError::unsupported(format!("the function {other:?}"), None).into());
            }
        })
    }

    fn user_variable(&mut self, _name: &str) -> Value {
        Value::Null
    }

    fn set_user_variable(&mut self, _name: &str, _value: Value) {}

    fn system_variable(&mut self, name: &str, _global: bool) -> Result<Value, Stop> {
        Err(DbError::unsupported(format!("the variable {name}"), None).into())
    }

    fn warn(&mut self, _code: u16, _message: String) {}

    fn is_strict(&self) -> bool {
        true
    }
}

impl Storage for Exec<'_> {
    type RowId = i64;
    type Cursor = Cursor;

    fn is_traced(&self) -> bool {
        self.tracing.is_some()
    }

    fn trace_scan(&mut self, _: &Cursor, table: &Arc<Table>, condition: Rc<Condition>) {
        if let Some(tracing) = &mut self.tracing {
            tracing.list.push(Trace::Scan {
                session: tracing.session,
                table: table.id.0,
                condition,
                sees: Sees::Upto(tracing.snapshot),
            });
        }
    }

    fn trace_read(&mut self, table: &Arc<Table>, row: &Row) {
        if let Some(tracing) = &mut self.tracing {
            tracing.list.push(Trace::Read {
                session: tracing.session,
                table: table.id.0,
                row: Row::clone(row),
            });
        }
    }

    fn choose(&mut self, plan: &SourcePlan<'_>) -> Result<Choice, Stop> {
        Ok(choose::choose(plan)?)
    }

    fn open(&mut self, scan: &Scan<'_>) -> Result<Cursor, Stop> {
        self.reads.insert(scan.table.id);
        // By rowid there is nothing to sort and one row to find.
        let by_rowid = scan.access.index.is_none() && !scan.table.without_rowid;
        if by_rowid
            && let (Some(condition), Some(values)) =
                (scan.access.conditions.first(), scan.bounds.first())
            && scan.entry.conditions[*condition].op == crate::loose::query::KeyOp::Eq
            && let [Value::Int(rowid)] = values[..]
        {
            return Ok(Cursor {
                table: scan.table.id,
                rowids: vec![rowid],
                at: 0,
            });
        }
        Ok(Cursor {
            table: scan.table.id,
            rowids: self.ordered(scan.table, scan.access)?,
            at: 0,
        })
    }

    fn next(&mut self, cursor: &mut Cursor) -> Result<Option<Candidate<i64>>, Stop> {
        while let Some(rowid) = cursor.rowids.get(cursor.at).copied() {
            cursor.at += 1;
            if let Some(values) = self.image.row(cursor.table, rowid) {
                return Ok(Some(Candidate {
                    row: StoredRow {
                        id: rowid,
                        values: Arc::clone(values),
                        rowid,
                    },
                    tentative: false,
                }));
            }
        }
        Ok(None)
    }

    fn reject(&mut self, _cursor: &mut Cursor) -> Result<(), Stop> {
        Ok(())
    }

    fn confirm(&mut self, _cursor: &mut Cursor) -> Result<Option<StoredRow<i64>>, Stop> {
        panic!("no candidate is tentative")
    }

    fn insert(
        &mut self,
        table: &Arc<Table>,
        row: NewRow,
        or: Option<ConflictAction>,
        upserts: &[Upsert],
    ) -> Result<Inserted<i64>, Stop> {
        self.check_child(table)?;
        let asked = row.rowid.filter(|_| !table.without_rowid);
        let rowid = match asked {
            Some(rowid) => rowid,
            None => self.next_rowid(table)?,
        };
        let mut values = row.values;
        if let Some(alias) = table.rowid_alias {
            values[alias] = Value::Int(rowid);
        }
        let values: Row = values.into();
        let handler = |index: Option<usize>| upserts.iter().position(|u| u.target.handles(index));
        let mut replaced = 0;
        // What ON CONFLICT clauses name is looked at first, in their order.
        for upsert in upserts {
            let UpsertTarget::Index(number) = upsert.target else {
                break;
            };
            let index = &table.indexes[number];
            let found = self.duplicate(table, index, &values, rowid, None)?;
            if let Some(existing) = found.and_then(|other| self.stored(table, other))
                && let Some(clause) = handler(Some(number))
            {
                return Ok(Inserted::Conflict(clause, existing));
            }
        }
        if asked.is_some()
            && let Some(existing) = self.stored(table, rowid)
        {
            if let Some(clause) = handler(None) {
                return Ok(Inserted::Conflict(clause, existing));
            }
            match self.on_duplicate(table, None, or)? {
                false => return Ok(Inserted::Skipped),
                true => {
                    self.delete_row(table, rowid)?;
                    replaced += 1;
                }
            }
        }
        for (number, index) in check_order(table, or) {
            let Some(other) = self.duplicate(table, index, &values, rowid, Some(rowid))? else {
                continue;
            };
            if let (Some(clause), Some(existing)) =
                (handler(Some(number)), self.stored(table, other))
            {
                return Ok(Inserted::Conflict(clause, existing));
            }
            match self.on_duplicate(table, Some(index), or)? {
                false => {
                    if table.autoincrement {
                        // The number is given, although the row is not there.
                        let data = self.image.data_mut(table.id);
                        data.sequence = data.sequence.max(rowid);
                        self.writes.insert(table.id);
                    }
                    return Ok(Inserted::Skipped);
                }
                true => {
                    self.delete_row(table, other)?;
                    replaced += 1;
                }
            }
        }
        self.put(table, rowid, values);
        self.done += 1;
        if !table.without_rowid {
            self.counts.last_insert_rowid = rowid;
        }
        let Some(stored) = self.stored(table, rowid) else {
            panic!("a row is gone right after it was inserted")
        };
        Ok(match replaced {
            0 => Inserted::Done(stored),
            count => Inserted::Replaced(stored, count),
        })
    }

    fn update(
        &mut self,
        table: &Arc<Table>,
        row: &StoredRow<i64>,
        new: NewRow,
        changed: &[usize],
        or: Option<ConflictAction>,
    ) -> Result<Option<StoredRow<i64>>, Stop> {
        if table
            .foreign_keys
            .iter()
            .any(|key| key.columns.iter().any(|c| changed.contains(c)))
        {
            self.check_child(table)?;
        }
        let rowid = match table.without_rowid {
            true => row.id,
            false => new.rowid.unwrap_or(row.id),
        };
        let values: Row = new.values.into();
        if rowid != row.id && self.image.row(table.id, rowid).is_some() {
            match self.on_duplicate(table, None, or)? {
                false => return Ok(None),
                true => self.delete_row(table, rowid)?,
            }
        }
        for (_, index) in check_order(table, or) {
            let Some(other) = self.duplicate(table, index, &values, rowid, Some(row.id))? else {
                continue;
            };
            match self.on_duplicate(table, Some(index), or)? {
                false => return Ok(None),
                true => self.delete_row(table, other)?,
            }
        }
        let Some(old) = self.image.row(table.id, row.id).cloned() else {
            return Ok(None);
        };
        if old == values && rowid == row.id && leaves_pages(table, changed) {
            // The same bytes are not written again: the transaction stays clean.
            return Ok(self.stored(table, rowid));
        }
        self.done += 1;
        self.take(table, row.id);
        self.put(table, rowid, Arc::clone(&values));
        if self.settings.foreign_keys {
            self.parent_changed(table, &old, Some(&values))?;
        }
        Ok(self.stored(table, rowid))
    }

    fn delete(
        &mut self,
        table: &Arc<Table>,
        row: &StoredRow<i64>,
        _ignore: bool,
    ) -> Result<bool, Stop> {
        self.delete_row(table, row.id)?;
        Ok(true)
    }

    fn reread(&mut self, table: &Arc<Table>, row: &StoredRow<i64>) -> Option<StoredRow<i64>> {
        self.stored(table, row.id)
    }

    fn virtual_rows(&mut self, table: &VirtualTable) -> Result<Vec<Row>, Stop> {
        match &*table.name {
            "sqlite_master" => Ok(master_rows(&self.image.schema)),
            other => Err(DbError::unsupported(format!("the table {other}"), None).into()),
        }
    }

    fn refuse(&mut self, action: ConflictAction, error: DbError) -> Stop {
        self.action = Some(action);
        error.into()
    }

    fn collect_first(&self, _table: &Table, _access: &Access, _changed: &[usize]) -> bool {
        true
    }
}

/// Whether an update that changes no value writes no page: a record of a rowid table is compared with
/// the old one, but the entries of an index whose columns are assigned are deleted and inserted.
fn leaves_pages(table: &Table, changed: &[usize]) -> bool {
    let touches = |index: &Index| {
        index.filter.is_some()
            || index
                .keys
                .iter()
                .any(|key| key.column().is_none_or(|column| changed.contains(&column)))
    };
    !table.without_rowid && !table.indexes.iter().any(touches)
}

/// The unique indexes in the order in which they are checked: the newest first, those that replace
/// last.
fn check_order(table: &Table, or: Option<ConflictAction>) -> Vec<(usize, &Index)> {
    let mut order: Vec<(usize, &Index)> = table
        .indexes
        .iter()
        .enumerate()
        .filter(|(_, index)| index.unique)
        .collect();
    order.reverse();
    order.sort_by_key(|(_, index)| or.unwrap_or(index.on_conflict) == ConflictAction::Replace);
    order
}
