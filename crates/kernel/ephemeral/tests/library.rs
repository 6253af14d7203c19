//! The cache of a domain against a naive twin: others take away what is shown, show fails, names end.

use ephemeral::{Look, Looks, NoLook, Places};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

const WINDOWS: usize = 6;
const STRIDE: usize = 1 << 20;

/// A name for good, a part of what it names, and whether it was asked for to be written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Piece {
    name: u64,
    part: u64,
    write: bool,
}

/// The page tables, as far as they are the library's.
#[derive(Default)]
struct Tables {
    shown: [Option<Piece>; WINDOWS],
    /// What windows hold beside the mapping: the capability.
    held: [Option<Piece>; WINDOWS],
    /// Names that are gone: to show them fails.
    gone: HashSet<u64>,
    shows: u64,
    changes: u64,
}

#[derive(Clone, Default)]
struct Domain(Rc<RefCell<Tables>>);

impl Places for Domain {
    type Piece = Piece;
    type Error = &'static str;

    /// Few numbers, so that chains are long.
    fn number(piece: &Piece) -> u64 {
        piece.name % 3
    }
    fn is_kept(piece: &Piece) -> bool {
        piece.name != 0
    }
    fn address(&self, window: usize) -> usize {
        (window + 1) * STRIDE
    }
    fn show(&mut self, window: usize, piece: &Piece) -> Result<(), &'static str> {
        let mut tables = self.0.borrow_mut();
        tables.shown[window] = None;
        tables.held[window] = Some(*piece);
        tables.shows += 1;
        if tables.gone.contains(&piece.name) {
            return Err("gone");
        }
        tables.shown[window] = Some(*piece);
        Ok(())
    }
    fn hide(&mut self, window: usize) {
        let mut tables = self.0.borrow_mut();
        tables.shown[window] = None;
        tables.changes += 1;
    }
    fn forget(&mut self, window: usize) {
        let mut tables = self.0.borrow_mut();
        (tables.shown[window], tables.held[window]) = (None, None);
    }
}

/// What a cache of so many windows should have: the least recently ended first.
struct Twin {
    windows: usize,
    /// What can be found, unused, the oldest first.
    idle: Vec<Piece>,
    /// What can be found and is used, and by how many.
    used: HashMap<Piece, usize>,
    /// Used, but not to be found any more.
    lost: usize,
}

impl Twin {
    fn is_found(&self, piece: &Piece) -> bool {
        self.idle.contains(piece) || self.used.contains_key(piece)
    }
    fn has_room(&self) -> bool {
        self.used.len() + self.lost < self.windows
    }
    fn start(&mut self, piece: Piece) {
        if let Some(at) = self.idle.iter().position(|idle| *idle == piece) {
            self.idle.remove(at);
        }
        *self.used.entry(piece).or_default() += 1;
        while self.idle.len() + self.used.len() + self.lost > self.windows {
            self.idle.remove(0);
        }
    }
    fn end(&mut self, piece: Piece) {
        let users = self.used.get_mut(&piece).unwrap();
        *users -= 1;
        if *users == 0 {
            self.used.remove(&piece);
            if piece.name != 0 {
                self.idle.push(piece);
            }
        }
    }
}

struct Given {
    look: Look<Piece>,
    /// It was forgotten meanwhile.
    is_lost: bool,
}

struct Test {
    looks: Looks<Domain, WINDOWS>,
    domain: Domain,
    twin: Twin,
    given: Vec<Given>,
    rng: fastrand::Rng,
    is_uncached: bool,
    asked: u64,
    hits: u64,
}

impl Test {
    fn new(windows: usize, is_uncached: bool, seed: u64) -> Test {
        let domain = Domain::default();
        let mut looks = Looks::new(domain.clone());
        looks.limit(windows);
        if is_uncached {
            looks.without_cache();
        }
        let windows = windows.clamp(1, WINDOWS);
        let twin = Twin { windows, idle: vec![], used: HashMap::new(), lost: 0 };
        let rng = fastrand::Rng::with_seed(seed);
        Test { looks, domain, twin, given: vec![], rng, is_uncached, asked: 0, hits: 0 }
    }

    fn piece(&mut self) -> Piece {
        Piece { name: self.rng.u64(..8), part: self.rng.u64(..2), write: self.rng.bool() }
    }

    fn is_shown(&self, look: &Look<Piece>) -> bool {
        let tables = self.domain.0.borrow();
        tables.shown[look.address() / STRIDE - 1] == Some(*look.piece())
    }

    fn look(&mut self) {
        let piece = self.piece();
        let shows = self.domain.0.borrow().shows;
        let was_found = self.twin.is_found(&piece);
        let was_used = self.twin.used.contains_key(&piece);
        let is_gone = self.domain.0.borrow().gone.contains(&piece.name);
        let got = match self.rng.bool() {
            true => self.looks.look(piece),
            false => match self.looks.find(Domain::number(&piece), |other| *other == piece) {
                Some(look) => Ok(look),
                None if was_found && !is_gone => panic!("{piece:?} is not found"),
                None => self.looks.look(piece),
            },
        };
        let shown = self.domain.0.borrow().shows - shows;
        match got {
            Ok(look) => {
                assert!(was_found || self.twin.has_room());
                assert_eq!(look.piece(), &piece);
                self.asked += 1;
                self.hits += u64::from(was_found);
                assert_eq!(shown, u64::from(!was_found || self.is_uncached && !was_used));
                // A hit of what was taken away by others shows nothing: whoever copies sees that.
                assert!(self.is_shown(&look) || is_gone, "{piece:?}");
                self.twin.start(piece);
                self.given.push(Given { look, is_lost: false });
            }
            Err(NoLook::Busy) => assert!(!was_found && !self.twin.has_room()),
            Err(NoLook::Refused(why)) => {
                assert!(why == "gone" && is_gone);
                if !was_found
                    && self.twin.idle.len() + self.twin.used.len() + self.twin.lost
                        == self.twin.windows
                {
                    // Its window was somebody's.
                    self.twin.idle.remove(0);
                }
                self.twin.idle.retain(|idle| *idle != piece);
            }
        }
    }

    fn end(&mut self) {
        if self.given.is_empty() {
            return;
        }
        let Given { look, is_lost } = self.given.swap_remove(self.rng.usize(..self.given.len()));
        let (piece, window) = (*look.piece(), look.address() / STRIDE - 1);
        let is_last = self.given.iter().all(|given| given.look.address() != look.address());
        self.looks.end(look);
        match is_lost {
            true => self.twin.lost -= usize::from(is_last),
            false => self.twin.end(piece),
        }
        let tables = self.domain.0.borrow();
        if is_last && (is_lost || piece.name == 0) {
            assert_eq!((tables.shown[window], tables.held[window]), (None, None), "{piece:?}");
        } else if is_last && self.is_uncached {
            assert_eq!((tables.shown[window], tables.held[window]), (None, Some(piece)));
        }
    }

    /// Others take something away, and may say so, or a copy finds out.
    fn revoke(&mut self) {
        let name = self.rng.u64(1..8);
        let mut tables = self.domain.0.borrow_mut();
        tables.gone.insert(name);
        for shown in &mut tables.shown {
            shown.take_if(|shown| shown.name == name);
        }
        drop(tables);
        if self.rng.bool() {
            self.forget(name);
            self.domain.0.borrow_mut().gone.remove(&name);
        }
    }

    fn forget(&mut self, name: u64) {
        self.looks.forget(|piece| piece.name == name);
        self.twin.idle.retain(|idle| idle.name != name);
        let gone: Vec<_> = self.twin.used.keys().copied().filter(|p| p.name == name).collect();
        for piece in gone {
            self.twin.used.remove(&piece);
            self.twin.lost += 1;
        }
        for given in self.given.iter_mut().filter(|given| given.look.piece().name == name) {
            given.is_lost = true;
        }
        let tables = self.domain.0.borrow();
        for (window, held) in tables.held.iter().enumerate().filter(|(_, held)| held.is_some()) {
            let is_used = self.given.iter().any(|g| g.look.address() / STRIDE - 1 == window);
            assert!(is_used || held.unwrap().name != name, "{held:?} stays");
        }
    }

    /// Every look shows what it is of, until others take that away.
    fn check(&self) {
        self.looks.check().unwrap();
        for given in self.given.iter() {
            let is_gone = self.domain.0.borrow().gone.contains(&given.look.piece().name);
            assert!(given.is_lost || is_gone || self.is_shown(&given.look), "E1: {:?}", given.look);
        }
        if self.is_uncached {
            let shown = self.domain.0.borrow().shown;
            for (window, _) in shown.iter().enumerate().filter(|(_, shown)| shown.is_some()) {
                assert!(self.given.iter().any(|g| g.look.address() / STRIDE - 1 == window));
            }
        }
        let counters = self.looks.counters();
        let hits = if self.is_uncached { 0 } else { self.hits };
        assert_eq!(counters.hits, hits);
        assert!(counters.hits + counters.misses >= self.asked);
    }

    fn run(&mut self) {
        for _ in 0..30_000 {
            match self.rng.u8(..16) {
                0..=6 => self.look(),
                7..=12 => self.end(),
                13 => self.revoke(),
                14 => {
                    let name = self.rng.u64(..8);
                    if name != 0 {
                        self.forget(name);
                        self.domain.0.borrow_mut().gone.remove(&name);
                    }
                }
                _ => self.check(),
            }
        }
    }
}

#[test]
fn random_looks() {
    for windows in [1, 2, 3, WINDOWS, 100] {
        Test::new(windows, false, windows as u64).run();
    }
}

#[test]
fn random_looks_without_a_cache() {
    for windows in [0, 2, WINDOWS] {
        Test::new(windows, true, windows as u64).run();
    }
}

/// A thousand pieces in turns through six windows: as many misses; then six of them: as many hits.
#[test]
fn more_pieces_than_windows() {
    let domain = Domain::default();
    let mut looks: Looks<_, WINDOWS> = Looks::new(domain.clone());
    let mut turn = |pieces: u64, rounds: u64| {
        for name in (0..rounds).flat_map(|_| 1..=pieces) {
            let look = looks.look(Piece { name, part: 0, write: false }).unwrap();
            looks.end(look);
        }
        looks.counters()
    };
    let all = turn(1000, 10);
    assert_eq!((all.hits, all.misses, all.local), (0, 10_000, 10_000 - WINDOWS as u64));
    let few = turn(WINDOWS as u64, 100);
    let misses = WINDOWS as u64;
    assert_eq!((few.hits, few.misses - all.misses), (100 * misses - misses, misses));
}
