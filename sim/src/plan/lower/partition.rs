//! `INHERITS`, `PARTITION BY`, `PARTITION OF`, `ATTACH` and `DETACH PARTITION`.

use std::sync::Arc;

use rowlock_model::{DbError, Value};
use sqlparser::ast;

use super::access::NoHost;
use super::from::name_place;
use super::inherit::column_map;
use super::names::{Level, Place};
use super::table::NewTable;
use super::{Lowering, error, ident, place, unsupported};
use crate::plan::catalog::{Index, RelationId, Table};
use crate::plan::ddl::{AlterTable, NewForeignKey};
use crate::plan::expr::{Expr, Scope, eval};
use crate::plan::partition::{Bound, Edge, PartitionKey, Partitioning, Strategy};
use crate::plan::types::coerce::Context;

impl Lowering<'_> {
    /// The columns and constraints that a new table inherits.
    pub(super) fn inherit(
        &mut self,
        new: &mut NewTable,
        parents: &[ast::ObjectName],
    ) -> Result<(), DbError> {
        for name in parents {
            let at = name_place(name, self.begin);
            let parent = self.existing_table(name)?;
            if parent.partitioned.is_some() {
                return Err(DbError::postgres(
                    "42809",
                    format!("cannot inherit from partitioned table \"{}\"", parent.name),
                ));
            }
            if parent.partition.is_some() {
                return Err(DbError::postgres(
                    "42809",
                    format!("cannot inherit from partition \"{}\"", parent.name),
                ));
            }
            if new.table.parents.contains(&parent.id) {
                return error(
                    "42P07",
                    format!(
                        "relation \"{}\" would be inherited from more than once",
                        parent.name
                    ),
                    at,
                );
            }
            for column in parent.columns.iter().filter(|c| !c.dropped) {
                if new.table.column(&column.name).is_some() {
                    return unsupported("columns of the same name from several parents", at);
                }
                new.table.columns.push(column.clone());
            }
            let map: Vec<usize> = parent
                .columns
                .iter()
                .map(|c| new.table.column(&c.name).unwrap_or(usize::MAX))
                .collect();
            for check in &parent.checks {
                let mut check = check.clone();
                moved(&mut check.expr, &map);
                new.table.checks.push(check);
            }
            new.table.parents.push(parent.id);
        }
        Ok(())
    }

    /// `PARTITION BY`.
    pub(super) fn partitioning(
        &mut self,
        table: &Table,
        tree: &ast::Expr,
    ) -> Result<Partitioning, DbError> {
        let at = place(tree, self.begin);
        let ast::Expr::Function(function) = tree else {
            return unsupported("this PARTITION BY", at);
        };
        let strategy = match function.name.to_string().to_ascii_lowercase().as_str() {
            "list" => Strategy::List,
            "range" => Strategy::Range,
            "hash" => return unsupported("PARTITION BY HASH", at),
            other => {
                return error(
                    "42601",
                    format!("unrecognized partitioning strategy \"{other}\""),
                    at,
                );
            }
        };
        let ast::FunctionArguments::List(list) = &function.args else {
            return unsupported("this PARTITION BY", at);
        };
        let mut keys = Vec::new();
        for arg in &list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(tree)) = arg else {
                return unsupported("this PARTITION BY", at);
            };
            if let ast::Expr::Identifier(name) = tree
                && table.column(&ident(name)).is_none()
            {
                return error(
                    "42703",
                    format!(
                        "column \"{}\" named in partition key does not exist",
                        ident(name)
                    ),
                    place(tree, at),
                );
            }
            let typed = self.over_row(table, "partition key expressions", tree)?;
            let column = match typed.expr {
                Expr::Column {
                    level: 0,
                    entry: 0,
                    column,
                } => Some(column as usize),
                _ => None,
            };
            if column.is_some_and(|c| table.columns[c].generated.is_some()) {
                return error("42P17", "cannot use generated column in partition key", at);
            }
            keys.push(PartitionKey {
                ty: typed.ty,
                expr: typed.expr,
                column,
                text: match tree {
                    ast::Expr::Identifier(name) => ident(name).into(),
                    other => other.to_string().into(),
                },
            });
        }
        if strategy == Strategy::List && keys.len() != 1 {
            return error(
                "42P17",
                "cannot use \"list\" partition strategy with more than one column",
                at,
            );
        }
        Ok(Partitioning { strategy, keys })
    }

    /// 0A000 for a unique key of a partitioned table that leaves a column of the partition key out.
    pub(super) fn check_partitioned_keys(&self, table: &Table) -> Result<(), DbError> {
        let Some(partitioning) = &table.partitioned else {
            return Ok(());
        };
        for index in table.indexes.iter().filter(|i| i.unique) {
            for key in &partitioning.keys {
                let Some(column) = key.column else {
                    return unsupported(
                        "a unique key beside an expression as partition key",
                        self.begin,
                    );
                };
                if index.keys.iter().all(|k| k.column != Some(column)) {
                    let kind = if index.primary {
                        "PRIMARY KEY"
                    } else {
                        "UNIQUE"
                    };
                    return Err(DbError::postgres(
                        "0A000",
                        "unique constraint on partitioned table must include all partitioning columns",
                    )
                    .with_detail(format!(
                        "{kind} constraint on table \"{}\" lacks column \"{}\" which is part of the partition key.",
                        table.name, table.columns[column].name
                    )));
                }
            }
        }
        Ok(())
    }

    /// `PARTITION OF`: columns, constraints and indexes are those of the parent.
    pub(super) fn partition_of(
        &mut self,
        new: &mut NewTable,
        parent: &ast::ObjectName,
        bound: Option<&ast::ForValues>,
    ) -> Result<(), DbError> {
        let at = name_place(parent, self.begin);
        let parent = self.existing_table(parent)?;
        let name = &new.table.name;
        if self.catalog.relation(None, name).is_some() {
            return Err(DbError::postgres(
                "42P07",
                format!("relation \"{name}\" already exists"),
            ));
        }
        let bound = self.bound(&parent, &new.table.name.clone(), bound, at)?;
        for column in parent.columns.iter().filter(|c| !c.dropped) {
            new.table.columns.push(column.clone());
        }
        let map: Vec<usize> = parent
            .columns
            .iter()
            .map(|c| new.table.column(&c.name).unwrap_or(usize::MAX))
            .collect();
        for check in &parent.checks {
            let mut check = check.clone();
            moved(&mut check.expr, &map);
            new.table.checks.push(check);
        }
        new.table.parents = vec![parent.id];
        new.table.partition = Some(bound);
        for index in &parent.indexes {
            let index = self.partition_index(new, index, &map);
            new.table.indexes.push(index);
        }
        for key in &parent.foreign_keys {
            let key = self.partition_foreign_key(key, &map, at)?;
            new.foreign_keys.push(key);
        }
        if parent.triggers.iter().any(|t| t.each_row) {
            return unsupported("row triggers on partitioned tables", at);
        }
        Ok(())
    }

    /// The index of a partition that belongs to one of the partitioned table.
    pub(super) fn partition_index(&self, new: &mut NewTable, of: &Index, map: &[usize]) -> Index {
        let mut index = of.clone();
        index.parent = Some(of.id);
        index.id = RelationId(0);
        for key in &mut index.keys {
            moved(&mut key.expr, map);
            key.column = key.column.map(|c| map[c]);
        }
        for column in &mut index.include {
            *column = map[*column];
        }
        if let Some(predicate) = &mut index.predicate {
            moved(predicate, map);
        }
        let names: Vec<&str> = index
            .keys
            .iter()
            .map(|k| k.column.map_or("expr", |c| &*new.table.columns[c].name))
            .collect();
        let base = if index.primary {
            format!("{}_pkey", new.table.name)
        } else {
            let suffix = if index.constraint { "key" } else { "idx" };
            format!("{}_{}_{suffix}", new.table.name, names.join("_"))
        };
        index.name = self.free_name(new, &base).into();
        index
    }

    /// A foreign key of a partitioned table as one of its partition.
    pub(super) fn partition_foreign_key(
        &self,
        key: &crate::plan::catalog::ForeignKey,
        map: &[usize],
        at: usize,
    ) -> Result<NewForeignKey, DbError> {
        let Some(parent) = self.catalog.table(key.parent) else {
            return unsupported("this foreign key of a partitioned table", at);
        };
        let Some(parent_index) = parent.indexes.iter().position(|i| i.id == key.parent_index)
        else {
            return unsupported("this foreign key of a partitioned table", at);
        };
        Ok(NewForeignKey {
            name: Arc::clone(&key.name),
            columns: key.columns.iter().map(|c| map[*c]).collect(),
            parent: Some(parent),
            parent_columns: key.parent_columns.clone(),
            parent_index,
            on_delete: key.on_delete,
            on_update: key.on_update,
            deferrable: key.deferrable,
            deferred: key.deferred,
            match_full: key.match_full,
            validated: key.validated,
            inherited: true,
        })
    }

    /// `FOR VALUES ..` of a partition that does not overlap another one.
    fn bound(
        &mut self,
        parent: &Table,
        partition: &str,
        bound: Option<&ast::ForValues>,
        at: usize,
    ) -> Result<Bound, DbError> {
        let Some(partitioning) = &parent.partitioned else {
            return Err(DbError::postgres(
                "42809",
                format!("\"{}\" is not partitioned", parent.name),
            ));
        };
        let bound = match (bound, partitioning.strategy) {
            (None | Some(ast::ForValues::Default), _) => Bound::Default,
            (Some(ast::ForValues::In(list)), Strategy::List) => {
                let mut values = Vec::with_capacity(list.len());
                for tree in list {
                    values.push(self.bound_value(&partitioning.keys[0], tree)?);
                }
                Bound::List(values)
            }
            (Some(ast::ForValues::From { from, to }), Strategy::Range) => {
                let from = self.edges(partitioning, from, "FROM", at)?;
                let to = self.edges(partitioning, to, "TO", at)?;
                Bound::Range { from, to }
            }
            (Some(_), strategy) => {
                let name = match strategy {
                    Strategy::List => "list",
                    Strategy::Range => "range",
                };
                return error(
                    "42P16",
                    format!("invalid bound specification for a {name} partition"),
                    at,
                );
            }
        };
        if let Bound::Range { .. } = &bound
            && !bound.overlaps(&bound)
        {
            return error(
                "42P17",
                format!("empty range bound specified for partition \"{partition}\""),
                at,
            );
        }
        for other in self.catalog.children(parent.id) {
            let Some(taken) = &other.partition else {
                continue;
            };
            if bound.overlaps(taken) {
                let message = match bound {
                    Bound::Default => format!(
                        "partition \"{partition}\" conflicts with existing default partition \"{}\"",
                        other.name
                    ),
                    _ => format!(
                        "partition \"{partition}\" would overlap partition \"{}\"",
                        other.name
                    ),
                };
                return error("42P17", message, at);
            }
        }
        Ok(bound)
    }

    fn edges(
        &mut self,
        partitioning: &Partitioning,
        list: &[ast::PartitionBoundValue],
        which: &str,
        at: usize,
    ) -> Result<Vec<Edge>, DbError> {
        if list.len() != partitioning.keys.len() {
            return error(
                "42P16",
                format!("{which} must specify exactly one value per partitioning column"),
                at,
            );
        }
        let mut edges = Vec::with_capacity(list.len());
        for (value, key) in list.iter().zip(&partitioning.keys) {
            edges.push(match value {
                ast::PartitionBoundValue::MinValue => Edge::Min,
                ast::PartitionBoundValue::MaxValue => Edge::Max,
                ast::PartitionBoundValue::Expr(tree) => {
                    let value = self.bound_value(key, tree)?;
                    if value.is_null() {
                        return error("42P16", "cannot specify NULL in range bound", at);
                    }
                    Edge::Value(value)
                }
            });
        }
        Ok(edges)
    }

    fn bound_value(&mut self, key: &PartitionKey, tree: &ast::Expr) -> Result<Value, DbError> {
        let at = place(tree, self.begin);
        let typed = self.in_level(Level::new(Place::Clause("partition bound")), |this| {
            this.expr(tree)
        })?;
        let Some(typed) = self.coerce(typed, key.ty, Context::Assignment)? else {
            return error(
                "42804",
                format!(
                    "specified value cannot be cast to type {} for column \"{}\"",
                    self.type_name(key.ty),
                    key.text
                ),
                at,
            );
        };
        Ok(eval(&typed.expr, &Scope::empty(&[]), &mut NoHost)?.into_owned())
    }

    /// `ATTACH PARTITION`.
    pub(super) fn attach(
        &mut self,
        parent: &Arc<Table>,
        partition: &ast::ObjectName,
        bound: &ast::ForValues,
    ) -> Result<AlterTable, DbError> {
        let at = name_place(partition, self.begin);
        let table = self.existing_table(partition)?;
        if parent.partitioned.is_none() {
            return Err(DbError::postgres(
                "42809",
                format!("table \"{}\" is not partitioned", parent.name),
            ));
        }
        if table.partition.is_some() {
            return Err(DbError::postgres(
                "42809",
                format!("\"{}\" is already a partition", table.name),
            ));
        }
        if !table.parents.is_empty() {
            return Err(DbError::postgres(
                "42809",
                "cannot attach inheritance child as partition",
            ));
        }
        let live = |table: &Table| table.columns.iter().filter(|c| !c.dropped).count();
        if live(&table) > live(parent) {
            let extra = table
                .columns
                .iter()
                .find(|c| !c.dropped && parent.column(&c.name).is_none());
            return Err(DbError::postgres(
                "42804",
                format!(
                    "table \"{}\" contains column \"{}\" not found in parent \"{}\"",
                    table.name,
                    extra.map_or("", |c| &*c.name),
                    parent.name
                ),
            )
            .with_detail("The new partition may contain only the columns present in parent."));
        }
        for column in parent.columns.iter().filter(|c| !c.dropped) {
            let Some(own) = table.column(&column.name) else {
                return Err(DbError::postgres(
                    "42804",
                    format!("child table is missing column \"{}\"", column.name),
                ));
            };
            let own = &table.columns[own];
            if own.declared != column.declared {
                return Err(DbError::postgres(
                    "42804",
                    format!(
                        "child table \"{}\" has different type for column \"{}\"",
                        table.name, column.name
                    ),
                ));
            }
            if column.not_null && !own.not_null {
                return Err(DbError::postgres(
                    "42804",
                    format!(
                        "column \"{}\" in child table must be marked NOT NULL",
                        column.name
                    ),
                ));
            }
        }
        let has_check = |name: &str| table.checks.iter().any(|c| *c.name == *name);
        if let Some(check) = parent.checks.iter().find(|c| !has_check(&c.name)) {
            return Err(DbError::postgres(
                "42804",
                format!("child table is missing constraint \"{}\"", check.name),
            ));
        }
        if parent.triggers.iter().any(|t| t.each_row) {
            return unsupported("row triggers on partitioned tables", at);
        }
        let bound = self.bound(parent, &table.name, Some(bound), at)?;
        let map = match column_map(parent, &table) {
            Some(map) => map.to_vec(),
            None => (0..parent.columns.len()).collect(),
        };
        let mut new = NewTable::of(Table::clone(&table));
        // Each index of the parent needs one here; one that is the same already will do.
        let mut taken: Vec<RelationId> = Vec::new();
        let mut indexes = Vec::new();
        for index in &parent.indexes {
            let wanted: Vec<Option<usize>> = index
                .keys
                .iter()
                .map(|k| k.column.map(|c| map[c]))
                .collect();
            let same = table.indexes.iter().find(|own| {
                own.parent.is_none()
                    && !taken.contains(&own.id)
                    && own.unique == index.unique
                    && own.constraint == index.constraint
                    && own.primary == index.primary
                    && own.predicate.is_none() == index.predicate.is_none()
                    && own.keys.iter().map(|k| k.column).eq(wanted.iter().copied())
                    && wanted.iter().all(Option::is_some)
            });
            match same {
                Some(own) => {
                    taken.push(own.id);
                    let mut own = own.clone();
                    own.parent = Some(index.id);
                    indexes.push(own);
                }
                None => indexes.push(self.partition_index(&mut new, index, &map)),
            }
        }
        let mut foreign_keys = Vec::new();
        for key in &parent.foreign_keys {
            foreign_keys.push(self.partition_foreign_key(key, &map, at)?);
        }
        Ok(AlterTable::Attach {
            partition: table,
            bound,
            indexes,
            foreign_keys,
        })
    }

    /// `DETACH PARTITION`.
    pub(super) fn detach(
        &mut self,
        parent: &Arc<Table>,
        partition: &ast::ObjectName,
        mode: Option<&ast::DetachPartitionMode>,
    ) -> Result<AlterTable, DbError> {
        if mode.is_some() {
            return unsupported("DETACH PARTITION .. CONCURRENTLY", self.begin);
        }
        let table = self.existing_table(partition)?;
        if parent.partitioned.is_none() {
            return Err(DbError::postgres(
                "42809",
                format!("table \"{}\" is not partitioned", parent.name),
            ));
        }
        if table.partition.is_none() || table.parents.first() != Some(&parent.id) {
            return Err(DbError::postgres(
                "42P01",
                format!(
                    "relation \"{}\" is not a partition of relation \"{}\"",
                    table.name, parent.name
                ),
            ));
        }
        Ok(AlterTable::Detach { partition: table })
    }
}

/// An expression over a table's row, read over a row of other columns.
pub(super) fn moved(expr: &mut Expr, map: &[usize]) {
    crate::plan::walk::expr(expr, 0, &mut |e, depth| {
        if let Expr::Column { level, column, .. } = e
            && *level == depth
        {
            let at = map.get(*column as usize).copied().unwrap_or(usize::MAX);
            *column = u32::try_from(at).unwrap_or(u32::MAX);
        }
        true
    });
}
