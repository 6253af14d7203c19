//! Sums of segments that a device makes and looks at (virtio 1.2, 5.1.6.2), so that no processor reads what they carry.
//!
//! It is so for segments of connections. Datagrams and answers are summed here: there are few, and programs make some of them by hand.

use crate::segment::{folded, sum_of, Segment, TCP_HEAD};
use alloc::vec::Vec;

/// From where on a frame is to be summed, and where behind that the sum is; there is that of the head that the network makes up (RFC 9293, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsummed {
    pub from: u16,
    pub at: u16,
}

/// What a device knows of the sum in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Nothing.
    Unknown,
    /// It is right, or nothing can have become of the frame.
    Right,
    /// The same, and it is yet to be made.
    Missing(Unsummed),
}

/// Where a segment's sum is.
const AT: usize = 16;

impl Segment<'_> {
    /// The sum of the head that the network makes up.
    fn pseudo(&self, frame: &[u8]) -> u32 {
        const TCP: u32 = 6;
        // The addresses are the last of the network's head.
        let addresses = match self.is_v6() {
            true => self.at - 32..self.at,
            false => 26..34,
        };
        sum_of(&frame[addresses]) + TCP + self.bytes() as u32
    }
}

/// Is it a frame with a segment?
pub fn is_segment(frame: &[u8]) -> bool {
    Segment::of(frame).is_some()
}

/// Leaves the sum of a segment to the device. `None`: it is none.
pub fn leave(frame: &mut [u8]) -> Option<Unsummed> {
    let segment = Segment::of(frame)?;
    let (at, pseudo) = (segment.at, folded(segment.pseudo(frame)));
    frame[at + AT..at + AT + 2].copy_from_slice(&pseudo.to_be_bytes());
    Some(Unsummed { from: at as u16, at: AT as u16 })
}

/// Sums a segment that has no sum.
pub fn make(frame: &mut [u8]) {
    let Some(segment) = Segment::of(frame) else { return };
    let at = segment.at;
    let Some(bytes) = frame.get(at..at + segment.bytes()) else { return };
    if bytes[AT..AT + 2] == [0, 0] {
        let sum = !folded(segment.pseudo(frame) + sum_of(bytes));
        frame[at + AT..at + AT + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Is the sum of a segment right?
pub fn is_right(frame: &[u8]) -> bool {
    let Some(segment) = Segment::of(frame) else { return false };
    let bytes = frame.get(segment.at..segment.at + segment.bytes());
    bytes.is_some_and(|bytes| {
        bytes.len() >= TCP_HEAD && folded(segment.pseudo(frame) + sum_of(bytes)) == u16::MAX
    })
}

/// The same frame with its sum. `None`: it has no place for one there.
pub fn complete(frame: &[u8], unsummed: Unsummed) -> Option<Vec<u8>> {
    let from = usize::from(unsummed.from);
    let at = from + usize::from(unsummed.at);
    let sum = !folded(sum_of(frame.get(from..)?));
    let mut frame = frame.to_vec();
    frame.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}
