//! Dates and times as texts, and arithmetic on them (MySQL).

use rowlock_model::value::civil;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

/// `2026-11-30` as days since 1970; also `20261130` and other delimiters.
pub fn parse_date(text: &str) -> Option<i32> {
    let text = text.trim();
    let parts: Vec<&str> = match text.bytes().all(|b| b.is_ascii_digit()) {
        true if text.len() == 8 => vec![&text[..4], &text[4..6], &text[6..]],
        true => return None,
        false => text.split(['-', '/', '.', ':']).collect(),
    };
    let [year, month, day] = parts[..] else {
        return None;
    };
    let number = |part: &str| part.parse::<i64>().ok();
    let (mut year, month, day) = (number(year)?, number(month)?, number(day)?);
    if parts[0].len() <= 2 {
        year += if year < 70 { 2000 } else { 1900 };
    }
    let (m, d) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    let days = civil::days(year, m, d);
    // What does not come back is no date: 2026-02-30.
    ((1..=12).contains(&m) && civil::from_days(days) == (year, m, d))
        .then(|| i32::try_from(days).ok())
        .flatten()
}

/// `12:30:00.25` as microseconds.
pub fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let parts: Option<Vec<i64>> = whole.split(':').map(|part| part.parse().ok()).collect();
    let (hours, minutes, seconds) = match parts?[..] {
        [h, m] => (h, m, 0),
        [h, m, s] => (h, m, s),
        _ => return None,
    };
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction_micros(fraction)?;
    Some(if negative { -micros } else { micros })
}

/// The time of day that a number such as 101112.5 is, as microseconds.
pub fn time_of_number(number: Decimal) -> Option<i64> {
    let micros = (number * Decimal::from(1_000_000)).trunc().to_i64()?;
    let (sign, micros) = (micros.signum(), micros.abs());
    let (whole, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes, seconds) = (whole / 10_000, whole / 100 % 100, whole % 100);
    if minutes > 59 || seconds > 59 || hours > 838 {
        return None;
    }
    Some(sign * (((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction))
}

/// The digits after the point as microseconds, rounded.
fn fraction_micros(digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let padded = format!("{digits:0<7}");
    let tenths: i64 = padded[..7].parse().ok()?;
    Some((tenths + 5) / 10)
}

/// `2026-11-30 12:30:00.25`, or a date alone, as microseconds since 1970.
pub fn parse_datetime(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, parse_time(time)?),
        None => (text, 0),
    };
    if !(0..civil::DAY_MICROS).contains(&time) {
        return None;
    }
    Some(i64::from(parse_date(date)?) * civil::DAY_MICROS + time)
}

/// How many digits a literal has after its point, at most 6.
pub fn digits_of_fraction(text: &str) -> u8 {
    let digits = text
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    u8::try_from(digits.min(6)).unwrap_or(6)
}

/// Rounds to so many digits of the fraction, half away from zero, as MySQL does when it stores.
pub fn round(micros: i64, fsp: u8) -> i64 {
    let unit = 10_i64.pow(u32::from(6 - fsp.min(6)));
    let half = unit / 2;
    (micros + half).div_euclid(unit) * unit
}

/// Cuts to so many digits of the fraction (`NOW(fsp)`).
pub fn cut(micros: i64, fsp: u8) -> i64 {
    let unit = 10_i64.pow(u32::from(6 - fsp.min(6)));
    micros.div_euclid(unit) * unit
}

/// Adds whole months; the day is cut to the month's length.
pub fn add_months(micros: i64, months: i64) -> i64 {
    let day = micros.div_euclid(civil::DAY_MICROS);
    let time = micros.rem_euclid(civil::DAY_MICROS);
    let (year, month, dom) = civil::from_days(day);
    let total = year * 12 + i64::from(month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    let (next_year, next_month) = match month {
        12 => (year + 1, 1),
        _ => (year, month + 1),
    };
    let length = civil::days(next_year, next_month, 1) - civil::days(year, month, 1);
    let dom = i64::from(dom).min(length);
    (civil::days(year, month, 1) + dom - 1) * civil::DAY_MICROS + time
}

/// Whole months from `a` to `b`.
pub fn months_between(a: i64, b: i64) -> i64 {
    if b < a {
        return -months_between(b, a);
    }
    // The day of the month and the time of day decide whether the last month is a whole one.
    let parts = |micros: i64| {
        let (year, month, day) = civil::from_days(micros.div_euclid(civil::DAY_MICROS));
        let rest = (day, micros.rem_euclid(civil::DAY_MICROS));
        (year * 12 + i64::from(month), rest)
    };
    let ((begin, begin_rest), (end, end_rest)) = (parts(a), parts(b));
    match end_rest < begin_rest {
        true => end - begin - 1,
        false => end - begin,
    }
}

/// A point in time with so many digits of the fraction.
pub fn datetime_text(micros: i64, fsp: u8) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let text = civil::timestamp(seconds * 1_000_000);
    with_fraction(text, micros.rem_euclid(1_000_000), fsp)
}

/// A time of day with so many digits of the fraction.
pub fn time_text(micros: i64, fsp: u8) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.abs();
    let text = civil::time(micros / 1_000_000 * 1_000_000);
    format!("{sign}{}", with_fraction(text, micros % 1_000_000, fsp))
}

fn with_fraction(text: String, micros: i64, fsp: u8) -> String {
    match fsp {
        0 => text,
        _ => format!(
            "{text}.{}",
            &format!("{micros:06}")[..usize::from(fsp.min(6))]
        ),
    }
}
