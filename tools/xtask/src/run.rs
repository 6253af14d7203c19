//! `./x run`: boots, runs one program, and ends as it ended.

use crate::backtrace::Symbols;
use crate::compile::{self, Scope};
use crate::disk;
use crate::emulator::{self, Console, End, Finished, Limits};
use crate::export::{self, Export};
use crate::image::{self, Addition, Base, Image, Orders};
use crate::log::{panic_report, Log, Record};
use crate::machine::{parse_size, Boot, MachineOptions, MemorySize, Streams};
use crate::map::MapOption;
use crate::net;
use crate::ports::{is_same, Sink};
use crate::program::{parse_addition, Invocation};
use crate::project::Project;
use crate::rootfs::Folder;
use crate::setup;
use crate::share;
use crate::terminal::window_size;
use crate::tracing::Recording;
use crate::watch;
use anyhow::{bail, ensure, Result};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::isatty;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Exit statuses of our own. A program's own statuses are 0 to 255 too: the message on standard
/// error tells them apart.
pub const STATUS_PANIC: i32 = 101;
pub const STATUS_DIED: i32 = 102;
pub const STATUS_FILES: i32 = 103;
pub const STATUS_TIMEOUT: i32 = 124;

const STATUSES: &str = "\
Exit status:
  the program's   0 to 255; 128+N if signal N killed it
  2               wrong options, or the program cannot be run (it says why)
  101             the kernel panicked
  102             the emulator died, or a native program failed that others wait for
  103             the program's was 0, but files of --out did not come
  124             the time of --timeout is up
  125             the system could not begin
  126, 127        the guest itself could not run the program (with --no-check)
  130             ended by Ctrl-A x
  128+N           signal N ended ./x
Each that is not the program's comes with a message on standard error.";

/// Boot Tessera and run a program on it (a shell if none is named)
///
/// PROG without a slash is a program of the image (busybox and all its commands, bash if the host
/// has bash-static). PROG with a slash is a Linux program of this machine: ./prog becomes /root/prog there, and
/// comes with the libraries that it needs. Standard input, output and error and the exit status are the program's; one that is
/// killed by signal N exits with 128+N. On a terminal every key goes to the guest; Ctrl-A x ends
/// the emulator and Ctrl-A Ctrl-A is one Ctrl-A.
///
#[derive(clap::Args, Debug)]
#[command(after_long_help = STATUSES)]
pub struct RunOptions {
    #[command(flatten)]
    pub machine: MachineOptions,
    #[command(flatten)]
    pub map: MapOption,
    /// Show the kernel's log on standard error
    #[arg(long, short)]
    pub verbose: bool,
    /// Set a variable in the program's environment
    #[arg(long, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// Boot a folder of this machine as the root file system, with busybox for what it lacks. It is copied to
    /// an image the first time, and again when something in it has changed: what the guest changes there is gone at the end
    #[arg(long, value_name = "DIR", conflicts_with = "deb")]
    pub root: Option<PathBuf>,
    /// Boot Debian's packages as the root file system, with all that they depend on, as this machine's apt resolves
    /// it: fetched the first time, installed nowhere
    #[arg(long, value_name = "PACKAGE,…", value_delimiter = ',')]
    pub deb: Vec<String>,
    /// Boot a root image, as --root makes it
    #[arg(long, value_name = "FILE", hide = true, conflicts_with_all = ["deb", "root"])]
    pub root_image: Option<PathBuf>,
    /// Put a file or folder of this machine into the image (default place: as named, from /root)
    #[arg(long, value_name = "HOST[:GUEST]")]
    pub file: Vec<String>,
    /// When the program has ended, however it has, copy a file or folder out of the guest (default place: as
    /// named, below the present folder; by its last name if GUEST begins with a slash). GUEST may be a pattern
    /// such as 'out/*.csv'. May be repeated
    #[arg(long, value_name = "GUEST[:HOST]", conflicts_with = "serial")]
    pub out: Vec<String>,
    /// A folder of this machine, which the program finds as /share and may change; with :ro it may only read. What it
    /// makes there belongs to whoever runs ./x, who is root inside
    #[arg(long, value_name = "DIR[:ro]", value_parser = share::parse)]
    pub share: Option<share::Wish>,
    /// A disk, as often as there are some: FILE, whose bytes are those of /dev/vda, the next one's of /dev/vdb. What is written
    /// there is in FILE; with :ro it is only read. mount -t ext4 /dev/vda /mnt shows the file system on it
    #[arg(long = "disk", value_name = "FILE[:ro]", value_parser = disk::parse)]
    pub disks: Vec<disk::Wish>,
    /// The network: none; user: the emulator connects for the guest, which is 10.0.2.15 and finds this machine at 10.0.2.2
    /// and names at 10.0.2.3; tap:INTERFACE,ADDRESS/BITS, or with ,GATEWAY and ,sums=no (of segments) behind: one of this machine's interfaces
    #[arg(long, value_name = "none|user|tap:…", value_parser = net::parse)]
    pub net: Option<net::Kind>,
    /// Connections to port HOST of this machine (only from itself, unless an address is named) reach port GUEST of the guest;
    /// as often as wanted. With it, there is a network
    #[arg(long, value_name = "[ADDRESS:]HOST:GUEST[/udp]", value_parser = net::parse_port)]
    pub publish: Vec<net::Port>,
    /// Draw processes, memory, faults and copies as they change (tessera-top, which is built the first time) while
    /// the program runs; what it prints comes after its end. Without a program: until q is pressed
    #[arg(long)]
    pub watch: bool,
    /// End the emulator after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Record entry and exit of every function of the kernel, the libraries and the servers, and
    /// write that to FILE, for ./x trace (builds everything a second time, with probes)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Memory for the trace, for each core: 8 bytes for each event
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size, requires = "trace")]
    pub trace_buffer: MemorySize,
    /// With --trace: show the start of the system, too, not only what happens from the program on
    #[arg(long, requires = "trace")]
    pub trace_boot: bool,
    /// Programs, their stacks, heaps and mappings are at the same places in every run; so they are with --icount
    #[arg(long)]
    pub norandmaps: bool,
    /// Have the streams of the program go over a serial port, as on a machine without the device for them
    #[arg(long, hide = true)]
    pub serial: bool,
    /// Leave it to the guest to refuse what it cannot run
    #[arg(long)]
    pub no_check: bool,
    /// Add words to the kernel's command line
    #[arg(long, value_name = "WORDS", hide = true, default_value = "")]
    pub append: String,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROG")]
    pub program: Vec<String>,
}

/// Does it; the result is our exit status.
pub fn run(project: &Project, options: &RunOptions) -> Result<i32> {
    ensure!(
        options.trace.is_none() || !options.map.is_another(),
        "--trace records the usual kernel: not with another --map"
    );
    options.map.choose();
    let mut arguments = options.program.clone();
    let is_watched = options.watch || arguments.first().is_some_and(|name| name == watch::NAME);
    ensure!(
        !options.watch || isatty(stdout()),
        "--watch draws on a terminal, and standard output is none"
    );
    if options.watch {
        arguments.insert(0, watch::NAME.into());
    }
    if arguments.is_empty() {
        arguments = vec!["/bin/sh".into(), "-l".into()];
    }
    let mut additions: Vec<Addition> =
        options.file.iter().map(|text| parse_addition(text)).collect::<Result<_>>()?;
    let exports: Vec<Export> =
        options.out.iter().map(|text| export::parse(text)).collect::<Result<_>>()?;
    setup::qemu()?;
    // Sought again when the image is made; installed now, so that all of that comes first.
    setup::busybox()?;
    let recording = options.trace.is_some().then(|| Recording::new(project)).transpose()?;
    let built = match &recording {
        Some(recording) => recording.built().clone(),
        None => compile::build(project, Scope::System)?,
    };
    let root = match &options.root_image {
        Some(image) => Some(Folder::Image(image.clone())),
        None => Folder::wanted(project, options.root.as_deref(), &options.deb)?,
    };
    let base = match &root {
        Some(folder) => Base::of_folder(project, &built, folder)?,
        None => Base::prepare(project, &built)?,
    };
    let mut environment = options.env.clone();
    environment.splice(0..0, base.environment());
    let invocation = Invocation::new(arguments, &environment)?;
    if is_watched {
        let (host, guest) = (watch::build(project)?, format!("/bin/{}", watch::NAME));
        additions.push(Addition { host, guest });
    }
    // Of the two it is the program that may be of this machine.
    let program = options.program.iter().skip_while(|name| *name == watch::NAME);
    let program: Vec<String> = program.cloned().collect();
    if !program.is_empty() {
        let program = Invocation::new(program, &options.env)?;
        additions.extend(program.locate(&base, !options.no_check)?);
    }
    let has_disks = !options.disks.is_empty();
    let net = net::Wish::new(options.net.clone(), &options.publish)?;
    let has_network = net.is_some();
    let orders = Orders {
        net_server: has_network.then(|| image::net_server(&built)).flatten(),
        resolver: net.resolver(),
        disk_server: has_disks.then(|| image::disk_server(&built)).flatten(),
        arguments: invocation.encode(),
        exports: export::encode(&exports),
    };
    let image = Image::assemble(project, &base, &orders, &additions)?;
    let machine = MachineOptions {
        share: options.share.clone(),
        disks: options.disks.clone(),
        net,
        root_image: base.root().map(|root| root.file().to_owned()),
        randmaps: !options.norandmaps && !options.machine.icount,
        ..options.machine.clone()
    };
    let mut boot = Boot::new(project, &image.file, &machine)?;
    boot.command_line = format!("{} {}", command_line(options.verbose), options.append);
    boot.kernel = built.kernel;
    boot.streams = if options.serial { Streams::Serial } else { Streams::Device };
    if let Some(recording) = &recording {
        let buffers = options.trace_buffer.mib * u64::from(options.machine.cores);
        options.machine.check_memory(&image.file, buffers)?;
        recording.prepare(&mut boot, options.trace_buffer.mib << 20);
    }
    if let Some(port) = options.machine.gdb {
        let kernel = boot.kernel.display();
        eprintln!("x: waiting for: gdb {kernel} -ex 'target remote :{port}' (Ctrl-C ends it)");
    }
    let log = Log { file: project.new_kernel_log()?, to_stderr: options.verbose };
    let limits = Limits { timeout: options.timeout, watch_signals: true, ..Limits::default() };
    let console = Console {
        input: Box::new(duplicate(stdin())?),
        output: Sink::file(duplicate(stdout())?)?,
        errors: Sink::file(duplicate(stderr())?)?,
        screen: screen()?,
        terminal: isatty(stdin()),
        files: match exports.is_empty() {
            true => None,
            false => Some(Box::new(move |from| export::receive(from, &exports))),
        },
    };
    let finished = emulator::run(&boot, console, &log, &limits)?;
    if let (Some(recording), Some(file)) = (&recording, &options.trace) {
        recording.save(&boot, &finished.records, options.trace_boot, file)?;
    }
    let status = report(&finished, &boot.kernel, &log.file, options.verbose);
    finished.file_problems.iter().for_each(|problem| eprintln!("x: {problem}"));
    Ok(match status {
        0 if !finished.file_problems.is_empty() => STATUS_FILES,
        status => status,
    })
}

fn duplicate(file: BorrowedFd) -> Result<File> {
    Ok(File::from(file.try_clone_to_owned()?))
}

/// Where the guest's terminal is seen: the first of our streams that is one.
fn screen() -> Result<Sink> {
    let streams = [stdout(), stderr(), stdin()];
    match streams.into_iter().find(|stream| isatty(stream)) {
        Some(terminal) => Ok(Sink::file(duplicate(terminal)?)?),
        None => Ok(Sink::nowhere()),
    }
}

fn parse_seconds(text: &str) -> Result<Duration> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match seconds {
        // Beyond this a point in time may have no name.
        Some(seconds) if seconds <= Duration::from_secs(1 << 30) => Ok(seconds),
        _ => bail!("a time is a number of seconds, such as 10 or 0.5"),
    }
}

/// What the guest must know about the program's surroundings.
fn command_line(verbose: bool) -> String {
    let kind = |terminal| if terminal { "tty" } else { "pipe" };
    let (rows, cols) = window_size().unwrap_or((24, 80));
    // What is one file here is one stream there, so that its lines stay in order.
    let error = match is_same(stdout(), stderr()) {
        true => "out",
        false if isatty(stderr()) => "tty",
        false => "own",
    };
    format!(
        "stdin={} stdout={} stderr={error} rows={rows} cols={cols} verbose={}",
        kind(isatty(stdin())),
        kind(isatty(stdout())),
        u8::from(verbose)
    )
}

/// Says what went wrong, if anything did; the exit status.
fn report(finished: &Finished, kernel: &Path, log: &Path, already_shown: bool) -> i32 {
    let show = |lines: &[String]| {
        if !already_shown {
            lines.iter().for_each(|line| eprintln!("  {line}"));
        }
    };
    for error in finished.records.iter().filter_map(Record::error) {
        eprintln!("x: {error}");
    }
    let log = log.display();
    match &finished.end {
        End::Shutdown(Some(status)) => *status & 0xff,
        End::Shutdown(None) => {
            eprintln!("x: Tessera shut down before the program had an exit status; see {log}");
            STATUS_DIED
        }
        End::Panic => {
            let symbols = Symbols::load(kernel);
            for line in panic_report(&finished.log_tail) {
                eprintln!("  {}", symbols.annotate(line));
            }
            eprintln!("x: the kernel panicked; its whole log is in {log}");
            STATUS_PANIC
        }
        End::Died(how) => {
            show(last(&finished.log_tail, 10));
            eprintln!("x: the emulator died: {how}; the kernel's log is in {log}");
            STATUS_DIED
        }
        End::Fault => {
            show(last(&finished.log_tail, 10));
            eprintln!("x: a native program has failed; the kernel's log is in {log}");
            STATUS_DIED
        }
        End::TimedOut => {
            eprintln!("x: the time is up; the kernel's log is in {log}");
            STATUS_TIMEOUT
        }
        End::Signal(signal) => 128 + signal,
        End::Quit => {
            eprintln!("x: ended by Ctrl-A x");
            130
        }
        End::OutputClosed => 128 + signal_hook::consts::SIGPIPE,
    }
}

fn last(lines: &[String], count: usize) -> &[String] {
    &lines[lines.len().saturating_sub(count)..]
}
