//! `INSERT`, `REPLACE`, `UPDATE`, `DELETE`, row by row.

use std::sync::Arc;

use rowlock_model::{DbError, Dialect, Row, Value};

use super::join::{Ask, Current, place, tuple_of};
use super::select::compare_key;
use super::{Executor, Outcome};
use crate::loose::catalog::{Check, ConflictAction, Table};
use crate::loose::errors;
use crate::loose::eval::{Frame, Tuple, eval};
use crate::loose::expr::Expr;
use crate::loose::plan::{Assignment, Delete, Insert, InsertSource, Update, Upsert};
use crate::loose::query::{Cte, RangeKind, SortBy, SortKey};
use crate::loose::storage::{Inserted, NewRow, Purpose, Stop, Storage, StoredRow};
use crate::loose::store::store;
use crate::loose::types::DeclaredType;
use crate::loose::value::{as_int_cut, truth};

impl<'e, S: Storage> Executor<'e, S> {
    pub(super) fn insert(&mut self, insert: &Insert) -> Result<Outcome, Stop> {
        let sources = self.source_rows(insert)?;
        let mut outcome = Outcome::default();
        for (i, source) in sources.into_iter().enumerate() {
            let number = i + 1;
            let Some(new) = self.new_row(insert, &source, number)? else {
                continue;
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
                    self.upsert(insert, upsert, existing, tuple, number, &mut outcome)?
                }
            };
            if let Some(row) = row {
                self.returned(insert.returning.as_deref(), &tuple_of(&row), &mut outcome)?;
            }
        }
        Ok(outcome)
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
    fn rowid_of(&self, value: &Value) -> Result<Option<i64>, Stop> {
        match value {
            Value::Null => Ok(None),
            Value::Int(i) => Ok(Some(*i)),
            _ => Err(errors::sqlite(20, "datatype mismatch").into()),
        }
    }

    /// A value as a column stores it.
    fn stored(
        &mut self,
        table: &Table,
        column: usize,
        value: Value,
        strict: bool,
        row: usize,
    ) -> Result<Value, Stop> {
        Ok(store(&table.columns[column], value, strict, row)?)
    }

    /// `NOT NULL` and `CHECK`. `false` if the row is to be skipped.
    fn check(
        &mut self,
        table: &Table,
        values: &mut [Value],
        given: &[bool],
        or: Option<ConflictAction>,
        strict: bool,
        number: usize,
    ) -> Result<bool, Stop> {
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

    fn returned(
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
    fn changed_row(
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
        let rowid = Some(rowid);
        Ok(Some((NewRow { values, rowid }, changed)))
    }

    fn new_rowid(&self, value: &Value, _old: i64) -> Result<i64, Stop> {
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
            || !sort.is_empty()
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
    fn collected(
        &mut self,
        ask: &Ask<'_>,
        choice: &crate::loose::storage::Choice,
        sort: &[SortKey],
        limit: Option<u64>,
    ) -> Result<Vec<Current<S::RowId>>, Stop> {
        let mut rows: Vec<(Vec<Value>, Current<S::RowId>)> = Vec::new();
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
            rows.push((keys, current.clone()));
            Ok(stop_at.is_none_or(|stop| (rows.len() as u64) < stop))
        })?;
        rows.sort_by(|(a, _), (b, _)| {
            let keys = sort.iter().zip(a.iter().zip(b));
            keys.map(|(key, (a, b))| compare_key(key, a, b))
                .find(|ordering| ordering.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        if let Some(limit) = limit {
            rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok(rows.into_iter().map(|(_, current)| current).collect())
    }
}

/// One row to be changed.
struct Change<'p> {
    table: &'p Arc<Table>,
    entry: usize,
    set: &'p [&'p Assignment],
    or: Option<ConflictAction>,
    with: &'p [Cte],
    number: usize,
}

fn table_of(kind: &RangeKind) -> &Arc<Table> {
    match kind {
        RangeKind::Table(table) => table,
        _ => panic!("only stored tables are changed"),
    }
}

/// What MySQL stores for NULL in a column that takes none, where that is no error.
fn implicit_default(ty: &DeclaredType) -> Value {
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
