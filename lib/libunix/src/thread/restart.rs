//! Restartable sequences (`rseq`): code of a thread that is begun anew if somebody else ran, or a signal came, before its end, so that it
//! can change what belongs to the core without atomic instructions.
//!
//! The kernel says whether somebody else ran ([`DispatcherFrame::switched`](abi::DispatcherFrame)), before the program goes on; what
//! is done about it is done here, as `rseq(2)` of Linux 6.1 has it.

use super::{own_registered, Thread};
use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::{self, Task};
use abi::dispatcher::{SWITCHED, WANTS_SWITCHES};
use abi::layout::USER_END;
use abi::{DispatcherFrame, Regs};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use linuxabi::bytes::Bytes;

/// Bytes of `struct rseq`, which is aligned as that.
const BYTES: u64 = 32;
/// Offsets in it. Before them: `cpu_id_start` and `cpu_id`, each a word of 32 bits.
const SEQUENCE: u64 = 8;
const FLAGS: u64 = 16;
/// `cpu_id` of a thread that is not registered.
const NO_CORE: u32 = u32::MAX;
const FLAG_UNREGISTER: u32 = 1;

/// What a thread has registered.
#[derive(Clone, Copy)]
pub struct Registered {
    /// Where its `struct rseq` is.
    address: u64,
    /// The word before the code that is gone on with instead of a sequence.
    signature: u32,
}

/// `struct rseq_cs`: a sequence.
struct Sequence {
    flags: u32,
    start: u64,
    bytes: u64,
    instead: u64,
}

impl Sequence {
    /// Is this one of its instructions?
    fn contains(&self, rip: u64) -> bool {
        rip.wrapping_sub(self.start) < self.bytes
    }
}

/// `struct ptrace_rseq_configuration` of a thread.
pub fn told(thread: &Thread) -> [u8; 24] {
    let bytes = Bytes::default();
    match thread.registered {
        Some(Registered { address, signature }) => {
            bytes.u64(address).u32(BYTES as u32).u32(signature).skip(8).done()
        }
        None => bytes.skip(24).done(),
    }
}

/// Whether somebody else ran.
fn switched() -> &'static AtomicU64 {
    // SAFETY: the frame of a running dispatcher is mapped; the field is atomic.
    unsafe { &(*process::frame()).switched }
}

/// `rseq`.
///
/// # Errors
///
/// `EINVAL`: not these flags, this size or this place; another one is registered. `EPERM`: not with this signature. `EBUSY`: it is registered.
pub fn rseq(p: &mut Task, address: u64, len: u32, flags: u32, signature: u32) -> Result<u64> {
    if flags & FLAG_UNREGISTER != 0 {
        return unregister(p, (address, len, signature), flags);
    }
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(registered) = p.me.registered {
        return Err(match registered {
            _ if registered.address != address || u64::from(len) != BYTES => Errno::EINVAL,
            _ if registered.signature != signature => Errno::EPERM,
            _ => Errno::EBUSY,
        });
    }
    if !address.is_multiple_of(BYTES) || u64::from(len) != BYTES {
        return Err(Errno::EINVAL);
    }
    if address > USER_END - BYTES {
        return Err(Errno::EFAULT);
    }
    // As on Linux, nothing at all is no error.
    if address != 0 {
        p.me.registered = Some(Registered { address, signature });
        begin(&p.me);
    }
    Ok(0)
}

fn unregister(p: &mut Task, (address, len, signature): (u64, u32, u32), flags: u32) -> Result<u64> {
    let registered = p.me.registered.filter(|it| it.address == address).ok_or(Errno::EINVAL)?;
    if flags != FLAG_UNREGISTER || u64::from(len) != BYTES {
        return Err(Errno::EINVAL);
    }
    if registered.signature != signature {
        return Err(Errno::EPERM);
    }
    user::copy_out(&mut p.mm, address, &[0, NO_CORE])?;
    forget(&mut p.me);
    Ok(0)
}

/// The program of a thread is over, or does not want it any more.
pub fn forget(thread: &mut Thread) {
    if thread.registered.take().is_some() {
        switched().store(0, Relaxed);
    }
}

/// A thread that has registered, or a child of one, learns its core before it goes on.
pub fn begin(thread: &Thread) {
    if thread.registered.is_some() {
        switched().store(SWITCHED, Relaxed);
    }
}

/// The library was entered, for nothing but that somebody else ran. Is nothing to be done about it: the program is in no sequence, and knows its
/// core?
///
/// # Safety
///
/// As of [`own_registered`]. `frame` is that of this thread.
#[inline(always)]
pub unsafe fn is_settled(frame: *mut DispatcherFrame) -> bool {
    // SAFETY: the frame is mapped; these fields are atomic.
    let (switched, notifications, core) =
        unsafe { (&(*frame).switched, &(*frame).notifications, &(*frame).core) };
    if switched.load(Relaxed) != SWITCHED || notifications.load(Relaxed) != 0 {
        return false;
    }
    // SAFETY: the caller's promise.
    let Some(Registered { address, .. }) = (unsafe { own_registered() }) else { return false };
    // Before the core is read: whoever is moved after that is told again.
    switched.store(WANTS_SWITCHES, Relaxed);
    let core = core.load(Relaxed) & u64::from(u32::MAX);
    // A word at a time, for which nothing is made ready: both words of the core, and that there is no sequence.
    let is_here = user::load::<u64>(address) == Some(core << 32 | core);
    if is_here && user::load::<u64>(address + SEQUENCE) == Some(0) {
        return true;
    }
    switched.store(SWITCHED, Relaxed);
    false
}

/// The library was entered: maybe since somebody else ran. An error is a fault of the program.
#[inline]
pub fn settle(p: &mut Task, regs: &mut Regs) -> Result<()> {
    match (switched().load(Relaxed), p.me.registered) {
        (SWITCHED, Some(registered)) => go_on(&mut p.mm, registered, regs),
        _ => Ok(()),
    }
}

#[inline(never)]
fn go_on(mm: &mut Mm, registered: Registered, regs: &mut Regs) -> Result<()> {
    // Before the core is read: whoever is moved after that is told again.
    switched().store(WANTS_SWITCHES, Relaxed);
    leave_sequence(mm, registered, regs)?;
    show_core(mm, registered.address)
}

/// A handler is about to be entered: what it returns to is no instruction of a sequence. An error is a fault of the program.
#[inline(always)]
pub fn interrupted(p: &mut Task, regs: &mut Regs) -> Result<()> {
    match p.me.registered {
        Some(Registered { address, .. }) if user::load::<u64>(address + SEQUENCE) == Some(0) => {
            Ok(())
        }
        Some(registered) => leave_sequence(&mut p.mm, registered, regs),
        None => Ok(()),
    }
}

/// The core on which this thread runs, for the program.
fn show_core(mm: &mut Mm, address: u64) -> Result<()> {
    // SAFETY: the frame is mapped; the field is atomic.
    let core = unsafe { (*process::frame()).core.load(Relaxed) } as u32;
    let shown = [core, core];
    // A page that a child has of its parent need not be copied for that.
    match user::copy_in::<[u32; 2]>(mm, address)? == shown {
        true => Ok(()),
        false => user::copy_out(mm, address, &shown),
    }
}

/// A program that is in the sequence that it has named goes on behind it. It names none any more.
#[cold]
#[inline(never)]
fn leave_sequence(mm: &mut Mm, registered: Registered, regs: &mut Regs) -> Result<()> {
    let Registered { address, signature } = registered;
    let named: u64 = user::copy_in(mm, address + SEQUENCE)?;
    if named == 0 {
        return Ok(());
    }
    let sequence = read(mm, named, signature)?;
    let is_within = sequence.contains(regs.rip);
    if is_within && (sequence.flags != 0 || user::copy_in::<u32>(mm, address + FLAGS)? != 0) {
        // Linux has taken them back.
        return Err(Errno::EINVAL);
    }
    user::copy_out(mm, address + SEQUENCE, &0u64)?;
    if is_within {
        regs.rip = sequence.instead;
    }
    Ok(())
}

/// A sequence that is one.
fn read(mm: &mut Mm, named: u64, signature: u32) -> Result<Sequence> {
    const WORDS: usize = 4;
    if named > USER_END - 8 * WORDS as u64 {
        return Err(Errno::EINVAL);
    }
    let [head, start, bytes, instead] = user::copy_in::<[u64; WORDS]>(mm, named)?;
    let (version, flags) = (head as u32, (head >> 32) as u32);
    let sequence = Sequence { flags, start, bytes, instead };
    let end = start.checked_add(bytes).ok_or(Errno::EINVAL)?;
    if version != 0 || start.max(end).max(instead) >= USER_END || sequence.contains(instead) {
        return Err(Errno::EINVAL);
    }
    match user::copy_in::<u32>(mm, instead.wrapping_sub(4))? == signature {
        true => Ok(sequence),
        false => Err(Errno::EINVAL),
    }
}
