//! Short turns of the cores of an emulator that counts instructions.
//!
//! The emulator ends a core's turn whenever a device has something to do: also within the kernel, which takes no interrupts.
//! So the timers of the HPET run, without raising an interrupt, with three periods that have nothing to do with one another: a turn is
//! 10 to some 600 instructions then, and nobody pays for it.

use crate::lab::{slot, Lab};
use libos::abi::slots::BOOT_DEVICES_L1;
use libos::vspace::RW;
use libos::{domain, Cap, CapAddr, CapType, Status, PAGE};

/// Where it is in every PC.
const BASE: u64 = 0xfed0_0000;
const CONFIGURATION: usize = 0x10;
const COUNTER: usize = 0xf0;
/// Of timer 0; the others follow.
const TIMER: usize = 0x100;
const COMPARATOR: usize = 0x108;
const STEP: usize = 0x20;
/// Of a timer: it is periodic, and the next value that is written is the period.
const PERIODIC: u64 = 1 << 3 | 1 << 6;
/// Ticks of 10 instructions, a prime each.
const PERIODS: [u64; 3] = [61, 103, 257];

pub struct Turns {
    registers: u64,
}

impl Turns {
    /// From now on turns are short.
    pub fn begin(lab: &Lab) -> Result<Turns, Status> {
        let frame = slot(2);
        for number in 0..lab.boot.info.device_caps {
            let whole = CapAddr::new(BOOT_DEVICES_L1, number);
            let what = whole.identify()?;
            if what.ty == CapType::PhysAddr && (what.base..what.base + what.bytes).contains(&BASE) {
                whole.retype(CapType::DevFrame, BASE - what.base, PAGE, 1, frame)?;
                let map = |domain: &mut domain::Domain| domain.map(frame.into(), 0, PAGE, RW);
                let turns = Turns { registers: domain::with(map)? };
                turns.set();
                return Ok(turns);
            }
        }
        Err(Status::OutOfRange)
    }

    fn set(&self) {
        self.write(CONFIGURATION, 0);
        self.write(COUNTER, 0);
        for (timer, period) in PERIODS.into_iter().enumerate() {
            self.write(TIMER + timer * STEP, PERIODIC);
            self.write(COMPARATOR + timer * STEP, period);
        }
        self.write(CONFIGURATION, 1);
    }

    /// They are as before.
    pub fn end(self) {
        self.write(CONFIGURATION, 0);
    }

    fn write(&self, register: usize, value: u64) {
        // SAFETY: registers of a device that nobody else uses, mapped for good.
        unsafe { ((self.registers as usize + register) as *mut u64).write_volatile(value) }
    }
}
