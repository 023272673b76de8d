//! Rows of tables with descendants: where a new row goes, and how rows of different tables are read
//! and written as rows of their ancestor.

use std::borrow::Cow;
use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::bound::{Around, Bound};
use super::constraint::{failing_row, output_text};
use super::{Exec, Stop};
use crate::engine::postgres::{LockMode, RelId, VersionId};
use crate::plan::catalog::{Catalog as _, Table};
use crate::plan::partition::Bound as Belonging;
use crate::plan::query::RangeEntry;
use crate::plan::write::Assignment;
use crate::plan::{column_map, descendants};

/// Outside any row.
const NOWHERE: Around<'static> = Around {
    params: &[],
    outer: None,
};

/// A table that stores rows of an ancestor, and where the ancestor's columns are in it.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// The table.
    pub(super) table: Arc<Table>,
    /// `None`: all are in the same place.
    pub(super) map: Option<Arc<[usize]>>,
}

impl Leaf {
    /// A table that stands for itself.
    pub(super) fn itself(table: &Arc<Table>) -> Leaf {
        Leaf {
            table: Arc::clone(table),
            map: None,
        }
    }

    /// A row of the ancestor as one of this table.
    pub(super) fn own_row(&self, row: Vec<Value>) -> Vec<Value> {
        let Some(map) = &self.map else { return row };
        let mut own = vec![Value::Null; self.table.columns.len()];
        for (value, at) in row.into_iter().zip(map.iter()) {
            if let Some(place) = own.get_mut(*at) {
                *place = value;
            }
        }
        own
    }

    /// A row of this table as one of the ancestor.
    pub(super) fn ancestors_row(&self, row: &Row) -> Row {
        ancestors_row(self.map.as_deref(), row)
    }

    /// Assignments to the ancestor's columns as such to this table's.
    pub(super) fn own_set<'s>(&self, set: &'s [Assignment]) -> Cow<'s, [Assignment]> {
        let Some(map) = &self.map else {
            return Cow::Borrowed(set);
        };
        let moved = set.iter().map(|assignment| Assignment {
            column: map[assignment.column],
            value: assignment.value.clone(),
        });
        Cow::Owned(moved.collect())
    }

    /// Columns of the ancestor as columns of this table.
    pub(super) fn own_columns(&self, columns: &[usize]) -> Vec<usize> {
        match &self.map {
            None => columns.to_vec(),
            Some(map) => columns.iter().map(|c| map[*c]).collect(),
        }
    }
}

/// A row of a descendant with the columns of its ancestor.
pub(super) fn ancestors_row(map: Option<&[usize]>, row: &Row) -> Row {
    match map {
        None => Row::clone(row),
        Some(map) => map
            .iter()
            .map(|at| row.get(*at).cloned().unwrap_or(Value::Null))
            .collect(),
    }
}

impl Exec<'_> {
    /// The stored tables among a table and its descendants.
    pub(super) fn leaves(&self, table: &Arc<Table>) -> Vec<Leaf> {
        let all = descendants(&*self.schema, table);
        all.into_iter()
            .filter(|leaf| leaf.partitioned.is_none())
            .map(|leaf| Leaf {
                map: column_map(table, &leaf),
                table: leaf,
            })
            .collect()
    }

    /// The table in which a version found at an entry is stored.
    pub(super) fn leaf_of(
        &self,
        table: &Arc<Table>,
        entry: &RangeEntry,
        version: VersionId,
    ) -> Leaf {
        let Some(members) = &entry.members else {
            return Leaf::itself(table);
        };
        let stored = self.store.version(version).table;
        match members.iter().find(|m| m.table.id == stored) {
            Some(member) => Leaf {
                table: Arc::clone(&member.table),
                map: member.columns.clone(),
            },
            None => Leaf::itself(&self.table(stored)),
        }
    }

    /// A stored row as an entry of the range table binds it.
    pub(super) fn bind_at(&self, entry: &RangeEntry, version: VersionId) -> Bound {
        let Some(members) = &entry.members else {
            return self.bind(version);
        };
        let stored = self.store.version(version).table;
        let member = members.iter().find(|m| m.table.id == stored);
        let map = member.and_then(|m| m.columns.as_deref());
        Bound::stored(ancestors_row(map, self.store.row(version)), version)
    }

    /// A stored row of a leaf, with the columns of its ancestor.
    pub(super) fn bind_of(&self, leaf: &Leaf, version: VersionId) -> Bound {
        Bound::stored(leaf.ancestors_row(self.store.row(version)), version)
    }

    /// Finds the partition that a new row of a table belongs to, and locks it. The row is given back
    /// with the columns of that partition.
    pub(super) fn route(
        &mut self,
        root: &Arc<Table>,
        row: Vec<Value>,
    ) -> Result<(Leaf, Vec<Value>), Stop> {
        if root.partitioned.is_none() {
            return Ok((Leaf::itself(root), row));
        }
        let mut table = Arc::clone(root);
        let mut own = row;
        while table.partitioned.is_some() {
            let as_row: Row = own.clone().into();
            let keys = self.partition_keys(&table, &as_row)?;
            let children = self.schema.children(table.id);
            let admits = |child: &&Arc<Table>| {
                let bound = child.partition.as_ref();
                bound.is_some_and(|bound| bound.admits(&keys))
            };
            let is_default = |child: &&Arc<Table>| child.partition == Some(Belonging::Default);
            let found = children.iter().find(admits);
            let Some(child) = found.or_else(|| children.iter().find(is_default)) else {
                return Err(no_partition(&table, &keys).into());
            };
            if !self.routed.contains(&child.id) {
                self.lock_relation(child.id, LockMode::RowExclusive)?;
                self.routed.push(child.id);
            }
            let leaf = Leaf {
                table: Arc::clone(child),
                map: column_map(&table, child),
            };
            own = leaf.own_row(own);
            table = Arc::clone(child);
        }
        let leaf = Leaf {
            map: column_map(root, &table),
            table,
        };
        Ok((leaf, own))
    }

    fn partition_keys(&mut self, table: &Table, row: &Row) -> Result<Vec<Value>, Stop> {
        let Some(partitioning) = &table.partitioned else {
            return Ok(Vec::new());
        };
        let mut keys = Vec::with_capacity(partitioning.keys.len());
        for key in &partitioning.keys {
            keys.push(self.of_row(&key.expr, row, NOWHERE)?);
        }
        Ok(keys)
    }

    /// Whether a row may be stored in a partition, by the bounds of it and its ancestors.
    pub(super) fn belongs(&mut self, table: &Table, row: &Row) -> Result<bool, Stop> {
        let (Some(bound), Some(parent)) = (&table.partition, table.parents.first()) else {
            return Ok(true);
        };
        let parent = self.table(*parent);
        let row = ancestors_row(column_map(&parent, table).as_deref(), row);
        let keys = self.partition_keys(&parent, &row)?;
        let admitted = match bound {
            Belonging::Default => {
                let children = self.schema.children(parent.id);
                let mut others = children.iter().filter(|c| c.id != table.id);
                !others.any(|c| c.partition.as_ref().is_some_and(|b| b.admits(&keys)))
            }
            bound => bound.admits(&keys),
        };
        Ok(admitted && self.belongs(&parent, &row)?)
    }

    /// 23514 for a row that does not belong where it is to be stored.
    pub(super) fn refuse_stranger(&mut self, table: &Table, row: &Row) -> Result<(), Stop> {
        if self.belongs(table, row)? {
            return Ok(());
        }
        Err(DbError::postgres(
            "23514",
            format!(
                "new row for relation \"{}\" violates partition constraint",
                table.name
            ),
        )
        .with_detail(format!(
            "Failing row contains ({}).",
            failing_row(table, row)
        ))
        .into())
    }

    /// The ancestors of a partition, nearest first.
    pub(super) fn ancestors(&self, table: RelId) -> Vec<Arc<Table>> {
        let mut found = Vec::new();
        let mut at = self.schema.tables.get(&table);
        while let Some(table) = at
            && table.partition.is_some()
            && let Some(parent) = table.parents.first()
        {
            at = self.schema.tables.get(parent);
            found.extend(at.map(Arc::clone));
        }
        found
    }
}

fn no_partition(table: &Table, keys: &[Value]) -> DbError {
    let partitioning = table.partitioned.as_ref();
    let named = partitioning.map_or(&[][..], |p| &p.keys[..]);
    let texts: Vec<&str> = named.iter().map(|key| &*key.text).collect();
    let values: Vec<String> = named
        .iter()
        .zip(keys)
        .map(|(key, value)| output_text(value, key.ty))
        .collect();
    DbError::postgres(
        "23514",
        format!("no partition of relation \"{}\" found for row", table.name),
    )
    .with_detail(format!(
        "Partition key of the failing row contains ({}) = ({}).",
        texts.join(", "),
        values.join(", ")
    ))
}
