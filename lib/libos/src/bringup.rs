//! The first steps of whatever the kernel starts first: the memory server takes all RAM over.
//!
//! Before, there is only home RAM, of which [`prepare`] takes a piece; the memory server, its
//! starter's endpoint and tables are made of that. [`start_memd`] hands the homes over; what is
//! left of the piece goes home as any memory does, and from then on the starter asks the server
//! for memory like everybody else.

use crate::domain::{self, ARENA_SLOT};
use crate::invoke::invoke;
use crate::ram::{Arena, Ram};
use crate::runtime::Boot;
use crate::spawn::{Child, SpawnError};
use crate::upcall;
use crate::vspace::Window;
use crate::Cap;
use abi::layout::PAGE;
use abi::slots::{BOOT_RAM_L1, KERNEL, MEMD, SELF_EP};
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

/// RAM for the memory server and for what starts it.
const STARTUP_BYTES: u64 = 2 << 20;
/// The memory server's endpoint with all rights, until the server has it.
const MEMD_FULL: CapAddr = ARENA_SLOT.plus(1);
const _: () = assert!(MEMD_FULL.0 < domain::FIRST_ALLOCATED);

/// The largest of the RAM capabilities and its first physical address.
fn largest_ram(boot: &Boot) -> Result<(CapAddr, u64), Status> {
    let caps = (0..boot.info.ram_caps).map(|i| CapAddr::new(BOOT_RAM_L1, i));
    let sizes = caps.filter_map(|cap| Some((cap, cap.identify().ok()?)));
    let (cap, what) = sizes.max_by_key(|(_, what)| what.bytes).ok_or(Status::NoMemory)?;
    Ok((cap, what.base))
}

/// Takes the startup RAM, and makes the own endpoint and the memory server's of it.
pub fn prepare(boot: &Boot) -> Result<Window, Status> {
    let (home, _) = largest_ram(boot)?;
    home.retype(CapType::Ram, 0, STARTUP_BYTES, 1, ARENA_SLOT)?;
    domain::with(|domain| {
        domain.arena = Arena::over(ARENA_SLOT, 0, STARTUP_BYTES);
        domain.arena.make(CapType::Endpoint, PAGE, 1, SELF_EP.into())?;
        domain.arena.make(CapType::Endpoint, PAGE, 1, MEMD_FULL.into())?;
        MEMD_FULL.mint(MEMD, Rights::SEND)?;
        domain.window()
    })
}

/// Makes a domain of the ELF file `file`, lets `equip` give it what it needs, and starts it with
/// the words that `equip` answers. Its faults are reported to the own endpoint with `badge`.
pub fn start(
    file: &[u8],
    badge: u32,
    window: &mut Window,
    equip: impl FnOnce(&mut Child, &mut domain::Domain, &mut Window) -> Result<[u64; 5], Status>,
) -> Result<(), SpawnError> {
    let mut error = None;
    let result = domain::with(|domain| {
        let (root, dispatcher) = (domain.slot()?, domain.slot()?);
        let built = Child::build(file, root, dispatcher, &mut domain.arena, window);
        let mut child = built.map_err(|why| {
            error = Some(why);
            Status::Invalid
        })?;
        let args = equip(&mut child, domain, window)?;
        // Nearly all that a server does is an invocation, so it runs where those are done.
        invoke(dispatcher, op::SetAffinity { mask: 1 << upcall::core() })?;
        let watcher = domain.slot()?;
        SELF_EP.mint_badged(watcher, Rights::SEND, badge)?;
        child.start(args, watcher.into(), window)
    });
    result.map_err(|status| error.unwrap_or(SpawnError::Status(status)))
}

/// Starts the memory server, gives it all RAM, and gets RAM from it from then on.
pub fn start_memd(
    boot: &Boot,
    file: &[u8],
    badge: u32,
    window: &mut Window,
) -> Result<(), SpawnError> {
    let (_, base) = largest_ram(boot)?;
    let count = boot.info.ram_caps;
    // Zero: those of the cache.
    let colours = crate::cmdline::number(boot.cmdline(), "colours").unwrap_or(0);
    start(file, badge, window, |child, domain, _| {
        child.give(KERNEL, KERNEL)?;
        child.give(MEMD_FULL, SELF_EP)?;
        domain.arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(child.root, BOOT_RAM_L1))?;
        for i in 0..count {
            let slot = CapAddr::new(BOOT_RAM_L1, i);
            slot.move_to(child.slot(slot))?;
        }
        Ok([count as u64, base, STARTUP_BYTES, colours, 0])
    })?;
    domain::with(|domain| {
        domain.arena.release()?;
        domain.arena = Arena::from_server(ARENA_SLOT, MEMD);
        MEMD_FULL.delete()
    })?;
    Ok(())
}
