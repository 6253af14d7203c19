//! The file of a program: opening it, `#!` lines, its headers, its dynamic linker.

use super::args::Args;
use crate::elf::{ElfError, Head, Program, Segment};
use crate::errno::{Errno, Result};
use crate::fd::kinds::shared;
use crate::fd::ops::Contents;
use crate::fd::File;
use crate::mm::backend::Caps;
use crate::mm::Mm;
use crate::process::Io;
use crate::server::{self, op, restart};
use abi::layout::PAGE;
use abi::native::{self, NOTE_WITHIN};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use linuxabi::bytes::get_u32;
use linuxabi::stat::STAT_BYTES;
use unixproto::files::{Kind, AT_SYMLINK_NOFOLLOW, CWD, OPEN_EXEC, O_RDONLY};
use unixproto::ops::Opened;
use uvm::ObjectId;

/// How many `#!` lines may lead from one to the next.
const SCRIPTS: usize = 5;
/// Bytes of the file that are looked at first: an ELF header and the program headers behind it.
const START: u64 = 1024;
/// Bytes of a `#!` line that count.
const LINE: usize = 256;
/// Bytes of the name of a dynamic linker, with the NUL behind it: at least and at most.
const LINKER_NAME: core::ops::RangeInclusive<u64> = 2..=4096;

/// An open file to be executed.
pub struct Executable {
    /// Its contents, to be mapped.
    pub object: ObjectId,
    /// What the file begins with.
    start: Vec<u8>,
    /// Where it was found, if it runs as somebody else.
    pub runs_as_other: Option<(u32, Vec<u8>)>,
}

/// Opens what `args` names, or the interpreter that its `#!` line names; `args` become those of
/// what was opened.
pub fn open_program(io: &mut Io, dir: u32, args: &mut Args) -> Result<Executable> {
    let mut interpreter: Option<Vec<u8>> = None;
    for _ in 0..SCRIPTS {
        let (dir, path) = match &interpreter {
            Some(path) => (CWD, path),
            None => (dir, &args.path),
        };
        // Somebody may have a lease on it.
        let opened = server::wait_filled(io, request(dir), server::put_a(path));
        let file = opened_as((dir, path), &mut io.mm, opened.map_err(restart)?)?;
        let Some(line) = file.start.strip_prefix(b"#!") else { return Ok(file) };
        let line = script_line(line);
        file.close(&mut io.mm);
        let (next, argument) = line?;
        let script = interpreter.take().unwrap_or_else(|| args.path.clone());
        args.interpreted_by(&next, argument.as_deref(), &script);
        interpreter = Some(next);
    }
    Err(Errno::ELOOP)
}

/// Interpreter and argument of a `#!` line.
fn script_line(line: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let line = &line[..line.len().min(LINE - 2)];
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let line = line.trim_ascii();
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(end);
    if interpreter.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    let rest = rest.trim_ascii();
    Ok((interpreter.to_vec(), (!rest.is_empty()).then(|| rest.to_vec())))
}

/// `O_CLOEXEC`
const CLOEXEC: u32 = 0x8_0000;

/// The request for a file that is to be executed.
fn request(dir: u32) -> op::Open {
    op::Open { dir, flags: CLOEXEC, mode: 0, extra: OPEN_EXEC }
}

/// Is this the name of a symbolic link?
pub fn is_link(dir: u32, path: &[u8]) -> Result<bool> {
    const MODE: usize = 24;
    const KIND: u32 = 0o170000;
    const LINK: u32 = 0o120000;
    server::call_a(op::Stat { dir, flags: AT_SYMLINK_NOFOLLOW }, path)?;
    let found = server::taken(STAT_BYTES)?;
    Ok(get_u32(&found, MODE) & KIND == LINK)
}

/// What was opened by its name to be executed.
fn opened_as((dir, path): (u32, &[u8]), mm: &mut Mm, mut opened: Opened) -> Result<Executable> {
    let runs_as_other = Kind::from_u8(opened.kind) == Some(Kind::SetId);
    if runs_as_other {
        opened.kind = Kind::Regular as u8;
    }
    if Kind::from_u8(opened.kind) == Some(Kind::Shared) {
        // What runs does not change under its own feet.
        let copied = shared::copied(opened.desc);
        server::close(opened.desc);
        let Contents { desc, inode, .. } = copied?;
        opened =
            Opened { desc, inode, kind: Kind::Regular as u8, is_stored: false, is_large: false };
    }
    let file = take(mm, opened)?;
    let runs_as_other = runs_as_other.then(|| (dir, path.to_vec()));
    Ok(Executable { runs_as_other, ..file })
}

/// Opens the file of a program that runs as somebody else once more. `EAGAIN`: it is another file by now.
pub fn open_again(dir: u32, path: &[u8]) -> Result<u32> {
    let opened = server::call_a(request(dir), path)?;
    match Kind::from_u8(opened.kind) {
        Some(Kind::SetId) => Ok(opened.desc),
        _ => {
            server::close(opened.desc);
            Err(Errno::EAGAIN)
        }
    }
}

/// A file that was opened to be executed.
pub fn take(mm: &mut Mm, opened: Opened) -> Result<Executable> {
    let added = mm.caps.objects.add(opened.desc, None, opened.inode, false);
    let Ok((object, _)) = added else {
        server::close(opened.desc);
        return Err(Errno::ENOMEM);
    };
    let mut file = Executable { object, start: Vec::new(), runs_as_other: None };
    let start = match File::opened(opened, O_RDONLY).contents() {
        Ok(_) => file.read(mm, 0, START),
        Err(_) => Err(Errno::EACCES),
    };
    match start {
        Ok(start) => file.start = start,
        Err(error) => {
            file.close(mm);
            return Err(error);
        }
    }
    Ok(file)
}

impl Executable {
    /// Gives the file up; not needed once it is mapped.
    pub fn close(&self, mm: &mut Mm) {
        let Caps { nodes, objects, .. } = &mut mm.caps;
        objects.release(nodes, self.object);
        if let Some((None, desc)) = objects.released.pop() {
            server::close(desc);
        }
    }

    /// Up to `bytes` bytes from `offset` on.
    fn read(&self, mm: &mut Mm, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let Caps { arena, nodes, objects, .. } = &mut mm.caps;
        let read = objects.read((arena, nodes), self.object, offset, bytes);
        read.map_err(|_| Errno::EIO)
    }

    /// The program headers, most often in what has been read already.
    fn headers(&self, mm: &mut Mm, head: &Head) -> Result<Cow<'_, [u8]>> {
        let (from, bytes) = (head.headers_offset, head.headers_bytes());
        match self.start.get(from as usize..from.saturating_add(bytes) as usize) {
            Some(headers) => Ok(Cow::Borrowed(headers)),
            None => self.read(mm, from, bytes).map(Cow::Owned),
        }
    }

    /// Reads and checks the headers.
    pub fn read_program(&self, mm: &mut Mm) -> Result<Program> {
        let head = Head::parse(&self.start).map_err(errno)?;
        let headers = self.headers(mm, &head)?;
        let size = mm.caps.objects.size(self.object);
        Program::parse(&head, &headers, size).map_err(errno)
    }

    /// Opens the dynamic linker that a program of this file wants to be started by, if it wants one.
    pub fn open_linker(
        &self,
        mm: &mut Mm,
        program: &Program,
    ) -> Result<Option<(Executable, Program)>> {
        let Some((offset, len)) = program.interpreter else { return Ok(None) };
        if !LINKER_NAME.contains(&len) {
            return Err(Errno::ENOEXEC);
        }
        let name = match self.start.get(offset as usize..offset.saturating_add(len) as usize) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(self.read(mm, offset, len)?),
        };
        // What is behind the first NUL does not count.
        let Some((0, name)) = name.split_last() else { return Err(Errno::ENOEXEC) };
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let linker = opened_as((CWD, name), mm, server::call_a(request(CWD), name)?)?;
        match linker.read_program(mm) {
            Ok(program) => {
                mm.caps.objects.set_path(linker.object, String::from_utf8_lossy(name).into_owned());
                Ok(Some((linker, program)))
            }
            Err(_) => {
                linker.close(mm);
                Err(Errno::ELIBBAD)
            }
        }
    }

    /// Is it a native program?
    pub fn is_native(&self, program: &Program) -> bool {
        let Some((offset, bytes)) = program.note else { return false };
        let start = &self.start[..self.start.len().min(NOTE_WITHIN)];
        let notes = start.get(offset as usize..offset.saturating_add(bytes) as usize);
        notes.is_some_and(native::is_native)
    }

    /// The file as far as it is loaded: without the sections behind that, which the header then
    /// does not mention either.
    pub fn read_loaded(&self, mm: &mut Mm, program: &Program) -> Result<Vec<u8>> {
        const SECTIONS_OFFSET: core::ops::Range<usize> = 40..48;
        const SECTIONS_SIZES: core::ops::Range<usize> = 58..64;
        let loaded = |s: &Segment| s.offset + s.start % PAGE + (s.file_end - s.start);
        let end = program.segments.iter().map(loaded).max().unwrap_or(0);
        let mut bytes = self.read(mm, 0, end)?;
        for field in [SECTIONS_OFFSET, SECTIONS_SIZES] {
            bytes.get_mut(field).ok_or(Errno::ENOEXEC)?.fill(0);
        }
        Ok(bytes)
    }
}

fn errno(_: ElfError) -> Errno {
    Errno::ENOEXEC
}

/// Writes a line to the standard error of the process, or to the kernel's log if it is the first
/// and has no program yet: its output is not for this.
pub fn complain(io: &mut Io, text: &str) {
    if io.mm.exe.is_empty() {
        // Who cannot tell anybody ends without.
        let _ = server::call_a(op::Log {}, text.as_bytes());
        return;
    }
    let Ok(desc) = io.fds.get(2).and_then(|file| file.description(Errno::EBADF)) else {
        return;
    };
    let line = alloc::format!("tessera: {text}\n");
    // As above.
    let _ = server::call_a(op::Write { desc }, line.as_bytes());
}

/// What an error of `execve` means to a user.
pub fn reason(error: Errno) -> &'static str {
    match error {
        Errno::ENOENT => "not found",
        Errno::EACCES => "permission denied",
        Errno::ENOEXEC => "not a program that can run here",
        Errno::ENOMEM => "not enough memory",
        Errno::EISDIR => "is a directory",
        _ => "cannot be executed",
    }
}
