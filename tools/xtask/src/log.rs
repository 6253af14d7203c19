//! The kernel's log, and the records for this tool in it.

use crate::emulator::Event;
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

/// Where the kernel's log goes.
pub struct Log {
    pub file: PathBuf,
    pub to_stderr: bool,
}

/// A line of the log that starts with `@`: a word that tells the kind, and more words.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub kind: String,
    pub words: Vec<String>,
}

impl Record {
    fn parse(line: &str) -> Option<Record> {
        let mut words = line.strip_prefix('@')?.split_whitespace().map(String::from);
        Some(Record { kind: words.next()?, words: words.collect() })
    }

    /// The status in `@exit N`.
    pub fn exit_status(&self) -> Option<i32> {
        match (self.kind.as_str(), self.words.first()) {
            ("exit", Some(status)) => status.parse().ok(),
            _ => None,
        }
    }

    /// The text in `@error TEXT`: why the program could not be run.
    pub fn error(&self) -> Option<String> {
        (self.kind == "error").then(|| self.words.join(" "))
    }

    /// Name and value of `@counter NAME VALUE`.
    pub fn counter(&self) -> Option<(&str, u64)> {
        match (self.kind.as_str(), self.words.as_slice()) {
            ("counter", [name, value]) => Some((name, value.parse().ok()?)),
            _ => None,
        }
    }

    /// Name, verdict and remark of `@test NAME ok|FAILED …`.
    pub fn test(&self) -> Option<(&str, bool, String)> {
        match (self.kind.as_str(), self.words.as_slice()) {
            ("test", [name, verdict, remark @ ..]) => {
                Some((name, verdict == "ok", remark.join(" ")))
            }
            _ => None,
        }
    }
}

/// Records, and the last lines.
pub type LogContents = (Vec<Record>, Vec<String>);

/// How many of the last lines are kept.
const TAIL: usize = 80;

/// Reads the guest's log port until it closes; reports the first bytes as [`Event::Ready`].
pub fn read_log(
    mut port: UnixStream,
    log: &Log,
    events: Sender<Event>,
) -> Result<JoinHandle<LogContents>> {
    let file =
        File::create(&log.file).with_context(|| format!("cannot write {}", log.file.display()))?;
    let mut sink = Sink::new(file, log.to_stderr, events.clone());
    Ok(thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut silent = true;
        while let Ok(count @ 1..) = port.read(&mut buffer) {
            if std::mem::take(&mut silent) {
                let _ = events.send(Event::Ready);
            }
            sink.feed(&buffer[..count]);
        }
        sink.finish()
    }))
}

struct Sink {
    file: BufWriter<File>,
    to_stderr: bool,
    partial: Vec<u8>,
    tail: VecDeque<String>,
    records: Vec<Record>,
    events: Sender<Event>,
}

impl Sink {
    fn new(file: File, to_stderr: bool, events: Sender<Event>) -> Sink {
        let (partial, tail, records) = Default::default();
        Sink { file: BufWriter::new(file), to_stderr, partial, tail, records, events }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.line(),
                _ => self.partial.push(byte),
            }
        }
        // The log is a help, not a result: without room for it the program still runs.
        let _ = self.file.flush();
    }

    fn line(&mut self) {
        let line = String::from_utf8_lossy(&self.partial).trim_end_matches('\r').to_owned();
        self.partial.clear();
        let _ = writeln!(self.file, "{line}");
        if self.to_stderr {
            // The terminal may be in raw mode, where a line feed is only that.
            eprint!("{line}\r\n");
        }
        if let Some(record) = Record::parse(&line) {
            if record.kind == "fault" {
                let _ = self.events.send(Event::Fault);
            }
            self.records.push(record);
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    fn finish(mut self) -> LogContents {
        if !self.partial.is_empty() {
            self.line();
        }
        let _ = self.file.flush();
        (self.records, self.tail.into())
    }
}

/// From the line that announces a panic to the end, or everything if none does.
pub fn panic_report(tail: &[String]) -> &[String] {
    let start = tail.iter().position(|line| line.to_ascii_lowercase().contains("panic"));
    &tail[start.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        assert_eq!(Record::parse("@exit 7").unwrap().exit_status(), Some(7));
        assert_eq!(Record::parse("memory: 3 MiB"), None);
        let record = Record::parse("@test map.unmap FAILED left 3 pages").unwrap();
        assert_eq!(record.test(), Some(("map.unmap", false, "left 3 pages".to_owned())));
        assert_eq!(record.exit_status(), None);
    }
}
