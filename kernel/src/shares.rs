//! Memory for the first domains of the other cores.
//!
//! Each core's mapping database knows the memory that its own first domain was given at boot. So the
//! boot core divides the memory before it turns any of it into capabilities: every other core gets
//! one piece, its *share*, from its own NUMA node if it can be; one block becomes the *channels*,
//! through which the monitors talk; the rest is the boot core's.

use crate::arch::boot_info::{BootInfo, Region, RegionKind};
use core::ops::Range;
use paging::PAGE;

/// A share is a multiple of this, and begins at one.
const GRAIN: u64 = 2 << 20;
const LEAST: u64 = 8 << 20;
const MOST: u64 = 256 << 20;

/// Bytes of the channels between so many cores: page `i * cores + j` is the ring from core i to j.
pub fn channel_bytes(cores: usize) -> u64 {
    (cores * cores) as u64 * PAGE
}

/// Divides the memory: fills in `info.shares` and `info.channels`, and marks both in the memory map.
/// With one core, or where it would take more than half of the memory, nothing is divided. If Linux programs have homes on all
/// cores (`homes=`), each needs as much, and the boot core twice that.
pub fn divide(info: &mut BootInfo) {
    let cores = info.cores.as_slice().len();
    let usable: u64 = usable(info).map(|r| r.end - r.start).sum();
    let (parts, most) = match info.option("homes") {
        Some(_) => (cores as u64 + 1, usable - usable / (cores as u64 + 1)),
        None => (4 * cores.max(1) as u64, usable / 2),
    };
    let share = (usable / parts / GRAIN * GRAIN).clamp(LEAST, MOST);
    let all = share * cores.saturating_sub(1) as u64 + channel_bytes(cores);
    if cores < 2 || all > most {
        return;
    }
    let Some(channels) = take(info, channel_bytes(cores), PAGE, None) else { return };
    info.channels = channels;
    for core in 1..cores {
        let node = info.cores.as_slice()[core].node;
        let found = take(info, share, GRAIN, Some(node)).or_else(|| take(info, share, GRAIN, None));
        info.shares[core] = found.unwrap_or(0..0);
    }
}

fn usable(info: &BootInfo) -> impl Iterator<Item = &Region> {
    info.memory.as_slice().iter().filter(|r| r.kind == RegionKind::Usable)
}

/// The end of the largest piece of usable memory (of `node`, if one is named), if that is enough.
fn take(info: &mut BootInfo, bytes: u64, grain: u64, node: Option<u32>) -> Option<Range<u64>> {
    let of_node = usable(info).filter(|r| node.is_none_or(|node| r.node == node));
    let fitting = of_node.filter_map(|r| {
        let start = r.end.checked_sub(bytes)? & !(grain - 1);
        (start >= r.start).then_some((r.end - r.start, start))
    });
    let (_, start) = fitting.max()?;
    info.mark(start..start + bytes, RegionKind::Given);
    Some(start..start + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::boot_info::CoreInfo;

    const MIB: u64 = 1 << 20;

    /// A machine with so many cores and so many MiB, divided over nodes.
    fn machine(cores: u32, mib: u64, nodes: u32) -> BootInfo {
        let mut info = BootInfo::new();
        info.add_memory(Region {
            start: MIB,
            end: MIB * (1 + mib) - 0x2_1000,
            kind: RegionKind::Usable,
            node: 0,
        });
        for node in 0..nodes {
            let part = MIB * mib / u64::from(nodes);
            let start = MIB + part * u64::from(node);
            info.set_node(start..start + part, node);
        }
        for apic_id in 0..cores {
            info.cores.push(CoreInfo { apic_id, node: apic_id * nodes / cores });
        }
        divide(&mut info);
        info
    }

    fn node_of(info: &BootInfo, range: &Range<u64>) -> Option<u32> {
        let mut regions = info.memory.as_slice().iter();
        let region = regions.find(|r| r.start <= range.start && range.end <= r.end)?;
        assert_eq!(region.kind, RegionKind::Given);
        Some(region.node)
    }

    #[test]
    fn shares_are_apart_and_of_the_right_node() {
        for (cores, mib, nodes) in [(2, 512, 1), (4, 1024, 2), (8, 4096, 4), (64, 8192, 8)] {
            let info = machine(cores, mib, nodes);
            let mut given = vec![info.channels.clone()];
            for (core, listed) in info.cores.as_slice().iter().enumerate().skip(1) {
                let share = &info.shares[core];
                let bytes = share.end - share.start;
                assert!(
                    (LEAST..=MOST).contains(&bytes) && (share.start | bytes).is_multiple_of(GRAIN)
                );
                assert_eq!(node_of(&info, share), Some(listed.node));
                given.push(share.clone());
            }
            assert_eq!(info.shares[0], 0..0);
            assert_eq!(info.channels.end - info.channels.start, channel_bytes(cores as usize));
            given.sort_by_key(|range| range.start);
            assert!(given.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let left: u64 = usable(&info).map(|r| r.end - r.start).sum();
            assert!(left >= mib * MIB / 2);
        }
    }

    #[test]
    fn a_full_node_is_helped_out_by_another() {
        let mut info = machine(1, 256, 1);
        info.set_node(MIB..4 * MIB, 1);
        info.cores.push(CoreInfo { apic_id: 1, node: 1 });
        divide(&mut info);
        assert_eq!(node_of(&info, &info.shares[1].clone()), Some(0));
    }

    #[test]
    fn little_memory_and_single_cores_are_left_alone() {
        for info in [machine(1, 1024, 1), machine(64, 512, 1), machine(4, 32, 2)] {
            assert!(info.channels.is_empty() && info.shares.iter().all(Range::is_empty));
            assert!(usable(&info).count() >= 1);
            assert!(info.memory.as_slice().iter().all(|r| r.kind == RegionKind::Usable));
        }
    }
}
