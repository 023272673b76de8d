//! A small pool of connections.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::sync::{Lock, Permit, Semaphore};
use crate::{DbError, Host};

/// Connections that are used again, at most so many at a time, served in the order of arrival.
///
/// A connection goes back only when whoever used it says that it is clean
/// ([`Pooled::put_back`]). One that is dropped (a cancelled task, an early return) is closed, so
/// that no transaction, lock or half-read reply reaches the next user.
#[derive(Debug)]
pub struct Pool<H: Host> {
    inner: Arc<Inner<H>>,
}

impl<H: Host> Clone for Pool<H> {
    fn clone(&self) -> Pool<H> {
        Pool {
            inner: Arc::clone(&self.inner),
        }
    }
}

struct Inner<H: Host> {
    host: H,
    permits: Semaphore,
    idle: Lock<Vec<H::Session>>,
}

impl<H: Host> std::fmt::Debug for Inner<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

impl<H: Host> Pool<H> {
    /// A pool of at most `max` connections (at least one) of `host`. None is opened yet.
    pub fn new(host: H, max: usize) -> Pool<H> {
        Pool {
            inner: Arc::new(Inner {
                host,
                permits: Semaphore::new(max.max(1)),
                idle: Lock::default(),
            }),
        }
    }

    /// A pool of exactly these connections of `host`, and of new ones in their places once they
    /// are closed.
    pub fn with_sessions(host: H, sessions: Vec<H::Session>) -> Pool<H> {
        let pool = Pool::new(host, sessions.len());
        pool.inner.idle.with(|idle| *idle = sessions);
        pool
    }

    /// The host that the connections belong to.
    pub fn host(&self) -> &H {
        &self.inner.host
    }

    /// How many connections wait for their next user: all that were opened, if none is in use and
    /// none was closed.
    pub fn idle(&self) -> usize {
        self.inner.idle.with(|idle| idle.len())
    }

    /// Waits for a connection, and opens one if none is idle.
    ///
    /// # Errors
    /// What connecting answered.
    pub async fn acquire(&self) -> Result<Pooled<H>, DbError> {
        let permit = self.inner.permits.acquire().await;
        self.open(permit).await
    }

    /// A connection if one may be had without waiting for somebody to give his back.
    ///
    /// # Errors
    /// What connecting answered.
    pub async fn try_acquire(&self) -> Result<Option<Pooled<H>>, DbError> {
        match self.inner.permits.try_acquire() {
            Some(permit) => self.open(permit).await.map(Some),
            None => Ok(None),
        }
    }

    async fn open(&self, permit: Permit<'_>) -> Result<Pooled<H>, DbError> {
        let session = match self.inner.idle.with(Vec::pop) {
            Some(session) => session,
            None => self.inner.host.connect().await?,
        };
        permit.keep();
        Ok(Pooled {
            session: Some(session),
            pool: Arc::clone(&self.inner),
            tainted: false,
        })
    }
}

/// A connection of a [`Pool`]. Closed when dropped; see [`Pooled::put_back`].
pub struct Pooled<H: Host> {
    /// Empty only between `put_back` and the drop that follows.
    session: Option<H::Session>,
    pool: Arc<Inner<H>>,
    /// Not to be used by anybody else.
    tainted: bool,
}

impl<H: Host> Pooled<H> {
    /// The host that the connection belongs to.
    pub fn host(&self) -> &H {
        &self.pool.host
    }

    /// Whatever comes: this connection is closed, and not given to the next user.
    pub(super) fn close_when_dropped(&mut self) {
        self.tainted = true;
    }

    /// Gives the connection to the next user. Only for one without transaction, locks and
    /// statements on their way.
    pub fn put_back(mut self) {
        if let Some(session) = self.session.take()
            && !self.tainted
        {
            self.pool.idle.with(|idle| idle.push(session));
        }
    }
}

impl<H: Host> Drop for Pooled<H> {
    fn drop(&mut self) {
        // Closed before the permit is given back: never more than `max` are open.
        self.session = None;
        self.pool.permits.restore();
    }
}

impl<H: Host> Deref for Pooled<H> {
    type Target = H::Session;

    fn deref(&self) -> &H::Session {
        self.session.as_ref().expect("present until it is put back")
    }
}

impl<H: Host> DerefMut for Pooled<H> {
    fn deref_mut(&mut self) -> &mut H::Session {
        self.session.as_mut().expect("present until it is put back")
    }
}

impl<H: Host> std::fmt::Debug for Pooled<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pooled")
    }
}
