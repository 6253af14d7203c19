//! Entries, registers and records, beside the numbers of the architecture's manual.

use vtd::{command, root_entry, Abilities, Context, Fault, FaultStatus, PAGE};

/// A unit as QEMU has it: 39 and 48 bits, 65,536 domains, one record at 0x220, the cache's register at 0xf8.
const UNIT: Abilities = Abilities {
    base: 6 | 6 << 8 | 47 << 16 | 0x22 << 24 | 3 << 34,
    extended: 1 << 1 | 1 << 6 | 0xf << 8,
};

#[test]
fn a_unit_is_usable_if_it_has_all_that_is_needed() {
    assert!(UNIT.suffice() && !UNIT.is_coherent());
    assert_eq!((UNIT.iotlb(), UNIT.record(0), UNIT.records()), (0xf8, 0x220, 1));
    assert_eq!(UNIT.widest(), 2);
    let without = |bit: u64| Abilities { base: UNIT.base & !bit, ..UNIT };
    assert!(!without(1 << 9).suffice(), "three levels");
    assert!(!without(7).suffice(), "domains");
    let extended = |extended| Abilities { extended, ..UNIT };
    assert!(!extended(UNIT.extended & !(1 << 6)).suffice(), "functions that pass");
    assert!(!extended(UNIT.extended | 0x3ff << 8).suffice(), "a register behind the page");
    let base = |base| Abilities { base, ..UNIT };
    assert!(!base(UNIT.base | 1 << 4).suffice(), "a buffer that must be flushed");
    assert!(!base(UNIT.base | 0x3ff << 24).suffice(), "a record behind the page");
    assert!(!base(UNIT.base | 0xff << 40).suffice(), "the last record behind the page");
    assert_eq!(base(UNIT.base & !(4 << 8)).widest(), 1);
    assert_eq!(base(UNIT.base | 8 << 8).widest(), 3);
}

#[test]
fn nothing_that_a_unit_says_makes_it_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..100_000 {
        let any = Abilities { base: random.u64(..), extended: random.u64(..) };
        if any.suffice() {
            assert!(any.iotlb() as u64 + 8 <= PAGE && any.record(any.records()) as u64 <= PAGE);
        }
        assert!((1..=3).contains(&any.widest()));
    }
}

#[test]
fn entries_of_functions() {
    let table = 0x1234_5000;
    let translate = Context::Translate(table).encode(0x18, UNIT);
    assert_eq!(translate, [table | 1, 0x1a << 8 | 1]);
    assert_eq!(Context::Pass.encode(0x18, UNIT), [0b1001, 1 << 8 | 2]);
    assert_eq!(Context::Refuse.encode(0x18, UNIT), [0, 0]);
    assert_eq!(root_entry(table), [table | 1, 0]);
    for context in [Context::Translate(table), Context::Pass, Context::Refuse] {
        assert_eq!(Context::decode(context.encode(7, UNIT)[0]), context);
    }
}

#[test]
fn functions_have_domains_of_their_own() {
    let domain = |function, context: Context| context.encode(function, UNIT)[1] >> 8;
    let mut all: Vec<_> =
        (0..=255).map(|function| domain(function, Context::Translate(PAGE))).collect();
    all.push(domain(9, Context::Pass));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 257);
    // As many as a unit that suffices has; some keep 0 for themselves.
    assert!(all.iter().all(|&domain| domain > 0 && domain < 1 << 10));
}

#[test]
fn records_of_faults() {
    let words = [0x1234_5000, Fault::IN_USE | 5 << 32 | 0x18];
    let fault = Fault { source: 0x18, address: 0x1234_5000, reason: 5, is_write: true };
    assert_eq!(Fault::decode(words), Some(fault));
    let read = Fault { is_write: false, ..fault };
    assert_eq!(Fault::decode([words[0], words[1] | 1 << 62]), Some(read));
    assert_eq!(Fault::decode([words[0], words[1] & !Fault::IN_USE]), None);
    assert!(FaultStatus(1).has_lost() && !FaultStatus(2).has_lost());
    assert!(FaultStatus(2).is_pending() && !FaultStatus(1).is_pending());
    assert_eq!(FaultStatus(0x0302).first(), 3);
}

#[test]
fn commands_keep_what_is_on() {
    let on = command::TRANSLATE | command::SET_ROOT | 1 << 26;
    assert_eq!(command::with(on, command::SET_ROOT), on);
    assert_eq!(command::with(on, 0), command::TRANSLATE | 1 << 26);
}
