//! Running one sequence of choices, and writing down what each of them did.

use rowlock_model::schedule::{Choice, Event, Schedule, Statement};
use rowlock_model::{Outcome, Reply};

use super::check::{Checks, End};
use super::error::ExploreError;
use super::world::{Flaw, World};
use crate::database::{Answer, Database};
use crate::host::Ask;

/// A schedule that was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The events with statements and outcomes, up to the first violation.
    pub schedule: Schedule,
    /// The property that does not hold, and what was seen.
    pub violation: Option<(String, String)>,
    /// The events that the violated monitor took note of.
    pub matters: Vec<usize>,
    /// Whether nothing was left to do at the end.
    pub over: bool,
}

impl<D: Database> World<D> {
    /// Runs `choices` from the present state, which is put back afterwards.
    pub(crate) fn replay(
        &mut self,
        checks: &mut Checks,
        choices: &[Choice],
    ) -> Result<Replayed, ExploreError> {
        let mark = self.mark();
        self.recording = true;
        let result = self.replay_from_here(checks, choices);
        self.recording = false;
        self.undo_to(mark);
        match result {
            Ok(replayed) => Ok(replayed),
            Err(Flaw::Error(error)) => Err(error),
            Err(Flaw::Unsupported(what)) => Err(ExploreError::Actor {
                process: String::new(),
                detail: what.to_string(),
            }),
            Err(Flaw::Violation { .. }) => unreachable!("violations are noted"),
        }
    }

    fn replay_from_here(
        &mut self,
        checks: &mut Checks,
        choices: &[Choice],
    ) -> Result<Replayed, Flaw> {
        let mut replayed = Replayed::default();
        let mut histories = vec![self.monitor_states.clone()];
        let mut enabled = Vec::new();
        let mut flaw = checks.state(self).err();
        for (at, choice) in choices.iter().enumerate() {
            if flaw.is_some() {
                break;
            }
            enabled.clear();
            self.choices(&mut enabled);
            if !is_enabled(*choice, &enabled) {
                return Err(Flaw::Error(ExploreError::Schedule {
                    number: at + 1,
                    event: self.describe(*choice),
                    possible: self.describe_all(&enabled),
                }));
            }
            flaw = self.apply(*choice).err();
            replayed.schedule.events.push(self.event(*choice));
            histories.push(self.monitor_states.clone());
            if flaw.is_none() {
                flaw = checks.state(self).err();
            }
        }
        let seen = flaw.is_some();
        if flaw.is_none() {
            enabled.clear();
            let work = self.choices(&mut enabled);
            if !work && !World::<D>::may_advance(&enabled) {
                match checks.end(self) {
                    Ok(end) => replayed.over = end == End::Over,
                    Err(found) => flaw = Some(found),
                }
            }
        }
        match flaw {
            None => {}
            Some(Flaw::Violation { property, detail }) => {
                replayed.matters = self.matters(&property, &histories, seen);
                replayed.violation = Some((property, detail));
            }
            Some(flaw) => return Err(flaw),
        }
        Ok(replayed)
    }

    /// The events at which the monitor of `property` changed its mind, and the last one if it is
    /// what the monitor has `seen` to violate the property.
    fn matters(&self, property: &str, histories: &[Vec<u32>], seen: bool) -> Vec<usize> {
        let is_anomaly = |g: &rowlock_model::Guarantee| g.name() == property;
        if let Some(history) = &self.history
            && rowlock_model::Guarantee::ANOMALIES.iter().any(is_anomaly)
        {
            return history.matters.clone();
        }
        let Some(monitor) = self.monitors.iter().position(|m| m.name() == property) else {
            return Vec::new();
        };
        let events = histories.len() - 1;
        (0..events)
            .filter(|at| {
                histories[*at][monitor] != histories[at + 1][monitor] || (seen && at + 1 == events)
            })
            .collect()
    }

    /// What the last choice did.
    fn event(&self, choice: Choice) -> Event {
        let happened = &self.happened;
        let session = happened.session.map(usize::from);
        let actor = match (choice, session, happened.process) {
            (Choice::Crash(_), _, Some(p)) | (_, None, Some(p)) => {
                self.actors[usize::from(p)].name.clone()
            }
            (_, Some(line), _) => self.session_name(line),
            (_, None, None) => "".into(),
        };
        let sent = matches!(choice, Choice::Step(..) | Choice::Lose(..));
        let asked = happened.request.and_then(|(node, at)| {
            let process = usize::from(happened.process?);
            let trie = &self.tries[self.actors[process].trie];
            Some(trie.node(node).ask(at).clone())
        });
        let statement = match asked.filter(|_| sent) {
            Some(Ask::Exec(_, sql, args)) => Some(Statement {
                sql,
                args: args.to_vec(),
                batch: false,
            }),
            Some(Ask::Batch(_, sql)) => Some(Statement {
                sql,
                args: Vec::new(),
                batch: true,
            }),
            Some(Ask::Connect | Ask::Sleep(_)) | None => None,
        };
        Event {
            choice,
            actor,
            step: self.label(happened),
            statement,
            outcome: self.outcome(session),
        }
    }

    fn outcome(&self, session: Option<usize>) -> Option<Outcome> {
        if self.happened.waits {
            return Some(Outcome::Waits(self.blockers(session?)));
        }
        if self.happened.pauses {
            let line = session?;
            let pauses = self.db.pauses();
            let pause = pauses.into_iter().find(|p| self.line_of(p.session) == line);
            return Some(Outcome::Pauses(pause.map_or(String::new(), |p| p.before)));
        }
        self.happened.answer.as_ref().map(outcome_of)
    }

    /// The names of the sessions that a session waits for, sorted.
    fn blockers(&self, line: usize) -> Vec<String> {
        let waits = self.db.waits();
        let wait = waits.iter().find(|wait| self.line_of(wait.session) == line);
        let mut names: Vec<String> = wait
            .map(|wait| wait.blockers.as_slice())
            .unwrap_or_default()
            .iter()
            .map(|session| self.session_name(self.line_of(*session)).to_string())
            .collect();
        names.sort();
        names
    }

    /// A choice for a person.
    pub(crate) fn describe(&self, choice: Choice) -> String {
        let process =
            |p: rowlock_model::schedule::ProcessId| match self.actors.get(usize::from(p.0)) {
                Some(actor) => actor.name.to_string(),
                None => format!("process {}", p.0),
            };
        let session = |s: rowlock_model::schedule::SessionId| match self.lines.get(usize::from(s.0))
        {
            Some(_) => self.session_name(usize::from(s.0)).to_string(),
            None => format!("session {}", s.0),
        };
        match choice {
            Choice::Step(p, r) => format!("{} request {}", process(p), r.0),
            Choice::Resume(s) => format!("{} resumes", session(s)),
            Choice::Continue(s) => format!("{} continues", session(s)),
            Choice::Route(s, backend) => {
                format!("{} is given server connection {}", session(s), backend + 1)
            }
            Choice::Deadlock(s) => format!("{} finds a deadlock", session(s)),
            Choice::Expire(s) => format!("a timer of {}", session(s)),
            Choice::Crash(p) => format!("{} crashes", process(p)),
            Choice::Notice(s) => format!("the server notices the end of {}", session(s)),
            Choice::Kill(s) => format!("{} is killed", session(s)),
            Choice::Lose(p, r, loss) => format!("{} request {} lost: {loss}", process(p), r.0),
            Choice::Late(s) => format!("the late statement of {}", session(s)),
            Choice::Advance(by) => format!("the clock moves by {by} us"),
            Choice::Cancel(p, r) => format!("{} request {} cancelled", process(p), r.0),
        }
    }

    fn describe_all(&self, choices: &[Choice]) -> String {
        match choices {
            [] => "nothing".to_owned(),
            _ => {
                let all: Vec<String> = choices.iter().map(|c| self.describe(*c)).collect();
                all.join(", ")
            }
        }
    }
}

/// Whether a schedule may make this choice: the clock may be moved by any amount.
fn is_enabled(choice: Choice, enabled: &[Choice]) -> bool {
    match choice {
        Choice::Advance(by) => by > 0 && enabled.iter().any(|c| matches!(c, Choice::Advance(_))),
        choice => enabled.contains(&choice),
    }
}

/// The answer as schedules write it: of a script, its error or its last reply.
pub(super) fn outcome_of(answer: &Answer) -> Outcome {
    match answer {
        Answer::Exec(result) => Outcome::of(result),
        Answer::Batch(Err(error)) => Outcome::Failed(error.clone()),
        Answer::Batch(Ok(batch)) => match (&batch.error, batch.replies.last()) {
            (Some(error), _) => Outcome::Failed(error.clone()),
            (None, Some(reply)) => Outcome::Done(reply.clone()),
            (None, None) => Outcome::Done(Reply::default()),
        },
    }
}
