//! Arguments and environment of a program.

use crate::errno::{Errno, Result};
use crate::mm::user;
use crate::process::Process;
use alloc::vec::Vec;

/// Longest path, with its zero byte.
const PATH_MAX: usize = 4096;
/// Longest single string.
const STRING_MAX: usize = 128 << 10;
/// All strings together: a quarter of the usual stack.
const TOTAL_MAX: usize = 2 << 20;

/// What a program is started with.
#[derive(Clone, Default)]
pub struct Args {
    /// The file that was asked for (for a script: the script).
    pub path: Vec<u8>,
    pub argv: Vec<Vec<u8>>,
    pub envp: Vec<Vec<u8>>,
}

/// A path that a system call was given.
pub fn path(p: &mut Process, addr: u64) -> Result<Vec<u8>> {
    Ok(user::cstr(p, addr, PATH_MAX, Errno::ENAMETOOLONG)?.to_vec())
}

impl Args {
    /// From the program's memory.
    pub fn read(p: &mut Process, path: &[u8], argv: u64, envp: u64) -> Result<Args> {
        let mut room = TOTAL_MAX;
        let mut args = Args { path: path.to_vec(), ..Args::default() };
        args.argv = strings(p, argv, &mut room)?;
        args.envp = strings(p, envp, &mut room)?;
        if args.argv.is_empty() {
            args.argv.push(Vec::new());
        }
        Ok(args)
    }

    /// From the argument block of the first process; also its working directory.
    pub fn from_block(block: &[u8]) -> (Args, Option<Vec<u8>>) {
        let (mut args, mut directory) = (Args::default(), None);
        for field in block.split(|&byte| byte == 0) {
            match field.split_first() {
                Some((b'a', text)) => args.argv.push(text.to_vec()),
                Some((b'e', text)) => args.envp.push(text.to_vec()),
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

    /// Where the first program may be: itself, or its name in each directory of `PATH`.
    pub fn candidates(&self) -> Vec<Vec<u8>> {
        let Some(name) = self.argv.first() else { return Vec::new() };
        if name.contains(&b'/') {
            return alloc::vec![name.clone()];
        }
        let path = self.envp.iter().find_map(|entry| entry.strip_prefix(b"PATH="));
        let path = path.unwrap_or(b"/bin:/sbin:/usr/bin:/usr/sbin");
        path.split(|&byte| byte == b':').map(|dir| [dir, b"/", name].concat()).collect()
    }

    /// Arguments with a zero byte behind each.
    pub fn command_line(&self) -> Vec<u8> {
        self.argv.iter().flat_map(|arg| arg.iter().copied().chain([0])).collect()
    }
}

fn strings(p: &mut Process, array: u64, room: &mut usize) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    if array == 0 {
        return Ok(all);
    }
    loop {
        let at: u64 = user::copy_in(p, array.wrapping_add(8 * all.len() as u64))?;
        if at == 0 {
            return Ok(all);
        }
        let text = user::cstr(p, at, STRING_MAX, Errno::E2BIG)?;
        *room = room.checked_sub(text.len() + 9).ok_or(Errno::E2BIG)?;
        all.push(text.to_vec());
    }
}
