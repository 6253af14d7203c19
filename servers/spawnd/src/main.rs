//! Starts programs of the boot archive on its core.
//!
//! On every core but the boot core this is the first domain, and brings up the memory server and the
//! monitor before anything else. What blocks is done here, so that the monitor never waits for anybody:
//! the monitor rings when there is a job, and this domain asks for it.
#![no_std]
#![no_main]

extern crate alloc;

mod parts;

use libos::abi::slots::{DISPATCHER, MONITOR, SELF_EP};
use libos::bringup::{self, NOT_FIRST};
use libos::cores::{monitor, EXIT};
use libos::interface::{OwnedCap, Remote};
use libos::runtime::{Boot, Start};
use libos::spawn::SpawnError;
use libos::{domain, invoke, ipc, log, op, session, Cap, Place, Rights, Status};
use parts::Parts;

libos::program!(main);

/// The notification: there are jobs.
const JOBS: u64 = 1;
/// Badges of the first children, on the endpoint that is told of their faults. Those of parts are
/// numbers of jobs, which begin behind.
const MEMD_BADGE: u32 = 1;
const MONITOR_BADGE: u32 = 2;
const FIRST_JOB: u32 = 3;

fn main(start: Start) {
    // SAFETY: the boot page and the archive are mapped in first domains, and `init` does the same for
    // this one.
    let boot = unsafe { Boot::new() };
    let core = boot.info.core;
    // Without it, it runs where it starts.
    let _ = invoke(DISPATCHER, op::SetAffinity { mask: 1 << core });
    let is_first = start.args[0] != NOT_FIRST;
    let prepared = prepare(&boot, is_first);
    if !is_first {
        // `init` waits for it before it counts memory.
        let started = prepared.as_ref().map(|_| ()).map_err(|&error| parts::status(error));
        if let Err(error) = session::ready(started) {
            return log!("spawnd cannot tell init that it has started: {error:?}");
        }
    }
    let parts = match prepared {
        Ok(parts) => parts,
        Err(error) => return log!("spawnd cannot start on core {core}: {error:?}"),
    };
    if let Err(error) = serve(parts) {
        log!("spawnd of core {core} has ended: {error:?}");
    }
}

fn file<'a>(boot: &'a Boot, path: &str) -> Result<&'a [u8], Status> {
    let found = bootarchive::find(boot.archive(), path).map_err(|_| Status::Invalid)?;
    found.map(|entry| entry.data).ok_or(Status::NoSlot)
}

fn prepare(boot: &Boot, first: bool) -> Result<Parts<'_>, SpawnError> {
    let window = match first {
        true => {
            let mut window = bringup::prepare(boot)?;
            let home = bringup::home(boot)?;
            let memd = file(boot, "boot/memd")?;
            let mut memd = bringup::start_memd(boot, memd, MEMD_BADGE, &mut window)?;
            bringup::start_monitor(
                boot,
                &mut memd,
                home,
                file(boot, "boot/monitor")?,
                MONITOR_BADGE,
                &mut window,
            )?;
            window
        }
        false => domain::with(|domain| domain.window())?,
    };
    // To be found by the notifications, which go to whoever receives.
    invoke(SELF_EP, op::Listen { bits: 0 })?;
    let slot = domain::with(|domain| domain.slot())?;
    SELF_EP.mint(slot, Rights::SEND)?;
    let own = monitor::Client(Remote(MONITOR)).open(OwnedCap::own(slot))?;
    let client = monitor::Client(Remote(own.into_cap()));
    client.serve(JOBS)?;
    Ok(Parts::new(boot, window, client))
}

fn serve(mut parts: Parts) -> Result<(), Status> {
    loop {
        parts.start_all()?;
        parts.kill_unwanted()?;
        let message = ipc::recv(SELF_EP, Place::NULL)?;
        let badge = message.badge as u32;
        if message.is_notification() {
            continue;
        }
        if badge < FIRST_JOB {
            let [vector, _, address, rip, ..] = message.words;
            let who = if badge == MEMD_BADGE { "memd" } else { "the monitor" };
            log!(
                "core {}: {who}: exception {vector}, address {address:#x}, at {rip:#x}",
                parts.core()
            );
        } else if message.is_fault() {
            parts.crashed(badge, message.words)?;
        } else if message.words[0] == EXIT {
            parts.ended(badge, message.words[1])?;
        }
    }
}
