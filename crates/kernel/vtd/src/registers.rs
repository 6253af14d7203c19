//! Registers, and what is written to them.

use crate::PAGE;

/// Registers at fixed places, as offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Register {
    /// 64 bits: [`Abilities`].
    Capability = 0x08,
    /// 64 bits: [`Abilities`].
    ExtendedCapability = 0x10,
    /// 32 bits.
    Command = 0x18,
    /// 32 bits: what of the commands is so.
    Status = 0x1c,
    /// 64 bits: physical address of the root table.
    RootTable = 0x20,
    /// 64 bits: has entries of context tables forgotten.
    ContextCommand = 0x28,
    /// 32 bits: [`FaultStatus`].
    FaultStatus = 0x34,
}

/// Bits of the command register, and of the status register.
pub mod command {
    /// Translation is on.
    pub const TRANSLATE: u32 = 1 << 31;
    /// The root table's address is taken from its register.
    pub const SET_ROOT: u32 = 1 << 30;
    /// Status bits that are no state, but say that something was done once.
    const ONCE: u32 = 1 << 30 | 1 << 29 | 1 << 27 | 1 << 24;

    /// What to write for one more command, when the status register is `status`.
    pub const fn with(status: u32, command: u32) -> u32 {
        status & !ONCE | command
    }
}

/// The register [`Register::ContextCommand`].
pub mod context_command {
    /// Under way.
    pub const BUSY: u64 = 1 << 63;
    /// All entries.
    pub const ALL: u64 = BUSY | 1 << 61;
}

/// The register of the translation cache, at [`Abilities::iotlb`](super::Abilities::iotlb).
pub mod iotlb_command {
    /// Under way.
    pub const BUSY: u64 = 1 << 63;
    /// All translations. Reads and writes that are under way come to their end before.
    pub const ALL: u64 = BUSY | 1 << 60 | 1 << 49 | 1 << 48;
}

/// The register [`Register::FaultStatus`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultStatus(pub u32);

impl FaultStatus {
    /// Faults were lost, as no record was free. Written, the mark is cleared.
    pub const OVERFLOW: FaultStatus = FaultStatus(1);

    /// Were faults lost?
    pub const fn has_lost(self) -> bool {
        self.0 & Self::OVERFLOW.0 != 0
    }

    /// Is there a record?
    pub const fn is_pending(self) -> bool {
        self.0 & 2 != 0
    }

    /// The number of the oldest record.
    pub const fn first(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }
}

/// What a unit can do, as its two capability registers say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// [`Register::Capability`].
    pub base: u64,
    /// [`Register::ExtendedCapability`].
    pub extended: u64,
}

const fn bits(word: u64, from: u32, count: u32) -> u64 {
    word >> from & ((1 << count) - 1)
}

impl Abilities {
    /// Can it be used: tables of three levels, functions that are not translated, a domain for each function of a bus
    /// and one more, no buffer that must be flushed, and all registers in the first page?
    pub const fn suffice(self) -> bool {
        let three_levels = bits(self.base, 8, 5) & 2 != 0;
        let passes = bits(self.extended, 6, 1) != 0;
        let domains = 4 + 2 * bits(self.base, 0, 3);
        let buffers = bits(self.base, 4, 1) != 0;
        let end = self.record(self.records()) as u64;
        let fits = self.iotlb() as u64 + 8 <= PAGE && end <= PAGE;
        three_levels && passes && domains >= 10 && !buffers && fits
    }

    /// Offset of the register of the translation cache.
    pub const fn iotlb(self) -> usize {
        16 * bits(self.extended, 8, 10) as usize + 8
    }

    /// Records of faults that it has.
    pub const fn records(self) -> usize {
        bits(self.base, 40, 8) as usize + 1
    }

    /// Offset of record `number`, of 16 bytes.
    pub const fn record(self, number: usize) -> usize {
        16 * (bits(self.base, 24, 10) as usize + number)
    }

    /// Does it see what is in the caches of processors when it reads its tables?
    pub const fn is_coherent(self) -> bool {
        bits(self.extended, 0, 1) != 0
    }

    /// The code of the widest addresses that it can translate.
    pub const fn widest(self) -> u64 {
        let mut width = 3;
        while width > 1 && bits(self.base, 8 + width, 1) == 0 {
            width -= 1;
        }
        width as u64
    }
}
