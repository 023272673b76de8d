//! Accumulating aggregates.

use std::cmp::Ordering;

use rowlock_model::{DbError, Value};
use rust_decimal::Decimal;

use super::compare::{order, sort_order};
use super::{Aggregate, AggregateFunction, Comparison};
use crate::plan::types::{Type, number};

/// The state of one aggregate over one group.
#[derive(Clone, Debug)]
pub struct Accumulator {
    state: State,
    /// With `DISTINCT`: the arguments seen, to be sorted and thinned at the end.
    distinct: Option<Vec<Vec<Value>>>,
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    Int(Option<i64>),
    Decimal(Option<Decimal>, i64),
    Float(Option<f64>, i64),
    Interval(Option<(i32, i32, i64)>),
    Extreme(Option<Value>),
    Bool(Option<bool>),
    Text(Option<String>),
    Items(Option<Vec<Value>>),
}

impl Accumulator {
    /// Of no rows.
    pub fn new(aggregate: &Aggregate) -> Accumulator {
        use AggregateFunction as F;
        let state = match aggregate.function {
            F::CountRows | F::Count => State::Count(0),
            F::SumInt => State::Int(None),
            F::SumNumeric | F::AvgNumeric => State::Decimal(None, 0),
            F::SumFloat | F::AvgFloat => State::Float(None, 0),
            F::SumInterval => State::Interval(None),
            F::Min | F::Max => State::Extreme(None),
            F::BoolAnd | F::BoolOr => State::Bool(None),
            F::StringAgg => State::Text(None),
            F::ArrayAgg | F::JsonAgg { .. } => State::Items(None),
        };
        Accumulator {
            state,
            distinct: aggregate.distinct.then(Vec::new),
        }
    }

    /// Takes one row in: the values of the arguments. The caller has applied `FILTER`, and gives
    /// rows in the order of [`Aggregate::sort`]; `DISTINCT` is handled here.
    ///
    /// # Errors
    /// 22003 and what else the aggregate raises.
    pub fn add(&mut self, aggregate: &Aggregate, args: &[Value]) -> Result<(), DbError> {
        match &mut self.distinct {
            Some(seen) => {
                seen.push(args.to_vec());
                Ok(())
            }
            None => take(&mut self.state, aggregate, args),
        }
    }

    /// The aggregate's value.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn finish(mut self, aggregate: &Aggregate) -> Result<Value, DbError> {
        if let Some(mut rows) = self.distinct.take() {
            if aggregate.sort.is_empty() {
                rows.sort_by(|a, b| row_order(a, b, &aggregate.by));
            }
            rows.dedup_by(|a, b| row_order(a, b, &aggregate.by) == Ordering::Equal);
            for row in rows {
                take(&mut self.state, aggregate, &row)?;
            }
        }
        result(self.state, aggregate)
    }
}

fn row_order(a: &[Value], b: &[Value], by: &Comparison) -> Ordering {
    a.iter()
        .zip(b)
        .map(|(x, y)| sort_order(x, y, by, false, false))
        .find(|o| *o != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
}

/// An integer or numeric argument as a decimal.
fn decimal(value: &Value) -> Decimal {
    match value {
        Value::Int(i) => Decimal::from(*i),
        Value::Decimal(d) => *d,
        other => panic!("a numeric aggregate got {other:?}"),
    }
}

fn take(state: &mut State, aggregate: &Aggregate, args: &[Value]) -> Result<(), DbError> {
    let function = aggregate.function;
    let first = args.first().unwrap_or(&Value::Null);
    let keeps_nulls = matches!(
        function,
        AggregateFunction::CountRows
            | AggregateFunction::ArrayAgg
            | AggregateFunction::JsonAgg { .. }
    );
    if first.is_null() && !keeps_nulls {
        return Ok(());
    }
    match state {
        State::Count(n) => *n += 1,
        State::Int(sum) => {
            let x = first.as_int().unwrap_or(0);
            *sum = Some(number::checked(
                sum.unwrap_or(0).checked_add(x),
                Type::Int8,
            )?);
        }
        State::Decimal(sum, n) => {
            let x = decimal(first);
            *sum = Some(match sum {
                Some(s) => number::add(s, &x)?,
                None => x,
            });
            *n += 1;
        }
        State::Float(sum, n) => {
            let Value::Float(x) = first else {
                panic!("a float aggregate got {first:?}")
            };
            *sum = Some(sum.unwrap_or(0.0) + x);
            *n += 1;
        }
        State::Interval(sum) => {
            let Value::Interval {
                months,
                days,
                micros,
            } = first
            else {
                panic!("an interval aggregate got {first:?}")
            };
            let (m, d, u) = sum.unwrap_or((0, 0, 0));
            *sum = Some((m + months, d + days, u + micros));
        }
        State::Extreme(best) => {
            let better = best.as_ref().is_none_or(|b| {
                let wanted = if function == AggregateFunction::Min {
                    Ordering::Less
                } else {
                    Ordering::Greater
                };
                order(first, b, &aggregate.by) == wanted
            });
            if better {
                *best = Some(first.clone());
            }
        }
        State::Bool(all) => {
            let x = first.as_bool().unwrap_or(false);
            *all = Some(match (function, *all) {
                (_, None) => x,
                (AggregateFunction::BoolAnd, Some(y)) => x && y,
                (_, Some(y)) => x || y,
            });
        }
        State::Text(joined) => {
            let x = first.as_str().unwrap_or("");
            match joined {
                Some(text) => {
                    text.push_str(args.get(1).and_then(Value::as_str).unwrap_or(""));
                    text.push_str(x);
                }
                None => *joined = Some(x.to_owned()),
            }
        }
        State::Items(items) => items.get_or_insert_default().push(first.clone()),
    }
    Ok(())
}

fn result(state: State, aggregate: &Aggregate) -> Result<Value, DbError> {
    let average = matches!(
        aggregate.function,
        AggregateFunction::AvgNumeric | AggregateFunction::AvgFloat
    );
    Ok(match state {
        State::Count(n) => Value::Int(n),
        State::Int(sum) => sum.map_or(Value::Null, Value::Int),
        State::Decimal(None, _) | State::Float(None, _) => Value::Null,
        State::Decimal(Some(sum), n) if average => {
            Value::Decimal(number::divide(&sum, &Decimal::from(n))?)
        }
        State::Decimal(Some(sum), _) => Value::Decimal(sum),
        State::Float(Some(sum), n) if average => Value::Float(sum / n as f64),
        State::Float(Some(sum), _) => Value::Float(sum),
        State::Interval(sum) => sum.map_or(Value::Null, |(months, days, micros)| Value::Interval {
            months,
            days,
            micros,
        }),
        State::Extreme(best) => best.unwrap_or(Value::Null),
        State::Bool(all) => all.map_or(Value::Null, Value::Bool),
        State::Text(joined) => joined.map_or(Value::Null, Value::text),
        State::Items(None) => Value::Null,
        State::Items(Some(items)) => match aggregate.function {
            AggregateFunction::JsonAgg { binary, rows } => json_array(&items, binary, rows),
            _ => Value::Array(items.into()),
        },
    })
}

/// The array of already converted values, as `jsonb` or as the text that `json_agg` makes.
fn json_array(items: &[Value], binary: bool, rows: bool) -> Value {
    let separator = if rows && !binary { ", \n " } else { ", " };
    let items: Vec<&str> = items.iter().map(|i| i.as_str().unwrap_or("null")).collect();
    Value::text(format!("[{}]", items.join(separator)))
}
