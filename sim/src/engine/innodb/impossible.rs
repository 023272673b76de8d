//! Conditions that exclude each other.
//!
//! The servers find out before they touch a table that nothing can match: a column equal to two values, `NULL`
//! in a column that takes none, a range of an indexed column with its ends the wrong way round. Then nothing
//! is locked, not even the table.

use super::access::helps;
use super::key::Part;
use super::range::{Bound, value_part};
use super::shape::Shape;
use super::store::Store;
use crate::loose::query::{KeyOp, RangeEntry, RangeKind};
use crate::loose::storage::SourcePlan;

/// Whether no row can pass the conditions of `WHERE` with constants.
pub(super) fn is_impossible(store: &Store, plan: &SourcePlan<'_>) -> bool {
    let mut range = plan.source.range.iter().enumerate();
    range.any(|(number, entry)| {
        let RangeKind::Table(table) = &entry.kind else {
            return false;
        };
        let Some(shape) = store.schema().shape(table.id) else {
            return false;
        };
        let bounds = known(plan, number, entry);
        (0..table.columns.len()).any(|column| excludes(shape, &bounds, column))
    })
}

/// The conditions on columns of an entry whose values are known.
fn known(plan: &SourcePlan<'_>, number: usize, entry: &RangeEntry) -> Vec<Bound> {
    let RangeKind::Table(table) = &entry.kind else {
        return Vec::new();
    };
    let mut bounds = Vec::new();
    for (at, condition) in entry.conditions.iter().enumerate() {
        let Some(column) = condition.column else {
            continue;
        };
        let of = &table.columns[column];
        let values = plan.constants.get(number).and_then(|c| c.get(at));
        let Some(values) = values.cloned().flatten() else {
            continue;
        };
        if condition.conjunct.is_some() && helps(condition, &of.ty, of.collation) {
            bounds.push(Bound {
                condition: at,
                column,
                op: condition.op,
                values: Some(values),
                arms: condition.arms.clone(),
            });
        }
    }
    bounds
}

/// Whether the conditions leave no value for a column.
fn excludes(shape: &Shape, bounds: &[Bound], column: usize) -> bool {
    let collation = shape.table.columns[column].collation;
    let part = |bound: &Bound| {
        let value = bound.values.as_ref().and_then(|v| v.first());
        value.map(|value| value_part(shape, column, value, collation))
    };
    let of: Vec<&Bound> = bounds.iter().filter(|b| b.column == column).collect();
    let indexed = shape.indexes.iter().any(|i| i.columns.contains(&column));
    let wants_null = of.iter().any(|b| b.op == KeyOp::IsNull);
    if wants_null {
        let takes_null = shape.table.columns[column].not_null.is_none();
        let also = |b: &&Bound| !matches!(b.op, KeyOp::IsNull | KeyOp::Is | KeyOp::Like);
        return !takes_null || of.iter().any(also);
    }
    let null = |b: &Bound| {
        !matches!(b.op, KeyOp::Is | KeyOp::IsNotNull | KeyOp::Or)
            && part(b).is_some_and(|p| p.is_null())
    };
    if of.iter().any(|b| null(b) && b.op != KeyOp::In) {
        return true;
    }
    // The values that equalities leave.
    let equal = of.iter().find(|b| b.op == KeyOp::Eq);
    let listed = of.iter().find(|b| b.op == KeyOp::In && indexed);
    if let Some(of_values) = equal.or(listed) {
        let values = of_values.values.iter().flatten();
        let mut parts = values.map(|value| value_part(shape, column, value, collation));
        return !parts.any(|candidate| {
            !candidate.is_null() && of.iter().all(|b| passes(shape, b, &candidate))
        });
    }
    if !indexed {
        return false;
    }
    let low = of.iter().filter(|b| matches!(b.op, KeyOp::Gt | KeyOp::Ge));
    low.into_iter().any(|low| {
        let mut high = of.iter().filter(|b| matches!(b.op, KeyOp::Lt | KeyOp::Le));
        high.any(|high| match (part(low), part(high)) {
            (Some(from), Some(to)) => {
                let both = low.op == KeyOp::Ge && high.op == KeyOp::Le;
                if both { from > to } else { from >= to }
            }
            _ => false,
        })
    })
}

/// Whether a value passes a condition.
pub(super) fn passes(shape: &Shape, bound: &Bound, candidate: &Part) -> bool {
    let collation = shape.table.columns[bound.column].collation;
    if bound.op == KeyOp::Or {
        return bound.any_arm(|arm| passes(shape, arm, candidate));
    }
    let values = bound.values.as_deref().unwrap_or(&[]);
    let mut parts = values
        .iter()
        .map(|value| value_part(shape, bound.column, value, collation));
    match bound.op {
        KeyOp::Eq | KeyOp::In | KeyOp::Is => parts.any(|part| part == *candidate),
        KeyOp::Lt => parts.next().is_none_or(|part| *candidate < part),
        KeyOp::Le => parts.next().is_none_or(|part| *candidate <= part),
        KeyOp::Gt => parts.next().is_none_or(|part| *candidate > part),
        KeyOp::Ge => parts.next().is_none_or(|part| *candidate >= part),
        KeyOp::Ne => parts.next().is_none_or(|part| *candidate != part),
        KeyOp::IsNull => candidate.is_null(),
        KeyOp::IsNotNull => !candidate.is_null(),
        KeyOp::Like | KeyOp::Or => true,
    }
}
