//! I/O ports, and the second serial port, which carries the kernel's log.
//!
//! The first serial port belongs to programs and is never touched here. The second one is shared
//! with a user-mode server that reads its input, so the kernel only ever polls for room and writes.

use super::smp::{self, Ender};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};

/// Reads one byte.
///
/// # Safety
/// Reading this port must have no effect on memory.
pub unsafe fn in8(port: u16) -> u8 {
    let value: u8;
    // SAFETY: the caller's promise.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) };
    value
}

/// Writes one byte.
///
/// # Safety
/// Writing this port must have no effect on memory.
pub unsafe fn out8(port: u16, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

/// Reads an I/O port of 1, 2 or 4 bytes; of any other number, nothing.
///
/// # Safety
/// Reading this port must have no effect on memory.
pub unsafe fn io_in(port: u16, bytes: u8) -> u32 {
    let mut value: u32 = 0;
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => value = u32::from(in8(port)),
            2 => asm!("in ax, dx", in("dx") port, inout("eax") value, options(nomem, nostack)),
            4 => asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack)),
            _ => {}
        }
    }
    value
}

/// Writes an I/O port of 1, 2 or 4 bytes; of any other number, nothing.
///
/// # Safety
/// Writing this port must have no effect on memory.
pub unsafe fn io_out(port: u16, bytes: u8, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => out8(port, value as u8),
            2 => asm!("out dx, ax", in("dx") port, in("eax") value, options(nomem, nostack)),
            4 => asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack)),
            _ => {}
        }
    }
}

const CONSOLE_BASE: u16 = 0x3f8;
const LOG_BASE: u16 = 0x2f8;
const LINE_STATUS: u16 = LOG_BASE + 5;
const ROOM: u8 = 1 << 5;

/// The port that carries the log.
pub struct LogPort;

impl LogPort {
    /// 115200 bits a second, 8 data bits, no parity, FIFOs on, no interrupts; for the program's
    /// console too, which is user mode's from then on: the host sends to it as soon as the log
    /// speaks, and clearing its FIFO later would lose that. An interrupt comes for 14 bytes or
    /// after a pause: QEMU hands over only as many bytes at a time as make one.
    pub(super) fn init() {
        let setup = [(1, 0x00), (3, 0x80), (0, 0x01), (1, 0x00), (3, 0x03), (2, 0xc7), (4, 0x0b)];
        for base in [CONSOLE_BASE, LOG_BASE] {
            for (register, value) in setup {
                // SAFETY: the registers of a serial port do not reach memory.
                unsafe { out8(base + register, value) };
            }
        }
    }

    fn put(byte: u8) {
        // SAFETY: as above.
        unsafe {
            while in8(LINE_STATUS) & ROOM == 0 {}
            out8(LOG_BASE, byte);
        }
    }
}

/// A lock around the log, for whole lines. Cores get it in the order in which they come: one that
/// writes without a pause keeps nobody out.
pub struct LogLock;

/// The next number to be drawn, and the one whose turn it is.
static DRAWN: AtomicU32 = AtomicU32::new(0);
static TURN: AtomicU32 = AtomicU32::new(0);

impl LogLock {
    /// Waits until no other core writes.
    pub fn take() -> LogLock {
        let number = DRAWN.fetch_add(1, Ordering::Relaxed);
        while TURN.load(Ordering::Acquire) != number {
            core::hint::spin_loop();
        }
        LogLock
    }

    /// Opens the lock, whoever has it or waits: no other core runs any more. `true` if somebody had
    /// it, perhaps in the middle of a line.
    pub fn break_open() -> bool {
        let drawn = DRAWN.load(Ordering::Acquire);
        TURN.swap(drawn, Ordering::AcqRel) != drawn
    }
}

impl Drop for LogLock {
    fn drop(&mut self) {
        TURN.fetch_add(1, Ordering::Release);
    }
}

impl core::fmt::Write for LogPort {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(Self::put);
        Ok(())
    }
}

/// Port of QEMU's `isa-debug-exit`, and what is written there.
const EXIT_PORT: u16 = 0xf4;
const EXIT_SHUTDOWN: u8 = 0x10;
const EXIT_PANIC: u8 = 0x11;

/// Ends the machine in order, from any core: the others stop between two lines of the log.
pub fn shutdown() -> ! {
    let lock = LogLock::take();
    if smp::claim_end() == Ender::Me {
        smp::stop_others();
        end(EXIT_SHUTDOWN)
    }
    drop(lock);
    smp::halt()
}

/// Ends the machine after a panic, which has called `enter_panic`.
pub fn shutdown_after_panic() -> ! {
    end(EXIT_PANIC)
}

/// How often a port is asked whether it has sent everything, before it is given up.
const DRAIN_TRIES: u32 = 5_000_000;

/// Waits until both serial ports have sent everything: an emulator that ends forgets the rest.
fn drain() {
    const ALL_SENT: u8 = 1 << 6;
    for base in [CONSOLE_BASE, LOG_BASE] {
        // SAFETY: reading the line status changes nothing that anybody needs any more.
        let sent = || unsafe { in8(base + 5) } & ALL_SENT != 0;
        for _ in 0..DRAIN_TRIES {
            if sent() {
                break;
            }
            core::hint::spin_loop();
        }
    }
}

/// Tells the emulator; where nothing listens, a triple fault resets the machine, which `-no-reboot`
/// turns into an end too.
fn end(code: u8) -> ! {
    drain();
    let no_table = [0u8; 10];
    // SAFETY: nothing runs after this.
    unsafe {
        out8(EXIT_PORT, code);
        asm!("lidt [{}]", "int3", in(reg) &no_table, options(noreturn));
    }
}
