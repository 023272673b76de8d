//! `to_char` of timestamps (manual, 9.8): the patterns of numbers and names.

use rowlock_model::value::civil;
use rowlock_model::{DbError, Value};

use crate::plan::types::datetime::{DAY, INFINITY};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The patterns that are modelled; a longer one stands before its beginnings.
const PATTERNS: [&str; 22] = [
    "YYYY", "HH24", "HH12", "Month", "MONTH", "month", "DDD", "Mon", "MON", "mon", "Day", "DAY",
    "day", "Dy", "DY", "dy", "HH", "MM", "MI", "SS", "MS", "US",
];

/// `to_char(timestamp, pattern)`; a `timestamptz` is shown in UTC, the zone of the simulated server.
///
/// # Errors
/// `unsupported` for a pattern that is not modelled.
pub(super) fn to_char(value: &Value, pattern: &str) -> Result<Value, DbError> {
    let (Value::Timestamp(instant) | Value::TimestampTz(instant)) = value else {
        panic!("to_char got {value:?}");
    };
    if pattern.is_empty() || *instant == INFINITY || *instant == i64::MIN {
        return Ok(Value::text(""));
    }
    let mut shown = String::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            shown.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        if !c.is_ascii_alphanumeric() && c != '\\' {
            shown.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let found = PATTERNS.iter().find(|p| rest.starts_with(**p));
        // `AM` and `PM` both show which half of the day it is; `DD` is not the start of `DDth`.
        let (length, text) = match found {
            Some(found) => (found.len(), field(found, *instant)),
            None if rest.starts_with("AM") || rest.starts_with("PM") => {
                let half = if instant.rem_euclid(DAY) < DAY / 2 {
                    "AM"
                } else {
                    "PM"
                };
                (2, half.to_owned())
            }
            None if rest.starts_with("DD") => {
                (2, format!("{:02}", civil::from_days(day_of(*instant)).2))
            }
            None => {
                let what = format!("to_char with {rest}");
                return Err(DbError::unsupported(what, None));
            }
        };
        rest = &rest[length..];
        if ["th", "TH", "SP", "FM", "FX"]
            .iter()
            .any(|s| rest.starts_with(s))
        {
            return Err(DbError::unsupported("this suffix of to_char", None));
        }
        shown.push_str(&text);
    }
    Ok(Value::text(shown))
}

/// Days since 1970.
fn day_of(instant: i64) -> i64 {
    instant.div_euclid(DAY)
}

fn field(pattern: &str, instant: i64) -> String {
    let (year, month, _) = civil::from_days(day_of(instant));
    let micros = instant.rem_euclid(DAY);
    let seconds = micros / 1_000_000;
    let hour = seconds / 3600;
    let fraction = micros % 1_000_000;
    let month_name = MONTHS[month as usize - 1];
    let day_name = DAYS[(day_of(instant) + 4).rem_euclid(7) as usize];
    match pattern {
        "YYYY" => format!("{year:04}"),
        "MM" => format!("{month:02}"),
        "DDD" => {
            let before = (1..month).map(|m| i64::from(days_in(year, m))).sum::<i64>();
            format!(
                "{:03}",
                before + i64::from(civil::from_days(day_of(instant)).2)
            )
        }
        "HH24" => format!("{hour:02}"),
        "HH12" | "HH" => format!("{:02}", (hour + 11) % 12 + 1),
        "MI" => format!("{:02}", seconds / 60 % 60),
        "SS" => format!("{:02}", seconds % 60),
        "MS" => format!("{:03}", fraction / 1000),
        "US" => format!("{fraction:06}"),
        "Month" => format!("{month_name:9}"),
        "MONTH" => format!("{:9}", month_name.to_uppercase()),
        "month" => format!("{:9}", month_name.to_lowercase()),
        "Mon" => month_name[..3].to_owned(),
        "MON" => month_name[..3].to_uppercase(),
        "mon" => month_name[..3].to_lowercase(),
        "Day" => format!("{day_name:9}"),
        "DAY" => format!("{:9}", day_name.to_uppercase()),
        "day" => format!("{:9}", day_name.to_lowercase()),
        "Dy" => day_name[..3].to_owned(),
        "DY" => day_name[..3].to_uppercase(),
        "dy" => day_name[..3].to_lowercase(),
        other => panic!("{other} is not a pattern of to_char"),
    }
}

fn days_in(year: i64, month: u32) -> u32 {
    crate::plan::types::datetime::days_in_month(year, month)
}
