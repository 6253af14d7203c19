//! What a part on another core does with an object that it was sent.

use super::lab::{Board, Shown, Tables, PASSES, WRONG};
use core::sync::atomic::Ordering::SeqCst;
use libos::cores;
use libos::interface::OwnedCap;
use libos::morsel::MorselCap;
use libos::vspace::{R, RW};
use libos::{domain, Cap, Rights, Status, PAGE};

/// Maps it as an object of order N by entry 1, writable if M is not 0. Answers a status word.
pub const MAP: u64 = 1;
/// Writes M to the first word of page N, and reads it.
pub const STORE: u64 = 2;
pub const LOAD: u64 = 3;
/// Makes M pages from N on.
pub const POPULATE: u64 = 4;
/// Tries what only the core of the pool may do, and what nobody may. Answers how many of it went as it should not.
pub const TRY: u64 = 5;
/// Works on pages until the next command, as number N; see [`work`].
pub const WORK: u64 = 6;
/// Makes a part of 2 MiB from page N on, gives it to core M under key K and keeps it.
pub const GIVE_PART: u64 = 7;
/// Revokes that part.
pub const REVOKE_PART: u64 = 8;
/// Is there still a capability?
pub const IDENTIFY: u64 = 9;
/// Copies the first 8 bytes of page N to page M by the kernel. Answers a status word.
pub const COPY: u64 = 10;
/// Deletes the capability; what it shows goes with it.
pub const DELETE: u64 = 11;
pub const LEAVE: u64 = 12;

/// Pages on which number `n` works: two of its own.
pub const fn own_pages(n: u64) -> [u64; 2] {
    [8 + 2 * n, 256 + 2 * n]
}

/// The page in which all write, each a word of its own, and which is taken away again and again.
pub const SHARED_PAGE: u64 = 3;

struct State {
    object: OwnedCap,
    tables: Tables,
    shown: Option<Shown>,
    part: Option<OwnedCap>,
}

/// Gets board and object under two keys, and obeys.
pub fn run(key: u64) -> u64 {
    match begin(key) {
        Ok((board, state)) => obey(&board, state),
        Err(status) => 2000 + status.to_word(),
    }
}

fn begin(key: u64) -> Result<(Board, State), Status> {
    let board = Board::of(cores::receive(key)?)?;
    let object = cores::receive(key + 1)?;
    Ok((board, State { object, tables: Tables::new()?, shown: None, part: None }))
}

fn word(result: Result<(), Status>) -> u64 {
    result.map_or_else(Status::to_word, |()| 0)
}

fn obey(board: &Board, mut state: State) -> u64 {
    let mut last = 0;
    loop {
        let (number, command, [n, m, k]) = board.next(last);
        last = number;
        let shown = state.shown.as_ref();
        let answer = match command {
            MAP => {
                state.shown = None;
                let flags = if m != 0 { RW } else { R };
                let made = state.tables.show(state.object.cap(), n as u32, 1, flags);
                word(made.map(|made| state.shown = Some(made)))
            }
            STORE => shown.map_or(1, |shown| {
                shown.word(n * PAGE).store(m, SeqCst);
                0
            }),
            LOAD => shown.map_or(u64::MAX, |shown| shown.word(n * PAGE).load(SeqCst)),
            POPULATE => word(state.object.cap().populate(n, m, false)),
            TRY => try_all(&state),
            WORK => {
                board.done(number, 0);
                if let Some(shown) = shown {
                    work(board, shown, n, number);
                }
                continue;
            }
            GIVE_PART => word(give_part(&mut state, n, m, k)),
            REVOKE_PART => {
                word(state.part.as_ref().ok_or(Status::Empty).and_then(|part| part.cap().revoke()))
            }
            IDENTIFY => word(state.object.cap().identify().map(drop)),
            COPY => shown.map_or(1, |shown| {
                let object = state.object.cap();
                let (from, to) = (shown.va + n * PAGE, shown.va + m * PAGE + 8);
                let written = object.write_morsel(m * PAGE, from, 8);
                let read = written.and_then(|_| object.read_morsel(m * PAGE, to, 8));
                word(read.map(drop))
            }),
            DELETE => word(state.object.cap().delete()),
            _ => {
                board.done(number, 0);
                return 0;
            }
        };
        board.done(number, answer);
    }
}

fn give_part(state: &mut State, first: u64, core: u64, key: u64) -> Result<(), Status> {
    let slot = domain::with(|domain| domain.slot())?;
    state.object.cap().part(first, 1, slot)?;
    state.part = Some(OwnedCap::own(slot));
    cores::send(core as u32, key, OwnedCap::copy_of(slot)?)
}

/// Adds one to the first word of one own page, then of the other, and writes the same to a word of the page that all
/// share, until it is told something else. What it finds there is what it wrote last, or nothing if the page was taken away.
fn work(board: &Board, shown: &Shown, me: u64, number: u64) {
    let [first, second] = own_pages(me).map(|page| shown.word(page * PAGE));
    let shared = shown.word(SHARED_PAGE * PAGE + 8 * (1 + me));
    let mut count = first.load(SeqCst);
    while !board.is_told(number) {
        let found = shared.load(SeqCst);
        let right = first.load(SeqCst) == count && (found == 0 || found == count);
        if !right {
            board.word(WRONG).fetch_add(1, SeqCst);
        }
        count += 1;
        first.store(count, SeqCst);
        second.store(count, SeqCst);
        shared.store(count, SeqCst);
        board.word(PASSES).fetch_add(1, SeqCst);
    }
}

/// Forged arguments, and what only the core of the pool may do.
fn try_all(state: &State) -> u64 {
    let (object, tables) = (state.object.cap(), &state.tables);
    let Ok([a, b]) = domain::with(|domain| Ok([domain.slot()?, domain.slot()?])) else { return 99 };
    let order = object.morsel_info().map_or(9, |facts| facts.order);
    let is = |result: Result<(), Status>, expected: &[Status]| {
        let right = result.is_err_and(|status| expected.contains(&status));
        u64::from(!right)
    };
    let here = &[Status::Unsupported, Status::NoRights, Status::OutOfRange];
    let range = &[Status::OutOfRange];
    let level = &[Status::WrongLevel];
    let map = |order, n, flags| tables.show(object, order, n, flags).map(drop);
    let mint =
        |rights| object.mint(a, rights).and_then(|()| tables.show(a, order, 2, RW).map(drop));
    let mut wrong = [
        is(object.discard_pages(0, 1), &[Status::Unsupported]),
        is(object.grow(), here),
        is(object.set_limit(PAGE), here),
        is(object.snapshot(a).map(drop), here),
        is(object.commit(), here),
        is(object.release_commit(), here),
        is(object.destroy(), here),
        // Single pages; another level; entries that are in use, or that there are not.
        is(map(0, 5, R), &[Status::Unsupported]),
        is(map(3 - order, 5, R), level),
        is(map(order, 512, R), range),
        is(map(order, u32::MAX, R), range),
        is(object.populate(0, u64::MAX, false), range),
        is(object.populate(1 << 40, 1, false), range),
        is(object.part(1, 1, a), range),
        is(object.part(0, 5, a), range),
        is(object.part(1 << 36, 1, a), range),
        is(object.part(!511, 1, a), range),
        is(mint(Rights::READ), &[Status::NoRights]),
        is(object.write_morsel(0, u64::MAX, 8).and_then(short), &[Status::Empty]),
        is(object.read_morsel(0, 0, 8).and_then(short), &[Status::Empty]),
    ]
    .iter()
    .sum();
    for slot in [a, b] {
        wrong += u64::from(!matches!(slot.delete(), Ok(()) | Err(Status::Empty)));
        let _ = domain::free_slot(slot);
    }
    wrong
}

fn short(copied: libos::captypes::invocations::Copied) -> Result<(), Status> {
    if copied.bytes == 0 && copied.short != 0 {
        Err(Status::Empty)
    } else {
        Ok(())
    }
}

/// A domain on the core of the pool that makes it and gives an object to the board's core: until it is killed.
pub fn hold(key: u64) -> u64 {
    let work = || -> Result<u64, Status> {
        let board = Board::of(cores::receive(key)?)?;
        let pool = super::lab::OwnPool::new()?;
        let object = super::lab::create(&pool.cap, 2)?;
        let (mut number, mut last) = (0, 0);
        loop {
            if board.is_told(last) {
                let (next, core, [key, ..]) = board.next(last);
                (last, number) = (next, number + 1);
                cores::send(core as u32, key, OwnedCap::copy_of(object.cap())?)?;
                board.done(next, number);
            }
            object.cap().discard_pages(SHARED_PAGE, 1)?;
        }
    };
    work().unwrap_or_else(|status| 2000 + status.to_word())
}
