//! What is lent with a call, as long as the call lasts.
//!
//! A caller names bytes of its own memory in its message, by their addresses, and says whether they are to be read or
//! written to. That is all: nothing is looked up or noted down then, and nothing when the answer ends it. While the
//! caller waits, whoever has received the call may have the kernel copy. Each copy walks the caller's own tables,
//! as the processor would for the caller itself: so nothing is copied that it could not read, or
//! written to what it could not write to as it stands, and what has changed since the call was made has changed.
//!
//! A caller that has come from another core has its tables there. They are walked here all the same, as long as
//! the copy lasts, and its home sees that: whatever it takes away of them is nobody else's before the copy has ended
//! ([`shootdown`]).

use crate::driver::CpuDriver;
use crate::morsels::while_walking;
use crate::object::dcb::flag;
use crate::object::{mem, DcbRef, EndpointRef, Walk};
use captypes::invocations::Copied;
use captypes::{op, Status};
use shootdown::Walking;

/// Most bytes that one invocation copies.
const MOST_COPIED: u64 = 256 << 10;

/// Bytes that a caller has lent.
#[derive(Clone, Copy)]
pub struct Lent {
    root: u64,
    va: u64,
    bytes: u64,
    /// The tables are another core's.
    afar: bool,
}

impl Lent {
    /// What `caller` has lent to `server` to be used as one of the `LENDS_*` bits says.
    pub fn of(server: DcbRef, caller: DcbRef, right: u64) -> Result<Lent, Status> {
        EndpointRef::of_call(server, caller).ok_or(Status::WrongState)?;
        // Of these the registers are no message.
        if caller.has(flag::FAULT) || caller.has(flag::REDIRECTED) {
            return Err(Status::WrongState);
        }
        if caller.ctx.rax.get() & right == 0 {
            return Err(Status::NoRights);
        }
        let [.., va, bytes] = caller.ctx.words();
        Ok(Lent { root: caller.root.get(), va, bytes, afar: caller.has(flag::ABROAD) })
    }

    /// The root that is walked here and is another core's, or 0.
    fn root_afar(&self) -> u64 {
        if self.afar {
            self.root
        } else {
            0
        }
    }

    /// The address `offset` bytes on, and how many bytes there are from there.
    fn rest(&self, offset: u64) -> Option<(u64, u64)> {
        let left = self.bytes.checked_sub(offset)?;
        self.va.checked_add(self.bytes)?;
        Some((self.va + offset, left))
    }
}

/// One side of a copy: its pages from an address on, and how many bytes.
struct Side {
    walk: Walk,
    va: u64,
    bytes: u64,
}

impl Side {
    fn lent(lent: Lent, offset: u64, write: bool) -> Option<Side> {
        let (va, bytes) = lent.rest(offset)?;
        let walk = Walk::new(lent.root, write);
        Some(Side { walk: if lent.afar { walk.afar() } else { walk }, va, bytes })
    }

    fn own(server: DcbRef, va: u64, write: bool) -> Option<Side> {
        Some(Side { walk: Walk::new(server.root.get(), write), va, bytes: u64::MAX })
    }

    /// The next byte, and how many there are in the same page.
    #[inline(always)]
    fn piece(&mut self, done: u64) -> Option<(u64, u64)> {
        let left = self.bytes - done;
        if left == 0 {
            return None;
        }
        let (at, here) = self.walk.page(self.va.wrapping_add(done))?;
        Some((at, here.min(left)))
    }
}

/// Lets the homes of guests know whose tables are walked here.
#[inline]
fn announce(cpu: &CpuDriver, lent: &[Lent]) -> Option<Walking<'static>> {
    if lent.iter().all(|lent| !lent.afar) {
        return None;
    }
    let root = |n: usize| lent.get(n).map_or(0, Lent::root_afar);
    Some(cpu.core.walk_afar([root(0), root(1)]))
}

/// See [`op::CopyFromCaller`].
pub fn copy_out(cpu: &CpuDriver, server: DcbRef, lent: Lent, args: op::CopyFromCaller) -> Copied {
    let _walking = announce(cpu, &[lent]);
    let sides = (Side::lent(lent, args.offset, false), Side::own(server, args.to, true));
    copy(cpu, sides, args.bytes, |lent, own, bytes| mem::copy_bytes(own, lent, bytes))
}

/// See [`op::CopyToCaller`].
pub fn copy_in(cpu: &CpuDriver, server: DcbRef, lent: Lent, args: op::CopyToCaller) -> Copied {
    let _walking = announce(cpu, &[lent]);
    let sides = (Side::lent(lent, args.offset, true), Side::own(server, args.from, false));
    copy(cpu, sides, args.bytes, mem::copy_bytes)
}

/// See [`op::CopyBetween`].
pub fn copy_between(cpu: &CpuDriver, from: Lent, to: Lent, args: op::CopyBetween) -> Copied {
    let _walking = announce(cpu, &[from, to]);
    let sides = (Side::lent(from, args.offset, false), Side::lent(to, args.to_offset, true));
    copy(cpu, sides, args.bytes, |from, to, bytes| mem::copy_bytes(to, from, bytes))
}

/// Piece by piece: `step` copies so many bytes between a place of the first side and one of the second.
#[inline]
fn copy(
    cpu: &CpuDriver,
    sides: (Option<Side>, Option<Side>),
    bytes: u64,
    step: impl Fn(u64, u64, u64),
) -> Copied {
    let _allowed = cpu.sched.vector_unit().borrow();
    let (mut first, mut second) = match sides {
        (Some(first), Some(second)) => (first, second),
        (None, _) => return Copied { bytes: 0, short: 1 },
        (_, None) => return Copied { bytes: 0, short: 2 },
    };
    let limit = bytes.min(MOST_COPIED);
    while_walking(cpu.core, || {
        let mut done = 0;
        while done < limit {
            let Some((one, here)) = first.piece(done) else {
                return Copied { bytes: done, short: 1 };
            };
            let Some((other, there)) = second.piece(done) else {
                return Copied { bytes: done, short: 2 };
            };
            let bytes = here.min(there).min(limit - done);
            step(one, other, bytes);
            done += bytes;
        }
        Copied { bytes: done, short: 0 }
    })
}
