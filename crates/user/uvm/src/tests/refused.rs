//! A backend that refuses at random places: nothing that others have becomes writable, the operation says
//! that it failed or has done what it should, and everything works when nothing is refused any more.

use super::random::{op, step, Op};
use super::*;
use crate::map::Flags;
use crate::mmap::MapRequest;
use crate::types::{Error, Prot};
use proptest::prelude::*;

impl Both {
    /// Did an operation fail because something was refused? Then the model learns how far it came:
    /// which entries there are, and which pages the process has lost.
    pub fn was_refused<T>(&mut self, got: Result<T, Error>) -> bool {
        let refused = self.backend.refused && matches!(got, Err(Error::NoMemory));
        if refused {
            self.model
                .pages
                .retain(|&page, _| self.real.map().within(page, page + 1).next().is_some());
            for (&page, here) in &mut self.model.pages {
                let Some(entry) = self.real.map().within(page, page + 1).next() else { continue };
                (here.prot, here.flags) = (entry.prot, entry.flags);
                let (key, slot) = crate::amap::split(page);
                if let (true, Some(object)) = (entry.flags.has(Flags::OWN), entry.object) {
                    let value = self.backend.value_of(object, entry.offset);
                    here.anon = Some(Rc::new(Cell::new(value)));
                } else if !self.real.amap().chunk(key).is_some_and(|chunk| chunk.filled.get(slot)) {
                    here.anon = None;
                }
            }
        }
        refused
    }

    /// Has one of pages `start..end` an anon whose Frame was lost, when something was refused twice? It
    /// cannot be moved then, nor touched.
    pub fn has_lost_anon(&self, start: u64, end: u64) -> bool {
        (start..end).any(|page| {
            let (key, slot) = crate::amap::split(page);
            let chunk = self.real.amap().chunk(key).filter(|chunk| chunk.filled.get(slot));
            let place = chunk.and_then(|_| self.real.amap().run(key, slot, slot + 1));
            place.is_some_and(|(place, _)| {
                let held = self.backend.contents(place.node);
                !matches!(held.get(&place.slot), Some(Held::Page(_)))
            })
        })
    }
}

impl World {
    /// One operation of a process, in which some things are refused.
    fn refuse(&mut self, which: usize, refusals: u64, operate: impl FnOnce(&mut World)) {
        self.exact = false;
        let backend = &mut self.processes[which].backend;
        (backend.refusals, backend.refused) = (refusals, false);
        operate(self);
        for both in &mut self.processes {
            (both.backend.refusals, both.backend.refused) = (0, false);
            assert_eq!(both.backend.exposed(), [], "writable, and others have them");
        }
        for both in &mut self.processes {
            both.real.pmap.drop_condemned(&mut both.backend).unwrap();
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_refused(
        threads in any::<bool>(),
        ops in proptest::collection::vec((op(), refusals()), 1..60),
    ) {
        let mut world = World::with_own_of(threads);
        for ((which, op, _), refusals) in &ops {
            let process = *which % world.processes.len();
            world.refuse(process, *refusals, |world| step(world, *which, op));
        }
        world.finish();
    }
}

/// Most often nothing, or one thing, or one and all behind it.
fn refusals() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(0),
        3 => (0u32..12).prop_map(|n| 1 << n),
        1 => (0u32..12).prop_map(|n| u64::MAX << n),
        1 => any::<u64>(),
    ]
}

#[test]
fn a_write_protect_that_is_refused_is_no_loss_of_copy_on_write() {
    // In a region that both share, in one of which the child gets copies, and in pairs.
    for pages in [400, 20, 4] {
        for first in 0..16 {
            for refusals in [1 << first, u64::MAX << first] {
                let mut world = World::new();
                let request = MapRequest::anonymous(600 * PAGE, Prot(3));
                let both = &mut world.processes[0];
                let start = both.real.mmap(&mut both.backend, &request).unwrap() / PAGE;
                both.model.enter(start, 600, Prot(3), Flags::default(), None);
                (0..pages).for_each(|n| assert!(world.touch(0, start + n, Access::Write).is_ok()));
                world.refuse(0, refusals, |world| world.fork(0));
                for which in 0..world.processes.len() {
                    let page = start + which as u64;
                    world.refuse(which, refusals, |world| {
                        let _ = world.touch(which, page, Access::Write);
                    });
                    world.touch(which, page, Access::Write).unwrap();
                    world.check();
                }
                world.finish();
            }
        }
    }
}

#[test]
fn what_is_refused_is_repeated() {
    // Whatever is refused of an unmap: afterwards nothing of it is seen in a new mapping.
    for first in 0..8 {
        for refusals in [1 << first, u64::MAX << first] {
            let mut world = World::new();
            let fixed = |world: &mut World| {
                let place = crate::Placement::Fixed;
                let request = MapRequest::anonymous(300 * PAGE, Prot(3));
                let request = MapRequest { addr: 1000 * PAGE, placement: place, ..request };
                let both = &mut world.processes[0];
                both.real.mmap(&mut both.backend, &request).unwrap();
                both.model.unmap(1000, 1300);
                both.model.enter(1000, 300, Prot(3), Flags::default(), None);
            };
            fixed(&mut world);
            (0..300).for_each(|n| assert!(world.touch(0, 1000 + n, Access::Write).is_ok()));
            world.refuse(0, refusals, |world| {
                step(world, 0, &Op::Unmap { addr: 1000, pages: 300 });
            });
            fixed(&mut world);
            for n in 0..300 {
                assert_eq!(world.touch(0, 1000 + n, Access::Read), Ok(0));
            }
            world.check();
            world.finish();
        }
    }
}
