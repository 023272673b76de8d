//! Foreign keys ("SQLite Foreign Key Support").
//!
//! SQLite counts violations: an immediate constraint fails if a statement ends with more than it began
//! with, a deferred one if a transaction does. So both are answered by counting.

use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::image::Image;
use super::session::Settings;
use crate::loose::catalog::{ForeignKey, Table};
use crate::loose::errors;
use crate::loose::expr::Comparison;
use crate::loose::value::compare;

/// `SQLITE_CONSTRAINT_FOREIGNKEY`.
pub(super) fn failed() -> DbError {
    errors::sqlite(787, "FOREIGN KEY constraint failed")
}

/// `RESTRICT` is a trigger that refuses: `SQLITE_CONSTRAINT_TRIGGER`.
pub(super) fn restricted() -> DbError {
    errors::sqlite(1811, "FOREIGN KEY constraint failed")
}

/// Which constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Immediate,
    Deferred,
}

/// The columns of the parent that a key refers to; `None` if there is no such table or key.
pub(super) fn parent_columns(key: &ForeignKey, parent: &Table) -> Option<Vec<usize>> {
    if key.parent_columns.is_empty() {
        if let Some(alias) = parent.rowid_alias {
            return (key.columns.len() == 1).then(|| vec![alias]);
        }
        let primary = &parent.indexes[parent.primary()?];
        let columns: Option<Vec<usize>> = primary.keys.iter().map(|k| k.column()).collect();
        return columns.filter(|columns| columns.len() == key.columns.len());
    }
    let columns: Option<Vec<usize>> = key
        .parent_columns
        .iter()
        .map(|name| parent.column(name))
        .collect();
    let columns = columns?;
    if columns.len() == 1 && parent.rowid_alias == Some(columns[0]) {
        return Some(columns);
    }
    let covers = |index: &crate::loose::catalog::Index| {
        index.unique
            && index.filter.is_none()
            && index.keys.len() == columns.len()
            && index
                .keys
                .iter()
                .all(|k| k.column().is_some_and(|c| columns.contains(&c)))
    };
    parent.indexes.iter().any(covers).then_some(columns)
}

/// The error of a key without a parent key to refer to.
pub(super) fn mismatch(child: &Table, key: &ForeignKey) -> DbError {
    errors::sqlite(
        1,
        format!(
            "foreign key mismatch - \"{}\" referencing \"{}\"",
            child.name, key.parent
        ),
    )
}

/// The values of a key in a child row; `None` if one is NULL: such a row refers to nothing.
pub(super) fn child_values(key: &ForeignKey, row: &Row) -> Option<Vec<Value>> {
    let values: Vec<Value> = key.columns.iter().map(|c| row[*c].clone()).collect();
    (!values.iter().any(Value::is_null)).then_some(values)
}

/// Whether a row of the parent has these values, compared as the parent's columns are.
pub(super) fn refers(parent: &Table, columns: &[usize], values: &[Value], row: &Row) -> bool {
    columns.iter().zip(values).all(|(column, value)| {
        let definition = &parent.columns[*column];
        let affinity = Some(definition.affinity());
        let by = Comparison::Classes {
            left: affinity,
            right: affinity,
            collation: definition.collation,
        };
        !row[*column].is_null() && compare(by, &row[*column], value).is_eq()
    })
}

/// How many child rows refer to no parent.
pub(super) fn violations(image: &Image, which: Which, settings: Settings) -> usize {
    let mut count = 0;
    for child in image.schema.tables.values() {
        for key in &child.foreign_keys {
            let deferred = key.deferred || settings.defer_foreign_keys;
            if deferred != (which == Which::Deferred) {
                continue;
            }
            count += of_key(image, child, key);
        }
    }
    count
}

fn of_key(image: &Image, child: &Arc<Table>, key: &ForeignKey) -> usize {
    let parent = image.schema.table(&key.parent);
    let rows = image.data(child.id).rows.values();
    let dangling = |row: &&Row| {
        let Some(values) = child_values(key, row) else {
            return false;
        };
        let Some(parent) = parent else {
            return true;
        };
        let Some(columns) = parent_columns(key, parent) else {
            return true;
        };
        let mut parents = image.data(parent.id).rows.values();
        !parents.any(|row| refers(parent, &columns, &values, row))
    };
    rows.filter(dangling).count()
}
