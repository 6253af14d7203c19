//! User name spaces: which ids mean what to whom, and whose capabilities count where.
//!
//! All ids that are kept anywhere are those of the first user name space. A process in another one is told, and tells, the ids that
//! they are mapped to there.

use crate::{CapSet, Capability, Credentials};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use unixproto::Errno;

/// What an id is shown as that is not mapped.
pub const OVERFLOW_ID: u32 = 65534;
/// Name spaces may be inside each other this deep.
pub const LEVELS_MAX: u32 = 32;
/// Lines of a map.
const LINES_MAX: usize = 340;

/// Ids from `inside` on are those from `outside` on of the first name space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The first id inside.
    pub inside: u32,
    /// The first id of the first name space.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Maps {
    users: Vec<Line>,
    groups: Vec<Line>,
    denies_groups: bool,
}

/// A user name space that is not the first.
#[derive(Debug)]
pub struct UserSpace {
    /// Its number as programs see it, which is never used again.
    pub number: u64,
    /// The one in which it was made; `None`: the first.
    pub parent: Option<Rc<UserSpace>>,
    /// Who has made it.
    pub owner: u32,
    /// The group of who has made it.
    pub group: u32,
    maps: RefCell<Maps>,
    /// What goes with it.
    _kept: Rc<dyn Any>,
}

impl PartialEq for UserSpace {
    fn eq(&self, other: &UserSpace) -> bool {
        self.number == other.number
    }
}

impl Eq for UserSpace {}

fn find(
    lines: &[Line],
    id: u32,
    from: impl Fn(&Line) -> u32,
    to: impl Fn(&Line) -> u32,
) -> Option<u32> {
    let line = lines.iter().find(|line| id.wrapping_sub(from(line)) < line.count)?;
    Some(to(line) + (id - from(line)))
}

impl UserSpace {
    fn level(&self) -> u32 {
        1 + self.parent.as_ref().map_or(0, |parent| parent.level())
    }
    /// Is it another one, or in it?
    pub fn is_in(&self, other: &UserSpace) -> bool {
        self == other || self.parent.as_ref().is_some_and(|parent| parent.is_in(other))
    }
    /// The id of the first name space that an id inside means.
    pub fn global(&self, groups: bool, id: u32) -> Option<u32> {
        let maps = self.maps.borrow();
        let lines = if groups { &maps.groups } else { &maps.users };
        find(lines, id, |line| line.inside, |line| line.outside)
    }
    /// The id inside of an id of the first name space.
    pub fn inside(&self, groups: bool, id: u32) -> Option<u32> {
        let maps = self.maps.borrow();
        let lines = if groups { &maps.groups } else { &maps.users };
        find(lines, id, |line| line.outside, |line| line.inside)
    }
    /// Its map.
    pub fn lines(&self, groups: bool) -> Vec<Line> {
        let maps = self.maps.borrow();
        if groups { &maps.groups } else { &maps.users }.clone()
    }
    /// May nobody inside change groups?
    pub fn denies_groups(&self) -> bool {
        self.maps.borrow().denies_groups
    }
    /// Whoever is inside may change groups, or not any more, before there is a map of groups.
    ///
    /// # Errors
    /// `EPERM`: it is too late.
    pub fn deny_groups(&self, deny: bool) -> Result<(), Errno> {
        let mut maps = self.maps.borrow_mut();
        let is_late = if deny { !maps.groups.is_empty() } else { maps.denies_groups };
        if is_late {
            return Err(Errno::EPERM);
        }
        maps.denies_groups |= deny;
        Ok(())
    }
    /// Sets its map, once. What is outside is as `writer` names it, who is in the parent or inside.
    ///
    /// # Errors
    /// `EINVAL`: that is no map. `EPERM`: there is one, or the writer may not set this one.
    pub fn set_map(&self, groups: bool, text: &[u8], writer: &Credentials) -> Result<(), Errno> {
        let mut maps = self.maps.borrow_mut();
        if !if groups { &maps.groups } else { &maps.users }.is_empty() {
            return Err(Errno::EPERM);
        }
        let mut lines = parse(text)?;
        let is_inside = writer.space.as_deref() == Some(self);
        let is_parent = writer.space == self.parent;
        if !is_inside && !is_parent {
            return Err(Errno::EPERM);
        }
        // What the ids outside are to the one above, in that one's own words.
        for line in &mut lines {
            let last = line.outside + (line.count - 1);
            let first = self.above(groups, line.outside).ok_or(Errno::EPERM)?;
            if self.above(groups, last) != first.checked_add(line.count - 1) {
                return Err(Errno::EPERM);
            }
            line.outside = first;
        }
        let capability = if groups { Capability::Setgid } else { Capability::Setuid };
        // Who could be anybody outside may map anything; others themselves.
        let free = is_parent && writer.effective.has(capability);
        let own = match (&lines[..], groups) {
            ([line], false) if line.count == 1 => {
                line.outside == writer.users.effective && self.owner == writer.users.effective
            }
            ([line], true) if line.count == 1 => {
                line.outside == writer.groups.effective
                    && maps.denies_groups
                    && self.owner == writer.users.effective
            }
            _ => false,
        };
        let has = writer.effective.has(Capability::SysAdmin)
            || is_parent && self.owner == writer.users.effective;
        if !(free || own) || !has {
            return Err(Errno::EPERM);
        }
        *if groups { &mut maps.groups } else { &mut maps.users } = lines;
        Ok(())
    }
    fn above(&self, groups: bool, id: u32) -> Option<u32> {
        match &self.parent {
            Some(parent) => parent.global(groups, id),
            None => Some(id),
        }
    }
}

/// Reads a map: lines of three numbers.
fn parse(text: &[u8]) -> Result<Vec<Line>, Errno> {
    let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_ascii_whitespace().map(|word| word.parse::<u32>().ok());
        let mut next = || words.next().flatten().ok_or(Errno::EINVAL);
        let line = Line { inside: next()?, outside: next()?, count: next()? };
        if words.next().is_some() || lines.len() == LINES_MAX {
            return Err(Errno::EINVAL);
        }
        let end = |first: u32| first.checked_add(line.count);
        if line.count == 0 || end(line.inside).is_none() || end(line.outside).is_none() {
            return Err(Errno::EINVAL);
        }
        let meet = |a: u32, b: u32, count: u32| {
            a < b.saturating_add(count) && b < a.saturating_add(line.count)
        };
        let overlaps = |other: &Line| {
            meet(line.inside, other.inside, other.count)
                || meet(line.outside, other.outside, other.count)
        };
        if lines.iter().any(overlaps) {
            return Err(Errno::EINVAL);
        }
        lines.push(line);
    }
    match lines.is_empty() {
        true => Err(Errno::EINVAL),
        false => Ok(lines),
    }
}

impl Credentials {
    /// Number of its user name space; 0 for the first.
    pub fn space_number(&self) -> u64 {
        self.space.as_ref().map_or(0, |space| space.number)
    }
    /// Is a capability effective in the own user name space?
    pub fn has_own(&self, capability: Capability) -> bool {
        self.effective.has(capability)
    }
    /// Is a capability effective over what belongs to a user name space? What belongs to others counts for the first one only.
    pub fn has_in(&self, owner: u64, capability: Capability) -> bool {
        (self.space.is_none() || self.space_number() == owner) && self.effective.has(capability)
    }
    /// Is a capability effective in a user name space (`None`: the first) that may be below the own one?
    pub fn has_over(&self, other: Option<&Rc<UserSpace>>, capability: Capability) -> bool {
        let Some(space) = other else { return self.has(capability) };
        let is_above = match &self.space {
            None => true,
            Some(own) => space.is_in(own),
        };
        // Who has made it has all of them in it, and in what is below.
        let has_made = core::iter::successors(Some(space), |space| space.parent.as_ref())
            .any(|space| space.parent == self.space && space.owner == self.users.effective);
        is_above && (self.effective.has(capability) || has_made && self.space != other.cloned())
    }
    /// Begins a user name space, in which it has all capabilities. `kept` goes with that.
    ///
    /// # Errors
    /// `ENOSPC`: there would be too many inside each other. `EPERM`: it has no ids where it is now.
    pub fn enter_new(&mut self, number: u64, kept: Rc<dyn Any>) -> Result<(), Errno> {
        let level = self.space.as_ref().map_or(0, |space| space.level());
        if level >= LEVELS_MAX {
            return Err(Errno::ENOSPC);
        }
        let is_mapped = self.space.as_ref().is_none_or(|space| {
            space.inside(false, self.users.effective).is_some()
                && space.inside(true, self.groups.effective).is_some()
        });
        if !is_mapped {
            return Err(Errno::EPERM);
        }
        let parent = self.space.take();
        let denies_groups = parent.as_ref().is_some_and(|parent| parent.denies_groups());
        let maps = RefCell::new(Maps { denies_groups, ..Maps::default() });
        let (owner, group) = (self.users.effective, self.groups.effective);
        self.enter(Some(Rc::new(UserSpace { number, parent, owner, group, maps, _kept: kept })));
        Ok(())
    }
    /// Is in another user name space, and has all capabilities there.
    pub fn enter(&mut self, space: Option<Rc<UserSpace>>) {
        self.space = space;
        (self.effective, self.permitted, self.bounding) = (CapSet::ALL, CapSet::ALL, CapSet::ALL);
        (self.inheritable, self.ambient, self.securebits) = (CapSet::NONE, CapSet::NONE, 0);
    }
    /// What an id that a process names means. `EINVAL`: nothing.
    pub fn global(&self, groups: bool, id: u32) -> Result<u32, Errno> {
        match &self.space {
            Some(space) if id != u32::MAX => space.global(groups, id).ok_or(Errno::EINVAL),
            _ => Ok(id),
        }
    }
    /// What it is told of an id.
    pub fn shown(&self, groups: bool, id: u32) -> u32 {
        match &self.space {
            Some(space) => space.inside(groups, id).unwrap_or(OVERFLOW_ID),
            None => id,
        }
    }
    /// The administrator of its user name space, as ids of the first one; `None`: there is none.
    pub fn root_id(&self) -> Option<u32> {
        match &self.space {
            Some(space) => space.global(false, 0),
            None => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Groups, Ids};

    fn user(id: u32) -> Credentials {
        Credentials {
            users: Ids::all(id),
            groups: Ids::all(id),
            others: Groups::NONE,
            effective: CapSet::NONE,
            permitted: CapSet::NONE,
            ..Credentials::ROOT
        }
    }

    #[test]
    fn who_makes_one_has_all_capabilities_in_it_and_none_outside() {
        let before = user(1000);
        let mut inside = before.clone();
        inside.enter_new(1, Rc::new(())).unwrap();
        assert!(inside.has_own(Capability::SysAdmin) && !inside.has(Capability::SysAdmin));
        assert!(inside.has_in(1, Capability::SysAdmin) && !inside.has_in(0, Capability::SysAdmin));
        let space = inside.space.clone();
        assert!(before.has_over(space.as_ref(), Capability::Kill));
        assert!(!user(1001).has_over(space.as_ref(), Capability::Kill));
        assert!(!inside.has_over(None, Capability::Kill));
        let mut deeper = inside.clone();
        deeper.enter_new(2, Rc::new(())).unwrap_err();
    }

    #[test]
    fn a_map_is_set_once_and_by_whom_it_concerns() {
        let before = user(1000);
        let mut inside = before.clone();
        inside.enter_new(1, Rc::new(())).unwrap();
        let space = inside.space.clone().unwrap();
        assert_eq!(inside.shown(false, 1000), OVERFLOW_ID);
        for bad in ["", "0 1000", "0 1000 1 1", "0 1000 0", "x 1 1", "0 1000 4294967295"] {
            assert_eq!(space.set_map(false, bad.as_bytes(), &before), Err(Errno::EINVAL), "{bad}");
        }
        assert_eq!(space.set_map(false, b"0 0 1", &inside), Err(Errno::EPERM));
        assert_eq!(space.set_map(false, b"0 1000 2", &inside), Err(Errno::EPERM));
        assert_eq!(space.set_map(false, b"0 1000 1", &user(1001)), Err(Errno::EPERM));
        assert_eq!(space.set_map(false, b"0 1000 1\n", &inside), Ok(()));
        assert_eq!(space.set_map(false, b"0 1000 1\n", &inside), Err(Errno::EPERM));
        assert_eq!(space.set_map(true, b"0 1000 1", &inside), Err(Errno::EPERM));
        space.deny_groups(true).unwrap();
        assert_eq!(space.set_map(true, b"0 1000 1", &inside), Ok(()));
        assert_eq!(space.deny_groups(false), Err(Errno::EPERM));
        assert_eq!((inside.shown(false, 1000), inside.global(false, 0)), (0, Ok(1000)));
        assert_eq!(inside.global(false, 1), Err(Errno::EINVAL));
        // Inside that, ids are those of the one above.
        let mut deeper = inside.clone();
        deeper.enter_new(2, Rc::new(())).unwrap();
        let below = deeper.space.clone().unwrap();
        assert_eq!(below.set_map(false, b"7 0 1", &inside), Ok(()));
        assert_eq!(deeper.shown(false, 1000), 7);
        assert!(below.is_in(&space) && !space.is_in(&below));
    }

    #[test]
    fn the_administrator_maps_what_he_likes() {
        let mut inside = user(1000);
        inside.enter_new(1, Rc::new(())).unwrap();
        let space = inside.space.clone().unwrap();
        assert_eq!(space.set_map(false, b"0 100000 1000\n1000 5 1\n", &Credentials::ROOT), Ok(()));
        assert_eq!((inside.shown(false, 100_999), inside.shown(false, 5)), (999, 1000));
        assert_eq!(inside.shown(false, 101_000), OVERFLOW_ID);
    }
}
