//! Interfaces between domains, declared once: the calls, their arguments and results, and the
//! capabilities that go along. [`interface!`](crate::interface!) makes both sides of the declaration.
//!
//! ```no_run
//! libos::interface! {
//!     /// Keeps a total, and pages.
//!     pub mod store {
//!         /// Adds to the total, and says what it is.
//!         1 fn add(amount: u64) -> u64;
//!         /// Takes a Frame, of so many bytes.
//!         2 fn put(frame: OwnedCap, bytes: u64);
//!         /// Gives it back.
//!         3 fn take() -> (OwnedCap, u64);
//!     }
//! }
//! use libos::interface::OwnedCap;
//! ```
//!
//! `store::Client` has these as methods, over an endpoint; `store::Server` is a trait with them, and
//! [`serve`] calls it for what comes. Up to five words and four capabilities fit a message, in either
//! direction. What crosses is checked where it arrives: a message that is none is an error of its
//! sender, and capabilities that nobody wanted are deleted.

use crate::ipc::{self, Caps, Message};
use crate::local::Local;
use crate::thread;
use crate::{domain, invoke, Cap};
use alloc::vec::Vec;
use captypes::invocations::Word;
use captypes::{op, CapAddr, Place, Status};

/// Words of a message behind the first.
const WORDS: usize = 5;
/// Capabilities of a message.
pub const MOST_CAPS: u32 = 4;

/// A capability in a slot of its own, which is emptied and given back when this is dropped.
#[derive(PartialEq, Eq, Debug)]
pub struct OwnedCap(CapAddr);

impl OwnedCap {
    /// A copy of a capability.
    pub fn copy_of(cap: CapAddr) -> Result<OwnedCap, Status> {
        let copy = OwnedCap(domain::with(|domain| domain.slot())?);
        cap.copy_to(copy.0)?;
        Ok(copy)
    }

    /// The capability in this slot, which belongs to the result from now on.
    pub fn own(slot: CapAddr) -> OwnedCap {
        OwnedCap(slot)
    }

    /// Its slot.
    pub fn cap(&self) -> CapAddr {
        self.0
    }

    /// The slot, which belongs to the caller from now on.
    pub fn into_cap(self) -> CapAddr {
        let slot = self.0;
        core::mem::forget(self);
        slot
    }
}

impl Drop for OwnedCap {
    fn drop(&mut self) {
        // It may have gone with a message.
        let result = invoke(self.0, op::Delete {});
        if matches!(result, Err(Status::Again | Status::RetryThroughMonitor)) {
            if leave(self.0) {
                return;
            }
            self.0.discard();
        }
        domain::free_or_lose_slot(self.0);
    }
}

/// Of a monitor: slots of dropped capabilities that could not be deleted at once.
static UNDELETED: Local<Option<Vec<CapAddr>>> = Local::new(None);

/// From now on, what is dropped and cannot be deleted at once stays where it is, for
/// [`take_undeleted`]. For monitors: others decide when it can be deleted, and nobody may wait for them.
pub fn leave_undeleted() {
    UNDELETED.try_with(|slots| *slots = Some(Vec::new()));
}

fn leave(slot: CapAddr) -> bool {
    let left = UNDELETED.try_with(|slots| slots.as_mut().map(|slots| slots.push(slot)));
    left.flatten().is_some()
}

/// The slot of a dropped capability that is still there.
pub fn take_undeleted() -> Option<CapAddr> {
    UNDELETED.try_with(|slots| slots.as_mut().and_then(Vec::pop)).flatten()
}

/// A message that is being put together or taken apart.
#[derive(Debug, Default)]
pub struct Packet {
    /// The operation, or of an answer the status.
    first: u64,
    words: [u64; WORDS],
    caps: [Option<OwnedCap>; MOST_CAPS as usize],
    /// The next word and capability to be put or taken.
    word: usize,
    cap: usize,
}

impl Packet {
    /// A request without arguments yet.
    pub fn request(operation: u64) -> Packet {
        Packet { first: operation, ..Packet::default() }
    }

    /// The answer with a result.
    pub fn answer(value: impl Payload) -> Result<Packet, Status> {
        let mut packet = Packet::default();
        value.put(&mut packet)?;
        Ok(packet)
    }

    /// The answer that is an error.
    pub fn error(status: Status) -> Packet {
        Packet { first: status.to_word(), ..Packet::default() }
    }

    /// The operation of a request.
    pub fn operation(&self) -> u64 {
        self.first
    }

    /// From what was received, with capabilities in the slots from `slots` on, of which the packet
    /// owns as many as came.
    pub fn received(message: &Message, slots: CapAddr) -> Packet {
        let [first, words @ ..] = message.words;
        let mut packet = Packet { first, words, ..Packet::default() };
        for (place, n) in packet.caps.iter_mut().zip(0..message.caps()) {
            *place = Some(OwnedCap(slots.plus(n)));
        }
        packet
    }

    fn to_words(&self) -> [u64; 6] {
        let [a, b, c, d, e] = self.words;
        [self.first, a, b, c, d, e]
    }

    /// The capabilities in consecutive slots, to be moved; the slots must live until they are sent. One
    /// goes from where it is, even while monitors work on it.
    fn gather(&self) -> Result<(Caps, Slots), Status> {
        let mut caps = self.caps.iter().flatten();
        match (caps.next(), caps.count() as u32) {
            (None, _) => Ok((Caps::NONE, Slots::new(0)?)),
            (Some(only), 0) => Ok((Caps::moved(only.0, 1), Slots::new(0)?)),
            (Some(_), others) => self.gather_several(1 + others),
        }
    }

    fn gather_several(&self, count: u32) -> Result<(Caps, Slots), Status> {
        let slots = Slots::new(count)?;
        for (cap, n) in self.caps.iter().flatten().zip(0..) {
            cap.0.move_to(slots.first.plus(n))?;
        }
        Ok((Caps::moved(slots.first, count), slots))
    }
}

/// Consecutive slots; those that are not taken out are emptied and given back.
#[derive(Debug)]
struct Slots {
    first: CapAddr,
    count: u32,
}

impl Slots {
    fn new(count: u32) -> Result<Slots, Status> {
        let first = match count {
            0 => CapAddr::NULL,
            _ => domain::with(|domain| domain.slot_range(count))?,
        };
        Ok(Slots { first, count })
    }

    /// The first `taken` slots belong to somebody else now.
    fn give(&mut self, taken: u32) {
        let taken = taken.min(self.count);
        self.first = self.first.plus(taken);
        self.count -= taken;
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        (0..self.count).for_each(|n| drop(OwnedCap(self.first.plus(n))));
    }
}

/// Empty slots in which the capabilities of the next messages arrive. They stay where they arrive: one that
/// the monitors work on cannot be moved by those who got it.
#[derive(Debug)]
pub struct Inbox(Slots);

impl Inbox {
    /// Slots that are taken at a time.
    const SLOTS: u32 = 4 * MOST_CAPS;

    /// Without slots yet.
    pub const fn new() -> Inbox {
        Inbox(Slots { first: CapAddr::NULL, count: 0 })
    }

    /// The first of [`MOST_CAPS`] empty slots; null if there are no more, and capabilities cannot come.
    fn place(&mut self) -> CapAddr {
        if self.0.count < MOST_CAPS {
            self.0 = Slots::new(Self::SLOTS).unwrap_or(Inbox::new().0);
        }
        self.0.first
    }

    /// The packet of a message that has come, with the slots in which it brought something.
    fn open(&mut self, message: &Message) -> Packet {
        let packet = Packet::received(message, self.0.first);
        self.0.give(message.caps());
        packet
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

/// What crosses in messages.
pub trait Payload: Sized {
    /// How many capabilities it has.
    const CAPS: u32 = 0;
    /// Adds it to a message. `OutOfRange`: it does not fit.
    fn put(self, packet: &mut Packet) -> Result<(), Status>;
    /// Takes it from one. `Invalid`: the message has none, or something else. `Empty`: a capability has
    /// not come along, which may have been revoked on its way.
    fn take(packet: &mut Packet) -> Result<Self, Status>;
}

macro_rules! word_payloads {
    ($($ty:ty)*) => { $(impl Payload for $ty {
        fn put(self, packet: &mut Packet) -> Result<(), Status> {
            *packet.words.get_mut(packet.word).ok_or(Status::OutOfRange)? = self.to_word();
            packet.word += 1;
            Ok(())
        }
        fn take(packet: &mut Packet) -> Result<Self, Status> {
            let word = *packet.words.get(packet.word).ok_or(Status::Invalid)?;
            packet.word += 1;
            <$ty>::from_word(word)
        }
    })* };
}
word_payloads!(u64 u32 u16 u8 bool captypes::Rights captypes::RamAttrs);

impl Payload for OwnedCap {
    const CAPS: u32 = 1;
    fn put(self, packet: &mut Packet) -> Result<(), Status> {
        *packet.caps.get_mut(packet.cap).ok_or(Status::OutOfRange)? = Some(self);
        packet.cap += 1;
        Ok(())
    }
    fn take(packet: &mut Packet) -> Result<Self, Status> {
        packet.cap += 1;
        packet.caps.get_mut(packet.cap - 1).and_then(Option::take).ok_or(Status::Empty)
    }
}

macro_rules! tuple_payloads {
    ($(($($name:ident)*))*) => { $(
        #[allow(non_snake_case, unused_variables)]
        impl<$($name: Payload),*> Payload for ($($name,)*) {
            const CAPS: u32 = 0 $(+ $name::CAPS)*;
            fn put(self, packet: &mut Packet) -> Result<(), Status> {
                let ($($name,)*) = self;
                $($name.put(packet)?;)*
                Ok(())
            }
            #[allow(clippy::unused_unit)]
            fn take(packet: &mut Packet) -> Result<Self, Status> {
                Ok(($($name::take(packet)?,)*))
            }
        }
    )* };
}
tuple_payloads!(() (A) (A B) (A B C) (A B C D) (A B C D E));

/// A server, by an endpoint capability with the right to send.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub CapAddr);

impl Remote {
    /// Sends a request and waits for its result, with the whole domain. The capabilities in it are
    /// gone then.
    pub fn call<R: Payload>(self, request: Packet) -> Result<R, Status> {
        let (caps, _sent) = request.gather()?;
        let mut received = Slots::new(R::CAPS)?;
        let answer = ipc::call(self.0, request.to_words(), caps, received.first)?;
        let mut packet = Packet::received(&answer, received.first);
        received.give(answer.caps());
        Status::from_word(packet.first)?;
        R::take(&mut packet)
    }
}

/// Where a server gets its requests. Threads of the domain run while there are none.
#[derive(Debug)]
pub struct Receiver {
    endpoint: CapAddr,
    bit: u64,
    inbox: Inbox,
}

impl Receiver {
    /// Receives from an endpoint, by a capability with the right to do so.
    pub fn new(endpoint: CapAddr) -> Result<Receiver, Status> {
        crate::upcall::install();
        let bit = thread::new_bit()?;
        invoke(endpoint, op::Listen { bits: bit })?;
        Ok(Receiver { endpoint, bit, inbox: Inbox::new() })
    }

    /// The next request, and the badge of who sent it. It is to be [answered](Receiver::answer)
    /// before the one after.
    pub fn receive(&mut self) -> Result<(u64, Packet), Status> {
        loop {
            match ipc::poll(self.endpoint, self.inbox.place()) {
                Ok(message) if message.is_notification() => thread::deliver(message.words[0]),
                Ok(message) => return Ok((message.badge, self.inbox.open(&message))),
                Err(Status::Empty) => drop(thread::wait_for(self.bit)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Answers the last request. An error: whoever sent it has gone.
    pub fn answer(&mut self, answer: Packet) -> Result<(), Status> {
        let (caps, _sent) = answer.gather()?;
        ipc::reply(Place::CALLER, answer.to_words(), caps)
    }
}

/// Has `handle` answer one request, if there is any; for servers with an event loop of their own.
/// `false`: there is none.
pub fn serve_one(
    endpoint: CapAddr,
    inbox: &mut Inbox,
    handle: impl FnOnce(Incoming) -> Option<Packet>,
) -> Result<bool, Status> {
    let message = match ipc::poll(endpoint, inbox.place()) {
        Ok(message) => message,
        Err(Status::Empty) => return Ok(false),
        Err(error) => return Err(error),
    };
    answer(&message, inbox, handle);
    Ok(true)
}

/// Waits for one request or notification and has `handle` answer it; see [`serve_one`].
pub fn wait_one(
    endpoint: CapAddr,
    inbox: &mut Inbox,
    handle: impl FnOnce(Incoming) -> Option<Packet>,
) -> Result<(), Status> {
    answer(&ipc::recv(endpoint, inbox.place())?, inbox, handle);
    Ok(())
}

/// What a server with an event loop of its own gets.
pub enum Incoming<'a> {
    /// Notification bits. Nobody waits for an answer.
    Notification(u64),
    /// A request, with the badge of its sender.
    Request(u64, Packet),
    /// The fault of a domain, with the badge that it has here, as the kernel reports it.
    Fault(&'a Message),
    /// An invocation that needs other cores; see [`captypes::op::SetMonitor`].
    Redirected([u64; 6]),
}

fn answer(message: &Message, inbox: &mut Inbox, handle: impl FnOnce(Incoming) -> Option<Packet>) {
    let incoming = match message {
        _ if message.is_notification() => Incoming::Notification(message.words[0]),
        _ if message.is_fault() => Incoming::Fault(message),
        _ if message.is_redirected() => Incoming::Redirected(message.words),
        _ => Incoming::Request(message.badge, inbox.open(message)),
    };
    let Some(answer) = handle(incoming) else { return };
    let answered = answer
        .gather()
        .and_then(|(caps, _sent)| ipc::reply(Place::CALLER, answer.to_words(), caps));
    if let Err(error) = answered {
        // What it was to bring has been revoked; who asked must not wait for it. Who does not wait any
        // more needs no answer.
        let _ = ipc::reply(Place::CALLER, Packet::error(error).to_words(), Caps::NONE);
    }
}

/// Serves requests until `handle` says that it was the last: with an answer, and whether to go on.
pub fn serve(
    endpoint: CapAddr,
    mut handle: impl FnMut(u64, &mut Packet) -> (Result<Packet, Status>, bool),
) -> Result<(), Status> {
    let mut receiver = Receiver::new(endpoint)?;
    loop {
        let (from, mut request) = receiver.receive()?;
        let (answer, goes_on) = handle(from, &mut request);
        drop(request);
        // Who does not wait for it any more needs none.
        let _ = receiver.answer(answer.unwrap_or_else(Packet::error));
        if !goes_on {
            return Ok(());
        }
    }
}

/// The type behind `->`, or nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __reply {
    () => {
        ()
    };
    ($ty:ty) => {
        $ty
    };
}

/// Declares an interface; see [`mod@crate::interface`].
#[macro_export]
macro_rules! interface {
    ($(#[$doc:meta])* $vis:vis mod $name:ident {
        $($(#[$fdoc:meta])* $op:literal fn $method:ident($($arg:ident: $ty:ty),* $(,)?)
            $(-> $reply:ty)?;)*
    }) => {
        $(#[$doc])*
        $vis mod $name {
            #[allow(unused_imports)]
            use super::*;
            use $crate::interface::{Packet, Payload, Remote};
            use $crate::Status;

            /// The side that serves. `from` is the badge of the endpoint capability that the caller
            /// used.
            pub trait Server {
                $($(#[$fdoc])*
                fn $method(&mut self, from: u64, $($arg: $ty),*)
                    -> Result<$crate::__reply!($($reply)?), Status>;)*
            }

            /// The side that calls.
            #[derive(Clone, Copy, Debug)]
            pub struct Client(pub Remote);

            impl Client {
                $($(#[$fdoc])*
                pub fn $method(&self, $($arg: $ty),*)
                    -> Result<$crate::__reply!($($reply)?), Status> {
                    #[allow(unused_mut)]
                    let mut request = Packet::request($op);
                    $(Payload::put($arg, &mut request)?;)*
                    self.0.call(request)
                })*
            }

            /// Has `server` do what a request asks for.
            pub fn dispatch(
                server: &mut impl Server,
                from: u64,
                request: &mut Packet,
            ) -> Result<Packet, Status> {
                match request.operation() {
                    $($op => {
                        $(let $arg: $ty = Payload::take(request)?;)*
                        Packet::answer(server.$method(from, $($arg),*)?)
                    })*
                    _ => Err(Status::Invalid),
                }
            }
        }
    };
}
