//! The settings of a terminal.

use unixproto::tty::TERMIOS_BYTES;

macro_rules! flags {
    ($($name:ident = $value:expr;)*) => { $(pub const $name: u32 = $value;)* };
}
flags! {
    ISTRIP = 0o40; INLCR = 0o100; IGNCR = 0o200; ICRNL = 0o400; IXON = 0o2000; IXANY = 0o4000;
    IUTF8 = 0o40000;
    OPOST = 1; ONLCR = 4; OCRNL = 8; ONOCR = 16; ONLRET = 32; XTABS = 0o14000;
    ISIG = 1; ICANON = 2; ECHO = 8; ECHOE = 0x10; ECHOK = 0x20; ECHONL = 0x40; NOFLSH = 0x80;
    ECHOCTL = 0x200; ECHOKE = 0x800; IEXTEN = 0x8000;
}
/// Background writers get `SIGTTOU`.
pub const TOSTOP: u32 = 0x100;

macro_rules! indices {
    ($($name:ident = $value:expr;)*) => { $(pub const $name: usize = $value;)* };
}
indices! {
    VINTR = 0; VQUIT = 1; VERASE = 2; VKILL = 3; VEOF = 4; VTIME = 5; VMIN = 6; VSTART = 8;
    VSTOP = 9; VSUSP = 10; VEOL = 11; VREPRINT = 12; VWERASE = 14; VLNEXT = 15; VEOL2 = 16;
}

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
    pub cc: [u8; 19],
}

impl Default for Termios {
    fn default() -> Self {
        let cc =
            [3, 0x1c, 0x7f, 0x15, 4, 0, 1, 0, 0x11, 0x13, 0x1a, 0, 0x12, 0xf, 0x17, 0x16, 0, 0, 0];
        Termios {
            iflag: ICRNL | IXON | IUTF8,
            oflag: OPOST | ONLCR,
            cflag: 0o2277,
            lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
            line: 0,
            cc,
        }
    }
}

impl Termios {
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
        let mut cc = [0; 19];
        cc.copy_from_slice(&bytes[17..]);
        let (iflag, oflag, cflag, lflag) = (word(0), word(4), word(8), word(12));
        Termios { iflag, oflag, cflag, lflag, line: bytes[16], cc }
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
    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        for (place, field) in bytes.chunks_exact_mut(2).zip(self.fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
    /// From a program.
    pub fn from_bytes(bytes: &[u8; 8]) -> Winsize {
        let field = |i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]);
        Winsize { fields: [field(0), field(2), field(4), field(6)] }
    }
}
