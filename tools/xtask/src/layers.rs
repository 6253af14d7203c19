//! Which folder imports which: the rules are in `tools/layers.txt`, and `./x check` tests them.
//!
//! Source files are read as text, as `rustfmt` leaves them; what is in comments does not count.

use anyhow::{bail, ensure, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The file with the rules.
const RULES: &str = "tools/layers.txt";
/// The section about packages, by the folders that they are in.
const PACKAGES: &str = "packages";
/// Folders of folders of packages.
const GROUPS: [&str; 2] = ["crates", "guest"];

/// What may be imported, by who does.
type Allowed = BTreeMap<String, BTreeSet<String>>;

/// The rules.
#[derive(Default)]
struct Rules {
    /// Of the modules of a crate, by its source folder, and of packages.
    sections: BTreeMap<String, Allowed>,
    /// Most fields and methods of a type, by source folder.
    most: BTreeMap<String, Size>,
    /// Types that may be larger.
    larger: BTreeMap<String, BTreeMap<String, Size>>,
    /// How many functions take all of a type that is made of parts, by source folder.
    whole: BTreeMap<String, BTreeMap<String, usize>>,
}

/// Fields and methods.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Size {
    pub fields: usize,
    pub methods: usize,
}

/// An import: the folder that it leads to, and where it is.
struct Import {
    from: String,
    to: String,
    place: String,
}

/// Fails at the first import that the rules do not allow, allowance that nobody uses, type that is too
/// large, and type that too many functions take as a whole.
pub fn check(root: &Path) -> Result<()> {
    let rules = Rules::parse(&fs::read_to_string(root.join(RULES)).context(RULES)?)?;
    for (section, allowed) in &rules.sections {
        let imports = match section == PACKAGES {
            true => packages(root)?,
            false => modules(root, section, allowed)?,
        };
        judge(section, allowed, &imports)?;
    }
    for (folder, most) in &rules.most {
        let larger = rules.larger.get(folder).cloned().unwrap_or_default();
        judge_sizes(&sizes(&root.join(folder))?, *most, &larger)?;
    }
    for (folder, types) in &rules.whole {
        let texts = sources(&root.join(folder))?;
        for (name, most) in types {
            judge_takers(name, texts.iter().map(|text| takers(text, name)).sum(), *most)?;
        }
    }
    Ok(())
}

impl Rules {
    fn parse(text: &str) -> Result<Rules> {
        let (mut rules, mut section) = (Rules::default(), String::new());
        for (line, number) in text.lines().zip(1..) {
            let rule = line.split('#').next().unwrap_or_default().trim();
            let place = || format!("{RULES}:{number}: {line}");
            if rule.is_empty() {
                continue;
            }
            if let Some(name) = rule.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.to_owned();
            } else if let Some(folder) = section.strip_prefix("sizes ") {
                rules.add_size(folder, rule).with_context(place)?;
            } else if let Some(folder) = section.strip_prefix("whole ") {
                rules.add_whole(folder, rule).with_context(place)?;
            } else {
                rules.add(&section, rule).with_context(place)?;
            }
        }
        Ok(rules)
    }

    /// A folder and what it may import: only what stands above it, so that there is no cycle.
    fn add(&mut self, section: &str, rule: &str) -> Result<()> {
        let allowed = self.sections.entry(section.to_owned()).or_default();
        let (from, to) = rule.split_once(':').context("a rule is FOLDER: FOLDERS")?;
        let to: BTreeSet<_> = to.split_whitespace().map(str::to_owned).collect();
        if let Some(below) = to.iter().find(|to| !allowed.contains_key(*to)) {
            bail!("{below} does not stand above {from}");
        }
        ensure!(allowed.insert(from.to_owned(), to).is_none(), "{from} stands here twice");
        Ok(())
    }

    fn add_size(&mut self, folder: &str, rule: &str) -> Result<()> {
        let (name, size) = rule.split_once(':').context("a rule is TYPE: FIELDS METHODS")?;
        let numbers: Vec<usize> =
            size.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [fields, methods] = numbers[..] else { bail!("a rule is TYPE: FIELDS METHODS") };
        let size = Size { fields, methods };
        if name == "most" {
            self.most.insert(folder.to_owned(), size);
        } else {
            self.larger.entry(folder.to_owned()).or_default().insert(name.to_owned(), size);
        }
        Ok(())
    }

    fn add_whole(&mut self, folder: &str, rule: &str) -> Result<()> {
        let (name, most) = rule.split_once(':').context("a rule is TYPE: FUNCTIONS")?;
        let most = most.trim().parse().context("a rule is TYPE: FUNCTIONS")?;
        self.whole.entry(folder.to_owned()).or_default().insert(name.to_owned(), most);
        Ok(())
    }
}

/// Fewer than the rules say is an error, too: so the number in the rules goes down with what it counts.
fn judge_takers(name: &str, takers: usize, most: usize) -> Result<()> {
    ensure!(
        takers <= most,
        "{takers} functions take all of {name}, and {RULES} allows {most}: take the parts that are needed"
    );
    ensure!(
        takers == most,
        "{takers} functions take all of {name}: {RULES} says {most}, which is to be lowered"
    );
    Ok(())
}

fn judge(section: &str, allowed: &Allowed, imports: &[Import]) -> Result<()> {
    for Import { from, to, place } in imports {
        let rule = allowed
            .get(from)
            .with_context(|| format!("{place}\n{from} is not in section [{section}] of {RULES}"))?;
        ensure!(
            rule.contains(to),
            "{place}\n{from} imports {to}, which section [{section}] of {RULES} does not allow"
        );
    }
    for (from, rule) in allowed {
        let is_used = |to: &&String| imports.iter().any(|i| i.from == *from && i.to == **to);
        if let Some(unused) = rule.iter().find(|to| !is_used(to)) {
            bail!("section [{section}] of {RULES}: {from} does not import {unused}");
        }
    }
    Ok(())
}

fn judge_sizes(
    sizes: &BTreeMap<String, Size>,
    most: Size,
    larger: &BTreeMap<String, Size>,
) -> Result<()> {
    for (name, size) in sizes {
        let most = larger.get(name).copied().unwrap_or(most);
        ensure!(
            size.fields <= most.fields && size.methods <= most.methods,
            "{name} has {} fields and {} methods; {RULES} allows {} and {}",
            size.fields,
            size.methods,
            most.fields,
            most.methods
        );
    }
    Ok(())
}

/// All files below `folder` with this ending, in order.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" {
            all.extend(files(&path, ending)?);
        } else if name.ends_with(ending) {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// The imports between the modules of a crate. Its root and its tests are above all others.
fn modules(root: &Path, section: &str, allowed: &Allowed) -> Result<Vec<Import>> {
    let source = root.join(section);
    let mut imports = Vec::new();
    for file in files(&source, ".rs")? {
        let relative = file.strip_prefix(&source)?;
        let path = module(relative);
        let Some(from) = path.first().filter(|name| *name != "tests") else { continue };
        ensure!(allowed.contains_key(from), "{from} is not in section [{section}] of {RULES}");
        let text = fs::read_to_string(&file)?;
        for (to, line) in imported(&text, path.len()) {
            if to != *from && allowed.contains_key(&to) {
                let shown = text.lines().nth(line).unwrap_or_default().trim();
                let place = format!("{section}/{}:{}: {shown}", relative.display(), line + 1);
                imports.push(Import { from: from.clone(), to, place });
            }
        }
    }
    Ok(imports)
}

/// The path of the module in a source file; none for the root.
fn module(file: &Path) -> Vec<String> {
    let path = file.with_extension("");
    let mut names: Vec<_> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| last == "mod") {
        names.pop();
    }
    match names.as_slice() {
        [root] if root == "lib" || root == "main" => Vec::new(),
        _ => names,
    }
}

/// The modules of the crate's root that a file names, with the lines; `depth`: of its own module.
fn imported(text: &str, depth: usize) -> Vec<(String, usize)> {
    let code: Vec<_> =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for (word, ups) in [("crate::", 0), ("super::", depth)] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at..];
            let supers = rest.len() - rest.trim_start_matches("super::").len();
            if supers / "super::".len() < ups {
                continue;
            }
            let rest = &rest[supers.max(word.len())..];
            let line = code[..at].matches('\n').count();
            found.extend(heads(rest).into_iter().map(|name| (name, line)));
        }
    }
    found
}

/// The first names of what a path leads to: one, or those of a group.
fn heads(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                all.push(name(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(name(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    all
}

/// The dependencies between the folders of packages; what only tests need is left out.
fn packages(root: &Path) -> Result<Vec<Import>> {
    let mut names = BTreeMap::new();
    let mut needs = Vec::new();
    for file in files(root, "Cargo.toml")? {
        let relative = file.strip_prefix(root)?.to_owned();
        let text = fs::read_to_string(&file)?;
        let (mut section, mut group) = (String::new(), String::new());
        for (line, number) in text.lines().zip(1..) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.to_owned();
            } else if section == "package" && line.starts_with("name = ") {
                group = group_of(&relative);
                let name = line.trim_start_matches("name = ").trim_matches('"').to_owned();
                names.insert(name, group.clone());
            } else if section == "dependencies" || section.ends_with("'.dependencies") {
                let name = line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
                let place = format!("{}:{number}: {line}", relative.display());
                needs.push((group.clone(), name, place));
            }
        }
    }
    let imports = needs.into_iter().filter_map(|(from, name, place)| {
        let to = names.get(&name)?.clone();
        (to != from).then_some(Import { from, to, place })
    });
    Ok(imports.collect())
}

/// The folder that a package counts to.
fn group_of(file: &Path) -> String {
    let mut parts = file.iter().map(|part| part.to_string_lossy().into_owned());
    let first = parts.next().unwrap_or_default();
    match parts.next().filter(|_| GROUPS.contains(&first.as_str())) {
        Some(second) => format!("{first}/{second}"),
        None => first,
    }
}

/// Fields and methods of every type with fields in the files of a folder, but for tests.
pub fn sizes(folder: &Path) -> Result<BTreeMap<String, Size>> {
    let mut all = BTreeMap::new();
    for text in sources(folder)? {
        add_sizes(&text, &mut all);
    }
    all.retain(|_, size: &mut Size| size.fields > 0);
    Ok(all)
}

/// The texts of all files of a folder, but for tests.
fn sources(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for file in files(folder, ".rs")? {
        if !file.strip_prefix(folder)?.starts_with("tests") {
            texts.push(fs::read_to_string(&file)?);
        }
    }
    Ok(texts)
}

/// How many functions of a file are given a reference to all of a type: as an argument, inside one (a
/// tuple, something to be called), or as `self`.
fn takers(text: &str, name: &str) -> usize {
    let code: Vec<_> =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let own = [format!("impl {name} {{"), format!("impl {name}<")];
    let mut is_own = false;
    let mut count = 0;
    for (at, line) in code.iter().enumerate() {
        if line.starts_with("impl") || line.starts_with('}') {
            is_own = own.iter().any(|head| line.starts_with(head));
        }
        let Some(start) = function_name(line) else { continue };
        let rest = code[at..].join("\n");
        let arguments = arguments(&rest[start..]);
        let first = arguments.split([',', ':']).next().unwrap_or_default().trim();
        let takes_self = is_own && first.ends_with("self");
        count += usize::from(takes_self || has_reference(arguments, name));
    }
    count
}

/// Where the name of the function begins that a line begins.
fn function_name(line: &str) -> Option<usize> {
    let at = line.find("fn ")?;
    let is_modifier = |word: &str| {
        word.starts_with("pub")
            || word.starts_with('"')
            || ["const", "unsafe", "extern"].contains(&word)
    };
    line[..at].split_whitespace().all(is_modifier).then_some(at + "fn ".len())
}

/// The arguments of the function whose name a text begins with.
fn arguments(text: &str) -> &str {
    let (mut angles, mut parens, mut start, mut before) = (0, 0, 0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '<' if parens == 0 => angles += 1,
            '>' if parens == 0 && before != '-' => angles -= 1,
            '(' if angles == 0 => {
                parens += 1;
                if parens == 1 {
                    start = at + 1;
                }
            }
            ')' if angles == 0 => {
                parens -= 1;
                if parens == 0 {
                    return &text[start..at];
                }
            }
            _ => {}
        }
        before = c;
    }
    ""
}

/// Whether a type is named as what a reference leads to.
fn has_reference(arguments: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    arguments.match_indices(name).any(|(at, _)| {
        let (before, after) = (&arguments[..at], &arguments[at + name.len()..]);
        // In front of it there may be the rest of its path, `mut` and a lifetime.
        let start = before.trim_end_matches(|c| is_word(c) || c == ':');
        let path = &before[start.len()..];
        let start = start.trim_end().trim_end_matches("mut").trim_end();
        let reference = match start.rsplit_once('\'') {
            Some((reference, lifetime)) if lifetime.chars().all(is_word) => reference,
            _ => start,
        };
        let is_name = (path.is_empty() || path.ends_with("::")) && !after.starts_with(is_word);
        is_name && reference.ends_with('&')
    })
}

fn add_sizes(text: &str, all: &mut BTreeMap<String, Size>) {
    /// What the lines belong to.
    enum In {
        Nothing,
        Struct(String),
        Impl(String),
    }
    let mut at = In::Nothing;
    for line in text.lines() {
        let head = line.strip_prefix("pub ").unwrap_or(line);
        let head =
            head.strip_prefix("pub(crate) ").or(head.strip_prefix("pub(super) ")).unwrap_or(head);
        if let Some(rest) = head.strip_prefix("struct ").filter(|_| head.ends_with('{')) {
            at = In::Struct(heads(rest).remove(0));
        } else if line.starts_with("impl") && line.ends_with('{') && !line.contains(" for ") {
            let rest = line.trim_start_matches("impl");
            let rest =
                rest.split_once("> ").filter(|_| rest.starts_with('<')).map_or(rest, |r| r.1);
            at = In::Impl(heads(rest.trim_start()).remove(0));
        } else if line.starts_with('}') {
            at = In::Nothing;
        } else if let Some(member) = line.strip_prefix("    ").filter(|m| !m.starts_with(' ')) {
            let code = member.split("//").next().unwrap_or_default();
            match &at {
                In::Struct(name) if code.contains(": ") => {
                    all.entry(name.clone()).or_default().fields += 1;
                }
                In::Impl(name) if code.split(' ').any(|word| word == "fn") => {
                    all.entry(name.clone()).or_default().methods += 1;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;

    const SECTION: &str = "[kernel/src]\narch:\ncap: arch\nvspace: arch cap\n";

    fn import(from: &str, to: &str) -> Import {
        Import { from: from.to_owned(), to: to.to_owned(), place: "here".to_owned() }
    }

    fn verdict(imports: &[(&str, &str)]) -> Result<()> {
        let rules = Rules::parse(SECTION)?;
        let imports: Vec<_> = imports.iter().map(|(from, to)| import(from, to)).collect();
        judge("kernel/src", &rules.sections["kernel/src"], &imports)
    }

    #[test]
    fn the_tree_keeps_to_the_rules() {
        check(&Project::find().unwrap().root).unwrap();
    }

    #[test]
    fn what_is_not_allowed_is_found() {
        let all = [("cap", "arch"), ("vspace", "arch"), ("vspace", "cap")];
        verdict(&all).unwrap();
        let error = verdict(&[&all[..], &[("arch", "cap")]].concat()).unwrap_err().to_string();
        assert!(error.contains("here\narch imports cap"), "{error}");
        let error = verdict(&all[1..]).unwrap_err().to_string();
        assert!(error.contains("cap does not import arch"), "{error}");
        let error = verdict(&[&all[..], &[("ipc", "cap")]].concat()).unwrap_err().to_string();
        assert!(error.contains("ipc is not in section"), "{error}");
    }

    #[test]
    fn rules_have_no_cycles() {
        assert!(Rules::parse("[s]\na: b\nb:\n").is_err());
        assert!(Rules::parse("[s]\na:\na:\n").is_err());
        assert!(Rules::parse("[s]\na\n").is_err());
        assert!(Rules::parse("[sizes s]\nmost: 1\n").is_err());
    }

    #[test]
    fn imports_are_read_from_all_ways_to_write_them() {
        let text = "//! [`x`](crate::doc)\nuse crate::arch::{self, Core};\nuse crate::{cap,\n    \
                    vspace::{self, Tlb}};\nuse super::mem;\nuse super::super::ipc::Endpoint;\n\
                    fn f() { crate::log!(\"\"); mycrate::no(); }\n";
        let found = imported(text, 2);
        let names: Vec<_> = found.iter().map(|(name, line)| (name.as_str(), *line)).collect();
        assert_eq!(names, [("arch", 1), ("cap", 2), ("vspace", 2), ("log", 6), ("ipc", 5)]);
        assert_eq!(imported("use super::cap::Db;", 1), [("cap".to_owned(), 0)]);
        assert_eq!(module(Path::new("cap/mod.rs")), ["cap"]);
        assert_eq!(module(Path::new("cap/db.rs")), ["cap", "db"]);
        assert!(module(Path::new("lib.rs")).is_empty());
    }

    #[test]
    fn fields_and_methods_are_counted() {
        let text = "pub struct A<T> {\n    /// One: of them.\n    pub a: u64,\n    b: [T; 2],\n}\n\n\
                    impl<T> A<T> {\n    pub const fn new() -> Self {\n        let x: u8 = 0;\n    }\n\
                    \n    #[inline]\n    fn f(&self) {}\n}\n\nimpl Default for A<u8> {\n    \
                    fn default() -> Self {\n    }\n}\n";
        let mut all = BTreeMap::new();
        add_sizes(text, &mut all);
        assert_eq!(all["A"], Size { fields: 2, methods: 2 });
        let most = Size { fields: 2, methods: 1 };
        assert!(judge_sizes(&all, most, &BTreeMap::new()).is_err());
        let larger = BTreeMap::from([("A".to_owned(), Size { fields: 2, methods: 2 })]);
        judge_sizes(&all, most, &larger).unwrap();
    }

    #[test]
    fn who_takes_all_of_a_type_is_counted() {
        let takers = |text: &str| takers(text, "Whole");
        assert_eq!(takers("fn f(p: &mut Whole) {}\npub fn g(_: u8, p: &Whole) -> u8 {\n"), 2);
        let long = "    pub(super) unsafe fn f<'a, F: Fn(u8) -> u8>(\n        f: F,\n        \
                    p: &'a mut Whole,\n    ) -> u8 {\n";
        assert_eq!(takers(long), 1);
        assert_eq!(
            takers("fn f((a, p): (u8, &crate::x::Whole)) {}\nfn g(f: impl Fn(&mut Whole)) {}\n"),
            2
        );
        let methods = "impl Whole {\n    fn a(&mut self) {}\n    fn b(self, x: u8) {}\n    fn new() -> Whole {}\n}\n";
        assert_eq!(takers(methods), 2);
        // A part of it, another type, a comment, a result, something that is called inside.
        let none = "fn f(p: &mut Part) {}\nfn g(p: &Wholes, q: &NotWhole) {}\n// fn h(p: &Whole)\n\
                    fn i() -> &'static Whole {}\n    let f: fn(&mut Whole) = f;\nimpl Part {\n    fn j(&self) {}\n}\n";
        assert_eq!(takers(none), 0);
    }

    #[test]
    fn one_taker_more_is_found_and_so_is_a_number_that_is_too_high() {
        let root = Project::find().unwrap().root;
        let rules = Rules::parse(&fs::read_to_string(root.join(RULES)).unwrap()).unwrap();
        assert!(!rules.whole.is_empty());
        for (folder, types) in &rules.whole {
            let mut texts = sources(&root.join(folder)).unwrap();
            for (name, most) in types {
                let count = |texts: &[String]| texts.iter().map(|text| takers(text, name)).sum();
                judge_takers(name, count(&texts), *most).unwrap();
                texts.push(format!("pub fn planted(p: &mut {name}) {{}}\n"));
                let error = judge_takers(name, count(&texts), *most).unwrap_err().to_string();
                assert!(error.contains("take the parts that are needed"), "{error}");
                texts.pop();
                let error = judge_takers(name, count(&texts), *most + 1).unwrap_err().to_string();
                assert!(error.contains("is to be lowered"), "{error}");
            }
        }
        assert!(Rules::parse("[whole s]\nProcess: many\n").is_err());
    }
}
