//! Sets of capabilities.

use linux_raw_sys::general;

/// A capability, by Linux's number. Those are named that something here asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Capability {
    /// Change owners of files.
    Chown = general::CAP_CHOWN as u8,
    /// Read, write and search whatever the mode says.
    DacOverride = general::CAP_DAC_OVERRIDE as u8,
    /// Read files, and read and search directories.
    DacReadSearch = general::CAP_DAC_READ_SEARCH as u8,
    /// Do what the owner of a file may do.
    Fowner = general::CAP_FOWNER as u8,
    /// Keep set-id bits where others lose them.
    Fsetid = general::CAP_FSETID as u8,
    /// Send signals to all processes.
    Kill = general::CAP_KILL as u8,
    /// Change the own group ids at will.
    Setgid = general::CAP_SETGID as u8,
    /// Change the own user ids at will.
    Setuid = general::CAP_SETUID as u8,
    /// Change what programs may get.
    Setpcap = general::CAP_SETPCAP as u8,
    /// Change attributes that keep files from being changed.
    LinuxImmutable = general::CAP_LINUX_IMMUTABLE as u8,
    /// Take ports below 1024.
    NetBindService = general::CAP_NET_BIND_SERVICE as u8,
    /// Change interfaces and ways.
    NetAdmin = general::CAP_NET_ADMIN as u8,
    /// Send and receive packets of any kind.
    NetRaw = general::CAP_NET_RAW as u8,
    /// Lock memory without limit.
    IpcLock = general::CAP_IPC_LOCK as u8,
    /// Have all rights to System V objects.
    IpcOwner = general::CAP_IPC_OWNER as u8,
    /// Change the root directory.
    SysChroot = general::CAP_SYS_CHROOT as u8,
    /// Set clocks.
    SysTime = general::CAP_SYS_TIME as u8,
    /// Look into all processes.
    SysPtrace = general::CAP_SYS_PTRACE as u8,
    /// What has no capability of its own.
    SysAdmin = general::CAP_SYS_ADMIN as u8,
    /// Raise priorities.
    SysNice = general::CAP_SYS_NICE as u8,
    /// Exceed and raise limits.
    SysResource = general::CAP_SYS_RESOURCE as u8,
    /// Make device files.
    Mknod = general::CAP_MKNOD as u8,
    /// Have leases on files of others.
    Lease = general::CAP_LEASE as u8,
    /// Say as whom somebody has logged in who had done so before.
    AuditControl = general::CAP_AUDIT_CONTROL as u8,
    /// Choose ids of processes.
    CheckpointRestore = general::CAP_CHECKPOINT_RESTORE as u8,
    /// Override rules of mandatory access control.
    MacOverride = general::CAP_MAC_OVERRIDE as u8,
}

/// A set of capabilities: bit N is number N.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CapSet(u64);

impl CapSet {
    /// How many capabilities there are.
    pub const COUNT: u32 = general::CAP_LAST_CAP + 1;
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
