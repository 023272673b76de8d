//! Changes of the schema. Each commits the open transaction before it begins and is a transaction of
//! its own.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Reply, Row, Value};

use super::database::InnoDb;
use super::errors;
use super::metadata::MetaMode;
use super::records::{Record, Version, Writer};
use super::run::Run;
use super::session::Told;
use super::shape::{IndexId, IndexShape, Shape};
use super::statement::{Halt, Planned, metadata_halt, notices};
use crate::loose::catalog::{Table, TableId};
use crate::loose::plan::{Alter, Ddl};

impl InnoDb {
    pub(super) fn ddl(
        &mut self,
        session: SessionId,
        ddl: &Ddl,
        planned: &Planned,
        run: &mut Run,
    ) -> Result<Reply, Halt> {
        let temporary = matches!(
            ddl,
            Ddl::CreateTable { table, .. } if table.temporary
        ) || matches!(
            ddl,
            Ddl::DropTable {
                temporary: true,
                ..
            }
        );
        if !run.resumed {
            if !temporary {
                self.commit_implicitly(session);
            }
            self.open_transaction(session);
            if !temporary {
                self.store.session_mut(session).in_transaction = false;
            }
        }
        self.lock_exclusively(session, ddl, planned, run)?;
        if let Ddl::CreateTable {
            table,
            rows: Some(query),
            if_not_exists,
            ..
        } = ddl
        {
            if let Some(source) = planned.locked_for_update().first()
                && self.store.flavour.refuses_locking_source()
            {
                let name = &table.name;
                let message =
                    format!("Can't update table '{source}' while '{name}' is being created.");
                return Err(errors::mysql(1746, "HY000", message).into());
            }
            return self.create_from(session, table, query, *if_not_exists, run);
        }
        self.change_schema(session, ddl, &mut run.warnings)?;
        let state = self.store.session_mut(session);
        state.row_count = 0;
        state.told = match ddl {
            Ddl::AlterTable { .. } => Told::NotKept,
            Ddl::CreateIndex { .. } | Ddl::DropIndex { .. } => Told::Records {
                records: 0,
                warnings: run.warnings.len(),
            },
            _ => Told::Nothing,
        };
        if let Ddl::AlterTable { table, actions } = ddl
            && let [Alter::Option(name, _)] = &actions[..]
            && name.eq_ignore_ascii_case("optimize")
        {
            return Ok(optimized(&self.store.database, &table.name));
        }
        Ok(Reply {
            notices: notices(run),
            ..Reply::tag(planned.plan.tag)
        })
    }

    /// The tables that a change is about and others see, by name.
    fn tables_of(&self, session: SessionId, ddl: &Ddl) -> Vec<Arc<str>> {
        match ddl {
            Ddl::CreateTable { table, .. } if table.temporary => Vec::new(),
            Ddl::CreateTable { table, .. } => vec![Arc::clone(&table.name)],
            Ddl::DropTable {
                temporary: true, ..
            } => Vec::new(),
            Ddl::DropTable { names, .. } => {
                let seen =
                    |name: &&Arc<str>| self.store.schema().temporary(session, name).is_none();
                names.iter().filter(seen).cloned().collect()
            }
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
        planned: &Planned,
        run: &mut Run,
    ) -> Result<(), Halt> {
        let tables = self.tables_of(session, ddl).into_iter();
        let mut wanted: Vec<_> = tables.map(|table| (table, MetaMode::Exclusive)).collect();
        if matches!(ddl, Ddl::CreateTable { rows: Some(_), .. }) {
            wanted.extend(planned.locks.iter().cloned());
        }
        while run.metadata < wanted.len() {
            let (table, mode) = &wanted[run.metadata];
            let granted = std::mem::take(&mut run.granted);
            if !granted || !std::mem::take(&mut run.metadata_wait) {
                self.store
                    .lock_metadata(session, table, *mode, false, true)
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
                ..
            } => self.create_table(session, table, *if_not_exists, warnings),
            Ddl::DropTable {
                names,
                if_exists,
                temporary,
            } => {
                let own: Vec<_> = names
                    .iter()
                    .filter_map(|name| self.store.schema().temporary(session, name).cloned())
                    .collect();
                for shape in &own {
                    self.remove_temporary(session, shape);
                }
                let dropped = |name: &&Arc<str>| own.iter().all(|s| s.table.name != **name);
                let rest: Vec<Arc<str>> = names.iter().filter(dropped).cloned().collect();
                self.drop_tables(session, &rest, *if_exists, *temporary, warnings)
            }
            Ddl::CreateIndex { table, .. }
            | Ddl::AlterTable { table, .. }
            | Ddl::Truncate(table)
            | Ddl::DropIndex {
                table: Some(table), ..
            } if table.temporary => {
                Err(DbError::unsupported("a change of a temporary table", None))
            }
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
                replaces,
                ..
            } => {
                let name = &view.name;
                if *replaces {
                    if self.store.schema().view(name).is_none() {
                        return Err(self.no_such_table(name));
                    }
                } else if self.store.schema().view(name).is_some()
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
                    let (code, message) =
                        self.store.flavour.unknown_view(&self.store.database, name);
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

    pub(super) fn next_table(&mut self) -> TableId {
        let counters = self.store.world.counters_mut();
        counters.table += 1;
        TableId(counters.table)
    }

    pub(super) fn next_index(&mut self) -> IndexId {
        let counters = self.store.world.counters_mut();
        counters.index += 1;
        IndexId(counters.index)
    }

    pub(super) fn next_stamp(&mut self) -> u64 {
        self.store.schema().stamp + 1
    }

    pub(super) fn create_table(
        &mut self,
        session: SessionId,
        table: &Table,
        if_not_exists: bool,
        warnings: &mut Vec<(u16, String)>,
    ) -> Result<(), DbError> {
        if self.is_there(session, table) {
            if !if_not_exists {
                return Err(exists(&table.name));
            }
            warnings.push((1050, format!("Table '{}' already exists", table.name)));
            return Ok(());
        }
        let mut table = table.clone();
        table.id = self.next_table();
        if table.temporary {
            return self.put_temporary(session, &Arc::new(table));
        }
        add_foreign_key_indexes(&mut table);
        self.put_table(&Arc::new(table), None, Vec::new())
    }

    fn drop_tables(
        &mut self,
        session: SessionId,
        names: &[Arc<str>],
        if_exists: bool,
        temporary: bool,
        warnings: &mut Vec<(u16, String)>,
    ) -> Result<(), DbError> {
        let missing: Vec<String> = names
            .iter()
            .filter(|name| temporary || self.store.schema().table(name).is_none())
            .map(|name| format!("{}.{name}", self.store.database))
            .collect();
        for name in names.iter().filter(|_| !temporary) {
            let Some(shape) = self.store.schema().table(name).cloned() else {
                continue;
            };
            let checks = self.store.session(session).settings.foreign_keys;
            let children = match checks {
                true => self.store.schema().children(name),
                false => Vec::new(),
            };
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

    pub(super) fn remove_table(&mut self, shape: &Rc<Shape>) {
        let id = shape.table.id;
        if self.store.server().history.iter().any(|(t, ..)| *t == id) {
            let history = &mut self.store.server_mut().history;
            history.retain(|(table, ..)| *table != id);
        }
        for index in &shape.indexes {
            self.store.drop_index(index.id);
        }
        self.store.drop_numbers(shape.table.id);
        let stamp = self.next_stamp();
        self.store.schema_mut().remove(shape.table.id, stamp);
    }

    /// Stores a table, with its rows if it had some.
    pub(super) fn put_table(
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
    pub(super) fn rows_of(&self, shape: &Shape) -> Vec<(Row, u64)> {
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
}

/// A foreign key without an index gets one, named like it or like its column.
pub(super) fn add_foreign_key_indexes(table: &mut Table) {
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

/// The answer to `OPTIMIZE TABLE`, which InnoDB carries out by building the table anew.
fn optimized(database: &str, table: &str) -> Reply {
    let row = |kind: &str, text: &str| {
        vec![
            Value::text(format!("{database}.{table}")),
            Value::text("optimize"),
            Value::text(kind),
            Value::text(text),
        ]
    };
    const NOTE: &str = "Table does not support optimize, doing recreate + analyze instead";
    super::show::reply(
        &["Table", "Op", "Msg_type", "Msg_text"],
        vec![row("note", NOTE), row("status", "OK")],
    )
}

/// 1050.
pub(super) fn exists(name: &str) -> DbError {
    errors::mysql(1050, "42S01", format!("Table '{name}' already exists"))
}
