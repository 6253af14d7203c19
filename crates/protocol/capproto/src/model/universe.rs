//! Everything that can happen with a few cores, capabilities and types: rounds of two operations,
//! one after the other, beginning when memory servers have all memory and nobody has anything.

use super::caps::{Place, Request};
use super::database::Shape;
use super::system::{requests, Op, State, Step};
use crate::mutation::Mutation;
use captypes::CapType;
use stateright::{Checker, Model, Path, Property};
use std::collections::HashSet;
use std::string::String;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use std::vec::Vec;
use std::{format, println};

/// What there is, and how far to go.
pub struct Universe {
    pub shape: Shape,
    cores: u8,
    types: Vec<CapType>,
    /// Most capabilities at rest.
    capabilities: usize,
    /// How many rounds at most.
    rounds: u8,
    /// A deliberate bug.
    mutation: Option<Mutation>,
}

impl Universe {
    /// `homes`: of each page.
    pub fn new(cores: u8, homes: &[u8], capabilities: usize, rounds: u8) -> Universe {
        let homes = homes.to_vec();
        let shape = Shape { homes, cnode_slots: 1, root_slots: 3, slow: false, pool: None };
        let types = [CapType::Ram, CapType::L2CNode].into();
        Universe { shape, cores, types, capabilities, rounds, mutation: None }
    }

    /// No memory, and an object of a pool of core `pool`.
    pub fn of_objects(cores: u8, pool: u8, capabilities: usize, rounds: u8) -> Universe {
        let mut universe = Universe::new(cores, &[0], capabilities, rounds);
        (universe.shape.pool, universe.types) = (Some((pool, 1)), Vec::new());
        universe
    }

    /// There can be another object, a snapshot of the first or the other way round.
    pub fn with_snapshots(mut self) -> Universe {
        self.shape.pool = self.shape.pool.map(|(core, _)| (core, 2));
        self
    }

    pub fn with(mut self, mutation: Mutation) -> Universe {
        self.mutation = Some(mutation);
        self
    }

    /// Searches all of it.
    pub fn check(self) {
        if let Some(why) = self.violation() {
            panic!("{why}");
        }
    }

    /// What is wrong, and how it comes to that in the last round, if anything is.
    pub fn violation(self) -> Option<String> {
        let started = Instant::now();
        let first = State::new(&self.shape, self.cores, self.mutation);
        let mut seen: HashSet<State> = [first.clone()].into();
        let (mut starts, mut states, mut round) = (Vec::from([first]), 0, 0);
        let model = Arc::new(self);
        while round < model.rounds && !starts.is_empty() {
            round += 1;
            let level = Level { universe: model.clone(), starts, ends: Mutex::default() };
            let checker = level.checker().threads(2).spawn_bfs().join();
            states += checker.unique_state_count();
            if let Some(path) = checker.discovery(RIGHT) {
                return explain(&model.shape, path);
            }
            let mut ends = checker.model().ends.lock().expect("no thread panicked");
            starts = ends.drain(..).filter(|end| seen.insert(end.clone())).collect();
        }
        let (quiet, time) = (seen.len(), started.elapsed().as_secs_f64());
        let all = if starts.is_empty() { "all" } else { "at most" };
        println!("{all} {round} rounds: {states} states, {quiet} of them at rest, {time:.1} s");
        None
    }

    /// Every two requests that fit in, and each alone where no two do.
    fn rounds(&self, state: &State) -> Vec<Vec<Op>> {
        let mut ops = Vec::new();
        for core in 0..self.cores {
            let list = requests(state, &self.shape, &self.types, core);
            ops.extend(list.into_iter().map(|request| Op::new(core, request)));
        }
        let room = self.capabilities.saturating_sub(state.capabilities());
        let size = |op: &Op| usize::from(op.makes());
        let mut rounds = Vec::new();
        for (n, a) in ops.iter().enumerate() {
            for b in ops[n..].iter().filter(|b| size(a) + size(b) <= room) {
                rounds.push([a.clone(), b.clone()].into());
                let elsewhere = self.elsewhere(state, a, b);
                rounds.extend(elsewhere.map(|b| [a.clone(), b].into()));
            }
        }
        if rounds.is_empty() {
            rounds.extend(ops.into_iter().filter(|op| size(op) <= room).map(|op| [op].into()));
        }
        rounds
    }

    /// `b` with another destination, if it has the same as `a`.
    fn elsewhere(&self, state: &State, a: &Op, b: &Op) -> Option<Op> {
        let (core, Place::Root(used)) = a.destination()? else { return None };
        if b.destination()? != (core, Place::Root(used)) {
            return None;
        }
        let db = &state.cores[usize::from(core)].db;
        let mut others = (used + 1..self.shape.root_slots).map(Place::Root);
        let place = others.find(|&place| db.at(place).is_none())?;
        let mut b = b.clone();
        match &mut b.request {
            Request::Copy { dst, .. } | Request::Send { dst, .. } => *dst = place,
            Request::Retype { dst, .. } | Request::Allocate { dst, .. } => *dst = place,
            Request::Open { dst, .. } | Request::Part { dst, .. } => *dst = place,
            Request::Snapshot { dst, .. } => *dst = place,
            Request::Delete { .. } | Request::Revoke { .. } => return None,
            Request::Destroy { .. } | Request::Close => return None,
        }
        Some(b)
    }
}

/// One round from each of some states at rest.
struct Level {
    universe: Arc<Universe>,
    starts: Vec<State>,
    /// The states at rest after it.
    ends: Mutex<Vec<State>>,
}

const RIGHT: &str = "right";

fn explain(shape: &Shape, path: Path<State, Step>) -> Option<String> {
    let (mut states, mut steps) = (Vec::new(), Vec::new());
    for (state, step) in path.into_vec() {
        states.push(state);
        steps.extend(step.map(|step| format!("{step:?}")));
    }
    let (first, last) = (states.first()?, states.last()?);
    let why = last.violation(shape)?;
    Some(format!(
        "{why}, after {} steps from\n{first:?}\n{}\n{last:?}",
        steps.len(),
        steps.join("\n")
    ))
}

impl Model for Level {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        self.starts.clone()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if !state.is_over() {
            actions.extend(state.steps());
        } else if !state.ops.is_empty() {
            actions.push(Step::Rest);
        } else if state.round == 0 {
            actions.extend(self.universe.rounds(state).into_iter().map(Step::Round));
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        next.step(&self.universe.shape, &step);
        if step == Step::Rest {
            let mut end = next.clone();
            end.round = 0;
            self.ends.lock().expect("no thread panicked").push(end);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let right = |level: &Level, state: &State| state.violation(&level.universe.shape).is_none();
        [Property::always(RIGHT, right)].into()
    }
}
