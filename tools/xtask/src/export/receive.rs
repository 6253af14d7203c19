//! Reads what the guest sends ([`exportproto`]), and believes nothing of it.

use super::below::{Below, NewFile};
use super::Export;
use exportproto::{names, Header, Kind, Run, MAGIC};
use rustix::io::Errno;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Bytes of contents that are taken at once.
const PIECE: usize = 256 << 10;
/// Most folders whose attributes are remembered until everything is in them, and most problems that are told.
const MOST_FOLDERS: usize = 1 << 20;
const MOST_PROBLEMS: usize = 20;

/// Takes everything that comes and puts it in its place. Returns what went wrong, in words.
pub fn receive(from: impl Read, exports: &[Export]) -> Vec<String> {
    let buffered = io::BufReader::with_capacity(PIECE, from);
    let mut receiver = Receiver { from: buffered, exports, problems: Vec::new(), more: 0 };
    if let Err(why) = receiver.all() {
        let why = match why {
            Break::Ended => "the emulator ended before all files were copied".to_owned(),
            Break::Wrong(what) => format!("the guest does not keep to the protocol ({what})"),
        };
        receiver.problems.push(format!("--out: {why}"));
        // Whoever sends must not wait for ever.
        let _ = io::copy(&mut receiver.from, &mut io::sink());
    }
    if receiver.more > 0 {
        receiver.problems.push(format!("--out: and {} more", receiver.more));
    }
    receiver.problems
}

/// Why no more can be read.
enum Break {
    Ended,
    Wrong(&'static str),
}

impl From<io::Error> for Break {
    fn from(_: io::Error) -> Break {
        Break::Ended
    }
}

struct Receiver<'a, R> {
    from: R,
    exports: &'a [Export],
    problems: Vec<String>,
    /// Problems beyond those that are told.
    more: usize,
}

/// Where what comes belongs: a folder of ours, and names below it.
struct Target<'a> {
    export: &'a Export,
    /// Its path in the guest.
    path: Vec<u8>,
    folder: Below,
    names: Vec<Vec<u8>>,
    /// Folders, to be given mode and time when everything is in them.
    folders: Vec<(Vec<Vec<u8>>, Header)>,
}

impl<'a, R: Read> Receiver<'a, R> {
    fn all(&mut self) -> Result<(), Break> {
        if self.bytes::<{ MAGIC.len() }>()? != MAGIC {
            return Err(Break::Wrong("its beginning"));
        }
        let mut target = None;
        loop {
            let header = Header::from_bytes(&self.bytes()?).ok_or(Break::Wrong("a header"))?;
            let path = self.vector(header.path)?;
            let text = self.vector(header.text)?;
            let index = header.pattern as usize;
            match header.kind {
                Kind::End => {
                    self.settle(target.take());
                    return Ok(());
                }
                Kind::Nothing => {
                    let export = self.exports.get(index).ok_or(Break::Wrong("a pattern"))?;
                    let text = &export.text;
                    self.problem(format!(
                        "--out {text}: there is no {} in the guest",
                        export.pattern
                    ));
                }
                Kind::Match => {
                    self.settle(target.take());
                    target = Some(self.target(index, path)?);
                }
                _ => {
                    let target = target.as_mut().ok_or(Break::Wrong("a file of nothing"))?;
                    self.member(target, header, &path, &text)?;
                }
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Break> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// So many bytes, which a header has.
    fn vector(&mut self, bytes: u32) -> Result<Vec<u8>, Break> {
        let mut vector = vec![0; bytes as usize];
        self.from.read_exact(&mut vector)?;
        Ok(vector)
    }

    fn problem(&mut self, text: String) {
        match self.problems.len() < MOST_PROBLEMS {
            true => self.problems.push(text),
            false => self.more += 1,
        }
    }

    fn target(&mut self, index: usize, path: Vec<u8>) -> Result<Option<Target<'a>>, Break> {
        let export = self.exports.get(index).ok_or(Break::Wrong("a pattern"))?;
        let (folder, names) =
            export.place_of(&path).ok_or(Break::Wrong("a path that nobody asked for"))?;
        match Below::open(folder) {
            Ok(folder) => Ok(Some(Target { export, path, folder, names, folders: Vec::new() })),
            Err(error) => {
                self.problem(format!("--out {}: {}: {error}", export.text, folder.display()));
                Ok(None)
            }
        }
    }

    /// Something of a match. Without a place for that, it is only taken.
    fn member(
        &mut self,
        target: &mut Option<Target>,
        header: Header,
        path: &[u8],
        text: &[u8],
    ) -> Result<(), Break> {
        let below = names(path).ok_or(Break::Wrong("a path that leads elsewhere"))?;
        let Some(target) = target else {
            return match header.kind {
                Kind::File => self.contents(header.size, None).map(drop),
                _ => Ok(()),
            };
        };
        let mut all = target.names.clone();
        all.extend(below.map(<[u8]>::to_vec));
        let (last, above) = all.split_last().ok_or(Break::Wrong("a file without name"))?;
        let done = match header.kind {
            Kind::File => self.file(target, header, above, last)?,
            Kind::Directory => target.folder.make_all(&all).map(|_| {
                if target.folders.len() < MOST_FOLDERS {
                    target.folders.push((all.clone(), header));
                }
            }),
            Kind::Symlink if text.contains(&0) => return Err(Break::Wrong("a link")),
            Kind::Symlink => target
                .folder
                .make_all(above)
                .and_then(|folder| folder.symlink(last, text, header.mtime)),
            Kind::Skipped => Err(io::Error::other("left out: it is no file, folder or link")),
            Kind::Failed => Err(io::Error::other("it cannot be read")),
            Kind::Match | Kind::Nothing | Kind::End => return Err(Break::Wrong("a kind")),
        };
        if let Err(error) = done {
            let slash = if path.is_empty() { "" } else { "/" };
            let whole = [&target.path, slash.as_bytes(), path].concat();
            // It goes to a terminal, maybe.
            let name = String::from_utf8_lossy(&whole).escape_debug().to_string();
            self.problem(format!("--out {}: {name}: {}", target.export.text, explain(&error)));
        }
        Ok(())
    }

    /// A file. An error of the inner kind: it cannot be written.
    fn file(
        &mut self,
        target: &Target,
        header: Header,
        above: &[Vec<u8>],
        name: &[u8],
    ) -> Result<io::Result<()>, Break> {
        let folder = match target.folder.make_all(above) {
            Ok(folder) => folder,
            Err(error) => return self.contents(header.size, None).map(|_| Err(error)),
        };
        let new = folder.file();
        let written = self.contents(header.size, new.as_ref().ok())?;
        Ok(new.and_then(|new| written.and_then(|()| new.finish(name, header.mode, header.mtime))))
    }

    /// The contents of a file, written to one.
    fn contents(&mut self, size: u64, to: Option<&NewFile>) -> Result<io::Result<()>, Break> {
        let mut buffer = vec![0; PIECE];
        let (mut at, mut result) = (0, Ok(()));
        loop {
            let Run { offset, bytes } = Run::from_bytes(self.bytes()?);
            if bytes == 0 {
                if offset == Run::FAILED.offset {
                    result = Err(io::Error::other("not all of it can be read"));
                }
                break;
            }
            let end = offset.checked_add(bytes).filter(|&end| offset >= at && end <= size);
            end.ok_or(Break::Wrong("contents"))?;
            at = offset;
            let mut left = bytes;
            while left > 0 {
                let piece = &mut buffer[..left.min(PIECE as u64) as usize];
                self.from.read_exact(piece)?;
                if let (Some(new), Ok(())) = (to, &result) {
                    result = new.file.write_all_at(piece, at);
                }
                at += piece.len() as u64;
                left -= piece.len() as u64;
            }
        }
        if let (Some(new), Ok(())) = (to, &result) {
            result = new.file.set_len(size);
        }
        Ok(result)
    }

    /// Everything of a match is there: its folders get their attributes, inner ones first.
    fn settle(&mut self, target: Option<Option<Target>>) {
        let Some(target) = target.flatten() else { return };
        for (names, header) in target.folders.iter().rev() {
            let folder = target.folder.make_all(names);
            if let Err(error) = folder.and_then(|folder| folder.set(header.mode, header.mtime)) {
                self.problem(format!("--out {}: a folder: {error}", target.export.text));
            }
        }
    }
}

/// An error in words that tell what to do.
fn explain(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOTDIR | Errno::LOOP) => {
            "here is a file or a symbolic link where a folder would be".to_owned()
        }
        Some(Errno::ISDIR) => "here is a folder of that name".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
