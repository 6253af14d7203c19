//! What the cores share of pools: which there are, and who may be looking at their tables.

use super::CoreId;
use ::pool::Geometry;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use paging::PAGE;

/// Most pools of a machine: their numbers are four bits of the addresses of capabilities.
pub const MOST_POOLS: usize = captypes::MOST_POOLS as usize;

/// Entries that show morsels are counted in so many places, by a hash of the object.
const PLACES: usize = 64;

/// What became of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum State {
    /// There is none.
    None = 0,
    /// It is being formatted or recovered.
    Forming = 1,
    /// It is used.
    Open = 2,
    /// Its objects' capabilities are being deleted.
    Closing = 3,
    /// It has no pages yet: they are to come and go.
    Empty = 4,
}

/// A pool. The words change on the core of its capability, or on that which has claimed it, and are read by all. (Aligned, so that it
/// is found by a shift.)
#[repr(align(128))]
pub struct SharedPool {
    /// Physical address of its first page, or of the range in which pages come and go.
    base: AtomicU64,
    /// How many there are from there on.
    frames: AtomicU64,
    /// Physical address of the allocator's words, behind the page that names all others.
    words: AtomicU64,
    /// That of the word of the first page.
    descriptors: AtomicU64,
    /// [`State`], in bit 8 whether only what was written back survives, and in bit 9 whether its pages come and go.
    state: AtomicU64,
    /// Of one whose pages come and go.
    pub growth: Growth,
    /// Where a free record is looked for next.
    pub cursor: AtomicU32,
    /// How many pages of records were looked at in vain since one was found.
    pub searched: AtomicU32,
    /// A record that is being given back because another was committed; 0 for none.
    pub reaping: AtomicU32,
    /// The object of which pages behind its limit were taken away last, in the bits from [`PAGE_BITS`] on, and how far.
    trimmed: AtomicU64,
    /// Who creates, opens and ends objects of it.
    pub changes: Changes,
    /// Which cores know its objects.
    pub reach: Reach,
}

/// In [`SharedPool::trimmed`]: no object has more pages.
const PAGE_BITS: u32 = 40;

/// What one core at a time may do, in one event. Nobody waits for it: who comes second does it later.
pub struct Claim(AtomicU8);

impl Claim {
    const fn new() -> Claim {
        Claim(AtomicU8::new(0))
    }

    /// Returns `false` if another core does it.
    pub fn take(&self, core: CoreId) -> bool {
        self.0.compare_exchange(0, core.0 + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Others may do it again.
    pub fn give_back(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Does some core do it now?
    pub fn is_taken(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}

/// Who creates, opens and ends objects of a pool.
pub struct Changes {
    /// In this event.
    claim: Claim,
    /// The object of which the core of the pool has said last that it has nothing of it, if it was not opened since; 0 for none.
    vacant: AtomicU32,
}

impl Changes {
    /// From now on core `id` alone creates, opens and ends objects, until [`unclaim`](Self::unclaim) in the same event. `false` if
    /// another core does.
    pub fn claim(&self, id: CoreId) -> bool {
        self.claim.take(id)
    }

    /// Others may do so again.
    pub fn unclaim(&self) {
        self.claim.give_back();
    }

    /// The core of the pool has nothing of an object, which another core is to destroy.
    pub fn set_vacant(&self, record: u32) {
        self.vacant.store(record, Ordering::SeqCst);
    }

    /// It opens one. Only who has claimed the pool does.
    pub fn occupy(&self) {
        self.vacant.store(0, Ordering::SeqCst);
    }

    /// Returns `true` if it has opened nothing since it had nothing of this object. Only who has claimed the pool asks, and
    /// once.
    pub fn take_vacant(&self, record: u32) -> bool {
        self.vacant.swap(0, Ordering::SeqCst) == record
    }
}

/// Which cores know objects of a pool.
pub struct Reach {
    /// The core of its capability.
    home: AtomicU8,
    /// Of which objects something was sent to another core, or made there: a bit for each of [`PLACES`], by a hash.
    away: AtomicU64,
    /// The other cores that have made objects, of which no monitor has heard.
    makers: AtomicU64,
    /// Programs may [take pages of some object away](crate::operations::hiding) wherever they are.
    is_open: AtomicBool,
}

impl Reach {
    /// Something of an object goes to another core. (What was sent is never counted: it may have been sent on.)
    fn note(&self, record: u32) {
        self.away.fetch_or(1 << (record as usize % PLACES), Ordering::SeqCst);
    }

    /// Core `id` makes an object, of which its monitor need not hear.
    pub fn note_maker(&self, id: CoreId, record: u32) {
        self.makers.fetch_or(id.bit(), Ordering::SeqCst);
        self.note(record);
    }

    /// The other cores that may have objects of which no monitor has heard.
    pub fn makers(&self) -> u64 {
        self.makers.load(Ordering::SeqCst)
    }

    /// Returns `false` if nothing of an object was ever sent.
    pub fn may_be_away(&self, record: u32) -> bool {
        self.away.load(Ordering::SeqCst) & 1 << (record as usize % PLACES) != 0
    }

    /// Returns `true` if something of some object was sent.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::SeqCst) != 0
    }

    /// Returns `true` if other cores may take pages of objects away.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.is_away() || self.is_open.load(Ordering::SeqCst)
    }

    /// No other core has anything of its objects any more.
    pub fn clear(&self) {
        self.away.store(0, Ordering::SeqCst);
        self.makers.store(0, Ordering::SeqCst);
        self.is_open.store(false, Ordering::SeqCst);
    }
}

/// What a pool has whose pages come and go; used on the core of its capability.
pub struct Growth {
    /// Pages that are there.
    present: AtomicU64,
    /// Where those that are free are looked for next.
    pub cursor: AtomicU64,
    /// And how many were looked at in vain.
    pub searched: AtomicU64,
}

impl Growth {
    const fn new() -> Growth {
        Growth {
            present: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            searched: AtomicU64::new(0),
        }
    }

    fn begin(&self) {
        for word in [&self.present, &self.cursor, &self.searched] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// How many pages are there.
    pub fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// So many have come, or gone.
    pub fn set_present(&self, pages: u64) {
        self.present.store(pages, Ordering::Relaxed);
    }
}

const WRITTEN_BACK: u64 = 1 << 8;
const APART: u64 = 1 << 9;

/// State and marks of a pool, as they were at one time.
#[derive(Clone, Copy)]
pub struct Standing(u64);

impl Standing {
    /// What became of it.
    #[inline]
    pub fn state(self) -> State {
        match self.0 & !(WRITTEN_BACK | APART) {
            1 => State::Forming,
            2 => State::Open,
            3 => State::Closing,
            4 => State::Empty,
            _ => State::None,
        }
    }

    /// Is it used?
    #[inline(always)]
    pub fn is_open(self) -> bool {
        self.0 & !(WRITTEN_BACK | APART) == State::Open as u64
    }

    /// Do its pages come and go?
    #[inline(always)]
    pub fn is_apart(self) -> bool {
        self.0 & APART != 0
    }

    /// Returns `true` if only what was written back survives when the power fails.
    #[inline(always)]
    pub fn is_written_back(self) -> bool {
        self.0 & WRITTEN_BACK != 0
    }
}

/// The memory of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Physical address of the page that names all others; behind it are the allocator's words.
    pub head: u64,
    /// As [`SharedPool::base`].
    pub base: u64,
    /// As [`SharedPool::frames`].
    pub frames: u64,
    /// Do its pages come and go?
    pub is_apart: bool,
}

impl SharedPool {
    const fn new() -> SharedPool {
        SharedPool {
            base: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            words: AtomicU64::new(0),
            descriptors: AtomicU64::new(0),
            growth: Growth::new(),
            state: AtomicU64::new(0),
            cursor: AtomicU32::new(0),
            searched: AtomicU32::new(0),
            reaping: AtomicU32::new(0),
            trimmed: AtomicU64::new(0),
            changes: Changes { claim: Claim::new(), vacant: AtomicU32::new(0) },
            reach: Reach {
                home: AtomicU8::new(0),
                away: AtomicU64::new(0),
                makers: AtomicU64::new(0),
                is_open: AtomicBool::new(false),
            },
        }
    }

    /// The core of its capability.
    #[inline]
    pub fn home(&self) -> CoreId {
        CoreId(self.reach.home.load(Ordering::Relaxed))
    }

    /// Physical address of its first page, or of the range in which pages come and go.
    #[inline]
    pub fn base(&self) -> u64 {
        self.base.load(Ordering::Relaxed)
    }

    /// How many pages it has, or may have.
    #[inline]
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Physical address of the allocator's words.
    #[inline]
    pub fn words(&self) -> u64 {
        self.words.load(Ordering::Relaxed)
    }

    /// That of the word of a page, for whoever has taken it.
    #[inline]
    pub fn descriptor(&self, page: u64) -> u64 {
        self.descriptors.load(Ordering::Relaxed) + 8 * page
    }

    /// That of the page that names all others, and of its capability.
    #[inline]
    pub fn head(&self) -> u64 {
        self.words().wrapping_sub(PAGE)
    }

    /// Is this its memory?
    pub fn has_extent(&self, extent: Extent) -> bool {
        let own = (self.head(), self.base(), self.frames(), self.is_apart());
        own == (extent.head, extent.base, extent.frames, extent.is_apart)
    }

    /// Its state and marks.
    #[inline(always)]
    pub fn standing(&self) -> Standing {
        Standing(self.state.load(Ordering::Acquire))
    }

    /// Do its pages come and go?
    #[inline]
    pub fn is_apart(&self) -> bool {
        self.standing().is_apart()
    }

    /// What became of it.
    #[inline]
    pub fn state(&self) -> State {
        self.standing().state()
    }

    /// How far pages of an object were taken away behind its limit; 0 if it was not that one last.
    pub fn trimmed(&self, record: u32) -> u64 {
        let last = self.trimmed.load(Ordering::Relaxed);
        match last >> PAGE_BITS == u64::from(record) {
            true => last & ((1 << PAGE_BITS) - 1),
            false => 0,
        }
    }

    /// They were taken away up to that page.
    pub fn set_trimmed(&self, record: u32, page: u64) {
        self.trimmed.store(u64::from(record) << PAGE_BITS | page, Ordering::Relaxed);
    }

    /// Changes its state.
    pub fn set_state(&self, state: State) {
        let kept = match state {
            State::None => 0,
            _ => self.state.load(Ordering::Relaxed) & (WRITTEN_BACK | APART),
        };
        self.state.store(state as u64 | kept, Ordering::SeqCst);
    }

    /// Makes it the pool of this memory, which is being formed.
    pub fn begin(&self, home: CoreId, extent: Extent, written_back: bool) {
        self.reach.home.store(home.0, Ordering::Relaxed);
        self.reach.clear();
        self.base.store(extent.base, Ordering::Relaxed);
        self.frames.store(extent.frames, Ordering::Relaxed);
        self.words.store(extent.head + PAGE, Ordering::Relaxed);
        let geometry = Geometry::known(extent.frames as usize, 0, extent.is_apart);
        let descriptors = extent.head + PAGE + 8 * geometry.descriptor(0) as u64;
        self.descriptors.store(descriptors, Ordering::Relaxed);
        self.growth.begin();
        self.cursor.store(0, Ordering::Relaxed);
        self.searched.store(0, Ordering::Relaxed);
        self.reaping.store(0, Ordering::Relaxed);
        let mark = if written_back { WRITTEN_BACK } else { 0 };
        let apart = if extent.is_apart { APART } else { 0 };
        self.state.store(State::Forming as u64 | mark | apart, Ordering::SeqCst);
    }

    /// Returns `true` if the byte at `pa` is its. Of one whose pages come and go `has_got` is asked: ranges of such pools overlap.
    #[inline(always)]
    fn has(&self, pa: u64, has_got: impl Fn(&SharedPool, u64) -> bool) -> bool {
        let inside = pa.wrapping_sub(self.base()) < self.frames() << 12;
        inside && {
            let state = self.state.load(Ordering::Acquire) & !WRITTEN_BACK;
            // One with all of its pages, or one that has these.
            state.wrapping_sub(1) < State::Closing as u64 || state & APART != 0 && has_got(self, pa)
        }
    }
}

/// All pools; used of the first core.
pub struct Pools {
    /// Of these, the first [`MOST_POOLS`] may be used.
    pools: [SharedPool; PLACES_OF_POOLS],
    /// Entries of page tables that show morsels.
    shown: AtomicU64,
    /// The same, by object.
    places: [AtomicU32; PLACES],
    /// Something of some object was sent to another core, since there are pools. (Whoever copies asks this first.)
    were_away: AtomicBool,
    /// Who takes pages of an object away in this event, by object.
    taking: [Claim; PLACES],
}

impl Pools {
    pub(super) const fn new() -> Pools {
        Pools {
            pools: [const { SharedPool::new() }; PLACES_OF_POOLS],
            shown: AtomicU64::new(0),
            places: [const { AtomicU32::new(0) }; PLACES],
            were_away: AtomicBool::new(false),
            taking: [const { Claim::new() }; PLACES],
        }
    }

    fn usable(&self) -> &[SharedPool; MOST_POOLS] {
        let (usable, _) = self.pools.split_first_chunk().expect("there are as many");
        usable
    }

    /// All numbers, used or not.
    pub fn all(&self) -> impl Iterator<Item = (usize, &SharedPool)> {
        self.usable().iter().enumerate()
    }

    /// The pool with this number.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&SharedPool> {
        self.usable().get(number)
    }

    /// The pool with the last bits of this number.
    #[inline(always)]
    pub fn numbered(&self, number: usize) -> &SharedPool {
        &self.pools[number % PLACES_OF_POOLS]
    }

    /// The one to which the byte at `pa` belongs, with its number; `has_got` says whether a pool whose pages come and go has it.
    #[inline(always)]
    pub fn around(
        &self,
        pa: u64,
        has_got: impl Fn(&SharedPool, u64) -> bool,
    ) -> Option<(usize, &SharedPool)> {
        self.usable().iter().enumerate().find(|(_, pool)| pool.has(pa, &has_got))
    }

    /// The one of the capability to the memory that begins at `pa`.
    pub fn headed(&self, pa: u64) -> Option<(usize, &SharedPool)> {
        let mut pools = self.usable().iter().enumerate();
        pools.find(|(_, pool)| pool.head() == pa && pool.state() != State::None)
    }

    /// A number that is free.
    pub fn free(&self) -> Option<(usize, &SharedPool)> {
        self.usable().iter().enumerate().find(|(_, pool)| pool.state() == State::None)
    }

    /// Returns `true` if other cores may take pages of some object away.
    #[inline]
    pub fn are_away(&self) -> bool {
        self.were_away.load(Ordering::SeqCst)
            && self.usable().iter().any(|pool| pool.reach.is_shared())
    }

    /// Something of an object goes to another core. `None`: programs may take pages of objects of the pool away wherever they are. Returns whether all of
    /// the pool was with its core so far: then others may be doing something, still, that counts on it.
    pub fn note_away(&self, number: usize, record: Option<u32>) -> bool {
        let Some(pool) = self.usable().get(number) else { return false };
        let is_first = !pool.reach.is_shared();
        match record {
            Some(record) => pool.reach.note(record),
            None => pool.reach.is_open.store(true, Ordering::SeqCst),
        }
        self.were_away.store(true, Ordering::SeqCst);
        is_first
    }

    /// Returns `true` if an entry of any page table shows a morsel.
    #[inline]
    pub fn are_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed) != 0
    }

    /// How many entries show an object, at most.
    #[inline]
    pub fn most_shown(&self, object: u64) -> u32 {
        self.place(object).load(Ordering::SeqCst)
    }

    /// An entry is going to show an object.
    pub fn shows(&self, object: u64) {
        self.place(object).fetch_add(1, Ordering::SeqCst);
        self.shown.fetch_add(1, Ordering::SeqCst);
    }

    /// It does so no more, and nobody has cached it.
    pub fn shows_no_more(&self, object: u64) {
        self.place(object).fetch_sub(1, Ordering::SeqCst);
        self.shown.fetch_sub(1, Ordering::SeqCst);
    }

    fn place(&self, object: u64) -> &AtomicU32 {
        &self.places[object as usize % PLACES]
    }

    /// Who takes pages of an object away, perhaps, or of another one: nobody else then does so, or shows single pages of it.
    pub fn taking(&self, object: u64) -> &Claim {
        &self.taking[object as usize % PLACES]
    }
}

/// What a core does with pools.
pub struct PoolUse {
    /// Odd while it walks through tables of a pool.
    walk: AtomicU64,
    /// What it has reserved of each.
    pub reserved: [AtomicU64; PLACES_OF_POOLS],
    /// In which group of 64 pages of each it has found one last.
    pub found_in: [AtomicU64; PLACES_OF_POOLS],
    /// Of each, the record at which it has looked last: its number, and in the bits from 24 on where it is.
    pub recent: [AtomicU64; PLACES_OF_POOLS],
    /// Its entries that show single pages of objects, by object.
    single: [AtomicU32; PLACES],
    /// Cores that want it to remove such entries.
    asked_by: AtomicU64,
    /// What it wants of others.
    pub wanted: Wanted,
}

/// Which entries that show single pages a core wants others to remove.
pub struct Wanted {
    object: AtomicU64,
    first: AtomicU64,
    end: AtomicU64,
    /// Who has not answered, and who is to be asked again.
    waiting: AtomicU64,
    unfinished: AtomicU64,
}

impl Wanted {
    const fn new() -> Wanted {
        Wanted {
            object: AtomicU64::new(0),
            first: AtomicU64::new(0),
            end: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
        }
    }

    /// It wants this of the cores `whom`, which are to be [asked](PoolUse::ask).
    pub fn begin(&self, object: u64, pages: Range<u64>, whom: u64) {
        self.object.store(object, Ordering::Relaxed);
        self.first.store(pages.start, Ordering::Relaxed);
        self.end.store(pages.end, Ordering::Relaxed);
        self.unfinished.store(0, Ordering::Relaxed);
        self.waiting.store(whom, Ordering::SeqCst);
    }

    /// What it wants: an object, and pages of it.
    pub fn what(&self) -> (u64, Range<u64>) {
        let pages = self.first.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        (self.object.load(Ordering::Relaxed), pages)
    }

    /// Core `id` has removed what there was, or a part of it.
    pub fn answer(&self, id: CoreId, is_all: bool) {
        if !is_all {
            self.unfinished.fetch_or(id.bit(), Ordering::SeqCst);
        }
        self.waiting.fetch_and(!id.bit(), Ordering::SeqCst);
    }

    /// Have all answered?
    pub fn is_answered(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Have all removed all?
    pub fn is_done(&self) -> bool {
        self.unfinished.load(Ordering::SeqCst) == 0
    }
}

/// A power of two, so that every number is below it somehow.
const PLACES_OF_POOLS: usize = (MOST_POOLS + 1).next_power_of_two();

impl PoolUse {
    pub(super) const fn new() -> PoolUse {
        PoolUse {
            walk: AtomicU64::new(0),
            reserved: [const { AtomicU64::new(0) }; PLACES_OF_POOLS],
            found_in: [const { AtomicU64::new(0) }; PLACES_OF_POOLS],
            recent: [const { AtomicU64::new(0) }; PLACES_OF_POOLS],
            single: [const { AtomicU32::new(0) }; PLACES],
            asked_by: AtomicU64::new(0),
            wanted: Wanted::new(),
        }
    }

    /// One more entry, or Mapping, of this core is going to show single pages of an object.
    pub fn shows_single(&self, object: u64) {
        self.single[object as usize % PLACES].fetch_add(1, Ordering::SeqCst);
    }

    /// It does so no more.
    pub fn shows_single_no_more(&self, object: u64) {
        self.single[object as usize % PLACES].fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns `false` if no entry of this core shows single pages of an object.
    pub fn may_show_single(&self, object: u64) -> bool {
        self.single[object as usize % PLACES].load(Ordering::SeqCst) != 0
    }

    /// Core `id` wants something of this one.
    pub fn ask(&self, id: CoreId) {
        self.asked_by.fetch_or(id.bit(), Ordering::SeqCst);
    }

    /// The cores that want something of this one, and are going to be answered.
    #[inline]
    pub fn take_asked(&self) -> u64 {
        match self.asked_by.load(Ordering::SeqCst) {
            0 => 0,
            _ => self.asked_by.swap(0, Ordering::SeqCst),
        }
    }

    /// The word of a pool.
    #[inline(always)]
    pub fn of(words: &[AtomicU64; PLACES_OF_POOLS], number: usize) -> &AtomicU64 {
        &words[number % PLACES_OF_POOLS]
    }

    /// It knows nothing of a pool.
    pub fn forget(&self, number: usize) {
        PoolUse::of(&self.reserved, number).store(0, Ordering::SeqCst);
        PoolUse::of(&self.recent, number).store(0, Ordering::SeqCst);
    }

    /// It knows no record of a pool.
    pub fn forget_record(&self, number: usize) {
        PoolUse::of(&self.recent, number).store(0, Ordering::SeqCst);
    }

    /// The core begins to walk, or ends. Whoever looks afterwards sees it before anything that it reads then.
    #[inline]
    pub fn turn(&self) {
        self.walk.fetch_add(1, Ordering::SeqCst);
    }

    /// The walk that is under way.
    pub fn walk(&self) -> Option<u64> {
        Some(self.walk.load(Ordering::SeqCst)).filter(|walk| walk & 1 != 0)
    }
}
