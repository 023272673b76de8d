//! The two kinds of scripts, event by event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rowlock_model::schedule::{
    Choice, Event, Granularity, Loss, ProcessId, RequestId, SessionId, Statement,
};
use rowlock_model::{DbError, Outcome};

use super::cast::{Arrival, Came, Cast, Part, Sent};
use super::compare::{describe, same};
use super::numbers::Numbers;
use super::{FinalQuery, Replay, ReplayError, Step, StepVerdict};
use crate::pinned::{Expected, Pinned, PinnedAction, SessionRef, session_label, sessions};
use crate::scenario::{Case, default_isolation};
use crate::schedule::ScheduleFile;
use crate::script::{Act, Answer, Script, ScriptState};
use crate::stage::{self, PausePlan, PausingStatement, Stage};

/// What an event does to the cast.
enum Move {
    /// A statement is sent.
    Send(usize, Sent),
    /// A connection is lost over a statement; without one, over something else on its way.
    Lose(usize, Option<Sent>, Loss),
    /// Nothing that a server would see.
    Nothing,
    /// A query outside the sessions.
    Observe(Arc<str>),
    Close(usize),
    Advance(Duration),
    /// The clients of these members go away.
    Drop(Vec<usize>),
    /// The server notices the ghosts of a process, or one of them.
    Notice(usize, Option<SessionId>),
    Kill(usize),
    /// The answer of a waiting member is due: it was granted its lock, is the victim of a deadlock,
    /// or a timer fires.
    Due(usize, Due),
    /// A member that pauses before a row lock goes on.
    Continue(usize),
    /// A pooler gives a member a server connection.
    Route(usize, u8),
    Late(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Resume,
    Deadlock,
    Expire,
}

/// What an event did: its own outcome, if it has one, and the answers of others.
struct Done {
    own: Option<Outcome>,
    own_arrival: Option<Arrival>,
    others: Vec<Arrival>,
}

fn perform(
    cast: &mut Cast<'_>,
    what: Move,
    first: Option<usize>,
    come: &mut VecDeque<Arrival>,
) -> Result<Done, ReplayError> {
    if let Move::Observe(sql) = &what {
        return Ok(Done {
            own: Some(Outcome::of(&cast.query(sql)?)),
            own_arrival: None,
            others: Vec::new(),
        });
    }
    // An answer that is due comes by itself, or from a timer of the one that waits.
    if let Some(first) = first.filter(|_| !matches!(what, Move::Due(..))) {
        cast.go_first(first)?;
    }
    let mut waits_for = None;
    let mut own_member = None;
    let mut lost = false;
    let mut arrivals = match what {
        Move::Nothing | Move::Observe(_) => Vec::new(),
        Move::Continue(member) => {
            own_member = Some(member);
            waits_for = Some(member);
            cast.proceed(member, first)?
        }
        Move::Route(member, backend) => {
            own_member = Some(member);
            waits_for = Some(member);
            cast.route(member, backend, first)?
        }
        Move::Send(member, sent) => {
            own_member = Some(member);
            waits_for = Some(member);
            cast.send(member, sent, first)?
        }
        Move::Lose(member, sent, loss) => {
            lost = true;
            match sent {
                Some(sent) => cast.lose(member, sent, loss, first)?,
                None => {
                    cast.drop_clients(&[member])?;
                    cast.settle(first)?
                }
            }
        }
        Move::Close(member) => cast.close(member, first)?,
        Move::Advance(by) => cast.advance(by)?,
        Move::Drop(members) => {
            cast.drop_clients(&members)?;
            cast.settle(first)?
        }
        Move::Notice(process, only) => cast.notice(process, only, first)?,
        Move::Kill(member) => cast.kill(member, first)?,
        Move::Late(member) => {
            own_member = Some(member);
            waits_for = Some(member);
            let mut arrivals = cast.late(member, first)?;
            if !cast.is_busy(member) {
                cast.drop_clients(&[member])?;
            }
            arrivals.sort_by_key(|arrival| arrival.member != member);
            arrivals
        }
        Move::Due(member, due) => {
            own_member = Some(member);
            waits_for = Some(member);
            match come.iter().position(|arrival| arrival.member == member) {
                Some(at) => come.remove(at).into_iter().collect(),
                None if due == Due::Deadlock => cast.deadlock(member)?,
                None if due == Due::Expire => cast.expire(member)?,
                None => cast.settle(Some(member))?,
            }
        }
    };
    arrivals.extend(cast.new_pauses()?);
    let mut done = Done {
        own: None,
        own_arrival: None,
        others: Vec::new(),
    };
    for arrival in arrivals {
        if own_member == Some(arrival.member) && done.own_arrival.is_none() {
            done.own = Some(arrival.outcome());
            done.own_arrival = Some(arrival);
        } else {
            done.others.push(arrival);
        }
    }
    if let Some(member) = waits_for.filter(|member| done.own.is_none() && cast.is_busy(*member)) {
        let label = &cast.members[member].label.clone();
        let waiting = cast.waiting()?;
        let found = waiting.into_iter().find(|w| w.session == *label);
        done.own = Some(Outcome::Waits(found.map_or(Vec::new(), |w| w.blockers)));
    }
    if lost {
        done.own = Some(Outcome::Failed(DbError::connection_lost(
            "the connection is lost",
        )));
    }
    Ok(done)
}

/// What a stage has to know of the pauses that a schedule expects, each given by the text of its
/// statement and its row; `None` if statements do not pause.
fn pause_plan(granularity: Granularity, pauses: Vec<(String, String)>) -> Option<PausePlan> {
    if granularity == Granularity::Statement {
        return None;
    }
    let mut plan = PausePlan::default();
    for (sql, row) in pauses {
        let Some((table, _)) = row.rsplit_once(" (") else {
            continue;
        };
        let table = table.to_owned();
        if !plan.tables.contains(&table) {
            plan.tables.push(table.clone());
        }
        match plan.statements.iter_mut().find(|s| s.sql == sql) {
            Some(known) if known.tables.contains(&table) => {}
            Some(known) => known.tables.push(table),
            None => plan.statements.push(PausingStatement {
                sql,
                tables: vec![table],
            }),
        }
    }
    Some(plan)
}

/// The pauses that a pinned schedule expects, each with the statement in which it is.
fn pinned_pauses(pinned: &Pinned, scripts: &[Script]) -> Vec<(String, String)> {
    let text = |process: usize, step: usize| {
        let state = scripts[process].start();
        match scripts[process].fixed_act(step, &state, &|| 0) {
            Act::Send(statement) => Some(statement.sql.to_string()),
            _ => None,
        }
    };
    let mut running: Vec<Option<(usize, usize)>> = vec![None; pinned.processes.len()];
    let mut pauses = Vec::new();
    for event in &pinned.events {
        let own = match event.action {
            PinnedAction::Step(process, step) => {
                running[process] = Some((process, step));
                running[process]
            }
            PinnedAction::Continue(session)
            | PinnedAction::Route(session, _)
            | PinnedAction::Resume(session) => running[session.process],
            _ => None,
        };
        let then = event.expected.then.iter();
        let others = then.map(|(session, step, outcome)| (Some((session.process, *step)), outcome));
        for (step, outcome) in std::iter::once((own, &event.expected.own)).chain(others) {
            if let (Some((process, step)), Expected::Pauses(Some(row))) = (step, outcome)
                && let Some(sql) = text(process, step)
            {
                pauses.push((sql, row.to_string()));
            }
        }
    }
    pauses
}

/// The pauses of a schedule file, each with the statement in which it is.
fn file_pauses(file: &ScheduleFile) -> Vec<(String, String)> {
    let mut running: BTreeMap<Arc<str>, String> = BTreeMap::new();
    let mut pauses = Vec::new();
    for event in &file.schedule.events {
        if let Some(statement) = &event.statement {
            running.insert(event.actor.clone(), statement.sql.to_string());
        }
        if let Some(Outcome::Pauses(row)) = &event.outcome
            && let Some(sql) = running.get(&event.actor)
        {
            pauses.push((sql.clone(), row.clone()));
        }
    }
    pauses
}

/// An outcome by itself, as files write it.
fn plain(outcome: &Outcome) -> String {
    describe(outcome, &Outcome::Waits(Vec::new()))
}

fn ok() -> Outcome {
    Outcome::Done(rowlock_model::Reply::default())
}

/// Runs a pinned schedule.
pub(super) fn pinned(
    stage: &mut dyn Stage,
    case: &Case,
    pinned: &Pinned,
    stop_at_difference: bool,
) -> Result<Replay, ReplayError> {
    let server = stage.version()?;
    let refs = sessions(&pinned.processes);
    let parts = refs.iter().map(|session| {
        let process = &pinned.processes[session.process];
        Part {
            label: session_label(&pinned.processes, *session),
            process: session.process,
            isolation: process.isolation,
            connect: process.connect.as_ref().map(|text| text.text.clone()),
        }
    });
    let member = |session: SessionRef| refs.iter().position(|r| *r == session).unwrap_or(0);
    let victims: Vec<usize> = pinned
        .events
        .iter()
        .filter_map(|event| match event.action {
            PinnedAction::Deadlock(session) => Some(member(session)),
            _ => None,
        })
        .collect();
    let setup = case.setup.as_ref().map(|text| &*text.text);
    let scripts: Vec<Script> = pinned
        .processes
        .iter()
        .filter_map(|process| Script::of(process, case.database))
        .collect();
    let plan = pause_plan(pinned.granularity, pinned_pauses(pinned, &scripts));
    let parts = parts.collect();
    let cast = Cast::open(stage, setup, parts, &victims, plan, case.pooler)?;
    let states = scripts.iter().map(Script::start).collect();
    let mut run = PinnedRun {
        pinned,
        refs: &refs,
        cast,
        scripts,
        states,
        come: VecDeque::new(),
        elapsed_micros: 0,
    };
    let mut steps = Vec::new();
    for number in 0..pinned.events.len() {
        let step = match run.event(number) {
            Ok(step) => step,
            Err(error) => {
                let so_far = Replay::conclude(server, steps, Vec::new());
                return so_far.ended(error, stop_at_difference);
            }
        };
        let stop = step.verdict != StepVerdict::Same && stop_at_difference;
        steps.push(step);
        if stop {
            return Ok(Replay::conclude(server, steps, Vec::new()));
        }
    }
    let mut finals = Vec::new();
    for query in &pinned.finals {
        let got = Outcome::of(&run.cast.query(&query.sql.text)?);
        finals.push(FinalQuery {
            sql: query.sql.text.clone(),
            expected: query.rows.to_string(),
            same: query.rows.accepts(&got),
            got: plain(&got),
            outcome: got,
        });
    }
    Ok(Replay::conclude(server, steps, finals))
}

struct PinnedRun<'a, 'b> {
    pinned: &'a Pinned,
    refs: &'a [SessionRef],
    cast: Cast<'b>,
    scripts: Vec<Script>,
    states: Vec<ScriptState>,
    /// Answers that came before the token that expects them.
    come: VecDeque<Arrival>,
    elapsed_micros: i64,
}

impl PinnedRun<'_, '_> {
    fn member(&self, session: SessionRef) -> usize {
        let found = self.refs.iter().position(|r| *r == session);
        found.unwrap_or(0)
    }

    fn event(&mut self, number: usize) -> Result<Step, ReplayError> {
        let pinned = self.pinned;
        let event = &pinned.events[number];
        let expected = &event.expected;
        let first = match (expected.then.first(), pinned.events.get(number + 1)) {
            (Some((session, ..)), _) => Some(self.member(*session)),
            (None, Some(next)) => match next.action {
                PinnedAction::Resume(session) => Some(self.member(session)),
                _ => None,
            },
            (None, None) => None,
        };
        let (what, choice, sent) = self.what(number)?;
        let actor = self.actor(&choice, sent.as_ref());
        let done = perform(&mut self.cast, what, first, &mut self.come)?;
        let own = done.own.clone().unwrap_or_else(ok);
        if let Some(arrival) = &done.own_arrival {
            self.learn(arrival)?;
        }
        for arrival in &done.others {
            self.learn(arrival)?;
        }
        let waiting = self.cast.waiting()?;
        let events = events(&self.cast, choice, actor, sent, &done);
        let verdict = self.verdict(number, &own, done.others);
        Ok(Step {
            token: event.token.clone(),
            events,
            waiting,
            verdict,
        })
    }

    /// Gives the answer to the local state of its process, for the bindings of later steps.
    fn learn(&mut self, arrival: &Arrival) -> Result<(), ReplayError> {
        let process = self.cast.members[arrival.member].process;
        let now = || now_micros(self.elapsed_micros);
        let answer = match &arrival.came {
            Came::Answer(stage::Answer::Exec(result)) => Answer::Exec(result.clone()),
            Came::Answer(stage::Answer::Batch(result)) => Answer::Batch(result.clone()),
            Came::Pause(_) => return Ok(()),
        };
        let state = &mut self.states[process];
        Ok(self.scripts[process].fixed_done(arrival.sent.index, state, &answer, &now)?)
    }

    fn actor(&self, choice: &Choice, sent: Option<&Sent>) -> Arc<str> {
        let label = match choice {
            Choice::Advance(_) => return "".into(),
            Choice::Crash(p) | Choice::Step(p, _) | Choice::Lose(p, ..) | Choice::Cancel(p, _) => {
                let process = usize::from(p.0);
                let steps = self.pinned.processes[process].steps();
                let session = sent
                    .and_then(|sent| steps.get(sent.index))
                    .map_or(0, |s| s.session);
                session_label(&self.pinned.processes, SessionRef { process, session })
            }
            Choice::Resume(s)
            | Choice::Continue(s)
            | Choice::Route(s, _)
            | Choice::Deadlock(s)
            | Choice::Expire(s)
            | Choice::Notice(s)
            | Choice::Kill(s)
            | Choice::Late(s) => self.cast.members[usize::from(s.0)].label.clone(),
        };
        label.into()
    }

    fn what(&mut self, number: usize) -> Result<(Move, Choice, Option<Sent>), ReplayError> {
        let session_id = |member: usize| SessionId(member as u8);
        let process_id = |process: usize| ProcessId(process as u8);
        let event = &self.pinned.events[number];
        let due = |this: &Self, session: SessionRef, due: Due, choice: fn(SessionId) -> Choice| {
            let member = this.member(session);
            let sent = this
                .come
                .iter()
                .find(|a| a.member == member)
                .map(|a| a.sent.clone());
            (Move::Due(member, due), choice(session_id(member)), sent)
        };
        Ok(match event.action {
            PinnedAction::Step(process, step) => {
                let (what, sent) = self.step(number, process, step)?;
                (what, Choice::Step(process_id(process), RequestId(0)), sent)
            }
            PinnedAction::Lose(process, step, loss) => {
                let (_, sent) = self.step(number, process, step)?;
                let session = self.pinned.processes[process].steps()[step].session;
                let member = self.member(SessionRef { process, session });
                let choice = Choice::Lose(process_id(process), RequestId(0), loss);
                (Move::Lose(member, sent.clone(), loss), choice, sent)
            }
            PinnedAction::Observe(observer) => {
                let sql = self.pinned.observers[observer].sql.text.clone();
                let sent = Sent {
                    step: Some(event.token.clone()),
                    index: 0,
                    statement: Statement {
                        sql: sql.clone(),
                        args: Vec::new(),
                        batch: false,
                    },
                };
                (Move::Observe(sql), Choice::Advance(0), Some(sent))
            }
            PinnedAction::Advance(by) => {
                let micros = by.as_micros() as i64;
                self.elapsed_micros += micros;
                (Move::Advance(by), Choice::Advance(micros), None)
            }
            PinnedAction::Crash(process) => {
                let members = (0..self.refs.len()).filter(|m| self.refs[*m].process == process);
                let choice = Choice::Crash(process_id(process));
                (Move::Drop(members.collect()), choice, None)
            }
            PinnedAction::Notice(process) => {
                let member = self.member(SessionRef {
                    process,
                    session: 0,
                });
                let choice = Choice::Notice(session_id(member));
                (Move::Notice(process, None), choice, None)
            }
            PinnedAction::Kill(session) => {
                let member = self.member(session);
                (Move::Kill(member), Choice::Kill(session_id(member)), None)
            }
            PinnedAction::Continue(session) => {
                let member = self.member(session);
                let choice = Choice::Continue(session_id(member));
                (Move::Continue(member), choice, None)
            }
            PinnedAction::Route(session, backend) => {
                let member = self.member(session);
                let choice = Choice::Route(session_id(member), backend);
                (Move::Route(member, backend), choice, None)
            }
            PinnedAction::Late(session) => {
                let member = self.member(session);
                (Move::Late(member), Choice::Late(session_id(member)), None)
            }
            PinnedAction::Resume(s) => due(self, s, Due::Resume, Choice::Resume),
            PinnedAction::Deadlock(s) => due(self, s, Due::Deadlock, Choice::Deadlock),
            PinnedAction::Expire(s) => due(self, s, Due::Expire, Choice::Expire),
        })
    }

    /// What a step of a process does, and the statement if it sends one.
    fn step(
        &mut self,
        number: usize,
        process: usize,
        index: usize,
    ) -> Result<(Move, Option<Sent>), ReplayError> {
        let step = &self.pinned.processes[process].steps()[index];
        let session = step.session;
        let member = self.member(SessionRef { process, session });
        let now = || now_micros(self.elapsed_micros);
        let act = self.scripts[process].fixed_act(index, &self.states[process], &now);
        let statement = match act {
            Act::Send(statement) => statement,
            Act::Close => return Ok((Move::Close(member), None)),
            _ => {
                let state = &mut self.states[process];
                self.scripts[process].fixed_done(index, state, &Answer::Done, &now)?;
                return Ok((Move::Nothing, None));
            }
        };
        check_idle(&self.cast, member, number)?;
        let sent = Sent {
            step: Some(step.name.clone()),
            index,
            statement,
        };
        Ok((Move::Send(member, sent.clone()), Some(sent)))
    }

    /// Compares an event with its expectation. Answers that a later token expects are kept for it.
    fn verdict(&mut self, number: usize, own: &Outcome, others: Vec<Arrival>) -> StepVerdict {
        let event = &self.pinned.events[number];
        let expected = &event.expected;
        let came: Vec<String> = others.iter().map(|a| self.arrival_text(a)).collect();
        let mut others: Vec<Option<Arrival>> = others.into_iter().map(Some).collect();
        let mut all_same = expected.own.accepts(own);
        let mut other_branch = all_same;
        let mut missing = false;
        for (session, _, outcome) in &expected.then {
            let member = self.member(*session);
            let came = others
                .iter_mut()
                .find(|other| other.as_ref().is_some_and(|a| a.member == member))
                .and_then(Option::take);
            match came {
                Some(arrival) if outcome.accepts(&arrival.outcome()) => {}
                Some(_) => {
                    all_same = false;
                    other_branch = false;
                }
                None => {
                    all_same = false;
                    missing = true;
                }
            }
        }
        // Tokens that follow at once may take the answers of waiters.
        let due = self.pinned.events[number + 1..]
            .iter()
            .map_while(|next| match next.action {
                PinnedAction::Resume(s) | PinnedAction::Deadlock(s) | PinnedAction::Expire(s) => {
                    Some(s)
                }
                _ => None,
            });
        let due: Vec<usize> = due.map(|session| self.member(session)).collect();
        let mut surplus = false;
        for arrival in others.into_iter().flatten() {
            match due.contains(&arrival.member) {
                true => self.come.push_back(arrival),
                false => surplus = true,
            }
        }
        if all_same && !surplus {
            return StepVerdict::Same;
        }
        let expected_text = self.expected_text(number);
        let got = self.got_text(own, &came);
        match other_branch && missing && surplus {
            true => StepVerdict::OtherBranch {
                expected: expected_text,
                got,
            },
            false => StepVerdict::Differs {
                expected: expected_text,
                got,
            },
        }
    }

    fn expected_text(&self, number: usize) -> String {
        let expected = &self.pinned.events[number].expected;
        let mut text = expected.own.to_string();
        for (session, step, outcome) in &expected.then {
            let label = session_label(&self.pinned.processes, *session);
            let step = &self.pinned.processes[session.process].steps()[*step].name;
            text += &format!("; {label}:{step} {outcome}");
        }
        text
    }

    /// What came, as files write it: the event's own outcome and those that came with it.
    fn got_text(&self, own: &Outcome, came: &[String]) -> String {
        let mut parts = vec![plain(own)];
        parts.extend_from_slice(came);
        parts.join("; ")
    }

    fn arrival_text(&self, arrival: &Arrival) -> String {
        let label = &self.cast.members[arrival.member].label;
        let step = arrival.sent.step.as_deref().unwrap_or_default();
        format!("{label}:{step} {}", plain(&arrival.outcome()))
    }
}

/// The host's clock of a replay: it begins at a fixed instant and moves only with the schedule.
fn now_micros(elapsed_micros: i64) -> i64 {
    const START_MICROS: i64 = 1_700_000_000_000_000;
    START_MICROS + elapsed_micros
}

fn check_idle(cast: &Cast<'_>, member: usize, number: usize) -> Result<(), ReplayError> {
    match cast.is_busy(member) {
        false => Ok(()),
        true => Err(ReplayError::Schedule {
            number: number + 1,
            message: format!(
                "{} still waits for the answer to its last statement",
                cast.members[member].label
            ),
        }),
    }
}

/// The event with its outcome on this stage, and those of the sessions that went on.
fn events(
    cast: &Cast<'_>,
    choice: Choice,
    actor: Arc<str>,
    sent: Option<Sent>,
    done: &Done,
) -> Vec<Event> {
    // An observer's look is a move of the clock by nothing.
    let sends = matches!(
        choice,
        Choice::Step(..) | Choice::Lose(..) | Choice::Advance(0)
    );
    let mut events = vec![Event {
        choice,
        actor,
        step: sent.as_ref().and_then(|sent| sent.step.clone()),
        statement: sent.filter(|_| sends).map(|sent| sent.statement),
        outcome: done.own.clone(),
    }];
    events.extend(done.others.iter().map(|arrival| Event {
        choice: Choice::Resume(SessionId(arrival.member as u8)),
        actor: cast.members[arrival.member].label.as_str().into(),
        step: arrival.sent.step.clone(),
        statement: None,
        outcome: Some(arrival.outcome()),
    }));
    events
}

/// Runs a schedule file.
pub(super) fn file(
    stage: &mut dyn Stage,
    file: &ScheduleFile,
    stop_at_difference: bool,
) -> Result<Replay, ReplayError> {
    let server = stage.version()?;
    let mut parts = Vec::new();
    for (process, p) in file.processes.iter().enumerate() {
        for session in 0..p.sessions {
            let label = match session {
                0 => p.label.to_string(),
                n => format!("{}/{}", p.label, n + 1),
            };
            parts.push(part(file, process, label));
        }
    }
    let labels: Vec<String> = parts.iter().map(|part| part.label.clone()).collect();
    let victims: Vec<usize> = file
        .schedule
        .events
        .iter()
        .filter(|event| matches!(event.choice, Choice::Deadlock(_)))
        .filter_map(|event| labels.iter().position(|label| *label == *event.actor))
        .collect();
    let plan = pause_plan(file.granularity, file_pauses(file));
    let setup = file.setup.as_deref();
    let cast = Cast::open(stage, setup, parts, &victims, plan, file.pooler)?;
    let mut run = FileRun {
        file,
        cast,
        come: VecDeque::new(),
        numbers: Numbers::of(&file.numbers),
    };
    let mut steps = Vec::new();
    for number in 0..file.schedule.events.len() {
        let step = match run.event(number) {
            Ok(step) => step,
            Err(error) => {
                let so_far = Replay::conclude(server, steps, Vec::new());
                return so_far.ended(error, stop_at_difference);
            }
        };
        let stop = step.verdict != StepVerdict::Same && stop_at_difference;
        steps.push(step);
        if stop {
            return Ok(Replay::conclude(server, steps, Vec::new()));
        }
    }
    let mut finals = Vec::new();
    if let Some(check) = &file.check {
        let got = Outcome::of(&run.cast.query(check)?);
        let shows = matches!(&got, Outcome::Done(reply) if !reply.rows.is_empty());
        finals.push(FinalQuery {
            sql: Arc::clone(check),
            expected: "at least one row, which is the violation".into(),
            same: shows,
            got: plain(&got),
            outcome: got,
        });
    }
    Ok(Replay::conclude(server, steps, finals))
}

fn part(file: &ScheduleFile, process: usize, label: String) -> Part {
    let p = file.processes.get(process);
    let default = match file.processes.is_empty() {
        true => default_isolation(file.database),
        false => file.isolation,
    };
    Part {
        label,
        process,
        isolation: p.and_then(|p| p.isolation).unwrap_or(default),
        connect: p.and_then(|p| p.connect.clone()),
    }
}

struct FileRun<'a, 'b> {
    file: &'a ScheduleFile,
    cast: Cast<'b>,
    /// Answers that came before the event that expects them: a live server does not let a granted
    /// lock wait.
    come: VecDeque<Arrival>,
    /// What the file's numbers are on this stage.
    numbers: Numbers,
}

impl FileRun<'_, '_> {
    /// The member of a session label; one that connects in the middle of the schedule is added.
    fn member(&mut self, actor: &str, process: Option<usize>) -> usize {
        if let Some(found) = self.cast.members.iter().position(|m| m.label == actor) {
            return found;
        }
        let base = actor.rsplit_once('/').map_or(actor, |(base, _)| base);
        let by_label = || self.file.processes.iter().position(|p| *p.label == *base);
        let process = process.or_else(by_label).unwrap_or(usize::MAX);
        let part = part(self.file, process, actor.to_owned());
        self.cast.add(part)
    }

    /// The members that wait and, as the schedule has it, go on some time after event `number`, when
    /// others have done more. Where statements pause, pauses and not waits make the order.
    fn late_waiters(&self, number: usize) -> Vec<usize> {
        let file = self.file;
        if file.granularity != Granularity::Statement || file.pooler > 0 {
            return Vec::new();
        }
        let members = self.cast.members.iter().enumerate();
        let late = members.filter(|(index, member)| {
            let mut events = file.schedule.events[number..].iter().enumerate();
            let next = events.find(|(_, event)| *event.actor == *member.label);
            self.cast.is_busy(*index)
                && matches!(next, Some((1.., event)) if matches!(event.choice, Choice::Resume(_)))
        });
        late.map(|(index, _)| index).collect()
    }

    fn event(&mut self, number: usize) -> Result<Step, ReplayError> {
        let events_of_file = &self.file.schedule.events;
        let event = &events_of_file[number];
        let first = match events_of_file.get(number + 1) {
            Some(next) if matches!(next.choice, Choice::Resume(_)) => {
                Some(self.member(&next.actor, None))
            }
            _ => None,
        };
        let held = self.late_waiters(number);
        self.cast.hold(&held)?;
        let what = self.what(event, number)?;
        let done = perform(&mut self.cast, what, first, &mut self.come)?;
        let waiting = self.cast.waiting()?;
        let sent = event
            .statement
            .as_ref()
            .map(|statement| sent(event, statement));
        let events = events(&self.cast, event.choice, event.actor.clone(), sent, &done);
        let verdict = self.verdict(event, &done);
        self.come.extend(done.others);
        Ok(Step {
            token: token(event),
            events,
            waiting,
            verdict,
        })
    }

    fn what(&mut self, event: &Event, number: usize) -> Result<Move, ReplayError> {
        let sent_now = match &event.statement {
            Some(statement) => Some(sent(event, &self.translated(statement, number)?)),
            None => None,
        };
        Ok(match (event.choice, sent_now) {
            (Choice::Step(process, _), Some(sent)) => {
                let member = self.member(&event.actor, Some(usize::from(process.0)));
                check_idle(&self.cast, member, number)?;
                Move::Send(member, sent)
            }
            (Choice::Step(..) | Choice::Cancel(..), _) => Move::Nothing,
            (Choice::Lose(process, _, loss), sent) => {
                let member = self.member(&event.actor, Some(usize::from(process.0)));
                Move::Lose(member, sent, loss)
            }
            (Choice::Advance(micros), _) => {
                Move::Advance(Duration::from_micros(micros.max(0).unsigned_abs()))
            }
            (Choice::Crash(process), _) => {
                let process = usize::from(process.0);
                let members = self.cast.members.iter().enumerate();
                let of_process = members.filter(|(_, m)| m.process == process);
                Move::Drop(of_process.map(|(at, _)| at).collect())
            }
            (Choice::Notice(_), _) => {
                let member = self.member(&event.actor, None);
                Move::Notice(self.cast.members[member].process, None)
            }
            (Choice::Kill(_), _) => Move::Kill(self.member(&event.actor, None)),
            (Choice::Continue(_), _) => Move::Continue(self.member(&event.actor, None)),
            (Choice::Route(_, backend), _) => Move::Route(self.member(&event.actor, None), backend),
            (Choice::Late(_), _) => Move::Late(self.member(&event.actor, None)),
            (Choice::Resume(_), _) => Move::Due(self.member(&event.actor, None), Due::Resume),
            (Choice::Deadlock(_), _) => Move::Due(self.member(&event.actor, None), Due::Deadlock),
            (Choice::Expire(_), _) => Move::Due(self.member(&event.actor, None), Due::Expire),
        })
    }

    /// A statement with the numbers that this stage has for those of the file.
    fn translated(&self, statement: &Statement, number: usize) -> Result<Statement, ReplayError> {
        let args = statement.args.iter().map(|arg| self.numbers.translate(arg));
        let args: Result<Vec<_>, i64> = args.collect();
        let args = args.map_err(|unknown| ReplayError::Schedule {
            number: number + 1,
            message: format!("no reply has shown yet what {unknown} is on this server"),
        })?;
        Ok(Statement {
            args,
            ..statement.clone()
        })
    }

    fn verdict(&mut self, event: &Event, done: &Done) -> StepVerdict {
        let Some(expected) = &event.outcome else {
            return StepVerdict::Same;
        };
        let lost = matches!(event.choice, Choice::Lose(..));
        let got = done.own.clone().unwrap_or_else(ok);
        if lost || same(expected, &got, &mut self.numbers) {
            return StepVerdict::Same;
        }
        let (expected_text, mut got_text) = (describe(expected, &got), describe(&got, expected));
        // The session that should go on still waits, and another one went on instead.
        let due = matches!(event.choice, Choice::Resume(_) | Choice::Deadlock(_));
        let other = done.others.iter().chain(&self.come).next();
        match other.filter(|_| due && matches!(got, Outcome::Waits(_))) {
            Some(other) => {
                let label = &self.cast.members[other.member].label;
                got_text += &format!("; {label} {}", describe(&other.outcome(), expected));
                StepVerdict::OtherBranch {
                    expected: expected_text,
                    got: got_text,
                }
            }
            None => StepVerdict::Differs {
                expected: expected_text,
                got: got_text,
            },
        }
    }
}

fn sent(event: &Event, statement: &Statement) -> Sent {
    Sent {
        step: event.step.clone(),
        index: 0,
        statement: statement.clone(),
    }
}

/// The event in short, as its file writes it.
fn token(event: &Event) -> Arc<str> {
    let what = match event.choice {
        Choice::Advance(micros) => return format!("+{}ms", micros / 1000).into(),
        Choice::Step(..) => "",
        Choice::Resume(_) => "resumes ",
        Choice::Continue(_) => "continues ",
        Choice::Route(..) => "routed ",
        Choice::Deadlock(_) => "deadlock ",
        Choice::Expire(_) => "timer ",
        Choice::Crash(_) => "crash ",
        Choice::Notice(_) => "noticed ",
        Choice::Kill(_) => "killed ",
        Choice::Late(_) => "late ",
        Choice::Lose(..) => "lost ",
        Choice::Cancel(..) => "cancelled ",
    };
    let step = event.step.as_deref().unwrap_or_default();
    format!("{} {what}{step}", event.actor).trim_end().into()
}
