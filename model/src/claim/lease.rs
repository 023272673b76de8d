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

use super::advisory::says_yes;
use super::error::{ClaimError, Doing};
use super::mutation::Mutation;
use super::pool::{Pool, Pooled};
use super::queue_key;
use super::settle::{Job, Settlement, commit, run_settlement, send_settlement};
use super::slot::{Settling, SlotKey, Slots};
use super::statements::{FifoGuard, LeaseClaim, LeaseStatements, Rules, fence_column};
use super::table::{Form, Table};
use super::text::{OfIds, Statement, Values};
use super::token::{Clock, LeaseLength, Token, TokenRule};
use crate::retry::begin;
use crate::sync::Lock;
use crate::{DbError, Dialect, ErrorClass, Host, Isolation, Reply, Session, Task, Value};

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
    /// The queue is FIFO: only its first unfinished row is claimed, and only while no row of it has
    /// a lease that runs. A queue is the rows of one group, or the table.
    pub fifo: Option<FifoGuard>,
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
    pub(super) dialect: Dialect,
    table: Table,
    fence: Option<Arc<str>>,
    closed: Lock<bool>,
}

impl<H: Host> Shared<H> {
    /// Values that do not depend on a row.
    pub(super) fn values(&self, now_micros: i64) -> Values {
        Values {
            instants: self.table.instants_on(self.dialect),
            now_micros,
            expiry_micros: self.options.lease.expiry(now_micros),
            lease_micros: self.options.lease.as_micros(),
            group: self.options.group.clone(),
            dead_group: self.table.dead_group().cloned().map(Value::Text),
            queue_key: Some(queue_key(&self.table, self.options.group.as_ref())),
            ..Values::default()
        }
    }

    /// Sends a statement under the name of a step.
    pub(super) async fn exec(
        &self,
        session: &mut Pooled<H>,
        step: &str,
        statement: &Statement,
        values: &Values,
    ) -> Result<Reply, DbError> {
        self.pool.host().name_step(step);
        session.exec(&statement.sql, &statement.bind(values)).await
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
            token: options.token,
            clock: options.clock,
            fifo: options.fifo,
            mutation: options.mutation,
            ..Rules::of(Form::Lease)
        };
        let statements = LeaseStatements::new(dialect, &table, rules)?;
        let fence = fence_column(&table, options.token)?.cloned();
        let shared = Arc::new(Shared {
            pool,
            statements,
            slots: Slots::default(),
            options,
            dialect,
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
        let claimed = self.take(&mut session, &values).await;
        let jobs = match claimed {
            Ok(jobs) => {
                session.put_back();
                jobs
            }
            Err(error) => {
                // A connection on which a guard or a transaction may be left is closed.
                if matches!(&error, ClaimError::Database(_)) && self.is_one_statement() {
                    session.put_back();
                }
                return Err(error);
            }
        };
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

    fn is_one_statement(&self) -> bool {
        let statements = &self.shared.statements;
        statements.guard.is_none() && matches!(statements.claim, LeaseClaim::Single(_))
    }

    /// Runs the claim: as one statement where that is enough, otherwise in a transaction at READ
    /// COMMITTED, behind the guard of a FIFO queue.
    async fn take(&self, session: &mut Pooled<H>, values: &Values) -> Result<Vec<Job>, ClaimError> {
        let shared = &self.shared;
        if let (true, LeaseClaim::Single(claim)) =
            (self.is_one_statement(), &shared.statements.claim)
        {
            let reply = shared.exec(session, "claim", claim, values).await;
            let reply = reply.map_err(|error| ClaimError::of(Doing::Claim, error))?;
            return Job::read(&reply, &shared.table, shared.fence.as_ref());
        }
        for statement in begin(shared.dialect, Some(Isolation::ReadCommitted)) {
            shared.pool.host().name_step("begin");
            let begun = session.exec(&statement, &[]).await;
            begun.map_err(ClaimError::Database)?;
        }
        let jobs = match self.take_inside(session, values).await {
            Ok(jobs) => jobs,
            Err(error) => return Err(ClaimError::Database(error)),
        };
        let jobs = jobs.map_or_else(
            || Ok(Vec::new()),
            |reply| Job::read(&reply, &shared.table, shared.fence.as_ref()),
        )?;
        let jobs = match &shared.statements.claim {
            LeaseClaim::Single(_) => jobs,
            LeaseClaim::Stamped { stamp, .. } => {
                let stamped = match jobs.is_empty() {
                    true => 0,
                    false => self.stamp(session, stamp, values, &jobs).await?,
                };
                match stamped {
                    0 => Vec::new(),
                    _ => jobs,
                }
            }
        };
        match commit(shared.pool.host(), &mut **session).await {
            Ok(()) => {}
            Err(ClaimError::Ambiguous { error, .. }) => {
                return Err(ClaimError::of(Doing::Claim, error));
            }
            Err(error) => return Err(error),
        }
        let release = shared.statements.guard.as_ref();
        if let Some(release) = release.and_then(|guard| guard.release.as_ref()) {
            // Answered 0 if the guard was not had; an error closes the connection, and so frees it.
            let released = shared.exec(session, "unguard", release, values).await;
            if released.is_err() {
                session.close_when_dropped();
            }
        }
        Ok(jobs)
    }

    /// Writes the lease into rows that this transaction has locked, all in one statement: all of them or
    /// none, since nobody else can have changed one. Says how many; anything between is an error.
    async fn stamp(
        &self,
        session: &mut Pooled<H>,
        stamp: &OfIds,
        values: &Values,
        jobs: &[Job],
    ) -> Result<u64, ClaimError> {
        self.shared.pool.host().name_step("stamp");
        let args = stamp.bind(values, jobs.iter().map(|job| job.id().clone()));
        let reply = session.exec(&stamp.sql(jobs.len()), &args).await;
        let affected = reply.map_err(ClaimError::Database)?.affected;
        let rows = jobs.len() as u64;
        if affected == 0 || affected == rows {
            return Ok(affected);
        }
        let message = format!("a lease was written into {affected} of {rows} locked rows");
        Err(ClaimError::Contents(message.into()))
    }

    /// The guard and the choice of the rows, in a transaction; `None`: the queue is not free.
    async fn take_inside(
        &self,
        session: &mut Pooled<H>,
        values: &Values,
    ) -> Result<Option<Reply>, DbError> {
        let shared = &self.shared;
        if let Some(guard) = &shared.statements.guard {
            let reply = shared.exec(session, "guard", &guard.take, values).await?;
            if !says_yes(&reply) {
                return Ok(None);
            }
        }
        let statement = match &shared.statements.claim {
            LeaseClaim::Single(claim) => claim,
            LeaseClaim::Stamped { lock, .. } => lock,
        };
        shared
            .exec(session, "claim", statement, values)
            .await
            .map(Some)
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

    /// Proves inside a transaction that the caller has open in `session` that the lease is held, and
    /// keeps it from being taken until that transaction ends. For settlements in the caller's own
    /// words, which name no token: prove first, then settle, then commit, then
    /// [`forget`](Self::forget).
    ///
    /// # Errors
    /// [`ClaimError::LeaseLost`]; or what the database answered.
    pub async fn prove_in<S: Session>(&mut self, session: &mut S) -> Result<(), ClaimError> {
        let shared = Arc::clone(&self.shared);
        let lost = |_| ClaimError::LeaseLost;
        let settling = shared.slots.settle_ahead(self.slot).map_err(lost)?;
        let values = self.values(&settling, Settlement::Ack);
        let statement = &shared.statements.prove;
        shared.pool.host().name_step("prove");
        match session.exec(&statement.sql, &statement.bind(&values)).await {
            Ok(reply) if reply.rows.is_empty() => {
                settling.lost();
                Err(ClaimError::LeaseLost)
            }
            Ok(_) => Ok(()),
            Err(error) => Err(ClaimError::of(Doing::Settle, error)),
        }
    }

    /// Sends a settlement on a connection of the pool; how many rows it hit.
    async fn send_pooled(
        &self,
        settling: &Settling<'_>,
        settlement: Settlement,
    ) -> Result<u64, ClaimError> {
        let shared = &self.shared;
        let statements = shared.statements.settle.statements(settlement)?;
        let mut session = shared.pool.acquire().await.map_err(ClaimError::Connect)?;
        let values = self.values(settling, settlement);
        let host = shared.pool.host();
        let answer =
            send_settlement(host, &mut *session, statements, &values, settlement, false).await;
        if !matches!(&answer, Err(error) if error.is_lost()) {
            session.put_back();
        }
        Ok(answer?.unwrap_or(1))
    }

    /// Sends a settlement in the caller's transaction; how many rows it hit.
    async fn send<S: Session>(
        &self,
        session: &mut S,
        settling: &Settling<'_>,
        settlement: Settlement,
    ) -> Result<u64, ClaimError> {
        let shared = &self.shared;
        let statements = shared.statements.settle.statements(settlement)?;
        let values = self.values(settling, settlement);
        let host = shared.pool.host();
        match run_settlement(host, session, statements, &values, settlement).await {
            Ok(rows) => Ok(rows.unwrap_or(1)),
            Err(error) => Err(ClaimError::of(Doing::Settle, error)),
        }
    }

    /// The values of a settlement.
    fn values(&self, settling: &Settling<'_>, settlement: Settlement) -> Values {
        let shared = &self.shared;
        let mut values = shared.values(shared.pool.host().now_micros());
        values.id = Some(settling.id.clone());
        values.token = Some(settling.token);
        values.retry(settlement);
        values
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
            Ok(rows @ 2..) => Err(ClaimError::hit(rows)),
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
        && let Ok([statement, ..]) = shared.statements.settle.statements(Settlement::Retry)
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
