//! Values from their wire form: text (simple protocol) and binary (extended protocol).
//!
//! What has no variant of its own comes as text. In binary form, types whose bytes are not their
//! text (`tsvector`, ranges, `inet`, ...) come as [`Value::Bytes`]; cast them to `text` to read them.

use std::sync::Arc;

use rowlock_model::Value;
use rust_decimal::Decimal;

use super::types::{TypeNames, item_of};
use crate::iso;

/// How a value was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Binary,
}

/// Microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL begins to count.
pub(super) const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// The same in days.
pub(super) const EPOCH_DAYS: i32 = 10_957;

/// Decodes a value that is not null. A form that is not understood comes as text or bytes.
pub(super) fn value(oid: u32, format: Format, bytes: &[u8], types: &TypeNames) -> Value {
    match format {
        Format::Text => {
            let text = String::from_utf8_lossy(bytes);
            from_text(oid, &text, types).unwrap_or_else(|| Value::text(text.as_ref()))
        }
        Format::Binary => {
            from_binary(oid, bytes, types).unwrap_or_else(|| match std::str::from_utf8(bytes) {
                Ok(text) if is_text_in_binary(oid, types) => Value::text(text),
                _ => Value::Bytes(bytes.into()),
            })
        }
    }
}

/// Whether the binary form of a type is its text.
fn is_text_in_binary(oid: u32, types: &TypeNames) -> bool {
    matches!(
        oid,
        18 | 19 | 25 | 114 | 142 | 194 | 705 | 1042 | 1043 | 2278
    ) || types.user(oid).is_some_and(|t| t.is_enum)
}

fn from_text(oid: u32, text: &str, types: &TypeNames) -> Option<Value> {
    if let Some(item) = item_of(oid).or_else(|| types.user(oid)?.item) {
        return array_from_text(item, text, types);
    }
    match oid {
        16 => Some(Value::Bool(text == "t")),
        17 => bytes_from_hex(text).map(|b| Value::Bytes(b.into())),
        20 | 21 | 23 | 26 | 28 | 29 | 5069 => text.parse().ok().map(Value::Int),
        700 => text.parse::<f32>().ok().map(|x| Value::Float(f64::from(x))),
        701 => text.parse().ok().map(Value::Float),
        1082 => iso::date(text).map(Value::Date),
        1083 => iso::time(text).map(Value::Time),
        1114 => iso::timestamp(text).map(Value::Timestamp),
        1184 => iso::timestamp_with_zone(text).map(Value::TimestampTz),
        1186 => interval(text),
        1700 => decimal(text),
        _ => None,
    }
}

fn from_binary(oid: u32, bytes: &[u8], types: &TypeNames) -> Option<Value> {
    if item_of(oid).is_some() || types.user(oid).is_some_and(|t| t.item.is_some()) {
        return array_from_binary(bytes, types);
    }
    match oid {
        16 => Some(Value::Bool(bytes.first()? != &0)),
        17 => Some(Value::Bytes(bytes.into())),
        20 | 5069 => i64_of(bytes).map(Value::Int),
        21 => Some(Value::Int(
            i16::from_be_bytes(bytes.try_into().ok()?).into(),
        )),
        23 => i32_of(bytes).map(|i| Value::Int(i.into())),
        24 | 26 | 28 | 29 | 2205 | 2206 => Some(Value::Int(
            u32::from_be_bytes(bytes.try_into().ok()?).into(),
        )),
        27 => {
            let block = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
            let item = u16::from_be_bytes(bytes.get(4..)?.try_into().ok()?);
            Some(Value::text(format!("({block},{item})")))
        }
        700 => Some(Value::Float(
            f32::from_be_bytes(bytes.try_into().ok()?).into(),
        )),
        701 => Some(Value::Float(f64::from_be_bytes(bytes.try_into().ok()?))),
        1082 => Some(Value::Date(match i32_of(bytes)? {
            infinite @ (i32::MAX | i32::MIN) => infinite,
            days => days.checked_add(EPOCH_DAYS)?,
        })),
        1083 => i64_of(bytes).map(Value::Time),
        1114 => Some(Value::Timestamp(since_1970(i64_of(bytes)?)?)),
        1184 => Some(Value::TimestampTz(since_1970(i64_of(bytes)?)?)),
        1186 => Some(Value::Interval {
            micros: i64_of(bytes.get(..8)?)?,
            days: i32_of(bytes.get(8..12)?)?,
            months: i32_of(bytes.get(12..)?)?,
        }),
        1700 => decimal(&numeric_text(bytes)?),
        2950 => uuid(bytes).map(Value::text),
        3220 => {
            let lsn = i64_of(bytes)? as u64;
            Some(Value::text(format!("{:X}/{:X}", lsn >> 32, lsn as u32)))
        }
        // A version byte goes before the text.
        3802 => std::str::from_utf8(bytes.get(1..)?).ok().map(Value::text),
        _ => None,
    }
}

/// Moves the epoch; the values of `infinity` and `-infinity` stay at the ends of the range.
fn since_1970(micros: i64) -> Option<i64> {
    match micros {
        i64::MAX | i64::MIN => Some(micros),
        micros => micros.checked_add(EPOCH_MICROS),
    }
}

fn i64_of(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

fn i32_of(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    (hex.len() == 32).then(|| {
        [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-")
    })
}

fn bytes_from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?;
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(digits.get(i..i + 2)?, 16).ok())
        .collect()
}

/// A `numeric` that fits; others (`NaN`, more than 28 digits) stay text.
fn decimal(text: &str) -> Option<Value> {
    match Decimal::from_str_exact(text) {
        Ok(decimal) => Some(Value::Decimal(decimal)),
        Err(_) => Some(Value::text(text)),
    }
}

/// The text of a binary `numeric` (`numeric_send`: digits to base 10,000, weight of the first one,
/// sign, number of decimals to show).
fn numeric_text(bytes: &[u8]) -> Option<String> {
    let word = |i: usize| {
        Some(u16::from_be_bytes(
            bytes.get(2 * i..2 * i + 2)?.try_into().ok()?,
        ))
    };
    let (count, weight) = (word(0)?, i32::from(word(1)? as i16));
    let (sign, scale) = (word(2)?, usize::from(word(3)?));
    match sign {
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => {}
    }
    let digit = |position: i32| -> Option<u16> {
        match usize::try_from(weight - position) {
            Ok(index) if index < usize::from(count) => word(4 + index),
            _ => Some(0),
        }
    };
    let mut whole = String::new();
    for position in (0..=weight.max(0)).rev() {
        whole.push_str(&format!("{:04}", digit(position)?));
    }
    let whole = whole.trim_start_matches('0');
    let mut fraction = String::new();
    let groups = i32::try_from(scale.div_ceil(4)).ok()?;
    for position in 1..=groups {
        fraction.push_str(&format!("{:04}", digit(-position)?));
    }
    fraction.truncate(scale);
    let sign = if sign == 0x4000 { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    })
}

/// `1 year 2 mons -3 days +04:05:06.7` (`IntervalStyle = postgres`).
fn interval(text: &str) -> Option<Value> {
    let (mut months, mut days, mut micros) = (0i32, 0i32, 0i64);
    let mut words = text.split(' ');
    while let Some(word) = words.next() {
        if word.contains(':') {
            micros = iso::signed_time(word)?;
            continue;
        }
        let count: i32 = word.parse().ok()?;
        match words.next()? {
            "year" | "years" => months = months.checked_add(count.checked_mul(12)?)?,
            "mon" | "mons" => months = months.checked_add(count)?,
            "day" | "days" => days = count,
            _ => return None,
        }
    }
    Some(Value::Interval {
        months,
        days,
        micros,
    })
}

/// `{1,NULL,"a \"b\""}`, nested for more dimensions. Arrays with other lower bounds stay text.
fn array_from_text(item: u32, text: &str, types: &TypeNames) -> Option<Value> {
    let mut rest = text;
    let array = array_items(item, &mut rest, types)?;
    rest.is_empty().then_some(array)
}

fn array_items(item: u32, rest: &mut &str, types: &TypeNames) -> Option<Value> {
    *rest = rest.strip_prefix('{')?;
    let mut items = Vec::new();
    if let Some(after) = rest.strip_prefix('}') {
        *rest = after;
        return Some(Value::Array(items.into()));
    }
    loop {
        items.push(if rest.starts_with('{') {
            array_items(item, rest, types)?
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let mut text = String::new();
            let mut chars = quoted.char_indices();
            loop {
                match chars.next()?.1 {
                    '"' => break,
                    '\\' => text.push(chars.next()?.1),
                    other => text.push(other),
                }
            }
            *rest = chars.as_str();
            value(item, Format::Text, text.as_bytes(), types)
        } else {
            let end = rest.find([',', '}'])?;
            let (text, after) = rest.split_at(end);
            *rest = after;
            match text {
                "NULL" => Value::Null,
                text => value(item, Format::Text, text.as_bytes(), types),
            }
        });
        let separator = rest.chars().next()?;
        *rest = &rest[1..];
        match separator {
            ',' => {}
            '}' => return Some(Value::Array(items.into())),
            _ => return None,
        }
    }
}

/// `array_send`: dimensions, null flag, type of items, (length, lower bound) each, items.
fn array_from_binary(bytes: &[u8], types: &TypeNames) -> Option<Value> {
    let dimensions = i32_of(bytes.get(..4)?)?;
    let item = i32_of(bytes.get(8..12)?)? as u32;
    if dimensions == 0 {
        return Some(Value::Array([].into()));
    }
    if dimensions != 1 || i32_of(bytes.get(16..20)?)? != 1 {
        return None;
    }
    let mut rest = bytes.get(20..)?;
    let mut items: Vec<Value> = Vec::new();
    for _ in 0..i32_of(bytes.get(12..16)?)? {
        let length = i32_of(rest.get(..4)?)?;
        rest = &rest[4..];
        items.push(match usize::try_from(length) {
            Err(_) => Value::Null,
            Ok(length) => {
                let decoded = value(item, Format::Binary, rest.get(..length)?, types);
                rest = &rest[length..];
                decoded
            }
        });
    }
    Some(Value::Array(Arc::from(items)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(oid: u32, text: &str) -> String {
        value(oid, Format::Text, text.as_bytes(), &TypeNames::default()).to_string()
    }

    #[test]
    fn times_read_as_the_server_prints_them() {
        assert_eq!(text(1082, "2026-11-30"), "2026-11-30");
        assert_eq!(
            text(1114, "1999-12-31 23:59:59.25"),
            "1999-12-31 23:59:59.25"
        );
        assert_eq!(
            text(1184, "2026-11-30 05:30:00+05:30"),
            "2026-11-30 00:00:00+00"
        );
        assert_eq!(
            text(1184, "2026-11-29 23:00:00-01"),
            "2026-11-30 00:00:00+00"
        );
        assert_eq!(text(1186, "1 year 2 mons 1 day"), "1 year 2 mons 1 day");
        assert_eq!(text(1186, "-00:00:01.5"), "-00:00:01.5");
    }

    #[test]
    fn arrays_keep_nulls_and_quoted_items() {
        let array = value(
            1009,
            Format::Text,
            br#"{a,NULL,"NULL","b \"c\"",""}"#,
            &TypeNames::default(),
        );
        let expected = [
            Value::from("a"),
            Value::Null,
            Value::from("NULL"),
            Value::from("b \"c\""),
            Value::from(""),
        ];
        assert_eq!(array, Value::Array(expected.into()));
        assert_eq!(text(1007, "{{1,2},{3,4}}"), "{{1,2},{3,4}}");
        // Other lower bounds have no form of their own.
        assert_eq!(text(1007, "[0:1]={1,2}"), "[0:1]={1,2}");
    }

    #[test]
    fn numbers_keep_their_scale_and_oversized_ones_their_text() {
        assert_eq!(text(1700, "1.10"), "1.10");
        assert_eq!(text(1700, "NaN"), "NaN");
        let long = "1".repeat(40);
        assert_eq!(text(1700, &long), long);
    }
}
