//! What morsels need of a machine, for one thread on the host: the image in memory, and which of its frames are in use.

use morsel::{
    At, Cores, Domain, Extent, Frame, Inspection, Link, Memory, Morsels, Pages, Refused, Reserved,
    WORDS,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Words of a page.
const ENTRIES: usize = 512;
/// Constant pages and tables that show zeros, in front of the pool.
const ZEROS: u64 = 4;
/// Frames of a pool that are not its allocator's.
const HEAD_FRAMES: usize = 1;

/// Frames of an image, at the addresses at which the machine has them.
pub struct Machine {
    words: Vec<Cell<u64>>,
    /// The first of the image.
    head: u64,
    /// Those that are never handed out.
    own: usize,
    used: RefCell<Vec<bool>>,
    descriptors: RefCell<Vec<u64>>,
}

impl Machine {
    /// `None` if so many bytes are no pool. `head`: the number of the first frame.
    pub fn new(bytes: &[u8], head: u64) -> Option<Machine> {
        let frames = bytes.len() / (ENTRIES * 8);
        let geometry = pool::Geometry::new(frames, HEAD_FRAMES)?;
        let (own, frames) = (geometry.own_frames(), geometry.frames());
        let zeros = (0..ZEROS).flat_map(|level| {
            let below = Link::zeros(Frame((head - ZEROS + level).wrapping_sub(1)));
            std::iter::repeat_n(if level == 0 { 0 } else { below.0 }, ENTRIES)
        });
        let words = zeros.map(Cell::new).chain(words_of(bytes).take(frames * ENTRIES)).collect();
        let used = RefCell::new(unused(frames, own));
        let descriptors = RefCell::new(vec![0; frames]);
        Some(Machine { words, head, own, used, descriptors })
    }

    /// The objects in it.
    pub fn morsels(&self) -> Morsels<'_, Machine, Machine, Machine> {
        let zeros = std::array::from_fn(|level| Frame(self.head - ZEROS + level as u64));
        Morsels { memory: self, pages: self, cores: self, head: Frame(self.head), zeros }
    }

    /// Another one that finds in its memory what is in this one's.
    pub fn booted(&self) -> Machine {
        let frames = self.used.borrow().len();
        Machine {
            words: self.words.clone(),
            head: self.head,
            own: self.own,
            used: RefCell::new(unused(frames, self.own)),
            descriptors: RefCell::new(vec![0; frames]),
        }
    }

    /// Is the same in both?
    pub fn is_same(&self, other: &Machine) -> bool {
        self.words == other.words
    }

    /// Would recovery accept what is there?
    pub fn inspect(&self) -> Result<(), Refused> {
        let frames = self.used.borrow().len();
        let mut notes = vec![0; frames];
        let extent = Extent { head: Frame(self.head), frames, own: self.own };
        let mut inspection = Inspection::new(extent, &mut notes)?;
        while !inspection.step(self)? {}
        Ok(())
    }

    /// Frames in use.
    pub fn used(&self) -> usize {
        self.used.borrow().iter().filter(|&&used| used).count()
    }

    fn word(&self, at: At) -> &Cell<u64> {
        let frame = (at.frame.0 + ZEROS - self.head) as usize;
        &self.words[frame * ENTRIES + at.index]
    }

    /// A frame, or several, by their numbers in the image.
    fn numbers(&self, frame: Frame, order: u8) -> Option<Range<usize>> {
        let first = usize::try_from(frame.0.checked_sub(self.head)?).ok()?;
        let end = first.checked_add(1 << order)?;
        (end <= self.used.borrow().len()).then_some(first..end)
    }
}

/// The words of an image.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = Cell<u64>> + '_ {
    bytes.chunks_exact(8).map(|bytes| {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        Cell::new(u64::from_le_bytes(word))
    })
}

/// No frame is in use but those that are never handed out; and of these the page that names all others is found once, by
/// recovery.
fn unused(frames: usize, own: usize) -> Vec<bool> {
    (0..frames).map(|frame| (1..own).contains(&frame)).collect()
}

impl Memory for Machine {
    fn load(&self, at: At) -> u64 {
        self.word(at).get()
    }
    fn store(&self, at: At, value: u64) {
        self.word(at).set(value);
    }
    fn compare_exchange(&self, at: At, old: u64, new: u64) -> Result<(), u64> {
        let word = self.word(at);
        match word.get() {
            now if now == old => {
                word.set(new);
                Ok(())
            }
            now => Err(now),
        }
    }
    fn write_back(&self, _: Frame, line: usize) {
        debug_assert!(line < ENTRIES / WORDS);
    }
    fn fence(&self) {}
    fn zero(&self, frame: Frame) {
        (0..ENTRIES).for_each(|index| self.word(At { frame, index }).set(0));
    }
    fn copy(&self, from: Frame, to: Frame) {
        for index in 0..ENTRIES {
            let word = self.word(At { frame: from, index }).get();
            self.word(At { frame: to, index }).set(word);
        }
    }
    fn domain(&self) -> Domain {
        Domain::Caches
    }
}

impl Pages for Machine {
    fn take(&self, order: u8) -> Result<Frame, Refused> {
        let mut used = self.used.borrow_mut();
        let size = 1usize << order;
        let mut firsts = (0..used.len()).step_by(size);
        let first = firsts.find(|&first| !used[first..first + size].contains(&true));
        let first = first.ok_or(Refused::NoMemory)?;
        used[first..first + size].fill(true);
        Ok(Frame(self.head + first as u64))
    }
    fn give(&self, frame: Frame, order: u8) {
        if let Some(numbers) = self.numbers(frame, order) {
            self.used.borrow_mut()[numbers].fill(false);
        }
    }
    fn reserve(&self, frame: Frame, order: u8) -> Reserved {
        let Some(numbers) = self.numbers(frame, order) else { return Reserved::Outside };
        if numbers.start < self.own && numbers != (0..1) {
            return Reserved::Outside;
        }
        let mut used = self.used.borrow_mut();
        if used[numbers.clone()].contains(&true) {
            return Reserved::Before;
        }
        used[numbers].fill(true);
        Reserved::First
    }
    fn descriptor(&self, frame: Frame) -> u64 {
        self.numbers(frame, 0).map_or(0, |numbers| self.descriptors.borrow()[numbers.start])
    }
    fn set_descriptor(&self, frame: Frame, value: u64) {
        if let Some(numbers) = self.numbers(frame, 0) {
            self.descriptors.borrow_mut()[numbers.start] = value;
        }
    }
    fn exchange_descriptor(&self, frame: Frame, old: u64, new: u64) -> Result<(), u64> {
        match self.descriptor(frame) {
            now if now == old => {
                self.set_descriptor(frame, new);
                Ok(())
            }
            now => Err(now),
        }
    }
}

impl Cores for Machine {
    fn enter(&self) {}
    fn leave(&self) {}
    fn invalidate(&self, _: u32, _: Range<u64>) {}
    fn grace(&self) {}
}
