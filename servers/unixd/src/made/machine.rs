//! What `/sys` has of the machine: its processors, their caches, its memory, its devices.

use super::{Content, Inside, Live, Made, SYS};
use crate::caches::{self, Cache};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// So many cores, as bits: the first 64 at most.
pub fn first_cores(count: usize) -> u64 {
    u64::MAX.unbounded_shr(64 - count.clamp(1, 64) as u32)
}

/// A mask as these files have it, where there are so many cores, or nodes: words of 32 bits, the highest first.
pub fn mask_of(bits: u64, count: usize) -> String {
    let words = (0..count.div_ceil(32)).rev().map(|at| (bits.unbounded_shr(32 * at as u32)) as u32);
    let texts: Vec<String> = words
        .enumerate()
        .map(|(from_left, word)| match (from_left, count % 32) {
            // The first one has as many digits as there are bits.
            (0, some @ 1..) => format!("{word:0width$x}", width = some.div_ceil(4)),
            _ => format!("{word:08x}"),
        })
        .collect();
    texts.join(",")
}

/// Bits as ranges of their numbers.
pub fn list_of(mut bits: u64) -> String {
    let (mut ranges, mut at): (Vec<String>, u32) = (Vec::new(), 0);
    while bits != 0 {
        let first = at + bits.trailing_zeros();
        bits = bits.unbounded_shr(first - at);
        let last = first + bits.trailing_ones() - 1;
        bits = bits.unbounded_shr(last - first + 1);
        at = last + 1;
        ranges.push(if first == last { first.to_string() } else { format!("{first}-{last}") });
    }
    ranges.join(",")
}

/// Lines with a list of cores, and with their mask.
fn lines(bits: u64, cores: usize) -> (String, String) {
    (list_of(bits) + "\n", mask_of(bits, cores) + "\n")
}

impl Made {
    pub fn machine(&mut self, cores: usize, ram: u64) {
        self.processors(cores);
        self.memory(cores, ram);
        self.rest();
    }

    fn processors(&mut self, cores: usize) {
        let (all, all_mask) = lines(first_cores(cores), cores);
        let caches = caches::all();
        let cpu = "devices/system/cpu";
        for name in ["online", "possible", "present"] {
            self.fixed(&format!("{cpu}/{name}"), &all);
        }
        self.fixed(&format!("{cpu}/offline"), "\n");
        self.fixed(&format!("{cpu}/kernel_max"), &format!("{}\n", cores.max(1) - 1));
        for core in 0..cores {
            let topology = format!("{cpu}/cpu{core}/topology");
            let (own, own_mask) = lines(1 << core, cores);
            for (name, text) in [
                ("core_id", &own),
                ("physical_package_id", &String::from("0\n")),
                ("die_id", &String::from("0\n")),
                ("thread_siblings", &own_mask),
                ("thread_siblings_list", &own),
                ("core_cpus", &own_mask),
                ("core_cpus_list", &own),
                ("core_siblings", &all_mask),
                ("core_siblings_list", &all),
                ("package_cpus", &all_mask),
                ("package_cpus_list", &all),
            ] {
                self.fixed(&format!("{topology}/{name}"), text);
            }
            if core > 0 {
                self.fixed(&format!("{cpu}/cpu{core}/online"), "1\n");
            }
            for (index, cache) in caches.iter().enumerate() {
                let at = format!("{cpu}/cpu{core}/cache/index{index}");
                let (id, shared) = match cache.is_shared {
                    true => (0, (&all, &all_mask)),
                    false => (core, (&own, &own_mask)),
                };
                self.cache(&at, cache, id, shared);
            }
        }
    }

    /// A cache as a core sees it: its number, and who shares it.
    fn cache(&mut self, at: &str, cache: &Cache, id: usize, (list, mask): (&String, &String)) {
        for (name, text) in [
            ("level", format!("{}\n", cache.level)),
            ("type", format!("{}\n", cache.kind)),
            ("size", format!("{}K\n", cache.bytes() >> 10)),
            ("coherency_line_size", format!("{}\n", cache.line)),
            ("physical_line_partition", format!("{}\n", cache.partitions)),
            ("ways_of_associativity", format!("{}\n", cache.ways)),
            ("number_of_sets", format!("{}\n", cache.sets)),
            ("shared_cpu_map", mask.clone()),
            ("shared_cpu_list", list.clone()),
            ("id", format!("{id}\n")),
        ] {
            self.fixed(&format!("{at}/{name}"), &text);
        }
    }

    fn memory(&mut self, cores: usize, ram: u64) {
        let (all, all_mask) = lines(first_cores(cores), cores);
        let node = "devices/system/node";
        for name in ["online", "possible", "has_cpu", "has_memory", "has_normal_memory"] {
            self.fixed(&format!("{node}/{name}"), "0\n");
        }
        self.fixed(&format!("{node}/node0/cpulist"), &all);
        self.fixed(&format!("{node}/node0/cpumap"), &all_mask);
        self.fixed(&format!("{node}/node0/distance"), "10\n");
        self.add(SYS, &format!("{node}/node0/meminfo"), Content::Live(Live::NodeMemory));
        self.blocks(ram);
    }

    /// The memory in blocks, of which there are not many, however much memory there is.
    fn blocks(&mut self, ram: u64) {
        const LEAST: u64 = 128 << 20;
        const MOST: u64 = 32;
        let bytes = ram.div_ceil(MOST).next_power_of_two().max(LEAST);
        let memory = "devices/system/memory";
        self.fixed(&format!("{memory}/block_size_bytes"), &format!("{bytes:x}\n"));
        self.fixed(&format!("{memory}/auto_online_blocks"), "offline\n");
        for block in 0..ram.div_ceil(bytes) {
            for (name, text) in [
                ("phys_index", format!("{block:08x}\n")),
                ("state", String::from("online\n")),
                ("online", String::from("1\n")),
                ("removable", String::from("0\n")),
                ("phys_device", String::from("0\n")),
                ("valid_zones", String::from("none\n")),
            ] {
                self.fixed(&format!("{memory}/memory{block}/{name}"), &text);
            }
        }
    }

    fn rest(&mut self) {
        let large = "kernel/mm/transparent_hugepage";
        self.fixed(&format!("{large}/enabled"), "always [madvise] never\n");
        self.fixed(&format!("{large}/defrag"), "always defer defer+madvise [madvise] never\n");
        self.fixed(&format!("{large}/hpage_pmd_size"), "2097152\n");
        self.fixed(&format!("{large}/use_zero_page"), "0\n");
        let pages = "kernel/mm/hugepages/hugepages-2048kB";
        for name in ["nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages"] {
            self.fixed(&format!("{pages}/{name}"), "0\n");
        }
        for empty in [
            "fs/cgroup",
            "class/block",
            "block",
            "bus",
            "dev/block",
            "dev/char",
            "module",
            "firmware",
        ] {
            self.add(SYS, empty, Content::Dir);
        }
        for (name, text) in
            [("address", "00:00:00:00:00:00\n"), ("ifindex", "1\n"), ("type", "772\n")]
        {
            self.fixed(&format!("class/net/lo/{name}"), text);
        }
        for (name, fact) in
            [("mtu", Inside::Mtu), ("flags", Inside::Flags), ("operstate", Inside::State)]
        {
            self.add(SYS, &format!("class/net/lo/{name}"), Content::Live(Live::Inside(fact)));
        }
    }
}
