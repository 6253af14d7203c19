//! Dispatchers that are deleted at a random point of what they do, which other cores take part in.

use crate::board::{Board, Failure};
use crate::holdings::Holdings;
use libos::interface::OwnedCap;
use libos::ram::Ram;
use libos::{domain, thread, worker, Cap, CapAddr, CapType, Rights, Status, PAGE};

/// Bytes of the memory that they operate on.
const BYTES: u64 = 8 * PAGE;
/// Slots of a victim: of the memory, and of what it makes of it.
const SLOTS: u32 = 4;
/// It lives for at most so many nanoseconds.
const LIFE: u64 = 400_000;

/// So many of them, one after the other. What each had is deleted, which must succeed: nothing may be
/// left that is locked.
pub fn kill(holdings: &mut Holdings, board: &Board, count: u64) -> Result<[u64; 2], Failure> {
    let first = domain::with(|domain| domain.slot_range(SLOTS))?;
    for _ in 0..count {
        domain::with(|domain| domain.arena.make(CapType::Ram, BYTES, 1, first.into()))?;
        for _ in 0..2 {
            holdings.give(board, OwnedCap::copy_of(first)?)?;
        }
        let (order, life) = (holdings.below(1 << 32), holdings.below(LIFE));
        let victim = worker::spawn(Some(holdings.core()), move || operate(first, order))?;
        let end = thread::now_ns() + life;
        while thread::now_ns() < end {
            core::hint::spin_loop();
        }
        victim.kill()?;
        for n in (0..SLOTS).rev() {
            match first.plus(n).delete() {
                Ok(()) | Err(Status::Empty) => {}
                Err(status) => return Err(status.into()),
            }
        }
        // Those that others have must not keep the operation of the dead waiting.
        while holdings.take_one(board)? {}
    }
    (0..SLOTS).try_for_each(|n| domain::free_slot(first.plus(n)))?;
    Ok([count, 0])
}

/// Operations without end, in an order of its own. Uses nothing of the library's state.
pub fn operate(first: CapAddr, mut order: u64) {
    loop {
        order =
            order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let to = first.plus(1 + (order >> 40) as u32 % (SLOTS - 1));
        // Whatever comes: the others do what they want with the same memory.
        let _ = match (order >> 32) % 5 {
            0 => first.retype(CapType::Frame, (order >> 50) % 8 * PAGE, PAGE, 1, to),
            1 => first.mint(to, Rights::READ.or(Rights::REVOKE)),
            2 => first.revoke(),
            3 => to.revoke(),
            _ => to.delete(),
        };
    }
}
