//! Changes of the schema. Each commits the open transaction before it begins and is a transaction of
//! its own.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Reply, Row, Value};

use super::database::InnoDb;
use super::errors;
use super::handler::Handler;
use super::metadata::MetaMode;
use super::records::{Record, Version, Writer};
use super::run::Run;
use super::shape::{IndexId, IndexShape, Shape};
use super::statement::{Halt, Planned, metadata_halt, notices};
use crate::loose::catalog::{Table, TableId};
use crate::loose::plan::{Alter, Ddl};
use crate::loose::run::Executor;
use crate::loose::store::store;
use crate::loose::types::DeclaredType;

impl InnoDb {
    pub(super) fn ddl(
        &mut self,
        session: SessionId,
        ddl: &Ddl,
        planned: &Planned,
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        if !run.resumed {
            self.commit_implicitly(session);
            self.open_transaction(session);
            self.store.session_mut(session).in_transaction = false;
        }
        self.lock_exclusively(session, ddl, run)?;
        self.change_schema(session, ddl, &mut run.warnings)?;
        self.store.session_mut(session).row_count = 0;
        Ok(Reply {
            notices: notices(run),
            ..Reply::tag(planned.plan.tag)
        })
    }

    /// The tables that a change is about, by name.
    fn tables_of(ddl: &Ddl) -> Vec<Arc<str>> {
        match ddl {
            Ddl::CreateTable { table, .. } => vec![Arc::clone(&table.name)],
            Ddl::DropTable { names, .. } => names.clone(),
            Ddl::CreateIndex { table, .. } | Ddl::AlterTable { table, .. } => {
                vec![Arc::clone(&table.name)]
            }
            Ddl::DropIndex { table, .. } => {
                table.iter().map(|table| Arc::clone(&table.name)).collect()
            }
            Ddl::Truncate(table) => vec![Arc::clone(&table.name)],
            Ddl::Rename(pairs) => pairs
                .iter()
                .flat_map(|(table, name)| [Arc::clone(&table.name), Arc::clone(name)])
                .collect(),
            Ddl::CreateView { view, .. } => vec![Arc::clone(&view.name)],
            Ddl::DropView { name, .. } => vec![Arc::clone(name)],
        }
    }

    fn lock_exclusively(
        &mut self,
        session: SessionId,
        ddl: &Ddl,
        run: &mut Run,
    ) -> Result<(), Halt> {
        let tables = InnoDb::tables_of(ddl);
        while run.metadata < tables.len() {
            let table = &tables[run.metadata];
            let granted = std::mem::take(&mut run.granted);
            if !granted || !std::mem::take(&mut run.metadata_wait) {
                self.store
                    .lock_metadata(session, table, MetaMode::Exclusive, false, true)
                    .map_err(|refused| {
                        run.metadata_wait = true;
                        metadata_halt(refused)
                    })?;
            }
            run.metadata += 1;
        }
        Ok(())
    }

    fn change_schema(
        &mut self,
        session: SessionId,
        ddl: &Ddl,
        warnings: &mut Vec<(u16, String)>,
    ) -> Result<(), DbError> {
        let schema = &self.store.session(session).schema;
        if *schema != self.store.database {
            return Err(DbError::unsupported(format!("a change of {schema}"), None));
        }
        match ddl {
            Ddl::CreateTable {
                table,
                if_not_exists,
                rows,
                ..
            } => {
                if rows.is_some() {
                    return Err(DbError::unsupported("CREATE TABLE .. SELECT", None));
                }
                if table.temporary {
                    return Err(DbError::unsupported("a temporary table", None));
                }
                self.create_table(table, *if_not_exists, warnings)
            }
            Ddl::DropTable {
                names, if_exists, ..
            } => self.drop_tables(names, *if_exists, warnings),
            Ddl::CreateIndex {
                table,
                index,
                if_not_exists,
                ..
            } => {
                if *if_not_exists && table.index(&index.name).is_some() {
                    return Ok(());
                }
                let action = Alter::AddIndex(index.clone());
                self.alter(session, table, std::slice::from_ref(&action))
            }
            Ddl::DropIndex {
                name,
                table: Some(table),
                if_exists,
            } => match table.index(name) {
                Some(at) => self.alter(session, table, &[Alter::DropIndex(at)]),
                None if *if_exists => Ok(()),
                None => Err(errors::mysql(
                    1091,
                    "42000",
                    format!("Can't DROP '{name}'; check that column/key exists"),
                )),
            },
            Ddl::DropIndex { .. } => Err(DbError::unsupported("DROP INDEX without a table", None)),
            Ddl::AlterTable { table, actions } => self.alter(session, table, actions),
            Ddl::Truncate(table) => {
                let shape = self.store.shape(table.id);
                self.remove_table(&shape);
                let mut table = Table::clone(table);
                table.id = self.next_table();
                self.put_table(&Arc::new(table), None, Vec::new())
            }
            Ddl::Rename(pairs) => {
                for (table, name) in pairs {
                    self.alter(session, table, &[Alter::Rename(Arc::clone(name))])?;
                }
                Ok(())
            }
            Ddl::CreateView {
                view,
                if_not_exists,
                ..
            } => {
                let name = &view.name;
                if self.store.schema().view(name).is_some()
                    || self.store.schema().table(name).is_some()
                {
                    if *if_not_exists {
                        return Ok(());
                    }
                    return Err(exists(name));
                }
                let stamp = self.next_stamp();
                let view = Arc::new(crate::loose::catalog::View::clone(view));
                self.store
                    .schema_mut()
                    .put_view(&Arc::clone(&view.name), Some(view), stamp);
                Ok(())
            }
            Ddl::DropView { name, if_exists } => {
                if self.store.schema().view(name).is_none() {
                    let (code, message) = self
                        .store
                        .flavour
                        .unknown_view(&self.store.database, name);
                    if !if_exists {
                        return Err(errors::mysql(code, "42S02", message));
                    }
                    warnings.push((code, message));
                    return Ok(());
                }
                let stamp = self.next_stamp();
                self.store.schema_mut().put_view(name, None, stamp);
                Ok(())
            }
        }
    }

    fn next_table(&mut self) -> TableId {
        let counters = self.store.world.counters_mut();
        counters.table += 1;
        TableId(counters.table)
    }

    fn next_index(&mut self) -> IndexId {
        let counters = self.store.world.counters_mut();
        counters.index += 1;
        IndexId(counters.index)
    }

    fn next_stamp(&mut self) -> u64 {
        self.store.schema().stamp + 1
    }

    fn create_table(
        &mut self,
        table: &Table,
        if_not_exists: bool,
        warnings: &mut Vec<(u16, String)>,
    ) -> Result<(), DbError> {
        if self.store.schema().table(&table.name).is_some() {
            if !if_not_exists {
                return Err(exists(&table.name));
            }
            warnings.push((1050, format!("Table '{}' already exists", table.name)));
            return Ok(());
        }
        let mut table = table.clone();
        table.id = self.next_table();
        add_foreign_key_indexes(&mut table);
        self.put_table(&Arc::new(table), None, Vec::new())
    }

    fn drop_tables(
        &mut self,
        names: &[Arc<str>],
        if_exists: bool,
        warnings: &mut Vec<(u16, String)>,
    ) -> Result<(), DbError> {
        let missing: Vec<String> = names
            .iter()
            .filter(|name| self.store.schema().table(name).is_none())
            .map(|name| format!("{}.{name}", self.store.database))
            .collect();
        for name in names {
            let Some(shape) = self.store.schema().table(name).cloned() else {
                continue;
            };
            let children = self.store.schema().children(name);
            if let Some((child, at)) = children
                .iter()
                .find(|(c, _)| !names.contains(&c.table.name))
            {
                let constraint = &child.table.foreign_keys[*at].name;
                return Err(errors::mysql(
                    3730,
                    "HY000",
                    format!(
                        "Cannot drop table '{name}' referenced by a foreign key constraint \
                         '{constraint}' on table '{}'.",
                        child.table.name
                    ),
                ));
            }
            self.remove_table(&shape);
        }
        if if_exists {
            let note = |names: String| (1051, format!("Unknown table '{names}'"));
            match self.store.flavour.tells_missing_tables_at_once() {
                true if missing.is_empty() => {}
                true => warnings.push(note(missing.join(","))),
                false => warnings.extend(missing.into_iter().map(note)),
            }
            return Ok(());
        }
        if missing.is_empty() {
            return Ok(());
        }
        let text = missing.join(",");
        Err(errors::mysql(
            1051,
            "42S02",
            format!("Unknown table '{text}'"),
        ))
    }

    fn remove_table(&mut self, shape: &Rc<Shape>) {
        for index in &shape.indexes {
            self.store.drop_index(index.id);
        }
        self.store.drop_numbers(shape.table.id);
        let stamp = self.next_stamp();
        self.store.schema_mut().remove(shape.table.id, stamp);
    }

    /// Stores a table, with its rows if it had some.
    fn put_table(
        &mut self,
        table: &Arc<Table>,
        old: Option<&Shape>,
        rows: Vec<(Row, u64)>,
    ) -> Result<(), DbError> {
        // A snapshot that exists already is older than the index.
        let counters = self.store.world.counters_mut();
        counters.commit += 1;
        let created = counters.commit;
        let mut fresh: Vec<IndexId> = Vec::new();
        let count = table.indexes.len() + 1;
        let ids: Vec<IndexId> = (0..count).map(|_| self.next_index()).collect();
        let mut ids = ids.into_iter();
        let shape = Shape::new(table, old, created, || {
            let id = ids.next().unwrap_or(IndexId(0));
            fresh.push(id);
            id
        });
        for id in &fresh {
            self.store.create_index(table.id, *id);
        }
        if old.is_none() {
            let next = table.auto_increment().map_or(1, |column| {
                let number = |(row, _): &(Row, u64)| row[column].as_int();
                rows.iter().filter_map(number).max().unwrap_or(0) + 1
            });
            self.store.create_numbers(table.id, next);
        }
        for (row, number) in &rows {
            for index in shape.indexes.iter().filter(|i| fresh.contains(&i.id)) {
                self.fill(&shape, index, row, *number)?;
            }
        }
        let stamp = self.next_stamp();
        self.store.schema_mut().put(shape, stamp);
        Ok(())
    }

    fn fill(
        &mut self,
        shape: &Shape,
        index: &IndexShape,
        row: &Row,
        number: u64,
    ) -> Result<(), DbError> {
        let key = shape.key(index, row);
        let clustered = shape.is_clustered(index);
        let declared = index.declared_parts(&key);
        if index.unique && !declared.iter().any(super::key::Part::is_null) {
            let first = super::key::Key(declared.into());
            let found = self.store.records(index.id).iter_from(&first).next();
            if found.is_some_and(|(key, _)| key.starts_with(declared)) {
                let at = shape.indexes.iter().position(|i| i.id == index.id);
                let text = self.store.key_text(shape, at.unwrap_or(0), row);
                let name = &shape.table.name;
                return Err(errors::duplicate(
                    self.store.flavour,
                    name,
                    &index.name,
                    &text,
                ));
            }
        }
        let record = Record {
            newest: Version {
                row: if clustered {
                    row.clone()
                } else {
                    shape.shown(index, row).into()
                },
                deleted: false,
                writer: Writer::Committed(number),
            },
            older: Vec::new(),
            row_key: (!clustered).then(|| shape.key(shape.clustered(), row)),
        };
        self.store.put_record(index.id, key, record);
        Ok(())
    }

    /// The committed rows of a table with their commit numbers. Nobody changes them: the table is
    /// locked exclusively.
    fn rows_of(&self, shape: &Shape) -> Vec<(Row, u64)> {
        let records = self.store.records(shape.clustered().id);
        let rows = records.iter().filter(|(_, r)| !r.newest.deleted);
        let row = |(_, record): (&super::key::Key, &Record)| {
            let number = match record.newest.writer {
                Writer::Committed(number) => number,
                Writer::Active(_) => 0,
            };
            (record.newest.row.clone(), number)
        };
        rows.map(row).collect()
    }

    fn alter(
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
                        values[*at] = store(column, values[*at].clone(), true, 1)?;
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
                    if ["engine", "algorithm", "lock"]
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
    fn default_of(
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
            Ok(value) => store(column, value, true, 1),
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

/// A foreign key without an index gets one, named like it or like its column.
fn add_foreign_key_indexes(table: &mut Table) {
    for key in table.foreign_keys.clone() {
        let covered = table.indexes.iter().any(|index| {
            let columns: Vec<usize> = index.keys.iter().filter_map(|k| k.column()).collect();
            columns.starts_with(&key.columns)
        });
        if covered {
            continue;
        }
        let named = !key.name.is_empty() && !key.name.starts_with(&format!("{}_ibfk_", table.name));
        let name = if named {
            Arc::clone(&key.name)
        } else {
            Arc::clone(&table.columns[key.columns[0]].name)
        };
        let part = |column: &usize| crate::loose::catalog::IndexKey {
            part: crate::loose::catalog::KeyPart::Column(*column),
            collation: table.columns[*column].collation,
            descending: false,
        };
        let keys = key.columns.iter().map(part).collect();
        table.indexes.push(crate::loose::catalog::Index {
            name,
            keys,
            unique: false,
            primary: false,
            filter: None,
            on_conflict: crate::loose::catalog::ConflictAction::Abort,
            from_constraint: true,
        });
    }
}

/// 1050.
fn exists(name: &str) -> DbError {
    errors::mysql(1050, "42S01", format!("Table '{name}' already exists"))
}
