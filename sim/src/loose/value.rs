//! Values as numbers, texts and truth values, and how two of them are compared.
//!
//! SQLite: "Datatypes In SQLite", sections 3 and 4. MySQL: manual, "Type Conversion in Expression
//! Evaluation". A boolean that comes as a parameter is the integer 0 or 1 in both.

use std::cmp::Ordering;
use std::sync::Arc;

use rowlock_model::Value;
use rowlock_model::value::civil;
use rust_decimal::Decimal;
use rust_decimal::prelude::{FromPrimitive, ToPrimitive};

use super::collate;
use super::expr::Comparison;
use super::json;
use super::temporal;
use super::types::Affinity;

/// A number that a text begins with, as both products read it; 0 if it begins with none. The second
/// part says whether the whole text is the number (spaces around it do not count).
pub fn number_of_text(text: &str) -> (Value, bool) {
    let trimmed = text.trim_start_matches(is_space);
    let bytes = trimmed.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let mut i = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let begin = i;
    while digit(i) {
        i += 1;
    }
    let mut digits = i - begin;
    let mut whole = true;
    if bytes.get(i) == Some(&b'.') && (digits > 0 || digit(i + 1)) {
        whole = false;
        i += 1;
        while digit(i) {
            i += 1;
            digits += 1;
        }
    }
    if digits == 0 {
        return (Value::Int(0), false);
    }
    if matches!(bytes.get(i), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(i + 1), Some(b'+' | b'-')));
        if digit(i + 1 + sign) {
            whole = false;
            i += 1 + sign;
            while digit(i) {
                i += 1;
            }
        }
    }
    let all = trimmed[i..].trim_matches(is_space).is_empty();
    let text = &trimmed[..i];
    if whole && let Ok(int) = text.parse::<i64>() {
        return (Value::Int(int), all);
    }
    (Value::Float(text.parse().unwrap_or(0.0)), all)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

/// A value as a floating-point number.
pub fn as_float(value: &Value) -> f64 {
    match value {
        Value::Null | Value::Interval { .. } | Value::Array(_) => 0.0,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Int(i) => *i as f64,
        Value::Float(x) => *x,
        Value::Decimal(d) => d.to_f64().unwrap_or(0.0),
        Value::Text(text) => as_float(&number_of_text(text).0),
        Value::Bytes(bytes) => as_float(&number_of_text(&String::from_utf8_lossy(bytes)).0),
        Value::Date(_) | Value::Time(_) | Value::Timestamp(_) | Value::TimestampTz(_) => {
            temporal_number(value).to_f64().unwrap_or(0.0)
        }
    }
}

/// A value as an exact number: MySQL reads texts as floating point, which may lose digits.
pub fn as_decimal(value: &Value) -> Decimal {
    match value {
        Value::Bool(b) => Decimal::from(u8::from(*b)),
        Value::Int(i) => Decimal::from(*i),
        Value::Decimal(d) => *d,
        Value::Date(_) | Value::Time(_) | Value::Timestamp(_) | Value::TimestampTz(_) => {
            temporal_number(value)
        }
        Value::Text(text) => {
            let (number, _) = number_of_text(text);
            match number {
                Value::Int(i) => Decimal::from(i),
                _ => {
                    let trimmed = text.trim();
                    trimmed
                        .parse()
                        .unwrap_or_else(|_| float_decimal(as_float(&number)))
                }
            }
        }
        other => float_decimal(as_float(other)),
    }
}

fn float_decimal(x: f64) -> Decimal {
    Decimal::from_f64(x).unwrap_or_default()
}

/// A date or time as MySQL's number of it: 20261130123000.
fn temporal_number(value: &Value) -> Decimal {
    let ymd = |days: i64| {
        let (y, m, d) = civil::from_days(days);
        y * 10_000 + i64::from(m) * 100 + i64::from(d)
    };
    let hms = |micros: i64| {
        let seconds = micros / 1_000_000;
        (seconds / 3600) * 10_000 + seconds / 60 % 60 * 100 + seconds % 60
    };
    let with_fraction = |whole: i64, micros: i64| match micros {
        0 => Decimal::from(whole),
        _ => Decimal::from(whole) + Decimal::new(micros, 6),
    };
    match value {
        Value::Date(days) => Decimal::from(ymd(i64::from(*days))),
        Value::Time(micros) => with_fraction(hms(*micros), micros % 1_000_000),
        Value::Timestamp(micros) | Value::TimestampTz(micros) => {
            let day = micros.div_euclid(civil::DAY_MICROS);
            let time = micros.rem_euclid(civil::DAY_MICROS);
            with_fraction(ymd(day) * 1_000_000 + hms(time), time % 1_000_000)
        }
        _ => Decimal::ZERO,
    }
}

/// A value as an integer: texts by their first digits, fractions cut (SQLite `CAST`, bit operators).
pub fn as_int_cut(value: &Value) -> i64 {
    match value {
        Value::Int(i) => *i,
        Value::Text(text) => integer_prefix(text),
        Value::Bytes(bytes) => integer_prefix(&String::from_utf8_lossy(bytes)),
        other => as_float(other) as i64,
    }
}

fn integer_prefix(text: &str) -> i64 {
    let text = text.trim_start_matches(is_space);
    let sign = usize::from(text.starts_with(['+', '-']));
    let end = text[sign..]
        .find(|c: char| !c.is_ascii_digit())
        .map_or(text.len(), |i| i + sign);
    match text[..end].parse::<i128>() {
        Ok(i) => i64::try_from(i).unwrap_or(if i < 0 { i64::MIN } else { i64::MAX }),
        Err(_) => 0,
    }
}

/// A value as an integer, rounded half away from zero (MySQL).
pub fn as_int_rounded(value: &Value) -> Option<i64> {
    match value {
        Value::Int(i) => Some(*i),
        Value::Bool(b) => Some(i64::from(*b)),
        Value::Float(x) => {
            let rounded = x.round();
            (rounded.abs() < 9.3e18).then_some(rounded as i64)
        }
        other => round_decimal(as_decimal(other), 0).to_i64(),
    }
}

/// Rounds half away from zero, and gives exactly so many digits.
pub fn round_decimal(d: Decimal, scale: u8) -> Decimal {
    let mut rounded = d.round_dp_with_strategy(
        u32::from(scale),
        rust_decimal::RoundingStrategy::MidpointAwayFromZero,
    );
    rounded.rescale(u32::from(scale));
    rounded
}

/// Whether a value is true; `None` for NULL.
pub fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Null => None,
        Value::Int(i) => Some(*i != 0),
        Value::Bool(b) => Some(*b),
        Value::Decimal(d) => Some(!d.is_zero()),
        other => Some(as_float(other) != 0.0),
    }
}

/// A floating-point number as SQLite prints it (`%!.15g`).
pub fn sqlite_float_text(x: f64) -> String {
    if x.is_infinite() {
        return if x > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    if x == 0.0 {
        return "0.0".to_owned();
    }
    let text = format!("{x:.14e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..15).contains(&exponent) {
        let mut mantissa = mantissa.trim_end_matches('0').to_owned();
        if mantissa.ends_with('.') {
            mantissa.push('0');
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let places = usize::try_from(14 - exponent).unwrap_or(0);
    let fixed = format!("{x:.places$}");
    let mut fixed = match fixed.contains('.') {
        true => fixed.trim_end_matches('0').to_owned(),
        false => format!("{fixed}."),
    };
    if fixed.ends_with('.') {
        fixed.push('0');
    }
    fixed
}

/// A floating-point number as MySQL prints it: the shortest text that reads back, without a point
/// for whole numbers.
pub fn mysql_float_text(x: f64) -> String {
    let magnitude = x.abs();
    if magnitude != 0.0 && !(1e-15..1e15).contains(&magnitude) {
        let text = format!("{x:e}");
        return text;
    }
    format!("{x}")
}

/// A value as text, as SQLite converts it.
pub fn sqlite_text(value: &Value) -> Arc<str> {
    match value {
        Value::Text(text) => text.clone(),
        Value::Float(x) => sqlite_float_text(*x).into(),
        Value::Bool(b) => u8::from(*b).to_string().into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        other => other.to_string().into(),
    }
}

/// A value as text, as MySQL converts it. Fractions of times are those of the value; where the type
/// has more digits the caller prints them.
pub fn mysql_text(value: &Value) -> Arc<str> {
    match value {
        Value::Text(text) => text.clone(),
        Value::Float(x) => mysql_float_text(*x).into(),
        Value::Bool(b) => u8::from(*b).to_string().into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::Timestamp(t) if t % 1_000_000 != 0 => temporal::datetime_text(*t, 6).into(),
        Value::Time(t) if t % 1_000_000 != 0 => temporal::time_text(*t, 6).into(),
        Value::Time(t) => temporal::time_text(*t, 0).into(),
        other => other.to_string().into(),
    }
}

/// A value with an affinity applied, as when it is stored or compared (SQLite).
pub fn apply_affinity(value: Value, affinity: Affinity) -> Value {
    match (affinity, &value) {
        (_, Value::Bool(b)) => apply_affinity(Value::Int(i64::from(*b)), affinity),
        // SQLite has no such types; drivers bind them as text.
        (
            _,
            Value::Decimal(_)
            | Value::Date(_)
            | Value::Time(_)
            | Value::Timestamp(_)
            | Value::TimestampTz(_),
        ) => {
            let text = match &value {
                Value::TimestampTz(micros) => Value::Timestamp(*micros).to_string(),
                other => other.to_string(),
            };
            apply_affinity(Value::text(text), affinity)
        }
        (Affinity::Text, Value::Int(_) | Value::Float(_)) => Value::Text(sqlite_text(&value)),
        (Affinity::Numeric | Affinity::Integer, Value::Text(text)) => match number_of_text(text) {
            (number, true) => lossless_int(number),
            (_, false) => value,
        },
        (Affinity::Numeric | Affinity::Integer, Value::Float(_)) => lossless_int(value),
        (Affinity::Real, Value::Int(i)) => Value::Float(*i as f64),
        (Affinity::Real, Value::Text(text)) => match number_of_text(text) {
            (number, true) => Value::Float(as_float(&number)),
            (_, false) => value,
        },
        _ => value,
    }
}

/// A floating-point number that is an integer becomes one (section 3, NUMERIC).
fn lossless_int(value: Value) -> Value {
    match value {
        Value::Float(x) if x.fract() == 0.0 && x.abs() < 9.2e18 && (x as i64) as f64 == x => {
            Value::Int(x as i64)
        }
        other => other,
    }
}

/// The order of SQLite's storage classes: NULL, numbers, text, blob.
fn class(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => 1,
        Value::Bytes(_) => 3,
        _ => 2,
    }
}

/// Compares two values that are not NULL, or sorts any two: NULL is the smallest.
pub fn compare(by: Comparison, left: &Value, right: &Value) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Less,
        (false, true) => return Ordering::Greater,
        (false, false) => {}
    }
    match by {
        Comparison::Classes {
            left: l,
            right: r,
            collation,
        } => {
            let apply = |value: &Value, affinity: Option<Affinity>| match (value, affinity) {
                (Value::Int(_) | Value::Float(_) | Value::Bytes(_), None) => value.clone(),
                (_, affinity) => apply_affinity(value.clone(), affinity.unwrap_or(Affinity::Blob)),
            };
            let (left, right) = (apply(left, l), apply(right, r));
            compare_classes(&left, &right, collation)
        }
        Comparison::Exact => match (left, right) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(_) | Value::Text(_), _) | (_, Value::Float(_) | Value::Text(_)) => {
                compare_floats(as_float(left), as_float(right))
            }
            _ => as_decimal(left).cmp(&as_decimal(right)),
        },
        Comparison::Double => compare_floats(as_float(left), as_float(right)),
        Comparison::Text(collation) => match (left, right) {
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => collate::compare(collation, &mysql_text(left), &mysql_text(right)),
        },
        Comparison::DateTime => match (as_datetime(left), as_datetime(right)) {
            (Some(a), Some(b)) => a.cmp(&b),
            // A text that is no time is compared as text.
            _ => mysql_text(left).cmp(&mysql_text(right)),
        },
        Comparison::Time => {
            let time = |value: &Value| match value {
                Value::Time(t) => Some(*t),
                Value::Text(text) => temporal::parse_time(text),
                _ => None,
            };
            match (time(left), time(right)) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => mysql_text(left).cmp(&mysql_text(right)),
            }
        }
        Comparison::Json => match (json::comparable(left), json::comparable(right)) {
            (Value::Text(a), Value::Text(b)) => a.cmp(&b),
            (Value::Text(_), _) => Ordering::Greater,
            (_, Value::Text(_)) => Ordering::Less,
            (a, b) => compare(Comparison::Exact, &a, &b),
        },
    }
}

fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

fn compare_classes(left: &Value, right: &Value, collation: super::types::Collation) -> Ordering {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(a), Value::Float(b)) => compare_int_float(*a, *b),
        (Value::Float(a), Value::Int(b)) => compare_int_float(*b, *a).reverse(),
        (Value::Float(a), Value::Float(b)) => compare_floats(*a, *b),
        (Value::Text(a), Value::Text(b)) => collate::compare(collation, a, b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        _ => class(left).cmp(&class(right)),
    }
}

/// Exact, although not every integer is a floating-point number.
fn compare_int_float(a: i64, b: f64) -> Ordering {
    if b >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    if b < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    let cut = b as i64;
    a.cmp(&cut)
        .then_with(|| compare_floats(0.0, b - cut as f64))
}

/// A value as a point in time, if it is one.
pub fn as_datetime(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(t) | Value::TimestampTz(t) => Some(*t),
        Value::Date(d) => Some(i64::from(*d) * civil::DAY_MICROS),
        Value::Text(text) => temporal::parse_datetime(text),
        Value::Int(i) => datetime_of_number(*i),
        Value::Decimal(d) => datetime_of_number(d.trunc().to_i64()?),
        _ => None,
    }
}

/// 20261130 or 20261130123000.
fn datetime_of_number(number: i64) -> Option<i64> {
    let (date, time) = match number {
        ..100_000_000 => (number, 0),
        _ => (number / 1_000_000, number % 1_000_000),
    };
    let date_text = format!("{date:08}");
    let days = temporal::parse_date(&date_text)?;
    let (h, m, s) = (time / 10_000, time / 100 % 100, time % 100);
    if h > 23 || m > 59 || s > 59 {
        return None;
    }
    Some(i64::from(days) * civil::DAY_MICROS + ((h * 60 + m) * 60 + s) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_sqlite_prints_them() {
        // From the shell of SQLite 3.40.
        for (x, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1.0e+15"),
            (123456789012345.0, "123456789012345.0"),
            (1e-5, "1.0e-05"),
            (0.0001, "0.0001"),
            (1.0 / 3.0, "0.333333333333333"),
            (2.5e100, "2.5e+100"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(sqlite_float_text(x), text);
        }
    }

    #[test]
    fn a_number_is_what_a_text_begins_with() {
        for (text, value, all) in [
            ("12", Value::Int(12), true),
            (" 12 ", Value::Int(12), true),
            ("12abc", Value::Int(12), false),
            ("1.5e1x", Value::Float(15.0), false),
            (".5", Value::Float(0.5), true),
            ("abc", Value::Int(0), false),
            ("", Value::Int(0), false),
            ("-3", Value::Int(-3), true),
            ("1e", Value::Int(1), false),
        ] {
            assert_eq!(number_of_text(text), (value, all), "{text}");
        }
    }
}
