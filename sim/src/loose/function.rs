//! Pure functions.

use std::cmp::Ordering;

use sha2::{Digest, Sha256};

use rowlock_model::value::civil;
use rowlock_model::{DbError, Dialect, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::expr::Comparison;
use super::sqlite_time;
use super::storage::Stop;
use super::temporal;
use super::types::Collation;
use super::value::{
    as_datetime, as_decimal, as_float, as_int_cut, as_int_rounded, compare, mysql_text,
    round_decimal, sqlite_text,
};

/// A pure function: its value depends on its arguments only. NULL if an argument is, except where
/// said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `ABS(x)`.
    Abs,
    /// `ROUND(x, n)`.
    Round,
    /// `FLOOR(x)`.
    Floor,
    /// `CEIL(x)`.
    Ceil,
    /// `SIGN(x)`.
    Sign,
    /// `COALESCE(..)`, `IFNULL(a, b)`: the first that is not NULL.
    Coalesce,
    /// `GREATEST(..)`, scalar `MAX` of SQLite.
    Greatest,
    /// `LEAST(..)`, scalar `MIN` of SQLite.
    Least,
    /// `CONCAT(..)` of MySQL: NULL if any is.
    Concat,
    /// `CONCAT_WS(sep, ..)`: NULLs are left out.
    ConcatWs,
    /// `LENGTH(x)`: bytes (MySQL), characters (SQLite).
    ByteLength,
    /// `CHAR_LENGTH(x)`; `LENGTH` of SQLite.
    CharLength,
    /// `SHA2(x, 256)`: of the bytes of the text, in hexadecimal.
    Sha256,
    /// `LOWER(x)`.
    Lower,
    /// `UPPER(x)`.
    Upper,
    /// `SUBSTR(x, from, count)`.
    Substr,
    /// `LEFT(x, n)`.
    Left,
    /// `RIGHT(x, n)`.
    Right,
    /// `TRIM(x)`, `TRIM(x, chars)`.
    Trim,
    /// `LTRIM`.
    TrimLeft,
    /// `RTRIM`.
    TrimRight,
    /// `REPLACE(x, from, to)`.
    Replace,
    /// `INSTR(x, y)`.
    Instr,
    /// `LOCATE(y, x, from)`, `POSITION(y IN x)`.
    Locate,
    /// `LPAD(x, n, fill)`.
    PadLeft,
    /// `RPAD(x, n, fill)`.
    PadRight,
    /// `REPEAT(x, n)`.
    Repeat,
    /// `REVERSE(x)`.
    Reverse,
    /// `HEX(x)`.
    Hex,
    /// `TYPEOF(x)` (SQLite).
    TypeOf,
    /// `FIELD(x, ..)`: the position of x among the others, 0 if it is not there.
    Field,
    /// `FIND_IN_SET(x, list)`.
    FindInSet,
    /// `ELT(n, ..)`.
    Elt,
    /// `TIMESTAMPDIFF(unit, a, b)`; the unit is the first argument, by its number in
    /// [`super::expr::IntervalUnit`]'s order.
    TimestampDiff,
    /// `UNIX_TIMESTAMP(x)`.
    UnixTimestamp,
    /// `FROM_UNIXTIME(x)`.
    FromUnixtime,
    /// `DATE(x)` of MySQL.
    Date,
    /// `YEAR(x)`.
    Year,
    /// `MONTH(x)`.
    Month,
    /// `DAY(x)`.
    Day,
    /// `HOUR(x)`.
    Hour,
    /// `MINUTE(x)`.
    Minute,
    /// `SECOND(x)`.
    Second,
    /// `DATEDIFF(a, b)`.
    DateDiff,
    /// `datetime(x, modifiers..)` of SQLite.
    SqliteDateTime,
    /// `date(x, modifiers..)` of SQLite.
    SqliteDate,
    /// `time(x, modifiers..)` of SQLite.
    SqliteTime,
    /// `julianday(x, modifiers..)` of SQLite.
    SqliteJulianDay,
    /// `unixepoch(x, modifiers..)` of SQLite.
    SqliteUnixEpoch,
    /// `strftime(format, x, modifiers..)` of SQLite.
    SqliteStrftime,
    /// `JSON_EXTRACT(x, path)`, `->`.
    JsonExtract,
    /// `->>`, `JSON_UNQUOTE(JSON_EXTRACT(x, path))`.
    JsonExtractText,
    /// `JSON_VALID(x)`.
    JsonValid,
}

fn as_text(value: &Value, dialect: Dialect) -> std::sync::Arc<str> {
    match dialect {
        Dialect::Sqlite => sqlite_text(value),
        _ => mysql_text(value),
    }
}

/// How arguments of `GREATEST` and the like are compared: they have one type already.
fn extreme_order(dialect: Dialect, a: &Value, b: &Value) -> Ordering {
    let by = match (dialect, a) {
        (Dialect::Sqlite, _) => Comparison::Classes {
            left: None,
            right: None,
            collation: Collation::Binary,
        },
        (_, Value::Text(_)) => Comparison::Text(Collation::default_of(dialect)),
        (_, Value::Float(_)) => Comparison::Double,
        (_, Value::Date(_) | Value::Timestamp(_)) => Comparison::DateTime,
        _ => Comparison::Exact,
    };
    compare(by, a, b)
}

/// Where `needle` begins in `hay`, in characters from 1, at `from` or later; 0 if it does not.
/// Behind the last character, MySQL finds the empty text, MariaDB nothing.
fn locate(needle: &str, hay: &str, from: i64, dialect: Dialect) -> i64 {
    let hay: Vec<char> = hay.to_lowercase().chars().collect();
    let needle: Vec<char> = needle.to_lowercase().chars().collect();
    let Some(from) = usize::try_from(from).ok().and_then(|n| n.checked_sub(1)) else {
        return 0;
    };
    if dialect == Dialect::MariaDb && from >= hay.len() && from > 0 {
        return 0;
    }
    let last = hay.len().checked_sub(needle.len());
    let found =
        last.and_then(|last| (from..=last).find(|at| hay[*at..*at + needle.len()] == needle[..]));
    found.map_or(0, |at| at as i64 + 1)
}

/// Calls a function.
///
/// # Errors
/// `unsupported` for arguments that are not modelled.
pub fn call(function: Function, args: &[Value], dialect: Dialect) -> Result<Value, Stop> {
    match function {
        Function::Coalesce => {
            let first = args.iter().find(|arg| !arg.is_null());
            return Ok(first.cloned().unwrap_or(Value::Null));
        }
        Function::ConcatWs => return Ok(concat_ws(args)),
        Function::TypeOf => return Ok(Value::text(type_of(&args[0]))),
        Function::Field => return Ok(field(args, dialect)),
        Function::Elt => {
            let place = as_int_rounded(&args[0]).unwrap_or(0);
            let found = usize::try_from(place)
                .ok()
                .filter(|i| *i > 0)
                .and_then(|i| args.get(i));
            return Ok(found.cloned().unwrap_or(Value::Null));
        }
        Function::SqliteDateTime
        | Function::SqliteDate
        | Function::SqliteTime
        | Function::SqliteJulianDay
        | Function::SqliteUnixEpoch
        | Function::SqliteStrftime => return sqlite_time::call(function, args),
        _ => {}
    }
    if args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    let text = |i: usize| as_text(&args[i], dialect);
    let int = |i: usize| as_int_rounded(&args[i]).unwrap_or(0);
    Ok(match function {
        Function::Abs | Function::Round | Function::Floor | Function::Ceil | Function::Sign => {
            number(function, args, dialect)?
        }
        Function::Greatest | Function::Least => {
            let order = |a: &&Value, b: &&Value| extreme_order(dialect, a, b);
            let found = match function {
                Function::Greatest => args
                    .iter()
                    .reduce(|a, b| if order(&b, &a).is_gt() { b } else { a }),
                _ => args
                    .iter()
                    .reduce(|a, b| if order(&b, &a).is_lt() { b } else { a }),
            };
            found.cloned().unwrap_or(Value::Null)
        }
        Function::Concat => {
            let parts: Vec<_> = (0..args.len()).map(text).collect();
            Value::text(parts.concat())
        }
        Function::ByteLength => match &args[0] {
            Value::Bytes(bytes) => Value::Int(bytes.len() as i64),
            _ => Value::Int(text(0).len() as i64),
        },
        Function::CharLength => match &args[0] {
            Value::Bytes(bytes) => Value::Int(bytes.len() as i64),
            _ => Value::Int(text(0).chars().count() as i64),
        },
        Function::Sha256 => match &args[0] {
            Value::Bytes(bytes) => sha256(bytes),
            _ => sha256(text(0).as_bytes()),
        },
        Function::Lower => match dialect {
            Dialect::Sqlite => Value::text(text(0).to_ascii_lowercase()),
            _ => Value::text(text(0).to_lowercase()),
        },
        Function::Upper => match dialect {
            Dialect::Sqlite => Value::text(text(0).to_ascii_uppercase()),
            _ => Value::text(text(0).to_uppercase()),
        },
        Function::Substr => substr(&text(0), int(1), args.get(2).map(|_| int(2)), dialect),
        Function::Left => Value::text(text(0).chars().take(count(int(1))).collect::<String>()),
        Function::Right => {
            let all: Vec<char> = text(0).chars().collect();
            let from = all.len().saturating_sub(count(int(1)));
            Value::text(all[from..].iter().collect::<String>())
        }
        Function::Trim | Function::TrimLeft | Function::TrimRight => {
            let chars: Vec<char> = match args.get(1) {
                Some(_) => text(1).chars().collect(),
                None => vec![' '],
            };
            let all = text(0);
            Value::text(match function {
                Function::Trim => all.trim_matches(&chars[..]),
                Function::TrimLeft => all.trim_start_matches(&chars[..]),
                _ => all.trim_end_matches(&chars[..]),
            })
        }
        Function::Replace => match text(1).is_empty() {
            true => args[0].clone(),
            false => Value::text(text(0).replace(&*text(1), &text(2))),
        },
        Function::Instr => {
            let (hay, needle) = match dialect {
                Dialect::Sqlite => (text(0).to_string(), text(1).to_string()),
                _ => (text(0).to_lowercase(), text(1).to_lowercase()),
            };
            let at = hay.find(&needle).map(|i| hay[..i].chars().count() + 1);
            Value::Int(at.unwrap_or(0) as i64)
        }
        Function::Locate => {
            let from = args.get(2).map_or(1, |_| int(2));
            Value::Int(locate(&text(0), &text(1), from, dialect))
        }
        Function::PadLeft | Function::PadRight => {
            pad(&text(0), int(1), &text(2), function == Function::PadLeft)
        }
        Function::Repeat => Value::text(text(0).repeat(count(int(1)))),
        Function::Reverse => Value::text(text(0).chars().rev().collect::<String>()),
        Function::Hex => hex(&args[0], dialect),
        Function::FindInSet => {
            let wanted = text(0);
            let found = text(1)
                .split(',')
                .position(|item| item.eq_ignore_ascii_case(&wanted));
            Value::Int(found.map_or(0, |i| i as i64 + 1))
        }
        Function::TimestampDiff => timestamp_diff(args),
        Function::UnixTimestamp
        | Function::Date
        | Function::Year
        | Function::Month
        | Function::Day
        | Function::Hour
        | Function::Minute
        | Function::Second
        | Function::DateDiff => date_part(function, args),
        Function::FromUnixtime => {
            let micros = as_decimal(&args[0]) * Decimal::from(1_000_000);
            micros
                .round()
                .to_i64()
                .map_or(Value::Null, Value::Timestamp)
        }
        Function::JsonExtract | Function::JsonExtractText | Function::JsonValid => {
            return Err(DbError::unsupported("JSON functions", None).into());
        }
        Function::Coalesce
        | Function::ConcatWs
        | Function::TypeOf
        | Function::Field
        | Function::Elt
        | Function::SqliteDateTime
        | Function::SqliteDate
        | Function::SqliteTime
        | Function::SqliteJulianDay
        | Function::SqliteUnixEpoch
        | Function::SqliteStrftime => Value::Null,
    })
}

fn count(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

fn concat_ws(args: &[Value]) -> Value {
    if args[0].is_null() {
        return Value::Null;
    }
    let parts: Vec<_> = args[1..]
        .iter()
        .filter(|arg| !arg.is_null())
        .map(mysql_text)
        .collect();
    Value::text(parts.join(&*mysql_text(&args[0])))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Int(_) | Value::Bool(_) => "integer",
        Value::Float(_) => "real",
        Value::Bytes(_) => "blob",
        _ => "text",
    }
}

fn field(args: &[Value], dialect: Dialect) -> Value {
    if args[0].is_null() {
        return Value::Int(0);
    }
    let wanted = &args[0];
    let same = |arg: &Value| {
        let by = match (wanted, arg) {
            (Value::Text(_), Value::Text(_)) => Comparison::Text(Collation::default_of(dialect)),
            _ => Comparison::Double,
        };
        !arg.is_null() && compare(by, wanted, arg).is_eq()
    };
    let found = args[1..].iter().position(same);
    Value::Int(found.map_or(0, |i| i as i64 + 1))
}

fn number(function: Function, args: &[Value], dialect: Dialect) -> Result<Value, Stop> {
    let value = &args[0];
    let digits = args.get(1).map_or(0, |d| as_int_rounded(d).unwrap_or(0));
    if dialect == Dialect::Sqlite {
        return Ok(match (function, value) {
            (Function::Abs, Value::Int(i)) => match i.checked_abs() {
                Some(i) => Value::Int(i),
                None => return Err(super::errors::sqlite(1, "integer overflow").into()),
            },
            (Function::Abs, other) => Value::Float(as_float(other).abs()),
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

/// `SUBSTR(x, from, length)`: from 1, or from the end if negative.
fn substr(text: &str, from: i64, length: Option<i64>, dialect: Dialect) -> Value {
    let all: Vec<char> = text.chars().collect();
    let total = all.len() as i64;
    let (begin, length) = match dialect {
        Dialect::Sqlite => sqlite_part(total, from, length),
        _ => {
            let begin = match from {
                1.. => from - 1,
                0 => total,
                _ => total + from,
            };
            match begin < 0 {
                true => (0, 0),
                false => (begin, length.unwrap_or(i64::MAX)),
            }
        }
    };
    if length <= 0 || begin >= total {
        return Value::text("");
    }
    let end = begin.saturating_add(length).min(total);
    Value::text(all[begin as usize..end as usize].iter().collect::<String>())
}

/// Where a part of a text of `total` characters begins in SQLite, and its length: 0 is before the first
/// character, and a negative length counts the characters before.
fn sqlite_part(total: i64, from: i64, length: Option<i64>) -> (i64, i64) {
    let backwards = length.is_some_and(|length| length < 0);
    let mut length = length.map_or(i64::MAX, i64::saturating_abs);
    let mut begin = from;
    if begin < 0 {
        begin = begin.saturating_add(total);
        if begin < 0 {
            length = length.saturating_add(begin).max(0);
            begin = 0;
        }
    } else if begin > 0 {
        begin -= 1;
    } else if length > 0 {
        length -= 1;
    }
    if backwards {
        begin -= length;
        if begin < 0 {
            length += begin;
            begin = 0;
        }
    }
    (begin, length)
}

fn pad(text: &str, length: i64, fill: &str, left: bool) -> Value {
    let Ok(length) = usize::try_from(length) else {
        return Value::Null;
    };
    let all: Vec<char> = text.chars().collect();
    if all.len() >= length {
        return Value::text(all[..length].iter().collect::<String>());
    }
    if fill.is_empty() {
        return Value::text("");
    }
    let padding: String = fill.chars().cycle().take(length - all.len()).collect();
    Value::text(match left {
        true => format!("{padding}{text}"),
        false => format!("{text}{padding}"),
    })
}

fn hex(value: &Value, dialect: Dialect) -> Value {
    if let (Value::Int(i), true) = (value, dialect != Dialect::Sqlite) {
        return Value::text(format!("{i:X}"));
    }
    let bytes = match value {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => as_text(other, dialect).as_bytes().to_vec(),
    };
    let text: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    Value::text(text)
}

fn sha256(bytes: &[u8]) -> Value {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Value::text(text)
}

fn timestamp_diff(args: &[Value]) -> Value {
    let (Some(a), Some(b)) = (as_datetime(&args[1]), as_datetime(&args[2])) else {
        return Value::Null;
    };
    let difference = b - a;
    // The unit by its number in the order of `IntervalUnit`.
    Value::Int(match as_int_cut(&args[0]) {
        0 => difference,
        1 => difference / 1_000_000,
        2 => difference / 60_000_000,
        3 => difference / 3_600_000_000,
        4 => difference / civil::DAY_MICROS,
        5 => difference / (7 * civil::DAY_MICROS),
        6 => temporal::months_between(a, b),
        7 => temporal::months_between(a, b) / 3,
        _ => temporal::months_between(a, b) / 12,
    })
}

fn date_part(function: Function, args: &[Value]) -> Value {
    let time = match &args[0] {
        Value::Time(micros) => Some(*micros),
        other => as_datetime(other),
    };
    let Some(micros) = time else {
        return Value::Null;
    };
    let days = micros.div_euclid(civil::DAY_MICROS);
    let (year, month, day) = civil::from_days(days);
    let seconds = micros.rem_euclid(civil::DAY_MICROS) / 1_000_000;
    match function {
        Function::UnixTimestamp if micros % 1_000_000 == 0 => Value::Int(micros / 1_000_000),
        Function::UnixTimestamp => Value::Decimal(Decimal::new(micros, 6)),
        Function::Date => i32::try_from(days).map_or(Value::Null, Value::Date),
        Function::Year => Value::Int(year),
        Function::Month => Value::Int(i64::from(month)),
        Function::Day => Value::Int(i64::from(day)),
        Function::Hour => Value::Int(seconds / 3600),
        Function::Minute => Value::Int(seconds / 60 % 60),
        Function::Second => Value::Int(seconds % 60),
        _ => match as_datetime(&args[1]) {
            Some(other) => Value::Int(days - other.div_euclid(civil::DAY_MICROS)),
            None => Value::Null,
        },
    }
}
