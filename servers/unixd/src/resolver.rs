//! `/etc/resolv.conf`, as the network says who knows names: as long as it is the file of the boot, and no program has changed it.

use crate::nodes::Tree;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use files::Writer;
use memfs::{Cred, Ino};
use unixproto::Errno;

const IN_ARCHIVE: &str = "root/etc/resolv.conf";
const DIRECTORY: &[u8] = b"etc";
const NAME: &[u8] = b"resolv.conf";

/// The file, as it was when this server last wrote it.
pub struct Resolver {
    file: Ino,
    changed: i64,
    text: Vec<u8>,
}

fn find(tree: &Tree) -> Option<Ino> {
    let names = tree.files().names();
    let directory = names.lookup(names.root(), DIRECTORY).ok()??;
    names.lookup(directory, NAME).ok()?
}

impl Resolver {
    /// The one that the machine began with, if it has one.
    pub fn of_boot(archive: &[u8], tree: &Tree) -> Option<Resolver> {
        let text = bootarchive::find(archive, IN_ARCHIVE).ok()??.data.to_vec();
        let file = find(tree)?;
        let changed = tree.files().names().get(file).ok()?.mtime;
        Some(Resolver { file, changed, text })
    }

    /// These know names. Addresses that are unspecified are none.
    ///
    /// # Errors
    /// There is no memory.
    pub fn renew(&mut self, tree: &mut Tree, servers: &[Ipv4Addr], now: i64) -> Result<(), Errno> {
        let known = servers.iter().filter(|server| !server.is_unspecified());
        let text: String = known.map(|server| format!("nameserver {server}\n")).collect();
        let is_ours = |tree: &Tree| {
            let changed = tree.files().names().get(self.file).map(|inode| inode.mtime);
            find(tree) == Some(self.file) && changed == Ok(self.changed)
        };
        if text.is_empty() || text.as_bytes() == self.text || !is_ours(tree) {
            return Ok(());
        }
        let writer = || Writer { cred: Cred::ROOT, limit: u64::MAX, now };
        let files = tree.files_mut();
        let errno = |_| Errno::ENOSPC;
        files.resize(self.file, 0, writer()).map_err(errno)?;
        let part = files.begin_write(self.file, 0, text.len() as u64, writer()).map_err(errno)?;
        files.store(self.file, part.offset, &text.as_bytes()[..part.bytes as usize])?;
        self.changed = files.names().get(self.file)?.mtime;
        self.text = text.into_bytes();
        Ok(())
    }
}
