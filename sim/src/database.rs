//! What the explorer sees of a simulated database server.
//!
//! The server is a value that changes only through the calls of [`Database`], can be put back
//! to an earlier [`Mark`], and knows its own canonical fingerprint and the footprint of its last
//! step. Everything above it (processes, clients, faults, budgets) belongs to the explorer.

use std::sync::Arc;

use rowlock_model::schedule::{Granularity, SessionId};
use rowlock_model::{Batch, DbError, Dialect, Isolation, Reply, Row, Value};

use crate::trace::Tracer;
pub use crate::world::Renaming;

/// A position in the undo log of a [`Database`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub usize);

/// A statement text that was prepared once; cheap to copy and to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementId(pub u32);

/// What a session is asked to run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// One prepared statement with its arguments.
    Exec(StatementId, Arc<[Value]>),
    /// A script sent as one message: implicit transaction rules of the server apply.
    Batch(Arc<str>),
}

/// The answer to a [`Request`], of the matching kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To [`Request::Exec`].
    Exec(Result<Reply, DbError>),
    /// To [`Request::Batch`]; `Err` only when the connection is gone.
    Batch(Result<Batch, DbError>),
}

impl Answer {
    /// The error, of the statement or of the script.
    pub fn error(&self) -> Option<&DbError> {
        match self {
            Answer::Exec(Err(error)) | Answer::Batch(Err(error)) => Some(error),
            Answer::Batch(Ok(batch)) => batch.error.as_ref(),
            Answer::Exec(Ok(_)) => None,
        }
    }
}

/// How far a session got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request is answered; the session is idle, or gone after a fatal error.
    Done(Answer),
    /// The session waits; it may appear in [`Database::pending`] later.
    Waits,
    /// The session pauses before a row lock ([`Granularity::Row`]); it can go on at any time.
    Pauses,
}

/// What became of a request, where the server may answer by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is answered, without an error, with what [`Database::known_answer`] has under this number.
    Known(u32),
    /// Anything else.
    Other(Progress),
}

/// Something that the server may do by itself, without a client asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Internal {
    /// A waiting session was granted what it waits for and goes on. Several at once: open order.
    Resume(SessionId),
    /// A session that pauses before a row lock goes on. What comes next is open: nothing has to.
    Continue(SessionId),
    /// A pooler in front of the server gives the transaction of this session one of its server
    /// connections, by its place from 0.
    Route(SessionId, u8),
    /// The deadlock check of a waiting session would find a cycle through itself now.
    Deadlock(SessionId),
    /// A server timer of this session is due at the present time.
    Expire(SessionId),
}

/// Why a session waits, for schedules and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The session that waits.
    pub session: SessionId,
    /// The sessions that it waits for, ascending, as `pg_blocking_pids` would give them.
    pub blockers: Vec<SessionId>,
    /// What it waits on, for a person: `row job (0,1)`, `transaction of session 2`, `advisory 7`.
    pub object: String,
    /// Granted already, but not yet resumed.
    pub granted: bool,
}

/// Where a session pauses, for schedules and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The session.
    pub session: SessionId,
    /// The row that it will lock next, for a person: `job (0,1)`.
    pub before: String,
}

/// The objects that one step read and wrote, as 64-bit names. Two steps of different sessions that
/// do not conflict commute: same state, same answers, same footprints.
///
/// Names below [`Footprint::SHARED_BELOW`] are things of the whole server (the order of commits, the
/// clock, the schema) that everybody writes: two processes that meet there do not contend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Footprint {
    /// Objects read, ascending, without those written.
    pub reads: Vec<u64>,
    /// Objects written, ascending.
    pub writes: Vec<u64>,
}

impl Footprint {
    /// See [`Footprint`].
    pub const SHARED_BELOW: u64 = 10;

    /// Whether the two steps depend on each other.
    pub fn conflicts(&self, other: &Footprint) -> bool {
        intersects(&self.writes, &other.writes)
            || intersects(&self.writes, &other.reads)
            || intersects(&self.reads, &other.writes)
    }
}

fn intersects(a: &[u64], b: &[u64]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => return true,
        }
    }
    false
}

/// Whether the order in which tables keep their rows counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowOrder {
    /// It is part of the state.
    #[default]
    Counts,
    /// So it is, and the server notes of which tables some program has seen it.
    Watched,
    /// It is part of the state only of tables of which some program has seen it.
    Hidden,
    /// It is no part of the state, whoever sees it. Wrong, for tests that must then fail.
    Ignored,
}

/// One simulated database server. Sessions are numbered from 0 in the order of [`connect`](Self::connect).
pub trait Database: Clone {
    /// Which product this behaves like.
    fn dialect(&self) -> Dialect;

    /// Opens a session whose default isolation level is `isolation` (the server's default if `None`).
    fn connect(&mut self, isolation: Option<Isolation>) -> SessionId;

    /// The client of a session says its name while it connects (PostgreSQL: `application_name`).
    /// Servers that know no such thing ignore it.
    fn name_client(&mut self, _session: SessionId, _name: &str) {}

    /// A client connects: [`connect`](Self::connect) and [`name_client`](Self::name_client). Behind a
    /// pooler this is a session of the pooler.
    fn connect_client(&mut self, isolation: Option<Isolation>, name: &str) -> SessionId {
        let session = self.connect(isolation);
        self.name_client(session, name);
        session
    }

    /// Clients that connect from now on do so through a pooler with so many server connections;
    /// 0: directly. Before the first client connects.
    ///
    /// # Errors
    /// There is no pooler in front of this server.
    fn pool(&mut self, size: u8) -> Result<(), DbError> {
        match size {
            0 => Ok(()),
            _ => Err(DbError::unsupported(
                format!("a pooler in front of {}", self.dialect()),
                None,
            )),
        }
    }

    /// Server connections of the pooler in front of this server; 0: there is none.
    fn pool_size(&self) -> u8 {
        0
    }

    /// Whether the footprints of this engine were shown to be whole: random programs come to the same
    /// ends with and without leaving out what commutes. Unless they were, the explorer does not rely
    /// on them and tries every order.
    fn footprints_are_shown(&self) -> bool {
        false
    }

    /// Somebody may look at the server's own views (locks, sessions) at any time: from now on the
    /// server keeps what they show. Not undone. A database that keeps it anyway, or prepares texts
    /// that look at views, needs no telling.
    fn keep_views(&mut self) {}

    /// Prepares a text: parsed once, planned when first run and again when the catalogue changes.
    /// Unsupported or wrong texts are accepted here and answered with their error when run, as a
    /// server would.
    fn prepare(&mut self, sql: &str) -> StatementId;

    /// The text that was prepared as `statement`.
    fn text(&self, statement: StatementId) -> Arc<str>;

    /// Whether a transaction block is open in a session: what it did so far is neither committed nor
    /// rolled back.
    fn has_transaction(&self, _session: SessionId) -> bool {
        false
    }

    /// What a session that has nothing to do any more keeps from others, for a person: an open
    /// transaction, locks of the session.
    fn leftovers(&self, _session: SessionId) -> Vec<String> {
        Vec::new()
    }

    /// The committed tables of users, each as a query may name it, in a fixed order; temporary ones
    /// left out.
    fn tables(&self) -> Vec<String> {
        Vec::new()
    }

    /// Where the server tells what statements read and write; `None` if it cannot tell.
    fn tracer(&mut self) -> Option<&mut Tracer> {
        None
    }

    /// Gives a request to an idle session and runs it until it is answered or waits. A session that
    /// is gone answers with the error that ended it.
    ///
    /// # Panics
    /// If the session is busy; the explorer must not do that.
    fn submit(&mut self, session: SessionId, request: &Request) -> Progress;

    /// As [`submit`](Self::submit). A server that gives few different answers may number them: whoever
    /// has seen a number before need not look at the answer again.
    fn submit_numbered(&mut self, session: SessionId, request: &Request) -> Submitted {
        Submitted::Other(self.submit(session, request))
    }

    /// The answer that was given by number.
    fn known_answer(&self, number: u32) -> Answer {
        unreachable!("this server numbers no answers, but {number} is asked for")
    }

    /// Carries out one internal event that [`pending`](Self::pending) listed.
    fn internal(&mut self, event: Internal) -> Progress;

    /// Everything that the server may do by itself now, ascending.
    fn pending(&self, out: &mut Vec<Internal>);

    /// Ends a session from the server's side: rollback, all its locks released, its request (if one
    /// is running or waiting) abandoned. Used for kills, and for clients whose loss is noticed.
    fn terminate(&mut self, session: SessionId);

    /// Whether the session has a request that is running or waiting.
    fn is_busy(&self, session: SessionId) -> bool;

    /// Whether the session is gone (terminated, or ended by a fatal error).
    fn is_gone(&self, session: SessionId) -> bool;

    /// Who waits for whom, ascending by session.
    fn waits(&self) -> Vec<Wait>;

    /// From now on statements pause, or do not pause, between two row locks. Not undone.
    ///
    /// # Errors
    /// The engine has no such points.
    fn set_granularity(&mut self, granularity: Granularity) -> Result<(), DbError> {
        match granularity {
            Granularity::Statement => Ok(()),
            Granularity::Row => Err(DbError::unsupported(
                format!("row granularity on {}", self.dialect()),
                None,
            )),
        }
    }

    /// Where sessions pause, ascending by session.
    fn pauses(&self) -> Vec<Pause> {
        Vec::new()
    }

    /// What the server told besides the last answer of a session, as a line (`mysql_info`); empty if
    /// nothing, `None` where that is not known.
    fn info(&self, session: SessionId) -> Option<String> {
        let _ = session;
        None
    }

    /// The server's clock: microseconds since 1970-01-01 00:00:00 UTC.
    fn now_micros(&self) -> i64;

    /// Moves the server's clock forward to `now_micros`.
    fn set_now_micros(&mut self, now_micros: i64);

    /// Instants after now at which something could change by time alone: server timers, and values
    /// of time-typed columns (a lease's expiry). Unsorted, may repeat.
    fn deadlines(&self, out: &mut Vec<i64>);

    /// Runs a query on the committed state as of now, outside every session. For properties.
    ///
    /// # Errors
    /// What the server would answer.
    fn query(&mut self, query: StatementId, args: &[Value]) -> Result<Vec<Row>, DbError> {
        // A session of its own that leaves no trace.
        let mark = self.mark();
        let session = self.connect(None);
        let progress = self.submit(session, &Request::Exec(query, args.into()));
        self.undo_to(mark);
        match progress {
            Progress::Done(Answer::Exec(result)) => Ok(result?.rows.to_vec()),
            Progress::Done(Answer::Batch(_)) => unreachable!("a statement was sent"),
            Progress::Waits | Progress::Pauses => Err(DbError::unsupported(
                "a property's query that waits for a lock",
                None,
            )),
        }
    }

    /// As [`query`](Self::query), for whoever asks only whether there is a row: the order of the rows
    /// does not count as seen.
    ///
    /// # Errors
    /// What the server would answer.
    fn find(&mut self, query: StatementId, args: &[Value]) -> Result<Vec<Row>, DbError> {
        self.query(query, args)
    }

    /// What the order of rows counts for from now on. Not undone; a server whose rows have no order
    /// but that of their keys, or that cannot tell who sees it, ignores it.
    fn set_row_order(&mut self, _order: RowOrder) {}

    /// See [`set_row_order`](Self::set_row_order).
    fn row_order(&self) -> RowOrder {
        RowOrder::Counts
    }

    /// A name for the committed state that [`query`](Self::query) can see: equal while no commit
    /// and no clock move happened. Lets a caller skip queries.
    fn committed_version(&self) -> u64;

    /// The present position in the undo log.
    fn mark(&self) -> Mark;

    /// Puts everything back to `mark`, sessions opened since included. Prepared texts stay.
    fn undo_to(&mut self, mark: Mark);

    /// The canonical fingerprint of the whole server state: equal for states that no client can
    /// tell apart (transaction ids by role, times relative to now where programs cannot see them).
    fn fingerprint(&mut self) -> u128;

    /// What the fingerprint would be if sessions had other numbers; `None` from a server that cannot
    /// tell, or in a state in which it cannot. Programs must not see the numbers then, nor anything
    /// that depends on them: see [`shows_sessions`](Self::shows_sessions).
    fn fingerprint_renamed(&mut self, _renaming: &Renaming) -> Option<u128> {
        None
    }

    /// A hash of how a session stands in the server, whatever numbers it and others have; `alone`
    /// gives it the number 1 and all others 0. The better it tells apart sessions that differ, the
    /// more symmetric states are recognised.
    fn session_colour(&mut self, _session: SessionId, _alone: &Renaming) -> u128 {
        0
    }

    /// Whether some text that was prepared or run may tell sessions apart by their numbers or the
    /// names of their clients.
    fn shows_sessions(&self) -> bool {
        true
    }

    /// Which rules the fingerprint and the footprints follow. It grows when a program turns out to
    /// see what programs normally cannot (a transaction id, say), and then what was recorded before
    /// is not to be compared with what is recorded after.
    fn rules_version(&self) -> u64 {
        0
    }

    /// Whether a timer of the server may end this session's statement, transaction or session at
    /// some time. A server that cannot tell says yes.
    fn has_timeouts(&self, _session: SessionId) -> bool {
        true
    }

    /// Forgets the recorded footprint and records from now on; call before a step.
    fn begin_footprint(&mut self);

    /// Stops recording: steps whose footprint nobody asks for should not pay for it.
    fn end_footprint(&mut self);

    /// The footprint recorded since [`begin_footprint`](Self::begin_footprint).
    fn footprint(&self) -> Footprint;
}
