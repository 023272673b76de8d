//! How long an acquisition may wait.

use super::error::GuardError;

/// How long the guard waits for its lock, in whole milliseconds, rounded up. Never 0, which means
/// *for ever* to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Deadline(u32);

impl Default for Deadline {
    /// 30 seconds.
    fn default() -> Deadline {
        Deadline(30_000)
    }
}

impl Deadline {
    /// The shortest, in seconds.
    pub const SHORTEST_SECONDS: f64 = 0.001;
    /// The longest, in seconds.
    pub const LONGEST_SECONDS: f64 = 300.0;

    /// `seconds`, from 0.001 to 300 inclusive.
    ///
    /// # Errors
    /// [`GuardError::Deadline`]: outside of that, or no number. No connection is opened for it.
    pub fn from_seconds(seconds: f64) -> Result<Deadline, GuardError> {
        // Not a number is in no range.
        if !(Self::SHORTEST_SECONDS..=Self::LONGEST_SECONDS).contains(&seconds) {
            return Err(GuardError::Deadline);
        }
        let exact = seconds * 1000.0;
        let rounded = exact.round();
        // What is a whole number of milliseconds in decimals may be a hair above it in binary.
        let millis = match (exact - rounded).abs() < 1e-9 * rounded.max(1.0) {
            true => rounded,
            false => exact.ceil(),
        };
        Ok(Deadline(millis as u32))
    }

    /// In milliseconds.
    pub fn millis(self) -> u32 {
        self.0
    }

    /// Rounded down, for checkers: what is below a millisecond becomes 0.
    pub(super) fn floored(seconds: f64) -> Deadline {
        Deadline((seconds * 1000.0).floor() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_up_and_never_zero() {
        for (seconds, millis) in [
            (0.001, 1),
            (0.001_000_1, 2),
            (0.029, 29),
            (1.000_1, 1001),
            (29.999_9, 30_000),
            (300.0, 300_000),
            (30.0, 30_000),
        ] {
            assert_eq!(Deadline::from_seconds(seconds).unwrap().millis(), millis);
        }
        assert_eq!(Deadline::default().millis(), 30_000);
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for seconds in [
            0.0,
            -1.0,
            0.000_999,
            300.000_1,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            assert_eq!(Deadline::from_seconds(seconds), Err(GuardError::Deadline));
        }
        assert_eq!(Deadline::floored(0.0005).millis(), 0, "the mistake");
    }
}
