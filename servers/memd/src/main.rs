//! The memory server: all RAM of the machine.
//!
//! It holds the *home* capabilities, which cover all memory for ever and keep none of it alive. A
//! request is answered with a new RAM capability made of a home; the server keeps no copy. When
//! the last capability to some pages dies, wherever that was, the kernel puts them on a list, from
//! which this server takes them. So nobody has to give memory back, and what comes back need not
//! be what was given: any pages, in any order. The server looks at the list when it is asked for
//! memory, not when something is put on it: giving back wakes nobody. CNodes that hold each other
//! and nobody else are found by the kernel's collector, which this server runs when memory is short.
//!
//! Which pages are free is the business of the crate `ramalloc`; here is what has to do with
//! capabilities.
#![no_std]
#![no_main]

mod homes;
mod lending;

use abi::slots::{KERNEL, SELF_EP};
use homes::{Homes, TRANSFER};
use libos::captypes::invocations::Reclaimed;
use libos::ipc::{self, Caps, Message};
use libos::runtime::Start;
use libos::{abi, colour, invoke, log, memd, op, Place, RamAttrs, Status};
use ramalloc::{Pool, Request, PAGE};

libos::program!(main);

/// The badge of servers that may use the reserve.
const TRUSTED: u64 = 0;
/// Larger than any piece of memory that can be borrowed.
const NOT_BORROWED: u64 = u64::MAX;
/// A request takes three ranges back for each so many bytes that it asks for …
const COLLECT_BYTES: u64 = 128 * PAGE;
/// … up to this many times. A small one is waited for by somebody who has little to do.
const COLLECT_AT_ONCE: u64 = 8;

/// Arguments: number of homes; address and bytes of what is in use already; page colours, or zero for
/// those of the processor's cache; where the machine's memory ends, or zero where there are no other cores that have some.
fn main(start: Start) {
    let [count, used_base, used_bytes, colours, end] = start.args;
    match Homes::take(count as u32, used_base, used_bytes, colour::or_count(colours), end) {
        Ok(homes) => serve(homes),
        Err(error) => panic!("memd cannot start: {error:?}"),
    }
}

fn serve(mut homes: Homes) -> ! {
    if homes.units.is_some() {
        if let Err(error) = invoke(SELF_EP, op::Listen { bits: 0 }) {
            panic!("memd cannot be notified: {error:?}");
        }
    }
    let mut to = Place::NULL;
    let mut answer = Answer::nothing();
    loop {
        let Answer { words, caps } = answer;
        match ipc::reply_recv(SELF_EP, to, words, caps, Place::NULL) {
            Ok(message) if message.is_notification() => {
                to = Place::NULL;
                answer = Answer::nothing();
                lending::heard(&mut homes, message.words[0]);
            }
            Ok(message) => {
                to = Place::CALLER;
                answer = handle(&mut homes, &message);
            }
            Err(error) => panic!("memd cannot receive: {error:?}"),
        }
    }
}

struct Answer {
    words: [u64; 6],
    caps: Caps,
}

impl Answer {
    fn nothing() -> Self {
        Answer { words: [0; 6], caps: Caps::NONE }
    }

    fn status(status: Status) -> Self {
        Answer { words: [status.to_word(), 0, 0, 0, 0, 0], caps: Caps::NONE }
    }
}

fn handle(homes: &mut Homes, message: &Message) -> Answer {
    let trusted = message.badge == TRUSTED;
    match message.words {
        [memd::ALLOC, bytes, alignment, attrs, least, ..] => {
            let request = Request { bytes, alignment, attrs: attrs as u16, trusted };
            let least = least.max(PAGE).min(bytes);
            give(homes, bytes, piece(&request, least), |homes, wish| {
                let least = if wish == Wish::Least { least } else { bytes };
                homes.alloc_between(least, request)
            })
        }
        [memd::ALLOC_COLOURED, wanted, attrs, ..] => {
            let bytes = PAGE;
            let request = Request { bytes, alignment: 0, attrs: attrs as u16, trusted };
            give(homes, bytes, piece(&request, bytes), |homes, _| {
                homes.alloc_coloured(request, wanted).map(|()| bytes)
            })
        }
        [memd::HAS, bytes, ..] => {
            let words = [0, u64::from(has(homes, bytes)), 0, 0, 0, 0];
            Answer { words, caps: Caps::NONE }
        }
        [memd::STATS, ..] => {
            homes.empty_transfer();
            collect_all_cycles(homes);
            let usage = homes.pool.usage();
            let words =
                [0, usage.free, usage.total, usage.largest, homes.pool.reserve(), homes.colours];
            Answer { words, caps: Caps::NONE }
        }
        _ => Answer::status(Status::Invalid),
    }
}

/// What must be free in one piece for a request that is content with `least`.
fn piece(request: &Request, least: u64) -> u64 {
    match request.attrs & RamAttrs::PERSISTENT.0 {
        0 => least.max(request.alignment),
        _ => NOT_BORROWED,
    }
}

/// What somebody who asked for memory gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// As much as it asked for.
    All,
    /// As much of that as there is, if it is not less than the least that it asked for.
    Least,
}

/// Collects until `try_it` succeeds: a little of what came back, which every request does in proportion to
/// what it asks for, then all of it, then what nobody can reach, then what other cores have to spare, if a `piece` of that would do.
fn collecting<T>(
    homes: &mut Homes,
    bytes: u64,
    piece: u64,
    mut try_it: impl FnMut(&mut Homes, Wish) -> Result<T, Status>,
) -> Result<T, Status> {
    collect(homes.pool, (bytes / COLLECT_BYTES).min(COLLECT_AT_ONCE));
    let mut result = try_it(homes, Wish::All);
    if matches!(result, Err(Status::NoMemory)) {
        collect_all(homes.pool);
        result = try_it(homes, Wish::Least);
    }
    if matches!(result, Err(Status::NoMemory)) {
        collect_all_cycles(homes);
        result = try_it(homes, Wish::Least);
    }
    while matches!(result, Err(Status::NoMemory)) && lending::borrow(homes, bytes, piece) {
        result = try_it(homes, Wish::Least);
    }
    result
}

/// Takes all that came back, and what nobody can reach.
fn collect_all_cycles(homes: &mut Homes) {
    collect_cycles();
    collect_all(homes.pool);
}

/// Are so many bytes free besides the reserve?
fn has(homes: &mut Homes, bytes: u64) -> bool {
    let enough = |homes: &mut Homes, _| {
        let beyond = homes.pool.free_bytes().saturating_sub(homes.pool.reserve());
        if beyond >= bytes {
            Ok(())
        } else {
            Err(Status::NoMemory)
        }
    };
    // Who only wants to know whether there is plenty takes nothing away from other cores.
    let piece = if bytes <= lending::MOST { PAGE } else { NOT_BORROWED };
    collecting(homes, bytes, piece, enough).is_ok()
}

/// The answer with what `take` puts in the transfer slot, and how many bytes it says that is.
fn give(
    homes: &mut Homes,
    bytes: u64,
    piece: u64,
    take: impl Fn(&mut Homes, Wish) -> Result<u64, Status>,
) -> Answer {
    match collecting(homes, bytes, piece, take) {
        // Moved, so that from now on only the caller keeps the memory.
        Ok(bytes) => Answer { words: [0, bytes, 0, 0, 0, 0], caps: Caps::moved(TRANSFER, 1) },
        Err(status) => Answer::status(status),
    }
}

/// Has CNodes deleted that only hold each other, which is seldom anything: done only before memory
/// is said to be used up, or counted.
fn collect_cycles() {
    while invoke(KERNEL, op::CollectCycles {}) == Err(Status::Again) {}
}

/// Takes what came back, up to `times` times three ranges.
fn collect(pool: &mut Pool, times: u64) {
    for _ in 0..times {
        let Ok(back) = invoke(KERNEL, op::CollectReclaimed {}) else { return };
        let Reclaimed { base0, bytes0, base1, bytes1, base2, bytes2 } = back;
        for (base, bytes) in [(base0, bytes0), (base1, bytes1), (base2, bytes2)] {
            if bytes == 0 {
                return;
            }
            if let Err(error) = pool.free(base, bytes) {
                log!("memd: {bytes:#x} bytes at {base:#x} came back: {error:?}");
            }
        }
    }
}

/// Takes all that came back.
fn collect_all(pool: &mut Pool) {
    collect(pool, u64::MAX);
}
