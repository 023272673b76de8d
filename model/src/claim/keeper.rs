//! The keeper of a lease queue: extends what is held, every half lease.

use std::sync::Arc;
use std::time::Duration;

use super::lease::Shared;
use super::pool::Pooled;
use super::text::Values;
use crate::{Dialect, ErrorClass, Host};

/// Extends the leases of all deliveries that are held, every half lease, until it is aborted.
///
/// Ticks are counted from the opening of the queue, not from the claims. A round that takes longer
/// delays the next tick; missed ticks are not made up for.
pub(super) async fn keep<H: Host>(shared: Arc<Shared<H>>) {
    let host = shared.pool.host().clone();
    let period = shared.options.lease.half();
    let mut pause = period;
    loop {
        host.sleep(pause).await;
        let started = host.now_micros();
        round(&shared).await;
        // The clock may have stepped; the pause stays between nothing and a period.
        let spent = host.now_micros().saturating_sub(started).max(0);
        pause = period.saturating_sub(Duration::from_micros(spent.unsigned_abs()));
    }
}

/// One round: one connection, one new end for all, one statement a row.
///
/// Rows are marked one at a time, so that a settlement never waits for more than its own statement.
/// A statement that fails leaves the outcome unknown: the delivery keeps its old token, and the
/// next round tries again.
async fn round<H: Host>(shared: &Shared<H>) {
    let held = shared.slots.held();
    if held.is_empty() {
        return;
    }
    let Ok(mut session) = shared.pool.acquire().await else {
        return;
    };
    let mut values = shared.values(shared.pool.host().now_micros());
    let statement = &shared.statements.extend;
    for slot in held {
        let Some(extension) = shared.slots.begin_extend(slot, values.expiry_micros) else {
            continue;
        };
        values.id = Some(extension.id.clone());
        values.token = Some(extension.held);
        let host = shared.pool.host();
        match shared
            .exec(&mut session, "extend", statement, &values)
            .await
        {
            Ok(reply)
                if reply.affected == 0 && !still_held(shared, &mut session, &values).await =>
            {
                host.note("lost", &[extension.id.clone(), "extend".into()]);
                extension.lost();
            }
            Ok(_) => {
                let until = values.expiry_micros.into();
                host.note("extended", &[extension.id.clone(), until]);
                extension.succeeded();
            }
            Err(error) => {
                drop(extension);
                if error.class == ErrorClass::ConnectionLost {
                    return;
                }
            }
        }
    }
    session.put_back();
}

/// Whether the lease is held although its extension hit no row: a client of MySQL or MariaDB that
/// counts changed rows is told 0 where the end of the lease is what it was.
async fn still_held<H: Host>(shared: &Shared<H>, session: &mut Pooled<H>, values: &Values) -> bool {
    if !matches!(shared.dialect, Dialect::MySql | Dialect::MariaDb) {
        return false;
    }
    let prove = &shared.statements.prove;
    match shared.exec(session, "prove", prove, values).await {
        Ok(reply) => !reply.rows.is_empty(),
        // Not known: the token stays, and the next round asks again.
        Err(_) => true,
    }
}
