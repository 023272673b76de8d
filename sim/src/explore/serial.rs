//! Is what was committed equal to a serial run? Asked of every run, without anybody saying what the
//! program is about.
//!
//! Along a path, each process keeps the *log* of its committed transactions: the statements with
//! their answers. When nothing is left to do, the logs are run again, on a copy of the initial
//! database, transaction by transaction, in every order that keeps each process's own: one of them has
//! to give every statement the answer that it had, and the same rows in the end. What was rolled back
//! is left out.
//!
//! What a run has committed is not a function of the state that it leads to. So logs are part of the
//! explored state: two runs are told apart as long as they were answered differently, and no answer is
//! lost. Within a log the order is the process's own, and logs of different processes are side by
//! side; so steps that commute lead to the same logs, and the other reductions go on working.
//! Exchanging identical workers is switched off.
//!
//! Answers are compared as sets of rows: order without `ORDER BY` is left open by SQL. Each statement
//! runs again at the time at which it ran.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rowlock_model::schedule::SessionId;
use rowlock_model::{ErrorClass, Reply};
use rustc_hash::FxHashMap;

use super::hash::mix;
use super::orders::{Orders, contents};
use super::world::{Flaw, Phase, World, open_session};
use crate::database::{Answer, Database, Progress, Request};
use rowlock_model::verdict::Unsupported;

/// The name of the property.
pub(super) const NAME: &str = rowlock_model::Guarantee::Serializable.name();

/// A log; 0 is the empty one.
type LogId = u32;

/// One statement of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Step {
    /// The session, by its number in its process.
    pub(super) local: u16,
    pub(super) request: u32,
    pub(super) answer: u32,
    pub(super) now_micros: i64,
}

/// What a session has done in its open transaction, and what it is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    log: LogId,
    /// The request under way, and 1.
    flight: u32,
}

enum Old {
    Line(usize, Open),
    Process(usize, LogId),
}

/// Things by number.
#[derive(Debug)]
struct Numbers<T> {
    list: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbers<T> {
    fn new() -> Numbers<T> {
        Numbers {
            list: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    fn number(&mut self, thing: T) -> u32 {
        if let Some(known) = self.numbers.get(&thing) {
            return *known;
        }
        let number = self.list.len() as u32;
        self.list.push(thing.clone());
        self.numbers.insert(thing, number);
        number
    }
}

/// The logs of all processes.
pub(crate) struct Serial<D> {
    /// The database before anything happened, with the sessions open.
    start: D,
    requests: Numbers<Request>,
    answers: Numbers<Answer>,
    /// Statements after others: numbered from 1.
    steps: Numbers<(LogId, Step)>,
    /// Transactions after others: numbered from 1.
    transactions: Numbers<(LogId, LogId)>,
    lines: Vec<Open>,
    processes: Vec<LogId>,
    journal: Vec<Old>,
    hash: u128,
    /// What became of outcomes that were judged before.
    judged: FxHashMap<(Vec<LogId>, u128), Option<String>>,
    unsupported: Option<String>,
}

const LINE: u64 = 0x7365_7231;
const PROCESS: u64 = 0x7365_7232;

impl Open {
    fn hash(self, at: usize) -> u128 {
        match self.log {
            0 => 0,
            log => mix(LINE, at as u64, log.into()),
        }
    }
}

fn process_hash(at: usize, log: LogId) -> u128 {
    match log {
        0 => 0,
        log => mix(PROCESS, at as u64, log.into()),
    }
}

impl<D: Database> Serial<D> {
    pub(crate) fn new(start: D, processes: usize) -> Serial<D> {
        Serial {
            start,
            requests: Numbers::new(),
            answers: Numbers::new(),
            steps: Numbers::new(),
            transactions: Numbers::new(),
            lines: Vec::new(),
            processes: vec![0; processes],
            journal: Vec::new(),
            hash: 0,
            judged: FxHashMap::default(),
            unsupported: None,
        }
    }
}

impl<D> Serial<D> {
    pub(super) fn mark(&self) -> usize {
        self.journal.len()
    }

    pub(super) fn undo_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            match self.journal.pop() {
                Some(Old::Line(at, old)) => self.put_line(at, old),
                Some(Old::Process(at, old)) => self.put_process(at, old),
                None => break,
            }
        }
    }

    pub(super) fn hash(&self) -> u128 {
        self.hash
    }

    /// How many numbers were given out that the hash depends on.
    pub(super) fn numbered(&self) -> usize {
        self.requests.list.len()
            + self.answers.list.len()
            + self.steps.list.len()
            + self.transactions.list.len()
    }

    fn put_line(&mut self, at: usize, new: Open) {
        let old = std::mem::replace(&mut self.lines[at], new);
        self.hash = self.hash.wrapping_sub(old.hash(at));
        self.hash = self.hash.wrapping_add(new.hash(at));
    }

    fn put_process(&mut self, at: usize, new: LogId) {
        let old = std::mem::replace(&mut self.processes[at], new);
        self.hash = self.hash.wrapping_sub(process_hash(at, old));
        self.hash = self.hash.wrapping_add(process_hash(at, new));
    }

    fn set_line(&mut self, at: usize, new: Open) {
        if self.lines.len() <= at {
            self.lines.resize(at + 1, Open::default());
        }
        if self.lines[at] != new {
            self.journal.push(Old::Line(at, self.lines[at]));
            self.put_line(at, new);
        }
    }

    fn set_process(&mut self, at: usize, new: LogId) {
        self.journal.push(Old::Process(at, self.processes[at]));
        self.put_process(at, new);
    }

    fn line(&self, at: usize) -> Open {
        self.lines.get(at).copied().unwrap_or_default()
    }

    /// A session is given a request.
    pub(super) fn sent(&mut self, line: usize, request: &Request) {
        let flight = self.requests.number(request.clone()) + 1;
        let old = self.line(line);
        self.set_line(line, Open { flight, ..old });
    }

    /// The things of a list in the order in which they came, given the number of the last one.
    fn in_order<T: Copy>(list: &[(LogId, T)], mut last: LogId) -> Vec<T> {
        let mut found = Vec::new();
        while last > 0 {
            let (before, thing) = list[last as usize - 1];
            found.push(thing);
            last = before;
        }
        found.reverse();
        found
    }
}

/// How an answered statement left the transaction of its session.
enum After {
    /// It goes on with this statement in it, or begins.
    Goes,
    /// As if the statement had not been sent.
    Same,
    /// Committed, with this statement in it.
    Committed,
    /// Nothing is left of it.
    Gone,
    /// What was open is committed, and another one begins with this statement.
    Next,
    /// A script of several transactions.
    Several,
}

fn after(answer: &Answer, was_open: bool, is_open: bool) -> After {
    let rejected = |class: ErrorClass| {
        matches!(
            class,
            ErrorClass::Serialization
                | ErrorClass::Deadlock
                | ErrorClass::Contention
                | ErrorClass::Cancelled
                | ErrorClass::TransactionAborted
                | ErrorClass::ConnectionLost
        )
    };
    if let Answer::Batch(Ok(batch)) = answer
        && has_several(&batch.replies, was_open)
    {
        return After::Several;
    }
    match answer.error() {
        Some(_) if !is_open => return After::Gone,
        Some(error) if rejected(error.class) => return After::Same,
        Some(_) => return After::Goes,
        None => {}
    }
    let tag = match answer {
        Answer::Exec(Ok(reply)) => Some(reply),
        Answer::Batch(Ok(batch)) => batch.replies.last(),
        _ => None,
    };
    match tag.map_or("", |reply| &*reply.tag) {
        "ROLLBACK" if !is_open => After::Gone,
        "BEGIN" | "START TRANSACTION" if was_open && is_open => After::Next,
        _ if is_open => After::Goes,
        _ => After::Committed,
    }
}

/// Whether a script ends a transaction before its last statement, or begins one after its first.
fn has_several(replies: &[Reply], was_open: bool) -> bool {
    let ends = |reply: &Reply| matches!(&*reply.tag, "COMMIT" | "ROLLBACK");
    let begins = |reply: &Reply| matches!(&*reply.tag, "BEGIN" | "START TRANSACTION");
    let last = replies.len().saturating_sub(1);
    replies[..last].iter().any(ends)
        || replies.iter().skip(1).any(begins)
        || (was_open && replies.first().is_some_and(begins))
}

impl<D: Database> World<D> {
    /// Keeps the logs of committed transactions from now on. The processes have not begun yet.
    pub(crate) fn keep_logs(&mut self) {
        let start = self.db.clone();
        self.serial = Some(Box::new(Serial::new(start, self.actors.len())));
    }

    /// The server has gone on with the request of a session.
    pub(super) fn note_progress(&mut self, line: usize, progress: &Progress) {
        let Some(serial) = &mut self.serial else {
            return;
        };
        let Progress::Done(answer) = progress else {
            return;
        };
        let server = SessionId(self.base + line as u8);
        let is_open = !self.db.is_gone(server) && self.db.has_transaction(server);
        let open = serial.line(line);
        let Some(request) = open.flight.checked_sub(1) else {
            return;
        };
        let step = Step {
            local: self.lines[line].local,
            request,
            answer: serial.answers.number(answer.clone()),
            now_micros: self.db.now_micros(),
        };
        let process = usize::from(self.lines[line].process);
        let idle = Open { log: 0, flight: 0 };
        let after = after(answer, open.log != 0, is_open);
        let commit = |serial: &mut Serial<D>, log: LogId| {
            let before = serial.processes[process];
            let after = serial.transactions.number((before, log)) + 1;
            serial.set_process(process, after);
        };
        match after {
            After::Same => serial.set_line(line, Open { flight: 0, ..open }),
            After::Gone => serial.set_line(line, idle),
            After::Goes => {
                let log = serial.steps.number((open.log, step)) + 1;
                serial.set_line(line, Open { log, flight: 0 });
            }
            After::Committed => {
                let log = serial.steps.number((open.log, step)) + 1;
                commit(serial, log);
                serial.set_line(line, idle);
            }
            After::Next => {
                commit(serial, open.log);
                let log = serial.steps.number((0, step)) + 1;
                serial.set_line(line, Open { log, flight: 0 });
            }
            After::Several => {
                serial.set_line(line, idle);
                let what = "the guarantee `serializable` with a script of several transactions";
                serial.unsupported.get_or_insert(what.to_owned());
            }
        }
    }

    /// Transactions that ended without a statement of their own: somebody ended their session.
    pub(super) fn forget_rolled_back(&mut self) {
        let Some(serial) = &mut self.serial else {
            return;
        };
        for line in 0..serial.lines.len() {
            let open = serial.lines[line];
            let server = SessionId(self.base + line as u8);
            if open.log != 0
                && !self.db.is_busy(server)
                && (self.db.is_gone(server) || !self.db.has_transaction(server))
            {
                serial.set_line(line, Open { log: 0, flight: 0 });
            }
        }
    }

    /// Whether the run that led here is equal to a serial one; nothing is left to do.
    pub(super) fn judge_serial(&mut self) -> Result<(), Flaw> {
        let Some(mut serial) = self.serial.take() else {
            return Ok(());
        };
        let judged = self.judge_with(&mut serial);
        self.serial = Some(serial);
        match judged? {
            None => Ok(()),
            Some(detail) => Err(Flaw::Violation {
                property: NAME.to_owned(),
                detail,
            }),
        }
    }

    fn judge_with(&mut self, serial: &mut Serial<D>) -> Result<Option<String>, Flaw> {
        if let Some(what) = serial.unsupported.take() {
            return Err(Flaw::Unsupported(Unsupported {
                what,
                sql: None,
                position: None,
            }));
        }
        let rows = contents(&mut self.db)?;
        let mut digest = crate::world::Digest::new(LINE);
        std::hash::Hash::hash(&rows, &mut digest);
        let key = (serial.processes.clone(), digest.finish128());
        if let Some(known) = serial.judged.get(&key) {
            return Ok(known.clone());
        }
        let logs = serial.processes.iter().map(|log| {
            let transactions = Serial::<D>::in_order(&serial.transactions.list, *log);
            transactions
                .into_iter()
                .map(|log| Serial::<D>::in_order(&serial.steps.list, log))
                .collect()
        });
        let logs: Vec<Vec<Vec<Step>>> = logs.collect();
        let count: usize = logs.iter().map(Vec::len).sum();
        let mark = serial.start.mark();
        let mut orders = Orders {
            sessions: self.sessions_of(serial, &logs)?,
            logs: &logs,
            requests: &serial.requests.list,
            answers: &serial.answers.list,
            texts: &self.db,
            db: &mut serial.start,
            rows: &rows,
            known: BTreeSet::new(),
            answered: None,
            order: Vec::new(),
            last: None,
        };
        let found = orders.search(&mut vec![0; logs.len()])?;
        let (answered, last) = (orders.answered.take(), orders.last.take());
        serial.start.undo_to(mark);
        let detail = (!found).then(|| self.explain(count, answered, last));
        serial.judged.insert(key, detail.clone());
        Ok(detail)
    }

    /// Of each process, the session of the copy for each of its numbers.
    fn sessions_of(
        &self,
        serial: &mut Serial<D>,
        logs: &[Vec<Vec<Step>>],
    ) -> Result<Vec<Vec<SessionId>>, Flaw> {
        let mut next = self.base;
        let mut sessions: Vec<Vec<SessionId>> = Vec::new();
        for actor in &self.actors {
            let numbers = next..next + actor.sessions as u8;
            sessions.push(numbers.map(SessionId).collect());
            next += actor.sessions as u8;
        }
        for (process, log) in logs.iter().enumerate() {
            let locals = log.iter().flatten().map(|step| usize::from(step.local));
            let most = locals.max().map_or(0, |local| local + 1);
            while sessions[process].len() < most {
                let local = sessions[process].len() as u16;
                let session = open_session(&mut serial.start, &self.actors[process], local)?;
                sessions[process].push(session);
            }
        }
        Ok(sessions)
    }

    fn explain(
        &self,
        count: usize,
        answered: Option<(Vec<usize>, String)>,
        last: Option<(Vec<usize>, String)>,
    ) -> String {
        let names = |order: &[usize]| {
            let names = order.iter().map(|process| &*self.actors[*process].name);
            names.collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("no serial order of the {count} committed transactions ");
        let _ = match (answered, last) {
            (Some((order, rows)), _) => write!(
                text,
                "leaves the same rows; in the order {} everybody is answered the same, and there are {rows}",
                names(&order)
            ),
            (None, Some((order, answer))) => write!(
                text,
                "gives the same answers; in the order {} {answer}",
                names(&order)
            ),
            (None, None) => write!(text, "gives the same answers"),
        };
        text
    }

    /// What a process that is done keeps from others.
    pub(super) fn check_leaks(&self, process: usize) -> Result<(), Flaw> {
        if !self.no_leak || self.processes[process].phase != Phase::Done {
            return Ok(());
        }
        for (at, line) in self.lines.iter().enumerate() {
            let server = self.server_id(at);
            if usize::from(line.process) != process || self.db.is_gone(server) {
                continue;
            }
            let kept = self.db.leftovers(server);
            if !kept.is_empty() {
                return Err(Flaw::Violation {
                    property: rowlock_model::Guarantee::NoLeak.name().to_owned(),
                    detail: format!(
                        "{} is done and still has {}",
                        self.session_name(at),
                        kept.join(", ")
                    ),
                });
            }
        }
        Ok(())
    }
}
