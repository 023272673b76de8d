//! What the claim forms promise, by the names that checkers and scenario files use.

/// No row is claimed while a process that lives holds it: in the lease form, while the lease runs
/// by the clock of the claimer.
pub const ONE_LIVE_HOLDER: &str = "one live holder";

/// A settlement that takes effect is that of the process that claimed the row last.
pub const ONLY_THE_HOLDER_SETTLES: &str = "only the holder settles";

/// No row is finished twice.
pub const SETTLED_ONCE: &str = "settled once";

/// The first delivery reads attempt 1. In the lease form each claim adds one, crashes included; in
/// the row-lock form each retry does, and a crash adds nothing.
pub const ATTEMPTS_ARE_COUNTED: &str = "attempts are counted";

/// All of them.
pub const ALL: [&str; 4] = [
    ONE_LIVE_HOLDER,
    ONLY_THE_HOLDER_SETTLES,
    SETTLED_ONCE,
    ATTEMPTS_ARE_COUNTED,
];
