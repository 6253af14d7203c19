//! Runs that lead deep: more cores, capabilities and operations at once than can be searched through.
//!
//! `TESSERA_SEED` repeats one, `TESSERA_OPS` says how many operations.

use super::database::Shape;
use super::system::{requests, Op, State, Step};
use crate::mutation::Mutation;
use captypes::CapType;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::mem::discriminant;
use std::string::String;
use std::vec::Vec;
use std::{format, println};

/// How a run looks.
pub struct Plan {
    pub cores: u8,
    pub homes: &'static [u8],
    pub capabilities: usize,
    /// Operations of one round.
    pub at_once: usize,
    /// Compare with the specification: only for two operations at once. With three, one can see that
    /// a copy to another core is taken before it is put, and that the copies of a kernel object on
    /// other cores go before what it holds.
    pub compare: bool,
    pub slow: bool,
    /// The core with a pool, and how many objects are in it.
    pub pool: Option<(u8, u8)>,
}

const TYPES: [CapType; 3] = [CapType::Ram, CapType::Frame, CapType::L2CNode];

/// Runs about `count` operations; says what went wrong.
pub fn run(plan: &Plan, seed: u64, count: usize, mutation: Option<Mutation>) -> Result<(), String> {
    let (homes, slow) = (plan.homes.to_vec(), plan.slow);
    let shape = Shape { homes, cnode_slots: 3, root_slots: 6, slow, pool: plan.pool };
    let mut state = State::new(&shape, plan.cores, mutation);
    state.compared = plan.compare;
    let mut dice = Rng::with_seed(seed);
    let mut done = 0;
    while done < count {
        let ops = round(plan, &shape, &state, &mut dice);
        done += ops.len();
        let mut trace = Vec::from([format!("{state:?}")]);
        let mut step = Step::Round(ops);
        loop {
            trace.push(format!("{step:?}"));
            state.step(&shape, &step);
            if let Some(wrong) = state.violation(&shape) {
                return Err(format!(
                    "seed {seed:#x}, operation {done}: {wrong}\n{}\n{state:?}",
                    trace.join("\n")
                ));
            }
            if state.is_over() {
                break;
            }
            let mut steps = state.steps();
            step = steps.swap_remove(dice.usize(..steps.len()));
        }
        state.step(&shape, &Step::Rest);
    }
    Ok(())
}

/// Some requests; each kind is as likely as the others.
fn round(plan: &Plan, shape: &Shape, state: &State, dice: &mut Rng) -> Vec<Op> {
    let mut kinds: BTreeMap<usize, Vec<Op>> = BTreeMap::new();
    let mut seen = Vec::new();
    for core in 0..plan.cores {
        for request in requests(state, shape, &TYPES, core) {
            let kind = discriminant(&request);
            let at = seen.iter().position(|&other| other == kind).unwrap_or_else(|| {
                seen.push(kind);
                seen.len() - 1
            });
            kinds.entry(at).or_default().push(Op::new(core, request));
        }
    }
    let full = state.capabilities() >= plan.capabilities;
    let mut ops = Vec::new();
    while ops.len() < plan.at_once {
        let list = &kinds[&dice.usize(..kinds.len())];
        let op = &list[dice.usize(..list.len())];
        if !full || !op.makes() {
            ops.push(op.clone());
        }
    }
    ops
}

fn number(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).unwrap_or_default();
    let hex = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    hex.or_else(|| text.parse().ok()).unwrap_or(otherwise)
}

/// Plans from few operations at once, which are compared, to many.
pub const PLANS: &[Plan] = &[
    Plan {
        cores: 2,
        homes: &[0, 0, 1],
        capabilities: 8,
        at_once: 2,
        compare: true,
        slow: false,
        pool: None,
    },
    Plan {
        cores: 4,
        homes: &[0, 0, 0, 1, 1],
        capabilities: 12,
        at_once: 2,
        compare: true,
        slow: false,
        pool: None,
    },
    Plan {
        cores: 3,
        homes: &[0, 0, 2, 2],
        capabilities: 10,
        at_once: 2,
        compare: true,
        slow: true,
        pool: None,
    },
    Plan {
        cores: 6,
        homes: &[0, 0, 0, 1, 1, 1, 2],
        capabilities: 24,
        at_once: 12,
        compare: false,
        slow: false,
        pool: Some((0, 3)),
    },
    Plan {
        cores: 8,
        homes: &[3, 3, 3, 3],
        capabilities: 30,
        at_once: 8,
        compare: false,
        slow: true,
        pool: Some((5, 3)),
    },
    // With objects, and objects alone.
    Plan {
        cores: 3,
        homes: &[0, 0, 2, 2],
        capabilities: 12,
        at_once: 2,
        compare: true,
        slow: true,
        pool: Some((2, 1)),
    },
    Plan {
        cores: 4,
        homes: &[0],
        capabilities: 12,
        at_once: 2,
        compare: true,
        slow: true,
        pool: Some((1, 2)),
    },
];

/// The seeds of a test, of which every plan gets one.
pub fn all_plans(operations: usize) {
    let seed = number("TESSERA_SEED", 0x7e55_e7a5_eed0_0001);
    let count = number("TESSERA_OPS", operations as u64) as usize;
    println!("TESSERA_SEED={seed:#x} TESSERA_OPS={count}");
    for plan in PLANS {
        if let Err(why) = run(plan, seed, count / PLANS.len(), None) {
            panic!("{why}");
        }
    }
}
