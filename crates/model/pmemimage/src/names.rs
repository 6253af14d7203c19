//! Names and attributes: the words of an object.

use crate::machine::Machine;
use crate::Wrong;
use morsel::{At, Frame, Memory};

const PAGE: u64 = 4096;
/// Words of a page.
const ENTRIES: u64 = 512;

/// The words of an object whose pages are all there.
pub struct Area<'a> {
    machine: &'a Machine,
    frames: Vec<Frame>,
}

impl<'a> Area<'a> {
    /// Those of object `number`.
    pub fn new(machine: &'a Machine, number: u32) -> Result<Area<'a>, Wrong> {
        let morsels = machine.morsels();
        let record = morsels.open(number)?;
        let pages = morsels.limit(record) / PAGE;
        let frames = (0..pages).map(|page| {
            morsels.look_at(record, page, |frame| frame)?.ok_or(Wrong::Hole { number, page })
        });
        Ok(Area { machine, frames: frames.collect::<Result<_, _>>()? })
    }

    fn place(&self, word: u64) -> At {
        At { frame: self.frames[(word / ENTRIES) as usize], index: (word % ENTRIES) as usize }
    }
}

impl pmfs::Area for Area<'_> {
    fn words(&self) -> u64 {
        self.frames.len() as u64 * ENTRIES
    }
    fn load(&self, word: u64) -> u64 {
        self.machine.load(self.place(word))
    }
    fn store(&self, word: u64, value: u64) {
        self.machine.store(self.place(word), value);
    }
    fn write_back(&self, _: u64) {}
    fn fence(&self) {}
}
