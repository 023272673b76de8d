//! Indexes: keys in order, each with the versions that have it.

use std::cmp::Ordering;
use std::rc::Rc;

use rowlock_model::Value;
use rowlock_model::schedule::SessionId;

use super::{RelId, Store, VersionId};

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
}

impl Index {
    /// Compares two keys, or a key and a prefix of one, as this index orders them.
    pub fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        super::compare_keys(a, b, &self.shape.order)
    }
}

impl Store {
    /// Creates an empty index. The caller fills it ([`index_build`](Self::index_build)).
    pub fn create_index(&mut self, session: SessionId, shape: IndexShape) {
        todo!("{session:?} {shape:?}")
    }

    /// Adds an entry without any check, while building an index on a table that has rows.
    pub fn index_build(&mut self, rel: RelId, key: Key, version: VersionId) {
        todo!("{rel:?} {key:?} {version:?}")
    }

    /// Versions whose key starts with `prefix`, in index order (or backwards). The step depends on
    /// that key alone if the index is unique and the prefix is whole, else on the table.
    pub fn index_lookup(&mut self, rel: RelId, prefix: &[Value], backward: bool) -> Vec<VersionId> {
        todo!("{rel:?} {prefix:?} {backward}")
    }

    /// All versions in the index, in its order (or backwards).
    pub fn index_scan(&mut self, rel: RelId, backward: bool) -> Vec<VersionId> {
        todo!("{rel:?} {backward}")
    }
}
