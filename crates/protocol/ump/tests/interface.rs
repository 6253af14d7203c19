//! A declared interface: both sides, capabilities, errors, and packets that are none.

use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use ump::interface::{Body, End, Fault, Host, Kind, Packet, Token};
use ump::wire::Text;
use ump::{Receiver, Ring, Sender, MAX_WORDS};

ump::interface! {
    /// Keeps a total, and pages.
    pub mod store {
        /// Adds to the total.
        1 message add(amount: u64);
        /// What is it?
        2 call total() -> u64;
        /// Takes a page; gives back the one before.
        3 call put(page: Token, bytes: u32) -> (Token, u32);
        /// Long arguments; an error if `fail`.
        7 call say(name: Text<4>, numbers: [u64; 20], fail: bool) -> u64;
    }
}

#[derive(Debug, PartialEq)]
enum Error {
    Channel(Fault),
    Refused(u64),
}
impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Channel(fault)
    }
}

/// Two domains that have their capabilities, which are texts, in one table.
#[derive(Clone, Default)]
struct Domain {
    carried: Arc<Mutex<Vec<String>>>,
}

impl Host for Domain {
    type Cap = String;
    type Error = Error;

    fn error_to_word(error: Error) -> u64 {
        match error {
            Error::Refused(word) => word,
            Error::Channel(_) => 1000,
        }
    }
    fn error_from_word(word: u64) -> Error {
        Error::Refused(word)
    }
    fn export(&mut self, cap: String) -> Result<Token, Error> {
        let mut carried = self.carried.lock().unwrap();
        carried.push(cap);
        Ok(Token(carried.len() as u64 - 1))
    }
    fn import(&mut self, token: Token) -> Result<String, Error> {
        let carried = self.carried.lock().unwrap();
        carried.get(token.0 as usize).cloned().ok_or(Error::Refused(77))
    }
    fn sent(&mut self) {}
    fn wait(&mut self, _: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        std::thread::yield_now();
        Ok(())
    }
}

struct Keeper {
    total: u64,
    page: (String, u32),
    heard: String,
}

impl store::Server<Domain> for Keeper {
    fn add(&mut self, _: &mut Domain, amount: u64) -> Result<(), Error> {
        self.total += amount;
        Ok(())
    }
    fn total(&mut self, _: &mut Domain) -> Result<u64, Error> {
        Ok(self.total)
    }
    fn put(&mut self, _: &mut Domain, page: String, bytes: u32) -> Result<(String, u32), Error> {
        Ok(std::mem::replace(&mut self.page, (page, bytes)))
    }
    fn say(
        &mut self,
        _: &mut Domain,
        name: Text<4>,
        numbers: [u64; 20],
        fail: bool,
    ) -> Result<u64, Error> {
        self.heard = name.as_str().to_owned();
        match fail {
            true => Err(Error::Refused(5)),
            false => Ok(numbers.iter().sum()),
        }
    }
}

fn ends() -> (End<'static>, End<'static>) {
    let ring = || -> &'static Ring { Box::leak(Box::new(Ring::new())) };
    let (there, back) = (ring(), ring());
    (
        End::new(Sender::new(there), Receiver::new(back)),
        End::new(Sender::new(back), Receiver::new(there)),
    )
}

fn keeper() -> Keeper {
    Keeper { total: 0, page: ("none".into(), 0), heard: String::new() }
}

#[test]
fn messages_calls_capabilities_and_errors() {
    let (mine, mut its) = ends();
    let mut host = Domain::default();
    let mut there = host.clone();
    let server = std::thread::spawn(move || {
        let mut keeper = keeper();
        for _ in 0..8 {
            let packet = its.receive(&mut there).unwrap();
            if let Some(reply) = store::dispatch(&mut keeper, &mut there, &packet).unwrap() {
                its.send(&mut there, &reply).unwrap();
            }
        }
        keeper
    });
    let mut client = store::Client(mine);
    let host = &mut host;
    client.add(host, 40).unwrap();
    client.add(host, 2).unwrap();
    assert_eq!(client.total(host), Ok(42));
    assert_eq!(client.put(host, "first".into(), 1), Ok(("none".into(), 0)));
    assert_eq!(client.put(host, "second".into(), 2), Ok(("first".into(), 1)));
    let name = Text::new("thirty-two bytes, and not a byte").unwrap();
    assert_eq!(client.say(host, name, [3; 20], false), Ok(60));
    assert_eq!(client.say(host, Text::new("").unwrap(), [0; 20], true), Err(Error::Refused(5)));
    // A token that never was.
    let call = store::Request::put { page: Token(99), bytes: 0 }.encode(9);
    let reply = client.0.call(host, call.operation, call.body).unwrap();
    assert_eq!(store::Reply::decode(&reply), Ok(store::Reply::put(Err(77))));
    assert_eq!(server.join().unwrap().total, 42);
    assert!(Text::<4>::new("thirty-two bytes, and then a byte").is_none());
}

fn request() -> impl Strategy<Value = store::Request> {
    let text = vec(proptest::char::any(), 0..8).prop_map(|chars| chars.iter().collect::<String>());
    prop_oneof![
        any::<u64>().prop_map(|amount| store::Request::add { amount }),
        Just(store::Request::total {}),
        any::<(u64, u32)>()
            .prop_map(|(page, bytes)| store::Request::put { page: Token(page), bytes }),
        (text, any::<[u64; 20]>(), any::<bool>()).prop_map(|(name, numbers, fail)| {
            store::Request::say { name: Text::new(&name).unwrap(), numbers, fail }
        }),
    ]
}

fn reply() -> impl Strategy<Value = store::Reply> {
    let result = || prop_oneof![any::<u64>().prop_map(Ok), (1..u64::MAX).prop_map(Err)];
    prop_oneof![
        result().prop_map(store::Reply::total),
        (result(), any::<u32>()).prop_map(|(result, bytes)| {
            store::Reply::put(result.map(|page| (Token(page), bytes)))
        }),
        result().prop_map(store::Reply::say),
    ]
}

/// Through a ring, which adds zeros.
fn through_a_ring(packet: &Packet) -> Packet {
    let (mut mine, mut its) = ends();
    let mut host = Domain::default();
    mine.send(&mut host, packet).unwrap();
    its.receive(&mut host).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn requests_arrive_as_they_were(request in request(), call in 0..ump::interface::CALLS) {
        let packet = through_a_ring(&request.encode(call));
        prop_assert_eq!(packet.call, call);
        prop_assert_eq!(store::Request::decode(&packet), Ok(request));
    }

    #[test]
    fn replies_arrive_as_they_were(reply in reply(), call in 0..ump::interface::CALLS) {
        let packet = through_a_ring(&reply.encode(call));
        prop_assert_eq!((packet.kind, packet.call), (Kind::Reply, call));
        prop_assert_eq!(store::Reply::decode(&packet), Ok(reply));
    }

    /// What is none of the interface is an error; what is has values that its types have.
    #[test]
    fn anything_may_come(
        kind in 0..3, operation in 0..9u16, call: u16,
        words in vec(prop_oneof![any::<u64>(), 0..40u64], 0..=MAX_WORDS),
    ) {
        let kind = [Kind::Message, Kind::Call, Kind::Reply][kind as usize];
        let packet = Packet { kind, operation, call, body: Body::new(&words) };
        let mut host = Domain::default();
        let _ = store::Reply::decode(&packet);
        match store::dispatch(&mut keeper(), &mut host, &packet) {
            Ok(reply) => prop_assert_eq!(reply.is_some(), kind == Kind::Call),
            Err(error) => prop_assert_eq!(error, Error::Channel(Fault::Damaged)),
        }
    }
}
