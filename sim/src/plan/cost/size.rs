//! How many rows the server takes a table to have (manual, 76.1 "Row Estimation Examples"): from its
//! pages, of which it has ten at least if it was never counted, and from the widths of its columns.

use crate::plan::catalog::{Column, Index, Table};
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
fn width(ty: Type, modifier: Option<Modifier>) -> usize {
    // A character may need four bytes; longer texts are taken to be half full.
    let text = |characters: u32| {
        let most = 4 * characters as usize + 4;
        match most {
            0..=32 => most,
            33..1_000 => 32 + (most - 32) / 2,
            _ => 32 + (1_000 - 32) / 2,
        }
    };
    match (ty, modifier) {
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

fn column_width(column: &Column) -> usize {
    width(column.declared.ty, column.declared.modifier)
}

/// How many rows a page of a table is taken to have, if it was never counted.
pub fn rows_a_page(table: &Table) -> usize {
    let live = table.columns.iter().filter(|column| !column.dropped);
    let data: usize = live.map(column_width).sum();
    (ROOM / (data + BESIDE_DATA)).max(1)
}

/// How many entries a page of an index is taken to have, if it was made on an empty table.
pub(super) fn entries_a_page(table: &Table, index: &Index) -> usize {
    let keys = index.keys.iter().map(|key| match key.column {
        Some(column) => column_width(&table.columns[column]),
        None => width(key.ty, None),
    });
    let include = index.include.iter();
    let include = include.map(|column| column_width(&table.columns[*column]));
    let data: usize = keys.chain(include).sum();
    (ROOM / (data + BESIDE_DATA)).max(1)
}

/// The number of rows that a table of so many pages is taken to have, if it was never counted.
pub fn estimated_rows(table: &Table, pages: usize) -> usize {
    rows_a_page(table) * pages.max(LEAST_PAGES)
}

/// The pages that the planner reckons with.
pub(super) fn pages_taken(table: &Table, pages: usize) -> usize {
    match table.counted {
        Some(_) => pages,
        None => pages.max(LEAST_PAGES),
    }
}

/// The rows that the planner takes a table to have.
pub(super) fn rows_taken(table: &Table, pages: usize) -> f64 {
    match table.counted {
        Some(counted) => {
            (counted.rows / counted.pages.max(1) as f64 * pages as f64).round_ties_even()
        }
        None => estimated_rows(table, pages) as f64,
    }
}
