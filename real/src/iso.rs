//! Dates and times as servers print them.

use rowlock_model::value::civil;

/// `2026-11-30`; with `BC` or more than four digits of the year as PostgreSQL prints it.
pub(crate) fn date(text: &str) -> Option<i32> {
    match text {
        "infinity" => return Some(i32::MAX),
        "-infinity" => return Some(i32::MIN),
        _ => {}
    }
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut parts = text.splitn(3, '-');
    let year: i64 = parts.next()?.parse().ok()?;
    let month: u32 = parts.next()?.parse().ok()?;
    let day: u32 = parts.next()?.parse().ok()?;
    if month == 0 || day == 0 {
        // MySQL's zero date.
        return None;
    }
    let year = if before_christ { 1 - year } else { year };
    i32::try_from(civil::days(year, month, day)).ok()
}

/// `12:30:00.25`; hours may exceed 23 in intervals.
pub(crate) fn time(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let last = parts.next()?;
    let (seconds, fraction) = last.split_once('.').unwrap_or((last, ""));
    let seconds: i64 = seconds.parse().ok()?;
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
}

/// The same with a sign.
pub(crate) fn signed_time(text: &str) -> Option<i64> {
    let micros = time(text.trim_start_matches(['+', '-']))?;
    Some(if text.starts_with('-') {
        -micros
    } else {
        micros
    })
}

/// `2026-11-30 12:30:00`.
pub(crate) fn timestamp(text: &str) -> Option<i64> {
    match text {
        "infinity" => return Some(i64::MAX),
        "-infinity" => return Some(i64::MIN),
        _ => {}
    }
    let (text, suffix) = match text.strip_suffix(" BC") {
        Some(text) => (text, " BC"),
        None => (text, ""),
    };
    let (day, clock) = text.split_once(' ')?;
    let day = date(&format!("{day}{suffix}"))?;
    i64::from(day)
        .checked_mul(civil::DAY_MICROS)?
        .checked_add(time(clock)?)
}

/// `2026-11-30 12:30:00+00`, `...+05:30`, `...-00:25:21`.
pub(crate) fn timestamp_with_zone(text: &str) -> Option<i64> {
    if text.ends_with("infinity") {
        return timestamp(text);
    }
    let (text, suffix) = match text.strip_suffix(" BC") {
        Some(text) => (text, " BC"),
        None => (text, ""),
    };
    let sign_at = text.rfind(['+', '-'])?;
    let (local, zone) = text.split_at(sign_at);
    let mut parts = zone[1..].splitn(3, ':');
    let mut offset = 0;
    for unit in [3_600, 60, 1] {
        offset += unit * parts.next().map_or(Ok(0), str::parse::<i64>).ok()?;
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    timestamp(&format!("{local}{suffix}"))?.checked_sub(sign * offset * 1_000_000)
}
