//! Random things done by many threads at once, against rules that always hold.

use crate::sync::{crowd, join_all};
use crate::Test;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use libos::thread::sync::{Condvar, Mutex, Semaphore};
use libos::{cmdline, log, thread};
use testkit::{check, good, Machine, Outcome, Rng};

pub const TESTS: &[Test] = &[("random_accounts", accounts)];

const ACCOUNTS: usize = 5;
const EACH: u64 = 1000;

struct Bank {
    accounts: [Mutex<u64>; ACCOUNTS],
    /// For those who wait for an account to be filled.
    changed: [Condvar; ACCOUNTS],
    /// So many threads move money at a time.
    tellers: Semaphore,
    moves: Mutex<u64>,
}

/// Threads move money between accounts, wait for it, sleep, and are interrupted all the time: none
/// is lost, none is made, and everybody comes to the end.
fn accounts(machine: &Machine) -> Outcome {
    let seed = machine.boot.seed();
    let rounds = cmdline::number(machine.boot.cmdline(), "rounds").unwrap_or(400);
    log!("random_accounts: seed={seed} rounds={rounds}");
    thread::set_slice(1);
    let bank = Arc::new(Bank {
        accounts: [const { Mutex::new(EACH) }; ACCOUNTS],
        changed: [const { Condvar::new() }; ACCOUNTS],
        tellers: Semaphore::new(4),
        moves: Mutex::new(0),
    });
    let own = bank.clone();
    let threads = good!(crowd(7, move |number| {
        let mut random = Rng::with_seed(seed ^ (number + 1) << 32);
        (0..rounds).for_each(|_| one_step(&own, &mut random));
    }));
    join_all(threads);
    thread::set_slice(0);
    let total: u64 = bank.accounts.iter().map(|account| *account.lock()).sum();
    check!(total == ACCOUNTS as u64 * EACH);
    check!(*bank.moves.lock() == 7 * rounds);
    Ok(())
}

fn one_step(bank: &Bank, random: &mut Rng) {
    let (from, to) = (random.usize(..5), random.usize(..5));
    match random.u64(..20) {
        0 => thread::sleep(Duration::from_micros(random.u64(..300))),
        1..4 => thread::yield_now(),
        4 => {
            // The heap is shared, too.
            let numbers: Vec<u64> = (0..random.u64(..500)).collect();
            assert!(numbers.iter().enumerate().all(|(index, &number)| index as u64 == number));
        }
        5 => {
            let (account, _) = bank.changed[from]
                .wait_timeout(bank.accounts[from].lock(), Duration::from_micros(200));
            drop(account);
        }
        _ if from != to => transfer(bank, random, from, to),
        _ => {}
    }
    *bank.moves.lock() += 1;
}

fn transfer(bank: &Bank, random: &mut Rng, from: usize, to: usize) {
    bank.tellers.acquire();
    // In the order of their numbers, lest two threads wait for each other.
    let mut first = bank.accounts[from.min(to)].lock();
    let mut second = bank.accounts[from.max(to)].lock();
    let (giver, taker) = match from < to {
        true => (&mut *first, &mut *second),
        false => (&mut *second, &mut *first),
    };
    let amount = random.u64(..*giver + 1);
    let before = *taker;
    *giver -= amount;
    (0..random.u64(..40)).for_each(|_| core::hint::spin_loop());
    *taker = before + amount;
    drop((first, second));
    bank.changed[to].notify_all();
    bank.tellers.release();
}
