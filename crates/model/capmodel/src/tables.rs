//! Page tables: map, protect, unmap, replace.

use crate::errors::Check;
use crate::{page_bytes, Answer, Cap, Errors, Mapping, Model, SlotKey, Words, PAGE};
use captypes::invocations::{MapFlags, StatusBits};
use captypes::{op, CapType, Place, RamAttrs, Rights, Status};

/// Entries of a table.
const ENTRIES: u32 = 512;

/// An entry of a page table in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Physical address of the page or table.
    pub address: u64,
    /// Bytes of the page; 0: a table of the next level.
    pub page: u64,
    /// May be written through it.
    pub write: bool,
    /// May be executed through it.
    pub execute: bool,
    /// Maps a page that is written to only while alone.
    pub alone: bool,
    /// Shows the kernel's page of zeros, wherever that is, and has no Mapping.
    pub zero: bool,
    /// Bypasses the caches.
    pub uncached: bool,
    /// Made before the first operation: nothing more is known about it.
    pub opaque: bool,
    /// Used since it was made or this was cleared. If not, the processor may still say so: it looks
    /// ahead.
    pub accessed: bool,
    /// Written through since it was made or this was cleared. The processor says so only then.
    pub dirty: bool,
}

impl Entry {
    /// One that shows the page of zeros.
    fn of_zeros(execute: bool) -> Entry {
        Entry {
            address: 0,
            page: PAGE,
            write: false,
            execute,
            alone: false,
            zero: true,
            uncached: false,
            opaque: false,
            accessed: false,
            dirty: false,
        }
    }

    /// As it is in memory.
    pub fn word(&self) -> u64 {
        let bit = |set: bool, bit: u32| u64::from(set) << bit;
        let (present, user) = (1, 1 << 2);
        let caching = bit(self.uncached, 3) | bit(self.uncached, 4);
        self.address
            | present
            | bit(self.write, 1)
            | user
            | caching
            | bit(self.accessed, 5)
            | bit(self.dirty, 6)
            | bit(self.page > PAGE, 7)
            | bit(!self.execute, 63)
    }
}

/// Mappings that `Locate` can look at in any case.
const FEW: usize = 16;
/// The bits of an entry that are an address.
const ADDRESS: u64 = 0xf_ffff_ffff_f000;
/// The accessed bit of an entry.
const ACCESSED: u64 = 1 << 5;

/// What would be mapped.
#[derive(Clone, Copy)]
struct Target {
    is_table: bool,
    rights: Rights,
}

/// What a table of `level` can hold of a capability.
fn target(level: u8, cap: &Cap) -> Result<Target, Status> {
    let below = cap.level();
    match below {
        _ if cap.is_frame() && level <= 3 => Ok(Target { is_table: false, rights: cap.rights }),
        _ if cap.is_frame() => Err(Status::WrongLevel),
        None => Err(Status::WrongType),
        Some(below) if below + 1 == level => Ok(Target { is_table: true, rights: cap.rights }),
        // A last-level table shows any table as a page, to read.
        Some(_) if level == 1 => {
            Ok(Target { is_table: false, rights: cap.rights.and(Rights::READ) })
        }
        Some(_) => Err(Status::WrongLevel),
    }
}

/// May something be written to with these rights? `alone`: nobody else has it.
pub(crate) fn may_write(rights: Rights, alone: bool) -> Result<(), Status> {
    if rights.has(Rights::WRITE) || rights.has(Rights::WRITE_ALONE) && alone {
        Ok(())
    } else if rights.has(Rights::WRITE_ALONE) {
        Err(Status::Shared)
    } else {
        Err(Status::NoRights)
    }
}

/// May something that may be mapped with `rights` be mapped with these flags?
fn may_map(flags: MapFlags, rights: Rights, alone: bool) -> Result<(), Status> {
    let executed = flags.has(MapFlags::EXEC);
    if !rights.has(Rights::READ) || executed && !rights.has(Rights::EXEC) {
        return Err(Status::NoRights);
    }
    // Who asks for exclusive pages only gets others as they are.
    let alone = alone || flags.has(MapFlags::IF_EXCLUSIVE);
    if flags.has(MapFlags::WRITE) {
        may_write(rights, alone)
    } else {
        Ok(())
    }
}

/// Is it written to only while alone?
fn is_alone_kind(rights: Rights) -> bool {
    rights.has(Rights::WRITE_ALONE) && !rights.has(Rights::WRITE)
}

/// Entries of a table that user mode has.
pub(crate) fn user_entries(level: u8) -> u32 {
    if level >= 4 {
        ENTRIES / 2
    } else {
        ENTRIES
    }
}

/// What one entry of a new Mapping maps.
struct Page {
    address: u64,
    target: Target,
    flags: MapFlags,
}

/// Most entries of Mappings of more than one page that are changed at once.
const MOST_ENTRIES: u32 = 1 << 12;

impl Model {
    /// The base and level of a table in a slot.
    fn table(&self, slot: SlotKey) -> Result<(u64, u8), Status> {
        let cap = &self.slots[&slot];
        cap.level().map(|level| (cap.base, level)).ok_or(Status::WrongType)
    }

    /// The same, to change its entries; and whether they change only while nobody else has it.
    fn table_to_change(&self, check: &mut Check, slot: SlotKey) -> Option<(u64, u8, bool)> {
        let table = check.get(self.table(slot));
        let rights = self.slots[&slot].rights;
        if table.is_some() {
            check.get(may_write(rights, !self.has_copies(slot)));
        }
        table.map(|(base, level)| (base, level, is_alone_kind(rights)))
    }

    /// Is there no other capability to the same object, nor to the CNode in which this one is, and is nothing
    /// of it lent?
    pub(crate) fn is_alone(&self, slot: SlotKey) -> bool {
        if self.is_lent(&self.slots[&slot]) {
            return false;
        }
        let holders = self.slots.values().filter(|cap| cap.is_container() && cap.base == slot.0);
        #[cfg(test)]
        if self.ignores_holders {
            return !self.has_copies(slot);
        }
        !self.has_copies(slot) && holders.count() == 1
    }

    /// Would somebody else see it if a Frame were written to?
    pub(crate) fn is_others_too(&self, slot: SlotKey) -> bool {
        match is_alone_kind(self.slots[&slot].rights) {
            true => !self.is_alone(slot),
            false => self.has_copies(slot) || self.is_lent(&self.slots[&slot]),
        }
    }

    /// May the entries change for which a capability stands, if it is a Mapping?
    pub(crate) fn may_change_entries(&self, cap: &Cap) -> Result<(), Status> {
        let Some(mapping) = cap.mapping.filter(|mapping| mapping.in_alone) else { return Ok(()) };
        let tables = self.slots.values().filter(|cap| cap.level().is_some());
        match tables.filter(|cap| cap.base == mapping.table).count() {
            1 => Ok(()),
            _ => Err(Status::Shared),
        }
    }

    /// Has anybody else had a table since its entries were last known to be right?
    pub(crate) fn was_copied(&self, table: &Cap) -> bool {
        self.were_copied.contains(&table.base)
    }

    /// What is written to only while alone, and is in a table that somebody lets write again by the
    /// entry above, is read-only unless it has been alone all the time.
    fn settle(&mut self, table: &Cap) {
        if !is_alone_kind(table.rights) || !self.were_copied.remove(&table.base) {
            return;
        }
        let entries = self.entries.range_mut((table.base, 0)..(table.base, u32::MAX));
        entries.filter(|(_, entry)| entry.alone).for_each(|(_, entry)| entry.write = false);
    }

    pub(crate) fn clear(&mut self, table: u64, first: u32, count: u32) {
        for index in first..first + count {
            self.entries.remove(&(table, index));
        }
    }

    /// Is there anything at an entry but, perhaps, the page of zeros?
    fn is_used(&self, table: u64, index: u32) -> bool {
        self.entries.get(&(table, index)).is_some_and(|entry| !entry.zero)
    }

    pub(crate) fn map_zero(&mut self, who: usize, target: Place, args: op::MapZero) -> Answer {
        let mut check = Check::default();
        let slot = check.get(self.used(who, target));
        let table = slot.and_then(|slot| self.table_to_change(&mut check, slot));
        let end = args.entry.checked_add(args.count);
        let inside = args.entry < ENTRIES && end.is_some_and(|end| end <= ENTRIES);
        if let Some((_, level, _)) = table {
            check.demand(level == 1, Status::WrongLevel);
            check.demand(inside, Status::OutOfRange);
            check.demand(!args.flags.has(MapFlags::WRITE), Status::NoRights);
        }
        let (table, ..) = check.passed(table)?;
        let mut count = 0;
        for index in args.entry..args.entry + args.count {
            let old = self.entries.get(&(table, index)).copied();
            match (args.flags.has(MapFlags::READ), old) {
                (true, None) => {
                    let execute = args.flags.has(MapFlags::EXEC);
                    self.entries.insert((table, index), Entry::of_zeros(execute));
                    count += 1;
                }
                (false, Some(old)) if old.zero => {
                    self.entries.remove(&(table, index));
                    count += 1;
                }
                _ => {}
            }
        }
        Ok(Words::one(count))
    }

    /// May pages be written through a mapping with these flags, which were found to be allowed?
    fn writable(&self, flags: MapFlags, others_too: bool) -> bool {
        flags.has(MapFlags::WRITE) && !(flags.has(MapFlags::IF_EXCLUSIVE) && others_too)
    }

    /// Writes the entries of a Mapping, and puts it in a slot.
    fn make_mapping(
        &mut self,
        dst: SlotKey,
        table: (u64, u8, bool),
        run: (u32, u32),
        page: Page,
        others_too: bool,
    ) {
        let ((table, level, in_alone), (first, count)) = (table, run);
        let Target { is_table, rights } = page.target;
        let bytes = if is_table { PAGE } else { page_bytes(level) };
        for n in 0..count {
            let entry = Entry {
                address: page.address + u64::from(n) * bytes,
                page: if is_table { 0 } else { bytes },
                write: self.writable(page.flags, others_too),
                alone: !is_table && is_alone_kind(rights),
                zero: false,
                execute: page.flags.has(MapFlags::EXEC),
                uncached: page.flags.has(MapFlags::UNCACHED),
                opaque: false,
                accessed: false,
                dirty: false,
            };
            self.entries.insert((table, first + n), entry);
        }
        let mapping = Mapping { table, level, first, count, is_table, in_alone };
        self.put(dst, mapping_cap(mapping, page.address, rights));
    }

    pub(crate) fn map(&mut self, who: usize, target_place: Place, args: op::Map) -> Answer {
        let mut check = Check::default();
        let table = check.get(self.used(who, target_place));
        let src = check.get(self.used(who, args.src));
        let dst = self.free(&mut check, who, args.mapping);
        let table = table.and_then(|slot| self.table_to_change(&mut check, slot));
        let what = src.map(|slot| self.slots[&slot]);
        let target =
            table.zip(what).and_then(|((_, level, _), cap)| check.get(target(level, &cap)));
        check.demand(args.count > 0, Status::OutOfRange);
        if let Some((base, level, _)) = table {
            let end = args.entry.checked_add(args.count);
            let inside = end.is_some_and(|end| end <= user_entries(level));
            check.demand(inside && args.entry < user_entries(level), Status::OutOfRange);
            let used = |index| self.is_used(base, index);
            check.demand(!inside || !(args.entry..args.entry + args.count).any(used), {
                Status::Occupied
            });
        }
        if let (Some((_, level, _)), Some(what), Some(target)) = (table, what, target) {
            let alone = src.is_some_and(|src| self.is_alone(src));
            check.get(may_map(args.flags, target.rights, alone));
            let fits = fits(level, &what, target, args.offset, args.count);
            check.demand(fits, Status::OutOfRange);
        }
        let all = table.zip(what).zip(target).zip(src.zip(dst));
        let (((table, what), target), (src, dst)) = check.passed(all)?;
        let page = Page { address: what.base + args.offset, target, flags: args.flags };
        let others_too = self.is_others_too(src);
        if target.is_table && self.writable(args.flags, others_too) {
            self.settle(&what);
        }
        self.make_mapping(dst, table, (args.entry, args.count), page, others_too);
        Ok(Words::NONE)
    }

    pub(crate) fn map_many(&mut self, who: usize, place: Place, args: op::MapMany) -> Answer {
        let mut check = Check::default();
        let src = check.get(self.run(who, args.src, args.count));
        let dst = self.run_to_change(&mut check, who, args.mapping, args.count);
        let table = check.get(self.used(who, place));
        let table = table.and_then(|slot| self.table_to_change(&mut check, slot));
        let inside = table.is_some_and(|(_, level, _)| {
            let end = args.entry.checked_add(args.count);
            args.entry < user_entries(level) && end.is_some_and(|end| end <= user_entries(level))
        });
        check.demand(table.is_none() || inside, Status::OutOfRange);
        if let (Some((base, level, _)), Some(src), Some(dst), true) = (table, &src, &dst, inside) {
            for (n, (src, dst)) in (args.entry..).zip(src.iter().zip(dst)) {
                let Some(what) = self.slots.get(src) else { continue };
                if self.is_used(base, n) {
                    continue;
                }
                check.demand(!self.slots.contains_key(dst), Status::Occupied);
                let Some(target) = check.get(target(level, what)) else { continue };
                check.get(may_map(args.flags, target.rights, self.is_alone(*src)));
                check.demand(is_one(level, what, target), Status::OutOfRange);
            }
        }
        let (table, (src, dst)) = check.passed(table.zip(src.zip(dst)))?;
        let mut count = 0;
        for (n, (src, dst)) in (args.entry..).zip(src.into_iter().zip(dst)) {
            let Some(what) = self.slots.get(&src).copied() else { continue };
            // What this very operation has put into a slot or an entry is passed over.
            let in_use = self.is_used(table.0, n) || self.slots.contains_key(&dst);
            let Ok(target) = target(table.1, &what) else { continue };
            if in_use {
                continue;
            }
            let page = Page { address: what.base, target, flags: args.flags };
            let others_too = self.is_others_too(src);
            if target.is_table && self.writable(args.flags, others_too) {
                self.settle(&what);
            }
            self.make_mapping(dst, table, (n, 1), page, others_too);
            count += 1;
        }
        Ok(Words::one(count))
    }

    /// The innermost object around a Mapping.
    fn mapped(&self, cap: &Cap) -> Option<SlotKey> {
        let around = self.slots.iter().filter(|(_, other)| cap.descends_from(other));
        let inner = around.min_by_key(|(_, other)| (other.bytes, u8::MAX - other.ty.rank()));
        inner.map(|(&slot, _)| slot)
    }

    /// May the entries of a Mapping get these rights?
    fn may_protect(&self, cap: &Cap, flags: MapFlags) -> Result<(), Status> {
        may_map(flags, cap.rights, self.mapped(cap).is_some_and(|slot| self.is_alone(slot)))
    }

    /// Do others have what is mapped, by the right that the Mapping has?
    fn is_shared(&self, cap: &Cap) -> bool {
        self.mapped(cap).is_none_or(|slot| match is_alone_kind(cap.rights) {
            true => !self.is_alone(slot),
            false => self.has_copies(slot) || self.is_lent(&self.slots[&slot]),
        })
    }

    fn set_rights(&mut self, cap: &Cap, mapping: Mapping, run: (u32, u32), flags: MapFlags) {
        let write = self.writable(flags, flags.has(MapFlags::IF_EXCLUSIVE) && self.is_shared(cap));
        if let (true, true, Some(table)) = (write, mapping.is_table, self.mapped(cap)) {
            let entry = self.entries.get(&(mapping.table, mapping.first));
            if is_alone_kind(cap.rights) && entry.is_some_and(|entry| !entry.write) {
                self.settle(&self.slots[&table].clone());
            }
        }
        for index in mapping.first + run.0..mapping.first + run.0 + run.1 {
            if let Some(entry) = self.entries.get_mut(&(mapping.table, index)) {
                (entry.write, entry.execute) = (write, flags.has(MapFlags::EXEC));
            }
        }
    }

    /// The Mapping at a place, and whether entries `first..first + count` are in it.
    fn part(
        &self,
        check: &mut Check,
        slot: Option<SlotKey>,
        first: u32,
        count: u32,
    ) -> Option<(SlotKey, Cap, Mapping)> {
        let cap = self.slots[&slot?];
        let mapping = check.get(cap.mapping.ok_or(Status::WrongType))?;
        let end = first.checked_add(count);
        let inside = count > 0 && end.is_some_and(|end| end <= mapping.count);
        check.demand(inside, Status::OutOfRange);
        Some((slot?, cap, mapping))
    }

    pub(crate) fn protect(&mut self, who: usize, target: Place, args: op::Protect) -> Answer {
        let mut check = Check::default();
        let slot = self.used_to_change(&mut check, who, target);
        let part = self.part(&mut check, slot, args.first, args.count);
        if let Some((_, cap, _)) = part {
            check.get(self.may_protect(&cap, args.flags));
        }
        let (_, cap, mapping) = check.passed(part)?;
        self.set_rights(&cap, mapping, (args.first, args.count), args.flags);
        Ok(Words::NONE)
    }

    pub(crate) fn protect_many(
        &mut self,
        who: usize,
        target: Place,
        args: op::ProtectMany,
    ) -> Answer {
        let mut check = Check::default();
        let slots = self.run_to_change(&mut check, who, target, args.count);
        let caps = slots.iter().flatten().filter_map(|slot| self.slots.get(slot).copied());
        let mappings: Vec<Cap> = caps.filter(|cap| cap.mapping.is_some()).collect();
        for cap in &mappings {
            check.get(self.may_change_entries(cap));
            check.get(self.may_protect(cap, args.flags));
        }
        let entries: u32 = mappings.iter().filter_map(|cap| cap.mapping).map(|own| own.count).sum();
        check.demand(
            entries <= MOST_ENTRIES || mappings.len() as u32 == entries,
            Status::OutOfRange,
        );
        check.passed(slots)?;
        for cap in &mappings {
            let Some(mapping) = cap.mapping else { continue };
            self.set_rights(cap, mapping, (0, mapping.count), args.flags);
        }
        Ok(Words::one(mappings.len() as u64))
    }

    pub(crate) fn unmap(&mut self, who: usize, target: Place, args: op::Unmap) -> Answer {
        let mut check = Check::default();
        let slot = self.used_to_change(&mut check, who, target);
        let part = self.part(&mut check, slot, args.first, args.count);
        let mut rest = None;
        if let (Some((_, _, mapping)), true) = (part, check.errors().is_empty()) {
            if args.first > 0 && args.first + args.count < mapping.count {
                rest = self.free(&mut check, who, args.rest);
            }
        }
        let (slot, cap, mapping) = check.passed(part)?;
        self.clear(mapping.table, mapping.first + args.first, args.count);
        self.take(slot);
        let piece = |first: u32, count: u32| {
            let address = cap.base + u64::from(first) * cap.bytes / u64::from(mapping.count);
            let mapping = Mapping { first: mapping.first + first, count, ..mapping };
            mapping_cap(mapping, address, cap.rights)
        };
        let behind = args.first + args.count;
        let tail = (behind < mapping.count).then(|| piece(behind, mapping.count - behind));
        let head = (args.first > 0).then(|| piece(0, args.first));
        match (head, tail, rest) {
            (Some(head), Some(tail), Some(rest)) => {
                self.put(slot, head);
                self.put(rest, tail);
            }
            (Some(only), ..) | (None, Some(only), _) => self.put(slot, only),
            (None, None, _) => {}
        }
        Ok(Words::NONE)
    }

    pub(crate) fn replace(&mut self, who: usize, place: Place, args: op::Replace) -> Answer {
        let mut check = Check::default();
        let slot = self.used_to_change(&mut check, who, place);
        let src = check.get(self.used(who, args.src));
        let old =
            slot.and_then(|slot| check.get(self.slots[&slot].mapping.ok_or(Status::WrongType)));
        let what = src.map(|slot| self.slots[&slot]);
        let new = old.zip(what).and_then(|(old, what)| check.get(target(old.level, &what)));
        if let (Some(old), Some(what), Some(new)) = (old, what, new) {
            check.demand(old.count == 1 && !old.is_table && !new.is_table, Status::OutOfRange);
            let alone = src.is_some_and(|src| self.is_alone(src));
            check.get(may_map(args.flags, new.rights, alone));
            let fits = new.is_table || fits(old.level, &what, new, 0, 1);
            check.demand(fits, Status::OutOfRange);
        }
        let all = slot.zip(src).zip(old.zip(what).zip(new));
        let ((slot, src), ((old, what), target)) = check.passed(all)?;
        let others_too = self.is_others_too(src);
        self.take(slot);
        let page = Page { address: what.base, target, flags: args.flags };
        let table = (old.table, old.level, old.in_alone);
        self.make_mapping(slot, table, (old.first, 1), page, others_too);
        Ok(Words::NONE)
    }

    pub(crate) fn read_entry(&mut self, who: usize, target: Place, args: op::ReadEntry) -> Answer {
        let mut check = Check::default();
        let slot = check.get(self.used(who, target));
        let table = slot.and_then(|slot| check.get(self.table(slot)));
        let inside = table.is_none_or(|(_, level)| args.entry < user_entries(level));
        let readable = slot.is_none_or(|slot| self.slots[&slot].rights.has(Rights::READ));
        check.demand(inside, Status::OutOfRange);
        check.demand(readable, Status::NoRights);
        let (table, _) = check.passed(table)?;
        let (value, mask) = self.entry_word(table, args.entry);
        Ok(Words::masked(value, mask))
    }

    pub(crate) fn clear_status(
        &mut self,
        who: usize,
        target: Place,
        args: op::ClearStatus,
    ) -> Answer {
        let mut check = Check::default();
        let slot = check.get(self.used(who, target));
        let table = slot.and_then(|slot| self.table_to_change(&mut check, slot));
        if let Some((_, level, _)) = table {
            let end = args.entry.checked_add(args.count);
            let limit = user_entries(level);
            let inside = args.entry < limit && end.is_some_and(|end| end <= limit);
            check.demand(inside, Status::OutOfRange);
        }
        let (table, ..) = check.passed(table)?;
        let (clears_accessed, clears_dirty) =
            (args.bits.has(StatusBits::ACCESSED), args.bits.has(StatusBits::DIRTY));
        let (mut count, mut certain) = (0, true);
        for (_, entry) in
            self.entries.range_mut((table, args.entry)..(table, args.entry + args.count))
        {
            let was_set = clears_accessed && entry.accessed || clears_dirty && entry.dirty;
            count += u64::from(was_set);
            certain &= was_set || !clears_accessed && !entry.opaque;
            entry.accessed &= !clears_accessed;
            entry.dirty &= !clears_dirty;
        }
        Ok(Words::masked(count, if certain { u64::MAX } else { 0 }))
    }

    pub(crate) fn locate(&mut self, who: usize, target: Place, args: op::Locate) -> Answer {
        let mut check = Check::default();
        let what = check.get(self.used(who, target)).map(|slot| self.slots[&slot]);
        let root = check.get(self.used(who, args.root));
        let root = root.and_then(|slot| check.get(self.table(slot)));
        let found = what.and_then(|cap| match cap.mapping {
            Some(m) => Some((m.table, u64::from(m.first) * page_bytes(m.level))),
            None => cap.level().map(|_| (cap.base, 0)),
        });
        check.demand(what.is_none() || found.is_some(), Status::WrongType);
        let ((root, _), (table, offset)) = check.passed(root.zip(found))?;
        let mut places = Vec::new();
        let looked_at = self.add_places(root, table, 0, &mut places);
        places.sort_unstable();
        let address = places.get(args.number as usize).map_or(0, |place| place + offset);
        let value = [address, places.len() as u64, 0, 0, 0, 0];
        // How many can be looked at is left open, but for a few.
        let many = places.len() > 1 || looked_at > FEW;
        let or = if many { Errors::one(Status::OutOfRange) } else { Errors::NONE };
        Ok(Words { value, mask: [u64::MAX; 6], or })
    }

    /// Where a table begins to translate below another one: by every Mapping of it, and so on upwards.
    /// Answers how many Mappings were looked at.
    pub(crate) fn add_places(
        &self,
        root: u64,
        table: u64,
        offset: u64,
        places: &mut Vec<u64>,
    ) -> usize {
        if table == root {
            places.push(offset);
            return 0;
        }
        let mappings = self.slots.values().filter(|cap| cap.base == table);
        let mut looked_at = 0;
        for mapping in mappings.filter_map(|cap| cap.mapping) {
            looked_at += 1;
            if mapping.is_table {
                let offset = offset + u64::from(mapping.first) * page_bytes(mapping.level);
                looked_at += self.add_places(root, mapping.table, offset, places);
            }
        }
        looked_at
    }

    /// An entry as it is read, and the bits of that which the rules determine.
    pub(crate) fn entry_word(&self, table: u64, index: u32) -> (u64, u64) {
        match self.entries.get(&(table, index)) {
            Some(entry) if entry.opaque => (0, 0),
            Some(entry) => {
                let accessed = if entry.accessed { 0 } else { ACCESSED };
                let address = if entry.zero { ADDRESS } else { 0 };
                (entry.word(), !accessed & !address)
            }
            None => (0, u64::MAX),
        }
    }

    pub(crate) fn entry(&self, table: u64, index: u32) -> Option<Entry> {
        self.entries.get(&(table, index)).copied()
    }

    /// An entry that was made before the first operation.
    pub fn import_entry(&mut self, table: u64, index: u32) {
        let entry = Entry {
            address: 0,
            page: 0,
            write: true,
            execute: true,
            alone: false,
            zero: false,
            uncached: false,
            opaque: true,
            accessed: false,
            dirty: false,
        };
        self.entries.insert((table, index), entry);
    }
}

fn mapping_cap(mapping: Mapping, base: u64, rights: Rights) -> Cap {
    let page = if mapping.is_table { PAGE } else { page_bytes(mapping.level) };
    Cap {
        ty: CapType::Mapping,
        base,
        bytes: u64::from(mapping.count) * page,
        rights,
        attrs: RamAttrs(0),
        badge: 0,
        mapping: Some(mapping),
    }
}

/// Do `count` pages of a table of `level`, or one table, begin at `offset` of `what`?
fn fits(level: u8, what: &Cap, target: Target, offset: u64, count: u32) -> bool {
    if target.is_table {
        return offset == 0 && count == 1;
    }
    let page = page_bytes(level);
    let end = u64::from(count).checked_mul(page).and_then(|bytes| offset.checked_add(bytes));
    end.is_some_and(|end| end <= what.bytes) && (what.base + offset).is_multiple_of(page)
}

/// Is it exactly one page of this level, or one table?
fn is_one(level: u8, what: &Cap, target: Target) -> bool {
    target.is_table || (what.bytes == page_bytes(level) && what.base.is_multiple_of(what.bytes))
}
