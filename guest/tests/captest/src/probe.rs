//! Reading, writing and executing at an address, seen from outside: the value or the fault.
//!
//! Each access is made by a thread of its own, in any address space that has this program's image
//! where it is here. If the processor refuses, the kernel reports that thread's fault.

use crate::setup::{slot, Lab};
use crate::threads::{self, Spaces};
use libos::abi::slots::VSPACE;
use libos::vspace::{entry_of, RWX};
use libos::{invoke, op, Cap, CapAddr, CapType, Status, PAGE};

/// An address below an upper-level entry that nothing else uses.
pub const VA: u64 = 4 << 39;
/// The tables above [`VA`], made by [`make_tables`], by level.
pub const PDPT: CapAddr = slot(220);
pub const PD: CapAddr = slot(221);
pub const PT: CapAddr = slot(222);
/// The Mapping of each in the table above.
pub const PDPT_MAPPING: CapAddr = slot(223);
pub const PD_MAPPING: CapAddr = slot(224);
pub const PT_MAPPING: CapAddr = slot(225);
/// Where they are in the laboratory's RAM.
const TABLES_OFFSET: u64 = 14 << 20;

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Access {
    Read = 0,
    Write = 1,
    Execute = 2,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It was done; what was read.
    Done(u64),
    /// The processor raised this exception.
    Fault { vector: u64, error: u64, address: u64 },
}

/// Error code of a page fault in user mode …
const USER: u64 = 4;
/// … by a write, an instruction fetch, in a page that is present.
const WRITE: u64 = 2;
const FETCH: u64 = 16;
const PRESENT: u64 = 1;

impl Seen {
    /// Was it done?
    pub fn is_done(self) -> bool {
        matches!(self, Seen::Done(_))
    }

    /// Nothing is mapped there.
    pub fn is_absent(self, va: u64, access: Access) -> bool {
        self == page_fault(va, access, 0)
    }

    /// Something is mapped there, without the right.
    pub fn is_forbidden(self, va: u64, access: Access) -> bool {
        self == page_fault(va, access, PRESENT)
    }
}

fn page_fault(address: u64, access: Access, present: u64) -> Seen {
    let cause = match access {
        Access::Read => 0,
        Access::Write => WRITE,
        Access::Execute => FETCH,
    };
    Seen::Fault { vector: 14, error: USER | cause | present, address }
}

extern "C" fn probe_thread(va: u64, access: u64, _: u64) -> ! {
    let value = match access {
        // SAFETY: whatever happens at that address is what is being tested: a fault ends this
        // thread, and what is mapped there is for tests only.
        0 => unsafe { core::ptr::read_volatile(va as *const u64) },
        // SAFETY: as above.
        1 => unsafe {
            core::ptr::write_volatile(va as *mut u64, WRITTEN);
            0
        },
        // SAFETY: as above; if the page may be executed it holds a return instruction.
        _ => unsafe {
            core::mem::transmute::<u64, extern "C" fn()>(va)();
            0
        },
    };
    let _ = threads::tell([value, 0, 0, 0, 0, 0]);
    threads::idle()
}

/// What [`Access::Write`] writes.
pub const WRITTEN: u64 = 0x0123_4567_89ab_cdef;

/// Tries an access at `va` of the given address space. [`threads::EP`] must exist.
pub fn probe_in(lab: &mut Lab, spaces: Spaces, va: u64, access: Access) -> Result<Seen, Status> {
    threads::prepare(lab, 0, probe_thread, [va, access as u64, 0], spaces)?;
    invoke(threads::dispatcher(0), op::Start {})?;
    let message = threads::hear()?;
    threads::kill(0)?;
    let [first, error, address, ..] = message.words;
    Ok(match message.is_fault() {
        true => Seen::Fault { vector: first, error, address },
        false => Seen::Done(first),
    })
}

/// Tries an access in the own address space.
pub fn probe(lab: &mut Lab, va: u64, access: Access) -> Result<Seen, Status> {
    probe_in(lab, Spaces::default(), va, access)
}

/// Makes the uppermost of them.
pub fn make_pdpt(lab: &Lab) -> Result<(), Status> {
    lab.make(CapType::Pdpt, TABLES_OFFSET, PAGE, PDPT)
}

/// Makes the three tables above [`VA`], maps them with all rights, and makes the endpoint.
pub fn make_tables(lab: &mut Lab) -> Result<(), Status> {
    threads::make_endpoint(lab)?;
    make_pdpt(lab)?;
    for (n, ty) in (1..).zip([CapType::Pd, CapType::Pt]) {
        lab.make(ty, TABLES_OFFSET + u64::from(n) * PAGE, PAGE, PDPT.plus(n))?;
    }
    VSPACE.map(entry_of(4, VA), 1, PDPT, 0, RWX, PDPT_MAPPING)?;
    PDPT.map(0, 1, PD, 0, RWX, PD_MAPPING)?;
    PD.map(0, 1, PT, 0, RWX, PT_MAPPING)
}
