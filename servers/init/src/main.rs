//! The first domain.
//!
//! The kernel gives it everything: all RAM, all devices, the boot archive. It starts the memory
//! server and gives it the RAM, starts the control plane of the Linux personality and gives it the
//! serial ports and the archive, and then waits for the session's end, at which it says on the
//! kernel log whether any memory was lost, and ends the machine.
#![no_std]
#![no_main]

mod disks;
mod net;
mod servers;

use abi::layout::{NATIVE_STACK_BYTES, NATIVE_STACK_TOP, PAGE};
use abi::slots::{KERNEL, MEMD, SELF_EP};
use libos::ephemeral::Window;
use libos::ipc::{self, Caps, Message};
use libos::memd::Stats;
use libos::runtime::{shutdown, Boot, Start};
use libos::{abi, invoke, log, memd, op, session, Place};
use net::Net;

libos::program!(main);

/// The vector of a page fault.
const PAGE_FAULT: u64 = 14;
/// Exit status when a server could not be started or failed: none that a program's end gives.
const BROKEN: u32 = 125;

fn main(_: Start) {
    // SAFETY: this is the program that the kernel starts, and it happens once.
    let boot = unsafe { Boot::new() };
    match servers::start_all(&boot) {
        Ok((net, window)) => wait_for_the_end(&boot, net, window),
        Err(error) => {
            log!("@error the system cannot begin: {error}");
            shutdown(BROKEN);
        }
    }
}

fn wait_for_the_end(boot: &Boot, mut net: Option<Net>, mut window: Window) -> ! {
    let mut before = Stats::default();
    loop {
        let message = match ipc::recv(SELF_EP, Place::NULL) {
            Ok(message) => message,
            Err(error) => panic!("init cannot receive: {error:?}"),
        };
        if message.is_fault() {
            report_fault(&message);
            if let (session::NETD_BADGE, Some(net)) = (message.badge as u32, &mut net) {
                net.end(&mut window);
                continue;
            }
            if session::disk_of(message.badge as u32).is_none() {
                shutdown(BROKEN);
            }
            disks::tell_gone(message.badge as u32);
            continue;
        }
        match message.words {
            _ if message.is_notification() => continue,
            [session::BEGIN, ..] => before = memd::stats(MEMD).unwrap_or_default(),
            [session::END, status, ..] => end(boot, before, status as u32),
            _ => {}
        }
        let another = match (message.words, &mut net) {
            ([session::NET_CLEARED, came_up, ..], Some(net)) => net.another(came_up != 0),
            _ => None,
        };
        // A caller that has gone needs no answer.
        let _ = ipc::reply(Place::CALLER, [another.is_some().into(), 0, 0, 0, 0, 0], Caps::NONE);
        if let Some(net) = another {
            net.begin_again(boot, &mut window);
        }
    }
}

/// A server failed. Nothing can go on, unless it is that of a disk or of the network.
fn report_fault(message: &Message) {
    let [vector, error, address, rip, ..] = message.words;
    let who = session::server_name(message.badge as u32).unwrap_or("somebody");
    log!("{who}: exception {vector}, error {error:#x}, address {address:#x}, at {rip:#x}");
    let stack = NATIVE_STACK_TOP - NATIVE_STACK_BYTES;
    // The page below is never mapped, and functions that need more than one touch each of them.
    if vector == PAGE_FAULT && (stack - PAGE..stack).contains(&address) {
        log!("{who}: its stack of {NATIVE_STACK_BYTES} bytes is too small");
    }
}

fn end(boot: &Boot, before: Stats, status: u32) -> ! {
    let after = memd::stats(MEMD).unwrap_or_default();
    log!("@counter free_before {}", before.free);
    // What is another core's by now, or was, is not lost, and is not found.
    log!("@counter free_after {}", (after.free + before.total).saturating_sub(after.total));
    libos::log::print_counters();
    if boot.flag("check") {
        match invoke(KERNEL, op::CheckInvariants {}) {
            Ok(()) => log!("@counter invariants_broken 0"),
            Err(_) => log!("@counter invariants_broken 1"),
        }
    }
    shutdown(status)
}
