//! Blocks of the disk that stay in memory.
//!
//! All of them are clean: what is written goes to the disk at once, and here too. So any of them may be dropped, and the one is that
//! was not used since the others were looked at (second chance).

use crate::disk::{Disk, Failed, SECTOR};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use core::ops::Range;

/// Bytes of a block.
const BLOCK: usize = 4096;
const SECTORS: u64 = (BLOCK / SECTOR) as u64;
/// Blocks that are read at once when somebody reads one behind the other.
const AHEAD: u64 = 8;
/// Blocks that stay: 8 MiB.
pub const CACHED_MOST: usize = 2048;

struct Cached {
    bytes: Box<[u8]>,
    is_used: bool,
}

/// A disk, with what is known of it.
pub struct Cache<D> {
    disk: D,
    blocks: BTreeMap<u64, Cached>,
    /// All of them, in the order in which they are looked at.
    order: VecDeque<u64>,
    /// The block behind the last one that was read from the disk.
    next: u64,
}

impl<D: Disk> Cache<D> {
    pub fn new(disk: D) -> Cache<D> {
        Cache { disk, blocks: BTreeMap::new(), order: VecDeque::new(), next: 0 }
    }

    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Blocks that are whole: what is behind them is never kept.
    fn whole(&self) -> u64 {
        self.disk.sectors() / SECTORS
    }

    pub fn read(&mut self, first: u64, to: &mut [u8]) -> Result<(), Failed> {
        self.check(first, to.len())?;
        let (mut sector, mut at) = (first, 0);
        while at < to.len() {
            let block = sector / SECTORS;
            if block >= self.whole() {
                return self.disk.read(sector, &mut to[at..]);
            }
            let left = (to.len() - at).div_ceil(BLOCK) as u64;
            self.fetch(block, left)?;
            let inside = (sector % SECTORS) as usize * SECTOR;
            let bytes = (BLOCK - inside).min(to.len() - at);
            let cached = self.blocks.get_mut(&block).ok_or(Failed)?;
            cached.is_used = true;
            to[at..at + bytes].copy_from_slice(&cached.bytes[inside..inside + bytes]);
            at += bytes;
            sector += (bytes / SECTOR) as u64;
        }
        Ok(())
    }

    pub fn write(&mut self, first: u64, from: &[u8]) -> Result<(), Failed> {
        self.check(first, from.len())?;
        let sectors = first..first + (from.len() / SECTOR) as u64;
        let written = self.disk.write(first, from);
        for block in sectors.start / SECTORS..sectors.end.div_ceil(SECTORS) {
            let starts = (block * SECTORS).max(sectors.start);
            let ends = ((block + 1) * SECTORS).min(sectors.end);
            let from = &from[within(starts..ends, sectors.start)];
            if written.is_err() {
                // It is not known what is there now.
                self.blocks.remove(&block);
            } else if let Some(cached) = self.blocks.get_mut(&block) {
                cached.bytes[within(starts..ends, block * SECTORS)].copy_from_slice(from);
            } else if from.len() == BLOCK && block < self.whole() {
                self.keep(block, from.into());
            }
        }
        written
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.order = VecDeque::new();
    }

    pub fn flush(&mut self) -> Result<(), Failed> {
        self.disk.flush()
    }

    fn check(&self, first: u64, bytes: usize) -> Result<(), Failed> {
        let end = first.checked_add((bytes / SECTOR) as u64).ok_or(Failed)?;
        match bytes.is_multiple_of(SECTOR) && end <= self.disk.sectors() {
            true => Ok(()),
            false => Err(Failed),
        }
    }

    /// Has a block here, and as many behind it as are read with it.
    fn fetch(&mut self, block: u64, wanted: u64) -> Result<(), Failed> {
        if self.blocks.contains_key(&block) {
            return Ok(());
        }
        let ahead = if block == self.next { AHEAD } else { 1 };
        let most = wanted.max(ahead).min(AHEAD).min(self.whole() - block);
        let missing = (1..most).take_while(|&more| !self.blocks.contains_key(&(block + more)));
        let mut count = 1 + missing.count() as u64;
        let mut buffer = vec![0; count as usize * BLOCK];
        if self.disk.read(block * SECTORS, &mut buffer).is_err() {
            // One that nobody has asked for may be the one that cannot be read.
            count = 1;
            self.disk.read(block * SECTORS, &mut buffer[..BLOCK])?;
        }
        for (number, bytes) in (block..block + count).zip(buffer.chunks(BLOCK)) {
            self.keep(number, bytes.into());
        }
        self.next = block + count;
        Ok(())
    }

    fn keep(&mut self, block: u64, bytes: Box<[u8]>) {
        while self.order.len() >= CACHED_MOST {
            let Some(oldest) = self.order.pop_front() else { break };
            match self.blocks.get_mut(&oldest) {
                Some(cached) if cached.is_used => {
                    cached.is_used = false;
                    self.order.push_back(oldest);
                }
                _ => {
                    self.blocks.remove(&oldest);
                }
            }
        }
        if self.blocks.insert(block, Cached { bytes, is_used: false }).is_none() {
            self.order.push_back(block);
        }
    }
}

/// The bytes of sectors, counted from one.
fn within(sectors: Range<u64>, from: u64) -> Range<usize> {
    let at = |sector: u64| (sector - from) as usize * SECTOR;
    at(sectors.start)..at(sectors.end)
}
