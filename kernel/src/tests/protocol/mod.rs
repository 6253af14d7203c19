//! The capability protocol over real CPU drivers: several cores with databases of their own over one
//! memory, their monitors, and channels on which messages take as long as chance will have it.
//!
//! Clients do whatever comes to a random mind, send capabilities to other cores, and are killed while
//! they wait. Whenever everything has come to rest, what must hold of all cores together is checked:
//! every capability has one owner, hints are never wrong when they are clear, what overlaps is
//! related, and every page of every core is free or somebody's.
//!
//! `TESSERA_SEED=n` repeats a run; `TESSERA_STEPS=n` makes it longer.

mod abroad;
mod checks;
mod directed;
mod guests;
mod node;
mod objects;
mod rehoming;
mod taking;
mod world;

use self::checks::{check_mappings, check_relations, Free};
use self::node::{client_at, Node, CLIENTS, FIRST_FREE, RAM, SHARE};
use self::rehoming::Rehoming;
use self::world::{Site, Wires};
use super::machine::FIRST;
use super::random::{each_seed, spares, Random};
use crate::cap::CapExt;
use crate::cores::{Cores, Shared};
use crate::{arch, check};
use captypes::{op, CapAddr, CapType, Invocation, Label, ObjectKind, Place, Status};
use std::alloc::{alloc_zeroed, Layout};
use std::vec::Vec;

/// A pool, as long as nobody moves or deletes it.
const POOL: CapAddr = CapAddr(30);

/// All cores.
pub struct Cluster {
    pub sites: Vec<Site>,
    pub wires: Wires,
    free: Free,
    rehoming: Rehoming,
    /// Check every core after every event?
    pub checking: bool,
    memory: (*mut u8, Layout),
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; nothing of the cluster is used any more.
        unsafe { std::alloc::dealloc(self.memory.0, self.memory.1) };
    }
}

impl Cluster {
    pub fn new(cores: usize) -> Cluster {
        // One for all, so that none waits for another: they take turns.
        Cluster::with(cores, 1)
    }

    /// Cores that wait for each other: `waiting::others_go_on` says what they do then.
    pub fn apart(cores: usize) -> Cluster {
        let mut cluster = Cluster::with(cores, cores);
        taking::set_cores(&mut cluster.sites);
        cluster
    }

    /// `blocks`: how many of what cores show each other.
    fn with(cores: usize, blocks: usize) -> Cluster {
        let layout = Layout::from_size_align(cores * SHARE as usize, 1 << 21).unwrap();
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        arch::set_phys_memory(memory, FIRST, cores as u64 * SHARE);
        let shared: Vec<Shared> = (0..blocks).map(|_| Shared::new()).collect();
        let shared = Cores::new(shared.leak());
        let site = |core| Site::new(core, cores as u8, shared);
        let sites = (0..cores as u8).map(site).collect();
        let (wires, free) = (Wires::default(), Free::all(cores));
        let rehoming = Rehoming::new(cores);
        Cluster { sites, wires, free, rehoming, checking: false, memory: (memory, layout) }
    }

    fn node(&mut self, core: usize) -> &mut Node {
        &mut self.sites[core].node
    }

    /// After an event on a core: its server takes what came back.
    fn after(&mut self, core: usize) {
        self.free.note(&self.sites[core]);
        loop {
            let got = self.node(core).kernel(op::CollectReclaimed {}).unwrap();
            let ranges =
                [(got.base0, got.bytes0), (got.base1, got.bytes1), (got.base2, got.bytes2)];
            for (base, bytes) in ranges.into_iter().filter(|&(_, bytes)| bytes != 0) {
                self.free.came_back(base, bytes, &self.sites);
                for at in (base..base + bytes).step_by(4096) {
                    let home = self.rehoming.home_of(at);
                    assert!(
                        home.is_none_or(|home| home == core),
                        "{at:#x} came back to core {core} and not {home:?}"
                    );
                }
            }
            if got.bytes2 == 0 {
                break;
            }
        }
        if self.checking {
            self.check_core(core);
        }
    }

    fn check_core(&self, core: usize) {
        if let Err(broken) = check::check(&self.sites[core].node.core.local) {
            panic!("core {core}: invariant broken: {broken:x?}");
        }
    }

    /// An invocation of a client; the status word, if it does not wait.
    fn invoke(
        &mut self,
        core: usize,
        client: usize,
        label: Label,
        target: Place,
        args: [u64; 9],
    ) -> Option<u64> {
        let node = self.node(core);
        let dcb = node.clients[client];
        let status = node.raw(dcb, label as u64, target.0, args);
        self.after(core);
        status
    }

    /// An invocation of a client that comes to an end at once.
    pub fn call<I: Invocation>(&mut self, core: usize, target: CapAddr, args: I) -> Option<u64> {
        self.invoke(core, 0, I::LABEL, target.into(), args.encode())
    }

    /// Sends what is in a slot to another core.
    pub fn send(&mut self, from: usize, slot: CapAddr, to: usize, dst: CapAddr) {
        let pa = self.sites[from].node.slot(slot).pa();
        self.sites[from].send(&mut self.wires, pa, to as u8, dst.into());
        self.after(from);
    }

    /// A step of some monitor; `false` if nobody has anything to do.
    pub fn pump(&mut self, random: &mut Random) -> bool {
        let wires = self.wires.busy();
        let cores = self.sites.len();
        let choice = random.below((wires.len() + 2 * cores) as u64) as usize;
        if let Some(&(from, to)) = wires.get(choice) {
            self.sites[usize::from(to)].deliver(&mut self.wires, from);
            self.after(usize::from(to));
            return true;
        }
        let core = (choice - wires.len()) % cores;
        self.node(core).interrupt();
        let site = &mut self.sites[core];
        let done = if (choice - wires.len()) < cores {
            site.receive(&mut self.wires)
        } else {
            site.work(&mut self.wires)
        };
        self.after(core);
        done || !wires.is_empty()
    }

    /// All cores take their interrupts.
    pub fn interrupt_all(&mut self) {
        while self.sites.iter_mut().fold(false, |any, site| site.node.interrupt() | any) {}
    }

    /// All monitors but that of `silent` do what they can while nothing comes from there: not so many rounds.
    pub fn go_on_without(&mut self, silent: usize, rounds: usize) {
        let is_heard = |&(from, to): &(u8, u8)| ![from, to].contains(&(silent as u8));
        let ended = (0..rounds).any(|_| {
            let wires: Vec<_> = self.wires.busy().into_iter().filter(is_heard).collect();
            for &(from, to) in &wires {
                self.sites[usize::from(to)].deliver(&mut self.wires, from);
                self.after(usize::from(to));
            }
            let mut is_done = wires.is_empty();
            for core in (0..self.sites.len()).filter(|&core| core != silent) {
                let site = &mut self.sites[core];
                is_done &= !(site.receive(&mut self.wires) | site.work(&mut self.wires));
                self.after(core);
            }
            is_done
        });
        assert!(ended, "all but core {silent} talk for ever");
    }

    /// Until nothing is going on.
    pub fn settle(&mut self, random: &mut Random) {
        let mut idle = 0;
        for _ in 0..2_000_000 {
            idle = if self.pump(random) { 0 } else { idle + 1 };
            if idle > 40 * self.sites.len()
                && self.sites.iter().all(|site| !site.protocol.has_work())
            {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.wires.0);
    }

    /// All invariants, at rest.
    pub fn check_at_rest(&mut self) {
        for core in 0..self.sites.len() {
            assert!(self.sites[core].protocol.is_quiet(), "core {core}: the monitor is at work");
            for client in 0..CLIENTS {
                let waits = self.sites[core].node.waits(client);
                assert!(!waits, "core {core}: client {client} waits for ever");
            }
            assert!(
                self.sites[core].node.core.local.caps.db.locks.is_empty(),
                "core {core}: locks"
            );
            self.check_core(core);
        }
        check_relations(&self.sites);
        check_mappings(&self.sites);
        self.free.check(&self.sites);
    }

    /// Objects that random numbers alone would need long to make.
    fn furnish(&mut self, core: usize, random: &mut Random) {
        let mut make = |this: &mut Self, ty: CapType, offset, bytes, dst| {
            let dst = CapAddr(dst).into();
            let ty = ObjectKind::from(ty);
            this.call(core, RAM, op::Retype { ty, offset, bytes, count: 1, dst });
            this.settle(random);
        };
        for n in 1..3 {
            make(self, CapType::L2CNode, 0x20_0000 + u64::from(n) * 16384, 16384, 40);
            self.call(core, CapAddr(40), op::Move { dst: Place::l1(CapAddr(1), n) });
        }
        let tables = [CapType::Pt, CapType::Pt, CapType::Pd, CapType::Pdpt];
        for (n, ty) in tables.into_iter().enumerate() {
            make(self, ty, 0x30_0000 + n as u64 * 4096, 4096, 20 + n as u32);
        }
        make(self, CapType::L1CNode, 0x31_0000, 16384, 16);
        make(self, CapType::Dispatcher, 0x32_0000, 4096, 28);
        make(self, CapType::Endpoint, 0x32_1000, 4096, 29);
        for n in 0..4u32 {
            make(self, CapType::Ram, 0x40_0000 + u64::from(n) * 0x4_0000, 0x4_0000, 12 + n);
        }
        make(self, CapType::Frame, 0x50_0000, 0x1_0000, 11);
        make(self, CapType::Pool, 0x70_0000, 0x20_0000, POOL.0);
        let again = Some(Status::Again as u64);
        while self.call(core, POOL, op::FormatPool { domain: 0 }) == again {}
    }

    /// Everything that the clients have on a core goes.
    fn clear(&mut self, core: usize, random: &mut Random) {
        for target in [FIRST_FREE, 0x100, 0x200] {
            for at in 0..256 - (target & 0xff) {
                loop {
                    let target = Place::own(CapAddr(target + at));
                    let label = Label::Delete;
                    let status = self.invoke(core, 0, label, target, [0; 9]);
                    if status.is_none() {
                        self.settle(random);
                    }
                    if status != Some(Status::Again as u64) {
                        break;
                    }
                    // It may be the monitors' turn.
                    self.pump(random);
                }
            }
        }
        for n in 1..node::CONTROL_L1 {
            let target = Place::l1(CapAddr(1), n);
            if self.invoke(core, 0, Label::Delete, target, [0; 9]) != Some(Status::Empty as u64) {
                self.settle(random);
            }
        }
        while self.node(core).kernel(op::CollectCycles {}) == Err(Status::Again) {
            self.after(core);
        }
        self.after(core);
        self.settle(random);
    }
}

/// What clients do.
struct Run {
    cluster: Cluster,
    random: Random,
    done: u64,
    sent: u64,
    objects: u64,
    redirected: u64,
    killed: u64,
}

impl Run {
    fn step(&mut self) {
        match self.random.below(100) {
            0..12 => self.invoke_anything(),
            12..38 => self.invoke(),
            38..45 => self.use_objects(),
            45..53 => self.send(),
            53 => self.kill(),
            54..58 => self.cluster.rehome(&mut self.random),
            _ => {
                self.cluster.pump(&mut self.random);
            }
        }
    }

    /// A client that can do something, on a random core.
    fn client(&mut self) -> Option<(usize, usize)> {
        let core = self.random.below(self.cluster.sites.len() as u64) as usize;
        let client = self.random.below(CLIENTS as u64) as usize;
        self.cluster.sites[core].node.is_ready(client).then_some((core, client))
    }

    /// A slot of the domain, in use or not.
    fn slot(&mut self, core: usize, used: bool) -> Option<CapAddr> {
        let node = &self.cluster.sites[core].node;
        for _ in 0..40 {
            let l1 = self.random.one_of(&[0, 0, 0, 1, 2]) as u32;
            let first = if l1 == 0 { FIRST_FREE as u64 } else { 1 };
            let addr = CapAddr::new(l1, self.random.below(40 - first) as u32 + first as u32);
            let found = crate::cap::lookup::own_slot(node.monitor, addr);
            if found.is_ok_and(|slot| slot.is_empty() != used) {
                return Some(addr);
            }
        }
        None
    }

    /// Something that could succeed.
    fn invoke(&mut self) {
        let Some((core, client)) = self.client() else { return };
        let (Some(target), Some(dst)) = (self.slot(core, true), self.slot(core, false)) else {
            return;
        };
        let cap = self.cluster.sites[core].node.slot(target).cap();
        let dst = Place::own(dst).0;
        let (label, args) = match self.random.below(20) {
            0..4 => (Label::Copy, [dst, 0, 0, 0, 0, 0, 0, 0, 0]),
            4 => (Label::Mint, [dst, self.random.below(64), 0, 0, 0, 0, 0, 0, 0]),
            5 | 6 => (Label::Move, [dst, 0, 0, 0, 0, 0, 0, 0, 0]),
            7..11 => (Label::Delete, [0; 9]),
            11 => (Label::Revoke, [0; 9]),
            12 => self.map(core, dst),
            13 => {
                let (offset, bytes) = (self.random.below(5000), 1 + self.random.below(12000));
                (Label::Lend, [1, offset, bytes, 1, 0, dst, 0, 0, 0])
            }
            14 => (Label::Recall, [1 + self.random.below(3), 0, 0, 0, 0, 0, 0, 0, 0]),
            _ => self.retype(&cap, dst),
        };
        // Capabilities to RAM are few, and all else is made of them.
        let homes = label == Label::Retype && self.random.below(4) == 0;
        let adopted = self.cluster.rehoming.adopted(core, &mut self.random);
        let target = if homes { adopted.unwrap_or(RAM) } else { target };
        self.perform(core, client, label, target.into(), args);
    }

    /// Something with a pool or an object of one.
    fn use_objects(&mut self) {
        let Some((core, client)) = self.client() else { return };
        let Some(dst) = self.slot(core, false) else { return };
        let is_morsel = |this: &Self, slot: &CapAddr| {
            this.cluster.sites[core].node.slot(*slot).cap().is(CapType::Morsel)
        };
        let found = (0..20).find_map(|_| self.slot(core, true).filter(|s| is_morsel(self, s)));
        let (own, random) = (Place::own(dst).0, &mut self.random);
        let part = random.below(2) << 9;
        let Some(object) = found.filter(|_| random.below(4) != 0) else {
            let (label, args) = match random.below(2) {
                0 => (Label::CreateMorsel, [1 + random.below(2), own, 0, 0, 0, 0, 0, 0, 0]),
                _ => (Label::OpenMorsel, [1 + random.below(8), 39, own, 0, 0, 0, 0, 0, 0]),
            };
            return self.perform(core, client, label, POOL.into(), args);
        };
        let (target, label, args) = match random.below(14) {
            0 | 1 => (object, Label::PartMorsel, [part, 1, own, 0, 0, 0, 0, 0, 0]),
            2 | 3 => {
                let (table, entry) = (random.one_of(&[20, 22, 23]) as u32, random.below(200));
                let from = Place::own(object).0;
                (CapAddr(table), Label::Map, [entry, 1, from, 0, 3, own, 0, 0, 0])
            }
            4 => (object, Label::PopulateMorsel, [part, 4, 0, 0, 0, 0, 0, 0, 0]),
            5 => (object, Label::DiscardMorsel, [part, 100, 0, 0, 0, 0, 0, 0, 0]),
            6 => (object, Label::DestroyMorsel, [0; 9]),
            7 => (object, Label::Revoke, [0; 9]),
            8 => (object, Label::SnapshotMorsel, [own, 0, 0, 0, 0, 0, 0, 0, 0]),
            9 => (object, Label::LimitMorsel, [random.below(600) * 4096, 0, 0, 0, 0, 0, 0, 0, 0]),
            10 => (object, Label::CommitMorsel, [0; 9]),
            11 => {
                (object, Label::ExtendMorsel, [random.below(600) * 4096, part, 0, 0, 0, 0, 0, 0, 0])
            }
            _ => {
                let to = random.below(self.cluster.sites.len() as u64) as usize;
                if let Some(dst) = self.slot(to, false).filter(|_| to != core) {
                    self.cluster.send(core, object, to, dst);
                    self.objects += 1;
                }
                return;
            }
        };
        self.perform(core, client, label, target.into(), args);
    }

    /// A part of something, as something else.
    fn retype(&mut self, cap: &mdb::RawCap, dst: u64) -> (Label, [u64; 9]) {
        let types: &[u64] =
            if cap.kind() == CapType::Frame { &[4] } else { &[2, 2, 4, 4, 4, 9, 11, 13] };
        let ty = self.random.one_of(types);
        let bytes = match CapType::from_u8(ty as u8) {
            Some(CapType::L2CNode) => 0x4000,
            Some(CapType::Ram) => self.random.one_of(&[0x4000, 0x8000, 0x10000]),
            Some(CapType::Frame) => self.random.one_of(&[0x1000, 0x2000, 0x20_0000]),
            _ => 0x1000,
        };
        let pages = (cap.word >> 12).clamp(1, 64);
        let offset = self.random.below(pages) << 12;
        (Label::Retype, [ty, offset, bytes, 1, dst, 0, 0, 0, 0])
    }

    /// A Frame or table in a table.
    fn map(&mut self, core: usize, mapping: u64) -> (Label, [u64; 9]) {
        let what = self.slot(core, true).unwrap_or(RAM);
        let entry = self.random.below(512);
        (Label::Map, [entry, 1, Place::own(what).0, 0, 3, mapping, 0, 0, 0])
    }

    fn invoke_anything(&mut self) {
        let Some((core, client)) = self.client() else { return };
        let target = Place(self.random.place());
        let (label, args) = self.random.invocation();
        // A copy may take the place of what it is one of.
        let takes_place = label == Label::RetypeCopy && !spares(Label::Delete, args[3]);
        if !spares(label, target.0) || takes_place {
            return;
        }
        let target = if label == Label::CollectCycles { node::KERNEL.into() } else { target };
        self.perform(core, client, label, target, args);
    }

    fn perform(&mut self, core: usize, client: usize, label: Label, target: Place, args: [u64; 9]) {
        match self.cluster.invoke(core, client, label, target, args) {
            Some(0) => self.done += 1,
            Some(_) => {}
            None => self.redirected += 1,
        }
    }

    fn send(&mut self) {
        let Some((core, _)) = self.client() else { return };
        let to = self.random.below(self.cluster.sites.len() as u64) as usize;
        if to == core {
            return;
        }
        if let (Some(slot), Some(dst)) = (self.slot(core, true), self.slot(to, false)) {
            self.cluster.send(core, slot, to, dst);
            self.sent += 1;
        }
    }

    /// A client vanishes, and another begins in its place.
    fn kill(&mut self) {
        let Some((core, client)) = self.client() else { return };
        let victim = self.random.below(CLIENTS as u64) as usize;
        if victim != client {
            let target = client_at(victim).into();
            let again = Status::Again as u64;
            while self.cluster.invoke(core, client, Label::Delete, target, [0; 9]) == Some(again) {}
            self.cluster.node(core).revive(victim);
            self.killed += 1;
        }
    }
}

fn run(seed: u64, cores: usize, steps: u64) {
    let mut run = Run {
        cluster: Cluster::apart(cores),
        random: Random(seed),
        done: 0,
        sent: 0,
        objects: 0,
        redirected: 0,
        killed: 0,
    };
    for site in &mut run.cluster.sites {
        // Some runs are interrupted all the time.
        site.node.core.local.caps.budget.set([u32::MAX, 512, 8, 40][seed as usize % 4]);
    }
    run.cluster.checking = seed.is_multiple_of(3);
    for core in 0..cores {
        run.cluster.furnish(core, &mut run.random);
    }
    for step in 0..steps {
        run.step();
        if step % 200 == 199 {
            run.cluster.settle(&mut run.random);
            run.cluster.check_at_rest();
        }
        if step % 2000 == 1999 {
            for core in 0..cores {
                run.cluster.clear(core, &mut run.random);
            }
            for core in 0..cores {
                run.cluster.furnish(core, &mut run.random);
            }
        }
    }
    std::println!(
        "{} of {steps} succeeded at once, {} redirected, {} and {} objects sent, {} killed, {} homes changed",
        run.done,
        run.redirected,
        run.sent,
        run.objects,
        run.killed,
        run.cluster.rehoming.moved
    );
    for core in 0..cores {
        run.cluster.clear(core, &mut run.random);
    }
    run.cluster.settle(&mut run.random);
    run.cluster.check_at_rest();
    for site in &run.cluster.sites {
        let left: Vec<_> = site.node.objects().filter(world::home_of_cap).collect();
        for cap in &left {
            let db = &site.node.core.local.caps.db;
            let head = db.find(cap).unwrap();
            std::println!("left {cap:x?} in {head:?} {:?}", db.copies(head).collect::<Vec<_>>());
        }
        assert!(left.is_empty(), "seed {seed}: core {} still has {left:x?}", site.node.id);
    }
    assert!(run.redirected > 0 && run.done * 20 > steps, "nothing happens");
    assert!(run.cluster.rehoming.moved * 200 > steps, "no home changes");
}

#[test]
fn random_operations_on_several_cores_keep_the_invariants() {
    each_seed(4000, |seed, steps| run(seed, 2 + seed as usize % 2, steps));
}
