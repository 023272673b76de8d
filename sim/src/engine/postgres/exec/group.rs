//! `GROUP BY`, aggregates and window functions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rowlock_model::{DbError, Value};

use super::bound::{Around, Bound};
use super::order::{Group, Order};
use super::{Exec, Flow, Stop};
use crate::engine::postgres::RelId;
use crate::plan::catalog::{IndexMethod, Table};
use crate::plan::expr::{
    self, Accumulator, Aggregate, AggregateFunction, Expr, Window, WindowFunction,
};
use crate::plan::query::{Access, Grouping, RangeKind, Select};

/// A row between the source and the targets.
struct Line {
    bound: Vec<Bound>,
    group: Vec<Value>,
    windows: Vec<Value>,
}

/// The running state of one aggregate.
struct Running {
    accumulator: Accumulator,
    /// Arguments kept back for `ORDER BY` inside the call: sort keys, then the arguments.
    held: Vec<(Vec<Value>, Vec<Value>)>,
}

/// The index that has the answer to `min` or `max` at one end, and whether that is its far end.
fn extreme_of(table: &Table, aggregate: &Aggregate) -> Option<(RelId, bool)> {
    let wants_least = match aggregate.function {
        AggregateFunction::Min => true,
        AggregateFunction::Max => false,
        _ => return None,
    };
    let (
        [
            Expr::Column {
                level: 0, column, ..
            },
        ],
        None,
    ) = (&aggregate.args[..], &aggregate.filter)
    else {
        return None;
    };
    let leads = |index: &&crate::plan::catalog::Index| {
        index.predicate.is_none()
            && index.method == IndexMethod::BTree
            && index.keys.first().and_then(|key| key.column) == Some(*column as usize)
    };
    let index = table.indexes.iter().find(leads)?;
    Some((index.id, wants_least == index.keys[0].descending))
}

impl Exec<'_> {
    /// The targets of every group (or, without grouping, of every row) of a select that cannot be
    /// streamed.
    pub(super) fn grouped_rows(
        &mut self,
        select: &Select,
        around: Around<'_>,
    ) -> Result<Vec<Vec<Value>>, Stop> {
        let mut lines = match &select.grouping {
            Some(grouping) => self.groups(select, grouping, around)?,
            None => {
                let mut lines = Vec::new();
                self.source(&select.source, around, None, &mut |_, bound| {
                    lines.push(Line {
                        bound: bound.to_vec(),
                        group: Vec::new(),
                        windows: Vec::new(),
                    });
                    Ok(Flow::More)
                })?;
                lines
            }
        };
        for window in &select.windows {
            self.window_values(window, &mut lines, around)?;
        }
        let mut rows = Vec::with_capacity(lines.len());
        for line in &lines {
            rows.push(self.line_values(&select.targets, line, around)?);
        }
        Ok(rows)
    }

    fn line_values(
        &mut self,
        exprs: &[expr::Expr],
        line: &Line,
        around: Around<'_>,
    ) -> Result<Vec<Value>, Stop> {
        self.bind_addresses(&line.bound);
        around.with_more(&line.bound, &line.group, &line.windows, |scope| {
            exprs
                .iter()
                .map(|e| Ok(expr::eval(e, scope, self)?.into_owned()))
                .collect()
        })
    }

    /// SERIALIZABLE: the server answers `min` and `max` of the leading column of an index from an end
    /// of it, and reads no other row. Notes that; whether it did, so that the scan of all rows that
    /// is made here counts for nothing.
    fn note_extremes(
        &mut self,
        select: &Select,
        grouping: &Grouping,
        around: Around<'_>,
    ) -> Result<bool, Stop> {
        let ([entry], false) = (&select.source.range[..], grouping.explicit) else {
            return Ok(false);
        };
        let RangeKind::Table(table) = &entry.kind else {
            return Ok(false);
        };
        if !self.is_serializable() || entry.access != Access::Sequential {
            return Ok(false);
        }
        let mut ends = Vec::new();
        for aggregate in &grouping.aggregates {
            match extreme_of(table, aggregate) {
                Some(end) => ends.push(end),
                None => return Ok(false),
            }
        }
        for (index, backward) in &ends {
            let entries = self.store.index_scan(*index, *backward);
            let mut found = Vec::new();
            for entry in entries.iter().filter(|entry| !entry.key[0].is_null()) {
                found.push(entry.version);
                if !self
                    .store
                    .visible(self.session, &self.snapshot, entry.version)
                {
                    continue;
                }
                let bound = [self.bind(entry.version)];
                if self.all_hold(&select.source.filter, &bound, around)? {
                    break;
                }
            }
            self.note_versions(*index, &found)?;
        }
        Ok(!ends.is_empty())
    }

    /// Groups appear in the order of their first row.
    fn groups(
        &mut self,
        select: &Select,
        grouping: &Grouping,
        around: Around<'_>,
    ) -> Result<Vec<Line>, Stop> {
        let mut index: BTreeMap<Group, usize> = BTreeMap::new();
        let mut groups: Vec<(Vec<Value>, Vec<Running>)> = Vec::new();
        if !grouping.explicit {
            groups.push((Vec::new(), start(&grouping.aggregates)));
        }
        let unnoted = self.note_extremes(select, grouping, around)?;
        let before = std::mem::replace(&mut self.unnoted, unnoted);
        self.source(&select.source, around, None, &mut |exec, bound| {
            let place = if grouping.explicit {
                let key = exec.project(&grouping.keys, bound, around)?;
                let next = groups.len();
                let place = *index.entry(Group(key.clone())).or_insert(next);
                if place == next {
                    groups.push((key, start(&grouping.aggregates)));
                }
                place
            } else {
                0
            };
            for (aggregate, running) in grouping.aggregates.iter().zip(&mut groups[place].1) {
                exec.accumulate(aggregate, running, bound, around)?;
            }
            Ok(Flow::More)
        })?;
        self.unnoted = before;
        let mut lines = Vec::with_capacity(groups.len());
        for (mut group, running) in groups {
            for (aggregate, running) in grouping.aggregates.iter().zip(running) {
                group.push(self.finish(aggregate, running)?);
            }
            let line = Line {
                bound: Vec::new(),
                group,
                windows: Vec::new(),
            };
            if let Some(having) = &grouping.having {
                let passes = around.with_more(&[], &line.group, &[], |scope| {
                    expr::test(having, scope, self)
                })?;
                if passes != Some(true) {
                    continue;
                }
            }
            lines.push(line);
        }
        Ok(lines)
    }

    fn accumulate(
        &mut self,
        aggregate: &Aggregate,
        running: &mut Running,
        bound: &[Bound],
        around: Around<'_>,
    ) -> Result<(), Stop> {
        if let Some(filter) = &aggregate.filter {
            let passes = around.with(bound, |scope| expr::test(filter, scope, self))?;
            if passes != Some(true) {
                return Ok(());
            }
        }
        let args = self.project(&aggregate.args, bound, around)?;
        if aggregate.sort.is_empty() {
            running.accumulator.add(aggregate, &args)?;
        } else {
            let keys = self.project(&aggregate.order, bound, around)?;
            running.held.push((keys, args));
        }
        Ok(())
    }

    fn finish(&mut self, aggregate: &Aggregate, mut running: Running) -> Result<Value, Stop> {
        if !aggregate.sort.is_empty() {
            let order = self.order(&aggregate.sort);
            running.held.sort_by(|a, b| order.compare(&a.0, &b.0));
            for (_, args) in &running.held {
                running.accumulator.add(aggregate, args)?;
            }
        }
        Ok(running.accumulator.finish(aggregate)?)
    }

    /// Appends the value of one window function to every line. The lines end up in the order of the
    /// window, as the server's sort leaves them.
    fn window_values(
        &mut self,
        window: &Window,
        lines: &mut Vec<Line>,
        around: Around<'_>,
    ) -> Result<(), Stop> {
        let partition: Vec<expr::Expr> = window.partition.iter().map(|(e, _)| e.clone()).collect();
        let mut keyed = Vec::with_capacity(lines.len());
        for line in std::mem::take(lines) {
            let partition = Group(self.line_values(&partition, &line, around)?);
            let keys = self.line_values(&window.order, &line, around)?;
            keyed.push((partition, keys, line));
        }
        let order = self.order(&window.sort);
        keyed.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| order.compare(&a.1, &b.1)));
        let mut from = 0;
        while from < keyed.len() {
            let to = from
                + keyed[from..]
                    .iter()
                    .take_while(|k| k.0 == keyed[from].0)
                    .count();
            self.window_partition(window, &mut keyed[from..to], &order, around)?;
            from = to;
        }
        lines.extend(keyed.into_iter().map(|(_, _, line)| line));
        Ok(())
    }

    fn window_partition(
        &mut self,
        window: &Window,
        rows: &mut [(Group, Vec<Value>, Line)],
        order: &Order,
        around: Around<'_>,
    ) -> Result<(), Stop> {
        let mut from = 0;
        let mut dense = 0;
        let mut running = match &window.function {
            WindowFunction::Aggregate(aggregate) => Some(Accumulator::new(aggregate)),
            _ => None,
        };
        let arguments: Vec<expr::Expr> = window.function.arguments().into_iter().cloned().collect();
        let mut given = Vec::with_capacity(rows.len());
        for row in rows.iter() {
            given.push(self.line_values(&arguments, &row.2, around)?);
        }
        let count = rows.len();
        while from < rows.len() {
            dense += 1;
            // Peers are equal under the window's order; without one, all rows are.
            let to = from
                + rows[from..]
                    .iter()
                    .take_while(|r| order.compare(&r.1, &rows[from].1) == Ordering::Equal)
                    .count();
            if let (WindowFunction::Aggregate(aggregate), Some(running)) =
                (&window.function, &mut running)
            {
                for row in &rows[from..to] {
                    if let Some(filter) = &aggregate.filter {
                        let passes = around.with_more(
                            &row.2.bound,
                            &row.2.group,
                            &row.2.windows,
                            |scope| expr::test(filter, scope, self),
                        )?;
                        if passes != Some(true) {
                            continue;
                        }
                    }
                    let args = self.line_values(&aggregate.args, &row.2, around)?;
                    running.add(aggregate, &args)?;
                }
            }
            for (i, row) in rows.iter_mut().enumerate().take(to).skip(from) {
                let value = match &window.function {
                    WindowFunction::RowNumber => Value::Int(i as i64 + 1),
                    WindowFunction::Rank => Value::Int(from as i64 + 1),
                    WindowFunction::DenseRank => Value::Int(dense),
                    other if !matches!(other, WindowFunction::Aggregate(_)) => {
                        positional(other, &given, i, from, to, count)?
                    }
                    WindowFunction::Aggregate(aggregate) => match &running {
                        Some(running) => running.clone().finish(aggregate)?,
                        None => Value::Null,
                    },
                    _ => Value::Null,
                };
                row.2.windows.push(value);
            }
            from = to;
        }
        Ok(())
    }
}

/// The value of a window function that looks at other rows of its partition or at the row's place in
/// it: row `i` of `count`, its peers from `from` up to `to`, with the arguments that each row gives.
fn positional(
    function: &WindowFunction,
    given: &[Vec<Value>],
    i: usize,
    from: usize,
    to: usize,
    count: usize,
) -> Result<Value, DbError> {
    let of = |row: usize| given[row][0].clone();
    Ok(match function {
        WindowFunction::PercentRank if count <= 1 => Value::Float(0.0),
        WindowFunction::PercentRank => Value::Float(from as f64 / (count - 1) as f64),
        WindowFunction::CumulativeShare => Value::Float(to as f64 / count as f64),
        WindowFunction::Tile(_) => tile(&given[0][0], i, count)?,
        WindowFunction::FirstValue(_) => of(0),
        WindowFunction::LastValue(_) => of(to - 1),
        WindowFunction::NthValue(..) => match given[i][1].as_int() {
            None => Value::Null,
            Some(n) if n < 1 => {
                let message = "argument of nth_value must be greater than zero";
                return Err(DbError::postgres("22016", message));
            }
            Some(n) if n as usize <= to => of(n as usize - 1),
            Some(_) => Value::Null,
        },
        WindowFunction::Shifted { back, .. } => {
            let Some(offset) = given[i][1].as_int() else {
                return Ok(Value::Null);
            };
            let offset = if *back { -offset } else { offset };
            let there = usize::try_from(i as i64 + offset).ok();
            match there.filter(|row| *row < count) {
                Some(row) => of(row),
                None => given[i][2].clone(),
            }
        }
        other => panic!("{other:?} is computed elsewhere"),
    })
}

/// `ntile(n)`: the first groups are larger by one where the rows do not divide evenly.
fn tile(groups: &Value, i: usize, count: usize) -> Result<Value, DbError> {
    let Some(groups) = groups.as_int() else {
        return Ok(Value::Null);
    };
    if groups < 1 {
        let message = "argument of ntile must be greater than zero";
        return Err(DbError::postgres("22014", message));
    }
    let (i, count) = (i as i64, count as i64);
    let (size, larger) = (count / groups, count % groups);
    let in_larger = larger * (size + 1);
    Ok(Value::Int(if i < in_larger {
        i / (size + 1) + 1
    } else {
        larger + (i - in_larger) / size.max(1) + 1
    }))
}

fn start(aggregates: &[Aggregate]) -> Vec<Running> {
    aggregates
        .iter()
        .map(|aggregate| Running {
            accumulator: Accumulator::new(aggregate),
            held: Vec::new(),
        })
        .collect()
}
