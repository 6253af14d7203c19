//! The firmware's table, as it is and as it should not be.

use vtd::{unit, Functions};

fn entry(kind: u16, flags: u8, segment: u16, base: u64, scopes: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((16 + scopes.len() as u16).to_le_bytes());
    bytes.extend([flags, 0]);
    bytes.extend(segment.to_le_bytes());
    bytes.extend(base.to_le_bytes());
    bytes.extend(scopes);
    bytes
}

fn all(base: u64) -> Vec<u8> {
    entry(0, 1, 0, base, &[])
}

fn base(table: &[u8]) -> Option<u64> {
    unit(table).map(|unit| unit.base)
}

const BASE: u64 = 0xfed9_0000;

/// As QEMU has it: the interrupt controller, and the functions 00.0, 01.0, 1f.0, 1f.2 and 1f.3.
const SCOPES: [u8; 48] = [
    3, 8, 0, 0, 0, 0xff, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 1, 8, 0, 0, 0, 0, 1, 0, 1, 8, 0, 0, 0, 0,
    0x1f, 0, 1, 8, 0, 0, 0, 0, 0x1f, 2, 1, 8, 0, 0, 0, 0, 0x1f, 3,
];

#[test]
fn the_unit_of_all_functions_is_found() {
    let table = entry(0, 1, 0, BASE, &SCOPES[..8]);
    assert_eq!(base(&table), Some(BASE));
    assert_eq!(unit(&table).unwrap().functions, Functions::ALL);
    // Among others, and with one of another segment.
    let others =
        [entry(1, 0, 0, 1, &[9; 24]), entry(0, 1, 7, 0x1000, &[]), entry(9, 0, 0, 0, &[1])];
    assert_eq!(base(&[others.concat(), table.clone(), others.concat()].concat()), Some(BASE));
}

#[test]
fn functions_may_be_named_one_by_one() {
    let found = unit(&entry(0, 0, 0, BASE, &SCOPES)).unwrap();
    assert_eq!(found.base, BASE);
    let named: Vec<u8> = (0..=255).filter(|&function| found.functions.has(function)).collect();
    assert_eq!(named, [0, 8, 0xf8, 0xfa, 0xfb]);
    // On another bus, behind a bridge, and by two steps.
    let others = [1, 8, 0, 0, 0, 1, 2, 0, 2, 8, 0, 0, 0, 0, 3, 0, 1, 10, 0, 0, 0, 0, 4, 0, 5, 0];
    let found = unit(&entry(0, 0, 0, BASE, &others)).unwrap();
    assert!((0..=255).all(|function| !found.functions.has(function)));
    assert!((0..=255).all(|function| Functions::ALL.has(function)));
}

#[test]
fn a_machine_with_several_or_none_is_left_alone() {
    assert_eq!(unit(&[]), None);
    assert_eq!(unit(&entry(1, 1, 0, BASE, &[])), None);
    assert_eq!(unit(&[all(BASE), all(BASE)].concat()), None);
    assert_eq!(unit(&[entry(0, 0, 0, BASE, &SCOPES), all(0x1000)].concat()), None);
}

#[test]
fn malformed_tables_are_ignored() {
    for base in [0, 1, BASE + 8, 1 << 52, u64::MAX] {
        assert_eq!(unit(&all(base)), None);
    }
    let table = entry(0, 0, 0, BASE, &SCOPES);
    for end in 0..table.len() {
        assert_eq!(unit(&table[..end]), None, "{end} bytes");
    }
    for length in [0u16, 1, 3, 15, 17, 63, 65, u16::MAX] {
        let mut wrong = table.clone();
        wrong[2..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(unit(&wrong), None, "length {length}");
    }
    for length in [0, 1, 5, 7, 9, 255] {
        let mut wrong = SCOPES;
        wrong[41] = length;
        assert_eq!(unit(&entry(0, 0, 0, BASE, &wrong)), None, "length {length} of a scope");
    }
    for (device, function) in [(32, 0), (0, 8), (255, 255)] {
        let mut wrong = SCOPES;
        (wrong[46], wrong[47]) = (device, function);
        assert_eq!(unit(&entry(0, 0, 0, BASE, &wrong)), None);
    }
    // An entry of no length behind the right one.
    assert_eq!(unit(&[table, vec![5, 0, 0, 0]].concat()), None);
}

/// Whatever the bytes are, the answer is none or the address of a page.
#[test]
fn random_bytes() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut found = 0;
    for _ in 0..200_000 {
        let mut bytes: Vec<u8> = (0..random.usize(..80)).map(|_| random.u8(..)).collect();
        if random.bool() {
            // Often nearly right.
            let scopes = &SCOPES[..8 * random.usize(..7)];
            bytes = entry(random.u16(..2), random.u8(..4), random.u16(..2), BASE, scopes);
            for _ in 0..random.usize(..3) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
        }
        if let Some(unit) = unit(&bytes) {
            assert!(unit.base != 0 && unit.base % 4096 == 0 && unit.base >> 52 == 0);
            found += 1;
        }
    }
    assert!(found > 1000, "{found}");
}
