//! Retype: capabilities of another type, or to a smaller range, made of a part of a capability.

use super::delete::Progress;
use super::mem::{self, SlotRun};
use super::policy::{CapPolicy, MEMORY, SCALE};
use super::{attr, CapExt, SlotRef, HOME_RAM};
use crate::arch;
use crate::dispatch::{Dcb, Local};
use captypes::invocations::Counter;
use captypes::types::ObjectSize;
use captypes::{CapType, RamAttrs, Rights, Status};
use mdb::{is_ancestor, Class, RawCap};
use paging::PAGE;

/// Most bytes that one invocation copies.
const MOST_COPIED: u64 = 1 << 20;

/// What is to be made.
#[derive(Clone, Copy)]
pub struct Order {
    pub ty: CapType,
    /// First byte (port, line) in the source.
    pub offset: u64,
    /// Of each object.
    pub bytes: u64,
    pub count: u32,
}

/// Is `bytes` a size that an object of type `ty` may have?
fn size_fits(ty: CapType, bytes: u64) -> bool {
    /// Roots have at most 2^24 slots.
    const LARGEST_ROOT: u64 = 64 << 24;
    match ty.object_size() {
        ObjectSize::Fixed(size) => bytes == size,
        ObjectSize::Multiple(_) if ty == CapType::L1CNode && bytes > LARGEST_ROOT => false,
        ObjectSize::Multiple(unit) => bytes > 0 && bytes & (unit - 1) == 0,
        ObjectSize::None => bytes > 0,
    }
}

/// Is there memory behind the capability, which the kernel can clear? Of PhysAddr only what is
/// persistent: all other memory is RAM from the start.
fn is_memory(src: &RawCap) -> bool {
    src.kind() == CapType::Ram || src.ram_attrs().has(RamAttrs::PERSISTENT)
}

impl Order {
    /// The order with its numbers in the units of the database, and the bytes that it takes.
    fn checked(mut self, src: &RawCap) -> Result<(Order, u64), Status> {
        if !src.kind().can_retype_to(self.ty) || self.ty == CapType::Ram && !is_memory(src) {
            return Err(Status::WrongType);
        }
        if !size_fits(self.ty, self.bytes) || self.count == 0 {
            return Err(Status::OutOfRange);
        }
        if CapPolicy::tree_is_scaled(src.ty) {
            let scaled = |n: u64| n.checked_mul(1 << SCALE).ok_or(Status::OutOfRange);
            (self.offset, self.bytes) = (scaled(self.offset)?, scaled(self.bytes)?);
        }
        let total = self.bytes.checked_mul(u64::from(self.count)).ok_or(Status::OutOfRange)?;
        let end = self.offset.checked_add(total).ok_or(Status::OutOfRange)?;
        if self.offset & (PAGE - 1) != 0 || end > src.word {
            return Err(Status::OutOfRange);
        }
        Ok((self, total))
    }
}

impl CapPolicy {
    /// Are objects of this type counted in something else than bytes?
    fn tree_is_scaled(ty: u8) -> bool {
        <CapPolicy as mdb::Policy>::tree(ty) != MEMORY
    }
}

impl Local {
    /// Makes `order.count` objects of a part of `src`, into the empty slots of `dst`.
    pub fn retype(&mut self, src: SlotRef, order: Order, dst: SlotRun) -> Result<(), Status> {
        let source = src.cap();
        let (order, total) = order.checked(&source)?;
        if !dst.all_empty() {
            return Err(Status::Occupied);
        }
        let base = source.base + order.offset;
        let near = self.free_range(src, &source, base, total)?;
        self.prepare(&source, order, base, total);
        let from_ram = source.kind() == CapType::Ram || source.is(CapType::PhysAddr);
        let first = RawCap {
            ty: order.ty as u8,
            rights: if from_ram { Rights::ALL.0 } else { source.rights },
            attrs: source.attrs & attr::INHERITED,
            aux: 0,
            base,
            word: order.bytes,
        };
        self.db.insert_objects(dst, first, order.bytes, near, &source);
        Ok(())
    }

    /// A slot near which objects made of `[base, base + len)` of `src` belong, if nothing else was
    /// made of that range already.
    #[inline]
    fn free_range(
        &self,
        src: SlotRef,
        source: &RawCap,
        base: u64,
        len: u64,
    ) -> Result<SlotRef, Status> {
        if let Some(newest) = self.db.newest_before(source, base, len) {
            return Ok(newest);
        }
        if self.is_taken(src, source, base, len) {
            return Err(Status::HasDescendants);
        }
        Ok(src)
    }

    /// Was something else made of `[base, base + len)` of `src` already? Mappings of a Frame do not
    /// count: its parts may be named while it is mapped.
    fn is_taken(&self, src: SlotRef, source: &RawCap, base: u64, len: u64) -> bool {
        if source.is(CapType::Frame) || source.is(CapType::DevFrame) {
            return self
                .db
                .overlapping(MEMORY, base, len, Class::Objects)
                .any(|slot| is_ancestor::<CapPolicy>(source, &slot.cap()));
        }
        self.db.descendant_overlaps(src, base, len)
    }

    /// Brings memory into the state that objects of this type begin in.
    fn prepare(&mut self, source: &RawCap, order: Order, base: u64, total: u64) {
        if source.kind() != CapType::Ram || order.ty == CapType::Ram {
            return;
        }
        self.with_vectors(|| mem::zero(base, total));
        self.add(Counter::PagesZeroed, total / PAGE);
        let starts = (0..u64::from(order.count)).map(|n| base + n * order.bytes);
        match order.ty {
            CapType::Pml4 => starts.for_each(install_kernel_half),
            CapType::Dispatcher => starts.for_each(Dcb::init),
            _ => {}
        }
    }

    /// Makes a Frame of `bytes` at `offset` of the RAM in `ram`, with the contents of a part of
    /// another Frame; see [`captypes::op::RetypeCopy`].
    pub fn retype_copy(
        &mut self,
        ram: SlotRef,
        offset: u64,
        bytes: u64,
        original: SlotRef,
        from: u64,
        dst: SlotRef,
    ) -> Result<(), Status> {
        let (source, frame) = (ram.cap(), original.cap());
        if source.kind() != CapType::Ram || !frame.is(CapType::Frame) {
            return Err(Status::WrongType);
        }
        if !frame.rights_set().has(Rights::READ) {
            return Err(Status::NoRights);
        }
        let are_pages = |offset: u64, cap: &RawCap| {
            (offset | bytes) & (PAGE - 1) == 0 && offset < cap.word && bytes <= cap.word - offset
        };
        let right_size = bytes != 0 && bytes <= MOST_COPIED;
        if !right_size || !are_pages(offset, &source) || !are_pages(from, &frame) {
            return Err(Status::OutOfRange);
        }
        let base = source.base + offset;
        if dst == original && !self.db.has_copies(original) {
            return Err(Status::WrongState);
        }
        let near = self.free_range(ram, &source, base, bytes)?;
        self.with_vectors(|| {
            for at in (0..bytes).step_by(PAGE as usize) {
                mem::copy_page(base + at, frame.base + from + at);
            }
        });
        if dst == original {
            self.add(Counter::PageCopies, bytes / PAGE);
            if self.delete_slot(original) == Progress::Again {
                return Err(Status::Again);
            }
        }
        let attrs = source.attrs & attr::INHERITED;
        let cap = super::memory_cap(CapType::Frame as u8, Rights::ALL, attrs, base, bytes);
        // Deleting the original may have taken what was near.
        let near = if near.is_empty() { ram } else { near };
        self.db.insert_objects(SlotRun::one(dst), cap, bytes, near, &source);
        Ok(())
    }
}

/// Gives a new root table the kernel's upper half.
pub fn install_kernel_half(table: u64) {
    let table = mem::Table::at(table);
    for (index, &entry) in (256..).zip(arch::kernel_pml4_entries()) {
        table.set(index, entry);
    }
}

/// Home RAM is what `init` gets at boot: its children are plain RAM.
pub const fn home_ram(base: u64, bytes: u64, node: u8) -> RawCap {
    super::memory_cap(HOME_RAM, Rights::ALL, node as u16, base, bytes)
}
