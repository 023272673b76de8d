//! Parts of an index: ranges of its keys, made from conditions, and conditions as tests of keys.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rowlock_model::Value;

use super::impossible::passes;
use super::key::{Key, Part};
use super::shape::{IndexShape, Shape};
use crate::loose::query::KeyOp;
use crate::loose::types::{Collation, DeclaredType};
use crate::loose::value::as_datetime;

/// A part of an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyRange {
    /// All records.
    All,
    /// Records whose keys begin with these fields.
    Exact(Vec<Part>),
    /// Records between two prefixes of keys; `true` includes those that begin with the prefix.
    Between {
        /// The lower end.
        low: Option<(Vec<Part>, bool)>,
        /// The upper end.
        high: Option<(Vec<Part>, bool)>,
    },
}

impl KeyRange {
    /// Whether a key lies behind the range, in its direction.
    pub(super) fn is_past(&self, key: &Key, reverse: bool) -> bool {
        let bound = match self {
            KeyRange::All => return false,
            KeyRange::Exact(parts) => return !key.starts_with(parts),
            KeyRange::Between { low, high } => {
                if reverse {
                    low
                } else {
                    high
                }
            }
        };
        let Some((parts, inclusive)) = bound else {
            return false;
        };
        match key.cmp_prefix(parts) {
            Ordering::Equal => !inclusive,
            Ordering::Less => reverse,
            Ordering::Greater => !reverse,
        }
    }

    /// The lower end.
    pub(super) fn low(&self) -> Option<(&[Part], bool)> {
        match self {
            KeyRange::All => None,
            KeyRange::Exact(parts) => Some((parts, true)),
            KeyRange::Between { low, .. } => low.as_ref().map(|(parts, i)| (&parts[..], *i)),
        }
    }

    /// The upper end.
    pub(super) fn high(&self) -> Option<(&[Part], bool)> {
        match self {
            KeyRange::All => None,
            KeyRange::Exact(parts) => Some((parts, true)),
            KeyRange::Between { high, .. } => high.as_ref().map(|(parts, i)| (&parts[..], *i)),
        }
    }
}

impl KeyRange {
    /// Whether a key lies in the range.
    pub fn contains(&self, key: &Key) -> bool {
        if let KeyRange::Exact(parts) = self {
            return key.starts_with(parts);
        }
        let above = self
            .low()
            .is_none_or(|(parts, inclusive)| match key.cmp_prefix(parts) {
                Ordering::Less => false,
                Ordering::Equal => inclusive,
                Ordering::Greater => true,
            });
        above && !self.is_past(key, false)
    }
}

/// A condition on a column with the values of its operands, if they are known.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its place among the entry's conditions.
    pub condition: usize,
    /// The column.
    pub column: usize,
    /// How it is compared.
    pub op: KeyOp,
    /// What with.
    pub values: Option<Vec<Value>>,
}

/// A condition on a column of an index.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Which field of the key.
    pub field: usize,
    /// How it is compared.
    pub op: KeyOp,
    /// What with.
    pub parts: Vec<Part>,
}

impl Filter {
    /// Whether a key passes.
    pub(super) fn passes(&self, key: &Key) -> bool {
        let field = &key.0[self.field];
        let first = self.parts.first();
        let compares = |wanted: fn(Ordering) -> bool| {
            !field.is_null() && first.is_some_and(|part| wanted(field.cmp(part)))
        };
        match self.op {
            KeyOp::Eq => compares(Ordering::is_eq),
            KeyOp::Lt => compares(Ordering::is_lt),
            KeyOp::Le => compares(Ordering::is_le),
            KeyOp::Gt => compares(Ordering::is_gt),
            KeyOp::Ge => compares(Ordering::is_ge),
            KeyOp::Ne => compares(Ordering::is_ne),
            KeyOp::In => !field.is_null() && self.parts.contains(field),
            KeyOp::Is => first == Some(field),
            KeyOp::IsNull => field.is_null(),
            KeyOp::IsNotNull => !field.is_null(),
            // Tested on the row.
            KeyOp::Like => true,
        }
    }
}

/// The text before the first wildcard of a pattern, if there is any.
pub(super) fn like_prefix(pattern: &Value) -> Option<String> {
    let pattern = pattern.as_str()?;
    let end = pattern.find(['%', '_', '\\'])?;
    (end > 0).then(|| pattern[..end].to_owned())
}

/// The ranges of an index that conditions with known values bound, in the order of the scan.
pub fn ranges(shape: &Shape, index: &IndexShape, bounds: &[Bound], reverse: bool) -> Vec<KeyRange> {
    let mut prefixes: Vec<Vec<Part>> = vec![Vec::new()];
    let mut exact = true;
    let mut ends: BTreeMap<Vec<Part>, Ends> = BTreeMap::new();
    for (at, (column, collation)) in index.columns.iter().zip(&index.collations).enumerate() {
        // A whole unique key: what comes behind it does not narrow the range.
        let whole = index.unique && at == index.declared_columns;
        if whole && !prefixes.iter().flatten().any(Part::is_null) {
            break;
        }
        let mut of = bounds.iter().filter(|b| b.column == *column);
        let part = |value: &Value| Part::of(&fitting(shape, *column, value), *collation);
        let equal = of
            .clone()
            .find(|b| matches!(b.op, KeyOp::Eq | KeyOp::Is | KeyOp::IsNull | KeyOp::In));
        if let Some(bound) = equal {
            let values = bound.values.as_deref().unwrap_or(&[]);
            let mut parts: Vec<Part> = match bound.op {
                KeyOp::IsNull => vec![Part::Null],
                KeyOp::Is => values.iter().map(part).collect(),
                _ => values.iter().filter(|v| !v.is_null()).map(part).collect(),
            };
            parts.sort();
            parts.dedup();
            if bound.op != KeyOp::IsNull {
                parts.retain(|part| of.clone().all(|b| passes(shape, b, part)));
            }
            let longer = prefixes.iter().flat_map(|prefix| {
                parts.iter().map(move |part| {
                    let mut prefix = prefix.clone();
                    prefix.push(part.clone());
                    prefix
                })
            });
            prefixes = longer.collect();
            continue;
        }
        // From a value to the same value.
        if let Some((Some((low, true)), Some((high, true)))) =
            column_range(&[], of.clone(), false, &part)
            && low == high
        {
            for prefix in &mut prefixes {
                prefix.extend(low.iter().cloned());
            }
            continue;
        }
        let nullable = shape
            .table
            .columns
            .get(*column)
            .is_some_and(|c| c.not_null.is_none());
        if of.next().is_some() {
            exact = false;
            for prefix in &prefixes {
                let these = bounds.iter().filter(|b| b.column == *column);
                if let Some(range) = column_range(prefix, these, nullable, &part) {
                    ends.insert(prefix.clone(), range);
                }
            }
        }
        break;
    }
    let mut ranges: Vec<KeyRange> = if exact {
        let range = |prefix: Vec<Part>| {
            if prefix.is_empty() {
                KeyRange::All
            } else {
                KeyRange::Exact(prefix)
            }
        };
        prefixes.into_iter().map(range).collect()
    } else {
        let range = |(low, high)| KeyRange::Between { low, high };
        ends.into_values().map(range).collect()
    };
    if reverse {
        ranges.reverse();
    }
    ranges
}

/// One end of a range: a prefix of keys, and whether those that begin with it are in the range.
type End = (Vec<Part>, bool);

/// The lower and the upper end.
type Ends = (Option<End>, Option<End>);

/// The range of one column behind a prefix; `None` if nothing is in it.
fn column_range<'b>(
    prefix: &[Part],
    bounds: impl Iterator<Item = &'b Bound>,
    nullable: bool,
    part: &impl Fn(&Value) -> Part,
) -> Option<Ends> {
    let with = |part: Part| {
        let mut parts = prefix.to_vec();
        parts.push(part);
        parts
    };
    let mut low: Option<(Part, bool)> = nullable.then_some((Part::Null, false));
    let mut high: Option<(Part, bool)> = None;
    for bound in bounds {
        let value = bound.values.as_deref().and_then(|v| v.first());
        if value.is_some_and(Value::is_null) {
            return None;
        }
        let Some(value) = value else { continue };
        let end = part(value);
        let tighter_low =
            |low: &Option<(Part, bool)>, end: &Part| low.as_ref().is_none_or(|(l, _)| end > l);
        let tighter_high =
            |high: &Option<(Part, bool)>, end: &Part| high.as_ref().is_none_or(|(h, _)| end < h);
        match bound.op {
            KeyOp::Gt if low.as_ref().is_none_or(|(l, _)| end >= *l) => low = Some((end, false)),
            KeyOp::Ge if tighter_low(&low, &end) => low = Some((end, true)),
            KeyOp::Lt if high.as_ref().is_none_or(|(h, _)| end <= *h) => high = Some((end, false)),
            KeyOp::Le if tighter_high(&high, &end) => high = Some((end, true)),
            KeyOp::Like => {
                let prefix = like_prefix(value)?;
                let first = part(&Value::text(prefix.clone()));
                let last = part(&Value::text(format!("{prefix}\u{10ffff}")));
                low = Some((first, true));
                high = Some((last, true));
            }
            _ => {}
        }
    }
    let open = (!prefix.is_empty()).then(|| (prefix.to_vec(), true));
    let low = low.map(|(part, inclusive)| (with(part), inclusive));
    let high = high.map(|(part, inclusive)| (with(part), inclusive));
    Some((low.or_else(|| open.clone()), high.or(open)))
}

/// A value as a part of a key that has the column.
pub(super) fn value_part(
    shape: &Shape,
    column: usize,
    value: &Value,
    collation: Collation,
) -> Part {
    Part::of(&fitting(shape, column, value), collation)
}

/// A value as the column would have it, where that keeps its order (a text that is compared with a
/// point in time).
fn fitting(shape: &Shape, column: usize, value: &Value) -> Value {
    let ty = shape.table.columns.get(column).map(|c| &c.ty);
    match (ty, value) {
        (
            Some(DeclaredType::Date | DeclaredType::DateTime(_) | DeclaredType::Timestamp(_)),
            Value::Text(_),
        ) => as_datetime(value).map_or_else(|| value.clone(), Value::Timestamp),
        (Some(DeclaredType::Int { .. }), Value::Float(x)) if x.fract() == 0.0 => {
            Value::Int(*x as i64)
        }
        _ => value.clone(),
    }
}

/// The conditions on columns of an index, as tests of its keys.
pub fn filters(shape: &Shape, index: &IndexShape, bounds: &[Bound]) -> Vec<Filter> {
    let filter = |bound: &Bound| {
        let field = index.columns.iter().position(|c| *c == bound.column)?;
        let collation = index.collations[field];
        let part = |value: &Value| Part::of(&fitting(shape, bound.column, value), collation);
        Some(Filter {
            field,
            op: bound.op,
            parts: bound.values.as_ref()?.iter().map(part).collect(),
        })
    };
    bounds.iter().filter_map(filter).collect()
}
