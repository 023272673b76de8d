//! Groups and aggregates.

use std::cmp::Ordering;

use rowlock_model::{Dialect, Value};
use rust_decimal::Decimal;

use super::Executor;
use super::join::Ask;
use super::select::compare_key;
use crate::loose::eval::{Frame, eval, test};
use crate::loose::expr::{Aggregate, AggregateKind, Numbers};
use crate::loose::query::{Grouping, Representative, SortBy};
use crate::loose::storage::{Choice, Stop, Storage};
use crate::loose::value::{
    as_decimal, as_float, compare, mysql_text, number_of_text, round_decimal, sqlite_text,
};

/// One row as an aggregate saw it.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    args: Vec<Value>,
    order: Vec<Value>,
}

/// A group while it is collected.
struct Group {
    keys: Vec<Value>,
    /// For each aggregate, the rows that it counts.
    samples: Vec<Vec<Sample>>,
    /// For each row of the group, the values of columns that stand for it.
    firsts: Vec<Vec<Value>>,
}

impl<'e, S: Storage> Executor<'e, S> {
    /// The groups of a source, each as its keys and then its aggregates.
    pub(super) fn groups(
        &mut self,
        grouping: &Grouping,
        ask: &Ask<'_>,
        choice: &Choice,
        outer: Option<&Frame<'_>>,
    ) -> Result<Vec<Vec<Value>>, Stop> {
        let new_group = |keys| Group {
            keys,
            samples: vec![Vec::new(); grouping.aggregates.len()],
            firsts: Vec::new(),
        };
        let mut groups: Vec<Group> = Vec::new();
        if !grouping.explicit {
            groups.push(new_group(Vec::new()));
        }
        // Rows come in the order of the only aggregate: its value is the first.
        let first_only = !ask.order.is_empty() && choice.sorted;
        self.join(ask, choice, outer, &mut |executor, current| {
            let frame = Frame {
                with: ask.with,
                ..Frame::of_rows(&current.tuples, outer)
            };
            let mut keys = Vec::new();
            for (key, _) in &grouping.keys {
                keys.push(eval(key, &frame, executor)?);
            }
            let same = |group: &Group| {
                let pairs = group.keys.iter().zip(&keys);
                pairs
                    .zip(&grouping.keys)
                    .all(|((a, b), (_, by))| compare(*by, a, b) == Ordering::Equal)
            };
            let place = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(new_group(keys.clone()));
                groups.len() - 1
            });
            let mut firsts = Vec::new();
            for (i, aggregate) in grouping.aggregates.iter().enumerate() {
                if aggregate.kind == AggregateKind::First {
                    firsts.push(eval(&aggregate.args[0], &frame, executor)?);
                    continue;
                }
                firsts.push(Value::Null);
                if let Some(sample) = executor.sample(aggregate, &frame)? {
                    groups[place].samples[i].push(sample);
                }
            }
            groups[place].firsts.push(firsts);
            Ok(!first_only || groups[place].samples[0].is_empty())
        })?;
        if self.dialect != Dialect::MySql {
            // SQLite and MariaDB sort to group; MySQL keeps the order of first rows.
            groups.sort_by(|a, b| {
                let pairs = a.keys.iter().zip(&b.keys).zip(&grouping.keys);
                pairs
                    .map(|((a, b), (_, by))| compare(*by, a, b))
                    .find(|ordering| *ordering != Ordering::Equal)
                    .unwrap_or(Ordering::Equal)
            });
        }
        Ok(groups
            .into_iter()
            .map(|group| self.finished(group, grouping))
            .collect())
    }

    /// What an aggregate keeps of a row; `None` if the row does not count.
    pub(super) fn sample(
        &mut self,
        aggregate: &Aggregate,
        frame: &Frame<'_>,
    ) -> Result<Option<Sample>, Stop> {
        if let Some(filter) = &aggregate.filter
            && !test(filter, frame, self)?
        {
            return Ok(None);
        }
        let args = self.values(&aggregate.args, frame)?;
        let counted = match aggregate.kind {
            AggregateKind::Count => args.iter().all(|arg| !arg.is_null()),
            _ => args.first().is_some_and(|arg| !arg.is_null()),
        };
        if !counted {
            return Ok(None);
        }
        let mut order = Vec::new();
        for key in &aggregate.order {
            if let SortBy::Expr(by) = &key.by {
                order.push(eval(by, frame, self)?);
            }
        }
        Ok(Some(Sample { args, order }))
    }

    fn finished(&self, group: Group, grouping: &Grouping) -> Vec<Value> {
        let mut values = group.keys;
        let mut results: Vec<Value> = Vec::new();
        for (i, aggregate) in grouping.aggregates.iter().enumerate() {
            results.push(self.aggregate(aggregate, group.samples[i].clone()));
        }
        let row = match grouping.representative {
            Representative::First => group.firsts.first(),
            Representative::Last => group.firsts.last(),
            Representative::Extreme(i) => {
                let aggregate = &grouping.aggregates[i];
                let at = group.samples[i]
                    .iter()
                    .position(|s| compare(aggregate.by, &s.args[0], &results[i]).is_eq());
                // Rows whose value is NULL are not sampled; they come into play only if all are.
                match at {
                    Some(at) => self.row_of_sample(&group.firsts, &group.samples[i], at),
                    None => group.firsts.last(),
                }
            }
        };
        for (i, aggregate) in grouping.aggregates.iter().enumerate() {
            if aggregate.kind == AggregateKind::First {
                results[i] = row.map_or(Value::Null, |row| row[i].clone());
            }
        }
        values.extend(results);
        values
    }

    /// The row that gave a sample: as many rows as samples unless NULLs were left out.
    fn row_of_sample<'g>(
        &self,
        firsts: &'g [Vec<Value>],
        samples: &[Sample],
        at: usize,
    ) -> Option<&'g Vec<Value>> {
        match firsts.len() == samples.len() {
            true => firsts.get(at),
            false => firsts.get(firsts.len() - samples.len() + at),
        }
    }

    /// The value of an aggregate over what it counts.
    pub(super) fn aggregate(&self, aggregate: &Aggregate, mut samples: Vec<Sample>) -> Value {
        if aggregate.distinct {
            let mut kept: Vec<Sample> = Vec::new();
            for sample in samples {
                let same = |other: &Sample| {
                    let mut pairs = other.args.iter().zip(&sample.args);
                    pairs.all(|(a, b)| compare(aggregate.by, a, b).is_eq())
                };
                if !kept.iter().any(same) {
                    kept.push(sample);
                }
            }
            samples = kept;
        }
        if !aggregate.order.is_empty() {
            samples.sort_by(|a, b| {
                let keys = aggregate.order.iter().zip(a.order.iter().zip(&b.order));
                keys.map(|(key, (a, b))| compare_key(key, a, b))
                    .find(|ordering| *ordering != Ordering::Equal)
                    .unwrap_or(Ordering::Equal)
            });
        }
        let first = |sample: &Sample| sample.args[0].clone();
        match aggregate.kind {
            AggregateKind::Count => Value::Int(samples.len() as i64),
            AggregateKind::Total => Value::Float(
                samples
                    .iter()
                    .fold(0.0, |sum, s| sum + as_float(&s.args[0])),
            ),
            AggregateKind::Sum => self.sum(aggregate.numbers, &samples),
            AggregateKind::Avg => average(aggregate.numbers, &samples),
            AggregateKind::Min => extreme(&samples, aggregate, Ordering::Less),
            AggregateKind::Max => extreme(&samples, aggregate, Ordering::Greater),
            AggregateKind::First => samples.first().map_or(Value::Null, first),
            AggregateKind::GroupConcat => self.concat(&samples),
        }
    }

    fn sum(&self, numbers: Numbers, samples: &[Sample]) -> Value {
        if samples.is_empty() {
            return Value::Null;
        }
        let values = samples.iter().map(|sample| &sample.args[0]);
        match numbers {
            Numbers::Dynamic => {
                let ints: Option<i64> = values.clone().try_fold(0_i64, |sum, value| match value {
                    Value::Int(i) => sum.checked_add(*i),
                    // A text that is an integer counts as one.
                    Value::Text(text) => match number_of_text(text) {
                        (Value::Int(i), true) => sum.checked_add(i),
                        _ => None,
                    },
                    _ => None,
                });
                match ints {
                    Some(sum) => Value::Int(sum),
                    None => Value::Float(values.map(as_float).sum()),
                }
            }
            Numbers::Double => Value::Float(values.map(as_float).sum()),
            Numbers::Decimal { scale } => {
                let sum: Decimal = values.map(as_decimal).sum();
                Value::Decimal(round_decimal(sum, scale))
            }
            Numbers::Int | Numbers::Unsigned => {
                let sum: Decimal = values.map(as_decimal).sum();
                Value::Decimal(round_decimal(sum, 0))
            }
        }
    }

    fn concat(&self, samples: &[Sample]) -> Value {
        let text = |value: &Value| match self.dialect {
            Dialect::Sqlite => sqlite_text(value),
            _ => mysql_text(value),
        };
        let mut out = String::new();
        for (i, sample) in samples.iter().enumerate() {
            if i > 0
                && let Some(separator) = sample.args.get(1)
            {
                out.push_str(&text(separator));
            }
            out.push_str(&text(&sample.args[0]));
        }
        match samples.is_empty() {
            true => Value::Null,
            false => Value::text(out),
        }
    }
}

fn average(numbers: Numbers, samples: &[Sample]) -> Value {
    if samples.is_empty() {
        return Value::Null;
    }
    let values = samples.iter().map(|sample| &sample.args[0]);
    match numbers {
        Numbers::Decimal { scale } => {
            let sum: Decimal = values.map(as_decimal).sum();
            Value::Decimal(round_decimal(sum / Decimal::from(samples.len()), scale))
        }
        _ => Value::Float(values.map(as_float).sum::<f64>() / samples.len() as f64),
    }
}

fn extreme(samples: &[Sample], aggregate: &Aggregate, wanted: Ordering) -> Value {
    let mut best: Option<&Value> = None;
    for sample in samples {
        let value = &sample.args[0];
        if best.is_none_or(|best| compare(aggregate.by, value, best) == wanted) {
            best = Some(value);
        }
    }
    best.cloned().unwrap_or(Value::Null)
}
