//! Programs that are started on this core for somebody, by `spawnd`.

use crate::peers::WORDS;
use alloc::collections::BTreeMap;
use libos::cores::PIECE;
use libos::Status;
use ump::wire::Text;

/// Jobs that there may be at a time.
const MOST: usize = 1024;

/// Who waits for the end of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A domain of this core.
    Ticket(u32),
    /// The monitor of another, with the call of this number.
    Peer(u32, u16),
}

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `spawnd` does not know of it.
    New,
    /// It has it.
    Taken,
    /// It shall end, which `spawnd` does not know.
    Unwanted,
    /// It does.
    Ending,
}

struct Job {
    words: Text<WORDS>,
    origin: Origin,
    stage: Stage,
}

/// All of them.
#[derive(Default)]
pub struct Jobs {
    all: BTreeMap<u32, Job>,
    last: u32,
    spawnd: Option<(u32, u64)>,
}

impl Jobs {
    /// The client `spawnd` is ready, and is told of jobs by this bit. `NoRights`: another one is that.
    pub fn serve(&mut self, client: u32, bit: u64) -> Result<(), Status> {
        if self.spawnd.is_some_and(|(spawnd, _)| spawnd != client) {
            return Err(Status::NoRights);
        }
        self.spawnd = Some((client, bit));
        Ok(())
    }

    /// Who is to be told that there is something to do.
    pub fn spawnd(&self) -> Option<(u32, u64)> {
        self.spawnd
    }

    /// A client has gone.
    pub fn client_gone(&mut self, client: u32) {
        self.spawnd = self.spawnd.filter(|(spawnd, _)| *spawnd != client);
    }

    /// A new job. `NoMemory`: there are too many.
    pub fn add(&mut self, words: Text<WORDS>, origin: Origin) -> Result<(), Status> {
        if self.all.len() >= MOST {
            return Err(Status::NoMemory);
        }
        self.last = self.last.wrapping_add(1) & 0xff_ffff;
        while self.all.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1) & 0xff_ffff;
        }
        self.all.insert(self.last, Job { words, origin, stage: Stage::New });
        Ok(())
    }

    fn in_stage(&mut self, stage: Stage, next: Stage) -> Result<(u32, &Job), Status> {
        let found = self.all.iter_mut().find(|(_, job)| job.stage == stage);
        let (number, job) = found.ok_or(Status::Empty)?;
        job.stage = next;
        Ok((*number, job))
    }

    /// One that `spawnd` does not have yet, and the bytes of its words.
    pub fn next(&mut self) -> Result<(u32, u32), Status> {
        let (number, job) = self.in_stage(Stage::New, Stage::Taken)?;
        Ok((number, job.words.as_str().len() as u32))
    }

    /// One that shall end, and `spawnd` does not know.
    pub fn next_unwanted(&mut self) -> Result<u32, Status> {
        self.in_stage(Stage::Unwanted, Stage::Ending).map(|(number, _)| number)
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

    /// The job of `origin` shall end. `true`: it had not begun, and is gone.
    pub fn kill(&mut self, origin: Origin) -> bool {
        let Some((&number, job)) = self.all.iter_mut().find(|(_, job)| job.origin == origin) else {
            return false;
        };
        match job.stage {
            Stage::New => return self.all.remove(&number).is_some(),
            Stage::Taken => job.stage = Stage::Unwanted,
            Stage::Unwanted | Stage::Ending => {}
        }
        false
    }

    /// It has ended: who waits for that.
    pub fn end(&mut self, number: u32) -> Option<Origin> {
        self.all.remove(&number).map(|job| job.origin)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }
}
