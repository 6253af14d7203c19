//! File descriptors, and what they name.
//!
//! Three layers: a *descriptor* (`linuxabi::fdtable`) names an open *file* of this library, and a
//! file stands for an open file *description* of `unixd`, which holds offset and flags, or for
//! something that the library keeps alone. Duplicated descriptors and mappings share one file, which
//! counts them; with the last the description is closed. Fork copies the whole, and `unixd` copies what
//! the parent holds.
//!
//! What a file is, and what can be done with it, is the business of its kind ([`kinds`], [`ops`]).

pub mod alone;
pub mod buffers;
pub mod glance;
pub mod kept;
pub mod kinds;
pub mod known;
pub mod ops;
mod parts;
mod place;
pub mod rings;
pub mod stream;
pub mod transfer;
pub mod watch;
pub mod windows;
pub mod writers;

use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op};
use crate::thread::company;
use core::mem::swap;
use core::sync::atomic::Ordering;
use kinds::{with_kind, AnyFile, OfKind};
use linuxabi::fdtable::{Entry, FdTable};
use ops::{FileOps, Server};
use tables::{NoMemory, Slab, Sparse};
use unixproto::files::{lock, O_ACCMODE, O_NONBLOCK, O_PATH, O_RDWR, O_WRONLY};
use unixproto::session::own;

/// An open file.
#[derive(Clone)]
pub struct File {
    /// What it is.
    pub kind: AnyFile,
    /// Flags with which it was opened: access mode and `O_PATH`.
    pub flags: u32,
    /// Descriptors and mappings that name it.
    users: u32,
    /// No descriptor before this one names it.
    first: i32,
    /// What is known about what is ready.
    known: watch::Known,
    /// What is kept while no other process has it.
    alone: alone::Alone,
}

impl File {
    /// A file that nobody names yet.
    pub fn new(kind: impl Into<AnyFile>, flags: u32) -> File {
        let (kind, known) = (kind.into(), watch::Known::default());
        File { kind, flags, users: 0, first: i32::MAX, known, alone: Default::default() }
    }
    /// A file for what `unixd` has opened.
    pub fn opened(opened: unixproto::ops::Opened, flags: u32) -> File {
        File::new(AnyFile::opened(&opened), flags)
    }
    /// May it be read?
    pub fn readable(&self) -> bool {
        self.flags & O_PATH == 0 && self.flags & O_ACCMODE != O_WRONLY
    }
    /// May it be written?
    pub fn writable(&self) -> bool {
        self.flags & O_PATH == 0 && matches!(self.flags & O_ACCMODE, O_WRONLY | O_RDWR)
    }
    /// Who keeps it.
    pub fn server(&self) -> Server {
        with_kind!(&self.kind, kind => kind.server())
    }
    /// Its only description, or `error`.
    pub fn description(&self, error: Errno) -> Result<u32> {
        match self.server() {
            Server::Unixd([desc, 0]) => Ok(desc),
            _ => Err(error),
        }
    }
    /// What `/proc` shows of it: its only description, or that the library keeps it.
    fn as_shown(&self) -> u32 {
        match (self.description(Errno::EBADF), &self.kind) {
            (Ok(desc), _) => desc,
            (Err(_), AnyFile::Event(_)) => own::EVENT,
            (Err(_), AnyFile::Timer(_)) => own::TIMER,
            (Err(_), AnyFile::Epoll(_)) => own::SET,
            (Err(_), AnyFile::Userfault(_)) => own::USERFAULT,
            (Err(_), _) => 0,
        }
    }
    /// Its descriptions; 0 is none.
    fn descriptions(&self) -> [u32; 2] {
        self.server().descriptions()
    }
    /// The keys of its windows.
    fn keys(&self) -> impl Iterator<Item = u64> {
        with_kind!(&self.kind, kind => kind.windows()).into_iter().flatten()
    }
}

/// All descriptors and files of the process.
pub struct Fds {
    table: FdTable,
    files: Slab<Option<File>>,
    /// How many files have windows by this key, or may have.
    keys: Sparse<u32, 4>,
    /// What is known about what is ready.
    knowledge: watch::Knowledge,
    /// How often other processes may have come to hold all descriptions.
    sharings: u32,
    /// A file was opened since then.
    has_own: bool,
    /// The process has set record locks.
    pub has_locks: bool,
    /// Signals tell the process of directories.
    pub has_notes: bool,
    /// Windows on the contents of regular files.
    pub windows: windows::Windows,
    /// What is lent of pipes and of streams.
    pub rings: rings::Rings,
    /// What stays open without a descriptor.
    pub kept: kept::Kept,
}

/// The descriptors of a process that shares its memory with others, and what it alone has done with them.
pub struct Table {
    table: FdTable,
    has_locks: bool,
    has_notes: bool,
}

impl Fds {
    /// None.
    pub const fn new() -> Self {
        Fds {
            table: FdTable::new(),
            files: Slab::new(),
            keys: Sparse::new(),
            knowledge: watch::Knowledge::new(),
            sharings: 1,
            has_own: false,
            has_locks: false,
            has_notes: false,
            windows: windows::Windows::new(),
            rings: rings::Rings::new(),
            kept: kept::Kept::new(),
        }
    }

    /// The same descriptors, without any window.
    pub fn copy(&self) -> Fds {
        let mut files = self.files.clone();
        for file in files.iter_mut().flatten() {
            file.kind = with_kind!(&file.kind, kind => kind.copied().into());
        }
        Fds {
            table: self.table.clone(),
            files,
            keys: self.keys.clone(),
            knowledge: self.knowledge.clone(),
            sharings: self.sharings,
            has_own: self.has_own,
            has_locks: self.has_locks,
            has_notes: self.has_notes,
            ..Fds::new()
        }
    }

    /// Has the descriptors of `other` from now on. Windows on files that it names stay.
    pub fn restore(&mut self, other: Fds) {
        let Fds { table, files, keys, knowledge, sharings, has_own, .. } = other;
        self.rings.forget_all();
        self.windows.keep(|key| keys.get(key).is_some());
        // What the process had of offsets was given back before it had other descriptors.
        glance::forget_all();
        self.kept.forget_all();
        (self.table, self.files, self.keys) = (table, files, keys);
        (self.knowledge, self.sharings, self.has_own) = (knowledge, sharings, has_own);
        (self.has_locks, self.has_notes) = (other.has_locks, other.has_notes);
    }

    /// A table of the same descriptors, for a process that has the same memory: each counts.
    pub fn copy_table(&mut self) -> Table {
        let table = self.table.clone();
        table.from(0).for_each(|(_, entry)| self.hold(entry.file));
        Table { table, has_locks: false, has_notes: false }
    }

    /// Has the descriptors of another table, which has those that were here.
    pub fn exchange(&mut self, other: &mut Table) {
        swap(&mut self.table, &mut other.table);
        swap(&mut self.has_locks, &mut other.has_locks);
        swap(&mut self.has_notes, &mut other.has_notes);
    }

    /// Closes the descriptors of a table that is not used any more.
    pub fn close_table(&mut self, other: Table) {
        let Table { table, has_locks, has_notes } = other;
        let before = (self.has_locks, self.has_notes);
        (self.has_locks, self.has_notes) = (has_locks, has_notes);
        table.from(0).for_each(|(_, entry)| self.closed(entry.file));
        (self.has_locks, self.has_notes) = before;
    }

    /// The file that `fd` names.
    #[inline]
    pub fn get(&self, fd: i32) -> Result<&File> {
        let entry = self.table.get(fd).ok_or(Errno::EBADF)?;
        self.at(entry.file)
    }
    /// The file that `fd` names, for a call that `O_PATH` does not allow.
    pub fn get_open(&self, fd: i32) -> Result<&File> {
        match self.get(fd)? {
            file if file.flags & O_PATH != 0 => Err(Errno::EBADF),
            file => Ok(file),
        }
    }
    /// The file that `fd` names, to be changed.
    pub fn get_mut(&mut self, fd: i32) -> Result<&mut File> {
        let entry = self.table.get(fd).ok_or(Errno::EBADF)?;
        self.files.get_mut(entry.file).and_then(Option::as_mut).ok_or(Errno::EBADF)
    }
    /// The file that `fd` names, with its index.
    #[inline]
    pub fn find(&self, fd: i32) -> Result<(u32, &File)> {
        let index = self.index(fd)?;
        Ok((index, self.at(index)?))
    }
    /// What `fd` names, if it is of a certain kind (`EINVAL`).
    pub fn of_kind<K: OfKind>(&self, fd: i32) -> Result<K> {
        K::of(&self.get(fd)?.kind).cloned().ok_or(Errno::EINVAL)
    }
    /// Whether `fd` is closed by `execve`.
    pub fn cloexec(&self, fd: i32) -> Result<bool> {
        Ok(self.table.get(fd).ok_or(Errno::EBADF)?.cloexec)
    }
    /// Changes that.
    pub fn set_cloexec(&mut self, fd: i32, cloexec: bool) -> Result<()> {
        if self.table.set_cloexec(fd, cloexec) {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }
    /// Index of the file that `fd` names: it stays the same as long as anybody names the file.
    pub fn index(&self, fd: i32) -> Result<u32> {
        Ok(self.table.get(fd).ok_or(Errno::EBADF)?.file)
    }
    /// The file at an index.
    #[inline]
    pub fn at(&self, index: u32) -> Result<&File> {
        self.files.get(index).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }
    /// One more than the highest descriptor.
    pub fn end(&self) -> i32 {
        self.table.end()
    }
    /// `EMFILE` unless there is room for one more descriptor from `min` on.
    pub fn check_room(&self, min: u32, limit: u32) -> Result<()> {
        self.table.lowest_free(min, limit).map(|_| ()).ok_or(Errno::EMFILE)
    }

    /// Adds a file that nobody names yet.
    fn add_file(&mut self, file: File) -> core::result::Result<u32, NoMemory> {
        let mut added = 0;
        let known = file.keys().try_for_each(|key| {
            let count = self.keys.get(key).map_or(1, |count| count + 1);
            added += 1;
            self.keys.insert(key, count)
        });
        let keys = file.keys();
        match known.and_then(|()| self.files.add(Some(file))) {
            Ok(index) => {
                self.begin_offset(index);
                Ok(index)
            }
            Err(error) => {
                keys.take(added).for_each(|key| _ = self.leave(key));
                Err(error)
            }
        }
    }

    /// A file less has windows by a key. Answers whether it was the last.
    fn leave(&mut self, key: u64) -> bool {
        match self.keys.get_mut(key) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => self.keys.remove(key).is_some(),
        }
    }

    /// The file that stands for a description.
    fn with_description(&self, desc: u32) -> Option<u32> {
        let has_it = |file: &File| file.descriptions()[0] == desc;
        (0..)
            .map_while(|index| Some((index, self.files.get(index)?)))
            .find_map(|(index, file)| file.as_ref().is_some_and(has_it).then_some(index))
    }

    /// One more user of a file.
    pub fn hold(&mut self, index: u32) {
        if let Some(Some(file)) = self.files.get_mut(index) {
            file.users += 1;
        }
    }

    /// One user less. With the last the file is taken out and answered: the caller closes it.
    fn unhold(&mut self, index: u32) -> Option<File> {
        let file = self.files.get_mut(index)?.as_mut()?;
        file.users = file.users.saturating_sub(1);
        if file.users > 0 {
            return None;
        }
        let file = self.files.remove(index)?;
        match &file.kind {
            AnyFile::Pipe(pipe) => self.rings.forget(pipe.desc()),
            AnyFile::Socket(socket) => self.rings.forget(socket.desc),
            _ => {}
        }
        Fds::end_offset(index);
        self.leave_sets(index, &file);
        for key in file.keys() {
            if self.leave(key) {
                self.windows.forget(key);
            }
        }
        Some(file)
    }

    /// A descriptor of a file has been closed, maybe not the last: record locks end with the first.
    fn closed(&mut self, index: u32) {
        self.release(index);
        // With the last, `unixd` has ended them already.
        if !self.has_locks && !self.has_notes {
            return;
        }
        let Ok(file) = self.at(index) else { return };
        let Ok(desc) = file.description(Errno::EBADF) else { return };
        if self.has_locks {
            let request = op::SetLock { desc, how: lock::UNLOCK, start: 0, len: 0 };
            // Closing gives locks up in any case.
            let _ = server::call(request);
        }
        if self.has_notes && matches!(file.kind, AnyFile::Directory(_)) {
            // So it is with what is told of a directory.
            let _ = server::call(op::NotifyDir { desc, fd: 0, events: 0 });
        }
    }

    /// One user less of a file; the last one closes its descriptions.
    pub fn release(&mut self, index: u32) {
        if let Some(file) = self.unhold(index) {
            if !self.keeps(&file) {
                close_descriptions(file.descriptions());
            }
        }
    }

    /// Is the description of a file that no descriptor names any more kept?
    fn keeps(&mut self, file: &File) -> bool {
        let AnyFile::Regular(regular) = &file.kind else { return false };
        // With locks, each close counts.
        let may = self.kept.is_used() && !self.has_locks && self.is_untouched(file);
        may && self.kept.keep(file.descriptions()[0], regular.inode())
    }
    /// Something is done to the description of `fd` that lasts: it is not kept.
    pub fn never_keep(&mut self, fd: i32) {
        if let Ok(Ok(desc)) = self.get(fd).map(|file| file.description(Errno::EBADF)) {
            self.kept.forget(desc);
        }
    }

    /// Shows `/proc` and others that a file has a description now.
    fn show_all(&self, index: u32) {
        let Ok(file) = self.at(index) else { return };
        // Of many files each has mostly one descriptor: the others are not looked at.
        let named = self.table.from(file.first).filter(|(_, entry)| entry.file == index);
        named.take(file.users as usize).for_each(|(fd, _)| show_desc(fd, file.as_shown()));
    }

    /// A descriptor names a file from now on, and `/proc` is shown that.
    fn named(&mut self, fd: i32) {
        let Ok(file) = self.get_mut(fd) else { return };
        file.first = file.first.min(fd);
        show_desc(fd, file.as_shown());
    }
}

/// Shows `/proc` that a descriptor names a description, or none: of all processes whose descriptor it is.
fn show_desc(fd: i32, desc: u32) {
    let mut is_full = false;
    let mut show = |header: &server::Header| {
        let Some(cell) = header.fds.get(fd as usize) else {
            is_full |= server::more_fds(header).tell(fd as u32, desc);
            return;
        };
        cell.store(desc, Ordering::Relaxed);
        if desc != 0 && header.most_fds.load(Ordering::Relaxed) <= fd as u32 {
            header.most_fds.store(fd as u32 + 1, Ordering::Relaxed);
        }
    };
    show(server::main_header());
    company::each_sharing(|of| of.files, &mut show);
    if is_full {
        // An error: those that are overwritten are not shown.
        let _ = server::call(op::TakeFds {});
    }
}

fn close_descriptions([first, second]: [u32; 2]) {
    let all = (first as u64 | (second as u64) << 32).to_le_bytes();
    // What `unixd` does not know is closed.
    let _ = match (first, second) {
        (0, _) => Ok(()),
        (_, 0) => server::call_a(op::Close {}, &all[..4]),
        _ => server::call_a(op::Close {}, &all),
    };
}

/// Gives `file` the lowest free descriptor. If there is none, the file is closed: `EMFILE`, or `ENOMEM`.
pub fn install(io: &mut Io, file: File, cloexec: bool) -> Result<i32> {
    let file = File { alone: io.fds.opened_alone(), ..file };
    install_shared(io, file, cloexec)
}

/// The same for a file that other processes may have.
pub fn install_shared(io: &mut Io, file: File, cloexec: bool) -> Result<i32> {
    let limit = io.limits.max_files();
    let descriptions = file.descriptions();
    let Ok(index) = io.fds.add_file(file) else {
        close_descriptions(descriptions);
        return Err(Errno::ENOMEM);
    };
    io.fds.hold(index);
    match place(&mut io.fds, Entry { file: index, cloexec }, 0, limit) {
        Ok(fd) => Ok(fd),
        Err(error) => {
            io.fds.release(index);
            Err(error)
        }
    }
}

/// A descriptor for a description that the process was given: a certain one, or the lowest free one. If it had the description before, it is the
/// same file.
pub fn install_given(io: &mut Io, desc: u32, at: Option<i32>, cloexec: bool) -> Result<i32> {
    let limit = io.limits.max_files();
    let index = match io.fds.with_description(desc) {
        Some(index) => index,
        None => {
            let opened = server::call(op::Describe { desc })?;
            let flags = server::call(op::GetFlags { desc })?.flags;
            let file = io.fds.add_file(File::opened(opened, flags));
            file.map_err(|_| Errno::ENOMEM).inspect_err(|_| server::close(desc))?
        }
    };
    io.fds.hold(index);
    let placed = match at {
        None => place(&mut io.fds, Entry { file: index, cloexec }, 0, limit),
        Some(fd) => put_at(io, index, fd, cloexec),
    };
    if placed.is_err() || at.is_some() {
        io.fds.release(index);
    }
    placed
}

/// Gives two files descriptors and tells them to the program: both or none.
pub fn install_two(io: &mut Io, files: (File, File), cloexec: bool, fds: u64) -> Result<u64> {
    let first = install(io, files.0, cloexec);
    let second = install(io, files.1, cloexec);
    match (first, second) {
        (Ok(first), Ok(second)) => {
            user::copy_out(&mut io.mm, fds, &[first, second])?;
            Ok(0)
        }
        (first, second) => {
            for fd in [first, second].into_iter().flatten() {
                // They are open; what closing answers nobody has asked for.
                let _ = close(&mut io.fds, fd);
            }
            Err(Errno::EMFILE)
        }
    }
}

/// Enters a file at the lowest free descriptor from `min` on.
fn place(fds: &mut Fds, entry: Entry, min: u32, limit: u32) -> Result<i32> {
    let placed = fds.table.insert(entry, min, limit).map_err(|_| Errno::ENOMEM)?;
    let fd = placed.ok_or(Errno::EMFILE)?;
    fds.named(fd);
    Ok(fd)
}

/// Another descriptor, the lowest from `min` on, for the file of `fd`.
pub fn duplicate(io: &mut Io, fd: i32, min: u32, cloexec: bool) -> Result<i32> {
    let file = io.fds.index(fd)?;
    let limit = io.limits.max_files();
    let new = place(&mut io.fds, Entry { file, cloexec }, min, limit)?;
    io.fds.hold(file);
    Ok(new)
}

/// Makes `new` name the file of `old`; what `new` named before is closed.
pub fn duplicate_to(io: &mut Io, old: i32, new: i32, cloexec: bool) -> Result<i32> {
    let file = io.fds.index(old)?;
    put_at(io, file, new, cloexec)
}

/// A descriptor names a file from now on, and not what it has named.
fn put_at(io: &mut Io, file: u32, new: i32, cloexec: bool) -> Result<i32> {
    if new < 0 || new as u32 >= io.limits.max_files() {
        return Err(Errno::EBADF);
    }
    glance::forget(new);
    let before = io.fds.table.put(new, Entry { file, cloexec }).map_err(|_| Errno::ENOMEM)?;
    io.fds.hold(file);
    io.fds.named(new);
    if let Some(entry) = before {
        io.fds.closed(entry.file);
    }
    Ok(new)
}

/// Closes a descriptor.
pub fn close(fds: &mut Fds, fd: i32) -> Result<()> {
    let entry = fds.table.remove(fd).ok_or(Errno::EBADF)?;
    glance::forget(fd);
    show_desc(fd, 0);
    fds.closed(entry.file);
    Ok(())
}

/// Closes the descriptors from `first` to `last` for which `which` says so.
pub fn close_where(fds: &mut Fds, first: i32, last: i32, which: impl Fn(i32, Entry) -> bool) {
    let mut from = first;
    loop {
        let next = fds.table.from(from).find(|&(fd, entry)| which(fd, entry));
        let Some((fd, _)) = next.filter(|(fd, _)| *fd <= last) else { return };
        // They are open; what closing answers nobody has asked for.
        let _ = close(fds, fd);
        from = fd + 1;
    }
}

/// Closes what `execve` closes.
pub fn close_on_exec(fds: &mut Fds) {
    close_where(fds, 0, i32::MAX, |_, entry| entry.cloexec);
}

/// The descriptors that a program is left, with their descriptions.
pub fn left(fds: &Fds) -> impl Iterator<Item = (i32, u32)> + '_ {
    fds.table.from(0).filter(|(_, entry)| !entry.cloexec).filter_map(|(fd, entry)| {
        let file = fds.files.get(entry.file)?.as_ref()?;
        Some((fd, file.description(Errno::EBADF).ok()?))
    })
}

/// Those of the memory of the program before, which the library keeps by itself: flags, and what each is.
pub fn left_of_memory(fds: &Fds) -> impl Iterator<Item = [u32; 3]> + '_ {
    fds.table.from(0).filter(|(_, entry)| !entry.cloexec).filter_map(|(fd, entry)| {
        let file = fds.files.get(entry.file)?.as_ref()?;
        let AnyFile::Userfault(userfault) = &file.kind else { return None };
        Some([fd as u32, file.flags, userfault.left()])
    })
}

/// One of these.
pub fn install_of_memory(io: &mut Io, [fd, flags, left]: [u32; 3]) -> Result<()> {
    let file = File::new(kinds::userfault::Userfault::of_other_memory(left), flags & O_NONBLOCK);
    let index = io.fds.add_file(file).map_err(|_| Errno::ENOMEM)?;
    put_left(io, fd, index)
}

/// A descriptor that was left to the process. Those before have smaller numbers.
pub fn install_left(io: &mut Io, fd: u32, desc: u32) -> Result<()> {
    let index = match io.fds.with_description(desc) {
        Some(index) => index,
        None => {
            let opened = server::call(op::Describe { desc })?;
            let flags = server::call(op::GetFlags { desc })?.flags;
            io.fds.add_file(File::opened(opened, flags)).map_err(|_| Errno::ENOMEM)?
        }
    };
    put_left(io, fd, index)
}

fn put_left(io: &mut Io, fd: u32, index: u32) -> Result<()> {
    io.fds.hold(index);
    let limit = fd.checked_add(1).ok_or(Errno::EBADF)?;
    place(&mut io.fds, Entry { file: index, cloexec: false }, fd, limit).map(|_| ())
}

/// The descriptors of the first process: 0, 1 and 2.
pub fn attach(fds: &mut Fds, descriptions: [u32; 3]) -> Result<()> {
    let mut files: [Option<(u32, u32)>; 3] = [None; 3];
    for (n, desc) in descriptions.into_iter().enumerate() {
        let known = files.iter().flatten().find(|(d, _)| *d == desc).map(|(_, index)| *index);
        let index = match known {
            Some(index) => index,
            None => {
                let opened = server::call(op::Describe { desc })?;
                let flags = server::call(op::GetFlags { desc })?.flags;
                fds.add_file(File::opened(opened, flags)).map_err(|_| Errno::ENOMEM)?
            }
        };
        files[n] = Some((desc, index));
        fds.hold(index);
        place(fds, Entry { file: index, cloexec: false }, 0, 3)?;
    }
    Ok(())
}

/// What a forked child does first: it has its parent's descriptors but none of its windows.
pub fn after_fork(fds: &mut Fds) {
    fds.windows.abandon();
    fds.rings.abandon();
    (fds.has_locks, fds.has_notes) = (false, false);
    fds.forget_knowledge();
    fds.kept.forget_all();
}
