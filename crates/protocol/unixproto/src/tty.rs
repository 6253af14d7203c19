//! Which bytes go with a terminal's ioctl.

/// How many bytes an ioctl reads from and writes to what its argument points to. Both zero: the
/// argument is a plain number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes that go along in the data area (`a`).
    pub input: usize,
    /// Bytes that come back in the data area.
    pub output: usize,
}

/// Bytes of the kernel's `struct termios`: four flag words, the line, 19 control characters.
pub const TERMIOS_BYTES: usize = 36;

macro_rules! ioctls {
    ($($name:ident = $value:literal, $input:expr, $output:expr;)*) => {
        $(#[doc = stringify!($name)] pub const $name: u32 = $value;)*

        /// The shape of an ioctl; `None` for one that is not known (`ENOTTY`).
        pub const fn shape(command: u32) -> Option<Shape> {
            match command {
                $($value => Some(Shape { input: $input, output: $output }),)*
                _ => None,
            }
        }
    };
}

ioctls! {
    TCGETS = 0x5401, 0, TERMIOS_BYTES;
    TCSETS = 0x5402, TERMIOS_BYTES, 0;
    TCSETSW = 0x5403, TERMIOS_BYTES, 0;
    TCSETSF = 0x5404, TERMIOS_BYTES, 0;
    TCSBRK = 0x5409, 0, 0;
    TCXONC = 0x540a, 0, 0;
    TCFLSH = 0x540b, 0, 0;
    TIOCEXCL = 0x540c, 0, 0;
    TIOCNXCL = 0x540d, 0, 0;
    TIOCSCTTY = 0x540e, 0, 0;
    TIOCGPGRP = 0x540f, 0, 4;
    TIOCSPGRP = 0x5410, 4, 0;
    TIOCOUTQ = 0x5411, 0, 4;
    TIOCGWINSZ = 0x5413, 0, 8;
    TIOCSWINSZ = 0x5414, 8, 0;
    FIONREAD = 0x541b, 0, 4;
    TIOCNOTTY = 0x5422, 0, 0;
    TCSBRKP = 0x5425, 0, 0;
    TIOCGSID = 0x5429, 0, 4;
}
