//! The row-lock form: a claim is a transaction that stays open while the handler runs.
//!
//! Guarantees: while its connection lives, nobody else works on a claimed row, whatever any clock
//! says; a crash frees it as soon as the server notices, and spends no attempt. The price is one
//! connection and one open transaction for each batch in work.
//!
//! The form tells the host what it holds, for logs and for monitors ([`Host::note`]): `claimed`
//! (id, attempt, null, host clock in microseconds), then `settled` (id, settlement) when that is committed, or `left`.

use std::sync::Arc;

use super::advisory::says_yes;
use super::error::{ClaimError, Doing};
use super::mutation::Mutation;
use super::pool::{Pool, Pooled};
use super::queue_key;
use super::settle::{Job, Settlement, run_settlement};
use super::statements::{FifoGuard, RowLockStatements, Rules};
use super::table::{DeclarationError, Form, Table};
use super::text::{Statement, Values};
use super::token::Clock;
use crate::{Dialect, Host, Isolation, Reply, Session, Value, retry};

/// How the transaction of a claim begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// At READ COMMITTED, whatever the default of the database is. At the higher levels a claim
    /// fails with a serialization error when a row was settled after its snapshot, `SKIP LOCKED`
    /// or not, and at SERIALIZABLE a finished handler may find its commit refused.
    #[default]
    ReadCommitted,
    /// With a plain `BEGIN` or `START TRANSACTION`: at the level that the database or the session has as its default.
    DatabaseDefault,
    /// At this level. READ UNCOMMITTED is refused.
    At(Isolation),
}

/// The settings of a row-lock queue.
#[derive(Clone, Debug, Default)]
pub struct RowLockOptions {
    /// How the transaction begins.
    pub transaction: Transaction,
    /// Whose clock says what is due and what is done.
    pub clock: Clock,
    /// The group to claim from, for tables with a group column.
    pub group: Option<Value>,
    /// Undo what the handler wrote in the claim's transaction unless it acknowledges: a savepoint
    /// is set right after the claim, and other settlements roll back to it first. For batches of
    /// one; a larger claim is refused, since its jobs share the transaction.
    pub undo_unless_acked: bool,
    /// The queue is FIFO: only its first unfinished row is claimed, and only while no other one is
    /// in work. A queue is the rows of one group, or the table. Only at READ COMMITTED: a higher
    /// level would look for the head as it was before the guard was had.
    pub fifo: Option<FifoGuard>,
    /// A deliberate mistake, for checkers only.
    pub mutation: Option<Mutation>,
}

/// A queue of rows that are claimed by locking them.
pub struct RowLock<H: Host> {
    shared: Arc<Shared<H>>,
}

struct Shared<H: Host> {
    pool: Pool<H>,
    dialect: Dialect,
    begin: Vec<String>,
    statements: RowLockStatements,
    options: RowLockOptions,
    table: Table,
}

const SAVEPOINT: &str = "SAVEPOINT claimed";
const ROLLBACK_TO: &str = "ROLLBACK TO SAVEPOINT claimed";

impl<H: Host> Shared<H> {
    fn values(&self) -> Values {
        Values {
            instants: self.table.instants_on(self.dialect),
            now_micros: self.pool.host().now_micros(),
            group: self.options.group.clone(),
            dead_group: self.table.dead_group().cloned().map(Value::Text),
            queue_key: Some(queue_key(&self.table, self.options.group.as_ref())),
            ..Values::default()
        }
    }
}

/// The statements that begin a transaction.
fn begin(dialect: Dialect, options: &RowLockOptions) -> Result<Vec<String>, DeclarationError> {
    let refused = |why: &str| Err(DeclarationError::Refused(why.into()));
    match options.transaction {
        Transaction::At(Isolation::ReadUncommitted) => {
            refused("the row-lock form is refused at READ UNCOMMITTED")
        }
        Transaction::ReadCommitted | Transaction::At(Isolation::ReadCommitted) => {
            Ok(retry::begin(dialect, Some(Isolation::ReadCommitted)))
        }
        _ if options.fifo.is_some() => refused("a FIFO queue is claimed at READ COMMITTED"),
        Transaction::At(level) => Ok(retry::begin(dialect, Some(level))),
        Transaction::DatabaseDefault => Ok(retry::begin(dialect, None)),
    }
}

impl<H: Host> RowLock<H> {
    /// A queue on `table`, with connections from `pool`: one for each batch in work.
    ///
    /// # Errors
    /// [`ClaimError::Declaration`]: the table lacks what a setting needs.
    pub fn open(
        pool: Pool<H>,
        dialect: Dialect,
        table: Table,
        options: RowLockOptions,
    ) -> Result<RowLock<H>, ClaimError> {
        let rules = Rules {
            clock: options.clock,
            fifo: options.fifo,
            mutation: options.mutation,
            ..Rules::of(Form::RowLock)
        };
        Ok(RowLock {
            shared: Arc::new(Shared {
                statements: RowLockStatements::new(dialect, &table, rules)?,
                begin: begin(dialect, &options)?,
                dialect,
                pool,
                options,
                table,
            }),
        })
    }

    /// Takes at most `limit` rows into work, in claim order; `None` if there are none.
    ///
    /// # Errors
    /// Whatever it is, no row is locked afterwards.
    pub async fn claim(&self, limit: u32) -> Result<Option<RowLockBatch<H>>, ClaimError> {
        let shared = &self.shared;
        if shared.options.undo_unless_acked && limit > 1 {
            return Err(ClaimError::Declaration(DeclarationError::Refused(
                "undo_unless_acked claims one row at a time".into(),
            )));
        }
        let session = shared.pool.acquire().await.map_err(ClaimError::Connect)?;
        let mut open = Open {
            session,
            release: None,
        };
        let claimed = self.lock_rows(&mut open, limit).await;
        match claimed {
            Ok(jobs) if !jobs.is_empty() => Ok(Some(RowLockBatch {
                shared: Arc::clone(shared),
                open: Some(open),
                settled: vec![None; jobs.len()],
                jobs,
                written: false,
                told: false,
            })),
            Ok(_) => {
                open.roll_back().await;
                Ok(None)
            }
            Err(error) => {
                open.roll_back_after(&error).await;
                Err(error)
            }
        }
    }

    async fn lock_rows(&self, open: &mut Open<H>, limit: u32) -> Result<Vec<Job>, ClaimError> {
        let shared = &self.shared;
        for statement in &shared.begin {
            open.exec(Doing::Claim, "begin", statement, &[]).await?;
        }
        let mut values = shared.values();
        values.limit = i64::from(limit);
        if let Some(guard) = &shared.statements.guard {
            // From here on the session may hold the guard.
            open.release = guard
                .release
                .clone()
                .map(|release| (release, values.clone()));
            let take = &guard.take;
            let reply = open
                .exec(Doing::Claim, "guard", &take.sql, &take.bind(&values))
                .await?;
            if !says_yes(&reply) {
                open.release = None;
                return Ok(Vec::new());
            }
        }
        let claim = &shared.statements.claim;
        let reply = open
            .exec(Doing::Claim, "claim", &claim.sql, &claim.bind(&values))
            .await?;
        let jobs = Job::read(&reply, &shared.table, None)?;
        for job in &jobs {
            let attempt = job.attempt().map_or(Value::Null, Value::Int);
            let now = values.now_micros.into();
            let values = [job.id().clone(), attempt, Value::Null, now];
            shared.pool.host().note("claimed", &values);
        }
        if shared.options.undo_unless_acked && !jobs.is_empty() {
            open.exec(Doing::Claim, "savepoint", SAVEPOINT, &[]).await?;
        }
        Ok(jobs)
    }
}

impl<H: Host> std::fmt::Debug for RowLock<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowLock")
            .field("table", &self.shared.table.name)
            .finish_non_exhaustive()
    }
}

/// A connection with an open transaction. Dropping it closes the connection, and so rolls back.
struct Open<H: Host> {
    session: Pooled<H>,
    /// What gives the guard of a FIFO queue back after the transaction, where its end does not.
    release: Option<(Statement, Values)>,
}

impl<H: Host> Open<H> {
    /// Sends a statement under the name of a step.
    async fn exec(
        &mut self,
        doing: Doing,
        step: &str,
        sql: &str,
        args: &[Value],
    ) -> Result<Reply, ClaimError> {
        self.session.host().name_step(step);
        let result = self.session.exec(sql, args).await;
        result.map_err(|error| match doing {
            // Nothing is stored before the commit: a lost connection rolls back.
            Doing::Claim | Doing::Settle => ClaimError::Database(error),
            Doing::Commit => ClaimError::of(doing, error),
        })
    }

    /// Rolls back; if that fails the connection is closed, which does the same.
    async fn roll_back(mut self) {
        self.session.host().name_step("rollback");
        if self.session.exec("ROLLBACK", &[]).await.is_ok() {
            self.put_back().await;
        }
    }

    /// Rolls back unless the connection is gone.
    async fn roll_back_after(self, error: &ClaimError) {
        if !error.is_lost() {
            self.roll_back().await;
        }
    }

    /// After the end of the transaction: gives the guard back, and the connection to the pool.
    /// Unless the server confirms that the guard was held the connection is closed, which frees it.
    async fn put_back(mut self) {
        if let Some((release, values)) = self.release.take() {
            self.session.host().name_step("unguard");
            let reply = self
                .session
                .exec(&release.sql, &release.bind(&values))
                .await;
            if !reply.is_ok_and(|reply| says_yes(&reply)) {
                return;
            }
        }
        self.session.put_back();
    }
}

/// Claimed rows in one transaction: they are settled one by one and take effect together, with
/// [`commit`](RowLockBatch::commit). Dropped before that, all of them are free again, and the
/// connection is closed.
pub struct RowLockBatch<H: Host> {
    shared: Arc<Shared<H>>,
    /// Empty once the transaction has ended.
    open: Option<Open<H>>,
    jobs: Vec<Job>,
    /// What each job was settled as.
    settled: Vec<Option<Settlement>>,
    /// Something was written that only a commit stores.
    written: bool,
    /// The host was told what became of the jobs.
    told: bool,
}

impl<H: Host> RowLockBatch<H> {
    /// The claimed rows, in claim order.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The connection of the claim, for what the handler writes in the same transaction: it is
    /// stored with the settlement, or not at all. Do not end the transaction on it.
    ///
    /// `None` after an error has ended the transaction.
    pub fn session(&mut self) -> Option<&mut H::Session> {
        self.written = true;
        self.open.as_mut().map(|open| &mut *open.session)
    }

    /// Settles the job at `index` of [`jobs`](Self::jobs). Takes effect with the commit.
    ///
    /// # Errors
    /// After any of them but [`ClaimError::Declaration`] the transaction is rolled back: every job
    /// of the batch will be delivered again, and no attempt was counted.
    pub async fn settle(&mut self, index: usize, settlement: Settlement) -> Result<(), ClaimError> {
        let Some(job) = self
            .jobs
            .get(index)
            .filter(|_| self.settled[index].is_none())
        else {
            return Err(ClaimError::RowGone);
        };
        let mut open = self.open.take().ok_or(ClaimError::RolledBack)?;
        let shared = Arc::clone(&self.shared);
        let statements = match shared.statements.settle.statements(settlement) {
            Ok(statements) => statements,
            Err(error) => {
                self.open = Some(open);
                return Err(error.into());
            }
        };
        let undo = shared.options.undo_unless_acked && settlement != Settlement::Ack;
        let mut values = shared.values();
        values.id = Some(job.id().clone());
        values.retry(settlement);
        // While the statement runs the connection belongs to this future: cancelled, it is closed.
        let result = async {
            if undo {
                open.exec(Doing::Settle, "undo", ROLLBACK_TO, &[]).await?;
            }
            let host = shared.pool.host();
            let session = &mut *open.session;
            match run_settlement(host, session, statements, &values, settlement).await {
                Ok(None) => Ok(false),
                Ok(Some(1)) => Ok(true),
                Ok(Some(rows)) => Err(ClaimError::hit(rows)),
                // Nothing is stored before the commit: a lost connection rolls back.
                Err(error) => Err(ClaimError::Database(error)),
            }
        }
        .await;
        match result {
            Ok(wrote) => {
                self.open = Some(open);
                self.settled[index] = Some(settlement);
                self.written |= wrote;
                Ok(())
            }
            Err(error) => {
                open.roll_back_after(&error).await;
                Err(error)
            }
        }
    }

    /// Ends the transaction. Jobs that were not settled are free again, as they were.
    ///
    /// # Errors
    /// [`ClaimError::RolledBack`]: the transaction had failed, on a statement whose error somebody
    /// did not pass on; nothing was stored. [`ClaimError::Ambiguous`]: the connection was lost, and
    /// it is not known whether the commit took effect. [`ClaimError::Database`]: refused, nothing
    /// was stored.
    pub async fn commit(mut self) -> Result<(), ClaimError> {
        let mut open = self.open.take().ok_or(ClaimError::RolledBack)?;
        if !self.written {
            open.roll_back().await;
            self.tell_settled();
            return Ok(());
        }
        match open.exec(Doing::Commit, "commit", "COMMIT", &[]).await {
            Ok(reply) => {
                open.put_back().await;
                // A server answers the COMMIT of a failed transaction with ROLLBACK, and calls
                // that a success.
                let ignore = self.shared.options.mutation == Some(Mutation::IgnoreCommitTag);
                if &*reply.tag == "COMMIT" || ignore {
                    self.tell_settled();
                    Ok(())
                } else {
                    Err(ClaimError::RolledBack)
                }
            }
            Err(error) => {
                open.roll_back_after(&error).await;
                Err(error)
            }
        }
    }

    /// Tells the host what was settled; see [`Host::note`].
    fn tell_settled(&mut self) {
        for (job, settled) in self.jobs.iter().zip(&self.settled) {
            if let Some(settlement) = settled {
                let values = [job.id().clone(), settlement.name().into()];
                self.shared.pool.host().note("settled", &values);
            }
        }
        self.told = true;
    }

    /// Settles the only job of the batch, or all of them alike, and commits.
    ///
    /// # Errors
    /// As [`settle`](Self::settle) and [`commit`](Self::commit).
    pub async fn settle_all(mut self, settlement: Settlement) -> Result<(), ClaimError> {
        for index in 0..self.jobs.len() {
            if self.settled[index].is_none() {
                self.settle(index, settlement).await?;
            }
        }
        self.commit().await
    }

    /// Rolls back: every job is free again, as it was before.
    pub async fn give_back(mut self) {
        if let Some(open) = self.open.take() {
            open.roll_back().await;
        }
    }
}

impl<H: Host> Drop for RowLockBatch<H> {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        for job in &self.jobs {
            let values = [job.id().clone(), "rollback".into()];
            self.shared.pool.host().note("left", &values);
        }
    }
}

impl<H: Host> std::fmt::Debug for RowLockBatch<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowLockBatch")
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}
