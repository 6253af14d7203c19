//! `execve` of a native program: the process goes on as a native domain.
//!
//! Such a program brings `libos` instead of this library and makes invocations instead of system
//! calls. So this library builds a new domain for it, out of the process's own RAM, gives it the
//! endpoint and the session frame of the process, and asks `unixd` to put it in the place of the
//! present one. Process id, parent, group, standard input and output stay what they were.

use super::args::Args;
use super::file::Executable;
use crate::elf::Program;
use crate::errno::{Errno, Result};
use crate::fd::{self, Fds};
use crate::mm::Mm;
use crate::process::{Io, Process};
use crate::server::{self, op, Caps};
use crate::upcall::die;
use abi::layout::*;
use abi::native::DESCRIPTORS;
use abi::slots::{MEMD, SESSION, UNIXD};
use alloc::vec::Vec;
use core::fmt::Write;
use libos::ephemeral::FrameWriter;
use libos::spawn::image::Image;
use libos::spawn::{Child, SpawnError};
use libos::vspace::{R, RW};
use libos::Cap;
use linuxdomain::own::{CHILD_DISPATCHER, CHILD_ROOT};
use linuxdomain::SESSION_PAGES;
use unixproto::signals::SIGKILL;

/// Refuses what could not be started.
pub fn check(mm: &mut Mm, file: &Executable, program: &Program, args: &Args) -> Result<()> {
    let bytes = file.read_loaded(mm, program)?;
    Image::parse(&bytes).map_err(|_| Errno::ENOEXEC)?;
    // A letter before each string, and descriptors.
    let bytes = args.argv.bytes.len() + args.argv.count + args.envp.bytes.len() + args.envp.count;
    if bytes + PAGE as usize > NATIVE_ARGUMENTS_MAX as usize {
        return Err(Errno::E2BIG);
    }
    Ok(())
}

/// Replaces the process's domain; there is no way back.
pub fn execute(p: &mut Process, file: &Executable, program: &Program, args: &Args) -> Result<u64> {
    let bytes = file.read_loaded(&mut p.mm, program);
    fd::alone::share_all(p)?;
    fd::close_where(&mut p.fds, 0, i32::MAX, |fd, entry| entry.cloexec || fd >= DESCRIPTORS as i32);
    // Its name in `/proc` is all that depends on it.
    let _ = server::call_ab(op::Exec {}, &args.told(), &args.argv.bytes);
    file.close(&mut p.mm);
    // What may be left is in the old domain, which goes as a whole.
    let _ = p.mm.clear();
    crate::mm::settle(p);
    p.signals.exec();
    p.me.signals.exec();
    if bytes.is_ok_and(|bytes| build(p, &bytes, args).is_ok()) {
        let domain = Caps::give(CHILD_DISPATCHER, 2);
        // There is an answer only if the domain was refused.
        let _ = server::call_caps(op::Replace { linux: false }, 0, 0, domain);
    }
    die(SIGKILL, "no memory for a native program, or unixd has refused its domain")
}

/// Makes the domain, up to its start.
fn build(io: &mut Io, file: &[u8], args: &Args) -> core::result::Result<(), SpawnError> {
    let arguments = block(&io.fds, args);
    let crate::mm::backend::Caps { arena, objects, .. } = &mut io.mm.caps;
    let pages = &mut objects.pages;
    let mut child = Child::build(file, CHILD_ROOT, CHILD_DISPATCHER, arena, pages)?;
    for slot in [MEMD, UNIXD, SESSION] {
        slot.copy_to(child.slot(slot))?;
    }
    let session = child.slot(SESSION);
    child.map(NATIVE_SESSION, SESSION_PAGES as u64 * PAGE, session, 0, RW, arena)?;
    let bytes = (arguments.len() as u64).next_multiple_of(PAGE);
    let frame = child.frame(bytes, arena)?;
    pages.write(frame, 0, &arguments)?;
    child.map(NATIVE_ARGUMENTS, bytes, frame, 0, R, arena)?;
    let words = [NATIVE_ARGUMENTS, arguments.len() as u64, 0, 0, 0];
    // The rest is done by `unixd`.
    Ok(child.prepare_memory(words, pages)?)
}

/// What the program is told: see `abi::native`.
fn block(fds: &Fds, args: &Args) -> Vec<u8> {
    let mut block = Vec::new();
    for (letter, strings) in [(b'a', &args.argv), (b'e', &args.envp)] {
        for text in strings.iter() {
            block.push(letter);
            block.extend_from_slice(text);
            block.push(0);
        }
    }
    let mut digits = alloc::string::String::new();
    for fd in 0..DESCRIPTORS as i32 {
        let file = fds.get(fd).and_then(|file| file.description(Errno::EBADF));
        // A string takes every text.
        let _ = write!(digits, "d{}\0", file.unwrap_or(0));
    }
    block.extend_from_slice(digits.as_bytes());
    block
}
