//! What the table of types can say of a type: its columns, and what is generated of its rows.
//!
//! Every column is an enumeration (or a set). Whoever acts on one matches on it without a catch-all, so that
//! a new value is a compile error until everybody who must know it does.

use crate::CapType;

/// The trees of the forest. Capabilities of different trees never overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Tree {
    /// Empty slots.
    None,
    /// Physical memory and everything made of it.
    Memory,
    /// Interrupt lines.
    Irq,
    /// I/O ports.
    Io,
    /// The kernel of this core, and other things without extent.
    Singleton,
    /// Unforgeable names.
    Id,
    /// Pages of objects that are subtrees of page tables.
    Morsel,
    /// Functions of PCI devices.
    Function,
}

impl Tree {
    /// Returns `true` if the objects of this tree are numbers (lines, ports, names, functions), not bytes or single things.
    pub const fn is_numbers(self) -> bool {
        match self {
            Tree::Irq | Tree::Io | Tree::Id | Tree::Function => true,
            Tree::None | Tree::Memory | Tree::Singleton | Tree::Morsel => false,
        }
    }
}

/// How large the object behind a capability is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectSize {
    /// No object in memory.
    None,
    /// Always this many bytes.
    Fixed(u64),
    /// Any multiple of this many bytes, chosen at retype.
    Multiple(u64),
}

/// What tells objects of one type and range apart; copies agree in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentityField {
    /// Nothing: type and range are the object.
    None,
    /// The badge, in `aux`. What has one descends from what has none.
    Badge,
    /// The number of the act that it stands for, in `aux`. Ranges of such objects are free.
    Serial,
    /// The physical address of the first entry that a Mapping stands for.
    FirstEntry,
}

/// What other cores may have of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// There is no form in which it could be named to anybody: it is a part of something else.
    Never,
    /// It can be named to the monitor of its core, but every core has its own, or none.
    Local,
    /// Copies go to other cores. The object is used on its own core alone, which stays its owner.
    Pinned,
    /// Copies go to other cores, and another core can become the owner.
    Moves,
    /// Copies go to other cores, and none of them needs an owner: nothing ends with the last one. The core of the object
    /// knows by itself whether another may have something of it.
    Unowned,
}

/// What a retype from RAM does to the memory of a new object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Birth {
    /// Nothing: nobody can read it yet, or nothing is made of RAM.
    Kept,
    /// Fills it with zeros.
    Zeroed,
    /// The same; a root then shows the kernel's half.
    Table,
    /// The same, and initialises a dispatcher.
    Dispatcher,
}

/// What must happen when the last capability to an object goes, besides that its memory goes home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finaliser {
    /// Nothing.
    Forget,
    /// What is mapped of it is unmapped, unless another Frame stands behind it.
    Unmap,
    /// What it maps is forgotten, and where it is mapped is unmapped.
    TearDown,
    /// The entries that it stands for are cleared.
    ClearEntries,
    /// It is parked, and what its slots hold is deleted.
    EmptyCNode,
    /// It is stopped and parked, and what its slots hold is deleted.
    StopDispatcher,
    /// Who waits at it is told, once no other badge of it is left.
    Close,
    /// Nobody is notified any more.
    Unbind,
    /// Pages that nothing but it still kept go home, whatever part of them was lent.
    Return,
    /// All capabilities to its objects are deleted, and it is no pool any more.
    ClosePool,
    /// It is the pool's no more, which is closed if anything of it is in use.
    LeavePool,
    /// What is mapped of it is unmapped.
    UnmapMorsel,
    /// Devices that are attached to it reach nothing any more, and what it maps is forgotten.
    CloseDeviceSpace,
}

/// A property of a type, for the sets of [`TypeSet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Property {
    /// See [`TypeSet::COPYABLE`].
    Copyable,
    /// See [`TypeSet::CONTAINERS`].
    Container,
    /// See [`TypeSet::KERNEL_OBJECTS`].
    KernelObject,
    /// See [`TypeSet::FRAMES`].
    Frame,
    /// See [`TypeSet::ALONE`].
    Alone,
}

/// A set of types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct TypeSet(u32);

impl TypeSet {
    /// Types of which there may be several capabilities to the same object, in several slots.
    pub const COPYABLE: TypeSet = TypeSet::with(Property::Copyable);
    /// Objects with slots in them.
    pub const CONTAINERS: TypeSet = TypeSet::with(Property::Container);
    /// Memory that must never be mapped writable in user mode.
    pub const KERNEL_OBJECTS: TypeSet = TypeSet::with(Property::KernelObject);
    /// Memory of which pages are mapped.
    pub const FRAMES: TypeSet = TypeSet::with(Property::Frame);
    /// Objects that may be born with [`Rights::WRITE_ALONE`](crate::Rights::WRITE_ALONE): pages, what
    /// holds their capabilities and those of their Mappings, and the tables that map them.
    pub const ALONE: TypeSet = TypeSet::with(Property::Alone);

    /// These types.
    pub const fn of(types: &[CapType]) -> TypeSet {
        let (mut set, mut at) = (0, 0);
        while at < types.len() {
            set |= 1 << types[at] as u32;
            at += 1;
        }
        TypeSet(set)
    }

    /// Those with a property.
    const fn with(property: Property) -> TypeSet {
        let (mut set, mut at) = (0, 0);
        while at < CapType::ROWS.len() {
            let (ty, mut n) = (CapType::ROWS[at], 0);
            while n < ty.properties().len() {
                if ty.properties()[n] as u8 == property as u8 {
                    set |= 1 << ty as u32;
                }
                n += 1;
            }
            at += 1;
        }
        TypeSet(set)
    }

    /// Objects that are numbers (lines, ports, names), and counted as such.
    pub const NUMBERS: TypeSet = {
        let (mut set, mut at) = (0, 0);
        while at < CapType::ROWS.len() {
            if CapType::ROWS[at].tree().is_numbers() {
                set |= 1 << CapType::ROWS[at] as u32;
            }
            at += 1;
        }
        TypeSet(set)
    };
    /// Those of which more must be done when they are made than to fill them with zeros.
    pub const PREPARED: TypeSet = {
        let (mut set, mut at) = (0, 0);
        while at < CapType::ROWS.len() {
            let ty = CapType::ROWS[at];
            match ty.birth() {
                Birth::Kept | Birth::Zeroed => {}
                Birth::Table | Birth::Dispatcher => set |= 1 << ty as u32,
            }
            at += 1;
        }
        TypeSet(set)
    };
    /// Page tables.
    pub const TABLES: TypeSet = {
        let (mut set, mut at) = (0, 0);
        while at < CapType::ROWS.len() {
            if CapType::ROWS[at].table_level().is_some() {
                set |= 1 << CapType::ROWS[at] as u32;
            }
            at += 1;
        }
        TypeSet(set)
    };
    /// What a Mapping maps.
    pub const MAPPABLE: TypeSet = TypeSet::FRAMES.or(TypeSet::TABLES);
    /// Those whose memory is filled with zeros when they are made of RAM.
    pub const ZEROED: TypeSet = {
        let (mut set, mut at) = (0, 0);
        while at < CapType::ROWS.len() {
            let ty = CapType::ROWS[at];
            match ty.birth() {
                Birth::Kept => {}
                Birth::Zeroed | Birth::Table | Birth::Dispatcher => set |= 1 << ty as u32,
            }
            at += 1;
        }
        TypeSet(set)
    };

    /// Those that have a form on the wire.
    pub(crate) const fn on_wire() -> TypeSet {
        let (mut set, mut at) = (0, 0);
        while at < CapType::ROWS.len() {
            let ty = CapType::ROWS[at];
            match ty.wire() {
                Wire::Never => {}
                Wire::Local | Wire::Pinned | Wire::Moves | Wire::Unowned => set |= 1 << ty as u32,
            }
            at += 1;
        }
        TypeSet(set)
    }

    /// [`seen_as`](Self::seen_as), by number.
    const SEEN_AS: [TypeSet; 32] = {
        let (mut sets, mut at) = ([TypeSet(0); 32], 0);
        while at < CapType::ROWS.len() {
            let ty = CapType::ROWS[at];
            sets[ty.seen() as usize].0 |= 1 << ty as u32;
            at += 1;
        }
        sets
    };
    /// Those that user mode sees as `ty`.
    #[inline]
    pub const fn seen_as(ty: CapType) -> TypeSet {
        Self::SEEN_AS[ty as usize % 32]
    }
    /// Its types, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = CapType> {
        CapType::ROWS.iter().copied().filter(move |&ty| self.has(ty))
    }
    /// The types in either.
    pub const fn or(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }
    /// The types in both.
    pub const fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 & other.0)
    }
    /// Returns `true` if no type is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Returns `true` if it contains a type.
    #[inline(always)]
    pub const fn has(self, ty: CapType) -> bool {
        self.has_number(ty as u8)
    }
    /// The same for the number of a type, as slots hold it: below 32.
    #[inline(always)]
    pub const fn has_number(self, ty: u8) -> bool {
        self.0.wrapping_shr(ty as u32) & 1 != 0
    }
    /// The same, fast for a set that is a constant: numbers that follow each other are one comparison.
    #[inline(always)]
    pub const fn const_has_number(self, ty: u8) -> bool {
        let (first, count) = (self.0.trailing_zeros(), self.0.count_ones());
        if self.0 as u64 == ((1 << count) - 1) << first {
            return ty.wrapping_sub(first as u8) < count as u8;
        }
        self.has_number(ty)
    }
}

macro_rules! capability_types {
    ($(
        $(#[$doc:meta])*
        $id:literal $name:ident {
            tree $tree:ident, rank $rank:literal, size $size:expr, from [$($from:ident)*],
            rights [$($right:ident)*], is [$($property:ident)*], $(level $level:literal,)?
            identity $identity:ident, wire $wire:ident, born $birth:ident, last $last:ident
            $(, seen as $seen:ident)?
        }
    )*) => {
        /// What a capability is for.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum CapType { $($(#[$doc])* $name = $id,)* }

        impl CapType {
            /// Every type, in the order of the table.
            pub const ROWS: &'static [CapType] = &[$(CapType::$name),*];

            /// The type with this number, as the kernel's slots hold it; `Null` for no number of the table.
            #[inline(always)]
            pub const fn of_slot(id: u8) -> CapType {
                match id { $($id => CapType::$name,)* _ => CapType::Null }
            }
            /// The type that user mode means by a number.
            #[inline]
            pub const fn from_u8(id: u8) -> Option<CapType> {
                match id { $($id if CapType::$name.is_seen() => Some(CapType::$name),)* _ => None }
            }
            /// The type that user mode sees in a slot with this number.
            #[inline(always)]
            pub const fn seen_in_slot(id: u8) -> CapType {
                match id { $($id => CapType::$name.seen(),)* _ => CapType::Null }
            }
            /// The type as which user mode sees it.
            #[inline(always)]
            pub const fn seen(self) -> CapType {
                match self {
                    $($(CapType::$name => CapType::$seen,)?)*
                    other => other,
                }
            }
            /// The tree that it belongs to.
            pub const fn tree(self) -> Tree {
                match self { $(CapType::$name => Tree::$tree,)* }
            }
            /// Order among capabilities of the same range: an ancestor's type comes first. An
            /// Endpoint with a badge is made of the one without, and comes one behind it.
            pub const fn rank(self) -> u8 {
                match self { $(CapType::$name => $rank,)* }
            }
            /// Size of the object that a retype to this type makes.
            pub const fn object_size(self) -> ObjectSize {
                match self { $(CapType::$name => $size,)* }
            }
            /// Returns `true` if a capability of type `self` may be retyped to `to`.
            pub const fn can_retype_to(self, to: CapType) -> bool {
                match to { $(CapType::$name => { $(if matches!(self, CapType::$from) { return true; })* false })* }
            }
            /// The types that it may be made of by a retype.
            pub const fn sources(self) -> &'static [CapType] {
                match self { $(CapType::$name => &[$(CapType::$from),*],)* }
            }
            /// The rights that mean something for this type, besides [`Rights::REVOKE`], which every
            /// capability may have. A Mint may take any of them away, and the operations that need
            /// them then answer `NoRights`.
            pub const fn rights(self) -> Rights {
                match self { $(CapType::$name => Rights::NONE$(.or(Rights::$right))*,)* }
            }
            /// The level of a page table: 1 for `Pt` to 5 for `Pml5`; `None` for anything else.
            #[inline]
            pub const fn table_level(self) -> Option<u8> {
                match self { $($(CapType::$name => Some($level),)?)* _ => None }
            }
            /// The page table type of a level, 1 to 5.
            pub const fn table_of_level(level: u8) -> Option<CapType> {
                match level { $($($level => Some(CapType::$name),)?)* _ => None }
            }
            /// What tells objects of this type and one range apart.
            #[inline(always)]
            pub const fn identity(self) -> IdentityField {
                match self { $(CapType::$name => IdentityField::$identity,)* }
            }
            /// The same of the type of a slot with this number.
            #[inline(always)]
            pub const fn identity_in_slot(id: u8) -> IdentityField {
                match id { $($id => IdentityField::$identity,)* _ => IdentityField::None }
            }
            /// What other cores may have of it.
            pub const fn wire(self) -> Wire {
                match self { $(CapType::$name => Wire::$wire,)* }
            }
            /// What a retype does to the memory of a new object.
            #[inline(always)]
            pub const fn birth(self) -> Birth {
                match self { $(CapType::$name => Birth::$birth,)* }
            }
            /// What must happen when the last capability goes.
            #[inline(always)]
            pub const fn finaliser(self) -> Finaliser {
                match self { $(CapType::$name => Finaliser::$last,)* }
            }
            /// The sets of [`TypeSet`] that it is in.
            pub const fn properties(self) -> &'static [Property] {
                match self { $(CapType::$name => &[$(Property::$property),*],)* }
            }
            /// What the table says of it, as the compiler keeps it: `doc = "text"`.
            pub const fn docs(self) -> &'static [&'static str] {
                match self { $(CapType::$name => &[$(stringify!($doc)),*],)* }
            }
            /// The name in the table.
            pub const fn name(self) -> &'static str {
                match self { $(CapType::$name => stringify!($name),)* }
            }
        }
    };
}
pub(crate) use capability_types;
