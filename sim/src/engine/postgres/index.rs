//! Indexes: keys in order, each with the versions that have it.
//!
//! An index is not part of the fingerprint: it follows from its heap.

use std::cmp::Ordering;
use std::rc::Rc;

use rowlock_model::Value;
use rowlock_model::schedule::SessionId;

use super::object::{Key as ObjectKey, name};
use super::{Object, RelId, Store, VersionId, compare_keys};
use crate::world::Slot;

/// The key values of one entry, one a key column.
pub type Key = Rc<[Value]>;

/// How an index orders its keys and what it forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexShape {
    /// The index.
    pub rel: RelId,
    /// The table.
    pub table: RelId,
    /// Whether equal keys are refused. A key with a NULL is equal to none, unless
    /// `nulls_not_distinct`.
    pub unique: bool,
    /// `NULLS NOT DISTINCT`.
    pub nulls_not_distinct: bool,
    /// For each key column: descending, and NULLs first.
    pub order: Rc<[(bool, bool)]>,
}

/// An entry of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexEntry {
    /// The key.
    pub key: Key,
    /// The version.
    pub version: VersionId,
}

/// An index with its entries, in key order and among equal keys in physical order.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its shape.
    pub shape: IndexShape,
    /// Its entries.
    pub entries: Vec<IndexEntry>,
    /// It has had an entry: there is a page.
    pub rooted: bool,
}

impl Index {
    /// Compares two keys, or a key and a prefix of one, as this index orders them.
    pub fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        compare_keys(a, b, &self.shape.order)
    }

    /// The entries whose key starts with `prefix`.
    pub(super) fn equal(&self, prefix: &[Value]) -> &[IndexEntry] {
        let from = self
            .entries
            .partition_point(|entry| self.compare(&entry.key, prefix).is_lt());
        let rest = &self.entries[from..];
        let count = rest.partition_point(|entry| self.compare(&entry.key, prefix).is_eq());
        &rest[..count]
    }

    /// Whether an equal key would be refused.
    pub(super) fn forbids(&self, key: &[Value]) -> bool {
        let distinct = !self.shape.nulls_not_distinct && key.iter().any(Value::is_null);
        self.shape.unique && !distinct
    }
}

impl Store {
    /// Creates an empty index; gone again if the transaction of `session` is rolled back. The caller
    /// fills it ([`index_build`](Self::index_build)).
    ///
    /// # Panics
    /// If the number is taken, the table is missing, or no transaction is open.
    pub fn create_index(&mut self, session: SessionId, shape: IndexShape) {
        self.world.footprint.write(name::CATALOG);
        let (rel, table) = (shape.rel, shape.table);
        let index = Index {
            shape,
            entries: Vec::new(),
            rooted: false,
        };
        self.world
            .create(Some(ObjectKey::Index(rel)), Object::Index(index));
        self.heap_mut(table).indexes.push(rel);
        self.innermost(session).created.push(rel);
    }

    /// Adds an entry without any check, while building an index on a table that has rows.
    ///
    /// # Panics
    /// If there is no such index.
    pub fn index_build(&mut self, rel: RelId, key: Key, version: VersionId) {
        let position = self.version(version).position;
        let index = self.index(rel);
        let from = index
            .entries
            .partition_point(|entry| index.compare(&entry.key, &key).is_lt());
        // Equal keys stand in physical order.
        let before = index.entries[from..].partition_point(|entry| {
            index.compare(&entry.key, &key).is_eq()
                && self.version(entry.version).position < position
        });
        let entry = IndexEntry { key, version };
        let rooted = self.index(rel).rooted;
        let index = self.index_mut(rel);
        index.entries.insert(from + before, entry);
        index.rooted = true;
        if !rooted {
            let table = index.shape.table;
            self.touch_heap(table);
        }
    }

    /// Versions whose key starts with `prefix`, in index order (or backwards). The step depends on
    /// that key alone if the index is unique and the prefix is whole, else on the table.
    ///
    /// # Panics
    /// If there is no such index.
    pub fn index_lookup(&mut self, rel: RelId, prefix: &[Value], backward: bool) -> Vec<VersionId> {
        let index = self.index(rel);
        let table = index.shape.table;
        let is_whole = prefix.len() == index.shape.order.len() && index.forbids(prefix);
        let versions = index.equal(prefix).iter().map(|entry| entry.version);
        let mut versions: Vec<VersionId> = versions.collect();
        if backward {
            versions.reverse();
        }
        if self.world.footprint.is_on() {
            let name = if is_whole {
                name::key(rel, prefix)
            } else {
                name::table(table)
            };
            self.world.footprint.read(name);
        }
        if !is_whole {
            self.note_order(table);
        }
        versions
    }

    /// The key under which a version is in an index.
    pub(super) fn key_of(&self, rel: RelId, version: VersionId) -> Option<Key> {
        let mut entries = self.index(rel).entries.iter();
        let found = entries.find(|entry| entry.version == version)?;
        Some(Key::clone(&found.key))
    }

    /// All entries of the index, in its order (or backwards). The step depends on the table.
    ///
    /// # Panics
    /// If there is no such index.
    pub fn index_scan(&mut self, rel: RelId, backward: bool) -> Vec<IndexEntry> {
        let index = self.index(rel);
        let table = index.shape.table;
        let mut entries = index.entries.clone();
        if backward {
            entries.reverse();
        }
        if self.world.footprint.is_on() {
            self.world.footprint.read(name::table(table));
        }
        self.note_order(table);
        entries
    }

    /// An index.
    ///
    /// # Panics
    /// If there is no such index.
    #[expect(
        clippy::should_implement_trait,
        reason = "indexes of the store are not its items"
    )]
    pub fn index(&self, rel: RelId) -> &Index {
        match self.world.read(self.index_slot(rel)) {
            Object::Index(index) => index,
            other => panic!("{rel:?} is not an index but {other:?}"),
        }
    }

    fn index_slot(&self, rel: RelId) -> Slot {
        match self.world.find(ObjectKey::Index(rel)) {
            Some(slot) => slot,
            None => panic!("{rel:?} has no index"),
        }
    }

    pub(super) fn index_mut(&mut self, rel: RelId) -> &mut Index {
        let slot = self.index_slot(rel);
        match self.world.write(slot) {
            Object::Index(index) => index,
            other => panic!("{rel:?} is not an index but {other:?}"),
        }
    }

    /// Takes the entry of a version out, if it has one (partial indexes have not every version).
    pub(super) fn remove_entry(&mut self, rel: RelId, version: VersionId) {
        let entries = &self.index(rel).entries;
        if let Some(at) = entries.iter().position(|entry| entry.version == version) {
            self.index_mut(rel).entries.remove(at);
        }
    }

    pub(super) fn remove_index(&mut self, rel: RelId) {
        let Some(slot) = self.world.find(ObjectKey::Index(rel)) else {
            return;
        };
        let table = self.index(rel).shape.table;
        if self.world.find(ObjectKey::Heap(table)).is_some() {
            self.heap_mut(table).indexes.retain(|index| *index != rel);
        }
        self.world.remove(slot);
    }

    /// The footprint names of the unique keys of a version.
    pub(super) fn key_names(&self, version: VersionId) -> Vec<u64> {
        let table = self.version(version).table;
        let indexes = self.heap(table).indexes.iter();
        let names = indexes.filter_map(|rel| {
            let index = self.index(*rel);
            let mut entries = index.entries.iter();
            let entry = entries.find(|entry| entry.version == version)?;
            let forbids = index.forbids(&entry.key);
            forbids.then(|| name::key(*rel, &entry.key))
        });
        names.collect()
    }
}
