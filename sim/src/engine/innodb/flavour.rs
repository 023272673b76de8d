//! Every difference between the servers that share InnoDB, in one place.

use rowlock_model::{Dialect, Isolation};

use crate::loose::storage::Ties;
use crate::loose::types::Collation;

/// Which server, and how it is configured where that decides about concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flavour {
    /// Product and version.
    pub server: Server,
    /// MariaDB's `innodb_snapshot_isolation`.
    pub snapshot_isolation: bool,
}

/// Product and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// MySQL 9.7.
    MySql97,
    /// MariaDB 10.11.
    MariaDb1011,
    /// MariaDB 11.8.
    MariaDb118,
}

/// How waiting requests are granted when a lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grants {
    /// In the order in which they came.
    Fifo,
    /// MySQL's contention-aware scheduling: who blocks more transactions goes first, ties in the order
    /// in which they came.
    ContentionAware,
}

/// Who dies of several transactions of a cycle that weigh least, if the one that closed the cycle
/// is not among them: counted along the chain of waits that begins at the one that closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// The first of the chain.
    First,
    /// The last of the chain.
    Last,
}

impl Flavour {
    /// MySQL 9.7.
    pub const MYSQL: Flavour = Flavour {
        server: Server::MySql97,
        snapshot_isolation: false,
    };
    /// MariaDB 10.11 as it is delivered.
    pub const MARIADB_10_11: Flavour = Flavour {
        server: Server::MariaDb1011,
        snapshot_isolation: false,
    };
    /// MariaDB 11.8 as it is delivered.
    pub const MARIADB_11_8: Flavour = Flavour {
        server: Server::MariaDb118,
        snapshot_isolation: true,
    };

    /// The same server with `innodb_snapshot_isolation` set.
    #[must_use]
    pub fn with_snapshot_isolation(self, on: bool) -> Flavour {
        Flavour {
            snapshot_isolation: on && self.is_mariadb(),
            ..self
        }
    }

    /// Whether it is MariaDB.
    pub fn is_mariadb(self) -> bool {
        self.server != Server::MySql97
    }

    /// Whether `NOW()` is described as a `TIMESTAMP` (since 11.7; seen on 11.8).
    pub fn clock_is_timestamp(self) -> bool {
        self.server == Server::MariaDb118
    }

    /// Whose SQL it speaks.
    pub fn dialect(self) -> Dialect {
        match self.server {
            Server::MySql97 => Dialect::MySql,
            Server::MariaDb1011 | Server::MariaDb118 => Dialect::MariaDb,
        }
    }

    /// What `VERSION()` says.
    pub fn version(self) -> &'static str {
        match self.server {
            Server::MySql97 => "9.7.4",
            Server::MariaDb1011 => "10.11.19-MariaDB",
            Server::MariaDb118 => "11.8.9-MariaDB",
        }
    }

    /// The collation of columns that name none.
    pub fn collation(self) -> Collation {
        Collation::default_of(self.dialect())
    }

    /// How waiting requests are granted.
    pub fn grants(self) -> Grants {
        if self.is_mariadb() {
            Grants::Fifo
        } else {
            Grants::ContentionAware
        }
    }

    /// See [`TieBreak`].
    pub fn tie_break(self) -> TieBreak {
        if self.is_mariadb() {
            TieBreak::First
        } else {
            TieBreak::Last
        }
    }

    /// A transaction that holds a lock may strengthen it past those who wait for that lock. MariaDB
    /// 10.11 lets it queue behind them, which is a deadlock at once.
    pub fn upgrade_passes_waiters(self) -> bool {
        self.server != Server::MariaDb1011
    }

    /// `UPDATE` and `DELETE` compute a derived table inside a sub-select when the first row is tested: its
    /// value is not known when the way to the rows is chosen.
    pub fn derives_late(self) -> bool {
        self.is_mariadb()
    }

    /// `UPDATE` and `DELETE` of one table test `IN (SELECT ..)` row by row, and do not look rows up by it.
    pub fn tests_subselects_by_row(self) -> bool {
        self.server == Server::MariaDb1011
    }

    /// Locking a record that one has written oneself makes its implicit lock explicit.
    pub fn own_record_becomes_explicit(self) -> bool {
        !self.is_mariadb()
    }

    /// The check for duplicates of a plain `INSERT` locks the record behind the equal ones as a gap only.
    pub fn spares_next_key(self) -> bool {
        !self.is_mariadb()
    }

    /// REPEATABLE READ: an equality on all columns of a unique secondary index locks the record
    /// without the gap before it.
    pub fn unique_secondary_without_gap(self) -> bool {
        !self.is_mariadb()
    }

    /// REPEATABLE READ: on the clustered index, the first record past the end of a range is locked as
    /// a gap only, and not at all if the end itself was met.
    pub fn clustered_range_end_is_gap(self) -> bool {
        !self.is_mariadb()
    }

    /// READ COMMITTED gives back locks of records that do not match also when the scan is through a
    /// secondary index.
    pub fn releases_on_secondary_scans(self) -> bool {
        !self.is_mariadb()
    }

    /// Undoing inserts inside a transaction that stays open leaves gap locks where the records
    /// were (above READ COMMITTED).
    pub fn partial_rollback_leaves_gaps(self, level: Isolation) -> bool {
        !self.is_mariadb() && level > Isolation::ReadCommitted
    }

    /// UPDATE at READ COMMITTED looks at the committed version of a locked row before it waits.
    pub fn reads_semi_consistently(self, level: Isolation) -> bool {
        level <= Isolation::ReadCommitted && !self.snapshot_isolation
    }

    /// Touching a record that is newer than the read view is error 1020. Below REPEATABLE READ that is a
    /// view which the statement itself opened, by reading another table (or the same one) consistently
    /// first.
    pub fn checks_snapshot(self) -> bool {
        self.snapshot_isolation
    }

    /// Locking reads and changes open the read view as well.
    pub fn locking_read_opens_view(self, level: Isolation) -> bool {
        self.snapshot_isolation && level == Isolation::Serializable
    }

    /// A record past the end of a range that is read backwards is looked up in the clustered index.
    pub fn looks_up_past_reverse(self) -> bool {
        self.is_mariadb()
    }

    /// A whole small table is read through an index that has the wanted order for any `LIMIT`; otherwise for
    /// that of one row, and more rows are sorted.
    pub fn sorts_by_index_for_any_limit(self) -> bool {
        self.server == Server::MariaDb118
    }

    /// Which of equal rows a query that sorts for the sake of a limit gives first. MySQL sorts a few rows as
    /// they were found; for more of them it has a queue as well, if it thinks that they are many.
    pub fn ties(self) -> Ties {
        match self.server {
            Server::MySql97 => Ties::Found,
            Server::MariaDb1011 => Ties::Queue,
            Server::MariaDb118 => Ties::QueueByPosition,
        }
    }

    /// Which error a busy row is under `NOWAIT`.
    pub fn nowait_code(self) -> u16 {
        if self.is_mariadb() { 1205 } else { 3572 }
    }

    /// Whether `NOWAIT` holds for metadata locks as well.
    pub fn nowait_covers_metadata(self) -> bool {
        self.is_mariadb()
    }

    /// `REPLACE` changes a row in place, if its last unique index has the duplicate, even if other tables refer
    /// to it.
    pub fn replaces_parents_in_place(self) -> bool {
        !self.is_mariadb()
    }

    /// Foreign keys are checked before the row is written, not with the record of their index.
    pub fn checks_foreign_keys_first(self) -> bool {
        !self.is_mariadb()
    }

    /// Whether a row goes into the parents' locks of a cascade in shared mode (the child's index
    /// record), its row being locked when it is changed.
    pub fn cascade_reads_child_shared(self) -> bool {
        self.is_mariadb()
    }

    /// A row that `REPLACE` puts in the place of another one keeps its children where it has the
    /// same referenced key. MySQL 9.7 does so (foreign keys are those of the server, not of InnoDB:
    /// `innodb_native_foreign_keys` is off); MariaDB deletes the old row and all that depends on it.
    pub fn keeps_children_of_replaced(self) -> bool {
        !self.is_mariadb()
    }

    /// Whether a variable that one of the products has exists here: MariaDB got the names of MySQL for
    /// the characteristics of transactions with 11.1.
    pub fn has_variable(self, name: &str) -> bool {
        match name {
            "transaction_isolation" | "transaction_read_only" => self.server != Server::MariaDb1011,
            _ => true,
        }
    }

    /// `CREATE TABLE .. SELECT .. FOR UPDATE` is refused.
    pub fn refuses_locking_source(self) -> bool {
        !self.is_mariadb()
    }

    /// Setting the variable leaves a warning that a later version will not have it.
    pub fn deprecates_variable(self, name: &str) -> bool {
        !self.is_mariadb() && name == "binlog_format"
    }

    /// The least and the greatest `innodb_lock_wait_timeout`, in seconds.
    pub fn row_timeout_range_s(self) -> (i64, i64) {
        if self.is_mariadb() {
            (0, 100_000_000)
        } else {
            (1, 1_073_741_824)
        }
    }

    /// The least and the greatest `lock_wait_timeout`, in seconds.
    pub fn metadata_timeout_range_s(self) -> (i64, i64) {
        if self.is_mariadb() {
            (0, 31_536_000)
        } else {
            (1, 31_536_000)
        }
    }

    /// `lock_wait_timeout` (metadata locks), in seconds.
    pub fn metadata_timeout_s(self) -> i64 {
        if self.is_mariadb() {
            86_400
        } else {
            31_536_000
        }
    }

    /// The longest name of a user lock: in characters on MySQL, in bytes on MariaDB.
    pub fn user_lock_name_limit(self) -> usize {
        if self.is_mariadb() { 192 } else { 64 }
    }

    /// The read of a data-dictionary view is a consistent read.
    pub fn dictionary_is_transactional(self) -> bool {
        !self.is_mariadb()
    }

    /// Ranges of an index are read through it even if they have all rows of the table.
    pub fn reads_ranges_of_all_rows(self) -> bool {
        self.server != Server::MariaDb1011
    }

    /// What is said of a view that is not there: number and message.
    pub fn unknown_view(self, database: &str, name: &str) -> (u16, String) {
        if self.is_mariadb() {
            (4092, format!("Unknown VIEW: '{database}.{name}'"))
        } else {
            (1051, format!("Unknown table '{database}.{name}'"))
        }
    }

    /// `DROP TABLE IF EXISTS` leaves one note for all tables that are not there.
    pub fn tells_missing_tables_at_once(self) -> bool {
        self.is_mariadb()
    }

    /// The stage of the session that reads the process list.
    pub fn reading_stage(self) -> &'static str {
        if self.is_mariadb() {
            "Filling schema table"
        } else {
            "executing"
        }
    }

    /// The stage of a query that waits for a row.
    pub fn locking_read_stage(self) -> &'static str {
        if self.is_mariadb() {
            "Sending data"
        } else {
            "executing"
        }
    }

    /// The stage of an insert that waits for a row.
    pub fn inserting_stage(self) -> &'static str {
        if self.is_mariadb() {
            "Update"
        } else {
            "update"
        }
    }

    /// The stage of an update that waits for a row.
    pub fn updating_stage(self) -> &'static str {
        if self.is_mariadb() {
            "Updating"
        } else {
            "updating"
        }
    }

    /// The stage of a delete that waits for a row.
    pub fn deleting_stage(self) -> &'static str {
        if self.is_mariadb() {
            "Updating"
        } else {
            "updating"
        }
    }

    /// The lock list shows which records are marked as deleted.
    pub fn shows_delete_marks(self) -> bool {
        self.is_mariadb()
    }
}
