//! Filters against what Linux says of them, and what can become of calls against what becomes of them.

use callfilter::{action, Chain, Data, Instruction, Program, Refused, ARCHITECTURE, MOST};
use proptest::prelude::*;
use std::sync::Arc;

const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

const LD: u16 = 0x20;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const RET: u16 = 0x06;
const RET_A: u16 = 0x16;

fn call(number: u32, arguments: [u64; 6]) -> Data {
    Data { number, architecture: ARCHITECTURE, instruction: 0x1234_5678_9abc, arguments }
}

fn checked(code: &[Instruction]) -> Program {
    Program::check(code).unwrap()
}

fn chain(code: &[Instruction]) -> Chain {
    Chain::new(checked(code), None).unwrap()
}

/// Numbers below 100 are allowed, 101 if its second argument is 7, others are an error with the number of the call.
fn example() -> Vec<Instruction> {
    vec![
        i(LD, 0, 0, 4),
        i(JEQ, 1, 0, ARCHITECTURE),
        i(RET, 0, 0, action::KILL_PROCESS),
        i(LD, 0, 0, 0),
        i(JGE, 0, 5, 100),
        i(JEQ, 0, 5, 101),
        i(LD, 0, 0, 28),
        i(JEQ, 0, 4, 0),
        i(LD, 0, 0, 24),
        i(JEQ, 0, 2, 7),
        i(RET, 0, 0, action::ALLOW),
        i(LD, 0, 0, 0),
        i(0x44, 0, 0, action::ERRNO),
        i(RET_A, 0, 0, 0),
    ]
}

#[test]
fn an_example_answers() {
    let example = chain(&example());
    assert_eq!(example.run(&call(99, [0; 6])), action::ALLOW);
    assert_eq!(example.run(&call(101, [0, 7, 0, 0, 0, 0])), action::ALLOW);
    assert_eq!(example.run(&call(101, [0, 7 | 1 << 32, 0, 0, 0, 0])) & 0xffff_0000, action::ERRNO);
    assert_eq!(example.run(&Data { architecture: 3, ..call(1, [0; 6]) }), action::KILL_PROCESS);
}

#[test]
fn what_is_possible_for_an_example() {
    let example = chain(&example());
    let of = |number| {
        let possible = example.possible(number);
        (possible.passes, possible.is_allowed)
    };
    assert_eq!(of(0), (true, true));
    assert_eq!(of(99), (true, true));
    assert_eq!(of(101), (true, false));
    assert_eq!(of(100), (false, false));
    assert_eq!(of(400), (false, false));
}

#[test]
fn all_words_are_where_linux_has_them() {
    let data = Data {
        number: 0x0101,
        architecture: 0x0202,
        instruction: 0x0404_0000_0303,
        arguments: core::array::from_fn(|n| (2 * n as u64 + 6) << 32 | (2 * n as u64 + 5)),
    };
    let words: Vec<u32> =
        (0..16).map(|n| checked(&[i(LD, 0, 0, 4 * n), i(RET_A, 0, 0, 0)]).run(&data)).collect();
    assert_eq!(words, [0x101, 0x202, 0x303, 0x404, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
}

#[test]
fn what_linux_refuses() {
    let end = i(RET, 0, 0, 0);
    for code in [
        vec![],
        vec![i(LD, 0, 0, 0)],
        vec![i(LD, 0, 0, 64), end],
        vec![i(LD, 0, 0, 2), end],
        vec![i(0x28, 0, 0, 0), end],
        vec![i(0x30, 0, 0, 0), end],
        vec![i(0x40, 0, 0, 0), end],
        // Remainders are no part of filters.
        vec![i(0x94, 0, 0, 3), end],
        vec![i(0x9c, 0, 0, 3), end],
        vec![i(0x34, 0, 0, 0), end],
        vec![i(0x64, 0, 0, 32), end],
        vec![i(0x74, 0, 0, 32), end],
        vec![i(0x05, 0, 0, 1), end],
        vec![i(0x05, 0, 0, u32::MAX), end],
        vec![i(JEQ, 1, 0, 0), end],
        vec![i(JEQ, 0, 255, 0), end],
        vec![i(0x02, 0, 0, 16), end],
        vec![i(0x60, 0, 0, 0), end],
        vec![i(0x61, 0, 0, 3), end],
        // Written on one of two ways.
        vec![i(JEQ, 0, 1, 0), i(0x02, 0, 0, 1), i(0x60, 0, 0, 1), end],
        vec![i(0x0e, 0, 0, 0), end],
        vec![i(0x1006, 0, 0, 0)],
        vec![end; MOST + 1],
    ] {
        assert_eq!(Program::check(&code).err(), Some(Refused), "{code:?}");
    }
    for code in [
        vec![end; MOST],
        vec![i(0x3c, 0, 0, 0), end],
        vec![i(0x64, 0, 0, 31), end],
        vec![i(0x84, 0, 0, 0), end],
        vec![i(0x80, 0, 0, 0), end],
        vec![i(JEQ, 0, 1, 0), i(0x02, 0, 0, 1), i(0x02, 0, 0, 1), i(0x60, 0, 0, 1), end],
        // Nothing leads there.
        vec![i(0x05, 0, 0, 1), i(0x60, 0, 0, 1), end],
    ] {
        assert!(Program::check(&code).is_ok(), "{code:?}");
    }
}

#[test]
fn the_strictest_answer_counts_and_of_equals_the_newest() {
    let answers = |all: &[u32]| {
        let all = all.iter().fold(None, |before, answer| {
            Some(Arc::new(Chain::new(checked(&[i(RET, 0, 0, *answer)]), before).unwrap()))
        });
        all.unwrap().run(&call(0, [0; 6]))
    };
    use action::*;
    assert_eq!(answers(&[ALLOW | 3]), ALLOW);
    assert_eq!(answers(&[LOG, ALLOW]), LOG);
    assert_eq!(answers(&[ERRNO | 1, ERRNO | 2]), ERRNO | 2);
    assert_eq!(answers(&[ERRNO | 1, TRAP | 2, TRACE]), TRAP | 2);
    assert_eq!(answers(&[KILL_THREAD, KILL_PROCESS, KILL_THREAD]), KILL_PROCESS);
    // Unknown ones are strict.
    assert_eq!(answers(&[ALLOW, 0x1_0000]), 0x1_0000);
}

#[test]
fn chains_have_an_end() {
    let long = || checked(&[i(RET, 0, 0, action::ALLOW); MOST]);
    let mut all: Option<Arc<Chain>> = None;
    let mut count = 0;
    while let Some(more) = Chain::new(long(), all.clone()) {
        all = Some(Arc::new(more));
        count += 1;
    }
    assert_eq!(count, 7);
    let (first, second) = (Arc::new(chain(&example())), Arc::new(chain(&example())));
    let later = Arc::new(Chain::new(long(), Some(first.clone())).unwrap());
    assert!(later.descends_from(&first) && later.descends_from(&later));
    assert!(!later.descends_from(&second) && !first.descends_from(&later));
}

/// What a program answers, step by step with wide numbers and from the bytes of the structure: written another way than
/// the library.
fn naive(code: &[Instruction], data: &Data) -> u32 {
    let mut bytes = Vec::new();
    bytes.extend(data.number.to_le_bytes());
    bytes.extend(data.architecture.to_le_bytes());
    bytes.extend(data.instruction.to_le_bytes());
    data.arguments.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    let (mut a, mut x, mut cells, mut at) = (0u64, 0u64, [0u64; 16], 0usize);
    loop {
        let Instruction { code, jt, jf, k } = code[at];
        at += 1;
        let (class, mode, source) = (code & 7, code & 0xe0, code & 8);
        let operand = if source == 8 { x } else { k.into() };
        let cell = k as usize;
        match (class, mode) {
            (0, 0x20) => a = u32::from_le_bytes(bytes[cell..cell + 4].try_into().unwrap()).into(),
            (0, 0x60) => a = cells[cell],
            (0, 0x80) => a = 64,
            (0, _) => a = k.into(),
            (1, 0x60) => x = cells[cell],
            (1, 0x80) => x = 64,
            (1, _) => x = k.into(),
            (2, _) => cells[cell] = a,
            (3, _) => cells[cell] = x,
            (4, _) => {
                a = match code & 0xf0 {
                    0x00 => a + operand,
                    0x10 => a + (1 << 32) - operand,
                    0x20 => a * operand,
                    0x30 if operand == 0 => return 0,
                    0x30 => a / operand,
                    0x40 => a | operand,
                    0x50 => a & operand,
                    0x60 => a << (operand % 32),
                    0x70 => a >> (operand % 32),
                    0x80 => (1 << 32) - a,
                    _ => a ^ operand,
                } % (1 << 32);
            }
            (5, _) => {
                let skip = match code & 0xf0 {
                    0x00 => k as usize,
                    0x10 => if a == operand { jt } else { jf }.into(),
                    0x20 => if a > operand { jt } else { jf }.into(),
                    0x30 => if a >= operand { jt } else { jf }.into(),
                    _ => if a & operand != 0 { jt } else { jf }.into(),
                };
                at += skip;
            }
            (6, _) => return if code & 0x18 == 0x10 { a as u32 } else { k },
            _ if code & 0xf8 == 0x80 => a = x,
            _ => x = a,
        }
    }
}

fn instruction() -> impl Strategy<Value = Instruction> {
    const CODES: [u16; 38] = [
        0x20, 0x20, 0x20, 0x80, 0x81, 0x00, 0x01, 0x60, 0x61, 0x02, 0x03, 0x06, 0x16, 0x07, 0x87,
        0x05, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c,
        0x74, 0x7c, 0x84, 0x15, 0x1d, 0x25, 0x35, 0x45,
    ];
    let constant = prop_oneof![
        (0u32..16).prop_map(|n| 4 * n),
        0u32..4,
        Just(ARCHITECTURE),
        any::<u32>(),
        prop::sample::select(
            &[action::ALLOW, action::ERRNO | 1, action::KILL_THREAD, action::TRACE][..]
        ),
    ];
    (prop::sample::select(&CODES[..]), 0u8..4, 0u8..4, constant).prop_map(|(code, jt, jf, k)| {
        // Jumps and cells that are often there.
        let k = match code {
            0x05 | 0x60 | 0x61 | 0x02 | 0x03 => k % 4,
            0x64 | 0x74 => k % 32,
            _ => k,
        };
        i(code, jt, jf, k)
    })
}

fn data() -> impl Strategy<Value = Data> {
    let word = prop_oneof![0u64..8, any::<u64>()];
    (
        0u32..8,
        prop_oneof![Just(ARCHITECTURE), any::<u32>()],
        word.clone(),
        prop::array::uniform6(word),
    )
        .prop_map(|(number, architecture, instruction, arguments)| Data {
            number,
            architecture,
            instruction,
            arguments,
        })
}

/// Stores to the first four cells first, so that more programs are taken.
fn program() -> impl Strategy<Value = Vec<Instruction>> {
    prop::collection::vec(instruction(), 0..24).prop_map(|body| {
        let mut all: Vec<Instruction> = (0..4).map(|cell| i(0x02, 0, 0, cell)).collect();
        all.extend(body);
        all.extend([
            i(RET, 0, 0, action::ALLOW),
            i(RET, 0, 0, action::ERRNO),
            i(RET_A, 0, 0, 0),
            i(RET, 0, 0, 0),
        ]);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn programs_answer_as_the_naive_ones_do(code in program(), calls in prop::collection::vec(data(), 1..20)) {
        if let Ok(program) = Program::check(&code) {
            for data in &calls {
                prop_assert_eq!(program.run(data), naive(&code, data));
            }
        }
    }

    #[test]
    fn what_is_impossible_never_happens(code in program(), calls in prop::collection::vec(data(), 1..40)) {
        if let Ok(program) = Program::check(&code) {
            let chain = Chain::new(program, None).unwrap();
            for data in &calls {
                let data = Data { architecture: ARCHITECTURE, ..*data };
                let (answer, possible) = (chain.run(&data), chain.possible(data.number));
                prop_assert!(possible.passes || !action::passes(answer));
                prop_assert!(!possible.is_allowed || action::of(answer) == action::ALLOW);
            }
        }
    }

    #[test]
    fn nothing_makes_it_stumble(code in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>()), 0..40),
                                data in data()) {
        let code: Vec<Instruction> = code.into_iter().map(|(code, jt, jf, k)| i(code % 0x100, jt % 8, jf % 8, k)).collect();
        if let Ok(program) = Program::check(&code) {
            program.run(&data);
        }
        for one in code {
            prop_assert_eq!(Instruction::read(one.bytes()), one);
        }
    }
}
