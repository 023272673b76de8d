//! Changes of the schema, which are part of the transaction like any other.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Dialect, Row, Value};

use super::exec::{Exec, compare_keys, duplicate_error};
use super::image::{Schema, SchemaEntry};
use crate::loose::catalog::{Index, KeyPart, Table, View};
use crate::loose::errors;
use crate::loose::plan::{Alter, Ddl};
use crate::loose::query::Query;
use crate::loose::run::Executor;
use crate::loose::storage::Stop;
use crate::loose::store::store;

fn refuse(message: impl Into<String>) -> Stop {
    errors::sqlite(1, message).into()
}

impl Exec<'_> {
    fn schema_mut(&mut self) -> &mut Schema {
        Rc::make_mut(&mut self.image.schema)
    }

    pub(super) fn ddl(&mut self, ddl: &Ddl) -> Result<(), Stop> {
        match ddl {
            Ddl::CreateTable {
                table,
                if_not_exists,
                rows,
                text,
            } => self.create_table(table, *if_not_exists, rows.as_deref(), text),
            Ddl::DropTable {
                names, if_exists, ..
            } => {
                for name in names {
                    self.drop_table(name, *if_exists)?;
                }
                Ok(())
            }
            Ddl::CreateIndex {
                table,
                index,
                if_not_exists,
                text,
            } => self.create_index(table, index, *if_not_exists, text),
            Ddl::DropIndex {
                name, if_exists, ..
            } => self.drop_index(name, *if_exists),
            Ddl::CreateView {
                view,
                if_not_exists,
                text,
                ..
            } => self.create_view(view, *if_not_exists, text),
            Ddl::DropView { name, if_exists } => {
                let lower = name.to_ascii_lowercase();
                if self.schema_mut().views.remove(&lower).is_none() && !if_exists {
                    return Err(refuse(format!("no such view: {name}")));
                }
                let entries = &mut self.schema_mut().entries;
                entries.retain(|e| e.kind != "view" || !e.name.eq_ignore_ascii_case(name));
                Ok(())
            }
            Ddl::AlterTable { table, actions } => {
                for action in actions {
                    self.alter(table, action)?;
                }
                Ok(())
            }
            Ddl::Truncate(_) | Ddl::Rename(_) => {
                Err(DbError::unsupported("this statement on SQLite", None).into())
            }
        }
    }

    /// Something with this name exists already.
    fn taken(&self, name: &str) -> Option<String> {
        let lower = name.to_ascii_lowercase();
        if self.image.schema.tables.contains_key(&lower) {
            return Some(format!("table {name} already exists"));
        }
        if self.image.schema.views.contains_key(&lower) {
            return Some(format!("view {name} already exists"));
        }
        None
    }

    fn create_table(
        &mut self,
        table: &Table,
        if_not_exists: bool,
        rows: Option<&Query>,
        text: &Arc<str>,
    ) -> Result<(), Stop> {
        if table.temporary {
            return Err(DbError::unsupported("a temporary table", None).into());
        }
        if let Some(message) = self.taken(&table.name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(refuse(message)),
            };
        }
        if self.image.schema.table_of_index(&table.name).is_some() {
            let message = format!("there is already an index named {}", table.name);
            return Err(refuse(message));
        }
        let rows = match rows {
            Some(query) => Executor::new(self, Dialect::Sqlite).rows(query)?,
            None => Vec::new(),
        };
        let mut table = table.clone();
        table.id = self.schema_mut().next_id();
        let table = Arc::new(table);
        let lower = table.name.to_ascii_lowercase();
        let schema = self.schema_mut();
        schema.tables.insert(lower, Arc::clone(&table));
        schema.entries.push(SchemaEntry {
            kind: "table",
            name: table.name.clone(),
            table: table.name.clone(),
            sql: Some(text.clone()),
        });
        for index in &table.indexes {
            if !table.without_rowid || !index.primary {
                schema.entries.push(SchemaEntry {
                    kind: "index",
                    name: index.name.clone(),
                    table: table.name.clone(),
                    sql: None,
                });
            }
        }
        self.image.create(table.id);
        self.writes.insert(table.id);
        for (i, row) in rows.iter().enumerate() {
            let mut values = Vec::new();
            for (value, column) in row.iter().zip(&table.columns) {
                values.push(store(column, value.clone(), true, 1, Dialect::Sqlite)?);
            }
            self.image
                .data_mut(table.id)
                .rows
                .insert(i as i64 + 1, values.into());
        }
        Ok(())
    }

    fn drop_table(&mut self, name: &str, if_exists: bool) -> Result<(), Stop> {
        let lower = name.to_ascii_lowercase();
        let Some(table) = self.schema_mut().tables.remove(&lower) else {
            return match if_exists {
                true => Ok(()),
                false => Err(refuse(format!("no such table: {name}"))),
            };
        };
        let entries = &mut self.schema_mut().entries;
        entries.retain(|e| !e.table.eq_ignore_ascii_case(name) || e.kind == "view");
        self.image.drop(table.id);
        self.writes.insert(table.id);
        Ok(())
    }

    fn create_index(
        &mut self,
        table: &Arc<Table>,
        index: &Index,
        if_not_exists: bool,
        text: &Arc<str>,
    ) -> Result<(), Stop> {
        if self.image.schema.table_of_index(&index.name).is_some() {
            return match if_not_exists {
                true => Ok(()),
                false => Err(refuse(format!("index {} already exists", index.name))),
            };
        }
        if self.taken(&index.name).is_some() {
            let message = format!("there is already a table named {}", index.name);
            return Err(refuse(message));
        }
        self.check_unique(table, index)?;
        let mut grown = (**table).clone();
        grown.indexes.push(index.clone());
        self.replace_table(grown);
        self.schema_mut().entries.push(SchemaEntry {
            kind: "index",
            name: index.name.clone(),
            table: table.name.clone(),
            sql: Some(text.clone()),
        });
        Ok(())
    }

    /// No two rows may agree in the keys of a new unique index.
    fn check_unique(&mut self, table: &Table, index: &Index) -> Result<(), Stop> {
        if !index.unique {
            return Ok(());
        }
        let rows: Vec<(i64, Row)> = self
            .image
            .data(table.id)
            .rows
            .iter()
            .map(|(rowid, row)| (*rowid, Arc::clone(row)))
            .collect();
        let mut seen: Vec<Vec<Value>> = Vec::new();
        for (rowid, row) in rows {
            let Some(keys) = self.index_keys(index, &row, rowid)? else {
                continue;
            };
            if keys.iter().any(Value::is_null) {
                continue;
            }
            if seen
                .iter()
                .any(|other| compare_keys(index, other, &keys).is_eq())
            {
                return Err(duplicate_error(table, Some(index)).into());
            }
            seen.push(keys);
        }
        Ok(())
    }

    fn replace_table(&mut self, table: Table) {
        self.writes.insert(table.id);
        let lower = table.name.to_ascii_lowercase();
        self.schema_mut().tables.insert(lower, Arc::new(table));
    }

    fn drop_index(&mut self, name: &str, if_exists: bool) -> Result<(), Stop> {
        let Some(table) = self.image.schema.table_of_index(name).cloned() else {
            return match if_exists {
                true => Ok(()),
                false => Err(refuse(format!("no such index: {name}"))),
            };
        };
        let mut table = (*table).clone();
        let position = table.index(name).unwrap_or(0);
        if table.indexes[position].from_constraint {
            return Err(refuse(
                "index associated with UNIQUE or PRIMARY KEY constraint cannot be dropped",
            ));
        }
        table.indexes.remove(position);
        self.replace_table(table);
        let entries = &mut self.schema_mut().entries;
        entries.retain(|e| e.kind != "index" || !e.name.eq_ignore_ascii_case(name));
        Ok(())
    }

    fn create_view(
        &mut self,
        view: &Arc<View>,
        if_not_exists: bool,
        text: &Arc<str>,
    ) -> Result<(), Stop> {
        if let Some(message) = self.taken(&view.name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(refuse(message)),
            };
        }
        let lower = view.name.to_ascii_lowercase();
        let schema = self.schema_mut();
        schema.views.insert(lower, Arc::clone(view));
        schema.entries.push(SchemaEntry {
            kind: "view",
            name: view.name.clone(),
            table: view.name.clone(),
            sql: Some(text.clone()),
        });
        Ok(())
    }

    fn alter(&mut self, table: &Arc<Table>, action: &Alter) -> Result<(), Stop> {
        let mut changed = (**table).clone();
        match action {
            Alter::AddColumn {
                column, indexes, ..
            } => {
                if !indexes.is_empty() {
                    return Err(refuse("Cannot add a UNIQUE column"));
                }
                if column.not_null.is_some() && column.default.is_none() {
                    return Err(refuse(
                        "Cannot add a NOT NULL column with default value NULL",
                    ));
                }
                let value = match &column.default {
                    Some(default) => {
                        let value = Executor::new(self, Dialect::Sqlite).value(default)?;
                        store(column, value, true, 1, Dialect::Sqlite)?
                    }
                    None => Value::Null,
                };
                changed.columns.push((**column).clone());
                for row in self.image.data_mut(table.id).rows.values_mut() {
                    let mut values = row.to_vec();
                    values.push(value.clone());
                    *row = values.into();
                }
            }
            Alter::DropColumn(position) => {
                let position = *position;
                let indexed = |index: &Index| {
                    index.filter.is_some()
                        || index.keys.iter().any(|key| match &key.part {
                            KeyPart::Column(column) => *column == position,
                            KeyPart::Expr(_) => true,
                        })
                };
                let own = &table.columns[position].name;
                if table.indexes.iter().any(indexed)
                    || table.rowid_alias == Some(position)
                    || !table.checks.is_empty()
                    || !table.foreign_keys.is_empty()
                {
                    return Err(DbError::unsupported(
                        format!("dropping the column {own}, which others may depend on"),
                        None,
                    )
                    .into());
                }
                changed.columns.remove(position);
                for index in &mut changed.indexes {
                    for key in &mut index.keys {
                        if let KeyPart::Column(column) = &mut key.part
                            && *column > position
                        {
                            *column -= 1;
                        }
                    }
                }
                if let Some(alias) = &mut changed.rowid_alias
                    && *alias > position
                {
                    *alias -= 1;
                }
                for row in self.image.data_mut(table.id).rows.values_mut() {
                    let mut values = row.to_vec();
                    values.remove(position);
                    *row = values.into();
                }
            }
            Alter::RenameColumn(position, name) => {
                if changed.column(name).is_some() {
                    let message = format!("duplicate column name: {name}");
                    return Err(refuse(message));
                }
                changed.columns[*position].name = name.clone();
            }
            Alter::Rename(name) => {
                if self.taken(name).is_some() {
                    let message =
                        format!("there is already another table or index with this name: {name}");
                    return Err(refuse(message));
                }
                let lower = table.name.to_ascii_lowercase();
                self.schema_mut().tables.remove(&lower);
                for entry in &mut self.schema_mut().entries {
                    if entry.table.eq_ignore_ascii_case(&table.name) {
                        entry.table = name.clone();
                        if entry.kind == "table" {
                            entry.name = name.clone();
                        }
                    }
                }
                changed.name = name.clone();
            }
            _ => {
                return Err(DbError::unsupported("this action of ALTER TABLE", None).into());
            }
        }
        self.replace_table(changed);
        Ok(())
    }
}
