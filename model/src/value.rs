//! SQL values as they cross the seam.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// One SQL value. The declared type of a column is told apart by [`crate::Column::type_name`]; a
/// value carries only what is needed to compare and print it.
///
/// Equality and hashing are structural (`Null == Null`, floats by bits): they decide whether two
/// replies are the same reply, not what SQL's `=` says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Value {
    /// SQL `NULL`.
    Null,
    /// `boolean`.
    Bool(bool),
    /// Any integer type; 64 bits are enough for every server's widest signed integer.
    Int(i64),
    /// `real`, `double precision`.
    Float(f64),
    /// `numeric`, `decimal`.
    Decimal(Decimal),
    /// Any character type; also what has no type of its own here (`uuid`, `json`, `void` as "").
    Text(Arc<str>),
    /// `bytea`, `blob`.
    Bytes(Arc<[u8]>),
    /// `date`: days since 1970-01-01.
    Date(i32),
    /// `time`: microseconds since midnight.
    Time(i64),
    /// `timestamp` without time zone, `datetime`: microseconds since 1970-01-01 00:00:00.
    Timestamp(i64),
    /// `timestamp with time zone`: microseconds since 1970-01-01 00:00:00 UTC.
    TimestampTz(i64),
    /// `interval`.
    Interval {
        /// Whole months.
        months: i32,
        /// Whole days.
        days: i32,
        /// Microseconds.
        micros: i64,
    },
    /// A one-dimensional array.
    Array(Arc<[Value]>),
}

impl Value {
    /// Text from anything string-like.
    pub fn text(s: impl Into<Arc<str>>) -> Value {
        Value::Text(s.into())
    }

    /// Whether this is SQL `NULL`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            // 1.0 and 1.00 are different replies: the scale is visible to the client.
            (Value::Decimal(a), Value::Decimal(b)) => a.scale() == b.scale() && a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Date(a), Value::Date(b)) => a == b,
            (Value::Time(a), Value::Time(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::TimestampTz(a), Value::TimestampTz(b)) => a == b,
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
            ) => m1 == m2 && d1 == d2 && u1 == u2,
            (Value::Array(a), Value::Array(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Value::Null => {}
            Value::Bool(b) => b.hash(state),
            Value::Int(i) => i.hash(state),
            Value::Float(x) => x.to_bits().hash(state),
            Value::Decimal(d) => {
                d.scale().hash(state);
                d.mantissa().hash(state);
            }
            Value::Text(s) => s.hash(state),
            Value::Bytes(b) => b.hash(state),
            Value::Date(d) => d.hash(state),
            Value::Time(t) | Value::Timestamp(t) | Value::TimestampTz(t) => t.hash(state),
            Value::Interval {
                months,
                days,
                micros,
            } => (months, days, micros).hash(state),
            Value::Array(items) => items.hash(state),
        }
    }
}

/// Prints as `psql` prints with `DateStyle = ISO` and `TimeZone = UTC`, except that `NULL` is
/// spelled out and booleans are words.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            Value::Float(x) => write!(f, "{x}"),
            Value::Decimal(d) => write!(f, "{d}"),
            Value::Text(s) => f.write_str(s),
            Value::Bytes(b) => {
                f.write_str("\\x")?;
                b.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Date(d) => f.write_str(&civil::date(i64::from(*d))),
            Value::Time(t) => f.write_str(&civil::time(*t)),
            Value::Timestamp(t) => f.write_str(&civil::timestamp(*t)),
            Value::TimestampTz(t) => write!(f, "{}+00", civil::timestamp(*t)),
            Value::Interval {
                months,
                days,
                micros,
            } => f.write_str(&civil::interval(*months, *days, *micros)),
            Value::Array(items) => {
                f.write_str("{")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("}")
            }
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

impl From<i32> for Value {
    fn from(i: i32) -> Value {
        Value::Int(i64::from(i))
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Value {
        Value::Int(i)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Value {
        Value::Text(s.into())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Value {
        Value::Text(s.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Value {
        v.map_or(Value::Null, Into::into)
    }
}

/// Calendar arithmetic on the proleptic Gregorian calendar, UTC only.
pub mod civil {
    /// Microseconds in a day.
    pub const DAY_MICROS: i64 = 86_400_000_000;

    /// Days since 1970-01-01 of a civil date (Howard Hinnant's `days_from_civil`).
    pub fn days(year: i64, month: u32, day: u32) -> i64 {
        let y = if month <= 2 { year - 1 } else { year };
        let era = y.div_euclid(400);
        let yoe = y.rem_euclid(400);
        let shifted_month = i64::from((month + 9) % 12);
        let doy = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
        let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
        era * 146_097 + doe - 719_468
    }

    /// Year, month and day of a day number; the inverse of [`days`].
    pub fn from_days(days: i64) -> (i64, u32, u32) {
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
        let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
        let year = yoe + era * 400 + i64::from(month <= 2);
        (year, month, day)
    }

    /// `2026-11-30`.
    pub fn date(day_number: i64) -> String {
        let (y, m, d) = from_days(day_number);
        format!("{y:04}-{m:02}-{d:02}")
    }

    /// `12:30:00` or `12:30:00.25`.
    pub fn time(micros: i64) -> String {
        let seconds = micros.div_euclid(1_000_000);
        let fraction = micros.rem_euclid(1_000_000);
        let text = format!(
            "{:02}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        if fraction == 0 {
            return text;
        }
        format!("{text}.{}", format!("{fraction:06}").trim_end_matches('0'))
    }

    /// `2026-11-30 12:30:00.25`.
    pub fn timestamp(micros: i64) -> String {
        let day = micros.div_euclid(DAY_MICROS);
        format!("{} {}", date(day), time(micros.rem_euclid(DAY_MICROS)))
    }

    /// As `psql` prints with `IntervalStyle = postgres`: `1 mon 2 days 00:00:03`.
    pub fn interval(months: i32, days: i32, micros: i64) -> String {
        let plural = |n: i32, unit: &str| format!("{n} {unit}{}", if n == 1 { "" } else { "s" });
        let mut parts = Vec::new();
        if months / 12 != 0 {
            parts.push(plural(months / 12, "year"));
        }
        if months % 12 != 0 {
            parts.push(plural(months % 12, "mon"));
        }
        if days != 0 {
            parts.push(plural(days, "day"));
        }
        if micros != 0 || parts.is_empty() {
            let sign = if micros < 0 { "-" } else { "" };
            parts.push(format!("{sign}{}", time(micros.abs())));
        }
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_days_round_trip() {
        for day in (-1_000_000..1_000_000).step_by(37) {
            let (y, m, d) = civil::from_days(day);
            assert_eq!(civil::days(y, m, d), day);
        }
        assert_eq!(civil::days(1970, 1, 1), 0);
        assert_eq!(civil::days(2000, 3, 1), 11_017);
    }

    #[test]
    fn values_print_as_psql_does() {
        assert_eq!(Value::TimestampTz(0).to_string(), "1970-01-01 00:00:00+00");
        assert_eq!(
            Value::Timestamp(1_500_000).to_string(),
            "1970-01-01 00:00:01.5"
        );
        assert_eq!(
            Value::Interval {
                months: 14,
                days: 1,
                micros: 0
            }
            .to_string(),
            "1 year 2 mons 1 day"
        );
        assert_eq!(
            Value::Interval {
                months: 0,
                days: 0,
                micros: 0
            }
            .to_string(),
            "00:00:00"
        );
        assert_eq!(
            Value::Array([Value::Int(1), Value::Null].into()).to_string(),
            "{1,NULL}"
        );
    }
}
