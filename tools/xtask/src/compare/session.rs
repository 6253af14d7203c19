//! One boot of one system with one program, and what came of it.

use super::harness;
use crate::compile::{self, Scope};
use crate::emulator::{self, Console, End, Limits};
use crate::image::{self, Addition, Base, Image, Orders};
use crate::linux::{HugePages, Linux};
use crate::log::{panic_report, Log};
use crate::machine::{Boot, MachineOptions, MemorySize};
use crate::ports::Sink;
use crate::program::Invocation;
use crate::project::Project;
use crate::results::{Clock, Provenance, System};
use crate::rootfs::Folder;
use crate::setup;
use crate::testing::guest::Captured;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What all boots of a comparison share.
pub struct Session {
    pub project: Project,
    pub base: Base,
    /// Or why there is none.
    pub linux: Result<Linux, String>,
    /// The program that starts and measures the other, on every system.
    pub measure: PathBuf,
    /// For a machine with a network.
    net_server: Option<PathBuf>,
    pub machine: MachineOptions,
    pub timeout: Duration,
}

/// A program with its files.
pub struct Task {
    pub invocation: Invocation,
    pub additions: Vec<Addition>,
    pub stdin: Vec<u8>,
    /// Cores of the machine, if the session's has fewer.
    pub cores: u32,
    /// Memory of the machine, if not as much as the session's.
    pub memory: Option<MemorySize>,
}

impl Task {
    /// One without input, for any machine.
    pub fn new(invocation: Invocation, additions: Vec<Addition>) -> Task {
        Task { invocation, additions, stdin: Vec::new(), cores: 1, memory: None }
    }
}

/// What came of a boot.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Ended(Ended),
    /// In a few words for the table, and at length.
    Failed {
        short: String,
        long: String,
    },
}

/// A program that ran to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The exit status, or 128 and the number of the signal that killed it.
    pub status: i32,
    pub output: Vec<u8>,
    /// What it wrote to standard error.
    pub errors: Vec<u8>,
    /// Ticks of the time-stamp counter from before the fork to after the wait.
    pub ticks: u64,
    /// How many of them the processor was idle, if the system knows.
    pub idle: Option<u64>,
    pub nanoseconds: u64,
    /// Pages that came in from a disk and that left for it, if the system knows.
    pub paged: Option<(u64, u64)>,
}

const MEASURE: &str = "/run/measure";
const STDIN: &str = "/run/stdin";

impl Session {
    /// Builds what is needed; Linux is still to be found.
    pub fn prepare(
        project: &Project,
        machine: &MachineOptions,
        timeout: Duration,
        root: Option<&Folder>,
    ) -> Result<Session> {
        setup::qemu()?;
        setup::c_compiler()?;
        let built = compile::build(project, Scope::System)?;
        Ok(Session {
            project: project.clone(),
            base: match root {
                Some(folder) => Base::of_folder(project, &built, folder)?,
                None => Base::prepare(project, &built)?,
            },
            linux: Err("Linux was not asked for".to_owned()),
            measure: harness(project, "measure")?,
            net_server: image::net_server(&built),
            machine: machine.clone(),
            timeout,
        })
    }

    /// Boots `system` and runs the task; `clock` decides how the machine is emulated.
    pub fn run(&self, system: System, clock: Clock, task: &Task) -> Result<Outcome> {
        let machine = self.machine(clock, task);
        let stdin = Image::temporary(&self.project);
        fs::write(&stdin.file, &task.stdin)?;
        // The same image every time.
        fs::File::options().write(true).open(&stdin.file)?.set_modified(SystemTime::UNIX_EPOCH)?;
        let mut additions = task.additions.clone();
        additions.push(Addition { host: self.measure.clone(), guest: MEASURE.into() });
        additions.push(Addition { host: stdin.file.clone(), guest: STDIN.into() });
        let mut invocation = task.invocation.clone();
        invocation.arguments.splice(0..0, [MEASURE.to_owned(), STDIN.to_owned()]);
        let orders = Orders {
            arguments: invocation.encode(),
            net_server: self.net_server.clone().filter(|_| machine.net.is_some()),
            resolver: machine.net.resolver(),
            ..Orders::default()
        };
        let image = Image::assemble(&self.project, &self.base, &orders, &additions)?;
        let (boot, _initramfs) = match (system, &self.linux) {
            (System::Tessera, _) => (self.tessera(&image, &machine)?, None),
            (_, Err(why)) => return Ok(failed("no kernel", why)),
            (_, Ok(linux)) => {
                let huge_pages = match system {
                    System::LinuxThp => HugePages::Always,
                    _ => HugePages::Never,
                };
                let (boot, file) =
                    linux.boot(&self.project, (&image, self.base.root()), huge_pages, &machine)?;
                (boot, Some(file))
            }
        };
        self.boot(system, &boot)
    }

    /// Of what a boot for this task with this clock measures.
    pub fn provenance(&self, clock: Clock, task: &Task) -> Provenance {
        let machine = self.machine(clock, task);
        let kvm = !machine.icount && crate::kvm::usable(&self.project);
        Provenance::emulated(&self.project, &machine, kvm)
    }

    /// The machine, the same for every system, as the task needs it. Instructions are counted on one
    /// core, which executes what several would have.
    fn machine(&self, clock: Clock, task: &Task) -> MachineOptions {
        let icount = clock == Clock::Instructions;
        let cores = if icount { self.machine.cores } else { self.machine.cores.max(task.cores) };
        let mem = task.memory.unwrap_or(self.machine.mem);
        MachineOptions { icount, cores, mem, ..self.machine.clone() }
    }

    fn tessera(&self, image: &Image, machine: &MachineOptions) -> Result<Boot> {
        let root_image = self.base.root().map(|root| root.file().to_owned());
        let machine = MachineOptions { root_image, ..machine.clone() };
        let mut boot = Boot::new(&self.project, &image.file, &machine)?;
        boot.command_line = "stdin=pipe stdout=pipe rows=24 cols=80 verbose=0".into();
        Ok(boot)
    }

    fn boot(&self, system: System, boot: &Boot) -> Result<Outcome> {
        let file = self.project.new_system_log(system.slug())?;
        let log = Log { file, to_stderr: false };
        let output = Captured::default();
        // Nothing is ever sent, not even the end: it would come at another time in every run.
        let (silence, _open) = std::io::pipe()?;
        let console = Console {
            input: Box::new(silence),
            output: Sink::writer(output.clone()),
            errors: Sink::nowhere(),
            screen: Sink::nowhere(),
            terminal: false,
            files: None,
        };
        let limits = Limits { timeout: Some(self.timeout), ..Limits::default() };
        let finished = emulator::run(boot, console, &log, &limits)?;
        let at_length = |what: &str, lines: &[String]| {
            let lines = &lines[lines.len().saturating_sub(20)..];
            format!("{what}; its log, {}, ends with\n{}", log.file.display(), lines.join("\n"))
        };
        let tail = &finished.log_tail;
        Ok(match finished.end {
            End::Shutdown(_) => match parse(&output.take()) {
                Some(outcome) => outcome,
                None => failed("nothing measured", &at_length("it shut down early", tail)),
            },
            End::Panic => failed("kernel panic", &at_length("panic", panic_report(tail))),
            End::TimedOut => {
                let seconds = self.timeout.as_secs();
                failed("timed out", &format!("it had not ended after {seconds} s (--timeout)"))
            }
            End::Died(how) => failed("died", &at_length(&how, tail)),
            other => failed("ended early", &at_length(&format!("{other:?}"), tail)),
        })
    }
}

fn failed(short: &str, long: &str) -> Outcome {
    Outcome::Failed { short: short.to_owned(), long: long.to_owned() }
}

/// What `guest/bench/harness/measure.c` printed: the program's output, its errors, and the line behind them.
fn parse(printed: &[u8]) -> Option<Outcome> {
    const MARK: &[u8] = b"\n@measured ";
    let at = printed.windows(MARK.len()).rposition(|window| window == MARK)?;
    let line = std::str::from_utf8(&printed[at + MARK.len()..]).ok()?;
    let number = |name: &str| {
        let words = line.split_whitespace();
        let mut values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        values.next()?.parse::<i64>().ok()
    };
    if let Some(error) = number("error") {
        let error = std::io::Error::from_raw_os_error(error as i32);
        return Some(failed("cannot run", &format!("the program cannot be run: {error}")));
    }
    let status = match number("status")? as i32 {
        killed if killed & 0x7f != 0 => 128 + (killed & 0x7f),
        exited => exited >> 8 & 0xff,
    };
    let from = at.checked_sub(number("errors")?.try_into().ok()?)?;
    let pages = |name| number(name).and_then(|pages| u64::try_from(pages).ok());
    Some(Outcome::Ended(Ended {
        status,
        output: printed[..from].to_vec(),
        errors: printed[from..at].to_vec(),
        ticks: number("ticks")?.try_into().ok()?,
        idle: number("idle")?.try_into().ok(),
        nanoseconds: number("ns")?.try_into().ok()?,
        paged: pages("in").zip(pages("out")),
    }))
}

impl Outcome {
    pub fn ended(&self) -> Option<&Ended> {
        match self {
            Outcome::Ended(ended) => Some(ended),
            Outcome::Failed { .. } => None,
        }
    }
}

impl Ended {
    /// What the clock says; a boot with the other clock must not be asked.
    pub fn reading(&self, clock: Clock) -> Option<f64> {
        match clock {
            // The counter goes on while the processor waits, executing nothing.
            Clock::Instructions => Some(self.ticks.saturating_sub(self.idle?) as f64),
            Clock::Wall => Some(self.nanoseconds as f64),
        }
    }
}

impl System {
    /// As in file names.
    pub fn slug(self) -> &'static str {
        match self {
            System::Tessera => "tessera",
            System::Linux => "linux",
            System::LinuxThp => "linux-thp",
            System::Paper => "paper",
            System::Host => "host",
        }
    }
}

/// The program of the user's, found and checked like that of `./x run`.
pub fn locate(session: &Session, invocation: Invocation, stdin: Vec<u8>) -> Result<Task> {
    let additions = invocation.locate(&session.base, true);
    let additions = additions.context("the program cannot be compared")?;
    Ok(Task { stdin, ..Task::new(invocation, additions) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_harness_prints() {
        let ended = |text: &[u8]| parse(text).unwrap().ended().cloned().unwrap();
        let one = ended(
            b"a\n@measured boh\n@measured status=9 ticks=70 idle=20 ns=80 in=4 out=5 errors=2\n",
        );
        assert_eq!(one.paged, Some((4, 5)));
        assert_eq!(one.errors, b"oh");
        assert_eq!((one.status, one.output.as_slice()), (137, &b"a\n@measured b"[..]));
        assert_eq!(one.reading(Clock::Instructions), Some(50.0));
        assert_eq!(one.reading(Clock::Wall), Some(80.0));
        let two = ended(b"\n@measured status=1792 ticks=70 idle=-1 ns=80 in=-1 out=5 errors=0\n");
        assert_eq!(two.paged, None);
        let more = b"\n@measured status=0 ticks=70 idle=-1 ns=80 errors=1\n";
        assert_eq!(parse(more), None);
        assert_eq!((two.status, two.reading(Clock::Instructions)), (7, None));
        let Some(Outcome::Failed { long, .. }) = parse(b"\n@measured error=2\n") else {
            panic!("an error is a failure")
        };
        assert!(long.contains("No such file"), "{long}");
        assert_eq!(parse(b"cut short\n@measured status=0 ticks="), None);
        assert_eq!(parse(b""), None);
    }
}
