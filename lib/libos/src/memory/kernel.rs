//! Page-table operations of the shadow tables, as invocations.

use crate::vspace::RWX;
use crate::{domain, Cap};
use abi::layout::PAGE;
use captypes::invocations::MapFlags;
use captypes::{CapAddr, CapType, Status};
use pmap::Backend;

/// Performs operations on the domain's own tables, with slots and RAM of [`domain`].
#[derive(Debug)]
pub struct Kernel;

impl Kernel {
    /// Calls `make` with a free slot, which is in use if that succeeds.
    fn in_slot(make: impl FnOnce(CapAddr) -> Result<(), Status>) -> Result<CapAddr, Status> {
        let slot = crate::frame::Slot::new()?;
        make(slot.addr)?;
        Ok(slot.keep())
    }

    fn free(slots: &[CapAddr]) {
        // Nothing in it fails.
        let _ = domain::with(|domain| {
            slots.iter().for_each(|&slot| domain.slots.free(slot));
            Ok(())
        });
    }
}

/// The first slots of `slots` that follow each other in one CNode: their number.
fn consecutive(slots: impl Iterator<Item = CapAddr>) -> usize {
    let mut slots = slots.peekable();
    let Some(&first) = slots.peek() else { return 0 };
    let follows = |(n, slot): &(usize, CapAddr)| {
        slot.l1() == first.l1() && slot.l2() == first.l2() + *n as u32
    };
    slots.enumerate().take_while(follows).count()
}

impl Backend for Kernel {
    type Table = CapAddr;
    type Mapping = CapAddr;
    type Frame = CapAddr;
    type Rights = MapFlags;
    type Error = Status;

    fn make_table(&mut self, level: u8) -> Result<CapAddr, Status> {
        let ty = CapType::table_of_level(level).ok_or(Status::WrongLevel)?;
        domain::with(|domain| domain.make(ty, PAGE))
    }

    fn delete_table(&mut self, table: CapAddr) {
        if matches!(table.delete(), Ok(()) | Err(Status::Empty)) {
            Kernel::free(&[table]);
        }
    }

    fn map_table(
        &mut self,
        table: CapAddr,
        entry: u32,
        child: CapAddr,
        rights: Option<MapFlags>,
    ) -> Result<CapAddr, Status> {
        Kernel::in_slot(|slot| table.map(entry, 1, child, 0, rights.unwrap_or(RWX), slot))
    }

    fn map(
        &mut self,
        table: CapAddr,
        entry: u32,
        count: u32,
        frame: CapAddr,
        offset: u64,
        rights: MapFlags,
    ) -> Result<CapAddr, Status> {
        Kernel::in_slot(|slot| table.map(entry, count, frame, offset, rights, slot))
    }

    fn protect(
        &mut self,
        mapping: CapAddr,
        first: u32,
        count: u32,
        rights: MapFlags,
    ) -> Result<(), Status> {
        mapping.protect(first, count, rights)
    }

    fn protect_many(
        &mut self,
        mut mappings: &[(CapAddr, u32)],
        rights: MapFlags,
    ) -> Result<(), Status> {
        while let &[(first, entries), ..] = mappings {
            let count = consecutive(mappings.iter().map(|&(slot, _)| slot));
            match count {
                1 => first.protect(0, entries, rights)?,
                _ => drop(first.protect_many(count as u32, rights)?),
            }
            mappings = &mappings[count..];
        }
        Ok(())
    }

    fn unmap(
        &mut self,
        mapping: CapAddr,
        first: u32,
        count: u32,
        splits: bool,
    ) -> Result<Option<CapAddr>, Status> {
        if splits {
            let unmap = |rest| match mapping.unmap(first, count, rest) {
                Ok(()) | Err(Status::Empty) => Ok(()),
                Err(error) => Err(error),
            };
            return Kernel::in_slot(unmap).map(Some);
        }
        match mapping.unmap(first, count, CapAddr::NULL) {
            // Revoked: gone already.
            Ok(()) | Err(Status::Empty) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn delete(&mut self, mut mappings: &[CapAddr]) {
        while let &[first, ..] = mappings {
            let count = consecutive(mappings.iter().copied());
            let gone = match count {
                1 => first.delete(),
                _ => first.delete_range(count as u32),
            };
            // Empty: what was mapped was revoked.
            if matches!(gone, Ok(()) | Err(Status::Empty)) {
                Kernel::free(&mappings[..count]);
            }
            mappings = &mappings[count..];
        }
    }

    fn forget(&mut self, mapping: CapAddr) {
        Kernel::free(&[mapping]);
    }
}
