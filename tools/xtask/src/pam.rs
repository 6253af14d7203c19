//! What `pam-auth-update` and `shadowconfig` do when packages are installed: who may log in, and how that is found out, as the packages in a root
//! say it. Without it `su`, `sudo`, `login` and `sshd` refuse everybody.

use anyhow::Result;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A file of `/etc/pam.d` that is made.
struct Stack {
    name: &'static str,
    /// What its lines begin with.
    kind: &'static str,
    /// What its template calls what is to be filled in.
    mark: &'static str,
    /// What profiles call what is in it.
    field: &'static str,
}

const fn named(name: &'static str, kind: &'static str, field: &'static str) -> Stack {
    Stack { name, kind, mark: kind, field }
}

const STACKS: [Stack; 5] = [
    named("common-auth", "auth", "Auth"),
    named("common-account", "account", "Account"),
    named("common-password", "password", "Password"),
    named("common-session", "session", "Session"),
    QUIET,
];
/// That of `cron`, `at` and `sudo`.
const QUIET: Stack = Stack {
    mark: "session_nonint",
    ..named("common-session-noninteractive", "session", "Session")
};

/// Makes what is missing in a root.
///
/// # Errors
/// A file cannot be read or made.
pub fn set_up(root: &Path) -> Result<()> {
    let (templates, to) = (root.join("usr/share/pam"), root.join("etc/pam.d"));
    if let Ok(folder) = fs::read_dir(root.join("usr/share/pam-configs")) {
        let mut texts = Vec::new();
        for file in folder {
            texts.push(fs::read_to_string(file?.path())?);
        }
        let profiles = profiles(&texts);
        for stack in &STACKS {
            let template = templates.join(stack.name);
            if template.exists() && !to.join(stack.name).exists() {
                fs::create_dir_all(&to)?;
                let text = filled(&fs::read_to_string(template)?, stack, &profiles);
                fs::write(to.join(stack.name), text)?;
            }
        }
    }
    if root.join("usr/sbin/pwconv").exists() {
        hide(root, ("etc/passwd", "etc/shadow"), "19000:0:99999:7:::")?;
        hide(root, ("etc/group", "etc/gshadow"), ":")?;
    }
    Ok(())
}

/// A file of `/usr/share/pam-configs`.
struct Profile<'a> {
    priority: i64,
    /// Names of fields, and their lines.
    fields: Vec<(&'a str, Vec<&'a str>)>,
}

impl Profile<'_> {
    fn lines(&self, name: &str) -> &[&str] {
        let found = self.fields.iter().find(|(field, _)| *field == name);
        found.map_or(&[], |(_, lines)| &lines[..])
    }
    fn says(&self, name: &str, value: &str) -> bool {
        self.lines(name) == [value]
    }
}

/// Those that are used when nobody says which, the one of the highest priority first.
fn profiles(texts: &[String]) -> Vec<Profile<'_>> {
    let mut all: Vec<Profile<'_>> = texts.iter().map(|text| profile(text)).collect();
    all.retain(|profile| profile.says("Default", "yes"));
    all.sort_by_key(|profile| -profile.priority);
    all
}

fn profile(text: &str) -> Profile<'_> {
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix(['\t', ' ']), line.split_once(':')) {
            (Some(more), _) => {
                if let Some((_, lines)) = fields.last_mut() {
                    lines.push(more.trim());
                }
            }
            (None, Some((name, value))) => {
                let value = value.trim();
                fields.push((name, if value.is_empty() { Vec::new() } else { vec![value] }));
            }
            _ => {}
        }
    }
    let mut made = Profile { priority: 0, fields };
    made.priority = made.lines("Priority").first().and_then(|it| it.parse().ok()).unwrap_or(0);
    made
}

/// A file of `/etc/pam.d` from its template.
fn filled(template: &str, stack: &Stack, profiles: &[Profile<'_>]) -> String {
    let Stack { kind, mark, field, .. } = stack;
    let block = |which: &str| {
        let is_it = |profile: &&Profile<'_>| {
            let skipped =
                stack.name == QUIET.name && profile.says("Session-Interactive-Only", "yes");
            profile.says(&format!("{field}-Type"), which) && !skipped
        };
        let mut lines: Vec<&str> = Vec::new();
        for profile in profiles.iter().filter(is_it) {
            let initial = profile.lines(&format!("{field}-Initial"));
            let is_first = lines.is_empty() && !initial.is_empty();
            lines.extend(if is_first { initial } else { profile.lines(field) });
        }
        lines
    };
    let primary = block("Primary");
    // A jump to the end goes over what is left of the block, and the line that refuses.
    let jump = |(n, line): (usize, &&str)| {
        format!("{kind}\t{}\n", line.replace("=end", &format!("={}", primary.len() - n)))
    };
    let first: String = match primary.is_empty() {
        true => format!("{kind}\t[default=1]\t\t\tpam_permit.so\n"),
        false => primary.iter().enumerate().map(jump).collect(),
    };
    let second: String =
        block("Additional").iter().map(|line| format!("{kind}\t{line}\n")).collect();
    let mut text = String::new();
    for line in template.lines() {
        match line {
            _ if line == format!("${mark}_primary") => text += &first,
            _ if line == format!("${mark}_additional") => text += &second,
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}

/// Nobody has a password, which is said where only the administrator looks.
fn hide(root: &Path, (names, hidden): (&str, &str), rest: &str) -> Result<()> {
    let (names, hidden) = (root.join(names), root.join(hidden));
    if hidden.exists() {
        return Ok(());
    }
    let Ok(text) = fs::read_to_string(&names) else { return Ok(()) };
    let (mut shown, mut secret) = (String::new(), String::new());
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (name, word, more) = (parts.next(), parts.next(), parts.next());
        let (Some(name), Some(word), Some(more)) = (name, word, more) else { continue };
        let word = if word == "x" { "*" } else { word };
        shown += &format!("{name}:x:{more}\n");
        secret += &format!("{name}:{word}:{rest}\n");
    }
    fs::write(names, shown)?;
    fs::write(&hidden, secret)?;
    Ok(fs::set_permissions(hidden, Permissions::from_mode(0o640))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: &str = "Name: Unix\nDefault: yes\nPriority: 256\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_unix.so \
                        try_first_pass\nAuth-Initial:\n\t[success=end default=ignore]\tpam_unix.so nullok\nSession-Type: \
                        Additional\nSession:\n\trequired\tpam_unix.so\n";
    const OTHER: &str = "Name: Other\nDefault: yes\nPriority: 100\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_x.so\n\
                         Session-Type: Additional\nSession-Interactive-Only: yes\nSession:\n\toptional\tpam_y.so\n";
    const NOT: &str =
        "Name: Not\nDefault: no\nPriority: 900\nAuth-Type: Primary\nAuth:\n\trequired\tpam_z.so\n";

    #[test]
    fn stacks_are_made_of_profiles() {
        let texts = [OTHER, NOT, UNIX].map(String::from);
        let profiles = profiles(&texts);
        let template = "# x\n$auth_primary\nauth\trequisite\tpam_deny.so\n$auth_additional\n";
        assert_eq!(
            filled(template, &STACKS[0], &profiles),
            "# x\nauth\t[success=2 default=ignore]\tpam_unix.so nullok\nauth\t[success=1 default=ignore]\tpam_x.so\n\
             auth\trequisite\tpam_deny.so\n"
        );
        let template = "$session_nonint_primary\n$session_nonint_additional\n";
        assert_eq!(
            filled(template, &QUIET, &profiles),
            "session\t[default=1]\t\t\tpam_permit.so\nsession\trequired\tpam_unix.so\n"
        );
        let template = "$session_primary\n$session_additional\n";
        assert!(filled(template, &STACKS[3], &profiles).contains("pam_y"));
    }
}
