//! Which write-backs and fences are needed.

use crate::Site;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

/// What the threads share.
struct Shared {
    sites: Vec<Site>,
    /// Sequences, those first that found that one was missing: they find others most often.
    order: Vec<usize>,
    unneeded: BTreeSet<Site>,
}

/// The places that are not needed: of so many sequences, none finds that one is missing. `find` says which one does, and tries them
/// in the order that it is given, those that are `known` to find much first. Each thread has a `state` of its own.
pub fn unneeded<T>(
    sites: BTreeSet<Site>,
    (sequences, known): (usize, &[usize]),
    state: impl Fn() -> T + Sync,
    find: impl Fn(&mut T, Site, &[usize]) -> Option<usize> + Sync,
) -> BTreeSet<Site> {
    println!("{} places", sites.len());
    let shared = Mutex::new(Shared {
        sites: sites.into_iter().collect(),
        order: known.iter().copied().chain((0..sequences).filter(|n| !known.contains(n))).collect(),
        unneeded: BTreeSet::new(),
    });
    let work = || {
        let mut state = state();
        loop {
            let (site, order) = {
                let mut shared = shared.lock().expect("no thread panics with it");
                let Some(site) = shared.sites.pop() else { return };
                (site, shared.order.clone())
            };
            let found = find(&mut state, site, &order);
            println!("{}:{} fence {}: {found:?}", site.file, site.line, site.is_fence);
            let mut shared = shared.lock().expect("no thread panics with it");
            match found {
                Some(sequence) => {
                    let at = shared.order.iter().position(|&other| other == sequence);
                    shared.order[..=at.expect("it is one of them")].rotate_right(1);
                }
                None => drop(shared.unneeded.insert(site)),
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, Into::into);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    shared.into_inner().expect("no thread panics with it").unneeded
}
