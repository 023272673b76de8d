//! Compiled expressions and the trait through which they reach the server.
//!
//! Names, types and operators are resolved: an expression only says what to compute. Evaluation
//! ([`eval`], [`test()`]) reads rows through a [`Scope`] and asks a [`Host`] for everything that is not
//! a pure function of them.

use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use crate::plan::catalog::EnumType;
use crate::plan::query::{SortKey, SubPlan};
use crate::plan::routine::Routine;
use crate::plan::types::{Modifier, Type};

pub mod aggregate;
pub mod compare;
mod eval;
mod format;
pub mod function;
pub mod hash;
pub mod json;
mod number;
mod pattern;
mod temporal;
mod text;

pub use aggregate::Accumulator;
pub use eval::{eval, test, too_many_rows};
pub use function::Function;

/// An expression. Its type is known to whoever compiled it and not stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant.
    Const(Value),
    /// `$1` is 0.
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
    /// A system column of a stored table's row.
    System {
        /// Levels outwards.
        level: u32,
        /// The range-table entry.
        entry: u32,
        /// Which.
        column: SystemColumn,
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
    /// Three-valued NOT.
    Not(Box<Expr>),
    /// A comparison of two values of one type.
    Compare {
        /// The operator.
        op: Compare,
        /// How values of the type are compared.
        by: Comparison,
        /// Left and right.
        sides: Box<(Expr, Expr)>,
    },
    /// `(a, b) op (c, d)`, lexicographic as the standard says.
    CompareRows {
        /// The operator.
        op: Compare,
        /// The fields, left and right, and how each pair is compared.
        fields: Vec<(Expr, Expr, Comparison)>,
    },
    /// `IS [NOT] DISTINCT FROM`.
    Distinct {
        /// `NOT` was *not* written: true if they differ.
        distinct: bool,
        /// How values of the type are compared.
        by: Comparison,
        /// Left and right.
        sides: Box<(Expr, Expr)>,
    },
    /// `IS [NOT] NULL`.
    IsNull {
        /// The operand.
        expr: Box<Expr>,
        /// `NOT`.
        negated: bool,
    },
    /// `IS [NOT] TRUE`, `FALSE`; `UNKNOWN` is [`Expr::IsNull`].
    IsBool {
        /// The operand.
        expr: Box<Expr>,
        /// Which truth value.
        value: bool,
        /// `NOT`.
        negated: bool,
    },
    /// `CASE`; a simple case is rewritten to comparisons of a shared operand by the compiler.
    Case {
        /// Conditions and results.
        branches: Vec<(Expr, Expr)>,
        /// `ELSE`.
        otherwise: Box<Expr>,
    },
    /// `COALESCE`.
    Coalesce(Vec<Expr>),
    /// `NULLIF`.
    NullIf {
        /// How the two are compared.
        by: Comparison,
        /// First and second.
        sides: Box<(Expr, Expr)>,
    },
    /// `GREATEST`, `LEAST`.
    Extreme {
        /// `GREATEST`.
        greatest: bool,
        /// How they are compared.
        by: Comparison,
        /// The operands.
        args: Vec<Expr>,
    },
    /// `x op ANY (array)`, `x op ALL (array)`, and `x IN (a, b)` as `= ANY` over [`Expr::Array`].
    AnyOfArray {
        /// The operator.
        op: Compare,
        /// `ALL`.
        all: bool,
        /// How elements are compared.
        by: Comparison,
        /// The value and the array.
        sides: Box<(Expr, Expr)>,
    },
    /// `(a, b) op ANY (SELECT ..)`, `op ALL`, `IN`.
    AnyOfRows {
        /// The operator.
        op: Compare,
        /// `ALL`.
        all: bool,
        /// The fields of the left side, and how each is compared.
        left: Vec<(Expr, Comparison)>,
        /// The sub-select ([`crate::plan::query::Wanted::Rows`]), its columns of the same types.
        plan: Box<SubPlan>,
    },
    /// A scalar sub-select.
    Subquery(Box<SubPlan>),
    /// `EXISTS`.
    Exists(Box<SubPlan>),
    /// `ARRAY(SELECT ..)`.
    ArraySubquery(Box<SubPlan>),
    /// `ARRAY[..]`.
    Array(Vec<Expr>),
    /// `ROW(..)` as a value: the text that the server prints.
    Record(Vec<(Expr, Type)>),
    /// A conversion.
    Cast {
        /// The operand.
        expr: Box<Expr>,
        /// Its type.
        from: Type,
        /// The target type.
        to: Type,
        /// The target's modifier.
        modifier: Option<Modifier>,
        /// Explicit casts cut over-long character values, implicit ones refuse (22001).
        explicit: bool,
        /// The target if it is an enumeration.
        labels: Option<Arc<EnumType>>,
    },
    /// A pure function or operator; NULL if an argument is, except where the function says otherwise.
    Call {
        /// Which.
        function: Function,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A function that a user has defined.
    Routine {
        /// Which.
        routine: Arc<Routine>,
        /// The types of its arguments in this call.
        types: Arc<[Type]>,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A function that depends on or changes the server's state.
    Host {
        /// Which.
        function: HostFunction,
        /// Its arguments.
        args: Vec<Expr>,
    },
}

/// The comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// How two values of one type are ordered.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// By the value itself (text by bytes: collation `C`).
    Plain,
    /// `character(n)`: trailing blanks do not count.
    Char,
    /// An enumeration: by the position of the label.
    Enum(Arc<EnumType>),
    /// `jsonb`: equality of the canonical text only.
    Jsonb,
}

/// The system columns that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemColumn {
    /// `ctid`, as text `(0,1)`.
    Ctid,
    /// `xmin`, as an integer.
    Xmin,
    /// `xmax`, as an integer.
    Xmax,
    /// `tableoid`, as an integer.
    TableOid,
}

/// An aggregate of a grouping level.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Which.
    pub function: AggregateFunction,
    /// The arguments, over a source row; empty for `count(*)`.
    pub args: Vec<Expr>,
    /// Types of the arguments.
    pub arg_types: Vec<Type>,
    /// `DISTINCT`.
    pub distinct: bool,
    /// `FILTER (WHERE ..)`.
    pub filter: Option<Expr>,
    /// `ORDER BY` inside the call: keys over `order`, which are evaluated on the source row.
    pub sort: Vec<SortKey>,
    /// The expressions that `sort` refers to by position.
    pub order: Vec<Expr>,
    /// The result's type.
    pub ty: Type,
    /// How values are compared (`min`, `max`, `DISTINCT`).
    pub by: Comparison,
}

/// The aggregates; accumulated by [`Accumulator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// `count(*)`.
    CountRows,
    /// `count(x)`.
    Count,
    /// `sum` of integers into `bigint`.
    SumInt,
    /// `sum` of `bigint` or `numeric` into `numeric`.
    SumNumeric,
    /// `sum` of floats.
    SumFloat,
    /// `sum` of intervals.
    SumInterval,
    /// `avg` into `numeric`.
    AvgNumeric,
    /// `avg` of floats.
    AvgFloat,
    /// `min`.
    Min,
    /// `max`.
    Max,
    /// `bool_and`, `every`.
    BoolAnd,
    /// `bool_or`.
    BoolOr,
    /// `string_agg`.
    StringAgg,
    /// `array_agg`.
    ArrayAgg,
    /// `json_agg` and (`binary`) `jsonb_agg` of already converted values.
    JsonAgg {
        /// `jsonb`.
        binary: bool,
        /// The values are rows, which `json_agg` puts on lines of their own.
        rows: bool,
    },
}

/// A window function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Which.
    pub function: WindowFunction,
    /// `PARTITION BY`.
    pub partition: Vec<(Expr, Comparison)>,
    /// `ORDER BY`: keys over `order` by position.
    pub sort: Vec<SortKey>,
    /// The expressions that `sort` refers to.
    pub order: Vec<Expr>,
}

/// The window functions.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowFunction {
    /// `row_number()`.
    RowNumber,
    /// `rank()`.
    Rank,
    /// `dense_rank()`.
    DenseRank,
    /// `percent_rank()`.
    PercentRank,
    /// `cume_dist()`.
    CumulativeShare,
    /// `ntile(n)`.
    Tile(Box<Expr>),
    /// `lead(value, offset, default)`, and `lag` with the sign turned.
    Shifted {
        /// `lag`: counted backwards.
        back: bool,
        /// The value.
        value: Box<Expr>,
        /// How many rows away.
        offset: Box<Expr>,
        /// What there is where no such row is.
        default: Box<Expr>,
    },
    /// `first_value(value)`: of the partition, where the default frame begins.
    FirstValue(Box<Expr>),
    /// `last_value(value)`: of the current row's last peer, where the default frame ends.
    LastValue(Box<Expr>),
    /// `nth_value(value, n)` within the default frame.
    NthValue(Box<Expr>, Box<Expr>),
    /// An aggregate over the whole partition (no `ORDER BY` in the window), or up to the current
    /// row's last peer (with `ORDER BY`).
    Aggregate(Box<Aggregate>),
}

impl WindowFunction {
    /// The expressions that it computes for rows, those of an aggregate left out.
    pub fn arguments(&self) -> Vec<&Expr> {
        match self {
            WindowFunction::Tile(e)
            | WindowFunction::FirstValue(e)
            | WindowFunction::LastValue(e) => vec![&**e],
            WindowFunction::NthValue(e, n) => vec![&**e, &**n],
            WindowFunction::Shifted {
                value,
                offset,
                default,
                ..
            } => vec![&**value, &**offset, &**default],
            _ => Vec::new(),
        }
    }

    /// As [`arguments`](Self::arguments).
    pub fn arguments_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            WindowFunction::Tile(e)
            | WindowFunction::FirstValue(e)
            | WindowFunction::LastValue(e) => vec![&mut **e],
            WindowFunction::NthValue(e, n) => vec![&mut **e, &mut **n],
            WindowFunction::Shifted {
                value,
                offset,
                default,
                ..
            } => vec![&mut **value, &mut **offset, &mut **default],
            _ => Vec::new(),
        }
    }
}

/// Functions in `FROM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetFunction {
    /// `generate_series` over integers: from, to, step.
    SeriesInt,
    /// `generate_series` over timestamps: from, to, step (interval).
    SeriesTimestamp,
    /// `unnest` of one array or of several side by side, one column each.
    Unnest,
    /// `json_array_elements` and its kin: one column.
    JsonElements {
        /// `_text`.
        text: bool,
        /// `jsonb`.
        binary: bool,
    },
    /// `json_each` and its kin: key and value.
    JsonEach {
        /// `_text`.
        text: bool,
        /// `jsonb`.
        binary: bool,
    },
    /// `json_object_keys`, `jsonb_object_keys`.
    JsonKeys {
        /// `jsonb`.
        binary: bool,
    },
    /// `pgrowlocks` of one table, named by a text.
    RowLocks,
    /// Any scalar expression: one row of one column. The only argument is that expression.
    Scalar,
}

/// Functions that depend on or change the server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostFunction {
    /// `now()`, `current_timestamp`, `transaction_timestamp()`: timestamptz.
    TransactionTimestamp,
    /// `statement_timestamp()`.
    StatementTimestamp,
    /// `clock_timestamp()`.
    ClockTimestamp,
    /// `nextval(name text)`: the sequence's name.
    NextVal,
    /// `currval(name)`.
    CurrVal,
    /// `setval(name, value, is_called)`.
    SetVal,
    /// `lastval()`.
    LastVal,
    /// `pg_[try_]advisory_[xact_]lock[_shared]`: one `bigint`, or two `int`s (another key space).
    AdvisoryLock {
        /// `try`: returns a boolean and never waits; otherwise returns void.
        attempt: bool,
        /// `shared`.
        shared: bool,
        /// `xact`.
        transaction: bool,
    },
    /// `pg_advisory_unlock[_shared]`: boolean.
    AdvisoryUnlock {
        /// `shared`.
        shared: bool,
    },
    /// `pg_advisory_unlock_all()`: void.
    AdvisoryUnlockAll,
    /// `pg_sleep(seconds float8)`: void.
    Sleep,
    /// `pg_backend_pid()`.
    BackendPid,
    /// `pg_terminate_backend(pid)`.
    TerminateBackend,
    /// `pg_cancel_backend(pid)`.
    CancelBackend,
    /// `pg_blocking_pids(pid)`: integer array.
    BlockingPids,
    /// `pg_isolation_test_session_is_blocked(pid, pids)`: boolean.
    SessionIsBlocked,
    /// `pg_current_xact_id()` (xid8) and `txid_current()` (bigint).
    CurrentXactId,
    /// `pg_current_xact_id_if_assigned()`, `txid_current_if_assigned()`.
    CurrentXactIdIfAssigned,
    /// `pg_snapshot_xmin(pg_current_snapshot())`, `txid_snapshot_xmin(txid_current_snapshot())`.
    SnapshotXmin,
    /// `pg_snapshot_xmax(pg_current_snapshot())`.
    SnapshotXmax,
    /// `pg_xact_status(xid8)`, `txid_status(bigint)`.
    XactStatus,
    /// `pg_visible_in_snapshot(xid8, pg_current_snapshot())`: the xid.
    XactIsVisible,
    /// `current_setting(name [, missing_ok])`.
    CurrentSetting,
    /// `set_config(name, value, is_local)`.
    SetConfig,
    /// `random()`.
    Random,
    /// `gen_random_uuid()`.
    RandomUuid,
    /// `version()`.
    Version,
    /// `current_database()`, `current_catalog`.
    CurrentDatabase,
    /// `current_user`, `user`, `current_role`.
    CurrentUser,
    /// `session_user`.
    SessionUser,
    /// `current_schema()`.
    CurrentSchema,
    /// `pg_is_in_recovery()`.
    IsInRecovery,
    /// `pg_notify(channel, payload)`.
    Notify,
    /// `pg_notification_queue_usage()`: a part of 1.
    NotificationQueueUsage,
    /// `text::regclass`: the name checked (42P01) and written as the server prints it.
    RelationByName,
    /// `oid::regclass`: the name of a relation.
    RelationName,
    /// `regclass::oid`.
    RelationOid,
}

/// How far a function may be trusted to give the same value again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// Always.
    Immutable,
    /// Within one statement.
    Stable,
    /// Never: what it gave in a statement that is suspended must be kept.
    Volatile,
}

impl HostFunction {
    /// Its class, as `pg_proc.provolatile` has it.
    pub fn volatility(self) -> Volatility {
        match self {
            HostFunction::TransactionTimestamp
            | HostFunction::StatementTimestamp
            | HostFunction::BackendPid
            | HostFunction::CurrentXactIdIfAssigned
            | HostFunction::CurrentXactId
            | HostFunction::SnapshotXmin
            | HostFunction::SnapshotXmax
            | HostFunction::XactIsVisible
            | HostFunction::CurrentSetting
            | HostFunction::Version
            | HostFunction::CurrentDatabase
            | HostFunction::CurrentUser
            | HostFunction::SessionUser
            | HostFunction::CurrentSchema
            | HostFunction::RelationByName
            | HostFunction::RelationName
            | HostFunction::RelationOid => Volatility::Stable,
            _ => Volatility::Volatile,
        }
    }
}

/// What an expression reads: the rows of its level, and the levels around it.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The values of each range-table entry's current row; an empty slice reads as NULLs (an entry
    /// that an outer join left out, or that is not bound yet).
    pub rows: &'a [&'a [Value]],
    /// Keys and aggregates of the current group.
    pub group: &'a [Value],
    /// Values of the window functions for the current row.
    pub windows: &'a [Value],
    /// The statement's arguments, already of the parameters' types.
    pub params: &'a [Value],
    /// The level around this one.
    pub outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    /// A scope without rows: for constants, defaults and parameters.
    pub fn empty(params: &'a [Value]) -> Scope<'a> {
        Scope {
            rows: &[],
            group: &[],
            windows: &[],
            params,
            outer: None,
        }
    }

    /// The scope that lies `level` levels outwards.
    ///
    /// # Panics
    /// If there is none: the plan and its executor disagree.
    pub fn at(&'a self, level: u32) -> &'a Scope<'a> {
        let mut scope = self;
        for _ in 0..level {
            scope = scope.outer.expect("the plan has an outer level");
        }
        scope
    }
}

/// The server, as an expression sees it.
pub trait Host {
    /// What ends an evaluation early: an error, or a wait.
    type Error: From<DbError>;

    /// Calls a stateful function. Arguments are of the types that [`HostFunction`] names; a strict
    /// function with a NULL argument is not called.
    ///
    /// # Errors
    /// What the function raises.
    fn call(&mut self, function: HostFunction, args: &[Value]) -> Result<Value, Self::Error>;

    /// Calls a function that a user has defined.
    ///
    /// # Errors
    /// What the function raises.
    fn routine(
        &mut self,
        routine: &Arc<Routine>,
        types: &[Type],
        args: &[Value],
    ) -> Result<Value, Self::Error> {
        let _ = (types, args);
        Err(DbError::unsupported(format!("the function {} here", routine.name), None).into())
    }

    /// The rows of a sub-select, as many as [`SubPlan::wanted`] needs: at most one for `Exists`, at
    /// most two for `Scalar` and `Row`. `scope` is the scope that contains the sub-select.
    ///
    /// # Errors
    /// What the query raises.
    fn rows(&mut self, plan: &SubPlan, scope: &Scope<'_>) -> Result<Arc<[Row]>, Self::Error>;

    /// A system column of the row that is bound to an entry of `scope`.
    ///
    /// # Errors
    /// `unsupported` where it is not modelled.
    fn system(
        &mut self,
        column: SystemColumn,
        entry: usize,
        scope: &Scope<'_>,
    ) -> Result<Value, Self::Error>;
}
