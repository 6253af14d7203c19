//! (POSIX) capabilities, and what `prctl` has about privileges. `unixd` keeps them; that is
//! different from Linux in that all threads of a process have the same.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use crate::server::{self, header, op};
use core::sync::atomic::Ordering;
use unixproto::privilege;

const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;
/// Bytes of effective, permitted and inheritable, 32 bits of each.
const PART_BYTES: u64 = 12;

/// How many parts of 32 bits the program's structures have, and which process they are about. `None`:
/// another version, in whose place it is told ours.
fn head(mm: &mut Mm, addr: u64) -> Result<Option<(u64, i32)>> {
    let [version, pid]: [u32; 2] = user::copy_in(mm, addr)?;
    let parts = match version {
        VERSION_1 => 1,
        VERSION_2 | VERSION_3 => 2,
        _ => {
            user::copy_out(mm, addr, &VERSION_3)?;
            return Ok(None);
        }
    };
    Ok(Some((parts, pid as i32)))
}

pub fn capget(mm: &mut Mm, addr: u64, data: u64) -> Result<u64> {
    let Some((parts, pid)) = head(mm, addr)? else {
        return if data == 0 { Ok(0) } else { Err(Errno::EINVAL) };
    };
    let pid = u32::try_from(pid).map_err(|_| Errno::EINVAL)?;
    let caps = server::call(op::GetCaps { pid })?;
    if data == 0 {
        return Ok(0);
    }
    for part in 0..parts {
        let words = [caps.effective, caps.permitted, caps.inheritable];
        let words = words.map(|word| (word >> (32 * part)) as u32);
        user::copy_out(mm, data + PART_BYTES * part, &words)?;
    }
    Ok(0)
}

pub fn capset(mm: &mut Mm, addr: u64, data: u64) -> Result<u64> {
    let Some((parts, pid)) = head(mm, addr)? else { return Err(Errno::EINVAL) };
    if pid != 0 && pid != header().tid.load(Ordering::Relaxed) as i32 {
        return Err(Errno::EPERM);
    }
    let mut sets = [0; 3];
    for part in 0..parts {
        let words: [u32; 3] = user::copy_in(mm, data.wrapping_add(PART_BYTES * part))?;
        for (set, word) in sets.iter_mut().zip(words) {
            *set |= (word as u64) << (32 * part);
        }
    }
    let [effective, permitted, inheritable] = sets;
    server::call(op::SetCaps { effective, permitted, inheritable }).map(|()| 0)
}

/// The options of `prctl` that are about privileges. The other arguments of an option must be 0 where
/// Linux wants that.
pub fn prctl(option: u32, args: [u64; 4]) -> Result<u64> {
    let [a, b, c, d] = args;
    let rest = match option {
        privilege::SET_NO_NEW_PRIVS => [b, c, d],
        privilege::GET_NO_NEW_PRIVS => [a | b, c, d],
        privilege::CAP_AMBIENT if a == privilege::AMBIENT_CLEAR_ALL as u64 => [b, c, d],
        privilege::CAP_AMBIENT => [0, c, d],
        _ => [0; 3],
    };
    // Asked without arguments, whatever lies in the registers.
    let bare = [privilege::GET_DUMPABLE, privilege::GET_KEEPCAPS, privilege::GET_SECUREBITS];
    let a = if bare.contains(&option) { 0 } else { a };
    let narrow = |word: u64| u32::try_from(word).map_err(|_| Errno::EINVAL);
    if rest != [0; 3] {
        return Err(Errno::EINVAL);
    }
    let (first, second) =
        (narrow(a)?, if option == privilege::CAP_AMBIENT { narrow(b)? } else { 0 });
    Ok(server::call(op::Privilege { option, first, second })?.count)
}

/// Ends the machine on Linux; here nobody may. What asks for nothing that there is is told so.
pub fn reboot(_: (), first: u32, second: u32) -> Result<u64> {
    const FIRST: u32 = 0xfee1_dead;
    const SECONDS: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
    let is_root = header().ids[1].load(Ordering::Relaxed) == 0;
    match is_root && (first != FIRST || !SECONDS.contains(&second)) {
        true => Err(Errno::EINVAL),
        false => Err(Errno::EPERM),
    }
}
