//! A segment of TCP in a frame: what its head says, and how a head is made or changed with the sum that is right then.

use crate::port::HEAD;
use alloc::vec::Vec;

/// Bytes of a head of TCP without options.
pub const TCP_HEAD: usize = 20;
/// The longest head, of Ethernet, IPv6 and TCP.
pub const LONGEST: usize = HEAD + 40 + TCP_HEAD;

const TCP: u8 = 6;
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Kinds of options.
const NOTHING: u8 = 1;
const LARGEST: u8 = 2;
const SHIFT: u8 = 3;
const SELECTIVE: u8 = 5;

/// Is a sequence number before another one?
pub fn before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// A segment in a frame: where its head begins, and how many bytes it carries.
pub struct Segment<'a> {
    frame: &'a [u8],
    pub at: usize,
    pub payload: usize,
}

/// Options of a head: their kinds and what they say. It ends at the first that is none.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        while let [NOTHING, rest @ ..] = self.0 {
            self.0 = rest;
        }
        let &[kind, length, ..] = self.0 else { return None };
        let (option, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        option.get(2..).filter(|_| kind != 0).map(|says| (kind, says))
    }
}

impl<'a> Segment<'a> {
    /// Of a frame that has one.
    pub fn of(frame: &'a [u8]) -> Option<Segment<'a>> {
        let packet = frame.get(HEAD..)?;
        let short = |at: usize| {
            Some(usize::from(*packet.get(at)?) << 8 | usize::from(*packet.get(at + 1)?))
        };
        // What smoltcp sends for a connection may also be a question for an address.
        let (head, length) = match *frame.get(12..HEAD)? {
            [8, 0] if *packet.get(9)? == TCP => (usize::from(packet[0] & 0xf) * 4, short(2)?),
            [0x86, 0xdd] if *packet.get(6)? == TCP => (40, 40 + short(4)?),
            _ => return None,
        };
        let own = usize::from(packet.get(head + 12)? >> 4) * 4;
        packet.get(head..head + own).filter(|own| own.len() >= TCP_HEAD)?;
        let payload = length.checked_sub(head + own)?;
        Some(Segment { frame, at: HEAD + head, payload })
    }

    /// Bytes of it, with its head.
    pub fn bytes(&self) -> usize {
        usize::from(self.frame[self.at + 12] >> 4) * 4 + self.payload
    }

    pub fn is_v6(&self) -> bool {
        self.frame[12..HEAD] == [0x86, 0xdd]
    }

    fn long(&self, at: usize) -> u32 {
        let bytes = &self.frame[self.at + at..];
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    pub fn number(&self) -> u32 {
        self.long(4)
    }

    pub fn acknowledged(&self) -> u32 {
        self.long(8)
    }

    pub fn flags(&self) -> u8 {
        self.frame[self.at + 13]
    }

    pub fn window(&self) -> u16 {
        u16::from_be_bytes([self.frame[self.at + 14], self.frame[self.at + 15]])
    }

    fn options(&self) -> Options<'a> {
        let end = usize::from(self.frame[self.at + 12] >> 4) * 4;
        Options(&self.frame[self.at + TCP_HEAD..self.at + end])
    }

    /// The largest segment and the shift of windows, as somebody says who begins.
    pub fn begins(&self) -> (Option<usize>, u8) {
        let (mut largest, mut shift) = (None, 0);
        for option in self.options() {
            match option {
                (LARGEST, &[high, low]) => {
                    largest = Some(usize::from(high) << 8 | usize::from(low))
                }
                // As `smoltcp` has it, and RFC 7323.
                (SHIFT, &[by]) => shift = by.min(14),
                _ => {}
            }
        }
        (largest, shift)
    }

    /// What has arrived although something before it has not, or once more (RFC 2018, 2883): the first numbers, and those behind the last.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
        self.options()
            .filter(|&(kind, _)| kind == SELECTIVE)
            .flat_map(|(_, says)| says.as_chunks::<8>().0)
            .map(move |block| (number(&block[..4]), number(&block[4..])))
    }
}

/// A segment that acknowledges all before a number: the head of one that was sent, which has no options, the other way round.
pub fn acknowledgement(head: &[u8], number: u32, window: u16) -> Option<Vec<u8>> {
    let mut frame = head.to_vec();
    let at = head.len().checked_sub(TCP_HEAD)?;
    let mut swap = |one: usize, other: usize, bytes: usize| {
        for n in 0..bytes {
            frame.swap(one + n, other + n);
        }
    };
    swap(0, 6, 6);
    match at.checked_sub(HEAD)? {
        40 => swap(HEAD + 8, HEAD + 24, 16),
        20 => swap(HEAD + 12, HEAD + 16, 4),
        _ => return None,
    }
    swap(at, at + 2, 2);
    let own: [u8; 4] = frame[at + 8..at + 12].try_into().ok()?;
    frame[at + 4..at + 8].copy_from_slice(&own);
    frame[at + 8..at + 12].copy_from_slice(&number.to_be_bytes());
    frame[at + 12] = (TCP_HEAD as u8 / 4) << 4;
    frame[at + 13] = ACK;
    frame[at + 14..at + 16].copy_from_slice(&window.to_be_bytes());
    frame[at + 16..at + 20].fill(0);
    let length = (frame.len() - HEAD) as u16;
    let addresses = match at - HEAD {
        40 => {
            frame[HEAD + 4..HEAD + 6].copy_from_slice(&(TCP_HEAD as u16).to_be_bytes());
            HEAD + 8..HEAD + 40
        }
        _ => {
            frame[HEAD + 2..HEAD + 4].copy_from_slice(&length.to_be_bytes());
            frame[HEAD + 10..HEAD + 12].fill(0);
            let sum = folded(sum_of(&frame[HEAD..at]));
            frame[HEAD + 10..HEAD + 12].copy_from_slice(&(!sum).to_be_bytes());
            HEAD + 12..HEAD + 20
        }
    };
    let sum = sum_of(&frame[addresses]) + u32::from(TCP) + TCP_HEAD as u32 + sum_of(&frame[at..]);
    frame[at + 16..at + 18].copy_from_slice(&(!folded(sum)).to_be_bytes());
    Some(frame)
}

/// The sum of all words: of at most 64 KiB.
pub fn sum_of(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let rest = rest.first().map_or(0, |&byte| u32::from(byte) << 8);
    words.iter().map(|&word| u32::from(u16::from_be_bytes(word))).sum::<u32>() + rest
}

pub fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The same frame with another window, and the sum that is right if it was (RFC 1624).
pub fn changed(segment: &Segment, window: u16) -> Option<Vec<u8>> {
    let old = segment.window();
    if old == window {
        return None;
    }
    let mut frame = segment.frame.to_vec();
    let at = segment.at;
    let sum = u16::from_be_bytes([frame[at + 16], frame[at + 17]]);
    let sum = u32::from(!sum) + u32::from(!old) + u32::from(window);
    frame[at + 14..at + 16].copy_from_slice(&window.to_be_bytes());
    frame[at + 16..at + 18].copy_from_slice(&(!folded(sum)).to_be_bytes());
    Some(frame)
}
