//! A client that waits for each answer, and the image of a disk.

use crate::run;
use diskfs::{Disk, Failed, Server, SECTOR};
use ninep::serve::{MESSAGE, WHOLE_FID};
use ninep::{Changes, Entries, Reply, Request};
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

type Errno = u16;

/// A file with an image.
pub struct Image {
    pub path: PathBuf,
}

impl Image {
    pub fn make(name: &str, mib: u32, options: &[&str]) -> Image {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.img"));
        let _ = std::fs::remove_file(&path);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(u64::from(mib) << 20).unwrap();
        let (status, text) =
            run(Command::new("mkfs.ext4").args(["-q", "-F"]).args(options).arg(&path));
        assert_eq!(status, 0, "{text}");
        Image { path }
    }

    pub fn check(&self) {
        let (status, text) = run(Command::new("e2fsck").arg("-fn").arg(&self.path));
        assert_eq!(status, 0, "{text}");
    }

    pub fn debugfs(&self, request: &str) -> String {
        run(Command::new("debugfs").args(["-R", request]).arg(&self.path)).1
    }
}

struct Memory {
    bytes: Vec<u8>,
    /// Writes that are still done.
    left: Option<usize>,
}

struct MemoryDisk(Rc<RefCell<Memory>>);

impl Disk for MemoryDisk {
    fn sectors(&self) -> u64 {
        (self.0.borrow().bytes.len() / SECTOR) as u64
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read(&mut self, first: u64, to: &mut [u8]) -> Result<(), Failed> {
        let at = first as usize * SECTOR;
        to.copy_from_slice(&self.0.borrow().bytes[at..at + to.len()]);
        Ok(())
    }
    fn write(&mut self, first: u64, from: &[u8]) -> Result<(), Failed> {
        let mut memory = self.0.borrow_mut();
        if let Some(left) = &mut memory.left {
            *left = left.checked_sub(1).ok_or(Failed)?;
        }
        let at = first as usize * SECTOR;
        memory.bytes[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Failed> {
        match self.0.borrow().left {
            Some(0) => Err(Failed),
            _ => Ok(()),
        }
    }
}

pub struct Client {
    server: Server<MemoryDisk>,
    memory: Rc<RefCell<Memory>>,
    path: Option<PathBuf>,
    next: u32,
}

const ROOT: u32 = 0;

impl Client {
    pub fn mount(image: &Image) -> Result<Client, Errno> {
        Self::new(std::fs::read(&image.path).unwrap(), b"files", Some(image.path.clone()))
    }
    pub fn mount_read_only(image: &Image) -> Result<Client, Errno> {
        Self::new(std::fs::read(&image.path).unwrap(), b"files,ro", Some(image.path.clone()))
    }
    /// Of bytes that are thrown away.
    pub fn over(bytes: Vec<u8>) -> Result<Client, Errno> {
        Self::new(bytes, b"files", None)
    }

    fn new(bytes: Vec<u8>, name: &[u8], path: Option<PathBuf>) -> Result<Client, Errno> {
        let memory = Rc::new(RefCell::new(Memory { bytes, left: None }));
        let server = Server::new(MemoryDisk(memory.clone()), || 1_700_000_000_000_000_000);
        let mut client = Client { server, memory, path, next: 2 };
        client.ask(Request::Version { message: MESSAGE as u32 }, |_| ())?;
        client.ask(Request::Attach { fid: ROOT, user: 0, name }, |_| ())?;
        Ok(client)
    }

    /// Of the writes from now on, the first are done.
    pub fn fails_after(&mut self, writes: usize) {
        self.memory.borrow_mut().left = Some(writes);
    }
    pub fn has_failed(&self) -> bool {
        self.memory.borrow().left == Some(0)
    }

    fn ask<R>(&mut self, request: Request, look: impl FnOnce(Reply) -> R) -> Result<R, Errno> {
        let (mut message, mut answer) = (vec![0; MESSAGE], vec![0; MESSAGE]);
        let bytes = request.encode_for(0, 1, &mut message).unwrap();
        let bytes = self.server.answer(&message[..bytes], &mut answer);
        match Reply::decode(request.kind(), 1, &answer[..bytes]).unwrap() {
            Reply::Refused(error) => Err(error),
            reply => Ok(look(reply)),
        }
    }
    fn done(&mut self, request: Request) -> Result<(), Errno> {
        self.ask(request, |_| ())
    }

    pub fn walk(&mut self, path: &str) -> Result<u32, Errno> {
        let mut at = ROOT;
        let names = path.split('/').filter(|name| !name.is_empty());
        for name in [None].into_iter().chain(names.map(Some)) {
            let new = self.next;
            self.next += 1;
            let name = name.map(str::as_bytes);
            let walked = self.done(Request::Walk { fid: at, new, name });
            if at != ROOT {
                self.clunk(at)?;
            }
            walked?;
            at = new;
        }
        Ok(at)
    }

    /// Does something in the directory of a path, with the last name.
    fn within<R>(
        &mut self,
        path: &str,
        act: impl FnOnce(&mut Client, u32, &[u8]) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let fid = self.walk(dir)?;
        let result = act(self, fid, name.as_bytes());
        let forgotten = self.clunk(fid);
        let result = result?;
        forgotten?;
        Ok(result)
    }
    fn with<R>(
        &mut self,
        path: &str,
        act: impl FnOnce(&mut Client, u32) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let fid = self.walk(path)?;
        let result = act(self, fid);
        let forgotten = self.clunk(fid);
        let result = result?;
        forgotten?;
        Ok(result)
    }

    pub fn clunk(&mut self, fid: u32) -> Result<(), Errno> {
        self.done(Request::Clunk { fid })
    }
    pub fn sync(&mut self) -> Result<(), Errno> {
        self.done(Request::Sync { fid: ROOT, data_only: false })
    }
    pub fn mkdir(&mut self, path: &str, mode: u32) -> Result<(), Errno> {
        self.within(path, |client, fid, name| {
            client.done(Request::MakeDirectory { fid, name, mode, gid: 0 })
        })
    }
    pub fn symlink(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        let text = text.as_bytes();
        self.within(path, |client, fid, name| {
            client.done(Request::Symlink { fid, name, text, gid: 0 })
        })
    }
    pub fn link(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        self.with(old, |client, fid| {
            client.within(new, |client, dir, name| client.done(Request::Link { dir, fid, name }))
        })
    }
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        self.within(old, |client, from, old| {
            client
                .within(new, |client, to, new| client.done(Request::Rename { from, old, to, new }))
        })
    }
    pub fn unlink(&mut self, path: &str) -> Result<(), Errno> {
        self.within(path, |client, fid, name| {
            client.done(Request::Unlink { fid, name, directory: false })
        })
    }
    pub fn rmdir(&mut self, path: &str) -> Result<(), Errno> {
        self.within(path, |client, fid, name| {
            client.done(Request::Unlink { fid, name, directory: true })
        })
    }
    pub fn set(&mut self, path: &str, changes: Changes) -> Result<(), Errno> {
        self.with(path, |client, fid| client.done(Request::SetAttributes { fid, changes }))
    }

    /// Writes, in pieces as `unixd` does; the file is made if it is not there.
    pub fn write_at(&mut self, path: &str, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let fid = self.walk(dir)?;
        let name = name.as_bytes();
        let made = self.done(Request::Create { fid, name, flags: 2, mode: 0o644, gid: 0 });
        let result = made.and_then(|()| {
            let mut at = offset;
            for piece in data.chunks(12 * 1024) {
                self.done(Request::Write { fid, offset: at, data: piece })?;
                at += piece.len() as u64;
            }
            Ok(())
        });
        let forgotten = self.clunk(fid);
        result.and(forgotten)
    }
    pub fn put(&mut self, path: &str, data: &[u8]) -> Result<(), Errno> {
        self.write_at(path, 0, data)?;
        self.set(path, Changes { size: Some(data.len() as u64), ..Changes::default() })
    }
    pub fn read(&mut self, fid: u32, offset: u64) -> Result<Vec<u8>, Errno> {
        self.ask(Request::Read { fid, offset, bytes: 12 * 1024 }, |reply| match reply {
            Reply::Bytes(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        })
    }
    pub fn get(&mut self, path: &str) -> Result<Vec<u8>, Errno> {
        self.with(path, |client, fid| {
            let mut all = Vec::new();
            loop {
                let bytes = client.read(fid, all.len() as u64)?;
                if bytes.is_empty() || all.len() > 1 << 28 {
                    return Ok(all);
                }
                all.extend(bytes);
            }
        })
    }
    pub fn list(&mut self, path: &str) -> Result<Vec<String>, Errno> {
        self.with(path, |client, fid| {
            client.done(Request::Open { fid, flags: 0 })?;
            let (mut names, mut offset) = (Vec::new(), 0);
            loop {
                let request = Request::ReadDirectory { fid, offset, bytes: 4096 };
                let bytes = client.ask(request, |reply| match reply {
                    Reply::Bytes(bytes) => bytes.to_vec(),
                    other => panic!("{other:?}"),
                })?;
                if bytes.is_empty() || names.len() > 100_000 {
                    return Ok(names);
                }
                for entry in Entries::new(&bytes) {
                    let Ok(entry) = entry else { return Err(5) };
                    offset = entry.next;
                    names.push(String::from_utf8_lossy(entry.name).into_owned());
                }
            }
        })
    }
    pub fn read_disk(&mut self, offset: u64, bytes: u32) -> Result<Vec<u8>, Errno> {
        self.ask(Request::Read { fid: WHOLE_FID, offset, bytes }, |reply| match reply {
            Reply::Bytes(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        })
    }
    pub fn write_disk(&mut self, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        self.ask(Request::Write { fid: WHOLE_FID, offset, data }, |reply| match reply {
            Reply::Count(count) => count,
            other => panic!("{other:?}"),
        })
    }
    pub fn free(&mut self) -> u64 {
        self.ask(Request::Space { fid: ROOT }, |reply| match reply {
            Reply::Space(space) => space.free,
            other => panic!("{other:?}"),
        })
        .unwrap()
    }
    /// Unmounts; the image has everything then.
    pub fn end(&mut self) -> Result<(), Errno> {
        self.clunk(ROOT)?;
        self.store();
        Ok(())
    }
    fn store(&self) {
        if let Some(path) = &self.path {
            std::fs::write(path, &self.memory.borrow().bytes).unwrap();
        }
    }
}

impl Client {
    /// The machine ends; the image has what has reached the disk.
    pub fn crash(self) {
        self.store();
    }
}
