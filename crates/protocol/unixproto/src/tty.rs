//! Which bytes go with a terminal's ioctl.

use linux_raw_sys::{general, ioctl};

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
pub const TERMIOS_BYTES: usize = size_of::<general::termios>();
/// Bytes of `struct termio`, which was there before: the same with 16 bits for each word, and eight control characters.
pub const TERMIO_BYTES: usize = size_of::<general::termio>();
/// Bytes of `struct winsize`.
pub const WINSIZE_BYTES: usize = size_of::<general::winsize>();

macro_rules! ioctls {
    ($($name:ident, $input:expr, $output:expr;)*) => {
        pub use ioctl::{$($name),*};

        /// The shape of an ioctl; `None` for one that is not known (`ENOTTY`).
        pub const fn shape(command: u32) -> Option<Shape> {
            match command {
                $(ioctl::$name => Some(Shape { input: $input, output: $output }),)*
                _ => None,
            }
        }
    };
}

ioctls! {
    TCGETS, 0, TERMIOS_BYTES;
    TCSETS, TERMIOS_BYTES, 0;
    TCSETSW, TERMIOS_BYTES, 0;
    TCSETSF, TERMIOS_BYTES, 0;
    TCGETA, 0, TERMIO_BYTES;
    TCSETA, TERMIO_BYTES, 0;
    TCSETAW, TERMIO_BYTES, 0;
    TCSETAF, TERMIO_BYTES, 0;
    TCSBRK, 0, 0;
    TCXONC, 0, 0;
    TCFLSH, 0, 0;
    TIOCEXCL, 0, 0;
    TIOCNXCL, 0, 0;
    TIOCSCTTY, 0, 0;
    TIOCGPGRP, 0, 4;
    TIOCSPGRP, 4, 0;
    TIOCOUTQ, 0, 4;
    TIOCGWINSZ, 0, WINSIZE_BYTES;
    TIOCSWINSZ, WINSIZE_BYTES, 0;
    FIONREAD, 0, 4;
    TIOCNOTTY, 0, 0;
    TCSBRKP, 0, 0;
    TIOCGSID, 0, 4;
    TIOCGPTN, 0, 4;
    TIOCSPTLCK, 4, 0;
    TIOCGPTLCK, 0, 4;
    TIOCPKT, 4, 0;
    TIOCGPKT, 0, 4;
    TIOCSIG, 0, 0;
    TIOCGLCKTRMIOS, 0, TERMIOS_BYTES;
    TIOCSLCKTRMIOS, TERMIOS_BYTES, 0;
}
