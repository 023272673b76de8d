//! Changes of the schema. Names are kept as text where the order of effects matters: a table's
//! foreign key may refer to the table itself.

use std::sync::Arc;

use crate::plan::catalog::{Action, Check, Column, EnumType, Index, Sequence, Table, Trigger};
use crate::plan::partition::Bound;
use crate::plan::query::Query;
use crate::plan::routine::Routine;

/// A change of the schema.
///
/// Ids in the catalogue entries ([`crate::plan::catalog::RelationId`]) are 0 in a plan; the engine
/// gives the true ones when it carries the change out.
#[derive(Clone, Debug, PartialEq)]
pub enum Ddl {
    /// `CREATE TABLE`. Sequences of serial and identity columns are created with it.
    CreateTable {
        /// The table; its foreign keys are in `foreign_keys`.
        table: Box<Table>,
        /// Its foreign keys, by name.
        foreign_keys: Vec<NewForeignKey>,
        /// Sequences that its columns own.
        sequences: Vec<Sequence>,
        /// `IF NOT EXISTS`: a notice instead of 42P07.
        if_not_exists: bool,
        /// `AS SELECT`: rows to fill it with.
        fill: Option<Box<Query>>,
    },
    /// `CREATE INDEX`.
    CreateIndex {
        /// The table.
        table: Arc<Table>,
        /// The index.
        index: Box<Index>,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// `CONCURRENTLY`: not inside a transaction block (25001).
        concurrently: bool,
    },
    /// `CREATE SEQUENCE`.
    CreateSequence {
        /// The sequence.
        sequence: Sequence,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
    },
    /// `CREATE TYPE .. AS ENUM`.
    CreateEnum(EnumType),
    /// `CREATE FUNCTION`.
    CreateRoutine {
        /// The function.
        routine: Box<Routine>,
        /// `OR REPLACE`.
        replace: bool,
    },
    /// `DROP FUNCTION`.
    DropRoutines {
        /// Those that exist.
        routines: Vec<Arc<Routine>>,
        /// Those that do not (`IF EXISTS`): a notice for each.
        missing: Vec<Arc<str>>,
        /// `CASCADE`: triggers that call them are dropped.
        cascade: bool,
    },
    /// `CREATE EXTENSION` of one that is modelled.
    CreateExtension {
        /// Its name.
        name: Arc<str>,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
    },
    /// `ALTER TABLE`.
    AlterTable {
        /// The table.
        table: Arc<Table>,
        /// The changes, in order.
        actions: Vec<AlterTable>,
    },
    /// `DROP TABLE`.
    DropTables {
        /// Those that exist.
        tables: Vec<Arc<Table>>,
        /// Those that do not (`IF EXISTS`): a notice for each.
        missing: Vec<Arc<str>>,
        /// `CASCADE`: foreign keys that refer to them are dropped.
        cascade: bool,
    },
    /// `DROP INDEX`.
    DropIndexes {
        /// Table and name of each.
        indexes: Vec<(Arc<Table>, Arc<str>)>,
        /// Those that do not exist.
        missing: Vec<Arc<str>>,
        /// `CONCURRENTLY`.
        concurrently: bool,
    },
    /// `DROP SEQUENCE`.
    DropSequences {
        /// Those that exist.
        sequences: Vec<Arc<Sequence>>,
        /// Those that do not.
        missing: Vec<Arc<str>>,
    },
    /// `DROP TYPE` of enumerations.
    DropEnums {
        /// Those that exist.
        enums: Vec<Arc<EnumType>>,
        /// Those that do not.
        missing: Vec<Arc<str>>,
    },
    /// `TRUNCATE`.
    Truncate {
        /// The tables.
        tables: Vec<Arc<Table>>,
        /// `RESTART IDENTITY`.
        restart_identity: bool,
        /// `CASCADE`.
        cascade: bool,
    },
}

/// One action of `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTable {
    /// `ADD COLUMN`; existing rows get the default.
    AddColumn {
        /// The column.
        column: Box<Column>,
        /// The sequence that it owns.
        sequence: Option<Sequence>,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
    },
    /// `DROP COLUMN`.
    DropColumn {
        /// Its position.
        column: usize,
        /// `CASCADE`.
        cascade: bool,
    },
    /// `ADD PRIMARY KEY`, `ADD UNIQUE`: checked against existing rows; a primary key makes its
    /// columns `NOT NULL`.
    AddIndex(Box<Index>),
    /// `ADD CHECK`, checked against existing rows.
    AddCheck(Check),
    /// `ADD FOREIGN KEY`, checked against existing rows unless it is `NOT VALID`.
    AddForeignKey(NewForeignKey),
    /// `VALIDATE CONSTRAINT` of a foreign key.
    Validate {
        /// Its name.
        name: Arc<str>,
        /// The table that it refers to.
        parent: crate::plan::catalog::RelationId,
    },
    /// `ATTACH PARTITION`.
    Attach {
        /// The table.
        partition: Arc<Table>,
        /// What belongs to it.
        bound: Bound,
        /// Its indexes that belong to those of the partitioned table: new ones have no id.
        indexes: Vec<Index>,
        /// Its foreign keys that are part of those of the partitioned table.
        foreign_keys: Vec<NewForeignKey>,
    },
    /// `DETACH PARTITION`.
    Detach {
        /// The partition.
        partition: Arc<Table>,
    },
    /// `CREATE TRIGGER`.
    AddTrigger(Trigger),
    /// `DROP TRIGGER`.
    DropTrigger {
        /// Its name.
        name: Arc<str>,
    },
    /// `ENABLE TRIGGER` and `DISABLE TRIGGER`.
    SetTrigger {
        /// Its name.
        name: Arc<str>,
        /// Which of the two.
        enabled: bool,
    },
    /// `DROP CONSTRAINT`.
    DropConstraint {
        /// Its name.
        name: Arc<str>,
        /// `CASCADE`.
        cascade: bool,
    },
    /// `ALTER COLUMN .. SET DEFAULT / DROP DEFAULT`.
    SetDefault {
        /// The column.
        column: usize,
        /// The new default.
        default: Option<crate::plan::expr::Expr>,
    },
    /// `ALTER COLUMN .. SET NOT NULL / DROP NOT NULL`.
    SetNotNull {
        /// The column.
        column: usize,
        /// `SET`.
        not_null: bool,
    },
    /// `RENAME COLUMN`.
    RenameColumn {
        /// Its position.
        column: usize,
        /// The new name.
        name: Arc<str>,
    },
    /// `RENAME TO`.
    RenameTable {
        /// The new name.
        name: Arc<str>,
    },
}

/// A foreign key that is to be made; the parent may be the table under construction.
#[derive(Clone, Debug, PartialEq)]
pub struct NewForeignKey {
    /// The constraint's name.
    pub name: Arc<str>,
    /// Columns of the child.
    pub columns: Vec<usize>,
    /// The parent; `None` is the table under construction itself.
    pub parent: Option<Arc<Table>>,
    /// Columns of the parent.
    pub parent_columns: Vec<usize>,
    /// The position of the parent's unique index.
    pub parent_index: usize,
    /// `ON DELETE`.
    pub on_delete: Action,
    /// `ON UPDATE`.
    pub on_update: Action,
    /// May be deferred.
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`.
    pub deferred: bool,
    /// `MATCH FULL`.
    pub match_full: bool,
    /// Rows that are there already have been checked, or will be: not `NOT VALID`.
    pub validated: bool,
    /// It is part of a foreign key of the partitioned table.
    pub inherited: bool,
}
