//! What the guest is to run: found, checked and described for it.
//!
//! The guest reads the description from the file `boot/args` of the image: fields that end with
//! NUL, each a letter and a text. `a` is an argument (the first is the program's name), `e` an
//! environment variable, `c` the working directory.

use crate::dynamic;
use crate::image::{Addition, Base};
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub const WORKING_DIRECTORY: &str = "/root";
/// As much of a `#!` line as counts.
const LINE: u64 = 256;
const PATH: &str = "/bin:/sbin:/usr/bin:/usr/sbin";

/// A program, its arguments and its surroundings.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Invocation {
    /// `arguments` with the usual environment, changed and extended by `KEY=VALUE` strings.
    pub fn new(arguments: Vec<String>, extra: &[String]) -> Result<Invocation> {
        let terminal = std::env::var("TERM").unwrap_or_else(|_| "dumb".into());
        let usual = [
            ("PATH", PATH),
            ("HOME", WORKING_DIRECTORY),
            ("TERM", &terminal),
            ("USER", "root"),
            ("PWD", WORKING_DIRECTORY),
        ];
        let mut environment: Vec<_> =
            usual.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        for setting in extra {
            let (key, value) = setting
                .split_once('=')
                .with_context(|| format!("--env takes KEY=VALUE, not {setting:?}"))?;
            environment.retain(|(known, _)| known != key);
            environment.push((key.to_owned(), value.to_owned()));
        }
        Ok(Invocation { arguments, environment })
    }

    /// The contents of `boot/args`.
    pub fn encode(&self) -> Vec<u8> {
        let arguments = self.arguments.iter().map(|text| format!("a{text}"));
        let environment = self.environment.iter().map(|(key, value)| format!("e{key}={value}"));
        let fields = arguments.chain(environment).chain([format!("c{WORKING_DIRECTORY}")]);
        fields.flat_map(|field| field.into_bytes().into_iter().chain([0])).collect()
    }

    fn path(&self) -> &str {
        let found = self.environment.iter().find(|(key, _)| key == "PATH");
        found.map_or(PATH, |(_, value)| value)
    }

    /// Finds the program. A name with a slash is a file of the host, which the image gets; without
    /// one it is a program of the image. With it comes what it needs: dynamic linker and libraries, or the interpreter of a script.
    /// `check` refuses here what the guest would refuse.
    pub fn locate(&self, base: &Base, check: bool) -> Result<Vec<Addition>> {
        let name = self.arguments.first().context("no program is named")?;
        if !name.contains('/') {
            let mut folders = self.path().split(':');
            let found = folders.any(|folder| base.contains(&format!("{folder}/{name}")));
            if check && !found {
                bail!("{}", not_in_image(name));
            }
            return Ok(Vec::new());
        }
        let host = Path::new(name);
        // What a root of its own has is meant.
        if base.root().is_some() && base.contains(name) {
            return Ok(Vec::new());
        }
        if !host.exists() {
            if !check || base.contains(name) {
                return Ok(Vec::new());
            }
            bail!("{name}: no such file, neither here nor in the image");
        }
        let mut all = match program_needs(host, base) {
            Err(error) if check => return Err(error),
            needs => needs.unwrap_or_default(),
        };
        // A root has its own linker and libraries, which belong together.
        all.retain(|addition| base.root().is_none() || !base.contains(&addition.guest));
        all.push(Addition { host: host.to_owned(), guest: guest_path(name) });
        Ok(all)
    }
}

fn not_in_image(name: &str) -> String {
    let hint = match Path::new(name).exists() {
        true => format!("; for the file here, say ./{name}"),
        false => "; a program of this machine is named with its path, such as ./prog".to_owned(),
    };
    format!("{name}: the image has no such program{hint}")
}

/// What a program of the host needs beside itself.
fn program_needs(host: &Path, base: &Base) -> Result<Vec<Addition>> {
    let name = host.display();
    let metadata = fs::metadata(host).with_context(|| format!("{name}"))?;
    ensure!(!metadata.is_dir(), "{name} is a directory, not a program");
    ensure!(metadata.is_file(), "{name} is not a regular file");
    let executable = metadata.permissions().mode() & 0o111 != 0;
    ensure!(executable, "{name} is not executable (chmod +x {name})");
    let mut start = Vec::new();
    fs::File::open(host)?.take(LINE).read_to_end(&mut start)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        return script_needs(host, line, base);
    }
    dynamic::needs(host).map_err(|problem| {
        let in_image = host.is_absolute() && base.contains(&host.to_string_lossy());
        match (in_image, host.file_name()) {
            (true, Some(file)) => {
                let file = file.to_string_lossy();
                anyhow::anyhow!("{problem} (for the image's own, say {file})")
            }
            _ => problem,
        }
    })
}

/// What a script needs: its interpreter, of the image or of this machine.
fn script_needs(host: &Path, after_mark: &[u8], base: &Base) -> Result<Vec<Addition>> {
    let line = after_mark.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let interpreter = line.split_whitespace().next().unwrap_or_default();
    if base.contains(interpreter) {
        return Ok(Vec::new());
    }
    let program = Path::new(interpreter);
    ensure!(
        program.is_absolute() && program.is_file(),
        "{} is a script for {interpreter:?}, which neither the image nor this machine has",
        host.display()
    );
    let mut all = dynamic::needs(program)?;
    all.push(Addition { host: program.to_owned(), guest: interpreter.to_owned() });
    Ok(all)
}

/// Where a file of the host, named like this, is put in the guest.
pub fn guest_path(name: &str) -> String {
    let mut parts: Vec<&str> = match name.starts_with('/') {
        true => Vec::new(),
        false => WORKING_DIRECTORY.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// `HOST[:GUEST]` of `--file`.
pub fn parse_addition(text: &str) -> Result<Addition> {
    let (host, guest) = match text.split_once(':') {
        Some((host, guest)) => (host, guest_path(guest)),
        None => (text, guest_path(text)),
    };
    ensure!(Path::new(host).exists(), "--file {text}: there is no {host}");
    ensure!(guest != "/", "--file {text}: it needs a name in the guest");
    Ok(Addition { host: host.into(), guest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_paths() {
        assert_eq!(guest_path("./prog"), "/root/prog");
        assert_eq!(guest_path("a//b/../c"), "/root/a/c");
        assert_eq!(guest_path("../../../x"), "/x");
        assert_eq!(guest_path("/opt/tool"), "/opt/tool");
    }

    #[test]
    fn encoding() {
        let arguments = vec!["sh".to_owned(), String::new()];
        let invocation = Invocation { arguments, environment: vec![("K".into(), "v=w".into())] };
        assert_eq!(invocation.encode(), b"ash\0a\0eK=v=w\0c/root\0");
        let changed = Invocation::new(vec!["x".into()], &["HOME=/tmp".into()]).unwrap();
        assert_eq!(changed.environment.iter().filter(|(key, _)| key == "HOME").count(), 1);
        assert!(Invocation::new(vec![], &["HOME".into()]).is_err());
    }
}
