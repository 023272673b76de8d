//! What every new row must satisfy before it is stored, and its index entries.

use rowlock_model::{Row, Value};

use super::bound::{Around, Bound};
use super::{Exec, Stop, walk};
use crate::engine::postgres::{IndexKeyValues, RowLock, UniqueCheck, VersionId, errors};
use crate::plan::catalog::{Index, Table};
use crate::plan::expr;
use crate::plan::types::Type;

impl Exec<'_> {
    /// Computes generated columns and checks `NOT NULL` and `CHECK`.
    pub(super) fn finish_row(
        &mut self,
        table: &Table,
        mut row: Vec<Value>,
        around: Around<'_>,
    ) -> Result<Row, Stop> {
        self.generate(table, &mut row, around)?;
        let row: Row = row.into();
        if table.partition.is_some() {
            self.refuse_stranger(table, &row)?;
        }
        self.check_row(table, &row, around)?;
        Ok(row)
    }

    /// Computes generated columns.
    pub(super) fn generate(
        &mut self,
        table: &Table,
        row: &mut [Value],
        around: Around<'_>,
    ) -> Result<(), Stop> {
        if table.columns.iter().all(|c| c.generated.is_none()) {
            return Ok(());
        }
        let old: Row = row.to_vec().into();
        for (i, column) in table.columns.iter().enumerate() {
            if let Some(generated) = &column.generated {
                row[i] = self.of_row(generated, &old, around)?;
            }
        }
        Ok(())
    }

    /// Checks `NOT NULL`, by column, then `CHECK`, by name.
    fn check_row(&mut self, table: &Table, row: &Row, around: Around<'_>) -> Result<(), Stop> {
        for (column, value) in table.columns.iter().zip(row.iter()) {
            if column.not_null && value.is_null() && !column.dropped {
                let shown = failing_row(table, row);
                return Err(errors::not_null(&table.name, &column.name, &shown).into());
            }
        }
        for check in &table.checks {
            let scope_row = [Bound::computed(Row::clone(row))];
            let holds = around.with(&scope_row, |scope| expr::test(&check.expr, scope, self))?;
            if holds == Some(false) {
                let shown = failing_row(table, row);
                return Err(errors::check(&table.name, &check.name, &shown).into());
            }
        }
        Ok(())
    }

    /// An expression over one row at entry 0.
    pub(super) fn of_row(
        &mut self,
        e: &expr::Expr,
        row: &Row,
        around: Around<'_>,
    ) -> Result<Value, Stop> {
        if let expr::Expr::Column {
            level: 0,
            entry: 0,
            column,
        } = e
        {
            return Ok(row[*column as usize].clone());
        }
        let bound = [Bound::computed(Row::clone(row))];
        around.with(&bound, |scope| Ok(expr::eval(e, scope, self)?.into_owned()))
    }

    /// The key of a row in an index; `None` if a partial index leaves it out.
    pub(super) fn index_key(
        &mut self,
        index: &Index,
        row: &Row,
        around: Around<'_>,
    ) -> Result<Option<IndexKeyValues>, Stop> {
        if let Some(predicate) = &index.predicate {
            let bound = [Bound::computed(Row::clone(row))];
            let holds = around.with(&bound, |scope| expr::test(predicate, scope, self))?;
            if holds != Some(true) {
                return Ok(None);
            }
        }
        if let [key] = &index.keys[..] {
            return Ok(Some([self.of_row(&key.expr, row, around)?].into()));
        }
        let mut values = Vec::with_capacity(index.keys.len());
        for key in &index.keys {
            values.push(self.of_row(&key.expr, row, around)?);
        }
        Ok(Some(values.into()))
    }

    /// Adds a new version to every index of its table; `chain` is the version before it, if no indexed
    /// column changed. Returns the first index (by position) among
    /// `lenient` in which the key is taken; any other taken key is an error.
    pub(super) fn index_row(
        &mut self,
        table: &Table,
        row: &Row,
        version: VersionId,
        chain: Option<VersionId>,
        lenient: &[usize],
        around: Around<'_>,
    ) -> Result<Option<usize>, Stop> {
        for (i, index) in table.indexes.iter().enumerate() {
            let calls = index.keys.iter().any(|k| walk::calls_routine(&k.expr));
            let key = match chain {
                // The server computes no key for a version that joins a chain.
                Some(old) if calls => self.store.key_of(index.id, old),
                _ => self.index_key(index, row, around)?,
            };
            let Some(key) = key else {
                continue;
            };
            if index.deferrable {
                if self
                    .store
                    .index_insert_deferrable(&mut self.run, index.id, &key, version)
                {
                    self.rechecks.push((index.name.clone(), key));
                }
                continue;
            }
            let check = if lenient.contains(&i) {
                self.store
                    .index_try_insert(&mut self.run, index.id, &key, version)?
            } else {
                self.store
                    .index_insert(&mut self.run, index.id, &key, version)?
            };
            if let UniqueCheck::Conflict(_) = check {
                if lenient.contains(&i) {
                    return Ok(Some(i));
                }
                let (columns, values) = shown_key(table, index, &key);
                return Err(errors::unique(&index.name, &columns, &values).into());
            }
        }
        Ok(None)
    }
}

/// The lock that an update takes: full strength if the value of a key column differs.
pub(super) fn update_strength(table: &Table, old: &[Value], new: &[Value]) -> RowLock {
    let key_changes = old
        .iter()
        .zip(new)
        .enumerate()
        .any(|(i, (a, b))| a != b && table.is_key_column(i));
    if key_changes {
        RowLock::Update
    } else {
        RowLock::NoKeyUpdate
    }
}

/// Whether an update changes a column that any index reads, in its keys or its predicate.
pub(super) fn changes_index(table: &Table, old: &[Value], new: &[Value]) -> bool {
    let changed = |column: usize| old[column] != new[column];
    table.indexes.iter().any(|index| {
        let mut reads = false;
        for key in &index.keys {
            reads |= match key.column {
                Some(column) => changed(column),
                None => walk::columns_of_row(&key.expr).into_iter().any(changed),
            };
        }
        reads |= index.include.iter().any(|c| changed(*c));
        if let Some(predicate) = &index.predicate {
            reads |= walk::columns_of_row(predicate).into_iter().any(changed);
        }
        reads
    })
}

/// The failing row as a DETAIL shows it: values longer than 64 bytes are cut.
pub(super) fn failing_row(table: &Table, row: &[Value]) -> String {
    let mut shown = Vec::with_capacity(row.len());
    for (column, value) in table.columns.iter().zip(row) {
        if column.dropped {
            continue;
        }
        let mut text = match value {
            Value::Null => "null".to_owned(),
            other => output_text(other, column.declared.ty),
        };
        if text.len() > 64 {
            let mut end = 64;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("...");
        }
        shown.push(text);
    }
    shown.join(", ")
}

/// A key as the DETAIL of 23505 shows it: the columns and the values.
pub(super) fn shown_key(table: &Table, index: &Index, key: &[Value]) -> (String, String) {
    let columns: Vec<String> = index
        .keys
        .iter()
        .map(|k| match k.column {
            Some(column) => table.columns[column].name.to_string(),
            None => "expression".to_owned(),
        })
        .collect();
    let values: Vec<String> = index
        .keys
        .iter()
        .zip(key)
        .map(|(k, v)| output_text(v, k.ty))
        .collect();
    (columns.join(", "), values.join(", "))
}

/// A value as the server prints it.
pub(super) fn output_text(value: &Value, ty: Type) -> String {
    match (value, ty) {
        (Value::Null, _) => "null".to_owned(),
        (Value::Bool(b), _) => if *b { "t" } else { "f" }.to_owned(),
        _ => value.to_string(),
    }
}
