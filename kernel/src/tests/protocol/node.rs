//! One core of the pretended machine: a domain with several dispatchers that share a CSpace, and one
//! more that is the monitor. Whatever they do goes through registers and `on_syscall`.

use crate::arch;
use crate::cap::retype::{home_ram, install_kernel_half};
use crate::cap::{memory_cap, MEMORY};
use crate::cores::{CoreId, Cores, ThisCore};
use crate::driver::{Core, CpuDriver};
use crate::events::{leave, on_irq, on_syscall};
use crate::object::{slot_at, Dcb, DcbRef, Obj, SlotRef, State};
use crate::operations::configure::{configure, Settings};
use crate::tests::machine::FIRST;
use captypes::invocations::Reply;
use captypes::place::L2_BYTES;
use captypes::{op, CapAddr, CapType, Invocation, Place, Rights, Status};
use core::ops::Range;
use mdb::RawCap;
use std::boxed::Box;

/// Bytes of memory of each core.
pub const SHARE: u64 = 10 << 20;
/// Bytes at the beginning of a share that are no RAM: what the domain itself is made of.
const OWN: u64 = 1 << 20;
/// Dispatchers of the domain.
pub const CLIENTS: usize = 3;

const ROOT: CapAddr = CapAddr(1);
/// Random numbers spare it.
const UNUSED: CapAddr = CapAddr(2);
pub const VSPACE: CapAddr = CapAddr(3);
const FRAME: CapAddr = CapAddr(4);
/// The home.
pub const RAM: CapAddr = CapAddr(5);
const MONITOR: CapAddr = CapAddr(6);
/// The kernel.
pub const KERNEL: CapAddr = CapAddr(7);
const ENDPOINT: CapAddr = CapAddr(8);
const LEFT: CapAddr = CapAddr(9);
/// First slot that the clients may do anything with.
pub const FIRST_FREE: u32 = 10;
/// Where the capabilities to the clients' dispatchers are: random numbers do not lead there.
pub const CONTROL_L1: u32 = 200;

/// Everything that the domain needs to live, which nobody may take away from it.
pub const KEPT: Rights = Rights(Rights::ALL.0 & !Rights::REVOKE.0);

pub struct Node {
    pub core: Box<Core>,
    pub id: u8,
    first: u64,
    next: u64,
    pub clients: [DcbRef; CLIENTS],
    pub monitor: DcbRef,
}

fn object(ty: CapType, base: u64, bytes: u64) -> RawCap {
    memory_cap(ty as u8, KEPT, 0, base, bytes)
}

/// The RAM of core `id`.
pub fn home(id: u8) -> Range<u64> {
    let first = FIRST + u64::from(id) * SHARE;
    first + OWN..first + SHARE
}

/// Where the capability to client `n` is.
pub fn client_at(n: usize) -> CapAddr {
    CapAddr::new(CONTROL_L1, n as u32)
}

impl Node {
    /// Core `id`; what cores share is in `cores`. Memory was given with `set_phys_memory`.
    pub fn new(id: u8, cores: Cores) -> Node {
        arch::become_core(usize::from(id));
        let mut core = Box::new(Core::new(0, 0, 0, CpuDriver::new()));
        core.place();
        core.local.set_this_core(ThisCore::new(CoreId(id), cores));
        let first = FIRST + u64::from(id) * SHARE;
        let nobody = Obj::<Dcb>::at(first);
        let mut node =
            Node { core, id, first, next: first, clients: [nobody; CLIENTS], monitor: nobody };
        node.build();
        node
    }

    fn take(&mut self, bytes: u64) -> u64 {
        arch::show(self.next, bytes);
        self.next += bytes;
        self.next - bytes
    }

    fn build(&mut self) {
        let pages: [u64; 2 * (CLIENTS + 1)] = std::array::from_fn(|_| self.take(4096));
        pages.iter().skip(1).step_by(2).for_each(|&frame| arch::hide(frame, 4096));
        let (pml4, endpoint) = (self.take(4096), self.take(4096));
        self.next = self.next.next_multiple_of(L2_BYTES);
        let [root, node, control, left] = [0; 4].map(|_| self.take(L2_BYTES));
        assert!(self.next <= self.first + OWN);
        install_kernel_half(pml4);
        let range = home(self.id);
        let db = &mut self.core.local.caps.db;
        let l2 = |base| object(CapType::L2CNode, base, L2_BYTES);
        db.insert(slot_at(root, 0), l2(node));
        db.insert(slot_at(root, CONTROL_L1), l2(control));
        let caps = [
            (ROOT, object(CapType::L1CNode, root, L2_BYTES)),
            (UNUSED, object(CapType::Frame, pages[1], 4096)),
            (VSPACE, object(CapType::Pml4, pml4, 4096)),
            (FRAME, object(CapType::Frame, pages[1], 4096)),
            (RAM, RawCap { rights: KEPT.0, ..home_ram(range.start, range.end - range.start, 0) }),
            (MONITOR, object(CapType::Dispatcher, pages[0], 4096)),
            (KERNEL, memory_cap(CapType::Kernel as u8, KEPT, 0, 0, 0)),
            (ENDPOINT, object(CapType::Endpoint, endpoint, 4096)),
            (LEFT, l2(left)),
        ];
        for (addr, cap) in caps {
            db.insert(slot_at(node, addr.l2()), cap);
        }
        let at = |addr: CapAddr| slot_at(node, addr.l2());
        self.monitor = self.dispatcher(at(MONITOR), at(ROOT), at(VSPACE), at(FRAME));
        self.core.local.caps.set_first(self.monitor);
        for n in 0..CLIENTS {
            let frame = slot_at(control, 100 + n as u32);
            let db = &mut self.core.local.caps.db;
            db.insert(frame, object(CapType::Frame, pages[2 * n + 3], 4096));
            db.insert(
                slot_at(control, n as u32),
                object(CapType::Dispatcher, pages[2 * n + 2], 4096),
            );
            self.clients[n] =
                self.dispatcher(slot_at(control, n as u32), at(ROOT), at(VSPACE), frame);
        }
        self.core.local.sched.block();
        leave(&mut self.core);
        let args = op::SetMonitor { endpoint: ENDPOINT.into(), bits: 1, left: LEFT.into() };
        self.kernel(args).unwrap();
        self.as_monitor(ENDPOINT.into(), op::Listen { bits: 2 }).unwrap();
    }

    fn dispatcher(
        &mut self,
        own: SlotRef,
        root: SlotRef,
        vspace: SlotRef,
        frame: SlotRef,
    ) -> DcbRef {
        let dcb = Obj::<Dcb>::of(&own.cap()).unwrap();
        Dcb::init(dcb.pa(), self.core.local.core.id);
        let settings = Settings {
            cspace: Some(root),
            vspace: Some(vspace),
            frame: Some(frame),
            frame_va: 0x1000,
            ..Settings::default()
        };
        configure(&mut self.core.local, dcb, dcb, settings).unwrap();
        self.core.local.sched.wake(dcb);
        dcb
    }

    /// Makes a client anew that is gone, in the memory that it had: whoever still believes in it is
    /// wrong.
    pub fn revive(&mut self, n: usize) {
        arch::become_core(usize::from(self.id));
        let at = client_at(n);
        let slot = self.slot(at);
        if !slot.is_empty() {
            return;
        }
        let pa = self.clients[n].pa();
        // No capability leads to the page any more.
        crate::object::mem::zero_object(pa, 4096);
        self.core.local.caps.db.insert(slot, object(CapType::Dispatcher, pa, 4096));
        let frame = self.slot(CapAddr::new(CONTROL_L1, 100 + n as u32));
        let (root, vspace) = (self.slot(ROOT), self.slot(VSPACE));
        self.clients[n] = self.dispatcher(slot, root, vspace, frame);
    }

    /// The slot at an address of the domain.
    pub fn slot(&self, addr: CapAddr) -> SlotRef {
        crate::cap::lookup::own_slot(self.monitor, addr).unwrap()
    }

    /// Can this client invoke something now?
    pub fn is_ready(&self, n: usize) -> bool {
        !self.clients[n].trip.abroad.get()
            && self.clients[n].state.get() == State::Ready
            && !self.slot(client_at(n)).is_empty()
            && self.clients[n].root.get() != 0
    }

    /// Does it wait for the monitor?
    pub fn waits(&self, n: usize) -> bool {
        let state = self.clients[n].state.get();
        self.clients[n].trip.abroad.get() || matches!(state, State::Calling | State::Called)
    }

    /// Takes the interrupt of another core, if there is one.
    pub fn interrupt(&mut self) -> bool {
        arch::become_core(usize::from(self.id));
        let pending = arch::take_interrupt(usize::from(self.id));
        if pending {
            on_irq(&mut self.core, arch::VECTOR_IPI);
        }
        pending
    }

    /// Lets `dcb` run.
    fn make_current(&mut self, dcb: DcbRef) {
        arch::become_core(usize::from(self.id));
        for _ in 0..64 {
            match self.core.local.sched.current() {
                Some(current) if current == dcb => return,
                Some(current) => self.core.local.sched.yield_now(current),
                None => self.core.local.sched.block(),
            }
            leave(&mut self.core);
        }
        panic!("core {}: {dcb:?} does not run: {:?}", self.id, dcb.state.get());
    }

    /// Executes an invocation as `dcb`; the status word if it did not block.
    pub fn raw(&mut self, dcb: DcbRef, rax: u64, rdi: u64, args: [u64; 9]) -> Option<u64> {
        self.make_current(dcb);
        dcb.ctx.set_invocation(rax, rdi, args);
        on_syscall(&mut self.core);
        (dcb.state.get() == State::Ready).then(|| dcb.ctx.rax.get())
    }

    /// Executes an invocation as the monitor.
    pub fn as_monitor<I: Invocation>(
        &mut self,
        target: Place,
        args: I,
    ) -> Result<I::Reply, Status> {
        let monitor = self.monitor;
        let status = self.raw(monitor, I::LABEL as u64, target.0, args.encode());
        Status::from_word(status.expect("the monitor does not wait"))?;
        I::Reply::decode(&monitor.ctx.words())
    }

    /// Invokes the kernel as the monitor.
    pub fn kernel<I: Invocation>(&mut self, args: I) -> Result<I::Reply, Status> {
        self.as_monitor(KERNEL.into(), args)
    }

    /// The next message or notification for the monitor: flags and words.
    pub fn poll(&mut self) -> Option<(u64, [u64; 6])> {
        let polled = self.as_monitor(ENDPOINT.into(), op::Poll { recv: Place::NULL });
        match polled {
            Ok(()) => Some((self.monitor.ctx.r13.get(), self.monitor.ctx.words())),
            Err(Status::Empty) => None,
            Err(other) => panic!("the monitor cannot receive: {other:?}"),
        }
    }

    /// All distinct objects in memory that are no homes.
    pub fn objects(&self) -> impl Iterator<Item = RawCap> + '_ {
        let all = self.core.local.caps.db.iter(MEMORY).map(|slot| slot.cap());
        all.filter(|cap| cap.ty != crate::cap::HOME_RAM && cap.ty != CapType::Mapping as u8)
    }
}
