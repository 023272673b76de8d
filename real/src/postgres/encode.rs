//! Arguments in binary form, each typed by its variant.
//!
//! `Null` is sent without a type, so that the server infers one. Everything else has the type of
//! its variant (`Int` is `int8`, `Text` is `text`); where a statement needs another one it casts
//! (`$1::jsonb`), and where it does not, the server's error is the answer.

use rowlock_model::Value;
use rust_decimal::Decimal;
use sqlx::encode::{Encode, IsNull};
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, Postgres};

use super::decode::{EPOCH_DAYS, EPOCH_MICROS};
use super::types::array_of;

/// A value as an argument.
pub(super) struct Argument<'a>(pub(super) &'a Value);

/// The type of an argument; 0 leaves it to the server.
fn oid(value: &Value) -> u32 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 16,
        Value::Int(_) => 20,
        Value::Float(_) => 701,
        Value::Decimal(_) => 1700,
        Value::Text(_) => 25,
        Value::Bytes(_) => 17,
        Value::Date(_) => 1082,
        Value::Time(_) => 1083,
        Value::Timestamp(_) => 1114,
        Value::TimestampTz(_) => 1184,
        Value::Interval { .. } => 1186,
        // An array without a typed item is an array of text.
        Value::Array(items) => array_of(item_oid(items)).unwrap_or(1009),
    }
}

fn item_oid(items: &[Value]) -> u32 {
    items.iter().map(oid).find(|oid| *oid != 0).unwrap_or(25)
}

impl sqlx::Type<Postgres> for Argument<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Argument<'_> {
    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(oid(self.0))))
    }

    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let mut bytes = Vec::new();
        if !write(self.0, &mut bytes)? {
            return Ok(IsNull::Yes);
        }
        buffer.extend_from_slice(&bytes);
        Ok(IsNull::No)
    }
}

/// Appends the binary form of a value; `false` if it is null and has none.
fn write(value: &Value, out: &mut Vec<u8>) -> Result<bool, BoxDynError> {
    match value {
        Value::Null => return Ok(false),
        Value::Bool(b) => out.push(u8::from(*b)),
        Value::Int(i) => out.extend(i.to_be_bytes()),
        Value::Float(x) => out.extend(x.to_be_bytes()),
        Value::Decimal(decimal) => numeric(*decimal, out),
        Value::Text(text) => out.extend(text.as_bytes()),
        Value::Bytes(bytes) => out.extend(bytes.iter()),
        Value::Date(infinite @ (i32::MAX | i32::MIN)) => out.extend(infinite.to_be_bytes()),
        Value::Date(days) => out.extend((days.wrapping_sub(EPOCH_DAYS)).to_be_bytes()),
        Value::Time(micros) => out.extend(micros.to_be_bytes()),
        Value::Timestamp(infinite @ (i64::MAX | i64::MIN))
        | Value::TimestampTz(infinite @ (i64::MAX | i64::MIN)) => {
            out.extend(infinite.to_be_bytes());
        }
        Value::Timestamp(micros) | Value::TimestampTz(micros) => {
            out.extend(micros.wrapping_sub(EPOCH_MICROS).to_be_bytes());
        }
        Value::Interval {
            months,
            days,
            micros,
        } => {
            out.extend(micros.to_be_bytes());
            out.extend(days.to_be_bytes());
            out.extend(months.to_be_bytes());
        }
        Value::Array(items) => array(items, out)?,
    }
    Ok(true)
}

fn array(items: &[Value], out: &mut Vec<u8>) -> Result<(), BoxDynError> {
    let item = item_oid(items);
    if items.iter().any(|v| !v.is_null() && oid(v) != item) {
        return Err("the items of an array argument must have one type".into());
    }
    if array_of(item).is_none() {
        return Err("arrays of arrays are not supported as arguments".into());
    }
    out.extend(i32::from(!items.is_empty()).to_be_bytes());
    out.extend(i32::from(items.iter().any(Value::is_null)).to_be_bytes());
    out.extend(item.to_be_bytes());
    if items.is_empty() {
        return Ok(());
    }
    out.extend(i32::try_from(items.len())?.to_be_bytes());
    out.extend(1i32.to_be_bytes());
    for value in items {
        let mut bytes = Vec::new();
        let length = match write(value, &mut bytes)? {
            true => i32::try_from(bytes.len())?,
            false => -1,
        };
        out.extend(length.to_be_bytes());
        out.extend(bytes);
    }
    Ok(())
}

/// `numeric_recv`: see [`super::decode`] for the form.
fn numeric(decimal: Decimal, out: &mut Vec<u8>) {
    let scale = decimal.scale() as usize;
    let digits = decimal.mantissa().unsigned_abs().to_string();
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    // Groups of four, aligned at the decimal point.
    let whole = format!("{whole:0>width$}", width = whole.len().div_ceil(4) * 4);
    let fraction = format!("{fraction:0<width$}", width = scale.div_ceil(4) * 4);
    let mut weight = (whole.len() / 4) as i16 - 1;
    let all = format!("{whole}{fraction}");
    let mut groups: Vec<i16> = (0..all.len() / 4)
        .map(|i| all[4 * i..4 * i + 4].parse().unwrap_or(0))
        .collect();
    while groups.last() == Some(&0) {
        groups.pop();
    }
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    if groups.is_empty() {
        weight = 0;
    }
    let sign: u16 = if decimal.is_sign_negative() {
        0x4000
    } else {
        0
    };
    out.extend((groups.len() as i16).to_be_bytes());
    out.extend(weight.to_be_bytes());
    out.extend(sign.to_be_bytes());
    out.extend((scale as i16).to_be_bytes());
    groups.iter().for_each(|g| out.extend(g.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::super::decode::{Format, value};
    use super::super::types::TypeNames;
    use super::*;

    /// What is written in binary form reads back as the same value.
    #[test]
    fn binary_forms_round_trip() {
        let decimal = |text: &str| Value::Decimal(Decimal::from_str_exact(text).unwrap());
        let values = [
            Value::Int(-1),
            Value::Bool(true),
            Value::from("ä"),
            Value::Date(0),
            Value::Timestamp(1),
            Value::TimestampTz(-1),
            Value::TimestampTz(i64::MAX),
            Value::Interval {
                months: -1,
                days: 2,
                micros: 3,
            },
            Value::Array([Value::Int(1), Value::Null].into()),
            Value::Array([].into()),
            decimal("0"),
            decimal("0.00"),
            decimal("0.0001"),
            decimal("-12345.6789"),
            decimal("10000"),
            decimal("100000000.5"),
            decimal("0.00001"),
        ];
        for original in values {
            let mut bytes = Vec::new();
            write(&original, &mut bytes).unwrap();
            let read = value(
                oid(&original),
                Format::Binary,
                &bytes,
                &TypeNames::default(),
            );
            assert_eq!(read, original);
        }
    }
}
