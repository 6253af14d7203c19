//! `uvm`'s backend on invocations.

use super::arena::Arena;
use super::nodes::{in_child, node_place, slot, table_mapping, table_slot, ChildSlots, Nodes};
use super::object::Objects;
use super::user;
use abi::layout::{LIBRARY_START, PAGE};
use abi::slots::VSPACE;
use captypes::invocations::{Identity, MapFlags, StatusBits};
use captypes::{op, CapAddr, CapType, Place, Status};
use libos::morsel::MorselCap;
use libos::ram::Ram;
use libos::{invoke, Cap};
use linuxdomain::{own, RWX};
use tables::Sparse;
use unixproto::files::NO_PAGE;
use uvm::bits::Bits;
use uvm::{
    Access, Backend, CNode, Extent, NoMemory, ObjectError, ObjectId, Prot, Refused, Shown, Table,
    There, REGION_PAGES,
};

/// Capabilities of the process, as far as program memory is made of them.
pub struct Caps {
    pub arena: Arena,
    pub nodes: Nodes,
    /// Upper tables for program memory, by [`upper_key`].
    uppers: Sparse<Table, 4>,
    pub objects: Objects,
    /// A program has faulted, and will try again what it did.
    pub tries_again: bool,
    /// The kernel has said with its fault that the page has left memory, and where it is.
    pub slot: Option<u64>,
}

/// The key of an upper table: of `level` 2 is a page directory, of level 3 a table of those, which come
/// first. What it covers is said by the number of its first entry in its level / 512.
const fn upper_key(level: u8, number: u64) -> u64 {
    (3 - level as u64) << 48 | number
}

/// Level and number of a key.
const fn upper_of(key: u64) -> (u8, u64) {
    (3 - (key >> 48) as u8, key & ((1 << 48) - 1))
}

/// Upper tables that program and library share, made with the domain.
fn common_upper(level: u8, number: u64) -> Option<Place> {
    match level {
        3 if number == LIBRARY_START >> 39 => Some(own::PDPT.into()),
        2 if number == LIBRARY_START >> 30 => Some(own::PD.into()),
        _ => None,
    }
}

fn no_memory(_: Status) -> NoMemory {
    NoMemory
}

fn refused(_: Status) -> Refused {
    Refused
}

/// What a deletion came to, or a loss of rights. An empty slot is as good as an emptied one.
#[inline(always)]
fn emptied(result: Result<(), Status>) -> Result<(), Refused> {
    match result {
        Ok(()) | Err(Status::Empty) => Ok(()),
        Err(_) => Err(Refused),
    }
}

/// What became of an operation on the Frame of an extent, which `unixd` may have taken away.
fn gone_or_no_memory(status: Status) -> ObjectError {
    match status {
        // Or what it has of the object is not as large any more.
        Status::Empty | Status::OutOfRange => ObjectError::Gone,
        _ => ObjectError::NoMemory,
    }
}

#[cold]
fn is_morsel(place: Place) -> bool {
    place.identify().is_ok_and(|identity| identity.ty == CapType::Morsel)
}

/// Rights of a mapping. Whatever is mapped can be read.
#[inline(always)]
fn flags(prot: Prot) -> MapFlags {
    MapFlags(prot.0 as u32 | MapFlags::READ.0)
}

impl Caps {
    /// None.
    pub const fn new() -> Self {
        Caps {
            arena: Arena::new(own::ARENA),
            nodes: Nodes::new(),
            uppers: Sparse::new(),
            objects: Objects::new(),
            tries_again: false,
            slot: None,
        }
    }

    /// The table of `level` (2 or 3) whose entries begin with `number * 512`, made if need be.
    fn upper(&mut self, level: u8, number: u64) -> Result<Place, Status> {
        if let Some(&table) = self.uppers.get(upper_key(level, number)) {
            return Ok(table_slot(table));
        }
        if let Some(common) = common_upper(level, number) {
            return Ok(common);
        }
        let table = self.nodes.take_table(&mut self.arena)?;
        let made = self.make_upper(level, number, table).and_then(|()| {
            let entered = self.uppers.insert(upper_key(level, number), table);
            entered.map_err(|_| Status::NoMemory)
        });
        if let Err(error) = made {
            table_slot(table).discard();
            self.nodes.free_table(table);
            return Err(error);
        }
        Ok(table_slot(table))
    }

    fn make_upper(&mut self, level: u8, number: u64, table: Table) -> Result<(), Status> {
        let ty = if level == 2 { CapType::Pd } else { CapType::Pdpt };
        let slot = table_slot(table);
        self.arena.make(ty, PAGE, 1, slot)?;
        let parent = match level {
            2 => self.upper(3, number / 512)?,
            _ => VSPACE.into(),
        };
        parent.map((number % 512) as u32, 1, slot, 0, RWX, table_mapping(table))
    }

    fn make_table(&mut self, region: u64) -> Result<Table, Status> {
        let directory = self.upper(2, region / 512)?;
        let table = self.nodes.take_table(&mut self.arena)?;
        let slot = table_slot(table);
        let entry = (region % 512) as u32;
        let made = self.arena.make(CapType::Pt.alone(), PAGE, 1, slot).and_then(|()| {
            let mapped = directory.map(entry, 1, slot, 0, RWX, table_mapping(table));
            if mapped.is_err() {
                slot.discard();
            }
            mapped
        });
        match made {
            Ok(()) => Ok(table),
            Err(error) => {
                self.nodes.free_table(table);
                Err(error)
            }
        }
    }

    /// Forgets all but the arena and the files that were mapped, without giving anything up.
    pub fn abandon(&mut self) {
        self.nodes.abandon();
        self.uppers.clear();
        self.objects.abandon();
    }

    /// Number of upper tables for program memory.
    pub fn upper_tables(&self) -> usize {
        self.uppers.len()
    }

    /// Drops the directory with a number, in which there is nothing.
    fn drop_directory(&mut self, number: u64) -> Result<(), Status> {
        if common_upper(2, number).is_some() {
            return Err(Status::Occupied);
        }
        if let Some(&table) = self.uppers.get(upper_key(2, number)) {
            table_slot(table).delete()?;
            self.uppers.remove(upper_key(2, number));
            self.nodes.free_table(table);
        }
        Ok(())
    }

    /// Drops upper tables: all program memory is gone.
    pub fn drop_uppers(&mut self) {
        for (_, &table) in core::mem::take(&mut self.uppers).iter() {
            // One that cannot be deleted keeps its slot.
            if emptied(table_slot(table).delete()).is_ok() {
                self.nodes.free_table(table);
            }
        }
    }

    /// Makes the upper tables of the child, like the own ones, and gives it the tables
    /// `(region, table)`: from now on both processes have them write-protected.
    pub fn share_tables(
        &mut self,
        tables: impl Iterator<Item = (u64, Table)>,
    ) -> Result<(), Status> {
        let (mut uppers, mut lowers) = (ChildSlots::new(1), ChildSlots::new(2));
        // Tables of directories come first, for the directories to be mapped in.
        for (key, &table) in self.uppers.iter() {
            let (level, number) = upper_of(key);
            let ty = if level == 2 { CapType::Pd } else { CapType::Pdpt };
            let slot = lowers.place(table_slot(table))?;
            self.arena.make(ty, PAGE, 1, slot)?;
            let parent = match level {
                2 => self.known(3, number / 512)?,
                _ => VSPACE.into(),
            };
            let mapping = lowers.place(table_mapping(table))?;
            uppers.place(parent)?.map((number % 512) as u32, 1, slot, 0, RWX, mapping)?;
        }
        let read = MapFlags::READ.or(MapFlags::EXEC);
        let mut tables = tables.peekable();
        while let Some((region, table)) = tables.next() {
            // Neighbours in both the address space and the CNode go together.
            let mut count = 1;
            while let Some(&(next, next_table)) = tables.peek() {
                let follows = next == region + count as u64
                    && next / 512 == region / 512
                    && table_slot(next_table) == table_slot(table).plus(count);
                if !follows {
                    break;
                }
                count += 1;
                tables.next();
            }
            let directory = uppers.place(self.known(2, region / 512)?)?;
            let (entry, slot) = ((region % 512) as u32, table_slot(table));
            let mapping = table_mapping(table);
            let (child, child_mapping) = (lowers.place(slot)?, lowers.place(mapping)?);
            slot.copy_range(child, count, CapType::Pt)?;
            directory.map_many(entry, count, child, read, child_mapping)?;
            mapping.protect_many(count, read)?;
        }
        uppers.end()?;
        lowers.end()
    }

    fn known(&self, level: u8, number: u64) -> Result<Place, Status> {
        if let Some(common) = common_upper(level, number) {
            return Ok(common);
        }
        let table = self.uppers.get(upper_key(level, number)).ok_or(Status::Empty)?;
        Ok(table_slot(*table))
    }
}

fn has_copies(place: Place) -> bool {
    match place.identify() {
        Ok(identity) => identity.relations & Identity::COPIES != 0,
        // Better a copy too many than a page that two processes write to.
        Err(_) => true,
    }
}

impl Backend for Caps {
    fn cnode_new(&mut self) -> Result<CNode, NoMemory> {
        self.nodes.make_node(&mut self.arena).map_err(no_memory)
    }
    fn cnode_drop(&mut self, node: CNode) -> Result<(), Refused> {
        self.nodes.drop_node(node).map_err(refused)
    }
    fn cnode_shared(&mut self, node: CNode) -> bool {
        has_copies(node_place(node))
    }
    fn slots_copy(&mut self, from: CNode, to: CNode, lo: u32, n: u32) -> Result<(), NoMemory> {
        slot(from, lo).copy_range(slot(to, lo), n, CapType::Null).map(|_| ()).map_err(no_memory)
    }
    #[inline]
    fn slots_drop(&mut self, node: CNode, first: u32, count: u32) -> Result<(), Refused> {
        let place = slot(node, first);
        // Slots that are empty already are an error of the single operation only.
        emptied(if count == 1 { place.delete() } else { place.delete_range(count) })
    }
    fn slot_move(&mut self, from: (CNode, u32), to: (CNode, u32)) -> Result<(), Refused> {
        slot(from.0, from.1).move_to(slot(to.0, to.1)).map_err(refused)
    }
    fn slot_copy(&mut self, from: (CNode, u32), to: (CNode, u32)) -> Result<(), NoMemory> {
        slot(from.0, from.1).copy_to(slot(to.0, to.1)).map_err(no_memory)
    }
    #[inline]
    fn pages_zero(&mut self, to: CNode, first: u32, count: u32) -> Result<(), NoMemory> {
        let mut done = 0;
        while done < count {
            let here = match self.arena.pages_left() {
                0 => 1,
                left => (count - done).min(left.min(256) as u32),
            };
            let made = self.arena.make(CapType::Frame.alone(), PAGE, here, slot(to, first + done));
            if let Err(error) = made {
                if done > 0 {
                    // Slots that are not empty are not used again: making pages there fails.
                    let _ = self.slots_drop(to, first, done);
                }
                return Err(no_memory(error));
            }
            done += here;
        }
        Ok(())
    }
    #[inline]
    fn page_copy(&mut self, node: CNode, at: u32) -> Result<bool, NoMemory> {
        let offset = self.arena.take(PAGE).map_err(no_memory)?;
        let place = slot(node, at);
        let (src, dst) = (place, place);
        let copy = op::RetypeCopy { offset, src, src_offset: 0, dst, bytes: PAGE, alone: true };
        match invoke(self.arena.slot(), copy) {
            Ok(()) => Ok(true),
            Err(Status::WrongState) => {
                self.arena.put_back(PAGE);
                Ok(false)
            }
            Err(error) => Err(no_memory(error)),
        }
    }
    fn page_copy_object(
        &mut self,
        extent: &Extent,
        page: u64,
        to: CNode,
        at: u32,
    ) -> Result<(), ObjectError> {
        let offset = self.arena.take(PAGE).map_err(no_memory)?;
        let src_offset = (extent.frame_page + page - extent.first) * PAGE;
        let src = Place(extent.frame);
        let dst = slot(to, at);
        let copy = op::RetypeCopy { offset, src, src_offset, dst, bytes: PAGE, alone: true };
        let copied = invoke(self.arena.slot(), copy);
        if matches!(copied, Err(Status::Empty | Status::Out)) {
            self.arena.put_back(PAGE);
        }
        copied.map_err(gone_or_no_memory)
    }

    fn entries_used(&mut self, table: Table, first: u32, count: u32) -> u64 {
        self.objects.entries_used(table_slot(table), first, count)
    }
    fn entries_written(&mut self, table: Table) -> Bits<8> {
        self.objects.entries_written(table_slot(table))
    }
    fn entries_clean(&mut self, table: Table) -> Result<(), Refused> {
        let cleared = table_slot(table).clear_status(0, REGION_PAGES as u32, StatusBits::DIRTY);
        cleared.map(|_| ()).map_err(|_| Refused)
    }
    fn page_shared(&mut self, (node, at): (CNode, u32)) -> bool {
        has_copies(slot(node, at))
    }
    fn page_aside(
        &mut self,
        (node, at): (CNode, u32),
        object: ObjectId,
        to: u64,
    ) -> Result<(), NoMemory> {
        self.objects.copy_page(slot(node, at), object, to)
    }

    fn table_new(&mut self, region: u64) -> Result<Table, NoMemory> {
        self.make_table(region).map_err(no_memory)
    }
    fn table_drop(&mut self, _region: u64, table: Table) -> Result<(), Refused> {
        emptied(table_mapping(table).delete())?;
        // What is not mapped is harmless; but its slots are in use.
        if emptied(table_slot(table).delete()).is_ok() {
            self.nodes.free_table(table);
        }
        Ok(())
    }
    fn table_shared(&mut self, table: Table) -> bool {
        has_copies(table_slot(table))
    }
    fn table_writable(&mut self, _region: u64, table: Table) -> Result<(), Refused> {
        table_mapping(table).protect(0, 1, RWX).map_err(refused)
    }

    fn zeros_show(
        &mut self,
        table: Table,
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), NoMemory> {
        table_slot(table).map_zero(first, count, flags(prot)).map(|_| ()).map_err(no_memory)
    }
    fn zeros_hide(&mut self, table: Table, first: u32, count: u32) -> Result<(), Refused> {
        table_slot(table).map_zero(first, count, MapFlags(0)).map(|_| ()).map_err(refused)
    }
    #[inline]
    fn map_pages(
        &mut self,
        (table, entry): (Table, u32),
        count: u32,
        pages: (CNode, u32),
        mappings: (CNode, u32),
        prot: Prot,
    ) -> Result<(), NoMemory> {
        let (src, mapping) = (slot(pages.0, pages.1), slot(mappings.0, mappings.1));
        let table = table_slot(table);
        let mapped = if count == 1 {
            table.map(entry, 1, src, 0, flags(prot), mapping)
        } else {
            table.map_many(entry, count, src, flags(prot), mapping).map(|_| ())
        };
        mapped.map_err(no_memory)
    }
    #[inline]
    fn replace(
        &mut self,
        mapping: (CNode, u32),
        page: (CNode, u32),
        prot: Prot,
    ) -> Result<bool, Refused> {
        match slot(mapping.0, mapping.1).replace(slot(page.0, page.1), flags(prot)) {
            Ok(()) => Ok(true),
            Err(Status::Empty) => Ok(false),
            Err(error) => Err(refused(error)),
        }
    }
    fn map_extent(
        &mut self,
        (table, half): (Table, u32),
        first: u32,
        count: u32,
        extent: &Extent,
        page: u64,
        mappings: CNode,
        prot: Prot,
    ) -> Result<(), ObjectError> {
        let offset = (extent.frame_page + page - extent.first) * PAGE;
        let (src, mapping) = (Place(extent.frame), slot(mappings, first));
        let entry = half * 256 + first;
        let mapped = table_slot(table).map(entry, count, src, offset, flags(prot), mapping);
        mapped.map_err(|status| match status {
            // The pool has none for a page that was missing.
            Status::NoMemory | Status::Out if is_morsel(src) && count == 1 => {
                self.objects.no_page(src, offset / PAGE)
            }
            Status::NoMemory | Status::Out if is_morsel(src) => {
                self.objects.narrow();
                ObjectError::Gone
            }
            status => gone_or_no_memory(status),
        })
    }
    #[inline]
    fn protect(
        &mut self,
        mappings: CNode,
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), Refused> {
        let place = slot(mappings, first);
        // One Mapping of one entry: faster than a walk over slots, which passes over empty ones.
        match count {
            1 => emptied(place.protect(0, 1, flags(prot))),
            _ => place.protect_many(count, flags(prot)).map(|_| ()).map_err(refused),
        }
    }
    fn protect_exclusive(
        &mut self,
        mappings: CNode,
        first: u32,
        count: u32,
    ) -> Result<(), Refused> {
        let flags = flags(Prot(3)).or(MapFlags::IF_EXCLUSIVE);
        slot(mappings, first).protect_many(count, flags).map(|_| ()).map_err(refused)
    }
    fn protect_part(
        &mut self,
        (node, at): (CNode, u32),
        first: u32,
        count: u32,
        prot: Prot,
    ) -> Result<(), Refused> {
        slot(node, at).protect(first, count, flags(prot)).map_err(refused)
    }
    fn unmap_part(
        &mut self,
        (node, at): (CNode, u32),
        first: u32,
        count: u32,
        len: u32,
    ) -> Result<(), Refused> {
        let place = slot(node, at);
        let behind = first + count;
        let splits = first > 0 && behind < len;
        let rest = if splits { slot(node, at + behind) } else { Place::NULL };
        place.unmap(first, count, rest).map_err(refused)?;
        match first {
            0 => place.move_to(slot(node, at + behind)).map_err(refused),
            _ => Ok(()),
        }
    }

    fn whole_new(
        &mut self,
        shown: Shown,
        extent: &Extent,
        page: u64,
        prot: Prot,
    ) -> Result<Table, ObjectError> {
        let no_memory = |_: Status| ObjectError::NoMemory;
        let (order, number) = match shown {
            Shown::Region(number) => (1, number),
            Shown::Giant(number) => (2, number),
        };
        if order == 2 {
            self.drop_directory(number).map_err(no_memory)?;
        }
        let above = self.upper(order + 1, number / 512).map_err(no_memory)?;
        let table = self.nodes.take_table(&mut self.arena).map_err(no_memory)?;
        let (entry, slot) = ((number % 512) as u32, table_slot(table));
        let made = Place(extent.frame).part(page, u32::from(order), slot).and_then(|()| {
            let mapped = above.map(entry, 1, slot, 0, flags(prot), table_mapping(table));
            if mapped.is_err() {
                slot.discard();
            }
            mapped
        });
        if made.is_err() {
            self.nodes.free_table(table);
        }
        made.map(|()| table).map_err(|status| match status {
            // The pool has none for the tables of this part.
            Status::NoMemory => self.objects.no_page(Place(extent.frame), NO_PAGE),
            // It is a large page.
            Status::Unsupported => ObjectError::NoPage,
            status => gone_or_no_memory(status),
        })
    }
    fn whole_drop(&mut self, _shown: Shown, entry: Table) -> Result<(), Refused> {
        emptied(table_mapping(entry).delete())?;
        // What is not mapped is harmless; but its slots are in use.
        if emptied(table_slot(entry).delete()).is_ok() {
            self.nodes.free_table(entry);
        }
        Ok(())
    }
    fn whole_allow_hiding(&mut self, entry: Table, allow: bool) -> Result<(), Refused> {
        invoke(table_mapping(entry), op::AllowHiding { allow }).map_err(refused)
    }

    fn whole_is_lost(&self, entry: Table) -> bool {
        table_mapping(entry).identify().is_err()
    }
    fn touch(&mut self, addr: u64, access: Access) -> bool {
        user::touch(addr, access)
    }

    fn child_node(&mut self, node: CNode) -> Result<(), NoMemory> {
        self.nodes.make_child_node(&mut self.arena, node).map_err(no_memory)
    }
    fn child_slots(&mut self, node: CNode, first: u32, count: u32) -> Result<(), NoMemory> {
        let copied = in_child(node, |root, index| {
            let to = Place::within(root, CapAddr::new(index, first));
            slot(node, first).copy_range(to, count, CapType::Null)
        });
        copied.map(|_| ()).map_err(no_memory)
    }
    fn not_inherited(&mut self, table: Table, nodes: [Option<CNode>; 2]) {
        self.nodes.forget(table, nodes);
    }

    fn object_extent(&mut self, object: ObjectId, page: u64) -> Result<Extent, ObjectError> {
        let Caps { arena, nodes, objects, .. } = self;
        objects.extent((arena, nodes), object, page)
    }
    fn object_whole(
        &mut self,
        object: ObjectId,
        page: u64,
        until: u64,
    ) -> Result<Option<Extent>, ObjectError> {
        let Caps { arena, nodes, objects, .. } = self;
        objects.whole((arena, nodes), object, page, until)
    }
    fn object_pages(&self, object: ObjectId) -> u64 {
        self.objects.size(object).div_ceil(PAGE)
    }
    fn object_page_out(&mut self, object: ObjectId, page: u64, pages: u64) {
        self.objects.page_out(object, page, pages);
    }
    fn object_page_in(&mut self, object: ObjectId, page: u64) -> bool {
        self.objects.page_in(object, page)
    }
    fn pages_can_leave(&mut self) -> bool {
        self.objects.may_own && self.objects.can_leave()
    }
    fn object_there(&self, object: ObjectId, page: u64, pages: u64) -> There {
        self.objects.there(object, page, pages)
    }
    fn object_run(&mut self, object: ObjectId, page: u64, pages: u64) -> (u64, bool) {
        let Caps { arena, nodes, objects, .. } = self;
        objects.run((arena, nodes), object, page, pages)
    }
    fn object_has(&mut self, object: ObjectId, page: u64, pages: u64) -> (u64, bool) {
        let Caps { arena, nodes, objects, .. } = self;
        objects.contents((arena, nodes), object, page, pages)
    }
    fn object_is_memory(&self, object: ObjectId) -> bool {
        self.objects.is_memory(object)
    }
    fn object_make(&mut self, object: ObjectId, page: u64) -> bool {
        self.objects.make_room(object, page)
    }
    #[inline]
    fn object_fetch(&mut self, object: ObjectId, page: u64) -> bool {
        let slot = self.slot.take();
        slot.is_some_and(|slot| self.objects.fetch(object, page, slot))
    }
    fn object_is_lost(&mut self, object: ObjectId, page: u64) -> bool {
        self.objects.is_lost(object, page)
    }
    fn object_advise(&mut self, object: ObjectId, large: bool) {
        self.objects.advise(object, large);
    }
    fn object_punch(&mut self, object: ObjectId, page: u64, pages: u64) -> bool {
        self.objects.punch(object, page, pages)
    }
    fn object_own(&mut self, pages: u64, large: bool) -> Option<ObjectId> {
        self.objects.add_own(pages * PAGE, large, false)
    }
    fn object_aside(&mut self, pages: u64) -> Option<ObjectId> {
        self.objects.add_own(pages * PAGE, false, true)
    }
    fn object_grow(&mut self, object: ObjectId, pages: u64, last: u64) -> bool {
        self.objects.grow_own(object, pages * PAGE, last * PAGE)
    }
    fn tries_again(&self) -> bool {
        self.tries_again
    }
    fn object_forget(&mut self, object: ObjectId, page: u64) {
        self.objects.forget_extent(&mut self.nodes, object, page);
    }
    fn object_release(&mut self, object: ObjectId) {
        self.objects.release(&mut self.nodes, object);
    }
}
