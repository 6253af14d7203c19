//! Tests of the memory server on the real kernel. Booted in place of `init`, this program starts
//! the server as `init` does and is then its only client.
#![no_std]
#![no_main]

use libos::abi::slots::{KERNEL, MEMD};
use libos::memd::{self, alloc, stats, Stats};
use libos::runtime::{Boot, Start};
use libos::{bringup, domain, invoke, log, op, PAGE};
use libos::{Cap, CapAddr, CapType, Place, RamAttrs, Status};
use testkit::{check, fails, good, Failure, Outcome, Rng, Runner};

libos::program!(main);

const NODE: u32 = 200;
const ANY: RamAttrs = RamAttrs(0);

fn slot(n: u32) -> CapAddr {
    CapAddr::new(NODE, n)
}

fn main(_: Start) {
    // SAFETY: this is the program that the kernel started, and it happens once.
    let boot = unsafe { Boot::new() };
    let mut runner = Runner::on(boot.cmdline());
    runner.run("memd_starts", || start(&boot));
    runner.run("memd_sizes", sizes);
    runner.run("memd_refuses", refuses);
    runner.run("memd_comes_back", comes_back);
    runner.run("memd_comes_back_in_parts", comes_back_in_parts);
    runner.run("memd_random", || random(boot.seed()));
    runner.run("memd_exhausted", exhausted);
    runner.run("memd_reserve", reserve);
    runner.run("memd_nodes", || nodes(&boot));
    runner.run("memd_cost", cost);
    runner.finish()
}

fn start(boot: &Boot) -> Outcome {
    let mut window = good!(bringup::prepare(boot));
    let file = bootarchive::find(boot.archive(), "boot/memd").ok().flatten();
    let Some(file) = file else { return Err(failure("there is boot/memd")) };
    if bringup::start_memd(boot, file.data, 1, &mut window).is_err() {
        return Err(failure("the server starts"));
    }
    let stats = good!(numbers());
    log!("memd: {} of {} bytes free, {} at most", stats.free, stats.total, stats.largest);
    check!(stats.total <= boot.info.ram_bytes && stats.free <= stats.total);
    // Little is needed for the start.
    check!(stats.free > stats.total - (4 << 20));
    let node = Place::l1(CapAddr::NULL, NODE);
    good!(domain::with(|domain| {
        libos::ram::Ram::make(&mut domain.arena, CapType::L2CNode, 16 << 10, 1, node)
    }));
    Ok(())
}

fn failure(what: &'static str) -> Failure {
    Failure { line: line!(), what, status: None }
}

/// NUMA nodes of the machine.
fn count_nodes(boot: &Boot) -> u8 {
    let cores = boot.info.nodes.get(..boot.info.cores as usize).unwrap_or(&[0]);
    cores.iter().max().map_or(1, |last| last + 1)
}

/// The node of a new piece in `dst`.
fn node_of_new(bytes: u64, wish: u16, dst: CapAddr) -> Result<u8, Status> {
    alloc(MEMD, bytes, 0, RamAttrs(wish), dst)?;
    Ok(dst.identify()?.attrs.node())
}

/// Memory is of the node that is wished for while that has any, and then of another.
fn nodes(boot: &Boot) -> Outcome {
    const PIECE: u64 = 8 << 20;
    let before = good!(numbers());
    let count = count_nodes(boot);
    let own = libos::upcall::own_frame();
    let core = own.core.load(core::sync::atomic::Ordering::Relaxed) as usize;
    check!(boot.info.nodes.get(core).is_some_and(|&node| memd::near(own).node() == node));
    for node in 0..count {
        check!(good!(node_of_new(PAGE, node.into(), slot(0))) == node);
        check!(good!(node_of_new(PIECE, node.into(), slot(1))) == node);
        good!(slot(0).delete_range(2));
    }
    // One that does not exist.
    check!(good!(node_of_new(PAGE, 63, slot(0))) < count);
    good!(slot(0).delete());
    // All of the last, and one more.
    let mut pieces = 0;
    let last = count - 1;
    while count > 1 && good!(node_of_new(PIECE, last.into(), slot(pieces))) == last {
        pieces += 1;
        check!(pieces < 255);
    }
    check!(count == 1 || pieces > 2);
    if count > 1 {
        good!(slot(0).delete_range(pieces + 1));
    }
    check!(good!(numbers()).free == before.free);
    Ok(())
}

fn numbers() -> Result<Stats, Status> {
    stats(MEMD)
}

fn get(bytes: u64, alignment: u64, dst: CapAddr) -> Result<(), Status> {
    alloc(MEMD, bytes, alignment, ANY, dst)
}

fn sizes() -> Outcome {
    let before = good!(numbers()).free;
    let mut total = 0;
    let requests = [(1, 0), (3, 1), (32, 32), (5, 512), (512, 512), (1000, 1), (1, 4096)];
    for (n, (pages, alignment)) in requests.into_iter().enumerate() {
        let dst = slot(n as u32);
        good!(get(pages * PAGE, alignment * PAGE, dst));
        let what = good!(dst.identify());
        check!(what.ty == CapType::Ram && what.bytes == pages * PAGE);
        check!(what.base % (alignment * PAGE).max(PAGE) == 0);
        // Nobody else holds it, and it is no home.
        check!(what.relations & 3 == 0 && !what.attrs.has(RamAttrs::HOME));
        total += pages * PAGE;
    }
    check!(good!(numbers()).free == before - total);
    good!(slot(0).delete_range(8));
    check!(good!(numbers()).free == before);
    Ok(())
}

fn refuses() -> Outcome {
    let before = good!(numbers());
    for (bytes, alignment) in [(0, 0), (1, 0), (PAGE + 1, 0), (PAGE, 5000), (PAGE, 12288)] {
        fails!(OutOfRange, get(bytes, alignment, slot(0)));
    }
    for bytes in [before.total, 1 << 50, !(PAGE - 1)] {
        fails!(NoMemory, get(bytes, 0, slot(0)));
    }
    fails!(NoMemory, get(PAGE, 1 << 50, slot(0)));
    fails!(NoMemory, alloc(MEMD, PAGE, 0, RamAttrs::PERSISTENT, slot(0)));
    // No place for the capability: the memory is not lost.
    good!(get(PAGE, 0, slot(0)));
    fails!(NoSlot, get(PAGE, 0, slot(0)));
    fails!(NoSlot, get(PAGE, 0, CapAddr::NULL));
    good!(slot(0).delete());
    let words = [77, 0, 0, 0, 0, 0];
    let answer = good!(libos::ipc::call(MEMD, words, libos::ipc::Caps::NONE, Place::NULL));
    check!(answer.words[0] == Status::Invalid.to_word());
    check!(good!(numbers()) == before);
    Ok(())
}

/// Whatever was made of it, and in whatever order it goes.
fn comes_back() -> Outcome {
    let before = good!(numbers());
    good!(get(256 * PAGE, 0, slot(0)));
    good!(slot(0).retype(CapType::Frame, 0, PAGE, 16, slot(1)));
    good!(slot(0).retype(CapType::L2CNode, 16 * PAGE, 4 * PAGE, 2, slot(17)));
    good!(slot(0).retype(CapType::Ram, 64 * PAGE, 64 * PAGE, 1, slot(19)));
    good!(slot(19).retype(CapType::Pt, 0, PAGE, 4, slot(20)));
    good!(slot(3).copy_to(slot(40)));
    good!(slot(0).delete());
    // The unused rest is there at once: 256 pages but 16 + 8 + 64.
    check!(good!(numbers()).free == before.free - 88 * PAGE);
    good!(slot(19).delete());
    check!(good!(numbers()).free == before.free - 28 * PAGE);
    good!(slot(1).delete_range(30));
    check!(good!(numbers()).free == before.free - PAGE);
    good!(slot(40).delete());
    check!(good!(numbers()) == before);
    Ok(())
}

fn comes_back_in_parts() -> Outcome {
    let before = good!(numbers());
    good!(get(200 * PAGE, 0, slot(0)));
    good!(slot(0).retype(CapType::Frame, 0, PAGE, 200, slot(1)));
    good!(slot(0).delete());
    // Every second page, then the others.
    for first in [1, 2] {
        for n in (first..201).step_by(2) {
            good!(slot(n).delete());
        }
    }
    check!(good!(numbers()) == before);
    Ok(())
}

fn random(seed: u64) -> Outcome {
    log!("memd_random: seed {seed:#x}");
    let mut random = Rng::with_seed(seed);
    let before = good!(numbers());
    let mut held = 0u64;
    let mut sizes = [0u64; 200];
    for _ in 0..3000 {
        let n = random.usize(..200);
        if sizes[n] == 0 {
            let bits = random.u64(..9);
            let pages = 1 + random.u64(..1 << bits);
            good!(get(pages * PAGE, PAGE << random.u64(..6), slot(n as u32)));
            sizes[n] = pages * PAGE;
            held += sizes[n];
        } else {
            good!(slot(n as u32).delete());
            held -= sizes[n];
            sizes[n] = 0;
        }
        if random.u64(..50) == 0 {
            check!(good!(numbers()).free == before.free - held);
        }
    }
    good!(slot(0).delete_range(200));
    good!(invoke(KERNEL, op::CheckInvariants {}));
    check!(good!(numbers()) == before);
    Ok(())
}

/// All memory, in large pieces and then in small ones; all of it comes back.
fn exhausted() -> Outcome {
    let before = good!(numbers());
    let mut n = 0;
    let mut bytes = 1 << 40;
    while bytes >= PAGE && n < 250 {
        match get(bytes, 0, slot(n)) {
            Ok(()) => n += 1,
            Err(Status::NoMemory) => bytes /= 2,
            Err(status) => {
                return Err(Failure { line: line!(), what: "alloc", status: Some(status) })
            }
        }
    }
    check!(good!(numbers()).free == 0);
    fails!(NoMemory, get(PAGE, 0, slot(250)));
    good!(slot(0).delete_range(250));
    check!(good!(numbers()) == before);
    Ok(())
}

/// A client with a badge leaves the reserve alone.
fn reserve() -> Outcome {
    let before = good!(numbers());
    let process = slot(255);
    good!(MEMD.mint_badged(process, libos::Rights::SEND, 42));
    let ask = |bytes, dst| alloc(process, bytes, 0, ANY, dst);
    let mut n = 0;
    let mut bytes = 1 << 40;
    while bytes >= PAGE && n < 250 {
        match ask(bytes, slot(n)) {
            Ok(()) => n += 1,
            Err(_) => bytes /= 2,
        }
    }
    check!(good!(numbers()).free == before.reserve);
    good!(get(PAGE, 0, slot(250)));
    good!(slot(0).delete_range(251));
    good!(process.delete());
    check!(good!(numbers()) == before);
    Ok(())
}

/// Not a check: what a request and giving back cost, in ticks of the time-stamp counter.
fn cost() -> Outcome {
    // SAFETY: reads the time-stamp counter.
    let now = || unsafe { core::arch::x86_64::_rdtsc() };
    let times = 500;
    let start = now();
    for _ in 0..times {
        good!(get(64 * PAGE, 0, slot(0)));
        good!(slot(0).delete());
    }
    log!("@bench memd_alloc_and_back {} ticks", (now() - start) / times);
    Ok(())
}
