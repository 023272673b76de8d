//! `INSERT`: its rows, what they are checked for, and what happens to duplicates.

use rowlock_model::{Dialect, Row, Value};

use super::join::tuple_of;
use super::write::Change;
use super::{Executor, Outcome};
use crate::loose::catalog::ConflictAction;
use crate::loose::errors;
use crate::loose::eval::{Frame, Tuple, eval};
use crate::loose::expr::Expr;
use crate::loose::plan::{Assignment, Insert, InsertSource, Upsert};
use crate::loose::query::Cte;
use crate::loose::storage::{Inserted, NewRow, Stop, Storage, StoredRow};
use crate::loose::types::DeclaredType;
use crate::loose::value::truth;

impl<'e, S: Storage> Executor<'e, S> {
    pub(super) fn insert(&mut self, insert: &Insert) -> Result<Outcome, Stop> {
        let mut outcome = Outcome::default();
        let mut number = 0;
        if let InsertSource::Query(query) = &insert.source
            && self.dialect != Dialect::Sqlite
            && !insert.reads_target
        {
            // Each row is inserted as soon as it is read.
            let frame = Frame {
                with: &insert.with,
                ..Frame::empty(None)
            };
            self.around.in_write = true;
            self.each_row(query, Some(&frame), &mut |executor, row| {
                number += 1;
                let source: Vec<Expr> = row.iter().cloned().map(Expr::Const).collect();
                executor.insert_row(insert, &source, number, &mut outcome)?;
                executor.around.in_write = true;
                Ok(())
            })?;
            self.around.in_write = false;
            return Ok(outcome);
        }
        for source in self.source_rows(insert)? {
            number += 1;
            self.insert_row(insert, &source, number, &mut outcome)?;
        }
        Ok(outcome)
    }

    fn insert_row(
        &mut self,
        insert: &Insert,
        source: &[Expr],
        number: usize,
        outcome: &mut Outcome,
    ) -> Result<(), Stop> {
        let Some(new) = self.new_row(insert, source, number)? else {
            return Ok(());
        };
        let tuple = Tuple {
            values: new.values.clone().into(),
            rowid: new.rowid.unwrap_or(0),
        };
        let inserted = self
            .storage
            .insert(&insert.table, new, insert.or, &insert.upserts)?;
        let row = match inserted {
            Inserted::Skipped => None,
            Inserted::Done(row) => {
                outcome.changed += 1;
                outcome.matched += 1;
                Some(row)
            }
            Inserted::Replaced(row, deleted) => {
                let counted = match self.dialect {
                    Dialect::Sqlite => 1,
                    _ => 1 + deleted,
                };
                outcome.changed += counted;
                outcome.matched += counted;
                Some(row)
            }
            Inserted::Conflict(clause, existing) => {
                let upsert = &insert.upserts[clause];
                self.upsert(insert, upsert, existing, tuple, number, outcome)?
            }
        };
        if let Some(row) = row {
            self.returned(insert.returning.as_deref(), &tuple_of(&row), outcome)?;
        }
        Ok(())
    }

    /// The rows of the source, one value a given column.
    fn source_rows(&mut self, insert: &Insert) -> Result<Vec<Vec<Expr>>, Stop> {
        Ok(match &insert.source {
            InsertSource::Values(rows) => rows.clone(),
            InsertSource::Defaults => vec![vec![Expr::Default; insert.columns.len()]],
            InsertSource::Query(query) => {
                let frame = Frame {
                    with: &insert.with,
                    ..Frame::empty(None)
                };
                self.around.in_write = true;
                let rows = self.query(query, Some(&frame), None);
                self.around.in_write = false;
                let constants = |row: &Row| row.iter().cloned().map(Expr::Const).collect();
                rows?.iter().map(constants).collect()
            }
        })
    }

    /// The row that a source row asks for; `None` if a constraint refused and it is skipped.
    fn new_row(
        &mut self,
        insert: &Insert,
        source: &[Expr],
        number: usize,
    ) -> Result<Option<NewRow>, Stop> {
        let table = &insert.table;
        let strict = self.storage.is_strict() && insert.or != Some(ConflictAction::Ignore);
        let mut values = vec![Value::Null; table.columns.len()];
        for (c, column) in table.columns.iter().enumerate() {
            if !insert.columns.contains(&c)
                && let Some(default) = &column.default
            {
                let value = eval(default, &Frame::empty(None), self)?;
                values[c] = self.stored(table, c, value, strict, number)?;
            }
        }
        let mut rowid = None;
        let mut given = vec![false; table.columns.len()];
        let mut columns = insert.columns.iter();
        for (place, expr) in source.iter().enumerate() {
            if insert.rowid == Some(place) {
                let value = self.insert_value(expr, &insert.with, &values)?;
                rowid = self.rowid_of(&value)?;
                continue;
            }
            let Some(&c) = columns.next() else {
                continue;
            };
            let value = match (expr, &table.columns[c].default) {
                (Expr::Default, Some(default)) => eval(default, &Frame::empty(None), self)?,
                (Expr::Default, None) => Value::Null,
                (expr, _) => {
                    given[c] = true;
                    self.insert_value(expr, &insert.with, &values)?
                }
            };
            values[c] = self.stored(table, c, value, strict, number)?;
        }
        if let Some(alias) = table.rowid_alias {
            if let Some(rowid) = rowid {
                values[alias] = Value::Int(rowid);
            }
            rowid = self.rowid_of(&values[alias])?;
            if let Some(rowid) = rowid {
                values[alias] = Value::Int(rowid);
            }
        }
        let or = insert.or;
        match self.check(table, &mut values, &given, or, strict, number)? {
            true => Ok(Some(NewRow { values, rowid })),
            false => Ok(None),
        }
    }

    fn insert_value(&mut self, expr: &Expr, with: &[Cte], values: &[Value]) -> Result<Value, Stop> {
        let rows = [Some(Tuple {
            values: values.into(),
            rowid: 0,
        })];
        let frame = Frame {
            with,
            ..Frame::of_rows(&rows, None)
        };
        self.around.in_write = true;
        let value = eval(expr, &frame, self);
        self.around.in_write = false;
        value
    }

    /// A value for the rowid of SQLite: an integer, or NULL for a new one.
    pub(super) fn rowid_of(&self, value: &Value) -> Result<Option<i64>, Stop> {
        match value {
            Value::Null => Ok(None),
            Value::Int(i) => Ok(Some(*i)),
            _ => Err(errors::sqlite(20, "datatype mismatch").into()),
        }
    }

    /// `ON CONFLICT DO ..`, `ON DUPLICATE KEY UPDATE`: the row afterwards, if it was changed.
    fn upsert(
        &mut self,
        insert: &Insert,
        upsert: &Upsert,
        existing: StoredRow<S::RowId>,
        new: Tuple,
        number: usize,
        outcome: &mut Outcome,
    ) -> Result<Option<StoredRow<S::RowId>>, Stop> {
        let Some(set) = &upsert.set else {
            return Ok(None);
        };
        if let Some(filter) = &upsert.filter {
            let rows = [Some(tuple_of(&existing)), Some(new.clone())];
            let frame = Frame {
                with: &insert.with,
                ..Frame::of_rows(&rows, None)
            };
            if truth(&eval(filter, &frame, self)?) != Some(true) {
                return Ok(None);
            }
        }
        let assignments: Vec<&Assignment> = set.iter().collect();
        let mut tuples = vec![Some(tuple_of(&existing)), Some(new)];
        let change = Change {
            table: &insert.table,
            entry: 0,
            set: &assignments,
            or: None,
            with: &insert.with,
            number,
        };
        let Some((new, changed)) = self.changed_row(&change, &mut tuples)? else {
            return Ok(None);
        };
        let mysql = self.dialect != Dialect::Sqlite;
        if mysql && new.values[..] == existing.values[..] {
            outcome.matched += 1;
            return Ok(Some(existing));
        }
        let updated = self
            .storage
            .update(&insert.table, &existing, new, &changed, None)?;
        if updated.is_some() {
            let counted = if mysql { 2 } else { 1 };
            outcome.changed += counted;
            outcome.matched += counted;
        }
        Ok(updated)
    }
}

/// What MySQL stores for NULL in a column that takes none, where that is no error.
pub(super) fn implicit_default(ty: &DeclaredType) -> Value {
    match ty {
        DeclaredType::Int { .. } | DeclaredType::Year => Value::Int(0),
        DeclaredType::Decimal { scale, .. } => {
            Value::Decimal(rust_decimal::Decimal::new(0, u32::from(*scale)))
        }
        DeclaredType::Float | DeclaredType::Double => Value::Float(0.0),
        DeclaredType::Enum(labels) => labels
            .first()
            .map_or(Value::Null, |label| Value::Text(label.clone())),
        DeclaredType::Binary(_) | DeclaredType::Varbinary(_) | DeclaredType::Blob(_) => {
            Value::Bytes([].into())
        }
        _ => Value::text(""),
    }
}
