//! Calls about sockets: local ones (`AF_UNIX`), and those of the internet (`AF_INET`, `AF_INET6`). Which one a descriptor is
//! `unixd` knows, and so it looks at addresses.

use super::packet_ring;
use super::readwrite::vector;
use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::kinds::socket::Socket;
use crate::fd::{self, alone, rings, File};
use crate::mm::user;
use crate::mm::Mm;
use crate::process::Io;
use crate::server::{self, op, restart};
use alloc::vec::Vec;
use linuxabi::iovec::Buffer;
use unixproto::files::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use unixproto::ops::Received;
use unixproto::session::DATA_BYTES;
use unixproto::sockets as numbers;
use unixproto::sockets::*;

const SOL_SOCKET: u32 = 1;
/// `PACKET_STATISTICS`
const PACKET_STATISTICS: u32 = of_level(SOL_PACKET, 6);
/// More levels of options than there are.
const LEVELS: u32 = 512;
const SCM_RIGHTS: u32 = 1;
const SCM_CREDENTIALS: u32 = 2;
/// Bytes of `struct sockaddr_storage`.
const ADDRESS_MOST: usize = 128;
/// Bytes of `struct cmsghdr`, of `struct msghdr`, and of `struct mmsghdr`.
const CONTROL_HEAD: usize = 16;
const MESSAGE_HEAD: u64 = 56;
const MESSAGE_BYTES: u64 = 64;
/// Most descriptors that a message passes along, and most bytes of control messages that are looked at.
const RIGHTS_MOST: usize = 253;
const CONTROL_MOST: u64 = 20_480;
/// Bytes of what goes along, at most.
const ALONG: usize = 4 * RIGHTS_MOST + 12 + ADDRESS_MOST + CONTROL_BYTES;
/// Most messages of `sendmmsg` and `recvmmsg`.
const MESSAGES_MOST: u32 = 1024;

/// What does not matter for a few bytes of a local stream for which there is room.
const PLAIN_TO_SEND: u32 = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE;
/// What is received with one of these does not come out of what is lent.
const SPECIAL_TO_RECEIVE: u32 = MSG_PEEK | MSG_OOB | MSG_ERRQUEUE;

const MSG_CTRUNC: u32 = 8;
const MSG_TRUNC: u32 = 0x20;
const MSG_WAITALL: u32 = 0x100;
const MSG_WAITFORONE: u32 = 0x10000;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;

pub fn socket(io: &mut Io, domain: u32, kind: u32, protocol: u32) -> Result<u64> {
    let (kind, flags) = kind_of(domain, kind, protocol)?;
    let opened = server::call(op::Socket { domain, protocol, kind, flags })?;
    installed(io, opened.desc, flags)
}

pub fn socketpair(io: &mut Io, domain: u32, kind: u32, protocol: u32, fds: u64) -> Result<u64> {
    let (kind, flags) = kind_of(domain, kind, protocol)?;
    if domain != AF_UNIX.into() {
        return Err(Errno::EOPNOTSUPP);
    }
    user::check_writable(&mut io.mm, fds, 8)?;
    let ends = server::call(op::SocketPair { kind, flags })?;
    let end = |desc| File::new(Socket::new(desc), O_RDWR | flags & O_NONBLOCK);
    fd::install_two(io, (end(ends.read), end(ends.write)), flags & O_CLOEXEC != 0, fds)
}

/// The kind of messages, and the flags.
fn kind_of(domain: u32, kind: u32, protocol: u32) -> Result<(u32, u32)> {
    const KINDS: u32 = 0xf;
    let flags = kind & !KINDS;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    match u16::try_from(domain) {
        Ok(AF_UNIX) if protocol > 1 => Err(Errno::EPROTONOSUPPORT),
        Ok(AF_UNIX | AF_INET | AF_INET6 | AF_NETLINK | AF_PACKET) => Ok(()),
        _ => Err(Errno::EAFNOSUPPORT),
    }?;
    Ok((kind & KINDS, flags))
}

fn installed(io: &mut Io, desc: u32, flags: u32) -> Result<u64> {
    let file = File::new(Socket::new(desc), O_RDWR | flags & O_NONBLOCK);
    Ok(fd::install(io, file, flags & O_CLOEXEC != 0)? as u64)
}

/// The description of a socket.
pub fn find(io: &Io, fd: i32) -> Result<u32> {
    let file = io.fds.get_open(fd)?;
    match &file.kind {
        fd::kinds::AnyFile::Socket(socket) => Ok(socket.desc),
        _ => Err(Errno::ENOTSOCK),
    }
}

/// An address, with its family.
fn address_in(mm: &mut Mm, address: u64, len: u32) -> Result<Vec<u8>> {
    let len = usize::try_from(len as i32).map_err(|_| Errno::EINVAL)?;
    if len > ADDRESS_MOST {
        return Err(Errno::EINVAL);
    }
    let mut bytes = Vec::from([0; ADDRESS_MOST]);
    user::bytes_in(mm, address, &mut bytes[..len])?;
    if len < FAMILY_BYTES {
        return Err(Errno::EINVAL);
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Tells a program an address, as much as it has room for.
fn address_out(mm: &mut Mm, bytes: &[u8], address: u64, len: u64) -> Result<u64> {
    if address == 0 {
        return Ok(0);
    }
    let room: i32 = user::copy_in(mm, len)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    user::bytes_out(mm, address, &bytes[..bytes.len().min(room)])?;
    user::copy_out(mm, len, &(bytes.len() as u32))?;
    Ok(0)
}

pub fn bind(io: &mut Io, fd: i32, address: u64, len: u32) -> Result<u64> {
    let desc = find(io, fd)?;
    let address = address_in(&mut io.mm, address, len)?;
    let mode = super::names::masked(0o777);
    server::call_a(op::Bind { desc, mode }, &address)?;
    Ok(0)
}

pub fn connect(io: &mut Io, fd: i32, address: u64, len: u32) -> Result<u64> {
    let desc = find(io, fd)?;
    let address = address_in(&mut io.mm, address, len)?;
    let a = server::put_a(&address);
    server::wait_filled(io, op::Connect { desc }, a).map_err(restart)?;
    Ok(0)
}

pub fn listen(io: &mut Io, fd: i32, backlog: i32) -> Result<u64> {
    let desc = find(io, fd)?;
    // What is negative counts as very much.
    server::call(op::Listen { desc, backlog: backlog as u32 })?;
    Ok(0)
}

pub fn accept(io: &mut Io, fd: i32, address: u64, len: u64) -> Result<u64> {
    accept4(io, fd, address, len, 0)
}

pub fn accept4(io: &mut Io, fd: i32, address: u64, len: u64, flags: u32) -> Result<u64> {
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let desc = find(io, fd)?;
    io.fds.check_room(0, io.limits.max_files())?;
    let request = op::Accept { desc, flags, named: address != 0 };
    let accepted = server::wait(io, request).map_err(restart)?;
    let told = match accepted.name {
        // It was not wanted, or the other end is gone already.
        0 => Ok(0),
        name => server::taken(name as usize)
            .and_then(|text| address_out(&mut io.mm, &text, address, len)),
    };
    match told {
        Ok(_) => installed(io, accepted.desc, flags),
        Err(error) => {
            server::close(accepted.desc);
            Err(error)
        }
    }
}

fn name_of(desc: u32, peer: bool) -> Result<Vec<u8>> {
    let count = server::call(op::SocketName { desc, peer })?.count;
    server::taken(count as usize)
}

pub fn getsockname(io: &mut Io, fd: i32, address: u64, len: u64) -> Result<u64> {
    tell_name(io, fd, false, address, len)
}

pub fn getpeername(io: &mut Io, fd: i32, address: u64, len: u64) -> Result<u64> {
    tell_name(io, fd, true, address, len)
}

fn tell_name(io: &mut Io, fd: i32, peer: bool, address: u64, len: u64) -> Result<u64> {
    let desc = find(io, fd)?;
    let text = name_of(desc, peer)?;
    if address == 0 {
        return Err(Errno::EFAULT);
    }
    address_out(&mut io.mm, &text, address, len)
}

pub fn shutdown(io: &mut Io, fd: i32, how: u32) -> Result<u64> {
    let desc = find(io, fd)?;
    server::call(op::ShutDown { desc, how })?;
    Ok(0)
}

/// What goes along with bytes that are sent.
#[derive(Default)]
struct Along {
    rights: Vec<u32>,
    user: Option<[u8; 12]>,
    /// Control messages of other levels than that of all sockets.
    control: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl Along {
    /// Does nothing go along?
    fn is_nothing(&self) -> bool {
        let Along { rights, user, control, to } = self;
        rights.is_empty() && user.is_none() && control.is_empty() && to.is_none()
    }

    /// Puts what goes along behind so many bytes, with these descriptions.
    fn put(&self, a: usize, rights: &[u32]) -> usize {
        let mut b = Vec::new();
        rights.iter().for_each(|desc| b.extend_from_slice(&desc.to_le_bytes()));
        b.extend_from_slice(self.user.as_ref().map_or(&[], |user| &user[..]));
        b.extend_from_slice(&self.control);
        b.extend_from_slice(self.to.as_ref().map_or(&[], |to| &to[..]));
        server::put_b(a, &b)
    }

    /// The request that they go along with.
    fn request(&self, desc: u32, flags: u32, rights: &[u32]) -> op::Send {
        op::Send {
            desc,
            flags,
            rights: rights.len() as u32,
            tells: self.user.is_some(),
            control: self.control.len() as u32,
        }
    }
}

fn send(io: &mut Io, fd: i32, from: &mut Cursor, flags: u32, along: &Along) -> Result<u64> {
    let desc = find(io, fd)?;
    let flags = flags & (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_OOB | MSG_ZEROCOPY);
    let (mut total, mut is_parted) = (0, false);
    loop {
        let most = DATA_BYTES - ALONG;
        let all = from.left();
        let bytes = all.min(most as u64) as usize;
        // A long datagram is sent in parts.
        let follows = if all > most as u64 { CONTINUES } else { 0 };
        let goes_on = follows != 0 && is_bounded(desc)?;
        if goes_on && (all > u16::MAX.into() || !is_partable(desc)?) {
            return Err(Errno::EMSGSIZE);
        }
        is_parted |= goes_on;
        let a = match from.gather_to(&mut io.mm, server::data(bytes)).some() {
            Ok(a) => a,
            Err(error) if total == 0 || is_parted => return Err(error),
            Err(_) => {
                // What was to follow does not, and the server does not know.
                let b = along.put(0, &[]);
                let _ = server::wait_both(io, along.request(desc, flags | CONTINUED, &[]), 0, b);
                return Ok(total);
            }
        };
        let is_cut = (a as usize) < bytes;
        let is_few = total == 0 && a > 0 && a <= rings::MOST_WRITTEN && from.left() == 0;
        if is_few && !is_cut && along.is_nothing() && flags & !PLAIN_TO_SEND == 0 {
            if let Some(done) = rings::write(io, desc, a) {
                return done.map(|()| a as u64);
            }
            rings::note(io, desc, true);
        }
        if is_cut && is_bounded(desc)? {
            return Err(Errno::EFAULT);
        }
        // Behind what cannot be read nothing follows.
        let before = if total > 0 { CONTINUED } else { 0 };
        let follows = if is_cut { 0 } else { follows };
        let more = before | follows | if goes_on { MSG_MORE } else { 0 };
        // What goes along goes with the first bytes.
        let rights = if total == 0 { &along.rights[..] } else { &[] };
        let b = along.put(a, rights);
        let request = along.request(desc, flags | more, rights);
        let taken = match server::wait_both(io, request, a, b) {
            Ok(taken) => taken.count,
            // Of a datagram all is sent, or nothing.
            Err(error) if total == 0 || is_parted => return Err(restart(error)),
            Err(_) => return Ok(total),
        };
        total += taken;
        // A piece that is cut is the last one: of what follows it nothing may be sent.
        if taken < bytes as u64 || from.left() == 0 {
            return Ok(total);
        }
    }
}

/// Does a socket keep the bounds of its messages?
fn is_bounded(desc: u32) -> Result<bool> {
    Ok(option_of(desc, SO_TYPE)?.0 != SOCK_STREAM.into())
}

/// Can its messages be sent in parts, and received so?
fn is_partable(desc: u32) -> Result<bool> {
    Ok(option_of(desc, SO_DOMAIN)?.0 != AF_UNIX.into())
}

pub fn sendto(
    io: &mut Io,
    fd: i32,
    buf: u64,
    len: u64,
    flags: u32,
    address: u64,
    address_len: u32,
) -> Result<u64> {
    find(io, fd)?;
    let to = match address {
        0 => None,
        _ => destination(io, address, address_len)?,
    };
    let buffers = [Buffer { base: buf, len }];
    send(io, fd, &mut Cursor::new(&buffers), flags, &Along { to, ..Along::default() })
}

/// Where a message is to go, if that is not where the socket is connected to.
fn destination(io: &mut Io, address: u64, len: u32) -> Result<Option<Vec<u8>>> {
    match len {
        0 => Ok(None),
        len => address_in(&mut io.mm, address, len).map(Some),
    }
}

/// `struct msghdr`.
struct Message {
    name: u64,
    name_bytes: u32,
    vector: u64,
    count: u64,
    control: u64,
    control_bytes: u64,
}

impl Message {
    fn read(mm: &mut Mm, at: u64) -> Result<Message> {
        let mut words = [0; MESSAGE_HEAD as usize / 8];
        user::words_in(mm, at, &mut words)?;
        let [name, name_bytes, vector, count, control, control_bytes, _] = words;
        Ok(Message { name, name_bytes: name_bytes as u32, vector, count, control, control_bytes })
    }
}

pub fn sendmsg(io: &mut Io, fd: i32, at: u64, flags: u32) -> Result<u64> {
    Ok(send_message(io, fd, at, flags)?.0)
}

/// Sends a message. Answers how many bytes of it were, and how many it has.
fn send_message(io: &mut Io, fd: i32, at: u64, flags: u32) -> Result<(u64, u64)> {
    find(io, fd)?;
    let message = Message::read(&mut io.mm, at)?;
    if message.count > 1024 {
        return Err(Errno::EMSGSIZE);
    }
    let buffers = vector(&mut io.mm, message.vector, message.count)?;
    let mut along = Along::default();
    if message.name != 0 {
        along.to = destination(io, message.name, message.name_bytes)?;
    }
    if message.control_bytes > 0 {
        read_control(io, &message, &mut along)?;
    }
    let mut cursor = Cursor::new(&buffers);
    let bytes = cursor.left();
    Ok((send(io, fd, &mut cursor, flags, &along)?, bytes))
}

/// What the control messages say that is to go along.
fn read_control(io: &mut Io, message: &Message, along: &mut Along) -> Result<()> {
    if message.control_bytes > CONTROL_MOST {
        return Err(Errno::ENOBUFS);
    }
    let mut all = alloc::vec![0; message.control_bytes as usize];
    user::bytes_in(&mut io.mm, message.control, &mut all)?;
    let mut rest = &all[..];
    let mut fds = Vec::new();
    while rest.len() >= CONTROL_HEAD {
        let word =
            |at: usize| rest[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let len = rest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
        let (level, kind) = (word(8), word(12));
        if len < CONTROL_HEAD || len > rest.len() {
            return Err(Errno::EINVAL);
        }
        let data = &rest[CONTROL_HEAD..len];
        match (level, kind) {
            (SOL_SOCKET, SCM_RIGHTS) => {
                fds.extend(data.as_chunks().0.iter().map(|fd| i32::from_le_bytes(*fd)));
            }
            (SOL_SOCKET, SCM_CREDENTIALS) => {
                along.user = Some(data.try_into().map_err(|_| Errno::EINVAL)?);
            }
            (SOL_SOCKET, kind) if !matches!(kind, SO_TIMESTAMPING | SO_TIMESTAMPING_NEW) => {
                return Err(Errno::EINVAL);
            }
            // The server knows which of them the socket has.
            _ => {
                along.control.resize(along.control.len().next_multiple_of(8), 0);
                along.control.extend_from_slice(&rest[..len]);
                if along.control.len() > CONTROL_BYTES {
                    return Err(Errno::ENOBUFS);
                }
            }
        }
        rest = &rest[len.next_multiple_of(8).min(rest.len())..];
    }
    if fds.len() > RIGHTS_MOST {
        return Err(Errno::EINVAL);
    }
    if !fds.is_empty() {
        fds.iter().try_for_each(|&fd| io.fds.get(fd).map(|_| ()))?;
        // Whoever gets them has them, too.
        alone::share_all(io)?;
        for fd in fds {
            along.rights.push(io.fds.get(fd)?.description(Errno::EINVAL)?);
        }
    }
    Ok(())
}

/// Receives one message, or a part of a stream.
pub fn receive_once(
    io: &mut Io,
    desc: u32,
    to: &mut Cursor,
    flags: u32,
    rights: u32,
) -> Result<Received> {
    let is_plain = flags & SPECIAL_TO_RECEIVE == 0 && to.left() > 0;
    if is_plain {
        let now = flags & MSG_DONTWAIT != 0;
        if let Some(done) = rings::read(io, desc, to, now) {
            let count = done?;
            return Ok(Received { count, full: count, rights: 0, told: 0, is_cut: false });
        }
    }
    let most = DATA_BYTES - ALONG;
    let bytes = to.left().min(most as u64);
    let bytes = if bytes == 0 { 0 } else { to.writable(&mut io.mm, bytes)? } as u32;
    // There is room for more than one answer brings.
    let goes_on = if to.left() > bytes.into() && bytes > 0 { GOES_ON } else { 0 };
    let flags = flags & (MSG_DONTWAIT | MSG_PEEK | MSG_OOB | MSG_ERRQUEUE | REST) | goes_on;
    let request = op::Receive { desc, bytes, flags, rights };
    let received = server::wait(io, request).map_err(restart)?;
    to.scatter_from(&mut io.mm, server::data(received.count as usize)).all()?;
    if is_plain && received.count <= rings::MOST_WRITTEN as u64 {
        rings::note(io, desc, false);
    }
    Ok(received)
}

/// The same, until there is all that there is room for, if that is wanted.
fn receive(
    io: &mut Io,
    fd: i32,
    to: &mut Cursor,
    flags: u32,
    rights: u32,
) -> Result<(Received, Behind)> {
    let desc = find(io, fd)?;
    let mut received = receive_once(io, desc, to, flags, rights)?;
    let behind = Behind::take(&received)?;
    let mut was_long = is_long(&received);
    let is_error = flags & MSG_ERRQUEUE != 0 && !behind.control.is_empty();
    if is_error && !was_long || is_urgent(desc, flags)? {
        return Ok((received, behind));
    }
    let goes_on = flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0;
    while to.left() > 0 && received.count > 0 && (goes_on || was_long) {
        let mut flags = if goes_on { flags } else { flags | MSG_DONTWAIT };
        if received.rights > 0 {
            break;
        }
        let is_message = is_bounded(desc)?;
        if is_message {
            if received.full <= received.count || !is_partable(desc)? {
                break;
            }
        } else if flags & MSG_PEEK != 0 {
            break;
        }
        flags |= REST;
        match receive_once(io, desc, to, flags, 0) {
            Ok(more) if more.count > 0 => {
                received.count += more.count;
                if !is_message {
                    received.full += more.count;
                }
                was_long = is_long(&more);
            }
            // What was received counts.
            _ => break,
        }
    }
    Ok((received, behind))
}

/// Is the urgent byte of a stream what is received? It is one, and nothing follows it.
fn is_urgent(desc: u32, flags: u32) -> Result<bool> {
    Ok(flags & MSG_OOB != 0 && !is_bounded(desc)?)
}

/// Has a request brought as much as it can?
fn is_long(received: &Received) -> bool {
    received.count as usize == DATA_BYTES - ALONG
}

/// What came behind the bytes.
#[derive(Default)]
pub struct Behind {
    rights: Vec<u32>,
    user: Option<Vec<u8>>,
    pub name: Vec<u8>,
    /// Control messages.
    pub control: Vec<u8>,
}

impl Behind {
    pub fn take(received: &Received) -> Result<Behind> {
        let (count, rights) = (received.count as usize, received.rights as usize);
        let told = numbers::Behind::unpack(received.told);
        let all = 4 * rights + told.user + told.name + told.control;
        if all == 0 {
            return Ok(Behind::default());
        }
        let mut behind = Vec::new();
        let place = server::data(count + all).skip(count);
        // It is memory of this process's own: all of it is there.
        let _ = place.append_to(&mut behind).map_err(|_| Errno::ENOMEM)?;
        let (ids, rest) = behind.split_at_checked(4 * rights).ok_or(Errno::EIO)?;
        let (user, rest) = rest.split_at_checked(told.user).ok_or(Errno::EIO)?;
        let (name, control) = rest.split_at_checked(told.name).ok_or(Errno::EIO)?;
        Ok(Behind {
            rights: ids.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect(),
            user: (!user.is_empty()).then(|| user.to_vec()),
            name: name.to_vec(),
            control: control.to_vec(),
        })
    }
}

pub fn recvfrom(
    io: &mut Io,
    fd: i32,
    buf: u64,
    len: u64,
    flags: u32,
    address: u64,
    address_len: u64,
) -> Result<u64> {
    let buffers = [Buffer { base: buf, len }];
    let (received, behind) = receive(io, fd, &mut Cursor::new(&buffers), flags, 0)?;
    if address != 0 {
        match behind.name.is_empty() {
            true => user::copy_out(&mut io.mm, address_len, &0u32)?,
            false => drop(address_out(&mut io.mm, &behind.name, address, address_len)?),
        }
    }
    Ok(if flags & MSG_TRUNC != 0 { received.full } else { received.count })
}

pub fn recvmsg(io: &mut Io, fd: i32, at: u64, flags: u32) -> Result<u64> {
    find(io, fd)?;
    let message = Message::read(&mut io.mm, at)?;
    if message.count > 1024 {
        return Err(Errno::EMSGSIZE);
    }
    let buffers = vector(&mut io.mm, message.vector, message.count)?;
    let room = (message.control_bytes as usize).saturating_sub(CONTROL_HEAD) / 4;
    let rights = room.min(RIGHTS_MOST) as u32;
    let (received, mut behind) = receive(io, fd, &mut Cursor::new(&buffers), flags, rights)?;
    let is_error = flags & MSG_ERRQUEUE != 0 && !behind.control.is_empty();
    let mut told = if is_error { MSG_ERRQUEUE } else { 0 };
    if is_urgent(find(io, fd)?, flags)? {
        told |= MSG_OOB;
    }
    if received.full > received.count {
        told |= MSG_TRUNC;
    }
    let is_cut = received.is_cut;
    let name = core::mem::take(&mut behind.name);
    let (control_bytes, cut) = write_control(io, &message, behind, flags)?;
    if is_cut || cut {
        told |= MSG_CTRUNC;
    }
    let name_bytes = name.len();
    if message.name != 0 {
        if name_bytes > 0 {
            let room = name_bytes.min(message.name_bytes as usize);
            user::bytes_out(&mut io.mm, message.name, &name[..room])?;
        }
        user::copy_out(&mut io.mm, at + 8, &(name_bytes as u32))?;
    }
    user::copy_out(&mut io.mm, at + 40, &(control_bytes as u64))?;
    user::copy_out(&mut io.mm, at + 48, &told)?;
    // Of what came back of a datagram only as much counts as there was room for.
    Ok(if flags & MSG_TRUNC != 0 && !is_error { received.full } else { received.count })
}

/// Gives the program descriptors for what was passed along, and tells it what came. Answers how many bytes, and whether
/// something had no room.
fn write_control(
    io: &mut Io,
    message: &Message,
    behind: Behind,
    flags: u32,
) -> Result<(usize, bool)> {
    let mut all = Vec::new();
    let mut cut = false;
    let room = message.control_bytes as usize;
    // As much of one as there is room for is told.
    let mut put = |level: u32, kind: u32, data: &[u8]| {
        let left = room - all.len();
        if left < CONTROL_HEAD {
            return false;
        }
        let len = (CONTROL_HEAD + data.len()).min(left);
        all.extend_from_slice(&(len as u64).to_le_bytes());
        all.extend_from_slice(&level.to_le_bytes());
        all.extend_from_slice(&kind.to_le_bytes());
        all.extend_from_slice(&data[..len - CONTROL_HEAD]);
        all.resize(all.len().next_multiple_of(8).min(room), 0);
        len == CONTROL_HEAD + data.len()
    };
    let mut told = &behind.control[..];
    while let Some((head, _)) = told.split_first_chunk::<CONTROL_HEAD>() {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[at + n]));
        let len = word(0) as usize;
        let data = told.get(CONTROL_HEAD..len).ok_or(Errno::EIO)?;
        cut |= !put(word(8), word(12), data);
        told = &told[len.next_multiple_of(8).min(told.len())..];
    }
    if let Some(user) = &behind.user {
        cut |= !put(SOL_SOCKET, SCM_CREDENTIALS, user);
    }
    let mut fds = Vec::new();
    for desc in behind.rights {
        match fd::install_given(io, desc, None, flags & MSG_CMSG_CLOEXEC != 0) {
            Ok(fd) => fds.extend_from_slice(&fd.to_le_bytes()),
            // It has too many.
            Err(_) => cut = true,
        }
    }
    if !fds.is_empty() {
        cut |= !put(SOL_SOCKET, SCM_RIGHTS, &fds);
    }
    if message.control != 0 && !all.is_empty() {
        user::bytes_out(&mut io.mm, message.control, &all)?;
    }
    Ok((all.len(), cut))
}

pub fn sendmmsg(io: &mut Io, fd: i32, at: u64, count: u32, flags: u32) -> Result<u64> {
    each_message(io, at, count, |io, message, _| {
        let (done, bytes) = send_message(io, fd, message, flags)?;
        Ok((done, done < bytes))
    })
}

pub fn recvmmsg(
    io: &mut Io,
    fd: i32,
    at: u64,
    count: u32,
    flags: u32,
    timeout: u64,
) -> Result<u64> {
    if timeout != 0 {
        let mut times = [0; 2];
        user::words_in(&mut io.mm, timeout, &mut times)?;
        if times[1] >= 1_000_000_000 || (times[0] as i64) < 0 {
            return Err(Errno::EINVAL);
        }
    }
    each_message(io, at, count, |io, message, n| {
        let more = if n > 0 && flags & MSG_WAITFORONE != 0 { MSG_DONTWAIT } else { 0 };
        Ok((recvmsg(io, fd, message, flags & !MSG_WAITFORONE | more)?, false))
    })
}

/// Does something with one message after the other, until one fails. `each` answers with how many bytes of a message it did it,
/// and whether nothing may follow. Answers how many were done.
fn each_message(
    io: &mut Io,
    at: u64,
    count: u32,
    mut each: impl FnMut(&mut Io, u64, u32) -> Result<(u64, bool)>,
) -> Result<u64> {
    let (mut done, mut is_last) = (0, false);
    while done < count.min(MESSAGES_MOST) && !is_last {
        let message = at + MESSAGE_BYTES * u64::from(done);
        match each(io, message, done) {
            Ok((bytes, last)) => {
                user::copy_out(&mut io.mm, message + MESSAGE_HEAD, &(bytes as u32))?;
                (done, is_last) = (done + 1, last);
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done.into())
}

/// An option as requests name it.
fn level_and(level: u32, option: u32) -> Result<u32> {
    match level {
        SOL_SOCKET if option < 1 << 16 => Ok(option),
        SOL_SOCKET => Err(Errno::ENOPROTOOPT),
        level if level < LEVELS && option < 1 << 16 => Ok(of_level(level, option)),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// Is the value of an option a structure? They are about groups, types of ICMP, and interfaces.
fn is_structure(level: u32, option: u32) -> bool {
    const SOL_IP: u32 = 0;
    const SOL_IPV6: u32 = 41;
    const SOL_ICMPV6: u32 = 58;
    const SOL_RAW: u32 = 255;
    matches!(
        (level, option),
        (SOL_IP, 32 | 35..=48)
            | (SOL_IPV6, 20 | 21 | 42..=48)
            | (SOL_ICMPV6 | SOL_RAW, 1)
            | (SOL_PACKET, 1 | 2)
    )
}

/// The instructions of a filter (`struct sock_fprog`).
fn filter_in(mm: &mut Mm, at: u64, len: u32) -> Result<Vec<u8>> {
    const BYTES: u32 = 16;
    const MOST: usize = 4096;
    const EACH: usize = 8;
    if len != BYTES {
        return Err(Errno::EINVAL);
    }
    let mut words = [0; 2];
    user::words_in(mm, at, &mut words)?;
    let count = words[0] as u16 as usize;
    if count == 0 || count > MOST {
        return Err(Errno::EINVAL);
    }
    let mut bytes = alloc::vec![0; EACH * count];
    user::bytes_in(mm, words[1], &mut bytes)?;
    Ok(bytes)
}

/// Such a structure.
fn structure_in(mm: &mut Mm, at: u64, len: u32) -> Result<Vec<u8>> {
    // More than any of them has; what is behind it does not count.
    const MOST: usize = 2048;
    let len = usize::try_from(len as i32).map_err(|_| Errno::EINVAL)?;
    let mut bytes = alloc::vec![0; len.min(MOST)];
    user::bytes_in(mm, at, &mut bytes)?;
    Ok(bytes)
}

/// An option, and its bytes.
pub fn option_of(desc: u32, option: u32) -> Result<(u64, Vec<u8>)> {
    let count = server::call(op::GetSocketOption { desc, option })?.count;
    let bytes = server::taken(count as usize)?;
    let value = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    Ok((value, bytes))
}

pub fn getsockopt(io: &mut Io, fd: i32, level: u32, option: u32, at: u64, len: u64) -> Result<u64> {
    let desc = find(io, fd)?;
    let room: i32 = user::copy_in(&mut io.mm, len)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let is_own = level == SOL_SOCKET;
    if level == SOL_PACKET {
        if let Some(value) = packet_ring::get(io, fd, option, at)? {
            user::copy_out(&mut io.mm, at, &value)?;
            user::copy_out(&mut io.mm, len, &4u32)?;
            return Ok(0);
        }
    }
    let option = level_and(level, option)?;
    let (value, bytes) = option_of(desc, option)?;
    let bytes = match option {
        _ if bytes.len() != 8 => bytes,
        SO_RCVTIMEO | SO_SNDTIMEO => {
            let times = [value / 1_000_000_000, value % 1_000_000_000 / 1000];
            times.iter().flat_map(|word| word.to_le_bytes()).collect()
        }
        // Two words: of the second, flags, and a clock of a device, of which there is none.
        // As many words: frames that were seen, and that were lost.
        PACKET_STATISTICS | SO_LINGER | SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => {
            value.to_le_bytes().to_vec()
        }
        // Short ones are told where there is no room for more.
        _ if !is_own && (1..4).contains(&room) => Vec::from([value as u8]),
        _ => (value as u32).to_le_bytes().to_vec(),
    };
    let told = bytes.len().min(room);
    user::bytes_out(&mut io.mm, at, &bytes[..told])?;
    user::copy_out(&mut io.mm, len, &(told as u32))?;
    Ok(0)
}

pub fn setsockopt(io: &mut Io, fd: i32, level: u32, option: u32, at: u64, len: u32) -> Result<u64> {
    let desc = find(io, fd)?;
    let is_own = level == SOL_SOCKET;
    if level == SOL_PACKET && packet_ring::set(io, fd, option, at, len)?.is_some() {
        return Ok(0);
    }
    if is_own && option == SO_ATTACH_FILTER {
        let code = filter_in(&mut io.mm, at, len)?;
        server::call_a(op::SetSocketBytes { desc, option }, &code)?;
        return Ok(0);
    }
    if is_structure(level, option) {
        let bytes = structure_in(&mut io.mm, at, len)?;
        server::call_a(op::SetSocketBytes { desc, option: level_and(level, option)? }, &bytes)?;
        return Ok(0);
    }
    let option = level_and(level, option)?;
    let least = match option {
        // A byte does for those of IPv4.
        _ if !is_own && level == 0 => 1,
        SO_RCVTIMEO | SO_SNDTIMEO => 16,
        SO_LINGER => 8,
        _ => 4,
    };
    if (len as i32) < least {
        return Err(Errno::EINVAL);
    }
    let value = match option {
        SO_RCVTIMEO | SO_SNDTIMEO => {
            let mut times = [0; 2];
            user::words_in(&mut io.mm, at, &mut times)?;
            let [seconds, micros] = times;
            if micros >= 1_000_000 {
                return Err(Errno::EDOM);
            }
            match seconds as i64 {
                ..0 => 1,
                _ => seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000),
            }
        }
        SO_LINGER => {
            let mut words = [0];
            user::words_in(&mut io.mm, at, &mut words)?;
            words[0]
        }
        _ if (len as i32) < 4 => u64::from(user::copy_in::<u8>(&mut io.mm, at)?),
        _ => u64::from(user::copy_in::<u32>(&mut io.mm, at)?),
    };
    match option {
        numbers::SO_PEERCRED | SO_TYPE | SO_ERROR | SO_ACCEPTCONN | SO_DOMAIN | SO_PROTOCOL => {
            Err(Errno::ENOPROTOOPT)
        }
        _ => {
            server::call(op::SetSocketOption { desc, option, value })?;
            Ok(0)
        }
    }
}
