//! The order of values in indexes.

use std::cmp::Ordering;

use rowlock_model::Value;

/// Compares two values of one type as a B-tree does, NULLs last. Text by bytes (collation "C").
///
/// # Panics
/// If the types differ: an index holds values of one type a column.
pub fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => compare_floats(*a, *b),
        (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b))
        | (Value::Timestamp(a), Value::Timestamp(b))
        | (Value::TimestampTz(a), Value::TimestampTz(b)) => a.cmp(b),
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
        (Value::Array(a), Value::Array(b)) => {
            let differs = a.iter().zip(b.iter()).map(|(x, y)| compare_values(x, y));
            let first = differs.into_iter().find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        // Numbers of different types meet when an index on one is searched by the other.
        (Value::Int(a), Value::Float(b)) => compare_floats(*a as f64, *b),
        (Value::Float(a), Value::Int(b)) => compare_floats(*a, *b as f64),
        (Value::Int(a), Value::Decimal(b)) => rust_decimal::Decimal::from(*a).cmp(b),
        (Value::Decimal(a), Value::Int(b)) => a.cmp(&rust_decimal::Decimal::from(*b)),
        (a, b) => panic!("{a:?} and {b:?} are compared"),
    }
}

/// NaN is equal to itself and greater than everything else; -0 equals 0 (manual, 8.1.3).
fn compare_floats(a: f64, b: f64) -> Ordering {
    match a.partial_cmp(&b) {
        Some(order) => order,
        None => a.is_nan().cmp(&b.is_nan()),
    }
}

/// Intervals compare by their length with months of 30 days and days of 24 hours.
fn interval_span(months: i32, days: i32, micros: i64) -> i128 {
    let days = i128::from(months) * 30 + i128::from(days);
    days * 86_400_000_000 + i128::from(micros)
}

/// Compares two keys column by column; `order` says for each column whether it is descending, and
/// whether NULLs come first. A shorter key is equal to every key that it is a prefix of.
pub fn compare_keys(a: &[Value], b: &[Value], order: &[(bool, bool)]) -> Ordering {
    for ((a, b), (descending, nulls_first)) in a.iter().zip(b).zip(order) {
        let compared = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if *nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if *nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if *descending => compare_values(b, a),
            (false, false) => compare_values(a, b),
        };
        if compared.is_ne() {
            return compared;
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_and_directions() {
        let null = [Value::Null];
        let one = [Value::Int(1)];
        let two = [Value::Int(2)];
        assert_eq!(compare_keys(&one, &two, &[(false, false)]), Ordering::Less);
        assert_eq!(compare_keys(&one, &two, &[(true, true)]), Ordering::Greater);
        assert_eq!(
            compare_keys(&null, &two, &[(false, false)]),
            Ordering::Greater
        );
        assert_eq!(compare_keys(&null, &two, &[(true, true)]), Ordering::Less);
        assert_eq!(compare_keys(&[], &two, &[(true, true)]), Ordering::Equal);
    }

    #[test]
    fn nan_is_the_greatest_number() {
        // SELECT 'NaN'::float8 > 'Infinity'::float8, 'NaN'::float8 = 'NaN'::float8: t, t.
        let nan = Value::Float(f64::NAN);
        assert_eq!(
            compare_values(&nan, &Value::Float(f64::INFINITY)),
            Ordering::Greater
        );
        assert_eq!(compare_values(&nan, &nan), Ordering::Equal);
    }
}
