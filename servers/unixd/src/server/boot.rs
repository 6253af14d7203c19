//! The start of the server and of the first process, and the end.

use crate::caps::errno;
use crate::clock::Clock;
use crate::console::Console;
use crate::descs::{self, Object};
use crate::domains::Domain;
use crate::export::export;
use crate::fork::name_of;
use crate::frames::{Files, Frames};
use crate::homes::{self, Choice};
use crate::lines::LineId;
use crate::load::Load;
use crate::made::Made;
use crate::nodes::{Node, Tree};
use crate::pmem::Pool;
use crate::populate::CONSOLE;
use crate::procs::*;
use crate::resolver::Resolver;
use crate::server::Unixd;
use crate::share::Share;
use crate::streams::{Channel, Streams};
use crate::swap::Disk;
use crate::system::System;
use crate::terminal::Terminal;
use crate::voices::Speaker;
use crate::volatile::VolatilePool;
use crate::wire::Wire;
use alloc::vec::Vec;
use captypes::invocations::options;
use credentials::Credentials;
use files::Claim;
use libos::abi::slots::{MAX_DISKS, SELF_EP};
use libos::runtime::{Boot, Start};
use libos::session::NET_GONE;
use libos::{cmdline, domain, session};
use linuxdomain::fresh::make_fresh;
use memfs::{Attr, Cred, Name};
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
/// How long the servers of disks may write at the end, in nanoseconds.
const PATIENCE_NS: u64 = 20 * crate::clock::SECOND;
/// How long the network server may take to begin.
const NETWORK_NS: u64 = 2 * crate::clock::SECOND;
/// How long it may take to send what is left at the end.
const FINISH_NS: u64 = 3 * crate::clock::SECOND;
/// Exit status of a session that could not begin.
const BROKEN: u32 = 125;

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
    // Nobody listens at the serial port then.
    let wanted = cmdline::option(boot.cmdline(), "streams") == Some("device");
    if wanted && !unixd.terminal.has_device() {
        return Err("the console device does not work");
    }
    let now = unixd.clock.boot_wall() as i64;
    unixd.procs.epoch = unixd.clock.boot_wall();
    unixd.procs.randomizes = randomizes(boot.cmdline());
    unixd.tree.populate(boot.archive(), now)?;
    if let Some(memory) = boot.persistent_memory() {
        unixd.pool =
            Pool::mount(&mut unixd.tree, memory, now).map_err(|_| "no directory for /pmem")?;
    }
    if let Some(bytes) = cmdline::number(boot.cmdline(), "md") {
        unixd.tree.add_disk(bytes, now).map_err(|_| "the memory disk cannot be made")?;
    }
    unixd.tree.add_swap(now).map_err(|_| "no name for the disk of pages")?;
    let hz = start.frame.tsc_hz;
    let share = Share::open(boot.cmdline(), 0, boot.info.share, hz);
    if let Some(share) = share.map_err(|()| "the folder of --share cannot be had")? {
        unixd.tree.add_folder(share, now).map_err(|_| "no directory for /share")?;
    }
    for number in 0..MAX_DISKS {
        let folder = unixd.tree.share_count() as u32;
        let disk = Share::of_disk(number, folder).map_err(|_| "no memory for a disk")?;
        if let Some(disk) = disk {
            unixd.tree.add_share(disk, now).map_err(|_| "no name for a disk")?;
        }
    }
    let cores = (0..).take_while(|&core| {
        libos::log::counter_of(core, captypes::invocations::Counter::IdleTicks).is_ok()
    });
    let made = Made::new(cores.count(), unixd.system.ram(), &unixd.clock, unixd.procs.randomizes);
    unixd.tree.show_made(made, now).map_err(|_| "no directory for /sys")?;
    unixd.resolver = Resolver::of_boot(boot.archive(), &unixd.tree);
    unixd.begin_network().map_err(|_| "no memory for the network")?;
    warm_up().map_err(|_| "no memory")?;
    let first_home = unixd.find_homes(boot.cmdline(), start.args[0])?;
    // What is left of the arena would count as lost now and as found at the end.
    let _ = domain::with(|domain| domain.arena.release());
    session::begin().map_err(|_| "init does not answer")?;
    let args = match bootarchive::find(boot.archive(), "boot/args") {
        Ok(Some(entry)) => entry.data.to_vec(),
        _ => Vec::new(),
    };
    if let Ok(Some(wanted)) = bootarchive::find(boot.archive(), exportproto::WANTED) {
        unixd.system.set_exports(wanted.data.to_vec());
    }
    unixd.open_stdio(boot.cmdline(), args).map_err(|_| "no standard input and output")?;
    unixd
        .first_process(start.args[0], first_home)
        .map_err(|_| "the first process cannot be made")?;
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

/// How the layout of programs is chosen, as `randomize_va_space` says it: `randmaps` or `randmaps=2`, `randmaps=1`, or not at all.
fn randomizes(cmdline: &str) -> u32 {
    match cmdline::option(cmdline, "randmaps") {
        None | Some("0") => 0,
        Some("1") => 1,
        Some(_) => 2,
    }
}

fn server(start: &Start, boot: &Boot) -> Result<Unixd, &'static str> {
    let mut clock = Clock::new(start.frame);
    let [_, w0, w1, w2, w3] = start.args;
    let attr = Attr { mode: 0o755, cred: Cred::ROOT, now: clock.boot_wall() as i64 };
    let window = domain::with(|domain| domain.window()).map_err(|_| "no window")?;
    let volatile = VolatilePool::new(boot.info.ram_bytes, Disk::find(boot.info.swap))
        .map_err(|_| "no memory for files")?;
    let frames = Frames::new(window, volatile);
    let files = Files::new(Limits::of(INODES_MAX), attr, frames);
    let load = Load::begin(&mut clock);
    Ok(Unixd {
        procs: Procs::default(),
        descs: Default::default(),
        pipes: Default::default(),
        counters: Default::default(),
        sets: Default::default(),
        sockets: Default::default(),
        wire: None,
        resolver: None,
        notify: Default::default(),
        segments: Default::default(),
        seals: Default::default(),
        messages: Default::default(),
        mqueues: Default::default(),
        semaphores: Default::default(),
        tree: Tree::new(files),
        locks: Default::default(),
        leases: Default::default(),
        futexes: Default::default(),
        watches: Default::default(),
        readiness: Default::default(),
        terminal: Terminal::over(Streams::new([w0, w1, w2, w3], start.frame)),
        console: Console::new(),
        clock,
        stirred: Default::default(),
        restrains: false,
        caller: Speaker { pid: FIRST, tid: FIRST },
        system: System::new(boot.info.ram_bytes, boot.persistent_memory()),
        load,
        pool: None,
        stock: Default::default(),
        voices: Default::default(),
        fx: Default::default(),
        was_notified: false,
    })
}

/// Has the servers of disks write what they have, and waits for them, but not for ever.
fn unmount_all(tree: &Tree, clock: &mut Clock) {
    let (mut woken, deadline) = (Vec::new(), clock.now() + PATIENCE_NS);
    loop {
        clock.begin_event();
        let is_over = |share: &Share| share.end() & share.is_quiet();
        if tree
            .shares()
            .filter(|share| share.disk().is_some())
            .fold(true, |all, share| all & is_over(share))
        {
            return;
        }
        if clock.now() > deadline {
            libos::log!("unixd: a disk does not answer");
            return;
        }
        clock.arm_within(PATIENCE_NS);
        let message = libos::ipc::recv(SELF_EP, libos::Place::NULL);
        let Ok(message) = message.inspect_err(|error| libos::log!("unixd: {error:?}")) else {
            return;
        };
        if message.is_notification() {
            tell_gone(tree, message.words[0]);
        }
        tree.shares().for_each(|share| share.interrupt(&mut woken));
    }
}

/// The servers of some disks may be gone.
pub fn tell_gone(tree: &Tree, bits: u64) {
    let disks = tree.shares().filter(|share| share.disk().is_some());
    for share in disks.filter(|share| bits & share.gone_bit() != 0) {
        share.give_up();
    }
}

impl Unixd {
    /// Waits until the network server has said where in the network this is, so that the first program finds that: not for ever.
    fn begin_network(&mut self) -> Result<(), libos::Status> {
        let Some(mut wire) = Wire::open()? else { return Ok(()) };
        // So that nothing that is told is lost.
        libos::invoke(SELF_EP, captypes::op::Listen { bits: 0 })?;
        session::net_cleared(true)?;
        let deadline = self.clock.now() + NETWORK_NS;
        while self.sockets.inet.all.interface().is_none() {
            self.clock.begin_event();
            if self.clock.now() > deadline {
                libos::log!("unixd: the network does not come");
                break;
            }
            self.clock.arm_within(NETWORK_NS);
            let message = libos::ipc::recv(SELF_EP, libos::Place::NULL)?;
            wire.receive(self.clock.wall(), &mut self.sockets, &mut self.fx);
            let is_gone = message.is_notification() && message.words[0] & NET_GONE != 0;
            if is_gone && !wire.gone(&mut self.sockets, &mut self.fx) {
                libos::log!("unixd: there is no network");
                break;
            }
        }
        self.wire = Some(wire);
        self.look_at_origin();
        Ok(())
    }

    /// Waits until the network server has sent what programs have told it: not for ever.
    fn finish_network(&mut self) {
        let Some(wire) = &mut self.wire else { return };
        let deadline = self.clock.now() + FINISH_NS;
        self.sockets.inet.all.end_session();
        while !self.sockets.inet.all.is_idle() {
            wire.send(&mut self.sockets, &mut self.fx);
            self.clock.begin_event();
            if self.clock.now() > deadline {
                break;
            }
            self.clock.arm_within(FINISH_NS);
            let Ok(message) = libos::ipc::recv(SELF_EP, libos::Place::NULL) else { return };
            wire.receive(self.clock.wall(), &mut self.sockets, &mut self.fx);
            if message.is_notification() && message.words[0] & NET_GONE != 0 {
                return;
            }
        }
        if let Some(unused) = self.sockets.inet.all.take_stack_unused() {
            libos::log!("@counter netd_stack_unused {unused}");
        }
    }

    /// Descriptions 0, 1 and 2: the terminal, or streams. Standard error is standard output, unless the command line
    /// says that it is something else.
    fn open_stdio(&mut self, line: &str, args: Vec<u8>) -> Result<(), Errno> {
        let is_tty = |name| cmdline::option(line, name) == Some("tty");
        let (input, output) = (is_tty("stdin"), is_tty("stdout"));
        let (error, channel) = match cmdline::option(line, "stderr") {
            Some("tty") => (true, Channel::Error),
            Some("own") => (false, Channel::Error),
            _ => (output, Channel::Output),
        };
        let pid = FIRST;
        self.procs.new_pid(&self.terminal.controls, 0, None)?;
        let voice = self.voices.equip(&mut self.stock, 0, Speaker { pid, tid: pid })?;
        let stands = self.tree.first();
        let mut proc = Proc::new(pid, pid, pid, stands, Credentials::ROOT, self.clock.now());
        self.tree.show_queues(&proc.spaces.ipc, self.clock.wall())?;
        self.tree.hold_standing(&stands);
        proc.voice = Some(voice);
        self.procs.add(proc);
        let stdio = [
            self.open_console(input, Channel::Input, O_RDONLY)?,
            self.open_console(output, Channel::Output, O_WRONLY)?,
            self.open_console(error, channel, O_WRONLY)?,
        ];
        self.system.set_first(args, stdio);
        self.terminal.begin(input, input || output || error);
        self.procs.publish(pid);
        Ok(())
    }

    /// A description of the terminal by its name, or of a stream.
    fn open_console(&mut self, tty: bool, channel: Channel, mode: u32) -> Result<u32, Errno> {
        let opener = (FIRST, Cred::ROOT.uid);
        if !tty {
            return self.handles().open(opener, Object::Stream(channel), mode, None, Claim::None);
        }
        let fs = self.tree.files_mut().names_mut();
        let dir = fs.lookup(fs.root(), b"dev")?.ok_or(Errno::ENOENT)?;
        let console = fs.lookup(dir, CONSOLE)?.ok_or(Errno::ENOENT)?;
        fs.hold(dir);
        fs.hold(console);
        let mount = self.tree.first().root.mount;
        for _ in 0..2 {
            self.tree.hold_mount(mount);
        }
        let name = Name::from_slice(CONSOLE);
        let place =
            descs::Place { dir: Node::Mem(dir), name, above: mount, mount, dissolves: false };
        let object = Object::Tty(LineId::Console, Some(console));
        self.handles().open(opener, object, O_RDWR, Some(place), Claim::None)
    }

    /// Has stand-ins on other cores, if the command line wants processes there: `home=CORE` the first, `homes=SEED` programs at random,
    /// `homes=load` where least is to be done.
    /// The home of the first process.
    fn find_homes(&mut self, line: &str, library_bytes: u64) -> Result<u32, &'static str> {
        let first = cmdline::number(line, "home").unwrap_or(0) as u32;
        let choice = match cmdline::option(line, "homes") {
            Some("load") => Choice::by_load(&self.clock),
            _ => cmdline::number(line, "homes").map_or(Choice::Keep, Choice::Random),
        };
        if first == 0 && matches!(choice, Choice::Keep) {
            return Ok(0);
        }
        let Unixd { voices, tree, .. } = self;
        let window = tree.files_mut().memory().window();
        homes::start(window, library_bytes, choice, |core| voices.of_standin(core))
            .map_err(|_| "no processes on other cores")?;
        match first == 0 || homes::has(first) {
            true => Ok(first),
            false => Err("the home of the first process is no core that runs programs"),
        }
    }

    /// Builds the domain of the first process and starts it.
    fn first_process(&mut self, library_bytes: u64, home: u32) -> Result<(), Errno> {
        self.system.set_library(library_bytes);
        let argv0 =
            self.system.args().split(|&byte| byte == 0).find_map(|field| field.strip_prefix(b"a"));
        let name = name_of(argv0.unwrap_or_default());
        let proc = self.procs.get_mut(FIRST)?;
        proc.name = name;
        let voice = proc.voice.as_ref().ok_or(Errno::ESRCH)?;
        let (endpoint, session) = (voice.endpoint(), voice.session.frame());
        if home != 0 {
            // It starts when it is there.
            let unit = homes::make(home, FIRST, (endpoint, session))?;
            self.procs.get_mut(FIRST)?.domain = Some(Domain::elsewhere(unit));
            return Ok(());
        }
        let domain = Domain::room()?;
        let made = {
            let window = self.tree.files_mut().memory().window();
            let own = (domain.dispatcher(), domain.cspace());
            make_fresh(window, own, (endpoint, session), library_bytes)
        };
        made.and_then(|()| domain.settle(endpoint, options::LINUX)).map_err(|error| {
            libos::log!("unixd: the first domain: {error:?}");
            errno(error)
        })?;
        self.procs.get_mut(FIRST)?.domain = Some(domain.start(Default::default())?);
        Ok(())
    }
}

/// The session is over: says so to `init`, which ends the machine.
pub fn report(mut unixd: Unixd) -> ! {
    let Unixd { console, terminal, clock, fx, tree, system, .. } = &mut unixd;
    console.drain(terminal, clock, fx);
    if let Some(patterns) = system.exports().filter(|_| terminal.streams().takes_files()) {
        export(tree, terminal.streams(), patterns);
        terminal.drain();
    }
    unixd.finish_network();
    unmount_all(&unixd.tree, &mut unixd.clock);
    for (name, error, count) in unixd.system.refused() {
        libos::log!("@unknown {name} {count} {}", error.name());
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
