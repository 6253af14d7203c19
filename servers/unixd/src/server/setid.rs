//! Programs that run as somebody else, since their files have set-id bits.
//!
//! Whoever executes one, and whoever has made that process, may have capabilities to all that it consists of: its memory, its
//! dispatchers, its CSpace, its endpoint. So nothing of it goes on. The program begins in a domain that this server has made, with
//! memory of which nobody else has ever had a capability, and speaks under a badge that is new. Of the process before, it is left
//! bytes ([`bequests`](crate::bequests)) and descriptions. Who it is changes when the old badge is nobody's any more.

use super::Unixd;
use crate::bequests::Heir;
use crate::caps::errno;
use crate::descs::Object;
use crate::domains::Domain;
use crate::fork::copy_header;
use crate::homes;
use crate::nodes::{Node, Tree};
use crate::procfs::ProcNode;
use crate::procs::{Coming, Pid, Proc, Procs, State};
use crate::voices::{Speaker, Voice};
use crate::volumes::flag;
use crate::wait::{done, Call, Outcome, Tried};
use alloc::boxed::Box;
use alloc::vec::Vec;
use captypes::invocations::options;
use core::sync::atomic::Ordering::Relaxed;
use credentials::{Capability, Credentials, SetIds};
use files::Claim;
use linuxdomain::fresh::make_fresh;
use memfs::Ino;
use unixproto::ops::{Inherited, Opened};
use unixproto::session::{Header, DATA_BYTES};
use unixproto::signals::{killed, SIGKILL};
use unixproto::{op, Errno};

/// As whom the program in a file runs. Only files of this server's own tree say so: those of the host (`/share`) do not.
/// They count where both ids mean somebody.
pub fn set_ids(tree: &Tree, ino: Ino, who: &Credentials) -> SetIds {
    let Ok(inode) = tree.files().names().get(ino) else { return SetIds::default() };
    let is_mapped = who.space.as_ref().is_none_or(|space| {
        space.inside(false, inode.uid).is_some() && space.inside(true, inode.gid).is_some()
    });
    match is_mapped {
        true => SetIds::of(inode.mode, inode.uid, inode.gid),
        false => SetIds::default(),
    }
}

impl Procs {
    /// Does somebody trace a process who may not trace everybody?
    pub fn is_watched(&self, pid: Pid) -> bool {
        let may = |tracer| self.get(tracer).is_ok_and(|proc| proc.has(Capability::SysPtrace));
        !self.tracees.is_empty()
            && self.tracees.threads_of(pid).any(|(_, tracee)| !may(tracee.tracer))
    }
}

impl Unixd {
    /// A program that runs as somebody else takes the caller's place.
    pub(super) fn succeed(&mut self, pid: Pid, call: &Call, op: op::Succeed) -> Tried {
        let (file, kept) = self.heir_of(pid, op)?;
        if self.procs.get(pid)?.killed && self.procs.get(pid)?.is_acted() {
            // What its parent did not do by itself. The parent goes on.
            self.life().terminate(pid, killed(SIGKILL));
            return done(());
        }
        let caller = self.caller;
        let program = self.births().program(caller, call)?;
        let came = self.procs.get_mut(pid)?.coming.take();
        let is_late = came.is_some();
        let (voice, domain) = match came.map(|coming| (coming.is_there, coming)) {
            None => match self.begin_successor(pid)? {
                Some(ready) => ready,
                None => return Ok(Outcome::Block(0)),
            },
            Some((Some(true), coming)) => (coming.voice, coming.domain),
            Some((Some(false), coming)) => {
                self.voices.end_former(coming.voice, Some(coming.domain));
                return Err(Errno::ENOMEM);
            }
            Some((None, coming)) => {
                self.procs.get_mut(pid)?.coming = Some(coming);
                return Ok(Outcome::Block(0));
            }
        };
        let who = &self.procs.get(pid)?.who;
        // A mount may say that it does not count there.
        let place = self.descs.of(pid, op.program)?.place.as_ref();
        let flags = place.map_or(0, |place| self.tree.flags(place.mount));
        let ids = match flags & flag::NOSUID {
            0 => set_ids(&self.tree, file, who),
            _ => SetIds::default(),
        };
        let cred = self.procs.cred(pid);
        let names = self.tree.files().names();
        let may_read = names.get(file).is_ok_and(|inode| inode.permits(&cred, memfs::READ).is_ok());
        let mut life = self.life();
        let caller = caller.tid;
        life.give_up(pid);
        life.trace_takes_over(caller, pid);
        life.procs.suspend(life.other_threads(pid));
        life.strike_guests(pid);
        if let Some(domain) = &life.procs.get(pid)?.domain {
            // It waits for the answer, unless it is a forged one that does something else.
            domain.runner().suspend();
        }
        life.take_over_apart();
        hand_on(life.procs, caller, pid, voice.session.header());
        life.procs.hand_signals_over(caller, pid);
        let scheduling = life.procs.scheduling(caller)?;
        life.remove_threads(pid);
        let cpu = life.procs.cpu(life.clock, life.procs.get(pid)?);
        let is_watched = life.procs.is_watched(pid);
        life.procs.return_loans(life.procs.get(pid)?);
        let proc = life.procs.get_mut(pid)?;
        let was_acted = proc.domain.is_none();
        let old = (proc.voice.replace(voice), proc.domain.replace(domain));
        if let (Some(voice), domain) = old {
            life.voices.end_former(voice, domain);
        }
        life.procs.tell_of_queues(pid);
        life.trace_anew(pid);
        let proc = life.procs.get_mut(pid)?;
        (proc.name, proc.program) = program;
        (proc.native, proc.cpu, proc.execed, proc.first_ended) = (false, cpu, true, false);
        proc.scheduling = scheduling;
        proc.change_run(cpu.ns);
        let parent = proc.parent;
        proc.memories += 1;
        let user = proc.who.users.real;
        let before = proc.who.clone();
        let secure = proc.who.exec_as(ids, is_watched);
        proc.dumpable = before.acts_as_itself() && !proc.who.hides_from(&before) && may_read;
        if let Some(bequest) = &mut proc.bequest {
            let (program, inode) = (op.program, file.0.into());
            bequest.heir = Some(Heir { program, inode, secure });
        }
        self.procs.recount(pid, user);
        self.procs.hide_attributes(pid);
        self.procs.publish(pid);
        self.close_all_but(pid, &kept);
        let mut life = self.life();
        life.delete_alarms(pid);
        life.end_vfork(pid);
        let started = self.procs.get(pid)?.domain.as_ref().ok_or(Errno::ESRCH);
        let started = started.inspect(|domain| scheduling.begin(domain.dispatcher()));
        match started.and_then(|domain| domain.runner().start()) {
            Ok(()) => self.procs.tell_of_signals(pid),
            Err(_) => self.life().terminate(pid, killed(SIGKILL)),
        }
        if was_acted {
            self.procs.acts_otherwise(scheduling, parent);
        }
        match was_acted {
            // The parent goes on.
            true if is_late => {
                self.procs.answer(parent, done(()));
                Ok(Outcome::Never)
            }
            true => done(()),
            false => Ok(Outcome::Never),
        }
    }

    /// What a program is to go on with; `None` if it is made on another core.
    fn begin_successor(&mut self, pid: Pid) -> Result<Option<(Voice, Domain)>, Errno> {
        let tid = self.caller.tid;
        let voice = self.births().equip(Speaker { pid, tid: pid })?;
        let home = self
            .procs
            .get(pid)?
            .next_home
            .get()
            .map(|next| next.core)
            .filter(|&core| homes::has(core));
        let domain = match home {
            None => self.fresh_domain(&voice),
            Some(core) => homes::make(core, pid, (voice.endpoint(), voice.session.frame()))
                .map(Domain::elsewhere),
        };
        let domain = match domain {
            Ok(domain) => domain,
            Err(error) => {
                self.voices.end_former(voice, None);
                return Err(error);
            }
        };
        if home.is_none() {
            return Ok(Some((voice, domain)));
        }
        let coming = Coming { tid, voice, domain, is_there: None };
        self.procs.get_mut(pid)?.coming = Some(Box::new(coming));
        Ok(None)
    }

    /// The file of a program that may take over, and what is kept open for it, in order.
    fn heir_of(&self, pid: Pid, op: op::Succeed) -> Result<(Ino, Vec<u32>), Errno> {
        let proc = self.procs.live(pid)?;
        let goes_on = proc.state == State::Live && (proc.domain.is_some() || proc.is_acted());
        if !goes_on || proc.native || self.procs.acted(pid).is_some() {
            return Err(Errno::EINVAL);
        }
        let desc = self.descs.of(pid, op.program)?;
        let (&Object::File(file), Claim::Executes) = (&desc.object, desc.claim) else {
            return Err(Errno::EINVAL);
        };
        let bequest = proc.bequest.as_ref().filter(|bequest| bequest.heir.is_none());
        let bytes = &bequest.ok_or(Errno::EINVAL)?.bytes;
        let (count, rest) = bytes.split_first_chunk().ok_or(Errno::EINVAL)?;
        let count = u32::from_le_bytes(*count) as usize;
        let listed = rest.get(..4 * count).ok_or(Errno::EINVAL)?;
        let mut kept: Vec<u32> =
            listed.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        kept.push(op.program);
        kept.sort_unstable();
        Ok((file, kept))
    }

    /// A domain that was never anybody's, ready to be started.
    fn fresh_domain(&mut self, voice: &Voice) -> Result<Domain, Errno> {
        let (endpoint, session) = (voice.endpoint(), voice.session.frame());
        let domain = Domain::room()?;
        let made = {
            let window = self.tree.files_mut().memory().window();
            let own = (domain.dispatcher(), domain.cspace());
            make_fresh(window, own, (endpoint, session), self.system.library())
        };
        match made.and_then(|()| domain.settle(endpoint, options::LINUX)) {
            Ok(()) => Ok(domain),
            Err(error) => {
                self.voices.take_back(crate::ending::Ending::of_domain(domain));
                Err(errno(error))
            }
        }
    }

    /// Closes what a process holds but for these.
    fn close_all_but(&mut self, pid: Pid, kept: &[u32]) {
        let held = self.descs.held(pid).to_vec();
        let mut handles = self.handles();
        for id in held.into_iter().filter(|id| kept.binary_search(id).is_err()) {
            handles.close(pid, id);
        }
        handles.watches.forget(pid);
    }

    /// What a description is that a process was given. A memory of which nothing is left is nobody's, also not that of the process
    /// that had it: its library must not take it for its own.
    pub(super) fn describe(&self, pid: Pid, id: u32) -> Tried {
        if let Object::Memory(Node::Proc(ProcNode::File(owner, _)), memory) =
            self.descs.of(pid, id)?.object
        {
            if self.procs.live(owner).map(Proc::memory) != Ok(memory) {
                let kind = self.descs.of(pid, id)?.object.kind() as u8;
                return done(Opened {
                    desc: id,
                    kind,
                    inode: 0,
                    is_stored: false,
                    is_large: false,
                });
            }
        }
        self.descs.describe((&self.tree, &self.seals), pid, id)
    }

    /// Part of what was left to a program.
    pub(super) fn inherit(&mut self, from: u32) -> Tried {
        let pid = self.caller.pid;
        let bequest = self.procs.get(pid)?.bequest.as_ref().ok_or(Errno::ESRCH)?;
        let Heir { program, inode, secure } = bequest.heir.ok_or(Errno::ESRCH)?;
        let rest = bequest.bytes.get(from as usize..).ok_or(Errno::EINVAL)?;
        let part = rest[..rest.len().min(DATA_BYTES)].to_vec();
        self.procs.put(self.caller, &part)?;
        if part.len() < DATA_BYTES {
            self.procs.drop_bequest(pid);
        }
        done(Inherited { pid, bytes: part.len() as u32, program, inode, secure })
    }
}

/// What a new header has of that of a process that goes on with it, and of that of the thread that goes on.
fn hand_on(procs: &Procs, tid: Pid, pid: Pid, to: &Header) {
    let Some(from) = procs.get(pid).ok().and_then(|proc| proc.session().ok()) else { return };
    let from = from.header();
    copy_header(from, to);
    to.caught.store(0, Relaxed);
    // It opens its files anew.
    to.most_fds.store(0, Relaxed);
    to.fds.iter().for_each(|fd| fd.store(0, Relaxed));
    let own = procs.session_of(tid).map_or(from, |session| session.header());
    to.blocked.store(own.blocked.load(Relaxed), Relaxed);
    from.pending.hand_on(&to.pending);
    own.own.hand_on(&to.own);
}
