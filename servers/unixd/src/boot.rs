//! The start of the server and of the first process, and the end.

use crate::caps::errno;
use crate::clock::Clock;
use crate::console::Console;
use crate::descs::{self, Object};
use crate::domains::Domain;
use crate::fork::name_of;
use crate::frames::{Files, Frames};
use crate::nodes::{Node, Tree};
use crate::open::device;
use crate::procs::*;
use crate::server::Unixd;
use crate::system::System;
use crate::voices::Speaker;
use abi::layout::PAGE;
use abi::slots;
use abi::DispatcherFrame;
use alloc::vec::Vec;
use bootarchive::{Entry, Kind};
use captypes::invocations::options;
use core::mem::offset_of;
use credentials::Credentials;
use files::Claim;
use libos::runtime::{Boot, Start};
use libos::vspace::{Window, RW};
use libos::{cmdline, domain, session, Cap, CapAddr, Place, Rights, Status};
use linuxdomain::{
    at, configure, first_frame, make_spaces, map_library, map_piece, own, Image, FIRST_ROOT_SLOTS,
};
use memfs::{Attr, Cred, Ino};
use piecewise::Limits;
use unixproto::files::{O_RDONLY, O_RDWR, O_WRONLY};
use unixproto::signals::SIGKILL;
use unixproto::Errno;

/// Inodes that there may be.
const INODES_MAX: usize = 200_000;
/// Shared frames, and slots, for which there is room before.
const MAPS: u32 = 1024;
/// See [`MAPS`].
const SLOTS: usize = 4000;
/// Where files of the root file system are in the archive.
const ROOT_PREFIX: &[u8] = b"root/";
/// Exit status of a session that could not begin.
const BROKEN: u32 = 125;

/// The terminal's name in `/dev`.
const CONSOLE: &[u8] = b"console";
const DEVICES: [(&[u8], u64, u32); 9] = [
    (b"null", device::NULL, 0o666),
    (b"zero", device::ZERO, 0o666),
    (b"full", device::FULL, 0o666),
    (b"random", device::RANDOM, 0o666),
    (b"urandom", device::URANDOM, 0o666),
    (b"tty", device::TTY, 0o666),
    (CONSOLE, device::CONSOLE, 0o620),
    (b"ttyS0", device::SERIAL, 0o620),
    (b"ptmx", device::number(5, 2), 0o666),
];
const DEV_LINKS: [(&[u8], &[u8]); 4] = [
    (b"fd", b"/proc/self/fd"),
    (b"stdin", b"/proc/self/fd/0"),
    (b"stdout", b"/proc/self/fd/1"),
    (b"stderr", b"/proc/self/fd/2"),
];

/// Ends a session that could not begin.
pub fn give_up() -> ! {
    let _ = session::end(BROKEN);
    libos::runtime::stop()
}

/// Makes the server and the first process.
pub fn start(start: &Start) -> Result<Unixd, &'static str> {
    // SAFETY: `init` maps a copy of its boot page for this server, for good.
    let boot = unsafe { Boot::new() };
    let mut unixd = server(start, &boot)?;
    unixd.populate(boot.archive())?;
    warm_up().map_err(|_| "no memory")?;
    // What is left of the arena would count as lost now and as found at the end.
    let _ = domain::with(|domain| domain.arena.release());
    session::begin().map_err(|_| "init does not answer")?;
    let args = match bootarchive::find(boot.archive(), "boot/args") {
        Ok(Some(entry)) => entry.data.to_vec(),
        _ => Vec::new(),
    };
    unixd.open_stdio(boot.cmdline(), args).map_err(|_| "no standard input and output")?;
    unixd.first_process(start.args[0]).map_err(|_| "the first process cannot be made")?;
    Ok(unixd)
}

/// Takes what a session of usual size needs and the server then keeps, so that a comparison of free
/// memory before and after shows what was lost.
fn warm_up() -> Result<(), Errno> {
    crate::stock::prepare().map_err(errno)?;
    crate::window::prepare(MAPS)?;
    let slots =
        (0..SLOTS).map(|_| crate::caps::Slots::new(1)).collect::<Result<Vec<_>, Errno>>()?;
    drop(slots);
    Ok(())
}

fn server(start: &Start, boot: &Boot) -> Result<Unixd, &'static str> {
    let clock = Clock::new(start.frame);
    let attr = Attr { mode: 0o755, cred: Cred::ROOT, now: clock.boot_wall() as i64 };
    let window = domain::with(|domain| domain.window()).map_err(|_| "no window")?;
    let files = Files::new(Limits::of(INODES_MAX), attr, Frames::new(window));
    Ok(Unixd {
        procs: Procs::default(),
        descs: Default::default(),
        pipes: Default::default(),
        counters: Default::default(),
        sets: Default::default(),
        tree: Tree::new(files),
        locks: Default::default(),
        futexes: Default::default(),
        watches: Default::default(),
        terminal: Default::default(),
        console: Console::new(),
        clock,
        retry: Default::default(),
        stirred: Default::default(),
        caller: Speaker { pid: FIRST, tid: FIRST },
        ending: Default::default(),
        system: System::new(boot.info.ram_bytes),
        stock: Default::default(),
        badges: Default::default(),
        sessions: Default::default(),
        fx: Default::default(),
        yields: true,
    })
}

impl Unixd {
    /// Fills the file system from the archive, then adds `/dev` and `/proc`.
    fn populate(&mut self, archive: &[u8]) -> Result<(), &'static str> {
        for entry in bootarchive::entries(archive) {
            let entry = entry.map_err(|_| "the boot archive is damaged")?;
            let Some(path) = entry.path.strip_prefix(ROOT_PREFIX) else { continue };
            if !path.is_empty() && self.add_entry(path, &entry).is_err() {
                libos::log!("unixd: cannot add /{}", alloc::string::String::from_utf8_lossy(path));
            }
        }
        self.add_dev_and_proc().map_err(|_| "no /dev and /proc")
    }

    /// The directory at a path, made with everything above it if need be.
    fn directory(&mut self, path: &[u8], attr: Attr) -> Result<Ino, Errno> {
        let fs = self.tree.files_mut().names_mut();
        let mut at = fs.root();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            at = match fs.lookup(at, name)? {
                Some(ino) => ino,
                None => fs.mkdir(at, name, attr)?,
            };
        }
        Ok(at)
    }

    fn add_entry(&mut self, path: &[u8], entry: &Entry) -> Result<(), Errno> {
        let now = self.clock.boot_wall() as i64;
        let time = if entry.mtime == 0 { now } else { entry.mtime as i64 * 1_000_000_000 };
        // Owners of files do not matter to whoever makes them here.
        let attr = Attr { mode: entry.mode & 0o7777, cred: Cred::ROOT, now: time };
        let root = Attr { mode: 0o755, cred: Cred::ROOT, now };
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let (dir, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        let dir = self.directory(dir, root)?;
        if entry.kind() == Kind::Directory {
            let ino = self.directory(path, attr)?;
            return self.own_as(ino, attr.mode, entry);
        }
        if entry.kind() == Kind::Other {
            return Ok(());
        }
        let files = self.tree.files_mut();
        if files.names().lookup(dir, name)?.is_some() {
            files.names_mut().unlink(dir, name, Cred::ROOT, now)?;
        }
        let ino = match entry.kind() {
            Kind::Symlink => {
                let node = memfs::Node::Symlink(entry.data.to_vec());
                files.names_mut().create(dir, name, node, attr)?
            }
            _ => {
                let place = (entry.offset as u64, entry.data.len() as u64);
                files.create_archived(dir, name, place, attr)?
            }
        };
        self.own_as(ino, attr.mode, entry)
    }

    /// Gives what was made the mode and the owner that the archive says.
    fn own_as(&mut self, ino: Ino, mode: u32, entry: &Entry) -> Result<(), Errno> {
        let fs = self.tree.files_mut().names_mut();
        let inode = fs.get_mut(ino)?;
        (inode.mode, inode.gid) = (mode, entry.gid);
        fs.give(ino, entry.uid)?;
        Ok(())
    }

    fn add_dev_and_proc(&mut self) -> Result<(), Errno> {
        let now = self.clock.boot_wall() as i64;
        let attr = Attr { mode: 0o755, cred: Cred::ROOT, now };
        let dev = self.directory(b"dev", attr)?;
        let fs = self.tree.files_mut().names_mut();
        for (name, number, mode) in DEVICES {
            fs.create(dev, name, memfs::Node::Device(number), Attr { mode, ..attr })?;
        }
        for (name, text) in DEV_LINKS {
            let node = memfs::Node::Symlink(text.to_vec());
            fs.create(dev, name, node, Attr { mode: 0o777, ..attr })?;
        }
        self.directory(b"tmp", Attr { mode: 0o1777, ..attr })?;
        let proc = self.directory(b"proc", Attr { mode: 0o555, ..attr })?;
        self.tree.cover(proc);
        Ok(())
    }

    /// Descriptions 0, 1 and 2: the terminal, or the console as a stream.
    fn open_stdio(&mut self, line: &str, args: Vec<u8>) -> Result<(), Errno> {
        let is_tty = |name| cmdline::option(line, name) == Some("tty");
        let (input, output) = (is_tty("stdin"), is_tty("stdout"));
        self.terminal.interactive = input;
        let pid = FIRST;
        self.procs.new_pid(None, 0)?;
        let voice = self.equip(Speaker { pid, tid: pid })?;
        let root = self.tree.root();
        let mut proc = Proc::new(pid, pid, pid, root, Credentials::ROOT, self.clock.now());
        self.tree.hold(root);
        proc.voice = Some(voice);
        self.procs.add(proc);
        let stdio = [
            self.open_console(input, O_RDONLY)?,
            self.open_console(output, O_WRONLY)?,
            self.open_console(output, O_WRONLY)?,
        ];
        self.system.set_first(args, stdio);
        self.first_terminal(input || output);
        self.publish(pid);
        Ok(())
    }

    /// A description of the terminal by its name, or of the console as a stream.
    fn open_console(&mut self, tty: bool, mode: u32) -> Result<u32, Errno> {
        let opener = (FIRST, Cred::ROOT.uid);
        if !tty {
            return self.handles().open(opener, Object::Stream, mode, None, Claim::None);
        }
        let fs = self.tree.files_mut().names_mut();
        let dir = fs.lookup(fs.root(), b"dev")?.ok_or(Errno::ENOENT)?;
        let console = fs.lookup(dir, CONSOLE)?.ok_or(Errno::ENOENT)?;
        fs.hold(dir);
        fs.hold(console);
        let place = descs::Place { dir: Node::Mem(dir), name: CONSOLE.to_vec() };
        let object = Object::Tty(Some(console));
        self.handles().open(opener, object, O_RDWR, Some(place), Claim::None)
    }

    /// Builds the domain of the first process and starts it.
    fn first_process(&mut self, library_bytes: u64) -> Result<(), Errno> {
        let argv0 =
            self.system.args().split(|&byte| byte == 0).find_map(|field| field.strip_prefix(b"a"));
        let name = name_of(argv0.unwrap_or_default());
        let proc = self.procs.get_mut(FIRST)?;
        proc.name = name;
        let voice = proc.voice.as_ref().ok_or(Errno::ESRCH)?;
        let (endpoint, session) = (voice.endpoint(), voice.session.frame());
        let domain = Domain::room()?;
        let made = self.make_domain(&domain, (endpoint, session), library_bytes);
        made.and_then(|()| domain.settle(endpoint, options::LINUX)).map_err(|error| {
            libos::log!("unixd: the first domain: {error:?}");
            errno(error)
        })?;
        domain.start()?;
        self.procs.get_mut(FIRST)?.domain = Some(domain);
        Ok(())
    }

    /// For a short look at a Frame.
    fn window(&mut self) -> &mut Window {
        self.tree.files_mut().memory().window()
    }

    fn make_domain(
        &mut self,
        domain: &Domain,
        (endpoint, session): (CapAddr, CapAddr),
        library_bytes: u64,
    ) -> Result<(), Status> {
        let (root, dispatcher) = (domain.cspace(), domain.dispatcher());
        let mut header = [0; 4096];
        let first = library_bytes.min(PAGE) as usize;
        let elf = Place::own(slots::LIBUNIX_ELF);
        self.window().open(elf, 0, PAGE, libos::vspace::R)?.read(0, &mut header[..first])?;
        let (image, data_bytes, entry) = image_of(&header).ok_or(Status::Invalid)?;
        domain::with(|domain| {
            use libos::ram::Ram;
            make_spaces(&mut domain.arena, root, FIRST_ROOT_SLOTS, dispatcher)?;
            domain.arena.make(libos::CapType::Frame, PAGE, 1, at(root, slots::FRAME))
        })?;
        slots::MEMD.mint_badged(at(root, slots::MEMD), Rights::SEND, FIRST)?;
        endpoint.mint(at(root, slots::UNIXD), Rights::SEND)?;
        session.mint(at(root, slots::SESSION), Rights::READ.or(Rights::WRITE))?;
        let run = Rights::READ.or(Rights::EXEC);
        elf.mint(at(root, slots::LIBUNIX_ELF), run)?;
        self.fill_private(root, &image, data_bytes)?;
        map_library(root, &image)?;
        map_piece(root, own::PT, 0, image.private_start(), image.first_pages())?;
        self.write_frame(root, entry)?;
        configure(root, dispatcher, options::LINUX)
    }

    /// The library's data from its file, the rest zeros.
    fn fill_private(
        &mut self,
        root: libos::CapAddr,
        image: &Image,
        bytes: u64,
    ) -> Result<(), Status> {
        let mut page = [0; PAGE as usize];
        let piece = at(root, own::PIECES);
        domain::with(|domain| {
            use libos::ram::Ram;
            let pages = image.first_pages() as u64;
            domain.arena.make(libos::CapType::Frame, pages * PAGE, 1, piece)
        })?;
        for from in (0..bytes).step_by(PAGE as usize) {
            let part = &mut page[..(bytes - from).min(PAGE) as usize];
            let offset = image.data as u64 * PAGE + from;
            let elf = Place::own(slots::LIBUNIX_ELF);
            self.window().open(elf, offset, PAGE, libos::vspace::R)?.read(0, part)?;
            self.window().open(piece, from, PAGE, RW)?.write(0, part)?;
        }
        Ok(())
    }

    fn write_frame(&mut self, root: libos::CapAddr, entry: u64) -> Result<(), Status> {
        let regs = first_frame(entry);
        let mut view = self.window().open(at(root, slots::FRAME), 0, PAGE, RW)?;
        // SAFETY: registers are words without padding.
        let bytes = unsafe {
            core::slice::from_raw_parts(&regs as *const _ as *const u8, size_of_val(&regs))
        };
        view.write(offset_of!(DispatcherFrame, save), bytes)?;
        view.write(offset_of!(DispatcherFrame, disabled), &1u32.to_le_bytes())
    }
}

/// Pages of the library from the program headers in the first page of its file: with the bytes of
/// its initialised data and the entry point.
fn image_of(file: &[u8; 4096]) -> Option<(Image, u64, u64)> {
    let word = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    if &file[..4] != b"\x7fELF" {
        return None;
    }
    let (entry, table, count) = (word(24)?, word(32)? as usize, short(56)? as usize);
    let mut image = Image { text: 0, rodata: 0, data: 0, end: 0 };
    let mut data_bytes = 0;
    for index in 0..count.min(16) {
        let at = table + 56 * index;
        let kind = word(at)?;
        let (offset, va, in_file, in_memory) =
            (word(at + 8)?, word(at + 16)?, word(at + 32)?, word(at + 40)?);
        if kind as u32 != 1 || in_memory == 0 {
            continue;
        }
        let page = (va.checked_sub(abi::layout::LIBRARY_IMAGE)? / PAGE) as u32;
        match kind >> 32 & 7 {
            5 => image.text = page,
            4 => image.rodata = page,
            6 => {
                (image.data, data_bytes) = (page, in_file);
                image.end = page + in_memory.div_ceil(PAGE) as u32;
            }
            _ => return None,
        }
        if in_file > 0 && offset / PAGE != page as u64 {
            return None;
        }
    }
    let ordered = image.text < image.rodata && image.rodata < image.data && image.data < image.end;
    ordered.then_some((image, data_bytes, entry))
}

/// The session is over: says so to `init`, which ends the machine.
pub fn report(mut unixd: Unixd) -> ! {
    unixd.console_drain();
    for (number, count) in unixd.system.unknown() {
        libos::log!("@unknown {number} {count}");
    }
    let status = match unixd.system.ended() {
        Some(status) if status & 0x7f == 0 => status >> 8 & 0xff,
        Some(status) => 128 + (status & 0x7f),
        None => 128 + SIGKILL,
    };
    drop(unixd);
    crate::stock::tidy_all();
    let _ = domain::with(|domain| domain.arena.release());
    let _ = session::end(status);
    libos::runtime::stop()
}
