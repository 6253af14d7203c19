//! The server of the network: the driver of the device, and TCP/IP ([`netstack`]).
//!
//! It has the registers and the interrupt of the device, memory, and a Frame that it shares with `unixd`, with a ring of commands and one of events. It waits for
//! nobody: what has no room waits where it is. It has rights over nobody; what comes from outside may be anything, and should it make this server
//! fail, its connections end, and another one takes its place.
#![no_std]
#![no_main]

extern crate alloc;

mod clock;
mod link;

use alloc::boxed::Box;
use clock::Clock;
use core::net::Ipv4Addr;
use drivers::net::{Net, Sender, Sum, ToSum};
use drivers::{Device, DeviceType, Failure, Slots};
use libos::abi::slots::SELF_EP;
use libos::captypes::invocations::NOTIFY_TIMER;
use libos::runtime::Start;
use libos::session::{Address, FAILS_AT_START, NOTIFY_NET};
use libos::{heap, ipc, runtime, Place};
use link::Link;
use netstack::{Command, Event, Events, Home, Stack, Unsummed, Wire};

libos::program!(main);

/// The device has something.
const DEVICE: u64 = 2;
const _: () = assert!(DEVICE & (NOTIFY_NET | NOTIFY_TIMER) == 0);
/// Frames and commands that are looked at before whoever waits is told of them.
const TURN: usize = 64;
/// Bytes of the heap that are kept while there is no connection, and pieces that are given back at once.
const KEPT: u64 = 0;
const PIECES: usize = 16;

/// What goes out.
struct Out<'a>(&'a mut Sender);

impl Wire for Out<'_> {
    fn has_room(&mut self) -> bool {
        self.0.has_room()
    }
    fn sums(&self) -> bool {
        self.0.sums()
    }
    fn send<R>(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        self.send_unsummed(bytes, |frame| (fill(frame), None))
    }
    fn send_unsummed<R>(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> (R, Option<Unsummed>),
    ) -> R {
        let sent = self.0.send(bytes, |frame| {
            let (result, unsummed) = fill(frame);
            (result, unsummed.map(|Unsummed { from, at }| ToSum { from, at }))
        });
        match sent {
            Ok(result) => result,
            Err(fill) => fill(&mut alloc::vec![0; bytes]).0,
        }
    }
}

/// Arguments: where what is in the device's registers; the place in the network, and how much memory buffers may have.
fn main(start: Start) {
    let [w0, w1, w2, w3, place] = start.args;
    let address = Address::of_word(place);
    assert!(address.fails != FAILS_AT_START, "it fails as the command line wants");
    let clock = Clock::new(start.frame);
    match open([w0, w1, w2, w3]) {
        Ok((net, link)) => serve(net, link, address, &clock),
        Err(error) => panic!("the network does not work: {error:?}"),
    }
}

fn open(words: [u64; 4]) -> Result<(Box<Net>, Link), Failure> {
    let device = Device::of(DeviceType::Network, Slots::FIRST, words)?;
    // On the stack it would be there once more for each function that it passes.
    let net = Box::new(Net::start(device.ok_or(Failure::Unsuitable)?)?);
    net.listen(DEVICE)?;
    Ok((net, Link::new()?))
}

fn serve(mut net: Box<Net>, mut link: Link, address: Address, clock: &Clock) -> ! {
    let home = Home {
        mac: net.mac(),
        address: Ipv4Addr::from(address.own),
        prefix: address.prefix,
        gateway: Ipv4Addr::from(address.gateway()),
        mtu: net.mtu(),
    };
    let now = clock.now();
    let most = usize::from(address.mib) << 20;
    let mut life = match address.fails {
        0 => u32::MAX,
        hundreds => u32::from(hundreds) * 100,
    };
    let mut stack = Stack::new(home, clock::seed(), most, now, &mut Out(&mut net.sender));
    // The ring is empty.
    link.events.tell(&stack.up());
    // Nobody waits for the answer.
    stack.ask(now);
    loop {
        let now = clock.now();
        let (is_more, frames) = turn(&mut net, &mut link, &mut stack, now);
        if address.fails > 0 {
            life = life.saturating_sub(frames);
            assert!(life > 0, "it fails as the command line wants");
        }
        let due = stack.run(now, &mut Out(&mut net.sender), &mut link.events);
        net.kick();
        if stack.is_idle() {
            while heap::release(KEPT, PIECES) {}
        }
        if link.events.notify().is_err() {
            panic!("unixd does not keep to the rules");
        }
        let is_late = due.is_some_and(|due| due <= clock.now());
        if !is_more && !is_late {
            if let Some(due) = due {
                clock.arm(due);
            }
            net.kick();
        }
        wait(!is_more && !is_late, clock);
        stack.resume();
    }
}

/// Looks at what has come. Answers whether there is more, and how many frames there were.
fn turn(net: &mut Net, link: &mut Link, stack: &mut Stack, now: i64) -> (bool, u32) {
    let mut left = TURN;
    while left > 0 {
        let Some(came) = net.receiver.take() else { break };
        let sum = match net.receiver.sum(&came) {
            Sum::Unknown => netstack::Sum::Unknown,
            Sum::Right => netstack::Sum::Right,
            Sum::Missing(ToSum { from, at }) => netstack::Sum::Missing(Unsummed { from, at }),
        };
        stack.summed_frame(net.receiver.bytes(&came), sum, now, &mut Out(&mut net.sender));
        net.receiver.give_back(came);
        left -= 1;
    }
    let (is_more, frames) = (left == 0, (TURN - left) as u32);
    for _ in 0..TURN {
        let done = match link.command() {
            Ok(None) => return (is_more, frames),
            Ok(Some(command)) => {
                let is_end = command == Command::Finish;
                let done = stack.command(command, now);
                if is_end {
                    // Lost, if nobody reads: it is for tests.
                    let unused = runtime::stack_unused() as u32;
                    link.events.tell_spare(&Event::Stack { unused });
                }
                done
            }
            Err(_) => panic!("unixd says what is no command"),
        };
        if done.is_err() {
            panic!("unixd wants what cannot be");
        }
    }
    (true, frames)
}

/// Waits until something has come, from the device or from `unixd`, or only takes note of what has.
fn wait(is_long: bool, clock: &Clock) {
    let message = match is_long {
        true => ipc::recv(SELF_EP, Place::NULL),
        false => ipc::poll(SELF_EP, Place::NULL),
    };
    match message {
        Ok(message) if message.is_notification() => {
            if message.words[0] & NOTIFY_TIMER != 0 {
                clock.expired();
            }
        }
        // Nobody has this endpoint to call it; who does is not answered.
        Ok(_) => {}
        Err(_) if !is_long => {}
        Err(error) => panic!("netd cannot receive: {error:?}"),
    }
}
