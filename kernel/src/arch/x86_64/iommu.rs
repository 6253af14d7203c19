//! The IOMMU: its registers, its root table, and the context table of the first bus. What is in them says [`vtd`].
//!
//! From the start on every function passes: its addresses are physical ones, as without an IOMMU. Those of the first
//! bus can be translated or refused one by one; all other buses share one context table, of functions that pass.
//!
//! Any core may have translations forgotten, at any time; context entries change on the boot core only, where the
//! capabilities to functions are. The registers are used by one core at a time. Whoever waits for them does so with
//! interrupts off, for somebody who waits for nothing but the IOMMU.
//!
//! Tables are read as the processors see them. A unit that says it reads memory only is used under a hypervisor, whose
//! unit is a program that reads through caches; a real one of that kind is not.

use super::cpu;
use super::memory::{map_device, phys_to_virt, BootPages};
use crate::arch::log;
use core::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU64, Ordering};
use vtd::{command, context_command, iotlb_command, root_entry};
use vtd::{Abilities, Context, Fault, FaultStatus, Functions, Register, CONTEXTS, ENTRY_WORDS};

/// A table of either kind.
type Entries = [[AtomicU64; ENTRY_WORDS]; CONTEXTS];

/// Window of the registers; the interrupt controllers have the first two.
const WINDOW: u64 = 2;

struct Unit {
    registers: *mut u8,
    abilities: Abilities,
    /// What goes through it.
    functions: Functions,
    /// Of the first bus.
    contexts: &'static Entries,
    /// A core uses the registers.
    busy: AtomicBool,
    /// Some function is translated, or was.
    translates: AtomicBool,
}

/// Null on a machine without one; never changes after [`init`].
static UNIT: AtomicPtr<Unit> = AtomicPtr::new(core::ptr::null_mut());

fn unit() -> Option<&'static Unit> {
    // SAFETY: null, or what `init` keeps for ever. All that changes in it is atomic.
    unsafe { UNIT.load(Ordering::Acquire).as_ref() }
}

/// Has the machine an IOMMU that is used?
pub fn has_iommu() -> bool {
    unit().is_some()
}

/// Finds out what the IOMMU can do of which the firmware says `known`, and if that is enough, lets all functions pass
/// and switches it on.
pub fn init(known: &vtd::Unit, pages: &mut BootPages) {
    let base = known.base;
    let registers = map_device(WINDOW, base, pages);
    // SAFETY: the registers are mapped.
    let abilities = unsafe {
        Abilities {
            base: read64(registers, Register::Capability as usize),
            extended: read64(registers, Register::ExtendedCapability as usize),
        }
    };
    if !abilities.suffice() || !abilities.is_coherent() && !is_emulated() {
        log!("IOMMU at {base:#x} lacks what is needed: {abilities:x?}");
        return;
    }
    let (root, _) = new_table(pages, |_| [0; ENTRY_WORDS]);
    let passing = |function: usize| Context::Pass.encode(function as u8, abilities);
    let (others, _) = new_table(pages, passing);
    let (first, contexts) = new_table(pages, passing);
    for bus in 0..CONTEXTS {
        let entry = root_entry(if bus == 0 { first } else { others });
        // SAFETY: the root table, which nobody uses yet.
        unsafe { phys_to_virt(root).cast::<[u64; ENTRY_WORDS]>().add(bus).write(entry) };
    }
    let (busy, translates) = (AtomicBool::new(false), AtomicBool::new(false));
    let unit = pages.keep(Unit {
        registers,
        abilities,
        functions: known.functions,
        contexts,
        busy,
        translates,
    });
    fence(Ordering::SeqCst);
    unit.write64(Register::RootTable as usize, root);
    unit.command(command::SET_ROOT);
    unit.forget_contexts();
    unit.forget_translations();
    unit.command(command::TRANSLATE);
    UNIT.store(unit, Ordering::Release);
    log!("IOMMU at {base:#x}: {abilities:x?}");
}

/// Is there a hypervisor below?
fn is_emulated() -> bool {
    const HYPERVISOR: u32 = 1 << 31;
    cpu::cpuid(1, 0).ecx & HYPERVISOR != 0
}

/// A table full of entries: its physical address, and where it is.
fn new_table(
    pages: &mut BootPages,
    entry: impl Fn(usize) -> [u64; ENTRY_WORDS],
) -> (u64, &'static Entries) {
    let pa = pages.take(1);
    let table: *mut Entries = phys_to_virt(pa).cast();
    // SAFETY: a fresh page of zeros, which stays; atomic words are as words.
    let table = unsafe { &*table };
    for (number, place) in table.iter().enumerate() {
        for (word, value) in place.iter().zip(entry(number)) {
            word.store(value, Ordering::Relaxed);
        }
    }
    (pa, table)
}

/// # Safety
/// There is a register of 64 bits at `offset`, reading which has no effect.
unsafe fn read64(registers: *mut u8, offset: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { registers.add(offset).cast::<u64>().read_volatile() }
}

impl Unit {
    fn read64(&self, offset: usize) -> u64 {
        // SAFETY: in the page of registers: those of the manual, and others as far as `Abilities::suffice` has looked.
        unsafe { read64(self.registers, offset) }
    }

    fn write64(&self, offset: usize, value: u64) {
        // SAFETY: as above; what the unit does then reaches the memory of devices only as its tables say.
        unsafe { self.registers.add(offset).cast::<u64>().write_volatile(value) };
    }

    fn read32(&self, register: Register) -> u32 {
        // SAFETY: as above.
        unsafe { self.registers.add(register as usize).cast::<u32>().read_volatile() }
    }

    fn write32(&self, register: Register, value: u32) {
        // SAFETY: as above.
        unsafe { self.registers.add(register as usize).cast::<u32>().write_volatile(value) };
    }

    /// Gives one command, and waits until it is obeyed.
    fn command(&self, bit: u32) {
        self.write32(Register::Command, command::with(self.read32(Register::Status), bit));
        while self.read32(Register::Status) & bit == 0 {
            core::hint::spin_loop();
        }
    }

    fn forget_contexts(&self) {
        let at = Register::ContextCommand as usize;
        self.write64(at, context_command::ALL);
        while self.read64(at) & context_command::BUSY != 0 {
            core::hint::spin_loop();
        }
    }

    fn forget_translations(&self) {
        let at = self.abilities.iotlb();
        self.write64(at, iotlb_command::ALL);
        while self.read64(at) & iotlb_command::BUSY != 0 {
            core::hint::spin_loop();
        }
    }

    /// Does something with the registers while no other core does.
    fn alone<R>(&self, work: impl FnOnce(&Unit) -> R) -> R {
        while self.busy.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        let result = work(self);
        self.busy.store(false, Ordering::Release);
        result
    }

    /// Writes the words of the entry of a function, in an order in which it never is half of one and half of another.
    fn write_context(&self, function: u8, [first, second]: [u64; ENTRY_WORDS]) {
        let entry = &self.contexts[function as usize];
        entry[0].store(0, Ordering::SeqCst);
        self.forget_contexts();
        self.forget_translations();
        entry[1].store(second, Ordering::SeqCst);
        entry[0].store(first, Ordering::SeqCst);
        // Some units remember that there was nothing.
        self.forget_contexts();
        self.forget_translations();
    }
}

/// What becomes of requests of a function of the first bus.
pub fn device_context(function: u8) -> Context {
    let word = unit().map(|unit| unit.contexts[function as usize][0].load(Ordering::Relaxed));
    word.map_or(Context::Pass, Context::decode)
}

/// Says what becomes of requests of a function of the first bus. When this returns, nothing that it has asked for before
/// is under way. Returns `false` if they do not go through the IOMMU.
pub fn set_device_context(function: u8, context: Context) -> bool {
    let Some(unit) = unit().filter(|unit| unit.functions.has(function)) else { return false };
    unit.translates.store(true, Ordering::SeqCst);
    unit.alone(|unit| unit.write_context(function, context.encode(function, unit.abilities)));
    true
}

/// No device uses a translation any more that its tables do not allow. Returns `false` if none ever was translated.
pub fn forget_devices() -> bool {
    let Some(unit) = unit().filter(|unit| unit.translates.load(Ordering::SeqCst)) else {
        return false;
    };
    // What is in the tables is there before.
    fence(Ordering::SeqCst);
    unit.alone(Unit::forget_translations);
    true
}

/// Takes the oldest record of a refused request, if there is one, and says whether others were lost.
pub fn next_fault() -> (Option<Fault>, bool) {
    let Some(unit) = unit() else { return (None, false) };
    unit.alone(|unit| {
        let status = FaultStatus(unit.read32(Register::FaultStatus));
        if status.has_lost() {
            unit.write32(Register::FaultStatus, FaultStatus::OVERFLOW.0);
        }
        let records = unit.abilities.records();
        let at = unit.abilities.record(status.first() % records);
        let found = status
            .is_pending()
            .then(|| Fault::decode([unit.read64(at), unit.read64(at + 8)]))
            .flatten();
        if found.is_some() {
            unit.write64(at + 8, Fault::IN_USE);
        }
        (found, status.has_lost())
    })
}
