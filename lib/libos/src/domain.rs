//! What a native program knows about itself: free slots, RAM, its address space.

use crate::ephemeral::{Area, Window, Windows};
use crate::local::Local;
use crate::ram::{Arena, Ram};
use crate::slots::{Growth, SlotAllocator};
use crate::vspace::{entry_of, table_bytes, AddressSpace, Supplies};
use crate::Cap;
use abi::layout::{NATIVE_WINDOWS, PAGE};
use abi::slots;
use captypes::invocations::MapFlags;
use captypes::place::L2_BYTES;
use captypes::{CapAddr, CapType, Place, Status};

/// Slot of the arena's RAM.
pub const ARENA_SLOT: CapAddr = slots::FIRST_FREE;
/// First slot of the initial L2CNode that the slot allocator may give away. Those between belong
/// to the program.
pub const FIRST_ALLOCATED: u32 = ARENA_SLOT.0 + 9;
/// First root index that the slot allocator uses.
pub const FIRST_NODE: u32 = 16;

/// The state of the domain.
pub struct Domain {
    /// Free slots.
    pub slots: SlotAllocator,
    /// Where objects come from.
    pub arena: Arena,
    /// The own address space, from [`abi::layout::NATIVE_HEAP`] on.
    pub space: AddressSpace,
    next_window: u64,
    kept: Kept,
    /// Bytes of the root CNode, if it was made here.
    own_root: u64,
}

/// What the runtime keeps until the program ends, whatever the program gives back: CNodes, heap,
/// windows and their tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Bytes of RAM.
    pub bytes: u64,
    /// Capabilities.
    pub caps: u64,
}

impl Kept {
    fn add(&mut self, bytes: u64, caps: u64) {
        self.bytes += bytes;
        self.caps += caps;
    }
}

/// Memory mapped in the own address space: consecutive slots with its Frame and the Mappings of that.
#[derive(Debug)]
pub struct Backing {
    slots: CapAddr,
    count: u32,
    bytes: u64,
}

impl Backing {
    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

static DOMAIN: Local<Domain> = Local::new(Domain::new());

/// Calls `f` with the domain's state. `WrongState` inside of another such call.
pub fn with<R>(f: impl FnOnce(&mut Domain) -> Result<R, Status>) -> Result<R, Status> {
    DOMAIN.try_with(f).unwrap_or(Err(Status::WrongState))
}

/// Takes an empty slot back.
pub fn free_slot(slot: CapAddr) -> Result<(), Status> {
    with(|domain| {
        domain.slots.free(slot);
        Ok(())
    })
}

/// The same where nobody could do anything about an error: inside of another change of the domain's state the
/// slot is lost, and nothing else.
pub fn free_or_lose_slot(slot: CapAddr) {
    let _ = free_slot(slot);
}

/// New tables and slots for the domain itself.
struct Own<'a> {
    slots: &'a mut SlotAllocator,
    arena: &'a mut Arena,
    kept: &'a mut Kept,
    own_root: &'a mut u64,
}

impl Own<'_> {
    fn new_slot(&mut self) -> Result<CapAddr, Status> {
        self.slots.alloc(&mut Growth { arena: self.arena, own_root: self.own_root })
    }
}

impl Supplies for Own<'_> {
    fn table(&mut self, ty: CapType) -> Result<Place, Status> {
        let slot = self.new_slot()?.into();
        self.arena.make(ty, PAGE, 1, slot)?;
        self.kept.add(PAGE, 1);
        Ok(slot)
    }
    fn slot(&mut self) -> Result<Place, Status> {
        self.kept.add(0, 1);
        self.new_slot().map(Place::own)
    }
}

impl Domain {
    const fn new() -> Self {
        Domain {
            slots: SlotAllocator::new(FIRST_ALLOCATED, FIRST_NODE),
            arena: Arena::from_server(ARENA_SLOT, slots::MEMD),
            space: AddressSpace::new(Place::own(slots::VSPACE)),
            next_window: NATIVE_WINDOWS,
            kept: Kept { bytes: 0, caps: 0 },
            own_root: 0,
        }
    }

    /// A free slot.
    pub fn slot(&mut self) -> Result<CapAddr, Status> {
        let Domain { slots, arena, own_root, .. } = self;
        slots.alloc(&mut Growth { arena, own_root })
    }

    /// The first of `count` consecutive free slots.
    pub fn slot_range(&mut self, count: u32) -> Result<CapAddr, Status> {
        let Domain { slots, arena, own_root, .. } = self;
        slots.alloc_range(count, &mut Growth { arena, own_root })
    }

    /// Gives back up to `most` CNodes in which no slot is in use. Returns `true` if there may be more.
    pub fn release_nodes(&mut self, most: usize) -> Result<bool, Status> {
        let Domain { slots, arena, own_root, .. } = self;
        slots.release(most, &mut Growth { arena, own_root })
    }

    /// Makes one object in a new slot.
    pub fn make(&mut self, ty: CapType, bytes: u64) -> Result<CapAddr, Status> {
        let slot = self.slot()?;
        if let Err(error) = self.arena.make(ty, bytes, 1, slot.into()) {
            self.slots.free(slot);
            return Err(error);
        }
        Ok(slot)
    }

    /// Maps `bytes` of `frame` at `va`, an address nobody else uses.
    pub fn map_at(
        &mut self,
        va: u64,
        bytes: u64,
        frame: Place,
        offset: u64,
        flags: MapFlags,
    ) -> Result<(), Status> {
        let Domain { slots, arena, kept, own_root, .. } = self;
        let mut own = Own { slots, arena, kept, own_root };
        self.space.map(1, va, bytes, frame, offset, flags, &mut own)
    }

    /// Maps `bytes` of `frame` for good; answers the address.
    pub fn map(
        &mut self,
        frame: Place,
        offset: u64,
        bytes: u64,
        flags: MapFlags,
    ) -> Result<u64, Status> {
        let va = self.reserve(bytes);
        self.map_at(va, bytes, frame, offset, flags)?;
        Ok(va)
    }

    /// What the runtime keeps.
    pub fn kept(&self) -> Kept {
        let nodes = self.slots.made();
        let bytes = self.kept.bytes + nodes * L2_BYTES + self.own_root;
        Kept { bytes, caps: self.kept.caps + nodes }
    }

    /// Maps `bytes` of fresh memory at `va`, an address nobody else uses.
    pub fn back(&mut self, va: u64, bytes: u64, flags: MapFlags) -> Result<Backing, Status> {
        let tables = (va + bytes).div_ceil(table_bytes(1)) - va / table_bytes(1);
        let count = 1 + tables as u32;
        let backing = Backing { slots: self.slot_range(count)?, count, bytes };
        if let Err(error) = self.fill(va, &backing, flags) {
            self.empty(&backing);
            return Err(error);
        }
        self.kept.add(bytes, count.into());
        Ok(backing)
    }

    /// The same for good.
    pub fn extend(&mut self, va: u64, bytes: u64, flags: MapFlags) -> Result<(), Status> {
        self.back(va, bytes, flags).map(|_| ())
    }

    fn fill(&mut self, va: u64, backing: &Backing, flags: MapFlags) -> Result<(), Status> {
        let &Backing { slots: frame, bytes, .. } = backing;
        self.arena.make(CapType::Frame, bytes, 1, frame.into())?;
        let Domain { slots, arena, kept, own_root, .. } = self;
        let mut own = Own { slots, arena, kept, own_root };
        let (mut done, mut mapping) = (0, frame.plus(1));
        while done < bytes {
            let at = va + done;
            let here = (bytes - done).min(table_bytes(1) - at % table_bytes(1));
            let table = self.space.table(1, at, &mut own)?;
            let pages = (here / PAGE) as u32;
            table.map(entry_of(1, at), pages, frame, done, flags, Place::own(mapping))?;
            (done, mapping) = (done + here, mapping.plus(1));
        }
        Ok(())
    }

    /// Unmaps what [`Domain::back`] mapped; the memory goes back to the memory server.
    pub fn take_back(&mut self, backing: Backing) {
        self.empty(&backing);
        self.kept.bytes -= backing.bytes;
        self.kept.caps -= u64::from(backing.count);
    }

    fn empty(&mut self, backing: &Backing) {
        for slot in (0..backing.count).map(|index| backing.slots.plus(index)) {
            // An empty slot is as good as an emptied one.
            slot.discard();
            self.slots.free(slot);
        }
    }

    /// A new window.
    pub fn window(&mut self) -> Result<Window, Status> {
        self.windows()
    }

    /// New windows, all in one table.
    pub fn windows<const N: usize, const BYTES: u64>(
        &mut self,
    ) -> Result<Windows<N, BYTES>, Status> {
        const { assert!(N as u64 * BYTES <= table_bytes(1)) };
        let va = self.reserve(table_bytes(1));
        let mappings = if N == 1 { self.slot()? } else { self.slot_range(N as u32)? };
        let Domain { slots, arena, kept, own_root, .. } = self;
        let mut own = Own { slots, arena, kept, own_root };
        let table = self.space.table(1, va, &mut own)?;
        Ok(Windows::new(Area::new(va, table, mappings)))
    }

    /// Addresses for `bytes`, in tables of their own, with a gap behind.
    fn reserve(&mut self, bytes: u64) -> u64 {
        let va = self.next_window;
        self.next_window = (va + bytes + PAGE).next_multiple_of(table_bytes(1));
        va
    }
}
