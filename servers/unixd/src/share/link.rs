//! Whom files are asked of: the host, behind its device, or the server of a disk, in memory that both have.

use alloc::boxed::Box;
use drivers::mailbox::Asker;
use drivers::share::Share as Device;
use ninep::Request;

pub use drivers::share::{MESSAGE, PLACES};
const _: () = assert!(MESSAGE == ninep::serve::MESSAGE && PLACES == ninep::serve::PLACES);

/// See the head of this file.
pub enum Link {
    /// The host, for which there is one user.
    Host(Box<Device>),
    /// The server of a disk, which knows users.
    Server(Asker),
}

impl Link {
    /// A place for a request, if there is one.
    pub fn place(&self) -> Option<u16> {
        match self {
            Link::Host(device) => device.place(),
            Link::Server(asker) => asker.place(),
        }
    }

    /// Sends a request on behalf of a user. Its place; `None`: nothing was sent.
    pub fn send(
        &mut self,
        request: &Request,
        user: u32,
        tag_of: impl Fn(u16) -> u16,
    ) -> Option<u16> {
        match self {
            Link::Host(device) => device.send(|place, to| request.encode(tag_of(place), to).ok()),
            Link::Server(asker) => {
                asker.send(|place, to| request.encode_for(user, tag_of(place), to).ok())
            }
        }
    }

    /// Shows `look` the next answer, and its place. `false`: there is none.
    pub fn answer(&mut self, look: impl FnOnce(u16, &[u8])) -> bool {
        match self {
            Link::Host(device) => device.answer(look),
            Link::Server(asker) => asker.answer(look),
        }
    }

    /// Nobody answers any more.
    pub fn give_up(&mut self) {
        if let Link::Server(asker) = self {
            asker.give_up();
        }
    }
}
