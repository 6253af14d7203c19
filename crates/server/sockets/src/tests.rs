//! Cases, and random operations beside a naive model.

use super::*;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use proptest::prelude::*;
use unixproto::files::{POLLHUP, POLLIN, POLLOUT, POLLWRNORM};
use unixproto::Errno;

const ME: User = User { pid: 7, uid: 1000, gid: 1000 };
const ROOT: User = User { pid: 1, uid: 0, gid: 0 };

/// A ring as whoever lends it sees it. What is in it comes and goes as its ends do.
#[derive(Default, Debug)]
struct Way {
    is_open: Cell<bool>,
    bytes: RefCell<VecDeque<u8>>,
}

impl Ring for Way {
    fn is_in_use(&self) -> bool {
        self.is_open.get() || !self.bytes.borrow().is_empty()
    }
    fn close(&self) -> usize {
        self.is_open.set(false);
        self.bytes.borrow().len()
    }
    fn is_open(&self) -> bool {
        self.is_open.get()
    }
    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }
    fn take(&self, to: &mut Vec<u8>) {
        assert!(!self.is_open.get() && to.capacity() - to.len() >= self.bytes.borrow().len());
        to.extend(self.bytes.borrow_mut().drain(..));
    }
    fn open(&self) {
        assert!(self.bytes.borrow().is_empty());
        self.is_open.set(true);
    }
    fn is_bad(&self) -> bool {
        false
    }
}

impl Way {
    /// Writes to it as its end does. Answers how many bytes.
    fn write(&self, bytes: &[u8]) -> usize {
        let mut all = self.bytes.borrow_mut();
        let count = match self.is_open.get() {
            true => bytes.len().min(RING_BYTES - all.len()),
            false => 0,
        };
        all.extend(&bytes[..count]);
        count
    }
    /// Reads from it. `None`: it is closed.
    fn read(&self, most: usize) -> Option<Vec<u8>> {
        let mut all = self.bytes.borrow_mut();
        let count = most.min(all.len());
        self.is_open.get().then(|| all.drain(..count).collect())
    }
}

type Sockets = super::Sockets<Way>;

/// Lends what comes to a socket, and has it used if that can be.
fn lend(sockets: &mut Sockets, number: Number) -> Result<bool, Errno> {
    sockets.lend(number, || Ok(Way::default()))?;
    let can_be = sockets.is_at_rest(number);
    if can_be {
        sockets.open_ring(number);
    }
    Ok(can_be)
}

fn listener(sockets: &mut Sockets, backlog: u32) -> Number {
    let number = sockets.make(Kind::Stream, ROOT, 0).unwrap();
    sockets.bind(number, Name::abstract_name(vec![0, b'x', number as u8])).unwrap();
    sockets.listen(number, backlog, &mut Changes::new()).unwrap();
    number
}

fn send(sockets: &mut Sockets, number: Number, bytes: &[u8]) -> Result<usize, Errno> {
    sockets.send(number, Target::Peer, (bytes, &[]), ME, &mut Changes::new())
}

fn receive(sockets: &mut Sockets, number: Number, most: usize) -> Result<Vec<u8>, Errno> {
    Ok(sockets.receive(number, most, false, &mut Changes::new())?.bytes)
}

/// What was sent counts until it is taken, or lost with the socket that it was for; also that of senders that are gone.
#[test]
fn what_nobody_has_taken_counts_for_its_sender() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let [a, b] = sockets.pair(Kind::Stream, ME, 0).unwrap();
    assert_eq!(sockets.unsent(a), Ok(0));
    send(&mut sockets, a, b"one").unwrap();
    let one = sockets.unsent(a).unwrap();
    assert!(one > 3);
    // They are one message now.
    send(&mut sockets, a, b"two").unwrap();
    assert_eq!((sockets.unsent(a), sockets.unsent(b)), (Ok(one + 3), Ok(0)));
    receive(&mut sockets, b, 2).unwrap();
    assert_eq!(sockets.unsent(a), Ok(one + 1));
    receive(&mut sockets, b, 9).unwrap();
    assert_eq!(sockets.unsent(a), Ok(0));
    send(&mut sockets, a, b"three").unwrap();
    sockets.remove(b, &mut changes);
    assert_eq!(sockets.unsent(a), Ok(0));
    sockets.remove(a, &mut changes);

    let [a, b] = sockets.pair(Kind::Stream, ME, 0).unwrap();
    send(&mut sockets, a, b"four").unwrap();
    sockets.remove(a, &mut changes);
    assert_eq!(sockets.unsent(a), Err(Errno::EBADF));
    assert_eq!(receive(&mut sockets, b, 9), Ok(b"four".to_vec()));
    sockets.remove(b, &mut changes);
    assert_eq!(sockets.bytes.taken(), 0);
}

#[test]
fn a_connection() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let server = listener(&mut sockets, 1);
    let client = sockets.make(Kind::Stream, ME, 0).unwrap();
    assert_eq!(sockets.ready(client), POLLHUP | POLLOUT | POLLWRNORM);
    assert_eq!(send(&mut sockets, client, b"x"), Err(Errno::ENOTCONN));
    assert_eq!(receive(&mut sockets, client, 1), Err(Errno::EINVAL));
    assert_eq!(sockets.accept(server, &mut changes), Err(Errno::EAGAIN));
    sockets.connect(client, server, ME, &mut changes).unwrap();
    assert_eq!(sockets.connect(client, server, ME, &mut changes), Err(Errno::EISCONN));
    assert_eq!(send(&mut sockets, client, b"early"), Ok(5));
    let end = sockets.accept(server, &mut changes).unwrap();
    assert_eq!(sockets.name(client, true), sockets.name(server, false));
    assert_eq!(sockets.name(end, true), Ok(&[][..]));
    assert_eq!((sockets.peer_user(end), sockets.peer_user(client)), (Ok(Some(ME)), Ok(Some(ROOT))));
    assert_eq!(receive(&mut sockets, end, 3), Ok(b"ear".to_vec()));
    assert_eq!(send(&mut sockets, client, b"+late"), Ok(5));
    assert_eq!(receive(&mut sockets, end, 99), Ok(b"ly+late".to_vec()));
    assert_eq!(receive(&mut sockets, end, 99), Err(Errno::EAGAIN));
    sockets.shut_down(client, (false, true), &mut changes).unwrap();
    assert_eq!(send(&mut sockets, client, b"x"), Err(Errno::EPIPE));
    assert_eq!(receive(&mut sockets, end, 1), Ok(vec![]));
    assert_eq!(send(&mut sockets, end, b"back"), Ok(4));
    sockets.remove(end, &mut changes);
    assert_eq!(receive(&mut sockets, client, 9), Ok(b"back".to_vec()));
    assert_eq!(receive(&mut sockets, client, 9), Ok(vec![]));
    assert_eq!(sockets.name(client, true), sockets.name(server, false));
    [client, server].iter().for_each(|&number| sockets.remove(number, &mut changes));
    assert_eq!((sockets.table.len(), sockets.names.len(), sockets.bytes.taken()), (0, 0, 0));
}

#[test]
fn unread_bytes_reset_the_other_end() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let [one, other] = sockets.pair(Kind::Stream, ME, 0).unwrap();
    send(&mut sockets, one, b"never read").unwrap();
    sockets.remove(other, &mut changes);
    assert_eq!(receive(&mut sockets, one, 9), Err(Errno::ECONNRESET));
    assert_eq!(receive(&mut sockets, one, 9), Ok(vec![]));
    assert_eq!(send(&mut sockets, one, b"x"), Err(Errno::EPIPE));
}

#[test]
fn the_backlog_is_full() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let server = listener(&mut sockets, 1);
    let clients: Vec<_> = (0..3).map(|_| sockets.make(Kind::Stream, ME, 0).unwrap()).collect();
    let mut connect = |client| sockets.connect(client, server, ME, &mut changes);
    assert_eq!([0, 1, 2].map(|n| connect(clients[n])), [Ok(()), Ok(()), Err(Errno::EAGAIN)]);
    sockets.accept(server, &mut changes).unwrap();
    assert_eq!(sockets.connect(clients[2], server, ME, &mut changes), Ok(()));
    // Those who wait to be accepted go with whom they wait for.
    sockets.remove(server, &mut changes);
    assert_eq!(receive(&mut sockets, clients[2], 1), Err(Errno::ECONNRESET));
    assert_eq!(receive(&mut sockets, clients[2], 1), Ok(vec![]));
    assert_eq!(sockets.table.len(), 4);
}

#[test]
fn what_is_passed_ends_a_part() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let [one, other] = sockets.pair(Kind::Stream, ME, 0).unwrap();
    send(&mut sockets, one, b"a").unwrap();
    sockets.send(one, Target::Peer, (b"bc", &[9, 8]), ME, &mut changes).unwrap();
    send(&mut sockets, one, b"d").unwrap();
    let looked = sockets.receive(other, 9, true, &mut changes).unwrap();
    assert_eq!((looked.bytes, looked.rights), (b"abc".to_vec(), vec![9, 8]));
    let got = sockets.receive(other, 2, false, &mut changes).unwrap();
    assert_eq!((got.bytes, got.rights), (b"ab".to_vec(), vec![9, 8]));
    assert_eq!(receive(&mut sockets, other, 9), Ok(b"cd".to_vec()));
    sockets.send(one, Target::Peer, (b"e", &[7]), ME, &mut changes).unwrap();
    sockets.remove(other, &mut changes);
    assert_eq!((sockets.take_lost(), sockets.take_lost()), (Some(7), None));
}

#[test]
fn datagrams() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let [one, other, third] = [0; 3].map(|_| sockets.make(Kind::Datagram, ME, 0).unwrap());
    assert_eq!(send(&mut sockets, one, b"x"), Err(Errno::ENOTCONN));
    sockets.bind_any(other).unwrap();
    sockets.bind(one, Name::of_file(5, b"/one".to_vec())).unwrap();
    sockets.connect(one, other, ME, &mut changes).unwrap();
    assert_eq!(send(&mut sockets, one, b"hello"), Ok(5));
    assert_eq!(send(&mut sockets, one, b""), Ok(0));
    let got = sockets.receive(other, 2, false, &mut changes).unwrap();
    assert_eq!((got.bytes, got.full), (b"he".to_vec(), 5));
    assert_eq!(got.from.unwrap().text, b"/one");
    assert_eq!(receive(&mut sockets, other, 9), Ok(vec![]));
    assert_eq!(receive(&mut sockets, other, 9), Err(Errno::EAGAIN));
    for _ in 0..=QUEUE_DATAGRAMS {
        send(&mut sockets, one, b"x").unwrap();
    }
    assert_eq!((send(&mut sockets, one, b"x"), sockets.ready(one)), (Err(Errno::EAGAIN), 0));
    sockets.connect(other, third, ME, &mut changes).unwrap();
    assert_eq!(send(&mut sockets, one, b"x"), Err(Errno::EPERM));
    sockets.remove(other, &mut changes);
    assert_eq!(send(&mut sockets, one, b"x"), Err(Errno::ECONNREFUSED));
    assert_eq!(send(&mut sockets, one, b"x"), Err(Errno::ENOTCONN));
    sockets.remove(one, &mut changes);
    assert_eq!((sockets.take_released(), sockets.take_released()), (Some(5), None));
}

#[test]
fn a_user_does_not_take_all_memory() {
    let mut sockets = Sockets::default();
    let mut sent = 0;
    while let Ok([one, _]) = sockets.pair(Kind::Stream, ME, 0) {
        match send(&mut sockets, one, &[0; QUEUE_BYTES]) {
            Ok(count) => sent += count,
            Err(error) => {
                assert_eq!(error, Errno::ENOBUFS);
                break;
            }
        }
    }
    assert!((16 << 20..=32 << 20).contains(&sent), "{sent}");
    let [one, _] = sockets.pair(Kind::Stream, ROOT, 0).unwrap();
    let sent = sockets.send(one, Target::Peer, (&[0; 4096], &[]), ROOT, &mut Vec::new());
    assert_eq!(sent, Ok(4096));
}

/// Two ends of a stream, of which what comes to the second is lent.
fn lent_pair(sockets: &mut Sockets) -> [Number; 2] {
    let [one, other] = sockets.pair(Kind::Stream, ME, 0).unwrap();
    send(sockets, one, b"x").unwrap();
    assert_eq!(lend(sockets, other), Ok(false));
    receive(sockets, other, 1).unwrap();
    assert_eq!(lend(sockets, other), Ok(true));
    [one, other]
}

#[test]
fn what_is_on_its_way_is_seen_by_everybody() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    // Each asks by another question, of a stream in which something is on its way.
    let questions: [fn(&mut Sockets, [Number; 2]); 8] = [
        |sockets, [_, other]| assert_eq!(sockets.unread(other), Ok(5)),
        |sockets, [one, _]| assert!(sockets.unsent(one).unwrap() > 5),
        |sockets, [_, other]| assert!(sockets.ready(other) & POLLIN != 0),
        |sockets, [one, _]| assert_eq!(send(sockets, one, b""), Ok(0)),
        |sockets, [_, other]| {
            let options = Options { tells_user: true, ..Options::default() };
            sockets.set_options(other, options).unwrap();
        },
        |sockets, [one, _]| sockets.shut_down(one, (false, true), &mut Changes::new()).unwrap(),
        |sockets, [one, _]| sockets.remove(one, &mut Changes::new()),
        |sockets, [_, other]| sockets.end_loan(other),
    ];
    for question in questions {
        let [one, other] = lent_pair(&mut sockets);
        assert_eq!(sockets.ring(other).unwrap().write(b"hello"), 5);
        // There is room without asking the ring; and who looks into it is told of nothing else.
        assert_eq!(sockets.ready(one), POLLOUT | POLLWRNORM);
        assert_eq!(sockets.told(other), POLLOUT | POLLWRNORM);
        // So is who lists all sockets, and he is told how many.
        let [row, other_row] = [one, other].map(|number| sockets.row_of(0, number).unwrap());
        assert_eq!((row.sent, other_row.waiting), (5, 5));
        assert!(sockets.ring(other).unwrap().is_open());
        question(&mut sockets, [one, other]);
        let _ = send(&mut sockets, one, b", you");
        let got = receive(&mut sockets, other, 5).unwrap();
        assert_eq!(got, b"hello");
        [one, other].iter().for_each(|&number| sockets.remove(number, &mut changes));
        assert_eq!((sockets.table.len(), sockets.bytes.taken(), sockets.loans), (0, 0, 0));
    }
    let [one, other] = lent_pair(&mut sockets);
    sockets.ring(other).unwrap().write(b"never read");
    sockets.remove(other, &mut changes);
    assert_eq!(receive(&mut sockets, one, 9), Err(Errno::ECONNRESET));
}

#[test]
fn a_stream_is_lent_as_long_as_there_is_nothing_else_to_tell() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let [one, other] = lent_pair(&mut sockets);
    sockets.shut_down(one, (true, false), &mut changes).unwrap();
    assert_eq!(lend(&mut sockets, other), Err(Errno::EOPNOTSUPP));
    let [one, other] = lent_pair(&mut sockets);
    // Much is sent by requests anyway.
    send(&mut sockets, one, &[0; 5000]).unwrap();
    receive(&mut sockets, other, 5000).unwrap();
    assert_eq!(lend(&mut sockets, other), Ok(false));
    send(&mut sockets, one, b"few").unwrap();
    receive(&mut sockets, other, 2).unwrap();
    assert_eq!(lend(&mut sockets, other), Ok(false));
    receive(&mut sockets, other, 2).unwrap();
    assert_eq!(lend(&mut sockets, other), Ok(true));
    sockets.set_options(one, Options { tells_user: true, ..Options::default() }).unwrap();
    assert_eq!(lend(&mut sockets, other), Err(Errno::EOPNOTSUPP));
    let [one, _] = sockets.pair(Kind::Packets, ME, 0).unwrap();
    assert_eq!(lend(&mut sockets, one), Err(Errno::EOPNOTSUPP));
    // A user has so many, and then the others have the rest.
    let is_enough = |_: &u32| match sockets.pair(Kind::Stream, ME, 0) {
        Ok([one, _]) => lend(&mut sockets, one) == Err(Errno::ENOBUFS),
        Err(_) => true,
    };
    assert!((1..1000).find(is_enough).is_some_and(|count| count > 50));
}

#[test]
fn who_wrote_to_what_is_lent_is_not_told() {
    let (mut sockets, mut changes) = (Sockets::default(), Changes::new());
    let [one, other] = lent_pair(&mut sockets);
    sockets.ring(other).unwrap().write(b"before");
    sockets.set_options(other, Options { tells_user: true, ..Options::default() }).unwrap();
    send(&mut sockets, one, b"after").unwrap();
    let first = sockets.receive(other, 99, false, &mut changes).unwrap();
    let nobody = User { pid: 0, uid: 65534, gid: 65534 };
    assert_eq!((first.bytes, first.user), (b"before".to_vec(), Some(nobody)));
    let second = sockets.receive(other, 99, false, &mut changes).unwrap();
    assert_eq!((second.bytes, second.user), (b"after".to_vec(), Some(ME)));
}

/// What two ends of a connection have sent and not read, and what is passed along at which byte.
#[derive(Default)]
struct End {
    bytes: VecDeque<u8>,
    /// Where parts begin that something was passed with.
    marks: VecDeque<(usize, u32)>,
    read: usize,
    sent: usize,
    /// Something was passed, so that not all is one part.
    had_marks: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Send { end: usize, bytes: usize, right: Option<u32> },
    Receive { end: usize, most: usize, looks: bool },
    Lend { end: usize },
    EndLoan { end: usize },
    WriteThere { end: usize, bytes: usize },
    ReadThere { end: usize, most: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let right = prop_oneof![4 => Just(None), 1 => any::<u32>().prop_map(Some)];
    prop_oneof![
        (0..2usize, prop_oneof![0..40usize, Just(70_000)], right)
            .prop_map(|(end, bytes, right)| Op::Send { end, bytes, right }),
        (0..2usize, prop_oneof![1..60usize, Just(90_000)], any::<bool>())
            .prop_map(|(end, most, looks)| Op::Receive { end, most, looks }),
        (0..2usize).prop_map(|end| Op::Lend { end }),
        (0..20usize).prop_map(|end| match end {
            0 | 1 => Op::EndLoan { end },
            end => Op::Lend { end: end % 2 },
        }),
        (0..2usize, 0..300usize).prop_map(|(end, bytes)| Op::WriteThere { end, bytes }),
        (0..2usize, 0..300usize).prop_map(|(end, most)| Op::ReadThere { end, most }),
    ]
}

proptest! {
    #[test]
    fn a_stream_is_what_was_sent(ops in proptest::collection::vec(op(), 1..120)) {
        let mut sockets = Sockets::default();
        let ends = sockets.pair(Kind::Stream, ME, 0).unwrap();
        let mut model = [End::default(), End::default()];
        let mut clock = 0u8;
        for op in ops {
            match op {
                Op::Lend { end } => {
                    if lend(&mut sockets, ends[end]).unwrap() {
                        prop_assert!(model[end].bytes.is_empty());
                    }
                }
                Op::EndLoan { end } => sockets.end_loan(ends[end]),
                Op::WriteThere { end, bytes } => {
                    let data: Vec<u8> = (0..bytes).map(|_| { clock = clock.wrapping_add(1); clock }).collect();
                    let count = sockets.ring(ends[end]).map_or(0, |ring| ring.write(&data));
                    model[end].bytes.extend(&data[..count]);
                    model[end].sent += count;
                }
                Op::ReadThere { end, most } => {
                    let Some(got) = sockets.ring(ends[end]).ok().and_then(|ring| ring.read(most)) else { continue };
                    let own = &mut model[end];
                    let expected: Vec<u8> = own.bytes.drain(..most.min(own.bytes.len())).collect();
                    own.read += got.len();
                    prop_assert_eq!(got, expected);
                }
                Op::Send { end, bytes, right } => {
                    let data: Vec<u8> = (0..bytes).map(|_| { clock = clock.wrapping_add(1); clock }).collect();
                    let rights: Vec<u32> = right.into_iter().collect();
                    let to = &mut model[1 - end];
                    let room = QUEUE_BYTES - to.bytes.len();
                    let got = sockets.send(ends[end], Target::Peer, (&data, &rights), ME, &mut Vec::new());
                    if bytes == 0 {
                        prop_assert_eq!(got, Ok(0));
                    } else if room == 0 {
                        prop_assert_eq!(got, Err(Errno::EAGAIN));
                    } else {
                        let count = bytes.min(room);
                        prop_assert_eq!(got, Ok(count));
                        to.bytes.extend(&data[..count]);
                        to.marks.extend(right.map(|right| (to.sent, right)));
                        to.had_marks |= right.is_some();
                        to.sent += count;
                    }
                }
                Op::Receive { end, most, looks } => {
                    let own = &mut model[end];
                    let got = sockets.receive(ends[end], most, looks, &mut Vec::new());
                    if own.bytes.is_empty() {
                        prop_assert_eq!(got.unwrap_err(), Errno::EAGAIN);
                        continue;
                    }
                    let got = got.unwrap();
                    let count = got.bytes.len();
                    prop_assert!(count > 0 && count <= most);
                    prop_assert!(own.bytes.iter().take(count).eq(got.bytes.iter()));
                    // Whoever reads a byte with which something was passed gets that, and nothing behind what was sent with it.
                    let here = own.marks.front().filter(|(at, _)| *at < own.read + count).copied();
                    prop_assert_eq!(got.rights.first().copied(), here.map(|(_, right)| right));
                    let reached = own.marks.iter().filter(|(at, _)| *at < own.read + count).count();
                    prop_assert!(reached <= 1);
                    if own.marks.is_empty() && !own.had_marks {
                        prop_assert_eq!(count, most.min(own.bytes.len()));
                    }
                    if !looks {
                        own.bytes.drain(..count);
                        own.read += count;
                        if here.is_some() {
                            own.marks.pop_front();
                        }
                    }
                    prop_assert_eq!(sockets.unread(ends[end]), Ok(own.bytes.len()));
                }
            }
        }
        for end in ends {
            sockets.remove(end, &mut Vec::new());
        }
        prop_assert_eq!((sockets.table.len(), sockets.bytes.taken()), (0, 0));
    }
}
