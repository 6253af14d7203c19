//! Objects of a pool in the hands of programs on several cores, which map them by one entry.
//!
//! | test | what must hold |
//! |---|---|
//! | `objects_shared` | all see each other's stores, with rights of their own; who has a part reaches nothing else; forged and half-righted requests are refused |
//! | `objects_while_written` | discards, limits, growth and snapshots of the core of the pool, while all others write |
//! | `objects_taken` | the same from another core; single pages go on all cores with what they show; who has the last capability destroys |
//! | `objects_taken_at_once` | two cores take pages away and make snapshots, while others write or show single pages |
//! | `objects_revoked` | everybody else faults and has no capability; the pool has all its pages |
//! | `objects_and_kills` | holders die in the middle: on other cores, and the one that has the pool |
//!
//! After each, the kernel of every core finds its invariants, and memory is as free as before.

mod lab;
mod part;

use crate::part::digits;
use crate::Test;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::time::Duration;
use lab::{create, Board, OwnPool, Tables, PASSES, WRONG};
use libos::abi::slots::MEMD;
use libos::cores::{self, Machine, Part, CRASHED, KILLED};
use libos::interface::OwnedCap;
use libos::morsel::MorselCap;
use libos::vspace::{R, RW};
use libos::{domain, memd, thread, Cap, Rights, Status, PAGE};
pub use part::{hold, run};
use part::{own_pages, SHARED_PAGE};
use testkit::{check, fails, good, Failure, Outcome};

pub const TESTS: &[Test] = &[
    ("objects_shared", |machine| twice(machine, shared)),
    ("objects_while_written", |machine| twice(machine, while_written)),
    ("objects_taken", |machine| twice(machine, taken)),
    ("objects_taken_at_once", |machine| twice(machine, taken_at_once)),
    ("objects_revoked", |machine| twice(machine, revoked)),
    ("objects_and_kills", |machine| twice(machine, kills)),
];

const NAME: &str = "monitortest";
/// Most parts: more would only be slower.
const MOST: u32 = 7;
/// The other half of an object of order 2 that a part is made of.
const PART_AT: u64 = 1024;

fn new_key() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0x0b_1ec7);
    LAST.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst)
}

/// Free memory, with what the runtime keeps.
fn weigh() -> Result<u64, Status> {
    domain::with(|domain| domain.arena.release())?;
    let kept = domain::with(|domain| Ok(domain.kept().bytes))?;
    Ok(memd::stats(MEMD)?.free + kept)
}

/// The second time all that the runtime and the servers keep is there: memory comes back to the page.
fn twice(machine: &Machine, test: fn(&Machine, &Tables) -> Outcome) -> Outcome {
    let tables = good!(tables());
    test(machine, tables)?;
    let before = good!(settled());
    test(machine, tables)?;
    let after = good!(settled());
    if before != after {
        libos::log!("free before {before}, and after {after}");
    }
    check!(before == after);
    check!(good!(cores::check()));
    Ok(())
}

/// Those of this program, for all tests.
fn tables() -> Result<&'static Tables, Status> {
    static TABLES: libos::local::Local<Option<&'static Tables>> = libos::local::Local::new(None);
    let made = TABLES.try_with(|known| match known {
        Some(tables) => Ok(*tables),
        None => {
            let tables: &'static Tables =
                alloc::boxed::Box::leak(alloc::boxed::Box::new(Tables::new()?));
            Ok(*known.insert(tables))
        }
    });
    made.unwrap_or(Err(Status::WrongState))
}

/// What is free when it changes no more: what was killed is still being deleted.
fn settled() -> Result<u64, Status> {
    let mut last = weigh()?;
    for _ in 0..200 {
        thread::sleep(Duration::from_micros(5000));
        let now = weigh()?;
        if now == last && cores::check()? {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}

/// A part on another core.
struct Other {
    part: Part,
    board: Board,
}

impl Other {
    /// With a copy of a capability.
    fn start(core: u32, object: OwnedCap) -> Result<Other, Status> {
        let (key, board) = (new_key(), Board::new()?);
        let part = cores::spawn_on(core, &[NAME, "object", digits(key, &mut [0; 20])])?;
        board.send(core, key)?;
        cores::send(core, key + 1, object)?;
        Ok(Other { part, board })
    }

    fn ask(&self, command: u64, n: u64, m: u64) -> Result<u64, Failure> {
        let answer = self.board.ask(command, [n, m, 0]);
        answer.ok_or(Failure { line: line!(), what: "a part answers", status: None })
    }

    fn leave(self) -> Outcome {
        check!(self.ask(part::LEAVE, 0, 0)? == 0);
        check!(good!(self.part.wait()) == 0);
        Ok(())
    }
}

fn others(machine: &Machine) -> impl Iterator<Item = u32> {
    1..machine.count.min(1 + MOST)
}

fn copy(object: &OwnedCap) -> Result<OwnedCap, Status> {
    OwnedCap::copy_of(object.cap())
}

fn with_rights(object: &OwnedCap, rights: Rights) -> Result<OwnedCap, Status> {
    let slot = domain::with(|domain| domain.slot())?;
    object.cap().mint(slot, rights)?;
    Ok(OwnedCap::own(slot))
}

/// The capability that is left of an object goes, and with it the object.
fn destroy(pool: &OwnPool, object: OwnedCap, before: u64) -> Outcome {
    good!(object.cap().revoke());
    good!(object.cap().destroy());
    check!(good!(pool.free()) == before);
    Ok(())
}

fn start_all(machine: &Machine, object: &OwnedCap) -> Result<Vec<Other>, Status> {
    others(machine).map(|core| Other::start(core, copy(object)?)).collect()
}

/// Everybody has all of it mapped by one entry, writable.
fn map_all(parts: &[Other]) -> Outcome {
    for part in parts {
        check!(part.ask(part::MAP, 2, 1)? == 0);
    }
    Ok(())
}

fn shared(machine: &Machine, tables: &Tables) -> Outcome {
    let pool = good!(OwnPool::new());
    let before = good!(pool.free());
    let object = good!(create(&pool.cap, 2));
    let own = good!(tables.show(object.cap(), 2, 1, RW));
    let parts = good!(start_all(machine, &object));
    map_all(&parts)?;
    // Each a page of its own, and a word each of the same page.
    for (n, part) in (0..).zip(&parts) {
        check!(part.ask(part::STORE, 100 + n, 1000 + n)? == 0);
        check!(part.ask(part::POPULATE, 600, 20)? == 0);
    }
    for (n, _) in (0..).zip(&parts) {
        check!(own.word((100 + n) * PAGE).load(SeqCst) == 1000 + n);
        for part in &parts {
            check!(part.ask(part::LOAD, 100 + n, 0)? == 1000 + n);
        }
    }
    own.word(77 * PAGE).store(5, SeqCst);
    for part in &parts {
        check!(part.ask(part::LOAD, 77, 0)? == 5);
        check!(part.ask(part::COPY, 77, 620)? == 0 && part.ask(part::LOAD, 620, 0)? == 5);
        check!(part.ask(part::TRY, 0, 0)? == 0);
    }
    // With fewer rights.
    let read = good!(with_rights(&object, Rights::READ));
    let reader = good!(Other::start(1, read));
    check!(reader.ask(part::MAP, 2, 1)? == u64::from(Status::NoRights as u8));
    check!(reader.ask(part::MAP, 2, 0)? == 0 && reader.ask(part::LOAD, 77, 0)? == 5);
    reader.board.tell(part::STORE, [77, 6, 0]);
    check!(good!(reader.part.wait()) == CRASHED);
    check!(own.word(77 * PAGE).load(SeqCst) == 5);
    // A part of it, made on another core, reaches 2 MiB, and is revoked alone.
    let core = machine.count - 1;
    let (key, board) = (new_key(), good!(Board::new()));
    let holder = good!(cores::spawn_on(core, &[NAME, "object", digits(key, &mut [0; 20])]));
    good!(board.send(core, key));
    let given = parts[0].board.ask(part::GIVE_PART, [PART_AT, core.into(), key + 1]);
    check!(given == Some(0));
    let holder = Other { part: holder, board };
    check!(holder.ask(part::MAP, 1, 1)? == 0);
    check!(holder.ask(part::STORE, 9, 31)? == 0);
    check!(own.word((PART_AT + 9) * PAGE).load(SeqCst) == 31);
    check!(holder.ask(part::MAP, 2, 1)? == u64::from(Status::WrongLevel as u8));
    check!(holder.ask(part::POPULATE, 512, 1)? == u64::from(Status::OutOfRange as u8));
    check!(holder.ask(part::MAP, 1, 1)? == 0 && holder.ask(part::LOAD, 9, 0)? == 31);
    check!(parts[0].ask(part::REVOKE_PART, 0, 0)? == 0);
    check!(holder.ask(part::IDENTIFY, 0, 0)? == u64::from(Status::Empty as u8));
    holder.board.tell(part::LOAD, [9, 0, 0]);
    check!(good!(holder.part.wait()) == CRASHED);
    check!(own.word((PART_AT + 9) * PAGE).load(SeqCst) == 31);
    for part in parts {
        part.leave()?;
    }
    // They are gone, and their capabilities: that is found out.
    drop(own);
    good!(destroy_soon(&object));
    check!(good!(pool.free()) == before);
    Ok(())
}

/// What those had who have ended may be on its way out still.
fn destroy_soon(object: &OwnedCap) -> Result<(), Status> {
    for _ in 0..200 {
        match object.cap().destroy() {
            Err(Status::HasDescendants) => thread::sleep(Duration::from_micros(5000)),
            done => return done,
        }
    }
    Err(Status::HasDescendants)
}

fn while_written(machine: &Machine, tables: &Tables) -> Outcome {
    let pool = good!(OwnPool::new());
    let before = good!(pool.free());
    let object = good!(create(&pool.cap, 2));
    let parts = good!(start_all(machine, &object));
    map_all(&parts)?;
    for (n, part) in (0..).zip(&parts) {
        check!(part.ask(part::WORK, n, 0)? == 0);
    }
    let passes = || parts.iter().map(|part| part.board.word(PASSES).load(SeqCst)).sum::<u64>();
    let cap = object.cap();
    for round in 0..40u64 {
        let at = passes();
        good!(cap.discard_pages(SHARED_PAGE, 1));
        // Behind all that the others use.
        good!(cap.set_limit((512 + round % 7) * PAGE));
        good!(cap.set_limit(1 << 30));
        if round % 4 == 0 {
            check!(good!(part::cut(cap, tables, parts.len() as u64)) == 0);
        }
        check!(parts[0].board.wait(|| passes() > at));
        if round == 20 {
            good!(cap.grow());
            good!(cap.set_limit(2 << 30));
        }
    }
    for part in parts {
        check!(part.ask(part::LOAD, 8, 0)? != 0);
        check!(part.board.word(WRONG).load(SeqCst) == 0);
        // It is an object of order 3 now; what was mapped stays.
        check!(part.ask(part::MAP, 2, 1)? == u64::from(Status::WrongLevel as u8));
        part.leave()?;
    }
    destroy(&pool, object, before)
}

/// All that takes pages away, from the first of the other cores.
fn taken(machine: &Machine, tables: &Tables) -> Outcome {
    let pool = good!(OwnPool::new());
    let before = good!(pool.free());
    let object = good!(create(&pool.cap, 2));
    let own = good!(tables.show(object.cap(), 2, 1, RW));
    let parts = good!(start_all(machine, &object));
    map_all(&parts)?;
    let by = &parts[0];
    own.word(5 * PAGE).store(1, SeqCst);
    own.word(6 * PAGE).store(2, SeqCst);
    // Everybody shows the page that goes, and one that stays, by entries of their own.
    let single = good!(tables.show_page(object.cap(), 5, 7));
    let stays = good!(tables.show_page(object.cap(), 6, 8));
    check!(single.word(0).load(SeqCst) == 1);
    for part in &parts {
        check!(part.ask(part::SINGLE, 5, 0)? == 0 && part.ask(part::HAS_SINGLE, 0, 0)? == 1);
    }
    check!(by.ask(part::DISCARD, 5, 1)? == 0);
    check!(!single.is_there() && stays.is_there() && stays.word(0).load(SeqCst) == 2);
    for part in &parts {
        check!(part.ask(part::HAS_SINGLE, 0, 0)? == 0);
        check!(part.ask(part::LOAD, 5, 0)? == 0 && part.ask(part::LOAD, 6, 0)? == 2);
    }
    drop((single, stays));
    // Its size: who looks behind it faults.
    let victim = good!(Other::start(machine.count - 1, good!(copy(&object))));
    check!(victim.ask(part::MAP, 2, 1)? == 0 && victim.ask(part::STORE, 700, 4)? == 0);
    check!(by.ask(part::LIMIT, 600 * PAGE, 0)? == 0);
    check!(good!(object.cap().morsel_info()).limit == 600 * PAGE);
    victim.board.tell(part::LOAD, [700, 0, 0]);
    check!(good!(victim.part.wait()) == CRASHED);
    check!(by.ask(part::GROW, 0, 0)? == 0);
    check!(good!(object.cap().morsel_info()).order == 3 && own.word(6 * PAGE).load(SeqCst) == 2);
    // A snapshot is there for whom it is given, and for who has the pool.
    let key = new_key();
    check!(by.board.ask(part::GIVE_SNAPSHOT, [0, key, 0]) == Some(0));
    let snapshot = good!(cores::receive(key));
    let half = good!(domain::with(|domain| domain.slot()));
    good!(snapshot.cap().part(0, 2, half));
    let half = OwnedCap::own(half);
    own.word(6 * PAGE).store(9, SeqCst);
    let shown = good!(tables.show(half.cap(), 2, 3, R));
    check!(shown.word(6 * PAGE).load(SeqCst) == 2);
    fails!(HasDescendants, snapshot.cap().destroy());
    drop((shown, half));
    good!(snapshot.cap().destroy());
    // The object goes when nobody else has anything of it: whoever destroys it.
    check!(by.ask(part::DESTROY, 0, 0)? == u64::from(Status::HasDescendants as u8));
    drop((own, object));
    let others = u64::from(Status::HasDescendants as u8);
    for (n, part) in parts.into_iter().enumerate().rev() {
        let mut answer = part.ask(part::DESTROY, 0, 0)?;
        if n == 0 {
            // What those had who have ended may be on its way out still.
            for _ in 0..200 {
                if answer != others {
                    break;
                }
                thread::sleep(Duration::from_micros(5000));
                answer = part.ask(part::DESTROY, 0, 0)?;
            }
        }
        check!(answer == if n > 0 { others } else { 0 });
        part.leave()?;
    }
    check!(good!(pool.free()) == before);
    Ok(())
}

/// Two cores take pages away and make snapshots at once, while all others write, or show single pages.
fn taken_at_once(machine: &Machine, tables: &Tables) -> Outcome {
    let pool = good!(OwnPool::new());
    let before = good!(pool.free());
    let object = good!(create(&pool.cap, 2));
    let mut parts = good!(start_all(machine, &object));
    parts.push(good!(Other::start(0, good!(copy(&object)))));
    map_all(&parts)?;
    let (by, rest) =
        parts.split_first().ok_or(Failure { line: line!(), what: "parts", status: None })?;
    for (n, part) in (0..).zip(rest) {
        let shows = rest.len() > 1 && n == 0;
        check!(part.ask(if shows { part::SINGLES } else { part::WORK }, n, 0)? == 0);
    }
    let passes = |part: &Other| part.board.word(PASSES).load(SeqCst);
    let workers = rest.len() as u64;
    by.board.tell(part::TAKE, [40, workers, 0]);
    // This core does the same.
    check!(good!(part::take_from(object.cap(), tables, 40, workers)) == 0);
    check!(by.board.answer() == Some(0));
    for part in rest {
        check!(passes(part) > 5);
        check!(part.ask(part::IDENTIFY, 0, 0)? == 0);
        check!(part.board.word(WRONG).load(SeqCst) == 0);
    }
    for part in parts {
        part.leave()?;
    }
    // They have left nothing: that is found out.
    good!(destroy_soon(&object));
    check!(good!(pool.free()) == before);
    Ok(())
}

fn revoked(machine: &Machine, tables: &Tables) -> Outcome {
    let pool = good!(OwnPool::new());
    let before = good!(pool.free());
    let object = good!(create(&pool.cap, 2));
    let parts = good!(start_all(machine, &object));
    map_all(&parts)?;
    let own = good!(tables.show(object.cap(), 2, 1, RW));
    for (n, part) in (0..).zip(&parts) {
        check!(part.ask(part::STORE, own_pages(n)[0], 9)? == 0);
        check!(part.ask(part::WORK, n, 0)? == 0);
    }
    for part in &parts {
        check!(part.board.wait(|| part.board.word(PASSES).load(SeqCst) > 10));
    }
    good!(object.cap().revoke());
    check!(good!(object.cap().identify()).relations & 7 == 0);
    // All who worked on it have faulted.
    for part in parts {
        check!(good!(part.part.wait()) == CRASHED);
    }
    drop(own);
    good!(object.cap().destroy());
    check!(good!(pool.free()) == before);
    // Nor has anybody a capability who does not work on it; and a pool takes its objects away.
    let object = good!(create(&pool.cap, 2));
    let idle = good!(Other::start(1, good!(copy(&object))));
    check!(idle.ask(part::MAP, 2, 1)? == 0 && idle.ask(part::IDENTIFY, 0, 0)? == 0);
    drop(object);
    check!(idle.ask(part::STORE, 1, 4)? == 0);
    good!(pool.cap.cap().delete());
    check!(idle.ask(part::IDENTIFY, 0, 0)? == u64::from(Status::Empty as u8));
    idle.board.tell(part::LOAD, [1, 0, 0]);
    check!(good!(idle.part.wait()) == CRASHED);
    Ok(())
}

fn kills(machine: &Machine, _: &Tables) -> Outcome {
    // Of those who hold it on other cores.
    let pool = good!(OwnPool::new());
    let before = good!(pool.free());
    let object = good!(create(&pool.cap, 2));
    for round in 0..4u64 {
        let parts = good!(start_all(machine, &object));
        map_all(&parts)?;
        for (n, part) in (0..).zip(&parts) {
            check!(part.ask(part::WORK, n, 0)? == 0);
        }
        for part in parts {
            good!(object.cap().discard_pages(0, 600 * (round % 2)));
            check!(good!(part.part.kill()) == KILLED);
        }
    }
    destroy(&pool, object, before)?;
    drop(pool);
    // Of who holds the pool, while it works on an object that others have.
    let (key, board) = (new_key(), good!(Board::new()));
    let holder = good!(cores::spawn_on(0, &[NAME, "pool", digits(key, &mut [0; 20])]));
    good!(board.send(0, key));
    let mut parts = Vec::new();
    for core in others(machine) {
        let (key, own) = (new_key(), good!(Board::new()));
        let part = good!(cores::spawn_on(core, &[NAME, "object", digits(key, &mut [0; 20])]));
        good!(own.send(core, key));
        check!(board.ask(core.into(), [key + 1, 0, 0]).is_some());
        parts.push(Other { part, board: own });
    }
    map_all(&parts)?;
    for (n, part) in (0..).zip(&parts) {
        check!(part.ask(part::WORK, n, 0)? == 0);
    }
    for part in &parts {
        check!(part.board.wait(|| part.board.word(PASSES).load(SeqCst) > 10));
    }
    check!(good!(holder.kill()) == KILLED);
    for part in parts {
        check!(part.board.word(WRONG).load(SeqCst) == 0);
        check!(good!(part.part.wait()) == CRASHED);
    }
    Ok(())
}
