//! Capabilities: what a slot holds, how slots are found, and the operations on them.
//!
//! | file | what |
//! |---|---|
//! | `space` | the capabilities of one core, with what is remembered of operations on them |
//! | `policy`, `mapping` | how the mapping database orders them |
//! | `db` | the database, with slots as safe references |
//! | `lookup` | from a [`Place`](captypes::Place) to a slot |
//! | `ops` | copy, mint, move, compare, identify, fresh Ids |
//! | `retype` | one capability made of a part of another |
//! | `alone` | what may be written to only while nobody else has it |
//! | `loans` | what of Frames is lent |
//! | `cycles` | CNodes that only hold each other |
//! | `suspects` | which of them may have been lost |
//! | `dying` | containers that are being emptied |
//! | `budget` | how much of that an event does |
//! | `away` | which memory of this home other cores may have something of |
//! | `asks` | what this core alone cannot do, and asks its monitor for |
//! | `locks` | capabilities on which the monitors work |
//! | `protocol` | the steps that the monitors have this core do |
//!
//! What destroys objects needs other parts of the kernel, too: that is in `operations`.
//!
//! A slot is in the database exactly when it is not empty.

pub mod alone;
pub mod asks;
pub mod away;
pub mod budget;
pub mod cycles;
pub mod db;
pub mod dying;
pub mod loans;
pub mod locks;
pub mod lookup;
pub mod mapping;
pub mod ops;
pub mod passed;
pub mod policy;
pub mod protocol;
pub mod retype;
pub mod space;
pub mod suspects;

pub use db::Db;
pub use policy::{CapPolicy, MEMORY, MORSELS};
pub use space::CapSpace;

use crate::cores::CoreId;
use crate::object::{Obj, Object};
use captypes::{CapType, RamAttrs, Rights, TypeSet};
use mdb::RawCap;

/// How slots hold RAM with [`RamAttrs::HOME`].
pub const HOME_RAM: u8 = CapType::HomeRam as u8;

/// Internal attributes: what [`RamAttrs`] says, to which core the capability belongs, and marks.
///
/// ```text
/// 0..6  NUMA node; foreign Endpoints: core 11  MARKED          parked: TABLES_LEFT
/// 6     persistent                      12  SCANNED         parked: SECOND_PASS
/// 7     FOREIGN                         13  WAS_COPIED      parked: NEXT_IS_DISPATCHER
/// 8..11 REMOTE_*: hints                 13  LENT            of Frames
///                                       14  IN_DISPATCHER
///                                       15                  PARKED
/// ```
///
/// Zeros mean: owned by this core, without relatives on others. All copies on a core agree in bits 0
/// to 11. Mappings have a layout of their own and never leave their core.
pub mod attr {
    use captypes::RamAttrs;

    /// Attributes that a capability passes on to what is made of it.
    pub const INHERITED: u16 = RamAttrs::NODE | RamAttrs::PERSISTENT.0;
    /// Another core owns the capability. (Which one, the monitors find out: see
    /// `docs/capability-protocol.md`. Of an Endpoint it stands in the place of the node.)
    pub const FOREIGN: u16 = 1 << 7;
    /// Hints of what is owned here: other cores may have copies,
    pub const REMOTE_COPIES: u16 = 1 << 8;
    /// descendants,
    pub const REMOTE_DESCENDANTS: u16 = 1 << 9;
    /// or ancestors that this core has not.
    pub const REMOTE_ANCESTORS: u16 = 1 << 10;
    /// What stands against a local revoke.
    pub const COPIES_OR_DESCENDANTS: u16 = REMOTE_COPIES | REMOTE_DESCENDANTS;
    /// What stands against giving memory back.
    pub const RELATIVES: u16 = REMOTE_DESCENDANTS | REMOTE_ANCESTORS;
    /// All hints.
    pub const REMOTE: u16 = REMOTE_COPIES | REMOTE_DESCENDANTS | REMOTE_ANCESTORS;
    /// Containers: capabilities lead here from the first dispatcher …
    pub const MARKED: u16 = 1 << 11;
    /// … and its slots have been looked at.
    pub const SCANNED: u16 = 1 << 12;
    /// Last-level tables: there has been another capability to it since nobody else had it last.
    pub const WAS_COPIED: u16 = 1 << 13;
    /// Frames: a part of it may be lent. Where a Frame with `WRITE_ALONE` is, one of its copies says so.
    pub const LENT: u16 = 1 << 13;
    /// Page tables were passed over when this parked container was emptied …
    pub const TABLES_LEFT: u16 = 1 << 11;
    /// … and now they go too.
    pub const SECOND_PASS: u16 = 1 << 12;
    /// What `aux` of a parked capability links to is a dispatcher, not a CNode.
    pub const NEXT_IS_DISPATCHER: u16 = 1 << 13;
    /// The slot is inside a dispatcher, which caches what it says.
    pub const IN_DISPATCHER: u16 = 1 << 14;
    /// The slot holds the last capability to a container that is being emptied, inside of it.
    pub const PARKED: u16 = 1 << 15;
}

/// Level of a page table by type; 0 for everything else.
const LEVELS: [u8; 256] = {
    let mut levels = [0; 256];
    let mut at = 0;
    while at < CapType::ROWS.len() {
        if let Some(level) = CapType::ROWS[at].table_level() {
            levels[CapType::ROWS[at] as usize] = level;
        }
        at += 1;
    }
    levels
};

/// Reading a [`RawCap`] in the words of captypes.
pub trait CapExt {
    /// The type that user mode sees.
    fn kind(&self) -> CapType;
    /// The type.
    fn row(&self) -> CapType;
    /// The rights.
    fn rights_set(&self) -> Rights;
    /// Is it of this type?
    fn is(&self, ty: CapType) -> bool;
    /// The level of a page table, 0 for everything else.
    fn level(&self) -> u8;
    /// A Frame or DevFrame?
    fn is_frame(&self) -> bool;
    /// Attributes that user mode sees.
    fn ram_attrs(&self) -> RamAttrs;
    /// Does another core own it? (Of capabilities that are no Mappings.)
    fn is_foreign(&self) -> bool;
    /// The core of an Endpoint or Dispatcher that is foreign here: it stays there, whoever has capabilities to it.
    fn pinned_core(&self) -> CoreId;
    /// Is it owned here, and may it have relatives of these kinds on other cores?
    fn has_remote(&self, hints: u16) -> bool;
}

/// The attributes of a copy: the same owner and hints, and no marks of the slot.
#[inline]
pub(crate) const fn copied_attrs(attrs: u16) -> u16 {
    attrs & (attr::INHERITED | attr::FOREIGN | attr::REMOTE)
}

/// The attributes of what is made of something: what has copies elsewhere is an ancestor there.
#[inline]
pub(crate) const fn made_attrs(attrs: u16) -> u16 {
    let above = attrs & (attr::FOREIGN | attr::REMOTE_COPIES | attr::REMOTE_ANCESTORS);
    attrs & attr::INHERITED | if above != 0 { attr::REMOTE_ANCESTORS } else { 0 }
}

impl CapExt for RawCap {
    #[inline]
    fn kind(&self) -> CapType {
        CapType::seen_in_slot(self.ty)
    }
    #[inline]
    fn row(&self) -> CapType {
        CapType::of_slot(self.ty)
    }
    #[inline]
    fn rights_set(&self) -> Rights {
        Rights(self.rights)
    }
    #[inline]
    fn is(&self, ty: CapType) -> bool {
        self.ty == ty as u8
    }
    #[inline]
    fn level(&self) -> u8 {
        LEVELS[self.ty as usize]
    }
    #[inline]
    fn is_frame(&self) -> bool {
        TypeSet::FRAMES.const_has_number(self.ty)
    }
    fn ram_attrs(&self) -> RamAttrs {
        let home = if self.ty == HOME_RAM { RamAttrs::HOME.0 } else { 0 };
        RamAttrs(self.attrs & attr::INHERITED | home)
    }
    #[inline]
    fn is_foreign(&self) -> bool {
        self.attrs & attr::FOREIGN != 0
    }
    #[inline]
    fn pinned_core(&self) -> CoreId {
        CoreId((self.attrs & RamAttrs::NODE) as u8)
    }
    #[inline]
    fn has_remote(&self, hints: u16) -> bool {
        self.attrs & hints != 0 && !self.is_foreign()
    }
}

impl<T: Object> Obj<T> {
    /// The object of a capability; `None` if the type differs, or if it is another core's.
    #[inline]
    pub fn of(cap: &RawCap) -> Option<Obj<T>> {
        (cap.is(T::TYPE) && !cap.is_foreign()).then(|| Obj::at(cap.base))
    }
}

/// A capability to memory.
pub const fn memory_cap(ty: u8, rights: Rights, attrs: u16, base: u64, bytes: u64) -> RawCap {
    RawCap { ty, rights: rights.0, attrs, aux: 0, base, word: bytes }
}
