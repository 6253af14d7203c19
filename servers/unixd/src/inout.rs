//! Small input and output through the data area.

use crate::descs::Object;
use crate::procs::Pid;
use crate::server::Unixd;
use crate::wait::{count, Call, Tried};
use unixproto::session::DATA_BYTES;
use unixproto::Errno;

impl Unixd {
    /// Reads up to `bytes`.
    pub fn read(&mut self, pid: Pid, call: &mut Call, id: u32, bytes: usize) -> Tried {
        let bytes = bytes.min(DATA_BYTES);
        let desc = self.desc(pid, id)?;
        desc.readable()?;
        let nonblocking = desc.nonblocking();
        match &desc.object {
            Object::Pipe(pipe, _) => self.pipe_read(pid, *pipe, bytes, nonblocking),
            Object::Tty(_) => self.tty_read(pid, call, bytes, nonblocking),
            Object::Stream => self.stream_read(pid, bytes, nonblocking),
            Object::Text(_, text) => {
                let from = (desc.offset as usize).min(text.len());
                let part = &text[from..text.len().min(from + bytes)];
                self.put(pid, part)?;
                let bytes = part.len();
                self.desc_mut(pid, id)?.offset += bytes as u64;
                count(bytes)
            }
            Object::Dir(_) => Err(Errno::EISDIR),
            Object::Device(unixproto::files::Kind::Null, _) => count(0),
            Object::Path(_) => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes byte string `a`.
    pub fn write(&mut self, pid: Pid, call: &mut Call, id: u32) -> Tried {
        let desc = self.desc(pid, id)?;
        desc.writable()?;
        let nonblocking = desc.nonblocking();
        match &desc.object {
            Object::Pipe(pipe, _) => self.pipe_write(pid, call, *pipe, nonblocking),
            Object::Tty(_) => self.tty_write(pid, call, nonblocking),
            Object::Stream => self.stream_write(pid, call, nonblocking),
            Object::Text(node, _) => {
                let node = *node;
                self.write_proc(pid, call, node)
            }
            Object::Device(..) => count(call.lengths.0),
            Object::Path(_) => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }
}
