//! The advisory form: a claim is a lock of a session on a key that the row names.
//!
//! Guarantees: while the connection of a delivery lives, nobody else works on a row of its key,
//! whatever any clock says, and no transaction is open meanwhile. A crash frees the key as soon as
//! the server notices, and spends one attempt. The price is one connection for each delivery in work.
//! A pooler that shares connections between transactions breaks the form: lock and unlock then run
//! on different connections.
//!
//! SQLite has no locks of sessions: there the keys are locked in the process ([`KeyTable`]), and
//! two processes on one file do not see each other.
//!
//! The settlement names no token: it runs on the connection that holds the lock, and only then the
//! lock is given back. The form tells the host what it holds ([`Host::note`]): `claimed` (id,
//! attempt, null, host clock in microseconds), then `settled` (id, settlement) or `left`.

use std::sync::Arc;
use std::time::Duration;

use super::error::{ClaimError, Doing};
use super::keys::{KeyHold, KeyTable};
use super::mutation::Mutation;
use super::pool::{Pool, Pooled};
use super::settle::{Job, Settlement, send_settlement};
use super::statements::{AdvisoryStatements, Rules};
use super::table::{Form, Table};
use super::text::{Statement, Values};
use super::token::Clock;
use crate::retry::begin;
use crate::sync::Lock;
use crate::{DbError, Dialect, ErrorClass, Host, Isolation, Reply, Session, Value};

/// How long the release of a dropped delivery may take before its connection is closed.
const RELEASE: Duration = Duration::from_secs(5);

/// The settings of an advisory queue.
#[derive(Clone, Debug, Default)]
pub struct AdvisoryOptions {
    /// Whose clock says what is due and what is done.
    pub clock: Clock,
    /// The group to claim from, for tables with a group column.
    pub group: Option<Value>,
    /// Do not ask which keys are held while choosing candidates: read past them instead. On
    /// PostgreSQL this keeps claimers from turning each other away for a moment.
    pub without_probe: bool,
    /// SQLite: the keys that this process holds; shared by all queues on the same file.
    pub keys: KeyTable,
    /// A deliberate mistake, for checkers only.
    pub mutation: Option<Mutation>,
}

/// A queue of rows that are claimed by advisory locks.
pub struct Advisory<H: Host> {
    shared: Arc<Shared<H>>,
}

struct Shared<H: Host> {
    pool: Pool<H>,
    dialect: Dialect,
    statements: AdvisoryStatements,
    options: AdvisoryOptions,
    table: Table,
    state: Lock<State<H>>,
}

/// What the queue and its deliveries share.
struct State<H: Host> {
    closed: bool,
    /// The locks that are held, by delivery.
    held: Vec<(u64, Held<H>)>,
    next: u64,
    /// Keys of deliveries in work, held or not (a delivery in its transaction has its lock itself).
    in_work: usize,
}

impl<H: Host> Default for State<H> {
    fn default() -> State<H> {
        State {
            closed: false,
            held: Vec::new(),
            next: 0,
            in_work: 0,
        }
    }
}

/// A connection whose session holds a key. Dropping it closes the connection, and so unlocks.
struct Held<H: Host> {
    session: Pooled<H>,
    key: Arc<str>,
    local: Option<KeyHold>,
}

impl<H: Host> Shared<H> {
    fn values(&self) -> Values {
        Values {
            instants: self.table.instants_on(self.dialect),
            now_micros: self.pool.host().now_micros(),
            group: self.options.group.clone(),
            dead_group: self.table.dead_group().cloned().map(Value::Text),
            ..Values::default()
        }
    }

    fn mutated(&self, mutation: Mutation) -> bool {
        self.options.mutation == Some(mutation)
    }

    /// Gives a key back, and returns the connection if it is clean: unless the server confirms that
    /// the key was held, it is closed.
    async fn unlock(&self, mut held: Held<H>) -> Option<Pooled<H>> {
        let confirmed = match &self.statements.unlock {
            None => true,
            Some(statement) => {
                let values = Values {
                    key: Some(Arc::clone(&held.key)),
                    ..Values::default()
                };
                let reply = exec(self, &mut held.session, "unlock", statement, &values).await;
                reply.is_ok_and(|reply| says_yes(&reply))
            }
        };
        let Held { session, local, .. } = held;
        // The key before the connection: the next user of the connection may want it.
        drop(local);
        (confirmed || self.mutated(Mutation::IgnoreUnlock)).then_some(session)
    }

    /// Gives a key back and the connection to the pool.
    async fn release(&self, held: Held<H>) {
        if let Some(session) = self.unlock(held).await {
            session.put_back();
        }
    }
}

/// Whether a reply is one true value. `NULL` is no.
pub(super) fn says_yes(reply: &Reply) -> bool {
    match reply.scalar() {
        Some(Value::Bool(yes)) => *yes,
        Some(value) => value.as_int() == Some(1),
        None => false,
    }
}

/// What one attempt to take a candidate came to.
enum Taken<H: Host> {
    Job(Job, Held<H>),
    /// Somebody holds the key, or the row was settled meanwhile; the connection is clean.
    Not(Option<Pooled<H>>),
}

impl<H: Host> Advisory<H> {
    /// A queue on `table`, with connections from `pool`: one for each delivery in work.
    ///
    /// # Errors
    /// [`ClaimError::Declaration`]: the table lacks what the form or a setting needs.
    pub fn open(
        pool: Pool<H>,
        dialect: Dialect,
        table: Table,
        options: AdvisoryOptions,
    ) -> Result<Advisory<H>, ClaimError> {
        let rules = Rules {
            clock: options.clock,
            mutation: options.mutation,
            ..Rules::of(Form::Advisory)
        };
        let statements = AdvisoryStatements::new(dialect, &table, rules, !options.without_probe)?;
        Ok(Advisory {
            shared: Arc::new(Shared {
                pool,
                dialect,
                statements,
                options,
                table,
                state: Lock::default(),
            }),
        })
    }

    /// Takes at most `limit` rows into work, in claim order, no two of one key. Waits for one
    /// connection at most: further deliveries only as far as the pool has connections to spare.
    ///
    /// # Errors
    /// Rows that were taken before the error are given back, with their attempts counted.
    /// [`ClaimError::Ambiguous`]: the same, and perhaps one attempt more.
    pub async fn claim(&self, limit: u32) -> Result<Vec<AdvisoryDelivery<H>>, ClaimError> {
        let shared = &self.shared;
        if shared.state.with(|state| state.closed) {
            return Err(ClaimError::Closed);
        }
        let first = shared.pool.acquire().await.map_err(ClaimError::Connect)?;
        let mut session = Some(first);
        let candidates = self.candidates(&mut session, limit).await?;
        let mut keys: Vec<Arc<str>> = Vec::new();
        let mut deliveries = Vec::new();
        for (id, key) in candidates {
            if deliveries.len() >= limit as usize {
                break;
            }
            // Two rows of one key: the lock would be had twice by one session, or block itself.
            if keys.contains(&key) {
                continue;
            }
            let own = match session.take() {
                Some(own) => own,
                // Waiting for a connection while holding others could wait for ourselves.
                None => match shared
                    .pool
                    .try_acquire()
                    .await
                    .map_err(ClaimError::Connect)?
                {
                    Some(own) => own,
                    None => break,
                },
            };
            match self.take(own, id, &key).await? {
                Taken::Job(job, held) => {
                    keys.push(key);
                    deliveries.push(self.deliver(job, held));
                }
                Taken::Not(own) => session = own,
            }
        }
        if let Some(session) = session {
            session.put_back();
        }
        Ok(deliveries)
    }

    /// Rows that may be claimed, with their keys.
    async fn candidates(
        &self,
        session: &mut Option<Pooled<H>>,
        limit: u32,
    ) -> Result<Vec<(Value, Arc<str>)>, ClaimError> {
        let shared = &self.shared;
        let Some(own) = session else {
            return Ok(Vec::new());
        };
        let mut values = shared.values();
        values.limit = i64::from(limit);
        if !shared.statements.probes {
            // Read past the keys in work, which the database cannot leave out.
            let in_work = shared.state.with(|state| state.in_work);
            let in_work = in_work.max(shared.options.keys.held());
            values.limit = values.limit.saturating_add(in_work as i64);
        }
        let statement = &shared.statements.candidates;
        shared.pool.host().name_step("choose");
        let reply = own.exec(&statement.sql, &statement.bind(&values)).await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                if let Some(own) = session.take()
                    && error.class != ErrorClass::ConnectionLost
                {
                    own.put_back();
                }
                // Nothing was written: a lost connection leaves nothing open.
                return Err(ClaimError::Database(error));
            }
        };
        let candidate = |row: &crate::Row| {
            let key = row.get(1).and_then(Value::as_str);
            match (row.first(), key) {
                (Some(id), Some(key)) => Ok((id.clone(), Arc::from(key))),
                _ => Err(ClaimError::Contents("a candidate without id or key".into())),
            }
        };
        reply.rows.iter().map(candidate).collect()
    }

    /// Locks the key of a candidate without waiting, then takes the row if it is still claimable.
    async fn take(
        &self,
        mut session: Pooled<H>,
        id: Value,
        key: &Arc<str>,
    ) -> Result<Taken<H>, ClaimError> {
        let shared = &self.shared;
        let mut local = None;
        // From here on the session may hold the key: an early return closes it.
        match &shared.statements.lock {
            None => match shared.options.keys.try_lock(key) {
                Some(hold) => local = Some(hold),
                None => return Ok(Taken::Not(Some(session))),
            },
            Some(statement) => {
                let mut values = shared.values();
                values.key = Some(Arc::clone(key));
                let reply = exec(shared, &mut session, "lock", statement, &values).await;
                match reply {
                    Ok(reply) if says_yes(&reply) => {}
                    Ok(_) => return Ok(Taken::Not(Some(session))),
                    Err(error) => return Err(ClaimError::Database(error)),
                }
            }
        }
        let mut held = Held {
            session,
            key: Arc::clone(key),
            local,
        };
        let mut values = shared.values();
        values.id = Some(id);
        let take = &shared.statements.take;
        let counted = match &take.count {
            None => Ok(true),
            Some(count) => exec(shared, &mut held.session, "take", count, &values)
                .await
                .map(|reply| reply.affected > 0),
        };
        let row = match counted {
            Ok(false) => Ok(None),
            Ok(true) => exec(shared, &mut held.session, "take", &take.read, &values)
                .await
                .map(Some),
            Err(error) => Err(error),
        };
        let jobs = match row {
            Ok(None) => Vec::new(),
            Ok(Some(reply)) => Job::read(&reply, &shared.table, None)?,
            Err(error) => {
                let error = ClaimError::of(Doing::Claim, error);
                if !matches!(error, ClaimError::Ambiguous { .. }) {
                    shared.release(held).await;
                }
                return Err(error);
            }
        };
        match jobs.into_iter().next() {
            Some(job) => Ok(Taken::Job(job, held)),
            None => Ok(Taken::Not(shared.unlock(held).await)),
        }
    }

    fn deliver(&self, job: Job, held: Held<H>) -> AdvisoryDelivery<H> {
        let shared = &self.shared;
        let attempt = job.attempt().map_or(Value::Null, Value::Int);
        let now = shared.pool.host().now_micros().into();
        let told = [job.id().clone(), attempt, Value::Null, now];
        shared.pool.host().note("claimed", &told);
        let number = shared.state.with(|state| {
            state.next += 1;
            state.in_work += 1;
            state.held.push((state.next, held));
            state.next
        });
        AdvisoryDelivery {
            shared: Arc::clone(shared),
            job,
            number,
            transaction: None,
            open: true,
        }
    }

    /// Stops claiming and gives every key back by closing its connection; deliveries that are not
    /// in a transaction of their own can no longer be settled.
    pub fn close(&self) {
        let held = self.shared.state.with(|state| {
            state.closed = true;
            std::mem::take(&mut state.held)
        });
        drop(held);
    }
}

async fn exec<H: Host>(
    shared: &Shared<H>,
    session: &mut Pooled<H>,
    step: &str,
    statement: &Statement,
    values: &Values,
) -> Result<Reply, DbError> {
    shared.pool.host().name_step(step);
    session.exec(&statement.sql, &statement.bind(values)).await
}

impl<H: Host> std::fmt::Debug for Advisory<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Advisory")
            .field("table", &self.shared.table.name)
            .finish_non_exhaustive()
    }
}

/// A row in work, with the lock on its key. Settle it; one that is dropped unsettled gives its key
/// back in the background, and its row is delivered again.
pub struct AdvisoryDelivery<H: Host> {
    shared: Arc<Shared<H>>,
    job: Job,
    number: u64,
    /// The lock's connection while a transaction of the handler is open on it.
    transaction: Option<Held<H>>,
    /// Not settled yet.
    open: bool,
}

impl<H: Host> AdvisoryDelivery<H> {
    /// The claimed row.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Takes the lock's connection out of the queue's hands; `None` if the queue was closed.
    fn held(&mut self) -> Option<Held<H>> {
        self.shared.state.with(|state| {
            let number = self.number;
            let index = state.held.iter().position(|(other, _)| *other == number)?;
            Some(state.held.remove(index).1)
        })
    }

    /// Begins a transaction on the lock's connection and returns the connection. What is written
    /// there is stored by an [`ack`](Settlement::Ack) together with it; any other settlement rolls
    /// it back first. Do not end the transaction on it.
    ///
    /// # Errors
    /// [`ClaimError::Closed`]; or what the database answered, and the delivery is over.
    pub async fn transaction(
        &mut self,
        isolation: Option<Isolation>,
    ) -> Result<&mut H::Session, ClaimError> {
        if self.transaction.is_none() {
            let mut held = self.held().ok_or(ClaimError::Closed)?;
            for statement in begin(self.shared.dialect, isolation) {
                self.shared.pool.host().name_step("begin");
                let begun = held.session.exec(&statement, &[]).await;
                begun.map_err(ClaimError::Database)?;
            }
            self.transaction = Some(held);
        }
        match &mut self.transaction {
            Some(held) => Ok(&mut *held.session),
            None => Err(ClaimError::Closed),
        }
    }

    /// Settles the delivery on the lock's own connection, stores that, and then gives the key back.
    ///
    /// # Errors
    /// [`ClaimError::Closed`]: the queue was closed, or the delivery settled before.
    /// [`ClaimError::RowGone`]: the row is not there any more, so somebody who does not heed the
    /// lock has deleted it. [`ClaimError::Ambiguous`]: not known. Whatever it is, the key is given
    /// back, and the row is delivered again if the settlement had no effect.
    pub async fn settle(&mut self, settlement: Settlement) -> Result<(), ClaimError> {
        if !self.open {
            return Err(ClaimError::Closed);
        }
        let shared = Arc::clone(&self.shared);
        let statements = shared.statements.settle.statements(settlement)?;
        let (mut held, in_transaction) = match (self.transaction.take(), self.held()) {
            (Some(held), _) => (held, true),
            (None, Some(held)) => (held, false),
            (None, None) => return Err(ClaimError::Closed),
        };
        self.open = false;
        shared.state.with(|state| state.in_work -= 1);
        let mut values = shared.values();
        values.id = Some(self.job.id().clone());
        values.retry(settlement);
        if shared.mutated(Mutation::UnlockBeforeSettle) {
            return self
                .settle_unlocked(held, statements, &values, settlement)
                .await;
        }
        let session = &mut *held.session;
        let host = shared.pool.host();
        let answer = send_settlement(
            host,
            session,
            statements,
            &values,
            settlement,
            in_transaction,
        )
        .await;
        let answer = self.conclude(answer, settlement);
        if !matches!(answer, Err(ClaimError::Ambiguous { .. })) {
            shared.release(held).await;
        }
        answer
    }

    /// The mistake: the key first, the settlement afterwards on another connection.
    async fn settle_unlocked(
        &mut self,
        held: Held<H>,
        statements: &[Statement],
        values: &Values,
        settlement: Settlement,
    ) -> Result<(), ClaimError> {
        let shared = Arc::clone(&self.shared);
        shared.release(held).await;
        let mut session = shared.pool.acquire().await.map_err(ClaimError::Connect)?;
        let host = shared.pool.host();
        let answer =
            send_settlement(host, &mut *session, statements, values, settlement, false).await;
        session.put_back();
        self.conclude(answer, settlement)
    }

    /// What the answer to a settlement means.
    fn conclude(
        &self,
        answer: Result<Option<u64>, ClaimError>,
        settlement: Settlement,
    ) -> Result<(), ClaimError> {
        let note = |name| {
            let values = [self.job.id().clone(), settlement.name().into()];
            self.shared.pool.host().note(name, &values);
        };
        match answer {
            Ok(None | Some(1)) => {
                note("settled");
                Ok(())
            }
            Ok(Some(rows)) => {
                note("left");
                Err(ClaimError::hit(rows))
            }
            Err(error) => {
                note("left");
                Err(error)
            }
        }
    }
}

impl<H: Host> Drop for AdvisoryDelivery<H> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let host = self.shared.pool.host().clone();
        host.note("left", &[self.job.id().clone(), "release".into()]);
        self.shared.state.with(|state| state.in_work -= 1);
        // In a transaction: closing the connection rolls back and unlocks.
        drop(self.transaction.take());
        if let Some(held) = self.held() {
            let shared = Arc::clone(&self.shared);
            let release = host.clone();
            host.spawn(async move {
                // Dropped when the time runs out, which closes the connection.
                let _ = release.timeout(RELEASE, shared.release(held)).await;
            });
        }
    }
}

impl<H: Host> std::fmt::Debug for AdvisoryDelivery<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdvisoryDelivery")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}
