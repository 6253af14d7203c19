//! A static program whose file is in memory: refuses what could not be started.

use crate::head::{headers, Head};
use core::ops::Range;
use elf::abi::{PF_W, PF_X, PT_DYNAMIC, PT_INTERP, PT_LOAD};
use elf::segment::ProgramHeader;
use paging::PAGE;

/// Why a file is no program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageError {
    /// Not an ELF file for this machine, or damaged.
    NotElf,
    /// It needs a dynamic linker.
    Dynamic,
    /// A segment is outside the file or outside the addresses of programs, shares a page with
    /// another, or is both writable and executable.
    BadSegment,
    /// The entry point is in no executable segment.
    BadEntry,
}

/// A part of the program in memory: whole pages with one set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// Address of its first page.
    pub va: u64,
    /// Bytes, a multiple of a page; zero behind `skip + data`.
    pub bytes: u64,
    /// Where in the first page the contents start.
    pub skip: usize,
    /// The contents.
    pub data: &'a [u8],
    /// What its pages are for.
    pub access: Access,
}

/// What the pages of a segment are for. Nothing is both written and executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Data that never changes.
    Read,
    /// Data that is written.
    Write,
    /// Instructions, and what is read beside them.
    Execute,
}

/// A program that can be started.
pub struct Image<'a> {
    file: &'a [u8],
    headers: &'a [u8],
    /// The addresses that its segments may have.
    within: Range<u64>,
    /// Address of the first instruction.
    pub entry: u64,
}

impl<'a> Image<'a> {
    /// Reads and checks `file`, a program whose segments lie within these addresses.
    ///
    /// # Errors
    ///
    /// The file is no program for this machine, needs a dynamic linker, or could not be loaded.
    pub fn parse(file: &'a [u8], within: Range<u64>) -> Result<Self, ImageError> {
        let head = Head::parse(file).filter(|head| !head.position_independent);
        let head = head.ok_or(ImageError::NotElf)?;
        let headers = part(file, head.headers_offset, head.headers_bytes());
        let headers = headers.ok_or(ImageError::NotElf)?;
        let image = Image { file, headers, within, entry: head.entry };
        if image.headers().any(|header| matches!(header.p_type, PT_DYNAMIC | PT_INTERP)) {
            return Err(ImageError::Dynamic);
        }
        let (mut end, mut entry_found) = (image.within.start, false);
        for segment in image.segments() {
            let segment = segment?;
            if segment.va < end {
                return Err(ImageError::BadSegment);
            }
            end = segment.va + segment.bytes;
            entry_found |=
                segment.access == Access::Execute && (segment.va..end).contains(&image.entry);
        }
        entry_found.then_some(image).ok_or(ImageError::BadEntry)
    }

    /// What is loaded, in order of address.
    ///
    /// # Errors
    ///
    /// None, of an image that [`Image::parse`] gave.
    pub fn segments(&self) -> impl Iterator<Item = Result<Segment<'a>, ImageError>> + '_ {
        let loaded = |header: &ProgramHeader| header.p_type == PT_LOAD && header.p_memsz > 0;
        self.headers().filter(loaded).map(|header| self.segment(&header))
    }

    fn headers(&self) -> impl Iterator<Item = ProgramHeader> + 'a {
        headers(self.headers)
    }

    fn segment(&self, header: &ProgramHeader) -> Result<Segment<'a>, ImageError> {
        let data = part(self.file, header.p_offset, header.p_filesz);
        let data = data.ok_or(ImageError::BadSegment)?;
        let va = header.p_vaddr & !(PAGE - 1);
        let end = header.p_vaddr.checked_add(header.p_memsz).ok_or(ImageError::BadSegment)?;
        let inside = va >= self.within.start && end <= self.within.end;
        if !inside || header.p_filesz > header.p_memsz {
            return Err(ImageError::BadSegment);
        }
        let access = match (header.p_flags & PF_W != 0, header.p_flags & PF_X != 0) {
            (false, false) => Access::Read,
            (false, true) => Access::Execute,
            (true, false) => Access::Write,
            (true, true) => return Err(ImageError::BadSegment),
        };
        let bytes = end.next_multiple_of(PAGE) - va;
        Ok(Segment { va, bytes, skip: (header.p_vaddr - va) as usize, data, access })
    }
}

/// The bytes of a file from `offset` on, if it has so many.
fn part(file: &[u8], offset: u64, bytes: u64) -> Option<&[u8]> {
    file.get(usize::try_from(offset).ok()?..)?.get(..usize::try_from(bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elf::abi::{EM_X86_64, ET_EXEC};

    const WITHIN: Range<u64> = 0x20_0000..0x20_8000;

    fn put(file: &mut [u8], at: usize, value: u64, bytes: usize) {
        file[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    /// A file with one header and two segments: type, flags, address, bytes in memory each.
    fn sample() -> [u8; 0x3000] {
        let mut file = [0; 0x3000];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        put(&mut file, 16, ET_EXEC as u64, 2);
        put(&mut file, 18, EM_X86_64 as u64, 2);
        put(&mut file, 20, 1, 4);
        put(&mut file, 24, 0x20_1010, 8);
        put(&mut file, 32, 64, 8);
        put(&mut file, 52, 64, 2);
        put(&mut file, 54, 56, 2);
        put(&mut file, 56, 2, 2);
        segment(&mut file, 0, 5, 0x20_1000, 0x800, 0x800);
        segment(&mut file, 1, 6, 0x20_2010, 0x100, 0x2000);
        file
    }

    fn segment(file: &mut [u8], n: usize, flags: u64, va: u64, filesz: u64, memsz: u64) {
        let at = 64 + 56 * n;
        put(file, at, PT_LOAD as u64, 4);
        put(file, at + 4, flags, 4);
        put(file, at + 8, 0x1000 * (n as u64 + 1) + va % PAGE, 8);
        put(file, at + 16, va, 8);
        put(file, at + 32, filesz, 8);
        put(file, at + 40, memsz, 8);
    }

    #[test]
    fn segments_are_whole_pages() {
        let file = sample();
        let image = Image::parse(&file, WITHIN).unwrap();
        let mut segments = image.segments().map(Result::unwrap);
        let text = segments.next().unwrap();
        assert_eq!(
            (text.va, text.bytes, text.skip, text.access),
            (0x20_1000, 0x1000, 0, Access::Execute)
        );
        let data = segments.next().unwrap();
        assert_eq!(
            (data.va, data.bytes, data.skip, data.access),
            (0x20_2000, 0x3000, 0x10, Access::Write)
        );
        assert_eq!(data.data.len(), 0x100);
    }

    #[test]
    fn what_cannot_start_is_refused() {
        let refused = |change: &dyn Fn(&mut [u8])| {
            let mut file = sample();
            change(&mut file);
            Image::parse(&file, WITHIN).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused(&|file| file[0] = 0), ImageError::NotElf);
        assert_eq!(refused(&|file| put(file, 18, 3, 2)), ImageError::NotElf);
        assert_eq!(refused(&|file| put(file, 24, 0x20_2010, 8)), ImageError::BadEntry);
        assert_eq!(refused(&|file| put(file, 64 + 56, PT_INTERP as u64, 4)), ImageError::Dynamic);
        for (flags, va, filesz, memsz) in [
            (7, 0x20_2000, 16, 16),
            (6, 0x20_1800, 16, 16),
            (6, 0x1000, 16, 16),
            (6, 0x20_2000, 0x9000, 0x9000),
            (6, 0x20_2000, 0x20, 0x10),
            (6, 0x20_2000, 0x20, u64::MAX),
            (6, u64::MAX - 0xfff, 0, 0xfff),
        ] {
            let error = refused(&|file| segment(file, 1, flags, va, filesz, memsz));
            assert_eq!(error, ImageError::BadSegment, "{flags} {va:#x} {filesz:#x} {memsz:#x}");
        }
        for len in 0..0x2110 {
            assert!(Image::parse(&sample()[..len], WITHIN).is_err(), "{len:#x}");
        }
    }
}
