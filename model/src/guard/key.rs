//! The key of a configuration.

use sha2::{Digest, Sha256};

/// What stands in front of the configuration id when it is hashed.
const PREFIX: &str = "infrahub-sync:apply:v1:";

/// The advisory key of a configuration: the first eight bytes of the SHA-256 of a prefix and the
/// configuration's id, as a big-endian signed number. All versions of a configuration share it.
///
/// Every participant must derive it in this way; writers with different keys do not exclude each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(i64);

impl Key {
    /// The key of the configuration `id`.
    pub fn of(id: &str) -> Key {
        let mut hash = Sha256::new();
        hash.update(PREFIX.as_bytes());
        hash.update(id.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        Key(i64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The same bytes read in the wrong order, for checkers.
    pub(super) fn swapped(self) -> Key {
        Key(self.0.swap_bytes())
    }

    /// As the lock functions take it (`bigint`).
    pub fn value(self) -> i64 {
        self.0
    }

    /// As `pg_locks` shows it: `classid` is the high half, `objid` the low half, both unsigned.
    pub fn halves(self) -> (u32, u32) {
        let bits = self.0.cast_unsigned();
        ((bits >> 32) as u32, bits as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_every_other_participant() {
        for (id, key) in [
            ("", 3_890_624_961_464_930_541),
            ("alpha", -8_187_121_688_807_872_226),
            ("beta", 2_691_780_931_179_434_137),
            ("netbox-to-infrahub", -5_804_123_439_392_766_355),
            ("0", -5_102_868_248_911_540_112),
            (
                "01931f5c-6f4e-7a3b-9c2d-8e1f0a2b3c4d",
                -6_484_595_175_589_399_321,
            ),
            ("é-uniçode", 1_950_900_642_927_055_419),
            ("guard-integration-alpha", -2_161_056_473_457_444_919),
            ("guard-integration-beta", -2_624_437_274_915_816_768),
        ] {
            assert_eq!(Key::of(id).value(), key, "{id}");
        }
    }

    #[test]
    fn pg_locks_shows_unsigned_halves() {
        assert_eq!(Key::of("alpha").halves(), (2_388_754_483, 2_243_291_422));
    }
}
