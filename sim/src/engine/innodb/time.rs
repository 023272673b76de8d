//! Points in time as InnoDB stores them.

use rowlock_model::Value;

use crate::loose::temporal::datetime_text;
use crate::loose::value::mysql_text;

/// The bytes in which InnoDB stores a point in time, as lock lists show them (MySQL manual, "Date and
/// Time Data Type Representation").
pub(super) fn stored_time(value: &Value) -> String {
    let (Value::Timestamp(at) | Value::TimestampTz(at)) = value else {
        return mysql_text(value).to_string();
    };
    let text = datetime_text(*at, 0);
    let mut fields = text
        .split(['-', ' ', ':', '.'])
        .map(|f| f.parse::<i64>().unwrap_or(0));
    let mut next = || fields.next().unwrap_or(0);
    let (year, month, day) = (next(), next(), next());
    let (hour, minute, second) = (next(), next(), next());
    let date = ((year * 13 + month) << 5) | day;
    let time = (hour << 12) | (minute << 6) | second;
    let packed = ((date << 17) | time) + 0x80_0000_0000;
    match at.rem_euclid(1_000_000) {
        0 => format!("0x{packed:010X}"),
        fraction => format!("0x{packed:010X}{fraction:06X}"),
    }
}
