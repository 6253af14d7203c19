//! The host's end of the mailbox (`crates/model/lockstep`): a file that is the machine's memory, read and
//! written like any other.

use anyhow::{bail, ensure, Context, Result};
use lockstep::{
    Answer, Command, Facts, ANSWERED_AT, ANSWERS_AT, ANSWER_WORDS, COMMANDS_AT, COMMAND_WORDS,
    FACTS_AT, FACT_WORDS, POSTED_AT, READY, READY_AT, RING,
};
use rustix::fs::{memfd_create, MemfdFlags};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The memory of a machine.
pub struct Memory {
    file: File,
}

impl Memory {
    /// Memory of no size yet; the emulator makes it as large as the machine's.
    pub fn new() -> Result<Memory> {
        let fd = memfd_create("tessera-memory", MemfdFlags::CLOEXEC)?;
        Ok(Memory { file: fd.into() })
    }

    /// A name under which the emulator finds it as long as this process holds it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    fn read<const N: usize>(&self, at: u64) -> Result<[u64; N]> {
        let mut bytes = vec![0; 8 * N];
        self.file.read_exact_at(&mut bytes, at).context("the machine's memory is gone")?;
        let word = |n: usize| u64::from_le_bytes(bytes[8 * n..][..8].try_into().expect("8 bytes"));
        Ok(std::array::from_fn(word))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, at).context("the machine's memory is gone")
    }
}

/// The mailbox of a machine that runs.
pub struct Mailbox {
    memory: Memory,
    at: u64,
    posted: u64,
    /// Commands that were not written yet, and answers that were not given out yet.
    outbox: Vec<u8>,
    held: u64,
    answered: u64,
    taken: u64,
    ended: Arc<AtomicBool>,
    /// Falsify some answers from this one on, to see that it is noticed: not each has a word that
    /// says something.
    pub falsify: Option<u64>,
}

/// Without any answer for so long, the guest is stuck.
const PATIENCE: Duration = Duration::from_secs(15);
/// Commands that are written at a time.
const BATCH: u64 = 128;

/// How many answers in a row are falsified.
const FALSE_ANSWERS: u64 = 16;

impl Mailbox {
    /// Waits until the guest listens at physical address `at`. `ended`: the machine has gone.
    pub fn open(memory: Memory, at: u64, ended: Arc<AtomicBool>) -> Result<Mailbox> {
        let mailbox = Mailbox {
            memory,
            at,
            posted: 0,
            outbox: Vec::new(),
            held: 0,
            answered: 0,
            taken: 0,
            ended,
            falsify: None,
        };
        mailbox.until("the guest does not listen", || {
            // Before the emulator has set the size there is nothing to read.
            let word = mailbox.memory.read::<1>(at + READY_AT);
            Ok(matches!(word, Ok([READY])))
        })?;
        Ok(mailbox)
    }

    /// What the guest says about itself.
    pub fn facts(&self) -> Result<Facts> {
        Ok(Facts::from_words(&self.memory.read::<FACT_WORDS>(self.at + FACTS_AT)?))
    }

    fn until(&self, problem: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        loop {
            if done()? {
                return Ok(());
            }
            ensure!(!self.ended.load(Ordering::Relaxed), "the machine ended: {problem}");
            if start.elapsed() > PATIENCE {
                bail!("{problem} for {} s", PATIENCE.as_secs());
            }
            sleep(Duration::from_micros(50));
        }
    }

    fn look(&mut self) -> Result<()> {
        let [answered] = self.memory.read::<1>(self.at + ANSWERED_AT)?;
        ensure!(answered <= self.posted, "the guest has answered more than was asked");
        self.answered = answered;
        Ok(())
    }

    /// Writes what was held back.
    fn flush(&mut self) -> Result<()> {
        let bytes = 8 * COMMAND_WORDS;
        for (n, command) in (self.posted..).zip(self.outbox.chunks_exact(bytes)) {
            self.memory.write(self.at + COMMANDS_AT + n % RING * bytes as u64, command)?;
        }
        self.posted += self.held;
        self.held = 0;
        self.outbox.clear();
        self.memory.write(self.at + POSTED_AT, &self.posted.to_le_bytes())
    }

    fn take(&mut self) -> Result<Option<Answer>> {
        if self.taken == self.answered {
            return Ok(None);
        }
        let at = self.at + ANSWERS_AT + self.taken % RING * 8 * ANSWER_WORDS as u64;
        let mut answer: Answer = self.memory.read(at)?;
        if self.falsify.is_some_and(|first| (first..first + FALSE_ANSWERS).contains(&self.taken)) {
            answer[1] ^= 1 << 20;
        }
        self.taken += 1;
        Ok(Some(answer))
    }

    /// Ends the machine.
    pub fn stop(&mut self) -> Result<()> {
        capmodel::Link::post(self, &Command::new(lockstep::Kind::Stop, 0, &[]))?;
        self.flush()
    }
}

impl capmodel::Link for Mailbox {
    type Error = anyhow::Error;

    fn post(&mut self, command: &Command) -> Result<()> {
        self.outbox.extend(command.to_words().iter().flat_map(|word| word.to_le_bytes()));
        self.held += 1;
        if self.held == BATCH {
            self.flush()?;
            self.look()?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Answer>> {
        self.take()
    }

    fn wait(&mut self) -> Result<Answer> {
        self.flush()?;
        if self.taken == self.answered {
            let (memory, at, taken) = (&self.memory, self.at + ANSWERED_AT, self.taken);
            self.until("the guest does not answer", || Ok(memory.read::<1>(at)?[0] > taken))?;
            self.look()?;
        }
        self.take()?.context("an answer is there")
    }
}
