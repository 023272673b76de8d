//! Queries: `SELECT`, `VALUES`, set operations, and what stands in `FROM`.

use std::sync::Arc;

use rowlock_model::Dialect;

use super::catalog::{Table, VirtualTable};
use super::expr::{Aggregate, Comparison, Expr, Window};
use super::types::{Affinity, Collation, DeclaredType};

/// A common table expression or materialised derived table, by its number in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CteId(pub u32);

/// A sub-select by its number in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubPlanId(pub u32);

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Its name as the server gives it.
    pub name: Arc<str>,
    /// What is known of its values.
    pub ty: Ty,
}

/// What is known of the values of an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Ty {
    /// The family of its values.
    pub kind: Kind,
    /// SQLite: the affinity that a comparison sees; `None` for an expression without one.
    pub affinity: Option<Affinity>,
    /// How its texts are compared.
    pub collation: Collation,
    /// How strongly it insists on the collation: 0 is `COLLATE`, 2 a column, 4 a literal (MySQL
    /// manual, "Collation Coercibility in Expressions").
    pub coercibility: u8,
    /// The type of the column that it is, if it is one.
    pub declared: Option<DeclaredType>,
    /// How wide its values are (MySQL).
    pub width: Width,
}

/// How wide the values of an expression are: decides which of the integer or text types a client is
/// told (MySQL, MariaDB).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Width {
    /// Bytes of a number as stored: 1 (`TINYINT`) to 8 (`BIGINT`), 4 for `FLOAT`.
    pub bytes: u8,
    /// Digits of a number, its precision.
    pub digits: u32,
    /// Characters that a value has when it is printed, with its sign; of a text, at most.
    pub chars: u32,
}

impl Ty {
    /// The type as MySQL and MariaDB describe it to a client, without lengths.
    pub fn name(&self, dialect: Dialect) -> String {
        if let Some(declared) = &self.declared {
            return declared.name();
        }
        let unsigned = if self.kind == Kind::Unsigned {
            " unsigned"
        } else {
            ""
        };
        let name = match self.kind {
            Kind::Null => "null",
            Kind::Int | Kind::Unsigned => match self.width.bytes {
                1 => "tinyint",
                2 => "smallint",
                3 => "mediumint",
                4 => "int",
                _ => "bigint",
            },
            Kind::Decimal(_) => "decimal",
            Kind::Double if self.width.bytes == 4 => "float",
            Kind::Double => "double",
            Kind::Text | Kind::Any => sized(
                self.width.chars,
                ["varchar", "text", "mediumtext", "longtext"],
            ),
            Kind::Bytes => sized(
                self.width.chars,
                ["varbinary", "blob", "mediumblob", "longblob"],
            ),
            Kind::Date => "date",
            Kind::Time(_) => "time",
            Kind::DateTime(_) => "datetime",
            Kind::Json if dialect == Dialect::MariaDb => "longtext",
            Kind::Json => "json",
        };
        format!("{name}{unsigned}")
    }
}

/// One of four names, by how many bytes a text of so many characters takes.
fn sized(chars: u32, names: [&'static str; 4]) -> &'static str {
    let place = match u64::from(chars) * 4 {
        0..=0xffff => 0,
        0x1_0000..=0xf_fffe => 1,
        0xf_ffff..=0xfff_ffff => 2,
        _ => 3,
    };
    names[place]
}

/// The families of values, as MySQL's rules need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only NULL.
    Null,
    /// Signed integers.
    Int,
    /// Unsigned integers.
    Unsigned,
    /// Exact decimals with so many digits after the point.
    Decimal(u8),
    /// Floating point.
    Double,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// `DATE`.
    Date,
    /// `TIME`, digits of the fraction.
    Time(u8),
    /// `DATETIME`, `TIMESTAMP`, digits of the fraction.
    DateTime(u8),
    /// `JSON`.
    Json,
    /// Any storage class (SQLite), or a parameter.
    Any,
}

/// A query. Opens one level: `level` in an expression counts levels outwards.
///
/// Order of evaluation: body (from, where, group, having, windows, targets, distinct), `sort`,
/// `offset`, `limit`. On InnoDB rows are locked while they are read, thus below sort and limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Common table expressions and derived tables that are computed once.
    pub with: Vec<Cte>,
    /// What yields rows.
    pub body: Body,
    /// The visible columns: a prefix of the body's targets.
    pub columns: Vec<OutputColumn>,
    /// `ORDER BY`.
    pub sort: Vec<SortKey>,
    /// `LIMIT`. No column references at level 0.
    pub limit: Option<Expr>,
    /// `OFFSET`.
    pub offset: Option<Expr>,
}

/// What yields the rows of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `SELECT`.
    Select(Box<Select>),
    /// `VALUES`; every row has as many expressions as there are columns.
    Values(Vec<Vec<Expr>>),
    /// `UNION`, `INTERSECT`, `EXCEPT`.
    Set {
        /// Which.
        op: SetOp,
        /// `ALL`.
        all: bool,
        /// How each column is compared.
        by: Vec<Comparison>,
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
    /// The visible columns, then those that only `ORDER BY` needs.
    pub targets: Vec<Expr>,
    /// `DISTINCT`: how each visible column is compared.
    pub distinct: Option<Vec<Comparison>>,
}

/// Where rows come from: the range table, how it is joined, and which rows pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// Everything that columns can come from, in order of appearance.
    pub range: Vec<RangeEntry>,
    /// The joins; `None` means one empty row (no `FROM`).
    pub from: Option<From>,
    /// The `WHERE` conjuncts, in the order written.
    pub filter: Vec<Conjunct>,
}

/// One entry of the range table.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeEntry {
    /// The name that qualifies its columns.
    pub alias: Arc<str>,
    /// What it is.
    pub kind: RangeKind,
    /// Its columns.
    pub columns: Vec<OutputColumn>,
    /// The locking clause that covers it.
    pub lock: Option<LockClause>,
    /// `FORCE INDEX`, `USE INDEX`, `IGNORE INDEX`, `INDEXED BY`, in the order written.
    pub hints: Vec<IndexHint>,
    /// What may become bounds of an index: conjuncts of `WHERE` and of inner joins' `ON`, and of the
    /// `ON` of an outer join whose inner side this is.
    pub conditions: Vec<KeyCondition>,
    /// The columns that the level reads from it (a bit a column; columns past 63 set bit 63), for
    /// the question whether an index covers it.
    pub used_columns: u64,
    /// Byte offset of the name in the text.
    pub position: usize,
}

/// What a range-table entry is.
#[derive(Clone, Debug, PartialEq)]
pub enum RangeKind {
    /// A stored table.
    Table(Arc<Table>),
    /// A view computed by the engine.
    Virtual(Arc<VirtualTable>),
    /// A derived table; run anew whenever it is read. It sees this level as level 1 if `LATERAL`.
    Subquery(Box<Query>),
    /// A materialised common table expression or derived table of this or an outer query.
    Cte(CteId),
}

/// How range-table entries are joined.
#[derive(Clone, Debug, PartialEq)]
pub enum From {
    /// One entry.
    Entry(usize),
    /// A join. A comma in `FROM` is an [`Join::Inner`] without `on`.
    Join {
        /// Which.
        kind: Join,
        /// The left side.
        left: Box<From>,
        /// The right side.
        right: Box<From>,
        /// The conjuncts of `ON` (`USING` is rewritten to them).
        on: Vec<Conjunct>,
    },
}

/// The joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `JOIN`, `CROSS JOIN`, comma.
    Inner,
    /// `STRAIGHT_JOIN` (MySQL), `CROSS JOIN` (SQLite): inner, the left side is read first.
    Straight,
    /// `LEFT JOIN`: right entries without a match are absent (all NULL). `RIGHT JOIN` is this with
    /// its sides swapped.
    Left,
}

/// One conjunct of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Conjunct {
    /// A condition.
    pub expr: Expr,
    /// The range-table entries of this level that it reads, as a bit set (bit i = entry i).
    pub uses: u64,
    /// It has a sub-select or depends on an outer level.
    pub has_subselect: bool,
}

/// `column op operand`: what an index can use.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCondition {
    /// The column; `None` is the rowid of SQLite or an indexed expression ([`KeyCondition::expr`]).
    pub column: Option<usize>,
    /// The left side, to find an index on an expression.
    pub expr: Expr,
    /// How it is compared.
    pub op: KeyOp,
    /// What with: one operand, for [`KeyOp::In`] one or more. They read constants, parameters,
    /// outer levels, and entries of this level (in `uses`) that must be bound before.
    pub operands: Vec<Expr>,
    /// For `op = In` over a sub-select: it, instead of operands.
    pub subselect: Option<Box<SubPlan>>,
    /// How the two are compared; an index helps only if its order is the same.
    pub by: Comparison,
    /// The entries of this level that the operands read, as a bit set.
    pub uses: u64,
    /// The operands can be evaluated before anything is read: no sub-select, no entry, no outer
    /// level.
    pub constant: bool,
    /// Which conjunct it stems from: its place in [`Source::filter`], or `None` for one of `ON`.
    pub conjunct: Option<usize>,
    /// For `op = Or`: the arms, each some comparisons that all hold, with the numbers of their operands.
    pub arms: Vec<Vec<(KeyOp, usize)>>,
}

/// How an index key is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyOp {
    /// `=`.
    Eq,
    /// `<=>`, `IS`.
    Is,
    /// `IS NULL`; no operand.
    IsNull,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
    /// `IN`.
    In,
    /// `<>`.
    Ne,
    /// `IS NOT NULL`; no operand.
    IsNotNull,
    /// Comparisons of one column, joined by `OR`: see [`KeyCondition::arms`].
    Or,
    /// `LIKE 'prefix%'`; the operand is the pattern.
    Like,
}

/// `GROUP BY` and aggregates. Afterwards `Expr::Group(i)` reads the i-th of: keys, then aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// The keys, evaluated on each source row, and how each is compared.
    pub keys: Vec<(Expr, Comparison)>,
    /// The aggregates.
    pub aggregates: Vec<Aggregate>,
    /// `HAVING`, over the group.
    pub having: Option<Expr>,
    /// `GROUP BY` was written: no rows make no group.
    pub explicit: bool,
    /// Which row of a group gives the values of columns that are neither keys nor aggregated
    /// ([`super::expr::AggregateKind::First`]).
    pub representative: Representative,
}

/// Which row of a group stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representative {
    /// The first (MySQL, MariaDB).
    First,
    /// The last (SQLite).
    Last,
    /// The one that holds the value of this aggregate, a `MIN` or `MAX` (SQLite).
    Extreme(usize),
}

/// One key of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// What is sorted by: a position in the targets for a query, else an expression.
    pub by: SortBy,
    /// How its values are compared.
    pub comparison: Comparison,
    /// `DESC`.
    pub descending: bool,
    /// NULLs come last in an ascending order (SQLite `NULLS LAST`), first in a descending one.
    pub nulls_flipped: bool,
}

/// What a sort key looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum SortBy {
    /// A target of the select, or a column of `VALUES` and set operations.
    Target(usize),
    /// An expression at the level of the rows (inside aggregates and windows, `UPDATE`, `DELETE`).
    Expr(Expr),
}

/// How strongly rows are locked by a locking read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strength {
    /// `FOR SHARE`, `LOCK IN SHARE MODE`.
    Share,
    /// `FOR UPDATE`.
    Update,
}

/// What to do when a row cannot be locked at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnBusy {
    /// Wait, at most for `innodb_lock_wait_timeout`.
    #[default]
    Wait,
    /// `WAIT n` (MariaDB): seconds.
    WaitSeconds(u32),
    /// `NOWAIT`.
    Fail,
    /// `SKIP LOCKED`.
    Skip,
}

/// A locking clause as it applies to one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockClause {
    /// How strong.
    pub strength: Strength,
    /// If a row is busy.
    pub busy: OnBusy,
}

/// What a hint wants of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintKind {
    /// `USE INDEX`.
    Use,
    /// `FORCE INDEX`, SQLite `INDEXED BY` (an error if it cannot be used).
    Force,
    /// `IGNORE INDEX`; SQLite `NOT INDEXED` is this for every index.
    Ignore,
}

/// An index hint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexHint {
    /// What it wants.
    pub kind: HintKind,
    /// Positions in [`Table::indexes`].
    pub indexes: Vec<usize>,
}

/// A common table expression, or a derived table that is computed once: when it is first read.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// Its number in the statement.
    pub id: CteId,
    /// Its name.
    pub name: Arc<str>,
    /// What computes it.
    pub body: CteBody,
    /// Its columns.
    pub columns: Vec<OutputColumn>,
}

/// What computes a common table expression.
#[derive(Clone, Debug, PartialEq)]
pub enum CteBody {
    /// A query.
    Query(Box<Query>),
    /// `WITH RECURSIVE`: the rows of `first`, then of `next` as long as it yields any; inside
    /// `next`, the name reads the rows of the last round.
    Recursive {
        /// The arm that does not read itself.
        first: Box<Query>,
        /// The arm that does.
        next: Box<Query>,
        /// `UNION ALL`; otherwise rows seen before are dropped.
        all: bool,
        /// How each column is compared, if not `all`.
        by: Vec<Comparison>,
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
    /// Depends on no outer row: run at most once in a statement, when first needed.
    pub once: bool,
    /// Inside it, a table that is read is locked in shared mode by InnoDB, because the statement
    /// around it changes data (decided by the engine from level and flavour).
    pub in_write: bool,
}

/// What an expression wants of a sub-select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One value: NULL if there is no row. A second row is error 1242 on MySQL, ignored by SQLite.
    Scalar,
    /// Whether there is a row: stop at the first.
    Exists,
    /// All rows.
    Rows,
}
