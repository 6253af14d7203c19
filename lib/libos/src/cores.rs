//! Other cores: how many there are, and parts of a program on them.
//!
//! Every core has a *monitor*, and a `spawnd` that starts programs of the boot archive there. A program
//! asks the monitor of its own core; the monitors talk to one another. What takes longer is begun by a
//! call and told by a notification:
//!
//! ```text
//! program ─ spawn ─► monitor 0 ═ ring ═► monitor 2 ─ bell ─► spawnd 2 ─► the part
//!    ▲                  │  ▲                 │  ▲                │ ▲        │
//!    ╰──── bell ◄───────╯  ╰══════ ring ═════╯  ╰──── ended ─────╯ ╰─ exit ─╯
//! ```

use crate::ephemeral::Window;
use crate::interface::{OwnedCap, Remote};
use crate::ipc::{self, Caps};
use crate::local::Local;
use crate::vspace::RW;
use crate::{channel, domain, runtime, thread, Cap};
use abi::layout::PAGE;
use abi::slots::{MONITOR, REPORT};
use alloc::vec::Vec;
use captypes::{CapType, Place, Rights, Status};

/// Bytes that the name and the arguments of a part may have, with a NUL behind each.
pub const WORDS_BYTES: usize = 160;
/// Bytes of a piece of them ([`monitor::Client::job_text`]).
pub const PIECE: usize = 32;
/// Word 0 of what a part tells `spawnd` at [`REPORT`]: its end, with the exit status in word 1.
pub const EXIT: u64 = 1;
/// Exit status of a part that has failed with an exception that it does not handle.
pub const CRASHED: u64 = 139;
/// Exit status of a part that was killed, or whose program has gone.
pub const KILLED: u64 = 137;
/// Badge of the endpoint to the monitor that every program has, by which it can become a client.
pub const PUBLIC: u32 = 1;
/// Badge of that of the core's memory server.
pub const MEMORY_SERVER: u32 = 2;
/// Notification bit of a memory server: another core wishes memory.
pub const WISHED: u64 = 1;
/// Notification bit of a memory server: what it has asked for is answered.
pub const BORROWED: u64 = 2;

crate::interface! {
    /// What a monitor does for the domains of its core.
    pub mod monitor {
        /// The number of this core, how many there are, and the set of those with a monitor.
        1 fn machine() -> (u32, u32, u64);
        /// Makes the domain that receives at the bell a client, whom the monitor tells of results there:
        /// an endpoint of its own, through which everything that follows must be asked. When the
        /// dispatcher that receives there is deleted, the client has gone: what it has begun is forgotten,
        /// programs that it has started end, and what it has sent and nobody expects is deleted.
        10 fn open(bell: OwnedCap) -> OwnedCap;
        /// Begins to send something to the monitor of a core and back, so many times. The result are
        /// the ticks of the time-stamp counter that it took. The answer of this and of what else is
        /// begun is a ticket.
        2 fn ping(core: u32, rounds: u32) -> u32;
        /// Begins to run a program on a core: a Frame begins with its name and arguments, of so many
        /// bytes. The result is its exit status.
        3 fn spawn(core: u32, bytes: u32, words: OwnedCap) -> u32;
        /// Has the program of a ticket ended. It has when there is a result.
        11 fn kill(ticket: u32);
        /// The result of what was begun, which is forgotten then. `Again`: there is none yet, and the
        /// bell will ring with this bit when there is.
        4 fn result(ticket: u32, bit: u64) -> u64;
        /// Messages that this monitor has sent to others and received from them.
        5 fn traffic() -> (u64, u64);
        /// Begins to send a capability to a core, for whoever knows the key there. The result is 0.
        6 fn send(core: u32, key: u64, cap: OwnedCap) -> u32;
        /// Wants to be told, by this bit, when there is a capability with this key. Until the last of
        /// them is taken, they belong to this client, and else to their senders.
        7 fn expect(key: u64, bit: u64);
        /// The next capability with this key. `Again`: there is none yet. `Empty`: it has been revoked.
        8 fn take(key: u64) -> OwnedCap;
        /// Checks the capabilities of this core, which takes long. Is the protocol at rest here: no
        /// operation, no lock, nobody who waits?
        9 fn check() -> bool;
        /// How much the monitor remembers: see [`Books`].
        12 fn books() -> (u32, u32, u32, u32, u32);

        /// From `spawnd`: jobs are told by this bit.
        20 fn serve(bit: u64);
        /// From `spawnd`: a job that shall end. `Empty`: there is none.
        24 fn unwanted_job() -> u32;
        /// From `spawnd`: a new job, and the bytes of its words. `Empty`: there is none.
        21 fn next_job() -> (u32, u32);
        /// From `spawnd`: a piece of its words.
        22 fn job_text(job: u32, piece: u32) -> (u64, u64, u64, u64);
        /// From `spawnd`: the end of a job, with its exit status, or the status by which it failed
        /// before.
        23 fn ended(job: u32, error: u32, status: u64);

        /// From the memory server: asks other cores, one after the other, for memory, of which some are enough. The bell of the
        /// server rings when there is an answer.
        30 fn borrow(bytes: u64);
        /// From the memory server: where the memory is that was borrowed, how much, and its attributes. It is of this core from then on, and
        /// to be adopted. `Again`: there is no answer yet. `NoMemory`: nobody has any to spare. `WrongState`:
        /// nobody has, but somebody may soon, who waits for memory itself.
        31 fn borrowed() -> (u64, u64, u16);
        /// From the memory server: the bytes that another core wishes. `Empty`: none does.
        32 fn next_wish() -> u64;
        /// From the memory server: what it has ceded for that wish, with its attributes; or no bytes.
        33 fn ceded(base: u64, bytes: u64, attrs: u16);
    }
}

/// The monitor, as anybody may ask it.
fn public() -> monitor::Client {
    monitor::Client(Remote(MONITOR))
}

/// This domain as a client: where it is told of results, and its endpoint to the monitor.
struct Session {
    _bell: OwnedCap,
    monitor: OwnedCap,
}

static SESSION: Local<Option<Session>> = Local::new(None);

impl Session {
    fn begin() -> Result<Session, Status> {
        let bell = OwnedCap::own(domain::with(|domain| domain.make(CapType::Endpoint, PAGE))?);
        channel::hear(bell.cap())?;
        let slot = domain::with(|domain| domain.slot())?;
        bell.cap().mint(slot, Rights::SEND)?;
        let monitor = public().open(OwnedCap::own(slot))?;
        Ok(Session { _bell: bell, monitor })
    }
}

/// The monitor, as this domain's own. The first call makes the domain a client.
fn client() -> Result<monitor::Client, Status> {
    let known = SESSION.try_with(|session| match session {
        Some(session) => Ok(session.monitor.cap()),
        None => Session::begin().map(|new| session.insert(new).monitor.cap()),
    });
    known.unwrap_or(Err(Status::WrongState)).map(|monitor| monitor::Client(Remote(monitor)))
}

/// The cores of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The one that keeps this domain's capabilities.
    pub this: u32,
    /// How many.
    pub count: u32,
    /// Bit n: core n can run parts.
    pub usable: u64,
}

/// Which cores there are.
pub fn machine() -> Machine {
    match public().machine() {
        Ok((this, count, usable)) => Machine { this, count, usable },
        Err(_) => Machine { this: 0, count: 1, usable: 1 },
    }
}

/// How many cores there are.
pub fn count() -> u32 {
    machine().count
}

/// The notification bit of who waits for something. Those that nobody uses are kept: there are few.
struct Waiter {
    bit: u64,
}

static WAITERS: Local<Vec<u64>> = Local::new(Vec::new());
static WINDOW: Local<Option<Window>> = Local::new(None);

impl Waiter {
    fn new() -> Result<Waiter, Status> {
        match WAITERS.try_with(Vec::pop) {
            Some(Some(bit)) => Ok(Waiter { bit }),
            _ => thread::new_bit().map(|bit| Waiter { bit }),
        }
    }

    /// Waits for the result of what was begun.
    fn wait(ticket: u32) -> Result<u64, Status> {
        let (client, waiter) = (client()?, Waiter::new()?);
        waiter.until(|| client.result(ticket, waiter.bit))
    }

    /// Asks again whenever the bell has rung, until the answer is not `Again`.
    fn until<T>(&self, ask: impl Fn() -> Result<T, Status>) -> Result<T, Status> {
        loop {
            match ask() {
                Err(Status::Again) => drop(thread::wait_for(self.bit)),
                result => return result,
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        WAITERS.try_with(|waiters| waiters.push(self.bit));
    }
}

/// Sends something to the monitor of a core and back, `rounds` times: ticks that it took.
pub fn ping(core: u32, rounds: u32) -> Result<u64, Status> {
    Waiter::wait(client()?.ping(core, rounds)?)
}

/// Messages that the monitor of this core has sent to others and received from them.
pub fn traffic() -> Result<(u64, u64), Status> {
    public().traffic()
}

/// Checks every invariant of the capabilities and page tables of this core, which takes long; for tests.
/// Is its monitor at rest: no operation, no lock, nobody who waits? `Invalid`: an invariant is broken.
pub fn check() -> Result<bool, Status> {
    public().check()
}

/// What the monitor of this core remembers, for tests: of nothing that has gone may anything stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Books {
    /// Domains that use it.
    pub clients: u32,
    /// What they have begun and not heard the result of.
    pub tickets: u32,
    /// Keys that they wait for, and capabilities that wait for somebody.
    pub mail: u32,
    /// What other monitors have been asked for, and capabilities on their way there.
    pub under_way: u32,
    /// Programs that run here for others.
    pub jobs: u32,
}

/// What the monitor of this core remembers.
pub fn books() -> Result<Books, Status> {
    let (clients, tickets, mail, under_way, jobs) = public().books()?;
    Ok(Books { clients, tickets, mail, under_way, jobs })
}

/// A part of a program that was started on some core. It ends with the program.
#[derive(Debug)]
pub struct Part {
    ticket: u32,
}

/// Starts a program of the boot archive (or of `/bin` in it) on a core, with these words: its name
/// and its arguments. `OutOfRange`: they are too long, or there is no such core.
pub fn spawn_on(core: u32, words: &[&str]) -> Result<Part, Status> {
    let mut text = [0; WORDS_BYTES];
    let mut used = 0;
    for word in words {
        let end = used + word.len();
        text.get_mut(used..end).ok_or(Status::OutOfRange)?.copy_from_slice(word.as_bytes());
        used = end + 1;
    }
    if used > WORDS_BYTES {
        return Err(Status::OutOfRange);
    }
    let frame = OwnedCap::own(domain::with(|domain| domain.make(CapType::Frame, PAGE))?);
    write(&frame, &text[..used])?;
    Ok(Part { ticket: client()?.spawn(core, used as u32, frame)? })
}

fn write(frame: &OwnedCap, text: &[u8]) -> Result<(), Status> {
    let written = WINDOW.try_with(|place| {
        let window = match place {
            Some(window) => window,
            None => place.insert(domain::with(|domain| domain.window())?),
        };
        window.open(frame.cap(), 0, PAGE, RW)?.write(0, text)
    });
    written.unwrap_or(Err(Status::WrongState))
}

impl Part {
    /// Waits for its end: its exit status.
    pub fn wait(self) -> Result<u64, Status> {
        Waiter::wait(self.ticket)
    }

    /// Ends it, whatever it does: its exit status, which is [`KILLED`] unless it ended before.
    pub fn kill(self) -> Result<u64, Status> {
        client()?.kill(self.ticket)?;
        self.wait()
    }
}

/// Sends a copy of a capability to another core (or this one), for whoever asks there with the same
/// `key`, which should be hard to guess. Both can use it then, as if it had been copied on one core;
/// what only all cores together can do (deleting the last one, revoking) the monitors arrange.
///
/// It is deleted if this domain ends before anybody there has asked for the key; see [`Mailbox`].
pub fn send(core: u32, key: u64, cap: OwnedCap) -> Result<(), Status> {
    Waiter::wait(client()?.send(core, key, cap)?).map(drop)
}

/// Waits for a capability that somebody sends to this core with this key.
pub fn receive(key: u64) -> Result<OwnedCap, Status> {
    Mailbox::open(key)?.receive()
}

/// Takes a capability that somebody has sent to this core with this key. `Again`: there is none yet.
/// `Empty`: it has been revoked.
pub fn try_receive(key: u64) -> Result<OwnedCap, Status> {
    client()?.take(key)
}

/// Keeps what is sent to this core with some key, though its sender ends, until it is taken.
pub struct Mailbox {
    key: u64,
    waiter: Waiter,
}

impl Mailbox {
    /// For one capability.
    pub fn open(key: u64) -> Result<Mailbox, Status> {
        let waiter = Waiter::new()?;
        client()?.expect(key, waiter.bit)?;
        Ok(Mailbox { key, waiter })
    }

    /// Waits for it.
    pub fn receive(self) -> Result<OwnedCap, Status> {
        let client = client()?;
        self.waiter.until(|| client.take(self.key))
    }
}

/// Ends a part of a program that runs on another core (or was started like one), with a status.
pub fn exit(status: u64) -> ! {
    // Not answered.
    let _ = ipc::call(REPORT, [EXIT, status, 0, 0, 0, 0], Caps::NONE, Place::NULL);
    runtime::stop()
}
