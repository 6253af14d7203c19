//! Asking the host without waiting for it.
//!
//! The host may take as long as it likes, and this server has everybody else to serve. So a question is sent, and the request that
//! has it ends with [`UNANSWERED`]; when the answer has come the request is tried again from its start, as all that wait are, and
//! asks the same questions again. Those that were answered are answered at once, from a log; the first one
//! that is not is sent. A request that asks otherwise than before, as something has changed here meanwhile, goes on from there.
//!
//! What must not happen twice (a file is made, removed, written) happens once, as the answer is in the log. Effects here come after the last
//! question of a request.

use super::link::{Link, MESSAGE, PLACES};
use crate::threads::Tid;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::hint::spin_loop;
use ninep::serve::WHOLE_FID;
use ninep::{Attributes, Qid, Reply, Request, Space};
use unixproto::Errno;

/// The error of a request that has asked something: it waits, and nobody is told of this.
pub const UNANSWERED: Errno = Errno(u16::MAX);

/// Questions of one request: more than the longest path that anybody needs has.
const QUESTIONS: usize = 2048;
/// Fids that there may be: of files that are open or known, and of walks.
const FIDS: u32 = 1 << 16;

/// What the host has answered.
#[derive(Clone)]
pub enum Answer {
    Done,
    File,
    Opened(Qid),
    Attributes(Attributes),
    Bytes(Rc<[u8]>),
    Count(u32),
    Space(Space),
}

/// What belongs to the log with an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owned {
    Nothing,
    /// What a walk has led to.
    Fid(u32),
    /// The same, known as a node.
    Node(u32),
}

/// A question that was answered.
struct Told {
    question: u64,
    answer: Result<Answer, Errno>,
    owned: Owned,
}

/// What a request has asked.
struct Log {
    told: Vec<Told>,
    /// How many of them were told again.
    at: usize,
    /// What was asked last, if that has no answer.
    asked: Option<u64>,
    /// Nodes of questions that were not asked again.
    lost: Vec<u32>,
    /// Of all logs.
    serial: u64,
}

/// Who gets an answer.
#[derive(Clone, Copy)]
enum For {
    Nobody,
    /// Whoever asked does not look at it.
    Nothing,
    /// A fid that is forgotten.
    Forgotten(u32),
    Thread {
        tid: Tid,
        serial: u64,
        makes: Option<u32>,
    },
}

/// Numbers for what the host is asked about.
struct Fids {
    next: u32,
    free: Vec<u32>,
}

impl Fids {
    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let fid = self.next;
            (fid < FIDS).then(|| self.next += 1).map(|()| fid)
        })
    }
}

/// See the head of this file.
pub struct Exchange {
    link: Link,
    /// Of each place: who asked, and the number of the message.
    places: [(For, u8); PLACES],
    logs: BTreeMap<Tid, Log>,
    /// Who found no place.
    waiting: VecDeque<Tid>,
    fids: Fids,
    /// To be told to the host.
    forgotten: Vec<u32>,
    serial: u64,
    /// Where a question is looked at.
    scratch: Vec<u8>,
}

impl Exchange {
    pub fn new(link: Link) -> Exchange {
        Exchange {
            link,
            places: [(For::Nobody, 0); PLACES],
            logs: BTreeMap::new(),
            waiting: VecDeque::new(),
            fids: Fids { next: WHOLE_FID + 1, free: Vec::new() },
            forgotten: Vec::new(),
            serial: 0,
            scratch: vec![0; MESSAGE],
        }
    }

    /// Nobody answers any more.
    pub fn give_up(&mut self) {
        self.link.give_up();
        self.forgotten.clear();
    }

    /// Has it asked for nothing that is not answered?
    pub fn is_idle(&self) -> bool {
        self.places.iter().all(|(who, _)| matches!(who, For::Nobody))
    }

    /// Asks for something whose answer is of no interest. `false`: there is no room.
    pub fn tell(&mut self, request: &Request) -> bool {
        let sent = self.link.send(request, 0, |place| place);
        if let Some(place) = sent {
            self.places[usize::from(place)] = (For::Nothing, request.kind());
        }
        sent.is_some()
    }

    /// Asks, and waits, at the start, when there is nobody else.
    pub fn wait<R>(
        &mut self,
        request: &Request,
        patience: u64,
        look: impl FnOnce(Reply) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let is_first = matches!(request, Request::Version { .. });
        let tag_of = |place| if is_first { ninep::NO_TAG } else { place };
        let place = self.link.send(request, 0, tag_of);
        let tag = tag_of(place.ok_or(Errno::EIO)?);
        let began = ticks();
        let mut result = Err(Errno::ETIMEDOUT);
        let mut look = Some(look);
        while ticks() - began < patience {
            let came = self.link.answer(|_, bytes| {
                let reply = Reply::decode(request.kind(), tag, bytes).map_err(|_| Errno::EIO);
                result = reply.and_then(|reply| look.take().ok_or(Errno::EIO)?(reply));
            });
            if came {
                break;
            }
            spin_loop();
        }
        result
    }

    /// The answer to the next question of a thread's request, and its number in the log. The fid that a walk makes is chosen
    /// here.
    pub fn ask(
        &mut self,
        (tid, user): (Tid, u32),
        request: &Request,
    ) -> Result<(Answer, usize), Errno> {
        let question = self.question(request)?;
        let (serial, is_new) = match self.logs.get_mut(&tid) {
            None => {
                self.serial += 1;
                (self.serial, true)
            }
            Some(log) => {
                if let Some(told) = log.told.get(log.at).filter(|told| told.question == question) {
                    let index = log.at;
                    // An error is an answer, too.
                    log.at += 1;
                    return told.answer.clone().map(|answer| (answer, index));
                }
                if log.asked == Some(question) && log.at == log.told.len() {
                    return Err(UNANSWERED);
                }
                (log.serial, false)
            }
        };
        if is_new {
            let log = Log { told: Vec::new(), at: 0, asked: None, lost: Vec::new(), serial };
            self.logs.insert(tid, log);
        }
        self.diverge(tid);
        self.send((tid, user), question, request)?;
        Err(UNANSWERED)
    }

    /// The answer to a question that is told again although it was asked before: of attributes that have just come.
    pub fn recall(&mut self, tid: Tid, request: &Request) -> Option<Answer> {
        let question = self.question(request).ok()?;
        let log = self.logs.get(&tid)?;
        let told = log.told[..log.at].iter().rev().find(|told| told.question == question)?;
        told.answer.clone().ok()
    }

    /// What tells a question from others, except for the fid that it makes and for data.
    fn question(&mut self, request: &Request) -> Result<u64, Errno> {
        let bytes = request.encode(0, &mut self.scratch).map_err(|_| Errno::ENAMETOOLONG)?;
        let bytes = match request {
            Request::Write { .. } => ninep::OVERHEAD,
            _ => bytes,
        };
        // FNV-1a: whoever finds two alike confuses a request of its own.
        let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Ok(self.scratch[..bytes].iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// What the request asks is not what it asked before: the rest of the log is of no use.
    fn diverge(&mut self, tid: Tid) {
        let Some(log) = self.logs.get_mut(&tid) else { return };
        if log.asked.take().is_some() {
            // An answer that comes finds another serial.
            self.serial += 1;
            log.serial = self.serial;
        }
        for told in log.told.drain(log.at..) {
            match told.owned {
                Owned::Nothing => {}
                Owned::Fid(fid) => self.forgotten.push(fid),
                Owned::Node(node) => log.lost.push(node),
            }
        }
    }

    fn send(
        &mut self,
        (tid, user): (Tid, u32),
        question: u64,
        request: &Request,
    ) -> Result<(), Errno> {
        let Some(log) = self.logs.get_mut(&tid) else { return Ok(()) };
        if log.told.len() >= QUESTIONS {
            return Err(Errno::ENAMETOOLONG);
        }
        if self.link.place().is_none() {
            self.waiting.push_back(tid);
            return Ok(());
        }
        let mut request = *request;
        let mut makes = None;
        if let Request::Walk { new, .. } = &mut request {
            let fid = self.fids.take().ok_or(Errno::ENFILE)?;
            *new = fid;
            makes = Some(fid);
        }
        match self.link.send(&request, user, |place| place) {
            Some(place) => {
                let who = For::Thread { tid, serial: log.serial, makes };
                self.places[usize::from(place)] = (who, request.kind());
                log.asked = Some(question);
                Ok(())
            }
            None => {
                self.fids.free.extend(makes);
                Err(Errno::EIO)
            }
        }
    }

    /// A thread's request is tried again.
    pub fn rewind(&mut self, tid: Tid) {
        if let Some(log) = self.logs.get_mut(&tid) {
            log.at = 0;
        }
    }

    /// A thread's request is over. What of its log is nodes is the caller's.
    pub fn finish(&mut self, tid: Tid) -> Vec<u32> {
        let Some(log) = self.logs.remove(&tid) else { return Vec::new() };
        let mut nodes = log.lost;
        for told in log.told {
            match told.owned {
                Owned::Nothing => {}
                Owned::Fid(fid) => self.forgotten.push(fid),
                Owned::Node(node) => nodes.push(node),
            }
        }
        nodes
    }

    /// The fid that a question has made, and the node that it is.
    pub fn made(&self, tid: Tid, index: usize) -> Result<(u32, Option<u32>), Errno> {
        let told = self.logs.get(&tid).and_then(|log| log.told.get(index));
        match told.map(|told| told.owned) {
            Some(Owned::Fid(fid)) => Ok((fid, None)),
            Some(Owned::Node(node)) => Ok((ninep::NO_FID, Some(node))),
            _ => Err(Errno::EIO),
        }
    }

    /// What a question has made is a node from now on, or somebody else's.
    pub fn becomes(&mut self, tid: Tid, index: usize, node: Option<u32>) {
        let told = self.logs.get_mut(&tid).and_then(|log| log.told.get_mut(index));
        if let Some(told) = told {
            told.owned = node.map_or(Owned::Nothing, Owned::Node);
        }
    }

    /// The host is to forget a fid.
    pub fn forget(&mut self, fid: u32) {
        self.forgotten.push(fid);
    }

    /// Tells the host what is forgotten, as far as there are places.
    pub fn send_forgotten(&mut self) {
        while let Some(&fid) = self.forgotten.last() {
            let request = Request::Clunk { fid };
            let Some(place) = self.link.send(&request, 0, |place| place) else { break };
            self.places[usize::from(place)] = (For::Forgotten(fid), request.kind());
            self.forgotten.pop();
        }
    }

    /// Notes the answers that have come. Who is to try again.
    pub fn interrupt(&mut self, woken: &mut Vec<Tid>) {
        loop {
            let Exchange { link, places, logs, fids, forgotten, .. } = self;
            let came = link.answer(|place, bytes| {
                let (who, kind) = places[usize::from(place)];
                places[usize::from(place)] = (For::Nobody, 0);
                let answer = decode(kind, place, bytes);
                match who {
                    For::Nobody | For::Nothing => {}
                    For::Forgotten(fid) => fids.free.push(fid),
                    For::Thread { tid, serial, makes } => {
                        woken.push(tid);
                        let owned = match (makes, &answer) {
                            (None, _) => Owned::Nothing,
                            (Some(fid), Ok(_)) => Owned::Fid(fid),
                            (Some(fid), Err(_)) => {
                                fids.free.push(fid);
                                Owned::Nothing
                            }
                        };
                        let log = logs.get_mut(&tid).filter(|log| log.serial == serial);
                        match (log, owned) {
                            (Some(log), _) => {
                                if let Some(question) = log.asked.take() {
                                    log.told.push(Told { question, answer, owned });
                                }
                            }
                            (None, Owned::Fid(fid)) => forgotten.push(fid),
                            (None, _) => {}
                        }
                    }
                }
            });
            if !came {
                break;
            }
        }
        woken.extend(self.waiting.drain(..));
        // Those who wait come first: what is forgotten takes what they leave.
        if woken.is_empty() {
            self.send_forgotten();
        }
    }
}

/// What an answer says.
fn decode(kind: u8, tag: u16, bytes: &[u8]) -> Result<Answer, Errno> {
    let reply = Reply::decode(kind, tag, bytes).map_err(|_| Errno::EIO)?;
    Ok(match reply {
        Reply::Refused(error) => return Err(Errno(error)),
        Reply::Version(..) => return Err(Errno::EIO),
        Reply::Done => Answer::Done,
        Reply::File(_) => Answer::File,
        Reply::Opened(qid) => Answer::Opened(qid),
        Reply::Attributes(attributes) => Answer::Attributes(attributes),
        Reply::Bytes(bytes) => Answer::Bytes(bytes.into()),
        Reply::Count(count) => Answer::Count(count),
        Reply::Space(space) => Answer::Space(space),
    })
}

fn ticks() -> u64 {
    // SAFETY: reads the time-stamp counter, which every x86-64 has.
    unsafe { core::arch::x86_64::_rdtsc() }
}
