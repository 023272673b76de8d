//! Order and equality of result rows.

use std::cmp::Ordering;
use std::sync::Arc;

use rowlock_model::Value;

use super::Exec;
use crate::engine::postgres::compare_values;
use crate::plan::catalog::{Catalog as _, EnumType};
use crate::plan::query::SortKey;
use crate::plan::types::Type;

/// `ORDER BY`, ready to compare rows.
#[derive(Debug)]
pub(super) struct Order {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    position: usize,
    descending: bool,
    nulls_first: bool,
    /// The labels, if the key is an enumeration.
    labels: Option<Arc<EnumType>>,
}

impl Order {
    /// Compares two rows.
    pub(super) fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        self.compare_first(self.keys.len(), a, b)
    }

    /// Compares two rows by the first keys.
    pub(super) fn compare_first(&self, count: usize, a: &[Value], b: &[Value]) -> Ordering {
        for key in &self.keys[..count] {
            let ordering = key.compare(&a[key.position], &b[key.position]);
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    }
}

impl Key {
    fn compare(&self, a: &Value, b: &Value) -> Ordering {
        match (a.is_null(), b.is_null()) {
            (true, true) => return Ordering::Equal,
            (true, false) if self.nulls_first => return Ordering::Less,
            (true, false) => return Ordering::Greater,
            (false, true) if self.nulls_first => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let ordering = match &self.labels {
            Some(labels) => position(labels, a).cmp(&position(labels, b)),
            None => compare_values(a, b),
        };
        if self.descending {
            ordering.reverse()
        } else {
            ordering
        }
    }
}

/// Where a label is in its enumeration.
pub(super) fn position(labels: &EnumType, value: &Value) -> Option<usize> {
    let text = value.as_str()?;
    labels.labels.iter().position(|label| &**label == text)
}

impl Exec<'_> {
    /// Prepares the keys of an `ORDER BY`.
    pub(super) fn order(&mut self, keys: &[SortKey]) -> Order {
        let keys = keys
            .iter()
            .map(|key| Key {
                position: key.target,
                descending: key.descending,
                nulls_first: key.nulls_first,
                labels: match key.ty {
                    Type::Enum(id) => self.schema().enum_by_id(id),
                    _ => None,
                },
            })
            .collect();
        Order { keys }
    }
}

/// Values as keys of grouping, `DISTINCT` and set operations: NULLs are equal to each other.
#[derive(Clone, Debug)]
pub(super) struct Group(pub(super) Vec<Value>);

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Group {}

impl PartialOrd for Group {
    fn partial_cmp(&self, other: &Group) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Group {
    fn cmp(&self, other: &Group) -> Ordering {
        self.0
            .iter()
            .zip(&other.0)
            .map(|(a, b)| compare_values(a, b))
            .find(|o| *o != Ordering::Equal)
            .unwrap_or(Ordering::Equal)
    }
}

/// SQL equality of two values of one type: unknown, that is false, for NULLs.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    !a.is_null() && !b.is_null() && compare_values(a, b) == Ordering::Equal
}
