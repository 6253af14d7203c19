//! Structures as bytes, without casting memory: a writer with a fixed size and little-endian reads.

/// `N` bytes being filled from the front; what is not written stays zero.
pub struct Bytes<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Default for Bytes<N> {
    fn default() -> Self {
        Bytes { bytes: [0; N], at: 0 }
    }
}

impl<const N: usize> Bytes<N> {
    /// Appends raw bytes; what does not fit is dropped.
    pub fn raw(mut self, data: &[u8]) -> Self {
        let n = data.len().min(N - self.at);
        self.bytes[self.at..self.at + n].copy_from_slice(&data[..n]);
        self.at += n;
        self
    }
    /// Appends two bytes.
    pub fn u16(self, v: u16) -> Self {
        self.raw(&v.to_le_bytes())
    }
    /// Appends four bytes.
    pub fn u32(self, v: u32) -> Self {
        self.raw(&v.to_le_bytes())
    }
    /// Appends eight bytes.
    pub fn u64(self, v: u64) -> Self {
        self.raw(&v.to_le_bytes())
    }
    /// Appends `n` zero bytes.
    pub fn skip(mut self, n: usize) -> Self {
        self.at = (self.at + n).min(N);
        self
    }
    /// The structure.
    pub fn done(self) -> [u8; N] {
        self.bytes
    }
}

/// Two bytes at `at`, zero beyond the end.
pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    let mut word = [0; 2];
    fill(&mut word, bytes, at);
    u16::from_le_bytes(word)
}
/// Four bytes at `at`, zero beyond the end.
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    fill(&mut word, bytes, at);
    u32::from_le_bytes(word)
}
/// Eight bytes at `at`, zero beyond the end.
pub fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    fill(&mut word, bytes, at);
    u64::from_le_bytes(word)
}

fn fill(word: &mut [u8], bytes: &[u8], at: usize) {
    if let Some(rest) = bytes.get(at..) {
        let n = rest.len().min(word.len());
        word[..n].copy_from_slice(&rest[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_bounds() {
        let b = Bytes::<14>::default().u32(7).u64(9).u32(0xaabb).done();
        assert_eq!((get_u32(&b, 0), get_u64(&b, 4), get_u16(&b, 12)), (7, 9, 0xaabb));
        assert_eq!(get_u64(&b, 12), 0xaabb);
        assert_eq!(get_u64(&b, 99), 0);
    }
}
