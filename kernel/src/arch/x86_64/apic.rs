//! Interrupts: the local APIC with its timer, and the I/O APIC for the lines of old devices.
//!
//! | vector | |
//! |---|---|
//! | 32 + n | line n of the old interrupt controllers (3: log port, 4: console), n below 16 |
//! | 32 + n | message n of devices that interrupt by writing to the local APIC, n from 16 below 32 |
//! | 0xe0 | the timer of this core |
//! | 0xe1 | a request of another core |
//! | 0xff | spurious |
//!
//! Lines arrive at the boot core, and nobody else touches the I/O APIC. A line is masked when its
//! interrupt is taken, and stays so until [`irq_unmask`]: the driver in
//! user mode says when the device is quiet again. A message has no mask here: it comes once for each
//! write of the device, which has masks of its own.

use super::super::{Core, CoreHead, Handlers, IrqMessage};
use super::clock::Rates;
use super::cpu::{self, msr, Features};
use super::memory::{map_device, BootPages};
use super::port::out8;
use crate::arch::boot_info::MAX_CORES;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Vector of line 0.
pub const VECTOR_IRQ0: u64 = 32;
/// Lines of the old controllers.
pub const LINES: usize = 16;
/// The same, and behind them those that are raised by messages.
pub const IRQS: usize = LINES + 16;
/// Vector of the timer.
pub const VECTOR_TIMER: u64 = 0xe0;
/// Vector for requests between cores.
pub const VECTOR_IPI: u64 = 0xe1;
const VECTOR_SPURIOUS: u64 = 0xff;

/// Registers of the local APIC, as offsets in its page.
#[derive(Clone, Copy)]
enum Register {
    Id = 0x20,
    TaskPriority = 0x80,
    EndOfInterrupt = 0xb0,
    Spurious = 0xf0,
    CommandLow = 0x300,
    CommandHigh = 0x310,
    Timer = 0x320,
    InitialCount = 0x380,
    CurrentCount = 0x390,
    Divisor = 0x3e0,
}

const MASKED: u32 = 1 << 16;
const TIMER_DEADLINE: u32 = 2 << 17;
const DIVIDE_BY_16: u32 = 3;

/// The page of registers; null if they are reached as model-specific registers.
static REGISTERS: AtomicPtr<u32> = AtomicPtr::new(core::ptr::null_mut());

fn read(register: Register) -> u32 {
    let base = REGISTERS.load(Ordering::Relaxed);
    // SAFETY: set by `init` to the mapped registers, or null where they are model-specific ones.
    unsafe {
        if base.is_null() {
            return cpu::read_msr(x2apic(register)) as u32;
        }
        base.byte_add(register as usize).read_volatile()
    }
}

fn write(register: Register, value: u32) {
    let base = REGISTERS.load(Ordering::Relaxed);
    // SAFETY: as above; none of these registers reaches memory.
    unsafe {
        if base.is_null() {
            return cpu::write_msr(x2apic(register), u64::from(value));
        }
        base.byte_add(register as usize).write_volatile(value);
    }
}

fn x2apic(register: Register) -> u32 {
    0x800 + register as u32 / 16
}

/// How this core's timer is programmed.
#[derive(Clone, Copy)]
pub enum Timer {
    /// By the value of the time stamp counter.
    Deadline,
    /// By a count, of which there are `rate` / 2^32 in a tick of the time stamp counter.
    Count { rate: u64 },
}

impl Timer {
    pub fn new(features: &Features, rates: Rates) -> Timer {
        if features.tsc_deadline {
            return Timer::Deadline;
        }
        let rate = (u128::from(rates.apic_hz) << 32) / u128::from(rates.tsc_hz);
        Timer::Count { rate: rate as u64 }
    }

    /// Makes the local APIC work like this.
    pub fn start(self) {
        let mode = if let Timer::Deadline = self { TIMER_DEADLINE } else { 0 };
        write(Register::InitialCount, 0);
        write(Register::Timer, VECTOR_TIMER as u32 | mode);
        // Without a fence a write of the deadline could overtake the change of the mode.
        fence();
    }
}

/// Finds the registers of the local APICs, at physical address `base` on every core, and switches
/// this core's on.
pub fn init(base: u64, features: &Features, pages: &mut BootPages) {
    if !features.x2apic {
        REGISTERS.store(map_device(0, base, pages).cast(), Ordering::Relaxed);
    }
    enable(features);
}

/// Switches this core's local APIC on, with the timer free-running and silent.
pub fn enable(features: &Features) {
    const ENABLE: u64 = 1 << 11;
    const X2APIC: u64 = 1 << 10;
    // SAFETY: every 64-bit processor has the register, and the bits as CPUID says.
    unsafe {
        let mode = if features.x2apic { ENABLE | X2APIC } else { ENABLE };
        cpu::write_msr(msr::APIC_BASE, cpu::read_msr(msr::APIC_BASE) | mode);
    }
    write(Register::TaskPriority, 0);
    write(Register::Spurious, VECTOR_SPURIOUS as u32 | 1 << 8);
    write(Register::Divisor, DIVIDE_BY_16);
    write(Register::Timer, MASKED | VECTOR_TIMER as u32);
    write(Register::InitialCount, u32::MAX);
}

/// How far the timer has counted since [`init`].
pub fn timer_ticks() -> u64 {
    u64::from(u32::MAX - read(Register::CurrentCount))
}

/// The address of this core's local APIC.
pub fn id() -> u32 {
    let value = read(Register::Id);
    if REGISTERS.load(Ordering::Relaxed).is_null() {
        value
    } else {
        value >> 24
    }
}

/// Asks for one timer interrupt when the time stamp counter reaches `deadline`; at once if it
/// already has, and not at all for `u64::MAX`. A later call replaces an earlier one.
pub fn timer_set(core: &mut CoreHead, deadline: u64) {
    match core.hw.timer {
        Timer::Deadline => {
            let value = if deadline == u64::MAX { 0 } else { deadline.max(1) };
            // SAFETY: CPUID says that the register is there.
            unsafe { cpu::write_msr(msr::TSC_DEADLINE, value) };
        }
        Timer::Count { rate } => write(Register::InitialCount, count_until(deadline, rate)),
    }
}

/// Timer counts until `deadline`, at least one, at most what the register holds: a far deadline
/// gives an early interrupt, after which the caller asks again.
fn count_until(deadline: u64, rate: u64) -> u32 {
    if deadline == u64::MAX {
        return 0;
    }
    let ticks = deadline.saturating_sub(cpu::tsc());
    let count = (u128::from(ticks) * u128::from(rate)) >> 32;
    count.clamp(1, u128::from(u32::MAX)) as u32
}

/// Tells the local APIC that the interrupt was taken. The entry path does it for every interrupt.
pub fn eoi() {
    write(Register::EndOfInterrupt, 0);
}

/// Addresses of the cores' local APICs, by the numbers of the cores.
static ADDRESSES: [AtomicU32; MAX_CORES] = [const { AtomicU32::new(0) }; MAX_CORES];

/// Says which address core `core` has.
pub fn set_address(core: usize, apic_id: u32) {
    ADDRESSES[core].store(apic_id, Ordering::Relaxed);
}

/// What a core can be made to do.
mod command {
    pub const INIT: u32 = 0x4500;
    pub const STARTUP: u32 = 0x4600;
    pub const NMI: u32 = 0x4400;
    /// Destination: all others.
    pub const TO_OTHERS: u32 = 0xc_0000;
    /// The last command is still on its way (not with x2APIC).
    pub const PENDING: u32 = 1 << 12;
}

/// Interrupts core `core`, which is online, with [`VECTOR_IPI`].
pub fn send_ipi(core: usize) {
    send(core, VECTOR_IPI as u32);
}

/// Resets core `core`.
pub fn send_init(core: usize) {
    send(core, command::INIT);
}

/// Makes core `core`, which was reset, execute the page at `page` in real mode.
pub fn send_startup(core: usize, page: u64) {
    send(core, command::STARTUP | (page >> 12) as u32);
}

/// Interrupts all other cores, whatever they do. Those that do not run take no notice.
pub fn send_nmi_to_others() {
    write_command(0, command::NMI | command::TO_OTHERS);
}

fn send(core: usize, what: u32) {
    write_command(ADDRESSES[core].load(Ordering::Relaxed), what);
}

fn write_command(apic_id: u32, what: u32) {
    if REGISTERS.load(Ordering::Relaxed).is_null() {
        const COMMAND: u32 = 0x830;
        // Unlike one to memory, this write does not wait for the stores before it.
        fence();
        // SAFETY: interrupts another core, whose kernel expects that.
        unsafe { cpu::write_msr(COMMAND, u64::from(apic_id) << 32 | u64::from(what)) };
        return;
    }
    while read(Register::CommandLow) & command::PENDING != 0 {
        core::hint::spin_loop();
    }
    write(Register::CommandHigh, apic_id << 24);
    write(Register::CommandLow, what);
}

/// Waits until everything before it has happened.
fn fence() {
    // SAFETY: no effect but the waiting.
    unsafe { core::arch::asm!("mfence", "lfence", options(nostack, preserves_flags)) };
}

/// Called by the entry code for every interrupt.
pub extern "C" fn on_interrupt<H: Handlers>(core: &mut Core<H::Local>, vector: u64) {
    if vector == VECTOR_SPURIOUS {
        return;
    }
    let line = vector.wrapping_sub(VECTOR_IRQ0);
    let is_second = line < LINES as u64 && !take_line(line as u8);
    eoi();
    // One that this core's controller had accepted before the line was masked for the one before: who was
    // told of that has not acknowledged it, and looks at the device anyway.
    if is_second {
        return;
    }
    H::on_interrupt(core, vector);
}

/// Where a line of the old controllers arrives at the I/O APIC.
#[derive(Clone, Copy)]
pub struct Line {
    /// Input pin.
    pub pin: u32,
    pub active_low: bool,
    pub level: bool,
}

/// The I/O APIC that has the old lines.
#[derive(Clone, Copy)]
pub struct Routing {
    /// Physical address of its registers.
    pub base: u64,
    pub lines: [Line; LINES],
}

/// For lines that arrive nowhere.
const NO_PIN: u32 = u32::MAX;
/// The line that connects the two old controllers: no device has it.
const CASCADE: usize = 2;

static IO_APIC: AtomicPtr<u32> = AtomicPtr::new(core::ptr::null_mut());
static PINS: [AtomicU32; LINES] = [const { AtomicU32::new(NO_PIN) }; LINES];

/// Masks the old controllers, and routes every line to this core, masked.
pub fn init_io(routing: &Routing, pages: &mut BootPages) {
    mask_old_controllers();
    IO_APIC.store(map_device(1, routing.base, pages).cast(), Ordering::Relaxed);
    let pins = pins();
    for pin in 0..pins {
        write_io(redirection(pin), MASKED);
    }
    let destination = id() << 24;
    for (number, line) in routing.lines.iter().enumerate() {
        if number == CASCADE || line.pin >= pins {
            continue;
        }
        let polarity = u32::from(line.active_low) << 13;
        let trigger = u32::from(line.level) << 15;
        PINS[number].store(line.pin, Ordering::Relaxed);
        write_io(redirection(line.pin) + 1, destination);
        write_io(
            redirection(line.pin),
            MASKED | polarity | trigger | (VECTOR_IRQ0 as u32 + number as u32),
        );
    }
}

/// Their interrupts go to vectors of which even a spurious one harms nobody.
fn mask_old_controllers() {
    let setup = [
        (0x20, 0x11),
        (0xa0, 0x11), // begin initialisation
        (0x21, 0xf0),
        (0xa1, 0xf8), // vectors
        (0x21, 0x04),
        (0xa1, 0x02), // how they are connected
        (0x21, 0x01),
        (0xa1, 0x01), // mode
        (0x21, 0xff),
        (0xa1, 0xff), // everything masked
    ];
    for (port, value) in setup {
        // SAFETY: interrupts are off, and the controllers do not reach memory.
        unsafe { out8(port, value) };
    }
}

fn redirection(pin: u32) -> u32 {
    0x10 + 2 * pin
}

fn pins() -> u32 {
    const VERSION: u32 = 1;
    (read_io(VERSION) >> 16 & 0xff) + 1
}

fn read_io(register: u32) -> u32 {
    let base = IO_APIC.load(Ordering::Relaxed);
    // SAFETY: mapped by `init_io`: a register that selects, and 16 bytes on a window to it.
    unsafe {
        base.write_volatile(register);
        base.byte_add(0x10).read_volatile()
    }
}

fn write_io(register: u32, value: u32) {
    let base = IO_APIC.load(Ordering::Relaxed);
    // SAFETY: as above.
    unsafe {
        base.write_volatile(register);
        base.byte_add(0x10).write_volatile(value);
    }
}

/// Masks a line whose interrupt has come; `false` if it was masked already.
fn take_line(irq: u8) -> bool {
    let mut was_masked = false;
    change_mask(irq, |entry| {
        was_masked = entry & MASKED != 0;
        entry | MASKED
    });
    !was_masked
}

/// The message that raises interrupt `irq` on this core: what a processor's local APIC takes for an
/// interrupt with this vector, as an edge. `None` for a line with a pin, and on a core whose address the
/// message has no room for.
pub fn irq_message(irq: u8) -> Option<IrqMessage> {
    const TO_LOCAL_APIC: u32 = 0xfee0_0000;
    let core = id();
    let is_message = (LINES..IRQS).contains(&usize::from(irq));
    (is_message && core <= 0xff).then_some(IrqMessage {
        address: TO_LOCAL_APIC | core << 12,
        value: VECTOR_IRQ0 as u32 + u32::from(irq),
    })
}

/// Keeps line `irq` from interrupting. A line that does not exist is ignored.
pub fn irq_mask(irq: u8) {
    change_mask(irq, |entry| entry | MASKED);
}

/// Lets line `irq` interrupt the boot core. A line that does not exist is ignored.
pub fn irq_unmask(irq: u8) {
    change_mask(irq, |entry| entry & !MASKED);
}

fn change_mask(irq: u8, change: impl FnOnce(u32) -> u32) {
    let Some(pin) = PINS.get(usize::from(irq)) else { return };
    let pin = pin.load(Ordering::Relaxed);
    if pin == NO_PIN {
        return;
    }
    let register = redirection(pin);
    write_io(register, change(read_io(register)));
}
