//! The text of `/proc/cpuinfo`.

use alloc::string::String;
use alloc::vec::Vec;
use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
use core::fmt::Write;

/// Names of the flags in one register, from bit 0 on; no name where it is empty.
type Names = [&'static str; 32];

/// Leaf 1, `edx`.
const BASIC: Names = [
    "fpu", "vme", "de", "pse", "tsc", "msr", "pae", "mce", "cx8", "apic", "", "sep", "mtrr", "pge",
    "mca", "cmov", "pat", "pse36", "pn", "clflush", "", "dts", "acpi", "mmx", "fxsr", "sse",
    "sse2", "ss", "ht", "tm", "ia64", "pbe",
];
/// Leaf 8000_0001, `edx`: what is not in leaf 1 as well.
const EXTENDED: Names = [
    "", "", "", "", "", "", "", "", "", "", "", "syscall", "", "", "", "", "", "", "", "mp", "nx",
    "", "mmxext", "", "", "fxsr_opt", "pdpe1gb", "rdtscp", "", "lm", "3dnowext", "3dnow",
];
/// Leaf 1, `ecx`.
const BASIC_MORE: Names = [
    "pni",
    "pclmulqdq",
    "dtes64",
    "monitor",
    "ds_cpl",
    "vmx",
    "smx",
    "est",
    "tm2",
    "ssse3",
    "cid",
    "sdbg",
    "fma",
    "cx16",
    "xtpr",
    "pdcm",
    "",
    "pcid",
    "dca",
    "sse4_1",
    "sse4_2",
    "x2apic",
    "movbe",
    "popcnt",
    "tsc_deadline_timer",
    "aes",
    "xsave",
    "",
    "avx",
    "f16c",
    "rdrand",
    "hypervisor",
];
/// Leaf 8000_0001, `ecx`.
const EXTENDED_MORE: Names = [
    "lahf_lm",
    "cmp_legacy",
    "svm",
    "extapic",
    "cr8_legacy",
    "abm",
    "sse4a",
    "misalignsse",
    "3dnowprefetch",
    "osvw",
    "ibs",
    "xop",
    "skinit",
    "wdt",
    "",
    "lwp",
    "fma4",
    "tce",
    "",
    "nodeid_msr",
    "",
    "tbm",
    "topoext",
    "perfctr_core",
    "perfctr_nb",
    "",
    "bpext",
    "ptsc",
    "perfctr_llc",
    "mwaitx",
    "",
    "",
];
/// Leaf 7, `ebx`.
const STRUCTURED: Names = [
    "fsgsbase",
    "tsc_adjust",
    "sgx",
    "bmi1",
    "hle",
    "avx2",
    "",
    "smep",
    "bmi2",
    "erms",
    "invpcid",
    "rtm",
    "cqm",
    "",
    "mpx",
    "rdt_a",
    "avx512f",
    "avx512dq",
    "rdseed",
    "adx",
    "smap",
    "avx512ifma",
    "",
    "clflushopt",
    "clwb",
    "intel_pt",
    "avx512pf",
    "avx512er",
    "avx512cd",
    "sha_ni",
    "avx512bw",
    "avx512vl",
];
/// Leaf 7, `ecx`.
const STRUCTURED_MORE: Names = [
    "",
    "avx512vbmi",
    "umip",
    "pku",
    "ospke",
    "waitpkg",
    "avx512_vbmi2",
    "",
    "gfni",
    "vaes",
    "vpclmulqdq",
    "avx512_vnni",
    "avx512_bitalg",
    "tme",
    "avx512_vpopcntdq",
    "",
    "la57",
    "",
    "",
    "",
    "",
    "",
    "rdpid",
    "",
    "bus_lock_detect",
    "cldemote",
    "",
    "movdiri",
    "movdir64b",
    "enqcmd",
    "sgx_lc",
    "",
];
/// Leaf 13, second part, `eax`.
const SAVING: Names = [
    "xsaveopt", "xsavec", "xgetbv1", "xsaves", "", "", "", "", "", "", "", "", "", "", "", "", "",
    "", "", "", "", "", "", "", "", "", "", "", "", "", "", "",
];

/// A leaf, zero if the processor does not have it.
pub fn leaf(number: u32, part: u32) -> CpuidResult {
    let range = number & 0x8000_0000;
    match __cpuid(range).eax >= number {
        true => __cpuid_count(number, part),
        false => CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
    }
}

fn text_of(registers: &[u32]) -> String {
    let bytes: Vec<u8> = registers.iter().flat_map(|register| register.to_le_bytes()).collect();
    let text = String::from_utf8_lossy(&bytes);
    String::from(text.trim_matches(|c| c == '\0' || c == ' '))
}

fn flags() -> String {
    let (basic, extended) = (leaf(1, 0), leaf(0x8000_0001, 0));
    let (structured, saving) = (leaf(7, 0), leaf(13, 1));
    let mut text = String::new();
    for (register, names) in [
        (basic.edx, &BASIC),
        (extended.edx, &EXTENDED),
        (basic.ecx, &BASIC_MORE),
        (extended.ecx, &EXTENDED_MORE),
        (saving.eax, &SAVING),
        (structured.ebx, &STRUCTURED),
        (structured.ecx, &STRUCTURED_MORE),
    ] {
        let set = names.iter().enumerate().filter(|(bit, _)| register >> bit & 1 != 0);
        for (_, name) in set.filter(|(_, name)| !name.is_empty()) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(name);
        }
    }
    text
}

/// The text. `hz`: of the time-stamp counter.
pub fn text(cores: usize, hz: u64) -> String {
    let (vendor, basic) = (leaf(0, 0), leaf(1, 0));
    let name: Vec<u32> = (0x8000_0002..=0x8000_0004)
        .map(|number| leaf(number, 0))
        .flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx])
        .collect();
    let signature = basic.eax;
    let (low_family, low_model) = (signature >> 8 & 15, signature >> 4 & 15);
    let family = if low_family == 15 { 15 + (signature >> 20 & 0xff) } else { low_family };
    let model = match family {
        0..=5 => low_model,
        _ => (signature >> 16 & 15) << 4 | low_model,
    };
    let sizes = leaf(0x8000_0008, 0).eax;
    let (vendor, name) = (text_of(&[vendor.ebx, vendor.edx, vendor.ecx]), text_of(&name));
    let (flags, line) = (flags(), (basic.ebx >> 8 & 0xff) * 8);
    let (mhz, thousandths) = (hz / 1_000_000, hz / 1000 % 1000);
    let mut text = String::new();
    for core in 0..cores {
        put!(
            text,
            "processor\t: {core}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: {name}\nstepping\t: {}\ncpu MHz\t\t: {mhz}.{thousandths:03}\n\
             physical id\t: {core}\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1\napicid\t\t: {core}\n\
             initial apicid\t: {core}\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: {}\nwp\t\t: yes\n\
             flags\t\t: {flags}\nbugs\t\t:\nbogomips\t: {}.{:02}\nclflush size\t: {line}\n\
             cache_alignment\t: {line}\naddress sizes\t: {} bits physical, {} bits virtual\n\
             power management:\n\n",
            signature & 15,
            leaf(0, 0).eax,
            hz / 500_000,
            hz / 5000 % 100,
            sizes & 0xff,
            sizes >> 8 & 0xff,
        );
    }
    text
}
