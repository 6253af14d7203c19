//! Programs that use the network while its server fails, again and again: what each call ends with, who goes on, and who is reached again.

use super::{compile, ensure_nothing_lost, free_port, x_run, Context, PATIENCE};
use crate::testing::crash::Running;
use anyhow::{bail, ensure, Context as _, Result};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// Ports of streams in the guest, from the first one on, and one of datagrams.
const DOORS: u16 = 5;
const FIRST: u16 = 80;
const DATAGRAMS: u16 = 90;

/// What a program says of each round: 104 is `ECONNRESET`, 100 `ENETDOWN`, 32 `EPIPE`.
const ROUND: &str = "answered: 1
failed
read: -1 errno 104, then 0
read all: 3, then -1 errno 104
unread: 2018: 3, then -1 errno 104
send: errno 104, then 32
sendfile: errno 104
splice: errno 104
linger: 0
zerocopy: each once, error 104
poll: 1: 2019, error 104, then 0
select: 1: 1, -1 errno 104
epoll: all, 0 twice
connect: -1 errno 100
connect without waiting: 1c, error 100, then 0
accept: served
listener polled: 1: 1, served
listener watched: 1: 1, served
listener selected: 1, served
listener idle: served
datagrams: 5 errno 0
ping: 1, then 1
frames: 1 errno 0
inside: goes on
";

/// Accepts connections on a port of its own, says something to each, and keeps them. They have room for few bytes, so that whoever sends soon waits.
fn keep_all(first: &'static [u8]) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    set_socket_recv_buffer_size(&listener, 4096)?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || -> Result<()> {
        let mut all = Vec::new();
        loop {
            let (mut stream, _) = listener.accept()?;
            stream.write_all(first)?;
            all.push(stream);
        }
    });
    Ok(port)
}

/// Sends datagrams back.
fn send_back() -> Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    thread::spawn(move || -> Result<()> {
        let mut bytes = [0; 200];
        loop {
            let (count, from) = socket.recv_from(&mut bytes)?;
            socket.send_to(&bytes[..count], from)?;
        }
    });
    Ok(port)
}

/// What whoever listens at a port says, as soon as it says something.
fn served(port: u16) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let mut said = String::new();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // Reset, where the emulator finds nobody.
        if stream.read_to_string(&mut said).is_ok() && said == "served" {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("nobody serves at {port}")
}

fn datagram_served(port: u16) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        socket.send_to(b"hello", (Ipv4Addr::LOCALHOST, port))?;
        let mut bytes = [0; 20];
        if socket.recv(&mut bytes).is_ok_and(|count| &bytes[..count] == b"served") {
            return Ok(());
        }
    }
    bail!("nobody answers at {port}")
}

/// See the module. `options` of the machine, so many rounds, and connections that are watched by one process.
fn survive(
    context: &Context,
    folder: &Path,
    options: &[&str],
    (rounds, connections): (usize, usize),
) -> Result<()> {
    compile(&context.project.path("guest/tests/net/survives.c"), &folder.join("survives"), "gcc")?;
    let doors: Vec<u16> = (0..DOORS).map(|_| free_port()).collect::<Result<_>>()?;
    let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let mut all: Vec<String> =
        (FIRST..).zip(&doors).map(|(to, at)| format!("--publish={at}:{to}")).collect();
    all.push(format!("--publish={datagrams}:{DATAGRAMS}/udp"));
    all.push("--verbose".into());
    let all: Vec<&str> = all.iter().map(String::as_str).chain(options.iter().copied()).collect();
    let numbers = [keep_all(b"")?, keep_all(b"abc")?, send_back()?].map(|port| port.to_string());
    let [sink, greeter, echo] = &numbers;
    let (rounds_text, connections) = (rounds.to_string(), connections.to_string());
    let program = ["./survives", sink, greeter, echo, &rounds_text, &connections];
    let mut command = x_run(context, folder, &all, &program)?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(folder.join("log"))?);
    let mut machine = Running(command.spawn()?);
    let mut said = String::new();
    for line in machine.lines()? {
        let line = line?;
        said += &format!("{line}\n");
        if line == "failed" {
            doors.iter().try_for_each(|&port| served(port)).with_context(|| said.clone())?;
            datagram_served(datagrams).with_context(|| said.clone())?;
        }
    }
    let (status, _) = machine.ended()?;
    let log = fs::read_to_string(folder.join("log"))?;
    let expected: String = (1..=rounds).map(|number| format!("round {number}\n{ROUND}")).collect();
    ensure!(status.success() && said == expected, "{status}: {said}{log}");
    ensure!(log.matches("netd: exception").count() == rounds, "it fails otherwise: {log}");
    let counter = |name: &str| -> Result<u64> {
        let found = log.lines().find_map(|line| line.split_once(name));
        Ok(found.context("no counter")?.1.trim().parse()?)
    };
    ensure_nothing_lost(counter("free_before")?, counter("free_after")?)
}

/// Twice, with few connections.
pub fn twice(context: &Context, folder: &Path) -> Result<()> {
    survive(context, folder, &["--net=user,fails=140,times=2"], (2, 40))
}
