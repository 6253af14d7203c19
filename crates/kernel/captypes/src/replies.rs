//! What invocations answer.

use crate::words::{FlushStrategy, Need, ReplyWords, Words};
use crate::{CapType, RamAttrs, Rights, Status, WireCap};

/// What an invocation's results are.
pub trait Reply: Sized {
    /// How many words it uses.
    const WORDS: usize;
    /// As they cross.
    fn encode(self) -> ReplyWords;
    /// From what crossed.
    fn decode(words: &ReplyWords) -> Result<Self, Status>;
}

impl Reply for () {
    const WORDS: usize = 0;
    #[inline(always)]
    fn encode(self) -> ReplyWords {
        [0; 6]
    }
    #[inline(always)]
    fn decode(_: &ReplyWords) -> Result<Self, Status> {
        Ok(())
    }
}

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $fty:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: $fty),* }

        impl Reply for $name {
            const WORDS: usize = 0 $(+ <$fty as Words>::WORDS)*;
            #[inline(always)]
            fn encode(self) -> ReplyWords {
                let mut words = [0; 6];
                let mut _next = 0;
                $(self.$field.put(&mut words, _next); _next += <$fty as Words>::WORDS;)*
                words
            }
            #[inline(always)]
            fn decode(words: &ReplyWords) -> Result<Self, Status> {
                let mut _next = 0;
                $(let $field = <$fty as Words>::take(words, _next)?; _next += <$fty as Words>::WORDS;)*
                Ok($name { $($field),* })
            }
        }
    )* };
}

replies! {
    /// How many of the things that were asked for were done.
    Count {
        /// The number done.
        count: u32,
    }
    /// What a capability is.
    Identity {
        /// Its type.
        ty: CapType,
        /// Its rights.
        rights: Rights,
        /// Attributes of its memory.
        attrs: RamAttrs,
        /// First physical address, or the number of an Id, Io or Irq capability.
        base: u64,
        /// Bytes (or ports) from there.
        bytes: u64,
        /// Bit 0: it has copies. Bit 1: it has descendants. Bits 2 to 5: other cores may have copies,
        /// descendants, ancestors of it; another core owns it. Bits 32..64: badge.
        relations: u64,
    }
    /// Processor time, in ticks of the time-stamp counter.
    ProcessorTime {
        /// All of it.
        ticks: u64,
        /// How much of it its library and the kernel have used; sampled.
        system: u64,
        /// With a priority: how much it has used since it waited for anything.
        unbroken: u64,
    }
    /// In whose slot a capability is.
    Holder {
        /// Type of the capability.
        ty: CapType,
        /// Its first physical address.
        base: u64,
        /// First physical address of the CNode or dispatcher in which its slot is; 0: the kernel's own.
        container: u64,
    }
    /// A value.
    Value {
        /// The value.
        value: u64,
    }
    /// How far a copy came.
    Copied {
        /// Bytes that were copied.
        bytes: u64,
        /// Why not all were: 0: they were, or the limit was reached; 1: what was lent ends there; 2: the memory of the
        /// invoker, or whoever is the target, is not as it must be.
        short: u32,
    }
    /// What a morsel is.
    MorselFacts {
        /// The number of its record.
        record: u32,
        /// Its order: it has at most 512 to the power of this pages.
        order: u32,
        /// [`MorselFacts::META`], [`MorselFacts::OWNED`], [`MorselFacts::LARGE`].
        flags: u32,
        /// Its size in bytes: behind it is nothing.
        limit: u64,
        /// The record that a meta morsel describes, or the meta morsel that describes this one; 0 for none.
        other: u32,
        /// The address at which what a meta morsel describes belongs.
        address: u64,
    }
    /// An object that was made.
    Made {
        /// The number of its record.
        record: u32,
        /// How many of its first pages are there.
        pages: u64,
    }
    /// Which pages of a morsel are there.
    Surveyed {
        /// The page that was looked for, or the first that was not looked at.
        next: u64,
        /// Pages before it that are there.
        pages: u64,
        /// 1 if it is the one that was looked for.
        found: u32,
        /// Those of the pages that are there that are in pages of 2 MiB, of which all was looked at.
        large: u64,
        /// Pages before it that are in a store, which are not counted among those that are there, but are no holes.
        out: u64,
    }
    /// Pages of an object that have left.
    PagedOut {
        /// The slot of the first; each other is in the one behind.
        slot: u64,
        /// Which of their row they are.
        pages: u64,
    }
    /// Pages of an object that were looked over: one bit for each.
    LookedOver {
        /// The page behind them, or behind a hole.
        next: u64,
        /// Those that are there.
        there: u64,
        /// Those of them that were used.
        used: u64,
        /// Those that are in a store.
        out: u64,
    }
    /// How much a pool has.
    PoolFacts {
        /// Pages in all that it has now.
        pages: u64,
        /// Pages that are free.
        free: u64,
        /// Pages that the pool needs for itself.
        own: u64,
        /// The most records that it can have at present.
        records: u64,
        /// Slots of a store that are free.
        slots: u64,
    }
    /// A device's request that was refused.
    DeviceFault {
        /// The function: bus × 256 + device × 8 + function.
        function: u32,
        /// The first byte of the page that was meant, as an address of the device.
        address: u64,
        /// [`DeviceFault::WRITE`], or 0 for a read.
        access: u32,
        /// [`DeviceFault::NOT_ATTACHED`] and so on, or another reason of the IOMMU.
        reason: u32,
        /// 1 if others were refused, of any function, of which nothing is known, since one was answered last.
        lost: u32,
    }
    /// Where a table, or what a Mapping maps, is to be found.
    Located {
        /// One of the virtual addresses; 0 if there is none of that number.
        address: u64,
        /// How many there are.
        count: u32,
    }
    /// How a core forgets stale translations when an invocation does not say.
    FlushPolicy {
        /// The strategy.
        strategy: FlushStrategy,
        /// Of [`FlushStrategy::Hybrid`]: most pages that are forgotten one by one in an event.
        threshold: u32,
    }
    /// What an invocation that the monitor has performed needs now.
    Asked {
        /// What; `Nothing` when it has come to its end and the invoker goes on.
        need: Need,
        /// Physical address of the slot in question.
        slot: u64,
        /// Of a retype: first address of the range in question.
        base: u64,
        /// Its bytes.
        bytes: u64,
    }
    /// What a slot holds, and how it stands to other slots and cores.
    Held {
        /// The capability.
        cap: WireCap,
        /// Flags: `OWNED` and so on.
        flags: u64,
    }
    /// A range.
    Span {
        /// Its beginning.
        base: u64,
        /// Its length; 0 for none.
        bytes: u64,
    }
    /// Memory that came back: up to three ranges, empty ones have no bytes.
    Reclaimed {
        /// First address.
        base0: u64,
        /// Bytes.
        bytes0: u64,
        /// First address.
        base1: u64,
        /// Bytes.
        bytes1: u64,
        /// First address.
        base2: u64,
        /// Bytes.
        bytes2: u64,
    }
}

impl DeviceFault {
    /// Something was to be written.
    pub const WRITE: u32 = 1;
    /// The function reaches nothing.
    pub const NOT_ATTACHED: u32 = 2;
    /// The address has too many bits.
    pub const TOO_FAR: u32 = 4;
    /// It is not mapped, or not to be written.
    pub const NOT_WRITABLE: u32 = 5;
    /// It is not mapped.
    pub const NOT_READABLE: u32 = 6;
}

impl MorselFacts {
    /// It says where another one is to be mapped.
    pub const META: u32 = 1;
    /// A meta morsel describes it.
    pub const OWNED: u32 = 2;
    /// What is missing is made in pages of 2 MiB.
    pub const LARGE: u32 = 4;
}

impl Identity {
    /// Bit of `relations`: another slot holds a capability to the same object.
    pub const COPIES: u64 = 1;
    /// Bit of `relations`: something was made of it, or it is mapped.
    pub const DESCENDANTS: u64 = 2;
    /// Bit of `relations`: other cores may have copies of what this core owns.
    pub const REMOTE_COPIES: u64 = 4;
    /// Bit of `relations`: other cores may have something made of it.
    pub const REMOTE_DESCENDANTS: u64 = 8;
    /// Bit of `relations`: other cores may have what it was made of.
    pub const REMOTE_ANCESTORS: u64 = 16;
    /// Bit of `relations`: another core owns it.
    pub const FOREIGN: u64 = 32;
}

impl Held {
    /// This core owns it.
    pub const OWNED: u64 = 1;
    /// No other slot of this core holds a copy.
    pub const ALONE: u64 = 2;
    /// Hint: other cores may have copies.
    pub const REMOTE_COPIES: u64 = 4;
    /// Hint: other cores may have descendants.
    pub const REMOTE_DESCENDANTS: u64 = 8;
    /// Hint: other cores may have ancestors.
    pub const REMOTE_ANCESTORS: u64 = 16;
    /// It cannot be sent to other cores: a Morsel whose pool is being closed, or which another object describes.
    pub const STAYS: u64 = 32;
}
