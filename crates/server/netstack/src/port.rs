//! A wire, as `smoltcp` sees devices: with one frame that has come, or none.

use crate::sender::Sender;
use crate::{sums, Wire};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::Ipv4Packet;

/// Bytes of the head of an Ethernet frame.
pub const HEAD: usize = 14;

pub struct Port<'a, W> {
    pub frame: Option<&'a [u8]>,
    pub wire: &'a mut W,
    pub mtu: u16,
    /// What becomes of packets that go: `smoltcp` makes their heads.
    pub mark: Mark,
    /// Who is told of segments, if they are of a connection.
    pub sender: Option<&'a mut Sender>,
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
pub struct Goes<'a, W>(&'a mut W, Mark, Option<(&'a mut Sender, i64)>);

impl<W> Port<'_, W> {
    fn goes(&mut self, now: Instant) -> Goes<'_, W> {
        let sender = self.sender.as_deref_mut().map(|sender| (sender, now.total_micros()));
        Goes(self.wire, self.mark, sender)
    }
}

impl<W: Wire> Device for Port<'_, W> {
    type RxToken<'a>
        = Came<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Goes<'a, W>
    where
        Self: 'a;

    fn receive(&mut self, now: Instant) -> Option<(Came<'_>, Goes<'_, W>)> {
        let frame = self.frame.take()?;
        Some((Came(frame), self.goes(now)))
    }

    fn transmit(&mut self, now: Instant) -> Option<Goes<'_, W>> {
        self.wire.has_room().then(|| self.goes(now))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        all.medium = Medium::Ethernet;
        all.max_transmission_unit = usize::from(self.mtu) + HEAD;
        if self.wire.sums() {
            all.checksum.tcp = Checksum::None;
        }
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
        let Goes(wire, mark, sender) = self;
        let sums = wire.sums();
        wire.send_unsummed(bytes, |frame| {
            let result = fill(frame);
            mark.write(frame);
            let is_of_conn = sender.is_some();
            if let Some((sender, now)) = sender {
                sender.sent(frame, now);
            }
            let unsummed = match (sums, is_of_conn) {
                (true, true) => sums::leave(frame),
                // What nobody has asked for.
                (true, false) => {
                    sums::make(frame);
                    None
                }
                (false, _) => None,
            };
            (result, unsummed)
        })
    }
}

impl Mark {
    fn write(self, frame: &mut [u8]) {
        const IPV4: [u8; 2] = [8, 0];
        const IPV6: [u8; 2] = [0x86, 0xdd];
        if frame.get(12..14) == Some(&IPV6[..]) && frame.len() > HEAD + 1 {
            right_groups(&mut frame[HEAD..]);
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

/// `smoltcp` 0.14 tells of a group of IPv6 that is joined as of one that is left, and the other way round (MLDv2, RFC 3810 §5.2.12): the two kinds of records are
/// exchanged in such a report. No program can send one: it has a head (hop by hop) before that of ICMP which nobody else makes.
fn right_groups(packet: &mut [u8]) {
    const HOP_BY_HOP: u8 = 0;
    const ICMP6: u8 = 58;
    const REPORT: u8 = 143;
    /// Bytes of the head of a packet, of a report before its records, and of a record without sources.
    const IP6_HEAD: usize = 40;
    const REPORT_HEAD: usize = 8;
    const RECORD: usize = 20;
    /// To include nobody but those named (who names none has left), and to exclude them.
    const INCLUDE: u8 = 3;
    const EXCLUDE: u8 = 4;
    let before = match packet.get(IP6_HEAD..IP6_HEAD + 2) {
        Some(&[ICMP6, eights]) if packet[6] == HOP_BY_HOP => 8 * (usize::from(eights) + 1),
        _ => return,
    };
    let Some(report) = packet.get_mut(IP6_HEAD + before..) else { return };
    if report.len() < REPORT_HEAD || report[0] != REPORT {
        return;
    }
    let mut sum = u32::from(!u16::from_be_bytes([report[2], report[3]]));
    for record in report[REPORT_HEAD..].chunks_exact_mut(RECORD) {
        // Without sources all are as long as that.
        let kind = match record[0] {
            INCLUDE => EXCLUDE,
            EXCLUDE => INCLUDE,
            _ => continue,
        };
        // RFC 1624: the old word goes out of the sum, the new one comes in.
        sum += u32::from(!(u16::from(record[0]) << 8)) + u32::from(u16::from(kind) << 8);
        record[0] = kind;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    report[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
