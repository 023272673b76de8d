//! Syntax trees: what was written, names unresolved, every piece with its place.
//!
//! The parser ([`super::parse`]) takes exactly what these trees can say; anything else is a syntax
//! error or `unsupported` at its token. So nothing of a statement is lost in silence.

use std::sync::Arc;

use super::catalog::{ConflictAction, Reference};
use super::expr::{Binary, Compare, IntervalUnit, Match, Unary};
use super::query::{HintKind, LockClause, SetOp};

/// A name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ident {
    pub(crate) name: Arc<str>,
    pub(crate) at: usize,
    /// In double quotes: SQLite takes it for a text if there is no such column.
    pub(crate) double_quoted: bool,
}

/// A table's name, with its database if one was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableName {
    pub(crate) schema: Option<Ident>,
    pub(crate) name: Ident,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// The byte at which it begins.
    pub(crate) at: usize,
    /// The byte after its end.
    pub(crate) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeKind {
    Null,
    Bool(bool),
    /// As written; without point and exponent.
    Integer(String),
    /// As written; with a point, without exponent.
    Decimal(String),
    /// As written; with an exponent.
    Float(String),
    Text(String),
    Blob(Vec<u8>),
    /// `DATE '..'`, `TIME '..'`, `TIMESTAMP '..'`: the word and the text.
    Temporal(&'static str, String),
    /// Numbered from 0 in the order of appearance.
    Param(usize),
    /// `c`, `t.c`, `s.t.c`.
    Name(Vec<Ident>),
    UserVariable(String),
    /// `@x := value`.
    Assign(String, Box<Node>),
    SystemVariable(String),
    /// `DEFAULT`, `DEFAULT(c)`.
    Default(Option<Ident>),
    /// `VALUES(c)` of MySQL.
    ValuesOf(Ident),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Xor(Box<Node>, Box<Node>),
    Compare(Compare, Box<Node>, Box<Node>),
    /// `x op ANY (select)`, `x op ALL (select)`.
    Quantified {
        op: Compare,
        all: bool,
        left: Box<Node>,
        query: Box<Query>,
    },
    Between {
        expr: Box<Node>,
        low: Box<Node>,
        high: Box<Node>,
        negated: bool,
    },
    InList {
        expr: Box<Node>,
        items: Vec<Node>,
        negated: bool,
    },
    InSelect {
        expr: Box<Node>,
        query: Box<Query>,
        negated: bool,
    },
    IsNull {
        expr: Box<Node>,
        negated: bool,
    },
    IsTruth {
        expr: Box<Node>,
        value: bool,
        negated: bool,
    },
    Match {
        kind: Match,
        expr: Box<Node>,
        pattern: Box<Node>,
        escape: Option<Box<Node>>,
        negated: bool,
    },
    Case {
        operand: Option<Box<Node>>,
        branches: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    Cast(Box<Node>, TypeName),
    /// MySQL `BINARY x`.
    Binarily(Box<Node>),
    Collate(Box<Node>, Ident),
    /// `x + INTERVAL n unit`.
    DateAdd {
        expr: Box<Node>,
        amount: Box<Node>,
        unit: IntervalUnit,
        subtract: bool,
    },
    /// `TIMESTAMPDIFF(unit, a, b)`.
    TimestampDiff(IntervalUnit, Box<Node>, Box<Node>),
    Call(Box<Call>),
    Row(Vec<Node>),
    Subquery(Box<Query>),
    Exists(Box<Query>),
}

/// A call of a function, aggregate or window function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: Ident,
    pub(crate) args: Vec<Node>,
    /// `COUNT(*)`.
    pub(crate) star: bool,
    pub(crate) distinct: bool,
    /// `GROUP_CONCAT(.. ORDER BY ..)`.
    pub(crate) order: Vec<Order>,
    /// `GROUP_CONCAT(.. SEPARATOR '..')`.
    pub(crate) separator: Option<String>,
    pub(crate) filter: Option<Node>,
    pub(crate) over: Option<Over>,
}

/// `OVER (PARTITION BY .. ORDER BY ..)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Over {
    pub(crate) partition: Vec<Node>,
    pub(crate) order: Vec<Order>,
}

/// One key of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) expr: Node,
    pub(crate) descending: bool,
    /// `NULLS FIRST` is true.
    pub(crate) nulls_first: Option<bool>,
}

/// A type as written: its words, numbers in parentheses, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeName {
    /// In capitals for MySQL; as written for SQLite.
    pub(crate) name: String,
    pub(crate) numbers: Vec<u32>,
    pub(crate) labels: Vec<String>,
    pub(crate) unsigned: bool,
    /// The character set, and the name of its usual collation (MySQL).
    pub(crate) charset: Option<(Ident, Ident)>,
    pub(crate) at: usize,
}

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) with: Vec<Cte>,
    pub(crate) recursive: bool,
    pub(crate) body: Body,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<Node>,
    pub(crate) offset: Option<Node>,
    pub(crate) locks: Vec<Locking>,
    /// `INTO @a, @b` (MySQL); empty without it. Only of a whole statement.
    pub(crate) into: Vec<String>,
    pub(crate) at: usize,
    /// The byte after its end.
    pub(crate) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Node>>),
    Set {
        op: SetOp,
        all: bool,
        left: Box<Body>,
        right: Box<Body>,
    },
    /// In parentheses, with its own order and limit.
    Query(Box<Query>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cte {
    pub(crate) name: Ident,
    pub(crate) columns: Vec<Ident>,
    pub(crate) query: Query,
}

/// `FOR UPDATE OF t SKIP LOCKED` and the like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Locking {
    pub(crate) clause: LockClause,
    pub(crate) of: Vec<Ident>,
    pub(crate) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) from: Vec<TableRef>,
    pub(crate) filter: Option<Node>,
    pub(crate) group: Vec<Node>,
    pub(crate) having: Option<Node>,
    pub(crate) at: usize,
}

/// One item of a select list or of `RETURNING`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// `*` or `t.*`.
    Star(Option<Ident>, usize),
    /// An expression with its alias.
    Expr(Node, Option<Ident>),
}

/// What stands in `FROM`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TableRef {
    Table {
        name: TableName,
        alias: Option<Ident>,
        hints: Vec<Hint>,
    },
    Derived {
        query: Box<Query>,
        alias: Option<Ident>,
        columns: Vec<Ident>,
        lateral: bool,
        at: usize,
    },
    Join {
        kind: JoinKind,
        left: Box<TableRef>,
        right: Box<TableRef>,
        on: Option<Node>,
        using: Vec<Ident>,
        at: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Straight,
    Left,
    Right,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hint {
    pub(crate) kind: HintKind,
    pub(crate) names: Vec<Ident>,
    /// `NOT INDEXED`.
    pub(crate) all: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub(crate) with: Vec<Cte>,
    pub(crate) recursive: bool,
    pub(crate) or: Option<ConflictAction>,
    pub(crate) table: TableName,
    pub(crate) alias: Option<Ident>,
    pub(crate) columns: Vec<Ident>,
    pub(crate) source: InsertSource,
    /// `AS new` of MySQL.
    pub(crate) new_alias: Option<(Ident, Vec<Ident>)>,
    pub(crate) upserts: Vec<Upsert>,
    pub(crate) returning: Option<Vec<Item>>,
    /// `REPLACE` was written, not `INSERT OR REPLACE`.
    pub(crate) is_replace: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InsertSource {
    Values(Vec<Vec<Node>>),
    Set(Vec<(Ident, Node)>),
    Query(Box<Query>),
    Defaults,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Upsert {
    /// The columns or expressions of `ON CONFLICT (..)`; `None` for any.
    pub(crate) target: Option<Vec<Node>>,
    /// The `WHERE` of the target.
    pub(crate) target_filter: Option<Node>,
    /// `None` is `DO NOTHING`.
    pub(crate) set: Option<Vec<Assignment>>,
    pub(crate) filter: Option<Node>,
    pub(crate) at: usize,
}

/// `a = x`, `t.a = x`, `(a, b) = (x, y)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) columns: Vec<Vec<Ident>>,
    pub(crate) value: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Update {
    pub(crate) with: Vec<Cte>,
    pub(crate) recursive: bool,
    pub(crate) or: Option<ConflictAction>,
    /// The target; several tables or joins on MySQL.
    pub(crate) tables: Vec<TableRef>,
    pub(crate) set: Vec<Assignment>,
    /// `FROM` of SQLite.
    pub(crate) from: Vec<TableRef>,
    pub(crate) filter: Option<Node>,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<Node>,
    pub(crate) returning: Option<Vec<Item>>,
    pub(crate) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delete {
    pub(crate) with: Vec<Cte>,
    pub(crate) recursive: bool,
    pub(crate) ignore: bool,
    /// `DELETE a, b FROM ..`, `DELETE FROM a, b USING ..`: empty for a single-table delete.
    pub(crate) targets: Vec<TableName>,
    pub(crate) from: Vec<TableRef>,
    pub(crate) filter: Option<Node>,
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<Node>,
    pub(crate) returning: Option<Vec<Item>>,
    pub(crate) at: usize,
}

/// A column of `CREATE TABLE` or `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnDef {
    pub(crate) name: Ident,
    pub(crate) ty: Option<TypeName>,
    pub(crate) options: Vec<ColumnOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnOption {
    Null,
    NotNull(ConflictAction),
    PrimaryKey {
        descending: bool,
        on_conflict: ConflictAction,
        autoincrement: bool,
        name: Option<Ident>,
    },
    Unique(ConflictAction, Option<Ident>),
    AutoIncrement,
    Default(Node),
    OnUpdate(Node),
    Collate(Ident),
    Check(Option<Ident>, Node),
    References(Box<Reference2>),
    Comment,
    Generated {
        expr: Node,
        stored: bool,
    },
    /// `KEY` of MySQL: an index on the column.
    Key,
}

/// `REFERENCES parent (..) ON ..`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reference2 {
    pub(crate) parent: TableName,
    pub(crate) columns: Vec<Ident>,
    pub(crate) on_delete: Reference,
    pub(crate) on_update: Reference,
    pub(crate) deferred: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constraint {
    PrimaryKey(IndexDef),
    Unique(IndexDef),
    Key(IndexDef),
    ForeignKey {
        name: Option<Ident>,
        columns: Vec<Ident>,
        references: Box<Reference2>,
    },
    Check(Option<Ident>, Node),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexDef {
    pub(crate) name: Option<Ident>,
    pub(crate) keys: Vec<IndexedColumn>,
    pub(crate) on_conflict: ConflictAction,
    pub(crate) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexedColumn {
    pub(crate) expr: Node,
    pub(crate) collation: Option<Ident>,
    pub(crate) descending: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTable {
    pub(crate) name: TableName,
    pub(crate) temporary: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDef>,
    pub(crate) constraints: Vec<Constraint>,
    pub(crate) without_rowid: bool,
    pub(crate) strict: bool,
    pub(crate) like: Option<TableName>,
    pub(crate) query: Option<Box<Query>>,
    /// `COLLATE` or `CHARSET` of the table (MySQL).
    pub(crate) collation: Option<Ident>,
    /// The character set that was named.
    pub(crate) charset: Option<Ident>,
    pub(crate) auto_increment: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateIndex {
    pub(crate) name: Ident,
    pub(crate) unique: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) table: TableName,
    pub(crate) keys: Vec<IndexedColumn>,
    pub(crate) filter: Option<Node>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterAction {
    AddColumn {
        column: ColumnDef,
        /// `FIRST` is `Some(None)`.
        after: Option<Option<Ident>>,
    },
    DropColumn(Ident),
    ModifyColumn(Ident, ColumnDef),
    RenameColumn(Ident, Ident),
    SetDefault(Ident, Option<Node>),
    AddConstraint(Constraint),
    DropIndex(Ident),
    DropPrimaryKey,
    DropForeignKey(Ident),
    RenameTo(TableName),
    Option(String, String),
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    CreateTable(Box<CreateTable>),
    CreateIndex(Box<CreateIndex>),
    CreateView {
        name: TableName,
        columns: Vec<Ident>,
        query: Box<Query>,
        if_not_exists: bool,
        /// `ALTER VIEW`: it is there, and gets a new definition.
        replaces: bool,
    },
    DropTable {
        names: Vec<TableName>,
        if_exists: bool,
        temporary: bool,
    },
    DropIndex {
        name: Ident,
        table: Option<TableName>,
        if_exists: bool,
    },
    DropView {
        name: TableName,
        if_exists: bool,
    },
    AlterTable {
        name: TableName,
        actions: Vec<AlterAction>,
    },
    Truncate(TableName),
    Rename(Vec<(TableName, TableName)>),
    Control(Control),
}

/// What `SHOW` shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Show {
    Variables {
        global: bool,
        like: Option<String>,
    },
    Warnings {
        errors_only: bool,
        /// `SHOW COUNT(*) WARNINGS`.
        count: bool,
    },
    CreateTable(TableName),
    /// `SHOW COLUMNS FROM t`, `DESCRIBE t`.
    Columns(TableName),
    Processlist,
    Tables(Option<String>),
    Databases(Option<String>),
}

/// How a transaction of SQLite begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum BeginKind {
    #[default]
    Deferred,
    Immediate,
    Exclusive,
}

/// Statements about the session and its transaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Control {
    /// `BEGIN`; the kind is always deferred on MySQL.
    Begin(BeginKind),
    /// `START TRANSACTION` (MySQL).
    StartTransaction {
        snapshot: bool,
        read_only: Option<bool>,
    },
    /// `None` where it is not said (`completion_type` of MySQL decides).
    Commit {
        chain: Option<bool>,
        release: Option<bool>,
    },
    Rollback {
        chain: Option<bool>,
        release: Option<bool>,
    },
    Savepoint(Ident),
    RollbackTo(Ident),
    Release(Ident),
    /// `SET [SESSION | GLOBAL] TRANSACTION ..`.
    SetTransaction {
        scope: Scope,
        isolation: Option<rowlock_model::Isolation>,
        read_only: Option<bool>,
    },
    /// `SET a = 1, @b = 2`.
    Set(Vec<SetItem>),
    LockTables(Vec<TableLock>),
    UnlockTables,
    Pragma {
        schema: Option<Ident>,
        name: Ident,
        /// As written: a word, a number, a text.
        value: Option<String>,
    },
    Kill {
        query_only: bool,
        id: Node,
    },
    Use(Ident),
    /// `SHOW ..`, `DESCRIBE t`.
    Show(Show),
    Do(Vec<Node>),
    Explain(Box<Statement>),
    Analyze(Vec<TableName>),
    /// `FLUSH ..`: its words in capitals.
    Flush(Vec<String>, usize),
}

/// Whom a `SET` is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only the next transaction (`SET TRANSACTION`).
    Next,
    Session,
    Global,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetItem {
    System {
        scope: Scope,
        name: Ident,
        value: Node,
    },
    User {
        name: String,
        value: Node,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableLock {
    pub(crate) name: TableName,
    pub(crate) alias: Option<Ident>,
    pub(crate) write: bool,
}
