//! What a native process can meet, one thing for each first argument. For `guest/tests/programs`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use tessera::env::{self, Args};
use tessera::fs::File;
use tessera::process::{exit, ExitCode};
use tessera::{cores, eprintln, io, println, thread};

type Result = core::result::Result<ExitCode, String>;

#[tessera::main]
fn main(args: Args) -> Result {
    match args.get(1).unwrap_or_default() {
        "status" => Ok(ExitCode(args.number(2).unwrap_or(0) as u8)),
        "exit" => exit(args.number(2).unwrap_or(0) as u8),
        "error" => Err(format!("as asked: {}", args.get(2).unwrap_or_default())),
        "panic" => panic!("as asked"),
        "index" => Ok(ExitCode([1u8, 2, 3][args.len() + 7])),
        "fault" => fault(),
        "recursion" => Ok(ExitCode(recursion(args.number(2).unwrap_or(u64::MAX)) as u8)),
        "environment" => environment(args.get(2).unwrap_or_default()),
        "upper" => upper(),
        "copy" => copy(args.get(2).unwrap_or_default(), args.get(3).unwrap_or_default()),
        "spin" => loop {
            core::hint::spin_loop();
        },
        "sleep" => {
            thread::sleep(Duration::from_millis(args.number(2).unwrap_or(0)));
            Ok(ExitCode::SUCCESS)
        }
        "threads" => threads(args.number(2).unwrap_or(4)),
        "heap" => heap(args.number(2).unwrap_or(1)),
        "parts" => parts(),
        "keeper" => keeper(),
        "jobs" => jobs(),
        "count" => Ok(ExitCode(cores::books().map_or(0, |books| books.jobs) as u8)),
        other => Err(format!("what is {other:?}?")),
    }
}

/// Parts on all other cores at the same time.
fn parts() -> Result {
    let started: Vec<_> = (1..cores::count())
        .map(|core| (core, cores::spawn_on(core, &["nativetest", "status", &format!("{core}")])))
        .collect();
    for (core, part) in started {
        let status = part.and_then(cores::Part::wait).map_err(|error| format!("{error:?}"))?;
        println!("core {core}: {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Has a part that does not end, and does not end either.
fn keeper() -> Result {
    let part = cores::spawn_on(1, &["nativetest", "sleep", "1000000000"]);
    println!("{:?}", part.map(|_| "started"));
    io::flush();
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}

/// How many parts core 1 runs, with the one that says so.
fn jobs() -> Result {
    let part = cores::spawn_on(1, &["nativetest", "count"]);
    println!("{:?}", part.and_then(cores::Part::wait));
    Ok(ExitCode::SUCCESS)
}

fn fault() -> Result {
    // SAFETY: none; that is what is tested.
    unsafe { (0x9000 as *mut u64).write_volatile(1) };
    Ok(ExitCode::SUCCESS)
}

#[inline(never)]
fn recursion(depth: u64) -> u64 {
    let room = core::hint::black_box([depth; 64]);
    match depth {
        0 => 0,
        _ => recursion(depth - 1) + (room[depth as usize % 64] - depth),
    }
}

fn environment(name: &str) -> Result {
    println!("{}", env::var(name).ok_or("no such variable")?);
    Ok(ExitCode::SUCCESS)
}

/// Standard input in capital letters; counts lines on standard error.
fn upper() -> Result {
    let mut lines = 0;
    for line in io::stdin().lines() {
        println!("{}", line.map_err(|error| format!("{error:?}"))?.to_uppercase());
        lines += 1;
    }
    eprintln!("{lines} lines");
    Ok(ExitCode::SUCCESS)
}

fn copy(from: &str, to: &str) -> Result {
    let open = File::open(from).map_err(|error| format!("{from}: {error:?}"))?;
    let size = open.size().map_err(|error| format!("{from}: {error:?}"))?;
    let made = File::create(to).map_err(|error| format!("{to}: {error:?}"))?;
    let (mut buffer, mut done) = (alloc::vec![0; 100_000], 0);
    loop {
        match open.read(&mut buffer).map_err(|error| format!("{from}: {error:?}"))? {
            0 => break,
            bytes => {
                made.write_all(&buffer[..bytes]).map_err(|error| format!("{to}: {error:?}"))?;
                done += bytes as u64;
            }
        }
    }
    println!("{done} of {size} bytes");
    Ok(ExitCode::SUCCESS)
}

/// Threads that print: lines stay whole.
fn threads(count: u64) -> Result {
    let one = |number| {
        thread::spawn(move || {
            for turn in 0..20 {
                println!("thread {number} turn {turn}");
                thread::yield_now();
            }
        })
    };
    let threads: core::result::Result<Vec<_>, _> = (0..count).map(one).collect();
    threads.map_err(|error| format!("{error:?}"))?.into_iter().for_each(thread::JoinHandle::join);
    Ok(ExitCode::SUCCESS)
}

/// So many MiB, all of them written to.
fn heap(mib: u64) -> Result {
    let mut all = Vec::new();
    for number in 0..mib {
        let mut block = Vec::new();
        block.try_reserve_exact(1 << 20).map_err(|_| format!("no memory after {number} MiB"))?;
        block.resize(1 << 20, number as u8);
        all.push(block);
    }
    let whole = all.iter().zip(0u64..).all(|(block, n)| block.iter().all(|&b| b == n as u8));
    println!("{mib} MiB {}", if whole { "as written" } else { "damaged" });
    Ok(ExitCode::SUCCESS)
}
