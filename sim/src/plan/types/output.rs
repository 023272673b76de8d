//! Values as text, as PostgreSQL prints them with `TimeZone = UTC`, `DateStyle = ISO`.

use rowlock_model::Value;
use rowlock_model::value::civil;

use super::Type;
use super::datetime::{DAY, INFINITY};

/// The output text of a value that is not NULL (`t` and `f` for booleans).
pub fn text(value: &Value, ty: Type) -> String {
    match value {
        Value::Bool(b) => if *b { "t" } else { "f" }.to_owned(),
        Value::Float(x) if ty == Type::Float4 => float4(*x as f32),
        Value::Float(x) => float8(*x),
        Value::Timestamp(t) | Value::TimestampTz(t) => timestamp(*t, ty),
        Value::Date(i32::MAX) => "infinity".to_owned(),
        Value::Date(i32::MIN) => "-infinity".to_owned(),
        Value::Interval {
            months,
            days,
            micros,
        } => interval(*months, *days, *micros),
        Value::Bytes(bytes) => {
            let mut out = String::from("\\x");
            for b in bytes.iter() {
                out.push_str(&format!("{b:02x}"));
            }
            out
        }
        Value::Array(items) => array(items, ty),
        Value::Decimal(d) => d.to_string(),
        other => other.to_string(),
    }
}

fn timestamp(instant: i64, ty: Type) -> String {
    match instant {
        INFINITY => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => {
            let mut out = format!(
                "{} {}",
                civil::date(instant.div_euclid(DAY)),
                civil::time(instant.rem_euclid(DAY))
            );
            if ty != Type::Timestamp {
                out.push_str("+00");
            }
            out
        }
    }
}

/// `1 year 2 mons -3 days +04:05:06`, as `IntervalStyle = postgres` has it.
pub fn interval(months: i32, days: i32, micros: i64) -> String {
    let mut out = String::new();
    let mut negative_before = false;
    let mut part = |n: i32, name: &str| {
        if n == 0 {
            return;
        }
        let gap = if out.is_empty() { "" } else { " " };
        let plus = if negative_before && n > 0 { "+" } else { "" };
        let plural = if n == 1 { "" } else { "s" };
        out.push_str(&format!("{gap}{plus}{n} {name}{plural}"));
        negative_before = n < 0;
    };
    part(months / 12, "year");
    part(months % 12, "mon");
    part(days, "day");
    if micros != 0 || out.is_empty() {
        if !out.is_empty() {
            out.push(' ');
        }
        if micros < 0 {
            out.push('-');
        } else if negative_before {
            out.push('+');
        }
        out.push_str(&civil::time(micros.unsigned_abs() as i64));
    }
    out
}

/// Shortest digits that read back as the same number; exponents below -4 or from 15 on.
pub fn float8(x: f64) -> String {
    float(x, &format!("{x:e}"), 15)
}

/// As [`float8`], for `real`: exponents from 6 on.
pub fn float4(x: f32) -> String {
    float(f64::from(x), &format!("{x:e}"), 6)
}

fn float(x: f64, scientific: &str, limit: i32) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let negative = mantissa.starts_with('-');
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let sign = if negative { "-" } else { "" };
    if !(-4..limit).contains(&exponent) {
        let point = if digits.len() > 1 { "." } else { "" };
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{sign}{}{point}{}e{mark}{:02}",
            &digits[..1],
            &digits[1..],
            exponent.abs()
        );
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

fn array(items: &[Value], ty: Type) -> String {
    let element = match ty {
        Type::Array(element) => *element,
        _ => Type::Unknown,
    };
    let mut out = String::from("{");
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if item.is_null() {
            out.push_str("NULL");
            continue;
        }
        let text = text(item, element);
        if array_needs_quotes(&text) {
            quote(&text, &mut out, false);
        } else {
            out.push_str(&text);
        }
    }
    out.push('}');
    out
}

fn array_needs_quotes(text: &str) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text
            .chars()
            .any(|c| matches!(c, '"' | '\\' | '{' | '}' | ',') || c.is_ascii_whitespace())
}

/// Quotes for arrays (backslashes) or records (doubled marks).
fn quote(text: &str, out: &mut String, double: bool) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push(if double { c } else { '\\' });
        }
        out.push(c);
    }
    out.push('"');
}

/// `(1,x,)`: a row as text.
pub fn record(fields: &[(Value, Type)]) -> String {
    let mut out = String::from("(");
    for (i, (value, ty)) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if value.is_null() {
            continue;
        }
        let text = text(value, *ty);
        let special = text.is_empty()
            || text
                .chars()
                .any(|c| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace());
        if special {
            quote(&text, &mut out, true);
        } else {
            out.push_str(&text);
        }
    }
    out.push(')');
    out
}
