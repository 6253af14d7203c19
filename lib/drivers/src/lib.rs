//! What drivers in user space are made of.
//!
//! A device is *claimed* by whoever starts its driver and has the whole bus ([`bus`], on the side of
//! `init`): it finds the device, programs its interrupt messages, and gives the driver three things and no
//! more: a DevFrame with the registers of this device in the slot [`abi::slots::DEVICE`], the line that its messages raise
//! in [`abi::slots::DEVICE_IRQ`], and the words that say what is where in the registers. The
//! configuration space and the table of messages stay with `init`.
//!
//! The driver maps the registers and speaks through them ([`transport`]), and shares memory with the device
//! ([`dma`]): Frames whose physical addresses it knows. Queues are those of the library
//! `virtio-drivers`, which sees both through its traits.
//!
//! Other devices ([`plain`]) are claimed with a capability to their function on the bus, which is attached to what the
//! device is to reach (docs/iommu.md). Devices of the first kind are not: they can be told any address. See
//! docs/security.md.
#![no_std]

extern crate alloc;

pub mod bus;
pub mod console;
pub mod dma;
pub mod plain;
pub mod transport;

pub use transport::Device;
pub use virtio_drivers::queue::VirtQueue;
pub use virtiopci::{DeviceType, Registers};
