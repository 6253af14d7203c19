//! Urgent bytes of streams (`MSG_OOB`), as TCP has them: the last byte of what was sent so is out of the stream, for whoever asks for it, unless it is
//! wanted there (`SO_OOBINLINE`). There is one at a time: a newer one makes the older one a byte as any other.

use crate::socket::{Changes, Inet, Number, Socket, State};
use unixproto::sockets::SO_OOBINLINE;
use unixproto::Errno;

/// The urgent byte of a stream: it lies where it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Urgent {
    /// Bytes before it that were not read.
    pub before: usize,
    byte: u8,
    /// Somebody has asked for it and got it.
    pub was_read: bool,
}

impl Urgent {
    /// What is left of it when so many bytes of the stream have been read.
    pub fn after(self, count: usize) -> Option<Urgent> {
        let before = self.before.checked_sub(count)?;
        Some(Urgent { before, ..self })
    }
}

impl Socket {
    fn is_inline(&self) -> bool {
        self.options.is_set(SO_OOBINLINE)
    }

    /// Is the next byte one that is not read with the others?
    pub fn is_at_urgent(&self) -> bool {
        self.urgent.is_some_and(|urgent| urgent.before == 0) && !self.is_inline()
    }

    /// How many bytes of a stream can be read at once, of `most`: those before an urgent one first.
    pub fn up_to_urgent(&self, most: usize) -> usize {
        match self.urgent {
            Some(urgent) if urgent.before > 0 => most.min(urgent.before),
            _ => most,
        }
    }

    /// Bytes of a stream that can be read, as `FIONREAD` counts them.
    pub fn readable(&self) -> usize {
        match self.urgent {
            Some(urgent) if !self.is_inline() => urgent.before,
            _ => self.bytes.len(),
        }
    }
}

impl Inet {
    /// The last byte that a socket was sent is urgent.
    pub(crate) fn is_urgent(&mut self, number: Number, changes: &mut Changes) {
        if self.get(number).is_ok_and(Socket::is_at_urgent) {
            // The one before is what would be read next: nobody asks for it any more.
            self.was_read(number, 1, changes);
        }
        let Ok(socket) = self.get_mut(number) else { return };
        let Some(byte) = socket.bytes.last() else { return };
        socket.urgent = Some(Urgent { before: socket.bytes.len() - 1, byte, was_read: false });
        self.urged.push(number);
    }

    /// A socket that something urgent has come to since this was last asked.
    pub fn take_urged(&mut self) -> Option<Number> {
        self.urged.pop()
    }

    /// The urgent byte (`MSG_OOB`). `looks`: it stays there.
    ///
    /// # Errors
    /// `EINVAL`: there is none, or it has been read. `ENOTCONN`: it accepts connections.
    pub fn receive_urgent(
        &mut self,
        number: Number,
        looks: bool,
        changes: &mut Changes,
    ) -> Result<u8, Errno> {
        let socket = self.get_mut(number)?;
        if matches!(socket.state, State::Listening { .. }) {
            return Err(Errno::ENOTCONN);
        }
        let is_inline = socket.is_inline();
        let urgent = socket.urgent.as_mut().filter(|urgent| !is_inline && !urgent.was_read);
        let urgent = urgent.ok_or(Errno::EINVAL)?;
        urgent.was_read |= !looks;
        let byte = urgent.byte;
        changes.push((number, false));
        Ok(byte)
    }

    /// Is the urgent byte of a stream the next one? (`SIOCATMARK`)
    ///
    /// # Errors
    /// `ENOTTY`: it is no stream.
    pub fn is_at_mark(&self, number: Number) -> Result<bool, Errno> {
        match self.is_stream(number)? {
            true => Ok(self.get(number)?.urgent.is_some_and(|urgent| urgent.before == 0)),
            false => Err(Errno::ENOTTY),
        }
    }
}
