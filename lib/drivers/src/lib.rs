//! What drivers in user space are made of.
//!
//! A device is *claimed* by whoever starts its driver and has the whole bus ([`bus`], on the side of
//! `init`): it finds the device, programs its interrupt messages, and gives the driver three things and no
//! more: a DevFrame with the registers of this device in a slot, the line that its messages raise in another ([`Slots`]),
//! and the words that say what is where in the registers. The
//! configuration space and the table of messages stay with `init`.
//!
//! The driver maps the registers and speaks through them ([`transport`]), and shares memory with the device
//! ([`dma`]): Frames whose physical addresses it knows. Queues are those of the library
//! `virtio-drivers`, which sees both through its traits.
//!
//! Whoever must not wait for a device leaves that to another domain ([`mailbox`]).
//!
//! Other devices ([`plain`]) are claimed with a capability to their function on the bus, which is attached to what the
//! device is to reach (docs/iommu.md). Devices of the first kind are not: they can be told any address. See
//! docs/security.md.
#![no_std]

extern crate alloc;

pub mod block;
pub mod bus;
mod chains;
pub mod console;
pub mod dma;
pub mod mailbox;
pub mod net;
pub mod plain;
pub mod share;
pub mod transport;

pub use transport::Device;
pub use virtio_drivers::queue::VirtQueue;
pub use virtiopci::{DeviceType, Registers};

use abi::slots::{DEVICE, DEVICE_IRQ, SHARE, SHARE_IRQ, SWAP, SWAP_IRQ};
use libos::{CapAddr, Status};

/// Where a driver has a device.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Its registers.
    pub registers: CapAddr,
    /// Its interrupt.
    pub irq: CapAddr,
}

impl Slots {
    /// Of a driver's first, mostly its only one.
    pub const FIRST: Slots = Slots { registers: DEVICE, irq: DEVICE_IRQ };
    /// Of a shared folder.
    pub const SHARE: Slots = Slots { registers: SHARE, irq: SHARE_IRQ };
    /// Of the disk for pages that leave memory.
    pub const SWAP: Slots = Slots { registers: SWAP, irq: SWAP_IRQ };
}

/// Why the device cannot be used.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// It does not have what is needed, or does not say in time what it has.
    Unsuitable,
    /// A queue cannot be set up.
    Queue(virtio_drivers::Error),
    /// There is too little memory, or the kernel refused something.
    Status(Status),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Status(status)
    }
}
impl From<virtio_drivers::Error> for Failure {
    fn from(error: virtio_drivers::Error) -> Self {
        Failure::Queue(error)
    }
}
