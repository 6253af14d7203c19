//! What the scripts of Debian's packages would do when these are installed, as far as it can be read from them.

use anyhow::Result;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[derive(Debug, PartialEq)]
pub struct SystemUser {
    pub name: String,
    pub home: String,
    pub shell: String,
}

/// Those that a package's script makes by `adduser --system`.
pub fn system_users(script: &str) -> Vec<SystemUser> {
    let script = script.replace("\\\n", " ");
    let mut all = Vec::new();
    for line in script.lines() {
        let Some((_, words)) = line.split_once("adduser ") else { continue };
        let words = words.split(['|', '>', ';', '&']).next().unwrap_or_default();
        let words: Vec<&str> = quoted_words(words);
        let value = |option: &str| {
            let at = words.iter().position(|word| *word == option)?;
            words.get(at + 1).filter(|value| value.starts_with('/')).copied()
        };
        let name = words.last().filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
        if let (true, Some(name)) = (words.contains(&"--system"), name) {
            all.push(SystemUser {
                name: (*name).into(),
                home: value("--home").unwrap_or("/nonexistent").into(),
                shell: value("--shell").unwrap_or("/usr/sbin/nologin").into(),
            });
        }
    }
    all
}

/// The words of a command, of which some are in quotation marks.
fn quoted_words(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for (n, part) in text.split('"').enumerate() {
        match n % 2 {
            0 => all.extend(part.split_whitespace()),
            _ => all.push(part),
        }
    }
    all
}

/// The lines of a script; what is in a loop over words is there once for each of them, and what has one value in all of the script has that.
pub fn commands(script: &str) -> Vec<String> {
    let script = script.replace("\\\n", " ");
    let values = values(&script);
    let (mut all, mut loops) = (Vec::new(), Vec::<(&str, Vec<&str>)>::new());
    for line in script.lines().map(str::trim) {
        if let Some((name, words)) = line.strip_prefix("for ").and_then(|it| it.split_once(" in "))
        {
            let words = words.split(';').next().unwrap_or_default();
            loops.push((name.trim(), words.split_whitespace().collect()));
            continue;
        }
        if line == "done" {
            loops.pop();
            continue;
        }
        let mut lines = vec![line.to_owned()];
        for (name, words) in values.iter().chain(&loops) {
            if has(line, name) {
                lines = lines
                    .iter()
                    .flat_map(|line| words.iter().map(|word| expand(line, name, word)))
                    .collect();
            }
        }
        all.append(&mut lines);
    }
    all
}

/// Variables to which a script gives a value once, and of which nothing is to be expanded.
fn values(script: &str) -> Vec<(&str, Vec<&str>)> {
    let mut all = Vec::<(&str, Vec<&str>)>::new();
    for (name, value) in script.lines().filter_map(|line| line.trim().split_once('=')) {
        let is_name = !name.is_empty() && name.chars().all(is_of_name);
        if is_name {
            match all.iter_mut().find(|(other, _)| *other == name) {
                Some((_, values)) => values.push(value),
                None => all.push((name, vec![value])),
            }
        }
    }
    let is_plain = |value: &str| {
        !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "/._+-".contains(c))
    };
    all.iter_mut().for_each(|(_, values)| {
        values.iter_mut().for_each(|value| *value = value.trim_matches(['"', '\'']));
    });
    all.retain(|(_, values)| matches!(values[..], [value] if is_plain(value)));
    all
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Is a variable used?
fn has(line: &str, name: &str) -> bool {
    expand(line, name, "") != line
}

/// A line with the value of a variable. A longer name that begins so is another one.
fn expand(line: &str, name: &str, word: &str) -> String {
    let line = line.replace(&format!("${{{name}}}"), word);
    let plain = format!("${name}");
    let mut parts = line.split(&plain);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.starts_with(is_of_name) {
            true => all.extend(["$", name, part]),
            false => all.extend([word, part]),
        }
    }
    all
}

/// A command that several packages have, each under a name of its own.
#[derive(Debug, PartialEq)]
pub struct Alternative {
    pub link: String,
    pub target: String,
    pub priority: i64,
}

impl Alternative {
    /// Makes the link, unless there is something.
    pub fn link(&self, root: &Path) -> Result<()> {
        let place = root.join(self.link.trim_start_matches('/'));
        let target = root.join(self.target.trim_start_matches('/'));
        if fs::symlink_metadata(&place).is_ok() || !target.exists() {
            return Ok(());
        }
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(symlink(&self.target, place)?)
    }
}

/// Those that a package's script makes, the one that it prefers first.
pub fn alternatives(script: &str) -> Vec<Alternative> {
    let script = commands(script);
    let mut all = Vec::new();
    for line in script.iter().filter(|line| line.contains("update-alternatives")) {
        let words: Vec<&str> =
            line.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
        let mut priority = 0;
        for (at, word) in words.iter().enumerate() {
            let more = &words[at + 1..];
            match (*word, more) {
                ("--install", [link, _, target, number, ..]) => {
                    priority = number.parse().unwrap_or(0);
                    all.push((*link, *target, priority));
                }
                ("--slave", [link, _, target, ..]) => all.push((*link, *target, priority)),
                _ => {}
            }
        }
    }
    // What the shell would have to expand is left out.
    let plain = |text: &str| text.starts_with('/') && !text.contains(['$', '`', '*']);
    all.retain(|(link, target, _)| plain(link) && plain(target));
    all.sort_by_key(|(_, _, priority)| -priority);
    let owned = |(link, target, priority): (&str, &str, i64)| Alternative {
        link: link.into(),
        target: target.into(),
        priority,
    };
    all.into_iter().map(owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_of_a_script() {
        let script = "for a in x \\\n y ; do\n\tmake /${a} $a\ndone\nend $a\n";
        assert_eq!(commands(script), ["make /x x", "make /y y", "end $a"]);
    }

    #[test]
    fn values_of_a_script() {
        let script =
            "ver=1.16\nname=\"x\"\nname=y\nat=$(pwd)\nget /$ver/${ver} $version $name $at\n";
        let last = commands(script).pop();
        assert_eq!(last.as_deref(), Some("get /1.16/1.16 $version $name $at"));
        // What automake's does.
        let script = "ver=1.16\nupdate-alternatives --install /usr/bin/automake automake \\\n  /usr/bin/automake-${ver} 20${ver#1.} \\\n  --slave /usr/bin/aclocal aclocal /usr/bin/aclocal-${ver}\n";
        let targets: Vec<_> = alternatives(script).into_iter().map(|it| it.target).collect();
        assert_eq!(targets, ["/usr/bin/automake-1.16", "/usr/bin/aclocal-1.16"]);
    }

    #[test]
    fn alternatives_of_a_script() {
        let script =
            "set -e\nupdate-alternatives --quiet --install /usr/bin/awk awk /usr/bin/mawk 5 \\\n  \
                      --slave /usr/share/man/man1/awk.1.gz awk.1.gz /usr/share/man/man1/mawk.1.gz\n\
                      update-alternatives --install /usr/bin/$x x /usr/bin/y 7\n";
        let all = alternatives(script);
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].link.as_str(), all[0].target.as_str()),
            ("/usr/bin/awk", "/usr/bin/mawk")
        );
    }

    #[test]
    fn users_of_a_script() {
        let user =
            "adduser --system --quiet --home /var/lib/x --no-create-home \\\n --shell /bin/bash \
                    --group --gecos \"An x\" x || true";
        let (name, home, shell) = ("x".into(), "/var/lib/x".into(), "/bin/bash".into());
        assert_eq!(system_users(user), [SystemUser { name, home, shell }]);
        assert_eq!(system_users("adduser --system $NAME"), []);
    }
}
