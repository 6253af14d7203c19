//! The run queue beside what it is meant to be: lists by priority, and shares by weight.

use super::machine::*;
use crate::dispatch::queue::{self, RunQueue};
use crate::object::{Dcb, DcbRef, Schedule};
use captypes::{op, CapAddr, Place, Rights, Status};
use core::sync::atomic::Ordering::Relaxed;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

const HZ: u64 = 1_000_000_000;
/// The usual slice.
const SLICE: u64 = HZ / 100;
const TURN: u64 = HZ / 10;

/// Dispatchers of programs with these schedules, on a queue of their own.
struct Play {
    _machine: Machine,
    queue: RunQueue,
    all: Vec<DcbRef>,
    used: Vec<u64>,
    now: u64,
}

impl Play {
    fn new(schedules: &[Schedule]) -> Play {
        let machine = Machine::new();
        let mut queue = RunQueue::new();
        queue::set_second(&mut queue, HZ);
        let all = (0..).zip(schedules).map(|(n, schedule)| {
            let pa = FREE + n * 4096;
            Dcb::init(pa, machine.core.local.core.id);
            let dcb = DcbRef::at(pa);
            dcb.share.buckets.set(queue::PROGRAMS);
            dcb.share.schedule.store(schedule.word(), Relaxed);
            queue::settle(&queue, dcb);
            dcb
        });
        let all: Vec<DcbRef> = all.collect();
        let used = schedules.iter().map(|_| 0).collect();
        Play { _machine: machine, queue, all, used, now: 0 }
    }

    fn index(&self, dcb: DcbRef) -> usize {
        self.all.iter().position(|&other| other == dcb).unwrap()
    }

    /// One runs for so long, as the scheduler counts it.
    fn run(&mut self, dcb: DcbRef, ticks: u64) {
        let (index, schedule) = (self.index(dcb), dcb.share.schedule());
        self.now += ticks;
        self.used[index] += ticks;
        match schedule.is_usual() {
            true => dcb.share.runtime.set(dcb.share.runtime.get() + ticks),
            false => queue::charge(&mut self.queue, dcb, ticks, self.now),
        }
        queue::look(&mut self.queue, self.now);
    }

    /// The next one runs for a slice and goes on.
    fn step(&mut self) -> usize {
        let dcb = self.queue.pop(self.now).unwrap();
        self.run(dcb, SLICE);
        self.queue.put_back(dcb);
        self.index(dcb)
    }
}

fn weight(weight: u32) -> Schedule {
    Schedule::new(0, false, weight).unwrap()
}

const WEIGHTS: [u32; 8] = [3, 15, 110, 335, 1024, 3121, 9548, 88_761];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn shares_are_by_weight(picks in prop::collection::vec(0..WEIGHTS.len(), 2..12), seed: u64) {
        let weights: Vec<u64> = picks.iter().map(|&pick| u64::from(WEIGHTS[pick])).collect();
        let schedules: Vec<Schedule> = weights.iter().map(|&it| weight(it as u32)).collect();
        let mut play = Play::new(&schedules);
        play.all.clone().into_iter().for_each(|dcb| play.queue.push(dcb));
        let mut random = seed;
        while play.now < 300 * HZ {
            let dcb = play.queue.pop(play.now).unwrap();
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Some give way early.
            let slice = SLICE;
            let ticks = if random >> 62 == 0 { slice / 3 } else { slice };
            play.run(dcb, ticks);
            play.queue.put_back(dcb);
            queue::check(&play.queue);
        }
        let all: u64 = weights.iter().sum();
        for (used, weight) in play.used.iter().zip(&weights) {
            let due = (u128::from(play.now) * u128::from(*weight) / u128::from(all)) as u64;
            // Two slices, a bucket, and what its own last slice stands for.
            let off = 3 * SLICE + SLICE * weights.len() as u64 / 2 + due / 20;
            prop_assert!(used.abs_diff(due) <= off, "weight {weight}: {used}, due {due} of {:?}", weights);
        }
    }

    #[test]
    fn nobody_starves(priorities in prop::collection::vec((1..100u32, any::<bool>()), 1..6), picks in prop::collection::vec(0..WEIGHTS.len(), 1..6)) {
        let timed = priorities.iter().map(|&(priority, turns)| Schedule::new(priority, turns, 0).unwrap());
        let schedules: Vec<Schedule> = timed.chain(picks.iter().map(|&pick| weight(WEIGHTS[pick]))).collect();
        let mut play = Play::new(&schedules);
        play.all.clone().into_iter().for_each(|dcb| play.queue.push(dcb));
        while play.now < 20 * HZ {
            play.step();
        }
        let of_timed: u64 = play.used[..priorities.len()].iter().sum();
        let part = of_timed as f64 / play.now as f64;
        prop_assert!((0.92..0.96).contains(&part), "{part}");
        // Only the highest ones.
        let highest = priorities.iter().map(|&(priority, _)| priority).max().unwrap();
        for (used, (priority, _)) in play.used.iter().zip(&priorities) {
            prop_assert!(*priority == highest || *used == 0);
        }
    }

    #[test]
    fn priorities_are_lists(steps in prop::collection::vec((0..8usize, 0..4u32, 1..120u64), 1..200), kinds in prop::collection::vec((1..5u32, any::<bool>()), 8)) {
        let schedules: Vec<Schedule> = kinds.iter().map(|&(priority, turns)| Schedule::new(priority, turns, 0).unwrap()).collect();
        let mut play = Play::new(&schedules);
        let mut lists: [VecDeque<usize>; 5] = Default::default();
        let mut turns = [0u64; 8];
        for (who, what, ms) in steps {
            let (dcb, list) = (play.all[who], kinds[who].0 as usize);
            let waits = lists[list].contains(&who);
            match what {
                0 if !waits => {
                    play.queue.push(dcb);
                    if turns[who] >= TURN { turns[who] = 0; }
                    lists[list].push_back(who);
                }
                1 => {
                    play.queue.remove(dcb);
                    lists[list].retain(|&other| other != who);
                }
                2 | 3 => {
                    let next = play.queue.pop(play.now).map(|dcb| play.index(dcb));
                    let expected = lists.iter_mut().rev().find_map(VecDeque::pop_front);
                    prop_assert_eq!(next, expected);
                    let Some(next) = next else { continue };
                    let (dcb, list) = (play.all[next], kinds[next].0 as usize);
                    play.run(dcb, ms * HZ / 1000);
                    turns[next] += ms * HZ / 1000;
                    let yields = what == 3;
                    if yields { dcb.share.turn.set(u64::MAX); }
                    play.queue.put_back(dcb);
                    if yields || kinds[next].1 && turns[next] >= TURN {
                        if yields || turns[next] >= TURN { turns[next] = 0; }
                        lists[list].push_back(next);
                    } else {
                        lists[list].push_front(next);
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn servers_go_first_where_somebody_has_a_priority() {
    let mut play = Play::new(&[
        Schedule::new(99, false, 0).unwrap(),
        weight(1024),
        weight(1024),
        weight(1024),
    ]);
    let [timed, program, server, busy] = play.all[..] else { panic!() };
    server.share.buckets.set(0);
    busy.share.buckets.set(0);
    // It has had much, and no program waits for it to be the next.
    busy.share.runtime.set(80 << 20);
    [program, busy, timed, server].into_iter().for_each(|dcb| play.queue.push(dcb));
    let order = [0; 4].map(|_| play.queue.pop(0).unwrap());
    assert!(order == [server, busy, timed, program]);
}

#[test]
fn who_sets_schedules_has_the_kernel_and_may_revoke() {
    let mut m = Machine::new();
    let set = |kernel: CapAddr, priority, options, weight| op::SetSchedule {
        kernel: kernel.into(),
        priority,
        options,
        weight,
    };
    assert_eq!(m.call(DISPATCHER, set(KERNEL, 7, 1, 0)), Ok(()));
    assert_eq!(m.dcb.share.schedule(), Schedule::new(7, true, 0).unwrap());
    assert_eq!(m.call(DISPATCHER, set(IO, 8, 0, 0)), Err(Status::WrongType));
    assert_eq!(m.call(DISPATCHER, set(CapAddr(200), 8, 0, 0)), Err(Status::Empty));
    for (priority, options, weight) in [(100, 0, 0), (1, 2, 0), (0, 0, 100_001), (u32::MAX, 0, 0)] {
        assert_eq!(
            m.call(DISPATCHER, set(KERNEL, priority, options, weight)),
            Err(Status::Invalid)
        );
    }
    let weak = CapAddr(201);
    let rights = Rights(Rights::ALL.0 & !Rights::REVOKE.0);
    m.call(DISPATCHER, op::Mint { dst: Place::from(weak), rights, badge: 0 }).unwrap();
    assert_eq!(m.call(weak, set(KERNEL, 8, 0, 0)), Err(Status::NoRights));
    assert_eq!(m.dcb.share.schedule(), Schedule::new(7, true, 0).unwrap());
    assert_eq!(m.call(DISPATCHER, set(KERNEL, 0, 0, 15)), Ok(()));
    assert_eq!(m.dcb.share.schedule(), weight(15));
}
