//! Requests as the protocol's own description has them, and answers of somebody who means no good.

use ninep::{kind, Attributes, Changes, Entries, Entry, Malformed, Moment, Qid, Reply, Request};
use ninep::{TooLong, HEADER};

const ROUNDS: usize = 300_000;
const REPLIES: [u8; 20] = [
    kind::STATFS,
    kind::LOPEN,
    kind::LCREATE,
    kind::SYMLINK,
    kind::MKNOD,
    kind::READLINK,
    kind::GETATTR,
    kind::SETATTR,
    kind::READDIR,
    kind::FSYNC,
    kind::LINK,
    kind::MKDIR,
    kind::RENAMEAT,
    kind::UNLINKAT,
    kind::VERSION,
    kind::ATTACH,
    kind::WALK,
    kind::READ,
    kind::WRITE,
    kind::CLUNK,
];

/// A message as whoever answers makes it.
fn message(kind: u8, tag: u16, body: &[u8]) -> Vec<u8> {
    let mut message = ((HEADER + body.len()) as u32).to_le_bytes().to_vec();
    message.push(kind);
    message.extend(tag.to_le_bytes());
    message.extend(body);
    message
}

fn encoded(request: &Request, tag: u16) -> Vec<u8> {
    let mut buffer = [0; 8192];
    let bytes = request.encode(tag, &mut buffer).expect("it fits");
    buffer[..bytes].to_vec()
}

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Bytes that were written down by hand, from the protocol's description.
#[test]
fn requests_are_as_described() {
    let cases: [(Request, u16, &str); 9] = [
        (
            Request::Version { message: 0x4000 },
            ninep::NO_TAG,
            "15 00 00 00 64 ff ff 00 40 00 00 08 00 39 50 32 30 30 30 2e 4c",
        ),
        (
            Request::Attach { fid: 0, user: 1000, name: b"" },
            1,
            "17 00 00 00 68 01 00 00 00 00 00 ff ff ff ff 00 00 00 00 e8 03 00 00",
        ),
        (
            Request::Walk { fid: 1, new: 2, name: Some(b"a\xff") },
            3,
            "15 00 00 00 6e 03 00 01 00 00 00 02 00 00 00 01 00 02 00 61 ff",
        ),
        (
            Request::Walk { fid: 1, new: 2, name: None },
            3,
            "11 00 00 00 6e 03 00 01 00 00 00 02 00 00 00 00 00",
        ),
        (
            Request::Read { fid: 5, offset: 1 << 32, bytes: 9 },
            4,
            "17 00 00 00 74 04 00 05 00 00 00 00 00 00 00 01 00 00 00 09 00 00 00",
        ),
        (
            Request::Write { fid: 5, offset: 2, data: b"xyz" },
            4,
            "1a 00 00 00 76 04 00 05 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 78 79 7a",
        ),
        (
            Request::GetAttributes { fid: 6 },
            0,
            "13 00 00 00 18 00 00 06 00 00 00 ff 07 00 00 00 00 00 00",
        ),
        (
            Request::Unlink { fid: 6, name: b"d", directory: true },
            0,
            "12 00 00 00 4c 00 00 06 00 00 00 01 00 64 00 02 00 00",
        ),
        (
            Request::Rename { from: 1, old: b"o", to: 2, new: b"nn" },
            7,
            "16 00 00 00 4a 07 00 01 00 00 00 01 00 6f 02 00 00 00 02 00 6e 6e",
        ),
    ];
    for (request, tag, bytes) in cases {
        assert_eq!(encoded(&request, tag), hex(bytes), "{request:?}");
    }
}

/// Of attributes only those are set that are meant, and times before 1970 go backwards by whole seconds.
#[test]
fn changes_say_what_is_meant() {
    let of = |changes| encoded(&Request::SetAttributes { fid: 9, changes }, 0)[11..].to_vec();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let none = of(Changes::default());
    assert!(none.len() == 56 && none.iter().all(|&byte| byte == 0));
    let changes = Changes {
        size: Some(5 << 30),
        accessed: Some(Moment::Now),
        modified: Some(Moment::At(-1)),
        ..Changes::default()
    };
    let bytes = of(changes);
    assert_eq!(bytes[..4], 0x138u32.to_le_bytes());
    assert_eq!(word(&bytes, 16), 5 << 30);
    assert_eq!((word(&bytes, 24), word(&bytes, 32)), (0, 0));
    assert_eq!((word(&bytes, 40) as i64, word(&bytes, 48)), (-1, 999_999_999));
    let owner = of(Changes { mode: Some(0o640), uid: Some(7), gid: Some(8), ..Changes::default() });
    assert_eq!(owner[..16], hex("07 00 00 00 a0 01 00 00 07 00 00 00 08 00 00 00"));
}

/// A buffer that is too small is never written behind, and names that are too long are refused.
#[test]
fn what_does_not_fit_is_refused() {
    let name = [b'n'; 70_000];
    let mut large = [0; 80_000];
    let too_long = Request::MakeDirectory { fid: 1, name: &name, mode: 0, gid: 0 };
    assert_eq!(too_long.encode(1, &mut large), Err(TooLong));
    let request = Request::Symlink { fid: 1, name: &name[..200], text: &name[..300], gid: 0 };
    let whole = encoded(&request, 1).len();
    for size in 0..whole {
        assert_eq!(request.encode(1, &mut large[..size]), Err(TooLong), "{size}");
    }
    assert_eq!(request.encode(1, &mut large[..whole]), Ok(whole));
}

#[test]
fn answers_are_understood() {
    let qid = hex("80 01 00 00 00 02 00 00 00 00 00 00 01");
    let file = Qid { kind: 0x80, version: 1, path: 1 << 56 | 2 };
    let decode = |request, bytes: &[u8]| {
        // The same, whatever is behind it in the buffer.
        let mut buffer = message(request + 1, 5, bytes);
        buffer.extend([0xaa; 9]);
        Reply::decode(request, 5, &buffer).map(|reply| format!("{reply:?}"))
    };
    let shown = |reply: Reply| Ok(format!("{reply:?}"));
    assert_eq!(decode(kind::ATTACH, &qid), shown(Reply::File(file)));
    let walked = [&[1, 0][..], &qid].concat();
    assert_eq!(decode(kind::WALK, &walked), shown(Reply::File(file)));
    assert_eq!(decode(kind::WALK, &[0, 0]), shown(Reply::Done));
    assert_eq!(
        decode(kind::WALK, &[[2, 0].to_vec(), qid.clone(), qid.clone()].concat()),
        Err(Malformed)
    );
    assert_eq!(decode(kind::READ, &hex("02 00 00 00 68 69")), shown(Reply::Bytes(b"hi")));
    assert_eq!(decode(kind::READ, &hex("03 00 00 00 68 69")), Err(Malformed));
    assert_eq!(decode(kind::READLINK, &hex("02 00 68 69")), shown(Reply::Bytes(b"hi")));
    let mut attributes = hex("ff 07 00 00 00 00 00 00");
    attributes.extend(&qid);
    attributes.extend(0o40755u32.to_le_bytes());
    attributes.extend([1000u32.to_le_bytes(), 1001u32.to_le_bytes()].concat());
    for word in [2, 3, 4, 5, 6, 10, 11, 12, 13, u64::MAX, 7, 0, 0, 0, 0u64] {
        attributes.extend(word.to_le_bytes());
    }
    let expected = Attributes {
        qid: file,
        mode: 0o40755,
        uid: 1000,
        gid: 1001,
        links: 2,
        device: 3,
        size: 4,
        block: 5,
        blocks: 6,
        accessed: 10_000_000_011,
        modified: 12_000_000_013,
        // A second before 1970, and a bit.
        changed: -999_999_993,
    };
    assert_eq!(decode(kind::GETATTR, &attributes), shown(Reply::Attributes(expected)));
    let error = message(kind::ERROR, 5, &2u32.to_le_bytes());
    assert_eq!(Reply::decode(kind::READ, 5, &error), Ok(Reply::Refused(2)));
    for number in [0, 4096, u32::MAX] {
        let error = message(kind::ERROR, 5, &number.to_le_bytes());
        assert_eq!(Reply::decode(kind::READ, 5, &error), Err(Malformed), "{number}");
    }
    // Of another request, or of another kind.
    let of_another = message(kind::READ + 1, 6, &0u32.to_le_bytes());
    assert_eq!(Reply::decode(kind::READ, 5, &of_another), Err(Malformed));
    assert_eq!(Reply::decode(kind::WRITE, 6, &of_another), Err(Malformed));
}

fn entry(name: &[u8], next: u64) -> Vec<u8> {
    let mut bytes = vec![0; 13];
    bytes.extend(next.to_le_bytes());
    bytes.push(8);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend(name);
    bytes
}

#[test]
fn entries_have_names_that_names_can_be() {
    let good = [entry(b".", 1), entry(b"\xff\xfe \n", 2)].concat();
    let names: Vec<Entry> = Entries::new(&good).map(|entry| entry.unwrap()).collect();
    assert_eq!((names[0].name, names[1].name, names[1].next), (&b"."[..], &b"\xff\xfe \n"[..], 2));
    for bad in [&b""[..], b"a/b", b"/", b"a\0"] {
        let all = [entry(b"x", 1), entry(bad, 2), entry(b"y", 3)].concat();
        let seen: Vec<bool> = Entries::new(&all).map(|entry| entry.is_ok()).collect();
        assert_eq!(seen, [true, false], "{bad:?}");
    }
}

/// Whatever comes, it is understood or it is not: nothing outside is read, and what is said to be there lies inside.
#[test]
fn nothing_that_comes_does_harm() {
    let mut random = fastrand::Rng::with_seed(9);
    let mut understood = [0u32; 256];
    for _ in 0..ROUNDS {
        let request = REPLIES[random.usize(..REPLIES.len())];
        let length = random.usize(..200);
        let mut body: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        if random.bool() {
            // Small numbers are lengths more often.
            body.iter_mut().for_each(|byte| *byte &= 3);
        }
        let kind = if random.u8(..10) == 0 { random.u8(..) } else { request + 1 };
        let mut message = message(kind, 5, &body);
        match random.u8(..6) {
            0 => message.truncate(random.usize(..=message.len())),
            1 if !message.is_empty() => {
                let at = random.usize(..message.len());
                message[at] = random.u8(..);
            }
            _ => {}
        }
        let range = message.as_ptr_range();
        let is_inside = |bytes: &[u8]| {
            let inner = bytes.as_ptr_range();
            bytes.is_empty() || range.start <= inner.start && inner.end <= range.end
        };
        match Reply::decode(request, 5, &message) {
            Err(Malformed) => {}
            Ok(reply) => {
                understood[usize::from(request)] += 1;
                if let Reply::Bytes(bytes) | Reply::Version(_, bytes) = reply {
                    assert!(is_inside(bytes));
                    for entry in Entries::new(bytes) {
                        assert!(entry.is_err() || entry.is_ok_and(|entry| is_inside(entry.name)));
                    }
                }
            }
        }
    }
    for request in REPLIES {
        assert!(understood[usize::from(request)] > 0, "no answer to {request} was understood");
    }
}

/// A server reads what a client writes, and the other way round.
#[test]
fn both_sides_agree() {
    use ninep::serve::{Asked, EntryWriter};
    use ninep::Space;
    let changes = Changes {
        mode: Some(0o644),
        size: Some(5),
        accessed: Some(Moment::Now),
        modified: Some(Moment::At(-1)),
        ..Changes::default()
    };
    let (fid, name, gid, mode) = (7, &b"name"[..], 9, 0o755);
    let requests = [
        Request::Version { message: 0x4000 },
        Request::Attach { fid, user: 1, name },
        Request::Walk { fid, new: 8, name: None },
        Request::Walk { fid, new: 8, name: Some(name) },
        Request::Open { fid, flags: 2 },
        Request::Create { fid, name, flags: 1, mode, gid },
        Request::Read { fid, offset: 1 << 40, bytes: 3 },
        Request::Write { fid, offset: 1 << 40, data: b"data" },
        Request::Clunk { fid },
        Request::GetAttributes { fid },
        Request::SetAttributes { fid, changes },
        Request::SetAttributes { fid, changes: Changes { uid: Some(1), gid: Some(2), ..changes } },
        Request::ReadDirectory { fid, offset: 4, bytes: 5 },
        Request::Sync { fid, data_only: true },
        Request::MakeDirectory { fid, name, mode, gid },
        Request::MakeNode { fid, name, mode, major: 1, minor: 2, gid },
        Request::Symlink { fid, name, text: b"text", gid },
        Request::Link { dir: 1, fid, name },
        Request::Rename { from: 1, old: b"old", to: 2, new: b"new" },
        Request::Unlink { fid, name, directory: true },
        Request::ReadLink { fid },
        Request::Space { fid },
    ];
    let mut buffer = [0; 512];
    for request in requests {
        let bytes = request.encode_for(1000, 3, &mut buffer).unwrap();
        assert_eq!(Asked::decode(&buffer[..bytes]), Ok(Asked { tag: 3, request, user: 1000 }));
        for cut in 0..bytes {
            assert!(Asked::decode(&buffer[..cut]).is_err(), "{request:?} without its end");
        }
    }
    let qid = Qid { kind: 0x80, version: 1, path: 2 };
    let attributes =
        Attributes { qid, mode, links: 3, size: 4, accessed: -5, ..Default::default() };
    let space = Space { block: 1024, blocks: 5, name: 255, ..Default::default() };
    let replies = [
        (kind::VERSION, Reply::Version(0x4000, ninep::VERSION)),
        (kind::ATTACH, Reply::File(qid)),
        (kind::WALK, Reply::Done),
        (kind::WALK, Reply::File(qid)),
        (kind::LOPEN, Reply::Opened(qid)),
        (kind::GETATTR, Reply::Attributes(attributes)),
        (kind::READ, Reply::Bytes(b"data")),
        (kind::READLINK, Reply::Bytes(b"text")),
        (kind::WRITE, Reply::Count(4)),
        (kind::STATFS, Reply::Space(space)),
        (kind::CLUNK, Reply::Done),
        (kind::UNLINKAT, Reply::Refused(2)),
    ];
    for (request, reply) in replies {
        let bytes = reply.encode(request, 3, &mut buffer).unwrap();
        assert_eq!(Reply::decode(request, 3, &buffer[..bytes]), Ok(reply));
    }
    let mut entries = EntryWriter::new(&mut buffer[..60]);
    assert!(entries.add(qid, 5, 4, b"first") && entries.add(qid, 6, 8, b"second"));
    assert!(!entries.add(qid, 7, 8, b"third"));
    let bytes = entries.bytes();
    let read: Vec<_> = Entries::new(&buffer[..bytes]).collect::<Result<_, _>>().unwrap();
    assert_eq!(read[0], Entry { qid, next: 5, kind: 4, name: b"first" });
    assert_eq!((read[1].name, read.len()), (&b"second"[..], 2));
}
