//! What the life of processes works on: how they begin, are sent signals, stop, wait and end.

use crate::clock::Clock;
use crate::effects::Effects;
use crate::procs::Procs;
use crate::voices::{Speaker, Voices};

/// See the head of this file. Everything else that has to do with a process is told by effects.
pub struct Life<'a> {
    /// Processes and threads.
    pub procs: &'a mut Procs,
    /// Time, and what is due when.
    pub clock: &'a mut Clock,
    /// What threads speak with, until all of it is taken back.
    pub voices: &'a mut Voices,
    /// What others must do.
    pub fx: &'a mut Effects,
    /// Whose request is worked on.
    pub caller: Speaker,
}
