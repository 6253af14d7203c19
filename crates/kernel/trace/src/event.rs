//! The 8 bytes of an event.
//!
//! ```text
//! bit 63                             24 23  22 21                    0
//!    ┌─────────────────────────────────┬──────┬───────────────────────┐
//!    │ time-stamp counter, low 40 bits │ kind │ function or mark      │
//!    └─────────────────────────────────┴──────┴───────────────────────┘
//! ```
//!
//! Times are told apart by their difference to the event before on the same core, modulo 2⁴⁰: an
//! event is written without a look at the one before it, and is still read as a difference. The low
//! 24 bits of a function's event are a constant of the place where the probe stands.

/// Bits of the time in an event.
pub const TIME_BITS: u32 = 40;
/// Bits of the rest.
pub const WORD_BITS: u32 = 64 - TIME_BITS;
/// Bits of a function's number.
pub const FUNCTION_BITS: u32 = 22;
/// Bits of what a mark says.
pub const PAYLOAD_BITS: u32 = 18;

const KIND_ENTER: u32 = 0;
const KIND_EXIT: u32 = 1;
const KIND_MARK: u32 = 2;

/// An event as recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Event(pub u64);

/// What an event says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// A function is entered.
    Enter(u32),
    /// A function returns, or calls another as its last act.
    Exit(u32),
    Mark(Mark),
}

/// What no function's entry or exit says. Payloads have [`PAYLOAD_BITS`]; dispatchers are named by
/// the page number of their control block, and by no more of it than that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mark {
    /// Set several times in a row when tracing starts, to measure what a probe costs.
    Calibrate,
    /// The kernel will leave to this dispatcher.
    Switch(u32),
    /// The kernel will leave to nobody.
    Idle,
    /// A new dispatcher: what was known of its number belonged to another.
    Created(u32),
    /// The kernel will leave to an upcall entry, whose number this is, of the running dispatcher.
    Upcall(u32),
    /// The library gives way to the program of the process with this number.
    Program(u32),
    /// The library handles this system call of its program.
    LinuxCall(u32),
    /// The kernel leaves without returning from the functions that it is in.
    Leave,
    /// A library goes on with another of its threads.
    Thread(u32),
}

/// Why 8 bytes are no event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoEvent(pub u64);

impl core::fmt::Display for NoEvent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#018x} is no event", self.0)
    }
}

impl core::error::Error for NoEvent {}

impl Mark {
    /// The low bits of a mark's event.
    #[inline(always)]
    pub const fn word(self) -> u32 {
        let (code, payload) = match self {
            Mark::Calibrate => (0, 0),
            Mark::Switch(dispatcher) => (1, dispatcher),
            Mark::Idle => (2, 0),
            Mark::Created(dispatcher) => (3, dispatcher),
            Mark::Upcall(entry) => (4, entry),
            Mark::Program(process) => (5, process),
            Mark::LinuxCall(number) => (6, number),
            Mark::Leave => (7, 0),
            Mark::Thread(thread) => (8, thread),
        };
        KIND_MARK << FUNCTION_BITS | code << PAYLOAD_BITS | payload & ((1 << PAYLOAD_BITS) - 1)
    }

    fn of(word: u32) -> Option<Mark> {
        let payload = word & ((1 << PAYLOAD_BITS) - 1);
        let with = |mark| (payload == 0).then_some(mark);
        match (word & ((1 << FUNCTION_BITS) - 1)) >> PAYLOAD_BITS {
            0 => with(Mark::Calibrate),
            1 => Some(Mark::Switch(payload)),
            2 => with(Mark::Idle),
            3 => Some(Mark::Created(payload)),
            4 => Some(Mark::Upcall(payload)),
            5 => Some(Mark::Program(payload)),
            6 => Some(Mark::LinuxCall(payload)),
            7 => with(Mark::Leave),
            8 => Some(Mark::Thread(payload)),
            _ => None,
        }
    }
}

impl What {
    /// The low bits of the event.
    pub const fn word(self) -> u32 {
        match self {
            What::Enter(function) => KIND_ENTER << FUNCTION_BITS | function,
            What::Exit(function) => KIND_EXIT << FUNCTION_BITS | function,
            What::Mark(mark) => mark.word(),
        }
    }
}

impl Event {
    /// The event that says `what` at `time`, of which the low [`TIME_BITS`] are kept.
    pub const fn new(time: u64, what: What) -> Event {
        Event(time << WORD_BITS | what.word() as u64)
    }

    /// The low [`TIME_BITS`] of the time-stamp counter.
    pub const fn time(self) -> u64 {
        self.0 >> WORD_BITS
    }

    /// What it says.
    ///
    /// # Errors
    ///
    /// [`NoEvent`] if no probe writes such a word.
    pub fn what(self) -> Result<What, NoEvent> {
        let word = self.0 as u32 & ((1 << WORD_BITS) - 1);
        let function = word & ((1 << FUNCTION_BITS) - 1);
        match word >> FUNCTION_BITS {
            KIND_ENTER => Ok(What::Enter(function)),
            KIND_EXIT => Ok(What::Exit(function)),
            KIND_MARK => Mark::of(word).map(What::Mark).ok_or(NoEvent(self.0)),
            _ => Err(NoEvent(self.0)),
        }
    }
}
