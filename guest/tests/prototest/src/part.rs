//! The part on a core: does what the board says, until it is to leave.

use crate::board::{Board, Command, Failure};
use crate::holdings::Holdings;
use crate::{deaths, doomed, victims};
use alloc::vec::Vec;
use core::time::Duration;
use libos::abi::layout::NATIVE_ARGUMENTS;
use libos::abi::slots::MEMD;
use libos::{cores, domain, memd, thread};

/// Added to a status word: the exit status of a part that could not begin.
const NOT_BEGUN: u64 = 2000;

/// Runs it: its arguments are the key under which it gets the board, its core and the seed. Answers
/// the exit status.
pub fn run(bytes: usize) -> u64 {
    // SAFETY: `spawnd` has mapped so many bytes there, for good.
    let fields = unsafe { core::slice::from_raw_parts(NATIVE_ARGUMENTS as *const u8, bytes) };
    let fields = fields.split(|&byte| byte == 0).filter_map(|field| field.strip_prefix(b"a"));
    let number = |field: &[u8]| core::str::from_utf8(field).ok()?.parse::<u64>().ok();
    let fields: Vec<&[u8]> = fields.collect();
    let words: Vec<Option<u64>> = fields.iter().copied().map(number).collect();
    let (key, core, seed) = match words[..] {
        [_, Some(key), Some(core), Some(seed)] => (key, core, seed),
        [_, None, Some(seed), Some(depth)] if fields[1] == doomed::NAME.as_bytes() => {
            return doomed::run(seed, depth)
        }
        _ => return 1,
    };
    let begun = cores::receive(key).and_then(Board::of);
    let begun = begun.and_then(|board| Ok((board, Holdings::new(core as u32, seed)?)));
    match begun {
        Ok((board, holdings)) => obey(&board, holdings, core as u32),
        Err(status) => NOT_BEGUN + status.to_word(),
    }
}

fn obey(board: &Board, mut holdings: Holdings, core: u32) -> u64 {
    let mut last = 0;
    loop {
        let (number, command, argument) = board.wait(last);
        last = number;
        let result = match command {
            Command::Run => holdings.run(board, argument).map(|()| [0; 2]),
            Command::Collect => holdings.collect(board).map(|()| [0; 2]),
            Command::Inspect => holdings.inspect(board).map(|held| [held, 0]),
            Command::Clear => holdings.clear().map(|()| [0; 2]),
            Command::Weigh => weigh(),
            Command::Kill => victims::kill(&mut holdings, board, argument),
            Command::Doom => deaths::cause(&mut holdings, argument),
            Command::Books => books(),
            Command::Leave => {
                board.done(core, number, Ok([0; 2]));
                return 0;
            }
        };
        board.done(core, number, result);
    }
}

fn books() -> Result<[u64; 2], Failure> {
    let cores::Books { clients, tickets, mail, under_way, jobs } = cores::books()?;
    let pack = |counts: [u32; 3]| counts.iter().fold(0, |word, &n| word << 16 | u64::from(n));
    Ok([pack([0, clients, tickets]), pack([mail, under_way, jobs])])
}

/// Free memory with what the runtime keeps, and whether the monitor is at rest. The kernel's own check
/// must find nothing.
fn weigh() -> Result<[u64; 2], Failure> {
    domain::with(|domain| domain.arena.release())?;
    thread::sleep(Duration::from_micros(500));
    let at_rest = cores::check()?;
    let kept = domain::with(|domain| Ok(domain.kept().bytes))?;
    Ok([memd::stats(MEMD)?.free + kept, u64::from(at_rest)])
}
