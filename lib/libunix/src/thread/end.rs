//! The end of a thread.

use super::{company, lock};
use crate::mm::user;
use crate::process::Task;
use crate::server::{self, op};
use crate::sys::{futex, pi, robust};

/// The calling thread ends with a wait status, and the process with the last.
pub fn exit(task: &mut Task, status: u32) -> ! {
    show_end(task);
    task.threads.running -= 1;
    if task.threads.running == 0 {
        // `unixd` knows with what status.
        crate::mm::usage::tell_all(&mut task.mm);
    }
    match task.me.index {
        0 => task.threads.first_ended = true,
        index => task.threads.remove(index),
    }
    // The area is not used again before the dispatcher is gone, which `unixd` sees to now.
    lock::leave();
    loop {
        // There is no answer.
        let _ = server::call(op::ThreadExit { status });
    }
}

/// What a thread leaves in the program's memory: owners of robust mutexes, and the word that
/// `pthread_join` waits for.
pub fn show_end(task: &mut Task) {
    let (tid, list) = (task.me.tid, core::mem::take(&mut task.me.robust_list));
    robust::release(task, tid, list);
    pi::thread_ends(task, tid);
    let word = core::mem::take(&mut task.me.clear_tid);
    // As on Linux, a process with one thread has nobody to tell.
    if word != 0 && user::copy_out(&mut task.mm, word, &0u32).is_ok() {
        futex::wake_at(task, word, 1);
    }
}

/// The robust mutexes of all threads, when the process ends or executes a program.
pub fn release_all(task: &mut Task) {
    for index in (0..task.threads.end()).filter(|index| company::is_of_own_process(*index)) {
        let Some(thread) = task.threads.find(index) else { continue };
        let (tid, list) = (thread.tid, core::mem::take(thread.robust_list));
        robust::release(task, tid, list);
    }
}
