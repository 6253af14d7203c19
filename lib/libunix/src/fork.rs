//! `fork` and its relatives: a child domain is made by the parent's library.
//!
//! Program memory is not copied: parent and child hold the same CNodes and last-level tables (see
//! `uvm::Space::fork`), which both see write-protected. The library's private pages are copied, so
//! the child's library starts with everything that the parent's knew, and a [`Handover`] says what
//! is different.

use crate::beside::{self, Shares};
use crate::errno::{Errno, Result};
use crate::exec::{self, Request};
use crate::fd::kinds::pidfd::pidfd_open;
use crate::mm::arena::Arena;
use crate::mm::{library, usage, user, userfault, Mm};
use crate::process::{frame, Io, Process, Task};
use crate::server::{self, header, main_header, op, Caps};
use crate::sys::processes;
use crate::sys::scheduling::{own_cores, take_affinity};
use crate::sys::time;
use crate::thread::create::{self, Ids, NewProcess};
use crate::thread::{self, area, company, lock, restart, Me};
use crate::trace::{self, event};
use crate::{fd, upcall, vfork};
use abi::dispatcher::Regs;
use abi::layout::PAGE;
use abi::slots::{FRAME, LIBUNIX_ELF, MEMD, SESSION, UNIXD};
const _: () = assert!(SESSION.0 == UNIXD.0 + 1);
use alloc::vec::Vec;
use captypes::invocations::options;
use captypes::{CapAddr, Place, Status};
use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use credentials::Capability;
use libos::{invoke, memd, Cap};
use linuxdomain::first_frame;
use linuxdomain::own::{CHILD_DISPATCHER, CHILD_ROOT};
use unixproto::signals::{SIGCHLD, SIGKILL};
use uvm::CNode;

/// Pages of RAM that a child starts with: what it needs until it waits for something.
const CHILD_RAM: u64 = 28;
/// The same of one that starts with a program of its own.
const PROGRAM_RAM: u64 = 40;

/// What a child finds different from its parent.
pub struct Handover {
    regs: Regs,
    arena: Arena,
    fs: u64,
    gs: u64,
    /// Where the child stores its process id, or 0.
    child_tid: u64,
    clear_tid: u64,
    /// What the child is to execute at once, without the parent's memory.
    pub execute: Option<Request>,
}

impl Handover {
    /// Of a process that has no parent of its kind.
    pub const fn new() -> Self {
        Handover {
            regs: first_frame(0),
            arena: Arena::new(linuxdomain::own::ARENA),
            fs: 0,
            gs: 0,
            child_tid: 0,
            clear_tid: 0,
            execute: None,
        }
    }
}

/// How a child is made.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// The parent waits until the child executes a program or ends.
    wait: bool,
    /// What its tracer hears of it.
    event: u32,
    /// Name spaces that it has of its own (`CLONE_NEW*`).
    spaces: u32,
    /// Stack pointer of the child, or 0 for the parent's.
    pub stack: u64,
    /// FS base of the child.
    pub tls: Option<u64>,
    pub parent_tid: u64,
    pub child_tid: u64,
    /// Where the parent finds a descriptor for the child, if it wants one.
    pub pidfd: Option<u64>,
    /// Where the child's end is shown.
    pub clear_tid: u64,
    /// The numbers that it is to have.
    pub chosen: Chosen,
}

/// Numbers that were chosen for a new process or thread, from its innermost name space on (`set_tid` of `clone3`).
#[derive(Clone, Copy, Default)]
pub struct Chosen {
    numbers: [u32; Chosen::MOST],
    count: usize,
}

impl Chosen {
    /// As many name spaces as there may be inside each other.
    const MOST: usize = 32;

    /// What a program says.
    fn read(mm: &mut Mm, place: u64, count: u64) -> Result<Chosen> {
        if count > Chosen::MOST as u64 || (place == 0) != (count == 0) {
            return Err(Errno::EINVAL);
        }
        let mut chosen = Chosen { count: count as usize, ..Chosen::default() };
        for (at, number) in (place..).step_by(4).zip(&mut chosen.numbers[..count as usize]) {
            *number = user::copy_in(mm, at)?;
        }
        Ok(chosen)
    }

    /// Puts them where a request has its bytes; answers how many those are.
    pub fn put(&self) -> usize {
        let bytes = self.numbers.map(u32::to_le_bytes);
        match self.count {
            0 => 0,
            count => server::put_a(&bytes.as_flattened()[..4 * count]),
        }
    }
}

pub fn fork(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    make(p, regs, How { event: event::FORK, ..How::default() })
}

pub fn vfork(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    let how = How { wait: true, event: event::VFORK, ..How::default() };
    match is_alone(p) {
        true => share(p, regs, how),
        false => make(p, regs, how),
    }
}

/// Runs no thread but the first? Only then can it act as a child.
fn is_alone(task: &Task) -> bool {
    // A tracer may want to see both at once.
    !trace::is_traced() && runs_alone(task)
}

fn runs_alone(task: &Task) -> bool {
    !lock::is_shared() || task.threads.is_alone() && task.me.index == 0
}

/// Parent and child share their memory, and the parent waits.
fn share(p: &mut Process, regs: &mut Regs, how: How) -> Result<u64> {
    match vfork::begin(p, regs, &how) {
        // Where a child acts as its own child, copies must do.
        Err(Errno::EAGAIN) => make(p, regs, how),
        result => result,
    }
}

/// Flags of `clone`.
mod flag {
    pub const VM: u64 = 0x100;
    pub const FS: u64 = 0x200;
    pub const FILES: u64 = 0x400;
    pub const SIGHAND: u64 = 0x800;
    pub const PIDFD: u64 = 0x1000;
    pub const VFORK: u64 = 0x4000;
    pub const THREAD: u64 = 0x1_0000;
    pub const UNTRACED: u64 = 0x80_0000;
    /// `CLONE_NEW*`, with `NEWTIME` of `clone3`.
    pub const NEW_SPACES: u64 = 0x7e02_0080;
    pub const DETACHED: u64 = 0x40_0000;
    pub const SETTLS: u64 = 0x8_0000;
    pub const PARENT_SETTID: u64 = 0x10_0000;
    pub const CHILD_CLEARTID: u64 = 0x20_0000;
    pub const CHILD_SETTID: u64 = 0x100_0000;
    /// Signal actions become default ones (`clone3`).
    pub const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
    /// In a certain control group (`clone3`).
    pub const INTO_CGROUP: u64 = 0x2_0000_0000;
}

/// What `clone` and `clone3` are asked for.
struct Wish {
    flags: u64,
    /// What the parent is sent when the child ends.
    signal: u32,
    stack: u64,
    tls: u64,
    parent_tid: u64,
    child_tid: u64,
    pidfd: u64,
    chosen: Chosen,
}

pub fn clone(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    const NOT_SIGNAL: u64 = !0xff;
    const LOWER: u64 = u32::MAX as u64;
    let wish = Wish {
        // `NEWTIME` is among the bits of the signal, which nobody else uses so.
        flags: regs.rdi & NOT_SIGNAL & LOWER,
        signal: (regs.rdi & !NOT_SIGNAL) as u32,
        stack: regs.rsi,
        tls: regs.r8,
        parent_tid: regs.rdx,
        child_tid: regs.r10,
        // The same place: so it is one or the other.
        pidfd: regs.rdx,
        chosen: Chosen::default(),
    };
    fulfil(p, regs, &wish)
}

pub fn clone3(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    const FIRST_BYTES: usize = 64;
    const MOST_BYTES: u64 = 4096;
    const SIGNAL: u64 = 0xff;
    const SIGNALS: u64 = 64;
    let (addr, bytes) = (regs.rdi, regs.rsi);
    if bytes > MOST_BYTES {
        return Err(Errno::E2BIG);
    }
    if bytes < FIRST_BYTES as u64 {
        return Err(Errno::EINVAL);
    }
    let [flags, pidfd, child_tid, parent_tid, signal, stack, stack_bytes, tls]: [u64; 8] =
        user::copy_in(&mut p.mm, addr)?;
    // Chosen numbers, then a control group, which counts with its flag only. What comes then is newer than this.
    const CHOSEN_END: u64 = 80;
    const KNOWN_END: u64 = 88;
    for at in KNOWN_END..bytes {
        if user::copy_in::<u8>(&mut p.mm, addr + at)? != 0 {
            return Err(Errno::E2BIG);
        }
    }
    let [place, count]: [u64; 2] = match bytes >= CHOSEN_END {
        true => user::copy_in(&mut p.mm, addr + FIRST_BYTES as u64)?,
        false => [0; 2],
    };
    let chosen = Chosen::read(&mut p.mm, place, count)?;
    let is_thread = flags & flag::THREAD != 0;
    let bad = flags & (flag::DETACHED | SIGNAL & !flag::NEW_SPACES) != 0
        || signal > SIGNALS
        || is_thread && signal != 0
        || (stack == 0) != (stack_bytes == 0);
    if bad {
        return Err(Errno::EINVAL);
    }
    let stack = stack.wrapping_add(stack_bytes);
    let signal = signal as u32;
    fulfil(p, regs, &Wish { flags, signal, stack, tls, parent_tid, child_tid, pidfd, chosen })
}

fn fulfil(p: &mut Process, regs: &mut Regs, wish: &Wish) -> Result<u64> {
    use flag::*;
    let &Wish { flags, stack, .. } = wish;
    let has = |flag| flags & flag != 0;
    if has(SIGHAND) && !has(VM) || has(THREAD) && !has(SIGHAND) {
        return Err(Errno::EINVAL);
    }
    const NEWUSER: u64 = 0x1000_0000;
    const NEWNS: u64 = 0x2_0000;
    const NEWIPC: u64 = 0x800_0000;
    const SYSVSEM: u64 = 0x4_0000;
    let spaces = (flags & NEW_SPACES) as u32;
    // Who has a root directory in common with others has everything in common that hangs on it.
    if has(FS) && has(NEWUSER | NEWNS) || has(THREAD) && spaces != 0 {
        return Err(Errno::EINVAL);
    }
    // What is to be undone in semaphores is of one name space.
    if has(NEWIPC) && has(SYSVSEM) {
        let may = has(NEWUSER) || processes::has(Capability::SysAdmin);
        return Err(if may { Errno::EINVAL } else { Errno::EPERM });
    }
    let told_twice = has(PARENT_SETTID) && wish.pidfd == wish.parent_tid;
    let no_pidfd = has(PIDFD) && (has(THREAD) || has(DETACHED) || told_twice);
    if no_pidfd || has(CLEAR_SIGHAND) || has(INTO_CGROUP) {
        return Err(Errno::EINVAL);
    }
    let optional = |flag, value| if flags & flag != 0 { value } else { 0 };
    let chosen = wish.chosen;
    let tls = has(SETTLS).then_some(wish.tls);
    let parent_tid = optional(PARENT_SETTID, wish.parent_tid);
    let child_tid = optional(CHILD_SETTID, wish.child_tid);
    let clear_tid = optional(CHILD_CLEARTID, wish.child_tid);
    if has(THREAD) {
        if !has(FS) || !has(FILES) {
            // Threads of a process have the same files here.
            return Err(Errno::EINVAL);
        }
        let traced = trace::wants(event::CLONE) && !has(UNTRACED);
        let process = None;
        let ids = Ids { parent_tid, child_tid, clear_tid, chosen };
        let request = create::Request { stack, tls, ids, traced, process };
        let tid = create::create(p, regs, &request)?;
        if traced {
            trace::tell(p, regs, event::CLONE, tid);
        }
        return Ok(tid);
    }
    if has(VM) && !has(VFORK) || has(SIGHAND) {
        let shares = Shares { files: has(FILES), hands: has(SIGHAND), stands: has(FS) };
        let (wait, pidfd) = (has(VFORK), has(PIDFD).then_some(wish.pidfd));
        let process = Some(NewProcess { shares, spaces, pidfd, wait });
        let ids = Ids { parent_tid, child_tid, clear_tid, chosen };
        let request = create::Request { stack, tls, ids, traced: false, process };
        return create::create(p, regs, &request);
    }
    let pidfd = has(PIDFD).then_some(wish.pidfd);
    let event = match wish.signal {
        _ if has(UNTRACED) => 0,
        _ if has(VFORK) => event::VFORK,
        SIGCHLD => event::FORK,
        _ => event::CLONE,
    };
    let wait = has(VFORK);
    let how =
        How { wait, event, spaces, stack, tls, parent_tid, child_tid, pidfd, clear_tid, chosen };
    match has(VM) && is_alone(p) && spaces == 0 {
        true => share(p, regs, how),
        // While other threads run, nobody can act as the child.
        false => make(p, regs, how),
    }
}

fn errno(status: Status) -> Errno {
    match status {
        Status::NoMemory | Status::NoSlot => Errno::ENOMEM,
        _ => Errno::EAGAIN,
    }
}

fn make(p: &mut Process, regs: &mut Regs, how: How) -> Result<u64> {
    let (fs, gs) = bases(&p.me);
    p.fork.regs = Regs { rax: 0, ..*regs };
    if how.stack != 0 {
        p.fork.regs.rsp = how.stack;
    }
    p.fork.fs = how.tls.unwrap_or(fs);
    p.fork.gs = gs;
    p.fork.child_tid = how.child_tid;
    p.fork.clear_tid = how.clear_tid;
    p.random.forget();
    let made = make_domain(p, regs, (trace::wants(how.event), how.spaces), how.chosen);
    p.mm.space.forked();
    let pid = made.inspect_err(|_| drop_domain())?;
    copy_eagerly(&mut p.mm);
    let opened = open_child(p, pid, how.pidfd).inspect_err(|_| {
        // The error before is the one to tell.
        let _ = server::call(op::ForkAbort { pid });
        drop_domain();
    })?;
    if how.parent_tid != 0 {
        // As on Linux: an address that is no good is passed over.
        let _ = user::copy_out(&mut p.mm, how.parent_tid, &pid);
    }
    if let Err(error) = give_domain(op::ForkCommit { pid, wait: how.wait }) {
        // The error before is the one to tell.
        let _ = server::call(op::ForkAbort { pid });
        if let Some(fd) = opened {
            // It is open.
            let _ = fd::close(&mut p.fds, fd);
        }
        return Err(error);
    }
    trace::tell(p, regs, how.event, pid.into());
    if how.wait {
        // Nothing ends this early but the end of this process.
        let _ = server::wait(p, op::ForkWait { pid });
        trace::tell(p, regs, event::VFORK_DONE, pid.into());
    }
    Ok(pid as u64)
}

/// Copies all private pages, if they are to be copied at forks, and there is memory for the copies and as much again: with less, whoever needs
/// a page next would find none.
fn copy_eagerly(mm: &mut Mm) {
    let Mm { space, caps, .. } = mm;
    let bytes = space.amap().pages() * PAGE;
    if space.copies_at_forks() && memd::has(MEMD, 2 * bytes) == Ok(true) {
        // What there is no memory for is copied when it is written to.
        let _ = space.copy_now(caps);
    }
}

/// Opens a child that does not run yet, if there is a place where the program wants to find the descriptor.
pub fn open_child(io: &mut Io, pid: u32, place: Option<u64>) -> Result<Option<i32>> {
    let Some(place) = place else { return Ok(None) };
    let fd = pidfd_open(io, pid as i32, 0)? as i32;
    user::copy_out(&mut io.mm, place, &fd).inspect_err(|_| {
        // It is open.
        let _ = fd::close(&mut io.fds, fd);
    })?;
    Ok(Some(fd))
}

/// As the environment of a new program says: with `TESSERA_FORK=eager` its forks, and those of its children, copy all private pages at once
/// (docs/fork.md). Otherwise pages are copied when they are written to.
pub fn configure<'a>(mm: &mut Mm, mut environment: impl Iterator<Item = &'a [u8]>) {
    let how = environment.find_map(|entry| entry.strip_prefix(b"TESSERA_FORK="));
    mm.space.copy_at_forks(how == Some(b"eager"));
}

/// Gives the domain that was made to `unixd`, which starts it. After an error there is none any more.
pub fn give_domain<R: unixproto::Request>(request: R) -> Result<()> {
    let given = server::call_caps(request, 0, 0, Caps::give(CHILD_DISPATCHER, 2));
    if given.is_err() {
        // Maybe it was never sent.
        drop_domain();
    }
    given.map(|_| ())
}

/// Drops the domain that is being made: nobody else has it.
fn drop_domain() {
    for slot in [CHILD_DISPATCHER, CHILD_ROOT] {
        slot.discard();
    }
}

/// Makes the child's domain, up to its start. Answers its process id.
fn make_domain(
    p: &mut Process,
    regs: &mut Regs,
    (traced, spaces): (bool, u32),
    chosen: Chosen,
) -> Result<u32> {
    let Mm { space, caps, .. } = &mut p.mm;
    share_memory(space, caps).map_err(errno)?;
    // The endpoint and the session frame go straight to their slots in the child.
    let place = Caps::receive(within(UNIXD));
    fd::alone::share_all(p)?;
    let objects = &mut p.mm.caps.objects;
    let request = op::Fork { act: false, traced, spaces };
    let forked =
        objects.make_heirs().and_then(|()| server::call_caps(request, chosen.put(), 0, place));
    let (child, received) = forked.inspect_err(|_| objects.forget_heirs(false))?;
    let abort = |error| {
        // The error before is the one to tell.
        let _ = server::call(op::ForkAbort { pid: child.pid });
        error
    };
    if received != 2 {
        p.mm.caps.objects.forget_heirs(true);
        return Err(abort(Errno::EIO));
    }
    let given = give_and_copy(p, regs, CHILD_RAM);
    p.mm.caps.objects.forget_heirs(true);
    given.map_err(|status| abort(errno(status)))?;
    Ok(child.pid)
}

/// Makes the domain of the child that this process acts as, without any program memory. There it
/// executes what `p.fork.execute` says, once it is given away.
pub fn make_executor(p: &mut Process, regs: &mut Regs) -> Result<()> {
    make_empty(p, regs).map_err(errno).inspect_err(|_| drop_domain())
}

/// Makes a domain that executes what `p.fork.execute` says, in place of this one and all its threads.
pub fn replace(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    make_empty(p, regs).map_err(errno).inspect_err(|_| drop_domain())?;
    thread::end::release_all(p);
    // The one that is left is the first one.
    let blocked = header().blocked.load(Relaxed);
    main_header().blocked.store(blocked, Relaxed);
    // There is an answer only if something went wrong.
    give_domain(op::Replace { linux: true })?;
    Err(Errno::EAGAIN)
}

fn make_empty(p: &mut Process, regs: &mut Regs) -> core::result::Result<(), Status> {
    p.me.affinity = own_cores();
    make_spaces(&mut p.mm.caps)?;
    for slot in [MEMD, LIBUNIX_ELF] {
        slot.copy_to(within(slot))?;
    }
    let voice = if company::is_guest() { area::voice(area::own_index()) } else { UNIXD };
    for (n, slot) in [UNIXD, SESSION].into_iter().enumerate() {
        voice.plus(n as u32).copy_to(within(slot))?;
    }
    give_and_copy(p, regs, PROGRAM_RAM)
}

/// The child's state of the library is that of this process, so its root is as large.
fn make_spaces(caps: &mut crate::mm::backend::Caps) -> core::result::Result<(), Status> {
    let slots = caps.nodes.root_slots();
    linuxdomain::make_spaces(&mut caps.arena, CHILD_ROOT, slots, CHILD_DISPATCHER)
}

fn within(slot: CapAddr) -> Place {
    Place::within(CHILD_ROOT, slot)
}

/// The child's spaces, with the parent's program memory in them.
fn share_memory(
    space: &mut uvm::Space,
    caps: &mut crate::mm::backend::Caps,
) -> core::result::Result<(), Status> {
    // What this makes has a place in the child, too.
    let mixed = space.before_fork(caps).map_err(|_| Status::NoMemory)?;
    make_spaces(caps)?;
    MEMD.copy_to(within(MEMD))?;
    LIBUNIX_ELF.copy_to(within(LIBUNIX_ELF))?;
    caps.nodes.prepare_child(&mut caps.arena)?;
    caps.objects.share(CHILD_ROOT)?;
    space.fork(caps, mixed).map_err(|_| Status::NoMemory)?;
    let mut shared: Vec<u64> = Vec::new();
    let mut add = |node: CNode| {
        let word = node.0 as usize / 64;
        if word >= shared.len() {
            shared.resize(word + 1, 0);
        }
        shared[word] |= 1 << (node.0 % 64);
    };
    space.amap().chunks().filter_map(|(_, chunk)| chunk.shared_node()).for_each(&mut add);
    let regions = || space.pmap().regions().filter(|(_, region)| region.shared);
    regions().for_each(|(_, region)| region.nodes.into_iter().flatten().for_each(&mut add));
    caps.nodes.share(&shared)?;
    caps.share_tables(regions().map(|(key, region)| (key, region.table)))
}

/// The rest: what `unixd` gave, `pages` of RAM, and the library's own memory.
fn give_and_copy(p: &mut Process, regs: &mut Regs, pages: u64) -> core::result::Result<(), Status> {
    p.me.affinity = own_cores();
    let arena = &mut p.mm.caps.arena;
    library::with(|library| library.share_tables(arena, CHILD_ROOT))?;
    let bytes = (library::with(|library| library.pages()) as u64 + 1) * PAGE;
    // Behind this point the parent's memory changes no more until it is copied.
    p.fork.arena = arena.share(CHILD_ROOT, pages)?;
    p.mm.caps.arena.prepare(bytes);
    let start = first_frame(upcall::child as *const () as u64);
    let program = core::mem::replace(regs, Regs { rsp: crate::entry::stack(), ..start });
    settle_in_memory(p, regs);
    let copied = copy_private(&mut p.mm.caps.arena);
    settle_in_memory(p, regs);
    *regs = program;
    copied?;
    let image = library::image();
    linuxdomain::map_library(CHILD_ROOT, &image)?;
    library::with(|library| library.map_pieces(CHILD_ROOT))?;
    let how = options::LINUX | options::COPY_VECTOR_STATE;
    linuxdomain::configure(CHILD_ROOT, CHILD_DISPATCHER, how)
}

/// The kernel copies memory behind the compiler's back: what was stored must really be there.
fn settle_in_memory(p: &mut Process, regs: &mut Regs) {
    let (p, regs): (*mut Process, *mut Regs) = (p, regs);
    // SAFETY: does nothing; but for the compiler it may read and write both.
    unsafe { asm!("/* {} {} */", in(reg) p, in(reg) regs, options(nostack, preserves_flags)) };
}

/// Copies the private memory and the kernel's frame. What it takes from the arena is all that changes
/// meanwhile, and the child has an arena of its own.
fn copy_private(ram: &mut Arena) -> core::result::Result<(), Status> {
    let (src, dst) = (area::own_frame_slot().into(), within(FRAME));
    let offset = ram.take(PAGE)?;
    let (bytes, alone) = (PAGE, false);
    let copy = captypes::op::RetypeCopy { offset, src, src_offset: 0, dst, bytes, alone };
    invoke(ram.slot(), copy)?;
    library::with(|library| library.copy_pieces(ram, CHILD_ROOT))
}

fn has_fsgsbase() -> bool {
    // SAFETY: the frame is mapped, and the kernel writes this field only at `Configure`.
    unsafe { (*frame()).fsgsbase != 0 }
}

/// The program's FS and GS bases.
pub fn bases(me: &Me) -> (u64, u64) {
    let (mut fs, mut gs) = (me.fs_base, 0);
    if has_fsgsbase() {
        // SAFETY: the CPU has the instructions.
        unsafe { asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs, out(reg) gs, options(nostack)) };
    }
    (fs, gs)
}

/// Sets them.
pub fn set_bases(me: &mut Me, fs: u64, gs: u64) {
    me.fs_base = fs;
    if has_fsgsbase() {
        // SAFETY: the CPU has the instructions, and the library uses neither register.
        unsafe { asm!("wrfsbase {}", "wrgsbase {}", in(reg) fs, in(reg) gs, options(nostack)) };
    } else {
        let set = captypes::op::SetFsBase { base: fs };
        // The slot is the library's own, and every number is a base.
        let _ = invoke(area::own_dispatcher(), set);
    }
}

/// The first thing that a child does.
pub fn child(p: &mut Process, regs: &mut Regs) {
    library::with(|library| library.after_fork());
    let &mut Handover { regs: program, fs, gs, child_tid, .. } = &mut p.fork;
    p.mm.caps.arena = core::mem::replace(&mut p.fork.arena, Arena::new(linuxdomain::own::ARENA));
    p.parent = None;
    p.mm.space.serve_threads(false);
    fd::after_fork(&mut p.fds);
    beside::after_fork(p);
    p.pid = header().pid.load(Relaxed);
    let pid = p.pid;
    thread::after_fork(p, pid);
    time::look_at_space();
    take_affinity(p.me.affinity);
    p.me.signals.child();
    p.sys.child();
    p.me.clear_tid = p.fork.clear_tid;
    p.me.robust_list = 0;
    if let Some(request) = p.fork.execute.take() {
        p.mm.abandon();
        return exec::requested(p, regs, request);
    }
    let Mm { caps, .. } = &mut p.mm;
    caps.objects.after_fork(&mut caps.nodes);
    *regs = program;
    set_bases(&mut p.me, fs, gs);
    let Mm { space, caps, .. } = &mut p.mm;
    if space.after_fork(caps).is_err() {
        upcall::die(SIGKILL, "what a child must not see cannot be taken away");
    }
    if userfault::after_fork(&mut p.mm).is_err() {
        upcall::die(SIGKILL, "memory cannot be what its parent's is without who serves it");
    }
    usage::begin_child(&mut p.mm);
    restart::begin(&p.me);
    if child_tid != 0 {
        let pid = p.pid;
        // The page is the parent's still. Linux ignores a bad address here, too.
        if user::check_writable(&mut p.mm, child_tid, size_of_val(&pid)).is_ok() {
            let _ = user::copy_out(&mut p.mm, child_tid, &pid);
        }
    }
}
