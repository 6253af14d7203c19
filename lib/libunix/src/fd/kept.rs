//! Descriptions that stay open when their last descriptor is closed.
//!
//! Who opens a file to read it, again and again, gets the same description each time, and `unixd` is neither told of the close nor asked
//! for the next one. It [says](unixproto::session::ShownStat::let_keep) of which files that may be, and takes back what is kept before
//! anybody can see that it is still open: when the file changes, is watched or leased, or the process becomes somebody else.
//!
//! * Only what is as it was when it was opened is kept: nobody else has it, and `unixd` has the offset 0.
//! * It is given again to who opens the same path in the same way, if that [leads](known) there still.

use super::known::{self, Short};
use crate::server;
use crate::thread::company;
use unixproto::files::{Kind, O_CLOEXEC, O_RDONLY};
use unixproto::ops::Opened;
use unixproto::session::SHOWN_FILES;

/// What was opened last at each place for what is known of files.
pub struct Kept {
    opened: [Option<Known>; SHOWN_FILES],
    /// Any was.
    is_used: bool,
}

/// A description, and how it was opened.
struct Known {
    desc: u32,
    path: Short,
}

/// Are these the flags of what is kept? Whether it is closed by `execve` the descriptor says.
#[inline]
pub fn is_plain(flags: u32) -> bool {
    flags & !O_CLOEXEC == O_RDONLY
}

impl Kept {
    /// Nothing was.
    pub const fn new() -> Kept {
        Kept { opened: [const { None }; SHOWN_FILES], is_used: false }
    }
    /// Was anything?
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.is_used
    }
    /// Nothing of it is used again: `unixd` has closed it, or will.
    pub fn forget_all(&mut self) {
        if self.is_used {
            *self = Kept::new();
        }
    }
    /// This description is not kept.
    pub fn forget(&mut self, desc: u32) {
        for known in &mut self.opened {
            known.take_if(|known| known.desc == desc);
        }
    }

    /// A file was opened in a plain way, by a path of which it is known where it leads.
    pub fn opened(&mut self, opened: &Opened, path: Short) {
        if opened.kind == Kind::Regular as u8 && !opened.is_stored && !opened.is_large {
            self.opened[place(opened.inode)] = Some(Known { desc: opened.desc, path });
            self.is_used = true;
        }
    }

    /// What is kept of a path that is opened in a plain way.
    pub fn again(&mut self, path: &Short) -> Option<Opened> {
        let inode = known::leads(path, true)?;
        let known = self.opened[place(inode)].as_ref().filter(|known| known.path == *path)?;
        let desc = known.desc;
        // `unixd` takes it away before it says to anybody that the path leads elsewhere.
        if company::is_there() || !server::shown_files().stat(inode).take_back(inode, desc) {
            return None;
        }
        let kind = Kind::Regular as u8;
        Some(Opened { desc, kind, inode, is_stored: false, is_large: false })
    }

    /// The last descriptor of a file has been closed. `true`: its description is kept.
    pub fn keep(&mut self, desc: u32, inode: u64) -> bool {
        let known = self.opened[place(inode)].as_ref();
        known.is_some_and(|known| known.desc == desc)
            && !company::is_there()
            && server::shown_files().stat(inode).keep(inode, desc)
    }
}

fn place(inode: u64) -> usize {
    inode as usize % SHOWN_FILES
}
