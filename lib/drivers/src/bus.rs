//! Claiming a device for a driver: for whoever has the bus.

use crate::Slots;
use abi::layout::PAGE;
use abi::slots::{BOOT_DEVICES_L1, IO, IRQ};
use libos::ephemeral::Window;
use libos::runtime::Boot;
use libos::spawn::Child;
use libos::vspace::RW;
use libos::{domain, invoke, op, Cap, CapAddr, CapType, Status};
use virtiopci::{
    ConfigurationAccess, DeviceFunction, DeviceType, Found, PciRoot, Unusable, Vectors,
};

/// Ports of the configuration space: an address, then a word there.
const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;
/// What a device that is not there answers.
const ABSENT: u32 = !0;

/// Why a device was not claimed.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// It is not there, or no driver can have it.
    Unusable(Unusable),
    /// The kernel refused something.
    Status(Status),
}

impl Refusal {
    /// Is there just no such device?
    pub fn is_absence(&self) -> bool {
        matches!(self, Refusal::Unusable(Unusable::Missing))
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Refusal::Status(status)
    }
}

/// The configuration space of all devices, by ports.
pub(crate) struct Ports;

impl Ports {
    fn select(function: DeviceFunction, at: u8) -> Result<(), Status> {
        let DeviceFunction { bus, device, function } = function;
        let place = u32::from(bus) << 16 | u32::from(device) << 11 | u32::from(function) << 8;
        let value = ENABLE | place | u32::from(at & !3);
        invoke(IO, op::PortOut { port: ADDRESS, width: 4, value })
    }
}

impl ConfigurationAccess for Ports {
    fn read_word(&self, function: DeviceFunction, at: u8) -> u32 {
        let word = Ports::select(function, at)
            .and_then(|()| invoke(IO, op::PortIn { port: DATA, width: 4 }));
        word.map_or(ABSENT, |reply| reply.value as u32)
    }

    fn write_word(&mut self, function: DeviceFunction, at: u8, value: u32) {
        // Without the ports nothing was found that could be written.
        let _ = Ports::select(function, at)
            .and_then(|()| invoke(IO, op::PortOut { port: DATA, width: 4, value }));
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Ports
    }
}

/// A device whose registers and interrupt are ready to be given away.
pub struct Claimed {
    registers: CapAddr,
    line: CapAddr,
    words: [u64; 4],
}

impl Claimed {
    /// Gives it to the domain that drives it. The words are for [`Device::of`](crate::Device::of).
    pub fn give(self, child: &Child, slots: Slots) -> Result<[u64; 4], Status> {
        self.registers.move_to(child.slot(slots.registers))?;
        self.line.move_to(child.slot(slots.irq))?;
        for slot in [self.registers, self.line] {
            domain::free_or_lose_slot(slot);
        }
        Ok(self.words)
    }
}

impl Claimed {
    /// Gives copies to the domain that drives it, which may be followed by another one. The words are as above.
    pub fn lend(&self, child: &Child, slots: Slots) -> Result<[u64; 4], Status> {
        self.registers.copy_to(child.slot(slots.registers))?;
        self.line.copy_to(child.slot(slots.irq))?;
        Ok(self.words)
    }

    /// Has the device forget what it was told: it touches no memory any more.
    pub fn reset(&self, window: &mut Window) -> Result<(), Status> {
        let registers = virtiopci::Registers::from_words(self.words).ok_or(Status::Invalid)?;
        let at = registers.common.start as usize + crate::transport::STATUS_OFFSET as usize;
        let view = window.open(self.registers, 0, registers.bytes.into(), RW)?;
        // SAFETY: inside of the registers, which are mapped until the view is dropped; this one is a byte.
        let status = unsafe { view.as_ptr().add(at) };
        // SAFETY: as above. No driver is running that would be in the middle of something.
        unsafe { status.write_volatile(0) };
        // SAFETY: as above; reading it has no effect.
        while unsafe { status.read_volatile() } != 0 {
            core::hint::spin_loop();
        }
        Ok(())
    }
}

/// Claims the device of a type, whose interrupts will all be line `line` of the Irq capability: one of
/// those that are raised by messages.
pub fn claim(
    boot: &Boot,
    ty: DeviceType,
    line: u64,
    window: &mut Window,
) -> Result<Claimed, Refusal> {
    claim_nth(boot, (ty, 0), line, window)
}

/// Likewise of the device that has so many others of its type before it.
pub fn claim_nth(
    boot: &Boot,
    (ty, before): (DeviceType, usize),
    line: u64,
    window: &mut Window,
) -> Result<Claimed, Refusal> {
    let (mut root, mut config) = (PciRoot::new(Ports), Ports);
    let found = virtiopci::find_nth(&mut root, &config, ty, before).map_err(Refusal::Unusable)?;
    let irq = slot()?;
    let prepared = IRQ
        .retype(CapType::Irq, line, 1, 1, irq)
        .and_then(|()| prepare(boot, &mut root, &found, irq, window));
    let registers = match prepared {
        Ok(registers) => registers,
        Err(error) => {
            irq.discard();
            domain::free_or_lose_slot(irq);
            return Err(error.into());
        }
    };
    virtiopci::enable(&mut root, &mut config, &found);
    Ok(Claimed { registers, line: irq, words: found.registers.to_words() })
}

/// Has all its messages raise `irq`. Answers its registers.
fn prepare(
    boot: &Boot,
    root: &mut PciRoot<Ports>,
    found: &Found,
    irq: CapAddr,
    window: &mut Window,
) -> Result<CapAddr, Status> {
    let message = invoke(irq, op::IrqMessage {})?.value;
    let entry = Vectors::entry(message as u32, (message >> 32) as u32);
    virtiopci::found::open(root, found);
    let (page, offset) = found.vectors.page();
    let bytes = offset as u64 + u64::from(found.vectors.count) * size_of_val(&entry) as u64;
    let table = registers_at(boot, page, bytes.next_multiple_of(PAGE))?;
    let filled = fill(table, offset, found.vectors.count, entry, window);
    table.discard();
    domain::free_or_lose_slot(table);
    filled?;
    registers_at(boot, found.base, found.registers.bytes.into())
}

/// Writes the same entry everywhere in the table that begins at `offset` of a DevFrame.
fn fill(
    frame: CapAddr,
    offset: usize,
    count: u32,
    entry: [u32; 4],
    window: &mut Window,
) -> Result<(), Status> {
    let bytes = (offset + count as usize * size_of_val(&entry)) as u64;
    let view = window.open(frame, 0, bytes.next_multiple_of(PAGE), RW)?;
    for number in 0..count as usize {
        for (index, word) in entry.into_iter().enumerate() {
            let at = offset + number * size_of_val(&entry) + index * size_of::<u32>();
            // SAFETY: inside of the view, which is mapped writable until it is dropped; the table is aligned
            // to eight bytes, and its registers have effects on nothing but the device's messages.
            unsafe { view.as_ptr().add(at).cast::<u32>().write_volatile(word) };
        }
    }
    Ok(())
}

/// A DevFrame of the pages at a physical address, in a new slot.
///
/// # Errors
/// `OutOfRange`: there are no registers of devices; whatever the kernel says, and no memory for a slot.
pub fn registers_at(boot: &Boot, base: u64, bytes: u64) -> Result<CapAddr, Status> {
    let slot = slot()?;
    for number in 0..boot.info.device_caps {
        let whole = CapAddr::new(BOOT_DEVICES_L1, number);
        let what = whole.identify()?;
        let inside = what.base <= base && base + bytes <= what.base + what.bytes;
        if inside && what.ty == CapType::PhysAddr {
            let made = whole.retype(CapType::DevFrame, base - what.base, bytes, 1, slot);
            return made.map(|()| slot).inspect_err(|_| domain::free_or_lose_slot(slot));
        }
    }
    domain::free_or_lose_slot(slot);
    Err(Status::OutOfRange)
}

pub(crate) fn slot() -> Result<CapAddr, Status> {
    domain::with(|domain| domain.slot())
}
