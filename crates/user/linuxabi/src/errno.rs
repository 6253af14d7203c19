//! Error numbers of Linux.

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// Why a system call failed.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        #[allow(clippy::upper_case_acronyms)]
        pub enum Errno { $($(#[$doc])* $name = $value,)* }

        impl Errno {
            /// The error with this number; numbers of no known error read as `EIO`.
            pub const fn from_number(number: u64) -> Errno {
                match number { $($value => Errno::$name,)* _ => Errno::EIO }
            }
        }
    };
}

errnos! {
    EPERM = 1, ENOENT = 2, ESRCH = 3, EINTR = 4, EIO = 5, ENXIO = 6, E2BIG = 7, ENOEXEC = 8,
    EBADF = 9, ECHILD = 10, EAGAIN = 11, ENOMEM = 12, EACCES = 13, EFAULT = 14, ENOTBLK = 15,
    EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20, EISDIR = 21, EINVAL = 22,
    ENFILE = 23, EMFILE = 24, ENOTTY = 25, ETXTBSY = 26, EFBIG = 27, ENOSPC = 28, ESPIPE = 29,
    EROFS = 30, EMLINK = 31, EPIPE = 32, EDOM = 33, ERANGE = 34, EDEADLK = 35,
    ENAMETOOLONG = 36, ENOLCK = 37, ENOSYS = 38, ENOTEMPTY = 39, ELOOP = 40, ENODATA = 61,
    ETIME = 62, EPROTO = 71, EOVERFLOW = 75, ELIBACC = 79, EILSEQ = 84, ENOTSOCK = 88, EDESTADDRREQ = 89,
    EMSGSIZE = 90, EPROTOTYPE = 91, ENOPROTOOPT = 92, EPROTONOSUPPORT = 93, EOPNOTSUPP = 95,
    EAFNOSUPPORT = 97, EADDRINUSE = 98, ECONNRESET = 104, ENOBUFS = 105, EISCONN = 106,
    ENOTCONN = 107, ETIMEDOUT = 110, ECONNREFUSED = 111, EALREADY = 114, EINPROGRESS = 115,
    // Never seen by the program: what an interrupted call asks of the signal code.
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
