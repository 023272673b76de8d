//! The hash functions that programs derive advisory lock keys from. Their values are part of the
//! interface: two programs must get the same key.

const INIT: u32 = 0x9e37_79b9 + 3_923_095;

/// Three words of state, mixed as in Bob Jenkins' lookup3.
struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn mix(&mut self) {
        let (mut a, mut b, mut c) = (self.a, self.b, self.c);
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        (self.a, self.b, self.c) = (a, b, c);
    }

    fn finish(&mut self) {
        let (mut a, mut b, mut c) = (self.a, self.b, self.c);
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        (self.a, self.b, self.c) = (a, b, c);
    }

    fn of(bytes: &[u8], seed: u64) -> State {
        let start = INIT.wrapping_add(bytes.len() as u32);
        let mut state = State {
            a: start,
            b: start,
            c: start,
        };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        let mut chunks = bytes.chunks_exact(12);
        for chunk in &mut chunks {
            let word =
                |i: usize| u32::from_le_bytes([chunk[i], chunk[i + 1], chunk[i + 2], chunk[i + 3]]);
            state.a = state.a.wrapping_add(word(0));
            state.b = state.b.wrapping_add(word(4));
            state.c = state.c.wrapping_add(word(8));
            state.mix();
        }
        for (i, byte) in chunks.remainder().iter().enumerate() {
            let byte = u32::from(*byte);
            match i {
                0..4 => state.a = state.a.wrapping_add(byte << (8 * i)),
                4..8 => state.b = state.b.wrapping_add(byte << (8 * (i - 4))),
                // The lowest byte of the third word is reserved for the length.
                _ => state.c = state.c.wrapping_add(byte << (8 * (i - 7))),
            }
        }
        state.finish();
        state
    }
}

/// `hashtext`.
pub fn hash_text(bytes: &[u8]) -> i32 {
    State::of(bytes, 0).c as i32
}

/// `hashtextextended`.
pub fn hash_text_extended(bytes: &[u8], seed: i64) -> i64 {
    let state = State::of(bytes, seed as u64);
    ((u64::from(state.b) << 32) | u64::from(state.c)) as i64
}

/// `md5`, as 32 hexadecimal digits (RFC 1321).
pub fn md5(bytes: &[u8]) -> String {
    const SHIFTS: [[u32; 4]; 4] = [
        [7, 12, 17, 22],
        [5, 9, 14, 20],
        [4, 11, 16, 23],
        [6, 10, 15, 21],
    ];
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&((bytes.len() as u64) * 8).to_le_bytes());
    let mut digest = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in message.chunks_exact(64) {
        let word = |i: usize| {
            u32::from_le_bytes([
                block[4 * i],
                block[4 * i + 1],
                block[4 * i + 2],
                block[4 * i + 3],
            ])
        };
        let [mut a, mut b, mut c, mut d] = digest;
        for i in 0..64usize {
            let (mixed, index) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), (7 * i) % 16),
            };
            let constant = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a
                .wrapping_add(mixed)
                .wrapping_add(constant)
                .wrapping_add(word(index));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
        }
        for (total, part) in digest.iter_mut().zip([a, b, c, d]) {
            *total = total.wrapping_add(part);
        }
    }
    digest
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
