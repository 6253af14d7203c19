//! `/proc/sys` and `/sys`: what programs ask about the machine and the limits of the system. Names are made at start; what a
//! file says is made when it is opened.

mod machine;

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
pub use machine::{first_cores, list_of, mask_of};
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
    /// Of a directory: what is in it.
    below: Vec<u16>,
}

impl Entry {
    fn new(above: u16, name: String, content: Content) -> Entry {
        Entry { above, name, content, below: Vec::new() }
    }
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

impl Made {
    /// Of a machine with so many cores and so much memory, where the layout of programs is chosen so.
    pub fn new(cores: usize, ram: u64, clock: &Clock, randomizes: u32) -> Made {
        let mut made = Made { settings: SETTINGS.map(Cell::new), ..Made::default() };
        for root in [SYS, TUNABLES] {
            made.all.push(Entry::new(root, String::new(), Content::Dir));
        }
        made.uuids.set(clock.boot_wall() ^ clock.hz());
        made.tunables(&uuid(clock.boot_wall()), randomizes);
        made.machine(cores, ram);
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
                    self.all.push(Entry::new(at, name.to_string(), content));
                    let number = self.all.len() as u16 - 1;
                    self.all[usize::from(at)].below.push(number);
                    number
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
            |number: &u16| self.entry(*number).is_some_and(|entry| entry.name.as_bytes() == name);
        self.entry(dir)?.below.iter().copied().find(is_it)
    }

    /// The entries of a directory: name, is it a directory, number.
    pub fn entries(&self, dir: u16) -> impl Iterator<Item = (&str, bool, u16)> {
        let below = self.entry(dir).into_iter().flat_map(|entry| &entry.below);
        below.filter_map(|&number| {
            let entry = self.entry(number)?;
            Some((&entry.name[..], matches!(entry.content, Content::Dir), number))
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
