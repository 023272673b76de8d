//! 128-bit hashes of small records, made to be added up.

use std::hash::{BuildHasherDefault, Hasher};

/// The hash of three words. Sums of such hashes are compared, never the hashes alone, so both
/// halves go through a full finaliser (that of splitmix64, with two sets of constants).
#[inline(always)]
pub(crate) fn mix(tag: u64, a: u64, b: u64) -> u128 {
    let low = finish(
        a.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ b.wrapping_add(0xd1b5_4a32_d192_ed03)
                .wrapping_mul(0xaef1_7502_108e_f2d9)
                .rotate_left(29)
            ^ tag.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7).rotate_left(47),
    );
    let high = finish(
        a.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(17)
            ^ b.wrapping_add(0x2545_f491_4f6c_dd1d)
                .wrapping_mul(0xe703_7ed1_a0b4_28db)
            ^ tag.wrapping_mul(0xa076_1d64_78bd_642f).rotate_left(31),
    );
    u128::from(high) << 64 | u128::from(low)
}

#[inline(always)]
fn finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A fingerprint as a key: two words, so that entries of the visited table take no padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key([u64; 2]);

impl Key {
    /// No fingerprint's key.
    pub(crate) const NONE: Key = Key([0, 0]);

    /// A word in which keys differ evenly.
    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.0[0] ^ self.0[1].rotate_left(32)
    }

    /// The low and the high word.
    pub(crate) fn words(self) -> [u64; 2] {
        self.0
    }
}

impl From<u128> for Key {
    #[inline]
    fn from(fingerprint: u128) -> Key {
        match fingerprint {
            0 => Key([1, 0]),
            fingerprint => Key([fingerprint as u64, (fingerprint >> 64) as u64]),
        }
    }
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0] ^ self.0[1].rotate_left(32));
    }
}

/// Fingerprints are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only keys of fingerprints are hashed");
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// Builds [`Identity`].
pub(crate) type BuildIdentity = BuildHasherDefault<Identity>;
