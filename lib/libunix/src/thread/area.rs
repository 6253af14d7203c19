//! Where the threads are: an area of the address space for each but the first.
//!
//! ```text
//! 0x0_1000 … 0x0_7000   stack of the upcalls
//! 0x0_7000              the frame shared with the kernel
//! 0x0_8000 … 0x1_0000   the session frame
//! 0x1_7000              the code of the way back to the program, again
//! ```
//!
//! A thread finds its area by its stack pointer. The last instructions of the way back can use no
//! register, so they name the frame relative to themselves: every area has them at the distance
//! from its frame that they have from the first thread's.
//!
//! Sixteen areas make a group: a last-level table, and an L2CNode with what they consist of.

use super::lock;
use crate::entry;
use crate::mm::library;
use crate::server::Header;
use abi::layout::*;
use abi::{slots, DispatcherFrame};
use captypes::invocations::{options, MapFlags};
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Place, Status};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use libos::ram::Ram;
use libos::{invoke, Cap};
use linuxdomain::{entry_of, own, RWX, SESSION_PAGES, THREADS_L1, THREAD_GROUPS};

/// Areas of a group.
const GROUP: u32 = 16;
/// How many there may be.
pub const AREAS: u32 = THREAD_GROUPS * GROUP;

const STACK: u64 = 0x1000;
const STACK_PAGES: u32 = 6;
const FRAME: u64 = STACK + STACK_PAGES as u64 * PAGE;
const SESSION: u64 = FRAME + PAGE;

const _: () = assert!(GROUP as u64 * THREAD_BYTES == 2 << 20);
const _: () = assert!(SESSION + SESSION_PAGES as u64 * PAGE <= THREAD_BYTES);

/// Slots of an area.
mod slot {
    pub const FRAME_MAPPING: u32 = 0;
    pub const FRAME: u32 = 1;
    pub const STACK: u32 = 2;
    /// The endpoint to `unixd`, and behind it what comes along.
    pub const UNIXD: u32 = 3;
    pub const SESSION: u32 = 4;
    pub const DISPATCHER: u32 = 5;
    pub const STACK_MAPPING: u32 = 6;
    pub const SESSION_MAPPING: u32 = 7;
    pub const TEXT_MAPPING: u32 = 8;
    /// A domain that is given away: dispatcher and root.
    pub const DOMAIN: u32 = 9;
    /// How many there are.
    pub const COUNT: u32 = 15;
    /// Slot of the group's table; behind it its Mapping.
    pub const TABLE: u32 = super::GROUP * COUNT;
}

/// Areas that have been used: those from 1 up to this.
static USED: AtomicU32 = AtomicU32::new(0);
/// Bit N-1: the session frame of area N is mapped, and stays so until its thread asks for its end. From
/// then on `unixd` takes it away, whoever looks at it.
static SHOWN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
const WORDS: usize = (AREAS as usize).div_ceil(64);

fn place(index: u32, slot: u32) -> CapAddr {
    let area = index - 1;
    CapAddr::new(THREADS_L1 + area / GROUP, area % GROUP * slot::COUNT + slot)
}

fn base(index: u32) -> u64 {
    LIBRARY_THREADS + (index as u64 - 1) * THREAD_BYTES
}

/// The area of the thread that runs here, unless it is the first.
#[inline(always)]
fn own_area() -> Option<u64> {
    let sp: u64;
    // SAFETY: reads a register. No function is on the stacks of two threads: wherever it looks, it finds the same area.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(pure, nomem, nostack, preserves_flags)) };
    (sp >= LIBRARY_THREADS).then_some(sp & !(THREAD_BYTES - 1))
}

/// Its number; 0 for the first thread.
#[inline(always)]
pub fn own_index() -> u32 {
    own_area().map_or(0, |area| ((area - LIBRARY_THREADS) / THREAD_BYTES) as u32 + 1)
}

/// Is it the first thread?
#[inline(always)]
pub fn is_first() -> bool {
    own_area().is_none()
}

/// Its frame.
#[inline(always)]
pub fn own_frame() -> *mut DispatcherFrame {
    own_area().map_or(DISPATCHER_FRAME, |area| area + FRAME) as *mut DispatcherFrame
}

/// The capability to it.
pub fn own_frame_slot() -> CapAddr {
    match own_index() {
        0 => slots::FRAME,
        index => place(index, slot::FRAME),
    }
}

/// Its session frame.
#[inline(always)]
pub fn own_session() -> u64 {
    own_area().map_or(SESSION_FRAME, |area| area + SESSION)
}

/// Its endpoint to `unixd`.
#[inline(always)]
pub fn own_endpoint() -> CapAddr {
    match own_index() {
        0 => slots::UNIXD,
        index => place(index, slot::UNIXD),
    }
}

/// Its dispatcher.
#[inline(always)]
pub fn own_dispatcher() -> CapAddr {
    dispatcher(own_index())
}

/// The dispatcher of a thread.
pub fn dispatcher(index: u32) -> CapAddr {
    match index {
        0 => slots::DISPATCHER,
        _ => place(index, slot::DISPATCHER),
    }
}

/// The frame of a thread.
pub fn frame(index: u32) -> *mut DispatcherFrame {
    match index {
        0 => DISPATCHER_FRAME as *mut DispatcherFrame,
        _ => (base(index) + FRAME) as *mut DispatcherFrame,
    }
}

/// Top of the stack of a thread, as if something had been called.
pub fn stack(index: u32) -> u64 {
    base(index) + FRAME - 8
}

/// Where the endpoint, the session frame and the dispatcher of a thread go.
pub fn voice(index: u32) -> CapAddr {
    place(index, slot::UNIXD)
}

/// Where a domain is that a thread is about to give away.
pub fn domain(index: u32) -> CapAddr {
    place(index, slot::DOMAIN)
}

/// The header of a thread that is being made, and whose session frame is [mapped](map_session).
pub fn header(index: u32) -> &'static Header {
    // SAFETY: it is mapped; the fields are atomics.
    unsafe { &*((base(index) + SESSION) as *const Header) }
}

/// Calls `f` with the area and the header of every thread but the caller's.
pub fn each_session(mut f: impl FnMut(u32, &Header)) {
    let own = own_index();
    for index in (0..=USED.load(Ordering::Relaxed)).filter(|index| *index != own) {
        let session = match index {
            0 => SESSION_FRAME,
            _ if !is_shown(index) => continue,
            _ => base(index) + SESSION,
        };
        // SAFETY: the session frame is mapped: its thread has not asked for its end, for which it would
        // need the lock that the caller has; the header's fields are atomics.
        f(index, unsafe { &*(session as *const Header) });
    }
}

fn word_and_bit(index: u32) -> (&'static AtomicU64, u64) {
    (&SHOWN[(index - 1) as usize / 64], 1 << ((index - 1) % 64))
}

fn is_shown(index: u32) -> bool {
    let (word, bit) = word_and_bit(index);
    word.load(Ordering::Relaxed) & bit != 0
}

/// Whether others may look at the session frame of a thread.
fn show(index: u32, shown: bool) {
    let (word, bit) = word_and_bit(index);
    match shown {
        true => word.fetch_or(bit, Ordering::Relaxed),
        false => word.fetch_and(!bit, Ordering::Relaxed),
    };
}

/// What a process has made of its areas.
pub struct Areas {
    /// Groups that have a table and a CNode.
    groups: u32,
    /// Areas with stack, frame and code, from the first on.
    made: u32,
    /// Bit N-1: area N is in use.
    used: [u64; WORDS],
}

impl Areas {
    /// None.
    pub const fn new() -> Areas {
        Areas { groups: 0, made: 0, used: [0; WORDS] }
    }

    /// A free area, with everything but a dispatcher, an endpoint and a session frame.
    pub fn take(&mut self, ram: &mut impl Ram) -> Result<u32, Status> {
        let is_used = |index: &u32| self.used[(index - 1) as usize / 64] >> ((index - 1) % 64) & 1;
        let free = (1..=self.made).find(|index| is_used(index) == 0 && is_left(*index));
        let index = match free {
            Some(index) => index,
            None => self.make(ram)?,
        };
        self.used[(index - 1) as usize / 64] |= 1 << ((index - 1) % 64);
        USED.fetch_max(index, Ordering::Relaxed);
        Ok(index)
    }

    /// The area is used no more, as soon as its dispatcher is gone.
    pub fn put_back(&mut self, index: u32) {
        show(index, false);
        self.used[(index - 1) as usize / 64] &= !(1 << ((index - 1) % 64));
    }

    fn make(&mut self, ram: &mut impl Ram) -> Result<u32, Status> {
        let index = self.made + 1;
        if index > AREAS {
            return Err(Status::NoSlot);
        }
        self.make_group(ram, (index - 1) / GROUP)?;
        let made = make_parts(ram, index);
        if made.is_err() {
            for slot in 0..slot::COUNT {
                place(index, slot).discard();
            }
        }
        made?;
        self.made = index;
        Ok(index)
    }

    fn make_group(&mut self, ram: &mut impl Ram, group: u32) -> Result<(), Status> {
        if group < self.groups {
            return Ok(());
        }
        let node = THREADS_L1 + group;
        let table = CapAddr::new(node, slot::TABLE);
        // Both may be there from an attempt that failed.
        let _ = ram.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(CapAddr::NULL, node));
        if table.identify().is_err() {
            ram.make(CapType::Pt, PAGE, 1, table.into())?;
        }
        let entry = (LIBRARY_THREADS >> 21) as u32 % 512 + group;
        own::PD.map(entry, 1, table, 0, RWX, table.plus(1))?;
        self.groups = group + 1;
        Ok(())
    }
}

/// Has the kernel no dispatcher of the thread any more that was here?
fn is_left(index: u32) -> bool {
    place(index, slot::DISPATCHER).identify().is_err()
}

fn table(index: u32) -> CapAddr {
    CapAddr::new(THREADS_L1 + (index - 1) / GROUP, slot::TABLE)
}

fn make_parts(ram: &mut impl Ram, index: u32) -> Result<(), Status> {
    let rw = MapFlags::READ.or(MapFlags::WRITE);
    let parts = [
        (STACK, STACK_PAGES, slot::STACK, slot::STACK_MAPPING),
        (FRAME, 1, slot::FRAME, slot::FRAME_MAPPING),
    ];
    for (offset, pages, slot, mapping) in parts {
        let frame = place(index, slot);
        ram.make(CapType::Frame, pages as u64 * PAGE, 1, frame.into())?;
        let entry = entry_of(base(index) + offset);
        table(index).map(entry, pages, frame, 0, rw, place(index, mapping))?;
    }
    let rx = MapFlags::READ.or(MapFlags::EXEC);
    let entry = entry_of(entry::way_back(frame(index)));
    let offset = library::image().text as u64 * PAGE;
    let mapping = place(index, slot::TEXT_MAPPING);
    table(index).map(entry, 1, slots::LIBUNIX_ELF, offset, rx, mapping)
}

/// Shows the session frame that `unixd` has given.
pub fn map_session(index: u32) -> Result<(), Status> {
    let rw = MapFlags::READ.or(MapFlags::WRITE);
    let mapping = place(index, slot::SESSION_MAPPING);
    let session = place(index, slot::SESSION);
    table(index).map(entry_of(base(index) + SESSION), SESSION_PAGES, session, 0, rw, mapping)?;
    show(index, true);
    Ok(())
}

/// Forgets the voice of the thread that was here.
pub fn clear(index: u32) {
    show(index, false);
    for slot in [slot::DISPATCHER, slot::SESSION_MAPPING, slot::SESSION, slot::UNIXD] {
        place(index, slot).discard();
    }
}

/// Gives a dispatcher what its siblings have.
pub fn configure(dispatcher: CapAddr, index: u32) -> Result<(), Status> {
    let root = slots::ROOT;
    let vspace = match own::ROOT_TABLE.identify() {
        Ok(_) => own::ROOT_TABLE,
        Err(_) => slots::VSPACE,
    };
    let configure = op::Configure {
        cspace: root.into(),
        vspace: vspace.into(),
        frame: place(index, slot::FRAME).into(),
        frame_va: base(index) + FRAME,
        fault_ep: Place::NULL,
        options: options::LINUX | options::COPY_VECTOR_STATE,
    };
    invoke(dispatcher, configure)
}

/// In a forked child: no area but that of the first thread.
pub fn after_fork() {
    USED.store(0, Ordering::Relaxed);
    SHOWN.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    debug_assert!(!lock::is_shared());
}
