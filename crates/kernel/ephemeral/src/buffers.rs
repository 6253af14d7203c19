//! Buffers: windows that show pages or are free to do so, found by page, the oldest free one first.

use crate::Cores;

/// Most pages of a run.
pub const RUN: usize = 16;

/// What a buffer shows.
pub(crate) trait Shown: Copy + Eq {
    fn number(&self) -> u64;
}

/// Pages that a buffer shows side by side.
#[derive(Clone, Copy, Debug)]
pub struct Run<P> {
    pages: [P; RUN],
    len: u8,
}

impl<P: Copy> Run<P> {
    /// `None` if they are none or too many.
    #[inline]
    pub fn new(pages: &[P]) -> Option<Run<P>> {
        let mut all = [*pages.first()?; RUN];
        all.get_mut(..pages.len())?.copy_from_slice(pages);
        Some(Run { pages: all, len: pages.len() as u8 })
    }
    /// Them.
    #[inline]
    pub fn pages(&self) -> &[P] {
        self.pages.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl<P: Copy + PartialEq> PartialEq for Run<P> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.pages() == other.pages()
    }
}
impl<P: Copy + Eq> Eq for Run<P> {}

/// No buffer.
const NONE: u32 = u32::MAX;

/// The mapping object of the paper, with its six fields (figure 1).
#[derive(Clone, Copy)]
pub(crate) struct Buffer<S> {
    /// Number of its first window; never changes.
    pub window: usize,
    /// What it shows. `None`: it has never shown anything.
    pub shown: Option<S>,
    /// Those who use it. It is on the inactive list if and only if there are none.
    pub users: u32,
    /// The next one in its chain of the hash table.
    chain: u32,
    /// Its neighbours on the inactive list, the older one first.
    inactive: [u32; 2],
    /// Cores that have no translation of its windows but the present one.
    pub cores: Cores,
}

/// `N` buffers.
pub(crate) struct Buffers<S, const N: usize> {
    all: [Buffer<S>; N],
    /// The first ones of the chains of the hash table.
    chains: [u32; N],
    oldest: u32,
    newest: u32,
}

const OLDER: usize = 0;
const NEWER: usize = 1;

impl<S: Copy + Eq, const N: usize> Buffers<S, N> {
    /// All are on the inactive list. Buffer `n` has window `first + n * step`, and those behind it up to
    /// the next one's.
    pub const fn new(first: usize, step: usize, cores: Cores) -> Self {
        let buffer =
            Buffer { window: 0, shown: None, users: 0, chain: NONE, inactive: [NONE; 2], cores };
        let mut all = [buffer; N];
        let mut n = 0;
        while n < N {
            all[n].window = first + n * step;
            all[n].inactive = [
                if n == 0 { NONE } else { n as u32 - 1 },
                if n + 1 == N { NONE } else { n as u32 + 1 },
            ];
            n += 1;
        }
        let (oldest, newest) = if N == 0 { (NONE, NONE) } else { (0, N as u32 - 1) };
        Buffers { all, chains: [NONE; N], oldest, newest }
    }

    #[inline(always)]
    pub fn get(&self, buffer: u32) -> &Buffer<S> {
        &self.all[buffer as usize]
    }
    #[inline(always)]
    pub fn get_mut(&mut self, buffer: u32) -> &mut Buffer<S> {
        &mut self.all[buffer as usize]
    }

    /// Takes a buffer from the inactive list.
    #[inline]
    pub fn unlist(&mut self, buffer: u32) {
        let [older, newer] = core::mem::replace(&mut self.get_mut(buffer).inactive, [NONE; 2]);
        match older {
            NONE => self.oldest = newer,
            older => self.get_mut(older).inactive[NEWER] = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.get_mut(newer).inactive[OLDER] = older,
        }
    }

    /// Puts it there, as the newest.
    #[inline]
    pub fn list(&mut self, buffer: u32) {
        let newest = core::mem::replace(&mut self.newest, buffer);
        self.get_mut(buffer).inactive = [newest, NONE];
        match newest {
            NONE => self.oldest = buffer,
            newest => self.get_mut(newest).inactive[NEWER] = buffer,
        }
    }

    /// Puts it there, as the oldest: it is the next one to be used.
    pub fn list_first(&mut self, buffer: u32) {
        let oldest = core::mem::replace(&mut self.oldest, buffer);
        self.get_mut(buffer).inactive = [NONE, oldest];
        match oldest {
            NONE => self.newest = buffer,
            oldest => self.get_mut(oldest).inactive[OLDER] = buffer,
        }
    }

    /// Takes the oldest one from it.
    #[inline]
    pub fn take_oldest(&mut self) -> Option<u32> {
        let oldest = Some(self.oldest).filter(|&oldest| oldest != NONE)?;
        self.unlist(oldest);
        Some(oldest)
    }

    /// Takes the newest one from it.
    pub fn take_newest(&mut self) -> Option<u32> {
        let newest = Some(self.newest).filter(|&newest| newest != NONE)?;
        self.unlist(newest);
        Some(newest)
    }

    /// Is the list as it should be?
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_list(&self) -> Result<(), Broken> {
        let mut listed = [false; N];
        let (mut at, mut older) = (self.oldest, NONE);
        while at != NONE {
            if core::mem::replace(&mut listed[at as usize], true)
                || self.get(at).inactive[OLDER] != older
            {
                return Err(Broken::List);
            }
            (older, at) = (at, self.get(at).inactive[NEWER]);
        }
        if self.newest != older {
            return Err(Broken::List);
        }
        if (0..N).any(|n| listed[n] != (self.all[n].users == 0)) {
            return Err(Broken::Inactive);
        }
        Ok(())
    }
}

/// The hash table.
impl<S: Shown, const N: usize> Buffers<S, N> {
    #[inline(always)]
    fn chain_of(number: u64) -> usize {
        // The golden ratio spreads numbers that differ in few bits; the product with the number of
        // chains is below it in the upper half.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((spread * N as u64) >> 32) as usize
    }

    /// The buffer that shows `shown`.
    #[inline]
    pub fn find(&self, shown: &S) -> Option<u32> {
        self.find_by(shown.number(), |other| other == shown)
    }

    /// A buffer that shows what has this number and is `meant`.
    #[inline]
    pub fn find_by(&self, number: u64, meant: impl Fn(&S) -> bool) -> Option<u32> {
        let mut at = *self.chains.get(Self::chain_of(number))?;
        while at != NONE {
            let buffer = self.get(at);
            if buffer.shown.as_ref().is_some_and(&meant) {
                return Some(at);
            }
            at = buffer.chain;
        }
        None
    }

    /// It is found from now on.
    #[inline]
    pub fn hash(&mut self, buffer: u32, shown: S) {
        let first = core::mem::replace(&mut self.chains[Self::chain_of(shown.number())], buffer);
        let this = self.get_mut(buffer);
        (this.shown, this.chain) = (Some(shown), first);
    }

    /// It is not found any more.
    #[inline]
    pub fn unhash(&mut self, buffer: u32) {
        let Some(shown) = self.get(buffer).shown else { return };
        let next = self.get(buffer).chain;
        let chain = Self::chain_of(shown.number());
        let mut at = self.chains[chain];
        if at == buffer {
            self.chains[chain] = next;
            return;
        }
        while at != NONE {
            if self.get(at).chain == buffer {
                self.get_mut(at).chain = next;
                return;
            }
            at = self.get(at).chain;
        }
    }

    /// Are the list and the table as they should be?
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Broken> {
        self.check_list()?;
        self.check_table()
    }

    fn check_table(&self) -> Result<(), Broken> {
        for (n, buffer) in self.all.iter().enumerate() {
            let found = buffer.shown.is_none_or(|shown| self.find(&shown) == Some(n as u32));
            if !found {
                return Err(Broken::Hash);
            }
        }
        let chained = |mut at: u32| {
            core::iter::from_fn(move || {
                let this = Some(at).filter(|&at| at != NONE)?;
                at = self.get(this).chain;
                Some(this)
            })
        };
        let in_table: usize =
            self.chains.iter().map(|&first| chained(first).take(N + 1).count()).sum();
        if in_table != self.all.iter().filter(|buffer| buffer.shown.is_some()).count() {
            return Err(Broken::Hash);
        }
        Ok(())
    }

    /// Those that show something: the first window, what, and whether somebody uses it.
    pub fn shown(&self) -> impl Iterator<Item = (usize, S, bool)> + '_ {
        self.all.iter().filter_map(|b| b.shown.map(|shown| (b.window, shown, b.users != 0)))
    }
}

/// What is wrong with buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The inactive list is no list.
    List,
    /// A buffer is on the inactive list and used, or neither.
    Inactive,
    /// What shows something is not found by that, or something else is.
    Hash,
}
