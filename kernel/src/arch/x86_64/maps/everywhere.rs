//! Every core is asked to forget a window, as a kernel does whose short-lived mappings are at addresses that all cores
//! share: what the mapping cache is compared with.
//!
//! The protocol is that of other translations, on ports of its own, since a window is given back in the middle of an
//! event. Whoever waits for something answers here too (`ThisCore::answer_shootdowns`), so nobody waits for ever.

use super::super::apic::send_ipi;
use super::super::{flush_page, relax};
use core::sync::atomic::{AtomicU64, Ordering};
use ephemeral::Cores;
use paging::VirtAddr;
use shootdown::{Forget, Pages, Port, Request, MAX_CORES};

static PORTS: [Port; MAX_CORES] = [const { Port::new() }; MAX_CORES];

/// The cores that take interrupts.
static USERS: AtomicU64 = AtomicU64::new(0);

fn port(core: usize) -> &'static Port {
    &PORTS[core % MAX_CORES]
}

/// Core `core` takes interrupts from now on.
pub fn join_maps(core: usize) {
    USERS.fetch_or(1 << core, Ordering::AcqRel);
}

/// Core `core`, this one, forgets what others ask for.
#[inline]
pub fn answer_maps(core: usize) {
    port(core).answer(core, port, |request| {
        if let Request::Pages(pages) = request {
            pages.addresses().for_each(|va| flush_page(VirtAddr(va)));
        }
    });
}

/// The number of core `core` among those that use its windows.
pub(super) fn here(core: usize) -> u32 {
    core as u32
}

/// Who might use the windows of core `core`.
pub(super) fn users(core: usize) -> Cores {
    let users = USERS.load(Ordering::Acquire);
    (0..MAX_CORES as u32)
        .filter(|&other| users >> other & 1 != 0 && other as usize != core)
        .fold(Cores::one(core as u32), |all, other| all.with(Cores::one(other)))
}

/// Has others forget `count` windows of core `core`, the first of which is at `start`, and waits for them.
pub(super) fn forget(core: usize, whom: Cores, start: u64, count: usize) {
    let whom = whom.iter().fold(0, |set, other| set | 1u64 << other);
    let mut what = Forget::nothing();
    what.add(Pages::new(start, 1, count as u32), u32::MAX);
    port(core).ask(core, whom, &what, port, send_ipi);
    while !port(core).is_answered() {
        answer_maps(core);
        relax();
    }
}
