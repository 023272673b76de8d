//! Window functions.

use std::cmp::Ordering;

use rowlock_model::Value;

use super::Executor;
use super::select::compare_key;
use crate::loose::eval::{Frame, Tuple, eval};
use crate::loose::expr::{Window, WindowKind};
use crate::loose::query::{Cte, SortBy};
use crate::loose::storage::{Stop, Storage};
use crate::loose::value::{as_int_rounded, compare};

/// A row that windows are computed for: rows of the source, or the values of a group.
pub(super) type Input = (Vec<Option<Tuple>>, Vec<Value>);

impl<'e, S: Storage> Executor<'e, S> {
    /// The values of all windows, for each input.
    pub(super) fn windows(
        &mut self,
        windows: &[Window],
        inputs: &[Input],
        with: &[Cte],
        outer: Option<&Frame<'_>>,
    ) -> Result<Vec<Vec<Value>>, Stop> {
        let mut values = vec![Vec::new(); inputs.len()];
        for window in windows {
            let column = self.window(window, inputs, with, outer)?;
            for (row, value) in values.iter_mut().zip(column) {
                row.push(value);
            }
        }
        Ok(values)
    }

    fn window(
        &mut self,
        window: &Window,
        inputs: &[Input],
        with: &[Cte],
        outer: Option<&Frame<'_>>,
    ) -> Result<Vec<Value>, Stop> {
        let mut keys = Vec::new();
        for (tuples, group) in inputs {
            let frame = Frame {
                rows: tuples,
                group,
                windows: &[],
                with,
                outer,
            };
            let mut partition = Vec::new();
            for (key, _) in &window.partition {
                partition.push(eval(key, &frame, self)?);
            }
            let mut order = Vec::new();
            for key in &window.order {
                if let SortBy::Expr(by) = &key.by {
                    order.push(eval(by, &frame, self)?);
                }
            }
            let args = self.values(&window.args, &frame)?;
            let sample = match &window.kind {
                WindowKind::Aggregate(aggregate) => self.sample(aggregate, &frame)?,
                _ => None,
            };
            keys.push((partition, order, args, sample));
        }
        let same_partition = |a: usize, b: usize| {
            let pairs = keys[a].0.iter().zip(&keys[b].0).zip(&window.partition);
            pairs
                .map(|((a, b), (_, by))| compare(*by, a, b))
                .find(|ordering| *ordering != Ordering::Equal)
                .unwrap_or(Ordering::Equal)
        };
        let by_order = |a: usize, b: usize| {
            let pairs = keys[a].1.iter().zip(&keys[b].1).zip(&window.order);
            pairs
                .map(|((a, b), key)| compare_key(key, a, b))
                .find(|ordering| *ordering != Ordering::Equal)
                .unwrap_or(Ordering::Equal)
        };
        let mut places: Vec<usize> = (0..inputs.len()).collect();
        places.sort_by(|a, b| same_partition(*a, *b).then_with(|| by_order(*a, *b)));
        let mut values = vec![Value::Null; inputs.len()];
        let mut begin = 0;
        while begin < places.len() {
            let mut end = begin + 1;
            while end < places.len() && same_partition(places[begin], places[end]).is_eq() {
                end += 1;
            }
            let rows = &places[begin..end];
            let mut rank = 1;
            let mut dense = 1;
            for (i, row) in rows.iter().enumerate() {
                if i > 0 && by_order(rows[i - 1], *row) != Ordering::Equal {
                    rank = i as i64 + 1;
                    dense += 1;
                }
                let shifted = |by: i64| {
                    let place = i as i64 + by;
                    let found = usize::try_from(place).ok().and_then(|p| rows.get(p));
                    match found {
                        Some(other) => keys[*other].2.first().cloned(),
                        None => keys[*row].2.get(2).cloned(),
                    }
                    .unwrap_or(Value::Null)
                };
                let distance = || {
                    let given = keys[*row].2.get(1).and_then(as_int_rounded);
                    given.unwrap_or(1)
                };
                values[*row] = match &window.kind {
                    WindowKind::RowNumber => Value::Int(i as i64 + 1),
                    WindowKind::Rank => Value::Int(rank),
                    WindowKind::DenseRank => Value::Int(dense),
                    WindowKind::Lag => shifted(-distance()),
                    WindowKind::Lead => shifted(distance()),
                    WindowKind::FirstValue => {
                        keys[rows[0]].2.first().cloned().unwrap_or(Value::Null)
                    }
                    WindowKind::Aggregate(aggregate) => {
                        // To the last peer of the row; without an order all are peers.
                        let last = rows
                            .iter()
                            .rposition(|other| by_order(*row, *other).is_eq())
                            .unwrap_or(i);
                        let samples = rows[..=last].iter().filter_map(|r| keys[*r].3.clone());
                        self.aggregate(aggregate, samples.collect())
                    }
                };
            }
            begin = end;
        }
        Ok(values)
    }
}
