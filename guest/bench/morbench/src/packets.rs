//! Figure 5.7: packets of memory are handed from one address space to another and back.
//!
//! The sender maps an object, fills it, unmaps it and calls the receiver with its number; the receiver maps it,
//! reads a word of every page, unmaps it and answers. Five of them go round. On one core both do it one after the other,
//! so the parts can be told apart: on two, the receiver's would not cost the sender any time.

use crate::lab::{destroy, object, read, slot, ticks, Lab, Spot};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use libos::abi::dispatcher::{DispatcherFrame, Regs};
use libos::abi::layout::NATIVE_FRAME;
use libos::abi::slots::{ROOT, VSPACE};
use libos::ipc::{call, reply_recv, Caps};
use libos::morsel::MorselCap;
use libos::spawn::Child;
use libos::vspace::{entry_of, RW, RWX};
use libos::{domain, invoke, log, op, Cap, CapAddr, CapType, Place, Status, PAGE};

/// The order of a packet: 1 GiB, of which as much is populated as is sent.
const ORDER: u32 = 2;
const PACKETS: u32 = 5;
const ROUNDS: u64 = 15;

const EP: CapAddr = slot(230);
const DISPATCHER: CapAddr = slot(231);
const FRAME: CapAddr = slot(232);
const CHILD_ROOT: CapAddr = slot(233);
const CHILD_DISPATCHER: CapAddr = slot(234);
const TABLE: CapAddr = slot(235);
/// The receiver's Mapping.
const MAPPING: CapAddr = slot(237);
/// Where packets are mapped in both address spaces: entry 0 of a table of its own in the receiver's.
const SPOT: u32 = 0;
const STACK: usize = 16 << 10;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK]>);

// SAFETY: used by the receiver only; nobody makes references to it.
unsafe impl Sync for Stack {}

static RECEIVER_STACK: Stack = Stack(UnsafeCell::new([0; STACK]));

/// Packets of `pages` pages.
pub fn measure(lab: &mut Lab, pages: u64) -> Result<(), Status> {
    start_receiver(lab, pages)?;
    let spot = Spot::of(ORDER, SPOT);
    for n in 0..PACKETS {
        object(ORDER, n)?.populate(0, pages, false)?;
    }
    let mut sum = [0u64; 4];
    for round in 0..ROUNDS {
        let packet = slot(round as u32 % PACKETS);
        let start = ticks();
        spot.map(packet)?;
        let mapped = ticks();
        fill(spot.va, pages, round);
        let filled = ticks();
        spot.unmap()?;
        let unmapped = ticks();
        let words = [u64::from(round as u32 % PACKETS), round, 0, 0, 0, 0];
        let answer = call(EP, words, Caps::NONE, Place::NULL)?;
        let end = ticks();
        let [right, received, ..] = answer.words;
        if right != pages {
            return Err(Status::WrongState);
        }
        let parts = [
            filled - mapped,
            mapped - start + (unmapped - filled),
            end - unmapped - received,
            received,
        ];
        sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }
    let [fill, map, hand_over, receive] = sum.map(|sum| sum / ROUNDS);
    let alone = memset(spot, pages)?;
    let mib = (pages * PAGE) >> 20;
    log!("@bench memset {alone} at={mib}:MiB");
    log!("@bench fill {fill} at={mib}:MiB");
    log!("@bench map_and_unmap {map} at={mib}:MiB");
    log!("@bench hand_over,_there_and_back {hand_over} at={mib}:MiB");
    log!("@bench receive:_map,_read,_unmap {receive} at={mib}:MiB");
    let sender = fill + map + hand_over;
    let hundredths = alone * 10_000 / sender;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    log!("@bench rate {whole}.{rest:02} at={mib}:MiB unit=percent better=higher");
    for n in 0..PACKETS {
        destroy(slot(n))?;
    }
    Ok(())
}

/// What filling alone takes, with the packets mapped for good.
fn memset(spot: Spot, pages: u64) -> Result<u64, Status> {
    spot.map(slot(0))?;
    let start = ticks();
    (0..3).for_each(|round| fill(spot.va, pages, round));
    let cost = (ticks() - start) / 3;
    spot.unmap()?;
    Ok(cost)
}

/// Fills a packet, 32 bytes with each instruction that stores.
#[inline(never)]
fn fill(va: u64, pages: u64, value: u64) {
    // SAFETY: the packet is mapped there, for this only. The compiler uses no vector registers.
    unsafe {
        core::arch::asm!(
            "vmovq xmm0, {value}", "vpbroadcastq ymm0, xmm0",
            "2:",
            "vmovdqu [{va}], ymm0", "vmovdqu [{va} + 32], ymm0",
            "vmovdqu [{va} + 64], ymm0", "vmovdqu [{va} + 96], ymm0",
            "add {va}, 128", "cmp {va}, {end}", "jne 2b",
            "vzeroupper",
            va = inout(reg) va => _, end = in(reg) va + pages * PAGE, value = in(reg) value,
        )
    }
}

/// A second address space with this program in it, and a dispatcher there with the capabilities of this one.
fn start_receiver(lab: &mut Lab, pages: u64) -> Result<(), Status> {
    let child = domain::with(|domain| {
        let (arena, window) = (&mut domain.arena, &mut lab.window);
        let built = Child::build(lab.own_file, CHILD_ROOT, CHILD_DISPATCHER, arena, window);
        built.map_err(|_| Status::Invalid)
    })?;
    lab.make(CapType::Endpoint, PAGE, EP)?;
    lab.make(CapType::Dispatcher, PAGE, DISPATCHER)?;
    lab.make(CapType::Frame, PAGE, FRAME)?;
    lab.make(CapType::Pdpt, PAGE, TABLE)?;
    child.slot(VSPACE).map(entry_of(4, crate::lab::VA), 1, TABLE, 0, RWX, slot(236))?;
    let fields = [
        (offset_of!(Regs, rdi), pages),
        (offset_of!(Regs, rip), receiver as *const () as u64),
        (offset_of!(Regs, rflags), 0x202),
        (offset_of!(Regs, rsp), RECEIVER_STACK.0.get() as u64 + STACK as u64 - 8),
    ];
    let mut view = lab.window.open(FRAME, 0, PAGE, RW)?;
    for (at, value) in fields {
        view.write(offset_of!(DispatcherFrame, save) + at, &value.to_le_bytes())?;
    }
    drop(view);
    let configuration = op::Configure {
        cspace: ROOT.into(),
        vspace: child.root_table(),
        frame: FRAME.into(),
        frame_va: NATIVE_FRAME,
        fault_ep: Place::NULL,
        options: 0,
    };
    invoke(DISPATCHER, configuration)?;
    invoke(DISPATCHER, op::Start {})
}

/// The receiver, which has nothing of this program but its code and its constants.
extern "C" fn receiver(pages: u64) -> ! {
    let mut answer = [0; 6];
    let mut to = Place::NULL;
    loop {
        let Ok(message) = reply_recv(EP, to, answer, Caps::NONE, Place::NULL) else { continue };
        let start = ticks();
        let [packet, value, ..] = message.words;
        let right = receive(slot(packet as u32), pages, value).unwrap_or(0);
        answer = [right, ticks() - start, 0, 0, 0, 0];
        to = Place::CALLER;
    }
}

/// How many pages have arrived.
fn receive(packet: CapAddr, pages: u64, value: u64) -> Result<u64, Status> {
    TABLE.map(SPOT, 1, packet, 0, RW, MAPPING)?;
    let va = Spot::of(ORDER, SPOT).va;
    let mut right = 0;
    for page in 0..pages {
        right += u64::from(read(va + page * PAGE) == value);
    }
    MAPPING.delete()?;
    Ok(right)
}
