//! What the documentation names exists: each relative link, and each path in backticks that looks like a
//! file of the repository. And the book names each package. `./x check` tests it.
//!
//! A path that begins with a folder of the repository is taken from there; one that only ends like a source
//! file (`cap/policy.rs`) is the end of the path of some file. Blocks of code are examples, and what stands
//! for something else (`NAME.c`, `hostile_*`) is no path.

use anyhow::{ensure, Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The documents.
const PAGE: &str = "README.md";
const BOOK: &str = "docs";
/// The page that names all packages.
const INDEX: &str = "docs/README.md";
/// Folders with files that documents name.
const FOLDERS: [&str; 8] =
    ["crates", "docs", "examples", "guest", "kernel", "lib", "servers", "tools"];
/// Folders in those that hold what was built.
const BUILT: &str = "target";
/// How the names of files end that are nothing else.
const ENDS: [&str; 6] = [".rs", ".c", ".h", ".md", ".toml", ".tsv"];
/// Names of files that are not of the repository, but of whoever reads it.
const READERS: [&str; 1] = ["hello.c"];

/// The files and folders of the repository, relative to its root.
struct Tree {
    paths: BTreeSet<PathBuf>,
}

/// Something named in a document, and the line.
#[derive(PartialEq, Eq, Debug)]
struct Named {
    line: usize,
    path: String,
    is_link: bool,
}

/// Fails if a document names what does not exist, with all such names.
pub fn check(root: &Path) -> Result<()> {
    let tree = Tree::of(root)?;
    let is_document = |path: &&PathBuf| {
        **path == *PAGE || path.starts_with(BOOK) && path.extension().is_some_and(|e| e == "md")
    };
    let mut dead = Vec::new();
    for document in tree.paths.iter().filter(is_document) {
        let text = fs::read_to_string(root.join(document))
            .with_context(|| format!("{}", document.display()))?;
        dead.extend(tree.dead(document, &text));
    }
    ensure!(dead.is_empty(), "the documentation names what does not exist:\n{}", dead.join("\n"));
    let index = fs::read_to_string(root.join(INDEX)).with_context(|| INDEX.to_owned())?;
    let unnamed = tree.packages().filter(|folder| !index.contains(&format!("(../{folder})")));
    let unnamed: Vec<String> = unnamed.collect();
    ensure!(unnamed.is_empty(), "{INDEX} does not name these packages:\n{}", unnamed.join("\n"));
    Ok(())
}

impl Tree {
    fn of(root: &Path) -> Result<Tree> {
        let mut paths = BTreeSet::new();
        for entry in fs::read_dir(root)? {
            let name = PathBuf::from(entry?.file_name());
            let is_folder = FOLDERS.iter().any(|folder| name == Path::new(folder));
            if is_folder {
                add(root, &name, &mut paths)?;
            }
            paths.insert(name);
        }
        Ok(Tree { paths })
    }

    /// The folders of all packages.
    fn packages(&self) -> impl Iterator<Item = String> + '_ {
        let manifests = self.paths.iter().filter(|path| path.ends_with("Cargo.toml"));
        manifests
            .filter_map(|path| path.parent()?.to_str().map(str::to_owned))
            .filter(|p| !p.is_empty())
    }

    /// What a document names that does not exist.
    fn dead(&self, document: &Path, text: &str) -> Vec<String> {
        let names = named(text).into_iter().filter(|named| !self.exists(document, named));
        names
            .map(|named| format!("{}:{}: {}", document.display(), named.line, named.path))
            .collect()
    }

    fn exists(&self, document: &Path, named: &Named) -> bool {
        let path = Path::new(&named.path);
        if named.is_link {
            let folder = document.parent().unwrap_or(Path::new(""));
            return normal(&folder.join(path)).is_some_and(|path| self.paths.contains(&path));
        }
        let first = path.components().next();
        let is_whole = FOLDERS.iter().any(|&f| first == Some(Component::Normal(f.as_ref())));
        if is_whole && named.path.contains('/') {
            return self.paths.contains(path);
        }
        let is_source = ENDS.iter().any(|end| named.path.ends_with(end));
        !is_source
            || READERS.contains(&named.path.as_str())
            || self.paths.iter().any(|known| known.ends_with(path))
    }
}

fn add(root: &Path, folder: &Path, paths: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() && entry.file_name() != BUILT {
            add(root, &path, paths)?;
        }
        paths.insert(path);
    }
    Ok(())
}

/// A path without `.` and `..`; `None` if it leads out of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

/// All paths that a document names.
fn named(text: &str) -> Vec<Named> {
    let mut all = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let links = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let links = links.map(|link| link.split('#').next().unwrap_or_default());
        let links = links.filter(|link| !link.is_empty() && !link.contains(':'));
        all.extend(links.map(|path| Named { line: number, path: path.to_owned(), is_link: true }));
        let quoted = line.split('`').skip(1).step_by(2).filter(|quoted| is_path(quoted));
        let quoted = quoted.map(|path| path.trim_end_matches('/').to_owned());
        all.extend(quoted.map(|path| Named { line: number, path, is_link: false }));
    }
    all
}

/// Looks like a path: of letters, digits and a few signs, with no name in capitals that stands for another.
fn is_path(quoted: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-+./".contains(c);
    let stands_for_another = |name: &str| {
        let stem = name.split('.').next().unwrap_or_default();
        stem.len() > 1 && stem != "README" && stem.chars().all(|c| c.is_ascii_uppercase())
    };
    !quoted.is_empty()
        && quoted.contains(['/', '.'])
        && !quoted.starts_with(['/', '.'])
        && quoted.chars().all(is_part)
        && !quoted.split('/').any(stands_for_another)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;

    fn tree(paths: &[&str]) -> Tree {
        Tree { paths: paths.iter().map(PathBuf::from).collect() }
    }

    #[test]
    fn what_the_book_names_exists() {
        check(&Project::find().unwrap().root).unwrap();
    }

    #[test]
    fn what_does_not_exist_is_found() {
        let tree =
            tree(&["README.md", "docs", "docs/a.md", "docs/more/b.md", "kernel/src/cap/x.rs"]);
        let dead = |document: &str, text: &str| tree.dead(Path::new(document), text);
        let fine = "[a](a.md#part) [b](more/b.md), [up](../README.md) `cap/x.rs` `kernel/src/cap/`\n\
                    `kernel/src/cap/x.rs` [web](https://a.b/c.md) `NAME.c` `a/b` `hello.c` `cap/*.rs`\n\
                    ```\n[no](no.md) `no.rs`\n```\n";
        // A folder is there only if it is listed.
        assert_eq!(dead("docs/c.md", fine), ["docs/c.md:1: kernel/src/cap"]);
        assert_eq!(dead("docs/c.md", "x\n[a](b.md)"), ["docs/c.md:2: b.md"]);
        assert_eq!(dead("docs/more/b.md", "[a](a.md)"), ["docs/more/b.md:1: a.md"]);
        assert_eq!(dead("README.md", "[a](../README.md)"), ["README.md:1: ../README.md"]);
        assert_eq!(dead("README.md", "`cap/y.rs`, `ap/x.rs`").len(), 2);
        assert_eq!(dead("README.md", "`kernel/src/cap/y.rs` `kernel/src/no/`").len(), 2);
        assert_eq!(dead("README.md", "`crates/a`"), ["README.md:1: crates/a"]);
    }
}
