//! What the protocol needs of the world: steps of the CPU driver, messages, answers.

use crate::{CoreId, Cores, Message, Region, WireCap};
use captypes::Status;

/// Is a step done, or must it be repeated? Every event of a CPU driver is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    /// It is.
    Done,
    /// Part of it is. [`Monitor::work`](crate::Monitor::work) repeats it.
    Again,
}

/// What a redirected invocation needs of other cores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Need {
    /// A copy on core `to`. `place` is a word that only the CPU drivers understand: where to.
    Send { to: CoreId, place: u64 },
    /// Nobody has made anything of `part` of the capability; of a Morsel: nobody else has anything of it.
    Retype { part: Region },
    /// The last copy of this core, which owns it, is to go.
    Delete,
    /// All copies but this one are to go, and all descendants.
    Revoke,
}

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Attempt<A> {
    /// This core alone could do it, or refuse it: the answer for the client.
    Done(A),
    /// A capability concerned is [locked](CpuDriver::lock). Nothing was done that cannot be repeated.
    Locked,
    /// Other cores must do their part before it can go on. `cap`: what the slot concerned holds.
    Remote { cap: WireCap, need: Need },
}

/// What a slot named by a request holds now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    /// This core owns it.
    pub owned: bool,
    /// No other slot of this core holds a copy.
    pub alone: bool,
    /// The hint that other cores may have copies.
    pub remote_copies: bool,
    /// The hint that other cores may have descendants.
    pub remote_descendants: bool,
}

/// The capability database of one core, in steps.
///
/// Each function is one atomic step: no invocation of a local dispatcher comes between its parts
/// unless it answers [`Progress::Again`], and then only between two calls. *Copies*, *descendants* and
/// *ancestors* are those in the database of this core, without home capabilities and without Mappings
/// unless it says so; *a copy of `cap`* means equal in all but rights and attributes. "May do nothing"
/// means that it finds nothing to do and that this is no error.
///
/// # Owner and hints
///
/// A slot has an *owned* bit, the same in all copies on a core, and three hints that are never wrong
/// when they are clear:
///
/// | hint, of an owned capability | other cores may have |
/// |---|---|
/// | `RC` | copies |
/// | `RD` | descendants |
/// | `RA` | ancestors, other than homes |
///
/// A *foreign* copy, one without the owned bit, needs no hints: it counts as having all three.
/// A slot copied or moved locally has what the source has. What is made by a retype is owned, and
/// has `RA` if its source was foreign or had `RC` or `RA`. Everything is owned, without hints, at boot.
///
/// # What the CPU driver does alone
///
/// If nothing concerned is locked (below), and with `last` = owned, without copies on this core:
///
/// | invocation | alone when | else it is redirected and `attempt` answers |
/// |---|---|---|
/// | Copy, Mint, Move, Map, … | always | |
/// | Retype | owned and no `RD` | `Remote { need: Retype }` |
/// | Revoke | owned and no `RC`, no `RD` | `Remote { need: Revoke }` |
/// | Delete, not `last` | always | |
/// | Delete, `last`, an ancestor on this core | no `RC` | `Remote { need: Delete }` |
/// | Delete, `last`, no ancestor on this core | no `RC`, and not memory with `RD` or `RA` | `Remote { need: Delete }` |
/// | to another core | never | `Remote { need: Send }` |
/// | Delete of a Morsel | always | |
/// | Destruction of what a Morsel stands for | owned and no `RC`, no `RD` | `Remote { need: Retype }`, of all of it |
/// | a snapshot | always; elsewhere than on the core of the pool it is foreign | |
/// | Delete of all objects of a pool, which other cores may have | never | `Remote { need: Delete }` |
///
/// A Morsel needs no owner, and only the pool's core is one: elsewhere each is foreign. So is what is made of one that is foreign
/// or has `RC` or `RD`, and what is opened after something of the object was sent and nothing of it is here. `share` sets all hints of the
/// descendants, and `revoke` leaves a Morsel foreign but for all of an object on the pool's core.
///
/// Memory of which this core is not the home always has `RA`: it came from elsewhere.
/// A home capability gets `RD` like any other ancestor in [`share`](Self::share).
///
/// What destroys a container and finds in it something of which the delete is not local, or that is
/// locked (even if there are copies), *moves* it to a free slot of the monitor and reports it: the
/// monitor calls [`Monitor::request`](crate::Monitor::request) with no client and a request that deletes
/// that slot. So a container never waits for another core. If no such slot is free, the step answers
/// `Again` until one is. A container covers its memory until it is empty. If nothing on this core covers
/// it then, for what did was inside, and it has `RA`, its own capability is moved to such a slot.
pub trait CpuDriver {
    /// A redirected invocation. It names slots; every step looks anew at what they hold.
    type Request: Clone;
    /// What the client gets.
    type Answer: From<Result<(), Status>>;

    /// The core whose monitor keeps the books of `cap`: for memory that whose home capability covers
    /// it, for all else any fixed core. All cores answer the same. `None`: more than one; nothing
    /// remote can be done with it.
    fn home(&self, cap: &WireCap) -> Option<CoreId>;

    // The core of the client.

    /// Does the request as if it had just been invoked, if it can be done on this core alone, and
    /// else does nothing. (A request for many slots does those that come before the first that
    /// cannot, and `cap` is of that.)
    fn attempt(&mut self, request: &Self::Request) -> Attempt<Self::Answer>;

    /// What the slot of the request that needs others holds, if it is still a copy of `cap`.
    fn held(&mut self, request: &Self::Request, cap: &WireCap) -> Option<Held>;

    /// Before a copy goes to another core: sets `RC` and `RD` in the copies of `cap`, `RD` in their
    /// ancestors (homes too) and `RA` in their descendants. `Again` leaves some unset.
    fn share(&mut self, cap: &WireCap) -> Progress;

    /// Does a Retype of which all others have agreed that they have nothing made of that part. Looks
    /// at this core itself. `Again` in the answer is for the client, as on one core.
    fn retype(&mut self, request: &Self::Request) -> Attempt<Self::Answer>;

    /// The local part of a Revoke, when no other core has a copy or descendant: deletes all copies of
    /// `cap` but one, and all descendants, locked or not. The one is the slot of the request, or if
    /// that was in a container which has died since, the slot of the monitor that it was moved to.
    /// What remains is owned, without `RC` and `RD`. No memory within `cap` is given back.
    fn revoke(&mut self, request: &Self::Request, cap: &WireCap) -> Progress;

    /// Makes the copies of `cap` foreign: another core has become the owner.
    fn disown(&mut self, cap: &WireCap);

    /// Deletes the last copy of `cap` of all cores, which is on this one (in the slot of the request
    /// or a slot of the monitor), and destroys the object. `cap` is locked. Memory within `cap` is not
    /// given back, for the monitor does that after it has asked who else covers parts of it.
    fn delete_last(&mut self, request: &Self::Request, cap: &WireCap) -> Progress;

    // Every core.

    /// Puts a copy of `cap` in a slot: like the copies on this core if there are any, else foreign.
    fn insert(&mut self, cap: &WireCap, place: u64) -> Result<(), Status>;

    /// Does a descendant of `cap` overlap `part`? (What is neither a copy nor an ancestor of `cap`,
    /// with Mappings as far as they are in the way of a Retype.) Of a Morsel, which is to be destroyed: is there anything of it? If there
    /// is nothing on the core of its pool, [`retype`](Self::retype) does nothing once it was opened there again.
    fn in_use(&mut self, cap: &WireCap, part: Region) -> bool;

    /// If there are copies of `cap`: makes them owned, with all hints. Were there any?
    fn own(&mut self, cap: &WireCap) -> bool;

    /// Is there a copy of `cap`?
    fn has_copy(&mut self, cap: &WireCap) -> bool;

    /// Locks the copies and descendants of `cap`: invocations that would copy, move, mint, map,
    /// retype, delete or revoke one are redirected, until [`unlock`](Self::unlock). Those that arrive
    /// or are made later are locked too. At most [`MAX_LOCKS`](crate::MAX_LOCKS) at a time, of regions
    /// that never overlap; locking the same twice does nothing.
    fn lock(&mut self, cap: &WireCap);

    /// Ends what `lock` with the same `cap` began. May do nothing.
    fn unlock(&mut self, cap: &WireCap);

    /// Deletes all copies and descendants of `cap`, locked or not, also in slots of the monitor, and
    /// destroys what is only held by them, without giving memory within `cap` back. `cap` is locked.
    fn sweep(&mut self, cap: &WireCap) -> Progress;

    /// On the core of a pool: the other cores that may have objects of it at `region` which they have made, of which the books do
    /// not know.
    fn makers(&mut self, region: Region) -> Cores;

    /// The part of `region`, memory, that the first capability (no home, no Mapping) overlapping it
    /// covers: the one with the lowest start.
    fn first_cover(&mut self, region: Region) -> Option<Region>;

    /// Nothing on any core covers `region` any more but a home of this core: gives it to its server.
    fn give_back(&mut self, region: Region);
}

/// Where messages and answers go.
pub trait Outside: CpuDriver {
    /// Who waits for an answer.
    type Client;

    /// Sends a message to another core. Messages between two cores arrive once and in order.
    fn send(&mut self, to: CoreId, message: Message);
    /// Ends the invocation of `client`; may find that there is no such client any more.
    fn finish(&mut self, client: Self::Client, answer: Self::Answer);
}
