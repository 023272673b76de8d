//! The server under test, as the tester of `.spec` files needs it.

use rowlock_model::Notice;

use crate::stage::StageError;

/// A connection: 0 is for set-up and tear-down, the sessions of the file follow in their order.
pub type Seat = usize;

/// How a query stands when waiting for it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is answered.
    Finished,
    /// Another session under test blocks it.
    Blocked,
    /// It will never be answered, and nothing is left to wait for. Says why.
    Stuck(String),
}

/// Rows as text, as the simple protocol sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows; `None` is `NULL`.
    pub rows: Vec<Vec<Option<String>>>,
}

/// An error as the tester prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `ERROR`, `FATAL`.
    pub severity: String,
    /// The message.
    pub message: String,
    /// Not an answer of a server: the simulator does not model what was asked for.
    pub is_unsupported: bool,
}

/// What one message to the server was answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// The rows of each statement that returned any columns.
    pub tables: Vec<Table>,
    /// The error that ended it.
    pub error: Option<Refusal>,
}

/// A `NOTIFY` that reached a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The channel.
    pub channel: String,
    /// The payload; may be empty.
    pub payload: String,
    /// The connection that sent it; `Err` with its process id if it is none of ours.
    pub from: Result<Seat, i64>,
}

/// A server with a connection for set-up and one for each session, all kept for every permutation
/// of a file.
pub trait Bench {
    /// Starts with an empty database, and connects. `names` are the application names, one a seat.
    ///
    /// # Errors
    /// The server cannot be reached or used.
    fn open(&mut self, names: &[String]) -> Result<(), StageError>;

    /// A text that will be sent later, told before anything is sent: a simulated server keeps what
    /// only some texts can see.
    fn announce(&mut self, sql: &str) {
        let _ = sql;
    }

    /// A permutation begins, with the connections and the database as they are. `more`: it is not the
    /// last. A server that can tell that it has been here before may answer what it is sent from
    /// memory, as long as it is sent the same as then.
    fn begin(&mut self, more: bool) {
        let _ = more;
    }

    /// Sends a text as one message to a connection that has nothing to do.
    ///
    /// # Errors
    /// The connection is busy, or the server is lost.
    fn send(&mut self, seat: Seat, sql: &str) -> Result<(), StageError>;

    /// Waits for the answer to what was sent. With `patient`, time passes until it is there: server
    /// timers (deadlock check, timeouts) go off. Without, the wait also ends when the server says
    /// that another session under test blocks this one.
    ///
    /// # Errors
    /// The server is lost.
    fn wait(&mut self, seat: Seat, patient: bool) -> Result<Rest, StageError>;

    /// The answer, once it is there. May be asked for once.
    ///
    /// # Errors
    /// There is no answer.
    fn results(&mut self, seat: Seat) -> Result<Results, StageError>;

    /// Notices that the connection has received since the last call.
    fn notices(&mut self, seat: Seat) -> Vec<Notice>;

    /// Notifications that the connection has received since the last call.
    fn notifications(&mut self, seat: Seat) -> Vec<Notification>;
}
