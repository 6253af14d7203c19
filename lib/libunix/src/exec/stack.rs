//! The stack with which a program starts (System V ABI, figure 3.9).

use super::args::Args;
use super::places::Places;
use crate::elf::Program;
use crate::errno::{Errno, Result};
use crate::mm::{self, user, Mm};
use crate::process::Io;
use crate::server::header;
use crate::sys::random;
use crate::thread::Me;
use crate::vdso;
use abi::layout::{PAGE, PROGRAM_END};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use uvm::{Flags, MapRequest, Placement, Prot};

/// Mapped below the arguments at once; more as it is touched.
const FIRST_BYTES: u64 = 128 << 10;

const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_PAGESZ: u64 = 6;
const AT_BASE: u64 = 7;
const AT_FLAGS: u64 = 8;
const AT_ENTRY: u64 = 9;
const AT_UID: u64 = 11;
const AT_EUID: u64 = 12;
const AT_GID: u64 = 13;
const AT_EGID: u64 = 14;
const AT_PLATFORM: u64 = 15;
const AT_HWCAP: u64 = 16;
const AT_CLKTCK: u64 = 17;
const AT_SECURE: u64 = 23;
const AT_RANDOM: u64 = 25;
const AT_HWCAP2: u64 = 26;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;
const AT_MINSIGSTKSZ: u64 = 51;
/// `AT_HWCAP2`: FSGSBASE may be used.
const HWCAP2_FSGSBASE: u64 = 2;
/// What `AT_PLATFORM` points to.
const PLATFORM: &[u8] = b"x86_64\0";
/// A signal frame without vector state, and some room.
const FRAME_BYTES: u64 = 1024;

/// Maps the stack and fills it. Answers the stack pointer.
///
/// From the top: a word of zeroes, path, environment, arguments, platform, random bytes; below
/// them the words that the program finds at its stack pointer.
pub fn build(
    io: &mut Io,
    program: &Program,
    linker: Option<&Program>,
    (args, secure): (&Args, bool),
    places: Places,
) -> Result<u64> {
    let seed = random::seed(&mut io.random);
    let Places { top, slack, .. } = places;
    let name = top - slack - 8 - (args.path.len() as u64 + 1);
    let envp = name - args.envp.bytes.len() as u64;
    let argv = envp - args.argv.bytes.len() as u64;
    let platform = argv - PLATFORM.len() as u64;
    let random = platform - seed.len() as u64;
    let base = linker.map_or(0, |linker| linker.bias);
    let auxiliary = auxiliary(&mut io.me, program, (base, secure), [name, platform, random]);
    let words = 1 + args.argv.count + 1 + args.envp.count + 1 + 2 * auxiliary.len();
    let sp = ((random & !15) - words as u64 * 8) & !15;
    map(io, program, sp, top)?;

    // Rather than page by page.
    user::check_writable(&mut io.mm, sp, (top - sp) as usize)?;
    let strings: [(u64, &[u8]); 5] = [
        (random, &seed),
        (platform, PLATFORM),
        (argv, &args.argv.bytes),
        (envp, &args.envp.bytes),
        (name, &args.path),
    ];
    for (at, bytes) in strings {
        user::bytes_out(&mut io.mm, at, bytes)?;
    }
    let mut all = Vec::new();
    all.try_reserve_exact(words).map_err(|_| Errno::ENOMEM)?;
    let mut push = |word: u64| all.push(word);
    push(args.argv.count as u64);
    for (mut at, strings) in [(argv, &args.argv), (envp, &args.envp)] {
        for text in strings.iter() {
            push(at);
            at += text.len() as u64 + 1;
        }
        push(0);
    }
    auxiliary.into_iter().flat_map(|(key, value)| [key, value]).for_each(push);
    user::words_out(&mut io.mm, sp, &all)?;
    io.mm.environ = (envp, args.envp.bytes.len());
    // `/proc/self/auxv` is empty if there is no memory for it.
    io.mm.auxiliary.clear();
    if io.mm.auxiliary.try_reserve_exact(auxiliary.len()).is_ok() {
        io.mm.auxiliary.extend_from_slice(&auxiliary);
    }
    Ok(sp)
}

fn map(io: &mut Io, program: &Program, sp: u64, top: u64) -> Result<()> {
    let limit = io.limits.max_stack().clamp(PAGE, PROGRAM_END) & !(PAGE - 1);
    if top - sp > limit {
        return Err(Errno::E2BIG);
    }
    let start = ((sp - FIRST_BYTES) & !(PAGE - 1)).max(top.saturating_sub(limit));
    let exec = if program.executable_stack { Prot::EXEC } else { Prot::NONE };
    let request = MapRequest {
        addr: start,
        len: top - start,
        prot: Prot::READ.or(Prot::WRITE).or(exec),
        placement: Placement::FixedNoReplace,
        flags: Flags::GROWS_DOWN.or(Flags::STACK),
        object: None,
    };
    let Mm { space, caps, .. } = &mut io.mm;
    space.mmap(caps, &request).map(|_| ()).map_err(mm::errno)
}

fn auxiliary(
    me: &mut Me,
    program: &Program,
    (base, secure): (u64, bool),
    [name, platform, random]: [u64; 3],
) -> [(u64, u64); 21] {
    let id = |n: usize| header().ids[n].load(Relaxed) as u64;
    // SAFETY: the frame is mapped, and the kernel writes this field only at `Configure`.
    let fsgsbase = unsafe { (*crate::process::frame()).fsgsbase != 0 };
    [
        (AT_SYSINFO_EHDR, vdso::image()),
        (AT_HWCAP, core::arch::x86_64::__cpuid(1).edx as u64),
        (AT_PAGESZ, PAGE),
        (AT_CLKTCK, 100),
        (AT_PHDR, program.headers),
        (AT_PHENT, 56),
        (AT_PHNUM, program.headers_count),
        (AT_BASE, base),
        (AT_FLAGS, 0),
        (AT_ENTRY, program.entry),
        (AT_UID, id(0)),
        (AT_EUID, id(1)),
        (AT_GID, id(3)),
        (AT_EGID, id(4)),
        (AT_SECURE, secure.into()),
        (AT_RANDOM, random),
        (AT_HWCAP2, if fsgsbase { HWCAP2_FSGSBASE } else { 0 }),
        (AT_EXECFN, name),
        (AT_PLATFORM, platform),
        (AT_MINSIGSTKSZ, me.signals.vector_bytes() + FRAME_BYTES),
        (0, 0),
    ]
}
