//! Partitioned tables: keys, bounds, and which partition a row belongs to (manual, "Table
//! Partitioning").

use std::cmp::Ordering;

use rowlock_model::Value;

use crate::plan::expr::compare::order;
use crate::plan::expr::{Comparison, Expr};
use crate::plan::types::Type;

/// How a table is partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `PARTITION BY LIST`.
    List,
    /// `PARTITION BY RANGE`.
    Range,
}

/// One key of a partitioned table.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionKey {
    /// The value, over the table's row at range-table index 0.
    pub expr: Expr,
    /// The column, if it is a plain one.
    pub column: Option<usize>,
    /// How the server prints it.
    pub text: std::sync::Arc<str>,
    /// Its type.
    pub ty: Type,
}

/// `PARTITION BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct Partitioning {
    /// How.
    pub strategy: Strategy,
    /// By what; exactly one key for lists.
    pub keys: Vec<PartitionKey>,
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub enum Edge {
    /// `MINVALUE`.
    Min,
    /// A value.
    Value(Value),
    /// `MAXVALUE`.
    Max,
}

/// `FOR VALUES ..`: what belongs to a partition.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// `DEFAULT`: what belongs to no other.
    Default,
    /// `IN (..)`; NULL may be among them.
    List(Vec<Value>),
    /// `FROM (..) TO (..)`: the lower end included, the upper one not.
    Range {
        /// The lower end.
        from: Vec<Edge>,
        /// The upper end.
        to: Vec<Edge>,
    },
}

fn plain(a: &Value, b: &Value) -> Ordering {
    order(a, b, &Comparison::Plain)
}

/// A row's key against one end of a range.
fn against(values: &[Value], edges: &[Edge]) -> Ordering {
    for (value, edge) in values.iter().zip(edges) {
        let ordering = match edge {
            Edge::Min => Ordering::Greater,
            Edge::Max => Ordering::Less,
            Edge::Value(edge) => plain(value, edge),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Two ends of ranges against each other.
fn edges(a: &[Edge], b: &[Edge]) -> Ordering {
    for pair in a.iter().zip(b) {
        let ordering = match pair {
            (Edge::Min, Edge::Min) | (Edge::Max, Edge::Max) => return Ordering::Equal,
            (Edge::Min, _) | (_, Edge::Max) => Ordering::Less,
            (Edge::Max, _) | (_, Edge::Min) => Ordering::Greater,
            (Edge::Value(a), Edge::Value(b)) => plain(a, b),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

impl Bound {
    /// Whether a row with these key values belongs to a partition that is not the default one.
    pub fn admits(&self, values: &[Value]) -> bool {
        match self {
            Bound::Default => false,
            Bound::List(list) => values.first().is_some_and(|value| {
                list.iter().any(|known| match (known, value) {
                    (Value::Null, Value::Null) => true,
                    (Value::Null, _) | (_, Value::Null) => false,
                    (known, value) => plain(known, value).is_eq(),
                })
            }),
            Bound::Range { from, to } => {
                values.iter().all(|v| !v.is_null())
                    && against(values, from).is_ge()
                    && against(values, to).is_lt()
            }
        }
    }

    /// Whether some row belongs to both.
    pub fn overlaps(&self, other: &Bound) -> bool {
        match (self, other) {
            (Bound::Default, Bound::Default) => true,
            (Bound::List(a), Bound::List(_)) => a
                .iter()
                .any(|value| other.admits(std::slice::from_ref(value))),
            (Bound::Range { from: a, to: b }, Bound::Range { from: c, to: d }) => {
                edges(a, d).is_lt() && edges(c, b).is_lt()
            }
            _ => false,
        }
    }

    /// The order in which the server goes through the partitions of a table: by bound, the default one
    /// last.
    pub fn scan_order(&self, other: &Bound) -> Ordering {
        match (self, other) {
            (Bound::Default, Bound::Default) => Ordering::Equal,
            (Bound::Default, _) => Ordering::Greater,
            (_, Bound::Default) => Ordering::Less,
            (Bound::List(a), Bound::List(b)) => {
                let least = |list: &[Value]| {
                    let values = list.iter().filter(|v| !v.is_null());
                    values.min_by(|a, b| plain(a, b)).cloned()
                };
                match (least(a), least(b)) {
                    (Some(a), Some(b)) => plain(&a, &b),
                    // A partition of nothing but NULL comes after those of values.
                    (a, b) => b.is_some().cmp(&a.is_some()),
                }
            }
            (Bound::Range { from: a, .. }, Bound::Range { from: b, .. }) => edges(a, b),
            _ => Ordering::Equal,
        }
    }
}
