//! Memory that goes to other processes. `prctl(PR_TESSERA_PASS)`: a range becomes a file without a name, which is passed on as all files
//! are, by a fork or through a socket; and what such a file has becomes private memory. There is no such thing on Linux;
//! docs/passing-memory.md says how it is used.

use crate::errno::{Errno, Result};
use crate::fd::kinds::with_kind;
use crate::fd::ops::FileOps;
use crate::fd::{self, File};
use crate::mm::{self, calls, leases, relief, usage, user, Mm};
use crate::process::Process;
use crate::server::{self, op};
use crate::sys::segments;
use abi::layout::PAGE;
use unixproto::files::O_RDWR;
use unixproto::ops::Opened;
use uvm::{Access, Backend, Entry, Flags, MapRequest, NoMemory, ObjectId, Passed, Placement, Prot};

/// The option: "TSPB".
pub const PR_TESSERA_PASS: u32 = 0x5453_5042;

/// What is to be done, the second argument.
mod what {
    /// The range is shared memory from now on, with whoever gets the file.
    pub const SHARE: u64 = 1;
    /// Whoever gets the file gets what the range has now.
    pub const COPY: u64 = 2;
    /// The same, and the range is mapped no more.
    pub const DONATE: u64 = 3;
    /// A copy of what the file has becomes private memory.
    pub const IMPORT: u64 = 4;
    /// What the file has becomes private memory, and the file has it no more.
    pub const TAKE: u64 = 5;
    /// The descriptor is closed when a program is executed.
    pub const CLOEXEC: u64 = 0x100;
}

/// Bytes that are made usable, and copied, at a time.
const PIECE: usize = 256 << 10;
/// Bytes of what says where imported memory goes: its address, its length, where it begins in the file, 64 bits each; rights and flags
/// of `mmap`, 32 bits each.
const BYTES: u64 = 32;
const MAP_FIXED: u32 = 0x10;
const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;

pub fn pass(p: &mut Process, what: u64, a: u64, b: u64, c: u64) -> Result<u64> {
    if p.parent.is_some() {
        // In a vfork the memory is the parent's, but not the files.
        return Err(Errno::EAGAIN);
    }
    let (how, flags) = (what & !what::CLOEXEC, what & what::CLOEXEC);
    match how {
        what::SHARE | what::COPY | what::DONATE => export(p, how, (a, b), c, flags != 0),
        what::IMPORT | what::TAKE if flags == 0 => import(p, a as i32, b, c, how == what::TAKE),
        _ => Err(Errno::EINVAL),
    }
}

/// Makes a file of a range. Where in the file that begins is told at `place`.
fn export(
    p: &mut Process,
    how: u64,
    (addr, len): (u64, u64),
    place: u64,
    cloexec: bool,
) -> Result<u64> {
    p.fds.check_room(0, p.limits.max_files())?;
    user::check_writable(&mut p.mm, place, size_of::<u64>())?;
    let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::EINVAL)?;
    let end = addr.checked_add(len).ok_or(Errno::EINVAL)?;
    let leaves = how != what::COPY;
    if leaves && (addr..end).contains(&place) {
        // Nothing can be told there.
        return Err(Errno::EFAULT);
    }
    leases::end(&mut p.mm, addr, len);
    usage::shrinks_by(&mut p.mm, addr, len);
    let Mm { space, caps, .. } = &mut p.mm;
    let passed = space.pass(caps, addr, len, leaves).map_err(mm::errno)?;
    let (fd, offset) =
        file_of(p, &passed, len, cloexec).inspect_err(|_| stay(&mut p.mm, &passed))?;
    let given = match how {
        what::SHARE => share(p, fd, &passed.entries, (addr, offset)),
        what::DONATE => calls::munmap(p, addr, len).map(drop),
        _ => Ok(()),
    };
    usage::changed(&p.mm);
    let told = given.and_then(|()| user::copy_out(&mut p.mm, place, &offset));
    told.inspect_err(|_| {
        stay(&mut p.mm, &passed);
        // It is open.
        let _ = fd::close(&mut p.fds, fd);
    })?;
    Ok(fd as u64)
}

/// All is as it was.
fn stay(mm: &mut Mm, passed: &Passed) {
    let Mm { space, caps, .. } = mm;
    space.stay(caps, passed);
}

/// A file with what a range has, and where it begins there.
fn file_of(p: &mut Process, passed: &Passed, len: u64, cloexec: bool) -> Result<(i32, u64)> {
    let desc = |object| Some(p.mm.caps.objects.get(object)?.desc);
    if let Some((desc, page)) = passed.own.and_then(|(object, page)| Some((desc(object)?, page))) {
        let offset = page * PAGE;
        let request = op::PassMemory { desc, own: false, takes: false, offset, bytes: len };
        let opened = server::call(request).map_err(no_room)?;
        let fd = fd::install(p, File::opened(opened, O_RDWR), cloexec)?;
        return Ok((fd, offset));
    }
    let opened = server::call(op::MemFile { size: len, large: false }).map_err(no_room)?;
    let Opened { desc, inode, .. } = opened;
    let fd = fd::install(p, File::opened(opened, O_RDWR), cloexec)?;
    let object = object_of(p, fd, desc, inode);
    let copied = object.and_then(|object| {
        let copied = copy(&mut p.mm, passed, object);
        forget(p, object);
        copied
    });
    copied.inspect_err(|_| {
        // It is open.
        let _ = fd::close(&mut p.fds, fd);
    })?;
    Ok((fd, 0))
}

/// Copies what a range has to an object.
fn copy(mm: &mut Mm, passed: &Passed, object: ObjectId) -> Result<()> {
    let Some(first) = passed.entries.first().map(|entry| entry.start) else { return Ok(()) };
    // So that it is known what holds it.
    mm.caps.object_extent(object, 0).map_err(|_| Errno::ENOMEM)?;
    let (mut page, end) = (first, passed.entries.last().map_or(first, |entry| entry.end));
    loop {
        let Mm { space, caps, .. } = &mut *mm;
        let next = space.next_contents(caps, page, end).map_err(mm::errno)?;
        let Some((from, count)) = next else { return Ok(()) };
        copy_run(mm, (from * PAGE, count * PAGE), object, (from - first) * PAGE)?;
        page = from + count;
    }
}

fn copy_run(mm: &mut Mm, (addr, len): (u64, u64), object: ObjectId, to: u64) -> Result<()> {
    /// What was made usable may be gone again before it is read, if memory is short.
    const TRIES: u32 = 64;
    let (mut done, mut tries) = (0, TRIES);
    while done < len {
        let (from, wanted) = (addr + done, ((len - done) as usize).min(PIECE));
        let copied = match user::readable(mm, from, wanted) {
            Ok(bytes) => mm.caps.objects.copy_in(object, to + done, from, bytes as u64),
            // There may be some if others make room.
            Err(Errno::ENOMEM) => {
                relief::fault(mm, from, Access::Read).map(|()| 0).map_err(|_| NoMemory)
            }
            Err(error) => return Err(error),
        };
        match copied.map_err(|_| Errno::ENOMEM)? {
            0 if tries == 0 => return Err(Errno::ENOMEM),
            0 => tries -= 1,
            copied => (done, tries) = (done + copied, TRIES),
        }
    }
    Ok(())
}

/// The memory is not a file to the program.
fn no_room(error: Errno) -> Errno {
    match error {
        Errno::ENOSPC | Errno::EFBIG => Errno::ENOMEM,
        error => error,
    }
}

fn object_of(p: &mut Process, fd: i32, desc: u32, inode: u64) -> Result<ObjectId> {
    let index = p.fds.index(fd)?;
    calls::object_of(p, desc, index, inode, true)
}

/// Forgets an object unless something maps it.
fn forget(p: &mut Process, object: ObjectId) {
    let Mm { space, caps, .. } = &mut p.mm;
    if !space.map().uses(object) {
        caps.objects.release(&mut caps.nodes, object);
    }
    mm::settle(p);
}

/// Maps the file in place of the entries of the range.
fn share(p: &mut Process, fd: i32, entries: &[Entry], (addr, offset): (u64, u64)) -> Result<()> {
    let file = p.fds.get(fd)?;
    let contents = with_kind!(&file.kind, kind => kind.contents())?;
    let object = object_of(p, fd, contents.desc, contents.inode)?;
    if !p.mm.space.map().has_room(2 * entries.len()) {
        forget(p, object);
        return Err(Errno::ENOMEM);
    }
    let result = entries.iter().try_for_each(|entry| {
        let start = entry.start * PAGE;
        let request = MapRequest {
            addr: start,
            len: entry.pages() * PAGE,
            prot: entry.prot,
            placement: Placement::Fixed,
            flags: entry.flags.without(Flags::OWN).or(Flags::SHARED),
            object: Some((object, offset + (start - addr))),
        };
        calls::enter(p, &request, 0).map(drop)
    });
    forget(p, object);
    result
}

/// What a file has becomes private memory.
fn import(p: &mut Process, fd: i32, place: u64, bytes: u64, takes: bool) -> Result<u64> {
    if bytes != BYTES {
        return Err(Errno::EINVAL);
    }
    let mut words = [0; 4];
    user::words_in(&mut p.mm, place, &mut words)?;
    user::check_writable(&mut p.mm, place, size_of::<u64>())?;
    let [addr, len, offset, how] = words;
    let (rights, flags) = (how as u32, (how >> 32) as u32);
    if rights & !u32::from(Prot::ALL.0) != 0
        || flags & !(MAP_FIXED | MAP_FIXED_NOREPLACE) != 0
        || !offset.is_multiple_of(PAGE)
        || len == 0
    {
        return Err(Errno::EINVAL);
    }
    let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
    let file = p.fds.get(fd)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    if takes && !file.writable() {
        return Err(Errno::EACCES);
    }
    let contents = with_kind!(&file.kind, kind => kind.contents())?;
    if contents.is_large {
        return Err(Errno::EINVAL);
    }
    let mut request = MapRequest {
        addr,
        len,
        prot: Prot(rights as u8),
        placement: calls::placement(flags),
        flags: Flags::default(),
        object: None,
    };
    if request.placement == Placement::Hint && addr == 0 {
        if let Some(start) = p.mm.space.place_for(len / PAGE, offset / PAGE) {
            (request.addr, request.placement) = (start * PAGE, Placement::FixedNoReplace);
        }
    }
    if request.addr != 0 {
        leases::end(&mut p.mm, request.addr, len);
        leases::end_around(&mut p.mm, request.addr);
    }
    // A place first: what was taken is to have one.
    let start = calls::enter(p, &request, 0)?;
    let adopted =
        adopt(p, contents.desc, takes, (offset, len), MapRequest { addr: start, ..request });
    if let Err(error) = adopted {
        // If that fails it is empty memory.
        let _ = calls::munmap(p, start, len);
        return Err(error);
    }
    if takes {
        // Where the process has the file mapped, too, it ends as well.
        mm::truncated(&mut p.mm, contents.inode, segments::size_of(contents.desc)?);
        mm::settle(p);
    }
    user::copy_out(&mut p.mm, place, &start)?;
    Ok(0)
}

/// Maps a part of a file as private memory where there is place for it.
fn adopt(
    p: &mut Process,
    desc: u32,
    takes: bool,
    (offset, len): (u64, u64),
    request: MapRequest,
) -> Result<()> {
    let object = p.mm.caps.objects.adopt(desc, takes, (offset, len)).map_err(no_room)?;
    let request = MapRequest {
        placement: Placement::Fixed,
        flags: request.flags.or(Flags::OWN),
        object: Some((object, offset)),
        ..request
    };
    calls::enter(p, &request, 0)?;
    calls::keep_new(&mut p.mm, (request.addr / PAGE, (request.addr + len) / PAGE))
}
