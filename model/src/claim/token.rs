//! What a settlement must match, and how long a lease is.

use std::time::Duration;

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// What makes a row of the lease form somebody's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TokenRule {
    /// A number that every claim counts up (the `fence` column, else the attempt column), in a row
    /// whose lease has not been given back. No two claims of a row ever have the same token, an
    /// extension does not change it, and so neither a repeated second, nor a clock that steps
    /// back, nor the lost reply of an extension can mistake one holder for another.
    #[default]
    Fenced,
    /// The end of the lease itself, a whole second. Needs no further column. Two claims within one
    /// second have the same token when the row was given back between them, and when the host's
    /// clock steps back: then one holder settles, or extends, what the other one holds.
    Expiry,
}

/// Whose clock says what is due, what is done, and when a lease ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The host's, read after the connection is had. Hosts whose clocks differ by more than half a
    /// lease take rows from one another.
    #[default]
    Host,
    /// The database server's, one clock for all. A lease only with [`TokenRule::Fenced`], because the
    /// client does not learn the end of the lease.
    Database,
}

/// A token: what one claim of a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The end of the lease as it was last written: microseconds since 1970-01-01 00:00:00 UTC.
    pub expiry_micros: i64,
    /// The fencing number, where the table has one.
    pub fence: Option<i64>,
}

impl Token {
    /// The token after an extension to `expiry_micros`.
    #[must_use]
    pub(super) fn extended(self, expiry_micros: i64) -> Token {
        Token {
            expiry_micros,
            ..self
        }
    }
}

/// The length of a lease: whole seconds, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseLength(i64);

impl Default for LeaseLength {
    fn default() -> LeaseLength {
        LeaseLength(30 * SECOND)
    }
}

impl LeaseLength {
    /// `length`, rounded up to whole seconds and to one at least.
    pub fn new(length: Duration) -> LeaseLength {
        let micros = i64::try_from(length.as_micros()).unwrap_or(i64::MAX / 2);
        LeaseLength(round_up(micros).max(SECOND))
    }

    /// The end of a lease taken at `now_micros`: rounded **up** to a whole second, because every
    /// column type for instants stores those exactly, so that the value read back is the value
    /// written.
    pub fn expiry(self, now_micros: i64) -> i64 {
        round_up(now_micros.saturating_add(self.0))
    }

    /// In microseconds.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Half of it: the period in which a held lease is extended.
    pub fn half(self) -> Duration {
        Duration::from_micros(self.0.unsigned_abs() / 2)
    }
}

/// The next whole second, or the same instant if it is one.
fn round_up(micros: i64) -> i64 {
    match micros.rem_euclid(SECOND) {
        0 => micros,
        rest => micros.saturating_add(SECOND - rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-30 12:00:00 UTC.
    const NOON: i64 = 1_796_040_000 * SECOND;

    #[test]
    fn the_end_of_a_lease_is_rounded_up_to_a_whole_second() {
        let lease = LeaseLength::default();
        assert_eq!(lease.expiry(NOON + 250_000), NOON + 31 * SECOND);
        assert_eq!(lease.expiry(NOON), NOON + 30 * SECOND);
        assert_eq!(lease.expiry(NOON + 1), NOON + 31 * SECOND);
        assert_eq!(lease.expiry(NOON - 1), NOON + 30 * SECOND);
        assert_eq!(lease.expiry(-1), 30 * SECOND);
    }

    #[test]
    fn a_lease_has_whole_seconds_and_one_at_least() {
        assert_eq!(LeaseLength::new(Duration::ZERO).as_micros(), SECOND);
        assert_eq!(
            LeaseLength::new(Duration::from_millis(1)).as_micros(),
            SECOND
        );
        assert_eq!(
            LeaseLength::new(Duration::from_millis(1_001)).as_micros(),
            2 * SECOND
        );
        assert_eq!(
            LeaseLength::new(Duration::from_secs(30)).half(),
            Duration::from_secs(15)
        );
    }
}
