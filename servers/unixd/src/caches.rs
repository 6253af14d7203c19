//! The caches of a processor, as it describes them itself.

use crate::cpuinfo::leaf;
use alloc::vec::Vec;

/// A cache.
pub struct Cache {
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: &'static str,
    /// Bytes of a line, lines that are tagged together, ways and sets.
    pub line: u32,
    pub partitions: u32,
    pub ways: u32,
    pub sets: u32,
    /// By all cores.
    pub is_shared: bool,
}

impl Cache {
    /// How large it is.
    pub fn bytes(&self) -> u64 {
        [self.line, self.partitions, self.ways, self.sets].map(u64::from).iter().product()
    }
}

/// `AuthenticAMD`, as the first leaf says it.
const AMD: [u32; 3] = [0x6874_7541, 0x6974_6e65, 0x444d_4163];
/// In leaf 8000_0001, `ecx`: there is leaf 8000_001d.
const DESCRIBES_CACHES: u32 = 1 << 22;

/// All of a core.
pub fn all() -> Vec<Cache> {
    let vendor = leaf(0, 0);
    let is_amd = [vendor.ebx, vendor.edx, vendor.ecx] == AMD;
    match (is_amd, leaf(0x8000_0001, 0).ecx & DESCRIBES_CACHES != 0) {
        (false, _) => described(4),
        (true, true) => described(0x8000_001d),
        (true, false) => of_sizes(),
    }
}

/// From a leaf that has a part for each.
fn described(number: u32) -> Vec<Cache> {
    /// More than any processor has.
    const MOST: u32 = 16;
    let parts = (0..MOST).map(|part| leaf(number, part));
    let kinds = |eax: u32| match eax & 31 {
        1 => Some("Data"),
        2 => Some("Instruction"),
        3 => Some("Unified"),
        _ => None,
    };
    let of = |part: core::arch::x86_64::CpuidResult| {
        let level = part.eax >> 5 & 7;
        Some(Cache {
            level,
            kind: kinds(part.eax)?,
            line: (part.ebx & 0xfff) + 1,
            partitions: (part.ebx >> 12 & 0x3ff) + 1,
            ways: (part.ebx >> 22) + 1,
            sets: part.ecx.wrapping_add(1),
            is_shared: level > 2,
        })
    };
    parts.map_while(of).collect()
}

/// From the leaves that have sizes only.
fn of_sizes() -> Vec<Cache> {
    let (first, more) = (leaf(0x8000_0005, 0), leaf(0x8000_0006, 0));
    let exact = |register: u32| (u64::from(register >> 24) << 10, register >> 16 & 0xff, register);
    let coded = |register: u32, bytes: u64| (bytes, ways_of(register >> 12 & 15), register);
    let all = [
        (1, "Data", exact(first.ecx)),
        (1, "Instruction", exact(first.edx)),
        (2, "Unified", coded(more.ecx, u64::from(more.ecx >> 16) << 10)),
        (3, "Unified", coded(more.edx, u64::from(more.edx >> 18) << 19)),
    ];
    let there = all.into_iter().filter_map(|(level, kind, (bytes, ways, register))| {
        let line = register & 0xff;
        let ways = match ways {
            0xff | u32::MAX => u32::try_from(bytes.checked_div(line.into())?).ok()?,
            ways => ways,
        };
        let sets = bytes.checked_div(u64::from(line) * u64::from(ways))?;
        let sets = u32::try_from(sets).ok().filter(|sets| *sets > 0)?;
        Some(Cache { level, kind, line, partitions: 1, ways, sets, is_shared: level > 2 })
    });
    there.collect()
}

/// From its code; all ones: as many as there are lines.
fn ways_of(code: u32) -> u32 {
    match code {
        6 => 8,
        8 => 16,
        10 => 32,
        11 => 48,
        12 => 64,
        13 => 96,
        14 => 128,
        15 => u32::MAX,
        code => code,
    }
}
