//! Filters: classic BPF programs over `struct seccomp_data`, as `seccomp` takes them, and over packets, as sockets do
//! ([`packets`]).
//!
//! Three questions, of filters of calls:
//!
//! * [`Program::check`]: may this be a filter? As Linux answers it, with `EINVAL` for everything that is refused.
//! * [`Chain::run`]: what becomes of this call?
//! * [`Chain::possible`]: what can become of calls with this number, whatever their arguments are? An interpretation with
//!   values that may be unknown, which errs on the side of *everything*. Programs only jump forward, so one pass is enough.
#![no_std]

extern crate alloc;

pub mod packets;
mod possible;

use alloc::sync::Arc;
use alloc::vec::Vec;
pub use possible::Possible;

/// Most instructions of one program.
pub const MOST: usize = 4096;
/// Most instructions of a chain, where each program counts [`PENALTY`] more than it has.
pub const MOST_OF_CHAIN: usize = 1 << 15;
/// See there.
pub const PENALTY: usize = 4;
/// `AUDIT_ARCH_X86_64`.
pub const ARCHITECTURE: u32 = 0xc000_003e;

/// What becomes of a call: the upper half of what a program answers. The lower half is for whoever acts upon it.
pub mod action {
    pub const KILL_PROCESS: u32 = 0x8000_0000;
    pub const KILL_THREAD: u32 = 0;
    /// `SIGSYS`.
    pub const TRAP: u32 = 0x0003_0000;
    pub const ERRNO: u32 = 0x0005_0000;
    /// Whoever listens decides.
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    /// The tracer decides.
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;

    /// Without what is for whoever acts upon it.
    pub const fn of(answer: u32) -> u32 {
        answer & 0xffff_0000
    }
    /// Can a call be made after that?
    pub const fn passes(answer: u32) -> bool {
        matches!(of(answer), USER_NOTIF | TRACE | LOG | ALLOW)
    }
}

/// `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    pub code: u16,
    /// How many instructions a jump passes over, if its condition is true, and if not.
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

impl Instruction {
    /// Bytes of one in memory.
    pub const BYTES: usize = 8;

    /// From memory.
    pub fn read(bytes: [u8; Self::BYTES]) -> Instruction {
        let [c0, c1, jt, jf, k @ ..] = bytes;
        Instruction { code: u16::from_le_bytes([c0, c1]), jt, jf, k: u32::from_le_bytes(k) }
    }

    /// As it is in memory.
    pub fn bytes(self) -> [u8; Self::BYTES] {
        let ([c0, c1], [k0, k1, k2, k3]) = (self.code.to_le_bytes(), self.k.to_le_bytes());
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }
}

/// A system call: `struct seccomp_data`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    pub number: u32,
    pub architecture: u32,
    /// Behind the instruction that makes the call.
    pub instruction: u64,
    pub arguments: [u64; 6],
}

impl Data {
    /// As it is in memory.
    pub fn bytes(&self) -> [u8; Self::BYTES as usize] {
        let mut bytes = [0; Self::BYTES as usize];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.architecture.to_le_bytes());
        let words = core::iter::once(&self.instruction).chain(&self.arguments);
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Bytes of the structure.
    pub const BYTES: u32 = 64;

    /// The four bytes from `at` on, which is a multiple of four.
    fn word(&self, at: u32) -> u32 {
        let half = |word: u64| (word >> (8 * (at & 4))) as u32;
        match at {
            0 => self.number,
            4 => self.architecture,
            8 | 12 => half(self.instruction),
            _ => self.arguments.get((at as usize - 16) / 8).map_or(0, |word| half(*word)),
        }
    }
}

/// What a program looks at.
trait Memory {
    /// The four bytes from `at` on, of a call.
    fn word(&self, at: u32) -> u32;
    /// So many bytes (one, two or four) from `at` on, of a packet; `None`: there are none there, with which the program ends.
    fn load(&self, bytes: u8, at: u32) -> Option<u32>;
    /// Bytes of all of it.
    fn length(&self) -> u32;
}

impl Memory for Data {
    fn word(&self, at: u32) -> u32 {
        Data::word(self, at)
    }
    fn load(&self, _: u8, _: u32) -> Option<u32> {
        None
    }
    fn length(&self) -> u32 {
        Data::BYTES
    }
}

/// How a value is changed, or two are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    Or,
    And,
    Lsh,
    Rsh,
    Neg,
    Xor,
    /// Of packets alone.
    Mod,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Test {
    Equal,
    Greater,
    NotLess,
    Set,
}

impl Test {
    fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Test::Equal => a == b,
            Test::Greater => a > b,
            Test::NotLess => a >= b,
            Test::Set => a & b != 0,
        }
    }
}

impl Alu {
    /// `None`: a division by zero, with which the program ends.
    fn apply(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Alu::Add => a.wrapping_add(b),
            Alu::Sub => a.wrapping_sub(b),
            Alu::Mul => a.wrapping_mul(b),
            Alu::Div => a.checked_div(b)?,
            Alu::Or => a | b,
            Alu::And => a & b,
            Alu::Lsh => a.wrapping_shl(b),
            Alu::Rsh => a.wrapping_shr(b),
            Alu::Neg => a.wrapping_neg(),
            Alu::Xor => a ^ b,
            Alu::Mod => a.checked_rem(b)?,
        })
    }
}

/// Where an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operand {
    K(u32),
    X,
}

/// An instruction that was understood. Jumps say where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Loads from the structure.
    Load(u32),
    LoadImmediate(u32),
    LoadXImmediate(u32),
    LoadMemory(u8),
    LoadXMemory(u8),
    Store(u8),
    StoreX(u8),
    Alu(Alu, Operand),
    Jump(u16),
    Branch(Test, Operand, u16, u16),
    Return(u32),
    ReturnA,
    ToX,
    ToA,
    /// Of packets alone: so many bytes from a place on, or from one behind X; the length; four times the lower half of a byte, to X.
    LoadBytes {
        bytes: u8,
        at: u32,
        behind_x: bool,
    },
    Length,
    LengthToX,
    HeadToX(u32),
}

/// Cells of a program's memory.
const CELLS: usize = 16;

/// It cannot be a filter (`EINVAL`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// A filter.
#[derive(Debug)]
pub struct Program {
    steps: Vec<Step>,
    code: Vec<Instruction>,
}

impl Program {
    /// What Linux checks: instructions that filters may have, jumps that stay inside, a return at the end, no load of
    /// a cell that is not written on every way there.
    pub fn check(code: &[Instruction]) -> Result<Program, Refused> {
        Program::check_as(code, step)
    }

    fn check_as(
        code: &[Instruction],
        step: fn(Instruction, usize, usize) -> Option<Step>,
    ) -> Result<Program, Refused> {
        if code.is_empty() || code.len() > MOST {
            return Err(Refused);
        }
        let steps: Vec<Step> = code
            .iter()
            .enumerate()
            .map(|(at, one)| step(*one, at, code.len()).ok_or(Refused))
            .collect::<Result<_, _>>()?;
        let ends = matches!(steps.last(), Some(Step::Return(_) | Step::ReturnA));
        (ends && cells_are_written(&steps))
            .then(|| Program { steps, code: code.to_vec() })
            .ok_or(Refused)
    }

    /// Its instructions.
    pub fn code(&self) -> &[Instruction] {
        &self.code
    }

    /// How many instructions it has.
    fn len(&self) -> usize {
        self.steps.len()
    }

    /// What it answers.
    pub fn run(&self, data: &Data) -> u32 {
        self.run_over(data)
    }

    fn run_over(&self, data: &impl Memory) -> u32 {
        let (mut a, mut x, mut cells) = (0u32, 0u32, [0u32; CELLS]);
        let mut at = 0;
        // Jumps go forward, and the last instruction is a return.
        while let Some(step) = self.steps.get(at) {
            at += 1;
            let value = |operand| match operand {
                Operand::K(k) => k,
                Operand::X => x,
            };
            match *step {
                Step::Load(from) => a = data.word(from),
                Step::LoadImmediate(k) => a = k,
                Step::LoadXImmediate(k) => x = k,
                Step::LoadMemory(cell) => a = cells[cell as usize],
                Step::LoadXMemory(cell) => x = cells[cell as usize],
                Step::Store(cell) => cells[cell as usize] = a,
                Step::StoreX(cell) => cells[cell as usize] = x,
                Step::Alu(how, operand) => match how.apply(a, value(operand)) {
                    Some(result) => a = result,
                    None => return 0,
                },
                Step::Jump(to) => at = to as usize,
                Step::Branch(test, operand, yes, no) => {
                    at = if test.holds(a, value(operand)) { yes } else { no } as usize;
                }
                Step::Return(k) => return k,
                Step::ReturnA => return a,
                Step::ToX => x = a,
                Step::ToA => a = x,
                Step::LoadBytes { bytes, at, behind_x } => {
                    let at = if behind_x { at.wrapping_add(x) } else { at };
                    match data.load(bytes, at) {
                        Some(value) => a = value,
                        None => return 0,
                    }
                }
                Step::Length => a = data.length(),
                Step::LengthToX => x = data.length(),
                Step::HeadToX(at) => match data.load(1, at) {
                    Some(value) => x = 4 * (value & 0xf),
                    None => return 0,
                },
            }
        }
        0
    }
}

/// One instruction, at a place of so many.
fn step(one: Instruction, at: usize, len: usize) -> Option<Step> {
    let Instruction { code, jt, jf, k } = one;
    let cell = || u8::try_from(k).ok().filter(|cell| (*cell as usize) < CELLS);
    let place = |over: usize| (at + 1).checked_add(over).filter(|to| *to < len).map(|to| to as u16);
    Some(match code {
        // ld [k]
        0x20 if k < Data::BYTES && k.is_multiple_of(4) => Step::Load(k),
        // The length of the structure.
        0x80 => Step::LoadImmediate(Data::BYTES),
        0x81 => Step::LoadXImmediate(Data::BYTES),
        0x00 => Step::LoadImmediate(k),
        0x01 => Step::LoadXImmediate(k),
        0x60 => Step::LoadMemory(cell()?),
        0x61 => Step::LoadXMemory(cell()?),
        0x02 => Step::Store(cell()?),
        0x03 => Step::StoreX(cell()?),
        0x06 => Step::Return(k),
        0x16 => Step::ReturnA,
        0x07 => Step::ToX,
        0x87 => Step::ToA,
        0x05 => Step::Jump(place(k as usize)?),
        _ => {
            let operand = if code & 0x08 != 0 { Operand::X } else { Operand::K(k) };
            let by_constant = operand != Operand::X;
            match code & !0x08 {
                0x04 => Step::Alu(Alu::Add, operand),
                0x14 => Step::Alu(Alu::Sub, operand),
                0x24 => Step::Alu(Alu::Mul, operand),
                0x34 if !(by_constant && k == 0) => Step::Alu(Alu::Div, operand),
                0x44 => Step::Alu(Alu::Or, operand),
                0x54 => Step::Alu(Alu::And, operand),
                0x64 if !(by_constant && k > 31) => Step::Alu(Alu::Lsh, operand),
                0x74 if !(by_constant && k > 31) => Step::Alu(Alu::Rsh, operand),
                0x84 if by_constant => Step::Alu(Alu::Neg, operand),
                0xa4 => Step::Alu(Alu::Xor, operand),
                test @ (0x15 | 0x25 | 0x35 | 0x45) => {
                    let test = match test {
                        0x15 => Test::Equal,
                        0x25 => Test::Greater,
                        0x35 => Test::NotLess,
                        _ => Test::Set,
                    };
                    Step::Branch(test, operand, place(jt.into())?, place(jf.into())?)
                }
                _ => return None,
            }
        }
    })
}

/// Is every cell written before it is read, on every way?
fn cells_are_written(steps: &[Step]) -> bool {
    let mut on_the_way = alloc::vec![u16::MAX; steps.len()];
    let mut written = 0u16;
    for (at, step) in steps.iter().enumerate() {
        written &= on_the_way[at];
        match *step {
            Step::Store(cell) | Step::StoreX(cell) => written |= 1 << cell,
            Step::LoadMemory(cell) | Step::LoadXMemory(cell) if written & 1 << cell == 0 => {
                return false;
            }
            Step::Jump(to) => {
                on_the_way[to as usize] &= written;
                // Whoever comes to what is behind a jump comes from elsewhere.
                written = u16::MAX;
            }
            Step::Branch(_, _, yes, no) => {
                on_the_way[yes as usize] &= written;
                on_the_way[no as usize] &= written;
                written = u16::MAX;
            }
            _ => {}
        }
    }
    true
}

/// Filters that apply together: a program, and those that were there before.
#[derive(Debug)]
pub struct Chain {
    program: Program,
    before: Option<Arc<Chain>>,
    /// Who decides where this program says so.
    listener: Option<u32>,
}

impl Chain {
    /// A program more. `None`: they would have too many instructions together (`ENOMEM`).
    pub fn new(program: Program, before: Option<Arc<Chain>>) -> Option<Chain> {
        let new = Chain { program, before, listener: None };
        let len: usize = new.all().map(|program| program.len() + PENALTY).sum();
        // What is new does not count the penalty.
        (len - PENALTY <= MOST_OF_CHAIN).then_some(new)
    }

    /// The same, where somebody decides for the new program.
    pub fn heard_by(self, listener: Option<u32>) -> Chain {
        Chain { listener, ..self }
    }

    /// The programs, each with who decides for it, the newest first.
    pub fn links(&self) -> impl Iterator<Item = (&Program, Option<u32>)> {
        let mut next = Some(self);
        core::iter::from_fn(move || {
            let Chain { program, before, listener } = next?;
            next = before.as_deref();
            Some((program, *listener))
        })
    }

    /// The programs, the newest first.
    pub fn all(&self) -> impl Iterator<Item = &Program> {
        self.links().map(|(program, _)| program)
    }

    /// Who decides about a call of which the answer was [`action::USER_NOTIF`]: whoever does so for the newest program that said that.
    pub fn listener(&self, data: &Data) -> Option<u32> {
        let mut says =
            self.links().filter(|(program, _)| action::of(program.run(data)) == action::USER_NOTIF);
        says.next()?.1
    }

    /// What becomes of a call: the strictest answer, and of equal ones that of the newest.
    pub fn run(&self, data: &Data) -> u32 {
        let order = |answer| action::of(answer) as i32;
        self.all().map(|program| program.run(data)).fold(action::ALLOW, |strictest, answer| {
            if order(answer) < order(strictest) {
                answer
            } else {
                strictest
            }
        })
    }

    /// What can become of calls with a number.
    pub fn possible(&self, number: u32) -> Possible {
        let all = Possible { passes: true, is_allowed: true };
        self.all().fold(all, |all, program| {
            let one = program.possible(number);
            Possible {
                passes: all.passes && one.passes,
                is_allowed: all.is_allowed && one.is_allowed,
            }
        })
    }

    /// Is `other` this, or among those that were there before?
    pub fn descends_from(self: &Arc<Chain>, other: &Arc<Chain>) -> bool {
        let mut next = Some(self);
        core::iter::from_fn(|| {
            let one = next?;
            next = one.before.as_ref();
            Some(one)
        })
        .any(|one| Arc::ptr_eq(one, other))
    }
}
