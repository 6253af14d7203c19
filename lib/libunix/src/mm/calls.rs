//! System calls about memory.

use super::{drop_notes, errno, leases, rights, settle, take_limits, usage, user, userfault, Mm};
use crate::errno::{Errno, Result};
use crate::fd::kinds::{pidfd, shared, with_kind};
use crate::fd::ops::{Contents, FileOps, Mapped};
use crate::process::{Io, Process};
use crate::server::{self, op};
use crate::sys::readwrite::vector;
use crate::sys::{self, limits::Limits, numa, packet_ring};
use crate::thread::lock;
use abi::layout::PAGE;
use alloc::vec::Vec;
use linuxabi::iovec::Buffer;
use unixproto::session::DATA_BYTES;
use uvm::{
    Advice, Backend, FaultError, Flags, MapRequest, ObjectId, Placement, Prot, RemapFlags,
    OWN_LEAST,
};

const MAP_TYPE: u32 = 0xf;
const MAP_SHARED: u32 = 1;
const MAP_PRIVATE: u32 = 2;
const MAP_SHARED_VALIDATE: u32 = 3;
const MAP_FIXED: u32 = 0x10;
const MAP_ANONYMOUS: u32 = 0x20;
const MAP_GROWSDOWN: u32 = 0x100;
const MAP_LOCKED: u32 = 0x2000;
const MAP_NORESERVE: u32 = 0x4000;
pub const MAP_POPULATE: u32 = 0x8000;
const MAP_STACK: u32 = 0x2_0000;
const MAP_HUGETLB: u32 = 0x4_0000;
/// The bits above say which size: its logarithm, or 0.
const MAP_HUGE_SHIFT: u32 = 26;
/// The one size of large pages, and one that Linux has, too.
const LARGE_PAGE: u64 = 2 << 20;
const GIANT_PAGE: u64 = 1 << 30;
const MAP_SYNC: u32 = 0x8_0000;
const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;
/// What `MAP_SHARED_VALIDATE` takes of every file.
const MAP_KNOWN: u32 = 0x7_f9ff | 0x1f << 26;

/// Program memory, and the limits that it has to keep to.
type Bounded<'a> = (&'a mut Mm, &'a Limits);

/// Rights of `mmap` and `mprotect`. As on Linux, other bits of `mmap` are ignored.
fn prot(bits: u32) -> Prot {
    Prot(bits as u8 & Prot::ALL.0)
}

#[allow(clippy::too_many_arguments)]
pub fn mmap(
    p: &mut Process,
    addr: u64,
    len: u64,
    rights: u32,
    flags: u32,
    fd: i32,
    offset: u64,
) -> Result<u64> {
    if offset & (PAGE - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & MAP_TYPE == MAP_SHARED_VALIDATE && flags & MAP_ANONYMOUS != 0 {
        return Err(Errno::EINVAL);
    }
    let shared = match flags & MAP_TYPE {
        MAP_SHARED | MAP_SHARED_VALIDATE => true,
        MAP_PRIVATE => false,
        _ => return Err(Errno::EINVAL),
    };
    let mut request = MapRequest {
        addr,
        len,
        prot: prot(rights),
        placement: placement(flags),
        flags: entry_flags(flags, shared),
        object: None,
    };
    let is_large = flags & MAP_HUGETLB != 0;
    if flags & MAP_ANONYMOUS == 0 || shared || is_large {
        if flags & MAP_GROWSDOWN != 0 || len == 0 {
            return Err(Errno::EINVAL);
        }
        if is_large && flags & MAP_ANONYMOUS != 0 {
            make_large(&mut request, size_of_large(flags)?, offset)?;
        }
    }
    if flags & MAP_ANONYMOUS == 0 || shared {
        if p.parent.is_some() {
            // In a vfork the mapping would be the parent's too, but not the file.
            return Err(Errno::EAGAIN);
        }
        find_object(p, &mut request, flags, fd, offset)?;
    } else if !is_large && may_be_own(&p.mm, &request, flags) {
        align(&mut request);
    }
    if addr != 0 && leases::are_given() {
        // Where it is to be, or is not because of what is there.
        leases::end(&mut p.mm, addr, len);
        leases::end_around(&mut p.mm, addr);
    }
    let addr = enter(p, &request, flags)?;
    if flags & MAP_ANONYMOUS == 0 && shared {
        packet_ring::mapped(p, fd, addr);
    }
    Ok(addr)
}

/// May private memory become an object? Threads also make memory usable piece by piece which they have reserved.
fn may_be_own(mm: &Mm, request: &MapRequest, flags: u32) -> bool {
    let is_stack = flags & (MAP_STACK | MAP_GROWSDOWN) != 0;
    let least = match request.prot.has(Prot::WRITE) {
        true => mm.space.own_least(),
        false if request.prot == Prot::NONE && lock::is_shared() => OWN_LEAST,
        false => return false,
    };
    // What is locked is no object: such can leave, unless each is asked to stay.
    let stays = mm.space.locks_new || request.flags.has(Flags::LOCKED);
    request.len >= least && !is_stack && !stays && mm.caps.objects.has_room_for_own()
}

pub fn enter(p: &mut Process, request: &MapRequest, flags: u32) -> Result<u64> {
    let (mm, limits) = p.memory();
    take_limits(mm, limits);
    let locks = flags & MAP_LOCKED != 0;
    if (locks || mm.space.locks_new) && !request.flags.has(Flags::LARGE_PAGES) {
        may_lock_more((mm, limits), request.len, locks)?;
    }
    let populates = locks || flags & MAP_POPULATE != 0 || mm.space.locks_new && mm.touches_new;
    let Mm { space, caps, .. } = mm;
    let result = space.mmap(caps, request).map_err(errno);
    match (result, request.object) {
        (Ok(start), _) if populates => {
            let end = (start + request.len).div_ceil(PAGE);
            space.populate_lenient(caps, start / PAGE, end);
            usage::changed(mm);
        }
        (Err(_), Some((object, _))) if !space.map().uses(object) => {
            caps.object_release(object);
        }
        _ => {}
    }
    usage::mapped(&p.mm);
    if let (false, Ok(start)) = (p.mm.has_no_notes(), result) {
        drop_notes(p, start, request.len);
    }
    settle(p);
    userfault::wait_for_readers(p);
    result
}

pub fn placement(flags: u32) -> Placement {
    if flags & MAP_FIXED_NOREPLACE != 0 {
        Placement::FixedNoReplace
    } else if flags & MAP_FIXED != 0 {
        Placement::Fixed
    } else {
        Placement::Hint
    }
}

fn entry_flags(flags: u32, shared: bool) -> Flags {
    [
        (shared, Flags::SHARED),
        (flags & MAP_GROWSDOWN != 0, Flags::GROWS_DOWN),
        (flags & MAP_NORESERVE != 0, Flags::NO_RESERVE),
        (flags & MAP_LOCKED != 0, Flags::LOCKED),
    ]
    .into_iter()
    .filter(|(on, _)| *on)
    .fold(Flags::default(), |all, (_, flag)| all.or(flag))
}

/// The size of large pages that is asked for.
fn size_of_large(flags: u32) -> Result<u64> {
    match flags >> MAP_HUGE_SHIFT {
        0 => Ok(LARGE_PAGE),
        bits => match 1u64.checked_shl(bits) {
            Some(LARGE_PAGE) => Ok(LARGE_PAGE),
            // The processor has them; there are none to be had.
            Some(GIANT_PAGE) => Err(Errno::ENOMEM),
            _ => Err(Errno::EINVAL),
        },
    }
}

/// Memory that is to consist of large pages, as its length and its address.
fn make_large(request: &mut MapRequest, size: u64, offset: u64) -> Result<()> {
    if !offset.is_multiple_of(size) {
        return Err(Errno::EINVAL);
    }
    request.flags = request.flags.or(Flags::LARGE_PAGES);
    request.len = request.len.checked_next_multiple_of(size).ok_or(Errno::EINVAL)?;
    let is_exact = request.placement != Placement::Hint;
    if is_exact && !request.addr.is_multiple_of(size) {
        return Err(Errno::EINVAL);
    }
    request.addr = request.addr.checked_next_multiple_of(size).unwrap_or(0);
    Ok(())
}

/// Completes a request for shared or file memory.
fn find_object(
    p: &mut Io,
    request: &mut MapRequest,
    flags: u32,
    fd: i32,
    offset: u64,
) -> Result<()> {
    let shared = request.flags.has(Flags::SHARED);
    if flags & MAP_ANONYMOUS != 0 {
        let object = shared_memory(&mut p.mm, request.len)?;
        request.object = Some((object, 0));
        align(request);
        if flags & MAP_HUGETLB != 0 {
            p.mm.caps.objects.advise(object, true);
        }
        return Ok(());
    }
    let file = p.fds.get(fd)?;
    if flags & MAP_TYPE == MAP_SHARED_VALIDATE && flags & !MAP_KNOWN != 0 {
        // A store to a file that survives needs nothing more than that its lines are written back.
        let survives = with_kind!(&file.kind, kind => kind.contents()).is_ok_and(|of| of.is_stored);
        if flags & !(MAP_KNOWN | MAP_SYNC) != 0 || !survives {
            return Err(Errno::EOPNOTSUPP);
        }
    }
    if !file.readable() {
        return Err(if file.writable() { Errno::EACCES } else { Errno::EBADF });
    }
    let writable = file.writable();
    if shared && request.prot.has(Prot::WRITE) && !writable {
        return Err(Errno::EACCES);
    }
    match with_kind!(&file.kind, kind => kind.map())? {
        Mapped::Zeroes if flags & MAP_HUGETLB != 0 => return Err(Errno::EINVAL),
        Mapped::Zeroes if shared => {
            request.object = Some((shared_memory(&mut p.mm, request.len)?, 0))
        }
        Mapped::Zeroes => {}
        // Nothing that is stored there would come to the file.
        Mapped::Copy(_) if shared && writable => return Err(Errno::EINVAL),
        Mapped::Copy(desc) => {
            request.object = Some((copy_of(&mut p.mm, desc)?, offset));
            if shared {
                request.flags = request.flags.or(Flags::NEVER_WRITE);
            }
        }
        Mapped::Registers { .. } if offset > 0 || request.len > PAGE => return Err(Errno::EINVAL),
        // There are no copies of registers.
        Mapped::Registers { .. } if request.prot.has(Prot::WRITE) => return Err(Errno::EACCES),
        Mapped::Registers { desc, inode } => {
            let index = p.fds.index(fd)?;
            request.object = Some((object_of(p, desc, index, inode, false)?, 0));
            request.flags = request.flags.or(Flags::NEVER_WRITE);
        }
        Mapped::Contents(Contents { desc, inode, is_stored, is_large, is_sealable }) => {
            match is_large {
                true => make_large(request, LARGE_PAGE, offset)?,
                false if flags & MAP_HUGETLB != 0 => return Err(Errno::EINVAL),
                false => {}
            }
            let index = p.fds.index(fd)?;
            let writable = writable && !(shared && is_sealable && is_sealed(desc)?);
            if shared && request.prot.has(Prot::WRITE) && !writable {
                return Err(Errno::EPERM);
            }
            let object = object_of(p, desc, index, inode, shared && writable)?;
            request.object = Some((object, offset));
            if is_sealable {
                p.mm.caps.objects.set_sealable(object);
            }
            if is_large {
                p.mm.caps.objects.advise(object, true);
            }
            if is_stored {
                p.mm.caps.objects.set_survives(object);
            }
            if shared {
                align(request);
            }
            if shared && !writable {
                request.flags = request.flags.or(Flags::NEVER_WRITE);
            }
        }
    }
    Ok(())
}

/// May a file not be mapped so that it can be stored to? Else `unixd` knows now that this process has it mapped so.
fn is_sealed(desc: u32) -> Result<bool> {
    Ok(server::call(op::MapSealable { desc })?.count == 0)
}

/// A large object is mapped where whole tables of it can be, if the library chooses the address.
fn align(request: &mut MapRequest) {
    if request.placement == Placement::Hint {
        request.placement = Placement::HintAligned;
    }
}

/// The object for an open file. It holds the file once, however often it is mapped.
pub fn object_of(
    io: &mut Io,
    desc: u32,
    index: u32,
    inode: u64,
    writable: bool,
) -> Result<ObjectId> {
    let added = io.mm.caps.objects.add(desc, Some(index), inode, writable);
    let (object, new) = added.map_err(|_| Errno::ENOMEM)?;
    if new {
        io.fds.hold(index);
    }
    Ok(object)
}

/// A copy of a file of the host.
fn copy_of(mm: &mut Mm, desc: u32) -> Result<ObjectId> {
    let Contents { desc, inode, .. } = shared::copied(desc)?;
    match mm.caps.objects.add(desc, None, inode, false) {
        Ok((object, _)) => Ok(object),
        Err(_) => {
            server::close(desc);
            Err(Errno::ENOMEM)
        }
    }
}

/// Shared anonymous memory is an unnamed file.
fn shared_memory(mm: &mut Mm, len: u64) -> Result<ObjectId> {
    let size = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
    let opened = server::call(op::MemFile { size, large: false })?;
    match mm.caps.objects.add(opened.desc, None, opened.inode, true) {
        Ok((object, _)) => Ok(object),
        Err(_) => {
            server::close(opened.desc);
            Err(Errno::ENOMEM)
        }
    }
}

pub fn munmap(p: &mut Process, addr: u64, len: u64) -> Result<u64> {
    leases::end(&mut p.mm, addr, len);
    usage::shrinks_by(&mut p.mm, addr, len);
    if lock::is_shared() && p.parent.is_none() && leases::keeps(&mut p.mm, addr, len) {
        settle(p);
        return Ok(0);
    }
    let Mm { space, caps, .. } = &mut p.mm;
    let touched = space.amap().pages();
    space.munmap(caps, addr, len).map_err(errno)?;
    usage::changed(&p.mm);
    if !p.mm.has_no_notes() {
        drop_notes(p, addr, len);
        userfault::wait_for_readers(p);
    }
    let was_touched = p.mm.space.amap().pages() != touched || p.mm.caps.objects.has_to_empty();
    settle(p);
    // In a vfork the memory is the parent's.
    if lock::is_shared() && !was_touched && p.parent.is_none() {
        leases::unmapped_untouched(p, len);
    }
    Ok(0)
}

/// `mprotect` with a key: as of a processor without keys, of which no page has one.
pub fn pkey_mprotect(mm: &mut Mm, addr: u64, len: u64, rights: u32, key: i32) -> Result<u64> {
    match key {
        -1 => mprotect(mm, addr, len, rights),
        _ => Err(Errno::EINVAL),
    }
}

/// Such a processor has no key that could be used.
pub fn pkey_alloc(_: (), flags: u64, rights: u64) -> Result<u64> {
    /// `PKEY_DISABLE_ACCESS`, `PKEY_DISABLE_WRITE`
    const RIGHTS: u64 = 3;
    match flags != 0 || rights & !RIGHTS != 0 {
        true => Err(Errno::EINVAL),
        false => Err(Errno::ENOSPC),
    }
}

/// And none is in use.
pub fn pkey_free(_: (), _key: i32) -> Result<u64> {
    Err(Errno::EINVAL)
}

pub fn mprotect(mm: &mut Mm, addr: u64, len: u64, rights: u32) -> Result<u64> {
    const GROWS_DOWN: u32 = 0x0100_0000;
    const GROWS_UP: u32 = 0x0200_0000;
    const SEM: u32 = 8;
    if rights & !(7 | SEM | GROWS_DOWN | GROWS_UP) != 0
        || rights & (GROWS_DOWN | GROWS_UP) == GROWS_DOWN | GROWS_UP
    {
        return Err(Errno::EINVAL);
    }
    if leases::are_given() {
        return protect_after_leases(mm, addr, len, rights);
    }
    protect(mm, addr, len, rights)
}

/// Apart, so that nobody else has registers saved for it.
#[cold]
#[inline(never)]
fn protect_after_leases(mm: &mut Mm, addr: u64, len: u64, rights: u32) -> Result<u64> {
    leases::end(mm, addr, len);
    protect(mm, addr, len, rights)
}

#[inline(always)]
fn protect(mm: &mut Mm, addr: u64, len: u64, rights: u32) -> Result<u64> {
    if !mm.userfaults.is_empty() && addr.is_multiple_of(PAGE) {
        return userfault::rights_change(mm, addr, len, prot(rights)).map(|()| 0);
    }
    let Mm { space, caps, .. } = mm;
    space.mprotect(caps, addr, len, prot(rights)).map_err(errno)?;
    rights::changed(mm, addr, len, prot(rights));
    Ok(0)
}

pub fn brk((mm, limits): Bounded, addr: u64) -> u64 {
    take_limits(mm, limits);
    usage::shrinks(mm);
    let old = mm.space.heap().1;
    let more = addr.saturating_sub(old);
    if mm.space.locks_new && more > 0 && may_lock_more((mm, limits), more, false).is_err() {
        return old;
    }
    let Mm { space, caps, .. } = mm;
    let end = space.brk(caps, addr);
    if space.locks_new && mm.touches_new && end > old {
        space.populate_lenient(caps, old / PAGE, end.div_ceil(PAGE));
    }
    usage::changed(mm);
    end
}

pub fn mremap(
    p: &mut Process,
    addr: u64,
    old: u64,
    new: u64,
    flags: u32,
    target: u64,
) -> Result<u64> {
    const MAYMOVE: u32 = 1;
    const FIXED: u32 = 2;
    const DONTUNMAP: u32 = 4;
    if flags & !(MAYMOVE | FIXED | DONTUNMAP) != 0 {
        return Err(Errno::EINVAL);
    }
    let flags = RemapFlags {
        may_move: flags & MAYMOVE != 0,
        fixed: (flags & FIXED != 0).then_some(target),
        dont_unmap: flags & DONTUNMAP != 0,
    };
    let (mm, limits) = p.memory();
    take_limits(mm, limits);
    usage::shrinks_by(mm, addr.saturating_add(new), old.saturating_sub(new));
    if !mm.has_no_notes() {
        return remap_with_notes(p, (addr, old), new, flags);
    }
    let Mm { space, caps, .. } = mm;
    let result = space.mremap(caps, addr, old, new, flags).map_err(errno);
    usage::changed(mm);
    settle(p);
    result
}

/// The same where something is noted of memory: that goes with it, or stays where it stays.
#[cold]
fn remap_with_notes(
    io: &mut Io,
    (addr, old): (u64, u64),
    new: u64,
    flags: RemapFlags,
) -> Result<u64> {
    let only_shorter = flags.fixed.is_none() && !flags.dont_unmap && new <= old && old != 0;
    // What becomes shorter keeps its rights all the time. Of what may move all parts are to have the same.
    let lifted = (!only_shorter).then(|| userfault::lift(&mut io.mm, addr, old));
    let Mm { space, caps, .. } = &mut io.mm;
    let result = space.mremap(caps, addr, old, new, flags).map_err(errno);
    usage::changed(&io.mm);
    let stays = result.is_err() || result == Ok(addr) || flags.dont_unmap;
    match &lifted {
        Some(lifted) if stays => userfault::put_back(&mut io.mm, lifted)?,
        _ => {}
    }
    let to = result?;
    match to == addr {
        true if new < old => drop_notes(io, addr + new.next_multiple_of(PAGE), old - new),
        true => userfault::goes_on(&mut io.mm, addr + old.next_multiple_of(PAGE), new - old)?,
        false => drop_notes(io, to, new),
    }
    if let Some(lifted) = lifted.filter(|_| to != addr) {
        userfault::moved(io, &lifted, (addr, old), (to, new));
        if !flags.dont_unmap {
            userfault::left(io, &lifted, (addr, old));
        }
    }
    if flags.dont_unmap {
        userfault::given_up(&mut io.mm, addr, old)?;
    }
    numa::moved(&mut io.mm.policies, (addr, old), (to, new));
    userfault::wait_for_readers(io);
    Ok(to)
}

pub fn madvise(io: &mut Io, addr: u64, len: u64, advice: u32) -> Result<u64> {
    let advice = advice_of(advice)?;
    let gives_up = matches!(advice, Advice::DontNeed { .. } | Advice::Remove | Advice::Free);
    if gives_up && !io.mm.userfaults.is_empty() {
        // Who serves it knows before it is done.
        userfault::will_be_given_up(io, addr, len);
        userfault::wait_for_readers(io);
    }
    advise(&mut io.mm, addr, len, advice)
}

fn advice_of(number: u32) -> Result<Advice> {
    /// The number of `madvise`.
    const MADVISE: u64 = 28;
    // Linux may know it; the error alone does not say so.
    Advice::from_number(number.into()).ok_or_else(|| sys::refused(MADVISE, Errno::EINVAL))
}

fn advise(mm: &mut Mm, addr: u64, len: u64, advice: Advice) -> Result<u64> {
    leases::end(mm, addr, len);
    usage::shrinks_by(mm, addr, len);
    let Mm { space, caps, .. } = mm;
    let result = space.madvise(caps, addr, len, advice).map(|()| 0).map_err(errno);
    usage::changed(mm);
    let gives_up = matches!(advice, Advice::DontNeed { .. } | Advice::Remove);
    if gives_up && !mm.userfaults.is_empty() && result.is_ok() {
        userfault::given_up(mm, addr, len)?;
    }
    result
}

/// `madvise` about several ranges, up to the first that cannot be. Answers the bytes of those before. Where memory of another process
/// is, only that one's library knows, which is asked to do it.
pub fn process_madvise(
    p: &mut Io,
    fd: i32,
    ranges: u64,
    count: u64,
    advice: u32,
    flags: u32,
) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let ranges = vector(&mut p.mm, ranges, count)?;
    let pid = pidfd::id(&p.fds, fd)?;
    if pid == pidfd::own_id() {
        return advise_each(&mut p.mm, ranges, advice);
    }
    const RANGE_BYTES: usize = 16;
    let mut done = 0;
    let mut rest = &ranges[..];
    loop {
        // Also of no ranges it is asked whether it may be.
        let (some, more) = rest.split_at(rest.len().min(DATA_BYTES / RANGE_BYTES));
        let words = some.iter().flat_map(|range| [range.base, range.len]);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let a = server::put_a(&bytes);
        let count = match server::wait_filled(p, op::AdviseOther { pid, advice }, a) {
            Ok(reply) => reply.count,
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        };
        done += count;
        if more.is_empty() || count < some.iter().map(|range| range.len).sum() {
            return Ok(done);
        }
        rest = more;
    }
}

/// What another process says of this one's memory: ranges as `unixd` passes them on.
pub fn advise_told(mm: &mut Mm, ranges: &[u8], advice: u32) -> Result<u64> {
    let (words, _) = ranges.as_chunks::<8>();
    let (ranges, _) = words.as_chunks::<2>();
    let range = |range: &[[u8; 8]; 2]| {
        let [base, len] = range.map(u64::from_le_bytes);
        Buffer { base, len }
    };
    advise_each(mm, ranges.iter().map(range), advice)
}

fn advise_each(mm: &mut Mm, all: impl IntoIterator<Item = Buffer>, advice: u32) -> Result<u64> {
    let mut done = 0;
    for Buffer { base, len } in all {
        match advice_of(advice).and_then(|advice| advise(mm, base, len, advice)) {
            Ok(_) => done += len,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Shared mappings are the file itself. Of files that survive what was stored is written back.
pub fn msync(mm: &mut Mm, addr: u64, len: u64, flags: u32) -> Result<u64> {
    const ASYNC: u32 = 1;
    const INVALIDATE: u32 = 2;
    const SYNC: u32 = 4;
    if flags & !(ASYNC | INVALIDATE | SYNC) != 0
        || flags & (ASYNC | SYNC) == ASYNC | SYNC
        || addr & (PAGE - 1) != 0
    {
        return Err(Errno::EINVAL);
    }
    let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?.div_ceil(PAGE);
    if flags & SYNC != 0 {
        let Mm { space, caps, .. } = mm;
        for entry in space.map().within(addr / PAGE, end) {
            let Some(object) = entry.object.filter(|_| entry.flags.has(Flags::SHARED)) else {
                continue;
            };
            let (from, to) = (entry.start.max(addr / PAGE), entry.end.min(end));
            let (offset, bytes) = (entry.object_page(from) * PAGE, (to - from) * PAGE);
            caps.objects.sync(object, offset, bytes)?;
        }
    }
    match mm.space.is_mapped(addr, len) {
        true => Ok(0),
        false => Err(Errno::ENOMEM),
    }
}

pub fn mincore(mm: &mut Mm, addr: u64, len: u64, vector: u64) -> Result<u64> {
    if addr & (PAGE - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?.div_ceil(PAGE);
    let (mut at, mut vector) = (addr / PAGE, vector);
    while at < end {
        // What is told goes out in pieces: where it goes is program memory, and faults there change the address space.
        let (mut told, mut count) = ([0u8; 512], 0);
        let to = end.min(at + told.len() as u64);
        let Mm { space, caps, .. } = mm;
        let are_mapped = space.tell_residency(caps, (at, to), |is_there| {
            told[count] = u8::from(is_there);
            count += 1;
        });
        user::bytes_out(mm, vector, &told[..count])?;
        if !are_mapped {
            return Err(Errno::ENOMEM);
        }
        (at, vector) = (to, vector.wrapping_add(count as u64));
    }
    Ok(0)
}

fn set_locked((mm, limits): Bounded, addr: u64, len: u64, how: Lock) -> Result<u64> {
    let len = len.checked_add(addr % PAGE).ok_or(Errno::EINVAL)?;
    let start = addr - addr % PAGE;
    let on = how != Lock::Not;
    leases::end(mm, start, len);
    if on {
        check_locked((mm, limits), start, len)?;
    }
    let pages = (start / PAGE, (start + len).div_ceil(PAGE));
    if let Err(error) = mm.space.set_locked((start, len), on) {
        // What is in front of a hole is locked, or is not any more; it is not touched.
        keep_apart(mm, pages, how);
        wire(mm, pages, on)?;
        return Err(errno(error));
    }
    keep(mm, pages, how).map(|()| 0)
}

/// How memory is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    Not,
    /// All of it is there at once.
    Now,
    /// The same as far as can be, and nobody is told what cannot.
    NowIfPossible,
    /// What is there, and what is touched (`MLOCK_ONFAULT`).
    WhenTouched,
}

/// What is locked stays in memory, and comes there; or it may leave. What cannot come is told, and is locked nevertheless, as on Linux.
///
/// # Errors
///
/// `ENOMEM`: a page cannot be touched; what is behind it is not. `EAGAIN`: there is no memory for one.
fn keep(mm: &mut Mm, pages: (u64, u64), how: Lock) -> Result<()> {
    // Pages that the program serves itself come when it touches them.
    let is_strict = how == Lock::Now && mm.userfaults.is_empty();
    let comes = matches!(how, Lock::Now | Lock::NowIfPossible);
    let touch = |mm: &mut Mm| {
        let Mm { space, caps, .. } = mm;
        if !is_strict {
            space.populate_lenient(caps, pages.0, pages.1);
            return Ok(());
        }
        space.populate_strict(caps, pages.0, pages.1).map_err(|error| match error {
            FaultError::NoMemory => Errno::EAGAIN,
            _ => Errno::ENOMEM,
        })
    };
    keep_apart(mm, pages, how);
    let touched = if comes { touch(mm) } else { Ok(()) };
    let is_wired = wire(mm, pages, how != Lock::Not)?;
    touched?;
    // What has left before that comes in.
    if is_wired && comes {
        touch(mm)?;
    }
    Ok(())
}

/// Copies of pages of files, and pages of stacks, are no pages of objects that can leave any more.
fn keep_apart(mm: &mut Mm, pages: (u64, u64), how: Lock) {
    if how != Lock::Not {
        let Mm { space, caps, .. } = mm;
        space.keep_apart(caps, pages.0, pages.1);
    }
}

/// What was just mapped, and is an object, stays in memory if all that is new does.
pub fn keep_new(mm: &mut Mm, pages: (u64, u64)) -> Result<()> {
    if !mm.space.locks_new {
        return Ok(());
    }
    keep(mm, pages, if mm.touches_new { Lock::NowIfPossible } else { Lock::WhenTouched })
}

/// Pages of objects that are locked stay in memory, or those that are not may leave it. (All others stay anyway.) Are there any?
fn wire(mm: &mut Mm, (first, end): (u64, u64), stays: bool) -> Result<bool> {
    let mut any = false;
    let Mm { space, caps, .. } = mm;
    for entry in space.map().within(first, end).filter(|entry| entry.is_direct()) {
        let Some(object) = entry.object else { continue };
        if entry.flags.has(Flags::LOCKED) != stays && !entry.flags.has(Flags::LARGE_PAGES) {
            continue;
        }
        let (from, to) = (entry.start.max(first), entry.end.min(end));
        caps.objects.wire(object, entry.object_page(from), to - from, stays)?;
        any = true;
    }
    Ok(any)
}

/// May so much be locked besides? `EAGAIN`: that is too much; `EPERM`: who asks for it may lock nothing.
fn may_lock_more((mm, limits): (&Mm, &Limits), bytes: u64, is_asked: bool) -> Result<()> {
    let limit = limits.max_locked();
    if limit == 0 && is_asked {
        return Err(Errno::EPERM);
    }
    if limit == u64::MAX {
        return Ok(());
    }
    match locked(mm, ALL) + bytes.div_ceil(PAGE) > limit / PAGE {
        true => Err(Errno::EAGAIN),
        false => Ok(()),
    }
}

/// Pages that are locked, of a range that divides no entry that is: of others, all pages count.
fn locked(mm: &Mm, (from, to): (u64, u64)) -> u64 {
    let entries = mm.space.map().within(from, to);
    entries.filter(|entry| entry.flags.has(Flags::LOCKED)).map(|entry| entry.pages()).sum()
}

/// May so much be locked, with what is locked elsewhere? `EPERM`: nothing may. `ENOMEM`: too much.
fn check_locked((mm, limits): (&Mm, &Limits), start: u64, len: u64) -> Result<()> {
    let limit = limits.max_locked();
    if limit == u64::MAX {
        return Ok(());
    }
    let (first, end) = (start / PAGE, start.saturating_add(len).div_ceil(PAGE));
    let pages = locked(mm, (ALL.0, first)) + (end - first) + locked(mm, (end, ALL.1));
    match limit {
        0 => Err(Errno::EPERM),
        limit if pages > limit / PAGE => Err(Errno::ENOMEM),
        _ => Ok(()),
    }
}

pub fn mlock((mm, limits): Bounded, addr: u64, len: u64) -> Result<u64> {
    set_locked((mm, limits), addr, len, Lock::Now)
}

pub fn mlock2((mm, limits): Bounded, addr: u64, len: u64, flags: u32) -> Result<u64> {
    match flags {
        0 => set_locked((mm, limits), addr, len, Lock::Now),
        1 => set_locked((mm, limits), addr, len, Lock::WhenTouched),
        _ => Err(Errno::EINVAL),
    }
}

pub fn munlock((mm, limits): Bounded, addr: u64, len: u64) -> Result<u64> {
    set_locked((mm, limits), addr, len, Lock::Not)
}

/// All pages there can be.
const ALL: (u64, u64) = (0, u64::MAX / PAGE);

pub fn mlockall((mm, limits): Bounded, flags: u32) -> Result<u64> {
    const CURRENT: u32 = 1;
    const FUTURE: u32 = 2;
    const ONFAULT: u32 = 4;
    if flags == 0 || flags & !7 != 0 || flags == ONFAULT {
        return Err(Errno::EINVAL);
    }
    let (limit, mapped) = (limits.max_locked(), mm.space.map().pages());
    match limit {
        0 => return Err(Errno::EPERM),
        limit if flags & CURRENT != 0 && mapped > limit / PAGE => return Err(Errno::ENOMEM),
        _ => {}
    }
    mm.space.locks_new = flags & FUTURE != 0;
    mm.touches_new = flags & ONFAULT == 0;
    if flags & CURRENT == 0 {
        return Ok(0);
    }
    mm.space.set_all_locked(true);
    let how = if flags & ONFAULT == 0 { Lock::NowIfPossible } else { Lock::WhenTouched };
    keep(mm, ALL, how).map(|()| 0)
}

pub fn munlockall(mm: &mut Mm) -> Result<u64> {
    mm.space.locks_new = false;
    mm.space.set_all_locked(false);
    keep(mm, ALL, Lock::Not).map(|()| 0)
}
