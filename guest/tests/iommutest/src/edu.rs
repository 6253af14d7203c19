//! The driver of QEMU's `edu` device: it copies between memory and a buffer of its own, 100 ms after it was asked to.
//! (QEMU, docs/specs/edu.txt.)

use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots::DISPATCHER;
use libos::abi::DispatcherFrame;
use libos::captypes::invocations::MapFlags;
use libos::vspace::RW;
use libos::{domain, invoke, op, Cap, CapAddr, Status};

/// Who made it, and what it is.
pub const VENDOR: u16 = 0x1234;
pub const DEVICE: u16 = 0x11e8;

/// Most bytes of one copy. (The device ends the emulator when it is told to use the last byte of its buffer.)
pub const MOST: u64 = 2048;

/// Registers, as offsets.
const SOURCE: usize = 0x80;
const DESTINATION: usize = 0x88;
const COUNT: usize = 0x90;
const COMMAND: usize = 0x98;
/// The buffer, as the device calls it.
const BUFFER: u64 = 0x40000;
/// Bits of the command.
const RUN: u64 = 1;
const TO_MEMORY: u64 = 2;

/// The device.
pub struct Edu {
    registers: *mut u8,
}

impl Edu {
    /// The one with these registers.
    pub fn new(registers: CapAddr, bytes: u64) -> Result<Edu, Status> {
        let flags = RW.or(MapFlags::UNCACHED);
        let va = domain::with(|domain| domain.map(registers.place(), 0, bytes, flags))?;
        Ok(Edu { registers: va as *mut u8 })
    }

    /// Has the device copy `bytes` from memory, at an address of its own, to its buffer.
    pub fn fetch(&self, from: u64, bytes: u64) -> Result<(), Status> {
        self.copy(from, BUFFER, bytes, 0)
    }

    /// The other way.
    pub fn store(&self, to: u64, bytes: u64) -> Result<(), Status> {
        self.copy(BUFFER, to, bytes, TO_MEMORY)
    }

    fn copy(&self, from: u64, to: u64, bytes: u64, direction: u64) -> Result<(), Status> {
        assert!(bytes <= MOST);
        self.set(SOURCE, from);
        self.set(DESTINATION, to);
        self.set(COUNT, bytes);
        self.set(COMMAND, RUN | direction);
        while self.get(COMMAND) & RUN != 0 {
            sleep()?;
        }
        Ok(())
    }

    fn set(&self, register: usize, value: u64) {
        // SAFETY: registers of the device, which are mapped for good. What it does to memory then is what is tested:
        // it reaches pages that only these tests use, or none.
        unsafe { self.registers.add(register).cast::<u64>().write_volatile(value) };
    }

    fn get(&self, register: usize) -> u64 {
        // SAFETY: as above; reading has no effect.
        unsafe { self.registers.add(register).cast::<u64>().read_volatile() }
    }
}

/// For some milliseconds.
fn sleep() -> Result<(), Status> {
    // SAFETY: every program's frame is mapped there, for good.
    let hz = unsafe { (*(NATIVE_FRAME as *const DispatcherFrame)).tsc_hz };
    // SAFETY: reads a counter.
    let deadline = unsafe { core::arch::x86_64::_rdtsc() } + hz / 200;
    invoke(DISPATCHER, op::SetTimer { deadline })?;
    invoke(DISPATCHER, op::Wait {}).map(|_| ())
}
