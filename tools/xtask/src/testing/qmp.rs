//! QEMU's monitor: the machine is stopped and goes on.

use anyhow::{bail, Context, Result};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub struct Monitor {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// Connects with the monitor at this socket.
    pub fn connect(socket: &Path) -> Result<Monitor> {
        let stream = UnixStream::connect(socket).context("no monitor")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let lines = BufReader::new(stream.try_clone()?);
        let mut monitor = Monitor { stream, lines };
        // It greets, and waits for this.
        monitor.line()?;
        monitor.execute("qmp_capabilities")?;
        Ok(monitor)
    }

    /// Returns when no processor executes anything, and all that they have stored is where it belongs.
    pub fn stop(&mut self) -> Result<()> {
        self.execute("stop").map(drop)
    }

    /// Has them go on.
    pub fn go_on(&mut self) -> Result<()> {
        self.execute("cont").map(drop)
    }

    /// Has them look for a stop between any two instructions, not only between blocks of them; or no more. It holds from when
    /// they go on next.
    pub fn single_step(&mut self, on: bool) -> Result<()> {
        let line = if on { "singlestep on" } else { "singlestep off" };
        let command = json!({"command-line": line});
        let said = self.call(json!({"execute": "human-monitor-command", "arguments": command}))?;
        match said.as_str() {
            Some("") => Ok(()),
            _ => bail!("{line}: {said}"),
        }
    }

    fn execute(&mut self, command: &str) -> Result<Value> {
        self.call(json!({ "execute": command }))
    }

    fn call(&mut self, command: Value) -> Result<Value> {
        writeln!(self.stream, "{command}")?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                bail!("{command}: {error}");
            }
            // What happens by itself is told in between.
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("the monitor has closed");
        }
        Ok(serde_json::from_str(&line)?)
    }
}
