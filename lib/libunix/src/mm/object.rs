//! Memory objects: files and shared anonymous memory, as `unixd` has them.
//!
//! Their contents are Frames of `unixd` ("extents"), which are mapped directly. An object keeps
//! the extents that it has seen until it is no longer mapped. A file that survives has a Morsel instead, which is all of it
//! whatever its size.

use super::arena::Arena;
use super::nodes::{slot, Nodes, Spread};
use crate::errno::Errno;
use crate::server::{self, op, Caps};
use crate::thread::area;
use abi::layout::{LIBRARY_PEEK, PAGE};
use alloc::string::String;
use alloc::vec::Vec;
use captypes::invocations::{StatusBits, Surveyed};
use captypes::op::RaiseHere;
use captypes::place::L2_SLOTS;
use captypes::{CapAddr, CapType, Place, Rights, Status};
use core::cell::Cell;
use libos::ephemeral::{Area, Windows};
use libos::invoke;
use libos::morsel::MorselCap;
use libos::ram::Ram;
use libos::vspace::R;
use libos::Cap;
use linuxdomain::{own, NEAR_EXTENTS};
use tables::{Item, Numbers, Ranges, Slab};
use unixproto::files::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, NOT_BEHIND};
use uvm::bits::Bits;
use uvm::{Extent, NoMemory, ObjectError, ObjectId, Streams, There, REGION_PAGES};

/// A mapped file.
pub struct Object {
    /// Its description, for `unixd`.
    pub desc: u32,
    /// Its file in the table of open files, held while it is mapped; none for memory that was
    /// made for the mapping.
    pub file: Option<u32>,
    /// Its inode, for `/proc/self/maps`.
    pub inode: u64,
    /// It survives, if it is a Morsel.
    survives: bool,
    /// It is a file that can be sealed.
    is_sealable: bool,
    /// Its path, if known.
    pub path: Option<String>,
    /// Stores go to the file.
    writable: bool,
    /// Bytes, as known since the last extent.
    size: u64,
    /// Its contents are known to be a Morsel.
    is_morsel: bool,
    /// That has tables.
    has_tables: bool,
    /// What was given of it is taken back before it gets pages behind this one, as far as was asked for.
    until: u64,
    /// Frames of extents that others have taken the place of: pages of theirs may still be mapped.
    old: Vec<Place>,
    /// It is private memory of this process.
    is_own: bool,
    /// Up to which byte its size may be raised without `unixd`.
    most: u64,
    /// It was made of zeros for this process, and nothing but its pages has changed since: without them it is as good as a new one. Was it
    /// asked for in large pages?
    plain: Option<bool>,
    /// Of such memory: the description of what the child of a fork that is going on has instead.
    heir: Option<u32>,
    /// Nothing maps it: it is kept, or waits for that. A child does not get it.
    is_unmapped: bool,
    /// The next object in the same bucket.
    next: Option<ObjectId>,
}

/// An extent that was asked for, at the pages of its object. One table has those of all objects.
#[derive(Clone, Copy)]
struct Seen {
    start: u64,
    pages: u64,
    frame: Place,
}

/// Most objects that are private memory. There are not so many of all descriptions; what is more consists of pages.
const OWN_MAX: u32 = 64;
/// Most of them with those that came from other processes, which cannot consist of pages.
const ADOPTED_MAX: u32 = 1024;
/// So many pages of objects that were wanted and had no memory, or had left it, say that objects have too little.
const MANY_WANTS: u32 = 32;
/// Most objects without pages that are kept for the next memory of their size, and the largest of these: as many as threads take and give
/// back at once.
const SPARE_MAX: usize = 8;
const SPARE_BYTES: u64 = REGION_PAGES * PAGE;
/// Numbers that no inode has, for private memory.
const OWN_INODES: u64 = 1 << 63;

/// Most pages of a Morsel that are mapped at a time.
const AROUND: u64 = 64;

/// Pages that an object may have: more than the largest file.
const OBJECT_PAGES: u64 = 1 << 36;

/// Where a page of an object is in the table.
fn at(id: ObjectId, page: u64) -> u64 {
    id.index() as u64 * OBJECT_PAGES + page.min(OBJECT_PAGES - 1)
}

impl Object {
    /// Raises the size of what is mapped at an address where this thread runs, without a visit at home and without `unixd`. `false`: it may not be so large, or is not shown there by an
    /// entry as a whole.
    fn raise(&self, bytes: u64, at: u64) -> bool {
        let raise = RaiseHere { at, from: self.size, to: bytes };
        bytes <= self.most && invoke(area::own_dispatcher(), raise).is_ok()
    }
}

impl Item for Seen {
    #[inline]
    fn start(&self) -> u64 {
        self.start
    }
    #[inline]
    fn end(&self) -> u64 {
        self.start + self.pages
    }
}

impl Seen {
    fn extent(&self) -> Extent {
        let first = self.start % OBJECT_PAGES;
        Extent { frame: self.frame.0, frame_page: 0, first, pages: self.pages }
    }
    /// Is it a Morsel? That has all pages that there may ever be.
    #[inline]
    fn is_morsel(&self) -> bool {
        self.pages == OBJECT_PAGES
    }
    /// Of a Morsel: some pages, to be mapped without the others.
    fn only(&self, first: u64, pages: u64) -> Extent {
        Extent { frame: self.frame.0, frame_page: first, first, pages }
    }
}

/// An object that nothing maps, kept for the next memory of its size.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Spare {
    id: ObjectId,
    left: Left,
}

/// The pages of such an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// They are there still.
    All,
    /// A thread has them taken away.
    Going,
    None,
}

/// How many pages of a Morsel are mapped that are not there: as many as were mapped just before. Who goes on page by page soon
/// gets many at a time, and who does not at most twice what it needs.
struct Stride {
    /// By where pages of objects are in the table.
    streams: Streams,
    /// There was no memory for several pages: only one is asked for next. Those that are there count, too, as they are copied
    /// if they are shared.
    is_narrow: bool,
}

/// All mapped objects.
pub struct Objects {
    objects: Slab<Option<Object>>,
    /// Objects by inode: the first of each bucket. So many are a power of two.
    buckets: Vec<Option<ObjectId>>,
    extents: Ranges<Seen>,
    /// Slots for Frames in the CNode at root index 0.
    near: Numbers,
    /// The others.
    far: Spread,
    stride: Stride,
    /// Is there a page of zeroes at `own::ZERO_PAGE`?
    zero_page: bool,
    /// How many objects are private memory.
    own_count: u32,
    /// Those of them that nothing maps.
    spare: [Option<Spare>; SPARE_MAX],
    /// May more be made? Not while the process acts as its child, who would hold them.
    pub may_own: bool,
    /// Are its pages to be small, whatever else is said (`PR_SET_THP_DISABLE`)? Programs after this one and children inherit it.
    pub only_small: bool,
    /// How often something was wanted of objects for which there was no memory, since that was looked at.
    wants: Cell<u32>,
    /// Is there a disk for pages, if it is known?
    pub pages_can_leave: Option<bool>,
    /// Files that are no longer mapped: to be released by whoever has the table of files.
    pub released: Vec<(Option<u32>, u32)>,
    /// Where pages are looked at.
    pub pages: Pages,
}

/// One window of one page.
pub type Pages = Windows<1, PAGE>;

/// Makes a page of zeroes that stays one: a forked child inherits the entries that show it.
fn make_zero_page(ram: &mut Arena) -> Result<(), Status> {
    ram.make(CapType::Frame, PAGE, 1, own::SCRATCH.into())?;
    let made = own::SCRATCH.mint(own::ZERO_PAGE, Rights::READ.or(Rights::EXEC));
    own::SCRATCH.delete()?;
    made
}

impl Objects {
    /// None.
    pub const fn new() -> Self {
        Objects {
            objects: Slab::new(),
            buckets: Vec::new(),
            extents: Ranges::new(),
            near: Numbers::new(),
            far: Spread::new(L2_SLOTS),
            stride: Stride { streams: Streams::new(), is_narrow: false },
            zero_page: false,
            own_count: 0,
            spare: [None; SPARE_MAX],
            may_own: true,
            only_small: false,
            wants: Cell::new(0),
            pages_can_leave: None,
            released: Vec::new(),
            pages: Pages::new(Area::new(LIBRARY_PEEK, Place::own(own::PT), own::PEEK_MAPPING)),
        }
    }

    /// The object with this number.
    #[inline]
    pub fn get(&self, id: ObjectId) -> Option<&Object> {
        self.objects.get(id.index() as u32)?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, id: ObjectId) -> Option<&mut Object> {
        self.objects.get_mut(id.index() as u32)?.as_mut()
    }

    /// Is it memory and nothing else?
    pub fn is_memory(&self, id: ObjectId) -> bool {
        self.get(id).is_some_and(|object| object.is_morsel && !object.survives)
    }

    /// Says that a file survives.
    pub fn set_survives(&mut self, id: ObjectId) {
        if let Some(object) = self.get_mut(id) {
            object.survives = true;
        }
    }

    /// Says that a file can be sealed.
    pub fn set_sealable(&mut self, id: ObjectId) {
        if let Some(object) = self.get_mut(id) {
            object.is_sealable = true;
        }
    }

    /// A file is not mapped any more in one of the ways in which it can be stored to.
    #[cold]
    fn unmapped_sealable(&self, desc: u32, inode: u64) {
        let mut last = None;
        while let Some(id) = self.of_inode(inode, last) {
            if self.get(id).is_some_and(|object| object.writable) {
                return;
            }
            last = Some(id);
        }
        // What it does not know any more it need not be told.
        let _ = server::call(op::UnmapSealable { desc });
    }

    /// How much of some pages of an object is in memory, if it is known and a Morsel.
    pub fn there(&self, id: ObjectId, page: u64, pages: u64) -> There {
        let place = self.extents.seek(at(id, page));
        let holds = |seen: &&Seen| seen.start <= at(id, page) && seen.is_morsel();
        let Some(seen) = self.extents.get(place).filter(holds) else { return There::default() };
        // What was taken away has nothing.
        let all = seen.frame.survey_pages(page, pages);
        all.map_or_else(
            |_| There::default(),
            |all| There { pages: all.pages, large: all.large, out: all.out },
        )
    }

    /// How many pages of an object from one on are like that one, and whether they are in memory.
    pub fn run(
        &mut self,
        from: (&mut Arena, &mut Nodes),
        id: ObjectId,
        page: u64,
        pages: u64,
    ) -> (u64, bool) {
        self.run_of(from, id, (page, pages), |one| one.pages > 0)
    }

    /// The same of whether they have contents: in memory, or where they have gone from there.
    pub fn contents(
        &mut self,
        from: (&mut Arena, &mut Nodes),
        id: ObjectId,
        page: u64,
        pages: u64,
    ) -> (u64, bool) {
        self.run_of(from, id, (page, pages), |one| one.pages + one.out > 0)
    }

    fn run_of(
        &mut self,
        (ram, nodes): (&mut Arena, &mut Nodes),
        id: ObjectId,
        (page, pages): (u64, u64),
        counts: impl Fn(Surveyed) -> bool,
    ) -> (u64, bool) {
        let seen = match self.seen((ram, nodes), id, page) {
            Ok(Some(seen)) if seen.is_morsel() => seen,
            // A part of the boot archive is in memory.
            Ok(Some(seen)) => return (pages.min(seen.end() - at(id, page)), true),
            // It has no such page.
            _ => return (1, false),
        };
        // What has left memory is no hole, but is not there: in such a run each is asked for.
        if seen.frame.survey_pages(page, pages.min(REGION_PAGES)).is_ok_and(|all| all.out > 0) {
            return (1, seen.frame.survey_pages(page, 1).is_ok_and(counts));
        }
        let pages = pages.min(REGION_PAGES);
        let (there, hole) = match seen.frame.next_hole(page, pages) {
            Ok(Some(hole)) if hole == page => (false, seen.frame.next_page(page, pages)),
            found => (true, found),
        };
        match hole {
            Ok(end) => (end.map_or(pages, |end| end - page), there),
            Err(_) => (1, false),
        }
    }

    /// The object for a description, and whether it is new: it is not if it is mapped already in
    /// the same way.
    ///
    /// # Errors
    ///
    /// There is no memory; nothing has changed.
    pub fn add(
        &mut self,
        desc: u32,
        file: Option<u32>,
        inode: u64,
        writable: bool,
    ) -> Result<(ObjectId, bool), NoMemory> {
        self.make_buckets()?;
        let bucket = self.bucket(inode);
        let first = self.buckets[bucket];
        let mut known = first;
        while let Some((id, object)) = known.and_then(|id| Some((id, self.get(id)?))) {
            if object.desc == desc && object.file == file && object.writable == writable {
                return Ok((id, false));
            }
            known = object.next;
        }
        // So that the end of all of them can be told, whatever memory there is then.
        self.released.try_reserve(self.objects.len() + 1)?;
        let (is_morsel, has_tables) = (false, false);
        let (path, size, old, next) = (None, 0, Vec::new(), first);
        let (survives, is_sealable) = (false, false);
        let (is_own, most, plain, heir) = (false, 0, None, None);
        let is_unmapped = false;
        let object = Object {
            desc,
            file,
            inode,
            survives,
            is_sealable,
            path,
            writable,
            size,
            is_morsel,
            has_tables,
            until: u64::MAX,
            old,
            is_own,
            most,
            plain,
            heir,
            is_unmapped,
            next,
        };
        let id = ObjectId::new(self.objects.add(Some(object))?);
        self.buckets[bucket] = Some(id);
        Ok((id, true))
    }

    /// Makes an object of so many zeros that is this process's alone, if there is one to be had. `relieves`: memory is short, and it is for
    /// what is to leave it.
    #[cold]
    pub fn add_own(&mut self, bytes: u64, large: bool, relieves: bool) -> Option<ObjectId> {
        let large = large && !self.only_small;
        if let (false, Some(spare)) = (relieves, self.take_spare(bytes, large)) {
            return Some(spare);
        }
        let has_room = self.has_room_for_own() || relieves && self.may_own;
        if !has_room {
            return None;
        }
        let desc = server::call(op::OwnMemory { size: bytes, large, relieves }).ok()?.desc;
        let Ok((id, _)) = self.add(desc, None, OWN_INODES | u64::from(desc), true) else {
            close(desc);
            return None;
        };
        if let Some(object) = self.get_mut(id) {
            object.is_own = true;
            // What relieves others is to leave memory, and is not asked for twice.
            (object.plain, object.size) = ((!relieves).then_some(large), bytes);
            self.own_count += 1;
        }
        Some(id)
    }

    /// One of this size that was kept.
    fn take_spare(&mut self, bytes: u64, large: bool) -> Option<ObjectId> {
        let fits = |spare: &Option<Spare>| {
            let Some(Spare { id, left: Left::None }) = *spare else { return false };
            let object = self.get(id);
            object.is_some_and(|object| object.plain == Some(large) && object.size == bytes)
        };
        let place = self.spare.iter().position(fits)?;
        let id = self.spare[place].take()?.id;
        self.get_mut(id)?.is_unmapped = false;
        Some(id)
    }

    /// Keeps an object that nothing maps any more, if it is one for which that is worth while: to [take its pages
    /// away](Self::next_to_empty) costs `unixd` and the kernel a fraction of what it costs to make one and to end it.
    fn keep(&mut self, id: ObjectId) -> bool {
        let place = self.spare.iter().position(Option::is_none);
        let Some(place) = place.filter(|_| self.may_own) else { return false };
        let is_small = |object: &&mut Object| object.plain.is_some() && object.size <= SPARE_BYTES;
        let Some(object) = self.get_mut(id).filter(is_small) else { return false };
        object.is_unmapped = true;
        self.spare[place] = Some(Spare { id, left: Left::All });
        true
    }

    /// Keeps none of them any longer, but for one that another thread is about to empty.
    pub fn forget_spare(&mut self, nodes: &mut Nodes) {
        for place in 0..SPARE_MAX {
            if let Some(spare) = self.spare[place].take_if(|spare| spare.left != Left::Going) {
                self.forget(nodes, spare.id);
            }
        }
    }

    /// Is there an object that nothing maps, and that has its pages still?
    #[inline(always)]
    pub fn has_to_empty(&self) -> bool {
        self.own_count > 0 && self.spare.iter().flatten().any(|spare| spare.left == Left::All)
    }

    /// One of these, with the request that takes its pages away; what came of it is [told](Self::emptied).
    pub fn next_to_empty(&mut self) -> Option<(ObjectId, op::Allocate)> {
        let mut all = self.spare.iter_mut().flatten();
        let spare = all.find(|spare| spare.left == Left::All)?;
        spare.left = Left::Going;
        let id = spare.id;
        let object = self.get(id)?;
        Some((id, punch(object.desc, 0, object.size.div_ceil(PAGE))))
    }

    /// It has no pages any more, or that was refused.
    pub fn emptied(&mut self, nodes: &mut Nodes, id: ObjectId, is_empty: bool) {
        let going = Some(Spare { id, left: Left::Going });
        if let Some(spare) = self.spare.iter_mut().find(|spare| **spare == going) {
            *spare = is_empty.then_some(Spare { id, left: Left::None });
            if !is_empty {
                self.forget(nodes, id);
            }
        }
    }

    /// An object that was just [released](Self::release) has no pages any more: if it is kept, they need not be taken away.
    pub fn has_no_pages(&mut self, id: ObjectId) {
        let all = Some(Spare { id, left: Left::All });
        if let Some(spare) = self.spare.iter_mut().find(|spare| **spare == all) {
            *spare = Some(Spare { id, left: Left::None });
        }
    }

    /// Makes an object of this process's own of a part of what a description has: see `op::PassMemory`.
    #[cold]
    pub fn adopt(
        &mut self,
        desc: u32,
        takes: bool,
        (offset, bytes): (u64, u64),
    ) -> Result<ObjectId, Errno> {
        if !self.may_own || self.own_count >= ADOPTED_MAX {
            return Err(Errno::ENOMEM);
        }
        let request = op::PassMemory { desc, own: true, takes, offset, bytes };
        let desc = server::call(request)?.desc;
        let Ok((id, _)) = self.add(desc, None, OWN_INODES | u64::from(desc), true) else {
            close(desc);
            return Err(Errno::ENOMEM);
        };
        if let Some(object) = self.get_mut(id) {
            object.is_own = true;
            self.own_count += 1;
        }
        Ok(id)
    }

    /// May more of them be made?
    pub fn has_room_for_own(&self) -> bool {
        self.may_own && self.own_count < OWN_MAX
    }

    /// Makes one larger, whose last page is mapped at an address.
    pub fn grow_own(&mut self, id: ObjectId, bytes: u64, last: u64) -> bool {
        if !self.may_own {
            return false;
        }
        let Some(object) = self.get_mut(id).filter(|object| object.is_own) else { return false };
        if !object.raise(bytes, last) {
            // Its next pieces are not asked for.
            let ahead = (2 * bytes).next_multiple_of(SPARE_BYTES) - bytes;
            let request = op::OwnMore { desc: object.desc, size: bytes, ahead };
            let Ok(more) = server::call(request) else { return false };
            object.most = more.count;
        }
        object.size = bytes;
        true
    }

    /// Makes what the child of a fork is to have instead of what is this process's alone.
    pub fn make_heirs(&mut self) -> Result<(), Errno> {
        if self.own_count == 0 {
            return Ok(());
        }
        let is_given = |object: &&mut Object| object.is_own && !object.is_unmapped;
        let mut own = self.objects.iter_mut().flatten().filter(is_given);
        own.try_for_each(|object| {
            object.heir = Some(server::call(op::Heir { desc: object.desc })?.desc);
            Ok(())
        })
    }

    /// There is a child that has them, or will never be.
    pub fn forget_heirs(&mut self, is_child: bool) {
        if self.own_count == 0 {
            return;
        }
        for heir in self.objects.iter_mut().flatten().filter_map(|object| object.heir.take()) {
            if !is_child {
                close(heir);
            }
        }
    }

    /// The bucket of a file. There are buckets.
    fn bucket(&self, inode: u64) -> usize {
        inode as usize & (self.buckets.len() - 1)
    }

    /// Makes buckets, or more of them, if there are more objects than buckets.
    fn make_buckets(&mut self) -> Result<(), NoMemory> {
        if self.objects.len() < self.buckets.len() {
            return Ok(());
        }
        let count = (2 * self.buckets.len()).max(8);
        let mut buckets = Vec::new();
        match buckets.try_reserve_exact(count) {
            // A few more in each bucket do no harm.
            Err(_) if !self.buckets.is_empty() => return Ok(()),
            reserved => reserved?,
        }
        buckets.resize(count, None);
        self.buckets = buckets;
        for index in 0.. {
            let bucket = match self.objects.get(index) {
                Some(Some(object)) => self.bucket(object.inode),
                Some(None) => continue,
                None => break,
            };
            let first = self.buckets[bucket].replace(ObjectId::new(index));
            if let Some(Some(object)) = self.objects.get_mut(index) {
                object.next = first;
            }
        }
        Ok(())
    }

    /// Says where the file is.
    pub fn set_path(&mut self, id: ObjectId, path: String) {
        if let Some(object) = self.get_mut(id) {
            object.path = Some(path);
        }
    }

    /// Nothing maps an object any more.
    pub fn release(&mut self, nodes: &mut Nodes, id: ObjectId) {
        if !self.keep(id) {
            self.forget(nodes, id);
        }
    }

    /// Forgets an object that nothing maps.
    fn forget(&mut self, nodes: &mut Nodes, id: ObjectId) {
        let Some(object) = self.objects.get_mut(id.index() as u32).and_then(Option::take) else {
            return;
        };
        self.unlink(id, &object);
        self.own_count -= u32::from(object.is_own);
        self.forget_extents(nodes, id, 0);
        object.old.into_iter().for_each(|frame| self.free_slot(nodes, frame));
        self.objects.remove(id.index() as u32);
        if object.is_sealable && object.writable {
            self.unmapped_sealable(object.desc, object.inode);
        }
        self.released.push((object.file, object.desc));
    }

    /// Forgets the extents that begin at or behind a page of an object.
    fn forget_extents(&mut self, nodes: &mut Nodes, id: ObjectId, page: u64) {
        let Objects { extents, near, far, .. } = self;
        let place = extents.seek_start(at(id, page));
        let end = (id.index() as u64 + 1) * OBJECT_PAGES;
        // Slots that follow each other are emptied together.
        let (mut first, mut count) = (Place::NULL, 0);
        extents.remove_while(place, |seen| {
            let goes = seen.start < end;
            if goes {
                if seen.frame != first.plus(count) {
                    delete(first, count);
                    (first, count) = (seen.frame, 0);
                }
                count += 1;
                give_back(near, far, nodes, seen.frame);
            }
            goes
        });
        delete(first, count);
    }

    /// Forgets the extent that holds a page of an object: `unixd` has taken it away.
    #[cold]
    pub fn forget_extent(&mut self, nodes: &mut Nodes, id: ObjectId, page: u64) {
        let place = self.extents.seek(at(id, page));
        let holds = |seen: &&Seen| seen.start <= at(id, page);
        if let Some(&seen) = self.extents.get(place).filter(holds) {
            if seen.is_morsel() {
                // Only its size has changed, unless it is gone.
                if let Ok(facts) = seen.frame.morsel_info() {
                    self.set_size(id, facts.limit);
                    return;
                }
            }
            self.extents.remove(place);
            self.free_slot(nodes, seen.frame);
        }
    }

    /// Says how large the pages of an object are to be.
    pub fn advise(&mut self, id: ObjectId, large: bool) {
        if let Some(object) = self.get_mut(id).filter(|object| object.writable) {
            object.plain = None;
            let desc = object.desc;
            // A file for which it cannot be so is as it was.
            let _ = server::call(op::Advise { desc, large });
        }
    }

    fn set_size(&mut self, id: ObjectId, size: u64) {
        if let Some(object) = self.get_mut(id) {
            object.size = size;
        }
    }

    /// Returns when bytes of the object survive that were stored before, if it survives at all.
    pub fn sync(&self, id: ObjectId, offset: u64, bytes: u64) -> Result<(), Errno> {
        match self.get(id) {
            Some(&Object { desc, is_morsel: true, .. }) => {
                server::call(op::Sync { desc, offset, bytes })
            }
            _ => Ok(()),
        }
    }

    /// Pages of an object become a hole.
    pub fn punch(&self, id: ObjectId, page: u64, pages: u64) -> bool {
        self.get(id).is_some_and(|object| server::call(punch(object.desc, page, pages)).is_ok())
    }

    /// The pages of a Morsel around a page that it has.
    #[cold]
    #[inline(never)]
    fn part(&mut self, id: ObjectId, page: u64, seen: Seen) -> Result<Extent, ObjectError> {
        let end = self.end_behind(id, page, seen)?;
        Ok(self.around(id, page, end, seen))
    }

    /// The page behind the last of a Morsel, which is to have a page.
    fn end_behind(&mut self, id: ObjectId, page: u64, seen: Seen) -> Result<u64, ObjectError> {
        if page * PAGE >= self.size(id) {
            // Others may have made it larger.
            let facts = seen.frame.morsel_info().map_err(|_| ObjectError::Gone)?;
            self.set_size(id, facts.limit);
        }
        match self.size(id).div_ceil(PAGE) {
            end if page < end => Ok(end),
            _ => Err(ObjectError::NoPage),
        }
    }

    /// The pages of a Morsel around a page before `end` that are there; or some that are to be made.
    fn around(&mut self, id: ObjectId, page: u64, end: u64, seen: Seen) -> Extent {
        if end == 1 || core::mem::take(&mut self.stride.is_narrow) {
            return seen.only(page, 1);
        }
        let block = page & !(AROUND - 1);
        let last = end.min(block + AROUND);
        let hole = |from| match seen.frame.next_hole(from, last - from) {
            Ok(hole) => hole.unwrap_or(last),
            Err(_) => from,
        };
        let (mut first, mut behind) = (block, hole(block));
        if behind <= page {
            (first, behind) = (page, if block < page { hole(page) } else { page });
        }
        let pages = self.stride.streams.begin(at(id, page), AROUND as u32);
        behind = behind.max(page + 1).max(end.min(page + u64::from(pages)));
        self.stride.streams.went_to(at(id, behind));
        seen.only(first, behind - first)
    }

    /// There is no memory for a page of a Morsel that was to be made (or `NO_PAGE`: for a table), or it has left memory. [`Gone`](ObjectError::Gone): now there may be.
    #[cold]
    pub fn no_page(&mut self, morsel: Place, page: u64) -> ObjectError {
        let mut place = self.extents.first();
        let mut found = None;
        while let Some(seen) = self.extents.get(place) {
            if seen.frame == morsel {
                found = Some(ObjectId::new((seen.start / OBJECT_PAGES) as u32));
                break;
            }
            place = self.extents.next(place);
        }
        match found {
            Some(id) if self.ask_for_room(id, page) => ObjectError::Gone,
            _ => ObjectError::NoPage,
        }
    }

    /// Asks for memory for a page of an object, if it is one of its pages. Returns `true` if there may be some now.
    #[cold]
    pub fn make_room(&mut self, id: ObjectId, page: u64) -> bool {
        let place = self.extents.seek(at(id, page));
        let seen = self.extents.get(place).filter(|seen| seen.start <= at(id, page)).copied();
        let has_page =
            |seen: Seen| seen.frame.morsel_info().is_ok_and(|facts| page * PAGE < facts.limit);
        seen.is_some_and(has_page) && self.ask_for_room(id, page)
    }

    /// A page of an object that is in a slot of the store comes in. `false`: it does not.
    pub fn fetch(&self, id: ObjectId, page: u64, slot: u64) -> bool {
        self.wants.set(self.wants.get().saturating_add(1));
        let fetch =
            |object: &Object| server::call(op::Fetch { desc: object.desc, page, slot }).is_ok();
        self.get(id).is_some_and(fetch)
    }

    /// Which of up to 64 entries of a last-level table were used since this was asked last: bit 0 is the first. It can be
    /// looked at as a page.
    #[cold]
    pub fn entries_used(&mut self, table: Place, first: u32, count: u32) -> u64 {
        const ENTRY: usize = size_of::<u64>();
        const ACCESSED: u8 = 1 << 5;
        let mut entries = [0; 64 * ENTRY];
        let entries = &mut entries[..(count as usize).min(64) * ENTRY];
        let Ok(look) = self.pages.open(table, 0, PAGE, R) else { return 0 };
        let progress = look.memory().skip(first as usize * ENTRY).read(entries);
        drop(look);
        if progress.fault.is_some() {
            return 0;
        }
        let used = |(n, entry): (usize, &[u8])| u64::from(entry[0] & ACCESSED != 0) << n;
        let used = entries.chunks_exact(ENTRY).enumerate().map(used).fold(0, |all, one| all | one);
        // If that is refused, they count as used once more.
        let _ = table.clear_status(first, count, StatusBits::ACCESSED);
        used
    }

    /// Which entries of a last-level table say that their page was written to, or are not there: all, if it cannot be looked at.
    #[cold]
    pub fn entries_written(&mut self, table: Place) -> Bits<8> {
        const ENTRY: usize = size_of::<u64>();
        const PRESENT: u8 = 1;
        const DIRTY: u8 = 1 << 6;
        let Ok(look) = self.pages.open(table, 0, PAGE, R) else { return Bits::FULL };
        let mut written = Bits::EMPTY;
        for first in (0..512u32).step_by(64) {
            let mut entries = [0; 64 * ENTRY];
            let progress = look.memory().skip(first as usize * ENTRY).read(&mut entries);
            if progress.fault.is_some() {
                return Bits::FULL;
            }
            for (at, entry) in (first..).zip(entries.chunks_exact(ENTRY)) {
                if entry[0] & (PRESENT | DIRTY) != PRESENT {
                    written.set(at);
                }
            }
        }
        written
    }

    /// Copies a page into an object that is this process's alone and of which something was asked for, at a page that it does not have yet.
    #[cold]
    pub fn copy_page(&mut self, frame: Place, id: ObjectId, page: u64) -> Result<(), NoMemory> {
        /// Others may be faster to take what there is room for.
        const TRIES: u32 = 16;
        let place = self.extents.seek(at(id, page));
        let seen = self.extents.get(place).filter(|seen| seen.start <= at(id, page)).copied();
        let seen = seen.filter(Seen::is_morsel).ok_or(NoMemory)?;
        for _ in 0..TRIES {
            let look = self.pages.open(frame, 0, PAGE, R).map_err(|_| NoMemory)?;
            let copied = seen.frame.write_morsel(page * PAGE, look.memory().address(), PAGE);
            drop(look);
            match copied {
                Ok(copied) if copied.bytes == PAGE => return Ok(()),
                Err(Status::NoMemory) if self.ask_for_room(id, page) => {}
                _ => break,
            }
        }
        Err(NoMemory)
    }

    /// Copies bytes of the program's memory, which can be read, into an object of which something was asked for. Answers how many: fewer if some cannot
    /// be read any more.
    pub fn copy_in(
        &mut self,
        id: ObjectId,
        offset: u64,
        from: u64,
        bytes: u64,
    ) -> Result<u64, NoMemory> {
        /// Others may be faster to take what there is room for.
        const TRIES: u32 = 16;
        let (page, mut tries) = (offset / PAGE, TRIES);
        let place = self.extents.seek(at(id, page));
        let seen = self.extents.get(place).filter(|seen| seen.start <= at(id, page)).copied();
        let seen = seen.filter(Seen::is_morsel).ok_or(NoMemory)?;
        let mut done = 0;
        loop {
            match seen.frame.write_morsel(offset + done, from + done, bytes - done) {
                Ok(copied) if copied.bytes > 0 => (done, tries) = (done + copied.bytes, TRIES),
                Ok(_) => return Ok(done),
                Err(Status::NoMemory) if tries > 0 => {
                    tries -= 1;
                    if !self.ask_for_room(id, (offset + done) / PAGE) {
                        return Err(NoMemory);
                    }
                }
                Err(_) => return Err(NoMemory),
            }
            if done == bytes {
                return Ok(done);
            }
        }
    }

    /// Has an object of which something was asked for such a page, with contents or without?
    pub fn has_page(&self, id: ObjectId, page: u64) -> bool {
        let place = self.extents.seek(at(id, page));
        let seen = self.extents.get(place).filter(|seen| seen.start <= at(id, page));
        let facts = seen.filter(|seen| seen.is_morsel()).map(|seen| seen.frame.morsel_info());
        facts.is_some_and(|facts| facts.is_ok_and(|facts| page * PAGE < facts.limit))
    }

    /// Bytes become contents of an object, of which something was asked for, from a page on: of a page that has an end inside, as many as it has.
    /// Answers `false` if it has no such page, or they may not be written.
    pub fn put(&mut self, id: ObjectId, page: u64, bytes: &[u8]) -> Result<bool, NoMemory> {
        let place = self.extents.seek(at(id, page));
        let seen = self.extents.get(place).filter(|seen| seen.start <= at(id, page)).copied();
        let may = self.get(id).is_some_and(|object| object.writable);
        let Some(seen) = seen.filter(|seen| may && seen.is_morsel()) else { return Ok(false) };
        let limit = seen.frame.morsel_info().map_or(0, |facts| facts.limit);
        let offset = page * PAGE;
        let len = limit.saturating_sub(offset).min(bytes.len() as u64);
        if len.div_ceil(PAGE) < bytes.len() as u64 / PAGE {
            return Ok(false);
        }
        self.copy_in(id, offset, bytes.as_ptr() as u64, len).map(|done| done == len)
    }

    /// Pages of an object may leave memory.
    #[cold]
    pub fn page_out(&self, id: ObjectId, first: u64, pages: u64) {
        if let Some(object) = self.get(id) {
            // If they do not, nothing is lost.
            let _ = server::call(op::PageOut { desc: object.desc, first, pages });
        }
    }

    /// A page of an object, and no other, comes in. `ENOENT`: it has not left. `EIO`: the disk does not give it back.
    #[cold]
    fn bring_in(&self, id: ObjectId, page: u64) -> Result<(), Errno> {
        let object = self.get(id).ok_or(Errno::ENOENT)?;
        server::call(op::BringIn { desc: object.desc, page, alone: true }).map(drop)
    }

    /// A page of an object, and no other, comes in. `false`: it has not left, or does not come.
    pub fn page_in(&self, id: ObjectId, page: u64) -> bool {
        self.bring_in(id, page).is_ok()
    }

    /// Has a page left memory, and the disk does not give it back?
    pub fn is_lost(&self, id: ObjectId, page: u64) -> bool {
        self.bring_in(id, page) == Err(Errno::EIO)
    }

    /// Pages of an object stay in memory, or may leave it again.
    pub fn wire(&mut self, id: ObjectId, first: u64, pages: u64, stays: bool) -> Result<(), Errno> {
        let Some(object) = self.get_mut(id) else { return Ok(()) };
        object.plain = None;
        server::call(op::Wire { desc: object.desc, first, pages, stays }).map(drop)
    }

    /// Is there a disk for pages?
    #[cold]
    pub fn can_leave(&mut self) -> bool {
        if self.pages_can_leave.is_none() {
            let answer = server::call(op::Relieve { pages: 0, tries: 0 });
            self.pages_can_leave = Some(answer != Err(Errno::ENOSYS));
        }
        self.pages_can_leave == Some(true)
    }

    /// Have objects too little memory, in which small memory is?
    #[inline(always)]
    pub fn want_much(&self) -> bool {
        self.wants.get() >= MANY_WANTS
    }

    /// Something is done about it.
    pub fn want_no_more(&self) {
        self.wants.set(0);
    }

    fn ask_for_room(&self, id: ObjectId, page: u64) -> bool {
        self.wants.set(self.wants.get().saturating_add(1));
        let ask = |object: &Object| server::call(op::MakeRoom { desc: object.desc, page }).is_ok();
        self.get(id).is_some_and(ask)
    }

    /// There is no memory for pages of a Morsel that were to be made: the next time only one is.
    #[cold]
    pub fn narrow(&mut self) {
        self.stride.streams.forget();
        self.stride.is_narrow = true;
    }

    /// In a forked child, to which these were not given, also such as another thread of its parent was about to empty.
    fn forget_unmapped(&mut self) {
        if self.own_count == 0 {
            return;
        }
        self.spare = [None; SPARE_MAX];
        for index in 0.. {
            let unmapped = match self.objects.get_mut(index) {
                None => break,
                Some(object) => object.take_if(|object| object.is_unmapped),
            };
            if let Some(object) = unmapped {
                self.unlink(ObjectId::new(index), &object);
                self.objects.remove(index);
                self.own_count -= 1;
            }
        }
    }

    /// Takes an object out of its bucket.
    fn unlink(&mut self, id: ObjectId, object: &Object) {
        let bucket = self.bucket(object.inode);
        let mut at = self.buckets[bucket];
        if at == Some(id) {
            self.buckets[bucket] = object.next;
            return;
        }
        while let Some(before) = at.and_then(|at| self.get_mut(at)) {
            if before.next == Some(id) {
                before.next = object.next;
                return;
            }
            at = before.next;
        }
    }

    fn free_slot(&mut self, nodes: &mut Nodes, slot: Place) {
        delete(slot, 1);
        give_back(&mut self.near, &mut self.far, nodes, slot);
    }

    /// A slot for an extent. Only those near are given to a child.
    fn take_slot(
        &mut self,
        ram: &mut Arena,
        nodes: &mut Nodes,
        is_own: bool,
    ) -> Result<Place, Status> {
        let near = match is_own {
            true => None,
            false => self.near.take(0, NEAR_EXTENTS).map_err(|_| Status::NoMemory)?,
        };
        match near {
            Some(index) => Ok(own::EXTENTS.plus(index).into()),
            None => self.far.take(|| nodes.make_node(ram)).map(|(node, at)| slot(node, at)),
        }
    }

    /// The extent that holds `page` of an object.
    #[inline(always)]
    pub fn extent(
        &mut self,
        (ram, nodes): (&mut Arena, &mut Nodes),
        id: ObjectId,
        page: u64,
    ) -> Result<Extent, ObjectError> {
        match self.seen((ram, nodes), id, page)? {
            Some(seen) if !seen.is_morsel() => Ok(seen.extent()),
            Some(seen) => self.part(id, page, seen),
            None => self.hole(ram, page),
        }
    }

    /// The object, if it is a Morsel with tables, and has this page. It is taken back before it gets pages behind `until`.
    pub fn whole(
        &mut self,
        (ram, nodes): (&mut Arena, &mut Nodes),
        id: ObjectId,
        page: u64,
        until: u64,
    ) -> Result<Option<Extent>, ObjectError> {
        let place = self.extents.seek(at(id, page));
        let known = self.extents.get(place).filter(|seen| seen.start <= at(id, page)).copied();
        let seen = match known {
            Some(seen) if seen.is_morsel() && self.must_tell(id, until) => {
                // What it showed is shown still.
                self.extents.remove(place);
                self.free_slot(nodes, seen.frame);
                self.ask((ram, nodes), id, page, until)?
            }
            Some(seen) => Some(seen),
            None => self.ask((ram, nodes), id, page, until)?,
        };
        let Some(seen) = seen else { return Ok(None) };
        if !self.get(id).is_some_and(|object| object.has_tables) {
            return Ok(None);
        }
        self.end_behind(id, page, seen)?;
        Ok(Some(seen.only(page, 1)))
    }

    /// Is it to be said that an object may get no pages behind one, that has none there?
    fn must_tell(&self, id: ObjectId, until: u64) -> bool {
        self.get(id)
            .is_some_and(|object| until < object.until && object.size.div_ceil(PAGE) <= until)
    }

    /// What holds `page` of an object; nothing, if it does not have it.
    #[inline(always)]
    fn seen(
        &mut self,
        (ram, nodes): (&mut Arena, &mut Nodes),
        id: ObjectId,
        page: u64,
    ) -> Result<Option<Seen>, ObjectError> {
        let place = self.extents.seek(at(id, page));
        match self.extents.get(place) {
            Some(seen) if seen.start <= at(id, page) => Ok(Some(*seen)),
            _ => self.ask((ram, nodes), id, page, u64::MAX),
        }
    }

    /// Asks `unixd` for an extent, which is taken back before the object gets pages behind `until`.
    fn ask(
        &mut self,
        (ram, nodes): (&mut Arena, &mut Nodes),
        id: ObjectId,
        page: u64,
        until: u64,
    ) -> Result<Option<Seen>, ObjectError> {
        let object = self.get(id).ok_or(ObjectError::NoPage)?;
        let (desc, write, is_own) = (object.desc, object.writable, object.is_own);
        let slot = self.take_slot(ram, nodes, is_own).map_err(|_| ObjectError::NoMemory)?;
        let behind = if until == u64::MAX { NOT_BEHIND } else { until * PAGE };
        let request = op::FileExtent { desc, offset: page * PAGE, write, until: behind };
        let answer = server::call_caps(request, 0, 0, Caps::receive(slot));
        let Ok((found, caps)) = answer else {
            self.free_slot(nodes, slot);
            return Err(ObjectError::NoPage);
        };
        let (first, pages) = (found.start / PAGE, found.bytes / PAGE);
        if let Some(object) = self.get_mut(id) {
            // Of what is its own this process knows how much it uses of what it was promised.
            if !object.is_own || object.size == 0 {
                object.size = found.size;
            }
            object.is_morsel = found.is_morsel;
            object.has_tables = found.is_morsel && found.bytes > PAGE;
            let is_noted = found.size.div_ceil(PAGE) <= until;
            object.until = if is_noted { until } else { u64::MAX };
        }
        let behind_end = page * PAGE >= found.size || page.wrapping_sub(first) >= pages;
        if behind_end || caps == 0 {
            self.free_slot(nodes, slot);
            return if behind_end { Err(ObjectError::NoPage) } else { Ok(None) };
        }
        let pages = match found.is_morsel {
            true => OBJECT_PAGES,
            false => pages.min(found.size.div_ceil(PAGE) - first),
        };
        let seen = Seen { start: at(id, first), pages, frame: slot };
        let place = self.extents.seek(at(id, page));
        if page >= OBJECT_PAGES || self.note(id, seen, place).is_err() {
            self.free_slot(nodes, slot);
            return Err(ObjectError::NoMemory);
        }
        Ok(Some(seen))
    }

    /// Keeps an extent. Those that it overlaps are not looked at any more.
    fn note(&mut self, id: ObjectId, seen: Seen, place: tables::Place) -> Result<(), NoMemory> {
        let [before, next, _] = self.extents.around(place);
        let is_clear = before.is_none_or(|before| before.end() <= seen.start)
            && next.is_none_or(|next| next.start >= seen.end());
        if is_clear {
            return self.extents.insert_at(place, seen).map(drop);
        }
        let mut place = self.extents.seek(seen.start);
        let object = self.objects.get_mut(id.index() as u32).and_then(Option::as_mut);
        let object = object.ok_or(NoMemory)?;
        let overlapped = self.extents.iter_from(place);
        object.old.try_reserve(overlapped.take_while(|old| old.start < seen.end()).count())?;
        while let Some(old) = self.extents.get(place).filter(|old| old.start < seen.end()) {
            object.old.push(old.frame);
            place = self.extents.remove(place);
        }
        self.extents.insert_at(place, seen).map(drop)
    }

    /// The first object that is this file, or the next one behind one that is.
    pub fn of_inode(&self, inode: u64, behind: Option<ObjectId>) -> Option<ObjectId> {
        let first = match behind {
            Some(behind) => self.get(behind)?.next,
            None => *self.buckets.get((inode as usize) & self.buckets.len().wrapping_sub(1))?,
        };
        let mut all = core::iter::successors(first, |id| self.get(*id)?.next);
        all.find(|id| self.get(*id).is_some_and(|object| object.inode == inode))
    }

    /// The file has only `pages` pages left, and of the others none is mapped: forgets them.
    pub fn cut(&mut self, nodes: &mut Nodes, id: ObjectId, pages: u64) {
        let Some(object) = self.get_mut(id) else { return };
        object.size = object.size.min(pages * PAGE);
        let end = at(id, pages);
        let place = self.extents.seek(end);
        let is_cut = |seen: &&Seen| seen.start < end && !seen.is_morsel();
        if let Some(&seen) = self.extents.get(place).filter(is_cut) {
            self.extents.replace(place, Seen { pages: end - seen.start, ..seen });
        }
        self.forget_extents(nodes, id, pages);
    }

    /// Bytes of the file, as known since something of it was read.
    pub fn size(&self, id: ObjectId) -> u64 {
        self.get(id).map_or(0, |object| object.size)
    }

    /// Up to `bytes` bytes of the file from `offset` on.
    pub fn read(
        &mut self,
        (ram, nodes): (&mut Arena, &mut Nodes),
        id: ObjectId,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, ObjectError> {
        let (mut all, mut at) = (Vec::new(), offset);
        while at < offset.saturating_add(bytes) {
            let extent = match self.extent((ram, nodes), id, at / PAGE) {
                Ok(extent) => extent,
                Err(ObjectError::NoPage) => break,
                Err(error) => return Err(error),
            };
            let left = (offset + bytes - at).min(self.size(id).saturating_sub(at));
            let here = left.min(PAGE - at % PAGE) as usize;
            if here == 0 {
                break;
            }
            let page = extent.frame_page + at / PAGE - extent.first;
            let frame = Place(extent.frame);
            let look = self.pages.open(frame, page * PAGE, PAGE, R);
            let look = look.map_err(|_| ObjectError::NoMemory)?;
            let copied = look.memory().skip((at % PAGE) as usize).first(here).append_to(&mut all);
            drop(look);
            if copied.map_err(|_| ObjectError::NoMemory)?.fault.is_some() {
                // Others have truncated the file.
                break;
            }
            at += here as u64;
        }
        Ok(all)
    }

    /// A page of zeroes, for a page that the file does not have.
    fn hole(&mut self, ram: &mut Arena, page: u64) -> Result<Extent, ObjectError> {
        if !self.zero_page {
            make_zero_page(ram).map_err(|_| ObjectError::NoMemory)?;
            self.zero_page = true;
        }
        let frame = Place::own(own::ZERO_PAGE).0;
        Ok(Extent { frame, frame_page: 0, first: page, pages: 1 })
    }

    /// Gives a child the first Frames.
    pub fn share(&self, child: CapAddr) -> Result<(), Status> {
        let count = self.near.end();
        if count > 0 {
            let to = Place::within(child, own::EXTENTS);
            // Frames and Morsels; there is nothing else.
            own::EXTENTS.copy_range(to, count, CapType::Null)?;
        }
        Ok(())
    }

    /// Releases every object without touching capabilities.
    pub fn abandon(&mut self) {
        let objects = self.objects.iter_mut().flatten();
        self.released.extend(objects.map(|object| (object.file, object.desc)));
        self.objects.clear();
        self.buckets.fill(None);
        self.extents.clear();
        self.near.clear();
        self.far = Spread::new(L2_SLOTS);
        self.zero_page = false;
        (self.own_count, self.spare, self.may_own) = (0, [None; SPARE_MAX], true);
    }

    /// In a forked child, which has the first Frames only: the others are asked for again.
    pub fn after_fork(&mut self, nodes: &mut Nodes) {
        self.forget_unmapped();
        for object in self.objects.iter_mut().flatten() {
            object.old.retain(|frame| near_index(*frame).is_some());
            if object.is_own {
                // There is one for each.
                object.desc = object.heir.take().unwrap_or(u32::MAX);
            }
        }
        let mut place = self.extents.first();
        while let Some(seen) = self.extents.get(place) {
            place = match near_index(seen.frame) {
                None => self.extents.remove(place),
                Some(_) => self.extents.next(place),
            };
        }
        let far = core::mem::replace(&mut self.far, Spread::new(L2_SLOTS));
        far.nodes().for_each(|node| nodes.forget_node(node));
        self.zero_page = false;
        self.may_own = true;
    }
}

/// The request that makes a hole of pages.
fn punch(desc: u32, page: u64, pages: u64) -> op::Allocate {
    let mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    op::Allocate { desc, mode, offset: page * PAGE, bytes: pages * PAGE }
}

/// Closes a description that nothing else names.
fn close(desc: u32) {
    // If it stays, it goes with the process.
    let _ = server::call_a(op::Close {}, &desc.to_le_bytes());
}

/// Notes that a slot is free.
fn give_back(near: &mut Numbers, far: &mut Spread, nodes: &mut Nodes, slot: Place) {
    match near_index(slot) {
        Some(index) => near.free(index),
        None => {
            if let Some(empty) = far.free_place(slot) {
                // An empty one: if it stays, it costs its memory.
                let _ = nodes.drop_node(empty);
            }
        }
    }
}

/// Empties slots that follow each other.
fn delete(first: Place, count: u32) {
    // Slots that stay full refuse what is put there next.
    let _ = match count {
        0 => Ok(()),
        1 => first.delete(),
        _ => first.delete_range(count),
    };
}

/// Which of the slots in the CNode at root index 0 this is.
fn near_index(slot: Place) -> Option<u32> {
    let near = slot.root().is_null() && slot.addr().l1() == 0;
    near.then(|| slot.addr().0 - own::EXTENTS.0)
}
