//! `ALTER TABLE`.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Row, Value};

use super::database::InnoDb;
use super::ddl::{add_foreign_key_indexes, exists};
use super::handler::Handler;
use super::run::Run;
use crate::loose::catalog::Table;
use crate::loose::plan::Alter;
use crate::loose::run::Executor;
use crate::loose::store::store;
use crate::loose::types::DeclaredType;

impl InnoDb {
    pub(super) fn alter(
        &mut self,
        session: SessionId,
        table: &Arc<Table>,
        actions: &[Alter],
    ) -> Result<(), DbError> {
        let old = self.store.shape(table.id);
        let mut new = Table::clone(table);
        let mut rows = self.rows_of(&old);
        let mut rebuilt = false;
        let mut next_number = None;
        for action in actions {
            match action {
                Alter::AddColumn {
                    column,
                    at,
                    indexes,
                } => {
                    let at = at.unwrap_or(new.columns.len());
                    let value = self.default_of(session, column)?;
                    shift_columns(&mut new, at, true);
                    new.columns.insert(at, (**column).clone());
                    new.indexes.extend(indexes.iter().cloned());
                    insert_value(&mut rows, at, &value);
                    rebuilt = true;
                }
                Alter::DropColumn(at) => {
                    let uses = |i: &crate::loose::catalog::Index| {
                        i.keys.iter().any(|k| k.column() == Some(*at))
                    };
                    if new.indexes.iter().any(uses) {
                        return Err(DbError::unsupported("dropping an indexed column", None));
                    }
                    new.columns.remove(*at);
                    shift_columns(&mut new, *at, false);
                    for (row, _) in &mut rows {
                        let mut values = row.to_vec();
                        values.remove(*at);
                        *row = values.into();
                    }
                    rebuilt = true;
                }
                Alter::ChangeColumn(at, column) => {
                    new.columns[*at] = (**column).clone();
                    for (row, _) in &mut rows {
                        let mut values = row.to_vec();
                        let dialect = self.store.flavour.dialect();
                        values[*at] = store(column, values[*at].clone(), true, 1, dialect)?;
                        *row = values.into();
                    }
                    rebuilt = true;
                }
                Alter::RenameColumn(at, name) => new.columns[*at].name = Arc::clone(name),
                Alter::SetDefault(at, default) => new.columns[*at].default.clone_from(default),
                Alter::AddIndex(index) => {
                    rebuilt |= index.primary;
                    new.indexes.push((**index).clone());
                }
                Alter::DropIndex(at) => {
                    rebuilt |= new.indexes[*at].primary;
                    new.indexes.remove(*at);
                }
                Alter::AddForeignKey(key) => {
                    new.foreign_keys.push(key.clone());
                    add_foreign_key_indexes(&mut new);
                }
                Alter::DropForeignKey(name) => new.foreign_keys.retain(|k| k.name != *name),
                Alter::Rename(name) => {
                    if self.store.schema().table(name).is_some() {
                        return Err(exists(name));
                    }
                    new.name = Arc::clone(name);
                }
                Alter::Option(name, value) if name.eq_ignore_ascii_case("auto_increment") => {
                    next_number = value.parse().ok();
                }
                Alter::Option(name, _)
                    if ["force", "optimize"]
                        .iter()
                        .any(|known| name.eq_ignore_ascii_case(known)) =>
                {
                    rebuilt = true;
                }
                Alter::Option(name, _)
                    if ["engine", "algorithm", "lock", "comment"]
                        .iter()
                        .any(|known| name.eq_ignore_ascii_case(known)) => {}
                Alter::Option(name, _) => {
                    return Err(DbError::unsupported(format!("ALTER TABLE .. {name}"), None));
                }
            }
        }
        let numbers = self.store.next_number(table.id);
        let id = new.id;
        if rebuilt {
            // A copy of the table: snapshots older than it cannot read it.
            self.remove_table(&old);
            new.id = self.next_table();
            let id = new.id;
            self.put_table(&Arc::new(new), None, rows)?;
            self.store
                .set_next_number(id, next_number.unwrap_or(numbers));
            return Ok(());
        }
        let new = Arc::new(new);
        self.put_table(&new, Some(&old), rows)?;
        let shape = self.store.shape(id);
        for index in &old.indexes {
            if !shape.indexes.iter().any(|i| i.id == index.id) {
                self.store.drop_index(index.id);
            }
        }
        if let Some(next) = next_number {
            self.store.set_next_number(id, next);
        }
        Ok(())
    }

    /// The value that existing rows get in a new column.
    pub(super) fn default_of(
        &mut self,
        session: SessionId,
        column: &crate::loose::catalog::Column,
    ) -> Result<Value, DbError> {
        let Some(default) = &column.default else {
            // Without a default, rows that exist get NULL, or the zero of the type.
            return Ok(match (&column.not_null, &column.ty) {
                (None, _) => Value::Null,
                (Some(_), DeclaredType::Int { .. }) => Value::Int(0),
                (Some(_), DeclaredType::Char(_) | DeclaredType::Varchar(_)) => Value::text(""),
                _ => {
                    let what = "a new column that is NOT NULL and has no default";
                    return Err(DbError::unsupported(what, None));
                }
            });
        };
        let mut run = Run::new(self.store.now_unrecorded());
        let mut handler = Handler {
            store: &mut self.store,
            run: &mut run,
            session,
            args: &[],
            facts: super::handler::Facts::default(),
            waiting: None,
        };
        let dialect = handler.store.flavour.dialect();
        match Executor::new(&mut handler, dialect).value(default) {
            Ok(value) => store(column, value, true, 1, dialect),
            Err(crate::loose::storage::Stop::Error(error)) => Err(*error),
            Err(crate::loose::storage::Stop::Wait) => {
                Err(DbError::unsupported("a default that waits", None))
            }
        }
    }
}

/// Positions of columns behind `at` move by one.
fn shift_columns(table: &mut Table, at: usize, forwards: bool) {
    let moved = |column: usize| {
        if column < at {
            column
        } else if forwards {
            column + 1
        } else {
            column - 1
        }
    };
    for index in &mut table.indexes {
        for key in &mut index.keys {
            if let crate::loose::catalog::KeyPart::Column(column) = &mut key.part {
                *column = moved(*column);
            }
        }
    }
    for key in &mut table.foreign_keys {
        for column in &mut key.columns {
            *column = moved(*column);
        }
    }
}

fn insert_value(rows: &mut [(Row, u64)], at: usize, value: &Value) {
    for (row, _) in rows {
        let mut values = row.to_vec();
        values.insert(at, value.clone());
        *row = values.into();
    }
}
