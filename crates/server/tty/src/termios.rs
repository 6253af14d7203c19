//! The settings of a terminal.

use general::{B38400, CREAD, CS8};
use linux_raw_sys::general;
use unixproto::tty::{TERMIOS_BYTES, TERMIO_BYTES, WINSIZE_BYTES};

pub use general::HUPCL;
pub use general::{
    ECHO, ECHOCTL, ECHOE, ECHOK, ECHOKE, ECHONL, ICANON, IEXTEN, ISIG, NOFLSH, TOSTOP,
};
pub use general::{ICRNL, IGNCR, INLCR, ISTRIP, IUTF8, IXANY, IXON};
pub use general::{OCRNL, ONLCR, ONLRET, ONOCR, OPOST, XTABS};

macro_rules! indices {
    ($($name:ident)*) => { $(pub const $name: usize = general::$name as usize;)* };
}
/// How many control characters there are.
pub const NCCS: usize = general::NCCS as usize;
indices! {
    VINTR VQUIT VERASE VKILL VEOF VTIME VMIN VSTART VSTOP VSUSP VEOL VREPRINT VWERASE VLNEXT VEOL2
}

/// Control characters of `struct termio`.
const TERMIO_CHARACTERS: usize = general::NCC as usize;

/// Linux's `struct termios` as the kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Termios {
    /// Input modes.
    pub iflag: u32,
    /// Output modes.
    pub oflag: u32,
    /// Control modes.
    pub cflag: u32,
    /// Local modes.
    pub lflag: u32,
    /// Line discipline.
    pub line: u8,
    /// Control characters.
    pub cc: [u8; NCCS],
}

impl Default for Termios {
    fn default() -> Self {
        let cc =
            [3, 0x1c, 0x7f, 0x15, 4, 0, 1, 0, 0x11, 0x13, 0x1a, 0, 0x12, 0xf, 0x17, 0x16, 0, 0, 0];
        Termios {
            iflag: ICRNL | IXON | IUTF8,
            oflag: OPOST | ONLCR,
            cflag: B38400 | CS8 | CREAD | HUPCL,
            lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
            line: 0,
            cc,
        }
    }
}

impl Termios {
    /// All zero.
    pub const NONE: Termios =
        Termios { iflag: 0, oflag: 0, cflag: 0, lflag: 0, line: 0, cc: [0; NCCS] };

    /// These settings, but for what is set in `locked`, which is as in `before`.
    pub fn unlocked(self, before: Termios, locked: Termios) -> Termios {
        let word = |new: u32, before: u32, locked: u32| new & !locked | before & locked;
        let byte = |new: u8, before: u8, locked: u8| if locked != 0 { before } else { new };
        Termios {
            iflag: word(self.iflag, before.iflag, locked.iflag),
            oflag: word(self.oflag, before.oflag, locked.oflag),
            cflag: word(self.cflag, before.cflag, locked.cflag),
            lflag: word(self.lflag, before.lflag, locked.lflag),
            line: byte(self.line, before.line, locked.line),
            cc: core::array::from_fn(|n| byte(self.cc[n], before.cc[n], locked.cc[n])),
        }
    }

    /// As programs see it.
    pub fn to_bytes(self) -> [u8; TERMIOS_BYTES] {
        let mut bytes = [0; TERMIOS_BYTES];
        let words = [self.iflag, self.oflag, self.cflag, self.lflag];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[16] = self.line;
        bytes[17..].copy_from_slice(&self.cc);
        bytes
    }
    /// From a program.
    pub fn from_bytes(bytes: &[u8; TERMIOS_BYTES]) -> Termios {
        let word =
            |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let mut cc = [0; NCCS];
        cc.copy_from_slice(&bytes[17..]);
        let (iflag, oflag, cflag, lflag) = (word(0), word(4), word(8), word(12));
        Termios { iflag, oflag, cflag, lflag, line: bytes[16], cc }
    }

    /// As programs see it by the calls of System V: the lower half of each word, and the first control characters.
    pub fn to_termio(self) -> [u8; TERMIO_BYTES] {
        let mut bytes = [0; TERMIO_BYTES];
        let words = [self.iflag, self.oflag, self.cflag, self.lflag];
        for (place, word) in bytes.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&(word as u16).to_le_bytes());
        }
        bytes[8] = self.line;
        bytes[9..][..TERMIO_CHARACTERS].copy_from_slice(&self.cc[..TERMIO_CHARACTERS]);
        bytes
    }

    /// This, with what such a program sets.
    pub fn with_termio(mut self, bytes: &[u8; TERMIO_BYTES]) -> Termios {
        let words = [&mut self.iflag, &mut self.oflag, &mut self.cflag, &mut self.lflag];
        for (word, half) in words.into_iter().zip(bytes.chunks_exact(2)) {
            *word = *word & !0xffff | u32::from(u16::from_le_bytes([half[0], half[1]]));
        }
        self.line = bytes[8];
        self.cc[..TERMIO_CHARACTERS].copy_from_slice(&bytes[9..][..TERMIO_CHARACTERS]);
        self
    }
}

/// `struct winsize`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Winsize {
    /// Rows, columns, and both in pixels.
    pub fields: [u16; 4],
}

impl Default for Winsize {
    fn default() -> Self {
        Winsize { fields: [24, 80, 0, 0] }
    }
}

impl Winsize {
    /// As programs see it.
    pub fn to_bytes(self) -> [u8; WINSIZE_BYTES] {
        let mut bytes = [0; WINSIZE_BYTES];
        for (place, field) in bytes.chunks_exact_mut(2).zip(self.fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
    /// From a program.
    pub fn from_bytes(bytes: &[u8; WINSIZE_BYTES]) -> Winsize {
        let field = |i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]);
        Winsize { fields: [field(0), field(2), field(4), field(6)] }
    }
}
