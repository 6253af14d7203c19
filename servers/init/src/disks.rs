//! The servers of disks, of which each has one disk.

use crate::abi::layout::PAGE;
use crate::abi::slots::{DISKS, MAX_DISKS, MEMD, SELF_EP, SESSION, UNIXD};
use crate::servers::{file, StartError, DISK_LINE};
use drivers::{bus, mailbox, DeviceType, Slots};
use libos::ephemeral::Window;
use libos::frame::{Frame, FrameRequest};
use libos::ram::Ram;
use libos::runtime::Boot;
use libos::session::{disk_of, DISKD_BADGE, DISK_ANSWERS, DISK_GONE};
use libos::spawn::Child;
use libos::{bringup, cmdline, domain, Cap, CapAddr, CapType, Rights, Status};

/// A disk, whose server is not started yet.
struct Disk {
    number: u32,
    device: bus::Claimed,
    /// What its server and `unixd` share.
    frame: CapAddr,
    /// Its server's, with all rights.
    endpoint: CapAddr,
}

/// All of them.
pub struct Disks {
    disks: [Option<Disk>; MAX_DISKS as usize],
}

/// `unixd`'s endpoint, to be notified.
pub const UNIXD_EP: CapAddr = UNIXD;

impl Disks {
    /// Claims the devices that the command line says there are.
    pub fn claim(boot: &Boot, window: &mut Window) -> Result<Disks, StartError> {
        let wanted = cmdline::number(boot.cmdline(), "disks").unwrap_or(0);
        let mut disks = [const { None }; MAX_DISKS as usize];
        for (number, place) in (0..MAX_DISKS).zip(&mut disks).take(wanted as usize) {
            let ty = (DeviceType::Block, number as usize);
            match bus::claim_nth(boot, ty, DISK_LINE + u64::from(number), window) {
                Ok(device) => *place = Some(Disk::new(number, device)?),
                Err(why) => libos::log!("init: disk {number} cannot be used: {why:?}"),
            }
        }
        Ok(Disks { disks })
    }

    /// Gives `unixd` what it speaks to their servers with.
    pub fn give(&self, child: &Child) -> Result<(), Status> {
        for disk in self.disks.iter().flatten() {
            let slot = DISKS.plus(2 * disk.number);
            disk.frame.copy_to(child.slot(slot))?;
            disk.endpoint.mint(child.slot(slot.plus(1)), Rights::SEND)?;
        }
        Ok(())
    }

    /// Is there any?
    pub fn are_some(&self) -> bool {
        self.disks.iter().any(Option::is_some)
    }

    /// Starts the servers.
    pub fn start(self, boot: &Boot, window: &mut Window) -> Result<(), StartError> {
        let path = "boot/diskd";
        for disk in self.disks.into_iter().flatten() {
            let (badge, elf) = (DISKD_BADGE + disk.number, file(boot, path)?.data);
            bringup::start(elf, badge, window, |child, _, _| disk.equip(child))
                .map_err(|error| StartError::Server(path, error))?;
        }
        Ok(())
    }
}

impl Disk {
    fn new(number: u32, device: bus::Claimed) -> Result<Disk, Status> {
        let frame = Frame::with(FrameRequest::bytes(mailbox::bytes()))?.into_cap();
        let endpoint = domain::with(|domain| {
            let slot = domain.slot()?;
            domain.arena.make(CapType::Endpoint, PAGE, 1, slot.into())?;
            Ok(slot)
        })?;
        Ok(Disk { number, device, frame, endpoint })
    }

    fn equip(self, child: &mut Child) -> Result<[u64; 5], Status> {
        child.give(MEMD, MEMD)?;
        child.give(UNIXD_EP, UNIXD)?;
        self.frame.move_to(child.slot(SESSION))?;
        self.endpoint.move_to(child.slot(SELF_EP))?;
        for slot in [self.frame, self.endpoint] {
            domain::free_or_lose_slot(slot);
        }
        let [w0, w1, w2, w3] = self.device.give(child, Slots::FIRST)?;
        Ok([w0, w1, w2, w3, DISK_ANSWERS])
    }
}

/// Tells `unixd` that the server with this badge is gone.
pub fn tell_gone(badge: u32) {
    if let Some(disk) = disk_of(badge) {
        libos::log!("init: disk {disk} is gone");
        // Without `unixd` there is nobody to be told.
        let _ = UNIXD_EP.notify(DISK_GONE << disk);
    }
}
