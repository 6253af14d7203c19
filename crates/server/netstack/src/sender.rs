//! How much a connection may have on its way, and what it repeats: slow start and avoidance of congestion (RFC 5681) from a first window of ten segments (RFC 6928),
//! recovery by partial acknowledgements (RFC 6582, *NewReno*), and a timer that waits for 200 ms more than a round trip takes, as Linux's.
//!
//! `smoltcp` repeats the first segment that is missing when three acknowledgements say the same, all of them after a second, and knows nothing between: of
//! several that were lost in one window the second one already costs a second. It is left as it is. A [`Sender`] sees what comes and goes, and steers by two things
//! that a peer could say as well: the window, which it makes smaller in what comes, and acknowledgements that it repeats. What is sent and repeated
//! remains what the peer's own words would allow, so nothing here can send what was not to be sent.

use crate::port::HEAD;
use alloc::vec;
use alloc::vec::Vec;

/// Segments of the first window.
const FIRST: usize = 10;
/// Bytes on their way, at most: more than any buffer has.
const MOST: usize = 1 << 20;
/// What is sent in a segment if the peer does not say (RFC 9293), and at least.
const USUAL: usize = 536;
const LEAST: usize = 64;
/// Acknowledgements that say the same and mean that a segment is missing.
const DUPLICATES: u32 = 3;
/// Microseconds that an acknowledgement may take longer than usual.
const SLACK: i64 = 200_000;
/// Times that a segment is repeated by this timer until something new is acknowledged; after that `smoltcp`'s has it, which also ends the connection.
const TRIES: u32 = 3;
/// Bytes of a head of TCP without options.
const TCP_HEAD: usize = 20;
/// The longest head, of Ethernet, IPv6 and TCP.
const LONGEST: usize = HEAD + 40 + TCP_HEAD;

const TCP: u8 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Is a sequence number before another one?
fn before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// A segment in a frame: where its head begins, and how many bytes it carries.
struct Segment<'a> {
    frame: &'a [u8],
    at: usize,
    payload: usize,
}

impl<'a> Segment<'a> {
    /// Of a frame that has one.
    fn of(frame: &'a [u8]) -> Option<Segment<'a>> {
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

    fn long(&self, at: usize) -> u32 {
        let bytes = &self.frame[self.at + at..];
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn number(&self) -> u32 {
        self.long(4)
    }

    fn acknowledged(&self) -> u32 {
        self.long(8)
    }

    fn flags(&self) -> u8 {
        self.frame[self.at + 13]
    }

    fn window(&self) -> u16 {
        u16::from_be_bytes([self.frame[self.at + 14], self.frame[self.at + 15]])
    }

    /// The largest segment and the shift of windows, as somebody says who begins.
    fn options(&self) -> (Option<usize>, u8) {
        let end = usize::from(self.frame[self.at + 12] >> 4) * 4;
        let mut rest = &self.frame[self.at + TCP_HEAD..self.at + end];
        let (mut largest, mut shift) = (None, 0);
        loop {
            rest = match *rest {
                [1, ref rest @ ..] => rest,
                [2, 4, high, low, ref rest @ ..] => {
                    largest = Some(usize::from(high) << 8 | usize::from(low));
                    rest
                }
                [3, 3, by, ref rest @ ..] => {
                    // As `smoltcp` has it, and RFC 7323.
                    shift = by.min(14);
                    rest
                }
                [kind, length, ..] if kind > 1 && length > 1 => {
                    let Some(rest) = rest.get(usize::from(length)..) else {
                        return (largest, shift);
                    };
                    rest
                }
                _ => return (largest, shift),
            }
        }
    }
}

/// What is to be said to `smoltcp` in the peer's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Nothing,
    /// That it may send more.
    Window,
    /// That the first segment on its way is missing.
    Missing,
}

/// See the module.
pub struct Sender {
    /// Bytes of a segment, at most.
    largest: usize,
    /// By which the peer's windows are shifted.
    shift: u8,
    /// The head of the last segment that was sent, and how long it is; 0: none was.
    head: [u8; LONGEST],
    length: usize,
    /// Has it sent any byte?
    has_sent: bool,
    /// The first byte that is not acknowledged, and the one behind the last that was sent.
    first: u32,
    next: u32,
    /// Bytes that may be on their way, and up to where that grows fast.
    window: usize,
    threshold: usize,
    /// Nothing more could be sent when something was sent last: only then the window grows (RFC 7661).
    is_full: bool,
    /// The peer's window, and the one that was told instead, as they stand in segments.
    real: u16,
    told: u16,
    /// Acknowledgements that said nothing new.
    duplicates: u32,
    /// They have just become enough.
    is_missing: bool,
    /// What was on its way when something was found missing: up to there the next missing one is found by what is acknowledged.
    recover: Option<u32>,
    /// Microseconds of a round trip, smoothed, and by how much they differ.
    trip: Option<(i64, i64)>,
    /// A byte and when it was sent, if it was sent once.
    timed: Option<(u32, i64)>,
    due: Option<i64>,
    tries: u32,
}

impl Default for Sender {
    fn default() -> Sender {
        Sender {
            largest: USUAL,
            shift: 0,
            head: [0; LONGEST],
            length: 0,
            has_sent: false,
            first: 0,
            next: 0,
            window: FIRST * USUAL,
            threshold: MOST,
            is_full: false,
            real: 0,
            told: 0,
            duplicates: 0,
            is_missing: false,
            recover: None,
            trip: None,
            timed: None,
            due: None,
            tries: 0,
        }
    }
}

impl Sender {
    /// When something is repeated if nothing comes until then.
    pub fn due(&self) -> Option<i64> {
        self.due
    }

    /// Bytes on their way.
    fn flight(&self) -> usize {
        self.next.wrapping_sub(self.first) as usize
    }

    /// The window that is told: the peer's, or less.
    fn tells(&self) -> u16 {
        let own = (self.window >> self.shift).clamp(1, usize::from(u16::MAX)) as u16;
        self.real.min(own)
    }

    /// Microseconds after which what is not acknowledged is repeated. `None`: nobody knows how long the way is.
    fn patience(&self) -> Option<i64> {
        self.trip.map(|(smoothed, differs)| (smoothed + SLACK.max(4 * differs)) << self.tries)
    }

    fn rearm(&mut self, now: i64) {
        let is_on_way = self.flight() > 0 && self.tries < TRIES;
        self.due = self.patience().filter(|_| is_on_way).map(|patience| now + patience);
    }

    /// A segment is sent.
    pub fn sent(&mut self, frame: &[u8], now: i64) {
        let Some(segment) = Segment::of(frame) else { return };
        let length = segment.at + TCP_HEAD;
        if length > LONGEST || segment.flags() & (SYN | RST) != 0 {
            return;
        }
        self.head[..length].copy_from_slice(&frame[..length]);
        self.length = length;
        if segment.payload == 0 {
            return;
        }
        if !self.has_sent {
            (self.has_sent, self.first, self.next) = (true, segment.number(), segment.number());
        }
        // A byte that only asks whether the peer is there is none of the stream.
        if before(segment.number(), self.first) {
            return;
        }
        let end = segment.number().wrapping_add(segment.payload as u32);
        match before(self.next, end) {
            true => {
                self.next = end;
                self.timed.get_or_insert((end, now));
            }
            false => self.timed = None,
        }
        self.is_full = self.flight() + self.largest > self.window;
        if self.due.is_none() {
            self.rearm(now);
        }
    }

    /// A segment has come. Answers with what `smoltcp` is to see in its place, if the window is another one.
    pub fn comes(&mut self, frame: &[u8], mtu: u16) -> Option<Vec<u8>> {
        let segment = Segment::of(frame)?;
        let flags = segment.flags();
        if flags & RST != 0 || flags & (SYN | ACK) == 0 {
            return None;
        }
        // What is not about what is on its way was not sent by the peer, or is old.
        let about = segment.acknowledged();
        let is_old = before(about, self.first) || before(self.next, about);
        if self.has_sent && (flags & SYN != 0 || is_old) {
            return None;
        }
        if flags & SYN != 0 {
            let heads = segment.at + TCP_HEAD - HEAD;
            let (largest, shift) = segment.options();
            let own = usize::from(mtu).saturating_sub(heads).max(LEAST);
            self.largest = largest.unwrap_or(USUAL).clamp(LEAST, own);
            self.window = FIRST * self.largest;
            // In this segment itself it is not shifted.
            let told = segment.window().min(self.window.min(usize::from(u16::MAX)) as u16);
            (self.shift, self.real, self.told) = (shift, segment.window(), told);
            return changed(&segment, told);
        }
        let is_same = segment.payload == 0
            && flags & FIN == 0
            && segment.acknowledged() == self.first
            && segment.window() == self.real
            && self.flight() > 0;
        self.duplicates = if is_same { self.duplicates.saturating_add(1) } else { 0 };
        self.real = segment.window();
        // Of few segments on their way few can be acknowledged out of order (RFC 5827).
        let enough = (self.flight() / self.largest).saturating_sub(1).clamp(1, DUPLICATES as usize);
        if is_same && self.duplicates as usize >= enough {
            match self.recover {
                None => {
                    self.is_missing = true;
                    self.lost();
                    self.window = self.threshold + DUPLICATES as usize * self.largest;
                }
                // Something has left the way.
                Some(_) => self.window = (self.window + self.largest).min(MOST),
            }
        }
        self.told = self.tells();
        changed(&segment, self.told)
    }

    /// Something is missing: half of what is on its way is too much.
    fn lost(&mut self) {
        self.threshold = (self.flight() / 2).max(2 * self.largest);
        self.recover = Some(self.next);
        self.timed = None;
    }

    /// What came had so many new bytes acknowledged; so many wait, those on their way among them.
    pub fn heard(&mut self, acknowledged: usize, waiting: usize, now: i64) -> Word {
        if core::mem::take(&mut self.is_missing) {
            return Word::Missing;
        }
        let acknowledged = acknowledged.min(self.flight());
        if acknowledged > 0 {
            self.first = self.first.wrapping_add(acknowledged as u32);
            self.duplicates = 0;
            self.tries = 0;
            if let Some((_, since)) = self.timed.take_if(|(end, _)| !before(self.first, *end)) {
                self.sample(now - since);
            }
            self.rearm(now);
            match self.recover {
                Some(until) if before(self.first, until) => {
                    // The next one is missing, too.
                    self.window = self.window.saturating_sub(acknowledged) + self.largest;
                    return Word::Missing;
                }
                Some(_) => {
                    self.recover = None;
                    self.window = self.threshold;
                }
                None if self.window < self.threshold && self.is_full => {
                    self.window += acknowledged.min(2 * self.largest);
                }
                None if self.is_full => {
                    self.window += (self.largest * acknowledged / self.window).max(1);
                }
                None => {}
            }
            self.window = self.window.min(MOST);
        }
        let is_waiting = waiting > self.flight() && self.flight() < self.window;
        match is_waiting && self.told < self.tells() {
            true => Word::Window,
            false => Word::Nothing,
        }
    }

    /// RFC 6298.
    fn sample(&mut self, took: i64) {
        self.trip = Some(match self.trip {
            None => (took, took / 2),
            Some((smoothed, differs)) => {
                ((7 * smoothed + took) / 8, (3 * differs + (smoothed - took).abs()) / 4)
            }
        });
    }

    /// It is time. Is something to be repeated?
    pub fn is_late(&mut self, now: i64) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.due = None;
        if self.flight() == 0 || self.real == 0 {
            return false;
        }
        if self.tries == 0 {
            self.lost();
        }
        self.window = self.largest;
        self.timed = None;
        self.tries += 1;
        self.rearm(now);
        true
    }

    /// The frames that say it, as if they came from the peer.
    pub fn words(&mut self, word: Word) -> Vec<Vec<u8>> {
        let window = self.tells();
        if self.length == 0 || window == 0 {
            return Vec::new();
        }
        let (window, times) = match word {
            Word::Nothing => return Vec::new(),
            Word::Window => (window, 1),
            // Behind another window it begins to count anew.
            Word::Missing if window != self.told => (window, 1 + DUPLICATES as usize),
            Word::Missing => (
                window.checked_sub(1).filter(|&it| it > 0).unwrap_or(window + 1),
                1 + DUPLICATES as usize,
            ),
        };
        if word == Word::Missing {
            self.timed = None;
        }
        self.told = window;
        self.acknowledgement(window).map_or(Vec::new(), |frame| vec![frame; times])
    }

    /// A segment that acknowledges all before the first byte on its way: the head of the last one that was sent, the other way round.
    fn acknowledgement(&self, window: u16) -> Option<Vec<u8>> {
        let mut frame = self.head[..self.length].to_vec();
        let at = self.length - TCP_HEAD;
        let mut swap = |one: usize, other: usize, bytes: usize| {
            for n in 0..bytes {
                frame.swap(one + n, other + n);
            }
        };
        swap(0, 6, 6);
        match at - HEAD {
            40 => swap(HEAD + 8, HEAD + 24, 16),
            20 => swap(HEAD + 12, HEAD + 16, 4),
            _ => return None,
        }
        swap(at, at + 2, 2);
        let number: [u8; 4] = frame[at + 8..at + 12].try_into().ok()?;
        frame[at + 4..at + 8].copy_from_slice(&number);
        frame[at + 8..at + 12].copy_from_slice(&self.first.to_be_bytes());
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
        let sum =
            sum_of(&frame[addresses]) + u32::from(TCP) + TCP_HEAD as u32 + sum_of(&frame[at..]);
        frame[at + 16..at + 18].copy_from_slice(&(!folded(sum)).to_be_bytes());
        Some(frame)
    }
}

/// The sum of all words of an even number of bytes.
fn sum_of(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The same frame with another window, and the sum that is right if it was (RFC 1624).
fn changed(segment: &Segment, window: u16) -> Option<Vec<u8>> {
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
