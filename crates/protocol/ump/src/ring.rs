//! One direction of a channel: a ring of cache lines with one sender and one receiver.
//!
//! ```text
//! line 0    by the receiver: how many lines it has taken, now and then
//! line 1    by the sender: whether it waits for room
//! line 2    by the receiver: whether it sleeps
//! line 3…   messages: seven words, and a header, which is written last
//! ```
//!
//! The header of the line for position p (counted from 0 for ever) has the low half of p + 1 in it. So
//! the receiver knows a new line from the one a round ago by that line alone, and a zeroed page is an
//! empty ring. Both sides keep their positions to themselves; the only other thing that moves
//! is the receiver's count, by which the sender knows what it may overwrite. It reads it when the ring
//! seems full, and the receiver writes it once for a quarter of the ring: neither takes the other's
//! line away for each message.

use crate::sleep::Sleeper;
use crate::sync::{fence, AtomicU64, Lone, Ordering};

/// Words of a message in one line.
pub const LINE_WORDS: usize = 7;
/// Lines of a message at most.
pub const MAX_LINES: usize = 4;
/// Words of a message at most.
pub const MAX_WORDS: usize = LINE_WORDS * MAX_LINES;
/// Lines of a ring of one page.
pub const LINES: usize = 61;
/// Tags are smaller than this.
pub const TAGS: u32 = 1 << TAG_BITS;

const TAG_BITS: u32 = 28;

/// Sequence number, tag, lines that follow.
fn header(position: u64, tag: u32, more: usize) -> u64 {
    u64::from(sequence(position)) | u64::from(tag) << 32 | (more as u64) << (32 + TAG_BITS)
}

fn sequence(position: u64) -> u32 {
    (position as u32).wrapping_add(1)
}

#[repr(C, align(64))]
#[derive(Debug)]
struct Line {
    words: [AtomicU64; LINE_WORDS],
    /// Pairs with itself: stored with `Release` when the words are there, loaded with `Acquire`.
    header: AtomicU64,
}

/// The shared memory of one direction: `LINES + 3` cache lines, zero at the start.
#[repr(C)]
#[derive(Debug)]
pub struct Ring<const LINES: usize = { self::LINES }> {
    /// Lines that may be overwritten. Stored by the receiver with `Release`, when it has read them.
    taken: Lone,
    /// The sender waits for `taken` to move.
    wants_room: Lone,
    /// The receiver sleeps. Who receives from many sleeps elsewhere, once for all.
    sleeper: Sleeper,
    lines: [Line; LINES],
}

impl<const LINES: usize> Ring<LINES> {
    const FITS: () = assert!(LINES > 0);

    /// An empty ring.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let () = Self::FITS;
        let word = |_| AtomicU64::new(0);
        let line = |_| Line { words: core::array::from_fn(word), header: AtomicU64::new(0) };
        Ring {
            taken: Lone::new(0),
            wants_room: Lone::new(0),
            sleeper: Sleeper::new(),
            lines: core::array::from_fn(line),
        }
    }

    /// Where the receiver of this ring says that it sleeps, if it receives from no other.
    pub fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    fn line(&self, position: u64) -> &Line {
        &self.lines[(position % LINES as u64) as usize]
    }
}

/// The other side has written what cannot be. The channel is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// Why nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// There is no room now.
    Full,
    /// There will never be room for so many words, or the tag is too large.
    TooLarge,
    /// See [`Broken`].
    Broken,
}

impl From<Broken> for SendError {
    fn from(_: Broken) -> Self {
        SendError::Broken
    }
}

/// The sending end. At most one at a time.
#[derive(Debug)]
pub struct Sender<'a, const LINES: usize = { self::LINES }> {
    ring: &'a Ring<LINES>,
    /// Lines ever sent.
    sent: u64,
    /// Lines that the receiver had taken when it was last asked.
    taken: u64,
}

impl<'a, const LINES: usize> Sender<'a, LINES> {
    /// Of a ring that was never used.
    pub fn new(ring: &'a Ring<LINES>) -> Self {
        Sender { ring, sent: 0, taken: 0 }
    }

    /// The memory.
    pub fn ring(&self) -> &'a Ring<LINES> {
        self.ring
    }

    /// Sends a message: a tag below [`TAGS`] and up to [`MAX_WORDS`] words. The receiver gets zeros
    /// behind them, up to the end of the line.
    pub fn try_send(&mut self, tag: u32, words: &[u64]) -> Result<(), SendError> {
        let count = words.len().div_ceil(LINE_WORDS).max(1);
        if count > MAX_LINES.min(LINES) || tag >= TAGS {
            return Err(SendError::TooLarge);
        }
        if self.room() < count {
            self.refresh()?;
            if self.room() < count {
                return Err(SendError::Full);
            }
        }
        // The first line last: who sees it sees all.
        for n in (1..count).rev() {
            self.put(n, 0, 0, &words[n * LINE_WORDS..]);
        }
        self.put(0, tag, count - 1, words);
        self.sent += count as u64;
        Ok(())
    }

    fn put(&self, n: usize, tag: u32, more: usize, words: &[u64]) {
        let position = self.sent + n as u64;
        let line = self.ring.line(position);
        for (place, at) in line.words.iter().zip(0..) {
            place.store(words.get(at).copied().unwrap_or(0), Ordering::Relaxed);
        }
        line.header.store(header(position, tag, more), Ordering::Release);
    }

    /// Is there room for a message of so many words? Else the receiver has been told to say when
    /// there may be ([`Receiver::release`]), and the caller may sleep.
    pub fn room_for(&mut self, words: usize) -> Result<bool, Broken> {
        let count = words.div_ceil(LINE_WORDS).max(1);
        if self.room() < count {
            self.refresh()?;
        }
        if self.room() < count {
            self.ring.wants_room.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.refresh()?;
        }
        Ok(self.room() >= count)
    }

    /// Lines that can be written.
    fn room(&self) -> usize {
        LINES - (self.sent - self.taken) as usize
    }

    fn refresh(&mut self) -> Result<(), Broken> {
        let taken = self.ring.taken.load(Ordering::Acquire);
        if !(self.taken..=self.sent).contains(&taken) {
            return Err(Broken);
        }
        self.taken = taken;
        Ok(())
    }
}

/// What was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its tag.
    pub tag: u32,
    lines: usize,
    words: [u64; MAX_WORDS],
}

impl Message {
    /// Its words, and zeros up to the end of a line.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.lines * LINE_WORDS]
    }
}

/// The receiving end. At most one at a time.
#[derive(Debug)]
pub struct Receiver<'a, const LINES: usize = { self::LINES }> {
    ring: &'a Ring<LINES>,
    /// Lines ever received.
    received: u64,
    /// What the sender has been told of that.
    told: u64,
}

impl<'a, const LINES: usize> Receiver<'a, LINES> {
    /// After so many lines the sender is told.
    const BATCH: u64 = if LINES < 4 { 1 } else { LINES as u64 / 4 };

    /// Of a ring that was never used.
    pub fn new(ring: &'a Ring<LINES>) -> Self {
        Receiver { ring, received: 0, told: 0 }
    }

    /// The memory.
    pub fn ring(&self) -> &'a Ring<LINES> {
        self.ring
    }

    /// Is there a message? Its tag.
    pub fn peek(&self) -> Option<u32> {
        self.head().map(|(tag, _)| tag)
    }

    /// Tag and number of lines of the next message.
    fn head(&self) -> Option<(u32, usize)> {
        let header = self.ring.line(self.received).header.load(Ordering::Acquire);
        let (tag, more) = ((header >> 32) as u32 & (TAGS - 1), header >> (32 + TAG_BITS));
        (header as u32 == sequence(self.received)).then_some((tag, 1 + more as usize))
    }

    /// The next message, if there is one.
    pub fn try_recv(&mut self) -> Result<Option<Message>, Broken> {
        let Some((tag, lines)) = self.head() else { return Ok(None) };
        if lines > MAX_LINES.min(LINES) {
            return Err(Broken);
        }
        let mut words = [0; MAX_WORDS];
        for (n, part) in words.chunks_exact_mut(LINE_WORDS).take(lines).enumerate() {
            let position = self.received + n as u64;
            let line = self.ring.line(position);
            // Written before the first line's header, which was read.
            if n > 0 && line.header.load(Ordering::Relaxed) as u32 != sequence(position) {
                return Err(Broken);
            }
            for (word, place) in part.iter_mut().zip(&line.words) {
                *word = place.load(Ordering::Relaxed);
            }
        }
        self.received += lines as u64;
        if self.received - self.told >= Self::BATCH {
            self.tell();
        }
        Ok(Some(Message { tag, lines, words }))
    }

    /// Tells the sender of all room there is. `true`: it waits for room, and must be woken. To be
    /// called before going to sleep, and whenever a while may pass.
    pub fn release(&mut self) -> bool {
        if self.received != self.told {
            self.tell();
        }
        fence(Ordering::SeqCst);
        let wants = &self.ring.wants_room;
        wants.load(Ordering::Relaxed) != 0 && wants.swap(0, Ordering::Relaxed) != 0
    }

    fn tell(&mut self) {
        self.told = self.received;
        self.ring.taken.store(self.told, Ordering::Release);
    }
}
