//! The actor `row-lock-worker`: rounds of a worker of the row-lock form.
//!
//! | parameter | default | meaning |
//! | --- | --- | --- |
//! | `table`, `schema`, `id`, `attempt`, `priority`, `retry_after`, `processed_at` | `job`, none, `id`, `attempt` | the table |
//! | `transaction` | `"read committed"` | or `"default"`, `"repeatable read"`, `"serializable"` |
//! | `clock` | `"host"` | or `"database"` |
//! | `fifo` | none | `"lock"` or `"counts"`: only the head, behind this guard |
//! | `limit` | 1 | rows a claim |
//! | `rounds` | 1 | claims of the process; 0: until one finds nothing |
//! | `settle` | `"ack"` | or `"drop"`, `"retry"`, `"retry after 5s"` |
//! | `undo` | `false` | undo what the handler wrote unless it acknowledges |
//! | `except` | | promises that are not watched: `"one live holder, settled once"` |
//! | `mutation` | | a deliberate mistake, see [`rowlock_model::claim::Mutation`] |

use rowlock_model::claim::{
    ClaimError, Pool, RowLock, RowLockOptions, Settlement, Table, Transaction, row_lock_round,
};
use rowlock_model::{Isolation, Session};

use super::ActorError;
use super::lease::after;
use super::params::Params;
use crate::explore::{Control, ProcessSpec, Worker};

/// What an actor of this kind was told.
#[derive(Clone)]
struct Config {
    table: Table,
    options: RowLockOptions,
    limit: u32,
    settlement: Settlement,
}

pub(super) fn process(label: &str, params: &mut Params<'_>) -> Result<ProcessSpec, ActorError> {
    let transactions = [
        ("read committed", Transaction::ReadCommitted),
        ("default", Transaction::DatabaseDefault),
        (
            "repeatable read",
            Transaction::At(Isolation::RepeatableRead),
        ),
        ("serializable", Transaction::At(Isolation::Serializable)),
    ];
    let config = Config {
        table: params.table()?,
        options: RowLockOptions {
            transaction: params
                .word("transaction", &transactions)?
                .unwrap_or_default(),
            clock: params.clock()?,
            fifo: params.fifo()?,
            undo_unless_acked: params.flag("undo", false)?,
            mutation: params.mutation()?,
            ..RowLockOptions::default()
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
    let queue = RowLock::open(pool, dialect, config.table, config.options)?;
    after(
        left,
        row_lock_round(&queue, config.limit, &config.settlement).await,
    )
}
