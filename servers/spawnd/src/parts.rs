//! The programs that run on this core because some program asked for it.

use crate::{file, FIRST_JOB};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use libos::abi::layout::{NATIVE_ARGUMENTS, PAGE};
use libos::abi::slots::{MEMD, MONITOR, REPORT, SELF_EP};
use libos::cores::{monitor, CRASHED, KILLED, PIECE, WORDS_BYTES};
use libos::ephemeral::Window;
use libos::runtime::Boot;
use libos::spawn::{Child, SpawnError};
use libos::vspace::{R, RW};
use libos::{domain, invoke, log, op, Cap, CapAddr, Rights, Status};

/// Badge of the parts at the memory server: not trusted with the reserve.
const CLIENT: u32 = 1;

/// All of them.
pub struct Parts<'a> {
    boot: &'a Boot,
    window: Window,
    monitor: monitor::Client,
    /// By the number of the job.
    running: BTreeMap<u32, Box<Child>>,
}

impl<'a> Parts<'a> {
    /// None yet.
    pub fn new(boot: &'a Boot, window: Window, monitor: monitor::Client) -> Self {
        Parts { boot, window, monitor, running: BTreeMap::new() }
    }

    /// This core.
    pub fn core(&self) -> u32 {
        self.boot.info.core
    }

    /// Starts what the monitor has jobs for.
    pub fn start_all(&mut self) -> Result<(), Status> {
        loop {
            let (job, bytes) = match self.monitor.next_job() {
                Ok(job) => job,
                Err(Status::Empty) => return Ok(()),
                Err(error) => return Err(error),
            };
            let words = self.words(job, bytes as usize)?;
            if let Err(error) = self.start(job, &words) {
                self.monitor.ended(job, status(error).to_word() as u32, 0)?;
            }
        }
    }

    fn words(&self, job: u32, bytes: usize) -> Result<Vec<u8>, Status> {
        let bytes = bytes.min(WORDS_BYTES);
        let mut words = Vec::with_capacity(WORDS_BYTES);
        for piece in 0..bytes.div_ceil(PIECE) as u32 {
            let (a, b, c, d) = self.monitor.job_text(job, piece)?;
            [a, b, c, d].iter().for_each(|word| words.extend_from_slice(&word.to_le_bytes()));
        }
        words.truncate(bytes);
        Ok(words)
    }

    fn start(&mut self, job: u32, words: &[u8]) -> Result<(), SpawnError> {
        let name = words.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = core::str::from_utf8(name).map_err(|_| Status::Invalid)?;
        let program = find(self.boot, name)?;
        let (root, dispatcher) = domain::with(|domain| Ok((domain.slot()?, domain.slot()?)))?;
        let made = self.make(job, words, program, root, dispatcher);
        // What was asked for and not used goes home.
        domain::with(|domain| domain.arena.release())?;
        match made {
            Ok(child) => {
                self.running.insert(job, child);
                Ok(())
            }
            Err(error) => {
                clear(root, dispatcher);
                Err(error)
            }
        }
    }

    fn make(
        &mut self,
        job: u32,
        words: &[u8],
        program: &[u8],
        root: CapAddr,
        dispatcher: CapAddr,
    ) -> Result<Box<Child>, SpawnError> {
        let core = self.core();
        let window = &mut self.window;
        let mut failed = None;
        let child = domain::with(|domain| {
            let built = Child::build(program, root, dispatcher, &mut domain.arena, window);
            let mut child = Box::new(built.map_err(|error| {
                failed = Some(error);
                Status::Invalid
            })?);
            MEMD.mint_badged(child.slot(MEMD), Rights::SEND, CLIENT)?;
            child.give(MONITOR, MONITOR)?;
            SELF_EP.mint_badged(child.slot(REPORT), Rights::SEND, FIRST_JOB + job)?;
            let page = child.frame(PAGE, &mut domain.arena)?;
            let fields = fields(words);
            window.open(page, 0, PAGE, RW)?.write(0, &fields)?;
            child.map(NATIVE_ARGUMENTS, PAGE, page, 0, R, &mut domain.arena)?;
            // It was asked for on this core.
            invoke(dispatcher, op::SetAffinity { mask: 1 << core })?;
            let args = [NATIVE_ARGUMENTS, fields.len() as u64, 0, 0, 0];
            child.start(args, child.slot(REPORT), window)?;
            Ok(child)
        });
        child.map_err(|status| failed.unwrap_or(SpawnError::Status(status)))
    }

    /// Ends what nobody waits for any more.
    pub fn kill_unwanted(&mut self) -> Result<(), Status> {
        loop {
            match self.monitor.unwanted_job() {
                Ok(job) => self.end(job, KILLED)?,
                Err(Status::Empty) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// A part has ended with this status.
    pub fn ended(&mut self, badge: u32, status: u64) -> Result<(), Status> {
        self.end(badge - FIRST_JOB, status)
    }

    fn end(&mut self, job: u32, status: u64) -> Result<(), Status> {
        let Some(child) = self.running.remove(&job) else { return Ok(()) };
        let (root, dispatcher) = (child.root, child.dispatcher);
        clear(root, dispatcher);
        self.monitor.ended(job, 0, status)
    }

    /// A part has failed.
    pub fn crashed(&mut self, badge: u32, words: [u64; 6]) -> Result<(), Status> {
        let [vector, error, address, rip, ..] = words;
        let (core, job) = (self.core(), badge - FIRST_JOB);
        log!("core {core}, job {job}: exception {vector}, error {error:#x}, address {address:#x}, at {rip:#x}");
        self.ended(badge, CRASHED)
    }
}

/// The program with this name: a path in the archive, of a command, or of a program of the system.
fn find<'a>(boot: &'a Boot, name: &str) -> Result<&'a [u8], Status> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let paths = [("", name), ("root/bin/", short), ("boot/programs/", short)];
    let mut found = paths.iter().filter_map(|(folder, name)| {
        let mut path = [0; 2 * WORDS_BYTES];
        let len = folder.len() + name.len();
        path[..folder.len()].copy_from_slice(folder.as_bytes());
        path.get_mut(folder.len()..len)?.copy_from_slice(name.as_bytes());
        file(boot, core::str::from_utf8(path.get(..len)?).ok()?).ok()
    });
    found.next().ok_or(Status::NoSlot)
}

/// Arguments as a program expects them: an `a` before each.
fn fields(words: &[u8]) -> Vec<u8> {
    let words = words.strip_suffix(b"\0").unwrap_or(words);
    let mut fields = Vec::with_capacity(2 * WORDS_BYTES);
    for word in words.split(|&byte| byte == 0) {
        fields.push(b'a');
        fields.extend_from_slice(word);
        fields.push(0);
    }
    fields
}

/// Takes a domain apart, however much of it there is.
fn clear(root: CapAddr, dispatcher: CapAddr) {
    for slot in [dispatcher, root] {
        // The child holds copies of both; they must not keep it alive.
        if slot.revoke().is_ok() {
            slot.discard();
        }
        domain::free_or_lose_slot(slot);
    }
}

/// What a program is told of an error.
pub fn status(error: SpawnError) -> Status {
    match error {
        SpawnError::Status(status) => status,
        SpawnError::Image(_) => Status::Invalid,
    }
}
