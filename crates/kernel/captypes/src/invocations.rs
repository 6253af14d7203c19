//! The table of invocations.
//!
//! Each group says on which types its operations are invoked (none: on any), and each operation its number,
//! its arguments, its results, and the right that it needs if that is one and always the same. The table
//! generates a struct of arguments with the marshalling of both sides, and an enumeration for each group,
//! which the kernel matches on without a catch-all.
//!
//! Registers of an invocation (the `syscall` instruction, executed by a native program or by a
//! personality's library):
//!
//! | register | in | out |
//! |---|---|---|
//! | `rax` | label; of a message also the capability count in bits 16..24 and [`MOVE_CAPS`] | status |
//! | `rdi` | the invoked capability, a [`Place`] | badge of a received message |
//! | `rsi rdx r10 r8 r9 r12` | arguments 0 to 5 | results 0 to 5 |
//! | `r13 r14 r15` | arguments 6 to 8 | `r13`: [`received`] flags |
//!
//! `rcx` and `r11` are lost to the instruction, everything else is kept.

pub use crate::counters::Counter;
use crate::marshal::invocations;
pub use crate::marshal::{Argument, Invocation, Operation};
pub use crate::replies::*;
pub use crate::words::{
    ArgWords, FlushStrategy, MapFlags, Need, Part, ReplyWords, StatusBits, Word, Words,
};
use crate::{CapType, ObjectKind, Place, RamAttrs, Rights, Status, TypeSet, WireCap};

invocations! {
    /// The invoked place is the source slot.
    Any(AnyOp) "Any capability" on [] {
        /// Makes another capability to the same object.
        1 Copy(
            /// An empty slot.
            dst: Place
        ) -> ();
        /// Copies with fewer rights; an Endpoint without badge also gets one, for good, on its own core.
        /// What has a badge descends from the Endpoint without, and is a copy only of what has the same
        /// badge: so each badge can be revoked by itself. The Endpoint lives as long as any of them.
        2 Mint(
            /// An empty slot.
            dst: Place,
            /// Rights to keep.
            rights: Rights,
            /// Badge (Endpoint), else zero.
            badge: u32
        ) -> ();
        /// Moves the capability to an empty slot.
        3 Move(
            /// An empty slot.
            dst: Place
        ) -> ();
        /// Makes `count` objects of `bytes` each from `[offset, offset + count * bytes)` of the
        /// source, into consecutive slots. Fails with `HasDescendants` where something else was made
        /// of that range already. Frames, tables and CNodes made from RAM are zeroed; where that is more
        /// than 1 MiB, the first slot holds a Blank in the meantime, and `Again` asks to be repeated. Frames made
        /// of persistent RAM keep their contents; kernel objects are not made of it: `WrongType`.
        4 Retype(
            /// Type of the objects in bits 0..8. Bit 8: they are born with the right `WRITE_ALONE` instead
            /// of `WRITE`, and without `REVOKE` (Frames, `Pt`, L2CNodes, made of RAM).
            ty: ObjectKind,
            /// First byte, a multiple of 4 KiB.
            offset: u64,
            /// Bytes of each object, a multiple of its type's size.
            bytes: u64,
            /// Objects.
            count: u32,
            /// First of the empty slots, all in one CNode.
            dst: Place
        ) -> ();
        /// Removes the capability. The last one to an object destroys the object: what is mapped is
        /// unmapped, what a CNode holds is deleted, memory goes home. `Again` asks to be repeated, also if the
        /// way to the slot goes with what it held.
        5 Delete() -> ();
        /// Deletes all copies and descendants of the capability, which has the right `REVOKE`; itself
        /// stays. Of an Endpoint without badge these include all badges. `Again` as `Delete`.
        6 Revoke() -> (), needs REVOKE;
        /// Says what the capability is.
        7 Identify() -> Identity;
        /// Copies `count` consecutive slots, starting with the invoked one, to consecutive slots;
        /// empty sources are passed over, and so are all types but `only` unless that is `Null`.
        /// Mappings are never copied. Answers the number of copies. As wherever slots are counted, more
        /// than 256 are `OutOfRange`.
        8 CopyRange(
            /// First of the destination slots; those needed must be empty.
            dst: Place,
            /// Slots to look at.
            count: u32,
            /// The type to copy, or `Null` for all.
            only: CapType
        ) -> Count;
        /// Deletes whatever `count` consecutive slots hold, starting with the invoked one.
        /// `Again` asks to be repeated; slots already deleted are then empty, as they are when it ends
        /// with `Shared` at a Mapping in a table that others have, too.
        9 DeleteRange(
            /// Slots to look at.
            count: u32
        ) -> Count;
        /// Finds the capability and does nothing else.
        11 NoOp() -> ();
        /// Is what the invoked place holds the same object as what `other` holds? 1 for yes: copies,
        /// whatever their rights.
        12 Compare(
            /// The other slot.
            other: Place
        ) -> Value;
        /// `Retype` of up to seven parts of the source at once, into consecutive slots in the order of
        /// the parts. The parts ascend and do not overlap, and together are at most 1 MiB where they
        /// must be zeroed. All of it is done or nothing.
        13 RetypeMany(
            /// First of the empty slots, all in one CNode.
            dst: Place,
            /// What to make of a part.
            p0: Part,
            /// The next one, or none.
            p1: Part,
            /// The next one, or none.
            p2: Part,
            /// The next one, or none.
            p3: Part,
            /// The next one, or none.
            p4: Part,
            /// The next one, or none.
            p5: Part,
            /// The next one, or none.
            p6: Part
        ) -> Count;
    }

    Ram(RamOp) "RAM" on [Ram HomeRam] {
        /// Makes a Frame from the `bytes` at `offset` of the invoked RAM whose contents are those of as
        /// much of another Frame with `READ`: the copy of copy-on-write.
        10 RetypeCopy(
            /// First byte in the RAM.
            offset: u64,
            /// The Frame to copy from.
            src: Place,
            /// First byte to copy in that Frame, a multiple of 4 KiB.
            src_offset: u64,
            /// An empty slot, or `src` itself: then the new Frame takes the place of that capability,
            /// which is deleted. If nobody else has that, nothing would be gained: `WrongState`.
            dst: Place,
            /// How much, a multiple of 4 KiB up to 1 MiB.
            bytes: u64,
            /// The Frame is born with `WRITE_ALONE` instead of `WRITE`, and without `REVOKE`.
            alone: bool
        ) -> ();
    }

    /// See decision 74.
    Frame(FrameOp) "Frames" on [Frame] {
        /// Lends a run of bytes of the Frames in `count` consecutive slots, starting with the invoked one, as if
        /// they were one: a Loan of what each has of it, in consecutive slots, all with the answered number.
        /// Each Frame has a part of the run, and the rights. All of it is done or nothing. In a Frame at most 64
        /// Loans begin; that, and more than 512 Mappings and Loans of Frames that were lent before, is `OutOfRange`.
        16 Lend(
            /// Frames, at most 128.
            count: u32,
            /// First byte of the run, in the first Frame.
            offset: u64,
            /// Bytes of the run, which ends in the last Frame.
            bytes: u64,
            /// `READ`, or `READ` and `WRITE`.
            rights: Rights,
            /// Entries that show a page with lent bytes lose the right to write, so that the bytes stay as they are.
            /// Then at most 24 Frames, with 512 such entries.
            lower: bool,
            /// First of the empty slots for the lender's Loans, which have `REVOKE` besides.
            dst: Place,
            /// First of the empty slots for a copy of each without `REVOKE`; or null, for none.
            copies: Place
        ) -> Value;
    }

    /// Operations on a run go from one Loan to the next, as long as that is in the next slot, of the same act of
    /// lending, and has the right.
    Loan(LoanOp) "Loans" on [Loan] {
        /// Ends what was lent by those of `count` consecutive slots, starting with the invoked one, that hold a Loan,
        /// each with `REVOKE`: the Loan and all its copies are deleted. Empty slots are passed over. `Again`
        /// asks to be repeated, also if the invoked slot is empty by then.
        17 Recall(
            /// Slots to look at.
            count: u32
        ) -> Count;
        /// Copies bytes of a run to memory of the invoker, of which each page must be there and writable for it. It
        /// is short where the run ends, where the memory is not as it must be, and after 256 KiB.
        18 CopyOut(
            /// First byte, in the run that begins with the invoked Loan.
            offset: u64,
            /// Address in the invoker's address space.
            to: u64,
            /// Bytes.
            bytes: u64
        ) -> Copied, needs READ;
        /// The other way: from memory that is there for the invoker to read, to what was lent with `WRITE`.
        19 CopyIn(
            /// First byte, in the run that begins with the invoked Loan.
            offset: u64,
            /// Address in the invoker's address space.
            from: u64,
            /// Bytes.
            bytes: u64
        ) -> Copied, needs WRITE;
    }

    /// A pool is used on the core where it is. What it has is in `crates/storage/morsel`.
    Pool(PoolOp) "Pools" on [Pool] {
        /// Makes an empty pool of its memory, which is aligned to 2 MiB, whatever was there. `Again` asks to be repeated. `WrongState`
        /// while it is in use, or if there are as many pools as there may be.
        120 FormatPool(
            /// What survives when the power fails: 0: everything that was stored, or nothing is meant to; 1: what was written back.
            domain: u32
        ) -> (), needs WRITE;
        /// Finds out what is in use of a pool that was there before, and ends what was begun. `Again` asks to be repeated.
        /// `Invalid` if it is none, or damaged.
        121 RecoverPool(
            /// As in `FormatPool`.
            domain: u32
        ) -> (), needs WRITE;
        /// Creates an object without pages, whose limit is what its order allows, and answers the number of its record.
        122 CreateMorsel(
            /// 0 to 4: it has at most 512 to the power of this pages.
            order: u32,
            /// An empty slot for the capability to all of it.
            dst: Place
        ) -> Value, needs WRITE;
        /// Creates an object that belongs at an address, and a meta morsel that says so, of which it answers the record.
        123 CreateMeta(
            /// Of the object.
            order: u32,
            /// A multiple of its size.
            address: u64
        ) -> Value, needs WRITE;
        /// Makes a capability to all of an object. `Empty` if there is none with this number.
        124 OpenMorsel(
            /// The number of its record.
            record: u32,
            /// Its rights; `REVOKE` is that to destroy it.
            rights: Rights,
            /// An empty slot.
            dst: Place
        ) -> ();
        /// The first object from a record on. `Empty` if there is none.
        125 NextMorsel(
            /// The number of the record.
            record: u32
        ) -> MorselFacts, needs READ;
        /// How much there is.
        126 PoolInfo() -> PoolFacts;
        /// Makes a pool without pages, which `AddChunk` gives it: they may lie anywhere in a range of physical memory, of which its
        /// own memory describes 2 MiB by 521 words and every 16 MiB by one more. Nothing of it survives, and a fault on a hole makes a
        /// page if it might be stored to, and some behind it for who goes on. `Again` asks to be repeated;
        /// `WrongState` as `FormatPool`. Before it has got pages it can do nothing else.
        127 FormatVolatile(
            /// First physical address of the range, a multiple of 2 MiB.
            first: u64,
            /// Pages from there, rounded down to 2 MiB; 0: as many as its memory can describe. `OutOfRange` if that are fewer.
            pages: u64
        ) -> (), needs WRITE;
        /// Gives RAM to a pool without pages of its own, and answers its first address. The capability is one to a Chunk from then on. Whoever
        /// deletes it while pages are in use closes the pool: all capabilities to its objects go. `Again` asks to be repeated.
        /// `OutOfRange` outside of the pool's range, and for other RAM than 1 to 512 times 2 MiB, aligned; `HasDescendants` for RAM of
        /// which there is another capability, or something made; `WrongType` for persistent RAM.
        128 AddChunk(
            /// The RAM.
            memory: Place
        ) -> Value, needs WRITE;
        /// Takes back a Chunk of which all pages are free, and answers its first address: the capability is one to RAM again. `Empty` if
        /// there is none now. `Again` asks to be repeated.
        129 RemoveChunk() -> Value, needs WRITE;
        /// Creates an object that is so large, with its first pages, as far as there is memory for them. `Again` asks to be repeated.
        144 MakeMorsel(
            /// 0 to 4.
            order: u32,
            /// Its limit, in bytes, no more than its order allows (`OutOfRange`).
            limit: u64,
            /// How many pages are to be there; 64 are made at most.
            pages: u64,
            /// An empty slot for the capability to all of it.
            dst: Place
        ) -> Made, needs WRITE;
        /// Makes slots of a store of 16 MiB of the range of a pool without pages of its own, where no memory is, and answers
        /// the number of the first. `Occupied` if something is there.
        190 AddSlots(
            /// Which 16 MiB from the beginning of the range.
            tree: u64
        ) -> Value, needs WRITE;
        /// Has pages of a row of 64 leave, at most 8 of those that are there: their contents are copied to a Frame, one behind
        /// the other, and their entries lead to slots that follow each other. Answers the first of these, and which pages have
        /// left: not all, if there is no further slot behind them. Who uses one faults, until it comes in. `Empty` if none
        /// was there; `Occupied` if there is no slot; `NoMemory` if something had to be divided. `Again` asks to be repeated.
        191 PageOut(
            /// The number of its record.
            record: u32,
            /// A page of the row.
            page: u64,
            /// Which of the row, one bit for each. Only the first 8 are looked at.
            pages: u64,
            /// Where to take slots.
            tree: u64,
            /// A Frame that can be written to.
            buffer: Place,
            /// The first byte of as many pages of it.
            offset: u64
        ) -> PagedOut, needs WRITE;
        /// Brings pages back, at most 8, with contents of pages of a Frame. Nothing else can be changed so: only those come that are in
        /// these slots, up to one that is not, or to the end of a table. Answers how many. `Empty` if the first is not in its slot. `NoMemory` if
        /// the pool is empty.
        192 PageIn(
            /// The number of its record.
            record: u32,
            /// The first page.
            page: u64,
            /// How many.
            count: u64,
            /// Where the first is; the others are behind it.
            slot: u64,
            /// A Frame.
            buffer: Place,
            /// The first byte of as many pages of it.
            offset: u64
        ) -> Value, needs WRITE;
        /// The slot of a page. `Empty` if it is in none.
        193 SlotOf(
            /// The number of its record.
            record: u32,
            /// The page.
            page: u64
        ) -> Value, needs READ;
        /// Looks at 64 pages in a row, or over a hole. `OutOfRange` behind the limit.
        194 LookOver(
            /// The number of the record.
            record: u32,
            /// One of them.
            page: u64,
            /// They are not used any more from now on, until they are.
            rests: bool
        ) -> LookedOver, needs WRITE;
    }

    /// A page is counted from the object's first. What changes the object needs a capability to all of it, with `REVOKE`.
    Morsel(MorselOp) "Morsels" on [Morsel] {
        /// Makes pages that are missing, at most 64, or one of 2 MiB. Answers the first that was not looked at. `OutOfRange` behind
        /// the limit, `NoMemory` if the pool is empty, and then `Again` is not answered.
        130 PopulateMorsel(
            /// First page.
            first: u64,
            /// Pages.
            count: u64,
            /// Of 2 MiB, where there are 512 aligned pages.
            large: bool
        ) -> Value, needs WRITE;
        /// Takes pages away: holes are left, which read as zeros. Answers the first that was not looked at.
        131 DiscardMorsel(
            /// First page.
            first: u64,
            /// Pages.
            count: u64
        ) -> Value, needs WRITE;
        /// Makes a capability to a part of it, which can be mapped alone, with the same rights.
        132 PartMorsel(
            /// First page, a multiple of the part's size.
            first: u64,
            /// 1 to the order of the object.
            order: u32,
            /// An empty slot.
            dst: Place
        ) -> ();
        /// Makes it 512 times as large as it can be. Mappings stay as they are.
        133 GrowMorsel() -> (), needs REVOKE;
        /// Sets its size. What was behind is gone, for everybody, when this has come to its end. `Again` asks to be repeated.
        134 LimitMorsel(
            /// Bytes.
            bytes: u64
        ) -> (), needs REVOKE;
        /// Makes it larger, and the pages from `first` on that are missing inside of it then, as many as there is time for. Answers the first that was not
        /// looked at. `Unsupported`, and nothing is done: it is as large, or what is behind its size is still to go, or the size lies inside a page. `NoMemory`
        /// if the pool is empty, `OutOfRange` if it has no tables for so much: it is larger all the same.
        197 ExtendMorsel(
            /// Bytes.
            bytes: u64,
            /// First page.
            first: u64
        ) -> Value, needs REVOKE;
        /// Allows that whoever has a table of it shown, and may write there, raises its size where he runs (`RaiseHere`): by up to so many pages from what it is now, or by
        /// fewer than before. Answers up to which byte: not more than its order allows, nor than 16 MiB more. A snapshot may be raised by as much. Once the size is
        /// set it may be raised no more. `Unsupported`: it is in a memory that survives, or its size is no whole number of pages; `Again` asks to be repeated.
        195 AllowRaising(
            /// Pages.
            pages: u64
        ) -> Value, needs REVOKE;
        /// Creates an object that has what this one has now, and answers the number of its record.
        135 SnapshotMorsel(
            /// An empty slot for the capability to all of it.
            dst: Place
        ) -> Value, needs REVOKE;
        /// What it has now is what it has after a power failure, whatever is stored later; pages that were written must have been
        /// written back. `Again` asks to be repeated.
        136 CommitMorsel() -> (), needs REVOKE;
        /// Destroys the object, of which there must be neither another capability nor a Mapping on any core
        /// (`HasDescendants`): the invoked one is then empty. `Again` asks to be repeated.
        137 DestroyMorsel() -> (), needs REVOKE;
        /// What it is.
        138 MorselInfo() -> MorselFacts;
        /// Copies bytes of it to memory of the invoker, of which each page must be there and writable for it. It is short at
        /// the limit, where the memory is not as it must be, and after 256 KiB.
        139 ReadMorsel(
            /// First byte.
            offset: u64,
            /// Address in the invoker's address space.
            to: u64,
            /// Bytes.
            bytes: u64
        ) -> Copied, needs READ;
        /// The other way; it makes pages that are missing.
        140 WriteMorsel(
            /// First byte.
            offset: u64,
            /// Address in the invoker's address space.
            from: u64,
            /// Bytes.
            bytes: u64
        ) -> Copied, needs WRITE;
        /// From now on a page that is missing and is written to is made with all of its 2 MiB, if nothing of them is there and all
        /// are before the limit. If the pool has not as much in one piece, it is made alone; but of a pool to which chunks are
        /// added there is `NoMemory` then, as if the pool was empty. `Again` asks to be repeated.
        149 AdviseMorsel(
            /// Or no longer.
            large: bool
        ) -> (), needs REVOKE;
        /// What was committed counts no more: after a power failure it has what was written back. `Again` asks to be repeated.
        142 ReleaseCommit() -> (), needs REVOKE;
        /// Pages that were written since they were written back last survive a power failure when this has come to their end.
        /// Answers the first that was not looked at.
        141 WriteBackMorsel(
            /// First page.
            first: u64,
            /// Pages.
            count: u64
        ) -> Value;
        /// Which pages are there: counts them, and looks for the next page or hole. Behind the limit is a hole. It looks at a part
        /// of the range; who wants all of it goes on at the first page that was not looked at.
        143 SurveyMorsel(
            /// First page.
            first: u64,
            /// Pages.
            count: u64,
            /// Where to stop: 0: at the end of the range; 1: at a page that is there; 2: at one that is not.
            until: u32
        ) -> Surveyed, needs READ;
    }

    CNode(CNodeOp) "Root CNodes" on [L1CNode] {
        /// Gives a CSpace another root, larger or smaller: the invoked L1CNode's contents are copied to
        /// `root`, an empty one, then every capability to the invoked L1CNode, in slots and dispatchers,
        /// becomes one to the new root, and `root` becomes the only capability to the old one. What is
        /// in the way fails with `OutOfRange`: slots in use that the new root does not have. Both have
        /// at most 16,384 slots. `Again` as `Delete`: until it is done, lookups go through the old root,
        /// and what is put into slots of it may stay there.
        14 Resize(
            /// An L1CNode without copies, which is not the own one.
            root: Place
        ) -> ();
    }

    Id(IdOp) "Names" on [Id] {
        /// Makes a capability to a number that never was given before, of an Id with more than one
        /// number.
        15 NewId(
            /// An empty slot.
            dst: Place
        ) -> Value;
    }

    /// A table changes only through a capability with `WRITE`.
    Table(TableOp) "Page tables" on [Pml5 Pml4 Pdpt Pd Pt] {
        /// Maps `count` pages of a Frame or DevFrame (each of this table's page size), or one table
        /// of the next level, at consecutive entries. Makes one Mapping. A Morsel is mapped by one entry of the level
        /// above its order; in a DeviceSpace, of which this is the only operation, one of order 2. (Entry 3 of a DeviceSpace
        /// is not used: at addresses there a device raises interrupts.)
        20 Map(
            /// First entry.
            entry: u32,
            /// Entries.
            count: u32,
            /// What to map.
            src: Place,
            /// First byte in the Frame.
            offset: u64,
            /// Rights asked for; those that the capability lacks are an error (`NoRights`).
            flags: MapFlags,
            /// An empty slot for the Mapping.
            mapping: Place
        ) -> ();
        /// Maps what `count` consecutive slots hold at `count` consecutive entries, one Mapping each,
        /// in consecutive slots. Empty sources, and entries in use, are passed over.
        21 MapMany(
            /// First entry.
            entry: u32,
            /// Slots and entries to look at.
            count: u32,
            /// First slot of what to map: Frames of one page, or tables of the next level.
            src: Place,
            /// Rights asked for.
            flags: MapFlags,
            /// First slot for Mappings.
            mapping: Place
        ) -> Count;
        /// Reads entry `entry` of the invoked table (accessed and dirty bits with it).
        25 ReadEntry(
            /// The entry, 0 to 511.
            entry: u32
        ) -> Value;
        /// Clears status bits of entries `entry..entry + count` of the invoked table, which has the
        /// right `WRITE`. Answers how many entries had one of them set. What the processor sets from
        /// then on is seen: no translation that had a bit set is still cached. (To read the bits, map
        /// the table itself in a last-level table, read-only.)
        27 ClearStatus(
            /// First entry.
            entry: u32,
            /// Entries.
            count: u32,
            /// Which bits.
            bits: StatusBits
        ) -> Count;
        /// Shows the kernel's page of zeros at those of `count` entries of a last-level table that are
        /// empty, with `READ`, perhaps `EXEC`; without `READ`, empties those that show it. Such an entry
        /// has no Mapping, and is empty to `Map` and `MapMany`. Answers how many entries changed.
        29 MapZero(
            /// First entry.
            entry: u32,
            /// Entries.
            count: u32,
            /// `READ`, `EXEC`.
            flags: MapFlags
        ) -> Count;
    }

    Mapping(MappingOp) "Mappings" on [Mapping] {
        /// Changes the rights of entries `first..first + count` of the invoked Mapping, without a
        /// moment in which they are absent. More than the Frame allows is `NoRights`.
        22 Protect(
            /// First entry, relative to the Mapping.
            first: u32,
            /// Entries.
            count: u32,
            /// New rights.
            flags: MapFlags
        ) -> ();
        /// `Protect` for all of each Mapping in `count` consecutive slots; others are passed over.
        /// `OutOfRange` if they have more than 4,096 entries together.
        23 ProtectMany(
            /// Slots to look at.
            count: u32,
            /// New rights.
            flags: MapFlags
        ) -> Count;
        /// Removes entries `first..first + count` of the invoked Mapping, which shrinks or splits: a
        /// part behind the removed one gets its Mapping in `rest`. All of them: the same as `Delete`.
        24 Unmap(
            /// First entry, relative to the Mapping.
            first: u32,
            /// Entries.
            count: u32,
            /// An empty slot, needed only when a part remains on both sides.
            rest: Place,
            /// `FLUSH_ALL` or `FLUSH_PAGES`; others mean nothing here.
            flags: MapFlags
        ) -> ();
        /// Makes the invoked Mapping, of one page, a Mapping of the first page of another Frame, without
        /// a moment in which nothing is mapped.
        26 Replace(
            /// What to map.
            src: Place,
            /// Rights asked for, as in `Map`.
            flags: MapFlags
        ) -> ();
        /// Allows, or no longer, that the program hides what the invoked Mapping shows (`HideHere`), and shows it again: a table of an object
        /// that translates 2 MiB. When it is no longer allowed it is shown. `NoRights`: the object cannot be written to through it, as hiding
        /// takes pages away. `Unsupported`: a Mapping of something else.
        185 AllowHiding(
            /// Is it allowed from now on?
            allow: bool
        ) -> ();
    }

    Translation(TranslationOp) "Page tables and Mappings" on [Pml5 Pml4 Pdpt Pd Pt Mapping] {
        /// Where the invoked table begins to translate, or the invoked Mapping's first page (or table)
        /// is, as seen from another table: the virtual addresses, counted from the beginning of what
        /// that table translates. `OutOfRange` if there are more than can be looked at.
        28 Locate(
            /// The table to look from: a root, for addresses of that address space.
            root: Place,
            /// Which of them, in ascending order.
            number: u32
        ) -> Located;
    }

    /// Bits 16..24 of `rax` say how many capabilities go along, from consecutive slots: copies, or with
    /// `MOVE_CAPS` the capabilities themselves. With `LENDS_READ` or `LENDS_WRITE` in `rax` a call lends memory of the
    /// caller as long as it lasts (decision 76).
    Endpoint(EndpointOp) "Endpoints" on [Endpoint] {
        /// Sends a message and waits for the answer. The answer's words are the results; its
        /// capabilities are put in the slots from `recv` on.
        30 Call(
            /// Word.
            w0: u64,
            /// Word.
            w1: u64,
            /// Word.
            w2: u64,
            /// Word.
            w3: u64,
            /// Word.
            w4: u64,
            /// Word.
            w5: u64,
            /// First capability to send.
            caps: Place,
            /// First slot for capabilities received, or null for none.
            recv: Place
        ) -> (), needs SEND;
        /// Answers the caller whose dispatcher is `to` (null: nobody), then waits for the next
        /// message or notification. Messages: `rdi` badge, words in the results. Notifications: flag
        /// in `r13`, the bits in result 0 (and they are cleared).
        31 ReplyRecv(
            /// Word.
            w0: u64,
            /// Word.
            w1: u64,
            /// Word.
            w2: u64,
            /// Word.
            w3: u64,
            /// Word.
            w4: u64,
            /// Word.
            w5: u64,
            /// First capability to send.
            caps: Place,
            /// First slot for capabilities received, or null for none.
            recv: Place,
            /// The dispatcher to answer, or [`Place::CALLER`].
            to: Place
        ) -> (), needs RECV;
        /// Like `ReplyRecv` without an answer, but returns `Empty` at once when nothing waits.
        32 Poll(
            /// First of the slots for received capabilities, or null.
            recv: Place
        ) -> (), needs RECV;
        /// Makes the invoker the one who receives from the endpoint, and notifies it whenever a call
        /// finds nobody waiting in `ReplyRecv`. For domains that do other things meanwhile.
        33 Listen(
            /// Notification bits to set; 0: none any more.
            bits: u64
        ) -> (), needs RECV;
    }

    Dispatcher(DispatcherOp) "Dispatchers" on [Dispatcher] {
        /// Answers the dispatcher's call on an endpoint whose receiver is the invoker, and goes on.
        /// The invoked place may be [`Place::CALLER`].
        40 Reply(
            /// Word.
            w0: u64,
            /// Word.
            w1: u64,
            /// Word.
            w2: u64,
            /// Word.
            w3: u64,
            /// Word.
            w4: u64,
            /// Word.
            w5: u64,
            /// First capability to send.
            caps: Place
        ) -> ();
        /// Gives a stopped dispatcher its spaces. Null places leave what was set before. A supervised
        /// dispatcher starts only those that are supervised, too, and only one that is not makes another
        /// supervised (`NoRights`): so whoever supervises a client knows all its dispatchers.
        42 Configure(
            /// Root CNode.
            cspace: Place,
            /// Root page table.
            vspace: Place,
            /// The frame shared with the kernel, 4 KiB, mapped by the domain; not of persistent memory.
            frame: Place,
            /// Where the domain maps it.
            frame_va: u64,
            /// Endpoint told of faults that the domain cannot handle itself.
            fault_ep: Place,
            /// Bit 0: Linux ABI. Bit 1: start with a copy of the invoker's vector state. Bit 2: it is
            /// supervised from now on.
            options: u32
        ) -> ();
        /// Makes a stopped dispatcher runnable, with the registers in its frame's save area. `NoRights`: the
        /// invoker is supervised, and the dispatcher is not.
        43 Start() -> ();
        /// Stops it where it is, until `Continue`. Of another than the invoker this needs the right
        /// `REVOKE`. `WrongState`: it does not run, and will not before `Continue`, should somebody start it.
        44 Suspend() -> ();
        /// Lets a suspended dispatcher go on where it was. Needs the right `REVOKE`.
        45 Continue() -> (), needs REVOKE;
        /// Gives the rest of the time slice away.
        46 Yield() -> ();
        /// Waits until a notification bit is set; answers and clears the bits.
        47 Wait() -> Value;
        /// Arms the dispatcher's timer: at this value of the time-stamp counter the kernel sets
        /// [`NOTIFY_TIMER`]. Zero disarms. It may be up to 50 µs late, and more if very many expire: the
        /// timers of a core expire at most 32 at a time, and not more often than that.
        48 SetTimer(
            /// Time-stamp counter value.
            deadline: u64
        ) -> ();
        /// Sets the FS base, for CPUs without FSGSBASE.
        49 SetFsBase(
            /// A user address.
            base: u64
        ) -> ();
        /// Processor time that the dispatcher has used.
        50 Usage() -> ProcessorTime;
        /// Lets the dispatcher run on the cores of a set only, from now on. `OutOfRange` if the machine
        /// has none of them. What it invokes is still done where its capabilities are.
        51 SetAffinity(
            /// Bit n: core n; 0: any core.
            mask: u64,
        ) -> ();
        /// Copies bytes that the invoked dispatcher has lent with its call ([`LENDS_READ`]), which the invoker has
        /// received, to memory of the invoker, of which each page must be there and writable for it. It is
        /// short where the lent bytes end or the caller itself could not read them as its page tables stand (1), where
        /// the memory is not as it must be (2), and after 256 KiB. `WrongState`: it waits for no answer of the
        /// invoker.
        52 CopyFromCaller(
            /// First byte of those that are lent.
            offset: u64,
            /// Address in the invoker's address space.
            to: u64,
            /// Bytes.
            bytes: u64
        ) -> Copied;
        /// The other way: from memory that is there for the invoker to read, to what was lent with
        /// [`LENDS_WRITE`], and the caller could write to.
        53 CopyToCaller(
            /// First byte of those that are lent.
            offset: u64,
            /// Address in the invoker's address space.
            from: u64,
            /// Bytes.
            bytes: u64
        ) -> Copied;
        /// Copies from what the invoked dispatcher has lent with its call to what another has lent with its own,
        /// as `CopyFromCaller` and `CopyToCaller` would. Short by the invoked one's side (1), or the other's (2).
        54 CopyBetween(
            /// First byte of those that the invoked dispatcher has lent.
            offset: u64,
            /// The other dispatcher.
            to: Place,
            /// First byte of those that it has lent.
            to_offset: u64,
            /// Bytes.
            bytes: u64
        ) -> Copied;
        /// Sets which accesses of the dispatcher raise a debug exception: up to four, as the processor's debug registers
        /// say them. The exception's error code has the low bits of DR6: bit n for breakpoint n, [`DEBUG_STEP`] for a
        /// single step. What an enabled dispatcher does is reported, not what its library or the kernel does for it.
        /// `OutOfRange`: an address that is no user address; `Invalid`: bits of `control` other than those that switch
        /// breakpoints on (0 to 7) and say their kinds (16 to 31), or accesses to ports; `WrongState`: it waits at another core.
        55 SetBreakpoints(
            /// Address of breakpoint 0.
            address0: u64,
            /// Address of breakpoint 1.
            address1: u64,
            /// Address of breakpoint 2.
            address2: u64,
            /// Address of breakpoint 3.
            address3: u64,
            /// As DR7; 0: none.
            control: u64
        ) -> ();
        /// Changes what pages of the invoker's own address space allow, on whichever core it is: home is not asked, and the
        /// invoked place is not looked at. A page keeps what it was mapped with, or last got by `Protect`; of that it loses here
        /// what `flags` do not ask for, and gets it back when they do. What is not there stays so. At these addresses of this address space nobody
        /// can use what was lost when this returns. `Unsupported`: there are tables of objects, large pages, or a table through which the program
        /// cannot write; some pages may have changed. `OutOfRange`: no whole pages, more than 512, or not user memory.
        56 ProtectHere(
            /// Address of the first page.
            at: u64,
            /// Bytes.
            bytes: u64,
            /// Of `READ`, `WRITE` and `EXEC`; they can be read in any case.
            flags: MapFlags
        ) -> ();
        /// Hides an object that one entry of the invoker's own address space shows, and takes its pages away, on whichever core it is: home is not
        /// asked, and the invoked place is not looked at. Only where home has allowed it (`AllowHiding`). At these addresses
        /// nobody can use anything when this returns without an error, until somebody shows it again. Answers up to which of the 512 pages nothing
        /// is left in the object: it is to be invoked again until that is so for as many as it has. After an error nothing has changed. `Again`: another core takes pages of that object, or of
        /// another one, away. `Unsupported`: home has not allowed it, pages of the object are shown one by one, or the program cannot write there as others may have a table.
        /// `OutOfRange`: no multiple of 2 MiB, no user memory, or more than 512 pages.
        186 HideHere(
            /// The first address that the entry translates.
            at: u64,
            /// Up to which page nothing is left, as answered before; 0 at first.
            first: u32,
            /// Up to which page there may be something.
            end: u32
        ) -> Value;
        /// Raises the size of an object of which an entry of the invoker's own address space shows a table, on whichever core the invoker is: home is
        /// not asked, and the invoked place is not looked at. Only as far as has been allowed (`AllowRaising`). `Unsupported`: no such entry is there, or the program
        /// cannot write through it. `OutOfRange`: its size is another one, or may not be raised so far. `Again`: something else changes it.
        196 RaiseHere(
            /// An address that the entry translates.
            at: u64,
            /// Its size, in bytes.
            from: u64,
            /// What it is to be.
            to: u64
        ) -> ();
        /// Shows again what `HideHere` has hidden, with the rights that home has given it, on whichever core the invoker is. `Unsupported`: home has not allowed it.
        187 ShowHere(
            /// As there.
            at: u64
        ) -> ();
        /// Sets how the dispatcher competes with others for a core, from now on. With a priority it goes before all that have less,
        /// or none, at once, but not before servers (whoever is not supervised), and not for more than 19 of 20 parts of
        /// a second while somebody without one waits. Without, it shares what is left with others in proportion to the
        /// weights. Needs the right `REVOKE`, and the kernel. `Invalid`: a priority over 99, other options, a weight over 100,000.
        157 SetSchedule(
            /// A capability to the kernel.
            kernel: Place,
            /// 1 to 99, or 0: none.
            priority: u32,
            /// Bit 0: it takes turns with others of its priority, 100 ms each.
            options: u32,
            /// 1024 is the usual weight; 0: that.
            weight: u32
        ) -> (), needs REVOKE;
    }

    Receiver(ReceiverOp) "Dispatchers and Endpoints" on [Dispatcher Endpoint] {
        /// Sets notification bits (an Endpoint with `SEND` is accepted too and notifies its receiver).
        41 Notify(
            /// Bits to set.
            bits: u64
        ) -> ();
    }

    Kernel(KernelOp) "The kernel" on [Kernel] {
        /// Ends the machine in order.
        60 Shutdown(
            /// Exit status of the session.
            status: u32
        ) -> ();
        /// Writes up to 40 bytes, packed little-endian, to the kernel log.
        61 Log(
            /// Bytes used of the words that follow.
            len: u32,
            /// Bytes 0 to 7.
            w0: u64,
            /// Bytes 8 to 15.
            w1: u64,
            /// Bytes 16 to 23.
            w2: u64,
            /// Bytes 24 to 31.
            w3: u64,
            /// Bytes 32 to 39.
            w4: u64
        ) -> ();
        /// Takes up to three ranges of memory that no capability but a home covers any more.
        62 CollectReclaimed() -> Reclaimed;
        /// A counter of the kernel, by [`Counter`] number.
        63 ReadCounter(
            /// Its number.
            counter: u32,
            /// The core, counted from 1; 0: this one.
            core: u32
        ) -> Value;
        /// Checks every invariant of the mapping database and the page tables of the core; `Invalid`
        /// and a line in the log when one is broken. Slow.
        64 CheckInvariants() -> ();
        /// Names the dispatcher (the invoker) that is notified when memory comes back.
        65 NotifyReclaimed(
            /// Bits to set.
            bits: u64
        ) -> ();
        /// Sets how this core forgets stale translations when an invocation does not say. Answers what
        /// it was before.
        66 SetFlushPolicy(
            /// The strategy.
            strategy: FlushStrategy,
            /// Of [`FlushStrategy::Hybrid`]: most pages that are forgotten one by one in an event.
            threshold: u32
        ) -> FlushPolicy;
        /// Deletes CNodes and dispatchers that only hold each other: no chain of capabilities leads to
        /// them from the first dispatcher. Answers how many were found; what goes with those is not
        /// counted. `Again` asks to be repeated.
        67 CollectCycles() -> Count;
        /// What the capability to memory is that has this number among the distinct ones of the core, in
        /// the order of the mapping database: what was made of a capability follows it. `OutOfRange`
        /// behind the last. Slow: it counts from the first.
        68 CapabilityAt(
            /// Its number, from 0.
            number: u32
        ) -> Identity;
        /// In whose slot the capability with this number ([`op::CapabilityAt`]) is, or one of its copies.
        /// `OutOfRange`: there are not as many. As slow.
        113 HolderAt(
            /// Its number, from 0.
            number: u32,
            /// 0, or the number of the copy, from 1.
            copy: u32
        ) -> Holder;
        /// Notifies the dispatcher that has asked for it ([`op::NotifyRung`]) on another core or this one.
        /// Rings of which it has not been told yet are one. `OutOfRange`: there is no such core.
        110 RingCore(
            /// Its number.
            core: u32
        ) -> ();
        /// Names the dispatcher (the invoker) that is notified when this core is rung.
        111 NotifyRung(
            /// Bits to set.
            bits: u64
        ) -> ();
        /// Has an Endpoint (a capability with `SEND`) a server? 1 if it has; then the core's monitor is
        /// notified once when it has none any more: its dispatcher has been deleted, or the Endpoint.
        112 Watch(
            /// The Endpoint.
            endpoint: Place,
            /// Bits for the monitor.
            bits: u64
        ) -> Value;
        /// A part of home RAM of which nothing is made, and which is on no list of this core, is another core's home from now on: what
        /// comes of it here is not given back to this core's memory server. `dst` gets a mark for it, by which it can come back
        /// ([`op::AdoptHome`]). Of all of a home that was adopted, that goes, and `dst` stays empty.
        /// `HasDescendants`: something is made of it.
        155 CedeHome(
            /// The home.
            home: Place,
            /// Where the part begins in it, a multiple of a page.
            offset: u64,
            /// Its length.
            bytes: u64,
            /// An empty slot.
            dst: Place
        ) -> ();
        /// Memory that another core has ceded, and of which no core has anything, is at home here from now on. `dst` gets home
        /// RAM; or it holds the mark that was left when this core ceded the same range, which goes: then it is a part of
        /// the home that it was of. `HasDescendants`: there is something of it here.
        156 AdoptHome(
            /// Its address, a multiple of a page.
            base: u64,
            /// Its length.
            bytes: u64,
            /// Attributes: the NUMA node.
            attrs: RamAttrs,
            /// An empty slot, or that of the mark.
            dst: Place
        ) -> ();
    }

    Io(IoOp) "Ports" on [Io] {
        /// Reads a port of the invoked range.
        70 PortIn(
            /// Absolute port number.
            port: u16,
            /// 1, 2 or 4 bytes.
            width: u8
        ) -> Value, needs READ;
        /// Writes a port of the invoked range.
        71 PortOut(
            /// Absolute port number.
            port: u16,
            /// 1, 2 or 4 bytes.
            width: u8,
            /// Value.
            value: u32
        ) -> (), needs WRITE;
        /// Writes up to 40 bytes to one port, one after the other.
        72 PortOutBytes(
            /// Absolute port number.
            port: u16,
            /// Bytes used of the words that follow.
            len: u32,
            /// Bytes 0 to 7.
            w0: u64,
            /// Bytes 8 to 15.
            w1: u64,
            /// Bytes 16 to 23.
            w2: u64,
            /// Bytes 24 to 31.
            w3: u64,
            /// Bytes 32 to 39.
            w4: u64
        ) -> (), needs WRITE;
    }

    Irq(IrqOp) "Interrupt lines" on [Irq] {
        /// Notifies somebody whenever the interrupt comes; it is masked until `IrqAck`.
        73 IrqBind(
            /// Bits to set; none ends it.
            bits: u64,
            /// A Dispatcher, or an Endpoint with `SEND`, whose receiver it will be; null: the invoker.
            to: Place
        ) -> ();
        /// Unmasks the interrupt.
        74 IrqAck() -> ();
        /// What a device writes, and where, to raise the interrupt by a message: the address in bits 0..32,
        /// the value (of 32 bits) in bits 32..64. A line that has a pin has no message: `Unsupported`.
        75 IrqMessage() -> Value;
    }

    /// What devices do to memory by themselves. Until a function is attached for the first time its addresses are physical
    /// ones. Each operation but `NextDeviceFault` is of one function.
    PciFunction(PciFunctionOp) "PCI functions" on [PciFunction] {
        /// From now on the function reaches what the DeviceSpace shows, and nothing else, until that is destroyed: then it
        /// reaches nothing. `OutOfRange`: it is not on the first bus. `Unsupported`: it goes round the IOMMU.
        150 AttachFunction(
            /// The DeviceSpace.
            space: Place
        ) -> (), needs WRITE;
        /// From now on the function reaches nothing.
        151 BlockFunction() -> (), needs WRITE;
        /// The oldest request of these functions that was refused and has not been answered before. `Empty` if there is none.
        152 NextDeviceFault() -> DeviceFault, needs READ;
    }

    /// Number 0 is the time-stamp counter, which always runs; from 1 on come the programmable counters, and
    /// from 64 on the fixed ones (instructions, cycles, reference cycles). What the processor lacks is
    /// `Unsupported`.
    PerfMon(PerfMonOp) "Performance counters" on [PerfMon] {
        /// How many programmable (bits 0..8) and fixed counters (bits 8..16) there are, their width in
        /// bits (16..24), the version of the architecture (24..32), and events that are missing (32..64).
        80 PerfInfo() -> Value, needs READ;
        /// Starts a counter at zero, or stops it.
        81 PerfProgram(
            /// Its number.
            counter: u32,
            /// Programmable counters: event in bits 0..8, unit mask in bits 8..16. All: bit 16 counts in
            /// user mode, bit 17 in the kernel; neither stops it.
            event: u64
        ) -> (), needs WRITE;
        /// Reads a counter.
        82 PerfRead(
            /// Its number.
            counter: u32
        ) -> Value, needs READ;
    }

    Monitor(MonitorOp) "The kernel, for the core's monitor" on [Kernel] {
        /// Names the endpoint of the core's monitor. From now on an invocation that this core alone
        /// cannot perform makes its invoker wait as if it had called that endpoint. The message has the
        /// flag [`received::REDIRECTED`], and words: a [`Need`]; the invoker's name; the number of the
        /// request; the address of the slot in question; of a retype the range (address, bytes).
        90 SetMonitor(
            /// An Endpoint with `RECV`, from which the monitor receives.
            endpoint: Place,
            /// Notification bits: something was left that the monitor must delete; see [`op::NextLeft`].
            bits: u64,
            /// An L2CNode, of which all slots belong to the kernel: there it leaves what it finds in
            /// containers that are deleted and cannot delete alone.
            left: Place
        ) -> ();
        /// Performs the invocation of a message with [`received::REDIRECTED`], with the registers that
        /// the invoker had. When it comes to an end the invoker goes on; else it waits on, and the
        /// answer says for what. `Empty` if the invoker is gone.
        91 Proceed(
            /// The invoker's name.
            client: u64,
            /// The number of the request.
            ticket: u64,
            /// No other core has anything in the range of the retype.
            checked: bool
        ) -> Asked;
        /// Ends such an invocation with a status word. `Empty` if the invoker is gone.
        92 Finish(
            /// The invoker's name.
            client: u64,
            /// The number of the request.
            ticket: u64,
            /// The status, 0 for success.
            status: u64
        ) -> ();
        /// The physical address of the slot of a place: the name under which the operations below know
        /// slots.
        93 SlotAt(
            /// The place.
            place: Place
        ) -> Value;
        /// What a slot holds. `Empty` if nothing.
        94 HeldAt(
            /// Address of the slot.
            slot: u64
        ) -> Held;
        /// Deletes what a slot holds, as `Delete` by whoever has it. `Again` as there; what needs other
        /// cores is answered.
        95 DeleteAt(
            /// Address of the slot.
            slot: u64
        ) -> Asked;
        /// The next slot in which the kernel has left something to be deleted; 0 for none that was not
        /// answered before.
        96 NextLeft() -> Value;
        /// Sets the hints of copies, ancestors and descendants, before a copy goes to another core.
        /// `Again` asks to be repeated, also below.
        97 Share(
            /// The capability.
            cap: WireCap
        ) -> ();
        /// Deletes all copies but that in `slot`, and all descendants, when no other core has any; this
        /// core is the owner then. `slot` may hold something else: then any copy stays.
        98 RevokeRest(
            /// Address of the slot, or 0.
            slot: u64,
            /// The capability.
            cap: WireCap
        ) -> ();
        /// Another core has become the owner: makes all copies foreign.
        99 Disown(
            /// The capability.
            cap: WireCap
        ) -> ();
        /// Makes all copies owned, with all hints. Answers 1 if there are any.
        100 Own(
            /// The capability.
            cap: WireCap
        ) -> Value;
        /// Are there copies? 1 for yes.
        101 HasCopy(
            /// The capability.
            cap: WireCap
        ) -> Value;
        /// Deletes the last copy on all cores of what is locked, and destroys the object. Memory within it
        /// is not given back.
        102 DeleteEverywhere(
            /// The capability.
            cap: WireCap
        ) -> ();
        /// Puts a copy that came from another core in a slot.
        103 InsertCopy(
            /// An empty slot.
            dst: Place,
            /// The capability.
            cap: WireCap
        ) -> ();
        /// Does a descendant overlap a range? Of a Morsel: is there any capability to it or to a part, or anything that
        /// shows it? 1 for yes.
        104 InUse(
            /// The capability.
            cap: WireCap,
            /// The range.
            start: u64,
            /// Its length.
            bytes: u64
        ) -> Value;
        /// Locks the capability with its descendants: nobody copies, moves, deletes, revokes or retypes
        /// them, and memory within is not given back. Locking twice does nothing. `NoMemory` if too many
        /// are locked.
        105 Lock(
            /// The capability.
            cap: WireCap
        ) -> ();
        /// Unlocks it.
        106 Unlock(
            /// The capability.
            cap: WireCap
        ) -> ();
        /// Deletes all copies and descendants of what is locked.
        107 Sweep(
            /// The capability.
            cap: WireCap
        ) -> ();
        /// The first part of a range of memory that a capability covers which is no home.
        108 FirstCover(
            /// The range.
            start: u64,
            /// Its length.
            bytes: u64
        ) -> Span;
        /// Memory that no capability of any core covers but a home of this core: gives it to the server.
        109 GiveBack(
            /// The range.
            start: u64,
            /// Its length.
            bytes: u64
        ) -> ();
        /// The other cores that may have objects which they have made, without a message, in a pool of this core: a set.
        114 Makers(
            /// An address in the tree of objects.
            base: u64
        ) -> Value;
    }
}

/// Flags in `r13` after a call, a reply or a receive.
pub mod received {
    /// Bits 0..8: how many capabilities arrived.
    pub const CAPS: u64 = 0xff;
    /// A notification, not a message.
    pub const NOTIFICATION: u64 = 1 << 8;
    /// A fault report by the kernel on behalf of the dispatcher with this badge: words are
    /// vector, error code, address, instruction pointer.
    pub const FAULT: u64 = 1 << 9;
    /// An invocation that needs other cores; see [`op::SetMonitor`](super::op::SetMonitor).
    pub const REDIRECTED: u64 = 1 << 10;
}

/// Bit of `rax`: the capabilities of the message are moved; those that have no place to go stay.
pub const MOVE_CAPS: u64 = 1 << 24;

/// Bit of `rax`, of a call: the caller lends its receiver, until the answer, the bytes of its own memory at the
/// address in word 4, as many as word 5 says, to be read. See [`op::CopyFromCaller`].
pub const LENDS_READ: u64 = 1 << 25;

/// The same, to be written to.
pub const LENDS_WRITE: u64 = 1 << 26;

/// Bit of the error code of a debug exception: a single step.
pub const DEBUG_STEP: u64 = 1 << 14;

/// Options of [`op::Configure`].
pub mod options {
    /// System calls of the enabled dispatcher go to its own library.
    pub const LINUX: u32 = 1;
    /// Vector state is a copy of the invoker's.
    pub const COPY_VECTOR_STATE: u32 = 2;
    /// Starts none that is not supervised.
    pub const SUPERVISED: u32 = 4;
}

/// Notification bit that the kernel sets when a timer expires.
pub const NOTIFY_TIMER: u64 = 1 << 63;
