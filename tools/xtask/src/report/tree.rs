//! The capability tree of a running system as a picture, from `/proc/tessera/capabilities`.
//!
//! A line of it is `DEPTH TYPE BASE BYTES COPIES`, in the order of the mapping database: what a
//! capability was made into follows it, one deeper. There are hundreds, most of them alike, so
//! brothers of one type are drawn as one, with the children of all of them.

use super::chart::WIDTH;
use super::svg::{Anchor, Drawing};
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

/// Draws the children of a group from row `row` on; the next free row.
fn draw(drawing: &mut Drawing, group: &Group, depth: usize, mut row: usize) -> usize {
    const STEP: f64 = 30.0;
    let parent = row.saturating_sub(1);
    for child in &group.children {
        let (x, y) = (12.0 + STEP * depth as f64, 8.0 + ROW * row as f64);
        if depth > 0 {
            let trunk = x - STEP + 6.0;
            drawing.line((trunk, 8.0 + ROW * parent as f64 + 15.0), (trunk, y + 8.0), "grid");
            drawing.line((trunk, y + 8.0), (x - 2.0, y + 8.0), "grid");
        }
        let class = format!("{} fill", colour(&child.kind));
        drawing.rectangle([x, y + 2.0, 12.0, 12.0], &class, &child.kind);
        drawing.text(x + 20.0, y + 13.0, Anchor::Start, "", &child.describe());
        row = draw(drawing, child, depth + 1, row + 1);
    }
    row
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

const ROW: f64 = 22.0;

/// Nothing if the text lists none.
pub fn picture(text: &str) -> Option<Markup> {
    let root = groups(text);
    let mut drawing = Drawing::default();
    let rows = draw(&mut drawing, &root, 0, 0);
    let height = 16.0 + ROW * rows as f64;
    (rows > 0).then(|| drawing.inline(WIDTH, height, "The tree of capabilities"))
}

/// By what a capability is good for.
fn colour(kind: &str) -> &'static str {
    match kind {
        "Frame" | "DevFrame" => "linux",
        "Mapping" => "linux-thp",
        "Pt" | "Pd" | "Pdpt" | "Pml4" | "Pml5" => "paper",
        "Dispatcher" | "Endpoint" => "host",
        _ => "tessera",
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
        assert_eq!(svg.matches("<rect").count(), 5, "{svg}");
        assert!(picture("cat: no such file").is_none());
    }

    #[test]
    fn wrong_depths_do_no_harm() {
        assert_eq!(groups("5 Frame 0x0 4096 0\n7 Frame 0x0 4096 0\n").children.len(), 1);
    }
}
