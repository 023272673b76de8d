//! The date and time functions of MySQL and MariaDB.

use rowlock_model::value::civil;
use rowlock_model::{DbError, Value};
use rust_decimal::Decimal;

use super::function::Function;
use super::storage::Stop;
use super::temporal;
use super::value::{as_datetime, as_decimal, as_int_cut, mysql_text};

/// Calls one of them.
///
/// # Errors
/// `unsupported` for formats that are not modelled.
pub(super) fn call(function: Function, args: &[Value]) -> Result<Value, Stop> {
    if function == Function::Time || function == Function::Microsecond {
        let micros = match &args[0] {
            Value::Time(micros) => Some(*micros),
            Value::Text(text) => temporal::parse_time(text)
                .or_else(|| as_datetime(&args[0]).map(|t| t.rem_euclid(civil::DAY_MICROS))),
            other => as_datetime(other).map(|t| t.rem_euclid(civil::DAY_MICROS)),
        };
        return Ok(match (micros, function) {
            (None, _) => Value::Null,
            (Some(micros), Function::Time) => Value::Time(micros),
            (Some(micros), _) => Value::Int(micros.abs() % 1_000_000),
        });
    }
    let Some(micros) = as_datetime(&args[0]) else {
        return Ok(Value::Null);
    };
    let days = micros.div_euclid(civil::DAY_MICROS);
    let (year, month, _) = civil::from_days(days);
    // 1970-01-01 was a Thursday.
    let weekday = (days + 3).rem_euclid(7);
    Ok(match function {
        Function::Timestamp => Value::Timestamp(micros),
        Function::LastDay => {
            let first = civil::days(year, month, 1) * civil::DAY_MICROS;
            let next = temporal::add_months(first, 1).div_euclid(civil::DAY_MICROS);
            i32::try_from(next - 1).map_or(Value::Null, Value::Date)
        }
        Function::Quarter => Value::Int((i64::from(month) + 2) / 3),
        Function::DayOfYear => Value::Int(days - civil::days(year, 1, 1) + 1),
        Function::DayOfWeek => Value::Int((weekday + 1) % 7 + 1),
        Function::Weekday => Value::Int(weekday),
        // Day 1 is 0000-01-01.
        Function::ToDays => Value::Int(days + 719_528),
        _ => return format(micros, &mysql_text(&args[1])),
    })
}

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
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// `DATE_FORMAT`.
fn format(micros: i64, format: &str) -> Result<Value, Stop> {
    use std::fmt::Write as _;
    let days = micros.div_euclid(civil::DAY_MICROS);
    let (year, month, day) = civil::from_days(days);
    let rest = micros.rem_euclid(civil::DAY_MICROS);
    let seconds = rest / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let twelve = (hour + 11) % 12 + 1;
    let half = if hour < 12 { "AM" } else { "PM" };
    let weekday = (days + 3).rem_euclid(7);
    let day_name = DAYS[weekday as usize];
    let month_name = MONTHS[month as usize - 1];
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let _ = match chars.next() {
            Some('Y') => write!(out, "{year:04}"),
            Some('y') => write!(out, "{:02}", year % 100),
            Some('m') => write!(out, "{month:02}"),
            Some('c') => write!(out, "{month}"),
            Some('M') => write!(out, "{month_name}"),
            Some('b') => write!(out, "{}", &month_name[..3]),
            Some('d') => write!(out, "{day:02}"),
            Some('e') => write!(out, "{day}"),
            Some('j') => write!(out, "{:03}", days - civil::days(year, 1, 1) + 1),
            Some('W') => write!(out, "{day_name}"),
            Some('a') => write!(out, "{}", &day_name[..3]),
            Some('w') => write!(out, "{}", (weekday + 1) % 7),
            Some('H') => write!(out, "{hour:02}"),
            Some('k') => write!(out, "{hour}"),
            Some('h' | 'I') => write!(out, "{twelve:02}"),
            Some('l') => write!(out, "{twelve}"),
            Some('i') => write!(out, "{minute:02}"),
            Some('s' | 'S') => write!(out, "{second:02}"),
            Some('f') => write!(out, "{:06}", rest % 1_000_000),
            Some('p') => write!(out, "{half}"),
            Some('T') => write!(out, "{hour:02}:{minute:02}:{second:02}"),
            Some('r') => write!(out, "{twelve:02}:{minute:02}:{second:02} {half}"),
            Some(c @ ('u' | 'U' | 'v' | 'V' | 'x' | 'X' | 'D')) => {
                let what = format!("%{c} in DATE_FORMAT");
                return Err(DbError::unsupported(what, None).into());
            }
            Some(c) => write!(out, "{c}"),
            None => write!(out, "%"),
        };
    }
    Ok(Value::text(out))
}

/// `TIMESTAMPDIFF(unit, a, b)`.
pub(super) fn timestamp_diff(args: &[Value]) -> Value {
    let (Some(a), Some(b)) = (as_datetime(&args[1]), as_datetime(&args[2])) else {
        return Value::Null;
    };
    let difference = b - a;
    // The unit by its number in the order of `IntervalUnit`.
    Value::Int(match as_int_cut(&args[0]) {
        0 => difference,
        1 => difference / 1_000_000,
        2 => difference / 60_000_000,
        3 => difference / 3_600_000_000,
        4 => difference / civil::DAY_MICROS,
        5 => difference / (7 * civil::DAY_MICROS),
        6 => temporal::months_between(a, b),
        7 => temporal::months_between(a, b) / 3,
        _ => temporal::months_between(a, b) / 12,
    })
}

/// A part of a date or time.
pub(super) fn part(function: Function, args: &[Value]) -> Value {
    let of_day = matches!(
        function,
        Function::Hour | Function::Minute | Function::Second
    );
    let time = match &args[0] {
        Value::Time(micros) => Some(*micros),
        Value::Int(0)
            if !of_day && function != Function::DateDiff && function != Function::Date =>
        {
            // Of the zero date.
            return Value::Int(0);
        }
        Value::Text(text) if of_day => as_datetime(&args[0])
            .filter(|_| text.contains('-'))
            .or_else(|| {
                temporal::parse_time(text)
                    .or_else(|| temporal::time_of_number(as_decimal(&args[0])))
            }),
        Value::Int(_) | Value::Decimal(_) | Value::Float(_) if of_day => {
            let number = as_decimal(&args[0]);
            as_datetime(&args[0]).or_else(|| temporal::time_of_number(number))
        }
        other => as_datetime(other),
    };
    let Some(micros) = time else {
        return Value::Null;
    };
    let days = micros.div_euclid(civil::DAY_MICROS);
    let (year, month, day) = civil::from_days(days);
    let seconds = micros.rem_euclid(civil::DAY_MICROS) / 1_000_000;
    match function {
        Function::UnixTimestamp if micros % 1_000_000 == 0 => Value::Int(micros / 1_000_000),
        Function::UnixTimestamp => Value::Decimal(Decimal::new(micros, 6)),
        Function::Date => i32::try_from(days).map_or(Value::Null, Value::Date),
        Function::Year => Value::Int(year),
        Function::Month => Value::Int(i64::from(month)),
        Function::Day => Value::Int(i64::from(day)),
        Function::Hour => Value::Int(seconds / 3600),
        Function::Minute => Value::Int(seconds / 60 % 60),
        Function::Second => Value::Int(seconds % 60),
        _ => match as_datetime(&args[1]) {
            Some(other) => Value::Int(days - other.div_euclid(civil::DAY_MICROS)),
            None => Value::Null,
        },
    }
}
