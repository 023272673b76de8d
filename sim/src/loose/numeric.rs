//! Functions that round.

use std::cmp::Ordering;

use rowlock_model::{Dialect, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::errors;
use super::function::Function;
use super::storage::Stop;
use super::value::{as_decimal, as_float, as_int_rounded, number_of_text, round_decimal};

/// `ABS`, `ROUND`, `TRUNCATE`, `FLOOR`, `CEIL`, `SIGN`.
///
/// # Errors
/// The absolute value of the smallest integer.
pub(super) fn number(function: Function, args: &[Value], dialect: Dialect) -> Result<Value, Stop> {
    let value = &args[0];
    let digits = args.get(1).map_or(0, |d| as_int_rounded(d).unwrap_or(0));
    if dialect == Dialect::Sqlite {
        return Ok(match (function, value) {
            (Function::Abs, Value::Int(i)) => match i.checked_abs() {
                Some(i) => Value::Int(i),
                None => return Err(errors::sqlite(1, "integer overflow").into()),
            },
            (Function::Abs, other) => Value::Float(as_float(other).abs()),
            (Function::Sign, Value::Bytes(_)) => Value::Null,
            (Function::Sign, Value::Text(text)) if !number_of_text(text).1 => Value::Null,
            (Function::Sign, other) => {
                let x = as_float(other);
                Value::Int(i64::from(x > 0.0) - i64::from(x < 0.0))
            }
            (_, other) => {
                let scale = 10_f64.powi(i32::try_from(digits.clamp(0, 30)).unwrap_or(0));
                Value::Float((as_float(other) * scale).round() / scale)
            }
        });
    }
    if let Value::Float(x) = value {
        let scale = 10_f64.powi(i32::try_from(digits.clamp(-30, 30)).unwrap_or(0));
        return Ok(match function {
            Function::Abs => Value::Float(x.abs()),
            Function::Floor => Value::Float(x.floor()),
            Function::Ceil => Value::Float(x.ceil()),
            Function::Sign => Value::Int(i64::from(*x > 0.0) - i64::from(*x < 0.0)),
            _ => Value::Float((x * scale).round_ties_even() / scale),
        });
    }
    if let Value::Text(_) = value {
        return number(
            function,
            &[&[Value::Float(as_float(value))], &args[1..]].concat(),
            dialect,
        );
    }
    let exact = as_decimal(value);
    let is_int = matches!(value, Value::Int(_));
    let whole = |d: Decimal| d.to_i64().map_or(Value::Decimal(d), Value::Int);
    Ok(match function {
        Function::Abs if is_int => whole(exact.abs()),
        Function::Abs => Value::Decimal(exact.abs()),
        Function::Floor => whole(exact.floor()),
        Function::Ceil => whole(exact.ceil()),
        Function::Sign => Value::Int(match exact.cmp(&Decimal::ZERO) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        _ if digits < 0 => {
            let unit = Decimal::from(10_i64.pow(u32::try_from(-digits).unwrap_or(18).min(18)));
            whole(round_decimal(exact / unit, 0) * unit)
        }
        _ if is_int => value.clone(),
        _ => {
            let scale = u8::try_from(digits).unwrap_or(28).min(exact.scale() as u8);
            Value::Decimal(round_decimal(exact, scale))
        }
    })
}
