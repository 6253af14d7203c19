//! The standard streams of `./x run` with much in them: every byte comes out, in order, whoever is slow; and
//! what happens when one end goes before the other.

use super::{feed, this_tool, Case, Context};
use anyhow::{ensure, Context as _, Result};
use rustix::process::{kill_process, Pid, Signal};
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// As much as the tests with much carry.
const MUCH: usize = 100 << 20;
/// How long the slow ones sleep, and after how much.
const PAUSE: Duration = Duration::from_secs(2);
const BEFORE_PAUSE: usize = 10 << 20;
/// More than all buffers on the way hold.
const IN_THE_MIDDLE: usize = 20 << 20;
/// The program's status after SIGPIPE, and ours when the emulator has died.
const PIPE_STATUS: i32 = 128 + 13;
const DIED: i32 = crate::run::STATUS_DIED;

type Body = fn(&Context) -> Result<()>;

const CASES: [(&str, Body); 14] = [
    ("streams_apart", apart),
    ("streams_together_in_order", together),
    ("streams_apart_by_serial_port", by_serial_port),
    ("streams_100m", |context| much(context, 1)),
    ("streams_100m_on_4_cores", |context| much(context, 4)),
    ("streams_100m_of_errors", much_error),
    ("streams_slow_reader", slow_reader),
    ("streams_slow_writer", slow_writer),
    ("streams_slow_program", slow_program),
    ("streams_closed_early", closed_early),
    ("streams_closed_errors", closed_errors),
    ("streams_closed_and_ignored", closed_and_ignored),
    ("streams_full_device", full_device),
    ("streams_emulator_killed", emulator_killed),
];

pub fn cases() -> Vec<Case> {
    let single = |(name, body): (&str, Body)| Case::single(format!("cli/{name}"), body);
    CASES.into_iter().map(single).collect()
}

/// `./x run` with arguments.
fn x_run(context: &Context, arguments: &[&str]) -> Result<Command> {
    let mut command = this_tool(context, &context.folder("cli")?)?;
    command.args(["run", "--mem", "512M", "--timeout=600"]).args(arguments);
    Ok(command)
}

/// Bytes of which each piece is another one, the same in every run.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        all.extend_from_slice(&state.to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// Fails unless both are the same, and says where they differ first.
pub fn same(got: &[u8], expected: &[u8]) -> Result<()> {
    let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
    ensure!(differs.is_none(), "the bytes differ from number {} on", differs.unwrap_or(0));
    ensure!(got.len() == expected.len(), "{} bytes came of {}", got.len(), expected.len());
    Ok(())
}

fn expect_status(child: &mut Child, expected: i32) -> Result<()> {
    let status = child.wait()?.code();
    ensure!(status == Some(expected), "exit status {status:?}, expected {expected}");
    Ok(())
}

/// Writes bytes to the input of a child in pieces, with a pause somewhere, and closes it.
fn write_all(
    child: &mut Child,
    bytes: Vec<u8>,
    pause: Option<usize>,
) -> Result<thread::JoinHandle<()>> {
    let mut input = child.stdin.take().context("there is no input")?;
    Ok(thread::spawn(move || {
        let (first, rest) = bytes.split_at(pause.unwrap_or(0));
        // What does not arrive is missed at the other end.
        let _ = input.write_all(first);
        if pause.is_some() {
            thread::sleep(PAUSE);
        }
        let _ = input.write_all(rest);
    }))
}

/// Runs a call to its end, with bytes as its input while its output is read.
fn carry(mut command: Command, bytes: &[u8], pause: Option<usize>) -> Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let writer = write_all(&mut child, bytes.to_vec(), pause)?;
    let output = child.wait_with_output()?;
    let _ = writer.join();
    Ok(output)
}

fn apart(context: &Context) -> Result<()> {
    let script = "echo out; echo err >&2; echo out; echo err >&2";
    let output = feed(&mut x_run(context, &["--", "sh", "-c", script])?, b"")?;
    same(&output.stdout, b"out\nout\n").context("standard output")?;
    same(&output.stderr, b"err\nerr\n").context("standard error")
}

/// Where both are one file, their lines come as they were written.
fn together(context: &Context) -> Result<()> {
    let script = "for i in $(seq 500); do echo out $i; echo err $i >&2; done";
    let (mut read, write) = std::io::pipe()?;
    let mut command = x_run(context, &["--", "sh", "-c", script])?;
    command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write);
    let mut child = command.spawn()?;
    // It has our ends of the pipe.
    drop(command);
    let mut text = String::new();
    read.read_to_string(&mut text)?;
    expect_status(&mut child, 0)?;
    let expected: String = (1..=500).map(|n| format!("out {n}\nerr {n}\n")).collect();
    same(text.as_bytes(), expected.as_bytes())
}

/// Without the device all come out as standard output, and nothing is lost.
fn by_serial_port(context: &Context) -> Result<()> {
    let script = "cat; echo err >&2";
    let output = feed(&mut x_run(context, &["--serial", "--", "sh", "-c", script])?, b"in\n")?;
    same(&output.stdout, b"in\nerr\n").context("standard output")?;
    same(&output.stderr, b"").context("standard error")
}

fn much(context: &Context, cores: u32) -> Result<()> {
    let cores_text = cores.to_string();
    let bytes = noise(MUCH);
    let command = x_run(context, &["--cores", &cores_text, "--", "cat"])?;
    let began = Instant::now();
    let output = carry(command, &bytes, None)?;
    context.note(&format!("cat of 100 MB, {cores} cores: {:.2} s", began.elapsed().as_secs_f64()));
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    same(&output.stdout, &bytes)
}

fn much_error(context: &Context) -> Result<()> {
    let bytes = noise(MUCH);
    let output = carry(x_run(context, &["--", "sh", "-c", "cat >&2"])?, &bytes, None)?;
    same(&output.stderr, &bytes).context("standard error")?;
    same(&output.stdout, b"").context("standard output")
}

fn slow_reader(context: &Context) -> Result<()> {
    let bytes = noise(MUCH / 2);
    let mut command = x_run(context, &["--", "cat"])?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let writer = write_all(&mut child, bytes.clone(), None)?;
    let mut from = child.stdout.take().context("there is no output")?;
    let mut got = vec![0; BEFORE_PAUSE];
    from.read_exact(&mut got)?;
    thread::sleep(PAUSE);
    from.read_to_end(&mut got)?;
    let _ = writer.join();
    expect_status(&mut child, 0)?;
    same(&got, &bytes)
}

fn slow_writer(context: &Context) -> Result<()> {
    let bytes = noise(MUCH / 2);
    let output = carry(x_run(context, &["--", "cat"])?, &bytes, Some(BEFORE_PAUSE))?;
    same(&output.stdout, &bytes)
}

/// All buffers are full before the program looks, and the input has ended.
fn slow_program(context: &Context) -> Result<()> {
    let bytes = noise(IN_THE_MIDDLE);
    let output = carry(x_run(context, &["--", "sh", "-c", "sleep 2; cat"])?, &bytes, None)?;
    same(&output.stdout, &bytes)
}

/// Reads the beginning of the output and closes it; answers the exit status and what was said.
fn read_little(mut command: Command) -> Result<(i32, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut from = child.stdout.take().context("there is no output")?;
    from.read_exact(&mut [0; 4])?;
    drop(from);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code().unwrap_or(-1), said))
}

fn closed_early(context: &Context) -> Result<()> {
    let (status, said) = read_little(x_run(context, &["--", "yes"])?)?;
    ensure!((status, said.as_str()) == (PIPE_STATUS, ""), "status {status}, it said {said:?}");
    // The shell goes on, and its standard error is there as before.
    let script = "yes; echo ended with $? >&2; exit 5";
    let (status, said) = read_little(x_run(context, &["--", "sh", "-c", script])?)?;
    let expected = format!("ended with {PIPE_STATUS}\n");
    ensure!((status, said) == (5, expected), "status {status}");
    Ok(())
}

fn closed_errors(context: &Context) -> Result<()> {
    let script = "yes >&2; echo $?; exit 6";
    let mut command = x_run(context, &["--", "sh", "-c", script])?;
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut errors = child.stderr.take().context("there is no standard error")?;
    errors.read_exact(&mut [0; 4])?;
    drop(errors);
    let output = child.wait_with_output()?;
    ensure!(output.status.code() == Some(6), "{}", output.status);
    same(&output.stdout, format!("{PIPE_STATUS}\n").as_bytes())
}

/// Who ignores the signal is told by the error.
fn closed_and_ignored(context: &Context) -> Result<()> {
    let script = "trap '' PIPE; while echo abcd; do :; done 2>/dev/null; exit 7";
    let (status, said) = read_little(x_run(context, &["--", "sh", "-c", script])?)?;
    ensure!((status, said.as_str()) == (7, ""), "status {status}, it said {said:?}");
    Ok(())
}

fn full_device(context: &Context) -> Result<()> {
    let mut command = x_run(context, &["--", "yes"])?;
    let full = fs::File::options().write(true).open("/dev/full")?;
    let output = command.stdin(Stdio::null()).stdout(full).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(PIPE_STATUS), "{}", output.status);
    ensure!(said.contains("No space left"), "it said {said:?}");
    Ok(())
}

/// The processes that a process has started.
fn children(parent: u32) -> Result<Vec<i32>> {
    let mut all = Vec::new();
    for task in fs::read_dir(format!("/proc/{parent}/task"))? {
        // A thread may end meanwhile; it has started nothing then that is still there.
        let text = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|number| number.parse::<i32>().ok()));
    }
    Ok(all)
}

/// The emulator that this test's own call has started is killed in the middle: what it had sent is there, and
/// the call says what happened.
fn emulator_killed(context: &Context) -> Result<()> {
    let mut command = x_run(context, &["--", "cat"])?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let bytes = noise(IN_THE_MIDDLE);
    // The input stays open: without the end of the emulator this would not end.
    let mut input = child.stdin.take().context("there is no input")?;
    let sent = bytes.clone();
    let writer = thread::spawn(move || {
        let _ = input.write_all(&sent);
        input
    });
    let mut from = child.stdout.take().context("there is no output")?;
    let mut got = vec![0; BEFORE_PAUSE];
    from.read_exact(&mut got)?;
    let named = |id: &i32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.starts_with("qemu-system")
    };
    let emulators: Vec<i32> = children(child.id())?.into_iter().filter(named).collect();
    ensure!(emulators.len() == 1, "not one emulator but {emulators:?}");
    let emulator = Pid::from_raw(emulators[0]).context("no number of a process")?;
    kill_process(emulator, Signal::KILL)?;
    from.read_to_end(&mut got)?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(DIED), "{}: {said}", output.status);
    ensure!(said.contains("signal 9"), "it said {said:?}");
    drop(writer.join());
    ensure!(got.len() <= bytes.len(), "{} bytes came of {}", got.len(), bytes.len());
    same(&got, &bytes[..got.len()])
}
