//! Which index a table is read through, and which part of it.
//!
//! The choice decides what is locked, so it has to be the server's. The servers weigh costs; for tables
//! as small as those of a test their choices follow these rules, which `EXPLAIN` confirms:
//!
//! 1. an equality on a whole unique index, else
//! 2. the part of an index that equalities or a range bound with the fewest rows, else
//! 3. for a query, the shortest secondary index that has all columns that are read, else
//! 4. the whole clustered index.
//!
//! Hints restrict the candidates. If rows are wanted in an order, the direction of the scan follows it
//! where the index has that order, and a scan of the whole table takes the index that has it.

use super::range::{Bound, KeyRange, like_prefix, ranges};
use super::shape::{IndexShape, Shape};
use super::store::Store;
use super::{cost, impossible};
use crate::loose::catalog::TableId;
use crate::loose::expr::{Comparison, Expr};
use crate::loose::query::{
    Body, From, HintKind, Join, KeyCondition, KeyOp, Query, RangeEntry, RangeKind, SortBy, SortKey,
    SubPlan,
};
use crate::loose::storage::{Access, Choice, Purpose, SourcePlan};
use crate::loose::types::{Collation, DeclaredType};

/// A way to read a table.
#[derive(Clone, Debug)]
struct Candidate {
    /// The index, by its position in the shape.
    index: usize,
    conditions: Vec<usize>,
    /// How many leading columns are equal to something.
    equalities: usize,
    /// One row at most.
    unique: bool,
    /// How many rows the index has in that part.
    rows: usize,
    /// What the way costs, if all its values are known.
    cost: Option<u64>,
}

/// What kind of access a candidate is, for the order of joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Constant,
    Unique,
    Ref,
    Derived,
    Bounded,
    Scan,
}

/// Decides how a source is read.
pub fn choose(store: &Store, plan: &SourcePlan<'_>) -> Choice {
    let range = &plan.source.range;
    let mut access: Vec<Access> = range.iter().map(|_| Access::all()).collect();
    let after = prerequisites(plan);
    let mut order: Vec<usize> = Vec::new();
    let mut bound = 0u64;
    let mut sorted = plan.order.is_empty();
    while order.len() < range.len() {
        let ready = (0..range.len()).filter(|i| !order.contains(i) && after[*i] & !bound == 0);
        let options = ready.map(|i| (rank(store, plan, i, bound), i));
        let Some((_, next)) = options.min() else {
            // Cannot happen: the left side of a join never depends on its right side.
            order.extend(
                (0..range.len())
                    .filter(|i| !order.contains(i))
                    .collect::<Vec<_>>(),
            );
            break;
        };
        let first = order.iter().all(|i| is_constant(store, plan, *i));
        if let RangeKind::Table(_) = range[next].kind {
            // A nested loop keeps the order of its outermost table; tables of one row do not count.
            let constant = is_constant(store, plan, next);
            let wants_order = first && !sorted && !constant;
            let (way, in_order) = table_access(store, plan, next, bound, wants_order);
            access[next] = way;
            sorted |= in_order && wants_order;
        }
        bound |= 1 << next;
        order.push(next);
    }
    sorted |= !range.is_empty() && (0..range.len()).all(|i| is_constant(store, plan, i));
    Choice {
        order,
        access,
        sorted,
        impossible: impossible::is_impossible(store, plan),
    }
}

fn is_constant(store: &Store, plan: &SourcePlan<'_>, entry: usize) -> bool {
    rank(store, plan, entry, 0) == Rank::Constant
}

/// For each entry the entries that must be joined before it.
fn prerequisites(plan: &SourcePlan<'_>) -> Vec<u64> {
    let mut after = vec![0; plan.source.range.len()];
    if let Some(from) = &plan.source.from {
        visit(from, 0, &mut after);
    }
    after
}

fn visit(from: &From, before: u64, after: &mut [u64]) -> u64 {
    match from {
        From::Entry(entry) => {
            after[*entry] |= before;
            1 << entry
        }
        From::Join {
            kind, left, right, ..
        } => {
            let on_left = visit(left, before, after);
            let before = match kind {
                Join::Inner => before,
                Join::Straight | Join::Left => before | on_left,
            };
            on_left | visit(right, before, after)
        }
    }
}

fn rank(store: &Store, plan: &SourcePlan<'_>, entry: usize, bound: u64) -> Rank {
    let RangeKind::Table(table) = &plan.source.range[entry].kind else {
        return Rank::Derived;
    };
    let Some(shape) = store.schema().shape(table.id) else {
        return Rank::Scan;
    };
    let bounds = usable(store, plan, entry, bound);
    let constants: Vec<Bound> = bounds
        .iter()
        .filter(|b| b.values.is_some())
        .cloned()
        .collect();
    let reads = plan.purposes[entry] == Purpose::Read;
    let known = candidates(store, shape, &plan.source.range[entry], &constants, reads);
    if known.iter().any(|c| c.unique) && reads {
        return Rank::Constant;
    }
    let all = candidates(store, shape, &plan.source.range[entry], &bounds, reads);
    let unique = all.iter().any(|c| c.unique);
    let reference = all.iter().any(|c| c.equalities > 0);
    match (unique, reference, all.is_empty()) {
        (true, ..) => Rank::Unique,
        (_, true, _) => Rank::Ref,
        (_, _, false) => Rank::Bounded,
        _ => Rank::Scan,
    }
}

/// The conditions of an entry that can bound an index once the entries in `bound` are read.
fn usable(store: &Store, plan: &SourcePlan<'_>, entry: usize, bound: u64) -> Vec<Bound> {
    let range = &plan.source.range[entry];
    let RangeKind::Table(table) = &range.kind else {
        return Vec::new();
    };
    let mut bounds = Vec::new();
    let tests_rows =
        store.flavour.tests_subselects_by_row() && plan.purposes[entry] != Purpose::Read;
    let late = store.flavour.derives_late() && plan.purposes[entry] != Purpose::Read;
    for (at, condition) in range.conditions.iter().enumerate() {
        let Some(column) = condition.column else {
            continue;
        };
        // The rows of a sub-select that is run once can be looked up one by one.
        let known = condition.subselect.as_ref().is_none_or(|plan| plan.once);
        let by_row = |plan: &SubPlan| tests_rows && !reads_table(&plan.query, table.id);
        let known = known && !condition.subselect.as_deref().is_some_and(by_row);
        let fits = condition.uses & !bound == 0
            && known
            && !(late && condition.operands.iter().any(reads_derived))
            && helps(
                condition,
                &table.columns[column].ty,
                table.columns[column].collation,
            );
        if fits {
            bounds.push(Bound {
                condition: at,
                column,
                op: condition.op,
                values: plan
                    .constants
                    .get(entry)
                    .and_then(|c| c.get(at))
                    .cloned()
                    .flatten(),
                arms: condition.arms.clone(),
            });
        }
    }
    bounds
}

/// Whether a query has a table in its `FROM`.
pub(super) fn reads_table(query: &Query, table: TableId) -> bool {
    match &query.body {
        Body::Select(select) => select
            .source
            .range
            .iter()
            .any(|entry| matches!(&entry.kind, RangeKind::Table(read) if read.id == table)),
        Body::Values(_) | Body::Set { .. } => false,
    }
}

/// Whether an operand is a sub-select over a derived table.
fn reads_derived(operand: &Expr) -> bool {
    let Expr::Subquery(plan) = operand else {
        return false;
    };
    let derived = match &plan.query.body {
        Body::Select(select) => select
            .source
            .range
            .iter()
            .any(|entry| matches!(entry.kind, RangeKind::Subquery(_) | RangeKind::Cte(_))),
        Body::Values(_) | Body::Set { .. } => false,
    };
    derived || !plan.query.with.is_empty()
}

/// Whether the index's order is the order of the comparison.
pub(super) fn helps(condition: &KeyCondition, ty: &DeclaredType, collation: Collation) -> bool {
    if matches!(condition.op, KeyOp::IsNull | KeyOp::IsNotNull) {
        return true;
    }
    match (condition.by, ty) {
        (
            Comparison::Exact | Comparison::Double,
            DeclaredType::Int { .. }
            | DeclaredType::Decimal { .. }
            | DeclaredType::Float
            | DeclaredType::Double
            | DeclaredType::Year,
        ) => true,
        (
            Comparison::Text(by),
            DeclaredType::Char(_)
            | DeclaredType::Varchar(_)
            | DeclaredType::Text(_)
            | DeclaredType::Binary(_)
            | DeclaredType::Varbinary(_)
            | DeclaredType::Blob(_),
        ) => by == collation,
        (
            Comparison::DateTime,
            DeclaredType::Date | DeclaredType::DateTime(_) | DeclaredType::Timestamp(_),
        )
        | (Comparison::Time, DeclaredType::Time(_)) => true,
        _ => false,
    }
}

/// The indexes that hints leave, by their positions in the shape, and whether one is forced.
fn allowed(shape: &Shape, entry: &RangeEntry) -> (Vec<usize>, bool) {
    let position = |declared: &usize| {
        let of = |i: &IndexShape| i.declared == Some(*declared);
        shape.indexes.iter().position(of)
    };
    let mut left: Vec<usize> = (0..shape.indexes.len()).collect();
    let mut forced = false;
    let wanted = |kind: HintKind| entry.hints.iter().filter(move |h| h.kind == kind);
    let mut only: Vec<usize> = Vec::new();
    for hint in wanted(HintKind::Use).chain(wanted(HintKind::Force)) {
        forced |= hint.kind == HintKind::Force;
        only.extend(hint.indexes.iter().filter_map(position));
    }
    if !only.is_empty() {
        left.retain(|i| only.contains(i));
    }
    for hint in wanted(HintKind::Ignore) {
        let ignored: Vec<usize> = hint.indexes.iter().filter_map(position).collect();
        left.retain(|i| !ignored.contains(i));
    }
    (left, forced)
}

fn candidates(
    store: &Store,
    shape: &Shape,
    entry: &RangeEntry,
    bounds: &[Bound],
    reads: bool,
) -> Vec<Candidate> {
    let (allowed, _) = allowed(shape, entry);
    let mut found = Vec::new();
    for index in allowed {
        let of = &shape.indexes[index];
        let mut conditions = Vec::new();
        let mut equalities = 0;
        for column in &of.columns {
            let equal = bounds.iter().find(|b| {
                b.column == *column && matches!(b.op, KeyOp::Eq | KeyOp::Is | KeyOp::IsNull)
            });
            if let Some(bound) = equal {
                conditions.push(bound.condition);
                equalities += 1;
                continue;
            }
            let ends = bounds
                .iter()
                .filter(|b| b.column == *column && bounds_range(b));
            conditions.extend(ends.map(|b| b.condition));
            break;
        }
        let unique = of.unique
            && equalities >= of.declared_columns
            && of.columns[..of.declared_columns].iter().all(|column| {
                let equal = |b: &&Bound| b.column == *column && matches!(b.op, KeyOp::Eq);
                bounds.iter().any(|b| equal(&b))
            });
        if conditions.is_empty() {
            continue;
        }
        let chosen: Vec<Bound> = bounds
            .iter()
            .filter(|b| conditions.contains(&b.condition))
            .cloned()
            .collect();
        let known = chosen.iter().all(|b| b.values.is_some());
        let rows = if unique {
            1
        } else if known {
            count(store, shape, of, &chosen).0
        } else {
            1 + store.records(of.id).iter().count() / 4
        };
        let cost = known.then(|| {
            let (rows, ranges) = count(store, shape, of, &chosen);
            let way = cost::Way {
                clustered: index == 0,
                covering: reads && is_covered(shape, of, entry),
                by_equality: reads && chosen.iter().all(|b| b.op != KeyOp::In && !bounds_range(b)),
                rows: rows as u64,
                ranges: ranges as u64,
            };
            cost::of_way(store.flavour.server, way)
        });
        found.push(Candidate {
            index,
            conditions,
            equalities,
            unique,
            rows,
            cost,
        });
    }
    found
}

fn bounds_range(bound: &Bound) -> bool {
    match bound.op {
        KeyOp::Lt | KeyOp::Le | KeyOp::Gt | KeyOp::Ge | KeyOp::In | KeyOp::Or => true,
        KeyOp::IsNotNull => true,
        KeyOp::Like => bound
            .values
            .as_ref()
            .and_then(|v| v.first())
            .is_some_and(|v| like_prefix(v).is_some()),
        _ => false,
    }
}

/// How many rows are expected, at least one for each range, and how many ranges there are.
fn count(store: &Store, shape: &Shape, index: &IndexShape, bounds: &[Bound]) -> (usize, usize) {
    let ranges = ranges(shape, index, bounds, false);
    let rows_of = |range: &KeyRange| {
        let records = store.records(index.id).iter();
        let inside = records.filter(|(key, r)| !r.newest.deleted && range.contains(key));
        inside.count().max(1)
    };
    (ranges.iter().map(rows_of).sum(), ranges.len())
}

/// How one table is read, and whether its rows come in the wanted order.
fn table_access(
    store: &Store,
    plan: &SourcePlan<'_>,
    entry: usize,
    bound: u64,
    wants_order: bool,
) -> (Access, bool) {
    let range = &plan.source.range[entry];
    let RangeKind::Table(table) = &range.kind else {
        return (Access::all(), false);
    };
    let Some(shape) = store.schema().shape(table.id) else {
        return (Access::all(), false);
    };
    let bounds = usable(store, plan, entry, bound);
    let reads = plan.purposes[entry] == Purpose::Read;
    let ways = candidates(store, shape, range, &bounds, reads);
    let (allowed, forced) = allowed(shape, range);
    let all = store
        .records(shape.clustered().id)
        .iter()
        .filter(|(_, r)| !r.newest.deleted)
        .count();
    let server = store.flavour.server;
    let whole = cost::of_table(server, all as u64, plan.limit);
    let worth = |c: &&Candidate| forced || (reads && c.unique) || c.cost.is_none_or(|c| c < whole);
    let best = ways.iter().filter(worth).min_by_key(|c| {
        let order = (c.rows, c.index != 0, c.equalities == 0, c.index);
        (!(c.unique && (reads || c.cost.is_none())), c.cost, order)
    });
    let covers = |index: usize| is_covered(shape, &shape.indexes[index], range);
    let in_order = |index: usize, equalities: usize| {
        let fixed = |column: usize| {
            bounds.iter().any(|b| {
                b.column == column && matches!(b.op, KeyOp::Eq | KeyOp::Is | KeyOp::IsNull)
            })
        };
        order_of(entry, &shape.indexes[index], equalities, fixed, plan.order)
    };
    let ordered_scan = |index: &&usize| wants_order && in_order(**index, 0).is_some();
    let sorts_for_limit = |way: &&Candidate| {
        wants_order
            && !forced
            && way.equalities == 0
            && in_order(way.index, 0).is_none()
            && plan.limit.is_some_and(|limit| {
                let ordered = cost::of_ordered_index(server, limit, way.rows as u64, all as u64);
                way.cost.is_none_or(|cost| ordered < cost)
            })
            && allowed.iter().any(|i| ordered_scan(&i))
    };
    if let Some(way) = best.filter(|way| !sorts_for_limit(way)) {
        let order = wants_order
            .then(|| in_order(way.index, way.equalities))
            .flatten();
        let single = single_range(shape, way, &bounds);
        let order = order.filter(|_| single || way.unique);
        let pushed = bounds
            .iter()
            .filter(|b| shape.indexes[way.index].columns.contains(&b.column) && b.values.is_some());
        // All records of an index that has all columns: it is read from end to end.
        if let Some(index) = shortest_covering(shape, range, &allowed)
            && reads
            && !way.unique
        {
            let scan = cost::of_covering_index(server, index == 0, all as u64);
            let whole = wants_order.then(|| in_order(index, 0)).flatten();
            if way.cost.is_some_and(|cost| scan < cost) && whole.is_some() == order.is_some() {
                let access = Access {
                    index: shape.indexes[index].declared,
                    conditions: Vec::new(),
                    reverse: whole == Some(true),
                    lookup: index == 0,
                };
                return (access, whole.is_some());
            }
        }
        let mut conditions = way.conditions.clone();
        conditions.extend(
            pushed
                .map(|b| b.condition)
                .filter(|c| !way.conditions.contains(c)),
        );
        let access = Access {
            index: shape.indexes[way.index].declared,
            conditions,
            reverse: order == Some(true) && !way.unique,
            lookup: way.index == 0 || !covers(way.index),
        };
        return (access, order.is_some() || way.unique);
    }
    // The whole table: through the index that has the order if few rows are wanted or it is the clustered
    // one, else through one that has all columns.
    if wants_order {
        for index in &allowed {
            let order = in_order(*index, 0);
            let few = plan.limit.is_some_and(|limit| limit <= 1)
                || (plan.limit.is_some() && store.flavour.sorts_by_index_for_any_limit());
            let worth = *index == 0 || covers(*index) || few;
            if let Some(reverse) = order.filter(|_| worth) {
                let access = Access {
                    index: shape.indexes[*index].declared,
                    conditions: Vec::new(),
                    reverse,
                    lookup: *index == 0 || !covers(*index),
                };
                return (access, true);
            }
        }
    }
    let covering = shortest_covering(shape, range, &allowed);
    let index = covering.filter(|_| reads).unwrap_or(0);
    let access = Access {
        index: shape.indexes[index].declared,
        conditions: Vec::new(),
        reverse: false,
        lookup: index == 0 || !covers(index),
    };
    (access, false)
}

/// The index to read from end to end that has all columns that are read: a secondary one if there is any.
fn shortest_covering(shape: &Shape, entry: &RangeEntry, allowed: &[usize]) -> Option<usize> {
    let covers = |i: &usize| is_covered(shape, &shape.indexes[*i], entry);
    let covering = allowed.iter().copied().filter(covers);
    covering.min_by_key(|i| (*i == 0, shape.indexes[*i].columns.len(), *i))
}

/// Whether the conditions of a way make one range: only then an index's order holds beyond the column.
fn single_range(shape: &Shape, way: &Candidate, bounds: &[Bound]) -> bool {
    let index = &shape.indexes[way.index];
    let in_list = |b: &&Bound| {
        b.op == KeyOp::In
            && way.conditions.contains(&b.condition)
            && index.columns.get(way.equalities) == Some(&b.column)
    };
    // Values of a list are read in order: fine for the order of that very column.
    !bounds.iter().any(|b| in_list(&b)) || way.equalities == 0
}

/// Whether an index has all columns of an entry that are read.
fn is_covered(shape: &Shape, index: &IndexShape, entry: &RangeEntry) -> bool {
    let _ = shape;
    let has = |column: usize| index.columns.contains(&column);
    (0..64).all(|bit| entry.used_columns & 1 << bit == 0 || (bit < 63 && has(bit)))
}

/// Whether an index gives rows in the wanted order behind so many columns that are equal to something:
/// `Some(true)` backwards.
fn order_of(
    entry: usize,
    index: &IndexShape,
    equalities: usize,
    fixed: impl Fn(usize) -> bool,
    order: &[SortKey],
) -> Option<bool> {
    let mut columns = index.columns[..].iter();
    let mut reverse = None;
    for _ in 0..equalities {
        columns.next();
    }
    for key in order {
        let SortBy::Expr(Expr::Column {
            level: 0,
            entry: of,
            column,
        }) = &key.by
        else {
            return None;
        };
        if *of as usize != entry {
            return None;
        }
        let column = *column as usize;
        if fixed(column) {
            continue;
        }
        // After all key columns, rows are unique: further keys do not matter.
        let Some(next) = columns.next() else {
            return Some(reverse.unwrap_or(false));
        };
        if *next != column || reverse.is_some_and(|r| r != key.descending) {
            return None;
        }
        reverse = Some(key.descending);
    }
    Some(reverse.unwrap_or(false))
}
