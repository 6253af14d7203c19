//! Random marks and happenings of groups that are told files, compared with lists: of marks, of events and what each says.

use notices::fan::{bits, report, Fact, Fans, FileId, Refusal, Which, Wish, HEAD, MOST};
use notices::mask;
use proptest::prelude::*;

const GROUPS: u32 = 3;
const FILES: u32 = 4;
const EVENTS: [u32; 8] = [
    mask::OPEN,
    mask::MODIFY,
    mask::ATTRIB,
    mask::CREATE,
    mask::DELETE,
    mask::MOVED_TO,
    mask::RENAME,
    mask::OPEN_EXEC,
];

fn file(number: u32) -> FileId {
    FileId { fsid: 7, number, generation: 40 + number }
}

#[derive(Clone, Debug)]
struct Mark {
    group: u32,
    file: u32,
    wanted: u32,
    ignored: u32,
    has_flags: bool,
    survives: bool,
}

/// What a group is still to be told: file, process, what.
type Told = (u32, u32, u32);

#[derive(Default)]
struct Model {
    marks: Vec<Mark>,
    told: [Vec<Told>; GROUPS as usize],
}

#[derive(Clone, Debug)]
enum Step {
    Mark(u32, u32, u32, Which, bool),
    Unmark(u32, u32, u32, Which),
    UnmarkAll(u32),
    Gone(u32),
    /// What, to which file, in which directory, to which one, by whom.
    Happen(u32, u32, Option<u32>, Option<u32>, u32),
    Read(u32, usize),
}

fn masks() -> impl Strategy<Value = u32> {
    let events = prop::sample::subsequence(EVENTS.to_vec(), 1..4);
    (events, any::<[bool; 2]>()).prop_map(|(events, [dirs, children])| {
        let flags = [(dirs, mask::ISDIR), (children, bits::ON_CHILD)];
        let flags = flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
        events.into_iter().fold(flags, |all, event| all | event)
    })
}

fn whichs() -> impl Strategy<Value = Which> {
    prop::sample::select(vec![Which::Wanted, Which::Wanted, Which::Ignored, Which::Ignore])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (groups, files) = (0..GROUPS, 0..FILES);
    let some = || prop::option::of(0..FILES);
    let happen = (
        prop::sample::select(EVENTS.to_vec()),
        any::<bool>(),
        files.clone(),
        some(),
        some(),
        0..2u32,
    );
    let step = prop_oneof![
        4 => (groups.clone(), files.clone(), masks(), whichs(), any::<bool>())
            .prop_map(|(group, file, mask, which, survives)| Step::Mark(group, file, mask, which, survives)),
        2 => (groups.clone(), files.clone(), masks(), whichs())
            .prop_map(|(group, file, mask, which)| Step::Unmark(group, file, mask, which)),
        1 => groups.clone().prop_map(Step::UnmarkAll),
        1 => files.prop_map(Step::Gone),
        9 => happen.prop_map(|(event, is_dir, file, dir, to, by)| {
            Step::Happen(event | if is_dir { mask::ISDIR } else { 0 }, file, dir, to, by)
        }),
        2 => (groups, 0..200usize).prop_map(|(group, most)| Step::Read(group, most)),
    ];
    prop::collection::vec(step, 1..120)
}

fn wish(mask: u32, which: Which, survives: bool) -> Wish {
    Wish { mask, which, survives, is_evictable: false, idle: bits::FLAGS }
}

impl Model {
    fn mark(
        &mut self,
        group: u32,
        number: u32,
        mask: u32,
        which: Which,
        survives: bool,
    ) -> Result<bool, Refusal> {
        let at = self.marks.iter().position(|mark| (mark.group, mark.file) == (group, number));
        let at_or_new = at.unwrap_or_else(|| {
            let (wanted, ignored, has_flags, survives) = Default::default();
            self.marks.push(Mark { group, file: number, wanted, ignored, has_flags, survives });
            self.marks.len() - 1
        });
        let mark = &mut self.marks[at_or_new];
        match which {
            Which::Wanted => mark.wanted |= mask,
            Which::Ignored if mark.has_flags => return Err(Refusal::Exists),
            Which::Ignore if mark.survives && !survives => return Err(Refusal::Exists),
            _ => {
                mark.ignored |= mask;
                mark.has_flags |= which == Which::Ignore;
                mark.survives |= survives;
            }
        }
        Ok(at.is_none())
    }

    fn unmark(
        &mut self,
        group: u32,
        number: u32,
        mask: u32,
        which: Which,
    ) -> Result<bool, Refusal> {
        let at = self.marks.iter().position(|mark| (mark.group, mark.file) == (group, number));
        let at = at.ok_or(Refusal::None)?;
        match which {
            Which::Wanted => self.marks[at].wanted &= !mask,
            _ => self.marks[at].ignored &= !mask,
        }
        let is_idle = (self.marks[at].wanted | self.marks[at].ignored) & bits::EVENTS == 0;
        if is_idle {
            self.marks.remove(at);
        }
        Ok(is_idle)
    }

    fn happen(&mut self, event: u32, number: u32, dir: Option<u32>, to: Option<u32>, by: u32) {
        let is_name = event & bits::NAMES != 0;
        // Whose marks count, and whether as those of the directory above.
        let concerned = match is_name {
            true => [dir.map(|dir| (dir, false)), to.map(|to| (to, false))],
            false => [Some((number, false)), dir.map(|dir| (dir, true))],
        };
        for group in 0..GROUPS {
            let (mut wanted, mut ignored) = (0, 0);
            for (number, above) in concerned.into_iter().flatten() {
                for mark in
                    self.marks.iter_mut().filter(|mark| (mark.group, mark.file) == (group, number))
                {
                    if event & mask::MODIFY != 0 && !mark.survives {
                        mark.ignored = 0;
                    }
                    let counts = |flags: u32| {
                        (event & mask::ISDIR == 0 || flags & mask::ISDIR != 0)
                            && (!above || flags & bits::ON_CHILD != 0)
                    };
                    wanted |= if counts(mark.wanted) { mark.wanted } else { 0 };
                    let flags = if mark.has_flags {
                        mark.ignored
                    } else {
                        mark.wanted & bits::ON_CHILD | mask::ISDIR
                    };
                    ignored |= if counts(flags) { mark.ignored & bits::EVENTS } else { 0 };
                }
            }
            let said = event & wanted & !ignored;
            if said & bits::EVENTS == 0 {
                continue;
            }
            let Some(target) = (if is_name { dir } else { Some(number) }) else { continue };
            let apart = mask::ISDIR | mask::RENAME;
            let list = &mut self.told[group as usize];
            match list
                .iter_mut()
                .rev()
                .find(|told| (told.0, told.1, told.2 & apart) == (target, by, said & apart))
            {
                Some(told) => told.2 |= said,
                None => list.push((target, by, said)),
            }
        }
    }
}

/// Events as they are read: file, process, what.
fn read(bytes: &[u8]) -> Vec<Told> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut told = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = word(rest, 0) as usize;
        let (event, after) = rest.split_at(length);
        assert_eq!((event[4], word(event, 16)), (3, u32::MAX));
        let id =
            FileId { fsid: 7, number: word(event, HEAD + 24), generation: word(event, HEAD + 20) };
        assert_eq!(id, file(id.number));
        told.push((id.number, word(event, 20), word(event, 8)));
        rest = after;
    }
    told
}

proptest! {
    #[test]
    fn groups_are_told_what_they_want(steps in steps()) {
        let (mut fans, mut model) = (Fans::default(), Model::default());
        let mut memory = [0; GROUPS as usize];
        for group in 0..GROUPS {
            fans.add_group(group, report::FID);
        }
        for step in steps {
            match step {
                Step::Mark(group, number, mask, which, survives) => prop_assert_eq!(
                    fans.mark(group, file(number), wish(mask, which, survives), true),
                    model.mark(group, number, mask, which, survives)
                ),
                Step::Unmark(group, number, mask, which) => prop_assert_eq!(
                    fans.unmark(group, file(number), wish(mask, which, false)),
                    model.unmark(group, number, mask, which)
                ),
                Step::UnmarkAll(group) => {
                    let before = model.marks.len();
                    model.marks.retain(|mark| mark.group != group);
                    prop_assert_eq!(fans.unmark_all(group), before - model.marks.len());
                }
                Step::Gone(number) => {
                    let before = model.marks.len();
                    model.marks.retain(|mark| mark.file != number);
                    let less = fans.gone(number).iter().map(|change| change.watches).sum::<usize>();
                    prop_assert_eq!(less, before - model.marks.len());
                }
                Step::Happen(mask, number, dir, to, by) => {
                    let is_name = mask & bits::NAMES != 0;
                    let named = |dir: u32| (file(dir), &b"name"[..]);
                    // Only a rename has two names.
                    let to = to.filter(|_| mask & mask::RENAME != 0);
                    let dir = if is_name { dir.or(Some(0)) } else { dir };
                    let fact = Fact { mask, file: Some(file(number)), place: dir.map(named), to: to.map(named), by };
                    for change in fans.tell(&fact, |_| usize::MAX) {
                        memory[change.group as usize] += change.bytes;
                    }
                    model.happen(mask, number, dir, to, by);
                }
                Step::Read(group, most) => {
                    let list = &mut model.told[group as usize];
                    match fans.take(group, most, |by| by as i32) {
                        Err(_) => prop_assert!(!list.is_empty() && most < HEAD + 36),
                        Ok((bytes, cost)) => {
                            let told = read(&bytes);
                            prop_assert_eq!(&told[..], &list[..told.len()]);
                            list.drain(..told.len());
                            memory[group as usize] -= cost;
                        }
                    }
                }
            }
            for group in 0..GROUPS {
                prop_assert_eq!(fans.unread(group), model.told[group as usize].len());
            }
            prop_assert_eq!(fans.is_empty(), model.marks.is_empty());
        }
        for group in 0..GROUPS {
            let (bytes, _) = fans.take(group, usize::MAX, |by| by as i32).unwrap_or_default();
            prop_assert_eq!(read(&bytes), model.told[group as usize].clone());
            // What was charged is given back with the group.
            let (_, marks) = fans.remove_group(group);
            prop_assert_eq!(marks, model.marks.iter().filter(|mark| mark.group == group).count());
        }
        prop_assert!(fans.is_empty());
    }
}

/// A queue that nobody reads ends with one event that says so, and begins anew once that is read.
#[test]
fn a_full_queue_says_so_once() {
    let mut fans = Fans::default();
    fans.add_group(1, report::FID);
    assert_eq!(fans.mark(1, file(0), wish(mask::OPEN, Which::Wanted, false), true), Ok(true));
    let opened =
        |by: u32| Fact { mask: mask::OPEN, file: Some(file(0)), place: None, to: None, by };
    let mut charged = 0;
    for by in 0..MOST as u32 + 100 {
        charged +=
            fans.tell(&opened(by), |_| usize::MAX).iter().map(|change| change.bytes).sum::<usize>();
    }
    assert_eq!(fans.unread(1), MOST + 1);
    let (bytes, given_back) = fans.take(1, usize::MAX, |by| by as i32).ok().unwrap();
    assert_eq!((charged, fans.unread(1)), (given_back, 0));
    let last = &bytes[bytes.len() - HEAD..];
    assert_eq!(u32::from_le_bytes(last[8..12].try_into().unwrap()), mask::Q_OVERFLOW);
    // Where there is no room at all, it is the same.
    fans.tell(&opened(1), |_| 0);
    fans.tell(&opened(2), |_| 0);
    assert_eq!(fans.unread(1), 1);
}
