//! `tessera-top [PROGRAM [ARGUMENTS]]`: a live picture of the system, while the program runs if one is named.
//!
//! All it knows is in `/proc`: `stat`, `meminfo`, `loadavg`, `uptime`, and, of Tessera only, `tessera/counters`,
//! `tessera/memory` and `tessera/processes`. What a named program prints appears when the picture is gone, and its exit
//! status becomes ours.

mod picture;
mod sample;

use anyhow::{Context, Result};
use picture::{Order, Picture};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use sample::Sample;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{exit, Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(500);

fn main() {
    match run() {
        Ok(status) => exit(status),
        Err(error) => {
            eprintln!("tessera-top: {error:#}");
            exit(125);
        }
    }
}

fn run() -> Result<i32> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--once") {
        print!("{}", picture::text(&Sample::take()?, 120, 40)?);
        return Ok(0);
    }
    let mut watched =
        arguments.split_first().map(|(name, rest)| Watched::start(name, rest)).transpose()?;
    let mut terminal = ratatui::try_init().context("no terminal")?;
    let ended = show(&mut terminal, watched.as_mut());
    ratatui::restore();
    let ended = ended?;
    let Some(watched) = watched else { return Ok(0) };
    watched.finish(ended)
}

/// Draws until somebody has enough, or the program has ended.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut watched: Option<&mut Watched>,
) -> Result<Option<ExitStatus>> {
    let mut picture = Picture::new(Sample::take()?);
    loop {
        terminal.draw(|frame| picture.draw(frame)).context("cannot draw")?;
        let next = Instant::now() + EVERY;
        loop {
            if let Some(watched) = &mut watched {
                if let Some(status) = watched.child.try_wait()? {
                    return Ok(Some(status));
                }
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // The end of the program is no event of the terminal.
            if !event::poll(left.min(Duration::from_millis(50)))? {
                continue;
            }
            let Event::Key(key) = event::read()? else { break };
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(None),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    return Ok(None)
                }
                KeyCode::Char('p') => picture.order = Order::Processor,
                KeyCode::Char('m') => picture.order = Order::Memory,
                KeyCode::Char('f') => picture.order = Order::Faults,
                KeyCode::Char('n') => picture.order = Order::Number,
                _ => continue,
            }
            break;
        }
        picture.next(Sample::take()?);
    }
}

/// The program that is watched.
struct Watched {
    child: Child,
    /// What it prints; the file has no name.
    output: File,
}

impl Watched {
    fn start(name: &str, arguments: &[String]) -> Result<Watched> {
        let path = std::env::temp_dir().join(format!("tessera-top.{}", std::process::id()));
        let mut options = File::options();
        let output = options.read(true).append(true).create_new(true).open(&path);
        let output = output.with_context(|| format!("cannot create {}", path.display()))?;
        fs::remove_file(&path)?;
        let (out, errors) = (output.try_clone()?, output.try_clone()?);
        let mut command = Command::new(name);
        // Its own group: Ctrl-C is for the picture.
        command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(errors).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot run {name}"))?;
        Ok(Watched { child, output })
    }

    /// Shows what it has printed. `None`: it is still running, and is ended.
    fn finish(mut self, ended: Option<ExitStatus>) -> Result<i32> {
        let status = match ended {
            Some(status) => status,
            None => {
                self.child.kill()?;
                self.child.wait()?
            }
        };
        self.output.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.output, &mut io::stdout())?;
        Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }
}
