//! The actor `lease-worker`: rounds of a worker of the lease form.
//!
//! | parameter | default | meaning |
//! | --- | --- | --- |
//! | `table`, `schema`, `id`, `attempt`, `locked_until`, `fence`, `priority`, `retry_after`, `processed_at` | `job`, none, `id`, `attempt`, `locked_until` | the table |
//! | `lease` | `"30s"` | how long a claim holds |
//! | `token` | `"fenced"` | or `"expiry"`: what a settlement must match |
//! | `clock` | `"host"` | or `"database"` |
//! | `keeper` | `true` | whether leases are extended |
//! | `fifo` | none | `"lock"` or `"counts"`: only the head, behind this guard |
//! | `limit` | 1 | rows a claim |
//! | `rounds` | 1 | claims of the process; 0: until one finds nothing |
//! | `settle` | `"ack"` | or `"drop"`, `"retry"`, `"retry after 5s"` |
//! | `except` | | promises that are not watched: `"one live holder, settled once"` |
//! | `mutation` | | a deliberate mistake, see [`rowlock_model::claim::Mutation`] |
//!
//! Its steps are `poll` (nothing yet), `claim`, then `ack` or what it settles with, and those of the
//! library's tasks: `extend`, `release`.

use std::time::Duration;

use rowlock_model::claim::{
    ClaimError, Lease, LeaseLength, LeaseOptions, Next, Pool, Round, Settlement, Table, TokenRule,
    lease_round,
};
use rowlock_model::{Host, Session};

use super::ActorError;
use super::params::Params;
use crate::explore::{Control, ProcessSpec, Worker};

/// What an actor of this kind was told.
#[derive(Clone)]
struct Config {
    table: Table,
    options: LeaseOptions,
    limit: u32,
    settlement: Settlement,
}

pub(super) fn process(label: &str, params: &mut Params<'_>) -> Result<ProcessSpec, ActorError> {
    let mut table = params.table()?;
    if params.text("locked_until")?.is_none() {
        table = table.locked_until("locked_until");
    }
    let tokens = [("fenced", TokenRule::Fenced), ("expiry", TokenRule::Expiry)];
    let options = LeaseOptions {
        lease: params
            .duration("lease")?
            .map(LeaseLength::new)
            .unwrap_or_default(),
        token: params.word("token", &tokens)?.unwrap_or_default(),
        clock: params.clock()?,
        fifo: params.fifo()?,
        without_keeper: !params.flag("keeper", true)?,
        mutation: params.mutation()?,
        ..LeaseOptions::default()
    };
    let config = Config {
        table,
        options,
        limit: params.number("limit", 1)?,
        settlement: params.settlement()?,
    };
    let rounds = match params.number("rounds", 1)? {
        0 => None,
        rounds => Some(rounds),
    };
    Ok(ProcessSpec::steps(label, rounds, move |worker, left| {
        step(worker, left, config.clone())
    }))
}

/// One round; the local state is how many are left.
async fn step(
    worker: Worker,
    left: Option<u32>,
    config: Config,
) -> Result<Control<Option<u32>>, ClaimError> {
    let dialect = worker.sessions[0].dialect();
    // A round begins at any time: the clock is read after this, and not when the one before ended.
    worker.host.name_step("poll");
    worker.host.sleep(Duration::ZERO).await;
    let pool = Pool::with_sessions(worker.host, worker.sessions);
    let queue = Lease::open(pool, dialect, config.table, config.options)?;
    after(
        left,
        lease_round(&queue, config.limit, &config.settlement).await,
    )
}

/// Whether there is another round.
pub(super) fn after(
    left: Option<u32>,
    round: Result<Round, ClaimError>,
) -> Result<Control<Option<u32>>, ClaimError> {
    let found = match round {
        Ok(round) => round.claimed > 0,
        Err(error) if error.next() == Next::GiveUp => return Err(error),
        Err(_) => true,
    };
    Ok(match left {
        None if found => Control::Again(None),
        Some(left @ 2..) => Control::Again(Some(left - 1)),
        _ => Control::Done,
    })
}
