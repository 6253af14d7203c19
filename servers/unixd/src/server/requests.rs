//! Which function does what.

use crate::content::Contents;
use crate::counters;
use crate::descs::{seek, Handles, Object};
use crate::dirs::get_dents;
use crate::fork::Births;
use crate::homes::Arrival;
use crate::inout::InOut;
use crate::life::Life;
use crate::lines::LineId;
use crate::loans;
use crate::locks::Locked;
use crate::nodes::Node;
use crate::notify::FileEvent;
use crate::open::Opening;
use crate::pathops::PathOps;
use crate::pipes::{self, pipe_of};
use crate::poll::Polling;
use crate::procfs::ProcNode;
use crate::procs::{Pid, INIT};
use crate::readiness::{told_of, Owner};
use crate::server::Unixd;
use crate::spaces::Spaces;
use crate::terminal::TtyOps;
use crate::threads::Tid;
use crate::voices::Speaker;
use crate::wait::{count, done, Call, Outcome, Tried};
use crate::watches::{sources, Source};
use alloc::vec::Vec;
use credentials::Capability;
use notices::mask;
use unixproto::files::O_ASYNC;
use unixproto::ops::Process;
use unixproto::session::DATA_BYTES;
use unixproto::signals::{SI_TKILL, SI_USER};
use unixproto::{op, Any, Errno};

/// What opening and closing works on, of somebody who may use his other parts meanwhile.
macro_rules! handles {
    ($of:expr) => {
        Handles {
            descs: &mut $of.descs,
            pipes: &mut $of.pipes,
            counters: &mut $of.counters,
            sets: &mut $of.sets,
            sockets: &mut $of.sockets,
            notify: &mut $of.notify,
            segments: &mut $of.segments,
            seals: &mut $of.seals,
            mqueues: &mut $of.mqueues,
            terminal: &mut $of.terminal,
            clock: &mut $of.clock,
            locks: &mut $of.locks,
            leases: &mut $of.leases,
            watches: &mut $of.watches,
            readiness: &mut $of.readiness,
            tree: &mut $of.tree,
            fx: &mut $of.fx,
        }
    };
}

impl Unixd {
    /// Requests that come with capabilities: not tried twice.
    #[inline(always)]
    pub(super) fn with_caps(
        &mut self,
        pid: Pid,
        call: &Call,
        arrival: &mut Arrival,
    ) -> Option<Tried> {
        if let Err(error) = self.stock.check(&call.any, || self.procs.cred(pid).uid) {
            return Some(Err(error));
        }
        match call.any {
            Any::ForkCommit(_)
            | Any::Become(_)
            | Any::Replace(_)
            | Any::Thread(_)
            | Any::ForkBeside(_)
            | Any::GrowRoot(_) => Some(self.take_caps(pid, call, arrival)),
            _ => None,
        }
    }

    #[inline(never)]
    fn take_caps(&mut self, pid: Pid, call: &Call, arrival: &mut Arrival) -> Tried {
        self.procs.enter_apart(self.caller);
        let outcome = self.take_caps_here(pid, call, arrival);
        self.procs.leave_apart();
        outcome
    }

    #[inline(always)]
    fn take_caps_here(&mut self, pid: Pid, call: &Call, arrival: &mut Arrival) -> Tried {
        match call.any {
            Any::ForkCommit(op) => self.births().fork_commit(pid, (op.pid, op.wait), arrival),
            Any::Become(_) => self.births().become_domain(pid, arrival),
            Any::Replace(op) => self.births().replace(pid, arrival, op.linux),
            Any::Thread(op) => self.births().new_thread((pid, call), arrival, op.traced),
            Any::ForkBeside(op) => {
                self.give_up_kept(pid);
                self.births().fork_beside((pid, call), arrival, op)
            }
            Any::GrowRoot(_) => self.life().grow_root(pid, arrival),
            _ => Err(Errno::EINVAL),
        }
    }

    /// An answer as its caller sees it.
    #[inline(always)]
    pub(super) fn seen(&self, pid: Pid, any: &Any, outcome: Tried) -> Tried {
        match self.procs.is_plain() {
            true => outcome,
            false => self.procs.as_seen(pid, any, outcome),
        }
    }

    /// Tries a request.
    #[inline(always)]
    pub(super) fn attempt(&mut self, pid: Pid, call: &mut Call) -> Tried {
        if !self.procs.is_plain() {
            self.procs.enter_apart(self.caller);
        }
        let mut outcome = self.attempt_by_id(pid, call);
        // As `seen`; what goes through that is copied, which every request would pay.
        if !self.procs.is_plain() {
            self.procs.leave_apart();
            outcome = self.procs.as_seen(pid, &call.any, outcome);
        }
        outcome
    }

    /// Tries one that names processes by their inner ids.
    fn attempt_by_id(&mut self, pid: Pid, call: &mut Call) -> Tried {
        match call.any {
            Any::Attach(op) => self.births().attach(pid, op.from),
            Any::ForkCommit(_)
            | Any::Become(_)
            | Any::Replace(_)
            | Any::Thread(_)
            | Any::ForkBeside(_)
            | Any::GrowRoot(_) => Err(Errno::EINVAL),
            Any::Fork(op) => {
                self.give_up_kept(pid);
                self.births().fork(pid, call, op)
            }
            Any::ForkWait(op) => self.births().fork_wait(pid, op.pid),
            Any::ForkAbort(op) => self.births().fork_abort(pid, op.pid),
            Any::CopyHeld(_) => self.births().copy_held(pid),
            Any::Bequeath(op) => self.procs.bequeath(self.caller, call, op.from),
            Any::Succeed(op) => self.succeed(pid, call, op),
            Any::Inherit(op) => self.inherit(op.from),
            Any::Exec(_) => {
                self.seals.forget(pid);
                self.births().exec(pid, call)
            }
            Any::Exit(op) => self.life().exit(pid, op.status),
            Any::ThreadEnd(op) => self.life().thread_end(pid, op.tid),
            Any::ThreadExit(op) => self.life().thread_exit(pid, op.status),
            Any::Stir(op) => self.stir(op.tid),
            Any::FutexCount(_) => count(self.futexes.count() as usize),
            Any::FutexWait(op) => {
                let deadline = self.clock.deadline(op.ns);
                self.futexes.wait(&self.descs, self.caller, call, op, deadline)
            }
            Any::FutexWake(op) => {
                let Unixd { futexes, descs, procs, fx, .. } = self;
                futexes.wake(descs, procs, pid, op, fx)
            }
            Any::FutexFirst(op) => self.futexes.first(&self.descs, &self.procs, pid, op),
            Any::ThreadOf(op) => self.procs.thread_of(op.tid),
            Any::Wait(op) => self.procs.wait_child(pid, (op.pid, op.options), &mut self.fx),
            Any::Kill(op) => self.life().kill(pid, call, op),
            Any::KillThread(op) => self.life().kill_thread(pid, call, op),
            Any::NextSignal(op) => self.life().next_signal(pid, op),
            Any::DropSignals(op) => {
                self.procs.drop_signals(pid, op.set);
                done(())
            }
            Any::Retarget(_) => {
                self.life().retarget(pid);
                done(())
            }
            Any::Stop(op) => self.life().stop(pid, op.signal),
            Any::TraceMe(_) => self.life().trace_me(pid),
            Any::TraceAttach(op) => self.life().trace_attach(pid, op),
            Any::TraceStop(op) => self.life().trace_stop(call, op),
            Any::TraceAnswer(op) => self.life().trace_answer(call, op),
            Any::Trace(op) => self.life().trace(pid, call, op),
            Any::MemoryFile(op) => {
                let desc = self.descs.of(pid, op.desc)?;
                if op.write { desc.writable() } else { desc.readable() }?;
                let (node, memory) = match desc.object {
                    Object::Memory(node, memory) => (node, memory),
                    _ => return Err(Errno::EBADF),
                };
                self.life().memory_file(call, op, (node, memory))
            }
            Any::Relieve(op) => self.relieve(pid, call, op),
            Any::TraceMemory(op) => self.life().trace_memory(pid, call, op),
            Any::TakeFds(_) => {
                self.procs.take_fds(pid)?;
                done(())
            }
            Any::AdviseOther(op) => self.life().advise(pid, call, op),
            Any::SetPgid(op) => self.procs.set_pgid(pid, op.pid, op.pgid),
            Any::GetPgid(op) => self.procs.get_pgid(pid, op.pid),
            Any::SetSid(_) => self.procs.set_sid(pid),
            Any::GetSid(op) => self.procs.get_sid(pid, op.pid),
            Any::SetIds(op) => self.procs.set_ids(pid, op),
            Any::SetGroups(op) => self.procs.set_groups(self.caller, call, op),
            Any::GetGroups(op) => self.procs.get_groups(self.caller, op.from),
            Any::SetFileId(op) => self.procs.set_file_id(pid, op),
            Any::GetCaps(op) => self.procs.get_caps(pid, op.pid),
            Any::SetCaps(op) => self.procs.set_caps(pid, op),
            Any::Privilege(op) => self.procs.privilege(pid, op),
            Any::SetClock(op) => {
                if !self.procs.get(pid)?.has(Capability::SysTime) {
                    return Err(Errno::EPERM);
                }
                // What is lent was not changed later than now, whatever that was.
                self.close_kept();
                let by = self.clock.set_wall(op.ns).ok_or(Errno::EINVAL)?;
                self.procs.set_epoch(self.clock.boot_wall());
                self.life().move_alarms(by);
                let Unixd { counters, clock, fx, .. } = self;
                counters.clock_was_set(by, clock, fx);
                done(())
            }
            Any::Forgo(op) => {
                self.restrains = true;
                self.procs.forgo(pid, op)
            }
            Any::SetLimit(op) => self.life().set_limit(pid, op),
            Any::LimitOf(op) => self.procs.limit_of(pid, op),
            Any::HearCalls(op) => self.hear_calls(op.patient),
            Any::CallNotice(op) => self.call_notice(call, op.listener),
            Any::NoticeAddFd(op) => self.notice_add_fd(call, op),
            Any::NoticeAdded(op) => self.notice_added(op),
            Any::NoticeReceive(op) => self.notice_receive(op.desc),
            Any::NoticeAnswer(op) => self.notice_answer(op),
            Any::NoticeValid(op) => self.notice_valid(op),
            Any::SetLimitOf(op) => self.life().set_limit_of(pid, op),
            Any::ProcessorTime(op) => self.procs.processor_time(&self.clock, op.pid),
            Any::Schedule(op) => {
                let answer = self.procs.schedule(self.caller, call, op)?;
                self.life().look_at_priority(op);
                Ok(answer)
            }
            Any::TakeFd(op) => self.opening().take_fd(op),
            Any::Compare(op) => self.opening().compare(call, op),
            Any::CpuUsage(op) => self.procs.usage(&self.clock, pid, op.who),
            Any::SetName(_) => self.procs.set_name_from(self.caller, call),
            Any::GetName(_) => self.procs.get_name(self.caller),
            Any::Sleep(op) => self.life().sleep(call, op.ns),
            Any::SleepBy(op) => self.life().sleep_by(op),
            Any::Pause(_) => Ok(Outcome::Block(0)),
            Any::SigWait(op) => {
                let op = self.awaited(pid, op)?;
                call.any = Any::SigWait(op);
                self.life().sig_wait(call, op.set, op.ns)
            }
            Any::SetTimer(op) => self.life().set_timer(pid, op),
            Any::GetTimer(op) => self.life().get_timer(pid, op.which),
            _ => self.attempt_names(pid, call),
        }
    }

    #[inline(always)]
    fn attempt_names(&mut self, pid: Pid, call: &mut Call) -> Tried {
        match call.any {
            Any::Open(op) => self.opening().open(call, op),
            Any::Stat(op) => self.path_ops().stat(call, op.dir, op.flags),
            Any::Access(op) => self.path_ops().access(call, op),
            Any::Mkdir(op) => self.path_ops().mkdir(call, op.dir, op.mode),
            Any::Mknod(op) => self.path_ops().mknod(call, op),
            Any::Unlink(op) => self.path_ops().unlink(call, op.dir, op.flags),
            Any::Rename(op) => self.path_ops().rename(call, op),
            Any::Mount(op) => self.path_ops().mount(call, op),
            Any::Unmount(op) => {
                self.close_kept();
                self.path_ops().unmount(call, op)
            }
            Any::OpenFs(_) => {
                self.opening().room(1)?;
                let making = self.path_ops().open_fs(call)?;
                self.opening().open_making(making)
            }
            Any::PickFs(op) => {
                self.opening().room(1)?;
                let making = self.path_ops().pick_fs(call, op)?;
                self.opening().open_making(making)
            }
            Any::ConfigureFs(op) => self.path_ops().configure_fs(call, op),
            Any::MountFs(op) => {
                self.opening().room(1)?;
                let spot = self.path_ops().mount_fs(op)?;
                self.opening().open_place(spot, true)
            }
            Any::OpenTree(op) => {
                self.opening().room(1)?;
                let (spot, is_copy) = self.path_ops().open_tree(call, op)?;
                self.opening().open_place(spot, is_copy)
            }
            Any::MoveMount(op) => self.path_ops().move_mount_at(call, op),
            Any::SetMount(op) => self.path_ops().set_mount(call, op),
            Any::SwapOn(op) => self.path_ops().swap_on(call, op),
            Any::SwapOff(_) => self.path_ops().swap_off(call),
            Any::Chroot(_) => self.path_ops().chroot(call),
            Any::PivotRoot(_) => self.path_ops().pivot_root(call),
            Any::SyncDisks(_) => self.path_ops().sync_disks(),
            Any::Link(op) => self.path_ops().link(call, op),
            Any::Symlink(op) => self.path_ops().symlink(call, op.dir),
            Any::ReadLink(op) => self.path_ops().read_link(call, op.dir),
            Any::GetXattr(op) => self.path_ops().get_xattr(call, op),
            Any::ListXattrs(op) => self.path_ops().list_xattrs(call, op),
            Any::SetXattr(op) => self.path_ops().set_xattr(call, op),
            Any::RemoveXattr(op) => self.path_ops().remove_xattr(call, op),
            Any::PathOf(op) => self.path_ops().path_of(op.desc),
            Any::Rest(op) => self.path_ops().rest(op),
            Any::Give(op) => self.path_ops().give(call, op),
            Any::Chmod(op) => self.path_ops().chmod(call, op),
            Any::Chown(op) => self.path_ops().chown(call, op),
            Any::SetTimes(op) => self.path_ops().set_times(call, op),
            Any::Truncate(op) => self.path_ops().truncate(call, op),
            Any::Chdir(op) => self.path_ops().chdir(call, op.dir, op.flags),
            Any::GetCwd(_) => self.path_ops().get_cwd(),
            Any::StatDevice(op) => self.path_ops().stat_device(op.device),
            Any::StatFs(op) => self.path_ops().stat_fs(call, op.dir, op.flags),
            Any::MemFile(op) => self.opening().mem_file(op),
            Any::OpenMessages(op) => self.opening().open_mqueue(call, op),
            Any::UnlinkMessages(_) => self.opening().unlink_mqueue(call),
            Any::QueueSend(op) => self.opening().send_mqueue(call, op),
            Any::QueueReceive(op) => self.opening().receive_mqueue(call, op),
            Any::QueueNotify(op) => self.opening().notify_mqueue(call, op),
            Any::QueueAttributes(op) => self.opening().state_of_mqueue(op),
            Any::MemFd(op) => self.opening().mem_fd(call, op),
            Any::Seal(op) => self.opening().seal(op),
            Any::MapSealable(op) => self.opening().map_sealable(op.desc),
            Any::UnmapSealable(op) => self.opening().unmap_sealable(op.desc),
            Any::OwnMemory(op) => self.opening().own_memory(op),
            Any::Heir(op) => self.opening().heir(op.desc),
            Any::OwnMore(op) => self.opening().own_more(op),
            Any::PassMemory(op) => self.opening().pass_memory(op),
            _ => self.attempt_descs(pid, call),
        }
    }

    #[inline(always)]
    fn attempt_descs(&mut self, pid: Pid, call: &mut Call) -> Tried {
        if !self.tree.is_alone() {
            if let Some(outcome) = self.attempt_shared(call) {
                return outcome;
            }
        }
        match call.any {
            Any::Close(_) => self.close(call),
            Any::Read(op) => self.read(call, op.desc, op.bytes as usize),
            Any::Write(op) => self.write(call, op.desc),
            Any::ReadAt(op) => self.contents().read_at(op),
            Any::ReadBegin(op) => self.contents().read_begin(op),
            Any::WriteBegin(op) => self.contents().write_begin(op),
            Any::FileExtent(op) => self.contents().file_extent(op),
            Any::WriteAt(op) => self.contents().write_at(call, op),
            Any::Allocate(op) => self.contents().allocate(op),
            Any::Sync(op) => self.contents().sync(op),
            Any::Clone(op) => self.contents().clone_file(op),
            Any::MakeRoom(op) => self.contents().make_room(op),
            Any::BringIn(op) => self.contents().bring_in(op),
            Any::Fetch(op) => {
                self.contents().fetch_page(op)?;
                done(())
            }
            Any::PageOut(op) => self.contents().page_out(op),
            Any::Wire(op) => self.contents().wire(op),
            Any::MakeMemory(op) => self.contents().make_memory(op),
            Any::MakeAtomic(op) => self.contents().make_atomic(op),
            Any::Advise(op) => self.contents().advise(op),
            Any::Splice(op) => self.splice(call, op),
            Any::DiskSize(op) => self.contents().disk_size(op),
            Any::Seek(op) => seek(&mut self.descs, &mut self.tree, self.caller, op),
            Any::GetDents(op) => {
                let Unixd { descs, tree, procs, caller, .. } = self;
                let listed = get_dents(descs, tree, procs, *caller, (op.desc, op.bytes as usize))?;
                let desc = self.descs.of(pid, op.desc)?;
                self.fx.observe(|| FileEvent::of_desc(mask::ACCESS, desc));
                Ok(listed)
            }
            Any::GetFlags(op) => self.descs.get_flags(pid, op.desc),
            Any::SetFlags(op) => self.set_flags(pid, op),
            Any::SetOwner(op) => self.set_owner(pid, op),
            Any::GetOwner(op) => {
                self.descs.of(pid, op.desc)?;
                done(self.readiness.of(&self.procs, op.desc))
            }
            Any::SetOwnerSignal(op) => {
                let source = told_of(&self.descs.of(pid, op.desc)?.object);
                if op.signal > 64 {
                    return Err(Errno::EINVAL);
                }
                self.readiness.set_signal((op.desc, source), op.signal);
                done(())
            }
            Any::Ioctl(op) => self.tty_ops().ioctl(pid, call, op),
            Any::Poll(op) => self.polling().poll(call, op),
            Any::Watch(_) => {
                self.fx.set_watched(true);
                self.watches.watch(sources!(self, None), &self.procs, self.caller, call)
            }
            Any::SleepHere(_) => self.watches.sleep_here(self.caller, &self.procs),
            Any::Changes(_) => self.watches.changes(sources!(self, None), &self.procs, self.caller),
            Any::Pipe(op) => self.opening().pipe(op.flags),
            Any::Set(_) => self.opening().set(),
            Any::SetControl(op) => self.set_control(call, op),
            Any::SetWait(op) => self.set_wait(call, op),
            Any::Signals(op) => self.opening().signals(op),
            Any::SetSignals(op) => {
                self.descs.set_signals(pid, op.desc, op.set)?;
                // They may be here already, for those who look and for those who read.
                self.fx.changed(Source::Signals(pid), true);
                self.life().wake_process(pid);
                done(())
            }
            Any::OpenProcess(op) => self.opening().process(op),
            Any::ProcessOf(op) => done(Process { pid: self.visible_process(pid, op.desc)? }),
            Any::KillOpened(op::KillOpened { desc, signal, code, value, to }) => {
                let target = self.named_process(pid, desc)?;
                // As on Linux, signals are not sent out of a name space.
                if self.procs.number_for(pid, target) == 0 {
                    return Err(Errno::EINVAL);
                }
                match to {
                    0 | 2 => {
                        let kill = op::Kill { pid: target as i32, signal, code, value };
                        self.life().kill(pid, call, kill)
                    }
                    1 => {
                        let code = if code == SI_USER { SI_TKILL } else { code };
                        let kill = op::KillThread { pid: target, tid: target, signal, code, value };
                        self.life().kill_thread(pid, call, kill)
                    }
                    // With a value, signals are for one process.
                    4 => {
                        let kill =
                            op::Kill { pid: -(target as i32), signal, code: SI_USER, value: 0 };
                        self.life().kill(pid, call, kill)
                    }
                    _ => Err(Errno::EINVAL),
                }
            }
            Any::Event(op) => self.opening().event(op),
            Any::Alarm(op) => self.opening().alarm(op),
            Any::SetAlarm(op) => {
                let desc = self.descs.of(pid, op.desc)?;
                let number = counters::number(desc)?;
                let times = &self.procs.get(self.caller.pid)?.times;
                let on = (&mut self.clock, times);
                let before = self.counters.set_on_clock(number, op, on);
                self.counters.changed(number, false, &mut self.fx);
                done(before?)
            }
            Any::GetAlarm(op) => {
                let number = counters::number(self.descs.of(pid, op.desc)?)?;
                done(self.counters.setting(number, &self.clock)?)
            }
            Any::PipeRead(_) | Any::PipeWrite(_) => self.pipe_lent(call),
            Any::SetLock(op) => {
                let Unixd { descs, tree, procs, locks, fx, caller, .. } = self;
                locks.set(Locked { procs, descs, files: tree.files() }, *caller, op, fx)
            }
            Any::GetLock(op) => {
                let Unixd { descs, tree, procs, locks, .. } = self;
                locks.get(Locked { procs, descs, files: tree.files() }, pid, op)
            }
            Any::SetLease(op) => {
                self.close_kept();
                self.opening().set_lease(op)
            }
            Any::GetLease(op) => self.opening().get_lease(op.desc),
            Any::NotifyDir(op) => {
                self.close_kept();
                self.opening().notify_dir(op)
            }
            Any::Describe(op) => self.describe(pid, op.desc),
            Any::SystemInfo(_) => self.system_info(),
            Any::RefusedCall(op) => self.system.count_refused(op.number, op.error),
            Any::Log(_) => self.log_text(call),
            _ => self.attempt_objects(pid, call),
        }
    }

    /// What is about sockets, System V objects, and timers.
    #[inline(never)]
    fn attempt_objects(&mut self, pid: Pid, call: &mut Call) -> Tried {
        match self.attempt_object(pid, call) {
            Err(Errno::ENOTSOCK) => self.attempt_inet(call),
            outcome => outcome,
        }
    }

    /// What is about sockets of the internet.
    #[inline(never)]
    fn attempt_inet(&mut self, call: &mut Call) -> Tried {
        let mut opening = self.opening();
        match call.any {
            Any::Bind(op) => opening.bind_inet(call, op),
            Any::Connect(op) => opening.connect_inet(call, op),
            Any::Listen(op) => opening.listen_inet(op),
            Any::Accept(op) => opening.accept_inet(call, op),
            Any::Send(op) => opening.send_inet(call, op),
            Any::Receive(op) => opening.receive_inet(call, op),
            Any::SocketName(op) => opening.inet_name(op),
            Any::ShutDown(op) => opening.shut_down_inet(op),
            Any::GetSocketOption(op) => opening.inet_option(op),
            Any::SetSocketOption(op) => opening.set_inet_option(op),
            Any::SetSocketBytes(op) => opening.set_inet_bytes(call, op),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    #[inline(always)]
    fn attempt_object(&mut self, pid: Pid, call: &mut Call) -> Tried {
        match call.any {
            Any::PipeSize(op) => {
                let pipe = pipe_of(self.descs.of(pid, op.desc)?).map_err(|_| Errno::EBADF)?;
                let proc = self.procs.get(pid)?;
                let may_exceed = proc.has(Capability::SysResource);
                let limits = (may_exceed, pipes::is_exempt(proc));
                self.pipes.size(pipe, op.bytes, limits)
            }
            Any::LendEnd(op) => self.lend_end(op),
            Any::PeerBell(op) => self.peer_bell(op),
            Any::WakePeer(op) => self.wake_peer(op),
            Any::ReturnEnd(op) => self.return_end(op),
            Any::Notify(op) => self.opening().notify(op),
            Any::Fanotify(op) => self.opening().fanotify(op),
            Any::MarkFile(op) => {
                self.close_kept();
                self.opening().mark_file(call, op)
            }
            Any::HandleOf(op) => self.path_ops().file_handle(call, op),
            Any::OpenHandle(op) => self.opening().open_handle(call, op),
            Any::AddWatch(op) => {
                self.close_kept();
                self.opening().add_watch(call, op)
            }
            Any::RemoveWatch(op) => self.opening().remove_watch(op),
            Any::Wrote(op) => self.contents().wrote(op.desc),
            Any::GetQueue(op) => self.opening().get_queue(op),
            Any::SendMessage(op) => self.opening().send_message(call, op),
            Any::ReceiveMessage(op) => self.opening().receive_message(call, op),
            Any::ControlQueue(op) => self.opening().control_queue(call, op),
            Any::GetSemaphores(op) => self.opening().get_semaphores(op),
            Any::SemaphoreOps(op) => self.opening().operate(call, op),
            Any::ControlSemaphores(op) => self.opening().control_semaphores(call, op),
            Any::GetSegment(op) => self.opening().get_segment(op),
            Any::AttachSegment(op) => self.opening().attach_segment(op),
            Any::DetachSegment(op) => self.opening().detach_segment(op),
            Any::ControlSegment(op) => self.opening().control_segment(call, op),
            Any::Socket(op) => self.opening().make_socket(op),
            Any::SocketPair(op) => self.opening().make_pair(op),
            Any::Bind(op) => self.opening().bind(call, op),
            Any::Connect(op) => self.opening().connect(call, op),
            Any::Listen(op) => self.opening().listen(op),
            Any::Accept(op) => self.opening().accept(call, op),
            Any::Send(op) => {
                let sent = self.opening().send(call, op);
                self.let_stream_rest(op.desc);
                sent
            }
            Any::Receive(op) => {
                let received = self.opening().receive(call, op);
                self.let_stream_rest(op.desc);
                received
            }
            Any::SocketName(op) => self.opening().socket_name(op),
            Any::ShutDown(op) => self.opening().shut_down(op),
            Any::GetSocketOption(op) => self.opening().socket_option(op),
            Any::SetSocketOption(op) => self.opening().set_socket_option(op),
            Any::SetSocketBytes(op) => self.opening().set_socket_bytes(op),
            Any::Unshare(op) => self.change_spaces(|spaces| spaces.unshare(op.flags)),
            Any::EnterSpace(op) => self.change_spaces(|spaces| spaces.enter(op)),
            Any::OpenSpaceAround(op) => self.spaces().open_around(op),
            Any::SpaceFact(op) => self.spaces().fact(op),
            Any::SetHostName(op) => self.spaces().set_host_name(call, op),
            Any::HostNames(_) => self.spaces().host_names(),
            Any::MakeTimer(op) => self.life().make_alarm(pid, op),
            Any::SetPosixTimer(op) => self.life().set_alarm(pid, op),
            Any::GetPosixTimer(op) => self.life().get_alarm(pid, op.id),
            Any::TimerOverrun(op) => self.life().alarm_overrun(pid, op.id),
            Any::DeleteTimer(op) => self.life().delete_alarm(pid, op.id),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Reads from a socket.
    #[inline(never)]
    fn read_socket(&mut self, call: &mut Call, id: u32, bytes: usize) -> Tried {
        let read = self.opening().read_socket(call, id, bytes);
        self.let_stream_rest(id);
        read
    }

    /// Writes byte string `a` to a socket.
    #[inline(never)]
    fn write_socket(&mut self, call: &mut Call, id: u32) -> Tried {
        let op = op::Send { desc: id, flags: 0, rights: 0, tells: false, control: 0 };
        let sent = self.opening().send(call, op);
        self.let_stream_rest(id);
        sent
    }

    /// What a thread waits for that waits for the signals of a description, as it is now.
    fn awaited(&self, pid: Pid, op: op::SigWait) -> Result<op::SigWait, Errno> {
        if op.desc == 0 {
            return Ok(op);
        }
        let ns = if self.descs.of(pid, op.desc)?.nonblocking() { 0 } else { op.ns };
        Ok(op::SigWait { set: self.descs.signals(pid, op.desc)?, ns, ..op })
    }

    fn log_text(&mut self, call: &Call) -> Tried {
        let pid = self.caller.pid;
        let text = self.procs.a(self.caller, call)?;
        let proc = self.procs.get(pid)?;
        let name = alloc::string::String::from_utf8_lossy(&proc.name);
        // One line of printable text: records for the host start lines of their own.
        let text = alloc::string::String::from_utf8_lossy(&text);
        let text = text.replace(|letter: char| letter.is_control(), "?");
        if proc.execed || pid != crate::procs::FIRST {
            libos::log!("{name}[{pid}]: {text}");
        } else {
            libos::log!("@error {text}");
        }
        done(())
    }

    fn system_info(&mut self) -> Tried {
        let (free, _) = crate::caps::memory();
        let [load1, load5, load15] = self.load.fixed_point();
        let (shared, swap) = (self.tree.in_pool(), crate::swap::facts());
        let up = self.procs.get(self.caller.pid)?.since_boot(self.clock.now());
        let up = up / crate::clock::SECOND;
        let ram = self.system.ram();
        let processes = self.procs.len() as u64;
        let words =
            [up, load1, load5, load15, ram, free, shared, 0, swap.total, swap.free, processes];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.procs.put(self.caller, &bytes)?;
        count(bytes.len())
    }

    /// A process closes descriptions.
    fn close(&mut self, call: &Call) -> Tried {
        let (Speaker { pid, tid }, ids) = (self.caller, call.lengths.0 / 4);
        for n in 0..ids {
            let mut id = [0; 4];
            self.procs.session_of(tid)?.read(4 * n, &mut id);
            self.handles().close(pid, u32::from_le_bytes(id));
        }
        done(())
    }

    /// Reads from a pipe, or writes to it, with a buffer that the caller has lent.
    fn pipe_lent(&mut self, call: &mut Call) -> Tried {
        let result = self.try_lent(call);
        if call.kept != 0 && !matches!(result, Ok(Outcome::Block(_))) {
            self.pipes.give_up(call.kept - 1, self.caller.tid, &mut self.fx);
        }
        if let Any::PipeRead(op::PipeRead { desc, .. }) = call.any {
            if let Ok(pipe) = self.descs.of(self.caller.pid, desc).and_then(pipe_of) {
                self.let_rest(pipe);
            }
        }
        result
    }

    #[inline(always)]
    fn try_lent(&mut self, call: &mut Call) -> Tried {
        let Unixd { pipes, procs, descs, fx, .. } = self;
        let caller = self.caller;
        match call.any {
            Any::PipeRead(op) => {
                let desc = descs.of(caller.pid, op.desc)?;
                desc.readable()?;
                let (pipe, now) = (pipe_of(desc)?, op.had > 0 || desc.nonblocking());
                pipes.read_lent(pipe, (op.had, now), (caller, call), op.bytes, procs, fx)
            }
            Any::PipeWrite(op) => {
                let desc = descs.of(caller.pid, op.desc)?;
                desc.writable()?;
                let (pipe, nonblocking) = (pipe_of(desc)?, desc.nonblocking());
                pipes.write_lent(pipe, (nonblocking, op.flags), (caller, call), op.bytes, procs, fx)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Reads up to `bytes`.
    fn read(&mut self, call: &mut Call, id: u32, bytes: usize) -> Tried {
        let caller = self.caller;
        let bytes = bytes.min(DATA_BYTES);
        let desc = self.descs.of(caller.pid, id)?;
        desc.readable()?;
        let nonblocking = desc.nonblocking();
        match desc.object {
            Object::Pipe(pipe, _) => {
                self.pipes.pull_waiting(pipe, &mut self.procs, &mut self.fx);
                let session = self.procs.session_of(caller.tid)?;
                let done =
                    self.pipes.read(pipe, nonblocking, (caller, session), bytes, &mut self.fx);
                self.let_rest(pipe);
                done
            }
            Object::Tty(line, _) => self.tty_ops().tty_read(line, call, bytes, nonblocking),
            Object::Master(number, _) => self.tty_ops().master_read(number, bytes, nonblocking),
            Object::Stream(channel) => self.tty_ops().stream_read(channel, bytes, nonblocking),
            Object::Counter(_, number) => {
                let Unixd { counters, clock, fx, procs, .. } = self;
                counters.read(number, nonblocking, (caller, procs, bytes), clock, fx)
            }
            Object::Socket(_) => self.read_socket(call, id, bytes),
            Object::Notices(number) => {
                let Unixd { notify, procs, fx, .. } = self;
                notify.read(number, nonblocking, (caller, procs), bytes, fx)
            }
            Object::Fanotify(number) => {
                let Unixd { notify, procs, fx, .. } = self;
                notify.fans.read(number, nonblocking, (caller, procs), bytes, fx)
            }
            Object::Inet(_) => self.opening().read_inet(call, id, bytes),
            Object::Messages(_) => self.opening().read_mqueue(id, bytes),
            _ => self.in_out().read(id, bytes),
        }
    }

    /// Writes byte string `a`.
    fn write(&mut self, call: &mut Call, id: u32) -> Tried {
        let caller = self.caller;
        let desc = self.descs.of(caller.pid, id)?;
        desc.writable()?;
        let nonblocking = desc.nonblocking();
        match desc.object {
            Object::Pipe(pipe, _) => {
                self.pipes.pull_waiting(pipe, &mut self.procs, &mut self.fx);
                let session = self.procs.session_of(caller.tid)?;
                let done =
                    self.pipes.write(pipe, nonblocking, (caller, session), call, &mut self.fx);
                self.let_rest(pipe);
                done
            }
            Object::Tty(line, _) => self.tty_ops().tty_write(line, call, nonblocking),
            Object::Master(number, _) => self.tty_ops().master_write(number, call, nonblocking),
            Object::Stream(channel) => self.tty_ops().stream_write(channel, call, nonblocking),
            Object::Counter(_, number) => {
                let bytes = self.procs.a(caller, call)?;
                self.counters.write(number, nonblocking, (caller, &bytes), &mut self.fx)
            }
            Object::Socket(_) => self.write_socket(call, id),
            Object::Inet(_) => self.opening().write_inet(call, id),
            _ => self.in_out().write(call, id),
        }
    }

    /// Ends a `Poll` of a thread.
    fn stir(&mut self, tid: Tid) -> Tried {
        let Unixd { procs, clock, voices, fx, caller, stirred, .. } = self;
        Life { procs, clock, voices, fx, caller: *caller }.stir(stirred, tid)
    }

    /// What the life of processes works on.
    #[inline]
    pub(super) fn life(&mut self) -> Life<'_> {
        let Unixd { procs, clock, voices, fx, caller, .. } = self;
        Life { procs, clock, voices, fx, caller: *caller }
    }

    pub(super) fn births(&mut self) -> Births<'_> {
        let Unixd { procs, clock, voices, fx, caller, .. } = self;
        let life = Life { procs, clock, voices, fx, caller: *caller };
        let Unixd { descs, tree, seals, stock, system, terminal, sockets, .. } = self;
        let nets = &mut sockets.inet;
        Births { life, descs, tree, seals, stock, system, nets, controls: &terminal.controls }
    }

    fn tty_ops(&mut self) -> TtyOps<'_> {
        let Unixd { terminal, console, procs, descs, pipes, sockets, .. } = self;
        let Unixd { notify, clock, fx, caller, .. } = self;
        let caller = *caller;
        TtyOps { terminal, console, procs, descs, pipes, sockets, notify, clock, fx, caller }
    }

    /// What opening and closing works on.
    /// `F_SETFL`.
    fn set_flags(&mut self, pid: Pid, op: op::SetFlags) -> Tried {
        let desc = self.descs.of(pid, op.desc)?;
        let (was_on, is_on) = (desc.flags & O_ASYNC != 0, op.flags & O_ASYNC != 0);
        let source = told_of(&desc.object);
        if let Some(source) = source.filter(|_| was_on != is_on) {
            let is_terminal = matches!(desc.object, Object::Tty(..) | Object::Master(..));
            let of = (op.desc, Some(source));
            let state = sources!(self, None).state(op.desc, 0);
            self.readiness.set_on(of, is_on.then_some(op.fd), state);
            if is_on && is_terminal {
                let group = self.foreground(pid, op.desc);
                let owner = group.map_or(Owner::Process(pid), Owner::Group);
                let users = self.users_of(pid)?;
                self.readiness.offer_owner(of, owner, users);
            }
            self.fx.set_watched(true);
        }
        // What nothing happens to has no such flag.
        let flags = if source.is_some() { op.flags } else { op.flags & !O_ASYNC };
        if let Object::File(ino) = desc.object {
            let Unixd { tree, procs, clock, .. } = self;
            loans::end(tree.files_mut(), procs, clock, ino);
        }
        // Its ends have been told whether they wait.
        match desc.object {
            Object::Pipe(pipe, _) => self.pipes.end_loan(pipe),
            Object::Socket(number) => self.sockets.all.end_loan(number),
            _ => {}
        }
        self.descs.set_flags(pid, op.desc, flags)
    }

    /// The foreground group of a terminal, if it has one.
    fn foreground(&self, pid: Pid, id: u32) -> Option<Pid> {
        match self.descs.of(pid, id).ok()?.object {
            Object::Tty(line, _) => self.terminal.foreground(line),
            Object::Master(number, _) => self.terminal.foreground(LineId::Pty(number)),
            _ => None,
        }
    }

    /// Real and effective user of a process.
    pub(super) fn users_of(&self, pid: Pid) -> Result<[u32; 2], Errno> {
        let users = &self.procs.get(pid)?.who.users;
        Ok([users.real, users.effective])
    }

    /// `F_SETOWN`, `F_SETOWN_EX`.
    fn set_owner(&mut self, pid: Pid, op: op::SetOwner) -> Tried {
        let source = told_of(&self.descs.of(pid, op.desc)?.object);
        let owner = Owner::parse(&self.procs, op.kind, op.id)?;
        let users = self.users_of(pid)?;
        self.readiness.set_owner((op.desc, source), owner, users);
        self.fx.set_watched(true);
        done(())
    }

    pub(super) fn handles(&mut self) -> Handles<'_> {
        handles!(self)
    }

    pub(super) fn opening(&mut self) -> Opening<'_> {
        let caller = self.caller;
        let handles = handles!(self);
        let Unixd { procs, stock, system, load, messages, semaphores, .. } = self;
        Opening { handles, procs, stock, system, load, messages, semaphores, caller }
    }

    fn spaces(&mut self) -> Spaces<'_> {
        let caller = self.caller;
        let handles = handles!(self);
        let Unixd { procs, system, .. } = self;
        Spaces { handles, procs, system, caller, leaves: false }
    }

    /// The caller goes to other name spaces.
    fn change_spaces(&mut self, change: impl FnOnce(&mut Spaces<'_>) -> Tried) -> Tried {
        let mut spaces = self.spaces();
        let changed = change(&mut spaces);
        if spaces.leaves {
            let pid = self.caller.pid;
            self.semaphores.ended(pid, &mut self.fx);
        }
        changed
    }

    /// What is in name spaces that have ended goes.
    #[inline]
    pub(super) fn end_spaces(&mut self) {
        if self.system.numbers().has_ended() {
            self.sweep_spaces();
        }
    }

    #[cold]
    #[inline(never)]
    fn sweep_spaces(&mut self) {
        self.sockets.inet.end(&self.system.numbers().take_ended_nets());
        let ended = self.system.numbers().take_ended();
        let numbers: Vec<u64> = ended.iter().map(|(number, _)| *number).collect();
        self.messages.end_spaces(&numbers);
        self.semaphores.end_spaces(&numbers);
        let mut handles = self.handles();
        handles.end_spaces(&numbers);
        ended.into_iter().filter_map(|(_, queues)| queues).for_each(|it| handles.end_queues(it));
    }

    fn path_ops(&mut self) -> PathOps<'_> {
        let Unixd { tree, descs, procs, pipes, seals, leases, stock, clock, fx, caller, .. } = self;
        let caller = *caller;
        PathOps { tree, descs, procs, pipes, seals, leases, stock, clock, fx, caller }
    }

    #[inline]
    pub(super) fn contents(&mut self) -> Contents<'_> {
        let Unixd { tree, descs, procs, notify, seals, fx, caller, clock, .. } = self;
        let files = tree.files_mut();
        Contents { files, descs, procs, notify, seals, fx, caller: *caller, clock }
    }

    fn in_out(&mut self) -> InOut<'_> {
        let Unixd { descs, procs, tree, clock, caller, .. } = self;
        InOut { descs, procs, tree, clock, caller: *caller }
    }

    fn polling(&mut self) -> Polling<'_> {
        let Unixd { descs, pipes, counters, sets, sockets, terminal, watches, procs, .. } = self;
        let Unixd { notify, mqueues, clock, stirred, caller, .. } = self;
        let caller = *caller;
        Polling {
            mqueues,
            descs,
            pipes,
            counters,
            sets,
            sockets,
            notify,
            terminal,
            watches,
            procs,
            clock,
            stirred,
            caller,
        }
    }
}

impl Unixd {
    /// The process that a description names: one of a process, or a folder in `/proc`, by which signals may be sent, too.
    fn named_process(&self, pid: Pid, desc: u32) -> Result<Pid, Errno> {
        let desc = self.descs.of(pid, desc)?;
        match desc.object {
            Object::Dir(Node::Proc(ProcNode::Pid(named))) => match self.procs.get(named) {
                Ok(_) => Ok(named),
                Err(_) => Err(Errno::ESRCH),
            },
            Object::Dir(Node::Proc(ProcNode::Init)) => Ok(INIT),
            Object::Dir(_) => Err(Errno::EBADF),
            _ => self.counters.process(counters::number(desc)?),
        }
    }

    /// The same of one that has a number where the caller is. What is outside is as good as not there.
    fn visible_process(&self, pid: Pid, desc: u32) -> Result<Pid, Errno> {
        let named = self.named_process(pid, desc)?;
        match self.procs.number_for(pid, named) {
            0 => Err(Errno::ESRCH),
            _ => Ok(named),
        }
    }
}
