//! Dispatchers of this domain on the other cores, each of which writes to pages when it is told to.
//!
//! They are at home on core 0 and run elsewhere: whatever the kernel cannot do for them there makes them go home.

use crate::lab::{slot, ticks, Lab};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use libos::abi::dispatcher::{DispatcherFrame, Regs};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots;
use libos::vspace::RW;
use libos::{invoke, op, CapType, Place, Status, PAGE};

/// Most cores.
pub const MOST: usize = 8;
/// Instructions of a round of somebody who waits.
const ROUND: u64 = 4;
/// Slots of dispatchers and their frames.
const FIRST_SLOT: u32 = 210;

/// What a core is to do, and how far it is.
#[repr(C, align(64))]
struct Orders {
    /// How many it has got, and how many it has carried out.
    given: AtomicU64,
    done: AtomicU64,
    /// Rounds in which it waited.
    waited: AtomicU64,
    share: Share,
}

/// Pages that one core writes to.
#[repr(C)]
pub struct Share {
    first: AtomicU64,
    count: AtomicU64,
    /// Bytes from each to the next.
    stride: AtomicU64,
}

static ORDERS: [Orders; MOST] = [const {
    let share =
        Share { first: AtomicU64::new(0), count: AtomicU64::new(0), stride: AtomicU64::new(0) };
    let (given, done, waited) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    Orders { given, done, waited, share }
}; MOST];

// A pause ends the core's turn where the emulator lets cores take turns: so each populates one page in its turn. (That
// emulator ends turns nowhere else while core 0 has something to do, so the kernel is never left within a fault.)
global_asm!(
    "morbench_worker:",
    "xor r15d, r15d",
    "2:", "inc qword ptr [rdi + {waited}]", "pause", "cmp [rdi + {given}], r15", "je 2b",
    "inc r15",
    "call morbench_write",
    "mov [rdi + {done}], r15",
    "jmp 2b",
    // Writes r15 to the pages of the share of rdi.
    "morbench_write:",
    "mov rsi, [rdi + {first}]", "mov rdx, [rdi + {count}]", "mov rcx, [rdi + {stride}]",
    "2:", "mov [rsi], r15", "pause", "add rsi, rcx", "dec rdx", "jnz 2b",
    "ret",
    // The same as a function, for core 0: (orders, value).
    "morbench_lead:",
    "push r15", "mov r15, rsi", "call morbench_write", "pop r15", "ret",
    // Until orders have been carried out: (orders, how many, rounds).
    "morbench_await:",
    "2:", "inc qword ptr [rdx]", "pause", "cmp [rdi + {done}], rsi", "jne 2b",
    "ret",
    given = const offset_of!(Orders, given),
    done = const offset_of!(Orders, done),
    waited = const offset_of!(Orders, waited),
    first = const offset_of!(Orders, share) + offset_of!(Share, first),
    count = const offset_of!(Orders, share) + offset_of!(Share, count),
    stride = const offset_of!(Orders, share) + offset_of!(Share, stride),
);

unsafe extern "C" {
    fn morbench_worker();
    fn morbench_lead(orders: *const Orders, value: u64);
    fn morbench_await(orders: *const Orders, count: u64, rounds: *const AtomicU64);
}

/// Starts a worker on each core but the first.
pub fn start(lab: &mut Lab) -> Result<(), Status> {
    for core in 1..lab.boot.info.cores.min(MOST as u32) {
        start_on(lab, core)?;
    }
    Ok(())
}

fn start_on(lab: &mut Lab, core: u32) -> Result<(), Status> {
    let (dispatcher, frame) = (slot(FIRST_SLOT + 2 * core), slot(FIRST_SLOT + 2 * core + 1));
    lab.make(CapType::Dispatcher, PAGE, dispatcher)?;
    lab.make(CapType::Frame, PAGE, frame)?;
    let orders = &ORDERS[core as usize];
    let stack = &raw const STACKS.0[core as usize] as u64;
    let fields = [
        (offset_of!(Regs, rdi), core::ptr::from_ref(orders) as u64),
        (offset_of!(Regs, rsp), stack + STACK as u64),
        (offset_of!(Regs, rip), morbench_worker as *const () as u64),
        (offset_of!(Regs, rflags), 0x202),
    ];
    let mut view = lab.window.open(frame, 0, PAGE, RW)?;
    for (at, value) in fields {
        view.write(offset_of!(DispatcherFrame, save) + at, &value.to_le_bytes())?;
    }
    drop(view);
    let configuration = op::Configure {
        cspace: slots::ROOT.into(),
        vspace: libos::vspace::root().into(),
        frame: frame.into(),
        frame_va: NATIVE_FRAME,
        fault_ep: Place::NULL,
        options: 0,
    };
    invoke(dispatcher, configuration)?;
    invoke(dispatcher, op::SetAffinity { mask: 1 << core })?;
    invoke(dispatcher, op::Start {})?;
    while orders.waited.load(SeqCst) == 0 {
        core::hint::spin_loop();
    }
    Ok(())
}

const STACK: usize = 64;

/// For return addresses.
#[repr(C, align(64))]
struct Stacks([core::cell::UnsafeCell<[u8; STACK]>; MOST]);

// SAFETY: each is used by the worker of its core only; nobody makes references to it.
unsafe impl Sync for Stacks {}

static STACKS: Stacks = Stacks([const { core::cell::UnsafeCell::new([0; STACK]) }; MOST]);

/// Has cores 0 to `cores` - 1 write to pages at the same time: `share` says how many, from which address and with which
/// stride. Returns the instructions that it took all of them, without those of waiting.
pub fn together(cores: u32, share: impl Fn(u32) -> (u64, u64, u64)) -> u64 {
    let all = &ORDERS[..cores as usize];
    for (core, orders) in (0..).zip(all) {
        let (count, first, stride) = share(core);
        orders.share.count.store(count, SeqCst);
        orders.share.first.store(first, SeqCst);
        orders.share.stride.store(stride, SeqCst);
    }
    let waited = || ORDERS.iter().map(|orders| orders.waited.load(SeqCst)).sum::<u64>();
    let (before, start) = (waited(), ticks());
    for orders in &all[1..] {
        orders.given.fetch_add(1, SeqCst);
    }
    // SAFETY: writes to pages that the share says, which are mapped for that.
    unsafe { morbench_lead(&all[0], 1) };
    for orders in &all[1..] {
        let given = orders.given.load(SeqCst);
        // SAFETY: reads the one counter and counts in the other.
        unsafe { morbench_await(orders, given, &raw const ORDERS[0].waited) };
    }
    ticks() - start - ROUND * (waited() - before)
}
