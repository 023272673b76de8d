//! A live server as a [`Stage`].
//!
//! Whether a session is blocked is what the server says, never a guess from time passing: after a
//! statement was sent, [`settle`](Stage::settle) waits until every busy session has answered or is
//! named as blocked by the server itself. A session that merely runs is waited for.

mod gate;
mod mysql;
mod pooled;
pub(crate) mod postgres;
mod sqlite;
mod stopped;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{Batch, DbError, Dialect, ErrorClass, Isolation, Reply, Session, Value};
use rowlock_scenarios::stage::{Answer, Blocked, Completion, PausePlan, Paused, Stage, StageError};
use tokio::runtime::Runtime;

use crate::server::{MySqlServer, PostgresServer};
use crate::session::{Link, Pending, RealSession, task_gone};
use crate::target::Target;
use mysql::MySqlStage;
use postgres::PostgresStage;
use sqlite::SqliteStage;

/// How long a session may run without answering and without being blocked.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// How long sessions that were told to end may take.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the server is asked at first, and at last, who is blocked.
const POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

/// The deadlock timeouts of planned victims and of all other sessions.
///
/// A server looks for a deadlock once in each wait, that long after it began. The victim is the one
/// that looks first once the cycle is closed; so victims look soon, but not before the schedule has
/// closed the cycle, and the others not within any schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlockTimeouts {
    /// Of planned victims.
    pub victim: Duration,
    /// Of all other sessions.
    pub other: Duration,
}

impl Default for DeadlockTimeouts {
    fn default() -> DeadlockTimeouts {
        DeadlockTimeouts {
            victim: Duration::from_millis(500),
            other: Duration::from_secs(3_600),
        }
    }
}

/// A live server on which schedules are run. Everything that it started is gone when dropped.
#[derive(Debug)]
pub struct RealStage {
    // Before the runtime: sessions and servers go first.
    sessions: Vec<Slot>,
    /// A statement is under way that may end other sessions.
    terminates: bool,
    /// Backends that are known to have ended.
    ended: Vec<i64>,
    server: Server,
    runtime: Runtime,
}

#[derive(Debug)]
enum Server {
    Postgres(Box<PostgresStage>),
    MySql(Box<MySqlStage>),
    Sqlite(SqliteStage),
}

/// The same on whichever server it is.
macro_rules! on {
    ($server:expr, $name:ident => $what:expr) => {
        match $server {
            Server::Postgres($name) => $what,
            Server::MySql($name) => $what,
            Server::Sqlite($name) => $what,
        }
    };
}

/// A session of the stage.
#[derive(Debug)]
struct Slot {
    session: RealSession,
    label: String,
    busy: Option<Request>,
    /// The client is gone: nobody hears the answers.
    unheard: bool,
}

/// A request on its way.
#[derive(Debug)]
enum Request {
    Exec(Pending<Reply>),
    Batch(Pending<Batch>),
}

impl Request {
    async fn answer(&mut self) -> Answer {
        match self {
            Request::Exec(pending) => {
                Answer::Exec(pending.await.unwrap_or_else(|_| Err(task_gone())))
            }
            Request::Batch(pending) => {
                Answer::Batch(pending.await.unwrap_or_else(|_| Err(task_gone())))
            }
        }
    }
}

/// A failure of the stage, in words.
pub(crate) fn failure(message: impl Into<String>) -> StageError {
    StageError {
        message: message.into(),
    }
}

/// A failure of the stage's own statements.
pub(crate) fn failed(what: &str) -> impl Fn(DbError) -> StageError {
    let what = what.to_owned();
    move |error| failure(format!("{what}: {error}"))
}

impl RealStage {
    /// A stage on `target`: starts a throwaway server, or checks that the database which a URL
    /// names may be used up.
    ///
    /// # Errors
    /// The server is not installed, does not start or cannot be reached, or the database is not
    /// marked as disposable.
    pub fn open(target: &Target) -> Result<RealStage, StageError> {
        RealStage::open_with(target, DeadlockTimeouts::default())
    }

    /// As [`open`](Self::open), with other deadlock timeouts.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(target: &Target, timeouts: DeadlockTimeouts) -> Result<RealStage, StageError> {
        match target {
            Target::Postgres => {
                let server = PostgresServer::start().map_err(|e| failure(e.to_string()))?;
                RealStage::on_server(Arc::new(server), timeouts)
            }
            Target::PostgresUrl(target) => {
                let runtime = runtime()?;
                let server = runtime.block_on(PostgresStage::on_url(target, timeouts))?;
                Ok(RealStage::with(Server::Postgres(Box::new(server)), runtime))
            }
            Target::MySql(flavour, version) => {
                let server = MySqlServer::start_version(*flavour, version.as_deref())
                    .map_err(|e| failure(e.to_string()))?;
                RealStage::on_mysql_server(Arc::new(server))
            }
            Target::MySqlUrl(target, dialect) => {
                let runtime = runtime()?;
                let server = runtime.block_on(MySqlStage::on_url(target, *dialect))?;
                Ok(RealStage::with(Server::MySql(Box::new(server)), runtime))
            }
            Target::Sqlite(journal) => {
                let runtime = runtime()?;
                let server = runtime.block_on(SqliteStage::open(*journal))?;
                Ok(RealStage::with(Server::Sqlite(server), runtime))
            }
        }
    }

    /// A stage with a database of its own on a throwaway server that others use as well. Stages on
    /// one server do not see each other, except in views of the whole server.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn on_server(
        server: Arc<PostgresServer>,
        timeouts: DeadlockTimeouts,
    ) -> Result<RealStage, StageError> {
        let runtime = runtime()?;
        let server = runtime.block_on(PostgresStage::on_server(server, timeouts))?;
        Ok(RealStage::with(Server::Postgres(Box::new(server)), runtime))
    }

    /// A stage on a throwaway MySQL or MariaDB that is used by no other stage: user locks are of
    /// the whole server.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn on_mysql_server(server: Arc<MySqlServer>) -> Result<RealStage, StageError> {
        let runtime = runtime()?;
        let server = runtime.block_on(MySqlStage::on_server(server))?;
        Ok(RealStage::with(Server::MySql(Box::new(server)), runtime))
    }

    fn with(server: Server, runtime: Runtime) -> RealStage {
        RealStage {
            sessions: Vec::new(),
            terminates: false,
            ended: Vec::new(),
            server,
            runtime,
        }
    }

    fn slot(&mut self, session: SessionId) -> Result<&mut Slot, StageError> {
        self.sessions
            .get_mut(usize::from(session.0))
            .ok_or_else(|| failure(format!("there is no session {}", session.0)))
    }

    /// The sessions with a statement on its way, by number and by the server's number.
    fn busy(&self) -> Vec<(SessionId, i64)> {
        let mut all = self.backends();
        all.retain(|(id, _)| self.sessions[usize::from(id.0)].busy.is_some());
        all
    }

    /// Every session by the server's number; behind a pooler those that have a server connection.
    fn backends(&self) -> Vec<(SessionId, i64)> {
        if let Some(pooled) = self.pooled() {
            return pooled.users();
        }
        let backend = |(i, slot): (usize, &Slot)| (session_id(i), slot.session.backend());
        self.sessions.iter().enumerate().map(backend).collect()
    }

    /// Ends a session of a pooler, with its server connection if it has one.
    fn terminate_pooled(&mut self, session: SessionId) -> Result<(), StageError> {
        let Server::Postgres(server) = &mut self.server else {
            return Err(failure("there is a pooler for PostgreSQL only"));
        };
        self.runtime.block_on(server.terminate_pooled(session))?;
        let closed = RealSession::closed(Dialect::Postgres);
        let open = std::mem::replace(&mut self.slot(session)?.session, closed);
        // The pooler may have closed it already.
        let _ = self.runtime.block_on(open.close());
        Ok(())
    }

    fn pooled(&self) -> Option<&pooled::Pooled> {
        match &self.server {
            Server::Postgres(server) => server.pooled.as_ref(),
            _ => None,
        }
    }

    /// Hands over a statement.
    fn start(&mut self, session: SessionId, statement: &Statement) -> Result<(), StageError> {
        let slot = self.slot(session)?;
        slot.busy = Some(if statement.batch {
            Request::Batch(slot.session.start_batch(&statement.sql))
        } else {
            Request::Exec(slot.session.start_exec(&statement.sql, &statement.args))
        });
        Ok(())
    }

    /// Behind a pooler: the server connections of transactions that have ended are free again.
    fn free_connections(&mut self) -> Result<(), StageError> {
        let users = self.backends();
        let answered: Vec<(SessionId, i64)> = users
            .into_iter()
            .filter(|(id, _)| self.sessions[usize::from(id.0)].busy.is_none())
            .collect();
        match &mut self.server {
            Server::Postgres(server) if server.pooled.is_some() => {
                self.runtime.block_on(server.free_connections(&answered))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the first answer, at most for `time`, and takes all that are there.
    fn collect(&mut self, time: Duration, out: &mut Vec<Completion>) -> bool {
        let before = out.len();
        let mut time = time;
        loop {
            let mut waiting = Vec::new();
            for (i, slot) in self.sessions.iter_mut().enumerate() {
                if let Some(request) = &mut slot.busy {
                    waiting.push(Box::pin(async move { (i, request.answer().await) }));
                }
            }
            if waiting.is_empty() {
                break;
            }
            let first = self.runtime.block_on(async {
                let first = tokio::time::timeout(time, select_all(waiting)).await;
                first.ok().map(|(answer, _, _)| answer)
            });
            let Some((i, answer)) = first else {
                break;
            };
            let slot = &mut self.sessions[i];
            slot.busy = None;
            if !slot.unheard {
                out.push(Completion {
                    session: session_id(i),
                    answer,
                });
            } else {
                // Still an event: the session came to rest.
                return true;
            }
            time = Duration::ZERO;
        }
        out.len() > before
    }

    /// Waits until every busy session is blocked or has answered.
    fn rest(&mut self, out: &mut Vec<Completion>) -> Result<(), StageError> {
        let mut poll = POLL.0;
        let mut deadline = Instant::now() + RUN_TIMEOUT;
        loop {
            if self.collect(poll, out) {
                // Somebody came to rest, which may have woken others.
                poll = POLL.0;
                deadline = Instant::now() + RUN_TIMEOUT;
            }
            let busy = self.busy();
            if busy.is_empty() {
                return Ok(());
            }
            let running = self.running(&busy)?;
            // Who was asked before an answer came may be blocked no longer.
            if running.is_empty() && !self.collect(Duration::ZERO, out) {
                return Ok(());
            }
            if let Some(session) = running.first().filter(|_| Instant::now() > deadline) {
                let label = &self.sessions[usize::from(session.0)].label;
                return Err(failure(format!(
                    "session `{label}` has run for {} s and is neither done nor blocked",
                    RUN_TIMEOUT.as_secs()
                )));
            }
            poll = (poll * 2).min(POLL.1);
        }
    }

    /// Those of `busy` that the server does not call blocked, and that are not held back.
    fn running(&mut self, busy: &[(SessionId, i64)]) -> Result<Vec<SessionId>, StageError> {
        let all = self.backends();
        on!(&mut self.server, server => self.runtime.block_on(server.running(busy, &all)))
    }

    /// A statement that ends a session answers before that session is gone and its locks are free:
    /// waits until so many sessions have gone as the answers say, for a while at most.
    fn await_ends(&mut self, completions: &[Completion]) -> Result<(), StageError> {
        let Server::Postgres(server) = &mut self.server else {
            return Ok(());
        };
        let told: usize = completions.iter().map(sessions_ended).sum();
        let backends: Vec<i64> = self.sessions.iter().map(|s| s.session.backend()).collect();
        let deadline = Instant::now() + END_TIMEOUT;
        while told > 0 && Instant::now() < deadline {
            let gone = self.runtime.block_on(server.gone(&backends))?;
            // Sessions that had ended before do not come back: count the new ones.
            let new = gone.iter().filter(|pid| !self.ended.contains(pid)).count();
            if new >= told {
                break;
            }
            std::thread::sleep(POLL.0);
        }
        self.ended = self.runtime.block_on(server.gone(&backends))?;
        Ok(())
    }

    fn sorted(mut completions: Vec<Completion>) -> Vec<Completion> {
        completions.sort_by_key(|completion| completion.session);
        completions
    }
}

/// How many sessions an answer says to have ended: rows that are true, or a single number.
fn sessions_ended(completion: &Completion) -> usize {
    let reply = match &completion.answer {
        Answer::Exec(Ok(reply)) => Some(reply),
        Answer::Batch(Ok(batch)) => batch.replies.last(),
        _ => None,
    };
    let rows = reply.map_or(&[][..], |reply| &reply.rows[..]);
    let values = rows.iter().flat_map(|row| row.iter());
    let ended = values.map(|value| match value {
        Value::Bool(true) => 1,
        Value::Int(n) if rows.len() == 1 => usize::try_from(*n).unwrap_or(0),
        _ => 0,
    });
    ended.sum()
}

/// Runs a script of the set-up, as one message.
pub(crate) async fn run_setup_script(
    session: &mut impl Link,
    script: &str,
) -> Result<(), StageError> {
    match session.batch(script).await.map(|batch| batch.error) {
        Ok(None) => Ok(()),
        Ok(Some(error)) | Err(error) => Err(failure(format!(
            "set-up failed: error {}: {}{}",
            error.code,
            error.message,
            place(script, error.position)
        ))),
    }
}

/// `, at "..."`: the text where an error points.
fn place(script: &str, position: Option<usize>) -> String {
    let Some(rest) = position.and_then(|p| script.get(p..)) else {
        return String::new();
    };
    let line = rest.lines().next().unwrap_or("");
    let start: String = line.chars().take(60).collect();
    format!(", at `{start}`")
}

pub(crate) fn runtime() -> Result<Runtime, StageError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("rowlock-live")
        .enable_all()
        .build()
        .map_err(|cause| failure(format!("cannot start threads: {cause}")))
}

fn session_id(index: usize) -> SessionId {
    SessionId(u8::try_from(index).expect("connect() refuses more sessions than have numbers"))
}

impl Stage for RealStage {
    fn dialect(&self) -> Dialect {
        on!(&self.server, server => server.dialect())
    }

    fn version(&mut self) -> Result<String, StageError> {
        Ok(on!(&self.server, server => server.version()))
    }

    fn reset(&mut self, setup: &[String]) -> Result<(), StageError> {
        if let Server::Postgres(server) = &mut self.server {
            server.let_all_go();
        }
        self.sessions.clear();
        self.terminates = false;
        self.ended.clear();
        on!(&mut self.server, server => self.runtime.block_on(server.reset(setup)))
    }

    fn connect(
        &mut self,
        label: &str,
        isolation: Option<Isolation>,
    ) -> Result<SessionId, StageError> {
        let index = self.sessions.len();
        let number = u8::try_from(index).map_err(|_| failure("too many sessions"))?;
        let id = SessionId(number);
        let connected = on!(&mut self.server, server => {
            self.runtime.block_on(server.connect(id, label, isolation))
        });
        self.sessions.push(Slot {
            session: connected?,
            label: label.to_owned(),
            busy: None,
            unheard: false,
        });
        Ok(id)
    }

    fn send(&mut self, session: SessionId, statement: &Statement) -> Result<(), StageError> {
        let slot = self.slot(session)?;
        if slot.busy.is_some() {
            return Err(failure(format!("session `{}` is busy", slot.label)));
        }
        if let Server::Postgres(server) = &mut self.server {
            let slot = &mut self.sessions[usize::from(session.0)];
            self.runtime
                .block_on(server.before(session, &mut slot.session, statement));
        }
        self.terminates |= statement.sql.contains("pg_terminate_backend");
        if let Server::Postgres(server) = &mut self.server
            && let Some(pooled) = &mut server.pooled
        {
            if pooled.is_queued(session) {
                let message = format!("session {} waits for a server connection", session.0);
                return Err(failure(message));
            }
            if !self.runtime.block_on(pooled.admit(session, statement))? {
                return Ok(());
            }
        }
        self.start(session, statement)
    }

    fn pool(&mut self, size: u8) -> Result<(), StageError> {
        match &mut self.server {
            Server::Postgres(server) => server.pool(size),
            _ if size == 0 => Ok(()),
            _ => Err(failure("there is a pooler for PostgreSQL only")),
        }
    }

    fn route(&mut self, session: SessionId, backend: u8) -> Result<(), StageError> {
        let Server::Postgres(server) = &mut self.server else {
            return Err(failure("there is a pooler for PostgreSQL only"));
        };
        let Some(pooled) = &mut server.pooled else {
            return Err(failure("the sessions go through no pooler"));
        };
        let statement = self.runtime.block_on(pooled.route(session, backend))?;
        self.start(session, &statement)
    }

    fn settle(&mut self, _first: Option<SessionId>) -> Result<Vec<Completion>, StageError> {
        let mut completions = Vec::new();
        self.rest(&mut completions)?;
        if std::mem::take(&mut self.terminates) {
            self.await_ends(&completions)?;
            self.rest(&mut completions)?;
        }
        if let Server::Postgres(server) = &mut self.server
            && server.let_others_go()
        {
            self.rest(&mut completions)?;
        }
        self.free_connections()?;
        Ok(RealStage::sorted(completions))
    }

    fn blocked(&mut self) -> Result<Vec<Blocked>, StageError> {
        let (busy, all) = (self.busy(), self.backends());
        let labels: Vec<&str> = self.sessions.iter().map(|s| s.label.as_str()).collect();
        on!(&mut self.server, server => {
            self.runtime.block_on(server.blocked(&busy, &all, &labels))
        })
    }

    fn deadlock(&mut self, victim: SessionId) -> Result<Vec<Completion>, StageError> {
        let label = self.slot(victim)?.label.clone();
        let time = on!(&self.server, server => server.victim_timeout())?;
        let mut completions = Vec::new();
        if !self.collect(time, &mut completions) {
            return Err(failure(format!(
                "no deadlock was found within {} s that would end the statement of `{label}`",
                time.as_secs()
            )));
        }
        self.rest(&mut completions)?;
        Ok(RealStage::sorted(completions))
    }

    fn plan_victims(&mut self, victims: &[SessionId]) -> Result<(), StageError> {
        let sessions = self.sessions.iter_mut().enumerate();
        let open = sessions
            .map(|(i, slot)| (session_id(i), &mut slot.session))
            .collect();
        on!(&mut self.server, server => {
            self.runtime.block_on(server.plan_victims(victims, open))
        })
    }

    fn pause_at(&mut self, plan: &PausePlan) -> Result<(), StageError> {
        let sessions = self.sessions.iter_mut().enumerate();
        let open = sessions
            .map(|(i, slot)| (session_id(i), &mut slot.session))
            .collect();
        match &mut self.server {
            Server::Postgres(server) => self.runtime.block_on(server.pause_at(plan, open)),
            server => {
                let dialect = on!(server, server => server.dialect());
                let reason = match dialect {
                    Dialect::Sqlite => "it locks no rows",
                    _ => {
                        "InnoDB tests the conditions of a row after it has locked it, and a lock of \
                         somebody else is waited for or skipped, so nothing can stop a statement right \
                         before a record lock"
                    }
                };
                Err(failure(format!(
                    "this cannot be replayed between row locks on a live {dialect}: {reason}"
                )))
            }
        }
    }

    fn paused(&mut self) -> Result<Vec<Paused>, StageError> {
        let all = self.backends();
        match &mut self.server {
            Server::Postgres(server) => self.runtime.block_on(server.paused(&all)),
            _ => Ok(Vec::new()),
        }
    }

    fn proceed(&mut self, session: SessionId) -> Result<(), StageError> {
        let paused = self.paused()?;
        if !paused.iter().any(|paused| paused.session == session) {
            let label = &self.slot(session)?.label;
            return Err(failure(format!("session `{label}` does not pause")));
        }
        match &mut self.server {
            Server::Postgres(server) => self.runtime.block_on(server.proceed(session)),
            _ => Ok(()),
        }
    }

    fn hold(&mut self, sessions: &[SessionId]) -> Result<(), StageError> {
        let backends: Vec<i64> = self
            .backends()
            .into_iter()
            .filter(|(id, _)| sessions.contains(id))
            .map(|(_, backend)| backend)
            .collect();
        match &mut self.server {
            Server::Postgres(server) => server.hold(&backends),
            _ => Ok(()),
        }
    }

    fn go_first(&mut self, session: SessionId) -> Result<(), StageError> {
        let others: Vec<i64> = self
            .busy()
            .into_iter()
            .filter(|(id, _)| *id != session)
            .map(|(_, backend)| backend)
            .collect();
        match &mut self.server {
            Server::Postgres(server) => server.keep_behind(&others),
            _ => Ok(()),
        }
    }

    fn drop_client(&mut self, session: SessionId) -> Result<(), StageError> {
        // The connection stays open and unused: what a server sees of a machine that lost its
        // network. It notices when somebody terminates the session.
        let is_embedded = matches!(self.server, Server::Sqlite(_));
        self.slot(session)?.unheard = true;
        if is_embedded {
            return self.terminate(session);
        }
        Ok(())
    }

    fn terminate(&mut self, session: SessionId) -> Result<(), StageError> {
        if self.pooled().is_some() {
            return self.terminate_pooled(session);
        }
        let backend = self.slot(session)?.session.backend();
        match &mut self.server {
            Server::Postgres(server) => self.runtime.block_on(server.terminate(backend)),
            Server::MySql(server) => self.runtime.block_on(server.terminate(backend)),
            Server::Sqlite(_) => {
                let open = std::mem::replace(
                    &mut self.slot(session)?.session,
                    RealSession::closed(Dialect::Sqlite),
                );
                match self.runtime.block_on(open.close()) {
                    // Closed already: when its client went away.
                    Err(error) if error.class == ErrorClass::ConnectionLost => Ok(()),
                    closed => closed.map_err(failed("cannot close a session")),
                }
            }
        }
    }

    fn advance(&mut self, by: Duration) -> Result<(), StageError> {
        // The sessions live on threads of their own.
        std::thread::sleep(by);
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<Result<Reply, DbError>, StageError> {
        on!(&mut self.server, server => self.runtime.block_on(server.query(sql)))
    }
}
