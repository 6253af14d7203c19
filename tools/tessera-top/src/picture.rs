//! The picture.

use crate::sample::{Process, Sample};
use anyhow::Result;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Gauge, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};
use std::collections::VecDeque;

/// What the processes are sorted by, the largest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Processor time since the last look.
    Processor,
    /// Pages in memory.
    Memory,
    /// Page faults since the last look.
    Faults,
    /// Process id, the smallest first.
    Number,
}

/// Counters of which the rate is shown over time.
const CURVES: [(&str, &str); 3] =
    [("page_faults", "faults/s"), ("page_copies", "copies/s"), ("linux_calls", "calls/s")];
/// Counters of which the rate is shown as a number.
const RATES: [(&str, &str); 6] = [
    ("invocations", "invocations"),
    ("messages", "messages"),
    ("switches", "switches"),
    ("pages_zeroed", "pages zeroed"),
    ("tlb_pages", "TLB pages"),
    ("shootdowns", "shootdowns"),
];
/// From so many columns on there is room for everything.
const WIDE: u16 = 106;
/// Of the table: name, width, and whether it is for wide terminals only.
const COLUMNS: [(&str, Constraint, bool); 13] = [
    ("pid", Constraint::Length(6), false),
    ("parent", Constraint::Length(6), true),
    ("state", Constraint::Length(5), false),
    ("threads", Constraint::Length(7), true),
    ("cpu", Constraint::Length(5), false),
    ("mapped", Constraint::Length(8), true),
    ("own", Constraint::Length(8), false),
    ("files", Constraint::Length(8), false),
    ("faults/s", Constraint::Length(8), false),
    ("copied", Constraint::Length(7), false),
    ("tables", Constraint::Length(6), true),
    ("shared", Constraint::Length(6), false),
    ("name", Constraint::Min(10), false),
];
/// Moments that are remembered.
const REMEMBERED: usize = 400;

/// Two moments, and what was before.
pub struct Picture {
    pub order: Order,
    now: Sample,
    before: Option<Sample>,
    curves: [VecDeque<u64>; CURVES.len()],
}

impl Picture {
    pub fn new(now: Sample) -> Picture {
        Picture { order: Order::Processor, now, before: None, curves: Default::default() }
    }

    /// Another moment.
    pub fn next(&mut self, now: Sample) {
        self.before = Some(std::mem::replace(&mut self.now, now));
        for (curve, (name, _)) in CURVES.iter().enumerate() {
            let rate = self.rate(name);
            self.curves[curve].push_front(rate);
            self.curves[curve].truncate(REMEMBERED);
        }
    }

    /// Seconds between the two moments.
    fn seconds(&self) -> f64 {
        self.before.as_ref().map_or(0.0, |before| (self.now.at - before.at).as_secs_f64())
    }

    /// How fast a counter goes up, in a second.
    fn rate(&self, name: &str) -> u64 {
        let before = self.before.as_ref().map_or(0, |before| before.counter(name));
        per_second(self.now.counter(name).saturating_sub(before), self.seconds())
    }

    pub fn draw(&self, frame: &mut Frame) {
        let rows = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(3),
            Constraint::Length(6),
            Constraint::Length(3),
            Constraint::Min(3),
            Constraint::Length(1),
        ]);
        let [title, memory, curves, rates, processes, keys] = rows.areas(frame.area());
        self.draw_title(frame, title);
        self.draw_memory(frame, memory);
        self.draw_curves(frame, curves);
        self.draw_rates(frame, rates);
        self.draw_processes(frame, processes);
        let help = " q: leave   sort by  p: processor  m: memory  f: faults  n: number";
        frame.render_widget(Line::from(help).dim(), keys);
    }

    fn draw_title(&self, frame: &mut Frame, area: Rect) {
        let is_wide = area.width >= WIDE;
        let mut line = vec![
            Span::from(" Tessera ").bold().reversed(),
            Span::from(format!("  up {:.0} s  cores", self.now.uptime)),
        ];
        for (core, &(all, idle)) in self.now.cores.iter().enumerate() {
            let before = self.before.as_ref().and_then(|before| before.cores.get(core));
            let (all_before, idle_before) = before.copied().unwrap_or_default();
            let (all, idle) = (all.saturating_sub(all_before), idle.saturating_sub(idle_before));
            let busy = (all.saturating_sub(idle) * 100).checked_div(all).unwrap_or(0);
            line.push(Span::styled(format!("{busy:>4}%"), heat(busy)));
        }
        // All three averages, or that of the last minute.
        let averages = self.now.load.split(' ').take(if is_wide { 3 } else { 1 });
        let load = averages.collect::<Vec<_>>().join(" ");
        line.push(Span::from(format!("  load {load}  {} processes", self.now.processes.len())));
        line.push(Span::from(format!("  {} capabilities", self.now.counter("capabilities"))));
        frame.render_widget(Line::from(line), area);
    }

    fn draw_memory(&self, frame: &mut Frame, area: Rect) {
        let [memory, server] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)])
                .areas(area);
        let kib = |name: &str| self.now.memory.get(name).copied().unwrap_or(0);
        let (total, free) = (kib("MemTotal"), kib("MemFree"));
        let used = total.saturating_sub(free);
        let share = (used * 100).checked_div(total).unwrap_or(0).min(100);
        let gauge = Gauge::default()
            .block(Block::bordered().title(" memory "))
            .gauge_style(heat(share))
            .percent(share as u16)
            .label(format!("{} of {} in use", size(used << 10), size(total << 10)));
        frame.render_widget(gauge, memory);
        let bytes = |name: &str| size(self.now.server.get(name).copied().unwrap_or(0));
        let mut text = format!(" {} free, files {}", bytes("free"), size(kib("Cached") << 10));
        if area.width >= WIDE {
            text += &format!(", largest {}, reserve {}", bytes("largest"), bytes("reserve"));
        }
        let block = Block::bordered().title(" memory server ");
        frame.render_widget(Paragraph::new(text).block(block), server);
    }

    fn draw_curves(&self, frame: &mut Frame, area: Rect) {
        let areas: [Rect; CURVES.len()] =
            Layout::horizontal([Constraint::Ratio(1, CURVES.len() as u32); CURVES.len()])
                .areas(area);
        let colors = [Color::Yellow, Color::Red, Color::Cyan];
        for (curve, area) in areas.into_iter().enumerate() {
            let values = &self.curves[curve];
            let (now, most) =
                (values.front().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
            let title = format!(" {}: {} (most {}) ", CURVES[curve].1, count(now), count(most));
            // The newest is on the right.
            let width = area.width.saturating_sub(2) as usize;
            let shown: Vec<u64> = values.iter().take(width).rev().copied().collect();
            let line = Sparkline::default()
                .block(Block::bordered().title(title))
                .data(shown)
                .style(Style::new().fg(colors[curve]));
            frame.render_widget(line, area);
        }
    }

    fn draw_rates(&self, frame: &mut Frame, area: Rect) {
        let mut line = vec![Span::from(" ")];
        for (name, shown) in RATES {
            line.push(Span::from(format!("{shown} ")).dim());
            line.push(Span::from(format!("{:<8}", count(self.rate(name)))).bold());
        }
        let block = Block::bordered().title(" in a second ");
        frame.render_widget(Paragraph::new(Line::from(line)).block(block), area);
    }

    /// The same process at the moment before.
    fn earlier(&self, process: &Process) -> Option<&Process> {
        let before = self.before.as_ref()?;
        before
            .processes
            .iter()
            .find(|other| other.pid == process.pid && other.cpu_ms <= process.cpu_ms)
    }

    fn draw_processes(&self, frame: &mut Frame, area: Rect) {
        let seconds = self.seconds();
        let since = |process: &Process, of: fn(&Process) -> u64| {
            let before = self.earlier(process).map_or(0, of);
            per_second(of(process).saturating_sub(before), seconds)
        };
        let mut all: Vec<(&Process, u64, u64)> = (self.now.processes.iter())
            .map(|process| {
                let busy = since(process, |process| process.cpu_ms) / 10;
                (process, busy.min(100 * process.threads), since(process, |process| process.faults))
            })
            .collect();
        all.sort_by_key(|&(process, busy, faults)| {
            let largest = match self.order {
                Order::Processor => busy,
                Order::Memory => process.resident + process.files,
                Order::Faults => faults,
                Order::Number => 0,
            };
            (std::cmp::Reverse(largest), process.pid)
        });
        let pages = |pages: u64| size(pages * 4096);
        let is_wide = area.width >= WIDE;
        let shown = || COLUMNS.iter().enumerate().filter(|(_, (_, _, wide))| is_wide || !wide);
        let rows = all.iter().map(|&(process, busy, faults)| {
            let style = match process.state.as_str() {
                "R" => Style::new(),
                "Z" => Style::new().fg(Color::Red),
                _ => Style::new().add_modifier(Modifier::DIM),
            };
            let cells = [
                process.pid.to_string(),
                process.parent.to_string(),
                process.state.clone(),
                process.threads.to_string(),
                format!("{busy}%"),
                pages(process.mapped),
                pages(process.resident),
                pages(process.files),
                count(faults),
                count(process.copies),
                process.tables.to_string(),
                process.shared_tables.to_string(),
                process.name.clone(),
            ];
            let cells: Vec<Cell> = shown().map(|(n, _)| Cell::from(cells[n].clone())).collect();
            Row::new(cells).style(style)
        });
        let widths: Vec<Constraint> = shown().map(|(_, &(_, width, _))| width).collect();
        let names: Vec<&str> = shown().map(|(_, &(name, _, _))| name).collect();
        let table = Table::new(rows, widths)
            .header(Row::new(names).style(Style::new().bold().underlined()))
            .block(Block::bordered().title(" processes "));
        frame.render_widget(table, area);
    }
}

/// The picture of one moment as text.
pub fn text(sample: &Sample, width: u16, height: u16) -> Result<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height))?;
    let picture = Picture::new(sample.clone());
    terminal.draw(|frame| picture.draw(frame))?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    Ok(text)
}

fn per_second(count: u64, seconds: f64) -> u64 {
    if seconds > 0.0 {
        (count as f64 / seconds) as u64
    } else {
        0
    }
}

/// How hot a share in percent is.
fn heat(share: u64) -> Style {
    Style::new().fg(match share {
        0..60 => Color::Green,
        60..85 => Color::Yellow,
        _ => Color::Red,
    })
}

/// A number of bytes, shortly.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x40_0000 => format!("{}K", bytes >> 10),
        0x40_0000..0x1_0000_0000 => format!("{}M", bytes >> 20),
        _ => format!("{:.1}G", bytes as f64 / (1u64 << 30) as f64),
    }
}

/// A number, shortly.
fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{}k", number / 1000),
        _ => format!("{}M", number / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn sample(at: Instant, faults: u64, cpu_ms: u64) -> Sample {
        let process = |pid: u32, resident: u64, cpu_ms: u64, faults: u64, name: &str| Process {
            pid,
            state: "R".into(),
            threads: 1,
            cpu_ms,
            resident,
            faults,
            shared_tables: 3,
            name: name.into(),
            ..Process::default()
        };
        Sample {
            at,
            uptime: 5.0,
            load: "0.50 0.10 0.00".into(),
            cores: vec![(100, 50)],
            memory: [("MemTotal".to_owned(), 1 << 20), ("MemFree".to_owned(), 1 << 18)].into(),
            server: [("free".to_owned(), 5 << 20)].into(),
            counters: [("page_faults".to_owned(), faults), ("capabilities".to_owned(), 777)].into(),
            processes: vec![process(2, 900, 10, 1, "roomy"), process(3, 5, cpu_ms, faults, "busy")],
        }
    }

    /// What differs between two moments is shown for a second, and whoever is first depends on the order.
    #[test]
    fn rates_and_orders() {
        let start = Instant::now();
        let mut picture = Picture::new(sample(start, 100, 0));
        picture.next(sample(start + Duration::from_millis(500), 350, 250));
        assert_eq!((picture.rate("page_faults"), picture.curves[0][0]), (500, 500));
        let drawn = |picture: &Picture| {
            let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
            terminal.draw(|frame| picture.draw(frame)).unwrap();
            let cells = terminal.backend().buffer().content();
            cells.iter().map(|cell| cell.symbol()).collect::<String>()
        };
        let text = drawn(&picture);
        for part in ["faults/s: 500", "777 capabilities", "768M of 1024M", "50%", "load 0.50"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let first = |text: &str| text.find("busy").unwrap() < text.find("roomy").unwrap();
        assert!(first(&text));
        picture.order = Order::Memory;
        assert!(!first(&drawn(&picture)));
    }

    #[test]
    fn a_small_terminal_is_no_error() {
        for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 100)] {
            assert!(text(&sample(Instant::now(), 0, 0), width, height).is_ok());
        }
    }
}
