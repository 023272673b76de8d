//! What the guard promises, by the names that checkers and scenario files use.

/// While sessions live, at most one process is between the acquisition and the release.
pub const ONE_WRITER: &str = "one writer";

/// A run that reports success was not overlapped by another holder of the guard.
pub const SUCCESS_WAS_ALONE: &str = "success was alone";

/// All of them.
pub const ALL: [&str; 2] = [ONE_WRITER, SUCCESS_WAS_ALONE];
