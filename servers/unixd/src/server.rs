//! The loop.

pub mod boot;
mod decisions;
mod home;
mod lending;
mod perform;
pub mod relief;
mod requests;
pub mod setid;
pub mod sets;
mod shared;
mod splice;

use crate::clock::{Clock, Due, DUE_MAX};
use crate::console::Console;
use crate::counters::Counters;
use crate::descs::{Descs, Object};
use crate::effects::Effects;
use crate::futexes::Futexes;
use crate::homes::{self, Arrival};
use crate::leases::AllLeases;
use crate::load::Load;
use crate::loans;
use crate::locks::AllLocks;
use crate::messages::Messages;
use crate::mqueues::MessageQueues;
use crate::nodes::Tree;
use crate::notify::Instances;
use crate::pipes::Pipes;
use crate::pmem::Pool;
use crate::procs::{Pid, Procs};
use crate::readiness::Readiness;
use crate::resolver::Resolver;
use crate::seals::Seals;
use crate::segments::Segments;
use crate::semaphores::Semaphores;
use crate::sockets::Sockets;
use crate::stock::Stock;
use crate::system::System;
use crate::terminal::Terminal;
use crate::threads::Tid;
use crate::unclaimed::{Answer, Unclaimed};
use crate::voices::{Speaker, Voices};
use crate::wait::{Call, Outcome, Tried};
use crate::watches::Watches;
use crate::wire::Wire;
use abi::slots::SELF_EP;
use alloc::vec::Vec;
use captypes::invocations::NOTIFY_TIMER;
use inet::{Interface, Origin};
use libos::domain;
use libos::ipc::{reply_recv, Caps, Message};
use libos::{CapAddr, Place};
use memfs::{Hidden, Shown};
use sets::Sets;
use unixproto::files::O_CREAT;
use unixproto::ops::{error_words, lengths, op_number, Request};
use unixproto::{op, Any, Errno, Words};

/// Slots for capabilities that come with a request.
pub const RECEIVED: CapAddr = CapAddr(domain::ARENA_SLOT.0 + 1);
/// How many.
pub const RECEIVED_MAX: u32 = 4;
/// Three slots for capabilities that are made only to be sent.
pub const SCRATCH: CapAddr = CapAddr(RECEIVED.0 + RECEIVED_MAX);
/// The slot for memory of which a Frame is made next.
pub const RAM: CapAddr = CapAddr(SCRATCH.0 + 3);
const _: () = assert!(RAM.0 < domain::FIRST_ALLOCATED);

/// How long the end of a process may wait for another process that has just been answered.
const KILLER_NS: u64 = 100_000;

/// Notification bits of `unixd` itself.
pub mod note {
    /// COM1 has something.
    pub const COM1: u64 = 1;
    /// COM2 has something.
    pub const COM2: u64 = 2;
    /// The device with the standard streams has something.
    pub const STREAMS: u64 = 8;
    /// The device of the folder of the host has something.
    pub const SHARE: u64 = 16;
    /// The disk for pages has answered.
    pub const SWAP: u64 = 1 << 6;
    /// A stand-in may have ended, or what was sent to one has arrived.
    pub const HOMES: u64 = 4;
    /// The server of a disk has answered.
    pub const DISKS: u64 = libos::session::DISK_ANSWERS;
    /// The network server has told something, or made room.
    pub const NET: u64 = libos::session::NET_EVENTS;
    /// It is gone.
    pub const NET_GONE: u64 = libos::session::NET_GONE;
    /// One is gone.
    pub const DISKS_GONE: u64 =
        libos::session::DISK_GONE * ((1 << libos::abi::slots::MAX_DISKS) - 1);
}

/// The server: its parts, and what is being worked on.
pub struct Unixd {
    /// Processes and threads.
    procs: Procs,
    /// What threads speak with.
    voices: Voices,
    /// Open file descriptions.
    descs: Descs,
    /// Names, attributes and contents of files, and `/proc`.
    tree: Tree,
    /// Pipes and fifos.
    pipes: Pipes,
    /// Sets of `epoll` that processes share.
    sets: Sets,
    /// Local sockets.
    sockets: Sockets,
    /// The network server, if there is a network.
    wire: Option<Wire>,
    resolver: Option<Resolver>,
    /// What watches files.
    notify: Instances,
    /// System V shared memory.
    segments: Segments,
    mqueues: MessageQueues,
    seals: Seals,
    /// System V messages.
    messages: Messages,
    /// System V semaphores.
    semaphores: Semaphores,
    /// Counters that processes share.
    counters: Counters,
    /// Advisory locks.
    locks: AllLocks,
    /// Leases on files.
    leases: AllLeases,
    /// Futexes in shared memory.
    futexes: Futexes,
    /// Who watches what.
    watches: Watches,
    /// Whom signals tell of descriptions.
    readiness: Readiness,
    /// The terminal.
    terminal: Terminal,
    /// The serial ports.
    console: Console,
    /// Time, and what is due when.
    clock: Clock,
    /// Memory for files that the next boot finds.
    pool: Option<Pool>,
    /// What is known about memory.
    stock: Stock,
    /// The machine and the session.
    system: System,
    /// The load averages.
    load: Load,
    /// Threads whose next `Poll` is to end at once.
    stirred: Vec<Tid>,
    /// Some process has given something up.
    restrains: bool,
    /// The thread whose request is being worked on.
    caller: Speaker,
    /// What is still to be done because of it.
    fx: Effects,
    /// What was received last, while there was more to do, is a notification.
    was_notified: bool,
}

impl Unixd {
    /// Serves until the session is over.
    pub fn run(mut self) -> ! {
        self.console.start_input(&mut self.terminal, &mut self.fx);
        let mut answer = Ok(Outcome::Never);
        // Pages that are only brought in leave nothing else to do.
        let mut is_quiet = false;
        loop {
            if !is_quiet {
                let is_settled = self.settle_all(&answer);
                if self.system.ended().is_some() && self.voices.is_over() {
                    boot::report(self);
                }
                if !is_settled {
                    continue;
                }
            }
            let message = self.receive(&answer);
            answer = Ok(Outcome::Never);
            let Some(message) = message else {
                is_quiet = false;
                continue;
            };
            is_quiet = self.page_wanted(&message, &mut answer);
            if !is_quiet {
                self.handle(&message, &mut answer);
            }
        }
    }

    /// Does what is to be done after a request or notification. `false`: there is more.
    #[inline(always)]
    fn settle_all(&mut self, answer: &Tried) -> bool {
        self.tell_closed();
        if !self.fx.is_settled() {
            self.run_retries();
        }
        if let Some(wire) = &mut self.wire {
            wire.send(&mut self.sockets, &mut self.fx);
        }
        self.console.output(&mut self.terminal, &mut self.clock, &mut self.fx);
        self.stock.tidy_later(&mut self.clock, self.tree.files_mut());
        self.clock.arm();
        let is_answered = matches!(answer, Ok(Outcome::Never));
        if is_answered && !self.is_idle() && !self.was_notified {
            self.work_off();
        }
        self.fx.is_settled() && !self.sockets.has_closed()
    }

    /// Is there nothing to do between two messages?
    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.voices.is_idle() && self.sockets.inet.dumps.is_empty()
    }

    /// Some of what there is to do between two messages.
    #[inline(never)]
    fn work_off(&mut self) {
        self.life().work_off_endings();
        self.opening().dump_in_turn();
    }

    /// Answers whoever has made the last request, and waits for the next message.
    #[inline(always)]
    fn receive(&mut self, answer: &Tried) -> Option<Message> {
        let recv = Place::own(RECEIVED);
        let mut reply = match answer {
            Ok(Outcome::Done(words)) => Some((Place::CALLER, words, Caps::NONE)),
            Ok(Outcome::WithCaps(words, caps)) => Some((Place::CALLER, words, *caps)),
            Ok(Outcome::Block(_) | Outcome::Never) | Err(_) => None,
        };
        // Another one goes on before that, and is answered last.
        if let Some((tid, words)) = self.fx.last() {
            if let Some(last) = self.procs.dispatcher_of(*tid) {
                if let Some((to, words, caps)) = reply {
                    // An error: it has gone.
                    let _ = libos::ipc::reply(to, *words, caps);
                }
                reply = Some((Place::own(last), words, Caps::NONE));
            }
        }
        let is_idle = self.is_idle();
        let message = match reply {
            // There is more to do, once whoever has a request was served. The kernel gives notifications before
            // messages, so behind a notification comes no work: else timers could keep messages away.
            None if !is_idle => {
                let message = libos::ipc::poll(SELF_EP, recv);
                self.was_notified = message.is_ok_and(|message| message.is_notification());
                message
            }
            None => libos::ipc::recv(SELF_EP, recv),
            Some((to, words, caps)) => {
                if !is_idle {
                    // Whoever killed somebody goes on before that one's memory is free.
                    self.clock.arm_within(KILLER_NS);
                }
                reply_recv(SELF_EP, to, *words, caps, recv)
            }
        };
        self.fx.forget_last();
        // An error: nothing is there, or the caller has gone before its answer came.
        message.ok()
    }

    /// Works on a message. Its answer is put where "never" is before.
    #[inline(always)]
    fn handle(&mut self, message: &Message, answer: &mut Tried) {
        self.clock.begin_event();
        if message.is_notification() {
            return self.notified(message.words[0]);
        }
        let speaker = self.voices.who(message.badge);
        // The request may change who acts as whom.
        let sender = match message.caps() {
            0 => None,
            _ => speaker.and_then(|speaker| self.procs.acting(speaker.tid)),
        };
        match speaker {
            Some(Speaker { pid: homes::STANDIN, tid: core }) => {
                *answer = self.home_says(core, message);
            }
            Some(Speaker { pid, .. }) if message.is_fault() => self.fault(pid, message),
            Some(speaker) => self.answer_to(speaker, message, answer),
            // A thread that has ended waits to be taken apart.
            None if message.is_fault() => {}
            // Somebody has kept what belonged to a thread that is gone.
            None => *answer = Ok(Outcome::Done(error_words(Errno::ESRCH))),
        }
        if message.caps() != 0 {
            self.delete_unclaimed(message.caps(), sender, answer);
        }
    }

    /// Answers who wants a page that has left memory, if that is all there is: nothing else changes by it. `false`: it is served
    /// like any other request.
    #[inline(always)]
    fn page_wanted(&mut self, message: &Message, answer: &mut Tried) -> bool {
        op_number(&message.words) == op::Fetch::OP && self.fetch_quietly(message, answer)
    }

    #[inline(never)]
    fn fetch_quietly(&mut self, message: &Message, answer: &mut Tried) -> bool {
        let is_plain = !message.is_notification() && !message.is_fault() && message.caps() == 0;
        if !is_plain || self.restrains {
            return false;
        }
        let caller = self.voices.who(message.badge).filter(|who| who.pid != homes::STANDIN);
        let Some(caller) = caller else { return false };
        if self.procs.admit(caller.tid, caller.pid) != Some(false) {
            return false;
        }
        self.clock.begin_event();
        self.caller = caller;
        let op = op::Fetch::decode(&message.words);
        *answer = Ok(Outcome::Done(match op.and_then(|op| self.contents().fetch_page(op)) {
            Ok(()) => [0; 6],
            Err(error) => error_words(error),
        }));
        true
    }

    /// Deletes what came along and was not taken. If that takes long, the answer comes when it is done; so it may if all was
    /// taken, while the kernel deletes something else bit by bit.
    #[inline(never)]
    fn delete_unclaimed(&mut self, count: u32, sender: Option<(Tid, u64)>, answer: &mut Tried) {
        let Some(mut unclaimed) = Unclaimed::of(count) else { return };
        if let (&mut Ok(Outcome::Done(words)), Some((tid, badge))) = (&mut *answer, sender) {
            unclaimed.answer = Some(Answer { tid, badge, words });
            *answer = Ok(Outcome::Never);
        }
        self.voices.delete_later(unclaimed);
    }

    #[inline(always)]
    fn answer_to(&mut self, speaker: Speaker, message: &Message, answer: &mut Tried) {
        self.caller = speaker;
        let mut arrival = Arrival::Here(message.caps());
        *answer = self.request(speaker.pid, &message.words, &mut arrival);
        if let Err(error) = *answer {
            *answer = Ok(match self.procs.live(speaker.pid) {
                // A signal that came with the error may have ended it.
                Err(_) => Outcome::Never,
                Ok(_) => Outcome::Done(error_words(error)),
            });
        }
    }

    fn request(&mut self, pid: Pid, words: &Words, arrival: &mut Arrival) -> Tried {
        let Some(waits) = self.procs.admit(self.caller.tid, pid) else {
            // Whoever is being taken apart waits for that.
            return Ok(Outcome::Never);
        };
        let lengths = lengths(words)?;
        let mut call = Call::new(Any::decode(words)?, lengths);
        if !self.procs.is_plain() {
            call.any = self.procs.with_ids(pid, call.any);
        }
        if self.restrains && self.procs.has_forgone(pid, &call.any) {
            return Err(Errno::EPERM);
        }
        // A thread with a request that waits has no business here: it has more than one voice.
        if waits {
            let tid = self.caller.tid;
            self.life().give_up(tid);
        }
        if let Some(outcome) = self.with_caps(pid, &call, arrival) {
            self.hide_changed();
            let outcome = self.seen(pid, &call.any, outcome);
            self.perform();
            return outcome;
        }
        // Others take none; and one that waited would not wait for the end of what it sent.
        if arrival.count() > 0 {
            return Err(Errno::EINVAL);
        }
        self.tried(pid, &mut call)
    }

    /// What comes of a request that has just come.
    #[inline(always)]
    fn tried(&mut self, pid: Pid, call: &mut Call) -> Tried {
        let mut outcome = self.first_attempt(pid, call);
        if matches!(outcome, Err(Errno::EMFILE | Errno::ENFILE)) && only_opens(&call.any) {
            // What it keeps without a descriptor is not in the way of one.
            self.give_up_kept(pid);
            outcome = self.first_attempt(pid, call);
        }
        self.end_spaces();
        self.hide_changed();
        self.keep_attributes();
        if self.settle() {
            outcome = Ok(Outcome::Never);
        } else if let Ok(Outcome::Block(deadline)) = outcome {
            let tid = self.caller.tid;
            outcome = self.life().block(tid, call, deadline);
        }
        outcome
    }

    /// Who knows the size of a file that has changed is to ask again, before anybody is told of the change.
    #[inline]
    pub(crate) fn hide_changed(&mut self) {
        if self.tree.files().names().has_hidden() || self.procs.has_left.get() {
            self.hide_all_changed();
        }
    }

    #[cold]
    #[inline(never)]
    fn hide_all_changed(&mut self) {
        let Unixd { tree, procs, clock, .. } = self;
        loans::settle(tree.files_mut(), procs, clock);
        loop {
            while let Some(hidden) = self.tree.files_mut().names_mut().take_hidden() {
                match hidden {
                    Hidden::Inode(ino, shown @ (Shown::Lent(_) | Shown::LentToMany)) => {
                        let Unixd { tree, procs, clock, .. } = self;
                        loans::end_with(tree.files_mut(), procs, clock, (ino, shown));
                    }
                    hidden => self.procs.hide(hidden),
                }
            }
            // That may be the end of a file.
            let Some((pid, desc)) = self.procs.take_left() else { break };
            // What else a process has put there stays open.
            let kept = self.descs.of(pid, desc);
            if kept.is_ok_and(|desc| matches!(desc.object, Object::File(_))) {
                self.handles().close(pid, desc);
            }
        }
    }

    /// Closes what a process keeps open for itself alone: somebody is to hold all that it holds.
    pub(crate) fn give_up_kept(&mut self, pid: Pid) {
        self.procs.hide_attributes(pid);
        self.hide_changed();
    }

    /// Closes what processes keep open for themselves alone: it would be seen.
    #[inline(never)]
    pub(crate) fn close_kept(&mut self) {
        self.procs.hide_all();
        self.hide_all_changed();
    }

    /// Attributes of persistent files are to be found again before anybody is told that they have changed.
    #[inline]
    fn keep_attributes(&mut self) {
        if self.tree.files().names().is_unsettled() {
            self.tell_attributes();
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_attributes(&mut self) {
        if let Err(error) = self.tree.files_mut().names_mut().settle() {
            libos::log!("unixd: attributes in /pmem are not kept: {error:?}");
        }
    }

    fn notified(&mut self, bits: u64) {
        if bits & NOTIFY_TIMER != 0 {
            self.clock.expired();
        }
        if bits & note::SWAP != 0 {
            crate::swap::answered();
        }
        if bits & note::HOMES != 0 {
            self.homes_noted();
        }
        if bits & note::STREAMS != 0 {
            self.terminal.interrupt(&mut self.fx);
        }
        if bits & note::DISKS_GONE != 0 {
            boot::tell_gone(&self.tree, bits);
        }
        if bits & (note::SHARE | note::DISKS | note::DISKS_GONE) != 0 {
            self.shared_answers();
        }
        if bits & (note::NET | note::NET_GONE) != 0 {
            self.network(bits);
        }
        if bits & note::COM1 != 0 {
            self.console.input(&mut self.terminal, &mut self.fx);
        }
        if bits & note::COM2 != 0 {
            self.console.control_input(&mut self.terminal, &mut self.fx);
        }
        for _ in 0..DUE_MAX {
            match self.clock.take_due() {
                Some(Due::Wait(tid)) => self.wait_is_over(tid),
                Some(Due::Counter(number)) => self.counters.expired(number, &mut self.fx),
                Some(Due::Timer(pid, which)) => self.life().timer_expired(pid, which),
                Some(Due::Kill(pid)) => self.life().insist(pid),
                Some(Due::Cpu(pid)) => self.life().look_at_cpu(pid),
                Some(Due::Console) => self.console.resume(),
                Some(Due::Load) => self.load.look(&self.procs, &mut self.clock),
                Some(Due::Tidy) => self.stock.tidy(&mut self.clock, self.tree.files_mut()),
                None => break,
            }
            self.perform();
        }
    }

    /// The network server has told something, or is gone.
    fn network(&mut self, bits: u64) {
        let Some(wire) = &mut self.wire else { return };
        wire.receive(self.clock.wall(), &mut self.sockets, &mut self.fx);
        if bits & note::NET_GONE != 0 {
            wire.gone(&mut self.sockets, &mut self.fx);
        }
        self.look_at_origin();
        self.perform();
    }

    /// The network has perhaps said where the machine's address is from, and who knows names.
    fn look_at_origin(&mut self) {
        let Some(origin) = self.sockets.inet.all.take_origin() else { return };
        let Some(&Interface { address, prefix, .. }) = self.sockets.inet.all.interface() else {
            return;
        };
        let names = match origin {
            Origin::Given { by, names } => {
                libos::log!("unixd: {address}/{prefix}, given by {by}");
                names
            }
            Origin::Settled { is_over } => {
                let why = if is_over { "the given one is over" } else { "nobody gives one" };
                libos::log!("unixd: {address}/{prefix}, the address of the command line: {why}");
                return;
            }
        };
        let now = self.clock.wall();
        let Some(resolver) = &mut self.resolver else { return };
        if let Err(error) = resolver.renew(&mut self.tree, &names, now) {
            libos::log!("unixd: /etc/resolv.conf cannot be written: {error:?}");
        }
    }

    /// The kernel reports a fault that a process cannot handle itself.
    fn fault(&mut self, pid: Pid, message: &Message) {
        let [vector, error, address, rip, ..] = message.words;
        libos::log!(
            "unixd: process {pid} ends: exception {vector} error {error:#x} at {rip:#x}, address {address:#x}"
        );
        // It may have in its hands what others in its memory need.
        let pid = self.procs.host_of(pid);
        self.life().terminate(pid, unixproto::signals::killed(unixproto::signals::SIGSEGV));
    }
}

/// A request that opens a file, and makes none.
fn only_opens(any: &Any) -> bool {
    matches!(any, Any::Open(op) if op.flags & O_CREAT == 0)
}
