//! `execve`: a new program in place of the old one.
//!
//! ```text
//! find the file, follow #! lines        an error is an errno
//! read and check the ELF headers
//! ── point of no return ──              native programs: see `native`
//! close descriptors, give up program memory, reset signals
//! map segments, stack, arguments        an error ends the process
//! set registers: the way back leads to the new program
//! ```

mod args;
mod bequest;
pub use bequest::Rest;
mod file;
mod native;
mod places;
mod stack;

use crate::elf::{Program, Segment};
use crate::errno::{Errno, Result};
use crate::fd;
use crate::fork::set_bases;
use crate::mm::{self, usage, user, Mm, STACK_GAP};
use crate::process::{Io, Process, NO_CALL};
use crate::server::{self, op};
use crate::sys::{pageout, time};
use crate::thread::{company, end, lock, Me};
use crate::upcall::die;
use crate::{beside, fork, trace, vfork};
use abi::dispatcher::{Regs, USER_CS, USER_SS};
use abi::layout::{PAGE, PROGRAM_END};
use alloc::string::String;
use alloc::vec::Vec;
use args::Args;
use file::Executable;
use places::Places;
use unixproto::files::CWD;
use unixproto::session::DATA_BYTES;
use unixproto::signals::SIGKILL;
use uvm::{Flags, MapRequest, Placement, Prot};

pub fn execve(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    let (path, argv, envp) = (regs.rdi, regs.rsi, regs.rdx);
    let path = args::path(&mut p.mm, path)?;
    let args = Args::read(&mut p.mm, &path, argv, envp)?;
    execute(p, regs, CWD, args)
}

pub fn execveat(p: &mut Process, regs: &mut Regs) -> Result<u64> {
    const EMPTY_PATH: u64 = 0x1000;
    const NOFOLLOW: u64 = 0x100;
    const KNOWN: u64 = EMPTY_PATH | NOFOLLOW;
    let (fd, path, argv, envp, flags) = (regs.rdi as i32, regs.rsi, regs.rdx, regs.r10, regs.r8);
    let mut path = args::path(&mut p.mm, path)?;
    let mut dir = CWD;
    if path.is_empty() && flags & EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    if u64::from(flags as u32) & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let follows = flags & NOFOLLOW == 0 || path.is_empty();
    if path.is_empty() && flags & EMPTY_PATH != 0 {
        path = alloc::format!("/proc/self/fd/{fd}").into_bytes();
    } else if path.first() != Some(&b'/') && fd != -100 {
        dir = p.fds.get(fd)?.description(Errno::ENOTDIR)?;
    }
    if !follows && file::is_link(dir, &path)? {
        return Err(Errno::ELOOP);
    }
    let args = Args::read(&mut p.mm, &path, argv, envp)?;
    execute(p, regs, dir, args)
}

/// The first program of the session, as `unixd` names it. If it cannot run, the process says so
/// and ends as a shell would.
pub fn first(p: &mut Process, regs: &mut Regs) {
    if bequest::was_left(p, regs) {
        return;
    }
    let mut block = Vec::new();
    let attached = loop {
        let attached = server::call(op::Attach { from: block.len() as u32 });
        let Ok(attached) = attached else { die(SIGKILL, "unixd does not know it") };
        let Ok(part) = server::taken(attached.bytes as usize) else { die(SIGKILL, "no memory") };
        block.extend_from_slice(&part);
        if (attached.bytes as usize) < DATA_BYTES {
            break attached;
        }
    };
    (p.pid, p.me.tid) = (attached.pid, attached.pid);
    p.limits.begin();
    // Without memory it starts without them.
    let _ = fd::attach(&mut p.fds, [attached.stdin, attached.stdout, attached.stderr]);
    let (args, directory) = Args::from_block(&block);
    if let Some(directory) = directory {
        // A directory that is not there is `/`.
        let _ = server::call_a(op::Chdir { dir: CWD, flags: 0 }, &directory);
    }
    let mut problem = Errno::ENOENT;
    for path in args.candidates() {
        match execute(p, regs, CWD, args.with_path(&path)) {
            Ok(_) => return,
            Err(Errno::ENOENT) => {}
            Err(error) => problem = error,
        }
    }
    let name = String::from_utf8_lossy(args.argv.first());
    file::complain(p, &alloc::format!("{name}: {}", file::reason(problem)));
    let status = if problem == Errno::ENOENT { 127 } else { 126 };
    vfork::exit(unixproto::signals::exited(status))
}

/// A program to be executed, for a domain that is made to do so.
pub struct Request {
    dir: u32,
    args: Args,
}

/// Executes what the parent has asked for and found to be possible.
pub fn requested(p: &mut Process, regs: &mut Regs, request: Request) {
    let Request { dir, args } = request;
    mm::settle(p);
    if let Err(error) = execute(p, regs, dir, args) {
        die(
            SIGKILL,
            &alloc::format!("a program that could be executed cannot be any more: {error:?}"),
        );
    }
    // Whoever made the call is gone, or goes on as another process.
    trace::end_of_call(p, regs);
}

/// Replaces the program. On success the registers are those of the new one.
fn execute(p: &mut Process, regs: &mut Regs, dir: u32, mut args: Args) -> Result<u64> {
    if p.parent.is_some() {
        return spawn(p, regs, dir, args, vfork::spawn);
    }
    if company::is_guest() {
        return spawn(p, regs, dir, args, beside::spawn);
    }
    if lock::is_shared() {
        return spawn(p, regs, dir, args, fork::replace);
    }
    let image = Image::find(p, dir, &mut args)?;
    if image.file.is_native(&image.program) {
        return native::execute(p, &image.file, &image.program, &args);
    }
    if image.file.runs_as_other.is_some() {
        return bequest::leave(p, regs, image, args);
    }
    // From here on there is no way back.
    end::release_all(p);
    fd::close_on_exec(&mut p.fds);
    p.fds.windows.configure(args.envp.iter());
    // Its name in `/proc` is all that depends on it.
    let secure = server::call_ab(op::Exec {}, &args.told(), &args.argv.bytes);
    time::look_at_space();
    let secure = secure.is_ok_and(|answer| answer.count != 0);
    if p.mm.clear().is_err() {
        die(SIGKILL, "the memory of its old program cannot be taken away");
    }
    mm::settle(p);
    begin(p, regs, image, &args, secure);
    Ok(0)
}

/// Begins a program, in the place of one of which nothing is left. `secure`: it must not trust what it is given.
fn begin(p: &mut Process, regs: &mut Regs, image: Image, args: &Args, secure: bool) {
    p.signals.exec();
    p.me.signals.exec();
    p.sys.parent_death_signal = 0;
    pageout::configure(&mut p.mm, args.envp.iter());
    fork::configure(&mut p.mm, args.envp.iter());
    p.sys.registered = 0;
    p.sys.attached.exec();
    p.me.exec();
    let is_fixed = p.sys.has_fixed_layout();
    match load(p, image, args, secure, is_fixed) {
        Ok((entry, sp)) => {
            usage::count(&mut p.mm);
            usage::begin(&mut p.mm);
            start(&mut p.me, regs, entry, sp);
            let tid = p.me.tid;
            trace::executed(p, regs, tid);
        }
        Err(error) => die(SIGKILL, &alloc::format!("its program cannot be loaded: {error:?}")),
    }
}

/// A program, and the dynamic linker that is to start it, if it wants one.
struct Image {
    file: Executable,
    program: Program,
    linker: Option<(Executable, Program)>,
}

impl Image {
    /// Opens a program and what starts it, and reads their headers.
    fn find(io: &mut Io, dir: u32, args: &mut Args) -> Result<Image> {
        let file = file::open_program(io, dir, args)?;
        Image::of(&mut io.mm, file, args)
    }

    /// Reads the headers of a program that is open.
    fn of(mm: &mut Mm, file: Executable, args: &mut Args) -> Result<Image> {
        let program = file.read_program(mm).and_then(|program| match file.is_native(&program) {
            true => native::check(mm, &file, &program, args).map(|()| (program, None)),
            false => file.open_linker(mm, &program).map(|linker| (program, linker)),
        });
        match program {
            Ok((program, linker)) => Ok(Image { file, program, linker }),
            Err(error) => {
                file.close(mm);
                Err(error)
            }
        }
    }

    /// Gives it up; not needed once it is mapped.
    fn close(self, mm: &mut Mm) {
        self.file.close(mm);
        if let Some((linker, _)) = self.linker {
            linker.close(mm);
        }
    }
}

/// Executes a program in another domain, if it can be executed at all: as the child of a vfork, which
/// has none of its own, or as a process with several threads, of which one goes on there.
fn spawn(
    p: &mut Process,
    regs: &mut Regs,
    dir: u32,
    mut args: Args,
    how: fn(&mut Process, &mut Regs) -> Result<u64>,
) -> Result<u64> {
    let image = Image::find(p, dir, &mut args)?;
    if image.file.runs_as_other.is_some() && !image.file.is_native(&image.program) {
        if company::is_guest() {
            // It would have to leave what the others have, too.
            image.close(&mut p.mm);
            return Err(Errno::EAGAIN);
        }
        return bequest::leave(p, regs, image, args);
    }
    image.close(&mut p.mm);
    p.fork.execute = Some(Request { dir, args: args.into_given() });
    let spawned = how(p, regs);
    p.fork.execute = None;
    spawned
}

fn start(me: &mut Me, regs: &mut Regs, entry: u64, sp: u64) {
    me.call = NO_CALL;
    set_bases(me, 0, 0);
    *regs =
        Regs { rip: entry, rsp: sp, cs: USER_CS, ss: USER_SS, rflags: 0x202, ..Regs::default() };
}

/// Maps the program, what starts it, and its stack. Answers where it begins, and the first stack pointer.
fn load(
    io: &mut Io,
    image: Image,
    args: &Args,
    secure: bool,
    is_fixed: bool,
) -> Result<(u64, u64)> {
    let Image { file, mut program, linker } = image;
    let places = Places::choose(io, is_fixed);
    if program.movable().is_some() {
        program = program.moved(places.program);
    }
    let (mm, limits) = io.memory();
    mm::take_limits(mm, limits);
    let object = file.object;
    let path = String::from_utf8_lossy(args.executed()).into_owned();
    io.mm.caps.objects.set_path(object, path.clone());
    io.mm.exe = path;
    for segment in &program.segments {
        map_segment(&mut io.mm, object, segment)?;
    }
    let (Mm { space, .. }, limits) = io.memory();
    space.set_brk_start(program.end().next_multiple_of(PAGE) + places.heap);
    let gap = limits.max_stack().clamp(128 << 20, PROGRAM_END / 6 * 5).min(STACK_GAP);
    space.set_mmap_top((places.top - gap - (1 << 20) - places.mappings) & !(PAGE - 1));
    time::prepare();
    let linker = match linker {
        Some((file, linker)) => Some(map_linker(&mut io.mm, file.object, linker)?),
        None => None,
    };
    let sp = stack::build(io, &program, linker.as_ref(), (args, secure), places)?;
    Ok((linker.map_or(program.entry, |linker| linker.entry), sp))
}

/// Maps a dynamic linker where a mapping goes that may be anywhere.
fn map_linker(mm: &mut Mm, object: uvm::ObjectId, mut linker: Program) -> Result<Program> {
    if let Some(pages) = linker.movable() {
        let Mm { space, caps, .. } = mm;
        let len = pages.end - pages.start;
        let whole = MapRequest::anonymous(len, Prot::NONE);
        let place = space.mmap(caps, &whole).map_err(mm::errno)?;
        space.munmap(caps, place, len).map_err(mm::errno)?;
        linker = linker.moved(place.wrapping_sub(pages.start));
    }
    for segment in &linker.segments {
        map_segment(mm, object, segment)?;
    }
    Ok(linker)
}

fn map_segment(mm: &mut Mm, object: uvm::ObjectId, segment: &Segment) -> Result<()> {
    let first = segment.start & !(PAGE - 1);
    let file_pages_end = segment.file_end.next_multiple_of(PAGE);
    let end = segment.end.next_multiple_of(PAGE);
    let has_file = segment.file_end > segment.start;
    let fixed = |start: u64, end: u64, object| MapRequest {
        addr: start,
        len: end - start,
        prot: segment.prot,
        placement: Placement::Fixed,
        flags: Flags::default(),
        object,
    };
    let zero_from = if has_file { file_pages_end } else { first };
    let Mm { space, caps, .. } = mm;
    if has_file {
        let request = fixed(first, file_pages_end, Some((object, segment.offset)));
        space.mmap(caps, &request).map_err(mm::errno)?;
    }
    if end > zero_from {
        space.mmap(caps, &fixed(zero_from, end, None)).map_err(mm::errno)?;
    }
    // Behind what the file has, its last page is zero.
    if has_file && segment.end > segment.file_end && segment.prot.has(Prot::WRITE) {
        let len = file_pages_end.min(segment.end.next_multiple_of(PAGE)) - segment.file_end;
        user::check_writable(mm, segment.file_end, len as usize)?;
        user::zero(mm, segment.file_end, len as usize).all()?;
    }
    Ok(())
}
