//! Reads the headers of an ELF program and refuses what cannot be loaded.
//!
//! Only the first part of the file and the program headers are read; nothing in them is trusted.

use abi::layout::{PAGE, PROGRAM_END, PROGRAM_START};
use alloc::vec::Vec;
use elf::abi::*;
use elf::endian::LittleEndian;
use elf::file::{parse_ident, FileHeader};
use elf::segment::ProgramHeader;
use uvm::Prot;

/// Bytes of an ELF header, and of a program header.
pub const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
/// Most program headers (Linux: what fits in 64 KiB).
const MAX_HEADERS: u64 = 65536 / PROGRAM_HEADER_BYTES;
/// Where position-independent programs go.
const PIE_BASE: u64 = 0x5555_5555_4000;

/// Why a file is no program that can run here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElfError {
    /// No ELF at all, or none for this machine, or damaged.
    NotExecutable,
    /// The headers say something impossible.
    Invalid,
}

/// What the ELF header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    entry: u64,
    pie: bool,
    /// Where the program headers are in the file.
    pub headers_offset: u64,
    /// Number of program headers.
    pub headers: u64,
}

impl Head {
    /// Bytes of the program headers.
    pub fn headers_bytes(&self) -> u64 {
        self.headers * PROGRAM_HEADER_BYTES
    }

    /// From the first bytes of a file.
    pub fn parse(file: &[u8]) -> Result<Head, ElfError> {
        let refuse = |_| ElfError::NotExecutable;
        let head = file.get(..HEADER_BYTES).ok_or(ElfError::NotExecutable)?;
        let ident = parse_ident::<LittleEndian>(head).map_err(refuse)?;
        let tail = &head[EI_NIDENT..];
        let header = FileHeader::parse_tail(ident, tail).map_err(refuse)?;
        let right = header.class == elf::file::Class::ELF64
            && header.e_machine == EM_X86_64
            && matches!(header.e_type, ET_EXEC | ET_DYN);
        let count = header.e_phnum as u64;
        if !right
            || header.e_phentsize as u64 != PROGRAM_HEADER_BYTES
            || count == 0
            || count > MAX_HEADERS
        {
            return Err(ElfError::NotExecutable);
        }
        header.e_phoff.checked_add(count * PROGRAM_HEADER_BYTES).ok_or(ElfError::NotExecutable)?;
        Ok(Head {
            entry: header.e_entry,
            pie: header.e_type == ET_DYN,
            headers_offset: header.e_phoff,
            headers: count,
        })
    }
}

/// A part of the program: pages of the file, then zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First address.
    pub start: u64,
    /// First address behind what the file has.
    pub file_end: u64,
    /// First address behind all.
    pub end: u64,
    /// Where the page of `start` is in the file.
    pub offset: u64,
    pub prot: Prot,
}

/// What to load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    pub segments: Vec<Segment>,
    pub entry: u64,
    /// Where the program headers are in memory, or 0.
    pub headers: u64,
    pub headers_count: u64,
    /// What was added to the addresses of the file.
    pub bias: u64,
    /// It may be anywhere.
    position_independent: bool,
    /// Name of the dynamic linker, if it wants one: offset and length in the file.
    pub interpreter: Option<(u64, u64)>,
    /// The first note: offset and length in the file.
    pub note: Option<(u64, u64)>,
    /// `PT_GNU_STACK` asks for an executable stack.
    pub executable_stack: bool,
}

impl Program {
    /// From the program headers of a file of `size` bytes.
    pub fn parse(head: &Head, headers: &[u8], size: u64) -> Result<Program, ElfError> {
        let mut program = Program {
            segments: Vec::new(),
            entry: 0,
            headers: 0,
            headers_count: head.headers,
            bias: 0,
            position_independent: head.pie,
            interpreter: None,
            note: None,
            executable_stack: false,
        };
        let mut table = 0;
        let mut loads = Vec::new();
        let (headers, _) = headers.as_chunks();
        if (headers.len() as u64) < head.headers {
            return Err(ElfError::NotExecutable);
        }
        for header in headers.iter().take(head.headers as usize).map(program_header) {
            match header.p_type {
                PT_LOAD if header.p_memsz > 0 => loads.push(header),
                PT_INTERP if program.interpreter.is_none() => {
                    program.interpreter = Some((header.p_offset, header.p_filesz));
                }
                PT_NOTE if program.note.is_none() => {
                    program.note = Some((header.p_offset, header.p_filesz));
                }
                PT_GNU_STACK => program.executable_stack = header.p_flags & PF_X != 0,
                PT_PHDR => table = header.p_vaddr,
                _ => {}
            }
        }
        let bias = bias(head, &loads)?;
        program.bias = bias;
        for load in &loads {
            let segment = segment(load, bias, size)?;
            let covers = load.p_offset <= head.headers_offset
                && head.headers_offset - load.p_offset < load.p_filesz;
            if covers && table == 0 {
                table = load.p_vaddr.wrapping_add(head.headers_offset - load.p_offset);
            }
            program.segments.push(segment);
        }
        check_order(&program.segments)?;
        program.entry = head.entry.wrapping_add(bias);
        if table != 0 {
            program.headers = table.wrapping_add(bias);
        }
        if program.entry >= PROGRAM_END {
            return Err(ElfError::Invalid);
        }
        Ok(program)
    }

    /// The addresses from its first page to behind its last, if it may be anywhere else.
    pub fn movable(&self) -> Option<core::ops::Range<u64>> {
        let first = self.segments.first().filter(|_| self.position_independent)?;
        Some(first.start & !(PAGE - 1)..self.end().next_multiple_of(PAGE))
    }

    /// Moves it by so many bytes, around the end of the addresses if need be.
    pub fn moved(mut self, by: u64) -> Program {
        for segment in &mut self.segments {
            for address in [&mut segment.start, &mut segment.file_end, &mut segment.end] {
                *address = address.wrapping_add(by);
            }
        }
        self.entry = self.entry.wrapping_add(by);
        self.bias = self.bias.wrapping_add(by);
        if self.headers != 0 {
            self.headers = self.headers.wrapping_add(by);
        }
        self
    }

    /// First address behind the program.
    pub fn end(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end).max().unwrap_or(0)
    }
}

/// A program header from its bytes.
fn program_header(raw: &[u8; PROGRAM_HEADER_BYTES as usize]) -> ProgramHeader {
    let mut words = [0; PROGRAM_HEADER_BYTES as usize / 8];
    for (word, bytes) in words.iter_mut().zip(raw.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [head, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align] = words;
    let (p_type, p_flags) = (head as u32, (head >> 32) as u32);
    ProgramHeader { p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align }
}

/// What to add to addresses of a position-independent program.
fn bias(head: &Head, loads: &[ProgramHeader]) -> Result<u64, ElfError> {
    let first = loads.iter().map(|load| load.p_vaddr).min().ok_or(ElfError::NotExecutable)?;
    if !head.pie {
        return Ok(0);
    }
    let align = loads.iter().map(|load| load.p_align).filter(|align| align.is_power_of_two());
    let align = align.max().unwrap_or(PAGE).max(PAGE);
    if align > 1 << 30 {
        return Err(ElfError::Invalid);
    }
    Ok((PIE_BASE & !(align - 1)).wrapping_sub(first & !(PAGE - 1)))
}

fn segment(load: &ProgramHeader, bias: u64, size: u64) -> Result<Segment, ElfError> {
    let start = load.p_vaddr.wrapping_add(bias);
    let end = start.checked_add(load.p_memsz).ok_or(ElfError::Invalid)?;
    let in_file = load.p_offset.checked_add(load.p_filesz).is_some_and(|end| end <= size);
    let congruent = load.p_offset % PAGE == load.p_vaddr % PAGE;
    let inside = start >= PROGRAM_START && end <= PROGRAM_END;
    if load.p_filesz > load.p_memsz || !in_file || !congruent && load.p_filesz > 0 || !inside {
        return Err(ElfError::Invalid);
    }
    let right = |flag: u32, prot: Prot| if load.p_flags & flag != 0 { prot } else { Prot::NONE };
    Ok(Segment {
        start,
        file_end: start + load.p_filesz,
        end,
        offset: load.p_offset & !(PAGE - 1),
        prot: right(PF_R, Prot::READ).or(right(PF_W, Prot::WRITE)).or(right(PF_X, Prot::EXEC)),
    })
}

/// Segments must not overlap. Sharing a page is allowed: the later one wins, as on Linux.
fn check_order(segments: &[Segment]) -> Result<(), ElfError> {
    let mut end = 0;
    for segment in segments {
        if segment.start < end {
            return Err(ElfError::Invalid);
        }
        end = segment.end;
    }
    Ok(())
}
