//! What must hold of all cores together when nothing is going on.

use super::node::{home, SHARE};
use super::world::Site;
use crate::cap::away::Away;
use crate::cap::mapping::is_mapping;
use crate::cap::{attr, CapExt, CapPolicy, HOME_RAM};
use crate::driver::CpuDriver;
use crate::tests::machine::FIRST;
use captypes::{CapType, Tree};
use mdb::{is_ancestor, is_copy, Policy, RawCap};
use std::vec::Vec;

/// A distinct capability of one core; its attributes are what all copies agree on.
struct Entry {
    core: usize,
    cap: RawCap,
}

/// Attributes in which copies on a core agree.
const AGREED: u16 = attr::FOREIGN | attr::REMOTE;

const TREES: [Tree; 5] = [Tree::Memory, Tree::Irq, Tree::Io, Tree::Id, Tree::Morsel];

fn entries(core: usize, local: &CpuDriver) -> Vec<Entry> {
    let slots = TREES.iter().flat_map(|&tree| local.caps.db.iter(tree as u8));
    let is_mark = |cap: &RawCap| is_home(cap) && cap.is_foreign();
    let slots = slots.filter(|slot| !is_mapping(&slot.cap()) && !is_mark(&slot.cap()));
    slots
        .map(|slot| {
            let cap = slot.cap();
            let same = |other: u16| other & AGREED == cap.attrs & AGREED;
            let agree = local.caps.db.copies(slot).all(|copy| same(copy.cap().attrs));
            assert!(agree, "core {core}: copies of {cap:x?} do not agree whose it is");
            assert!(cap.attrs & attr::PARKED == 0, "core {core}: {cap:x?} is still parked");
            Entry { core, cap }
        })
        .collect()
}

fn is_home(cap: &RawCap) -> bool {
    cap.ty == HOME_RAM
}

fn overlap(a: &RawCap, b: &RawCap) -> bool {
    CapPolicy::tree(a.ty) == CapPolicy::tree(b.ty)
        && a.base < b.base + b.word
        && b.base < a.base + a.word
}

/// Checks owners and hints of everything.
pub fn check_relations(sites: &[Site]) {
    let all: Vec<Entry> = sites
        .iter()
        .enumerate()
        .flat_map(|(core, site)| entries(core, &site.node.core.local))
        .collect();
    for one in &all {
        if !one.cap.is_foreign() {
            let db = &sites[one.core].node.core.local.caps.db;
            // What was made of what this core has ceded was not made of its home.
            let is_ceded = |other: &RawCap| {
                let around = db.surrounding(Tree::Memory as u8, other.base, other.word, 0);
                around.is_some_and(|home| home.cap().is_foreign())
            };
            let away = &sites[one.core].node.core.local.caps.asks.away;
            check_owned(one, &all, away, |other| is_home(&one.cap) && is_ceded(other));
        } else {
            let owned = all.iter().filter(|other| {
                is_copy::<CapPolicy>(&one.cap, &other.cap) && !other.cap.is_foreign()
            });
            // Nobody need own a Morsel.
            let owners = owned.count();
            let enough = owners == 1 || owners == 0 && one.cap.is(CapType::Morsel);
            assert!(enough, "{owners} owners of {:x?} on core {}", one.cap, one.core);
        }
    }
}

/// No other core owns it, and what others have of it the hints say.
fn check_owned(one: &Entry, all: &[Entry], away: &Away, is_apart: impl Fn(&RawCap) -> bool) {
    let cap = &one.cap;
    let has = |hint: u16| cap.attrs & hint != 0;
    let others = all.iter().filter(|other| other.core != one.core && overlap(cap, &other.cap));
    for other in others.filter(|other| !is_apart(&other.cap)) {
        let (there, core) = (&other.cap, other.core);
        let what = || std::format!("{cap:x?} on core {}, {there:x?} on core {core}", one.core);
        if is_copy::<CapPolicy>(cap, there) {
            assert!(there.is_foreign(), "two owners: {}", what());
            assert!(has(attr::REMOTE_COPIES), "an unknown copy: {}", what());
        } else if is_ancestor::<CapPolicy>(cap, there) {
            // What another core has lent of something larger is none of its business.
            assert!(
                there.is(CapType::Loan) || has(attr::REMOTE_DESCENDANTS),
                "an unknown descendant: {}",
                what()
            );
            // No page of it is thought to be at home.
            let pages = (there.base..there.base + there.word).step_by(PAGE as usize);
            let mut at_home =
                pages.filter(|&page| is_home(cap) && away.has_none(page, page + PAGE));
            assert_eq!(at_home.next(), None, "not known to be away: {}", what());
        } else if are_badges_of_one(cap, there) {
            // Neither was made of the other.
        } else if [cap, there].iter().any(|cap| cap.is(CapType::Loan)) {
            // Nobody's Loan need be inside of a part of what was lent.
            let above = is_ancestor::<CapPolicy>(there, cap);
            let known = !above || is_home(there) || has(attr::REMOTE_ANCESTORS);
            assert!(known, "an unknown ancestor: {}", what());
        } else {
            assert!(is_ancestor::<CapPolicy>(there, cap), "strangers overlap: {}", what());
            assert!(
                is_home(there) || has(attr::REMOTE_ANCESTORS),
                "an unknown ancestor: {}",
                what()
            );
        }
    }
}

/// Are they capabilities to the same Endpoint with different badges?
fn are_badges_of_one(one: &RawCap, other: &RawCap) -> bool {
    let is_badged = |cap: &RawCap| cap.is(CapType::Endpoint) && cap.aux != 0;
    is_badged(one) && is_badged(other) && one.base == other.base
}

/// No page that user mode can write on one core is a kernel object of another.
pub fn check_mappings(sites: &[Site]) {
    for site in sites {
        let mappings: Vec<RawCap> = site
            .node
            .core
            .local
            .caps
            .db
            .iter(Tree::Memory as u8)
            .map(|slot| slot.cap())
            .filter(|cap| cap.is(CapType::Mapping))
            .collect();
        for other in sites.iter().filter(|other| other.node.id != site.node.id) {
            let own = |cap: &RawCap| cap.kind().is_kernel_object() && !cap.is_foreign();
            for object in other.node.objects().filter(own) {
                let bytes = |mapping: &RawCap| CapPolicy::range(mapping).1;
                let reaches = |mapping: &&RawCap| {
                    mapping.base < object.base + object.word
                        && object.base < mapping.base + bytes(mapping)
                };
                let found = mappings.iter().find(reaches);
                assert!(found.is_none(), "{object:x?} is mapped on another core: {found:x?}");
            }
        }
    }
}

/// Which pages of all homes are free, as their servers know it.
pub struct Free(Vec<Vec<bool>>);

const PAGE: u64 = 4096;

impl Free {
    /// All of them.
    pub fn all(cores: usize) -> Free {
        let pages = |core| ((home(core).end - home(core).start) / PAGE) as usize;
        Free((0..cores as u8).map(|core| std::vec![true; pages(core)]).collect())
    }

    fn set(&mut self, base: u64, bytes: u64, free: bool) -> bool {
        let mut all = true;
        for (core, pages) in self.0.iter_mut().enumerate() {
            let home = home(core as u8);
            let (from, to) = (base.max(home.start), (base + bytes).min(home.end));
            for at in (from..to.max(from)).step_by(PAGE as usize) {
                let page = &mut pages[((at - home.start) / PAGE) as usize];
                all &= *page != free;
                *page = free;
            }
        }
        all
    }

    /// Is all of this free?
    pub fn is_free(&self, base: u64, bytes: u64) -> bool {
        let home = |at: u64| home(((at - FIRST) / SHARE) as u8).start;
        let page =
            |at: u64| &self.0[((at - FIRST) / SHARE) as usize][((at - home(at)) / PAGE) as usize];
        (base..base + bytes).step_by(PAGE as usize).all(|at| *page(at))
    }

    /// What a core has something of is not free.
    pub fn note(&mut self, site: &Site) {
        for cap in site.node.objects() {
            self.set(cap.base, cap.word, false);
        }
    }

    /// Memory came back to its server.
    pub fn came_back(&mut self, base: u64, bytes: u64, sites: &[Site]) {
        assert!(self.set(base, bytes, true), "{base:#x} + {bytes:#x} came back twice");
        for site in sites {
            let cover = site.node.core.local.caps.first_cover(base, bytes);
            assert!(
                cover.is_none(),
                "{base:#x} + {bytes:#x} came back, and core {} has {cover:x?}",
                site.node.id
            );
        }
    }

    /// Every page is free, or somebody has a capability to it.
    pub fn check(&self, sites: &[Site]) {
        for (core, pages) in self.0.iter().enumerate() {
            let start = home(core as u8).start;
            for (n, &free) in pages.iter().enumerate() {
                let base = start + n as u64 * PAGE;
                let cover =
                    sites.iter().find_map(|s| s.node.core.local.caps.first_cover(base, PAGE));
                assert!(
                    free != cover.is_some(),
                    "page {base:#x}: free {free}, covered by {cover:x?}"
                );
            }
        }
    }
}
