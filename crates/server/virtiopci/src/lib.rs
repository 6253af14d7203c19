//! Virtio devices on the PCI bus: what a driver is given of one, and how its interrupts are set up. Of other devices the
//! registers ([`plain`]).
//!
//! Whoever starts a driver has the configuration space of all devices, with which a device can be put over
//! any memory. A driver has nothing of that: it gets the pages of its device's own registers, and
//! [`Registers`], which says what is where in them. The table of interrupt messages is kept from it, too.
//!
//! ```text
//! find      a device of a type, its registers, its table of messages
//! Vectors   the table: where, and what is written there
//! enable    the device decodes its addresses, reaches memory, and interrupts by messages
//! ```
#![no_std]
#![cfg_attr(not(test), forbid(unsafe_code))]

pub mod found;
pub mod plain;
pub mod registers;

pub use found::{enable, find, find_nth, Found, Unusable, Vectors};
pub use registers::{Part, Registers};
pub use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction, PciRoot};
pub use virtio_drivers::transport::DeviceType;
