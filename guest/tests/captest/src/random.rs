//! Random invocations, most of them wrong, some of them right, by a domain that has capabilities
//! of every type to play with. After every few the kernel checks its invariants, and at the end
//! every capability that the player made must be gone with what it was made of.
//!
//! A player that has stopped itself, or lost what it needs to report, is replaced.

use crate::setup::{capabilities, slot, Lab, BENCH_L1};
use crate::threads::{self, dispatcher, Spaces, EP};
use crate::Test;
use core::arch::asm;
use libos::abi::slots::{DISPATCHER, ID, IO, IRQ, KERNEL};
use libos::captypes::invocations::Label;
use libos::captypes::place::L2_BYTES;
use libos::captypes::CapType::*;
use libos::ipc::{self, Caps};
use libos::{invoke, log, op, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};
use testkit::{check, good, Outcome, Rng};

pub const TESTS: &[Test] = &[("random_invocations", random_invocations)];

/// RAM of the player.
const PLAYER_RAM: CapAddr = slot(0);
const PLAYER_BYTES: u64 = 8 << 20;
const PLAYER_ROOT: CapAddr = slot(1);
/// Operations between two checks.
const BATCH: u64 = 40;
/// Slots of each of its L2CNodes that the player uses.
const SLOTS: u64 = 40;
const NODES: u64 = 3;

/// Executes `syscall` with these registers; answers the status.
fn raw(rax: u64, rdi: u64, args: &[u64; 9]) -> u64 {
    let status;
    // SAFETY: the player's CSpace holds nothing that this address space is made of, so the kernel
    // changes nothing here whatever the registers say; those that it may change are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") rax => status,
            inlateout("rdi") rdi => _,
            inlateout("rsi") args[0] => _,
            inlateout("rdx") args[1] => _,
            inlateout("r10") args[2] => _,
            inlateout("r8") args[3] => _,
            inlateout("r9") args[4] => _,
            inlateout("r12") args[5] => _,
            inlateout("r13") args[6] => _,
            in("r14") args[7],
            in("r15") args[8],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    status
}

fn any_slot(random: &mut Rng) -> CapAddr {
    CapAddr::new(random.u64(..NODES) as u32, random.u64(..SLOTS) as u32)
}

fn any_place(random: &mut Rng) -> u64 {
    let place = match random.u64(..24) {
        0 => Place(random.u64(..)),
        1 => Place::l1(CapAddr::NULL, random.u32(..8)),
        2 => Place::l1(any_slot(random), random.u32(..260)),
        3 => Place::within(any_slot(random), any_slot(random)),
        4 => Place::within(CapAddr(1), any_slot(random)),
        5 => Place::own(CapAddr::new(random.u32(..3), random.u32(..256))),
        _ => Place::own(any_slot(random)),
    };
    place.0
}

fn any_pages(random: &mut Rng, limit: u64) -> u64 {
    match random.u64(..12) {
        0 => random.u64(..),
        1 => 1 << random.u64(..64),
        _ => random.u64(..limit) * PAGE,
    }
}

fn any_count(random: &mut Rng) -> u64 {
    match random.u64(..12) {
        0 => random.u64(..),
        1 => random.u64(..600),
        2 => 0,
        _ => 1 + random.u64(..6),
    }
}

fn any_flags(random: &mut Rng) -> u64 {
    match random.u64(..12) {
        0 => random.u64(..),
        _ => 1 | random.u64(..16),
    }
}

fn any_type(random: &mut Rng) -> u64 {
    match random.u64(..4) {
        0 => random.u64(..24),
        _ => [Ram, Frame, Pt, Pd, Pdpt, Pml4, L1CNode, L2CNode, Dispatcher, Endpoint]
            [random.usize(..10)] as u64,
    }
}

/// Bytes that an object of this type often has.
fn any_bytes(random: &mut Rng, ty: u64) -> u64 {
    match random.u64(..8) {
        0 => any_pages(random, 32),
        _ if ty == L1CNode as u64 || ty == L2CNode as u64 => L2_BYTES,
        _ if ty == Ram as u64 => PAGE * (1 + random.u64(..64)),
        _ => PAGE,
    }
}

/// Arguments that often make sense for the operation.
fn any_args(label: u64, r: &mut Rng) -> [u64; 9] {
    let mut args = core::array::from_fn(|_| match r.u64(..3) {
        0 => any_place(r),
        1 => any_count(r),
        _ => r.u64(..),
    });
    let known: &[u64] = match Label::from_u16(label as u16) {
        _ if r.u64(..16) == 0 => &[],
        Some(Label::Copy | Label::Move) => &[any_place(r)],
        Some(Label::Mint) => &[any_place(r), r.u64(..32), r.u64(..4)],
        Some(Label::Retype) => {
            let ty = any_type(r);
            &[ty, any_pages(r, 64), any_bytes(r, ty), any_count(r), any_place(r)]
        }
        Some(Label::RetypeCopy) => &[any_pages(r, 64), any_place(r), any_place(r)],
        Some(Label::RetypeMany) => {
            // Parts one behind the other, of a few pages each.
            let mut words = [any_place(r), 0, 0, 0, 0, 0, 0, 0];
            let mut first = r.u64(..64);
            for word in words[1..].iter_mut().take(r.usize(..8)) {
                let ty = any_type(r);
                let (units, count) = (any_bytes(r, ty) / PAGE % (1 << 20), 1 + r.u64(..3));
                *word = first | units << 26 | count << 46 | ty << 58;
                first += units * count + r.u64(..3);
            }
            args[..8].copy_from_slice(&words);
            &[]
        }
        Some(Label::Compare | Label::NewId | Label::Resize) => &[any_place(r)],
        Some(Label::CopyRange) => &[any_place(r), any_count(r), r.u64(..3) * any_type(r) / 2],
        Some(Label::DeleteRange) => &[any_count(r)],
        Some(Label::Map) => {
            &[r.u64(..520), any_count(r), any_place(r), any_pages(r, 4), any_flags(r), any_place(r)]
        }
        Some(Label::MapMany) => {
            &[r.u64(..520), any_count(r), any_place(r), any_flags(r), any_place(r)]
        }
        Some(Label::Protect) => &[r.u64(..4), any_count(r), any_flags(r)],
        Some(Label::ProtectMany) => &[any_count(r), any_flags(r)],
        Some(Label::Unmap) => &[r.u64(..4), any_count(r), any_place(r)],
        Some(Label::Configure) => &[
            any_place(r),
            any_place(r),
            any_place(r),
            any_pages(r, 1 << 20),
            any_place(r),
            r.u64(..4),
        ],
        _ => &[],
    };
    args[..known.len()].copy_from_slice(known);
    args
}

/// A label: mostly of operations on capabilities, seldom one that may block.
fn any_label(r: &mut Rng) -> u64 {
    const BLOCKING: [u64; 3] = [Label::Call as u64, Label::ReplyRecv as u64, Label::Wait as u64];
    let label = match r.u64(..40) {
        0 => r.u64(..90),
        1 => r.u64(..) & 0xffff,
        2..=6 => 40 + r.u64(..12),
        7..=20 => 20 + r.u64(..6),
        21..=26 => Label::Retype as u64,
        _ => 1 + r.u64(..15),
    };
    if BLOCKING.contains(&label) && r.u64(..100) != 0 {
        return Label::Identify as u64;
    }
    // Ends of everything would leave little to play with.
    if label == Label::Revoke as u64 && r.u64(..8) != 0 {
        return Label::Delete as u64;
    }
    label
}

/// The player: `BATCH` operations, a report, and so on.
extern "C" fn play(seed: u64, _: u64, _: u64) -> ! {
    let mut random = Rng::with_seed(seed);
    loop {
        let mut done = 0;
        for _ in 0..BATCH {
            let label = any_label(&mut random);
            let caps = if random.u64(..8) == 0 { random.u64(..) & 0x1ff_0000 } else { 0 };
            let target = any_place(&mut random);
            let args = any_args(label, &mut random);
            done += u64::from(raw(label | caps, target, &args) == 0);
        }
        if threads::tell([done, 0, 0, 0, 0, 0]).is_err() {
            threads::idle()
        }
    }
}

fn there(l1: u32, l2: u32) -> Place {
    Place::within(PLAYER_ROOT, CapAddr::new(l1, l2))
}

/// Gives a new player its CSpace, with something of everything, and starts it.
fn start_player(lab: &mut Lab, seed: u64) -> Result<(), Status> {
    lab.make(Ram, 0, PLAYER_BYTES, PLAYER_RAM)?;
    let ram = PLAYER_RAM;
    ram.retype(L1CNode, 0, L2_BYTES, 1, PLAYER_ROOT)?;
    ram.retype(L2CNode, L2_BYTES, L2_BYTES, NODES as u32, Place::l1(PLAYER_ROOT, 0))?;
    ram.retype(L2CNode, 4 * L2_BYTES, L2_BYTES, 1, Place::l1(PLAYER_ROOT, BENCH_L1))?;
    EP.copy_to(there(EP.l1(), EP.l2()))?;
    PLAYER_ROOT.copy_to(there(0, 1))?;
    let mut at = 5 * L2_BYTES;
    let objects: [(CapType, u64, u32); 10] = [
        (Ram, 64 * PAGE, 4),
        (Ram, 16 * PAGE, 4),
        (Frame, PAGE, 8),
        (Frame, 4 * PAGE, 2),
        (Pml4, PAGE, 1),
        (Pdpt, PAGE, 2),
        (Pd, PAGE, 3),
        (Pt, PAGE, 3),
        (Dispatcher, PAGE, 2),
        (Endpoint, PAGE, 2),
    ];
    let mut next = 2;
    for (ty, bytes, count) in objects {
        ram.retype(ty, at, bytes, count, there(0, next))?;
        at += bytes * count as u64;
        next += count;
    }
    ram.retype(Frame, 4 << 20, 2 << 20, 1, there(0, next))?;
    IO.retype(Io, 0x80, 1, 1, there(0, next + 1))?;
    IRQ.retype(Irq, 7, 1, 1, there(0, next + 2))?;
    // Revoking it would take it from the main thread.
    ID.mint(there(0, next + 3), Rights::NONE)?;
    let spaces = Spaces { cspace: PLAYER_ROOT.into(), vspace: libos::vspace::root().into() };
    threads::prepare(lab, 0, play, [seed, 0, 0], spaces)?;
    invoke(dispatcher(0), op::Start {})
}

fn end_player() -> Result<(), Status> {
    threads::kill(0)?;
    PLAYER_RAM.revoke()?;
    PLAYER_RAM.delete()
}

/// What the player reported, or nothing if it has said nothing for a while.
fn hear_in_time(to: Place) -> Result<Option<u64>, Status> {
    // SAFETY: reads the time-stamp counter.
    let deadline = unsafe { core::arch::x86_64::_rdtsc() } + crate::scheduling::ms() * 30;
    invoke(DISPATCHER, op::SetTimer { deadline })?;
    let message = ipc::reply_recv(EP, to, [0; 6], Caps::NONE, Place::NULL)?;
    if message.is_notification() || message.is_fault() {
        return Ok(None);
    }
    // Whether the timer has expired meanwhile or not, nothing of it shall be left.
    invoke(DISPATCHER, op::SetTimer { deadline: 0 })?;
    DISPATCHER.notify(1)?;
    invoke(DISPATCHER, op::Wait {})?;
    Ok(Some(message.words[0]))
}

fn random_invocations(lab: &mut Lab) -> Outcome {
    good!(threads::make_endpoint(lab));
    let mut random = Rng::with_seed(lab.seed);
    let baseline = capabilities();
    let (mut players, mut done, mut batches) = (0, 0, 0);
    while batches < lab.rounds {
        let seed = random.u64(..) | 1;
        good!(start_player(lab, seed));
        players += 1;
        let mut to = Place::NULL;
        // A player that has used up what it had is dull.
        for _ in 0..25 {
            let heard = good!(hear_in_time(to));
            if let Err(status) = invoke(KERNEL, op::CheckInvariants {}) {
                log!("random_invocations: player {players} with seed {seed:#x}: {status:?}");
                check!(status == Status::Again);
            }
            let Some(count) = heard else { break };
            done += count;
            batches += 1;
            to = Place::CALLER;
        }
        good!(end_player());
        if capabilities() != baseline {
            log!(
                "random_invocations: seed {seed:#x} leaves {} more",
                capabilities() as i64 - baseline as i64
            );
        }
        check!(capabilities() == baseline);
    }
    let seed = lab.seed;
    let all = batches * BATCH;
    log!(
        "random_invocations: seed {seed:#x}, {players} players, {all} operations, {done} succeeded"
    );
    Ok(())
}
