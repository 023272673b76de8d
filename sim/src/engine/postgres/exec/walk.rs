//! Walking over plans, in the order in which the server analyses a statement.

use crate::plan::expr::{Aggregate, Expr, Volatility, WindowFunction};
use crate::plan::query::{
    Access, Body, Conjunct, Cte, CteBody, From, Query, RangeEntry, RangeKind, Select, Source,
    SubPlan,
};
use crate::plan::write::{ConflictAction, Delete, Insert, Merge, MergeAction, Update, Write};

/// What is told about each part of a plan, outer parts before inner ones.
pub(super) trait Visitor {
    /// An expression, before its operands.
    fn expr(&mut self, _expr: &Expr) {}
    /// A query, before its parts.
    fn query(&mut self, _query: &Query) {}
    /// A write, after its `WITH` and before its other parts.
    fn write(&mut self, _write: &Write) {}
    /// An entry of a range table; `locked` if a `FOR` clause names it.
    fn entry(&mut self, _entry: &RangeEntry, _locked: bool) {}
    /// A common table expression, before its body.
    fn cte(&mut self, _cte: &Cte) {}
}

/// Walks over a query.
pub(super) fn query(visitor: &mut impl Visitor, q: &Query) {
    visitor.query(q);
    ctes(visitor, &q.with);
    match &q.body {
        Body::Select(s) => select(visitor, s, |entry| q.locks.iter().any(|l| l.entry == entry)),
        Body::Values(rows) => rows.iter().flatten().for_each(|e| expr(visitor, e)),
        Body::Set { left, right, .. } => {
            query(visitor, left);
            query(visitor, right);
        }
    }
    exprs(visitor, q.limit.iter().chain(&q.offset));
}

fn select(visitor: &mut impl Visitor, s: &Select, locked: impl Fn(usize) -> bool) {
    source(visitor, &s.source, 0, locked);
    exprs(visitor, &s.targets);
    if let Some(grouping) = &s.grouping {
        exprs(visitor, &grouping.keys);
        for a in &grouping.aggregates {
            aggregate(visitor, a);
        }
        exprs(visitor, &grouping.having);
    }
    for window in &s.windows {
        exprs(visitor, window.partition.iter().map(|(e, _)| e));
        exprs(visitor, &window.order);
        match &window.function {
            WindowFunction::Aggregate(a) => aggregate(visitor, a),
            other => exprs(visitor, other.arguments()),
        }
    }
}

fn aggregate(visitor: &mut impl Visitor, a: &Aggregate) {
    exprs(visitor, &a.args);
    exprs(visitor, &a.filter);
    exprs(visitor, &a.order);
}

/// Walks over the entries from `first` on, and over everything else of a source.
fn source(visitor: &mut impl Visitor, s: &Source, first: usize, locked: impl Fn(usize) -> bool) {
    for (i, entry) in s.range.iter().enumerate() {
        if i >= first {
            visitor.entry(entry, locked(i));
        }
        match &entry.kind {
            RangeKind::Subquery(q) => query(visitor, q),
            RangeKind::Function { args, .. } | RangeKind::Routine { args, .. } => {
                exprs(visitor, args);
            }
            _ => {}
        }
        if let Access::Index { keys, .. } = &entry.access {
            exprs(visitor, keys.iter().map(|k| &k.operand));
        }
    }
    if let Some(node) = &s.from {
        from(visitor, node);
    }
    conjuncts(visitor, &s.filter);
}

fn from(visitor: &mut impl Visitor, node: &From) {
    if let From::Join {
        left, right, on, ..
    } = node
    {
        from(visitor, left);
        from(visitor, right);
        conjuncts(visitor, on);
    }
}

fn conjuncts(visitor: &mut impl Visitor, conjuncts: &[Conjunct]) {
    exprs(visitor, conjuncts.iter().map(|c| &c.expr));
}

fn ctes(visitor: &mut impl Visitor, list: &[Cte]) {
    for cte in list {
        visitor.cte(cte);
        match &cte.body {
            CteBody::Query(q) => query(visitor, q),
            CteBody::Write(w) => write(visitor, w),
            CteBody::Recursive { first, next, .. } => {
                query(visitor, first);
                query(visitor, next);
            }
        }
    }
}

/// Walks over a write.
pub(super) fn write(visitor: &mut impl Visitor, w: &Write) {
    match w {
        Write::Insert(Insert { with, .. })
        | Write::Update(Update { with, .. })
        | Write::Merge(Merge { with, .. })
        | Write::Delete(Delete { with, .. }) => ctes(visitor, with),
    }
    visitor.write(w);
    match w {
        Write::Insert(insert) => {
            if let Some(q) = &insert.source {
                query(visitor, q);
            }
            exprs(visitor, &insert.values);
            if let Some(conflict) = &insert.conflict
                && let ConflictAction::Update { set, filter } = &conflict.action
            {
                exprs(visitor, set.iter().map(|a| &a.value));
                exprs(visitor, filter);
            }
            exprs(visitor, &insert.returning.exprs);
        }
        Write::Update(update) => {
            source(visitor, &update.source, 1, |_| false);
            for row in &update.rows {
                sub_plan(visitor, row);
            }
            exprs(visitor, update.set.iter().map(|a| &a.value));
            exprs(visitor, &update.returning.exprs);
        }
        Write::Merge(merge) => {
            source(visitor, &merge.source, 1, |_| false);
            for when in &merge.actions {
                exprs(visitor, &when.condition);
                match &when.action {
                    MergeAction::Nothing | MergeAction::Delete => {}
                    MergeAction::Update { set } => exprs(visitor, set.iter().map(|a| &a.value)),
                    MergeAction::Insert { values } => exprs(visitor, values),
                }
            }
        }
        Write::Delete(delete) => {
            source(visitor, &delete.source, 1, |_| false);
            exprs(visitor, &delete.returning.exprs);
        }
    }
}

fn sub_plan(visitor: &mut impl Visitor, plan: &SubPlan) {
    query(visitor, &plan.query);
}

fn exprs<'a>(visitor: &mut impl Visitor, list: impl IntoIterator<Item = &'a Expr>) {
    for e in list {
        expr(visitor, e);
    }
}

/// Walks over an expression.
pub(super) fn expr(visitor: &mut impl Visitor, e: &Expr) {
    visitor.expr(e);
    match e {
        Expr::Const(_)
        | Expr::Param(_)
        | Expr::Column { .. }
        | Expr::System { .. }
        | Expr::Group { .. }
        | Expr::Window(_) => {}
        Expr::And(list) | Expr::Or(list) | Expr::Coalesce(list) | Expr::Array(list) => {
            exprs(visitor, list);
        }
        Expr::Extreme { args, .. }
        | Expr::Call { args, .. }
        | Expr::Routine { args, .. }
        | Expr::Host { args, .. } => {
            exprs(visitor, args);
        }
        Expr::Not(x) => expr(visitor, x),
        Expr::IsNull { expr: x, .. }
        | Expr::IsBool { expr: x, .. }
        | Expr::Cast { expr: x, .. } => {
            expr(visitor, x);
        }
        Expr::Compare { sides, .. }
        | Expr::Distinct { sides, .. }
        | Expr::NullIf { sides, .. }
        | Expr::AnyOfArray { sides, .. } => {
            expr(visitor, &sides.0);
            expr(visitor, &sides.1);
        }
        Expr::CompareRows { fields, .. } => {
            for (a, b, _) in fields {
                expr(visitor, a);
                expr(visitor, b);
            }
        }
        Expr::Case {
            branches,
            otherwise,
        } => {
            for (when, then) in branches {
                expr(visitor, when);
                expr(visitor, then);
            }
            expr(visitor, otherwise);
        }
        Expr::AnyOfRows { left, plan, .. } => {
            exprs(visitor, left.iter().map(|(x, _)| x));
            sub_plan(visitor, plan);
        }
        Expr::Subquery(plan) | Expr::Exists(plan) | Expr::ArraySubquery(plan) => {
            sub_plan(visitor, plan);
        }
        Expr::Record(fields) => exprs(visitor, fields.iter().map(|(x, _)| x)),
    }
}

/// Whether an expression calls a volatile function.
pub(super) fn is_volatile(e: &Expr) -> bool {
    struct Volatile(bool);
    impl Visitor for Volatile {
        fn expr(&mut self, e: &Expr) {
            if let Expr::Host { function, .. } = e {
                self.0 |= function.volatility() == Volatility::Volatile;
            }
            if let Expr::Routine { routine, .. } = e {
                self.0 |= routine.volatility == Volatility::Volatile;
            }
        }
    }
    let mut found = Volatile(false);
    expr(&mut found, e);
    found.0
}

/// The columns that an expression over one row at entry 0 reads.
pub(super) fn columns_of_row(e: &Expr) -> Vec<usize> {
    struct Columns(Vec<usize>);
    impl Visitor for Columns {
        fn expr(&mut self, e: &Expr) {
            if let Expr::Column {
                level: 0,
                entry: 0,
                column,
            } = e
            {
                self.0.push(*column as usize);
            }
        }
    }
    let mut found = Columns(Vec::new());
    expr(&mut found, e);
    found.0
}

/// Whether an expression calls a function that a user has defined.
pub(super) fn calls_routine(e: &Expr) -> bool {
    struct Calls(bool);
    impl Visitor for Calls {
        fn expr(&mut self, e: &Expr) {
            self.0 |= matches!(e, Expr::Routine { .. });
        }
    }
    let mut found = Calls(false);
    expr(&mut found, e);
    found.0
}
