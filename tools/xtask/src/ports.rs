//! Carries bytes between the guest's ports and the host.

use crate::emulator::{End, Event};
use crate::terminal::{EscapeFilter, Typed};
use rustix::event::{poll, PollFd, PollFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

/// Bytes that are carried at once.
const PIECE: usize = 64 << 10;

/// Where output goes.
pub struct Sink {
    to: Box<dyn Write + Send>,
    /// The same as a file, if it is one: it says by itself that nobody reads any more.
    file: Option<File>,
}

impl Sink {
    /// To a file, a pipe, a terminal.
    pub fn file(file: File) -> io::Result<Sink> {
        Ok(Sink { file: Some(file.try_clone()?), to: Box::new(file) })
    }

    /// To whatever takes bytes.
    pub fn writer(to: impl Write + Send + 'static) -> Sink {
        Sink { to: Box::new(to), file: None }
    }

    /// To nobody.
    pub fn nowhere() -> Sink {
        Sink::writer(io::sink())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes).and_then(|()| self.to.flush())
    }

    /// Waits until bytes come from there. An error: nobody reads them any more.
    fn wait(&self, from: &UnixStream) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        loop {
            let mut both =
                [PollFd::new(from, PollFlags::IN), PollFd::new(file, PollFlags::empty())];
            match poll(&mut both, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            // What has come before is written, which fails if it must.
            if !both[0].revents().is_empty() {
                return Ok(());
            }
            if both[1].revents().contains(PollFlags::ERR) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }
}

/// What is to be told when nobody takes a port's output any more.
pub enum Loss {
    /// The guest, which calls the stream so.
    Stream(&'static str),
    /// The end of everything.
    All,
}

/// The output of a port, until the emulator closes it. If it cannot be written any more, the rest is taken
/// and forgotten: the guest must never wait for a reader who has gone.
pub fn carry_output(
    mut from: UnixStream,
    mut sink: Sink,
    loss: Loss,
    events: Sender<Event>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; PIECE];
        let mut lost = false;
        loop {
            let waited = if lost { Ok(()) } else { sink.wait(&from) };
            let carried = waited.and_then(|()| {
                let count = from.read(&mut buffer).unwrap_or(0);
                if !lost && count > 0 {
                    sink.put(&buffer[..count])?;
                }
                Ok(count)
            });
            match (carried, &loss) {
                (Ok(0), _) => return,
                (Ok(_), _) => {}
                (Err(_), Loss::All) => {
                    let _ = events.send(Event::Stop(End::OutputClosed));
                    return;
                }
                (Err(error), Loss::Stream(name)) => {
                    lost = true;
                    // A closed pipe is nothing that anybody need be told of but the program.
                    let odd = (error.kind() != io::ErrorKind::BrokenPipe).then_some(error);
                    let _ = events.send(Event::Closed(name, odd));
                }
            }
        }
    })
}

/// The input to a port, then its end to COM2.
pub fn carry_input(
    mut input: Box<dyn Read + Send>,
    mut to: UnixStream,
    control: UnixStream,
    terminal: bool,
    events: Sender<Event>,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; PIECE];
        let mut filter = EscapeFilter::default();
        let mut sent = 0;
        while let Some(count) = read_some(&mut input, &mut buffer) {
            let typed = match terminal {
                true => filter.feed(&buffer[..count]),
                false => Typed::Bytes(buffer[..count].to_vec()),
            };
            let (Typed::Bytes(bytes) | Typed::Quit(bytes)) = &typed;
            if to.write_all(bytes).is_err() {
                return;
            }
            sent += bytes.len();
            if matches!(typed, Typed::Quit(_)) {
                let _ = events.send(Event::Stop(End::Quit));
                return;
            }
        }
        send_control(&control, &format!("eof {sent}"));
    });
}

/// How many bytes came; `None` at the end.
fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match input.read(buffer) {
            Ok(0) => return None,
            Ok(count) => return Some(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Sends one line to the guest's control port.
pub fn send_control(mut control: &UnixStream, line: &str) {
    // If the emulator is gone, so is the need.
    let _ = control.write_all(format!("{line}\n").as_bytes());
}

/// Are two open files the same one?
pub fn is_same(one: impl AsFd, other: impl AsFd) -> bool {
    match (rustix::fs::fstat(one), rustix::fs::fstat(other)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev),
        _ => false,
    }
}
