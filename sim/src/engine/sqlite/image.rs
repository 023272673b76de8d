//! One state of the whole database file.
//!
//! There is one writer at a time, and nobody sees a part of a transaction. So the file is a value: who
//! reads holds an image, who writes changes an image of its own, and committing puts it in the place
//! of the old one. Tables are shared between images until they change.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{Row, Value};

use crate::loose::catalog::{Catalog, Relation, Table, TableId, View, VirtualTable};
use crate::loose::types::{Affinity, DeclaredType};
use crate::world::Digest;

/// The tables, indexes and views.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    /// By their names in lower case.
    pub(super) tables: BTreeMap<String, Arc<Table>>,
    pub(super) views: BTreeMap<String, Arc<View>>,
    /// What `sqlite_master` shows, in the order of creation.
    pub(super) entries: Vec<SchemaEntry>,
    next_id: u32,
}

/// A row of `sqlite_master`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SchemaEntry {
    pub(super) kind: &'static str,
    pub(super) name: Arc<str>,
    pub(super) table: Arc<str>,
    /// The statement; indexes of constraints have none.
    pub(super) sql: Option<Arc<str>>,
}

impl Schema {
    pub(super) fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(&name.to_ascii_lowercase())
    }

    /// The table that has an index called so.
    pub(super) fn table_of_index(&self, name: &str) -> Option<&Arc<Table>> {
        let mut tables = self.tables.values();
        tables.find(|table| table.index(name).is_some())
    }

    pub(super) fn next_id(&mut self) -> TableId {
        self.next_id += 1;
        TableId(self.next_id)
    }

    fn hash(&self, digest: &mut Digest) {
        for table in self.tables.values() {
            table.id.hash(digest);
            table.name.hash(digest);
            for column in &table.columns {
                column.name.hash(digest);
                column.ty.hash(digest);
            }
            for index in &table.indexes {
                index.name.hash(digest);
                index.unique.hash(digest);
            }
        }
        self.entries.hash(digest);
    }
}

/// The rows of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct TableData {
    /// By rowid; tables without one have a hidden one.
    pub(super) rows: BTreeMap<i64, Row>,
    /// The largest rowid that `AUTOINCREMENT` has given (`sqlite_sequence`).
    pub(super) sequence: i64,
    digest: Cell<Option<u128>>,
}

impl TableData {
    fn digest(&self) -> u128 {
        if let Some(digest) = self.digest.get() {
            return digest;
        }
        let mut digest = Digest::new(0x7461_626c);
        self.sequence.hash(&mut digest);
        self.rows.hash(&mut digest);
        let digest = digest.finish128();
        self.digest.set(Some(digest));
        digest
    }
}

/// A state of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pub(super) schema: Rc<Schema>,
    tables: BTreeMap<TableId, Rc<TableData>>,
    /// `PRAGMA user_version`.
    pub(super) user_version: i64,
}

impl Image {
    pub(super) fn data(&self, table: TableId) -> &TableData {
        match self.tables.get(&table) {
            Some(data) => data,
            None => panic!("{table:?} is read after it was dropped"),
        }
    }

    /// The rows of a table, to be changed.
    pub(super) fn data_mut(&mut self, table: TableId) -> &mut TableData {
        let data = Rc::make_mut(self.tables.entry(table).or_default());
        data.digest.set(None);
        data
    }

    pub(super) fn create(&mut self, table: TableId) {
        self.tables.insert(table, Rc::default());
    }

    pub(super) fn drop(&mut self, table: TableId) {
        self.tables.remove(&table);
    }

    pub(super) fn row(&self, table: TableId, rowid: i64) -> Option<&Row> {
        self.tables.get(&table)?.rows.get(&rowid)
    }

    /// A digest of everything that a reader can see.
    pub(super) fn digest(&self) -> u128 {
        let mut digest = Digest::new(0x696d_6167);
        self.schema.hash(&mut digest);
        self.user_version.hash(&mut digest);
        for (table, data) in &self.tables {
            table.hash(&mut digest);
            digest.wide(data.digest());
        }
        digest.finish128()
    }

    /// Names that differ between two images: tables whose rows differ, by identity.
    pub(super) fn changed_tables(&self, other: &Image) -> Vec<TableId> {
        let same = |table: &TableId, data: &Rc<TableData>| {
            other
                .tables
                .get(table)
                .is_some_and(|old| Rc::ptr_eq(old, data))
        };
        let mut changed: Vec<TableId> = self
            .tables
            .iter()
            .filter(|(table, data)| !same(table, data))
            .map(|(table, _)| *table)
            .collect();
        changed.extend(
            other
                .tables
                .keys()
                .filter(|table| !self.tables.contains_key(table)),
        );
        changed
    }
}

impl Catalog for Image {
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation> {
        if schema.is_some_and(|schema| !schema.eq_ignore_ascii_case("main")) {
            return None;
        }
        let lower = name.to_ascii_lowercase();
        if let Some(table) = self.schema.tables.get(&lower) {
            return Some(Relation::Table(Arc::clone(table)));
        }
        if let Some(view) = self.schema.views.get(&lower) {
            return Some(Relation::View(Arc::clone(view)));
        }
        if lower == "sqlite_master" || lower == "sqlite_schema" {
            return Some(Relation::Virtual(Arc::new(master())));
        }
        None
    }

    fn database(&self) -> &str {
        "main"
    }
}

/// `sqlite_master`, without the page numbers of the roots.
fn master() -> VirtualTable {
    let text = || DeclaredType::Sqlite {
        name: "TEXT".into(),
        affinity: Affinity::Text,
    };
    let columns = ["type", "name", "tbl_name", "sql"];
    VirtualTable {
        name: "sqlite_master".into(),
        columns: columns.map(|name| (name.into(), text())).to_vec(),
    }
}

/// The rows of `sqlite_master`.
pub(super) fn master_rows(schema: &Schema) -> Vec<Row> {
    let row = |entry: &SchemaEntry| -> Row {
        Arc::from([
            Value::text(entry.kind),
            Value::Text(entry.name.clone()),
            Value::Text(entry.table.clone()),
            entry.sql.clone().map_or(Value::Null, Value::Text),
        ])
    };
    schema.entries.iter().map(row).collect()
}
