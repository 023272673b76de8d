//! The schema as plain data: tables, columns, indexes and foreign keys, for both engines.

use std::fmt;
use std::sync::Arc;

use super::expr::Expr;
use super::query::Kind;
use super::types::{Affinity, Collation, DeclaredType};

/// Names a table for as long as it exists; the engine numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// A stored table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its number.
    pub id: TableId,
    /// Its name as created.
    pub name: Arc<str>,
    /// How texts of columns are compared that name no collation.
    pub collation: Collation,
    /// Its columns, in their order.
    pub columns: Vec<Column>,
    /// Its indexes. On InnoDB index 0 is the clustered one when a primary key was declared; on
    /// SQLite the primary key of a rowid table is an index like others, and an `INTEGER PRIMARY KEY`
    /// has none ([`Table::rowid_alias`]).
    pub indexes: Vec<Index>,
    /// Its foreign keys, as the child.
    pub foreign_keys: Vec<ForeignKey>,
    /// Its `CHECK` constraints.
    pub checks: Vec<Check>,
    /// SQLite: the column that is the rowid (`INTEGER PRIMARY KEY`).
    pub rowid_alias: Option<usize>,
    /// SQLite: `WITHOUT ROWID`; index 0 is then the primary key.
    pub without_rowid: bool,
    /// SQLite: `STRICT`, values must be of the declared types.
    pub strict: bool,
    /// SQLite: `AUTOINCREMENT` was written.
    pub autoincrement: bool,
    /// `TEMPORARY`: seen by one session only.
    pub temporary: bool,
}

impl Table {
    /// The position of a column; names do not depend on case.
    pub fn column(&self, name: &str) -> Option<usize> {
        let same = |column: &Column| column.name.eq_ignore_ascii_case(name);
        self.columns.iter().position(same)
    }

    /// The primary key among the indexes.
    pub fn primary(&self) -> Option<usize> {
        self.indexes.iter().position(|index| index.primary)
    }

    /// The position of an index; names do not depend on case.
    pub fn index(&self, name: &str) -> Option<usize> {
        let same = |index: &Index| index.name.eq_ignore_ascii_case(name);
        self.indexes.iter().position(same)
    }

    /// The column that numbers rows by itself (`AUTO_INCREMENT`).
    pub fn auto_increment(&self) -> Option<usize> {
        self.columns.iter().position(|c| c.auto_increment)
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name as created.
    pub name: Arc<str>,
    /// Its declared type.
    pub ty: DeclaredType,
    /// How its texts are compared.
    pub collation: Collation,
    /// `NOT NULL`, and what SQLite does when it is violated.
    pub not_null: Option<ConflictAction>,
    /// `DEFAULT`: no columns, no sub-selects.
    pub default: Option<Expr>,
    /// `ON UPDATE CURRENT_TIMESTAMP`: the expression that is assigned when another column changes.
    pub on_update: Option<Expr>,
    /// `AUTO_INCREMENT` (MySQL).
    pub auto_increment: bool,
    /// `GENERATED ALWAYS AS`: over the columns of the row (entry 0 of level 0).
    pub generated: Option<Expr>,
}

impl Column {
    /// The affinity of a column of SQLite.
    pub fn affinity(&self) -> Affinity {
        self.ty.affinity()
    }
}

/// An index: an ordered set of records.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its name (`PRIMARY`, `u`, `sqlite_autoindex_t_1`).
    pub name: Arc<str>,
    /// Its keys, most significant first, without the primary key that InnoDB and the rowid that
    /// SQLite append.
    pub keys: Vec<IndexKey>,
    /// No two rows agree in all keys, unless one of them is NULL.
    pub unique: bool,
    /// The primary key.
    pub primary: bool,
    /// SQLite: only rows for which this is true (entry 0 of level 0).
    pub filter: Option<Expr>,
    /// SQLite: what a duplicate does if the statement does not say (`ON CONFLICT` of the
    /// constraint).
    pub on_conflict: ConflictAction,
    /// Made by a constraint of `CREATE TABLE`, not by `CREATE INDEX`.
    pub from_constraint: bool,
}

/// One key of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexKey {
    /// What is indexed.
    pub part: KeyPart,
    /// How texts are compared.
    pub collation: Collation,
    /// `DESC`.
    pub descending: bool,
}

/// What a key of an index holds.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyPart {
    /// A column.
    Column(usize),
    /// An expression over the columns (entry 0 of level 0).
    Expr(Expr),
}

impl IndexKey {
    /// The column that is indexed, if one is.
    pub fn column(&self) -> Option<usize> {
        match self.part {
            KeyPart::Column(column) => Some(column),
            KeyPart::Expr(_) => None,
        }
    }
}

/// A `FOREIGN KEY`.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignKey {
    /// Its name; empty if it has none.
    pub name: Arc<str>,
    /// The columns of the child.
    pub columns: Vec<usize>,
    /// The parent table.
    pub parent: Arc<str>,
    /// The columns of the parent; empty for its primary key.
    pub parent_columns: Vec<Arc<str>>,
    /// `ON DELETE`.
    pub on_delete: Reference,
    /// `ON UPDATE`.
    pub on_update: Reference,
    /// `DEFERRABLE INITIALLY DEFERRED` (SQLite): checked at the end of the transaction.
    pub deferred: bool,
}

/// What happens to children when their parent goes or changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reference {
    /// `NO ACTION`: refused, at the end of the statement (SQLite), at once (InnoDB).
    #[default]
    NoAction,
    /// `RESTRICT`: refused at once.
    Restrict,
    /// `CASCADE`.
    Cascade,
    /// `SET NULL`.
    SetNull,
    /// `SET DEFAULT` (SQLite).
    SetDefault,
}

/// A `CHECK` constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// The condition over the columns of the row (entry 0 of level 0); NULL passes.
    pub expr: Expr,
    /// Its text, for messages.
    pub text: Arc<str>,
}

/// What to do when a constraint refuses a row (SQLite, "The ON CONFLICT Clause"; MySQL's `IGNORE`
/// and `REPLACE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConflictAction {
    /// Undo the statement.
    #[default]
    Abort,
    /// Keep what the statement did before, and stop.
    Fail,
    /// Skip the row.
    Ignore,
    /// Delete the rows in the way.
    Replace,
    /// Undo the transaction.
    Rollback,
}

/// A view computed by the engine (`information_schema.innodb_trx`, `sqlite_master`).
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualTable {
    /// Its name, lower case, with its schema where it has one.
    pub name: Arc<str>,
    /// Its columns: names, types.
    pub columns: Vec<(Arc<str>, DeclaredType)>,
}

/// What a name in `FROM` stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A stored table.
    Table(Arc<Table>),
    /// A view computed by the engine.
    Virtual(Arc<VirtualTable>),
    /// A stored view.
    View(Arc<View>),
}

/// A stored view.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Its name.
    pub name: Arc<str>,
    /// Names for its columns; empty for those of the query.
    pub columns: Vec<Arc<str>>,
    /// The text of its query.
    pub query: Arc<str>,
}

/// Through what names are looked up.
pub trait Catalog: fmt::Debug {
    /// The table or view called `name`. MySQL distinguishes the case of table names, SQLite does not.
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation>;

    /// The database in use, for messages (`test` in `Table 'test.t' doesn't exist`).
    fn database(&self) -> &str;

    /// What the system variable called `name` (lower case) holds: a text, a number, or a number from 0.
    fn kind_of_variable(&self, name: &str) -> Kind {
        let _ = name;
        Kind::Int
    }

    /// Whether `NOW()` is described as a `TIMESTAMP` (MariaDB since 11.7).
    fn clock_is_timestamp(&self) -> bool {
        false
    }
}
