//! Queries over joined rows: targets, `DISTINCT`, order, limit, set operations.

use std::cmp::Ordering;
use std::sync::Arc;

use rowlock_model::{DbError, Dialect, Row, Value};

use super::Executor;
use super::filesort;
use super::join::Ask;
use super::semijoin;
use crate::loose::eval::{Frame, eval, test};
use crate::loose::expr::{AggregateKind, Comparison, Expr};
use crate::loose::query::{Body, KeyOp, Query, RangeKind, Select, SetOp, SortBy, SortKey};
use crate::loose::storage::{Choice, Purpose, Stop, Storage, Ties};
use crate::loose::value::{as_int_rounded, compare};

/// A row of targets: the visible ones, and those that only the order needs.
type Targets = Vec<Value>;

impl<'e, S: Storage> Executor<'e, S> {
    /// The rows of a query, at most `most`.
    pub(super) fn query(
        &mut self,
        query: &Query,
        outer: Option<&Frame<'_>>,
        most: Option<u64>,
    ) -> Result<Vec<Row>, Stop> {
        for cte in &query.with {
            self.ctes.remove(&cte.id);
        }
        let frame = Frame {
            with: &query.with,
            ..Frame::empty(outer)
        };
        let offset = match &query.offset {
            Some(offset) => self.count(offset, &frame)?.unwrap_or(0),
            None => 0,
        };
        let limit = match &query.limit {
            Some(limit) => self.count(limit, &frame)?,
            None => None,
        };
        let limit = match (limit, most) {
            (Some(limit), Some(most)) => Some(limit.min(most)),
            (limit, most) => limit.or(most),
        };
        let wanted = limit.map(|limit| limit.saturating_add(offset));
        if wanted == Some(0) || limit == Some(0) {
            return Ok(Vec::new());
        }
        let mut rows = match &query.body {
            Body::Select(select) => self.select(select, query, outer, wanted)?,
            Body::Values(rows) => {
                let mut out = Vec::new();
                for row in rows {
                    out.push(self.values(row, &frame)?);
                }
                self.sorted(out, &query.sort)
            }
            Body::Set {
                op,
                all,
                by,
                left,
                right,
            } => {
                let left = self.query(left, Some(&frame), None)?;
                let right = self.query(right, Some(&frame), None)?;
                let rows = combine(*op, *all, by, left, right, self.dialect);
                let rows = rows.into_iter().map(|row| row.to_vec()).collect();
                self.sorted(rows, &query.sort)
            }
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        rows.drain(..offset.min(rows.len()));
        if let Some(limit) = limit {
            rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        let width = query.columns.len();
        Ok(rows
            .into_iter()
            .map(|mut row| {
                row.truncate(width);
                Arc::from(row)
            })
            .collect())
    }

    /// Calls `sink` with each row of a query, as soon as it is read where nothing stands between.
    pub(super) fn each_row(
        &mut self,
        query: &Query,
        outer: Option<&Frame<'_>>,
        sink: &mut dyn FnMut(&mut Self, Row) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let select = match &query.body {
            Body::Select(select) => select,
            Body::Values(_) | Body::Set { .. } => return self.each_collected(query, outer, sink),
        };
        let plain = select.grouping.is_none()
            && select.windows.is_empty()
            && select.distinct.is_none()
            && query.sort.is_empty()
            && query.limit.is_none()
            && query.offset.is_none()
            && query.with.is_empty()
            && select.source.from.is_some()
            && !semijoin::is_hashed(select, self.dialect);
        if !plain {
            return self.each_collected(query, outer, sink);
        }
        let purposes = vec![Purpose::Read; select.source.range.len()];
        let ask = Ask {
            source: &select.source,
            purposes: &purposes,
            order: &[],
            limit: None,
            with: &query.with,
        };
        let choice = self.choose(&ask, outer)?;
        let width = query.columns.len();
        self.join(&ask, &choice, outer, &mut |executor, current| {
            let frame = Frame {
                with: &query.with,
                ..Frame::of_rows(&current.tuples, outer)
            };
            let mut row = executor.values(&select.targets, &frame)?;
            row.truncate(width);
            sink(executor, row.into())?;
            Ok(true)
        })
    }

    fn each_collected(
        &mut self,
        query: &Query,
        outer: Option<&Frame<'_>>,
        sink: &mut dyn FnMut(&mut Self, Row) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for row in self.query(query, outer, None)? {
            sink(self, row)?;
        }
        Ok(())
    }

    /// The value of `LIMIT` or `OFFSET`; `None` is no limit.
    pub(super) fn count(&mut self, expr: &Expr, frame: &Frame<'_>) -> Result<Option<u64>, Stop> {
        let value = eval(expr, frame, self)?;
        let sqlite = self.dialect == Dialect::Sqlite;
        match &value {
            // A negative limit of SQLite is none, a negative offset is 0.
            Value::Int(i) => match u64::try_from(*i) {
                Ok(count) => Ok(Some(count)),
                Err(_) if sqlite => Ok(None),
                Err(_) => Err(DbError::unsupported("a negative limit", None).into()),
            },
            other if sqlite => {
                match crate::loose::value::number_of_text(&crate::loose::value::sqlite_text(other))
                {
                    (Value::Int(i), true) => Ok(u64::try_from(i).ok()),
                    _ => Err(crate::loose::errors::sqlite(20, "datatype mismatch").into()),
                }
            }
            other => Ok(as_int_rounded(other).and_then(|i| u64::try_from(i).ok())),
        }
    }

    fn sorted(&self, mut rows: Vec<Targets>, sort: &[SortKey]) -> Vec<Targets> {
        if !sort.is_empty() {
            rows.sort_by(|a, b| compare_targets(sort, a, b));
        }
        rows
    }

    fn select(
        &mut self,
        select: &Select,
        query: &Query,
        outer: Option<&Frame<'_>>,
        wanted: Option<u64>,
    ) -> Result<Vec<Targets>, Stop> {
        let plain = select.grouping.is_none() && select.windows.is_empty();
        let streams =
            plain && select.distinct.is_none() && !semijoin::is_hashed(select, self.dialect);
        // The engine may deliver the order itself only if nothing stands between.
        let order: Vec<SortKey> = match streams {
            true => query.sort.iter().map(|key| resolved(key, select)).collect(),
            false => Vec::new(),
        };
        // The smallest or largest value of an index is found at its end.
        let extreme = self.extreme(select);
        let order = extreme.clone().map_or(order, |key| vec![key]);
        let purposes = vec![Purpose::Read; select.source.range.len()];
        let ask = Ask {
            source: &select.source,
            purposes: &purposes,
            order: &order,
            limit: match extreme {
                Some(_) => Some(1),
                None => wanted.filter(|_| streams),
            },
            with: &query.with,
        };
        let choice = match select.source.from {
            Some(_) => self.choose(&ask, outer)?,
            None => Choice {
                order: Vec::new(),
                access: Vec::new(),
                sorted: true,
                impossible: false,
            },
        };
        let sorted = query.sort.is_empty() || (streams && choice.sorted);
        if !plain {
            let rows = self.grouped(select, query, &ask, &choice, outer)?;
            let rows = self.distinct(rows, select);
            return Ok(self.sorted(rows, &query.sort));
        }
        let stop_at = wanted.filter(|_| sorted && select.distinct.is_none());
        let queue = match (&select.source.range[..], wanted) {
            ([entry], Some(limit)) if streams && !sorted => match &entry.kind {
                RangeKind::Table(table) => Some((self.storage.ties(), Arc::clone(table), limit)),
                _ => None,
            },
            _ => None,
        };
        let queue = queue.filter(|(ties, ..)| *ties != Ties::Found);
        let mut positions: Vec<Vec<u8>> = Vec::new();
        let mut rows: Vec<Targets> = Vec::new();
        self.join(&ask, &choice, outer, &mut |executor, current| {
            let frame = Frame {
                with: &query.with,
                ..Frame::of_rows(&current.tuples, outer)
            };
            let row = executor.values(&select.targets, &frame)?;
            rows.push(row);
            if let Some((_, table, _)) = &queue
                && let Some(stored) = &current.stored[0]
            {
                positions.push(executor.storage.position(table, stored));
            }
            Ok(stop_at.is_none_or(|stop| (rows.len() as u64) < stop))
        })?;
        if let Some((ties, _, limit)) = queue
            && positions.len() == rows.len()
        {
            let rows: Vec<(Targets, Vec<u8>)> = rows.into_iter().zip(positions).collect();
            let by_key = |a: &(Targets, Vec<u8>), b: &(Targets, Vec<u8>)| {
                compare_targets(&query.sort, &a.0, &b.0)
            };
            let mut rows = filesort::kept_by_queue(rows, limit, by_key);
            rows.sort_by(|a, b| match ties {
                Ties::QueueByPosition => by_key(a, b).then_with(|| a.1.cmp(&b.1)),
                _ => by_key(a, b),
            });
            return Ok(rows.into_iter().map(|(row, _)| row).collect());
        }
        let rows = self.distinct(rows, select);
        Ok(match sorted {
            true => rows,
            false => self.sorted(rows, &query.sort),
        })
    }

    /// Groups and windows over joined rows.
    fn grouped(
        &mut self,
        select: &Select,
        query: &Query,
        ask: &Ask<'_>,
        choice: &Choice,
        outer: Option<&Frame<'_>>,
    ) -> Result<Vec<Targets>, Stop> {
        // What each output row is computed from: rows of the source, or the values of a group.
        let mut inputs = Vec::new();
        match &select.grouping {
            Some(grouping) => {
                let groups = self.groups(grouping, ask, choice, outer)?;
                for group in groups {
                    let frame = Frame {
                        group: &group,
                        with: &query.with,
                        ..Frame::empty(outer)
                    };
                    let keep = match &grouping.having {
                        Some(having) => test(having, &frame, self)?,
                        None => true,
                    };
                    if keep {
                        inputs.push((Vec::new(), group));
                    }
                }
            }
            None => self.join(ask, choice, outer, &mut |_, current| {
                inputs.push((current.tuples.clone(), Vec::new()));
                Ok(true)
            })?,
        }
        let windows = self.windows(&select.windows, &inputs, &query.with, outer)?;
        let mut rows = Vec::new();
        for (i, (tuples, group)) in inputs.iter().enumerate() {
            let frame = Frame {
                rows: tuples,
                group,
                windows: &windows[i],
                with: &query.with,
                outer,
            };
            rows.push(self.values(&select.targets, &frame)?);
        }
        Ok(rows)
    }

    /// The order in which the first row has the value of the only aggregate, a `MIN` or `MAX` of a column
    /// of one table whose conditions are equalities (MySQL manual, "Aggregate Functions").
    fn extreme(&self, select: &Select) -> Option<SortKey> {
        if self.dialect == Dialect::Sqlite || !select.windows.is_empty() {
            return None;
        }
        let grouping = select.grouping.as_ref().filter(|g| !g.explicit)?;
        let [aggregate] = &grouping.aggregates[..] else {
            return None;
        };
        let [entry] = &select.source.range[..] else {
            return None;
        };
        let descending = match aggregate.kind {
            AggregateKind::Max => true,
            AggregateKind::Min => false,
            _ => return None,
        };
        let [column @ Expr::Column { level: 0, .. }] = &aggregate.args[..] else {
            return None;
        };
        let is_equality = |at: usize| {
            let mut of = entry.conditions.iter().filter(|c| c.conjunct == Some(at));
            of.any(|c| c.constant && c.op == KeyOp::Eq)
        };
        let key = SortKey {
            by: SortBy::Expr(column.clone()),
            comparison: aggregate.by,
            descending,
            nulls_flipped: false,
        };
        let bound = (0..select.source.filter.len()).all(is_equality);
        (bound && aggregate.filter.is_none()).then_some(key)
    }

    fn distinct(&self, rows: Vec<Targets>, select: &Select) -> Vec<Targets> {
        let Some(by) = &select.distinct else {
            return rows;
        };
        let mut kept: Vec<Targets> = Vec::new();
        for row in rows {
            if !kept.iter().any(|other| same(by, other, &row)) {
                kept.push(row);
            }
        }
        kept
    }
}

/// A sort key with its target put in.
fn resolved(key: &SortKey, select: &Select) -> SortKey {
    let by = match &key.by {
        SortBy::Target(target) => SortBy::Expr(select.targets[*target].clone()),
        other => other.clone(),
    };
    SortKey { by, ..key.clone() }
}

/// Compares two values in the direction of a sort key.
pub(super) fn compare_key(key: &SortKey, a: &Value, b: &Value) -> Ordering {
    let nulls = a.is_null() != b.is_null();
    let ordering = compare(key.comparison, a, b);
    match key.descending != (nulls && key.nulls_flipped) {
        true => ordering.reverse(),
        false => ordering,
    }
}

fn compare_targets(sort: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    for key in sort {
        let SortBy::Target(target) = key.by else {
            continue;
        };
        let ordering = compare_key(key, &a[target], &b[target]);
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

fn same(by: &[Comparison], a: &[Value], b: &[Value]) -> bool {
    by.iter()
        .zip(a.iter().zip(b))
        .all(|(by, (a, b))| compare(*by, a, b) == Ordering::Equal)
}

/// The first of each set of equal rows.
pub(super) fn distinct_rows(rows: Vec<Row>, by: &[Comparison]) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    for row in rows {
        if !kept.iter().any(|other| same(by, other, &row)) {
            kept.push(row);
        }
    }
    kept
}

/// A set operation. SQLite sorts the rows of all but `UNION ALL`.
fn combine(
    op: SetOp,
    all: bool,
    by: &[Comparison],
    left: Vec<Row>,
    right: Vec<Row>,
    dialect: Dialect,
) -> Vec<Row> {
    if all && op == SetOp::Union {
        return left.into_iter().chain(right).collect();
    }
    let mut rows = match op {
        SetOp::Union => distinct_rows(left.into_iter().chain(right).collect(), by),
        SetOp::Intersect | SetOp::Except if all => {
            let mut others = right;
            let mut kept = Vec::new();
            for row in left {
                let found = others.iter().position(|other| same(by, other, &row));
                if let Some(found) = found {
                    others.remove(found);
                }
                if found.is_some() == (op == SetOp::Intersect) {
                    kept.push(row);
                }
            }
            return kept;
        }
        SetOp::Intersect | SetOp::Except => {
            let wanted = op == SetOp::Intersect;
            let has = |row: &Row| right.iter().any(|other| same(by, other, row)) == wanted;
            distinct_rows(left.into_iter().filter(has).collect(), by)
        }
    };
    if dialect == Dialect::Sqlite {
        rows.sort_by(|a, b| {
            let orders = by.iter().zip(a.iter().zip(b.iter()));
            orders
                .map(|(by, (a, b))| compare(*by, a, b))
                .find(|ordering| *ordering != Ordering::Equal)
                .unwrap_or(Ordering::Equal)
        });
    }
    rows
}
