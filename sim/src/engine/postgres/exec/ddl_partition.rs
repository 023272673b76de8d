//! Changes of the schema that concern descendants: partitions that come and go.

use std::sync::Arc;

use rowlock_model::DbError;

use super::ddl::resolved;
use super::partition::ancestors_row;
use super::{Exec, Stop};
use crate::engine::postgres::RelId;
use crate::engine::postgres::catalog::Edit;
use crate::plan::catalog::{Catalog as _, Index, RelationId, Table};
use crate::plan::ddl::NewForeignKey;
use crate::plan::partition::Bound;
use crate::plan::{column_map, descendants};

impl Exec<'_> {
    /// `ATTACH PARTITION`.
    pub(super) fn attach(
        &mut self,
        parent: &Table,
        partition: RelId,
        bound: &Bound,
        indexes: &[Index],
        foreign_keys: &[NewForeignKey],
    ) -> Result<(), Stop> {
        let mut table = Table::clone(&self.table(partition));
        table.parents = vec![parent.id];
        table.partition = Some(bound.clone());
        for index in indexes {
            match table.indexes.iter_mut().find(|own| own.id == index.id) {
                Some(own) if index.id != RelationId(0) => own.parent = index.parent,
                _ => self.add_index(&mut table, index)?,
            }
        }
        let mut added = Vec::new();
        for key in foreign_keys {
            let same = |own: &&mut crate::plan::catalog::ForeignKey| {
                own.columns == key.columns
                    && key.parent.as_ref().is_some_and(|p| p.id == own.parent)
                    && own.parent_columns == key.parent_columns
            };
            if let Some(own) = table.foreign_keys.iter_mut().find(same) {
                own.inherited = true;
                continue;
            }
            let key = resolved(&table, key);
            table.foreign_keys.push(key.clone());
            added.push(key);
        }
        self.edit(Edit::Table(Arc::new(table.clone())));
        let stranger = {
            let mut found = false;
            for leaf in self.leaves(&Arc::new(table.clone())) {
                for (_, row) in self.live_rows(leaf.table.id) {
                    found |= !self.belongs(&leaf.table, &row)?;
                }
            }
            found
        };
        if stranger {
            return Err(DbError::postgres(
                "23514",
                format!(
                    "partition constraint of relation \"{}\" is violated by some row",
                    table.name
                ),
            )
            .into());
        }
        self.check_default(&table)?;
        for key in &added {
            self.check_existing(&table, key)?;
        }
        Ok(())
    }

    /// `DETACH PARTITION`.
    pub(super) fn detach(&mut self, partition: RelId) -> Result<(), Stop> {
        let mut table = Table::clone(&self.table(partition));
        if let Some(parent) = table.parents.first()
            && self.schema.references(*parent).next().is_some()
        {
            return Err(DbError::unsupported(
                "DETACH PARTITION of a table that foreign keys refer to",
                None,
            )
            .into());
        }
        table.parents.clear();
        table.partition = None;
        for index in &mut table.indexes {
            index.parent = None;
        }
        for key in &mut table.foreign_keys {
            key.inherited = false;
        }
        self.edit(Edit::Table(Arc::new(table)));
        Ok(())
    }

    /// 23514 if the default partition has rows that belong to a new partition.
    pub(super) fn check_default(&mut self, new: &Table) -> Result<(), Stop> {
        let (Some(bound), Some(parent)) = (&new.partition, new.parents.first()) else {
            return Ok(());
        };
        if *bound == Bound::Default {
            return Ok(());
        }
        let parent = self.table(*parent);
        let children = self.schema.children(parent.id);
        let Some(default) = children
            .iter()
            .find(|c| c.partition == Some(Bound::Default))
        else {
            return Ok(());
        };
        for leaf in self.leaves(default) {
            for (_, row) in self.live_rows(leaf.table.id) {
                let row = ancestors_row(column_map(default, &leaf.table).as_deref(), &row);
                if !self.belongs(default, &row)? {
                    return Err(DbError::postgres(
                        "23514",
                        format!(
                            "updated partition constraint for default partition \"{}\" would be violated by some row",
                            default.name
                        ),
                    )
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Tables to drop with their descendants: partitions go with their table, heirs only with
    /// `CASCADE`.
    pub(super) fn with_descendants(
        &self,
        named: &[Arc<Table>],
        cascade: bool,
    ) -> Result<Vec<Arc<Table>>, Stop> {
        let mut all: Vec<Arc<Table>> = Vec::new();
        for table in named {
            for heir in descendants(&*self.schema, table) {
                let stays = named.iter().all(|n| n.id != heir.id);
                if stays && heir.partition.is_none() && !cascade {
                    return Err(DbError::postgres(
                        "2BP01",
                        format!(
                            "cannot drop table {} because other objects depend on it",
                            table.name
                        ),
                    )
                    .with_detail(format!(
                        "table {} depends on table {}",
                        heir.name, table.name
                    ))
                    .into());
                }
                if all.iter().all(|known| known.id != heir.id) {
                    all.push(heir);
                }
            }
        }
        Ok(all)
    }
}
