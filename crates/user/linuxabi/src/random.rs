//! A random generator (ChaCha20's block function in counter mode, RFC 8439 §2.3). Why not a library's: decision 56.

/// A keyed stream of random bytes.
#[derive(Clone)]
pub struct Stream {
    key: [u32; 8],
    counter: u64,
}

const SIGMA: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

fn quarter(s: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(16);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(12);
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(8);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(7);
}

/// One block of 64 bytes. There is one stream for each key, so the nonce is 0.
fn block(key: &[u32; 8], counter: u64) -> [u8; 64] {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&SIGMA);
    start[4..12].copy_from_slice(key);
    start[12] = counter as u32;
    start[13] = (counter >> 32) as u32;
    let mut s = start;
    for _ in 0..10 {
        for i in 0..4 {
            quarter(&mut s, i, 4 + i, 8 + i, 12 + i);
        }
        for i in 0..4 {
            quarter(&mut s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
        }
    }
    let mut out = [0; 64];
    for (bytes, (a, b)) in out.chunks_mut(4).zip(s.iter().zip(start)) {
        bytes.copy_from_slice(&a.wrapping_add(b).to_le_bytes());
    }
    out
}

impl Stream {
    /// A stream that depends on all words of the seed.
    pub const fn new(seed: [u64; 4]) -> Stream {
        let mut key = [0; 8];
        let mut i = 0;
        while i < 4 {
            key[2 * i] = seed[i] as u32;
            key[2 * i + 1] = (seed[i] >> 32) as u32;
            i += 1;
        }
        Stream { key, counter: 0 }
    }
    /// The next 64 bytes.
    pub fn next_block(&mut self) -> [u8; 64] {
        let out = block(&self.key, self.counter);
        self.counter += 1;
        out
    }
    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(64) {
            chunk.copy_from_slice(&self.next_block()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::{RngCore, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    #[test]
    fn zero_key_matches_the_published_vector() {
        // RFC 8439 appendix A.1, test vector 1.
        let mut s = Stream::new([0; 4]);
        assert_eq!(&s.next_block()[..8], &[0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
    }

    /// Over many blocks.
    #[test]
    fn another_implementation_gives_the_same() {
        for seed in 0..50u64 {
            let words = [1, 2, 3, 4].map(|n| seed.wrapping_mul(n));
            let mut bytes = [0; 32];
            for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            let (mut ours, mut theirs) = (Stream::new(words), ChaCha20Rng::from_seed(bytes));
            let (mut left, mut right) = ([0; 1000], [0; 1000]);
            ours.fill(&mut left);
            theirs.fill_bytes(&mut right);
            assert_eq!(left, right);
        }
    }
}
