//! The capability tree of a running system as a picture, from `/proc/tessera/capabilities`.
//!
//! A line of it is `DEPTH TYPE BASE BYTES COPIES`, in the order of the mapping database: what a
//! capability was made into follows it, one deeper.

use super::chart::WIDTH;
use super::svg::{Anchor, Drawing};
use crate::results::grouped;

/// Equal capabilities that follow each other.
#[derive(Debug, PartialEq)]
struct Run {
    depth: usize,
    kind: String,
    count: u64,
    bytes: u64,
}

fn runs(text: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [depth, kind, _, bytes, _] = fields[..] else { continue };
        let (Ok(depth), Ok(bytes)) = (depth.parse(), bytes.parse::<u64>()) else { continue };
        match runs.last_mut() {
            Some(last) if last.depth == depth && last.kind == kind => {
                last.count += 1;
                last.bytes += bytes;
            }
            _ => runs.push(Run { depth, kind: kind.to_owned(), count: 1, bytes }),
        }
    }
    runs
}

/// Nothing if the text lists none.
pub fn picture(text: &str) -> Option<String> {
    /// More would make nobody wiser.
    const MOST: usize = 120;
    const STEP: f64 = 26.0;
    const ROW: f64 = 20.0;
    let runs = runs(text);
    let mut drawing = Drawing::default();
    for (row, run) in runs.iter().take(MOST).enumerate() {
        let (x, y) = (12.0 + STEP * run.depth as f64, 8.0 + ROW * row as f64);
        if run.depth > 0 {
            drawing.line((x - STEP + 6.0, y + 8.0), (x - 2.0, y + 8.0), "grid");
            let parent = runs[..row].iter().rposition(|other| other.depth < run.depth);
            let top = 8.0 + ROW * parent.unwrap_or(0) as f64 + 14.0;
            drawing.line((x - STEP + 6.0, top), (x - STEP + 6.0, y + 8.0), "grid");
        }
        let class = format!("{} fill", colour(&run.kind));
        drawing.rectangle([x, y + 2.0, 12.0, 12.0], &class, &run.kind);
        let times = if run.count > 1 {
            format!("{} × ", grouped(run.count as f64))
        } else {
            String::new()
        };
        let bytes = match run.bytes {
            0 => String::new(),
            bytes => format!(", {} KiB", grouped((bytes >> 10) as f64)),
        };
        drawing.text(x + 18.0, y + 13.0, Anchor::Start, "", &format!("{times}{}{bytes}", run.kind));
    }
    let shown = runs.len().min(MOST);
    let mut height = 16.0 + ROW * shown as f64;
    if runs.len() > MOST {
        let rest = format!("and {} more", runs.len() - MOST);
        drawing.text(12.0, height + 6.0, Anchor::Start, "faint", &rest);
        height += ROW;
    }
    (!runs.is_empty()).then(|| drawing.inline(WIDTH, height, "The tree of capabilities"))
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
    fn equal_neighbours_are_one() {
        let text = "0 Ram 0x0 8192 1\n1 Frame 0x0 4096 2\n1 Frame 0x1000 4096 1\n2 Mapping 0x1000 4096 1\nx\n";
        let runs = runs(text);
        assert_eq!(runs.len(), 3);
        assert_eq!((runs[1].count, runs[1].bytes, runs[1].depth), (2, 8192, 1));
        let svg = picture(text).unwrap();
        assert!(svg.contains("2 × Frame, 8 KiB"), "{svg}");
        assert_eq!(picture("cat: no such file"), None);
    }
}
