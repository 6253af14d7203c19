//! The serial ports: COM1 is the program's console, COM2 carries lines from the host.
//!
//! `eof N`: no more than N bytes come on COM1. `winch R C`: the host's window has that size.

use crate::clock::Due;
use crate::server::{note, Unixd};
use abi::slots::{DISPATCHER, IO, IRQ};
use alloc::vec::Vec;
use libos::{invoke, op, Cap, CapAddr, Place};

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

impl Unixd {
    /// Takes what came before anybody listened, and lets the interrupts come.
    pub fn start_input(&mut self) {
        self.console_input();
        self.control_input();
    }

    /// COM1 has something.
    pub fn console_input(&mut self) {
        let mut burst = 0;
        self.console.held_back = false;
        while port_in(COM1 + reg::STATUS) & DATA_READY != 0 {
            if !self.terminal.has_room() {
                self.console.held_back = true;
                break;
            }
            let byte = port_in(COM1 + reg::DATA);
            self.typed(byte);
            burst += 1;
            if burst >= BURST {
                break;
            }
        }
        if burst > 0 {
            self.wake_terminal(true);
        }
        if self.console.held_back {
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
    pub fn control_input(&mut self) {
        while port_in(COM2 + reg::STATUS) & DATA_READY != 0 {
            let byte = port_in(COM2 + reg::DATA);
            if byte == b'\n' {
                let line = core::mem::take(&mut self.console.line);
                self.control_line(&line);
            } else if self.console.line.len() < LINE_MAX {
                self.console.line.push(byte);
            }
        }
        // The line is this server's.
        let _ = invoke(IRQ_COM2, op::IrqAck {});
        if port_in(COM2 + reg::STATUS) & DATA_READY != 0 {
            // The own dispatcher can be notified.
            let _ = DISPATCHER.notify(note::COM2);
        }
    }

    fn control_line(&mut self, line: &[u8]) {
        let Ok(line) = core::str::from_utf8(line) else { return };
        let mut words = line.split_ascii_whitespace();
        let name = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match (name, number(), number()) {
            (Some("eof"), Some(bytes), _) => self.input_ends(bytes),
            (Some("winch"), Some(rows), Some(columns)) => self.resized(rows as u16, columns as u16),
            _ => libos::log!("unixd: the host says {line:?}"),
        }
    }

    /// Sends what waits for COM1, as far as it takes it.
    pub fn console_output(&mut self) {
        if self.console.pausing || self.terminal.tty.pending_output() == 0 {
            return;
        }
        let was_writable = self.terminal.tty.writable();
        let mut bytes = [0; FIFO_BYTES];
        loop {
            if port_in(COM1 + reg::STATUS) & TRANSMITTER_EMPTY == 0 {
                self.console.pausing = true;
                let then = self.clock.now() + PAUSE_NS;
                self.clock.add(then, Due::Console);
                break;
            }
            let count = self.terminal.tty.output(&mut bytes);
            if count == 0 {
                break;
            }
            port_out_bytes(COM1 + reg::DATA, &bytes[..count]);
        }
        if !was_writable && self.terminal.tty.writable() {
            self.wake_terminal(false);
        }
    }

    /// The pause of a full transmitter is over.
    pub fn console_resume(&mut self) {
        self.console.pausing = false;
    }

    /// Sends everything that waits, however long it takes.
    pub fn console_drain(&mut self) {
        while self.terminal.tty.pending_output() > 0 {
            self.console.pausing = false;
            let before = self.terminal.tty.pending_output();
            self.console_output();
            if self.terminal.tty.pending_output() == before && !self.console.pausing {
                return;
            }
        }
        while port_in(COM1 + reg::STATUS) & TRANSMITTER_EMPTY == 0 {}
    }
}
