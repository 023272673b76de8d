//! What an engine offers to the executor ([`super::run`]).
//!
//! # PROTOCOL
//!
//! Before a `SELECT`, `UPDATE` or `DELETE` reads its tables, [`Storage::choose`] is asked once for each
//! execution of its [`Source`]: in which order entries are joined, and how each is reached. Then, for
//! every entry and every combination of the entries before it:
//!
//! ```text
//! cursor = open(scan)                        bounds are evaluated
//! loop {
//!     candidate = next(cursor)?              locked as the scan says, or tentative
//!     the conjuncts that can be decided now are evaluated on the candidate
//!     if they fail: reject(cursor)           READ COMMITTED gives the lock back here
//!     else if tentative:
//!         row = confirm(cursor)?             locks, may wait; the newest version
//!         and the conjuncts are evaluated again on it
//!     the row goes on
//! }
//! ```
//!
//! A candidate is *tentative* when the engine shows a version that it has not locked: InnoDB's
//! semi-consistent read shows the last committed version of a row that another transaction has locked.
//! Whoever stops early ([`LIMIT`], `EXISTS`) does not call `next` again; nothing is locked ahead.
//!
//! # WAITING
//!
//! Every call may return [`Stop::Wait`]. The executor then returns at once, without calling anything
//! else, and the engine runs the same plan again when the wait is over. The executor is deterministic:
//! it makes the same calls with the same arguments as long as it gets the same answers. An engine that
//! keeps a journal of the answers of a statement (also of [`Host`] calls) can therefore answer the
//! repeated calls from it and go on live where it stopped.
//!
//! [`LIMIT`]: super::query::Query::limit

use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use rowlock_model::{DbError, Row, Value};

use super::catalog::{ConflictAction, Table, VirtualTable};
use super::expr::HostFunction;
use super::plan::{Upsert, UpsertTarget};
use super::query::{LockClause, RangeEntry, SortKey, Source};
use crate::trace::Condition;

/// Why a statement did not go on.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// It has to wait; the engine knows for what.
    Wait,
    /// It failed. What that undoes is the engine's matter.
    Error(Box<DbError>),
}

impl From<DbError> for Stop {
    fn from(error: DbError) -> Stop {
        Stop::Error(Box::new(error))
    }
}

/// A row of a stored table.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRow<R> {
    /// How the engine finds it again.
    pub id: R,
    /// Its values, one a column.
    pub values: Row,
    /// Its rowid (SQLite); 0 where there is none.
    pub rowid: i64,
}

/// What a scan gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<R> {
    /// The row.
    pub row: StoredRow<R>,
    /// It is not locked yet: see the protocol in [the module](self).
    pub tentative: bool,
}

/// What a statement does with the rows of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A query, or an entry that is only read.
    Read,
    /// `UPDATE` of the entry.
    Update,
    /// `DELETE` from the entry.
    Delete,
}

/// In what a source is read; decides about locks of entries without a locking clause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Around {
    /// Inside a statement that changes data: its own source, or a sub-select of it.
    pub in_write: bool,
    /// Inside `SET @x = (SELECT ..)` or another statement that is no query.
    pub in_set: bool,
    /// Inside a sub-select or derived table, that many levels.
    pub depth: u32,
}

/// A source about to be read.
#[derive(Debug)]
pub struct SourcePlan<'p> {
    /// It.
    pub source: &'p Source,
    /// What happens to each entry.
    pub purposes: &'p [Purpose],
    /// For each entry and each of its [`RangeEntry::conditions`]: the values of the operands, if the
    /// condition is constant.
    pub constants: &'p [Vec<Option<Vec<Value>>>],
    /// `ORDER BY`, if the rows are wanted in an order and nothing (grouping, distinct, windows) stands
    /// between; keys over [`super::query::SortBy::Target`] are resolved to their expressions.
    pub order: &'p [SortKey],
    /// `LIMIT` plus `OFFSET`, if rows beyond are not wanted and nothing but the order stands between.
    pub limit: Option<u64>,
    /// Where it stands.
    pub around: Around,
}

/// How a source is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The entries in the order in which they are joined: each once. Entries on the inner side of an
    /// outer join must come after those on its outer side.
    pub order: Vec<usize>,
    /// How each entry is reached, by its number in the range table. Ignored for entries that are no
    /// stored tables.
    pub access: Vec<Access>,
    /// Rows come in the order that [`SourcePlan::order`] asks for: no sort is needed, and reading may
    /// stop at the limit.
    pub sorted: bool,
    /// The conditions exclude each other: no table is looked at.
    pub impossible: bool,
}

/// How the rows of a stored table are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Through which index: a position in [`Table::indexes`], `None` for the rowid tree of SQLite or
    /// a hidden clustered index.
    pub index: Option<usize>,
    /// The conditions that bound the scan: positions in [`RangeEntry::conditions`]. Empty for a scan of
    /// the whole index.
    pub conditions: Vec<usize>,
    /// Backwards.
    pub reverse: bool,
    /// The rows are looked up in the clustered index as well; otherwise the index covers the query.
    pub lookup: bool,
}

impl Access {
    /// Every row, in the order of the table.
    pub fn all() -> Access {
        Access {
            index: None,
            conditions: Vec::new(),
            reverse: false,
            lookup: true,
        }
    }
}

/// A scan about to be opened.
#[derive(Debug)]
pub struct Scan<'p> {
    /// The entry in the range table.
    pub entry: &'p RangeEntry,
    /// Its number.
    pub number: usize,
    /// Its table.
    pub table: &'p Arc<Table>,
    /// How it is reached, as [`Storage::choose`] said.
    pub access: &'p Access,
    /// The values of the operands of each condition in [`Access::conditions`]; a NULL operand of a
    /// comparison other than [`super::query::KeyOp::Is`] matches nothing.
    pub bounds: Vec<Vec<Value>>,
    /// What happens to its rows.
    pub purpose: Purpose,
    /// The locking clause that covers it.
    pub lock: Option<LockClause>,
    /// Where it stands.
    pub around: Around,
}

/// How an inserted row went.
#[derive(Clone, Debug, PartialEq)]
pub enum Inserted<R> {
    /// It is there, with the values as stored (the automatic number filled in).
    Done(StoredRow<R>),
    /// A constraint refused it, and the action says to skip it.
    Skipped,
    /// Rows were in the way and are deleted; the row is there. The number of rows deleted.
    Replaced(StoredRow<R>, u64),
    /// A unique index has an equal row, which an upsert clause handles: the clause's number, and the
    /// row in the way, locked.
    Conflict(usize, StoredRow<R>),
}

/// A row to be inserted.
#[derive(Clone, Debug)]
pub struct NewRow {
    /// Its values, converted to the columns' types. A NULL in an automatic column asks for a number.
    pub values: Vec<Value>,
    /// The rowid that was asked for (SQLite).
    pub rowid: Option<i64>,
}

/// The rows of an engine.
pub trait Storage: Host {
    /// What names a stored row.
    type RowId: Clone + Debug + PartialEq;
    /// The position of a scan.
    type Cursor: Debug;

    /// Whether somebody wants to know what is read.
    fn is_traced(&self) -> bool {
        false
    }

    /// A scan gives what passes `condition`.
    fn trace_scan(&mut self, _: &Self::Cursor, _: &Arc<Table>, _condition: Rc<Condition>) {}

    /// A row that a scan gave has passed.
    fn trace_read(&mut self, _: &Arc<Table>, _row: &Row) {}

    /// Decides how a source is read.
    ///
    /// # Errors
    /// What the server says of a hint that cannot be followed.
    fn choose(&mut self, plan: &SourcePlan<'_>) -> Result<Choice, Stop>;

    /// Begins a scan.
    ///
    /// # Errors
    /// Those of the server; waits.
    fn open(&mut self, scan: &Scan<'_>) -> Result<Self::Cursor, Stop>;

    /// The next row.
    ///
    /// # Errors
    /// Those of the server; waits.
    fn next(&mut self, cursor: &mut Self::Cursor) -> Result<Option<Candidate<Self::RowId>>, Stop>;

    /// The candidate that `next` gave last did not pass the conditions.
    ///
    /// # Errors
    /// Those of the server.
    fn reject(&mut self, cursor: &mut Self::Cursor) -> Result<(), Stop>;

    /// The tentative candidate that `next` gave last passed: it is locked now. `None` if it is gone.
    ///
    /// # Errors
    /// Those of the server; waits.
    fn confirm(
        &mut self,
        cursor: &mut Self::Cursor,
    ) -> Result<Option<StoredRow<Self::RowId>>, Stop>;

    /// Inserts a row. `or` is the action of the statement, `upserts` its clauses in order.
    ///
    /// # Errors
    /// Constraints that refuse; waits.
    fn insert(
        &mut self,
        table: &Arc<Table>,
        row: NewRow,
        or: Option<ConflictAction>,
        upserts: &[Upsert],
    ) -> Result<Inserted<Self::RowId>, Stop>;

    /// Gives a row new values. `changed` are the columns that were assigned, rowid changes come as
    /// `rowid`. `None` if a constraint refused and the action says to skip the row.
    ///
    /// # Errors
    /// Constraints that refuse; waits.
    fn update(
        &mut self,
        table: &Arc<Table>,
        row: &StoredRow<Self::RowId>,
        new: NewRow,
        changed: &[usize],
        or: Option<ConflictAction>,
    ) -> Result<Option<StoredRow<Self::RowId>>, Stop>;

    /// Deletes a row; `false` if a constraint refused and `ignore` says to skip it.
    ///
    /// # Errors
    /// Constraints that refuse; waits.
    fn delete(
        &mut self,
        table: &Arc<Table>,
        row: &StoredRow<Self::RowId>,
        ignore: bool,
    ) -> Result<bool, Stop>;

    /// The newest version of a row that this statement may have changed since it was read; `None` if
    /// it is gone.
    fn reread(
        &mut self,
        table: &Arc<Table>,
        row: &StoredRow<Self::RowId>,
    ) -> Option<StoredRow<Self::RowId>>;

    /// All rows of a view of the engine.
    ///
    /// # Errors
    /// `unsupported`.
    fn virtual_rows(&mut self, table: &VirtualTable) -> Result<Vec<Row>, Stop>;

    /// A constraint with this action refused a row; gives what the statement ends with. SQLite
    /// decides by the action what is undone.
    fn refuse(&mut self, _action: ConflictAction, error: DbError) -> Stop {
        error.into()
    }

    /// Whether rows of an update or delete of `table` must all be found before the first is changed,
    /// because the change moves rows within what is scanned. `changed` are the assigned columns.
    fn collect_first(&self, table: &Table, access: &Access, changed: &[usize]) -> bool;

    /// How a query that sorts one table for the sake of a limit treats equal rows.
    fn ties(&self) -> Ties {
        Ties::Found
    }

    /// Whether an update or delete that sorts for the sake of a limit takes equal rows by
    /// [`Storage::position`].
    fn writes_by_position(&self) -> bool {
        false
    }

    /// Where a row stands, as the sort sees it: bytes that are compared.
    fn position(&self, _table: &Arc<Table>, _row: &StoredRow<Self::RowId>) -> Vec<u8> {
        Vec::new()
    }
}

/// Which of equal rows a sort gives first, if only the first rows are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The one that was found first.
    #[default]
    Found,
    /// Those that a queue of the first rows keeps, in the order of their places in it (MariaDB 10.11).
    Queue,
    /// Those that such a queue keeps, by [`Storage::position`] (MariaDB 11.8).
    QueueByPosition,
}

/// What expressions ask of the session and the server.
pub trait Host {
    /// The value of `?`, numbered from 0.
    ///
    /// # Errors
    /// It is missing.
    fn param(&self, index: usize) -> Result<Value, Stop>;

    /// Calls a function of the server.
    ///
    /// # Errors
    /// Those of the function; waits.
    fn call(&mut self, function: HostFunction, args: &[Value]) -> Result<Value, Stop>;

    /// `@name`.
    fn user_variable(&mut self, name: &str) -> Value;

    /// `@name := value`.
    fn set_user_variable(&mut self, name: &str, value: Value);

    /// `@@name`.
    ///
    /// # Errors
    /// It does not exist.
    fn system_variable(&mut self, name: &str, global: bool) -> Result<Value, Stop>;

    /// A warning of the statement (MySQL); others ignore it.
    fn warn(&mut self, code: u16, message: String);

    /// Whether invalid values are errors when stored (MySQL's strict mode, without `IGNORE`).
    fn is_strict(&self) -> bool;
}

impl UpsertTarget {
    /// Whether a clause with this target handles a duplicate in `index` (`None`: of the rowid).
    pub fn handles(self, index: Option<usize>) -> bool {
        match self {
            UpsertTarget::Any => true,
            UpsertTarget::Index(mine) => index == Some(mine),
            UpsertTarget::Rowid => index.is_none(),
        }
    }
}
