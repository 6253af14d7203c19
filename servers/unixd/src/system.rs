//! What the server knows of the machine and the session as a whole.

use crate::spaces::Numbers;
use crate::wait::{done, Tried};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use libos::runtime::PersistentMemory;
use syscalls::x86_64::Sysno;
use unixproto::Errno;

/// Refused system calls that are counted, at most.
const REFUSED_MAX: usize = 1000;

/// See the head of this file.
#[derive(Default)]
pub struct System {
    /// All RAM, bytes.
    ram: u64,
    /// Memory that the next boot finds as it is left.
    persistent: Option<PersistentMemory>,
    /// Bytes of the library's file.
    library: u64,
    /// The argument block of the first process.
    args: Vec<u8>,
    /// Descriptions 0, 1 and 2 of the first process.
    stdio: [u32; 3],
    /// Patterns of the files that are handed out at the end.
    exports: Option<Vec<u8>>,
    /// System calls that were refused because what they ask for is not there, by number and error, with how often.
    refused: BTreeMap<(u64, u32), u64>,
    /// Wait status of the first process, once it has ended.
    ended: Option<u32>,
    /// Numbers of name spaces.
    numbers: Numbers,
}

impl System {
    /// A machine with so much RAM, in bytes, and with this persistent memory.
    pub fn new(ram: u64, persistent: Option<PersistentMemory>) -> System {
        System { ram, persistent, ..System::default() }
    }
    /// The persistent memory that this server holds. The memory server does not know of it.
    pub fn persistent_memory(&self) -> Option<PersistentMemory> {
        self.persistent
    }
    /// All RAM, bytes.
    pub fn ram(&self) -> u64 {
        self.ram
    }
    /// Numbers of name spaces.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }
    /// The library's file has so many bytes.
    pub fn set_library(&mut self, bytes: u64) {
        self.library = bytes;
    }
    /// Bytes of the library's file.
    pub fn library(&self) -> u64 {
        self.library
    }
    /// What the first process begins with.
    pub fn set_first(&mut self, args: Vec<u8>, stdio: [u32; 3]) {
        (self.args, self.stdio) = (args, stdio);
    }
    /// At the end, these files are to be handed out.
    pub fn set_exports(&mut self, patterns: Vec<u8>) {
        self.exports = Some(patterns);
    }
    /// Patterns of the files that are to be handed out at the end.
    pub fn exports(&self) -> Option<&[u8]> {
        self.exports.as_deref()
    }
    /// The argument block of the first process.
    pub fn args(&self) -> &[u8] {
        &self.args
    }
    /// Descriptions 0, 1 and 2 of the first process.
    pub fn stdio(&self) -> [u32; 3] {
        self.stdio
    }
    /// The first process has ended, and with it the session.
    pub fn end(&mut self, status: u32) {
        self.ended = Some(status);
    }
    /// Wait status of the first process, once it has ended.
    #[inline]
    pub fn ended(&self) -> Option<u32> {
        self.ended
    }
    /// Counts a system call that was refused because what it asks for is not there.
    pub fn count_refused(&mut self, number: u64, error: u32) -> Tried {
        let key = (number, error);
        if self.refused.len() < REFUSED_MAX || self.refused.contains_key(&key) {
            *self.refused.entry(key).or_default() += 1;
        }
        done(())
    }
    /// Refused system calls: name, error, and how often each was seen.
    pub fn refused(&self) -> impl Iterator<Item = (Cow<'static, str>, Errno, u64)> + '_ {
        self.refused.iter().map(|(&(number, error), &count)| {
            let known = usize::try_from(number).ok().and_then(Sysno::new);
            let name =
                known.map_or_else(|| format!("{number}").into(), |known| known.name().into());
            (name, Errno(error as u16), count)
        })
    }
}
