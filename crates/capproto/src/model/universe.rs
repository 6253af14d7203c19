//! Everything that can happen with a few cores, capabilities and types: rounds of two operations,
//! one after the other, beginning when memory servers have all memory and nobody has anything.

use super::caps::{Place, Request};
use super::database::Shape;
use super::system::{requests, Op, State, Step};
use crate::mutation::Mutation;
use captypes::CapType;
use stateright::{Checker, Model, Property};
use std::string::String;
use std::time::Instant;
use std::vec::Vec;
use std::{format, println};

/// What there is, and how far to go.
#[derive(Debug)]
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
        let shape = Shape { homes: homes.to_vec(), cnode_slots: 1, root_slots: 3, slow: false };
        let types = [CapType::Ram, CapType::L2CNode].into();
        Universe { shape, cores, types, capabilities, rounds, mutation: None }
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

    /// What is wrong, and how it comes to that, if anything is.
    pub fn violation(self) -> Option<String> {
        let started = Instant::now();
        let checker = self.checker().threads(2).spawn_bfs().join();
        let (states, time) = (checker.unique_state_count(), started.elapsed().as_secs_f64());
        println!("{states} states, at most {} steps deep, {time:.1} s", checker.max_depth());
        let path = checker.discovery("right")?;
        let steps: Vec<_> =
            path.clone().into_actions().iter().map(|step| format!("{step:?}")).collect();
        let end = path.into_states().pop()?;
        let why = end.violation(&checker.model().shape)?;
        Some(format!("{why}, after {} steps\n{}\n{end:?}", steps.len(), steps.join("\n")))
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
            Request::Delete { .. } | Request::Revoke { .. } => return None,
        }
        Some(b)
    }
}

impl Model for Universe {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        [State::new(&self.shape, self.cores, self.mutation)].into()
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
        let right = |model: &Universe, state: &State| state.violation(&model.shape).is_none();
        [Property::always("right", right)].into()
    }
}
