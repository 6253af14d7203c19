//! `./x run` itself, as a user meets it: statuses, streams, wrong input, time-out.

use super::guest::difference;
use super::{feed, this_tool, Case, Context};
use anyhow::{ensure, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A call of `./x run` and what must come of it.
struct Call {
    name: &'static str,
    /// What follows `./x run`.
    arguments: &'static [&'static str],
    stdin: &'static [u8],
    status: i32,
    stdout: &'static [u8],
    /// A part of what is said on standard error; nothing may be said if this is empty.
    complaint: &'static str,
}

const fn call(name: &'static str, arguments: &'static [&'static str], status: i32) -> Call {
    Call { name, arguments, stdin: b"", status, stdout: b"", complaint: "" }
}

const CALLS: [Call; 21] = [
    Call {
        stdout: b"42\n",
        ..call("arithmetic", &["--", "busybox", "sh", "-c", "echo $((6*7))"], 0)
    },
    Call {
        stdout: b"42\n",
        ..call("la57", &["--la57", "--", "sh", "-c", "echo $((6*7)) | cat"], 0)
    },
    call("status_7", &["--", "busybox", "sh", "-c", "exit 7"], 7),
    call("status_255", &["--", "sh", "-c", "exit 255"], 255),
    call("killed_by_kill", &["--", "sh", "-c", "kill -9 $$"], 137),
    call("killed_by_segv", &["--", "sh", "-c", "kill -SEGV $$"], 139),
    Call { stdin: b"b\na\n", stdout: b"a\nb\n", ..call("stdin", &["--", "busybox", "sort"], 0) },
    Call { stdout: b"0\n", ..call("empty_stdin", &["--", "wc", "-c"], 0) },
    Call {
        stdin: b"no line feed at the end",
        stdout: b"no line feed at the end",
        ..call("cat", &["--", "cat"], 0)
    },
    Call {
        stdout: b"bar\n",
        ..call("env", &["--env", "FOO=bar", "--", "sh", "-c", "echo $FOO"], 0)
    },
    Call {
        stdout: b"Hello, you!\nHello, me!\n",
        ..call("native", &["--", "hello", "you", "me"], 0)
    },
    Call { stdout: b"Hello, world!\n", ..call("native_file", &["--", "./native"], 0) },
    Call { stdout: b"/root\n", ..call("folder", &["--", "pwd"], 0) },
    Call {
        stdout: b"some text\n",
        ..call("file", &["--file", "text:/etc/text", "--", "cat", "/etc/text"], 0)
    },
    Call { complaint: "no such program", ..call("unknown", &["--", "nonesuch"], 2) },
    Call { complaint: "no such file", ..call("missing", &["--", "./nonesuch"], 2) },
    Call { complaint: "is a directory", ..call("directory", &["--", "./folder"], 2) },
    Call { complaint: "not an ELF", ..call("text", &["--", "./text"], 2) },
    Call { complaint: "/lib64/ld-linux", ..call("dynamic", &["--", "./dynamic"], 2) },
    Call { complaint: "truncated", ..call("truncated", &["--", "./truncated"], 2) },
    Call {
        complaint: "the time is up",
        ..call("timeout", &["--timeout", "4", "--", "sleep", "1000"], 124)
    },
];

/// What the guest itself must refuse: arguments after `--no-check`.
const REFUSED_BY_GUEST: [(&str, &str, i32); 5] = [
    ("guest_missing", "./nonesuch", 127),
    ("guest_directory", "./folder", 126),
    ("guest_text", "./text", 126),
    ("guest_dynamic", "./dynamic", 126),
    ("guest_truncated", "./truncated", 126),
];

pub fn cases() -> Vec<Case> {
    let calls = CALLS
        .iter()
        .map(|call| Case::single(format!("cli/{}", call.name), |context| expect(context, call)));
    let refused = REFUSED_BY_GUEST.into_iter().map(|(name, program, status)| {
        Case::single(format!("cli/{name}"), move |context| {
            let (got, _, stderr) = x_run(context, &["--no-check", "--", program], b"")?;
            ensure!(got == status, "exit status {got}, expected {status}; it said: {stderr}");
            ensure!(!stderr.is_empty(), "nothing was said about it");
            Ok(())
        })
    });
    calls.chain(refused).collect()
}

fn expect(context: &Context, call: &Call) -> Result<()> {
    let (status, stdout, stderr) = x_run(context, call.arguments, call.stdin)?;
    ensure!(status == call.status, "exit status {status}, expected {}: {stderr}", call.status);
    ensure!(stdout == call.stdout, "{}", difference(call.stdout, &stdout));
    match call.complaint {
        "" => ensure!(stderr.is_empty(), "it said on standard error: {stderr}"),
        part => ensure!(stderr.contains(part), "it said {stderr:?}, without {part:?}"),
    }
    Ok(())
}

/// Status, output and messages of `./x run ARGUMENTS` in a folder with some unusual files.
fn x_run(context: &Context, arguments: &[&str], stdin: &[u8]) -> Result<(i32, Vec<u8>, String)> {
    let folder = context.folder("cli")?;
    make_files(context, &folder)?;
    let mut command = this_tool(context, &folder)?;
    command
        .args(["run", "--mem", "512M"])
        .args((!arguments.contains(&"--timeout")).then_some("--timeout=60"))
        .args(arguments);
    let output = feed(&mut command, stdin)?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code().unwrap_or(-1), output.stdout, stderr))
}

fn make_files(context: &Context, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder.join("folder"))?;
    let own = std::env::current_exe()?;
    if !folder.join("dynamic").exists() {
        // Two tests may do this at the same time.
        let new = folder.join(format!("new.{:?}", std::thread::current().id()));
        fs::copy(own, &new)?;
        fs::rename(&new, folder.join("dynamic"))?;
    }
    let busybox = fs::read(crate::setup::busybox()?)?;
    let programs = &context.built.programs;
    if let Some(hello) = programs.iter().find(|program| program.image_path == "root/bin/hello") {
        write_program(&folder.join("native"), &fs::read(&hello.file)?)?;
    }
    write_program(&folder.join("truncated"), &busybox[..busybox.len() / 2])?;
    write_program(&folder.join("text"), b"some text\n")
}

fn write_program(path: &Path, data: &[u8]) -> Result<()> {
    if !path.exists() {
        let new = path.with_extension(format!("{:?}", std::thread::current().id()));
        fs::write(&new, data)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        fs::rename(&new, path)?;
    }
    Ok(())
}
