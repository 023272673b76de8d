//! The simulated server as the explorer sees it.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::{Granularity, SessionId};
use rowlock_model::{Batch, DbError, Dialect, Isolation, Reply, Value};
use rustc_hash::FxHashMap;

use super::Store;
use super::errors;
use super::flavour::Flavour;
use super::lock::ListedLock;
use super::run::Run;
use super::session::{Diagnostic, Flight, SessionState, Told, Waiting};
use super::statement::{Halt, Parsed};
use crate::database::{
    Answer, Database, Footprint, Internal, Mark, Pause, Progress, Request, StatementId, Wait,
};
use crate::loose::parse;
use crate::loose::types::DeclaredType;

/// What a text was parsed to: its statements up to the first syntax error, and that error.
type Script = Rc<[Result<Rc<Parsed>, DbError>]>;

/// A simulated MySQL or MariaDB server with one database.
#[derive(Clone, Debug)]
pub struct InnoDb {
    pub(super) store: Store,
    /// Prepared texts; they are no part of the state.
    prepared: Vec<Script>,
    /// Their texts.
    pub(super) texts: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, StatementId>,
    scripts: FxHashMap<Arc<str>, Script>,
}

/// Where the clock of a new server stands: 2030-01-01 00:00:00 UTC.
const START_MICROS: i64 = 1_893_456_000_000_000;

/// A request being carried out.
struct Work {
    request: Request,
    replies: Vec<Reply>,
    run: Run,
}

impl InnoDb {
    /// An empty database called `test` on a server of this flavour.
    pub fn new(flavour: Flavour) -> InnoDb {
        InnoDb::with_database(flavour, "test")
    }

    /// An empty database with this name.
    pub fn with_database(flavour: Flavour, database: &str) -> InnoDb {
        InnoDb {
            store: Store::new(flavour, database, START_MICROS),
            prepared: Vec::new(),
            texts: Vec::new(),
            ids: FxHashMap::default(),
            scripts: FxHashMap::default(),
        }
    }

    /// The same server, started with these options (`--innodb_lock_wait_timeout=2`).
    ///
    /// # Errors
    /// `unsupported` for options that would matter and are not modelled.
    pub fn started_with(mut self, options: &[String]) -> Result<InnoDb, DbError> {
        for option in options {
            super::variables::start_with(&mut self.store, option)?;
        }
        Ok(self)
    }

    /// Which server it behaves like.
    pub fn flavour(&self) -> Flavour {
        self.store.flavour
    }

    /// The explicit locks of a session, as `performance_schema.data_locks` lists them.
    pub fn locks(&self, session: SessionId) -> Vec<ListedLock> {
        self.store.listed_locks(session)
    }

    /// For whom a session waits, as the server's own view shows it. MariaDB's view has later requests of
    /// the same queue as well.
    pub fn shown_blockers(&self, session: SessionId) -> Vec<SessionId> {
        let rows = self.store.shown_blockers(session);
        if rows.is_empty() {
            self.store.outer_blockers(session)
        } else {
            rows
        }
    }

    /// What kind of thing a session waits for.
    pub fn waits_for(&self, session: SessionId) -> Option<Waiting> {
        let flight = self.store.session(session).flight.as_ref()?;
        Some(flight.waiting.clone())
    }

    /// The automatic number that the server reported to the client with its last reply; 0 if none.
    pub fn reported_id(&self, session: SessionId) -> i64 {
        self.store.session(session).reported_id
    }

    /// The line that came with the last answer of a session; empty if there was none.
    fn told(&self, session: SessionId) -> Option<String> {
        Some(match self.store.session(session).told {
            Told::Nothing => String::new(),
            Told::Records { records, warnings } => {
                format!("Records: {records}  Duplicates: 0  Warnings: {warnings}")
            }
            Told::Rows {
                matched,
                changed,
                warnings,
            } => format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"),
            Told::NotKept => return None,
        })
    }

    /// From now on the session's changes are counted by rows found, not by rows changed
    /// (`CLIENT_FOUND_ROWS`).
    pub fn count_found_rows(&mut self, session: SessionId) {
        self.store.session_mut(session).counts_found = true;
    }

    fn script(&mut self, text: &str) -> Script {
        if let Some(script) = self.scripts.get(text) {
            return Rc::clone(script);
        }
        let parsed = parse::parse(text, self.store.flavour.dialect());
        let script: Script = parsed
            .into_iter()
            .map(|parsed| parsed.map(|tree| Rc::new(Parsed::new(tree))))
            .collect();
        self.scripts.insert(text.into(), Rc::clone(&script));
        script
    }

    fn work(&mut self, session: SessionId, mut work: Work) -> Progress {
        let result = match work.request.clone() {
            Request::Exec(id, args) => self.run_exec(session, id, &args, &mut work),
            Request::Batch(text) => self.run_batch(session, &text, &mut work),
        };
        let progress = match result {
            Ok(answer) => Progress::Done(answer),
            Err(waiting) => {
                let pauses = matches!(waiting, Waiting::Pause(_));
                self.suspend(session, work, waiting);
                match pauses {
                    true => Progress::Pauses,
                    false => Progress::Waits,
                }
            }
        };
        self.after_step();
        progress
    }

    fn suspend(&mut self, session: SessionId, mut work: Work, waiting: Waiting) {
        let now = self.store.now_unrecorded();
        let settings = &self.store.session(session).settings;
        let until = |seconds: i64| Some(now.saturating_add(seconds.saturating_mul(1_000_000)));
        let usual = match &waiting {
            Waiting::Row => until(settings.row_timeout_s),
            Waiting::Metadata => until(settings.metadata_timeout_s),
            Waiting::UserLock | Waiting::Sleep | Waiting::Pause(_) | Waiting::Nothing(_) => None,
        };
        self.store.view_persists(session);
        let own = work.run.until_micros.take();
        work.run.waits_for_lock = matches!(waiting, Waiting::Row | Waiting::Metadata);
        work.run.waits_for_row = waiting == Waiting::Row;
        let text = Arc::clone(&work.run.text);
        self.store.session_mut(session).flight = Some(Rc::new(Flight {
            request: work.request,
            replies: work.replies,
            run: work.run,
            text,
            waiting,
            until_micros: own.or(usual),
        }));
    }

    /// Between steps, as soon as nobody is about to go on, the server purges.
    fn after_step(&mut self) {
        if !self.store.sessions().any(|s| self.is_ready(s)) {
            self.store.purge();
        }
    }

    fn run_exec(
        &mut self,
        session: SessionId,
        id: StatementId,
        args: &[Value],
        work: &mut Work,
    ) -> Result<Answer, Waiting> {
        let script = Rc::clone(&self.prepared[id.0 as usize]);
        let result = match &script[..] {
            [] => Err(errors::mysql(1065, "42000", "Query was empty")),
            [Err(error)] => Err(error.clone()),
            [Ok(statement)] => match self.statement(session, statement, args, &mut work.run) {
                Ok(reply) => Ok(reply),
                Err(Halt::Wait(waiting)) => return Err(waiting),
                Err(Halt::Error(error)) => Err(*error),
            },
            [_, second, ..] => {
                // One statement only, as a server takes it without multi-statements.
                let at = second.as_ref().map_or(0, |s| s.tree.offset);
                Err(DbError::unsupported("several statements at once", Some(at)))
            }
        };
        Ok(Answer::Exec(self.note(session, &work.run, result)))
    }

    /// What an error means for the session, beyond the transaction.
    fn note(
        &mut self,
        session: SessionId,
        run: &Run,
        result: Result<Reply, DbError>,
    ) -> Result<Reply, DbError> {
        self.diagnose(session, run, result.as_ref().err());
        if result.is_err() {
            self.store.session_mut(session).row_count = -1;
        }
        result
    }

    /// Keeps what `SHOW WARNINGS` will tell. Statements that use no table and have nothing to tell leave
    /// what is there.
    fn diagnose(&mut self, session: SessionId, run: &Run, error: Option<&DbError>) {
        let told = error.is_some() || !run.warnings.is_empty();
        let is_empty = self.store.session(session).diagnostics.is_empty();
        if !told && (is_empty || !run.uses_tables) {
            return;
        }
        let warnings = run.warnings.iter().map(|(code, message)| Diagnostic {
            level: errors::level(*code),
            code: *code,
            message: message.as_str().into(),
        });
        let error = error.map(|error| Diagnostic {
            level: "Error",
            code: error.code.parse().unwrap_or(0),
            message: error.message.as_ref().into(),
        });
        self.store.session_mut(session).diagnostics = warnings.chain(error).collect();
    }

    fn run_batch(
        &mut self,
        session: SessionId,
        text: &str,
        work: &mut Work,
    ) -> Result<Answer, Waiting> {
        let script = self.script(text);
        while work.replies.len() < script.len() {
            let result = match &script[work.replies.len()] {
                Err(error) => Err(error.clone()),
                Ok(statement) => match self.statement(session, statement, &[], &mut work.run) {
                    Ok(reply) => Ok(reply),
                    Err(Halt::Wait(waiting)) => return Err(waiting),
                    Err(Halt::Error(error)) => Err(*error),
                },
            };
            match self.note(session, &work.run, result) {
                Ok(reply) => work.replies.push(reply),
                Err(error) => {
                    let replies = std::mem::take(&mut work.replies);
                    return Ok(self.batch(session, replies, Some(error)));
                }
            }
            work.run = Run::new(self.store.now_unrecorded());
        }
        let replies = std::mem::take(&mut work.replies);
        Ok(self.batch(session, replies, None))
    }

    fn batch(&self, session: SessionId, replies: Vec<Reply>, error: Option<DbError>) -> Answer {
        Answer::Batch(Ok(Batch {
            replies,
            error,
            status: self.store.session(session).status(),
        }))
    }

    fn resume(&mut self, session: SessionId, timed_out: bool) -> Progress {
        let Some(flight) = self.store.session_mut(session).flight.take() else {
            panic!("session {} has nothing to resume", session.0)
        };
        let flight = Rc::unwrap_or_clone(flight);
        if let Waiting::Nothing(answer) = flight.waiting {
            self.after_step();
            return Progress::Done(*answer);
        }
        if !timed_out && flight.waiting == Waiting::Row {
            self.store.trx_mut(session).wait = None;
        }
        let mut run = flight.run;
        run.rewind();
        run.timed_out = timed_out;
        let work = Work {
            request: flight.request,
            replies: flight.replies,
            run,
        };
        self.work(session, work)
    }

    /// Whether what a session waits for is to be had now.
    fn is_ready(&self, session: SessionId) -> bool {
        let Some(flight) = &self.store.session(session).flight else {
            return false;
        };
        if self.store.trx(session).doomed {
            return true;
        }
        match &flight.waiting {
            Waiting::Row => self
                .store
                .trx(session)
                .wait
                .as_ref()
                .is_none_or(|wait| wait.granted),
            Waiting::Metadata => !self.store.waits_for_metadata(session),
            Waiting::UserLock => self.store.user_locks().blocker(session).is_none(),
            Waiting::Sleep => self.is_due(session),
            Waiting::Pause(_) => false,
            Waiting::Nothing(_) => true,
        }
    }

    /// Before which record lock a session pauses.
    fn pause(&self, session: SessionId) -> Option<&str> {
        match &self.store.session(session).flight.as_ref()?.waiting {
            Waiting::Pause(before) => Some(before),
            _ => None,
        }
    }

    fn is_due(&self, session: SessionId) -> bool {
        let now = self.store.now_unrecorded();
        let flight = self.store.session(session).flight.as_ref();
        flight.is_some_and(|flight| flight.until_micros.is_some_and(|until| until <= now))
    }

    /// `KILL QUERY`: the statement that waits ends.
    pub(super) fn interrupt(&mut self, session: SessionId) {
        let Some(flight) = self.store.session(session).flight.clone() else {
            return;
        };
        let mut flight = Rc::unwrap_or_clone(flight);
        if flight.waiting == Waiting::UserLock && self.store.flavour.is_mariadb() {
            self.store.cancel_user_wait(session);
            flight.run.interrupted = true;
            self.store.session_mut(session).flight = Some(Rc::new(flight));
            return;
        }
        if matches!(flight.waiting, Waiting::Nothing(_)) {
            return;
        }
        let error = errors::interrupted();
        let ended = self.settle(session, &mut flight.run, Err(error.clone().into()));
        debug_assert!(ended.is_err());
        let answer = match &flight.request {
            Request::Exec(..) => Answer::Exec(Err(error)),
            Request::Batch(_) => self.batch(session, flight.replies.clone(), Some(error)),
        };
        flight.waiting = Waiting::Nothing(Box::new(answer));
        self.store.session_mut(session).flight = Some(Rc::new(flight));
    }

    /// Ends a session: rollback, all its locks released. A request in flight is answered with `error`.
    pub(super) fn end_session(&mut self, session: SessionId, error: DbError) {
        if self.store.session(session).gone.is_some() {
            return;
        }
        self.store.withdraw_wait(session);
        self.store.withdraw_metadata(session);
        self.store.cancel_user_wait(session);
        self.store.rollback(session);
        self.store.trx_mut(session).doomed = false;
        self.store.release_metadata(session, true);
        self.store.release_user_locks(session);
        self.drop_temporaries(session);
        let state = self.store.session_mut(session);
        state.in_transaction = false;
        state.savepoints.clear();
        state.locked_tables.clear();
        state.gone = Some(Box::new(errors::gone()));
        if let Some(flight) = state.flight.take() {
            let mut flight = Rc::unwrap_or_clone(flight);
            let answer = match &flight.request {
                Request::Exec(..) => Answer::Exec(Err(error)),
                Request::Batch(_) => Answer::Batch(Err(error)),
            };
            flight.waiting = Waiting::Nothing(Box::new(answer));
            state.flight = Some(Rc::new(flight));
        }
    }

    fn wait_object(&self, session: SessionId, waiting: &Waiting) -> String {
        match waiting {
            Waiting::Row => {
                let Some(wait) = self.store.trx(session).wait.as_ref() else {
                    return "row".to_owned();
                };
                let listed = self.store.listed_locks(session);
                let name = listed.iter().find(|l| l.waiting).map(|l| l.notation(false));
                let shape = self.store.schema().shape(wait.table);
                let table = shape.map_or("?", |shape| &*shape.table.name);
                name.map_or_else(|| format!("row of {table}"), |name| format!("row {name}"))
            }
            Waiting::Metadata => match self.store.metadata_wait(session) {
                Some((table, mode)) => format!("metadata {table} {}", mode.name()),
                None => "metadata".to_owned(),
            },
            Waiting::UserLock => match self.store.user_locks().wait(session) {
                Some(name) => format!("user lock {name}"),
                None => "user lock".to_owned(),
            },
            Waiting::Sleep => "sleep".to_owned(),
            Waiting::Pause(before) => before.clone(),
            Waiting::Nothing(_) => "nothing".to_owned(),
        }
    }
}

impl Database for InnoDb {
    fn dialect(&self) -> Dialect {
        self.store.flavour.dialect()
    }

    fn connect(&mut self, isolation: Option<Isolation>) -> SessionId {
        self.store.reads_globals();
        let mut settings = self.store.globals().clone();
        settings.isolation = isolation.unwrap_or(settings.isolation);
        let schema = Arc::clone(&self.store.database);
        self.store.open_session(SessionState::new(settings, schema))
    }

    fn prepare(&mut self, sql: &str) -> StatementId {
        if let Some(id) = self.ids.get(sql) {
            return *id;
        }
        let id = StatementId(u32::try_from(self.prepared.len()).expect("fewer than 2^32 texts"));
        let script = self.script(sql);
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
        Some(&mut self.store.world.trace)
    }

    fn leftovers(&self, session: SessionId) -> Vec<String> {
        self.kept_by(session)
    }

    fn tables(&self) -> Vec<String> {
        self.user_tables()
    }

    fn submit(&mut self, session: SessionId, request: &Request) -> Progress {
        assert!(
            !self.is_busy(session),
            "session {} is given a request while it has one",
            session.0
        );
        if let Some(error) = &self.store.session(session).gone {
            let error = DbError::clone(error);
            return Progress::Done(match request {
                Request::Exec(..) => Answer::Exec(Err(error)),
                Request::Batch(_) => Answer::Batch(Err(error)),
            });
        }
        let work = Work {
            request: request.clone(),
            replies: Vec::new(),
            run: Run::new(self.store.now_unrecorded()),
        };
        self.work(session, work)
    }

    fn internal(&mut self, event: Internal) -> Progress {
        match event {
            Internal::Resume(session) | Internal::Continue(session) => self.resume(session, false),
            Internal::Expire(session) => self.resume(session, true),
            Internal::Route(session, _) => {
                panic!("session {} goes through no pooler", session.0)
            }
            Internal::Deadlock(session) => {
                panic!(
                    "deadlocks are resolved when they arise; session {} is in none",
                    session.0
                )
            }
        }
    }

    fn pending(&self, out: &mut Vec<Internal>) {
        let mut expired = Vec::new();
        for session in self.store.sessions() {
            if self.pause(session).is_some() {
                out.push(Internal::Continue(session));
            } else if self.is_ready(session) {
                out.push(Internal::Resume(session));
            } else if self.is_due(session) {
                expired.push(Internal::Expire(session));
            }
        }
        out.append(&mut expired);
    }

    fn terminate(&mut self, session: SessionId) {
        self.end_session(session, errors::lost());
        self.after_step();
    }

    fn is_busy(&self, session: SessionId) -> bool {
        self.store.session(session).flight.is_some()
    }

    fn is_gone(&self, session: SessionId) -> bool {
        let state = self.store.session(session);
        state.gone.is_some() && state.flight.is_none()
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for session in self.store.sessions() {
            let Some(flight) = &self.store.session(session).flight else {
                continue;
            };
            let mut blockers = match &flight.waiting {
                Waiting::Row => self.store.row_blockers(session),
                Waiting::Metadata | Waiting::UserLock => self.store.outer_blockers(session),
                Waiting::Pause(_) => continue,
                Waiting::Sleep | Waiting::Nothing(_) => Vec::new(),
            };
            blockers.sort();
            waits.push(Wait {
                session,
                blockers,
                object: self.wait_object(session, &flight.waiting),
                granted: self.is_ready(session),
            });
        }
        waits
    }

    fn set_granularity(&mut self, granularity: Granularity) -> Result<(), DbError> {
        self.store.set_pauses(granularity == Granularity::Row);
        Ok(())
    }

    fn pauses(&self) -> Vec<Pause> {
        let pauses = self.store.sessions().filter_map(|session| {
            let before = self.pause(session)?.to_owned();
            Some(Pause { session, before })
        });
        pauses.collect()
    }

    fn info(&self, session: SessionId) -> Option<String> {
        self.told(session)
    }

    fn now_micros(&self) -> i64 {
        self.store.now_unrecorded()
    }

    fn set_now_micros(&mut self, now_micros: i64) {
        self.store.set_now_micros(now_micros);
    }

    fn deadlines(&self, out: &mut Vec<i64>) {
        let now = self.store.now_unrecorded();
        for session in self.store.sessions() {
            let flight = self.store.session(session).flight.as_ref();
            let until = flight.and_then(|flight| flight.until_micros);
            out.extend(until.filter(|at| *at > now && *at < i64::MAX));
        }
        for shape in self.store.schema().shapes() {
            let timed = |ty: &DeclaredType| {
                matches!(ty, DeclaredType::DateTime(_) | DeclaredType::Timestamp(_))
            };
            let columns = shape.table.columns.iter().enumerate();
            let columns: Vec<usize> = columns
                .filter(|(_, c)| timed(&c.ty))
                .map(|(i, _)| i)
                .collect();
            if columns.is_empty() {
                continue;
            }
            for (_, record) in self.store.records(shape.clustered().id).iter() {
                for column in &columns {
                    if let Value::Timestamp(at) = &record.newest.row[*column]
                        && *at > now
                    {
                        out.push(*at);
                    }
                }
            }
        }
    }

    fn committed_version(&self) -> u64 {
        self.store.committed_version()
    }

    fn mark(&self) -> Mark {
        self.store.mark()
    }

    fn undo_to(&mut self, mark: Mark) {
        self.store.undo_to(mark);
    }

    fn fingerprint(&mut self) -> u128 {
        self.store.fingerprint()
    }

    fn begin_footprint(&mut self) {
        self.store.begin_footprint();
    }

    fn end_footprint(&mut self) {
        self.store.end_footprint();
    }

    fn footprint(&self) -> Footprint {
        self.store.footprint()
    }
}
