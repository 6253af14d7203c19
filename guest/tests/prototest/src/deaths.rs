//! Whole domains that are killed at a random point of what they do with other cores, by whoever started
//! them, with their dispatchers, memory, page tables and the domains that they have started themselves.

use crate::board::Failure;
use crate::doomed;
use crate::holdings::Holdings;
use alloc::vec::Vec;
use core::time::Duration;
use libos::cores::{Part, CRASHED, KILLED};
use libos::{log, thread};

/// Domains that this part has at a time; while the memory that all need at most is found out, more.
const AT_A_TIME: usize = 3;
/// Generations that follow each.
const DEPTH: u64 = 2;
/// One lives for at most so many microseconds behind the start of the next.
const LIFE: u64 = 8000;

/// So many domains, on any cores. How many were killed, and how many crashed.
pub fn cause(holdings: &mut Holdings, count: u64) -> Result<[u64; 2], Failure> {
    let mut living: Vec<Part> = Vec::new();
    let mut ended = [0, 0];
    for _ in 0..count {
        let (core, seed) = (holdings.any_core(), holdings.below(u64::MAX));
        living.push(doomed::start(core, seed, DEPTH)?);
        if living.len() >= AT_A_TIME {
            let victim = holdings.below(living.len() as u64) as usize;
            end(living.swap_remove(victim), &mut ended)?;
        }
        match holdings.below(3) {
            0 => {}
            _ => thread::sleep(Duration::from_micros(holdings.below(LIFE))),
        }
    }
    living.into_iter().try_for_each(|part| end(part, &mut ended))?;
    Ok(ended)
}

/// It may have ended before. What it says of itself must not be that something was missing.
fn end(part: Part, [killed, crashed]: &mut [u64; 2]) -> Result<(), Failure> {
    match part.kill()? {
        0 => {}
        KILLED => *killed += 1,
        CRASHED => *crashed += 1,
        status => {
            log!("a domain has ended with {status}");
            return Err(Failure::here(None));
        }
    }
    Ok(())
}
