//! What a program can answer for calls of which only the number is known.

use crate::{action, Alu, Operand, Program, Step, ARCHITECTURE, CELLS};
use alloc::vec;

/// What can become of calls with a certain number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Possible {
    /// Some may be made.
    pub passes: bool,
    /// All are made, and nobody is told.
    pub is_allowed: bool,
}

/// Values, as far as they are known.
#[derive(Clone, Copy)]
struct Known {
    a: Option<u32>,
    x: Option<u32>,
    cells: [Option<u32>; CELLS],
}

impl Known {
    /// What holds on both of two ways.
    fn and(&mut self, other: &Known) {
        let both = |one: &mut Option<u32>, other: Option<u32>| {
            if *one != other {
                *one = None;
            }
        };
        both(&mut self.a, other.a);
        both(&mut self.x, other.x);
        self.cells.iter_mut().zip(other.cells).for_each(|(one, other)| both(one, other));
    }
}

impl Program {
    /// What it can answer for calls with a number that are made as programs for this processor make them.
    pub(crate) fn possible(&self, number: u32) -> Possible {
        let mut all = Possible { passes: false, is_allowed: true };
        let mut answers = |answer: Option<u32>| {
            all.passes |= answer.is_none_or(action::passes);
            all.is_allowed &= answer.is_some_and(|answer| action::of(answer) == action::ALLOW);
        };
        // What is known where each instruction begins; `None`: nothing leads there yet.
        let mut before = vec![None; self.steps.len()];
        before[0] = Some(Known { a: Some(0), x: Some(0), cells: [Some(0); CELLS] });
        for (at, step) in self.steps.iter().enumerate() {
            let Some(Known { mut a, mut x, mut cells }) = before[at] else { continue };
            let value = |operand| match operand {
                Operand::K(k) => Some(k),
                Operand::X => x,
            };
            // The last is a return.
            let mut next = [Some(at as u16 + 1), None];
            match *step {
                Step::Load(0) => a = Some(number),
                Step::Load(4) => a = Some(ARCHITECTURE),
                Step::Load(_) => a = None,
                Step::LoadImmediate(k) => a = Some(k),
                Step::LoadXImmediate(k) => x = Some(k),
                Step::LoadMemory(cell) => a = cells[cell as usize],
                Step::LoadXMemory(cell) => x = cells[cell as usize],
                Step::Store(cell) => cells[cell as usize] = a,
                Step::StoreX(cell) => cells[cell as usize] = x,
                Step::Alu(how, operand) => {
                    let by = value(operand);
                    let may_end = matches!(how, Alu::Div | Alu::Mod) && by.is_none_or(|by| by == 0);
                    if may_end {
                        answers(Some(action::KILL_THREAD));
                    }
                    match a.zip(by).map(|(a, by)| how.apply(a, by)) {
                        Some(Some(result)) => a = Some(result),
                        Some(None) => next = [None; 2],
                        None if by == Some(0) && may_end => next = [None; 2],
                        None => a = None,
                    }
                }
                Step::Jump(to) => next = [Some(to), None],
                Step::Branch(test, operand, yes, no) => {
                    next = match a.zip(value(operand)) {
                        Some((a, by)) => [Some(if test.holds(a, by) { yes } else { no }), None],
                        None => [Some(yes), Some(no)],
                    };
                }
                Step::Return(k) => {
                    answers(Some(k));
                    next = [None; 2];
                }
                Step::ReturnA => {
                    answers(a);
                    next = [None; 2];
                }
                Step::ToX => x = a,
                Step::ToA => a = x,
                // Of packets alone: what comes of them is not known.
                Step::LoadBytes { .. } | Step::Length => a = None,
                Step::LengthToX | Step::HeadToX(_) => x = None,
            }
            let now = Known { a, x, cells };
            for to in next.into_iter().flatten() {
                match &mut before[to as usize] {
                    Some(known) => known.and(&now),
                    none => *none = Some(now),
                }
            }
        }
        all
    }
}
