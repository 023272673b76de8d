//! In which order tables are joined, and through which index each is read.
//!
//! Nothing is locked by row, so this decides only the order in which rows come: which of several a
//! `LIMIT` without an order takes, in which order `RETURNING` gives them, and which of two equal
//! rows of an `ORDER BY` is first. The costs are those of a table that was never analysed ("The SQLite
//! Query Optimizer Overview"; `whereLoopAddBtree`): a table has about a million rows, an equality
//! on a column of an index keeps 10 of them, a range a quarter.

use rowlock_model::DbError;

use crate::loose::catalog::{Index, KeyPart, Table};
use crate::loose::errors;
use crate::loose::expr::Expr;
use crate::loose::lower::at_entry;
use crate::loose::query::{
    From, HintKind, Join, KeyCondition, KeyOp, RangeEntry, RangeKind, SortBy, SortKey, Source,
};
use crate::loose::storage::{Access, Choice, SourcePlan};
use crate::loose::types::{Affinity, DeclaredType};

/// Rows of a table that was never analysed.
const ROWS: f64 = 1_048_576.0;

/// One way to read an entry.
#[derive(Clone, Debug)]
struct Path {
    access: Access,
    /// What one reading costs, in steps.
    cost: f64,
    /// How many rows it gives.
    rows: f64,
    /// The rows come in the order that is asked for.
    ordered: bool,
}

/// Decides how a source is read.
pub(super) fn choose(plan: &SourcePlan<'_>) -> Result<Choice, DbError> {
    let source = plan.source;
    let count = source.range.len();
    let order = best_order(plan)?;
    let mut access = vec![Access::all(); count];
    let mut bound = 0;
    let mut sorted = plan.order.is_empty();
    for (place, entry) in order.iter().enumerate() {
        if let Some(path) = best_path(plan, *entry, bound, place == 0)? {
            if place == 0 && count == 1 {
                sorted |= path.ordered;
            }
            access[*entry] = path.access;
        }
        bound |= 1 << entry;
    }
    Ok(Choice {
        order,
        access,
        sorted,
        impossible: false,
    })
}

/// The cheapest order of the entries; the order written, if several are.
fn best_order(plan: &SourcePlan<'_>) -> Result<Vec<usize>, DbError> {
    let count = plan.source.range.len();
    let written: Vec<usize> = (0..count).collect();
    let fixed = plan.source.from.as_ref().is_some_and(is_fixed);
    if !(2..=5).contains(&count) || fixed {
        return Ok(written);
    }
    let mut best: Option<(f64, Vec<usize>)> = None;
    let mut orders = vec![Vec::new()];
    for _ in 0..count {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                let rest = written.iter().filter(|e| !order.contains(e));
                rest.map(|e| [&order[..], &[*e]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    for order in orders {
        let mut bound = 0;
        let mut rows = 1.0;
        let mut cost = 0.0;
        for (place, entry) in order.iter().enumerate() {
            let (each, gives) = match best_path(plan, *entry, bound, place == 0)? {
                Some(path) => (path.cost, path.rows),
                None => (1_000.0, 1_000.0),
            };
            cost += rows * each;
            rows *= gives;
            bound |= 1 << entry;
        }
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, order));
        }
    }
    Ok(best.map_or(written, |(_, order)| order))
}

/// Outer joins and `CROSS JOIN` are not reordered.
fn is_fixed(from: &From) -> bool {
    match from {
        From::Entry(_) => false,
        From::Join {
            kind: Join::Left | Join::Straight,
            ..
        } => true,
        From::Join { left, right, .. } => is_fixed(left) || is_fixed(right),
    }
}

/// The cheapest way to read an entry when those in `bound` are bound; `None` if it is no stored table.
fn best_path(
    plan: &SourcePlan<'_>,
    number: usize,
    bound: u64,
    first: bool,
) -> Result<Option<Path>, DbError> {
    let entry = &plan.source.range[number];
    let RangeKind::Table(table) = &entry.kind else {
        return Ok(None);
    };
    let order = match first && plan.source.range.len() == 1 {
        true => plan.order,
        false => &[],
    };
    let look = Look {
        source: plan.source,
        entry,
        number,
        table,
        bound,
        order,
        limit: plan.limit,
    };
    let mut best: Option<Path> = None;
    let forced = entry.hints.iter().find(|h| h.kind == HintKind::Force);
    let ignored = |index: usize| {
        entry
            .hints
            .iter()
            .any(|h| h.kind == HintKind::Ignore && h.indexes.contains(&index))
    };
    let mut paths = Vec::new();
    if forced.is_none() {
        paths.extend(look.by_rowid());
    }
    for index in 0..table.indexes.len() {
        let wanted = forced.is_none_or(|hint| hint.indexes.contains(&index));
        if wanted && !ignored(index) {
            paths.extend(look.by_index(index));
        }
    }
    for path in paths {
        let total = path.cost + look.sorting(&path);
        let better = best
            .as_ref()
            .is_none_or(|known| total < known.cost + look.sorting(known));
        if better {
            best = Some(path);
        }
    }
    match (best, forced) {
        (Some(path), _) => Ok(Some(path)),
        (None, Some(_)) => Err(errors::sqlite(1, "no query solution")),
        (None, None) => Ok(None),
    }
}

struct Look<'p> {
    source: &'p Source,
    entry: &'p RangeEntry,
    number: usize,
    table: &'p Table,
    bound: u64,
    order: &'p [SortKey],
    limit: Option<u64>,
}

impl Look<'_> {
    /// Conditions on a key whose operands are bound.
    fn on(&self, is_key: impl Fn(&KeyCondition) -> bool) -> Vec<(usize, &KeyCondition)> {
        let conditions = self.entry.conditions.iter().enumerate();
        conditions
            .filter(|(_, c)| c.uses & !self.bound == 0 && is_key(c))
            .collect()
    }

    /// What it costs to sort what a path gives, if that is necessary.
    fn sorting(&self, path: &Path) -> f64 {
        if self.order.is_empty() || path.ordered {
            return 0.0;
        }
        let rows = self.kept(path);
        let (copies, depth) = match self.limit {
            Some(limit) => (6.0, (limit as f64).min(rows)),
            None => (3.0, rows),
        };
        rows * copies * depth.log2().max(1.0)
    }

    /// How many rows of a path the other conditions keep (`whereLoopOutputAdjust`): one equality with
    /// a constant keeps a quarter of the table, or half if the constant is -1, 0 or 1; every condition
    /// takes a few.
    fn kept(&self, path: &Path) -> f64 {
        let used: Vec<Option<usize>> = path
            .access
            .conditions
            .iter()
            .map(|place| self.entry.conditions[*place].conjunct)
            .collect();
        let mut rows = path.rows;
        let mut most = ROWS;
        for (place, conjunct) in self.source.filter.iter().enumerate() {
            if conjunct.uses & (1 << self.number) == 0 || used.contains(&Some(place)) {
                continue;
            }
            rows *= 0.93;
            let equality = self.entry.conditions.iter().find(|condition| {
                condition.conjunct == Some(place) && matches!(condition.op, KeyOp::Eq | KeyOp::Is)
            });
            if let Some(condition) = equality {
                let small = matches!(
                    condition.operands[..],
                    [Expr::Const(rowlock_model::Value::Int(-1..=1))]
                );
                most = most.min(ROWS / if small { 2.0 } else { 4.0 });
            }
        }
        rows.min(most).max(1.0)
    }

    /// How much narrower the records of an index are than those of its table, as a cost a record.
    fn record_cost(&self, index: &Index) -> f64 {
        let table = log_estimate(4 * table_width(self.table));
        let own = log_estimate(4 * index_width(self.table, index));
        2.0_f64.powf((1.0 + 15.0 * own as f64 / table as f64) / 10.0)
    }

    /// Whether a scan of a whole index is worth its while because it is narrower.
    fn is_narrower(&self, index: &Index) -> bool {
        log_estimate(4 * index_width(self.table, index)) < log_estimate(4 * table_width(self.table))
    }

    /// The table itself, by rowid.
    fn by_rowid(&self) -> Option<Path> {
        if self.table.without_rowid {
            return None;
        }
        let alias = self.table.rowid_alias;
        let is_rowid = |c: &KeyCondition| {
            matches!(c.expr, Expr::Rowid { .. }) || (c.column.is_some() && c.column == alias)
        };
        let found = self.on(is_rowid);
        let place_of = |ops: &[KeyOp]| found.iter().find(|(_, c)| ops.contains(&c.op));
        let mut access = Access::all();
        let (mut cost, mut rows) = (ROWS * 3.0, ROWS);
        if let Some((place, _)) = place_of(&[KeyOp::Eq, KeyOp::Is]) {
            access.conditions.push(*place);
            (cost, rows) = (10.0, 1.0);
        } else if let Some((place, condition)) = place_of(&[KeyOp::In]) {
            access.conditions.push(*place);
            let several = in_size(condition);
            (cost, rows) = (10.0 * several, several);
        } else {
            for ops in [[KeyOp::Gt, KeyOp::Ge], [KeyOp::Lt, KeyOp::Le]] {
                if let Some((place, _)) = place_of(&ops) {
                    access.conditions.push(*place);
                    (cost, rows) = (cost / 4.0, rows / 4.0);
                }
            }
        }
        let key = |expr: &Expr| {
            matches!(expr, Expr::Rowid { level: 0, entry } if *entry as usize == self.number)
                || alias.is_some_and(|column| self.is_column(expr, column))
        };
        let (ordered, reverse) = match self.order.first() {
            Some(first) => match &first.by {
                SortBy::Expr(expr) if key(expr) => (true, first.descending),
                _ => (rows <= 1.0, false),
            },
            None => (true, false),
        };
        access.reverse = reverse;
        Some(Path {
            access,
            cost,
            rows,
            ordered,
        })
    }

    fn is_column(&self, expr: &Expr, wanted: usize) -> bool {
        matches!(expr, Expr::Column { level: 0, entry, column }
            if *entry as usize == self.number && *column as usize == wanted)
    }

    fn is_key(&self, index: &Index, key: usize, expr: &Expr) -> bool {
        match &index.keys[key].part {
            KeyPart::Column(column) => self.is_column(expr, *column),
            KeyPart::Expr(indexed) => at_entry(indexed, self.number as u32) == *expr,
        }
    }

    /// Whether the query says that every row it wants is in a partial index.
    fn implies(&self, index: &Index) -> bool {
        let Some(filter) = &index.filter else {
            return true;
        };
        let wanted = at_entry(filter, self.number as u32);
        let parts = match &wanted {
            Expr::And(items) => items.clone(),
            other => vec![other.clone()],
        };
        parts.iter().all(|part| {
            self.source.filter.iter().any(|conjunct| {
                conjunct.expr == *part
                    || matches!((part, &conjunct.expr),
                        (Expr::IsNull { expr, negated: true }, Expr::Compare { sides, .. })
                            if expr.as_ref() == &sides.0 || expr.as_ref() == &sides.1)
            })
        })
    }

    /// Whether an index has every column that the query reads of the table.
    fn covers(&self, index: &Index) -> bool {
        let mut columns = self.entry.used_columns;
        for key in &index.keys {
            if let Some(column) = key.column() {
                columns &= !(1 << column.min(63));
            }
        }
        if let Some(alias) = self.table.rowid_alias {
            columns &= !(1 << alias.min(63));
        }
        columns == 0
    }

    fn by_index(&self, number: usize) -> Option<Path> {
        let index = &self.table.indexes[number];
        if !self.implies(index) {
            return None;
        }
        let clustered = self.table.without_rowid && index.primary;
        let covers = clustered || self.covers(index);
        let mut access = Access {
            index: Some(number),
            conditions: Vec::new(),
            reverse: false,
            lookup: !covers,
        };
        let mut rows = if index.filter.is_some() {
            ROWS / 2.0
        } else {
            ROWS
        };
        let mut equal = 0;
        let mut probes = 1.0;
        let mut range = false;
        for key in 0..index.keys.len() {
            let found = self.on(|c| self.is_key(index, key, &c.expr) && same_order(index, key, c));
            let place_of = |ops: &[KeyOp]| found.iter().find(|(_, c)| ops.contains(&c.op));
            if let Some((place, _)) = place_of(&[KeyOp::Eq, KeyOp::Is, KeyOp::IsNull]) {
                access.conditions.push(*place);
            } else if let Some((place, condition)) = place_of(&[KeyOp::In]) {
                access.conditions.push(*place);
                probes *= in_size(condition);
            } else {
                for ops in [[KeyOp::Gt, KeyOp::Ge], [KeyOp::Lt, KeyOp::Le]] {
                    if let Some((place, _)) = place_of(&ops) {
                        access.conditions.push(*place);
                        range = true;
                        rows /= 4.0;
                    }
                }
                break;
            }
            equal += 1;
            // The default statistics: 10 rows for one column, one less for each further column.
            rows = match equal {
                1 => 10.0,
                2 => 9.0,
                3 => 8.0,
                4 => 7.0,
                _ => 6.0,
            };
            if index.unique && equal == index.keys.len() {
                rows = 1.0;
            }
        }
        let wanted_order = !self.order.is_empty() && self.orders(index, 0).0;
        let scan = clustered || wanted_order || (covers && self.is_narrower(index));
        if equal == 0 && !range && !scan {
            return None;
        }
        rows *= probes;
        let each = match (covers, clustered) {
            (true, false) => self.record_cost(index),
            (true, true) => 3.0,
            (false, _) => self.record_cost(index) + 3.0,
        };
        let seek = if equal > 0 || range {
            10.0 * probes
        } else {
            0.0
        };
        let (mut ordered, reverse) = self.orders(index, equal);
        ordered |= rows <= 1.0;
        ordered &= probes <= 1.0 || rows <= 1.0;
        access.reverse = reverse;
        Some(Path {
            access,
            cost: seek + rows * each,
            rows,
            ordered,
        })
    }

    /// Whether the records of an index come in the wanted order, and whether backwards; the first
    /// `equal` keys have one value each.
    fn orders(&self, index: &Index, equal: usize) -> (bool, bool) {
        let mut at = 0;
        let mut reverse = None;
        for wanted in self.order {
            let SortBy::Expr(expr) = &wanted.by else {
                return (false, false);
            };
            if (0..equal).any(|key| self.is_key(index, key, expr)) {
                continue;
            }
            if at == 0 {
                at = equal;
            }
            let is_rowid = matches!(expr, Expr::Rowid { level: 0, entry } if *entry as usize == self.number)
                || self
                    .table
                    .rowid_alias
                    .is_some_and(|c| self.is_column(expr, c));
            let backwards = match index.keys.get(at) {
                Some(key) if self.is_key(index, at, expr) => wanted.descending != key.descending,
                None if is_rowid => wanted.descending,
                _ => return (false, false),
            };
            if wanted.nulls_flipped || reverse.is_some_and(|known| known != backwards) {
                return (false, false);
            }
            reverse = Some(backwards);
            at += 1;
            if is_rowid {
                break;
            }
        }
        (true, reverse.unwrap_or(false))
    }
}

/// Whether a condition compares as the index orders.
fn same_order(index: &Index, key: usize, condition: &KeyCondition) -> bool {
    match condition.by {
        crate::loose::expr::Comparison::Classes { collation, .. } => {
            collation == index.keys[key].collation
        }
        _ => true,
    }
}

/// How many values an `IN` has: 25 rows are assumed of a sub-select.
fn in_size(condition: &KeyCondition) -> f64 {
    match condition.subselect {
        Some(_) => 25.0,
        None => condition.operands.len() as f64,
    }
}

/// `sqlite3LogEst`: ten times the binary logarithm.
fn log_estimate(mut x: u64) -> i64 {
    const TENTHS: [i64; 8] = [0, 2, 3, 5, 6, 7, 8, 9];
    let mut y = 40;
    if x < 8 {
        if x < 2 {
            return 0;
        }
        while x < 8 {
            y -= 10;
            x <<= 1;
        }
    } else {
        while x > 255 {
            y += 40;
            x >>= 4;
        }
        while x > 15 {
            y += 10;
            x >>= 1;
        }
    }
    TENTHS[(x & 7) as usize] + y - 10
}

/// How wide a column is thought to be, in units of four bytes (`sqlite3AffinityType`).
fn column_width(table: &Table, column: usize) -> u64 {
    let DeclaredType::Sqlite { name, affinity } = &table.columns[column].ty else {
        return 1;
    };
    match affinity {
        Affinity::Text | Affinity::Blob if !name.is_empty() => 5,
        Affinity::Blob => 5,
        _ => 1,
    }
}

fn table_width(table: &Table) -> u64 {
    let columns: u64 = (0..table.columns.len())
        .map(|c| column_width(table, c))
        .sum();
    columns + u64::from(table.rowid_alias.is_none())
}

fn index_width(table: &Table, index: &Index) -> u64 {
    let keys = index.keys.iter();
    let keys: u64 = keys
        .map(|key| key.column().map_or(1, |column| column_width(table, column)))
        .sum();
    keys + 1
}
