//! A domain that no process makes: the first one's, and those that were never anybody's.

use crate::{
    at, configure, first_frame, make_spaces, map_library, map_piece, own, Image, FIRST_ROOT_SLOTS,
};
use abi::layout::PAGE;
use abi::slots;
use abi::DispatcherFrame;
use captypes::invocations::options;
use core::mem::offset_of;
use libos::ephemeral::Window;
use libos::vspace::RW;
use libos::{domain, Cap, CapAddr, Place, Rights, Status};

/// Badge of its process at the memory server, as of those that it makes.
const CLIENT: u32 = 2;

/// Makes a domain in the empty slots `dispatcher` and `root`, of memory of which nobody else has anything. Endpoint and session frame are
/// those of its process. Its library, which is in `LIBUNIX_ELF`, is looked at through `window`.
pub fn make_fresh(
    window: &mut Window,
    (dispatcher, root): (CapAddr, CapAddr),
    (endpoint, session): (CapAddr, CapAddr),
    library_bytes: u64,
) -> Result<(), Status> {
    let mut header = [0; 4096];
    let first = library_bytes.min(PAGE) as usize;
    let elf = Place::own(slots::LIBUNIX_ELF);
    window.open(elf, 0, PAGE, libos::vspace::R)?.read(0, &mut header[..first])?;
    let (image, data_bytes, entry) = image_of(&header).ok_or(Status::Invalid)?;
    domain::with(|domain| {
        use libos::ram::Ram;
        make_spaces(&mut domain.arena, root, FIRST_ROOT_SLOTS, dispatcher)?;
        domain.arena.make(libos::CapType::Frame, PAGE, 1, at(root, slots::FRAME))
    })?;
    // On other cores it has a badge already: that of a part.
    slots::MEMD
        .mint_badged(at(root, slots::MEMD), Rights::SEND, CLIENT)
        .or_else(|_| slots::MEMD.mint(at(root, slots::MEMD), Rights::SEND))?;
    endpoint.mint(at(root, slots::UNIXD), Rights::SEND)?;
    session.mint(at(root, slots::SESSION), Rights::READ.or(Rights::WRITE))?;
    let run = Rights::READ.or(Rights::EXEC);
    elf.mint(at(root, slots::LIBUNIX_ELF), run)?;
    fill_private(window, root, &image, data_bytes)?;
    map_library(root, &image)?;
    map_piece(root, own::PT, 0, image.private_start(), image.first_pages())?;
    write_frame(window, root, entry)?;
    configure(root, dispatcher, options::LINUX)
}

/// The library's data from its file, the rest zeros.
fn fill_private(
    window: &mut Window,
    root: CapAddr,
    image: &Image,
    bytes: u64,
) -> Result<(), Status> {
    let mut page = [0; PAGE as usize];
    let piece = at(root, own::PIECES);
    domain::with(|domain| {
        use libos::ram::Ram;
        let pages = image.first_pages() as u64;
        domain.arena.make(libos::CapType::Frame, pages * PAGE, 1, piece)
    })?;
    for from in (0..bytes).step_by(PAGE as usize) {
        let part = &mut page[..(bytes - from).min(PAGE) as usize];
        let offset = image.data as u64 * PAGE + from;
        let elf = Place::own(slots::LIBUNIX_ELF);
        window.open(elf, offset, PAGE, libos::vspace::R)?.read(0, part)?;
        window.open(piece, from, PAGE, RW)?.write(0, part)?;
    }
    Ok(())
}

fn write_frame(window: &mut Window, root: CapAddr, entry: u64) -> Result<(), Status> {
    let regs = first_frame(entry);
    let mut view = window.open(at(root, slots::FRAME), 0, PAGE, RW)?;
    // SAFETY: registers are words without padding.
    let bytes =
        unsafe { core::slice::from_raw_parts(&regs as *const _ as *const u8, size_of_val(&regs)) };
    view.write(offset_of!(DispatcherFrame, save), bytes)?;
    view.write(offset_of!(DispatcherFrame, disabled), &1u32.to_le_bytes())
}

/// Pages of the library from the program headers in the first page of its file: with the bytes of
/// its initialised data and the entry point.
fn image_of(file: &[u8; 4096]) -> Option<(Image, u64, u64)> {
    let word = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    if &file[..4] != b"\x7fELF" {
        return None;
    }
    let (entry, table, count) = (word(24)?, word(32)? as usize, short(56)? as usize);
    let mut image = Image { text: 0, rodata: 0, data: 0, end: 0 };
    let mut data_bytes = 0;
    for index in 0..count.min(16) {
        let at = table + 56 * index;
        let kind = word(at)?;
        let (offset, va, in_file, in_memory) =
            (word(at + 8)?, word(at + 16)?, word(at + 32)?, word(at + 40)?);
        if kind as u32 != 1 || in_memory == 0 {
            continue;
        }
        let page = (va.checked_sub(abi::layout::LIBRARY_IMAGE)? / PAGE) as u32;
        match kind >> 32 & 7 {
            5 => image.text = page,
            4 => image.rodata = page,
            6 => {
                (image.data, data_bytes) = (page, in_file);
                image.end = page + in_memory.div_ceil(PAGE) as u32;
            }
            _ => return None,
        }
        if in_file > 0 && offset / PAGE != page as u64 {
            return None;
        }
    }
    let ordered = image.text < image.rodata && image.rodata < image.data && image.data < image.end;
    ordered.then_some((image, data_bytes, entry))
}
