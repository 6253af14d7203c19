//! Which core is to be the home of a program that begins.
//!
//! A core's load is how many threads run or could whose home it is, wherever they run: what they ask of the kernel about their memory is done
//! there, one after the other. To begin elsewhere costs more than to begin where one is, so a program only goes to a core that has less to do,
//! and only if it is not known to be a short one: how long programs ran is noted when they end ([`Lengths`]).
#![no_std]

mod lengths;

pub use lengths::Lengths;

/// Cores that there may be.
pub const CORES: usize = 64;
/// The core of the servers, which work for all: the last one to be chosen of those that have as much to do.
const SERVERS: u32 = 0;
/// How often all are counted, in nanoseconds for each process that there is: it takes a part of the time that does not grow with them.
const COUNTED_EVERY_NS: u64 = 2000;
/// So few are counted each time.
const FEW: usize = 32;

/// What the cores have to do: counted now and then, and what was chosen since.
pub struct Loads {
    threads: [u32; CORES],
    counted: Option<u64>,
    /// Which choice was the last one of each core.
    chosen: [u64; CORES],
    choices: u64,
}

impl Default for Loads {
    fn default() -> Loads {
        Loads { threads: [0; CORES], counted: None, chosen: [0; CORES], choices: 0 }
    }
}

impl Loads {
    /// Are they to be counted, with so many processes at this time?
    pub fn are_old(&self, processes: usize, now_ns: u64) -> bool {
        let after = COUNTED_EVERY_NS.saturating_mul(processes as u64);
        processes <= FEW
            || self.counted.is_none_or(|counted| now_ns.saturating_sub(counted) >= after)
    }

    /// Begins to count.
    pub fn begin(&mut self, now_ns: u64) {
        (self.threads, self.counted) = ([0; CORES], Some(now_ns));
    }

    /// So many threads more have their home there.
    pub fn add(&mut self, core: u32, threads: u32) {
        if let Some(count) = self.threads.get_mut(core as usize) {
            *count = count.saturating_add(threads);
        }
    }

    /// How many have it there.
    pub fn of(&self, core: u32) -> u32 {
        self.threads.get(core as usize).copied().unwrap_or(0)
    }

    /// Chooses a home for who is at home on `home`, as the only thread of its process that is to be counted there, and may run on the cores of
    /// `allowed`; one of `usable` or its own, which it keeps unless another has less to do or it may not run there.
    pub fn choose(&mut self, home: u32, allowed: u64, usable: u64) -> u32 {
        let bit = |core: u32| 1u64.checked_shl(core).unwrap_or(0);
        let own = self.of(home).saturating_sub(1);
        let candidates = match allowed & (usable | bit(home)) {
            0 => bit(home),
            some => some,
        };
        let load = |core: u32| if core == home { own } else { self.of(core) };
        let cores = (0..CORES as u32).filter(|&core| candidates & bit(core) != 0);
        // Of several the one that was not chosen for longest: what has begun there may wait for what begins now.
        let last = |core: u32| self.chosen.get(core as usize).copied().unwrap_or(0);
        let chosen =
            cores.min_by_key(|&core| (load(core), core != home, core == SERVERS, last(core)));
        let chosen = chosen.unwrap_or(home);
        self.choices += 1;
        if let Some(last) = self.chosen.get_mut(chosen as usize) {
            *last = self.choices;
        }
        if chosen != home {
            if let Some(count) = self.threads.get_mut(home as usize) {
                *count = own;
            }
            self.add(chosen, 1);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    /// Counted by hand: threads by the home that they have.
    fn loads(threads: &[u32]) -> Loads {
        let mut loads = Loads::default();
        threads.iter().for_each(|&home| loads.add(home, 1));
        loads
    }

    #[test]
    fn who_is_alone_stays() {
        for home in [0, 3, 63] {
            assert_eq!(loads(&[home]).choose(home, u64::MAX, u64::MAX), home);
        }
    }

    #[test]
    fn four_that_begin_land_on_four_cores() {
        for home in 0..4 {
            let mut loads = loads(&[home; 4]);
            let mut chosen: Vec<u32> = (0..4).map(|_| loads.choose(home, u64::MAX, 0xf)).collect();
            assert_eq!(chosen[3], home);
            chosen.sort_unstable();
            assert_eq!(chosen, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn the_core_of_the_servers_comes_last() {
        assert_eq!(loads(&[1, 1]).choose(1, u64::MAX, 0b111), 2);
        assert_eq!(loads(&[1, 1, 2]).choose(1, u64::MAX, 0b111), 0);
        assert_eq!(loads(&[1, 1, 2, 0]).choose(1, u64::MAX, 0b111), 1);
    }

    #[test]
    fn all_idle_cores_have_their_turn() {
        let mut loads = Loads::default();
        let homes = (0..7).map(|time| {
            // What has begun waits by now.
            loads.begin(time);
            loads.add(0, 2);
            loads.choose(0, u64::MAX, 0b1111)
        });
        assert_eq!(homes.collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn who_may_run_nowhere_stays() {
        assert_eq!(loads(&[1, 1]).choose(1, 0, 0xf), 1);
        assert_eq!(loads(&[1, 1]).choose(1, 0xf0, 0xf), 1);
    }

    #[test]
    fn many_are_counted_seldom() {
        let mut loads = Loads::default();
        assert!(loads.are_old(100_000, 7));
        loads.begin(7);
        assert!(loads.are_old(FEW, 7) && !loads.are_old(FEW + 1, 7));
        assert!(!loads.are_old(100_000, 199_000_000) && loads.are_old(100_000, 200_000_007));
    }

    /// Naive: a list of threads, of which one goes on as another program.
    #[test]
    fn as_a_list_says() {
        let mut random = fastrand::Rng::with_seed(0x7e55);
        for _ in 0..2000 {
            let cores = random.u32(1..=64);
            let mut list: Vec<u32> =
                (0..random.usize(1..200)).map(|_| random.u32(..cores)).collect();
            let mut loads = loads(&list);
            for _ in 0..20 {
                let who = random.usize(..list.len());
                let (home, allowed) = (list[who], random.u64(..) & random.u64(..));
                let usable = (random.u64(..) | random.u64(..)) & (u64::MAX >> (64 - cores));
                let chosen = loads.choose(home, allowed, usable);
                let others: Vec<u32> = list
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| *n != who)
                    .map(|(_, own)| *own)
                    .collect();
                let load = |core: u32| others.iter().filter(|&&own| own == core).count();
                let may = |core: u32| {
                    allowed >> core & 1 != 0 && (usable >> core & 1 != 0 || core == home)
                };
                match (0..64).filter(|&core| may(core)).map(load).min() {
                    None => assert_eq!(chosen, home),
                    Some(least) => {
                        assert!(may(chosen) && load(chosen) == least);
                        assert!(chosen == home || !may(home) || load(home) > least);
                    }
                }
                list[who] = chosen;
                assert!((0..64).all(|core| {
                    loads.of(core) as usize == list.iter().filter(|&&own| own == core).count()
                }));
            }
        }
    }
}
