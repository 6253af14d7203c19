//! Hands files out of the machine when the session is over ([`exportproto`]).
//!
//! This server has all names and contents, so nothing that ran need have survived, and no process takes part: what is
//! handed out is what the files hold when everybody has ended.

use crate::frames::Files;
use crate::nodes::Tree;
use crate::streams::Streams;
use alloc::vec::Vec;
use exportproto::glob::{is_pattern, matches};
use exportproto::{Header, Kind, Run, MAGIC, PATH_MAX};
use memfs::{walk, Cred, Fs, Ino, Inode, Node, Resolve, Walk, FIRST_COOKIE};

/// Bytes of records that are gathered before they are sent.
const GATHERED: usize = 8 * 1024;

/// Hands out what the patterns (each with a NUL behind it) stand for.
pub fn export(tree: &mut Tree, streams: &mut Streams, patterns: &[u8]) {
    let mut out = Out { tree, streams, gathered: MAGIC.to_vec(), pattern: 0 };
    let patterns = patterns.split(|&byte| byte == 0).filter(|pattern| !pattern.is_empty());
    for (number, pattern) in (0..).zip(patterns) {
        out.pattern = number;
        let mut found = expand(out.files().names(), pattern);
        // What cannot be read is not found.
        while out.tree.read_wanted().unwrap_or(false) {
            found = expand(out.files().names(), pattern);
        }
        if found.is_empty() {
            out.record(Header::of(Kind::Nothing, number), b"", b"");
        }
        for (path, ino) in found {
            out.record(Header::of(Kind::Match, number), &path, b"");
            out.tree(ino);
        }
    }
    out.record(Header::of(Kind::End, 0), b"", b"");
    out.flush();
}

/// The paths that a pattern stands for, with what is there. Links are followed.
fn expand<C: Default>(fs: &Fs<C>, pattern: &[u8]) -> Vec<(Vec<u8>, Ino)> {
    let root = fs.root();
    let at = |path: &[u8]| {
        let how =
            Walk { root, start: root, cred: Cred::ROOT, follow: true, resolve: Resolve::default() };
        walk(fs, &how, path).ok()?.node
    };
    let mut found = alloc::vec![(Vec::new(), root)];
    for name in pattern.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let mut next = Vec::new();
        for (path, dir) in found {
            let mut add = |name: &[u8]| {
                let path = [&path[..], b"/", name].concat();
                next.extend(at(&path).map(|ino| (path, ino)));
            };
            // One that is still to be read has nothing, until it was read.
            match fs.look_in(dir) {
                Ok(dir) if is_pattern(name) => {
                    let all = dir.entries(FIRST_COOKIE).map(|entry| entry.name);
                    all.filter(|own| matches(name, own)).for_each(add);
                }
                Ok(_) => add(name),
                Err(_) => {}
            }
        }
        found = next;
    }
    found.sort();
    found
}

/// The way out.
struct Out<'a> {
    tree: &'a mut Tree,
    streams: &'a mut Streams,
    /// What is to be sent before anything else.
    gathered: Vec<u8>,
    /// The number of the pattern.
    pattern: u32,
}

impl Out<'_> {
    fn files(&mut self) -> &mut Files {
        self.tree.files_mut()
    }

    fn record(&mut self, mut header: Header, path: &[u8], text: &[u8]) {
        (header.path, header.text) = (path.len() as u32, text.len() as u32);
        for part in [&header.to_bytes()[..], path, text] {
            self.gathered.extend_from_slice(part);
        }
        if self.gathered.len() >= GATHERED {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Out { gathered, streams, .. } = self;
        let mut sent = 0;
        while sent < gathered.len() {
            let rest = &gathered[sent..];
            sent += streams.send_file(rest.len(), |buffer| {
                buffer.copy_from_slice(&rest[..buffer.len()]);
                buffer.len()
            });
        }
        gathered.clear();
    }

    /// Sends something with everything below it.
    fn tree(&mut self, top: Ino) {
        let mut path = Vec::new();
        self.node(top, &path);
        // Directories from the top to where it is, each with the length of its path and where to go on in it.
        let mut open = alloc::vec![(top, 0, FIRST_COOKIE)];
        while let Some((dir, length, cookie)) = open.last_mut() {
            path.truncate(*length);
            // What cannot be read is not there.
            let _ = self.tree.read_dir(*dir);
            let next = self.tree.files().names().get(*dir).and_then(Inode::dir);
            let next = next.ok().and_then(|dir| dir.entries(*cookie).next());
            let Some(entry) = next else {
                open.pop();
                continue;
            };
            *cookie = entry.next;
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(entry.name);
            let ino = entry.ino;
            self.node(ino, &path);
            // What is below a path that is too long was not announced.
            if path.len() <= PATH_MAX && self.files().names().get(ino).is_ok_and(Inode::is_dir) {
                open.push((ino, path.len(), FIRST_COOKIE));
            }
        }
    }

    /// Sends one thing.
    fn node(&mut self, ino: Ino, path: &[u8]) {
        let Ok(inode) = self.tree.files().names().get(ino) else { return };
        let (kind, text) = match &inode.node {
            _ if path.len() > PATH_MAX => (Kind::Failed, &b""[..]),
            Node::Dir(_) => (Kind::Directory, &b""[..]),
            Node::File { .. } => (Kind::File, &b""[..]),
            Node::Symlink(text) => (Kind::Symlink, &text[..]),
            Node::Device(_) | Node::Block(_) | Node::Fifo | Node::Socket | Node::Queue => {
                (Kind::Skipped, &b""[..])
            }
        };
        let mut header = Header::of(kind, self.pattern);
        (header.mode, header.size, header.mtime) = (inode.mode, inode.size(), inode.mtime);
        let (text, path) = (text.to_vec(), &path[..path.len().min(PATH_MAX)]);
        if kind != Kind::File {
            return self.record(header, path, &text);
        }
        // It must be there before the file is announced.
        let first = self.files().next_data(ino, 0);
        match first {
            Ok(data) => {
                self.record(header, path, b"");
                self.contents(ino, data);
            }
            Err(_) => self.record(Header { kind: Kind::Failed, ..header }, path, b""),
        }
    }

    /// Sends the contents of a file, of which this is the first part with data.
    fn contents(&mut self, ino: Ino, first: Option<(u64, u64)>) {
        let (mut data, mut end) = (first, Run::END);
        while let Some((from, to)) = data {
            self.gathered.extend_from_slice(&Run { offset: from, bytes: to - from }.to_bytes());
            self.flush();
            let mut at = from;
            while at < to {
                let Out { tree, streams, .. } = self;
                let files = tree.files_mut();
                let most = usize::try_from(to - at).unwrap_or(usize::MAX);
                let sent = streams.send_file(most, |buffer| {
                    // As many bytes as were announced must come.
                    if files.load(ino, at, buffer).is_err() {
                        buffer.fill(0);
                        end = Run::FAILED;
                    }
                    buffer.len()
                });
                at += sent as u64;
            }
            data = self.files().next_data(ino, to).unwrap_or_else(|_| {
                end = Run::FAILED;
                None
            });
        }
        self.gathered.extend_from_slice(&end.to_bytes());
    }
}
