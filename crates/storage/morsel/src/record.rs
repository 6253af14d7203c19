//! Records: what an object is. Sixty-four bytes in a line of a page of the directory.
//!
//! ```text
//! word 0   anchor: state, flags, order, root      the one word whose store creates and ends an object
//!      1   limit in bytes; in the upper bits, by how many pages programs may raise it
//!      2   generation: how often the record was used
//!      3   of the data of a meta morsel: its id; of what was committed: the record that has it, and its generation;
//!          of that one: the id of the object
//!      4…7 the owner's: names, sizes, times
//! ```
//!
//! All words are in one cache line, so stores to them reach memory in order: the anchor is stored last.
//!
//! The directory is a morsel itself. Its record, number 0, is in the pool's first page, so that a
//! pool is found by that page; record *n* is in line *n* % 64 of page *n* / 64.
//!
//! ```text
//! head              directory                        an object of order 2
//! ┌─────────┐       ┌───┐    ┌──────────────┐        ┌───┐   ┌───┐   ┌──────┐
//! │ magic   │   ┌──►│   ├───►│ record 0: –  │    ┌──►│   ├──►│   ├──►│ page │
//! │ record 0├───┘   │   │    │ record 1     ├────┘   │   │   └───┘   └──────┘
//! └─────────┘       └───┘    │  …           │        └───┘
//!                            └──────────────┘
//! ```

use crate::memory::{At, Cores, Frame, Look, Memory, Pages, LINES, WORDS};
use crate::raise::limit_in;
use crate::{durable::State, link, Access, Child, Kind, Morsels, Refused, Shown};

/// Records in a page.
pub const RECORDS: u32 = 64;

/// Identifies the first page of a pool.
pub const MAGIC: u64 = 0x3130_6c65_7372_6f6d;

pub(crate) const LIMIT: usize = 1;
pub(crate) const GENERATION: usize = 2;
/// What else belongs to the object.
pub(crate) const OTHER: usize = 3;
/// The first of the owner's words.
pub(crate) const OWNER: usize = 4;

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub id: u32,
    pub(crate) at: At,
}

impl Record {
    /// In which cache line of which frame it is, counted from the pool's first frame on. It stays there as long as there is the pool.
    #[inline]
    pub fn line(self, first: Frame) -> u64 {
        (self.at.frame.0 - first.0) * LINES as u64 + self.at.line() as u64
    }
    /// The one in that line, which was found to be there.
    #[inline]
    pub fn in_line(id: u32, first: Frame, line: u64) -> Record {
        let (frame, index) = (line / LINES as u64, line as usize % LINES * WORDS);
        Record { id, at: At::new(Frame(first.0 + frame), index) }
    }
    pub(crate) fn word(self, n: usize) -> At {
        At::new(self.at.frame, self.at.index + n)
    }
}

/// Word 0 of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor(pub u64);

impl Anchor {
    pub const FREE: Anchor = Anchor(0);
    /// Somebody is about to make an object here.
    pub const NEW: Anchor = Anchor(1);
    /// A snapshot is being taken: who would write waits.
    pub const CUTTING: u64 = 1 << 3;
    /// What is behind the limit may not be gone yet.
    pub const TRIMMING: u64 = 1 << 4;
    /// Its page describes another object.
    pub const META: u64 = 1 << 5;
    /// A meta morsel describes it, without which it is nothing.
    pub const OWNED: u64 = 1 << 6;
    /// It is what another object was at its last commit.
    pub const HIDDEN: u64 = 1 << 7;
    /// What is missing is made in pages of 2 MiB, where there are any.
    pub const LARGE: u64 = 1 << 11;
    const LIVE: u64 = 2;
    const DYING: u64 = 3;

    pub fn live(root: Frame, order: u8, flags: u64) -> Anchor {
        Anchor(Self::LIVE | flags | (order as u64) << 8 | root.0 << 12)
    }
    /// Can these algorithms have stored it?
    pub(crate) fn is_sound(self) -> bool {
        match self.0 & 7 {
            0 | 1 => self.0 <= 1,
            2 | 3 => self.order() <= 4 && self.is_of_one_kind(),
            _ => false,
        }
    }
    /// It is a meta morsel of one page, or what such a one describes, or what was committed, or none of them.
    fn is_of_one_kind(self) -> bool {
        let kind = self.0 & (Self::META | Self::OWNED | Self::HIDDEN);
        let is_page = self.order() == 0 && !self.has(Self::TRIMMING);
        kind.count_ones() <= 1 && (is_page || !self.has(Self::META))
    }
    /// Of the object that has again what this hidden record has.
    pub(crate) fn adopted(self) -> Anchor {
        Anchor::live(self.root(), self.order(), self.0 & Self::LARGE)
    }
    pub fn is_live(self) -> bool {
        self.0 & 7 == Self::LIVE
    }
    /// Live, and not hidden: it may be [opened](Morsels::open).
    #[inline]
    pub fn is_open(self) -> bool {
        self.0 & (7 | Self::HIDDEN) == Self::LIVE
    }
    /// Live, and no snapshot is being taken; neither describes it another object, nor is it hidden, nor has it large pages.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & (7 | Self::CUTTING | Self::META | Self::HIDDEN | Self::LARGE) == Self::LIVE
    }
    pub fn is_dying(self) -> bool {
        self.0 & 7 == Self::DYING
    }
    pub fn dying(self) -> Anchor {
        Anchor(self.0 | 1)
    }
    pub fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    pub fn with(self, flag: u64) -> Anchor {
        Anchor(self.0 | flag)
    }
    pub fn without(self, flag: u64) -> Anchor {
        Anchor(self.0 & !flag)
    }
    pub fn order(self) -> u8 {
        (self.0 >> 8 & 7) as u8
    }
    pub fn root(self) -> Frame {
        Frame(self.0 >> 12)
    }
}

impl<M: Look, P, C> Morsels<'_, M, P, C> {
    /// The record of the directory.
    pub fn directory(&self) -> Record {
        Record { id: 0, at: At::new(self.head, WORDS) }
    }

    pub fn anchor(&self, record: Record) -> Anchor {
        Anchor(self.memory.word(record.at))
    }
    pub fn limit(&self, record: Record) -> u64 {
        limit_in(self.memory.word(record.word(LIMIT)))
    }
    pub fn generation(&self, record: Record) -> u64 {
        self.memory.word(record.word(GENERATION))
    }

    /// Where record `id` is, if its page exists.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Record> {
        if id == 0 {
            return Some(self.directory());
        }
        let anchor = self.anchor(self.directory());
        let (mut frame, mut level) = (anchor.root(), anchor.order());
        let page = (id / RECORDS) as u64;
        if page >= link::pages_of(level) {
            return None;
        }
        while level > 0 {
            let link = link::Link(self.memory.word(At::new(frame, link::index(page, level))));
            if link.is_hole() {
                return None;
            }
            // A claim has nothing in it yet, but may be looked at.
            frame = link.frame();
            level -= 1;
        }
        Some(Record { id, at: At::new(frame, (id % RECORDS) as usize * WORDS) })
    }
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Makes the page of this pool that names all others, and an empty directory.
    ///
    /// # Errors
    /// [`Refused::NoMemory`].
    pub fn format(&self) -> Result<(), Refused> {
        let directory = self.directory();
        let root = self.pages.take(0)?;
        // Whatever was there is no pool any more.
        self.put(At::new(self.head, 0), 0);
        self.memory.fence();
        self.memory.zero(root);
        self.write_back_frame(root);
        self.pages.set_descriptor(root, State::root(directory.id, 0).0);
        self.memory.store(directory.word(LIMIT), u64::MAX);
        self.memory.store(directory.word(GENERATION), 1);
        self.put(directory.at, Anchor::live(root, 1, 0).0);
        self.memory.fence();
        self.put(At::new(self.head, 0), MAGIC);
        self.memory.fence();
        Ok(())
    }

    /// What record `id` says.
    ///
    /// # Errors
    /// [`Refused::Gone`] if there is no object with this number.
    #[inline]
    pub fn open(&self, id: u32) -> Result<Record, Refused> {
        let record = self.find(id).ok_or(Refused::Gone)?;
        match self.anchor(record).is_open() {
            true => Ok(record),
            false => Err(Refused::Gone),
        }
    }

    /// The owner's words.
    pub fn owner_words(&self, record: Record) -> [u64; 4] {
        core::array::from_fn(|n| self.memory.load(record.word(OWNER + n)))
    }

    /// A number without an object, among those of the page of `from`.
    pub fn free_id(&self, from: u32) -> Option<u32> {
        let first = from / RECORDS * RECORDS;
        (first.max(1)..first + RECORDS)
            .find(|&id| self.find(id).is_none_or(|record| self.anchor(record) == Anchor::FREE))
    }

    /// Creates an object: its root, and nothing in it.
    ///
    /// # Errors
    /// [`Refused::Exists`] if the number is in use, [`Refused::Invalid`] if there is no such order,
    /// [`Refused::NoMemory`].
    pub fn create(&self, id: u32, order: u8, owner: [u64; 4]) -> Result<Record, Refused> {
        self.create_of(id, order, 0, 0, owner)
    }

    /// The same with a limit, and with its first pages (at most 64), as far as there is memory for them. Returns how many are there.
    ///
    /// # Errors
    /// [`Refused::Beyond`] too, if the order does not allow that.
    pub fn create_filled(
        &self,
        id: u32,
        order: u8,
        limit: u64,
        pages: u64,
    ) -> Result<(Record, u64), Refused> {
        if limit > link::pages_of(order) << 12 {
            return Err(Refused::Beyond);
        }
        let record = self.prepare(id, order)?;
        let root = self.empty_root(record).map_err(|refused| self.abandon(record, refused))?;
        self.publish(record, root, order, 0, limit, 0, [0; 4]);
        let end = pages.min(64).min(limit.div_ceil(4096));
        let mut page = 0;
        while page < end {
            self.cores.enter();
            let next = self.fill_run(record, page, end);
            self.cores.leave();
            if next == page && self.fault(record, page, Access::Write).is_err() {
                break;
            }
            page = next.max(page + 1);
        }
        Ok((record, page))
    }

    /// The same for what has flags, and perhaps a meta morsel.
    pub(crate) fn create_of(
        &self,
        id: u32,
        order: u8,
        flags: u64,
        meta: u32,
        owner: [u64; 4],
    ) -> Result<Record, Refused> {
        let record = self.prepare(id, order)?;
        let root = self.empty_root(record).map_err(|refused| self.abandon(record, refused))?;
        let limit = link::pages_of(order) << 12;
        self.publish(record, root, order, flags, limit, meta as u64, owner);
        Ok(record)
    }

    pub(crate) fn empty_root(&self, record: Record) -> Result<Frame, Refused> {
        let root = self.pages.take(0)?;
        self.memory.zero(root);
        self.save(Child { frame: root, kind: Kind::Page });
        self.pages.set_descriptor(root, State::root(record.id, 0).0);
        Ok(root)
    }

    /// Reserves record `id`.
    pub(crate) fn prepare(&self, id: u32, order: u8) -> Result<Record, Refused> {
        if order > 4 || id == 0 || id >= 1 << 24 {
            return Err(Refused::Invalid);
        }
        let directory = self.directory();
        let page = (id / RECORDS) as u64;
        while page >= link::pages_of(self.anchor(directory).order()) {
            self.grow(directory)?;
        }
        if self.find(id).is_none() {
            match self.fault(directory, page, Access::Write)? {
                Shown::Page => {}
                Shown::Zeros => return Err(Refused::Again),
            }
        }
        let record = self.find(id).ok_or(Refused::Again)?;
        let (free, new) = (Anchor::FREE.0, Anchor::NEW.0);
        let taken = self.memory.compare_exchange(record.at, free, new);
        taken.map(|()| record).map_err(|_| Refused::Exists)
    }

    /// Nothing comes of it. (That it was reserved means nothing after a power failure.)
    pub(crate) fn abandon(&self, record: Record, why: Refused) -> Refused {
        self.memory.store(record.at, Anchor::FREE.0);
        why
    }

    /// Stores a record that was prepared: from here on the object exists, also after a power failure.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn publish(
        &self,
        record: Record,
        root: Frame,
        order: u8,
        flags: u64,
        limit: u64,
        meta: u64,
        owner: [u64; 4],
    ) {
        let body =
            [limit, self.generation(record) + 1, meta, owner[0], owner[1], owner[2], owner[3]];
        for (n, value) in body.into_iter().enumerate() {
            self.memory.store(record.word(n + 1), value);
        }
        self.put(record.at, Anchor::live(root, order, flags).0);
        self.memory.fence();
    }
}
