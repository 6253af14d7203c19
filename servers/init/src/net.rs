//! The server of the network. When it fails there is another one: its connections are lost, and nothing else.

use crate::abi::layout::PAGE;
use crate::abi::slots::{MEMD, NET, SELF_EP, SESSION, UNIXD};
use crate::disks::UNIXD_EP;
use crate::servers::{file, StartError, NET_LINE};
use drivers::{bus, DeviceType, Slots};
use libos::ephemeral::Window;
use libos::frame::{Frame, FrameRequest};
use libos::ram::Ram;
use libos::runtime::Boot;
use libos::session::{Address, FAILS_AT_START, NETD_BADGE, NET_GONE};
use libos::spawn::Child;
use libos::{bringup, cmdline, domain, Cap, CapAddr, CapType, Rights};

const PATH: &str = "boot/netd";
/// Servers that there may be, one after the other: one that always fails is not started for ever.
const MOST: u32 = 100;
/// Of these that fail before they have said where in the network this is, so many in a row.
const MOST_AT_START: u32 = 5;
/// Of the machine's memory, the buffers of connections have at most this part; and bounds of that, in MiB.
const PART: u64 = 16;
const LEAST_MIB: u64 = 1;
const MOST_MIB: u64 = 64;

/// The device, and its server.
pub struct Net {
    device: bus::Claimed,
    /// What the server and `unixd` share.
    frame: CapAddr,
    /// The server's, with all rights: of all of them.
    endpoint: CapAddr,
    address: Address,
    /// So many more servers fail by themselves, if the command line wants that.
    failing: u32,
    child: Option<Child>,
    started: u32,
    /// The latest so many failed at their start.
    failed_at_start: u32,
}

impl Net {
    /// Claims the device, if the command line says that there is one.
    pub fn claim(boot: &Boot, window: &mut Window) -> Result<Option<Net>, StartError> {
        let Some(text) = cmdline::option(boot.cmdline(), "net") else { return Ok(None) };
        let mib = ((boot.info.ram_bytes >> 20) / PART).clamp(LEAST_MIB, MOST_MIB) as u8;
        let Some(mut address) = Address::parse(text, mib) else {
            libos::log!("init: {text:?} is no place in a network");
            return Ok(None);
        };
        let number = |name| cmdline::option(boot.cmdline(), name)?.parse::<u8>().ok();
        address.fails = number("netfails").unwrap_or(0);
        let failing = u32::from(number("nettimes").unwrap_or(1));
        let device = match bus::claim(boot, DeviceType::Network, NET_LINE, window) {
            Ok(device) => device,
            Err(why) => {
                libos::log!("init: the network cannot be used: {why:?}");
                return Ok(None);
            }
        };
        let frame = Frame::with(FrameRequest::bytes(netproto::BOTH as u64))?.into_cap();
        let endpoint = domain::with(|domain| {
            let slot = domain.slot()?;
            domain.arena.make(CapType::Endpoint, PAGE, 1, slot.into())?;
            Ok(slot)
        })?;
        Ok(Some(Net {
            device,
            frame,
            endpoint,
            address,
            failing,
            child: None,
            started: 0,
            failed_at_start: 0,
        }))
    }

    /// Gives `unixd` what it speaks to the server with.
    pub fn give(&self, child: &Child) -> Result<(), libos::Status> {
        self.frame.copy_to(child.slot(NET))?;
        self.endpoint.mint(child.slot(NET.plus(1)), Rights::SEND)
    }

    /// Starts the server.
    fn start(&mut self, boot: &Boot, window: &mut Window) -> Result<(), StartError> {
        self.started += 1;
        let elf = file(boot, PATH)?.data;
        let child = bringup::start_child(elf, NETD_BADGE, window, |child, _, _| {
            child.give(MEMD, MEMD)?;
            child.give(UNIXD_EP, UNIXD)?;
            self.frame.copy_to(child.slot(SESSION))?;
            self.endpoint.copy_to(child.slot(SELF_EP))?;
            let [w0, w1, w2, w3] = self.device.lend(child, Slots::FIRST)?;
            Ok([w0, w1, w2, w3, self.address.to_word()])
        });
        self.failing = self.failing.saturating_sub(1);
        if self.failing == 0 && self.address.fails != FAILS_AT_START {
            self.address.fails = 0;
        }
        self.child = Some(child.map_err(|error| StartError::Server(PATH, error))?);
        Ok(())
    }

    /// It has failed: its memory goes home once the device has forgotten it.
    pub fn end(&mut self, window: &mut Window) {
        let ended = self.device.reset(window);
        let ended = ended.and_then(|()| self.child.take().map_or(Ok(()), Child::destroy));
        if let Err(error) = ended {
            // Then there is no other one.
            self.started = MOST;
            libos::log!("init: the network's server cannot be taken apart: {error:?}");
        }
        // Without `unixd` there is nobody to be told.
        let _ = UNIXD_EP.notify(NET_GONE);
    }

    /// `unixd` listens, and has forgotten the last one, which had told it where in the network this is, or had not. Is there to be another one?
    pub fn another(&mut self, came_up: bool) -> Option<&mut Net> {
        if self.child.is_some() {
            return None;
        }
        self.failed_at_start = if came_up { 0 } else { self.failed_at_start + 1 };
        if self.failed_at_start >= MOST_AT_START {
            libos::log!("init: the network is gone: its server fails at its start");
            return None;
        }
        if self.started >= MOST {
            libos::log!("init: the network is gone: {MOST} servers have failed");
            return None;
        }
        Some(self)
    }

    /// Starts it.
    pub fn begin_again(&mut self, boot: &Boot, window: &mut Window) {
        if let Err(error) = self.start(boot, window) {
            libos::log!("init: the network is gone: {error}");
        }
    }
}
