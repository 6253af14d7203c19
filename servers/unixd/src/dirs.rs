//! Reading directories.

use crate::descs::{Descs, Object};
use crate::names::View;
use crate::nodes::{Node, Tree};
use crate::procs::Procs;
use crate::voices::Speaker;
use crate::wait::{count, Tried};
use alloc::vec::Vec;
use memfs::{Ino, FIRST_COOKIE};
use unixproto::session::DATA_BYTES;
use unixproto::Errno;

/// Bytes of a `struct linux_dirent64` before the name.
const HEADER: usize = 19;

/// Where in a directory of `/proc` names begin that are numbers.
const NUMBERS: u64 = 1 << 10;

/// Entries of a directory as `getdents64` gives them.
pub struct Dents {
    bytes: Vec<u8>,
    most: usize,
    full: bool,
}

impl Dents {
    /// None yet, and room for so many bytes.
    pub fn new(most: usize) -> Dents {
        Dents { bytes: Vec::new(), most: most.min(DATA_BYTES), full: false }
    }

    /// What there is; `EINVAL` if there was no room for any.
    pub fn bytes(&self) -> Result<&[u8], Errno> {
        match self.bytes.is_empty() && self.full {
            true => Err(Errno::EINVAL),
            false => Ok(&self.bytes),
        }
    }

    /// Adds an entry; false if it does not fit.
    pub fn add(&mut self, ino: u64, next: u64, kind: u8, name: &[u8]) -> bool {
        let length = (HEADER + name.len() + 1).next_multiple_of(8);
        if self.full || self.bytes.len() + length > self.most {
            self.full = true;
            return false;
        }
        let end = self.bytes.len() + length;
        self.bytes.extend_from_slice(&ino.to_le_bytes());
        self.bytes.extend_from_slice(&next.to_le_bytes());
        self.bytes.extend_from_slice(&(length as u16).to_le_bytes());
        self.bytes.push(kind);
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }
}

/// The next entries of a directory, at most so many bytes.
pub fn get_dents(
    descs: &mut Descs,
    tree: &Tree,
    procs: &Procs,
    caller: Speaker,
    (id, most): (u32, usize),
) -> Tried {
    let desc = descs.of(caller.pid, id)?;
    desc.readable()?;
    let Object::Dir(node) = desc.object else { return Err(Errno::ENOTDIR) };
    let mut dents = Dents::new(most);
    let from = desc.offset;
    let view = View::new(tree, procs, descs, caller)?;
    let next = match node {
        Node::Mem(ino) => view.list(ino, from, &mut dents)?,
        Node::Proc(node) => view.list_proc(node, from, &mut dents)?,
        Node::Share(_) => return Err(Errno::EBADF),
    };
    let bytes = dents.bytes()?;
    procs.put(caller, bytes)?;
    descs.of_mut(caller.pid, id)?.offset = next;
    count(bytes.len())
}

/// The number of an inode as `stat` shows it.
fn number(names: &memfs::Fs<crate::frames::Contents>, ino: Ino) -> Result<u64, Errno> {
    let kept = names.get(ino)?.kept();
    Ok(kept.map_or(ino.0, |memfs::Kept(number)| number.get()).into())
}

impl View<'_> {
    fn list(&self, ino: Ino, from: u64, dents: &mut Dents) -> Result<u64, Errno> {
        let names = self.tree.files().names();
        let inode = names.get(ino)?;
        let dir = names.look_in(ino)?;
        if inode.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        let mut next = from;
        for (cookie, target, name) in [(0, ino, &b"."[..]), (1, dir.parent, b"..")] {
            if from <= cookie && dents.add(number(names, target)?, cookie + 1, 4, name) {
                next = cookie + 1;
            }
        }
        if dents.full {
            return Ok(next);
        }
        for entry in dir.entries(from.max(FIRST_COOKIE)) {
            let kind = (names.get(entry.ino)?.node.type_bits() >> 12) as u8;
            if !dents.add(number(names, entry.ino)?, entry.next, kind, entry.name) {
                break;
            }
            next = entry.next;
        }
        Ok(next)
    }

    fn list_proc(
        &self,
        node: crate::procfs::ProcNode,
        from: u64,
        dents: &mut Dents,
    ) -> Result<u64, Errno> {
        let mut next = from;
        // What is a number keeps its place, whichever others come and go between two calls.
        let place = |(index, (name, kind, ino)): (usize, crate::procfs::Entry)| {
            (number_of(&name).map_or(index as u64, |n| NUMBERS + n), name, kind, ino)
        };
        let first = u32::try_from(from.saturating_sub(NUMBERS)).unwrap_or(u32::MAX);
        let mut all: Vec<_> =
            self.proc_entries(node, first)?.into_iter().enumerate().map(place).collect();
        all.sort_unstable_by_key(|(place, ..)| *place);
        for (place, name, kind, ino) in all.iter().filter(|(place, ..)| *place >= from) {
            if !dents.add(*ino, place + 1, *kind, name) {
                break;
            }
            next = place + 1;
        }
        Ok(next)
    }
}

/// The number that a name is.
fn number_of(name: &[u8]) -> Option<u64> {
    core::str::from_utf8(name).ok()?.parse().ok()
}
