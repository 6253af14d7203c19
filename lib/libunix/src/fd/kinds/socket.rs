//! Sockets.

use crate::errno::{Errno, Result};
use crate::fd::buffers::Cursor;
use crate::fd::ops::{FileOps, Flow, Handle, Mapped, Server};
use crate::fd::{install, rings, stream, File};
use crate::fd::transfer::Source;
use crate::fd::watch::Look;
use crate::process::Io;
use crate::mm::user;
use crate::server::{self, op};
use crate::sys::packet_ring::SharedRing;
use unixproto::files::{Kind, O_RDONLY};
use unixproto::ops::Opened;
use unixproto::sockets::*;
use unixproto::tty::Shape;

/// A socket, by its description.
#[derive(Clone)]
pub struct Socket {
    pub desc: u32,
    /// Of a packet socket: where the program has what comes.
    pub ring: Option<SharedRing>,
}

impl Socket {
    /// Without a ring.
    pub fn new(desc: u32) -> Socket {
        Socket { desc, ring: None }
    }
}

impl FileOps for Socket {
    const SERVED: Option<Kind> = Some(Kind::Socket);
    const POLLABLE: bool = true;

    fn opened(opened: &Opened) -> Option<Self> {
        Some(Socket::new(opened.desc))
    }
    fn server(&self) -> Server {
        Server::Unixd([self.desc, 0])
    }
    fn read(&self, io: &mut Io, _: Handle, _at: Option<u64>, to: &mut Cursor) -> Result<u64> {
        read(io, self.desc, to)
    }
    fn write(
        &self,
        io: &mut Io,
        _: Handle,
        _at: Option<u64>,
        from: &mut impl Source,
    ) -> Result<u64> {
        match from.left() {
            bytes @ 1.. if bytes <= rings::MOST_WRITTEN as u64 => {
                rings::write_few(io, self.desc, from)
            }
            _ => stream::write(io, self.desc, from),
        }
    }
    fn ioctl(&self, io: &mut Io, _: Handle, command: u32, arg: u64) -> Result<u64> {
        if command == SIOCGIFCONF {
            return all_devices(io, self.desc, arg);
        }
        if matches!(command, SIOCATMARK | SIOCOUTQ | SIOCOUTQNSD) {
            let shape = Shape { input: 0, output: size_of::<u32>() };
            return stream::shaped(io, self.desc, command, arg, shape);
        }
        if SIOCGSTAMP.contains(&command) || SIOCGSTAMPNS.contains(&command) {
            let shape = Shape { input: 0, output: STAMP_BYTES };
            return stream::shaped(io, self.desc, command, arg, shape);
        }
        if command == SIOCGSKNS {
            io.fds.check_room(0, io.limits.max_files())?;
            let opened = server::call(op::OpenSpaceAround { desc: self.desc, is_parent: false })?;
            return Ok(install(io, File::opened(opened, O_RDONLY), true)? as u64);
        }
        if command == SIOCETHTOOL {
            return Err(Errno::EOPNOTSUPP);
        }
        match device_shape(command) {
            Some(shape) => stream::shaped(io, self.desc, command, arg, shape),
            None => stream::available(io, self.desc, command, arg),
        }
    }
    fn map(&self) -> Result<Mapped> {
        match &self.ring {
            Some(ring) if ring.get().is_made() => Ok(Mapped::Zeroes),
            _ => Err(Errno::ENODEV),
        }
    }
    fn flow(&self) -> Flow {
        Flow::Socket(self.desc)
    }
    fn more_flags(&self) -> u32 {
        0
    }
    fn sync(&self, _offset: u64, _bytes: u64) -> Result<u64> {
        Err(Errno::EINVAL)
    }
    fn ready(&self, look: &Look) -> Option<u16> {
        look.of_stream(self.desc)
    }
    fn is_watched(&self) -> bool {
        true
    }
}

/// Reads what there is, or comes first.
fn read(io: &mut Io, desc: u32, to: &mut Cursor) -> Result<u64> {
    if to.left() == 0 {
        return Ok(0);
    }
    if let Some(done) = rings::read(io, desc, to, false) {
        return done;
    }
    let done = stream::read(io, desc, to)?;
    if done <= rings::MOST_WRITTEN as u64 {
        rings::note(io, desc, false);
    }
    Ok(done)
}

/// Tells all interfaces that have an address (`SIOCGIFCONF`): as many as there is room for, or how much room there has to be.
fn all_devices(io: &mut Io, desc: u32, arg: u64) -> Result<u64> {
    // `struct ifconf`: bytes, and where.
    let mut words = [0; 2];
    user::words_in(&mut io.mm, arg, &mut words)?;
    let [room, at] = words;
    let count = server::call(op::Ioctl { desc, command: SIOCGIFCONF, value: 0 })?.count as usize;
    let told = match at {
        0 => count,
        _ => {
            let room = usize::try_from(room as i32).map_err(|_| Errno::EINVAL)?;
            let told = count.min(room - room % DEVICE_BYTES);
            let all = server::taken(count)?;
            user::bytes_out(&mut io.mm, at, &all[..told])?;
            told
        }
    };
    user::copy_out(&mut io.mm, arg, &(told as u32))?;
    Ok(0)
}
