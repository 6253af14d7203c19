//! Retype: capabilities of another type, or to a smaller range, made of a part of a capability.
//!
//! Zeroing takes time. What is more than [`MOST_ZEROED`] is zeroed in as many invocations as it
//! takes; in between, the first destination slot holds a Blank: a capability to the whole range
//! with which nothing can be done, whose `aux` counts the pages that are zeros already. As it is in
//! the database, nobody else can make anything of the range, and nothing else must be remembered.

use super::asks::is_own_home;
use super::budget::Progress;
use super::policy::{CapPolicy, MEMORY, SCALE};
use super::CapSpace;
use super::{attr, copied_attrs, made_attrs, CapExt, HOME_RAM};
use crate::arch::{self, VectorUnit};
use crate::cores::CoreId;
use crate::object::mem::{self};
use crate::object::{Dcb, SlotRef, SlotRun};
use captypes::invocations::{Counter, Part};
use captypes::types::{Birth, ObjectSize};
use captypes::{CapType, ObjectKind, RamAttrs, Rights, Status, TypeSet};
use mdb::{is_copy, RawCap};
use paging::PAGE;

/// Most bytes that one invocation zeroes: some 70,000 instructions.
pub const MOST_ZEROED: u64 = 1 << 20;

/// The same of objects of which more must be done than to zero them.
const MOST_PREPARED: u64 = MOST_ZEROED / 4;

/// What is to be made.
#[derive(Clone, Copy)]
pub struct Order {
    pub kind: ObjectKind,
    /// First byte (port, line) in the source.
    pub offset: u64,
    /// Of each object.
    pub bytes: u64,
    pub count: u32,
}

/// For each type, those that it may be made of.
const SOURCES: [TypeSet; 32] = {
    let mut sources = [TypeSet::of(&[]); 32];
    let mut at = 0;
    while at < CapType::ROWS.len() {
        sources[CapType::ROWS[at] as usize] = TypeSet::of(CapType::ROWS[at].sources());
        at += 1;
    }
    sources
};

/// May a capability of type `from` be retyped to `to`?
#[inline(always)]
fn may_become(from: CapType, to: CapType) -> bool {
    SOURCES[to as usize & 31].has(from)
}

/// Is `bytes` a size that an object of type `ty` may have?
#[inline(always)]
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

/// Must memory be zeroed when something of this type is made of it? What is persistent is made to be found again.
#[inline]
fn is_zeroed(source: &RawCap, ty: CapType) -> bool {
    let kept = source.attrs & RamAttrs::PERSISTENT.0;
    source.kind() == CapType::Ram && kept == 0 && TypeSet::ZEROED.const_has_number(ty as u8)
}

/// What the kernel itself relies on is not made of memory with the contents of another boot, which
/// it does not clear, and of which the kernel's map may show nothing.
#[inline]
fn is_of_other_boots(src: &RawCap, ty: CapType) -> bool {
    src.attrs & RamAttrs::PERSISTENT.0 != 0 && TypeSet::KERNEL_OBJECTS.const_has_number(ty as u8)
}

/// Must more be done with objects of this type than to zero their memory?
fn is_prepared(ty: CapType) -> bool {
    let level = ty.table_level();
    TypeSet::PREPARED.has(ty) && (level.is_none() || level == Some(arch::root_level()))
}

/// Most bytes of objects of this type that one invocation makes of RAM: to prepare an object takes some
/// three times as long as to zero it.
#[inline(never)]
fn most_made(ty: CapType) -> u64 {
    if is_prepared(ty) {
        MOST_PREPARED
    } else {
        MOST_ZEROED
    }
}

/// Brings zeroed memory into the state that an object of another type than Frame begins in.
fn prepare_object(kind: ObjectKind, base: u64, home: CoreId) {
    match kind.ty.birth() {
        Birth::Table if kind.ty.table_level() == Some(arch::root_level()) => {
            install_kernel_half(base)
        }
        Birth::Dispatcher => Dcb::init(base, home),
        Birth::Kept | Birth::Zeroed | Birth::Table => {}
    }
}

impl Order {
    /// What a part of a [`captypes::op::RetypeMany`] asks for.
    fn of_part(part: Part, src: &RawCap) -> Result<Order, Status> {
        let unit = if CapPolicy::tree_is_scaled(src.ty) { 1 } else { PAGE };
        let kind = part.kind().ok_or(Status::Invalid)?;
        let (offset, bytes) = (part.first() * unit, part.units() * unit);
        Ok(Order { kind, offset, bytes, count: part.count() })
    }

    /// The order with its numbers in the units of the database, and the bytes that it takes.
    fn checked(mut self, src: &RawCap) -> Result<(Order, u64), Status> {
        let ty = self.kind.ty;
        if !may_become(src.kind(), ty) || ty == CapType::Ram && !is_memory(src) {
            return Err(Status::WrongType);
        }
        if is_of_other_boots(src, ty) {
            return Err(Status::WrongType);
        }
        // Only what is new is nobody else's; and a part of such a Frame would be another way to it.
        if src.is_frame() && (self.kind.alone || src.rights_set().has(Rights::WRITE_ALONE)) {
            return Err(Status::NoRights);
        }
        if !size_fits(ty, self.bytes) || self.count == 0 {
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

/// Was nothing of this part of `source`, which other cores have another part of, sent away since it last came home?
fn is_at_home(caps: &CapSpace, source: &RawCap, base: u64, len: u64) -> bool {
    let is_own = || {
        let around = caps.db.surrounding(MEMORY, base, len, 0);
        around.is_some_and(|home| is_own_home(&home.cap()))
    };
    let is_memory = !CapPolicy::tree_is_scaled(source.ty);
    is_memory && caps.asks.away.has_none(base, base + len) && is_own()
}

impl CapSpace {
    /// Makes `order.count` objects of a part of `src`, into the empty slots of `dst`.
    pub fn retype(
        &mut self,
        unit: &VectorUnit,
        src: SlotRef,
        order: Order,
        dst: SlotRun,
    ) -> Result<(), Status> {
        let source = src.cap();
        let (order, total) = order.checked(&source)?;
        let base = source.base + order.offset;
        let many = total > MOST_PREPARED && total > most_made(order.kind.ty);
        if many && is_zeroed(&source, order.kind.ty) {
            return self.retype_in_steps(unit, src, order, base, total, dst);
        }
        if !dst.all_empty() {
            return Err(Status::Occupied);
        }
        let near = self.free_range(src, &source, base, total)?;
        self.check_source(src, &source, base, total)?;
        if is_zeroed(&source, order.kind.ty) {
            self.zero(unit, order.kind.ty, base, total);
            self.prepare(unit, order, base);
        }
        self.make(&source, order, base, dst, near);
        Ok(())
    }

    #[inline(never)]
    fn retype_in_steps(
        &mut self,
        unit: &VectorUnit,
        src: SlotRef,
        order: Order,
        base: u64,
        total: u64,
        dst: SlotRun,
    ) -> Result<(), Status> {
        let source = src.cap();
        self.make_in_steps(unit, src, order, base, total, dst)?;
        let near = self.free_range(src, &source, base, total)?;
        self.make(&source, order, base, dst, near);
        Ok(())
    }

    /// Brings zeroed memory into the state that the objects begin in.
    #[inline(always)]
    fn prepare(&mut self, unit: &VectorUnit, order: Order, base: u64) {
        if order.kind.ty != CapType::Frame {
            self.prepare_objects(unit, order, base);
        }
    }

    #[inline(never)]
    fn prepare_objects(&mut self, unit: &VectorUnit, order: Order, base: u64) {
        let home = self.core.id;
        if is_prepared(order.kind.ty) {
            unit.with(|| {
                for n in 0..u64::from(order.count) {
                    prepare_object(order.kind, base + n * order.bytes, home);
                }
            });
        }
        if order.kind == CapType::Pt.alone() && order.count == 1 {
            self.db.is_new_table(base);
        }
    }

    /// Puts the objects that were ordered, from `base` on, into the slots.
    #[inline(always)]
    fn make(&mut self, source: &RawCap, order: Order, base: u64, dst: SlotRun, near: SlotRef) {
        let from_ram = source.kind() == CapType::Ram || source.is(CapType::PhysAddr);
        let mut first = RawCap {
            ty: order.kind.ty as u8,
            rights: if from_ram { order.kind.rights().0 } else { source.rights },
            attrs: made_attrs(source.attrs),
            aux: 0,
            base,
            word: order.bytes,
        };
        if first.attrs & attr::REMOTE_ANCESTORS != 0 && is_copy::<CapPolicy>(source, &first) {
            // All of a Frame as a Frame.
            first.attrs = copied_attrs(source.attrs);
        }
        self.db.insert_objects(dst, first, order.bytes, near, source);
    }

    /// Zeroes and prepares as much of `[base, base + total)` as one invocation may. While something is
    /// left, the range belongs to a Blank in the first slot.
    fn make_in_steps(
        &mut self,
        unit: &VectorUnit,
        src: SlotRef,
        order: Order,
        base: u64,
        total: u64,
        dst: SlotRun,
    ) -> Result<(), Status> {
        let source = &src.cap();
        let first = dst.get(0);
        if dst.next_filled(1) < dst.len() {
            return Err(Status::Occupied);
        }
        if first.is_empty() {
            let near = self.free_range(src, source, base, total)?;
            self.check_source(src, source, base, total)?;
            let attrs = made_attrs(source.attrs);
            let blank = super::memory_cap(CapType::Blank as u8, Rights::REVOKE, attrs, base, total);
            self.db.insert_objects(SlotRun::one(first), blank, total, near, source);
        }
        let blank = first.cap();
        if !blank.is(CapType::Blank) || (blank.base, blank.word) != (base, total) {
            return Err(Status::Occupied);
        }
        let done = u64::from(blank.aux) * PAGE;
        let step = most_made(order.kind.ty).min(total - done);
        self.zero(unit, order.kind.ty, base + done, step);
        let part = Order { count: (step / order.bytes) as u32, ..order };
        self.prepare(unit, part, base + done);
        if done + step < total {
            first.set_aux(((done + step) / PAGE) as u32);
            return Err(Status::Again);
        }
        self.remove(first);
        Ok(())
    }

    /// Makes several kinds of objects of parts of `src`, into the slots of `dst`; see
    /// [`captypes::op::RetypeMany`]. All is checked before anything is changed.
    pub fn retype_many(
        &mut self,
        unit: &VectorUnit,
        src: SlotRef,
        parts: &[Part],
        dst: SlotRun,
    ) -> Result<(), Status> {
        let source = src.cap();
        let (mut first, mut end, mut zeroed) = (None, 0, 0);
        for part in parts {
            let (order, total) = Order::of_part(*part, &source)?.checked(&source)?;
            if order.offset < end {
                return Err(Status::OutOfRange);
            }
            first.get_or_insert(order.offset);
            end = order.offset + total;
            self.free_range(src, &source, source.base + order.offset, total)?;
            if is_zeroed(&source, order.kind.ty) {
                let weight =
                    if is_prepared(order.kind.ty) { MOST_ZEROED / MOST_PREPARED } else { 1 };
                zeroed += total * weight;
            }
        }
        if zeroed > MOST_ZEROED {
            return Err(Status::OutOfRange);
        }
        if !dst.all_empty() {
            return Err(Status::Occupied);
        }
        // For other cores the parts and what is between them are one range.
        if let Some(first) = first {
            self.check_source(src, &source, source.base + first, end - first)?;
        }
        let mut slot = 0;
        for part in parts {
            let (order, total) = Order::of_part(*part, &source)?.checked(&source)?;
            let base = source.base + order.offset;
            if is_zeroed(&source, order.kind.ty) {
                self.zero(unit, order.kind.ty, base, total);
                self.prepare(unit, order, base);
            }
            self.make(&source, order, base, dst.part(slot, order.count), src);
            slot += order.count;
        }
        Ok(())
    }

    /// A slot near which objects made of `[base, base + len)` of `src` belong, if nothing else was
    /// made of that range already.
    #[inline]
    pub fn free_range(
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

    /// May something be made of `[base, base + len)` of `src` by this core alone?
    #[inline]
    pub fn check_source(&mut self, src: SlotRef, source: &RawCap, base: u64, len: u64) -> Progress {
        let elsewhere = source.attrs & (attr::FOREIGN | attr::REMOTE_DESCENDANTS) != 0;
        if elsewhere || !self.db.locks.is_empty() {
            return self.check_remote_source(src, source, base, len);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn check_remote_source(
        &mut self,
        src: SlotRef,
        source: &RawCap,
        base: u64,
        len: u64,
    ) -> Progress {
        if self.asks.is_granted(base, len) {
            return Ok(());
        }
        let elsewhere = source.is_foreign()
            || source.has_remote(attr::REMOTE_DESCENDANTS) && !is_at_home(self, source, base, len);
        if elsewhere {
            return Err(self.ask_range(src, base, len));
        }
        self.check_lock(src)
    }

    /// Was something else made of `[base, base + len)` of `src` already? Mappings of a Frame do not
    /// count: its parts may be named while it is mapped.
    fn is_taken(&self, src: SlotRef, source: &RawCap, base: u64, len: u64) -> bool {
        if source.is_frame() {
            return self.db.object_inside(src, base, len).is_some();
        }
        self.db.descendant_overlaps(src, base, len)
    }

    /// Fills memory that is nobody's, of which something of type `ty` is to be made, with zeros.
    fn zero(&mut self, unit: &VectorUnit, ty: CapType, base: u64, bytes: u64) {
        if arch::SPARSE && ty.is_kernel_object() {
            unit.with(|| mem::zero_object(base, bytes));
        } else {
            unit.with(|| mem::zero(base, bytes));
        }
        self.core.add(Counter::PagesZeroed, bytes / PAGE);
    }
}

/// Gives a new root table the kernel's upper half. The vector registers must be allowed.
pub fn install_kernel_half(table: u64) {
    // SAFETY: it is memory that has just been retyped, or is the kernel's own at boot.
    unsafe { arch::copy_kernel_half(table) }
}

/// Home RAM is what `init` gets at boot: its children are plain RAM.
pub const fn home_ram(base: u64, bytes: u64, node: u8) -> RawCap {
    super::memory_cap(HOME_RAM, Rights::ALL, node as u16 & RamAttrs::NODE, base, bytes)
}
