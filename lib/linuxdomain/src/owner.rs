//! What a server does that decides whether a process runs: it alone has a capability to the process's dispatchers and root with the
//! right to revoke them, and what it hands back lacks that right.

use crate::{at, ROOT_BYTES};
use abi::slots;
use captypes::invocations::{options, Identity};
use captypes::{op, CapAddr, CapType, Place, Rights, Status};
use libos::{invoke, Cap};

/// Rights of a process to its own dispatchers and root: all but `REVOKE`.
pub const OWN: Rights = Rights(Rights::ALL.0 & !Rights::REVOKE.0);

/// Most invocations for a root that takes the place of another, so that nobody else waits longer. The kernel copies or redirects
/// 160 capabilities in each. An honest process needs three at most: its root holds 64 capabilities, and
/// there is one to that for each of its 240 threads and a few more.
const MOST_EVENTS: usize = 8;

/// May this server take what has come: is it of this type, may it be revoked, and has nobody else one, on any core? `WrongType`, `NoRights`.
pub fn check_sole(cap: CapAddr, ty: CapType) -> Result<(), Status> {
    const OTHERS: u64 = Identity::COPIES | Identity::REMOTE_COPIES | Identity::FOREIGN;
    let what = cap.identify()?;
    if what.ty != ty {
        return Err(Status::WrongType);
    }
    if what.relations & OTHERS != 0 || !what.rights.has(Rights::REVOKE) {
        return Err(Status::NoRights);
    }
    Ok(())
}

/// Gives a dispatcher its CSpace, if one is named, and where its faults are reported. `more` are options of `Configure`.
pub fn watch(
    dispatcher: CapAddr,
    cspace: Place,
    endpoint: CapAddr,
    more: u32,
) -> Result<(), Status> {
    let configure = op::Configure {
        cspace,
        vspace: Place::NULL,
        frame: Place::NULL,
        frame_va: 0,
        fault_ep: endpoint.into(),
        options: more | options::SUPERVISED,
    };
    invoke(dispatcher, configure)
}

/// The same of the first dispatcher of a domain, which gets capabilities to itself.
pub fn settle(
    (dispatcher, root): (CapAddr, CapAddr),
    endpoint: CapAddr,
    more: u32,
) -> Result<(), Status> {
    watch(dispatcher, root.into(), endpoint, more)?;
    root.mint(at(root, slots::ROOT), OWN)?;
    dispatcher.mint(at(root, slots::DISPATCHER), OWN)
}

/// Puts the root at `new`, of which this is the only capability, in the place of `own`, which is smaller.
///
/// # Errors
/// `Invalid`: it is something else. `Again`: that is not done after some invocations. Some capabilities are to the new root
/// then, others still to the old one: who has made so many is to be ended.
pub fn grow_root(own: CapAddr, new: CapAddr) -> Result<(), Status> {
    let bytes = |root: CapAddr| root.identify().map(|what| what.bytes);
    if bytes(new)? != ROOT_BYTES || bytes(own)? >= ROOT_BYTES {
        return Err(Status::Invalid);
    }
    for _ in 0..MOST_EVENTS {
        match invoke(own, op::Resize { root: new.into() }) {
            Err(Status::Again) => {}
            done => return done,
        }
    }
    Err(Status::Again)
}
