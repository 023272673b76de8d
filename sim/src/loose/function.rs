//! Pure functions.

use std::cmp::Ordering;

use sha2::{Digest, Sha256};

use rowlock_model::{Dialect, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::plan::expr::hash;

use super::errors;
use super::expr::Comparison;
use super::json;
use super::mysql_time;
use super::numeric::number;
use super::sqlite_time;
use super::storage::Stop;
use super::temporal;
use super::types::Collation;
use super::value::{
    as_datetime, as_decimal, as_float, as_int_cut, as_int_rounded, compare, mysql_text, sqlite_text,
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
    /// `MD5(x)`: of the bytes of the text, in hexadecimal.
    Md5,
    /// `CRC32(x)`: of the bytes of the text (IEEE 802.3).
    Crc32,
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
    /// `TRUNCATE(x, n)`.
    Truncate,
    /// `POW(x, y)`.
    Power,
    /// `SQRT(x)`.
    SquareRoot,
    /// `EXP(x)`.
    Exponential,
    /// `LN(x)`.
    Logarithm,
    /// `BIT_COUNT(x)`.
    BitCount,
    /// `LOCATE(x, y, from)`.
    Locate,
    /// `ASCII(x)`.
    Ascii,
    /// `STRCMP(x, y)`.
    StrCmp,
    /// `SPACE(n)`.
    Space,
    /// `BIN(x)`.
    Binary,
    /// `QUOTE(x)`: of NULL it is the word.
    Quote,
    /// `unicode(x)` of SQLite.
    Unicode,
    /// `TIME(x)` of MySQL.
    Time,
    /// `TIMESTAMP(x)`.
    Timestamp,
    /// `LAST_DAY(x)`.
    LastDay,
    /// `QUARTER(x)`.
    Quarter,
    /// `DAYOFYEAR(x)`.
    DayOfYear,
    /// `DAYOFWEEK(x)`: Sunday is 1.
    DayOfWeek,
    /// `WEEKDAY(x)`: Monday is 0.
    Weekday,
    /// `TO_DAYS(x)`.
    ToDays,
    /// `MICROSECOND(x)`.
    Microsecond,
    /// `DATE_FORMAT(x, format)`.
    DateFormat,
    /// The text of a time with so many digits of the second.
    TimeText,
    /// `json(x)` of SQLite.
    Json,
    /// `JSON_EXTRACT(x, path, ..)`.
    JsonExtract,
    /// `->` of SQLite.
    JsonArrow,
    /// `->>`, `JSON_UNQUOTE(JSON_EXTRACT(x, path))`.
    JsonExtractText,
    /// `JSON_VALID(x)`.
    JsonValid,
    /// `JSON_OBJECT(key, value, ..)`.
    JsonObject,
    /// `JSON_ARRAY(value, ..)`.
    JsonArray,
    /// `JSON_SET(x, path, value, ..)`.
    JsonSet,
    /// `JSON_INSERT(x, path, value, ..)`.
    JsonInsert,
    /// `JSON_REPLACE(x, path, value, ..)`.
    JsonReplace,
    /// `JSON_REMOVE(x, path, ..)`.
    JsonRemove,
    /// `JSON_LENGTH(x, path)`.
    JsonLength,
    /// `JSON_TYPE(x)`.
    JsonType,
    /// `JSON_QUOTE(x)`.
    JsonQuote,
    /// `JSON_UNQUOTE(x)`.
    JsonUnquote,
    /// `JSON_CONTAINS(x, y)`.
    JsonContains,
}

impl Function {
    /// The name that messages of the JSON functions have.
    fn json_name(self) -> &'static str {
        match self {
            Function::JsonExtract | Function::JsonArrow | Function::JsonExtractText => {
                "json_extract"
            }
            Function::JsonSet => "json_set",
            Function::JsonInsert => "json_insert",
            Function::JsonReplace => "json_replace",
            Function::JsonRemove => "json_remove",
            Function::JsonLength => "json_length",
            Function::JsonType => "json_type",
            Function::JsonContains => "json_contains",
            Function::JsonUnquote => "json_unquote",
            Function::JsonQuote => "json_quote",
            Function::JsonObject => "json_object",
            _ => "json_array",
        }
    }

    fn is_json(self) -> bool {
        matches!(
            self,
            Function::Json
                | Function::JsonExtract
                | Function::JsonArrow
                | Function::JsonExtractText
                | Function::JsonValid
                | Function::JsonObject
                | Function::JsonArray
                | Function::JsonSet
                | Function::JsonInsert
                | Function::JsonReplace
                | Function::JsonRemove
                | Function::JsonLength
                | Function::JsonType
                | Function::JsonQuote
                | Function::JsonUnquote
                | Function::JsonContains
        )
    }
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
        Function::Quote => return Ok(quoted(&args[0], dialect)),
        json if json.is_json() => return json::call(function, function.json_name(), args, dialect),
        _ => {}
    }
    if dialect == Dialect::Sqlite && args.iter().any(Value::is_null) {
        match function {
            Function::Hex => return Ok(Value::text("")),
            Function::Concat => {
                let parts: Vec<_> = args.iter().filter(|arg| !arg.is_null()).collect();
                let text: String = parts
                    .iter()
                    .map(|part| sqlite_text(part).to_string())
                    .collect();
                return Ok(Value::text(text));
            }
            _ => {}
        }
    }
    if args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    if let (Function::Substr, Value::Bytes(bytes), Dialect::Sqlite) = (function, &args[0], dialect)
    {
        let from = as_int_cut(&args[1]);
        return Ok(sqlite_bytes(bytes, from, args.get(2).map(as_int_cut)));
    }
    let text = |i: usize| as_text(&args[i], dialect);
    let int = |i: usize| as_int_rounded(&args[i]).unwrap_or(0);
    Ok(match function {
        Function::Abs
        | Function::Round
        | Function::Truncate
        | Function::Floor
        | Function::Ceil
        | Function::Sign => number(function, args, dialect)?,
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
        Function::Sha256 => sha256(&as_bytes(&args[0], dialect)),
        Function::Md5 => Value::text(hash::md5(&as_bytes(&args[0], dialect))),
        Function::Crc32 => Value::Int(crc32(&as_bytes(&args[0], dialect)).into()),
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
        Function::TimestampDiff => mysql_time::timestamp_diff(args),
        Function::UnixTimestamp
            if as_datetime(&args[0]).is_none_or(|micros| micros < 0)
                && !matches!(args[0], Value::Time(_)) =>
        {
            // What is no time, or before 1970.
            match dialect {
                Dialect::MariaDb => Value::Null,
                _ => Value::Int(0),
            }
        }
        Function::UnixTimestamp
        | Function::Date
        | Function::Year
        | Function::Month
        | Function::Day
        | Function::Hour
        | Function::Minute
        | Function::Second
        | Function::DateDiff => mysql_time::part(function, args),
        Function::FromUnixtime => {
            let seconds = as_decimal(&args[0]);
            // Before 1970, and after the last time of a TIMESTAMP, there is none; a second argument
            // says that the first second is none either.
            let last = match dialect {
                Dialect::MySql => 32_536_771_199_i64,
                _ if args.len() > 1 => 4_294_967_295,
                _ => 2_147_483_647,
            };
            let none = seconds.is_sign_negative() && !seconds.is_zero()
                || seconds.trunc() > Decimal::from(last)
                || (args.len() > 1 && seconds.is_zero());
            if none {
                return Ok(Value::Null);
            }
            let micros = as_decimal(&args[0]) * Decimal::from(1_000_000);
            micros
                .round()
                .to_i64()
                .map_or(Value::Null, Value::Timestamp)
        }
        Function::Power | Function::SquareRoot | Function::Exponential | Function::Logarithm => {
            return double(function, args);
        }
        Function::TimeText => {
            let fsp = u8::try_from(int(1)).unwrap_or(6);
            match &args[0] {
                Value::Timestamp(micros) => Value::text(temporal::datetime_text(*micros, fsp)),
                Value::Time(micros) => Value::text(temporal::time_text(*micros, fsp)),
                other => other.clone(),
            }
        }
        Function::BitCount => Value::Int(i64::from(int(0).count_ones())),
        Function::Locate => {
            let from = args.get(2).map_or(1, |_| int(2));
            locate(&text(0), &text(1), from)
        }
        Function::Ascii => Value::Int(text(0).as_bytes().first().map_or(0, |b| i64::from(*b))),
        Function::Unicode => match text(0).chars().next() {
            Some(c) => Value::Int(i64::from(c as u32)),
            None => Value::Null,
        },
        Function::StrCmp => {
            let by = Comparison::Text(Collation::default_of(dialect));
            let order = compare(by, &Value::Text(text(0)), &Value::Text(text(1)));
            Value::Int(order as i64)
        }
        Function::Space => Value::text(" ".repeat(count(int(0)))),
        Function::Binary => Value::text(format!("{:b}", int(0))),
        Function::Time
        | Function::Timestamp
        | Function::LastDay
        | Function::Quarter
        | Function::DayOfYear
        | Function::DayOfWeek
        | Function::Weekday
        | Function::ToDays
        | Function::Microsecond
        | Function::DateFormat => return mysql_time::call(function, args),
        // Those above.
        _ => Value::Null,
    })
}

/// `QUOTE(x)`.
fn quoted(value: &Value, dialect: Dialect) -> Value {
    if dialect == Dialect::Sqlite {
        return Value::text(match value {
            Value::Null => "NULL".to_owned(),
            Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Bytes(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
                format!("X'{digits}'")
            }
            other => sqlite_text(other).to_string(),
        });
    }
    let text = match value {
        Value::Null => return Value::text("NULL"),
        other => mysql_text(other),
    };
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\0' => out.push_str("\\0"),
            '\u{1a}' => out.push_str("\\Z"),
            c => out.push(c),
        }
    }
    out.push('\'');
    Value::text(out)
}

/// Functions on floating-point numbers; what has no value is NULL, what is too large error 1690.
fn double(function: Function, args: &[Value]) -> Result<Value, Stop> {
    let x = as_float(&args[0]);
    let result = match function {
        Function::Power => x.powf(as_float(&args[1])),
        Function::SquareRoot if x < 0.0 => return Ok(Value::Null),
        Function::SquareRoot => x.sqrt(),
        Function::Logarithm if x <= 0.0 => return Ok(Value::Null),
        Function::Logarithm => x.ln(),
        _ => x.exp(),
    };
    match result.is_finite() {
        true => Ok(Value::Float(result)),
        false => Err(errors::mysql(1690, "22003", "DOUBLE value is out of range").into()),
    }
}

/// `LOCATE(x, y, from)`: without regard to case.
fn locate(needle: &str, hay: &str, from: i64) -> Value {
    let (needle, hay) = (needle.to_lowercase(), hay.to_lowercase());
    let chars: Vec<char> = hay.chars().collect();
    let Some(skipped) = usize::try_from(from - 1).ok().filter(|s| *s <= chars.len()) else {
        return Value::Int(0);
    };
    let rest: String = chars[skipped..].iter().collect();
    let at = rest
        .find(&needle)
        .map(|i| rest[..i].chars().count() + skipped + 1);
    Value::Int(at.unwrap_or(0) as i64)
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

/// `substr` of bytes.
fn sqlite_bytes(bytes: &[u8], from: i64, length: Option<i64>) -> Value {
    let total = bytes.len() as i64;
    let (begin, length) = sqlite_part(total, from, length);
    if length <= 0 || begin >= total {
        return Value::Bytes([].into());
    }
    let end = begin.saturating_add(length).min(total);
    Value::Bytes(bytes[begin as usize..end as usize].into())
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
    let bytes = as_bytes(value, dialect);
    let text: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    Value::text(text)
}

/// Bytes as they are, anything else as the bytes of its text.
fn as_bytes(value: &Value, dialect: Dialect) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => as_text(other, dialect).as_bytes().to_vec(),
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn sha256(bytes: &[u8]) -> Value {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Value::text(text)
}
