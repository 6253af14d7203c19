//! A host drives a guest: it posts commands into memory that both see, and the guest performs each
//! and puts down what came of it.
//!
//! The mailbox is a Frame at an agreed physical address; on the host the machine's memory is a file,
//! and a physical address an offset in it. All values are little-endian words.
//!
//! ```text
//! mailbox +0x0000  head: READY, commands posted (by the host), answers given (by the guest)
//!         +0x0800  facts about the machine, written before READY
//!         +0x1000  ring of commands
//!         …        ring of answers
//! ```
//!
//! Commands are performed by one of several *executors*, each a dispatcher with a CSpace and an address
//! space of its own.

#![no_std]
#![forbid(unsafe_code)]

/// Bytes of the mailbox.
pub const MAILBOX_BYTES: u64 = 1 << 20;
/// What the guest writes to [`READY_AT`] when it listens.
pub const READY: u64 = 0x7e55_e7a1_0c57_e901;
/// Offset of the word that tells that the guest listens.
pub const READY_AT: u64 = 0;
/// Offset of the number of commands posted.
pub const POSTED_AT: u64 = 0x40;
/// Offset of the number of answers given.
pub const ANSWERED_AT: u64 = 0x80;
/// Offset of [`Facts`].
pub const FACTS_AT: u64 = 0x800;
/// Offset of the ring of commands.
pub const COMMANDS_AT: u64 = 0x1000;
/// Commands and answers that the rings hold.
pub const RING: u64 = 4096;
/// Words of a command.
pub const COMMAND_WORDS: usize = 12;
/// Words of an answer.
pub const ANSWER_WORDS: usize = 8;
/// Offset of the ring of answers.
pub const ANSWERS_AT: u64 = COMMANDS_AT + RING * COMMAND_WORDS as u64 * 8;

const _: () = assert!(ANSWERS_AT + RING * ANSWER_WORDS as u64 * 8 <= MAILBOX_BYTES);

/// How many executors there are.
pub const EXECUTORS: usize = 3;

/// Notification bit that tells an executor that it is its turn.
pub const TURN: u64 = 1 << 62;

/// Slots of the L2CNode at index 0 of each executor's root, by number.
pub mod slot {
    /// The executor's own root CNode.
    pub const ROOT: u32 = 1;
    /// Its dispatcher.
    pub const DISPATCHER: u32 = 2;
    /// Its root page table.
    pub const VSPACE: u32 = 3;
    /// The kernel.
    pub const KERNEL: u32 = 8;
    /// The roots of all executors.
    pub const ROOTS: u32 = 16;
    /// The root page tables of all executors.
    pub const VSPACES: u32 = 20;
    /// The dispatchers of all executors.
    pub const DISPATCHERS: u32 = 24;
    /// RAM that everything is made of. Only executor 0 may revoke it.
    pub const PLAY: u32 = 28;
    /// A large Frame.
    pub const BIG: u32 = 29;
    /// The home of RAM; the parts of it that may be used are in [`super::Facts`].
    pub const HOME: u32 = 30;
    /// Some PhysAddr.
    pub const DEVICE: u32 = 31;
    /// I/O ports that do nothing.
    pub const IO: u32 = 32;
    /// Interrupt lines that nobody uses.
    pub const IRQ: u32 = 33;
    /// The right to make fresh Ids.
    pub const ID: u32 = 34;
    /// The performance counters.
    pub const PERFMON: u32 = 35;
    /// Persistent RAM, full of zeros when the machine starts.
    pub const PERSISTENT: u32 = 36;

    /// All that are in use, in order.
    pub const ALL: [u32; 22] = [
        ROOT,
        DISPATCHER,
        VSPACE,
        KERNEL,
        ROOTS,
        17,
        18,
        VSPACES,
        21,
        22,
        DISPATCHERS,
        25,
        26,
        PLAY,
        BIG,
        HOME,
        DEVICE,
        IO,
        IRQ,
        ID,
        PERFMON,
        PERSISTENT,
    ];
}

/// Entries of an executor's root page table that map the program itself.
pub const OWN_ENTRIES: [u32; 2] = [0, 3];

/// What the host cannot learn by invocations: addresses of objects.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Addresses of each executor's root CNode, the L2CNode at its index 0, its root page table and
    /// its dispatcher.
    pub executors: [[u64; 4]; EXECUTORS],
    /// RAM below the home that may be taken and given back: first address and bytes.
    pub homeland: [u64; 2],
}

/// Words of [`Facts`].
pub const FACT_WORDS: usize = 4 * EXECUTORS + 2;

impl Facts {
    /// As they cross.
    pub fn to_words(self) -> [u64; FACT_WORDS] {
        let mut words = [0; FACT_WORDS];
        for (n, own) in self.executors.iter().enumerate() {
            words[4 * n..4 * n + 4].copy_from_slice(own);
        }
        words[4 * EXECUTORS..].copy_from_slice(&self.homeland);
        words
    }
    /// From what crossed.
    pub fn from_words(words: &[u64; FACT_WORDS]) -> Facts {
        let own = |n: usize| core::array::from_fn(|i| words[4 * n + i]);
        Facts {
            executors: core::array::from_fn(own),
            homeland: [words[4 * EXECUTORS], words[4 * EXECUTORS + 1]],
        }
    }
}

/// What a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kind {
    /// Word 1: `rax`; word 2: `rdi`; from word 3 on the nine arguments. Answer: status, six results,
    /// how often it answered `Again` before.
    Invoke = 0,
    /// Word 1: address; word 2: 0 read, 1 write, 2 execute; word 3: what to write. Answer: 0 and what
    /// was read; or 1, vector, error code, address.
    Touch = 1,
    /// Word 1: place of a slot; word 2: slots. Answer: 0 and the [`Digest`] of what `Identify` says
    /// of each.
    Sweep = 2,
    /// Takes the notification bits of the executor. Answer: 0 and the bits.
    Take = 3,
    /// Ends the machine.
    Stop = 4,
}

impl Kind {
    /// The kind with this number.
    pub fn from_word(word: u64) -> Option<Kind> {
        let all = [Kind::Invoke, Kind::Touch, Kind::Sweep, Kind::Take, Kind::Stop];
        all.into_iter().find(|&kind| kind as u64 == word)
    }
}

/// One command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// What is asked for.
    pub kind: Kind,
    /// Who performs it.
    pub executor: usize,
    /// Its words from the second on.
    pub words: [u64; COMMAND_WORDS - 1],
}

impl Command {
    /// A command with some words.
    pub fn new(kind: Kind, executor: usize, words: &[u64]) -> Command {
        let mut all = [0; COMMAND_WORDS - 1];
        all[..words.len()].copy_from_slice(words);
        Command { kind, executor, words: all }
    }
    /// As it crosses.
    pub fn to_words(self) -> [u64; COMMAND_WORDS] {
        let mut words = [0; COMMAND_WORDS];
        words[0] = self.kind as u64 | (self.executor as u64) << 8;
        words[1..].copy_from_slice(&self.words);
        words
    }
    /// From what crossed; `None` if that is no command.
    pub fn from_words(words: &[u64; COMMAND_WORDS]) -> Option<Command> {
        let executor = (words[0] >> 8) as usize;
        let kind = Kind::from_word(words[0] & 0xff)?;
        let words = core::array::from_fn(|n| words[n + 1]);
        (executor < EXECUTORS).then_some(Command { kind, executor, words })
    }
}

/// What came of a command, see [`Kind`].
pub type Answer = [u64; ANSWER_WORDS];

/// A number that tells sequences of words apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(pub u64);

impl Digest {
    /// Of nothing.
    pub const fn new() -> Digest {
        Digest(0x9e37_79b9_7f4a_7c15)
    }
    /// With one more word.
    #[must_use]
    pub const fn with(self, word: u64) -> Digest {
        Digest((self.0 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29))
    }
    /// With what `Identify` answered; `mapping`: the type of Mappings, whose attributes mean nothing.
    #[must_use]
    pub fn with_identity(self, status: u64, words: &[u64; 6], mapping: u64) -> Digest {
        if status != 0 {
            return self.with(status);
        }
        let attrs = if words[0] == mapping { 0 } else { words[2] };
        let kept = [words[0], words[1], attrs, words[3], words[4], words[5]];
        kept.into_iter().fold(self.with(0), Digest::with)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_cross() {
        let command = Command::new(Kind::Touch, 2, &[7, 1, 9]);
        assert_eq!(Command::from_words(&command.to_words()), Some(command));
        let mut wrong = command.to_words();
        wrong[0] = 77;
        assert_eq!(Command::from_words(&wrong), None);
        wrong[0] = (EXECUTORS as u64) << 8;
        assert_eq!(Command::from_words(&wrong), None);
    }

    #[test]
    fn facts_cross() {
        let facts = Facts { executors: [[1, 2, 3, 4], [5; 4], [6; 4]], homeland: [8, 9] };
        assert_eq!(Facts::from_words(&facts.to_words()), facts);
    }

    #[test]
    fn digests_differ() {
        let of = |words: &[u64]| words.iter().fold(Digest::new(), |d, &w| d.with(w));
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
        assert_ne!(of(&[0]), of(&[0, 0]));
    }
}
