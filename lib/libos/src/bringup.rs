//! The first steps of whatever the kernel starts first: the memory server takes all RAM over.
//!
//! Before, there is only home RAM, of which [`prepare`] takes a piece; the memory server, its
//! starter's endpoint and tables are made of that. [`start_memd`] hands the homes over; what is
//! left of the piece goes home as any memory does, and from then on the starter asks the server
//! for memory like everybody else.

use crate::cores::{MEMORY_SERVER, PUBLIC};
use crate::domain::{self, ARENA_SLOT};
use crate::ephemeral::Window;
use crate::invoke::invoke;
use crate::ipc::{self, Caps};
use crate::ram::{Arena, Ram};
use crate::runtime::Boot;
use crate::spawn::{Child, SpawnError};
use crate::vspace::{R, RW};
use crate::{log, session, upcall, Cap};
use abi::boot::{ARCHIVE_VA, BOOT_INFO};
use abi::layout::PAGE;
use abi::slots::{ARCHIVE, BOOT_RAM_L1, CHANNELS, KERNEL, MEMD, MONITOR, REPORT, SELF_EP};
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Place, Rights, Status};

/// The argument of `spawnd` where another domain of its core was first.
pub const NOT_FIRST: u64 = 1;

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

/// The memory that a core other than the boot core had at the start, address and bytes: one piece. To be
/// asked before the memory server has it.
pub fn home(boot: &Boot) -> Result<(u64, u64), Status> {
    let what = largest_ram(boot)?.0.identify()?;
    Ok((what.base, what.bytes))
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
    start_child(file, badge, window, equip).map(|_| ())
}

/// Likewise for whoever may have to [destroy](Child::destroy) it.
pub fn start_child(
    file: &[u8],
    badge: u32,
    window: &mut Window,
    equip: impl FnOnce(&mut Child, &mut domain::Domain, &mut Window) -> Result<[u64; 5], Status>,
) -> Result<Child, SpawnError> {
    let mut error = None;
    let result = domain::with(|domain| {
        let (root, dispatcher) = (domain.slot()?, domain.slot()?);
        let built = Child::build(file, root, dispatcher, &mut domain.arena, window);
        let mut child = built.map_err(|why| {
            error = Some(why);
            Status::Invalid
        })?;
        child.trust_with_root();
        let args = equip(&mut child, domain, window)?;
        // Nearly all that a server does is an invocation, so it runs where those are done.
        invoke(dispatcher, op::SetAffinity { mask: 1 << upcall::core() })?;
        let watcher = domain.slot()?;
        SELF_EP.mint_badged(watcher, Rights::SEND, badge)?;
        child.start(args, watcher.into(), window)?;
        Ok(child)
    });
    result.map_err(|status| error.unwrap_or(SpawnError::Status(status)))
}

/// Starts the memory server, gives it all RAM, and gets RAM from it from then on.
pub fn start_memd(
    boot: &Boot,
    file: &[u8],
    badge: u32,
    window: &mut Window,
) -> Result<Child, SpawnError> {
    let (_, base) = largest_ram(boot)?;
    let count = boot.info.ram_caps;
    // Zero: those of the cache.
    let colours = crate::cmdline::number(boot.cmdline(), "colours").unwrap_or(0);
    // Zero: there is nobody to borrow memory from.
    let end = if boot.info.channel_bytes > 0 { boot.info.ram_end } else { 0 };
    let memd = start_child(file, badge, window, |child, domain, _| {
        child.give(KERNEL, KERNEL)?;
        child.give(MEMD_FULL, SELF_EP)?;
        domain.arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(child.root, BOOT_RAM_L1))?;
        for i in 0..count {
            let slot = CapAddr::new(BOOT_RAM_L1, i);
            slot.move_to(child.slot(slot))?;
        }
        Ok([count as u64, base, STARTUP_BYTES, colours, end])
    })?;
    domain::with(|domain| {
        domain.arena.release()?;
        domain.arena = Arena::from_server(ARENA_SLOT, MEMD);
        MEMD_FULL.delete()
    })?;
    Ok(memd)
}

/// Starts the core's monitor, which every domain here reaches by its endpoint in `MONITOR` then, and the memory server by one of its own. It is
/// told which core this is, how many there are, which have a first domain, and the memory (`home`: address
/// and bytes) that this one had at the start.
pub fn start_monitor(
    boot: &Boot,
    memd: &mut Child,
    home: (u64, u64),
    file: &[u8],
    badge: u32,
    window: &mut Window,
) -> Result<(), SpawnError> {
    start(file, badge, window, |child, domain, _| {
        for slot in [MEMD, KERNEL, CHANNELS] {
            child.give(slot, slot)?;
        }
        domain.arena.make(CapType::Endpoint, PAGE, 1, child.slot(SELF_EP))?;
        // With a badge, for good: nobody can pass for somebody else.
        child.slot(SELF_EP).mint_badged(MONITOR, Rights::SEND, PUBLIC)?;
        child.slot(SELF_EP).mint_badged(memd.slot(MONITOR), Rights::SEND, MEMORY_SERVER)?;
        let info = boot.info;
        Ok([u64::from(info.core), u64::from(info.cores), info.first_domains, home.0, home.1])
    })
}

/// Starts `spawnd` on the boot core, and waits until it has all that it needs. On the others it is the first
/// domain.
pub fn start_spawnd(
    boot: &Boot,
    file: &[u8],
    badge: u32,
    window: &mut Window,
) -> Result<(), SpawnError> {
    start(file, badge, window, |child, domain, window| {
        for slot in [MEMD, KERNEL, MONITOR] {
            child.give(slot, slot)?;
        }
        domain.arena.make(CapType::Endpoint, PAGE, 1, child.slot(SELF_EP))?;
        SELF_EP.mint_badged(child.slot(REPORT), Rights::SEND, badge)?;
        give_boot(boot, child, domain, window)?;
        Ok([NOT_FIRST, 0, 0, 0, 0])
    })?;
    wait_until_ready(badge).map_err(SpawnError::Status)
}

/// Waits until the server with this badge has said that it has started. Nobody else calls the own endpoint
/// so early, but for faults of servers.
fn wait_until_ready(badge: u32) -> Result<(), Status> {
    loop {
        let message = ipc::recv(SELF_EP, Place::NULL)?;
        if message.is_notification() {
            continue;
        }
        if message.is_fault() {
            let [vector, _, address, rip, ..] = message.words;
            let who = message.badge;
            log!("server {who}: exception {vector}, address {address:#x}, at {rip:#x}");
            return Err(Status::WrongState);
        }
        ipc::reply(Place::CALLER, [0; 6], Caps::NONE)?;
        if let [session::READY, status, ..] = message.words {
            if message.badge == u64::from(badge) {
                return Status::from_word(status);
            }
        }
    }
}

/// Gives a child what makes it a [`Boot`]: the page that the kernel wrote, and the archive.
pub fn give_boot(
    boot: &Boot,
    child: &mut Child,
    domain: &mut domain::Domain,
    window: &mut Window,
) -> Result<Place, Status> {
    child.give(ARCHIVE, ARCHIVE)?;
    let page = child.frame(PAGE, &mut domain.arena)?;
    window.open(page, 0, PAGE, RW)?.write(0, boot.page())?;
    child.map(BOOT_INFO, PAGE, page, 0, R, &mut domain.arena)?;
    let archive = boot.info.archive_bytes.next_multiple_of(PAGE);
    child.map(ARCHIVE_VA, archive, ARCHIVE.into(), 0, R, &mut domain.arena)?;
    Ok(page)
}
