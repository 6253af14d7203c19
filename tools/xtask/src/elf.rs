//! Tells from an executable whether Tessera can run it, and takes from it what running needs.

use object::elf::{FileHeader64, EM_X86_64, ET_DYN, ET_EXEC, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::Endianness;
use std::mem::offset_of;

/// Checks that `data` is a program for x86-64; the error says what it is instead. Answers the dynamic linker that it
/// needs, if it needs one.
pub fn check(data: &[u8]) -> Result<Option<String>, String> {
    if !data.starts_with(b"\x7fELF") {
        return Err("is not an ELF program".into());
    }
    let damaged = |_| "is a damaged or truncated ELF file, or one for 32-bit machines".to_owned();
    let header = FileHeader64::<Endianness>::parse(data).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    if header.e_machine(endian) != EM_X86_64 {
        return Err("is an ELF program for another processor than x86-64".into());
    }
    if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
        return Err("is an ELF file but no program (an object file or a core dump?)".into());
    }
    let segments = header.program_headers(endian, data).map_err(damaged)?;
    for segment in segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD) {
        segment.data(endian, data).map_err(|()| "is a truncated ELF program".to_owned())?;
    }
    if !segments.iter().any(|segment| segment.p_type(endian) == PT_LOAD) {
        return Err("is an ELF file with nothing to load".into());
    }
    let interpreter = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_INTERP)
        .and_then(|segment| segment.data(endian, data).ok());
    Ok(interpreter.map(|path| String::from_utf8_lossy(path).trim_end_matches('\0').to_owned()))
}

/// What running a program needs of its file: all up to the end of the last segment. Symbols and debug
/// sections, most of a file, lie behind; the host tool looks them up in the file itself.
///
/// A file that is no ELF program is returned as it is.
pub fn without_sections(data: Vec<u8>) -> Vec<u8> {
    match end_of_segments(&data) {
        Some(end) => cut_behind(data, end),
        None => data,
    }
}

fn end_of_segments(data: &[u8]) -> Option<usize> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let table = header.e_phoff(endian) + size_of_val(segments) as u64;
    let ends = segments.iter().map(|segment| segment.p_offset(endian) + segment.p_filesz(endian));
    let end = ends.fold(table, u64::max);
    usize::try_from(end).ok().filter(|&end| end <= data.len())
}

/// Ends the file there, and has its header name no section.
fn cut_behind(mut data: Vec<u8>, end: usize) -> Vec<u8> {
    let sections = offset_of!(FileHeader64<Endianness>, e_shoff);
    let counts = offset_of!(FileHeader64<Endianness>, e_shnum);
    data[sections..sections + size_of::<u64>()].fill(0);
    data[counts..counts + 2 * size_of::<u16>()].fill(0);
    data.truncate(end);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stay_when_sections_go() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let short = without_sections(own.clone());
        assert!(short.len() < own.len());
        let header = FileHeader64::<Endianness>::parse(&*short).unwrap();
        assert!(header.section_headers(Endianness::Little, &*short).unwrap().is_empty());
        let segments = header.program_headers(Endianness::Little, &*short).unwrap();
        let before = FileHeader64::<Endianness>::parse(&*own).unwrap();
        for (segment, old) in
            segments.iter().zip(before.program_headers(Endianness::Little, &*own).unwrap())
        {
            // The first one starts with the header, which has changed.
            let skip = if segment.p_offset(Endianness::Little) == 0 { 64 } else { 0 };
            let bytes = segment.data(Endianness::Little, &*short).unwrap();
            assert_eq!(bytes.get(skip..), old.data(Endianness::Little, &*own).unwrap().get(skip..));
        }
        assert_eq!(without_sections(b"#!/bin/sh\n".to_vec()), b"#!/bin/sh\n");
    }

    #[test]
    fn what_is_refused() {
        assert!(check(b"#!/bin/sh\n").unwrap_err().contains("not an ELF"));
        assert!(check(b"\x7fELF").unwrap_err().contains("truncated"));
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(check(&own).unwrap().unwrap().starts_with("/lib"));
        let end = end_of_segments(&own).unwrap();
        assert!(check(&own[..end - 1]).unwrap_err().contains("truncated"));
    }
}
