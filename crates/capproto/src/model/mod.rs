//! The model check: the monitors as they are, over naive CPU drivers, in every interleaving.

mod caps;
mod database;
mod spec;
mod system;

use caps::Place;
use caps::Request;
use captypes::CapType;
use database::Shape;
use stateright::{Checker, Model, Property};
use std::vec::Vec;
use system::{requests, Op, State, Step};

/// Everything that can happen with a few cores, capabilities and types.
#[derive(Debug)]
struct Universe {
    shape: Shape,
    cores: u8,
    types: Vec<CapType>,
    /// Most capabilities at rest.
    capabilities: usize,
    /// How many rounds at most.
    rounds: u8,
}

impl Universe {
    fn rounds(&self, state: &State) -> Vec<Vec<Op>> {
        let op = |core, request| Op { core, request, started: false, result: None, after: 0 };
        let mut ops = Vec::new();
        for core in 0..self.cores {
            let list = requests(state, &self.shape, &self.types, core);
            ops.extend(list.into_iter().map(|request| op(core, request)));
        }
        let room = self.capabilities.saturating_sub(state.capabilities());
        let makes = |op: &Op| {
            usize::from(!matches!(op.request, Request::Delete { .. } | Request::Revoke { .. }))
        };
        let mut rounds = Vec::new();
        for (n, a) in ops.iter().enumerate() {
            for b in &ops[n..] {
                if makes(a) + makes(b) <= room {
                    rounds.push([a.clone(), b.clone()].into());
                    if let Some(b) = self.elsewhere(state, a, b) {
                        rounds.push([a.clone(), b].into());
                    }
                }
            }
        }
        if rounds.is_empty() {
            rounds.extend(ops.into_iter().filter(|op| makes(op) <= room).map(|op| [op].into()));
        }
        rounds
    }

    /// `b` with another destination, if it has the same as `a`.
    fn elsewhere(&self, state: &State, a: &Op, b: &Op) -> Option<Op> {
        let (first, second) = (destination(a)?, destination(b)?);
        if first != second {
            return None;
        }
        let (core, Place::Root(used)) = first else { return None };
        let db = &state.cores[usize::from(core)].db;
        let mut others = (used + 1..self.shape.root_slots).map(Place::Root);
        let place = others.find(|&place| db.at(place).is_none())?;
        let mut b = b.clone();
        match &mut b.request {
            Request::Copy { dst, .. } | Request::Send { dst, .. } => *dst = place,
            Request::Retype { dst, .. } | Request::Allocate { dst, .. } => *dst = place,
            Request::Delete { .. } | Request::Revoke { .. } => return None,
        }
        Some(b)
    }
}

fn destination(op: &Op) -> Option<(u8, Place)> {
    match op.request {
        Request::Copy { dst, .. } | Request::Retype { dst, .. } | Request::Allocate { dst, .. } => {
            Some((op.core, dst))
        }
        Request::Send { to, dst, .. } => Some((to, dst)),
        Request::Delete { .. } | Request::Revoke { .. } => None,
    }
}

impl Model for Universe {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        [State::new(&self.shape, self.cores)].into()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if !state.is_over() {
            actions.extend(state.steps());
        } else if !state.ops.is_empty() {
            actions.push(Step::Rest);
        } else if state.rounds < self.rounds {
            actions.extend(self.rounds(state).into_iter().map(Step::Round));
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        next.step(&self.shape, &step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        [Property::always("right", |model: &Universe, state: &State| {
            state.violation(&model.shape).is_none()
        })]
        .into()
    }
}

fn check(universe: Universe) {
    let started = std::time::Instant::now();
    let checker = universe.checker().threads(2).spawn_bfs().join();
    std::eprintln!(
        "{} states, {} unique, depth {}, {:?}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        started.elapsed()
    );
    if let Some(path) = checker.discovery("right") {
        let steps = path.clone().into_actions();
        for step in &steps {
            std::eprintln!("{step:?}");
        }
        let end = path.into_states().pop().expect("a state");
        panic!("{}: {end:?}", end.violation(&checker.model().shape).unwrap_or("?"));
    }
}

#[test]
fn two_cores() {
    check(Universe {
        shape: Shape { homes: [0, 0].into(), cnode_slots: 1, root_slots: 3, slow: false },
        cores: 2,
        types: [CapType::Ram, CapType::L2CNode].into(),
        capabilities: env("CAPS", 3).into(),
        rounds: env("ROUNDS", 3),
    });
}
fn env(name: &str, default: u8) -> u8 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}
