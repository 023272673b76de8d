//! The same schedule on two stages: the first difference between them.

use rowlock_model::Outcome;
use rowlock_model::schedule::Event;

use super::branch::allowed;
use super::compare::{describe, same};
use super::numbers::Numbers;
use super::{Replay, ReplayError, Script, run};
use crate::stage::Stage;

/// How two stages agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Both show the same.
    Same,
    /// The second takes a branch that the first allows, but does not take by itself.
    OtherBranch,
    /// No branch of the first shows what the second shows.
    Differs,
}

/// A schedule on two stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The run on the first stage: in the branch that the second took, or nearest to it.
    pub left: Replay,
    /// The run on the second stage.
    pub right: Replay,
    /// How they agree.
    pub agreement: Agreement,
    /// How many branches of the first were run.
    pub branches: u32,
    /// Where they first differ.
    pub difference: Option<Difference>,
}

/// The first difference between two runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the step; `None` if it is a query at the end.
    pub step: Option<usize>,
    /// What the first stage shows.
    pub left: String,
    /// What the second stage shows.
    pub right: String,
}

/// Runs a schedule on both stages, whatever it expects, and compares them step by step: every
/// outcome, who went on, and who waits for whom. If the first is simulated, every branch that it
/// allows is tried.
///
/// # Errors
/// One of the stages failed, or the schedule cannot be run there.
pub fn mirror(
    left: &mut dyn Stage,
    right: &mut dyn Stage,
    script: Script<'_>,
) -> Result<Mirror, ReplayError> {
    let right = run(right, script, false)?;
    let allowed = allowed(left, script, &right, true)?;
    let agreement = match (&allowed.difference, allowed.other_branch) {
        (Some(_), _) => Agreement::Differs,
        (None, true) => Agreement::OtherBranch,
        (None, false) => Agreement::Same,
    };
    Ok(Mirror {
        left: allowed.simulated,
        right,
        agreement,
        branches: allowed.branches,
        difference: allowed.difference,
    })
}

pub(super) fn difference(left: &Replay, right: &Replay) -> Option<Difference> {
    let mut numbers = Numbers::of(&left.numbers);
    for (index, (l, r)) in left.steps.iter().zip(&right.steps).enumerate() {
        let waiting = |step: &super::Step| {
            let pairs = step.waiting.iter();
            pairs
                .map(|w| format!("{} waits for {}", w.session, w.blockers.join(", ")))
                .collect::<Vec<_>>()
        };
        let (l_events, r_events) = (in_order(&l.events), in_order(&r.events));
        let outcomes = l_events.len() == r_events.len()
            && l_events
                .iter()
                .zip(&r_events)
                .all(|(l, r)| same_event(l, r, &mut numbers));
        let (l_waiting, r_waiting) = (waiting(l), waiting(r));
        if !outcomes || l_waiting != r_waiting {
            let text = |events: &[&Event], other: &[&Event], waiting: &[String]| {
                let nothing = Outcome::Waits(Vec::new());
                let mut parts: Vec<String> = events
                    .iter()
                    .enumerate()
                    .filter_map(|(i, event)| {
                        let against = other.get(i).and_then(|e| e.outcome.as_ref());
                        let outcome = event.outcome.as_ref()?;
                        let outcome = describe(outcome, against.unwrap_or(&nothing));
                        Some(format!("{} {outcome}", event.actor).trim_start().to_owned())
                    })
                    .collect();
                parts.extend_from_slice(waiting);
                match parts.is_empty() {
                    true => "nothing".to_owned(),
                    false => parts.join("; "),
                }
            };
            return Some(Difference {
                step: Some(index),
                left: text(&l_events, &r_events, &l_waiting),
                right: text(&r_events, &l_events, &r_waiting),
            });
        }
    }
    if left.steps.len() != right.steps.len() || left.ended != right.ended {
        let text = |run: &Replay| match &run.ended {
            Some(why) => why.clone(),
            None => format!("{} steps", run.steps.len()),
        };
        return Some(Difference {
            step: Some(left.steps.len().min(right.steps.len())),
            left: text(left),
            right: text(right),
        });
    }
    let finals = left.finals.iter().zip(&right.finals);
    let mut different =
        finals.filter(|(l, r)| l.got != r.got && !same(&l.outcome, &r.outcome, &mut numbers));
    different.next().map(|(l, r)| Difference {
        step: None,
        left: l.got.clone(),
        right: r.got.clone(),
    })
}

/// The event itself, then those who went on by their labels: the order among them is not compared.
fn in_order(events: &[Event]) -> Vec<&Event> {
    let mut ordered: Vec<&Event> = events.iter().collect();
    if let Some((_, others)) = ordered.split_first_mut() {
        others.sort_by(|l, r| l.actor.cmp(&r.actor));
    }
    ordered
}

fn same_event(left: &Event, right: &Event, numbers: &mut Numbers) -> bool {
    let outcomes = match (&left.outcome, &right.outcome) {
        (Some(left), Some(right)) => same(left, right, numbers),
        (left, right) => left.is_none() && right.is_none(),
    };
    left.actor == right.actor && left.step == right.step && outcomes
}
