//! Program memory: the process pages itself.
//!
//! `uvm` decides; [`backend`] does it by invocations on the capabilities of the process: RAM
//! ([`arena`]), CNodes and tables ([`nodes`]), files ([`object`]). [`library`] is the library's own
//! memory. System calls are in [`calls`]; how other system calls touch program memory is in
//! [`user`].

pub mod arena;
pub mod backend;
pub mod calls;
pub mod leases;
pub mod library;
pub mod nodes;
pub mod object;
pub mod relief;
pub mod rights;
pub mod scan;
pub mod usage;
pub mod user;
pub mod userfault;

use crate::errno::Errno;
use crate::process::{Io, Process};
use crate::server::{self, op};
use crate::sys::limits::Limits;
use crate::sys::numa::Policies;
use crate::vdso;
use abi::layout::{PAGE, PROGRAM_END, PROGRAM_START};
use alloc::string::String;
use alloc::vec::Vec;
use backend::Caps;
use usage::Counted;
use userfault::Userfaults;
use uvm::{Detail, NoMemory, ObjectId, ObjectName, Space, SHARED_MEMORY};

/// Distance between the top of the stack and the mmap area: the stack's limit and more.
pub const STACK_GAP: u64 = 1 << 30;

/// So many upper tables are kept for the next program.
const FEW_UPPERS: usize = 6;

/// The address space of the program, and what it is made of.
pub struct Mm {
    pub space: Space,
    pub caps: Caps,
    /// Is memory that is [locked because it is new](Space::locks_new) touched at once?
    pub touches_new: bool,
    /// Path of the program that runs.
    pub exe: String,
    /// What was counted of it last.
    pub counted: Counted,
    /// What the program was told of the machine and itself: pairs of words, the last one (0, 0).
    pub auxiliary: Vec<(u64, u64)>,
    /// Where the program found its environment at first, and its bytes.
    pub environ: (u64, usize),
    /// Faults that the program serves.
    pub userfaults: Userfaults,
    /// Policies of parts of it.
    pub policies: Policies,
}

impl Mm {
    /// Is nothing noted about parts of it that goes when they are unmapped?
    #[inline(always)]
    pub fn has_no_notes(&self) -> bool {
        self.userfaults.is_empty() && self.policies.is_empty()
    }

    /// An empty address space.
    pub const fn new() -> Self {
        let space = Space::new(PROGRAM_START, PROGRAM_END);
        Mm {
            space,
            caps: Caps::new(),
            touches_new: true,
            exe: String::new(),
            counted: Counted::NONE,
            auxiliary: Vec::new(),
            environ: (0, 0),
            userfaults: Userfaults::new(),
            policies: Policies::new(),
        }
    }

    /// Takes everything away, for a new program.
    ///
    /// # Errors
    ///
    /// Some of the old one's memory may still be visible.
    pub fn clear(&mut self) -> Result<(), NoMemory> {
        self.space.locks_new = false;
        self.userfaults = Userfaults::new();
        self.policies = Policies::new();
        let few = self.caps.upper_tables() <= FEW_UPPERS;
        match few {
            true => self.space.clear(&mut self.caps)?,
            false => self.space.destroy(&mut self.caps)?,
        }
        // The next program may never need such memory.
        let Mm { caps, .. } = self;
        caps.objects.forget_spare(&mut caps.nodes);
        if !few {
            caps.drop_uppers();
        }
        Ok(())
    }
}

impl Mm {
    /// Forgets everything but the files that were mapped and RAM: the state of a child that has its
    /// parent's knowledge but none of its memory.
    pub fn abandon(&mut self) {
        self.space.abandon();
        self.space.locks_new = false;
        self.caps.abandon();
        self.userfaults = Userfaults::new();
        self.policies = Policies::new();
        self.exe = String::new();
    }
}

/// The errors of `uvm` as the program sees them.
pub fn errno(error: uvm::Error) -> Errno {
    match error {
        uvm::Error::Invalid => Errno::EINVAL,
        uvm::Error::NoMemory => Errno::ENOMEM,
        uvm::Error::Exists => Errno::EEXIST,
        uvm::Error::Access => Errno::EACCES,
        uvm::Error::Permission => Errno::EPERM,
        uvm::Error::Fault => Errno::EFAULT,
        uvm::Error::Again => Errno::EAGAIN,
        uvm::Error::Overflow => Errno::EOVERFLOW,
        uvm::Error::NotSupported => Errno::EOPNOTSUPP,
    }
}

/// What was noted of a range goes with what was mapped there.
#[cold]
pub fn drop_notes(task: &mut Io, addr: u64, len: u64) {
    let (start, end) = (addr / PAGE, addr.saturating_add(len).div_ceil(PAGE));
    task.mm.policies.clear(start, end);
    userfault::unmapped(task, addr, len);
}

/// Closes files that are no longer mapped, and takes away the pages of memory that is kept. Called after whatever unmaps, as the last thing:
/// others may use the process meanwhile.
#[inline]
pub fn settle(p: &mut Process) {
    let objects = &p.mm.caps.objects;
    // In a vfork these are the parent's, who has its own table of files.
    if (!objects.released.is_empty() || objects.has_to_empty()) && p.parent.is_none() {
        settle_released(p);
    }
}

#[cold]
#[inline(never)]
fn settle_released(io: &mut Io) {
    // The longest part of an unmapping, and nobody can see that memory any more.
    while let Some((object, request)) = io.mm.caps.objects.next_to_empty() {
        let is_empty = server::wait(io, request).is_ok();
        let caps = &mut io.mm.caps;
        caps.objects.emptied(&mut caps.nodes, object, is_empty);
    }
    close_released(io);
}

fn close_released(io: &mut Io) {
    while let Some((file, desc)) = io.mm.caps.objects.released.pop() {
        match file {
            Some(index) => io.fds.release(index),
            None => server::close(desc),
        }
    }
}

/// A file has this size now, by a call of this process: what lies behind its end is mapped no more, and private copies
/// of it are gone. `unixd` has taken the pages of the file away from all processes.
pub fn truncated(mm: &mut Mm, inode: u64, size: u64) {
    let Mm { space, caps, .. } = mm;
    let pages = size.div_ceil(PAGE);
    let mut last = None;
    while let Some(object) = caps.objects.of_inode(inode, last) {
        // The pages of others stay as well: what could not be taken away here is no different.
        let _ = space.object_cut(caps, object, pages);
        caps.objects.cut(&mut caps.nodes, object, pages);
        last = Some(object);
    }
}

/// Brings the limits of the address space up to date.
pub fn take_limits(mm: &mut Mm, limits: &Limits) {
    let space = &mut mm.space;
    space.limits.address_space = limits.max_address_space();
    space.limits.data = limits.max_data();
    space.limits.stack = limits.max_stack();
}

/// The name of a file that is mapped, as it is now; empty if it cannot be told.
fn path_of(desc: u32) -> String {
    let path = server::call(op::PathOf { desc }).and_then(|it| server::taken(it.count as usize));
    path.map_or(String::new(), |path| String::from_utf8_lossy(&path).into_owned())
}

/// The text of `/proc/self/maps`, or of `smaps`.
pub fn maps_text(mm: &mut Mm, detail: Detail) -> Result<String, Errno> {
    leases::end_all(mm);
    let Mm { space, caps, .. } = mm;
    let name = |id: ObjectId| match caps.objects.get(id) {
        Some(object) => ObjectName {
            device: (0, 1),
            inode: object.inode,
            path: match &object.path {
                Some(path) => path.clone(),
                None if object.file.is_none() => String::from(SHARED_MEMORY),
                None => path_of(object.desc),
            },
        },
        None => ObjectName::default(),
    };
    space.maps_text(caps, detail, name, &vdso::spans()).map_err(|_| Errno::ENOMEM)
}
