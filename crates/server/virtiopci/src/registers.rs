//! What a driver is told about its device's registers.

/// A range of bytes in the registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// First byte.
    pub start: u32,
    /// How many.
    pub bytes: u32,
}

impl Part {
    /// One past the last byte; `None` if there is no such address.
    pub fn end(self) -> Option<u32> {
        self.start.checked_add(self.bytes)
    }
}

/// Where the parts of a virtio device are in the pages that its driver is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// All of them: whole pages.
    pub bytes: u32,
    /// The common configuration.
    pub common: Part,
    /// Where queues are notified.
    pub notify: Part,
    /// What the notification offset of a queue counts, in bytes: an even number.
    pub multiplier: u16,
    /// The configuration of this type of device.
    pub device: Part,
}

/// Bytes of the common configuration, as far as every device has it.
pub const COMMON_BYTES: u32 = 56;
/// The largest registers that are described: offsets have 20 bits.
pub const MOST_BYTES: u32 = 1 << 20;

impl Registers {
    /// Do all parts lie inside, and is each as large as it must be?
    pub fn are_sound(&self) -> bool {
        let inside = |part: Part| part.end().is_some_and(|end| end <= self.bytes);
        let aligned = self.common.start.is_multiple_of(4) && self.notify.start.is_multiple_of(2);
        self.bytes <= MOST_BYTES
            && inside(self.common)
            && inside(self.notify)
            && inside(self.device)
            && self.common.bytes >= COMMON_BYTES
            && self.multiplier.is_multiple_of(2)
            && aligned
            && self.device.start.is_multiple_of(4)
    }

    /// In the words with which a server is started.
    pub fn to_words(self) -> [u64; 4] {
        let part = |part: Part| u64::from(part.start) | u64::from(part.bytes) << 32;
        let sizes = u64::from(self.bytes) | u64::from(self.multiplier) << 32;
        [sizes, part(self.common), part(self.notify), part(self.device)]
    }

    /// The same back; `None` if there is no device, or if it cannot be so.
    pub fn from_words(words: [u64; 4]) -> Option<Registers> {
        let [sizes, common, notify, device] = words;
        let part = |word: u64| Part { start: word as u32, bytes: (word >> 32) as u32 };
        let registers = Registers {
            bytes: sizes as u32,
            multiplier: (sizes >> 32) as u16,
            common: part(common),
            notify: part(notify),
            device: part(device),
        };
        (registers.bytes > 0 && registers.are_sound()).then_some(registers)
    }
}
