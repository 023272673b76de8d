//! The simulated server as the explorer sees it.

use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::schedule::{Granularity, SessionId};
use rowlock_model::{
    Batch, DbError, Dialect, Isolation, Notice, Reply, Row, TransactionStatus, Value,
};
use rustc_hash::FxHashMap;

use super::lock::{Deadlock, DeadlockCheck};
use super::session::{Block, Flight, SessionState, Waiting};
use super::settings::{SettingStack, Settings};
use super::statement::{Attempt, Halt, Parsed};
use super::{Message, Store, errors};
use crate::database::{
    Answer, Database, Footprint, Internal, Mark, Pause, Progress, Renaming, Request, RowOrder,
    StatementId, Wait,
};
use crate::plan::types::Type;
use crate::pooler::Poolable;
use crate::sql;

/// What a text was parsed to: its statements, or the syntax error.
type Script = Result<Rc<[Rc<Parsed>]>, DbError>;

/// A simulated PostgreSQL server with one database.
#[derive(Clone, Debug)]
pub struct Postgres {
    pub(super) store: Store,
    /// Prepared texts; they are no part of the state.
    prepared: Vec<Script>,
    /// Their texts.
    pub(super) texts: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, StatementId>,
    scripts: FxHashMap<Arc<str>, Script>,
    /// Notices as they are sent, for who wants them before the reply; no part of the state.
    outbox: FxHashMap<SessionId, Vec<Notice>>,
    /// Notifications likewise.
    heard: FxHashMap<SessionId, Vec<Message>>,
    /// Whether anybody takes them.
    keeps_notices: bool,
    /// See [`Database::shows_sessions`].
    shows_sessions: bool,
    /// Whoever sends the statement only asks whether there is a row.
    pub(super) only_asks: bool,
}

/// When the deadlock check of a waiting session is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlockTimer {
    /// The session.
    pub session: SessionId,
    /// Its wait; waits are numbered by their beginning. Each is checked once.
    pub wait: u64,
    /// `deadlock_timeout` after the wait began: microseconds since 1970.
    pub at_micros: i64,
}

/// Where the clock of a new server stands: 2030-01-01 00:00:00 UTC.
const START_MICROS: i64 = 1_893_456_000_000_000;

impl Default for Postgres {
    fn default() -> Postgres {
        Postgres::new(START_MICROS)
    }
}

/// A request being carried out.
struct Work {
    request: Request,
    replies: Vec<Reply>,
    attempt: Attempt,
}

impl Postgres {
    /// An empty database on a server whose clock shows `now_micros`.
    pub fn new(now_micros: i64) -> Postgres {
        Postgres {
            store: Store::new(now_micros),
            prepared: Vec::new(),
            texts: Vec::new(),
            ids: FxHashMap::default(),
            scripts: FxHashMap::default(),
            outbox: FxHashMap::default(),
            heard: FxHashMap::default(),
            keeps_notices: false,
            shows_sessions: false,
            only_asks: false,
        }
    }

    /// Keeps notices and notifications from now on, for [`take_notices`](Self::take_notices) and
    /// [`take_notifications`](Self::take_notifications).
    pub fn keep_notices(&mut self) {
        self.keeps_notices = true;
    }

    /// The notices that a session was sent since the last call, those of a statement that still
    /// runs included.
    pub fn take_notices(&mut self, session: SessionId) -> Vec<Notice> {
        self.outbox.remove(&session).unwrap_or_default()
    }

    /// The notifications that a session was sent since the last call.
    pub fn take_notifications(&mut self, session: SessionId) -> Vec<Message> {
        self.heard.remove(&session).unwrap_or_default()
    }

    /// Whether some session was sent notifications that were not taken yet.
    pub fn has_notifications(&self) -> bool {
        !self.heard.is_empty()
    }

    /// Sends notifications to those who listen and can hear them.
    fn deliver(&mut self) {
        for (session, message) in self.store.hear() {
            if self.keeps_notices {
                self.heard.entry(session).or_default().push(message);
            }
        }
    }

    /// Sends notices to a session's client.
    pub(super) fn tell(&mut self, session: SessionId, notices: &[Notice]) {
        if self.keeps_notices && !notices.is_empty() {
            let outbox = self.outbox.entry(session).or_default();
            outbox.extend_from_slice(notices);
        }
    }

    /// When the deadlock check of each waiting session is due, ascending by session.
    pub fn deadlock_timers(&self) -> Vec<DeadlockTimer> {
        let timer = |session: SessionId| {
            let state = self.store.session(session);
            let flight = state.flight.as_ref()?;
            let wait = self.store.wait(session).filter(|wait| !wait.granted)?;
            Some(DeadlockTimer {
                session,
                wait: wait.number,
                at_micros: flight.since_micros + state.settings.get().deadlock_timeout_ms * 1_000,
            })
        };
        self.sessions().filter_map(timer).collect()
    }

    /// Instants after now at which a timer of the server goes off, deadlock checks left out.
    /// Unsorted, may repeat.
    pub fn timers_ahead(&self, out: &mut Vec<i64>) {
        let now = self.now_micros();
        for session in self.sessions() {
            let state = self.store.session(session);
            if let Some(flight) = &state.flight
                && let Waiting::Sleep(until) = flight.waiting
                && until > now
            {
                out.push(until);
            }
            if state.has_timeouts() {
                let timers = self.timers(session);
                out.extend(timers.iter().map(|(at, ..)| *at).filter(|at| *at > now));
            }
        }
    }

    /// A text will be run later: keeps what it can see from now on.
    pub fn expect_text(&mut self, sql: &str) {
        self.look_at_text(sql);
    }

    /// Notes what a text may show to whoever runs it.
    fn look_at_text(&mut self, sql: &str) {
        let sql = sql.to_ascii_lowercase();
        self.shows_sessions |= shows_sessions(&sql);
        if shows_views(&sql) {
            self.store.show_views();
        } else if shows_numbers(&sql) {
            self.store.show_numbers();
        }
    }

    /// The statements of a text, parsed once.
    pub(super) fn script(&mut self, text: &str) -> Script {
        if let Some(script) = self.scripts.get(text) {
            return script.clone();
        }
        let script = parse(text);
        self.scripts.insert(text.into(), script.clone());
        script
    }

    fn work(&mut self, session: SessionId, mut work: Work) -> Progress {
        let result = self.run_request(session, &mut work);
        let progress = match result {
            Ok(answer) => Progress::Done(answer),
            Err(waiting) => {
                let pauses = matches!(waiting, Waiting::Pause(_));
                let since_micros = self.store.now_micros();
                self.store.snapshot_persists();
                self.store.session_mut(session).flight = Some(Rc::new(Flight {
                    request: work.request,
                    replies: work.replies,
                    run: work.attempt.run,
                    waiting,
                    since_micros,
                    start_micros: work.attempt.start_micros,
                    stamp: work.attempt.stamp,
                    told: work.attempt.told,
                    opened: work.attempt.opened,
                }));
                return match pauses {
                    true => Progress::Pauses,
                    false => Progress::Waits,
                };
            }
        };
        self.rest(session);
        progress
    }

    /// A request has ended: the session is idle from now on.
    fn rest(&mut self, session: SessionId) {
        if self.store.has_viewers() {
            let now = self.store.now_unrecorded();
            self.store.session_mut(session).activity.change_micros = now;
        }
        self.store.record_listening(session);
        self.deliver();
        let settings = self.store.session(session).settings.get();
        if settings.idle_session_timeout_ms != 0
            || settings.idle_in_transaction_session_timeout_ms != 0
        {
            let now = self.store.now_micros();
            self.store.session_mut(session).idle_since_micros = now;
        }
    }

    fn run_request(&mut self, session: SessionId, work: &mut Work) -> Result<Answer, Waiting> {
        match work.request.clone() {
            Request::Exec(id, args) => self.run_exec(session, id, &args, work),
            Request::Batch(text) => self.run_batch(session, &text, work),
        }
    }

    fn run_exec(
        &mut self,
        session: SessionId,
        id: StatementId,
        args: &[Value],
        work: &mut Work,
    ) -> Result<Answer, Waiting> {
        let result = match self.prepared[id.0 as usize].clone() {
            Err(error) => Err(error),
            Ok(statements) => match &statements[..] {
                [] => return Ok(Answer::Exec(Ok(Reply::tag("")))),
                [statement] => {
                    match self.statement(session, statement, args, &mut work.attempt, true) {
                        Ok(reply) => Ok(reply),
                        Err(Halt::Wait(waiting)) => return Err(waiting),
                        Err(Halt::Error(error)) => Err(*error),
                    }
                }
                _ => Err(DbError::postgres(
                    "42601",
                    "cannot insert multiple commands into a prepared statement",
                )),
            },
        };
        Ok(Answer::Exec(self.settled(session, result)))
    }

    /// After a statement: an error undoes what it must.
    fn settled(
        &mut self,
        session: SessionId,
        result: Result<Reply, DbError>,
    ) -> Result<Reply, DbError> {
        if let Err(error) = &result {
            if error.code == errors::terminated().code {
                // The session has terminated itself.
                self.store.end(session, error.clone());
                return result;
            }
            self.store.fail_block(session);
        }
        if self.store.session(session).transaction.is_some() {
            self.store.end_statement(session);
        }
        result
    }

    fn run_batch(
        &mut self,
        session: SessionId,
        text: &str,
        work: &mut Work,
    ) -> Result<Answer, Waiting> {
        let statements = match self.script(text) {
            Ok(statements) => statements,
            Err(error) => {
                self.store.fail_block(session);
                return Ok(self.batch(session, Vec::new(), Some(error)));
            }
        };
        let count = statements.len();
        while work.replies.len() < count {
            let at = work.replies.len();
            let last = at + 1 == count;
            if count > 1 && work.attempt.fresh && self.store.session(session).block == Block::Idle {
                self.store.session_mut(session).block = Block::Implicit;
            }
            let result = self.statement(session, &statements[at], &[], &mut work.attempt, last);
            let result = match result {
                Ok(reply) => Ok(reply),
                Err(Halt::Wait(waiting)) => return Err(waiting),
                Err(Halt::Error(error)) => Err(*error),
            };
            match self.settled(session, result) {
                Ok(reply) => work.replies.push(reply),
                Err(error) => {
                    let replies = std::mem::take(&mut work.replies);
                    if self.store.session(session).gone.is_some() {
                        return Ok(Answer::Batch(Err(error)));
                    }
                    self.leave_implicit(session);
                    return Ok(self.batch(session, replies, Some(error)));
                }
            }
            let now = self.store.now_micros();
            work.attempt = Attempt::first(session, now);
        }
        self.leave_implicit(session);
        let replies = std::mem::take(&mut work.replies);
        Ok(self.batch(session, replies, None))
    }

    /// The end of a message ends an implicit block that has no transaction.
    fn leave_implicit(&mut self, session: SessionId) {
        if self.store.session(session).block == Block::Implicit {
            self.store.session_mut(session).block = Block::Idle;
        }
    }

    fn batch(&self, session: SessionId, replies: Vec<Reply>, error: Option<DbError>) -> Answer {
        Answer::Batch(Ok(Batch {
            replies,
            error,
            status: self.store.session(session).status(),
        }))
    }

    /// The answer to a request that ends with an error while it waits.
    fn answer_error(&mut self, session: SessionId, error: DbError, fatal: bool) -> Answer {
        let flight = self.store.session(session).flight.clone();
        if fatal {
            self.store.end(session, error.clone());
        } else {
            self.store.abandon(session);
        }
        self.rest(session);
        match flight.as_deref() {
            Some(Flight {
                request: Request::Batch(_),
                replies,
                ..
            }) if !fatal => self.batch(session, replies.clone(), Some(error)),
            Some(Flight {
                request: Request::Batch(_),
                ..
            }) => Answer::Batch(Err(error)),
            _ => Answer::Exec(Err(error)),
        }
    }

    /// An error ends the wait of a statement inside a block that may catch it: the statement goes on.
    fn fail_wait(&mut self, session: SessionId, error: &DbError) -> Option<Progress> {
        let flight = self.store.session(session).flight.as_ref()?;
        if !matches!(flight.waiting, Waiting::Lock) || !flight.run.may_catch() {
            return None;
        }
        self.store.cancel_wait(session);
        let state = self.store.session_mut(session);
        if let Some(flight) = &mut state.flight {
            Rc::make_mut(flight).run.fail_wait(error.clone());
        }
        Some(self.resume(session))
    }

    fn resume(&mut self, session: SessionId) -> Progress {
        let Some(flight) = self.store.session_mut(session).flight.take() else {
            panic!("session {} has nothing to resume", session.0)
        };
        let flight = Rc::unwrap_or_clone(flight);
        if let Waiting::Nothing(answer) = flight.waiting {
            self.rest(session);
            return Progress::Done(*answer);
        }
        let mut run = flight.run;
        run.rewind();
        let work = Work {
            request: flight.request,
            replies: flight.replies,
            attempt: Attempt {
                run,
                fresh: false,
                slept: matches!(flight.waiting, Waiting::Sleep(_)),
                start_micros: flight.start_micros,
                stamp: flight.stamp,
                told: flight.told,
                opened: Vec::new(),
            },
        };
        self.work(session, work)
    }

    /// The timers of a session: when each is due, and the error that it raises.
    fn timers(&self, session: SessionId) -> Vec<(i64, DbError, bool)> {
        let state = self.store.session(session);
        let settings = state.settings.get();
        let mut timers = Vec::new();
        if state.gone.is_some() {
            return timers;
        }
        let due = |since: i64, ms: i64| since + ms * 1_000;
        if let Some(flight) = &state.flight {
            if matches!(flight.waiting, Waiting::Nothing(_)) {
                return timers;
            }
            let waits = matches!(flight.waiting, Waiting::Lock) && !self.store.is_granted(session);
            if settings.lock_timeout_ms > 0 && waits {
                let at = due(flight.since_micros, settings.lock_timeout_ms);
                timers.push((at, errors::lock_timeout(), false));
            }
            if settings.statement_timeout_ms > 0 {
                let at = due(flight.start_micros, settings.statement_timeout_ms);
                timers.push((at, errors::statement_timeout(), false));
            }
        } else if state.block == Block::Idle {
            if settings.idle_session_timeout_ms > 0 {
                let at = due(state.idle_since_micros, settings.idle_session_timeout_ms);
                timers.push((at, errors::idle_session_timeout(), true));
            }
        } else if settings.idle_in_transaction_session_timeout_ms > 0 {
            let ms = settings.idle_in_transaction_session_timeout_ms;
            let at = due(state.idle_since_micros, ms);
            timers.push((at, errors::idle_in_transaction_timeout(), true));
        }
        timers
    }

    fn expire(&mut self, session: SessionId) -> Progress {
        let now = self.now_micros();
        let timers = self.timers(session);
        // The earliest names the error; at the same time, the lock's.
        let due = timers.into_iter().filter(|(at, ..)| *at <= now);
        let Some((_, error, fatal)) = due.min_by_key(|(at, ..)| *at) else {
            panic!("no timer of session {} is due", session.0)
        };
        if !fatal && let Some(progress) = self.fail_wait(session, &error) {
            return progress;
        }
        Progress::Done(self.answer_error(session, error, fatal))
    }

    fn sessions(&self) -> impl Iterator<Item = SessionId> + use<> {
        (0..self.store.session_count()).map(SessionId)
    }

    /// The name of a relation, for messages.
    pub(super) fn relation_name(&self, rel: super::RelId) -> String {
        let (schema, _) = self.store.catalog_unrecorded().view(None);
        schema
            .name(rel)
            .map_or_else(|| format!("relation {}", rel.0), |name| name.to_string())
    }

    fn deadlock_error(&self, deadlock: &Deadlock) -> DbError {
        let cycle = &deadlock.cycle;
        let lines: Vec<String> = cycle
            .iter()
            .enumerate()
            .map(|(i, (waiter, tag, mode))| {
                let (blocker, ..) = cycle[(i + 1) % cycle.len()];
                format!(
                    "Process {} waits for {} on {}; blocked by process {}.",
                    super::pid(*waiter),
                    super::lock::mode_name(*mode),
                    self.store.describe(*tag, |rel| self.relation_name(rel)),
                    super::pid(blocker),
                )
            })
            .collect();
        errors::deadlock_detected(lines.join("\n"))
    }
}

fn parse(text: &str) -> Script {
    let statements = sql::parse(text, Dialect::Postgres)?;
    Ok(statements
        .into_iter()
        .map(|s| Rc::new(Parsed::new(s)))
        .collect())
}

impl Poolable for Postgres {
    fn transaction_status(&self, session: SessionId) -> TransactionStatus {
        self.store.session(session).status()
    }
}

impl Database for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn footprints_are_shown(&self) -> bool {
        // By `tests/reductions.rs`.
        true
    }

    fn connect(&mut self, isolation: Option<Isolation>) -> SessionId {
        let settings = Settings::new(isolation.unwrap_or(Isolation::ReadCommitted));
        let now = self.now_micros();
        self.store
            .open_session(SessionState::new(SettingStack::new(settings), now))
    }

    fn name_client(&mut self, session: SessionId, name: &str) {
        self.store.session_mut(session).settings.name_client(name);
    }

    fn keep_views(&mut self) {
        self.store.show_views();
    }

    fn prepare(&mut self, sql: &str) -> StatementId {
        if let Some(id) = self.ids.get(sql) {
            return *id;
        }
        let id = StatementId(u32::try_from(self.prepared.len()).expect("fewer than 2^32 texts"));
        self.look_at_text(sql);
        let text: Arc<str> = sql.into();
        self.prepared.push(parse(sql));
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
        if let Request::Batch(script) = request {
            self.look_at_text(script);
        }
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
        let now = self.now_micros();
        if self.store.has_viewers() {
            self.store.view_changes();
            let query = match request {
                Request::Exec(id, _) => Arc::clone(&self.texts[id.0 as usize]),
                Request::Batch(text) => Arc::clone(text),
            };
            let activity = &mut self.store.session_mut(session).activity;
            activity.query = Some(query);
            activity.query_micros = now;
            activity.change_micros = now;
        }
        let work = Work {
            request: request.clone(),
            replies: Vec::new(),
            attempt: Attempt::first(session, now),
        };
        self.work(session, work)
    }

    fn internal(&mut self, event: Internal) -> Progress {
        self.store.view_changes();
        match event {
            Internal::Resume(session) | Internal::Continue(session) => self.resume(session),
            Internal::Deadlock(session) => match self.store.check_deadlock(session) {
                DeadlockCheck::Hard(deadlock) => {
                    for (_, tag, _) in &deadlock.cycle {
                        self.store.note_order_of(*tag);
                    }
                    let error = self.deadlock_error(&deadlock);
                    if let Some(progress) = self.fail_wait(session, &error) {
                        return progress;
                    }
                    Progress::Done(self.answer_error(session, error, false))
                }
                DeadlockCheck::Soft(orders) => {
                    self.store.reorder_queues(&orders);
                    Progress::Waits
                }
                DeadlockCheck::None => panic!("session {} is in no deadlock", session.0),
            },
            Internal::Expire(session) => self.expire(session),
            Internal::Route(session, _) => {
                panic!("session {} goes through no pooler", session.0)
            }
        }
    }

    fn pending(&self, out: &mut Vec<Internal>) {
        let now = self.now_micros();
        let mut deadlocks = Vec::new();
        let mut expired = Vec::new();
        for session in self.sessions() {
            let state = self.store.session(session);
            if state.gone.is_some() && state.flight.is_none() {
                continue;
            }
            if let Some(flight) = &state.flight {
                if matches!(flight.waiting, Waiting::Pause(_)) {
                    out.push(Internal::Continue(session));
                }
                let ready = match &flight.waiting {
                    Waiting::Pause(_) => false,
                    Waiting::Lock => self.store.is_granted(session),
                    Waiting::Safety => self.store.safety(session).is_some(),
                    Waiting::Sleep(until) => *until <= now,
                    Waiting::Nothing(_) => true,
                };
                if ready {
                    out.push(Internal::Resume(session));
                } else if matches!(flight.waiting, Waiting::Lock)
                    && self.store.check_deadlock(session) != DeadlockCheck::None
                {
                    deadlocks.push(Internal::Deadlock(session));
                }
            }
            if state.has_timeouts() && self.timers(session).iter().any(|(at, ..)| *at <= now) {
                expired.push(Internal::Expire(session));
            }
        }
        out.append(&mut deadlocks);
        out.append(&mut expired);
    }

    fn terminate(&mut self, session: SessionId) {
        self.store.view_changes();
        self.store.end(session, errors::terminated());
    }

    fn is_busy(&self, session: SessionId) -> bool {
        self.store.session(session).flight.is_some()
    }

    fn is_gone(&self, session: SessionId) -> bool {
        let state = self.store.session(session);
        state.gone.is_some() && state.flight.is_none()
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = self.store.waits(|rel| self.relation_name(rel));
        for session in self.sessions() {
            let state = self.store.session(session);
            if let Some(flight) = &state.flight
                && matches!(flight.waiting, Waiting::Safety)
            {
                waits.push(Wait {
                    session,
                    blockers: self.store.safety_blockers(session),
                    object: "a safe snapshot".to_owned(),
                    granted: self.store.safety(session).is_some(),
                });
            }
            if let Some(flight) = &state.flight
                && let Waiting::Sleep(until) = &flight.waiting
            {
                waits.push(Wait {
                    session,
                    blockers: Vec::new(),
                    object: "pg_sleep".to_owned(),
                    granted: *until <= self.now_micros(),
                });
            }
        }
        waits.sort_by_key(|w| w.session);
        waits
    }

    fn set_granularity(&mut self, granularity: Granularity) -> Result<(), DbError> {
        self.store.set_pauses(granularity == Granularity::Row);
        Ok(())
    }

    fn pauses(&self) -> Vec<Pause> {
        let pause = |session: SessionId| {
            let flight = self.store.session(session).flight.as_ref()?;
            match flight.waiting {
                Waiting::Pause(version) => Some(Pause {
                    session,
                    before: self.store.row_name(version),
                }),
                _ => None,
            }
        };
        self.sessions().filter_map(pause).collect()
    }

    fn now_micros(&self) -> i64 {
        self.store.now_unrecorded()
    }

    fn set_now_micros(&mut self, now_micros: i64) {
        self.store.set_now_micros(now_micros);
    }

    fn deadlines(&self, out: &mut Vec<i64>) {
        let now = self.now_micros();
        self.timers_ahead(out);
        let (schema, _) = self.store.catalog_unrecorded().view(None);
        for table in schema.tables.values() {
            let timed = |ty: Type| matches!(ty, Type::Timestamp | Type::TimestampTz);
            let columns: Vec<usize> = (0..table.columns.len())
                .filter(|c| timed(table.columns[*c].declared.ty))
                .collect();
            if columns.is_empty() {
                continue;
            }
            for row in self.store.rows_unrecorded(table.id) {
                for column in &columns {
                    if let Some(Value::Timestamp(at) | Value::TimestampTz(at)) = row.get(*column)
                        && *at > now
                    {
                        out.push(*at);
                    }
                }
            }
        }
    }

    fn find(&mut self, query: StatementId, args: &[Value]) -> Result<Vec<Row>, DbError> {
        self.only_asks = true;
        let rows = self.query(query, args);
        self.only_asks = false;
        rows
    }

    fn set_row_order(&mut self, order: RowOrder) {
        self.store.set_row_order(order);
    }

    fn row_order(&self) -> RowOrder {
        self.store.row_order
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

    fn fingerprint_renamed(&mut self, renaming: &Renaming) -> Option<u128> {
        // The bookkeeping of SERIALIZABLE is kept in an order that depends on sessions.
        (!self.store.ssi_in_use()).then(|| self.store.world.fingerprint_renamed(renaming))
    }

    fn session_colour(&mut self, session: SessionId, alone: &Renaming) -> u128 {
        self.store.session_digest(session, alone)
    }

    fn shows_sessions(&self) -> bool {
        self.shows_sessions
    }

    fn rules_version(&self) -> u64 {
        self.store.detail() + 4 * self.store.world.orders_seen() as u64
    }

    fn has_timeouts(&self, session: SessionId) -> bool {
        self.store.session(session).has_timeouts()
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

/// Whether a text may tell sessions apart. May be wrong in one direction only: a text that merely
/// looks so makes symmetric states count apart.
fn shows_sessions(sql: &str) -> bool {
    const SIGNS: [&str; 15] = [
        "backend",
        "pg_stat",
        "pg_block",
        "pgrow",
        "pg_lock",
        "pg_safe",
        "pg_cancel",
        "pg_isolation",
        "pg_prepared",
        "application_name",
        "setting",
        "show ",
        "temp",
        "listen",
        "notif",
    ];
    SIGNS.iter().any(|sign| sql.contains(sign))
}

/// Whether a text may show or compare transaction ids or places of rows. May be wrong in one
/// direction only: a text that merely looks so makes the fingerprint finer than necessary.
fn shows_numbers(sql: &str) -> bool {
    const SIGNS: [&str; 11] = [
        "pg_notification_queue",
        "xact_id",
        "txid_",
        "xmin",
        "xmax",
        "cmin",
        "cmax",
        "ctid",
        "pg_snapshot",
        "pg_current_snapshot",
        "oid",
    ];
    SIGNS.iter().any(|sign| sql.contains(sign))
}

/// Whether a text may look at views of the whole server; wrong in one direction only, as
/// [`shows_numbers`].
fn shows_views(sql: &str) -> bool {
    const SIGNS: [&str; 6] = [
        "pg_locks",
        "pg_prepared",
        "pg_stat_activity",
        "pgrowlocks",
        "blocking_pids",
        "session_is_blocked",
    ];
    SIGNS.iter().any(|sign| sql.contains(sign))
}
