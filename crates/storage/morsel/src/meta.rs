//! Meta morsels: a page that says where another object is to be mapped, so that pointers in it stay valid.
//!
//! ```text
//! meta record ──► page: what it is · data: id, generation · address · checksum
//!                                      │
//!                   data record ◄──────┘     owned: without the meta morsel it is nothing
//! ```
//!
//! Created: the data, the page, the meta record: its anchor creates both. Destroyed: the meta record dies, then
//! the data, then the page. The page is never written again.

use crate::memory::{At, Cores, Look, Memory, Pages};
use crate::record::{Record, OTHER};
use crate::{Anchor, Morsels, Refused};

const IDENTITY: u64 = 0x3130_6174_656d_6f6d;

/// What a meta morsel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Described {
    /// The record of the data.
    pub data: Record,
    /// Where it is to be mapped.
    pub address: u64,
}

impl<M: Memory, P: Pages, C: Cores> Morsels<'_, M, P, C> {
    /// Creates an object `data` of `order` that belongs at `address`, and the meta morsel `id` that says so.
    ///
    /// # Errors
    /// Those of [`create`](Self::create); [`Refused::Invalid`] if the address is not aligned to the size.
    pub fn create_meta(
        &self,
        id: u32,
        data: u32,
        order: u8,
        address: u64,
    ) -> Result<Record, Refused> {
        if order > 4 || address & ((crate::pages_of(order) << 12) - 1) != 0 {
            return Err(Refused::Invalid);
        }
        let meta = self.prepare(id, 0)?;
        let result = self.create_pair(meta, data, order, address);
        result.map_err(|refused| self.abandon(meta, refused)).map(|()| meta)
    }

    fn create_pair(&self, meta: Record, data: u32, order: u8, address: u64) -> Result<(), Refused> {
        let page = self.empty_root(meta)?;
        let data =
            self.create_of(data, order, Anchor::OWNED, meta.id, [0; 4]).inspect_err(|_| {
                self.give(crate::Child { frame: page, kind: crate::Kind::Page });
            })?;
        let named = data.id as u64 | self.generation(data) << 32;
        for (n, word) in sealed([IDENTITY, named, address]).into_iter().enumerate() {
            self.memory.store(At::new(page, n), word);
        }
        self.write_back_frame(page);
        self.memory.fence();
        self.publish(meta, page, 0, Anchor::META, 4096, 0, [0; 4]);
        Ok(())
    }

    /// Destroys a part of what a dying meta morsel describes; `true` when nothing of it is left.
    pub(crate) fn reap_described(&self, meta: Record) -> Result<bool, Refused> {
        let Some(Described { data, .. }) = self.read_meta(meta)? else {
            return Ok(true);
        };
        if self.anchor(data).is_live() {
            return self.doom(data).map(|()| false).or_else(|refused| match refused {
                Refused::Again => Ok(false),
                other => Err(other),
            });
        }
        self.reap(data)
    }
}

impl<M: Look, P, C> Morsels<'_, M, P, C> {
    /// What a meta morsel describes.
    ///
    /// # Errors
    /// [`Refused::Invalid`] if it is none, [`Refused::Damaged`] if its page is not as it was made.
    pub fn described(&self, meta: Record) -> Result<Described, Refused> {
        let anchor = self.anchor(meta);
        if !anchor.is_live() || !anchor.has(Anchor::META) {
            return Err(Refused::Invalid);
        }
        self.read_meta(meta)?.ok_or(Refused::Damaged)
    }

    /// What its page says; `None` if the data is not there any more.
    fn read_meta(&self, meta: Record) -> Result<Option<Described>, Refused> {
        let page = self.anchor(meta).root();
        let words: [u64; 4] = core::array::from_fn(|n| self.memory.word(At::new(page, n)));
        if sealed([words[0], words[1], words[2]]) != words || words[0] != IDENTITY {
            return Err(Refused::Damaged);
        }
        let data = self.find(words[1] as u32).ok_or(Refused::Damaged)?;
        // The number may be another object's now.
        let same = self.generation(data) & u32::MAX as u64 == words[1] >> 32;
        let anchor = self.anchor(data);
        let owned =
            anchor.has(Anchor::OWNED) && self.memory.word(data.word(OTHER)) == meta.id as u64;
        let there = (anchor.is_live() || anchor.is_dying()) && owned;
        Ok((same && there).then_some(Described { data, address: words[2] }))
    }

    /// Is an owned object described by a meta morsel that exists?
    pub(crate) fn is_described(&self, data: Record) -> bool {
        let meta = self.memory.word(data.word(OTHER));
        let meta = u32::try_from(meta).ok().and_then(|id| self.find(id));
        meta.is_some_and(|meta| self.described(meta).is_ok_and(|found| found.data == data))
    }

    /// Recovery can do with a meta morsel what it does: what is live describes something that is.
    ///
    /// # Errors
    /// [`Refused::Damaged`].
    pub(crate) fn check_meta(&self, meta: Record) -> Result<(), Refused> {
        let found = self.read_meta(meta)?;
        let is_whole = found.is_some_and(|Described { data, .. }| self.anchor(data).is_live());
        (is_whole || self.anchor(meta).is_dying()).then_some(()).ok_or(Refused::Damaged)
    }
}

/// Three words and their checksum: FNV-1a.
fn sealed(words: [u64; 3]) -> [u64; 4] {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
        (sum ^ byte as u64).wrapping_mul(0x100_0000_01b3)
    });
    [words[0], words[1], words[2], sum]
}
