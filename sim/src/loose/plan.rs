//! Statements whose names are resolved: writes, changes of the schema, and the plan around them.

use std::sync::Arc;

use super::catalog::{ConflictAction, Table};
use super::expr::Expr;
use super::query::{Cte, OutputColumn, Query, SortKey, Source};

/// A statement ready to run, valid for one version of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The stored views that it uses, each with the number of tables that are mentioned before it.
    pub views: Vec<(Arc<str>, usize)>,
    /// What the server warns of, whatever the statement does (number, text).
    pub warnings: Vec<(u16, String)>,
    /// What to do.
    pub kind: PlanKind,
    /// How many `?` there are.
    pub params: usize,
    /// The columns of the answer; empty if the statement returns no rows at all.
    pub columns: Vec<OutputColumn>,
    /// The command tag: `SELECT`, `INSERT`, `CREATE TABLE`.
    pub tag: &'static str,
    /// Stored tables that the statement touches, in the order of their first mention, each once.
    pub tables: Vec<(Arc<Table>, TableUse)>,
}

/// What a statement does with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableUse {
    /// Reads it.
    Read,
    /// Reads it with a locking clause.
    LockingRead,
    /// Changes its rows.
    Write,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanKind {
    /// A query.
    Query(Box<Query>),
    /// `INSERT`, `REPLACE`.
    Insert(Box<Insert>),
    /// `UPDATE`.
    Update(Box<Update>),
    /// `DELETE`.
    Delete(Box<Delete>),
    /// A change of the schema.
    Ddl(Box<Ddl>),
}

/// `INSERT`, `REPLACE`. Opens one level: entry 0 is the row in the way (of a conflict; for
/// `RETURNING`, the new row), entry 1 the row that was to be inserted (`VALUES(c)`, `new.c`,
/// `excluded.c`).
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// Common table expressions in front of it.
    pub with: Vec<Cte>,
    /// The table.
    pub table: Arc<Table>,
    /// The columns that are given, in the order of the source's columns.
    pub columns: Vec<usize>,
    /// The rowid is given as well, at this place of the source (SQLite).
    pub rowid: Option<usize>,
    /// Where rows come from.
    pub source: InsertSource,
    /// The source reads the table itself: its rows are collected before the first is inserted.
    pub reads_target: bool,
    /// What a row that a constraint refuses does: MySQL `IGNORE` is `Ignore`, `REPLACE` is `Replace`.
    /// `None` leaves it to the constraint.
    pub or: Option<ConflictAction>,
    /// `ON DUPLICATE KEY UPDATE`, `ON CONFLICT`, in the order written.
    pub upserts: Vec<Upsert>,
    /// `RETURNING`.
    pub returning: Option<Vec<Expr>>,
}

/// Where inserted rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// `VALUES`, `SET`: [`Expr::Default`] stands for the default of the column. Expressions see the
    /// row under construction as entry 0 of their level (MySQL).
    Values(Vec<Vec<Expr>>),
    /// `SELECT`.
    Query(Box<Query>),
    /// `DEFAULT VALUES`.
    Defaults,
}

/// One `ON CONFLICT` clause, or `ON DUPLICATE KEY UPDATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Upsert {
    /// Which duplicates it is for.
    pub target: UpsertTarget,
    /// What is assigned, left to right; `None` is `DO NOTHING`.
    pub set: Option<Vec<Assignment>>,
    /// `WHERE`: otherwise the row is left alone.
    pub filter: Option<Expr>,
}

/// Which duplicates an upsert clause handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsertTarget {
    /// Of any unique index.
    Any,
    /// Of one index, by its position.
    Index(usize),
    /// Of the rowid (SQLite).
    Rowid,
}

/// `column = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The range-table entry whose column is assigned (0 but for multi-table updates).
    pub entry: usize,
    /// The column; `None` is the rowid (SQLite).
    pub column: Option<usize>,
    /// The value; [`Expr::Default`] is the column's default. MySQL evaluates assignments left to
    /// right on the changing row, SQLite all of them on the old row.
    pub value: Expr,
}

/// `UPDATE`. Opens one level, that of `source`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Common table expressions in front of it.
    pub with: Vec<Cte>,
    /// Which rows. Entry 0 is the target of a single-table update, further entries come from
    /// `FROM` (SQLite) or the joined tables (MySQL).
    pub source: Source,
    /// The entries that are changed, each once.
    pub targets: Vec<usize>,
    /// What is assigned.
    pub set: Vec<Assignment>,
    /// `IGNORE` or `OR ..`.
    pub or: Option<ConflictAction>,
    /// `ORDER BY`.
    pub sort: Vec<SortKey>,
    /// `LIMIT`.
    pub limit: Option<Expr>,
    /// `RETURNING`, over the new row.
    pub returning: Option<Vec<Expr>>,
}

/// `DELETE`. Opens one level, that of `source`.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Common table expressions in front of it.
    pub with: Vec<Cte>,
    /// Which rows.
    pub source: Source,
    /// The entries whose rows are deleted.
    pub targets: Vec<usize>,
    /// `IGNORE`.
    pub ignore: bool,
    /// `ORDER BY`.
    pub sort: Vec<SortKey>,
    /// `LIMIT`.
    pub limit: Option<Expr>,
    /// `RETURNING`, over the old row.
    pub returning: Option<Vec<Expr>>,
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Ddl {
    /// `CREATE TABLE`.
    CreateTable {
        /// The table, without its number.
        table: Box<Table>,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// `AS SELECT`: the rows to begin with.
        rows: Option<Box<Query>>,
        /// The statement's text, as `sqlite_master` keeps it.
        text: Arc<str>,
    },
    /// `DROP TABLE`.
    DropTable {
        /// Their names.
        names: Vec<Arc<str>>,
        /// `IF EXISTS`.
        if_exists: bool,
        /// `TEMPORARY` (MySQL).
        temporary: bool,
    },
    /// `CREATE INDEX`.
    CreateIndex {
        /// The table.
        table: Arc<Table>,
        /// The index.
        index: Box<super::catalog::Index>,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The statement's text.
        text: Arc<str>,
    },
    /// `DROP INDEX`.
    DropIndex {
        /// Its name.
        name: Arc<str>,
        /// `ON table` (MySQL).
        table: Option<Arc<Table>>,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `ALTER TABLE`.
    AlterTable {
        /// The table as it is.
        table: Arc<Table>,
        /// What to do, in this order.
        actions: Vec<Alter>,
    },
    /// `TRUNCATE TABLE`.
    Truncate(Arc<Table>),
    /// `RENAME TABLE a TO b, ..` (MySQL).
    Rename(Vec<(Arc<Table>, Arc<str>)>),
    /// `CREATE VIEW`.
    CreateView {
        /// The view; its query was checked.
        view: Arc<super::catalog::View>,
        /// `ALTER VIEW`: it is there, and gets a new definition.
        replaces: bool,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// The statement's text.
        text: Arc<str>,
    },
    /// `DROP VIEW`.
    DropView {
        /// Its name.
        name: Arc<str>,
        /// `IF EXISTS`.
        if_exists: bool,
    },
}

/// One action of `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub enum Alter {
    /// `ADD COLUMN`.
    AddColumn {
        /// The column.
        column: Box<super::catalog::Column>,
        /// Where: `FIRST` is 0; `None` is last.
        at: Option<usize>,
        /// Indexes that its definition declares (`UNIQUE`, `PRIMARY KEY`).
        indexes: Vec<super::catalog::Index>,
    },
    /// `DROP COLUMN`.
    DropColumn(usize),
    /// `MODIFY`, `CHANGE`: a column gets a new definition.
    ChangeColumn(usize, Box<super::catalog::Column>),
    /// `RENAME COLUMN`.
    RenameColumn(usize, Arc<str>),
    /// `ALTER COLUMN SET / DROP DEFAULT`.
    SetDefault(usize, Option<Expr>),
    /// `ADD INDEX`, `ADD UNIQUE`, `ADD PRIMARY KEY`.
    AddIndex(Box<super::catalog::Index>),
    /// `DROP INDEX`, `DROP PRIMARY KEY`: its position.
    DropIndex(usize),
    /// `ADD FOREIGN KEY`.
    AddForeignKey(super::catalog::ForeignKey),
    /// `DROP FOREIGN KEY`.
    DropForeignKey(Arc<str>),
    /// `RENAME TO`.
    Rename(Arc<str>),
    /// `ENGINE = InnoDB`, `AUTO_INCREMENT = n` and the like.
    Option(Arc<str>, Arc<str>),
}
