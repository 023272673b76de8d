//! The simulated file as the explorer sees it: one connection is one session.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{Batch, DbError, Dialect, Isolation, Reply, Row, Value};

use super::Sqlite;
use super::exec::Exec;
use super::lock::busy;
use super::object::{Inner, Key, Object};
use super::session::{Counts, Flight, Need, SessionState, Settings};
use super::statement::Halt;
use super::transaction::ended;
use crate::database::{
    Answer, Database, Footprint, Internal, Mark, Progress, Request, StatementId, Wait,
};
use crate::loose::parse::Parsed;
use crate::loose::plan::PlanKind;
use crate::loose::run::Executor;
use crate::loose::storage::Stop;

/// A request being carried out.
struct Work {
    request: Request,
    replies: Vec<Reply>,
    finished: Option<Reply>,
    since_micros: Option<i64>,
}

/// The statements of a text, up to the first syntax error.
pub(super) type Script = Rc<[Result<Rc<Parsed>, DbError>]>;

impl Sqlite {
    pub(super) fn script(&mut self, text: &str) -> Script {
        if let Some(script) = self.scripts.get(text) {
            return Rc::clone(script);
        }
        let parsed = crate::loose::parse(text, Dialect::Sqlite);
        let script: Script = parsed.into_iter().map(|p| p.map(Rc::new)).collect();
        self.scripts.insert(text.into(), Rc::clone(&script));
        script
    }

    fn work_on(&mut self, session: SessionId, mut work: Work) -> Progress {
        match self.run_request(session, &mut work) {
            Ok(answer) => Progress::Done(answer),
            Err(need) => {
                let now = self.now();
                let flight = Flight {
                    request: work.request,
                    replies: work.replies,
                    finished: work.finished,
                    need,
                    since_micros: work.since_micros.unwrap_or(now),
                };
                self.session_mut(session).flight = Some(Rc::new(flight));
                Progress::Waits
            }
        }
    }

    /// `Err` is what it waits for.
    fn run_request(&mut self, session: SessionId, work: &mut Work) -> Result<Answer, Need> {
        match work.request.clone() {
            Request::Exec(id, args) => {
                let script = Rc::clone(&self.prepared[id.0 as usize]);
                let result = match &script[..] {
                    [] => Ok(Reply::tag("")),
                    [Err(error)] => Err(error.clone()),
                    [Ok(statement)] => self.one(session, statement, &args, work)?,
                    [Ok(_), ..] | [Err(_), ..] => Err(DbError::unsupported(
                        "several statements in one request with arguments",
                        None,
                    )),
                };
                Ok(Answer::Exec(result))
            }
            Request::Batch(text) => {
                let script = self.script(&text);
                let mut error = None;
                while work.replies.len() < script.len() {
                    let result = match &script[work.replies.len()] {
                        Ok(statement) => self.one(session, statement, &[], work)?,
                        Err(error) => Err(error.clone()),
                    };
                    work.since_micros = None;
                    match result {
                        Ok(reply) => work.replies.push(reply),
                        Err(failed) => {
                            error = Some(failed);
                            break;
                        }
                    }
                }
                Ok(Answer::Batch(Ok(Batch {
                    replies: std::mem::take(&mut work.replies),
                    error,
                    status: self.session(session).status(),
                })))
            }
        }
    }

    /// One statement, or what is left of it after a wait.
    fn one(
        &mut self,
        session: SessionId,
        statement: &Rc<Parsed>,
        args: &[Value],
        work: &mut Work,
    ) -> Result<Result<Reply, DbError>, Need> {
        let result = match work.finished.take() {
            Some(reply) => self.commit_alone(session, reply.clone()).map(|()| reply),
            None => self.statement(session, statement, args),
        };
        match result {
            Ok(reply) => Ok(Ok(reply)),
            Err(Halt::Error(error)) => Ok(Err(*error)),
            Err(Halt::Wait(need)) => Err(need),
            Err(Halt::WaitCommit(reply)) => {
                work.finished = Some(*reply);
                Err(Need::Alone)
            }
        }
    }

    fn resume(&mut self, session: SessionId) -> Progress {
        let Some(flight) = self.session_mut(session).flight.take() else {
            panic!("session {} has nothing to resume", session.0)
        };
        let flight = Rc::unwrap_or_clone(flight);
        let work = Work {
            request: flight.request,
            replies: flight.replies,
            finished: flight.finished,
            since_micros: Some(flight.since_micros),
        };
        self.work_on(session, work)
    }

    /// The busy timeout of a waiting connection has run out.
    fn expire(&mut self, session: SessionId) -> Progress {
        let Some(flight) = self.session_mut(session).flight.take() else {
            panic!("session {} waits for nothing", session.0)
        };
        // A statement that is a transaction of its own is undone; so is BEGIN EXCLUSIVE, which holds
        // a lock already. A transaction stays open, also after a COMMIT that was busy.
        if !self.session(session).in_transaction {
            self.rollback(session);
        }
        let flight = Rc::unwrap_or_clone(flight);
        Progress::Done(match flight.request {
            Request::Exec(..) => Answer::Exec(Err(busy())),
            Request::Batch(_) => Answer::Batch(Ok(Batch {
                replies: flight.replies,
                error: Some(busy()),
                status: self.session(session).status(),
            })),
        })
    }

    /// When the busy timeout of a waiting connection runs out.
    fn deadline(&self, session: SessionId) -> Option<i64> {
        let state = self.session(session);
        let flight = state.flight.as_ref()?;
        Some(flight.since_micros + state.settings.busy_timeout_ms * 1_000)
    }

    /// A waiting connection would get what it polls for.
    fn is_ready(&self, session: SessionId) -> bool {
        let state = self.session(session);
        let Some(flight) = &state.flight else {
            return false;
        };
        let free = |need| self.in_the_way(session, need).is_empty();
        match flight.need {
            // Who writes begins to read first.
            Need::Write => free(Need::Read) && free(Need::Write),
            need => free(need),
        }
    }
}

impl Database for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn footprints_are_shown(&self) -> bool {
        // By the random programs of `tests/reductions.rs`.
        true
    }

    fn connect(&mut self, _isolation: Option<Isolation>) -> SessionId {
        let counters = self.world.counters_mut();
        let session = SessionId(counters.sessions);
        counters.sessions += 1;
        let state = SessionState {
            settings: Settings {
                synchronous: super::session::Synchronous(2),
                ..Settings::default()
            },
            ..SessionState::default()
        };
        self.world.create(
            Some(Key::Session(session)),
            Object(Inner::Session(session, Box::new(state))),
        );
        session
    }

    fn prepare(&mut self, sql: &str) -> StatementId {
        if let Some(id) = self.ids.get(sql) {
            return *id;
        }
        self.watch_counts(sql);
        let script = self.script(sql);
        let id = StatementId(u32::try_from(self.prepared.len()).expect("fewer than 2^32 texts"));
        self.prepared.push(script);
        let text: Arc<str> = sql.into();
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    fn text(&self, statement: StatementId) -> Arc<str> {
        self.text_of(statement)
    }

    fn has_transaction(&self, session: SessionId) -> bool {
        self.is_in_transaction(session)
    }

    fn tracer(&mut self) -> Option<&mut crate::trace::Tracer> {
        Some(&mut self.world.trace)
    }

    fn leftovers(&self, session: SessionId) -> Vec<String> {
        self.kept_by(session)
    }

    fn tables(&self) -> Vec<String> {
        self.user_tables()
    }

    fn submit(&mut self, session: SessionId, request: &Request) -> Progress {
        if let Request::Batch(text) = request {
            self.watch_counts(text);
        }
        assert!(
            !self.is_busy(session),
            "session {} is given a request while it has one",
            session.0
        );
        if let Some(error) = &self.session(session).gone {
            let error = DbError::clone(error);
            return Progress::Done(match request {
                Request::Exec(..) => Answer::Exec(Err(error)),
                Request::Batch(_) => Answer::Batch(Err(error)),
            });
        }
        self.work_on(
            session,
            Work {
                request: request.clone(),
                replies: Vec::new(),
                finished: None,
                since_micros: None,
            },
        )
    }

    fn internal(&mut self, event: Internal) -> Progress {
        match event {
            Internal::Resume(session) => self.resume(session),
            Internal::Expire(session) => self.expire(session),
            Internal::Continue(session) | Internal::Route(session, _) => {
                panic!("session {} does not pause", session.0)
            }
            Internal::Deadlock(session) => {
                panic!("SQLite detects no deadlock, of session {}", session.0)
            }
        }
    }

    fn pending(&self, out: &mut Vec<Internal>) {
        let now = self.now();
        let mut expired = Vec::new();
        for session in self.sessions() {
            if self.is_ready(session) {
                out.push(Internal::Resume(session));
            } else if self.deadline(session).is_some_and(|at| at <= now) {
                expired.push(Internal::Expire(session));
            }
        }
        out.append(&mut expired);
    }

    fn terminate(&mut self, session: SessionId) {
        self.rollback(session);
        let state = self.session_mut(session);
        state.flight = None;
        state.gone = Some(Rc::new(ended()));
    }

    fn is_busy(&self, session: SessionId) -> bool {
        self.session(session).flight.is_some()
    }

    fn is_gone(&self, session: SessionId) -> bool {
        self.session(session).gone.is_some()
    }

    fn waits(&self) -> Vec<Wait> {
        let wait = |session: SessionId| {
            let flight = self.session(session).flight.as_ref()?;
            let mut blockers = self.in_the_way(session, flight.need);
            if flight.need == Need::Write {
                blockers.extend(self.in_the_way(session, Need::Read));
                blockers.sort_unstable();
                blockers.dedup();
            }
            let object = match flight.need {
                Need::Read => "the file, to read it",
                Need::Write => "the file, to write it",
                Need::Alone => "the file's readers",
            };
            Some(Wait {
                session,
                blockers,
                object: object.to_owned(),
                granted: self.is_ready(session),
            })
        };
        self.sessions().filter_map(wait).collect()
    }

    fn now_micros(&self) -> i64 {
        self.now()
    }

    fn set_now_micros(&mut self, now_micros: i64) {
        self.note_clock(true);
        self.world.counters_mut().committed += 1;
        let slot = self.clock;
        self.world.write(slot).0 = Inner::Clock(now_micros);
    }

    fn deadlines(&self, out: &mut Vec<i64>) {
        let now = self.now();
        let ahead = self.sessions().filter_map(|session| self.deadline(session));
        out.extend(ahead.filter(|at| *at > now));
        self.times_in_rows(now, out);
    }

    fn query(&mut self, query: StatementId, args: &[Value]) -> Result<Vec<Row>, DbError> {
        let script = Rc::clone(&self.prepared[query.0 as usize]);
        let parsed = match &script[..] {
            [Ok(parsed)] => parsed,
            [Err(error), ..] => return Err(error.clone()),
            _ => {
                return Err(DbError::unsupported(
                    "a property of several statements",
                    None,
                ));
            }
        };
        let image = Rc::clone(&self.file().image);
        let plan = crate::loose::lower(parsed, &*image, args)?;
        if !matches!(plan.kind, PlanKind::Query(_)) {
            return Err(DbError::unsupported("a property that changes data", None));
        }
        let (now, settings) = (self.now(), Settings::default());
        let mut exec = Exec::new((*image).clone(), args, now, settings, Counts::default());
        match Executor::new(&mut exec, Dialect::Sqlite).run(&plan) {
            Ok(outcome) => Ok(outcome.rows),
            Err(Stop::Error(error)) => Err(*error),
            Err(Stop::Wait) => panic!("a query of SQLite does not wait"),
        }
    }

    fn committed_version(&self) -> u64 {
        self.world.counters().committed
    }

    fn mark(&self) -> Mark {
        self.world.mark()
    }

    fn undo_to(&mut self, mark: Mark) {
        self.world.undo_to(mark);
    }

    fn fingerprint(&mut self) -> u128 {
        self.world.fingerprint()
    }

    fn begin_footprint(&mut self) {
        self.world.footprint.begin();
    }

    fn end_footprint(&mut self) {
        self.world.footprint.off();
    }

    fn footprint(&self) -> Footprint {
        self.world.footprint.footprint()
    }
}

impl Sqlite {
    /// Programs that ask for counts can see them, and then they belong to the state.
    fn watch_counts(&mut self, text: &str) {
        let lower = text.to_ascii_lowercase();
        let asks = ["changes()", "last_insert_rowid()"];
        if asks.iter().any(|name| lower.contains(name)) {
            let slot = self.clock;
            self.world.set_exact(slot);
        }
    }

    /// Times to come that stand in rows as texts, as `datetime()` writes them: leases that expire.
    fn times_in_rows(&self, now: i64, out: &mut Vec<i64>) {
        let image = &self.file().image;
        for table in image.schema.tables.values() {
            for row in image.data(table.id).rows.values() {
                let times = row.iter().filter_map(|value| match value {
                    Value::Text(text) if text.len() >= 19 => {
                        crate::loose::temporal::parse_datetime(text)
                    }
                    Value::Int(number) => instant(*number, now),
                    _ => None,
                });
                out.extend(times.filter(|at| *at > now));
            }
        }
    }
}

/// SQLite has no type for instants: programs keep them as numbers, seconds, milliseconds or
/// microseconds since 1970. A number that is one of these within the next day is taken for one; if it
/// is none, the clock moves once more often than it had to.
fn instant(number: i64, now: i64) -> Option<i64> {
    const DAY_MICROS: i64 = 24 * 3_600 * 1_000_000;
    let units = [1_000_000, 1_000, 1];
    let mut instants = units.iter().filter_map(|unit| number.checked_mul(*unit));
    instants.find(|at| *at > now && *at <= now + DAY_MICROS)
}

/// A text and its number.
pub(super) type Ids = rustc_hash::FxHashMap<Arc<str>, StatementId>;
