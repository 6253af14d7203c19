//! `swapon` and `swapoff`: whether pages leave for [the disk](crate::swap) that `--swap` gives the machine.
//!
//! It has a name, `/dev/swap`. What is read there is a header as `mkswap` writes it, so that programs know what it is, and zeros: not
//! pages of processes. The header can be written, and without one the disk is not taken into use. Of it only that it is one
//! counts: the whole disk is used.
//!
//! Other disks and files are not swapped to (`EINVAL`).

use crate::nodes::{Node, Tree};
use crate::open::device;
use crate::pathops::PathOps;
use crate::swap::{self, Swept};
use crate::wait::{done, Call, Outcome, Tried};
use alloc::vec;
use alloc::vec::Vec;
use credentials::Capability;
use files::Writer;
use memfs::{Cred, Ino};
use unixproto::files::CWD;
use unixproto::{op, Errno};

const NAME: &[u8] = b"swap";
const PAGE: usize = 4096;
const SWAP_FLAG_PREFER: u32 = 0x8000;
const SWAP_FLAG_PRIO_MASK: u32 = 0x7fff;
/// And those of discarding, which this disk does not need.
const SWAP_FLAGS: u32 = 0x7_ffff;
/// How long what else there is to do comes first, between two parts of what comes back.
const PAUSE_NS: u64 = 1;
/// How long one who waits for another's object to be gone waits before it looks again.
const AGAIN_NS: u64 = 5_000_000;

/// Where what is in a header, by Linux's `union swap_header`.
mod at {
    pub const VERSION: usize = 1024;
    pub const LAST_PAGE: usize = 1028;
    pub const LABEL: usize = 1052;
    pub const SIGNATURE: usize = 4086;
}
const SIGNATURE: &[u8] = b"SWAPSPACE2";

/// The header of a disk of so many pages.
fn header(pages: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let last = u32::try_from(pages.saturating_sub(1)).unwrap_or(u32::MAX);
    page[at::VERSION..][..4].copy_from_slice(&1u32.to_le_bytes());
    page[at::LAST_PAGE..][..4].copy_from_slice(&last.to_le_bytes());
    page[at::LABEL..][..7].copy_from_slice(b"tessera");
    page[at::SIGNATURE..].copy_from_slice(SIGNATURE);
    page
}

/// Is this page a header of a disk that has at least so many pages as it says?
fn is_header(page: &[u8], pages: u64) -> bool {
    let word = |at: usize| page[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let last = u64::from(word(at::LAST_PAGE));
    &page[at::SIGNATURE..] == SIGNATURE && word(at::VERSION) == 1 && (1..pages).contains(&last)
}

impl Tree {
    /// The name of the disk for pages, if there is one.
    pub fn add_swap(&mut self, now: i64) -> Result<(), Errno> {
        let bytes = swap::facts().total;
        if bytes == 0 {
            return Ok(());
        }
        let content = self.add_hidden(NAME, device::SWAP, bytes, now)?;
        let header = header(bytes / PAGE as u64);
        let writer = Writer { cred: Cred::ROOT, limit: u64::MAX, now };
        let files = self.files_mut();
        let room = files.begin_write(content, 0, header.len() as u64, writer);
        if room.is_ok_and(|room| room.bytes == header.len() as u64) {
            files.store(content, 0, &header)?;
        }
        Ok(())
    }
}

impl PathOps<'_> {
    /// The disk that a path leads to, by the file of its bytes, as if it were opened to be written.
    fn swap_at(&self, call: &Call) -> Result<Ino, Errno> {
        if !self.has(Capability::SysAdmin)? {
            return Err(Errno::EPERM);
        }
        let path = self.procs.a(self.caller, call)?;
        let node = self.view()?.walk(CWD, &path, true)?.existing()?;
        let Node::Mem(ino) = node else { return Err(Errno::EINVAL) };
        match self.tree.files().names().get(ino)?.node {
            memfs::Node::Dir(_) => Err(Errno::EISDIR),
            memfs::Node::Socket => Err(Errno::ENXIO),
            memfs::Node::Block(device::SWAP) => self.tree.disk(device::SWAP).ok_or(Errno::ENXIO),
            memfs::Node::Block(number)
                if self.tree.device(number).is_some_and(|share| share.is_attached()) =>
            {
                Err(Errno::EBUSY)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// `swapon`.
    pub fn swap_on(&mut self, call: &Call, op: op::SwapOn) -> Tried {
        if op.flags & !SWAP_FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        let content = self.swap_at(call)?;
        if swap::facts().listed.is_some() {
            return Err(Errno::EBUSY);
        }
        let mut page = vec![0; PAGE];
        let size = self.tree.files().names().get(content)?.size();
        self.tree.files_mut().load(content, 0, &mut page)?;
        if !is_header(&page, size / PAGE as u64) {
            return Err(Errno::EINVAL);
        }
        let priority = match op.flags & SWAP_FLAG_PREFER {
            0 => swap::PRIORITY,
            _ => (op.flags & SWAP_FLAG_PRIO_MASK) as i16,
        };
        swap::turn_on(priority)?;
        done(())
    }

    /// `swapoff`. Tried again until all is back, or cannot come.
    pub fn swap_off(&mut self, call: &mut Call) -> Tried {
        let first = call.kept == 0;
        if first {
            self.swap_at(call)?;
        }
        let whose = self.caller.tid;
        match swap::turn_off(whose, first) {
            Ok(Swept::All) => done(()),
            Ok(Swept::Partly) => {
                call.kept = 1;
                Ok(Outcome::Block(self.clock.now() + PAUSE_NS))
            }
            Ok(Swept::Waits) => {
                call.kept = 1;
                Ok(Outcome::Block(self.clock.now() + AGAIN_NS))
            }
            Err(Errno::ENOSPC) => {
                let cred = self.cred();
                let volatile = &mut self.tree.files_mut().memory().volatile;
                if volatile.grow(cred.uid).is_ok() {
                    call.kept = 1;
                    return Ok(Outcome::Block(self.clock.now() + PAUSE_NS));
                }
                swap::stays_on(whose);
                Err(Errno::ENOMEM)
            }
            Err(errno) => {
                swap::stays_on(whose);
                Err(errno)
            }
        }
    }
}
