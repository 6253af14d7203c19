//! The monitor of a core: whatever concerns several cores.
//!
//! Monitors talk through shared memory, each pair through two rings ([`ump`]). This one never waits
//! for anybody: it does what has come, and when nothing has come for a while it sleeps until another
//! core rings or a domain of this core calls.
//!
//! | file | what |
//! |---|---|
//! | `peers` | the rings to the other monitors, and what is said there |
//! | `calls` | what domains of this core ask for |
//! | `local` | what follows from that, and from what other monitors say |
//! | `clients` | the domains of this core that use the monitor, and when they have gone |
//! | `protocol` | capabilities that several cores have |
//! | `mail` | capabilities that were sent to domains of this core |
//! | `lending` | memory that one core's server lends to another's |
//! | `jobs` | programs that are started for others, by `spawnd` |
//! | `tickets` | what was begun for a domain of this core, and its result |
#![no_std]
#![no_main]

extern crate alloc;

mod calls;
mod clients;
mod jobs;
mod lending;
mod local;
mod mail;
mod peers;
mod protocol;
mod tickets;

use clients::Clients;
use core::ops::Range;
use libos::abi::slots::{DISPATCHER, KERNEL, MEMD, SELF_EP};
use libos::cores::monitor;
use libos::interface::{self, Inbox, Incoming, Packet};
use libos::ram::Arena;
use libos::runtime::Start;
use libos::{domain, invoke, log, memd, op, RamAttrs, Status};
use local::State;
use peers::{Peers, ROUNDS};
use protocol::Protocol;
use ump::Patience;

libos::program!(main);

/// The notification: another core rang.
const RUNG: u64 = 1;
/// The notification: the kernel has left something to be deleted.
const LEFT: u64 = 2;
/// The notification: a client has gone.
const GONE: u64 = 4;
/// RAM for all that the monitor will ever keep. It takes it at the start, for it must not wait for the
/// memory server later: that one may wait for the monitor.
const OWN_BYTES: u64 = 1 << 20;
/// Requests of this core that are served before the rings are looked at again.
const AT_ONCE: usize = 16;

fn main(start: Start) {
    let [core, cores, online, base, bytes] = start.args;
    if let Err(error) = run(core as u32, cores as u32, online, base..base.saturating_add(bytes)) {
        log!("the monitor of core {core} has ended: {error:?}");
    }
}

fn run(core: u32, cores: u32, online: u64, home: Range<u64>) -> Result<(), Status> {
    take_memory()?;
    invoke(DISPATCHER, op::SetAffinity { mask: 1 << core })?;
    invoke(KERNEL, op::NotifyRung { bits: RUNG })?;
    // Calls find it, and notifications.
    invoke(SELF_EP, op::Listen { bits: 0 })?;
    // What cannot be deleted at once must not keep anybody waiting.
    interface::leave_undeleted();
    let mut inbox = Inbox::new();
    let mut peers = Peers::map(core, cores, online)?;
    let homes = peers.exchange_homes(home)?;
    let mut state = State::new(peers, Protocol::begin(core, homes, LEFT)?, Clients::new(GONE));
    let mut patience = Patience::new(ROUNDS);
    loop {
        // The others are told last of all that was sent.
        if state.work() | state.serve_peers() {
            serve_calls(&mut state, &mut inbox)?;
            patience.reset();
        } else if !state.peers.wait_awhile(&mut patience) {
            // Until another core is heard of again, there is nobody to wait for awake.
            sleep(&mut state, &mut inbox)?;
        }
    }
}

fn take_memory() -> Result<(), Status> {
    let slot = domain::with(|domain| domain.slot())?;
    memd::alloc(MEMD, OWN_BYTES, 0, RamAttrs(0), slot)?;
    domain::with(|domain| {
        domain.arena.release()?;
        domain.arena = Arena::over(slot, 0, OWN_BYTES);
        Ok(())
    })
}

/// Serves what domains of this core have asked for.
fn serve_calls(state: &mut State, inbox: &mut Inbox) -> Result<(), Status> {
    for _ in 0..AT_ONCE {
        if !interface::serve_one(SELF_EP, inbox, |incoming| handle(state, incoming))? {
            break;
        }
    }
    Ok(())
}

/// Sleeps until there is something to do.
fn sleep(state: &mut State, inbox: &mut Inbox) -> Result<(), Status> {
    state.peers.sleeper().announce();
    if state.peers.is_ready() {
        state.peers.sleeper().cancel();
        return Ok(());
    }
    interface::wait_one(SELF_EP, inbox, |incoming| {
        state.peers.sleeper().cancel();
        handle(state, incoming)
    })
}

fn handle(state: &mut State, incoming: Incoming) -> Option<Packet> {
    match incoming {
        Incoming::Request(from, mut request) => {
            let answer = monitor::dispatch(state, from, &mut request);
            Some(answer.unwrap_or_else(Packet::error))
        }
        Incoming::Redirected(words) => {
            state.redirected(words);
            None
        }
        // The rings are looked at anyway.
        Incoming::Notification(bits) => {
            if bits & LEFT != 0 {
                state.look_for_left();
            }
            if bits & GONE != 0 {
                state.look_for_gone();
            }
            None
        }
        Incoming::Fault(_) => None,
    }
}
