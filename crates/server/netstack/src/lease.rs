//! An address that somebody gives for a time (DHCP). Nobody waits for it: until there is one, and when it is over, the address is that of [`Home`].

use crate::port::{Mark, Port};
use crate::{Home, Wire};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::dhcpv4::{Config, Event, RetryConfig, Socket};
use smoltcp::time::{Duration, Instant};

/// The port of those that want an address.
pub const PORT: u16 = 68;
/// Servers of names that an answer can name.
pub const NAMES: usize = 3;
/// Seconds between questions that nobody has answered: at first, and when it was said that nobody does.
const ASK_S: u64 = 3;
const ASK_CALMLY_S: u64 = 60;
/// Microseconds after which it is said that nobody does.
const NOBODY: i64 = 10_000_000;

/// What there is to say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The machine has its place by this server; these know names.
    Given { by: Ipv4Addr, names: [Ipv4Addr; NAMES] },
    /// Nobody answers: asking goes on.
    Nobody,
    /// The time is over, or the server takes it back.
    Over,
}

pub struct Lease {
    set: SocketSet<'static>,
    handle: SocketHandle,
    /// When there is something to do.
    due: i64,
    /// When it was first asked for; `None`: there is an answer, or it was said that there is none.
    asked: Option<i64>,
    is_given: bool,
}

impl Lease {
    pub fn new(now: i64) -> Lease {
        let mut socket = Socket::new();
        socket.set_retry_config(asking(ASK_S));
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(socket);
        Lease { set, handle, due: now, asked: Some(now), is_given: false }
    }

    /// Something has come for it. Answers whose it is.
    pub fn came(&mut self, now: i64) -> &mut SocketSet<'static> {
        self.due = now;
        &mut self.set
    }

    pub fn due(&self) -> i64 {
        self.due
    }

    /// Asks, and asks again. Answers what has happened, and the place that was given.
    pub fn run(
        &mut self,
        iface: &mut Interface,
        home: &Home,
        now: i64,
        wire: &mut impl Wire,
    ) -> Option<(News, Option<Home>)> {
        if self.due > now || !wire.has_room() {
            return None;
        }
        let mut port = Port { frame: None, wire, mtu: home.mtu, mark: Mark::NONE, sender: None };
        let time = Instant::from_micros(now);
        iface.poll_egress(time, &mut port, &mut self.set);
        let news = match self.set.get_mut::<Socket>(self.handle).poll() {
            Some(Event::Configured(config)) => given(&config, home),
            // That is how it begins, too.
            Some(Event::Deconfigured) => {
                core::mem::take(&mut self.is_given).then_some((News::Over, None))
            }
            None => None,
        };
        if let Some((News::Given { .. }, _)) = news {
            (self.is_given, self.asked) = (true, None);
        }
        let is_nobody = self.asked.is_some_and(|asked| now - asked >= NOBODY);
        if is_nobody {
            self.asked = None;
            self.set.get_mut::<Socket>(self.handle).set_retry_config(asking(ASK_CALMLY_S));
        }
        let due = iface.poll_at(time, &self.set).map_or(i64::MAX, |due| due.total_micros());
        // Whoever looks for the server's address looks again, but not all the time.
        self.due = due.max(now + 1000);
        news.or(is_nobody.then_some((News::Nobody, None)))
    }
}

fn asking(seconds: u64) -> RetryConfig {
    let mut retry = RetryConfig::default();
    retry.discover_timeout = Duration::from_secs(seconds);
    retry
}

/// The place that somebody has given; `None`: that is none.
fn given(config: &Config, home: &Home) -> Option<(News, Option<Home>)> {
    let (address, prefix) = (config.address.address(), config.address.prefix_len());
    if address.is_loopback() || !(1..=30).contains(&prefix) {
        return None;
    }
    // Whoever is not in the same network cannot be reached.
    let is_near = |ip: &Ipv4Addr| config.address.contains_addr(ip) && *ip != address;
    let gateway = config.router.filter(is_near).unwrap_or(Ipv4Addr::UNSPECIFIED);
    let mut names = [Ipv4Addr::UNSPECIFIED; NAMES];
    for (name, server) in names.iter_mut().zip(&config.dns_servers) {
        *name = *server;
    }
    let home = Home { address, prefix, gateway, ..*home };
    Some((News::Given { by: config.server.identifier, names }, Some(home)))
}
