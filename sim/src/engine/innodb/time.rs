//! Points in time as text, as numbers, and as InnoDB stores them.

use std::fmt::Write as _;

use rowlock_model::Value;

const DAY: i64 = 86_400_000_000;

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian calendar).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// The day counted from 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A date, time of day or point in time as text.
pub fn time_text(value: &Value) -> String {
    let clock = |micros: i64| {
        let seconds = micros.div_euclid(1_000_000);
        let mut text = format!(
            "{:02}:{:02}:{:02}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60
        );
        let fraction = micros.rem_euclid(1_000_000);
        if fraction != 0 {
            let _ = write!(text, ".{fraction:06}");
        }
        text
    };
    let date = |day: i64| {
        let (year, month, day) = civil(day);
        format!("{year:04}-{month:02}-{day:02}")
    };
    match value {
        Value::Date(day) => date(i64::from(*day)),
        Value::Time(micros) => clock(*micros),
        Value::Timestamp(at) | Value::TimestampTz(at) => {
            format!("{} {}", date(at.div_euclid(DAY)), clock(at.rem_euclid(DAY)))
        }
        other => format!("{other:?}"),
    }
}

/// The point in time that a text means, if it has the usual form.
pub fn parse_time(value: &Value) -> Option<Value> {
    let text = value.as_str()?.trim();
    let (date, clock) = match text.split_once([' ', 'T']) {
        Some((date, clock)) => (date, clock),
        None => (text, ""),
    };
    let mut fields = date.split('-').map(|f| f.parse::<i64>().ok());
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut micros = 0;
    if !clock.is_empty() {
        let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
        let mut fields = whole.split(':').map(|f| f.parse::<i64>().ok());
        let hour = fields.next()??;
        let minute = fields.next().unwrap_or(Some(0))?;
        let second = fields.next().unwrap_or(Some(0))?;
        let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
        micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + digits.parse::<i64>().ok()?;
    }
    Some(Value::Timestamp(days(year, month, day) * DAY + micros))
}

/// A point in time with so many digits of the fraction, the others cut off.
pub fn cut(micros: i64, digits: i64) -> i64 {
    let unit = 10i64.pow(6 - u32::try_from(digits.clamp(0, 6)).unwrap_or(0));
    micros.div_euclid(unit) * unit
}

/// The bytes in which InnoDB stores a point in time, as lock lists show them.
pub fn stored_time(value: &Value) -> String {
    match value {
        Value::Timestamp(at) | Value::TimestampTz(at) => {
            let (year, month, day) = civil(at.div_euclid(DAY));
            let clock = at.rem_euclid(DAY);
            let seconds = clock / 1_000_000;
            let date = ((year * 13 + month) << 5) | day;
            let time = ((seconds / 3_600) << 12) | ((seconds / 60 % 60) << 6) | (seconds % 60);
            let packed = ((date << 17) | time) + 0x80_0000_0000;
            let fraction = clock % 1_000_000;
            if fraction == 0 {
                format!("0x{packed:010X}")
            } else {
                format!("0x{packed:010X}{fraction:06X}")
            }
        }
        other => time_text(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_points_in_time_are_inverse() {
        for text in ["2020-01-01 00:00:00", "1969-12-31 23:59:59.500000", "2024-02-29 12:30:45"] {
            let value = parse_time(&Value::text(text)).map(|v| time_text(&v));
            assert_eq!(value.as_deref(), Some(text));
        }
        assert_eq!(cut(1_234_567, 0), 1_000_000);
        assert_eq!(cut(1_234_567, 3), 1_234_000);
    }
}
