//! Many power failures of one run: the machine is stopped between two instructions, its persistent memory is copied, and it
//! goes on. The file is memory that QEMU shares with us, so the copy is what a kill at this moment would have left.

use super::super::qmp::Monitor;
use super::{Place, Running, FOLDER};
use crate::nvdimm;
use anyhow::{bail, ensure, Context as _, Result};
use pmemimage::PoolImage;
use std::fmt::{self, Display};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Stops of a run: so many, then another seed begins with a new file.
const STOPS: u64 = 50;
/// The machine goes on for up to so long, and then, instruction by instruction, for so long.
const BETWEEN: Duration = Duration::from_millis(40);
const STEPS: Duration = Duration::from_millis(2);
/// The first operation must have ended by then.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was looked at.
#[derive(Default)]
pub struct Stopped {
    states: u64,
    runs: u64,
    booted: u64,
    /// Operations that had ended.
    operations: u64,
}

impl Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stopped { states, runs, booted, operations } = self;
        write!(f, "{states} stops in {runs} runs of {operations} operations, {booted} booted")
    }
}

/// What a machine has said so far.
#[derive(Default)]
struct Said {
    ended: AtomicU64,
    is_closed: AtomicBool,
    other: Mutex<String>,
}

/// Stops machines so many times.
pub fn stops(place: &Place, count: u64, random: &mut fastrand::Rng) -> Result<Stopped> {
    let mut stopped = Stopped::default();
    while stopped.states < count {
        let most = STOPS.min(count - stopped.states);
        let seed = random.u64(1..1 << 32);
        run(place, seed, most, random, &mut stopped)
            .with_context(|| format!("run {} of the load, seed {seed}", stopped.runs))?;
        stopped.runs += 1;
    }
    Ok(stopped)
}

/// One run, stopped so many times.
fn run(
    place: &Place,
    seed: u64,
    count: u64,
    random: &mut fastrand::Rng,
    stopped: &mut Stopped,
) -> Result<()> {
    place.remove_image("stopped")?;
    let socket = place.image("monitor");
    if socket.exists() {
        fs::remove_file(&socket)?;
    }
    let socket = socket.file_name().and_then(|name| name.to_str()).context("it has a name")?;
    let work = place.command(place.load.work, seed, 1_000_000, "/pmem");
    let script = format!("mkdir {FOLDER} && exec {work}");
    let mut machine = place.start("stopped", &["--qmp", socket], &script)?;
    let said = listen(&mut machine)?;
    let begun = Instant::now();
    while said.ended.load(Ordering::Acquire) == 0 {
        if said.is_closed.load(Ordering::Acquire) || begun.elapsed() > PATIENCE {
            return Err(complain(&mut machine, &said));
        }
        thread::sleep(Duration::from_millis(1));
    }
    let mut monitor = Monitor::connect(&place.folder.join(socket))?;
    for _ in 0..count {
        thread::sleep(part_of(BETWEEN, random));
        monitor.stop()?;
        monitor.single_step(true)?;
        monitor.go_on()?;
        thread::sleep(part_of(STEPS, random));
        // What was said before it was stopped has happened.
        let least = said.ended.load(Ordering::Acquire);
        monitor.stop()?;
        let state = place.image("state");
        fs::copy(place.image("stopped"), &state)?;
        monitor.single_step(false)?;
        monitor.go_on()?;
        if said.is_closed.load(Ordering::Acquire) {
            return Err(complain(&mut machine, &said));
        }
        let kept = || format!("after {least} operations; {}", state.display());
        look(place, seed, least).with_context(kept)?;
        stopped.states += 1;
        if stopped.states.is_multiple_of(super::BOOTED) {
            look_by_boot(place, seed, least).with_context(kept)?;
            stopped.booted += 1;
        }
    }
    stopped.operations += said.ended.load(Ordering::Acquire);
    machine.kill()
}

fn part_of(most: Duration, random: &mut fastrand::Rng) -> Duration {
    Duration::from_micros(random.u64(0..most.as_micros() as u64))
}

/// Follows what a machine says.
fn listen(machine: &mut Running) -> Result<Arc<Said>> {
    let (said, lines) = (Arc::new(Said::default()), machine.lines()?);
    let ours = said.clone();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            match line.parse() {
                Ok(number) => ours.ended.store(number, Ordering::Release),
                Err(_) => {
                    if let Ok(mut other) = ours.other.lock() {
                        other.push_str(&line);
                        other.push('\n');
                    }
                }
            }
        }
        ours.is_closed.store(true, Ordering::Release);
    });
    Ok(said)
}

/// It has ended, and should not.
fn complain(machine: &mut Running, said: &Said) -> anyhow::Error {
    let other = said.other.lock().map(|other| other.clone()).unwrap_or_default();
    let ended = machine.kill().and_then(|()| machine.ended());
    let (status, complaints) = match ended {
        Ok((status, complaints)) => (status.to_string(), complaints),
        Err(error) => (error.to_string(), String::new()),
    };
    anyhow::anyhow!("{status}: {other}{complaints}")
}

/// Recovers the copy here, and has `load` look at what is in it.
fn look(place: &Place, seed: u64, least: u64) -> Result<()> {
    let image = fs::read(place.image("state"))?;
    let pool = PoolImage::recover(&image, nvdimm::ADDRESS)?;
    let folder = place.image("found");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    pool.extract(&folder)?;
    pool.empty()?;
    let root = folder.to_str().context("a folder with a name")?;
    let check = place.command(place.load.check, seed, least, root);
    let output = Command::new("sh").args(["-c", &check]).current_dir(&place.folder).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(())
}

/// Boots with the copy.
fn look_by_boot(place: &Place, seed: u64, least: u64) -> Result<()> {
    let script = place.command(place.load.check, seed, least, "/pmem");
    let mut machine = place.start("state", &[], &script)?;
    let said: Vec<String> = machine.lines()?.collect::<Result<_, _>>()?;
    let (status, complaints) = machine.ended()?;
    if !status.success() {
        bail!("{status}: {}\n{complaints}", said.join("\n"));
    }
    Ok(())
}
