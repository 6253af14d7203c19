//! Starting the servers.

use crate::abi::boot::{ARCHIVE_VA, BOOT_INFO};
use crate::abi::layout::PAGE;
use crate::abi::slots::*;
use bootarchive::{find, Damage, Entry};
use core::fmt;
use libos::domain::{self, Domain, FIRST_ALLOCATED};
use libos::ram::{Arena, Ram};
use libos::runtime::Boot;
use libos::spawn::{Child, SpawnError};
use libos::vspace::{Window, R, RW};
use libos::{Cap, CapAddr, CapType, Place, Rights, Status};

/// RAM for the memory server and for what starts it; what is left goes home.
const STARTUP_BYTES: u64 = 2 << 20;
/// Slot of that RAM, until the memory server is there.
const STARTUP_SLOT: CapAddr = libos::domain::ARENA_SLOT;
/// The memory server's endpoint with all rights.
const MEMD_FULL: CapAddr = CapAddr(STARTUP_SLOT.0 + 1);
const _: () = assert!(MEMD_FULL.0 < FIRST_ALLOCATED);

/// Badges of the servers on the endpoint that is told of their faults.
const MEMD_BADGE: u32 = 1;
const UNIXD_BADGE: u32 = 2;

/// The name of the server with a badge.
pub fn name(badge: u64) -> &'static str {
    match badge as u32 {
        MEMD_BADGE => "memd",
        UNIXD_BADGE => "unixd",
        _ => "somebody",
    }
}

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

fn file<'a>(boot: &'a Boot, path: &'static str) -> Result<Entry<'a>, StartError> {
    find(boot.archive(), path).map_err(StartError::Archive)?.ok_or(StartError::NoFile(path))
}

/// Starts the memory server and then `unixd`.
pub fn start_all(boot: &Boot) -> Result<(), StartError> {
    let mut window = prepare(boot)?;
    start_memd(boot, &mut window)?;
    start_unixd(boot, &mut window)
}

/// The largest of the RAM capabilities, its address and its size.
fn largest_ram(boot: &Boot) -> Result<(CapAddr, u64), Status> {
    let caps = (0..boot.info.ram_caps).map(|i| CapAddr::new(BOOT_RAM_L1, i));
    let sizes = caps.filter_map(|cap| Some((cap, cap.identify().ok()?)));
    let (cap, what) = sizes.max_by_key(|(_, what)| what.bytes).ok_or(Status::NoMemory)?;
    Ok((cap, what.base))
}

/// Takes the startup RAM, and makes the own endpoint and the memory server's of it.
fn prepare(boot: &Boot) -> Result<Window, Status> {
    let (home, _) = largest_ram(boot)?;
    home.retype(CapType::Ram, 0, STARTUP_BYTES, 1, STARTUP_SLOT)?;
    domain::with(|domain| {
        domain.arena = Arena::over(STARTUP_SLOT, 0, STARTUP_BYTES);
        domain.arena.make(CapType::Endpoint, PAGE, 1, SELF_EP.into())?;
        domain.arena.make(CapType::Endpoint, PAGE, 1, MEMD_FULL.into())?;
        MEMD_FULL.mint(MEMD, Rights::SEND)?;
        domain.window()
    })
}

/// A copy of the own endpoint that tells who a fault is about.
fn watch(domain: &mut Domain, badge: u32) -> Result<Place, Status> {
    let slot = domain.slot()?;
    SELF_EP.mint_badged(slot, Rights::SEND, badge)?;
    Ok(slot.into())
}

/// Makes a domain of a file and lets `equip` give it what it needs before it starts.
fn start(
    boot: &Boot,
    path: &'static str,
    badge: u32,
    window: &mut Window,
    equip: impl FnOnce(&mut Child, &mut Domain, &mut Window) -> Result<[u64; 5], Status>,
) -> Result<(), StartError> {
    let file = file(boot, path)?;
    let mut error = None;
    let result = domain::with(|domain| {
        let (root, dispatcher) = (domain.slot()?, domain.slot()?);
        let built = Child::build(file.data, root, dispatcher, &mut domain.arena, window);
        let mut child = built.map_err(|why| {
            error = Some(why);
            Status::Invalid
        })?;
        let args = equip(&mut child, domain, window)?;
        let watcher = watch(domain, badge)?;
        child.start(args, watcher, window)
    });
    result.map_err(|status| StartError::Server(path, error.unwrap_or(SpawnError::Status(status))))
}

/// Starts the memory server, gives it all RAM, and gets RAM from it from then on.
fn start_memd(boot: &Boot, window: &mut Window) -> Result<(), StartError> {
    let (_, base) = largest_ram(boot)?;
    let count = boot.info.ram_caps;
    start(boot, "boot/memd", MEMD_BADGE, window, |child, domain, _| {
        child.give(KERNEL, KERNEL)?;
        child.give(MEMD_FULL, SELF_EP)?;
        let node = Place::l1(child.root, BOOT_RAM_L1);
        domain.arena.make(CapType::L2CNode, libos::captypes::place::L2_BYTES, 1, node)?;
        for i in 0..count {
            let slot = CapAddr::new(BOOT_RAM_L1, i);
            slot.move_to(child.slot(slot))?;
        }
        Ok([count as u64, base, STARTUP_BYTES, 0, 0])
    })?;
    domain::with(|domain| {
        domain.arena.release()?;
        domain.arena = Arena::from_server(STARTUP_SLOT, MEMD);
        MEMD_FULL.delete()
    })?;
    Ok(())
}

/// Starts the control plane of the Linux personality.
fn start_unixd(boot: &Boot, window: &mut Window) -> Result<(), StartError> {
    let library = file(boot, "boot/libunix")?;
    start(boot, "boot/unixd", UNIXD_BADGE, window, |child, domain, window| {
        for slot in [MEMD, KERNEL, IO, ARCHIVE] {
            child.give(slot, slot)?;
        }
        for (line, slot) in [(3, IRQ), (4, IRQ.plus(1))] {
            IRQ.retype(CapType::Irq, line, 1, 1, child.slot(slot))?;
        }
        let (offset, bytes) = (library.offset as u64, library.data.len() as u64);
        let pages = bytes.next_multiple_of(PAGE);
        ARCHIVE.retype(CapType::Frame, offset, pages, 1, child.slot(LIBUNIX_ELF))?;
        domain.arena.make(CapType::Endpoint, PAGE, 1, child.slot(SELF_EP))?;
        SELF_EP.mint_badged(child.slot(REPORT), Rights::SEND, UNIXD_BADGE)?;
        let page = child.frame(PAGE, &mut domain.arena)?;
        window.open(page, 0, PAGE, RW)?.write(0, boot.page())?;
        child.map(BOOT_INFO, PAGE, page, 0, R, &mut domain.arena)?;
        let archive = boot.info.archive_bytes.next_multiple_of(PAGE);
        child.map(ARCHIVE_VA, archive, ARCHIVE.into(), 0, R, &mut domain.arena)?;
        Ok([bytes, 0, 0, 0, 0])
    })
}
