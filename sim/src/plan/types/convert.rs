//! Conversion of values between types.

use std::sync::Arc;

use rowlock_model::{DbError, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::{Modifier, Type, coerce, datetime, input, number, output};
use crate::plan::catalog::EnumType;

/// A conversion, resolved.
#[derive(Clone, Copy, Debug)]
pub struct Conversion<'a> {
    /// The type of the value.
    pub from: Type,
    /// The type wanted.
    pub to: Type,
    /// Its modifier.
    pub modifier: Option<Modifier>,
    /// Written in the statement (cuts over-long text) or implied (refuses it).
    pub explicit: bool,
    /// The target, if it is an enumeration.
    pub labels: Option<&'a EnumType>,
}

/// The converted value.
///
/// # Errors
/// What the server raises for a value that does not fit.
pub fn convert(value: &Value, how: Conversion<'_>) -> Result<Value, DbError> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let converted = if how.from == how.to {
        value.clone()
    } else {
        change_type(value, how)?
    };
    match how.modifier {
        Some(modifier) => apply_modifier(converted, how.to, modifier, how.explicit),
        None => Ok(converted),
    }
}

fn is_text(ty: Type) -> bool {
    coerce::category(ty) == coerce::Category::String || ty == Type::Unknown
}

fn change_type(value: &Value, how: Conversion<'_>) -> Result<Value, DbError> {
    let (from, to) = (how.from, how.to);
    Ok(match (value, to) {
        (Value::Text(s), _) if is_text(from) && !is_text(to) => from_text(s, how)?,
        (Value::Text(s), Type::Text | Type::Varchar | Type::Name) if from == Type::Char => {
            Value::text(s.trim_end_matches(' '))
        }
        (Value::Text(s), Type::Jsonb) => input::parse(s, Type::Jsonb)?,
        (Value::Bool(b), _) if is_text(to) => Value::text(if *b { "true" } else { "false" }),
        (Value::Text(_), _) => value.clone(),
        (_, _) if is_text(to) => Value::text(output::text(value, from)),
        (
            Value::Int(i),
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid | Type::Xid | Type::Xid8,
        ) => {
            if to == Type::Oid && from == Type::Int4 && *i < 0 {
                return Ok(Value::Int(i64::from(*i as i32 as u32)));
            }
            if from == Type::Xid8 && to == Type::Xid {
                return Ok(Value::Int(*i & 0xffff_ffff));
            }
            Value::Int(number::checked(Some(*i), to)?)
        }
        (Value::Int(i), Type::Float4) => Value::Float(f64::from(*i as f32)),
        (Value::Int(i), Type::Float8) => Value::Float(*i as f64),
        (Value::Int(i), Type::Numeric) => Value::Decimal(Decimal::from(*i)),
        (Value::Int(i), Type::Bool) => Value::Bool(*i != 0),
        (Value::Bool(b), Type::Int4) => Value::Int(i64::from(*b)),
        (Value::Decimal(d), Type::Int2 | Type::Int4 | Type::Int8) => {
            Value::Int(number::decimal_to_int(d, to)?)
        }
        (Value::Decimal(d), Type::Float4 | Type::Float8) => input::parse(&d.to_string(), to)?,
        (Value::Float(x), Type::Int2 | Type::Int4 | Type::Int8) => {
            Value::Int(number::float_to_int(*x, to)?)
        }
        (Value::Float(x), Type::Float4) => Value::Float(f64::from(*x as f32)),
        (Value::Float(x), Type::Float8) => Value::Float(*x),
        (Value::Float(x), Type::Numeric) => Value::Decimal(number::float_to_decimal(*x)?),
        (Value::Date(d), Type::Timestamp) => Value::Timestamp(day_instant(*d)),
        (Value::Date(d), Type::TimestampTz) => Value::TimestampTz(day_instant(*d)),
        (Value::Timestamp(t), Type::TimestampTz) => Value::TimestampTz(*t),
        (Value::TimestampTz(t), Type::Timestamp) => Value::Timestamp(*t),
        (Value::Timestamp(t) | Value::TimestampTz(t), Type::Date) => Value::Date(match *t {
            datetime::INFINITY => i32::MAX,
            i64::MIN => i32::MIN,
            t => t.div_euclid(datetime::DAY) as i32,
        }),
        (Value::Timestamp(t) | Value::TimestampTz(t), Type::Time) => {
            Value::Time(t.rem_euclid(datetime::DAY))
        }
        (Value::Time(t), Type::Interval) => Value::Interval {
            months: 0,
            days: 0,
            micros: *t,
        },
        (Value::Interval { micros, .. }, Type::Time) => {
            Value::Time(micros.rem_euclid(datetime::DAY))
        }
        (Value::Array(items), Type::Array(target)) => {
            let source = match from {
                Type::Array(element) => *element,
                other => other,
            };
            let each = Conversion {
                from: source,
                to: *target,
                ..how
            };
            let converted: Result<Vec<Value>, DbError> = items
                .iter()
                .map(|item| {
                    convert(
                        item,
                        Conversion {
                            modifier: None,
                            ..each
                        },
                    )
                })
                .collect();
            Value::Array(converted?.into())
        }
        _ => {
            return Err(DbError::unsupported(
                format!("conversion of {} to {}", from.name(), to.name()),
                None,
            ));
        }
    })
}

fn day_instant(day: i32) -> i64 {
    match day {
        i32::MAX => datetime::INFINITY,
        i32::MIN => i64::MIN,
        day => i64::from(day) * datetime::DAY,
    }
}

fn from_text(s: &Arc<str>, how: Conversion<'_>) -> Result<Value, DbError> {
    if let Some(labels) = how.labels {
        return if labels.labels.iter().any(|l| **l == **s) {
            Ok(Value::Text(s.clone()))
        } else {
            Err(DbError::postgres(
                "22P02",
                format!("invalid input value for enum {}: \"{s}\"", labels.name),
            ))
        };
    }
    input::parse(s, how.to)
}

/// Applies a declared length, precision or fraction.
fn apply_modifier(
    value: Value,
    ty: Type,
    modifier: Modifier,
    explicit: bool,
) -> Result<Value, DbError> {
    Ok(match (value, modifier) {
        (Value::Array(items), _) if matches!(ty, Type::Array(_)) => {
            let Type::Array(element) = ty else {
                return Ok(Value::Array(items));
            };
            let items: Result<Vec<Value>, DbError> = items
                .iter()
                .map(|v| apply_modifier(v.clone(), *element, modifier, explicit))
                .collect();
            Value::Array(items?.into())
        }
        (Value::Text(s), Modifier::Length(length)) => fit_text(s, ty, length as usize, explicit)?,
        (Value::Decimal(d), Modifier::Decimal { precision, scale }) => {
            Value::Decimal(fit_decimal(&d, precision, scale)?)
        }
        (Value::Timestamp(t), Modifier::Fraction(n)) => Value::Timestamp(fit_fraction(t, n)),
        (Value::TimestampTz(t), Modifier::Fraction(n)) => Value::TimestampTz(fit_fraction(t, n)),
        (Value::Time(t), Modifier::Fraction(n)) => Value::Time(fit_fraction(t, n)),
        (
            Value::Interval {
                months,
                days,
                micros,
            },
            Modifier::Fraction(n),
        ) => Value::Interval {
            months,
            days,
            micros: fit_fraction(micros, n),
        },
        (other, _) => other,
    })
}

fn fit_text(s: Arc<str>, ty: Type, length: usize, explicit: bool) -> Result<Value, DbError> {
    let count = s.chars().count();
    if count > length {
        let cut = s.char_indices().nth(length).map_or(s.len(), |(i, _)| i);
        if !explicit && !s[cut..].bytes().all(|b| b == b' ') {
            return Err(DbError::postgres(
                "22001",
                format!("value too long for type {}({length})", ty.name()),
            ));
        }
        return Ok(Value::text(&s[..cut]));
    }
    if ty == Type::Char && count < length {
        return Ok(Value::text(format!("{s}{}", " ".repeat(length - count))));
    }
    Ok(Value::Text(s))
}

fn fit_decimal(d: &Decimal, precision: u32, scale: u32) -> Result<Decimal, DbError> {
    let rounded = number::round_decimal(d, scale);
    let limit = precision.saturating_sub(scale);
    let whole = rounded.trunc().abs().to_u128().unwrap_or(u128::MAX);
    if limit < 29 && whole >= 10u128.pow(limit) {
        return Err(DbError::postgres("22003", "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {}.",
            if limit == 0 { "1".to_owned() } else { format!("10^{limit}") }
        )));
    }
    Ok(rounded)
}

fn fit_fraction(micros: i64, digits: u32) -> i64 {
    if micros == datetime::INFINITY || micros == i64::MIN || digits >= 6 {
        return micros;
    }
    let unit = 10i64.pow(6 - digits);
    let half = unit / 2;
    if micros >= 0 {
        (micros + half) / unit * unit
    } else {
        -((-micros + half) / unit * unit)
    }
}
