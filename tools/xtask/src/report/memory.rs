//! The memory of a process as a picture, from what it reads in `/proc/self/maps`.

use super::chart::{MARGIN, WIDTH};
use super::svg::{Anchor, Drawing};
use crate::results::grouped;
use maud::Markup;

/// A line of `/proc/PID/maps`.
#[derive(Debug, PartialEq)]
struct Region {
    start: u64,
    end: u64,
    rights: String,
    name: String,
}

impl Region {
    fn parse(line: &str) -> Option<Region> {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?.to_owned();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let name = fields.nth(3).unwrap_or("anonymous").to_owned();
        Some(Region { start: hex(start)?, end: hex(end)?, rights, name })
    }

    /// Which colour it has.
    fn kind(&self) -> &'static str {
        match self.rights.as_bytes() {
            [_, _, b'x', ..] => "tessera",
            [_, b'w', ..] => "linux",
            [b'r', ..] => "paper",
            _ => "linux-thp",
        }
    }

    fn height(&self) -> f64 {
        height((self.end - self.start) / 4096)
    }
}

/// Of a region, by the logarithm of its pages: a stack is not lost beside a heap.
fn height(pages: u64) -> f64 {
    18.0 + 4.0 * (pages.max(1) as f64).log2()
}

/// 12 KiB, 3.5 MiB, 127 TiB.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match value {
        whole if whole.fract() == 0.0 => format!("{} {}", grouped(whole), units[unit]),
        other => format!("{other:.1} {}", units[unit]),
    }
}

/// Highest addresses on top, as books draw them; gaps are drawn all alike.
pub fn picture(maps: &str) -> Markup {
    const LEFT: f64 = 112.0;
    const BAR: f64 = 56.0;
    const GAP: f64 = 22.0;
    let mut regions: Vec<Region> = maps.lines().filter_map(Region::parse).collect();
    regions.sort_by_key(|region| std::cmp::Reverse(region.start));
    let mut drawing = Drawing::default();
    let kinds = [
        ("tessera", "executable"),
        ("linux", "writable"),
        ("paper", "read only"),
        ("linux-thp", "no access"),
    ];
    let present = kinds.iter().filter(|(kind, _)| regions.iter().any(|one| one.kind() == *kind));
    let entries: Vec<_> = present.map(|(kind, text)| ((*kind).to_owned(), *text)).collect();
    let mut y = drawing.legend((MARGIN, 8.0), WIDTH - 2.0 * MARGIN, &entries) + 12.0;
    let mut below: Option<u64> = None;
    for region in &regions {
        if let Some(gap) = below.map(|start| start - region.end).filter(|gap| *gap > 0) {
            let text = format!("{} of nothing", size(gap));
            drawing.text(LEFT + BAR / 2.0, y + 15.0, Anchor::Middle, "faint", &text);
            y += GAP;
        }
        let what = format!("{} {} {}", region.rights, size(region.end - region.start), region.name);
        let text_at = (LEFT + BAR + 10.0, y + 14.0);
        let lines = drawing.paragraph(text_at, WIDTH - MARGIN - text_at.0, "", &what) - text_at.1;
        let height = region.height().max(lines);
        let class = format!("{} fill", region.kind());
        drawing.rectangle([LEFT, y, BAR, height], &class, &region.name);
        let address = format!("{:x}", region.start);
        drawing.text(LEFT - 8.0, y + 14.0, Anchor::End, "faint", &address);
        y += height + 2.0;
        below = Some(region.start);
    }
    drawing.inline(WIDTH, y + 10.0, "The regions of a process, highest addresses on top")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions() {
        let line = "00401000-00585000 r-xp 00001000 00:01 25      /bin/cat";
        let region = Region::parse(line).unwrap();
        assert_eq!(
            (region.start, region.name.as_str(), region.kind()),
            (0x401000, "/bin/cat", "tessera")
        );
        let anonymous = Region::parse("7f0000000000-7f0000001000 rw-p 00000000 00:00 0").unwrap();
        assert_eq!((anonymous.name.as_str(), anonymous.kind()), ("anonymous", "linux"));
        assert_eq!(Region::parse("no region"), None);
        assert_eq!([size(4096), size(1 << 47), size(1536)], ["4 KiB", "128 TiB", "1.5 KiB"]);
        let svg = picture(&format!("{line}\n7f0000000000-7f0000001000 rw-p 0 00:00 0 [stack]\n"));
        let svg = svg.into_string();
        assert!(svg.find("[stack]") < svg.find("/bin/cat") && svg.contains("of nothing"), "{svg}");
    }
}
