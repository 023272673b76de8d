//! The world that is explored: one simulated server, and the processes and clients around it.
//!
//! Everything outside the server is kept in small copyable records; each change notes the old
//! record in a journal, so that the world can be put back, and adjusts a 128-bit sum of hashes, so
//! that the fingerprint costs nothing to keep.

use std::sync::Arc;

use rowlock_model::schedule::{Choice, ProcessId, SessionId};
use rowlock_model::verdict::{Bounds, Unsupported};
use rowlock_model::{DbError, ErrorClass, Isolation};

use super::error::ExploreError;
use super::footprints::Own;
use super::hash::mix;
use super::history::History;
use super::monitor::NumberedMonitor;
use super::program::ProcessSpec;
use super::serial::Serial;
use super::trie::{NodeId, Trie, Viewer};
use crate::database::{Answer, Database, Mark, Progress, Request};

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    Done,
    Crashed,
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) node: NodeId,
    pub(crate) phase: Phase,
    /// Rounds begun; counted only if they are bounded.
    pub(crate) rounds: u32,
}

/// What the client's side of a session knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Connected, as far as it knows.
    Open,
    /// It was told that the connection is lost.
    Lost,
    /// It closed the connection, or crashed: nobody is there any more.
    Away,
}

/// A session, seen from outside of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) process: u8,
    /// Its number within the process.
    pub(crate) local: u16,
    pub(crate) client: Client,
    /// The request of the process that the server has not answered yet.
    pub(crate) running: Option<u32>,
    /// A request that the server will get although its client was told of a loss.
    pub(crate) late: Option<u32>,
}

/// A sleep under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) process: u8,
    pub(crate) request: u32,
    /// The server's time at which it is over.
    pub(crate) due: i64,
}

/// Faults that may still be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Budget {
    pub(crate) crashes: u32,
    pub(crate) kills: u32,
    pub(crate) losses: u32,
    pub(crate) clock: u32,
    pub(crate) cancels: u32,
}

/// What an entry of the journal puts back.
#[derive(Clone, Debug)]
enum Old {
    Process(u8, Process, u128),
    Line(u8, Line, u128),
    LineAdded,
    Timers(Vec<Timer>),
    Budget(Budget, u128),
    Monitor(u8, u32),
}

/// A position in both undo logs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldMark {
    db: Mark,
    journal: usize,
    writers: usize,
    serial: usize,
    history: usize,
}

/// Why a path ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A property does not hold.
    Violation { property: String, detail: String },
    /// The simulator does not model what a process asks for.
    Unsupported(Unsupported),
    /// The exploration itself fails.
    Error(ExploreError),
}

impl Flaw {
    /// The query of a property failed.
    pub(crate) fn of_query(property: &str, error: DbError) -> Flaw {
        Flaw::of_sql(format!("the query of property `{property}`"), error)
    }

    /// SQL that belongs to no process failed.
    pub(crate) fn of_sql(what: String, error: DbError) -> Flaw {
        match error.class {
            ErrorClass::Unsupported => Flaw::Unsupported(Unsupported {
                what: format!("{what}: {}", error.message),
                sql: None,
                position: error.position,
            }),
            _ => Flaw::Error(ExploreError::Sql { what, error }),
        }
    }
}

impl From<ExploreError> for Flaw {
    fn from(error: ExploreError) -> Flaw {
        Flaw::Error(error)
    }
}

/// What the last choice did, for monitors and schedules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Happened {
    pub(crate) process: Option<u8>,
    pub(crate) session: Option<u8>,
    /// The node and the place of the request that was carried out or answered.
    pub(crate) request: Option<(NodeId, usize)>,
    pub(crate) answer: Option<Answer>,
    pub(crate) waits: bool,
    pub(crate) pauses: bool,
    /// Nodes that processes entered.
    pub(crate) entered: Vec<(u8, NodeId)>,
    pub(crate) finished: bool,
}

/// One declared process after names were given.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) name: Arc<str>,
    pub(crate) trie: usize,
    pub(crate) skew_micros: i64,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) sessions: usize,
    pub(crate) cancellable: bool,
    pub(crate) connect: Option<Arc<str>>,
    pub(crate) reconnects: bool,
}

/// Switches that change which choices there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// A crash is noticed by the server at once: one event instead of several.
    pub(crate) prompt_notice: bool,
    /// Rounds of each process; 0 = no bound.
    pub(crate) rounds: u32,
}

/// The world.
pub(crate) struct World<D> {
    pub(crate) db: D,
    pub(crate) actors: Vec<Actor>,
    pub(crate) tries: Vec<Trie>,
    pub(crate) processes: Vec<Process>,
    pub(crate) lines: Vec<Line>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) budget: Budget,
    pub(crate) monitors: Vec<Box<dyn NumberedMonitor>>,
    pub(crate) monitor_states: Vec<u32>,
    /// Monitors that have said so: what must happen has happened.
    pub(crate) occurred: Vec<bool>,
    pub(crate) rules: Rules,
    /// Number of the server's session that is session 0 here; set-up may have used some.
    pub(super) base: u8,
    pub(super) late: Vec<Request>,
    journal: Vec<Old>,
    hash: u128,
    /// The part of each process and of each session in the hash.
    process_hashes: Vec<u128>,
    line_hashes: Vec<u128>,
    budget_hash: u128,
    /// A time with its part in the fingerprint.
    now_hash: (i64, u128),
    /// Every process was declared with one session.
    one_each: bool,
    pub(super) happened: Happened,
    /// Whether [`Happened::answer`] is wanted.
    pub(crate) recording: bool,
    /// Statements given to the server so far.
    pub(crate) statements: u64,
    /// Statements that began to wait.
    pub(crate) waits: u64,
    pub(crate) contention: Contention,
    /// Somebody has seen who is who: workers may not be exchanged.
    pub(crate) tells_apart: bool,
    /// Whether [`World::take_footprint`] is wanted.
    pub(crate) tracking: bool,
    /// Objects of the explorer that the last choice touched.
    pub(super) touched: Vec<u64>,
    pub(super) internals: Vec<crate::database::Internal>,
    /// What was committed so far, if somebody asks whether it is serializable.
    pub(crate) serial: Option<Box<Serial<D>>>,
    /// Who read and wrote what, if somebody asks for anomalies.
    pub(crate) history: Option<Box<History>>,
    /// Whether a process that is done must not leave anything behind.
    pub(crate) no_leak: bool,
}

/// Whether processes got in each other's way at all: one waited, was refused, or read or wrote what
/// another one had written on the same path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contention {
    pub(crate) found: bool,
    /// Objects written on the present path, with the process that did it.
    pub(super) writers: Vec<(u64, u8)>,
}

const PROCESS: u64 = 1;
const LINE: u64 = 2;
const TIMER: u64 = 3;
const BUDGET: u64 = 4;
const MONITOR: u64 = 5;
const NOW: u64 = 6;
/// The server's fingerprint is a sum of hashes as the world's is; the factor keeps them apart.
const SERVER: u128 = 0x9e37_79b9_7f4a_7c15_d6e8_feb8_6659_fd93;

impl<D: Database> World<D> {
    /// Opens the sessions of all processes in the order of declaration.
    pub(crate) fn new(
        mut db: D,
        specs: &[ProcessSpec],
        bounds: &Bounds,
        monitors: Vec<Box<dyn NumberedMonitor>>,
        prompt_notice: bool,
    ) -> Result<World<D>, Flaw> {
        let mut actors = Vec::new();
        let mut tries = Vec::new();
        for spec in specs {
            for copy in 1..=spec.count {
                let name = match spec.count {
                    1 => spec.name.clone(),
                    _ => format!("{}-{copy}", spec.name),
                };
                actors.push(Actor {
                    name: name.into(),
                    trie: tries.len(),
                    skew_micros: spec.skew_micros,
                    isolation: spec.isolation,
                    sessions: spec.sessions,
                    cancellable: spec.cancellable,
                    connect: spec.connect.clone(),
                    reconnects: spec.reconnects,
                });
            }
            tries.push(Trie::new(spec.program.clone(), db.dialect(), spec.sessions));
        }
        let sessions: usize = actors.iter().map(|actor| actor.sessions).sum();
        if actors.len() > 200 || sessions > 200 {
            return Err(Flaw::Error(ExploreError::TooMany(format!(
                "{} processes with {sessions} sessions; at most 200 of each",
                actors.len()
            ))));
        }
        let mut lines = Vec::new();
        let mut base = None;
        for (process, actor) in actors.iter().enumerate() {
            for local in 0..actor.sessions {
                let id = open_session(&mut db, actor, local as u16)?;
                base.get_or_insert(id.0);
                lines.push(Line::open(process, local as u16));
            }
        }
        let processes = vec![
            Process {
                node: NodeId::NONE,
                phase: Phase::Running,
                rounds: 0,
            };
            actors.len()
        ];
        let one_each = actors.iter().all(|actor| actor.sessions == 1);
        let mut world = World {
            db,
            actors,
            tries,
            processes,
            lines,
            timers: Vec::new(),
            budget: Budget {
                crashes: bounds.crashes,
                kills: bounds.kills,
                losses: bounds.losses,
                clock: bounds.clock,
                cancels: bounds.cancels,
            },
            monitor_states: vec![0; monitors.len()],
            occurred: vec![false; monitors.len()],
            monitors,
            rules: Rules {
                prompt_notice,
                rounds: bounds.rounds,
            },
            base: base.unwrap_or(0),
            late: Vec::new(),
            journal: Vec::new(),
            hash: 0,
            process_hashes: Vec::new(),
            line_hashes: Vec::new(),
            budget_hash: 0,
            now_hash: (0, mix(NOW, 0, 0)),
            one_each,
            happened: Happened::default(),
            recording: false,
            statements: 0,
            waits: 0,
            contention: Contention::default(),
            tells_apart: false,
            tracking: false,
            touched: Vec::new(),
            internals: Vec::new(),
            serial: None,
            history: None,
            no_leak: false,
        };
        world.hash_anew();
        Ok(world)
    }

    /// Starts every process. Done once, before the search.
    pub(crate) fn start(&mut self) -> Result<(), Flaw> {
        for process in 0..self.actors.len() {
            let viewer = self.viewer(process);
            let db = &mut self.db;
            let trie = &mut self.tries[self.actors[process].trie];
            let root = trie.root(0, &viewer, &mut |sql| db.prepare(sql))?;
            self.tells_apart |= trie.node(root).looked_at_name();
            self.enter(process, root)?;
        }
        Ok(())
    }

    pub(super) fn viewer(&self, process: usize) -> Viewer {
        let actor = &self.actors[process];
        Viewer {
            process,
            name: Arc::clone(&actor.name),
            now_micros: self.db.now_micros() + actor.skew_micros,
        }
    }

    /// The number of a session in the server.
    pub(super) fn server_id(&self, line: usize) -> SessionId {
        SessionId(self.base + line as u8)
    }

    /// A session of the server as numbered here.
    pub(super) fn line_of(&self, session: SessionId) -> usize {
        usize::from(session.0 - self.base)
    }

    /// The session that a process knows by its local number: the newest one, since a lost session
    /// of the harness is replaced.
    #[inline]
    pub(super) fn line(&self, process: usize, local: u16) -> usize {
        if local == 0 && self.has_one_each() {
            return process;
        }
        self.lines
            .iter()
            .rposition(|line| usize::from(line.process) == process && line.local == local)
            .expect("a process asks only on its own sessions")
    }

    pub(crate) fn node(&self, process: usize) -> &super::trie::Node {
        self.tries[self.actors[process].trie].node(self.processes[process].node)
    }

    /// The name of a session: that of its process, with the number if it has several.
    pub(crate) fn session_name(&self, line: usize) -> Arc<str> {
        let Line { process, local, .. } = self.lines[line];
        let actor = &self.actors[usize::from(process)];
        match actor.sessions {
            1 if local == 0 => Arc::clone(&actor.name),
            _ => format!("{}/{}", actor.name, local + 1).into(),
        }
    }

    /// The process that acts in a choice.
    pub(crate) fn process_of(&self, choice: Choice) -> Option<usize> {
        match choice {
            Choice::Step(ProcessId(p), _)
            | Choice::Crash(ProcessId(p))
            | Choice::Lose(ProcessId(p), ..)
            | Choice::Cancel(ProcessId(p), _) => Some(usize::from(p)),
            Choice::Resume(s)
            | Choice::Continue(s)
            | Choice::Route(s, _)
            | Choice::Deadlock(s)
            | Choice::Expire(s)
            | Choice::Notice(s)
            | Choice::Kill(s)
            | Choice::Late(s) => self
                .lines
                .get(usize::from(s.0))
                .map(|line| usize::from(line.process)),
            Choice::Advance(_) => None,
        }
    }

    pub(crate) fn mark(&self) -> WorldMark {
        WorldMark {
            db: self.db.mark(),
            journal: self.journal.len(),
            writers: self.contention.writers.len(),
            serial: self.serial.as_ref().map_or(0, |serial| serial.mark()),
            history: self.history.as_ref().map_or(0, |history| history.mark()),
        }
    }

    pub(crate) fn undo_to(&mut self, mark: WorldMark) {
        self.db.undo_to(mark.db);
        self.contention.writers.truncate(mark.writers);
        if let Some(serial) = &mut self.serial {
            serial.undo_to(mark.serial);
        }
        if let Some(history) = &mut self.history {
            history.undo_to(mark.history);
        }
        while self.journal.len() > mark.journal {
            let Some(old) = self.journal.pop() else { break };
            match old {
                Old::Process(at, old, hash) => {
                    self.put_process(usize::from(at), old, hash);
                }
                Old::Line(at, old, hash) => {
                    self.put_line(usize::from(at), old, hash);
                }
                Old::LineAdded => {
                    let hash = self.line_hashes.pop().unwrap_or(0);
                    self.hash = self.hash.wrapping_sub(hash);
                    self.lines.pop();
                }
                Old::Timers(old) => self.timers = old,
                Old::Budget(old, hash) => {
                    self.put_budget(old, hash);
                }
                Old::Monitor(at, old) => self.put_monitor(usize::from(at), old),
            }
        }
    }

    /// The fingerprint of the whole world.
    pub(crate) fn fingerprint(&mut self) -> u128 {
        let now = self.db.now_micros();
        if self.now_hash.0 != now {
            self.now_hash = (now, mix(NOW, now as u64, 0));
        }
        let mut sum = self.hash.wrapping_add(self.now_hash.1);
        if let Some(serial) = &self.serial {
            sum = sum.wrapping_add(serial.hash());
        }
        if let Some(history) = &self.history {
            sum = sum.wrapping_add(history.hash());
        }
        for timer in &self.timers {
            sum = sum.wrapping_add(timer.hash(timer.process, now));
        }
        let server = self.db.fingerprint();
        sum.wrapping_add(server.wrapping_mul(SERVER))
    }

    /// Whether every process has the one session that it was declared with: then both have the same
    /// number.
    #[inline]
    pub(super) fn has_one_each(&self) -> bool {
        self.one_each && self.lines.len() == self.actors.len()
    }

    /// The fingerprint around a server's, with processes and sessions under other numbers.
    pub(super) fn fingerprint_numbered(&self, server: u128, process: &[u8], line: &[u8]) -> u128 {
        let now = self.db.now_micros();
        let mut sum = self.hash.wrapping_add(match self.now_hash.0 == now {
            true => self.now_hash.1,
            false => mix(NOW, now as u64, 0),
        });
        for (at, state) in self.processes.iter().enumerate() {
            let new = usize::from(process[at]);
            if new != at {
                sum = sum.wrapping_sub(self.process_hashes[at]);
                sum = sum.wrapping_add(state.hash(new));
            }
        }
        let moved = |at: usize| usize::from(line[at]) != at;
        let one_each = self.has_one_each();
        for (at, state) in self.lines.iter().enumerate().filter(|(at, _)| moved(*at)) {
            let (owner, new) = (process[usize::from(state.process)], usize::from(line[at]));
            let renamed = Line {
                process: owner,
                ..*state
            };
            if one_each {
                // Open sessions among themselves may be exchanged: only the others count.
                let open = |at: usize| Line::open(at, 0);
                if *state != open(at) {
                    sum = sum.wrapping_sub(self.line_hashes[at]);
                    sum = sum.wrapping_add(open(at).hash(at));
                    sum = sum.wrapping_add(renamed.hash(new));
                    sum = sum.wrapping_sub(open(new).hash(new));
                }
                continue;
            }
            sum = sum.wrapping_sub(self.line_hashes[at]);
            sum = sum.wrapping_add(renamed.hash(new));
        }
        for timer in &self.timers {
            let new = process[usize::from(timer.process)];
            sum = sum.wrapping_add(timer.hash(new, now));
        }
        sum.wrapping_add(server.wrapping_mul(SERVER))
    }

    /// Computes the hash of everything outside of the server.
    fn hash_anew(&mut self) {
        self.budget_hash = self.budget.hash();
        let mut sum = self.budget_hash;
        let processes = self.processes.iter().enumerate();
        self.process_hashes = processes.map(|(at, process)| process.hash(at)).collect();
        let lines = self.lines.iter().enumerate();
        self.line_hashes = lines.map(|(at, line)| line.hash(at)).collect();
        for part in self.process_hashes.iter().chain(&self.line_hashes) {
            sum = sum.wrapping_add(*part);
        }
        for (at, state) in self.monitor_states.iter().enumerate() {
            sum = sum.wrapping_add(mix(MONITOR, at as u64, u64::from(*state)));
        }
        self.hash = sum;
    }

    /// Puts a process into a state whose hash is known. Returns the old hash.
    #[inline]
    fn put_process(&mut self, at: usize, new: Process, hash: u128) -> u128 {
        self.processes[at] = new;
        let old = std::mem::replace(&mut self.process_hashes[at], hash);
        self.hash = self.hash.wrapping_sub(old).wrapping_add(hash);
        old
    }

    /// As [`put_process`](Self::put_process), of a session.
    #[inline]
    fn put_line(&mut self, at: usize, new: Line, hash: u128) -> u128 {
        self.lines[at] = new;
        let old = std::mem::replace(&mut self.line_hashes[at], hash);
        self.hash = self.hash.wrapping_sub(old).wrapping_add(hash);
        old
    }

    fn put_budget(&mut self, new: Budget, hash: u128) -> u128 {
        self.budget = new;
        let old = std::mem::replace(&mut self.budget_hash, hash);
        self.hash = self.hash.wrapping_sub(old).wrapping_add(hash);
        old
    }

    fn put_monitor(&mut self, at: usize, new: u32) {
        let old = std::mem::replace(&mut self.monitor_states[at], new);
        let hash = |state: u32| mix(MONITOR, at as u64, u64::from(state));
        self.hash = self.hash.wrapping_sub(hash(old));
        self.hash = self.hash.wrapping_add(hash(new));
    }

    pub(super) fn set_process(&mut self, at: usize, new: Process) {
        let old = self.processes[at];
        if old != new {
            let hash = self.put_process(at, new, new.hash(at));
            self.journal.push(Old::Process(at as u8, old, hash));
        }
    }

    pub(super) fn set_line(&mut self, at: usize, new: Line) {
        let old = self.lines[at];
        if old != new {
            let hash = self.put_line(at, new, new.hash(at));
            self.journal.push(Old::Line(at as u8, old, hash));
        }
    }

    pub(super) fn add_line(&mut self, line: Line) {
        self.touch(Own::Sessions);
        self.journal.push(Old::LineAdded);
        let hash = line.hash(self.lines.len());
        self.hash = self.hash.wrapping_add(hash);
        self.line_hashes.push(hash);
        self.lines.push(line);
    }

    pub(super) fn set_timers(&mut self, timers: Vec<Timer>) {
        if timers != self.timers {
            self.touch(Own::Time);
            let old = std::mem::replace(&mut self.timers, timers);
            self.journal.push(Old::Timers(old));
        }
    }

    pub(super) fn set_budget(&mut self, new: Budget) {
        let old = self.budget;
        let hash = self.put_budget(new, new.hash());
        self.journal.push(Old::Budget(old, hash));
    }

    pub(super) fn set_monitor(&mut self, at: usize, new: u32) {
        let old = self.monitor_states[at];
        if old != new {
            self.journal.push(Old::Monitor(at as u8, old));
            self.put_monitor(at, new);
        }
    }
}

impl Timer {
    /// Its hash as that of a process with the number `process`.
    pub(super) fn hash(&self, process: u8, now_micros: i64) -> u128 {
        let who = u64::from(process) << 32 | u64::from(self.request);
        mix(TIMER, who, (self.due - now_micros) as u64)
    }
}

impl Process {
    #[inline]
    pub(super) fn hash(&self, at: usize) -> u128 {
        let state = u64::from(self.node.0) << 8 | self.phase as u64;
        mix(PROCESS << 32 | at as u64, state, u64::from(self.rounds))
    }
}

impl Line {
    pub(super) fn open(process: usize, local: u16) -> Line {
        Line {
            process: process as u8,
            local,
            client: Client::Open,
            running: None,
            late: None,
        }
    }

    #[inline]
    pub(super) fn hash(&self, at: usize) -> u128 {
        let owner = u64::from(self.process) << 16 | u64::from(self.local);
        let client = owner << 8 | self.client as u64;
        let number = |request: Option<u32>| request.map_or(0, |r| u64::from(r) + 1);
        let requests = number(self.running) << 32 ^ number(self.late);
        mix(LINE << 32 | at as u64, client, requests)
    }
}

impl Budget {
    fn hash(&self) -> u128 {
        let a = u64::from(self.crashes) << 32 | u64::from(self.kills);
        let b = u64::from(self.losses) << 32 | u64::from(self.clock);
        mix(BUDGET << 32 | u64::from(self.cancels), a, b)
    }
}

/// Opens a session of a process, by its number there: it is named as schedules name it.
pub(super) fn open_session(
    db: &mut impl Database,
    actor: &Actor,
    local: u16,
) -> Result<SessionId, Flaw> {
    let session = match local {
        0 => db.connect_client(actor.isolation, &actor.name),
        _ => db.connect_client(actor.isolation, &format!("{}/{}", actor.name, local + 1)),
    };
    let Some(script) = &actor.connect else {
        return Ok(session);
    };
    let what = || format!("the connect script of `{}`", actor.name);
    let error = match db.submit(session, &Request::Batch(Arc::clone(script))) {
        Progress::Done(Answer::Batch(Ok(batch))) => batch.error,
        Progress::Done(Answer::Batch(Err(error)) | Answer::Exec(Err(error))) => Some(error),
        Progress::Done(Answer::Exec(Ok(_))) => None,
        Progress::Waits | Progress::Pauses => {
            Some(DbError::unsupported("a connect script that waits", None))
        }
    };
    match error {
        None => Ok(session),
        Some(error) => Err(Flaw::of_sql(what(), error)),
    }
}

/// What a client is told when it uses a connection that the server ended.
pub(super) fn terminated() -> DbError {
    DbError::postgres(
        "57P01",
        "terminating connection due to administrator command",
    )
}

/// What a client is told when the connection breaks.
pub(super) fn broken() -> DbError {
    DbError::connection_lost("the connection is lost")
}
