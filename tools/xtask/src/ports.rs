//! Carries bytes between the guest's serial ports and the host.

use crate::emulator::{End, Event};
use crate::terminal::{EscapeFilter, Typed};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

/// COM1 to the output, until the emulator closes it.
pub fn carry_output(
    mut from: UnixStream,
    mut to: Box<dyn Write + Send>,
    events: Sender<Event>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
                let _ = events.send(Event::Stop(End::OutputClosed));
                return;
            }
        }
    })
}

/// The input to COM1, then its end to COM2.
pub fn carry_input(
    mut input: Box<dyn Read + Send>,
    mut to: UnixStream,
    control: UnixStream,
    terminal: bool,
    events: Sender<Event>,
) {
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        let mut filter = EscapeFilter::default();
        let mut sent = 0;
        while let Ok(count @ 1..) = input.read(&mut buffer) {
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

/// Sends one line to the guest's control port.
pub fn send_control(mut control: &UnixStream, line: &str) {
    // If the emulator is gone, so is the need.
    let _ = control.write_all(format!("{line}\n").as_bytes());
}
