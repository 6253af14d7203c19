//! `/proc/sys` and `/sys`: what programs ask about the machine and the limits of the system. Names are made at start; what a
//! file says is made when it is opened.

use crate::clock::Clock;
use crate::messages::QUEUES_MOST;
use crate::procs::{PID_MAX, PROCESSES_MAX};
use crate::proctext::Texts;
use crate::segments::SEGMENTS_MOST;
use crate::volumes::MOUNTS_MAX;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;
use unixproto::Errno;

/// As `uname` has them.
pub const RELEASE: &str = "6.1.0-tessera";
/// What filters of system calls can answer, and which of that would be told.
const ACTIONS: &str = "kill_process kill_thread trap errno trace log allow";
const ACTIONS_LOGGED: &str = "kill_process kill_thread trap errno trace log";
const VERSION: &str = concat!("#1 Tessera ", env!("CARGO_PKG_VERSION"));

/// What an entry is.
#[derive(Debug)]
enum Content {
    Dir,
    /// A file that always says the same.
    Fixed(String),
    /// A file of which the text is made.
    Live(Live),
    /// A file that says a number, and takes another one from root.
    Setting(Setting),
}

/// Numbers that root changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// Seconds that the holder of a lease has to give it up; 0 or less: as long as it takes.
    LeaseBreakTime,
    /// Leases are given; 0: no new ones.
    LeasesEnable,
    /// Signals tell of directories; 0: nobody can begin with that, or end it.
    DirNotifyEnable,
}

/// What they are at first, by number.
const SETTINGS: [i32; 3] = [45, 1, 1];

/// What a text is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Live {
    HostName,
    DomainName,
    FileNumber,
    InodeNumber,
    Uuid,
    NodeMemory,
    Inside(Inside),
}

/// What is told of the interface inside of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    Mtu,
    Flags,
    State,
}

#[derive(Debug)]
struct Entry {
    above: u16,
    name: String,
    content: Content,
}

/// All entries, by number.
#[derive(Debug, Default)]
pub struct Made {
    all: Vec<Entry>,
    uuids: Cell<u64>,
    settings: [Cell<i32>; SETTINGS.len()],
}

/// The root of `/sys`.
pub const SYS: u16 = 0;
/// `/proc/sys`.
pub const TUNABLES: u16 = 1;

/// 128 bits that look like chance. They are names, not secrets: whoever knows when they were made may guess them.
fn uuid(mut seed: u64) -> String {
    let mut next = || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let (a, b) = (next(), next());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}\n",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        0x8000 | b >> 48 & 0x3fff,
        b & 0xffff_ffff_ffff
    )
}

/// The first number of a text: decimal, octal behind `0`, hexadecimal behind `0x`. With it come the bytes that it takes with the blanks on
/// both sides.
fn first_number(text: &[u8]) -> Option<(i32, usize)> {
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let behind = |from: usize, ends: fn(&u8) -> bool| {
        text[from..].iter().position(ends).map_or(text.len(), |length| from + length)
    };
    let end = behind(start, |byte| matches!(byte, b' ' | b'\t' | b'\n'));
    let word = core::str::from_utf8(&text[start..end]).ok()?;
    let (digits, sign) = word.strip_prefix('-').map_or((word, 1), |digits| (digits, -1));
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    // It takes a sign, too, of which there was one already.
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let value = i64::from_str_radix(digits, radix).ok()?;
    let value = i32::try_from(sign * value).ok()?;
    Some((value, behind(end, |byte| !byte.is_ascii_whitespace())))
}

fn list(count: usize) -> String {
    match count {
        0 | 1 => String::from("0\n"),
        count => format!("0-{}\n", count - 1),
    }
}

/// A mask of cores as these files have it: words of 32 bits, the highest first.
fn mask(cores: core::ops::Range<usize>) -> String {
    let words = cores.end.max(1).div_ceil(32);
    let word = |at: usize| {
        cores
            .clone()
            .filter(|core| core / 32 == at)
            .fold(0u32, |word, core| word | 1 << (core % 32))
    };
    let all: Vec<String> =
        (0..words)
            .rev()
            .map(|at| {
                if at + 1 == words {
                    format!("{:x}", word(at))
                } else {
                    format!("{:08x}", word(at))
                }
            })
            .collect();
    all.join(",") + "\n"
}

impl Made {
    /// Of a machine with so many cores, where the layout of programs is chosen so.
    pub fn new(cores: usize, clock: &Clock, randomizes: u32) -> Made {
        let mut made = Made { settings: SETTINGS.map(Cell::new), ..Made::default() };
        made.all.push(Entry { above: SYS, name: String::new(), content: Content::Dir });
        made.all.push(Entry { above: TUNABLES, name: String::new(), content: Content::Dir });
        made.uuids.set(clock.boot_wall() ^ clock.hz());
        made.tunables(&uuid(clock.boot_wall()), randomizes);
        made.machine(cores);
        made
    }

    fn tunables(&mut self, boot_id: &str, randomizes: u32) {
        let number = |number: usize| format!("{number}\n");
        for (path, text) in [
            ("kernel/ostype", String::from("Linux\n")),
            ("kernel/osrelease", format!("{RELEASE}\n")),
            ("kernel/version", format!("{VERSION}\n")),
            ("net/ipv4/igmp_max_memberships", number(inet::MEMBERSHIPS_MOST)),
            ("net/ipv4/igmp_max_msf", number(inet::SENDERS_MOST)),
            ("kernel/pid_max", number(PID_MAX as usize + 1)),
            ("kernel/threads-max", number(PROCESSES_MAX)),
            ("kernel/tainted", number(0)),
            ("kernel/randomize_va_space", number(randomizes as usize)),
            ("kernel/core_pattern", String::from("core\n")),
            ("kernel/core_uses_pid", number(0)),
            ("kernel/ngroups_max", number(credentials::Groups::MOST)),
            ("kernel/cap_last_cap", number(credentials::CapSet::COUNT as usize - 1)),
            ("kernel/overflowuid", number(credentials::OVERFLOW_ID as usize)),
            ("kernel/overflowgid", number(credentials::OVERFLOW_ID as usize)),
            ("kernel/seccomp/actions_avail", format!("{ACTIONS}\n")),
            ("kernel/seccomp/actions_logged", format!("{ACTIONS_LOGGED}\n")),
            ("kernel/shmmax", number(memfs::SIZE_MAX as usize)),
            ("kernel/shmall", number(memfs::SIZE_MAX as usize >> 12)),
            ("kernel/shmmni", number(SEGMENTS_MOST)),
            ("kernel/msgmax", number(unixproto::ipc::MESSAGE_MOST)),
            ("kernel/msgmnb", number(unixproto::ipc::QUEUE_BYTES_MOST)),
            ("kernel/msgmni", number(QUEUES_MOST)),
            ("kernel/random/boot_id", String::from(boot_id)),
            ("kernel/random/poolsize", number(256)),
            ("kernel/random/entropy_avail", number(256)),
            ("kernel/yama/ptrace_scope", number(0)),
            ("fs/file-max", number(crate::descs::DESCS_MAX)),
            ("fs/pipe-max-size", number(unixproto::files::PIPE_BYTES_MOST as usize)),
            ("fs/pipe-user-pages-soft", number(crate::pipes::USER_PAGES)),
            ("fs/pipe-user-pages-hard", number(0)),
            ("fs/nr_open", number(crate::procs::HELD_MAX)),
            ("fs/mount-max", number(MOUNTS_MAX)),
            ("fs/overflowuid", number(credentials::OVERFLOW_ID as usize)),
            ("fs/overflowgid", number(credentials::OVERFLOW_ID as usize)),
            ("fs/protected_hardlinks", number(1)),
            ("fs/protected_symlinks", number(1)),
            ("fs/suid_dumpable", number(0)),
            ("fs/inotify/max_user_instances", number(crate::notify::INSTANCES_MOST)),
            ("fs/fanotify/max_queued_events", number(notices::fan::MOST)),
            ("fs/fanotify/max_user_groups", number(crate::fanotify::GROUPS_MOST)),
            ("fs/fanotify/max_user_marks", number(crate::fanotify::MARKS_MOST)),
            ("user/max_user_namespaces", number(crate::spaces::SPACES_MAX / 2)),
            ("user/max_ipc_namespaces", number(crate::spaces::SPACES_MAX / 2)),
            ("user/max_uts_namespaces", number(crate::spaces::SPACES_MAX / 2)),
            ("vm/nr_hugepages", number(0)),
        ] {
            self.add(TUNABLES, path, Content::Fixed(text));
        }
        for (path, live) in [
            ("kernel/hostname", Live::HostName),
            ("kernel/domainname", Live::DomainName),
            ("kernel/random/uuid", Live::Uuid),
            ("fs/file-nr", Live::FileNumber),
            ("fs/inode-nr", Live::InodeNumber),
        ] {
            self.add(TUNABLES, path, Content::Live(live));
        }
        for (path, setting) in [
            ("fs/lease-break-time", Setting::LeaseBreakTime),
            ("fs/leases-enable", Setting::LeasesEnable),
            ("fs/dir-notify-enable", Setting::DirNotifyEnable),
        ] {
            self.add(TUNABLES, path, Content::Setting(setting));
        }
    }

    fn machine(&mut self, cores: usize) {
        let all = list(cores);
        let cpu = "devices/system/cpu";
        for name in ["online", "possible", "present"] {
            self.fixed(&format!("{cpu}/{name}"), &all);
        }
        self.fixed(&format!("{cpu}/offline"), "\n");
        self.fixed(&format!("{cpu}/kernel_max"), &format!("{}\n", cores.max(1) - 1));
        for core in 0..cores {
            let topology = format!("{cpu}/cpu{core}/topology");
            let (own, own_mask) = (format!("{core}\n"), mask(core..core + 1));
            for (name, text) in [
                ("core_id", &own),
                ("physical_package_id", &String::from("0\n")),
                ("die_id", &String::from("0\n")),
                ("thread_siblings", &own_mask),
                ("thread_siblings_list", &own),
                ("core_cpus", &own_mask),
                ("core_cpus_list", &own),
                ("core_siblings", &mask(0..cores)),
                ("core_siblings_list", &all),
                ("package_cpus", &mask(0..cores)),
                ("package_cpus_list", &all),
            ] {
                self.fixed(&format!("{topology}/{name}"), text);
            }
            if core > 0 {
                self.fixed(&format!("{cpu}/cpu{core}/online"), "1\n");
            }
        }
        let node = "devices/system/node";
        for name in ["online", "possible", "has_cpu", "has_memory", "has_normal_memory"] {
            self.fixed(&format!("{node}/{name}"), "0\n");
        }
        self.fixed(&format!("{node}/node0/cpulist"), &all);
        self.fixed(&format!("{node}/node0/cpumap"), &mask(0..cores));
        self.fixed(&format!("{node}/node0/distance"), "10\n");
        self.add(SYS, &format!("{node}/node0/meminfo"), Content::Live(Live::NodeMemory));
        let large = "kernel/mm/transparent_hugepage";
        self.fixed(&format!("{large}/enabled"), "always [madvise] never\n");
        self.fixed(&format!("{large}/defrag"), "always defer defer+madvise [madvise] never\n");
        self.fixed(&format!("{large}/hpage_pmd_size"), "2097152\n");
        self.fixed(&format!("{large}/use_zero_page"), "0\n");
        let pages = "kernel/mm/hugepages/hugepages-2048kB";
        for name in ["nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages"] {
            self.fixed(&format!("{pages}/{name}"), "0\n");
        }
        for empty in ["fs/cgroup", "class/block", "block", "bus", "module", "firmware"] {
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

    fn fixed(&mut self, path: &str, text: &str) {
        self.add(SYS, path, Content::Fixed(text.to_string()));
    }

    fn add(&mut self, mut at: u16, path: &str, content: Content) {
        let mut names = path.split('/').peekable();
        let mut content = Some(content);
        while let Some(name) = names.next() {
            let found = self.lookup(at, name.as_bytes());
            let is_last = names.peek().is_none();
            at = match found {
                Some(found) => found,
                None => {
                    let content = if is_last { content.take() } else { None };
                    let content = content.unwrap_or(Content::Dir);
                    self.all.push(Entry { above: at, name: name.to_string(), content });
                    self.all.len() as u16 - 1
                }
            };
        }
    }

    fn entry(&self, number: u16) -> Option<&Entry> {
        self.all.get(number as usize)
    }

    /// The entry with a name in a directory.
    pub fn lookup(&self, dir: u16, name: &[u8]) -> Option<u16> {
        let is_it =
            |(_, entry): &(usize, &Entry)| entry.above == dir && entry.name.as_bytes() == name;
        self.all.iter().enumerate().skip(2).find(is_it).map(|(number, _)| number as u16)
    }

    /// The entries of a directory: name, is it a directory, number.
    pub fn entries(&self, dir: u16) -> impl Iterator<Item = (&str, bool, u16)> {
        let all = self.all.iter().enumerate().skip(2).filter(move |(_, entry)| entry.above == dir);
        all.map(|(number, entry)| {
            (&entry.name[..], matches!(entry.content, Content::Dir), number as u16)
        })
    }

    /// The directory that it is in; a root is in itself.
    pub fn above(&self, number: u16) -> u16 {
        self.entry(number).map_or(number, |entry| entry.above)
    }

    /// Is it in `/proc`, and not in `/sys`?
    pub fn is_tunable(&self, mut number: u16) -> bool {
        while self.above(number) != number {
            number = self.above(number);
        }
        number == TUNABLES
    }

    /// Is it a directory?
    pub fn is_dir(&self, number: u16) -> bool {
        self.entry(number).is_some_and(|entry| matches!(entry.content, Content::Dir))
    }

    /// What its text is about, if it is made when somebody looks.
    pub fn live(&self, number: u16) -> Option<Live> {
        match self.entry(number)?.content {
            Content::Live(live) => Some(live),
            _ => None,
        }
    }

    /// Can it be written?
    pub fn is_written(&self, number: u16) -> bool {
        matches!(
            self.entry(number).map(|entry| &entry.content),
            Some(Content::Live(Live::HostName | Live::DomainName) | Content::Setting(_))
        )
    }

    /// A number that root changes.
    pub fn setting(&self, which: Setting) -> i32 {
        self.settings[which as usize].get()
    }

    /// Takes the first number of a text for an entry. Answers how many bytes that is. `EINVAL`: there is no number, or the entry takes none.
    pub fn set(&self, number: u16, text: &[u8]) -> Result<usize, Errno> {
        let Some(&Content::Setting(which)) = self.entry(number).map(|entry| &entry.content) else {
            return Err(Errno::EINVAL);
        };
        if text.is_empty() {
            return Ok(0);
        }
        let (value, bytes) = first_number(text).ok_or(Errno::EINVAL)?;
        self.settings[which as usize].set(value);
        Ok(bytes)
    }

    /// Its path below its root.
    pub fn path(&self, mut number: u16) -> String {
        let mut path = String::new();
        while self.above(number) != number {
            if let Some(entry) = self.entry(number) {
                path = format!("/{}{path}", entry.name);
            }
            number = self.above(number);
        }
        path
    }
}

impl Texts<'_> {
    /// The text of an entry, for a process.
    pub fn made_text(&self, number: u16, reader: crate::procs::Pid) -> Vec<u8> {
        let made = self.tree.made();
        let Some(Entry { content, .. }) = made.entry(number) else { return Vec::new() };
        let live = match content {
            Content::Dir => return Vec::new(),
            Content::Fixed(text) => return text.clone().into_bytes(),
            Content::Setting(which) => return format!("{}\n", made.setting(*which)).into_bytes(),
            Content::Live(live) => *live,
        };
        let host = |of_domain| {
            let mut name = self.procs.get(reader).map(|proc| proc.spaces.hosts.name(of_domain));
            if let Ok(name) = &mut name {
                name.push(b'\n');
            }
            name.unwrap_or_default()
        };
        match live {
            Live::HostName => host(false),
            Live::DomainName => host(true),
            Live::FileNumber => {
                format!("{}\t0\t{}\n", self.descs.len(), crate::descs::DESCS_MAX).into_bytes()
            }
            Live::InodeNumber => {
                let names = self.tree.files().names();
                format!("{}\t{}\n", names.limit(), names.limit() - names.used()).into_bytes()
            }
            Live::Uuid => {
                made.uuids.set(made.uuids.get().wrapping_add(1));
                uuid(self.clock.now() ^ made.uuids.get().rotate_left(32)).into_bytes()
            }
            Live::Inside(fact) => {
                let own = self.procs.get(reader).map_or(0, |own| own.net_place().0);
                let net = self.sockets.at(own);
                let text = match (fact, net.is_up_inside()) {
                    (Inside::Mtu, _) => format!("{}\n", net.mtu_inside()),
                    (Inside::Flags, true) => "0x9\n".into(),
                    (Inside::Flags, false) => "0x8\n".into(),
                    (Inside::State, true) => "unknown\n".into(),
                    (Inside::State, false) => "down\n".into(),
                };
                text.into_bytes()
            }
            Live::NodeMemory => {
                let (free, total) = crate::caps::memory();
                let kib = |bytes: u64| bytes >> 10;
                format!(
                    "Node 0 MemTotal:       {:8} kB\nNode 0 MemFree:        {:8} kB\nNode 0 MemUsed:        {:8} kB\n",
                    kib(total),
                    kib(free),
                    kib(total.saturating_sub(free))
                )
                .into_bytes()
            }
        }
    }
}
