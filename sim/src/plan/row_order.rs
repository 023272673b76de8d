//! Whether a statement shows the order in which tables keep their rows.
//!
//! Rows of a table have a physical order, which grows with every write. Two runs that differ in nothing
//! but that order come to the same as long as no statement lets it show. Here it is said which
//! statements do not: those that find one row by a unique key, that sort by a unique key before they
//! lock or cut off, or that only ask whether there is a row. Everything else counts as showing it:
//! what is not listed here shows it.
//!
//! *Blind* means: same rows in the same order, same locks in the same order, same errors, whatever the
//! order of the stored rows. A *bag* is less: the same rows, in any order.

use crate::plan::catalog::{Index, Table};
use crate::plan::expr::{Aggregate, AggregateFunction, Compare, Comparison, Expr, Function};
use crate::plan::query::{
    Body, Conjunct, Distinct, From, Query, RangeKind, Select, Source, SubPlan,
};
use crate::plan::types::Type;
use crate::plan::write::{ConflictAction, Insert, Write};
use crate::plan::{Plan, PlanKind};

/// Whether a statement does the same whatever the order in which its tables keep their rows.
pub fn is_blind(plan: &Plan) -> bool {
    match &plan.kind {
        PlanKind::Query(query) => is_blind_query(query),
        PlanKind::Write(write) => is_blind_write(write),
        PlanKind::Ddl(_) | PlanKind::Do(_) => false,
    }
}

/// Whether a query finds the same rows, in any order: enough for whoever asks only if there are any.
pub fn is_bag(plan: &Plan) -> bool {
    match &plan.kind {
        PlanKind::Query(query) => is_bag_query(query) || is_blind_query(query),
        PlanKind::Write(_) | PlanKind::Ddl(_) | PlanKind::Do(_) => false,
    }
}

fn is_blind_write(write: &Write) -> bool {
    match write {
        Write::Insert(insert) => is_blind_insert(insert),
        Write::Update(update) => {
            update.with.is_empty()
                && update.rows.is_empty()
                && is_stored_whole(&update.table)
                && finds_one(&update.source)
                && update.set.iter().all(|set| once(&set.value))
                && update.returning.exprs.iter().all(once)
        }
        Write::Delete(delete) => {
            delete.with.is_empty()
                && is_stored_whole(&delete.table)
                && finds_one(&delete.source)
                && delete.returning.exprs.iter().all(once)
        }
        Write::Merge(_) => false,
    }
}

fn is_blind_insert(insert: &Insert) -> bool {
    let conflict = insert.conflict.as_ref().map(|conflict| &conflict.action);
    let resolves = match conflict {
        None | Some(ConflictAction::Nothing) => true,
        Some(ConflictAction::Update { set, filter }) => {
            set.iter().all(|set| once(&set.value)) && filter.iter().all(once)
        }
    };
    insert.with.is_empty()
        && is_stored_whole(&insert.table)
        && insert.source.as_deref().is_none_or(is_blind_query)
        && insert.values.iter().all(once)
        && resolves
        && insert.returning.exprs.iter().all(once)
}

/// The table has its rows itself, all of them, and each has a key of its own.
fn is_stored_whole(table: &Table) -> bool {
    table.partitioned.is_none()
        && table.partition.is_none()
        && table.indexes.iter().any(|index| identifies(table, index))
}

/// Every row has a key in this index, and no two have the same.
fn identifies(table: &Table, index: &Index) -> bool {
    let has_value = |column: Option<usize>| column.is_some_and(|c| table.columns[c].not_null);
    forbids_equals(index) && index.keys.iter().all(|key| has_value(key.column))
}

/// No two rows have equal keys in this index, NULLs aside.
fn forbids_equals(index: &Index) -> bool {
    let plain = index.keys.iter().all(|key| key.column.is_some());
    index.unique && !index.deferrable && index.predicate.is_none() && plain
}

fn is_blind_query(query: &Query) -> bool {
    if !query.with.is_empty() || query.with_ties {
        return false;
    }
    if !query.limit.iter().chain(&query.offset).all(is_constant) {
        return false;
    }
    match &query.body {
        Body::Values(rows) => rows.iter().flatten().all(once),
        Body::Select(select) => is_blind_select(query, select),
        Body::Set { .. } => false,
    }
}

fn is_blind_select(query: &Query, select: &Select) -> bool {
    let source = &select.source;
    if !select.windows.is_empty() || select.distinct != Distinct::No {
        return false;
    }
    if source.from.is_none() && select.grouping.is_none() {
        let mut filter = source.filter.iter();
        return filter.all(|c| once(&c.expr)) && select.targets.iter().all(once);
    }
    if select.grouping.is_some() {
        // Of one group, one row.
        let keys = select.grouping.iter().flat_map(|grouping| &grouping.keys);
        return keys.count() == 0 && query.locks.is_empty() && is_bag_select(select);
    }
    if finds_one(source) {
        return select.targets.iter().all(once);
    }
    is_bag_source(source)
        && select.targets.iter().all(row_wise)
        && source
            .range
            .iter()
            .enumerate()
            .all(|(at, _)| sorts_by_key(query, select, at))
}

/// Whether the rows of an entry are told apart by what the query sorts by.
fn sorts_by_key(query: &Query, select: &Select, entry: usize) -> bool {
    let RangeKind::Table(table) = &select.source.range[entry].kind else {
        return false;
    };
    let sorts = |column: usize| {
        query.sort.iter().any(|key| {
            key.by == Comparison::Plain
                && select.targets.get(key.target).is_some_and(|target| {
                    matches!(target, Expr::Column { level: 0, entry: e, column: c }
                        if *e as usize == entry && *c as usize == column)
                })
        })
    };
    let by_key = |index: &Index| {
        identifies(table, index) && index.keys.iter().all(|key| key.column.is_some_and(sorts))
    };
    table.indexes.iter().any(by_key)
}

/// Whether a query finds the same rows in some order.
fn is_bag_query(query: &Query) -> bool {
    query.with.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locks.is_empty()
        && match &query.body {
            Body::Values(rows) => rows.iter().flatten().all(row_wise),
            Body::Select(select) => is_bag_select(select),
            Body::Set { .. } => false,
        }
}

fn is_bag_select(select: &Select) -> bool {
    let grouped = select.grouping.as_ref().is_none_or(|grouping| {
        // Equal keys may look different (1.0 and 1.00), and then it counts which comes first.
        let exact = |key: &Expr| column_type(&select.source, key).is_some_and(is_exact_type);
        grouping.keys.iter().all(exact)
            && grouping
                .aggregates
                .iter()
                .all(|a| is_bag_aggregate(&select.source, a))
            && grouping.having.iter().all(row_wise)
    });
    select.windows.is_empty()
        && select.distinct == Distinct::No
        && grouped
        && is_bag_source(&select.source)
        && select.targets.iter().all(row_wise)
}

fn is_bag_aggregate(source: &Source, aggregate: &Aggregate) -> bool {
    let exact = |arg: &Expr| column_type(source, arg).is_some_and(is_exact_type);
    let keeps = match aggregate.function {
        AggregateFunction::CountRows
        | AggregateFunction::Count
        | AggregateFunction::SumInt
        | AggregateFunction::BoolAnd
        | AggregateFunction::BoolOr => true,
        AggregateFunction::Min | AggregateFunction::Max => aggregate.args.iter().all(exact),
        _ => false,
    };
    keeps
        && aggregate.args.iter().all(row_wise)
        && aggregate.filter.iter().all(row_wise)
        && aggregate.order.is_empty()
}

fn column_type(source: &Source, expr: &Expr) -> Option<Type> {
    let Expr::Column {
        level: 0,
        entry,
        column,
    } = expr
    else {
        return None;
    };
    match &source.range.get(*entry as usize)?.kind {
        RangeKind::Table(table) => Some(table.columns[*column as usize].declared.ty),
        _ => None,
    }
}

/// Equal values of the type are the same value.
fn is_exact_type(ty: Type) -> bool {
    is_integer(ty)
        || matches!(
            ty,
            Type::Bool
                | Type::Text
                | Type::Varchar
                | Type::Date
                | Type::Timestamp
                | Type::TimestampTz
                | Type::Uuid
        )
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int2 | Type::Int4 | Type::Int8)
}

/// Joined stored tables, and which of their rows pass: row by row, each by itself.
fn is_bag_source(source: &Source) -> bool {
    let entries = source.range.iter().all(|entry| {
        entry.members.is_none()
            && match &entry.kind {
                RangeKind::Table(table) => is_stored_whole(table),
                RangeKind::Subquery(query) => !entry.lateral && is_bag_query(query),
                _ => false,
            }
    });
    entries && source.from.iter().all(joins) && source.filter.iter().all(passes)
}

fn joins(from: &From) -> bool {
    match from {
        From::Entry(_) => true,
        From::Join {
            left, right, on, ..
        } => joins(left) && joins(right) && on.iter().all(passes),
    }
}

fn passes(conjunct: &Conjunct) -> bool {
    !conjunct.volatile && row_wise(&conjunct.expr)
}

/// At most one row of one table, by all columns of a unique key.
fn finds_one(source: &Source) -> bool {
    let ([entry], Some(From::Entry(0))) = (&source.range[..], &source.from) else {
        return false;
    };
    let RangeKind::Table(table) = &entry.kind else {
        return false;
    };
    let fixed = |column: usize| source.filter.iter().any(|c| fixes(&c.expr, column));
    let by_key = |index: &Index| {
        forbids_equals(index) && index.keys.iter().all(|key| key.column.is_some_and(fixed))
    };
    entry.members.is_none()
        && is_stored_whole(table)
        && table.indexes.iter().any(by_key)
        && source.filter.iter().all(passes)
}

/// `column = something that is the same for all rows`.
fn fixes(expr: &Expr, column: usize) -> bool {
    let Expr::Compare {
        op: Compare::Eq,
        by: Comparison::Plain,
        sides,
    } = expr
    else {
        return false;
    };
    let is_column = |side: &Expr| {
        let side = match side {
            Expr::Cast { expr, from, to, .. } if is_integer(*from) && is_integer(*to) => expr,
            side => side,
        };
        matches!(side, Expr::Column { level: 0, entry: 0, column: c } if *c as usize == column)
    };
    (is_column(&sides.0) && is_constant(&sides.1)) || (is_column(&sides.1) && is_constant(&sides.0))
}

/// The same for all rows of a level, if it is computed at all.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) | Expr::Param(_) => true,
        Expr::Column { level, .. } => *level > 0,
        Expr::Subquery(plan) | Expr::Exists(plan) => plan.once && is_blind_plan(expr, plan),
        Expr::Cast { expr, .. } => is_constant(expr),
        Expr::Call { args, .. } => args.iter().all(is_constant),
        Expr::Host { function, args } => {
            use crate::plan::expr::HostFunction::{StatementTimestamp, TransactionTimestamp};
            matches!(function, StatementTimestamp | TransactionTimestamp) && args.is_empty()
        }
        _ => false,
    }
}

fn is_blind_plan(expr: &Expr, plan: &SubPlan) -> bool {
    match expr {
        // Whether there is a row, or what rows there are.
        Expr::Exists(_) | Expr::AnyOfRows { .. } => {
            // It may be run for each row, and must then lock nothing.
            is_bag_query(&plan.query)
                || (plan.query.locks.is_empty() && is_blind_query(&plan.query))
        }
        _ => is_blind_query(&plan.query),
    }
}

/// Computed row by row in any order, as often as the search for rows has it: never fails, does
/// nothing, and follows from the row.
fn row_wise(expr: &Expr) -> bool {
    if is_constant(expr) {
        return true;
    }
    match expr {
        Expr::Column { .. } | Expr::Group { .. } => true,
        Expr::Cast { expr, from, to, .. } => {
            // Between the widths of integers it fails with one message; the widening ones never do.
            row_wise(expr) && is_integer(*from) && matches!(to, Type::Int8)
        }
        Expr::Call { function, args } => {
            let total = matches!(
                function,
                Function::Concat | Function::ConcatAll | Function::Lower | Function::Upper
            );
            total && args.iter().all(row_wise)
        }
        Expr::Exists(plan) => is_blind_plan(expr, plan),
        Expr::AnyOfRows { left, plan, .. } => {
            left.iter().all(|(e, _)| row_wise(e)) && is_blind_plan(expr, plan)
        }
        Expr::And(list) | Expr::Or(list) | Expr::Coalesce(list) | Expr::Array(list) => {
            list.iter().all(row_wise)
        }
        Expr::Not(inner) | Expr::IsNull { expr: inner, .. } | Expr::IsBool { expr: inner, .. } => {
            row_wise(inner)
        }
        Expr::Compare { sides, .. }
        | Expr::Distinct { sides, .. }
        | Expr::NullIf { sides, .. }
        | Expr::AnyOfArray { sides, .. } => row_wise(&sides.0) && row_wise(&sides.1),
        Expr::Case {
            branches,
            otherwise,
        } => {
            let mut branches = branches.iter();
            branches.all(|(c, r)| row_wise(c) && row_wise(r)) && row_wise(otherwise)
        }
        _ => false,
    }
}

/// Computed for rows that come in an order of their own: may fail, and may do something.
fn once(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) | Expr::Param(_) | Expr::Column { .. } => true,
        Expr::Subquery(plan) | Expr::Exists(plan) | Expr::ArraySubquery(plan) => {
            is_blind_plan(expr, plan)
        }
        Expr::AnyOfRows { left, plan, .. } => {
            left.iter().all(|(e, _)| once(e)) && is_blind_plan(expr, plan)
        }
        Expr::And(list)
        | Expr::Or(list)
        | Expr::Coalesce(list)
        | Expr::Array(list)
        | Expr::Extreme { args: list, .. }
        | Expr::Call { args: list, .. }
        | Expr::Host { args: list, .. } => list.iter().all(once),
        Expr::Not(inner)
        | Expr::IsNull { expr: inner, .. }
        | Expr::IsBool { expr: inner, .. }
        | Expr::Cast { expr: inner, .. } => once(inner),
        Expr::Compare { sides, .. }
        | Expr::Distinct { sides, .. }
        | Expr::NullIf { sides, .. }
        | Expr::AnyOfArray { sides, .. } => once(&sides.0) && once(&sides.1),
        Expr::Case {
            branches,
            otherwise,
        } => branches.iter().all(|(c, r)| once(c) && once(r)) && once(otherwise),
        Expr::CompareRows { fields, .. } => fields.iter().all(|(l, r, _)| once(l) && once(r)),
        _ => false,
    }
}
