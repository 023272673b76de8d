//! Changes of the schema.
//!
//! All locks are taken before ([`locks`]), so nothing here waits, and everything is done exactly
//! once. Entries of the catalogue are replaced whole; see [`super::super::catalog`].

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::bound::{Around, Bound};
use super::constraint::{output_text, shown_key};
use super::run::Done;
use super::{Exec, Stop};
use crate::engine::postgres::catalog::{Edit, Schema};
use crate::engine::postgres::{
    IndexShape, LockMode, RelId, Tag, VersionId, compare_values, errors,
};
use crate::plan::catalog::{
    Check, Column, Counted, EnumType, ForeignKey, Index, IndexMethod, Sequence, Table,
};
use crate::plan::cost::estimated_rows;
use crate::plan::ddl::{AlterTable, Ddl, NewForeignKey};
use crate::plan::descendants;
use crate::plan::expr;
use crate::plan::partition::Bound as Belonging;
use crate::plan::query::Query;
use crate::plan::types::EnumId;

/// Whether the server would read a table from end to end rather than look one row up in an index: that
/// costs it a little over 8, a page 1, and a row that is read and compared 0.0125 (manual, "Planner
/// Cost Constants"; a row is taken to need 8 bytes a column and 28 beside them).
fn is_small(rows: usize, columns: usize) -> bool {
    let pages = rows.div_ceil(8_168 / (28 + 8 * columns.min(100)));
    pages as f64 + rows as f64 * 0.0125 < 8.2
}

/// Outside any row.
const NOWHERE: Around<'static> = Around {
    params: &[],
    outer: None,
};

/// The tables that a change of the schema locks before anything else, and how.
pub(super) fn locks(ddl: &Ddl, schema: &Schema) -> Vec<(RelId, LockMode)> {
    match ddl {
        Ddl::CreateTable {
            table,
            foreign_keys,
            ..
        } => {
            let mut locks = Vec::new();
            let mode = if table.partition.is_some() {
                LockMode::AccessExclusive
            } else {
                LockMode::ShareUpdateExclusive
            };
            for parent in &table.parents {
                locks.push((*parent, mode));
                if table.partition.is_some() {
                    locks.extend(default_partition(schema, *parent));
                }
            }
            let keys = foreign_keys.iter().filter_map(|key| key.parent.as_ref());
            locks.extend(keys.flat_map(|parent| referred(schema, parent)));
            locks
        }
        Ddl::CreateIndex {
            table,
            concurrently,
            ..
        } => vec![(
            table.id,
            if *concurrently {
                LockMode::ShareUpdateExclusive
            } else {
                LockMode::Share
            },
        )],
        Ddl::AlterTable { table, actions } => {
            // The strongest that any of the actions needs (manual, `ALTER TABLE`).
            let needs = |action: &AlterTable| match action {
                AlterTable::Validate { .. } | AlterTable::Attach { .. } => {
                    LockMode::ShareUpdateExclusive
                }
                AlterTable::AddForeignKey(_)
                | AlterTable::AddTrigger(_)
                | AlterTable::SetTrigger { .. } => LockMode::ShareRowExclusive,
                _ => LockMode::AccessExclusive,
            };
            let own = actions.iter().map(needs).max();
            let others = actions.iter().flat_map(|action| match action {
                AlterTable::AddForeignKey(key) => match &key.parent {
                    Some(parent) => referred(schema, parent),
                    None => Vec::new(),
                },
                AlterTable::Validate { parent, .. } => vec![(*parent, LockMode::RowShare)],
                AlterTable::Attach {
                    partition,
                    foreign_keys,
                    ..
                } => {
                    let mut locks = vec![(partition.id, LockMode::AccessExclusive)];
                    locks.extend(default_partition(schema, table.id));
                    let keys = foreign_keys.iter().filter_map(|key| key.parent.as_ref());
                    locks.extend(keys.flat_map(|parent| referred(schema, parent)));
                    locks
                }
                AlterTable::Detach { partition } => {
                    let mut locks = vec![(partition.id, LockMode::AccessExclusive)];
                    locks.extend(default_partition(schema, table.id));
                    locks
                }
                _ => Vec::new(),
            });
            std::iter::once((table.id, own.unwrap_or(LockMode::AccessExclusive)))
                .chain(others)
                .collect()
        }
        Ddl::DropTables { tables, .. } => {
            let mut locks = Vec::new();
            for table in tables {
                if table.partition.is_some() {
                    for parent in &table.parents {
                        locks.push((*parent, LockMode::AccessExclusive));
                        locks.extend(default_partition(schema, *parent));
                    }
                }
                let all = descendants(schema, table);
                locks.extend(all.iter().map(|t| (t.id, LockMode::AccessExclusive)));
            }
            for table in tables {
                // A foreign key goes from both of its tables.
                let parents = table.foreign_keys.iter().map(|key| key.parent);
                let children = schema.references(table.id).map(|(child, _)| child.id);
                locks.extend(
                    parents
                        .chain(children)
                        .map(|id| (id, LockMode::AccessExclusive)),
                );
            }
            locks
        }
        Ddl::DropIndexes { indexes, .. } => indexes
            .iter()
            .map(|(table, _)| (table.id, LockMode::AccessExclusive))
            .collect(),
        Ddl::Truncate { tables, .. } => {
            let all = tables.iter().flat_map(|table| descendants(schema, table));
            all.map(|table| (table.id, LockMode::AccessExclusive))
                .collect()
        }
        Ddl::CreateSequence { .. }
        | Ddl::CreateExtension { .. }
        | Ddl::CreateEnum(_)
        | Ddl::CreateRoutine { .. }
        | Ddl::DropRoutines { .. }
        | Ddl::DropEnums { .. } => Vec::new(),
        Ddl::DropSequences { sequences, .. } => sequences
            .iter()
            .map(|sequence| (sequence.id, LockMode::AccessExclusive))
            .collect(),
    }
}

/// The default partition of a table: what belongs to it changes with every other partition.
fn default_partition(schema: &Schema, parent: RelId) -> Option<(RelId, LockMode)> {
    let mut partitions = schema.tables.values();
    let found = partitions
        .find(|t| t.partition == Some(Belonging::Default) && t.parents.first() == Some(&parent))?;
    Some((found.id, LockMode::AccessExclusive))
}

/// A table that a new foreign key refers to, with its partitions.
fn referred(schema: &Schema, parent: &Arc<Table>) -> Vec<(RelId, LockMode)> {
    let all = descendants(schema, parent);
    let kept = all
        .iter()
        .filter(|t| t.id == parent.id || parent.partitioned.is_some());
    kept.map(|t| (t.id, LockMode::ShareRowExclusive)).collect()
}

/// A unique index of the server's catalogue over names, with its columns.
struct NameIndex {
    index: &'static str,
    name: &'static str,
    schema: &'static str,
}

/// Tables, indexes, sequences.
const PG_CLASS: NameIndex = NameIndex {
    index: "pg_class_relname_nsp_index",
    name: "relname",
    schema: "relnamespace",
};

/// Types, also the row type of a table, which is made before the table.
const PG_TYPE: NameIndex = NameIndex {
    index: "pg_type_typname_nsp_index",
    name: "typname",
    schema: "typnamespace",
};

impl Exec<'_> {
    /// Carries a change of the schema out.
    pub(super) fn ddl(&mut self, ddl: &Ddl) -> Result<Done, Stop> {
        match ddl {
            Ddl::CreateTable {
                table,
                foreign_keys,
                sequences,
                if_not_exists,
                fill,
            } => {
                if self.exists_already(&table.name, *if_not_exists)? {
                    return Ok(Done::default());
                }
                return self.create_table(table, foreign_keys, sequences, fill.as_deref());
            }
            Ddl::CreateIndex {
                table,
                index,
                if_not_exists,
                concurrently,
            } => {
                if *concurrently && self.store.outlasts_others(self.session, table.id) {
                    let what = "CREATE INDEX CONCURRENTLY that waits for transactions in progress";
                    return Err(DbError::unsupported(what, None).into());
                }
                if !self.exists_already(&index.name, *if_not_exists)? {
                    self.claim_name(&index.name, &PG_CLASS)?;
                    let mut table = Table::clone(&self.table(table.id));
                    self.add_index(&mut table, index)?;
                    self.edit(Edit::Table(Arc::new(table)));
                }
            }
            Ddl::CreateSequence {
                sequence,
                if_not_exists,
            } => {
                if !self.exists_already(&sequence.name, *if_not_exists)? {
                    self.claim_name(&sequence.name, &PG_CLASS)?;
                    self.create_sequence(sequence, sequence.owner);
                }
            }
            Ddl::CreateEnum(labels) => {
                let id = self.new_id();
                self.edit(Edit::Enum(Arc::new(EnumType {
                    id: EnumId(id.0),
                    ..EnumType::clone(labels)
                })));
            }
            Ddl::CreateRoutine { routine, replace } => self.create_routine(routine, *replace)?,
            Ddl::DropRoutines {
                routines,
                missing,
                cascade,
            } => {
                for name in missing {
                    self.notice(
                        "NOTICE",
                        format!("function {name} does not exist, skipping"),
                    );
                }
                self.drop_routines(routines, *cascade)?;
            }
            Ddl::CreateExtension {
                name,
                if_not_exists,
            } => match (self.schema.extensions.contains(name), if_not_exists) {
                (false, _) => self.edit(Edit::Extension(Arc::clone(name))),
                (true, true) => self.notice(
                    "NOTICE",
                    format!("extension \"{name}\" already exists, skipping"),
                ),
                (true, false) => {
                    let message = format!("extension \"{name}\" already exists");
                    return Err(DbError::postgres("42710", message).into());
                }
            },
            Ddl::AlterTable { table, actions } => {
                for action in actions {
                    let table = Table::clone(&self.table(table.id));
                    self.alter(table, action)?;
                }
            }
            Ddl::DropTables {
                tables,
                missing,
                cascade,
            } => {
                for name in missing {
                    self.notice(
                        "NOTICE",
                        format!("table \"{name}\" does not exist, skipping"),
                    );
                }
                self.drop_tables(tables, *cascade)?;
            }
            Ddl::DropIndexes {
                indexes, missing, ..
            } => {
                for name in missing {
                    self.notice(
                        "NOTICE",
                        format!("index \"{name}\" does not exist, skipping"),
                    );
                }
                for (table, name) in indexes {
                    let mut table = Table::clone(&self.table(table.id));
                    self.drop_index(&mut table, name)?;
                    self.edit(Edit::Table(Arc::new(table)));
                }
            }
            Ddl::DropSequences { sequences, missing } => {
                for name in missing {
                    self.notice(
                        "NOTICE",
                        format!("sequence \"{name}\" does not exist, skipping"),
                    );
                }
                for sequence in sequences {
                    self.edit(Edit::Drop(sequence.id));
                }
            }
            Ddl::DropEnums { enums, missing } => {
                for name in missing {
                    self.notice(
                        "NOTICE",
                        format!("type \"{name}\" does not exist, skipping"),
                    );
                }
                for labels in enums {
                    self.edit(Edit::DropEnum(labels.id));
                }
            }
            Ddl::Truncate {
                tables,
                restart_identity,
                cascade,
            } => self.truncate(tables, *restart_identity, *cascade)?,
        }
        Ok(Done::default())
    }

    /// Lists a lock on something that nobody else can reach, for `pg_locks`.
    fn note(&mut self, tag: Tag, mode: LockMode) {
        self.store.note_lock(self.session, tag, mode);
    }

    pub(super) fn new_id(&mut self) -> RelId {
        self.store.catalog_mut().new_id()
    }

    /// Makes an edit, and sees it.
    pub(super) fn edit(&mut self, edit: Edit) {
        let levels = self.store.xact(self.session).levels.len();
        let level = levels.saturating_sub(1) as u8;
        self.store.ensure_xid(self.session);
        let catalog = self.store.catalog_mut();
        catalog.edit(self.session, level, edit);
        self.schema = Rc::clone(catalog.view(Some(self.session)).0);
    }

    /// A new object enters its name into an index of the server's catalogue. That waits for whoever
    /// has made the same name and not ended, and fails if it came to stay: unlike
    /// [`exists_already`](Self::exists_already), also with `IF NOT EXISTS`.
    fn claim_name(&mut self, name: &str, index: &NameIndex) -> Result<(), Stop> {
        if self.store.await_name(&mut self.run, name)? {
            let columns = format!("{}, {}", index.name, index.schema);
            let values = format!("{name}, 2200");
            return Err(errors::unique(index.index, &columns, &values).into());
        }
        Ok(())
    }

    /// 42P07, or the notice of `IF NOT EXISTS`.
    fn exists_already(&mut self, name: &str, lenient: bool) -> Result<bool, Stop> {
        let found = self
            .run
            .once_value(|| Ok(Value::Bool(self.schema.id(name).is_some())))?;
        if found != Value::Bool(true) {
            return Ok(false);
        }
        if !lenient {
            return Err(errors::duplicate_table(name).into());
        }
        self.notice(
            "NOTICE",
            format!("relation \"{name}\" already exists, skipping"),
        );
        Ok(true)
    }

    fn create_sequence(&mut self, sequence: &Sequence, owner: Option<(RelId, usize)>) -> RelId {
        let id = self.new_id();
        self.store
            .create_sequence(self.session, id, sequence.start, false);
        self.edit(Edit::Sequence(Arc::new(Sequence {
            id,
            owner,
            ..Sequence::clone(sequence)
        })));
        id
    }

    fn create_table(
        &mut self,
        new: &Table,
        foreign_keys: &[NewForeignKey],
        sequences: &[Sequence],
        fill: Option<&Query>,
    ) -> Result<Done, Stop> {
        let rows = match fill {
            Some(query) => self.all_rows(query, NOWHERE)?,
            None => Vec::new(),
        };
        for sequence in sequences {
            self.claim_name(&sequence.name, &PG_CLASS)?;
        }
        self.claim_name(&new.name, &PG_TYPE)?;
        for index in &new.indexes {
            self.claim_name(&index.name, &PG_CLASS)?;
        }
        let mut table = Table::clone(new);
        table.id = self.new_id();
        for sequence in sequences {
            let owner = sequence.owner.map(|(_, column)| (table.id, column));
            self.create_sequence(sequence, owner);
        }
        self.store.create_heap(self.session, table.id);
        self.note(Tag::Relation(table.id), LockMode::AccessExclusive);
        for index in &mut table.indexes {
            index.id = self.store.catalog_mut().new_id();
            self.store
                .create_index(self.session, shape(table.id, index));
            self.note(Tag::Relation(table.id), LockMode::Share);
            self.note(Tag::Relation(index.id), LockMode::AccessExclusive);
        }
        for key in foreign_keys {
            let key = resolved(&table, key);
            table.foreign_keys.push(key);
        }
        let table = Arc::new(table);
        self.edit(Edit::Table(Arc::clone(&table)));
        if table.partition.is_some() {
            self.check_default(&table)?;
        }
        let affected = rows.len() as u64;
        for row in rows {
            let row = self.finish_row(&table, row.to_vec(), NOWHERE)?;
            self.store_row(&table, &row, NOWHERE)?;
        }
        Ok(Done {
            rows: Vec::new(),
            affected,
        })
    }

    /// Builds an index over the rows that there are, and adds it to `table`.
    pub(super) fn add_index(&mut self, table: &mut Table, new: &Index) -> Result<(), Stop> {
        let mut index = new.clone();
        index.id = self.new_id();
        if index.primary {
            for column in index.keys.iter().filter_map(|k| k.column) {
                self.forbid_nulls(table, column)?;
            }
        }
        self.store
            .create_index(self.session, shape(table.id, &index));
        self.note(Tag::Relation(index.id), LockMode::AccessExclusive);
        let mut live: Vec<Vec<Value>> = Vec::new();
        let items = self.store.scan(table.id);
        for &version in items.iter() {
            let row = Row::clone(self.store.row(version));
            let Some(key) = self.index_key(&index, &row, NOWHERE)? else {
                continue;
            };
            if index.unique
                && self.store.live(Some(self.session), version)
                && !key.iter().any(Value::is_null)
            {
                live.push(key.to_vec());
            }
            self.store.index_build(index.id, key, version);
        }
        live.sort_by_key(|key| super::order::Group(key.clone()));
        let twice = live.windows(2).find(|w| {
            w[0].iter()
                .zip(&w[1])
                .all(|(a, b)| compare_values(a, b).is_eq())
        });
        if let Some(twice) = twice {
            let (columns, values) = shown_key(table, &index, &twice[0]);
            return Err(errors::unique_build(&index.name, &columns, &values).into());
        }
        if let IndexMethod::Hash { buckets } = &mut index.method {
            let last = items.last().map(|version| self.store.place_of(*version).0);
            let pages = last.map_or(0, |page| page as usize + 1);
            let rows = match table.counted {
                Some(_) => items.len(),
                None => estimated_rows(table, pages),
            };
            *buckets = crate::engine::postgres::first_buckets(rows);
        }
        if !items.is_empty() {
            let entries = self.store.index(index.id).entries.len();
            index.built_with = (entries > 0).then_some(entries);
            table.counted = Some(Counted {
                pages: self.store.pages_of(table.id),
                rows: items.len() as f64,
                is_small: is_small(items.len(), table.columns.len()),
            });
        }
        table.indexes.push(index);
        Ok(())
    }

    fn drop_index(&mut self, table: &mut Table, name: &str) -> Result<(), Stop> {
        let Some(at) = table.indexes.iter().position(|i| &*i.name == name) else {
            return Ok(());
        };
        let index = table.indexes.remove(at);
        self.store.drop_relation(self.session, index.id);
        Ok(())
    }

    /// The rows of a table that are there now, newest versions.
    pub(super) fn live_rows(&mut self, table: RelId) -> Vec<(VersionId, Row)> {
        let items = self.store.scan(table);
        let mut rows = Vec::new();
        for &version in items.iter() {
            if self.store.live(Some(self.session), version) {
                rows.push((version, Row::clone(self.store.row(version))));
            }
        }
        rows
    }

    /// Makes a column `NOT NULL`.
    fn forbid_nulls(&mut self, table: &mut Table, column: usize) -> Result<(), Stop> {
        let name = Arc::clone(&table.columns[column].name);
        let mut rows = self.live_rows(table.id).into_iter();
        if rows.any(|(_, row)| row.get(column).is_none_or(Value::is_null)) {
            return Err(DbError::postgres(
                "23502",
                format!(
                    "column \"{name}\" of relation \"{}\" contains null values",
                    table.name
                ),
            )
            .into());
        }
        table.columns[column].not_null = true;
        Ok(())
    }

    fn alter(&mut self, mut table: Table, action: &AlterTable) -> Result<(), Stop> {
        match action {
            AlterTable::AddColumn {
                column,
                sequence,
                if_not_exists,
            } => return self.add_column(table, column, sequence.as_ref(), *if_not_exists),
            AlterTable::DropColumn { column, .. } => self.drop_column(&mut table, *column)?,
            AlterTable::AddIndex(index) => {
                self.exists_already(&index.name, false)?;
                self.add_index(&mut table, index)?;
            }
            AlterTable::AddCheck(check) => self.add_check(&mut table, check)?,
            AlterTable::AddForeignKey(key) => {
                let key = resolved(&table, key);
                if key.validated {
                    self.check_existing(&table, &key)?;
                }
                table.foreign_keys.push(key);
            }
            AlterTable::AddTrigger(trigger) => {
                table.triggers.retain(|t| t.name != trigger.name);
                table.triggers.push(trigger.clone());
            }
            AlterTable::Attach {
                partition,
                bound,
                indexes,
                foreign_keys,
            } => return self.attach(&table, partition.id, bound, indexes, foreign_keys),
            AlterTable::Detach { partition } => return self.detach(partition.id),
            AlterTable::DropTrigger { name } => table.triggers.retain(|t| t.name != *name),
            AlterTable::SetTrigger { name, enabled } => {
                for trigger in table.triggers.iter_mut().filter(|t| t.name == *name) {
                    trigger.enabled = *enabled;
                }
            }
            AlterTable::Validate { name, .. } => {
                let at = table.foreign_keys.iter().position(|key| key.name == *name);
                if let Some(at) = at.filter(|at| !table.foreign_keys[*at].validated) {
                    self.check_existing(&table, &table.foreign_keys[at])?;
                    table.foreign_keys[at].validated = true;
                }
            }
            AlterTable::DropConstraint { name, cascade } => {
                self.drop_constraint(&mut table, name, *cascade)?;
            }
            AlterTable::SetDefault { column, default } => {
                table.columns[*column].default = default.clone();
            }
            AlterTable::SetNotNull { column, not_null } => {
                if *not_null {
                    self.forbid_nulls(&mut table, *column)?;
                } else {
                    table.columns[*column].not_null = false;
                }
            }
            AlterTable::RenameColumn { column, name } => {
                table.columns[*column].name = Arc::clone(name);
            }
            AlterTable::RenameTable { name } => {
                self.exists_already(name, false)?;
                table.name = Arc::clone(name);
            }
        }
        self.edit(Edit::Table(Arc::new(table)));
        Ok(())
    }

    fn add_column(
        &mut self,
        mut table: Table,
        column: &Column,
        sequence: Option<&Sequence>,
        if_not_exists: bool,
    ) -> Result<(), Stop> {
        if table.column(&column.name).is_some() {
            if !if_not_exists {
                return Err(DbError::postgres(
                    "42701",
                    format!(
                        "column \"{}\" of relation \"{}\" already exists",
                        column.name, table.name
                    ),
                )
                .into());
            }
            self.notice(
                "NOTICE",
                format!(
                    "column \"{}\" of relation \"{}\" already exists, skipping",
                    column.name, table.name
                ),
            );
            return Ok(());
        }
        let at = table.columns.len();
        if let Some(sequence) = sequence {
            self.create_sequence(sequence, Some((table.id, at)));
        }
        table.columns.push(column.clone());
        let table = Arc::new(table);
        self.edit(Edit::Table(Arc::clone(&table)));
        // One value for each version that there is, in physical order.
        let items = self.store.scan(table.id);
        let mut values = Vec::with_capacity(items.len());
        for &version in items.iter() {
            let row = Row::clone(self.store.row(version));
            let value = match (&column.generated, &column.default) {
                (Some(generated), _) => self.of_row(generated, &row, NOWHERE)?,
                (None, Some(default)) => self.evaluate(default, &[], NOWHERE)?,
                (None, None) => Value::Null,
            };
            if value.is_null() && column.not_null && self.store.live(Some(self.session), version) {
                return Err(DbError::postgres(
                    "23502",
                    format!(
                        "column \"{}\" of relation \"{}\" contains null values",
                        column.name, table.name
                    ),
                )
                .into());
            }
            values.push(value);
        }
        let mut values = values.into_iter();
        self.store.rewrite(self.session, table.id, |row| {
            let mut row = row.to_vec();
            row.push(values.next().unwrap_or(Value::Null));
            Some(row.into())
        });
        Ok(())
    }

    fn drop_column(&mut self, table: &mut Table, column: usize) -> Result<(), Stop> {
        table.columns[column].dropped = true;
        table.columns[column].not_null = false;
        table.columns[column].default = None;
        table.columns[column].name = format!("........pg.dropped.{}........", column + 1).into();
        let gone: Vec<Arc<str>> = table
            .indexes
            .iter()
            .filter(|i| i.keys.iter().any(|k| k.column == Some(column)))
            .map(|i| Arc::clone(&i.name))
            .collect();
        for name in gone {
            self.drop_index(table, &name)?;
        }
        table.foreign_keys.retain(|k| !k.columns.contains(&column));
        Ok(())
    }

    fn add_check(&mut self, table: &mut Table, check: &Check) -> Result<(), Stop> {
        for (_, row) in self.live_rows(table.id) {
            let bound = [Bound::computed(row)];
            let holds = NOWHERE.with(&bound, |scope| expr::test(&check.expr, scope, self))?;
            if holds == Some(false) {
                return Err(DbError::postgres(
                    "23514",
                    format!(
                        "check constraint \"{}\" of relation \"{}\" is violated by some row",
                        check.name, table.name
                    ),
                )
                .with_constraint(Arc::clone(&check.name))
                .into());
            }
        }
        table.checks.push(check.clone());
        table.checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// Every row that is there must have its parent.
    pub(super) fn check_existing(&mut self, table: &Table, key: &ForeignKey) -> Result<(), Stop> {
        let mut parents = Vec::new();
        for leaf in self.leaves(&self.table(key.parent)) {
            for (version, row) in self.live_rows(leaf.table.id) {
                parents.push((version, leaf.ancestors_row(&row)));
            }
        }
        for (_, row) in self.live_rows(table.id) {
            let values: Vec<&Value> = key.columns.iter().map(|c| &row[*c]).collect();
            if values.iter().any(|v| v.is_null()) {
                continue;
            }
            let found = parents.iter().any(|(_, parent)| {
                key.parent_columns
                    .iter()
                    .zip(&values)
                    .all(|(c, v)| super::order::equal(&parent[*c], v))
            });
            if !found {
                let columns: Vec<&str> = key
                    .columns
                    .iter()
                    .map(|c| &*table.columns[*c].name)
                    .collect();
                let shown: Vec<String> = key
                    .columns
                    .iter()
                    .map(|c| output_text(&row[*c], table.columns[*c].declared.ty))
                    .collect();
                let parent = self.table(key.parent);
                return Err(errors::foreign_key_missing(
                    &table.name,
                    &key.name,
                    &columns.join(", "),
                    &shown.join(", "),
                    &parent.name,
                )
                .into());
            }
        }
        Ok(())
    }

    fn drop_constraint(
        &mut self,
        table: &mut Table,
        name: &Arc<str>,
        cascade: bool,
    ) -> Result<(), Stop> {
        if let Some(at) = table.checks.iter().position(|c| c.name == *name) {
            table.checks.remove(at);
        } else if let Some(at) = table.foreign_keys.iter().position(|k| k.name == *name) {
            table.foreign_keys.remove(at);
        } else if let Some(index) = table
            .indexes
            .iter()
            .find(|i| i.constraint && i.name == *name)
        {
            let id = index.id;
            let users = self.users_of(table.id, |key| key.parent_index == id, &[]);
            if !cascade && let Some((child, key)) = users.first() {
                return Err(DbError::postgres(
                    "2BP01",
                    format!(
                        "cannot drop constraint {name} on table {} because other objects depend on it",
                        table.name
                    ),
                )
                .with_detail(format!(
                    "constraint {key} on table {} depends on index {name}",
                    child.name
                ))
                .into());
            }
            self.drop_users(&users);
            self.drop_index(table, name)?;
        } else {
            return Err(DbError::postgres(
                "42704",
                format!(
                    "constraint \"{name}\" of relation \"{}\" does not exist",
                    table.name
                ),
            )
            .into());
        }
        Ok(())
    }

    /// Foreign keys of other tables than `except` that refer to `parent`.
    fn users_of(
        &self,
        parent: RelId,
        which: impl Fn(&ForeignKey) -> bool,
        except: &[RelId],
    ) -> Vec<(Arc<Table>, Arc<str>)> {
        self.schema
            .references(parent)
            .filter(|(child, key)| !except.contains(&child.id) && which(key))
            .map(|(child, key)| (Arc::clone(child), Arc::clone(&key.name)))
            .collect()
    }

    fn drop_users(&mut self, users: &[(Arc<Table>, Arc<str>)]) {
        for (child, key) in users {
            let mut child = Table::clone(&self.table(child.id));
            child.foreign_keys.retain(|k| k.name != *key);
            self.edit(Edit::Table(Arc::new(child)));
        }
    }

    fn drop_tables(&mut self, named: &[Arc<Table>], cascade: bool) -> Result<(), Stop> {
        let tables = &self.with_descendants(named, cascade)?;
        let ids: Vec<RelId> = tables.iter().map(|t| t.id).collect();
        let mut users = Vec::new();
        for table in tables {
            let of_table = self.users_of(table.id, |_| true, &ids);
            if !cascade && let Some((child, key)) = of_table.first() {
                return Err(DbError::postgres(
                    "2BP01",
                    format!(
                        "cannot drop table {} because other objects depend on it",
                        table.name
                    ),
                )
                .with_detail(format!(
                    "constraint {key} on table {} depends on table {}",
                    child.name, table.name
                ))
                .into());
            }
            users.extend(of_table);
        }
        let heirs = tables
            .iter()
            .filter(|t| t.partition.is_none() && named.iter().all(|n| n.id != t.id));
        let heirs: Vec<&Arc<Table>> = heirs.collect();
        match (&users[..], &heirs[..]) {
            ([], []) => {}
            ([], [heir]) => self.notice("NOTICE", format!("drop cascades to table {}", heir.name)),
            ([(child, key)], []) => self.notice(
                "NOTICE",
                format!("drop cascades to constraint {key} on table {}", child.name),
            ),
            (keys, heirs) => self.notice(
                "NOTICE",
                format!(
                    "drop cascades to {} other objects",
                    keys.len() + heirs.len()
                ),
            ),
        }
        self.drop_users(&users);
        for table in tables {
            let table = self.table(table.id);
            for index in &table.indexes {
                self.store.drop_relation(self.session, index.id);
            }
            self.store.ssi_empty(self.session, table.id)?;
            self.store.drop_relation(self.session, table.id);
            let owned: Vec<RelId> = self
                .schema
                .sequences
                .values()
                .filter(|s| s.owner.is_some_and(|(owner, _)| owner == table.id))
                .map(|s| s.id)
                .collect();
            for sequence in owned {
                self.edit(Edit::Drop(sequence));
            }
            self.edit(Edit::Drop(table.id));
        }
        Ok(())
    }

    fn truncate(
        &mut self,
        named: &[Arc<Table>],
        restart_identity: bool,
        cascade: bool,
    ) -> Result<(), Stop> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for table in named.iter().flat_map(|t| descendants(&*self.schema, t)) {
            if tables.iter().all(|known| known.id != table.id) {
                tables.push(table);
            }
        }
        let tables = &tables;
        let ids: Vec<RelId> = tables.iter().map(|t| t.id).collect();
        for table in tables {
            let users = self.users_of(table.id, |_| true, &ids);
            if let Some((child, _)) = users.first() {
                if cascade {
                    return Err(DbError::unsupported(
                        format!("TRUNCATE that cascades to {}", child.name),
                        None,
                    )
                    .into());
                }
                return Err(DbError::postgres(
                    "0A000",
                    "cannot truncate a table referenced in a foreign key constraint",
                )
                .with_detail(format!(
                    "Table \"{}\" references \"{}\".",
                    child.name, table.name
                ))
                .into());
            }
        }
        for table in tables {
            if table.triggers.iter().any(|t| t.enabled && t.truncate) {
                return Err(DbError::unsupported("TRUNCATE triggers", None).into());
            }
            self.store.ssi_empty(self.session, table.id)?;
            self.store.truncate(self.session, &self.snapshot, table.id);
            // It builds the indexes anew.
            self.note(Tag::Relation(table.id), LockMode::Share);
            self.note(Tag::Indexes(table.id), LockMode::AccessExclusive);
            if restart_identity {
                let schema = Rc::clone(&self.schema);
                for sequence in schema.sequences.values() {
                    if sequence.owner.is_some_and(|(owner, _)| owner == table.id) {
                        self.store
                            .alter_sequence(self.session, sequence.id, sequence.start, false);
                    }
                }
            }
        }
        Ok(())
    }
}

fn shape(table: RelId, index: &Index) -> IndexShape {
    IndexShape {
        rel: index.id,
        table,
        unique: index.unique,
        nulls_not_distinct: false,
        order: index
            .keys
            .iter()
            .map(|k| (k.descending, k.nulls_first))
            .collect(),
    }
}

/// A foreign key with the ids of what it refers to.
pub(super) fn resolved(table: &Table, key: &NewForeignKey) -> ForeignKey {
    let (parent, indexes) = match &key.parent {
        Some(parent) if parent.id != table.id => (parent.id, &parent.indexes),
        _ => (table.id, &table.indexes),
    };
    ForeignKey {
        name: Arc::clone(&key.name),
        columns: key.columns.clone(),
        parent,
        parent_columns: key.parent_columns.clone(),
        parent_index: indexes[key.parent_index].id,
        on_delete: key.on_delete,
        on_update: key.on_update,
        deferrable: key.deferrable,
        deferred: key.deferred,
        match_full: key.match_full,
        validated: key.validated,
        inherited: key.inherited,
    }
}
