//! The small expression language of conditions, variables and events: see `docs/scenario.md`.
//!
//! An [`Expr`] is resolved: every name in it is a [`Name`] that an [`Environment`] can look up, and
//! what can be known about types when the file is read has been checked.

mod eval;
mod parse;

use std::ops::Range;
use std::sync::Arc;

use rowlock_model::Value;

pub use eval::{Environment, EvalError};
pub(crate) use parse::{Path, is_word, is_word_start, parse};

/// A resolved expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// What it computes.
    pub node: Node,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

/// One node of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A constant.
    Literal(Value),
    /// A name.
    Name(Name),
    /// `not x`.
    Not(Box<Expr>),
    /// `-x`.
    Negate(Box<Expr>),
    /// `x is null`, or `x is not null` if the flag is set.
    IsNull(Box<Expr>, bool),
    /// An operator with two sides.
    Binary(Operator, Box<Expr>, Box<Expr>),
}

/// An operator with two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `or`
    Or,
    /// `and`
    And,
    /// `==`, `=`
    Equal,
    /// `!=`, `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// The label of the process.
    Process,
    /// The round, from 1.
    Round,
    /// The host's clock.
    Now,
    /// A variable of the process, by slot.
    Var(usize),
    /// A result of a step of the process, by slot of its [`Layout`].
    Result(usize),
    /// In an event: the step that was just done.
    Done(Attribute),
}

/// What can be asked of the result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// Rows returned.
    Rows,
    /// Rows affected.
    Affected,
    /// The error code; empty if none.
    Error,
    /// The error class; empty if none.
    Class,
    /// Whether the step was carried out.
    Ran,
    /// The step's name (events only).
    Name,
    /// A column in the first row.
    Column(Arc<str>),
}

impl Attribute {
    /// By the name that follows the dot; a quoted one is always a column.
    pub(crate) fn named(name: &str, quoted: bool, event: bool) -> Attribute {
        match name {
            _ if quoted => Attribute::Column(name.into()),
            "rows" => Attribute::Rows,
            "affected" => Attribute::Affected,
            "error" => Attribute::Error,
            "class" => Attribute::Class,
            "ran" => Attribute::Ran,
            "name" if event => Attribute::Name,
            _ => Attribute::Column(name.into()),
        }
    }

    /// Its type, as far as that is known before it is evaluated.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Attribute::Rows | Attribute::Affected => Kind::Number,
            Attribute::Error | Attribute::Class | Attribute::Name => Kind::Text,
            Attribute::Ran => Kind::Bool,
            Attribute::Column(_) => Kind::Unknown,
        }
    }
}

/// Which names stand in which slot of a process's local state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The variables' names, by slot.
    pub vars: Vec<Arc<str>>,
    /// The results that some expression or binding of the process reads: step and attribute, by
    /// slot. Nothing else of a reply is kept, so that states that differ in nothing that the
    /// process can see are the same state.
    pub results: Vec<(usize, Attribute)>,
}

/// What is known of a value's type when the file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Text,
    Bool,
    Time,
    /// Null, a column, a variable.
    Unknown,
}

impl Kind {
    pub(crate) fn of(value: &Value) -> Kind {
        match value {
            Value::Int(_) | Value::Float(_) | Value::Decimal(_) => Kind::Number,
            Value::Text(_) => Kind::Text,
            Value::Bool(_) => Kind::Bool,
            Value::Timestamp(_) | Value::TimestampTz(_) => Kind::Time,
            _ => Kind::Unknown,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Number => "a number",
            Kind::Text => "text",
            Kind::Bool => "a condition",
            Kind::Time => "a time",
            Kind::Unknown => "of unknown type",
        }
    }

    pub(crate) fn fits(self, other: Kind) -> bool {
        self == other || self == Kind::Unknown || other == Kind::Unknown
    }
}
