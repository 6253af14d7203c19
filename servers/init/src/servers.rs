//! Starting the servers.

use crate::abi::boot::BootInfo;
use crate::abi::layout::PAGE;
use crate::abi::slots::*;
use crate::disks::{Disks, UNIXD_EP};
use crate::net::Net;
use bootarchive::{find, Damage, Entry};
use core::fmt;
use core::mem::offset_of;
use drivers::{bus, DeviceType, Slots};
use libos::bringup;
use libos::ephemeral::Window;
use libos::ram::Ram;
use libos::runtime::Boot;
use libos::session::{MEMD_BADGE, MONITOR_BADGE, SPAWND_BADGE, UNIXD_BADGE};
use libos::spawn::SpawnError;
use libos::vspace::RW;
use libos::{cmdline, domain, Cap, CapAddr, CapType, Rights, Status};

/// The line of the messages of the device with the standard streams.
const STREAMS_LINE: u64 = 16;
/// That of a shared folder.
const SHARE_LINE: u64 = 17;
/// That of the first disk; those of others follow.
pub const DISK_LINE: u64 = 18;
/// That of the disk for pages that leave memory.
const SWAP_LINE: u64 = DISK_LINE + MAX_DISKS as u64;
/// That of the network.
pub const NET_LINE: u64 = SWAP_LINE + 1;

/// Why the system cannot start.
pub enum StartError {
    /// The archive cannot be read.
    Archive(Damage),
    /// The archive lacks a file.
    NoFile(&'static str),
    /// A server cannot be made.
    Server(&'static str, SpawnError),
    /// Something else was refused.
    Status(Status),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            StartError::Archive(damage) => write!(f, "the boot archive is damaged: {damage:?}"),
            StartError::NoFile(path) => write!(f, "the boot archive has no {path}"),
            StartError::Server(path, error) => write!(f, "{path} cannot be started: {error:?}"),
            StartError::Status(status) => write!(f, "cannot prepare the start: {status:?}"),
        }
    }
}

impl From<Status> for StartError {
    fn from(status: Status) -> Self {
        StartError::Status(status)
    }
}

pub fn file<'a>(boot: &'a Boot, path: &'static str) -> Result<Entry<'a>, StartError> {
    find(boot.archive(), path).map_err(StartError::Archive)?.ok_or(StartError::NoFile(path))
}

/// Starts the memory server, on machines with many cores what speaks to the others, and `unixd`.
pub fn start_all(boot: &Boot) -> Result<(Option<Net>, Window), StartError> {
    let mut window = bringup::prepare(boot)?;
    let path = "boot/memd";
    let started = bringup::start_memd(boot, file(boot, path)?.data, MEMD_BADGE, &mut window);
    let mut memd = started.map_err(|error| StartError::Server(path, error))?;
    if boot.info.channel_bytes > 0 {
        let path = "boot/monitor";
        let monitor = file(boot, path)?.data;
        bringup::start_monitor(boot, &mut memd, (0, 0), monitor, MONITOR_BADGE, &mut window)
            .map_err(|error| StartError::Server(path, error))?;
        let path = "boot/spawnd";
        bringup::start_spawnd(boot, file(boot, path)?.data, SPAWND_BADGE, &mut window)
            .map_err(|error| StartError::Server(path, error))?;
    }
    let disks = Disks::claim(boot, &mut window)?;
    // Its server is started when `unixd` asks for it: notifications to who does not listen yet are lost.
    let net = Net::claim(boot, &mut window)?;
    start_unixd(boot, &disks, net.as_ref(), &mut window)?;
    disks.start(boot, &mut window)?;
    Ok((net, window))
}

/// Starts the control plane of the Linux personality: its argument is the size of the library's
/// ELF file.
fn start_unixd(
    boot: &Boot,
    disks: &Disks,
    net: Option<&Net>,
    window: &mut Window,
) -> Result<(), StartError> {
    let library = file(boot, "boot/libunix")?;
    let streams = claim(boot, (DeviceType::Console, STREAMS_LINE), "console", window);
    let share = match cmdline::option(boot.cmdline(), "share") {
        Some(_) => claim(boot, (DeviceType::_9P, SHARE_LINE), "share", window),
        None => None,
    };
    let swap = cmdline::option(boot.cmdline(), "swap").and_then(|_| {
        // It is behind the disks that have servers.
        let before = cmdline::number(boot.cmdline(), "disks").unwrap_or(0);
        let claimed = bus::claim_nth(boot, (DeviceType::Block, before as usize), SWAP_LINE, window);
        claimed.inspect_err(|refusal| libos::log!("init: no swap: {refusal:?}")).ok()
    });
    let timer = timer(boot);
    let path = "boot/unixd";
    let program = file(boot, path)?.data;
    let started = bringup::start(program, UNIXD_BADGE, window, |child, domain, window| {
        for slot in [MEMD, KERNEL, IO] {
            child.give(slot, slot)?;
        }
        // For native programs. With one core there is none.
        if MONITOR.identify().is_ok() {
            child.give(MONITOR, MONITOR)?;
        }
        for (line, slot) in [(3, IRQ), (4, IRQ.plus(1))] {
            IRQ.retype(CapType::Irq, line, 1, 1, child.slot(slot))?;
        }
        let (offset, bytes) = (library.offset as u64, library.data.len() as u64);
        let pages = bytes.next_multiple_of(PAGE);
        ARCHIVE.retype(CapType::Frame, offset, pages, 1, child.slot(LIBUNIX_ELF))?;
        domain.arena.make(CapType::Endpoint, PAGE, 1, child.slot(SELF_EP))?;
        SELF_EP.mint_badged(child.slot(REPORT), Rights::SEND, UNIXD_BADGE)?;
        if disks.are_some() || net.is_some() {
            child.slot(SELF_EP).mint_badged(UNIXD_EP, Rights::SEND, UNIXD_BADGE)?;
        }
        disks.give(child)?;
        if let Some(net) = net {
            net.give(child)?;
        }
        let page = bringup::give_boot(boot, child, domain, window)?;
        if let Some(share) = share {
            let words = share.give(child, Slots::SHARE)?;
            let mut view = window.open(page, 0, PAGE, RW)?;
            for (index, word) in words.into_iter().enumerate() {
                view.write(offset_of!(BootInfo, share) + 8 * index, &word.to_le_bytes())?;
            }
        }
        if let Some(swap) = swap {
            let words = swap.give(child, Slots::SWAP)?;
            let mut view = window.open(page, 0, PAGE, RW)?;
            for (index, word) in words.into_iter().enumerate() {
                view.write(offset_of!(BootInfo, swap) + 8 * index, &word.to_le_bytes())?;
            }
        }
        if let Some(timer) = timer {
            timer.mint(child.slot(TIMER), Rights::READ.or(Rights::EXEC))?;
        }
        if boot.persistent_memory().is_some() {
            PERSISTENT.move_to(child.slot(PERSISTENT))?;
        }
        if IMAGE.identify().is_ok() {
            IMAGE.move_to(child.slot(IMAGE))?;
        }
        let [w0, w1, w2, w3] =
            streams.map_or(Ok([0; 4]), |device| device.give(child, Slots::FIRST))?;
        Ok([bytes, w0, w1, w2, w3])
    });
    if let Some(timer) = timer {
        // Nobody has the right to write to it any more.
        timer.discard();
        domain::free_or_lose_slot(timer);
    }
    started.map_err(|error| StartError::Server(path, error))
}

/// The registers of the timer, if the machine has it: without it there is no `/dev/hpet`.
fn timer(boot: &Boot) -> Option<CapAddr> {
    let page = Some(boot.info.timer).filter(|page| *page != 0)?;
    let registers = bus::registers_at(boot, page, PAGE);
    registers.inspect_err(|status| libos::log!("init: the timer's registers: {status:?}")).ok()
}

/// A device, if the machine has it: without that of the streams, they go over the serial port.
fn claim(
    boot: &Boot,
    (ty, line): (DeviceType, u64),
    name: &str,
    window: &mut Window,
) -> Option<bus::Claimed> {
    match bus::claim(boot, ty, line, window) {
        Ok(claimed) => Some(claimed),
        Err(refusal) => {
            if !refusal.is_absence() {
                libos::log!("init: the {name} device cannot be used: {refusal:?}");
            }
            None
        }
    }
}
