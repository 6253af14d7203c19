//! The stack with which a program starts (System V ABI, figure 3.9).

use super::args::Args;
use crate::elf::Program;
use crate::errno::{Errno, Result};
use crate::mm::{self, user, Mm};
use crate::process::Process;
use crate::server::header;
use crate::sys::random;
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
const AT_MINSIGSTKSZ: u64 = 51;
/// `AT_HWCAP2`: FSGSBASE may be used.
const HWCAP2_FSGSBASE: u64 = 2;
/// A signal frame without vector state, and some room.
const FRAME_BYTES: u64 = 1024;

/// Strings that grow downward from the top of the stack.
struct Strings {
    /// Everything, the last byte first.
    reversed: Vec<u8>,
}

impl Strings {
    fn push(&mut self, text: &[u8]) -> u64 {
        self.reversed.push(0);
        self.push_raw(text)
    }
    fn push_raw(&mut self, bytes: &[u8]) -> u64 {
        self.reversed.extend(bytes.iter().rev());
        PROGRAM_END - self.reversed.len() as u64
    }
}

/// Maps the stack and fills it. Answers the stack pointer.
pub fn build(p: &mut Process, program: &Program, args: &Args) -> Result<u64> {
    let mut strings = Strings { reversed: alloc::vec![0; 8] };
    let name = strings.push(&args.path);
    let envp: Vec<u64> = args.envp.iter().rev().map(|text| strings.push(text)).collect();
    let argv: Vec<u64> = args.argv.iter().rev().map(|text| strings.push(text)).collect();
    let platform = strings.push(b"x86_64");
    let mut seed = [0; 16];
    random::fill(p, &mut seed);
    let random = strings.push_raw(&seed);

    let mut words = alloc::vec![argv.len() as u64];
    words.extend(argv.iter().rev());
    words.push(0);
    words.extend(envp.iter().rev());
    words.push(0);
    for (key, value) in auxiliary(p, program, name, platform, random) {
        words.extend([key, value]);
    }
    let sp = ((random & !15) - words.len() as u64 * 8) & !15;
    map(p, program, sp)?;
    strings.reversed.reverse();
    user::bytes_out(p, PROGRAM_END - strings.reversed.len() as u64, &strings.reversed)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    user::bytes_out(p, sp, &bytes)?;
    Ok(sp)
}

fn map(p: &mut Process, program: &Program, sp: u64) -> Result<()> {
    let limit = p.sys.max_stack().max(PAGE) & !(PAGE - 1);
    if PROGRAM_END - sp > limit {
        return Err(Errno::E2BIG);
    }
    let start = ((sp - FIRST_BYTES) & !(PAGE - 1)).max(PROGRAM_END - limit);
    let exec = if program.executable_stack { Prot::EXEC } else { Prot::NONE };
    let request = MapRequest {
        addr: start,
        len: PROGRAM_END - start,
        prot: Prot::READ.or(Prot::WRITE).or(exec),
        placement: Placement::FixedNoReplace,
        flags: Flags::GROWS_DOWN.or(Flags::STACK),
        object: None,
    };
    let Mm { space, caps, .. } = &mut p.mm;
    space.mmap(caps, &request).map(|_| ()).map_err(mm::errno)
}

fn auxiliary(
    p: &mut Process,
    program: &Program,
    name: u64,
    platform: u64,
    random: u64,
) -> [(u64, u64); 20] {
    let id = |n: usize| header().ids[n].load(Relaxed) as u64;
    // SAFETY: the frame is mapped, and the kernel writes this field only at `Configure`.
    let fsgsbase = unsafe { (*crate::process::frame()).fsgsbase != 0 };
    [
        (AT_HWCAP, core::arch::x86_64::__cpuid(1).edx as u64),
        (AT_PAGESZ, PAGE),
        (AT_CLKTCK, 100),
        (AT_PHDR, program.headers),
        (AT_PHENT, 56),
        (AT_PHNUM, program.headers_count),
        (AT_BASE, 0),
        (AT_FLAGS, 0),
        (AT_ENTRY, program.entry),
        (AT_UID, id(0)),
        (AT_EUID, id(1)),
        (AT_GID, id(3)),
        (AT_EGID, id(4)),
        (AT_SECURE, 0),
        (AT_RANDOM, random),
        (AT_HWCAP2, if fsgsbase { HWCAP2_FSGSBASE } else { 0 }),
        (AT_EXECFN, name),
        (AT_PLATFORM, platform),
        (AT_MINSIGSTKSZ, p.signals.vector_bytes() + FRAME_BYTES),
        (0, 0),
    ]
}
