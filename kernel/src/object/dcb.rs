//! The dispatcher control block: the object behind a Dispatcher capability, one page.
//!
//! It begins with the registers of the stopped dispatcher, so that the entry code stores them in
//! place. All-zero memory, as retype leaves it, is a stopped dispatcher without anything.

use super::context::Ctx;
use super::frame::Frame;
use super::schedule::Schedule;
use super::slots::slot_at;
use super::time::Time;
use super::{Endpoint, Obj, Object, SlotRef, SlotRun};
use crate::arch::{self, Breakpoints};
use crate::cores::CoreId;
use captypes::CapType;
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use mdb::Slot;

/// A dispatcher.
pub type DcbRef = Obj<Dcb>;

/// Slots of a dispatcher's own capabilities.
pub const CSPACE: u32 = 0;
/// Its root page table.
pub const VSPACE: u32 = 1;
/// The frame that it shares with the kernel.
pub const FRAME: u32 = 2;
/// The endpoint to which its faults are reported.
pub const FAULT_EP: u32 = 3;
/// Where its last capability waits until it is taken apart.
pub const PARKING: u32 = 4;
const SLOTS: usize = 5;

/// What a dispatcher is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Not started, or taken apart.
    Stopped = 0,
    /// Running, or in the run queue (unless suspended).
    Ready,
    /// In the queue of an endpoint, waiting to be received.
    Calling,
    /// Received; waits for the answer.
    Called,
    /// Waits for a message or notification.
    Receiving,
    /// Waits for a notification.
    Waiting,
}

/// Flags of a dispatcher.
pub mod flag {
    /// System calls of the enabled dispatcher go to its own library.
    pub const LINUX: u32 = 1;
    /// Stopped by `Suspend`: does not run, whatever its state.
    pub const SUSPENDED: u32 = 2;
    /// Its message is a fault report.
    pub const FAULT: u32 = 4;
    /// The last deletion has emptied its slots, and answered `Again`: the next one may be its repetition.
    pub const REPEATED: u32 = 8;
    /// It has vector state.
    pub const VECTORS: u32 = 16;
    /// It is in the run queue.
    pub const QUEUED: u32 = 32;
    /// It waits at an endpoint of another core than its home.
    pub const ABROAD: u32 = 64;
    /// It has come to this core, and what it came for has not been done yet.
    pub const ARRIVED: u32 = 128;
    /// It did not call: the kernel hands its invocation on to the monitor.
    pub const REDIRECTED: u32 = 256;
    /// Whoever answers for it knows it; so it starts only those that somebody answers for.
    pub const SUPERVISED: u32 = 512;
    /// The last `Configure` has answered `Again`: the next one may be its repetition.
    pub const CONFIGURING: u32 = 1024;
    /// It has breakpoints.
    pub const BREAKPOINTS: u32 = 2048;
}

/// Why a dispatcher moves from one core to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Errand {
    /// To run there.
    Run = 0,
    /// Home, to invoke what its registers say.
    Invoke,
    /// Home, to report the fault in its block.
    Fault,
    /// Home, where somebody wants it.
    Recalled,
    /// To the core of an endpoint, with a call.
    Call,
    /// To the core of an endpoint, to notify who receives there.
    Notify,
    /// To the home of a dispatcher, to do there what its registers say.
    Control,
    /// Home, with the answer.
    Answered,
    /// Home, as nobody handles the fault that it has reported.
    Unhandled,
}

/// Neighbours in a list.
pub struct Links {
    pub next: Cell<Option<DcbRef>>,
    pub prev: Cell<Option<DcbRef>>,
}

/// Neighbours in a heap.
pub struct HeapLinks {
    pub parent: Cell<Option<DcbRef>>,
    pub left: Cell<Option<DcbRef>>,
    pub right: Cell<Option<DcbRef>>,
    /// Members on the way to the right, this one included.
    pub rank: Cell<u32>,
}

/// Its timer.
pub struct Timer {
    /// In the heap of timers.
    pub links: HeapLinks,
    /// When it expires.
    pub deadline: Cell<u64>,
    /// Home's word: it is in the heap.
    pub armed: Cell<bool>,
}

/// Its share of a core.
pub struct Share {
    /// How it competes for one. Home's word, also while it is elsewhere.
    pub schedule: AtomicU64,
    /// The first of its buckets in the run queue: those of servers, unless it is supervised.
    pub buckets: Cell<u32>,
    /// List of the run queue that it is in.
    pub list: Cell<u32>,
    /// In the heap of those that come long after all others.
    pub far: HeapLinks,
    /// Virtual runtime, in ticks; on the way to another core, how far it is ahead. With a priority, further than anybody's.
    pub runtime: Cell<u64>,
    /// With a priority, how much of its turn is used, in ticks.
    pub turn: Cell<u64>,
}

impl Share {
    /// How it competes for a core.
    #[inline(always)]
    pub fn schedule(&self) -> Schedule {
        Schedule::from_word(self.schedule.load(Ordering::Relaxed))
    }
}

/// What a dispatcher moves between cores for.
pub struct Trip {
    pub errand: Cell<Errand>,
    /// Home's word: it calls an endpoint of another core, where it is, or on the way there or back.
    pub abroad: Cell<bool>,
    /// Home's word: it was suspended meanwhile.
    pub held: Cell<bool>,
    /// Address of that endpoint, or of a dispatcher; 0 when that has gone.
    pub called: Cell<u64>,
    /// And its core.
    pub calls_at: Cell<CoreId>,
    /// Neighbours among the guests of a core.
    pub guests: Links,
}

/// Segment bases.
pub struct Bases {
    pub fs: Cell<u64>,
    pub gs: Cell<u64>,
}

/// Room for vector state at the end of the page.
const AREA: usize = 3072;

/// See the head of this file.
#[repr(C)]
pub struct Dcb {
    /// Registers while it does not run.
    pub ctx: Ctx,
    pub state: Cell<State>,
    pub flags: Cell<u32>,
    /// Physical address of the root CNode, and its slots; 0 slots without one.
    pub cspace_base: Cell<u64>,
    pub cspace_slots: Cell<u32>,
    /// The badge under which it called.
    pub badge: Cell<u32>,
    /// Physical address of the root page table, 0 without one.
    pub root: Cell<u64>,
    /// The frame shared with the kernel, 0 without one, and where the domain maps it.
    pub frame: Cell<Frame>,
    pub frame_va: Cell<u64>,
    /// In the run queue, or in a queue of an endpoint.
    pub links: Links,
    pub timer: Timer,
    pub share: Share,
    /// Processor time used.
    pub time: Time,
    /// The core in whose database its capabilities are.
    pub home: Cell<CoreId>,
    /// What it moves for, while it does.
    pub trip: Trip,
    /// Home's word: it is at another core, or on the way back.
    pub away: Cell<bool>,
    /// The core that has it, or that it is on the way to. Written by whoever had it last.
    pub at: AtomicU8,
    /// The core that it runs on, or ran on last.
    pub runs_on: Cell<CoreId>,
    /// The cores that it may run on; none: any.
    pub allowed: AtomicU64,
    /// Physical address of the one that is below it in an inbox.
    pub below: AtomicU64,
    /// Called, or receiving from.
    pub endpoint: Cell<Option<Obj<Endpoint>>>,
    /// Whose message it received last.
    pub caller: Cell<Option<DcbRef>>,
    /// The first of the endpoints that it received from last.
    pub serves: Cell<Option<Obj<Endpoint>>>,
    /// Vector, error code, address, instruction pointer of a fault that is reported.
    pub fault: [Cell<u64>; 4],
    /// Segment bases, always addresses.
    pub bases: Bases,
    /// Its debug registers; the addresses are user addresses.
    pub breakpoints: Cell<Breakpoints>,
    slots: [Slot; SLOTS],
    vectors: UnsafeCell<[u8; AREA]>,
}

const _: () = {
    assert!(size_of::<Dcb>() <= paging::PAGE as usize);
    assert!(offset_of!(Dcb, ctx) == 0);
    assert!(offset_of!(Dcb, slots) % 64 == 0 && offset_of!(Dcb, vectors) % 64 == 0);
    assert!(State::Stopped as u8 == 0 && Errand::Run as u8 == 0);
};

// SAFETY: all fields are cells of types for which zeros are valid (`None` of pointers is null, and
// `State::Stopped` and `Errand::Run` are zero); the size is asserted above.
unsafe impl Object for Dcb {
    const TYPE: CapType = CapType::Dispatcher;
}

impl Dcb {
    /// Makes a dispatcher of the zeroed page at `pa`, at home on core `home`.
    pub fn init(pa: u64, home: CoreId) {
        let area = arch::phys_to_virt(pa + offset_of!(Dcb, vectors) as u64);
        assert!(arch::fpu_area_size() <= AREA, "vector state larger than its room");
        // SAFETY: inside a page that nobody refers to yet, large enough, aligned.
        unsafe { arch::fpu_init_image(area) };
        let dcb = DcbRef::at(pa);
        dcb.home.set(home);
        dcb.at.store(home.0, Ordering::Relaxed);
        dcb.runs_on.set(home);
        trace::mark(trace::Mark::Created(trace_number(pa)));
    }

    /// Slot `index` of the dispatcher at `pa`.
    pub fn slot_at(pa: u64, index: u32) -> SlotRef {
        slot_at(pa + offset_of!(Dcb, slots) as u64, index)
    }

    /// Its slots but for the parking slot.
    pub fn slots(pa: u64) -> SlotRun {
        SlotRun::new(pa + offset_of!(Dcb, slots) as u64, 0, PARKING)
    }

    /// Is this flag set?
    #[inline]
    pub fn has(&self, flag: u32) -> bool {
        self.flags.get() & flag != 0
    }
    /// Sets a flag.
    #[inline]
    pub fn set(&self, flag: u32) {
        self.flags.set(self.flags.get() | flag);
    }
    /// Clears a flag.
    #[inline]
    pub fn clear(&self, flag: u32) {
        self.flags.set(self.flags.get() & !flag);
    }

    /// Saves the vector registers here.
    pub fn save_vectors(&self) {
        // SAFETY: the area is large enough (asserted in `init`) and aligned.
        unsafe { arch::fpu_save(self.vectors.get().cast()) };
    }
    /// Loads the vector registers from here.
    pub fn load_vectors(&self) {
        // SAFETY: filled by `fpu_init_image` in `init`, or by `fpu_save`.
        unsafe { arch::fpu_restore(self.vectors.get().cast()) };
    }
    /// Takes a copy of another's saved vector state.
    pub fn copy_vectors(&self, from: &Dcb) {
        if !core::ptr::eq(self, from) {
            // SAFETY: two different pages; nobody else refers to either area.
            unsafe { *self.vectors.get() = *from.vectors.get() };
        }
    }
}

/// What the function trace calls the dispatcher at `pa`.
const fn trace_number(pa: u64) -> u32 {
    (pa / paging::PAGE) as u32
}

impl DcbRef {
    /// What the function trace calls it.
    #[inline]
    pub fn trace_number(self) -> u32 {
        trace_number(self.pa())
    }
    /// Slot `index` of its own.
    #[inline]
    pub fn slot(self, index: u32) -> SlotRef {
        Dcb::slot_at(self.pa(), index)
    }
    /// The dispatcher whose registers the entry code stores here.
    #[inline]
    pub fn of_context(context: NonNull<arch::Context>) -> DcbRef {
        Obj::wrap(context.cast())
    }
    /// What the entry code stores to.
    #[inline]
    pub fn context(self) -> *mut arch::Context {
        self.ptr().as_ptr().cast()
    }
}
