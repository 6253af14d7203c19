//! Vectors of buffers.

use crate::bytes::get_u64;
use crate::general as raw;
use crate::Errno;

/// Most bytes that one read or write moves.
pub const MAX_RW: u64 = 0x7fff_f000;
/// Most buffers of a vector.
pub const MAX_VECTORS: usize = raw::UIO_MAXIOV as usize;
/// Bytes of one `struct iovec`.
pub const IOVEC_BYTES: usize = size_of::<raw::iovec>();

/// A buffer of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Buffer {
    /// Its address, unchecked.
    pub base: u64,
    /// Its length.
    pub len: u64,
}

/// Reads the vector in `bytes`, checks its lengths and cuts it to what one call moves.
///
/// `EINVAL` for a length that is negative as a signed number. The total is cut to [`MAX_RW`].
pub fn decode(bytes: &[u8], out: &mut [Buffer]) -> Result<u64, Errno> {
    let mut total = 0;
    for (buffer, raw) in out.iter_mut().zip(bytes.chunks_exact(IOVEC_BYTES)) {
        let len = get_u64(raw, 8);
        if (len as i64) < 0 {
            return Err(Errno::EINVAL);
        }
        *buffer = Buffer { base: get_u64(raw, 0), len: len.min(MAX_RW - total) };
        total += buffer.len;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;

    #[test]
    fn totals_are_cut_and_negatives_refused() {
        let raw = Bytes::<32>::default().u64(1).u64(MAX_RW - 1).u64(2).u64(10).done();
        let mut out = [Buffer::default(); 2];
        assert_eq!(decode(&raw, &mut out), Ok(MAX_RW));
        assert_eq!(out[1].len, 1);
        let raw = Bytes::<16>::default().u64(1).u64(u64::MAX).done();
        assert_eq!(decode(&raw, &mut out), Err(Errno::EINVAL));
    }
}
