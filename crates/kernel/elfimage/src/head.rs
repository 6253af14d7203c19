//! The ELF header and the program headers, from the first bytes of a file.

use elf::abi::{EI_NIDENT, EM_X86_64, ET_DYN, ET_EXEC};
use elf::endian::LittleEndian;
use elf::file::{parse_ident, Class, FileHeader};
use elf::segment::ProgramHeader;

/// Bytes of an ELF header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a program header.
pub const PROGRAM_HEADER_BYTES: usize = 56;
/// Most program headers (Linux: what fits in 64 KiB).
const MOST_HEADERS: u64 = (65536 / PROGRAM_HEADER_BYTES) as u64;

/// What the ELF header of a program for this machine says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Address of the first instruction, before relocation.
    pub entry: u64,
    /// Returns `true` for programs that may be loaded at any address.
    pub position_independent: bool,
    /// Where the program headers are in the file.
    pub headers_offset: u64,
    /// Number of program headers, not 0.
    pub headers: u64,
}

impl Head {
    /// Reads the first bytes of a file. Returns `None` if they are not those of a program for this
    /// machine. The program headers end at an address that can be expressed; they may lie outside the file.
    pub fn parse(file: &[u8]) -> Option<Head> {
        let head = file.get(..HEADER_BYTES)?;
        let ident = parse_ident::<LittleEndian>(head).ok()?;
        let header = FileHeader::parse_tail(ident, head.get(EI_NIDENT..)?).ok()?;
        let count = u64::from(header.e_phnum);
        let is_program = header.class == Class::ELF64
            && header.e_machine == EM_X86_64
            && matches!(header.e_type, ET_EXEC | ET_DYN)
            && usize::from(header.e_phentsize) == PROGRAM_HEADER_BYTES
            && (1..=MOST_HEADERS).contains(&count);
        header.e_phoff.checked_add(count * PROGRAM_HEADER_BYTES as u64)?;
        is_program.then_some(Head {
            entry: header.e_entry,
            position_independent: header.e_type == ET_DYN,
            headers_offset: header.e_phoff,
            headers: count,
        })
    }

    /// Bytes of the program headers.
    pub fn headers_bytes(&self) -> u64 {
        self.headers * PROGRAM_HEADER_BYTES as u64
    }
}

/// The program headers in `bytes`: as many as are there in full.
pub fn headers(bytes: &[u8]) -> impl Iterator<Item = ProgramHeader> + '_ {
    bytes.as_chunks().0.iter().map(program_header)
}

fn program_header(raw: &[u8; PROGRAM_HEADER_BYTES]) -> ProgramHeader {
    let mut words = [0; PROGRAM_HEADER_BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(raw.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [head, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align] = words;
    let (p_type, p_flags) = (head as u32, (head >> 32) as u32);
    ProgramHeader { p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align }
}
