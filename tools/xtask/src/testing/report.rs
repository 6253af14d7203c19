//! `./x report`: the page is complete, and a browser that is there finds it in order.
//!
//! The browser test is passed over where there is no Chromium; none is installed for it.

use super::{Case, Context, TestResult};
use crate::results::{self, Clock, Direction, Measurement, Size, System};
use crate::setup::find_in_path;
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How a page is looked at.
struct View {
    name: &'static str,
    /// In pixels. The page stands in a frame, which may be narrower than a window of the browser.
    width: u32,
    /// As paper, with the rules of print.
    printed: bool,
}

const VIEWS: [View; 3] = [
    View { name: "phone", width: 400, printed: false },
    View { name: "desk", width: 1400, printed: false },
    // What a sheet has between its margins.
    View { name: "paper", width: 700, printed: true },
];

/// Replaces the page by what is wrong with it: shapes of figures that stick out, texts that overlap
/// or are too small to read, figures of measurements without a direction or with a value that no
/// table has, tables that are cut, and a page that is wider than the window.
const INSPECTION: &str = r#"<script>
const wrong = [];
const figures = document.querySelectorAll('svg');
const cells = new Set([...document.querySelectorAll('td')].map(cell => cell.textContent));
for (const svg of figures) {
  const frame = svg.getBoundingClientRect();
  for (const shape of svg.querySelectorAll('text, rect, line, circle, polyline')) {
    const a = shape.getBoundingClientRect();
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      wrong.push(`outside: ${shape.outerHTML}`);
  }
  const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  texts.forEach(([text, a], i) => {
    for (const [other, b] of texts.slice(i + 1))
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2)
        wrong.push(`overlap: ${text} / ${other}`);
  });
  const size = 13 * frame.width / svg.viewBox.baseVal.width;
  if (size < 10) wrong.push(`letters of ${size} pixels: ${svg.getAttribute('aria-label')}`);
  if (!svg.closest('.measured')) continue;
  if (!svg.textContent.includes('is better'))
    wrong.push(`no direction: ${svg.getAttribute('aria-label')}`);
  for (const title of svg.querySelectorAll('circle title')) {
    const value = title.textContent.match(/: ([0-9,.]+)( [^:]*)?$/);
    if (!value || !cells.has(value[1])) wrong.push(`in no table: ${title.textContent}`);
  }
  for (const bold of svg.querySelectorAll('text.best, text.gain, text.loss'))
    if (!/better|worse/.test(bold.textContent) && !cells.has(bold.textContent))
      wrong.push(`in no table: ${bold.textContent}`);
}
for (const box of document.querySelectorAll('.scroll'))
  if (box.scrollWidth > box.clientWidth) wrong.push(`cut: ${box.textContent.slice(0, 60)}`);
for (const cell of document.querySelectorAll('td'))
  if (cell.scrollWidth > cell.clientWidth + 1) wrong.push(`wider than its column: ${cell.textContent}`);
const extent = document.createRange();
for (const cell of document.querySelectorAll('td:not(:first-child)')) {
  extent.selectNodeContents(cell);
  if (/^[0-9,.]+$/.test(cell.textContent) && extent.getClientRects().length > 1)
    wrong.push(`a broken number: ${cell.textContent}`);
}
if (document.querySelector('details:not([open])')) wrong.push('something is closed');
if (document.documentElement.scrollWidth > innerWidth) wrong.push('wider than the window');
const verdict = parent.document.createElement('pre');
verdict.textContent = `figures ${figures.length}\n${wrong.join('\n')}`;
parent.document.body.replaceChildren(verdict);
</script>"#;

pub fn cases() -> Vec<Case> {
    let page = Case::single("report/page".into(), |context| write_page(context).map(drop));
    let wrong = Case::single("report/nothing_measured".into(), nothing_measured);
    let browser = Case::several("report/browser".into(), |context| {
        let name = "report/browser".to_owned();
        let Some(browser) = BROWSERS.iter().find_map(|name| find_in_path(name)) else {
            println!("skipped {name}: there is no Chromium");
            return Vec::new();
        };
        let outcome = look_at(context, &browser).map_err(|error| format!("{error:#}"));
        vec![TestResult { name, outcome }]
    });
    let comparison =
        Case::single("report/comparison".into(), |context| write_comparison(context).map(drop));
    vec![page, wrong, comparison, browser]
}

fn x_report(context: &Context, arguments: &[&Path]) -> Result<(bool, String)> {
    let output = Command::new(std::env::current_exe()?)
        .arg("report")
        .args(arguments)
        .env("TESSERA_ROOT", &context.project.root)
        .output()?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Linux's recorded counts; the same with other values as Tessera's; as times that vary; and as rates.
/// Times `factor` what they would be.
fn measurements(context: &Context, factor: f64) -> Result<Vec<Measurement>> {
    let recorded = results::read(&context.project.path("guest/bench/linux.json"))?;
    let mut all = Vec::new();
    for (n, one) in recorded.iter().enumerate() {
        let value = one.median().unwrap_or(1.0);
        let mut own = one.clone();
        own.system = System::Tessera;
        own.samples = vec![value * [0.3, 1.0, 1.7][n % 3] * if n % 5 == 0 { factor } else { 1.0 }];
        let timed = [one, &own].map(|one| {
            let mut timed = one.clone();
            timed.question.clock = Clock::Wall;
            (timed.question.unit, timed.question.better) = match one.question.case.len() % 4 {
                0 => ("MiB/s".into(), Direction::Higher),
                _ => ("ns".into(), Direction::Lower),
            };
            // The greatest is far from the median.
            timed.samples = one.samples.iter().flat_map(|&v| [v, v * 0.8, v * 4.0]).collect();
            timed
        });
        all.push(one.clone());
        // Of what both systems with Linux's pages answer, once.
        if one.system == System::Linux {
            all.push(own);
        }
        all.extend(timed.into_iter().filter(|_| one.system == System::Linux));
    }
    Ok(all)
}

/// A page of what changed if every fifth of Tessera's answers has doubled.
fn write_comparison(context: &Context) -> Result<PathBuf> {
    let folder = context.folder(&format!("comparison/{:?}", std::thread::current().id()))?;
    let [before, after, page] =
        ["before.json", "after.json", "page.html"].map(|name| folder.join(name));
    results::write(&before, &measurements(context, 1.0)?)?;
    results::write(&after, &measurements(context, 2.0)?)?;
    let [compare, output] = ["--compare", "--output"].map(Path::new);
    let (well, said) = x_report(context, &[compare, &before, &after, output, &page])?;
    ensure!(well && said.is_empty(), "{said}");
    let text = fs::read_to_string(&page)?;
    let (changed, same) = text.split_once("The same but for the noise</h2>").context("no rest")?;
    let rows = |text: &str, word: &str| text.matches(&format!(">{word}</td>")).count();
    let (worse, better) = (rows(changed, "worse"), rows(changed, "better"));
    ensure!(worse > 0 && better == 0, "{worse} worse, {better} better");
    ensure!(rows(changed, "same") == 0 && rows(same, "same") > 4 * worse, "{}", rows(same, "same"));
    ensure!(text.contains(&format!("{worse} worse, 0 better")), "another sum than {worse}");
    let (well, said) = x_report(context, &[compare, &after, &folder.join("missing.json")])?;
    ensure!(!well && said.contains("missing.json"), "{said}");
    Ok(page)
}

/// A figure of `./x bench sfb`: three kernels, and the gains that the paper has, too.
fn three_columns(all: &[Measurement]) -> Result<Vec<Measurement>> {
    let like = all.first().context("nothing was measured")?;
    let cases = [("uncached", 300.0), ("cache", 200.0), ("direct", 180.0), ("cache, gain", 50.0)];
    let one = |(case, value): (&str, f64), cores: f64| {
        let mut own = like.clone();
        own.system = System::Tessera;
        own.samples = vec![value * cores];
        own.question.benchmark = "SFB-f2".into();
        own.question.case = case.into();
        own.question.at = Some(Size { value: cores, unit: "cores".into() });
        own.question.clock = Clock::Instructions;
        own.question.unit =
            if case.ends_with("gain") { "percent" } else { "instructions per MB" }.into();
        own.question.better =
            if case.ends_with("gain") { Direction::Higher } else { Direction::Lower };
        own
    };
    Ok([1.0, 4.0].into_iter().flat_map(|cores| cases.map(|case| one(case, cores))).collect())
}

/// The page of measurements, with figures beside it.
fn write_page(context: &Context) -> Result<PathBuf> {
    // Two tests make it at the same time.
    let own = format!("report/{:?}", std::thread::current().id());
    let folder = context.folder(&own)?;
    let page = folder.join("page.html");
    let figures = folder.join("figures");
    let measured = folder.join("measured.json");
    let mut all = measurements(context, 1.0)?;
    all.extend(three_columns(&all)?);
    results::write(&measured, &all)?;
    let [json, output, into] = ["--json", "--output", "--figures"].map(Path::new);
    let (well, said) = x_report(context, &[json, &measured, output, &page, into, &figures])?;
    ensure!(well && said.is_empty(), "{said}");
    let text = fs::read_to_string(&page)?;
    for part in
        ["[heap]", "[stack]", "× Mapping", "page faults", "Linux, THP", "16,384 pages", "SFB-f2"]
    {
        ensure!(text.contains(part), "the page has no {part}");
    }
    ensure!(
        !text.contains("http") || text.matches("http").count() == text.matches("xmlns").count()
    );
    let drawn = fs::read_dir(&figures)?.count();
    // Two more are of the memory and of the capabilities.
    ensure!(drawn >= 10 && text.matches("<svg").count() == drawn + 2, "{drawn} figures");
    Ok(page)
}

fn nothing_measured(context: &Context) -> Result<()> {
    let missing = Path::new("/nonexistent/results.json");
    let (well, said) = x_report(context, &[Path::new("--json"), missing])?;
    ensure!(!well && said.contains("first: ./x compare"), "it said: {said}");
    Ok(())
}

fn look_at(context: &Context, browser: &Path) -> Result<()> {
    for page in [write_page(context)?, write_comparison(context)?] {
        let text = fs::read_to_string(&page)?;
        let figures = text.matches("<svg").count();
        for view in &VIEWS {
            inspect(browser, &page, &text, view)
                .and_then(|verdict| {
                    ensure!(verdict.trim() == format!("figures {figures}"), "{verdict}");
                    Ok(())
                })
                .with_context(|| format!("{} on {}", page.display(), view.name))?;
        }
        let file = page.with_file_name("page.pdf");
        let arguments = ["--no-pdf-header-footer", &format!("--print-to-pdf={}", file.display())];
        browse(browser, VIEWS[1].width, &arguments, &page)?;
        let bytes = fs::read(&file).context("no print")?;
        ensure!(bytes.starts_with(b"%PDF") && bytes.len() > 20_000, "an empty print");
    }
    Ok(())
}

/// Draws a page as it is in a view, and tells what is wrong with it.
fn inspect(browser: &Path, page: &Path, text: &str, view: &View) -> Result<String> {
    let shown = match view.printed {
        true => {
            let rules = text.replace("@media print", "@media all");
            let shown = rules.replace("@media screen", "@media not all");
            ensure!(rules != text && shown != rules, "there are no rules for print");
            shown
        }
        false => text.to_owned(),
    };
    let framed = |name: &str, text: &str| -> Result<PathBuf> {
        let file = page.with_file_name(format!("{}-{name}.html", view.name));
        let text = text.replace('&', "&amp;").replace('"', "&quot;");
        let style = format!("border:0;width:{}px;height:4000px", view.width);
        let frame = format!("<iframe style=\"{style}\" srcdoc=\"{text}\"></iframe>");
        fs::write(&file, format!("<!DOCTYPE html><body style=\"margin:0\">{frame}</body>"))?;
        Ok(file)
    };
    let picture = page.with_file_name(format!("{}.png", view.name));
    let screenshot = format!("--screenshot={}", picture.display());
    browse(browser, view.width, &[&screenshot], &framed("shown", &shown)?)?;
    let bytes = fs::read(&picture).context("no screenshot")?;
    ensure!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "an empty screenshot");
    let inspected = shown.replace("</body>", &format!("{INSPECTION}</body>"));
    let dom = browse(browser, view.width, &["--dump-dom"], &framed("inspected", &inspected)?)?;
    let verdict = dom.split_once("<pre>").and_then(|(_, rest)| rest.split_once("</pre>"));
    Ok(verdict.context("the page was not inspected")?.0.to_owned())
}

fn browse(browser: &Path, width: u32, arguments: &[&str], page: &Path) -> Result<String> {
    let output = Command::new("timeout")
        .args(["60", &browser.to_string_lossy(), "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--hide-scrollbars", &format!("--window-size={width},4000")])
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()?;
    ensure!(output.status.success(), "{}: {}", browser.display(), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
