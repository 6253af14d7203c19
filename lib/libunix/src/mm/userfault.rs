//! Page faults that the program serves itself (`userfaultfd`).
//!
//! What is registered is private memory from nowhere, or shared memory. Pages of it that are missing have no rights, and protected ones none to
//! write, as far as the address space knows ([`userfault`] remembers which rights the program has); so a fault there is
//! one that it does not serve, and comes here. Who has caused it sleeps until its page is there.
//! A page comes by moving: it is filled where nobody looks, and takes the place of what was not there, all at once.
//!
//! A page of shared memory may come by others. So whether it is missing is looked at when somebody faults on it: one that is there
//! is shown, or who serves it is told that it is (`UFFDIO_CONTINUE`). One that comes from here is written to the object, before
//! this mapping shows it; who has mapped the object elsewhere may see it half written.
//!
//! What else happens to such memory is told as events, to who has asked for them: the thread that does it waits until they are read.

use super::{errno, user, Mm};
use crate::errno::{Errno, Result};
use crate::fd::kinds::userfault::{Event, Fault, Handler};
use crate::fd::ops::READABLE;
use crate::process::{Io, Task};
use crate::thread::park;
use abi::layout::{PAGE, PROGRAM_START};
use alloc::rc::{Rc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use userfault::{right, Hidden, Mode, Part, Watched, Why};
use uvm::{
    Access, Advice, Backend, Contents, Entry, Flags, MapRequest, Placement, Prot, RemapFlags,
};

/// What of an address space is served by the program.
pub struct Userfaults {
    watched: Watched,
    /// Who serves it, by number.
    handlers: Vec<Weak<Handler>>,
    /// Events that the call in progress has told, until it waits for their being read.
    told: Vec<(Weak<Handler>, u64)>,
    /// What the library itself could not use in the call that is being made, and for what.
    hit: Option<(u64, Access)>,
}

/// Somebody who served faults is not there any more.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// Notes that.
pub fn leaves() {
    HAS_LEFT.store(true, Relaxed);
}

/// Most pages that come at a time.
const PIECE: u64 = 16;

/// What becomes of a page that comes.
#[derive(Clone, Copy)]
pub enum Fill {
    /// It has these bytes, at this address.
    Copy(u64),
    /// It is zero.
    Zero,
}

impl Userfaults {
    /// Nothing.
    pub const fn new() -> Userfaults {
        Userfaults { watched: Watched::new(), handlers: Vec::new(), told: Vec::new(), hit: None }
    }

    /// Is there nothing?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// A number for who serves faults from now on.
    pub fn add(&mut self, handler: Weak<Handler>) -> u32 {
        let free = self.handlers.iter().position(|one| one.strong_count() == 0);
        let number = free.filter(|number| self.watched.of(*number as u32).is_empty());
        match number {
            Some(number) => {
                self.handlers[number] = handler;
                number as u32
            }
            None => {
                self.handlers.push(handler);
                self.handlers.len() as u32 - 1
            }
        }
    }

    /// Is that who serves by a number here? One of the program before, or of the parent, does not.
    pub fn knows(&self, number: u32, handler: &Rc<Handler>) -> bool {
        let known = self.handlers.get(number as usize);
        known.is_some_and(|known| core::ptr::eq(known.as_ptr(), Rc::as_ptr(handler)))
    }

    /// Would somebody serve an access that the address space does not allow?
    #[inline]
    pub fn serve(&self, address: u64, access: Access) -> bool {
        !self.is_empty() && self.watched.serves(address / PAGE, bits(access)).is_some()
    }

    /// Why a page is hidden, and with what rights.
    pub fn hidden(&self, page: u64) -> Option<Hidden> {
        match self.is_empty() {
            true => None,
            false => self.watched.hidden(page),
        }
    }

    /// The library itself has met with such a page.
    pub fn hits(&mut self, address: u64, access: Access) {
        if self.serve(address, access) {
            self.hit = Some((address, access));
        }
    }
}

fn bits(access: Access) -> u8 {
    match access {
        Access::Read => right::READ,
        Access::Write => right::WRITE,
        Access::Exec => right::EXECUTE,
    }
}

/// A number for threads that wait for a page: no address of a futex.
const fn place(page: u64) -> u64 {
    page * PAGE + 1
}

/// What comes of a fault that somebody serves.
pub enum Outcome {
    /// The access is to be tried again.
    Again,
    /// A signal says so: that is what who serves it wants.
    Signal,
}

/// Has the program serve a fault, and waits until it has.
///
/// # Errors
///
/// `EINTR`: a signal came first. `EFAULT`: nobody serves it.
#[cold]
pub fn ask(io: &mut Io, address: u64, access: Access) -> Result<Outcome> {
    let page = address / PAGE;
    let served = io.mm.userfaults.watched.serves(page, bits(access));
    let Some((Mode { who, missing, minor, .. }, why)) = served else { return Err(Errno::EFAULT) };
    // Others may have made it; and not all that is hidden is served whether it is there or not.
    let is_there = why == Why::Missing && is_shared(&io.mm, page) && has_contents(&mut io.mm, page);
    if why == Why::Missing && !(if is_there { minor } else { missing }) {
        show_range(&mut io.mm, page, page + 1)?;
        return Ok(Outcome::Again);
    }
    let handler = io.mm.userfaults.handlers.get(who as usize).and_then(Weak::upgrade);
    let Some(handler) = handler else {
        release_all(io, who);
        return Ok(Outcome::Again);
    };
    if handler.wants_signals() {
        return Ok(Outcome::Signal);
    }
    let is_write = access == Access::Write;
    handler.tell(Fault {
        address,
        is_write,
        is_protected: why == Why::Protected,
        is_minor: is_there,
        tid: io.me.tid,
    });
    io.fds.came(handler.index(), READABLE);
    park::tell_watchers(io);
    // Who waits does not keep it there.
    let weak = Rc::downgrade(&handler);
    drop(handler);
    let result = park::wait(io, place(page), u32::MAX, None);
    if let (Err(_), Some(handler)) = (result, weak.upgrade()) {
        handler.take_back(io.me.tid);
    }
    result.map(|()| Outcome::Again)
}

/// The call in progress has answered `EFAULT`: if that is because of a page that somebody serves, waits for it. `false`: it is not.
#[cold]
pub fn waits(io: &mut Io) -> Result<bool> {
    let Some((address, access)) = io.mm.userfaults.hit.take() else { return Ok(false) };
    let page = address / PAGE;
    let served = io.mm.userfaults.watched.serves(page, bits(access));
    let Some((Mode { who, .. }, _)) = served else { return Ok(true) };
    let handler = io.mm.userfaults.handlers.get(who as usize).and_then(Weak::upgrade);
    if handler.is_some_and(|handler| handler.is_for_program_only()) {
        return Ok(false);
    }
    match ask(io, address, access) {
        Ok(Outcome::Again) => Ok(true),
        Ok(Outcome::Signal) => Ok(false),
        Err(Errno::EINTR) => Err(Errno::ERESTARTSYS),
        Err(error) => Err(error),
    }
}

/// Wakes who waits for pages, and takes what they have told back.
pub fn wake(task: &mut Task, start: u64, end: u64) {
    park::wake_between(task, place(start), place(end));
    for handler in task.mm.userfaults.handlers.iter().filter_map(Weak::upgrade) {
        handler.forget(start * PAGE, end * PAGE);
    }
}

/// A number for threads that wait for an event to be read: no address of a futex, nor that of a page.
const fn event_place(event: u64) -> u64 {
    event * 4 + 2
}

/// Has somebody told of an event, if it wants to be: [`wait_for_readers`] waits for it.
fn tell(task: &mut Io, who: u32, event: Event) {
    let handler = task.mm.userfaults.handlers.get(who as usize);
    let Some(handler) = handler.and_then(Weak::upgrade).filter(|handler| handler.wants(event))
    else {
        return;
    };
    let number = handler.tell_event(event);
    task.mm.userfaults.told.push((Rc::downgrade(&handler), number));
    task.fds.came(handler.index(), READABLE);
    park::tell_watchers(task);
}

/// An event was read: who has caused it goes on.
pub fn was_read(task: &mut Task, event: u64) {
    park::wake_between(task, event_place(event), event_place(event) + 1);
}

/// Waits until all events that this call has told were read, or nobody is there who could, or a signal comes: they stay to be read then.
#[inline]
pub fn wait_for_readers(task: &mut Task) {
    if !task.mm.userfaults.told.is_empty() {
        wait_for_all_readers(task);
    }
}

#[cold]
#[inline(never)]
fn wait_for_all_readers(task: &mut Task) {
    let told = core::mem::take(&mut task.mm.userfaults.told);
    for (handler, event) in told {
        // It may be closed meanwhile: so it is not held here.
        while handler.upgrade().is_some_and(|handler| handler.has_event(event)) {
            if park::wait(task, event_place(event), u32::MAX, None).is_err() {
                return;
            }
        }
    }
}

/// Gives the processor the rights that the program has in parts of memory.
fn apply(mm: &mut Mm, parts: &[Part]) -> Result<()> {
    for &(from, to, rights) in parts {
        let Mm { space, caps, .. } = &mut *mm;
        space.mprotect(caps, from * PAGE, (to - from) * PAGE, Prot(rights)).map_err(errno)?;
    }
    Ok(())
}

/// Which pages of a range are there.
fn resident(mm: &mut Mm, start: u64, end: u64) -> Vec<bool> {
    let mut all = Vec::new();
    let Mm { space, caps, .. } = mm;
    space.tell_residency(caps, (start, end), |is_there| all.push(is_there));
    all.resize((end - start) as usize, false);
    all
}

/// The rights of the program in a page, and how it is mapped.
fn rights_of(mm: &Mm, page: u64) -> Option<(u8, Flags)> {
    let entry = mm.space.map().at(page)?;
    let rights = match mm.userfaults.watched.hidden(page) {
        Some(Hidden { rights, .. }) => rights,
        None => entry.prot.0,
    };
    Some((rights, entry.flags))
}

/// Pages that are looked at together.
const BLOCK: u64 = 4096;

/// Hides pages of a range that are missing.
fn hide_missing(mm: &mut Mm, start: u64, end: u64) -> Result<()> {
    let mut at = start;
    while at < end {
        let to = end.min(at + BLOCK);
        hide_missing_some(mm, at, to)?;
        at = to;
    }
    Ok(())
}

/// Hides pages of shared memory: those that are missing, and where those are served that are there, these, too.
fn hide_shared(mm: &mut Mm, start: u64, end: u64, minor: bool) -> Result<()> {
    if minor {
        return hide(mm, start, end, Why::Missing);
    }
    let mut at = start;
    while at < end {
        let to = end.min(at + BLOCK);
        let there = contents(mm, at, to);
        let mut first = at;
        for alike in
            there.chunk_by(|one, next| (*one == Contents::None) == (*next == Contents::None))
        {
            let behind = first + alike.len() as u64;
            if alike[0] == Contents::None {
                hide(mm, first, behind, Why::Missing)?;
            }
            first = behind;
        }
        at = to;
    }
    Ok(())
}

/// Hides what is to be served of a part of a mapping.
fn hide_served(mm: &mut Mm, start: u64, end: u64, mode: Mode) -> Result<()> {
    match (mode.missing || mode.minor, is_shared(mm, start)) {
        (false, _) => Ok(()),
        (true, true) => hide_shared(mm, start, end, mode.minor),
        (true, false) => hide_missing(mm, start, end),
    }
}

fn hide_missing_some(mm: &mut Mm, start: u64, end: u64) -> Result<()> {
    let there = contents(mm, start, end);
    let mut at = start;
    for alike in there.chunk_by(|one, next| one == next) {
        let (from, to) = (at, at + alike.len() as u64);
        at = to;
        match alike[0] {
            Contents::Some => {}
            Contents::None => hide(mm, from, to, Why::Missing)?,
            // What was made to be there ahead of the program is missing for the program.
            Contents::Unwritten => {
                for page in from..to {
                    if !is_zero(mm, page) {
                        continue;
                    }
                    let Mm { space, caps, .. } = &mut *mm;
                    let gone = Advice::DontNeed { locked: true };
                    space.madvise(caps, page * PAGE, PAGE, gone).map_err(errno)?;
                    hide(mm, page, page + 1, Why::Missing)?;
                }
            }
        }
    }
    Ok(())
}

/// Is a page that is there zero?
fn is_zero(mm: &mut Mm, page: u64) -> bool {
    const FIRST: usize = 64;
    let mut bytes = vec![0; PAGE as usize];
    // Most that are not begin with something.
    [FIRST, PAGE as usize].into_iter().all(|len| {
        let part = &mut bytes[..len];
        user::read(mm, page * PAGE, part).short.is_none() && part.iter().all(|byte| *byte == 0)
    })
}

/// Is it mapped shared?
fn is_shared(mm: &Mm, page: u64) -> bool {
    mm.space.map().at(page).is_some_and(|entry| entry.flags.has(Flags::SHARED))
}

/// Has a page contents? Of shared memory: whoever has made it.
fn has_contents(mm: &mut Mm, page: u64) -> bool {
    contents(mm, page, page + 1)[0] != Contents::None
}

/// Which pages of a range have contents.
fn contents(mm: &mut Mm, start: u64, end: u64) -> Vec<Contents> {
    let mut all = vec![Contents::None; (end - start) as usize];
    let Mm { space, caps, .. } = mm;
    space.tell_contents(caps, (start, end), |page, contents| {
        all[(page - start) as usize] = contents
    });
    all
}

/// Hides pages, if they are mapped.
fn hide(mm: &mut Mm, start: u64, end: u64, why: Why) -> Result<()> {
    let entries: Vec<_> = mm.space.map().within(start, end).collect();
    for entry in entries {
        let mut at = entry.start;
        while at < entry.end {
            // As far as the program has the same rights.
            let (hidden, to) = mm.userfaults.watched.hidden_run(at, entry.end);
            let rights = hidden.map_or(entry.prot.0, |hidden| hidden.rights);
            let shown = mm.userfaults.watched.hide(at, to, Hidden { why, rights });
            apply(mm, &[(at, to, shown)])?;
            at = to;
        }
    }
    Ok(())
}

/// The pages of a range of the program's: `EINVAL` for one that cannot be.
fn pages(start: u64, len: u64) -> Result<(u64, u64)> {
    let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
    let is_aligned = start.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
    if !is_aligned || len == 0 || start < PROGRAM_START || end > abi::layout::PROGRAM_END {
        return Err(Errno::EINVAL);
    }
    Ok((start / PAGE, end / PAGE))
}

/// Shared memory that belongs to no disk, which must be known to be that.
fn is_shared_memory(mm: &mut Mm, entry: &Entry) -> bool {
    let Some(object) = entry.object.filter(|_| entry.flags.has(Flags::SHARED)) else {
        return false;
    };
    // What it is is known once something of it was asked for.
    mm.caps.object_run(object, entry.offset, 1);
    mm.caps.object_is_memory(object)
}

/// `UFFDIO_REGISTER`. `EBUSY`: somebody else has registered some of it. `EPERM`: it is of a file that was not opened for writing.
pub fn register(mm: &mut Mm, start: u64, len: u64, mode: Mode) -> Result<()> {
    let (start, end) = pages(start, len)?;
    let entries: Vec<_> = mm.space.map().within(start, end).collect();
    let behind = mm.space.map().first_from(start).is_none();
    match entries.first() {
        None if behind => return Err(Errno::ENOMEM),
        None => return Err(Errno::EINVAL),
        Some(_) => {}
    }
    for entry in &entries {
        let is_memory = entry.is_private_anonymous() && !mode.minor || is_shared_memory(mm, entry);
        if !is_memory || entry.flags.has(Flags::LARGE_PAGES) {
            return Err(Errno::EINVAL);
        }
        if entry.flags.has(Flags::NEVER_WRITE) {
            return Err(Errno::EPERM);
        }
    }
    let others = mm.userfaults.watched.registered(start, end);
    if others.iter().any(|(.., other)| other.who != mode.who) {
        return Err(Errno::EBUSY);
    }
    for entry in entries {
        let (from, to) = (entry.start, entry.end);
        let before = mm.userfaults.watched.registered(from, to);
        mm.userfaults.watched.register(from, to, mode);
        // What was hidden for what is not asked for any more is not hidden.
        for (why, stays) in
            [(Why::Protected, mode.protected), (Why::Missing, mode.missing || mode.minor)]
        {
            if !stays {
                let parts = mm.userfaults.watched.hidden_within(from, to, why);
                show(mm, &parts)?;
            }
        }
        // Where that was so before, what is missing is known, and zeros are contents.
        let is_known = |before: &Mode| before.missing >= mode.missing && before.minor >= mode.minor;
        let mut at = from;
        for (known, behind, _) in before.into_iter().filter(|(.., mode)| is_known(mode)) {
            hide_served(mm, at, known, mode)?;
            at = behind;
        }
        hide_served(mm, at, to, mode)?;
    }
    Ok(())
}

/// Parts are hidden no more.
fn show(mm: &mut Mm, parts: &[Part]) -> Result<()> {
    for &(from, to, _) in parts {
        mm.userfaults.watched.show(from, to);
    }
    apply(mm, parts)
}

fn show_range(mm: &mut Mm, from: u64, to: u64) -> Result<()> {
    let parts = mm.userfaults.watched.show(from, to);
    apply(mm, &parts)
}

/// `UFFDIO_UNREGISTER`: who waits goes on.
pub fn unregister(task: &mut Task, start: u64, len: u64) -> Result<()> {
    let (start, end) = pages(start, len)?;
    if task.mm.space.map().within(start, end).next().is_none() {
        return Err(Errno::EINVAL);
    }
    let parts = task.mm.userfaults.watched.forget(start, end);
    apply(&mut task.mm, &parts)?;
    wake(task, start, end);
    Ok(())
}

/// `UFFDIO_WAKE`.
pub fn wake_range(task: &mut Task, start: u64, len: u64) -> Result<()> {
    let (start, end) = pages(start, len)?;
    wake(task, start, end);
    Ok(())
}

/// `UFFDIO_COPY` and `UFFDIO_ZEROPAGE`: pages come. Answers how many bytes; an error if there are none.
///
/// # Errors
///
/// `ENOENT`: that is not registered, or not one mapping. `EEXIST`: the page is there. `EINVAL`, `EFAULT`, `ENOMEM`.
pub fn fill(task: &mut Task, (start, len): (u64, u64), from: Fill, protects: bool) -> Result<u64> {
    let (start, end) = pages(start, len)?;
    let entry = task.mm.space.map().at(start).copied();
    let watched = &task.mm.userfaults.watched;
    if entry.is_none() || !watched.is_registered(start, end, |_| true) {
        return Err(Errno::ENOENT);
    }
    if protects && !watched.is_registered(start, end, |mode| mode.protected) {
        return Err(Errno::EINVAL);
    }
    let mut at = start;
    let problem = loop {
        if at == end {
            break None;
        }
        match fill_some(&mut task.mm, (at, end), start, from, protects) {
            Ok(pages) => at += pages,
            Err(error) => break Some(error),
        }
    };
    match problem {
        Some(error) if at == start => Err(error),
        _ => Ok((at - start) * PAGE),
    }
}

/// As many pages as come at a time. Answers how many.
fn fill_some(
    mm: &mut Mm,
    (at, end): (u64, u64),
    start: u64,
    from: Fill,
    protects: bool,
) -> Result<u64> {
    let Some(entry) = mm.space.map().at(at).copied() else { return Err(Errno::ENOENT) };
    let shared = entry.object.filter(|_| entry.flags.has(Flags::SHARED));
    let is_missing = |mm: &mut Mm, page| match mm.userfaults.watched.hidden(page) {
        Some(Hidden { why, .. }) if shared.is_none() => why == Why::Missing,
        _ => !has_contents(mm, page),
    };
    if !is_missing(mm, at) {
        return Err(Errno::EEXIST);
    }
    let Some((rights, flags)) = rights_of(mm, at) else { return Err(Errno::ENOENT) };
    let most = end.min(at + PIECE);
    let most = if shared.is_some() { most.min(entry.end) } else { most };
    let mut to = at + 1;
    while to < most && is_missing(mm, to) && rights_of(mm, to).map(|it| it.0) == Some(rights) {
        to += 1;
    }
    match from {
        Fill::Zero if shared.is_some() => {
            let bytes = vec![0; ((to - at) * PAGE) as usize];
            put_shared(mm, (at, to), &entry, &bytes)?;
        }
        Fill::Copy(src) => {
            let mut bytes = vec![0; ((to - at) * PAGE) as usize];
            user::bytes_in(mm, src.wrapping_add((at - start) * PAGE), &mut bytes)?;
            // Reading may have made things happen there.
            if !(at..to).all(|page| is_missing(mm, page)) {
                return Err(Errno::EAGAIN);
            }
            match shared {
                Some(_) => put_shared(mm, (at, to), &entry, &bytes)?,
                None => {
                    put(mm, (at, to), &bytes, (rights, flags))?;
                    mm.userfaults.watched.show(at, to);
                }
            }
            if protects {
                hide(mm, at, to, Why::Protected)?;
            }
        }
        Fill::Zero => {
            // Whoever looks there finds zeros.
            mm.userfaults.watched.show(at, to);
            apply(mm, &[(at, to, rights)])?;
            let Mm { space, caps, .. } = mm;
            space.populate_lenient(caps, at, to);
        }
    }
    Ok(to - at)
}

/// Bytes become contents of shared memory, which is shown then.
fn put_shared(mm: &mut Mm, (at, to): (u64, u64), entry: &Entry, bytes: &[u8]) -> Result<()> {
    let object = entry.object.ok_or(Errno::EINVAL)?;
    match mm.caps.objects.put(object, entry.object_page(at), bytes) {
        Ok(true) => show_range(mm, at, to),
        // It ends before, or has become shorter.
        Ok(false) => Err(Errno::EFAULT),
        Err(_) => Err(Errno::ENOMEM),
    }
}

/// `UFFDIO_CONTINUE`: pages of shared memory that are there are shown. Answers how many bytes; an error if there are none.
///
/// # Errors
///
/// `ENOENT`: that is not registered, or not one mapping. `EINVAL`: it is not shared, or behind its end. `EEXIST`: the page is shown. `EFAULT`: it is not there.
pub fn go_on(task: &mut Task, (start, len): (u64, u64)) -> Result<u64> {
    let (start, end) = pages(start, len)?;
    let mm = &mut task.mm;
    let entry = mm.space.map().at(start).copied();
    let entry = entry.filter(|entry| end <= entry.end).ok_or(Errno::ENOENT)?;
    if !mm.userfaults.watched.is_registered(start, end, |_| true) {
        return Err(Errno::ENOENT);
    }
    let shared = entry.object.filter(|_| entry.flags.has(Flags::SHARED));
    let object = shared.ok_or(Errno::EINVAL)?;
    for page in start..end {
        let is_there = has_contents(mm, page);
        let hidden = mm.userfaults.watched.hidden(page);
        let done = match hidden.is_some_and(|hidden| hidden.why == Why::Missing) {
            _ if !mm.caps.objects.has_page(object, entry.object_page(page)) => Err(Errno::EINVAL),
            false => Err(Errno::EEXIST),
            true if !is_there => Err(Errno::EFAULT),
            true => show_range(mm, page, page + 1),
        };
        match done {
            Err(error) if page == start => return Err(error),
            Err(_) => return Ok((page - start) * PAGE),
            Ok(()) => {}
        }
    }
    Ok(len)
}

/// Pages with these bytes take the place of what is there.
fn put(
    mm: &mut Mm,
    (at, to): (u64, u64),
    bytes: &[u8],
    (rights, flags): (u8, Flags),
) -> Result<()> {
    let len = (to - at) * PAGE;
    let flags = flags.without(Flags::OWN).without(Flags::GROWS_DOWN).without(Flags::STACK);
    let prot = Prot::READ.or(Prot::WRITE);
    let aside = MapRequest { addr: 0, len, prot, placement: Placement::Hint, flags, object: None };
    let Mm { space, caps, .. } = &mut *mm;
    let place = space.mmap(caps, &aside).map_err(errno)?;
    let result = user::bytes_out(mm, place, bytes).and_then(|()| {
        apply(mm, &[(place / PAGE, place / PAGE + (to - at), rights)])?;
        let Mm { space, caps, .. } = &mut *mm;
        let moved = RemapFlags { may_move: true, fixed: Some(at * PAGE), dont_unmap: false };
        space.mremap(caps, place, len, len, moved).map_err(errno)
    });
    let Mm { space, caps, .. } = &mut *mm;
    match result {
        Ok(_) => Ok(()),
        Err(error) => {
            // What was to come there does not; what was missing is missing still, as a mapping that is there.
            let _ = space.munmap(caps, place, len);
            if space.map().at(at).is_none() {
                let again = MapRequest {
                    addr: at * PAGE,
                    prot: Prot::NONE,
                    placement: Placement::Fixed,
                    ..aside
                };
                space.mmap(caps, &again).map_err(errno)?;
            }
            Err(error)
        }
    }
}

/// `UFFDIO_WRITEPROTECT`. `with_missing`: pages that are missing are made to be there, and protected.
pub fn protect(
    task: &mut Task,
    (start, len): (u64, u64),
    on: bool,
    with_missing: bool,
) -> Result<()> {
    let (start, end) = pages(start, len)?;
    let mm = &mut task.mm;
    if !mm.userfaults.watched.is_registered(start, end, |mode| mode.protected) {
        return Err(Errno::ENOENT);
    }
    if !on {
        let parts = mm.userfaults.watched.hidden_within(start, end, Why::Protected);
        return show(mm, &parts);
    }
    let mut at = start;
    while at < end {
        let to = end.min(at + BLOCK);
        for (page, is_there) in (at..to).zip(resident(mm, at, to)) {
            let is_hidden = mm.userfaults.watched.hidden(page).is_some();
            // Of shared memory, what others make is protected here.
            if !is_hidden && (is_there || with_missing || is_shared(mm, page)) {
                hide(mm, page, page + 1, Why::Protected)?;
            }
        }
        at = to;
    }
    Ok(())
}

/// A range is unmapped, or something else was mapped there: who waits for it goes on, and finds that.
#[cold]
pub fn unmapped(task: &mut Io, addr: u64, len: u64) {
    let (start, end) = (addr / PAGE, addr.saturating_add(len).div_ceil(PAGE));
    for who in whose(&task.mm, start, end) {
        tell(task, who, Event::Unmap { start: start * PAGE, end: end * PAGE });
    }
    task.mm.userfaults.watched.forget(start, end);
    wake(task, start, end);
}

/// Who has registered something of a range.
fn whose(mm: &Mm, start: u64, end: u64) -> Vec<u32> {
    let registered = mm.userfaults.watched.registered(start, end).into_iter();
    let mut all: Vec<u32> = registered.map(|(.., mode)| mode.who).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The program is about to give contents up.
#[cold]
pub fn will_be_given_up(task: &mut Io, addr: u64, len: u64) {
    let (start, end) = (addr / PAGE, addr.saturating_add(len).div_ceil(PAGE));
    for (from, to, mode) in task.mm.userfaults.watched.registered(start, end) {
        tell(task, mode.who, Event::Remove { start: from * PAGE, end: to * PAGE });
    }
}

/// It is as if nobody had registered a range.
fn release(task: &mut Task, (start, end): (u64, u64)) {
    let parts = task.mm.userfaults.watched.forget(start, end);
    // Who waits finds out what could not be.
    let _ = apply(&mut task.mm, &parts);
    wake(task, start, end);
}

/// A range that is about to be moved has the rights that the program has, and answers what it was.
#[cold]
pub fn lift(mm: &mut Mm, addr: u64, len: u64) -> Watched {
    let end = addr.saturating_add(len).div_ceil(PAGE);
    let (lifted, parts) = mm.userfaults.watched.lift(addr / PAGE, end);
    // The move says what is wrong with the range.
    let _ = apply(mm, &parts);
    lifted
}

/// The range is where it was, or pages without contents are.
#[cold]
pub fn put_back(mm: &mut Mm, lifted: &Watched) -> Result<()> {
    let parts = mm.userfaults.watched.put_back(lifted);
    apply(mm, &parts)
}

/// Memory behind a range is a part of the same mapping: who serves its end serves that, too.
#[cold]
pub fn goes_on(mm: &mut Mm, addr: u64, len: u64) -> Result<()> {
    let before = (addr / PAGE).checked_sub(1).and_then(|page| mm.userfaults.watched.mode(page));
    before.map_or(Ok(()), |mode| register(mm, addr, len, mode))
}

/// A range is elsewhere now, and is served there by who wants to be told of that. Who waited for it goes on.
#[cold]
pub fn moved(task: &mut Io, lifted: &Watched, (addr, old): (u64, u64), (to, new): (u64, u64)) {
    let (from, pages) = (addr / PAGE, old.div_ceil(PAGE));
    let all = lifted.registered(from, from + pages);
    let mut who: Vec<u32> = all.into_iter().map(|(.., mode)| mode.who).collect();
    who.dedup();
    let event = Event::Remap { from: addr, to, len: old };
    let wants = |task: &Task, who: u32| {
        let handler = task.mm.userfaults.handlers.get(who as usize).and_then(Weak::upgrade);
        handler.is_some_and(|handler| handler.wants(event))
    };
    who.retain(|&who| wants(task, who));
    let follow =
        lifted.moved((from, pages.min(new.div_ceil(PAGE))), to / PAGE, |one| who.contains(&one));
    // Else it is as if nobody had registered it.
    let _ = put_back(&mut task.mm, &follow);
    who.into_iter().for_each(|who| tell(task, who, event));
    wake(task, from, from + pages);
}

/// What was moved is not where it was any more: that is told of, too.
#[cold]
pub fn left(task: &mut Io, lifted: &Watched, (addr, old): (u64, u64)) {
    let (start, end) = (addr / PAGE, (addr + old).div_ceil(PAGE));
    let mut who: Vec<u32> =
        lifted.registered(start, end).into_iter().map(|(.., mode)| mode.who).collect();
    who.dedup();
    let event = Event::Unmap { start: start * PAGE, end: end * PAGE };
    who.into_iter().for_each(|who| tell(task, who, event));
}

/// The program changes its rights.
#[cold]
pub fn rights_change(mm: &mut Mm, addr: u64, len: u64, prot: Prot) -> Result<()> {
    let end = addr.checked_add(len).ok_or(Errno::ENOMEM)?.div_ceil(PAGE);
    let mut at = addr / PAGE;
    // As on Linux, what lies in front of a hole is changed before it fails.
    while at < end {
        let Some(entry) = mm.space.map().at(at) else { return Err(Errno::ENOMEM) };
        let to = entry.end.min(end);
        let parts = mm.userfaults.watched.protect(at, to, prot.0);
        apply(mm, &parts)?;
        at = to;
    }
    Ok(())
}

/// The program has given contents up: pages are missing again.
#[cold]
pub fn given_up(mm: &mut Mm, addr: u64, len: u64) -> Result<()> {
    let (start, end) = (addr / PAGE, addr.saturating_add(len).div_ceil(PAGE));
    for (from, to, mode) in mm.userfaults.watched.registered(start, end) {
        if !is_shared(mm, from) {
            let parts = mm.userfaults.watched.hidden_within(from, to, Why::Protected);
            show(mm, &parts)?;
        }
        hide_served(mm, from, to, mode)?;
    }
    Ok(())
}

/// Nobody serves anything in a child.
pub fn after_fork(mm: &mut Mm) -> Result<()> {
    let before = core::mem::replace(&mut mm.userfaults, Userfaults::new());
    let parts = before.watched.shown_again();
    apply(mm, &parts)
}

/// What somebody has registered is as other memory.
fn release_all(task: &mut Task, who: u32) {
    for range in task.mm.userfaults.watched.of(who) {
        release(task, range);
    }
}

/// The same of all who are not there any more.
#[cold]
fn reap(task: &mut Task) {
    // Who waits for one of them to read something looks whether it is there.
    park::wake_between(task, event_place(0), u64::MAX);
    for number in 0..task.mm.userfaults.handlers.len() {
        if task.mm.userfaults.handlers[number].strong_count() == 0 {
            release_all(task, number as u32);
        }
    }
}

/// Descriptors were closed.
#[inline]
pub fn after_close(task: &mut Task) {
    if HAS_LEFT.load(Relaxed) {
        HAS_LEFT.store(false, Relaxed);
        reap(task);
    }
}
