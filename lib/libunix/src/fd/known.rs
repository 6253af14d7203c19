//! Attributes of files that are known, and where paths lead, without asking.
//!
//! `unixd` [shows](server::shown_files) what it is asked for again, and takes that away before anybody is told of a change. So what
//! is there is what it would answer. Where paths lead it says by one number for all of them: as long as that is the same, each leads to
//! the inode to which it led.

use super::glance;
use crate::mm::user;
use crate::server;
use crate::signal::Own;
use crate::sys::paths::AT_FDCWD;
use ::glance::Record;
use abi::layout::PAGE;
use abi::Regs;
use core::sync::atomic::AtomicU64;
use unixproto::files::{AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW, CWD};
use unixproto::ops::Known;

/// How many paths are kept, each at the place that its bytes say.
const WAYS: usize = 16;
/// Words of the longest path that is kept.
const WORDS: usize = 8;
const BYTES: usize = 8 * WORDS;

/// Where paths lead: since when, with a bit for whether a link at the end is followed; to which inode; and the bytes of the path, zeros
/// behind it. Zero: nothing is known.
static LEADS: [Record<AtomicU64, { WORDS + 2 }>; WAYS] =
    [const { Record::new(AtomicU64::new(0), [const { AtomicU64::new(0) }; WORDS + 2]) }; WAYS];

/// A short path, and what says its place.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Short {
    words: [u64; WORDS],
    hash: u64,
}

impl Short {
    /// The path of the program at an address, if it can be read without making anything usable.
    #[inline(always)]
    fn of_program(addr: u64) -> Option<Short> {
        // All of it is in one page, or else what is behind it may not be there.
        if addr % PAGE > PAGE - BYTES as u64 {
            return None;
        }
        let mut short = Short::default();
        for number in 0..WORDS {
            let word: u64 = user::load(addr + 8 * number as u64)?;
            let zeros = word.wrapping_sub(LOWEST) & !word & LOWEST << 7;
            if zeros != 0 {
                // The bytes below the first that is zero.
                let first = zeros & zeros.wrapping_neg();
                short.add(number, word & ((first >> 7) - 1));
                return Some(short);
            }
            short.add(number, word);
        }
        None
    }
    /// A path without a zero byte.
    pub fn of_bytes(path: &[u8]) -> Option<Short> {
        if path.len() >= BYTES {
            return None;
        }
        let mut short = Short::default();
        // As above: the last word has at least one byte that is zero.
        for number in 0..=path.len() / 8 {
            let mut bytes = [0; 8];
            let from = &path[8 * number..];
            let here = from.len().min(8);
            bytes[..here].copy_from_slice(&from[..here]);
            short.add(number, u64::from_le_bytes(bytes));
        }
        Some(short)
    }
    #[inline(always)]
    fn add(&mut self, number: usize, word: u64) {
        self.words[number] = word;
        self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn is_empty(&self) -> bool {
        self.words[0] == 0
    }
    #[inline(always)]
    fn place(&self) -> &'static Record<AtomicU64, { WORDS + 2 }> {
        &LEADS[(self.hash >> 60) as usize % WAYS]
    }
}

const LOWEST: u64 = 0x0101_0101_0101_0101;

/// What says since when, of a path whose last link is followed or not.
#[inline(always)]
fn since(ways: u64, follow: bool) -> u64 {
    ways << 1 | u64::from(follow)
}

/// `unixd` has said what is known now of a path.
pub fn note((dir, path): (u32, &[u8]), follow: bool, known: Known) {
    if known.ways == 0 || dir != CWD {
        return;
    }
    if let Some(short) = Short::of_bytes(path).filter(|short| !short.is_empty()) {
        note_short(&short, follow, known);
    }
}

/// The same of a short path that is relative to the working directory, or to no directory.
pub fn note_short(short: &Short, follow: bool, known: Known) {
    let mut words = [0; WORDS + 2];
    words[0] = since(known.ways, follow);
    words[1] = known.inode;
    words[2..].copy_from_slice(&short.words);
    short.place().write(words);
}

/// Gives the program the attributes of an inode, if they are known.
#[inline(always)]
fn put(inode: u64, to: u64) -> Option<u64> {
    user::store(to, &server::shown_files().stat(inode).get(inode)?)?;
    Some(0)
}

/// The inode to which a path leads, if that is known.
#[inline(always)]
pub fn leads(path: &Short, follow: bool) -> Option<u64> {
    let ways = server::shown_files().ways();
    let [when, inode, words @ ..] = path.place().read()?;
    let differ = words.iter().zip(path.words).fold(0, |all, (here, word)| all | (here ^ word));
    if ways == 0 || when != since(ways, follow) || differ != 0 {
        return None;
    }
    Some(inode)
}

#[inline(always)]
fn stat(path: &Short, follow: bool, to: u64) -> Option<u64> {
    put(leads(path, follow)?, to)
}

/// `stat` without the lock.
pub fn own_stat(_: &mut Own, regs: &Regs) -> Option<u64> {
    stat(&Short::of_program(regs.rdi)?, true, regs.rsi)
}

/// `lstat` without the lock.
pub fn own_lstat(_: &mut Own, regs: &Regs) -> Option<u64> {
    stat(&Short::of_program(regs.rdi)?, false, regs.rsi)
}

/// `fstat` without the lock.
pub fn own_fstat(_: &mut Own, regs: &Regs) -> Option<u64> {
    put(glance::inode_of(regs.rdi)?, regs.rsi)
}

/// `newfstatat` without the lock.
pub fn own_newfstatat(_: &mut Own, regs: &Regs) -> Option<u64> {
    let (dirfd, flags) = (regs.rdi as i32, regs.r10 as u32);
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT) != 0 {
        return None;
    }
    let path = Short::of_program(regs.rsi)?;
    if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        return put(glance::inode_of(regs.rdi)?, regs.rdx);
    }
    let is_absolute = path.words[0] as u8 == b'/';
    if dirfd != AT_FDCWD && !is_absolute {
        return None;
    }
    stat(&path, flags & AT_SYMLINK_NOFOLLOW == 0, regs.rdx)
}
