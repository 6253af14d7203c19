//! System V semaphores, which `unixd` keeps.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::{self, op, restart_no_handler};
use alloc::vec::Vec;
use linuxabi::time::{from_timespec, TIME_BYTES};
use unixproto::files::FOREVER;
use unixproto::ipc::*;

/// Bytes of `struct seminfo`.
const INFO_BYTES: usize = 40;

pub fn semget(_: (), key: i32, count: u32, flags: u32) -> Result<u64> {
    if (count as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    Ok(server::call(op::GetSemaphores { key, count, flags })?.count)
}

pub fn semop(task: &mut Task, id: u32, operations: u64, count: u64) -> Result<u64> {
    semtimedop(task, id, operations, count, 0)
}

pub fn semtimedop(
    task: &mut Task,
    id: u32,
    operations: u64,
    count: u64,
    timeout: u64,
) -> Result<u64> {
    let mut ns = FOREVER;
    if timeout != 0 {
        let time: [u8; TIME_BYTES] = user::copy_in(&mut task.mm, timeout)?;
        ns = from_timespec(&time)?;
    }
    if count == 0 || id as i32 as i64 != i64::from(id) {
        return Err(Errno::EINVAL);
    }
    if count > OPERATIONS_MOST as u64 {
        return Err(Errno::E2BIG);
    }
    let mut bytes = alloc::vec![0; count as usize * SEMBUF_BYTES];
    user::bytes_in(&mut task.mm, operations, &mut bytes)?;
    let a = server::put_a(&bytes);
    server::wait_filled(task, op::SemaphoreOps { id, ns }, a).map_err(restart_no_handler)?;
    Ok(0)
}

/// How many semaphores a set has.
fn count_of(id: u32) -> Result<usize> {
    let (number, value) = (0, 0);
    server::call(op::ControlSemaphores { id, number, command: IPC_STAT, value })?;
    let told = server::taken(SEMID_BYTES)?;
    let count = told.get(80..88).and_then(|bytes| bytes.first_chunk());
    Ok(count.map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize)
}

pub fn semctl(mm: &mut Mm, id: u32, number: u32, command: u32, argument: u64) -> Result<u64> {
    let mut given = Vec::new();
    match command {
        IPC_SET => given.resize(SEMID_BYTES, 0),
        SETALL => given.resize(2 * count_of(id)?, 0),
        _ => {}
    }
    if !given.is_empty() {
        user::bytes_in(mm, argument, &mut given)?;
    }
    let value = argument as i32;
    let request = op::ControlSemaphores { id, number, command, value };
    let answer = server::call_a(request, &given)?.count;
    let bytes = match command {
        IPC_STAT | SEM_STAT | SEM_STAT_ANY => SEMID_BYTES,
        IPC_INFO | SEM_INFO => INFO_BYTES,
        GETALL => 2 * answer as usize,
        _ => return Ok(answer),
    };
    user::bytes_out(mm, argument, &server::taken(bytes)?)?;
    Ok(if command == GETALL { 0 } else { answer })
}
