//! Random happenings, compared with a list of who watches what, and a list of events without any counting.

use notices::{mask, Change, Happening, Notices};
use proptest::prelude::*;
use std::cell::Cell;

/// What a group is still to be told: (watch, mask, name).
type Told = (i32, u32, Vec<u8>);

#[derive(Default)]
struct Model {
    /// (group, watch, file, mask), in order of groups.
    watches: Vec<(u32, i32, u64, u32)>,
    last: [i32; 3],
    told: [Vec<Told>; 3],
}

impl Model {
    fn add(&mut self, group: u32, event: Told) {
        let list = &mut self.told[group as usize];
        if event.1 & mask::IGNORED != 0 || list.last() != Some(&event) {
            list.push(event);
        }
    }

    fn end(&mut self, group: u32, wd: i32) {
        self.watches.retain(|one| (one.0, one.1) != (group, wd));
        self.add(group, (wd, mask::IGNORED, vec![]));
    }

    fn tell(&mut self, it: &Happening) {
        for group in 0..3 {
            for by_name in [true, false] {
                let target = if by_name { it.name.map(|(dir, _)| dir) } else { it.file };
                let found = self.watches.iter().find(|one| one.0 == group && Some(one.2) == target);
                let Some(&(_, wd, _, wanted)) = found else { continue };
                let hides = by_name && it.is_unlinked && wanted & mask::EXCL_UNLINK != 0;
                if it.mask & wanted & mask::ALL_EVENTS == 0 || hides && it.file.is_some() {
                    continue;
                }
                let name = if by_name { it.name.unwrap().1.to_vec() } else { vec![] };
                self.add(group, (wd, it.mask, name));
                if wanted & mask::ONESHOT != 0 {
                    self.end(group, wd);
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Watch(u32, u64, u32),
    Unwatch(u32, i32),
    Happen(u32, Option<u64>, Option<u64>, usize, bool),
    Gone(u64),
    Read(u32, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = 0..5u64;
    let wanted = prop_oneof![
        Just(mask::ALL_EVENTS),
        Just(mask::OPEN | mask::ONESHOT),
        Just(mask::MODIFY | mask::MASK_ADD),
        Just(mask::ALL_EVENTS | mask::EXCL_UNLINK),
        Just(mask::CREATE | mask::MASK_CREATE),
    ];
    let some = proptest::option::of(0..5u64);
    let step = prop_oneof![
        (0..3u32, file.clone(), wanted).prop_map(|(g, f, m)| Step::Watch(g, f, m)),
        (0..3u32, 0..8i32).prop_map(|(g, wd)| Step::Unwatch(g, wd)),
        (0..12u32, some.clone(), some, 0..40usize, any::<bool>())
            .prop_map(|(bit, f, d, n, u)| Step::Happen(1 << bit, f, d, n, u)),
        file.prop_map(Step::Gone),
        (0..3u32, 0..200usize).prop_map(|(g, n)| Step::Read(g, n)),
    ];
    proptest::collection::vec(step, 1..80)
}

/// As many events as fit into so many bytes.
fn read(list: &mut Vec<Told>, most: usize) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = vec![];
    let wanted = !list.is_empty();
    while !list.is_empty() {
        let (wd, mask, name) = &list[0];
        let room = if name.is_empty() { 0 } else { (name.len() / 16 + 1) * 16 };
        if bytes.len() + 16 + room > most {
            break;
        }
        for word in [*wd as u32, *mask, 0, room as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(name);
        bytes.extend(vec![0; room - name.len()]);
        list.remove(0);
    }
    (!bytes.is_empty() || !wanted).then_some(bytes)
}

proptest! {
    #[test]
    fn groups_are_told_what_they_want_to_know(steps in steps()) {
        let (mut notices, mut model) = (Notices::default(), Model::default());
        (0..3).for_each(|group| notices.add_group(group));
        let memory = [const { Cell::new(0isize) }; 3];
        let add = |group: u32, by: isize| memory[group as usize].set(memory[group as usize].get() + by);
        let count = |changes: Vec<Change>| changes.iter().for_each(|c| add(c.group, c.bytes as isize));
        for step in steps {
            match step {
                Step::Watch(group, file, wanted) => {
                    let known = model.watches.iter_mut().find(|one| (one.0, one.2) == (group, file));
                    let expected = match known {
                        Some(_) if wanted & mask::MASK_CREATE != 0 => None,
                        Some(one) => {
                            let before = if wanted & mask::MASK_ADD != 0 { one.3 } else { 0 };
                            one.3 = before | wanted;
                            Some((one.1, false))
                        }
                        None => {
                            let wd = model.last[group as usize] + 1;
                            model.last[group as usize] = wd;
                            model.watches.push((group, wd, file, wanted));
                            Some((wd, true))
                        }
                    };
                    prop_assert_eq!(notices.watch(group, file, wanted).ok(), expected);
                }
                Step::Unwatch(group, wd) => {
                    let is_there = model.watches.iter().any(|one| (one.0, one.1) == (group, wd));
                    let change = notices.unwatch(group, wd, usize::MAX);
                    prop_assert_eq!(change.is_some(), is_there);
                    count(change.into_iter().collect());
                    if is_there {
                        model.end(group, wd);
                    }
                }
                Step::Happen(mask, file, dir, letters, is_unlinked) => {
                    let name = vec![b'x'; letters + 1];
                    let name = dir.map(|dir| (dir, &name[..]));
                    let it = Happening { mask, cookie: 0, file, name, is_unlinked };
                    model.tell(&it);
                    count(notices.tell(&it, |_| usize::MAX));
                }
                Step::Gone(file) => {
                    count(notices.gone(file, |_| usize::MAX));
                    for (group, wd, ..) in model.watches.clone().iter().filter(|one| one.2 == file) {
                        model.end(*group, *wd);
                    }
                }
                Step::Read(group, most) => {
                    let taken = notices.take(group, most).ok();
                    let expected = read(&mut model.told[group as usize], most);
                    prop_assert_eq!(taken.as_ref().map(|(bytes, _)| bytes), expected.as_ref());
                    add(group, -taken.map_or(0, |(_, cost)| cost as isize));
                }
            }
            for file in 0..5 {
                let is_watched = model.watches.iter().any(|one| one.2 == file);
                prop_assert_eq!(notices.is_watched(file), is_watched);
            }
        }
        for group in 0..3 {
            let watches = model.watches.iter().filter(|one| one.0 == group).count();
            prop_assert_eq!(notices.remove_group(group), (memory[group as usize].get() as usize, watches));
        }
        prop_assert!(notices.is_empty());
    }

    #[test]
    fn what_has_no_room_is_told_as_lost_once(events in 0..40usize, room in 0..2000usize) {
        let mut notices = Notices::default();
        notices.add_group(0);
        notices.watch(0, 1, mask::ALL_EVENTS).unwrap();
        let mut used = 0;
        for n in 0..events {
            let mask = if n % 2 == 0 { mask::OPEN } else { mask::ACCESS };
            let it = Happening { mask, cookie: 0, file: Some(1), name: None, is_unlinked: false };
            used += notices.tell(&it, |_| room - used.min(room)).iter().map(|c| c.bytes).sum::<usize>();
        }
        let (bytes, cost) = notices.take(0, usize::MAX).unwrap();
        prop_assert_eq!(cost, used);
        let lost = bytes.chunks(16).filter(|event| event[..4] == [0xff; 4]).count();
        prop_assert_eq!(lost, usize::from(bytes.len() / 16 != events || lost == 1));
    }
}
