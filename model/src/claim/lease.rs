//! The lease form: a claim writes into the row until when it is taken, and commits.
//!
//! No connection is held while a handler runs. What returns the row of a crashed process is time.
//! Guarantees, as long as host clocks differ by less than half a lease: at most one delivery of a
//! row has a lease that runs; only the holder settles ([`TokenRule`]); a crash spends one attempt,
//! and the row is free again after the lease, rounded up to a second, plus the skew.

//!
//! The form tells the host what it holds, for logs and for monitors ([`Host::note`]): `claimed`
//! (id, attempt, end of the lease, host clock, both in microseconds), `extended` (id, new end), then one of
//! `settled`, `lost`, `left` (id, settlement).

use std::sync::Arc;

use super::error::{ClaimError, Doing};
use super::mutation::Mutation;
use super::pool::Pool;
use super::settle::{Job, Settlement};
use super::slot::{Settling, SlotKey, Slots};
use super::statements::{LeaseStatements, Rules, fence_column};
use super::table::{DeadLetter, Table};
use super::text::Values;
use super::token::{Clock, LeaseLength, Token, TokenRule};
use crate::sync::Lock;
use crate::{Dialect, ErrorClass, Host, Session, Task, Value};

/// The settings of a lease queue.
#[derive(Clone, Debug, Default)]
pub struct LeaseOptions {
    /// How long a claim holds without being extended; 30 seconds by default.
    pub lease: LeaseLength,
    /// What a settlement must match.
    pub token: TokenRule,
    /// Whose clock decides.
    pub clock: Clock,
    /// The group to claim from, for tables with a group column.
    pub group: Option<Value>,
    /// Do not extend leases: handlers are done within one, or lose it.
    pub without_keeper: bool,
    /// A deliberate mistake, for checkers only.
    pub mutation: Option<Mutation>,
}

/// A queue of rows that are claimed by lease.
///
/// Dropping it stops the extension of leases; deliveries can still be settled.
pub struct Lease<H: Host> {
    shared: Arc<Shared<H>>,
    keeper: Option<H::Task<()>>,
}

/// What the queue, its keeper and its deliveries share.
pub(super) struct Shared<H: Host> {
    pub(super) pool: Pool<H>,
    pub(super) statements: LeaseStatements,
    pub(super) slots: Slots,
    pub(super) options: LeaseOptions,
    table: Table,
    fence: Option<Arc<str>>,
    closed: Lock<bool>,
}

impl<H: Host> Shared<H> {
    /// Values that do not depend on a row.
    pub(super) fn values(&self, now_micros: i64) -> Values {
        let dead_group = match &self.table.dead_letter {
            Some(DeadLetter::Group(group)) => Some(Value::Text(Arc::clone(group))),
            _ => None,
        };
        Values {
            instants: self.table.instants,
            now_micros,
            expiry_micros: self.options.lease.expiry(now_micros),
            lease_micros: self.options.lease.as_micros(),
            group: self.options.group.clone(),
            dead_group,
            ..Values::default()
        }
    }

    /// The token of a job just claimed.
    fn token(&self, job: &Job, expiry_micros: i64) -> Token {
        Token {
            expiry_micros,
            // The row is answered as it was before the claim counted.
            fence: job.fence.map(|before| before.saturating_add(1)),
        }
    }
}

impl<H: Host> Lease<H> {
    /// A queue on `table`, with connections from `pool`. Starts the keeper.
    ///
    /// # Errors
    /// [`ClaimError::Declaration`]: the table lacks what the form or a setting needs.
    pub fn open(
        pool: Pool<H>,
        dialect: Dialect,
        table: Table,
        options: LeaseOptions,
    ) -> Result<Lease<H>, ClaimError> {
        let rules = Rules {
            token: Some(options.token),
            clock: options.clock,
            mutation: options.mutation,
        };
        let statements = LeaseStatements::new(dialect, &table, rules)?;
        let fence = fence_column(&table, options.token)?.cloned();
        let shared = Arc::new(Shared {
            pool,
            statements,
            slots: Slots::default(),
            options,
            table,
            fence,
            closed: Lock::new(false),
        });
        let keeper = (!shared.options.without_keeper).then(|| {
            let host = shared.pool.host().clone();
            host.spawn(super::keeper::keep(Arc::clone(&shared)))
        });
        Ok(Lease { shared, keeper })
    }

    /// Takes at most `limit` rows into work, in claim order.
    ///
    /// # Errors
    /// [`ClaimError::Ambiguous`] if the connection was lost: rows that were claimed nevertheless
    /// come back when their leases end.
    pub async fn claim(&self, limit: u32) -> Result<Vec<LeaseDelivery<H>>, ClaimError> {
        let shared = &self.shared;
        if shared.closed.with(|closed| *closed) {
            return Err(ClaimError::Closed);
        }
        let host = shared.pool.host();
        let early = host.now_micros();
        let mut session = shared.pool.acquire().await.map_err(ClaimError::Connect)?;
        // Read after the connection is had, so that waiting for one does not eat the lease.
        let now = match shared.options.mutation {
            Some(Mutation::ClockBeforeConnection) => early,
            _ => host.now_micros(),
        };
        let mut values = shared.values(now);
        values.limit = i64::from(limit);
        let statement = &shared.statements.claim;
        host.name_step("claim");
        let reply = session.exec(&statement.sql, &statement.bind(&values)).await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                if error.class != ErrorClass::ConnectionLost {
                    session.put_back();
                }
                return Err(ClaimError::of(Doing::Claim, error));
            }
        };
        session.put_back();
        let jobs = Job::read(&reply, &shared.table, shared.fence.as_ref())?;
        let deliver = |job: Job| {
            let token = shared.token(&job, values.expiry_micros);
            let slot = shared.slots.insert(job.id().clone(), token);
            let attempt = job.attempt().map_or(Value::Null, Value::Int);
            let until = Value::Int(token.expiry_micros);
            let values = [job.id().clone(), attempt, until, Value::Int(now)];
            host.note("claimed", &values);
            LeaseDelivery {
                shared: Arc::clone(shared),
                job,
                slot,
                open: true,
            }
        };
        Ok(jobs.into_iter().map(deliver).collect())
    }

    /// Stops claiming and extending. Deliveries can still be settled while their leases last.
    pub fn close(&self) {
        self.shared.closed.with(|closed| *closed = true);
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
    }
}

impl<H: Host> Drop for Lease<H> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<H: Host> std::fmt::Debug for Lease<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("table", &self.shared.table.name)
            .finish_non_exhaustive()
    }
}

/// A row in work. Settle it; one that is dropped unsettled is given back in the background.
pub struct LeaseDelivery<H: Host> {
    shared: Arc<Shared<H>>,
    job: Job,
    slot: SlotKey,
    /// Not settled yet, as far as is known.
    open: bool,
}

impl<H: Host> LeaseDelivery<H> {
    /// The claimed row.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Whether the keeper found the lease lost. The handler may then stop early.
    pub fn is_lost(&self) -> bool {
        self.open && self.shared.slots.is_lost(self.slot)
    }

    /// The work is done. See [`settle`](Self::settle).
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn ack(&mut self) -> Result<(), ClaimError> {
        self.settle(Settlement::Ack).await
    }

    /// Deliver it again. See [`settle`](Self::settle).
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn retry(&mut self) -> Result<(), ClaimError> {
        self.settle(Settlement::Retry).await
    }

    /// Settles the delivery, on a connection of its own, after an extension that may be on its way.
    ///
    /// If the connection is lost and the token is fenced, the settlement is sent once more: where
    /// the first one had no effect, the second one has.
    ///
    /// # Errors
    /// [`ClaimError::LeaseLost`]: the row is not ours any more. [`ClaimError::Ambiguous`]: not
    /// known; the delivery is over. After any other error the delivery is held as before: settle
    /// again, or drop it.
    pub async fn settle(&mut self, settlement: Settlement) -> Result<(), ClaimError> {
        if !self.open {
            return Err(ClaimError::LeaseLost);
        }
        let shared = Arc::clone(&self.shared);
        let lost = |_| ClaimError::LeaseLost;
        let settling = shared.slots.begin_settle(self.slot).await.map_err(lost)?;
        let first = self.send_pooled(&settling, settlement).await;
        let answer = match (first, shared.options.token) {
            (Err(ClaimError::Ambiguous { doing, error }), TokenRule::Fenced) => {
                match self.send_pooled(&settling, settlement).await {
                    Ok(hit @ 1..) => Ok(hit),
                    // No row: perhaps the first one was it.
                    Ok(0) | Err(_) => Err(ClaimError::Ambiguous { doing, error }),
                }
            }
            (first, _) => first,
        };
        self.conclude(settling, settlement, answer)
    }

    /// Settles the delivery inside a transaction that the caller has open in `session`, so that
    /// what the handler wrote there is stored if and only if the lease still held. Roll back on
    /// any error.
    ///
    /// Does not wait for an extension on its way, since that may be waiting for this transaction.
    /// The delivery counts as settled at once: if the transaction is rolled back, the row comes
    /// back when its lease ends.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn settle_in<S: Session>(
        &mut self,
        session: &mut S,
        settlement: Settlement,
    ) -> Result<(), ClaimError> {
        if !self.open {
            return Err(ClaimError::LeaseLost);
        }
        let shared = Arc::clone(&self.shared);
        let lost = |_| ClaimError::LeaseLost;
        let settling = shared.slots.settle_ahead(self.slot).map_err(lost)?;
        let answer = self.send(session, &settling, settlement).await;
        self.conclude(settling, settlement, answer)
    }

    /// Sends a settlement on a connection of the pool.
    async fn send_pooled(
        &self,
        settling: &Settling<'_>,
        settlement: Settlement,
    ) -> Result<u64, ClaimError> {
        let pool = &self.shared.pool;
        let mut session = pool.acquire().await.map_err(ClaimError::Connect)?;
        let answer = self.send(&mut *session, settling, settlement).await;
        if !matches!(answer, Err(ClaimError::Ambiguous { .. })) {
            session.put_back();
        }
        answer
    }

    /// Sends a settlement; how many rows it hit.
    async fn send<S: Session>(
        &self,
        session: &mut S,
        settling: &Settling<'_>,
        settlement: Settlement,
    ) -> Result<u64, ClaimError> {
        let shared = &self.shared;
        let Some(statement) = shared.statements.settle.statement(settlement)? else {
            return Ok(1);
        };
        let host = shared.pool.host();
        let mut values = shared.values(host.now_micros());
        values.id = Some(settling.id.clone());
        values.token = Some(settling.token);
        if let Settlement::RetryAfter(delay) = settlement {
            values.retry_in_micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX / 2);
        }
        host.name_step(settlement.name());
        match session.exec(&statement.sql, &statement.bind(&values)).await {
            Ok(reply) => Ok(reply.affected),
            Err(error) => Err(ClaimError::of(Doing::Settle, error)),
        }
    }

    /// What the answer to a settlement means for the delivery.
    fn conclude(
        &mut self,
        settling: Settling<'_>,
        settlement: Settlement,
        answer: Result<u64, ClaimError>,
    ) -> Result<(), ClaimError> {
        let note = |name| {
            let kind = Value::from(settlement.name());
            let values = [self.job.id().clone(), kind];
            self.shared.pool.host().note(name, &values);
        };
        match answer {
            Ok(0) => {
                note("lost");
                settling.lost();
                return Err(ClaimError::LeaseLost);
            }
            Ok(_) => note("settled"),
            Err(ClaimError::Ambiguous { .. }) => note("left"),
            Err(error) => return Err(error),
        }
        settling.done();
        self.open = false;
        match answer {
            Ok(rows @ 2..) => Err(ClaimError::Contents(
                format!("one settlement hit {rows} rows: the id is not unique").into(),
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Leaves the delivery without giving it back: the row stays leased until the lease ends.
    pub fn forget(mut self) {
        self.open = false;
        let values = [self.job.id().clone(), Value::from("forget")];
        self.shared.pool.host().note("left", &values);
        self.shared.slots.free(self.slot);
    }
}

impl<H: Host> Drop for LeaseDelivery<H> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        if self.shared.slots.is_lost(self.slot) {
            return self.shared.slots.free(self.slot);
        }
        let (shared, slot) = (Arc::clone(&self.shared), self.slot);
        let host = shared.pool.host().clone();
        host.note("left", &[self.job.id().clone(), Value::from("release")]);
        host.spawn(release(shared, slot));
    }
}

impl<H: Host> std::fmt::Debug for LeaseDelivery<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseDelivery")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

/// Gives a row back whose delivery was dropped. If that fails the row comes back with its lease.
async fn release<H: Host>(shared: Arc<Shared<H>>, slot: SlotKey) {
    let Ok(settling) = shared.slots.begin_settle(slot).await else {
        return shared.slots.free(slot);
    };
    if let Ok(mut session) = shared.pool.acquire().await
        && let Ok(Some(statement)) = shared.statements.settle.statement(Settlement::Retry)
    {
        let mut values = shared.values(shared.pool.host().now_micros());
        values.id = Some(settling.id.clone());
        values.token = Some(settling.token);
        shared.pool.host().name_step("release");
        let reply = session.exec(&statement.sql, &statement.bind(&values)).await;
        if !matches!(reply, Err(error) if error.class == ErrorClass::ConnectionLost) {
            session.put_back();
        }
    }
    settling.done();
}
