//! What the write paths promise to their callers, by the names that checkers and scenario files use.
//! What they promise of the tables is SQL, see the paths themselves.

/// A caller that asked for what another one makes at the same time is not told of it by an error.
pub const A_LOST_RACE_IS_INVISIBLE: &str = "a lost race is invisible";

/// Of several callers that make the same thing, one believes to have made it.
pub const ONE_CREATOR: &str = "one creator";

/// What was acknowledged to the caller is stored.
pub const ACKNOWLEDGED_IS_STORED: &str = "acknowledged is stored";

/// Nobody is told of what is not committed.
pub const TOLD_IS_STORED: &str = "told is stored";

/// All of them.
pub const ALL: [&str; 4] = [
    A_LOST_RACE_IS_INVISIBLE,
    ONE_CREATOR,
    ACKNOWLEDGED_IS_STORED,
    TOLD_IS_STORED,
];
