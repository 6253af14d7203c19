//! What crosses the data area: structures of Linux, and constants that both sides use.

use linux_raw_sys::general;

/// What a description refers to: how the library reads and writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A regular file: `ReadBegin`, `WriteBegin`, `FileExtent`.
    Regular = 1,
    /// A directory: `GetDents`.
    Directory = 2,
    /// A pipe or fifo: `Read`, `Write`, and the ring.
    Pipe = 3,
    /// A terminal: `Read`, `Write`, `Ioctl`.
    Tty = 4,
    /// `/dev/null`: the library does it alone.
    Null = 5,
    /// `/dev/zero`: the library does it alone.
    Zero = 6,
    /// `/dev/full`: the library does it alone.
    Full = 7,
    /// `/dev/random`, `/dev/urandom`: the library does it alone.
    Random = 8,
    /// Text that `unixd` makes (`/proc`): `Read`, `Write`.
    Text = 9,
    /// Opened with `O_PATH`: only a place in the tree.
    Path = 10,
    /// Console as a plain stream, not a terminal (`stdin=pipe`): `Read`, `Write`.
    Stream = 11,
    /// A counter that processes share (`eventfd`): `Read`, `Write`.
    Event = 12,
    /// A timer that processes share (`timerfd`): `Read`, `SetAlarm`, `GetAlarm`.
    Timer = 13,
    /// A process (`pidfd_open`): readable once it has ended.
    Process = 14,
    /// A set of files that processes share (`epoll`): `SetControl`, `SetWait`.
    Set = 15,
    /// Signals that are read (`signalfd`): `SigWait`, `SetSignals`.
    Signals = 16,
    /// A memory disk: as a regular file, of a size that stays.
    Disk = 18,
    /// The memory of a process (`/proc/PID/mem`): `MemoryFile`.
    Memory = 17,
    /// A file of the host: `ReadAt`, `WriteAt`.
    Shared = 19,
    /// A local socket: `Read`, `Write`, `Send`, `Receive`.
    Socket = 20,
    /// Events of files (`inotify`): `Read`, `AddWatch`.
    Notices = 21,
    /// A regular file that is made to be sealed, opened to be written to: `WriteAt`, `MapSealable`; else as a regular file.
    Sealable = 22,
    /// A POSIX message queue: `QueueSend`, `QueueReceive`.
    Messages = 23,
    /// Registers of a device, to be mapped (`/dev/hpet`): `FileExtent`.
    Registers = 42,
    /// Text of a process that only its library knows (`/proc/PID/maps`): `MemoryFile`.
    Told = 39,
    /// A regular file, opened to be executed, that runs as somebody else: `Bequeath`, `Succeed`.
    /// Calls of others about which somebody decides.
    Listener = 41,
    SetId = 40,
}

/// `SECCOMP_ADDFD_FLAG_SETFD`: the descriptor is given.
pub const ADDFD_SETFD: u32 = 1;
/// `SECCOMP_ADDFD_FLAG_SEND`: the call answers it.
pub const ADDFD_SEND: u32 = 2;
/// The descriptor is closed when a program is executed.
pub const ADDFD_CLOEXEC: u32 = 4;
/// A thread whose call is to be decided is to have a file first.
pub const CALL_ADDS: u32 = 1 << 31;
/// It is to do something for who traces it, or looks into its memory, and to come back.
pub const CALL_SERVES: u32 = 1 << 30;

/// What `fsconfig` is to do: `FSCONFIG_*`.
pub mod fsconfig {
    /// Sets a flag.
    pub const SET_FLAG: u32 = 0;
    /// Sets a text.
    pub const SET_STRING: u32 = 1;
    /// Sets bytes.
    pub const SET_BINARY: u32 = 2;
    /// Sets a file by its path.
    pub const SET_PATH: u32 = 3;
    /// Sets a file by its path, which may be empty.
    pub const SET_PATH_EMPTY: u32 = 4;
    /// Sets an open file.
    pub const SET_FD: u32 = 5;
    /// Makes what can be mounted.
    pub const CREATE: u32 = 6;
    /// Changes what is mounted.
    pub const RECONFIGURE: u32 = 7;
}

/// What `kcmp` compares: `KCMP_*`.
pub mod kcmp {
    /// Open files.
    pub const FILE: u32 = 0;
    /// Memory.
    pub const VM: u32 = 1;
    /// Descriptors.
    pub const FILES: u32 = 2;
    /// Working directory, root and mask.
    pub const FS: u32 = 3;
    /// Signal actions.
    pub const SIGHAND: u32 = 4;
    /// What is known about input and output.
    pub const IO: u32 = 5;
    /// What is undone to semaphores.
    pub const SYSVSEM: u32 = 6;
    /// A file and a member of an `epoll` set.
    pub const EPOLL_TFD: u32 = 7;
}

/// Seals of a file: `F_SEAL_*`.
pub mod seal {
    /// No more seals.
    pub const SEAL: u32 = 1;
    /// It does not become smaller.
    pub const SHRINK: u32 = 2;
    /// It does not become larger.
    pub const GROW: u32 = 4;
    /// Nobody writes to it.
    pub const WRITE: u32 = 8;
    /// Only those write to it who have it mapped.
    pub const FUTURE_WRITE: u32 = 0x10;
    /// Who may execute it does not change.
    pub const EXEC: u32 = 0x20;
    /// All that there are.
    pub const ALL: u32 = 0x3f;
}

/// With the kind of a file that was opened: it is known where its path leads.
pub const LED: u8 = 0x80;

impl Kind {
    /// The kind with this number.
    pub const fn from_u8(value: u8) -> Option<Kind> {
        Some(match value {
            1 => Kind::Regular,
            2 => Kind::Directory,
            19 => Kind::Shared,
            20 => Kind::Socket,
            21 => Kind::Notices,
            22 => Kind::Sealable,
            23 => Kind::Messages,
            40 => Kind::SetId,
            3 => Kind::Pipe,
            4 => Kind::Tty,
            5 => Kind::Null,
            6 => Kind::Zero,
            7 => Kind::Full,
            8 => Kind::Random,
            9 => Kind::Text,
            10 => Kind::Path,
            11 => Kind::Stream,
            12 => Kind::Event,
            13 => Kind::Timer,
            14 => Kind::Process,
            15 => Kind::Set,
            16 => Kind::Signals,
            18 => Kind::Disk,
            17 => Kind::Memory,
            39 => Kind::Told,
            41 => Kind::Listener,
            42 => Kind::Registers,
            _ => return None,
        })
    }
}

/// `struct stat` of x86-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub nlink: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: i64,
    pub blksize: i64,
    /// In units of 512 bytes.
    pub blocks: i64,
    /// Nanoseconds since 1970, as the other times.
    pub atime: i64,
    pub mtime: i64,
    pub ctime: i64,
}

/// Bytes of a [`Stat`].
pub const STAT_BYTES: usize = size_of::<general::stat>();
const SECOND: i64 = 1_000_000_000;

impl Stat {
    /// As programs see it.
    pub fn to_bytes(&self) -> [u8; STAT_BYTES] {
        let mut bytes = [0; STAT_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(self.to_words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The same in words.
    pub fn to_words(&self) -> [u64; STAT_BYTES / 8] {
        [
            self.dev,
            self.ino,
            self.nlink,
            self.mode as u64 | (self.uid as u64) << 32,
            self.gid as u64,
            self.rdev,
            self.size as u64,
            self.blksize as u64,
            self.blocks as u64,
            self.atime.div_euclid(SECOND) as u64,
            self.atime.rem_euclid(SECOND) as u64,
            self.mtime.div_euclid(SECOND) as u64,
            self.mtime.rem_euclid(SECOND) as u64,
            self.ctime.div_euclid(SECOND) as u64,
            self.ctime.rem_euclid(SECOND) as u64,
            0,
            0,
            0,
        ]
    }

    /// From what [`Stat::to_bytes`] made.
    pub fn from_bytes(bytes: &[u8; STAT_BYTES]) -> Stat {
        let mut words = [0u64; STAT_BYTES / 8];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        }
        let time =
            |i: usize| (words[i] as i64).wrapping_mul(SECOND).wrapping_add(words[i + 1] as i64);
        Stat {
            dev: words[0],
            ino: words[1],
            nlink: words[2],
            mode: words[3] as u32,
            uid: (words[3] >> 32) as u32,
            gid: words[4] as u32,
            rdev: words[5],
            size: words[6] as i64,
            blksize: words[7] as i64,
            blocks: words[8] as i64,
            atime: time(9),
            mtime: time(11),
            ctime: time(13),
        }
    }
}

/// One entry of the set of a [`Poll`](crate::op::Poll): 8 bytes, `struct pollfd` with a
/// description id in place of the descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PollEntry {
    /// Description; zero entries are passed over.
    pub desc: u32,
    /// Wanted `POLL*` bits.
    pub events: u16,
    /// What is so.
    pub revents: u16,
}

impl PollEntry {
    /// As it lies in the data area.
    pub const fn to_bytes(self) -> [u8; 8] {
        (self.desc as u64 | (self.events as u64) << 32 | (self.revents as u64) << 48).to_le_bytes()
    }
    /// From the data area.
    pub const fn from_bytes(bytes: [u8; 8]) -> PollEntry {
        let word = u64::from_le_bytes(bytes);
        PollEntry { desc: word as u32, events: (word >> 32) as u16, revents: (word >> 48) as u16 }
    }
}

macro_rules! poll_bits {
    ($($name:ident)*) => { $(#[doc = stringify!($name)] pub const $name: u16 = general::$name as u16;)* };
}
pub use linux_raw_sys::general::{F_OWNER_PGRP, F_OWNER_PID, F_OWNER_TID};

pub use linux_raw_sys::general::{
    DN_ACCESS, DN_ATTRIB, DN_CREATE, DN_DELETE, DN_MODIFY, DN_MULTISHOT, DN_RENAME,
};

/// `O_ASYNC`: signals tell that something can be read or written.
pub const O_ASYNC: u32 = linux_raw_sys::general::FASYNC;

poll_bits! { POLLIN POLLPRI POLLOUT POLLERR POLLHUP POLLNVAL POLLRDNORM POLLWRNORM POLLRDHUP }

pub use general::{
    AT_EACCESS, AT_EMPTY_PATH, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW,
};
pub use general::{
    AT_NO_AUTOMOUNT, AT_RECURSIVE, FSMOUNT_CLOEXEC, FSOPEN_CLOEXEC, FSPICK_CLOEXEC,
    FSPICK_EMPTY_PATH, FSPICK_NO_AUTOMOUNT, FSPICK_SYMLINK_NOFOLLOW, MOUNT_ATTR_IDMAP,
    MOUNT_ATTR_NOATIME, MOUNT_ATTR_NODEV, MOUNT_ATTR_NODIRATIME, MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY, MOUNT_ATTR_STRICTATIME, MOUNT_ATTR__ATIME,
    MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_F_SYMLINKS, MOVE_MOUNT_SET_GROUP, MOVE_MOUNT_T_EMPTY_PATH,
    MOVE_MOUNT_T_SYMLINKS, MOVE_MOUNT__MASK, OPEN_TREE_CLOEXEC, OPEN_TREE_CLONE,
};
pub use general::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};
pub use general::{NAME_MAX, PATH_MAX};
pub use general::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOCTTY,
    O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};
pub use general::{RENAME_EXCHANGE, RENAME_NOREPLACE};
pub use general::{
    RESOLVE_BENEATH, RESOLVE_CACHED, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS,
    RESOLVE_NO_XDEV,
};
pub use general::{SEEK_CUR, SEEK_DATA, SEEK_END, SEEK_HOLE, SEEK_SET};
pub use general::{
    S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK, S_ISGID, S_ISUID,
    S_ISVTX, S_IWOTH, S_IXGRP,
};
pub use general::{WCONTINUED, WEXITED, WNOHANG, WNOWAIT, WSTOPPED, WUNTRACED};

pub use general::{XATTR_CREATE, XATTR_REPLACE};
pub use linux_raw_sys::ioctl::FICLONE;

/// `ioctl` of files that survive: with 1, the file is after a power failure as at its last `fsync` or `msync`, whatever was written
/// since; with 0 it is no more. (Not Linux's.)
pub const MORSEL_ATOMIC: u32 = 0xa701;

/// Bit of `Open.extra`: the file will be executed (it must be regular and executable).
pub const OPEN_EXEC: u32 = 1;
/// The library can [keep](crate::session::ShownStat::keep) what it opens: with `O_RDONLY`, and perhaps `O_CLOEXEC`, alone.
pub const OPEN_KEEP: u32 = 2;
/// In `Open.extra`, the `RESOLVE_*` of `openat2` begin at this bit.
pub const RESOLVE_SHIFT: u32 = 8;
/// Directory argument: relative to the working directory.
pub const CWD: u32 = 0;
/// Offset argument: use the description's offset and move it.
pub const AT_OFFSET: u64 = u64::MAX;
/// Limit argument of `FileExtent`: what is shown is shown only where it belongs.
pub const NOT_BEHIND: u64 = u64::MAX;
/// [`crate::op::MakeRoom`]: memory is wanted for no page in particular.
pub const NO_PAGE: u64 = u64::MAX;
/// Time argument of `SetTimes`: now.
pub const TIME_NOW: i64 = i64::MAX;
/// Time argument of `SetTimes`: leave as it is.
pub const TIME_OMIT: i64 = i64::MIN;
/// Owner argument of `Chown`: leave as it is.
pub const KEEP_ID: u32 = u32::MAX;
/// Timeout argument: for ever.
pub const FOREVER: u64 = u64::MAX;
/// Bytes of the ring of a pipe.
pub const PIPE_BYTES: u64 = 64 * 1024;
/// As much as a user's pipes may be told to hold each (`/proc/sys/fs/pipe-max-size`); and most that one request moves.
pub const PIPE_BYTES_MOST: u64 = 1 << 20;

/// How a shared set of `epoll` is changed.
pub mod set_control {
    /// `EPOLL_CTL_ADD`.
    pub const ADD: u32 = 1;
    /// `EPOLL_CTL_DEL`.
    pub const DELETE: u32 = 2;
    /// `EPOLL_CTL_MOD`.
    pub const MODIFY: u32 = 3;
    /// Takes over a member of a set that becomes shared.
    pub const KEEP: u32 = 4;
    /// The same of one that has nothing to report until something comes to it.
    pub const KEEP_QUIET: u32 = 5;
}

/// Fields of the word that says what lock is meant.
pub mod lock {
    /// Kind: others may have shared locks.
    pub const SHARED: u32 = 0;
    /// Kind: nobody else may have any.
    pub const EXCLUSIVE: u32 = 1;
    /// Kind: none.
    pub const UNLOCK: u32 = 2;
    /// Bits of the kind.
    pub const KIND: u32 = 3;
    /// Wait until it can be had.
    pub const WAIT: u32 = 4;
    /// It belongs to the description, not to the process.
    pub const DESCRIPTION: u32 = 8;
    /// The whole file, apart from locks of ranges (`flock`); also means `DESCRIPTION`.
    pub const WHOLE: u32 = 16;
    /// Where `SEEK_SET`, `SEEK_CUR` or `SEEK_END` begins.
    pub const WHENCE: u32 = 8;
}

/// Flags of [`Splice`](crate::op::Splice).
pub mod splice {
    /// It does not wait (`SPLICE_F_NONBLOCK`).
    pub const NONBLOCK: u32 = 2;
    /// The bytes stay in the pipe that they come from, too (`tee`).
    pub const KEEP: u32 = 1 << 16;
    /// What goes nowhere is left in the data area.
    pub const DATA: u32 = 1 << 17;
    /// What there is no room for is not written.
    pub const SOME: u32 = 1 << 18;
}

/// `TFD_TIMER_ABSTIME`.
pub const TIMER_ABSOLUTE: u32 = 1;
/// `TFD_TIMER_CANCEL_ON_SET`.
pub const TIMER_CANCEL_ON_SET: u32 = 2;

/// Kinds of file systems that can be mounted, and whether they need a device.
pub const FILE_SYSTEMS: [(&str, bool); 8] = [
    ("sysfs", false),
    ("tmpfs", false),
    ("proc", false),
    ("ext2", true),
    ("ext3", true),
    ("ext4", true),
    ("devpts", false),
    ("mqueue", false),
];
