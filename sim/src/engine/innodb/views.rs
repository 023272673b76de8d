//! Views of the server: who holds and waits for what.
//!
//! Numbers of transactions and threads are those of their sessions: they tell sessions apart, as on the
//! server, and are the same in every run.

use std::sync::Arc;

use rowlock_model::schedule::SessionId;
use rowlock_model::{DbError, Isolation, Row, Value};

use super::flavour::Flavour;
use super::host::connection_id;
use super::key::Pos;
use super::lock::RecordLock;
use super::session::Waiting;
use super::store::Store;
use crate::loose::catalog::VirtualTable;
use crate::loose::types::DeclaredType;
use crate::numbers;

const TEXT: DeclaredType = DeclaredType::Varchar(1024);
const NUMBER: DeclaredType = DeclaredType::Int {
    bytes: 8,
    unsigned: true,
};
const MOMENT: DeclaredType = DeclaredType::DateTime(0);

type Columns = &'static [(&'static str, DeclaredType)];

const DATA_LOCKS: Columns = &[
    ("ENGINE", TEXT),
    ("ENGINE_LOCK_ID", TEXT),
    ("ENGINE_TRANSACTION_ID", NUMBER),
    ("THREAD_ID", NUMBER),
    ("EVENT_ID", NUMBER),
    ("OBJECT_SCHEMA", TEXT),
    ("OBJECT_NAME", TEXT),
    ("PARTITION_NAME", TEXT),
    ("SUBPARTITION_NAME", TEXT),
    ("INDEX_NAME", TEXT),
    ("OBJECT_INSTANCE_BEGIN", NUMBER),
    ("LOCK_TYPE", TEXT),
    ("LOCK_MODE", TEXT),
    ("LOCK_STATUS", TEXT),
    ("LOCK_DATA", TEXT),
];

const DATA_LOCK_WAITS: Columns = &[
    ("ENGINE", TEXT),
    ("REQUESTING_ENGINE_LOCK_ID", TEXT),
    ("REQUESTING_ENGINE_TRANSACTION_ID", NUMBER),
    ("REQUESTING_THREAD_ID", NUMBER),
    ("REQUESTING_EVENT_ID", NUMBER),
    ("REQUESTING_OBJECT_INSTANCE_BEGIN", NUMBER),
    ("BLOCKING_ENGINE_LOCK_ID", TEXT),
    ("BLOCKING_ENGINE_TRANSACTION_ID", NUMBER),
    ("BLOCKING_THREAD_ID", NUMBER),
    ("BLOCKING_EVENT_ID", NUMBER),
    ("BLOCKING_OBJECT_INSTANCE_BEGIN", NUMBER),
];

const METADATA_LOCKS: Columns = &[
    ("OBJECT_TYPE", TEXT),
    ("OBJECT_SCHEMA", TEXT),
    ("OBJECT_NAME", TEXT),
    ("LOCK_TYPE", TEXT),
    ("LOCK_DURATION", TEXT),
    ("LOCK_STATUS", TEXT),
    ("OWNER_THREAD_ID", NUMBER),
    ("OWNER_EVENT_ID", NUMBER),
];

const THREADS: Columns = &[("THREAD_ID", NUMBER), ("PROCESSLIST_ID", NUMBER)];

const INNODB_TRX: Columns = &[
    ("trx_id", NUMBER),
    ("trx_state", TEXT),
    ("trx_started", MOMENT),
    ("trx_requested_lock_id", TEXT),
    ("trx_wait_started", MOMENT),
    ("trx_weight", NUMBER),
    ("trx_mysql_thread_id", NUMBER),
    ("trx_query", TEXT),
    ("trx_operation_state", TEXT),
    ("trx_tables_in_use", NUMBER),
    ("trx_tables_locked", NUMBER),
    ("trx_lock_structs", NUMBER),
    ("trx_lock_memory_bytes", NUMBER),
    ("trx_rows_locked", NUMBER),
    ("trx_rows_modified", NUMBER),
    ("trx_concurrency_tickets", NUMBER),
    ("trx_isolation_level", TEXT),
    ("trx_unique_checks", NUMBER),
    ("trx_foreign_key_checks", NUMBER),
    ("trx_last_foreign_key_error", TEXT),
    ("trx_adaptive_hash_latched", NUMBER),
    ("trx_adaptive_hash_timeout", NUMBER),
    ("trx_is_read_only", NUMBER),
    ("trx_autocommit_non_locking", NUMBER),
    ("trx_schedule_weight", NUMBER),
];

/// The last columns are MySQL's only.
const NOT_IN_MARIADB: &[&str] = &[
    "trx_adaptive_hash_latched",
    "trx_adaptive_hash_timeout",
    "trx_schedule_weight",
];

/// `DESCRIBE information_schema.innodb_trx`: types on MySQL and MariaDB, and whether NULL may be.
const INNODB_TRX_TYPES: &[(&str, &str, bool)] = {
    const BIG: &str = "bigint unsigned";
    const BIG_MARIADB: &str = "bigint(21) unsigned";
    const LEVELS: &str =
        "enum('READ UNCOMMITTED','READ COMMITTED','REPEATABLE READ','SERIALIZABLE')";
    &[
        (BIG, BIG_MARIADB, false),
        ("varchar(13)", "varchar(13)", false),
        ("datetime", "datetime", false),
        ("varchar(126)", "varchar(81)", true),
        ("datetime", "datetime", true),
        (BIG, BIG_MARIADB, false),
        (BIG, BIG_MARIADB, false),
        ("varchar(1024)", "varchar(1024)", true),
        ("varchar(64)", "varchar(64)", true),
        (BIG, BIG_MARIADB, false),
        (BIG, BIG_MARIADB, false),
        (BIG, BIG_MARIADB, false),
        (BIG, BIG_MARIADB, false),
        (BIG, BIG_MARIADB, false),
        (BIG, BIG_MARIADB, false),
        (BIG, BIG_MARIADB, false),
        ("varchar(16)", LEVELS, false),
        ("int", "int(1)", false),
        ("int", "int(1)", false),
        ("varchar(256)", "varchar(256)", true),
        ("int", "", false),
        (BIG, "", false),
        ("int", "int(1)", false),
        ("int", "int(1)", false),
        (BIG, "", true),
    ]
};

const INNODB_LOCKS: Columns = &[
    ("lock_id", TEXT),
    ("lock_trx_id", NUMBER),
    ("lock_mode", TEXT),
    ("lock_type", TEXT),
    ("lock_table", TEXT),
    ("lock_index", TEXT),
    ("lock_space", NUMBER),
    ("lock_page", NUMBER),
    ("lock_rec", NUMBER),
    ("lock_data", TEXT),
];

const INNODB_LOCK_WAITS: Columns = &[
    ("requesting_trx_id", NUMBER),
    ("requested_lock_id", TEXT),
    ("blocking_trx_id", NUMBER),
    ("blocking_lock_id", TEXT),
];

const PROCESSLIST: Columns = &[
    ("ID", NUMBER),
    ("USER", TEXT),
    ("HOST", TEXT),
    ("DB", TEXT),
    ("COMMAND", TEXT),
    ("TIME", NUMBER),
    ("STATE", TEXT),
    ("INFO", TEXT),
];

const SCHEMATA: Columns = &[
    ("CATALOG_NAME", TEXT),
    ("SCHEMA_NAME", TEXT),
    ("DEFAULT_CHARACTER_SET_NAME", TEXT),
    ("DEFAULT_COLLATION_NAME", TEXT),
    ("SQL_PATH", TEXT),
    ("DEFAULT_ENCRYPTION", TEXT),
];

/// The columns of the view called so, if the server has it.
fn columns(flavour: Flavour, schema: &str, name: &str) -> Option<Columns> {
    let mysql = !flavour.is_mariadb();
    match (schema, name) {
        ("performance_schema", "data_locks") if mysql => Some(DATA_LOCKS),
        ("performance_schema", "data_lock_waits") if mysql => Some(DATA_LOCK_WAITS),
        ("performance_schema", "metadata_locks") if mysql => Some(METADATA_LOCKS),
        ("performance_schema", "threads") if mysql => Some(THREADS),
        ("information_schema", "innodb_trx") => Some(INNODB_TRX),
        ("information_schema", "innodb_locks") if !mysql => Some(INNODB_LOCKS),
        ("information_schema", "innodb_lock_waits") if !mysql => Some(INNODB_LOCK_WAITS),
        ("information_schema", "processlist") => Some(PROCESSLIST),
        ("information_schema", "schemata") => Some(SCHEMATA),
        _ => None,
    }
}

/// The view called so.
pub fn find(flavour: Flavour, schema: &str, name: &str) -> Option<Arc<VirtualTable>> {
    let schema = schema.to_ascii_lowercase();
    let name = name.to_ascii_lowercase();
    let columns = columns(flavour, &schema, &name)?.iter();
    let columns =
        columns.filter(|(name, _)| !flavour.is_mariadb() || !NOT_IN_MARIADB.contains(name));
    let column = |(name, ty): &(&str, DeclaredType)| ((*name).into(), ty.clone());
    Some(Arc::new(VirtualTable {
        name: format!("{schema}.{name}").into(),
        columns: columns.map(column).collect(),
    }))
}

/// Whether a view is read from the tables of the data dictionary.
pub fn is_dictionary(name: &str) -> bool {
    name == "information_schema.schemata"
}

fn trx_id(session: SessionId) -> Value {
    Value::Int(numbers::INNODB_TRANSACTION.start + i64::from(session.0))
}

fn thread_id(session: SessionId) -> Value {
    Value::Int(numbers::INNODB_THREAD.start + i64::from(session.0))
}

fn text(text: impl Into<Arc<str>>) -> Value {
    Value::text(text)
}

fn optional(value: Option<String>) -> Value {
    value.map_or(Value::Null, Value::text)
}

/// Who looks at a view, and with which statement.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'r> {
    /// The session.
    pub session: SessionId,
    /// Its statement.
    pub text: &'r Arc<str>,
}

/// The rows of `DESCRIBE` for a view.
///
/// # Errors
/// `unsupported` for views whose types are not kept as the server spells them.
pub(super) fn described(flavour: Flavour, view: &VirtualTable) -> Result<Vec<Vec<Value>>, DbError> {
    if &*view.name != "information_schema.innodb_trx" {
        let what = format!("DESCRIBE {}", view.name);
        return Err(DbError::unsupported(what, None));
    }
    let mut rows = Vec::new();
    for ((name, _), (mysql, mariadb, nullable)) in INNODB_TRX.iter().zip(INNODB_TRX_TYPES) {
        let (ty, default) = match flavour.is_mariadb() {
            true => (mariadb, Value::Null),
            false => (mysql, text("")),
        };
        if ty.is_empty() {
            continue;
        }
        let nullable = if *nullable { "YES" } else { "NO" };
        rows.push(vec![
            text(*name),
            text(*ty),
            text(nullable),
            text(""),
            default,
            text(""),
        ]);
    }
    Ok(rows)
}

/// All rows of a view.
///
/// # Errors
/// `unsupported`.
pub fn rows(
    store: &mut Store,
    table: &VirtualTable,
    reader: Reader<'_>,
) -> Result<Vec<Row>, DbError> {
    store.world.footprint.read(super::object::name::WAITS);
    for session in store.sessions() {
        store
            .world
            .footprint
            .read(super::object::name::session(session));
    }
    let rows = match &*table.name {
        "performance_schema.data_locks" => data_locks(store),
        "performance_schema.data_lock_waits" => lock_waits(store, true),
        "performance_schema.metadata_locks" => metadata_locks(store),
        "performance_schema.threads" => store
            .sessions()
            .map(|s| vec![thread_id(s), Value::Int(connection_id(s))])
            .collect(),
        "information_schema.innodb_trx" => transactions(store, reader),
        "information_schema.innodb_locks" => contended_locks(store),
        "information_schema.innodb_lock_waits" => lock_waits(store, false),
        "information_schema.processlist" => processes(store, reader),
        "information_schema.schemata" => schemata(store),
        other => {
            return Err(DbError::unsupported(format!("the view {other}"), None));
        }
    };
    Ok(rows.into_iter().map(Row::from).collect())
}

fn data_locks(store: &Store) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for session in store.sessions().collect::<Vec<_>>().into_iter().rev() {
        for (i, lock) in store.listed_locks(session).into_iter().enumerate() {
            rows.push(vec![
                text("INNODB"),
                text(format!("{}:{i}", session.0 as u32 + 1_000)),
                trx_id(session),
                thread_id(session),
                Value::Int(1),
                Value::Text(store.database.clone()),
                text(lock.table),
                Value::Null,
                Value::Null,
                optional(lock.index.clone()),
                Value::Int(0),
                text(if lock.index.is_some() {
                    "RECORD"
                } else {
                    "TABLE"
                }),
                text(lock.mode),
                text(if lock.waiting { "WAITING" } else { "GRANTED" }),
                optional(lock.data),
            ]);
        }
    }
    rows
}

fn lock_waits(store: &Store, mysql: bool) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let id = |session: SessionId| text(format!("{}:wait", session.0 as u32 + 1_000));
    for waiter in store.sessions() {
        for blocker in store.shown_blockers(waiter) {
            rows.push(if mysql {
                let number = Value::Int(0);
                vec![
                    text("INNODB"),
                    id(waiter),
                    trx_id(waiter),
                    thread_id(waiter),
                    Value::Int(1),
                    number.clone(),
                    id(blocker),
                    trx_id(blocker),
                    thread_id(blocker),
                    Value::Int(1),
                    number,
                ]
            } else {
                vec![trx_id(waiter), id(waiter), trx_id(blocker), id(blocker)]
            });
        }
    }
    rows
}

fn metadata_locks(store: &Store) -> Vec<Vec<Value>> {
    let row = |kind: &str, name: &str, mode: &str, explicit: bool, waiting: bool, owner| {
        vec![
            text(kind),
            if kind == "TABLE" {
                Value::Text(store.database.clone())
            } else {
                Value::Null
            },
            text(name),
            text(mode),
            text(if explicit { "EXPLICIT" } else { "TRANSACTION" }),
            text(if waiting { "PENDING" } else { "GRANTED" }),
            thread_id(owner),
            Value::Int(1),
        ]
    };
    let tables = store.metadata().iter().map(|(name, lock)| {
        row(
            "TABLE",
            name,
            lock.mode.name(),
            lock.explicit,
            lock.waiting,
            lock.owner,
        )
    });
    let users = store.user_locks().iter().map(|(name, owner, granted)| {
        row("USER LEVEL LOCK", name, "EXCLUSIVE", true, !granted, owner)
    });
    tables.chain(users).collect()
}

fn level_text(level: Isolation) -> String {
    level.name().to_ascii_uppercase()
}

/// The statement of a session that runs one, or waits in one.
fn statement_of(store: &Store, session: SessionId, reader: Reader<'_>) -> Option<Arc<str>> {
    if session == reader.session {
        return Some(Arc::clone(reader.text));
    }
    let flight = store.session(session).flight.as_ref()?;
    let runs = !matches!(flight.waiting, Waiting::Nothing(_));
    runs.then(|| Arc::clone(&flight.text))
}

/// What a transaction that waits is doing (`trx_operation_state`).
fn operation(statement: Option<&Arc<str>>) -> &'static str {
    let word = statement.and_then(|text| text.split_whitespace().next());
    match word.map(str::to_ascii_lowercase).as_deref() {
        Some("insert" | "replace") => "inserting",
        Some("select") => "starting index read",
        Some(_) => "starting index read",
        None => "",
    }
}

fn transactions(store: &Store, reader: Reader<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for session in store.sessions().collect::<Vec<_>>().into_iter().rev() {
        let trx = store.trx(session);
        if !trx.joined {
            continue;
        }
        let locks = store.listed_locks(session);
        let waits = trx.wait.as_ref().is_some_and(|w| !w.granted);
        let number = |n: usize| Value::Int(n as i64);
        let settings = &store.session(session).settings;
        let query = statement_of(store, session, reader);
        let state = match (waits, store.flavour.is_mariadb()) {
            (true, _) => text(operation(query.as_ref())),
            (false, true) => text(""),
            (false, false) => Value::Null,
        };
        rows.push(vec![
            trx_id(session),
            text(if waits { "LOCK WAIT" } else { "RUNNING" }),
            Value::Timestamp(store.now_unrecorded()),
            optional(waits.then(|| format!("{}:wait", session.0 as u32 + 1_000))),
            if waits {
                Value::Timestamp(store.now_unrecorded())
            } else {
                Value::Null
            },
            number(store.weight(session)),
            Value::Int(connection_id(session)),
            query.clone().map_or(Value::Null, Value::Text),
            state,
            number(if waits { 1 } else { 0 }),
            number(trx.tables.len()),
            number(store.lock_structs(session)),
            // How much memory the lists of locks take is the server's matter.
            Value::Int(1_128),
            number(locks.iter().filter(|l| l.index.is_some()).count()),
            number(trx.rows_modified()),
            Value::Int(0),
            text(level_text(trx.level)),
            Value::Int(i64::from(unique_checks(settings))),
            Value::Int(i64::from(settings.foreign_keys)),
            Value::Null,
        ]);
        let row = rows.last_mut().expect("just pushed");
        if !store.flavour.is_mariadb() {
            row.extend([Value::Int(0), Value::Int(0)]);
        }
        let alone = !store.session(session).in_transaction && settings.autocommit;
        row.push(Value::Int(i64::from(store.session(session).read_only)));
        row.push(Value::Int(i64::from(alone)));
        if !store.flavour.is_mariadb() {
            // How many wait for it, and itself, while it waits.
            row.push(match waits {
                true => Value::Int(store.waiters_of(session) as i64 + 1),
                false => Value::Null,
            });
        }
    }
    rows
}

fn unique_checks(settings: &super::session::Settings) -> bool {
    settings.others.get("unique_checks") != Some(&Value::Int(0))
}

/// MariaDB lists the locks that somebody waits for, and the requests that wait.
fn contended_locks(store: &Store) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut listed: Vec<(SessionId, Pos)> = Vec::new();
    for waiter in store.sessions() {
        let Some(wait) = store.trx(waiter).wait.clone().filter(|w| !w.granted) else {
            continue;
        };
        let shape = store.shape(wait.table);
        let Some(index) = shape.indexes.iter().find(|i| i.id == wait.index) else {
            continue;
        };
        let blockers = store.shown_blockers(waiter);
        for lock in store.record_locks(wait.index).at(&wait.pos) {
            let RecordLock { owner, .. } = *lock;
            let concerned = owner == waiter || blockers.contains(&owner);
            let place = (owner, wait.pos.clone());
            if !concerned || listed.contains(&place) {
                continue;
            }
            listed.push(place);
            let shown = super::lock::mode_name(lock, wait.pos.is_supremum());
            let data = store
                .listed_locks(owner)
                .into_iter()
                .find(|l| l.index.as_deref() == Some(&*index.name) && l.mode == shown);
            rows.push(vec![
                text(format!("{}:{}", owner.0 as u32 + 1_000, index.name)),
                trx_id(owner),
                text(shown),
                text("RECORD"),
                text(format!("`{}`.`{}`", store.database, shape.table.name)),
                text(index.name.to_string()),
                Value::Int(0),
                Value::Int(0),
                Value::Int(0),
                optional(data.and_then(|l| l.data)),
            ]);
        }
    }
    rows
}

/// The rows of `information_schema.processlist` and of `SHOW PROCESSLIST`.
pub(super) fn processes(store: &Store, reader: Reader<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for session in store.sessions() {
        let state = store.session(session);
        if state.gone.is_some() {
            continue;
        }
        let (command, stage) = match state.flight.as_ref().map(|f| &f.waiting) {
            None if session == reader.session => ("Query", store.flavour.reading_stage()),
            None => ("Sleep", ""),
            Some(Waiting::Metadata) => ("Query", "Waiting for table metadata lock"),
            Some(Waiting::UserLock) => ("Query", "User lock"),
            Some(Waiting::Sleep) => ("Query", "User sleep"),
            Some(Waiting::Nothing(_)) => ("Sleep", ""),
            Some(Waiting::Row | Waiting::Pause(_)) => {
                let statement = statement_of(store, session, reader);
                ("Query", row_stage(store.flavour, statement.as_deref()))
            }
        };
        rows.push(vec![
            Value::Int(connection_id(session)),
            text("root"),
            text("localhost"),
            Value::Text(state.schema.clone()),
            text(command),
            Value::Int(0),
            text(stage),
            statement_of(store, session, reader).map_or(Value::Null, Value::Text),
        ]);
    }
    rows
}

/// What a statement that waits for a row is said to be doing.
fn row_stage(flavour: Flavour, statement: Option<&str>) -> &'static str {
    let word = statement.and_then(|text| text.split_whitespace().next());
    match word.map(str::to_ascii_lowercase).as_deref() {
        Some("insert" | "replace") => flavour.inserting_stage(),
        Some("update") => flavour.updating_stage(),
        Some("delete") => flavour.deleting_stage(),
        _ => flavour.locking_read_stage(),
    }
}

fn schemata(store: &Store) -> Vec<Vec<Value>> {
    let mariadb = store.flavour.is_mariadb();
    let row = |name: &str, charset: &str, collation: &str| {
        vec![
            text("def"),
            text(name),
            text(charset),
            text(collation),
            Value::Null,
            text(if mariadb { "" } else { "NO" }),
        ]
    };
    let (charset, collation) = if mariadb {
        ("utf8mb4", "utf8mb4_general_ci")
    } else {
        ("utf8mb4", "utf8mb4_0900_ai_ci")
    };
    let first = if mariadb {
        row("information_schema", "utf8mb3", "utf8mb3_general_ci")
    } else {
        row("mysql", charset, collation)
    };
    vec![first, row(&store.database, charset, collation)]
}
