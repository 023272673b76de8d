//! Comparing values of one type.

use std::cmp::Ordering;

use rowlock_model::Value;

use super::{Compare, Comparison};
use crate::plan::types::datetime::interval_span;
use crate::plan::types::json;

impl Compare {
    /// Whether an ordering satisfies the operator.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Compare::Eq => ordering == Ordering::Equal,
            Compare::Ne => ordering != Ordering::Equal,
            Compare::Lt => ordering == Ordering::Less,
            Compare::Le => ordering != Ordering::Greater,
            Compare::Gt => ordering == Ordering::Greater,
            Compare::Ge => ordering != Ordering::Less,
        }
    }

    /// The operator with its sides exchanged.
    #[must_use]
    pub fn flipped(self) -> Compare {
        match self {
            Compare::Lt => Compare::Gt,
            Compare::Le => Compare::Ge,
            Compare::Gt => Compare::Lt,
            Compare::Ge => Compare::Le,
            same => same,
        }
    }

    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Compare::Eq => "=",
            Compare::Ne => "<>",
            Compare::Lt => "<",
            Compare::Le => "<=",
            Compare::Gt => ">",
            Compare::Ge => ">=",
        }
    }
}

/// The order of two values of one type, neither of them NULL at the top. Inside arrays NULL is the
/// greatest. Floats: NaN equals itself and is the greatest.
///
/// # Panics
/// If the values are of different kinds: the plan is wrong.
pub fn order(a: &Value, b: &Value, by: &Comparison) -> Ordering {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => x.cmp(y),
        (Value::Text(x), Value::Text(y)) => match by {
            Comparison::Char => x.trim_end_matches(' ').cmp(y.trim_end_matches(' ')),
            Comparison::Enum(ty) => {
                let at = |s: &str| ty.labels.iter().position(|l| &**l == s);
                at(x).cmp(&at(y))
            }
            Comparison::Plain => x.cmp(y),
            Comparison::Jsonb if x == y => Ordering::Equal,
            Comparison::Jsonb => match (json::parse(x), json::parse(y)) {
                (Some(x), Some(y)) => x.order(&y),
                _ => panic!("compared {a:?} with {b:?} as jsonb"),
            },
        },
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Decimal(x), Value::Decimal(y)) => x.cmp(y),
        (Value::Float(x), Value::Float(y)) => x
            .partial_cmp(y)
            .unwrap_or_else(|| x.is_nan().cmp(&y.is_nan())),
        (Value::Timestamp(x), Value::Timestamp(y))
        | (Value::TimestampTz(x), Value::TimestampTz(y))
        | (Value::Time(x), Value::Time(y)) => x.cmp(y),
        (Value::Date(x), Value::Date(y)) => x.cmp(y),
        (
            Value::Interval {
                months: m1,
                days: d1,
                micros: u1,
            },
            Value::Interval {
                months: m2,
                days: d2,
                micros: u2,
            },
        ) => interval_span(*m1, *d1, *u1).cmp(&interval_span(*m2, *d2, *u2)),
        (Value::Bytes(x), Value::Bytes(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) => {
            for (a, b) in x.iter().zip(y.iter()) {
                let each = match (a.is_null(), b.is_null()) {
                    (true, true) => Ordering::Equal,
                    (true, false) => Ordering::Greater,
                    (false, true) => Ordering::Less,
                    (false, false) => order(a, b, by),
                };
                if each != Ordering::Equal {
                    return each;
                }
            }
            x.len().cmp(&y.len())
        }
        _ => panic!("compared {a:?} with {b:?}"),
    }
}

/// `a op b` with unknown for NULL.
pub fn compare(op: Compare, a: &Value, b: &Value, by: &Comparison) -> Option<bool> {
    if a.is_null() || b.is_null() {
        return None;
    }
    Some(op.holds(order(a, b, by)))
}

/// Whether two values are the same, NULL being equal to NULL: for `DISTINCT`, grouping and
/// `IS NOT DISTINCT FROM`.
pub fn same(a: &Value, b: &Value, by: &Comparison) -> bool {
    match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => order(a, b, by) == Ordering::Equal,
        _ => false,
    }
}

/// The order of a sort key: NULLs first or last, then by value, descending or not.
pub fn sort_order(
    a: &Value,
    b: &Value,
    by: &Comparison,
    descending: bool,
    nulls_first: bool,
) -> Ordering {
    let null = if nulls_first {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => null,
        (false, true) => null.reverse(),
        (false, false) if descending => order(b, a, by),
        (false, false) => order(a, b, by),
    }
}

/// A row comparison: fields of both sides with how each pair compares.
pub fn compare_fields<'v>(
    op: Compare,
    fields: impl Iterator<Item = (&'v Value, &'v Value, &'v Comparison)>,
) -> Option<bool> {
    match op {
        Compare::Eq | Compare::Ne => {
            let mut unknown = false;
            for (a, b, by) in fields {
                match compare(Compare::Eq, a, b, by) {
                    Some(true) => {}
                    Some(false) => return Some(op == Compare::Ne),
                    None => unknown = true,
                }
            }
            (!unknown).then_some(op == Compare::Eq)
        }
        _ => {
            for (a, b, by) in fields {
                if a.is_null() || b.is_null() {
                    return None;
                }
                let ordering = order(a, b, by);
                if ordering != Ordering::Equal {
                    return Some(op.holds(ordering));
                }
            }
            Some(op.holds(Ordering::Equal))
        }
    }
}
