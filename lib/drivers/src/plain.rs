//! Claiming a device of any kind: for whoever has the bus.

use crate::bus::{registers_at, slot, Ports, Refusal};
use abi::slots::FUNCTIONS;
use libos::function::FunctionCap;
use libos::runtime::Boot;
use libos::{domain, Cap, CapAddr, CapType, Status};
use virtiopci::{plain, PciRoot};

/// A device that is ready to be driven.
pub struct Claimed {
    /// A DevFrame with its registers.
    pub registers: CapAddr,
    /// Their bytes.
    pub bytes: u64,
    /// Its function, which reaches nothing until it is attached to something.
    pub function: CapAddr,
    /// The number of that.
    pub number: u16,
}

/// Claims the first device with these numbers, on a machine with an IOMMU.
///
/// # Errors
/// There is none, or no IOMMU, or the kernel refuses something.
pub fn claim(boot: &Boot, vendor: u16, device: u16) -> Result<Claimed, Refusal> {
    let mut root = PciRoot::new(Ports);
    let found = plain::find(&mut root, vendor, device).map_err(Refusal::Unusable)?;
    let function = slot()?;
    let registers = confined(&found, function)
        .and_then(|()| registers_at(boot, found.base, found.bytes))
        .inspect_err(|_| {
            function.discard();
            domain::free_or_lose_slot(function);
        })?;
    // Only now it can reach memory at all.
    plain::enable(&mut root, &found);
    Ok(Claimed { registers, bytes: found.bytes, function, number: found.number() })
}

/// Makes a capability to the function of a device, which reaches nothing from now on.
fn confined(found: &plain::Plain, function: CapAddr) -> Result<(), Status> {
    FUNCTIONS.retype(CapType::PciFunction, found.number().into(), 1, 1, function)?;
    function.block()
}
