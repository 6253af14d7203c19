//! `./x doc`: the pages in `docs` as a web page with search, by mdBook.
//!
//! `docs/README.md` is the table of contents: each page is a chapter where that names it first. Links to source files
//! lead to the files of this copy of the repository.

use crate::progress::Progress;
use crate::project::Project;
use crate::setup::in_path;
use crate::toolchain::host;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

const VERSION: &str = "0.4.52";
/// The table of contents.
const INDEX: &str = "README.md";
const CONFIGURATION: &str = r#"[book]
title = "The Tessera book"
language = "en"
src = "."

[build]
create-missing = false
build-dir = "../book"

[output.html]
default-theme = "light"
no-section-label = true

[output.html.search]
limit-results = 40
"#;
/// What the index says of the documentation that rustdoc made.
const RUSTDOC: &str = "
## Documentation of the code

[native programs: `tessera`](../user/x86_64-unknown-none/doc/tessera/index.html) ·
[the library below it: `libos`](../user/x86_64-unknown-none/doc/libos/index.html) ·
[the CPU driver](../kernel/x86_64-unknown-none/doc/kernel/index.html) ·
[virtual memory: `uvm`](../doc/uvm/index.html) ·
[the mapping database: `mdb`](../doc/mdb/index.html) ·
[capability types: `captypes`](../doc/captypes/index.html)
";

/// Makes the book. Returns its first page.
pub fn make(project: &Project) -> Result<PathBuf> {
    let tool = tool(project)?;
    let (docs, source) = (project.path("docs"), project.path("target/book-source"));
    let _ = fs::remove_dir_all(&source);
    copy(&docs, &source, Path::new(""))?;
    let index = fs::read_to_string(docs.join(INDEX))?;
    fs::write(source.join("SUMMARY.md"), summary(&index))?;
    fs::write(source.join("book.toml"), CONFIGURATION)?;
    let own = source.join(INDEX);
    fs::write(&own, fs::read_to_string(&own)? + RUSTDOC)?;
    let mut command = Command::new(tool);
    let output = command.arg("build").arg(&source).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mdbook does not make the book:\n{said}");
    Ok(project.path("target/book/index.html"))
}

/// mdBook; built if it is not there.
fn tool(project: &Project) -> Result<PathBuf> {
    if in_path("mdbook") {
        return Ok("mdbook".into());
    }
    let folder = project.path("target/tools");
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        let _progress = Progress::new("building mdbook (first use only, some minutes)", 0);
        let mut cargo = host(project);
        cargo.args(["install", "--quiet", "--locked", "mdbook", "--version", VERSION]);
        cargo.args(["--no-default-features", "--features", "search", "--root"]).arg(&folder);
        let output = cargo.stdin(Stdio::null()).output().context("cannot run cargo")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "mdbook does not build:\n{said}");
    }
    Ok(program)
}

/// Copies the pages below `folder`, with links that lead out of the book as they must be there.
fn copy(from: &Path, to: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(to.join(folder))?;
    for entry in fs::read_dir(from.join(folder))? {
        let path = folder.join(entry?.file_name());
        if from.join(&path).is_dir() {
            copy(from, to, &path)?;
        } else if path.extension().is_some_and(|end| end == "md") {
            let text = fs::read_to_string(from.join(&path))?;
            fs::write(to.join(&path), with_links(&text, folder))?;
        } else {
            fs::copy(from.join(&path), to.join(&path))?;
        }
    }
    Ok(())
}

/// The text of a page in `folder`: the book is one folder deeper in the repository than the pages.
fn with_links(text: &str, folder: &Path) -> String {
    let mut parts = text.split("](");
    let mut changed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let target = part.split([')', '#', ' ']).next().unwrap_or_default();
        changed += "](";
        if leaves(folder, target) {
            changed += "../";
        }
        changed += part;
    }
    changed
}

/// Does a link of a page in `folder` of the book lead out of the book?
fn leaves(folder: &Path, target: &str) -> bool {
    let mut depth = folder.components().count() as i64;
    Path::new(target).components().any(|component| {
        depth += match component {
            Component::ParentDir => -1,
            Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

/// The chapters: each page where the index names it first, under the headings of the index.
fn summary(index: &str) -> String {
    let mut text = String::from("# Summary\n\n[The Tessera book](README.md)\n");
    let mut seen = BTreeSet::new();
    for line in index.split("\n## ") {
        let (heading, body) = line.split_once('\n').unwrap_or((line, ""));
        let pages: Vec<(String, &str)> = links(body)
            .filter(|(_, page)| {
                page.ends_with(".md") && !page.starts_with("..") && seen.insert(*page)
            })
            .collect();
        if pages.is_empty() {
            continue;
        }
        text += &format!("\n# {}\n\n", heading.trim_start_matches("# "));
        pages.iter().for_each(|(name, page)| text += &format!("- [{name}]({page})\n"));
    }
    text
}

/// Names and targets of the links in a text.
fn links(text: &str) -> impl Iterator<Item = (String, &str)> {
    text.split("](").zip(text.split("](").skip(1)).filter_map(|(before, behind)| {
        let name = before.rsplit_once('[')?.1.split_whitespace().collect::<Vec<_>>().join(" ");
        let target = behind.split([')', '#']).next()?;
        Some((name, target))
    })
}

/// Every page of the book is a chapter of it.
pub fn check(root: &Path) -> Result<()> {
    let docs = root.join("docs");
    let chapters = summary(&fs::read_to_string(docs.join(INDEX))?);
    let mut forgotten = Vec::new();
    for folder in ["", "questions", "decisions"] {
        for entry in fs::read_dir(docs.join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if name.ends_with(".md") && !chapters.contains(&format!("({path})")) {
                forgotten.push(path);
            }
        }
    }
    ensure!(
        forgotten.is_empty(),
        "docs/{INDEX} does not name these pages:\n{}",
        forgotten.join("\n")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_in_order_and_once() {
        let index =
            "# Book\n1. [One](one.md): [two\n  more](sub/two.md)\n\n## More\n[again](one.md#part) \
                     [three](three.md) [code](../x.rs)\n## None\n[two](sub/two.md)\n";
        let expected = "# Summary\n\n[The Tessera book](README.md)\n\n# Book\n\n- [One](one.md)\n\
                        - [two more](sub/two.md)\n\n# More\n\n- [three](three.md)\n";
        assert_eq!(summary(index), expected);
    }

    #[test]
    fn links_out_of_the_book_are_longer() {
        let text = "[a](../kernel/src/lib.rs) [b](sub/../c.md#d) [e](https://f.org) [g](../docs2)";
        let expected =
            "[a](../../kernel/src/lib.rs) [b](sub/../c.md#d) [e](https://f.org) [g](../../docs2)";
        assert_eq!(with_links(text, Path::new("")), expected);
        assert_eq!(with_links("[a](../b.md)", Path::new("questions")), "[a](../b.md)");
        assert_eq!(with_links("[a](../../b)", Path::new("questions")), "[a](../../../b)");
    }

    #[test]
    fn no_page_is_forgotten() {
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    }
}
