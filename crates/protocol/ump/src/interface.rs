//! Interfaces between cores, declared once: messages, which nobody answers, and calls, which have a
//! result. [`interface!`](crate::interface!) makes both sides of the declaration.
//!
//! ```
//! use ump::interface::Token;
//! ump::interface! {
//!     /// Keeps a total, and pages.
//!     pub mod store {
//!         /// Adds to the total.
//!         1 message add(amount: u64);
//!         /// What is it?
//!         2 call total() -> u64;
//!         /// Takes a Frame, of so many bytes; gives back the one before, and its size.
//!         3 call put(frame: Token, bytes: u64) -> (Token, u64);
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! Generated are, in `store`:
//!
//! * `Request` and `Reply`, what travels, with `encode` and `decode`: for event loops that keep
//!   account of their calls themselves, as monitors do;
//! * `Client`, whose methods send a message, or call and wait for the result;
//! * `Server`, a trait with the same methods, and `dispatch`.
//!
//! A capability cannot go through memory. Where the declaration says [`Token`], the methods of both
//! sides take and give a capability ([`Host::Cap`]): the stub has its [`Host`] send it, by the
//! protocol of the monitors, and the message carries the token by which the other side finds it.

use crate::ring::{Broken, Message, Receiver, SendError, Sender, LINES, MAX_WORDS};
use crate::wire::{Damaged, Reader, Wire, Writer};

/// A capability on its way: a number that both sides' hosts understand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u64);

impl Wire for Token {
    const WORDS: usize = 1;
    fn put(self, writer: &mut Writer) {
        writer.put(self.0);
    }
    fn take(reader: &mut Reader) -> Result<Self, Damaged> {
        reader.take().map(Token)
    }
}

/// What an end of a channel needs of the domain around it.
pub trait Host {
    /// How capabilities are named here.
    type Cap;
    /// Why something failed.
    type Error: From<Fault>;

    /// The error as a word for the other side, not zero.
    fn error_to_word(error: Self::Error) -> u64;
    /// An error that the other side reports.
    fn error_from_word(word: u64) -> Self::Error;
    /// Sends a capability to the other side's domain.
    fn export(&mut self, cap: Self::Cap) -> Result<Token, Self::Error>;
    /// The capability that came with this token.
    fn import(&mut self, token: Token) -> Result<Self::Cap, Self::Error>;
    /// Something was sent, or read: wakes the other side if it sleeps.
    fn sent(&mut self);
    /// Nothing to do: pauses or sleeps until there may be something. `ready` looks again, after the
    /// announcement that somebody sleeps.
    fn wait(&mut self, ready: &mut dyn FnMut() -> bool) -> Result<(), Self::Error>;
}

/// What is wrong with a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The other side wrote what cannot be.
    Broken,
    /// It sent what is no message of the interface.
    Damaged,
}

impl From<Broken> for Fault {
    fn from(_: Broken) -> Fault {
        Fault::Broken
    }
}
impl From<Damaged> for Fault {
    fn from(_: Damaged) -> Fault {
        Fault::Damaged
    }
}

/// A value of an interface as the two sides' methods see it: itself, or for a [`Token`] a capability.
pub trait Value<H: Host>: Wire {
    /// That.
    type Local;
    /// On the way out.
    fn export(local: Self::Local, host: &mut H) -> Result<Self, H::Error>;
    /// On the way in.
    fn import(self, host: &mut H) -> Result<Self::Local, H::Error>;
}

impl<H: Host> Value<H> for Token {
    type Local = H::Cap;
    fn export(cap: H::Cap, host: &mut H) -> Result<Self, H::Error> {
        host.export(cap)
    }
    fn import(self, host: &mut H) -> Result<H::Cap, H::Error> {
        host.import(self)
    }
}

/// Makes types that are [`Wire`] into [`Value`]s that are the same on both sides.
#[macro_export]
macro_rules! plain_values {
    // With the parameters of the implementation behind a type.
    ($($ty:ty $(where $(const $n:ident: usize),*)?);* $(;)?) => { $(
        impl<H: $crate::interface::Host $($(, const $n: usize)*)?> $crate::interface::Value<H> for $ty {
            type Local = Self;
            fn export(local: Self, _: &mut H) -> Result<Self, H::Error> {
                Ok(local)
            }
            fn import(self, _: &mut H) -> Result<Self, H::Error> {
                Ok(self)
            }
        }
    )* };
}
plain_values!(u64; u32; u16; u8; bool; [u64; N] where const N: usize; crate::wire::Text<N> where const N: usize);

macro_rules! tuple_values {
    ($(($($name:ident)*))*) => { $(
        #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
        impl<Z: Host, $($name: Value<Z>),*> Value<Z> for ($($name,)*) {
            type Local = ($($name::Local,)*);
            fn export(local: Self::Local, host: &mut Z) -> Result<Self, Z::Error> {
                let ($($name,)*) = local;
                Ok(($($name::export($name, host)?,)*))
            }
            fn import(self, host: &mut Z) -> Result<Self::Local, Z::Error> {
                let ($($name,)*) = self;
                Ok(($($name.import(host)?,)*))
            }
        }
    )* };
}
tuple_values!(() (A) (A B) (A B C) (A B C D) (A B C D E));

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A message: nobody answers.
    Message = 0,
    /// A call, to be answered with its number.
    Call = 1,
    /// The answer to one.
    Reply = 2,
}

/// A message, call or reply, not looked into yet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Which of these.
    pub kind: Kind,
    /// The number in the declaration; of a reply, that of the call.
    pub operation: u16,
    /// Tells calls apart.
    pub call: u16,
    /// Arguments, or results.
    pub body: Body,
}

/// Operations of an interface have smaller numbers.
pub const OPERATIONS: u16 = 1 << 12;
/// Calls have smaller numbers.
pub const CALLS: u16 = 1 << 14;

/// Words of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    words: [u64; MAX_WORDS],
    len: usize,
}

impl Body {
    /// These, cut off at the most that fits.
    pub fn new(words: &[u64]) -> Body {
        let len = words.len().min(MAX_WORDS);
        let mut body = Body { words: [0; MAX_WORDS], len };
        body.words[..len].copy_from_slice(&words[..len]);
        body
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

impl From<Writer> for Body {
    fn from(writer: Writer) -> Body {
        Body::new(writer.words())
    }
}

impl Packet {
    /// The tag of the ring's message.
    pub fn tag(&self) -> u32 {
        let (operation, call) = (self.operation % OPERATIONS, self.call % CALLS);
        u32::from(operation) | (self.kind as u32) << 12 | u32::from(call) << 14
    }

    /// From what a ring received.
    pub fn from_message(message: &Message) -> Result<Packet, Damaged> {
        let kind = match message.tag >> 12 & 3 {
            0 => Kind::Message,
            1 => Kind::Call,
            2 => Kind::Reply,
            _ => return Err(Damaged),
        };
        Ok(Packet {
            kind,
            operation: message.tag as u16 % OPERATIONS,
            call: (message.tag >> 14) as u16,
            body: Body::new(message.words()),
        })
    }

    /// The reply to this call.
    pub fn reply(&self, body: Body) -> Packet {
        Packet { kind: Kind::Reply, body, ..*self }
    }
}

/// Both directions of a channel.
#[derive(Debug)]
pub struct End<'a, const N: usize = LINES> {
    sender: Sender<'a, N>,
    receiver: Receiver<'a, N>,
    next_call: u16,
}

impl<'a, const N: usize> End<'a, N> {
    /// Of two rings.
    pub fn new(sender: Sender<'a, N>, receiver: Receiver<'a, N>) -> Self {
        End { sender, receiver, next_call: 0 }
    }

    /// A number for a call, other than that of the last 16,383.
    pub fn new_call(&mut self) -> u16 {
        self.next_call = (self.next_call + 1) % CALLS;
        self.next_call
    }

    /// Sends now, or says that there is no room (`false`).
    pub fn try_send<H: Host>(&mut self, host: &mut H, packet: &Packet) -> Result<bool, H::Error> {
        match self.sender.try_send(packet.tag(), packet.body.words()) {
            Ok(()) => {
                host.sent();
                Ok(true)
            }
            Err(SendError::Full) => Ok(false),
            Err(SendError::Broken) => Err(Fault::Broken.into()),
            Err(SendError::TooLarge) => Err(Fault::Damaged.into()),
        }
    }

    /// Sends, and waits for room before if there is none.
    pub fn send<H: Host>(&mut self, host: &mut H, packet: &Packet) -> Result<(), H::Error> {
        while !self.try_send(host, packet)? {
            let words = packet.body.words().len();
            // What is broken shows at the next attempt.
            host.wait(&mut || self.sender.room_for(words) != Ok(false))?;
        }
        Ok(())
    }

    /// What has come, if anything.
    pub fn try_receive<H: Host>(&mut self, host: &mut H) -> Result<Option<Packet>, H::Error> {
        let message = self.receiver.try_recv().map_err(Fault::from)?;
        if message.is_none() && self.receiver.release() {
            host.sent();
        }
        let packet = message.map(|message| Packet::from_message(&message)).transpose();
        Ok(packet.map_err(Fault::from)?)
    }

    /// Waits for what comes.
    pub fn receive<H: Host>(&mut self, host: &mut H) -> Result<Packet, H::Error> {
        loop {
            if let Some(packet) = self.try_receive(host)? {
                return Ok(packet);
            }
            host.wait(&mut || self.receiver.peek().is_some())?;
        }
    }

    /// Calls and waits for the reply. Other things must not come meanwhile: a client's end.
    pub fn call<H: Host>(
        &mut self,
        host: &mut H,
        operation: u16,
        body: Body,
    ) -> Result<Packet, H::Error> {
        let call = self.new_call();
        self.send(host, &Packet { kind: Kind::Call, operation, call, body })?;
        let reply = self.receive(host)?;
        if (reply.kind, reply.operation, reply.call) != (Kind::Reply, operation, call) {
            return Err(Fault::Damaged.into());
        }
        Ok(reply)
    }
}

/// The type behind `->`, or nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __result {
    () => {
        ()
    };
    ($ty:ty) => {
        $ty
    };
}

/// The parts of a declaration that differ between messages and calls.
#[doc(hidden)]
#[macro_export]
macro_rules! __operation {
    (kind message) => { $crate::interface::Kind::Message };
    (kind call) => { $crate::interface::Kind::Call };
    (finish message $end:ident $host:ident $op:literal $body:ident ($($result:ty)?)) => {{
        let kind = $crate::interface::Kind::Message;
        let packet =
            $crate::interface::Packet { kind, operation: $op, call: 0, body: $body };
        $end.send($host, &packet)
    }};
    (finish call $end:ident $host:ident $op:literal $body:ident ($($result:ty)?)) => {{
        let packet = $end.call($host, $op, $body)?;
        let result: Result<$crate::__result!($($result)?), u64> =
            $crate::interface::decode_reply(&packet).map_err($crate::interface::Fault::from)?;
        let value = result.map_err(H::error_from_word)?;
        $crate::interface::Value::<H>::import(value, $host)
    }};
}

/// The words of a reply: zero and the result, or an error.
#[doc(hidden)]
pub fn encode_reply<T: Wire>(result: Result<T, u64>) -> Body {
    let mut writer = Writer::new();
    match result {
        Ok(value) => {
            writer.put(0);
            value.put(&mut writer);
        }
        // Zero would say that all went well.
        Err(error) => writer.put(error.max(1)),
    }
    writer.into()
}

#[doc(hidden)]
pub fn decode_reply<T: Wire>(packet: &Packet) -> Result<Result<T, u64>, Damaged> {
    let mut reader = Reader::new(packet.body.words());
    match reader.take()? {
        0 => T::take(&mut reader).map(Ok),
        error => Ok(Err(error)),
    }
}

/// Declares an interface; see [`mod@crate::interface`].
#[macro_export]
macro_rules! interface {
    ($(#[$doc:meta])* $vis:vis mod $name:ident {
        $($(#[$fdoc:meta])* $op:literal $kind:ident $method:ident($($arg:ident: $ty:ty),* $(,)?)
            $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[allow(non_camel_case_types, dead_code)]
        $vis mod $name {
            #[allow(unused_imports)]
            use super::*;
            use $crate::interface::{Body, End, Fault, Host, Kind, Packet, Value};
            use $crate::wire::{Damaged, Reader, Wire, Writer};

            $(const _: () = assert!(
                0 $(+ <$ty as Wire>::WORDS)* <= $crate::MAX_WORDS
                    && <$crate::__result!($($result)?) as Wire>::WORDS < $crate::MAX_WORDS
                    && $op < $crate::interface::OPERATIONS,
                "too large for a message"
            );)*

            /// What one side asks of the other.
            #[derive(Clone, Copy, PartialEq, Debug)]
            pub enum Request {
                $($(#[$fdoc])* $method {
                    $(#[allow(missing_docs)] $arg: $ty),*
                },)*
            }

            impl Request {
                /// As a packet; `call` is the number of a call, and does not matter for messages.
                pub fn encode(self, call: u16) -> Packet {
                    #[allow(unused_mut)]
                    let mut writer = Writer::new();
                    let (operation, kind) = match self {
                        $(Request::$method { $($arg),* } => {
                            $(Wire::put($arg, &mut writer);)*
                            ($op, $crate::__operation!(kind $kind))
                        })*
                    };
                    Packet { kind, operation, call, body: writer.into() }
                }

                /// From a packet that is no reply.
                pub fn decode(packet: &Packet) -> Result<Request, Damaged> {
                    #[allow(unused_variables, unused_mut)]
                    let mut reader = Reader::new(packet.body.words());
                    match (packet.operation, packet.kind) {
                        $(($op, kind) if kind == $crate::__operation!(kind $kind) => {
                            $(let $arg = Wire::take(&mut reader)?;)*
                            Ok(Request::$method { $($arg),* })
                        })*
                        _ => Err(Damaged),
                    }
                }
            }

            /// The answer to a request: its result, or an error other than zero. (Nobody sends those
            /// to messages.)
            #[derive(Clone, Copy, PartialEq, Debug)]
            pub enum Reply {
                $($(#[$fdoc])* $method(Result<$crate::__result!($($result)?), u64>),)*
            }

            impl Reply {
                /// As the reply to the call with this number.
                pub fn encode(self, call: u16) -> Packet {
                    let (operation, body) = match self {
                        $(Reply::$method(result) => {
                            ($op, $crate::interface::encode_reply(result))
                        })*
                    };
                    Packet { kind: Kind::Reply, operation, call, body }
                }

                /// From a packet that is a reply.
                pub fn decode(packet: &Packet) -> Result<Reply, Damaged> {
                    match (packet.operation, packet.kind) {
                        $(($op, Kind::Reply) => {
                            $crate::interface::decode_reply(packet).map(Reply::$method)
                        })*
                        _ => Err(Damaged),
                    }
                }
            }

            /// The side that serves.
            pub trait Server<H: Host> {
                $($(#[$fdoc])*
                fn $method(&mut self, host: &mut H, $($arg: <$ty as Value<H>>::Local),*)
                    -> Result<<$crate::__result!($($result)?) as Value<H>>::Local, H::Error>;)*
            }

            /// Has `server` do what a packet asks for; the reply, if it is a call.
            pub fn dispatch<H: Host>(
                server: &mut impl Server<H>,
                host: &mut H,
                packet: &Packet,
            ) -> Result<Option<Packet>, H::Error> {
                let body = match Request::decode(packet).map_err(Fault::from)? {
                    $(Request::$method { $($arg),* } => {
                        let result = (|| {
                            $(let $arg = Value::<H>::import($arg, host)?;)*
                            let local = server.$method(host, $($arg),*)?;
                            <$crate::__result!($($result)?) as Value<H>>::export(local, host)
                        })();
                        $crate::interface::encode_reply(result.map_err(H::error_to_word))
                    })*
                };
                Ok((packet.kind == Kind::Call).then(|| packet.reply(body)))
            }

            /// The side that calls.
            #[derive(Debug)]
            pub struct Client<'a, const N: usize = { $crate::ring::LINES }>(pub End<'a, N>);

            impl<const N: usize> Client<'_, N> {
                $($(#[$fdoc])*
                pub fn $method<H: Host>(&mut self, host: &mut H, $($arg: <$ty as Value<H>>::Local),*)
                    -> Result<<$crate::__result!($($result)?) as Value<H>>::Local, H::Error> {
                    let end = &mut self.0;
                    #[allow(unused_mut)]
                    let mut writer = Writer::new();
                    $(<$ty as Value<H>>::export($arg, host)?.put(&mut writer);)*
                    let body = Body::from(writer);
                    $crate::__operation!(finish $kind end host $op body ($($result)?))
                })*
            }
        }
    };
}
