//! What is said about processes whose home is another core than `unixd`'s: by `unixd` and its *stand-in* on that
//! core, and by such a process and the stand-in.
//!
//! A *unit* is a dispatcher that a stand-in holds, with its CSpace if it is the first of a domain. Its number is never given again.
//! Capabilities go by the monitors, under [`key`]s that nobody else can know.
//!
//! ```text
//! stand-in ─ Call ────────────► unixd     what it has done or found, and what it is to do next
//! unixd    ─ Notify ──────────► stand-in  there is something to do
//! process  ─ Call, with caps ─► stand-in  a request with capabilities, in either direction
//! stand-in ─ Call ────────────► unixd     the same request, without them
//! ```

use crate::{Errno, Words};

/// The program of the stand-in in the boot archive.
pub const PROGRAM: &str = "boot/homed";
/// Notification bit of a stand-in: `unixd` has something for it to do.
pub const ERRANDS: u64 = 1;
/// Numbers of units from here on are given by `unixd`, those below by the stand-in.
pub const MADE_TO_ORDER: u32 = 1 << 31;
/// Word of a request to the stand-in in which the caller's thread is. What it asks for has fewer.
pub const THREAD_WORD: usize = 5;

/// What a capability that crosses is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Item {
    /// The endpoint of `unixd` for the stand-in.
    Server = 1,
    /// The library's ELF file.
    Library = 2,
    /// Where the stand-in is notified.
    Bell = 3,
    /// A dispatcher, of this unit.
    Dispatcher = 4,
    /// What a domain is made with that `unixd` has asked for: the endpoint of its process, then the session frame.
    Voice = 5,
    /// What comes with the answer to a request: the first, and those behind it. Instead of a unit, how many such answers there
    /// were before.
    Answer = 6,
    /// The memory server of the stand-in's core, to be asked for numbers.
    Memory = 7,
}

/// Under which key a capability of this kind goes to or from the stand-in of a core, for a unit: the first, or the one with this
/// index behind it.
pub const fn key(secret: u64, core: u32, item: Item, unit: u32, index: u32) -> u64 {
    let what = (core as u64) << 48 | (item as u64) << 40 | (index as u64 & 0xff) << 32;
    secret ^ (what | unit as u64)
}

/// Word 0 of what a stand-in says, in its lowest byte.
mod said {
    pub const READY: u64 = 1;
    pub const SENT: u64 = 5;
    pub const NEXT: u64 = 2;
    pub const MADE: u64 = 3;
    pub const ENDED: u64 = 4;
    pub const FAILED: u64 = 6;
    pub const CARRY: u64 = 7;
}

/// What a stand-in says to `unixd`. It is answered with an [`Errand`], but for `Carry`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// It is ready: its bell has come.
    Ready,
    /// It has sent something for a unit. Word 1 of the answer is 1 if that has come; it is asked again if not.
    Sent {
        /// What.
        item: Item,
        /// The unit.
        unit: u32,
    },
    /// Nothing has happened.
    Next,
    /// A domain has been made, and its dispatcher has been sent; or there was an error.
    Made {
        /// The unit.
        unit: u32,
        /// Whether it is there.
        is_there: bool,
    },
    /// Nothing is left of a unit.
    Ended {
        /// The unit.
        unit: u32,
    },
    /// A unit cannot go on: a fault that it does not handle, or one that could not be started.
    Failed {
        /// The unit.
        unit: u32,
        /// Vector of the exception.
        vector: u64,
        /// Its error code.
        error: u64,
        /// The address.
        address: u64,
        /// The instruction.
        rip: u64,
    },
    /// A request that a process has sent with capabilities, or to be answered with some. It is answered as the process is to
    /// be, with [`Carried`] in the head.
    Carry {
        /// The unit of the domain from which it came.
        unit: u32,
        /// The thread that says it has sent it.
        thread: u32,
        /// The request.
        words: [u64; 5],
    },
}

impl Said {
    /// As it crosses.
    pub fn encode(self) -> Words {
        let head = |what: u64, unit: u32| what | (unit as u64) << 32;
        match self {
            Said::Ready => [said::READY, 0, 0, 0, 0, 0],
            Said::Sent { item, unit } => [head(said::SENT, unit), item as u64, 0, 0, 0, 0],
            Said::Next => [said::NEXT, 0, 0, 0, 0, 0],
            Said::Made { unit, is_there } => [head(said::MADE, unit), is_there as u64, 0, 0, 0, 0],
            Said::Ended { unit } => [head(said::ENDED, unit), 0, 0, 0, 0, 0],
            Said::Failed { unit, vector, error, address, rip } => {
                [head(said::FAILED, unit), vector, error, address, rip, 0]
            }
            Said::Carry { unit, thread, words: [a, b, c, d, e] } => {
                let thread = (thread as u64 & 0xff_ffff) << 8;
                [head(said::CARRY, unit) | thread, a, b, c, d, e]
            }
        }
    }

    /// What has crossed. `None`: nothing of the kind.
    pub fn decode(words: &Words) -> Option<Said> {
        let &[head, a, b, c, d, e] = words;
        let unit = (head >> 32) as u32;
        Some(match head & 0xff {
            said::READY => Said::Ready,
            said::SENT => {
                let known = [Item::Bell, Item::Dispatcher, Item::Memory].into_iter();
                let item = known.into_iter().find(|item| *item as u64 == a)?;
                Said::Sent { item, unit }
            }
            said::NEXT => Said::Next,
            said::MADE => Said::Made { unit, is_there: a == 1 },
            said::ENDED => Said::Ended { unit },
            said::FAILED => Said::Failed { unit, vector: a, error: b, address: c, rip: d },
            said::CARRY => {
                let thread = (head >> 8) as u32 & 0xff_ffff;
                Said::Carry { unit, thread, words: [a, b, c, d, e] }
            }
            _ => return None,
        })
    }
}

/// Word 0 of an errand, in its lowest byte.
mod errand {
    pub const NONE: u64 = 0;
    pub const MAKE: u64 = 1;
    pub const START: u64 = 2;
    pub const END: u64 = 3;
}

/// What a stand-in is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    /// Nothing more.
    None,
    /// To make a domain that was never anybody's, as this unit, with what comes as [`Item::Voice`].
    Make(u32),
    /// To start one that it has made.
    Start(u32),
    /// To take it apart, bit by bit, and then to say so.
    End(u32),
}

impl Errand {
    /// As it crosses.
    pub fn encode(self) -> Words {
        let (what, unit) = match self {
            Errand::None => (errand::NONE, 0),
            Errand::Make(unit) => (errand::MAKE, unit),
            Errand::Start(unit) => (errand::START, unit),
            Errand::End(unit) => (errand::END, unit),
        };
        [what | (unit as u64) << 32, 0, 0, 0, 0, 0]
    }

    /// What has crossed.
    pub fn decode(words: &Words) -> Errand {
        let unit = (words[0] >> 32) as u32;
        match words[0] & 0xff {
            errand::MAKE => Errand::Make(unit),
            errand::START => Errand::Start(unit),
            errand::END => Errand::End(unit),
            _ => Errand::None,
        }
    }
}

/// What comes with the answer to a request that was carried. It is in the head, above the error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// Nothing: the request is refused, or has no capabilities in its answer.
    Nothing,
    /// So many capabilities, as [`Item::Answer`].
    Caps(u32),
    /// What was sent is taken: the stand-in settles it and starts it. A native domain may use the monitor.
    Taken {
        /// It may.
        monitor: bool,
    },
    /// The new thread's dispatcher is taken; endpoint and session frame come as [`Item::Answer`].
    Thread,
    /// It cannot be answered at once: the caller is to ask `unixd` itself, and again here when that has answered.
    Later,
}

const SHIFT: u32 = 32;
const TAKEN: u64 = 8;
const TAKEN_WITH_MONITOR: u64 = 9;
const THREAD: u64 = 10;
const LATER: u64 = 11;

impl Carried {
    /// Puts it in an answer.
    pub fn put(self, words: &mut Words) {
        let what = match self {
            Carried::Nothing => 0,
            Carried::Caps(count) => (count as u64).min(TAKEN - 1),
            Carried::Taken { monitor: false } => TAKEN,
            Carried::Taken { monitor: true } => TAKEN_WITH_MONITOR,
            Carried::Thread => THREAD,
            Carried::Later => LATER,
        };
        words[0] |= what << SHIFT;
    }

    /// Takes it out of an answer.
    pub fn take(words: &mut Words) -> Carried {
        let what = words[0] >> SHIFT;
        words[0] &= (1 << SHIFT) - 1;
        match what {
            TAKEN => Carried::Taken { monitor: false },
            TAKEN_WITH_MONITOR => Carried::Taken { monitor: true },
            THREAD => Carried::Thread,
            LATER => Carried::Later,
            count if count < TAKEN => match count as u32 {
                0 => Carried::Nothing,
                count => Carried::Caps(count),
            },
            _ => Carried::Nothing,
        }
    }
}

/// Sends a request with capabilities, or that is answered with some, for a thread whose home is another core. `brings`: it comes with some. `carry` calls
/// the stand-in, `ask` `unixd` itself, and `error` says what an answer's first word is.
pub fn from_elsewhere<A, E>(
    words: Words,
    (thread, brings): (u32, bool),
    mut carry: impl FnMut(Words) -> Result<A, E>,
    mut ask: impl FnMut(Words) -> Result<A, E>,
    error: impl Fn(&A) -> u64,
) -> Result<A, E> {
    let mut carried = words;
    carried[THREAD_WORD] = thread.into();
    loop {
        let answer = carry(carried)?;
        if error(&answer) != LATER_ERROR.0 as u64 || brings {
            return Ok(answer);
        }
        // The stand-in waits for nobody: what may take long is asked for here, and is there then.
        let answer = ask(words)?;
        if error(&answer) != 0 {
            return Ok(answer);
        }
    }
}

/// What a process is told that is to ask `unixd` itself first.
pub const LATER_ERROR: Errno = Errno::EINPROGRESS;

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    #[test]
    fn what_is_said_arrives() {
        let words = [1, 2, 3, 4, u64::MAX];
        for said in [
            Said::Ready,
            Said::Sent { item: Item::Bell, unit: 0 },
            Said::Sent { item: Item::Memory, unit: 0 },
            Said::Sent { item: Item::Dispatcher, unit: 9 },
            Said::Next,
            Said::Made { unit: u32::MAX, is_there: true },
            Said::Ended { unit: 7 },
            Said::Failed { unit: 1, vector: 14, error: 2, address: 3, rip: 4 },
            Said::Carry { unit: u32::MAX, thread: 32767, words },
        ] {
            assert_eq!(Said::decode(&said.encode()), Some(said));
        }
        assert_eq!(Said::decode(&[99, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn errands_arrive() {
        for errand in
            [Errand::None, Errand::Make(MADE_TO_ORDER), Errand::Start(1), Errand::End(u32::MAX)]
        {
            assert_eq!(Errand::decode(&errand.encode()), errand);
        }
    }

    #[test]
    fn an_answer_keeps_its_error_and_its_words() {
        let all = [
            Carried::Nothing,
            Carried::Caps(1),
            Carried::Caps(2),
            Carried::Taken { monitor: false },
            Carried::Taken { monitor: true },
            Carried::Thread,
            Carried::Later,
        ];
        for carried in all {
            let before = [Errno::ESRCH.0 as u64, 1, 2, 3, 4, 5];
            let mut words = before;
            carried.put(&mut words);
            assert_eq!((Carried::take(&mut words), words), (carried, before));
        }
    }

    #[test]
    fn who_is_to_ask_later_asks_until_it_is_there() {
        const LATER: u64 = LATER_ERROR.0 as u64;
        // What the stand-in answers one time after the other, and `unixd`; what comes of it, and how often each was asked.
        type Case = (&'static [u64], &'static [u64], bool, u64, [usize; 2]);
        let cases: [Case; 5] = [
            (&[7], &[], false, 7, [1, 0]),
            (&[LATER, LATER, 5], &[0, 0], false, 5, [3, 2]),
            (&[LATER], &[9], false, 9, [1, 1]),
            (&[LATER], &[], true, LATER, [1, 0]),
            (&[0], &[], false, 0, [1, 0]),
        ];
        for (carried, asked, brings, expected, times) in cases {
            let mut counts = [0; 2];
            let [carry, ask] = &mut counts;
            let words = [1, 2, 3, 4, 5, 6];
            let answer = from_elsewhere(
                words,
                (77, brings),
                |sent| {
                    assert_eq!((sent[THREAD_WORD], &sent[..5]), (77, &words[..5]));
                    *carry += 1;
                    Ok::<u64, ()>(carried[*carry - 1])
                },
                |sent| {
                    assert_eq!(sent, words);
                    *ask += 1;
                    Ok(asked[*ask - 1])
                },
                |answer| *answer,
            );
            assert_eq!((answer, counts), (Ok(expected), times));
        }
    }

    #[test]
    fn no_two_keys_are_the_same() {
        let items = [
            Item::Server,
            Item::Library,
            Item::Bell,
            Item::Dispatcher,
            Item::Voice,
            Item::Answer,
            Item::Memory,
        ];
        let mut keys: Vec<u64> = Vec::new();
        for core in 0..64 {
            for item in items {
                for index in 0..4 {
                    let units = [0, 1, MADE_TO_ORDER, u32::MAX];
                    keys.extend(units.map(|unit| key(77, core, item, unit, index)));
                }
            }
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
