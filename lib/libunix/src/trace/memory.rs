//! The program's memory, for its tracer.

use crate::mm::{leases, user, Mm};
use crate::vdso;
use abi::layout::PAGE;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use unixproto::session::DATA_BYTES;
use uvm::{Flags, Prot};

/// Reads as much as there is. `force`: also what the program itself may not read.
pub fn read(mm: &mut Mm, address: u64, len: usize, force: bool) -> Vec<u8> {
    if let Some(image) = vdso::rest_of_image(address) {
        return image[..len.min(image.len())].to_vec();
    }
    let mut bytes = vec![0; len.min(DATA_BYTES)];
    let len = bytes.len();
    let done = move_all(mm, (address, len), force.then_some(Prot::READ), |mm, at, part| {
        user::read(mm, at, &mut bytes[part]).bytes
    });
    bytes.truncate(done);
    bytes
}

/// Writes as much as there is room for. `force`: also where the program itself may not write, in a page of its own.
pub fn write(mm: &mut Mm, address: u64, bytes: &[u8], force: bool) -> usize {
    let len = bytes.len();
    move_all(mm, (address, len), force.then_some(Prot::WRITE), |mm, at, part| {
        user::write(mm, at, &bytes[part]).bytes
    })
}

/// Moves as many bytes as the program may, with `act`, and then page by page also where it has not the right `forced`.
fn move_all(
    mm: &mut Mm,
    (address, len): (u64, usize),
    forced: Option<Prot>,
    mut act: impl FnMut(&mut Mm, u64, Range<usize>) -> usize,
) -> usize {
    let mut done = act(mm, address, 0..len);
    let Some(right) = forced else { return done };
    while done < len {
        let at = address.wrapping_add(done as u64);
        let end = len.min(done + (PAGE - at % PAGE) as usize);
        match with_right(mm, at, right, |mm| act(mm, at, done..end)) {
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
    leases::end_around(mm, at);
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
