//! What is in persistent memory is looked at before anything is stored there: through mappings that cannot be written, so
//! that what is refused stays as it is, to the last bit.

use super::{Refusal, META_BYTES, META_ORDER};
use abi::layout::PAGE;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use libos::ephemeral::Window;
use libos::guarded::bytes_of_mut;
use libos::vspace::R;
use libos::{CapAddr, Place, Status};
use morsel::{At, Extent, Frame, Inspected, Inspection, Look};
use pmfs::Mount;
use pool::Geometry;

/// Words of a page.
const ENTRIES: usize = 512;
/// Pages that are remembered: those on a way down to a record and to a page, and more.
const RECENT: usize = 12;
/// Frames of a pool that are not its allocator's.
const HEAD_FRAMES: usize = 1;

/// Names that were looked at, all of them.
pub type Checked = Box<Mount<()>>;

/// What a memory holds.
pub enum Found {
    /// A pool without any object; so many of its frames are not handed out.
    Empty { own: u64 },
    /// One object, in which names were to be made.
    Unfinished,
    /// Names, and everything that they need.
    Names(Checked),
}

/// Looks at all of a memory that does not begin with zeros. `frame`: all of it, `bytes` from the physical address `base` on.
pub fn inspect(
    window: &mut Window,
    frame: CapAddr,
    (base, bytes): (u64, u64),
    seed: u64,
) -> Result<Found, Refusal> {
    const DAMAGED: &str = "the memory holds something else, or is damaged";
    let frames = (bytes / PAGE) as usize;
    let own = Geometry::new(frames, HEAD_FRAMES).ok_or(DAMAGED)?.own_frames();
    let extent = Extent { head: Frame(base / PAGE), frames, own };
    let memory = Memory::new(window, frame, extent);
    let mut notes = Vec::new();
    notes.try_reserve_exact(frames).map_err(|_| "too little memory")?;
    notes.resize(frames, 0);
    let mut inspection = Inspection::new(extent, &mut notes).map_err(|_| DAMAGED)?;
    while !memory.checked(inspection.step(&memory))?.map_err(|_| DAMAGED)? {}
    let (mut objects, mut from) = (BTreeMap::new(), 0);
    let next = |from| memory.checked(morsel::inspected(&memory, extent.head, from));
    while let Some(object) = next(from)?.map_err(|_| DAMAGED)? {
        objects.insert(object.record.id, object);
        from = object.record.id + 1;
    }
    let Some((_, names)) = objects.pop_first() else {
        return Ok(Found::Empty { own: own as u64 });
    };
    find_names(&memory, names, &objects, seed)
}

/// The names, if all is well with them.
fn find_names(
    memory: &Memory,
    names: Inspected,
    others: &BTreeMap<u32, Inspected>,
    seed: u64,
) -> Result<Found, Refusal> {
    const NONE: &str = "there are no names in the pool";
    // As it was born it is larger than any that was finished.
    let is_finished = (1..=META_BYTES.1).contains(&names.limit);
    if names.anchor.order() != META_ORDER as u8 || !names.is_plain() {
        return Err(NONE.into());
    }
    let area = Area::new(memory, names);
    if others.is_empty() && (!is_finished || pmfs::Area::load(&area, 0) == 0) {
        return Ok(Found::Unfinished);
    }
    if !is_finished {
        return Err(NONE.into());
    }
    let mut mount = memory.checked(Mount::new(area, seed))??;
    while !mount.is_checked() {
        memory.checked(mount.step(|number| others.contains_key(&number)))??;
    }
    Ok(Found::Names(Box::new(mount.detach())))
}

/// A page that was read.
struct Recent {
    frame: u64,
    /// When it was asked for last after another one.
    time: u64,
    words: [u64; ENTRIES],
}

/// The memory, a page at a time.
struct Memory<'a> {
    window: RefCell<&'a mut Window>,
    frame: CapAddr,
    extent: Extent,
    recent: RefCell<Vec<Recent>>,
    /// The one of them that was asked for last.
    last: Cell<usize>,
    time: Cell<u64>,
    /// What has kept it from being looked at.
    failed: Cell<Option<Status>>,
}

impl<'a> Memory<'a> {
    fn new(window: &'a mut Window, frame: CapAddr, extent: Extent) -> Memory<'a> {
        Memory {
            window: RefCell::new(window),
            frame,
            extent,
            recent: RefCell::new(Vec::with_capacity(RECENT)),
            last: Cell::new(0),
            time: Cell::new(0),
            failed: Cell::new(None),
        }
    }

    /// What was found, if all that was asked for could be read.
    fn checked<T>(&self, found: T) -> Result<T, Refusal> {
        match self.failed.get() {
            None => Ok(found),
            Some(status) => Err(status.into()),
        }
    }

    fn read(&self, frame: u64, words: &mut [u64; ENTRIES]) -> Result<(), Status> {
        let number = frame.checked_sub(self.extent.head.0).ok_or(Status::OutOfRange)?;
        let mut window = self.window.borrow_mut();
        let view = window.open(Place::own(self.frame), number * PAGE, PAGE, R)?;
        view.read(0, bytes_of_mut(words))
    }
}

impl Look for Memory<'_> {
    #[inline]
    fn word(&self, at: At) -> u64 {
        let recent = self.recent.borrow();
        match recent.get(self.last.get()).filter(|page| page.frame == at.frame.0) {
            Some(page) => page.words[at.index],
            None => {
                drop(recent);
                self.word_of_another(at)
            }
        }
    }
}

impl Memory<'_> {
    /// A word of another page than the last.
    fn word_of_another(&self, at: At) -> u64 {
        let frame = at.frame.0;
        let mut recent = self.recent.borrow_mut();
        self.time.set(self.time.get() + 1);
        let known = recent.iter().position(|page| page.frame == frame);
        if known.is_none() && recent.len() < RECENT {
            recent.push(Recent { frame: 0, time: 0, words: [0; ENTRIES] });
        }
        let oldest = || (0..recent.len()).min_by_key(|&n| recent[n].time).unwrap_or(0);
        let place = known.unwrap_or_else(oldest);
        let page = &mut recent[place];
        page.time = self.time.get();
        self.last.set(place);
        if known.is_none() {
            page.frame = frame;
            if let Err(status) = self.read(frame, &mut page.words) {
                self.failed.set(Some(status));
                page.words.fill(0);
            }
        }
        page.words[at.index]
    }
}

/// The words of the object with the names; a page that is missing is one of zeros.
struct Area<'a, 'm> {
    memory: &'a Memory<'m>,
    frames: Vec<Option<Frame>>,
}

impl<'a, 'm> Area<'a, 'm> {
    fn new(memory: &'a Memory<'m>, object: Inspected) -> Area<'a, 'm> {
        let pages = object.limit.min(META_BYTES.1) / PAGE;
        let mut frames = vec![None; pages as usize];
        for (page, frame) in (0..).zip(&mut frames) {
            *frame = morsel::inspected_page(memory, object, page);
        }
        Area { memory, frames }
    }
}

impl pmfs::Area for Area<'_, '_> {
    fn words(&self) -> u64 {
        (self.frames.len() * ENTRIES) as u64
    }
    fn load(&self, word: u64) -> u64 {
        let (page, index) = (word as usize / ENTRIES, word as usize % ENTRIES);
        let frame = self.frames.get(page).copied().flatten();
        frame.map_or(0, |frame| self.memory.word(At { frame, index }))
    }
    /// Nobody stores before everything was looked at.
    fn store(&self, _: u64, _: u64) {
        self.memory.failed.set(Some(Status::WrongState));
    }
    fn write_back(&self, _: u64) {}
    fn fence(&self) {}
}
