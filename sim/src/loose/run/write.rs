//! `INSERT`, `REPLACE`, `UPDATE`, `DELETE`, row by row.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect, Value};

use super::insert::implicit_default;
use super::join::{Ask, Current, place, tuple_of};
use super::select::compare_key;
use super::{Executor, Outcome};
use crate::loose::catalog::{Check, ConflictAction, Table};
use crate::loose::errors;
use crate::loose::eval::{Frame, Tuple, eval};
use crate::loose::expr::Expr;
use crate::loose::plan::{Assignment, Delete, Update};
use crate::loose::query::{Cte, RangeKind, SortBy, SortKey};
use crate::loose::storage::{NewRow, Purpose, Stop, Storage};
use crate::loose::store::store;
use crate::loose::value::{as_int_cut, truth};

impl<'e, S: Storage> Executor<'e, S> {
    /// A value as a column stores it.
    pub(super) fn stored(
        &mut self,
        table: &Table,
        column: usize,
        value: Value,
        strict: bool,
        row: usize,
    ) -> Result<Value, Stop> {
        Ok(store(
            &table.columns[column],
            value,
            strict,
            row,
            self.dialect,
        )?)
    }

    /// `NOT NULL` and `CHECK`. `false` if the row is to be skipped.
    pub(super) fn check(
        &mut self,
        table: &Table,
        values: &mut [Value],
        given: &[bool],
        or: Option<ConflictAction>,
        strict: bool,
        number: usize,
    ) -> Result<bool, Stop> {
        if self.dialect == Dialect::Sqlite {
            self.generate(table, values)?;
            check_types(table, values)?;
        }
        for (c, column) in table.columns.iter().enumerate() {
            let Some(declared) = column.not_null else {
                continue;
            };
            if !values[c].is_null() || table.rowid_alias == Some(c) || column.auto_increment {
                continue;
            }
            if self.dialect != Dialect::Sqlite {
                if strict && !given[c] && column.default.is_none() {
                    let message = format!("Field '{}' doesn't have a default value", column.name);
                    return Err(errors::mysql(1364, "HY000", message).into());
                }
                if strict || (given[c] && number == 1 && or != Some(ConflictAction::Ignore)) {
                    let message = format!("Column '{}' cannot be null", column.name);
                    return Err(errors::mysql(1048, "23000", message).into());
                }
                values[c] = implicit_default(&column.ty);
                continue;
            }
            match or.unwrap_or(declared) {
                ConflictAction::Ignore => return Ok(false),
                ConflictAction::Replace if column.default.is_some() => {
                    let default = column.default.as_ref().map_or(&Expr::Default, |d| d);
                    let value = eval(default, &Frame::empty(None), self)?;
                    values[c] = self.stored(table, c, value, strict, number)?;
                }
                action => {
                    let message =
                        format!("NOT NULL constraint failed: {}.{}", table.name, column.name);
                    return Err(self.storage.refuse(action, errors::sqlite(1299, message)));
                }
            }
        }
        let tuple = Tuple {
            values: (&*values).into(),
            rowid: 0,
        };
        for check in &table.checks {
            let value = self.value_of_row(&check.expr, tuple.clone())?;
            if truth(&value) != Some(false) {
                continue;
            }
            if or == Some(ConflictAction::Ignore) {
                return Ok(false);
            }
            let action = match or {
                // REPLACE works as ABORT for CHECK.
                None | Some(ConflictAction::Replace) => ConflictAction::Abort,
                Some(action) => action,
            };
            let error = self.check_failed(table, check);
            return Err(self.storage.refuse(action, error));
        }
        Ok(true)
    }

    /// Computes the generated columns. One may be over another one, whichever comes first.
    fn generate(&mut self, table: &Table, values: &mut [Value]) -> Result<(), Stop> {
        let generated = table
            .columns
            .iter()
            .filter(|c| c.generated.is_some())
            .count();
        for _ in 0..generated {
            for (c, column) in table.columns.iter().enumerate() {
                if let Some(expr) = &column.generated {
                    let tuple = Tuple {
                        values: (&*values).into(),
                        rowid: 0,
                    };
                    let value = self.value_of_row(expr, tuple)?;
                    values[c] = self.stored(table, c, value, true, 1)?;
                }
            }
        }
        Ok(())
    }

    fn check_failed(&self, table: &Table, check: &Check) -> DbError {
        let name = check.name.as_ref().unwrap_or(&check.text);
        match self.dialect {
            Dialect::Sqlite => errors::sqlite(275, format!("CHECK constraint failed: {name}")),
            Dialect::MariaDb => errors::mysql(
                4025,
                "23000",
                format!("CONSTRAINT `{name}` failed for `test`.`{}`", table.name),
            ),
            _ => errors::mysql(
                3819,
                "HY000",
                format!("Check constraint '{name}' is violated."),
            ),
        }
    }

    pub(super) fn returned(
        &mut self,
        returning: Option<&[Expr]>,
        row: &Tuple,
        outcome: &mut Outcome,
    ) -> Result<(), Stop> {
        if let Some(returning) = returning {
            let rows = [Some(row.clone())];
            let values = self.values(returning, &Frame::of_rows(&rows, None))?;
            outcome.rows.push(values.into());
        }
        Ok(())
    }

    /// The new values of a row, and the columns that were assigned. MySQL evaluates assignments one
    /// after the other on the changing row, SQLite all on the old one. `None` skips the row.
    pub(super) fn changed_row(
        &mut self,
        change: &Change<'_>,
        tuples: &mut [Option<Tuple>],
    ) -> Result<Option<(NewRow, Vec<usize>)>, Stop> {
        let table = change.table;
        let mysql = self.dialect != Dialect::Sqlite;
        let strict = self.storage.is_strict() && change.or != Some(ConflictAction::Ignore);
        let Some(old) = tuples[change.entry].clone() else {
            return Ok(None);
        };
        let mut values = old.values.to_vec();
        let mut rowid = old.rowid;
        let mut changed = Vec::new();
        let mut given = vec![false; values.len()];
        for assignment in change.set {
            let value = {
                let frame = Frame {
                    with: change.with,
                    ..Frame::of_rows(tuples, None)
                };
                let default = assignment
                    .column
                    .and_then(|column| table.columns[column].default.as_ref());
                match (&assignment.value, default) {
                    (Expr::Default, Some(default)) => eval(default, &frame, self)?,
                    (Expr::Default, None) => Value::Null,
                    (expr, _) => {
                        self.around.in_write = true;
                        let value = eval(expr, &frame, self);
                        self.around.in_write = false;
                        value?
                    }
                }
            };
            let Some(column) = assignment.column else {
                rowid = self.new_rowid(&value, rowid)?;
                continue;
            };
            values[column] = self.stored(table, column, value, strict, change.number)?;
            given[column] = true;
            changed.push(column);
            if table.rowid_alias == Some(column) {
                rowid = self.new_rowid(&values[column], rowid)?;
            }
            if mysql {
                tuples[change.entry] = Some(Tuple {
                    values: values.as_slice().into(),
                    rowid,
                });
            }
        }
        if let Some(alias) = table.rowid_alias {
            values[alias] = Value::Int(rowid);
        }
        if mysql && values[..] != old.values[..] {
            for (c, column) in table.columns.iter().enumerate() {
                if !given[c]
                    && let Some(now) = &column.on_update
                {
                    let value = eval(now, &Frame::empty(None), self)?;
                    values[c] = self.stored(table, c, value, strict, change.number)?;
                    changed.push(c);
                }
            }
        }
        if !self.check(table, &mut values, &given, change.or, strict, change.number)? {
            return Ok(None);
        }
        let generated = |c: &usize| table.columns[*c].generated.is_some();
        changed.extend((0..values.len()).filter(generated));
        let rowid = Some(rowid);
        Ok(Some((NewRow { values, rowid }, changed)))
    }

    pub(super) fn new_rowid(&self, value: &Value, _old: i64) -> Result<i64, Stop> {
        match value {
            Value::Int(i) => Ok(*i),
            Value::Float(x) if x.fract() == 0.0 => Ok(as_int_cut(value)),
            _ => Err(errors::sqlite(20, "datatype mismatch").into()),
        }
    }

    pub(super) fn update(&mut self, update: &Update) -> Result<Outcome, Stop> {
        let mut purposes = vec![Purpose::Read; update.source.range.len()];
        for target in &update.targets {
            purposes[*target] = Purpose::Update;
        }
        let limit = self.write_limit(update.limit.as_ref())?;
        if limit == Some(0) {
            return Ok(Outcome::default());
        }
        let ask = Ask {
            source: &update.source,
            purposes: &purposes,
            order: &update.sort,
            limit,
            with: &update.with,
        };
        self.around.in_write = true;
        let choice = self.choose(&ask, None)?;
        let sort = match choice.sorted {
            true => &[][..],
            false => &update.sort[..],
        };
        let mut outcome = Outcome::default();
        let single = update.targets.len() == 1 && update.source.range.len() == 1;
        let target = update.targets.first().copied().unwrap_or(0);
        let changed: Vec<usize> = update.set.iter().filter_map(|a| a.column).collect();
        let collect = !single
            // With an order, the rows are found first, even if an index gives it.
            || !update.sort.is_empty()
            || self.storage.collect_first(
                table_of(&update.source.range[target].kind),
                &choice.access[target],
                &changed,
            );
        if !collect {
            let mut found = 0;
            self.join(&ask, &choice, None, &mut |executor, current| {
                found += 1;
                executor.update_row(update, target, current, &mut outcome)?;
                Ok(limit.is_none_or(|limit| found < limit))
            })?;
            self.around.in_write = false;
            return Ok(outcome);
        }
        let found = self.collected(&ask, &choice, sort, limit)?;
        self.around.in_write = false;
        let mut done: Vec<Vec<S::RowId>> = vec![Vec::new(); update.source.range.len()];
        for mut current in found {
            for target in &update.targets {
                let Some(row) = current.stored[*target].clone() else {
                    continue;
                };
                if done[*target].contains(&row.id) {
                    continue;
                }
                done[*target].push(row.id.clone());
                let table = Arc::clone(table_of(&update.source.range[*target].kind));
                let Some(newest) = self.storage.reread(&table, &row) else {
                    continue;
                };
                place(&mut current, *target, newest);
                self.update_row(update, *target, &mut current, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    fn update_row(
        &mut self,
        update: &Update,
        target: usize,
        current: &mut Current<S::RowId>,
        outcome: &mut Outcome,
    ) -> Result<(), Stop> {
        let Some(row) = current.stored[target].clone() else {
            return Ok(());
        };
        let table = table_of(&update.source.range[target].kind);
        let set: Vec<&Assignment> = update.set.iter().filter(|a| a.entry == target).collect();
        let change = Change {
            table,
            entry: target,
            set: &set,
            or: update.or,
            with: &update.with,
            number: 1,
        };
        let new = self.changed_row(&change, &mut current.tuples)?;
        let Some((new, changed)) = new else {
            return Ok(());
        };
        outcome.matched += 1;
        if self.dialect != Dialect::Sqlite && new.values[..] == row.values[..] {
            return Ok(());
        }
        let updated = self.storage.update(table, &row, new, &changed, update.or)?;
        match updated {
            Some(updated) => {
                outcome.changed += 1;
                self.returned(update.returning.as_deref(), &tuple_of(&updated), outcome)
            }
            None => {
                outcome.matched -= 1;
                Ok(())
            }
        }
    }

    pub(super) fn delete(&mut self, delete: &Delete) -> Result<Outcome, Stop> {
        let mut purposes = vec![Purpose::Read; delete.source.range.len()];
        for target in &delete.targets {
            purposes[*target] = Purpose::Delete;
        }
        let limit = self.write_limit(delete.limit.as_ref())?;
        if limit == Some(0) {
            return Ok(Outcome::default());
        }
        let ask = Ask {
            source: &delete.source,
            purposes: &purposes,
            order: &delete.sort,
            limit,
            with: &delete.with,
        };
        self.around.in_write = true;
        let choice = self.choose(&ask, None)?;
        let sort = match choice.sorted {
            true => &[][..],
            false => &delete.sort[..],
        };
        let mut outcome = Outcome::default();
        let single = delete.source.range.len() == 1;
        let collect = !single
            || !sort.is_empty()
            || self.storage.collect_first(
                table_of(&delete.source.range[delete.targets[0]].kind),
                &choice.access[delete.targets[0]],
                &[],
            );
        if !collect {
            let mut found = 0;
            let target = delete.targets[0];
            self.join(&ask, &choice, None, &mut |executor, current| {
                found += 1;
                executor.delete_row(delete, target, current, &mut outcome)?;
                Ok(limit.is_none_or(|limit| found < limit))
            })?;
            self.around.in_write = false;
            return Ok(outcome);
        }
        let found = self.collected(&ask, &choice, sort, limit)?;
        self.around.in_write = false;
        for mut current in found {
            for target in &delete.targets {
                self.delete_row(delete, *target, &mut current, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    fn delete_row(
        &mut self,
        delete: &Delete,
        target: usize,
        current: &mut Current<S::RowId>,
        outcome: &mut Outcome,
    ) -> Result<(), Stop> {
        let Some(row) = current.stored[target].clone() else {
            return Ok(());
        };
        let table = table_of(&delete.source.range[target].kind);
        // A row that is found twice, or that went with another one, is deleted once.
        let Some(row) = self.storage.reread(table, &row) else {
            return Ok(());
        };
        if self.storage.delete(table, &row, delete.ignore)? {
            outcome.changed += 1;
            outcome.matched += 1;
            self.returned(delete.returning.as_deref(), &tuple_of(&row), outcome)?;
        }
        Ok(())
    }

    fn write_limit(&mut self, limit: Option<&Expr>) -> Result<Option<u64>, Stop> {
        match limit {
            Some(limit) => self.count(limit, &Frame::empty(None)),
            None => Ok(None),
        }
    }

    /// All rows of a source before any is changed, in order, at most `limit`.
    pub(super) fn collected(
        &mut self,
        ask: &Ask<'_>,
        choice: &crate::loose::storage::Choice,
        sort: &[SortKey],
        limit: Option<u64>,
    ) -> Result<Vec<Current<S::RowId>>, Stop> {
        let by_position = limit.is_some() && self.storage.writes_by_position();
        let mut rows: Vec<Found<S::RowId>> = Vec::new();
        let stop_at = limit.filter(|_| sort.is_empty());
        self.join(ask, choice, None, &mut |executor, current| {
            let mut keys = Vec::new();
            for key in sort {
                if let SortBy::Expr(by) = &key.by {
                    let frame = Frame {
                        with: ask.with,
                        ..Frame::of_rows(&current.tuples, None)
                    };
                    keys.push(eval(by, &frame, executor)?);
                }
            }
            let position = match (&ask.source.range[..], &current.stored[..]) {
                ([entry], [Some(row)]) if by_position => {
                    executor.storage.position(table_of(&entry.kind), row)
                }
                _ => Vec::new(),
            };
            rows.push(Found {
                keys,
                position,
                current: current.clone(),
            });
            Ok(stop_at.is_none_or(|stop| (rows.len() as u64) < stop))
        })?;
        if !sort.is_empty() {
            rows.sort_by(|a, b| {
                let keys = sort.iter().zip(a.keys.iter().zip(&b.keys));
                keys.map(|(key, (a, b))| compare_key(key, a, b))
                    .find(|ordering| ordering.is_ne())
                    .unwrap_or_else(|| a.position.cmp(&b.position))
            });
        }
        if let Some(limit) = limit {
            rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok(rows.into_iter().map(|found| found.current).collect())
    }
}

/// A row that was found, and what it is sorted by.
struct Found<R> {
    keys: Vec<Value>,
    position: Vec<u8>,
    current: Current<R>,
}

/// One row to be changed.
pub(super) struct Change<'p> {
    pub(super) table: &'p Arc<Table>,
    pub(super) entry: usize,
    pub(super) set: &'p [&'p Assignment],
    pub(super) or: Option<ConflictAction>,
    pub(super) with: &'p [Cte],
    pub(super) number: usize,
}

fn table_of(kind: &RangeKind) -> &Arc<Table> {
    match kind {
        RangeKind::Table(table) => table,
        _ => panic!("only stored tables are changed"),
    }
}

/// The types of the values of a `STRICT` table ("STRICT Tables", section 2).
fn check_types(table: &Table, values: &[Value]) -> Result<(), Stop> {
    if !table.strict {
        return Ok(());
    }
    for (c, (column, value)) in table.columns.iter().zip(values).enumerate() {
        let name = column.ty.name().to_ascii_uppercase();
        let fits = match (name.as_str(), value) {
            (_, Value::Null) | ("ANY", _) => true,
            ("INT" | "INTEGER", Value::Int(_)) => true,
            ("REAL", Value::Float(_)) => true,
            ("TEXT", Value::Text(_)) => true,
            ("BLOB", Value::Bytes(_)) => true,
            _ => table.rowid_alias == Some(c),
        };
        if !fits {
            let class = match value {
                Value::Int(_) => "INT",
                Value::Float(_) => "REAL",
                Value::Bytes(_) => "BLOB",
                _ => "TEXT",
            };
            let message = format!(
                "cannot store {class} value in {name} column {}.{}",
                table.name, column.name
            );
            return Err(errors::sqlite(3091, message).into());
        }
    }
    Ok(())
}
