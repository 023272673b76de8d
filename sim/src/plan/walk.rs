//! Walking over the expressions of a plan, sub-queries included.

use crate::plan::expr::{Aggregate, Expr, HostFunction, Volatility, Window, WindowFunction};
use crate::plan::query::{
    Access, Body, Conjunct, Cte, CteBody, From, Query, RangeKind, Select, Source,
};
use crate::plan::write::{ConflictAction, MergeAction, Returning, Write};

/// What is called for every expression: the expression, and how many levels lie between it and the
/// start. Returning `false` keeps the walk out of its operands.
pub type Visit<'v> = dyn FnMut(&mut Expr, u32) -> bool + 'v;

/// Visits `expr` and everything in it.
pub fn expr(expr: &mut Expr, depth: u32, visit: &mut Visit<'_>) {
    if !visit(expr, depth) {
        return;
    }
    operands(expr, depth, visit);
}

/// Visits the operands of `e`.
pub fn operands(e: &mut Expr, depth: u32, visit: &mut Visit<'_>) {
    match e {
        Expr::Const(_)
        | Expr::Param(_)
        | Expr::Column { .. }
        | Expr::System { .. }
        | Expr::Group { .. }
        | Expr::Window(_) => {}
        Expr::And(list)
        | Expr::Or(list)
        | Expr::Coalesce(list)
        | Expr::Array(list)
        | Expr::Extreme { args: list, .. }
        | Expr::Call { args: list, .. }
        | Expr::Routine { args: list, .. }
        | Expr::Host { args: list, .. } => {
            for each in list {
                expr(each, depth, visit);
            }
        }
        Expr::Not(inner)
        | Expr::IsNull { expr: inner, .. }
        | Expr::IsBool { expr: inner, .. }
        | Expr::Cast { expr: inner, .. } => expr(inner, depth, visit),
        Expr::Compare { sides, .. }
        | Expr::Distinct { sides, .. }
        | Expr::NullIf { sides, .. }
        | Expr::AnyOfArray { sides, .. } => {
            expr(&mut sides.0, depth, visit);
            expr(&mut sides.1, depth, visit);
        }
        Expr::CompareRows { fields, .. } => {
            for (left, right, _) in fields {
                expr(left, depth, visit);
                expr(right, depth, visit);
            }
        }
        Expr::Case {
            branches,
            otherwise,
        } => {
            for (condition, result) in branches {
                expr(condition, depth, visit);
                expr(result, depth, visit);
            }
            expr(otherwise, depth, visit);
        }
        Expr::Record(fields) => {
            for (field, _) in fields {
                expr(field, depth, visit);
            }
        }
        Expr::AnyOfRows { left, plan, .. } => {
            for (field, _) in left {
                expr(field, depth, visit);
            }
            query(&mut plan.query, depth + 1, visit);
        }
        Expr::Subquery(plan) | Expr::Exists(plan) | Expr::ArraySubquery(plan) => {
            query(&mut plan.query, depth + 1, visit);
        }
    }
}

/// Visits everything in a query, whose own level is `depth` from the start.
pub fn query(q: &mut Query, depth: u32, visit: &mut Visit<'_>) {
    ctes(&mut q.with, depth, visit);
    match &mut q.body {
        Body::Select(s) => select(s, depth, visit),
        Body::Values(rows) => {
            for e in rows.iter_mut().flatten() {
                expr(e, depth, visit);
            }
        }
        Body::Set { left, right, .. } => {
            query(left, depth + 1, visit);
            query(right, depth + 1, visit);
        }
    }
    for e in q.limit.iter_mut().chain(q.offset.iter_mut()) {
        expr(e, depth, visit);
    }
}

fn ctes(list: &mut [Cte], depth: u32, visit: &mut Visit<'_>) {
    for cte in list {
        match &mut cte.body {
            CteBody::Query(q) => query(q, depth + 1, visit),
            CteBody::Write(w) => write(w, depth + 1, visit),
            CteBody::Recursive { first, next, .. } => {
                query(first, depth + 1, visit);
                query(next, depth + 1, visit);
            }
        }
    }
}

fn select(s: &mut Select, depth: u32, visit: &mut Visit<'_>) {
    source(&mut s.source, depth, visit);
    if let Some(grouping) = &mut s.grouping {
        for key in &mut grouping.keys {
            expr(key, depth, visit);
        }
        for each in &mut grouping.aggregates {
            aggregate(each, depth, visit);
        }
        if let Some(having) = &mut grouping.having {
            expr(having, depth, visit);
        }
    }
    for each in &mut s.windows {
        window(each, depth, visit);
    }
    for target in &mut s.targets {
        expr(target, depth, visit);
    }
}

/// Visits the arguments of an aggregate.
pub fn aggregate(a: &mut Aggregate, depth: u32, visit: &mut Visit<'_>) {
    for e in a.args.iter_mut().chain(&mut a.order).chain(&mut a.filter) {
        expr(e, depth, visit);
    }
}

/// Visits the expressions of a window function.
pub fn window(w: &mut Window, depth: u32, visit: &mut Visit<'_>) {
    for (e, _) in &mut w.partition {
        expr(e, depth, visit);
    }
    for e in &mut w.order {
        expr(e, depth, visit);
    }
    if let WindowFunction::Aggregate(a) = &mut w.function {
        aggregate(a, depth, visit);
    }
}

/// Visits the range table, joins and filter.
pub fn source(s: &mut Source, depth: u32, visit: &mut Visit<'_>) {
    for entry in &mut s.range {
        match &mut entry.kind {
            RangeKind::Subquery(q) => query(q, depth + 1, visit),
            RangeKind::Function { args, .. } | RangeKind::Routine { args, .. } => {
                for arg in args {
                    expr(arg, depth, visit);
                }
            }
            RangeKind::Table(_)
            | RangeKind::Virtual(_)
            | RangeKind::Sequence(_)
            | RangeKind::Cte(_) => {}
        }
        for path in std::iter::once(&mut entry.access).chain(&mut entry.paths) {
            if let Access::Index { keys, .. } = path {
                for key in keys {
                    expr(&mut key.operand, depth, visit);
                }
            }
        }
    }
    let known = s.ways.iter_mut().map(|ways| &mut **ways);
    let rerun = s.rerun.iter_mut();
    for ways in known.chain(rerun.flat_map(|r| [&mut r.outer, &mut r.lookup])) {
        for key in ways.list.iter_mut().flat_map(|way| &mut way.keys) {
            expr(&mut key.operand, depth, visit);
        }
    }
    if let Some(from) = &mut s.from {
        joins(from, depth, visit);
    }
    conjuncts(&mut s.filter, depth, visit);
}

fn joins(from: &mut From, depth: u32, visit: &mut Visit<'_>) {
    if let From::Join {
        left, right, on, ..
    } = from
    {
        joins(left, depth, visit);
        joins(right, depth, visit);
        conjuncts(on, depth, visit);
    }
}

fn conjuncts(list: &mut [Conjunct], depth: u32, visit: &mut Visit<'_>) {
    for conjunct in list {
        expr(&mut conjunct.expr, depth, visit);
    }
}

/// Visits everything in a data-modifying statement, whose own level is `depth` from the start.
pub fn write(w: &mut Write, depth: u32, visit: &mut Visit<'_>) {
    match w {
        Write::Insert(insert) => {
            ctes(&mut insert.with, depth, visit);
            if let Some(q) = &mut insert.source {
                query(q, depth + 1, visit);
            }
            for e in &mut insert.values {
                expr(e, depth, visit);
            }
            if let Some(conflict) = &mut insert.conflict
                && let ConflictAction::Update { set, filter } = &mut conflict.action
            {
                for assignment in set {
                    expr(&mut assignment.value, depth, visit);
                }
                if let Some(e) = filter {
                    expr(e, depth, visit);
                }
            }
            returning(&mut insert.returning, depth, visit);
        }
        Write::Update(update) => {
            ctes(&mut update.with, depth, visit);
            source(&mut update.source, depth, visit);
            for plan in &mut update.rows {
                query(&mut plan.query, depth + 1, visit);
            }
            for assignment in &mut update.set {
                expr(&mut assignment.value, depth, visit);
            }
            returning(&mut update.returning, depth, visit);
        }
        Write::Merge(merge) => {
            ctes(&mut merge.with, depth, visit);
            source(&mut merge.source, depth, visit);
            for when in &mut merge.actions {
                if let Some(condition) = &mut when.condition {
                    expr(condition, depth, visit);
                }
                match &mut when.action {
                    MergeAction::Nothing | MergeAction::Delete => {}
                    MergeAction::Update { set } => {
                        for assignment in set {
                            expr(&mut assignment.value, depth, visit);
                        }
                    }
                    MergeAction::Insert { values } => {
                        for value in values {
                            expr(value, depth, visit);
                        }
                    }
                }
            }
        }
        Write::Delete(delete) => {
            ctes(&mut delete.with, depth, visit);
            source(&mut delete.source, depth, visit);
            returning(&mut delete.returning, depth, visit);
        }
    }
}

fn returning(r: &mut Returning, depth: u32, visit: &mut Visit<'_>) {
    for e in &mut r.exprs {
        expr(e, depth, visit);
    }
}

/// The range-table entries of the expression's own level that it reads, as a bit set.
pub fn entries_used(e: &Expr) -> u64 {
    let mut used = 0;
    expr(&mut e.clone(), 0, &mut |e, depth| {
        if let Expr::Column { level, entry, .. } | Expr::System { level, entry, .. } = e
            && *level == depth
        {
            used |= 1 << *entry;
        }
        true
    });
    used
}

/// How far the expression may be trusted to give the same value again.
pub fn volatility(e: &Expr) -> Volatility {
    let mut worst = Volatility::Immutable;
    expr(&mut e.clone(), 0, &mut |e, _| {
        match e {
            Expr::Host { function, .. } => worst = worst.max(host_volatility(*function)),
            Expr::Routine { routine, .. } => worst = worst.max(routine.volatility),
            Expr::Subquery(_)
            | Expr::Exists(_)
            | Expr::AnyOfRows { .. }
            | Expr::ArraySubquery(_) => {
                worst = worst.max(Volatility::Stable);
            }
            _ => {}
        }
        true
    });
    worst
}

fn host_volatility(function: HostFunction) -> Volatility {
    function.volatility()
}

/// The outermost level that a query reads, counted from the query's own level (0: nothing around
/// it).
pub fn outermost(q: &Query) -> u32 {
    let mut furthest = 0;
    query(&mut q.clone(), 0, &mut |e, depth| {
        if let Expr::Column { level, .. } | Expr::System { level, .. } | Expr::Group { level, .. } =
            e
        {
            furthest = furthest.max(level.saturating_sub(depth));
        }
        true
    });
    furthest
}
