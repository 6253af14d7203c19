//! What a process can give up for good (`Forgo`): kinds of requests.
//!
//! A filter of system calls is evaluated by the library of the process, which whoever takes the process over need not use. So
//! the library also says which kinds of requests no call that passes can lead to, and `unixd` refuses these, whoever asks.
//! A kind can be given up if *all* of [its calls](calls) are refused: a call that leads to two kinds is in both.

use crate::Any;

/// Opening files by their names, and executing them.
pub const OPEN: u32 = 1;
/// Executing programs.
pub const EXECUTE: u32 = 1 << 1;
/// Changing names, contents by name, and attributes of files.
pub const CHANGE: u32 = 1 << 2;
/// Mounts, root directories and name spaces.
pub const MOUNT: u32 = 1 << 3;
/// New processes.
pub const FORK: u32 = 1 << 4;
/// Signals to others.
pub const SIGNAL: u32 = 1 << 5;
/// Looking into other processes, and changing them.
pub const TRACE: u32 = 1 << 6;
/// New sockets.
pub const SOCKET: u32 = 1 << 7;
/// Connecting them.
pub const CONNECT: u32 = 1 << 8;
/// Having others connect to them.
pub const LISTEN: u32 = 1 << 9;
/// Users, groups and capabilities.
pub const IDENTITY: u32 = 1 << 10;
/// Objects of System V, and message queues.
pub const IPC: u32 = 1 << 11;

/// How many kinds there are.
pub const KINDS: u32 = 12;
/// All of them.
pub const ALL: u32 = (1 << KINDS) - 1;

/// The kind of a request; 0: none that can be given up.
pub const fn kind(request: &Any) -> u32 {
    match request {
        Any::Open(_) => OPEN,
        Any::Exec(_) | Any::Bequeath(_) | Any::Succeed(_) | Any::Become(_) | Any::Replace(_) => {
            EXECUTE
        }
        Any::Mkdir(_)
        | Any::Mknod(_)
        | Any::Unlink(_)
        | Any::Rename(_)
        | Any::Link(_)
        | Any::Symlink(_)
        | Any::Chmod(_)
        | Any::Chown(_)
        | Any::SetTimes(_)
        | Any::Truncate(_)
        | Any::SetXattr(_)
        | Any::RemoveXattr(_) => CHANGE,
        Any::Mount(_)
        | Any::Unmount(_)
        | Any::OpenFs(_)
        | Any::PickFs(_)
        | Any::ConfigureFs(_)
        | Any::MountFs(_)
        | Any::OpenTree(_)
        | Any::MoveMount(_)
        | Any::SetMount(_)
        | Any::Chroot(_)
        | Any::PivotRoot(_)
        | Any::Unshare(_)
        | Any::EnterSpace(_)
        | Any::SetHostName(_)
        | Any::SwapOn(_)
        | Any::SwapOff(_) => MOUNT,
        Any::Fork(_) | Any::ForkCommit(_) | Any::ForkBeside(_) => FORK,
        Any::Kill(_) | Any::KillThread(_) | Any::KillOpened(_) => SIGNAL,
        Any::TraceMe(_)
        | Any::TraceAttach(_)
        | Any::Trace(_)
        | Any::TraceMemory(_)
        | Any::AdviseOther(_)
        | Any::TakeFd(_)
        | Any::Compare(_) => TRACE,
        Any::Socket(_) | Any::SocketPair(_) => SOCKET,
        Any::Connect(_) => CONNECT,
        Any::Bind(_) | Any::Listen(_) => LISTEN,
        Any::SetIds(_) | Any::SetGroups(_) | Any::SetFileId(_) | Any::SetCaps(_) => IDENTITY,
        Any::OpenMessages(_)
        | Any::UnlinkMessages(_)
        | Any::GetQueue(_)
        | Any::ControlQueue(_)
        | Any::SendMessage(_)
        | Any::ReceiveMessage(_)
        | Any::GetSemaphores(_)
        | Any::SemaphoreOps(_)
        | Any::ControlSemaphores(_)
        | Any::GetSegment(_)
        | Any::AttachSegment(_)
        | Any::ControlSegment(_) => IPC,
        _ => 0,
    }
}

/// The numbers of all system calls that can lead to a request of a kind.
pub const fn calls(kind: u32) -> &'static [u16] {
    match kind {
        // open, creat, openat, openat2; execve and execveat; kcmp and pidfd_getfd look at no name, clone makes no file.
        OPEN => &[2, 85, 257, 437, 59, 322],
        EXECUTE => &[59, 322],
        CHANGE => &[
            // truncate, ftruncate, rename, mkdir, rmdir, link, unlink, symlink, chmod to lchown
            76, 77, 82, 83, 84, 86, 87, 88, 90, 91, 92, 93,
            94, // utime, mknod, setxattr and its relatives, removexattr
            132, 133, 188, 189, 190, 197, 198,
            199, // utimes, mkdirat, mknodat, fchownat, futimesat
            235, 258, 259, 260, 261, // unlinkat to symlinkat, fchmodat, utimensat
            263, 264, 265, 266, 268, 280, // fallocate, renameat2, fchmodat2
            285, 316, 452, // setxattrat, removexattrat
            463, 466,
        ],
        MOUNT => &[
            // pivot_root, chroot, mount, umount2, sethostname, setdomainname, unshare, setns
            155, 161, 165, 166, 170, 171, 272, 308,
            // open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
            428, 429, 430, 431, 432, 433, 442,
        ],
        FORK => &[56, 57, 58, 435],
        // kill, rt_sigqueueinfo, tkill, tgkill, rt_tgsigqueueinfo, pidfd_send_signal
        SIGNAL => &[62, 129, 200, 234, 297, 424],
        // ptrace, process_vm_readv, process_vm_writev, kcmp, and what is about an opened process
        TRACE => &[101, 310, 311, 312, 424, 434, 438, 440, 448],
        SOCKET => &[41, 53],
        // A datagram may be sent somewhere: sendto, sendmsg, sendmmsg
        CONNECT => &[42, 44, 46, 307],
        LISTEN => &[49, 50],
        // setuid, setgid, setreuid to setgroups, setresuid, setresgid, setfsuid, setfsgid, capset, prctl
        IDENTITY => &[105, 106, 113, 114, 116, 117, 119, 122, 123, 126, 157],
        IPC => &[29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 220, 240, 241, 242, 243],
        _ => &[],
    }
}

/// All kinds that can be given up if of all calls only those are made for which `passes` answers yes.
pub fn given_up(passes: impl Fn(u16) -> bool) -> u32 {
    let refused = |kind: &u32| !calls(*kind).iter().any(|number| passes(*number));
    (0..KINDS).map(|bit| 1 << bit).filter(refused).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op;

    #[test]
    fn every_kind_has_calls_and_can_be_given_up() {
        for bit in 0..KINDS {
            assert!(!calls(1 << bit).is_empty());
        }
        assert_eq!(given_up(|_| false), ALL);
        assert_eq!(given_up(|_| true), 0);
    }

    #[test]
    fn a_kind_is_kept_for_one_of_its_calls() {
        assert_eq!(given_up(|number| number == 257), ALL & !OPEN);
        assert_eq!(given_up(|number| number == 59), ALL & !(OPEN | EXECUTE));
        assert_eq!(given_up(|number| number == 424), ALL & !(SIGNAL | TRACE));
    }

    #[test]
    fn kinds_of_requests() {
        assert_eq!(kind(&Any::Kill(op::Kill { pid: 1, signal: 9, code: 0, value: 0 })), SIGNAL);
        assert_eq!(kind(&Any::Exit(op::Exit { status: 0 })), 0);
    }
}
