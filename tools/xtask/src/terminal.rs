//! The host's terminal in raw mode, and always back again.

use rustix::stdio::stdin;
use rustix::termios::{isatty, tcgetattr, tcgetwinsize, tcsetattr, OptionalActions, Termios};
use std::sync::Mutex;

/// The settings to go back to, while raw mode is on.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// Raw mode, until dropped.
pub struct RawMode(());

impl RawMode {
    /// Passes every key through, Ctrl-C included. `None` if standard input is no terminal.
    pub fn enter() -> Option<RawMode> {
        if !isatty(stdin()) {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        *SAVED.lock().ok()? = Some(before);
        restore_on_panic();
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(RawMode(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let saved = SAVED.lock().ok().and_then(|mut saved| saved.take());
    if let Some(settings) = saved {
        // Nothing better can be done if the terminal has gone away.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &settings);
    }
}

/// A panic of any thread leaves a usable terminal behind.
fn restore_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        report(info);
    }));
}

/// Rows and columns of the terminal on standard input.
pub fn window_size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(stdin()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// What to do with a key when Ctrl-A is the escape character.
#[derive(Debug, PartialEq)]
pub enum Typed {
    Bytes(Vec<u8>),
    /// Ctrl-A x: end the emulator. Holds what was typed before.
    Quit(Vec<u8>),
}

/// Finds the escape sequences in what is typed: Ctrl-A x ends the emulator, Ctrl-A Ctrl-A is one
/// Ctrl-A for the guest, and Ctrl-A before anything else is passed on with it.
#[derive(Default)]
pub struct EscapeFilter {
    after_escape: bool,
}

const CTRL_A: u8 = 1;

impl EscapeFilter {
    pub fn feed(&mut self, typed: &[u8]) -> Typed {
        let mut pass = Vec::with_capacity(typed.len() + 1);
        for &byte in typed {
            match (self.after_escape, byte) {
                (false, CTRL_A) => self.after_escape = true,
                (false, _) => pass.push(byte),
                (true, b'x' | b'X') => return Typed::Quit(pass),
                (true, CTRL_A) => {
                    pass.push(CTRL_A);
                    self.after_escape = false;
                }
                (true, _) => {
                    pass.extend([CTRL_A, byte]);
                    self.after_escape = false;
                }
            }
        }
        Typed::Bytes(pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        let feed = |text: &[u8]| EscapeFilter::default().feed(text);
        assert_eq!(feed(b"ls\r\x03"), Typed::Bytes(b"ls\r\x03".to_vec()));
        assert_eq!(feed(b"a\x01xb"), Typed::Quit(b"a".to_vec()));
        assert_eq!(feed(b"\x01\x01x"), Typed::Bytes(b"\x01x".to_vec()));
        assert_eq!(feed(b"\x01b"), Typed::Bytes(b"\x01b".to_vec()));
        let mut filter = EscapeFilter::default();
        assert_eq!(filter.feed(b"\x01"), Typed::Bytes(vec![]));
        assert_eq!(filter.feed(b"x"), Typed::Quit(vec![]));
    }
}
