//! System V messages, which `unixd` keeps.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::process::Task;
use crate::server::{self, op, restart_no_handler};
use alloc::vec::Vec;
use unixproto::ipc::*;

/// Bytes of a message's kind, which is in front of it.
const KIND_BYTES: usize = 8;

pub fn msgget(_: (), key: i32, flags: u32) -> Result<u64> {
    Ok(server::call(op::GetQueue { key, flags })?.count)
}

pub fn msgsnd(task: &mut Task, id: u32, message: u64, bytes: u64, flags: u32) -> Result<u64> {
    let kind = i64::from_le_bytes(user::copy_in(&mut task.mm, message)?);
    if bytes > MESSAGE_MOST as u64 || (id as i32) < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let mut text = alloc::vec![0; bytes as usize];
    user::bytes_in(&mut task.mm, message + KIND_BYTES as u64, &mut text)?;
    let a = server::put_a(&text);
    server::wait_filled(task, op::SendMessage { id, kind, flags }, a)
        .map_err(restart_no_handler)?;
    Ok(0)
}

pub fn msgrcv(
    task: &mut Task,
    id: u32,
    message: u64,
    bytes: u64,
    kind: i64,
    flags: u32,
) -> Result<u64> {
    if (id as i32) < 0 || (bytes as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    let request =
        op::ReceiveMessage { id, bytes: bytes.min(MESSAGE_MOST as u64) as u32, kind, flags };
    let count = server::wait(task, request).map_err(restart_no_handler)?.count;
    let told = server::taken(KIND_BYTES + count as usize)?;
    user::bytes_out(&mut task.mm, message, &told)?;
    Ok(count)
}

pub fn msgctl(mm: &mut Mm, id: u32, command: u32, argument: u64) -> Result<u64> {
    if (id as i32) < 0 || (command as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let mut given = Vec::new();
    if command == IPC_SET {
        given.resize(MSQID_BYTES, 0);
        user::bytes_in(mm, argument, &mut given)?;
    }
    let answer = server::call_a(op::ControlQueue { id, command }, &given)?.count;
    let bytes = match command {
        IPC_STAT | MSG_STAT | MSG_STAT_ANY => MSQID_BYTES,
        IPC_INFO | MSG_INFO => MSGINFO_BYTES,
        _ => return Ok(answer),
    };
    user::bytes_out(mm, argument, &server::taken(bytes)?)?;
    Ok(answer)
}
