//! Deliberate mistakes in the guard, for checkers.

/// A mistake that is known from real code. **Never for production.**
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mutation {
    /// Round the deadline down: below a millisecond it becomes 0, which is *for ever*.
    FloorDeadline,
    /// Prove by taking the lock again without waiting: true whenever nobody else has it, so that a
    /// lost lock is quietly taken anew.
    ProveByLocking,
    /// Prove without looking whose lock it is: another session's will do.
    ProveWithoutPid,
    /// Prove without looking at the kind of key: a pair of integers with the same halves will do.
    ProveWithoutKind,
    /// Read the bytes of the key in the other order. Such writers exclude each other, and nobody
    /// else.
    SwappedKey,
    /// Read the schema before the guard is had: it describes what another writer changes meanwhile.
    SchemaBeforeGuard,
}

impl Mutation {
    /// Every mutation with the name that scenario files use.
    pub const NAMED: [(&'static str, Mutation); 6] = [
        ("floor-deadline", Mutation::FloorDeadline),
        ("prove-by-locking", Mutation::ProveByLocking),
        ("prove-without-pid", Mutation::ProveWithoutPid),
        ("prove-without-kind", Mutation::ProveWithoutKind),
        ("swapped-key", Mutation::SwappedKey),
        ("schema-before-guard", Mutation::SchemaBeforeGuard),
    ];
}
