//! The 64-byte slot: a capability and its place in the database.
//!
//! # Layout of the 40 bytes
//!
//! | word     | in the tree (one per distinct capability)        | in a [`ring`](crate::ring) |
//! |----------|--------------------------------------------------|---------------------|
//! | `left`   | left child                                       | member before       |
//! | `right`  | right child                                      | member behind       |
//! | `parent` | parent; low bits [`PARITY`], [`LINKED`]          | low bits only       |
//! | `copies` | bits 16..64 first of the ring, bits 0..16 high bits of the leaf end | of the first: the head |
//! | `ends`   | bits 24..64 object end, bits 0..24 low bits of the leaf end  | of leaves: a number |
//!
//! The two ends are the highest page ends in the subtree, over objects and over leaves (see
//! [`Policy::LEAF_RANK`](crate::Policy::LEAF_RANK)): 40 bits each, enough for 52-bit addresses.
//! All-zero memory is a valid empty slot.

use core::cell::Cell;
use core::ops::Deref;
use core::ptr::{self, NonNull};

/// The part of a capability that the database reads.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawCap {
    /// Type of the capability; 0 is Null, an empty slot.
    pub ty: u8,
    /// Rights. Not ordered: copies may differ in them.
    pub rights: u8,
    /// Attributes. Not ordered: copies may differ in them.
    pub attrs: u16,
    /// Type-specific. Ordered only as far as [`Policy::identity`](crate::Policy::identity) says.
    pub aux: u32,
    /// First physical byte address, or the number of an object without memory.
    pub base: u64,
    /// Type-specific: bytes of a memory object, table of a Mapping.
    pub word: u64,
}

impl RawCap {
    /// The empty capability.
    pub const NULL: Self = Self { ty: 0, rights: 0, attrs: 0, aux: 0, base: 0, word: 0 };

    /// Type, rights (from bit 8) and attributes (from bit 16), to compare them all at once.
    #[inline(always)]
    pub const fn head(&self) -> u32 {
        self.ty as u32 | (self.rights as u32) << 8 | (self.attrs as u32) << 16
    }

    /// Whether there is no capability here.
    pub const fn is_null(&self) -> bool {
        self.ty == 0
    }
}

/// Rank parity of a node in the weak AVL tree.
const PARITY: usize = 1;
/// The slot is in the ring of a slot in the tree.
const MEMBER: usize = 2;
/// The slot is in the database.
const LINKED: usize = 4;
/// The slot is in a ring as a leaf, not as a copy.
const LEAF: usize = 8;
/// The slot is the first of its ring; `copies` is the address of the head.
const FIRST: usize = 16;
const TAGS: usize = align_of::<Slot>() - 1;

/// Bits of `ends` that hold the low part of the leaf end; the others hold the object end.
const LEAF_LOW: u32 = 24;
/// Bits of `copies` that hold the high part of the leaf end; the others hold a 48-bit pointer.
const LEAF_HIGH: u32 = 16;
/// The largest end that can be noted; every end above is noted as this one.
const END_MAX: u64 = (1 << (LEAF_LOW + LEAF_HIGH)) - 1;

/// One cache line: a capability and its links.
///
/// The links are private to the database. A slot that is in a database must neither move nor be
/// dropped; [`Mdb::relocate`](crate::Mdb::relocate) moves the capability to another slot.
#[repr(C, align(64))]
pub struct Slot {
    cap: Cell<RawCap>,
    node: Node,
}

#[repr(C)]
struct Node {
    /// Left and right.
    children: [Cell<Option<Ref>>; 2],
    parent: Cell<*mut Slot>,
    copies: Cell<u64>,
    ends: Cell<u64>,
}

const _: () = assert!(size_of::<Slot>() == 64 && align_of::<Slot>() == 64);
const _: () = assert!(size_of::<RawCap>() == 24 && size_of::<Node>() == 40);
const _: () = assert!(core::mem::offset_of!(RawCap, aux) == 4);

impl Slot {
    /// A slot with `cap` in it that is in no database.
    pub const fn new(cap: RawCap) -> Self {
        let node = Node {
            children: [const { Cell::new(None) }; 2],
            parent: Cell::new(ptr::null_mut()),
            copies: Cell::new(0),
            ends: Cell::new(0),
        };
        Self { cap: Cell::new(cap), node }
    }

    /// An empty slot; the same as 64 zero bytes.
    pub const fn empty() -> Self {
        Self::new(RawCap::NULL)
    }

    /// The capability.
    #[inline]
    pub fn cap(&self) -> RawCap {
        self.cap.get()
    }

    /// What [`RawCap::head`] says of the capability, by one load.
    #[inline(always)]
    pub fn head(&self) -> u32 {
        // SAFETY: a `RawCap` begins with these four bytes, aligned to eight, and what is in a `Cell` is read
        // and written by this thread alone.
        u32::from_le(unsafe { self.cap.as_ptr().cast::<u32>().read() })
    }

    /// The same, and `aux` in the upper half.
    #[inline(always)]
    pub fn head_and_aux(&self) -> u64 {
        // SAFETY: the same of the first eight bytes.
        u64::from_le(unsafe { self.cap.as_ptr().cast::<u64>().read() })
    }

    /// The type of the capability, zero for none.
    #[inline]
    pub fn ty(&self) -> u8 {
        self.cap().ty
    }

    /// Whether the slot holds no capability.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cap().is_null()
    }

    /// Whether the slot is in a database.
    #[inline]
    pub fn is_linked(&self) -> bool {
        self.tags() & LINKED != 0
    }

    /// Puts a capability into a slot that is in no database; returns whether it is in none.
    #[inline]
    pub fn set_cap(&self, cap: RawCap) -> bool {
        let free = !self.is_linked();
        if free {
            self.cap.set(cap);
        }
        free
    }

    /// Changes the fields that have no part in the order, in the database or out of it.
    #[inline]
    pub fn set_rights(&self, rights: u8, attrs: u16) {
        self.cap.set(RawCap { rights, attrs, ..self.cap() });
    }

    /// Changes `aux`, in the database or out of it. Only for types of which the policy does not
    /// read it.
    #[inline]
    pub fn set_aux(&self, aux: u32) {
        self.cap.set(RawCap { aux, ..self.cap() });
    }

    pub(crate) fn overwrite(&self, cap: RawCap) {
        self.cap.set(cap);
    }

    #[inline]
    fn tags(&self) -> usize {
        self.node.parent.get().addr() & TAGS
    }

    /// Whether the slot is in a ring, not in the tree.
    #[inline]
    pub(crate) fn is_member(&self) -> bool {
        self.tags() & MEMBER != 0
    }

    /// Whether the slot is in a ring as a leaf.
    #[inline]
    pub(crate) fn is_leaf_member(&self) -> bool {
        self.tags() & LEAF != 0
    }

    /// Whether the slot is the first of its ring.
    #[inline]
    pub(crate) fn is_first(&self) -> bool {
        self.tags() & FIRST != 0
    }

    /// The slot in the tree from which the ring hangs, for the first of the ring.
    #[inline]
    pub(crate) fn ring_head(&self) -> Option<Ref> {
        debug_assert!(self.is_first());
        let address = self.node.copies.get() as usize;
        NonNull::new(ptr::with_exposed_provenance_mut(address)).map(Ref)
    }

    /// Makes this member the first of the ring that hangs from `head`.
    #[inline]
    pub(crate) fn make_first(&self, head: Ref) {
        self.node.parent.set(self.node.parent.get().map_addr(|a| a | FIRST));
        self.node.copies.set(head.0.as_ptr().expose_provenance() as u64);
    }

    /// Makes it any member again.
    #[inline]
    pub(crate) fn unmake_first(&self) {
        self.node.parent.set(self.node.parent.get().map_addr(|a| a & !FIRST));
        self.node.copies.set(0);
    }

    #[inline]
    pub(crate) fn left(&self) -> Option<Ref> {
        self.node.children[0].get()
    }

    #[inline]
    pub(crate) fn right(&self) -> Option<Ref> {
        self.node.children[1].get()
    }

    /// The right child if `right`, else the left one, chosen without a branch.
    #[inline]
    pub(crate) fn child(&self, right: bool) -> Option<Ref> {
        self.node.children[usize::from(right)].get()
    }

    /// Sets the right child if `right`, else the left one.
    #[inline]
    pub(crate) fn set_child(&self, right: bool, to: Option<Ref>) {
        self.node.children[usize::from(right)].set(to);
    }

    #[inline]
    pub(crate) fn parent(&self) -> Option<Ref> {
        NonNull::new(self.node.parent.get().map_addr(|a| a & !TAGS)).map(Ref)
    }

    #[inline]
    pub(crate) fn set_left(&self, to: Option<Ref>) {
        self.node.children[0].set(to);
    }

    #[inline]
    pub(crate) fn set_right(&self, to: Option<Ref>) {
        self.node.children[1].set(to);
    }

    #[inline]
    pub(crate) fn set_parent(&self, to: Option<Ref>) {
        self.set_parent_word(to, self.tags());
    }

    #[inline]
    fn set_parent_word(&self, to: Option<Ref>, tags: usize) {
        let to = to.map_or(ptr::null_mut(), |r| r.0.as_ptr());
        self.node.parent.set(to.map_addr(|a| a | tags));
    }

    #[inline]
    pub(crate) fn parity(&self) -> bool {
        self.tags() & PARITY != 0
    }

    #[inline]
    pub(crate) fn flip(&self) {
        self.node.parent.set(self.node.parent.get().map_addr(|a| a ^ PARITY));
    }

    /// The first copy that hangs from this slot, which is in the tree.
    #[inline]
    pub(crate) fn copies(&self) -> Option<Ref> {
        let address = (self.node.copies.get() as i64 >> LEAF_HIGH) as usize;
        NonNull::new(ptr::with_exposed_provenance_mut(address)).map(Ref)
    }

    #[inline]
    pub(crate) fn set_copies(&self, to: Option<Ref>) {
        let address = to.map_or(0, |r| r.0.as_ptr().expose_provenance()) as u64;
        debug_assert_eq!(
            (address << LEAF_HIGH) as i64 >> LEAF_HIGH,
            address as i64,
            "48-bit slots"
        );
        let high = self.node.copies.get() & ((1 << LEAF_HIGH) - 1);
        self.node.copies.set(address << LEAF_HIGH | high);
    }

    #[inline]
    pub(crate) fn object_end(&self) -> u64 {
        self.node.ends.get() >> LEAF_LOW
    }

    #[inline]
    pub(crate) fn set_object_end(&self, end: u64) {
        let low = self.node.ends.get() & ((1 << LEAF_LOW) - 1);
        self.node.ends.set(end << LEAF_LOW | low);
    }

    #[inline]
    pub(crate) fn leaf_end(&self) -> u64 {
        let low = self.node.ends.get() & ((1 << LEAF_LOW) - 1);
        let high = self.node.copies.get() & ((1 << LEAF_HIGH) - 1);
        high << LEAF_LOW | low
    }

    #[inline]
    pub(crate) fn ends(&self) -> Ends {
        Ends { object: self.object_end(), leaf: self.leaf_end() }
    }

    #[inline]
    pub(crate) fn set_ends(&self, ends: Ends) {
        let low = ends.leaf & ((1 << LEAF_LOW) - 1);
        let high = ends.leaf >> LEAF_LOW;
        self.node.ends.set(ends.object << LEAF_LOW | low);
        self.node.copies.set(self.node.copies.get() & !((1 << LEAF_HIGH) - 1) | high);
    }

    /// Makes this slot a lone node of rank 0 whose parent is `parent`.
    #[inline]
    pub(crate) fn start_node(&self, parent: Option<Ref>, ends: Ends) {
        self.node.children[0].set(None);
        self.node.children[1].set(None);
        self.set_parent_word(parent, LINKED);
        self.node.copies.set(ends.leaf >> LEAF_LOW);
        self.node.ends.set(ends.object << LEAF_LOW | ends.leaf & ((1 << LEAF_LOW) - 1));
    }

    /// Makes this slot a member of a ring, between two others or alone.
    #[inline]
    pub(crate) fn start_member(&self, before: Ref, after: Ref, leaf: bool) {
        self.node.children[0].set(Some(before));
        self.node.children[1].set(Some(after));
        self.set_parent_word(None, LINKED | MEMBER | if leaf { LEAF } else { 0 });
        self.node.copies.set(0);
        self.node.ends.set(0);
    }

    /// Makes this slot the first of a ring that hangs from `head`, as a leaf with a number, between two
    /// others or alone.
    #[inline]
    pub(crate) fn start_first_leaf(&self, before: Ref, after: Ref, head: Ref, number: u64) {
        self.node.children[0].set(Some(before));
        self.node.children[1].set(Some(after));
        self.set_parent_word(None, LINKED | MEMBER | LEAF | FIRST);
        self.node.copies.set(head.0.as_ptr().expose_provenance() as u64);
        self.node.ends.set(number);
    }

    /// How many leaves there are at most from this member of a ring on, if it is one itself.
    #[inline]
    pub(crate) fn leaf_number(&self) -> u64 {
        self.node.ends.get()
    }

    /// Takes over every link and mark of `from`; the neighbours still point at `from`.
    #[inline]
    pub(crate) fn take_links(&self, from: &Slot) {
        self.node.children[0].set(from.node.children[0].get());
        self.node.children[1].set(from.node.children[1].get());
        self.node.parent.set(from.node.parent.get());
        self.node.copies.set(from.node.copies.get());
        self.node.ends.set(from.node.ends.get());
    }

    /// Takes over the parent, the parity and the ends of `from`, but keeps children and copies.
    #[inline]
    pub(crate) fn take_place(&self, from: &Slot) {
        self.node.parent.set(from.node.parent.get());
        self.set_ends(from.ends());
    }

    pub(crate) fn clear_links(&self) {
        self.node.children[0].set(None);
        self.node.children[1].set(None);
        self.node.parent.set(ptr::null_mut());
        self.node.copies.set(0);
        self.node.ends.set(0);
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::empty()
    }
}

/// The highest ends in a subtree, in pages rounded up; 0 where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ends {
    pub object: u64,
    pub leaf: u64,
}

impl Ends {
    #[inline]
    pub fn max(self, other: Self) -> Self {
        Self { object: self.object.max(other.object), leaf: self.leaf.max(other.leaf) }
    }
}

/// The page that an end falls in, rounded up: what [`Ends`] holds.
#[inline]
pub(crate) fn page_end(end: u64) -> u64 {
    (end.saturating_add(0xfff) >> 12).min(END_MAX)
}

/// The smallest end, in pages, of what reaches beyond `address`.
#[inline]
pub(crate) fn past_page(address: u64) -> u64 {
    page_end(address.saturating_add(1))
}

/// A slot that is in a database, or about to be.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Ref(NonNull<Slot>);

impl Ref {
    /// # Safety
    ///
    /// The slot is valid, and stays valid and in place for as long as it is in a database or this
    /// reference is used. Nobody holds a `&mut` to it, and no other thread uses it.
    #[inline]
    pub unsafe fn new(slot: NonNull<Slot>) -> Self {
        Self(slot)
    }

    #[inline]
    pub fn ptr(self) -> NonNull<Slot> {
        self.0
    }
}

impl Deref for Ref {
    type Target = Slot;

    #[inline]
    fn deref(&self) -> &Slot {
        // SAFETY: `Ref::new` is the only source of references; those found in links came from it,
        // and whoever called it keeps the slot valid until it is removed, which clears the links.
        // Every field of a slot is a `Cell`, so shared references may coexist with changes.
        unsafe { self.0.as_ref() }
    }
}
