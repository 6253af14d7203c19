//! System V shared memory: a segment is a file that `unixd` keeps, and to attach it is to map that.

use crate::errno::{Errno, Result};
use crate::fd::{self, File};
use crate::mm::{calls, user, Mm};
use crate::process::Process;
use crate::server::{self, op};
use alloc::vec::Vec;
use unixproto::files::{O_RDONLY, O_RDWR};
use unixproto::ipc::*;

const PAGE: u64 = abi::layout::PAGE;
const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;
const MAP_SHARED: u32 = 1;
const MAP_FIXED: u32 = 0x10;
const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;

/// Segments that the process has attached.
#[derive(Clone, Default)]
pub struct Attached(Vec<At>);

#[derive(Clone, Copy)]
struct At {
    address: u64,
    bytes: u64,
    id: u32,
}

impl Attached {
    /// None.
    pub const fn new() -> Attached {
        Attached(Vec::new())
    }

    /// `execve`: their memory is gone.
    pub fn exec(&mut self) {
        self.0.clear();
    }
}

pub fn shmget(_: (), key: i32, bytes: u64, flags: u32) -> Result<u64> {
    Ok(server::call(op::GetSegment { key, bytes, flags })?.count)
}

pub fn shmat(p: &mut Process, id: u32, address: u64, flags: u32) -> Result<u64> {
    let mut at = address;
    if !at.is_multiple_of(PAGE) {
        if flags & SHM_RND == 0 {
            return Err(Errno::EINVAL);
        }
        at -= at % PAGE;
        if at == 0 && flags & SHM_REMAP != 0 {
            return Err(Errno::EINVAL);
        }
    }
    if at == 0 && flags & SHM_REMAP != 0 {
        return Err(Errno::EINVAL);
    }
    let (write, execute) = (flags & SHM_RDONLY == 0, flags & SHM_EXEC != 0);
    p.sys.attached.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let opened = server::call(op::AttachSegment { id, write, execute })?;
    let file = File::opened(opened, if write { O_RDWR } else { O_RDONLY });
    let fd = fd::install_shared(p, file, true)?;
    let bytes = p.fds.get(fd).and_then(size);
    let mut rights = PROT_READ;
    rights |= if write { PROT_WRITE } else { 0 };
    rights |= if execute { PROT_EXEC } else { 0 };
    let how = match (at, flags & SHM_REMAP != 0) {
        (0, _) => 0,
        (_, true) => MAP_FIXED,
        (_, false) => MAP_FIXED_NOREPLACE,
    };
    let mapped = bytes.and_then(|bytes| {
        let start = calls::mmap(p, at, bytes, rights, MAP_SHARED | how, fd, 0);
        Ok((
            start.map_err(|error| if error == Errno::EEXIST { Errno::EINVAL } else { error })?,
            bytes,
        ))
    });
    // The mapping has the file.
    let _ = fd::close(&mut p.fds, fd);
    let (address, bytes) = mapped?;
    p.sys.attached.0.push(At { address, bytes, id });
    Ok(address)
}

fn size(file: &File) -> Result<u64> {
    size_of(file.description(Errno::EINVAL)?)
}

/// Bytes of the file of a description.
pub fn size_of(desc: u32) -> Result<u64> {
    server::call(op::Stat { dir: desc, flags: unixproto::files::AT_EMPTY_PATH })?;
    let stat: [u8; unixproto::files::STAT_BYTES] =
        server::data(unixproto::files::STAT_BYTES).load().map_err(|_| Errno::EIO)?;
    Ok(unixproto::files::Stat::from_bytes(&stat).size as u64)
}

pub fn shmdt(p: &mut Process, address: u64) -> Result<u64> {
    let attached = &mut p.sys.attached.0;
    let known = attached.iter().position(|at| at.address == address).ok_or(Errno::EINVAL)?;
    let At { bytes, id, .. } = attached.swap_remove(known);
    calls::munmap(p, address, bytes)?;
    // It may be gone with this.
    let _ = server::call(op::DetachSegment { id });
    Ok(0)
}

pub fn shmctl(mm: &mut Mm, id: u32, command: u32, at: u64) -> Result<u64> {
    let mut given = Vec::new();
    if command == IPC_SET {
        given.resize(SHMID_BYTES, 0);
        user::bytes_in(mm, at, &mut given)?;
    }
    let answer = server::call_a(op::ControlSegment { id, command }, &given)?.count;
    let bytes = match command {
        IPC_STAT | SHM_STAT | SHM_STAT_ANY => SHMID_BYTES,
        IPC_INFO | SHM_INFO => 40,
        _ => return Ok(answer),
    };
    let told = server::taken(bytes)?;
    if command == IPC_INFO {
        // struct shminfo64 has four words more.
        user::bytes_out(mm, at + 40, &[0; 32])?;
    }
    let told = match command {
        // struct shm_info has an int and padding first, and two words of swap behind.
        SHM_INFO => [&told[..], &[0; 8]].concat(),
        _ => told,
    };
    user::bytes_out(mm, at, &told)?;
    Ok(answer)
}
