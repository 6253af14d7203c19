//! PCI functions: what becomes of their access to memory, and what they were refused.

use crate::arch;
use crate::cap::policy::SCALE;
use captypes::invocations::DeviceFault;
use captypes::Status;
use core::ops::Range;
use mdb::RawCap;
use vtd::{Context, Fault, CONTEXTS};

/// How many functions all buses have.
pub const FUNCTIONS: u64 = 1 << 16;

/// Requests that are remembered until somebody asks for them.
const REMEMBERED: usize = 16;

/// The functions of a capability.
fn functions(cap: &RawCap) -> Range<u64> {
    let first = cap.base >> SCALE;
    first..first + (cap.word >> SCALE)
}

/// The one function of a capability, of the first bus.
fn function(cap: &RawCap) -> Result<u8, Status> {
    let Range { start, end } = functions(cap);
    match end - start == 1 && start < CONTEXTS as u64 {
        true => Ok(start as u8),
        false => Err(Status::OutOfRange),
    }
}

/// Makes what a DeviceSpace shows all that a function reaches; see [`captypes::op::AttachFunction`].
pub fn attach(cap: &RawCap, space: &RawCap) -> Result<(), Status> {
    set(cap, Context::Translate(space.base))
}

/// Lets a function reach nothing; see [`captypes::op::BlockFunction`].
pub fn block(cap: &RawCap) -> Result<(), Status> {
    set(cap, Context::Refuse)
}

fn set(cap: &RawCap, context: Context) -> Result<(), Status> {
    match arch::set_device_context(function(cap)?, context) {
        true => Ok(()),
        false => Err(Status::Unsupported),
    }
}

/// What devices were refused, the oldest first.
pub struct Refused {
    faults: [Option<Fault>; REMEMBERED],
    /// Others were refused, of which nothing is known.
    lost: bool,
}

impl Refused {
    /// Nothing.
    pub const fn new() -> Refused {
        Refused { faults: [None; REMEMBERED], lost: false }
    }

    /// The oldest of a function of `cap`; see [`captypes::op::NextDeviceFault`].
    pub fn next(&mut self, cap: &RawCap) -> Option<DeviceFault> {
        self.collect();
        let functions = functions(cap);
        let is_own = |fault: &Fault| functions.contains(&u64::from(fault.source));
        let at = self.faults.iter().position(|fault| fault.as_ref().is_some_and(is_own))?;
        let fault = self.take(at)?;
        Some(DeviceFault {
            function: fault.source.into(),
            address: fault.address,
            access: if fault.is_write { DeviceFault::WRITE } else { 0 },
            reason: fault.reason.into(),
            lost: core::mem::take(&mut self.lost).into(),
        })
    }

    /// Empties the IOMMU's records. The oldest makes room for the newest.
    fn collect(&mut self) {
        for _ in 0..REMEMBERED {
            let (fault, lost) = arch::next_fault();
            self.lost |= lost;
            let Some(fault) = fault else { return };
            let room = self.faults.iter().position(Option::is_none).unwrap_or_else(|| {
                self.lost = true;
                self.take(0);
                REMEMBERED - 1
            });
            self.faults[room] = Some(fault);
        }
    }

    /// Takes one out; the others close up.
    fn take(&mut self, at: usize) -> Option<Fault> {
        let taken = self.faults[at].take();
        self.faults[at..].rotate_left(1);
        taken
    }
}

impl Default for Refused {
    fn default() -> Self {
        Self::new()
    }
}
