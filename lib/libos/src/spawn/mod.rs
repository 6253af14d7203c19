//! New domains from static ELF programs.
//!
//! Everything that a child is made of lives in the child's own CSpace, in the L2CNode at root index
//! [`HOLD_L1`]: when its root CNode is deleted, all of it goes home. The parent keeps only the
//! root CNode and the dispatcher.
//!
//! ```text
//! build   CSpace, page tables, segments and stack, dispatcher and its frame
//! give    capabilities into abi::slots
//! start   registers, first instruction
//! ```

pub mod image;

use crate::ram::{Arena, Ram};
use crate::vspace::{AddressSpace, Supplies, Window, RW};
use crate::{invoke, Cap};
use abi::dispatcher::{DispatcherFrame, Regs, USER_CS, USER_SS};
use abi::layout::{NATIVE_FRAME, NATIVE_STACK_BYTES, NATIVE_STACK_TOP, PAGE};
use abi::slots;
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Place, Status};
use core::mem::offset_of;
use image::{Image, ImageError, Segment};

/// Root index of the L2CNode that holds a child's pages, tables and Mappings.
pub const HOLD_L1: u32 = 3;
/// Bytes of a child's root CNode: 256 L2CNodes.
const ROOT_BYTES: u64 = 16 << 10;
/// Interrupts on, and the bit that is always set.
const RFLAGS: u64 = 0x202;

/// Why a child was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnError {
    /// The file is no program.
    Image(ImageError),
    /// The kernel or the memory server refused something.
    Status(Status),
}

impl From<Status> for SpawnError {
    fn from(status: Status) -> Self {
        SpawnError::Status(status)
    }
}

impl From<ImageError> for SpawnError {
    fn from(error: ImageError) -> Self {
        SpawnError::Image(error)
    }
}

/// A domain being made, or made.
pub struct Child {
    /// Its root CNode, in the parent's CSpace.
    pub root: CapAddr,
    /// Its dispatcher, in the parent's CSpace.
    pub dispatcher: CapAddr,
    entry: u64,
}

/// Slots of the child's CSpace, filled from the parent's RAM.
struct Hold<'a> {
    root: CapAddr,
    next: u32,
    arena: &'a mut Arena,
}

impl Supplies for Hold<'_> {
    fn table(&mut self, ty: CapType) -> Result<Place, Status> {
        let slot = self.slot()?;
        self.arena.make(ty, PAGE, 1, slot)?;
        Ok(slot)
    }
    fn slot(&mut self) -> Result<Place, Status> {
        if self.next == 256 {
            return Err(Status::NoSlot);
        }
        self.next += 1;
        Ok(Place::within(self.root, CapAddr::new(HOLD_L1, self.next - 1)))
    }
}

impl Hold<'_> {
    fn frame(&mut self, bytes: u64) -> Result<Place, Status> {
        let slot = self.slot()?;
        self.arena.make(CapType::Frame, bytes, 1, slot)?;
        Ok(slot)
    }
}

impl Child {
    /// Makes a domain of the ELF program `file`: `root` and `dispatcher` are empty slots of the
    /// parent, whose `window` is used to write the child's memory. After an error, the child can
    /// only be [destroyed](Child::destroy).
    pub fn build(
        file: &[u8],
        root: CapAddr,
        dispatcher: CapAddr,
        arena: &mut Arena,
        window: &mut Window,
    ) -> Result<Self, SpawnError> {
        let image = Image::parse(file)?;
        let child = Child { root, dispatcher, entry: image.entry };
        child.make_cspace(arena)?;
        let mut space = AddressSpace::new(child.slot(slots::VSPACE));
        let mut hold = Hold { root, next: 0, arena };
        for segment in image.segments()? {
            load(&segment?, &mut space, &mut hold, window)?;
        }
        let stack = hold.frame(NATIVE_STACK_BYTES)?;
        let stack_va = NATIVE_STACK_TOP - NATIVE_STACK_BYTES;
        space.map(1, stack_va, NATIVE_STACK_BYTES, stack, 0, RW, &mut hold)?;
        let frame = child.slot(slots::FRAME);
        space.map(1, NATIVE_FRAME, PAGE, frame, 0, RW, &mut hold)?;
        Ok(child)
    }

    /// The place of a slot of the child.
    pub fn slot(&self, slot: CapAddr) -> Place {
        Place::within(self.root, slot)
    }

    /// Copies a capability of the parent to a slot of the child.
    pub fn give(&self, from: CapAddr, to: CapAddr) -> Result<(), Status> {
        from.copy_to(self.slot(to))
    }

    /// Starts the child with words for its main function. Faults are reported to `fault_ep`, or,
    /// if that is null, end the child with a line in the kernel log.
    pub fn start(
        &self,
        args: [u64; 5],
        fault_ep: Place,
        window: &mut Window,
    ) -> Result<(), Status> {
        let regs = self.first_registers(args);
        let mut view = window.open(self.slot(slots::FRAME), 0, PAGE, RW)?;
        view.write(offset_of!(DispatcherFrame, save), bytes_of(&regs))?;
        drop(view);
        let configuration = op::Configure {
            cspace: self.root.into(),
            vspace: self.slot(slots::VSPACE),
            frame: self.slot(slots::FRAME),
            frame_va: NATIVE_FRAME,
            fault_ep,
            options: 0,
        };
        invoke(self.dispatcher, configuration)?;
        invoke(self.dispatcher, op::Start {})
    }

    /// Ends the domain and gives everything back that only it had.
    pub fn destroy(self) -> Result<(), Status> {
        for slot in [self.dispatcher, self.root] {
            // The child holds copies of both; they must not keep it alive.
            match slot.revoke() {
                Ok(()) => slot.delete()?,
                Err(Status::Empty) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn make_cspace(&self, arena: &mut Arena) -> Result<(), Status> {
        arena.make(CapType::L1CNode, ROOT_BYTES, 1, self.root.into())?;
        for l1 in [0, HOLD_L1] {
            arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(self.root, l1))?;
        }
        arena.make(CapType::Dispatcher, PAGE, 1, self.dispatcher.into())?;
        arena.make(CapType::Pml4, PAGE, 1, self.slot(slots::VSPACE))?;
        arena.make(CapType::Frame, PAGE, 1, self.slot(slots::FRAME))?;
        self.give(self.root, slots::ROOT)?;
        self.give(self.dispatcher, slots::DISPATCHER)
    }

    fn first_registers(&self, args: [u64; 5]) -> Regs {
        let [rsi, rdx, rcx, r8, r9] = args;
        Regs {
            rdi: NATIVE_FRAME,
            rsi,
            rdx,
            rcx,
            r8,
            r9,
            rip: self.entry,
            cs: USER_CS,
            rflags: RFLAGS,
            rsp: NATIVE_STACK_TOP,
            ss: USER_SS,
            ..Regs::default()
        }
    }
}

fn load(
    segment: &Segment,
    space: &mut AddressSpace,
    hold: &mut Hold,
    window: &mut Window,
) -> Result<(), Status> {
    let frame = hold.frame(segment.bytes)?;
    let (first, rest) = segment.data.split_at(segment.data.len().min(PAGE as usize - segment.skip));
    if !first.is_empty() {
        window.open(frame, 0, PAGE, RW)?.write(segment.skip, first)?;
    }
    window.fill(frame, PAGE, rest)?;
    space.map(1, segment.va, segment.bytes, frame, 0, segment.flags, hold)
}

fn bytes_of(regs: &Regs) -> &[u8] {
    // SAFETY: `Regs` is `repr(C)` and made of words, so all of its bytes are initialised.
    unsafe { core::slice::from_raw_parts(regs as *const Regs as *const u8, size_of::<Regs>()) }
}
