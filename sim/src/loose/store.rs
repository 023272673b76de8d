//! Converting a value to the type of a column: what an `INSERT` or `UPDATE` of MySQL stores, and its
//! errors in strict mode (MySQL manual, "Server SQL Modes", strict mode). SQLite applies an affinity
//! and never refuses.

use rowlock_model::value::civil;
use rowlock_model::{DbError, Dialect, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::catalog::Column;
use super::errors;
use super::json;
use super::storage::Stop;
use super::temporal;
use super::types::{Collation, DeclaredType};
use super::value::{
    apply_affinity, as_datetime, as_decimal, as_float, mysql_text, number_of_text, round_decimal,
};

/// What went wrong when a value was converted, and what is stored where that is allowed.
#[derive(Debug)]
struct Problem {
    number: u16,
    sqlstate: &'static str,
    what: String,
    instead: Value,
}

/// The value that a column stores for `value`; row is counted from 1, for messages.
///
/// # Errors
/// 1264, 1265, 1292, 1366, 1406 and the like in strict mode; outside of it the nearest value is stored.
pub fn store(
    column: &Column,
    value: Value,
    strict: bool,
    row: usize,
    dialect: Dialect,
) -> Result<Value, DbError> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    if let DeclaredType::Sqlite { affinity, .. } = &column.ty {
        return Ok(apply_affinity(value, *affinity));
    }
    if column.collation == Collation::Latin1SwedishCi
        && value.as_str().is_some_and(|text| !text.is_ascii())
    {
        let what = "a text in latin1 that is not ASCII";
        return Err(DbError::unsupported(what, None));
    }
    if column.collation == Collation::Utf8mb3GeneralCi
        && value
            .as_str()
            .is_some_and(|text| text.chars().any(|c| c as u32 > 0xFFFF))
    {
        let what = "a character outside of the basic plane in utf8mb3";
        return Err(DbError::unsupported(what, None));
    }
    match to_type(&column.ty, value, dialect) {
        Ok(value) => Ok(value),
        Err(problem) if strict => {
            let place = format!(" for column '{}' at row {row}", column.name);
            let message = format!("{}{place}", problem.what);
            Err(errors::mysql(problem.number, problem.sqlstate, message))
        }
        Err(problem) => Ok(problem.instead),
    }
}

/// The value of `CAST(value AS type)`: what cannot be converted is NULL or the nearest value.
pub(super) fn convert(
    declared: &DeclaredType,
    value: Value,
    dialect: Dialect,
) -> Result<Value, Stop> {
    Ok(match to_type(declared, value, dialect) {
        Ok(value) => value,
        Err(problem) => match declared {
            DeclaredType::Date
            | DeclaredType::DateTime(_)
            | DeclaredType::Timestamp(_)
            | DeclaredType::Time(_) => Value::Null,
            _ => problem.instead,
        },
    })
}

fn to_type(declared: &DeclaredType, value: Value, dialect: Dialect) -> Result<Value, Problem> {
    // MySQL rounds what is finer than the type, MariaDB cuts it.
    let fit = |micros: i64, fsp: u8| match dialect {
        Dialect::MariaDb => temporal::cut(micros, fsp),
        _ => temporal::round(micros, fsp),
    };
    match declared {
        DeclaredType::Int { bytes, unsigned } => integer(&value, *bytes, *unsigned),
        DeclaredType::Decimal {
            precision,
            scale,
            unsigned,
        } => decimal(&value, *precision, *scale, *unsigned).map_err(|problem| {
            match (problem.number, dialect, &value) {
                // MySQL does not cut a text to the number that it begins with.
                (1265, Dialect::MySql, Value::Text(text)) => Problem {
                    number: 1366,
                    sqlstate: "HY000",
                    what: format!("Incorrect decimal value: '{text}'"),
                    ..problem
                },
                _ => problem,
            }
        }),
        DeclaredType::Float => number(&value, "double").map(|x| Value::Float(f64::from(x as f32))),
        DeclaredType::Double => number(&value, "double").map(Value::Float),
        DeclaredType::Char(length) => {
            let text = mysql_text(&value);
            characters(text.trim_end_matches(' '), *length)
        }
        DeclaredType::Varchar(length) => characters(&mysql_text(&value), *length),
        DeclaredType::Text(length) => {
            let text = mysql_text(&value);
            match text.len() as u64 > u64::from(*length) {
                true => Err(too_long(Value::text(&text[..*length as usize]))),
                false => Ok(Value::Text(text)),
            }
        }
        DeclaredType::Binary(length) => {
            let mut bytes = bytes_of(&value);
            if bytes.len() > *length as usize {
                bytes.truncate(*length as usize);
                return Err(too_long(Value::Bytes(bytes.into())));
            }
            bytes.resize(*length as usize, 0);
            Ok(Value::Bytes(bytes.into()))
        }
        DeclaredType::Varbinary(length) | DeclaredType::Blob(length) => {
            let mut bytes = bytes_of(&value);
            if bytes.len() as u64 > u64::from(*length) {
                bytes.truncate(*length as usize);
                return Err(too_long(Value::Bytes(bytes.into())));
            }
            Ok(Value::Bytes(bytes.into()))
        }
        DeclaredType::Date => match as_datetime(&value) {
            Some(micros) => {
                let days = micros.div_euclid(civil::DAY_MICROS);
                Ok(i32::try_from(days).map_or(Value::Null, Value::Date))
            }
            None => Err(not_temporal("date", &value)),
        },
        DeclaredType::DateTime(fsp) | DeclaredType::Timestamp(fsp) => match as_datetime(&value) {
            Some(micros) => Ok(Value::Timestamp(fit(micros, *fsp))),
            None => Err(not_temporal("datetime", &value)),
        },
        DeclaredType::Time(fsp) => {
            let micros = match &value {
                Value::Time(micros) => Some(*micros),
                Value::Timestamp(micros) => Some(micros.rem_euclid(civil::DAY_MICROS)),
                Value::Date(_) => Some(0),
                Value::Text(text) => temporal::parse_time(text).or_else(|| {
                    let at = temporal::parse_datetime(text)?;
                    Some(at.rem_euclid(civil::DAY_MICROS))
                }),
                number => temporal::time_of_number(as_decimal(number)),
            };
            match micros {
                Some(micros) => Ok(Value::Time(fit(micros, *fsp))),
                None => Err(not_temporal("time", &value)),
            }
        }
        DeclaredType::Year => integer(&value, 2, true),
        DeclaredType::Enum(labels) => label(&value, labels),
        DeclaredType::Json => json::stored(&mysql_text(&value)).ok_or_else(|| Problem {
            number: 3140,
            sqlstate: "22032",
            what: "Invalid JSON text: \"Invalid value.\" at position 0 in value".to_owned(),
            instead: Value::Null,
        }),
        DeclaredType::Sqlite { affinity, .. } => Ok(apply_affinity(value, *affinity)),
    }
}

fn out_of_range(instead: Value) -> Problem {
    Problem {
        number: 1264,
        sqlstate: "22003",
        what: "Out of range value".to_owned(),
        instead,
    }
}

fn too_long(instead: Value) -> Problem {
    Problem {
        number: 1406,
        sqlstate: "22001",
        what: "Data too long".to_owned(),
        instead,
    }
}

fn not_temporal(what: &str, value: &Value) -> Problem {
    Problem {
        number: 1292,
        sqlstate: "22007",
        what: format!("Incorrect {what} value: '{}'", mysql_text(value)),
        instead: match what {
            "date" => Value::text("0000-00-00"),
            "datetime" => Value::text("0000-00-00 00:00:00"),
            _ => Value::Time(0),
        },
    }
}

/// A text that is not a number all through: 1366 if it begins with none, 1265 if with one.
fn exact(value: &Value, what: &str) -> Result<Decimal, Problem> {
    let Value::Text(text) = value else {
        return Ok(as_decimal(value));
    };
    let number = as_decimal(value);
    let (_, all) = number_of_text(text);
    if all {
        return Ok(number);
    }
    let instead = match number.to_i64() {
        Some(i) => Value::Int(i),
        None => Value::Int(0),
    };
    let begins = text
        .trim_start()
        .trim_start_matches(['+', '-', '.'])
        .starts_with(|c: char| c.is_ascii_digit());
    Err(match begins {
        true => Problem {
            number: 1265,
            sqlstate: "01000",
            what: "Data truncated".to_owned(),
            instead,
        },
        false => Problem {
            number: 1366,
            sqlstate: "HY000",
            what: format!("Incorrect {what} value: '{text}'"),
            instead,
        },
    })
}

fn integer(value: &Value, bytes: u8, unsigned: bool) -> Result<Value, Problem> {
    let bits = 8 * u32::from(bytes);
    let (low, high): (i128, i128) = match unsigned {
        true => (0, (1 << bits) - 1),
        false => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    };
    let number = match exact(value, "integer") {
        Ok(number) => number,
        Err(mut problem) => {
            if let Value::Int(i) = problem.instead {
                problem.instead = whole(i128::from(i).clamp(low, high));
            }
            return Err(problem);
        }
    };
    let rounded = round_decimal(number, 0).to_i128().unwrap_or(i128::MAX);
    match (low..=high).contains(&rounded) {
        true => Ok(whole(rounded)),
        false => Err(out_of_range(whole(rounded.clamp(low, high)))),
    }
}

fn whole(i: i128) -> Value {
    match i64::try_from(i) {
        Ok(i) => Value::Int(i),
        Err(_) => Value::Decimal(Decimal::from(i)),
    }
}

fn decimal(value: &Value, precision: u8, scale: u8, unsigned: bool) -> Result<Value, Problem> {
    let number = match exact(value, "decimal") {
        Ok(number) => number,
        Err(mut problem) => {
            let nearest = round_decimal(as_decimal(value), scale);
            problem.instead = Value::Decimal(nearest);
            return Err(problem);
        }
    };
    let rounded = round_decimal(number, scale);
    let limit = Decimal::from(10_i128.pow(u32::from(precision.saturating_sub(scale)).min(28)));
    if rounded.abs() >= limit || (unsigned && rounded.is_sign_negative() && !rounded.is_zero()) {
        let largest = limit - Decimal::new(1, u32::from(scale));
        let nearest = match rounded.is_sign_negative() {
            true if unsigned => Decimal::new(0, u32::from(scale)),
            true => -largest,
            false => largest,
        };
        return Err(out_of_range(Value::Decimal(nearest)));
    }
    Ok(Value::Decimal(rounded))
}

fn number(value: &Value, what: &str) -> Result<f64, Problem> {
    if let Value::Text(text) = value
        && !number_of_text(text).1
    {
        let mut problem = exact(value, what)
            .err()
            .unwrap_or_else(|| out_of_range(Value::Null));
        problem.instead = Value::Float(as_float(value));
        return Err(problem);
    }
    Ok(as_float(value))
}

/// At most `length` characters; spaces beyond are cut without an error.
fn characters(text: &str, length: u32) -> Result<Value, Problem> {
    let end = text.char_indices().nth(length as usize);
    match end {
        None => Ok(Value::text(text)),
        Some((end, _)) if text[end..].trim_end_matches(' ').is_empty() => {
            Ok(Value::text(&text[..end]))
        }
        Some((end, _)) => Err(too_long(Value::text(&text[..end]))),
    }
}

fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => mysql_text(other).as_bytes().to_vec(),
    }
}

fn label(value: &Value, labels: &[std::sync::Arc<str>]) -> Result<Value, Problem> {
    let found = match value {
        Value::Int(i) => usize::try_from(*i - 1).ok().and_then(|i| labels.get(i)),
        other => {
            let text = mysql_text(other);
            let text = text.trim_end_matches(' ');
            labels.iter().find(|label| label.eq_ignore_ascii_case(text))
        }
    };
    match found {
        Some(label) => Ok(Value::Text(label.clone())),
        None => Err(Problem {
            number: 1265,
            sqlstate: "01000",
            what: "Data truncated".to_owned(),
            instead: Value::text(""),
        }),
    }
}
