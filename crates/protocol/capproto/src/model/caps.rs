//! Capabilities, slots and requests in the model. A byte stands for a page.

use crate::{Relations, WireCap};
use captypes::{CapType, RamAttrs};
use std::fmt;

/// Where a capability can be, on one core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In the CSpace that is always there.
    Root(u8),
    /// In the CNode at a page.
    In(u8, u8),
    /// What was found in a dying container.
    Limbo(u8),
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Place::Root(n) => write!(f, "root.{n}"),
            Place::In(page, n) => write!(f, "cnode{page}.{n}"),
            Place::Limbo(n) => write!(f, "limbo.{n}"),
        }
    }
}

impl Place {
    /// As a word for a `Copy`.
    pub fn to_word(self) -> u64 {
        let (kind, a, b) = match self {
            Place::Root(n) => (0, 0, n),
            Place::In(page, n) => (1, page, n),
            Place::Limbo(n) => (2, 0, n),
        };
        kind << 16 | u64::from(a) << 8 | u64::from(b)
    }

    pub fn from_word(word: u64) -> Place {
        let (a, b) = ((word >> 8) as u8, word as u8);
        match word >> 16 {
            0 => Place::Root(b),
            1 => Place::In(a, b),
            _ => Place::Limbo(b),
        }
    }
}

/// What a client asks for. `core` of it is where the client is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Request {
    /// Another copy on this core.
    Copy {
        src: Place,
        dst: Place,
    },
    /// Another copy on core `to`.
    Send {
        src: Place,
        to: u8,
        dst: Place,
    },
    /// Makes `cap` of what `src` holds.
    Retype {
        src: Place,
        cap: Made,
        dst: Place,
    },
    /// Makes `cap` of free memory of this core: the memory server's Retype of its home capability.
    Allocate {
        cap: Made,
        dst: Place,
    },
    Delete {
        at: Place,
    },
    Revoke {
        at: Place,
    },
    /// A capability to all of an object of the pool of this core.
    Open {
        cap: Made,
        dst: Place,
    },
    /// Makes `cap`, a part of the object in `src`. Nobody is asked.
    Part {
        src: Place,
        cap: Made,
        dst: Place,
    },
    /// Makes another object `cap`, which has what that in `src` has.
    Snapshot {
        src: Place,
        cap: Made,
        dst: Place,
    },
    /// Ends the object of which `at` holds all.
    Destroy {
        at: Place,
    },
    /// The pool of this core ends, and another begins.
    Close,
}

impl Request {
    /// The slot that it is about; `None`: the home capability.
    pub fn place(&self) -> Option<Place> {
        match *self {
            Request::Copy { src, .. } | Request::Send { src, .. } => Some(src),
            Request::Retype { src, .. } | Request::Part { src, .. } => Some(src),
            Request::Snapshot { src, .. } => Some(src),
            Request::Allocate { .. } | Request::Open { .. } | Request::Close => None,
            Request::Delete { at } | Request::Revoke { at } | Request::Destroy { at } => Some(at),
        }
    }
}

/// What a Retype makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Made {
    pub ty: u8,
    pub base: u8,
    pub size: u8,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(&Show(self.cap()), f)
    }
}

impl Made {
    pub fn cap(self) -> WireCap {
        memory(self.ty, self.base.into(), self.size.into())
    }

    /// May it be made of `src`? (But for what is in the way.)
    pub fn fits(self, src: &WireCap) -> bool {
        let cap = self.cap();
        if is_morsel(&cap) {
            return is_morsel(src) && is_ancestor(src, &cap);
        }
        let (Some(from), Some(to)) = (src.kind(), cap.kind()) else { return false };
        from.can_retype_to(to) && is_ancestor(src, &cap)
    }
}

pub fn memory(ty: u8, base: u64, size: u64) -> WireCap {
    WireCap { ty, rights: 0, attrs: 0, aux: 0, base, size }
}

/// The home capability of `pages`.
pub fn home_cap(base: u64, size: u64) -> WireCap {
    WireCap { attrs: RamAttrs::HOME.0, ..memory(CapType::Ram as u8, base, size) }
}

/// All objects of a pool.
pub fn all_of_pool() -> WireCap {
    memory(CapType::Morsel as u8, 0, captypes::PAGES_OF_POOL)
}

pub fn is_morsel(cap: &WireCap) -> bool {
    cap.kind() == Some(CapType::Morsel)
}

/// Is it one to all of an object?
pub fn is_whole(cap: &WireCap) -> bool {
    is_morsel(cap) && cap.size == u64::from(super::database::OBJECT)
}

pub fn is_container(cap: &WireCap) -> bool {
    cap.kind().is_some_and(CapType::is_container)
}

pub fn is_copy(a: &WireCap, b: &WireCap) -> bool {
    (a.ty, a.base, a.size, a.attrs) == (b.ty, b.base, b.size, b.attrs)
}

fn rank(cap: &WireCap) -> u8 {
    match cap.attrs & RamAttrs::HOME.0 {
        0 => cap.kind().map_or(0, CapType::rank),
        _ => 0,
    }
}

/// Is `b` made of `a`? Both exist, or `b` could be made of `a`.
pub fn is_ancestor(a: &WireCap, b: &WireCap) -> bool {
    let larger = a.size > b.size || a.size == b.size && rank(a) < rank(b);
    a.region().contains(b.region()) && larger
}

/// A capability in few letters.
pub struct Show(pub WireCap);

impl fmt::Debug for Show {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = self.0.kind().map_or("?", CapType::name);
        write!(f, "{name}[{}+{}]", self.0.base, self.0.size)
    }
}
