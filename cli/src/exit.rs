//! Exit codes, and what leads to them.

use std::fmt;
use std::process::ExitCode;

use rowlock_reports::Diagnostic;

/// How a command ended. The numbers are documented in `rowlock --help` and in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Every expectation was met; every replay confirmed.
    Met = 0,
    /// A property is violated or another expectation is not met; a replay differs.
    NotMet = 1,
    /// The command line or a file is wrong.
    Usage = 2,
    /// The question was not answered: a limit was hit, or nothing contended.
    Open = 3,
    /// A server cannot be reached, started or used.
    Environment = 4,
}

impl Exit {
    /// The exit of two parts of a run: the one that says more. A wrong file or a missing server
    /// outweighs what was found with the rest, and a violation outweighs an open question.
    pub(crate) fn and(self, other: Exit) -> Exit {
        const WEIGHT: [Exit; 5] = [
            Exit::Usage,
            Exit::Environment,
            Exit::NotMet,
            Exit::Open,
            Exit::Met,
        ];
        let heavier = WEIGHT.into_iter().find(|e| *e == self || *e == other);
        heavier.unwrap_or(self)
    }

    /// For the operating system.
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// For the summary.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line makes no sense.
    Usage(String),
    /// Files are wrong; every problem that was found in them.
    Files(Vec<Diagnostic>),
    /// A server cannot be used.
    Environment(String),
    /// Writing a file failed.
    Io(String),
    /// Nobody reads standard output any more, which is no failure.
    BrokenPipe,
}

impl Failure {
    /// The exit that belongs to it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_) | Failure::Files(_) => Exit::Usage,
            Failure::Environment(_) | Failure::Io(_) => Exit::Environment,
            Failure::BrokenPipe => Exit::Met,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Environment(message) | Failure::Io(message) => {
                f.write_str(message)
            }
            Failure::Files(problems) => write!(f, "{} problems in files", problems.len()),
            Failure::BrokenPipe => f.write_str("nobody reads the output"),
        }
    }
}

/// An error of standard output.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Failure::BrokenPipe
        } else {
            Failure::Io(format!("standard output: {error}"))
        }
    }
}
