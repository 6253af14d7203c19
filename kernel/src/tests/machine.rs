//! A pretended machine with one domain, whose invocations take the way of real ones: registers,
//! `on_syscall`, registers. After each, all invariants are checked.

use crate::arch;
use crate::cap::memory_cap;
use crate::cap::retype::{home_ram, install_kernel_half};
use crate::check;
use crate::cores::{CoreId, Cores, Shared};
use crate::driver::{Core, CpuDriver};
use crate::events::on_syscall;
use crate::object::{slot_at, Dcb, DcbRef, Obj, SlotRef, State};
use crate::operations::configure::{configure, Settings};
use captypes::invocations::{MapFlags, Reply};
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Invocation, ObjectKind, Place, Rights, Status};
use mdb::RawCap;
use std::alloc::{alloc_zeroed, Layout};
use std::boxed::Box;

/// Physical address of the first byte of memory; a multiple of 1 GiB.
pub const FIRST: u64 = 1 << 30;
/// Bytes of memory.
pub const BYTES: u64 = 16 << 20;
/// Bytes of memory behind, of which there are no capabilities to begin with.
pub const MORE: u64 = 2 << 20;
/// Where the RAM begins that nothing was made of.
pub const FREE: u64 = FIRST + (1 << 20);
/// A range that is no memory, 2 GiB.
pub const DEVICE: u64 = 4 << 30;

pub const ROOT: CapAddr = CapAddr(1);
pub const DISPATCHER: CapAddr = CapAddr(2);
pub const VSPACE: CapAddr = CapAddr(3);
pub const FRAME: CapAddr = CapAddr(4);
pub const RAM: CapAddr = CapAddr(5);
pub const DEVICES: CapAddr = CapAddr(6);
pub const KERNEL: CapAddr = CapAddr(7);
pub const IO: CapAddr = CapAddr(8);
pub const IRQ: CapAddr = CapAddr(9);
pub const ID: CapAddr = CapAddr(10);
pub const PERFMON: CapAddr = CapAddr(11);

pub struct Machine {
    pub core: Box<Core>,
    pub dcb: DcbRef,
    next: u64,
    /// Check the invariants after every invocation?
    pub checking: bool,
    memory: *mut u8,
}

const LAYOUT: Layout = match Layout::from_size_align((BYTES + MORE) as usize, 1 << 21) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; nothing of the machine outlives it.
        unsafe { std::alloc::dealloc(self.memory, LAYOUT) };
    }
}

fn object(ty: CapType, base: u64, bytes: u64) -> RawCap {
    memory_cap(ty as u8, Rights::ALL, 0, base, bytes)
}

impl Machine {
    pub fn new() -> Machine {
        // Not those of other tests: they count.
        Machine::with_cores(Cores::new(Box::leak(Box::new([Shared::new()]))))
    }

    /// The first of these cores.
    pub fn with_cores(cores: Cores) -> Machine {
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc_zeroed(LAYOUT) };
        arch::set_phys_memory(memory, FIRST, BYTES + MORE);
        let mut core = Box::new(Core::new(0, 0, 0, CpuDriver::new()));
        core.place();
        core.local.set_core(CoreId(0), cores);
        let dcb = Obj::<Dcb>::of(&object(CapType::Dispatcher, FIRST, 4096)).unwrap();
        let mut machine = Machine { core, dcb, next: FIRST + 4096, checking: true, memory };
        arch::show(FIRST, 4096);
        Dcb::init(FIRST, machine.core.local.core.id);
        machine.build();
        machine
    }

    fn take(&mut self, bytes: u64) -> u64 {
        arch::show(self.next, bytes);
        self.next += bytes;
        self.next - bytes
    }

    fn build(&mut self) {
        let (root, node) = (self.take(L2_BYTES), self.take(L2_BYTES));
        let (pml4, frame) = (self.take(4096), self.take(4096));
        arch::hide(frame, 4096);
        install_kernel_half(pml4);
        let db = &mut self.core.local.caps.db;
        db.insert(slot_at(root, 0), object(CapType::L2CNode, node, L2_BYTES));
        let scaled = |ty: CapType, count: u64| RawCap {
            word: count << 12,
            ..memory_cap(ty as u8, Rights::ALL, 0, 0, 0)
        };
        let caps = [
            (ROOT, object(CapType::L1CNode, root, L2_BYTES)),
            (DISPATCHER, object(CapType::Dispatcher, FIRST, 4096)),
            (VSPACE, object(CapType::Pml4, pml4, 4096)),
            (FRAME, object(CapType::Frame, frame, 4096)),
            (RAM, home_ram(FREE, FIRST + BYTES - FREE, 0)),
            (DEVICES, object(CapType::PhysAddr, DEVICE, 2 << 30)),
            (KERNEL, scaled(CapType::Kernel, 0)),
            (IO, scaled(CapType::Io, 65536)),
            (IRQ, scaled(CapType::Irq, 16)),
            (ID, scaled(CapType::Id, 1 << 39)),
            (PERFMON, RawCap { base: 1 << 12, ..scaled(CapType::PerfMon, 0) }),
        ];
        for (addr, cap) in caps {
            db.insert(slot_at(node, addr.l2()), cap);
        }
        let at = |addr: CapAddr| Some(slot_at(node, addr.l2()));
        let settings = Settings {
            cspace: at(ROOT),
            vspace: at(VSPACE),
            frame: at(FRAME),
            frame_va: 0x1000,
            ..Settings::default()
        };
        let dcb = self.dcb;
        self.core.local.caps.set_first(dcb);
        configure(&mut self.core.local, dcb, dcb, settings).unwrap();
        self.core.local.sched.wake(dcb);
        self.run();
    }

    /// Lets the core choose who runs.
    pub fn run(&mut self) {
        self.core.local.sched.block();
        crate::events::leave(&mut self.core);
    }

    /// The slot at an address of the domain.
    pub fn slot(&self, addr: CapAddr) -> SlotRef {
        crate::cap::lookup::own_slot(self.dcb, addr).unwrap()
    }

    /// Who runs now.
    pub fn current(&self) -> Option<DcbRef> {
        self.core.local.sched.current()
    }

    /// Executes an invocation as the current dispatcher, without waiting for its end.
    pub fn raw<I: Invocation>(&mut self, target: Place, caps: u64, args: I) {
        let dcb = self.core.local.sched.current().expect("somebody runs");
        self.raw_words(I::LABEL as u64 | caps << 16, target.0, args.encode());
        let _ = dcb;
    }

    /// The same from words.
    pub fn raw_words(&mut self, rax: u64, rdi: u64, args: [u64; 9]) {
        let dcb = self.core.local.sched.current().expect("somebody runs");
        dcb.ctx.set_invocation(rax, rdi, args);
        on_syscall(&mut self.core);
        if self.checking {
            self.check();
        }
    }

    pub fn check(&self) {
        if let Err(broken) = check::check(&self.core.local) {
            panic!("invariant broken: {broken:x?}");
        }
    }

    /// Executes an invocation as the domain.
    pub fn call<I: Invocation>(
        &mut self,
        target: impl Into<Place>,
        args: I,
    ) -> Result<I::Reply, Status> {
        assert_eq!(self.current(), Some(self.dcb));
        self.raw(target.into(), 0, args);
        assert_eq!(self.current(), Some(self.dcb));
        Status::from_word(self.dcb.ctx.rax.get())?;
        I::Reply::decode(&self.dcb.ctx.words())
    }

    /// Executes an invocation with all repetitions.
    pub fn until_done<I: Invocation + Copy>(
        &mut self,
        target: impl Into<Place>,
        args: I,
    ) -> Result<I::Reply, Status> {
        let target = target.into();
        loop {
            match self.call(target, args) {
                Err(Status::Again) => {}
                other => return other,
            }
        }
    }

    /// Deletes with all repetitions.
    pub fn delete(&mut self, target: impl Into<Place>) -> Result<(), Status> {
        self.until_done(target, op::Delete {})
    }

    /// Revokes with all repetitions.
    pub fn revoke(&mut self, target: impl Into<Place>) -> Result<(), Status> {
        self.until_done(target, op::Revoke {})
    }

    /// Deletes what nobody can reach.
    pub fn collect_cycles(&mut self) -> u32 {
        self.until_done(KERNEL, op::CollectCycles {}).unwrap().count
    }

    /// Makes one object at `offset` of the RAM.
    pub fn make(
        &mut self,
        ty: impl Into<ObjectKind>,
        offset: u64,
        bytes: u64,
        dst: u32,
    ) -> CapAddr {
        let dst = CapAddr(dst);
        self.retype(RAM, ty, offset, bytes, 1, dst).unwrap();
        dst
    }

    pub fn retype(
        &mut self,
        src: CapAddr,
        ty: impl Into<ObjectKind>,
        offset: u64,
        bytes: u64,
        count: u32,
        dst: impl Into<Place>,
    ) -> Result<(), Status> {
        let ty = ty.into();
        self.until_done(src, op::Retype { ty, offset, bytes, count, dst: dst.into() })
    }

    pub fn map(
        &mut self,
        table: CapAddr,
        entry: u32,
        count: u32,
        src: CapAddr,
        flags: MapFlags,
        mapping: CapAddr,
    ) -> Result<(), Status> {
        let (src, mapping) = (src.into(), mapping.into());
        self.call(table, op::Map { entry, count, src, offset: 0, flags, mapping })
    }

    pub fn is_empty(&self, addr: CapAddr) -> bool {
        self.slot(addr).is_empty()
    }

    /// Makes a second dispatcher from objects at `offset` of the RAM, sharing the CSpace; `slots`
    /// to `slots + 2` are used.
    pub fn second(&mut self, offset: u64, slots: u32) -> DcbRef {
        let dispatcher = self.make(CapType::Dispatcher, offset, 4096, slots);
        let frame = self.make(CapType::Frame, offset + 4096, 4096, slots + 1);
        let args = op::Configure {
            cspace: ROOT.into(),
            vspace: VSPACE.into(),
            frame: frame.into(),
            frame_va: 0x2000,
            fault_ep: Place::NULL,
            options: 0,
        };
        self.call(dispatcher, args).unwrap();
        self.call(dispatcher, op::Start {}).unwrap();
        let dcb = Obj::<Dcb>::of(&self.slot(dispatcher).cap()).unwrap();
        assert_eq!(dcb.state.get(), State::Ready);
        dcb
    }
}
