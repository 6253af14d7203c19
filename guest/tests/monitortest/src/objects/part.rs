//! What a part on another core does with an object that it was sent.

use super::lab::{Board, Shown, Tables, PASSES, WRONG};
use core::sync::atomic::Ordering::SeqCst;
use libos::cores;
use libos::interface::OwnedCap;
use libos::morsel::MorselCap;
use libos::vspace::{R, RW};
use libos::{domain, Cap, CapAddr, Rights, Status, PAGE};

/// Maps it as an object of order N by entry 1, writable if M is not 0. Answers a status word.
pub const MAP: u64 = 1;
/// Writes M to the first word of page N, and reads it.
pub const STORE: u64 = 2;
pub const LOAD: u64 = 3;
/// Makes M pages from N on.
pub const POPULATE: u64 = 4;
/// Tries what nobody may. Answers how many of it went as it should not.
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
/// Takes M pages from N on away. Answers a status word, as do those that follow.
pub const DISCARD: u64 = 13;
/// Makes it N bytes long.
pub const LIMIT: u64 = 14;
pub const GROW: u64 = 15;
/// Destroys the object.
pub const DESTROY: u64 = 16;
/// Shows page N alone, by an entry of its own.
pub const SINGLE: u64 = 17;
/// Is that still there? 1 for yes.
pub const HAS_SINGLE: u64 = 18;
/// N rounds of all that takes pages away, while M workers write; see [`take`]. Answers how much was wrong.
pub const TAKE: u64 = 19;
/// Shows single pages again and again, until the next command.
pub const SINGLES: u64 = 20;
/// Makes a snapshot and gives it to core N under key M.
pub const GIVE_SNAPSHOT: u64 = 21;

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
    single: Option<Shown>,
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
    let tables = Tables::new()?;
    Ok((board, State { object, tables, shown: None, part: None, single: None }))
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
            DISCARD => word(state.object.cap().discard_pages(n, m)),
            LIMIT => word(state.object.cap().set_limit(n)),
            GROW => word(state.object.cap().grow()),
            DESTROY => {
                (state.shown, state.single) = (None, None);
                word(state.object.cap().destroy())
            }
            SINGLE => {
                state.single = None;
                let made = state.tables.show_page(state.object.cap(), n, 9);
                word(made.map(|made| state.single = Some(made)))
            }
            HAS_SINGLE => state.single.as_ref().map_or(2, |single| single.is_there().into()),
            TAKE => take(&state, n, m).unwrap_or_else(|status| 1000 + status.to_word()),
            SINGLES => {
                board.done(number, 0);
                show_singles(board, &state, number);
                continue;
            }
            GIVE_SNAPSHOT => word(give_snapshot(&state, n, m)),
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

fn give_snapshot(state: &State, core: u64, key: u64) -> Result<(), Status> {
    let slot = domain::with(|domain| domain.slot())?;
    state.object.cap().snapshot(slot)?;
    // What it has is sent away: nothing of it stays here.
    cores::send(core as u32, key, OwnedCap::own(slot))
}

/// Rounds of discards, limits and snapshots, while workers `0..workers` write, and others do the same at once. Answers how many
/// snapshots were no cut.
fn take(state: &State, rounds: u64, workers: u64) -> Result<u64, Status> {
    take_from(state.object.cap(), &state.tables, rounds, workers)
}

pub fn take_from(
    object: CapAddr,
    tables: &Tables,
    rounds: u64,
    workers: u64,
) -> Result<u64, Status> {
    let mut wrong = 0;
    for round in 0..rounds {
        object.discard_pages(SHARED_PAGE, 1)?;
        // Behind all that the others use.
        object.set_limit((512 + round % 7) * PAGE)?;
        object.set_limit(1 << 30)?;
        if round % 4 == 0 {
            wrong += cut(object, tables, workers)?;
        }
    }
    Ok(wrong)
}

/// A snapshot has what was written to the second page only if it has what was written to the first before. Of how many workers it has
/// not.
pub fn cut(object: CapAddr, tables: &Tables, workers: u64) -> Result<u64, Status> {
    let [slot, half] = domain::with(|domain| Ok([domain.slot()?, domain.slot()?]))?;
    object.snapshot(slot)?;
    let taken = OwnedCap::own(slot);
    // Its first GiB, whatever its order is.
    taken.cap().part(0, 2, half)?;
    let first = OwnedCap::own(half);
    let shown = tables.show(first.cap(), 2, 3, R)?;
    let is_cut = |n: &u64| {
        let [first, second] = own_pages(*n).map(|page| shown.word(page * PAGE).load(SeqCst));
        second <= first && first <= second + 1
    };
    let wrong = (0..workers).filter(|n| !is_cut(n)).count() as u64;
    drop(shown);
    drop(first);
    taken.cap().destroy()?;
    Ok(wrong)
}

/// Shows single pages, some of which others take away, until it is told something else. Nothing is touched: it could be gone.
fn show_singles(board: &Board, state: &State, number: u64) {
    let mut page = 0;
    while !board.is_told(number) {
        page = (page + 1) % 8;
        match state.tables.show_page(state.object.cap(), page, 10 + page as u32) {
            Ok(shown) => drop(shown),
            Err(_) => drop(board.word(WRONG).fetch_add(1, SeqCst)),
        }
        board.word(PASSES).fetch_add(1, SeqCst);
    }
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

/// Forged arguments, and what takes more rights.
fn try_all(state: &State) -> u64 {
    let (object, tables) = (state.object.cap(), &state.tables);
    let Ok([a, b]) = domain::with(|domain| Ok([domain.slot()?, domain.slot()?])) else { return 99 };
    let order = object.morsel_info().map_or(9, |facts| facts.order);
    let is = |result: Result<(), Status>, expected: &[Status]| {
        let right = result.is_err_and(|status| expected.contains(&status));
        u64::from(!right)
    };
    let weak = |rights, work: &dyn Fn(CapAddr) -> Result<(), Status>| {
        let tried = object.mint(b, rights).and_then(|()| work(b));
        // What is left of it goes.
        b.delete().and(tried)
    };
    let (half, rights) = (Rights::READ.or(Rights::REVOKE), &[Status::NoRights]);
    let all_but = Rights::READ.or(Rights::WRITE);
    let on_part = |work: &dyn Fn(CapAddr) -> Result<(), Status>| {
        let tried = object.part(0, 1, b).and_then(|()| work(b));
        b.delete().and(tried)
    };
    let range = &[Status::OutOfRange];
    let level = &[Status::WrongLevel];
    let map = |order, n, flags| tables.show(object, order, n, flags).map(drop);
    let mint =
        |rights| object.mint(a, rights).and_then(|()| tables.show(a, order, 2, RW).map(drop));
    let mut wrong: u64 = [
        is(weak(half, &|it| it.discard_pages(0, 1)), rights),
        is(weak(all_but, &|it| it.grow()), rights),
        is(weak(all_but, &|it| it.set_limit(PAGE)), rights),
        is(weak(all_but, &|it| it.snapshot(a).map(drop)), rights),
        is(weak(all_but, &|it| it.release_commit()), rights),
        is(weak(all_but, &|it| it.destroy()), rights),
        is(on_part(&|it| it.discard_pages(511, 2)), range),
        is(on_part(&|it| it.set_limit(0)), range),
        is(on_part(&|it| it.snapshot(a).map(drop)), range),
        is(on_part(&|it| it.destroy()), range),
        is(object.discard_pages(1 << 40, 1), range),
        is(object.discard_pages(1, u64::MAX), range),
        // Others have it.
        is(object.destroy(), &[Status::HasDescendants]),
        // Another level; entries that are in use, or that there are not.
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
