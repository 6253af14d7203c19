//! The table of system calls: number, name, and the function with the types of its arguments.

use super::*;
use crate::errno::Result;
use crate::exec;
use crate::fd::kinds::{epoll, event, mqueue, notices, pidfd, pipe, signals, timer, userfault};
use crate::fork;
use crate::mm::calls as memory;
use crate::process::{Needs, Process};
use crate::signal::calls;
use crate::thread::restart;
use crate::trace::tracer;
use abi::Regs;

/// A system call.
pub struct Call {
    pub name: &'static str,
    pub run: fn(&mut Process, &mut Regs) -> Result<u64>,
}

/// What a handler may answer: a result, or a value when nothing can go wrong.
trait Outcome {
    fn outcome(self) -> Result<u64>;
}

impl Outcome for u64 {
    #[inline(always)]
    fn outcome(self) -> Result<u64> {
        Ok(self)
    }
}

impl Outcome for Result<u64> {
    #[inline(always)]
    fn outcome(self) -> Result<u64> {
        self
    }
}

/// Calls a handler with what it needs of the process, and as many argument registers as it has arguments, each cut to its type.
macro_rules! apply {
    ($f:path, $p:ident, $r:ident, regs) => {
        $f(Needs::of($p), $r)
    };
    ($f:path, $p:ident, $r:ident,) => {{
        // Calls without registers.
        let _ = $r;
        $f(Needs::of($p))
    }};
    ($f:path, $p:ident, $r:ident, $a:ty) => {
        $f(Needs::of($p), $r.rdi as $a)
    };
    ($f:path, $p:ident, $r:ident, $a:ty, $b:ty) => {
        $f(Needs::of($p), $r.rdi as $a, $r.rsi as $b)
    };
    ($f:path, $p:ident, $r:ident, $a:ty, $b:ty, $c:ty) => {
        $f(Needs::of($p), $r.rdi as $a, $r.rsi as $b, $r.rdx as $c)
    };
    ($f:path, $p:ident, $r:ident, $a:ty, $b:ty, $c:ty, $d:ty) => {
        $f(Needs::of($p), $r.rdi as $a, $r.rsi as $b, $r.rdx as $c, $r.r10 as $d)
    };
    ($f:path, $p:ident, $r:ident, $a:ty, $b:ty, $c:ty, $d:ty, $e:ty) => {
        $f(Needs::of($p), $r.rdi as $a, $r.rsi as $b, $r.rdx as $c, $r.r10 as $d, $r.r8 as $e)
    };
    ($f:path, $p:ident, $r:ident, $a:ty, $b:ty, $c:ty, $d:ty, $e:ty, $g:ty) => {
        $f(
            Needs::of($p),
            $r.rdi as $a,
            $r.rsi as $b,
            $r.rdx as $c,
            $r.r10 as $d,
            $r.r8 as $e,
            $r.r9 as $g,
        )
    };
}

const NUMBERS: usize = 470;

macro_rules! calls {
    ($($number:literal $name:ident $f:path, ($($args:tt)*);)*) => {
        /// Every call, by its number.
        pub static CALLS: [Option<Call>; NUMBERS] = {
            let mut calls = [const { None }; NUMBERS];
            $(calls[$number] = Some(Call {
                name: stringify!($name),
                run: |p, r| Outcome::outcome(apply!($f, p, r, $($args)*)),
            });)*
            calls
        };
    };
}

calls! {
    // Tracing.
    101 ptrace tracer::ptrace, (u64, i32, u64, u64);
    310 process_vm_readv tracer::process_vm_readv, (i32, u64, u64, u64, u64, u64);
    311 process_vm_writev tracer::process_vm_writev, (i32, u64, u64, u64, u64, u64);

    // Reading and writing.
    0 read readwrite::read, (i32, u64, u64);
    1 write readwrite::write, (i32, u64, u64);
    8 lseek readwrite::lseek, (i32, i64, u32);
    17 pread64 readwrite::pread64, (i32, u64, u64, i64);
    18 pwrite64 readwrite::pwrite64, (i32, u64, u64, i64);
    19 readv readwrite::readv, (i32, u64, u64);
    20 writev readwrite::writev, (i32, u64, u64);
    40 sendfile moves::sendfile, (i32, i32, u64, u64);
    74 fsync readwrite::fsync, (i32);
    75 fdatasync readwrite::fsync, (i32);
    78 getdents readwrite::getdents, (i32, u64, u32);
    162 sync readwrite::sync, ();
    187 readahead readwrite::readahead, (i32);
    217 getdents64 readwrite::getdents64, (i32, u64, u32);
    221 fadvise64 readwrite::fadvise64, (i32, i64, i64, u32);
    275 splice moves::splice, (i32, u64, i32, u64, u64, u32);
    276 tee moves::tee, (i32, i32, u64, u32);
    277 sync_file_range readwrite::sync_file_range, (i32, i64, i64, u32);
    278 vmsplice moves::vmsplice, (i32, u64, u64, u32);
    295 preadv readwrite::preadv, (i32, u64, u64, i64);
    296 pwritev readwrite::pwritev, (i32, u64, u64, i64);
    306 syncfs readwrite::fsync, (i32);
    326 copy_file_range moves::copy_file_range, (i32, u64, i32, u64, u64, u32);
    327 preadv2 readwrite::preadv2, (i32, u64, u64, i64, u64, u32);
    328 pwritev2 readwrite::pwritev2, (i32, u64, u64, i64, u64, u32);

    // Asynchronous reading and writing.
    206 io_setup aio::io_setup, (u32, u64);
    207 io_destroy aio::io_destroy, (u64);
    208 io_getevents aio::io_getevents, (u64, i64, i64, u64, u64);
    209 io_submit aio::io_submit, (u64, i64, u64);
    210 io_cancel aio::io_cancel, (u64, u64, u64);
    333 io_pgetevents aio::io_pgetevents, (u64, i64, i64, u64, u64, u64);

    // Names.
    2 open names::open, (u64, u32, u32);
    76 truncate attributes::truncate, (u64, i64);
    79 getcwd names::getcwd, (u64, u64);
    80 chdir names::chdir, (u64);
    81 fchdir names::fchdir, (i32);
    82 rename names::rename, (u64, u64);
    83 mkdir names::mkdir, (u64, u32);
    84 rmdir names::rmdir, (u64);
    85 creat names::creat, (u64, u32);
    86 link names::link, (u64, u64);
    87 unlink names::unlink, (u64);
    88 symlink names::symlink, (u64, u64);
    89 readlink names::readlink, (u64, u64, i32);
    95 umask names::umask, (u32);
    133 mknod names::mknod, (u64, u32, u64);
    257 openat names::openat, (i32, u64, u32, u32);
    258 mkdirat names::mkdirat, (i32, u64, u32);
    259 mknodat names::mknodat, (i32, u64, u32, u64);
    263 unlinkat names::unlinkat, (i32, u64, u32);
    264 renameat names::renameat, (i32, u64, i32, u64);
    265 linkat names::linkat, (i32, u64, i32, u64, u32);
    266 symlinkat names::symlinkat, (u64, i32, u64);
    267 readlinkat names::readlinkat, (i32, u64, u64, i32);
    316 renameat2 names::renameat2, (i32, u64, i32, u64, u32);
    319 memfd_create names::memfd_create, (u64, u32);
    437 openat2 names::openat2, (i32, u64, u64, u64);

    // Attributes.
    4 stat attributes::stat, (u64, u64);
    5 fstat attributes::fstat, (i32, u64);
    6 lstat attributes::lstat, (u64, u64);
    21 access attributes::access, (u64, u32);
    77 ftruncate attributes::ftruncate, (i32, i64);
    90 chmod attributes::chmod, (u64, u32);
    91 fchmod attributes::fchmod, (i32, u32);
    92 chown attributes::chown, (u64, u32, u32);
    93 fchown attributes::fchown, (i32, u32, u32);
    94 lchown attributes::lchown, (u64, u32, u32);
    132 utime attributes::utime, (u64, u64);
    137 statfs attributes::statfs, (u64, u64);
    136 ustat attributes::ustat, (u32, u64);
    139 sysfs attributes::sysfs, (u32, u64, u64);
    138 fstatfs attributes::fstatfs, (i32, u64);
    235 utimes attributes::utimes, (u64, u64);
    260 fchownat attributes::fchownat, (i32, u64, u32, u32, u32);
    261 futimesat attributes::futimesat, (i32, u64, u64);
    303 name_to_handle_at handles::name_to_handle_at, (i32, u64, u64, u64, u32);
    304 open_by_handle_at handles::open_by_handle_at, (i32, u64, u32);
    262 newfstatat attributes::newfstatat, (i32, u64, u64, u32);
    268 fchmodat attributes::fchmodat, (i32, u64, u32);
    269 faccessat attributes::faccessat, (i32, u64, u32);
    280 utimensat attributes::utimensat, (i32, u64, u64, u32);
    285 fallocate attributes::fallocate, (i32, u32, i64, i64);
    332 statx attributes::statx, (i32, u64, u32, u32, u64);
    439 faccessat2 attributes::faccessat2, (i32, u64, u32, u32);
    452 fchmodat2 attributes::fchmodat2, (i32, u64, u32, u32);

    // Timers that a program makes.
    222 timer_create timers::timer_create, (u32, u64, u64);
    223 timer_settime timers::timer_settime, (u32, u32, u64, u64);
    224 timer_gettime timers::timer_gettime, (u32, u64);
    225 timer_getoverrun timers::timer_getoverrun, (u32);
    226 timer_delete timers::timer_delete, (u32);

    159 adjtimex time::adjtimex, (u64);
    305 clock_adjtime time::clock_adjtime, (u32, u64);

    // POSIX message queues.
    240 mq_open mqueue::mq_open, (u64, u32, u32, u64);
    241 mq_unlink mqueue::mq_unlink, (u64);
    242 mq_timedsend mqueue::mq_timedsend, (i32, u64, u64, u32, u64);
    243 mq_timedreceive mqueue::mq_timedreceive, (i32, u64, u64, u64, u64);
    244 mq_notify mqueue::mq_notify, (i32, u64);
    245 mq_getsetattr mqueue::mq_getsetattr, (i32, u64, u64);

    // Semaphores.
    68 msgget messages::msgget, (i32, u32);
    69 msgsnd messages::msgsnd, (u32, u64, u64, u32);
    70 msgrcv messages::msgrcv, (u32, u64, u64, i64, u32);
    71 msgctl messages::msgctl, (u32, u32, u64);
    64 semget semaphores::semget, (i32, u32, u32);
    65 semop semaphores::semop, (u32, u64, u64);
    66 semctl semaphores::semctl, (u32, u32, u32, u64);
    220 semtimedop semaphores::semtimedop, (u32, u64, u64, u64);

    // Shared memory.
    29 shmget segments::shmget, (i32, u64, u32);
    30 shmat segments::shmat, (u32, u64, u32);
    31 shmctl segments::shmctl, (u32, u32, u64);
    67 shmdt segments::shmdt, (u64);

    // Sockets.
    41 socket sockets::socket, (u32, u32, u32);
    42 connect sockets::connect, (i32, u64, u32);
    43 accept sockets::accept, (i32, u64, u64);
    44 sendto sockets::sendto, (i32, u64, u64, u32, u64, u32);
    45 recvfrom sockets::recvfrom, (i32, u64, u64, u32, u64, u64);
    46 sendmsg sockets::sendmsg, (i32, u64, u32);
    47 recvmsg sockets::recvmsg, (i32, u64, u32);
    48 shutdown sockets::shutdown, (i32, u32);
    49 bind sockets::bind, (i32, u64, u32);
    50 listen sockets::listen, (i32, i32);
    51 getsockname sockets::getsockname, (i32, u64, u64);
    52 getpeername sockets::getpeername, (i32, u64, u64);
    53 socketpair sockets::socketpair, (u32, u32, u32, u64);
    54 setsockopt sockets::setsockopt, (i32, u32, u32, u64, u32);
    55 getsockopt sockets::getsockopt, (i32, u32, u32, u64, u64);
    288 accept4 sockets::accept4, (i32, u64, u64, u32);
    299 recvmmsg sockets::recvmmsg, (i32, u64, u32, u32, u64);
    307 sendmmsg sockets::sendmmsg, (i32, u64, u32, u32);

    // Descriptors.
    3 close descriptors::close, (i32);
    16 ioctl ioctl::ioctl, (i32, u32, u64);
    22 pipe pipe::pipe, (u64);
    32 dup descriptors::dup, (i32);
    33 dup2 descriptors::dup2, (i32, i32);
    72 fcntl descriptors::fcntl, (i32, u32, u64);
    73 flock locks::flock, (i32, u32);
    284 eventfd event::eventfd, (u32);
    253 inotify_init notices::inotify_init, ();
    254 inotify_add_watch notices::inotify_add_watch, (i32, u64, u32);
    255 inotify_rm_watch notices::inotify_rm_watch, (i32, i32);
    300 fanotify_init notices::fanotify_init, (u32, u32);
    301 fanotify_mark notices::fanotify_mark, (i32, u32, u64, i32, u64);
    294 inotify_init1 notices::inotify_init1, (u32);
    282 signalfd signals::signalfd, (i32, u64, u64);
    289 signalfd4 signals::signalfd4, (i32, u64, u64, u32);
    290 eventfd2 event::eventfd2, (u32, u32);
    292 dup3 descriptors::dup3, (i32, i32, u32);
    293 pipe2 pipe::pipe2, (u64, u32);
    436 close_range descriptors::close_range, (u32, u32, u32);

    // Memory.
    9 mmap memory::mmap, (u64, u64, u32, u32, i32, u64);
    10 mprotect memory::mprotect, (u64, u64, u32);
    329 pkey_mprotect memory::pkey_mprotect, (u64, u64, u32, i32);
    330 pkey_alloc memory::pkey_alloc, (u64, u64);
    331 pkey_free memory::pkey_free, (i32);
    11 munmap memory::munmap, (u64, u64);
    12 brk memory::brk, (u64);
    25 mremap memory::mremap, (u64, u64, u64, u32, u64);
    26 msync memory::msync, (u64, u64, u32);
    27 mincore memory::mincore, (u64, u64, u64);
    28 madvise memory::madvise, (u64, u64, u32);
    149 mlock memory::mlock, (u64, u64);
    150 munlock memory::munlock, (u64, u64);
    151 mlockall memory::mlockall, (u32);
    152 munlockall memory::munlockall, ();
    325 mlock2 memory::mlock2, (u64, u64, u32);
    323 userfaultfd userfault::userfaultfd, (u32);
    216 remap_file_pages numa::remap_file_pages, (u64, u64, u64, u64);
    237 mbind numa::mbind, (u64, u64, u32, u64, u64, u32);
    238 set_mempolicy numa::set_mempolicy, (u32, u64, u64);
    239 get_mempolicy numa::get_mempolicy, (u64, u64, u64, u64, u64);
    256 migrate_pages numa::migrate_pages, (i32, u64, u64, u64);
    279 move_pages numa::move_pages, (i32, u64, u64, u64, u64, u32);
    440 process_madvise memory::process_madvise, (i32, u64, u64, u32, u32);

    // Waiting for several.
    7 poll polling::poll, (u64, u32, i32);
    23 select polling::select, (i32, u64, u64, u64, u64);
    213 epoll_create epoll::epoll_create, (i32);
    232 epoll_wait epoll::epoll_wait, (i32, u64, i32, i32);
    233 epoll_ctl epoll::epoll_ctl, (i32, u32, i32, u64);
    270 pselect6 polling::pselect6, (i32, u64, u64, u64, u64, u64);
    271 ppoll polling::ppoll, (u64, u32, u64, u64, u64);
    281 epoll_pwait epoll::epoll_pwait, (i32, u64, i32, i32, u64, u64);
    291 epoll_create1 epoll::epoll_create1, (u32);
    441 epoll_pwait2 epoll::epoll_pwait2, (i32, u64, i32, u64, u64, u64);

    // Processes.
    39 getpid processes::getpid, ();
    56 clone fork::clone, (regs);
    57 fork fork::fork, (regs);
    58 vfork fork::vfork, (regs);
    435 clone3 fork::clone3, (regs);
    59 execve exec::execve, (regs);
    322 execveat exec::execveat, (regs);
    60 exit processes::exit, (regs);
    61 wait4 processes::wait4, (i32, u64, u32, u64);
    62 kill processes::kill, (i32, u32);
    102 getuid processes::getuid, ();
    104 getgid processes::getgid, ();
    105 setuid processes::setuid, (u32);
    106 setgid processes::setgid, (u32);
    107 geteuid processes::geteuid, ();
    108 getegid processes::getegid, ();
    109 setpgid processes::setpgid, (i32, i32);
    110 getppid processes::getppid, ();
    111 getpgrp processes::getpgrp, ();
    112 setsid processes::setsid, ();
    113 setreuid processes::setreuid, (u32, u32);
    114 setregid processes::setregid, (u32, u32);
    115 getgroups processes::getgroups, (i32, u64);
    116 setgroups processes::setgroups, (i32, u64);
    117 setresuid processes::setresuid, (u32, u32, u32);
    118 getresuid processes::getresuid, (u64, u64, u64);
    119 setresgid processes::setresgid, (u32, u32, u32);
    120 getresgid processes::getresgid, (u64, u64, u64);
    121 getpgid processes::getpgid, (i32);
    122 setfsuid processes::setfsuid, (u32);
    123 setfsgid processes::setfsgid, (u32);
    124 getsid processes::getsid, (i32);
    129 rt_sigqueueinfo processes::rt_sigqueueinfo, (i32, u32, u64);
    186 gettid thread::gettid, ();
    200 tkill processes::tkill, (i32, u32);
    231 exit_group processes::exit_group, (regs);
    234 tgkill processes::tgkill, (i32, i32, u32);
    247 waitid processes::waitid, (u32, i32, u64, u32, u64);
    424 pidfd_send_signal pidfd::pidfd_send_signal, (i32, u32, u64, u32);
    434 pidfd_open pidfd::pidfd_open, (i32, u32);
    438 pidfd_getfd pidfd::pidfd_getfd, (i32, i32, u32);
    448 process_mrelease pidfd::process_mrelease, (i32, u32);
    312 kcmp pidfd::kcmp, (i32, i32, u32, u64, u64);

    // Signals.
    13 rt_sigaction calls::rt_sigaction, (u32, u64, u64, u64);
    14 rt_sigprocmask calls::rt_sigprocmask, (u32, u64, u64, u64);
    15 rt_sigreturn calls::rt_sigreturn, (regs);
    34 pause calls::pause, ();
    127 rt_sigpending calls::rt_sigpending, (u64, u64);
    128 rt_sigtimedwait calls::rt_sigtimedwait, (u64, u64, u64, u64);
    130 rt_sigsuspend calls::rt_sigsuspend, (u64, u64);
    131 sigaltstack calls::sigaltstack, (regs);
    219 restart_syscall calls::restart_syscall, ();
    297 rt_tgsigqueueinfo calls::rt_tgsigqueueinfo, (i32, i32, u32, u64);

    // The thread and its scheduling.
    24 sched_yield scheduling::sched_yield, ();
    125 capget privilege::capget, (u64, u64);
    126 capset privilege::capset, (u64, u64);
    135 personality thread::personality, (u32);
    140 getpriority scheduling::getpriority, (u32, i32);
    141 setpriority scheduling::setpriority, (u32, i32, i32);
    142 sched_setparam scheduling::sched_setparam, (i32, u64);
    143 sched_getparam scheduling::sched_getparam, (i32, u64);
    144 sched_setscheduler scheduling::sched_setscheduler, (i32, u32, u64);
    145 sched_getscheduler scheduling::sched_getscheduler, (i32);
    146 sched_get_priority_max scheduling::sched_get_priority_max, (u32);
    147 sched_get_priority_min scheduling::sched_get_priority_min, (u32);
    148 sched_rr_get_interval scheduling::sched_rr_get_interval, (i32, u64);
    314 sched_setattr scheduling::sched_setattr, (i32, u64, u32);
    315 sched_getattr scheduling::sched_getattr, (i32, u64, u32, u32);
    157 prctl thread::prctl, (u32, u64, u64, u64, u64);
    317 seccomp seccomp::seccomp, (u32, u32, u64);
    158 arch_prctl thread::arch_prctl, (u32, u64);
    202 futex futex::futex, (u64, u32, u32, u64, u64, u32);
    449 futex_waitv futex2::futex_waitv, (u64, u32, u32, u64, u32);
    454 futex_wake futex2::futex_wake, (u64, u64, i32, u32);
    455 futex_wait futex2::futex_wait, (u64, u64, u64, u32, u64, u32);
    456 futex_requeue futex2::futex_requeue, (u64, u32, i32, i32);
    203 sched_setaffinity scheduling::sched_setaffinity, (i32, u32, u64);
    204 sched_getaffinity scheduling::sched_getaffinity, (i32, u32, u64);
    218 set_tid_address thread::set_tid_address, (u64);
    251 ioprio_set scheduling::ioprio_set, (u32, i32, u32);
    252 ioprio_get scheduling::ioprio_get, (u32, i32);
    273 set_robust_list robust::set_robust_list, (u64, u64);
    274 get_robust_list robust::get_robust_list, (i32, u64, u64);
    309 getcpu scheduling::getcpu, (u64, u64);
    324 membarrier membarrier::membarrier, (u32, u32, i32);
    334 rseq restart::rseq, (u64, u32, u32, u32);

    // Limits and the system.
    63 uname info::uname, (u64);
    97 getrlimit limits::getrlimit, (u32, u64);
    98 getrusage limits::getrusage, (i32, u64);
    99 sysinfo info::sysinfo, (u64);
    103 syslog info::syslog, (u32);
    160 setrlimit limits::setrlimit, (u32, u64);
    302 prlimit64 limits::prlimit64, (u32, u32, u64, u64);
    318 getrandom random::getrandom, (u64, u64, u32);

    // Time.
    35 nanosleep time::nanosleep, (u64, u64);
    36 getitimer timers::getitimer, (u32, u64);
    37 alarm timers::alarm, (u32);
    38 setitimer timers::setitimer, (u32, u64, u64);
    96 gettimeofday time::gettimeofday, (u64, u64);
    100 times time::times, (u64);
    164 settimeofday time::settimeofday, (u64, u64);
    201 time time::time, (u64);
    227 clock_settime time::clock_settime, (u32, u64);
    228 clock_gettime time::clock_gettime, (u32, u64);
    229 clock_getres time::clock_getres, (u32, u64);
    230 clock_nanosleep time::clock_nanosleep, (u32, u32, u64, u64);
    283 timerfd_create timer::timerfd_create, (u32, u32);
    286 timerfd_settime timer::timerfd_settime, (i32, u32, u64, u64);
    287 timerfd_gettime timer::timerfd_gettime, (i32, u64);

    // What there is not on Linux either.
    134 uselib info::never, ();
    156 _sysctl info::never, ();
    174 create_module info::never, ();
    177 get_kernel_syms info::never, ();
    178 query_module info::never, ();
    180 nfsservctl info::never, ();
    181 getpmsg info::never, ();
    182 putpmsg info::never, ();
    183 afs_syscall info::never, ();
    184 tuxcall info::never, ();
    185 security info::never, ();
    205 set_thread_area info::never, ();
    211 get_thread_area info::never, ();
    212 lookup_dcookie info::never, ();
    214 epoll_ctl_old info::never, ();
    215 epoll_wait_old info::never, ();
    236 vserver info::never, ();

    // What there is not.
    161 chroot mounts::chroot, (u64);
    155 pivot_root mounts::pivot_root, (u64, u64);
    163 acct info::not_permitted, ();
    165 mount mounts::mount, (u64, u64, u64, u64, u64);
    166 umount2 mounts::umount, (u64, u32);
    428 open_tree detached::open_tree, (i32, u64, u32);
    429 move_mount detached::move_mount, (i32, u64, i32, u64, u32);
    430 fsopen detached::fsopen, (u64, u32);
    431 fsconfig detached::fsconfig, (i32, u32, u64, u64, i32);
    432 fsmount detached::fsmount, (i32, u32, u32);
    433 fspick detached::fspick, (i32, u64, u32);
    442 mount_setattr detached::mount_setattr, (i32, u64, u32, u64, usize);
    167 swapon mounts::swapon, (u64, u32);
    168 swapoff mounts::swapoff, (u64);
    169 reboot privilege::reboot, (u32, u32);
    170 sethostname info::sethostname, (u64, i32);
    171 setdomainname info::setdomainname, (u64, i32);
    188 setxattr xattrs::setxattr, (u64, u64, u64, u64, u32);
    189 lsetxattr xattrs::lsetxattr, (u64, u64, u64, u64, u32);
    190 fsetxattr xattrs::fsetxattr, (i32, u64, u64, u64, u32);
    191 getxattr xattrs::getxattr, (u64, u64, u64, u64);
    192 lgetxattr xattrs::lgetxattr, (u64, u64, u64, u64);
    193 fgetxattr xattrs::fgetxattr, (i32, u64, u64, u64);
    194 listxattr xattrs::listxattr, (u64, u64, u64);
    195 llistxattr xattrs::llistxattr, (u64, u64, u64);
    196 flistxattr xattrs::flistxattr, (i32, u64, u64);
    197 removexattr xattrs::removexattr, (u64, u64);
    198 lremovexattr xattrs::lremovexattr, (u64, u64);
    199 fremovexattr xattrs::fremovexattr, (i32, u64);
    463 setxattrat xattrs::setxattrat, (i32, u64, u32, u64, u64, u64);
    464 getxattrat xattrs::getxattrat, (i32, u64, u32, u64, u64, u64);
    465 listxattrat xattrs::listxattrat, (i32, u64, u32, u64, u64);
    466 removexattrat xattrs::removexattrat, (i32, u64, u32, u64);
    272 unshare info::unshare, (u32);
    308 setns info::setns, (i32, u32);
}
