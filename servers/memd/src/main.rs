//! The memory server: all RAM of the machine.
//!
//! It holds the *home* capabilities, which cover all memory for ever and keep none of it alive. A
//! request is answered with a new RAM capability made of a home; the server keeps no copy. When
//! the last capability to some pages dies, wherever that was, the kernel puts them on a list and
//! notifies this server, which takes them from there. So nobody has to give memory back, and what
//! comes back need not be what was given: any pages, in any order.
//!
//! Which pages are free is the business of the crate `ramalloc`; here is what has to do with
//! capabilities.
#![no_std]
#![no_main]

mod homes;

use abi::slots::{KERNEL, SELF_EP};
use homes::{Homes, TRANSFER};
use libos::captypes::invocations::Reclaimed;
use libos::ipc::{self, Caps, Message};
use libos::runtime::Start;
use libos::{abi, invoke, log, memd, op, Cap, Place, RamAttrs, Status};
use ramalloc::{Pool, Request};

libos::program!(main);

/// Notification bit: memory came back.
const RECLAIMED: u64 = 1;
/// The badge of servers that may use the reserve.
const TRUSTED: u64 = 0;

/// Arguments: number of homes; address and bytes of what is in use already.
fn main(start: Start) {
    let [count, used_base, used_bytes, ..] = start.args;
    let mut homes = match Homes::take(count as u32, used_base, used_bytes) {
        Ok(homes) => homes,
        Err(error) => panic!("memd cannot start: {error:?}"),
    };
    if let Err(error) = invoke(KERNEL, op::NotifyReclaimed { bits: RECLAIMED }) {
        panic!("memd cannot learn what comes back: {error:?}");
    }
    serve(&mut homes)
}

fn serve(homes: &mut Homes) -> ! {
    loop {
        match ipc::recv(SELF_EP, Place::NULL) {
            Ok(message) if message.is_notification() => collect(homes.pool),
            Ok(message) => answer(homes, &message),
            Err(error) => panic!("memd cannot receive: {error:?}"),
        }
    }
}

/// Answers one request. A caller that has gone in the meantime does not matter.
fn answer(homes: &mut Homes, message: &Message) {
    match message.words {
        [memd::ALLOC, bytes, alignment, attrs, ..] => {
            let attrs = RamAttrs(attrs as u16);
            let trusted = message.badge == TRUSTED;
            let request = Request { bytes, alignment, attrs: attrs.0, trusted };
            let result = alloc(homes, request);
            let caps = if result.is_ok() { Caps::one(TRANSFER) } else { Caps::NONE };
            let words = [ipc::status_word(result), 0, 0, 0, 0, 0];
            let _ = ipc::reply(Place::CALLER, words, caps);
            // From now on only the caller's copy keeps the memory.
            if result.is_ok() {
                let _ = TRANSFER.delete();
            }
        }
        [memd::STATS, ..] => {
            collect(homes.pool);
            let usage = homes.pool.usage();
            let numbers = [0, usage.free, usage.total, usage.largest, homes.pool.reserve(), 0];
            let _ = ipc::reply(Place::CALLER, numbers, Caps::NONE);
        }
        _ => {
            let words = [Status::Invalid.to_word(), 0, 0, 0, 0, 0];
            let _ = ipc::reply(Place::CALLER, words, Caps::NONE);
        }
    }
}

/// Puts new RAM in the transfer slot. What came back is looked at before the answer is "none".
fn alloc(homes: &mut Homes, request: Request) -> Result<(), Status> {
    match homes.alloc(request) {
        Err(Status::NoMemory) => {
            collect(homes.pool);
            homes.alloc(request)
        }
        result => result,
    }
}

/// Takes everything that came back.
fn collect(pool: &mut Pool) {
    while let Ok(Reclaimed { base0, bytes0, base1, bytes1, base2, bytes2 }) =
        invoke(KERNEL, op::CollectReclaimed {})
    {
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
