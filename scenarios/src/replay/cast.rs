//! The sessions of a run on a stage: who is open, who is busy with what, whose answer has come.

use std::sync::Arc;
use std::time::Duration;

use rowlock_model::schedule::{Loss, SessionId, Statement};
use rowlock_model::{Batch, DbError, Isolation, Outcome, Reply};

use super::{ReplayError, Waiting};
use crate::stage::{Answer, Completion, PausePlan, Paused, Stage};

/// A session as a schedule names it.
pub(super) struct Member {
    pub(super) label: String,
    pub(super) process: usize,
    isolation: Isolation,
    connect: Option<Arc<str>>,
    /// The open session; `None` before it is opened, and after its client knows it to be lost.
    id: Option<SessionId>,
    /// What it is busy with.
    busy: Option<Sent>,
    /// A statement that the client believes lost and that has not run yet.
    held: Option<Sent>,
    /// Nobody listens to its answers any more.
    deaf: bool,
}

/// A statement on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The name of the step.
    pub(super) step: Option<Arc<str>>,
    /// Index of the step in its program, for pinned schedules.
    pub(super) index: usize,
    pub(super) statement: Statement,
}

/// An answer that came.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// Index of the member.
    pub(super) member: usize,
    pub(super) sent: Sent,
    pub(super) came: Came,
}

/// What came from a session.
#[derive(Clone, Debug)]
pub(super) enum Came {
    /// The answer to its statement.
    Answer(Answer),
    /// Its statement, which waited before, pauses before a row lock.
    Pause(String),
}

impl Arrival {
    pub(super) fn outcome(&self) -> Outcome {
        match &self.came {
            Came::Answer(answer) => outcome_of(answer),
            Came::Pause(row) => Outcome::Pauses(row.clone()),
        }
    }
}

/// Everybody who takes part, and the stage.
pub(super) struct Cast<'a> {
    pub(super) stage: &'a mut dyn Stage,
    pub(super) members: Vec<Member>,
    /// Sessions whose client is gone and that the server has not noticed: process and session.
    ghosts: Vec<(usize, SessionId)>,
    /// Whether statements pause before row locks.
    pauses: bool,
    /// Who pauses, and before which row, as far as the schedule was told.
    paused: Vec<(usize, String)>,
}

/// What is known of a member before it is opened.
pub(super) struct Part {
    pub(super) label: String,
    pub(super) process: usize,
    pub(super) isolation: Isolation,
    pub(super) connect: Option<Arc<str>>,
}

impl<'a> Cast<'a> {
    /// Makes the initial state and opens the sessions, in this order.
    pub(super) fn open(
        stage: &'a mut dyn Stage,
        setup: Option<&str>,
        parts: Vec<Part>,
        victims: &[usize],
        pauses: Option<PausePlan>,
        pooler: u8,
    ) -> Result<Cast<'a>, ReplayError> {
        let setup: Vec<String> = setup.map(str::to_owned).into_iter().collect();
        stage.reset(&setup)?;
        stage.pool(pooler).map_err(ReplayError::Impossible)?;
        let mut cast = Cast {
            stage,
            members: Vec::new(),
            ghosts: Vec::new(),
            pauses: pauses.is_some() || pooler > 0,
            paused: Vec::new(),
        };
        for part in parts {
            let member = cast.add(part);
            cast.connect(member)?;
        }
        let victims: Vec<SessionId> = victims
            .iter()
            .filter_map(|member| cast.members.get(*member)?.id)
            .collect();
        cast.stage.plan_victims(&victims)?;
        if let Some(plan) = pauses {
            cast.stage
                .pause_at(&plan)
                .map_err(ReplayError::Impossible)?;
        }
        Ok(cast)
    }

    /// Adds a member that will be opened before its first use.
    pub(super) fn add(&mut self, part: Part) -> usize {
        self.members.push(Member {
            label: part.label,
            process: part.process,
            isolation: part.isolation,
            connect: part.connect,
            id: None,
            busy: None,
            held: None,
            deaf: false,
        });
        self.members.len() - 1
    }

    fn connect(&mut self, member: usize) -> Result<SessionId, ReplayError> {
        let Member {
            label,
            isolation,
            connect,
            ..
        } = &self.members[member];
        let id = self.stage.connect(label, Some(*isolation))?;
        if let Some(script) = connect {
            let statement = Statement {
                sql: Arc::clone(script),
                args: Vec::new(),
                batch: true,
            };
            self.stage.send(id, &statement)?;
            for completion in self.stage.settle(None)? {
                if let Outcome::Failed(error) = outcome_of(&completion.answer) {
                    let what = format!("the script that prepares {label}");
                    return Err(ReplayError::Refused { what, error });
                }
            }
        }
        let member = &mut self.members[member];
        member.id = Some(id);
        member.deaf = false;
        Ok(id)
    }

    pub(super) fn id(&self, member: usize) -> Option<SessionId> {
        self.members[member].id
    }

    pub(super) fn is_busy(&self, member: usize) -> bool {
        self.members[member].busy.is_some()
    }

    /// Sends a statement and waits until everybody is at rest. What came is in the arrivals.
    pub(super) fn send(
        &mut self,
        member: usize,
        sent: Sent,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        let id = match self.members[member].id {
            Some(id) => id,
            None => self.connect(member)?,
        };
        self.stage.send(id, &sent.statement)?;
        self.members[member].busy = Some(sent);
        self.settle(first)
    }

    /// Waits until everybody is at rest.
    pub(super) fn settle(&mut self, first: Option<usize>) -> Result<Vec<Arrival>, ReplayError> {
        let first = first.and_then(|member| self.id(member));
        let completions = self.stage.settle(first)?;
        Ok(self.arrivals(completions))
    }

    fn arrivals(&mut self, completions: Vec<Completion>) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for Completion { session, answer } in completions {
            let member = self.members.iter().position(|m| m.id == Some(session));
            let Some(member) = member else {
                continue;
            };
            let Some(sent) = self.members[member].busy.take() else {
                continue;
            };
            let outcome = outcome_of(&answer);
            if let Outcome::Failed(error) = &outcome
                && error.class == rowlock_model::ErrorClass::ConnectionLost
            {
                // The client knows now, and connects again before the next statement.
                self.members[member].id = None;
            }
            if !self.members[member].deaf {
                arrivals.push(Arrival {
                    member,
                    sent,
                    came: Came::Answer(answer),
                });
            }
        }
        arrivals
    }

    /// Lets a member go on that pauses before a row lock.
    pub(super) fn proceed(
        &mut self,
        member: usize,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        self.paused.retain(|(paused, _)| *paused != member);
        if let Some(id) = self.id(member) {
            self.stage.proceed(id)?;
        }
        self.settle(first)
    }

    /// The pooler gives a member that waits for one this server connection.
    pub(super) fn route(
        &mut self,
        member: usize,
        backend: u8,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        self.paused.retain(|(paused, _)| *paused != member);
        if let Some(id) = self.id(member) {
            self.stage.route(id, backend)?;
        }
        self.settle(first)
    }

    /// These members do not go on yet, when they could.
    pub(super) fn hold(&mut self, members: &[usize]) -> Result<(), ReplayError> {
        let ids: Vec<SessionId> = members.iter().filter_map(|m| self.id(*m)).collect();
        Ok(self.stage.hold(&ids)?)
    }

    /// Of those that can go on because of what is done next, this member is the first.
    pub(super) fn go_first(&mut self, member: usize) -> Result<(), ReplayError> {
        match self.id(member) {
            Some(id) => Ok(self.stage.go_first(id)?),
            None => Ok(()),
        }
    }

    /// Who has begun to pause since this was last asked.
    pub(super) fn new_pauses(&mut self) -> Result<Vec<Arrival>, ReplayError> {
        if !self.pauses {
            return Ok(Vec::new());
        }
        let mut paused = Vec::new();
        let mut new = Vec::new();
        for Paused { session, before } in self.stage.paused()? {
            let member = self.members.iter().position(|m| m.id == Some(session));
            let Some(member) = member else {
                continue;
            };
            let Some(sent) = self.members[member].busy.clone() else {
                continue;
            };
            if !self.paused.contains(&(member, before.clone())) {
                new.push(Arrival {
                    member,
                    sent,
                    came: Came::Pause(before.clone()),
                });
            }
            paused.push((member, before));
        }
        self.paused = paused;
        Ok(new)
    }

    /// Lets the deadlock check of a member fire.
    pub(super) fn deadlock(&mut self, member: usize) -> Result<Vec<Arrival>, ReplayError> {
        let Some(id) = self.id(member) else {
            return Ok(Vec::new());
        };
        let completions = self.stage.deadlock(id)?;
        Ok(self.arrivals(completions))
    }

    /// Waits for a timer of a member that is due. Servers look at their timers now and then: InnoDB
    /// at those of lock waits once a second.
    pub(super) fn expire(&mut self, member: usize) -> Result<Vec<Arrival>, ReplayError> {
        const LOOK: Duration = Duration::from_millis(100);
        const LOOKS: usize = 20;
        let mut arrivals = self.settle(Some(member))?;
        for _ in 0..LOOKS {
            if !self.is_busy(member) {
                break;
            }
            arrivals.extend(self.advance(LOOK)?);
        }
        Ok(arrivals)
    }

    pub(super) fn advance(&mut self, by: Duration) -> Result<Vec<Arrival>, ReplayError> {
        self.stage.advance(by)?;
        self.settle(None)
    }

    /// The clients of these members go away without a word.
    pub(super) fn drop_clients(&mut self, members: &[usize]) -> Result<(), ReplayError> {
        for member in members {
            let member = &mut self.members[*member];
            if let Some(id) = member.id.take() {
                member.busy = None;
                member.deaf = true;
                self.ghosts.push((member.process, id));
                self.stage.drop_client(id)?;
            }
        }
        Ok(())
    }

    /// The server notices the ghosts of a process, or one of them, and ends them.
    pub(super) fn notice(
        &mut self,
        process: usize,
        only: Option<SessionId>,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        let mut kept = Vec::new();
        for (owner, id) in std::mem::take(&mut self.ghosts) {
            if owner == process && only.is_none_or(|only| only == id) {
                self.stage.terminate(id)?;
            } else {
                kept.push((owner, id));
            }
        }
        self.ghosts = kept;
        self.settle(first)
    }

    /// The server ends a session. Its client learns it with its next answer.
    pub(super) fn kill(
        &mut self,
        member: usize,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        if let Some(id) = self.id(member) {
            self.stage.terminate(id)?;
        }
        self.settle(first)
    }

    /// The client closes a session politely.
    pub(super) fn close(
        &mut self,
        member: usize,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        if let Some(id) = self.members[member].id.take() {
            self.stage.terminate(id)?;
        }
        self.settle(first)
    }

    /// The connection is lost over a statement.
    pub(super) fn lose(
        &mut self,
        member: usize,
        sent: Sent,
        loss: Loss,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        match loss {
            Loss::NotArrived => self.drop_clients(&[member])?,
            Loss::ReplyLost => {
                let mut arrivals = self.send(member, sent, first)?;
                self.drop_clients(&[member])?;
                arrivals.retain(|arrival| arrival.member != member);
                return Ok(arrivals);
            }
            Loss::StillRunning => self.members[member].held = Some(sent),
        }
        self.settle(first)
    }

    /// A held statement runs now; its client does not hear the answer, but the schedule does.
    pub(super) fn late(
        &mut self,
        member: usize,
        first: Option<usize>,
    ) -> Result<Vec<Arrival>, ReplayError> {
        match self.members[member].held.take() {
            Some(sent) => self.send(member, sent, first),
            None => Ok(Vec::new()),
        }
    }

    /// Who waits now.
    pub(super) fn waiting(&mut self) -> Result<Vec<Waiting>, ReplayError> {
        let blocked = self.stage.blocked()?;
        let label = |id: SessionId| {
            let member = self.members.iter().find(|m| m.id == Some(id));
            let ghost = || self.ghosts.iter().find(|(_, ghost)| *ghost == id);
            match (member, ghost()) {
                (Some(member), _) => member.label.clone(),
                // A ghost goes by the label that it had.
                (None, Some((process, _))) => self
                    .members
                    .iter()
                    .find(|m| m.process == *process)
                    .map_or(String::new(), |m| m.label.clone()),
                (None, None) => format!("session {}", id.0),
            }
        };
        let waiting = blocked.into_iter().map(|blocked| {
            let mut blockers: Vec<String> = blocked.blockers.iter().map(|id| label(*id)).collect();
            blockers.sort();
            blockers.dedup();
            Waiting {
                session: label(blocked.session),
                blockers,
                object: blocked.object,
            }
        });
        Ok(waiting.collect())
    }

    /// Runs a query on the committed state.
    pub(super) fn query(&mut self, sql: &str) -> Result<Result<Reply, DbError>, ReplayError> {
        Ok(self.stage.query(sql)?)
    }
}

/// The answer as files write it: of a script, its error or its last reply.
pub(super) fn outcome_of(answer: &Answer) -> Outcome {
    match answer {
        Answer::Exec(result) => Outcome::of(result),
        Answer::Batch(Err(error)) => Outcome::Failed(error.clone()),
        Answer::Batch(Ok(Batch { replies, error, .. })) => match (error, replies.last()) {
            (Some(error), _) => Outcome::Failed(error.clone()),
            (None, Some(reply)) => Outcome::Done(reply.clone()),
            (None, None) => Outcome::Done(Reply::default()),
        },
    }
}
