//! `pg_stat_activity`: the client sessions. Processes of the server itself are left out.

use rowlock_model::Value;
use rowlock_model::schedule::SessionId;

use super::DATABASE;
use crate::engine::postgres::prepared::is_seat;
use crate::engine::postgres::session::{Block, SessionState, Waiting};
use crate::engine::postgres::{Store, Tag, pid};

/// How much of a text is shown, in bytes (`track_activity_query_size`, less the end of the text).
const QUERY_SIZE: usize = 1_023;

/// The rows, by session; `reader` is the one that looks.
pub(super) fn rows(store: &Store, reader: SessionId) -> Vec<Value> {
    store
        .sessions()
        .filter(|session| !is_seat(*session) && store.session(*session).gone.is_none())
        .map(|session| row(store, session, session == reader))
        .collect()
}

fn row(store: &Store, session: SessionId, reads: bool) -> Value {
    let state = store.session(session);
    let active = reads || state.flight.is_some();
    let mut row = vec![Value::Null; 22];
    row[0] = Value::Int(DATABASE);
    row[1] = Value::text("rowlock");
    row[2] = Value::Int(pid(session));
    row[4] = Value::Int(10);
    row[5] = Value::text("postgres");
    row[6] = state
        .settings
        .get()
        .show("application_name")
        .map_or(Value::Null, Value::Text);
    row[9] = Value::Int(-1);
    let activity = &state.activity;
    row[10] = Value::TimestampTz(activity.opened_micros);
    // An error ends the transaction at once, unless a savepoint keeps it.
    if let Some(transaction) = &state.transaction
        && store.xact(session).is_open()
    {
        row[11] = Value::TimestampTz(transaction.start_micros);
    }
    if activity.query.is_some() {
        row[12] = Value::TimestampTz(activity.query_micros);
    }
    row[13] = Value::TimestampTz(activity.change_micros);
    let (kind, event) = waits_for(store, session, state, reads);
    row[14] = kind.map_or(Value::Null, Value::text);
    row[15] = event.map_or(Value::Null, Value::text);
    row[16] = Value::text(match state.block {
        _ if active => "active",
        Block::Idle | Block::Implicit => "idle",
        Block::Open => "idle in transaction",
        Block::Failed => "idle in transaction (aborted)",
    });
    let xact = store.xact(session);
    if let Some(level) = xact.levels.first().filter(|level| level.has_own_xid) {
        row[17] = Value::Int(i64::from(level.xids[0].0));
    }
    if let Some(xmin) = xact.xmin {
        row[18] = Value::Int(i64::from(xmin.0));
    }
    row[20] = Value::text(shown(activity.query.as_deref().unwrap_or_default()));
    row[21] = Value::text("client backend");
    Value::Array(row.into())
}

/// `wait_event_type` and `wait_event` (manual, tables 28.4 to 28.13).
fn waits_for(
    store: &Store,
    session: SessionId,
    state: &SessionState,
    reads: bool,
) -> (Option<&'static str>, Option<&'static str>) {
    let event = match state.flight.as_ref().map(|flight| &flight.waiting) {
        None if reads => return (None, None),
        None | Some(Waiting::Nothing(_)) => ("Client", "ClientRead"),
        Some(Waiting::Pause(_)) => return (None, None),
        Some(Waiting::Safety) => ("IPC", "SafeSnapshot"),
        Some(Waiting::Sleep(_)) => ("Timeout", "PgSleep"),
        Some(Waiting::Lock) => match store.awaited(session) {
            // Granted already: it runs.
            None => return (None, None),
            Some(lock) => {
                let event = match lock.tag {
                    Tag::Relation(_) | Tag::Indexes(_) => "relation",
                    Tag::Tuple(..) => "tuple",
                    Tag::Transaction(_) => "transactionid",
                    Tag::Virtual(_) => "virtualxid",
                    Tag::Advisory(_) => "advisory",
                };
                ("Lock", event)
            }
        },
    };
    (Some(event.0), Some(event.1))
}

/// The beginning of a text, as far as it is shown.
fn shown(query: &str) -> &str {
    let mut end = query.len().min(QUERY_SIZE);
    while !query.is_char_boundary(end) {
        end -= 1;
    }
    &query[..end]
}
