//! Cases with names: some operations one after the other, then a few at once in every interleaving.
//!
//! The rounds of [`super::universe`] begin with nothing and have two operations each; what takes more
//! cores, capabilities or observers to be seen is here.

use super::caps::{Made, Place, Request};
use super::database::Shape;
use super::system::{Op, State, Step};
use crate::mutation::Mutation;
use captypes::CapType;
use std::collections::HashSet;
use std::format;
use std::string::String;
use std::vec::Vec;

/// A case. Core 0 is the home of all memory.
pub struct Case {
    pub name: &'static str,
    cores: u8,
    /// One after the other.
    before: Vec<(u8, Request)>,
    /// At once.
    ops: Vec<(u8, Request)>,
}

const RAM: Made = Made { ty: CapType::Ram as u8, base: 0, size: 2 };
const HALF: Made = Made { ty: CapType::Ram as u8, base: 0, size: 1 };
const A: Place = Place::Root(0);
const B: Place = Place::Root(1);

/// All of them.
pub fn cases() -> Vec<Case> {
    let give = Request::Allocate { cap: RAM, dst: A };
    let send = |to| Request::Send { src: A, to, dst: A };
    let made = Request::Retype { src: A, cap: HALF, dst: B };
    let send_made = Request::Send { src: B, to: 1, dst: B };
    let delete_made = Request::Delete { at: B };
    let (delete, revoke) = (Request::Delete { at: A }, Request::Revoke { at: A });
    let copy = Request::Copy { src: A, dst: B };
    [
        // Whoever has seen on one core that it is gone must not find it on another.
        Case {
            name: "a revoke that two others observe",
            cores: 3,
            before: [(0, give), (0, send(1)), (0, send(2))].into(),
            ops: [(0, revoke), (1, copy), (2, copy)].into(),
        },
        // Only a descendant, which went there after it was made, and no copy is on the other core.
        Case {
            name: "the last copy goes while another core covers a part",
            cores: 2,
            before: [(0, give), (0, made), (0, send_made), (0, delete_made)].into(),
            ops: [(0, delete)].into(),
        },
        // Of those who are asked, one has something of it, whoever answers last.
        Case {
            name: "a retype beside what one of two others has",
            cores: 3,
            before: [(0, give), (0, send(1)), (0, send(2)), (1, made)].into(),
            ops: [(0, made)].into(),
        },
    ]
    .into()
}

impl Case {
    /// What is wrong in some interleaving, if anything is.
    pub fn violation(&self, mutation: Option<Mutation>) -> Option<String> {
        let shape =
            Shape { homes: [0; 2].into(), cnode_slots: 1, root_slots: 3, slow: false, pool: None };
        let mut state = State::new(&shape, self.cores, mutation);
        for &op in &self.before {
            state.step(&shape, &round(&[op]));
            while !state.is_over() {
                let step = state.steps().swap_remove(0);
                state.step(&shape, &step);
                if let Some(why) = state.violation(&shape) {
                    return Some(why.into());
                }
            }
            state.ops.clear();
            state.steps = 0;
        }
        state.step(&shape, &round(&self.ops));
        let (mut seen, mut open) = (HashSet::new(), Vec::from([state]));
        while let Some(state) = open.pop() {
            if let Some(why) = state.violation(&shape) {
                return Some(format!("{}: {why}\n{state:?}", self.name));
            }
            if state.is_over() {
                continue;
            }
            for step in state.steps() {
                let mut next = state.clone();
                next.step(&shape, &step);
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        None
    }
}

fn round(ops: &[(u8, Request)]) -> Step {
    Step::Round(ops.iter().map(|&(core, request)| Op::new(core, request)).collect())
}

#[test]
fn directed_cases() {
    for case in cases() {
        assert_eq!(case.violation(None), None);
    }
}
