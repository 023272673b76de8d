//! Deliberate mistakes, for checkers.

use std::str::FromStr;

/// A mistake that is known from real code, put into the claim library on request, so that a test
/// can show that the checker finds it. **Never for production**: every one of them loses rows or
/// gives one row to two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mutation {
    /// Lease form: settle by id alone. A late holder settles what somebody else holds by now.
    SettleWithoutToken,
    /// Lease form: extend by id alone. A late keeper extends what somebody else holds by now.
    ExtendWithoutToken,
    /// Lease form: claim rows whose lease still runs.
    ClaimWithoutLease,
    /// Lease form: choose the rows in a sub-select behind `IN` that has the limit. PostgreSQL may
    /// run the sub-select again for each row, and then claims more rows than the limit.
    LimitInSubquery,
    /// Lease form: choose the row in a sub-select without a lock, and do not repeat the condition
    /// in the update. Two claims choose the same row; the second one waits and then takes it too.
    PredicateOnlyInSubquery,
    /// Lease form: read the clock before the connection is had. A wait for a connection longer
    /// than the lease gives a lease that has ended before it begins.
    ClockBeforeConnection,
    /// Row-lock form: choose the rows without locking them.
    ClaimWithoutLock,
    /// Row-lock form: believe that `COMMIT` commits, whatever its answer.
    IgnoreCommitTag,
    /// FIFO queue: look for the head without a guard. A row inserted in front of a head in work is
    /// the next claimer's head.
    FifoWithoutGuard,
    /// FIFO queue on PostgreSQL: lock the name of the table as this service happens to spell it.
    FifoKeyAsDescribed,
    /// Advisory form: do not look again once the lock is had. The row may have been settled between
    /// the choice and the lock, and is taken again.
    TakeWithoutCheck,
    /// Advisory form: give the lock back before the settlement is stored.
    UnlockBeforeSettle,
    /// Advisory form: give the connection back to the pool whatever the unlock answered, or without
    /// unlocking at all where it fails.
    IgnoreUnlock,
}

impl Mutation {
    /// Every mutation with the name that scenario files use.
    pub const NAMED: [(&'static str, Mutation); 13] = [
        ("settle-without-token", Mutation::SettleWithoutToken),
        ("extend-without-token", Mutation::ExtendWithoutToken),
        ("claim-without-lease", Mutation::ClaimWithoutLease),
        ("limit-in-subquery", Mutation::LimitInSubquery),
        (
            "predicate-only-in-subquery",
            Mutation::PredicateOnlyInSubquery,
        ),
        ("clock-before-connection", Mutation::ClockBeforeConnection),
        ("claim-without-lock", Mutation::ClaimWithoutLock),
        ("ignore-commit-tag", Mutation::IgnoreCommitTag),
        ("fifo-without-guard", Mutation::FifoWithoutGuard),
        ("fifo-key-as-described", Mutation::FifoKeyAsDescribed),
        ("take-without-check", Mutation::TakeWithoutCheck),
        ("unlock-before-settle", Mutation::UnlockBeforeSettle),
        ("ignore-unlock", Mutation::IgnoreUnlock),
    ];

    /// The name that scenario files use.
    pub fn name(self) -> &'static str {
        Self::NAMED
            .iter()
            .find(|(_, mutation)| *mutation == self)
            .map_or("", |(name, _)| name)
    }
}

/// There is no such mutation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown mutation `{0}`")]
pub struct UnknownMutation(String);

impl FromStr for Mutation {
    type Err = UnknownMutation;

    fn from_str(name: &str) -> Result<Mutation, UnknownMutation> {
        Self::NAMED
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, mutation)| *mutation)
            .ok_or_else(|| UnknownMutation(name.to_owned()))
    }
}
