//! Programs that run as somebody else: what is left to them.
//!
//! Such a program begins in a domain that `unixd` makes, with a new copy of this library. What the process has is left to it as
//! bytes, which a forged library may have written: so what is read here is checked, and means no more than what a process may give to
//! a program anyway.
//!
//! ```text
//! descriptions that stay open    how many; each
//! personality
//! cores that it may run on       two words
//! filters of calls               how many; of each how many instructions, and those
//! descriptors                    how many; number and description of each
//! userfaultfds                   how many; of each its number, its flags and what it was asked for
//! path, arguments, environment   how many strings, how many bytes, the bytes
//! ```

use super::args::{Args, Strings};
use super::{begin, file, Image};
use crate::errno::{Errno, Result};
use crate::fd::{self, Fds};
use crate::process::Process;
use crate::server::{self, header, main_header, op};
use crate::sys::seccomp::Filter;
use crate::sys::{scheduling, seccomp};
use crate::thread::Thread;
use crate::upcall::die;
use crate::vfork;
use abi::Regs;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use unixproto::files::Kind;
use unixproto::ops::Opened;
use unixproto::session::DATA_BYTES;
use unixproto::signals::SIGKILL;

/// Leaves everything to a program. After an error the process is as it was.
pub fn leave(p: &mut Process, regs: &mut Regs, image: Image, args: Args) -> Result<u64> {
    let place = image.file.runs_as_other.clone();
    image.close(&mut p.mm);
    let (dir, path) = place.ok_or(Errno::EAGAIN)?;
    fd::alone::share_all(p)?;
    // Where this process acts as its child, the child's header does not show them.
    let program = file::open_again(dir, &path)?;
    let left = write(&p.fds, p.sys.left(), &p.me, &args);
    let left = left.and_then(|bytes| hand_over(&bytes, program, &args));
    if let Err(error) = left {
        server::close(program);
        return Err(error);
    }
    // It was the child's, as which this process acted.
    vfork::resume(p, regs);
    Ok(regs.rax)
}

fn hand_over(bytes: &[u8], program: u32, args: &Args) -> Result<()> {
    let mut from = 0;
    loop {
        let part = &bytes[from..bytes.len().min(from + DATA_BYTES)];
        server::call_a(op::Bequeath { from: from as u32 }, part)?;
        from += part.len();
        if from == bytes.len() {
            break;
        }
    }
    server::call_ab(op::Succeed { program }, &args.told(), &args.argv.bytes)
}

fn write(files: &Fds, sys: u32, thread: &Thread, args: &Args) -> Result<Vec<u8>> {
    let fds: Vec<(i32, u32)> = fd::left(files).collect();
    let strings = args.path.len() + args.argv.bytes.len() + args.envp.bytes.len();
    let mut bytes = Vec::new();
    let of_memory: Vec<[u32; 3]> = fd::left_of_memory(files).collect();
    let rest = 12 * (fds.len() + of_memory.len()) + 68;
    bytes.try_reserve_exact(strings + rest).map_err(|_| Errno::ENOMEM)?;
    let mut put = |word: u32| bytes.extend_from_slice(&word.to_le_bytes());
    put(fds.len() as u32);
    fds.iter().for_each(|(_, desc)| put(*desc));
    put(sys);
    let cores = scheduling::own_cores();
    put(cores as u32);
    put((cores >> 32) as u32);
    thread.filter.write(&mut put);
    put(fds.len() as u32);
    for (fd, desc) in &fds {
        put(*fd as u32);
        put(*desc);
    }
    put(of_memory.len() as u32);
    of_memory.into_iter().flatten().for_each(&mut put);
    let path = (&args.path, 1);
    for (text, count) in
        [path, (&args.argv.bytes, args.argv.count), (&args.envp.bytes, args.envp.count)]
    {
        bytes.extend_from_slice(&(count as u32).to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text);
    }
    Ok(bytes)
}

/// Begins the program to which something was left, if something was.
pub fn was_left(p: &mut Process, regs: &mut Regs) -> bool {
    let mut bytes: Vec<u8> = Vec::new();
    let inherited = loop {
        let Ok(part) = server::call(op::Inherit { from: bytes.len() as u32 }) else {
            return false;
        };
        let Ok(more) = server::taken(part.bytes as usize) else { die(SIGKILL, "no memory") };
        bytes.extend_from_slice(&more);
        if (part.bytes as usize) < DATA_BYTES {
            break part;
        }
    };
    (p.pid, p.me.tid) = (inherited.pid, inherited.pid);
    let secure = inherited.secure;
    p.limits.inherit(secure);
    p.signals.inherit(main_header().ignored.load(Relaxed));
    p.me.signals.inherit(header().blocked.load(Relaxed));
    let Some(Left { sys, affinity, filter, fds, of_memory, mut args }) = read(&bytes) else {
        die(SIGKILL, "what was left to it makes no sense")
    };
    p.sys.inherit(sys, secure);
    scheduling::take_affinity(affinity);
    p.me.filter = filter;
    seccomp::adopt(p);
    for (fd, desc) in fds {
        // One that cannot be opened is not there.
        let _ = fd::install_left(p, fd, desc);
    }
    for left in of_memory {
        let _ = fd::install_of_memory(p, left);
    }
    let opened = Opened {
        desc: inherited.program,
        kind: Kind::Regular as u8,
        inode: inherited.inode,
        is_stored: false,
        is_large: false,
    };
    let image =
        file::take(&mut p.mm, opened).and_then(|file| Image::of(&mut p.mm, file, &mut args));
    match image {
        Ok(image) => begin(p, regs, image, &args, secure),
        Err(error) => die(SIGKILL, &alloc::format!("its program cannot be read: {error:?}")),
    }
    true
}

/// What comes next in what was left.
pub struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    pub fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn strings(&mut self) -> Option<Strings> {
        let (count, len) = (self.word()? as usize, self.word()? as usize);
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(Strings { bytes: bytes.to_vec(), count })
    }

    /// The same, if each of them has its end.
    fn ended(&mut self) -> Option<Strings> {
        let all = self.strings()?;
        let ends = all.bytes.iter().filter(|byte| **byte == 0).count();
        (ends == all.count && all.bytes.last().is_none_or(|byte| *byte == 0)).then_some(all)
    }
}

/// What was left.
struct Left {
    sys: u32,
    affinity: u64,
    filter: Filter,
    fds: Vec<(u32, u32)>,
    of_memory: Vec<[u32; 3]>,
    args: Args,
}

fn read(bytes: &[u8]) -> Option<Left> {
    // The descriptions at the start are for the server.
    let mut rest = Rest(bytes);
    let kept = rest.word()? as usize;
    rest.0 = rest.0.get(4 * kept..)?;
    let sys = rest.word()?;
    let affinity = u64::from(rest.word()?) | u64::from(rest.word()?) << 32;
    let filter = Filter::read(&mut rest)?;
    let count = rest.word()? as usize;
    let (pairs, after) = rest.0.split_at_checked(8 * count)?;
    let mut pairs = Rest(pairs);
    let fds = core::iter::from_fn(|| Some((pairs.word()?, pairs.word()?))).collect();
    rest.0 = after;
    let count = rest.word()? as usize;
    let mut of_memory = Vec::new();
    for _ in 0..count {
        of_memory.push([rest.word()?, rest.word()?, rest.word()?]);
    }
    let path = rest.strings()?.bytes;
    let args = Args::left(path, rest.ended()?, rest.ended()?);
    Some(Left { sys, affinity, filter, fds, of_memory, args })
}
