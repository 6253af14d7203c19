//! Direct map and mapping cache together, where the processor's caches are indexed by virtual addresses
//! (SFB §4.4): two addresses of one page must have the same *colour*, or its lines are in two places of the cache.

use crate::buffers::{Broken, Buffers};
use crate::cache::{claim, release, Single};
use crate::{AllocError, Counters, DirectMap, Flags, Holder, Machine, Mapping, Windows};

/// A machine whose addresses have colours: that of window `n` is `n` modulo their number.
pub trait Colours: Machine + DirectMap<Page = <Self as Machine>::Page> {
    /// The colour of the addresses at which programs have mapped the page; `None` if none has.
    fn colour_of_page(&self, page: <Self as Machine>::Page) -> Option<usize>;
    /// The colour of an address.
    fn colour_of_address(&self, address: usize) -> usize;
}

/// See the head of this file. `N` windows of each of `COLOURS` colours.
pub struct Coloured<M: Machine, const N: usize, const COLOURS: usize> {
    machine: M,
    buffers: [Buffers<Single<M>, N>; COLOURS],
    counters: Counters,
}

impl<M: Colours, const N: usize, const COLOURS: usize> Coloured<M, N, COLOURS> {
    /// Windows that it takes.
    pub const WINDOWS: usize = N * COLOURS;

    /// None is in use.
    pub fn new(machine: M) -> Self {
        let cores = machine.cores();
        let buffers = core::array::from_fn(|colour| Buffers::new(colour, COLOURS, cores));
        Coloured { buffers, counters: Counters::default(), machine }
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Is everything as it should be?
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Broken> {
        self.buffers.iter().try_for_each(Buffers::check)
    }

    /// May the page be seen at this address?
    fn fits(&self, page: <M as Machine>::Page, address: usize) -> bool {
        let colour = self.machine.colour_of_page(page);
        colour.is_none_or(|colour| colour == self.machine.colour_of_address(address))
    }
}

impl<M: Colours, const N: usize, const COLOURS: usize> Windows for Coloured<M, N, COLOURS> {
    type Page = <M as Machine>::Page;

    fn claim(&mut self, page: Self::Page, flags: Flags) -> Option<Mapping<Self::Page>> {
        let direct = <M as DirectMap>::address(page);
        let colour = self.machine.colour_of_page(page);
        let Some(colour) = colour.filter(|_| !self.fits(page, direct)) else {
            return Some(Mapping { address: direct, page, holder: Holder::Nobody });
        };
        let Coloured { machine, buffers, counters } = self;
        let buffers = buffers.get_mut(colour)?;
        let buffer = claim(machine, buffers, counters, Single(page), flags)?;
        let address = Machine::address(machine, buffers.get(buffer).window);
        let holder = Holder::Single(buffer * COLOURS as u32 + colour as u32);
        Some(Mapping { address, page, holder })
    }

    /// Only in the direct map: pages that lie there side by side and all have its colour.
    fn claim_run(
        &mut self,
        pages: &[Self::Page],
        _: Flags,
    ) -> Result<Mapping<Self::Page>, AllocError> {
        let fits = |&page: &_| self.fits(page, <M as DirectMap>::address(page));
        let mut pairs = pages.iter().zip(pages.iter().skip(1));
        let is_run = pairs.all(|(&a, &b)| M::are_neighbours(a, b));
        match pages.first() {
            Some(&page) if pages.len() <= crate::RUN && is_run && pages.iter().all(fits) => {
                let address = <M as DirectMap>::address(page);
                Ok(Mapping { address, page, holder: Holder::Nobody })
            }
            _ => Err(AllocError::Scattered),
        }
    }

    fn release(&mut self, mapping: &Mapping<Self::Page>) -> bool {
        let Holder::Single(number) = mapping.holder else { return false };
        let colours = COLOURS as u32;
        let buffers = self.buffers.get_mut((number % colours) as usize);
        buffers.is_some_and(|buffers| release(buffers, number / colours))
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
