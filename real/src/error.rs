//! Errors of the driver as errors of the model. Nothing here may repeat a URL or a password.

use std::io;

use rowlock_model::{DbError, ErrorClass};

/// A connection URL that cannot be used. It never repeats the URL, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Not understood.
    #[error(
        "the connection URL cannot be understood; expected scheme://user:password@host:port/database"
    )]
    Malformed,
    /// TLS was asked for.
    #[error(
        "the connection URL asks for TLS, which is not supported; use a local server or a tunnel"
    )]
    Tls,
}

/// A failure below the protocol.
pub(crate) fn of_io(failure: io::Error) -> DbError {
    DbError::connection_lost(failure.to_string())
}

/// What sqlx reports when the server itself said nothing. Its configuration errors may quote what
/// was configured, so only their kind is passed on.
pub(crate) fn of_sqlx(failure: &sqlx::Error) -> DbError {
    match failure {
        sqlx::Error::Io(cause) => DbError::connection_lost(cause.to_string()),
        sqlx::Error::Protocol(_) => {
            DbError::connection_lost("the driver lost step with the server")
        }
        sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed => {
            DbError::connection_lost("the driver's worker is gone")
        }
        sqlx::Error::Configuration(_) => DbError::new(
            ErrorClass::Other,
            "08001",
            "the connection options are wrong",
        ),
        sqlx::Error::Tls(_) => DbError::new(ErrorClass::Other, "08001", "TLS is not supported"),
        sqlx::Error::Encode(cause) => DbError::new(ErrorClass::Invalid, "22023", cause.to_string()),
        other => DbError::new(ErrorClass::Other, "driver", other.to_string()),
    }
}
