//! Processes whose home is another core, and the stand-ins of this server there ([`unixproto::home`]).
//!
//! A stand-in holds the dispatchers of its core. This server has copies of them: it answers, stops and measures by these. What makes and ends one is an
//! *errand*, which the stand-in asks for once it is notified. Nothing here waits for a stand-in: one that does not come leaves its errands
//! lying, of which there are at most one of each kind for each dispatcher.

use crate::caps::{errno, frame, Slots};
use crate::clock::Clock;
use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use abi::layout::PAGE;
use abi::slots::{LIBUNIX_ELF, MEMD, MONITOR, SELF_EP};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use balance::{Lengths, Loads};
use captypes::op;
use libos::cores::monitor;
use libos::ephemeral::Window;
use libos::interface::{OwnedCap, Remote};
use libos::local::Local;
use libos::vspace::RW;
use libos::{domain, invoke, memd, Cap, CapAddr, Place, Rights, Status};
use unixproto::home::{self, key, Errand, Item, MADE_TO_ORDER};
use unixproto::Errno;

/// The process under which the badges of stand-ins are known: there is none with this id.
pub const STANDIN: Pid = 0;
/// Errands may wait for so many dispatchers at a core.
const ERRANDS_MAX: usize = 16384;

/// Calls of the kernel from which it is learnt how fast the machine is: so many times so many.
const CALLS_TIMED: u64 = 8;
const CALLS_AT_ONCE: u64 = 64;

/// A dispatcher that a stand-in holds, with its CSpace if it is the first of a domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Unit {
    /// Its core.
    pub core: u32,
    /// Its number there, which is never given again.
    pub number: u32,
}

/// What is to be done with a unit, in this order.
#[derive(Default)]
struct Wanted {
    make: bool,
    start: bool,
    end: bool,
}

impl Wanted {
    fn add(&mut self, errand: Errand) {
        match errand {
            Errand::None => {}
            Errand::Make(_) => self.make = true,
            Errand::Start(_) => self.start = true,
            // It need not start any more, but it has to be there.
            Errand::End(_) => (self.start, self.end) = (false, true),
        }
    }

    fn take(&mut self, unit: u32) -> Option<Errand> {
        use core::mem::take;
        if take(&mut self.make) {
            return Some(Errand::Make(unit));
        }
        if take(&mut self.start) {
            return Some(Errand::Start(unit));
        }
        take(&mut self.end).then_some(Errand::End(unit))
    }
}

/// The unit that an errand is about.
fn unit_of(errand: Errand) -> Option<u32> {
    match errand {
        Errand::None => None,
        Errand::Make(unit) | Errand::Start(unit) | Errand::End(unit) => Some(unit),
    }
}

/// A stand-in.
struct Stand {
    /// Its endpoint to this server, of which a copy was sent there: a badge is there as long as its core has a capability with it.
    _voice: Slots,
    /// The ticket of its end.
    ticket: u32,
    /// Where it is notified, once it is ready.
    bell: Option<OwnedCap>,
    /// The memory server of its core.
    memory: Option<OwnedCap>,
    /// It was notified, and has not asked for everything yet.
    is_told: bool,
    wanted: BTreeMap<u32, Wanted>,
    order: VecDeque<u32>,
    /// Whose its units are.
    known: BTreeMap<u32, Pid>,
    /// The last number of a unit that it was asked to make.
    last: u32,
    /// Answers with capabilities that were sent.
    answers: u32,
}

struct Homes {
    monitor: monitor::Client,
    secret: u64,
    stands: BTreeMap<u32, Stand>,
    /// What was sent and is under way.
    sent: Vec<u32>,
    /// What stand-ins have sent, by core, purpose and unit, until it is used.
    come: BTreeMap<(u32, u64, u32), OwnedCap>,
    choice: Choice,
}

/// How the home of a program is chosen that begins.
pub enum Choice {
    /// It is its predecessor's.
    Keep,
    /// At random, by this seed.
    Random(u64),
    /// By what the cores have to do, and how long programs ran.
    Load(Box<(Loads, Lengths)>),
}

impl Choice {
    /// By load.
    pub fn by_load(clock: &Clock) -> Choice {
        // SAFETY: reads a counter.
        let now = || unsafe { core::arch::x86_64::_rdtsc() };
        // The shortest of some times: nothing came between.
        let times = (0..CALLS_TIMED).map(|_| {
            let before = now();
            for _ in 0..CALLS_AT_ONCE {
                let _ = SELF_EP.identify();
            }
            now() - before
        });
        let call_ns = clock.ns(times.min().unwrap_or(0)) / CALLS_AT_ONCE;
        Choice::Load(Box::new((Loads::default(), Lengths::new(call_ns))))
    }
}

static HOMES: Local<Option<Homes>> = Local::new(None);

fn with<R>(f: impl FnOnce(&mut Homes) -> R) -> Option<R> {
    HOMES.try_with(|homes| homes.as_mut().map(f)).flatten()
}

/// Starts stand-ins on all other cores that can run programs. `voice` gives the badge of that of a core.
pub fn start(
    window: &mut Window,
    library_bytes: u64,
    choice: Choice,
    mut voice: impl FnMut(u32) -> Result<Slots, Errno>,
) -> Result<(), Errno> {
    let machine = libos::cores::machine();
    if machine.count == 1 {
        return Ok(());
    }
    // Calls find it, and notifications.
    invoke(SELF_EP, op::Listen { bits: 0 }).map_err(errno)?;
    let bell = owned(|slot| SELF_EP.mint(slot, Rights::SEND))?;
    let own = monitor::Client(Remote(MONITOR)).open(bell).map_err(errno)?;
    let monitor = monitor::Client(Remote(own.into_cap()));
    let secret = secret();
    let mut homes = Homes {
        monitor,
        secret,
        stands: BTreeMap::new(),
        sent: Vec::new(),
        come: BTreeMap::new(),
        choice,
    };
    for core in (1..machine.count).filter(|core| machine.usable >> core & 1 != 0) {
        let stand = homes.stand_in(window, core, library_bytes, voice(core)?)?;
        homes.stands.insert(core, stand);
    }
    HOMES.try_with(|place| *place = Some(homes));
    Ok(())
}

/// What nobody else can guess who cannot look into this server: keys are for programs of the administrator alone anyway.
fn secret() -> u64 {
    let mut word = 0u64;
    for _ in 0..16 {
        // SAFETY: reads a counter.
        let ticks = unsafe { core::arch::x86_64::_rdtsc() };
        word = (word ^ ticks).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
    word
}

/// A capability that `make` puts in an empty slot.
fn owned(make: impl FnOnce(CapAddr) -> Result<(), Status>) -> Result<OwnedCap, Errno> {
    let slot = OwnedCap::own(domain::with(|domain| domain.slot()).map_err(errno)?);
    make(slot.cap()).map_err(errno)?;
    Ok(slot)
}

impl Homes {
    fn stand_in(
        &mut self,
        window: &mut Window,
        core: u32,
        library_bytes: u64,
        voice: Slots,
    ) -> Result<Stand, Errno> {
        let words = format!("{}\0{:x}\0{library_bytes:x}\0", home::PROGRAM, self.secret);
        let page = frame(PAGE)?;
        let written = window.open(page.first(), 0, PAGE, RW).map_err(errno)?;
        { written }.write(0, words.as_bytes()).map_err(errno)?;
        let page = owned(|slot| page.first().move_to(slot))?;
        let ticket = self.monitor.spawn(core, words.len() as u32, page).map_err(errno)?;
        self.send(core, Item::Server, (0, 0), owned(|slot| voice.first().copy_to(slot))?)?;
        let library = owned(|slot| LIBUNIX_ELF.mint(slot, Rights::READ.or(Rights::EXEC)))?;
        self.send(core, Item::Library, (0, 0), library)?;
        Ok(Stand {
            _voice: voice,
            ticket,
            bell: None,
            memory: None,
            is_told: false,
            wanted: BTreeMap::new(),
            order: VecDeque::new(),
            known: BTreeMap::new(),
            last: MADE_TO_ORDER,
            answers: 0,
        })
    }

    fn send(
        &mut self,
        core: u32,
        item: Item,
        (unit, index): (u32, u32),
        cap: OwnedCap,
    ) -> Result<(), Errno> {
        self.sweep();
        let key = key(self.secret, core, item, unit, index);
        let ticket = self.monitor.send(core, key, cap).map_err(errno)?;
        self.sent.push(ticket);
        Ok(())
    }

    /// Forgets what has arrived.
    fn sweep(&mut self) {
        let Homes { monitor, sent, .. } = self;
        sent.retain(|&ticket| match monitor.result(ticket, crate::server::note::HOMES) {
            Err(Status::Again) => true,
            Ok(_) => false,
            Err(error) => {
                libos::log!("unixd: something did not arrive at another core: {error:?}");
                false
            }
        });
    }

    fn take(&mut self, core: u32, item: Item, unit: u32) -> Result<OwnedCap, Errno> {
        self.come.remove(&(core, item as u64, unit)).ok_or(Errno::EIO)
    }
}

/// A stand-in may have ended, or what was sent has arrived. The cores that have no stand-in any more.
pub fn noted() -> Vec<u32> {
    let gone = with(|homes| {
        homes.sweep();
        let Homes { monitor, stands, .. } = homes;
        let has_ended = |stand: &Stand| {
            monitor.result(stand.ticket, crate::server::note::HOMES) != Err(Status::Again)
        };
        let ended = stands.iter().filter(|(_, stand)| has_ended(stand)).map(|(core, _)| *core);
        let ended: Vec<u32> = ended.collect();
        for core in &ended {
            stands.remove(core);
            homes.come.retain(|(from, ..), _| from != core);
        }
        ended
    });
    gone.unwrap_or_default()
}

/// Has something done with a unit.
pub fn errand(core: u32, errand: Errand) {
    with(|homes| {
        let Some(stand) = homes.stands.get_mut(&core) else { return };
        let Some(unit) = unit_of(errand) else { return };
        let Stand { wanted, order, .. } = stand;
        if !wanted.contains_key(&unit) {
            if order.len() >= ERRANDS_MAX {
                return;
            }
            order.push_back(unit);
        }
        wanted.entry(unit).or_default().add(errand);
        if let (Some(bell), false) = (&stand.bell, stand.is_told) {
            stand.is_told = true;
            // If it has gone, so have its processes.
            let _ = bell.cap().notify(home::ERRANDS);
        }
    });
}

/// The next errand for the stand-in of a core.
pub fn next(core: u32) -> Errand {
    let next = with(|homes| {
        let stand = homes.stands.get_mut(&core)?;
        while let Some(&unit) = stand.order.front() {
            if let Some(errand) = stand.wanted.get_mut(&unit).and_then(|wanted| wanted.take(unit)) {
                return Some(errand);
            }
            stand.order.pop_front();
            stand.wanted.remove(&unit);
        }
        stand.is_told = false;
        None
    });
    next.flatten().unwrap_or(Errand::None)
}

/// Has something come that the stand-in of a core has sent? The monitors may say that it is sent before it is here.
pub fn has_come(core: u32, item: Item, unit: u32) -> bool {
    let come = with(|homes| {
        let taken = homes.monitor.take(key(homes.secret, core, item, unit, 0));
        taken.map(|cap| homes.come.insert((core, item as u64, unit), cap)).is_ok()
    });
    come.unwrap_or(false)
}

/// The stand-in of a core is ready.
pub fn ready(core: u32) {
    with(|homes| {
        let (bell, memory) = (homes.take(core, Item::Bell, 0), homes.take(core, Item::Memory, 0));
        let Some(stand) = homes.stands.get_mut(&core) else { return };
        match bell {
            // It asks for its errands right behind.
            Ok(bell) => {
                (stand.bell, stand.is_told, stand.memory) = (Some(bell), true, memory.ok());
            }
            Err(error) => libos::log!("unixd: no stand-in on core {core}: {}", error.name()),
        }
    });
}

/// Free bytes of the memory servers of other cores, and all that they have.
pub fn memory() -> (u64, u64) {
    let sum = with(|homes| {
        let servers = homes.stands.values().filter_map(|stand| stand.memory.as_ref());
        let stats = servers.filter_map(|server| memd::stats(server.cap()).ok());
        stats.fold((0, 0), |(free, total), stats| (free + stats.free, total + stats.total))
    });
    sum.unwrap_or_default()
}

/// Are so many bytes free for processes of a core, or could be borrowed?
pub fn has_memory(core: u32, bytes: u64) -> bool {
    let server = with(|homes| {
        let memory = homes.stands.get(&core)?.memory.as_ref()?;
        Some(memory.cap())
    });
    memd::has(server.flatten().unwrap_or(MEMD), bytes).unwrap_or(false)
}

/// Is there a stand-in on this core?
pub fn has(core: u32) -> bool {
    with(|homes| homes.stands.contains_key(&core)).unwrap_or(false)
}

/// A program of this file has ended that used so many nanoseconds.
pub fn ended(file: u64, ns: u64) {
    with(|homes| match &mut homes.choice {
        Choice::Load(load) => load.1.note(file, ns),
        Choice::Keep | Choice::Random(_) => {}
    });
}

/// A core for a program of this file that a thread is about to execute: 0 is this one. `None`: its present home, whichever that is.
pub fn choose(procs: &Procs, tid: Tid, home: u32, file: u64, now_ns: u64) -> Option<u32> {
    with(|homes| {
        let Homes { stands, choice, .. } = homes;
        match choice {
            Choice::Keep => None,
            Choice::Random(seed) => {
                *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let choice = (*seed >> 33) % (stands.len() as u64 + 1);
                match choice.checked_sub(1) {
                    Some(index) => stands.keys().nth(index as usize).copied(),
                    None => Some(0),
                }
            }
            Choice::Load(load) => {
                let (loads, lengths) = &mut **load;
                if loads.are_old(procs.len(), now_ns) {
                    loads.begin(now_ns);
                    procs.count_homes(now_ns, |core, threads| loads.add(core, threads));
                }
                let allowed = procs.session_of(tid).map_or(0, |session| {
                    session.header().affinity.load(core::sync::atomic::Ordering::Relaxed)
                });
                let allowed = if allowed == 0 { u64::MAX } else { allowed };
                // Before it has paid for its way, it is over.
                if lengths.is_short(file) && allowed >> home & 1 != 0 {
                    return Some(home);
                }
                // One without a bell would not hear of it.
                let usable = stands.iter().filter(|(_, stand)| stand.bell.is_some());
                let usable = usable.fold(1, |set, (core, _)| set | 1 << core);
                Some(loads.choose(home, allowed, usable))
            }
        }
    })
    .flatten()
}

/// Has a domain made on another core that was never anybody's, for a process with this endpoint and session frame.
pub fn make(core: u32, pid: Pid, voice: (CapAddr, CapAddr)) -> Result<Unit, Errno> {
    let made = with(|homes| {
        let stand = homes.stands.get_mut(&core).ok_or(Errno::EAGAIN)?;
        let number = stand.last.checked_add(1).ok_or(Errno::EAGAIN)?;
        stand.last = number;
        stand.known.insert(number, pid);
        let endpoint = owned(|slot| voice.0.mint(slot, Rights::SEND))?;
        homes.send(core, Item::Voice, (number, 0), endpoint)?;
        let session = owned(|slot| voice.1.mint(slot, Rights::READ.or(Rights::WRITE)))?;
        homes.send(core, Item::Voice, (number, 1), session)?;
        Ok(Unit { core, number })
    });
    let unit = made.unwrap_or(Err(Errno::EAGAIN))?;
    errand(core, Errand::Make(unit.number));
    Ok(unit)
}

/// The capability to a dispatcher that its stand-in has sent. It stays where it came: the monitors may still work on it.
pub fn take_dispatcher(unit: Unit) -> Result<Slots, Errno> {
    let taken = with(|homes| homes.take(unit.core, Item::Dispatcher, unit.number));
    taken.unwrap_or(Err(Errno::ESRCH)).map(|cap| Slots::of(cap.into_cap()))
}

/// Notes whose a unit is.
pub fn note(unit: Unit, pid: Pid) {
    with(|homes| {
        if let Some(stand) = homes.stands.get_mut(&unit.core) {
            stand.known.insert(unit.number, pid);
        }
    });
}

/// Whose a unit is.
pub fn owner(unit: Unit) -> Option<Pid> {
    with(|homes| homes.stands.get(&unit.core)?.known.get(&unit.number).copied()).flatten()
}

/// Sends capabilities from slots that are empty then, with the answer to a request that the stand-in of a core has carried.
pub fn send_answer(core: u32, first: Place, count: u32) -> Result<(), Errno> {
    let sent = with(|homes| {
        let stand = homes.stands.get_mut(&core).ok_or(Errno::EAGAIN)?;
        let answer = stand.answers;
        let mut caps = Vec::new();
        for index in 0..count {
            caps.push(owned(|slot| first.plus(index).move_to(slot))?);
        }
        stand.answers = answer.wrapping_add(1);
        for (cap, index) in caps.into_iter().zip(0..) {
            homes.send(core, Item::Answer, (answer, index), cap)?;
        }
        Ok(())
    });
    sent.unwrap_or(Err(Errno::EAGAIN))
}

/// Nothing of a unit is left.
pub fn forget(unit: Unit) {
    with(|homes| {
        homes.come.remove(&(unit.core, Item::Dispatcher as u64, unit.number));
        homes.stands.get_mut(&unit.core)?.known.remove(&unit.number)
    });
}

/// What a request has brought that is given for good.
pub enum Arrival {
    /// So many capabilities, in the slots of this server.
    Here(u32),
    /// A dispatcher of another core, with its CSpace if it is the first of a domain; nothing once it is taken.
    Elsewhere(Unit, Option<Slots>),
}

impl Arrival {
    /// Does anything go along?
    pub fn count(&self) -> u32 {
        match self {
            Arrival::Here(count) => *count,
            Arrival::Elsewhere(..) => 1,
        }
    }
    /// Was it taken?
    pub fn is_taken(&self) -> bool {
        matches!(self, Arrival::Elsewhere(_, None))
    }
}

/// What runs a thread. A dispatcher of another core does at its home what it is told: there and back, at once.
#[derive(Clone, Copy)]
pub struct Runner {
    /// Its dispatcher, or this server's copy of one of another core.
    pub dispatcher: CapAddr,
    /// What the stand-in knows it by.
    pub unit: Option<Unit>,
}

impl Runner {
    /// Stops it where it is.
    pub fn suspend(self) {
        // One that has just ended is as good as stopped.
        let _ = invoke(self.dispatcher, op::Suspend {});
    }
    /// Lets it go on.
    pub fn unsuspend(self) {
        // One that was not suspended stays as it is.
        let _ = invoke(self.dispatcher, op::Continue {});
    }
    /// Notifies it.
    pub fn notify(self, bits: u64) {
        // One that has just ended needs no notification.
        let _ = self.dispatcher.notify(bits);
    }
    /// Starts it.
    pub fn start(self) -> Result<(), Errno> {
        match self.unit {
            None => invoke(self.dispatcher, op::Start {}).map_err(errno),
            Some(unit) => {
                errand(unit.core, Errand::Start(unit.number));
                Ok(())
            }
        }
    }
}
