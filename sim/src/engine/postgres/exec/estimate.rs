//! How many rows the server takes a table to have (manual, 76.1 "Row Estimation Examples"): from its
//! pages, of which it has ten at least if it was never counted, and from the widths of its columns.

use crate::plan::catalog::{Column, Table};
use crate::plan::types::{Modifier, Type};

/// What of a page holds rows.
const ROOM: usize = 8_168;
/// A row's header, and its line pointer.
const BESIDE_DATA: usize = 24 + 4;
/// An empty table may be one that will grow.
const LEAST_PAGES: usize = 10;
/// What a value of no known width is taken to need.
const UNKNOWN_WIDTH: usize = 32;

/// How wide a value is taken to be, in bytes.
fn width(column: &Column) -> usize {
    // A character may need four bytes; longer texts are taken to be half full.
    let text = |characters: u32| {
        let most = 4 * characters as usize + 4;
        match most {
            0..=32 => most,
            33..1_000 => 32 + (most - 32) / 2,
            _ => 32 + (1_000 - 32) / 2,
        }
    };
    match (column.declared.ty, column.declared.modifier) {
        (Type::Bool, _) => 1,
        (Type::Int2, _) => 2,
        (Type::Int4 | Type::Float4 | Type::Date | Type::Enum(_) | Type::Oid, _) => 4,
        (Type::Int8 | Type::Float8 | Type::Time | Type::Timestamp | Type::TimestampTz, _) => 8,
        (Type::Interval | Type::Uuid, _) => 16,
        (Type::Name, _) => 64,
        (Type::Char, Some(Modifier::Length(n))) => 4 * n as usize + 4,
        (Type::Varchar, Some(Modifier::Length(n))) => text(n),
        _ => UNKNOWN_WIDTH,
    }
}

/// The number of rows that a table of so many pages is taken to have, if it was never counted.
pub(super) fn estimated_rows(table: &Table, pages: usize) -> usize {
    let data: usize = table.columns.iter().map(width).sum();
    (ROOM / (data + BESIDE_DATA)).max(1) * pages.max(LEAST_PAGES)
}
