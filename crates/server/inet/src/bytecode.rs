//! Programs by which whoever asks about sockets says which it means (`INET_DIAG_REQ_BYTECODE`): comparisons of ports and addresses, each of which says how many bytes
//! further to go on if it holds, and how many if it does not.

use crate::diag::Seen;
use crate::socket::Family;
use alloc::collections::BTreeSet;
use core::net::IpAddr;
use unixproto::sockets::{AF_INET, AF_INET6, AF_UNSPEC};
use unixproto::Errno;

/// Bytes of an instruction, without what follows it: its code, where to go on if it holds, and (a half word) if not.
const STEP: usize = 4;
/// Instructions that a program may have. Linux knows no bound, and can be interrupted meanwhile.
const MOST: usize = 256;
/// Bytes of `struct inet_diag_hostcond`, before its address.
const HOST: usize = 8;

/// `INET_DIAG_BC_*`
mod code {
    pub const NOTHING: u8 = 0;
    pub const JUMP: u8 = 1;
    pub const SOURCE_LEAST: u8 = 2;
    pub const SOURCE_MOST: u8 = 3;
    pub const TARGET_LEAST: u8 = 4;
    pub const TARGET_MOST: u8 = 5;
    pub const CHOSEN: u8 = 6;
    pub const SOURCE_IS: u8 = 7;
    pub const TARGET_IS: u8 = 8;
    pub const DEVICE: u8 = 9;
    pub const MARK: u8 = 10;
    pub const SOURCE_PORT: u8 = 11;
    pub const TARGET_PORT: u8 = 12;
}

/// A program that may be run.
pub(crate) struct Program<'a>(&'a [u8]);

/// An instruction, with all that follows it.
struct Step<'a> {
    code: u8,
    yes: usize,
    no: usize,
    rest: &'a [u8],
}

impl<'a> Step<'a> {
    fn at(program: &'a [u8]) -> Option<Step<'a>> {
        let &[code, yes, low, high, ref rest @ ..] = program else { return None };
        Some(Step { code, yes: yes.into(), no: half(low, high), rest })
    }

    /// The port that it compares with.
    fn port(&self) -> u16 {
        self.rest.get(2..4).map_or(0, |port| half(port[0], port[1]) as u16)
    }

    fn word(&self) -> u32 {
        self.rest.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
    }

    /// Bytes that it has, with what it compares with. `None`: it is none, or does not fit.
    fn bytes(&self) -> Option<usize> {
        use code::*;
        let more = match self.code {
            NOTHING | JUMP | CHOSEN => 0,
            MARK => 2 * STEP,
            SOURCE_LEAST | SOURCE_MOST | TARGET_LEAST | TARGET_MOST | SOURCE_PORT | TARGET_PORT
            | DEVICE => STEP,
            SOURCE_IS | TARGET_IS => {
                let &[family, prefix, ..] = self.rest else { return None };
                let address = match family.into() {
                    AF_UNSPEC => 0,
                    AF_INET => 4,
                    AF_INET6 => 16,
                    _ => return None,
                };
                if usize::from(prefix) > 8 * address {
                    return None;
                }
                HOST + address
            }
            _ => return None,
        };
        (self.rest.len() >= more).then_some(STEP + more)
    }

    /// Is it right about a socket?
    fn holds(&self, seen: &Seen<'_>) -> bool {
        use code::*;
        let (from, to) = (seen.local.port(), seen.remote.port());
        match self.code {
            JUMP => false,
            SOURCE_LEAST => from >= self.port(),
            SOURCE_MOST => from <= self.port(),
            SOURCE_PORT => from == self.port(),
            TARGET_LEAST => to >= self.port(),
            TARGET_MOST => to <= self.port(),
            TARGET_PORT => to == self.port(),
            CHOSEN => !seen.socket.chose.1,
            SOURCE_IS => self.is_at(seen.local.ip(), from, seen.socket.family),
            TARGET_IS => self.is_at(seen.remote.ip(), to, seen.socket.family),
            // No socket here is bound to one, or has a mark.
            DEVICE | MARK => self.word() == 0,
            _ => true,
        }
    }

    fn is_at(&self, ip: IpAddr, port: u16, family: Family) -> bool {
        let &[own, prefix, _, _, a, b, c, d, ref address @ ..] = self.rest else { return false };
        let wanted = i32::from_ne_bytes([a, b, c, d]);
        if wanted != -1 && wanted != port.into() {
            return false;
        }
        let ip = match (u16::from(own), family) {
            (AF_UNSPEC, _) => ip,
            (AF_INET, Family::V4) | (AF_INET6, Family::V6) => ip,
            (AF_INET, Family::V6) if ip.to_canonical().is_ipv4() => ip.to_canonical(),
            _ => return false,
        };
        match ip {
            IpAddr::V4(ip) => begins_as(&ip.octets(), address, prefix.into()),
            IpAddr::V6(ip) => begins_as(&ip.octets(), address, prefix.into()),
        }
    }
}

/// Are the first bits the same?
fn begins_as(one: &[u8], other: &[u8], bits: usize) -> bool {
    let (bytes, rest) = (bits / 8, bits % 8);
    let same = |to: usize| one.get(..to).is_some_and(|own| other.get(..to) == Some(own));
    let last = |all: &[u8]| all.get(bytes).map_or(0, |byte| byte >> (8 - rest));
    same(bytes) && (rest == 0 || last(one) == last(other))
}

fn half(low: u8, high: u8) -> usize {
    u16::from_ne_bytes([low, high]).into()
}

impl<'a> Program<'a> {
    /// # Errors
    /// `EINVAL`: it is none, or goes on where there is no instruction. `EPERM`: it compares marks, and may not.
    pub fn check(code: &'a [u8], may_mark: bool) -> Result<Program<'a>, Errno> {
        // Where instructions begin, as far as those before hold.
        let (mut begins, mut at) = (BTreeSet::new(), 0);
        while at < code.len() && begins.len() <= MOST {
            begins.insert(at);
            let step = Step::at(&code[at..]).ok_or(Errno::EINVAL)?;
            if step.code == code::MARK && !may_mark {
                return Err(Errno::EPERM);
            }
            let bytes = step.bytes().ok_or(Errno::EINVAL)?;
            // One that goes on behind the end says no.
            let ends = |way: usize| {
                way >= bytes && way <= code.len() - at + STEP && way.is_multiple_of(STEP)
            };
            if !ends(step.yes) || step.code != code::NOTHING && !ends(step.no) {
                return Err(Errno::EINVAL);
            }
            at += step.yes;
        }
        if at != code.len() {
            return Err(Errno::EINVAL);
        }
        let leads = |at: &usize| {
            let step = Step::at(&code[*at..]);
            step.is_some_and(|step| {
                let to = at + step.no;
                step.code == code::NOTHING || to >= code.len() || begins.contains(&to)
            })
        };
        match begins.iter().all(leads) {
            true => Ok(Program(code)),
            false => Err(Errno::EINVAL),
        }
    }

    /// Does it mean a socket, and how many instructions has it taken to know that? It only goes forwards.
    pub fn takes(&self, seen: &Seen<'_>) -> (bool, usize) {
        let (mut at, mut count) = (0, 0);
        while let Some(step) = self.0.get(at..).and_then(Step::at) {
            at += if step.holds(seen) { step.yes } else { step.no };
            count += 1;
        }
        (at == self.0.len(), count)
    }
}
