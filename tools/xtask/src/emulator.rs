//! Runs one boot in QEMU and carries what goes in and out of it.
//!
//! The streams of the program come over ports of a virtio console, one for each ([`Streams::Device`]): the
//! first is standard input, and the terminal in both directions; the others are standard output and
//! standard error. On a machine without it, COM1 is all of them. Bytes are passed on as they are.
//!
//! COM2 is the kernel's log; a line of it that starts with `@` is a record for this tool
//! (`@exit N`, `@counter NAME VALUE`, …). In the other direction COM2 carries control lines:
//! `eof N` (the input of the program ends after N bytes), `winch ROWS COLS`, `closed out` and `closed err`
//! (nobody reads that stream any more), `end` (the program is to be killed, and what follows its end to happen).
//! Nothing is sent before the kernel's first byte on COM2, which tells that all ports are set up.

use crate::log::{read_log, Log, Record};
use crate::machine::{self, Boot, Ports, Streams, EXIT_ORDERLY, EXIT_PANIC, QEMU};
use crate::ports::{carry_input, carry_output, send_control, Loss, Sink};
use crate::terminal::{window_size, RawMode};
use anyhow::{Context, Result};
use rustix::io::{fcntl_setfd, FdFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How a boot ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Orderly shutdown; the status of the program, if the guest said it.
    Shutdown(Option<i32>),
    /// The kernel panicked.
    Panic,
    /// QEMU ended in any other way; what it said.
    Died(String),
    TimedOut,
    /// This signal asked us to stop.
    Signal(i32),
    /// Ctrl-A x.
    Quit,
    /// The terminal, or what stands for it, takes nothing any more.
    OutputClosed,
    /// A native program raised an exception that nobody handles.
    Fault,
}

pub struct Finished {
    pub end: End,
    pub records: Vec<Record>,
    /// The last lines of the kernel's log.
    pub log_tail: Vec<String>,
    /// What went wrong with the files, in words.
    pub file_problems: Vec<String>,
}

/// How long files may take when the time is up, or somebody has asked for the end.
const FOR_FILES: Duration = Duration::from_secs(60);

/// What the program's streams are connected with.
pub struct Console {
    pub input: Box<dyn Read + Send>,
    pub output: Sink,
    /// Standard error, if the guest was told that it is not standard output.
    pub errors: Sink,
    /// Where the guest's terminal is seen. (With the serial port: `output`.)
    pub screen: Sink,
    /// The input is a terminal, which is put into raw mode.
    pub terminal: bool,
    /// Takes the files that come when the session is over, until the port closes; says what went wrong.
    pub files: Option<FileTaker>,
}

/// See [`Console::files`].
pub type FileTaker = Box<dyn FnOnce(UnixStream) -> Vec<String> + Send>;

#[derive(Default)]
pub struct Limits {
    pub timeout: Option<Duration>,
    /// End at SIGINT, SIGTERM and SIGHUP, and pass SIGWINCH on.
    pub watch_signals: bool,
    /// End, as at the timeout, as soon as somebody sets it.
    pub give_up: Option<Arc<AtomicBool>>,
    /// End when a program raises an exception that nobody handles: others may wait for it for ever.
    pub end_at_fault: bool,
}

/// What the threads around an emulator report.
pub enum Event {
    /// The kernel has said something: both ports are set up.
    Ready,
    Exited(ExitStatus),
    Signal(i32),
    Resized,
    /// A record `@fault …` in the kernel's log.
    Fault,
    /// Nobody takes this stream any more, for a reason that is worth telling.
    Closed(&'static str, Option<io::Error>),
    Stop(End),
}

/// Both ends of a port, the second one for the emulator. It sends byte by byte to a serial port, and each
/// takes much more room than a byte in the socket's buffer.
fn port() -> Result<(UnixStream, UnixStream)> {
    const ROOM: usize = 4 << 20;
    let (here, there) = UnixStream::pair()?;
    // As much as the system allows; less is slower when we are, not wrong.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&there, ROOM);
    Ok((here, there))
}

/// Our ends of the ports with the streams.
struct Lines {
    /// Input, and the terminal.
    first: UnixStream,
    /// Standard output and error, if they have ports of their own.
    others: Option<[UnixStream; 2]>,
    /// Where files come, if they do.
    files: Option<UnixStream>,
}

/// Boots, waits for the end and collects everything.
pub fn run(boot: &Boot, console: Console, log: &Log, limits: &Limits) -> Result<Finished> {
    let (control_here, control_there) = port()?;
    let (first, first_there) = port()?;
    let (others, others_there) = match boot.streams {
        Streams::Serial => (None, None),
        Streams::Device => {
            let ((out, out_there), (err, err_there)) = (port()?, port()?);
            (Some([out, err]), Some([out_there, err_there]))
        }
    };
    let (files, files_there) = match console.files {
        Some(_) => Some(port()?).unzip(),
        None => (None, None),
    };
    let (events, inbox) = channel();
    if limits.watch_signals {
        watch_signals(events.clone())?;
    }
    let ports = Ports {
        control: control_there.as_raw_fd(),
        first: first_there.as_raw_fd(),
        others: others_there.as_ref().map(|both| both.each_ref().map(AsRawFd::as_raw_fd)),
        files: files_there.as_ref().map(AsRawFd::as_raw_fd),
    };
    let mut child = start_qemu(boot, ports)?;
    drop((control_there, first_there, others_there, files_there));
    // A handle, not a number: it cannot come to mean another process.
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let complaints = child.stderr.take();
    let complaints = thread::spawn(move || complaints.map(io::read_to_string));
    let lines = Lines { first, others, files };
    let terminal = console.terminal;
    let Connected { outputs, files, input, to } = connect(console, lines, &events)?;
    let logger = read_log(control_here.try_clone()?, log, events.clone())?;
    watch_child(child, events.clone());

    let mut input = Some((input, to, control_here.try_clone()?));
    // Keys are the guest's from when it can take them. Before that Ctrl-C ends us, as usual.
    let mut raw_mode = None;
    // What is to be said as soon as the guest listens.
    let (mut listens, mut unsaid) = (false, Vec::new());
    let deadline = limits.timeout.map(|timeout| Instant::now() + timeout);
    let given_up = || limits.give_up.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
    let mut other = |event| {
        if let (Event::Resized, true) | (Event::Ready, true) = (&event, terminal) {
            send_window_size(&control_here);
        }
        match event {
            Event::Ready => {
                listens = true;
                raw_mode = terminal.then(RawMode::enter).flatten();
                if let Some((from, to, control)) = input.take() {
                    carry_input(from, to, control, terminal, events.clone());
                }
            }
            Event::Closed(stream, why) => {
                if let Some(why) = why {
                    eprintln!("x: std{stream} cannot be written: {why}");
                }
                unsaid.push(format!("closed {stream}"));
            }
            _ => {}
        }
        if listens {
            unsaid.drain(..).for_each(|line| send_control(&control_here, &line));
        }
    };
    let outcome = wait_for_end(&inbox, deadline, &given_up, limits.end_at_fault, &mut other);
    if let (Err(End::TimedOut | End::Signal(_)), true) = (&outcome, files.is_some()) {
        send_control(&control_here, "end");
        let until = Some(Instant::now() + FOR_FILES);
        // However it ends now, why it did is known.
        if wait_for_end(&inbox, until, &|| false, limits.end_at_fault, &mut other).is_err() {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }
    if outcome.is_err() {
        // It may just have ended by itself; either way its end is reported.
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
    drop(raw_mode);
    // Both end when the emulator has gone and everything that it sent has been read. Output that
    // nobody takes must not keep us.
    let (records, log_tail) = logger.join().unwrap_or_default();
    if outcome.is_ok() {
        for output in outputs {
            let _ = output.join();
        }
    }
    let file_problems = files.map_or_else(Vec::new, |files| files.join().unwrap_or_default());
    let end = outcome.map_or_else(
        |end| end,
        |status| {
            let complaints = complaints.join().ok().flatten().and_then(io::Result::ok);
            classify(status, &records, &complaints.unwrap_or_default())
        },
    );
    Ok(Finished { end, records, log_tail, file_problems })
}

struct Connected {
    /// What carries output.
    outputs: Vec<JoinHandle<()>>,
    /// What takes files.
    files: Option<JoinHandle<Vec<String>>>,
    input: Box<dyn Read + Send>,
    /// Where the input goes.
    to: UnixStream,
}

/// Has the output of all ports carried to where it belongs.
fn connect(console: Console, lines: Lines, events: &Sender<Event>) -> Result<Connected> {
    let Console { input, output, errors, screen, files, .. } = console;
    let Lines { first, others, files: files_from } = lines;
    let files = files.zip(files_from).map(|(take, from)| thread::spawn(move || take(from)));
    let from_first = first.try_clone()?;
    let outputs = match others {
        None => vec![carry_output(from_first, output, Loss::Stream("out"), events.clone())],
        Some([out, err]) => vec![
            carry_output(from_first, screen, Loss::All, events.clone()),
            carry_output(out, output, Loss::Stream("out"), events.clone()),
            carry_output(err, errors, Loss::Stream("err"), events.clone()),
        ],
    };
    Ok(Connected { outputs, files, input, to: first })
}

/// Passes events on to `other` until one of them is an end: the emulator's own, or ours for it.
fn wait_for_end(
    inbox: &Receiver<Event>,
    deadline: Option<Instant>,
    given_up: &dyn Fn() -> bool,
    end_at_fault: bool,
    other: &mut dyn FnMut(Event),
) -> Result<ExitStatus, End> {
    /// How long it may take until somebody's giving up is noticed.
    const LOOK: Duration = Duration::from_millis(200);
    loop {
        let now = Instant::now();
        let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(now));
        let event = inbox.recv_timeout(left.min(LOOK));
        let nothing = matches!(event, Err(RecvTimeoutError::Timeout));
        if nothing && left > LOOK && !given_up() {
            continue;
        }
        match event {
            Ok(Event::Exited(status)) => return Ok(status),
            Ok(Event::Stop(end)) => return Err(end),
            Ok(Event::Fault) if end_at_fault => return Err(End::Fault),
            Ok(Event::Signal(SIGWINCH)) => other(Event::Resized),
            Ok(Event::Signal(signal)) => return Err(End::Signal(signal)),
            Ok(event) => other(event),
            Err(RecvTimeoutError::Timeout) => return Err(End::TimedOut),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(End::Died("its end went unnoticed".into()));
            }
        }
    }
}

fn send_window_size(control: &UnixStream) {
    if let Some((rows, cols)) = window_size() {
        send_control(control, &format!("winch {rows} {cols}"));
    }
}

fn classify(status: ExitStatus, records: &[Record], complaints: &str) -> End {
    match status.code() {
        Some(EXIT_ORDERLY) => End::Shutdown(records.iter().rev().find_map(Record::exit_status)),
        Some(EXIT_PANIC) => End::Panic,
        _ => {
            let how = match (status.code(), status.signal()) {
                // With -no-reboot a triple fault and a reset end it as if all were well.
                (Some(0), _) => "the machine was reset or switched off (a triple fault?)".into(),
                (Some(code), _) => format!("exit status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or(0)),
            };
            End::Died(format!("{how}\n{}", complaints.trim()).trim().to_owned())
        }
    }
}

fn start_qemu(boot: &Boot, ports: Ports) -> Result<Child> {
    let mut command = Command::new(QEMU);
    command
        .args(machine::arguments(boot, ports))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C on the terminal is for us alone.
        .process_group(0);
    let inherit = move || {
        for number in ports.all() {
            // SAFETY: the originals stay open in the parent until the child is started, so the
            // numbers are open here, in its copy of the descriptor table.
            let port = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
            fcntl_setfd(port, FdFlags::empty())?;
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(())
    };
    // SAFETY: the closure only makes system calls; it neither allocates nor takes locks.
    unsafe { command.pre_exec(inherit) };
    command.spawn().with_context(|| format!("cannot start {QEMU}"))
}

/// Reports the end of the emulator.
fn watch_child(mut child: Child, events: Sender<Event>) {
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            let _ = events.send(Event::Exited(status));
        }
    });
}

fn watch_signals(events: Sender<Event>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}
