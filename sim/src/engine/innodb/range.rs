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
    /// Of [`KeyOp::Or`]: see [`KeyCondition::arms`](crate::loose::query::KeyCondition::arms).
    pub arms: Vec<Vec<(KeyOp, usize)>>,
}

impl Bound {
    /// Its arms as conditions; itself, if it is none of [`KeyOp::Or`].
    fn alternatives(&self) -> Vec<Vec<Bound>> {
        let values = self.values.as_deref().unwrap_or(&[]);
        let bound = |(op, at): &(KeyOp, usize)| Bound {
            condition: self.condition,
            column: self.column,
            op: *op,
            values: values.get(*at).map(|value| vec![value.clone()]),
            arms: Vec::new(),
        };
        let arm = |arm: &Vec<(KeyOp, usize)>| arm.iter().map(bound).collect();
        self.arms.iter().map(arm).collect()
    }

    /// Whether one of its arms passes.
    pub(super) fn any_arm(&self, passes: impl Fn(&Bound) -> bool) -> bool {
        self.alternatives()
            .iter()
            .any(|arm| arm.iter().all(&passes))
    }
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
    /// See [`Bound::arms`].
    pub arms: Vec<Vec<(KeyOp, usize)>>,
}

impl Filter {
    /// Whether a key passes.
    pub(super) fn passes(&self, key: &Key) -> bool {
        let field = &key.0[self.field];
        if self.op == KeyOp::Or {
            let holds = |(op, at): &(KeyOp, usize)| test(*op, field, &self.parts[*at..=*at]);
            return self.arms.iter().any(|arm| arm.iter().all(holds));
        }
        test(self.op, field, &self.parts)
    }
}

/// Whether a field passes a comparison.
fn test(op: KeyOp, field: &Part, parts: &[Part]) -> bool {
    let first = parts.first();
    let compares = |wanted: fn(Ordering) -> bool| {
        !field.is_null() && first.is_some_and(|part| wanted(field.cmp(part)))
    };
    match op {
        KeyOp::Eq => compares(Ordering::is_eq),
        KeyOp::Lt => compares(Ordering::is_lt),
        KeyOp::Le => compares(Ordering::is_le),
        KeyOp::Gt => compares(Ordering::is_gt),
        KeyOp::Ge => compares(Ordering::is_ge),
        KeyOp::Ne => compares(Ordering::is_ne),
        KeyOp::In => !field.is_null() && parts.contains(field),
        KeyOp::Is => first == Some(field),
        KeyOp::IsNull => field.is_null(),
        KeyOp::IsNotNull => !field.is_null(),
        // Tested on the row.
        KeyOp::Like | KeyOp::Or => true,
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
    let mut ends: BTreeMap<Vec<Part>, Vec<Ends>> = BTreeMap::new();
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
                let these: Vec<&Bound> = bounds.iter().filter(|b| b.column == *column).collect();
                let mut ranges = column_ranges(prefix, &these, nullable, &part);
                for range in &mut ranges {
                    extend(shape, index, bounds, prefix.len() + 1, range);
                }
                ends.insert(prefix.clone(), ranges);
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
        let range = |(low, high): Ends| match (low, high) {
            (Some((from, true)), Some((to, true))) if from == to => KeyRange::Exact(from),
            (low, high) => KeyRange::Between { low, high },
        };
        ends.into_values().flatten().map(range).collect()
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

/// The ranges of one column behind a prefix, ascending; those that meet are one.
fn column_ranges(
    prefix: &[Part],
    bounds: &[&Bound],
    nullable: bool,
    part: &impl Fn(&Value) -> Part,
) -> Vec<Ends> {
    let (unions, plain): (Vec<&Bound>, Vec<&Bound>) =
        bounds.iter().partition(|b| b.op == KeyOp::Or);
    let mut choices: Vec<Vec<Bound>> = vec![plain.into_iter().cloned().collect()];
    for union in unions {
        let with = |known: &Vec<Bound>| {
            let arms = union.alternatives().into_iter();
            let longer = arms.map(|arm| known.iter().cloned().chain(arm).collect());
            longer.collect::<Vec<Vec<Bound>>>()
        };
        choices = choices.iter().flat_map(with).collect();
    }
    let mut ranges: Vec<Ends> = Vec::new();
    for choice in &choices {
        let equal = |b: &&Bound| b.op == KeyOp::Eq;
        // An equality is a range with one value.
        let mut both = choice.clone();
        for bound in choice.iter().filter(equal) {
            for op in [KeyOp::Ge, KeyOp::Le] {
                both.push(Bound {
                    op,
                    ..bound.clone()
                });
            }
        }
        let range = column_range(prefix, both.iter(), nullable, part);
        ranges.extend(range.filter(|(low, high)| !is_empty(low, high)));
    }
    ranges.sort_by(|(a, _), (b, _)| a.as_ref().map(low_key).cmp(&b.as_ref().map(low_key)));
    let mut merged: Vec<Ends> = Vec::new();
    for (low, high) in ranges {
        match merged.last_mut() {
            Some((_, end)) if meets(end, &low) => {
                if ends_later(&high, end) {
                    *end = high;
                }
            }
            _ => merged.push((low, high)),
        }
    }
    merged
}

/// Lower ends in their order: an inclusive one comes first.
fn low_key((parts, inclusive): &End) -> (&[Part], bool) {
    (parts, !inclusive)
}

/// Whether the wrong end comes first.
fn is_empty(low: &Option<End>, high: &Option<End>) -> bool {
    match (low, high) {
        (Some((low, from)), Some((high, to))) if low.len() == high.len() => {
            low > high || (low == high && !(*from && *to))
        }
        _ => false,
    }
}

/// Whether a range that begins at `low` meets one that ends at `high`.
fn meets(high: &Option<End>, low: &Option<End>) -> bool {
    match (high, low) {
        (Some((high, to)), Some((low, from))) => low < high || (low == high && (*to || *from)),
        _ => true,
    }
}

fn ends_later(one: &Option<End>, other: &Option<End>) -> bool {
    match (one, other) {
        (_, None) => false,
        (None, _) => true,
        (Some((one, to)), Some((other, end))) => one > other || (one == other && *to && !*end),
    }
}

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

/// An end that is in the range goes on with the ends of the columns behind.
fn extend(shape: &Shape, index: &IndexShape, bounds: &[Bound], behind: usize, range: &mut Ends) {
    let (low, high) = range;
    for (column, collation) in index.columns.iter().zip(&index.collations).skip(behind) {
        let of = bounds.iter().filter(|b| b.column == *column);
        let part = |value: &Value| value_part(shape, *column, value, *collation);
        let equal = |b: &Bound| {
            matches!(b.op, KeyOp::Eq) && b.values.as_ref().is_some_and(|v| v.len() == 1)
        };
        let mut ends: Ends = (None, None);
        if let Some(bound) = of.clone().find(|b| equal(b)) {
            let end = bound
                .values
                .iter()
                .flatten()
                .map(|v| (vec![part(v)], true))
                .next();
            ends = (end.clone(), end);
        } else if let Some((from, to)) = column_range(&[], of, false, &part) {
            ends = (from, to);
        }
        let grow = |end: &mut Option<End>, by: Option<End>| match (end, by) {
            (Some((parts, inclusive @ true)), Some((more, included))) => {
                parts.extend(more);
                *inclusive = included;
                true
            }
            _ => false,
        };
        let grown = (grow(low, ends.0), grow(high, ends.1));
        if grown == (false, false) {
            break;
        }
        if !grown.0
            && let Some((_, inclusive)) = low
            && *inclusive
        {
            // What is behind is open at this end.
            break;
        }
    }
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
            arms: bound.arms.clone(),
        })
    };
    bounds.iter().filter_map(filter).collect()
}
