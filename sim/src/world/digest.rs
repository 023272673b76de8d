//! 128-bit digests of objects.

use std::cell::{Cell, RefCell};
use std::hash::Hasher;

use rowlock_model::schedule::SessionId;

/// Other names for sessions, and for texts that name their clients. States that become equal when
/// their sessions are renamed differ in nothing but who is who.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renaming {
    /// Tells renamings apart, so that what is renamed can be remembered; 0 is not remembered.
    pub number: u32,
    /// The new number of each session; those beyond the end keep theirs.
    pub sessions: Vec<u8>,
    /// Texts that stand for others.
    pub texts: Vec<(std::sync::Arc<str>, std::sync::Arc<str>)>,
}

thread_local! {
    /// Whether digests rename; they are made in one place, deep below who decides it.
    static RENAMES: Cell<bool> = const { Cell::new(false) };
    static RENAMING: RefCell<Renaming> = RefCell::default();
}

impl Renaming {
    /// Whether a renaming is at work.
    pub(crate) fn is_active() -> bool {
        RENAMES.get()
    }

    /// Runs `digest`; whatever is digested in it is renamed.
    pub fn within<R>(&self, digest: impl FnOnce() -> R) -> R {
        RENAMING.with_borrow_mut(|renaming| renaming.clone_from(self));
        RENAMES.set(true);
        let result = digest();
        RENAMES.set(false);
        result
    }

    fn session(&self, session: u8) -> u8 {
        let new = self.sessions.get(usize::from(session));
        new.copied().unwrap_or(session)
    }
}

/// A hasher with 128 bits of output, stable over runs, builds and machines of either endianness.
///
/// Two 64-bit lanes, each a chain of multiplications whose 128-bit products are folded; the lanes
/// use different constants, so a collision needs both to collide. Not meant against an adversary.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    a: u64,
    b: u64,
}

const A: u64 = 0x9e37_79b9_7f4a_7c15;
const B: u64 = 0xd6e8_feb8_6659_fd93;
const C: u64 = 0xa076_1d64_78bd_642f;
const D: u64 = 0xe703_7ed1_a0b4_28db;

#[inline]
fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Digest {
    /// Starts a digest; `domain` keeps digests of different things apart.
    #[inline]
    pub fn new(domain: u64) -> Digest {
        Digest {
            a: fold(domain ^ A, C),
            b: fold(domain ^ B, D),
        }
    }

    /// Adds one word.
    #[inline]
    pub fn word(&mut self, x: u64) {
        self.a = fold(self.a ^ x ^ A, C);
        self.b = fold(self.b.wrapping_add(x) ^ B, D);
    }

    /// Adds another digest's outcome.
    #[inline]
    pub fn wide(&mut self, x: u128) {
        self.word(x as u64);
        self.word((x >> 64) as u64);
    }

    /// The outcome.
    #[inline]
    pub fn finish128(mut self) -> u128 {
        self.word(0x5851_f42d_4c95_7f2d);
        let low = fold(self.a ^ self.b.rotate_left(32), A);
        let high = fold(self.b ^ self.a.rotate_left(17), B);
        (u128::from(high) << 64) | u128::from(low)
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        (*self).finish128() as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        if RENAMES.get() {
            let other = RENAMING.with_borrow(|renaming| {
                let mut texts = renaming.texts.iter();
                let found = texts.find(|(text, _)| text.as_bytes() == bytes);
                found.map(|(_, other)| std::sync::Arc::clone(other))
            });
            return self.bytes(other.as_deref().map_or(bytes, str::as_bytes));
        }
        self.bytes(bytes);
    }

    fn write_u8(&mut self, x: u8) {
        self.word(u64::from(x));
    }

    fn write_u16(&mut self, x: u16) {
        self.word(u64::from(x));
    }

    fn write_u32(&mut self, x: u32) {
        self.word(u64::from(x));
    }

    fn write_u64(&mut self, x: u64) {
        self.word(x);
    }

    fn write_u128(&mut self, x: u128) {
        if x >> 8 == SessionId::HASH_MARK >> 8 {
            let session = x as u8;
            self.word(u64::from(match RENAMES.get() {
                true => RENAMING.with_borrow(|renaming| renaming.session(session)),
                false => session,
            }));
        } else {
            self.wide(x);
        }
    }

    fn write_usize(&mut self, x: usize) {
        self.word(x as u64);
    }

    fn write_i32(&mut self, x: i32) {
        self.word(i64::from(x) as u64);
    }

    fn write_i64(&mut self, x: i64) {
        self.word(x as u64);
    }

    fn write_isize(&mut self, x: isize) {
        self.word(x as i64 as u64);
    }
}

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        // The length goes in with the rest, so that "a" + "b" and "ab" differ.
        let mut last = [0u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hash;

    fn of(x: impl Hash) -> u128 {
        let mut digest = Digest::new(1);
        x.hash(&mut digest);
        digest.finish128()
    }

    #[test]
    fn neighbours_differ_in_both_halves() {
        let mut seen = std::collections::BTreeSet::new();
        for i in 0..10_000u64 {
            for digest in [of(i), of((i, 0u64)), of((0u64, i, 1u8)), of(i.to_string())] {
                assert!(seen.insert(digest as u64), "low half repeats at {i}");
                assert!(
                    seen.insert((digest >> 64) as u64),
                    "high half repeats at {i}"
                );
            }
        }
        assert_ne!(of(("a", "b")), of(("ab", "")));
    }

    #[test]
    fn sessions_and_texts_are_renamed() {
        let state = |a: u8, b: u8, name: &str| of((SessionId(a), 7u8, SessionId(b), name));
        let renaming = Renaming {
            number: 0,
            sessions: vec![1, 0],
            texts: vec![("x".into(), "y".into())],
        };
        assert_ne!(state(0, 1, "x"), state(1, 0, "y"));
        let renamed = renaming.within(|| state(0, 1, "x"));
        assert_eq!(renamed, state(1, 0, "y"));
        assert_eq!(renaming.within(|| of(0u8)), of(0u8));
    }

    #[test]
    fn the_outcome_is_stable() {
        // Fingerprints are compared within a run only, but they decide hash-table order nowhere
        // and must be equal in debug and release builds.
        assert_eq!(of((1u8, -1i64, "row")), of((1u8, -1i64, "row")));
    }
}
