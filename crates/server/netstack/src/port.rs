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
    /// The type of service of what goes.
    pub class: u8,
}

pub struct Came<'a>(&'a [u8]);
pub struct Goes<'a, W>(&'a mut W, u8);

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
        Some((Came(self.frame.take()?), Goes(self.wire, self.class)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Goes<'_, W>> {
        if self.wire.has_room() {
            Some(Goes(self.wire, self.class))
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
        let class = self.1;
        self.0.send(bytes, |frame| {
            let result = fill(frame);
            if class != 0 {
                set_class(frame, class);
            }
            result
        })
    }
}

/// Writes the type of service into a packet of IPv4: `smoltcp` leaves it 0.
fn set_class(frame: &mut [u8], class: u8) {
    const IPV4: [u8; 2] = [8, 0];
    const IP_HEAD: usize = 20;
    if frame.get(12..14) != Some(&IPV4[..]) || frame.len() < HEAD + IP_HEAD {
        return;
    }
    let packet = &mut frame[HEAD..];
    packet[1] = class;
    Ipv4Packet::new_unchecked(packet).fill_checksum();
}
