//! Policies of memory (`set_mempolicy` and its relatives). All memory that a program can have is of node 0, as
//! `/sys/devices/system/node` says; so policies are checked, kept and told as on Linux with one node, and move nothing.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::{self, header, op};
use crate::sys::processes::has;
use abi::layout::PAGE;
use alloc::vec;
use core::sync::atomic::Ordering::Relaxed;
use credentials::Capability;
use userfault::Runs;

/// A policy: its mode with its flags, and the nodes that it tells, of the first 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    mode: u32,
    nodes: u64,
}

/// Policies of ranges of memory, by pages.
pub type Policies = Runs<Policy>;

mod mode {
    pub const DEFAULT: u32 = 0;
    pub const PREFERRED: u32 = 1;
    pub const BIND: u32 = 2;
    pub const INTERLEAVE: u32 = 3;
    pub const LOCAL: u32 = 4;
    pub const PREFERRED_MANY: u32 = 5;
    /// The first that there is not.
    pub const END: u32 = 6;
    pub const BALANCING: u32 = 1 << 13;
    pub const RELATIVE: u32 = 1 << 14;
    pub const STATIC: u32 = 1 << 15;
    pub const FLAGS: u32 = BALANCING | RELATIVE | STATIC;
}

/// Words of a set of nodes, of which there may be so many bits.
const MOST_BITS: u64 = 8 * PAGE;

/// A set of nodes: those of the first word. `EINVAL`: there are others, or it is too long.
fn nodes(mm: &mut Mm, mask: u64, bits: u64) -> Result<u64> {
    let bits = bits.wrapping_sub(1);
    if bits == 0 || mask == 0 {
        return Ok(0);
    }
    if bits > MOST_BITS {
        return Err(Errno::EINVAL);
    }
    let mut words = vec![0u64; bits.div_ceil(64) as usize];
    user::words_in(mm, mask, &mut words)?;
    if !bits.is_multiple_of(64) {
        if let Some(last) = words.last_mut() {
            *last &= (1 << (bits % 64)) - 1;
        }
    }
    // As many as Linux may be made for.
    const POSSIBLE: usize = 1024 / 64;
    if words.iter().skip(POSSIBLE).any(|word| *word != 0) {
        return Err(Errno::EINVAL);
    }
    // Others than node 0 are not there, but may be named.
    Ok(words.iter().enumerate().fold(0, |all, (n, word)| {
        if n == 0 {
            *word
        } else {
            all | u64::from(*word != 0) << 1
        }
    }))
}

/// The policy that a mode and nodes make; `None`: the default.
fn policy(mode: u32, nodes: u64) -> Result<Option<Policy>> {
    use mode::*;
    let flags = mode & FLAGS;
    let kind = mode & !FLAGS;
    if kind >= END || flags & (STATIC | RELATIVE) == STATIC | RELATIVE {
        return Err(Errno::EINVAL);
    }
    if flags & BALANCING != 0 && kind != BIND && kind != PREFERRED_MANY {
        return Err(Errno::EINVAL);
    }
    match kind {
        DEFAULT if nodes == 0 => return Ok(None),
        DEFAULT => return Err(Errno::EINVAL),
        LOCAL | PREFERRED if nodes == 0 => {
            return match flags & (STATIC | RELATIVE) {
                0 => Ok(Some(Policy { mode: LOCAL | flags, nodes: 0 })),
                _ => Err(Errno::EINVAL),
            };
        }
        LOCAL => return Err(Errno::EINVAL),
        _ => {}
    }
    // Of relative ones each is node 0, as there is no other.
    let has_node = nodes & 1 != 0 || flags & RELATIVE != 0 && nodes != 0;
    // With these flags it tells the nodes that were named, not those that there are.
    let told = if flags & (STATIC | RELATIVE) != 0 { nodes } else { 1 };
    match has_node {
        true => Ok(Some(Policy { mode, nodes: told })),
        false => Err(Errno::EINVAL),
    }
}

pub fn set_mempolicy(task: &mut Task, mode: u32, mask: u64, bits: u64) -> Result<u64> {
    let nodes = nodes(&mut task.mm, mask, bits)?;
    task.me.policy = policy(mode, nodes)?;
    Ok(0)
}

pub fn get_mempolicy(
    task: &mut Task,
    told: u64,
    mask: u64,
    bits: u64,
    addr: u64,
    flags: u64,
) -> Result<u64> {
    const NODE: u64 = 1;
    const ADDR: u64 = 2;
    const ALLOWED: u64 = 4;
    const NODES: u64 = 1;
    if mask != 0 && bits < NODES || flags & !(NODE | ADDR | ALLOWED) != 0 {
        return Err(Errno::EINVAL);
    }
    let (value, nodes) = if flags & ALLOWED != 0 {
        if flags & (NODE | ADDR) != 0 {
            return Err(Errno::EINVAL);
        }
        (0, 1)
    } else {
        let found = match flags & ADDR != 0 {
            true => {
                if !task.mm.space.is_mapped(addr & !(PAGE - 1), PAGE) {
                    return Err(Errno::EFAULT);
                }
                task.mm.policies.get(addr / PAGE)
            }
            false if addr != 0 => return Err(Errno::EINVAL),
            false => task.me.policy,
        };
        let value = match (flags & NODE != 0, flags & ADDR != 0) {
            (false, _) => found.map_or(mode::DEFAULT, |policy| policy.mode),
            // The page is made to be there.
            (true, true) => {
                let mut byte = [0];
                user::bytes_in(&mut task.mm, addr, &mut byte)?;
                0
            }
            (true, false) => match found.map(|policy| policy.mode & !mode::FLAGS) {
                Some(mode::INTERLEAVE) => 0,
                _ => return Err(Errno::EINVAL),
            },
        };
        (value, found.map_or(0, |policy| policy.nodes))
    };
    if told != 0 {
        user::copy_out(&mut task.mm, told, &value)?;
    }
    if mask != 0 {
        put_nodes(&mut task.mm, mask, bits, nodes)?;
    }
    Ok(0)
}

fn put_nodes(mm: &mut Mm, mask: u64, bits: u64, nodes: u64) -> Result<()> {
    let words = bits.saturating_sub(1).div_ceil(64) as usize;
    if words as u64 * 8 > PAGE {
        return Err(Errno::EINVAL);
    }
    let mut all = vec![0u64; words];
    if let Some(first) = all.first_mut() {
        *first = nodes;
    }
    user::words_out(mm, mask, &all)
}

/// `MPOL_MF_*`: what is to be done with pages that are elsewhere.
mod moves {
    pub const STRICT: u32 = 1;
    pub const MOVE: u32 = 2;
    pub const MOVE_ALL: u32 = 4;
}

/// Are these flags among those that there are? Only who has `CAP_SYS_NICE` may move what others share with it.
fn check_moves(flags: u32, known: u32) -> Result<()> {
    match flags {
        flags if flags & !known != 0 => Err(Errno::EINVAL),
        flags if flags & moves::MOVE_ALL != 0 && !has(Capability::SysNice) => Err(Errno::EPERM),
        _ => Ok(()),
    }
}

pub fn mbind(
    mm: &mut Mm,
    start: u64,
    len: u64,
    how: u32,
    mask: u64,
    bits: u64,
    flags: u32,
) -> Result<u64> {
    if how & !mode::FLAGS >= mode::END {
        return Err(Errno::EINVAL);
    }
    let nodes = nodes(mm, mask, bits)?;
    check_moves(flags, moves::STRICT | moves::MOVE | moves::MOVE_ALL)?;
    if start & (PAGE - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    let len = len.checked_next_multiple_of(PAGE).unwrap_or(0);
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    if len == 0 {
        return Ok(0);
    }
    let policy = policy(how, nodes)?;
    if !mm.space.is_mapped(start, len) {
        return Err(Errno::EFAULT);
    }
    match policy {
        Some(policy) => mm.policies.set(start / PAGE, end / PAGE, policy),
        None => mm.policies.clear(start / PAGE, end / PAGE),
    }
    Ok(0)
}

/// Memory has moved, and its policies with it.
#[cold]
pub fn moved(policies: &mut Policies, (from, old): (u64, u64), (to, new): (u64, u64)) {
    let (start, end) = (from / PAGE, (from + old).div_ceil(PAGE));
    let parts = policies.within(start, end);
    policies.clear(start, end);
    // What is new goes on as what was last.
    let last = parts.last().filter(|(_, behind, _)| *behind == end).map(|(.., policy)| *policy);
    for (a, b, policy) in parts {
        policies.set(to / PAGE + (a - start), to / PAGE + (b - start), policy);
    }
    if let Some(policy) = last {
        policies.set(to / PAGE + (end - start), (to + new).div_ceil(PAGE), policy);
    }
    policies.clear((to + new).div_ceil(PAGE), to / PAGE + (end - start));
}

/// Is a process the caller? `ESRCH`: there is none. `EPERM`: only a process's own library knows where its memory is.
fn check_own(pid: i32) -> Result<()> {
    let own = header().pid.load(Relaxed) as i32;
    if pid == 0 || pid == own {
        return Ok(());
    }
    server::call(op::Kill { pid, signal: 0, code: 0, value: 0 })?;
    Err(Errno::EPERM)
}

pub fn move_pages(
    mm: &mut Mm,
    pid: i32,
    count: u64,
    pages: u64,
    to: u64,
    told: u64,
    flags: u32,
) -> Result<u64> {
    check_moves(flags, moves::MOVE | moves::MOVE_ALL)?;
    check_own(pid)?;
    for n in 0..count {
        let page: u64 = user::copy_in(mm, pages.wrapping_add(8 * n))?;
        if to != 0 {
            let node: i32 = user::copy_in(mm, to.wrapping_add(4 * n))?;
            if node != 0 {
                return Err(Errno::ENODEV);
            }
        }
        let status = node_of(mm, page);
        user::copy_out(mm, told.wrapping_add(4 * n), &status)?;
    }
    Ok(0)
}

/// The node of a page, or the negative number of an error: `EFAULT` for one that is not mapped, `ENOENT` for one that is not there.
fn node_of(mm: &mut Mm, addr: u64) -> i32 {
    let page = addr / PAGE;
    if !mm.space.is_mapped(page * PAGE, PAGE) {
        return -(Errno::EFAULT as i32);
    }
    let mut is_there = false;
    let crate::mm::Mm { space, caps, .. } = mm;
    space.tell_residency(caps, (page, page + 1), |there| is_there = there);
    if is_there {
        0
    } else {
        -(Errno::ENOENT as i32)
    }
}

pub fn migrate_pages(mm: &mut Mm, pid: i32, bits: u64, from: u64, to: u64) -> Result<u64> {
    nodes(mm, from, bits)?;
    let to = nodes(mm, to, bits)?;
    check_own(pid)?;
    match to & 1 {
        0 => Err(Errno::EINVAL),
        _ => Ok(0),
    }
}

/// As Linux since 4.0: the pages of a shared mapping from `start` on show others of the same file.
pub fn remap_file_pages(
    p: &mut crate::process::Process,
    start: u64,
    len: u64,
    rights: u64,
    page: u64,
) -> Result<u64> {
    use uvm::{Flags, MapRequest, Placement};
    let (start, len) = (start & !(PAGE - 1), len & !(PAGE - 1));
    let end = start.checked_add(len).filter(|end| *end > start).ok_or(Errno::EINVAL)?;
    let pages = len / PAGE;
    let last = page.checked_add(pages).ok_or(Errno::EINVAL)?;
    if rights != 0 {
        return Err(Errno::EINVAL);
    }
    let entry = *p.mm.space.map().at(start / PAGE).ok_or(Errno::EINVAL)?;
    let object = entry.object.filter(|_| entry.flags.has(Flags::SHARED)).ok_or(Errno::EINVAL)?;
    // What lies in the range has to be of the same file, with the same rights.
    let mut at = start / PAGE;
    for next in p.mm.space.map().within(start / PAGE, end / PAGE) {
        if next.start != at || next.object != Some(object) || next.prot != entry.prot {
            return Err(Errno::EINVAL);
        }
        at = next.end;
    }
    if at < end / PAGE {
        return Err(Errno::EINVAL);
    }
    // As far as files can reach.
    if last > i64::MAX as u64 / PAGE {
        return Err(Errno::EOVERFLOW);
    }
    let request = MapRequest {
        addr: start,
        len,
        prot: entry.prot,
        placement: Placement::Fixed,
        flags: entry.flags,
        object: Some((object, page * PAGE)),
    };
    crate::mm::calls::enter(p, &request, crate::mm::calls::MAP_POPULATE)?;
    Ok(0)
}
