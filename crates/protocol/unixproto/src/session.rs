//! The session frame: the header page, then the data area, then what is known of files.
//!
//! Each field says who writes it. `unixd` reads the library's fields as hints about the process
//! itself only: a lie harms nobody else.

use crate::files::STAT_BYTES;
use crate::signals::SigInfo;
use core::sync::atomic::{fence, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Bytes of a session frame.
pub const SESSION_BYTES: u64 = 16 * 1024;
/// Bytes of the header page.
pub const HEADER_BYTES: usize = 4096;
/// Where the data area starts in the frame.
pub const DATA_OFFSET: usize = HEADER_BYTES;
/// Bytes of the data area.
pub const DATA_BYTES: usize = MORE_OFFSET - HEADER_BYTES;
/// Where [what changes of file descriptors](MoreFds) that the header has no room for is.
pub const MORE_OFFSET: usize = SHOWN_OFFSET - core::mem::size_of::<MoreFds>();
/// Where the [files](ShownFiles) are that the process knows.
pub const SHOWN_OFFSET: usize = SESSION_BYTES as usize - core::mem::size_of::<ShownFiles>();
/// How many file descriptors the header shows (to `/proc/PID/fd` only). Of others there are [changes](MoreFds).
pub const SHOWN_FDS: usize = 115;
/// How many files are shown.
pub const SHOWN_FILES: usize = 8;
/// How many resource limits there are.
pub const LIMITS: usize = 16;
/// Notification bit: something is new in `pending` or `own`.
pub const NOTE_SIGNAL: u64 = 1;
/// Notification bit: something is new in `trace`.
pub const NOTE_TRACE: u64 = 2;
/// Notification bit: `epoch` has changed.
pub const NOTE_CLOCK: u64 = 4;
/// Notification bit: the other end of a ring has moved bytes, or it is closed; or something has come to what is watched. By other processes, too: it
/// says nothing but that one may look.
pub const NOTE_PEER: u64 = 0x400;
/// What who finds nothing to do at an [end](crate::ops::LentEnd) that is lent does.
pub mod lent_end {
    /// Sleeps until the other end has done something.
    pub const SLEEPS: u32 = 0;
    /// Fails with `EAGAIN`, if it is to read.
    pub const FAILS: u32 = 1;
    /// Makes a request.
    pub const ASKS: u32 = 2;
}
/// Notification bits that the threads of a process have for each other, and that one.
pub const NOTE_LIBRARY: u64 = 0xff00;

/// In [`Header::umask`]: the thread has one of its own, which is so many bits further up.
const OWN_UMASK: u32 = 1 << 31;
const OWN_SHIFT: u32 = 16;

/// What [`Header::umask`] says of a thread's own mask.
pub fn own_umask(word: u32) -> Option<u32> {
    (word & OWN_UMASK != 0).then_some(word >> OWN_SHIFT & 0o777)
}

/// The word with another one, or none. The process's stays.
pub fn with_own_umask(word: u32, own: Option<u32>) -> u32 {
    word & 0o777 | own.map_or(0, |mask| OWN_UMASK | (mask & 0o777) << OWN_SHIFT)
}

/// The first page of a session frame.
///
/// Every thread of a process has a session frame. What is about the process as a whole is in that
/// of its first thread only, which stays when that thread ends: `umask`, `child_flags`, `ignored`,
/// `caught`, `pending`, `memory`, `limits`, `changes` and `fds`, and behind the data area the [files](ShownFiles) that it knows. Of each thread are `tid`, `trace`, `sleeps`, `blocked` and
/// `own`; all have the same ids otherwise.
#[repr(C)]
pub struct Header {
    /// Process id. By `unixd`, like all ids here.
    pub pid: AtomicU32,
    /// The parent's process id; changes when the parent ends.
    pub ppid: AtomicU32,
    /// Process group.
    pub pgid: AtomicU32,
    /// Session.
    pub sid: AtomicU32,
    /// Real, effective, saved user id, then the same of the group.
    pub ids: [AtomicU32; 6],
    /// File mode creation mask. By the library, which applies it to the modes that it sends. And that of the [thread](own_umask), if it
    /// stands elsewhere than its process: who gives it one is `unixd`.
    pub umask: AtomicU32,
    /// [`CHLD_NOWAIT`] and [`CHLD_NOSTOP`]: flags of the action for `SIGCHLD`. By the library.
    pub child_flags: AtomicU32,
    /// Signals that are blocked (bit N-1 is signal N; never `SIGKILL` or `SIGSTOP`). By the
    /// library.
    pub blocked: AtomicU64,
    /// Signals whose action is `SIG_IGN`. By the library.
    pub ignored: AtomicU64,
    /// Signals that have a handler. By the library.
    pub caught: AtomicU64,
    /// Signals that wait to be delivered to any thread of the process.
    pub pending: Pending,
    /// Signals that wait to be delivered to this thread.
    pub own: Pending,
    /// What the process says of its memory.
    pub memory: Memory,
    /// Its resource limits, soft and hard, by their numbers. By the library.
    pub limits: [[AtomicU64; 2]; LIMITS],
    /// The thread's id. By `unixd`.
    pub tid: AtomicU32,
    /// Is it traced, and what is wanted of it: [`trace::flag`](crate::trace::flag). By `unixd`.
    pub trace: AtomicU32,
    /// 1 while it waits for another thread, which `unixd` does not see. By the library.
    pub sleeps: AtomicU32,
    /// How often the list of changes of what the process watches began. By `unixd`.
    pub changes: AtomicU64,
    /// The effective (POSIX) capabilities. By `unixd`.
    pub caps: AtomicU64,
    /// Nanoseconds since 1970 when the time-stamp counter was zero: it changes when the clock is set. By `unixd`.
    pub epoch: AtomicU64,
    /// Where programs and their parts are: 0 always at the same places, 1 at random ones, 2 the heap as well. By `unixd`.
    pub randomizes: AtomicU32,
    /// How many bytes of the data area the library may have written to. Only those, and what `unixd` wrote, are
    /// cleared for the next process that gets the frame: whoever says too little shows what it wrote itself.
    pub used: AtomicU32,
    /// How many places of `fds` were ever used: those behind are zero. By the library.
    pub most_fds: AtomicU32,
    /// The cores on which the thread may run, 0 for all. By the library, and by `unixd` when somebody else sets them.
    pub affinity: AtomicU64,
    /// Nanoseconds that `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` say more in the process's name space of times. By `unixd`.
    pub clocks: [AtomicI64; 2],
    /// What identifies the process: unlike `pid`, the same in all name spaces of process ids. By `unixd`.
    pub key: AtomicU32,
    /// The same of the thread. By `unixd`.
    pub thread_key: AtomicU32,
    /// 1 if it is the first process of such a name space, which signals end or stop only if a handler, a fault or somebody outside
    /// does so. By `unixd`.
    pub keeps: AtomicU32,
    /// File descriptor → description id, zero for none, or [what the library keeps](own), for `/proc`. By the library.
    pub fds: [AtomicU32; SHOWN_FDS],
}

const _: () = assert!(core::mem::size_of::<Header>() <= HEADER_BYTES);

/// Instead of the id of a description: kinds of files that the library keeps until others have them, too.
pub mod own {
    /// `eventfd`, `timerfd`, `epoll`, `userfaultfd`, anything else.
    pub const EVENT: u32 = u32::MAX - 1;
    pub const TIMER: u32 = u32::MAX - 2;
    pub const SET: u32 = u32::MAX - 3;
    pub const USERFAULT: u32 = u32::MAX - 4;

    /// How `/proc` calls one.
    pub fn name(word: u32) -> Option<&'static str> {
        Some(match word {
            EVENT => "[eventfd]",
            TIMER => "[timerfd]",
            SET => "[eventpoll]",
            USERFAULT => "[userfaultfd]",
            _ => return None,
        })
    }
}

/// Changes of descriptors from [`SHOWN_FDS`] on that `unixd` has not taken yet: it does when somebody looks, and when there is no room for
/// another one (`TakeFds`).
#[repr(C)]
pub struct MoreFds {
    /// Each a descriptor, and above it what it names as in the header.
    changes: [AtomicU64; MORE_FDS],
    /// How many there have been. By the library.
    told: AtomicU32,
    /// How many of them `unixd` has taken. By `unixd`.
    taken: AtomicU32,
}

/// How many changes there is room for.
pub const MORE_FDS: usize = 16;

impl MoreFds {
    /// By the library: a descriptor names something else now. `true`: there is no room for another change.
    pub fn tell(&self, fd: u32, names: u32) -> bool {
        let told = self.told.load(Ordering::Relaxed);
        let place = &self.changes[told as usize % MORE_FDS];
        place.store(u64::from(names) << 32 | u64::from(fd), Ordering::Relaxed);
        let told = told.wrapping_add(1);
        self.told.store(told, Ordering::Release);
        told.wrapping_sub(self.taken.load(Ordering::Relaxed)) as usize >= MORE_FDS
    }
    /// By `unixd`: the changes that have come, in order, as descriptors and what they name. Those that were overwritten are lost.
    pub fn take(&self, mut each: impl FnMut(u32, u32)) {
        let told = self.told.load(Ordering::Acquire);
        let count = told.wrapping_sub(self.taken.load(Ordering::Relaxed));
        for index in (1..=count.min(MORE_FDS as u32)).rev() {
            let place = &self.changes[told.wrapping_sub(index) as usize % MORE_FDS];
            let change = place.load(Ordering::Relaxed);
            each(change as u32, (change >> 32) as u32);
        }
        self.taken.store(told, Ordering::Relaxed);
    }
    /// By `unixd`: nothing has come.
    pub fn clear(&self) {
        self.told.store(0, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
    }
}

/// What may be read of a file without asking. It is true as long as it is there: `unixd` takes it away before anybody is told of a
/// change. What is shown is nothing that the process could not ask for, and nobody else reads it.
#[repr(C)]
pub struct ShownFile {
    /// Odd while the rest changes.
    version: AtomicU64,
    /// 0: none.
    inode: AtomicU64,
    layout: AtomicU64,
    size: AtomicU64,
}

impl ShownFile {
    /// By `unixd`, which alone shows anything.
    pub fn show(&self, inode: u64, layout: u32, size: u64) {
        // What the process may have made of it harms nobody else.
        let version = self.version.load(Ordering::Relaxed) & !1;
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.inode.store(inode, Ordering::Relaxed);
        self.layout.store(layout.into(), Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
    /// It does not say anything about this file any more.
    pub fn hide(&self, inode: u64) {
        if self.inode.load(Ordering::Relaxed) == inode {
            self.show(0, 0, 0);
        }
    }
    /// Layout and size of a file, if they are known.
    #[inline]
    pub fn get(&self, inode: u64) -> Option<(u32, u64)> {
        let version = self.version.load(Ordering::Acquire);
        if self.inode.load(Ordering::Relaxed) != inode || inode == 0 {
            return None;
        }
        let known = (self.layout.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        is_whole.then_some((known.0 as u32, known.1))
    }
}

/// What `struct stat` has of a file.
pub type StatWords = [u64; STAT_BYTES / 8];

/// What is known of the attributes of a file, likewise. Only who asks again is shown them.
#[repr(C)]
pub struct ShownStat {
    /// Odd while the rest changes.
    version: AtomicU64,
    /// 0: none.
    inode: AtomicU64,
    words: [AtomicU64; STAT_BYTES / 8],
    /// Of which file they were asked for last. By `unixd`, for itself.
    asked: AtomicU64,
    /// The file of which the library may keep a description that no descriptor names any more. By `unixd`.
    keeps: AtomicU64,
    /// That description. Put here by the library; either side takes it away, and has it then.
    kept: AtomicU64,
}

impl ShownStat {
    /// Its attributes are asked for. Answers whether they were so before, and of no other file at this place since.
    #[inline]
    pub fn ask(&self, inode: u64) -> bool {
        if self.asked.load(Ordering::Relaxed) == inode {
            return true;
        }
        self.asked.store(inode, Ordering::Relaxed);
        false
    }
    /// By `unixd`, which alone shows anything.
    pub fn show(&self, inode: u64, words: &StatWords) {
        let version = self.version.load(Ordering::Relaxed) & !1;
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.inode.store(inode, Ordering::Relaxed);
        for (place, word) in self.words.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
    /// It does not say anything any more, or not about this file if one is given. `left` is told what was kept.
    fn hide(&self, inode: Option<u64>, left: &mut dyn FnMut(u32)) {
        let shown = self.inode.load(Ordering::Relaxed);
        if shown != 0 && inode.is_none_or(|inode| inode == shown) {
            self.show(0, &[0; STAT_BYTES / 8]);
            self.take_away(left);
        }
    }
    /// By `unixd`: a description of this file, of which the attributes are shown, may be kept.
    pub fn let_keep(&self, inode: u64) {
        self.keeps.store(inode, Ordering::SeqCst);
    }
    /// By `unixd`: nothing is to be kept here any more. `left` is told of the description that was, which is to be closed.
    pub fn take_away(&self, left: &mut dyn FnMut(u32)) {
        if self.keeps.load(Ordering::Relaxed) == 0 && self.kept.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Either the library sees that, or what it keeps is seen here: each changes its own word before it looks at the other's.
        self.keeps.store(0, Ordering::SeqCst);
        match self.kept.swap(0, Ordering::SeqCst) as u32 {
            0 => {}
            desc => left(desc),
        }
    }
    /// By the library: keeps a description of a file. `false`: it is to be closed.
    pub fn keep(&self, inode: u64, desc: u32) -> bool {
        if self.keeps.load(Ordering::SeqCst) != inode || !self.exchange(0, desc) {
            return false;
        }
        // If it has been taken away meanwhile, `unixd` closes it.
        self.keeps.load(Ordering::SeqCst) == inode || !self.take(desc)
    }
    /// By the library: has again what it has kept of a file, if it is still there.
    pub fn take_back(&self, inode: u64, desc: u32) -> bool {
        self.keeps.load(Ordering::SeqCst) == inode && self.take(desc)
    }
    /// By the library: the same, whatever it is of.
    pub fn take(&self, desc: u32) -> bool {
        self.exchange(desc, 0)
    }
    fn exchange(&self, from: u32, to: u32) -> bool {
        let (from, to) = (from.into(), to.into());
        self.kept.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
    /// Is anything known of this file?
    #[inline]
    pub fn is_of(&self, inode: u64) -> bool {
        self.inode.load(Ordering::Relaxed) == inode
    }
    /// The attributes of a file, if they are known.
    #[inline]
    pub fn get(&self, inode: u64) -> Option<StatWords> {
        let version = self.version.load(Ordering::Acquire);
        if self.inode.load(Ordering::Relaxed) != inode || inode == 0 {
            return None;
        }
        let words = core::array::from_fn(|number| self.words[number].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        is_whole.then_some(words)
    }
}

/// A file whose bytes, inside of its size, the process may change without asking, by a description: they are lent to it.
///
/// It says when it did so last by a word that it exchanges before it changes anything. `unixd` takes that word away before the times
/// of the file are looked at, and before anything is done to the file: then the next write is a request. So what was written after
/// the exchange was granted before, as if that had been the request.
///
/// As long as nobody else has the file lent, it may read it, too, and says so after it has by another word: if the first one
/// is still there then, `unixd` has not looked yet. Otherwise the read counts as not made, and is a request.
#[repr(C)]
pub struct ShownLoan {
    /// [`LENT`], and nanoseconds since 1970 of the last change; 0: nothing is lent. No two loans of a process begin at the same time.
    state: AtomicU64,
    inode: AtomicU64,
    /// The description, and the layout of the file.
    means: AtomicU64,
    /// Bytes of the file; while nothing is lent, what they were when it was written to last.
    size: AtomicU64,
    /// The file that was written to last by a request. By `unixd`, for itself.
    asked: AtomicU64,
    /// Nanoseconds since 1970 of the last access that is to be known; 0: it is to be asked for reads.
    read: AtomicU64,
}

/// What a process says of a file that it had lent, in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uses {
    /// The last write.
    pub written: u64,
    /// The last access; 0: there was none.
    pub read: u64,
}

/// A file is lent.
const LENT: u64 = 1 << 63;

/// A file that is lent to who looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loan {
    state: u64,
    /// Its layout.
    pub layout: u32,
    /// How many bytes it has, and keeps as long as it is lent.
    pub size: u64,
}

impl ShownLoan {
    /// By `unixd`: a file of so many bytes was written to by a request. Answers whether the one before was for the same, at this
    /// place, and left as many.
    pub fn ask(&self, inode: u64, size: u64) -> bool {
        let was = (self.asked.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed));
        if was == (inode, size) {
            return true;
        }
        // The size of another one that is lent stays.
        if self.state.load(Ordering::Relaxed) == 0 {
            self.asked.store(inode, Ordering::Relaxed);
            self.size.store(size, Ordering::Relaxed);
        }
        false
    }
    /// By `unixd`: it is lent from now on, where nothing is. It may be read as well if it is said when that was last.
    pub fn lend(
        &self,
        (inode, desc): (u64, u32),
        (layout, size): (u32, u64),
        now: u64,
        read: Option<u64>,
    ) {
        self.asked.store(0, Ordering::Relaxed);
        self.read.store(read.map_or(0, |read| read.max(1)), Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
        self.means.store(means(desc, layout), Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
        self.state.store(now | LENT, Ordering::Release);
    }
    /// By `unixd`, which knows what is lent here: it is no more. Answers when it was used last, as its process says: that is to be
    /// believed as far as it may be.
    pub fn take(&self) -> Uses {
        self.asked.store(0, Ordering::Relaxed);
        let written = self.state.swap(0, Ordering::SeqCst) & !LENT;
        // Who reads looks afterwards whether it was still lent.
        Uses { written, read: self.end_reads() }
    }
    /// By `unixd`: somebody else will write to what is lent here, so that it is to be asked for reads. Answers when the last one was.
    pub fn end_reads(&self) -> u64 {
        self.read.swap(0, Ordering::SeqCst)
    }
    /// Layout and size of the file, if it is lent and may be read.
    #[inline]
    pub fn readable(&self, inode: u64) -> Option<(u32, u64)> {
        let is_lent = self.state.load(Ordering::Acquire) & LENT != 0;
        let is_it = is_lent && self.inode.load(Ordering::Relaxed) == inode;
        let what = (self.means.load(Ordering::Relaxed) as u32, self.size.load(Ordering::Relaxed));
        (is_it && self.read.load(Ordering::Relaxed) != 0).then_some(what)
    }
    /// The file was read, and may have been. `false`: not any more, so that it has to be asked. As `relatime` has it, it is said of a
    /// read only when it is the first one after a write.
    #[inline]
    pub fn was_read(&self, inode: u64, now: impl Fn() -> u64) -> bool {
        let mut read = self.read.load(Ordering::SeqCst);
        let state = self.state.load(Ordering::SeqCst);
        while read != 0 && read <= state & !LENT {
            let to = now().max(state & !LENT).max(1);
            match self.read.compare_exchange(read, to, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                // Another thread has read it, or it has to be asked.
                Err(is) => read = is,
            }
        }
        // Who takes it back afterwards takes what was said of the read as well.
        read != 0 && state & LENT != 0 && self.inode.load(Ordering::Relaxed) == inode
    }
    /// The file, if it is lent for what is done by a description.
    #[inline(always)]
    pub fn get(&self, inode: u64, desc: u32) -> Option<Loan> {
        let state = self.state.load(Ordering::Acquire);
        let is_it = state & LENT != 0 && self.inode.load(Ordering::Relaxed) == inode;
        let (means, size) = (self.means.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed));
        let is_it = is_it && means >> 32 == u64::from(desc);
        is_it.then_some(Loan { state, layout: means as u32, size })
    }
    /// It is about to be written to. `false`: it is not lent any more, or another thread has said so meanwhile.
    #[inline(always)]
    pub fn write(&self, loan: Loan, now: u64) -> bool {
        // Always another word, so that none is taken for one of another loan.
        let new = LENT | now.max((loan.state & !LENT) + 1);
        let done =
            self.state.compare_exchange(loan.state, new, Ordering::SeqCst, Ordering::Relaxed);
        done.is_ok()
    }
}

/// A description and a layout in one word.
const fn means(desc: u32, layout: u32) -> u64 {
    (desc as u64) << 32 | layout as u64
}

/// What a process knows of files without asking: of each at the place of its number. By `unixd`.
#[repr(C)]
pub struct ShownFiles {
    files: [ShownFile; SHOWN_FILES],
    stats: [ShownStat; SHOWN_FILES],
    loans: [ShownLoan; SHOWN_FILES],
    /// Paths lead where they led when `unixd` gave this number, which it gives once, to one process. 0: it has to be asked.
    ways: AtomicU64,
    /// The file that was opened last, and of how many that are opened next the attributes will be asked for, most likely. By `unixd`, for
    /// itself.
    opened: AtomicU64,
    looks: AtomicU64,
}

/// Of so many files that it opens a process is shown the attributes after it has asked for those of one.
const LOOKS: u64 = 16;

impl ShownFiles {
    /// Where a file may be shown.
    #[inline]
    pub fn file(&self, inode: u64) -> &ShownFile {
        &self.files[inode as usize % SHOWN_FILES]
    }
    /// Where its attributes may be.
    #[inline]
    pub fn stat(&self, inode: u64) -> &ShownStat {
        &self.stats[inode as usize % SHOWN_FILES]
    }
    /// Where it may be lent.
    #[inline(always)]
    pub fn loan(&self, inode: u64) -> &ShownLoan {
        &self.loans[inode as usize % SHOWN_FILES]
    }
    /// By `unixd`: a file is opened. Answers whether its attributes are asked for next, as those of files before were.
    #[inline]
    pub fn open(&self, inode: u64) -> bool {
        self.opened.store(inode, Ordering::Relaxed);
        let looks = self.looks.load(Ordering::Relaxed);
        if looks == 0 {
            return false;
        }
        self.looks.store(looks - 1, Ordering::Relaxed);
        true
    }
    /// By `unixd`: the attributes of an open file are asked for.
    #[inline]
    pub fn look(&self, inode: u64) {
        if self.opened.load(Ordering::Relaxed) == inode {
            self.looks.store(LOOKS, Ordering::Relaxed);
        }
    }
    /// Since when paths have led where they lead, if that is known.
    #[inline(always)]
    pub fn ways(&self) -> u64 {
        self.ways.load(Ordering::Acquire)
    }
    /// Changes that.
    pub fn set_ways(&self, ways: u64) {
        self.ways.store(ways, Ordering::Release);
    }
    /// Nothing is known of a file any more. `left` is told what was kept of it, here and below: that is to be closed.
    pub fn hide(&self, inode: u64, left: &mut dyn FnMut(u32)) {
        self.file(inode).hide(inode);
        self.stat(inode).hide(Some(inode), left);
    }
    /// Attributes, and where paths lead, are known no more.
    pub fn hide_attributes(&self, left: &mut dyn FnMut(u32)) {
        self.set_ways(0);
        self.stats.iter().for_each(|stat| stat.hide(None, left));
    }
    /// Nothing is known any more.
    pub fn clear(&self, left: &mut dyn FnMut(u32)) {
        self.files.iter().for_each(|file| file.show(0, 0, 0));
        self.hide_attributes(left);
        self.opened.store(0, Ordering::Relaxed);
        self.looks.store(0, Ordering::Relaxed);
        for stat in &self.stats {
            stat.asked.store(0, Ordering::Relaxed);
            stat.take_away(left);
        }
        for loan in &self.loans {
            // What was lent to it has been taken back.
            loan.state.store(0, Ordering::Relaxed);
            loan.asked.store(0, Ordering::Relaxed);
            loan.read.store(0, Ordering::Relaxed);
        }
    }
}

/// What a process says of its memory, in pages if nothing else is said. By the library.
#[repr(C)]
pub struct Memory {
    /// Address space in use.
    pub mapped: AtomicU64,
    /// In memory: anonymous memory, and private copies. What is [a file](crate::op::OwnMemory) to `unixd`, it knows itself.
    pub resident: AtomicU64,
    /// The most that `mapped` was before something was unmapped.
    pub most_mapped: AtomicU64,
    /// The same of `resident`, and of such files.
    pub most_resident: AtomicU64,
    /// How many page faults it has handled.
    pub faults: AtomicU64,
    // What follows is as it was when it was counted last.
    /// How many pages it has copied because somebody else might have had them.
    pub copies: AtomicU64,
    /// Pages of files and of shared memory that its page tables have.
    pub files: AtomicU64,
    /// Those of them that are memory and nothing else.
    pub shared_memory: AtomicU64,
    /// Private and writable, but for the stack.
    pub data: AtomicU64,
    /// The stack.
    pub stack: AtomicU64,
    /// Executable.
    pub text: AtomicU64,
    /// Locked.
    pub locked: AtomicU64,
    /// How many last-level page tables it has.
    pub tables: AtomicU64,
    /// How many of them another process may have, too.
    pub shared_tables: AtomicU64,
}

/// `child_flags`: children leave no zombie (`SA_NOCLDWAIT`).
pub const CHLD_NOWAIT: u32 = 1;
/// `child_flags`: no `SIGCHLD` when a child stops or goes on (`SA_NOCLDSTOP`).
pub const CHLD_NOSTOP: u32 = 2;

/// A [`SigInfo`] in shared memory.
#[repr(C)]
pub struct InfoCell([AtomicU64; 3]);

impl InfoCell {
    /// Stores; the caller publishes it with `Release` in `pending`.
    pub fn store(&self, info: SigInfo) {
        for (cell, word) in self.0.iter().zip(info.to_words()) {
            cell.store(word, Ordering::Relaxed);
        }
    }
    /// Loads, after the bit was seen in `pending` with `Acquire`.
    pub fn load(&self) -> SigInfo {
        SigInfo::from_words([0, 1, 2].map(|i| self.0[i].load(Ordering::Relaxed)))
    }
}

/// A set of signals that wait to be delivered. Bits are set by `unixd` (after `info`) and cleared
/// by the library (after it has read `info`).
///
/// More signals of the same number wait at `unixd`, which says so in `more`. Either it sees that the library has taken one, or the
/// library sees that there are more, and [asks](crate::op::NextSignal) for the next: each changes its own word before it looks at the
/// other's.
#[repr(C)]
pub struct Pending {
    set: AtomicU64,
    /// Signals of which more wait at `unixd`, which writes it.
    more: AtomicU64,
    /// What is known of each: index N-1 for signal N.
    info: [InfoCell; 64],
}

impl Pending {
    /// The set.
    #[inline(always)]
    pub fn set(&self) -> u64 {
        self.set.load(Ordering::SeqCst)
    }
    /// Takes signals out without a look at them.
    pub fn clear(&self, signals: u64) {
        self.set.fetch_and(!signals, Ordering::SeqCst);
    }
    /// Posts a signal unless it is pending already. True if it is new.
    pub fn post(&self, signal: u32, info: SigInfo) -> bool {
        let bit = crate::signals::bit(signal);
        if bit == 0 || self.set() & bit != 0 {
            return false;
        }
        self.info[signal as usize - 1].store(info);
        self.set.fetch_or(bit, Ordering::Release);
        true
    }
    /// Signals of which more wait at `unixd`.
    #[inline(always)]
    pub fn more(&self) -> u64 {
        self.more.load(Ordering::SeqCst)
    }
    /// By `unixd`: of these more wait, and of no others.
    pub fn set_more(&self, signals: u64) {
        self.more.store(signals, Ordering::SeqCst);
    }
    /// What is known of a pending signal.
    pub fn peek(&self, signal: u32) -> Option<SigInfo> {
        let bit = crate::signals::bit(signal);
        (bit != 0 && self.set() & bit != 0).then(|| self.info[signal as usize - 1].load())
    }
    /// By `unixd`: what comes with a signal that is pending already has changed, in the user and the status.
    pub fn renew(&self, signal: u32, info: SigInfo) {
        if crate::signals::bit(signal) != 0 {
            self.info[signal as usize - 1].0[1].store(info.to_words()[1], Ordering::Relaxed);
        }
    }
    /// By `unixd`: what is pending becomes so elsewhere.
    pub fn hand_on(&self, to: &Pending) {
        for signal in 1..=64 {
            if let Some(info) = self.take(signal) {
                to.post(signal, info);
            }
        }
    }
    /// Takes a pending signal, if it is (still) pending.
    pub fn take(&self, signal: u32) -> Option<SigInfo> {
        let bit = crate::signals::bit(signal);
        if bit == 0 || self.set() & bit == 0 {
            return None;
        }
        let info = self.info[signal as usize - 1].load();
        self.clear(bit);
        Some(info)
    }
}
