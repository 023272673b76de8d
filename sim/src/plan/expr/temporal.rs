//! Functions of dates, times and intervals.

use rowlock_model::value::civil;
use rowlock_model::{DbError, Value};
use rust_decimal::Decimal;

use super::Function;
use super::function::Arithmetic;
use crate::plan::types::Type;
use crate::plan::types::datetime::{
    self, DAY, INFINITY, add_interval, days_in_month, difference, scale_interval, truncate,
};

const SECOND: i64 = 1_000_000;

/// Microseconds of an instant, whichever type holds it.
fn instant(value: &Value) -> i64 {
    match value {
        Value::Timestamp(t) | Value::TimestampTz(t) => *t,
        Value::Date(d) => i64::from(*d) * DAY,
        other => panic!("a time function got {other:?}"),
    }
}

/// An instant in the type of `like`.
fn same_kind(like: &Value, t: i64) -> Value {
    match like {
        Value::Timestamp(_) => Value::Timestamp(t),
        _ => Value::TimestampTz(t),
    }
}

fn span(value: &Value) -> (i32, i32, i64) {
    match value {
        Value::Interval {
            months,
            days,
            micros,
        } => (*months, *days, *micros),
        other => panic!("an interval function got {other:?}"),
    }
}

fn interval((months, days, micros): (i32, i32, i64)) -> Value {
    Value::Interval {
        months,
        days,
        micros,
    }
}

fn overflow() -> DbError {
    DbError::postgres("22008", "interval out of range")
}

fn minus((m, d, u): (i32, i32, i64)) -> Result<(i32, i32, i64), DbError> {
    m.checked_neg()
        .zip(d.checked_neg())
        .zip(u.checked_neg())
        .map(|((m, d), u)| (m, d, u))
        .ok_or_else(overflow)
}

fn sum(a: (i32, i32, i64), b: (i32, i32, i64)) -> Result<Value, DbError> {
    a.0.checked_add(b.0)
        .zip(a.1.checked_add(b.1))
        .zip(a.2.checked_add(b.2))
        .map(|((m, d), u)| interval((m, d, u)))
        .ok_or_else(overflow)
}

/// The value of a function of times.
///
/// # Errors
/// 22008, 22023.
pub(super) fn call(function: Function, args: &[&Value]) -> Result<Value, DbError> {
    use Function as F;
    Ok(match (function, args) {
        (F::TimestampPlusInterval, [t, i]) => same_kind(t, add_interval(instant(t), span(i))?),
        (F::TimestampMinusInterval, [t, i]) => {
            same_kind(t, add_interval(instant(t), minus(span(i))?)?)
        }
        (F::TimestampMinusTimestamp, [a, b]) => {
            let (a, b) = (instant(a), instant(b));
            if [a, b].iter().any(|t| *t == INFINITY || *t == i64::MIN) {
                return Err(DbError::postgres(
                    "22008",
                    "cannot subtract infinite timestamps",
                ));
            }
            difference(a, b)
        }
        (F::IntervalArithmetic(Arithmetic::Add), [a, b]) => sum(span(a), span(b))?,
        (F::IntervalArithmetic(_), [a, b]) => sum(span(a), minus(span(b))?)?,
        (F::IntervalNegate, [a]) => interval(minus(span(a))?),
        (F::IntervalTimes, [a, Value::Float(x)]) => scale_interval(span(a), *x)?,
        (F::IntervalDivide, [_, Value::Float(x)]) if *x == 0.0 => {
            return Err(DbError::postgres("22012", "division by zero"));
        }
        (F::IntervalDivide, [a, Value::Float(x)]) => scale_interval(span(a), 1.0 / x)?,
        (F::DatePlusDays, [Value::Date(d), Value::Int(n)]) => date(i64::from(*d) + n)?,
        (F::DateMinusDays, [Value::Date(d), Value::Int(n)]) => date(i64::from(*d) - n)?,
        (F::DateMinusDate, [Value::Date(a), Value::Date(b)]) => {
            Value::Int(i64::from(*a) - i64::from(*b))
        }
        (F::DatePlusTime, [d, Value::Time(t)]) => Value::Timestamp(instant(d) + t),
        (F::TimePlusInterval, [Value::Time(t), i]) => Value::Time((t + span(i).2).rem_euclid(DAY)),
        (F::TimeMinusInterval, [Value::Time(t), i]) => Value::Time((t - span(i).2).rem_euclid(DAY)),
        (F::TimeMinusTime, [Value::Time(a), Value::Time(b)]) => interval((0, 0, a - b)),
        (F::Truncate(ty), [Value::Text(field), t]) => {
            same_kind(t, truncate(field, instant(t), ty)?)
        }
        (F::Extract(ty), [Value::Text(field), v]) => Value::Decimal(extract(field, v, ty)?),
        (F::DatePart(ty), [Value::Text(field), v]) => {
            let exact = extract(field, v, ty)?;
            Value::Float(exact.to_string().parse().unwrap_or(0.0))
        }
        (F::ToTimestamp, [Value::Float(x)]) => to_timestamp(*x)?,
        (F::MakeInterval, args) => make_interval(args)?,
        (F::MakeDate, [Value::Int(y), Value::Int(m), Value::Int(d)]) => make_date(*y, *m, *d)?,
        (F::AtTimeZone, [Value::Text(zone), t]) => {
            let offset = datetime::zone_offset(zone)? * SECOND;
            match t {
                Value::TimestampTz(t) => Value::Timestamp(t + offset),
                other => Value::TimestampTz(instant(other) - offset),
            }
        }
        (F::IsFinite, [Value::Interval { .. }]) => Value::Bool(true),
        (F::IsFinite, [v]) => Value::Bool(match v {
            Value::Date(d) => *d != i32::MAX && *d != i32::MIN,
            other => instant(other) != INFINITY && instant(other) != i64::MIN,
        }),
        (F::JustifyInterval, [a]) => {
            let (m, d, u) = span(a);
            let days = i64::from(d) + u / DAY;
            let months = i64::from(m) + days / 30;
            interval((months as i32, (days % 30) as i32, u % DAY))
        }
        (function, args) => panic!("{function:?} got {args:?}"),
    })
}

fn date(day: i64) -> Result<Value, DbError> {
    i32::try_from(day)
        .map(Value::Date)
        .map_err(|_| DbError::postgres("22008", "date out of range"))
}

fn to_timestamp(seconds: f64) -> Result<Value, DbError> {
    if seconds.is_infinite() {
        return Ok(Value::TimestampTz(if seconds > 0.0 {
            INFINITY
        } else {
            i64::MIN
        }));
    }
    if seconds.is_nan() || seconds.abs() > 9.2e12 {
        return Err(DbError::postgres(
            "22008",
            format!("timestamp out of range: \"{seconds}\""),
        ));
    }
    // The server rounds from its own epoch, 2000-01-01.
    let epoch = 946_684_800.0;
    let micros = ((seconds - epoch) * 1e6).round_ties_even() as i64;
    Ok(Value::TimestampTz(micros + 946_684_800 * SECOND))
}

/// Years, months, weeks, days, hours, minutes (integers) and seconds (float).
fn make_interval(args: &[&Value]) -> Result<Value, DbError> {
    let number = |i: usize| args.get(i).and_then(|v| v.as_int()).unwrap_or(0);
    let seconds = match args.get(6) {
        Some(Value::Float(x)) => (x * 1e6).round_ties_even() as i64,
        _ => 0,
    };
    let months = number(0) * 12 + number(1);
    let days = number(2) * 7 + number(3);
    let micros = (number(4) * 3600 + number(5) * 60) * SECOND + seconds;
    let narrow = |n: i64| i32::try_from(n).map_err(|_| overflow());
    Ok(interval((narrow(months)?, narrow(days)?, micros)))
}

fn make_date(y: i64, m: i64, d: i64) -> Result<Value, DbError> {
    let fits = (1..=12).contains(&m) && d >= 1 && d <= i64::from(days_in_month(y, m as u32));
    if !fits {
        return Err(DbError::postgres(
            "22008",
            format!("date field value out of range: {y}-{m:02}-{d:02}"),
        ));
    }
    date(civil::days(y, m as u32, d as u32))
}

/// A number of `scale` digits after the point.
fn scaled(value: i64, scale: u32) -> Decimal {
    Decimal::from_i128_with_scale(i128::from(value), scale)
}

fn extract(field: &str, value: &Value, ty: Type) -> Result<Decimal, DbError> {
    let lower = field.to_ascii_lowercase();
    let unknown = || {
        DbError::postgres(
            "22023",
            format!("unit \"{lower}\" not recognized for type {}", ty.name()),
        )
    };
    if let Value::Interval {
        months,
        days,
        micros,
    } = value
    {
        return extract_interval(&lower, (*months, *days, *micros)).ok_or_else(unknown);
    }
    if let Value::Time(t) = value {
        return extract_clock(&lower, *t)
            .or_else(|| (lower == "epoch").then(|| scaled(*t, 6)))
            .ok_or_else(unknown);
    }
    let t = instant(value);
    if t == INFINITY || t == i64::MIN {
        return Err(DbError::unsupported("extract from infinity", None));
    }
    let is_date = matches!(value, Value::Date(_));
    let day = t.div_euclid(DAY);
    let (y, m, d) = civil::from_days(day);
    let whole = |n: i64| Decimal::from(n);
    Ok(match lower.as_str() {
        "epoch" if is_date => whole(day * 86_400),
        "epoch" => scaled(t, 6),
        "year" => whole(y),
        "month" => whole(i64::from(m)),
        "day" => whole(i64::from(d)),
        "quarter" => whole(i64::from((m - 1) / 3 + 1)),
        "decade" => whole(y.div_euclid(10)),
        "century" => whole((y + 99).div_euclid(100)),
        "millennium" => whole((y + 999).div_euclid(1000)),
        "dow" => whole((day + 4).rem_euclid(7)),
        "isodow" => whole((day + 3).rem_euclid(7) + 1),
        "doy" => whole(day - civil::days(y, 1, 1) + 1),
        "week" | "isoyear" => {
            // The week belongs to the year that its Thursday is in.
            let thursday = day - (day + 3).rem_euclid(7) + 3;
            let (year, _, _) = civil::from_days(thursday);
            if lower == "week" {
                whole((thursday - civil::days(year, 1, 1)) / 7 + 1)
            } else {
                whole(year)
            }
        }
        "timezone" | "timezone_hour" | "timezone_minute" if ty == Type::TimestampTz => whole(0),
        _ if is_date => return Err(unknown()),
        other => extract_clock(other, t.rem_euclid(DAY)).ok_or_else(unknown)?,
    })
}

fn extract_clock(field: &str, t: i64) -> Option<Decimal> {
    Some(match field {
        "hour" => Decimal::from(t / (3600 * SECOND)),
        "minute" => Decimal::from(t / (60 * SECOND) % 60),
        "second" => scaled(t % (60 * SECOND), 6),
        "milliseconds" | "millisecond" => scaled(t % (60 * SECOND), 3),
        "microseconds" | "microsecond" => Decimal::from(t % (60 * SECOND)),
        _ => return None,
    })
}

fn extract_interval(field: &str, (months, days, micros): (i32, i32, i64)) -> Option<Decimal> {
    let years = i64::from(months / 12);
    Some(match field {
        "epoch" => {
            // A year counts 365.25 days, a month 30.
            let seconds = years * 31_557_600
                + i64::from(months % 12) * 30 * 86_400
                + i64::from(days) * 86_400;
            scaled(seconds * SECOND + micros, 6)
        }
        "year" => Decimal::from(years),
        "month" => Decimal::from(months % 12),
        "day" => Decimal::from(days),
        "quarter" => Decimal::from(months % 12 / 3 + 1),
        "decade" => Decimal::from(years / 10),
        "century" => Decimal::from(years / 100),
        "hour" => Decimal::from(micros / (3600 * SECOND)),
        "minute" => Decimal::from(micros / (60 * SECOND) % 60),
        "second" => scaled(micros % (60 * SECOND), 6),
        "milliseconds" | "millisecond" => scaled(micros % (60 * SECOND), 3),
        "microseconds" | "microsecond" => Decimal::from(micros % (60 * SECOND)),
        _ => return None,
    })
}
