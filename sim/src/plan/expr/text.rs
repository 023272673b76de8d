//! Functions of text. Positions count characters, from 1.

use rowlock_model::{DbError, Value};

use super::function::End;

/// `substring(s from start for count)`.
pub(super) fn substring(s: &str, start: i64, count: Option<i64>) -> Result<String, DbError> {
    let end = match count {
        Some(n) if n < 0 => {
            return Err(DbError::postgres(
                "22011",
                "negative substring length not allowed",
            ));
        }
        Some(n) => start.saturating_add(n),
        None => i64::MAX,
    };
    Ok(s.chars()
        .zip(1i64..)
        .filter(|(_, i)| *i >= start && *i < end)
        .map(|(c, _)| c)
        .collect())
}

/// `left(s, n)`; a negative `n` leaves out the last ones.
pub(super) fn left(s: &str, n: i64) -> String {
    let count = s.chars().count() as i64;
    let keep = if n < 0 { count + n } else { n };
    s.chars().take(keep.max(0) as usize).collect()
}

/// `right(s, n)`; a negative `n` leaves out the first ones.
pub(super) fn right(s: &str, n: i64) -> String {
    let count = s.chars().count() as i64;
    let keep = if n < 0 { count + n } else { n }.clamp(0, count);
    s.chars().skip((count - keep) as usize).collect()
}

/// `lpad`, `rpad`; text that is too long is cut at its end.
pub(super) fn pad(s: &str, length: i64, fill: &str, end: End) -> String {
    let length = length.max(0) as usize;
    let count = s.chars().count();
    if count >= length || fill.is_empty() {
        return s.chars().take(length).collect();
    }
    let padding: String = fill.chars().cycle().take(length - count).collect();
    match end {
        End::Start => padding + s,
        _ => s.to_owned() + &padding,
    }
}

/// `btrim`, `ltrim`, `rtrim`.
pub(super) fn trim(s: &str, set: &str, end: End) -> String {
    let within = |c: char| set.contains(c);
    match end {
        End::Start => s.trim_start_matches(within),
        End::End => s.trim_end_matches(within),
        End::Both => s.trim_matches(within),
    }
    .to_owned()
}

/// `initcap`.
pub(super) fn init_cap(s: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in s.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphanumeric();
    }
    out
}

/// `translate`.
pub(super) fn translate(s: &str, from: &str, to: &str) -> String {
    s.chars()
        .filter_map(|c| match from.chars().position(|f| f == c) {
            Some(i) => to.chars().nth(i),
            None => Some(c),
        })
        .collect()
}

/// `split_part`; negative positions count from the end.
pub(super) fn split_part(s: &str, separator: &str, n: i64) -> Result<String, DbError> {
    if n == 0 {
        return Err(DbError::postgres(
            "22023",
            "field position must not be zero",
        ));
    }
    let parts: Vec<&str> = if separator.is_empty() {
        vec![s]
    } else {
        s.split(separator).collect()
    };
    let index = if n > 0 { n - 1 } else { parts.len() as i64 + n };
    let part = usize::try_from(index).ok().and_then(|i| parts.get(i));
    Ok(part.copied().unwrap_or("").to_owned())
}

/// `chr`.
pub(super) fn character(code: i64) -> Result<String, DbError> {
    if code == 0 {
        return Err(DbError::postgres("54000", "null character not permitted"));
    }
    u32::try_from(code)
        .ok()
        .and_then(char::from_u32)
        .map(String::from)
        .ok_or_else(|| {
            DbError::postgres(
                "54000",
                format!("requested character too large for encoding: {code}"),
            )
        })
}

/// `quote_literal`.
pub(super) fn quote_literal(s: &str) -> String {
    let doubled = s.replace('\'', "''");
    if s.contains('\\') {
        format!(" E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// `quote_ident`, without knowledge of the server's reserved words.
pub(super) fn quote_ident(s: &str) -> String {
    let plain = s.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && s.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain {
        s.to_owned()
    } else {
        format!("\"{}\"", s.replace('"', "\"\""))
    }
}

/// `format`: `%s`, `%I`, `%L`, `%%` and positions (`%1$s`).
pub(super) fn format(args: &[&Value]) -> Result<Value, DbError> {
    let Some(pattern) = args[0].as_str() else {
        return Ok(Value::Null);
    };
    let few = || DbError::postgres("22023", "too few arguments for format()");
    let mut out = String::new();
    let mut next = 1;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut number = String::new();
        while let Some(d) = chars.next_if(char::is_ascii_digit) {
            number.push(d);
        }
        let kind = chars
            .next()
            .ok_or_else(|| DbError::postgres("22023", "unterminated format() type specifier"))?;
        let kind = if kind == '$' {
            next = number.parse().map_err(|_| few())?;
            chars.next().unwrap_or('s')
        } else if number.is_empty() {
            kind
        } else {
            return Err(DbError::unsupported("a width in format()", None));
        };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let arg = args.get(next).ok_or_else(few)?;
        next += 1;
        match (kind, arg.as_str()) {
            ('s', text) => out.push_str(text.unwrap_or("")),
            ('I', Some(text)) => out.push_str(&quote_ident(text)),
            ('I', None) => {
                return Err(DbError::postgres(
                    "22004",
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('L', Some(text)) => out.push_str(quote_literal(text).trim_start()),
            ('L', None) => out.push_str("NULL"),
            (other, _) => {
                return Err(DbError::postgres(
                    "22023",
                    format!("unrecognized format() type specifier \"{other}\""),
                ));
            }
        }
    }
    Ok(Value::text(out))
}

/// `LIKE`.
pub(super) fn like(s: &str, pattern: &str, escape: &str, fold: bool) -> Result<bool, DbError> {
    let mut escapes = escape.chars();
    let escape = escapes.next();
    if escapes.next().is_some() {
        return Err(DbError::postgres("22025", "invalid escape string")
            .with_detail("Escape string must be empty or one character."));
    }
    let lower = |s: &str| {
        if fold {
            s.to_lowercase().chars().collect()
        } else {
            s.chars().collect::<Vec<char>>()
        }
    };
    matches(&lower(s), &lower(pattern), escape)
}

fn matches(s: &[char], pattern: &[char], escape: Option<char>) -> Result<bool, DbError> {
    let Some((&first, rest)) = pattern.split_first() else {
        return Ok(s.is_empty());
    };
    if Some(first) == escape {
        let Some((&literal, rest)) = rest.split_first() else {
            return Err(DbError::postgres(
                "22025",
                "LIKE pattern must not end with escape character",
            ));
        };
        return match s.split_first() {
            Some((&c, after)) if c == literal => matches(after, rest, escape),
            _ => Ok(false),
        };
    }
    match (first, s.split_first()) {
        ('%', _) => {
            for i in 0..=s.len() {
                if matches(&s[i..], rest, escape)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        ('_', Some((_, after))) => matches(after, rest, escape),
        (c, Some((&d, after))) if c == d => matches(after, rest, escape),
        _ => Ok(false),
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn unknown_encoding(name: &str) -> DbError {
    DbError::postgres("22023", format!("unrecognized encoding: \"{name}\""))
}

/// `encode` to `hex` or `base64`.
pub(super) fn encode(bytes: &[u8], encoding: &str) -> Result<String, DbError> {
    match encoding.to_ascii_lowercase().as_str() {
        "hex" => Ok(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        "base64" => {
            let mut out = String::new();
            for chunk in bytes.chunks(3) {
                let group = chunk.iter().fold(0u32, |g, b| (g << 8) | u32::from(*b))
                    << (8 * (3 - chunk.len()));
                for i in 0..4 {
                    let index = (group >> (18 - 6 * i)) & 63;
                    let c = if i <= chunk.len() {
                        BASE64[index as usize]
                    } else {
                        b'='
                    };
                    out.push(char::from(c));
                }
            }
            Ok(out)
        }
        _ => Err(unknown_encoding(encoding)),
    }
}

/// `decode` from `hex`.
pub(super) fn decode(text: &str, encoding: &str) -> Result<Vec<u8>, DbError> {
    match encoding.to_ascii_lowercase().as_str() {
        "hex" => match crate::plan::types::input::parse(
            &format!("\\x{text}"),
            crate::plan::types::Type::Bytea,
        )? {
            Value::Bytes(bytes) => Ok(bytes.to_vec()),
            _ => Ok(Vec::new()),
        },
        "base64" => Err(DbError::unsupported("decode from base64", None)),
        _ => Err(unknown_encoding(encoding)),
    }
}
