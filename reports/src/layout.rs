//! Widths as a terminal counts them, and numbers as people read them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns that `text` takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` cut to at most `limit` columns, with `…` as its last column if anything was cut.
pub fn cut(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > limit {
            break;
        }
        used += w;
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    if limit > 0 {
        out.push('…');
    }
    out
}

/// Spaces that fill `text` up to `columns`.
pub fn filler(text: &str, columns: usize) -> String {
    " ".repeat(columns.saturating_sub(width(text)))
}

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 state`, `2 states`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// Microseconds as a duration: `30s`, `1.5s`, `250ms`, `7us`.
pub fn duration(micros: i64) -> String {
    let (unit, per_unit) = match micros.unsigned_abs() {
        0 => return "0s".to_owned(),
        1_000_000.. => ("s", 1_000_000),
        1_000.. => ("ms", 1_000),
        _ => ("us", 1),
    };
    let whole = micros / per_unit;
    let fraction = micros.unsigned_abs() % per_unit.unsigned_abs();
    if fraction == 0 {
        return format!("{whole}{unit}");
    }
    let digits = if per_unit == 1_000_000 { 6 } else { 3 };
    let fraction = format!("{fraction:0digits$}");
    format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_by_columns_not_by_characters() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        // Each of these takes two columns.
        assert_eq!(cut("行行行行", 6), "行行…");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn numbers_and_durations() {
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "state"), "1 state");
        assert_eq!(duration(30_000_000), "30s");
        assert_eq!(duration(1_500_000), "1.5s");
        assert_eq!(duration(250_000), "250ms");
        assert_eq!(duration(1_000_001), "1.000001s");
        assert_eq!(duration(7), "7us");
    }
}
