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
    Answer, Database, Footprint, Internal, Mark, Progress, Renaming, Request, StatementId,
    Submitted, Wait,
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
    Job(u8, Job, u128),
    Client(u8, Client, u128),
    Connected,
    Now(i64),
    Version(u64),
}

/// Numbers of answers.
const NONE: u32 = 0;
const ONE: u32 = 1;
const ZERO: u32 = 2;
const COMMITTED: u32 = 3;
const FIRST_ROW: u32 = 4;

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
    /// Every answer that is no error: see [`NONE`] and what follows, then the rows by number.
    answers: Vec<Reply>,
    /// Rows read and written since the footprint was begun, a bit each.
    read: u64,
    written: u64,
    hash: u128,
    /// The part of each row and of each session in it.
    job_hashes: Vec<u128>,
    client_hashes: Vec<u128>,
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
            answers: [
                select(Arc::new([])),
                update(1),
                update(0),
                Reply::tag("COMMIT"),
            ]
            .into_iter()
            .chain((0..jobs).map(|n| select(Arc::new([row(n)]))))
            .collect(),
            read: 0,
            written: 0,
            hash: 0,
            job_hashes: Vec::new(),
            client_hashes: Vec::new(),
        };
        toy.hash_anew();
        toy
    }

    /// With a seeded error.
    #[must_use]
    pub fn with(mut self, mutant: Mutant) -> Toy {
        self.mutant = mutant;
        self
    }

    fn set_job(&mut self, at: usize, new: Job) {
        let old = self.jobs[at];
        let hash = self.put_job(at, new, new.hash_at(at));
        self.journal.push(Old::Job(at as u8, old, hash));
        self.written |= 1 << at;
    }

    fn set_client(&mut self, at: usize, new: Client) {
        let old = self.clients[at];
        let hash = self.put_client(at, new, new.hash_at(at));
        self.journal.push(Old::Client(at as u8, old, hash));
    }

    /// Puts a row into a state whose hash is known. Returns the old hash.
    fn put_job(&mut self, at: usize, new: Job, hash: u128) -> u128 {
        self.jobs[at] = new;
        let old = std::mem::replace(&mut self.job_hashes[at], hash);
        self.hash = self.hash.wrapping_sub(old).wrapping_add(hash);
        old
    }

    fn put_client(&mut self, at: usize, new: Client, hash: u128) -> u128 {
        self.clients[at] = new;
        let old = std::mem::replace(&mut self.client_hashes[at], hash);
        self.hash = self.hash.wrapping_sub(old).wrapping_add(hash);
        old
    }

    fn hash_anew(&mut self) {
        let jobs = self.jobs.iter().enumerate();
        self.job_hashes = jobs.map(|(at, job)| job.hash_at(at)).collect();
        let clients = self.clients.iter().enumerate();
        self.client_hashes = clients.map(|(at, client)| client.hash_at(at)).collect();
        let parts = self.job_hashes.iter().chain(&self.client_hashes);
        self.hash = parts.copied().fold(0, u128::wrapping_add);
    }

    /// The answer itself, for who does not know it by number.
    fn spelled_out(&self, submitted: Submitted) -> Progress {
        match submitted {
            Submitted::Known(number) => Progress::Done(self.known_answer(number)),
            Submitted::Other(progress) => progress,
        }
    }

    fn publish(&mut self) {
        self.journal.push(Old::Version(self.version));
        self.versions += 1;
        self.version = self.versions;
    }

    fn claim(&mut self, me: u8) -> Submitted {
        let free = |job: &Job| job.state == State::Pending;
        let wanted = match self.mutant {
            Mutant::ClaimIgnoresLocks | Mutant::ClaimWaits => self.jobs.iter().position(free),
            _ => self.jobs.iter().position(|job| free(job) && job.lock == 0),
        };
        self.read |= (2 << wanted.unwrap_or(self.jobs.len() - 1)) - 1;
        let Some(at) = wanted else {
            return Submitted::Known(NONE);
        };
        let at = self.wait_or_lock(at, me);
        match at {
            Some(at) => Submitted::Known(FIRST_ROW + at as u32),
            None => Submitted::Other(Progress::Waits),
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

    fn exec(&mut self, session: SessionId, statement: StatementId, args: &[Value]) -> Submitted {
        let me = session.0 + 1;
        let row = || args.first().and_then(Value::as_int).unwrap_or(0) as usize;
        match statement.0 {
            CLAIM => self.claim(me),
            UPDATE => Submitted::Known(ONE),
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
                Submitted::Known(COMMITTED)
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
                    Submitted::Known(ONE)
                } else {
                    Submitted::Known(ZERO)
                }
            }
            other => Submitted::Other(Progress::Done(Answer::Exec(Err(DbError::postgres(
                "42601",
                format!("syntax error at or near \"{}\"", self.texts[other as usize]),
            ))))),
        }
    }
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
        let hash = Client::default().hash_at(at);
        self.client_hashes.push(hash);
        self.hash = self.hash.wrapping_add(hash);
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
        let submitted = self.submit_numbered(session, request);
        self.spelled_out(submitted)
    }

    fn known_answer(&self, number: u32) -> Answer {
        Answer::Exec(Ok(self.answers[number as usize].clone()))
    }

    fn submit_numbered(&mut self, session: SessionId, request: &Request) -> Submitted {
        assert!(!self.is_busy(session), "session {} is busy", session.0);
        match request {
            Request::Exec(..) if self.is_gone(session) => {
                let message = "terminating connection due to administrator command";
                let error = DbError::postgres("57P01", message);
                Submitted::Other(Progress::Done(Answer::Exec(Err(error))))
            }
            Request::Exec(statement, args) => self.exec(session, *statement, args),
            Request::Batch(_) => Submitted::Other(Progress::Done(Answer::Batch(Ok(Batch {
                replies: Vec::new(),
                error: Some(DbError::unsupported("a script", Some(0))),
                status: TransactionStatus::Idle,
            })))),
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
                self.spelled_out(Submitted::Known(ZERO))
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
                let claimed = self.claim(session.0 + 1);
                self.spelled_out(claimed)
            }
            Internal::Deadlock(_) => unreachable!("one lock at a time makes no deadlock"),
        }
    }

    fn pending(&self, out: &mut Vec<Internal>) {
        let is_plain = |client: &Client| !client.gone && client.waits_for == 0;
        for (at, client) in self.clients.iter().enumerate() {
            if is_plain(client) {
                continue;
            }
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
        // Whose each row is decides whether a lease may run out from now on.
        self.read |= (1 << self.jobs.len()) - 1;
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
                Some(Old::Job(at, old, hash)) => {
                    self.put_job(usize::from(at), old, hash);
                }
                Some(Old::Client(at, old, hash)) => {
                    self.put_client(usize::from(at), old, hash);
                }
                Some(Old::Connected) => {
                    let hash = self.client_hashes.pop().unwrap_or(0);
                    self.hash = self.hash.wrapping_sub(hash);
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
        let mut sum = self.hash;
        for (at, job) in self.jobs.iter().enumerate() {
            let (owner, lock) = (new(job.owner), new(job.lock));
            if (owner, lock) != (job.owner, job.lock) {
                let renamed = Job {
                    owner,
                    lock,
                    ..*job
                };
                sum = sum.wrapping_sub(self.job_hashes[at]);
                sum = sum.wrapping_add(renamed.hash_at(at));
            }
        }
        // Idle sessions among themselves may be exchanged: only the others count.
        let idle = Client::default();
        let others = self.clients.iter().enumerate().filter(|(_, c)| **c != idle);
        for (at, client) in others {
            let new = usize::from(renaming.sessions[at]);
            sum = sum.wrapping_sub(self.client_hashes[at]);
            sum = sum.wrapping_add(idle.hash_at(at));
            sum = sum.wrapping_add(client.hash_at(new));
            sum = sum.wrapping_sub(idle.hash_at(new));
        }
        Some(sum)
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
