//! The mapping cache of a domain: its entries are changed by invocations, which may fail, and what it shows may be
//! taken away by others at any time.
//!
//! An invocation that takes a mapping away returns after all cores have forgotten it. So no translation is ever stale,
//! no core is ever told anything here, and a mapping for one core alone would cost the same: there are no flags.

use crate::{Action, Cache, Cores, Counters, Flags, Machine, Mapping, Windows};

/// Addresses at which a domain can map something, the windows, with numbers from 0 on.
pub trait Places {
    /// What can be shown in a window: some pages of a capability to memory.
    type Piece: Copy + Eq;
    /// Why it cannot.
    type Error;

    /// A number that differs for most pieces.
    fn number(piece: &Self::Piece) -> u64;

    /// May it be shown after use, to be found again? Not if it has no name for good.
    fn is_kept(piece: &Self::Piece) -> bool;

    /// Where window `window` is.
    fn address(&self, window: usize) -> usize;

    /// Lets window `window` show this, instead of what it shows, if anything.
    ///
    /// # Errors
    /// It shows nothing then.
    fn show(&mut self, window: usize, piece: &Self::Piece) -> Result<(), Self::Error>;

    /// Lets it show nothing, but it may have to show the same again.
    fn hide(&mut self, window: usize);

    /// Lets it show nothing, for good.
    fn forget(&mut self, window: usize);
}

/// Up to `N` windows of a domain.
pub struct Looks<P: Places, const N: usize> {
    cache: Cache<Invoked<P>, N, 0>,
}

/// A window that shows a piece, until it is [given back](Looks::end).
#[derive(Debug)]
#[must_use = "the window is in use until it is given back"]
pub struct Look<T>(Mapping<T>);

impl<T: Copy> Look<T> {
    /// Where the window is.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.0.address
    }
    /// What it shows.
    #[inline(always)]
    pub fn piece(&self) -> &T {
        &self.0.page
    }
}

/// Why there is no look at something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoLook<E> {
    /// All windows are in use.
    Busy,
    /// It cannot be shown.
    Refused(E),
}

impl<P: Places, const N: usize> Looks<P, N> {
    /// None is in use.
    pub const fn new(places: P) -> Self {
        let machine = Invoked { places, refused: None, taken_away: 0, is_uncached: false };
        Looks { cache: Cache::on(machine, Cores::one(0)) }
    }

    /// Uses only `windows` windows, at least one, from now on. Before any is used.
    pub fn limit(&mut self, windows: usize) {
        self.cache.withhold(N.saturating_sub(windows.max(1)));
    }

    /// From now on nothing is shown after use: what the cache is to be compared with.
    pub fn without_cache(&mut self) {
        self.cache.machine_mut().is_uncached = true;
    }

    /// Where the windows are.
    #[inline(always)]
    pub fn places(&self) -> &P {
        &self.cache.machine().places
    }

    /// Where the windows are, to be changed.
    #[inline(always)]
    pub fn places_mut(&mut self) -> &mut P {
        &mut self.cache.machine_mut().places
    }

    /// A look at a piece that has this number and is `meant`, if one was shown before.
    #[inline]
    pub fn find(
        &mut self,
        number: u64,
        meant: impl Fn(&P::Piece) -> bool,
    ) -> Option<Look<P::Piece>> {
        let mapping = self.cache.find(number, meant, Flags::default())?;
        self.show_again(mapping).ok()
    }

    /// A look at a piece.
    ///
    /// # Errors
    /// See [`NoLook`].
    pub fn look(&mut self, piece: P::Piece) -> Result<Look<P::Piece>, NoLook<P::Error>> {
        let hits = self.cache.counters().hits;
        let mapping = self.cache.claim(piece, Flags::default()).ok_or(NoLook::Busy)?;
        if self.cache.counters().hits != hits {
            return self.show_again(mapping).map_err(NoLook::Refused);
        }
        match self.cache.machine_mut().refused.take() {
            None => Ok(Look(mapping)),
            Some(error) => {
                self.withdraw(&mapping);
                Err(NoLook::Refused(error))
            }
        }
    }

    /// What was found is there, but where nothing is shown after use.
    #[inline]
    fn show_again(&mut self, mapping: Mapping<P::Piece>) -> Result<Look<P::Piece>, P::Error> {
        if self.cache.machine().is_uncached && self.cache.users(&mapping) == 1 {
            let window = self.window(&mapping);
            if let Err(error) = self.places_mut().show(window, &mapping.page) {
                self.withdraw(&mapping);
                return Err(error);
            }
        }
        Ok(Look(mapping))
    }

    /// What could not be shown is not found.
    #[cold]
    fn withdraw(&mut self, mapping: &Mapping<P::Piece>) {
        self.cache.release(mapping);
        self.cache.forget_mapping(mapping);
    }

    fn window(&self, mapping: &Mapping<P::Piece>) -> usize {
        self.cache.window(mapping)
    }

    /// Ends a look.
    #[inline]
    pub fn end(&mut self, look: Look<P::Piece>) {
        let Look(mapping) = look;
        if self.cache.release(&mapping) {
            self.ended(&mapping);
        }
    }

    /// Nobody uses the window of this mapping any more.
    #[inline]
    fn ended(&mut self, mapping: &Mapping<P::Piece>) {
        let is_uncached = self.cache.machine().is_uncached;
        self.cache.machine_mut().taken_away += u64::from(is_uncached);
        if self.cache.clear_forgotten(mapping) {
            return;
        }
        if !P::is_kept(&mapping.page) {
            self.cache.forget_mapping(mapping);
        } else if is_uncached {
            let window = self.window(mapping);
            self.places_mut().hide(window);
        }
    }

    /// Pieces that are `gone` are not found any more, and what shows them does not show them after use.
    pub fn forget(&mut self, gone: impl Fn(&P::Piece) -> bool) {
        self.cache.forget(gone);
    }

    /// What was done so far. *Local* invalidations are mappings that were taken away, each of which the kernel has this
    /// core, and others that have the address space loaded, forget if it was accessed; nobody here knows of which that was
    /// so.
    pub fn counters(&self) -> Counters {
        let Counters { hits, misses, .. } = self.cache.counters();
        let local = self.cache.machine().taken_away;
        match self.cache.machine().is_uncached {
            true => Counters { hits: 0, misses: hits + misses, local, remote: 0 },
            false => Counters { hits, misses, local, remote: 0 },
        }
    }

    /// Is everything as it should be?
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), crate::Broken> {
        self.cache.check()
    }
}

/// The machine that a cache in a domain sees.
struct Invoked<P: Places> {
    places: P,
    /// Why the last piece could not be shown.
    refused: Option<P::Error>,
    /// How often something was not shown any more.
    taken_away: u64,
    /// No window shows anything after use: that is when it is counted.
    is_uncached: bool,
}

impl<P: Places> Machine for Invoked<P> {
    type Page = P::Piece;

    #[inline(always)]
    fn number(piece: &P::Piece) -> u64 {
        P::number(piece)
    }
    #[inline(always)]
    fn address(&self, window: usize) -> usize {
        self.places.address(window)
    }
    /// Whatever was accessed is forgotten when this returns.
    #[inline]
    fn point(&mut self, first: usize, pieces: &[P::Piece]) -> bool {
        self.refused = pieces.first().and_then(|piece| self.places.show(first, piece).err());
        false
    }
    fn clear(&mut self, first: usize, _: usize) {
        self.places.forget(first);
        self.taken_away += u64::from(!self.is_uncached);
    }
    fn invalidate_here(&mut self, _: usize, _: usize) {}
    fn invalidate_on(&mut self, _: Cores, _: usize, _: usize) {}
    #[inline(always)]
    fn here(&self) -> u32 {
        0
    }
    #[inline(always)]
    fn cores(&self) -> Cores {
        Cores::one(0)
    }
    #[inline(always)]
    fn note(&mut self, action: Action) {
        self.taken_away += u64::from(action == Action::Unhash && !self.is_uncached);
    }
}
