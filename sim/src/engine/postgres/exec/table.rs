//! Reading stored tables.

use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::bound::{Around, Bound};
use super::partition::ancestors_row;
use super::source::{Sink, is_whole};
use super::{Exec, Flow, Stop};
use crate::engine::postgres::{Searched, VersionId, compare_values};
use crate::plan::catalog::{Index, IndexMethod, RelationId, Sequence, Table};
use crate::plan::expr::{Scope, SystemColumn};
use crate::plan::query::{KeyCondition, KeyOp};

/// What an index gives for some conditions.
#[derive(Default)]
struct Found {
    /// The versions.
    items: Vec<VersionId>,
    /// SERIALIZABLE: those of them that are to be noted when they are come to.
    noted: Vec<VersionId>,
}

impl Exec<'_> {
    /// A stored row as a bound entry.
    pub(super) fn bind(&self, version: VersionId) -> Bound {
        Bound::stored(Row::clone(self.store.row(version)), version)
    }

    /// Binds `entry` to every visible row of a table, all or those that index conditions leave; with
    /// the columns of an ancestor, if `map` says where those are.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn table_rows(
        &mut self,
        table: &Table,
        map: Option<&[usize]>,
        keys: Option<(usize, &[KeyCondition])>,
        around: Around<'_>,
        bound: &mut [Bound],
        entry: usize,
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        match keys {
            None => {
                let items = self.store.scan(table.id);
                self.note_scan(table.id, &items)?;
                self.visible_rows(&items, map, bound, entry, sink)
            }
            Some((index, keys)) => {
                let found = self.index_rows(table, index, keys, around, bound)?;
                self.fetched_rows(&found, map, bound, entry, sink)
            }
        }
    }

    /// Binds `entry` to every visible one of some versions.
    pub(super) fn visible_rows(
        &mut self,
        items: &[VersionId],
        map: Option<&[usize]>,
        bound: &mut [Bound],
        entry: usize,
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        for &version in items {
            if !self.store.visible(self.session, &self.snapshot, version) {
                continue;
            }
            bound[entry] = match map {
                None => self.bind(version),
                Some(_) => Bound::stored(ancestors_row(map, self.store.row(version)), version),
            };
            if sink(self, bound)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    /// Binds `entry` to every visible one of the versions that an index gave. SERIALIZABLE: those that
    /// are to be noted are noted page by page, as they are come to.
    fn fetched_rows(
        &mut self,
        found: &Found,
        map: Option<&[usize]>,
        bound: &mut [Bound],
        entry: usize,
        sink: Sink<'_>,
    ) -> Result<Flow, Stop> {
        if found.noted.is_empty() {
            return self.visible_rows(&found.items, map, bound, entry, sink);
        }
        let (mut items, mut noted) = (&found.items[..], &found.noted[..]);
        while let Some(first) = items.first() {
            let page = self.store.place_of(*first).0;
            let same = items.iter();
            let same = same.take_while(|v| self.store.place_of(**v).0 == page);
            let (here, later) = items.split_at(same.count());
            // The noted ones are some of the items, in the same order.
            let mut count = 0;
            for version in here {
                count += usize::from(noted.get(count) == Some(version));
            }
            self.store
                .ssi_fetch(&mut self.run, &self.snapshot, &noted[..count])?;
            if self.visible_rows(here, map, bound, entry, sink)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
            (items, noted) = (later, &noted[count..]);
        }
        Ok(Flow::More)
    }

    /// The versions that an index gives for the conditions; more than these may be given, never
    /// fewer. Unless at most one row can match they come in the physical order of their chains: the server builds a
    /// bitmap of them first.
    fn index_rows(
        &mut self,
        table: &Table,
        index: usize,
        keys: &[KeyCondition],
        around: Around<'_>,
        bound: &[Bound],
    ) -> Result<Found, Stop> {
        let index = &table.indexes[index];
        if matches!(index.method, IndexMethod::Gin { .. }) {
            return self.gin_rows(index, keys, around, bound);
        }
        let mut prefix: Vec<Value> = Vec::with_capacity(keys.len());
        let mut among: Option<Arc<[Value]>> = None;
        for (position, condition) in keys.iter().enumerate() {
            if condition.key != position {
                break;
            }
            match condition.op {
                KeyOp::Eq => {
                    let value = self.evaluate(&condition.operand, bound, around)?;
                    if value.is_null() {
                        return Ok(Found::default());
                    }
                    prefix.push(value);
                }
                KeyOp::IsNull => prefix.push(Value::Null),
                KeyOp::Any => {
                    match self.evaluate(&condition.operand, bound, around)? {
                        Value::Array(items) => among = Some(items),
                        _ => return Ok(Found::default()),
                    }
                    break;
                }
                KeyOp::Lt | KeyOp::Le | KeyOp::Gt | KeyOp::Ge | KeyOp::Contains => break,
            }
        }
        let mut found: Vec<VersionId> = match &among {
            Some(items) => {
                let mut found = Vec::new();
                for item in items.iter().filter(|v| !v.is_null()) {
                    prefix.push(item.clone());
                    found.extend(self.store.index_lookup(index.id, &prefix, false));
                    prefix.pop();
                }
                found
            }
            None if prefix.is_empty() => {
                let entries = self.store.index_scan(index.id, false);
                entries.iter().map(|entry| entry.version).collect()
            }
            None => self.store.index_lookup(index.id, &prefix, false),
        };
        let mut noted = match index.method {
            IndexMethod::BTree => {
                self.note_index_scan(index, keys, prefix, &found, around, bound)?
            }
            _ => {
                let searched = among.map_or(prefix, |items| items.to_vec());
                self.note_keys(index.id, searched, &found)?
            }
        };
        if !(index.unique && is_whole(index.keys.len(), keys)) && found.len() > 1 {
            self.sort_by_place(&mut found);
            self.sort_by_place(&mut noted);
        }
        Ok(Found {
            items: found,
            noted,
        })
    }

    /// The versions whose arrays have all the elements that the conditions name.
    fn gin_rows(
        &mut self,
        index: &Index,
        keys: &[KeyCondition],
        around: Around<'_>,
        bound: &[Bound],
    ) -> Result<Found, Stop> {
        let mut wanted: Vec<Value> = Vec::new();
        for condition in keys {
            match self.evaluate(&condition.operand, bound, around)? {
                Value::Array(items) => wanted.extend(items.iter().cloned()),
                _ => return Ok(Found::default()),
            }
        }
        if wanted.iter().any(Value::is_null) {
            return Ok(Found::default());
        }
        if wanted.is_empty() && self.is_serializable() {
            let what = "a search for every row of a GIN index at SERIALIZABLE";
            return Err(DbError::unsupported(what, None).into());
        }
        let has_all = |key: &Value| {
            let Value::Array(items) = key else {
                return false;
            };
            let has = |wanted: &Value| {
                let mut items = items.iter().filter(|v| !v.is_null());
                items.any(|v| compare_values(v, wanted).is_eq())
            };
            wanted.iter().all(has)
        };
        let entries = self.store.index_scan(index.id, false);
        let found = entries.iter().filter(|entry| has_all(&entry.key[0]));
        let mut found: Vec<VersionId> = found.map(|entry| entry.version).collect();
        self.sort_by_place(&mut found);
        let noted = self.note_keys(index.id, wanted, &found)?;
        Ok(Found {
            items: found,
            noted,
        })
    }

    /// Puts versions into the physical order of their chains.
    fn sort_by_place(&self, versions: &mut Vec<VersionId>) {
        versions.sort_unstable_by_key(|v| {
            let version = self.store.version(*v);
            (version.root, version.position)
        });
        versions.dedup();
    }

    /// SERIALIZABLE: an index that is no B-tree was searched for keys and gave these versions. Those
    /// that are to be noted when they are come to.
    fn note_keys(
        &mut self,
        index: RelationId,
        keys: Vec<Value>,
        found: &[VersionId],
    ) -> Result<Vec<VersionId>, Stop> {
        if !self.is_serializable() {
            return Ok(Vec::new());
        }
        let searched = Searched::Keys(keys);
        self.store.ssi_search(&mut self.run, index, &searched)?;
        Ok(found.to_vec())
    }

    /// SERIALIZABLE: a sequential scan of a table that has these versions begins.
    pub(super) fn note_scan(&mut self, table: RelationId, items: &[VersionId]) -> Result<(), Stop> {
        if self.is_serializable() && !self.unnoted {
            self.store
                .ssi_scan(&mut self.run, &self.snapshot, table, items)?;
        }
        Ok(())
    }

    /// SERIALIZABLE: an index was read for the keys that start with `prefix`, and gave these versions.
    pub(super) fn note_lookup(
        &mut self,
        index: RelationId,
        prefix: &[Value],
        found: &[VersionId],
    ) -> Result<(), Stop> {
        if self.is_serializable() {
            let ranks = self.store.span(index, prefix);
            self.note_ranks(index, ranks, found)?;
        }
        Ok(())
    }

    /// SERIALIZABLE: an index was read from one end, and gave these versions.
    pub(super) fn note_versions(
        &mut self,
        index: RelationId,
        found: &[VersionId],
    ) -> Result<(), Stop> {
        let ranks = self.store.span_of(index, found);
        self.note_ranks(index, ranks, found)
    }

    fn note_ranks(
        &mut self,
        index: RelationId,
        ranks: std::ops::Range<usize>,
        found: &[VersionId],
    ) -> Result<(), Stop> {
        let searched = Searched::Ranks(ranks);
        self.store.ssi_search(&mut self.run, index, &searched)?;
        self.store.ssi_fetch(&mut self.run, &self.snapshot, found)?;
        Ok(())
    }

    /// SERIALIZABLE: an index was searched and gave these versions. Those that are to be noted when
    /// they are come to.
    fn note_index_scan(
        &mut self,
        index: &Index,
        keys: &[KeyCondition],
        prefix: Vec<Value>,
        found: &[VersionId],
        around: Around<'_>,
        bound: &[Bound],
    ) -> Result<Vec<VersionId>, Stop> {
        if !self.is_serializable() {
            return Ok(Vec::new());
        }
        // The server checks every condition on a key column in the index already.
        let mut found = found.to_vec();
        let mut narrowed = false;
        for (position, condition) in keys.iter().enumerate() {
            let done = position < prefix.len() && condition.key == position;
            let wanted: fn(std::cmp::Ordering) -> bool = match condition.op {
                KeyOp::Lt => std::cmp::Ordering::is_lt,
                KeyOp::Le => std::cmp::Ordering::is_le,
                KeyOp::Gt => std::cmp::Ordering::is_gt,
                KeyOp::Ge => std::cmp::Ordering::is_ge,
                KeyOp::Eq if !done => std::cmp::Ordering::is_eq,
                KeyOp::Eq | KeyOp::Any | KeyOp::IsNull | KeyOp::Contains => continue,
            };
            let operand = self.evaluate(&condition.operand, bound, around)?;
            if operand.is_null() {
                // Nothing can match: the server does not even look.
                return Ok(Vec::new());
            }
            narrowed = true;
            let mut kept = Vec::new();
            for version in found {
                let row = Row::clone(self.store.row(version));
                let key = self.of_row(&index.keys[condition.key].expr, &row, around)?;
                if !key.is_null() && wanted(compare_values(&key, &operand)) {
                    kept.push(version);
                }
            }
            found = kept;
        }
        let ranks = match !narrowed && !prefix.is_empty() {
            true => self.store.span(index.id, &prefix),
            false => self.store.span_of(index.id, &found),
        };
        let searched = Searched::Ranks(ranks);
        self.store.ssi_search(&mut self.run, index.id, &searched)?;
        Ok(found)
    }

    /// The row of a sequence read as a table.
    pub(super) fn sequence_row(&mut self, sequence: &Sequence) -> Result<Row, Stop> {
        let (last, called) = self
            .store
            .sequence(self.session, sequence.id)
            .unwrap_or((sequence.start, false));
        let read = self.run.once_value(|| {
            Ok(Value::Array(
                [Value::Int(last), Value::Int(0), Value::Bool(called)].into(),
            ))
        })?;
        match read {
            Value::Array(row) => Ok(row),
            other => unreachable!("a sequence was recorded as {other:?}"),
        }
    }

    /// Remembers which versions the bound rows are, for system columns.
    #[inline]
    pub(super) fn bind_addresses(&mut self, bound: &[Bound]) {
        if !self.info.addresses {
            return;
        }
        for b in bound {
            if let (Some(row), Some(version)) = (&b.row, b.version) {
                let address = (row.as_ptr(), version);
                if !self.addresses.contains(&address) {
                    self.addresses.retain(|(pointer, _)| *pointer != address.0);
                    self.addresses.push(address);
                }
            }
        }
    }

    /// The value of a system column.
    pub(super) fn system_column(
        &mut self,
        column: SystemColumn,
        entry: usize,
        scope: &Scope<'_>,
    ) -> Result<Value, Stop> {
        let pointer = scope.rows[entry].as_ptr();
        let found = self.addresses.iter().find(|(p, _)| *p == pointer);
        let Some(&(_, version)) = found else {
            return Ok(Value::Null);
        };
        match column {
            SystemColumn::Xmin => {
                let xmin = self.store.version(version).xmin;
                Ok(Value::Int(i64::from(xmin.0)))
            }
            SystemColumn::TableOid => {
                let table = self.store.version(version).table;
                Ok(Value::Int(i64::from(table.0)))
            }
            SystemColumn::Ctid => {
                let (page, item) = self.store.ctid(version);
                Ok(Value::text(format!("({page},{item})")))
            }
            SystemColumn::Xmax => {
                let xmax = &self.store.version(version).xmax;
                let number = xmax.as_ref().map_or(0, |xmax| xmax.number());
                Ok(Value::Int(i64::from(number)))
            }
        }
    }

    /// A table of the schema by its id.
    ///
    /// # Panics
    /// If there is none: a constraint outlived its table.
    pub(super) fn table(&self, id: RelationId) -> Arc<Table> {
        match self.schema.tables.get(&id) {
            Some(table) => Arc::clone(table),
            None => panic!("table {id:?} is gone, but something refers to it"),
        }
    }
}
