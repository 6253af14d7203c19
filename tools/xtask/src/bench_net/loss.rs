//! `net/loss`: streams over a wire that delays, loses, reorders and repeats frames ([`crate::wire`]), to and from this machine, on Tessera and on
//! Linux: the same program, the same emulated machine, the same wire. Each byte is looked at.

use crate::bench_group::Lab;
use crate::compare::harness;
use crate::compare::session::{locate, Outcome, Session};
use crate::compare::table::Table;
use crate::linux::{Linux, NEWEST};
use crate::machine::{parse_size, MachineOptions};
use crate::net::{self, Wish};
use crate::program::Invocation;
use crate::results::{grouped, Clock, Direction, Measurement, Question, System};
use anyhow::{anyhow, bail, ensure, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The wires: in words, and as `--net` has them.
const WIRES: [(&str, &str); 6] = [
    ("as it is", "user"),
    ("20 ms", "user,delay=20"),
    ("20 ms, 1 % lost", "user,delay=20,loss=10"),
    ("20 ms, 5 % lost", "user,delay=20,loss=50"),
    ("20 ms, 5 % reordered", "user,delay=20,reorder=50"),
    ("20 ms, 1 % lost, 2 % reordered, 2 % twice", "user,delay=20,loss=10,reorder=20,double=20"),
];
const SYSTEMS: [System; 2] = [System::Tessera, System::Linux];
/// From the guest, and to it.
const DIRECTIONS: [(u8, &str); 2] = [(b'u', "sent"), (b'd', "received")];
/// This machine, as the guest finds it.
const HERE: &str = "10.0.2.2";
/// Bytes of a stream on a wire that loses some, and on one that does not.
const BYTES: [u64; 2] = [1 << 19, 2 << 20];
/// Streams of each kind.
const STREAMS: usize = 3;
/// How long the guest may say nothing.
const PATIENCE: Duration = Duration::from_secs(300);

pub fn measure(lab: &Lab) -> Result<Vec<Measurement>> {
    let project = &lab.context.project;
    let machine = MachineOptions { mem: parse_size("1G")?, ..MachineOptions::default() };
    let timeout = lab.timeout.max(Duration::from_secs(1200));
    let mut session = Session::prepare(project, &machine, timeout, None)?;
    session.linux = Linux::find(project, NEWEST).map_err(|error| format!("{error:#}"));
    let program = harness(project, "stream")?.display().to_string();
    let mut all = Vec::new();
    let wires = if lab.small { &WIRES[..1] } else { &WIRES[..] };
    for (words, wish) in wires {
        session.machine.net = Wish::new(Some(net::parse(wish)?), &[])?;
        for system in SYSTEMS {
            if let (System::Linux, Err(why)) = (system, &session.linux) {
                eprintln!("x: {why}");
                continue;
            }
            let loses = wish.contains("loss");
            let bytes = if lab.small { 100_000 } else { BYTES[usize::from(!loses)] };
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port().to_string();
            let arguments = vec![program.clone(), HERE.to_owned(), port];
            let environment: Vec<String> = session.base.environment().into_iter().collect();
            let invocation = Invocation::new(arguments, &environment)?;
            let task = locate(&session, invocation, Vec::new())?;
            let orders = order(listener, bytes);
            match session.run(system, Clock::Wall, &task)? {
                Outcome::Ended(ended) if ended.status == 0 => {}
                Outcome::Ended(ended) => {
                    bail!("{words}, {}: {}", system.title(), String::from_utf8_lossy(&ended.output))
                }
                Outcome::Failed { long, .. } => {
                    return Err(anyhow!("{words}, {}: {long}", system.title()))
                }
            }
            let rates = orders.join().expect("no panic")?;
            for ((_, direction), samples) in DIRECTIONS.iter().zip(rates) {
                eprintln!("x: {words}, {}, {direction}: {samples:.0?} KiB/s", system.title());
                let question = Question {
                    benchmark: "net".into(),
                    case: format!("wire, {words}, {direction}"),
                    at: None,
                    clock: Clock::Wall,
                    unit: "KiB/s".into(),
                    better: Direction::Higher,
                };
                let provenance = session.provenance(Clock::Wall, &task);
                all.push(Measurement { question, system, samples, provenance });
            }
        }
    }
    println!("{}", render(&all));
    Ok(all)
}

/// Has the guest send and receive streams; KiB in a second of each, by direction.
fn order(listener: TcpListener, bytes: u64) -> JoinHandle<Result<[Vec<f64>; 2]>> {
    thread::spawn(move || {
        let accept = || -> Result<TcpStream> {
            let (stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let mut rates = [const { Vec::new() }; 2];
        for ((what, _), rates) in DIRECTIONS.iter().zip(&mut rates) {
            for _ in 0..STREAMS {
                let mut stream = accept()?;
                let began = Instant::now();
                stream.write_all(&order_of(*what, bytes))?;
                match what {
                    b'u' => receive(&mut stream, bytes)?,
                    _ => send(&mut stream, bytes)?,
                }
                rates.push(bytes as f64 / 1024.0 / began.elapsed().as_secs_f64());
            }
        }
        accept()?.write_all(&order_of(b'e', 0))?;
        Ok(rates)
    })
}

/// As the guest reads it.
fn order_of(what: u8, bytes: u64) -> [u8; 16] {
    let mut order = [0; 16];
    order[0] = what;
    order[8..].copy_from_slice(&bytes.to_le_bytes());
    order
}

/// The byte of a stream at a place, by which both ends know it.
fn byte_at(at: u64) -> u8 {
    ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8
}

fn receive(stream: &mut TcpStream, bytes: u64) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let count = stream.read(&mut buffer)?;
        ensure!(count > 0, "the stream ends after {at} bytes");
        for byte in &buffer[..count] {
            ensure!(*byte == byte_at(at), "another byte at {at}");
            at += 1;
        }
    }
    ensure!(at == bytes && stream.read(&mut buffer)? == 0, "more than {bytes} bytes");
    Ok(())
}

fn send(stream: &mut TcpStream, bytes: u64) -> Result<()> {
    let all: Vec<u8> = (0..bytes).map(byte_at).collect();
    stream.write_all(&all)?;
    let mut word = [0];
    stream.read_exact(&mut word)?;
    ensure!(word == *b"k", "other bytes came there");
    Ok(())
}

/// The systems beside each other.
fn render(all: &[Measurement]) -> String {
    let head = ["wire", "Tessera, KiB/s", "Linux, KiB/s", "Tessera / Linux"];
    let mut table = Table::new(head.map(String::from).to_vec());
    for one in all.iter().filter(|one| one.system == System::Tessera) {
        let linux = all.iter().find(|it| it.system == System::Linux && it.question == one.question);
        let (own, linux) = (one.median(), linux.and_then(Measurement::median));
        let number = |value: Option<f64>| value.map_or("-".to_owned(), grouped);
        let ratio = own.zip(linux).map(|(own, linux)| own / linux);
        let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        table.row(vec![one.question.case.clone(), number(own), number(linux), ratio]);
    }
    table.render()
}
