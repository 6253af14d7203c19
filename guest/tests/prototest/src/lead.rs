//! Tells the parts what to do, and checks at rest points what all of them must find together.

use crate::board::{Board, Command, Failure, Seen};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use libos::captypes::invocations::Identity;
use libos::cores::{self, Part};
use libos::runtime::Boot;
use libos::{cmdline, domain, log, thread, Status};
use testkit::{check, good, Outcome, Runner};

/// Operations, dispatchers that are deleted, domains that are killed, and the seed, if nothing is said.
const OPERATIONS: u64 = 4000;
const KILLS: u64 = 100;
const DEATHS: u64 = 100;
/// Domains that each part starts before everything must be at rest.
const BATCH: u64 = 10;
const SEED: u64 = 1;
/// Operations of a core between two rest points.
const ROUND: u64 = 500;
/// At every so many-th rest point everything is deleted and the memory weighed.
const CLEARED: u64 = 4;
/// The longest that a command may take.
const LONGEST_NS: u64 = 240_000_000_000;
/// How often memory is weighed before it counts as lost: monitors delete what they have sent later.
const WEIGHINGS: u32 = 200;
/// How often monitors are asked what they remember before something counts as forgotten by nobody.
const PATIENCE: u32 = 5000;
/// The key of the board on a core, less the core.
const KEY: u64 = 0xb0a4d << 8;

/// The parts on all cores.
struct Team {
    board: Board,
    parts: Vec<Part>,
    /// Bytes that each core's memory server has when nothing is held.
    memory: Vec<u64>,
    /// What each core's monitor remembers then.
    books: Vec<[u64; 2]>,
}

/// Runs the tests.
pub fn run(boot: &Boot, runner: &mut Runner) {
    let option = |name, usual| cmdline::number(boot.cmdline(), name).unwrap_or(usual);
    let operations = option("ops", OPERATIONS);
    let (kills, seed) = (option("kills", KILLS), option("seed", SEED));
    let deaths = option("deaths", DEATHS);
    log!("prototest: seed={seed:#x} ops={operations} kills={kills} deaths={deaths}");
    let mut team = None;
    runner.run("begin", || {
        team = Some(good!(Team::start(cores::count(), seed)));
        Ok(())
    });
    let Some(mut team) = team else { return };
    runner.run("empty", || team.warm_up());
    runner.run("random", || team.random(operations));
    runner.run("killed", || team.killed(kills));
    runner.run("doomed", || team.doomed(deaths));
    runner.run("end", || team.end());
}

fn text(number: u64) -> alloc::string::String {
    format!("{number}")
}

impl Team {
    fn start(count: u32, seed: u64) -> Result<Team, Status> {
        let board = Board::new(count)?;
        let start = |core: u32| {
            let key = KEY + u64::from(core);
            let words = [text(key), text(core.into()), text(seed)];
            let part = cores::spawn_on(core, &["prototest", &words[0], &words[1], &words[2]])?;
            cores::send(core, key, board.copy()?)?;
            Ok(part)
        };
        let parts = (0..count).map(start).collect::<Result<_, _>>()?;
        Ok(Team { board, parts, memory: Vec::new(), books: Vec::new() })
    }

    fn cores(&self) -> u32 {
        self.board.cores()
    }

    /// All parts do it: their results, or the line of the first failure of a part in the log.
    fn all(&self, command: Command, argument: u64) -> Result<Vec<[u64; 2]>, Status> {
        self.board.tell(command, argument);
        let limit = thread::now_ns() + LONGEST_NS;
        while !self.board.all_done() {
            if thread::now_ns() > limit {
                log!("{command:?}: some part does not end it");
                return Err(Status::Interrupted);
            }
            thread::sleep(Duration::from_millis(1));
        }
        let result = |core| {
            self.board.result(core).map_err(|Failure { line, status }| {
                log!("core {core}: {command:?} failed at line {line}: {status:?}");
                status.unwrap_or(Status::Invalid)
            })
        };
        let results: Vec<_> = (0..self.cores()).map(result).collect();
        results.into_iter().collect()
    }

    /// What all cores have, with the leader's own, when all monitors are at rest.
    fn weigh(&self) -> Result<Vec<u64>, Status> {
        let mut tries = 0;
        loop {
            domain::with(|domain| domain.arena.release())?;
            let mut results = self.all(Command::Weigh, 0)?;
            results[0][0] += domain::with(|domain| Ok(domain.kept().bytes))?;
            if results.iter().all(|&[_, at_rest]| at_rest == 1) {
                return Ok(results.into_iter().map(|[bytes, _]| bytes).collect());
            }
            tries += 1;
            if tries > WEIGHINGS {
                log!("monitors do not come to rest: {results:?}");
                return Err(Status::WrongState);
            }
        }
    }

    /// Everything is deleted: all memory is there again.
    fn all_is_back(&self) -> Outcome {
        good!(self.all(Command::Clear, 0));
        for _ in 0..WEIGHINGS {
            if good!(self.weigh()) == self.memory {
                return Ok(());
            }
        }
        log!("memory is {:?}, was {:?}", self.weigh(), self.memory);
        check!(good!(self.weigh()) == self.memory);
        Ok(())
    }

    /// What every part makes once for good, and what there is without more.
    fn warm_up(&mut self) -> Outcome {
        good!(self.all(Command::Run, 50));
        good!(self.all(Command::Collect, 0));
        good!(self.all(Command::Kill, 1));
        good!(self.all(Command::Collect, 0));
        good!(self.all(Command::Clear, 0));
        good!(self.pings());
        self.books = good!(self.all(Command::Books, 0));
        // As many domains at a time as ever, for what servers keep of that.
        good!(self.all(Command::Doom, 3 * BATCH));
        good!(self.forgotten());
        // What monitors delete late is back when nothing changes any more.
        let mut same = 0;
        while same < 5 {
            let memory = good!(self.weigh());
            same = if memory == self.memory { same + 1 } else { 0 };
            self.memory = memory;
        }
        self.all_is_back()
    }

    fn pings(&self) -> Result<(), Status> {
        (1..self.cores()).try_for_each(|core| cores::ping(core, 1).map(|_| ()))
    }

    fn random(&self, operations: u64) -> Outcome {
        let rounds = operations.div_ceil(ROUND * u64::from(self.cores()));
        let (mut most, mut shared) = (0, 0);
        for round in 1..=rounds {
            good!(self.all(Command::Run, ROUND));
            let held = good!(self.rest());
            (most, shared) = (most.max(held.0), shared + held.1);
            if round % CLEARED == 0 || round == rounds {
                if let Err(failure) = self.all_is_back() {
                    log!("in round {round} of {rounds}");
                    return Err(failure);
                }
            }
        }
        log!(
            "prototest: {rounds} rest points, at most {most} held, {shared} held by several cores"
        );
        // Else nothing was tested.
        check!(shared > 0);
        Ok(())
    }

    fn killed(&self, kills: u64) -> Outcome {
        let each = kills.div_ceil(u64::from(self.cores()));
        for begun in (0..each).step_by(10) {
            good!(self.all(Command::Kill, 10.min(each - begun)));
            good!(self.rest());
            self.all_is_back()?;
        }
        Ok(())
    }

    fn doomed(&self, deaths: u64) -> Outcome {
        let each = deaths.div_ceil(u64::from(self.cores()));
        let (mut killed, mut crashed) = (0, 0);
        for begun in (0..each).step_by(BATCH as usize) {
            for ended in good!(self.all(Command::Doom, BATCH.min(each - begun))) {
                (killed, crashed) = (killed + ended[0], crashed + ended[1]);
            }
            good!(self.forgotten());
            good!(self.rest());
            if let Err(failure) = self.all_is_back() {
                log!("after {begun} of {each} deaths on each core");
                return Err(failure);
            }
        }
        log!("prototest: of {each} domains of each core {killed} were killed, {crashed} crashed");
        check!(2 * killed >= each);
        Ok(())
    }

    /// Monitors remember nothing of what has gone: it may take a while until all of it has.
    fn forgotten(&self) -> Result<(), Status> {
        let mut books = Vec::new();
        for _ in 0..PATIENCE {
            books = self.all(Command::Books, 0)?;
            if books == self.books {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        log!("monitors remember {books:x?}, and should {:x?}", self.books);
        Err(Status::WrongState)
    }

    /// All parts rest. What they hold must fit together: how much that is, and how much of it several
    /// cores have.
    fn rest(&self) -> Result<(usize, usize), Status> {
        self.all(Command::Collect, 0)?;
        self.weigh()?;
        self.all(Command::Inspect, 0)?;
        self.pings()?;
        let shown = |core| self.board.shown(core).map(move |seen| (core, seen));
        let mut held: Vec<(u32, Seen)> = (0..self.cores()).flat_map(shown).collect();
        held.sort_by_key(|(core, seen)| (seen.base, !seen.bytes, seen.ty as u8, *core));
        let several = owners(&held)?;
        nested(&held)?;
        Ok((held.len(), several))
    }

    fn end(&mut self) -> Outcome {
        good!(self.all(Command::Leave, 0));
        for part in self.parts.drain(..) {
            check!(good!(part.wait()) == 0);
        }
        Ok(())
    }
}

/// Each object has one owner, who knows of the copies on other cores. How many objects several cores have.
fn owners(held: &[(u32, Seen)]) -> Result<usize, Status> {
    let mut several = 0;
    for same in held.chunk_by(|(_, a), (_, b)| a.is_same(b)) {
        let owning = |(_, seen): &&(u32, Seen)| seen.relations & Identity::FOREIGN == 0;
        let owner = same.iter().find(owning).map(|(core, _)| *core);
        let rightly = |(core, seen): &(u32, Seen)| {
            (seen.relations & Identity::FOREIGN == 0) == (Some(*core) == owner)
        };
        let on_others = same.iter().any(|(core, _)| Some(*core) != owner);
        let known = |(core, seen): &(u32, Seen)| {
            Some(*core) != owner || seen.relations & Identity::REMOTE_COPIES != 0
        };
        several += usize::from(on_others);
        if owner.is_none() || !same.iter().all(rightly) || on_others && !same.iter().all(known) {
            log!("who owns it? {same:x?}");
            return Err(Status::Invalid);
        }
    }
    Ok(several)
}

/// Two capabilities to some byte are to the same object, or one was made of the other. In order of
/// addresses, the larger first.
fn nested(held: &[(u32, Seen)]) -> Result<(), Status> {
    for (n, (_, outer)) in held.iter().enumerate() {
        let end = outer.base + outer.bytes;
        for (_, inner) in held[n + 1..].iter().take_while(|(_, inner)| inner.base < end) {
            let inside = inner.base + inner.bytes <= end;
            let made_of = |of: &Seen, it: &Seen| it.is_same(of) || of.ty.can_retype_to(it.ty);
            let same_range = inner.bytes == outer.bytes && inner.base == outer.base;
            let related = made_of(outer, inner) || same_range && made_of(inner, outer);
            if !inside || !related {
                log!("both at once: {outer:x?} and {inner:x?}");
                return Err(Status::Invalid);
            }
        }
    }
    Ok(())
}
