//! Timers beside a sorted list, and under somebody who arms as many as he can.

use super::machine::*;
use super::random::Random;
use crate::arch;
use crate::dispatch::timers::{LEAST_INTERVAL, MOST_EXPIRED};
use crate::dispatch::Facts;
use crate::driver::Core;
use crate::events::on_irq;
use crate::object::{Dcb, DcbRef};
use captypes::invocations::NOTIFY_TIMER;
use std::collections::BTreeSet;
use std::vec::Vec;

const HZ: u64 = 1_000_000_000;
/// Least time between two events about timers.
const APART: u64 = HZ / LEAST_INTERVAL;

struct Timers {
    machine: Machine,
    all: Vec<DcbRef>,
}

impl Timers {
    /// So many dispatchers, each with a frame of its own, which run nothing.
    fn new(count: u64) -> Timers {
        let mut machine = Machine::new();
        machine.core.local.sched.set_facts(Facts { tsc_hz: HZ, epoch_ns: 0 });
        arch::set_tsc(1);
        let all = (0..count).map(|n| {
            let (dcb, frame) = (FREE + n * 8192, FREE + n * 8192 + 4096);
            Dcb::init(dcb, machine.core.local.core.id);
            let dcb = DcbRef::at(dcb);
            dcb.frame.set(crate::object::frame::Frame(frame));
            dcb
        });
        let all = all.collect();
        Timers { machine, all }
    }

    fn core(&mut self) -> &mut Core {
        &mut self.machine.core
    }

    /// The timer of the core expires at `now`; who is notified.
    fn expire(&mut self, now: u64) -> Vec<usize> {
        arch::set_tsc(now);
        on_irq(self.core(), arch::VECTOR_TIMER);
        let told = |dcb: &DcbRef| dcb.frame.get().notifications().take() == NOTIFY_TIMER;
        self.all.iter().enumerate().filter(|(_, dcb)| told(dcb)).map(|(n, _)| n).collect()
    }
}

#[test]
fn the_heap_is_a_sorted_list() {
    const COUNT: u64 = 400;
    let mut timers = Timers::new(COUNT);
    let mut model = BTreeSet::new();
    let mut random = Random(0x71e5);
    let mut now = 1;
    for _ in 0..60_000 {
        let who = random.below(COUNT) as usize;
        let dcb = timers.all[who];
        match random.below(8) {
            0..4 => {
                model.remove(&(dcb.timer.deadline.get(), who));
                let scale = random.below(24);
                let deadline = now - 1 + random.below(1 << scale);
                timers.core().local.sched.set_timer(dcb, deadline);
                if deadline != 0 {
                    model.insert((deadline.max(now), who));
                }
            }
            4 | 5 => {
                model.remove(&(dcb.timer.deadline.get(), who));
                timers.core().local.sched.cancel_timer(dcb);
            }
            _ => {
                let scale = random.below(22);
                now += random.below(1 << scale);
                let told = timers.expire(now);
                let deadline = |who: usize| timers.all[who].timer.deadline.get();
                let last = told.iter().map(|&who| deadline(who)).max().unwrap_or(0);
                for who in told {
                    assert!(model.remove(&(deadline(who), who)), "{who} is not armed");
                }
                // Those that are left are later, or as late.
                assert!(model.first().is_none_or(|&(first, _)| first >= last));
            }
        }
        for (who, dcb) in timers.all.iter().enumerate() {
            let armed = model.contains(&(dcb.timer.deadline.get(), who));
            assert_eq!(dcb.timer.armed.get(), armed, "{who}");
        }
        timers.core().local.sched.check_timers();
    }
    // To the end.
    while let Some(&(first, _)) = model.first() {
        now = now.max(first) + APART;
        let told = timers.expire(now);
        assert!(!told.is_empty() && told.len() <= MOST_EXPIRED as usize);
        for who in told {
            assert!(model.remove(&(timers.all[who].timer.deadline.get(), who)));
        }
    }
    assert!(timers.expire(u64::MAX / 2).is_empty());
}

/// Many timers, a tick apart or in the past, armed again whenever they have expired, beside one of
/// somebody else.
#[test]
fn a_flood_of_timers_is_worked_off_in_bounded_events() {
    const COUNT: usize = 800;
    let mut timers = Timers::new(COUNT as u64);
    let (victim, flood) = (0, 1..COUNT);
    let mut now = 1_000_000;
    arch::set_tsc(now);
    for n in flood.clone() {
        let deadline = if n % 2 == 0 { 1 } else { now + n as u64 };
        let dcb = timers.all[n];
        timers.core().local.sched.set_timer(dcb, deadline);
    }
    let wanted = now + 100 * APART;
    let dcb = timers.all[victim];
    timers.core().local.sched.set_timer(dcb, wanted);
    let mut events = Vec::new();
    let late = loop {
        // The hardware has one deadline, of this or another event (a slice of time that is over).
        timers.core().local.sched.block();
        crate::events::leave(timers.core());
        now = now.max(arch::timer_deadline());
        let told = timers.expire(now);
        assert!(told.len() <= MOST_EXPIRED as usize, "{} in one event", told.len());
        if !told.is_empty() {
            events.push(now);
        }
        if told.contains(&victim) {
            break now - wanted;
        }
        for n in told {
            let dcb = timers.all[n];
            timers.core().local.sched.set_timer(dcb, 1);
        }
        assert!(events.len() < 10_000, "somebody's timer never expires");
    };
    assert!(events.windows(2).all(|pair| pair[1] - pair[0] >= APART), "events too close");
    // All that were armed before it go first.
    assert!(late <= (COUNT as u64 / u64::from(MOST_EXPIRED) + 2) * APART, "{late} ticks late");
}

#[test]
fn a_single_timer_is_not_late() {
    let mut timers = Timers::new(2);
    let dcb = timers.all[0];
    for start in [10 * APART, 30 * APART] {
        arch::set_tsc(start);
        timers.core().local.sched.set_timer(dcb, start + 5);
        timers.core().local.sched.block();
        crate::events::leave(timers.core());
        assert_eq!(arch::timer_deadline(), start + 5);
        assert_eq!(timers.expire(start + 5), [0]);
    }
}
