//! Makes the executors, and gives them what they live on and what they play with.

use crate::executor;
use crate::mailbox;
use crate::touch::modeltest_upcall;
use core::cell::UnsafeCell;
use libos::abi::dispatcher::{DispatcherFrame, Regs, UPCALLS, USER_CS, USER_SS};
use libos::abi::slots::{self, BOOT_DEVICES_L1};
use libos::captypes::invocations::options;
use libos::captypes::place::L2_BYTES;
use libos::domain;
use libos::ram::Ram;
use libos::vspace::{RW, RWX};
use libos::PAGE;
use libos::{invoke, op, Cap, CapAddr, CapType, Place, Rights, Status};
use lockstep::{slot, Facts, EXECUTORS, MAILBOX_BYTES, OWN_ENTRIES};
use testkit::Machine;

/// Where the host wants things.
pub struct Wishes {
    /// Physical address of the mailbox.
    pub mailbox: u64,
    /// Physical address and bytes of the large Frame.
    pub big: u64,
    pub big_bytes: u64,
}

/// Everything is made of the 64 MiB behind the mailbox: there the RAM to play with …
const PLAY: (u64, u64) = (2 << 20, 16 << 20);
/// … and RAM that is taken from the home and goes back there.
const HOMELAND: (u64, u64) = (32 << 20, 64 * PAGE);
/// Ports that do nothing: the one that firmware writes its progress to, and those behind it.
const PORTS: (u64, u64) = (0x80, 8);
/// Lines that nothing in the machine uses.
const LINES: (u64, u64) = (5, 3);

/// Without the right to revoke, nobody can take anything from others.
const LASTING: Rights = Rights(Rights::ALL.0 & !Rights::REVOKE.0);

const STACK: usize = 16 << 10;

#[repr(C, align(16))]
struct Stacks([UnsafeCell<[u8; STACK]>; 2 * EXECUTORS]);

// SAFETY: each stack is used by one executor only; nobody makes references to them.
unsafe impl Sync for Stacks {}

static STACKS: Stacks = Stacks([const { UnsafeCell::new([0; STACK]) }; 2 * EXECUTORS]);

fn stack_top(n: usize) -> u64 {
    STACKS.0[n].get() as u64 + STACK as u64
}

/// What one executor consists of.
#[derive(Clone, Copy)]
struct Parts {
    root: CapAddr,
    vspace: CapAddr,
    dispatcher: CapAddr,
    frame: CapAddr,
    frame_va: u64,
}

/// Makes everything and starts the executors.
pub fn prepare(machine: &Machine, wishes: &Wishes) -> Result<(), Status> {
    let home = machine.ram;
    let offset = |address: u64| address.wrapping_sub(machine.ram_base);
    let mailbox = domain::with(|domain| {
        let frame = domain.slot()?;
        home.retype(CapType::Frame, offset(wishes.mailbox), MAILBOX_BYTES, 1, frame)?;
        domain.map(frame.into(), 0, MAILBOX_BYTES, RW)
    })?;
    // SAFETY: just mapped, for good.
    unsafe { mailbox::open(mailbox) };

    let mut parts = [None; EXECUTORS];
    for own in &mut parts {
        *own = Some(make()?);
    }
    let parts = parts.map(|own| own.expect("just made"));
    let play = Place::within(parts[0].root, CapAddr(slot::PLAY));
    home.retype(CapType::Ram, offset(wishes.mailbox) + PLAY.0, PLAY.1, 1, play)?;
    let toys = Toys::make(home, offset(wishes.big), wishes.big_bytes)?;
    for own in &parts {
        toys.give(own, &parts)?;
    }
    for other in &parts[1..] {
        play.mint(Place::within(other.root, CapAddr(slot::PLAY)), LASTING)?;
    }
    let mut facts = Facts { executors: Default::default(), homeland: [0; 2] };
    for (own, facts) in parts.iter().zip(&mut facts.executors) {
        let node = Place::l1(own.root, 0).identify()?.base;
        let base = |cap: CapAddr| cap.identify().map(|what| what.base);
        *facts = [base(own.root)?, node, base(own.vspace)?, base(own.dispatcher)?];
    }
    facts.homeland = [wishes.mailbox + HOMELAND.0, HOMELAND.1];
    collect_all()?;
    mailbox::announce(facts);
    // The first one, which has the turn, starts last.
    for (n, own) in parts.iter().enumerate().rev() {
        start(n, own)?;
    }
    Ok(())
}

/// Makes the objects of one executor, and maps this program in its address space.
fn make() -> Result<Parts, Status> {
    domain::with(|domain| {
        let root = domain.make(CapType::L1CNode, L2_BYTES)?;
        domain.arena.make(CapType::L2CNode, L2_BYTES, 1, Place::l1(root, 0))?;
        let vspace = domain.make(CapType::Pml4, PAGE)?;
        let dispatcher = domain.make(CapType::Dispatcher, PAGE)?;
        let frame = domain.make(CapType::Frame, PAGE)?;
        let frame_va = domain.map(frame.into(), 0, PAGE, RW)?;
        for entry in OWN_ENTRIES {
            let table = own_table(entry)?;
            vspace.map(entry, 1, table, 0, RWX, domain.slot()?)?;
        }
        Ok(Parts { root, vspace, dispatcher, frame, frame_va })
    })
}

/// The capability to the table at an entry of the program's root page table. The kernel and the
/// runtime have made it, in some slot of the program's CSpace.
fn own_table(entry: u32) -> Result<CapAddr, Status> {
    const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
    let address = slots::VSPACE.read_entry(entry)? & ADDRESS;
    for l1 in 0..64 {
        for l2 in 0..256 {
            let Ok(what) = CapAddr::new(l1, l2).identify() else { continue };
            if what.ty == CapType::Pdpt && what.base == address {
                return Ok(CapAddr::new(l1, l2));
            }
        }
    }
    Err(Status::Empty)
}

/// What all executors get copies of.
struct Toys {
    big: CapAddr,
    home: CapAddr,
    device: CapAddr,
    io: CapAddr,
    irq: CapAddr,
}

impl Toys {
    fn make(home: CapAddr, big_offset: u64, big_bytes: u64) -> Result<Toys, Status> {
        domain::with(|domain| {
            let (big, io, irq) = (domain.slot()?, domain.slot()?, domain.slot()?);
            home.retype(CapType::Frame, big_offset, big_bytes, 1, big)?;
            slots::IO.retype(CapType::Io, PORTS.0, PORTS.1, 1, io)?;
            slots::IRQ.retype(CapType::Irq, LINES.0, LINES.1, 1, irq)?;
            let device = CapAddr::new(BOOT_DEVICES_L1, 0);
            Ok(Toys { big, home, device, io, irq })
        })
    }

    /// Fills an executor's slots.
    fn give(&self, own: &Parts, all: &[Parts; EXECUTORS]) -> Result<(), Status> {
        let give =
            |cap: CapAddr, number: u32| cap.mint(Place::within(own.root, CapAddr(number)), LASTING);
        give(own.root, slot::ROOT)?;
        give(own.dispatcher, slot::DISPATCHER)?;
        give(own.vspace, slot::VSPACE)?;
        give(slots::KERNEL, slot::KERNEL)?;
        for (n, other) in (0..).zip(all) {
            give(other.root, slot::ROOTS + n)?;
            give(other.vspace, slot::VSPACES + n)?;
            give(other.dispatcher, slot::DISPATCHERS + n)?;
        }
        give(self.big, slot::BIG)?;
        give(self.home, slot::HOME)?;
        give(self.io, slot::IO)?;
        give(self.irq, slot::IRQ)?;
        give(slots::ID, slot::ID)?;
        give(slots::PERFMON, slot::PERFMON)?;
        if slots::PERSISTENT.identify().is_ok() {
            give(slots::PERSISTENT, slot::PERSISTENT)?;
        }
        // A machine without firmware tables has none.
        if self.device.identify().is_ok() {
            give(self.device, slot::DEVICE)?;
        }
        Ok(())
    }
}

/// Nothing that came back before shall be mistaken for what comes back later.
fn collect_all() -> Result<(), Status> {
    while invoke(slots::KERNEL, op::CollectReclaimed {})?.bytes0 != 0 {}
    Ok(())
}

fn start(n: usize, own: &Parts) -> Result<(), Status> {
    // SAFETY: mapped for good by `make`; its executor does not run yet.
    let frame = unsafe { &mut *(own.frame_va as *mut DispatcherFrame) };
    frame.upcall = [modeltest_upcall as *const () as u64; UPCALLS];
    frame.upcall_stack = stack_top(2 * n);
    frame.disabled = 1.into();
    frame.save = Regs {
        rdi: n as u64,
        rsi: own.frame_va,
        rip: executor::run as *const () as u64,
        cs: USER_CS,
        rflags: 0x202,
        // As after a call.
        rsp: stack_top(2 * n + 1) - 8,
        ss: USER_SS,
        ..Regs::default()
    };
    let configuration = op::Configure {
        cspace: own.root.into(),
        vspace: own.vspace.into(),
        frame: own.frame.into(),
        frame_va: own.frame_va,
        fault_ep: Place::NULL,
        options: options::LINUX,
    };
    invoke(own.dispatcher, configuration)?;
    invoke(own.dispatcher, op::Start {})
}
