//! Memory changes its home while the cores work: what nobody has anything of is ceded, all monitors hear of it one after the other, and another
//! core adopts it.

use super::node::{home, CONTROL_L1, KEPT, RAM};
use super::Cluster;
use crate::tests::random::Random;
use capproto::CoreId;
use captypes::{op, CapAddr, Place, RamAttrs, Status};
use std::vec::Vec;

/// Bytes that move at once, and how many times as much of each core's memory can, from its beginning on.
pub const UNIT: u64 = 0x1_0000;
const UNITS: usize = 4;

/// Whose each unit is.
pub struct Rehoming {
    owners: Vec<usize>,
    moving: Option<Moving>,
    /// How many have moved.
    pub moved: u64,
    /// How many of those went back to where they were at the start.
    pub back: u64,
}

/// A unit that was ceded.
struct Moving {
    unit: usize,
    to: usize,
    untold: Vec<usize>,
}

fn base_of(unit: usize) -> u64 {
    home((unit / UNITS) as u8).start + (unit % UNITS) as u64 * UNIT
}

/// Where a core keeps the home that it has adopted, or the mark of what it has ceded.
pub fn slot_of(unit: usize) -> CapAddr {
    CapAddr::new(CONTROL_L1, 160 + unit as u32)
}

/// Empty.
const SPARE: CapAddr = CapAddr::new(CONTROL_L1, 159);

impl Rehoming {
    pub fn new(cores: usize) -> Rehoming {
        let owners = (0..cores * UNITS).map(|unit| unit / UNITS).collect();
        Rehoming { owners, moving: None, moved: 0, back: 0 }
    }

    /// The core to whose server a page comes back.
    pub fn home_of(&self, at: u64) -> Option<usize> {
        let unit = (0..self.owners.len())
            .find(|&unit| (base_of(unit)..base_of(unit) + UNIT).contains(&at))?;
        let is_moving = self.moving.as_ref().is_some_and(|moving| moving.unit == unit);
        // Nobody's, for now.
        Some(if is_moving { usize::MAX } else { self.owners[unit] })
    }

    /// A home that a core has adopted.
    pub fn adopted(&self, core: usize, random: &mut Random) -> Option<CapAddr> {
        let unit = random.below(self.owners.len() as u64) as usize;
        let is_adopted = self.owners[unit] == core && unit / UNITS != core;
        let is_moving = self.moving.as_ref().is_some_and(|moving| moving.unit == unit);
        (is_adopted && !is_moving).then(|| slot_of(unit))
    }
}

impl Cluster {
    /// Is all of unit `unit` free?
    pub fn is_free(&self, unit: usize) -> bool {
        self.free.is_free(base_of(unit), UNIT)
    }

    /// Unit `unit` moves to another core, at once.
    pub fn rehome_all(&mut self, unit: usize, to: usize) {
        assert!(self.cede_unit(unit, to));
        while self.rehoming.moving.is_some() {
            self.rehome(&mut Random(1));
        }
    }

    /// Something moves a little further.
    pub fn rehome(&mut self, random: &mut Random) {
        match self.rehoming.moving.take() {
            None => self.cede(random),
            Some(mut moving) if !moving.untold.is_empty() => {
                let next = random.below(moving.untold.len() as u64) as usize;
                let core = moving.untold.swap_remove(next);
                self.tell(core, moving.unit, moving.to);
                self.rehoming.moving = Some(moving);
            }
            Some(moving) => self.adopt(moving.unit, moving.to),
        }
    }

    fn tell(&mut self, core: usize, unit: usize, to: usize) {
        let memory = base_of(unit)..base_of(unit) + UNIT;
        self.sites[core].protocol.rehome(memory, CoreId(to as u8));
    }

    fn cede(&mut self, random: &mut Random) {
        let cores = self.sites.len();
        let unit = random.below(self.rehoming.owners.len() as u64) as usize;
        let from = self.rehoming.owners[unit];
        let to = (from + 1 + random.below(cores as u64 - 1) as usize) % cores;
        if from != to {
            self.cede_unit(unit, to);
        }
    }

    fn cede_unit(&mut self, unit: usize, to: usize) -> bool {
        let (from, base) = (self.rehoming.owners[unit], base_of(unit));
        if !self.free.is_free(base, UNIT) {
            return false;
        }
        let is_own = unit / UNITS == from;
        let (home, offset, dst) = match is_own {
            true => (RAM, (unit % UNITS) as u64 * UNIT, slot_of(unit)),
            false => (slot_of(unit), 0, SPARE),
        };
        let (home, dst) = (Place::own(home), Place::own(dst));
        // Something may be there that keeps no memory; or a client has made a copy of the home.
        match self.node(from).kernel(op::CedeHome { home, offset, bytes: UNIT, dst }) {
            Ok(()) => {}
            Err(Status::HasDescendants | Status::WrongState) => return false,
            Err(error) => panic!("unit {unit} of core {from} is not ceded: {error:?}"),
        }
        let left = self.node(from).slot(slot_of(unit));
        assert_eq!(left.is_empty(), !is_own);
        assert!(self.node(from).slot(SPARE).is_empty());
        self.tell(from, unit, to);
        let untold = (0..self.sites.len()).filter(|&core| core != from).collect();
        self.rehoming.moving = Some(Moving { unit, to, untold });
        true
    }

    fn adopt(&mut self, unit: usize, to: usize) {
        let (base, dst) = (base_of(unit), Place::own(slot_of(unit)));
        let attrs = RamAttrs(0);
        let adopted = self.node(to).kernel(op::AdoptHome { base, bytes: UNIT, attrs, dst });
        assert_eq!(adopted, Ok(()), "unit {unit} is not adopted by core {to}");
        let slot = self.node(to).slot(slot_of(unit));
        let is_back = unit / UNITS == to;
        assert_eq!(slot.is_empty(), is_back);
        if !is_back {
            // As every home here.
            slot.set_rights(KEPT.0, slot.cap().attrs);
        }
        self.rehoming.owners[unit] = to;
        self.rehoming.moved += 1;
        self.rehoming.back += u64::from(is_back);
    }
}
