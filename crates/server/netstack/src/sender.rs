//! How much a connection may have on its way, and what it repeats: slow start and avoidance of congestion (RFC 5681) from a first window of ten segments (RFC 6928),
//! recovery by partial acknowledgements (RFC 6582, *NewReno*), and a timer that waits for 200 ms more than a round trip takes, as Linux's. What has only been [passed](crate::passing) by others is
//! not taken for lost once that has been seen.
//!
//! `smoltcp` repeats the first segment that is missing when three acknowledgements say the same, all of them after a second, and knows nothing between: of
//! several that were lost in one window the second one already costs a second. It is left as it is. A [`Sender`] sees what comes and goes, and steers by two things
//! that a peer could say as well: the window, which it makes smaller in what comes, and acknowledgements that it repeats. What is sent and repeated
//! remains what the peer's own words would allow, so nothing here can send what was not to be sent.

use crate::cubic::Cubic;
use crate::passing::Passing;
use crate::port::HEAD;
use crate::segment::{
    acknowledgement, before, changed, Segment, ACK, FIN, LONGEST, RST, SYN, TCP_HEAD,
};
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
    /// So many more of them than when the first missing segment was repeated mean that it is missing again.
    again: u32,
    /// They have just become enough.
    is_missing: bool,
    /// The end of the last byte that the peer has said to have (RFC 2018) behind the first that it has not, and what was on its way when the first missing segment was repeated.
    beyond: Option<u32>,
    /// It says so.
    is_selective: bool,
    repeated_before: u32,
    passing: Passing,
    cubic: Cubic,
    /// Microseconds at which what is missing is lost, and has not just been passed.
    settles: Option<i64>,
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
            again: u32::MAX,
            is_missing: false,
            beyond: None,
            is_selective: false,
            repeated_before: 0,
            passing: Passing::default(),
            cubic: Cubic::default(),
            settles: None,
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
        self.due.into_iter().chain(self.settles).min()
    }

    /// Bytes on their way.
    fn flight(&self) -> usize {
        self.next.wrapping_sub(self.first) as usize
    }

    /// The window that is told: the peer's, or less.
    fn tells(&self) -> u16 {
        // What has arrived behind something that is missing is not on its way any more (RFC 3042).
        let arrived = match self.recover {
            None => (self.duplicates as usize).saturating_mul(self.largest).min(self.window / 2),
            Some(_) => 0,
        };
        let own = ((self.window + arrived) >> self.shift).clamp(1, usize::from(u16::MAX)) as u16;
        self.real.min(own)
    }

    /// Another window than that, of the same size for all purposes: what says it is not the same once more.
    fn other(&self, window: u16) -> u16 {
        match window < self.real || window == 1 {
            true => window.saturating_add(1),
            false => window - 1,
        }
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
    pub fn comes(&mut self, frame: &[u8], mtu: u16, now: i64) -> Option<Vec<u8>> {
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
            let (largest, shift) = segment.begins();
            let own = usize::from(mtu).saturating_sub(heads).max(LEAST);
            self.largest = largest.unwrap_or(USUAL).clamp(LEAST, own);
            self.window = FIRST * self.largest;
            // In this segment itself it is not shifted.
            let told = segment.window().min(self.window.min(usize::from(u16::MAX)) as u16);
            (self.shift, self.real, self.told) = (shift, segment.window(), told);
            return changed(&segment, told);
        }
        let says_more = self.hear_blocks(&segment);
        let is_same = segment.payload == 0
            && flags & FIN == 0
            && about == self.first
            && segment.window() == self.real
            && self.flight() > 0;
        if is_same || says_more && about == self.first {
            self.duplicates = self.duplicates.saturating_add(1);
            self.one_more(now);
        }
        self.real = segment.window();
        let told = self.tells();
        // Whether something is missing is decided here: `smoltcp` is not to count.
        self.told = match is_same && told == self.told && told > 1 {
            true => self.other(told),
            false => told,
        };
        changed(&segment, self.told)
    }
    /// Notes what the peer says to have behind what is missing. Does it have something further than ever?
    fn hear_blocks(&mut self, segment: &Segment) -> bool {
        let mut says_more = false;
        for (number, (from, to)) in segment.blocks().enumerate() {
            let is_on_way = before(self.first, from) && before(from, to) && !before(self.next, to);
            if is_on_way && self.beyond.is_none_or(|beyond| before(beyond, to)) {
                (self.beyond, self.is_selective, says_more) = (Some(to), true, true);
            } else if number == 0 && !before(segment.acknowledged(), to) {
                if let Some(before) = self.passing.twice((from, to)) {
                    self.take_back(before);
                }
            }
        }
        says_more
    }

    /// Has something arrived that lies more than three segments behind a number?
    fn is_far_behind(&self, from: u32) -> bool {
        self.beyond.is_some_and(|beyond| {
            before(from, beyond)
                && beyond.wrapping_sub(from) as usize > DUPLICATES as usize * self.largest
        })
    }

    /// Something has arrived, and what was missing still is.
    fn one_more(&mut self, now: i64) {
        // Of few segments on their way few can be acknowledged out of order (RFC 5827).
        let enough = (self.flight() / self.largest).saturating_sub(1).clamp(1, DUPLICATES as usize);
        let is_enough = self.duplicates as usize >= enough || self.is_far_behind(self.first);
        if self.recover.is_some() {
            // Something has left the way.
            self.window = (self.window + self.largest).min(MOST);
            self.is_missing |=
                self.duplicates >= self.again || self.is_far_behind(self.repeated_before);
        } else if let Some(patience) = self.patience_passed() {
            self.settles.get_or_insert(now + patience);
        } else if is_enough {
            self.is_missing = true;
            self.lost(now);
        }
    }

    /// Microseconds for which what is missing may just have been passed. `None`: nothing is known to be.
    fn patience_passed(&self) -> Option<i64> {
        self.passing.patience(self.trip?.0)
    }

    /// Something is missing: half of what is on its way is too much.
    fn lost(&mut self, now: i64) {
        let on_way = (self.first, self.next);
        self.passing.lost(on_way, (self.window, self.threshold), now);
        // Of several acknowledgements that come at once the first ones have left less on the way than there was, and is again soon.
        let was = match self.is_full && self.recover.is_none() {
            true => self.window,
            false => self.flight().min(self.window),
        };
        let left = self.cubic.lost(was);
        self.threshold = left.max(2 * self.largest);
        let arrived = self.duplicates.max(DUPLICATES) as usize * self.largest;
        self.window = self.threshold + arrived.min(self.flight());
        self.recover = Some(self.next);
        (self.timed, self.settles) = (None, None);
    }

    /// Nothing was: it had only been passed.
    fn take_back(&mut self, (window, threshold): (usize, usize)) {
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        self.recover = None;
    }

    /// What came had so many new bytes acknowledged; so many wait, those on their way among them.
    pub fn heard(&mut self, acknowledged: usize, waiting: usize, now: i64) -> Word {
        if core::mem::take(&mut self.is_missing) {
            return Word::Missing;
        }
        let acknowledged = acknowledged.min(self.flight());
        if acknowledged > 0 {
            self.first = self.first.wrapping_add(acknowledged as u32);
            self.beyond = self.beyond.filter(|beyond| before(self.first, *beyond));
            self.tries = 0;
            if let Some((_, since)) = self.timed.take_if(|(end, _)| !before(self.first, *end)) {
                self.sample(now - since);
            }
            self.rearm(now);
            self.others_passed(acknowledged.div_ceil(self.largest) as u32, now);
            if let Some(before) = self.passing.answered(now) {
                self.take_back(before);
            }
            match self.recover {
                Some(until) if before(self.first, until) => {
                    self.window = self.window.saturating_sub(acknowledged) + self.largest;
                    // The next one is missing, too, unless the peer would have said that it has something behind it.
                    if self.beyond.is_some() || !self.is_selective {
                        return Word::Missing;
                    }
                }
                Some(_) => {
                    self.recover = None;
                    self.window = self.threshold;
                    self.passing.recovered();
                }
                None if self.window < self.threshold && self.is_full => {
                    self.window += acknowledged.min(2 * self.largest);
                }
                None if self.is_full => {
                    let trip = self.trip.map_or(0, |(smoothed, _)| smoothed);
                    let grows = (acknowledged, self.largest);
                    self.window += self.cubic.grows(self.window, grows, now, trip);
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

    /// What was missing has arrived, with so many segments that are acknowledged. Were it others that passed it? Those behind the next that is missing are left.
    fn others_passed(&mut self, segments: u32, now: i64) {
        let passed = core::mem::take(&mut self.duplicates);
        self.settles = None;
        if passed == 0 || self.recover.is_some() {
            return;
        }
        // Not if it was less: then something that was not missing has come once more.
        if segments > passed {
            self.passing.seen();
        }
        self.duplicates = passed.saturating_sub(segments.saturating_sub(1));
        if self.duplicates > 0 && self.flight() > 0 {
            self.settles = self.patience_passed().map(|patience| now + patience);
        }
    }

    /// RFC 6298.
    fn sample(&mut self, took: i64) {
        self.passing.took(took);
        self.trip = Some(match self.trip {
            None => (took, took / 2),
            Some((smoothed, differs)) => {
                ((7 * smoothed + took) / 8, (3 * differs + (smoothed - took).abs()) / 4)
            }
        });
    }

    /// It is time. Is something to be repeated?
    pub fn is_late(&mut self, now: i64) -> bool {
        let is_there = self.flight() > 0 && self.real > 0;
        if self.settles.take_if(|at| now >= *at).is_some() && self.recover.is_none() && is_there {
            self.lost(now);
            return true;
        }
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.due = None;
        if !is_there {
            return false;
        }
        if self.tries == 0 {
            self.lost(now);
        }
        self.window = self.largest;
        // The peer may have thought better of it (RFC 2018).
        (self.duplicates, self.beyond, self.settles) = (0, None, None);
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
            Word::Missing => (self.other(window), 1 + DUPLICATES as usize),
        };
        if word == Word::Missing {
            self.timed = None;
            self.passing.repeated();
            let on_way = self.flight().div_ceil(self.largest) as u32;
            self.again = self.duplicates.saturating_add(on_way + DUPLICATES);
            self.repeated_before = self.next;
        }
        self.told = window;
        acknowledgement(&self.head[..self.length], self.first, window)
            .map_or(Vec::new(), |frame| vec![frame; times])
    }
}
