//! A wire, as `smoltcp` sees devices: with one frame that has come, or none.

use crate::Wire;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::Ipv4Packet;

/// Bytes of the head of an Ethernet frame.
const HEAD: usize = 14;

pub struct Port<'a, W> {
    pub frame: Option<&'a [u8]>,
    pub wire: &'a mut W,
    pub mtu: u16,
    /// What becomes of packets that go: `smoltcp` makes their heads.
    pub mark: Mark,
}

/// What is written into the head of a packet of IPv4.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// The type of service.
    Class(u8),
    /// All of it: there is one frame.
    Head([u8; IP_HEAD]),
}

impl Mark {
    /// Nothing.
    pub const NONE: Mark = Mark::Class(0);
}

/// Bytes of the head of a packet of IPv4, without options.
pub const IP_HEAD: usize = 20;

pub struct Came<'a>(&'a [u8]);
pub struct Goes<'a, W>(&'a mut W, Mark);

impl<W: Wire> Device for Port<'_, W> {
    type RxToken<'a>
        = Came<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Goes<'a, W>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Came<'_>, Goes<'_, W>)> {
        Some((Came(self.frame.take()?), Goes(self.wire, self.mark)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Goes<'_, W>> {
        if self.wire.has_room() {
            Some(Goes(self.wire, self.mark))
        } else {
            None
        }
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        all.medium = Medium::Ethernet;
        all.max_transmission_unit = usize::from(self.mtu) + HEAD;
        all
    }
}

impl RxToken for Came<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(self.0)
    }
}

impl<W: Wire> TxToken for Goes<'_, W> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, fill: F) -> R {
        let mark = self.1;
        self.0.send(bytes, |frame| {
            let result = fill(frame);
            mark.write(frame);
            result
        })
    }
}

impl Mark {
    fn write(self, frame: &mut [u8]) {
        const IPV4: [u8; 2] = [8, 0];
        const IPV6: [u8; 2] = [0x86, 0xdd];
        if frame.get(12..14) == Some(&IPV6[..]) && frame.len() > HEAD + 1 {
            if let Mark::Class(class) = self {
                frame[HEAD] = frame[HEAD] & 0xf0 | class >> 4;
                frame[HEAD + 1] = frame[HEAD + 1] & 0xf | class << 4;
            }
            return;
        }
        if frame.get(12..14) != Some(&IPV4[..]) || frame.len() < HEAD + IP_HEAD {
            return;
        }
        let packet = &mut frame[HEAD..];
        match self {
            Mark::Class(0) => return,
            Mark::Class(class) => packet[1] = class,
            Mark::Head(head) => packet[..IP_HEAD].copy_from_slice(&head),
        }
        // What says that it has words that it has not is not this machine's to send.
        if usize::from(packet[0] & 0xf) * 4 <= packet.len() {
            Ipv4Packet::new_unchecked(packet).fill_checksum();
        }
    }
}
