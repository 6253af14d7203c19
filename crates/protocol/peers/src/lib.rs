//! A ring of bytes from one process, the writer, to another one, the reader, that a server lends to both.
//!
//! ```text
//! bytes      written by the writer                  ring of RING bytes
//! written    by the writer: bytes written so far    a word, with the bit CLOSED
//! read       by the reader: bytes read so far       a word, with the bit CLOSED
//! sleeps     one word of each: odd while its owner waits for the other end
//! ```
//!
//! Each end copies bytes first and exchanges its own word then. The server closes the ring by a bit in both words: from then
//! on both exchanges fail, and what the two words say is what is in it. So an end either has moved bytes before the ring was
//! closed, or it has not, and does the same by a request. The server opens the ring again where it has closed it, once it is empty.
//!
//! Nobody believes a word: two that cannot be are [`Nonsense`], and no place outside of the ring comes of any.
//!
//! **Sleeping.** Who finds nothing to do announces that he sleeps and looks again; who has moved bytes looks whether the
//! other one sleeps. Either the one sees the bytes or the other the announcement. Each sleep has a number, and
//! is ended by one notification.

#![cfg_attr(not(test), no_std)]

/// Bytes of the ring: as many as a pipe holds.
pub const RING: usize = 64 * 1024;
/// Bit of `written` and `read`: the server has taken the ring back.
pub const CLOSED: u32 = 1 << 31;
/// Numbers of bytes are counted up to here, and begin anew.
const COUNTED: u32 = CLOSED - 1;
/// Where an end has its two words, in bytes from the start of its page: in lines of their own.
pub const SLEEPS_OFFSET: usize = 64;
/// Where in the reader's page the server counts how often it has closed the ring: before it does.
pub const CLOSINGS_OFFSET: usize = 128;

/// Two words that cannot be: somebody has written to them who should not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonsense;

/// A word that two ends and the server use. Whoever sees what was stored sees everything that was stored before.
pub trait Word {
    /// Why it cannot be used: its memory is gone.
    type Error;
    /// What it is.
    ///
    /// # Errors
    /// It is gone.
    fn load(&self) -> Result<u32, Self::Error>;
    /// Sets it, if it is `old`; answers whether it was.
    ///
    /// # Errors
    /// It is gone.
    fn replace(&self, old: u32, new: u32) -> Result<bool, Self::Error>;
    /// What was stored before is seen by whoever stores something that is loaded afterwards.
    fn order() {
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }
}

/// How many bytes are in a ring, by what was written and what was read. The bit [`CLOSED`] says nothing.
///
/// # Errors
/// More than there is room for.
#[inline]
pub const fn filled(written: u32, read: u32) -> Result<usize, Nonsense> {
    let bytes = (written.wrapping_sub(read) & COUNTED) as usize;
    match bytes <= RING {
        true => Ok(bytes),
        false => Err(Nonsense),
    }
}

/// Where in the ring a byte of this number is.
#[inline]
pub const fn place(count: u32) -> usize {
    count as usize % RING
}

/// A number of bytes and so many more.
#[inline]
pub const fn further(count: u32, bytes: usize) -> u32 {
    count.wrapping_add(bytes as u32) & COUNTED
}

/// What an end may use of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    count: u32,
    /// How many bytes there are to be read, or there is room for.
    pub bytes: usize,
}

impl Part {
    /// The number of the byte behind it.
    #[inline]
    pub fn end(self) -> u32 {
        further(self.count, self.bytes)
    }

    /// Were there bytes up to the one with a number that the reader has not read, and are not there any more?
    pub fn falls_short_of(self, end: u32) -> bool {
        filled(end, self.count).is_ok_and(|before| before > self.bytes)
    }

    /// The pieces of its first bytes: where each begins in the ring, and how many bytes it has.
    #[inline]
    pub fn pieces(self, bytes: usize) -> [(usize, usize); 2] {
        let (at, bytes) = (place(self.count), bytes.min(self.bytes));
        let first = bytes.min(RING - at);
        [(at, first), (0, bytes - first)]
    }
}

/// What an end finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// It may be used.
    Open(Part),
    /// The server has it.
    Closed,
    /// [`Nonsense`].
    Nonsense,
}

/// An end of a ring.
#[derive(Debug)]
pub struct End<W> {
    /// Bytes that this end has moved, and those that the other has.
    pub own: W,
    /// See there.
    pub other: W,
    /// Does this end sleep, and the other?
    pub sleeps: W,
    /// See there.
    pub other_sleeps: W,
    /// Is it the one that writes?
    pub writes: bool,
}

impl<W: Word> End<W> {
    /// Looks at the ring.
    ///
    /// # Errors
    /// It is gone.
    #[inline]
    pub fn look(&self) -> Result<Found, W::Error> {
        let (own, other) = (self.own.load()?, self.other.load()?);
        if (own | other) & CLOSED != 0 {
            return Ok(Found::Closed);
        }
        let (written, read) = if self.writes { (own, other) } else { (other, own) };
        Ok(match filled(written, read) {
            Ok(filled) if self.writes => Found::Open(Part { count: own, bytes: RING - filled }),
            Ok(filled) => Found::Open(Part { count: own, bytes: filled }),
            Err(Nonsense) => Found::Nonsense,
        })
    }

    /// The first `bytes` bytes of a part, which are no more than it has, have been copied. `false`: they do not count.
    ///
    /// # Errors
    /// It is gone: they do not count either.
    #[inline]
    pub fn moved(&self, part: Part, bytes: usize) -> Result<bool, W::Error> {
        self.own.replace(part.count, further(part.count, bytes))
    }

    /// Announces that this end sleeps, and answers by which word that is ended. It looks at the ring again now.
    ///
    /// # Errors
    /// It is gone.
    pub fn lie_down(&self) -> Result<u32, W::Error> {
        loop {
            let word = self.sleeps.load()?;
            let asleep = (word | 1).wrapping_add(if word & 1 == 1 { 2 } else { 0 });
            if self.sleeps.replace(word, asleep)? {
                W::order();
                return Ok(asleep);
            }
        }
    }

    /// This end sleeps no more.
    ///
    /// # Errors
    /// It is gone.
    pub fn get_up(&self, asleep: u32) -> Result<(), W::Error> {
        // If it is another word, that is not the server's doing.
        self.sleeps.replace(asleep, asleep.wrapping_add(1)).map(drop)
    }

    /// Bytes have been moved: does the other end sleep that was not woken from this sleep? `woken` is kept for
    /// that, and 0 at first.
    ///
    /// # Errors
    /// It is gone.
    #[inline]
    pub fn is_to_wake(&self, woken: &mut u32) -> Result<bool, W::Error> {
        W::order();
        let word = self.other_sleeps.load()?;
        let is_new = word & 1 == 1 && word != *woken;
        if is_new {
            *woken = word;
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::collections::VecDeque;

    impl Word for &Cell<u32> {
        type Error = ();
        fn load(&self) -> Result<u32, ()> {
            Ok(self.get())
        }
        fn replace(&self, old: u32, new: u32) -> Result<bool, ()> {
            let is_it = self.get() == old;
            if is_it {
                self.set(new);
            }
            Ok(is_it)
        }
    }

    fn ends(words: &[Cell<u32>; 4]) -> [End<&Cell<u32>>; 2] {
        let [written, read, writer, reader] = words;
        [
            End { own: written, other: read, sleeps: writer, other_sleeps: reader, writes: true },
            End { own: read, other: written, sleeps: reader, other_sleeps: writer, writes: false },
        ]
    }

    fn open(end: &End<&Cell<u32>>) -> Part {
        match end.look().unwrap() {
            Found::Open(part) => part,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_ring_is_a_queue() {
        let mut random = fastrand::Rng::with_seed(1);
        // Near the end of the numbers, too.
        for start in [0, COUNTED - 1000, 12_345] {
            let words = [start, start, 0, 0].map(Cell::new);
            let [writer, reader] = ends(&words);
            let (mut ring, mut model, mut next) = (vec![0u8; RING], VecDeque::new(), 0u8);
            for _ in 0..2_000 {
                let part = open(&writer);
                assert_eq!(part.bytes, RING - model.len());
                let bytes = random.usize(..9000).min(part.bytes);
                for (at, bytes) in part.pieces(bytes) {
                    for byte in &mut ring[at..at + bytes] {
                        (*byte, next) = (next, next.wrapping_add(7));
                        model.push_back(*byte);
                    }
                }
                assert!(writer.moved(part, bytes).unwrap());
                let part = open(&reader);
                assert_eq!(part.bytes, model.len());
                let wanted = random.usize(..9000);
                let mut done = 0;
                for (at, bytes) in part.pieces(wanted) {
                    done += bytes;
                    ring[at..at + bytes]
                        .iter()
                        .for_each(|byte| assert_eq!(Some(*byte), model.pop_front()));
                }
                assert_eq!(done, wanted.min(part.bytes));
                assert!(reader.moved(part, done).unwrap());
            }
        }
    }

    #[test]
    fn words_that_cannot_be_lead_nowhere() {
        let mut random = fastrand::Rng::with_seed(2);
        let words = [0, 0, 0, 0].map(Cell::new);
        let ends = ends(&words);
        for _ in 0..200_000 {
            words.iter().for_each(|word| {
                word.set(match random.u8(..3) {
                    0 => random.u32(..),
                    1 => random.u32(..2 * RING as u32),
                    _ => COUNTED - random.u32(..RING as u32),
                })
            });
            for end in &ends {
                let is_closed = (words[0].get() | words[1].get()) & CLOSED != 0;
                match end.look().unwrap() {
                    Found::Closed => assert!(is_closed),
                    Found::Nonsense => assert!(!is_closed),
                    Found::Open(part) => {
                        assert!(!is_closed && part.bytes <= RING);
                        let pieces = part.pieces(random.usize(..2 * RING));
                        assert!(pieces.iter().all(|(at, bytes)| at + bytes <= RING));
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_written_and_is_not_any_more_is_noticed() {
        for start in [0, COUNTED - 10] {
            let words = [start, start, 0, 0].map(Cell::new);
            let [writer, reader] = ends(&words);
            assert!(writer.moved(open(&writer), 20).unwrap());
            let end = open(&reader).end();
            assert!(!open(&reader).falls_short_of(end));
            // It is read, and more is written.
            assert!(reader.moved(open(&reader), 20).unwrap());
            assert!(!open(&reader).falls_short_of(end));
            assert!(writer.moved(open(&writer), 30).unwrap());
            assert!(!open(&reader).falls_short_of(end));
            let end = open(&reader).end();
            words[0].set(further(words[0].get(), COUNTED as usize - 5));
            assert!(open(&reader).falls_short_of(end));
        }
    }

    #[test]
    fn what_is_closed_is_not_moved() {
        let words = [5, 3, 0, 0].map(Cell::new);
        for end in ends(&words) {
            let part = open(&end);
            words.iter().take(2).for_each(|word| word.set(word.get() | CLOSED));
            assert_eq!(end.look(), Ok(Found::Closed));
            assert_eq!(end.moved(part, 1), Ok(false));
            words.iter().take(2).for_each(|word| word.set(word.get() & !CLOSED));
            assert_eq!(end.moved(part, 1), Ok(true));
        }
    }

    #[test]
    fn each_sleep_is_ended_once() {
        let words = [0, 0, 0, 0].map(Cell::new);
        let [writer, reader] = ends(&words);
        let mut woken = 0;
        assert_eq!(writer.is_to_wake(&mut woken), Ok(false));
        for _ in 0..3 {
            let first = reader.lie_down().unwrap();
            assert_eq!(writer.is_to_wake(&mut woken), Ok(true));
            assert_eq!(writer.is_to_wake(&mut woken), Ok(false));
            // It has woken for nothing, and sleeps again.
            let second = reader.lie_down().unwrap();
            assert_ne!(first, second);
            assert_eq!(writer.is_to_wake(&mut woken), Ok(true));
            reader.get_up(second).unwrap();
            assert_eq!(writer.is_to_wake(&mut woken), Ok(false));
        }
    }
}
