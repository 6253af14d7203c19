//! What all parts see: a page on which the leader says what is to be done, and a page for each core on
//! which its part answers.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::time::Duration;
use libos::captypes::invocations::Identity;
use libos::interface::OwnedCap;
use libos::vspace::RW;
use libos::{domain, thread, CapType, Status, PAGE};

const WORDS: usize = (PAGE / 8) as usize;
/// On the leader's page: the number of the command, the command, its argument, and how many
/// capabilities were sent to each core.
const NUMBER: usize = 0;
const COMMAND: usize = 1;
const ARGUMENT: usize = 2;
const SENT: usize = 64;
/// On the page of a core: the number of the last command that was done, where it failed, with which
/// status, two results, and what the part holds (how many, and three words each).
const DONE: usize = 0;
const FAILED: usize = 1;
const STATUS: usize = 2;
const RESULTS: usize = 3;
const HELD: usize = 8;
const HELD_WORDS: usize = 3;
/// Looking at the board again.
const PAUSE: Duration = Duration::from_micros(200);

/// What parts are told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// So many random operations.
    Run = 1,
    /// Takes what has been sent to this core.
    Collect,
    /// Compares what is held with what should be, and writes it on the board.
    Inspect,
    /// Deletes everything.
    Clear,
    /// Says how much memory is free. Results: that with what the runtime keeps, and 1 if the monitor
    /// of this core is at rest.
    Weigh,
    /// So many dispatchers are deleted in the middle of what they do.
    Kill,
    /// So many domains are killed in the middle of what they do. Results: those that were, and those that
    /// crashed before.
    Doom,
    /// Says what the monitor of this core remembers. Results: clients and tickets, and mail, what is under
    /// way, and jobs; 16 bits each.
    Books,
    /// Ends, as it is.
    Leave,
}

const COMMANDS: [Command; 9] = [
    Command::Run,
    Command::Collect,
    Command::Inspect,
    Command::Clear,
    Command::Weigh,
    Command::Kill,
    Command::Doom,
    Command::Books,
    Command::Leave,
];

/// Why a part could not do what it was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Line of the source.
    pub line: u32,
    /// Status that came, if it was that.
    pub status: Option<Status>,
}

impl Failure {
    /// Turns an error into one.
    #[track_caller]
    pub fn here(status: Option<Status>) -> Failure {
        Failure { line: core::panic::Location::caller().line(), status }
    }
}

impl From<Status> for Failure {
    #[track_caller]
    fn from(status: Status) -> Failure {
        Failure::here(Some(status))
    }
}

/// A capability that some part holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub bytes: u64,
    /// Type.
    pub ty: CapType,
    /// As [`Identity::relations`].
    pub relations: u64,
}

impl Seen {
    /// What the kernel says of it.
    pub fn of(what: &Identity) -> Seen {
        Seen { base: what.base, bytes: what.bytes, ty: what.ty, relations: what.relations }
    }

    /// Are they capabilities to the same object?
    pub fn is_same(&self, other: &Seen) -> bool {
        (self.base, self.bytes, self.ty) == (other.base, other.bytes, other.ty)
    }
}

/// The board, mapped here.
pub struct Board {
    frame: OwnedCap,
    va: u64,
    cores: u32,
}

impl Board {
    /// A new one for so many cores.
    pub fn new(cores: u32) -> Result<Board, Status> {
        let bytes = PAGE * u64::from(1 + cores);
        Board::of(OwnedCap::own(domain::with(|domain| domain.make(CapType::Frame, bytes))?))
    }

    /// That in this Frame.
    pub fn of(frame: OwnedCap) -> Result<Board, Status> {
        let bytes = frame.cap_bytes()?;
        let va = domain::with(|domain| domain.map(frame.cap().into(), 0, bytes, RW))?;
        Ok(Board { frame, va, cores: (bytes / PAGE) as u32 - 1 })
    }

    /// A copy for a part.
    pub fn copy(&self) -> Result<OwnedCap, Status> {
        OwnedCap::copy_of(self.frame.cap())
    }

    /// How many cores it is for.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    fn page(&self, n: u32) -> &[AtomicU64; WORDS] {
        assert!(n <= self.cores);
        // SAFETY: mapped for good, whole pages of atomics.
        unsafe { &*((self.va + u64::from(n) * PAGE) as *const [AtomicU64; WORDS]) }
    }

    /// Tells all parts to do something.
    pub fn tell(&self, command: Command, argument: u64) {
        let page = self.page(0);
        page[COMMAND].store(command as u64, SeqCst);
        page[ARGUMENT].store(argument, SeqCst);
        page[NUMBER].fetch_add(1, SeqCst);
    }

    /// Have all parts done it?
    pub fn all_done(&self) -> bool {
        let number = self.page(0)[NUMBER].load(SeqCst);
        (0..self.cores).all(|core| self.page(1 + core)[DONE].load(SeqCst) == number)
    }

    /// Waits for the command behind number `last`: its number, it, and its argument.
    pub fn wait(&self, last: u64) -> (u64, Command, u64) {
        let page = self.page(0);
        while page[NUMBER].load(SeqCst) == last {
            thread::sleep(PAUSE);
        }
        let command = COMMANDS[page[COMMAND].load(SeqCst) as usize - 1];
        (last + 1, command, page[ARGUMENT].load(SeqCst))
    }

    /// The part of `core` has done the command with this number.
    pub fn done(&self, core: u32, number: u64, result: Result<[u64; 2], Failure>) {
        let page = self.page(1 + core);
        match result {
            Ok(results) => {
                for (word, result) in page[RESULTS..].iter().zip(results) {
                    word.store(result, SeqCst);
                }
            }
            Err(Failure { line, status }) => {
                page[STATUS].store(status.map_or(0, Status::to_word), SeqCst);
                page[FAILED].store(line.into(), SeqCst);
            }
        }
        page[DONE].store(number, SeqCst);
    }

    /// How the part of `core` ended the last command.
    pub fn result(&self, core: u32) -> Result<[u64; 2], Failure> {
        let page = self.page(1 + core);
        match page[FAILED].load(SeqCst) {
            0 => Ok([0, 1].map(|n| page[RESULTS + n].load(SeqCst))),
            line => Err(Failure {
                line: line as u32,
                status: Status::from_word(page[STATUS].load(SeqCst)).err(),
            }),
        }
    }

    /// How many capabilities were sent to a core, by whoever.
    pub fn sent_to(&self, core: u32) -> &AtomicU64 {
        &self.page(0)[SENT + core as usize]
    }

    /// Writes what the part of `core` holds.
    pub fn show(&self, core: u32, held: &[Seen]) {
        let page = self.page(1 + core);
        page[HELD - 1].store(held.len() as u64, SeqCst);
        for (words, seen) in page[HELD..].chunks(HELD_WORDS).zip(held) {
            words[0].store(seen.base, SeqCst);
            words[1].store(seen.bytes, SeqCst);
            words[2].store(seen.relations << 8 | seen.ty as u64, SeqCst);
        }
    }

    /// What the part of `core` holds.
    pub fn shown(&self, core: u32) -> impl Iterator<Item = Seen> + '_ {
        let page = self.page(1 + core);
        let count = page[HELD - 1].load(SeqCst) as usize;
        page[HELD..].chunks(HELD_WORDS).take(count).filter_map(|words| {
            let last = words[2].load(SeqCst);
            let ty = CapType::from_u8(last as u8)?;
            let [base, bytes] = [0, 1].map(|n| words[n].load(SeqCst));
            Some(Seen { base, bytes, ty, relations: last >> 8 })
        })
    }
}

trait Bytes {
    fn cap_bytes(&self) -> Result<u64, Status>;
}

impl Bytes for OwnedCap {
    fn cap_bytes(&self) -> Result<u64, Status> {
        libos::Cap::identify(self.cap()).map(|what| what.bytes)
    }
}
