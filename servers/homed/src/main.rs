//! The stand-in of `unixd` on another core.
//!
//! A process whose home is this core has its memory, tables and dispatchers here, where `unixd` cannot look at them or stop them.
//! So this program, which `unixd` has started here, is their owner: it takes the domains that processes make if nobody else has
//! them, makes those that nobody may have had before, starts and ends what is in them. It decides nothing: `unixd` says what
//! is to be done ([`unixproto::home`]).
//!
//! It waits for `unixd`, which answers it at once, and for the monitors, which wait for nobody; nobody waits for it but processes of this core.
#![no_std]
#![no_main]

extern crate alloc;

mod post;
mod requests;
mod units;

use libos::abi::slots::{LIBUNIX_ELF, MEMD, UNIXD};
use libos::interface::OwnedCap;
use libos::ipc::{self, Caps};
use libos::runtime::Start;
use libos::{domain, invoke, log, op, Cap, CapAddr, CapType, Place, Rights, Status};
use post::Post;
use units::Units;
use unixproto::home::{Errand, Item, Said, ERRANDS};
use unixproto::Words;

libos::program!(main);

/// Capabilities of a message.
const MOST_CAPS: u32 = 4;

fn main(start: Start) {
    let core = libos::cores::machine().this;
    if let Err(error) = run(&start, core) {
        log!("homed of core {core} has ended: {error:?}");
    }
    libos::cores::exit(1);
}

fn run(start: &Start, core: u32) -> Result<(), Status> {
    let [secret, library_bytes] = arguments(start).ok_or(Status::Invalid)?;
    let mut post = Post::open(secret, core)?;
    post::put(&post.receive(Item::Server, 0, 0)?, UNIXD)?;
    post::put(&post.receive(Item::Library, 0, 0)?, LIBUNIX_ELF)?;
    let endpoint = domain::with(|domain| domain.make(CapType::Endpoint, libos::abi::layout::PAGE))?;
    invoke(endpoint, op::Listen { bits: 0 })?;
    let bell = domain::with(|domain| domain.slot())?;
    endpoint.mint(bell, Rights::SEND)?;
    post.send(Item::Bell, 0, OwnedCap::own(bell))?;
    post.send(Item::Memory, 0, OwnedCap::copy_of(MEMD)?)?;
    let inbox = domain::with(|domain| domain.slot_range(2 * MOST_CAPS))?;
    let window = domain::with(|domain| domain.window())?;
    let units = Units::new(endpoint, library_bytes, window);
    Homed { post, units, endpoint, inbox }.serve()
}

/// The numbers in the words of the job, behind the name of this program.
fn arguments(start: &Start) -> Option<[u64; 2]> {
    let [at, bytes, ..] = start.args;
    // SAFETY: `spawnd` maps the page with the words for good, and says how long they are.
    let words = unsafe { core::slice::from_raw_parts(at as *const u8, bytes as usize) };
    let mut numbers = words.split(|byte| *byte == 0).skip(1).map(|word| {
        let digits = core::str::from_utf8(word.strip_prefix(b"a")?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    });
    Some([numbers.next()??, numbers.next()??])
}

/// The stand-in.
struct Homed {
    post: Post,
    units: Units,
    /// Where processes send requests, faults are reported, and `unixd` notifies.
    endpoint: CapAddr,
    /// Where capabilities come with requests, and behind them those from which they go with answers.
    inbox: CapAddr,
}

impl Homed {
    fn serve(mut self) -> Result<(), Status> {
        self.report(Said::Ready)?;
        loop {
            while self.post.take_errands() {
                self.report(Said::Next)?;
            }
            if let Some(said) = self.units.end_a_bit() {
                self.report(said)?;
            }
            let place = Place::own(self.inbox);
            let message = match self.units.is_idle() {
                true => ipc::recv(self.endpoint, place),
                false => ipc::poll(self.endpoint, place),
            };
            match message {
                Ok(message) if message.is_notification() => self.post.noted(message.words[0]),
                Ok(message) if message.is_fault() => {
                    let [vector, error, address, rip, ..] = message.words;
                    let unit = message.badge as u32;
                    self.report(Said::Failed { unit, vector, error, address, rip })?;
                }
                Ok(message) => {
                    let unit = message.badge as u32;
                    let answer = self.request(unit, message.words, message.caps());
                    self.units.discard(self.inbox, message.caps());
                    if let Some((words, caps)) = answer? {
                        // Whoever has gone needs no answer.
                        let _ = ipc::reply(Place::CALLER, words, caps);
                    }
                    self.units.discard(self.inbox.plus(MOST_CAPS), MOST_CAPS);
                }
                // Nothing is there, or a caller has gone.
                Err(Status::Empty | Status::PeerGone) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Says something to `unixd`, and does all that it wants.
    fn report(&mut self, mut said: Said) -> Result<(), Status> {
        loop {
            let errand = Errand::decode(&ask(said)?);
            if errand == Errand::None {
                return Ok(());
            }
            said = self.perform(errand)?;
        }
    }

    /// Makes a domain that was never anybody's, and sends a capability to its dispatcher.
    fn make(&mut self, unit: u32) -> Result<(), Status> {
        let endpoint = self.post.receive(Item::Voice, unit, 0)?;
        let session = self.post.receive(Item::Voice, unit, 1)?;
        let copy = self.units.make(unit, endpoint.cap(), session.cap())?;
        self.post.send(Item::Dispatcher, unit, copy)
    }

    /// Does what `unixd` wants. What is to be said of it.
    fn perform(&mut self, errand: Errand) -> Result<Said, Status> {
        match errand {
            Errand::Make(unit) => {
                let sent = self.make(unit);
                if let Err(error) = sent {
                    log!("homed: a domain cannot be made: {error:?}");
                }
                Ok(Said::Made { unit, is_there: sent.is_ok() })
            }
            Errand::Start(unit) => Ok(self.units.start(unit)),
            Errand::End(unit) => {
                self.units.end(unit);
                Ok(Said::Next)
            }
            Errand::None => Ok(Said::Next),
        }
    }
}

/// Asks `unixd`, which answers at once.
fn ask(said: Said) -> Result<Words, Status> {
    ipc::call(UNIXD, said.encode(), Caps::NONE, Place::NULL).map(|answer| answer.words)
}

const _: () = assert!(ERRANDS & post::MAIL == 0);
