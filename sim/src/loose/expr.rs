//! Compiled expressions. Names are resolved, and how values are compared and computed with is decided:
//! an expression only says what to do. [`super::eval`] evaluates them.

use std::sync::Arc;

use rowlock_model::Value;

use super::query::{SortKey, SubPlan};
use super::types::{Affinity, Collation, DeclaredType};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant.
    Const(Value),
    /// A `?`, numbered from 0.
    Param(usize),
    /// A column of a range-table entry. An entry that an outer join left out reads as NULL.
    Column {
        /// Levels outwards: 0 is the level that the expression belongs to.
        level: u32,
        /// The range-table entry at that level.
        entry: u32,
        /// The column.
        column: u32,
    },
    /// The rowid of an entry (SQLite).
    Rowid {
        /// Levels outwards.
        level: u32,
        /// The range-table entry.
        entry: u32,
    },
    /// A grouping key or aggregate of a level.
    Group {
        /// Levels outwards.
        level: u32,
        /// Keys first, then aggregates.
        index: u32,
    },
    /// The value of a window function of this level.
    Window(u32),
    /// Three-valued AND; stops at the first false.
    And(Vec<Expr>),
    /// Three-valued OR; stops at the first true.
    Or(Vec<Expr>),
    /// `XOR` (MySQL).
    Xor(Box<(Expr, Expr)>),
    /// Three-valued NOT.
    Not(Box<Expr>),
    /// A comparison.
    Compare {
        /// The operator.
        op: Compare,
        /// How the values are compared.
        by: Comparison,
        /// Left and right.
        sides: Box<(Expr, Expr)>,
    },
    /// `(a, b) op (c, d)`, lexicographic.
    CompareRows {
        /// The operator.
        op: Compare,
        /// The fields, left and right, and how each pair is compared.
        fields: Vec<(Expr, Expr, Comparison)>,
    },
    /// `x [NOT] BETWEEN low AND high`; `x` is evaluated once.
    Between {
        /// The operand, the lower and the upper bound.
        parts: Box<(Expr, Expr, Expr)>,
        /// How it is compared with each bound.
        by: (Comparison, Comparison),
        /// `NOT`.
        negated: bool,
    },
    /// `x [NOT] IN (a, b)`.
    InList {
        /// The operand.
        expr: Box<Expr>,
        /// The items, and how each is compared.
        items: Vec<(Expr, Comparison)>,
        /// `NOT`.
        negated: bool,
    },
    /// `(a, b) [NOT] IN ((c, d), (e, f))`.
    InRowList {
        /// The operand's fields.
        left: Vec<Expr>,
        /// The items; each field with how it is compared.
        items: Vec<Vec<(Expr, Comparison)>>,
        /// `NOT`.
        negated: bool,
    },
    /// `(a, b) op ANY (SELECT ..)`, `op ALL`, `[NOT] IN (SELECT ..)`.
    AnyOfRows {
        /// The operator.
        op: Compare,
        /// `ALL`.
        all: bool,
        /// The fields of the left side, and how each is compared.
        left: Vec<(Expr, Comparison)>,
        /// The sub-select ([`super::query::Wanted::Rows`]).
        plan: Box<SubPlan>,
    },
    /// `IS [NOT] NULL`.
    IsNull {
        /// The operand.
        expr: Box<Expr>,
        /// `NOT`.
        negated: bool,
    },
    /// `IS [NOT] TRUE`, `IS [NOT] FALSE`.
    IsTruth {
        /// The operand.
        expr: Box<Expr>,
        /// Which truth value.
        value: bool,
        /// `NOT`.
        negated: bool,
    },
    /// `LIKE`, `GLOB`, `REGEXP`.
    Match {
        /// Which.
        kind: Match,
        /// The text, the pattern, the escape character.
        parts: Box<(Expr, Expr, Option<Expr>)>,
        /// Whether case counts, and accents.
        collation: Collation,
        /// `NOT`.
        negated: bool,
    },
    /// `CASE`; a simple case has its operand compared in each condition.
    Case {
        /// Conditions and results.
        branches: Vec<(Expr, Expr)>,
        /// `ELSE`.
        otherwise: Box<Expr>,
    },
    /// `-x`, `~x`.
    Unary {
        /// The operator.
        op: Unary,
        /// In which numbers.
        numbers: Numbers,
        /// The operand.
        expr: Box<Expr>,
    },
    /// `a + b` and the like.
    Binary {
        /// The operator.
        op: Binary,
        /// In which numbers.
        numbers: Numbers,
        /// Left and right.
        sides: Box<(Expr, Expr)>,
    },
    /// `date + INTERVAL n unit` (MySQL).
    DateAdd {
        /// The date and the amount.
        sides: Box<(Expr, Expr)>,
        /// The unit of the amount.
        unit: IntervalUnit,
        /// `-`.
        subtract: bool,
    },
    /// A conversion.
    Cast {
        /// The operand.
        expr: Box<Expr>,
        /// The target type.
        to: CastTarget,
    },
    /// A pure function.
    Call {
        /// Which.
        function: super::function::Function,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A function that depends on or changes the state of the server or session.
    Host {
        /// Which.
        function: HostFunction,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// `@name`, or `@name := value`.
    UserVariable {
        /// Its name, lower case.
        name: Arc<str>,
        /// What is assigned.
        assign: Option<Box<Expr>>,
    },
    /// `@@name`, `@@session.name`, `@@global.name`.
    SystemVariable {
        /// Its name, lower case.
        name: Arc<str>,
        /// `@@global.`.
        global: bool,
    },
    /// A scalar sub-select.
    Subquery(Box<SubPlan>),
    /// `EXISTS`.
    Exists(Box<SubPlan>),
    /// `RAISE(..)` and `DEFAULT` have no value.
    Default,
}

/// The comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `=`.
    Eq,
    /// `<>`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
    /// `<=>` of MySQL, `IS` of SQLite: NULLs are equal; never NULL itself.
    Is,
    /// `IS NOT` of SQLite.
    IsNot,
}

/// How two values are compared; decided from the types of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// SQLite: affinities are applied, then NULL < numbers < text < blob ("Datatypes", section 4).
    Classes {
        /// Applied to the left side.
        left: Option<Affinity>,
        /// Applied to the right side.
        right: Option<Affinity>,
        /// For two texts.
        collation: Collation,
    },
    /// MySQL: as exact numbers.
    Exact,
    /// MySQL: as floating-point numbers.
    Double,
    /// MySQL: as texts.
    Text(Collation),
    /// MySQL: as points in time.
    DateTime,
    /// MySQL: as times of day.
    Time,
    /// MySQL: as JSON.
    Json,
}

/// What is matched with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// `LIKE`.
    Like,
    /// `GLOB` (SQLite).
    Glob,
    /// `REGEXP`, `RLIKE` (MySQL).
    Regexp,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-`.
    Negate,
    /// `~`.
    BitNot,
    /// `+` of SQLite: the value as it is, but no column any more.
    Plus,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
    /// `DIV` (MySQL).
    IntDivide,
    /// `%`, `MOD`.
    Modulo,
    /// `&`.
    BitAnd,
    /// `|`.
    BitOr,
    /// `^` (MySQL).
    BitXor,
    /// `<<`.
    ShiftLeft,
    /// `>>`.
    ShiftRight,
    /// `||` of SQLite.
    Concat,
}

/// In which numbers an operator computes; decided from the types of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numbers {
    /// SQLite: by the storage classes of the values; integers overflow into floating point.
    Dynamic,
    /// MySQL: `BIGINT`; overflow is error 1690.
    Int,
    /// MySQL: `BIGINT UNSIGNED`; overflow is error 1690.
    Unsigned,
    /// MySQL: exact decimals.
    Decimal {
        /// Digits after the point of the result.
        scale: u8,
    },
    /// MySQL: `DOUBLE`.
    Double,
}

/// The units of `INTERVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntervalUnit {
    /// `MICROSECOND`.
    Microsecond,
    /// `SECOND`; fractions count.
    Second,
    /// `MINUTE`.
    Minute,
    /// `HOUR`.
    Hour,
    /// `DAY`.
    Day,
    /// `WEEK`.
    Week,
    /// `MONTH`.
    Month,
    /// `QUARTER`.
    Quarter,
    /// `YEAR`.
    Year,
}

impl IntervalUnit {
    /// A date plus such an amount is a date.
    pub fn is_whole_days(self) -> bool {
        matches!(
            self,
            IntervalUnit::Day
                | IntervalUnit::Week
                | IntervalUnit::Month
                | IntervalUnit::Quarter
                | IntervalUnit::Year
        )
    }
}

/// What a value is converted to.
#[derive(Clone, Debug, PartialEq)]
pub enum CastTarget {
    /// SQLite: `CAST(x AS type)` by the affinity of the type.
    Affinity(Affinity),
    /// MySQL: `CAST(x AS SIGNED)`.
    Signed,
    /// MySQL: `CAST(x AS UNSIGNED)`.
    Unsigned,
    /// MySQL: to a declared type (`CHAR`, `DECIMAL`, `DATETIME`, ...).
    Declared(DeclaredType),
}

/// Functions whose value is the engine's matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostFunction {
    /// `NOW(fsp)`, `CURRENT_TIMESTAMP`: when the statement began (MySQL). Argument: fsp.
    Now,
    /// `SYSDATE(fsp)`: the clock.
    Sysdate,
    /// `CURDATE()`, `CURRENT_DATE`.
    CurrentDate,
    /// `CURTIME(fsp)`, `CURRENT_TIME`.
    CurrentTime,
    /// `UTC_TIMESTAMP(fsp)`.
    UtcTimestamp,
    /// `UNIX_TIMESTAMP()` without argument.
    UnixTimestamp,
    /// The clock of the statement as a Julian day number times 86 400 000 (SQLite's `'now'`).
    JulianNow,
    /// `LAST_INSERT_ID()`, `LAST_INSERT_ID(expr)`, `last_insert_rowid()`.
    LastInsertId,
    /// `ROW_COUNT()`, SQLite `changes()`.
    RowCount,
    /// SQLite `total_changes()`.
    TotalChanges,
    /// `CONNECTION_ID()`.
    ConnectionId,
    /// `DATABASE()`, `SCHEMA()`.
    Database,
    /// `USER()`, `CURRENT_USER()`.
    User,
    /// `VERSION()`, `sqlite_version()`.
    Version,
    /// `UUID()`.
    Uuid,
    /// `RAND()`, `RAND(seed)`, SQLite `random()`.
    Random,
    /// `GET_LOCK(name, timeout)`.
    GetLock,
    /// `RELEASE_LOCK(name)`.
    ReleaseLock,
    /// `RELEASE_ALL_LOCKS()`.
    ReleaseAllLocks,
    /// `IS_FREE_LOCK(name)`.
    IsFreeLock,
    /// `IS_USED_LOCK(name)`.
    IsUsedLock,
    /// `SLEEP(seconds)`.
    Sleep,
    /// `FOUND_ROWS()`.
    FoundRows,
}

/// An aggregate function over the rows of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Which.
    pub kind: AggregateKind,
    /// Its arguments; empty for `COUNT(*)`.
    pub args: Vec<Expr>,
    /// `DISTINCT`.
    pub distinct: bool,
    /// How arguments are compared (`MIN`, `MAX`, `DISTINCT`).
    pub by: Comparison,
    /// In which numbers `SUM` and `AVG` compute.
    pub numbers: Numbers,
    /// `ORDER BY` inside the call (`GROUP_CONCAT`).
    pub order: Vec<SortKey>,
    /// `FILTER (WHERE ..)`.
    pub filter: Option<Expr>,
}

/// The aggregate functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateKind {
    /// `COUNT`.
    Count,
    /// `SUM`.
    Sum,
    /// `TOTAL` (SQLite): a floating-point sum that is never NULL.
    Total,
    /// `AVG`.
    Avg,
    /// `MIN`.
    Min,
    /// `MAX`.
    Max,
    /// `GROUP_CONCAT`.
    GroupConcat,
    /// `ANY_VALUE`, and a bare column beside aggregates: of the first row.
    First,
}

/// A window function.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Which.
    pub kind: WindowKind,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// `PARTITION BY`.
    pub partition: Vec<(Expr, Comparison)>,
    /// `ORDER BY`.
    pub order: Vec<SortKey>,
}

/// The window functions.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowKind {
    /// `ROW_NUMBER()`.
    RowNumber,
    /// `RANK()`.
    Rank,
    /// `DENSE_RANK()`.
    DenseRank,
    /// `LAG(x, n, default)`.
    Lag,
    /// `LEAD(x, n, default)`.
    Lead,
    /// `FIRST_VALUE(x)`.
    FirstValue,
    /// An aggregate over the frame from the start of the partition to the last peer of the row; the
    /// whole partition if there is no order.
    Aggregate(Box<Aggregate>),
}
