//! The firmware's table, as it is and as it should not be.

use vtd::unit;

fn entry(kind: u16, flags: u8, segment: u16, base: u64, scopes: usize) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((16 + scopes as u16).to_le_bytes());
    bytes.extend([flags, 0]);
    bytes.extend(segment.to_le_bytes());
    bytes.extend(base.to_le_bytes());
    bytes.resize(16 + scopes, 0x5a);
    bytes
}

const BASE: u64 = 0xfed9_0000;

#[test]
fn the_unit_of_all_functions_is_found() {
    let table = entry(0, 1, 0, BASE, 8);
    assert_eq!(unit(&table), Some(BASE));
    // Among others, and with one of another segment.
    let others = [entry(1, 0, 0, 1, 24), entry(0, 1, 7, 0x1000, 0), entry(9, 0, 0, 0, 3)].concat();
    assert_eq!(unit(&[others.clone(), table.clone(), others].concat()), Some(BASE));
}

#[test]
fn a_machine_with_several_or_none_is_left_alone() {
    let table = entry(0, 1, 0, BASE, 0);
    assert_eq!(unit(&[]), None);
    assert_eq!(unit(&entry(1, 1, 0, BASE, 0)), None);
    assert_eq!(unit(&entry(0, 0, 0, BASE, 6)), None, "it has only some functions");
    assert_eq!(unit(&[table.clone(), table.clone()].concat()), None);
    assert_eq!(unit(&[entry(0, 0, 0, BASE, 6), table].concat()), None);
}

#[test]
fn malformed_tables_are_ignored() {
    for base in [0, 1, BASE + 8, 1 << 52, u64::MAX] {
        assert_eq!(unit(&entry(0, 1, 0, base, 0)), None);
    }
    let table = entry(0, 1, 0, BASE, 0);
    for end in 0..table.len() {
        assert_eq!(unit(&table[..end]), None, "{end} bytes");
    }
    for length in [0u16, 1, 3, 15, 17, u16::MAX] {
        let mut wrong = table.clone();
        wrong[2..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(unit(&wrong), None, "length {length}");
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
            bytes =
                entry(random.u16(..2), random.u8(..4), random.u16(..2), BASE, random.usize(..8));
            for _ in 0..random.usize(..3) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
        }
        if let Some(base) = unit(&bytes) {
            assert!(base != 0 && base % 4096 == 0 && base >> 52 == 0);
            found += 1;
        }
    }
    assert!(found > 1000, "{found}");
}
