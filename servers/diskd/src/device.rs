//! The disk, for those who wait for it.

use crate::wait_for_notification as wait;
use diskfs::{Disk, Failed, SECTOR};
use drivers::block::{Block, Refusal, MOST_BYTES, PLACES};

/// A disk that is asked for one thing at a time, in as many pieces as it takes at once.
pub struct BlockDisk {
    block: Block,
    /// Which piece the request at each place is.
    pieces: [usize; PLACES],
}

impl BlockDisk {
    pub fn new(block: Block) -> BlockDisk {
        BlockDisk { block, pieces: [0; PLACES] }
    }

    /// Waits for the next answer, and shows `look` which piece it is.
    fn answer(&mut self, mut look: impl FnMut(usize, &[u8])) -> Result<(), Failed> {
        let mut result = Ok(());
        let pieces = &self.pieces;
        while !self.block.answer(|place, read| match read {
            Ok(bytes) => look(pieces[usize::from(place)], bytes),
            Err(_) => result = Err(Failed),
        }) {
            self.block.nudge();
            wait();
        }
        result
    }

    /// Does something for each piece of so many bytes, and waits for all of them, whatever becomes of one.
    fn each(
        &mut self,
        bytes: usize,
        mut send: impl FnMut(&mut Block, usize) -> Result<u16, Refusal>,
        mut look: impl FnMut(usize, &[u8]),
    ) -> Result<(), Failed> {
        let (mut result, mut pending) = (Ok(()), 0);
        for piece in 0..bytes.div_ceil(MOST_BYTES) {
            if self.block.room() == 0 {
                result = result.and(self.answer(&mut look));
                pending -= 1;
            }
            match send(&mut self.block, piece) {
                Ok(place) => {
                    self.pieces[usize::from(place)] = piece;
                    pending += 1;
                }
                Err(_) => {
                    result = Err(Failed);
                    break;
                }
            }
        }
        for _ in 0..pending {
            result = result.and(self.answer(&mut look));
        }
        result
    }
}

/// The sector of a piece, and its bytes of all.
fn part(first: u64, piece: usize, all: usize) -> (u64, core::ops::Range<usize>) {
    let start = piece * MOST_BYTES;
    (first + (start / SECTOR) as u64, start..all.min(start + MOST_BYTES))
}

impl Disk for BlockDisk {
    fn sectors(&self) -> u64 {
        self.block.sectors()
    }

    fn is_read_only(&self) -> bool {
        self.block.is_read_only()
    }

    fn read(&mut self, first: u64, to: &mut [u8]) -> Result<(), Failed> {
        let all = to.len();
        let send = |block: &mut Block, piece| {
            let (sector, bytes) = part(first, piece, all);
            block.read(sector, bytes.len() / SECTOR)
        };
        self.each(all, send, |piece, bytes| {
            let (_, place) = part(first, piece, all);
            to[place].copy_from_slice(bytes);
        })
    }

    fn write(&mut self, first: u64, from: &[u8]) -> Result<(), Failed> {
        let all = from.len();
        let send = |block: &mut Block, piece| {
            let (sector, bytes) = part(first, piece, all);
            block.write(sector, bytes.len() / SECTOR, |to| to.copy_from_slice(&from[bytes]))
        };
        self.each(all, send, |_, _| ())
    }

    fn flush(&mut self) -> Result<(), Failed> {
        if !self.block.can_flush() {
            return Ok(());
        }
        self.each(1, |block, _| block.flush(), |_, _| ())
    }
}
