//! A core as the code sees it that runs on it.

use super::{CoreId, Cores, Shared};
use crate::arch;
use captypes::invocations::Counter;
use core::sync::atomic::Ordering;
use paging::{PhysAddr, VirtAddr};
use shootdown::{Forget, Port, Request};

/// Which core this is, and what it shares with the others. Each part of the CPU driver has one.
#[derive(Clone, Copy)]
pub struct ThisCore {
    pub id: CoreId,
    /// Its NUMA node.
    pub node: u8,
    /// All cores.
    pub cores: Cores,
    /// What the others see of this one.
    pub shared: &'static Shared,
}

impl ThisCore {
    /// The only core of a machine.
    pub const ALONE: ThisCore =
        ThisCore { id: CoreId::BOOT, node: 0, cores: Cores::ALONE, shared: Cores::FIRST };

    /// Core `id` of several.
    pub fn new(id: CoreId, cores: Cores) -> ThisCore {
        ThisCore { id, node: 0, cores, shared: cores.get(id) }
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.shared.set_counter(counter, self.shared.counter(counter) + n);
    }

    /// Makes a core look at what was left for it.
    #[inline]
    pub fn interrupt(&self, core: CoreId) {
        self.add(Counter::Interrupts, 1);
        arch::send_ipi(core.index());
    }

    /// Where a core is asked to invalidate translations, and answers.
    #[inline]
    pub fn port(&self, core: usize) -> &'static Port {
        &self.cores.get(CoreId(core as u8)).tlb
    }

    /// May another core have cached anything of this one's tables?
    #[inline]
    pub fn has_some_away(&self) -> bool {
        self.shared.away.load(Ordering::Relaxed) != 0
    }

    /// A dispatcher of this core goes to another: from now on that one may have what it had.
    pub fn goes_away(&self) {
        let away = self.shared.away.load(Ordering::Relaxed);
        self.shared.away.store(away + 1, Ordering::Relaxed);
    }

    /// It has come back, and has left nothing there.
    pub fn comes_back(&self) {
        let away = self.shared.away.load(Ordering::Relaxed) - 1;
        self.shared.away.store(away, Ordering::Relaxed);
        if away == 0 {
            self.shared.tlb.all_are_home();
        }
    }

    /// This core and all devices use no translation any more that they had when this began.
    pub fn flush_everything(&self) {
        arch::flush_tlb();
        if arch::forget_devices() {
            self.add(Counter::DeviceFlushes, 1);
        }
    }

    /// Returns when the cores of a set, without this one, have forgotten something. `wait`: does what others wait for, who may wait for this core.
    pub fn make_forget(&self, whom: u64, what: &Forget, mut wait: impl FnMut()) {
        if whom == 0 {
            return;
        }
        let (me, port) = (self.id.index(), |number| self.port(number));
        let mut sleepers = 0u64;
        port(me).ask(me, whom, what, port, |core| sleepers |= 1 << core);
        while sleepers != 0 {
            self.interrupt(CoreId(sleepers.trailing_zeros() as u8));
            sleepers &= sleepers - 1;
        }
        while !port(me).is_answered() {
            wait();
        }
    }

    /// Invalidates what other cores have asked for.
    #[inline]
    pub fn answer_shootdowns(&self) {
        let id = self.id.index();
        arch::answer_maps(id);
        let port = |core| self.port(core);
        let answered = port(id).answer(id, port, |request| match request {
            Request::Everything => arch::flush_tlb(),
            Request::Pages(pages) => {
                pages.addresses().for_each(|va| arch::flush_page(VirtAddr(va)))
            }
        });
        if answered != 0 {
            self.add(Counter::ShootdownAnswers, u64::from(answered));
        }
    }

    /// Has another core this root?
    pub fn is_loaded_elsewhere(&self, root: PhysAddr) -> bool {
        self.cores.iter().any(|(id, shared)| id != self.id && shared.tlb.has(root.0))
    }

    /// Loads a root table, and lets the others know.
    ///
    /// # Safety
    /// As [`arch::write_root`].
    #[inline]
    pub unsafe fn load_root(&self, root: PhysAddr) {
        if arch::root() == root {
            return;
        }
        // SAFETY: the caller's promise.
        let load = || unsafe { arch::write_root(root) };
        if !self.cores.are_many() {
            return load();
        }
        let shown = if root == arch::kernel_root() { 0 } else { root.0 };
        self.shared.tlb.change_root(shown, load);
    }

    /// This core is going to walk tables of other cores below these roots, 0 for none.
    #[cold]
    #[inline(never)]
    pub fn walk_afar(&self, roots: [u64; shootdown::MOST_WALKS]) -> shootdown::Walking<'static> {
        self.shared.tlb.walk(roots)
    }

    /// Loads the kernel's own root.
    pub fn load_kernel_root(&self) {
        // SAFETY: the kernel's own root is always valid.
        unsafe { self.load_root(arch::kernel_root()) };
    }

    /// Before a root table goes, or a dispatcher that used it: it is not loaded here afterwards.
    pub fn leave_root(&self, root: PhysAddr) {
        if arch::root() == root {
            self.load_kernel_root();
        }
    }
}
