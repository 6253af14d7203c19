//! The capability tree of a running system as a picture, from `/proc/tessera/capabilities`.
//!
//! A line of it is `DEPTH TYPE BASE BYTES COPIES OWNERS`, in the order of the mapping database: what a
//! capability was made into follows it, one deeper; in whose slots it and its copies are stands at the end, with
//! commas between. There are hundreds, most of them alike, so brothers of one type and the same owners are drawn
//! as one, with the children of all of them.

use super::chart::{MARGIN, WIDTH};
use super::svg::{Drawing, LINE};
use super::table::{table_of, Cell};
use crate::results::grouped;
use maud::Markup;
use std::collections::BTreeMap;

/// A line of the text.
struct Listed<'a> {
    depth: usize,
    kind: &'a str,
    bytes: u64,
    /// 1 if it has copies.
    copied: u64,
    owners: &'a str,
}

impl Listed<'_> {
    fn parse(line: &str) -> Option<Listed<'_>> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [depth, kind, _, bytes, copied, owners] = fields[..] else { return None };
        let (depth, bytes, copied) =
            (depth.parse().ok()?, bytes.parse().ok()?, copied.parse().ok()?);
        Some(Listed { depth, kind, bytes, copied, owners })
    }
}

/// All capabilities of one type and the same owners below the same (group of) parents.
#[derive(Debug, Default, PartialEq)]
struct Group {
    kind: String,
    /// With commas between.
    owners: String,
    count: u64,
    bytes: u64,
    /// How many have copies.
    copied: u64,
    children: Vec<Group>,
}

/// The group without a type above all of them.
fn groups(text: &str) -> Group {
    let mut root = Group::default();
    // For each depth, which child was last seen there.
    let mut path: Vec<usize> = Vec::new();
    for one in text.lines().filter_map(Listed::parse) {
        let (kind, owners) = (one.kind, one.owners);
        path.truncate(one.depth);
        let parent = path.iter().fold(&mut root, |group, &child| &mut group.children[child]);
        let known =
            parent.children.iter().position(|group| group.kind == kind && group.owners == owners);
        let at = known.unwrap_or(parent.children.len());
        if known.is_none() {
            let (kind, owners) = (kind.to_owned(), owners.to_owned());
            parent.children.push(Group { kind, owners, ..Group::default() });
        }
        let group = &mut parent.children[at];
        (group.count, group.bytes, group.copied) =
            (group.count + 1, group.bytes + one.bytes, group.copied + one.copied);
        path.push(at);
    }
    root
}

/// Draws the children of a group from `y` on, below the square of the group itself; where the next one
/// would be.
fn draw(drawing: &mut Drawing, group: &Group, depth: usize, mut y: f64) -> f64 {
    const STEP: f64 = 18.0;
    let trunk = MARGIN + STEP * depth as f64 - STEP + 6.0;
    let mut above = y - LINE + 10.0;
    for child in &group.children {
        let x = MARGIN + STEP * depth as f64;
        if depth > 0 {
            drawing.line((trunk, above), (trunk, y + 8.0), "grid");
            drawing.line((trunk, y + 8.0), (x - 2.0, y + 8.0), "grid");
            above = y + 8.0;
        }
        let class = format!("{} fill", Use::of(&child.kind).class());
        drawing.rectangle([x, y + 2.0, 12.0, 12.0], &class, &child.kind);
        let text = (x + 18.0, y + 13.0);
        let below = drawing.paragraph(text, WIDTH - MARGIN - text.0, "", &child.describe());
        y = draw(drawing, child, depth + 1, below - 13.0 + GAP);
    }
    y
}

impl Group {
    fn describe(&self) -> String {
        let mut text = match self.count {
            1 => self.kind.clone(),
            count => format!("{} × {}", grouped(count as f64), self.kind),
        };
        if self.bytes > 0 {
            text += &format!(", {} KiB", grouped((self.bytes >> 10) as f64));
        }
        if self.copied > 0 {
            text += &format!(", {} with copies", grouped(self.copied as f64));
        }
        text + ": " + &self.owners.replace(',', ", ")
    }
}

/// Between two rows.
const GAP: f64 = 3.0;

/// Nothing if the text lists none.
pub fn picture(text: &str) -> Option<Markup> {
    let root = groups(text);
    let mut drawing = Drawing::default();
    let present = Use::ALL.iter().filter(|one| root.has(**one));
    let entries: Vec<(String, &str)> =
        present.map(|one| (one.class().to_owned(), one.meaning())).collect();
    let top = drawing.legend((MARGIN, 8.0), WIDTH - 2.0 * MARGIN, &entries);
    let height = draw(&mut drawing, &root, 0, top + 10.0);
    let title = "The tree of capabilities";
    (!root.children.is_empty()).then(|| drawing.inline(WIDTH, height + 4.0, title))
}

/// How many capabilities of each use are in whose slots, and how much memory one can map through those that
/// are Frames. What several have counts for each of them.
pub fn owners(text: &str) -> Option<Markup> {
    #[derive(Default)]
    struct Has {
        counts: [u64; Use::ALL.len()],
        frames: u64,
        shared: u64,
    }
    // In the order in which they appear.
    let mut all: Vec<(&str, Has)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for one in text.lines().filter_map(Listed::parse) {
        let what = Use::of(one.kind);
        let column = Use::ALL.iter().position(|other| *other == what)?;
        for name in one.owners.split(',') {
            let place = *places.entry(name).or_insert_with(|| {
                all.push((name, Has::default()));
                all.len() - 1
            });
            let has = &mut all[place].1;
            has.counts[column] += 1;
            if one.kind == "Frame" {
                has.frames += one.bytes;
                has.shared += if one.owners.contains(',') { one.bytes } else { 0 };
            }
        }
    }
    let columns = [
        "who",
        "RAM, CNodes",
        "frames",
        "mappings",
        "page tables",
        "dispatchers, endpoints",
        "Frames, KiB",
        "with others, KiB",
    ];
    let rows = all.iter().map(|(name, has)| {
        let kib = [has.frames, has.shared].map(|bytes| bytes >> 10);
        let numbers = has.counts.iter().chain(&kib).map(|value| Cell::new(grouped(*value as f64)));
        std::iter::once(Cell::new(name)).chain(numbers).collect()
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    (!rows.is_empty()).then(|| table_of(&columns, rows))
}

impl Group {
    /// Is a capability below it of such use?
    fn has(&self, what: Use) -> bool {
        self.children.iter().any(|child| Use::of(&child.kind) == what || child.has(what))
    }
}

/// What a capability is good for: its colour.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Frames,
    Mappings,
    Tables,
    Running,
    Else,
}

impl Use {
    const ALL: [Use; 5] = [Use::Else, Use::Frames, Use::Mappings, Use::Tables, Use::Running];

    fn of(kind: &str) -> Use {
        match kind {
            "Frame" | "DevFrame" => Use::Frames,
            "Mapping" => Use::Mappings,
            "Pt" | "Pd" | "Pdpt" | "Pml4" | "Pml5" => Use::Tables,
            "Dispatcher" | "Endpoint" => Use::Running,
            _ => Use::Else,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Use::Frames => "linux",
            Use::Mappings => "linux-thp",
            Use::Tables => "paper",
            Use::Running => "host",
            Use::Else => "tessera",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Use::Frames => "frames: memory to be mapped",
            Use::Mappings => "mappings, made by mapping",
            Use::Tables => "page tables",
            Use::Running => "dispatchers, endpoints",
            Use::Else => "memory to make others of, CNodes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brothers_of_a_type_are_one() {
        let text =
            "0 Ram 0x0 16384 0 a\n1 Frame 0x0 4096 1 b\n1 Pt 0x1000 4096 0 b\n2 Mapping 0x1000 4096 0 b\n\
             1 Frame 0x2000 4096 0 b\n2 Mapping 0x2000 4096 0 b\nno line\n0 Ram 0x8000 4096 0 a\n";
        let root = groups(text);
        assert_eq!(root.children.len(), 1);
        let ram = &root.children[0];
        assert_eq!((ram.count, ram.bytes, ram.children.len()), (2, 20480, 2));
        assert_eq!(ram.children[0].describe(), "2 × Frame, 8 KiB, 1 with copies: b");
        assert_eq!(ram.children[0].children[0].describe(), "Mapping, 4 KiB: b");
        let svg = picture(text).unwrap().into_string();
        assert_eq!(svg.matches("<rect").count(), 5 + 4, "five groups of four uses: {svg}");
        assert!(svg.contains("page tables") && !svg.contains("dispatchers"), "{svg}");
        assert!(picture("cat: no such file").is_none());
    }

    #[test]
    fn wrong_depths_do_no_harm() {
        assert_eq!(groups("5 Frame 0x0 4096 0 a\n7 Frame 0x0 4096 0 a\n").children.len(), 1);
    }

    #[test]
    fn whose_they_are() {
        let text =
            "0 Ram 0x0 16384 0 memd\n1 Frame 0x0 4096 1 2:sh,3:cat\n1 Frame 0x1000 8192 0 3:cat\n";
        let root = groups(text);
        let frames: Vec<_> = root.children[0].children.iter().map(Group::describe).collect();
        let both = "Frame, 4 KiB, 1 with copies: 2:sh, 3:cat";
        assert_eq!(frames, [both, "Frame, 8 KiB: 3:cat"], "others' are drawn apart");
        let table = owners(text).unwrap().into_string();
        let row = |name: &str| {
            let from = table.find(&format!(">{name}<")).expect(name);
            let row = &table[from..from + table[from..].find("</tr>").unwrap()];
            row.split(['<', '>']).filter_map(|text| text.parse::<u64>().ok()).collect::<Vec<_>>()
        };
        assert_eq!(row("memd"), [1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(row("2:sh"), [0, 1, 0, 0, 0, 4, 4]);
        assert_eq!(row("3:cat"), [0, 2, 0, 0, 0, 12, 4]);
        assert!(owners("no line\n").is_none());
    }
}
