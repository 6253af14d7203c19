//! What domains of this core ask for.

use crate::local::{error, now, State};
use libos::abi::slots::KERNEL;
use libos::cores::{monitor, MEMORY_SERVER};
use libos::interface::OwnedCap;
use libos::{invoke, op, Status};

impl monitor::Server for State {
    fn machine(&mut self, _: u64) -> Result<(u32, u32, u64), Status> {
        Ok((self.peers.core, self.peers.cores, self.peers.online))
    }

    fn open(&mut self, _: u64, bell: OwnedCap) -> Result<OwnedCap, Status> {
        self.clients.open(bell)
    }

    fn ping(&mut self, from: u64, core: u32, rounds: u32) -> Result<u32, Status> {
        let ticket = self.tickets.new_ticket(self.clients.known(from)?)?;
        match core == self.peers.core || rounds == 0 {
            true => self.settle(ticket, Ok(0)),
            false => self.send_ping(core, ticket, rounds, now()),
        }
        Ok(ticket)
    }

    fn spawn(&mut self, from: u64, core: u32, bytes: u32, words: OwnedCap) -> Result<u32, Status> {
        let client = self.clients.known(from)?;
        let words = self.words(&words, bytes)?;
        let ticket = self.tickets.new_ticket(client)?;
        let begun = self.begin_spawn(core, words, ticket);
        if begun.is_err() {
            self.tickets.cancel(ticket);
        }
        begun.map(|()| ticket)
    }

    fn kill(&mut self, from: u64, ticket: u32) -> Result<(), Status> {
        if self.tickets.is_open(self.clients.known(from)?, ticket)? {
            self.kill(ticket);
        }
        Ok(())
    }

    fn result(&mut self, from: u64, ticket: u32, bit: u64) -> Result<u64, Status> {
        self.tickets.take(self.clients.known(from)?, ticket, bit)
    }

    fn send(&mut self, from: u64, core: u32, key: u64, cap: OwnedCap) -> Result<u32, Status> {
        let client = self.clients.known(from)?;
        let ticket = self.tickets.new_ticket(client)?;
        let begun = match core == self.peers.core {
            true => self.mail.check_room().map(|()| {
                let owner = self.mail.put(key, cap, (core, client));
                self.tell(owner);
                self.settle(ticket, Ok(0));
            }),
            false => self.begin_send(client, core, key, cap, ticket),
        };
        if begun.is_err() {
            self.tickets.cancel(ticket);
        }
        begun.map(|()| ticket)
    }

    fn expect(&mut self, from: u64, key: u64, bit: u64) -> Result<(), Status> {
        let client = self.clients.known(from)?;
        if self.mail.expect(key, client, bit)? {
            self.clients.ring(client, bit);
        }
        Ok(())
    }

    fn take(&mut self, from: u64, key: u64) -> Result<OwnedCap, Status> {
        self.clients.known(from)?;
        self.mail.take(key)
    }

    fn traffic(&mut self, _: u64) -> Result<(u64, u64), Status> {
        Ok(self.peers.traffic)
    }

    fn check(&mut self, _: u64) -> Result<bool, Status> {
        invoke(KERNEL, op::CheckInvariants {})?;
        Ok(self.is_quiet())
    }

    fn books(&mut self, _: u64) -> Result<(u32, u32, u32, u32, u32), Status> {
        let counts = [
            self.clients.count(),
            self.tickets.count(),
            self.mail.count(),
            self.under_way(),
            self.jobs.count(),
        ];
        Ok(counts.map(|count| count as u32).into())
    }

    fn serve(&mut self, from: u64, bit: u64) -> Result<(), Status> {
        self.jobs.serve(self.clients.known(from)?, bit)?;
        self.tell(self.jobs.spawnd());
        Ok(())
    }

    fn next_job(&mut self, from: u64) -> Result<(u32, u32), Status> {
        self.only_spawnd(from)?;
        self.jobs.next()
    }

    fn job_text(
        &mut self,
        from: u64,
        job: u32,
        piece: u32,
    ) -> Result<(u64, u64, u64, u64), Status> {
        self.only_spawnd(from)?;
        self.jobs.piece(job, piece).map(|[a, b, c, d]| (a, b, c, d))
    }

    fn unwanted_job(&mut self, from: u64) -> Result<u32, Status> {
        self.only_spawnd(from)?;
        self.jobs.next_unwanted()
    }

    fn ended(&mut self, from: u64, job: u32, failed: u32, status: u64) -> Result<(), Status> {
        self.only_spawnd(from)?;
        let outcome = if failed == 0 { Ok(status) } else { Err(error(u64::from(failed))) };
        self.end_job(job, outcome)
    }

    fn borrow(&mut self, from: u64, bytes: u64) -> Result<(), Status> {
        only_memory_server(from)?;
        self.begin_borrow(bytes)
    }

    fn borrowed(&mut self, from: u64) -> Result<(u64, u64, u16), Status> {
        only_memory_server(from)?;
        self.end_borrow()
    }

    fn next_wish(&mut self, from: u64) -> Result<u64, Status> {
        only_memory_server(from)?;
        self.take_wish()
    }

    fn ceded(&mut self, from: u64, base: u64, bytes: u64, attrs: u16) -> Result<(), Status> {
        only_memory_server(from)?;
        self.give((base, bytes, attrs))
    }
}

fn only_memory_server(from: u64) -> Result<(), Status> {
    (from == u64::from(MEMORY_SERVER)).then_some(()).ok_or(Status::NoRights)
}

impl State {
    fn only_spawnd(&self, from: u64) -> Result<(), Status> {
        let is_it = self.jobs.spawnd().is_some_and(|(client, _)| u64::from(client) == from);
        is_it.then_some(()).ok_or(Status::NoRights)
    }
}
