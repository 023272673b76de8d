//! Functions of numbers.

use rowlock_model::{DbError, Value};
use rust_decimal::Decimal;

use super::Function;
use super::function::{Arithmetic, Bits, Rounding};
use crate::plan::types::Type;
use crate::plan::types::number::{
    add, checked, divide, division_by_zero, multiply, out_of_range, remainder, round_decimal,
};

/// The value of a numeric function.
///
/// # Errors
/// 22003, 22012, 2201F, 2201E.
pub(super) fn call(function: Function, args: &[&Value]) -> Result<Value, DbError> {
    match (function, args) {
        (Function::Arithmetic(op, ty), [Value::Int(a), Value::Int(b)]) => {
            integer(op, *a, *b, ty).map(Value::Int)
        }
        (Function::Arithmetic(op, _), [Value::Decimal(a), Value::Decimal(b)]) => {
            decimal(op, a, b).map(Value::Decimal)
        }
        (Function::Arithmetic(op, ty), [Value::Float(a), Value::Float(b)]) => {
            float(op, *a, *b, ty).map(Value::Float)
        }
        (Function::Negate(ty), [Value::Int(a)]) => Ok(Value::Int(checked(a.checked_neg(), ty)?)),
        (Function::Negate(_), [Value::Decimal(a)]) => Ok(Value::Decimal(negated(*a))),
        (Function::Negate(_), [Value::Float(a)]) => Ok(Value::Float(-a)),
        (Function::Abs(ty), [Value::Int(a)]) => Ok(Value::Int(checked(a.checked_abs(), ty)?)),
        (Function::Abs(_), [Value::Decimal(a)]) => Ok(Value::Decimal(a.abs())),
        (Function::Abs(_), [Value::Float(a)]) => Ok(Value::Float(a.abs())),
        (Function::Sign(_), [Value::Decimal(a)]) => Ok(Value::Decimal(if a.is_zero() {
            Decimal::ZERO
        } else if a.is_sign_negative() {
            Decimal::NEGATIVE_ONE
        } else {
            Decimal::ONE
        })),
        (Function::Sign(_), [Value::Float(a)]) => {
            Ok(Value::Float(if *a == 0.0 { 0.0 } else { a.signum() }))
        }
        (Function::Bits(op, ty), [Value::Int(a), Value::Int(b)]) => {
            Ok(Value::Int(bits(op, *a, *b, ty)))
        }
        (Function::BitNot(_), [Value::Int(a)]) => Ok(Value::Int(!a)),
        (Function::Power, [Value::Float(a), Value::Float(b)]) => {
            if *a == 0.0 && *b < 0.0 {
                return Err(DbError::postgres(
                    "2201F",
                    "zero raised to a negative power is undefined",
                ));
            }
            finite(a.powf(*b), a.is_finite() && b.is_finite()).map(Value::Float)
        }
        (Function::SquareRoot, [Value::Float(a)]) if *a < 0.0 => Err(DbError::postgres(
            "2201F",
            "cannot take square root of a negative number",
        )),
        (Function::SquareRoot, [Value::Float(a)]) => Ok(Value::Float(a.sqrt())),
        (Function::Exp, [Value::Float(a)]) => finite(a.exp(), a.is_finite()).map(Value::Float),
        (Function::Ln, [Value::Float(a)]) if *a <= 0.0 => Err(DbError::postgres(
            "2201E",
            if *a == 0.0 {
                "cannot take logarithm of zero"
            } else {
                "cannot take logarithm of a negative number"
            },
        )),
        (Function::Ln, [Value::Float(a)]) => Ok(Value::Float(a.ln())),
        (Function::Round(how, _), [Value::Float(a)]) => Ok(Value::Float(match how {
            Rounding::Up => a.ceil(),
            Rounding::Down => a.floor(),
            Rounding::Nearest => a.round_ties_even(),
            Rounding::Zero => a.trunc(),
        })),
        (Function::Round(how, _), [Value::Decimal(a)]) => Ok(Value::Decimal(whole(how, a))),
        (Function::RoundTo(how), [Value::Decimal(a), Value::Int(n)]) => {
            Ok(Value::Decimal(round_to(how, a, *n)))
        }
        (Function::WholeQuotient, [Value::Decimal(a), Value::Decimal(b)]) => {
            if b.is_zero() {
                return Err(division_by_zero());
            }
            let rest = remainder(a, b)?;
            let exact = add(a, &negated(rest))?;
            Ok(Value::Decimal(whole(
                Rounding::Nearest,
                &divide(&exact, b)?,
            )))
        }
        (function, args) => panic!("{function:?} got {args:?}"),
    }
}

/// Zero has no sign in SQL.
fn negated(a: Decimal) -> Decimal {
    if a.is_zero() { a } else { -a }
}

/// Integer arithmetic in the range of `ty`; division truncates toward zero.
fn integer(op: Arithmetic, a: i64, b: i64, ty: Type) -> Result<i64, DbError> {
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(division_by_zero()),
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Modulo => Some(a.checked_rem(b).unwrap_or(0)),
    };
    checked(result, ty)
}

fn decimal(op: Arithmetic, a: &Decimal, b: &Decimal) -> Result<Decimal, DbError> {
    match op {
        Arithmetic::Add => add(a, b),
        Arithmetic::Subtract => add(a, &negated(*b)),
        Arithmetic::Multiply => multiply(a, b),
        Arithmetic::Divide => divide(a, b),
        Arithmetic::Modulo => remainder(a, b),
    }
}

fn float(op: Arithmetic, a: f64, b: f64, ty: Type) -> Result<f64, DbError> {
    let result = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide if b == 0.0 => return Err(division_by_zero()),
        Arithmetic::Divide => a / b,
        Arithmetic::Modulo => return Err(out_of_range(ty)),
    };
    let result = if ty == Type::Float4 {
        f64::from(result as f32)
    } else {
        result
    };
    finite(result, a.is_finite() && b.is_finite())
}

/// An infinite result of finite operands is an overflow.
fn finite(result: f64, operands_are: bool) -> Result<f64, DbError> {
    if result.is_infinite() && operands_are {
        return Err(DbError::postgres("22003", "value out of range: overflow"));
    }
    Ok(result)
}

fn bits(op: Bits, a: i64, b: i64, ty: Type) -> i64 {
    let width = match ty {
        // Shifts of smallint are done in 32 bits.
        Type::Int2 | Type::Int4 => 32,
        _ => 64,
    };
    let shift = (b.rem_euclid(width)) as u32;
    match op {
        Bits::And => a & b,
        Bits::Or => a | b,
        Bits::Xor => a ^ b,
        Bits::Left => match ty {
            Type::Int2 => i64::from(((a as i32) << shift) as i16),
            Type::Int4 => i64::from((a as i32) << shift),
            _ => a << shift,
        },
        Bits::Right => a >> shift,
    }
}

/// To an integer, of scale 0.
fn whole(how: Rounding, a: &Decimal) -> Decimal {
    let mut result = match how {
        Rounding::Up => a.ceil(),
        Rounding::Down => a.floor(),
        Rounding::Nearest => round_decimal(a, 0),
        Rounding::Zero => a.trunc(),
    };
    result.rescale(0);
    if result.is_zero() {
        Decimal::ZERO
    } else {
        result
    }
}

fn round_to(how: Rounding, a: &Decimal, places: i64) -> Decimal {
    if places < 0 {
        let unit = 10i128.pow((-places).min(28) as u32);
        let mantissa = whole(Rounding::Zero, a).mantissa();
        let half = if how == Rounding::Nearest {
            unit / 2
        } else {
            0
        };
        let rounded = (mantissa.abs() + half) / unit * unit * mantissa.signum();
        return Decimal::try_from_i128_with_scale(rounded, 0).unwrap_or(Decimal::ZERO);
    }
    let scale = places.min(28) as u32;
    if how == Rounding::Nearest {
        return round_decimal(a, scale);
    }
    let mut result = a.trunc_with_scale(scale);
    result.rescale(scale);
    result
}
