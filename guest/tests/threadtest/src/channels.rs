//! Two domains: typed calls with capabilities, and channels. The second domain is made of this
//! program's own file.

use crate::Test;
use abi::slots::SELF_EP;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use libos::channel::{listen, Bell, Receiver, Sender};
use libos::interface::{self, OwnedCap, Packet, Remote};
use libos::ram::Arena;
use libos::runtime::stop;
use libos::spawn::Child;
use libos::vspace::RW;
use libos::{abi, domain, thread, Cap, CapAddr, CapType, Place, Rights, Status, PAGE};
use testkit::{check, fails, good, Machine, Outcome, Rng};

pub const TESTS: &[Test] = &[
    ("interface_calls", calls),
    ("interface_capabilities", capabilities),
    ("interface_wrong_messages", wrong_messages),
    ("channel_messages", messages),
    ("channel_random_bytes", random_bytes),
    ("channel_hostile_peer", hostile_peer),
];

libos::interface! {
    /// What the second domain does.
    pub mod worker {
        /// Adds to a total, and says what it is, and the caller's badge.
        1 fn add(amount: u64) -> (u64, u64);
        /// Writes `mark` to a Frame and keeps it. Gives back the one before, with its mark.
        2 fn exchange(frame: OwnedCap, mark: u64) -> (OwnedCap, u64);
        /// Bytes of four Frames.
        3 fn measure(a: OwnedCap, b: OwnedCap, c: OwnedCap, d: OwnedCap) -> u64;
        /// Fails like this.
        4 fn fail(status: u32);
        /// Answers what comes through one Frame through another, messages of four words. Wakes the
        /// caller by `bell` and `bit`, and gives back its own.
        5 fn echo(request: OwnedCap, answer: OwnedCap, bell: OwnedCap, bit: u64) -> (OwnedCap, u64);
        /// The same with blocks of bytes.
        6 fn echo_bytes(request: OwnedCap, answer: OwnedCap, bell: OwnedCap, bit: u64)
            -> (OwnedCap, u64);
        /// How many echoes have ended, and how the last one did.
        7 fn ended() -> (u64, u64);
        /// Ends.
        8 fn quit();
    }
}

/// First argument of a start as the second domain.
pub const CHILD: u64 = 0x74_6872_6561_6473;
const CHILD_RAM: u64 = 2 << 20;
const BADGE: u32 = 7;
/// Bytes of a block that `echo_bytes` answers.
const BLOCK: usize = 96;

// The second domain.

#[derive(Default)]
struct Worker {
    total: u64,
    kept: Option<(OwnedCap, u64)>,
    quits: bool,
}

static ENDED: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

/// A thread that answers until the channel is no good any more.
fn spawn_echo(mut step: impl FnMut() -> Result<(), Status> + Send + 'static) -> Result<(), Status> {
    thread::spawn(move || loop {
        if let Err(status) = step() {
            LAST.store(status.to_word(), Relaxed);
            ENDED.fetch_add(1, Relaxed);
            return;
        }
    })
    .map(drop)
}

/// The own end of what wakes this domain.
fn own_bell() -> Result<OwnedCap, Status> {
    let slot = domain::with(|domain| domain.slot())?;
    SELF_EP.mint(slot, Rights::SEND)?;
    Ok(OwnedCap::own(slot))
}

impl worker::Server for Worker {
    fn add(&mut self, from: u64, amount: u64) -> Result<(u64, u64), Status> {
        self.total += amount;
        Ok((self.total, from))
    }

    fn exchange(&mut self, _: u64, frame: OwnedCap, mark: u64) -> Result<(OwnedCap, u64), Status> {
        let va = domain::with(|domain| domain.map(frame.cap().into(), 0, PAGE, RW))?;
        // SAFETY: mapped just now, for good.
        unsafe { (va as *mut u64).write_volatile(mark) };
        self.kept.replace((frame, mark)).ok_or(Status::Empty)
    }

    fn measure(
        &mut self,
        _: u64,
        a: OwnedCap,
        b: OwnedCap,
        c: OwnedCap,
        d: OwnedCap,
    ) -> Result<u64, Status> {
        let bytes = |cap: &OwnedCap| Ok(cap.cap().identify()?.bytes);
        [a, b, c, d].iter().map(bytes).sum()
    }

    fn fail(&mut self, _: u64, status: u32) -> Result<(), Status> {
        Status::from_word(u64::from(status))
    }

    fn echo(
        &mut self,
        _: u64,
        request: OwnedCap,
        answer: OwnedCap,
        bell: OwnedCap,
        bit: u64,
    ) -> Result<(OwnedCap, u64), Status> {
        let (own, other) = (thread::new_bit()?, OwnedCap::copy_of(bell.cap())?);
        let mut requests = Receiver::<[u64; 4]>::new(request, own, Bell::new(bell, bit))?;
        let mut answers = Sender::<[u64; 4]>::new(answer, own, Bell::new(other, bit))?;
        spawn_echo(move || {
            let [a, b, c, d] = requests.receive()?;
            answers.send(&[d, c, a ^ b, a + b])
        })?;
        Ok((own_bell()?, own))
    }

    fn echo_bytes(
        &mut self,
        _: u64,
        request: OwnedCap,
        answer: OwnedCap,
        bell: OwnedCap,
        bit: u64,
    ) -> Result<(OwnedCap, u64), Status> {
        let (own, other) = (thread::new_bit()?, OwnedCap::copy_of(bell.cap())?);
        let mut requests = Receiver::<u8>::new(request, own, Bell::new(bell, bit))?;
        let mut answers = Sender::<u8>::new(answer, own, Bell::new(other, bit))?;
        spawn_echo(move || {
            let mut block = [0; BLOCK];
            requests.receive_bytes(&mut block)?;
            block.iter_mut().for_each(|byte| *byte = !*byte);
            answers.send_bytes(&block)
        })?;
        Ok((own_bell()?, own))
    }

    fn ended(&mut self, _: u64) -> Result<(u64, u64), Status> {
        Ok((ENDED.load(Relaxed), LAST.load(Relaxed)))
    }

    fn quit(&mut self, _: u64) -> Result<(), Status> {
        self.quits = true;
        Ok(())
    }
}

/// The second domain's main function.
pub fn child_main() -> ! {
    let _ = domain::with(|domain| {
        domain.arena = Arena::over(domain::ARENA_SLOT, 0, CHILD_RAM);
        Ok(())
    });
    let mut worker = Worker::default();
    let _ = interface::serve(SELF_EP, |from, request| {
        let answer = worker::dispatch(&mut worker, from, request);
        (answer, !worker.quits)
    });
    stop()
}

// The first domain.

struct Peer {
    child: Option<Child>,
    client: worker::Client,
}

impl Peer {
    fn new(machine: &Machine) -> Result<Peer, Status> {
        let archive: &'static [u8] = machine.boot.archive();
        let file = match bootarchive::find(archive, "boot/programs/threadtest") {
            Ok(Some(entry)) => entry.data,
            _ => return Err(Status::Empty),
        };
        let (child, send) = domain::with(|domain| {
            let mut window = domain.window()?;
            let (root, dispatcher) = (domain.slot()?, domain.slot()?);
            let arena = &mut domain.arena;
            let built = Child::build(file, root, dispatcher, arena, &mut window);
            let child = built.map_err(|_| Status::Invalid)?;
            let endpoint = domain.make(CapType::Endpoint, PAGE)?;
            endpoint.copy_to(child.slot(SELF_EP))?;
            let send = domain.slot()?;
            endpoint.mint_badged(send, Rights::SEND, BADGE)?;
            let ram = child.slot(domain::ARENA_SLOT);
            libos::ram::Ram::make(&mut domain.arena, CapType::Ram, CHILD_RAM, 1, ram)?;
            child.start([CHILD, 0, 0, 0, 0], Place::NULL, &mut window)?;
            Ok((child, send))
        })?;
        Ok(Peer { child: Some(child), client: worker::Client(Remote(send)) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = child.destroy();
        }
    }
}

fn frame(bytes: u64) -> Result<OwnedCap, Status> {
    domain::with(|domain| domain.make(CapType::Frame, bytes)).map(OwnedCap::own)
}

fn calls(machine: &Machine) -> Outcome {
    let gone = good!(Peer::new(machine));
    let client = gone.client;
    check!(client.add(1) == Ok((1, u64::from(BADGE))));
    drop(gone);
    fails!(PeerGone, client.add(1));
    let peer = good!(Peer::new(machine));
    check!(peer.client.add(5) == Ok((5, u64::from(BADGE))));
    check!(peer.client.add(u64::from(u32::MAX)) == Ok((4_294_967_300, u64::from(BADGE))));
    check!(peer.client.fail(0) == Ok(()));
    for status in [Status::NoMemory, Status::NoSlot, Status::WrongType] {
        check!(peer.client.fail(status.to_word() as u32) == Err(status));
    }
    good!(peer.client.quit());
    Ok(())
}

/// Capabilities go over and come back, and what they stand for with them.
fn capabilities(machine: &Machine) -> Outcome {
    let peer = good!(Peer::new(machine));
    let first = good!(frame(PAGE));
    let va = good!(domain::with(|domain| domain.map(first.cap().into(), 0, PAGE, RW)));
    let base = good!(first.cap().identify()).base;
    fails!(Empty, peer.client.exchange(good!(OwnedCap::copy_of(first.cap())), 11));
    // SAFETY: mapped above, for good.
    check!(unsafe { (va as *const u64).read_volatile() } == 11);
    let slot = first.into_cap();
    let (back, mark) = good!(peer.client.exchange(OwnedCap::own(slot), 22));
    check!(mark == 11 && good!(back.cap().identify()).base == base);
    // What was sent is not here any more.
    check!(back.cap() == slot || slot.identify() == Err(Status::Empty));
    let sizes = [1, 2, 3, 4].map(|pages| frame(pages * PAGE));
    let [a, b, c, d] = sizes;
    check!(peer.client.measure(good!(a), good!(b), good!(c), good!(d)) == Ok(10 * PAGE));
    Ok(())
}

/// What is no request, or lacks what it should have, is an error; the server goes on.
fn wrong_messages(machine: &Machine) -> Outcome {
    let peer = good!(Peer::new(machine));
    let Remote(endpoint) = peer.client.0;
    fails!(Invalid, Remote(endpoint).call::<()>(Packet::request(99)));
    // Without its capabilities.
    fails!(Empty, Remote(endpoint).call::<u64>(Packet::request(3)));
    // A number that is too large for its type.
    let mut request = Packet::request(4);
    good!(interface::Payload::put(1u64 << 40, &mut request));
    fails!(Invalid, Remote(endpoint).call::<()>(request));
    // More words than there are.
    let mut request = Packet::request(1);
    for n in 0..5u64 {
        good!(interface::Payload::put(n, &mut request));
    }
    fails!(OutOfRange, interface::Payload::put(5u64, &mut request));
    // An answer without the capability that it should have.
    fails!(Empty, Remote(endpoint).call::<OwnedCap>(Packet::request(7)));
    check!(peer.client.add(1) == Ok((1, u64::from(BADGE))));
    Ok(())
}

/// Both ends of two channels, one in each direction.
struct Ends<T> {
    sender: Sender<T>,
    receiver: Receiver<T>,
    /// The Frame of the first.
    shared: OwnedCap,
}

type Connect =
    fn(&worker::Client, OwnedCap, OwnedCap, OwnedCap, u64) -> Result<(OwnedCap, u64), Status>;

fn connect<T: libos::channel::Message>(
    peer: &Peer,
    ring: u64,
    how: Connect,
) -> Result<Ends<T>, Status> {
    let endpoint: CapAddr = domain::with(|domain| domain.make(CapType::Endpoint, PAGE))?;
    let bit = listen(endpoint)?;
    let (request, answer) = (frame(PAGE + ring)?, frame(PAGE + ring)?);
    let copies = [&request, &answer].map(|frame| OwnedCap::copy_of(frame.cap()));
    let [request_copy, answer_copy] = copies;
    let bell = OwnedCap::copy_of(endpoint)?;
    let (other, other_bit) = how(&peer.client, request_copy?, answer_copy?, bell, bit)?;
    let second = OwnedCap::copy_of(other.cap())?;
    let shared = OwnedCap::copy_of(request.cap())?;
    let sender = Sender::new(request, bit, Bell::new(other, other_bit))?;
    let receiver = Receiver::new(answer, bit, Bell::new(second, other_bit))?;
    Ok(Ends { sender, receiver, shared })
}

/// Messages arrive in order and whole, both ways at once, and other threads run meanwhile.
fn messages(machine: &Machine) -> Outcome {
    static DONE: AtomicBool = AtomicBool::new(false);
    const COUNT: u64 = 5000;
    let peer = good!(Peer::new(machine));
    let Ends { mut sender, mut receiver, .. } =
        good!(connect::<[u64; 4]>(&peer, PAGE, |c, a, b, bell, bit| c.echo(a, b, bell, bit)));
    let counter = good!(thread::spawn(|| {
        let mut turns = 0u64;
        while !DONE.load(Relaxed) {
            turns += 1;
            thread::yield_now();
        }
        turns
    }));
    let sending = good!(thread::spawn(move || {
        (0..COUNT).try_for_each(|n| sender.send(&[n, n * n, 7 * n, !n]))
    }));
    for n in 0..COUNT {
        check!(receiver.receive() == Ok([!n, 7 * n, n ^ (n * n), n + n * n]));
    }
    check!(sending.join() == Ok(()));
    DONE.store(true, Relaxed);
    check!(counter.join() > 0);
    Ok(())
}

/// Pieces of random sizes come out as one stream, in pieces of other sizes.
fn random_bytes(machine: &Machine) -> Outcome {
    const BYTES: usize = BLOCK * 3000;
    let seed = machine.boot.seed();
    libos::log!("channel_random_bytes: seed={seed}");
    let peer = good!(Peer::new(machine));
    let Ends { mut sender, mut receiver, .. } =
        good!(connect::<u8>(&peer, PAGE, |c, a, b, bell, bit| c.echo_bytes(a, b, bell, bit)));
    let mut random = Rng::with_seed(seed);
    let data: Vec<u8> = (0..BYTES).map(|_| random.u8(..)).collect();
    let sent = data.clone();
    let sending = good!(thread::spawn(move || {
        let (mut rest, mut random) = (&sent[..], Rng::with_seed(seed ^ 1));
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(1 + random.usize(..9000)));
            sender.send_bytes(piece)?;
            rest = behind;
        }
        Ok::<(), Status>(())
    }));
    let mut received = alloc::vec![0; BYTES];
    let mut rest = &mut received[..];
    while !rest.is_empty() {
        let size = rest.len().min(1 + random.usize(..9000));
        let (piece, behind) = rest.split_at_mut(size);
        good!(receiver.receive_bytes(piece));
        rest = behind;
    }
    check!(sending.join() == Ok(()));
    check!(received.iter().zip(&data).all(|(a, b)| *a == !*b));
    Ok(())
}

/// Counters that cannot be end the channel, not the domain.
fn hostile_peer(machine: &Machine) -> Outcome {
    let peer = good!(Peer::new(machine));
    let mut ends =
        good!(connect::<[u64; 4]>(&peer, PAGE, |c, a, b, bell, bit| c.echo(a, b, bell, bit)));
    good!(ends.sender.send(&[1, 2, 3, 4]));
    check!(ends.receiver.receive() == Ok([4, 3, 3, 3]));
    check!(peer.client.ended() == Ok((0, 0)));
    let frame = ends.shared.cap().into();
    let va = good!(domain::with(|domain| domain.map(frame, 0, PAGE, RW)));
    // SAFETY: mapped just now, for good: the number of bytes sent.
    unsafe { (va as *mut u64).write_volatile(u64::MAX / 2) };
    fails!(Invalid, ends.sender.send(&[0; 4]));
    // The other side waits; woken, it finds out as well.
    good!(ends.sender.wake_peer());
    let (mut ended, mut tries) = (0, 0);
    while ended == 0 && tries < 1000 {
        ended = good!(peer.client.ended()).0;
        tries += 1;
    }
    check!(peer.client.ended() == Ok((1, Status::Invalid.to_word())));
    check!(peer.client.add(3) == Ok((3, u64::from(BADGE))));
    Ok(())
}
