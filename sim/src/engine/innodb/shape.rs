//! A table as InnoDB stores it: its clustered index and its secondary indexes.

use std::sync::Arc;

use rowlock_model::Value;

use super::key::{Key, Part};
use crate::loose::catalog::{Index, Table};
use crate::loose::types::Collation;

/// Names an index for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub u32);

/// An index as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexShape {
    /// Its number.
    pub id: IndexId,
    /// Its name (`PRIMARY`, `GEN_CLUST_INDEX` for a hidden one).
    pub name: Arc<str>,
    /// Its position in [`Table::indexes`]; `None` for a hidden clustered index.
    pub declared: Option<usize>,
    /// The columns of a record's key: those declared, then for a secondary index those of the
    /// clustered one that are not among them. The hidden row number is the column after the last.
    pub columns: Vec<usize>,
    /// How many of them were declared.
    pub declared_columns: usize,
    /// How texts of each key column are compared.
    pub collations: Vec<Collation>,
    /// No two rows agree in all declared columns, unless one of them is NULL.
    pub unique: bool,
    /// Snapshots with a smaller commit number cannot use it.
    pub created: u64,
}

/// A table as stored. Rows have one value a column, and the row number behind them if the clustered
/// index is a hidden one.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The table.
    pub table: Arc<Table>,
    /// Its indexes; the first is the clustered one.
    pub indexes: Vec<IndexShape>,
    /// The clustered index is a hidden one over row numbers.
    pub hidden_key: bool,
}

impl Shape {
    /// How `table` is stored. `id` numbers indexes; those of `old` that are still the same keep theirs.
    /// `created` is the present commit number.
    pub fn new(
        table: &Arc<Table>,
        old: Option<&Shape>,
        created: u64,
        mut id: impl FnMut() -> IndexId,
    ) -> Shape {
        let clustered = clustered(table);
        let mut shape = Shape {
            table: Arc::clone(table),
            indexes: Vec::new(),
            hidden_key: clustered.is_none(),
        };
        let order = clustered
            .into_iter()
            .map(Some)
            .chain(clustered.is_none().then_some(None))
            .chain(
                (0..table.indexes.len())
                    .map(Some)
                    .filter(|i| *i != clustered),
            );
        for declared in order {
            let mut index = shape.index_shape(declared);
            let same = |i: &&IndexShape| {
                i.name == index.name && i.columns == index.columns && i.unique == index.unique
            };
            match old.and_then(|old| old.indexes.iter().find(same)) {
                Some(kept) => {
                    index.id = kept.id;
                    index.created = kept.created;
                }
                None => {
                    index.id = id();
                    index.created = created;
                }
            }
            shape.indexes.push(index);
        }
        shape
    }

    fn index_shape(&self, declared: Option<usize>) -> IndexShape {
        let table = &self.table;
        let mut columns: Vec<usize> = match declared {
            None => vec![table.columns.len()],
            Some(at) => {
                let keys = &table.indexes[at].keys;
                keys.iter().filter_map(|key| key.column()).collect()
            }
        };
        let declared_columns = columns.len();
        if let Some(clustered) = self.indexes.first() {
            let more = clustered.columns.iter().filter(|c| !columns.contains(c));
            let more: Vec<usize> = more.copied().collect();
            columns.extend(more);
        }
        let collation = |column: &usize| {
            let column = table.columns.get(*column);
            column.map_or(Collation::Binary, |c| c.collation)
        };
        IndexShape {
            id: IndexId(0),
            name: declared.map_or("GEN_CLUST_INDEX".into(), |at| {
                table.indexes[at].name.clone()
            }),
            declared,
            collations: columns.iter().map(collation).collect(),
            declared_columns,
            columns,
            unique: declared.is_none_or(|at| table.indexes[at].unique),
            created: 0,
        }
    }

    /// The clustered index.
    pub fn clustered(&self) -> &IndexShape {
        &self.indexes[0]
    }

    /// The secondary indexes.
    pub fn secondary(&self) -> &[IndexShape] {
        &self.indexes[1..]
    }

    /// The stored index behind a declared one; `None` stands for the clustered index.
    pub fn stored(&self, declared: Option<usize>) -> &IndexShape {
        let found = self.indexes.iter().find(|i| i.declared == declared);
        found.unwrap_or(&self.indexes[0])
    }

    /// The key of a row in an index.
    pub fn key(&self, index: &IndexShape, row: &[Value]) -> Key {
        let part = |(column, collation): (&usize, &Collation)| Part::of(&row[*column], *collation);
        let columns = index.columns.iter().zip(&index.collations);
        Key(columns.map(part).collect())
    }

    /// The values that an index record shows.
    pub fn shown(&self, index: &IndexShape, row: &[Value]) -> Vec<Value> {
        index.columns.iter().map(|c| row[*c].clone()).collect()
    }

    /// Whether `index` is the clustered one.
    pub fn is_clustered(&self, index: &IndexShape) -> bool {
        index.id == self.indexes[0].id
    }
}

impl IndexShape {
    /// The declared fields of a key.
    pub fn declared_parts<'k>(&self, key: &'k Key) -> &'k [Part] {
        &key.0[..self.declared_columns]
    }
}

/// The declared index that is the clustered one: the primary key, or the first unique index without
/// nullable columns (MySQL manual, "Clustered and Secondary Indexes").
fn clustered(table: &Table) -> Option<usize> {
    let never_null = |index: &Index| {
        let mut columns = index.keys.iter().map(|key| key.column());
        columns.all(|c| c.is_some_and(|c| table.columns[c].not_null.is_some()))
    };
    let unique = |index: &Index| index.unique && never_null(index);
    table
        .primary()
        .or_else(|| table.indexes.iter().position(unique))
}
