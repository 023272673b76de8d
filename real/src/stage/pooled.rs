//! Sessions of a stage by way of a real pooler in transaction mode.
//!
//! Which server connection a transaction gets is the pooler's to decide. So that a schedule can say
//! it, every server connection that nobody uses is kept busy by a *keeper*, a client of the pooler
//! with a transaction open on it. To give a transaction a certain server connection its keeper ends
//! its own: that connection is then the only free one. When the transaction has ended, the keeper
//! begins a new one, and gets the same connection back.

use std::sync::Arc;

use rowlock_model::schedule::{SessionId, Statement};
use rowlock_model::{Host, Session, Value};
use rowlock_scenarios::stage::{Paused, StageError};

use super::{failed, failure};
use crate::host::RealHost;
use crate::postgres::PostgresTarget;
use crate::server::{PgBouncer, PostgresServer};
use crate::session::RealSession;

/// A server connection of the pooler.
#[derive(Debug)]
struct Place {
    keeper: RealSession,
    /// The process id of the server's end.
    backend: i64,
    /// No session has used it yet.
    fresh: bool,
    /// Who has it.
    user: Option<SessionId>,
}

/// A pooler, its keepers, and who waits for a server connection.
#[derive(Debug)]
pub(super) struct Pooled {
    // The keepers before the pooler.
    places: Vec<Place>,
    queue: Vec<(SessionId, Statement)>,
    pooler: PgBouncer,
    database: String,
}

impl Pooled {
    /// Starts a pooler for a database, with `size` server connections that are prepared with a
    /// script, and takes hold of all of them.
    pub(super) async fn start(
        server: Arc<PostgresServer>,
        database: &str,
        size: u8,
        prepare: &str,
    ) -> Result<Pooled, StageError> {
        let pooler = PgBouncer::start(server, size, prepare);
        let pooler = pooler.map_err(|error| failure(error.to_string()))?;
        let mut pooled = Pooled {
            places: Vec::new(),
            queue: Vec::new(),
            pooler,
            database: database.to_owned(),
        };
        for _ in 0..size {
            let host = RealHost::new("rowlock keeper", pooled.target());
            let keeper = host.connect().await;
            let mut keeper = keeper.map_err(failed("cannot connect to the pooler"))?;
            let backend = hold(&mut keeper).await?;
            pooled.places.push(Place {
                keeper,
                backend,
                fresh: true,
                user: None,
            });
        }
        Ok(pooled)
    }

    /// The database by way of the pooler.
    pub(super) fn target(&self) -> PostgresTarget {
        self.pooler.target(&self.database)
    }

    /// The server's end of a session, while it has one.
    pub(super) fn backend(&self, session: SessionId) -> Option<i64> {
        let place = self.places.iter().find(|p| p.user == Some(session))?;
        Some(place.backend)
    }

    /// Whether a session waits for a server connection.
    pub(super) fn is_queued(&self, session: SessionId) -> bool {
        self.queue.iter().any(|(queued, _)| *queued == session)
    }

    /// Server connections to choose from: those that are free, of the fresh ones only the first.
    fn free(&self) -> Vec<u8> {
        let mut fresh = false;
        let places = self.places.iter().zip(0u8..);
        places
            .filter(|(place, _)| {
                let is_free = place.user.is_none() && (!place.fresh || !fresh);
                fresh |= is_free && place.fresh;
                is_free
            })
            .map(|(_, at)| at)
            .collect()
    }

    /// A session is about to send a statement: whether it may. Otherwise it is kept until there is a
    /// [`route`](Self::route).
    pub(super) async fn admit(
        &mut self,
        session: SessionId,
        statement: &Statement,
    ) -> Result<bool, StageError> {
        if self.backend(session).is_some() {
            return Ok(true);
        }
        if let ([only], true) = (&self.free()[..], self.queue.is_empty()) {
            self.give(session, *only).await?;
            return Ok(true);
        }
        self.queue.push((session, statement.clone()));
        Ok(false)
    }

    /// The first in the queue is given a server connection; the statement that it may send now.
    pub(super) async fn route(
        &mut self,
        session: SessionId,
        place: u8,
    ) -> Result<Statement, StageError> {
        let is_first = self
            .queue
            .first()
            .is_some_and(|(first, _)| *first == session);
        if !is_first || !self.free().contains(&place) {
            return Err(failure(format!(
                "session {} is not the first that waits for a server connection, or connection {} is \
                 not free",
                session.0,
                place + 1
            )));
        }
        let (_, statement) = self.queue.remove(0);
        self.give(session, place).await?;
        Ok(statement)
    }

    async fn give(&mut self, session: SessionId, place: u8) -> Result<(), StageError> {
        let place = &mut self.places[usize::from(place)];
        let released = place.keeper.exec("ROLLBACK", &[]).await;
        released.map_err(failed("a keeper lost its server connection"))?;
        place.fresh = false;
        place.user = Some(session);
        Ok(())
    }

    /// Takes back the server connections of sessions whose transactions have ended: those of `idle`,
    /// which the server calls idle.
    pub(super) async fn take_back(&mut self, idle: &[SessionId]) -> Result<(), StageError> {
        for place in &mut self.places {
            if place.user.is_some_and(|user| idle.contains(&user)) {
                place.user = None;
                let backend = hold(&mut place.keeper).await?;
                if backend != place.backend {
                    return Err(failure(
                        "the pooler gave a keeper another server connection than the one that was free",
                    ));
                }
            }
        }
        Ok(())
    }

    /// A session is gone, and the server connection with it that it had: the pooler opens a new one.
    pub(super) async fn leave(&mut self, session: SessionId) -> Result<(), StageError> {
        self.queue.retain(|(queued, _)| *queued != session);
        let place = self.places.iter_mut().find(|p| p.user == Some(session));
        if let Some(place) = place {
            place.user = None;
            place.fresh = true;
            place.backend = hold(&mut place.keeper).await?;
        }
        Ok(())
    }

    /// The sessions that have a server connection, with its number.
    pub(super) fn users(&self) -> Vec<(SessionId, i64)> {
        let users = self.places.iter();
        users
            .filter_map(|place| Some((place.user?, place.backend)))
            .collect()
    }

    /// The numbers of all server connections.
    pub(super) fn backends(&self) -> impl Iterator<Item = i64> {
        self.places.iter().map(|place| place.backend)
    }

    /// Who waits for a server connection while there are some.
    pub(super) fn paused(&self) -> Vec<Paused> {
        if self.free().is_empty() {
            return Vec::new();
        }
        let paused = self.queue.iter().map(|(session, _)| Paused {
            session: *session,
            before: "a server connection".to_owned(),
        });
        paused.collect()
    }

    /// Who waits because there is none, and those who have them.
    pub(super) fn waiting(&self) -> (Vec<SessionId>, Vec<SessionId>) {
        if !self.free().is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut users: Vec<SessionId> = self.users().into_iter().map(|(user, _)| user).collect();
        users.sort_unstable();
        (
            self.queue.iter().map(|(session, _)| *session).collect(),
            users,
        )
    }
}

/// Begins a keeper's transaction; the server connection that it has.
async fn hold(keeper: &mut RealSession) -> Result<i64, StageError> {
    let what = "a keeper cannot take a server connection";
    let begun = keeper.exec("BEGIN", &[]).await;
    begun.map_err(failed(what))?;
    let reply = keeper.exec("SELECT pg_backend_pid()", &[]).await;
    let reply = reply.map_err(failed(what))?;
    let pid = reply.scalar().and_then(Value::as_int);
    pid.ok_or_else(|| failure(what))
}
