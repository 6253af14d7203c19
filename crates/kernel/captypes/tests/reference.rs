//! The reference in `docs/capabilities.md` says what the tables say.
//!
//! `TESSERA_UPDATE=1 cargo test -p captypes` writes it anew.

use captypes::invocations::{Operation, OPERATIONS};
use captypes::types::{ObjectSize, Wire};
use captypes::{CapType, Rights, Status};
use std::fmt::Write;
use std::path::PathBuf;

/// Documentation lines, as the compiler keeps them, as text.
fn text(docs: &[&str]) -> String {
    let lines = docs.iter().filter_map(|line| {
        let quoted = line.strip_prefix("doc")?.trim_start().strip_prefix('=')?.trim_start();
        let inner = quoted.trim_start_matches('r').trim_matches('#');
        let inner = inner.strip_prefix('"')?.strip_suffix('"')?;
        Some(inner.replace("\\\"", "\"").trim().to_owned())
    });
    let all = lines.collect::<Vec<_>>().join(" ");
    without_links(&all)
}

/// `[`Place`]` and `[`x`](y)` lead nowhere in a book.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("[`") {
        let Some(end) = rest[start..].find("`]") else { break };
        out += &rest[..start];
        let name = &rest[start + 2..start + end];
        let _ = write!(
            out,
            "`{}`",
            name.trim_start_matches("crate::").trim_start_matches("captypes::")
        );
        rest = &rest[start + end + 2..];
        if let Some(target) = rest.strip_prefix('(') {
            rest = target.split_once(')').map_or(target, |(_, behind)| behind);
        }
    }
    out + rest
}

fn rights(rights: Rights) -> String {
    let names = [
        (Rights::READ, "READ"),
        (Rights::WRITE, "WRITE"),
        (Rights::EXEC, "EXEC"),
        (Rights::SEND, "SEND"),
        (Rights::RECV, "RECV"),
        (Rights::REVOKE, "REVOKE"),
        (Rights::WRITE_ALONE, "WRITE_ALONE"),
    ];
    let names = names.iter().filter(|(right, _)| rights.has(*right));
    names.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

fn size(ty: CapType) -> String {
    let bytes = |n: u64| if n < 1024 { n.to_string() } else { format!("{} KiB", n / 1024) };
    match ty.object_size() {
        ObjectSize::None => String::new(),
        ObjectSize::Fixed(n) => bytes(n),
        ObjectSize::Multiple(n) => format!("n × {}", bytes(n)),
    }
}

fn wire(ty: CapType) -> &'static str {
    match ty.wire() {
        Wire::Never | Wire::Local => "nothing",
        Wire::Pinned => "hold it",
        Wire::Moves => "hold and own it",
        Wire::Unowned => "hold it, without an owner",
    }
}

fn types() -> String {
    let mut out = String::from(
        "| no. | type | made of | size | rights besides REVOKE | other cores | |\n\
         |---:|---|---|---|---|---|---|\n",
    );
    for &ty in CapType::ROWS.iter().filter(|&&ty| ty != CapType::Null) {
        let sources: Vec<_> = ty.sources().iter().map(|source| source.name()).collect();
        let copies = if ty.can_be_copied() { "" } else { " Cannot be copied." };
        let _ = writeln!(
            out,
            "| {} | **{}** | {} | {} | {} | {} | {}{copies} |",
            ty as u8,
            ty.name(),
            sources.join(", "),
            size(ty),
            rights(ty.rights()),
            wire(ty),
            text(ty.docs()),
        );
    }
    out
}

fn statuses() -> String {
    let mut out = String::from("| no. | status | |\n|---:|---|---|\n");
    for &status in Status::ALL {
        let _ = writeln!(out, "| {} | **{status:?}** | {} |", status as u8, text(status.docs()));
    }
    out
}

fn operation(out: &mut String, op: &Operation) {
    let arguments: Vec<_> = op.arguments.iter().map(|a| format!("{}: {}", a.name, a.ty)).collect();
    let reply = if op.reply == "()" { String::new() } else { format!(" → {}", op.reply) };
    let needs = if op.needs == Rights::NONE {
        String::new()
    } else {
        format!(", needs `{}`", rights(op.needs))
    };
    let _ = writeln!(
        out,
        "**{}** ({}) `({}){reply}`{needs}  ",
        op.name,
        op.number,
        arguments.join(", ")
    );
    let _ = writeln!(out, "{}", text(op.docs));
    // Words of a message need no explanation one by one.
    let plain = |name: &str| name.len() == 2 && name.starts_with(['w', 'p']);
    let explained: Vec<_> = op
        .arguments
        .iter()
        .filter(|a| !plain(a.name))
        .map(|a| format!("`{}`: {}", a.name, text(a.docs)))
        .collect();
    for line in explained {
        let _ = writeln!(out, "- {line}");
    }
    out.push('\n');
}

fn operations() -> String {
    let mut out = String::new();
    let mut headings: Vec<&str> = OPERATIONS.iter().map(|op| op.heading).collect();
    headings.dedup();
    for heading in headings {
        let _ = writeln!(out, "### {heading}\n");
        let mut here: Vec<_> = OPERATIONS.iter().filter(|op| op.heading == heading).collect();
        here.sort_by_key(|op| op.number);
        here.into_iter().for_each(|op| operation(&mut out, op));
    }
    out
}

/// `page` with what is between the marks of `name` replaced.
fn replaced(page: &str, name: &str, contents: &str) -> String {
    let (begin, end) =
        (format!("<!-- {name}: from the tables -->\n"), format!("<!-- {name} end -->"));
    let start = page.find(&begin).expect("the page has the mark") + begin.len();
    let stop = page.find(&end).expect("the page has the mark for the end");
    format!("{}\n{}\n{}", &page[..start], contents.trim_end(), &page[stop..])
}

#[test]
fn the_reference_says_what_the_tables_say() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/capabilities.md");
    let page = std::fs::read_to_string(&path).expect("the reference is there");
    let mut wanted = page.clone();
    for (name, contents) in
        [("types", types()), ("operations", operations()), ("statuses", statuses())]
    {
        wanted = replaced(&wanted, name, &contents);
    }
    if std::env::var_os("TESSERA_UPDATE").is_some() {
        std::fs::write(&path, &wanted).expect("the reference can be written");
        return;
    }
    let differs = wanted.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(
        wanted == page,
        "docs/capabilities.md is not what the tables say, first at {differs:?}; \
         `TESSERA_UPDATE=1 cargo test -p captypes` writes it anew"
    );
}

/// Numbers are given once, and every operation has a place in the reference.
#[test]
fn numbers_are_unique() {
    let mut numbers: Vec<_> = OPERATIONS.iter().map(|op| op.number).collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(OPERATIONS.iter().all(|op| !text(op.docs).is_empty()), "all have documentation");
}
