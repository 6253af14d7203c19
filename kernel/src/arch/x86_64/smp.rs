//! The other cores: how they are started, reached and stopped.
//!
//! Everything that a core needs in memory is made by the boot core ([`prepare`]), before the rest is
//! given away. Later it starts one core after the other ([`start_all`]): an INIT and a start-up
//! interrupt make it execute a copy of the trampoline (`boot`), which leads to [`core_main`] on the
//! core's own stack. There it sets up its hardware as the boot core did and shows, in [`MEETING`],
//! that it has the same features and sees the same time. From then on it is *online*: a CPU driver
//! of its own, which waits for interrupts.
//!
//! A core that does not answer, or differs, is left out for ever; the others keep their numbers.

use super::super::{Core, Handlers};
use super::cpu::{self, tsc, Features};
use super::maps;
use super::memory::{self, phys_to_virt, BootPages};
use super::{apic, entry, fpu, tables};
use crate::arch::boot_info::{BootInfo, MAX_CORES};
use crate::arch::log;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The structures ([`Core`]) of the cores that can be started, by their numbers.
static CORES: [AtomicPtr<()>; MAX_CORES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CORES];

/// Physical address of the page for the trampoline; 0: there is none.
static TRAMPOLINE: AtomicU64 = AtomicU64::new(0);

/// What all cores read while they start.
static INFO: AtomicPtr<BootInfo> = AtomicPtr::new(core::ptr::null_mut());

/// Why a core is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// There is no page that a core can start in.
    NoPage,
    /// Nothing was heard of it.
    Silent,
    /// It came to be under another address.
    Mistaken,
    /// It cannot do what the boot core can.
    Features,
    /// Its time stamp counter is before or behind the boot core's.
    Clock,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Failure::NoPage => "there is no page for it to start in",
            Failure::Silent => "it does not answer",
            Failure::Mistaken => "it has another address than the firmware says",
            Failure::Features => "its features differ from the boot core's",
            Failure::Clock => "its clock differs from the boot core's",
        })
    }
}

/// Where the boot core and the core that starts agree.
struct Meeting {
    stage: AtomicU32,
    tsc: AtomicU64,
}

/// Stages of a meeting. The boot core writes `CALLED` and `ANSWERED`, the other one the rest.
mod stage {
    pub const CALLED: u32 = 0;
    /// `tsc` is the time of this.
    pub const ARRIVED: u32 = 1;
    /// Likewise.
    pub const ANSWERED: u32 = 2;
    pub const ONLINE: u32 = 3;
    pub const MISTAKEN: u32 = 4;
    pub const FEATURES: u32 = 5;
    pub const CLOCK: u32 = 6;
}

static MEETING: Meeting = Meeting { stage: AtomicU32::new(0), tsc: AtomicU64::new(0) };

extern "C" {
    /// Of `boot`.
    static core_trampoline: u8;
    static core_trampoline_end: u8;
    static starting_core: AtomicU64;
    static starting_code: AtomicU64;
    static kernel_root: AtomicU64;
}

/// Makes core number `id` with its stacks. It is not in use yet.
#[inline(never)]
pub fn make_core<H: Handlers>(
    id: u32,
    apic_id: u32,
    pages: &mut BootPages,
) -> &'static mut Core<H::Local> {
    const STACKS: u64 = 1 + tables::EMERGENCY_STACKS as u64;
    let first = u64::from(id) * STACKS;
    let stack = memory::make_stack(first, pages);
    let emergency = core::array::from_fn(|n| memory::make_stack(first + 1 + n as u64, pages));
    let core = pages.keep(Core::new(id, apic_id, stack, H::local()));
    core.place();
    core.head.maps = maps::make(id, pages);
    core.head.hw.tables.set_stacks(stack, emergency);
    core
}

/// Makes this core use its structures.
///
/// # Safety
/// `core` is this core's own, and nobody else's.
pub unsafe fn use_core<H: Handlers>(core: &mut Core<H::Local>) {
    // SAFETY: a core and its stacks stay for ever, by `make_core`.
    unsafe {
        core.head.hw.tables.load();
        entry::init::<H>(core);
    }
}

/// Makes what all cores share, and the structures of all but the boot core.
pub fn prepare<H: Handlers>(
    info: &BootInfo,
    boot_core: &mut Core<H::Local>,
    pages: &mut BootPages,
) {
    /// A start-up interrupt names a page below 640 KiB; the first holds the BIOS's vectors.
    const STARTABLE: core::ops::Range<u64> = 0x1000..0xa_0000;
    let listed = info.cores.as_slice();
    let shared: &'static [H::Shared] = pages.keep_many(listed.len(), H::shared);
    connect::<H>(boot_core, 0, shared);
    for (id, listed) in listed.iter().enumerate().skip(1) {
        let core = make_core::<H>(id as u32, listed.apic_id, pages);
        (core.head.hw.timer, core.head.hw.features) =
            (boot_core.head.hw.timer, boot_core.head.hw.features);
        connect::<H>(core, id as u8, shared);
        CORES[id].store((&raw mut *core).cast(), Ordering::Relaxed);
    }
    TRAMPOLINE.store(info.last_usable_page(STARTABLE).unwrap_or(0), Ordering::Relaxed);
}

fn connect<H: Handlers>(core: &mut Core<H::Local>, id: u8, all: &'static [H::Shared]) {
    H::connect(&mut core.local, id, all);
    core.head.set_library_calls(H::library_calls(&core.local));
}

/// Starts all other cores. Each runs [`Handlers::start_other`] from then on.
pub fn start_all<H: Handlers>(info: &'static BootInfo) {
    let listed = info.cores.as_slice();
    for (id, core) in listed.iter().enumerate() {
        apic::set_address(id, core.apic_id);
    }
    if listed.len() == 1 {
        return;
    }
    INFO.store((&raw const *info).cast_mut(), Ordering::Release);
    // SAFETY: written here only, before anybody reads them.
    unsafe {
        kernel_root.store(memory::kernel_root().0, Ordering::Release);
        starting_code.store(core_main::<H> as *const () as u64, Ordering::Release);
    }
    let page = place_trampoline();
    (1..listed.len()).for_each(apic::send_init);
    wait(info, 10_000);
    for id in 1..listed.len() {
        let started = page.ok_or(Failure::NoPage).and_then(|page| start(id, page, info));
        if let Err(failure) = started {
            log!("core {id} is not used: {failure}");
            maps::was_read(&info.archive);
        }
    }
    log!("{} of {} cores are online", online(), listed.len());
}

/// Copies the trampoline to its page, and returns the address of that.
fn place_trampoline() -> Option<u64> {
    let pa = TRAMPOLINE.load(Ordering::Relaxed);
    if pa == 0 {
        return None;
    }
    // SAFETY: two symbols around read-only data; the page is usable memory that is kept for this.
    unsafe {
        let code = &raw const core_trampoline;
        let length = (&raw const core_trampoline_end).offset_from_unsigned(code);
        phys_to_virt(pa).copy_from_nonoverlapping(code, length);
    }
    Some(pa)
}

/// Waits so many microseconds.
fn wait(info: &BootInfo, microseconds: u64) {
    let end = tsc() + info.tsc_hz * microseconds / 1_000_000;
    while tsc() < end {
        core::hint::spin_loop();
    }
}

/// Starts one core, and meets it.
fn start(id: usize, page: u64, info: &BootInfo) -> Result<(), Failure> {
    /// How long it may take until a core answers. An emulator may have little time for it.
    const PATIENCE: u64 = 10_000_000;
    MEETING.stage.store(stage::CALLED, Ordering::Release);
    // SAFETY: only the core that starts takes it.
    unsafe { starting_core.store(CORES[id].load(Ordering::Relaxed) as u64, Ordering::Release) };
    apic::send_startup(id, page);
    wait(info, 200);
    if MEETING.stage.load(Ordering::Acquire) == stage::CALLED {
        // Old processors want it twice; one that runs takes no notice.
        apic::send_startup(id, page);
    }
    let silent = |_| Failure::Silent;
    let met = wait_while(stage::CALLED, info, PATIENCE).map_err(silent).and_then(|()| {
        if MEETING.stage.load(Ordering::Acquire) == stage::ARRIVED {
            MEETING.tsc.store(tsc(), Ordering::Relaxed);
            MEETING.stage.store(stage::ANSWERED, Ordering::Release);
        }
        wait_while(stage::ANSWERED, info, PATIENCE).map_err(silent)
    });
    // SAFETY: as above. Whoever comes later finds nothing, and stops.
    unsafe { starting_core.store(0, Ordering::Release) };
    met?;
    match MEETING.stage.load(Ordering::Acquire) {
        stage::ONLINE => Ok(()),
        stage::MISTAKEN => Err(Failure::Mistaken),
        stage::FEATURES => Err(Failure::Features),
        stage::CLOCK => Err(Failure::Clock),
        _ => Err(Failure::Silent),
    }
}

/// The time is up.
struct TimedOut;

fn wait_while(stage: u32, info: &BootInfo, microseconds: u64) -> Result<(), TimedOut> {
    let end = tsc() + info.tsc_hz / 1_000_000 * microseconds;
    while MEETING.stage.load(Ordering::Acquire) == stage {
        if tsc() > end {
            return Err(TimedOut);
        }
        core::hint::spin_loop();
    }
    Ok(())
}

/// Where another core comes to from the trampoline, on its own stack.
extern "C" fn core_main<H: Handlers>(core: &'static mut Core<H::Local>) -> ! {
    let features = Features::detect();
    let boot_features = core.head.hw.features;
    if features != boot_features {
        give_up(stage::FEATURES);
    }
    cpu::enable(&features);
    fpu::init(&features);
    // SAFETY: the boot core gave it to the one core that it started.
    unsafe { use_core::<H>(core) };
    apic::enable(&features);
    if apic::id() != core.head.apic_id {
        give_up(stage::MISTAKEN);
    }
    core.head.hw.timer.start();
    if !sees_the_same_time() {
        give_up(stage::CLOCK);
    }
    let info = INFO.load(Ordering::Acquire);
    ONLINE.fetch_add(1, Ordering::AcqRel);
    MEETING.stage.store(stage::ONLINE, Ordering::Release);
    // SAFETY: set before any other core was started, and never changed any more.
    H::start_other(core, unsafe { &*info })
}

/// Does the boot core's clock, read between two readings of this core's, lie between them?
fn sees_the_same_time() -> bool {
    let before = tsc();
    MEETING.stage.store(stage::ARRIVED, Ordering::Release);
    while MEETING.stage.load(Ordering::Acquire) == stage::ARRIVED {
        core::hint::spin_loop();
    }
    let theirs = MEETING.tsc.load(Ordering::Relaxed);
    (before..=tsc()).contains(&theirs)
}

fn give_up(why: u32) -> ! {
    MEETING.stage.store(why, Ordering::Release);
    halt()
}

/// Lets this core do nothing for ever, but for [`stop`].
pub fn halt() -> ! {
    loop {
        // SAFETY: nothing happens any more.
        unsafe { core::arch::asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// Cores that run, the boot core included.
static ONLINE: AtomicU32 = AtomicU32::new(1);

/// How many cores run.
pub fn online() -> u32 {
    ONLINE.load(Ordering::Acquire)
}

/// The address of the core that ends the machine, plus one; 0 while nobody does.
static ENDING: AtomicU32 = AtomicU32::new(0);
/// Cores that have stopped because of that.
static STOPPED: AtomicU32 = AtomicU32::new(0);

/// Who is first to end the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ender {
    /// This core: it goes on.
    Me,
    /// This core, which was about to do so already.
    MeAgain,
    /// Another core.
    Other,
}

/// Claims the end of the machine for this core. One that comes too late should [`halt`]: it will be
/// told to [`stop`].
pub fn claim_end() -> Ender {
    let me = cpu::apic_id() + 1;
    match ENDING.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ender::Me,
        Err(ender) if ender == me => Ender::MeAgain,
        Err(_) => Ender::Other,
    }
}

/// Was this core told to [`stop`], if it has received a non-maskable interrupt?
pub fn must_stop() -> bool {
    let ender = ENDING.load(Ordering::Acquire);
    ender != 0 && ender != cpu::apic_id() + 1
}

/// Stops all other cores, wherever they are, for [`claim_end`] was won. Waits for them, but not for
/// ever: one may be stuck.
pub fn stop_others() {
    const TRIES: u32 = 50_000_000;
    let others = online() - 1;
    if others == 0 {
        return;
    }
    apic::send_nmi_to_others();
    for _ in 0..TRIES {
        if STOPPED.load(Ordering::Acquire) >= others {
            return;
        }
        core::hint::spin_loop();
    }
}

/// Stops this core, because another one ends the machine and waits for that.
pub fn stop() -> ! {
    STOPPED.fetch_add(1, Ordering::AcqRel);
    halt()
}
