//! The ends of inode bitmaps.
//!
//! A bitmap of inodes is a block, of which only as many bits mean something as a group has inodes; the others are to be set, and `e2fsck` says so
//! where they are not. The library clears them when it uses a group for the first time. They have no part in any checksum, so they can be
//! set when the block is written where it belongs.

use crate::cache::Cache;
use crate::disk::{Disk, SECTOR};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

const SUPERBLOCK: usize = 1024;
const MAGIC: u16 = 0xef53;
/// Incompatible features: descriptors are spread over the groups; they have 64 bytes or more.
const META_BG: u32 = 0x10;
const WIDE: u32 = 0x80;
/// More groups than this are those of a disk that is not looked at: 8 TiB of blocks of 4 KiB.
const GROUPS: u64 = 1 << 16;

/// Where inode bitmaps are.
#[derive(Default)]
pub struct Padding {
    /// Their first sectors.
    bitmaps: BTreeSet<u64>,
    /// The bytes of each that are to be set.
    bytes: Range<usize>,
}

impl Padding {
    /// Of what is on a disk. Nothing: it cannot be known.
    pub fn of<D: Disk>(disk: &mut Cache<D>) -> Padding {
        Self::find(disk).unwrap_or_default()
    }

    fn find<D: Disk>(disk: &mut Cache<D>) -> Option<Padding> {
        let mut superblock = [0; 1024];
        disk.read((SUPERBLOCK / SECTOR) as u64, &mut superblock).ok()?;
        let u16_at = |at: usize| u16::from_le_bytes([superblock[at], superblock[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let incompatible = u32_at(96);
        if u16_at(56) != MAGIC || incompatible & META_BG != 0 {
            return None;
        }
        let wide = incompatible & WIDE != 0;
        let high = if wide { u64::from(u32_at(336)) << 32 } else { 0 };
        let blocks = u64::from(u32_at(4)) | high;
        let (first, per_group) = (u64::from(u32_at(20)), u64::from(u32_at(32)));
        let block = 1024usize.checked_shl(u32_at(24)).filter(|&bytes| bytes <= 65536)?;
        let inodes = u32_at(40) as usize;
        let size = if wide { usize::from(u16_at(254)).max(64) } else { 32 };
        let groups = blocks.checked_sub(first)?.div_ceil(per_group.max(1));
        if groups > GROUPS || size > block || !inodes.is_multiple_of(8) || inodes / 8 > block {
            return None;
        }
        let sectors = (block / SECTOR) as u64;
        let bytes = (groups as usize * size).next_multiple_of(SECTOR);
        let mut table: Vec<u8> = vec![0; bytes];
        disk.read((first + 1).checked_mul(sectors)?, &mut table).ok()?;
        let half = |at: usize| table.get(at..at + 4)?.try_into().map(u32::from_le_bytes).ok();
        let mut bitmaps = BTreeSet::new();
        for group in 0..groups as usize {
            let low = u64::from(half(group * size + 4)?);
            let high = if wide { u64::from(half(group * size + 0x24)?) } else { 0 };
            bitmaps.insert((low | high << 32).checked_mul(sectors)?);
        }
        Some(Padding { bitmaps, bytes: inodes / 8..block })
    }

    /// Sets what is to be set in what is written from a sector on, if it is such a bitmap.
    pub fn set(&self, sector: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        let end = sector + (bytes.len() / SECTOR) as u64;
        if self.bytes.is_empty() || self.bitmaps.range(sector..end).next().is_none() {
            return None;
        }
        let mut bytes = bytes.to_vec();
        for bitmap in self.bitmaps.range(sector..end) {
            let start = (bitmap - sector) as usize * SECTOR;
            let part = start + self.bytes.start..start + self.bytes.end;
            if let Some(part) = bytes.get_mut(part) {
                part.fill(0xff);
            }
        }
        Some(bytes)
    }
}
