//! `apply` and `sync`: writing under the guard, and what is known afterwards.

use std::future::Future;
use std::sync::Arc;

use super::error::{Cause, GuardError};
use super::lock::{Guard, GuardOptions};
use super::mutation::Mutation;
use super::plan::{Kind, Operation, Plan};
use crate::{Host, Session, Value};

/// Where the writes go. It has a client of its own; the guard's connection is never lent to it.
pub trait Destination: Send {
    /// How it refuses. Shown to people, so without secrets.
    type Error: std::error::Error + Send + 'static;

    /// The fingerprint of the live schema.
    fn schema(&mut self) -> impl Future<Output = Result<Arc<str>, Self::Error>> + Send;

    /// Carries one operation out.
    fn write(
        &mut self,
        operation: &Operation,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Where plans are made and kept, for [`sync`].
pub trait Workspace: Send {
    /// How it refuses.
    type Error: std::error::Error + Send + 'static;

    /// Makes a plan against this schema.
    fn plan(&mut self, schema: &str) -> impl Future<Output = Result<Plan, Self::Error>> + Send;

    /// Publishes the plan, before anything is written.
    fn publish(&mut self, plan: &Plan) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The checksum of the plan as it was published.
    fn verify(&mut self, plan: &Plan) -> impl Future<Output = Result<String, Self::Error>> + Send;
}

/// Where it is written down how far a run came.
pub trait Journal: Send {
    /// How it refuses.
    type Error: std::error::Error + Send + 'static;

    /// Reserves the one write that a run may do; false if it has been done or is being done. To be
    /// decided in one transaction of the store, behind a lock on the run's row.
    fn reserve(&mut self) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Stores what is known so far: before the success, and after every failure.
    fn checkpoint(
        &mut self,
        report: &Report,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Stores that the run succeeded. Only after the guard is given back.
    fn succeed(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What the caller has seen and agreed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmation {
    /// The configuration that the run is registered for; `None`: it is bound to none.
    pub binding: Option<Arc<str>>,
    /// The checksum of the plan that was looked at ([`apply`]).
    pub checksum: Option<Arc<str>>,
    /// Somebody said that a plan which nobody has looked at may be written ([`sync`]).
    pub write: bool,
}

/// Whether the writes were carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All of them, under the guard until the end.
    Succeeded,
    /// None of them.
    Failed,
    /// Perhaps some, or one more than recorded: a person looks at the destination.
    Ambiguous,
}

/// How the run itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// It came to its end.
    Completed,
    /// It stopped before the first write.
    Failed,
    /// It stopped after the first write was sent.
    Interrupted,
}

/// The step of a run at which it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Checks before the guard.
    Checks,
    /// Reserving the write.
    Reserve,
    /// Taking the guard.
    Acquire,
    /// Reading the live schema.
    Schema,
    /// Making the plan.
    Plan,
    /// Publishing it.
    Publish,
    /// Verifying what was published.
    Verify,
    /// A proof or a write.
    Apply,
    /// Giving the guard back.
    Release,
    /// Storing the last checkpoint or the success.
    Record,
}

/// Why a run is not begun, or not gone on with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The run is registered for no configuration, or for another one.
    #[error("the run is not bound to this configuration")]
    Binding,
    /// The plan is not the one that was looked at.
    #[error("the plan has another checksum than the one that was confirmed")]
    Checksum,
    /// Nobody confirmed the write.
    #[error("the write was not confirmed")]
    Unconfirmed,
    /// The run has its one write already.
    #[error("the run has written already, or is about to")]
    Reserved,
    /// The destination is not what the plan was made for.
    #[error("the schema of the destination is not the one of the plan")]
    Schema,
    /// The guard.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The destination, the workspace or the journal refused.
    #[error("the run could not go on")]
    Other(#[source] Cause),
}

/// What is known about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether the writes were carried out.
    pub outcome: Outcome,
    /// How the run ended.
    pub execution: Execution,
    /// Whether a person has to compare the destination with the plan.
    pub reconciliation_required: bool,
    /// Operations that the destination confirmed.
    pub completed: Vec<Arc<str>>,
    /// Operations that were not sent: deletes, and those behind the failure.
    pub skipped: Vec<Arc<str>>,
    /// The operation that was sent and not confirmed.
    pub uncertain: Option<Arc<str>>,
    /// Where and why it stopped.
    pub stopped: Option<(Stage, Refusal)>,
}

/// The right to write, proved again before every write.
#[derive(Debug)]
pub struct Ownership<'a, S: Session> {
    guard: &'a mut Guard<S>,
    dispatched: bool,
}

impl<'a, S: Session> Ownership<'a, S> {
    /// Nothing was sent yet.
    pub fn new(guard: &'a mut Guard<S>) -> Ownership<'a, S> {
        Ownership {
            guard,
            dispatched: false,
        }
    }

    /// Proves the guard; only then counts the first write as sent.
    ///
    /// # Errors
    /// [`GuardError::Ownership`]: do not write.
    pub async fn before_operation<H: Host>(&mut self, host: &H) -> Result<(), GuardError> {
        self.guard.require_ownership(host).await?;
        self.dispatched = true;
        Ok(())
    }

    /// Proves the guard after the last write.
    ///
    /// # Errors
    /// [`GuardError::Ownership`]: the last writes were perhaps not under the guard.
    pub async fn after_final_operation<H: Host>(&mut self, host: &H) -> Result<(), GuardError> {
        self.guard.require_ownership(host).await
    }

    /// Whether a write was sent.
    pub fn dispatched(&self) -> bool {
        self.dispatched
    }
}

/// A run on its way.
struct Run<'a, H: Host> {
    host: &'a H,
    options: GuardOptions,
    dispatched: bool,
    report: Report,
}

type Stopped = (Stage, Refusal);

impl<'a, H: Host> Run<'a, H> {
    fn new(host: &'a H, options: &GuardOptions) -> Run<'a, H> {
        Run {
            host,
            options: options.clone(),
            dispatched: false,
            report: Report {
                outcome: Outcome::Failed,
                execution: Execution::Failed,
                reconciliation_required: false,
                completed: Vec::new(),
                skipped: Vec::new(),
                uncertain: None,
                stopped: None,
            },
        }
    }

    fn other<E: std::error::Error + 'static>(&self, error: &E) -> Refusal {
        Refusal::Other(Cause::rebuilt(error, &self.options.secrets))
    }

    fn mutated(&self, mutation: Mutation) -> bool {
        self.options.mutation == Some(mutation)
    }

    async fn reserve(&self, journal: &mut impl Journal) -> Result<(), Stopped> {
        match journal.reserve().await {
            Ok(true) => Ok(()),
            Ok(false) => Err((Stage::Reserve, Refusal::Reserved)),
            Err(error) => Err((Stage::Reserve, self.other(&error))),
        }
    }

    async fn acquire(&self, id: &str) -> Result<Guard<H::Session>, Stopped> {
        let acquired = Guard::acquire(self.host, id, self.options.clone()).await;
        acquired.map_err(|error| (Stage::Acquire, error.into()))
    }

    async fn schema(&self, destination: &mut impl Destination) -> Result<Arc<str>, Stopped> {
        let schema = destination.schema().await;
        schema.map_err(|error| (Stage::Schema, self.other(&error)))
    }

    /// Proves, writes, proves.
    async fn write_all(
        &mut self,
        guard: &mut Guard<H::Session>,
        plan: &Plan,
        destination: &mut impl Destination,
    ) -> Result<(), Stopped> {
        let (host, stage) = (self.host, Stage::Apply);
        let mut ownership = Ownership::new(guard);
        let mut operations = plan.operations.iter();
        let mut failed = None;
        for operation in operations.by_ref() {
            if operation.kind == Kind::Delete {
                self.report.skipped.push(Arc::clone(&operation.name));
                continue;
            }
            if let Err(error) = ownership.before_operation(host).await {
                self.report.skipped.push(Arc::clone(&operation.name));
                failed = Some(error.into());
                break;
            }
            self.dispatched = true;
            host.note("dispatched", &[Value::from(&*operation.name)]);
            self.report.uncertain = Some(Arc::clone(&operation.name));
            match destination.write(operation).await {
                Ok(()) => {
                    self.report.uncertain = None;
                    self.report.completed.push(Arc::clone(&operation.name));
                }
                Err(error) => {
                    failed = Some(self.other(&error));
                    break;
                }
            }
        }
        let rest = operations.map(|operation| Arc::clone(&operation.name));
        self.report.skipped.extend(rest);
        match failed {
            Some(refusal) => Err((stage, refusal)),
            None => ownership
                .after_final_operation(host)
                .await
                .map_err(|error| (stage, error.into())),
        }
    }

    /// Gives the guard back after success, closes it after a failure.
    async fn leave(
        &self,
        mut guard: Guard<H::Session>,
        result: Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        match result {
            Ok(()) => guard
                .release(self.host)
                .await
                .map_err(|error| (Stage::Release, error.into())),
            Err(stopped) => {
                guard.retire().await;
                Err(stopped)
            }
        }
    }

    /// What came out, stored in the journal.
    async fn finish(mut self, result: Result<(), Stopped>, journal: &mut impl Journal) -> Report {
        let mut stopped = result.err();
        let checks = matches!(stopped, Some((Stage::Checks | Stage::Reserve, _)));
        self.conclude(stopped.is_none());
        self.report.stopped = stopped.clone();
        // A run that was refused before it began has nothing to store.
        if !checks && let Err(error) = journal.checkpoint(&self.report).await {
            stopped.get_or_insert((Stage::Record, self.other(&error)));
        }
        if stopped.is_none()
            && let Err(error) = journal.succeed().await
        {
            stopped = Some((Stage::Record, self.other(&error)));
        }
        self.conclude(stopped.is_none());
        self.report.stopped = stopped;
        self.report
    }

    fn conclude(&mut self, success: bool) {
        let report = &mut self.report;
        (report.outcome, report.execution) = match (success, self.dispatched) {
            (true, _) => (Outcome::Succeeded, Execution::Completed),
            (false, true) => (Outcome::Ambiguous, Execution::Interrupted),
            (false, false) => (Outcome::Failed, Execution::Failed),
        };
        report.reconciliation_required = report.outcome == Outcome::Ambiguous;
    }
}

/// Whether the run may write for this configuration.
fn bound(confirmation: &Confirmation, configuration: &str) -> Result<(), Stopped> {
    match confirmation.binding.as_deref() == Some(configuration) {
        true => Ok(()),
        false => Err((Stage::Checks, Refusal::Binding)),
    }
}

/// Writes a plan that somebody has looked at: checks, guard, live schema, writes, last proof,
/// release, record.
///
/// A plan that is not the one that was confirmed opens no connection.
pub async fn apply<H: Host>(
    host: &H,
    plan: &Plan,
    confirmation: &Confirmation,
    options: &GuardOptions,
    destination: &mut impl Destination,
    journal: &mut impl Journal,
) -> Report {
    let mut run = Run::new(host, options);
    let result = async {
        bound(confirmation, &plan.configuration)?;
        if confirmation.checksum.as_deref() != Some(&*plan.checksum()) {
            return Err((Stage::Checks, Refusal::Checksum));
        }
        run.reserve(journal).await?;
        let early = match run.mutated(Mutation::SchemaBeforeGuard) {
            true => Some(run.schema(destination).await?),
            false => None,
        };
        let mut guard = run.acquire(&plan.configuration).await?;
        let result = async {
            let schema = match early {
                Some(schema) => schema,
                None => run.schema(destination).await?,
            };
            if schema != plan.schema {
                return Err((Stage::Schema, Refusal::Schema));
            }
            run.write_all(&mut guard, plan, destination).await
        }
        .await;
        run.leave(guard, result).await
    }
    .await;
    run.finish(result, journal).await
}

/// Plans and writes in one go, all of it under the guard: schema, plan, publish, verify, writes,
/// last proof, release, record. Somebody must have confirmed that what nobody looks at is written.
pub async fn sync<H: Host>(
    host: &H,
    configuration: &str,
    confirmation: &Confirmation,
    options: &GuardOptions,
    workspace: &mut impl Workspace,
    destination: &mut impl Destination,
    journal: &mut impl Journal,
) -> Report {
    let mut run = Run::new(host, options);
    let result = async {
        bound(confirmation, configuration)?;
        if !confirmation.write {
            return Err((Stage::Checks, Refusal::Unconfirmed));
        }
        run.reserve(journal).await?;
        let mut guard = run.acquire(configuration).await?;
        let result = async {
            let schema = run.schema(destination).await?;
            let plan = workspace.plan(&schema).await;
            let plan = plan.map_err(|error| (Stage::Plan, run.other(&error)))?;
            if &*plan.configuration != configuration {
                return Err((Stage::Plan, Refusal::Binding));
            }
            let published = workspace.publish(&plan).await;
            published.map_err(|error| (Stage::Publish, run.other(&error)))?;
            let verified = workspace.verify(&plan).await;
            let checksum = verified.map_err(|error| (Stage::Verify, run.other(&error)))?;
            if checksum != plan.checksum() {
                return Err((Stage::Verify, Refusal::Checksum));
            }
            run.write_all(&mut guard, &plan, destination).await
        }
        .await;
        run.leave(guard, result).await
    }
    .await;
    run.finish(result, journal).await
}
