//! Tests of machines with many cores: booted in place of `init` on the boot core, and in place of
//! the monitor on every other (`init=… monitor=boot/programs/coretest`).
//!
//! The first domain of each core looks at what it was given and says so in its channel to core 0.
//! Core 0 compares what they say, sends something round, and writes the results to the kernel log.
//! With `shutdown=K`, all cores write lines to the log, without a pause, until core K ends the machine
//! in the middle of it.
#![no_std]
#![no_main]

mod board;
mod checks;

use board::Board;
use libos::runtime::{shutdown, stop, Boot, Start};
use libos::{cmdline, log};
use testkit::{Machine, Runner};

libos::program!(main);

fn main(_: Start) {
    // SAFETY: this is the first program of its core, and it happens once there.
    let machine = unsafe { Machine::take() }.expect("the kernel gives a first program RAM");
    let core = machine.boot.info.core;
    if let Some(last) = number(&machine.boot, "shutdown") {
        make_noise(&machine.boot, last)
    }
    if core == 0 {
        lead(&machine)
    }
    let board = Board::map(&machine.boot).expect("every first program gets the channels");
    match checks::first_domain(&machine) {
        Ok(id) => board.report(&machine, id),
        Err(failure) => {
            log!("core {core}: {failure}");
            board.report_failure();
        }
    }
    board.echo();
    stop()
}

/// Core 0: runs the tests.
fn lead(machine: &Machine) -> ! {
    let boot = &machine.boot;
    let mut runner = Runner::on(boot.cmdline());
    runner.run("nodes", || checks::nodes(boot));
    runner.run("boot-core", || checks::boot_core(machine));
    if boot.info.first_domains.count_ones() > 1 {
        match Board::map(boot) {
            Ok(board) => {
                runner.run("first-domains", || board.all_well(boot));
                runner.run("memory-apart", || board.memory_is_apart(machine));
                runner.run("own-node", || board.memory_is_near(boot));
                runner.run("ids-differ", || board.ids_differ(boot));
                runner.run("echo", || board.rounds(boot));
            }
            Err(error) => log!("@test channels FAILED {error:?}"),
        }
    }
    runner.finish()
}

/// Writes lines; core `last` ends the machine when everybody has written some.
fn make_noise(boot: &Boot, last: u64) -> ! {
    const LINES: u64 = 50;
    let core = u64::from(boot.info.core);
    let board = Board::map(boot).expect("every first program gets the channels");
    for line in 0.. {
        log!("noise of core {core:02}, line {line:08}, of which every one must arrive whole: end");
        board.count_line(line + 1);
        if core == last && line >= LINES {
            if board.all_have_written(LINES) {
                shutdown(0)
            }
            let _ = checks::sleep(checks::ms());
        }
    }
    stop()
}

/// The number in `name=N` on the command line.
fn number(boot: &Boot, name: &str) -> Option<u64> {
    cmdline::number(boot.cmdline(), name)
}
