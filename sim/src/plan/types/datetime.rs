//! Dates, times and intervals: reading them from text, and their arithmetic. All of it with
//! `TimeZone = UTC` and `DateStyle = ISO`.

use rowlock_model::value::civil;
use rowlock_model::{DbError, Value};

use super::Type;

/// Microseconds in a day.
pub const DAY: i64 = civil::DAY_MICROS;
const SECOND: i64 = 1_000_000;

/// `infinity` of dates and timestamps; `-infinity` is the least value.
pub const INFINITY: i64 = i64::MAX;

fn invalid(ty: Type, text: &str) -> DbError {
    DbError::postgres(
        "22007",
        format!("invalid input syntax for type {}: \"{text}\"", ty.name()),
    )
}

fn field_overflow(text: &str) -> DbError {
    DbError::postgres(
        "22008",
        format!("date/time field value out of range: \"{text}\""),
    )
}

/// A date and time of day as written.
struct Parts {
    day: Option<i64>,
    time: Option<i64>,
    /// Offset east of UTC in seconds.
    zone: Option<i64>,
}

/// Reads `date`, `time`, `timestamp` or `timestamptz`.
///
/// # Errors
/// 22007, 22008; `unsupported` for words that read the clock.
pub fn parse(text: &str, ty: Type) -> Result<Value, DbError> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    if let Some(value) = parse_word(&lower, ty)? {
        return Ok(value);
    }
    let parts = parse_parts(&lower, text, ty)?;
    let day = |p: &Parts| p.day.ok_or_else(|| invalid(ty, text));
    Ok(match ty {
        Type::Time => Value::Time(parts.time.ok_or_else(|| invalid(ty, text))?),
        Type::Date => Value::Date(day(&parts)? as i32),
        Type::Timestamp => Value::Timestamp(day(&parts)? * DAY + parts.time.unwrap_or(0)),
        _ => Value::TimestampTz(
            day(&parts)? * DAY + parts.time.unwrap_or(0) - parts.zone.unwrap_or(0) * SECOND,
        ),
    })
}

fn parse_word(lower: &str, ty: Type) -> Result<Option<Value>, DbError> {
    let instant = match lower {
        "epoch" => 0,
        "infinity" => INFINITY,
        "-infinity" => i64::MIN,
        "now" | "today" | "tomorrow" | "yesterday" | "allballs" => {
            return Err(DbError::unsupported(
                format!("the date/time input '{lower}'"),
                None,
            ));
        }
        _ => return Ok(None),
    };
    Ok(match ty {
        Type::Timestamp => Some(Value::Timestamp(instant)),
        Type::TimestampTz => Some(Value::TimestampTz(instant)),
        Type::Date if instant == 0 => Some(Value::Date(0)),
        Type::Date => Some(Value::Date(if instant > 0 { i32::MAX } else { i32::MIN })),
        _ => None,
    })
}

fn parse_parts(lower: &str, text: &str, ty: Type) -> Result<Parts, DbError> {
    let mut parts = Parts {
        day: None,
        time: None,
        zone: None,
    };
    let mut rest = lower;
    if let Some((day, after)) = read_date(rest) {
        parts.day = Some(day.ok_or_else(|| field_overflow(text))?);
        rest = after.strip_prefix('t').unwrap_or(after).trim_start();
    }
    if !rest.is_empty()
        && let Some((time, after)) = read_time(rest)
    {
        parts.time = Some(time.ok_or_else(|| field_overflow(text))?);
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        let zone = read_zone(rest).ok_or_else(|| invalid(ty, text))?;
        parts.zone = Some(zone);
    }
    if parts.day.is_none() && parts.time.is_none() {
        return Err(invalid(ty, text));
    }
    Ok(parts)
}

/// Digits at the start, and what follows.
fn digits(s: &str) -> Option<(&str, &str)> {
    let end = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    (end > 0).then(|| s.split_at(end))
}

/// `2026-11-30`: the day (`None` if there is no such day), and what follows.
fn read_date(s: &str) -> Option<(Option<i64>, &str)> {
    let (year, rest) = digits(s)?;
    let (month, rest) = digits(rest.strip_prefix('-')?)?;
    let (day, rest) = digits(rest.strip_prefix('-')?)?;
    if year.len() < 4 {
        return None;
    }
    let (y, m, d) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let number = if (1..=12).contains(&m) && (1..=31).contains(&d) {
        let number = civil::days(y, m, d);
        (civil::from_days(number) == (y, m, d)).then_some(number)
    } else {
        None
    };
    Some((number, rest))
}

/// `12:30`, `12:30:05.25`: microseconds, and what follows.
fn read_time(s: &str) -> Option<(Option<i64>, &str)> {
    let (hour, rest) = digits(s)?;
    let (minute, mut rest) = digits(rest.strip_prefix(':')?)?;
    let mut second = 0i64;
    let mut micros = 0i64;
    if let Some(after) = rest.strip_prefix(':') {
        let (text, after) = digits(after)?;
        second = text.parse().ok()?;
        rest = after;
        if let Some(after) = rest.strip_prefix('.') {
            let (fraction, after) = digits(after).unwrap_or(("0", after));
            micros = fraction_micros(fraction);
            rest = after;
        }
    }
    let (h, m): (i64, i64) = (hour.parse().ok()?, minute.parse().ok()?);
    let total = ((h * 60 + m) * 60 + second) * SECOND + micros;
    let fits = h <= 24 && m < 60 && second <= 60 && total <= DAY;
    Some((fits.then_some(total), rest))
}

/// The fraction of a second, rounded to microseconds.
fn fraction_micros(digits: &str) -> i64 {
    let padded = format!("{digits:0<7}");
    let seven: i64 = padded[..7].parse().unwrap_or(0);
    (seven + 5) / 10
}

/// An offset or zone name: seconds east of UTC.
fn read_zone(s: &str) -> Option<i64> {
    if matches!(s, "z" | "utc" | "gmt" | "zulu") {
        return Some(0);
    }
    let (sign, rest) = match s.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = digits(rest)?;
    let (hours, minutes) = if rest.is_empty() && hours.len() == 4 {
        hours.split_at(2)
    } else if let Some(rest) = rest.strip_prefix(':') {
        let (minutes, rest) = digits(rest)?;
        if !rest.is_empty() {
            return None;
        }
        (hours, minutes)
    } else if rest.is_empty() {
        (hours, "0")
    } else {
        return None;
    };
    let (h, m): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (h <= 15 && m < 60).then_some(sign * (h * 3600 + m * 60))
}

/// The offset of a named zone or offset, in seconds east of UTC.
///
/// # Errors
/// `unsupported` for zones other than UTC and fixed offsets.
pub fn zone_offset(name: &str) -> Result<i64, DbError> {
    let lower = name.trim().to_ascii_lowercase();
    if let "utc" | "gmt" | "z" | "etc/utc" = lower.as_str() {
        return Ok(0);
    }
    Err(DbError::unsupported(
        format!("the time zone \"{name}\""),
        None,
    ))
}

/// The units of intervals: months, days and microseconds of one.
fn unit(name: &str) -> Option<(i64, i64, i64)> {
    Some(match name {
        "us" | "usec" | "usecs" | "microsecond" | "microseconds" | "microsecs" => (0, 0, 1),
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" | "millisecs" => (0, 0, 1_000),
        "s" | "sec" | "secs" | "second" | "seconds" => (0, 0, SECOND),
        "m" | "min" | "mins" | "minute" | "minutes" => (0, 0, 60 * SECOND),
        "h" | "hr" | "hrs" | "hour" | "hours" => (0, 0, 3600 * SECOND),
        "d" | "day" | "days" => (0, 1, 0),
        "w" | "week" | "weeks" => (0, 7, 0),
        "mon" | "mons" | "month" | "months" => (1, 0, 0),
        "y" | "yr" | "yrs" | "year" | "years" => (12, 0, 0),
        "decade" | "decades" | "decs" => (120, 0, 0),
        "c" | "century" | "centuries" => (1200, 0, 0),
        _ => return None,
    })
}

/// An interval under construction.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    micros: i64,
}

impl Sum {
    /// Adds `number` of a unit; fractions of months spill into days (30 a month), fractions of days
    /// into time.
    fn add(&mut self, number: f64, (months, days, micros): (i64, i64, i64)) {
        let (whole, fraction) = (number.trunc(), number.fract());
        if micros != 0 {
            self.micros +=
                whole as i64 * micros + (fraction * micros as f64).round_ties_even() as i64;
        } else if days != 0 {
            self.days += whole as i64 * days;
            self.add_days(fraction * days as f64);
        } else {
            let total = number * months as f64;
            self.months += total.trunc() as i64;
            // Years and longer keep only whole months.
            if months == 1 {
                self.add_days(total.fract() * 30.0);
            }
        }
    }

    fn add_days(&mut self, days: f64) {
        self.days += days.trunc() as i64;
        self.micros += (days.fract() * DAY as f64).round_ties_even() as i64;
    }

    fn finish(self, text: &str) -> Result<Value, DbError> {
        let narrow = |n: i64| {
            i32::try_from(n).map_err(|_| {
                DbError::postgres(
                    "22015",
                    format!("interval field value out of range: \"{text}\""),
                )
            })
        };
        Ok(Value::Interval {
            months: narrow(self.months)?,
            days: narrow(self.days)?,
            micros: self.micros,
        })
    }
}

/// Reads an interval: `1 day 02:00:00`, `1.5 hours`, `90 seconds ago`. A bare number counts `field`.
///
/// # Errors
/// 22007, 22015.
pub fn parse_interval(text: &str, field: &str) -> Result<Value, DbError> {
    let lower = text.trim().to_ascii_lowercase();
    if lower.starts_with('p') {
        return Err(DbError::unsupported("intervals in ISO 8601 form", None));
    }
    let bad = || invalid(Type::Interval, text);
    let mut sum = Sum::default();
    let mut words = split_interval(&lower).ok_or_else(bad)?;
    let ago = words.last().is_some_and(|w| w == "ago");
    if ago {
        words.pop();
    }
    if words.is_empty() {
        return Err(bad());
    }
    let mut i = 0;
    while i < words.len() {
        let word = &words[i];
        if word == "@" {
            i += 1;
        } else if word.contains(':') {
            sum.micros += interval_clock(word).ok_or_else(bad)?;
            i += 1;
        } else {
            let number: f64 = word.parse().map_err(|_| bad())?;
            let named = words.get(i + 1).and_then(|name| unit(name));
            match (named, words.get(i + 1)) {
                (Some(unit), _) => {
                    sum.add(number, unit);
                    i += 2;
                }
                // A bare number before a clock counts days, at the end the field that was declared.
                (None, Some(next)) if next.contains(':') => {
                    sum.add(number, (0, 1, 0));
                    i += 1;
                }
                (None, None) => {
                    sum.add(number, unit(field).ok_or_else(bad)?);
                    i += 1;
                }
                _ => return Err(bad()),
            }
        }
    }
    if ago {
        sum = Sum {
            months: -sum.months,
            days: -sum.days,
            micros: -sum.micros,
        };
    }
    sum.finish(text)
}

/// Splits at blanks and between a number and its unit.
fn split_interval(s: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    for part in s.split_whitespace() {
        let mut word = String::new();
        for c in part.chars() {
            let number = c.is_ascii_digit() || matches!(c, '.' | ':' | '+' | '-');
            let before = word.chars().last();
            let turns = match before {
                Some(b) => b.is_ascii_alphabetic() == number,
                None => false,
            };
            if turns {
                words.push(std::mem::take(&mut word));
            }
            if !number && !c.is_ascii_alphabetic() && c != '@' {
                return None;
            }
            word.push(c);
        }
        words.push(word);
    }
    Some(words)
}

/// `[-]hh:mm[:ss[.f]]` in an interval: microseconds.
fn interval_clock(word: &str) -> Option<i64> {
    let (sign, rest) = match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let mut fields = rest.split(':');
    let hours: i64 = fields.next()?.parse().ok()?;
    let minutes: i64 = fields.next()?.parse().ok()?;
    let mut micros = 0;
    if let Some(seconds) = fields.next() {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let whole: i64 = whole.parse().ok()?;
        if whole > 59 {
            return None;
        }
        micros = whole * SECOND
            + if fraction.is_empty() {
                0
            } else {
                fraction_micros(fraction)
            };
    }
    if fields.next().is_some() || minutes > 59 {
        return None;
    }
    Some(sign * ((hours * 60 + minutes) * 60 * SECOND + micros))
}

/// An instant plus months, days and microseconds; the day is clipped to the month's end.
///
/// # Errors
/// 22008.
pub fn add_interval(instant: i64, (months, days, micros): (i32, i32, i64)) -> Result<i64, DbError> {
    if instant == INFINITY || instant == i64::MIN {
        return Ok(instant);
    }
    let over = || DbError::postgres("22008", "timestamp out of range");
    let mut result = instant;
    if months != 0 {
        let (y, m, d) = civil::from_days(result.div_euclid(DAY));
        let index = y * 12 + i64::from(m) - 1 + i64::from(months);
        let (year, month) = (index.div_euclid(12), index.rem_euclid(12) as u32 + 1);
        let last = days_in_month(year, month);
        let day = civil::days(year, month, d.min(last));
        result = day * DAY + result.rem_euclid(DAY);
    }
    result
        .checked_add(i64::from(days) * DAY)
        .and_then(|r| r.checked_add(micros))
        .ok_or_else(over)
}

/// `generate_series(from, to, step)` over instants.
///
/// # Errors
/// 22008; 22023 for a step of nothing.
pub fn series(values: &[Value]) -> Result<Vec<Value>, DbError> {
    let [from, to, step] = values else {
        panic!("a series of instants got {values:?}");
    };
    let instant = |v: &Value| match v {
        Value::Timestamp(t) | Value::TimestampTz(t) => Some(*t),
        _ => None,
    };
    let (Some(mut at), Some(to)) = (instant(from), instant(to)) else {
        return Ok(Vec::new());
    };
    let Value::Interval {
        months,
        days,
        micros,
    } = *step
    else {
        return Ok(Vec::new());
    };
    let forward = match interval_span(months, days, micros) {
        0 => return Err(DbError::postgres("22023", "step size cannot equal zero")),
        span => span > 0,
    };
    let mut series = Vec::new();
    while (forward && at <= to) || (!forward && at >= to) {
        series.push(match from {
            Value::Timestamp(_) => Value::Timestamp(at),
            _ => Value::TimestampTz(at),
        });
        at = add_interval(at, (months, days, micros))?;
    }
    Ok(series)
}

/// The number of days of a month.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    let next = if month == 12 {
        civil::days(year + 1, 1, 1)
    } else {
        civil::days(year, month + 1, 1)
    };
    (next - civil::days(year, month, 1)) as u32
}

/// The length by which intervals are compared: months of 30 days, days of 24 hours.
pub fn interval_span(months: i32, days: i32, micros: i64) -> i128 {
    (i128::from(months) * 30 + i128::from(days)) * i128::from(DAY) + i128::from(micros)
}

/// The difference of two instants as days and time.
pub fn difference(a: i64, b: i64) -> Value {
    let micros = a - b;
    Value::Interval {
        months: 0,
        days: (micros / DAY) as i32,
        micros: micros % DAY,
    }
}

/// An interval multiplied by a number; fractions spill down as in input.
///
/// # Errors
/// 22008.
pub fn scale_interval(
    (months, days, micros): (i32, i32, i64),
    factor: f64,
) -> Result<Value, DbError> {
    let over = || DbError::postgres("22008", "interval out of range");
    let m = f64::from(months) * factor;
    let d = f64::from(days) * factor;
    if !m.is_finite()
        || m.abs() > f64::from(i32::MAX)
        || !d.is_finite()
        || d.abs() > f64::from(i32::MAX)
    {
        return Err(over());
    }
    let (whole_months, whole_days) = (m.trunc(), d.trunc());
    let month_days = round_micro(m.fract() * 30.0);
    let mut seconds = (d.fract() + month_days.fract()) * 86_400.0;
    seconds = (seconds * 1e6).round_ties_even() / 1e6;
    let mut extra_days = month_days.trunc();
    if seconds.abs() >= 86_400.0 {
        extra_days += (seconds / 86_400.0).trunc();
        seconds %= 86_400.0;
    }
    Ok(Value::Interval {
        months: whole_months as i32,
        days: (whole_days + extra_days) as i32,
        micros: (micros as f64 * factor + seconds * 1e6).round_ties_even() as i64,
    })
}

fn round_micro(x: f64) -> f64 {
    (x * 1e6).round_ties_even() / 1e6
}

/// `date_trunc` of an instant.
///
/// # Errors
/// 22023 for a field that is not known.
pub fn truncate(field: &str, instant: i64, ty: Type) -> Result<i64, DbError> {
    let day = instant.div_euclid(DAY);
    let to = |unit: i64| instant.div_euclid(unit) * unit;
    let (y, m, _) = civil::from_days(day);
    Ok(match field.to_ascii_lowercase().as_str() {
        "microseconds" | "microsecond" => instant,
        "milliseconds" | "millisecond" => to(1_000),
        "second" | "seconds" => to(SECOND),
        "minute" | "minutes" => to(60 * SECOND),
        "hour" | "hours" => to(3600 * SECOND),
        "day" | "days" => day * DAY,
        "week" | "weeks" => (day - (day + 3).rem_euclid(7)) * DAY,
        "month" | "months" => civil::days(y, m, 1) * DAY,
        "quarter" => civil::days(y, (m - 1) / 3 * 3 + 1, 1) * DAY,
        "year" | "years" => civil::days(y, 1, 1) * DAY,
        other => {
            return Err(DbError::postgres(
                "22023",
                format!("unit \"{other}\" not recognized for type {}", ty.name()),
            ));
        }
    })
}
