//! Table elimination (MariaDB): the inner side of an outer join that nobody reads, and of which there is at most
//! one row, changes no result. It is not joined at all, and so not locked.

use super::conditions::entries_of;
use crate::loose::catalog::Index;
use crate::loose::expr::Expr;
use crate::loose::query::{
    Body, Conjunct, From, Join, KeyCondition, KeyOp, Query, RangeEntry, RangeKind, Source,
};
use crate::loose::walk;

/// Leaves out of a query what it does not need.
pub(super) fn of_query(query: &mut Query) {
    let Body::Select(select) = &mut query.body else {
        return;
    };
    if !has_candidate(select.source.from.as_ref()) {
        return;
    }
    let mut source = std::mem::take(&mut select.source);
    let mut needed = 0;
    walk::query(query, 0, &mut |expr, depth| note(expr, depth, &mut needed));
    of_source(&mut source, needed);
    if let Body::Select(select) = &mut query.body {
        select.source = source;
    }
}

/// Leaves out of a source what neither it nor the rest of the statement needs; `needed` are the entries that
/// the rest reads or writes, as a bit set.
pub(super) fn of_source(source: &mut Source, mut needed: u64) {
    let Some(mut from) = source.from.take() else {
        return;
    };
    for conjunct in &source.filter {
        needed |= entries(conjunct);
    }
    for entry in &mut source.range {
        if let RangeKind::Subquery(inner) = &mut entry.kind {
            walk::query(inner, 1, &mut |expr, depth| note(expr, depth, &mut needed));
        }
    }
    let mut joins = Vec::new();
    collect(&from, &mut joins);
    let is_unused = |inner: u64| {
        // What the condition of another join reads is kept, even if that one goes.
        let others = joins.iter().filter(|join| join.inner & !inner != 0);
        let elsewhere = others.fold(needed, |all, join| all | join.uses);
        elsewhere & inner == 0 && is_single(&source.range, inner)
    };
    let unused: Vec<u64> = joins
        .iter()
        .filter(|join| join.outer && is_unused(join.inner))
        .map(|join| join.inner)
        .collect();
    remove(&mut from, &unused);
    source.from = Some(from);
}

fn has_candidate(from: Option<&From>) -> bool {
    match from {
        Some(From::Join {
            kind, left, right, ..
        }) => *kind == Join::Left || has_candidate(Some(left)) || has_candidate(Some(right)),
        _ => false,
    }
}

/// A join as its condition sees it.
struct Joined {
    outer: bool,
    /// The entries that go with it: of an outer join its inner side, of another one both.
    inner: u64,
    /// The entries that its condition reads.
    uses: u64,
}

fn collect(from: &From, out: &mut Vec<Joined>) {
    if let From::Join {
        kind,
        left,
        right,
        on,
    } = from
    {
        let outer = *kind == Join::Left;
        out.push(Joined {
            outer,
            inner: entries_of(if outer { right } else { from }),
            uses: on.iter().fold(0, |all, c| all | entries(c)),
        });
        collect(left, out);
        collect(right, out);
    }
}

fn remove(from: &mut From, unused: &[u64]) {
    while let From::Join {
        kind: Join::Left,
        left,
        right,
        ..
    } = from
        && unused.contains(&entries_of(right))
    {
        *from = std::mem::replace(&mut **left, From::Entry(0));
    }
    if let From::Join { left, right, .. } = from {
        remove(left, unused);
        remove(right, unused);
    }
}

/// `ON` finds at most one row of these entries: its conditions fix all columns of a unique index of each, with
/// what is outside or fixed already.
fn is_single(range: &[RangeEntry], inner: u64) -> bool {
    let mut free = inner;
    loop {
        let fixed = (0..range.len())
            .find(|number| free & (1 << number) != 0 && is_fixed(&range[*number], free));
        match fixed {
            Some(number) => free &= !(1 << number),
            None => return free == 0,
        }
    }
}

fn is_fixed(entry: &RangeEntry, free: u64) -> bool {
    let RangeKind::Table(table) = &entry.kind else {
        return false;
    };
    let is_equal = |c: &KeyCondition| {
        c.conjunct.is_none()
            && c.uses & free == 0
            && c.subselect.is_none()
            && (c.op == KeyOp::Eq || c.op == KeyOp::In && c.operands.len() == 1)
    };
    let has_value = |column: Option<usize>| {
        let mut conditions = entry.conditions.iter();
        column.is_some() && conditions.any(|c| c.column == column && is_equal(c))
    };
    let is_fixed_by =
        |index: &Index| index.unique && index.keys.iter().all(|key| has_value(key.column()));
    table.indexes.iter().any(is_fixed_by)
}

/// The entries of its level that a condition reads, also in its sub-selects.
fn entries(conjunct: &Conjunct) -> u64 {
    let mut found = conjunct.uses;
    walk::expr(&mut conjunct.expr.clone(), 0, &mut |expr, depth| {
        note(expr, depth, &mut found)
    });
    found
}

fn note(expr: &Expr, depth: u32, found: &mut u64) -> bool {
    if let Expr::Column { level, entry, .. } = expr
        && *level == depth
    {
        *found |= 1 << (*entry).min(63);
    }
    true
}
