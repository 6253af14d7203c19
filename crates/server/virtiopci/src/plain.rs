//! Devices of any kind with registers in one range of addresses.

use crate::found::Unusable;
use virtio_drivers::transport::pci::bus::{
    Command, ConfigurationAccess, DeviceFunction, DeviceFunctionInfo, PciRoot,
};

const PAGE: u64 = 4096;

/// A device, and where the registers are that its first base address register says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// Where on the bus.
    pub function: DeviceFunction,
    /// The physical address of its registers, a multiple of a page.
    pub base: u64,
    /// Their bytes, whole pages.
    pub bytes: u64,
}

impl Plain {
    /// The number by which the function is known to an IOMMU.
    pub fn number(&self) -> u16 {
        let DeviceFunction { bus, device, function } = self.function;
        u16::from(bus) << 8 | u16::from(device) << 3 | u16::from(function)
    }
}

/// Looks on the first bus for the first device that its maker has given these numbers.
///
/// # Errors
/// There is none, or its registers are at no address.
pub fn find<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    vendor: u16,
    device: u16,
) -> Result<Plain, Unusable> {
    let is_it = |info: &DeviceFunctionInfo| (info.vendor_id, info.device_id) == (vendor, device);
    let found = root.enumerate_bus(0).find(|(_, info)| is_it(info));
    let (function, _) = found.ok_or(Unusable::Missing)?;
    let bar = root.bar_info(function, 0).map_err(|_| Unusable::Incomplete)?;
    let place = bar.and_then(|bar| bar.memory_address_size());
    let (base, bytes) = place.ok_or(Unusable::Scattered)?;
    if base == 0 || base % PAGE != 0 || bytes % PAGE != 0 {
        return Err(Unusable::Scattered);
    }
    Ok(Plain { function, base, bytes })
}

/// Lets the device decode its addresses and reach memory, without interrupts.
pub fn enable<C: ConfigurationAccess>(root: &mut PciRoot<C>, found: &Plain) {
    let on = Command::MEMORY_SPACE | Command::BUS_MASTER | Command::INTERRUPT_DISABLE;
    root.set_command(found.function, on);
}
