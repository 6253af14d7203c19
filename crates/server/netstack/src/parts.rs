//! Packets of IPv6 that come in parts (RFC 8200, 4.5), which `smoltcp` does not put together, and those that have to go in parts.
//!
//! Nobody says how many parts there will be, or that any will come: so there are few packets at once, with few bytes together, each for a time; the oldest goes if
//! there is no room for another. A packet of which two parts overlap is forgotten as a whole (RFC 5722).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Packets of which parts wait for others, bytes of all parts, and what each part counts besides its own.
const PACKETS: usize = 16;
const BYTES: usize = 256 * 1024;
const OVERHEAD: usize = 64;
/// Microseconds that they wait.
const PATIENCE: i64 = 60_000_000;
/// Bytes of the head of a frame, of a packet, of a part.
const FRAME_HEAD: usize = 14;
const HEAD: usize = 40;
const PART_HEAD: usize = 8;
/// The protocol's number.
pub const PART: u8 = 44;
/// Bytes of what is put together, at most.
const LONGEST: usize = 65_535;
/// All parts but the last one are so many bytes long, or a multiple.
const STEP: usize = 8;

/// Whose a part is: the addresses, and the packet's number.
type Name = ([u8; 32], [u8; 4]);

struct Waiting {
    name: Name,
    until: i64,
    /// What comes before the parts: of the frame and of the packet, with the protocol of what is in them; of the first part.
    head: Option<([u8; FRAME_HEAD + HEAD], u8)>,
    /// By where they begin.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Where the last one ends.
    end: Option<usize>,
    cost: usize,
}

/// See above.
#[derive(Default)]
pub struct Parts {
    all: VecDeque<Waiting>,
    cost: usize,
}

impl Parts {
    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Parts::default();
    }

    /// A frame with a part has come. Answers with the frame that it would have been as a whole, if it completes a packet that is none of parts again.
    pub fn came(&mut self, frame: &[u8], now: i64) -> Option<Vec<u8>> {
        while self.all.front().is_some_and(|first| first.until <= now) {
            self.forget(0);
        }
        let head = *frame.first_chunk::<{ FRAME_HEAD + HEAD }>()?;
        let len = usize::from(u16::from_be_bytes([head[FRAME_HEAD + 4], head[FRAME_HEAD + 5]]));
        let part = frame.get(head.len()..head.len() + len)?;
        let (&[protocol, _, high, low, ref ident @ ..], bytes) =
            part.split_first_chunk::<PART_HEAD>()?;
        let (at, is_last) = (usize::from(u16::from_be_bytes([high, low & !7])), low & 1 == 0);
        let name = (*head[FRAME_HEAD + 8..].first_chunk()?, *ident);
        let found = self.all.iter().position(|one| one.name == name);
        let end = at + bytes.len();
        let is_right = end <= LONGEST && !bytes.is_empty() && (is_last || bytes.len() % STEP == 0);
        if !is_right {
            return None;
        }
        let which = found.unwrap_or_else(|| self.begin(name, now));
        let one = &mut self.all[which];
        let before = one.parts.range(..end).next_back().map(|(at, part)| at + part.len());
        let overlaps = before.is_some_and(|before| before > at)
            || one.end.is_some_and(|last| end > last || is_last && end != last)
            || is_last && one.parts.range(end..).next().is_some();
        if overlaps {
            self.forget(which);
            return None;
        }
        one.end = one.end.or(is_last.then_some(end));
        if at == 0 {
            one.head = Some((head, protocol));
        }
        one.parts.insert(at, bytes.to_vec());
        one.cost += bytes.len() + OVERHEAD;
        self.cost += bytes.len() + OVERHEAD;
        let have: usize = one.parts.values().map(Vec::len).sum();
        if one.end == Some(have) {
            let whole = one.whole();
            self.forget(which);
            return whole;
        }
        while self.cost > BYTES {
            self.forget(0);
        }
        None
    }

    fn begin(&mut self, name: Name, now: i64) -> usize {
        if self.all.len() == PACKETS {
            self.forget(0);
        }
        let (until, parts) = (now + PATIENCE, BTreeMap::new());
        self.all.push_back(Waiting { name, until, head: None, parts, end: None, cost: 0 });
        self.all.len() - 1
    }

    fn forget(&mut self, which: usize) {
        self.cost -= self.all.remove(which).map_or(0, |one| one.cost);
    }
}

impl Waiting {
    fn whole(&self) -> Option<Vec<u8>> {
        // Parts in parts would lead ever deeper.
        let (mut head, protocol) = self.head.filter(|&(_, protocol)| protocol != PART)?;
        let len = u16::try_from(self.end?).ok()?;
        head[FRAME_HEAD + 4..FRAME_HEAD + 6].copy_from_slice(&len.to_be_bytes());
        head[FRAME_HEAD + 6] = protocol;
        let mut frame = head.to_vec();
        self.parts.values().for_each(|part| frame.extend_from_slice(part));
        Some(frame)
    }
}

/// Cuts a packet into parts that are packets of at most `mtu` bytes; a short one is left as it is. `ident`: the packet's number.
pub fn cut(packet: Vec<u8>, mtu: usize, ident: u32) -> Vec<Vec<u8>> {
    let Some((head, bytes)) = packet.split_first_chunk::<HEAD>() else { return Vec::new() };
    if packet.len() <= mtu {
        return Vec::from([packet]);
    }
    let most = (mtu - HEAD - PART_HEAD) / STEP * STEP;
    let count = bytes.len().div_ceil(most);
    let part = |(number, bytes): (usize, &[u8])| {
        let more = u16::from(number + 1 < count);
        let mut part = *head;
        part[4..6].copy_from_slice(&((PART_HEAD + bytes.len()) as u16).to_be_bytes());
        let protocol = core::mem::replace(&mut part[6], PART);
        let mut part = part.to_vec();
        part.extend_from_slice(&[protocol, 0]);
        part.extend_from_slice(&((number * most) as u16 | more).to_be_bytes());
        part.extend_from_slice(&ident.to_be_bytes());
        part.extend_from_slice(bytes);
        part
    };
    bytes.chunks(most).enumerate().map(part).collect()
}

/// To whom the packet in a frame is, of IPv6.
pub fn receiver(frame: &[u8]) -> Option<Ipv6Addr> {
    frame.get(FRAME_HEAD + 24..)?.first_chunk::<16>().map(|&ip| ip.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use fastrand::Rng;

    const NOW: i64 = 5;

    fn packet(from: u8, bytes: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
        packet[4..6].copy_from_slice(&(bytes.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[from; 16]);
        packet.extend_from_slice(&[9; 16]);
        packet.extend_from_slice(bytes);
        packet
    }

    fn framed(packet: Vec<u8>) -> Vec<u8> {
        [vec![1; FRAME_HEAD], packet].concat()
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut rng = Rng::with_seed(len as u64);
        (0..len).map(|_| rng.u8(..)).collect()
    }

    #[test]
    fn packets_come_together_in_any_order() {
        let mut rng = Rng::with_seed(3);
        for len in [1461, 4000, 5001, 65_535] {
            let whole = packet(1, &noise(len));
            let mut parts = cut(whole.clone(), 1500, 7);
            assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= 1500));
            rng.shuffle(&mut parts);
            let mut all = Parts::default();
            let last = parts.pop().unwrap();
            for part in parts {
                assert_eq!(all.came(&framed(part), NOW), None);
            }
            assert_eq!(all.came(&framed(last), NOW), Some(framed(whole)));
            assert_eq!((all.all.len(), all.cost), (0, 0));
        }
        let short = packet(1, &[1; 1460]);
        assert_eq!(cut(short.clone(), 1500, 7), [short]);
    }

    #[test]
    fn parts_of_different_packets_stay_apart() {
        let (one, other) = (packet(1, &noise(3000)), packet(2, &noise(3001)));
        let mut all = Parts::default();
        let both: Vec<Vec<u8>> = cut(one.clone(), 1500, 7)
            .into_iter()
            .zip(cut(other.clone(), 1500, 7))
            .flat_map(|(one, other)| [one, other])
            .collect();
        let whole: Vec<_> = both.into_iter().filter_map(|it| all.came(&framed(it), NOW)).collect();
        assert_eq!(whole, [framed(one), framed(other)]);
    }

    #[test]
    fn what_overlaps_or_does_not_fit_is_forgotten() {
        let whole = packet(1, &noise(3000));
        let parts = cut(whole, 1500, 7);
        let mut all = Parts::default();
        all.came(&framed(parts[0].clone()), NOW);
        let mut over = parts[1].clone();
        over[HEAD + 3] -= 8;
        assert_eq!(all.came(&framed(over), NOW), None);
        assert_eq!((all.all.len(), all.cost), (0, 0));
        // Twice the same, an end in the middle, another end.
        all.came(&framed(parts[0].clone()), NOW);
        all.came(&framed(parts[0].clone()), NOW);
        assert_eq!(all.all.len(), 0);
        all.came(&framed(parts[1].clone()), NOW);
        let mut end = parts[0].clone();
        end[HEAD + 3] &= !1;
        all.came(&framed(end), NOW);
        assert_eq!(all.all.len(), 0);
        // One that is empty, one that is no multiple of eight and not the last, one that ends too late.
        let mut long = parts[2].clone();
        long[HEAD + 2..HEAD + 4].copy_from_slice(&0xfff8u16.to_be_bytes());
        let mut odd = parts[0][..parts[0].len() - 1].to_vec();
        odd[5] -= 1;
        let mut empty = parts[0][..HEAD + PART_HEAD].to_vec();
        empty[4..6].copy_from_slice(&(PART_HEAD as u16).to_be_bytes());
        for wrong in [long, odd, empty] {
            assert_eq!(all.came(&framed(wrong), NOW), None);
            assert_eq!((all.all.len(), all.cost), (0, 0));
        }
    }

    #[test]
    fn parts_in_parts_are_nothing() {
        let mut inner = packet(1, &noise(100));
        inner[6] = PART;
        let parts = cut(inner, 120, 7);
        let mut all = Parts::default();
        assert!(parts.into_iter().all(|part| all.came(&framed(part), NOW).is_none()));
        assert_eq!(all.all.len(), 0);
    }

    #[test]
    fn a_flood_of_parts_has_its_bounds() {
        let mut all = Parts::default();
        for number in 0..5000u32 {
            let from = number as u8;
            let part = cut(packet(from, &noise(20_000)), 1500, number).remove(number as usize % 5);
            all.came(&framed(part), NOW);
            assert!(all.all.len() <= PACKETS && all.cost <= BYTES);
        }
        // Of one packet, in the smallest parts.
        for number in (1..8000usize).rev() {
            let mut part = packet(1, &[0; 16]);
            part[6] = PART;
            let at = (number * STEP) as u16 | 1;
            part[HEAD..HEAD + 8].copy_from_slice(&[17, 0, (at >> 8) as u8, at as u8, 1, 2, 3, 4]);
            all.came(&framed(part), NOW);
            assert!(all.cost <= BYTES);
        }
        // In time they are gone.
        all.came(&framed(cut(packet(7, &noise(3000)), 1500, 1).remove(0)), NOW + PATIENCE);
        assert_eq!(all.all.len(), 1);
    }
}
