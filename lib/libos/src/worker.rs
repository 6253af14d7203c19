//! Work on other cores: dispatchers of the same domain, in the same address space.
//!
//! A [`Worker`] is a second dispatcher of the domain with a frame and a stack of its own, which runs
//! one function on a core, or wherever the kernel finds one idle. It has the domain's capabilities
//! and memory; its page faults are resolved as those of the first dispatcher. What it invokes is
//! done by the CPU driver of the domain's home core, to which it is carried for that; what it
//! computes is not. So page tables and shadow page tables exist once, and have one owner (of the
//! options of G18 §6.1, the one that shares both; see docs/cores.md).
//!
//! The library's own state (heap, slots, regions) is used in sections of
//! [`preempt`](mod@crate::preempt), which hold the lock of the domain. [Threads](crate::thread) belong to
//! the first dispatcher: a worker does not wait for a `Mutex` or `Event` of theirs, but it may set
//! one. Workers wait for each other by atomics.

use crate::abi::dispatcher::{DispatcherFrame, Regs, Upcall, USER_CS, USER_SS};
use crate::abi::layout::{NATIVE_FRAME, NATIVE_WORKERS, PAGE};
use crate::abi::slots;
use crate::domain;
use crate::local::Local;
use crate::thread::sync::Event;
use crate::upcall::word;
use crate::vspace::RW;
use crate::{invoke, op, preempt, supervisor, upcall, Cap, CapAddr, CapType, Status};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::sync::atomic::{Ordering::Acquire, Ordering::Release};

pub use crate::upcall::{core, cores};

/// Bytes of a worker's stack.
pub const STACK_BYTES: u64 = 128 << 10;
/// Bytes of the stack of its page-fault handler.
const FAULT_STACK_BYTES: u64 = 64 << 10;
/// Addresses of one worker: a page that is never mapped before each stack, and the frame.
const PLACE_BYTES: u64 = 1 << 20;

/// Where a worker's frame and stacks are: made once, used by one worker after the other.
#[derive(Clone, Copy)]
struct Place {
    address: u64,
    frame: CapAddr,
}

impl Place {
    fn frame(self) -> *mut DispatcherFrame {
        self.address as *mut DispatcherFrame
    }
    /// The first address behind the stack of the fault handler.
    fn fault_stack(self) -> u64 {
        self.address + 2 * PAGE + FAULT_STACK_BYTES
    }
    /// The first address behind the stack.
    fn stack(self) -> u64 {
        self.fault_stack() + PAGE + STACK_BYTES
    }

    fn make(address: u64) -> Result<Place, Status> {
        domain::with(|domain| {
            let place = Place { address, frame: domain.make(CapType::Frame, PAGE)? };
            domain.map_at(address, PAGE, place.frame.into(), 0, RW)?;
            domain.extend(place.fault_stack() - FAULT_STACK_BYTES, FAULT_STACK_BYTES, RW)?;
            domain.extend(place.stack() - STACK_BYTES, STACK_BYTES, RW)?;
            Ok(place)
        })
    }

    /// A new dispatcher with this frame.
    fn dispatcher(self) -> Result<CapAddr, Status> {
        let dispatcher = domain::with(|domain| domain.make(CapType::Dispatcher, PAGE))?;
        let configuration = op::Configure {
            cspace: slots::ROOT.into(),
            vspace: root_table().into(),
            frame: self.frame.into(),
            frame_va: self.address,
            fault_ep: captypes::Place::NULL,
            options: 0,
        };
        invoke(dispatcher, configuration)?;
        Ok(dispatcher)
    }
}

/// The root of the address space: what [`slots::VSPACE`] names, or the table of level 5 above it.
fn root_table() -> CapAddr {
    match slots::ROOT_TABLE.identify() {
        Ok(_) => slots::ROOT_TABLE,
        Err(_) => slots::VSPACE,
    }
}

struct Places {
    free: Vec<Place>,
    made: u64,
}

static KNOWN: Local<Places> = Local::new(Places { free: Vec::new(), made: 0 });

fn take_place() -> Result<Place, Status> {
    let taken = KNOWN.try_with(|places| {
        let free = places.free.pop();
        places.made += u64::from(free.is_none());
        free.ok_or(NATIVE_WORKERS + (places.made - 1) * PLACE_BYTES)
    });
    taken.ok_or(Status::WrongState)?.or_else(Place::make)
}

struct Shared<T> {
    value: UnsafeCell<Option<T>>,
    done: Event,
}

// SAFETY: written once by the worker before `done` is set, taken once by who joins after that.
unsafe impl<T: Send> Sync for Shared<T> {}

/// A dispatcher that runs a function.
pub struct Worker<T> {
    dispatcher: CapAddr,
    known: supervisor::Known,
    place: Place,
    shared: Arc<Shared<T>>,
}

type Main = Box<dyn FnOnce() + Send>;

/// Runs `f` on core `core`, or on any for `None`. `OutOfRange`: there is no such core. `NoMemory`,
/// `NoSlot`: what a dispatcher is made of is not there.
pub fn spawn<T: Send + 'static>(
    core: Option<u32>,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<Worker<T>, Status> {
    if core.is_some_and(|core| u64::from(core) >= cores()) {
        return Err(Status::OutOfRange);
    }
    preempt::expect_many();
    // Its end is a notification of the first dispatcher.
    upcall::install();
    let place = take_place()?;
    let dispatcher = place.dispatcher()?;
    let known = supervisor::admit(dispatcher)?;
    let shared = Arc::new(Shared { value: UnsafeCell::new(None), done: Event::new() });
    let own = shared.clone();
    let main: Main = Box::new(move || {
        let value = f();
        // SAFETY: nobody looks there before `done` is set, and that comes behind.
        unsafe { *own.value.get() = Some(value) };
        own.done.set();
    });
    // The address of a box with the wide pointer in it fits in a register.
    let main = Box::into_raw(Box::new(main));
    // SAFETY: the place is nobody else's, and its dispatcher does not run.
    unsafe { prepare(place, dispatcher, main as u64) };
    let mask = core.map_or(0, |core| 1 << core);
    invoke(dispatcher, op::SetAffinity { mask })?;
    invoke(dispatcher, op::Start {})?;
    Ok(Worker { dispatcher, known, place, shared })
}

/// Fills the frame of a dispatcher that is to run.
///
/// # Safety
/// The dispatcher does not run, and nobody else uses the place.
unsafe fn prepare(place: Place, dispatcher: CapAddr, main: u64) {
    let first = NATIVE_FRAME as *const DispatcherFrame;
    // SAFETY: both frames are mapped; the caller's promise. The library writes entries of the first
    // when it begins to handle faults.
    let (first, frame) = unsafe { (&*first, &mut *place.frame()) };
    (frame.critical_low, frame.critical_high) = (first.critical_low, first.critical_high);
    for reason in [Upcall::PageFault as usize, Upcall::Exception as usize] {
        frame.upcall[reason] = first.upcall[reason];
    }
    // As if the kernel had called.
    frame.upcall_stack = place.fault_stack() - 8;
    *frame.disabled.get_mut() = 0;
    *frame.notifications.get_mut() = 0;
    frame.library = Default::default();
    *frame.library[word::OWN_SLOT].get_mut() = u64::from(dispatcher.0);
    frame.save = Regs {
        rip: work as *const () as u64,
        rdi: main,
        rsp: place.stack() - 8,
        rflags: 0x202,
        cs: USER_CS,
        ss: USER_SS,
        ..Regs::default()
    };
}

/// Where a worker begins.
///
/// # Safety
/// `main` is from [`spawn`], and nobody else has it.
unsafe extern "C" fn work(main: *mut Main) -> ! {
    // SAFETY: the caller's promise.
    let main = unsafe { Box::from_raw(main) };
    main();
    // From here on it may be deleted: it holds no lock.
    upcall::own_word(word::ENDED).store(1, Release);
    loop {
        // Again, should it fail.
        let _ = invoke(upcall::dispatcher(), op::Suspend {});
    }
}

impl<T> Worker<T> {
    /// Says where it runs from now on: `OutOfRange` if there is no such core.
    pub fn move_to(&self, core: u32) -> Result<(), Status> {
        let mask = 1u64.checked_shl(core).ok_or(Status::OutOfRange)?;
        invoke(self.dispatcher, op::SetAffinity { mask })
    }

    /// The capability of its dispatcher.
    pub fn dispatcher(&self) -> CapAddr {
        self.dispatcher
    }

    /// Has its function returned?
    pub fn is_finished(&self) -> bool {
        self.shared.done.is_set()
    }

    /// Ends it wherever it is. What its function owns is lost; it must not be in the library, whose lock
    /// it would keep: only for functions that do nothing but invoke and compute.
    pub fn kill(self) -> Result<(), Status> {
        supervisor::end(self.dispatcher, self.known)?;
        domain::free_slot(self.dispatcher)?;
        KNOWN.try_with(|places| places.free.push(self.place));
        Ok(())
    }

    /// Waits for its end, as a thread of the first dispatcher: what it returned.
    pub fn join(self) -> Result<T, Status> {
        self.shared.done.wait();
        // SAFETY: the frame is mapped, the field atomic.
        while unsafe { (*self.place.frame()).library[word::ENDED].load(Acquire) } == 0 {
            crate::thread::yield_now();
            invoke(slots::DISPATCHER, op::Yield {})?;
        }
        supervisor::end(self.dispatcher, self.known)?;
        domain::free_slot(self.dispatcher)?;
        KNOWN.try_with(|places| places.free.push(self.place));
        // SAFETY: the worker has stored the value and is gone; the handle, which is the only one,
        // is used up.
        let value = unsafe { (*self.shared.value.get()).take() };
        Ok(value.expect("a worker that is done has left its result"))
    }
}
