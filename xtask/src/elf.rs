//! Tells from an executable whether Tessera can run it.

use object::elf::{FileHeader64, EM_X86_64, ET_DYN, ET_EXEC, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::Endianness;

/// Checks that `data` is a static program for x86-64; the error says what it is instead.
pub fn check(data: &[u8]) -> Result<(), String> {
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
    if let Some(path) = interpreter {
        let path = String::from_utf8_lossy(path);
        let path = path.trim_end_matches('\0');
        return Err(format!(
            "is dynamically linked and needs the interpreter {path}, which the image does not \
             have; link it with -static or -static-pie"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused() {
        assert!(check(b"#!/bin/sh\n").unwrap_err().contains("not an ELF"));
        assert!(check(b"\x7fELF").unwrap_err().contains("truncated"));
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(check(&own).unwrap_err().contains("interpreter /lib"));
        assert!(check(&own[..own.len() / 2]).is_err());
    }
}
