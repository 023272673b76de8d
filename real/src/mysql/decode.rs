//! Values from their wire form: text, and binary for prepared statements.

use rowlock_model::Value;
use rowlock_model::value::civil;
use rust_decimal::Decimal;

use super::packet::{Described, Reader};
use crate::iso;

/// How a value was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Binary,
}

/// Decodes a value of the text protocol. A form that is not understood comes as text.
pub(super) fn from_text(column: &Described, bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let known = match column.kind {
        1 | 2 | 3 | 8 | 9 | 13 => match text.parse() {
            Ok(i) => Some(Value::Int(i)),
            // Beyond the signed range.
            Err(_) => decimal(&text),
        },
        0 | 246 => decimal(&text),
        4 => text.parse::<f32>().ok().map(|x| Value::Float(x.into())),
        5 => text.parse().ok().map(Value::Float),
        10 => iso::date(&text).map(Value::Date),
        11 => iso::signed_time(&text).map(Value::Time),
        7 | 12 => iso::timestamp(&text).map(Value::Timestamp),
        _ => None,
    };
    known.unwrap_or_else(|| other(column, bytes))
}

fn decimal(text: &str) -> Option<Value> {
    Decimal::from_str_exact(text).ok().map(Value::Decimal)
}

/// Texts, bytes, and bit fields.
fn other(column: &Described, bytes: &[u8]) -> Value {
    match column.kind {
        16 if bytes.len() <= 8 => {
            let bits = bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
            Value::Int(bits as i64)
        }
        // Numbers, dates and JSON are described with the binary character set, and are text.
        249..=254 if column.is_binary => Value::Bytes(bytes.into()),
        _ => Value::text(String::from_utf8_lossy(bytes).as_ref()),
    }
}

/// Decodes a value of the binary protocol, and leaves the reader behind it.
pub(super) fn from_binary(column: &Described, reader: &mut Reader<'_>) -> Value {
    match column.kind {
        1 => integer(column, reader, 1),
        2 | 13 => integer(column, reader, 2),
        3 | 9 => integer(column, reader, 4),
        8 => integer(column, reader, 8),
        4 => Value::Float(f32::from_bits(reader.uint(4) as u32).into()),
        5 => Value::Float(f64::from_bits(reader.uint(8))),
        10 => {
            let (days, _) = date_and_time(reader.bytes());
            Value::Date(i32::try_from(days).unwrap_or(0))
        }
        7 | 12 => {
            let (days, micros) = date_and_time(reader.bytes());
            Value::Timestamp(days * civil::DAY_MICROS + micros)
        }
        11 => Value::Time(time(reader.bytes())),
        // All others are sent as the text protocol sends them.
        _ => from_text(column, reader.bytes()),
    }
}

fn integer(column: &Described, reader: &mut Reader<'_>, width: usize) -> Value {
    let bits = reader.uint(width);
    let unused = 64 - 8 * width as u32;
    if column.is_unsigned() {
        return match i64::try_from(bits) {
            Ok(i) => Value::Int(i),
            Err(_) => Value::Decimal(bits.into()),
        };
    }
    // Moves the sign to the top, and back with it.
    Value::Int((bits << unused) as i64 >> unused)
}

/// Days since 1970-01-01 and microseconds of the day; trailing zeroes are not sent.
fn date_and_time(bytes: &[u8]) -> (i64, i64) {
    let mut reader = Reader(bytes);
    let (year, month, day) = (reader.uint(2), reader.uint(1), reader.uint(1));
    let (hour, minute, second) = (reader.uint(1), reader.uint(1), reader.uint(1));
    let micros = reader.uint(4);
    let seconds = (hour * 60 + minute) * 60 + second;
    (
        civil::days(year as i64, month as u32, day as u32),
        (seconds * 1_000_000 + micros) as i64,
    )
}

/// Microseconds; days and hours are sent apart, with a sign before them.
fn time(bytes: &[u8]) -> i64 {
    let mut reader = Reader(bytes);
    let negative = reader.uint(1) == 1;
    let days = reader.uint(4) as i64;
    let (hour, minute, second) = (reader.uint(1), reader.uint(1), reader.uint(1));
    let micros = reader.uint(4);
    let seconds = (hour * 60 + minute) * 60 + second;
    let magnitude = days * civil::DAY_MICROS + (seconds * 1_000_000 + micros) as i64;
    if negative { -magnitude } else { magnitude }
}
