//! Which function does what.

use crate::procs::Pid;
use crate::server::Unixd;
use crate::wait::{count, done, Call, Outcome, Tried};
use crate::window::Session;
use alloc::vec::Vec;
use unixproto::{Any, Errno};

impl Unixd {
    /// Requests that come with capabilities: not tried twice.
    pub fn with_caps(&mut self, pid: Pid, call: &Call, caps: u32) -> Option<Tried> {
        if let Err(error) = self.check_stock(pid, &call.any) {
            return Some(Err(error));
        }
        match call.any {
            Any::ForkCommit(op) => Some(self.fork_commit(pid, op.pid, op.wait, caps)),
            Any::Become(_) => Some(self.become_domain(pid, caps)),
            Any::Replace(op) => Some(self.replace(pid, caps, op.linux)),
            Any::Thread(_) => Some(self.new_thread(pid, caps)),
            Any::GrowRoot(_) => Some(self.grow_root(pid, caps)),
            _ => None,
        }
    }

    /// Tries a request.
    pub fn attempt(&mut self, pid: Pid, call: &mut Call) -> Tried {
        match call.any {
            Any::Attach(op) => self.attach(pid, op.from),
            Any::ForkCommit(_)
            | Any::Become(_)
            | Any::Replace(_)
            | Any::Thread(_)
            | Any::GrowRoot(_) => Err(Errno::EINVAL),
            Any::Fork(op) => self.fork(pid, op.act),
            Any::ForkWait(op) => self.fork_wait(pid, op.pid),
            Any::ForkAbort(op) => self.fork_abort(pid, op.pid),
            Any::Exec(_) => self.exec(pid, call),
            Any::Exit(op) => self.exit(pid, op.status),
            Any::ThreadEnd(op) => self.thread_end(pid, op.tid),
            Any::ThreadExit(op) => self.thread_exit(pid, op.status),
            Any::Stir(op) => self.stir(pid, op.tid),
            Any::FutexCount(_) => count(self.futex_wakes as usize),
            Any::FutexWait(op) => self.futex_wait(pid, call, op),
            Any::FutexWake(op) => self.futex_wake(pid, op),
            Any::FutexFirst(op) => self.futex_first(pid, op),
            Any::ThreadOf(op) => self.thread_of(op.tid),
            Any::Wait(op) => self.wait_child(pid, op.pid, op.options),
            Any::Kill(op) => self.kill(pid, op),
            Any::KillThread(op) => self.kill_thread(pid, op),
            Any::Retarget(_) => {
                self.retarget(pid);
                done(())
            }
            Any::Stop(op) => self.stop(pid, op.signal),
            Any::SetPgid(op) => self.set_pgid(pid, op.pid, op.pgid),
            Any::GetPgid(op) => self.get_pgid(pid, op.pid),
            Any::SetSid(_) => self.set_sid(pid),
            Any::GetSid(op) => self.get_sid(pid, op.pid),
            Any::SetIds(op) => self.set_ids(pid, op),
            Any::SetFileId(op) => self.set_file_id(pid, op),
            Any::GetCaps(op) => self.get_caps(pid, op.pid),
            Any::SetCaps(op) => self.set_caps(pid, op),
            Any::Privilege(op) => self.privilege(pid, op),
            Any::SetLimit(op) => self.set_limit(pid, op),
            Any::CpuUsage(op) => self.usage(pid, op.who),
            Any::SetName(_) => self.set_name(pid, call),
            Any::GetName(_) => self.get_name(pid),
            Any::Sleep(op) => self.sleep(call, op.ns),
            Any::Pause(_) => Ok(Outcome::Block(0)),
            Any::SigWait(op) => self.sig_wait(call, op.set, op.ns),
            Any::SetTimer(op) => self.set_timer(pid, op),
            Any::GetTimer(op) => self.get_timer(pid, op.which),
            _ => self.attempt_names(pid, call),
        }
    }

    #[inline(always)]
    fn attempt_names(&mut self, pid: Pid, call: &mut Call) -> Tried {
        match call.any {
            Any::Open(op) => self.open(pid, call, op),
            Any::Stat(op) => self.stat(pid, call, op.dir, op.flags),
            Any::Access(op) => self.access(pid, call, op),
            Any::Mkdir(op) => self.mkdir(pid, call, op.dir, op.mode),
            Any::Mknod(op) => self.mknod(pid, call, op),
            Any::Unlink(op) => self.unlink(pid, call, op.dir, op.flags),
            Any::Rename(op) => self.rename(pid, call, op),
            Any::Link(op) => self.link(pid, call, op),
            Any::Symlink(op) => self.symlink(pid, call, op.dir),
            Any::ReadLink(op) => self.read_link(pid, call, op.dir),
            Any::Chmod(op) => self.chmod(pid, call, op),
            Any::Chown(op) => self.chown(pid, call, op),
            Any::SetTimes(op) => self.set_times(pid, call, op),
            Any::Truncate(op) => self.truncate(pid, call, op),
            Any::Chdir(op) => self.chdir(pid, call, op.dir, op.flags),
            Any::GetCwd(_) => self.get_cwd(pid),
            Any::StatFs(op) => self.stat_fs(pid, call, op.dir, op.flags),
            Any::MemFile(op) => self.mem_file(pid, op.size),
            _ => self.attempt_descs(pid, call),
        }
    }

    #[inline(always)]
    fn attempt_descs(&mut self, pid: Pid, call: &mut Call) -> Tried {
        match call.any {
            Any::Close(_) => self.close(pid, call),
            Any::Read(op) => self.read(pid, call, op.desc, op.bytes as usize),
            Any::Write(op) => self.write(pid, call, op.desc),
            Any::ReadBegin(op) => self.read_begin(pid, op),
            Any::WriteBegin(op) => self.write_begin(pid, op),
            Any::FileExtent(op) => self.file_extent(pid, op),
            Any::WriteAt(op) => self.write_at(pid, call, op),
            Any::Seek(op) => self.seek(pid, op),
            Any::GetDents(op) => self.get_dents(pid, op.desc, op.bytes as usize),
            Any::GetFlags(op) => self.get_flags(pid, op.desc),
            Any::SetFlags(op) => self.set_flags(pid, op.desc, op.flags),
            Any::Ioctl(op) => self.ioctl(pid, call, op),
            Any::Poll(op) => self.poll(pid, call, op),
            Any::Watch(_) => self.watch(pid, call),
            Any::Changes(_) => self.changes(pid),
            Any::Pipe(op) => self.pipe(pid, op.flags),
            Any::PipeRing(op) => self.pipe_ring(pid, op.desc),
            Any::PipeTake(op) => self.pipe_take(pid, op.desc, op.done, op.bytes),
            Any::PipePut(op) => self.pipe_put(pid, op.desc, op.done, op.bytes),
            Any::SetLock(op) => self.set_lock(pid, op),
            Any::GetLock(op) => self.get_lock(pid, op),
            Any::Describe(op) => self.describe(pid, op.desc),
            Any::SystemInfo(_) => self.system_info(),
            Any::UnknownCall(op) => self.unknown_call(op.number),
            Any::Log(_) => self.log_text(pid, call),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Byte string `a` of a request.
    pub fn a(&self, pid: Pid, call: &Call) -> Result<Vec<u8>, Errno> {
        Ok(self.session(pid)?.data(0, call.lengths.0))
    }
    /// Byte string `b` of a request.
    pub fn b(&self, pid: Pid, call: &Call) -> Result<Vec<u8>, Errno> {
        Ok(self.session(pid)?.data(call.lengths.0, call.lengths.1))
    }
    /// The session frame of the thread that speaks for a process.
    pub fn session(&self, pid: Pid) -> Result<&Session, Errno> {
        match self.procs.leader(self.speaker) == pid {
            true => self.procs.session_of(self.speaker),
            false => self.procs.get(pid)?.session(),
        }
    }
    /// Puts bytes into the data area of the thread that speaks for a process.
    pub fn put(&self, pid: Pid, bytes: &[u8]) -> Result<(), Errno> {
        self.session(pid)?.put(bytes);
        Ok(())
    }

    fn unknown_call(&mut self, number: u64) -> Tried {
        if self.unknown.len() < 1000 || self.unknown.contains_key(&number) {
            *self.unknown.entry(number).or_default() += 1;
        }
        done(())
    }

    fn log_text(&mut self, pid: Pid, call: &Call) -> Tried {
        let text = self.a(pid, call)?;
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
        let (free, _) = self.memory();
        done(unixproto::ops::System {
            total: self.ram,
            free,
            processes: self.procs.len() as u64,
            uptime_ns: self.clock.now(),
            load: 0,
        })
    }

    /// Free bytes, and bytes that there are in all.
    pub fn memory(&self) -> (u64, u64) {
        let stats = crate::caps::memory_stats();
        (stats.free, stats.total)
    }
}
