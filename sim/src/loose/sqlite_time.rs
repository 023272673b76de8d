//! The date and time functions of SQLite ("Date And Time Functions").

use rowlock_model::value::civil;
use rowlock_model::{DbError, Value};

use super::function::Function;
use super::storage::Stop;
use super::temporal;
use super::value::{as_float, number_of_text, sqlite_text};

/// Milliseconds from the beginning of Julian days to 1970-01-01.
const EPOCH_JULIAN_MS: i64 = 210_866_760_000_000;

/// Calls one of them. A first argument that is an integer beyond all Julian days is the clock, as
/// [`super::expr::HostFunction::JulianNow`] gives it.
///
/// # Errors
/// `unsupported` for modifiers that are not modelled.
pub(super) fn call(function: Function, args: &[Value]) -> Result<Value, Stop> {
    let place = usize::from(function == Function::SqliteStrftime);
    let Some(ms) = instant(&args[place..])? else {
        return Ok(Value::Null);
    };
    let micros = (ms - EPOCH_JULIAN_MS) * 1_000;
    Ok(match function {
        Function::SqliteDateTime => Value::text(temporal::datetime_text(micros, 0)),
        Function::SqliteDate => Value::text(civil::date(micros.div_euclid(civil::DAY_MICROS))),
        Function::SqliteTime => {
            Value::text(temporal::time_text(micros.rem_euclid(civil::DAY_MICROS), 0))
        }
        Function::SqliteJulianDay => Value::Float(ms as f64 / 86_400_000.0),
        Function::SqliteUnixEpoch => Value::Int(micros.div_euclid(1_000_000)),
        _ => match &args[0] {
            Value::Null => Value::Null,
            format => strftime(&sqlite_text(format), ms)?,
        },
    })
}

/// A time value with its modifiers, as milliseconds of the Julian calendar; `None` is NULL.
fn instant(args: &[Value]) -> Result<Option<i64>, Stop> {
    let Some((first, modifiers)) = args.split_first() else {
        return Ok(None);
    };
    let mut modifiers = modifiers;
    let epoch_follows = modifiers
        .first()
        .is_some_and(|m| matches!(m, Value::Text(text) if text.eq_ignore_ascii_case("unixepoch")));
    let mut ms = match first {
        Value::Int(clock) if *clock > 100_000_000_000 && !epoch_follows => *clock,
        Value::Int(_) | Value::Float(_) if epoch_follows => {
            modifiers = &modifiers[1..];
            EPOCH_JULIAN_MS + (as_float(first) * 1_000.0).round() as i64
        }
        Value::Int(_) | Value::Float(_) => (as_float(first) * 86_400_000.0).round() as i64,
        Value::Text(text) => match of_text(text) {
            Some(ms) => ms,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    for modifier in modifiers {
        if modifier.is_null() {
            return Ok(None);
        }
        if !is_day(ms) {
            return Ok(None);
        }
        match modified(ms, &sqlite_text(modifier))? {
            Some(next) => ms = next,
            None => return Ok(None),
        }
    }
    Ok(Some(ms).filter(|ms| is_day(*ms)))
}

/// Whether it is within the Julian days that SQLite knows, to the end of the year 9999.
fn is_day(ms: i64) -> bool {
    (0..=464_269_060_799_999).contains(&ms)
}

fn of_text(text: &str) -> Option<i64> {
    let text = text.trim().trim_end_matches('Z');
    let micros = match temporal::parse_datetime(text) {
        Some(micros) => micros,
        // A time alone is of the year 2000.
        None => match temporal::parse_time(text) {
            Some(time) => civil::days(2000, 1, 1) * civil::DAY_MICROS + time,
            None => {
                let (number, all) = number_of_text(text);
                return all.then(|| (as_float(&number) * 86_400_000.0).round() as i64);
            }
        },
    };
    Some(EPOCH_JULIAN_MS + micros.div_euclid(1_000))
}

fn modified(ms: i64, modifier: &str) -> Result<Option<i64>, Stop> {
    let modifier = modifier.trim().to_ascii_lowercase();
    let micros = (ms - EPOCH_JULIAN_MS) * 1_000;
    let back = |micros: i64| Some(EPOCH_JULIAN_MS + micros.div_euclid(1_000));
    let (year, month, _) = civil::from_days(micros.div_euclid(civil::DAY_MICROS));
    match modifier.as_str() {
        // The simulated machine runs in UTC.
        "utc" | "localtime" => return Ok(Some(ms)),
        "start of day" => {
            return Ok(back(micros - micros.rem_euclid(civil::DAY_MICROS)));
        }
        "start of month" => return Ok(back(civil::days(year, month, 1) * civil::DAY_MICROS)),
        "start of year" => return Ok(back(civil::days(year, 1, 1) * civil::DAY_MICROS)),
        _ => {}
    }
    let Some((number, unit)) = modifier.split_once(' ') else {
        return Err(DbError::unsupported("this modifier of a time", None).into());
    };
    let (value, all) = number_of_text(number);
    if !all {
        return Ok(None);
    }
    let amount = as_float(&value);
    let scaled = |unit_ms: f64| Some(ms + (amount * unit_ms).round() as i64);
    Ok(match unit.trim().trim_end_matches('s') {
        "second" => scaled(1_000.0),
        "minute" => scaled(60_000.0),
        "hour" => scaled(3_600_000.0),
        "day" => scaled(86_400_000.0),
        unit @ ("month" | "year") if amount.fract() == 0.0 => {
            let months = amount as i64 * if unit == "year" { 12 } else { 1 };
            // Days beyond the end of a month run over into the next.
            let day = micros.div_euclid(civil::DAY_MICROS);
            let (y, m, d) = civil::from_days(day);
            let total = y * 12 + i64::from(m) - 1 + months;
            let first = civil::days(total.div_euclid(12), total.rem_euclid(12) as u32 + 1, 1);
            let time = micros.rem_euclid(civil::DAY_MICROS);
            back((first + i64::from(d) - 1) * civil::DAY_MICROS + time)
        }
        _ => return Err(DbError::unsupported("this modifier of a time", None).into()),
    })
}

fn strftime(format: &str, ms: i64) -> Result<Value, Stop> {
    let micros = (ms - EPOCH_JULIAN_MS) * 1_000;
    let (year, month, day) = civil::from_days(micros.div_euclid(civil::DAY_MICROS));
    let seconds = micros.rem_euclid(civil::DAY_MICROS) / 1_000_000;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let piece = match chars.next() {
            Some('Y') => format!("{year:04}"),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('H') => format!("{:02}", seconds / 3600),
            Some('M') => format!("{:02}", seconds / 60 % 60),
            Some('S') => format!("{:02}", seconds % 60),
            Some('f') => {
                let ms = micros.rem_euclid(60_000_000) / 1_000;
                format!("{:02}.{:03}", ms / 1_000, ms % 1_000)
            }
            Some('s') => micros.div_euclid(1_000_000).to_string(),
            Some('%') => "%".to_owned(),
            _ => return Err(DbError::unsupported("this format of strftime", None).into()),
        };
        out.push_str(&piece);
    }
    Ok(Value::text(out))
}
