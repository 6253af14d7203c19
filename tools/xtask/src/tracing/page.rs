//! The pictures of a trace, on one page that needs nothing from elsewhere: a flame graph, and for
//! what took the most time the distribution of how long it took.

use super::text::{is_episode, unit};
use crate::report::svg::{self, Anchor, Drawing};
use crate::results::grouped;
use ::trace::dump::Dump;
use ::trace::profile::{folded, label, shares, short, Row, Share};
use ::trace::timeline::Timeline;
use anyhow::{anyhow, Result};
use maud::{html, Markup, PreEscaped, DOCTYPE};

/// Functions that get a distribution.
const FUNCTIONS: usize = 12;
/// Calls that make a distribution worth looking at.
const CALLS: usize = 8;

/// Quarters of powers of two that a distribution shows at least.
const LEAST_BUCKETS: i32 = 12;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 44.0;

pub fn page(dump: &Dump, timeline: &Timeline, rows: &[Row]) -> Result<Markup> {
    let flame = flame_graph(dump, timeline)?;
    let many = |row: &&Row| row.times.len() >= CALLS;
    let episodes = rows.iter().filter(|row| is_episode(row)).filter(many);
    let functions = rows.iter().filter(|row| !is_episode(row)).filter(many).take(FUNCTIONS);
    let (events, busy) = (grouped(timeline.events as f64), grouped(timeline.busy() as f64));
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "Function trace" }
                style { (PreEscaped(svg::STYLE)) (PreEscaped(STYLE)) }
            }
            body { main {
                h1 { "Function trace" }
                p {
                    (events) " events; " (busy) " " (unit(dump)) " busy. The width of a box is the time \
                     in a function and what it called; click on one to look closer."
                }
                div.flame { (flame) }
                h2 { "Whose time it was" }
                div.table { (processes(&shares(dump, timeline))) }
                h2 { "How long calls took" }
                p { "With what they called, without waiting." }
                @for row in episodes.chain(functions) {
                    figure { (histogram(&short(&label(dump, row.name)), &row.times, unit(dump))) }
                }
            } }
        }
    })
}

/// Beside that of the drawings.
const STYLE: &str = "\
body{margin:0;background:var(--ground);color:var(--text);font:16px/1.5 system-ui,sans-serif}\
main{max-width:1200px;margin:auto;padding:1rem}figure{margin:1rem 0;max-width:640px}\
figure svg{width:100%}\
.flame{background:#fff;width:calc(100vw - 3rem);margin-left:calc(50% - 50vw + 1.5rem)}\
.flame>svg{display:block;width:100%}.flame svg text{fill:#000}\
.table{overflow-x:auto}td,th{padding:.1rem .7rem;text-align:right}td:last-child,th:last-child{text-align:left}";

fn processes(shares: &[Share]) -> Markup {
    html! {
        table {
            tr { @for heading in ["all", "program", "library", "kernel", "page faults", "system calls", "who"] {
                th { (heading) }
            } }
            @for share in shares {
                tr {
                    @for time in [share.total(), share.program, share.library, share.kernel] {
                        td { (grouped(time as f64)) }
                    }
                    td { (grouped(share.faults as f64)) }
                    td { (grouped(share.calls as f64)) }
                    td { (share.who) }
                }
            }
        }
    }
}

/// Drawn by `inferno`, with a script of its own, which takes the picture's width away so that it becomes as wide as what
/// it is in. Within a page that says nothing; the page's style says how wide it is.
fn flame_graph(dump: &Dump, timeline: &Timeline) -> Result<PreEscaped<String>> {
    use inferno::flamegraph::{from_lines, Options};
    let stacks = folded(dump, timeline);
    let lines: Vec<String> = stacks.iter().map(|(stack, time)| format!("{stack} {time}")).collect();
    let mut options = Options::default();
    options.title = "Where the time went".into();
    options.count_name = unit(dump).into();
    // Those that would be seen at all: less than half a pixel is not drawn.
    options.min_width = 0.05;
    let mut out = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut out)
        .map_err(|error| anyhow!("no flame graph can be drawn: {error}"))?;
    let svg = String::from_utf8(out)?;
    // What comes before the picture is for files that hold nothing else.
    Ok(PreEscaped(svg.find("<svg").map_or(svg.clone(), |at| svg[at..].to_owned())))
}

/// How many calls took how long, on a logarithmic scale with four steps from one power of two to the
/// next.
fn histogram(title: &str, times: &[u64], unit: &str) -> Markup {
    let bucket = |time: u64| ((time.max(1) as f64).log2() * 4.0).floor() as i32;
    let (first, last) = times.iter().fold((i32::MAX, i32::MIN), |(first, last), &time| {
        (first.min(bucket(time)), last.max(bucket(time)))
    });
    // Room beside the bars, and for marks under the axis.
    let room = (LEAST_BUCKETS - (last - first)).max(2);
    let (first, last) = (first - room / 2, last + (room + 1) / 2);
    let mut counts = vec![0_usize; (last - first + 1) as usize];
    times.iter().for_each(|&time| counts[(bucket(time) - first) as usize] += 1);
    let most = counts.iter().copied().max().unwrap_or(1);
    let step = (RIGHT - LEFT) / counts.len() as f64;
    let x = |edge: f64| LEFT + edge * step;
    let y = |count: f64| BOTTOM - (BOTTOM - TOP) * count / most as f64;
    let mut drawing = Drawing::default();
    drawing.text(LEFT, 18.0, Anchor::Start, "", &shortened(title));
    for share in [0.0, 0.5, 1.0] {
        let count = (most as f64 * share).round();
        drawing.line((LEFT, y(count)), (RIGHT, y(count)), "grid");
        drawing.text(LEFT - 6.0, y(count) + 4.0, Anchor::End, "faint", &grouped(count));
    }
    for (n, &count) in counts.iter().enumerate().filter(|(_, &count)| count > 0) {
        let top = y(count as f64);
        let calls = format!("{} calls", grouped(count as f64));
        let bar = [x(n as f64), top, step.max(2.0) - 1.0, BOTTOM - top];
        drawing.rectangle(bar, "tessera fill", &calls);
    }
    let ticks = counts.len().div_ceil(6).next_multiple_of(4);
    for n in (0..counts.len()).filter(|n| (first + *n as i32).rem_euclid(ticks as i32) == 0) {
        let value = 2f64.powf(f64::from(first + n as i32) / 4.0);
        drawing.text(x(n as f64), BOTTOM + 16.0, Anchor::Middle, "faint", &grouped(value.round()));
    }
    let axis = format!("{unit} (calls: {})", grouped(times.len() as f64));
    drawing.text(RIGHT, BOTTOM + 34.0, Anchor::End, "faint", &axis);
    drawing.inline(WIDTH, HEIGHT, title)
}

/// At most as long as a line of the picture.
fn shortened(title: &str) -> String {
    const MOST: usize = 80;
    match title.chars().count() {
        0..=MOST => title.to_owned(),
        _ => title.chars().take(MOST - 1).chain(['…']).collect(),
    }
}
