//! Rounds of a worker: claim, handle, settle.

use std::future::Future;

use super::advisory::Advisory;
use super::error::{ClaimError, Next};
use super::lease::Lease;
use super::row_lock::RowLock;
use super::settle::{Job, Settlement};
use crate::Host;

/// What is done for a job.
pub trait Handler: Send + Sync {
    /// Does the work, and says what becomes of the row. May run more than once for one row.
    fn handle(&self, job: &Job) -> impl Future<Output = Settlement> + Send;
}

/// The handler that does nothing and says the same about every job.
impl Handler for Settlement {
    async fn handle(&self, _job: &Job) -> Settlement {
        *self
    }
}

/// What became of the rows of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Round {
    /// Rows taken into work.
    pub claimed: u32,
    /// Of them, settled as the handler said.
    pub settled: u32,
    /// Of them, lost to somebody else, or to an outcome that is not known: perhaps delivered again.
    pub redelivered: u32,
}

impl Round {
    /// Counts how a settlement ended; errors that tell of more than one row are passed on.
    fn count(&mut self, rows: u32, result: Result<(), ClaimError>) -> Result<(), ClaimError> {
        match result {
            Ok(()) => self.settled += rows,
            Err(error) if error.next() == Next::GiveUp => return Err(error),
            Err(_) => self.redelivered += rows,
        }
        Ok(())
    }
}

/// One round of a worker of the lease form: at most `limit` rows, one after the other.
///
/// # Errors
/// The claim failed, or the table is not as described. What was claimed is given back.
pub async fn lease_round<H: Host>(
    queue: &Lease<H>,
    limit: u32,
    handler: &impl Handler,
) -> Result<Round, ClaimError> {
    let mut round = Round::default();
    let deliveries = queue.claim(limit).await?;
    round.claimed = deliveries.len() as u32;
    for mut delivery in deliveries {
        let settlement = handler.handle(delivery.job()).await;
        round.count(1, delivery.settle(settlement).await)?;
    }
    Ok(round)
}

/// One round of a worker of the row-lock form: at most `limit` rows, one after the other, committed
/// together.
///
/// # Errors
/// The claim failed, or the table is not as described. What was claimed is free again.
pub async fn row_lock_round<H: Host>(
    queue: &RowLock<H>,
    limit: u32,
    handler: &impl Handler,
) -> Result<Round, ClaimError> {
    let mut round = Round::default();
    let Some(mut batch) = queue.claim(limit).await? else {
        return Ok(round);
    };
    round.claimed = batch.jobs().len() as u32;
    for index in 0..batch.jobs().len() {
        let settlement = handler.handle(&batch.jobs()[index]).await;
        if let Err(error) = batch.settle(index, settlement).await {
            round.count(round.claimed, Err(error))?;
            return Ok(round);
        }
    }
    let claimed = round.claimed;
    round.count(claimed, batch.commit().await)?;
    Ok(round)
}

/// One round of a worker of the advisory form: at most `limit` rows, one after the other.
///
/// # Errors
/// The claim failed, or the table is not as described. What was claimed is given back.
pub async fn advisory_round<H: Host>(
    queue: &Advisory<H>,
    limit: u32,
    handler: &impl Handler,
) -> Result<Round, ClaimError> {
    let mut round = Round::default();
    let deliveries = queue.claim(limit).await?;
    round.claimed = deliveries.len() as u32;
    for mut delivery in deliveries {
        let settlement = handler.handle(delivery.job()).await;
        round.count(1, delivery.settle(settlement).await)?;
    }
    Ok(round)
}
