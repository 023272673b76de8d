//! Statements about the session and its transaction (`BEGIN`, `SET`, `SAVEPOINT`, `LOCK TABLE`), and
//! those on the schema that the parser of data statements does not have.

use std::sync::Arc;

use rowlock_model::Isolation;

mod parse;
mod role;
mod sequence;
mod storage;

pub(super) use parse::parse;
pub(crate) use storage::boolean_parameter;

/// The transaction characteristics that a statement names; `None` is not mentioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes {
    /// `ISOLATION LEVEL`.
    pub isolation: Option<Isolation>,
    /// `READ ONLY` (true), `READ WRITE`.
    pub read_only: Option<bool>,
    /// `DEFERRABLE` (true), `NOT DEFERRABLE`.
    pub deferrable: Option<bool>,
}

/// The modes of table locks, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableLockMode {
    /// `ACCESS SHARE`.
    AccessShare,
    /// `ROW SHARE`.
    RowShare,
    /// `ROW EXCLUSIVE`.
    RowExclusive,
    /// `SHARE UPDATE EXCLUSIVE`.
    ShareUpdateExclusive,
    /// `SHARE`.
    Share,
    /// `SHARE ROW EXCLUSIVE`.
    ShareRowExclusive,
    /// `EXCLUSIVE`.
    Exclusive,
    /// `ACCESS EXCLUSIVE`.
    AccessExclusive,
}

/// What a setting is set to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// `DEFAULT`.
    Default,
    /// Values as written, without quotes; a list only where the statement has one.
    Values(Vec<Arc<str>>),
}

/// A relation as a control statement names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelationName {
    /// The schema, if written.
    pub schema: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
    /// Byte offset in the text.
    pub position: usize,
}

/// Which constraints `SET CONSTRAINTS` means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Constraints {
    /// `ALL`.
    All,
    /// By name.
    Named(Vec<Arc<str>>),
}

/// One change of `ALTER SEQUENCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SequenceChange {
    /// `AS`: an integer of so many bytes.
    Type(u8),
    /// `INCREMENT BY`.
    Increment(i64),
    /// `MINVALUE`; `None` is `NO MINVALUE`.
    Min(Option<i64>),
    /// `MAXVALUE`; `None` is `NO MAXVALUE`.
    Max(Option<i64>),
    /// `START WITH`.
    Start(i64),
    /// `RESTART`; `None` is at the start value.
    Restart(Option<i64>),
    /// `CYCLE`, `NO CYCLE`.
    Cycle(bool),
    /// `CACHE 1`.
    Cache,
}

/// What a role may do with a table (manual, 5.7 "Privileges").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Privilege {
    /// `SELECT`.
    Select,
    /// `INSERT`.
    Insert,
    /// `UPDATE`.
    Update,
    /// `DELETE`.
    Delete,
    /// `TRUNCATE`.
    Truncate,
    /// `REFERENCES`.
    References,
    /// `TRIGGER`.
    Trigger,
}

impl Privilege {
    /// Every one.
    pub const ALL: [Privilege; 7] = [
        Privilege::Select,
        Privilege::Insert,
        Privilege::Update,
        Privilege::Delete,
        Privilege::Truncate,
        Privilege::References,
        Privilege::Trigger,
    ];

    /// As it is written, in capitals.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::Select => "SELECT",
            Privilege::Insert => "INSERT",
            Privilege::Update => "UPDATE",
            Privilege::Delete => "DELETE",
            Privilege::Truncate => "TRUNCATE",
            Privilege::References => "REFERENCES",
            Privilege::Trigger => "TRIGGER",
        }
    }
}

/// A statement about the session and its transaction, or one that is read in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// `BEGIN` (tag `BEGIN`) or `START TRANSACTION` (tag `START TRANSACTION`).
    Begin {
        /// What it asks for.
        modes: Modes,
        /// Written as `START TRANSACTION`.
        start: bool,
    },
    /// `COMMIT`, `END`.
    Commit {
        /// `AND CHAIN`.
        chain: bool,
    },
    /// `ROLLBACK`, `ABORT`.
    Rollback {
        /// `AND CHAIN`.
        chain: bool,
    },
    /// `SAVEPOINT`.
    Savepoint(Arc<str>),
    /// `RELEASE [SAVEPOINT]`.
    Release(Arc<str>),
    /// `ROLLBACK TO [SAVEPOINT]`.
    RollbackTo(Arc<str>),
    /// `SET TRANSACTION`.
    SetTransaction(Modes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION`.
    SetCharacteristics(Modes),
    /// `SET [SESSION | LOCAL] name = value`.
    Set {
        /// `LOCAL`.
        local: bool,
        /// The name, lower case.
        name: Arc<str>,
        /// The value.
        value: Setting,
    },
    /// `RESET name`; `None` is `RESET ALL`.
    Reset(Option<Arc<str>>),
    /// `SHOW name`; `None` is `SHOW ALL`.
    Show(Option<Arc<str>>),
    /// `SET CONSTRAINTS .. DEFERRED | IMMEDIATE`.
    SetConstraints {
        /// Which.
        constraints: Constraints,
        /// `DEFERRED`.
        deferred: bool,
    },
    /// `LOCK TABLE`.
    LockTable {
        /// The tables.
        tables: Vec<RelationName>,
        /// The mode (`ACCESS EXCLUSIVE` if none is written).
        mode: TableLockMode,
        /// `NOWAIT`.
        nowait: bool,
    },
    /// `PREPARE TRANSACTION 'id'`.
    PrepareTransaction(Arc<str>),
    /// `COMMIT PREPARED 'id'`.
    CommitPrepared(Arc<str>),
    /// `ROLLBACK PREPARED 'id'`.
    RollbackPrepared(Arc<str>),
    /// `PREPARE name [(types)] AS statement`.
    Prepare {
        /// The name.
        name: Arc<str>,
        /// Names of the parameter types.
        types: Vec<Arc<str>>,
        /// The statement's text, and its byte offset.
        statement: Arc<str>,
        /// Where the statement begins in the text.
        offset: usize,
    },
    /// `EXECUTE name [(arguments)]`.
    Execute {
        /// The name.
        name: Arc<str>,
        /// The text of each argument, an expression without columns.
        args: Vec<Arc<str>>,
    },
    /// `DEALLOCATE name`; `None` is `ALL`.
    Deallocate(Option<Arc<str>>),
    /// `DISCARD ALL | PLANS | SEQUENCES | TEMP`, upper case.
    Discard(Arc<str>),
    /// `LISTEN channel`.
    Listen(Arc<str>),
    /// `UNLISTEN channel`; `None` is `*`.
    Unlisten(Option<Arc<str>>),
    /// `NOTIFY channel [, 'payload']`.
    Notify {
        /// The channel.
        channel: Arc<str>,
        /// The payload.
        payload: Arc<str>,
    },
    /// `ALTER SEQUENCE`.
    AlterSequence {
        /// The sequence.
        name: RelationName,
        /// `IF EXISTS`.
        if_exists: bool,
        /// What to change, in the order written.
        changes: Vec<SequenceChange>,
    },
    /// `ALTER INDEX .. SET (fastupdate = ..)`, or `RESET`, which sets the default.
    SetFastUpdate {
        /// The index.
        name: RelationName,
        /// `IF EXISTS`.
        if_exists: bool,
        /// On or off.
        on: bool,
    },
    /// `CREATE ROLE`, `CREATE USER`.
    CreateRole {
        /// Its name.
        name: Arc<str>,
        /// `SUPERUSER`.
        superuser: bool,
    },
    /// `DROP ROLE`, `DROP USER`.
    DropRoles {
        /// Their names.
        names: Vec<Arc<str>>,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `GRANT`, `REVOKE` of privileges on tables.
    Grant {
        /// `GRANT`.
        grants: bool,
        /// Which privileges.
        privileges: Vec<Privilege>,
        /// On which tables.
        tables: Vec<RelationName>,
        /// Whose.
        roles: Vec<Arc<str>>,
    },
    /// `ANALYZE`, `VACUUM`: the tables (empty: all).
    Maintain {
        /// `VACUUM`: not inside a transaction block.
        vacuum: bool,
        /// `VACUUM FULL`: rewrites the tables.
        full: bool,
        /// The tables.
        tables: Vec<RelationName>,
    },
}
