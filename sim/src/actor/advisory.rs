//! The actor `advisory-worker`: rounds of a worker of the advisory form.
//!
//! | parameter | default | meaning |
//! | --- | --- | --- |
//! | `table`, `schema`, `id`, `attempt`, `priority`, `retry_after`, `processed_at` | `job`, none, `id`, `attempt` | the table |
//! | `key` | `"{id}"` | the text of the key; `{column}` stands for a value of the row |
//! | `probe` | `true` | whether candidates whose key is held are left out |
//! | `clock` | `"host"` | or `"database"` |
//! | `limit` | 1 | rows a claim; needs a session for each |
//! | `rounds` | 1 | claims of the process; 0: until one finds nothing |
//! | `settle` | `"ack"` | or `"drop"`, `"retry"`, `"retry after 5s"` |
//! | `except` | | promises that are not watched |
//! | `mutation` | | a deliberate mistake, see [`rowlock_model::claim::Mutation`] |
//!
//! Its steps are `choose`, `lock`, `take`, then `ack` or what it settles with, and `unlock`.

use rowlock_model::Session;
use rowlock_model::claim::{
    Advisory, AdvisoryOptions, ClaimError, Pool, Settlement, Table, advisory_round,
};

use super::ActorError;
use super::lease::after;
use super::params::Params;
use crate::explore::{Control, ProcessSpec, Worker};

/// What an actor of this kind was told.
#[derive(Clone)]
struct Config {
    table: Table,
    options: Options,
    limit: u32,
    settlement: Settlement,
}

/// The settings, without what a process makes for itself.
#[derive(Clone, Copy)]
struct Options {
    clock: rowlock_model::claim::Clock,
    without_probe: bool,
    mutation: Option<rowlock_model::claim::Mutation>,
}

pub(super) fn process(label: &str, params: &mut Params<'_>) -> Result<ProcessSpec, ActorError> {
    let table = params.table()?;
    let key = params.text("key")?.unwrap_or("{id}");
    let config = Config {
        table: table.advisory_lock(key),
        options: Options {
            clock: params.clock()?,
            without_probe: !params.flag("probe", true)?,
            mutation: params.mutation()?,
        },
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
    let pool = Pool::with_sessions(worker.host, worker.sessions);
    // Keys in the process: a round settles all that it claims, so no key outlives it.
    let options = AdvisoryOptions {
        clock: config.options.clock,
        without_probe: config.options.without_probe,
        mutation: config.options.mutation,
        ..AdvisoryOptions::default()
    };
    let queue = Advisory::open(pool, dialect, config.table, options)?;
    after(
        left,
        advisory_round(&queue, config.limit, &config.settlement).await,
    )
}
