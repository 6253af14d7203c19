//! The table of requests.
//!
//! `a` and `b` in the documentation are the byte strings in the data area: `a` from its start,
//! `b` behind it. "data:" says which bytes the answer leaves at the start of the data area.
//! `dir` is a description of a directory or [`files::CWD`](crate::files::CWD). Times are in
//! nanoseconds.

use crate::request::{check, replies, requests};
pub use crate::request::{
    error_words, head, lengths, op_number, Declared, Reply, Request, Word, Words,
};
use crate::Errno;

replies! {
    /// A number of bytes or things.
    Count {
        /// How many.
        count: u64,
    }
    /// An end of a pipe, or of a stream, that is lent.
    LentEnd {
        /// What who finds nothing to do there does: [one of these](crate::session::lent_end).
        idle: u32,
    }
    /// A process.
    Process {
        /// Its id.
        pid: u32,
    }
    /// A file.
    Inode {
        /// Its number.
        inode: u64,
    }
    /// What need not be asked for again.
    Known {
        /// Number of an inode whose attributes are [shown](crate::session::ShownStat), or 0.
        inode: u64,
        /// Since when the path [leads](crate::session::ShownFiles::ways) there, or 0.
        ways: u64,
    }
    /// The first process.
    Attached {
        /// Its id.
        pid: u32,
        /// Bytes of the argument block in the data area.
        bytes: u32,
        /// Descriptions for descriptors 0, 1 and 2.
        stdin: u32,
        /// Same.
        stdout: u32,
        /// Same.
        stderr: u32,
    }
    /// What was left to a program that runs as somebody else.
    Inherited {
        /// The id of the process.
        pid: u32,
        /// Bytes in the data area.
        bytes: u32,
        /// Description of the program's file.
        program: u32,
        /// Its inode number.
        inode: u64,
        /// It must not trust what it is given.
        secure: bool,
    }
    /// A child that ended, stopped or went on.
    Waited {
        /// Its id; 0 if `WNOHANG` and none is ready.
        pid: u32,
        /// Its wait status, as `wait4` gives it (low half), and its real user id (high half).
        status: u64,
        /// Processor time that it and its awaited descendants used.
        cpu_ns: u64,
        /// How much of that is the system's.
        system_ns: u64,
        /// Their page faults (low half), and the largest resident set of any of them, pages (high half).
        memory: u64,
    }
    /// POSIX capabilities: bit N is capability number N.
    PosixCaps {
        /// Effective.
        effective: u64,
        /// Permitted.
        permitted: u64,
        /// Inheritable.
        inheritable: u64,
    }
    /// Signals.
    SignalSet {
        /// Mask of them.
        set: u64,
    }
    /// What a thread that has stopped for its tracer is to do.
    TraceCommand {
        /// [`trace::command`](crate::trace::command).
        what: u32,
        /// Which command this is, for `TraceAnswer`.
        number: u32,
        /// Where, or a signal.
        address: u64,
        /// How much, or a value. With bytes, they are in data.
        value: u64,
    }
    /// The state that a timer had.
    Timer {
        /// Until it expires; 0 if it is off.
        value: u64,
        /// Its period; 0 for none.
        interval: u64,
    }
    /// Processor time.
    Usage {
        /// Used, in all.
        cpu_ns: u64,
        /// How much of that is the system's.
        system_ns: u64,
        /// Page faults.
        faults: u64,
        /// Largest resident set, pages.
        peak_pages: u64,
    }
    /// What was decided about a call.
    CallReply {
        /// What it answers.
        value: u64,
        /// Its error, negative.
        error: i32,
        /// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`: it is made. [`CALL_ADDS`](crate::files::CALL_ADDS): nothing is decided yet; the thread is to
        /// have a file: `value` is a description, `error` the descriptor, and the other flags say how.
        /// [`CALL_SERVES`](crate::files::CALL_SERVES): nor then; it has [`trace`](crate::trace) to look at.
        flags: u32,
    }
    /// A limit of a process.
    LimitPair {
        /// What counts.
        soft: u64,
        /// How far that may be raised.
        hard: u64,
    }
    /// An open file description.
    Opened {
        /// Its id, never 0. The caller holds it now.
        desc: u32,
        /// A [`Kind`](crate::files::Kind). With [`LED`](crate::files::LED): data: eight bytes, since when [paths
        /// lead](crate::session::ShownFiles::ways) where the path of the file does.
        kind: u8,
        /// Inode number, the key for caches of contents.
        inode: u64,
        /// The contents are a Morsel, and survive.
        is_stored: bool,
        /// They are in pages of 2 MiB only.
        is_large: bool,
    }
    /// A lock of somebody else.
    Locked {
        /// [`UNLOCK`](crate::files::lock::UNLOCK) if there is none, else its kind.
        kind: u32,
        /// First byte.
        start: i64,
        /// Bytes, 0 for all behind.
        len: i64,
        /// Its process; -1 if it belongs to a description.
        pid: i32,
    }
    /// Both ends of a pipe.
    PipeEnds {
        /// Description to read from.
        read: u32,
        /// Description to write to.
        write: u32,
    }
    /// A connection that was waited for.
    Accepted {
        /// Description.
        desc: u32,
        /// Bytes of the name of the other end, which are in the data area. 0: it was not wanted, or that end has gone meanwhile.
        name: u32,
    }
    /// Part of a file, to be copied by the library.
    Part {
        /// The file.
        inode: u64,
        /// Its layout: extents that were got under another number are stale.
        layout: u32,
        /// Where.
        offset: u64,
        /// How many bytes; 0 at the end of the file.
        bytes: u64,
        /// `Wrote` is to follow, once they are written.
        tell: bool,
    }
    /// An extent of a file. With a Frame capability, unless it is a hole (zeros); or with a Morsel, which is all of the file.
    Extent {
        /// The layout to which it belongs.
        layout: u32,
        /// Its first byte in the file, a multiple of 4096.
        start: u64,
        /// Its bytes, a multiple of 4096: as many as the Frame has, or the Morsel can have.
        bytes: u64,
        /// Size of the file.
        size: u64,
        /// The capability is a Morsel.
        is_morsel: bool,
    }
    /// A new offset.
    Offset {
        /// Bytes from the start.
        offset: u64,
    }
    /// A file as `open_by_handle_at` finds it.
    FileHandle {
        /// Its inode number.
        number: u32,
        /// Which of those that have had this number.
        generation: u32,
        /// The mount by which it was found, as `/proc/self/mountinfo` has it.
        mount: u64,
    }
    /// Flags of a description.
    Flags {
        /// `O_*`: access mode and status.
        flags: u32,
    }
    /// Who is told of a description by signals.
    Owner {
        /// `F_OWNER_*`
        kind: u32,
        /// Thread, process or group; 0: nobody.
        id: u32,
        /// The signal; 0: `SIGIO`, and nothing with it.
        signal: u32,
    }
    /// What was received. data: the bytes; the descriptions that were passed along, 4 bytes each; process, user and group of who
    /// has sent it, 4 bytes each, if that is told; the sender's name, if it is told; control messages.
    Received {
        /// Bytes.
        count: u64,
        /// Bytes of the message: more, if there was no room for all.
        full: u64,
        /// How many descriptions. The caller holds them now.
        rights: u32,
        /// Bytes of what is told about the sender, of the name, and of control messages: [`Behind`](crate::sockets::Behind).
        told: u32,
        /// There were more descriptions.
        is_cut: bool,
    }
    /// A message of a POSIX queue. data: its bytes.
    QueueMessage {
        /// How many.
        count: u64,
        /// Its priority.
        priority: u32,
    }
    /// Such a queue.
    QueueState {
        /// `O_NONBLOCK`, or 0.
        flags: u32,
        /// Most messages.
        most: u64,
        /// Most bytes of one.
        size: u64,
        /// Messages that there are.
        count: u64,
    }
    /// How much of what a caller has lent was copied.
    Piped {
        /// Bytes.
        count: u64,
        /// The memory there is not as it must be: the caller makes it so and goes on, or is at its end.
        again: bool,
    }
}

requests! {
    // Processes.

    /// The first request of the first process. data: the argument block (`boot/args`) from a byte on, as
    /// much of it as there is room for.
    1 Attach(
        /// That byte.
        from: u32
    ) -> Attached;
    /// Makes a child of the caller. Answers capabilities [UNIXD endpoint, session Frame] for the
    /// child; its header is filled in. `EAGAIN`: too many processes. `a` may choose its numbers (`set_tid` of `clone3`), 4 bytes
    /// each, from its innermost name space of process ids on. `EEXIST`: somebody has one of them; `EINVAL`: it is no number, or
    /// there are not so many name spaces; `EPERM`: not without `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`.
    2 Fork(
        /// The calling dispatcher acts as the child with the new endpoint (vfork) until `Become` or
        /// `Exit` through that endpoint. Else the child is there as soon as `ForkCommit` brings its
        /// domain.
        act: bool,
        /// The child is traced as the caller is.
        traced: bool,
        /// Name spaces that the child has of its own (`CLONE_NEW*`).
        spaces: u32
    ) -> Process;
    /// Starts the child that `Fork` made. Sends a *domain*: capabilities [Dispatcher, L1CNode], not
    /// started yet, moved, with the right `REVOKE`, and of which there are no copies: so nobody but
    /// `unixd` can keep it running or take it away. `unixd` puts copies without that right in the
    /// domain's slots `DISPATCHER` and `ROOT`, and gives it its CSpace. `EPERM`: there are copies, or
    /// the right is missing.
    3 ForkCommit(
        /// The child.
        pid: u32,
        /// `ForkWait` will follow.
        wait: bool
    ) -> ();
    /// Waits until a child that was started with `wait` has executed a program or has ended (vfork).
    19 ForkWait(
        /// The child.
        pid: u32
    ) -> ();
    /// Gives up a child that was not started, or as which its parent acts.
    4 ForkAbort(
        /// The child.
        pid: u32
    ) -> ();
    /// Sent through the endpoint of a child that had no domain: sends the domain (see `ForkCommit`)
    /// that it has made for itself. `unixd` starts it. The answer goes to the caller, who is the
    /// parent again; a child of `ForkBeside` gets none, and its dispatcher goes.
    5 Become() -> ();
    /// Makes the root of the caller's CSpace larger. Sends a capability, L1CNode, to the new one: empty, of
    /// `linuxdomain::ROOT_BYTES`, moved, with the right `REVOKE`, and of which there are no copies.
    /// `EINVAL`: it is something else, or there is a root of that size. A process that has very many
    /// capabilities to its root is ended.
    83 GrowRoot() -> ();
    /// A new program takes over: `a` its path (for `/proc/PID/exe` and the name; of a script its own, which gives the name, a NUL, and that of the
    /// interpreter), `b` arguments with a NUL behind each. The library has closed what is close-on-exec. Ends a vfork.
    /// Answers 1 if the program must not trust what it is given (`AT_SECURE`).
    6 Exec() -> Count;
    /// Some of what the caller leaves to a program that runs as somebody else, in `a`: what [`Kind::SetId`](crate::files::Kind)
    /// said of its file. It begins with how many descriptions the program gets, and these, 4 bytes each. `ENOMEM`: there is too much.
    218 Bequeath(
        /// So much has come before; 0 begins anew.
        from: u32
    ) -> ();
    /// A program takes over that runs as somebody else. The caller is taken apart, and the program begins in a domain that
    /// `unixd` makes, as the first process did. Arguments as of `Exec`. There is an answer only after an error, or if the
    /// caller acts as its child.
    219 Succeed(
        /// Description of its file. But for that and what was bequeathed, all descriptions are closed.
        program: u32
    ) -> ();
    /// Part of what was left to the caller, of which it is the first request. data: it, from a byte on, as much as there is room
    /// for. With the last of it, it is gone. `ESRCH`: nothing was.
    220 Inherit(
        /// That byte.
        from: u32
    ) -> Inherited;
    /// The process ends; no answer, unless a vfork child ends that has no domain.
    7 Exit(
        /// Wait status ([`signals::exited`](crate::signals::exited) or `killed`).
        status: u32
    ) -> ();
    /// Waits for a child. `ECHILD`: there is none.
    8 Wait(
        /// As `wait4`: -1 any, 0 own group, > 0 this one, < -1 this group.
        pid: i32,
        /// `WNOHANG`, `WEXITED`, `WSTOPPED`, `WCONTINUED`, `WNOWAIT`.
        options: u32
    ) -> Waited;
    /// Posts a signal (0: only checks). `a`: nothing, or `si_pid` and `si_uid`, 4 bytes each. `EAGAIN`: too many wait.
    9 Kill(
        /// As `kill`: > 0 process, 0 own group, -1 all, < -1 group.
        pid: i32,
        /// Signal.
        signal: u32,
        /// `si_code`.
        code: i32,
        /// `si_value`.
        value: u64
    ) -> ();
    /// Stops the caller, with this signal as the reason, until `SIGCONT`. What the library does
    /// for a pending signal whose action is to stop.
    10 Stop(
        /// Signal.
        signal: u32
    ) -> ();
    /// Moves a process to a process group.
    11 SetPgid(
        /// Process, 0 for the caller.
        pid: u32,
        /// Group, 0 for the process's own id.
        pgid: u32
    ) -> ();
    /// The process group of a process.
    12 GetPgid(
        /// Process, 0 for the caller.
        pid: u32
    ) -> Process;
    /// Starts a session.
    13 SetSid() -> Process;
    /// The session of a process.
    14 GetSid(
        /// Process, 0 for the caller.
        pid: u32
    ) -> Process;
    /// Sets real, effective and saved user or group ids. `EPERM`: one is none of the present three, and
    /// the caller has not `CAP_SETUID` or `CAP_SETGID`.
    15 SetIds(
        /// Those of the group.
        groups: bool,
        /// The real one, or `KEEP_ID`.
        real: u32,
        /// Same.
        effective: u32,
        /// Same.
        saved: u32
    ) -> ();
    /// `setfsuid`, `setfsgid`. Answers the id before, whatever came of it.
    102 SetFileId(
        /// That of the group.
        groups: bool,
        /// The id.
        id: u32
    ) -> Count;
    /// Some of the supplementary groups that the caller wants: `a`, 4 bytes each. They count with the last of them. `EPERM`
    /// without `CAP_SETGID`.
    216 SetGroups(
        /// How many there are in all.
        count: u32,
        /// How many have come before.
        from: u32
    ) -> ();
    /// The supplementary groups of the caller. Answers how many. data: as many as there is room for, 4 bytes each.
    217 GetGroups(
        /// So many are left out.
        from: u32
    ) -> Count;
    /// The (POSIX) capabilities of a process.
    103 GetCaps(
        /// Process, 0 for the caller.
        pid: u32
    ) -> PosixCaps;
    /// Sets those of the caller. `EPERM`: something would be gained.
    104 SetCaps(
        /// Effective.
        effective: u64,
        /// Permitted.
        permitted: u64,
        /// Inheritable.
        inheritable: u64
    ) -> ();
    /// Asks for and changes other privileges, as `prctl` does.
    105 Privilege(
        /// Which: an option of `prctl`, [`privilege`](crate::privilege).
        option: u32,
        /// Its first argument.
        first: u32,
        /// Its second one.
        second: u32
    ) -> Count;
    /// Asks for or changes how a process is to be scheduled, or several. `EPERM`, `EACCES`: the caller may not; `ESRCH`: there is none.
    250 Schedule(
        /// [`scheduling`](crate::scheduling).
        what: u32,
        /// Whom `who` names.
        which: u32,
        /// 0: the caller, its group or its user.
        who: u32,
        /// What is set.
        value: u64
    ) -> Count;
    /// `pidfd_getfd`: a description of another process that the caller holds from now on. `EPERM`; `EBADF`: that has none there, or
    /// the caller's is no process.
    251 TakeFd(
        /// Description of the process.
        desc: u32,
        /// Its descriptor.
        fd: u32
    ) -> Count;
    /// `kcmp`. Answers 0 if it is the same, or 1 or 2.
    252 Compare(
        /// A process.
        first: u32,
        /// Another one.
        second: u32,
        /// `KCMP_*`.
        what: u32,
        /// Descriptors: of the second process in the upper half.
        fds: u64
    ) -> Count;
    /// Sets a limit of the caller that is enforced here. `EPERM`: the hard one would be raised, and the
    /// caller has not `CAP_SYS_RESOURCE`.
    107 SetLimit(
        /// [`limit`](crate::limit).
        which: u32,
        /// What counts, or [`limit::NONE`](crate::limit::NONE).
        soft: u64,
        /// How far that may be raised.
        hard: u64
    ) -> ();
    /// A limit of any process. `ESRCH`; `EPERM`: its ids are others, and the caller has not `CAP_SYS_RESOURCE`; `EINVAL`: there is no
    /// such limit.
    292 LimitOf(
        /// The process, or a thread of it.
        pid: u32,
        /// `RLIMIT_*`.
        which: u32
    ) -> LimitPair;
    /// Processor time of any process; faults and pages are not told.
    293 ProcessorTime(
        /// The process.
        pid: u32
    ) -> Usage;
    /// Processor time of the caller's process (0) or of awaited children (1).
    16 CpuUsage(
        /// Whose.
        who: u32
    ) -> Usage;
    /// Sets the name of the calling thread: `a`, of which 15 bytes count.
    17 SetName() -> ();
    /// The name of the calling thread. data: it.
    101 GetName() -> Count;

    /// Sends a native domain (see `ForkCommit`) that has the caller's endpoint and session frame: it
    /// becomes the process. No answer; the caller's own domain is taken apart with all its threads.
    /// Default actions of signals are `unixd`'s from then on. With `linux` the domain is not a native
    /// one, but that of a Linux process which begins anew, with one thread.
    18 Replace(
        /// It is a Linux process.
        linux: bool
    ) -> ();

    // Threads.

    /// A new thread of the calling process. Sends the capability of its Dispatcher, not started yet,
    /// as `ForkCommit`. Answers capabilities [UNIXD endpoint, session Frame, Dispatcher] for it, the
    /// last one without the right `REVOKE`; the library starts it. `EAGAIN`: too many threads. `a` as of `Fork`.
    90 Thread(
        /// It is traced as the caller is.
        traced: bool
    ) -> Process;
    /// A new process in the caller's memory (`CLONE_VM`): a child of the caller, with an id, a voice and signals of its own, that
    /// is run by the dispatcher which is sent, as of `Thread`, and holds the descriptions that all hold who have this memory.
    /// Answers what `Thread` answers; the library starts it, or gives it up by `ForkAbort`. It lives no longer than the process
    /// whose domain it is in. `EAGAIN`: too many processes.
    300 ForkBeside(
        /// What it has in common with the caller: `CLONE_FS`: it stands where the caller does, wherever one of them goes.
        /// `CLONE_FILES` and `CLONE_SIGHAND` are the library's business, and told for `kcmp`.
        shares: u32,
        /// `ForkWait` will follow.
        wait: bool,
        /// Name spaces that it has of its own (`CLONE_NEW*`).
        spaces: u32
    ) -> Process;
    /// A file by which somebody decides about calls of the caller, and of what it makes from now on (`SECCOMP_FILTER_FLAG_NEW_LISTENER`).
    /// `inode` is what `CallNotice` calls it.
    304 HearCalls(
        /// A thread whose call was told waits for what is decided whatever signals come that do not end it.
        patient: bool
    ) -> Opened;
    /// Somebody is to decide about a call: `a` is its `struct seccomp_data`. Waits for that. `ENOSYS`: nobody listens, or not to the
    /// caller.
    305 CallNotice(
        /// Who.
        listener: u32
    ) -> CallReply;
    /// The next call about which nobody has been told: waits for it. data: `struct seccomp_notif`. `ENOENT`: there is nobody any more
    /// who could make one; `EINVAL`: the description is something else.
    306 NoticeReceive(
        /// Description.
        desc: u32
    ) -> ();
    /// Decides about a call that was told. `ENOENT`: it is not waited for any more; `EINPROGRESS`: it was not told, or is decided.
    307 NoticeAnswer(
        /// Description.
        desc: u32,
        /// The call.
        id: u64,
        /// What it answers.
        value: u64,
        /// Its error, negative.
        error: i32,
        /// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`: it is made.
        flags: u32
    ) -> ();
    /// Is a call that was told still waited for? `ENOENT`: it is not.
    308 NoticeValid(
        /// Description.
        desc: u32,
        /// The call.
        id: u64
    ) -> ();
    /// The process whose call was told gets a file of the caller's. Answers its descriptor there. `ENOENT`: the call is not waited for any
    /// more, `ESRCH`: not by the time that it would have it; `EINPROGRESS`: it was not told, or is decided; `EBUSY`: it gets others, and
    /// would be answered. `EBADF`: the file, or the number; `EMFILE`.
    327 NoticeAddFd(
        /// Description.
        desc: u32,
        /// The call.
        id: u64,
        /// The description that it gets.
        file: u32,
        /// The descriptor that it gets, with `ADDFD_SETFD`.
        fd: u32,
        /// `ADDFD_*`.
        flags: u32
    ) -> Count;
    /// A thread has a file that it was told to have (`CALL_ADDS`), or could not.
    328 NoticeAdded(
        /// Who has told.
        listener: u32,
        /// Its descriptor, or the error, negative.
        result: i32
    ) -> ();
    /// Sets a limit of any process. Answers the one before. Errors as of `LimitOf`; `EINVAL`: what counts is above how far it may be
    /// raised; `EPERM`: that is raised without `CAP_SYS_RESOURCE`, or so many descriptors nobody may have.
    302 SetLimitOf(
        /// The process, or a thread of it.
        pid: u32,
        /// `RLIMIT_*`.
        which: u32,
        /// What counts.
        soft: u64,
        /// How far that may be raised.
        hard: u64
    ) -> LimitPair;
    /// `StatFs` of what is mounted in the caller's name space and has a device number. `EINVAL`: there is none.
    303 StatDevice(
        /// `st_dev`.
        device: u64
    ) -> ();
    /// The caller, of `ForkBeside`, will execute a program: it gets descriptions of its own as of now, which count from `Become`
    /// on. `EINVAL`: it has a domain of its own.
    301 CopyHeld() -> ();
    /// Ends a thread of the caller's process, wherever it is; neither the first nor the caller.
    89 ThreadEnd(
        /// The thread.
        tid: u32
    ) -> ();
    /// The calling thread ends, the process with the last one. No answer; `unixd` takes the
    /// dispatcher from the process.
    91 ThreadExit(
        /// Wait status of the process if this is its last thread.
        status: u32
    ) -> ();
    /// Posts a signal (0: only checks) to a thread. `a` and `EAGAIN` as of `Kill`.
    92 KillThread(
        /// The process that it is a thread of; 0: any.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Signal.
        signal: u32,
        /// `si_code`.
        code: i32,
        /// `si_value`.
        value: u64
    ) -> ();
    /// The library has taken a signal of which more wait: the next one is put into the header.
    264 NextSignal(
        /// Signal.
        signal: u32,
        /// Of those of the thread, not of those of the process.
        own: bool
    ) -> ();
    /// Signals are ignored now: no more of them wait, for no thread.
    265 DropSignals(
        /// Mask of signals.
        set: u64
    ) -> ();
    /// The caller blocks signals now that wait for the process: other threads are to look.
    93 Retarget() -> ();
    /// Ends a `Poll` of a thread of the caller's process with `EINTR`, the present one or the next.
    95 Stir(
        /// The thread.
        tid: u32
    ) -> ();
    /// How often futexes in shared memory were woken.
    96 FutexCount() -> Count;
    /// Waits for a futex in shared memory. `EAGAIN`: some futex was woken since `seen`;
    /// `ETIMEDOUT`: the time is over; `EINTR`.
    97 FutexWait(
        /// File that is mapped there.
        inode: u64,
        /// Where in the file.
        offset: u64,
        /// What `FutexCount` has answered.
        seen: u64,
        /// How long, or `FOREVER`.
        ns: u64,
        /// Wakes that have one of these bits are for the caller.
        bits: u32
    ) -> ();
    /// Wakes those who wait for a futex in shared memory. Answers how many.
    98 FutexWake(
        /// File that is mapped there.
        inode: u64,
        /// Where in the file.
        offset: u64,
        /// At most so many.
        count: u32,
        /// With one of these bits.
        bits: u32
    ) -> Count;
    /// The thread that has waited longest for a futex in shared memory, or 0.
    99 FutexFirst(
        /// File that is mapped there.
        inode: u64,
        /// Where in the file.
        offset: u64
    ) -> Process;
    /// The process of a thread.
    94 ThreadOf(
        /// The thread.
        tid: u32
    ) -> Process;

    // Tracing (`ptrace`): `trace` has the numbers.

    /// The parent traces the caller from now on.
    120 TraceMe() -> ();
    /// The caller traces a thread from now on. `EPERM`: it may not, or somebody does.
    121 TraceAttach(
        /// The thread.
        tid: u32,
        /// It stops only when it is asked to (`PTRACE_SEIZE`).
        seize: bool,
        /// `PTRACE_O_*`.
        options: u32
    ) -> ();
    /// The caller has stopped for its tracer, or to serve somebody who may look into its memory. `a`: `siginfo_t`, if
    /// there is one. Answers what is to be done first; `RESUME` at once if nobody traces it any more.
    122 TraceStop(
        /// [`trace::stop`](crate::trace::stop).
        kind: u32,
        /// The signal or event.
        value: u32,
        /// What `PTRACE_GETEVENTMSG` gives.
        message: u64
    ) -> TraceCommand;
    /// The caller has done what a command says. `a`: what was asked for. Answers what is next.
    123 TraceAnswer(
        /// Which command that was.
        number: u32,
        /// Bytes, or the negative number of an error.
        result: i64
    ) -> TraceCommand;
    /// Has a thread that the caller traces do something; most of it while that has stopped. `a`: bytes for it. data: bytes of it.
    /// `ESRCH`: the caller does not trace it, or it has not stopped.
    124 Trace(
        /// The thread.
        tid: u32,
        /// [`trace::request`](crate::trace::request), or a [`trace::command`](crate::trace::command) for it.
        what: u32,
        /// As of the command.
        address: u64,
        /// Same.
        value: u64
    ) -> Count;
    /// Reads or writes memory of a process that the caller may look into. `a`: bytes for it. data: bytes of it. `EPERM`.
    125 TraceMemory(
        /// One of its threads.
        tid: u32,
        /// `a` is written there.
        write: bool,
        /// Where.
        address: u64,
        /// How much, at most `DATA_BYTES`.
        bytes: u64
    ) -> Count;

    /// `process_madvise` of another process. `a`: ranges, each its address and how long it is, 8 bytes of either. Answers bytes. `EPERM`:
    /// the caller may not look into it, or has no `CAP_SYS_NICE`; `EINVAL`: of others' memory nothing like that is said.
    340 AdviseOther(
        /// The process.
        pid: u32,
        /// `MADV_*`
        advice: u32
    ) -> Count;
    /// Takes the [changes](crate::session::MoreFds) of descriptors of the caller, and of who has them in common with it.
    365 TakeFds() -> ();
    /// As `TraceMemory`, of the process whose memory was opened, whatever the protection of its pages. 0: nothing is left of it.
    /// Also reads a text that only the process knows; `address` counts from its start.
    126 MemoryFile(
        /// Description.
        desc: u32,
        /// `a` is written there.
        write: bool,
        /// Where.
        address: u64,
        /// How much, at most `DATA_BYTES`.
        bytes: u64
    ) -> Count;

    // Time and signals. All may answer `EINTR`.

    /// Sleeps.
    20 Sleep(
        /// How long.
        ns: u64
    ) -> ();
    /// Waits for a signal that is neither blocked nor ignored: always `EINTR`.
    21 Pause() -> ();
    /// Waits until a signal of the set is pending; the library then takes it from the header. Answers the set.
    /// `EAGAIN`: the time is over, or the description never waits.
    22 SigWait(
        /// A description of signals, whose set it is; or 0.
        desc: u32,
        /// Mask of signals, without a description.
        set: u64,
        /// How long, or `FOREVER`.
        ns: u64
    ) -> SignalSet;
    /// Sleeps until a clock of processor time says something. `EINVAL`: there is no such process, or no such thread of the caller's.
    279 SleepBy(
        /// Number of [the clock](crate::clocks).
        clock: u32,
        /// A process, or a thread of the caller's; 0: the caller's.
        of: u32,
        /// Until when, in nanoseconds.
        until: u64
    ) -> ();
    /// Sets an interval timer.
    23 SetTimer(
        /// 0 real, 1 virtual, 2 profiling.
        which: u32,
        /// Until it expires; 0 turns it off.
        value: u64,
        /// Period; 0 for none.
        interval: u64
    ) -> Timer;
    /// Reads an interval timer.
    24 GetTimer(
        /// 0 real, 1 virtual, 2 profiling.
        which: u32
    ) -> Timer;

    // Names. `a` is a path (without NUL) unless something else is said.

    /// Opens or creates a file. A fifo may wait for its other end.
    30 Open(
        /// Directory.
        dir: u32,
        /// `O_*`.
        flags: u32,
        /// Mode for a new file, mask applied.
        mode: u32,
        /// [`OPEN_EXEC`](crate::files::OPEN_EXEC), [`OPEN_KEEP`](crate::files::OPEN_KEEP) or 0, and `RESOLVE_*` from bit [`RESOLVE_SHIFT`](crate::files::RESOLVE_SHIFT) on. A file that is opened to be executed is opened
        /// with `O_RDONLY` alone, and is then as readable as others: it is the library that loads it.
        /// `ETXTBSY`: it is open for writing; or, without: it is being executed.
        extra: u32
    ) -> Opened;
    /// data: `struct stat`. With `AT_EMPTY_PATH` and no path: of the description `dir`.
    31 Stat(
        /// Directory.
        dir: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> Known;
    /// Checks access.
    32 Access(
        /// Directory.
        dir: u32,
        /// 4 read, 2 write, 1 execute, 0 exists.
        mode: u32,
        /// `AT_EACCESS`, `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// Makes a directory.
    33 Mkdir(
        /// Directory.
        dir: u32,
        /// Mode, mask applied.
        mode: u32
    ) -> ();
    /// Makes a device, fifo or regular file.
    34 Mknod(
        /// Directory.
        dir: u32,
        /// Type and mode, mask applied.
        mode: u32,
        /// Device number.
        dev: u64
    ) -> ();
    /// Removes a name.
    35 Unlink(
        /// Directory.
        dir: u32,
        /// `AT_REMOVEDIR` or 0.
        flags: u32
    ) -> ();
    /// Renames `a` to `b`.
    36 Rename(
        /// Directory of `a`.
        old_dir: u32,
        /// Directory of `b`.
        new_dir: u32,
        /// `RENAME_NOREPLACE`, `RENAME_EXCHANGE`.
        flags: u32
    ) -> ();
    /// Makes a second name `b` for `a`.
    37 Link(
        /// Directory of `a`.
        old_dir: u32,
        /// Directory of `b`.
        new_dir: u32,
        /// `AT_SYMLINK_FOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// Makes a symbolic link `b` with the text `a`.
    38 Symlink(
        /// Directory of `b`.
        dir: u32
    ) -> ();
    /// data: the text of a symbolic link.
    39 ReadLink(
        /// Directory.
        dir: u32
    ) -> Count;
    /// data: the first bytes of the value of an extended attribute with the name `b`, and how many there are; the others by `Rest`.
    131 GetXattr(
        /// Directory of `a`.
        dir: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> Count;
    /// data: the names of the extended attributes, each with a NUL; the first bytes, as with `GetXattr`.
    132 ListXattrs(
        /// Directory.
        dir: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> Count;
    /// Sets an extended attribute: `b` is its name, a NUL, and the value, or what `Give` has given before.
    133 SetXattr(
        /// Directory of `a`.
        dir: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32,
        /// `XATTR_CREATE` or `XATTR_REPLACE`.
        how: u32,
        /// The value was given before.
        parts: bool
    ) -> ();
    /// data: bytes of the last answer that was too long, from an offset on; with the end of it, it goes. `EAGAIN`: it is gone.
    140 Rest(
        /// First byte.
        offset: u32
    ) -> Count;
    /// Gives bytes of a long value, `a`, in order. `EAGAIN`: what was given before is gone.
    141 Give(
        /// First byte.
        offset: u32
    ) -> ();
    /// Removes the extended attribute with the name `b`.
    134 RemoveXattr(
        /// Directory of `a`.
        dir: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// Changes the mode.
    40 Chmod(
        /// Directory.
        dir: u32,
        /// Mode.
        mode: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// Changes the owner.
    41 Chown(
        /// Directory.
        dir: u32,
        /// User or `KEEP_ID`.
        uid: u32,
        /// Group or `KEEP_ID`.
        gid: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// Changes the times.
    42 SetTimes(
        /// Directory.
        dir: u32,
        /// Since 1970, or `TIME_NOW`, `TIME_OMIT`.
        atime: i64,
        /// Same.
        mtime: i64,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// Sets the size. With `AT_EMPTY_PATH`: of the description `dir`, which must be writable.
    43 Truncate(
        /// Directory.
        dir: u32,
        /// New size.
        size: u64,
        /// `AT_EMPTY_PATH`.
        flags: u32
    ) -> Inode;
    /// Sets the working directory. With `AT_EMPTY_PATH`: to the description `dir`.
    44 Chdir(
        /// Directory.
        dir: u32,
        /// `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// data: the path of the working directory, without NUL.
    45 GetCwd() -> Count;
    /// data: `struct statfs`, 120 bytes.
    46 StatFs(
        /// Directory.
        dir: u32,
        /// `AT_EMPTY_PATH`.
        flags: u32
    ) -> ();
    /// An unnamed file: shared anonymous memory, `memfd_create` (`a`: a name for `/proc`).
    47 MemFile(
        /// Its size.
        size: u64,
        /// It is a whole number of pages of 2 MiB, always.
        large: bool
    ) -> Opened;
    /// `memfd_create`: a file without a name that may be sealed. `a`: a name for it.
    240 MemFd(
        /// It is a whole number of pages of 2 MiB, always.
        large: bool,
        /// Seals may be added.
        sealable: bool,
        /// It may be executed; else it has the seal that this stays so.
        executable: bool
    ) -> Opened;
    /// Adds seals to such a file. Answers those that it has. `EPERM`: the caller may not; `EBUSY`: somebody has it mapped to be
    /// written to; `EINVAL`: it is another file.
    241 Seal(
        /// Description.
        desc: u32,
        /// [`files::seal`](crate::files::seal).
        seals: u32,
        /// Else they are only asked for.
        add: bool
    ) -> Count;
    /// The caller is about to map such a file so that it can store to it, and may then ask for its contents with the right to
    /// write. Answers 0 if that is sealed.
    242 MapSealable(
        /// Description, to read and write.
        desc: u32
    ) -> Count;
    /// It does not have it mapped so any more.
    243 UnmapSealable(
        /// Description.
        desc: u32
    ) -> Count;
    /// An unnamed file, for private memory of the caller: its children do not hold it.
    48 OwnMemory(
        /// Its size.
        size: u64,
        /// Its pages are of 2 MiB where there is room for them.
        large: bool,
        /// Memory is short: what is small is to leave it through this.
        relieves: bool
    ) -> Opened;
    /// A copy of such memory that the next child holds, as its own, instead of the caller.
    49 Heir(
        /// Description of the caller's.
        desc: u32
    ) -> Opened;
    /// A range of memory on its way from process to process: a file without a name with these contents, of which no byte is copied
    /// before somebody writes to it, at the same offsets; there is nothing before them, and nothing behind. `EXDEV`: it survives. `ENODATA`: the
    /// file ends before. `EPERM`: it is sealed.
    263 PassMemory(
        /// Description: private memory of the caller, or a file to read.
        desc: u32,
        /// The new file is private memory of the caller, as after `OwnMemory`.
        own: bool,
        /// It is taken out of the file, which the caller may write: the file ends there if that was its end, or has zeros there.
        takes: bool,
        /// The first byte, which begins a page.
        offset: u64,
        /// How many: whole pages.
        bytes: u64
    ) -> Opened;

    /// Such memory becomes larger, by zeros at its end. From then on the caller may make it larger itself (the kernel's `RaiseHere`), up to the byte that is
    /// answered: `ahead` bytes more, or fewer.
    190 OwnMore(
        /// Its description.
        desc: u32,
        /// Its new size. If it is not more, it stays as large as it is.
        size: u64,
        /// How much more it may become.
        ahead: u64
    ) -> Count;

    // Descriptions.

    /// The caller no longer holds these: `a` is an array of `u32`, as many as fit.
    50 Close() -> ();
    /// data: up to `bytes` bytes. Regular files: `EINVAL` (use `ReadBegin`).
    51 Read(
        /// Description.
        desc: u32,
        /// At most `DATA_BYTES`.
        bytes: u32
    ) -> Count;
    /// Writes `a`.
    52 Write(
        /// Description.
        desc: u32
    ) -> Count;
    /// What may be read of a regular file: moves the offset.
    53 ReadBegin(
        /// Description.
        desc: u32,
        /// Where, or `AT_OFFSET`.
        offset: u64,
        /// How many bytes are wanted.
        bytes: u64
    ) -> Part;
    /// `ReadBegin`, and the bytes are in the data area, no more than fit there: for few bytes of a file at which nobody looks
    /// through a window.
    138 ReadAt(
        /// Description.
        desc: u32,
        /// As for `ReadBegin`.
        offset: u64,
        /// How many bytes are wanted.
        bytes: u64
    ) -> Part;
    /// Makes room in a regular file: allocates, sets size and times, moves the offset. The
    /// library copies afterwards.
    54 WriteBegin(
        /// Description.
        desc: u32,
        /// Where, or `AT_OFFSET` (the end, if `O_APPEND`).
        offset: u64,
        /// How many bytes are to be written; less may be granted.
        bytes: u64
    ) -> Part;
    /// What has the contents of a regular file around `offset`. Answers a Morsel of all of it, or the Frame of a part of the
    /// boot archive, with `WRITE` if `write`. `EACCES`: the description is not readable.
    55 FileExtent(
        /// Description.
        desc: u32,
        /// Any byte in the file, or in its last page.
        offset: u64,
        /// The description is writable and the memory must be.
        write: bool,
        /// A Morsel is taken back before the file gets pages behind this byte, if it has none there now: the caller shows it so that they
        /// would be seen behind the end of a mapping. Or `NOT_BEHIND`.
        until: u64
    ) -> Extent;
    /// Memory for a page of a regular file that is mapped, of which the library has found that there is none. `ENOSPC`: there
    /// is none for this user.
    137 MakeRoom(
        /// Description.
        desc: u32,
        /// The page, which may have left memory: then it comes in. Or `NO_PAGE`.
        page: u64
    ) -> ();
    /// A page of a regular file comes in that has left memory. `ENOENT`: it has not; `EIO`: the disk does not give it back.
    203 BringIn(
        /// Description.
        desc: u32,
        /// The page.
        page: u64,
        /// No others come in with it.
        alone: bool
    ) -> ();
    /// A page of a regular file comes in that has left memory, with others that are probably wanted next. It may be there already. `ENOSPC`: there
    /// is no memory for this user; `EIO`: the disk does not give it back.
    283 Fetch(
        /// Description.
        desc: u32,
        /// The page.
        page: u64,
        /// Where the kernel has said that it is. From another slot nothing comes in.
        slot: u64
    ) -> ();
    /// Pages of a regular file leave memory, as many as can: `MADV_PAGEOUT`.
    204 PageOut(
        /// Description.
        desc: u32,
        /// The first page.
        first: u64,
        /// How many.
        pages: u64
    ) -> ();
    /// Pages of a regular file do not leave memory, or may again: `mlock`, `munlock`.
    205 Wire(
        /// Description.
        desc: u32,
        /// The first page.
        first: u64,
        /// How many.
        pages: u64,
        /// They stay.
        stays: bool
    ) -> ();
    /// There is no memory for what cannot leave it: what can is to make room. `ENOMEM`: nothing can.
    206 MakeMemory(
        /// Bytes.
        bytes: u64
    ) -> ();
    /// `fallocate`.
    129 Allocate(
        /// Description.
        desc: u32,
        /// `FALLOC_FL_*`.
        mode: u32,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64
    ) -> ();
    /// Answers when what was written to a part of a file survives, of whatever survives at all.
    130 Sync(
        /// Description.
        desc: u32,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64
    ) -> ();
    /// Has a file have what another has, without copying it.
    135 Clone(
        /// Description, to write.
        desc: u32,
        /// Description, to read.
        from: u32
    ) -> ();
    /// From now on a file is after a power failure as at its last `Sync`, the first of which is now; or no more.
    136 MakeAtomic(
        /// Description, to write.
        desc: u32,
        /// Is it?
        on: bool
    ) -> ();
    /// What is missing of a file, and is written to, is made in pages of 2 MiB from now on, where there are any; or no more.
    139 Advise(
        /// Description, to write.
        desc: u32,
        /// Is it?
        large: bool
    ) -> ();
    /// Writes `a` into a regular file. For descriptions that are not readable, for which there are no
    /// Frames: whoever could write through one could read.
    106 WriteAt(
        /// Description.
        desc: u32,
        /// Where, even if `O_APPEND`, so in what `WriteBegin` has granted; or `AT_OFFSET` (the end, if
        /// `O_APPEND`), which moves the offset.
        offset: u64
    ) -> Count;
    /// The bytes of a memory disk. `ENOTTY`: the description is of something else.
    127 DiskSize(
        /// Description.
        desc: u32
    ) -> Count;
    /// Moves bytes between a pipe and something else, inside the server. It waits until it can move something,
    /// and moves what it can then. `EINVAL`: neither is a pipe, both are the same, or the target appends.
    128 Splice(
        /// Description of a pipe to be read, or of a file; 0: the bytes are `a`.
        from: u32,
        /// Description of a pipe to be written, or of a file; 0: nothing is to be done with the bytes, or
        /// they are to be left in the data area.
        to: u32,
        /// Where in the file, if one of them is, or `AT_OFFSET`.
        at: u64,
        /// At most so many bytes.
        bytes: u64,
        /// [`files::splice`](crate::files::splice).
        flags: u32
    ) -> Count;
    /// Moves the offset.
    56 Seek(
        /// Description.
        desc: u32,
        /// By how much.
        offset: i64,
        /// `SEEK_*`.
        whence: u32
    ) -> Offset;
    /// data: `struct linux_dirent64`s.
    57 GetDents(
        /// Description.
        desc: u32,
        /// At most `DATA_BYTES`.
        bytes: u32
    ) -> Count;
    /// Flags (`F_GETFL`).
    58 GetFlags(
        /// Description.
        desc: u32
    ) -> Flags;
    /// Changes `O_APPEND` and `O_NONBLOCK` (`F_SETFL`).
    59 SetFlags(
        /// Description.
        desc: u32,
        /// `O_*`.
        flags: u32,
        /// The descriptor, which signals name if `O_ASYNC` is among them.
        fd: u32
    ) -> ();
    /// Whom signals tell that something can be read from a description, or written to it. `ESRCH`: there is nobody with that id.
    260 SetOwner(
        /// Description.
        desc: u32,
        /// `F_OWNER_*`
        kind: u32,
        /// Thread, process or group; 0 for nobody.
        id: u32
    ) -> ();
    /// Who that is, and which signal it is.
    261 GetOwner(
        /// Description.
        desc: u32
    ) -> Owner;
    /// Which signal it is.
    262 SetOwnerSignal(
        /// Description.
        desc: u32,
        /// The signal, which tells of what and of which descriptor; 0: `SIGIO`, and nothing with it.
        signal: u32
    ) -> ();
    /// Gives a description of a regular file a lease, changes it, or takes it away (`F_SETLEASE`). `EACCES`: it is somebody else's
    /// file. `EAGAIN`: others have it open in a way that conflicts, or a lease on it; there is none to be taken away.
    276 SetLease(
        /// Description.
        desc: u32,
        /// A kind of [`lock`](crate::files::lock): shared, to be told of those who write; exclusive, of all.
        kind: u32,
        /// The descriptor, which signals name.
        fd: u32
    ) -> ();
    /// The kind of the lease that a description has, or is to have soon (`F_GETLEASE`), as a number of
    /// [`lock`](crate::files::lock).
    277 GetLease(
        /// Description.
        desc: u32
    ) -> Count;
    /// Signals tell the process of what happens in a directory (`F_NOTIFY`). `ENOTDIR`: it is none.
    278 NotifyDir(
        /// Description.
        desc: u32,
        /// The descriptor, which signals name.
        fd: u32,
        /// [`DN_*`](crate::files::DN_MULTISHOT), besides what was said before; none of them: nothing any more.
        events: u64
    ) -> ();
    /// Input and output control: [`tty::shape`](crate::tty::shape) says what goes in `a` and
    /// what comes back in data. `ENOTTY` for what is no terminal (but `FIONREAD`).
    60 Ioctl(
        /// Description.
        desc: u32,
        /// Command.
        command: u32,
        /// The argument, when it is a plain number.
        value: u64
    ) -> Count;
    /// Waits until one of the entries in `a` ([`PollEntry`](crate::files::PollEntry)) is ready.
    /// data: the same array with `revents` set. Answers how many have any.
    61 Poll(
        /// How long, 0 not at all, or `FOREVER`.
        ns: u64,
        /// It ends, too, when there are `Changes`.
        watching: bool
    ) -> Count;
    /// The process watches descriptions from now on. `a`: for each the description and a token, 32
    /// bits each. data: for each a [`PollEntry`](crate::files::PollEntry) with the token for the
    /// description, `events` 1 if it is watched (else it has to be polled), and what is ready.
    69 Watch() -> Count;
    /// What has changed with the descriptions that the process watches. data: for each a
    /// [`PollEntry`](crate::files::PollEntry) with the token for the description, in `events` what
    /// came since the last time, and what is ready.
    70 Changes() -> Count;
    /// Makes a pipe.
    62 Pipe(
        /// `O_NONBLOCK` or 0.
        flags: u32
    ) -> PipeEnds;
    /// Makes a counter: an `eventfd` that other processes are about to share. `Read` and `Write` move 8 bytes.
    108 Event(
        /// What is in it.
        count: u64,
        /// Reads take one at a time.
        semaphore: bool,
        /// `O_NONBLOCK` or 0.
        flags: u32
    ) -> Opened;
    /// Makes a timer: a `timerfd` that other processes are about to share. `Read` gives 8 bytes: how often it
    /// has expired since the last time.
    109 Alarm(
        /// When it expires, nanoseconds since boot; 0: it is off.
        deadline: u64,
        /// Period; 0 for none.
        interval: u64,
        /// `O_NONBLOCK` or 0.
        flags: u32,
        /// Number of its clock.
        clock: u32
    ) -> Opened;
    /// Sets such a timer. Answers what it was. `ECANCELED`: the clock was set by which it is told that, which it was not told yet.
    110 SetAlarm(
        /// Description.
        desc: u32,
        /// When it expires on its clock, or in how many nanoseconds; 0 turns it off.
        value: u64,
        /// Period; 0 for none.
        interval: u64,
        /// `TFD_TIMER_ABSTIME`, `TFD_TIMER_CANCEL_ON_SET`.
        flags: u32
    ) -> Timer;
    /// Reads how such a timer is set.
    111 GetAlarm(
        /// Description.
        desc: u32
    ) -> Timer;
    /// Opens a process. The description is readable once the process has ended.
    112 OpenProcess(
        /// Its id.
        pid: u32,
        /// `O_NONBLOCK` or 0.
        flags: u32
    ) -> Opened;
    /// The id of such a process. `ESRCH`: nothing is left of it, and others may have its id.
    113 ProcessOf(
        /// Description.
        desc: u32
    ) -> Process;
    /// `Kill` of such a process, with the same `a`.
    114 KillOpened(
        /// Description.
        desc: u32,
        /// Signal.
        signal: u32,
        /// `si_code`.
        code: i32,
        /// `si_value`.
        value: u64,
        /// `PIDFD_SIGNAL_*`: to the process (0 or 2), to its first thread (1), or to the group of that number (4).
        to: u8
    ) -> ();
    /// Makes a set of `epoll` that processes share.
    115 Set() -> Opened;
    /// Changes such a set. `a`: events (4 bytes, then 4 of nothing) and what the program wants to be told (8).
    116 SetControl(
        /// Description of the set.
        set: u32,
        /// Description of the member.
        member: u32,
        /// Its second one, if it has two, or 0.
        second: u32,
        /// [`set_control`](crate::files::set_control).
        how: u32,
        /// The descriptor that the member is named by.
        fd: i32
    ) -> ();
    /// Waits until members of such a set have something to report. data: `struct epoll_event`s.
    117 SetWait(
        /// Description of the set.
        set: u32,
        /// At most so many.
        max: u32,
        /// How long, 0 not at all, or `FOREVER`.
        ns: u64
    ) -> Count;
    /// Makes a `signalfd`: readable while a signal of its set waits for whoever looks.
    118 Signals(
        /// Mask of signals.
        set: u64,
        /// `O_NONBLOCK` or 0.
        flags: u32
    ) -> Opened;
    /// Gives such a description another set.
    119 SetSignals(
        /// Description.
        desc: u32,
        /// Mask of signals.
        set: u64
    ) -> ();
    /// Reads from a pipe to what the caller lends with this call ([`lent`](crate::lent)), to be written to.
    63 PipeRead(
        /// Description.
        desc: u32,
        /// Bytes that it lends.
        bytes: u64,
        /// Bytes that this read has got already. If there are some, only what is there now comes (`EAGAIN`: nothing), and
        /// no more in all than the pipe holds.
        had: u64
    ) -> Piped;
    /// Writes to a pipe what the caller lends with this call, to be read: all of it, unless the description never
    /// waits.
    64 PipeWrite(
        /// Description.
        desc: u32,
        /// Bytes that it lends.
        bytes: u64,
        /// [`files::splice::SOME`](crate::files::splice::SOME): it waits for the first bytes only;
        /// [`NONBLOCK`](crate::files::splice::NONBLOCK): for none.
        flags: u32
    ) -> Piped;
    /// What a description is, for one that the caller holds but did not open (`Attach`).
    66 Describe(
        /// Description.
        desc: u32
    ) -> Opened;
    /// Sets or removes an advisory lock. `EAGAIN`: somebody else's is in the way. `EDEADLK`: the
    /// other one waits for the caller.
    67 SetLock(
        /// Description.
        desc: u32,
        /// [`lock`](crate::files::lock).
        how: u32,
        /// From where, relative to `WHENCE`.
        start: i64,
        /// Bytes, 0 for all behind, negative for those before.
        len: i64
    ) -> ();
    /// The advisory lock that is in the way of one.
    68 GetLock(
        /// Description.
        desc: u32,
        /// As of `SetLock`.
        how: u32,
        /// As of `SetLock`.
        start: i64,
        /// As of `SetLock`.
        len: i64
    ) -> Locked;

    // Sockets. An address is a `struct sockaddr`, with its family. Of a local one a path follows, with a NUL behind it or not; or
    // an abstract name, which begins with NUL.

    /// Makes a socket. `ESOCKTNOSUPPORT`, `EPROTONOSUPPORT`.
    142 Socket(
        /// `AF_*`.
        domain: u32,
        /// `IPPROTO_*`.
        protocol: u32,
        /// `SOCK_*`.
        kind: u32,
        /// `O_NONBLOCK`.
        flags: u32
    ) -> Opened;
    /// Makes two that are connected.
    143 SocketPair(
        /// `SOCK_*`.
        kind: u32,
        /// `O_NONBLOCK`.
        flags: u32
    ) -> PipeEnds;
    /// Gives a socket a name: `a`, or one that is free if there is nothing but the family.
    144 Bind(
        /// Description.
        desc: u32,
        /// Mode of the file.
        mode: u32
    ) -> ();
    /// Connects to the socket at `a`; to nobody if that is of no family.
    145 Connect(
        /// Description.
        desc: u32
    ) -> ();
    /// Accepts connections from now on.
    146 Listen(
        /// Description.
        desc: u32,
        /// So many may wait.
        backlog: u32
    ) -> ();
    /// The next connection.
    147 Accept(
        /// Description.
        desc: u32,
        /// `O_NONBLOCK` for the new one.
        flags: u32,
        /// The name of the other end is wanted.
        named: bool
    ) -> Accepted;
    /// Sends `a`. `b`: the descriptions that are passed along, 4 bytes each; process, user and group to be told, 4 bytes each;
    /// control messages; the address, if there is one.
    148 Send(
        /// Description.
        desc: u32,
        /// `MSG_DONTWAIT`, `MSG_NOSIGNAL`, `MSG_MORE`, `MSG_OOB`, `MSG_ZEROCOPY`, [`CONTINUES`](crate::sockets::CONTINUES),
        /// [`CONTINUED`](crate::sockets::CONTINUED).
        flags: u32,
        /// How many descriptions.
        rights: u32,
        /// The sender is told.
        tells: bool,
        /// Bytes of control messages.
        control: u32
    ) -> Count;
    /// Receives.
    149 Receive(
        /// Description.
        desc: u32,
        /// At most so many bytes.
        bytes: u32,
        /// `MSG_DONTWAIT`, `MSG_PEEK`, `MSG_OOB`, `MSG_ERRQUEUE`, and [`GOES_ON`](crate::sockets::GOES_ON) or
        /// [`REST`](crate::sockets::REST).
        flags: u32,
        /// At most so many descriptions.
        rights: u32
    ) -> Received;
    /// The name of a socket, or that of the other end. data: it.
    150 SocketName(
        /// Description.
        desc: u32,
        /// That of the other end.
        peer: bool
    ) -> Count;
    /// Nothing more is read, or sent.
    151 ShutDown(
        /// Description.
        desc: u32,
        /// `SHUT_*`.
        how: u32
    ) -> ();
    /// An option of a socket. data: 8 bytes, or others of `SO_PEERCRED` and `TCP_INFO`.
    152 GetSocketOption(
        /// Description.
        desc: u32,
        /// `SO_*`, or an option [of a level](crate::sockets::of_level).
        option: u32
    ) -> Count;
    /// Sets one.
    153 SetSocketOption(
        /// Description.
        desc: u32,
        /// As above.
        option: u32,
        /// Its value; of a time, nanoseconds; of `SO_LINGER`, the seconds in the upper half.
        value: u64
    ) -> ();
    /// Sets one whose value is a structure: `a`, of which there may be more.
    282 SetSocketBytes(
        /// Description.
        desc: u32,
        /// As above.
        option: u32
    ) -> ();

    // System V shared memory.

    /// `shmget`. Answers the id.
    154 GetSegment(
        /// The key.
        key: i32,
        /// Its size.
        bytes: u64,
        /// `IPC_*`, `SHM_HUGETLB`, and a mode.
        flags: u32
    ) -> Count;
    /// The file of a segment, to be mapped. `EACCES`.
    155 AttachSegment(
        /// Its id.
        id: u32,
        /// It will be written to.
        write: bool,
        /// It will be executed.
        execute: bool
    ) -> Opened;
    /// A segment was unmapped.
    156 DetachSegment(
        /// Its id.
        id: u32
    ) -> ();
    /// `shmctl`: what it answers. `a`: `struct shmid_ds` of `IPC_SET`. data: the structure that is asked for.
    157 ControlSegment(
        /// Its id, or its place.
        id: u32,
        /// `IPC_*`, `SHM_*`.
        command: u32
    ) -> Count;

    // Files that are watched.

    /// `inotify_init1`.
    168 Notify(
        /// `O_NONBLOCK` or 0.
        flags: u32
    ) -> Opened;
    /// `inotify_add_watch` of the file `a`. Answers the watch.
    169 AddWatch(
        /// Description.
        desc: u32,
        /// `IN_*`.
        mask: u32
    ) -> Count;
    /// `inotify_rm_watch`.
    170 RemoveWatch(
        /// Description.
        desc: u32,
        /// The watch.
        watch: i32
    ) -> ();
    /// `fanotify_init`. `EPERM`, `EINVAL`; `EMFILE`: the user has as many as he may.
    298 Fanotify(
        /// `FAN_*`.
        flags: u32,
        /// `O_*` for descriptors of events.
        event_flags: u32
    ) -> Opened;
    /// `fanotify_mark` of the file `a`.
    299 MarkFile(
        /// Description of the group; 0: it is none.
        desc: u32,
        /// `FAN_MARK_*`.
        flags: u32,
        /// `FAN_*`.
        mask: u64,
        /// Directory.
        dir: u32,
        /// There is no path: the description `dir` itself is meant.
        is_open: bool
    ) -> ();
    /// `name_to_handle_at` of the file `a`. `EOPNOTSUPP`: its file system has no handles.
    296 HandleOf(
        /// Directory.
        dir: u32,
        /// `AT_EMPTY_PATH`, `AT_SYMLINK_FOLLOW`.
        flags: u32
    ) -> FileHandle;
    /// `open_by_handle_at`. `EPERM` without `CAP_DAC_READ_SEARCH`; `ESTALE`: there is no such file in that file system.
    297 OpenHandle(
        /// What is open of the file system, or `CWD`.
        dir: u32,
        /// `O_*`.
        flags: u32,
        /// The handle: inode number.
        number: u32,
        /// The handle: generation.
        generation: u32
    ) -> Opened;
    /// What `WriteBegin` has granted was written.
    171 Wrote(
        /// Description.
        desc: u32
    ) -> ();

    /// As much as a pipe holds. `EBADF`: it is none.
    167 PipeSize(
        /// Description.
        desc: u32,
        /// Sets it to that, or a power of two above; 0: does not.
        bytes: u64
    ) -> Count;
    /// Lends the caller its end of a pipe, or one of its two of a stream of local sockets, so that bytes go to the other end, or come from there,
    /// without a request. Answered with four capabilities: the bytes, the words of this end and those of the other, and an Endpoint at which this end
    /// is notified. `EBUSY`: another process has this end. `EOPNOTSUPP`, `ENOSPC`, `ENOBUFS`, `ENOMEM`: it is not lent.
    380 LendEnd(
        /// Description.
        desc: u32,
        /// The end that it writes to.
        writes: bool
    ) -> LentEnd;
    /// Answered with a capability: an Endpoint that notifies the other end. `EAGAIN`: nobody has it lent.
    381 PeerBell(
        /// Description.
        desc: u32,
        /// The end that it writes to.
        writes: bool
    ) -> ();
    /// Has whoever sleeps at the other end look at it: the caller has lent its end, and nothing to notify the other one with.
    382 WakePeer(
        /// Description.
        desc: u32,
        /// The end that it writes to.
        writes: bool
    ) -> ();
    /// Gives an end back that was lent: nothing of what comes there, or goes, is lent any more.
    401 ReturnEnd(
        /// Description.
        desc: u32,
        /// The end that it writes to.
        writes: bool
    ) -> ();
    /// From now on the caller is notified when something comes to what its process watches, if it sleeps in its library. `ENOSPC`: too many threads are.
    400 SleepHere() -> ();
    /// `semget`. Answers the id.
    164 GetSemaphores(
        /// The key.
        key: i32,
        /// How many.
        count: u32,
        /// `IPC_*` and a mode.
        flags: u32
    ) -> Count;
    /// `semop`: does all operations in `a` (`struct sembuf`) at once, or waits until that can be done. `EAGAIN`: it cannot be done in
    /// that time, or there is one that does not wait. `EIDRM`: the set was removed.
    165 SemaphoreOps(
        /// The id.
        id: u32,
        /// How long, or `FOREVER`.
        ns: u64
    ) -> ();
    /// `semctl`: what it answers. `a`: `struct semid_ds` of `IPC_SET`, or the values of `SETALL`. data: what is asked for.
    166 ControlSemaphores(
        /// The id, or the place.
        id: u32,
        /// Which one.
        number: u32,
        /// `IPC_*`, `GETVAL`, …
        command: u32,
        /// Of `SETVAL`.
        value: i32
    ) -> Count;
    /// `msgget`. Answers the id.
    172 GetQueue(
        /// The key.
        key: i32,
        /// `IPC_*` and a mode.
        flags: u32
    ) -> Count;
    /// `msgsnd` of `a`, once there is room. `EIDRM`: the queue was removed.
    173 SendMessage(
        /// The id.
        id: u32,
        /// The kind of the message.
        kind: i64,
        /// `IPC_NOWAIT`.
        flags: u32
    ) -> ();
    /// `msgrcv`. data: the kind of the message, 8 bytes, then its bytes, of which there are so many.
    174 ReceiveMessage(
        /// The id.
        id: u32,
        /// At most so many bytes.
        bytes: u32,
        /// Which one is wanted.
        kind: i64,
        /// `IPC_NOWAIT`, `MSG_*`.
        flags: u32
    ) -> Count;
    /// `msgctl`: what it answers. `a`: `struct msqid_ds` of `IPC_SET`. data: what is asked for.
    175 ControlQueue(
        /// The id, or the place.
        id: u32,
        /// `IPC_*`, `MSG_*`.
        command: u32
    ) -> Count;
    /// `mq_open` of the queue `a`. `b`: `struct mq_attr`, if there is one.
    244 OpenMessages(
        /// `O_*`.
        flags: u32,
        /// Mode of a new queue, mask applied.
        mode: u32,
        /// Bytes that the queues of the user may need (`RLIMIT_MSGQUEUE`).
        limit: u64
    ) -> Opened;
    /// `mq_unlink` of `a`.
    245 UnlinkMessages() -> ();
    /// `mq_timedsend` of `a`.
    246 QueueSend(
        /// Description.
        desc: u32,
        /// Its priority.
        priority: u32,
        /// Until when it waits for room, nanoseconds since boot; 0: for ever.
        deadline: u64
    ) -> ();
    /// `mq_timedreceive`.
    247 QueueReceive(
        /// Description.
        desc: u32,
        /// Bytes that there is room for.
        bytes: u64,
        /// As of `QueueSend`.
        deadline: u64
    ) -> QueueMessage;
    /// `mq_notify`: the caller is told of the next message that comes while there is none.
    248 QueueNotify(
        /// Description.
        desc: u32,
        /// `SIGEV_*`, of [`mqueue`](crate::mqueue).
        how: u32,
        /// The signal; 0: none. Of `SIGEV_THREAD` the description of the socket; `a` is what comes to it.
        signal: u32,
        /// What comes with a signal.
        value: u64,
        /// Else no more.
        on: bool
    ) -> ();
    /// `mq_getsetattr`: what the queue was before.
    249 QueueAttributes(
        /// Description.
        desc: u32,
        /// `O_NONBLOCK`, or 0.
        flags: u32,
        /// They are set.
        set: bool
    ) -> QueueState;
    /// How `/proc/PID/fd` names a description. data: it.
    163 PathOf(
        /// Description.
        desc: u32
    ) -> Count;

    // Timers that a process makes. They are gone with the program.

    /// Makes a timer. Answers its number, in which its clock is. `EAGAIN`: there are too many, or too many signals wait.
    158 MakeTimer(
        /// The signal that it posts; 0: none. With [`OWN_VALUE`](crate::clocks::OWN_VALUE).
        signal: u32,
        /// To this thread; 0: to the process.
        thread: u32,
        /// What comes with the signal.
        value: u64,
        /// Number of its clock.
        clock: u32,
        /// Whose, of [`clocks`](crate::clocks) of processor time: a process, or a thread of the caller's; 0: the caller's.
        of: u32
    ) -> Count;
    /// Sets it. Answers what it was.
    159 SetPosixTimer(
        /// Its number.
        id: u32,
        /// Until it expires; 0 turns it off.
        value: u64,
        /// Its period, 0 for none.
        interval: u64,
        /// That is a time of its clock.
        absolute: bool
    ) -> Timer;
    /// How it is set.
    160 GetPosixTimer(
        /// Its number.
        id: u32
    ) -> Timer;
    /// How often more it had expired when it posted its signal last.
    161 TimerOverrun(
        /// Its number.
        id: u32
    ) -> Count;
    /// Gives it up.
    162 DeleteTimer(
        /// Its number.
        id: u32
    ) -> ();

    // The system.

    /// What `sysinfo` says: words of 8 bytes in data, as they begin there, up to the number of processes.
    80 SystemInfo() -> Count;
    /// Counts a system call that is not there, or not in the way in which it was asked for.
    81 RefusedCall(
        /// Its number.
        number: u64,
        /// What it was answered.
        error: u32
    ) -> ();
    /// Writes `a` to the kernel log, one line.
    82 Log() -> ();
    /// `mount` on the directory or file `b`. `a`: the type, NUL, the source, NUL, and options.
    200 Mount(
        /// `MS_*`.
        flags: u64,
        /// A type is given.
        has_kind: bool
    ) -> ();
    /// Ends what is shown in the directory `a`.
    201 Unmount(
        /// `UMOUNT_NOFOLLOW` and others.
        flags: u32
    ) -> ();
    /// `fsopen`: begins a file system of the type `a`. `EPERM`, `ENODEV`.
    320 OpenFs() -> Opened;
    /// `fspick`: a file system that is mounted at `a` is to be changed.
    321 PickFs(
        /// Where a relative path begins.
        dir: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> Opened;
    /// `fsconfig`: `a` is the key, `b` the value.
    322 ConfigureFs(
        /// Of `OpenFs` or `PickFs`.
        desc: u32,
        /// `FSCONFIG_*`.
        command: u32
    ) -> ();
    /// `fsmount`: mounts what was made at no place.
    323 MountFs(
        /// Of `OpenFs`.
        desc: u32,
        /// `MOUNT_ATTR_*`.
        attributes: u32
    ) -> Opened;
    /// `open_tree`: a copy of the mounts at `a`, at no place (`OPEN_TREE_CLONE`), or, where `a` is empty, the place that is open.
    324 OpenTree(
        /// Where a relative path begins.
        dir: u32,
        /// `OPEN_TREE_CLONE`, `AT_RECURSIVE`, `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`.
        flags: u32
    ) -> Opened;
    /// `move_mount`: what is mounted at `a` is to be at `b`.
    325 MoveMount(
        /// Where `a` begins.
        from: u32,
        /// Where `b` begins.
        to: u32,
        /// `MOVE_MOUNT_*`.
        flags: u32
    ) -> ();
    /// `mount_setattr`: changes what is mounted at `a`.
    326 SetMount(
        /// Where a relative path begins.
        dir: u32,
        /// `AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`, `AT_RECURSIVE`.
        flags: u32,
        /// `MOUNT_ATTR_*` that it has from now on.
        set: u32,
        /// Those that it has no more; they are looked at first.
        clear: u32,
        /// `MS_SHARED` and the like, or 0.
        propagation: u32
    ) -> ();
    /// Returns when everything is stored on all disks.
    202 SyncDisks() -> ();
    /// The directory `a` is the root of the process from now on.
    221 Chroot() -> ();
    /// The mount at `a` becomes the root of the mount name space; what that was is mounted at `b`.
    222 PivotRoot() -> ();
    /// `unshare`.
    223 Unshare(
        /// `CLONE_*`.
        flags: u32
    ) -> ();
    /// `setns`.
    224 EnterSpace(
        /// Description of a name space, or of a process.
        desc: u32,
        /// `CLONE_NEW*`; 0: of any kind.
        kinds: u32
    ) -> ();
    /// Opens the name space around one that is open (`NS_GET_PARENT`), or the user name space that it belongs to (`NS_GET_USERNS`); of a socket of the
    /// internet, its network name space (`SIOCGSKNS`), for who has `CAP_NET_ADMIN` there.
    /// `EPERM`: it is neither the caller's nor inside of that. `EINVAL`: ones of this kind are in no other. `ENOTTY`: it is no name space.
    294 OpenSpaceAround(
        /// Description of a name space, or of a socket.
        desc: u32,
        /// Around it, else what it belongs to.
        is_parent: bool
    ) -> Opened;
    /// The kind of a name space that is open, as `CLONE_NEW*` (`NS_GET_NSTYPE`), or who has made it (`NS_GET_OWNER_UID`). `EINVAL`: that
    /// is known of user name spaces only. `ENOTTY`: it is no name space.
    295 SpaceFact(
        /// Description of a name space.
        desc: u32,
        /// Who has made it, else its kind.
        is_owner: bool
    ) -> Count;
    /// Sets the name of the host to `a`, or that of the domain. `EPERM`, `EINVAL`.
    225 SetHostName(
        /// That of the domain.
        domain: bool
    ) -> ();
    /// The names of host and domain. data: both, each with a NUL behind.
    226 HostNames() -> Count;
    /// Pages leave memory for the disk of pages at `a` from now on. `EINVAL`: it is no such disk, or has no header of one; `EBUSY`: they do
    /// already.
    290 SwapOn(
        /// `SWAP_FLAG_*`.
        flags: u32
    ) -> ();
    /// The disk of pages at `a` is not used any more; what is on it comes back first. `EINVAL`: it is not used; `ENOMEM`: there is no
    /// memory for all that.
    291 SwapOff() -> ();
    /// Memory is short for what cannot leave it. Answers of how many pages of its own the caller is to make such as can; 0: others have done
    /// so, or need not. `ENOSYS`: there is no disk. `ENOMEM`: nobody can make room.
    256 Relieve(
        /// How many the caller can make so, at most.
        pages: u64,
        /// How often it has found none. 0: there is little.
        tries: u32
    ) -> Count;
    /// Sets the clock that counts from 1970. `EPERM` without `CAP_SYS_TIME`; `EINVAL`: so long the machine has been running.
    258 SetClock(
        /// Nanoseconds since 1970.
        ns: u64
    ) -> ();
    /// Gives kinds of requests up, for the process and for all that it makes and executes; they are refused with `EPERM` from
    /// now on. `EACCES`: it could still execute a program that has more rights than itself, and has no `CAP_SYS_ADMIN`.
    257 Forgo(
        /// [Kinds](crate::forgo), besides those that are given up.
        kinds: u32,
        /// How its calls are filtered, as `/proc` says it: 0 not, 1 strictly, 2 by programs.
        mode: u8,
        /// How many programs that are.
        filters: u32
    ) -> ();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_cross() {
        let request = op::Kill { pid: -1, signal: 9, code: -6, value: u64::MAX };
        let words = request.encode(3, 4);
        assert_eq!(Any::decode(&words), Ok(Any::Kill(request)));
        assert_eq!(lengths(&words), Ok((3, 4)));
    }

    #[test]
    fn hostile_words_are_errors() {
        assert_eq!(Any::decode(&[0xffff, 0, 0, 0, 0, 0]), Err(Errno::ENOSYS));
        assert_eq!(Any::decode(&[55, 1 << 32, 0, 0, 0, 0]), Err(Errno::EINVAL));
        assert_eq!(lengths(&[u64::MAX; 6]), Err(Errno::EINVAL));
    }

    #[test]
    fn answers_cross() {
        let part = Part { inode: 7, layout: 1, offset: 2, bytes: 3, tell: true };
        assert_eq!(Part::decode(&part.encode()), Ok(part));
        assert_eq!(Part::decode(&error_words(Errno::EINTR)), Err(Errno::EINTR));
    }
}
