//! Operators on numbers, dates and intervals, and conversions.

use rowlock_model::value::civil;
use rowlock_model::{DbError, Dialect, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::errors;
use super::expr::{Binary, CastTarget, IntervalUnit, Numbers, Unary};
use super::storage::Stop;
use super::temporal;
use super::types::Affinity;
use super::value::{
    apply_affinity, as_datetime, as_decimal, as_float, as_int_cut, as_int_rounded, number_of_text,
    round_decimal, sqlite_text,
};

fn out_of_range(what: &str) -> Stop {
    errors::mysql(1690, "22003", format!("{what} value is out of range")).into()
}

pub(super) fn unary(op: Unary, numbers: Numbers, value: &Value) -> Result<Value, Stop> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    match (op, numbers) {
        (Unary::Negate, Numbers::Dynamic) => Ok(match numeric(value) {
            Value::Int(i) => i
                .checked_neg()
                .map_or(Value::Float(-(i as f64)), Value::Int),
            other => Value::Float(-as_float(&other)),
        }),
        (Unary::BitNot, Numbers::Dynamic) => Ok(Value::Int(!as_int_cut(value))),
        (Unary::Plus, _) => Ok(value.clone()),
        (Unary::Negate, Numbers::Double) => Ok(Value::Float(-as_float(value))),
        (Unary::Negate, Numbers::Decimal { scale }) => {
            Ok(Value::Decimal(round_decimal(-as_decimal(value), scale)))
        }
        (Unary::Negate, _) => as_int_rounded(value)
            .and_then(i64::checked_neg)
            .map(Value::Int)
            .ok_or_else(|| out_of_range("BIGINT")),
        (Unary::BitNot, _) => Ok(unsigned_value(!bits(value))),
    }
}

/// A value as 64 bits (MySQL's bit operators).
fn bits(value: &Value) -> u64 {
    match value {
        Value::Int(i) => *i as u64,
        Value::Decimal(d) => {
            let whole = round_decimal(*d, 0);
            match whole.is_sign_negative() {
                true => whole.to_i64().unwrap_or(i64::MIN) as u64,
                false => whole.to_u64().unwrap_or(u64::MAX),
            }
        }
        other => as_int_rounded(other).unwrap_or(0) as u64,
    }
}

fn unsigned_value(bits: u64) -> Value {
    match i64::try_from(bits) {
        Ok(i) => Value::Int(i),
        Err(_) => Value::Decimal(Decimal::from(bits)),
    }
}

/// A value as SQLite's arithmetic sees it: an integer or a floating-point number.
fn numeric(value: &Value) -> Value {
    match value {
        Value::Int(_) | Value::Float(_) => value.clone(),
        Value::Bool(b) => Value::Int(i64::from(*b)),
        Value::Bytes(bytes) => number_of_text(&String::from_utf8_lossy(bytes)).0,
        other => number_of_text(&sqlite_text(other)).0,
    }
}

pub(super) fn binary(
    op: Binary,
    numbers: Numbers,
    left: &Value,
    right: &Value,
) -> Result<Value, Stop> {
    match numbers {
        Numbers::Dynamic => Ok(dynamic(op, left, right)),
        Numbers::Int => integers(op, left, right, false),
        Numbers::Unsigned => match op {
            Binary::BitAnd => Ok(unsigned_value(bits(left) & bits(right))),
            Binary::BitOr => Ok(unsigned_value(bits(left) | bits(right))),
            Binary::BitXor => Ok(unsigned_value(bits(left) ^ bits(right))),
            Binary::ShiftLeft => Ok(unsigned_value(shift(bits(left), bits(right), true))),
            Binary::ShiftRight => Ok(unsigned_value(shift(bits(left), bits(right), false))),
            _ => integers(op, left, right, true),
        },
        Numbers::Decimal { scale } => decimals(op, left, right, scale),
        Numbers::Double => Ok(doubles(op, as_float(left), as_float(right))),
    }
}

fn shift(bits: u64, by: u64, left: bool) -> u64 {
    match u32::try_from(by) {
        Ok(by) if by < 64 && left => bits << by,
        Ok(by) if by < 64 => bits >> by,
        _ => 0,
    }
}

/// SQLite: integers as long as they fit, else floating point.
fn dynamic(op: Binary, left: &Value, right: &Value) -> Value {
    match op {
        Binary::Concat => {
            let text = format!("{}{}", sqlite_text(left), sqlite_text(right));
            return Value::text(text);
        }
        Binary::BitAnd => return Value::Int(as_int_cut(left) & as_int_cut(right)),
        Binary::BitOr => return Value::Int(as_int_cut(left) | as_int_cut(right)),
        Binary::ShiftLeft => return Value::Int(sqlite_shift(as_int_cut(left), as_int_cut(right))),
        Binary::ShiftRight => {
            let by = as_int_cut(right);
            return Value::Int(sqlite_shift(as_int_cut(left), by.saturating_neg()));
        }
        _ => {}
    }
    let (l, r) = (numeric(left), numeric(right));
    if let (Value::Int(a), Value::Int(b)) = (&l, &r) {
        let whole = match op {
            Binary::Add => a.checked_add(*b),
            Binary::Subtract => a.checked_sub(*b),
            Binary::Multiply => a.checked_mul(*b),
            Binary::Divide if *b == 0 => return Value::Null,
            Binary::Divide => a.checked_div(*b),
            Binary::Modulo if *b == 0 => return Value::Null,
            Binary::Modulo => Some(a.checked_rem(*b).unwrap_or(0)),
            _ => None,
        };
        if let Some(whole) = whole {
            return Value::Int(whole);
        }
    }
    let (a, b) = (as_float(&l), as_float(&r));
    let result = match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide if b == 0.0 => return Value::Null,
        Binary::Divide => a / b,
        Binary::Modulo => {
            let (a, b) = (a as i64, b as i64);
            if b == 0 {
                return Value::Null;
            }
            a.checked_rem(b).unwrap_or(0) as f64
        }
        _ => return Value::Null,
    };
    match result.is_nan() {
        true => Value::Null,
        false => Value::Float(result),
    }
}

fn sqlite_shift(value: i64, by: i64) -> i64 {
    match by {
        64.. => 0,
        0.. => value << by,
        -63..0 => value >> -by,
        _ if value < 0 => -1,
        _ => 0,
    }
}

/// MySQL: `BIGINT` and `BIGINT UNSIGNED`.
fn integers(op: Binary, left: &Value, right: &Value, unsigned: bool) -> Result<Value, Stop> {
    let whole = |value: &Value| round_decimal(as_decimal(value), 0).to_i128().unwrap_or(0);
    let (a, b) = (whole(left), whole(right));
    let result = match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a.checked_mul(b).ok_or_else(|| out_of_range("BIGINT"))?,
        Binary::IntDivide | Binary::Modulo if b == 0 => return Ok(Value::Null),
        Binary::IntDivide => {
            let quotient = as_decimal(left)
                .checked_div(as_decimal(right))
                .ok_or_else(|| out_of_range("BIGINT"))?;
            quotient.trunc().to_i128().unwrap_or(0)
        }
        Binary::Modulo => a % b,
        _ => return Err(DbError::unsupported("this operator on integers", None).into()),
    };
    if unsigned {
        return match u64::try_from(result) {
            Ok(bits) => Ok(unsigned_value(bits)),
            Err(_) => Err(out_of_range("BIGINT UNSIGNED")),
        };
    }
    match i64::try_from(result) {
        Ok(i) => Ok(Value::Int(i)),
        Err(_) => Err(out_of_range("BIGINT")),
    }
}

fn decimals(op: Binary, left: &Value, right: &Value, scale: u8) -> Result<Value, Stop> {
    let (a, b) = (as_decimal(left), as_decimal(right));
    let result = match op {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide | Binary::Modulo if b.is_zero() => return Ok(Value::Null),
        Binary::Divide => a.checked_div(b),
        Binary::Modulo => a.checked_rem(b),
        _ => return Err(DbError::unsupported("this operator on decimals", None).into()),
    };
    match result {
        Some(result) => Ok(Value::Decimal(round_decimal(result, scale))),
        None => Err(out_of_range("DECIMAL")),
    }
}

fn doubles(op: Binary, a: f64, b: f64) -> Value {
    let result = match op {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide | Binary::Modulo if b == 0.0 => return Value::Null,
        Binary::Divide => a / b,
        Binary::Modulo => a % b,
        _ => return Value::Null,
    };
    Value::Float(result)
}

pub(super) fn date_add(
    date: &Value,
    amount: &Value,
    unit: IntervalUnit,
    subtract: bool,
    dialect: Dialect,
) -> Value {
    if amount.is_null() {
        return Value::Null;
    }
    let time_of_day = match date {
        Value::Time(micros) => Some(*micros),
        _ => None,
    };
    let Some(begin) = time_of_day.or_else(|| as_datetime(date)) else {
        return Value::Null;
    };
    let sign = if subtract { -1 } else { 1 };
    let whole = match as_int_rounded(amount) {
        Some(whole) => whole.saturating_mul(sign),
        None => return Value::Null,
    };
    let months = |count: i64| {
        // Beyond a hundred thousand years there is no date.
        let count = Some(count).filter(|count| count.abs() < 1_200_000)?;
        Some(temporal::add_months(begin, count) - begin)
    };
    let micros = match unit {
        IntervalUnit::Microsecond => Some(whole),
        IntervalUnit::Second => as_decimal(amount)
            .checked_mul(Decimal::from(1_000_000))
            .and_then(|micros| micros.round().to_i64())
            .map(|micros| micros.saturating_mul(sign)),
        IntervalUnit::Minute => whole.checked_mul(60_000_000),
        IntervalUnit::Hour => whole.checked_mul(3_600_000_000),
        IntervalUnit::Day => whole.checked_mul(civil::DAY_MICROS),
        IntervalUnit::Week => whole.checked_mul(7 * civil::DAY_MICROS),
        IntervalUnit::Month if time_of_day.is_some() && dialect == Dialect::MariaDb => None,
        IntervalUnit::Month => months(whole),
        IntervalUnit::Quarter => months(whole.saturating_mul(3)),
        IntervalUnit::Year => months(whole.saturating_mul(12)),
    };
    let Some(end) = micros.and_then(|micros| begin.checked_add(micros)) else {
        return Value::Null;
    };
    if time_of_day.is_some() {
        // 838:59:59 is the longest time.
        return match end.abs() <= 3_020_399_999_999 {
            true => Value::Time(end),
            false => Value::Null,
        };
    }
    let year = civil::from_days(end.div_euclid(civil::DAY_MICROS)).0;
    if !(0..=9999).contains(&year) {
        return Value::Null;
    }
    match date {
        Value::Date(_) if unit.is_whole_days() => {
            let days = end.div_euclid(civil::DAY_MICROS);
            i32::try_from(days).map_or(Value::Null, Value::Date)
        }
        // A text stays a text.
        Value::Text(text) if unit.is_whole_days() && !text.contains(':') => {
            Value::text(civil::date(end.div_euclid(civil::DAY_MICROS)))
        }
        Value::Text(_) => {
            let fsp = if end % 1_000_000 == 0 { 0 } else { 6 };
            Value::text(temporal::datetime_text(end, fsp))
        }
        _ => Value::Timestamp(end),
    }
}

pub(super) fn cast(value: Value, to: &CastTarget, dialect: Dialect) -> Result<Value, Stop> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    match to {
        CastTarget::Affinity(affinity) => Ok(sqlite_cast(value, *affinity)),
        CastTarget::Signed => Ok(Value::Int(match &value {
            Value::Text(_) | Value::Bytes(_) => as_int_cut(&value),
            other => as_int_rounded(other).unwrap_or(i64::MAX),
        })),
        CastTarget::Unsigned => Ok(match &value {
            Value::Text(_) | Value::Bytes(_) => unsigned_value(as_int_cut(&value) as u64),
            other => unsigned_value(bits(other)),
        }),
        CastTarget::Declared(declared) => super::store::convert(declared, value, dialect),
    }
}

/// `CAST` of SQLite ("SQL Language Expressions", section 13).
fn sqlite_cast(value: Value, affinity: Affinity) -> Value {
    match affinity {
        Affinity::Text => Value::Text(sqlite_text(&value)),
        Affinity::Blob => match value {
            Value::Bytes(_) => value,
            other => Value::Bytes(sqlite_text(&other).as_bytes().into()),
        },
        Affinity::Integer => match value {
            Value::Float(x) => Value::Int(x as i64),
            other => Value::Int(as_int_cut(&other)),
        },
        Affinity::Real => Value::Float(as_float(&value)),
        Affinity::Numeric => match &value {
            Value::Text(_) | Value::Bytes(_) => {
                let number = numeric(&value);
                apply_affinity(number, Affinity::Numeric)
            }
            _ => value,
        },
    }
}
