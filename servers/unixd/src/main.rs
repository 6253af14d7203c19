//! `unixd`: the control plane of the Linux personality.
//!
//! It knows the processes, their signals, groups and sessions, the open file descriptions, the
//! names of files, the pipes and the terminal. Data passes it by where there is much of it: file
//! contents are Frames that processes map. One thread, one loop ([`server`]): a request, a fault
//! report or a notification comes in, and each is worked off without waiting. Whatever must wait is
//! kept ([`wait`]) and tried again when something has happened that it waits for.
//!
//! Everything that comes from a process is copied before it is checked, and checked before it is
//! used; a process that does not keep to the protocol harms itself.
#![no_std]
#![no_main]

extern crate alloc;

#[macro_use]
mod text;

mod alarms;
mod apart;
mod bequests;
mod caches;
mod calls;
mod caps;
mod captree;
mod clock;
mod console;
mod content;
mod counters;
mod cpuclocks;
mod cpuinfo;
mod cputime;
mod descs;
mod detached;
mod dirs;
mod disks;
mod dnotify;
mod domains;
mod effects;
mod ending;
mod exits;
mod export;
mod families;
mod fanotify;
mod fdfacts;
mod filehandles;
mod fork;
mod frames;
mod futexes;
mod homes;
mod inet;
mod inout;
mod ipc;
mod kin;
mod leases;
mod lent;
mod life;
mod limits;
mod lines;
mod load;
mod loans;
mod locklist;
mod locks;
mod logins;
mod lower;
mod made;
mod messages;
mod morefds;
mod morsels;
mod mountlists;
mod mounts;
mod mqueues;
mod names;
mod nodes;
mod notify;
mod oom;
mod open;
mod openproc;
mod others;
mod otherspaces;
mod owners;
mod parcels;
mod pathops;
mod paths;
mod peers;
mod pids;
mod pipes;
mod pmem;
mod poll;
mod populate;
mod procfs;
mod procnet;
mod procs;
mod procstatus;
mod procsystem;
mod proctext;
mod ptys;
mod queues;
mod readiness;
mod registers;
mod resolver;
mod ring;
mod scheduling;
mod seals;
mod segments;
mod semaphores;
mod server;
mod share;
mod signals;
mod sockdiag;
mod sockets;
mod spaces;
mod standing;
mod statfs;
mod stock;
mod streams;
mod swap;
mod swaps;
mod system;
mod terminal;
mod threads;
mod tmpfs;
mod trace;
mod tracees;
mod unclaimed;
mod voices;
mod volatile;
mod volumes;
mod wait;
mod watches;
mod who;
mod window;
mod wire;
mod xattrs;

libos::program!(main);

fn main(start: libos::runtime::Start) {
    match server::boot::start(&start) {
        Ok(server) => server.run(),
        Err(problem) => {
            libos::log!("@error unixd cannot start: {problem}");
            server::boot::give_up();
        }
    }
}
