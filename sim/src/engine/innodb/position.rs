//! What MariaDB's sort takes for the place of a row: the columns of the clustered key as they stand in a record of
//! the server, or the row number. The bytes are compared as they are, so not in the order of the index: whole
//! numbers begin with their lowest byte, texts with their length.

use rowlock_model::Value;

use super::key::{Key, Part};
use super::shape::Shape;
use crate::loose::storage::StoredRow;
use crate::loose::types::DeclaredType;

/// The place of a row.
pub(super) fn of_row(shape: &Shape, row: &StoredRow<Key>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if shape.hidden_key {
        for part in row.id.0.iter() {
            if let Part::Int(number) = part {
                bytes.extend(number.to_be_bytes());
            }
        }
        return bytes;
    }
    for column in &shape.indexes[0].columns {
        let ty = shape.table.columns.get(*column).map(|column| &column.ty);
        let Some(value) = row.values.get(*column) else {
            continue;
        };
        match (value, ty) {
            (Value::Int(i), _) => bytes.extend(i.to_le_bytes()),
            (Value::Text(text), Some(DeclaredType::Char(size))) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let filled = format!("{text:size$}");
                bytes.extend(filled.as_bytes());
            }
            (Value::Text(text), _) => of_variable(text.as_bytes(), &mut bytes),
            (Value::Bytes(text), Some(DeclaredType::Binary(_))) => bytes.extend(text.iter()),
            (Value::Bytes(text), _) => of_variable(text, &mut bytes),
            (Value::Date(days), _) => bytes.extend((i64::from(*days) ^ i64::MIN).to_be_bytes()),
            (Value::Time(at) | Value::Timestamp(at) | Value::TimestampTz(at), _) => {
                bytes.extend((at ^ i64::MIN).to_be_bytes());
            }
            // Equal for the sort: they stay in the order in which they were found.
            _ => {}
        }
    }
    bytes
}

fn of_variable(text: &[u8], bytes: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_le_bytes());
    bytes.extend(text);
}
