//! A database of four statements, to test and to measure the explorer without an SQL engine.
//!
//! It has a table of jobs and the statements of a queue that claims with a lock-skip:
//!
//! | text | meaning |
//! | --- | --- |
//! | `claim` | locks the first pending row that nobody has locked and returns its number, if any |
//! | `update $1` | marks the locked row as running; seen by others after `commit` |
//! | `commit` | publishes the mark and unlocks the row |
//! | `done $1` | marks the running row as done, if it is still this session's |
//!
//! Ending a session unlocks its row. A row that is running for a session that is gone becomes
//! pending again: its lease ends ([`Internal::Expire`] of the gone session).
//!
//! With [`Mutant`]s it also misbehaves, so that tests can see the explorer find it.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{
    Batch, Column, DbError, Dialect, Isolation, Reply, Row, Session, TransactionStatus, Value,
};

use crate::database::{
    Answer, Database, Footprint, Internal, Mark, Progress, Renaming, Request, StatementId, Wait,
};
use crate::explore::{Control, Worker};

/// A seeded error of the toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mutant {
    /// None.
    #[default]
    None,
    /// `claim` takes the first pending row even if it is locked.
    ClaimIgnoresLocks,
    /// `done` does not look whose the row is.
    DoneWithoutOwner,
    /// `claim` waits for a locked row instead of passing it over.
    ClaimWaits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Pending,
    Running,
    Done,
}

/// A row. Owner and lock are session numbers, one up; 0 = nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Job {
    state: State,
    owner: u8,
    lock: u8,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Client {
    gone: bool,
    /// Waits for a row, one up.
    waits_for: u8,
}

#[derive(Clone, Copy, Debug)]
enum Old {
    Job(u8, Job),
    Client(u8, Client),
    Connected,
    Now(i64),
    Version(u64),
}

const TEXTS: [&str; 4] = ["claim", "update $1", "commit", "done $1"];
const CLAIM: u32 = 0;
const UPDATE: u32 = 1;
const COMMIT: u32 = 2;
const DONE: u32 = 3;

/// The toy database.
#[derive(Clone, Debug)]
pub struct Toy {
    jobs: Vec<Job>,
    clients: Vec<Client>,
    now_micros: i64,
    version: u64,
    versions: u64,
    journal: Vec<Old>,
    mutant: Mutant,
    texts: Vec<Arc<str>>,
    /// Ready-made replies: row numbers, no row, tags.
    rows: Vec<Reply>,
    none: Reply,
    one: Reply,
    zero: Reply,
    committed: Reply,
    /// Rows read and written since the footprint was begun, a bit each.
    read: u64,
    written: u64,
    hash: u128,
}

impl Toy {
    /// A table of so many pending jobs.
    pub fn new(jobs: u8) -> Toy {
        let columns: Arc<[Column]> = Arc::new([Column {
            name: "row".into(),
            type_name: "int8".into(),
        }]);
        let select = |rows: Arc<[Row]>| Reply {
            columns: Arc::clone(&columns),
            rows,
            tag: "SELECT".into(),
            ..Reply::default()
        };
        let update = |affected| Reply {
            affected,
            tag: "UPDATE".into(),
            ..Reply::default()
        };
        let row = |number| Arc::from([Value::Int(i64::from(number))]);
        let mut toy = Toy {
            jobs: vec![
                Job {
                    state: State::Pending,
                    owner: 0,
                    lock: 0,
                };
                usize::from(jobs)
            ],
            clients: Vec::new(),
            now_micros: 0,
            version: 0,
            versions: 0,
            journal: Vec::new(),
            mutant: Mutant::None,
            texts: TEXTS.map(Arc::from).to_vec(),
            rows: (0..jobs).map(|n| select(Arc::new([row(n)]))).collect(),
            none: select(Arc::new([])),
            one: update(1),
            zero: update(0),
            committed: Reply::tag("COMMIT"),
            read: 0,
            written: 0,
            hash: 0,
        };
        toy.hash = toy.hash_anew();
        toy
    }

    /// With a seeded error.
    #[must_use]
    pub fn with(mut self, mutant: Mutant) -> Toy {
        self.mutant = mutant;
        self
    }

    fn set_job(&mut self, at: usize, new: Job) {
        self.journal.push(Old::Job(at as u8, self.jobs[at]));
        self.put_job(at, new);
        self.written |= 1 << at;
    }

    fn set_client(&mut self, at: usize, new: Client) {
        self.journal.push(Old::Client(at as u8, self.clients[at]));
        self.put_client(at, new);
    }

    fn put_job(&mut self, at: usize, new: Job) {
        let old = std::mem::replace(&mut self.jobs[at], new);
        self.hash = self.hash.wrapping_sub(old.hash_at(at));
        self.hash = self.hash.wrapping_add(new.hash_at(at));
    }

    fn put_client(&mut self, at: usize, new: Client) {
        let old = std::mem::replace(&mut self.clients[at], new);
        self.hash = self.hash.wrapping_sub(old.hash_at(at));
        self.hash = self.hash.wrapping_add(new.hash_at(at));
    }

    fn hash_anew(&self) -> u128 {
        let jobs = self
            .jobs
            .iter()
            .enumerate()
            .map(|(at, job)| job.hash_at(at));
        let clients = self
            .clients
            .iter()
            .enumerate()
            .map(|(at, client)| client.hash_at(at));
        jobs.chain(clients).fold(0, u128::wrapping_add)
    }

    fn publish(&mut self) {
        self.journal.push(Old::Version(self.version));
        self.versions += 1;
        self.version = self.versions;
    }

    fn claim(&mut self, me: u8) -> Progress {
        let free = |job: &Job| job.state == State::Pending;
        let wanted = match self.mutant {
            Mutant::ClaimIgnoresLocks | Mutant::ClaimWaits => self.jobs.iter().position(free),
            _ => self.jobs.iter().position(|job| free(job) && job.lock == 0),
        };
        self.read |= (2 << wanted.unwrap_or(self.jobs.len() - 1)) - 1;
        let Some(at) = wanted else {
            return done(&self.none);
        };
        let at = self.wait_or_lock(at, me);
        match at {
            Some(at) => done(&self.rows[at]),
            None => Progress::Waits,
        }
    }

    /// Locks a row, or waits for it.
    fn wait_or_lock(&mut self, at: usize, me: u8) -> Option<usize> {
        let job = self.jobs[at];
        let client = self.clients[usize::from(me) - 1];
        if job.lock != 0 && self.mutant == Mutant::ClaimWaits {
            let waits_for = at as u8 + 1;
            self.set_client(
                usize::from(me) - 1,
                Client {
                    waits_for,
                    ..client
                },
            );
            return None;
        }
        self.set_job(at, Job { lock: me, ..job });
        Some(at)
    }

    fn exec(&mut self, session: SessionId, statement: StatementId, args: &[Value]) -> Progress {
        let me = session.0 + 1;
        let row = || args.first().and_then(Value::as_int).unwrap_or(0) as usize;
        match statement.0 {
            CLAIM => self.claim(me),
            UPDATE => done(&self.one),
            COMMIT => {
                if self.mutant == Mutant::ClaimIgnoresLocks {
                    // Others may have taken what was locked: whose it is counts.
                    self.read |= (1 << self.jobs.len()) - 1;
                }
                for at in 0..self.jobs.len() {
                    if self.jobs[at].lock == me {
                        let state = State::Running;
                        self.set_job(
                            at,
                            Job {
                                state,
                                owner: me,
                                lock: 0,
                            },
                        );
                        self.publish();
                    }
                }
                done(&self.committed)
            }
            DONE => {
                let at = row();
                self.read |= 1 << at;
                let job = self.jobs[at];
                let mine = job.owner == me || self.mutant == Mutant::DoneWithoutOwner;
                if mine && job.state == State::Running {
                    self.set_job(
                        at,
                        Job {
                            state: State::Done,
                            owner: 0,
                            ..job
                        },
                    );
                    self.publish();
                    done(&self.one)
                } else {
                    done(&self.zero)
                }
            }
            other => Progress::Done(Answer::Exec(Err(DbError::postgres(
                "42601",
                format!("syntax error at or near \"{}\"", self.texts[other as usize]),
            )))),
        }
    }
}

fn done(reply: &Reply) -> Progress {
    Progress::Done(Answer::Exec(Ok(reply.clone())))
}

impl Job {
    fn hash_at(self, at: usize) -> u128 {
        let word = (self.state as u64) << 16 | u64::from(self.owner) << 8 | u64::from(self.lock);
        crate::explore::mix(at as u64, word, 1)
    }
}

impl Client {
    fn hash_at(self, at: usize) -> u128 {
        let word = u64::from(self.gone) << 8 | u64::from(self.waits_for);
        crate::explore::mix(at as u64, word, 2)
    }
}

impl Database for Toy {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn footprints_are_shown(&self) -> bool {
        // By `tests/reductions.rs`.
        true
    }

    fn connect(&mut self, _: Option<Isolation>) -> SessionId {
        self.journal.push(Old::Connected);
        let at = self.clients.len();
        self.clients.push(Client::default());
        self.hash = self.hash.wrapping_add(Client::default().hash_at(at));
        SessionId(at as u8)
    }

    fn prepare(&mut self, sql: &str) -> StatementId {
        let known = self.texts.iter().position(|text| &**text == sql);
        let at = known.unwrap_or_else(|| {
            self.texts.push(sql.into());
            self.texts.len() - 1
        });
        StatementId(at as u32)
    }

    fn text(&self, statement: StatementId) -> Arc<str> {
        Arc::clone(&self.texts[statement.0 as usize])
    }

    fn submit(&mut self, session: SessionId, request: &Request) -> Progress {
        assert!(!self.is_busy(session), "session {} is busy", session.0);
        match request {
            Request::Exec(..) if self.is_gone(session) => {
                let message = "terminating connection due to administrator command";
                Progress::Done(Answer::Exec(Err(DbError::postgres("57P01", message))))
            }
            Request::Exec(statement, args) => self.exec(session, *statement, args),
            Request::Batch(_) => Progress::Done(Answer::Batch(Ok(Batch {
                replies: Vec::new(),
                error: Some(DbError::unsupported("a script", Some(0))),
                status: TransactionStatus::Idle,
            }))),
        }
    }

    fn internal(&mut self, event: Internal) -> Progress {
        match event {
            Internal::Expire(session) => {
                let owner = session.0 + 1;
                for at in 0..self.jobs.len() {
                    let job = self.jobs[at];
                    if job.owner == owner && job.state == State::Running && job.lock == 0 {
                        let state = State::Pending;
                        self.set_job(
                            at,
                            Job {
                                state,
                                owner: 0,
                                ..job
                            },
                        );
                        self.publish();
                    }
                }
                done(&self.zero)
            }
            Internal::Continue(_) | Internal::Route(..) => unreachable!("nothing pauses"),
            Internal::Resume(session) => {
                let at = usize::from(session.0);
                let client = self.clients[at];
                self.set_client(
                    at,
                    Client {
                        waits_for: 0,
                        ..client
                    },
                );
                self.claim(session.0 + 1)
            }
            Internal::Deadlock(_) => unreachable!("one lock at a time makes no deadlock"),
        }
    }

    fn pending(&self, out: &mut Vec<Internal>) {
        for (at, client) in self.clients.iter().enumerate() {
            let session = SessionId(at as u8);
            let stale = |job: &Job| {
                job.owner == session.0 + 1 && job.state == State::Running && job.lock == 0
            };
            if client.gone && self.jobs.iter().any(stale) {
                out.push(Internal::Expire(session));
            }
            if client.waits_for > 0 && self.jobs[usize::from(client.waits_for) - 1].lock == 0 {
                out.push(Internal::Resume(session));
            }
        }
        out.sort_unstable();
    }

    fn terminate(&mut self, session: SessionId) {
        let me = session.0 + 1;
        for at in 0..self.jobs.len() {
            let job = self.jobs[at];
            if job.lock == me {
                self.set_job(at, Job { lock: 0, ..job });
            }
        }
        let gone = Client {
            gone: true,
            waits_for: 0,
        };
        self.set_client(usize::from(session.0), gone);
    }

    fn is_busy(&self, session: SessionId) -> bool {
        self.clients[usize::from(session.0)].waits_for > 0
    }

    fn is_gone(&self, session: SessionId) -> bool {
        self.clients[usize::from(session.0)].gone
    }

    fn waits(&self) -> Vec<Wait> {
        let waiting = self
            .clients
            .iter()
            .enumerate()
            .filter(|(_, c)| c.waits_for > 0);
        waiting
            .map(|(at, client)| {
                let row = usize::from(client.waits_for) - 1;
                let lock = self.jobs[row].lock;
                Wait {
                    session: SessionId(at as u8),
                    blockers: lock.checked_sub(1).map(SessionId).into_iter().collect(),
                    object: format!("row {row}"),
                    granted: lock == 0,
                }
            })
            .collect()
    }

    fn now_micros(&self) -> i64 {
        self.now_micros
    }

    fn set_now_micros(&mut self, now_micros: i64) {
        self.journal.push(Old::Now(self.now_micros));
        self.now_micros = now_micros;
        self.publish();
    }

    fn deadlines(&self, _: &mut Vec<i64>) {}

    /// `running` returns the rows that are running, with their owners; `pending` and `done` the
    /// rows in that state.
    fn query(&mut self, query: StatementId, _: &[Value]) -> Result<Vec<Row>, DbError> {
        let state = match &*self.texts[query.0 as usize] {
            "running" => State::Running,
            "pending" => State::Pending,
            "done" => State::Done,
            other => {
                let message = format!("syntax error at or near \"{other}\"");
                return Err(DbError::postgres("42601", message));
            }
        };
        let rows = self
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, job)| job.state == state);
        Ok(rows
            .map(|(at, job)| Row::from([Value::Int(at as i64), Value::Int(i64::from(job.owner))]))
            .collect())
    }

    fn committed_version(&self) -> u64 {
        self.version
    }

    fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    fn undo_to(&mut self, mark: Mark) {
        while self.journal.len() > mark.0 {
            match self.journal.pop() {
                Some(Old::Job(at, old)) => self.put_job(usize::from(at), old),
                Some(Old::Client(at, old)) => self.put_client(usize::from(at), old),
                Some(Old::Connected) => {
                    let at = self.clients.len() - 1;
                    self.hash = self.hash.wrapping_sub(self.clients[at].hash_at(at));
                    self.clients.pop();
                }
                Some(Old::Now(old)) => self.now_micros = old,
                Some(Old::Version(old)) => self.version = old,
                None => {}
            }
        }
    }

    fn fingerprint(&mut self) -> u128 {
        self.hash
    }

    fn has_timeouts(&self, _: SessionId) -> bool {
        false
    }

    fn fingerprint_renamed(&mut self, renaming: &Renaming) -> Option<u128> {
        let new = |number: u8| match number.checked_sub(1) {
            None => 0,
            Some(session) => renaming.sessions[usize::from(session)] + 1,
        };
        let jobs = self.jobs.iter().enumerate().map(|(at, job)| {
            let (owner, lock) = (new(job.owner), new(job.lock));
            Job {
                owner,
                lock,
                ..*job
            }
            .hash_at(at)
        });
        let clients = self.clients.iter().enumerate().map(|(at, client)| {
            let at = usize::from(renaming.sessions[at]);
            client.hash_at(at)
        });
        Some(jobs.chain(clients).fold(0, u128::wrapping_add))
    }

    fn session_colour(&mut self, session: SessionId, _: &Renaming) -> u128 {
        let me = session.0 + 1;
        let client = self.clients[usize::from(session.0)].hash_at(0);
        let mine = |number: u8| u8::from(number == me);
        let jobs = self.jobs.iter().enumerate();
        let jobs = jobs.filter(|(_, job)| job.owner == me || job.lock == me);
        jobs.map(|(at, job)| {
            let (owner, lock) = (mine(job.owner), mine(job.lock));
            Job {
                owner,
                lock,
                ..*job
            }
            .hash_at(at)
        })
        .fold(client, u128::wrapping_add)
    }

    fn shows_sessions(&self) -> bool {
        // Rows with their owners are shown to properties only, which hold for all or for none.
        false
    }

    fn begin_footprint(&mut self) {
        self.read = 0;
        self.written = 0;
    }

    fn end_footprint(&mut self) {}

    fn footprint(&self) -> Footprint {
        let names = |rows: u64| {
            (0..64)
                .filter(|at| rows >> at & 1 == 1)
                .map(|at| at + Footprint::SHARED_BELOW)
                .collect()
        };
        Footprint {
            reads: names(self.read & !self.written),
            writes: names(self.written),
        }
    }
}

/// The step function of a worker: claims one job and finishes it; done when nothing is left.
///
/// # Errors
/// What the database answered.
pub async fn worker(mut worker: Worker, (): ()) -> Result<Control<()>, DbError> {
    let mut session = worker.session();
    match work_once(&mut session).await? {
        Some(_) => Ok(Control::Again(())),
        None => Ok(Control::Done),
    }
}

/// The same worker as one future with its loop inside.
///
/// # Errors
/// What the database answered.
pub async fn looping_worker(mut worker: Worker) -> Result<(), DbError> {
    let mut session = worker.session();
    while work_once(&mut session).await?.is_some() {}
    Ok(())
}

/// Claims a job and finishes it; the job, if there was one.
///
/// # Errors
/// What the database answered.
pub async fn work_once(session: &mut impl Session) -> Result<Option<Value>, DbError> {
    let claimed = session.exec("claim", &[]).await?;
    let Some(row) = claimed.scalar().cloned() else {
        return Ok(None);
    };
    session
        .exec("update $1", std::slice::from_ref(&row))
        .await?;
    session.exec("commit", &[]).await?;
    session.exec("done $1", std::slice::from_ref(&row)).await?;
    Ok(Some(row))
}
