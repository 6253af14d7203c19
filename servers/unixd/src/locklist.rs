//! `/proc/locks`: advisory locks and leases, and who waits for them.

use crate::leases::number;
use crate::locks::{Listed, Locked};
use crate::pathops::identity;
use crate::proctext::Texts;
use alloc::string::String;
use core::fmt::Write;
use filelock::{Kind, Owner};
use memfs::Ino;
use unixproto::files::lock;

/// How a lock of a file without a name here is shown: as those of Linux on what has no inode.
const NO_FILE: &str = "<none>:0";

impl Texts<'_> {
    pub fn locks_text(&self) -> String {
        let Texts { procs, descs, tree, .. } = *self;
        let mut list = List { text: String::new(), number: 0 };
        let on = Locked { procs, descs, files: tree.files() };
        self.locks.list(on, |Listed { file, lock, is_whole, waits }| {
            let (what, pid) = match (is_whole, lock.owner) {
                (true, _) => ("FLOCK  ADVISORY ", self.shown(lock.process)),
                (false, Owner::Process(pid)) => ("POSIX  ADVISORY ", self.shown(pid)),
                (false, Owner::Description(_)) => ("OFDLCK ADVISORY ", -1),
            };
            let kind = if lock.kind == Kind::Shared { "READ" } else { "WRITE" };
            let file = file.map_or(String::from(NO_FILE), |ino| self.file_text(ino));
            // The last byte of all is the end.
            let last = if lock.last == i64::MAX as u64 { None } else { Some(lock.last) };
            list.add(waits, what, (kind, pid), &file, (lock.start, last));
        });
        for (ino, file) in self.leases.iter() {
            for lease in file.leases.iter() {
                let what =
                    if lease.is_breaking() { "LEASE  BREAKING " } else { "LEASE  ACTIVE   " };
                let kind = match number(lease.target()) {
                    lock::SHARED => "READ",
                    lock::EXCLUSIVE => "WRITE",
                    _ => "UNLCK",
                };
                let pid = self.shown(lease.process);
                list.add(false, what, (kind, pid), &self.file_text(ino), (0, None));
            }
            // Which lease each of them waits for changes: it is the first one.
            for (&tid, &writes) in &file.waiters {
                let kind = if writes { "WRITE" } else { "READ" };
                let pid = self.shown(procs.leader(tid));
                list.add(true, "LEASE  BREAKER  ", (kind, pid), NO_FILE, (0, None));
            }
        }
        list.text
    }

    /// The number of a process for who reads; 0: he does not see it.
    fn shown(&self, pid: u32) -> i64 {
        self.procs.number_for(self.reader, pid).into()
    }

    fn file_text(&self, ino: Ino) -> String {
        let mut text = String::new();
        if let Ok((device, number)) = identity(self.tree, ino) {
            put!(text, "{:02x}:{:02x}:{number}", device >> 8, device & 0xff);
        }
        text
    }
}

/// Lines, of which those that wait have the number of what they wait for.
struct List {
    text: String,
    number: usize,
}

impl List {
    fn add(
        &mut self,
        waits: bool,
        what: &str,
        (kind, pid): (&str, i64),
        file: &str,
        (start, last): (u64, Option<u64>),
    ) {
        // As on Linux, what belongs to processes that the reader does not see is not there.
        if pid == 0 {
            return;
        }
        self.number += usize::from(!waits);
        let (number, arrow) = (self.number, if waits { " ->" } else { "" });
        put!(self.text, "{number}:{arrow} {what} {kind} {pid} {file} {start} ");
        match last {
            Some(last) => put_line!(self.text, "{last}"),
            None => put_line!(self.text, "EOF"),
        }
    }
}
