//! What writing a row does to the tables that refer to it.

use std::sync::Arc;

use rowlock_model::{Dialect, Row, Value};

use super::exec::{Exec, Referring};
use super::foreign_key;
use crate::loose::catalog::{ConflictAction, ForeignKey, Reference, Table};
use crate::loose::errors;
use crate::loose::eval::{Frame, eval};
use crate::loose::run::Executor;
use crate::loose::storage::{NewRow, Stop, Storage};
use crate::loose::store::store;

impl Exec<'_> {
    /// Foreign keys that refer to a table, each with its child and the parent's columns.
    fn referring(&self, table: &Table) -> Result<Vec<Referring>, Stop> {
        let mut found = Vec::new();
        for child in self.image.schema.tables.values() {
            for key in &child.foreign_keys {
                if !key.parent.eq_ignore_ascii_case(&table.name) {
                    continue;
                }
                match foreign_key::parent_columns(key, table) {
                    Some(columns) => found.push((Arc::clone(child), key.clone(), columns)),
                    None => return Err(foreign_key::mismatch(child, key).into()),
                }
            }
        }
        Ok(found)
    }

    /// A parent row is gone, or has other values: carries out the actions of its children's keys.
    pub(super) fn parent_changed(
        &mut self,
        table: &Arc<Table>,
        old: &Row,
        new: Option<&Row>,
    ) -> Result<(), Stop> {
        if self.depth > 900 {
            return Err(errors::sqlite(1, "too many levels of trigger recursion").into());
        }
        for (child, key, columns) in self.referring(table)? {
            let values: Vec<Value> = columns.iter().map(|c| old[*c].clone()).collect();
            let same = |new: &Row| columns.iter().all(|c| new[*c] == old[*c]);
            if values.iter().any(Value::is_null) || new.is_some_and(same) {
                continue;
            }
            let action = match new {
                Some(_) => key.on_update,
                None => key.on_delete,
            };
            if action == Reference::NoAction {
                continue;
            }
            let children: Vec<i64> = self
                .image
                .data(child.id)
                .rows
                .iter()
                .filter(|(_, row)| {
                    foreign_key::child_values(&key, row)
                        .is_some_and(|theirs| foreign_key::refers(table, &columns, &theirs, old))
                })
                .map(|(rowid, _)| *rowid)
                .collect();
            if children.is_empty() {
                continue;
            }
            if action == Reference::Restrict {
                return Err(self.refuse(ConflictAction::Abort, foreign_key::restricted()));
            }
            self.depth += 1;
            for rowid in children {
                match (action, new) {
                    (Reference::Cascade, None) => self.delete_row(&child, rowid)?,
                    _ => self.follow(&child, rowid, &key, action, &columns, new)?,
                }
            }
            self.depth -= 1;
        }
        Ok(())
    }

    /// Gives a child row the values that the action of its key asks for.
    fn follow(
        &mut self,
        child: &Arc<Table>,
        rowid: i64,
        key: &ForeignKey,
        action: Reference,
        columns: &[usize],
        new: Option<&Row>,
    ) -> Result<(), Stop> {
        let Some(row) = self.stored(child, rowid) else {
            return Ok(());
        };
        let mut values = row.values.to_vec();
        for (place, column) in key.columns.iter().enumerate() {
            values[*column] = match (action, new) {
                (Reference::Cascade, Some(new)) => new[columns[place]].clone(),
                (Reference::SetDefault, _) => match &child.columns[*column].default {
                    Some(default) => {
                        let value = {
                            let mut executor = Executor::new(self, Dialect::Sqlite);
                            eval(default, &Frame::empty(None), &mut executor)?
                        };
                        store(&child.columns[*column], value, true, 1, Dialect::Sqlite)?
                    }
                    None => Value::Null,
                },
                _ => Value::Null,
            };
            if values[*column].is_null() && child.columns[*column].not_null.is_some() {
                let message = format!(
                    "NOT NULL constraint failed: {}.{}",
                    child.name, child.columns[*column].name
                );
                let error = errors::sqlite(1299, message);
                return Err(self.refuse(ConflictAction::Abort, error));
            }
        }
        let new_rowid = match child.rowid_alias {
            Some(alias) => values[alias].as_int().unwrap_or(rowid),
            None => rowid,
        };
        let new = NewRow {
            values,
            rowid: Some(new_rowid),
        };
        self.update(child, &row, new, &key.columns, None)
            .map(|_| ())
    }

    /// A child needs a parent key to refer to.
    pub(super) fn check_child(&self, table: &Table) -> Result<(), Stop> {
        if !self.settings.foreign_keys {
            return Ok(());
        }
        for key in &table.foreign_keys {
            let Some(parent) = self.image.schema.table(&key.parent) else {
                let message = format!("no such table: main.{}", key.parent);
                return Err(errors::sqlite(1, message).into());
            };
            if foreign_key::parent_columns(key, parent).is_none() {
                return Err(foreign_key::mismatch(table, key).into());
            }
        }
        Ok(())
    }
}
