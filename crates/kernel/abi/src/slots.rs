//! The first capabilities of every domain: fixed slots in the L2CNode at root index 0.

use captypes::CapAddr;

/// The domain's own root CNode.
pub const ROOT: CapAddr = CapAddr(1);
/// Its dispatcher.
pub const DISPATCHER: CapAddr = CapAddr(2);
/// Its page table of level 4, which translates the lowest 256 TiB: the root, unless paging has five
/// levels. Then that is in [`ROOT_TABLE`].
pub const VSPACE: CapAddr = CapAddr(3);
/// The frame shared with the kernel.
pub const FRAME: CapAddr = CapAddr(4);
/// The memory server.
pub const MEMD: CapAddr = CapAddr(5);
/// The control plane of the Linux personality (Linux processes), badged with the process id; for the servers of disks and of the network, to be notified.
pub const UNIXD: CapAddr = CapAddr(6);
/// The frame shared with `unixd` (Linux processes, servers of disks and of the network).
pub const SESSION: CapAddr = CapAddr(7);
/// The CPU driver of the core (`init`; `memd` and `unixd` get copies).
pub const KERNEL: CapAddr = CapAddr(8);
/// All I/O ports (`init`, on the boot core only; `unixd` gets a copy, for the serial ports).
pub const IO: CapAddr = CapAddr(9);
/// All interrupt lines (`init`, on the boot core only; `unixd` gets IRQ 3 and 4 in this slot and the next). From 16 on they
/// are raised by messages of devices.
pub const IRQ: CapAddr = CapAddr(10);
/// The endpoint on which a server receives.
pub const SELF_EP: CapAddr = CapAddr(12);
/// The personality's library image (`init`, `unixd`: a Frame with the ELF file).
pub const LIBUNIX_ELF: CapAddr = CapAddr(13);
/// A Frame with the boot archive (`init`, `unixd`).
pub const ARCHIVE: CapAddr = CapAddr(14);
/// The endpoint at which `unixd` tells `init` of the start and the end of the session, and a program
/// that was started by `spawnd` tells it of its own end.
pub const REPORT: CapAddr = CapAddr(15);
/// The right to make fresh Ids (`init`, which gives copies to whoever wants).
pub const ID: CapAddr = CapAddr(16);
/// The performance counters of this core (`init`).
pub const PERFMON: CapAddr = CapAddr(17);
/// The root page table of a native domain, of level 5, on a machine whose paging has five levels;
/// else empty.
pub const ROOT_TABLE: CapAddr = CapAddr(18);
/// The Mapping of [`VSPACE`] in it.
pub const ROOT_TABLE_MAPPING: CapAddr = CapAddr(19);
/// A Frame with the channels between the cores' monitors (the first domain of every core); empty if
/// there are none. Page `i * cores + j` is the ring from core `i` to core `j`.
pub const CHANNELS: CapAddr = CapAddr(20);
/// The endpoint of the core's monitor; empty where there is one core only.
pub const MONITOR: CapAddr = CapAddr(21);
/// The registers of its device (a driver: a DevFrame, and nothing else of the bus); else empty.
pub const DEVICE: CapAddr = CapAddr(22);
/// The interrupt of that device.
pub const DEVICE_IRQ: CapAddr = CapAddr(23);
/// Persistent memory: a Ram capability with the attribute `PERSISTENT` (`init`, which moves it to `unixd`); empty
/// where there is none.
pub const PERSISTENT: CapAddr = CapAddr(24);
/// All functions of PCI devices, as far as their access to memory is concerned (`init`, on the boot core, of a machine with
/// an IOMMU); else empty.
pub const FUNCTIONS: CapAddr = CapAddr(25);
/// The registers of the device of a shared folder (`unixd`: a DevFrame); else empty.
pub const SHARE: CapAddr = CapAddr(26);
/// The interrupt of that device.
pub const SHARE_IRQ: CapAddr = CapAddr(27);
/// Of each disk, two (`unixd`): a Frame that is shared with its server, and the endpoint of that; else empty.
pub const DISKS: CapAddr = CapAddr(28);
/// Most disks with a server.
pub const MAX_DISKS: u32 = 4;
/// Persistent memory that the machine lets nobody write: a Frame with the rights to read and to execute (`init`, which moves
/// it to `unixd`); empty where there is none.
pub const IMAGE: CapAddr = CapAddr(DISKS.0 + 2 * MAX_DISKS);
/// The registers of the disk for pages that leave memory (`unixd`: a DevFrame); else empty.
pub const SWAP: CapAddr = CapAddr(IMAGE.0 + 1);
/// The interrupt of that device.
pub const SWAP_IRQ: CapAddr = CapAddr(SWAP.0 + 1);
/// The stand-in of `unixd` on this core (Linux processes whose home it is); else empty. Where those of other kinds have their endpoint.
pub const STANDIN: CapAddr = SELF_EP;
/// A Frame that is shared with the network server, and the endpoint of that in the next slot (`unixd`); else empty.
pub const NET: CapAddr = CapAddr(SWAP_IRQ.0 + 1);
/// The registers of the timer (`unixd`: a DevFrame of one page, which can only be read); else empty.
pub const TIMER: CapAddr = CapAddr(NET.0 + 2);
/// First slot of the fixed L2CNode that is free for the domain's own use.
pub const FIRST_FREE: CapAddr = CapAddr(TIMER.0 + 1);

/// Root index where `init` finds the RAM that the kernel did not use: an L2CNode of RAM caps.
pub const BOOT_RAM_L1: u32 = 1;
/// Root index where `init` finds everything else at boot (PhysAddr of device ranges).
pub const BOOT_DEVICES_L1: u32 = 2;
