//! The memory that the host sees too.

use core::sync::atomic::{AtomicU64, Ordering};
use lockstep::{
    Answer, Command, Facts, ANSWERED_AT, ANSWERS_AT, ANSWER_WORDS, COMMANDS_AT, COMMAND_WORDS,
    FACTS_AT, POSTED_AT, READY, READY_AT, RING,
};

/// Where it is mapped; all executors share the program's addresses.
static MAILBOX: AtomicU64 = AtomicU64::new(0);
/// Commands performed.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Announces where the mailbox is mapped, for good.
///
/// # Safety
/// [`lockstep::MAILBOX_BYTES`] must stay mapped there, writable, and be used for nothing else.
pub unsafe fn open(at: u64) {
    MAILBOX.store(at, Ordering::Relaxed);
}

fn word(offset: u64) -> &'static AtomicU64 {
    debug_assert!(offset < lockstep::MAILBOX_BYTES && offset.is_multiple_of(8));
    // SAFETY: by the promise of `open`; offsets are constants of the layout plus indices below the
    // size of a ring. Host and guest access the words atomically.
    unsafe { &*((MAILBOX.load(Ordering::Relaxed) + offset) as *const AtomicU64) }
}

/// Tells the host that somebody listens.
pub fn announce(facts: Facts) {
    for (n, value) in facts.to_words().into_iter().enumerate() {
        word(FACTS_AT + 8 * n as u64).store(value, Ordering::Relaxed);
    }
    word(READY_AT).store(READY, Ordering::Release);
}

/// The command to perform now, as soon as there is one.
pub fn current() -> Option<Command> {
    let done = DONE.load(Ordering::Relaxed);
    while word(POSTED_AT).load(Ordering::Acquire) == done {
        core::hint::spin_loop();
    }
    let at = COMMANDS_AT + (done % RING) * 8 * COMMAND_WORDS as u64;
    let words = core::array::from_fn(|n| word(at + 8 * n as u64).load(Ordering::Relaxed));
    Command::from_words(&words)
}

/// Puts down what came of it.
pub fn answer(answer: &Answer) {
    let done = DONE.load(Ordering::Relaxed);
    let at = ANSWERS_AT + (done % RING) * 8 * ANSWER_WORDS as u64;
    for (n, &value) in answer.iter().enumerate() {
        word(at + 8 * n as u64).store(value, Ordering::Relaxed);
    }
    DONE.store(done + 1, Ordering::Relaxed);
    word(ANSWERED_AT).store(done + 1, Ordering::Release);
}
