//! Filters of packets, as sockets take them (`SO_ATTACH_FILTER`): the same programs, over bytes of any length. What they answer is how many bytes of
//! a packet are kept; none: it is not for this socket.

use crate::{step as call_step, Alu, Instruction, Memory, Operand, Program, Refused, Step};

/// A packet, as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its bytes: those that whoever reads the socket gets.
    pub bytes: &'a [u8],
    /// Those of the network's packet, wherever the others begin.
    pub network: &'a [u8],
    /// Those of the frame.
    pub frame: &'a [u8],
    /// Its kind by the number of Ethernet.
    pub protocol: u16,
    /// For whom it is (`PACKET_HOST` and its relatives).
    pub kind: u8,
    /// The interface's number, and its kind.
    pub device: u32,
    /// `ARPHRD_*`
    pub device_kind: u16,
}

/// Places that are none of the packet (`SKF_AD_OFF`), and places of the network's packet, and of the frame.
const BESIDES: u32 = -0x1000_i32 as u32;
const NETWORK: u32 = -0x10_0000_i32 as u32;
const FRAME: u32 = -0x20_0000_i32 as u32;
/// What is at the first of them, by number (`SKF_AD_*`).
const PROTOCOL: u32 = 0;
const KIND: u32 = 4;
const DEVICE: u32 = 8;
const MARK: u32 = 20;
const QUEUE: u32 = 24;
const DEVICE_KIND: u32 = 28;
const HASH: u32 = 32;
const PROCESSOR: u32 = 36;
const VLAN_TAG: u32 = 44;
const VLAN_PRESENT: u32 = 48;
const VLAN_PROTOCOL: u32 = 60;

/// Can a filter ask for something that is none of the packet?
fn is_known(besides: u32) -> bool {
    matches!(
        besides,
        PROTOCOL
            | KIND
            | DEVICE
            | MARK
            | QUEUE
            | DEVICE_KIND
            | HASH
            | PROCESSOR
            | VLAN_TAG
            | VLAN_PRESENT
            | VLAN_PROTOCOL
    )
}

impl Memory for Packet<'_> {
    fn word(&self, _: u32) -> u32 {
        0
    }

    fn load(&self, bytes: u8, at: u32) -> Option<u32> {
        let (from, at) = match at {
            BESIDES.. => {
                return Some(match at - BESIDES {
                    PROTOCOL => self.protocol.into(),
                    KIND => self.kind.into(),
                    DEVICE => self.device,
                    DEVICE_KIND => self.device_kind.into(),
                    // Marks, queues, hashes, virtual networks: there are none; and who hears packets is on the first processor.
                    besides if is_known(besides) => 0,
                    _ => return None,
                });
            }
            NETWORK.. => (self.network, at - NETWORK),
            FRAME.. => (self.frame, at - FRAME),
            _ => (self.bytes, at),
        };
        let from = from.get(at as usize..)?.get(..bytes.into())?;
        Some(from.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    fn length(&self) -> u32 {
        self.bytes.len() as u32
    }
}

/// One instruction of a filter of packets.
fn step(one: Instruction, at: usize, len: usize) -> Option<Step> {
    let Instruction { code, k, .. } = one;
    let load = |bytes, behind_x| {
        // What is asked for besides is known when the program is given.
        let is_right = behind_x || k < BESIDES || is_known(k - BESIDES);
        is_right.then_some(Step::LoadBytes { bytes, at: k, behind_x })
    };
    match code {
        0x20 => load(4, false),
        0x28 => load(2, false),
        0x30 => load(1, false),
        0x40 => load(4, true),
        0x48 => load(2, true),
        0x50 => load(1, true),
        0x80 => Some(Step::Length),
        0x81 => Some(Step::LengthToX),
        0xb1 => Some(Step::HeadToX(k)),
        0x94 if k != 0 => Some(Step::Alu(Alu::Mod, Operand::K(k))),
        0x9c => Some(Step::Alu(Alu::Mod, Operand::X)),
        _ => call_step(one, at, len),
    }
}

/// A filter of packets.
#[derive(Debug)]
pub struct Filter(Program);

impl Filter {
    /// Of instructions, where Linux takes them.
    pub fn check(code: &[Instruction]) -> Result<Filter, Refused> {
        Program::check_as(code, step).map(Filter)
    }

    /// Bytes of memory that it takes, about.
    pub fn cost(&self) -> usize {
        const EACH: usize = 32;
        EACH * self.0.code().len()
    }

    /// How many bytes of a packet are kept.
    pub fn run(&self, packet: &Packet) -> usize {
        self.0.run_over(packet) as usize
    }
}
