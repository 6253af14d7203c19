//! A virtio device by its registers.

use crate::Slots;
use core::sync::atomic::{fence, Ordering};
use libos::vspace::RW;
use libos::{domain, invoke, op, CapAddr, Place, Status};
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::PhysAddr;
use virtiopci::{Part, Registers};

/// Most queues of a device.
const MOST_QUEUES: usize = 16;
/// Feature: the device uses addresses as the bus has them, through an IOMMU if there is one. Those that a driver tells it
/// ([`dma`](crate::dma)) are physical ones: such a device passes.
const ACCESS_PLATFORM: u64 = 1 << 33;
/// The message that everything raises.
const MESSAGE: u16 = 0;
/// Of a queue or device that could not have the message.
const NO_MESSAGE: u16 = 0xffff;

/// Offsets in the common configuration (virtio 1.2, 4.1.4.3).
mod common {
    pub const DEVICE_FEATURES_SELECT: u32 = 0;
    pub const DEVICE_FEATURES: u32 = 4;
    pub const DRIVER_FEATURES_SELECT: u32 = 8;
    pub const DRIVER_FEATURES: u32 = 12;
    pub const CONFIG_MESSAGE: u32 = 16;
    pub const STATUS: u32 = 20;
    pub const GENERATION: u32 = 21;
    pub const QUEUE_SELECT: u32 = 22;
    pub const QUEUE_SIZE: u32 = 24;
    pub const QUEUE_MESSAGE: u32 = 26;
    pub const QUEUE_ENABLE: u32 = 28;
    pub const QUEUE_NOTIFY: u32 = 30;
    pub const QUEUE_DESCRIPTORS: u32 = 32;
    pub const QUEUE_DRIVER: u32 = 40;
    pub const QUEUE_DEVICE: u32 = 48;
}

/// Where the common configuration has the device's state.
pub(crate) const STATUS_OFFSET: u32 = common::STATUS;

/// The device that this domain was given.
pub struct Device {
    ty: DeviceType,
    irq: CapAddr,
    registers: Registers,
    va: usize,
    /// Where each queue is notified, in the registers.
    notify: [u32; MOST_QUEUES],
}

impl Device {
    /// Maps the registers in a slot, with the words that came with them; `None` if no device was given. To be
    /// called once.
    pub fn of(ty: DeviceType, slots: Slots, words: [u64; 4]) -> Result<Option<Device>, Status> {
        let Some(registers) = Registers::from_words(words) else { return Ok(None) };
        let va = domain::with(|domain| {
            domain.map(slots.registers.into(), 0, registers.bytes.into(), RW)
        })?;
        let irq = slots.irq;
        Ok(Some(Device { ty, irq, registers, va: va as usize, notify: [0; MOST_QUEUES] }))
    }

    /// Has this dispatcher notified of the interrupts, with these bits.
    pub fn listen(&self, bits: u64) -> Result<(), Status> {
        invoke(self.irq, op::IrqBind { bits, to: Place::NULL })
    }

    /// Begins the conversation: of the features that driver and device both know, answers those. `None`: the
    /// device does not agree.
    pub fn negotiate(&mut self, known: u64) -> Option<u64> {
        let status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
        self.set_status(DeviceStatus::empty());
        self.set_status(status);
        self.set_common(common::CONFIG_MESSAGE, MESSAGE);
        let both = self.read_device_features() & (known | ACCESS_PLATFORM);
        self.write_driver_features(both);
        self.set_status(status | DeviceStatus::FEATURES_OK);
        self.get_status().contains(DeviceStatus::FEATURES_OK).then_some(both & known)
    }

    /// A fence between what was written before and what is read behind it, also where an emulator makes nothing of one: QEMU 7.2 does so for a machine with one core, whose
    /// devices run beside it. Whoever reads a register waits for their lock. For where waiting begins, and nowhere else: it takes a microsecond.
    pub fn fence(&self) {
        fence(Ordering::SeqCst);
        let _: u8 = self.common(common::STATUS);
    }

    /// The register at an offset of a part, which has room for it.
    fn register<T>(&self, part: Part, offset: u32) -> *mut T {
        let end = offset as usize + size_of::<T>();
        assert!(end <= part.bytes as usize && (offset as usize).is_multiple_of(align_of::<T>()));
        (self.va + part.start as usize + offset as usize) as *mut T
    }

    fn common<T: Copy>(&self, offset: u32) -> T {
        // SAFETY: `register` is inside of the registers, which are mapped for good; reading those of the common
        // configuration has no effect.
        unsafe { self.register::<T>(self.registers.common, offset).read_volatile() }
    }

    fn set_common<T>(&mut self, offset: u32, value: T) {
        // SAFETY: as above. What the device does with memory is decided by the queues, whose addresses
        // come from `queue_set`.
        unsafe { self.register::<T>(self.registers.common, offset).write_volatile(value) };
    }

    /// An address, in halves: not every device takes it in one piece.
    fn set_address(&mut self, offset: u32, address: PhysAddr) {
        self.set_common(offset, address as u32);
        self.set_common(offset + 4, (address >> 32) as u32);
    }
}

impl Transport for Device {
    fn device_type(&self) -> DeviceType {
        self.ty
    }

    fn read_device_features(&mut self) -> u64 {
        let [low, high] = [0u32, 1].map(|half| {
            self.set_common(common::DEVICE_FEATURES_SELECT, half);
            u64::from(self.common::<u32>(common::DEVICE_FEATURES))
        });
        low | high << 32
    }

    fn write_driver_features(&mut self, features: u64) {
        for (half, bits) in [(0u32, features as u32), (1, (features >> 32) as u32)] {
            self.set_common(common::DRIVER_FEATURES_SELECT, half);
            self.set_common(common::DRIVER_FEATURES, bits);
        }
    }

    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.set_common(common::QUEUE_SELECT, queue);
        u32::from(self.common::<u16>(common::QUEUE_SIZE))
    }

    fn notify(&mut self, queue: u16) {
        let offset = self.notify[usize::from(queue)];
        let register = self.register::<u16>(self.registers.notify, offset);
        // What is in the queue, before the device looks there.
        fence(Ordering::SeqCst);
        // SAFETY: `register` is inside of the registers.
        unsafe { register.write_volatile(queue) };
    }

    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::from_bits_truncate(u32::from(self.common::<u8>(common::STATUS)))
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.set_common(common::STATUS, status.bits() as u8);
    }

    fn set_guest_page_size(&mut self, _: u32) {
        // Only old devices ask.
    }

    fn requires_legacy_layout(&self) -> bool {
        false
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        self.set_common(common::QUEUE_SELECT, queue);
        self.set_common(common::QUEUE_SIZE, size as u16);
        self.set_address(common::QUEUE_DESCRIPTORS, descriptors);
        self.set_address(common::QUEUE_DRIVER, driver_area);
        self.set_address(common::QUEUE_DEVICE, device_area);
        self.set_common(common::QUEUE_MESSAGE, MESSAGE);
        let offset = u32::from(self.common::<u16>(common::QUEUE_NOTIFY));
        self.notify[usize::from(queue)] = offset * u32::from(self.registers.multiplier);
        self.set_common(common::QUEUE_ENABLE, 1u16);
    }

    fn queue_unset(&mut self, _: u16) {
        // A queue ends with the reset of its device.
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.set_common(common::QUEUE_SELECT, queue);
        self.common::<u16>(common::QUEUE_ENABLE) == 1
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        // A message says nothing but that there is something to look at.
        InterruptStatus::QUEUE_INTERRUPT
    }

    fn read_config_generation(&self) -> u32 {
        u32::from(self.common::<u8>(common::GENERATION))
    }

    fn read_config_space<T: zerocopy::FromBytes + zerocopy::IntoBytes>(
        &self,
        offset: usize,
    ) -> virtio_drivers::Result<T> {
        let part = self.registers.device;
        if offset + size_of::<T>() > part.bytes as usize {
            return Err(virtio_drivers::Error::ConfigSpaceTooSmall);
        }
        // SAFETY: inside of the registers, and reading a configuration has no effect.
        Ok(unsafe { self.register::<T>(part, offset as u32).read_volatile() })
    }

    fn write_config_space<T: zerocopy::IntoBytes + zerocopy::Immutable>(
        &mut self,
        offset: usize,
        value: T,
    ) -> virtio_drivers::Result<()> {
        let part = self.registers.device;
        if offset + size_of::<T>() > part.bytes as usize {
            return Err(virtio_drivers::Error::ConfigSpaceTooSmall);
        }
        // SAFETY: inside of the registers; a configuration holds no addresses.
        unsafe { self.register::<T>(part, offset as u32).write_volatile(value) };
        Ok(())
    }
}

impl Device {
    /// Can the device raise interrupts for this queue?
    pub fn has_message(&mut self, queue: u16) -> bool {
        self.set_common(common::QUEUE_SELECT, queue);
        self.common::<u16>(common::QUEUE_MESSAGE) != NO_MESSAGE
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // It forgets the queues, whose memory may go then.
        self.set_status(DeviceStatus::empty());
        while !self.get_status().is_empty() {}
    }
}
