//! The properties that the claim forms promise, as monitors of what the library tells.
//!
//! The library tells its host what it holds (`claimed`, `extended`, `settled`, `lost`, `left`; see
//! [`rowlock_model::claim`]); these monitors follow that. A process that crashes holds nothing any
//! more. The rows of a claim are known by their ids, so one table a scenario.

use rowlock_model::Value;
use rowlock_model::claim::promise;
use rowlock_model::guard::promise as guarded;
use rowlock_model::schedule::{Choice, ProcessId};

use crate::explore::{Inspect, Monitor, Remark, Seen, What};

/// A note of the library by a process.
struct Told<'a> {
    process: ProcessId,
    name: &'a str,
    id: &'a Value,
    values: &'a [Value],
}

fn told<'a>(seen: &Seen<'a>) -> Option<Told<'a>> {
    let What::Note { name, values } = seen.what else {
        return None;
    };
    Some(Told {
        process: seen.process?,
        name,
        id: values.first()?,
        values,
    })
}

fn crashed(seen: &Seen<'_>) -> Option<ProcessId> {
    match (seen.choice, seen.what) {
        (Choice::Crash(process), What::Other) => Some(process),
        _ => None,
    }
}

/// A row in work, as its holder knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    process: ProcessId,
    id: Value,
    /// The end of its lease; `None`: while its connection lives.
    until_micros: Option<i64>,
}

/// No row is claimed while a process that lives holds it: in the lease form, while the lease runs
/// by the clock of the claimer.
///
/// A handler that outlives its lease holds nothing; a claimer whose clock is fast enough takes a row
/// before its holder extends the lease, which is the limit of what host clocks can promise.
#[derive(Clone, Copy, Debug)]
pub struct OneLiveHolder;

impl Monitor for OneLiveHolder {
    type State = Vec<Hold>;

    fn name(&self) -> &str {
        promise::ONE_LIVE_HOLDER
    }

    fn start(&self) -> Vec<Hold> {
        Vec::new()
    }

    fn see(&self, holds: &mut Vec<Hold>, seen: &Seen<'_>, _db: &mut Inspect<'_>) -> Remark {
        if let Some(process) = crashed(seen) {
            holds.retain(|hold| hold.process != process);
        }
        let Some(told) = told(seen) else {
            return Remark::Fine;
        };
        let own = |hold: &Hold| hold.process == told.process && hold.id == *told.id;
        match told.name {
            "claimed" => {
                let until_micros = told.values.get(2).and_then(Value::as_int);
                let now = told.values.get(3).and_then(Value::as_int);
                let runs = |hold: &Hold| match (hold.until_micros, now) {
                    (Some(until), Some(now)) => until > now,
                    _ => true,
                };
                let other = |hold: &&Hold| hold.id == *told.id && !own(hold) && runs(hold);
                let held = holds.iter().any(|hold| other(&hold));
                holds.retain(|hold| hold.id != *told.id);
                holds.push(Hold {
                    process: told.process,
                    id: told.id.clone(),
                    until_micros,
                });
                holds.sort_by_cached_key(|hold| (hold.process, hold.id.to_string()));
                if held {
                    return Remark::Violated(format!(
                        "{} claims row {} while somebody else holds it",
                        seen.name, told.id
                    ));
                }
            }
            "extended" => {
                let until = told.values.get(1).and_then(Value::as_int);
                for hold in holds.iter_mut().filter(|hold| own(hold)) {
                    hold.until_micros = until;
                }
            }
            "settled" | "lost" | "left" => holds.retain(|hold| !own(hold)),
            _ => {}
        }
        Remark::Fine
    }
}

/// A settlement that takes effect is that of the process that claimed the row last.
#[derive(Clone, Copy, Debug)]
pub struct OnlyTheHolderSettles;

impl Monitor for OnlyTheHolderSettles {
    /// Of each row, who claimed it last.
    type State = Vec<(Value, ProcessId)>;

    fn name(&self) -> &str {
        promise::ONLY_THE_HOLDER_SETTLES
    }

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn see(&self, last: &mut Self::State, seen: &Seen<'_>, _db: &mut Inspect<'_>) -> Remark {
        let Some(told) = told(seen) else {
            return Remark::Fine;
        };
        match told.name {
            "claimed" => {
                last.retain(|(id, _)| id != told.id);
                last.push((told.id.clone(), told.process));
                last.sort_by_cached_key(|(id, _)| id.to_string());
                Remark::Fine
            }
            "settled" => match last.iter().find(|(id, _)| id == told.id) {
                Some((_, holder)) if *holder != told.process => Remark::Violated(format!(
                    "{} settles row {}, which somebody else has claimed since",
                    seen.name, told.id
                )),
                _ => Remark::Fine,
            },
            _ => Remark::Fine,
        }
    }
}

/// No row is finished twice.
#[derive(Clone, Copy, Debug)]
pub struct SettledOnce;

impl Monitor for SettledOnce {
    /// The rows that are finished.
    type State = Vec<Value>;

    fn name(&self) -> &str {
        promise::SETTLED_ONCE
    }

    fn start(&self) -> Vec<Value> {
        Vec::new()
    }

    fn see(&self, finished: &mut Vec<Value>, seen: &Seen<'_>, _db: &mut Inspect<'_>) -> Remark {
        let Some(told) = told(seen).filter(|told| told.name == "settled") else {
            return Remark::Fine;
        };
        let kind = told.values.get(1).and_then(Value::as_str);
        if !matches!(kind, Some("ack" | "drop" | "dead-letter")) {
            return Remark::Fine;
        }
        if finished.contains(told.id) {
            return Remark::Violated(format!("{} finishes row {} again", seen.name, told.id));
        }
        finished.push(told.id.clone());
        finished.sort_by_cached_key(Value::to_string);
        Remark::Fine
    }
}

/// How often each row was delivered, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deliveries {
    /// Of each row, how often its attempt has been counted.
    counts: Vec<(Value, i64)>,
    /// Crashes and lost connections: each may have hidden one statement that counts.
    hidden: i64,
}

impl Deliveries {
    fn count(&mut self, id: &Value) {
        match self.counts.iter_mut().find(|(known, _)| known == id) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((id.clone(), 1)),
        }
        self.counts.sort_by_cached_key(|(id, _)| id.to_string());
    }

    /// Notes faults that may hide a statement.
    fn note_faults(&mut self, seen: &Seen<'_>) {
        if let (Choice::Crash(_) | Choice::Lose(..), What::Other | What::Statement { .. }) =
            (seen.choice, seen.what)
        {
            self.hidden += 1;
        }
    }

    /// Compares the attempt that a claim read with what was counted.
    fn compare(&self, told: &Told<'_>, name: &str) -> Remark {
        let Some(attempt) = told.values.get(1).and_then(Value::as_int) else {
            return Remark::Fine;
        };
        let count = self.counts.iter().find(|(id, _)| id == told.id);
        let expected = count.map_or(1, |(_, count)| count + 1);
        if (expected..=expected + self.hidden).contains(&attempt) {
            return Remark::Fine;
        }
        Remark::Violated(format!(
            "{name} reads attempt {attempt} of row {}, delivery {expected}",
            told.id
        ))
    }
}

/// Lease form: the first delivery reads attempt 1, and each claim adds one, crashes included.
#[derive(Clone, Copy, Debug)]
pub struct EveryClaimCounts;

impl Monitor for EveryClaimCounts {
    type State = Deliveries;

    fn name(&self) -> &str {
        promise::ATTEMPTS_ARE_COUNTED
    }

    fn start(&self) -> Deliveries {
        Deliveries::default()
    }

    fn see(&self, state: &mut Deliveries, seen: &Seen<'_>, _db: &mut Inspect<'_>) -> Remark {
        state.note_faults(seen);
        let Some(told) = told(seen).filter(|told| told.name == "claimed") else {
            return Remark::Fine;
        };
        let remark = state.compare(&told, seen.name);
        state.count(told.id);
        remark
    }
}

/// Row-lock form: the first delivery reads attempt 1, and each retry adds one; a crash adds nothing.
#[derive(Clone, Copy, Debug)]
pub struct EveryRetryCounts;

impl Monitor for EveryRetryCounts {
    type State = Deliveries;

    fn name(&self) -> &str {
        promise::ATTEMPTS_ARE_COUNTED
    }

    fn start(&self) -> Deliveries {
        Deliveries::default()
    }

    fn see(&self, state: &mut Deliveries, seen: &Seen<'_>, _db: &mut Inspect<'_>) -> Remark {
        state.note_faults(seen);
        let Some(told) = told(seen) else {
            return Remark::Fine;
        };
        match (told.name, told.values.get(1).and_then(Value::as_str)) {
            ("claimed", _) => state.compare(&told, seen.name),
            ("settled", Some("retry" | "retry-after")) => {
                state.count(told.id);
                Remark::Fine
            }
            _ => Remark::Fine,
        }
    }
}

/// What a process that tells without naming a row told: its name.
fn announced<'a>(seen: &Seen<'a>) -> Option<(ProcessId, &'a str)> {
    match seen.what {
        What::Note { name, .. } => Some((seen.process?, name)),
        _ => None,
    }
}

/// While sessions live, at most one process is between the acquisition and the release of a guard.
/// One configuration a scenario.
#[derive(Clone, Copy, Debug)]
pub struct OneWriter;

impl Monitor for OneWriter {
    /// Who is inside.
    type State = Vec<ProcessId>;

    fn name(&self) -> &str {
        guarded::ONE_WRITER
    }

    fn start(&self) -> Vec<ProcessId> {
        Vec::new()
    }

    fn see(&self, inside: &mut Self::State, seen: &Seen<'_>, _db: &mut Inspect<'_>) -> Remark {
        if let Some(process) = crashed(seen) {
            inside.retain(|other| *other != process);
        }
        match announced(seen) {
            Some((process, "guarded")) => {
                inside.push(process);
                inside.sort();
                if inside.len() > 1 {
                    return Remark::Violated(format!(
                        "{} has the guard while somebody else works under it",
                        seen.name
                    ));
                }
            }
            Some((process, "unguarded")) => inside.retain(|other| *other != process),
            _ => {}
        }
        Remark::Fine
    }
}

/// A run that reports success was not overlapped by another holder of the guard: whoever lost it on
/// the way does not succeed.
#[derive(Clone, Copy, Debug)]
pub struct SuccessWasAlone;

impl Monitor for SuccessWasAlone {
    /// Who is inside, and whether somebody else came in since.
    type State = Vec<(ProcessId, bool)>;

    fn name(&self) -> &str {
        guarded::SUCCESS_WAS_ALONE
    }

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn see(&self, inside: &mut Self::State, seen: &Seen<'_>, _db: &mut Inspect<'_>) -> Remark {
        if let Some(process) = crashed(seen) {
            inside.retain(|(other, _)| *other != process);
        }
        match announced(seen) {
            Some((process, "guarded")) => {
                for (_, overlapped) in inside.iter_mut() {
                    *overlapped = true;
                }
                inside.push((process, false));
                inside.sort();
            }
            Some((process, "success")) if inside.contains(&(process, true)) => {
                return Remark::Violated(format!(
                    "{} reports success, and somebody else had the guard meanwhile",
                    seen.name
                ));
            }
            Some((process, "unguarded")) => inside.retain(|(other, _)| *other != process),
            _ => {}
        }
        Remark::Fine
    }
}
