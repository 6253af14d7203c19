//! Drawing: shapes and text in SVG that fits both light and dark surroundings.

use maud::{html, Markup, PreEscaped};
use std::fmt::{self, Display, Formatter};

/// Colours of systems and of text, for light and dark; in a page and in a file of its own.
pub const STYLE: &str = "\
:root{--ground:#fff;--text:#1b1f24;--faint:#59636e;--line:#d5dae0;\
--tessera:#b3400f;--linux:#1f5fa8;--linux-thp:#6f93bd;--paper:#5a7d2a;--host:#6b4fa0}\
@media screen and (prefers-color-scheme:dark){:root{--ground:#14171b;--text:#e6e9ed;--faint:#9aa4af;\
--line:#3a414a;--tessera:#ff9a5c;--linux:#7db7ff;--linux-thp:#4b7fb8;--paper:#a5cf6a;--host:#b9a2ea}}\
svg{font:13px system-ui,sans-serif}svg text{fill:var(--text)}svg .faint{fill:var(--faint)}\
svg .grid{stroke:var(--line);stroke-width:1}\
svg .tessera{--own:var(--tessera)}svg .linux{--own:var(--linux)}\
svg .linux-thp{--own:var(--linux-thp);stroke-dasharray:6 4}svg .fill{stroke:none}svg .paper{--own:var(--paper)}svg .host{--own:var(--host)}\
svg .series-0{--own:var(--tessera)}svg .series-1{--own:var(--linux)}svg .series-2{--own:var(--paper)}\
svg .series-3{--own:var(--host)}svg .series-4{--own:#c2a000}svg .series-5{--own:#c2477f}\
svg .series-6{--own:#2c8f8f}svg .series-7{--own:#8a6a4a}svg .series-8{--own:#7f7f7f}\
svg .fill{fill:var(--own)}svg .stroke{stroke:var(--own);stroke-width:2;fill:none}\
svg .dashed{stroke-dasharray:6 4}\
svg .title,svg .best{font-weight:600}svg .gain{--own:var(--linux)}svg .loss{--own:var(--tessera)}svg text.gain,svg text.loss{fill:var(--own);font-weight:600}svg .whisker{stroke:var(--own,var(--text));stroke-width:1.5;stroke-dasharray:none}";

/// What a letter takes at most on average in the widest of the usual fonts, at the size of
/// [`STYLE`], in units of the drawing.
pub const LETTER: f64 = 7.8;
/// The same of a title, which is bold.
const BOLD: f64 = 9.0;
/// From one line of text to the next.
pub const LINE: f64 = 18.0;

/// A drawing whose size is known at the end.
#[derive(Default)]
pub struct Drawing {
    shapes: Vec<Markup>,
}

/// Where a text begins, is centred or ends.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A coordinate, to a tenth.
struct At(f64);

impl Display for At {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

impl Drawing {
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.shapes.push(html! {
            text x=(At(x)) y=(At(y)) text-anchor=(anchor) class=(class) { (text) }
        });
    }

    /// A text in as many lines as it needs within `width`, the first of them at `y`; where the next
    /// line would be.
    pub fn paragraph(&mut self, (x, y): (f64, f64), width: f64, class: &str, text: &str) -> f64 {
        let letter = if class == "title" { BOLD } else { LETTER };
        let lines = broken(text, (width / letter) as usize);
        for (n, line) in lines.iter().enumerate() {
            self.text(x, y + LINE * n as f64, Anchor::Start, class, line);
        }
        y + LINE * lines.len() as f64
    }

    /// Squares of classes' colours with what they mean, the first at `(x, y)`, as many in a row as
    /// `width` has room for; the place below.
    pub fn legend<T: AsRef<str>>(
        &mut self,
        (x, y): (f64, f64),
        width: f64,
        entries: &[(String, T)],
    ) -> f64 {
        const SQUARE: f64 = 17.0;
        let (mut at, mut top, mut below) = (x, y, y);
        for (class, text) in entries {
            let own = SQUARE + LETTER * text.as_ref().chars().count() as f64;
            if at + own > x + width {
                (at, top) = (x, below);
            }
            self.rectangle([at, top, 12.0, 12.0], &format!("{class} fill"), "");
            let room = width - SQUARE;
            let next = self.paragraph((at + SQUARE, top + 11.0), room, "", text.as_ref());
            below = next - 11.0;
            at += own + 14.0;
        }
        below
    }

    /// From `low` to `high` with a stroke across each end, all at the same `y`.
    pub fn whisker_across(&mut self, (low, high): (f64, f64), y: f64) {
        self.line((low, y), (high, y), "whisker");
        for x in [low, high] {
            self.line((x, y - 3.0), (x, y + 3.0), "whisker");
        }
    }

    /// The same upright, at `x`, in the colour of a class.
    pub fn whisker_up(&mut self, x: f64, (low, high): (f64, f64), class: &str) {
        let class = &format!("{class} whisker");
        self.line((x, low), (x, high), class);
        for y in [low, high] {
            self.line((x - 3.0, y), (x + 3.0, y), class);
        }
    }

    /// A rectangle; `title` is what a pointer over it shows.
    pub fn rectangle(&mut self, [x, y, w, h]: [f64; 4], class: &str, title: &str) {
        self.shapes.push(html! {
            rect x=(At(x)) y=(At(y)) width=(At(w)) height=(At(h)) rx="2" class=(class) {
                title { (title) }
            }
        });
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.shapes.push(html! {
            line x1=(At(x1)) y1=(At(y1)) x2=(At(x2)) y2=(At(y2)) class=(class) {}
        });
    }

    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<_> = points.iter().map(|&(x, y)| format!("{},{}", At(x), At(y))).collect();
        self.shapes.push(html! { polyline points=(points.join(" ")) class=(class) {} });
    }

    pub fn dot(&mut self, (x, y): (f64, f64), class: &str, title: &str) {
        self.shapes.push(html! {
            circle cx=(At(x)) cy=(At(y)) r="4" class=(class) { title { (title) } }
        });
    }

    /// As part of a page, which has the style.
    pub fn inline(&self, width: f64, height: f64, label: &str) -> Markup {
        html! {
            svg viewBox={ "0 0 " (width.round()) " " (height.round()) } role="img" aria-label=(label)
                xmlns="http://www.w3.org/2000/svg" {
                @for shape in &self.shapes { "\n" (shape) }
            }
        }
    }

    /// As a file, which brings its style and its ground along.
    pub fn standalone(&self, width: f64, height: f64, label: &str) -> Markup {
        let (width, height) = (width.round(), height.round());
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
                role="img" aria-label=(label) xmlns="http://www.w3.org/2000/svg" {
                "\n"
                style { (PreEscaped(STYLE)) }
                "\n"
                rect width="100%" height="100%" style="fill:var(--ground)" {}
                @for shape in &self.shapes { "\n" (shape) }
            }
            "\n"
        }
    }
}

/// Lines of at most `most` letters: broken between words, and within one that is longer.
fn broken(text: &str, most: usize) -> Vec<String> {
    let most = most.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let letters: Vec<char> = word.chars().collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + letters.len() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.extend(letters.chunks(most).map(|part| part.iter().collect::<String>())),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken() {
        assert_eq!(broken("of a shell at work", 8), ["of a", "shell at", "work"]);
        assert_eq!(broken("unbreakable it", 6), ["unbrea", "kable", "it"]);
        assert_eq!(broken("", 6), Vec::<String>::new());
        let mut drawing = Drawing::default();
        let entries = ["one", "two", "three"].map(|text| ("linux".to_owned(), text));
        assert_eq!(drawing.legend((12.0, 50.0), 120.0, &entries), 50.0 + 2.0 * LINE);
        let svg = drawing.inline(144.0, 90.0, "legend").into_string();
        assert_eq!(svg.matches("<rect x=\"12.0\"").count(), 2, "{svg}");
    }

    #[test]
    fn texts_are_escaped() {
        let mut drawing = Drawing::default();
        drawing.text(1.0, 2.0, Anchor::End, "faint", "a<b & \"c\"");
        let svg = drawing.inline(10.0, 20.0, "x>y").into_string();
        assert!(svg.contains(">a&lt;b &amp; &quot;c&quot;</text>"), "{svg}");
        assert!(svg.contains("aria-label=\"x&gt;y\""), "{svg}");
    }
}
