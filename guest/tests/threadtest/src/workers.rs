//! Dispatchers of one domain, on as many cores as there are: values, the heap, regions, invocations,
//! and moving.

use crate::Test;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use libos::memory::{self, Anonymous, Map, Object, PageSize};
use libos::thread;
use libos::worker::{self, Worker};
use libos::{domain, op, Cap, CapType, Status, PAGE};
use testkit::{check, fails, good, Machine, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("worker_values", values),
    ("worker_wrong_core", wrong_core),
    ("worker_heap", heap),
    ("worker_regions", regions),
    ("worker_invocations", invocations),
    ("worker_moves", moves),
    ("worker_many", many),
];

/// One worker on each core.
fn everywhere<T: Send + 'static>(
    f: impl Fn(u64) -> T + Clone + Send + 'static,
) -> Result<Vec<Worker<T>>, Status> {
    let one = |core| {
        let f = f.clone();
        worker::spawn(Some(core as u32), move || f(core))
    };
    (0..worker::cores()).map(one).collect()
}

fn join<T>(workers: Vec<Worker<T>>) -> Result<Vec<T>, Status> {
    workers.into_iter().map(Worker::join).collect()
}

fn values(_: &Machine) -> Outcome {
    let workers = good!(everywhere(|core| (core * core, worker::core())));
    let expected: Vec<_> = (0..worker::cores()).map(|core| (core * core, core)).collect();
    check!(good!(join(workers)) == expected);
    let anywhere = good!(worker::spawn(None, || 7));
    check!(good!(anywhere.join()) == 7);
    Ok(())
}

fn wrong_core(_: &Machine) -> Outcome {
    let cores = worker::cores() as u32;
    fails!(OutOfRange, worker::spawn(Some(cores), || ()).map(drop));
    let worker = good!(worker::spawn(None, || ()));
    fails!(OutOfRange, worker.move_to(63));
    fails!(OutOfRange, worker.move_to(64));
    good!(worker.join());
    Ok(())
}

/// Allocates, fills, checks and frees; returns how many boxes were wrong.
fn allocate(seed: u64) -> u64 {
    let (mut random, mut kept, mut wrong) = (Rng::with_seed(seed), Vec::new(), 0);
    for turn in 0..3000u64 {
        let length = random.usize(..300);
        kept.push((turn, alloc::vec![turn ^ seed; length]));
        if random.u64(..3) != 0 {
            let (stamp, words) = kept.swap_remove(random.usize(..kept.len()));
            wrong += u64::from(words.iter().any(|&word| word != stamp ^ seed));
        }
    }
    wrong
        + kept.iter().filter(|(turn, words)| words.iter().any(|w| *w != turn ^ seed)).count() as u64
}

fn heap(machine: &Machine) -> Outcome {
    let seed = machine.boot.seed();
    let workers = good!(everywhere(move |core| allocate(seed + core)));
    // Threads of the first dispatcher at the same time, which interrupt each other.
    thread::set_slice(1);
    let own = good!(thread::spawn(move || allocate(seed + 100)));
    check!(allocate(seed + 101) == 0);
    check!(own.join() == 0);
    thread::set_slice(0);
    check!(good!(join(workers)).iter().all(|&wrong| wrong == 0));
    Ok(())
}

fn stamp(core: u64, page: u64, round: u64) -> u64 {
    (core << 32) + page * round
}

/// Maps a region, touches all of it, and unmaps it: each page begins with zeros.
fn touch(core: u64) -> Result<u64, memory::Error> {
    const PAGES: u64 = 64;
    let mut sum = 0;
    for round in 1..4 {
        let object = Object::new(Anonymous::new(PAGES * PAGE, PageSize::Base)?);
        let region = memory::map(&object, Map::default())?;
        for page in 0..PAGES {
            let word: *mut u64 = region.as_ptr::<u8>().wrapping_add((page * PAGE) as usize).cast();
            // SAFETY: inside the region, which nobody else has.
            unsafe {
                sum += u64::from(word.read_volatile() != 0);
                word.write_volatile(stamp(core, page, round));
            }
        }
        for page in 0..PAGES {
            let word: *mut u64 = region.as_ptr::<u8>().wrapping_add((page * PAGE) as usize).cast();
            // SAFETY: as above.
            sum += u64::from(unsafe { word.read_volatile() } != stamp(core, page, round));
        }
    }
    Ok(sum)
}

fn regions(_: &Machine) -> Outcome {
    // The first use of regions decides where the kernel enters for faults.
    check!(touch(99).is_ok_and(|wrong| wrong == 0));
    let workers = good!(everywhere(touch));
    check!(touch(98).is_ok_and(|wrong| wrong == 0));
    check!(good!(join(workers)).into_iter().all(|wrong| wrong.is_ok_and(|wrong| wrong == 0)));
    Ok(())
}

/// Makes and deletes capabilities.
fn make_and_delete() -> Result<(), Status> {
    for _ in 0..100 {
        let (frame, copy) = domain::with(|domain| {
            let frame = domain.make(CapType::Frame, PAGE)?;
            Ok((frame, domain.slot()?))
        })?;
        frame.copy_to(copy)?;
        if frame.identify()?.base != copy.identify()?.base {
            return Err(Status::WrongState);
        }
        copy.delete()?;
        frame.delete()?;
        domain::free_slot(copy)?;
        domain::free_slot(frame)?;
    }
    Ok(())
}

fn invocations(machine: &Machine) -> Outcome {
    let workers = good!(everywhere(|_| make_and_delete()));
    good!(make_and_delete());
    for result in good!(join(workers)) {
        good!(result);
    }
    good!(libos::invoke(libos::abi::slots::KERNEL, op::CheckInvariants {}));
    let _ = machine;
    Ok(())
}

/// A worker that is moved from core to core goes on counting, and has been on each.
fn moves(_: &Machine) -> Outcome {
    let cores = worker::cores();
    let (seen, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (own_seen, own_stop) = (seen.clone(), stop.clone());
    let worker = good!(worker::spawn(Some(0), move || {
        let mut count = 0u64;
        while !own_stop.load(Acquire) {
            own_seen.fetch_or(1 << worker::core(), Relaxed);
            count += 1;
        }
        count
    }));
    for core in (0..cores).rev().chain(0..cores) {
        seen.store(0, Relaxed);
        good!(worker.move_to(core as u32));
        // It may still be noting where it was.
        while seen.load(Relaxed) & 1 << core == 0 {
            good!(libos::invoke(libos::abi::slots::DISPATCHER, op::Yield {}));
        }
        seen.store(0, Relaxed);
        while seen.load(Relaxed) == 0 {
            good!(libos::invoke(libos::abi::slots::DISPATCHER, op::Yield {}));
        }
        check!(seen.load(Relaxed) == 1 << core);
    }
    stop.store(true, Release);
    check!(good!(worker.join()) > 0);
    Ok(())
}

/// Places are used again: what many workers leave behind is what few do.
fn many(_: &Machine) -> Outcome {
    let round = || -> Result<(), Status> {
        let workers = everywhere(Box::new)?;
        let values = join(workers)?;
        values.iter().enumerate().try_for_each(|(core, value)| {
            (core as u64 == **value).then_some(()).ok_or(Status::WrongState)
        })
    };
    good!(round());
    let before = domain::with(|domain| Ok(domain.kept()));
    for _ in 0..20 {
        good!(round());
    }
    check!(domain::with(|domain| Ok(domain.kept())) == before);
    Ok(())
}
