//! Error numbers of Linux.

use linux_raw_sys::errno as numbers;

/// An error number. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Errno(pub u16);

macro_rules! errnos {
    ($($name:ident $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno(numbers::$name as u16);)*

            /// The symbol, such as `ENOENT`.
            pub const fn name(self) -> &'static str {
                match self.0 as u32 { $(numbers::$name => stringify!($name),)* _ => "E?" }
            }
        }
    };
}

errnos! {
    EPERM "Operation not permitted";
    ENOENT "No such file or directory";
    ESRCH "No such process";
    EINTR "Interrupted system call";
    EIO "Input/output error";
    ENXIO "No such device or address";
    E2BIG "Argument list too long";
    ENOEXEC "Exec format error";
    EBADF "Bad file descriptor";
    ECHILD "No child processes";
    EAGAIN "Resource temporarily unavailable";
    ENOMEM "Cannot allocate memory";
    EACCES "Permission denied";
    EFAULT "Bad address";
    EBUSY "Device or resource busy";
    EEXIST "File exists";
    EXDEV "Invalid cross-device link";
    ENODEV "No such device";
    ENOTBLK "Block device required";
    ENOTDIR "Not a directory";
    EISDIR "Is a directory";
    EINVAL "Invalid argument";
    ENFILE "Too many open files in system";
    EMFILE "Too many open files";
    ENOTTY "Inappropriate ioctl for device";
    ETXTBSY "Text file busy";
    EFBIG "File too large";
    ENOSPC "No space left on device";
    ESPIPE "Illegal seek";
    EROFS "Read-only file system";
    EMLINK "Too many links";
    EPIPE "Broken pipe";
    EDOM "Numerical argument out of domain";
    ERANGE "Numerical result out of range";
    EDEADLK "Resource deadlock avoided";
    ENAMETOOLONG "File name too long";
    ENOLCK "No locks available";
    ENOSYS "Function not implemented";
    ENODATA "No data available";
    ENOTEMPTY "Directory not empty";
    ELOOP "Too many levels of symbolic links";
    ESTALE "Stale file handle";
    EUSERS "Too many users";
    EOVERFLOW "Value too large for defined data type";
    ELIBBAD "Accessing a corrupted shared library";
    ENOTSOCK "Socket operation on non-socket";
    EOPNOTSUPP "Operation not supported";
    EPROTONOSUPPORT "Protocol not supported";
    ESOCKTNOSUPPORT "Socket type not supported";
    EDESTADDRREQ "Destination address required";
    EMSGSIZE "Message too long";
    EPROTOTYPE "Protocol wrong type for socket";
    ENOPROTOOPT "Protocol not available";
    EADDRINUSE "Address already in use";
    EADDRNOTAVAIL "Cannot assign requested address";
    ENETDOWN "Network is down";
    ENETUNREACH "Network is unreachable";
    ECONNABORTED "Software caused connection abort";
    ECONNREFUSED "Connection refused";
    EHOSTDOWN "Host is down";
    ENONET "Machine is not on the network";
    EPROTO "Protocol error";
    EHOSTUNREACH "No route to host";
    EALREADY "Operation already in progress";
    EINPROGRESS "Operation now in progress";
    ECONNRESET "Connection reset by peer";
    EISCONN "Transport endpoint is already connected";
    ENOTCONN "Transport endpoint is not connected";
    ECANCELED "Operation canceled";
    ENOBUFS "No buffer space available";
    EAFNOSUPPORT "Address family not supported by protocol";
    ETIMEDOUT "Connection timed out";
    ENOMSG "No message of desired type";
    EIDRM "Identifier removed";
}

impl core::fmt::Debug for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}
