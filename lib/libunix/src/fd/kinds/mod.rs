//! The kinds of files, one module each. This list is all that knows them all: a new kind is a module
//! with a type that has [`FileOps`], and a line here.

use super::ops::FileOps;
use unixproto::files::Kind;
use unixproto::ops::Opened;

/// Makes of the list: the modules; [`AnyFile`]; the way from a kind to it and back; `with_kind!`, which
/// does the same for whichever kind it is.
macro_rules! kinds {
    ($d:tt $($(#[$doc:meta])* $module:ident::$kind:ident;)*) => {
        $($(#[$doc])* pub mod $module;)*

        /// A file of any kind.
        #[derive(Clone)]
        pub enum AnyFile {
            $($(#[$doc])* $kind($module::$kind),)*
        }

        $(
            impl From<$module::$kind> for AnyFile {
                #[inline]
                fn from(file: $module::$kind) -> AnyFile {
                    AnyFile::$kind(file)
                }
            }

            impl OfKind for $module::$kind {
                #[inline]
                fn of(any: &AnyFile) -> Option<&Self> {
                    match any {
                        AnyFile::$kind(file) => Some(file),
                        _ => None,
                    }
                }
            }
        )*

        impl AnyFile {
            /// What `unixd` has opened. Of a kind that is not known only the place is.
            pub fn opened(opened: &Opened) -> AnyFile {
                let kind = Kind::from_u8(opened.kind);
                $(
                    if $module::$kind::SERVED.is_some() && $module::$kind::SERVED == kind {
                        if let Some(file) = $module::$kind::opened(opened) {
                            return file.into();
                        }
                    }
                )*
                location::Location { desc: opened.desc }.into()
            }
        }

        /// Evaluates an expression with the file of whichever kind.
        macro_rules! with_kind {
            ($d any:expr, $d file:ident => $d body:expr) => {
                match $d any {
                    $($crate::fd::kinds::AnyFile::$kind($d file) => $d body,)*
                }
            };
        }
        pub(crate) use with_kind;
    };
}

/// A kind of file.
pub trait OfKind: FileOps {
    /// The file, if it is of this kind.
    fn of(any: &AnyFile) -> Option<&Self>;
}

kinds! { $
    /// Regular files: contents that the library copies by itself.
    regular::Regular;
    /// Regular files that can be sealed.
    sealable::Sealable;
    /// Files of the host, of which nothing is kept.
    shared::Shared;
    /// Memory disks: block devices.
    disk::Disk;
    /// Directories.
    directory::Directory;
    /// Pipes and fifos.
    pipe::Pipe;
    /// Local sockets.
    socket::Socket;
    /// `inotify`.
    notices::Notices;
    /// POSIX message queues.
    mqueue::MQueue;
    /// The terminal.
    terminal::Terminal;
    /// The console as a stream of bytes.
    stream::Stream;
    /// Text that `unixd` makes (`/proc`).
    text::Text;
    /// `/proc/PID/mem`.
    memory::Memory;
    /// `/proc/PID/maps` of another process, and the like.
    told::Told;
    /// A place in the tree (`O_PATH`).
    location::Location;
    /// `/dev/null`.
    null::Null;
    /// `/dev/zero`.
    zero::Zero;
    /// `/dev/full`.
    full::Full;
    /// `/dev/random` and `/dev/urandom`.
    random::Random;
    /// Registers of a device.
    registers::Registers;
    /// `eventfd`.
    event::Event;
    /// `timerfd`.
    timer::Timer;
    /// `pidfd_open`.
    pidfd::PidFd;
    /// What decides about calls of others.
    listener::Listener;
    /// `signalfd`.
    signals::Signals;
    /// `userfaultfd`.
    userfault::Userfault;
    /// `epoll`.
    epoll::Epoll;
    /// `/proc/self/maps`.
    own_text::OwnText;
}
