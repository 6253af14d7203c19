//! Random operations: who holds nodes of mounts lets them go as often, spaces are trees, users have what they have.

use mounttable::{Gone, MountId, Mounts, Propagation, SpaceId};
use piecewise::Limits;
use std::collections::BTreeMap;
use std::rc::Rc;

type Table = Mounts<u32, u32>;

#[derive(Default)]
struct Held(BTreeMap<u32, i64>);

impl Held {
    fn add(&mut self, node: u32) {
        *self.0.entry(node).or_default() += 1;
    }
    fn gone(&mut self, gone: impl IntoIterator<Item = Gone<u32, u32>>) {
        for one in gone {
            let (Gone::At(node) | Gone::Root(node, _)) = one;
            *self.0.entry(node).or_default() -= 1;
        }
    }
    fn is_empty(&self) -> bool {
        self.0.values().all(|count| *count == 0)
    }
}

fn top(table: &Table, mut mount: MountId, mut node: u32) -> (MountId, u32) {
    while let Some(child) = table.covering(mount, node) {
        (mount, node) = (child, table.get(child).unwrap().root);
    }
    (mount, node)
}

#[test]
fn nodes_are_let_go_as_often_as_they_are_held() {
    let mut random = fastrand::Rng::with_seed(16);
    let mut table = Table::new(Limits::of(400));
    let mut held = Held::default();
    held.add(0);
    let mut spaces = vec![table.first_space(0, 0, Rc::new(0)).unwrap()];
    let mut standing: Vec<MountId> = Vec::new();
    let mut loose: Vec<MountId> = Vec::new();
    let mut refused = 0;
    for _ in 0..30_000 {
        let space = spaces[random.usize(..spaces.len())];
        let all = table.in_space(space);
        let mount = all[random.usize(..all.len())];
        // Many that differ by what the table does not tell apart at first sight.
        let node = random.u32(..40) * 128;
        let mut by_search =
            all.iter().filter(|id| table.get(**id).unwrap().at == Some((mount, node)));
        assert_eq!(table.covering(mount, node), by_search.next().copied());
        assert!(by_search.next().is_none());
        let uid = random.u32(..3);
        let mut come = None;
        match random.u32(..17) {
            0..3 => {
                let at = top(&table, mount, node);
                match table.mount(at, node + 100, 0, Rc::new(node), uid) {
                    Ok(id) => {
                        held.add(at.1);
                        held.add(node + 100);
                        come = Some(id);
                    }
                    Err(_) => refused += 1,
                }
            }
            3 | 4 => {
                let at = top(&table, all[random.usize(..all.len())], node);
                let bound = table.bind(
                    (mount, node),
                    Some(at),
                    random.bool(),
                    uid,
                    |_| true,
                    |node| held.add(node),
                );
                refused += u32::from(bound.is_err());
                come = bound.ok();
            }
            5 | 6 => {
                if let Ok(gone) = table.unmount(mount, random.bool()) {
                    held.gone(gone);
                }
            }
            7 => {
                table.hold(mount);
                standing.push(mount);
            }
            8 if !standing.is_empty() => {
                let one = standing.swap_remove(random.usize(..standing.len()));
                held.gone(table.release(one));
            }
            9 if spaces.len() < 6 => {
                let copied =
                    table.copy_space(space, (0, uid, random.bool()), |node| held.add(node));
                match copied {
                    Ok((new, copies)) => {
                        assert_eq!(copies.len(), all.len());
                        spaces.push(new);
                    }
                    Err(_) => refused += 1,
                }
            }
            12 | 13 => {
                use Propagation::{Private, Shared, Slave, Unbindable};
                let how = [Shared, Shared, Slave, Private, Unbindable][random.usize(..5)];
                table.set_propagation(mount, how).unwrap();
            }
            14 if loose.len() < 5 => {
                let source = (mount, node);
                let made =
                    table.bind(source, None, random.bool(), uid, |_| true, |node| held.add(node));
                refused += u32::from(made.is_err());
                loose.extend(made);
            }
            15 if !loose.is_empty() => {
                let one = loose.swap_remove(random.usize(..loose.len()));
                let at = top(&table, mount, node);
                assert_eq!(table.relocate(one, at).ok(), Some(None));
                held.add(at.1);
                assert!(table.dissolve(one).is_empty());
                come = Some(one);
            }
            16 if !loose.is_empty() => {
                let one = loose.swap_remove(random.usize(..loose.len()));
                held.gone(table.dissolve(one));
                assert!(!table.is_detached(one));
            }
            10 if spaces.len() > 1 => {
                let gone = table.leave(spaces.swap_remove(random.usize(..spaces.len())));
                held.gone(gone);
            }
            _ => {
                let at = top(&table, all[random.usize(..all.len())], node);
                if let Ok(before) = table.relocate(mount, at) {
                    held.add(at.1);
                    held.gone(before.map(Gone::At));
                    come = Some(mount);
                }
            }
        }
        if let Some(id) = come {
            // As whoever mounts does, all is taken back if there is no room for all copies.
            let shows = |_, node| node % 3 != 0;
            if table.propagate(id, uid, shows, |node| held.add(node)).is_err() {
                held.gone(table.unmount(id, true).unwrap());
            }
        }
        check(&table, &spaces, &loose);
    }
    assert!(refused > 100, "{refused}");
    for one in standing {
        held.gone(table.release(one));
    }
    for space in spaces {
        held.gone(table.leave(space));
    }
    for one in loose {
        held.gone(table.dissolve(one));
    }
    assert!(table.is_empty());
    assert_eq!(table.spaces(), 0);
    assert!(held.is_empty(), "{:?}", held.0);
}

fn check(table: &Table, spaces: &[SpaceId], loose: &[MountId]) {
    let below = || loose.iter().flat_map(|id| table.below(*id));
    let all = || spaces.iter().flat_map(|space| table.in_space(*space)).chain(below());
    assert!(loose.iter().all(|id| table.is_detached(*id)));
    let groups: Vec<u64> = all().map(|id| table.get(id).unwrap().follows.group).collect();
    for id in all() {
        // A group that is followed has somebody in it.
        let master = table.get(id).unwrap().follows.master;
        assert!(master == 0 || groups.contains(&master), "{master}");
    }
    for &space in spaces {
        for id in table.in_space(space) {
            let mount = table.get(id).unwrap();
            assert_eq!(mount.space(), Some(space));
            if let Some((parent, node)) = mount.at {
                assert_eq!(table.covering(parent, node), Some(id));
                assert_eq!(table.get(parent).unwrap().space(), Some(space));
            }
        }
    }
}

#[test]
fn what_is_mounted_appears_where_that_is_followed() {
    let mut table = Table::new(Limits::of(100));
    let space = table.first_space(0, 0, Rc::new(0)).unwrap();
    let root = table.space(space).unwrap().root;
    let one = table.mount((root, 1), 100, 0, Rc::new(1), 0).unwrap();
    table.set_propagation(one, Propagation::Shared).unwrap();
    let peer = table.bind((one, 100), Some((root, 2)), false, 0, |_| true, |_| {}).unwrap();
    let slave = table.bind((one, 100), Some((root, 3)), false, 0, |_| true, |_| {}).unwrap();
    table.set_propagation(slave, Propagation::Slave).unwrap();
    let come = |table: &mut Table, at| {
        let id = table.mount((at, 50), 200, 0, Rc::new(2), 0).unwrap();
        table.propagate(id, 0, |_, _| true, |_| {}).unwrap();
        [one, peer, slave].map(|mount| table.covering(mount, 50).is_some())
    };
    assert_eq!(come(&mut table, peer), [true; 3]);
    let copy = table.covering(one, 50).unwrap();
    table.unmount(copy, false).unwrap();
    assert!([one, peer, slave].iter().all(|mount| table.covering(*mount, 50).is_none()));
    assert_eq!(come(&mut table, slave), [false, false, true]);
    // Somebody stands in a copy.
    let own = table.covering(slave, 50).unwrap();
    table.unmount(own, false).unwrap();
    assert_eq!(come(&mut table, one), [true; 3]);
    let (first, copy) = (table.covering(one, 50).unwrap(), table.covering(slave, 50).unwrap());
    table.hold(copy);
    assert!(table.unmount(first, false).is_err());
    table.release(copy);
    assert!(table.unmount(first, false).is_ok());
}

#[test]
fn the_root_can_be_another_one() {
    let mut table = Table::new(Limits::of(100));
    let space = table.first_space(0, 0, Rc::new(0)).unwrap();
    let root = table.space(space).unwrap().root;
    let new = table.mount((root, 1), 100, 0, Rc::new(1), 0).unwrap();
    assert!(table.pivot(space, root, (new, 5)).is_err());
    assert!(table.pivot(space, new, (root, 5)).is_err());
    assert_eq!(table.pivot(space, new, (new, 5)).ok(), Some(1));
    assert_eq!(table.space(space).unwrap().root, new);
    assert_eq!(table.get(root).unwrap().at, Some((new, 5)));
    assert!(table.get(new).unwrap().at.is_none());
    assert_eq!(table.unmount(root, false).unwrap().len(), 2);
    assert_eq!(table.in_space(space), [new]);
}

#[test]
fn somebody_who_stands_there_keeps_it() {
    let mut table = Table::new(Limits::of(100));
    let space = table.first_space(0, 0, Rc::new(0)).unwrap();
    let root = table.space(space).unwrap().root;
    let one = table.mount((root, 1), 100, 0, Rc::new(1), 0).unwrap();
    table.hold(one);
    assert!(table.unmount(one, false).is_err());
    assert_eq!(table.unmount(one, true).unwrap().len(), 1);
    assert!(table.covering(root, 1).is_none());
    assert!(table.mount((one, 7), 100, 0, Rc::new(1), 0).is_err());
    assert!(matches!(table.release(one), Some(Gone::Root(100, _))));
    assert!(table.release(one).is_none());
}
