//! `./x report`: the page is complete, and a browser that is there finds it in order.
//!
//! The browser test is passed over where there is no Chromium; none is installed for it.

use super::{Case, Context, TestResult};
use crate::setup::find_in_path;
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Widths of windows: a phone and a desk. Narrower ones the browser does not make.
const WIDTHS: [u32; 2] = [500, 1400];

/// Replaces the page by what is wrong with it: texts of figures that overlap or stick out, and a
/// page that is wider than the window.
const INSPECTION: &str = "<script>
const wrong = [];
const figures = document.querySelectorAll('svg');
for (const svg of figures) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  texts.forEach(([text, a], i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      wrong.push(`outside: ${text}`);
    for (const [other, b] of texts.slice(i + 1))
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2)
        wrong.push(`overlap: ${text} / ${other}`);
  });
}
if (document.documentElement.scrollWidth > innerWidth) wrong.push('wider than the window');
document.body.innerHTML = `<pre>figures ${figures.length}\\n${wrong.join('\\n')}</pre>`;
</script>";

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
    vec![page, wrong, browser]
}

fn x_report(context: &Context, arguments: &[&Path]) -> Result<(bool, String)> {
    let output = Command::new(std::env::current_exe()?)
        .arg("report")
        .args(arguments)
        .env("TESSERA_ROOT", &context.project.root)
        .output()?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The page of Linux's recorded counts, with figures beside it.
fn write_page(context: &Context) -> Result<PathBuf> {
    // Two tests make it at the same time.
    let own = format!("report/{:?}", std::thread::current().id());
    let folder = context.folder(&own)?;
    let page = folder.join("page.html");
    let figures = folder.join("figures");
    let recorded = context.project.path("guest/bench/linux.json");
    let [json, output, into] = ["--json", "--output", "--figures"].map(Path::new);
    let (well, said) = x_report(context, &[json, &recorded, output, &page, into, &figures])?;
    ensure!(well && said.is_empty(), "{said}");
    let text = fs::read_to_string(&page)?;
    for part in ["[heap]", "[stack]", "× Mapping", "page faults", "Linux, THP", "16,384 pages"] {
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
    let page = write_page(context)?;
    let text = fs::read_to_string(&page)?;
    let expected = format!("figures {}", text.matches("<svg").count());
    let inspected = page.with_file_name("inspected.html");
    fs::write(&inspected, text.replace("</body>", &format!("{INSPECTION}</body>")))?;
    for width in WIDTHS {
        let picture = page.with_file_name(format!("{width}.png"));
        let screenshot = format!("--screenshot={}", picture.display());
        browse(browser, width, &[&screenshot], &page)?;
        let bytes = fs::read(&picture).context("no screenshot")?;
        ensure!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "an empty screenshot");
        let dom = browse(browser, width, &["--dump-dom"], &inspected)?;
        let verdict = dom.split_once("<pre>").and_then(|(_, rest)| rest.split_once("</pre>"));
        let (verdict, _) = verdict.context("the page was not inspected")?;
        ensure!(verdict.trim() == expected, "{width} pixels wide: {verdict}");
    }
    Ok(())
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
