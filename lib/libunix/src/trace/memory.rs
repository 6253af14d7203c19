//! The program's memory, for its tracer.

use crate::mm::{user, Mm};
use abi::layout::PAGE;
use alloc::vec;
use alloc::vec::Vec;
use unixproto::session::DATA_BYTES;
use uvm::{Flags, Prot};

/// Reads as much as there is. `force`: also what the program itself may not read.
pub fn read(mm: &mut Mm, address: u64, len: usize, force: bool) -> Vec<u8> {
    let mut bytes = vec![0; len.min(DATA_BYTES)];
    let mut done = user::read(mm, address, &mut bytes).bytes;
    while force && done < bytes.len() {
        let at = address.wrapping_add(done as u64);
        let end = bytes.len().min(done + (PAGE - at % PAGE) as usize);
        let moved =
            with_right(mm, at, Prot::READ, |mm| user::read(mm, at, &mut bytes[done..end]).bytes);
        match moved {
            None | Some(0) => break,
            Some(more) => done += more,
        }
    }
    bytes.truncate(done);
    bytes
}

/// Writes as much as there is room for. `force`: also where the program itself may not write, in a page of its own.
pub fn write(mm: &mut Mm, address: u64, bytes: &[u8], force: bool) -> usize {
    let mut done = user::write(mm, address, bytes).bytes;
    while force && done < bytes.len() {
        let at = address.wrapping_add(done as u64);
        let end = bytes.len().min(done + (PAGE - at % PAGE) as usize);
        let moved =
            with_right(mm, at, Prot::WRITE, |mm| user::write(mm, at, &bytes[done..end]).bytes);
        match moved {
            None | Some(0) => break,
            Some(more) => done += more,
        }
    }
    done
}

/// Does something with one page that the program may not do with it. `None`: it may do so already, or that would change
/// what others see.
fn with_right(
    mm: &mut Mm,
    at: u64,
    right: Prot,
    act: impl FnOnce(&mut Mm) -> usize,
) -> Option<usize> {
    let page = at & !(PAGE - 1);
    let entry = *mm.space.map().at(page / PAGE)?;
    let writes_shared = entry.flags.has(Flags::SHARED) && right.has(Prot::WRITE);
    if entry.prot.has(right) || writes_shared {
        return None;
    }
    let Mm { space, caps, .. } = mm;
    space.mprotect(caps, page, PAGE, entry.prot.or(right).or(Prot::READ)).ok()?;
    let done = act(mm);
    let Mm { space, caps, .. } = mm;
    // The page has just had other rights: it can have these.
    let _ = space.mprotect(caps, page, PAGE, entry.prot);
    Some(done)
}
