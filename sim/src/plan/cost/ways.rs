//! What a statement says about the ways to the rows of one table.

use super::chance::{ELEMENTS, Subject, calls};
use super::{Spread, Way, Ways, size};
use crate::plan::catalog::{Index, IndexMethod, Table};
use crate::plan::expr::{Compare, Expr};
use crate::plan::lower::access::{at_entry, implies, is_usable, key_conditions, match_key};
use crate::plan::query::{Conjunct, KeyCondition, KeyOp};
use crate::plan::types::Type;
use crate::plan::walk;
use rowlock_model::Value;

/// A key of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderKey {
    /// What is sorted by.
    pub expr: Expr,
    /// `DESC`.
    pub descending: bool,
    /// NULLs come first.
    pub nulls_first: bool,
}

/// The ways to the rows of a table that is read alone, at `entry`, under `conditions`. `checked`: the
/// conditions are checked on each row even if its being in a partial index says so already, because the
/// row is locked or written. `None`: the costs of something are not modelled.
pub fn ways(
    table: &Table,
    entry: usize,
    conditions: &[Conjunct],
    order: &[OrderKey],
    checked: bool,
) -> Option<Ways> {
    let entry = entry as u32;
    if conditions.iter().any(|c| has_subselect(&c.expr)) {
        return None;
    }
    let usable: Vec<bool> = table
        .indexes
        .iter()
        .map(|index| is_usable(index, entry, conditions))
        .collect();
    let subject = Subject {
        table,
        entry,
        usable: &usable,
    };
    let fixed = |e: &Expr| is_fixed(e, conditions);
    let mut keys: Vec<&OrderKey> = Vec::new();
    let mut places = Vec::new();
    for (place, key) in order.iter().enumerate() {
        let repeats = keys.iter().any(|known| known.expr == key.expr);
        if !repeats && !fixed(&key.expr) {
            keys.push(key);
            places.push(place);
        }
    }
    let mut list = Vec::new();
    // The index that was made last is tried first.
    for (position, index) in table.indexes.iter().enumerate().rev() {
        if !usable[position] {
            continue;
        }
        if matches!(index.method, IndexMethod::Gin { .. }) {
            let searched = !key_conditions(index, entry, conditions, false).is_empty();
            if searched {
                return None;
            }
            continue;
        }
        // A list of values for a key that is not the first one costs the order.
        let keyed = key_conditions(index, entry, conditions, false);
        let listed = |k: &KeyCondition| k.op == KeyOp::Any && k.key > 0;
        let mut plain = keyed.clone();
        plain.retain(|k| !listed(k));
        list.push(way(
            &subject, position, conditions, plain, &keys, checked, &fixed,
        ));
        if keyed.iter().any(listed) {
            list.push(way(
                &subject, position, conditions, keyed, &keys, checked, &fixed,
            ));
        }
    }
    let all = conditions.iter().map(|c| &c.expr);
    Some(Ways {
        share: subject.chances(all.clone()),
        calls: all.map(calls).sum(),
        keys: keys.iter().map(|key| spread(&subject, &key.expr)).collect(),
        places,
        list,
    })
}

fn way(
    subject: &Subject<'_>,
    position: usize,
    conditions: &[Conjunct],
    keys: Vec<KeyCondition>,
    order: &[&OrderKey],
    checked: bool,
    fixed: &dyn Fn(&Expr) -> bool,
) -> Way {
    let index = &subject.table.indexes[position];
    let ordered = index.method == IndexMethod::BTree;
    let answers = |e: &Expr| {
        index.keys.iter().enumerate().any(|(i, key)| {
            let wanted = at_entry(&key.expr, subject.entry);
            match_key(e, &wanted).is_some_and(|(op, operand)| {
                keys.iter()
                    .any(|k| k.key == i && k.op == op && k.operand == *operand)
            })
        })
    };
    let predicate = index.predicate.as_ref();
    let predicate = predicate.map(|p| at_entry(p, subject.entry));
    let mut in_index: Vec<&Expr> = Vec::new();
    let mut rest = 0.0;
    for condition in conditions {
        if answers(&condition.expr) {
            in_index.push(&condition.expr);
            continue;
        }
        let said = !checked
            && predicate
                .as_ref()
                .is_some_and(|p| implies(&[p], &condition.expr, subject.entry));
        if !said {
            rest += calls(&condition.expr);
        }
    }
    // The end of a search: equalities, then one key with bounds.
    let mut bounding: Vec<&Expr> = Vec::new();
    let mut bounded = 0;
    for key in &index.keys {
        let wanted = at_entry(&key.expr, subject.entry);
        let here = in_index.iter().copied();
        let mut here = here.filter(|e| match_key(e, &wanted).is_some()).peekable();
        if here.peek().is_none() {
            break;
        }
        bounded += 1;
        let mut equal = false;
        for e in here {
            equal |= matches!(
                match_key(e, &wanted),
                Some((KeyOp::Eq | KeyOp::Any | KeyOp::IsNull, _))
            );
            bounding.push(e);
        }
        if !equal {
            break;
        }
    }
    let extra: Vec<&Expr> = match &predicate {
        Some(Expr::And(parts)) => parts.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let extra = extra
        .into_iter()
        .filter(|p| !implies(&in_index, p, subject.entry));
    let extra: Vec<&Expr> = extra.collect();
    let with = |list: &[&Expr]| subject.chances(list.iter().chain(&extra).copied());
    let whole = index.unique
        && (0..index.keys.len()).all(|i| keys.iter().any(|k| k.key == i && k.op == KeyOp::Eq))
        && !keys.iter().any(|k| k.op == KeyOp::Any);
    Way {
        index: position,
        walked: with(&bounding),
        found: with(&in_index),
        whole,
        searches: searches(&keys, |_| true),
        places: searches(&keys, |key| key < bounded),
        operands: keys.iter().map(|k| calls(&k.operand)).sum(),
        rest,
        partial: predicate
            .as_ref()
            .map(|_| size::entries_a_page(subject.table, index)),
        ordered,
        sorted: match ordered && !keys.iter().any(|k| k.op == KeyOp::Any && k.key > 0) {
            true => (
                given(index, subject.entry, order, fixed, false),
                given(index, subject.entry, order, fixed, true),
            ),
            false => (0, 0),
        },
        tried: predicate.is_some(),
        keys,
    }
}

/// How many searches a list of values needs.
fn searches(keys: &[KeyCondition], counts: impl Fn(usize) -> bool) -> f64 {
    let lists = keys.iter().filter(|k| k.op == KeyOp::Any && counts(k.key));
    lists
        .map(|k| match &k.operand {
            Expr::Array(items) => items.len() as f64,
            Expr::Const(Value::Array(items)) => items.len() as f64,
            _ => ELEMENTS as f64,
        })
        .product::<f64>()
        .max(1.0)
}

/// How many keys of the order an index gives, read forwards or backwards.
fn given(
    index: &Index,
    entry: u32,
    order: &[&OrderKey],
    fixed: &dyn Fn(&Expr) -> bool,
    backward: bool,
) -> usize {
    let mut given = 0;
    for key in &index.keys {
        let expr = at_entry(&key.expr, entry);
        if fixed(&expr) {
            continue;
        }
        let Some(wanted) = order.get(given) else {
            break;
        };
        let same = wanted.expr == expr
            && wanted.descending == (key.descending != backward)
            && wanted.nulls_first == (key.nulls_first != backward);
        if !same {
            break;
        }
        given += 1;
    }
    given
}

/// Whether conditions leave one value to an expression.
fn is_fixed(e: &Expr, conditions: &[Conjunct]) -> bool {
    if walk::entries_used(e) == 0 {
        return true;
    }
    conditions.iter().any(|condition| match &condition.expr {
        Expr::Compare {
            op: Compare::Eq,
            sides,
            ..
        } => {
            let one = |a: &Expr, b: &Expr| a == e && walk::entries_used(b) == 0;
            one(&sides.0, &sides.1) || one(&sides.1, &sides.0)
        }
        // A boolean column that must be true, or false.
        Expr::Not(inner) => **inner == *e,
        other => other == e,
    })
}

fn spread(subject: &Subject<'_>, e: &Expr) -> Spread {
    match e {
        Expr::Column { column, .. } => {
            let column = *column as usize;
            if subject.is_unique(column) {
                Spread::Unique
            } else if subject.table.columns[column].declared.ty == Type::Bool {
                Spread::Bool
            } else {
                Spread::Unknown
            }
        }
        _ => Spread::Unknown,
    }
}

/// Whether a condition has a sub-select that the planner makes a join of, or whose costs would count.
fn has_subselect(e: &Expr) -> bool {
    let mut found = false;
    walk::expr(&mut e.clone(), 0, &mut |e, _| {
        match e {
            Expr::Exists(_) | Expr::AnyOfRows { .. } => found = true,
            Expr::Subquery(plan) | Expr::ArraySubquery(plan) => found |= !plan.once,
            _ => {}
        }
        true
    });
    found
}
