//! What monitors say to one another, and how it looks on a channel.
//!
//! | word | contents |
//! |---|---|
//! | 0 | bits 0..8 kind, 8..16 tree, 16..24 detail, 32..64 number of the operation |
//! | 1 | capability: bits 0..8 type, 8..16 rights, 16..32 attributes, 32..64 `aux` |
//! | 2, 3 | capability: base, size |
//! | 4, 5 | region: base, end; or a set of cores; or a place |
//! | 6 | zero |
//!
//! What a kind does not use is zero. With the channel's own header that is one cache line.

use crate::{CoreId, Cores, Region, WireCap, MAX_CORES};
use captypes::Status;

/// Words of a message.
pub const WORDS: usize = 7;

/// Number of an operation, chosen by the core that coordinates it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct OpId(pub u32);

/// What the home learns when an operation ends, about the region that was locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// Nothing new.
    Same,
    /// This core, too, may have something of it now.
    Sent(CoreId),
    /// Only the core that coordinated has anything of it.
    Alone,
    /// Nobody has anything of it.
    Gone,
}

/// A message. Those that answer name the operation of the core that asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// To the home: an operation wants the region for itself. `rank`: that of the capability that it
    /// is about, if that has this region.
    Lock { op: OpId, region: Region, rank: u8 },
    /// From the home: it has it. `others`: the cores that may have something that overlaps it.
    Granted { op: OpId, others: Cores },
    /// To the home: the operation has ended.
    Unlock { op: OpId, change: Change },
    /// Put this copy there.
    Copy { op: OpId, cap: WireCap, place: u64 },
    /// Answer to `Copy`: did it work?
    Copied { op: OpId, error: Option<Status> },
    /// Has anything been made of `part` of this?
    Check { op: OpId, cap: WireCap, part: Region },
    /// Answer to `Check`.
    Checked { op: OpId, in_use: bool },
    /// Is there a copy of this? With `take`: if so, be the owner.
    Find { op: OpId, cap: WireCap, take: bool },
    /// Answer to `Find`. `cover`: the first part of it that something covers, for memory.
    Found { op: OpId, copy: bool, cover: Option<Region> },
    /// Nobody may use copies and descendants of this any more.
    Mark { op: OpId, cap: WireCap },
    /// Answer to `Mark`.
    Marked { op: OpId },
    /// Delete all copies and descendants of this.
    Sweep { op: OpId, cap: WireCap },
    /// Answer to `Sweep`. `cover`: as in `Found`.
    Swept { op: OpId, cover: Option<Region> },
    /// Which is the first part of this memory that something covers?
    Cover { op: OpId, region: Region },
    /// Answer to `Cover`.
    Covered { op: OpId, cover: Option<Region> },
    /// To the home: nothing covers this memory any more.
    GiveBack { region: Region },
}

/// Why seven words are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// No message has this kind.
    Kind(u8),
    /// The detail is none that this kind has.
    Detail(u8),
    /// A capability of this type cannot travel.
    Type(u8),
    /// A region that is empty.
    Region,
    /// Something is set that this kind does not use.
    Excess,
}

const NO_CAP: [u64; 3] = [0; 3];

impl Message {
    /// The operation that it belongs to; `None` for `GiveBack`, which belongs to none.
    pub const fn op(&self) -> Option<OpId> {
        use Message::*;
        match *self {
            Lock { op, .. } | Granted { op, .. } | Unlock { op, .. } | Copy { op, .. } => Some(op),
            Copied { op, .. } | Check { op, .. } | Checked { op, .. } | Find { op, .. } => Some(op),
            Found { op, .. } | Mark { op, .. } | Marked { op } | Sweep { op, .. } => Some(op),
            Swept { op, .. } | Cover { op, .. } | Covered { op, .. } => Some(op),
            GiveBack { .. } => None,
        }
    }

    /// The words for the channel.
    pub fn encode(&self) -> [u64; WORDS] {
        use Message::*;
        let none = [0; 2];
        let op = self.op().unwrap_or(OpId(0));
        let (kind, detail, cap, tail, tree) = match *self {
            Lock { region, rank, .. } => (1, rank, NO_CAP, span(region), region.tree),
            Granted { others, .. } => (2, 0, NO_CAP, [others.0, 0], 0),
            Unlock { change, .. } => (3, change_code(change), NO_CAP, none, 0),
            Copy { cap, place, .. } => (4, 0, cap_words(&cap), [place, 0], 0),
            Copied { error, .. } => (5, error.map_or(0, |e| e as u8), NO_CAP, none, 0),
            Check { cap, part, .. } => (6, 0, cap_words(&cap), span(part), part.tree),
            Checked { in_use, .. } => (7, u8::from(in_use), NO_CAP, none, 0),
            Find { cap, take, .. } => (8, u8::from(take), cap_words(&cap), none, 0),
            Found { copy, cover, .. } => {
                let (some, tail, tree) = cover_words(cover);
                (9, u8::from(copy) | some << 1, NO_CAP, tail, tree)
            }
            Mark { cap, .. } => (10, 0, cap_words(&cap), none, 0),
            Marked { .. } => (11, 0, NO_CAP, none, 0),
            Sweep { cap, .. } => (12, 0, cap_words(&cap), none, 0),
            Swept { cover, .. } => {
                let (some, tail, tree) = cover_words(cover);
                (13, some, NO_CAP, tail, tree)
            }
            Cover { region, .. } => (14, 0, NO_CAP, span(region), region.tree),
            Covered { cover, .. } => {
                let (some, tail, tree) = cover_words(cover);
                (15, some, NO_CAP, tail, tree)
            }
            GiveBack { region } => (16, 0, NO_CAP, span(region), region.tree),
        };
        let head = kind | u64::from(tree) << 8 | u64::from(detail) << 16 | u64::from(op.0) << 32;
        [head, cap[0], cap[1], cap[2], tail[0], tail[1], 0]
    }

    /// The message in these words. Whatever they are, this does no harm; and every message is
    /// encoded in one way only.
    pub fn decode(words: &[u64; WORDS]) -> Result<Message, Malformed> {
        let message = Self::parse(words)?;
        match message.encode() == *words {
            true => Ok(message),
            false => Err(Malformed::Excess),
        }
    }

    fn parse(words: &[u64; WORDS]) -> Result<Message, Malformed> {
        use Message::*;
        let [head, c0, c1, c2, t0, t1, _] = *words;
        let (op, detail) = (OpId((head >> 32) as u32), (head >> 16) as u8);
        let flag = || if detail < 2 { Ok(detail == 1) } else { Err(Malformed::Detail(detail)) };
        let cap = || wire_cap(c0, c1, c2);
        let region = || match t0 < t1 {
            true => Ok(Region { tree: (head >> 8) as u8, base: t0, end: t1 }),
            false => Err(Malformed::Region),
        };
        let cover = |some: bool| if some { region().map(Some) } else { Ok(None) };
        Ok(match head as u8 {
            1 => Lock { op, region: region()?, rank: detail },
            2 => Granted { op, others: Cores(t0) },
            3 => Unlock { op, change: change_of(detail)? },
            4 => Copy { op, cap: cap()?, place: t0 },
            5 => Copied { op, error: Status::from_word(u64::from(detail)).err() },
            6 => Check { op, cap: cap()?, part: region()? },
            7 => Checked { op, in_use: flag()? },
            8 => Find { op, cap: cap()?, take: flag()? },
            9 if detail < 4 => Found { op, copy: detail & 1 != 0, cover: cover(detail & 2 != 0)? },
            9 => return Err(Malformed::Detail(detail)),
            10 => Mark { op, cap: cap()? },
            11 => Marked { op },
            12 => Sweep { op, cap: cap()? },
            13 => Swept { op, cover: cover(flag()?)? },
            14 => Cover { op, region: region()? },
            15 => Covered { op, cover: cover(flag()?)? },
            16 => GiveBack { region: region()? },
            kind => return Err(Malformed::Kind(kind)),
        })
    }
}

fn span(region: Region) -> [u64; 2] {
    [region.base, region.end]
}

fn cover_words(cover: Option<Region>) -> (u8, [u64; 2], u8) {
    cover.map_or((0, [0; 2], 0), |region| (1, span(region), region.tree))
}

fn cap_words(cap: &WireCap) -> [u64; 3] {
    [cap.head(), cap.base, cap.size]
}

fn wire_cap(head: u64, base: u64, size: u64) -> Result<WireCap, Malformed> {
    let ty = head as u8;
    let (rights, attrs) = ((head >> 8) as u8, (head >> 16) as u16);
    let cap = WireCap { ty, rights, attrs, aux: (head >> 32) as u32, base, size };
    match cap.kind() {
        Some(kind) if kind.can_be_copied() => Ok(cap),
        _ => Err(Malformed::Type(ty)),
    }
}

const SENT: u8 = 0x40;

fn change_code(change: Change) -> u8 {
    match change {
        Change::Same => 0,
        Change::Alone => 1,
        Change::Gone => 2,
        Change::Sent(core) => SENT | (core.0 % MAX_CORES),
    }
}

fn change_of(detail: u8) -> Result<Change, Malformed> {
    match detail {
        0 => Ok(Change::Same),
        1 => Ok(Change::Alone),
        2 => Ok(Change::Gone),
        SENT..=0x7f => Ok(Change::Sent(CoreId(detail & (SENT - 1)))),
        _ => Err(Malformed::Detail(detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use captypes::CapType;
    use proptest::prelude::*;

    fn regions() -> impl Strategy<Value = Region> {
        (0..6u8, any::<u64>(), 1..u64::MAX).prop_map(|(tree, a, b)| {
            let base = a.min(u64::MAX - 1);
            Region { tree, base, end: base.saturating_add(b) }
        })
    }

    fn caps() -> impl Strategy<Value = WireCap> {
        let copied = CapType::ALL.iter().filter(|ty| ty.can_be_copied()).map(|&ty| ty as u8);
        let types = prop::sample::select(copied.collect::<Vec<_>>());
        (types, any::<(u8, u16, u32, u64, u64)>()).prop_map(
            |(ty, (rights, attrs, aux, base, size))| WireCap { ty, rights, attrs, aux, base, size },
        )
    }

    fn messages() -> impl Strategy<Value = Message> {
        use Message::*;
        let ops = any::<u32>().prop_map(OpId);
        let changes = prop_oneof![
            Just(Change::Same),
            Just(Change::Alone),
            Just(Change::Gone),
            (0..MAX_CORES).prop_map(|core| Change::Sent(CoreId(core)))
        ];
        let errors = prop::option::of(prop::sample::select(Status::ALL));
        let cover = prop::option::of(regions());
        (0..16u8, ops, caps(), regions(), (cover, errors, changes), any::<(u64, bool)>()).prop_map(
            |(kind, op, cap, region, (cover, error, change), (word, flag))| match kind {
                0 => Lock { op, region, rank: word as u8 },
                1 => Granted { op, others: Cores(word) },
                2 => Unlock { op, change },
                3 => Copy { op, cap, place: word },
                4 => Copied { op, error },
                5 => Check { op, cap, part: region },
                6 => Checked { op, in_use: flag },
                7 => Find { op, cap, take: flag },
                8 => Found { op, copy: flag, cover },
                9 => Mark { op, cap },
                10 => Marked { op },
                11 => Sweep { op, cap },
                12 => Swept { op, cover },
                13 => Cover { op, region },
                14 => Covered { op, cover },
                _ => GiveBack { region },
            },
        )
    }

    /// Words that begin like a message, so that not only the first test of `decode` is reached.
    fn garbage() -> impl Strategy<Value = [u64; WORDS]> {
        let head =
            (0..20u64, 0..8u64, 0..130u64, any::<u32>()).prop_map(|(kind, tree, detail, op)| {
                kind | tree << 8 | detail << 16 | u64::from(op) << 32
            });
        (head, any::<[u64; 6]>(), any::<u8>()).prop_map(|(head, tail, zeros)| {
            let mut words = [head; WORDS];
            for (at, word) in tail.into_iter().enumerate() {
                words[at + 1] = if zeros & 1 << at != 0 { 0 } else { word };
            }
            words
        })
    }

    proptest! {
        #[test]
        fn decode_inverts_encode(message in messages()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn what_decodes_has_one_encoding(words in garbage()) {
            if let Ok(message) = Message::decode(&words) {
                prop_assert_eq!(message.encode(), words);
            }
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let word = |head: u64| [head, 0, 0, 0, 0, 0, 0];
        assert_eq!(Message::decode(&word(0)), Err(Malformed::Kind(0)));
        assert_eq!(Message::decode(&word(200)), Err(Malformed::Kind(200)));
        assert_eq!(Message::decode(&word(3 | 9 << 16)), Err(Malformed::Detail(9)));
        assert_eq!(Message::decode(&word(10)), Err(Malformed::Type(0)));
        assert_eq!(Message::decode(&word(16)), Err(Malformed::Region));
        assert_eq!(Message::decode(&[11, 0, 0, 0, 0, 0, 1]), Err(Malformed::Excess));
    }
}
