//! TCP/IP of the network server: what `unixd` wants ([`Command`]s) and frames of a network go in, what has happened ([`Event`]s) and other frames come out.
//!
//! Segments, timers and windows are `smoltcp`'s; how much may be on its way, and what is repeated, says the module `sender`. A connection is a set of sockets of its own there, found by its four numbers, so that
//! a frame costs the same with a thousand connections as with one; sockets that listen do not exist: a connection is made by the frame that asks for it.
//!
//! Nothing is believed. A frame may be anything; half-open connections are few and go soon; a peer that reads nothing holds the buffers of its
//! connection; all buffers together have a size ([`Stack::new`]), by which new ones become smaller, and then are refused.
//!
//! Nothing here knows of a device, a clock or a ring ([`Wire`], [`Events`]): so two of these can speak to each other in a test, over a wire that
//! loses, repeats and reorders what it is told.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod conn;
mod cubic;
mod datagram;
mod frame;
mod lease;
mod parts;
mod passing;
mod port;
mod router;
mod segment;
mod sender;
mod stack;
mod sums;
mod watch;

#[cfg(test)]
mod tests;

pub use netproto::{Command, Event};
pub use stack::Stack;
pub use sums::{complete, Sum, Unsummed};

use core::net::Ipv4Addr;

/// Bytes of the largest frame: head, and what an Ethernet carries.
pub const FRAME: usize = 14 + 1500;

/// Where frames go.
pub trait Wire {
    /// Is there room for one?
    fn has_room(&mut self) -> bool;
    /// Sends a frame of `bytes`, which `fill` writes. Without room it is lost, but written nevertheless.
    fn send<R>(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R;

    /// Does it sum segments that are to be summed, and say what it knows of the sums of those that come? What it says first is so for good.
    fn sums(&self) -> bool {
        false
    }
    /// Sends one like `send`, in which the wire is to sum what `fill` says.
    fn send_unsummed<R>(
        &mut self,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> (R, Option<Unsummed>),
    ) -> R {
        self.send(bytes, |frame| fill(frame).0)
    }
}

/// Who hears of events.
pub trait Events {
    /// Tells of one. `false`: there is no room, it was not told.
    fn tell(&mut self, event: &Event) -> bool;
    /// The same, of one that may be lost, so that others have room.
    fn tell_spare(&mut self, event: &Event) -> bool;
}

/// The machine's place in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Of the device.
    pub mac: [u8; 6],
    /// Its address.
    pub address: Ipv4Addr,
    /// Bits of it that are the network's.
    pub prefix: u8,
    /// Who knows the way to others.
    pub gateway: Ipv4Addr,
    /// Most bytes of a packet.
    pub mtu: u16,
}

/// `unixd` has said what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;
