//! What pools and objects need of the machine.

use super::name::{self, allocator_word};
use crate::arch;
use crate::cores::{CoreId, PoolState, PoolUse, SharedPool, Standing, ThisCore};
use crate::object::mem::{self, PoolWord};
use ::morsel::{
    At, Cores, Domain, Frame, Memory, Morsels, Pages, Record, Refused, Reserved, LINES, WORDS,
};
use captypes::invocations::Counter;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use mdb::RawCap;
use paging::PAGE;
use pool::{Geometry, Locals, Owed, Pool, Size, Words};
use shootdown::{running, Forget};

/// What a core does while it waits for others, and for whoever executes vector instructions in the kernel.
pub trait Waiting {
    /// Does what others wait for.
    fn wait(&mut self);
    /// Does something that executes vector instructions.
    fn with_vectors(&self, work: impl FnOnce());
}

/// Clears entries that show pages of an object one by one: those of some runs, all of which are in a range.
pub type Unmap<'a> = &'a mut dyn FnMut(u64, Range<u64>, &mut dyn Iterator<Item = Range<u64>>);

/// A pool as a core sees it: where its words are.
#[derive(Clone, Copy)]
pub struct View {
    core: ThisCore,
    number: usize,
    base: u64,
    words: u64,
    /// Where the words of the pages are among them.
    descriptors: u64,
    geometry: Geometry,
    standing: Standing,
}

/// A pool as this core uses it in this event.
pub struct Machine<'a, W> {
    view: View,
    waiting: RefCell<&'a mut W>,
    /// Where capabilities are, how entries are cleared that show pages one by one; elsewhere nothing is
    /// taken away of what they show.
    unmap: RefCell<Option<Unmap<'a>>>,
    /// An entry that shows the object is hidden, and cached nowhere: if there is no other one, nothing is cached of its pages.
    is_hidden: Cell<bool>,
}

/// The objects of a pool, on this machine.
pub type Objects<'a, 'm, W> = Morsels<'a, Machine<'m, W>, Machine<'m, W>, Machine<'m, W>>;

/// Pool `number`, if it is used.
#[inline]
pub fn open_pool(core: ThisCore, number: usize) -> Option<&'static SharedPool> {
    core.cores.pools().get(number).filter(|pool| pool.state() == PoolState::Open)
}

/// Is this the core of the pool of a Morsel?
#[inline]
pub fn is_at_home(core: ThisCore, cap: &RawCap) -> bool {
    let pool = core.cores.pools().get(name::pool_of(name::object_of(cap)));
    pool.is_some_and(|pool| pool.home() == core.id)
}

/// Does something during which nobody takes pages away of what it finds by walks through the tables of programs. Where all that
/// takes pages away is done on this core, nobody does so anyway.
#[inline]
pub fn while_walking<R>(core: ThisCore, work: impl FnOnce() -> R) -> R {
    let is_needed = core.cores.pools().are_away();
    if is_needed {
        core.shared.pool_use.turn();
    }
    let done = work();
    if is_needed {
        core.shared.pool_use.turn();
    }
    done
}

/// Does something with the objects of a pool. `None` if there is no such number.
#[inline(always)]
pub fn with<'m, W: Waiting, R>(
    core: ThisCore,
    number: usize,
    waiting: &'m mut W,
    unmap: Option<Unmap<'m>>,
    work: impl FnOnce(&Objects<'_, 'm, W>) -> R,
) -> Option<R> {
    let shared = core.cores.pools().get(number)?;
    Some(with_shared(core, (number, shared), waiting, unmap, work))
}

/// The same with the pool that has this number.
#[inline(always)]
pub fn with_shared<'m, W: Waiting, R>(
    core: ThisCore,
    (number, shared): (usize, &'static SharedPool),
    waiting: &'m mut W,
    unmap: Option<Unmap<'m>>,
    work: impl FnOnce(&Objects<'_, 'm, W>) -> R,
) -> R {
    let machine = Machine::of(core, (number, shared), waiting, unmap);
    let level = |level| Frame(arch::table_of_zeros(level) >> 12);
    let objects = Morsels {
        memory: &machine,
        pages: &machine,
        cores: &machine,
        head: Frame((machine.view.words >> 12) - 1),
        zeros: [level(0), level(1), level(2), level(3)],
    };
    work(&objects)
}

/// The record at which this core has looked last, if it is this one, which is not the directory's.
#[inline(always)]
pub fn recent<W: Waiting>(objects: &Objects<'_, '_, W>, id: u32) -> Option<Record> {
    let View { core, number, base, .. } = objects.memory.view;
    let known = PoolUse::of(&core.shared.pool_use.recent, number).load(Relaxed);
    // While none is known, this is the number of the directory.
    let is_known = known & RECORD == u64::from(id);
    is_known.then(|| Record::in_line(id, Frame(base >> 12), known >> RECORD_BITS))
}

/// This core has looked at a record. (A pool in which its place has more bits than there are has more memory than there is.)
pub fn note<W: Waiting>(objects: &Objects<'_, '_, W>, record: Record) {
    let View { core, number, base, .. } = objects.memory.view;
    let known = record.line(Frame(base >> 12)) << RECORD_BITS | u64::from(record.id);
    PoolUse::of(&core.shared.pool_use.recent, number).store(known, Relaxed);
}

const RECORD_BITS: u32 = 24;
const RECORD: u64 = (1 << RECORD_BITS) - 1;

/// Returns when nobody looks at tables of a pool any more who had begun before.
pub fn settle<W: Waiting>(core: ThisCore, number: usize, waiting: &mut W) {
    with(core, number, waiting, None, |objects| objects.cores.grace());
}

impl<'a, W: Waiting> Machine<'a, W> {
    #[inline(always)]
    fn of(
        core: ThisCore,
        (number, shared): (usize, &SharedPool),
        waiting: &'a mut W,
        unmap: Option<Unmap<'a>>,
    ) -> Self {
        let view = View::of(core, number, shared);
        let (waiting, unmap) = (RefCell::new(waiting), RefCell::new(unmap));
        Machine { view, waiting, unmap, is_hidden: Cell::new(false) }
    }

    /// What is done here is done with an object of which an entry is hidden, and cached nowhere.
    pub fn set_hidden(&self) {
        self.is_hidden.set(true);
    }

    /// State and marks of the pool when this began.
    #[inline(always)]
    pub fn standing(&self) -> Standing {
        self.view.standing
    }

    /// The allocator.
    #[inline(always)]
    pub fn pool(&self) -> Pool<'_, View, View> {
        Pool { words: &self.view, locals: &self.view, geometry: self.view.geometry }
    }

    /// The number of a frame in the pool, if it is in it.
    #[inline]
    fn number_of(&self, frame: Frame) -> Option<usize> {
        let number = frame.0.wrapping_sub(self.view.base >> 12) as usize;
        (number < self.view.geometry.frames()).then_some(number)
    }

    #[inline]
    fn descriptor_word(&self, frame: Frame) -> Option<PoolWord> {
        let number = self.number_of(frame)?;
        Some(PoolWord::at(self.view.descriptors + 8 * number as u64))
    }

    /// Does something that executes vector instructions.
    #[inline]
    pub fn with_vectors(&self, work: impl FnOnce()) {
        self.waiting.borrow().with_vectors(work);
    }

    fn wait_until(&self, is_done: impl Fn() -> bool) {
        while !is_done() {
            self.waiting.borrow_mut().wait();
        }
    }
}

/// Others were faster. (It looks at the pool anew: so who is not that unlucky need not keep all of it in memory.)
#[cold]
#[inline(never)]
fn give_back(core: ThisCore, number: usize, owed: Owed) {
    if let Some(shared) = core.cores.pools().get(number) {
        let view = View::of(core, number, shared);
        let pool = Pool { words: &view, locals: &view, geometry: view.geometry };
        pool.give_back(core.id.index(), owed);
    }
}

fn size(order: u8) -> Size {
    match order {
        0 => Size::Page,
        _ => Size::Huge,
    }
}

/// Somebody else has changed a word: counted where it costs nobody anything who is alone.
#[cold]
fn lost(core: ThisCore, now: u64) -> u64 {
    core.add(Counter::ExchangesLost, 1);
    now
}

#[inline(always)]
fn word(at: At) -> PoolWord {
    PoolWord::at(at.frame.0 * PAGE + 8 * at.index as u64)
}

impl<W: Waiting> Memory for Machine<'_, W> {
    #[inline(always)]
    fn load(&self, at: At) -> u64 {
        word(at).cell().load(Acquire)
    }
    #[inline]
    fn store(&self, at: At, value: u64) {
        word(at).cell().store(value, Release);
    }
    #[inline(always)]
    fn compare_exchange(&self, at: At, old: u64, new: u64) -> Result<(), u64> {
        let exchanged = word(at).cell().compare_exchange(old, new, AcqRel, Acquire);
        exchanged.map(drop).map_err(|now| lost(self.view.core, now))
    }
    fn write_back(&self, frame: Frame, line: usize) {
        debug_assert!(line < LINES);
        word(At { frame, index: line * WORDS }).write_back();
    }
    fn fence(&self) {
        if self.view.standing.is_written_back() {
            arch::write_back_fence();
        }
    }
    #[inline(always)]
    fn zero(&self, frame: Frame) {
        self.waiting.borrow().with_vectors(|| mem::zero_page(frame.0 * PAGE));
    }
    fn zero_run(&self, first: Frame, count: usize) {
        let (base, bytes) = (first.0 * PAGE, count as u64 * PAGE);
        self.waiting.borrow().with_vectors(|| mem::zero(base, bytes));
    }
    fn copy(&self, from: Frame, to: Frame) {
        self.view.core.add(Counter::PageCopies, 1);
        self.waiting.borrow().with_vectors(|| mem::copy_page(to.0 * PAGE, from.0 * PAGE));
    }
    #[inline]
    fn domain(&self) -> Domain {
        match self.view.standing.is_written_back() {
            true => Domain::Memory,
            false => Domain::Caches,
        }
    }
}

impl View {
    #[inline(always)]
    fn of(core: ThisCore, number: usize, shared: &SharedPool) -> View {
        // They are words: that is known of all of them then.
        let (base, words) = (shared.base(), shared.words() & !7);
        let standing = shared.standing();
        let geometry = name::geometry(shared.frames(), standing);
        let descriptors = shared.descriptor(0);
        View { core, number, base, words, descriptors, geometry, standing }
    }

    #[inline(always)]
    fn word(&self, word: usize) -> PoolWord {
        PoolWord::at(allocator_word(self.words, word))
    }

    #[inline(always)]
    fn uses(&self, core: usize) -> &'static PoolUse {
        let shared = match core == self.core.id.index() {
            true => self.core.shared,
            false => self.core.cores.get(CoreId(core as u8)),
        };
        &shared.pool_use
    }

    #[inline(always)]
    fn reserved(&self, core: usize) -> &'static AtomicU64 {
        PoolUse::of(&self.uses(core).reserved, self.number)
    }
}

impl Words for View {
    #[inline(always)]
    fn load(&self, word: usize) -> u64 {
        self.word(word).cell().load(Acquire)
    }
    #[inline]
    fn store(&self, word: usize, value: u64) {
        self.word(word).cell().store(value, Release);
    }
    #[inline(always)]
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<(), u64> {
        let exchanged = self.word(word).cell().compare_exchange(old, new, AcqRel, Acquire);
        exchanged.map(drop).map_err(|now| lost(self.core, now))
    }
}

impl Locals for View {
    fn cores(&self) -> usize {
        self.core.cores.len()
    }
    #[inline(always)]
    fn load(&self, core: usize) -> u64 {
        self.reserved(core).load(Acquire)
    }
    #[inline(always)]
    fn compare_exchange(&self, core: usize, old: u64, new: u64) -> Result<(), u64> {
        let exchanged = self.reserved(core).compare_exchange(old, new, AcqRel, Acquire);
        exchanged.map(drop).map_err(|now| lost(self.core, now))
    }
    #[inline(always)]
    fn found_in(&self, core: usize) -> usize {
        PoolUse::of(&self.uses(core).found_in, self.number).load(Relaxed) as usize
    }
    fn set_found_in(&self, core: usize, group: usize) {
        PoolUse::of(&self.uses(core).found_in, self.number).store(group as u64, Relaxed);
    }
}

/// The descriptor of the page that names all others, once recovery has seen it.
const HEAD_SEEN: u64 = 1 << 61;

impl<W: Waiting> Pages for Machine<'_, W> {
    #[inline]
    fn take(&self, order: u8) -> Result<Frame, Refused> {
        let taken = self.pool().take(size(order), self.view.core.id.index());
        let taken = taken.map_err(|refused| match refused {
            pool::Refused::Busy => Refused::Again,
            _ => Refused::NoMemory,
        })?;
        Ok(Frame((self.view.base >> 12) + taken as u64))
    }
    #[inline(always)]
    fn take_next(&self) -> Option<Frame> {
        match self.pool().try_next(self.view.core.id.index()) {
            Ok(taken) => taken.map(|taken| Frame((self.view.base >> 12) + taken as u64)),
            Err(owed) => {
                give_back(self.view.core, self.view.number, owed);
                None
            }
        }
    }
    #[inline(always)]
    fn grows(&self) -> bool {
        self.view.geometry.is_apart()
    }
    fn take_run(&self, most: usize) -> Option<(Frame, usize)> {
        let (taken, count) = self.pool().take_run(self.view.core.id.index(), most)?;
        Some((Frame((self.view.base >> 12) + taken as u64), count))
    }
    fn give_run(&self, first: Frame, count: usize) {
        let Some(mut number) = self.number_of(first) else { return };
        let end = number + count;
        while number < end {
            // Of one word of bits.
            let next = end.min((number | 63) + 1);
            let given = self.pool().give_run(number, next - number, self.view.core.id.index());
            debug_assert_eq!(given, Ok(()), "frames that were taken come back");
            number = next;
        }
    }
    fn give(&self, frame: Frame, order: u8) {
        let given = self
            .number_of(frame)
            .map(|number| self.pool().give(number, size(order), self.view.core.id.index()));
        debug_assert_eq!(given, Some(Ok(())), "a frame that was taken comes back");
    }
    fn reserve(&self, frame: Frame, order: u8) -> Reserved {
        let Some(number) = self.number_of(frame) else { return Reserved::Outside };
        if number == 0 && order == 0 {
            let first = self.exchange_descriptor(frame, 0, HEAD_SEEN).is_ok();
            return if first { Reserved::First } else { Reserved::Before };
        }
        if number < self.view.geometry.own_frames()
            || number + (1 << order) > self.view.geometry.frames()
        {
            return Reserved::Outside;
        }
        match self.pool().take_at(number, size(order)) {
            true => Reserved::First,
            false => Reserved::Before,
        }
    }
    #[inline]
    fn descriptor(&self, frame: Frame) -> u64 {
        self.descriptor_word(frame).map_or(0, |word| word.cell().load(Acquire))
    }
    #[inline]
    fn set_descriptor(&self, frame: Frame, value: u64) {
        if let Some(word) = self.descriptor_word(frame) {
            word.cell().store(value, Release);
        }
    }
    #[inline]
    fn exchange_descriptor(&self, frame: Frame, old: u64, new: u64) -> Result<(), u64> {
        let word = self.descriptor_word(frame).ok_or(0u64)?;
        let exchanged = word.cell().compare_exchange(old, new, AcqRel, Acquire);
        exchanged.map(drop).map_err(|now| lost(self.view.core, now))
    }
    #[inline(always)]
    fn change_descriptor(&self, frame: Frame, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let word = self.descriptor_word(frame)?;
        let mut old = word.cell().load(Acquire);
        loop {
            match word.cell().compare_exchange(old, change(old)?, AcqRel, Acquire) {
                Ok(_) => return Some(old),
                Err(now) => old = lost(self.view.core, now),
            }
        }
    }
}

impl<W: Waiting> Cores for Machine<'_, W> {
    #[inline(always)]
    fn enter(&self) {
        self.view.core.shared.pool_use.turn();
    }
    #[inline(always)]
    fn leave(&self) {
        self.view.core.shared.pool_use.turn();
    }

    fn invalidate(&self, object: u32, pages: Range<u64>) {
        self.forget(object, pages.clone(), core::iter::once(pages));
    }

    fn invalidate_some(&self, object: u32, row: u64, pages: u64) {
        let end = u64::from(64 - pages.leading_zeros());
        let all = row + u64::from(pages.trailing_zeros()).min(end)..row + end;
        self.forget(object, all, ::morsel::runs(row, pages));
    }

    fn grace(&self) {
        for (id, shared) in self.view.core.cores.iter() {
            let walk = shared.pool_use.walk();
            if id != self.view.core.id && walk.is_some() {
                self.wait_until(|| shared.pool_use.walk() != walk);
            }
        }
    }
}

impl<W: Waiting> Machine<'_, W> {
    /// No core and no device uses translations of these pages of an object, all of which are in a range, when this returns.
    fn forget(&self, object: u32, all: Range<u64>, mut pages: impl Iterator<Item = Range<u64>>) {
        let object = name::object(self.view.number, object);
        let most = self.view.core.cores.pools().most_shown(object);
        if most == 0 || self.is_hidden.get() && most == 1 {
            return;
        }
        if let Some(unmap) = self.unmap.borrow_mut().as_mut() {
            unmap(object, all, &mut pages);
        }
        // Where an object is mapped only who mapped it knows.
        forget_everything(self.view.core, || self.waiting.borrow_mut().wait());
    }
}

/// No core and no device uses any translation any more that it had when this began. `wait`: does what others wait for.
pub fn forget_everything(core: ThisCore, wait: impl FnMut()) {
    core.flush_everything();
    let whom = running(core.id.index(), core.cores.len(), |number| core.port(number));
    core.make_forget(whom, Forget::ALL, wait);
}
