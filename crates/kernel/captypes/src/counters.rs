//! What the CPU driver counts.

macro_rules! counters {
    ($($(#[$doc:meta])* $id:literal $name:ident $text:literal;)*) => {
        /// Counters of the CPU driver.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        pub enum Counter { $($(#[$doc])* $name = $id,)* }

        impl Counter {
            /// Every counter, in order of its number.
            pub const ALL: &'static [Counter] = &[$(Counter::$name),*];
            /// The name under which it is printed.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)* }
            }
        }
    };
}

counters! {
    /// Invocations of any kind.
    0 Invocations "invocations";
    /// Linux system calls handed to a library.
    1 LinuxCalls "linux_calls";
    /// Page faults handed to a library.
    2 PageFaults "page_faults";
    /// Messages delivered.
    3 Messages "messages";
    /// Pages replaced by a copy (`RetypeCopy` onto its source): the copies of copy-on-write.
    4 PageCopies "page_copies";
    /// Pages zeroed by retype.
    5 PagesZeroed "pages_zeroed";
    /// Dispatcher switches.
    6 Switches "switches";
    /// Full TLB flushes.
    7 TlbFlushes "tlb_flushes";
    /// Single-page TLB invalidations.
    8 TlbPages "tlb_pages";
    /// Capabilities that exist.
    9 Capabilities "capabilities";
    /// Ticks of the time-stamp counter during which the core had nothing to run.
    10 IdleTicks "idle_ticks";
    /// Interrupts sent to other cores.
    11 Interrupts "interrupts_sent";
    /// Dispatchers that came home for an invocation or a fault.
    12 Visits "visits";
    /// Dispatchers that were called home because somebody changed them.
    13 Recalls "recalls";
    /// Dispatchers that waited here and went to a core that had become idle.
    14 Migrations "migrations";
    /// Events at whose end other cores had to forget translations.
    15 Shootdowns "shootdowns";
    /// Cores that were asked to, in all of them.
    16 ShootdownRequests "shootdown_requests";
    /// Of these, those that were to forget everything.
    17 RemoteFlushes "remote_flushes";
    /// Single pages that the others were to forget.
    18 RemotePages "remote_pages";
    /// Requests of other cores that this one has answered.
    19 ShootdownAnswers "shootdown_answers";
    /// Dispatchers that went to an idle core as soon as they were ready.
    20 Placements "placements";
    /// Ticks during which somebody was ready and waited here who may run elsewhere.
    21 WaitTicks "wait_ticks";
    /// If the command line says `occupancy=`: for how long the machine has run.
    22 SpanTime "span_time";
    /// Likewise: while the core had something to do.
    23 BusyTime "busy_time";
    /// Likewise: while exactly one core more than the number of this one had something to do.
    24 WidthTime "width_time";
    /// Likewise, of all cores: while somebody waited who may run elsewhere, and a core was idle.
    25 StarvedTime "starved_time";
    /// Ticks in programs, but for their libraries, up to the last look at the timer; sampled.
    26 UserTicks "user_ticks";
    /// Ticks in the kernel, in libraries of processes and in servers; likewise.
    27 SystemTicks "system_ticks";
    /// Ephemeral mappings of the kernel that were there. Of another core, up to when it last changed what it
    /// runs, as the next three; all zero in a kernel with a direct map.
    28 EphemeralHits "ephemeral_hits";
    /// Those that were made.
    29 EphemeralMisses "ephemeral_misses";
    /// Invalidations for them on the core itself.
    30 EphemeralLocal "ephemeral_local";
    /// Invalidations for them on others that were asked for, of however many cores at once.
    31 EphemeralRemote "ephemeral_remote";
    /// Words of pools and of their objects' tables that another core had changed between being read and being
    /// exchanged.
    32 ExchangesLost "exchanges_lost";
    /// Times when the IOMMU forgot all translations of devices.
    33 DeviceFlushes "device_flushes";
    /// Dispatchers that went to an endpoint of another core.
    34 CallsAbroad "calls_abroad";
}
