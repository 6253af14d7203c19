//! A part on another core: does what core 0 orders.

use crate::board::{key, Board, Work};
use crate::lab::stay_at_home;
use crate::sharing::Table;
use crate::PAGE;
use alloc::vec::Vec;
use libos::interface::OwnedCap;
use libos::local::Local;
use libos::vspace::RW;
use libos::{cores, domain, log, Cap, CapType, Status};

/// Runs it. Answers the exit status.
pub fn run() -> u64 {
    let core = cores::machine().this;
    match serve(core) {
        Ok(()) => 0,
        Err(error) => {
            log!("corebench: the part on core {core}: {error:?}");
            1
        }
    }
}

fn serve(core: u32) -> Result<(), Status> {
    stay_at_home()?;
    let frame = cores::receive(key(core))?;
    let board = Board::map(&frame)?;
    board.report(core, true);
    let mut kept = Vec::new();
    loop {
        let cap = cores::receive(key(core))?;
        let work = board.work().ok_or(Status::Invalid)?;
        let done = carry_out(work, core, cap, &mut kept);
        if let Err(error) = &done {
            log!("corebench: core {core} cannot {work:?}: {error:?}");
        }
        board.report(core, done.is_ok());
        if work == Work::End {
            return done;
        }
    }
}

/// Shows the first page of a Morsel by an entry of its own.
fn single(morsel: &OwnedCap) -> Result<OwnedCap, Status> {
    static TABLE: Local<Option<Table>> = Local::new(None);
    let slot = domain::with(|domain| domain.slot())?;
    let mapping = OwnedCap::own(slot);
    let shown = TABLE.try_with(|table| {
        let table = match table {
            Some(table) => table,
            None => table.insert(Table::new()?),
        };
        table.last().map(0, 1, morsel.cap(), 0, RW, slot)
    });
    shown.unwrap_or(Err(Status::WrongState)).map(|()| mapping)
}

fn carry_out(work: Work, core: u32, cap: OwnedCap, kept: &mut Vec<OwnedCap>) -> Result<(), Status> {
    match work {
        Work::Keep => kept.push(cap),
        Work::KeepTen => {
            for _ in 0..9 {
                kept.push(OwnedCap::copy_of(cap.cap())?);
            }
            kept.push(cap);
        }
        Work::Divide => {
            let slot = domain::with(|domain| domain.slot())?;
            let offset = (2 << 20) + u64::from(core) * PAGE;
            cap.cap().retype(CapType::Ram, offset, PAGE, 1, slot)?;
            kept.push(OwnedCap::own(slot));
            kept.push(cap);
        }
        Work::Show => {
            kept.push(single(&cap)?);
            kept.push(cap);
        }
        Work::Drop => kept.clear(),
        Work::Make => {
            let ram = OwnedCap::own(domain::with(|domain| domain.make(CapType::Ram, PAGE))?);
            cores::send(0, key(0), OwnedCap::copy_of(ram.cap())?)?;
            kept.push(ram);
        }
        Work::End => {}
    }
    Ok(())
}
