//! What a session is doing: its settings, its transaction as the server sees it, and the request in flight.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Isolation, Reply, TransactionStatus, Value};

use super::flavour::Flavour;
use super::run::Run;
use crate::database::{Answer, Request};
use crate::world::Digest;

/// What follows the end of a transaction (`completion_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Completion {
    /// Nothing.
    #[default]
    NoChain,
    /// Another transaction begins.
    Chain,
    /// The session ends.
    Release,
}

impl Completion {
    /// All, by their numbers.
    pub const ALL: [Completion; 3] = [Completion::NoChain, Completion::Chain, Completion::Release];

    /// As the variable spells it.
    pub fn name(self) -> &'static str {
        match self {
            Completion::NoChain => "NO_CHAIN",
            Completion::Chain => "CHAIN",
            Completion::Release => "RELEASE",
        }
    }
}

/// The settings of a session that decide about concurrency.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `autocommit`.
    pub autocommit: bool,
    /// `transaction_isolation`.
    pub isolation: Isolation,
    /// `transaction_read_only`.
    pub read_only: bool,
    /// `innodb_lock_wait_timeout`, in seconds.
    pub row_timeout_s: i64,
    /// `lock_wait_timeout`, in seconds.
    pub metadata_timeout_s: i64,
    /// `max_execution_time` (MySQL) or `max_statement_time` (MariaDB), in milliseconds; 0 is none.
    pub statement_timeout_ms: i64,
    /// `innodb_snapshot_isolation` (MariaDB).
    pub snapshot_isolation: bool,
    /// `sql_mode` is strict.
    pub strict: bool,
    /// `completion_type`.
    pub completion: Completion,
    /// `foreign_key_checks`.
    pub foreign_keys: bool,
    /// `innodb_table_locks`: `LOCK TABLES` takes InnoDB's table locks as well.
    pub table_locks: bool,
    /// `innodb_deadlock_detect`; of the server only.
    pub detects_deadlocks: bool,
    /// `innodb_rollback_on_timeout`; of the server only.
    pub rolls_back_on_timeout: bool,
    /// Other variables that were set.
    pub others: BTreeMap<Arc<str>, Value>,
}

impl Settings {
    /// Those of a new session.
    pub fn new(flavour: Flavour, isolation: Isolation) -> Settings {
        Settings {
            autocommit: true,
            isolation,
            read_only: false,
            row_timeout_s: 50,
            metadata_timeout_s: flavour.metadata_timeout_s(),
            statement_timeout_ms: 0,
            snapshot_isolation: flavour.snapshot_isolation,
            strict: true,
            completion: Completion::NoChain,
            foreign_keys: true,
            table_locks: true,
            detects_deadlocks: true,
            rolls_back_on_timeout: false,
            others: BTreeMap::new(),
        }
    }
}

/// Characteristics of the next transaction only (`SET TRANSACTION`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NextModes {
    /// Its level.
    pub isolation: Option<Isolation>,
    /// Whether it may only read.
    pub read_only: Option<bool>,
}

/// An open savepoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Savepoint {
    /// Its name.
    pub name: Arc<str>,
    /// How many changes were done before; `None` if InnoDB did not take part yet: going back ends
    /// its transaction.
    pub changes: Option<usize>,
}

/// What a request in flight waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// A row.
    Row,
    /// A metadata lock.
    Metadata,
    /// A lock of `GET_LOCK`.
    UserLock,
    /// The clock (`SLEEP`).
    Sleep,
    /// Nothing: in row granularity, it pauses before this record lock.
    Pause(String),
    /// Nothing any more: ended by somebody, this is the answer.
    Nothing(Box<Answer>),
}

/// The line that comes with an answer (`Rows matched: 1  Changed: 1  Warnings: 0`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// None.
    #[default]
    Nothing,
    /// Of an insert of several rows, or a change of a table.
    Records {
        /// How many.
        records: u64,
        /// How many warnings.
        warnings: usize,
    },
    /// Of an update.
    Rows {
        /// Rows found.
        matched: u64,
        /// Rows changed.
        changed: u64,
        /// How many warnings.
        warnings: usize,
    },
    /// There is one that is not modelled (which rows of several were duplicates).
    NotKept,
}

/// One line of `SHOW WARNINGS`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// `Note`, `Warning` or `Error`.
    pub level: &'static str,
    /// Its number.
    pub code: u16,
    /// Its text.
    pub message: Arc<str>,
}

/// A request that was begun and waits.
#[derive(Clone, Debug)]
pub struct Flight {
    /// What was asked.
    pub request: Request,
    /// For a script: the replies of the statements before the one that waits.
    pub replies: Vec<Reply>,
    /// The statement that waits.
    pub run: Run,
    /// The text of that statement.
    pub text: Arc<str>,
    /// What it waits for.
    pub waiting: Waiting,
    /// When the wait ends by itself: microseconds since 1970.
    pub until_micros: Option<i64>,
}

/// The state of one session that the executor keeps.
#[derive(Clone, Debug)]
pub struct SessionState {
    /// Its settings.
    pub settings: Settings,
    /// See [`NextModes`].
    pub next: NextModes,
    /// A transaction was begun and is not over.
    pub in_transaction: bool,
    /// The level of the transaction that is open, or that the statement is.
    pub level: Isolation,
    /// That transaction may only read.
    pub read_only: bool,
    /// Its savepoints.
    pub savepoints: Vec<Savepoint>,
    /// `LOCK TABLES` is in force: the tables, and whether for writing.
    pub locked_tables: BTreeMap<Arc<str>, bool>,
    /// `@name`.
    pub variables: Rc<BTreeMap<Arc<str>, Value>>,
    /// `LAST_INSERT_ID()`.
    pub last_insert_id: i64,
    /// The automatic number that the last statement reported to the client; 0 if none. No part of the
    /// state: nothing reads it later.
    pub reported_id: i64,
    /// What the last statement told besides. No part of the state: nothing reads it later.
    pub told: Told,
    /// `ROW_COUNT()`.
    pub row_count: i64,
    /// `FOUND_ROWS()`.
    pub found_rows: i64,
    /// What the last statement had to say (`SHOW WARNINGS`).
    pub diagnostics: Rc<[Diagnostic]>,
    /// The database in use.
    pub schema: Arc<str>,
    /// The client wants matched rows counted, not changed ones (`CLIENT_FOUND_ROWS`).
    pub counts_found: bool,
    /// The request in flight.
    pub flight: Option<Rc<Flight>>,
    /// Why the session is gone.
    pub gone: Option<Box<DbError>>,
}

impl SessionState {
    /// A session that was just opened.
    pub fn new(settings: Settings, schema: Arc<str>) -> SessionState {
        SessionState {
            next: NextModes::default(),
            in_transaction: false,
            level: settings.isolation,
            read_only: false,
            savepoints: Vec::new(),
            locked_tables: BTreeMap::new(),
            variables: Rc::default(),
            last_insert_id: 0,
            reported_id: 0,
            told: Told::Nothing,
            row_count: 0,
            found_rows: 0,
            diagnostics: Rc::new([]),
            schema,
            counts_found: false,
            flight: None,
            gone: None,
            settings,
        }
    }

    /// The transaction status, as the server reports it after each message.
    pub fn status(&self) -> TransactionStatus {
        if self.in_transaction {
            TransactionStatus::InTransaction
        } else {
            TransactionStatus::Idle
        }
    }

    /// Adds everything that decides the session's future to `digest`.
    pub fn digest(&self, digest: &mut Digest) {
        if let Some(error) = &self.gone {
            digest.word(1);
            error.code.hash(digest);
        }
        self.settings.hash(digest);
        self.next.hash(digest);
        self.in_transaction.hash(digest);
        self.level.hash(digest);
        self.read_only.hash(digest);
        self.savepoints.hash(digest);
        self.locked_tables.hash(digest);
        self.variables.hash(digest);
        self.last_insert_id.hash(digest);
        self.row_count.hash(digest);
        self.found_rows.hash(digest);
        self.counts_found.hash(digest);
        if !self.diagnostics.is_empty() {
            self.diagnostics.hash(digest);
        }
        self.schema.hash(digest);
        if let Some(flight) = &self.flight {
            flight.request.hash(digest);
            flight.replies.hash(digest);
            flight.run.digest(digest);
            match &flight.waiting {
                Waiting::Row => digest.word(1),
                Waiting::Metadata => digest.word(2),
                Waiting::UserLock => digest.word(3),
                Waiting::Sleep => digest.word(4),
                Waiting::Pause(before) => {
                    digest.word(5);
                    before.hash(digest);
                }
                Waiting::Nothing(answer) => answer.hash(digest),
            }
            flight.until_micros.hash(digest);
        }
    }
}
