//! An executor: a dispatcher with its own CSpace and address space that performs commands.

use crate::mailbox;
use crate::touch::touch;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use libos::abi::DispatcherFrame;
use libos::captypes::Label;
use libos::{invoke, op, runtime, CapAddr, CapType, Place, Status};
use lockstep::{slot, Answer, Command, Digest, Kind, EXECUTORS, TURN};

/// Other notification bits that an executor found while it waited for its turn.
static FOUND: [AtomicU64; EXECUTORS] = [const { AtomicU64::new(0) }; EXECUTORS];

/// What an executor begins with. The first one has the turn.
pub extern "C" fn run(me: u64, frame: &DispatcherFrame) -> ! {
    let me = me as usize;
    if me != 0 {
        wait_for_turn(me);
    }
    loop {
        let Some(command) = mailbox::current() else { runtime::shutdown(1) };
        if command.executor == me {
            mailbox::answer(&perform(me, frame, &command));
        } else {
            let other = CapAddr(slot::DISPATCHERS + command.executor as u32);
            if invoke(other, op::Notify { bits: TURN }).is_err() {
                runtime::shutdown(1);
            }
            wait_for_turn(me);
        }
    }
}

fn wait_for_turn(me: usize) {
    loop {
        let bits = invoke(CapAddr(slot::DISPATCHER), op::Wait {}).map_or(TURN, |r| r.value);
        FOUND[me].fetch_or(bits & !TURN, Ordering::Relaxed);
        if bits & TURN != 0 {
            return;
        }
    }
}

fn perform(me: usize, frame: &DispatcherFrame, command: &Command) -> Answer {
    let words = &command.words;
    match command.kind {
        Kind::Invoke => invoke_until_done(words),
        Kind::Touch => {
            let touched = touch(frame, words[0], words[1], words[2]);
            if touched.faulted == 0 {
                return [0, touched.value, 0, 0, 0, 0, 0, 0];
            }
            let (vector, error) = (frame.fault_vector, frame.fault_error);
            [1, vector, error, frame.fault_address, 0, 0, 0, 0]
        }
        Kind::Sweep => sweep(Place(words[0]), words[1] as u32),
        Kind::Take => {
            let found = FOUND[me].swap(0, Ordering::Relaxed);
            [0, found | frame.notifications.swap(0, Ordering::AcqRel), 0, 0, 0, 0, 0, 0]
        }
        Kind::Stop => runtime::shutdown(0),
    }
}

/// `Again` is not the end of an operation.
fn invoke_until_done(words: &[u64]) -> Answer {
    let args = core::array::from_fn(|n| words[2 + n]);
    let mut repetitions = 0;
    loop {
        let (status, reply) = raw(words[0], words[1], &args);
        if status == Status::Again.to_word() {
            repetitions += 1;
            continue;
        }
        let [a, b, c, d, e, f] = reply;
        return [status, a, b, c, d, e, f, repetitions];
    }
}

fn sweep(first: Place, count: u32) -> Answer {
    let mut digest = Digest::new();
    for n in 0..count {
        let (status, words) = raw(Label::Identify as u64, first.plus(n).0, &[0; 9]);
        digest = digest.with_identity(status, &words, CapType::Mapping as u64);
    }
    [0, digest.0, 0, 0, 0, 0, 0, 0]
}

/// Executes `syscall` with these registers; answers the status and the result registers.
fn raw(rax: u64, rdi: u64, args: &[u64; 9]) -> (u64, [u64; 6]) {
    let status;
    let mut words = [0; 6];
    // SAFETY: the host leaves out what would take something from the program itself; the registers
    // that the kernel may change are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") rax => status,
            inlateout("rdi") rdi => _,
            inlateout("rsi") args[0] => words[0],
            inlateout("rdx") args[1] => words[1],
            inlateout("r10") args[2] => words[2],
            inlateout("r8") args[3] => words[3],
            inlateout("r9") args[4] => words[4],
            inlateout("r12") args[5] => words[5],
            inlateout("r13") args[6] => _,
            in("r14") args[7],
            in("r15") args[8],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    (status, words)
}
