//! `./x run` itself, as a user meets it: statuses, streams, wrong input, time-out.

use super::guest::difference;
use super::{feed, this_tool, Case, Context};
use anyhow::{bail, ensure, Context as _, Result};
use rustix::process::{kill_process, Pid, Signal};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

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

const CALLS: [Call; 26] = [
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
    Call {
        stdout: b"some text\n",
        ..call("file_above", &["--file", "../cli/text", "--", "cat", "../cli/text"], 0)
    },
    Call {
        complaint: "sh: write error: No space left on device",
        ..call("full_device", &["--", "sh", "-c", "echo hi >/dev/full"], 1)
    },
    Call {
        complaint: "between 32M and 1T",
        ..call("too_much_memory", &["--trace-buffer", "2T", "--trace", "t", "--", "true"], 2)
    },
    Call { complaint: "no such program", ..call("unknown", &["--", "nonesuch"], 2) },
    Call { complaint: "no such file", ..call("missing", &["--", "./nonesuch"], 2) },
    Call { complaint: "is a directory", ..call("directory", &["--", "./folder"], 2) },
    Call { complaint: "not an ELF", ..call("text", &["--", "./text"], 2) },
    Call { stdout: b"x 0.1.0\n", ..call("dynamic", &["--", "./dynamic", "--version"], 0) },
    Call {
        complaint: "no-such-package",
        ..call("deb_unknown", &["--deb", "no-such-package-at-all", "--", "true"], 2)
    },
    Call {
        stdout: b"file in a root\n/bin/own\n",
        ..call(
            "root",
            &["--root", "tree", "--", "sh", "-c", "cat /etc/own; which own; own | cat -"],
            0,
        )
    },
    Call { complaint: "truncated", ..call("truncated", &["--", "./truncated"], 2) },
    Call {
        complaint: "the time is up",
        ..call("timeout", &["--timeout", "4", "--", "sleep", "1000"], 124)
    },
];

type Body = fn(&Context) -> Result<()>;

/// What the guest itself must refuse: arguments after `--no-check`.
const REFUSED_BY_GUEST: [(&str, &str, i32); 4] = [
    ("guest_missing", "./nonesuch", 127),
    ("guest_directory", "./folder", 126),
    ("guest_text", "./text", 126),
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
    let others: [(&str, Body); 13] = [
        ("deb", packages),
        ("new_program", new_program),
        ("watch", watch),
        ("least_memory", least_memory),
        ("too_little_memory", too_little_memory),
        ("image_without_tests", image_without_tests),
        ("unknown_calls_by_name", unknown_calls),
        ("shell_greets", shell_greets),
        ("no_such_test", no_such_test),
        ("interrupted", interrupted),
        ("completion_and_doctor", completion_and_doctor),
        ("demo", demo),
        ("gdb_can_be_stopped", gdb_can_be_stopped),
    ];
    let others = others.into_iter().map(|(name, body)| Case::single(format!("cli/{name}"), body));
    calls.chain(refused).chain(others).collect()
}

/// Debian's packages are fetched once, and then are there.
fn packages(context: &Context) -> Result<()> {
    let program = ["perl", "-e", "print 1+1, qq( $ENV{HOME}\\n$^X\\n)"];
    let arguments = [&["--deb", "perl-base", "--"][..], &program].concat();
    for is_there in [false, true] {
        let (status, stdout, stderr) = x_run(context, &arguments, b"")?;
        ensure!(status == 0, "exit status {status}: {stderr}");
        ensure!(stdout == b"2 /root\n/usr/bin/perl\n", "{}", String::from_utf8_lossy(&stdout));
        ensure!(!is_there || stderr.is_empty(), "it said the second time: {stderr}");
    }
    Ok(())
}

/// `./x run ARGUMENTS` as it is, to its end.
fn plain(context: &Context, arguments: &[&str]) -> Result<(i32, String, String)> {
    let folder = context.folder("cli")?;
    make_files(context, &folder)?;
    let mut command = this_tool(context, &folder)?;
    let output = feed(command.args(["run", "--timeout", "60"]).args(arguments), b"")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr)))
}

/// With what --help says is enough.
fn least_memory(context: &Context) -> Result<()> {
    for (cores, memory) in [("1", "32M"), ("64", "38M")] {
        let script = "echo $(seq 100 | wc -l)";
        let (status, stdout, stderr) =
            plain(context, &["--mem", memory, "--cores", cores, "--", "sh", "-c", script])?;
        ensure!((status, stdout.as_str()) == (0, "100\n"), "{status} on {cores} cores: {stderr}");
    }
    Ok(())
}

/// It says how much is needed, and that is true.
fn too_little_memory(context: &Context) -> Result<()> {
    let large = context.folder("cli")?.join("large");
    fs::File::create(&large)?.set_len(40 << 20)?;
    let run =
        |mem: &str| plain(context, &["--mem", mem, "--file", "large", "--", "wc", "-c", "large"]);
    let (status, _, stderr) = run("40M")?;
    ensure!(status == 2, "exit status {status}: {stderr}");
    let needed = stderr.split("at least --mem ").nth(1).and_then(|text| text.split(':').next());
    let needed = needed.with_context(|| format!("it said {stderr:?}"))?;
    let (status, stdout, stderr) = run(needed)?;
    ensure!(status == 0 && stdout.starts_with("41943040"), "with {needed}: {status}, {stderr}");
    Ok(())
}

fn image_without_tests(context: &Context) -> Result<()> {
    let (status, _, stderr) = plain(context, &["--", "true"])?;
    ensure!(status == 0, "exit status {status}: {stderr}");
    let image = fs::read(context.project.state().join("base.cpio"))?;
    ensure!(image.len() < 10 << 20, "the image has {} bytes", image.len());
    let tests = crate::cpio::members(&image).find(|member| member.path.contains("programs/"));
    ensure!(tests.is_none(), "it has {:?}", tests.map(|member| member.path.to_owned()));
    Ok(())
}

fn no_such_test(context: &Context) -> Result<()> {
    let test = |filter: &str| -> Result<(Option<i32>, String)> {
        let mut command = this_tool(context, &context.folder("cli")?)?;
        let output = feed(command.args(["test", filter]), b"")?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let (status, said) = test("cli/no_sich_test")?;
    ensure!(status == Some(2), "exit status {status:?}: {said}");
    ensure!(said.contains("similar: cli/no_such_test"), "it said {said:?}");
    let (status, said) = test("zzzzzzzz")?;
    ensure!(status == Some(2) && said.contains("--list"), "{status:?}: {said:?}");
    Ok(())
}

/// Who ends the tests in the middle is told what came so far.
fn interrupted(context: &Context) -> Result<()> {
    let mut command = this_tool(context, &context.folder("cli")?)?;
    // The first is over soon, the second is not.
    command.args(["test", "--jobs", "1", "cli/streams"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("there is no output")?);
    let mut said = String::new();
    output.read_line(&mut said)?;
    kill_process(Pid::from_child(&child), Signal::INT)?;
    output.read_to_string(&mut said)?;
    let status = child.wait()?.code();
    ensure!(status == Some(130), "exit status {status:?}: {said}");
    ensure!(said.contains("interrupted\n") && said.contains(" passed, 0 failed"), "{said}");
    Ok(())
}

fn completion_and_doctor(context: &Context) -> Result<()> {
    let tool = |arguments: &[&str]| -> Result<(Option<i32>, String)> {
        let output = feed(this_tool(context, &context.folder("cli")?)?.args(arguments), b"")?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let (status, script) = tool(&["completion", "bash"])?;
    ensure!(status == Some(0), "exit status {status:?}");
    // As bash calls it when somebody presses the key behind these words.
    let press = "COMP_WORDS=(./x run --ou); COMP_CWORD=2; _x ./x --ou run; echo ${COMPREPLY[@]}; \
        COMP_WORDS=(./x com); COMP_CWORD=1; _x ./x com ./x; echo ${COMPREPLY[@]}";
    let mut bash = std::process::Command::new("bash");
    let output = feed(bash.args(["-c", &format!("{script}\n{press}")]), b"")?;
    let proposed = String::from_utf8_lossy(&output.stdout);
    ensure!(proposed == "--out\ncompletion compare\n", "it proposes {proposed:?}");
    let (status, script) = tool(&["completion", "zsh"])?;
    ensure!(status == Some(0) && script.starts_with("#compdef x\n"), "exit status {status:?}");
    // Tests run here, so programs do.
    let (status, found) = tool(&["doctor"])?;
    ensure!(status == Some(0), "exit status {status:?}: {found}");
    for part in ["ok      rustc", "ok      QEMU emulator", "KVM: ", "./x run works"] {
        ensure!(found.contains(part), "there is no {part:?} in: {found}");
    }
    Ok(())
}

/// The steps that need neither probes nor Linux show what they say.
fn demo(context: &Context) -> Result<()> {
    let mut command = this_tool(context, &context.folder("cli")?)?;
    let output = feed(command.args(["demo", "self-paging", "fork", "revoke"]), b"")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}: {text}", output.status);
    ensure!(text.contains("every change is in the file"), "the pager failed: {text}");
    let numbers = |word: &str| -> Vec<u64> {
        let last = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse().ok());
        text.lines().filter(|line| line.starts_with(word)).filter_map(last).collect()
    };
    let copies = numbers("page_copies ");
    ensure!(copies.len() == 3 && copies[2] - copies[0] < 100, "{copies:?} of 2048 pages");
    let (with, after) = (numbers("with a process: "), numbers("after kill -9: "));
    // Servers keep some things for a while.
    ensure!(after.len() == 3 && after[1] >= after[2] && with[2] > after[2], "{with:?} {after:?}");
    Ok(())
}

/// What a program asked for in vain is named, with how often.
fn unknown_calls(context: &Context) -> Result<()> {
    const SOURCE: &str = "#include <sys/socket.h>\n#include <sys/mman.h>\n#include <sys/syscall.h>\n\
        #include <unistd.h>\nint main(void) { for (int i = 0; i < 2; i++) socket(AF_BLUETOOTH, SOCK_RAW, 0);\n\
        void *p = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); madvise(p, 4096, MADV_MERGEABLE);\n\
        syscall(SYS_bpf, 0, 0, 0); syscall(9999); close(-1); return 0; }\n";
    let folder = context.folder("cli")?;
    fs::write(folder.join("asks.c"), SOURCE)?;
    super::linux::compile(&folder.join("asks.c"), &folder.join("asks"), "gcc")?;
    let (status, _, stderr) = plain(context, &["--verbose", "--", "./asks"])?;
    ensure!(status == 0, "exit status {status}: {stderr}");
    for line in [
        "@unknown socket 2 EAFNOSUPPORT",
        "@unknown madvise 1 EINVAL",
        "@unknown bpf 1 ENOSYS",
        "@unknown 9999 1 ENOSYS",
    ] {
        ensure!(stderr.lines().any(|own| own == line), "there is no {line:?} in: {stderr}");
    }
    ensure!(!stderr.contains("@unknown close"), "an error of the program's own counts: {stderr}");
    Ok(())
}

/// A call on a terminal, at which this is typed (milliseconds after the start, and what).
fn on_terminal(
    context: &Context,
    arguments: &str,
    keys: &[(u64, &[u8])],
) -> Result<(Option<i32>, String)> {
    let mut command = this_tool(context, &context.folder("cli")?)?;
    let call = format!("exec '{}' {arguments}", std::env::current_exe()?.display());
    // The tool with a terminal of its own: one is all that this program is asked for.
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &call, "/dev/null"]).current_dir(context.folder("cli")?);
    for (name, value) in command.env("TERM", "dumb").get_envs() {
        if let Some(value) = value {
            script.env(name, value);
        }
    }
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("there is no input")?;
    let began = Instant::now();
    for (after, typed) in keys {
        thread::sleep(Duration::from_millis(*after).saturating_sub(began.elapsed()));
        // Whoever has ended needs no keys.
        let _ = input.write_all(typed);
    }
    let output = child.wait_with_output()?;
    drop(input);
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn shell_greets(context: &Context) -> Result<()> {
    let (status, shown) =
        on_terminal(context, "run --timeout 60", &[(100, b"echo $((6*7))\n"), (200, b"exit 9\n")])?;
    ensure!(status == Some(9), "exit status {status:?}: {shown}");
    for part in ["This is Tessera", "/proc/self/maps", "gcbarrier", "Leave", "\n42\r\n"] {
        ensure!(shown.contains(part), "there is no {part:?} in: {shown}");
    }
    // What the greeting proposes is there, and a shell that runs a script does not greet.
    let script =
        "cat /proc/self/maps | grep -q stack && grep -q free /proc/tessera/memory && gcbarrier";
    let (status, stdout, stderr) = plain(context, &["--", "sh", "-lc", script])?;
    ensure!(status == 0 && !stdout.contains("This is"), "{status}: {stdout} {stderr}");
    Ok(())
}

/// A package outside of this repository: its tests pass, and its program runs, also in a path with a space.
fn new_program(context: &Context) -> Result<()> {
    let parent = context.folder("cli")?.join(format!("a new.{}", std::process::id()));
    fs::create_dir_all(&parent)?;
    let done = new_program_in(context, &parent);
    fs::remove_dir_all(&parent)?;
    done
}

fn new_program_in(context: &Context, parent: &Path) -> Result<()> {
    let folder = parent.join("my-prog");
    let make = || -> Result<(Option<i32>, String)> {
        let output = this_tool(context, parent)?.args(["new", "my-prog"]).output()?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let (status, said) = make()?;
    ensure!(status == Some(0), "exit status {status:?}: {said}");
    let (status, said) = make()?;
    ensure!(status == Some(2) && said.contains("is there already"), "{status:?}: {said}");
    for (arguments, expected, part) in [
        (&["unit"][..], 0, "2 passed"),
        (&["run", "--release", "--", "5000"], 0, "2 pages, checksum 0x"),
        (&["run", "--release", "--", "much"], 2, "usage: my-prog"),
    ] {
        let mut cargo = std::process::Command::new("cargo");
        // Nothing of the cargo that may have started this tool is meant for that one.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_")) {
            cargo.env_remove(name);
        }
        let output = cargo.args(arguments).current_dir(&folder).stdin(Stdio::null()).output()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let status = output.status.code();
        ensure!(
            status == Some(expected) && said.contains(part),
            "{arguments:?}: {status:?}: {said}"
        );
    }
    Ok(())
}

/// The picture is there while the program runs, then what it printed; without a program `q` ends it.
fn watch(context: &Context) -> Result<()> {
    let arguments = "run --watch --timeout 120 -- sh -c 'sleep 2; echo seen; exit 3'";
    let (status, shown) = on_terminal(context, arguments, &[])?;
    ensure!(status == Some(3), "exit status {status:?}: {shown}");
    for part in ["faults/s", "server", "capabilities", "seen\r\n"] {
        ensure!(shown.contains(part), "there is no {part:?} in: {shown}");
    }
    ensure!(shown.find("seen") > shown.rfind("server"), "not at the end: {shown}");
    let (status, shown) =
        on_terminal(context, "run --watch --timeout 120", &[(3000, b"m"), (4000, b"q")])?;
    ensure!(status == Some(0), "exit status {status:?}: {shown}");
    let (status, _, stderr) = plain(context, &["--watch", "--", "true"])?;
    ensure!(status == 2 && stderr.contains("draws on a terminal"), "{status}: {stderr}");
    Ok(())
}

/// Ctrl-C ends it though no debugger has come.
fn gdb_can_be_stopped(context: &Context) -> Result<()> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let began = Instant::now();
    let arguments = format!("run --gdb={port} --timeout 60 -- true");
    let (status, shown) = on_terminal(context, &arguments, &[(4000, b"\x03")])?;
    ensure!(status == Some(130), "exit status {status:?}: {shown}");
    ensure!(shown.contains(&format!("target remote :{port}")), "it said {shown:?}");
    ensure!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    Ok(())
}

fn expect(context: &Context, call: &Call) -> Result<()> {
    let (status, stdout, stderr) = x_run(context, call.arguments, call.stdin)?;
    ensure!(status == call.status, "exit status {status}, expected {}: {stderr}", call.status);
    ensure!(stdout == call.stdout, "{}", difference(call.stdout, &stdout));
    match call.complaint {
        // Only the first time.
        "" if stderr.lines().all(|line| line.contains("making the root image")) => {}
        "" => bail!("it said on standard error: {stderr}"),
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
    let tree = folder.join("tree");
    if !tree.exists() {
        // Two tests may do this at the same time.
        let new = folder.join(format!("tree.{:?}", std::thread::current().id()));
        fs::create_dir_all(new.join("etc"))?;
        fs::create_dir_all(new.join("usr/bin"))?;
        std::os::unix::fs::symlink("usr/bin", new.join("bin"))?;
        fs::write(new.join("etc/own"), "file in a root\n")?;
        write_program(&new.join("usr/bin/own"), b"#!/bin/sh\n")?;
        // The other one's will do.
        let _ = fs::rename(&new, &tree);
    }
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
