//! Error numbers of Linux.

use linux_raw_sys::errno as numbers;

macro_rules! errnos {
    ($($name:ident)* ; $($(#[$doc:meta])* $own:ident = $value:literal,)*) => {
        /// Why a system call failed.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        #[allow(clippy::upper_case_acronyms)]
        pub enum Errno { $($name = numbers::$name as u16,)* $($(#[$doc])* $own = $value,)* }

        /// The numbers as a system call's result has them.
        mod known {
            use super::numbers;
            $(pub const $name: u64 = numbers::$name as u64;)*
        }

        impl Errno {
            /// The error with this number; numbers of no known error read as `EIO`.
            pub const fn from_number(number: u64) -> Errno {
                match number {
                    $(known::$name => Errno::$name,)*
                    $($value => Errno::$own,)*
                    _ => Errno::EIO,
                }
            }
        }
    };
}

errnos! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT
    ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG
    ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP
    ENODATA ETIME EPROTO EOVERFLOW ELIBBAD EILSEQ ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE
    ENOPROTOOPT EPROTONOSUPPORT EOPNOTSUPP EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN
    ENETUNREACH EHOSTUNREACH ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESOCKTNOSUPPORT
    ETIMEDOUT ESTALE ECONNREFUSED EALREADY EINPROGRESS EIDRM ENOMSG ECANCELED
    EUSERS
    ;
    // Never seen by the program: what an interrupted call asks of the signal code. Not in the headers
    // that programs see, and so not in `linux-raw-sys`.
    /// Restart unless a handler without `SA_RESTART` ran.
    ERESTARTSYS = 512,
    /// Always restart.
    ERESTARTNOINTR = 513,
    /// Restart only if no handler ran.
    ERESTARTNOHAND = 514,
}

impl Errno {
    /// The value for `rax`.
    pub const fn to_rax(self) -> u64 {
        -(self as u16 as i64) as u64
    }
}

/// A system call's result.
pub type Result<T> = core::result::Result<T, Errno>;

/// The value for `rax`.
pub fn to_rax(result: Result<u64>) -> u64 {
    match result {
        Ok(value) => value,
        Err(errno) => errno.to_rax(),
    }
}
