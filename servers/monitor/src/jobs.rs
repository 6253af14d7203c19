//! Programs that are started on this core for somebody, by `spawnd`.

use crate::peers::WORDS;
use alloc::collections::BTreeMap;
use libos::cores::PIECE;
use libos::interface::OwnedCap;
use libos::{Cap, Status};
use ump::wire::Text;

/// Jobs that there may be at a time.
const MOST: usize = 1024;

/// Who waits for the end of a job.
#[derive(Clone, Copy)]
pub enum Origin {
    /// A domain of this core.
    Ticket(u32),
    /// The monitor of another, with the call of this number.
    Peer(u32, u16),
}

struct Job {
    words: Text<WORDS>,
    origin: Origin,
    taken: bool,
}

/// All of them.
#[derive(Default)]
pub struct Jobs {
    all: BTreeMap<u32, Job>,
    last: u32,
    spawnd: Option<(OwnedCap, u64)>,
}

impl Jobs {
    /// `spawnd` is ready, and is told of jobs by this bell.
    pub fn serve(&mut self, bell: OwnedCap, bit: u64) {
        self.spawnd = Some((bell, bit));
        self.ring();
    }

    fn ring(&self) {
        if let Some((bell, bit)) = &self.spawnd {
            let _ = bell.cap().notify(*bit);
        }
    }

    /// A new job. `NoMemory`: there are too many.
    pub fn add(&mut self, words: Text<WORDS>, origin: Origin) -> Result<(), Status> {
        if self.all.len() >= MOST {
            return Err(Status::NoMemory);
        }
        self.last = self.last.wrapping_add(1) & 0xff_ffff;
        self.all.insert(self.last, Job { words, origin, taken: false });
        self.ring();
        Ok(())
    }

    /// One that `spawnd` does not have yet, and the bytes of its words.
    pub fn next(&mut self) -> Result<(u32, u32), Status> {
        let (number, job) = self.all.iter_mut().find(|(_, job)| !job.taken).ok_or(Status::Empty)?;
        job.taken = true;
        Ok((*number, job.words.as_str().len() as u32))
    }

    /// A piece of its words.
    pub fn piece(&self, number: u32, piece: u32) -> Result<[u64; PIECE / 8], Status> {
        let words = self.all.get(&number).ok_or(Status::Empty)?.words.as_str().as_bytes();
        let rest = words.get(piece as usize * PIECE..).ok_or(Status::OutOfRange)?;
        let mut bytes = [[0; 8]; PIECE / 8];
        let len = rest.len().min(PIECE);
        bytes.as_flattened_mut()[..len].copy_from_slice(&rest[..len]);
        Ok(bytes.map(u64::from_le_bytes))
    }

    /// It has ended: who waits for that.
    pub fn end(&mut self, number: u32) -> Option<Origin> {
        self.all.remove(&number).map(|job| job.origin)
    }
}
