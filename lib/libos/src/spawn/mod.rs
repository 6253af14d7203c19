//! New domains from static ELF programs.
//!
//! Everything that a child is made of lives in the child's own CSpace, in L2CNodes at the root
//! indexes from [`HOLD_L1`] on: when its root CNode is deleted, all of it goes home. The parent keeps only the
//! root CNode and the dispatcher.
//!
//! ```text
//! build   CSpace, page tables, segments and stack, dispatcher and its frame
//! give    capabilities into abi::slots
//! start   registers, first instruction
//! ```

pub mod image;

use crate::ephemeral::FrameWriter;
use crate::ram::Ram;
use crate::vspace::{self, AddressSpace, Supplies, R, RW, RWX, RX};
use crate::{invoke, supervisor, Cap};
use abi::dispatcher::{DispatcherFrame, Regs, USER_CS, USER_SS};
use abi::layout::{NATIVE_FRAME, NATIVE_STACK_BYTES, NATIVE_STACK_TOP, PAGE};
use abi::slots;
use captypes::invocations::MapFlags;
use captypes::place::{L2_BYTES, L2_SLOTS};
use captypes::{op, CapAddr, CapType, Place, Rights, Status};
use core::cell::Cell;
use core::mem::offset_of;
use image::{Access, Image, ImageError, Segment};

/// First root index of the L2CNodes that hold a child's pages, tables and Mappings.
pub const HOLD_L1: u32 = 3;
/// The root index behind the last of them: a program's own nodes start there.
const HOLD_END: u32 = crate::domain::FIRST_NODE;
/// Bytes of a child's root CNode: 256 L2CNodes.
const ROOT_BYTES: u64 = 16 << 10;
/// Rights of a child to its own root CNode and dispatcher: all but `REVOKE`, with which it could take the
/// parent's copies away.
const OWN: Rights = Rights(Rights::ALL.0 & !Rights::REVOKE.0);
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
    /// To whoever supervises the parent.
    known: Cell<supervisor::Known>,
    /// Its rights to its own root CNode.
    root_rights: Rights,
    entry: u64,
    space: AddressSpace,
    /// Slots used of those from [`HOLD_L1`] on.
    held: u32,
}

/// Slots of the child's CSpace, filled from the parent's RAM.
struct Hold<'a, R: Ram> {
    root: CapAddr,
    held: &'a mut u32,
    arena: &'a mut R,
}

impl<R: Ram> Supplies for Hold<'_, R> {
    fn table(&mut self, ty: CapType) -> Result<Place, Status> {
        let slot = self.slot()?;
        self.arena.make(ty, PAGE, 1, slot)?;
        Ok(slot)
    }
    fn slot(&mut self) -> Result<Place, Status> {
        let (l1, l2) = (HOLD_L1 + *self.held / L2_SLOTS, *self.held % L2_SLOTS);
        if l1 == HOLD_END {
            return Err(Status::NoSlot);
        }
        if l2 == 0 {
            self.arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(self.root, l1))?;
        }
        *self.held += 1;
        Ok(Place::within(self.root, CapAddr::new(l1, l2)))
    }
}

impl Child {
    /// Makes a domain of the ELF program `file`: `root` and `dispatcher` are empty slots of the
    /// parent, which makes the child of its own RAM and writes the child's memory by `writer`. After
    /// an error, the child can only be [destroyed](Child::destroy).
    pub fn build(
        file: &[u8],
        root: CapAddr,
        dispatcher: CapAddr,
        arena: &mut impl Ram,
        writer: &mut impl FrameWriter,
    ) -> Result<Self, SpawnError> {
        let image = Image::parse(file)?;
        let space = AddressSpace::new(Place::within(root, slots::VSPACE));
        let mut child = Child {
            root,
            dispatcher,
            known: Default::default(),
            root_rights: OWN,
            entry: image.entry,
            space,
            held: 0,
        };
        child.make_cspace(arena)?;
        for segment in image.segments() {
            child.load(&segment?, arena, writer)?;
        }
        let stack = child.frame(NATIVE_STACK_BYTES, arena)?;
        let stack_va = NATIVE_STACK_TOP - NATIVE_STACK_BYTES;
        child.map(stack_va, NATIVE_STACK_BYTES, stack, 0, RW, arena)?;
        child.map(NATIVE_FRAME, PAGE, child.slot(slots::FRAME), 0, RW, arena)?;
        Ok(child)
    }

    /// Trusts it with its whole root CNode, so that it can replace that by a larger one when 65,280 slots
    /// are not enough.
    pub fn trust_with_root(&mut self) {
        self.root_rights = Rights::ALL;
    }

    /// Makes a Frame in a slot of the child.
    pub fn frame(&mut self, bytes: u64, arena: &mut impl Ram) -> Result<Place, Status> {
        let mut hold = Hold { root: self.root, held: &mut self.held, arena };
        let slot = hold.slot()?;
        hold.arena.make(CapType::Frame, bytes, 1, slot)?;
        Ok(slot)
    }

    /// Maps `bytes` of `frame` from `offset` on at `va` of the child.
    pub fn map(
        &mut self,
        va: u64,
        bytes: u64,
        frame: Place,
        offset: u64,
        flags: MapFlags,
        arena: &mut impl Ram,
    ) -> Result<(), Status> {
        let mut hold = Hold { root: self.root, held: &mut self.held, arena };
        self.space.map(1, va, bytes, frame, offset, flags, &mut hold)
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
        writer: &mut impl FrameWriter,
    ) -> Result<(), Status> {
        // Before there are copies.
        let known = supervisor::admit(self.dispatcher)?;
        self.known.set(known);
        self.prepare(args, fault_ep, writer)?;
        invoke(self.dispatcher, op::Start {})
    }

    /// All of [`Child::start`] but the first instruction.
    pub fn prepare(
        &self,
        args: [u64; 5],
        fault_ep: Place,
        writer: &mut impl FrameWriter,
    ) -> Result<(), Status> {
        self.prepare_memory(args, writer)?;
        self.root.mint(self.slot(slots::ROOT), self.root_rights)?;
        self.dispatcher.mint(self.slot(slots::DISPATCHER), OWN)?;
        let configuration = op::Configure {
            cspace: self.root.into(),
            vspace: Place::NULL,
            frame: Place::NULL,
            frame_va: 0,
            fault_ep,
            options: 0,
        };
        invoke(self.dispatcher, configuration)
    }

    /// All but the CSpace, which whoever starts the child gives to it, together with capabilities to
    /// itself.
    pub fn prepare_memory(
        &self,
        args: [u64; 5],
        writer: &mut impl FrameWriter,
    ) -> Result<(), Status> {
        let save = offset_of!(DispatcherFrame, save) as u64;
        let regs = self.first_registers(args);
        writer.write(self.slot(slots::FRAME), save, bytes_of(&regs))?;
        let configuration = op::Configure {
            cspace: Place::NULL,
            vspace: self.root_table(),
            frame: self.slot(slots::FRAME),
            frame_va: NATIVE_FRAME,
            fault_ep: Place::NULL,
            options: 0,
        };
        invoke(self.dispatcher, configuration)
    }

    /// Ends the domain and gives everything back that only it had.
    pub fn destroy(self) -> Result<(), Status> {
        // The child holds copies of both; they must not keep it alive.
        let known = self.known.get();
        for slot in [self.dispatcher, self.root] {
            match slot.revoke() {
                Ok(()) => slot.delete()?,
                // Somebody else answers for it.
                Err(Status::NoRights) => supervisor::end(slot, known)?,
                Err(Status::Empty) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn load(
        &mut self,
        segment: &Segment,
        arena: &mut impl Ram,
        writer: &mut impl FrameWriter,
    ) -> Result<(), Status> {
        let frame = self.frame(segment.bytes, arena)?;
        writer.write(frame, segment.skip as u64, segment.data)?;
        let flags = match segment.access {
            Access::Read => R,
            Access::Write => RW,
            Access::Execute => RX,
        };
        self.map(segment.va, segment.bytes, frame, 0, flags, arena)
    }

    fn make_cspace(&self, arena: &mut impl Ram) -> Result<(), Status> {
        arena.make(CapType::L1CNode, ROOT_BYTES, 1, self.root.into())?;
        arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(self.root, 0))?;
        arena.make(CapType::Dispatcher, PAGE, 1, self.dispatcher.into())?;
        arena.make(CapType::Pml4, PAGE, 1, self.slot(slots::VSPACE))?;
        if vspace::root() != slots::VSPACE {
            let (root, mapping) = (self.root_table(), self.slot(slots::ROOT_TABLE_MAPPING));
            arena.make(CapType::Pml5, PAGE, 1, root)?;
            root.map(0, 1, self.slot(slots::VSPACE), 0, RWX, mapping)?;
        }
        arena.make(CapType::Frame, PAGE, 1, self.slot(slots::FRAME))
    }

    /// The child's root page table.
    pub fn root_table(&self) -> Place {
        self.slot(vspace::root())
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

fn bytes_of(regs: &Regs) -> &[u8] {
    // SAFETY: `Regs` is `repr(C)` and made of words, so all of its bytes are initialised.
    unsafe { core::slice::from_raw_parts(regs as *const Regs as *const u8, size_of::<Regs>()) }
}
