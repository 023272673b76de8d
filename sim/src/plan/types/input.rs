//! Reading values from text, with the server's messages.

use std::sync::Arc;

use rowlock_model::{DbError, Value};
use rust_decimal::Decimal;

use super::{Type, datetime, json, number};

/// 22P02 (or what the type raises): the text is not a value of the type.
pub fn invalid(ty: Type, text: &str) -> DbError {
    DbError::postgres(
        "22P02",
        format!("invalid input syntax for type {}: \"{text}\"", ty.name()),
    )
}

/// The value that `text` denotes in `ty`. Modifiers are applied by the caller.
///
/// # Errors
/// 22P02, 22003, 22007, 22008; `unsupported` for what is not modelled of the type.
pub fn parse(text: &str, ty: Type) -> Result<Value, DbError> {
    Ok(match ty {
        Type::Bool => Value::Bool(boolean(text).ok_or_else(|| invalid(ty, text))?),
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid | Type::Xid | Type::Xid8 => {
            Value::Int(integer(text, ty)?)
        }
        Type::Float4 | Type::Float8 => Value::Float(float(text, ty)?),
        Type::Numeric => Value::Decimal(decimal(text)?),
        Type::Text | Type::Varchar | Type::Char | Type::Unknown | Type::Record => Value::text(text),
        Type::Name => Value::text(clip_name(text)),
        Type::Bytea => Value::Bytes(bytes(text)?.into()),
        Type::Date | Type::Time | Type::Timestamp | Type::TimestampTz => datetime::parse(text, ty)?,
        Type::Interval => datetime::parse_interval(text, "second")?,
        Type::Uuid => Value::text(uuid(text).ok_or_else(|| invalid(ty, text))?),
        Type::Json => {
            json::parse(text).ok_or_else(|| json_error(text))?;
            Value::text(text)
        }
        Type::Jsonb => {
            let json = json::parse(text).ok_or_else(|| json_error(text))?;
            if json.has_zero() {
                return Err(DbError::postgres(
                    "22P05",
                    "unsupported Unicode escape sequence",
                ));
            }
            Value::text(json.to_string())
        }
        Type::Array(element) => array(text, ty, *element)?,
        Type::Tid => Value::text(tid(text).ok_or_else(|| invalid(ty, text))?),
        Type::RegClass | Type::Void | Type::Enum(_) => {
            return Err(DbError::unsupported(format!("text as {}", ty.name()), None));
        }
    })
}

fn json_error(text: &str) -> DbError {
    let _ = text;
    DbError::postgres("22P02", "invalid input syntax for type json")
}

fn boolean(text: &str) -> Option<bool> {
    let lower = text.trim().to_ascii_lowercase();
    if lower.is_empty() {
        return None;
    }
    match lower.as_str() {
        "1" => return Some(true),
        "0" => return Some(false),
        "o" => return None,
        _ => {}
    }
    for (word, value) in [
        ("true", true),
        ("yes", true),
        ("on", true),
        ("false", false),
        ("no", false),
        ("off", false),
    ] {
        if word.starts_with(&lower) {
            return Some(value);
        }
    }
    None
}

fn integer(text: &str, ty: Type) -> Result<i64, DbError> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(ty, text));
    }
    trimmed
        .parse::<i64>()
        .ok()
        .filter(|v| number::in_range(*v, ty))
        .ok_or_else(|| {
            DbError::postgres(
                "22003",
                format!("value \"{text}\" is out of range for type {}", ty.name()),
            )
        })
}

fn float(text: &str, ty: Type) -> Result<f64, DbError> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    let unsigned = lower.strip_prefix(['-', '+']).unwrap_or(&lower);
    let named = matches!(unsigned, "nan" | "inf" | "infinity");
    let looks = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !named && !looks {
        return Err(invalid(ty, text));
    }
    let value: f64 = lower.parse().map_err(|_| invalid(ty, text))?;
    if value.is_infinite() && !named {
        return Err(DbError::postgres(
            "22003",
            format!("\"{text}\" is out of range for type {}", ty.name()),
        ));
    }
    Ok(if ty == Type::Float4 {
        f64::from(value as f32)
    } else {
        value
    })
}

/// Reads a `numeric`, keeping its scale.
///
/// # Errors
/// 22P02; `unsupported` for NaN, infinity and more than 28 digits.
pub fn decimal(text: &str) -> Result<Decimal, DbError> {
    let trimmed = text.trim();
    let bad = || invalid(Type::Numeric, text);
    let unsigned = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    match unsigned.to_ascii_lowercase().as_str() {
        "nan" | "inf" | "infinity" => {
            return Err(DbError::unsupported("infinite or NaN numeric values", None));
        }
        _ => {}
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((m, e)) => (m, e.parse::<i32>().map_err(|_| bad())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
        return Err(bad());
    }
    let digits = format!("{whole}{fraction}");
    let mut value: i128 = digits.trim_start_matches('0').parse().or_else(|_| {
        if digits.bytes().all(|b| b == b'0') {
            Ok(0)
        } else {
            Err(number::too_wide())
        }
    })?;
    let mut scale = fraction.len() as i32 - exponent;
    while scale < 0 {
        value = value.checked_mul(10).ok_or_else(number::too_wide)?;
        scale += 1;
    }
    if trimmed.starts_with('-') {
        value = -value;
    }
    Decimal::try_from_i128_with_scale(value, scale as u32).map_err(|_| number::too_wide())
}

/// Names are cut at 63 bytes.
fn clip_name(text: &str) -> &str {
    let mut end = text.len().min(63);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn bytes(text: &str) -> Result<Vec<u8>, DbError> {
    let bad = || DbError::postgres("22P02", "invalid input syntax for type bytea");
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = hex
            .bytes()
            .filter(|b| !b.is_ascii_whitespace())
            .map(|b| (b as char).to_digit(16).map(|d| d as u8).ok_or(b))
            .collect::<Result<_, u8>>()
            .map_err(|b| {
                DbError::postgres(
                    "22023",
                    format!("invalid hexadecimal digit: \"{}\"", b as char),
                )
            })?;
        if !digits.len().is_multiple_of(2) {
            return Err(DbError::postgres(
                "22023",
                "invalid hexadecimal data: odd number of digits",
            ));
        }
        return Ok(digits.chunks(2).map(|p| p[0] * 16 + p[1]).collect());
    }
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            out.push(first);
        } else if let Some(after) = rest.strip_prefix(b"\\") {
            out.push(b'\\');
            rest = after;
        } else {
            let octal = rest.get(..3).ok_or_else(bad)?;
            let text = std::str::from_utf8(octal).map_err(|_| bad())?;
            out.push(u8::from_str_radix(text, 8).map_err(|_| bad())?);
            rest = &rest[3..];
        }
    }
    Ok(out)
}

fn uuid(text: &str) -> Option<String> {
    let inner = text
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .unwrap_or(text);
    let hex: String = inner
        .chars()
        .filter(|c| *c != '-')
        .collect::<String>()
        .to_ascii_lowercase();
    if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    ))
}

fn tid(text: &str) -> Option<String> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (block, item) = inner.split_once(',')?;
    let block: u32 = block.trim().parse().ok()?;
    let item: u16 = item.trim().parse().ok()?;
    Some(format!("({block},{item})"))
}

/// `{1,2,NULL,"a b"}`, one dimension.
fn array(text: &str, ty: Type, element: Type) -> Result<Value, DbError> {
    let bad = || DbError::postgres("22P02", format!("malformed array literal: \"{text}\""));
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .ok_or_else(bad)?;
    let mut items: Vec<Value> = Vec::new();
    let mut chars = inner.chars().peekable();
    if inner.trim().is_empty() {
        return Ok(Value::Array(Arc::from(items)));
    }
    loop {
        let mut word = String::new();
        let mut quoted = false;
        while chars.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            chars.next();
        }
        if chars.peek() == Some(&'"') {
            quoted = true;
            chars.next();
            loop {
                match chars.next().ok_or_else(bad)? {
                    '"' => break,
                    '\\' => word.push(chars.next().ok_or_else(bad)?),
                    c => word.push(c),
                }
            }
            while chars.peek().is_some_and(|c| c.is_ascii_whitespace()) {
                chars.next();
            }
        } else {
            while let Some(&c) = chars.peek() {
                match c {
                    ',' => break,
                    '{' | '}' | '"' if c == '{' => {
                        return Err(DbError::unsupported(
                            format!("{} of several dimensions", ty.name()),
                            None,
                        ));
                    }
                    '}' | '"' => return Err(bad()),
                    '\\' => {
                        chars.next();
                        word.push(chars.next().ok_or_else(bad)?);
                    }
                    _ => {
                        word.push(c);
                        chars.next();
                    }
                }
            }
            word.truncate(word.trim_end().len());
            if word.is_empty() {
                return Err(bad());
            }
        }
        items.push(if !quoted && word.eq_ignore_ascii_case("null") {
            Value::Null
        } else {
            parse(&word, element)?
        });
        match chars.next() {
            None => break,
            Some(',') => {}
            Some(_) => return Err(bad()),
        }
    }
    Ok(Value::Array(Arc::from(items)))
}
