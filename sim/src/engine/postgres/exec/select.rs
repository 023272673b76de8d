//! Queries: from joined rows to the rows of a result.
//!
//! One pass is `source -> [sort] -> lock -> offset/limit -> sink`. Row locks sit above the sort and
//! below the limit: rows are locked one by one until the limit is reached, a row that the lock drops
//! is replaced by the next one, and the order is that of the keys before locking.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use rowlock_model::{Row, Value};

use super::bound::{Around, Bound};
use super::order::Group;
use super::{Exec, Flow, Stop};
use crate::engine::postgres::{LockOutcome, RowLock, WaitPolicy, errors};
use crate::plan::cost::Wanted;
use crate::plan::expr::{self, Scope};
use crate::plan::query::{
    Body, Distinct, OnBusy, Query, RangeKind, RowLock as LockClause, Select, SetOp, SortKey,
    Source, Strength,
};

/// What takes the rows of a query.
pub(super) type RowSink<'s> = &'s mut dyn FnMut(&mut Exec<'_>, Row) -> Result<Flow, Stop>;

/// Rows that a sort of groups reads before it looks for the end of a group.
const LEAST_SORTED: u64 = 32;

/// Counts off `OFFSET` and `LIMIT`.
struct Window {
    skip: u64,
    left: Option<u64>,
    /// The part of the rows that the planner takes to be wanted; 0: all.
    part: f64,
    /// Whoever takes the rows wants no more.
    refused: bool,
}

/// A row on its way through a sort.
struct Sorting {
    /// The targets; those that are computed only after the sort are NULL yet.
    row: Vec<Value>,
    /// What it was made of, kept for row locks and late targets.
    bound: Vec<Bound>,
}

/// What became of a row that was to be locked.
enum Locked {
    /// It goes on.
    Keep,
    /// It goes on, with some of its rows replaced: what was computed from them is to be made again.
    Replaced,
    /// It is left out.
    Drop,
}

impl Exec<'_> {
    /// Gives the rows of `query` to `sink`, visible columns only.
    pub(super) fn query(
        &mut self,
        query: &Query,
        around: Around<'_>,
        sink: RowSink<'_>,
    ) -> Result<Flow, Stop> {
        self.open_ctes(&query.with, around);
        let part = std::mem::take(&mut self.part);
        let mut window = self.window(query, around)?;
        window.part = part;
        if window.left == Some(0) {
            return Ok(Flow::More);
        }
        let visible = query.columns.len();
        match &query.body {
            Body::Select(select) => self.select(query, select, around, &mut window, sink)?,
            Body::Values(rows) if query.sort.is_empty() => {
                let mut flow = Flow::More;
                for exprs in rows {
                    let row = self.project(exprs, &[], around)?;
                    flow = pass(self, &mut window, trim(row, visible), sink)?;
                    if flow == Flow::Enough {
                        break;
                    }
                }
                flow
            }
            Body::Values(rows) => {
                let mut all = Vec::with_capacity(rows.len());
                for exprs in rows {
                    all.push(self.project(exprs, &[], around)?);
                }
                self.sorted(all, query, &mut window, sink)?
            }
            Body::Set {
                op: SetOp::Union,
                all: true,
                left,
                right,
            } if query.sort.is_empty() => {
                let mut flow =
                    self.query(left, Around::inside(&around.scope()), &mut |exec, row| {
                        pass(exec, &mut window, row.to_vec(), sink)
                    })?;
                if flow == Flow::More {
                    flow =
                        self.query(right, Around::inside(&around.scope()), &mut |exec, row| {
                            pass(exec, &mut window, row.to_vec(), sink)
                        })?;
                }
                flow
            }
            Body::Set {
                op,
                all,
                left,
                right,
            } => {
                let rows = self.set_operation(*op, *all, left, right, around)?;
                self.sorted(rows, query, &mut window, sink)?
            }
        };
        // The limit of this query does not end the one around it.
        Ok(if window.refused {
            Flow::Enough
        } else {
            Flow::More
        })
    }

    /// All rows of a query.
    pub(super) fn all_rows(&mut self, query: &Query, around: Around<'_>) -> Result<Vec<Row>, Stop> {
        let mut rows = Vec::new();
        self.query(query, around, &mut |_, row| {
            rows.push(row);
            Ok(Flow::More)
        })?;
        Ok(rows)
    }

    fn window(&mut self, query: &Query, around: Around<'_>) -> Result<Window, Stop> {
        let mut count = |e: &Option<expr::Expr>, what: &str| -> Result<Option<u64>, Stop> {
            let Some(e) = e else { return Ok(None) };
            let scope = around.scope();
            let value = expr::eval(e, &scope, self)?.into_owned();
            match value {
                Value::Null => Ok(None),
                Value::Int(n) => Ok(Some(
                    u64::try_from(n).map_err(|_| errors::negative_count(what))?,
                )),
                other => unreachable!("{what} is a bigint, not {other:?}"),
            }
        };
        let left = count(&query.limit, "LIMIT")?;
        let skip = count(&query.offset, "OFFSET")?.unwrap_or(0);
        Ok(Window {
            skip,
            left,
            part: 0.0,
            refused: false,
        })
    }

    fn select(
        &mut self,
        query: &Query,
        select: &Select,
        around: Around<'_>,
        window: &mut Window,
        sink: RowSink<'_>,
    ) -> Result<Flow, Stop> {
        if select.grouping.is_some()
            || !select.windows.is_empty()
            || select.distinct != Distinct::No
        {
            let unread = std::mem::take(&mut self.unread);
            let rows = self.grouped_rows(select, around);
            self.unread = unread;
            let rows = rows?;
            let rows = self.distinct_rows(rows, select, query, around)?;
            return self.sorted(rows, query, window, sink);
        }
        let locked = query
            .locks
            .iter()
            .fold(0, |all, lock| all | 1 << lock.entry);
        let unread = std::mem::replace(&mut self.unread, locked);
        let result = self.ungrouped(query, select, around, window, sink);
        self.unread = unread;
        result
    }

    /// A query block without groups: its rows, sorted and locked.
    fn ungrouped(
        &mut self,
        query: &Query,
        select: &Select,
        around: Around<'_>,
        window: &mut Window,
        sink: RowSink<'_>,
    ) -> Result<Flow, Stop> {
        let wanted = Wanted {
            limit: window.left.map(|n| n as f64),
            offset: window.skip as f64,
            part: window.part,
            locks: !query.locks.is_empty(),
        };
        let chosen = self
            .store
            .way_chosen(&select.source, &wanted, query.sort.len());
        let given = chosen.map_or(0, |chosen| chosen.sorted);
        if given == query.sort.len() && !query.with_ties {
            return self.source_by(&select.source, around, None, chosen, &mut |exec, bound| {
                exec.locked_row(query, select, around, bound, None, window, sink)
            });
        }
        let late = late_targets(select, &query.sort);
        let keep = !query.locks.is_empty() || late.contains(&true);
        let order = self.order(&query.sort);
        let least = match (query.locks.is_empty(), window.left) {
            (true, Some(left)) => window.skip.saturating_add(left).min(LEAST_SORTED),
            _ => LEAST_SORTED,
        };
        let mut all: Vec<Sorting> = Vec::new();
        // Rows that come in groups are sorted group by group: those that are equal in the keys given.
        let flow = self.source_by(&select.source, around, None, chosen, &mut |exec, bound| {
            let row = exec.project_if(&select.targets, bound, around, |i| !late[i])?;
            let mut flow = Flow::More;
            if given > 0
                && !query.with_ties
                && all.len() as u64 >= least
                && let Some(last) = all.last()
                && order.compare_first(given, &last.row, &row).is_ne()
            {
                let group = std::mem::take(&mut all);
                flow = exec.sorted_rows(query, select, around, group, &late, window, sink)?;
            }
            let bound = if keep { bound.to_vec() } else { Vec::new() };
            all.push(Sorting { row, bound });
            Ok(flow)
        })?;
        match flow {
            Flow::Enough => Ok(flow),
            Flow::More => self.sorted_rows(query, select, around, all, &late, window, sink),
        }
    }

    /// Sorts rows, and passes them on one by one.
    #[allow(clippy::too_many_arguments)]
    fn sorted_rows(
        &mut self,
        query: &Query,
        select: &Select,
        around: Around<'_>,
        mut all: Vec<Sorting>,
        late: &[bool],
        window: &mut Window,
        sink: RowSink<'_>,
    ) -> Result<Flow, Stop> {
        let order = self.order(&query.sort);
        all.sort_by(|a, b| order.compare(&a.row, &b.row));
        let mut last: Option<Vec<Value>> = None;
        for Sorting { mut row, mut bound } in all {
            if window.left == Some(0) {
                // WITH TIES: rows equal to the last one still pass.
                let tie = last
                    .as_ref()
                    .is_some_and(|l| order.compare(l, &row) == Ordering::Equal);
                if !tie {
                    return Ok(Flow::Enough);
                }
                window.left = Some(1);
            }
            for (i, late) in late.iter().enumerate() {
                if *late {
                    row[i] = self.evaluate(&select.targets[i], &bound, around)?;
                }
            }
            if query.with_ties {
                last = Some(row.clone());
            }
            let flow =
                self.locked_row(query, select, around, &mut bound, Some(row), window, sink)?;
            if flow == Flow::Enough && !(query.with_ties && window.left == Some(0)) {
                return Ok(flow);
            }
        }
        Ok(Flow::More)
    }

    /// The last part of the pipeline for one row: projection (unless `row` is there), locks, limit.
    #[allow(clippy::too_many_arguments)]
    fn locked_row(
        &mut self,
        query: &Query,
        select: &Select,
        around: Around<'_>,
        bound: &mut [Bound],
        row: Option<Vec<Value>>,
        window: &mut Window,
        sink: RowSink<'_>,
    ) -> Result<Flow, Stop> {
        let mut row = match row {
            Some(row) => row,
            None => self.project(&select.targets, bound, around)?,
        };
        if !query.locks.is_empty() {
            match self.lock_rows(&query.locks, &select.source, bound, around)? {
                Locked::Keep => {}
                Locked::Drop => return Ok(Flow::More),
                Locked::Replaced => match self.recheck(select, bound, around)? {
                    Some(again) => row = again,
                    None => return Ok(Flow::More),
                },
            }
        }
        if !query.locks.is_empty() && self.store.is_traced() {
            let is_locked = |entry| query.locks.iter().any(|lock| lock.entry == entry);
            self.trace_reads(&select.source, bound, is_locked);
        }
        pass(self, window, trim(row, query.columns.len()), sink)
    }

    /// Takes the row locks of a `FOR` clause on one joined row.
    fn lock_rows(
        &mut self,
        locks: &[LockClause],
        source: &Source,
        bound: &mut [Bound],
        around: Around<'_>,
    ) -> Result<Locked, Stop> {
        let _ = around;
        let mut replaced = false;
        for lock in locks {
            // An outer join left this table out: nothing to lock.
            let Some(version) = bound[lock.entry].version else {
                continue;
            };
            let policy = match lock.busy {
                OnBusy::Wait => WaitPolicy::Block,
                OnBusy::Skip => WaitPolicy::Skip,
                OnBusy::Fail => WaitPolicy::Error,
            };
            match self.lock_row(version, strength(lock.strength), policy)? {
                LockOutcome::Locked => {}
                LockOutcome::LockedNewer(newer) => {
                    replaced = true;
                    bound[lock.entry] = self.bind_at(&source.range[lock.entry], newer);
                }
                LockOutcome::Updated => return Err(errors::concurrent_update().into()),
                LockOutcome::Deleted if self.keeps_snapshot() => {
                    return Err(errors::concurrent_update().into());
                }
                LockOutcome::Deleted | LockOutcome::SelfModified(_) => return Ok(Locked::Drop),
                LockOutcome::Invisible => return Ok(Locked::Drop),
                LockOutcome::WouldBlock if policy == WaitPolicy::Error => {
                    let entry = &source.range[lock.entry];
                    let RangeKind::Table(table) = &entry.kind else {
                        unreachable!("only stored tables are locked")
                    };
                    let table = self.leaf_of(table, entry, version).table;
                    return Err(errors::row_lock_not_available(&table.name).into());
                }
                LockOutcome::WouldBlock => return Ok(Locked::Drop),
            }
        }
        Ok(if replaced {
            Locked::Replaced
        } else {
            Locked::Keep
        })
    }

    /// Runs the block again for one combination of rows (EvalPlanQual): its targets, or `None` if
    /// it does not pass any more.
    fn recheck(
        &mut self,
        select: &Select,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<Option<Vec<Value>>, Stop> {
        let mut row = None;
        let fixed = bound.to_vec();
        self.source(&select.source, around, Some(&fixed), &mut |exec, bound| {
            row = Some(exec.project(&select.targets, bound, around)?);
            Ok(Flow::Enough)
        })?;
        Ok(row)
    }

    /// Evaluates `exprs` over the bound rows.
    pub(super) fn project(
        &mut self,
        exprs: &[expr::Expr],
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<Vec<Value>, Stop> {
        self.project_if(exprs, bound, around, |_| true)
    }

    fn project_if(
        &mut self,
        exprs: &[expr::Expr],
        bound: &[Bound],
        around: Around<'_>,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<Value>, Stop> {
        self.bind_addresses(bound);
        around.with(bound, |scope: &Scope<'_>| {
            let mut row = Vec::with_capacity(exprs.len());
            for (i, e) in exprs.iter().enumerate() {
                row.push(if wanted(i) {
                    expr::eval(e, scope, self)?.into_owned()
                } else {
                    Value::Null
                });
            }
            Ok(row)
        })
    }

    /// The value of one expression over the bound rows.
    pub(super) fn evaluate(
        &mut self,
        e: &expr::Expr,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<Value, Stop> {
        self.bind_addresses(bound);
        around.with(bound, |scope: &Scope<'_>| {
            Ok(expr::eval(e, scope, self)?.into_owned())
        })
    }

    /// Sorts complete rows and gives them to the sink.
    fn sorted(
        &mut self,
        mut rows: Vec<Vec<Value>>,
        query: &Query,
        window: &mut Window,
        sink: RowSink<'_>,
    ) -> Result<Flow, Stop> {
        let order = self.order(&query.sort);
        if !query.sort.is_empty() {
            rows.sort_by(|a, b| order.compare(a, b));
        }
        let mut last: Option<Vec<Value>> = None;
        for row in rows {
            if window.left == Some(0) {
                let tie = query.with_ties
                    && last
                        .as_ref()
                        .is_some_and(|l| order.compare(l, &row) == Ordering::Equal);
                if !tie {
                    return Ok(Flow::Enough);
                }
                window.left = Some(1);
            }
            if query.with_ties {
                last = Some(row.clone());
            }
            let flow = pass(self, window, trim(row, query.columns.len()), sink)?;
            if flow == Flow::Enough && !(query.with_ties && window.left == Some(0)) {
                return Ok(flow);
            }
        }
        Ok(Flow::More)
    }

    fn set_operation(
        &mut self,
        op: SetOp,
        all: bool,
        left: &Query,
        right: &Query,
        around: Around<'_>,
    ) -> Result<Vec<Vec<Value>>, Stop> {
        let left = self.arm(left, around)?;
        let right = self.arm(right, around)?;
        Ok(match op {
            SetOp::Union => {
                let mut rows = left;
                rows.extend(right);
                if all { rows } else { without_repeats(rows) }
            }
            SetOp::Intersect | SetOp::Except => {
                let mut count: BTreeMap<Group, usize> = BTreeMap::new();
                for row in &right {
                    *count.entry(Group(row.clone())).or_default() += 1;
                }
                let keep_matches = op == SetOp::Intersect;
                let mut rows = Vec::new();
                for row in left {
                    let left_in_right = count.get_mut(&Group(row.clone()));
                    let matched = match left_in_right {
                        Some(n) if *n > 0 => {
                            if all {
                                *n -= 1;
                            }
                            true
                        }
                        _ => false,
                    };
                    if matched == keep_matches {
                        rows.push(row);
                    }
                }
                if all { rows } else { without_repeats(rows) }
            }
        })
    }

    fn arm(&mut self, query: &Query, around: Around<'_>) -> Result<Vec<Vec<Value>>, Stop> {
        Ok(self
            .all_rows(query, Around::inside(&around.scope()))?
            .into_iter()
            .map(|row| row.to_vec())
            .collect())
    }

    fn distinct_rows(
        &mut self,
        rows: Vec<Vec<Value>>,
        select: &Select,
        query: &Query,
        _around: Around<'_>,
    ) -> Result<Vec<Vec<Value>>, Stop> {
        Ok(match &select.distinct {
            Distinct::No => rows,
            Distinct::All => {
                let visible = query.columns.len();
                let mut seen = BTreeSet::new();
                rows.into_iter()
                    .filter(|row| seen.insert(Group(row[..visible].to_vec())))
                    .collect()
            }
            Distinct::On(keys) => {
                let mut rows = rows;
                let order = self.order(&query.sort);
                rows.sort_by(|a, b| order.compare(a, b));
                let mut seen = BTreeSet::new();
                rows.retain(|row| {
                    let key: Vec<Value> = keys.iter().map(|k| row[*k].clone()).collect();
                    seen.insert(Group(key))
                });
                rows
            }
        })
    }
}

/// Counts a row off against offset and limit, and gives it on.
fn pass(
    exec: &mut Exec<'_>,
    window: &mut Window,
    row: Vec<Value>,
    sink: RowSink<'_>,
) -> Result<Flow, Stop> {
    if window.skip > 0 {
        window.skip -= 1;
        return Ok(Flow::More);
    }
    if sink(exec, row.into())? == Flow::Enough {
        window.refused = true;
        return Ok(Flow::Enough);
    }
    if let Some(left) = &mut window.left {
        *left -= 1;
        if *left == 0 {
            return Ok(Flow::Enough);
        }
    }
    Ok(Flow::More)
}

/// Without the targets that only `ORDER BY` or `DISTINCT ON` needed.
fn trim(mut row: Vec<Value>, visible: usize) -> Vec<Value> {
    row.truncate(visible);
    row
}

/// The targets that are computed after the sort: the volatile ones that are no sort key.
fn late_targets(select: &Select, sort: &[SortKey]) -> Vec<bool> {
    select
        .targets
        .iter()
        .enumerate()
        .map(|(i, target)| {
            sort.iter().all(|key| key.target != i) && super::walk::is_volatile(target)
        })
        .collect()
}

fn without_repeats(rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let mut seen = BTreeSet::new();
    rows.into_iter()
        .filter(|row| seen.insert(Group(row.clone())))
        .collect()
}

fn strength(strength: Strength) -> RowLock {
    match strength {
        Strength::KeyShare => RowLock::KeyShare,
        Strength::Share => RowLock::Share,
        Strength::NoKeyUpdate => RowLock::NoKeyUpdate,
        Strength::Update => RowLock::Update,
    }
}
