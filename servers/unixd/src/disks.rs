//! The memory disk: a block device whose bytes are a file without a name.
//!
//! Its memory is taken page by page when it is first written, as Linux's `brd` does: a disk may be larger than
//! the machine's memory, and what of it does not fit is refused to its writer.

use crate::content::Contents;
use crate::descs::Object;
use crate::nodes::Tree;
use crate::open::device;
use crate::wait::{done, Tried};
use alloc::string::String;
use core::fmt::Write;
use memfs::{Attr, Cred, Ino};
use unixproto::files::{SEEK_CUR, SEEK_END, SEEK_SET};
use unixproto::ops::Count;
use unixproto::{op, Errno};

const PAGE: u64 = 4096;
const NAME: &[u8] = b"ram0";
/// The group of disks, by Debian's numbers.
const DISK_GROUP: u32 = 6;
const KIB: u64 = 1024;

impl Tree {
    /// Makes the memory disk, of so many bytes and whole pages, and its name in `/dev`.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no disk of that size.
    pub fn add_disk(&mut self, bytes: u64, now: i64) -> Result<(), Errno> {
        self.add_hidden(NAME, device::RAM_DISK, bytes, now)?;
        Ok(())
    }

    /// Makes a block device of so many bytes, rounded up to whole pages, and its name in `/dev`. Answers the file of its bytes.
    ///
    /// # Errors
    /// `EINVAL`: there is no disk of that size.
    pub fn add_hidden(
        &mut self,
        name: &[u8],
        number: u64,
        bytes: u64,
        now: i64,
    ) -> Result<Ino, Errno> {
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Errno::EINVAL)?;
        if !(PAGE..=memfs::SIZE_MAX).contains(&bytes) {
            return Err(Errno::EINVAL);
        }
        let attr = Attr { mode: 0o660, cred: Cred::ROOT, now };
        let files = self.files_mut();
        let content = files.create_unnamed(bytes, attr.clone())?;
        let names = files.names_mut();
        let dev = names.lookup(names.root(), b"dev")?.ok_or(Errno::ENOENT)?;
        let node = names.create(dev, name, memfs::Node::Block(number), attr)?;
        names.get_mut(node)?.gid = DISK_GROUP;
        self.set_disk(number, content);
        Ok(content)
    }

    /// The text of `/proc/partitions`.
    pub fn partitions(&self) -> String {
        let mut text = String::new();
        let disk = self.disk(device::RAM_DISK).and_then(|ino| self.files().names().get(ino).ok());
        if let Some(disk) = disk {
            text.push_str("major minor  #blocks  name\n\n");
            let (major, minor) = (device::RAM_DISK >> 8, device::RAM_DISK & 0xff);
            put_line!(text, "{major:4}  {minor:7} {:10} ram0", disk.size() / KIB);
        }
        text
    }
}

/// Where an offset is after a `lseek`: never behind the end, and there are no holes to look for.
pub fn seek(size: u64, offset: u64, op: op::Seek) -> Result<u64, Errno> {
    let base = match op.whence {
        SEEK_SET => 0,
        SEEK_CUR => offset,
        SEEK_END => size,
        _ => return Err(Errno::EINVAL),
    };
    let new = base.checked_add_signed(op.offset).filter(|new| *new <= size);
    new.ok_or(Errno::EINVAL)
}

/// How many of `bytes` can be written at `offset`.
pub fn room(size: u64, offset: u64, bytes: u64) -> Result<u64, Errno> {
    match size.checked_sub(offset) {
        Some(left @ 1..) => Ok(bytes.min(left)),
        _ if bytes == 0 => Ok(0),
        _ => Err(Errno::ENOSPC),
    }
}

impl Contents<'_> {
    /// The size of a disk.
    pub fn disk_size(&mut self, op: op::DiskSize) -> Tried {
        match self.descs.of(self.caller.pid, op.desc)?.object {
            Object::Disk { content, .. } => {
                done(Count { count: self.files.names().get(content)?.size() })
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}
