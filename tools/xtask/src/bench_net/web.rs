//! `net/web`: Debian's nginx with 1,000 connections at once and 100,000 requests, by `wrk` and `ab` inside of the machine and from this one
//! through a published port. An answer that is missing, late or another one is an error.

use super::defaults;
use crate::bench_group::Lab;
use crate::results::{line, Measurement};
use crate::testing::{this_tool, Running};
use anyhow::{ensure, Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// How much is asked for.
struct Amount {
    connections: usize,
    requests: usize,
    /// Of `wrk`, which ends by time.
    seconds: u32,
}

const USUAL: Amount = Amount { connections: 1_000, requests: 100_000, seconds: 60 };
const SMALL: Amount = Amount { connections: 20, requests: 400, seconds: 1 };

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: tessera\r\n\r\n";
/// Bytes of the page, all of them an `x`.
const PAGE: usize = 612;
/// Threads that ask; each has as many of the connections.
const ASKING: usize = 4;
/// Between two connections: the emulator's network lets few wait (`docs/network.md`).
const PAUSE: Duration = Duration::from_millis(10);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let amount = if lab.small { SMALL } else { USUAL };
    let Amount { connections, requests, seconds } = amount;
    let folder = lab.context.folder("web")?;
    let script = lab.context.project.path("guest/bench/harness/web.sh");
    // Free now; nobody else asks for it in the moment between.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let mut command = this_tool(lab.context, &folder)?;
    command.args(["run", "--mem", "1G", "--timeout=3000", "--deb"]);
    command.arg("nginx-light,wrk,apache2-utils,netcat-openbsd,dash,coreutils,grep,mawk");
    command.arg(format!("--publish={port}:80"));
    command.arg(format!("--file={}:/root/web.sh", script.display())).args(["--", "/bin/sh"]);
    command.arg("/root/web.sh").args([connections, requests].map(|it| it.to_string()));
    command.arg(seconds.to_string());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut machine = Running(child);
    let mut said = Vec::new();
    for line in machine.lines()? {
        said.push(line?);
        if said.last().is_some_and(|line| line == "ready") {
            let rate = load(port, &amount)?;
            said.push(format!("published_rate {rate}"));
            machine.0.stdin.take().context("no input")?.write_all(b"end\n")?;
        }
    }
    let (status, complaints) = machine.ended()?;
    ensure!(
        status.success() && said.last().is_some_and(|it| it == "ended"),
        "{said:?} {complaints}"
    );
    let value = |name: &str| {
        let found = said.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found
            .and_then(|text| text.parse::<f64>().ok())
            .with_context(|| format!("no {name}: {said:?}"))
    };
    let lost = said.iter().find(|line| line.contains("errors") || line.contains("ot-2xx"));
    ensure!(lost.is_none(), "wrk: {lost:?}");
    ensure!(value("ab_failed")? == 0.0 && value("ab_not_200").is_err(), "ab: {said:?}");
    ensure!(value("ab_complete")? == requests as f64, "ab: {said:?}");
    ensure!(value("wrk_requests")? >= connections as f64, "wrk: {said:?}");
    let mut text = String::new();
    for name in ["wrk", "ab", "published"] {
        let rate = value(&format!("{name}_rate"))?;
        println!(
            "nginx, {connections} connections, {requests} requests, {name}: {rate:.0} in a second"
        );
        let at = format!("at={connections}:connections unit=requests/s better=higher clock=wall");
        text += &format!("bench nginx,_{name} {rate} {at}\n");
    }
    println!("wrk had {} answers", value("wrk_requests")?);
    line::parse_output(&text, &defaults(lab))
}

/// All connections at once, and on each a request that waits, again and again. Answers in a second, of which none is missing.
fn load(port: u16, amount: &Amount) -> Result<f64> {
    let mut all = Vec::new();
    for _ in 0..amount.connections {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        all.push(BufReader::new(stream));
        thread::sleep(PAUSE);
    }
    let rounds = amount.requests / amount.connections;
    let began = Instant::now();
    thread::scope(|scope| {
        let asking = |streams: &'_ mut [BufReader<TcpStream>]| -> Result<()> {
            for round in 0..rounds {
                for stream in &mut *streams {
                    stream.get_mut().write_all(REQUEST)?;
                }
                for (number, stream) in streams.iter_mut().enumerate() {
                    answer(stream)
                        .with_context(|| format!("round {round}, connection {number}"))?;
                }
            }
            Ok(())
        };
        let threads: Vec<_> = all
            .chunks_mut(amount.connections.div_ceil(ASKING))
            .map(|streams| scope.spawn(move || asking(streams)))
            .collect();
        threads.into_iter().try_for_each(|one| one.join().expect("no panic"))
    })?;
    Ok((rounds * amount.connections) as f64 / began.elapsed().as_secs_f64())
}

/// Reads one answer, which is the page.
fn answer(stream: &mut impl BufRead) -> Result<()> {
    let (mut line, mut length) = (String::new(), None);
    stream.read_line(&mut line)?;
    ensure!(line == "HTTP/1.1 200 OK\r\n", "{line:?}");
    while line != "\r\n" {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "it ends in its head");
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = Some(value.trim().parse::<usize>()?);
        }
    }
    ensure!(length == Some(PAGE), "a page of {length:?} bytes");
    let mut page = [0; PAGE];
    stream.read_exact(&mut page)?;
    ensure!(page.iter().all(|&byte| byte == b'x'), "another page");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_looked_at() {
        let page = "x".repeat(PAGE);
        let right = format!("HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: 612\r\n\r\n{page}");
        let mut two = right.clone() + &right;
        answer(&mut two.as_bytes()).unwrap();
        two = right.replace("200 OK", "500 NO");
        assert!(answer(&mut two.as_bytes()).is_err());
        for wrong in [&right[..20], &right[..right.len() - 1], &right.replace("xx", "yx"), ""] {
            assert!(answer(&mut &wrong.as_bytes()[..]).is_err(), "{wrong}");
        }
    }
}
