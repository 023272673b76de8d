//! Queries: `SELECT`, `VALUES`, set operations, and what stands in `FROM`.

use std::sync::Arc;

use crate::plan::catalog::{Sequence, Table, VirtualTable};
use crate::plan::cost::Ways;
use crate::plan::expr::{Aggregate, Comparison, Expr, SetFunction, Window};
use crate::plan::routine::Routine;
use crate::plan::types::Type;
use crate::plan::write::Write;

/// A common table expression that is computed once, by its number in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CteId(pub u32);

/// A sub-select by its number in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubPlanId(pub u32);

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Its name as the server gives it (`?column?`, `count`, ...).
    pub name: Arc<str>,
    /// Its type.
    pub ty: Type,
}

/// A query. Opens one level.
///
/// Order of evaluation: `with` (lazily, see [`Cte`]), body (from, where, group, having, windows,
/// targets, distinct), `sort`, row locks, `offset`, `limit`. Row locking sits above the sort and
/// below the limit: rows are locked one by one until enough survived.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Common table expressions that are computed once. Inlined ones are sub-queries in `FROM`.
    pub with: Vec<Cte>,
    /// What yields rows.
    pub body: Body,
    /// The visible columns: a prefix of the body's targets.
    pub columns: Vec<OutputColumn>,
    /// `ORDER BY`, over the positions of the body's targets.
    pub sort: Vec<SortKey>,
    /// `LIMIT` (bigint; NULL is no limit). No column references at level 0.
    pub limit: Option<Expr>,
    /// `FETCH FIRST .. WITH TIES`.
    pub with_ties: bool,
    /// `OFFSET`.
    pub offset: Option<Expr>,
    /// Row locks; at most one entry for each range-table index (the strongest is taken already).
    pub locks: Vec<RowLock>,
}

/// What yields the rows of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `SELECT`.
    Select(Box<Select>),
    /// `VALUES`; every row has as many expressions as there are columns.
    Values(Vec<Vec<Expr>>),
    /// `UNION`, `INTERSECT`, `EXCEPT`. The arms' columns have the same types already.
    Set {
        /// Which.
        op: SetOp,
        /// `ALL`.
        all: bool,
        /// The left arm.
        left: Box<Query>,
        /// The right arm.
        right: Box<Query>,
    },
}

/// The set operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// `UNION`.
    Union,
    /// `INTERSECT`.
    Intersect,
    /// `EXCEPT`.
    Except,
}

/// A plain `SELECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `FROM` and `WHERE`.
    pub source: Source,
    /// `GROUP BY` / aggregates; `None` if neither is there.
    pub grouping: Option<Grouping>,
    /// Window functions, computed over the grouped rows; `Expr::Window(i)` reads the i-th.
    pub windows: Vec<Window>,
    /// The visible columns, then those that only `ORDER BY` or `DISTINCT ON` need.
    pub targets: Vec<Expr>,
    /// Types of `targets`.
    pub target_types: Vec<Type>,
    /// `DISTINCT`.
    pub distinct: Distinct,
}

/// Where rows come from: the range table, how it is joined, and which rows pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// Everything that columns can come from, in order of appearance. In `UPDATE` and `DELETE`
    /// index 0 is the target table.
    pub range: Vec<RangeEntry>,
    /// The joins; `None` means one empty row (no `FROM`).
    pub from: Option<From>,
    /// The `WHERE` conjuncts, in the order written.
    pub filter: Vec<Conjunct>,
    /// If one stored table is read: the ways to its rows, of which the cheapest is taken.
    pub ways: Option<Box<Ways>>,
    /// If one stored table is read, whose rows must be among those of a sub-select that locks rows: how the
    /// planner decides whether that is run again for each row.
    pub rerun: Option<Box<Rerun>>,
}

/// `column IN (SELECT .. FOR UPDATE)`: joined to what the sub-select gives once, or run again for each
/// row of the table that passes everything else. The planner does the latter where it expects one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Rerun {
    /// The condition, by its position in the filter.
    pub conjunct: usize,
    /// The ways to the rows that pass all other conditions.
    pub outer: Ways,
    /// The ways to the rows that have one value in the column.
    pub lookup: Ways,
    /// No two rows have the same value in the column.
    pub unique: bool,
}

/// One entry of the range table.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeEntry {
    /// The name that qualifies its columns.
    pub alias: Arc<str>,
    /// What it is.
    pub kind: RangeKind,
    /// Names and types of its columns (a table's dropped columns keep their position).
    pub columns: Vec<OutputColumn>,
    /// May refer to earlier entries of the same level: as level 0 in function arguments, as level 1
    /// inside a sub-query.
    pub lateral: bool,
    /// How the rows of a stored table are reached if nothing else of this level is bound yet: through
    /// an index only if constants, parameters and outer levels say so.
    pub access: Access,
    /// Every way through an index, best first, those included that need other entries of this level
    /// to be bound before ([`KeyCondition::uses`]).
    pub paths: Vec<Access>,
    /// `ONLY`: descendants of the table are left out.
    pub only: bool,
    /// If the table has descendants: the tables whose rows are read, itself included, in order.
    /// Their rows are bound with the columns of the table.
    pub members: Option<Vec<Member>>,
    /// Byte offset of the name in the text.
    pub position: usize,
}

/// One of the tables that are read for a table with descendants.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The table.
    pub table: Arc<Table>,
    /// Where each column of the entry is in it; `None` if all are in the same place.
    pub columns: Option<Arc<[usize]>>,
    /// It has rows of its own: it is not partitioned.
    pub stored: bool,
    /// As [`RangeEntry::access`].
    pub access: Access,
    /// As [`RangeEntry::paths`].
    pub paths: Vec<Access>,
}

/// What a range-table entry is.
#[derive(Clone, Debug, PartialEq)]
pub enum RangeKind {
    /// A stored table.
    Table(Arc<Table>),
    /// A view computed by the engine.
    Virtual(Arc<VirtualTable>),
    /// A sequence read as a table: `last_value int8, log_cnt int8, is_called bool`.
    Sequence(Arc<Sequence>),
    /// A sub-query; it sees this level's row (if `lateral`) as level 1.
    Subquery(Box<Query>),
    /// A set-returning or scalar function; arguments are evaluated at this level.
    Function {
        /// Which.
        function: SetFunction,
        /// Its arguments.
        args: Vec<Expr>,
        /// `WITH ORDINALITY`: one more column, counting from 1.
        ordinality: bool,
    },
    /// A set-returning function that a user has defined.
    Routine {
        /// Which.
        routine: Arc<Routine>,
        /// The types of its arguments in this call.
        types: Vec<Type>,
        /// Its arguments.
        args: Vec<Expr>,
        /// `WITH ORDINALITY`.
        ordinality: bool,
    },
    /// A materialised common table expression of this or an outer query.
    Cte(CteId),
}

/// How range-table entries are joined.
#[derive(Clone, Debug, PartialEq)]
pub enum From {
    /// One entry.
    Entry(usize),
    /// A join. A comma in `FROM` is a [`Join::Cross`].
    Join {
        /// Which.
        kind: Join,
        /// The left side.
        left: Box<From>,
        /// The right side.
        right: Box<From>,
        /// The conjuncts of `ON` (`USING` is rewritten to them); empty for a cross join.
        on: Vec<Conjunct>,
    },
}

/// The joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `CROSS JOIN`, comma.
    Cross,
    /// `JOIN`.
    Inner,
    /// `LEFT JOIN`: right entries without a match are absent (all NULL).
    Left,
    /// `RIGHT JOIN`.
    Right,
    /// `FULL JOIN`.
    Full,
}

/// One conjunct of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Conjunct {
    /// A boolean expression.
    pub expr: Expr,
    /// The range-table entries of this level that it reads, as a bit set (bit i = entry i).
    pub uses: u64,
    /// Contains a volatile function: must be evaluated once for each row, in its place.
    pub volatile: bool,
}

/// How the rows of a table are reached that is not read alone ([`Source::ways`]), by a rule for tables that
/// were never analysed: a condition on the leading column of a usable index means index access.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Access {
    /// All rows.
    #[default]
    Sequential,
    /// Through an index.
    Index {
        /// Its position in [`Table::indexes`].
        index: usize,
        /// Conditions on its leading columns, key order; they are also in the filter, which must
        /// still be checked.
        keys: Vec<KeyCondition>,
    },
}

/// `index key op operand`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCondition {
    /// The position of the key in the index.
    pub key: usize,
    /// How it is compared.
    pub op: KeyOp,
    /// What with: constants, parameters, outer levels, sub-selects, and entries of this level (in
    /// `uses`) that must be bound before.
    pub operand: Expr,
    /// The entries of this level that `operand` reads, as a bit set.
    pub uses: u64,
}

/// How an index key is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOp {
    /// `=`.
    Eq,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
    /// `= ANY (array)`; the operand is the array.
    Any,
    /// `IS NULL`; the operand is NULL.
    IsNull,
    /// `@>`: an array that has all elements of the operand.
    Contains,
}

/// `GROUP BY` and aggregates. Afterwards `Expr::Group(i)` reads the i-th of: keys, then aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// The keys, evaluated on each source row. Empty without `GROUP BY`: one group, even of no rows.
    pub keys: Vec<Expr>,
    /// The aggregates.
    pub aggregates: Vec<Aggregate>,
    /// `HAVING`, over the group.
    pub having: Option<Expr>,
    /// `GROUP BY` was written: no rows make no group.
    pub explicit: bool,
}

/// `DISTINCT`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Distinct {
    /// Not written.
    #[default]
    No,
    /// `DISTINCT` over the visible columns.
    All,
    /// `DISTINCT ON (..)`, positions of targets: the first row of each in sort order.
    On(Vec<usize>),
}

/// One key of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// The position in the targets (for `VALUES` and set operations: in the columns).
    pub target: usize,
    /// Its type.
    pub ty: Type,
    /// How its values are compared ([`crate::plan::expr::compare::sort_order`]).
    pub by: Comparison,
    /// `DESC`.
    pub descending: bool,
    /// NULLs come first.
    pub nulls_first: bool,
}

/// The four strengths of row locks, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strength {
    /// `FOR KEY SHARE`.
    KeyShare,
    /// `FOR SHARE`.
    Share,
    /// `FOR NO KEY UPDATE`.
    NoKeyUpdate,
    /// `FOR UPDATE`.
    Update,
}

/// What to do when a row cannot be locked at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnBusy {
    /// Wait.
    #[default]
    Wait,
    /// `SKIP LOCKED`.
    Skip,
    /// `NOWAIT`: error 55P03.
    Fail,
}

/// A row lock on one entry (a stored table) of the range table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLock {
    /// The entry.
    pub entry: usize,
    /// How strong.
    pub strength: Strength,
    /// If it is busy.
    pub busy: OnBusy,
}

/// A common table expression that is computed at most once in a statement: when it is first read,
/// row by row as the reader asks. Data-modifying ones always run to their end, before the statement ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// Its number in the statement.
    pub id: CteId,
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub body: CteBody,
    /// Its columns.
    pub columns: Vec<OutputColumn>,
}

/// What computes a common table expression.
#[derive(Clone, Debug, PartialEq)]
pub enum CteBody {
    /// A query.
    Query(Box<Query>),
    /// A data-modifying statement; its rows are those of `RETURNING`.
    Write(Box<Write>),
    /// `WITH RECURSIVE`: the rows of `first`, then of `next` as long as it yields any; inside
    /// `next`, the name reads the rows of the last round.
    Recursive {
        /// The non-recursive arm.
        first: Box<Query>,
        /// The recursive arm.
        next: Box<Query>,
        /// `UNION ALL`; otherwise rows seen before are dropped.
        all: bool,
    },
}

/// A sub-select inside an expression; its query sees the expression's level as level 1.
#[derive(Clone, Debug, PartialEq)]
pub struct SubPlan {
    /// Its number in the statement.
    pub id: SubPlanId,
    /// The query.
    pub query: Query,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// Does not depend on any outer row: run at most once in a statement, when first needed
    /// (PostgreSQL's InitPlan, or a hashed sub-plan).
    pub once: bool,
}

/// What an expression wants of a sub-select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One value: NULL if there is no row, error 21000 at the second row.
    Scalar,
    /// Whether there is a row: stop at the first.
    Exists,
    /// All rows (`IN`, `ANY`, `ALL`, `ARRAY(..)`).
    Rows,
    /// One row of several columns (`SET (a, b) = (SELECT ..)`): NULLs if there is none.
    Row,
}
