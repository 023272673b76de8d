//! Live servers: sessions over sqlx, throwaway servers, and a stage on which schedules are run.
//!
//! * [`RealSession`] and [`RealHost`] are the seam of `rowlock-model` on a real server and tokio.
//! * [`server`] starts servers that are gone when dropped.
//! * [`LiveBench`] runs PostgreSQL's isolation specs.
//! * [`RealStage`] runs schedules: it knows, by asking the server, which session is blocked.
//!
//! Nothing here runs against a database that is not ours or not marked as disposable (see
//! [`Target`]), and no message repeats a password.

mod bench;
mod directory;
mod error;
mod host;
mod iso;
mod mysql;
mod postgres;
pub mod server;
mod session;
mod sqlite;
mod stage;
mod statement;
mod tap;
mod target;

pub use bench::LiveBench;
pub use error::UrlError;
pub use host::{RealHost, RealTask};
pub use mysql::MySqlTarget;
pub use postgres::PostgresTarget;
pub use session::RealSession;
pub use sqlite::{Journal, SqliteTarget};
pub use stage::{DeadlockTimeouts, RealStage};
pub use target::{Connector, Target, TargetError};
