//! Numbers that a server gives by itself: the same session has another process id on another server.
//! They are compared by what they stand for. The first time that one shows, it is paired with what
//! the other side shows in its place; from then on each stands for the other, and for nothing else.

use rowlock_model::schedule::Event;
use rowlock_model::{Outcome, Value};

use crate::stage::Numbered;

/// Pairs of numbers that stand for the same thing.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// Those of the simulator: only these are compared in this way.
    known: Vec<(Numbered, i64)>,
    /// What each of them is on the other side.
    pairs: Vec<(Numbered, i64, i64)>,
}

impl Numbers {
    pub(super) fn of(known: &[(Numbered, i64)]) -> Numbers {
        Numbers {
            known: known.to_vec(),
            pairs: Vec::new(),
        }
    }

    fn kind(&self, number: i64) -> Option<Numbered> {
        let mut known = self.known.iter();
        known.find(|(_, n)| *n == number).map(|(kind, _)| *kind)
    }

    /// Whether two values are the same, or stand for the same. Makes a pair of numbers that were not
    /// seen before.
    pub(super) fn agree(&mut self, expected: &Value, got: &Value) -> bool {
        match (expected, got) {
            (Value::Int(e), Value::Int(g)) => match self.kind(*e) {
                Some(kind) => self.agree_numbers(kind, *e, *g),
                None => e == g,
            },
            (Value::Array(e), Value::Array(g)) => {
                e.len() == g.len() && e.iter().zip(g.iter()).all(|(e, g)| self.agree(e, g))
            }
            _ => expected == got,
        }
    }

    fn agree_numbers(&mut self, kind: Numbered, expected: i64, got: i64) -> bool {
        let mut pairs = self.pairs.iter();
        match pairs.find(|(k, e, g)| *k == kind && (*e == expected || *g == got)) {
            Some((_, e, g)) => (*e, *g) == (expected, got),
            None => {
                self.pairs.push((kind, expected, got));
                true
            }
        }
    }

    /// An argument as the other side has to get it.
    ///
    /// # Errors
    /// A number that no reply has shown yet: what it is on the other side is not known.
    pub(super) fn translate(&self, value: &Value) -> Result<Value, i64> {
        Ok(match value {
            Value::Int(number) if self.kind(*number).is_some() => {
                let pair = self.pairs.iter().find(|(_, e, _)| e == number);
                Value::Int(pair.ok_or(*number)?.2)
            }
            Value::Array(items) => {
                let items: Result<Vec<Value>, i64> =
                    items.iter().map(|item| self.translate(item)).collect();
                Value::Array(items?.into())
            }
            value => value.clone(),
        })
    }
}

/// The numbers among the arguments and replies of a schedule that `numbered` knows, ascending.
pub fn numbers_in<'a>(
    events: impl IntoIterator<Item = &'a Event>,
    numbered: impl Fn(i64) -> Option<Numbered>,
) -> Vec<(Numbered, i64)> {
    let mut found = Vec::new();
    for event in events {
        if let Some(statement) = &event.statement {
            statement
                .args
                .iter()
                .for_each(|v| collect(v, &numbered, &mut found));
        }
        if let Some(Outcome::Done(reply)) = &event.outcome {
            let values = reply.rows.iter().flat_map(|row| row.iter());
            values.for_each(|value| collect(value, &numbered, &mut found));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn collect(
    value: &Value,
    numbered: &impl Fn(i64) -> Option<Numbered>,
    found: &mut Vec<(Numbered, i64)>,
) {
    match value {
        Value::Int(number) => found.extend(numbered(*number).map(|kind| (kind, *number))),
        Value::Array(items) => items.iter().for_each(|item| collect(item, numbered, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Numbers {
        Numbers::of(&[
            (Numbered::Process, 101),
            (Numbered::Process, 102),
            (Numbered::Transaction, 7),
        ])
    }

    fn agree(numbers: &mut Numbers, expected: i64, got: i64) -> bool {
        numbers.agree(&Value::Int(expected), &Value::Int(got))
    }

    #[test]
    fn a_number_stands_for_one_other_in_both_directions() {
        let mut numbers = numbers();
        assert!(agree(&mut numbers, 101, 5001));
        assert!(agree(&mut numbers, 101, 5001));
        assert!(
            !agree(&mut numbers, 101, 5002),
            "one session, two process ids"
        );
        assert!(
            !agree(&mut numbers, 102, 5001),
            "two sessions, one process id"
        );
        assert!(agree(&mut numbers, 102, 5002));
    }

    #[test]
    fn kinds_are_apart_and_other_values_are_compared_as_they_are() {
        let mut numbers = numbers();
        assert!(agree(&mut numbers, 101, 7));
        assert!(agree(&mut numbers, 7, 7));
        assert!(!agree(&mut numbers, 3, 4));
        let list = |items: [i64; 2]| Value::Array(items.map(Value::Int).to_vec().into());
        assert!(numbers.agree(&list([101, 1]), &list([7, 1])));
        assert!(!numbers.agree(&list([101, 1]), &list([8, 1])));
    }

    #[test]
    fn arguments_are_those_of_the_other_side() {
        let mut numbers = numbers();
        assert_eq!(numbers.translate(&Value::Int(101)), Err(101));
        assert!(agree(&mut numbers, 101, 5001));
        assert_eq!(numbers.translate(&Value::Int(101)), Ok(Value::Int(5001)));
        assert_eq!(numbers.translate(&Value::Int(5)), Ok(Value::Int(5)));
    }
}
