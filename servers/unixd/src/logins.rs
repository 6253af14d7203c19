//! As whom somebody has logged in, and the session that began with that: `loginuid` and `sessionid` of `/proc/PID`.
//!
//! What logs in somebody (`pam_loginuid`) says so once for the process that becomes the user's; what it starts inherits it, whoever it
//! becomes by `su` or `sudo`.

use crate::procs::{Pid, Procs};
use crate::threads::Tid;
use credentials::{Capability, Credentials};
use unixproto::Errno;

/// Nobody, and no session.
const UNSET: u32 = u32::MAX;

/// As whom somebody has logged in.
#[derive(Clone, Copy)]
pub struct Login {
    /// A user of the first name space.
    user: u32,
    session: u32,
}

impl Login {
    pub const NONE: Login = Login { user: UNSET, session: UNSET };

    /// What a file says of it to somebody.
    pub fn number(self, name: &str, reader: &Credentials) -> u32 {
        match name {
            "sessionid" => self.session,
            _ if self.user == UNSET => UNSET,
            _ => reader.shown(false, self.user),
        }
    }
}

impl Procs {
    /// Says as whom who writes has logged in, or (`u32::MAX`) that it is nobody any more.
    ///
    /// # Errors
    /// `EPERM`: it is not who writes, or has logged in already. `EINVAL`: no user.
    pub fn log_in(&mut self, caller: Tid, (owner, text): (Tid, &[u8])) -> Result<(), Errno> {
        if owner != caller {
            return Err(Errno::EPERM);
        }
        let pid: Pid = self.leader(caller);
        let proc = self.get(pid)?;
        let user = match number(text)? {
            UNSET => UNSET,
            user => proc.who.global(false, user)?,
        };
        if proc.login.user != UNSET && !proc.has(Capability::AuditControl) {
            return Err(Errno::EPERM);
        }
        let session = if user == UNSET { UNSET } else { self.next_login() };
        self.get_mut(pid)?.login = Login { user, session };
        Ok(())
    }
}

/// A number as files of `/proc` take it.
fn number(text: &[u8]) -> Result<u32, Errno> {
    let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Errno::EINVAL);
    }
    digits.parse().map_err(|_| Errno::ERANGE)
}
