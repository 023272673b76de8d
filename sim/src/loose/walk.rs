//! Visiting every expression of a tree, those inside sub-selects included.

use super::expr::{Aggregate, Expr, Window, WindowKind};
use super::query::{Body, CteBody, From, Query, RangeKind, SortBy, SortKey, Source, SubPlan};

/// Calls `visit` with every expression below `expr`, itself first, and with how many levels it lies
/// inside: 0 for the level of `expr`, one more in each sub-select. What `visit` puts in its place is
/// not visited again if it says so by returning `false`.
pub(crate) fn expr(e: &mut Expr, depth: u32, visit: &mut dyn FnMut(&mut Expr, u32) -> bool) {
    if !visit(e, depth) {
        return;
    }
    let all = |items: &mut [Expr], visit: &mut dyn FnMut(&mut Expr, u32) -> bool| {
        for item in items {
            expr(item, depth, visit);
        }
    };
    match e {
        Expr::Const(_)
        | Expr::Param(_)
        | Expr::Column { .. }
        | Expr::Rowid { .. }
        | Expr::Group { .. }
        | Expr::Window(_)
        | Expr::SystemVariable { .. }
        | Expr::Default => {}
        Expr::And(items) | Expr::Or(items) => all(items, visit),
        Expr::Xor(sides)
        | Expr::Compare { sides, .. }
        | Expr::Binary { sides, .. }
        | Expr::DateAdd { sides, .. } => {
            expr(&mut sides.0, depth, visit);
            expr(&mut sides.1, depth, visit);
        }
        Expr::Not(inner)
        | Expr::IsNull { expr: inner, .. }
        | Expr::IsTruth { expr: inner, .. }
        | Expr::Unary { expr: inner, .. }
        | Expr::Cast { expr: inner, .. } => expr(inner, depth, visit),
        Expr::CompareRows { fields, .. } => {
            for (left, right, _) in fields {
                expr(left, depth, visit);
                expr(right, depth, visit);
            }
        }
        Expr::Between { parts, .. } => {
            expr(&mut parts.0, depth, visit);
            expr(&mut parts.1, depth, visit);
            expr(&mut parts.2, depth, visit);
        }
        Expr::InList {
            expr: inner, items, ..
        } => {
            expr(inner, depth, visit);
            for (item, _) in items {
                expr(item, depth, visit);
            }
        }
        Expr::InRowList { left, items, .. } => {
            all(left, visit);
            for (item, _) in items.iter_mut().flatten() {
                expr(item, depth, visit);
            }
        }
        Expr::AnyOfRows { left, plan, .. } => {
            for (item, _) in left {
                expr(item, depth, visit);
            }
            subplan(plan, depth, visit);
        }
        Expr::Match { parts, .. } => {
            expr(&mut parts.0, depth, visit);
            expr(&mut parts.1, depth, visit);
            if let Some(escape) = &mut parts.2 {
                expr(escape, depth, visit);
            }
        }
        Expr::Case {
            branches,
            otherwise,
        } => {
            for (when, then) in branches {
                expr(when, depth, visit);
                expr(then, depth, visit);
            }
            expr(otherwise, depth, visit);
        }
        Expr::Call { args, .. } | Expr::Host { args, .. } => all(args, visit),
        Expr::UserVariable { assign, .. } => {
            if let Some(value) = assign {
                expr(value, depth, visit);
            }
        }
        Expr::Subquery(plan) | Expr::Exists(plan) => subplan(plan, depth, visit),
    }
}

/// The same for a sub-select of an expression at `depth`.
pub(crate) fn subplan(
    plan: &mut SubPlan,
    depth: u32,
    visit: &mut dyn FnMut(&mut Expr, u32) -> bool,
) {
    query(&mut plan.query, depth + 1, visit);
}

fn sort(keys: &mut [SortKey], depth: u32, visit: &mut dyn FnMut(&mut Expr, u32) -> bool) {
    for key in keys {
        if let SortBy::Expr(by) = &mut key.by {
            expr(by, depth, visit);
        }
    }
}

/// The expressions of an aggregate.
pub(crate) fn aggregate(
    aggregate: &mut Aggregate,
    depth: u32,
    visit: &mut dyn FnMut(&mut Expr, u32) -> bool,
) {
    for arg in &mut aggregate.args {
        expr(arg, depth, visit);
    }
    sort(&mut aggregate.order, depth, visit);
    if let Some(filter) = &mut aggregate.filter {
        expr(filter, depth, visit);
    }
}

/// The expressions of a window function.
pub(crate) fn window(
    window: &mut Window,
    depth: u32,
    visit: &mut dyn FnMut(&mut Expr, u32) -> bool,
) {
    for arg in &mut window.args {
        expr(arg, depth, visit);
    }
    for (key, _) in &mut window.partition {
        expr(key, depth, visit);
    }
    sort(&mut window.order, depth, visit);
    if let WindowKind::Aggregate(inner) = &mut window.kind {
        aggregate(inner, depth, visit);
    }
}

/// The expressions of a source whose level is `depth`.
pub(crate) fn source(
    source: &mut Source,
    depth: u32,
    visit: &mut dyn FnMut(&mut Expr, u32) -> bool,
) {
    fn joins(from: &mut From, depth: u32, visit: &mut dyn FnMut(&mut Expr, u32) -> bool) {
        if let From::Join {
            left, right, on, ..
        } = from
        {
            joins(left, depth, visit);
            joins(right, depth, visit);
            for conjunct in on {
                expr(&mut conjunct.expr, depth, visit);
            }
        }
    }
    for entry in &mut source.range {
        if let RangeKind::Subquery(inner) = &mut entry.kind {
            query(inner, depth + 1, visit);
        }
        for condition in &mut entry.conditions {
            expr(&mut condition.expr, depth, visit);
            for operand in &mut condition.operands {
                expr(operand, depth, visit);
            }
            if let Some(plan) = &mut condition.subselect {
                subplan(plan, depth, visit);
            }
        }
    }
    if let Some(from) = &mut source.from {
        joins(from, depth, visit);
    }
    for conjunct in &mut source.filter {
        expr(&mut conjunct.expr, depth, visit);
    }
}

/// The expressions of a query whose level is `depth`.
pub(crate) fn query(q: &mut Query, depth: u32, visit: &mut dyn FnMut(&mut Expr, u32) -> bool) {
    for cte in &mut q.with {
        // What a common table expression sees begins outside of this level, but it is numbered from
        // inside: it opens its own level below this one.
        match &mut cte.body {
            CteBody::Query(inner) => query(inner, depth + 1, visit),
            CteBody::Recursive { first, next, .. } => {
                query(first, depth + 1, visit);
                query(next, depth + 1, visit);
            }
        }
    }
    match &mut q.body {
        Body::Select(select) => {
            source(&mut select.source, depth, visit);
            if let Some(grouping) = &mut select.grouping {
                for (key, _) in &mut grouping.keys {
                    expr(key, depth, visit);
                }
                for item in &mut grouping.aggregates {
                    aggregate(item, depth, visit);
                }
                if let Some(having) = &mut grouping.having {
                    expr(having, depth, visit);
                }
            }
            for item in &mut select.windows {
                window(item, depth, visit);
            }
            for target in &mut select.targets {
                expr(target, depth, visit);
            }
        }
        Body::Values(rows) => {
            for value in rows.iter_mut().flatten() {
                expr(value, depth, visit);
            }
        }
        Body::Set { left, right, .. } => {
            query(left, depth + 1, visit);
            query(right, depth + 1, visit);
        }
    }
    sort(&mut q.sort, depth, visit);
    for bound in [&mut q.limit, &mut q.offset].into_iter().flatten() {
        expr(bound, depth, visit);
    }
}

/// The entries of the level of `e` that it reads, as a bit set.
pub(crate) fn entries(e: &Expr) -> u64 {
    let mut uses = 0;
    expr(&mut e.clone(), 0, &mut |inner, depth| {
        if let Expr::Column { level, entry, .. } | Expr::Rowid { level, entry } = inner
            && *level == depth
        {
            uses |= 1 << (*entry).min(63);
        }
        true
    });
    uses
}

/// Whether `e` has a sub-select or reads a level outside of its own.
pub(crate) fn reaches_out(e: &Expr) -> bool {
    let mut found = false;
    expr(&mut e.clone(), 0, &mut |inner, depth| {
        match inner {
            Expr::Column { level, .. } | Expr::Rowid { level, .. } | Expr::Group { level, .. } => {
                found |= *level > depth;
            }
            Expr::Subquery(_) | Expr::Exists(_) | Expr::AnyOfRows { .. } => found = true,
            _ => {}
        }
        true
    });
    found
}

/// Whether a sub-select depends on what is outside of it, or must be computed anew each time.
pub(crate) fn depends(q: &Query) -> bool {
    use super::expr::HostFunction as H;
    let mut found = false;
    query(&mut q.clone(), 0, &mut |inner, depth| {
        match inner {
            Expr::Column { level, .. } | Expr::Rowid { level, .. } | Expr::Group { level, .. } => {
                found |= *level > depth;
            }
            Expr::Host { function, .. } => {
                found |= matches!(
                    function,
                    H::Random | H::Uuid | H::GetLock | H::ReleaseLock | H::Sleep | H::Sysdate
                );
            }
            Expr::UserVariable { .. } => found = true,
            _ => {}
        }
        true
    });
    found
}
