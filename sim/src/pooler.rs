//! A pooler in transaction mode between clients and a server, as PgBouncer is with
//! `pool_mode = transaction`.
//!
//! A client is given a server connection (a *backend*) when its transaction begins, and gives it back
//! when the transaction ends; a statement outside of a transaction is one of its own. What belongs to
//! a session stays with the backend, and the next client finds it there: session-level advisory
//! locks, prepared statements, settings, temporary tables.
//!
//! Which of several free backends a transaction gets is open ([`Internal::Route`]): a real pooler
//! decides by who was idle last, by age, by connections that come and go. Clients that wait are served in the
//! order of arrival. A client that goes away in a transaction takes its backend with it; a backend
//! that ends takes its client with it, and a new one comes in its place.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rowlock_model::schedule::{Granularity, SessionId};
use rowlock_model::{DbError, Dialect, Isolation, Row, TransactionStatus, Value};
use xxhash_rust::xxh3::Xxh3;

use crate::database::{
    Answer, Database, Footprint, Internal, Mark, Pause, Progress, Request, StatementId, Wait,
};

/// A server that can stand behind a pooler.
pub trait Poolable: Database {
    /// Whether a session that is not busy is inside a transaction, as it tells its client.
    fn transaction_status(&self, session: SessionId) -> TransactionStatus;
}

/// What a client is told when the server connection of its transaction ends.
fn server_lost() -> DbError {
    DbError::connection_lost("server conn crashed?")
}

/// Settings that the pooler knows for each client and sets on the backend that it gives to it.
const FOLLOWED: [&str; 6] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "intervalstyle",
    "standard_conforming_strings",
    "timezone",
];

/// A session as clients and the explorer see it.
#[derive(Clone, Debug, Hash)]
enum Client {
    /// Not by way of the pooler: set-up, queries of properties.
    Direct(SessionId),
    Pooled(Pooled),
}

/// A client of the pooler.
#[derive(Clone, Debug, Hash)]
struct Pooled {
    name: Arc<str>,
    /// The backend of its transaction, by its place.
    backend: Option<u8>,
    /// What it wants to run, while it has no backend.
    waiting: Option<Request>,
    gone: bool,
}

/// A connection of the pooler to the server.
#[derive(Clone, Copy, Debug, Hash)]
struct Backend {
    session: SessionId,
    /// Nobody has used it yet: it is like any other such backend.
    fresh: bool,
}

/// Who has which backend.
#[derive(Clone, Debug, Default, Hash)]
struct Pool {
    clients: Vec<Client>,
    backends: Vec<Backend>,
    /// Clients that wait for a backend, in the order of arrival.
    queue: Vec<u8>,
    /// Of the backends; that of the first client.
    isolation: Option<Isolation>,
}

/// A database behind a pooler with so many server connections; with none, the database itself.
#[derive(Clone, Debug)]
pub struct Pooler<D> {
    db: D,
    size: u8,
    pool: Pool,
    /// The pool before each change.
    journal: Vec<Pool>,
    /// Texts that set what the pooler follows.
    refused: Vec<StatementId>,
}

/// Bits of a [`Mark`] for the changes of the pool.
const JOURNAL_BITS: u32 = 20;

impl<D: Poolable> Pooler<D> {
    /// A database behind a pooler with `size` server connections, all of them open.
    pub fn new(db: D, size: u8) -> Pooler<D> {
        Pooler {
            db,
            size,
            pool: Pool::default(),
            journal: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn client(&self, session: SessionId) -> &Client {
        &self.pool.clients[usize::from(session.0)]
    }

    /// Changes who has what, so that it can be undone.
    fn change<R>(&mut self, change: impl FnOnce(&mut Pool) -> R) -> R {
        self.journal.push(self.pool.clone());
        change(&mut self.pool)
    }

    fn change_client(&mut self, session: SessionId, change: impl FnOnce(&mut Pooled)) {
        self.change(|pool| match &mut pool.clients[usize::from(session.0)] {
            Client::Pooled(client) => change(client),
            Client::Direct(_) => {}
        });
    }

    /// The session of the server that works for a client now.
    fn inner(&self, session: SessionId) -> Option<SessionId> {
        match self.client(session) {
            Client::Direct(inner) => Some(*inner),
            Client::Pooled(client) => {
                let backend = client.backend?;
                Some(self.pool.backends[usize::from(backend)].session)
            }
        }
    }

    /// The client for which a session of the server works.
    fn outer(&self, inner: SessionId) -> Option<SessionId> {
        let at = (0..self.pool.clients.len())
            .find(|at| self.inner(SessionId(*at as u8)) == Some(inner))?;
        Some(SessionId(at as u8))
    }

    /// The backends among which the pooler may choose now: those that are free, of the fresh ones
    /// only the first.
    fn free(&self) -> Vec<u8> {
        let bound = |place: u8| {
            self.pool.clients.iter().any(
                |client| matches!(client, Client::Pooled(client) if client.backend == Some(place)),
            )
        };
        let mut fresh = false;
        let places = self.pool.backends.iter().zip(0u8..);
        places
            .filter(|(backend, place)| {
                let is_free = !bound(*place) && (!backend.fresh || !fresh);
                fresh |= is_free && backend.fresh;
                is_free
            })
            .map(|(_, place)| place)
            .collect()
    }

    /// Gives a client a backend and runs what it waits with.
    fn route(&mut self, client: SessionId, place: u8) -> Progress {
        let Client::Pooled(Pooled { name, waiting, .. }) = self.client(client).clone() else {
            unreachable!("only clients of the pooler are routed");
        };
        let inner = self.pool.backends[usize::from(place)].session;
        self.change(|pool| {
            pool.queue.retain(|waiting| *waiting != client.0);
            pool.backends[usize::from(place)].fresh = false;
        });
        self.change_client(client, |pooled| {
            pooled.backend = Some(place);
            pooled.waiting = None;
        });
        // What the pooler follows, as far as it is modelled.
        self.db.name_client(inner, &name);
        let request = waiting.expect("a client waits with a request");
        let progress = self.db.submit(inner, &request);
        self.after(client, progress)
    }

    /// What a client is given, and what becomes of its backend.
    fn after(&mut self, client: SessionId, progress: Progress) -> Progress {
        let Client::Pooled(Pooled {
            backend: Some(place),
            ..
        }) = *self.client(client)
        else {
            return progress;
        };
        if !matches!(progress, Progress::Done(_)) {
            return progress;
        }
        let inner = self.pool.backends[usize::from(place)].session;
        if self.db.is_gone(inner) {
            self.replace(place);
            self.change_client(client, |pooled| {
                pooled.backend = None;
                pooled.gone = true;
            });
        } else if self.db.transaction_status(inner) == TransactionStatus::Idle {
            self.change_client(client, |pooled| pooled.backend = None);
        }
        progress
    }

    /// A new connection in the place of one that has ended.
    fn replace(&mut self, place: u8) {
        let session = self.db.connect(self.pool.isolation);
        self.change(|pool| {
            pool.backends[usize::from(place)] = Backend {
                session,
                fresh: true,
            };
        });
    }

    fn is_refused(&self, request: &Request) -> bool {
        match request {
            Request::Exec(id, _) => self.refused.contains(id),
            Request::Batch(text) => sets_what_is_followed(text),
        }
    }
}

/// Whether a text sets something that the pooler would take along from backend to backend.
fn sets_what_is_followed(text: &str) -> bool {
    text.split(';').any(|statement| {
        let mut words = statement.split(|c: char| c.is_whitespace() || c == '=');
        let mut words = words.by_ref().filter(|word| !word.is_empty());
        let is_set = words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("set"));
        let name = words.find(|word| !word.eq_ignore_ascii_case("session"));
        let is = |name: &str| {
            FOLLOWED
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        is_set && name.is_some_and(|name| is(name) || name.eq_ignore_ascii_case("time"))
    })
}

impl<D: Poolable> Database for Pooler<D> {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    fn connect(&mut self, isolation: Option<Isolation>) -> SessionId {
        let inner = self.db.connect(isolation);
        self.change(|pool| pool.clients.push(Client::Direct(inner)));
        SessionId((self.pool.clients.len() - 1) as u8)
    }

    fn connect_client(&mut self, isolation: Option<Isolation>, name: &str) -> SessionId {
        if self.size == 0 {
            let session = self.connect(isolation);
            let inner = self.inner(session).expect("it is direct");
            self.db.name_client(inner, name);
            return session;
        }
        if self.pool.backends.is_empty() {
            let sessions: Vec<SessionId> =
                (0..self.size).map(|_| self.db.connect(isolation)).collect();
            self.change(|pool| {
                pool.isolation = isolation;
                let backend = |session| Backend {
                    session,
                    fresh: true,
                };
                pool.backends = sessions.into_iter().map(backend).collect();
            });
        }
        let client = Client::Pooled(Pooled {
            name: name.into(),
            backend: None,
            waiting: None,
            gone: false,
        });
        self.change(|pool| pool.clients.push(client));
        SessionId((self.pool.clients.len() - 1) as u8)
    }

    fn pool(&mut self, size: u8) -> Result<(), DbError> {
        self.size = size;
        Ok(())
    }

    fn pool_size(&self) -> u8 {
        self.size
    }

    fn keep_views(&mut self) {
        self.db.keep_views();
    }

    fn text(&self, statement: StatementId) -> Arc<str> {
        self.db.text(statement)
    }

    fn prepare(&mut self, sql: &str) -> StatementId {
        let id = self.db.prepare(sql);
        if self.size > 0 && sets_what_is_followed(sql) && !self.refused.contains(&id) {
            self.refused.push(id);
        }
        id
    }

    fn submit(&mut self, session: SessionId, request: &Request) -> Progress {
        let refusal = |error| match request {
            Request::Exec(..) => Progress::Done(Answer::Exec(Err(error))),
            Request::Batch(_) => Progress::Done(Answer::Batch(Err(error))),
        };
        if let Some(inner) = self.inner(session) {
            let progress = self.db.submit(inner, request);
            return self.after(session, progress);
        }
        if self.is_gone(session) {
            return refusal(server_lost());
        }
        if self.is_refused(request) {
            let what = "a setting that a pooler takes along from one server connection to another";
            return refusal(DbError::unsupported(what, None));
        }
        self.change_client(session, |client| client.waiting = Some(request.clone()));
        let free = self.free();
        if let ([only], true) = (&free[..], self.pool.queue.is_empty()) {
            return self.route(session, *only);
        }
        self.change(|pool| pool.queue.push(session.0));
        match free.len() {
            0 => Progress::Waits,
            _ => Progress::Pauses,
        }
    }

    fn internal(&mut self, event: Internal) -> Progress {
        let (client, inner) = match event {
            Internal::Route(client, place) => return self.route(client, place),
            Internal::Resume(client)
            | Internal::Continue(client)
            | Internal::Deadlock(client)
            | Internal::Expire(client) => (client, self.inner(client)),
        };
        let inner = inner.expect("the event of a session that has a backend");
        let progress = self.db.internal(match event {
            Internal::Resume(_) | Internal::Route(..) => Internal::Resume(inner),
            Internal::Continue(_) => Internal::Continue(inner),
            Internal::Deadlock(_) => Internal::Deadlock(inner),
            Internal::Expire(_) => Internal::Expire(inner),
        });
        self.after(client, progress)
    }

    fn pending(&self, out: &mut Vec<Internal>) {
        let mut inner = Vec::new();
        self.db.pending(&mut inner);
        out.extend(inner.into_iter().filter_map(|event| {
            Some(match event {
                Internal::Resume(s) => Internal::Resume(self.outer(s)?),
                Internal::Continue(s) => Internal::Continue(self.outer(s)?),
                Internal::Deadlock(s) => Internal::Deadlock(self.outer(s)?),
                // What ends an idle connection of the pooler is seen by nobody.
                Internal::Expire(s) => Internal::Expire(self.outer(s)?),
                Internal::Route(..) => unreachable!("a server has no pooler in it"),
            })
        }));
        if let Some(first) = self.pool.queue.first() {
            let route = |place| Internal::Route(SessionId(*first), place);
            out.extend(self.free().into_iter().map(route));
        }
        out.sort_unstable();
    }

    fn terminate(&mut self, session: SessionId) {
        match self.client(session).clone() {
            Client::Direct(inner) => self.db.terminate(inner),
            Client::Pooled(client) => {
                if let Some(place) = client.backend {
                    self.db
                        .terminate(self.pool.backends[usize::from(place)].session);
                    self.replace(place);
                }
                self.change(|pool| pool.queue.retain(|waiting| *waiting != session.0));
                self.change_client(session, |client| {
                    client.backend = None;
                    client.waiting = None;
                    client.gone = true;
                });
            }
        }
    }

    fn is_busy(&self, session: SessionId) -> bool {
        match self.client(session) {
            Client::Pooled(client) if client.waiting.is_some() => true,
            _ => self
                .inner(session)
                .is_some_and(|inner| self.db.is_busy(inner)),
        }
    }

    fn has_transaction(&self, session: SessionId) -> bool {
        let inner = self.inner(session);
        inner.is_some_and(|inner| self.db.has_transaction(inner))
    }

    fn is_gone(&self, session: SessionId) -> bool {
        match self.client(session) {
            Client::Direct(inner) => self.db.is_gone(*inner),
            Client::Pooled(client) => client.gone,
        }
    }

    fn waits(&self) -> Vec<Wait> {
        let of = |sessions: &[SessionId]| {
            let mut outer: Vec<SessionId> = sessions
                .iter()
                .filter_map(|inner| self.outer(*inner))
                .collect();
            outer.sort_unstable();
            outer
        };
        let mut waits: Vec<Wait> = self
            .db
            .waits()
            .into_iter()
            .filter_map(|wait| {
                Some(Wait {
                    session: self.outer(wait.session)?,
                    // A lock that was left on an idle backend is nobody's.
                    blockers: of(&wait.blockers),
                    ..wait
                })
            })
            .collect();
        if self.free().is_empty() {
            let backends: Vec<SessionId> = self.pool.backends.iter().map(|b| b.session).collect();
            waits.extend(self.pool.queue.iter().map(|client| Wait {
                session: SessionId(*client),
                blockers: of(&backends),
                object: "a server connection of the pooler".to_owned(),
                granted: false,
            }));
        }
        waits.sort_by_key(|wait| wait.session);
        waits
    }

    fn set_granularity(&mut self, granularity: Granularity) -> Result<(), DbError> {
        self.db.set_granularity(granularity)
    }

    fn pauses(&self) -> Vec<Pause> {
        let mut pauses: Vec<Pause> = self
            .db
            .pauses()
            .into_iter()
            .filter_map(|pause| {
                Some(Pause {
                    session: self.outer(pause.session)?,
                    ..pause
                })
            })
            .collect();
        if !self.free().is_empty() {
            pauses.extend(self.pool.queue.iter().map(|client| Pause {
                session: SessionId(*client),
                before: "a server connection".to_owned(),
            }));
        }
        pauses.sort_by_key(|pause| pause.session);
        pauses
    }

    fn now_micros(&self) -> i64 {
        self.db.now_micros()
    }

    fn set_now_micros(&mut self, now_micros: i64) {
        self.db.set_now_micros(now_micros);
    }

    fn deadlines(&self, out: &mut Vec<i64>) {
        self.db.deadlines(out);
    }

    fn query(&mut self, query: StatementId, args: &[Value]) -> Result<Vec<Row>, DbError> {
        self.db.query(query, args)
    }

    fn committed_version(&self) -> u64 {
        self.db.committed_version()
    }

    fn mark(&self) -> Mark {
        debug_assert!(self.journal.len() < 1 << JOURNAL_BITS);
        Mark(self.db.mark().0 << JOURNAL_BITS | self.journal.len())
    }

    fn undo_to(&mut self, mark: Mark) {
        self.db.undo_to(Mark(mark.0 >> JOURNAL_BITS));
        let length = mark.0 & ((1 << JOURNAL_BITS) - 1);
        if length < self.journal.len() {
            let mut later = self.journal.drain(length..);
            let before = later.next();
            drop(later);
            self.pool = before.unwrap_or_default();
        }
    }

    fn fingerprint(&mut self) -> u128 {
        let mut hasher = Xxh3::new();
        self.db.fingerprint().hash(&mut hasher);
        self.pool.hash(&mut hasher);
        // Of a hasher with 64 bits both halves are asked for.
        let low = hasher.finish();
        hasher.write_u8(1);
        u128::from(hasher.finish()) << 64 | u128::from(low)
    }

    fn rules_version(&self) -> u64 {
        self.db.rules_version()
    }

    fn begin_footprint(&mut self) {
        self.db.begin_footprint();
    }

    fn end_footprint(&mut self) {
        self.db.end_footprint();
    }

    fn footprint(&self) -> Footprint {
        self.db.footprint()
    }
}
