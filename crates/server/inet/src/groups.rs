//! Groups: who has joined which, over which interface, and from whom; and who gets what is sent to one.
//!
//! The rules are those of Linux. What is sent to a group of IPv4 comes in over an interface, and only if somebody of this machine has joined there
//! and wants to hear from who has sent it. From there it goes to each socket that has the port: to those that have joined as far as they want to hear
//! from the sender, and to those that have not, unless they have said that they want nothing of groups that they have not joined
//! (`IP_MULTICAST_ALL`, off in sockets of IPv6). To a group of IPv6 nothing leads yet: they can be joined.

use crate::address::plain;
use crate::control::{Passage, Sending, AWAY, LO};
use crate::options::{MULTICAST_ALL, MULTICAST_IF, MULTICAST_LOOP, MULTICAST_TTL};
use crate::socket::{Changes, Family, Inet, Kind, Number, Socket};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use netproto::{Command, GROUPS};
use piecewise::Limits;
use unixproto::Errno;

/// Groups of IPv4 that a socket can be in (Linux: `igmp_max_memberships`), and senders that it can name for one (`igmp_max_msf`).
pub const MEMBERSHIPS_MOST: usize = 20;
/// Likewise.
pub const SENDERS_MOST: usize = 10;
/// Groups of IPv6 that a socket can be in: Linux has it pay 56 bytes for each, of 128 KiB (`optmem_max`).
const MEMBERSHIPS_V6_MOST: usize = 2340;
/// What a membership costs its user.
const COST: usize = 128;
/// Memberships over the wire, of all sockets.
pub(crate) const OUTSIDE: Limits = Limits::of(GROUPS);

const IP_MULTICAST_IF: u32 = 32;
const IP_ADD_MEMBERSHIP: u32 = 35;
const IP_DROP_MEMBERSHIP: u32 = 36;
const IP_UNBLOCK_SOURCE: u32 = 37;
const IP_BLOCK_SOURCE: u32 = 38;
const IP_ADD_SOURCE_MEMBERSHIP: u32 = 39;
const IP_DROP_SOURCE_MEMBERSHIP: u32 = 40;
const IP_MSFILTER: u32 = 41;
const MCAST_JOIN_GROUP: u32 = 42;
const MCAST_BLOCK_SOURCE: u32 = 43;
const MCAST_UNBLOCK_SOURCE: u32 = 44;
const MCAST_LEAVE_GROUP: u32 = 45;
const MCAST_JOIN_SOURCE_GROUP: u32 = 46;
const MCAST_LEAVE_SOURCE_GROUP: u32 = 47;
const MCAST_MSFILTER: u32 = 48;
const IPV6_JOIN_GROUP: u32 = 20;
const IPV6_LEAVE_GROUP: u32 = 21;

/// That a socket is in a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Membership {
    group: IpAddr,
    device: u32,
    /// How the program has named the interface.
    own: Ipv4Addr,
    /// Only the senders are heard; else all but them.
    only: bool,
    /// `None`: none was ever named, so that the kind may still change.
    senders: Option<Vec<Ipv4Addr>>,
}

impl Membership {
    fn admits(&self, sender: IpAddr) -> bool {
        let IpAddr::V4(sender) = sender else { return true };
        self.senders.as_ref().is_some_and(|all| all.contains(&sender)) == self.only
    }
}

/// Where a program wants to join or leave.
#[derive(Clone, Copy)]
struct Place {
    group: Ipv4Addr,
    own: Ipv4Addr,
    interface: u32,
}

/// Parts of a structure of a program's.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn word(&self, at: usize) -> Result<u32, Errno> {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Errno::EINVAL)?;
        Ok(u32::from_ne_bytes(*bytes))
    }
    fn v4(&self, at: usize) -> Result<Ipv4Addr, Errno> {
        self.word(at).map(|word| Ipv4Addr::from(word.to_ne_bytes()))
    }
    fn v6(&self, at: usize) -> Result<Ipv6Addr, Errno> {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk::<16>());
        bytes.map(|bytes| Ipv6Addr::from(*bytes)).ok_or(Errno::EINVAL)
    }
    /// The family of a `struct sockaddr_storage`.
    fn family(&self, at: usize) -> Result<u16, Errno> {
        self.word(at).map(|word| word as u16)
    }
}

/// Bytes of `struct group_req` and `struct group_source_req`, and of `struct group_filter` before its senders.
const GROUP_REQ: usize = 136;
const GROUP_SOURCE_REQ: usize = 264;
const GROUP_FILTER: usize = 144;
const STORAGE: usize = 128;
/// Where the address of a group is in each of them, and behind it that of a sender.
const GROUP: usize = 8;
/// Where the IP is in `struct sockaddr_in`, and in `struct sockaddr_in6`.
const IN: usize = 4;
const IN6: usize = 8;
const AF_INET: u16 = crate::address::AF_INET;
const AF_INET6: u16 = crate::address::AF_INET6;

impl Socket {
    fn membership(&mut self, group: Ipv4Addr, device: u32) -> Option<&mut Membership> {
        self.groups.iter_mut().find(|one| one.group == IpAddr::V4(group) && one.device == device)
    }

    /// Does it hear what a sender says to a group, over an interface?
    fn hears(&self, group: IpAddr, device: u32, sender: IpAddr) -> bool {
        if !group.is_multicast() {
            return true;
        }
        let membership = self.groups.iter().find(|one| one.group == group && one.device == device);
        match membership {
            Some(membership) => membership.admits(sender),
            None => {
                let all = self.options.others.get(&MULTICAST_ALL);
                all.map_or(self.family == Family::V4, |&all| all != 0)
            }
        }
    }
}

impl Inet {
    /// Is there an interface of this number?
    pub fn has_device(&self, device: u32) -> bool {
        device == LO || device == AWAY && self.interface.is_some()
    }

    fn device_of_address(&self, own: Ipv4Addr) -> Option<u32> {
        match own {
            own if self.inside.has(own.into()) => Some(LO),
            own if self.is_local(own.into()) => Some(AWAY),
            _ => None,
        }
    }

    /// The interface that a program means: by its number, by its address, or the one that leads to all groups.
    fn device_of(&self, place: Place) -> Option<u32> {
        match place {
            Place { interface, .. } if interface != 0 => {
                self.has_device(interface).then_some(interface)
            }
            Place { own, .. } if !own.is_unspecified() => self.device_of_address(own),
            _ => self.has_device(AWAY).then_some(AWAY),
        }
    }

    /// Options whose values are structures: `bytes`, which may be more than there are in one.
    ///
    /// # Errors
    /// Linux's; `ENOPROTOOPT`: there is no such option, of senders to groups of IPv6 among them.
    pub fn set_group_option(
        &mut self,
        number: Number,
        (is_v6, name): (bool, u32),
        bytes: &[u8],
    ) -> Result<(), Errno> {
        if is_v6 {
            return self.set_group_v6(number, name, bytes);
        }
        let is_stream = self.get(number)?.kind == Kind::Stream;
        let from = Fields(bytes);
        let exactly = |len: usize| if bytes.len() == len { Ok(()) } else { Err(Errno::EINVAL) };
        match name {
            IP_MULTICAST_IF if is_stream => Err(Errno::EINVAL),
            IP_MULTICAST_IF => self.choose_interface(number, bytes),
            IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP if is_stream => Err(Errno::EPROTO),
            IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP => {
                // `struct ip_mreqn`, or without its last part.
                let place = Place {
                    group: from.v4(0)?,
                    own: from.v4(4)?,
                    interface: from.word(8).unwrap_or(0),
                };
                match name {
                    IP_ADD_MEMBERSHIP => self.join_group(number, place, false),
                    _ => self.leave_group(number, place),
                }
            }
            IP_UNBLOCK_SOURCE..=IP_DROP_SOURCE_MEMBERSHIP => {
                exactly(12)?;
                let place = Place { group: from.v4(0)?, own: from.v4(4)?, interface: 0 };
                let how = match name {
                    IP_BLOCK_SOURCE => (true, false),
                    IP_UNBLOCK_SOURCE => (false, false),
                    IP_ADD_SOURCE_MEMBERSHIP => (true, true),
                    _ => (false, true),
                };
                self.name_sender(number, place, from.v4(8)?, how)
            }
            MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP => {
                if bytes.len() < GROUP_REQ || from.family(GROUP)? != AF_INET {
                    return Err(Errno::EINVAL);
                }
                let place = place_of(&from)?;
                match name {
                    MCAST_JOIN_GROUP => self.join_group(number, place, false),
                    _ => self.leave_group(number, place),
                }
            }
            MCAST_BLOCK_SOURCE
            | MCAST_UNBLOCK_SOURCE
            | MCAST_JOIN_SOURCE_GROUP
            | MCAST_LEAVE_SOURCE_GROUP => {
                exactly(GROUP_SOURCE_REQ)?;
                let sender = GROUP + STORAGE;
                if from.family(GROUP)? != AF_INET || from.family(sender)? != AF_INET {
                    return Err(Errno::EADDRNOTAVAIL);
                }
                let how = match name {
                    MCAST_BLOCK_SOURCE => (true, false),
                    MCAST_UNBLOCK_SOURCE => (false, false),
                    MCAST_JOIN_SOURCE_GROUP => (true, true),
                    _ => (false, true),
                };
                self.name_sender(number, place_of(&from)?, from.v4(sender + IN)?, how)
            }
            IP_MSFILTER => {
                let place = Place { group: from.v4(0)?, own: from.v4(4)?, interface: 0 };
                let (mode, count) = (from.word(8)?, from.word(12)? as usize);
                if count > SENDERS_MOST {
                    return Err(Errno::ENOBUFS);
                }
                let senders = (0..count).map(|n| from.v4(16 + 4 * n)).collect::<Result<_, _>>()?;
                self.name_senders(number, place, mode, senders)
            }
            MCAST_MSFILTER => {
                if bytes.len() < GROUP_FILTER {
                    return Err(Errno::EINVAL);
                }
                let (mode, count) = (from.word(GROUP + STORAGE)?, from.word(GROUP + STORAGE + 4)?);
                let count = count as usize;
                if count > SENDERS_MOST {
                    return Err(Errno::ENOBUFS);
                }
                if bytes.len() < GROUP_FILTER + count * STORAGE {
                    return Err(Errno::EINVAL);
                }
                if from.family(GROUP)? != AF_INET {
                    return Err(Errno::EADDRNOTAVAIL);
                }
                let sender = |n: usize| {
                    let at = GROUP_FILTER + n * STORAGE;
                    match from.family(at)? {
                        AF_INET => from.v4(at + IN),
                        _ => Err(Errno::EADDRNOTAVAIL),
                    }
                };
                let senders = (0..count).map(sender).collect::<Result<_, _>>()?;
                self.name_senders(number, place_of(&from)?, mode, senders)
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn set_group_v6(&mut self, number: Number, name: u32, bytes: &[u8]) -> Result<(), Errno> {
        let is_stream = self.get(number)?.kind == Kind::Stream;
        let from = Fields(bytes);
        let (group, interface) = match name {
            IPV6_JOIN_GROUP | IPV6_LEAVE_GROUP if is_stream => return Err(Errno::EPROTO),
            // `struct ipv6_mreq`
            IPV6_JOIN_GROUP | IPV6_LEAVE_GROUP => (from.v6(0)?, from.word(16)?),
            MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP => {
                if bytes.len() < GROUP_REQ {
                    return Err(Errno::EINVAL);
                }
                if from.family(GROUP)? != AF_INET6 {
                    return Err(Errno::EADDRNOTAVAIL);
                }
                (from.v6(GROUP + IN6)?, from.word(0)?)
            }
            _ => return Err(Errno::ENOPROTOOPT),
        };
        if !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let socket = self.get(number)?;
        let is_it = |one: &Membership| {
            one.group == IpAddr::V6(group) && (interface == 0 || one.device == interface)
        };
        let found = socket.groups.iter().position(is_it);
        if matches!(name, IPV6_LEAVE_GROUP | MCAST_LEAVE_GROUP) {
            let found = found.ok_or(Errno::EADDRNOTAVAIL)?;
            self.leave_at(number, found);
            return Ok(());
        }
        if found.is_some() {
            return Err(Errno::EADDRINUSE);
        }
        let place = Place { group: Ipv4Addr::UNSPECIFIED, own: Ipv4Addr::UNSPECIFIED, interface };
        let device = self.device_of(place).ok_or(Errno::ENODEV)?;
        if socket.groups.iter().filter(|one| one.group.is_ipv6()).count() >= MEMBERSHIPS_V6_MOST {
            return Err(Errno::ENOMEM);
        }
        let membership = Membership {
            group: group.into(),
            device,
            own: Ipv4Addr::UNSPECIFIED,
            only: false,
            senders: None,
        };
        self.enter(number, membership).map_err(|_| Errno::ENOMEM)
    }

    /// `IP_MULTICAST_IF`: `struct ip_mreqn`, one without the number of an interface, or an address alone.
    fn choose_interface(&mut self, number: Number, bytes: &[u8]) -> Result<(), Errno> {
        let from = Fields(bytes);
        let own = if bytes.len() >= 8 { from.v4(4)? } else { from.v4(0)? };
        let interface = from.word(8).unwrap_or(0);
        let device = match interface {
            0 if own.is_unspecified() => Some(0),
            0 => self.device_of_address(own),
            _ => self.has_device(interface).then_some(interface),
        };
        let device = device.ok_or(Errno::EADDRNOTAVAIL)?;
        let chosen = u64::from(device) << 32 | u64::from(u32::from(own));
        self.get_mut(number)?.options.others.insert(MULTICAST_IF, chosen);
        Ok(())
    }

    /// The interface over which a socket sends to groups (0: none in particular), and the address that it is known by.
    pub fn multicast_interface(&self, number: Number) -> Result<(u32, Ipv4Addr), Errno> {
        let chosen = self.get(number)?.options.others.get(&MULTICAST_IF).copied().unwrap_or(0);
        Ok(((chosen >> 32) as u32, Ipv4Addr::from(chosen as u32)))
    }

    fn join_group(&mut self, number: Number, place: Place, only: bool) -> Result<(), Errno> {
        if !place.group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let device = self.device_of(place).ok_or(Errno::ENODEV)?;
        let socket = self.get_mut(number)?;
        if socket.membership(place.group, device).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        let count = socket.groups.iter().filter(|one| one.group.is_ipv4()).count();
        if count >= MEMBERSHIPS_MOST {
            return Err(Errno::ENOBUFS);
        }
        let (group, own) = (place.group.into(), place.own);
        self.enter(number, Membership { group, device, own, only, senders: None })
    }

    fn enter(&mut self, number: Number, membership: Membership) -> Result<(), Errno> {
        let uid = self.get(number)?.uid;
        let (group, device) = (membership.group, membership.device);
        let is_away = device == AWAY;
        if !self.shares.has_room(uid, COST) || is_away && !self.away.has_room(uid, 1) {
            return Err(Errno::ENOBUFS);
        }
        self.shares.take(uid, COST);
        if is_away {
            self.away.take(uid, 1);
        }
        let is_first = self.members_of(group, device).next().is_none();
        self.members.insert((group, device, number));
        self.get_mut(number)?.groups.push(membership);
        if is_first {
            self.tell_group(group, device, true);
        }
        Ok(())
    }

    fn leave_group(&mut self, number: Number, place: Place) -> Result<(), Errno> {
        let device = self.device_of(place);
        if place.interface == 0 && place.own.is_unspecified() && device.is_none() {
            return Err(Errno::ENODEV);
        }
        let interface = if place.interface != 0 { Some(place.interface) } else { device };
        let is_it = |one: &Membership| {
            one.group == IpAddr::V4(place.group)
                && match interface {
                    Some(interface) => one.device == interface,
                    None => one.own == place.own,
                }
        };
        let found = self.get(number)?.groups.iter().position(is_it).ok_or(Errno::EADDRNOTAVAIL)?;
        self.leave_at(number, found);
        Ok(())
    }

    fn leave_at(&mut self, number: Number, which: usize) {
        let Ok(socket) = self.get_mut(number) else { return };
        let uid = socket.uid;
        let Membership { group, device, .. } = socket.groups.remove(which);
        self.left_group(number, uid, (group, device));
    }

    fn left_group(&mut self, number: Number, uid: u32, (group, device): (IpAddr, u32)) {
        self.shares.give_back(uid, COST);
        if device == AWAY {
            self.away.give_back(uid, 1);
        }
        self.members.remove(&(group, device, number));
        if self.members_of(group, device).next().is_none() {
            self.tell_group(group, device, false);
        }
    }

    /// A socket goes.
    pub(crate) fn forget_groups(&mut self, number: Number) {
        let Ok(socket) = self.get_mut(number) else { return };
        let (uid, all) = (socket.uid, core::mem::take(&mut socket.groups));
        for Membership { group, device, .. } in all {
            self.left_group(number, uid, (group, device));
        }
    }

    fn members_of(&self, group: IpAddr, device: u32) -> impl Iterator<Item = Number> + '_ {
        let all = (group, device, 0)..=(group, device, Number::MAX);
        self.members.range(all).map(|&(_, _, number)| number)
    }

    /// The network server is told which groups of IPv4 somebody is in.
    fn tell_group(&mut self, group: IpAddr, device: u32, is_in: bool) {
        let IpAddr::V4(group) = group else { return };
        if device == AWAY && self.interface.is_some() {
            let group = group.into();
            self.command(if is_in { Command::Join { group } } else { Command::Leave { group } });
        }
    }

    /// There is a network server that knows of no group.
    pub(crate) fn tell_groups(&mut self) {
        let mut all: Vec<IpAddr> = self
            .members
            .iter()
            .filter(|(_, device, _)| *device == AWAY)
            .map(|&(group, ..)| group)
            .collect();
        all.dedup();
        all.into_iter().for_each(|group| self.tell_group(group, AWAY, true));
    }

    /// A sender is heard in a group from now on, or not any more. `adds`: it is named, else forgotten; `only`: those that are named are the only ones.
    fn name_sender(
        &mut self,
        number: Number,
        place: Place,
        sender: Ipv4Addr,
        (adds, only): (bool, bool),
    ) -> Result<(), Errno> {
        if adds && only {
            match self.join_group(number, place, true) {
                Ok(()) | Err(Errno::EADDRINUSE) => {}
                Err(error) => return Err(error),
            }
        }
        if !place.group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let device = self.device_of(place).ok_or(Errno::ENODEV)?;
        let socket = self.get_mut(number)?;
        let membership = socket.membership(place.group, device).ok_or(Errno::EINVAL)?;
        if membership.only != only {
            if membership.senders.is_some() {
                return Err(Errno::EINVAL);
            }
            membership.only = only;
        }
        let found =
            membership.senders.as_ref().and_then(|all| all.iter().position(|one| *one == sender));
        match (adds, found, &mut membership.senders) {
            (false, None, _) => Err(Errno::EADDRNOTAVAIL),
            (false, Some(_), Some(all)) if only && all.len() == 1 => {
                // To hear nobody is to leave.
                self.leave_group(number, place)
            }
            (false, Some(at), Some(all)) => {
                all.remove(at);
                Ok(())
            }
            (true, _, Some(all)) if all.len() >= SENDERS_MOST => Err(Errno::ENOBUFS),
            (true, Some(_), _) => Err(Errno::EADDRNOTAVAIL),
            (_, _, all) => {
                all.get_or_insert_default().push(sender);
                Ok(())
            }
        }
    }

    /// All senders at once. `mode`: 0, all but them; 1, only them.
    fn name_senders(
        &mut self,
        number: Number,
        place: Place,
        mode: u32,
        senders: Vec<Ipv4Addr>,
    ) -> Result<(), Errno> {
        if !place.group.is_multicast() || mode > 1 {
            return Err(Errno::EINVAL);
        }
        let device = self.device_of(place).ok_or(Errno::ENODEV)?;
        let only = mode == 1;
        if only && senders.is_empty() {
            return self.leave_group(number, place);
        }
        let socket = self.get_mut(number)?;
        let membership = socket.membership(place.group, device).ok_or(Errno::EINVAL)?;
        membership.only = only;
        membership.senders = (!senders.is_empty()).then_some(senders);
        Ok(())
    }

    /// Over which interface what a socket sends to a group of IPv4 goes, and from which address.
    ///
    /// # Errors
    /// `ENETUNREACH`, `ENODEV`, `EINVAL`: there is none, or it is not this machine's.
    pub(crate) fn way_to_group(
        &self,
        number: Number,
        sending: Sending,
    ) -> Result<(u32, IpAddr), Errno> {
        let (chosen, known) = self.multicast_interface(number)?;
        let local = self.get(number)?.local.ip().to_canonical();
        let own = sending.source.or((!local.is_unspecified()).then_some(local));
        let own = own.filter(|own| !own.is_multicast());
        let own = own.or((!known.is_unspecified()).then_some(known.into()));
        let device = match (sending.interface, chosen, own) {
            (0, 0, Some(IpAddr::V4(own))) => self.device_of_address(own).ok_or(Errno::EINVAL)?,
            (0, 0, _) => AWAY,
            (0, device, _) | (device, ..) => device,
        };
        let source = match (own, device, self.interface) {
            (Some(own), ..) => own,
            (None, LO, _) => Ipv4Addr::LOCALHOST.into(),
            (None, _, Some(interface)) => interface.address.into(),
            (None, _, None) => return Err(Errno::ENETUNREACH),
        };
        if !source.is_ipv4() || !self.has_device(device) {
            return Err(Errno::ENETUNREACH);
        }
        // What has an address of this machine's alone cannot be answered.
        if !self.is_local(source) || device == AWAY && source.is_loopback() {
            return Err(Errno::EINVAL);
        }
        Ok((device, source))
    }

    /// Hops that what a socket sends to groups may take.
    pub(crate) fn group_hops(&self, number: Number) -> Result<u8, Errno> {
        let hops = self.get(number)?.options.others.get(&MULTICAST_TTL).copied();
        Ok(hops.map_or(1, |hops| hops as u8))
    }

    /// A datagram goes to a group over an interface.
    pub(crate) fn send_to_group(
        &mut self,
        number: Number,
        (way, device): (Passage, u32),
        bytes: Vec<u8>,
        changes: &mut Changes,
    ) -> Result<(), Errno> {
        let socket = self.get(number)?;
        let uid = socket.uid;
        let loops = socket.options.others.get(&MULTICAST_LOOP).is_none_or(|&loops| loops != 0);
        let Passage { from: local, to: remote, hops, class, .. } = way;
        if device == LO {
            self.udp_went_inside(&way, &bytes, changes);
            self.deliver_to_all(way, bytes, Some(uid), changes);
            return Ok(());
        }
        // None at all: it stays in the machine.
        if hops > 0 && self.has_calm() {
            let protocol = netproto::Protocol::Udp;
            let head = Command::Datagram { protocol, local, remote, hops, class, bytes: &[] };
            self.command_with(head, bytes.clone());
        }
        if loops {
            let way = Passage { is_outside: true, ..way };
            self.deliver_to_all(way, bytes, Some(uid), changes);
        }
        Ok(())
    }

    /// A datagram has come for all that have a port. `payer`: who pays for it; else each does.
    pub(crate) fn deliver_to_all(
        &mut self,
        way: Passage,
        bytes: Vec<u8>,
        payer: Option<u32>,
        changes: &mut Changes,
    ) {
        let (to, from) = (way.to.ip().to_canonical(), way.from.ip().to_canonical());
        let device = if way.is_outside { AWAY } else { LO };
        let all_hosts = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1));
        let admits = |number: Number| {
            self.get(number).is_ok_and(|socket| {
                let mut all = socket.groups.iter();
                all.any(|one| one.group == to && one.device == device && one.admits(from))
            })
        };
        // All machines are in one of them.
        let is_in =
            !to.is_multicast() || to == all_hosts || self.members_of(to, device).any(admits);
        if !is_in {
            return;
        }
        let found: Vec<(Number, u32)> = self
            .ports
            .at(Kind::Datagram, way.to.port())
            .iter()
            .filter_map(|&number| {
                let socket = self.get(number).ok()?;
                let is_from = socket.remote.is_none_or(|remote| plain(remote) == plain(way.from));
                let hears = is_from && socket.covers(to) && socket.hears(to, device, from);
                hears.then_some((number, socket.uid))
            })
            .collect();
        let Some((&(last, uid), others)) = found.split_last() else { return };
        for &(number, uid) in others {
            self.deliver(number, bytes.clone(), (way, payer.unwrap_or(uid)), changes);
        }
        self.deliver(last, bytes, (way, payer.unwrap_or(uid)), changes);
    }
}

/// The interface and the group of `struct group_req` and its relatives.
fn place_of(from: &Fields) -> Result<Place, Errno> {
    Ok(Place { group: from.v4(GROUP + IN)?, own: Ipv4Addr::UNSPECIFIED, interface: from.word(0)? })
}

/// Where a datagram that is for many is read, as far as that is not one of its own: which address of this machine it was sent to.
pub(crate) fn own_of(way: &Passage, outside: Option<Ipv4Addr>) -> Ipv4Addr {
    match (way.to.ip().to_canonical(), way.is_outside) {
        (IpAddr::V4(to), _) if !to.is_multicast() => to,
        (_, false) => Ipv4Addr::LOCALHOST,
        (_, true) => outside.unwrap_or(Ipv4Addr::UNSPECIFIED),
    }
}
