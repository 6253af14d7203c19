//! Memory objects: files and shared anonymous memory, as `unixd` has them.
//!
//! Their contents are Frames of `unixd` ("extents"), which are mapped directly. An object keeps
//! the extents that it has seen until it is no longer mapped.

use super::arena::Arena;
use crate::server::{self, op, Caps};
use abi::layout::{LIBRARY_PEEK as PEEK, PAGE};
use alloc::string::String;
use alloc::vec::Vec;
use captypes::invocations::MapFlags;
use captypes::place::{L2_BYTES, L2_SLOTS};
use captypes::{CapAddr, CapType, Place, Rights, Status};
use libos::ram::Ram;
use libos::Cap;
use linuxdomain::{entry_of, own, EXTENTS_L1, NEAR_EXTENTS, NODES_L1};
use uvm::{Extent, ObjectError, ObjectId};

/// Most Frames of mapped files at a time.
const EXTENTS: usize = (NEAR_EXTENTS + (NODES_L1 - EXTENTS_L1) * L2_SLOTS) as usize;

/// A mapped file.
pub struct Object {
    /// Its description, for `unixd`.
    pub desc: u32,
    /// Its file in the table of open files, held while it is mapped; none for memory that was
    /// made for the mapping.
    pub file: Option<u32>,
    /// Its inode, for `/proc/self/maps`.
    pub inode: u64,
    /// Its path, if known.
    pub path: Option<String>,
    /// Stores go to the file.
    writable: bool,
    /// Bytes, as known since the last extent.
    size: u64,
    extents: Vec<Extent>,
}

/// All mapped objects.
pub struct Objects {
    objects: Vec<Option<Object>>,
    /// Slots for Frames: true if in use.
    slots: Vec<bool>,
    /// CNodes for those that exist.
    nodes: u32,
    /// Is there a page of zeroes at `own::ZERO_PAGE`?
    zero_page: bool,
    /// Files that are no longer mapped: to be released by whoever has the table of files.
    pub released: Vec<(Option<u32>, u32)>,
}

fn frame_slot(index: usize) -> CapAddr {
    match (index as u32).checked_sub(NEAR_EXTENTS) {
        None => own::EXTENTS.plus(index as u32),
        Some(far) => CapAddr::new(EXTENTS_L1 + far / L2_SLOTS, far % L2_SLOTS),
    }
}

fn slot_index(slot: CapAddr) -> usize {
    match slot.l1() {
        0 => (slot.0 - own::EXTENTS.0) as usize,
        node => (NEAR_EXTENTS + (node - EXTENTS_L1) * L2_SLOTS + slot.l2()) as usize,
    }
}

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
            objects: Vec::new(),
            slots: Vec::new(),
            nodes: 0,
            zero_page: false,
            released: Vec::new(),
        }
    }

    /// The object with this number.
    pub fn get(&self, id: ObjectId) -> Option<&Object> {
        self.objects.get(id.0 as usize)?.as_ref()
    }

    /// The object for a description, and whether it is new: it is not if it is mapped already in
    /// the same way.
    pub fn add(
        &mut self,
        desc: u32,
        file: Option<u32>,
        inode: u64,
        writable: bool,
    ) -> (ObjectId, bool) {
        let same = |o: &Object| o.desc == desc && o.file == file && o.writable == writable;
        let known = self.objects.iter().position(|o| o.as_ref().is_some_and(same));
        let index = known.unwrap_or_else(|| {
            let object =
                Object { desc, file, inode, path: None, writable, size: 0, extents: Vec::new() };
            let free = self.objects.iter().position(Option::is_none);
            let index = free.unwrap_or(self.objects.len());
            if free.is_none() {
                self.objects.push(None);
            }
            self.objects[index] = Some(object);
            index
        });
        (ObjectId(index as u32), known.is_none())
    }

    /// Says where the file is.
    pub fn set_path(&mut self, id: ObjectId, path: String) {
        if let Some(Some(object)) = self.objects.get_mut(id.0 as usize) {
            object.path = Some(path);
        }
    }

    /// Forgets an object that nothing maps.
    pub fn release(&mut self, id: ObjectId) {
        let Some(object) = self.objects.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        for extent in object.extents.iter().filter(|e| e.frame != own::ZERO_PAGE.0) {
            self.free_slot(CapAddr(extent.frame));
        }
        self.released.push((object.file, object.desc));
    }

    fn free_slot(&mut self, slot: CapAddr) {
        let _ = slot.delete();
        if let Some(used) = self.slots.get_mut(slot_index(slot)) {
            *used = false;
        }
    }

    fn take_slot(&mut self, ram: &mut Arena) -> Option<CapAddr> {
        let free = self.slots.iter().position(|used| !used);
        let index = free.unwrap_or(self.slots.len());
        if index >= EXTENTS {
            return None;
        }
        let slot = frame_slot(index);
        if slot.l1() != 0 && slot.l1() - EXTENTS_L1 >= self.nodes {
            let node = Place::l1(CapAddr::NULL, slot.l1());
            ram.make(CapType::L2CNode, L2_BYTES, 1, node).ok()?;
            self.nodes += 1;
        }
        if free.is_none() {
            self.slots.push(false);
        }
        self.slots[index] = true;
        Some(slot)
    }

    /// The extent that holds `page` of an object.
    pub fn extent(
        &mut self,
        ram: &mut Arena,
        id: ObjectId,
        page: u64,
    ) -> Result<Extent, ObjectError> {
        let object = self.get(id).ok_or(ObjectError::NoPage)?;
        let holds = |e: &&Extent| page.wrapping_sub(e.first) < e.pages;
        if let Some(extent) = object.extents.iter().rev().find(holds) {
            return Ok(*extent);
        }
        let (desc, write) = (object.desc, object.writable);
        let slot = self.take_slot(ram).ok_or(ObjectError::NoMemory)?;
        let request = op::FileExtent { desc, offset: page * PAGE, write };
        let answer = server::call_caps(request, 0, 0, Caps::receive(slot));
        let Ok((found, caps)) = answer else {
            self.free_slot(slot);
            return Err(ObjectError::NoPage);
        };
        let (first, pages) = (found.start / PAGE, found.bytes / PAGE);
        if let Some(Some(object)) = self.objects.get_mut(id.0 as usize) {
            object.size = found.size;
        }
        let behind_end = page * PAGE >= found.size || page.wrapping_sub(first) >= pages;
        if behind_end || caps == 0 {
            self.free_slot(slot);
            return if behind_end { Err(ObjectError::NoPage) } else { self.hole(ram, page) };
        }
        let pages = pages.min(found.size.div_ceil(PAGE) - first);
        let extent = Extent { frame: slot.0, frame_page: 0, first, pages };
        if let Some(Some(object)) = self.objects.get_mut(id.0 as usize) {
            object.extents.push(extent);
        }
        Ok(extent)
    }

    /// The objects that are this file.
    pub fn of_inode(&self, inode: u64) -> Vec<ObjectId> {
        let is = |object: &Option<Object>| object.as_ref().is_some_and(|o| o.inode == inode);
        let objects = self.objects.iter().enumerate().filter(|(_, object)| is(object));
        objects.map(|(index, _)| ObjectId(index as u32)).collect()
    }

    /// The file has only `pages` pages left, and of the others none is mapped: forgets them.
    pub fn cut(&mut self, id: ObjectId, pages: u64) {
        let Some(Some(object)) = self.objects.get_mut(id.0 as usize) else { return };
        object.size = object.size.min(pages * PAGE);
        for extent in &mut object.extents {
            extent.pages = extent.pages.min(pages.saturating_sub(extent.first));
        }
        let (kept, gone): (Vec<_>, Vec<_>) =
            object.extents.drain(..).partition(|extent| extent.pages > 0);
        object.extents = kept;
        for extent in gone.iter().filter(|extent| extent.frame != own::ZERO_PAGE.0) {
            self.free_slot(CapAddr(extent.frame));
        }
    }

    /// Bytes of the file, as known since something of it was read.
    pub fn size(&self, id: ObjectId) -> u64 {
        self.get(id).map_or(0, |object| object.size)
    }

    /// Up to `bytes` bytes of the file from `offset` on.
    pub fn read(
        &mut self,
        ram: &mut Arena,
        id: ObjectId,
        offset: u64,
        bytes: u64,
    ) -> Result<Vec<u8>, ObjectError> {
        let (mut all, mut at) = (Vec::new(), offset);
        while at < offset.saturating_add(bytes) {
            let extent = match self.extent(ram, id, at / PAGE) {
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
            let mapping = own::PEEK_MAPPING;
            own::PT
                .map(entry_of(PEEK), 1, CapAddr(extent.frame), page * PAGE, MapFlags::READ, mapping)
                .map_err(|_| ObjectError::NoMemory)?;
            let from = (PEEK + at % PAGE) as *const u8;
            // SAFETY: the page is mapped here until its Mapping is deleted below.
            all.extend_from_slice(unsafe { core::slice::from_raw_parts(from, here) });
            let _ = mapping.delete();
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
        Ok(Extent { frame: own::ZERO_PAGE.0, frame_page: 0, first: page, pages: 1 })
    }

    /// Gives a child the first Frames.
    pub fn share(&self, child: CapAddr) -> Result<(), Status> {
        let count = self.slots.len().min(NEAR_EXTENTS as usize) as u32;
        if count > 0 {
            let to = Place::within(child, own::EXTENTS);
            own::EXTENTS.copy_range(to, count, CapType::Frame)?;
        }
        Ok(())
    }

    /// Releases every object without touching capabilities.
    pub fn into_released(mut self) -> Vec<(Option<u32>, u32)> {
        let objects = self.objects.into_iter().flatten();
        self.released.extend(objects.map(|object| (object.file, object.desc)));
        self.released
    }

    /// In a forked child, which has the first Frames only: the others are asked for again.
    pub fn after_fork(&mut self) {
        for object in self.objects.iter_mut().flatten() {
            object.extents.retain(|extent| CapAddr(extent.frame).l1() == 0);
        }
        self.slots.truncate(NEAR_EXTENTS as usize);
        self.nodes = 0;
        self.zero_page = false;
    }
}
