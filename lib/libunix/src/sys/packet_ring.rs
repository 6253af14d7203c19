//! Rings of packet sockets (`PACKET_RX_RING`, second version): frames in memory of the program's.
//!
//! The ring is ordinary shared memory, and the library moves into it what the socket has as soon as the program waits for the socket (`poll`, `select`):
//! `unixd` knows nothing of it, and a program that writes nonsense there harms itself. What has no room stays in the socket, which counts what it loses.
//! Whoever looks at the ring without ever waiting sees nothing come.

use super::sockets::{find, option_of, receive_once, Behind};
use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::kinds::AnyFile;
use crate::mm::user;
use crate::process::Io;
use crate::server::{self, op};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use linuxabi::iovec::Buffer;
use unixproto::sockets::*;

/// Options (`SOL_PACKET`).
const RX_RING: u32 = 5;
const VERSION: u32 = 10;
const HEAD_BYTES: u32 = 11;
const RESERVE: u32 = 12;
/// `TPACKET_V2`, the one that there is; bytes of its head, and with an address behind it.
const V2: u32 = 1;
const HEAD: u32 = 32;
const ALL_HEAD: u32 = HEAD + 20;
const ALIGN: u32 = 16;
/// Bytes of the head of a frame, for which there is always at least that much room.
const FRAME_HEAD: u32 = 14;
const FRAME_ROOM: u32 = 16;
/// Most bytes that a program can reserve, and of a whole ring.
const RESERVE_MOST: u32 = 4096;
const MOST: u64 = 256 << 20;
/// Whose a frame of the ring is (`TP_STATUS_*`): nobody's yet, or the program's.
const FREE: u32 = 0;
const USER: u32 = 1;
/// Where in a frame's head what is: its words.
const WORDS: usize = HEAD as usize / 4;

/// A ring, of a socket and all who share it.
pub type SharedRing = Rc<Cell<Ring>>;

/// Where it is, how it is divided, and what comes next.
#[derive(Clone, Copy, Default)]
pub struct Ring {
    addr: u64,
    block: u32,
    frame: u32,
    frames: u32,
    next: u32,
    reserve: u32,
    /// Frames come without their heads.
    is_cooked: bool,
}

impl Ring {
    /// Is there one, which can be mapped?
    pub fn is_made(&self) -> bool {
        self.frames > 0
    }

    /// The program has it there.
    pub fn mapped(self, addr: u64) -> Ring {
        Ring { addr, ..self }
    }

    /// Where the bytes of a packet begin in a frame, and those of the network's packet.
    fn starts(&self) -> (u32, u32) {
        let (head, net) = match self.is_cooked {
            true => (0, ALL_HEAD.next_multiple_of(ALIGN) + FRAME_ROOM),
            false => (FRAME_HEAD, (ALL_HEAD + FRAME_ROOM).next_multiple_of(ALIGN)),
        };
        let net = net + self.reserve;
        (net - head, net)
    }

    fn at(&self, number: u32) -> u64 {
        let per_block = (self.block / self.frame).max(1);
        let (block, frame) = (number / per_block, number % per_block);
        self.addr + u64::from(block) * u64::from(self.block) + u64::from(frame * self.frame)
    }

    /// `struct tpacket_req`.
    ///
    /// # Errors
    /// `EINVAL`: it is not as it is to be.
    fn divided(self, words: [u32; 4]) -> Result<Ring> {
        let [block, blocks, frame, frames] = words;
        if blocks == 0 {
            return match frames {
                0 => Ok(Ring { addr: 0, block: 0, frame: 0, frames: 0, next: 0, ..self }),
                _ => Err(Errno::EINVAL),
            };
        }
        let (_, net) = self.starts();
        let is_right = block > 0
            && block % 4096 == 0
            && frame > net
            && frame % ALIGN == 0
            && frame <= block
            && (block / frame).checked_mul(blocks) == Some(frames);
        match is_right {
            false => Err(Errno::EINVAL),
            true if u64::from(block) * u64::from(blocks) > MOST => Err(Errno::ENOMEM),
            true => Ok(Ring { addr: 0, block, frame, frames, next: 0, ..self }),
        }
    }
}

fn ring_of(io: &Io, fd: i32) -> Result<Option<SharedRing>> {
    match &io.fds.get_open(fd)?.kind {
        AnyFile::Socket(socket) => Ok(socket.ring.clone()),
        _ => Err(Errno::ENOTSOCK),
    }
}

/// Sets an option of a packet socket that is about its ring. `None`: it is another one.
pub fn set(io: &mut Io, fd: i32, option: u32, at: u64, len: u32) -> Result<Option<()>> {
    if !matches!(option, RX_RING | VERSION | RESERVE) {
        return Ok(None);
    }
    let desc = find(io, fd)?;
    if option_of(desc, SO_DOMAIN)?.0 != AF_PACKET.into() {
        return Err(Errno::ENOPROTOOPT);
    }
    let is_cooked = option_of(desc, SO_TYPE)?.0 == SOCK_DGRAM.into();
    if len < if option == RX_RING { 16 } else { 4 } {
        return Err(Errno::EINVAL);
    }
    let known = ring_of(io, fd)?;
    let ring = known.as_ref().map_or(Ring { is_cooked, ..Ring::default() }, |ring| ring.get());
    let ring = match option {
        RX_RING => {
            let words: [u64; 2] = user::copy_in(&mut io.mm, at)?;
            let halves = words.map(|word| [word as u32, (word >> 32) as u32]);
            if ring.addr != 0 {
                return Err(Errno::EBUSY);
            }
            let [[block, blocks], [frame, frames]] = halves;
            // It is told when each has come.
            server::call(op::SetSocketOption { desc, option: SO_TIMESTAMPNS, value: 1 })?;
            ring.divided([block, blocks, frame, frames])?
        }
        VERSION => match user::copy_in(&mut io.mm, at)? {
            V2 => ring,
            _ => return Err(Errno::EINVAL),
        },
        _ => match user::copy_in(&mut io.mm, at)? {
            _ if ring.is_made() => return Err(Errno::EBUSY),
            reserve @ 0..=RESERVE_MOST => Ring { reserve, ..ring },
            _ => return Err(Errno::EINVAL),
        },
    };
    match known {
        Some(known) => known.set(ring),
        None => {
            if let AnyFile::Socket(socket) = &mut io.fds.get_mut(fd)?.kind {
                socket.ring = Some(Rc::new(Cell::new(ring)));
            }
        }
    }
    Ok(Some(()))
}

/// What such an option is. `None`: it is another one.
pub fn get(io: &mut Io, fd: i32, option: u32, at: u64) -> Result<Option<u32>> {
    let ring = || Ok(ring_of(io, fd)?.map_or(Ring::default(), |ring| ring.get()));
    match option {
        // How long the head of a version is, which is asked for in the same place.
        HEAD_BYTES => match user::copy_in(&mut io.mm, at)? {
            V2 => Ok(Some(HEAD)),
            _ => Err(Errno::EINVAL),
        },
        VERSION => Ok(Some(V2)),
        RESERVE => ring().map(|ring| Some(ring.reserve)),
        _ => Ok(None),
    }
}

/// A socket of which a program was told that it can be read: what it has goes to its ring, if it has one.
pub fn fill(io: &mut Io, index: u32) -> Result<()> {
    let (desc, shared) = match io.fds.at(index).map(|file| &file.kind) {
        Ok(AnyFile::Socket(socket)) => match &socket.ring {
            Some(ring) if ring.get().addr != 0 => (socket.desc, ring.clone()),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    loop {
        let mut ring = shared.get();
        let at = ring.at(ring.next);
        if user::copy_in::<u32>(&mut io.mm, at)? != FREE {
            return Ok(());
        }
        match take(io, desc, &ring, at) {
            Ok(()) => {}
            Err(Errno::EAGAIN) => return Ok(()),
            Err(error) => return Err(error),
        }
        ring.next = (ring.next + 1) % ring.frames;
        shared.set(ring);
    }
}

/// Moves one packet to a frame of the ring.
fn take(io: &mut Io, desc: u32, ring: &Ring, at: u64) -> Result<()> {
    let (mac, net) = ring.starts();
    let room = [Buffer { base: at + u64::from(mac), len: (ring.frame - mac).into() }];
    let received = receive_once(io, desc, &mut Cursor::new(&room), MSG_DONTWAIT, 0)?;
    let behind = Behind::take(&received)?;
    let mut name = behind.name;
    name.resize((ALL_HEAD - HEAD) as usize, 0);
    user::bytes_out(&mut io.mm, at + u64::from(HEAD), &name)?;
    let [seconds, ns] = time_in(&behind.control);
    let mut words = [0u32; WORDS];
    words[0] = USER;
    (words[1], words[2]) = (received.full as u32, received.count as u32);
    words[3] = mac | net << 16;
    (words[4], words[5]) = (seconds as u32, ns as u32);
    // Whose it is is written last.
    let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
    user::bytes_out(&mut io.mm, at + 4, &bytes)?;
    user::copy_out(&mut io.mm, at, &USER)
}

/// The time in control messages, of which there are no others.
fn time_in(control: &[u8]) -> [u64; 2] {
    const CONTROL_HEAD: usize = 16;
    let word = |at: usize| {
        let bytes = control.get(CONTROL_HEAD + at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    [word(0), word(8)].map(|word| word.unwrap_or(0))
}

/// The mapping of a file that was made is that of its ring, if it has one.
pub fn mapped(io: &mut Io, fd: i32, addr: u64) {
    if let Ok(Some(ring)) = ring_of(io, fd) {
        ring.set(ring.get().mapped(addr));
    }
}
