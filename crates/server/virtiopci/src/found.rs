//! Devices, and what must be done to the bus for them.

use crate::registers::{Part, Registers, MOST_BYTES};
use virtio_drivers::transport::pci::bus::{
    Command, ConfigurationAccess, DeviceFunction, PciRoot, PCI_CAP_ID_VNDR,
};
use virtio_drivers::transport::pci::{
    virtio_device_type, VIRTIO_PCI_CAP_COMMON_CFG, VIRTIO_PCI_CAP_DEVICE_CFG,
    VIRTIO_PCI_CAP_NOTIFY_CFG,
};
use virtio_drivers::transport::DeviceType;

const PAGE: u64 = 4096;
/// Number of the capability that says where the table of messages is.
const MSI_X: u8 = 0x11;
/// In its control word: messages are on.
const MSI_X_ENABLE: u32 = 1 << 31;
/// Likewise: none comes at all.
const MSI_X_MASK_ALL: u32 = 1 << 30;
/// Bytes of an entry of the table.
const ENTRY_BYTES: u64 = 16;
/// Capabilities of one device: a list that has more of them is a circle.
const MOST_CAPABILITIES: usize = 48;

/// Why a device cannot be given to a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// There is none.
    Missing,
    /// It lacks a capability that it must have, or one is malformed.
    Incomplete,
    /// Its registers are in several ranges of addresses, or nowhere.
    Scattered,
    /// The table of messages is in the pages of the registers, or nowhere.
    NoMessages,
}

/// A table of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vectors {
    /// Its physical address.
    pub address: u64,
    /// Entries.
    pub count: u32,
    /// Where the capability is in the configuration space.
    capability: u8,
}

impl Vectors {
    /// The page that the table begins in, and where in it; an entry is never in two pages.
    pub fn page(&self) -> (u64, usize) {
        (self.address & !(PAGE - 1), (self.address % PAGE) as usize)
    }

    /// The words of an entry that sends `value` to `address`.
    pub fn entry(address: u32, value: u32) -> [u32; 4] {
        const UNMASKED: u32 = 0;
        [address, 0, value, UNMASKED]
    }
}

/// A device that a driver can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where on the bus.
    pub function: DeviceFunction,
    /// The physical address of its registers, a multiple of a page.
    pub base: u64,
    /// What is where in them.
    pub registers: Registers,
    /// Its messages.
    pub vectors: Vectors,
}

/// Looks for a device of a type on the first bus.
pub fn find<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    config: &C,
    ty: DeviceType,
) -> Result<Found, Unusable> {
    find_nth(root, config, ty, 0)
}

/// Looks for the device of a type that has `before` others of that type before it, in the order of their numbers.
pub fn find_nth<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    config: &C,
    ty: DeviceType,
    before: usize,
) -> Result<Found, Unusable> {
    let all = root.enumerate_bus(0);
    let found = all.filter(|(_, info)| virtio_device_type(info) == Some(ty)).nth(before);
    let (function, _) = found.ok_or(Unusable::Missing)?;
    describe(root, config, function)
}

/// A part of the registers: which base address register, and where in it.
type Place = (u8, Part);

fn describe<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    config: &C,
    function: DeviceFunction,
) -> Result<Found, Unusable> {
    let (mut common, mut notify, mut device, mut vectors) = (None, None, None, None);
    for capability in root.capabilities(function).take(MOST_CAPABILITIES) {
        // All of it is in the 256 bytes of the configuration space.
        let word = |at: u8| {
            let offset = capability.offset.checked_add(at).ok_or(Unusable::Incomplete)?;
            Ok(config.read_word(function, offset))
        };
        if capability.id == MSI_X && vectors.is_none() {
            let table = word(4)?;
            let count = u32::from(capability.private_header & 0x7ff) + 1;
            vectors = Some((table as u8 & 7, table & !7, count, capability.offset));
        }
        if capability.id != PCI_CAP_ID_VNDR {
            continue;
        }
        let place: Place = (word(4)? as u8, Part { start: word(8)?, bytes: word(12)? });
        match (capability.private_header >> 8) as u8 {
            VIRTIO_PCI_CAP_COMMON_CFG if common.is_none() => common = Some(place),
            VIRTIO_PCI_CAP_NOTIFY_CFG if notify.is_none() => notify = Some((place, word(16)?)),
            VIRTIO_PCI_CAP_DEVICE_CFG if device.is_none() => device = Some(place),
            _ => {}
        }
    }
    let bars = root.bars(function).map_err(|_| Unusable::Incomplete)?;
    let bar = |number: u8| {
        let bar = bars.get(usize::from(number))?.as_ref()?;
        bar.memory_address_size().filter(|&(address, _)| address != 0 && address % PAGE == 0)
    };
    let common = common.ok_or(Unusable::Incomplete)?;
    let (notify, multiplier) = notify.ok_or(Unusable::Incomplete)?;
    let multiplier = u16::try_from(multiplier).map_err(|_| Unusable::Incomplete)?;
    // Not every device has a configuration of its own.
    let device = device.unwrap_or((common.0, Part { start: common.1.start, bytes: 0 }));
    let parts = [common, notify, device];
    let (address, size) = bar(common.0).ok_or(Unusable::Scattered)?;
    if parts.iter().any(|part| part.0 != common.0) {
        return Err(Unusable::Scattered);
    }
    let mut ends = [0; 3];
    for (end, part) in ends.iter_mut().zip(parts) {
        *end = u64::from(part.1.end().ok_or(Unusable::Incomplete)?);
    }
    let first = parts.iter().map(|part| u64::from(part.1.start)).min().unwrap_or(0) & !(PAGE - 1);
    let end = ends.into_iter().max().unwrap_or(0).next_multiple_of(PAGE);
    if end > size || end - first > u64::from(MOST_BYTES) {
        return Err(Unusable::Incomplete);
    }
    let within = |part: Part| Part { start: part.start - first as u32, ..part };
    let registers = Registers {
        bytes: (end - first) as u32,
        common: within(common.1),
        notify: within(notify.1),
        multiplier,
        device: within(device.1),
    };
    if !registers.are_sound() {
        return Err(Unusable::Incomplete);
    }
    let (number, offset, count, capability) = vectors.ok_or(Unusable::NoMessages)?;
    let (table, table_size) = bar(number).ok_or(Unusable::NoMessages)?;
    let (from, to) = (u64::from(offset), u64::from(offset) + u64::from(count) * ENTRY_BYTES);
    let pages = from & !(PAGE - 1)..to.next_multiple_of(PAGE);
    if to > table_size || number == common.0 && pages.start < end && first < pages.end {
        return Err(Unusable::NoMessages);
    }
    let vectors = Vectors { address: table + from, count, capability };
    Ok(Found { function, base: address + first, registers, vectors })
}

/// Lets the device decode its addresses and reach memory, and interrupt by messages only. The table has
/// been filled in before.
pub fn enable<C: ConfigurationAccess>(root: &mut PciRoot<C>, config: &mut C, found: &Found) {
    let (function, at) = (found.function, found.vectors.capability);
    let on = Command::MEMORY_SPACE | Command::BUS_MASTER | Command::INTERRUPT_DISABLE;
    root.set_command(function, on);
    let control = config.read_word(function, at) & !MSI_X_MASK_ALL;
    config.write_word(function, at, control | MSI_X_ENABLE);
}

/// Lets the table of messages be filled in: the device decodes its addresses, and does nothing else yet.
pub fn open<C: ConfigurationAccess>(root: &mut PciRoot<C>, found: &Found) {
    root.set_command(found.function, Command::MEMORY_SPACE | Command::INTERRUPT_DISABLE);
}

#[cfg(test)]
mod tests;
