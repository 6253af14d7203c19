//! The serial ports: COM2 carries lines from the host; COM1 is the program's console where there is no device
//! for that ([`streams`](crate::streams)).
//!
//! `eof N`: no more than N bytes come as input. `winch R C`: the host's window has that size. `closed out`,
//! `closed err`: nobody reads standard output or error any more. `end`: the first process is killed, and with it
//! everything.

use crate::clock::{Clock, Due};
use crate::effects::Effects;
use crate::procs::FIRST;
use crate::server::note;
use crate::signals::from_kernel;
use crate::streams::Channel;
use crate::terminal::Terminal;
use abi::slots::{DISPATCHER, IO, IRQ};
use alloc::vec::Vec;
use libos::{invoke, op, Cap, CapAddr, Place};
use unixproto::signals::SIGKILL;

const COM1: u16 = 0x3f8;
const COM2: u16 = 0x2f8;
const IRQ_COM2: CapAddr = IRQ;
const IRQ_COM1: CapAddr = IRQ.plus(1);

/// Registers of a 16550, relative to the port, with DLAB clear.
mod reg {
    pub const DATA: u16 = 0;
    pub const INTERRUPTS: u16 = 1;
    pub const STATUS: u16 = 5;
}
const DATA_READY: u8 = 1;
const TRANSMITTER_EMPTY: u8 = 0x20;
/// Bytes that a transmitter takes at once.
const FIFO_BYTES: usize = 16;
/// How long a full transmitter is left alone.
const PAUSE_NS: u64 = 200_000;
/// Longest line from the host.
const LINE_MAX: usize = 80;
/// Bytes that are read before others get their turn.
const BURST: usize = 4096;

/// State of the ports.
#[derive(Default)]
pub struct Console {
    line: Vec<u8>,
    pausing: bool,
    /// COM1's interrupt is masked because nobody reads what comes.
    held_back: bool,
}

fn port_in(port: u16) -> u8 {
    // The range covers the ports; a failure reads as nothing there.
    invoke(IO, op::PortIn { port, width: 1 }).map_or(0, |reply| reply.value as u8)
}

fn port_out(port: u16, value: u8) {
    // The ports are this server's.
    let _ = invoke(IO, op::PortOut { port, width: 1, value: value as u32 });
}

fn port_out_bytes(port: u16, bytes: &[u8]) {
    let mut words = [0u64; 5];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(eight);
    }
    let [w0, w1, w2, w3, w4] = words;
    // The ports are this server's.
    let _ = invoke(IO, op::PortOutBytes { port, len: bytes.len() as u32, w0, w1, w2, w3, w4 });
}

/// Asks for the interrupts of a port that the kernel has set up.
fn listen(port: u16, irq: CapAddr, bits: u64) {
    // The line is this server's.
    let _ = invoke(irq, op::IrqBind { bits, to: Place::NULL });
    port_out(port + reg::INTERRUPTS, 0x01);
}

impl Console {
    /// Asks for the interrupts of both ports.
    pub fn new() -> Console {
        listen(COM1, IRQ_COM1, note::COM1);
        listen(COM2, IRQ_COM2, note::COM2);
        Console::default()
    }
}

impl Console {
    /// Takes what came before anybody listened, and lets the interrupts come.
    pub fn start_input(&mut self, terminal: &mut Terminal, fx: &mut Effects) {
        // A message that came before anybody listened is not kept.
        terminal.interrupt(fx);
        self.input(terminal, fx);
        self.control_input(terminal, fx);
    }

    /// COM1 has something.
    pub fn input(&mut self, terminal: &mut Terminal, fx: &mut Effects) {
        let mut burst = 0;
        self.held_back = false;
        while port_in(COM1 + reg::STATUS) & DATA_READY != 0 {
            if !terminal.has_room() {
                self.held_back = true;
                break;
            }
            let byte = port_in(COM1 + reg::DATA);
            terminal.came(byte, fx);
            burst += 1;
            if burst >= BURST {
                break;
            }
        }
        if burst > 0 {
            terminal.wake(true, fx);
        }
        if self.held_back {
            return;
        }
        // The line is this server's.
        let _ = invoke(IRQ_COM1, op::IrqAck {});
        // The interrupt is an edge: what is left of a burst, or came since, makes no other.
        if port_in(COM1 + reg::STATUS) & DATA_READY != 0 {
            // The own dispatcher can be notified.
            let _ = DISPATCHER.notify(note::COM1);
        }
    }

    /// COM2 has something.
    pub fn control_input(&mut self, terminal: &mut Terminal, fx: &mut Effects) {
        while port_in(COM2 + reg::STATUS) & DATA_READY != 0 {
            let byte = port_in(COM2 + reg::DATA);
            if byte == b'\n' {
                let line = core::mem::take(&mut self.line);
                control_line(&line, terminal, fx);
            } else if self.line.len() < LINE_MAX {
                self.line.push(byte);
            }
        }
        // The line is this server's.
        let _ = invoke(IRQ_COM2, op::IrqAck {});
        if port_in(COM2 + reg::STATUS) & DATA_READY != 0 {
            // The own dispatcher can be notified.
            let _ = DISPATCHER.notify(note::COM2);
        }
    }

    /// Sends what waits for COM1, as far as it takes it.
    #[inline(always)]
    pub fn output(&mut self, terminal: &mut Terminal, clock: &mut Clock, fx: &mut Effects) {
        // Mostly nothing does.
        if !self.pausing && terminal.pending_output() > 0 {
            self.send(terminal, clock, fx);
        }
    }

    fn send(&mut self, terminal: &mut Terminal, clock: &mut Clock, fx: &mut Effects) {
        let was_writable = terminal.is_writable();
        if terminal.has_device() {
            terminal.show();
        } else {
            self.send_serial(terminal, clock);
        }
        if !was_writable && terminal.is_writable() {
            terminal.wake(false, fx);
        }
    }

    fn send_serial(&mut self, terminal: &mut Terminal, clock: &mut Clock) {
        let mut bytes = [0; FIFO_BYTES];
        loop {
            if port_in(COM1 + reg::STATUS) & TRANSMITTER_EMPTY == 0 {
                self.pausing = true;
                let then = clock.now() + PAUSE_NS;
                clock.add(then, Due::Console);
                break;
            }
            let count = terminal.output(&mut bytes);
            if count == 0 {
                break;
            }
            port_out_bytes(COM1 + reg::DATA, &bytes[..count]);
        }
    }

    /// The pause of a full transmitter is over.
    pub fn resume(&mut self) {
        self.pausing = false;
    }

    /// Sends everything that waits, however long it takes.
    pub fn drain(&mut self, terminal: &mut Terminal, clock: &mut Clock, fx: &mut Effects) {
        if terminal.has_device() {
            return terminal.drain();
        }
        while terminal.pending_output() > 0 {
            self.pausing = false;
            let before = terminal.pending_output();
            self.output(terminal, clock, fx);
            if terminal.pending_output() == before && !self.pausing {
                return;
            }
        }
        while port_in(COM1 + reg::STATUS) & TRANSMITTER_EMPTY == 0 {}
    }
}

/// A line from the host.
fn control_line(line: &[u8], terminal: &mut Terminal, fx: &mut Effects) {
    let Ok(line) = core::str::from_utf8(line) else { return };
    let mut words = line.split_ascii_whitespace();
    let name = words.next();
    let (first, second) = (words.next(), words.next());
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
    match (name, number(first), number(second)) {
        (Some("eof"), Some(bytes), _) => terminal.input_ends(bytes, fx),
        (Some("winch"), Some(rows), Some(columns)) => {
            terminal.resized(rows as u16, columns as u16, fx)
        }
        (Some("closed"), ..) => {
            if let Some(channel) = first.and_then(Channel::named) {
                terminal.closed(channel, fx);
            }
        }
        (Some("end"), ..) => fx.post(FIRST, SIGKILL, from_kernel()),
        _ => libos::log!("unixd: the host says {line:?}"),
    }
}
