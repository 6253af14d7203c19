//! Arguments and environment of a program.

use crate::errno::{Errno, Result};
use crate::mm::{user, Mm};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Longest path, with its zero byte.
const PATH_MAX: usize = 4096;
/// Longest single string.
const STRING_MAX: usize = 128 << 10;
/// All strings together: a quarter of the usual stack.
const TOTAL_MAX: usize = 2 << 20;

/// Strings, each with a zero byte behind it.
#[derive(Clone, Default)]
pub struct Strings {
    pub bytes: Vec<u8>,
    pub count: usize,
}

impl Strings {
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        self.count += 1;
    }
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|&byte| byte == 0).take(self.count)
    }
    pub fn first(&self) -> &[u8] {
        self.iter().next().unwrap_or_default()
    }
}

/// What a program is started with.
#[derive(Clone, Default)]
pub struct Args {
    /// The file that was asked for (for a script: the script).
    pub path: Vec<u8>,
    pub argv: Strings,
    pub envp: Strings,
    /// The arguments as they were given, if they have become those of an interpreter.
    given: Option<Strings>,
    /// That interpreter.
    interpreter: Option<Vec<u8>>,
}

/// A path that a system call was given.
pub fn path(mm: &mut Mm, addr: u64) -> Result<Vec<u8>> {
    Ok(user::cstr(mm, addr, PATH_MAX, Errno::ENAMETOOLONG)?.to_vec())
}

impl Args {
    /// From the program's memory.
    pub fn read(mm: &mut Mm, path: &[u8], argv: u64, envp: u64) -> Result<Args> {
        let mut room = TOTAL_MAX;
        let path = path.to_vec();
        let mut argv = strings(mm, argv, &mut room)?;
        let envp = strings(mm, envp, &mut room)?;
        if argv.count == 0 {
            argv.push(&[]);
        }
        Ok(Args { path, argv, envp, ..Args::default() })
    }

    /// What a program was left.
    pub fn left(path: Vec<u8>, argv: Strings, envp: Strings) -> Args {
        Args { path, argv, envp, ..Args::default() }
    }

    /// From the argument block of the first process; also its working directory.
    pub fn from_block(block: &[u8]) -> (Args, Option<Vec<u8>>) {
        let (mut args, mut directory) = (Args::default(), None);
        for field in block.split(|&byte| byte == 0) {
            match field.split_first() {
                Some((b'a', text)) => args.argv.push(text),
                Some((b'e', text)) => args.envp.push(text),
                Some((b'c', text)) => directory = Some(text.to_vec()),
                _ => {}
            }
        }
        (args, directory)
    }

    /// The same for another file.
    pub fn with_path(&self, path: &[u8]) -> Args {
        Args { path: path.to_vec(), ..self.clone() }
    }

    /// A script becomes arguments of its interpreter.
    pub fn interpreted_by(&mut self, interpreter: &[u8], argument: Option<&[u8]>, script: &[u8]) {
        let old = core::mem::take(&mut self.argv);
        self.argv.push(interpreter);
        argument.into_iter().for_each(|text| self.argv.push(text));
        self.argv.push(script);
        old.iter().skip(1).for_each(|text| self.argv.push(text));
        self.given.get_or_insert(old);
        self.interpreter = Some(interpreter.to_vec());
    }

    /// The file that is executed: for a script, its interpreter.
    pub fn executed(&self) -> &[u8] {
        self.interpreter.as_ref().unwrap_or(&self.path)
    }

    /// What `unixd` is told of the program: the file that was asked for, and behind a NUL its interpreter if it is a script.
    pub fn told(&self) -> Cow<'_, [u8]> {
        match &self.interpreter {
            None => Cow::Borrowed(&self.path),
            Some(interpreter) => Cow::Owned([&self.path[..], interpreter].join(&0)),
        }
    }

    /// As they were before any interpreter.
    pub fn into_given(mut self) -> Args {
        if let Some(argv) = self.given.take() {
            self.argv = argv;
        }
        self.interpreter = None;
        self
    }

    /// Where the first program may be: itself, or its name in each directory of `PATH`.
    pub fn candidates(&self) -> Vec<Vec<u8>> {
        let name = self.argv.first();
        if self.argv.count == 0 {
            return Vec::new();
        }
        if name.contains(&b'/') {
            return alloc::vec![name.to_vec()];
        }
        let path = self.envp.iter().find_map(|entry| entry.strip_prefix(b"PATH="));
        let path = path.unwrap_or(b"/bin:/sbin:/usr/bin:/usr/sbin");
        path.split(|&byte| byte == b':').map(|dir| [dir, b"/", name].concat()).collect()
    }
}

fn strings(mm: &mut Mm, array: u64, room: &mut usize) -> Result<Strings> {
    let mut all = Strings::default();
    if array == 0 {
        return Ok(all);
    }
    loop {
        let at: u64 = user::copy_in(mm, array.wrapping_add(8 * all.count as u64))?;
        if at == 0 {
            return Ok(all);
        }
        let text = user::cstr(mm, at, STRING_MAX, Errno::E2BIG)?;
        *room = room.checked_sub(text.len() + 9).ok_or(Errno::E2BIG)?;
        all.push(&text);
    }
}
