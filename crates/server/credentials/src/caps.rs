//! Sets of capabilities.

/// A capability, by Linux's number. Those are named that something here asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Capability {
    /// Change owners of files.
    Chown = 0,
    /// Read, write and search whatever the mode says.
    DacOverride = 1,
    /// Read files, and read and search directories.
    DacReadSearch = 2,
    /// Do what the owner of a file may do.
    Fowner = 3,
    /// Keep set-id bits where others lose them.
    Fsetid = 4,
    /// Send signals to all processes.
    Kill = 5,
    /// Change the own group ids at will.
    Setgid = 6,
    /// Change the own user ids at will.
    Setuid = 7,
    /// Change what programs may get.
    Setpcap = 8,
    /// Change attributes that keep files from being changed.
    LinuxImmutable = 9,
    /// Lock memory without limit.
    IpcLock = 14,
    /// Look into all processes.
    SysPtrace = 19,
    /// What has no capability of its own.
    SysAdmin = 21,
    /// Raise priorities.
    SysNice = 23,
    /// Exceed and raise limits.
    SysResource = 24,
    /// Make device files.
    Mknod = 27,
    /// Override rules of mandatory access control.
    MacOverride = 32,
}

/// A set of capabilities: bit N is number N.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CapSet(u64);

impl CapSet {
    /// How many capabilities there are.
    pub const COUNT: u32 = 41;
    /// None.
    pub const NONE: CapSet = CapSet(0);
    /// All of them.
    pub const ALL: CapSet = CapSet((1 << Self::COUNT) - 1);
    /// Those about files, which follow the user id for files.
    pub const FILES: CapSet = CapSet(
        1 << Capability::Chown as u64
            | 1 << Capability::DacOverride as u64
            | 1 << Capability::DacReadSearch as u64
            | 1 << Capability::Fowner as u64
            | 1 << Capability::Fsetid as u64
            | 1 << Capability::LinuxImmutable as u64
            | 1 << Capability::Mknod as u64
            | 1 << Capability::MacOverride as u64,
    );

    /// Of its bits, of which those count that stand for a capability.
    pub const fn new(bits: u64) -> CapSet {
        CapSet(bits & Self::ALL.0)
    }
    /// The set of the capability with a number; `None`: there is none.
    pub const fn of_number(number: u32) -> Option<CapSet> {
        if number < Self::COUNT {
            Some(CapSet(1 << number))
        } else {
            None
        }
    }
    /// Its bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Is this one in it?
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & 1 << capability as u64 != 0
    }
    /// Is it a part of another?
    pub const fn is_within(self, other: CapSet) -> bool {
        self.0 & !other.0 == 0
    }
    /// What is in either.
    pub const fn or(self, other: CapSet) -> CapSet {
        CapSet(self.0 | other.0)
    }
    /// What is in both.
    pub const fn and(self, other: CapSet) -> CapSet {
        CapSet(self.0 & other.0)
    }
    /// What is in this and not in the other.
    pub const fn without(self, other: CapSet) -> CapSet {
        CapSet(self.0 & !other.0)
    }
}
