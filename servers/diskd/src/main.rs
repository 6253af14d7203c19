//! The server of a disk: its driver, and the file system on it.
//!
//! There is one for each disk. It has the registers and the interrupt of that, memory, and a Frame that it shares with `unixd`, who asks
//! for files by 9P there ([`diskfs`]). It does one thing after the other, and waits for the disk; `unixd` does not wait for it. What is on a disk may be
//! anything: should it make this server fail, the disk is gone, and nothing else.
#![no_std]
#![no_main]

extern crate alloc;

mod clock;
mod device;

use alloc::vec;
use device::BlockDisk;
use diskfs::Server;
use drivers::block::Block;
use drivers::mailbox::Answerer;
use drivers::{Device, DeviceType, Failure, Slots};
use libos::abi::slots::{SELF_EP, SESSION, UNIXD};
use libos::ipc;
use libos::runtime::Start;
use libos::{heap, Place};
use ninep::serve::MESSAGE;

libos::program!(main);

/// Bytes of the heap that are kept while nothing is mounted, and pieces that are given back at once.
const KEPT: u64 = 0;
const PIECES: usize = 16;
/// The disk has something.
const DISK: u64 = 2;

/// Arguments: where what is in the device's registers; what `unixd` is notified with.
fn main(start: Start) {
    let [w0, w1, w2, w3, bits] = start.args;
    clock::start(start.frame);
    match open([w0, w1, w2, w3], bits) {
        Ok((disk, answerer)) => serve(Server::new(disk, clock::now), answerer),
        Err(error) => panic!("the disk does not work: {error:?}"),
    }
}

fn open(words: [u64; 4], bits: u64) -> Result<(BlockDisk, Answerer), Failure> {
    let device = Device::of(DeviceType::Block, Slots::FIRST, words)?.ok_or(Failure::Unsuitable)?;
    let block = Block::start(device)?;
    block.listen(DISK)?;
    Ok((BlockDisk::new(block), Answerer::new(SESSION, UNIXD, bits)?))
}

fn serve(mut server: Server<BlockDisk>, mut answerer: Answerer) -> ! {
    let mut answer = vec![0; MESSAGE];
    loop {
        while let Some((place, request)) = answerer.request() {
            let bytes = server.answer(request, &mut answer);
            if !server.is_mounted() {
                // The others get back what was needed for that.
                while heap::release(KEPT, PIECES) {}
            }
            answerer.answer(place, &answer[..bytes]);
        }
        wait_for_notification();
    }
}

/// Waits until something has come, from the disk or from `unixd`.
fn wait_for_notification() {
    match ipc::recv(SELF_EP, Place::NULL) {
        Ok(message) if message.is_notification() => {}
        // Nobody has this endpoint to call it; who does is not answered.
        Ok(_) => {}
        Err(error) => panic!("diskd cannot receive: {error:?}"),
    }
}
