//! The capability tree of a running system as a picture, from `/proc/tessera/capabilities`.
//!
//! A line of it is `DEPTH TYPE BASE BYTES COPIES`, in the order of the mapping database: what a
//! capability was made into follows it, one deeper. There are hundreds, most of them alike, so
//! brothers of one type are drawn as one, with the children of all of them.

use super::chart::{MARGIN, WIDTH};
use super::svg::{Drawing, LINE};
use crate::results::grouped;
use maud::Markup;

/// All capabilities of one type below the same (group of) parents.
#[derive(Debug, Default, PartialEq)]
struct Group {
    kind: String,
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
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [depth, kind, _, bytes, copies] = fields[..] else { continue };
        let (Ok(depth), Ok(bytes), Ok(copies)) =
            (depth.parse::<usize>(), bytes.parse::<u64>(), copies.parse::<u64>())
        else {
            continue;
        };
        path.truncate(depth);
        let parent = path.iter().fold(&mut root, |group, &child| &mut group.children[child]);
        let known = parent.children.iter().position(|group| group.kind == kind);
        let at = known.unwrap_or(parent.children.len());
        if known.is_none() {
            parent.children.push(Group { kind: kind.to_owned(), ..Group::default() });
        }
        let group = &mut parent.children[at];
        (group.count, group.bytes, group.copied) =
            (group.count + 1, group.bytes + bytes, group.copied + copies);
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
        text
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
            "0 Ram 0x0 16384 0\n1 Frame 0x0 4096 1\n1 Pt 0x1000 4096 0\n2 Mapping 0x1000 4096 0\n\
                    1 Frame 0x2000 4096 0\n2 Mapping 0x2000 4096 0\nno line\n0 Ram 0x8000 4096 0\n";
        let root = groups(text);
        assert_eq!(root.children.len(), 1);
        let ram = &root.children[0];
        assert_eq!((ram.count, ram.bytes, ram.children.len()), (2, 20480, 2));
        assert_eq!(ram.children[0].describe(), "2 × Frame, 8 KiB, 1 with copies");
        assert_eq!(ram.children[0].children[0].describe(), "Mapping, 4 KiB");
        let svg = picture(text).unwrap().into_string();
        assert_eq!(svg.matches("<rect").count(), 5 + 4, "five groups of four uses: {svg}");
        assert!(svg.contains("page tables") && !svg.contains("dispatchers"), "{svg}");
        assert!(picture("cat: no such file").is_none());
    }

    #[test]
    fn wrong_depths_do_no_harm() {
        assert_eq!(groups("5 Frame 0x0 4096 0\n7 Frame 0x0 4096 0\n").children.len(), 1);
    }
}
