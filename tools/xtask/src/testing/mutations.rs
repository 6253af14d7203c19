//! Bugs that are planted: in a copy of the sources one place is changed, and the test that is meant for it
//! must fail. (Those of the capability protocol are in `crates/protocol/capproto`, and in its own test.)
//!
//! Each of these once passed all tests, or was found only after very many random operations.

use super::{today, Case, Context};
use crate::project::Project;
use crate::toolchain;
use anyhow::{ensure, Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What of the project is built.
const SOURCES: [&str; 10] = [
    "Cargo.toml",
    "Cargo.lock",
    "rustfmt.toml",
    "crates",
    "guest",
    "kernel",
    "lib",
    "servers",
    "tools",
    "x",
];

/// What has been built of it.
const BUILT: [&str; 3] = ["target/debug", "target/kernel", "target/user"];

/// A bug.
struct Bug {
    name: &'static str,
    /// File, what is there once, and what it becomes.
    changes: &'static [(&'static str, &'static str, &'static str)],
    found_by: Test,
}

/// Seconds that a test on the host has to find one; the longest that find none have a tenth of it.
const PATIENCE: &str = "900";
/// How `timeout` ends then.
const TIMED_OUT: i32 = 124;

/// How often a test on the host looks: random operations are others each time, and a bug that they meet nine times in ten would fail
/// each tenth run.
const TRIES: usize = 4;

enum Test {
    /// Of a package, on the host.
    Host { package: &'static str, test: &'static str },
    /// In the emulator.
    Machine { test: &'static str },
}

const BUGS: &[Bug] = &[
    Bug {
        name: "a_file_that_is_mapped_is_sealed",
        changes: &[(
            "servers/unixd/src/seals.rs",
            "if ends_stores && state.mappers > 0 {",
            "if ends_stores && state.mappers > 1 {",
        )],
        found_by: Test::Machine { test: "linux/memfd_seals.gcc" },
    },
    Bug {
        name: "who_is_told_of_messages_is_told_of_those_that_others_wait_for",
        changes: &[(
            "servers/unixd/src/mqueues.rs",
            "if queue.messages.is_empty() && !queue.has_receiver(self.procs) {",
            "if queue.messages.is_empty() && (!queue.has_receiver(self.procs) || queue.size > 0) {",
        )],
        found_by: Test::Machine { test: "linux/mqueues.gcc" },
    },
    Bug {
        name: "who_was_called_home_is_still_a_guest",
        changes: &[(
            "kernel/src/dispatch/calls.rs",
            "    take_leave(sched, dcb);\n    dcb.leave_endpoint();\n",
            "    dcb.leave_endpoint();\n",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::protocol::guests::many_guests_are_found_and_leave",
        },
    },
    Bug {
        name: "who_comes_for_a_dispatcher_finds_its_successor",
        changes: &[(
            "kernel/src/operations/retire.rs",
            "close_arrivals(&mut cpu.sched, dcb.pa())",
            "close_arrivals(&mut cpu.sched, 0)",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::protocol::guests::a_dispatcher_that_goes_is_not_found_by_those_on_the_way",
        },
    },
    Bug {
        name: "who_walks_by_itself_is_not_asked",
        changes: &[(
            "crates/kernel/shootdown/src/lib.rs",
            "root != 0 && of(root) || self.walks_one(of)",
            "root != 0 && of(root)",
        )],
        found_by: Test::Host { package: "shootdown", test: "no_copy_succeeds_after_the_return" },
    },
    Bug {
        name: "an_entry_shows_what_of_its_object_was_unmapped",
        changes: &[(
            "crates/user/uvm/src/whole.rs",
            "entry.object_page(entry.end) < b.object_pages(object)",
            "entry.object_page(entry.end) > b.object_pages(object)",
        )],
        found_by: Test::Host {
            package: "uvm",
            test: "memory_of_threads_is_mapped_by_one_entry_as_far_as_it_goes",
        },
    },
    Bug {
        name: "a_region_stays_when_something_is_entered_in_it",
        changes: &[(
            "crates/user/uvm/src/whole.rs",
            "let found = [region, giant].map(",
            "let found = [region.filter(|_| false), giant].map(",
        )],
        found_by: Test::Host {
            package: "uvm",
            test: "memory_of_threads_is_mapped_by_one_entry_as_far_as_it_goes",
        },
    },
    Bug {
        name: "what_is_only_read_is_written",
        changes: &[(
            "servers/unixd/src/volumes.rs",
            "            _ => Err(Errno::EROFS),\n",
            "            _ => Ok(()),\n",
        )],
        found_by: Test::Machine { test: "linux/mounts.gcc" },
    },
    Bug {
        name: "everybody_has_the_first_root",
        changes: &[(
            "servers/unixd/src/names.rs",
            "Ok(self.procs.get(self.caller.pid)?.stands.root)",
            "Ok(self.tree.first().root)",
        )],
        found_by: Test::Machine { test: "linux/roots.gcc" },
    },
    Bug {
        name: "capabilities_count_outside_of_their_name_space",
        changes: &[(
            "crates/server/credentials/src/lib.rs",
            "self.space.is_none() && self.effective.has(capability)",
            "self.effective.has(capability)",
        )],
        found_by: Test::Host {
            package: "credentials",
            test: "who_makes_one_has_all_capabilities_in_it_and_none_outside",
        },
    },
    Bug {
        name: "who_waits_for_a_lock_begins_anew_at_once",
        changes: &[(
            "crates/protocol/capproto/src/operation.rs",
            "self.waiting.push_back(operation.request);",
            "self.begin(world, operation.request);",
        )],
        found_by: Test::Host { package: "kernel", test: "who_waits_for_a_lock_hears_others" },
    },
    Bug {
        name: "a_copy_in_place_asks_for_the_deletion_of_its_original",
        changes: &[(
            "kernel/src/operations/copy.rs",
            "if concerns_others(&cpu.caps, original) {",
            "if false {",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "a_copy_takes_the_place_of_what_other_cores_have_too",
        },
    },
    Bug {
        name: "an_offset_is_taken_for_told",
        changes: &[(
            "lib/libunix/src/fd/alone.rs",
            "offset.filter(|offset| told != Some(*offset))",
            "offset.filter(|_| told.is_none())",
        )],
        found_by: Test::Machine { test: "linux/known_sizes" },
    },
    Bug {
        name: "who_knows_a_file_goes_on_when_it_is_watched",
        changes: &[("servers/unixd/src/notify.rs", "        self.procs.hide_all();\n", "")],
        found_by: Test::Machine { test: "linux/inotify_known" },
    },
    Bug {
        name: "whoever_asks_lets_locked_pages_leave",
        changes: &[(
            "servers/unixd/src/content.rs",
            "swap::wire(object, self.caller.pid, pages, op.stays)?",
            "swap::wire(object, 0, pages, op.stays)?",
        )],
        found_by: Test::Machine { test: "linux/hostile_swap" },
    },
    Bug {
        name: "who_looks_at_a_lock_forgets_those_that_sleep",
        changes: &[(
            "crates/user/parking/src/lock.rs",
            "self.state.replace(FREE, TAKEN | SLEEPERS)",
            "self.state.replace(FREE, TAKEN)",
        )],
        found_by: Test::Host { package: "parking", test: "three_threads_look_once" },
    },
    Bug {
        name: "a_record_is_read_while_it_is_written",
        changes: &[(
            "crates/user/glance/src/record.rs",
            "        self.version.store(version.wrapping_add(1));\n",
            "",
        )],
        found_by: Test::Host { package: "glance", test: "what_is_found_was_there" },
    },
    Bug {
        name: "a_lease_ends_while_its_thread_maps",
        changes: &[(
            "crates/user/glance/src/lent.rs",
            "        self.state.replace(state.0, state.0 & !(State::<BITS>::NUMBER - 1))",
            "        self.state.store(state.0 & !(State::<BITS>::NUMBER - 1));\n        true",
        )],
        found_by: Test::Host { package: "glance", test: "what_is_taken_was_mapped" },
    },
    Bug {
        name: "what_was_lent_is_not_joined",
        changes: &[(
            "crates/user/uvm/src/map.rs",
            "        self.entries.replace(place, entry);\n        self.join(entry.start, entry.end);\n",
            "        self.entries.replace(place, entry);\n",
        )],
        found_by: Test::Host { package: "uvm", test: "agrees_with_the_naive_model" },
    },
    Bug {
        name: "what_is_lent_is_touched",
        changes: &[(
            "lib/libunix/src/upcall.rs",
            "    leases::end_around(&mut p.mm, address);\n",
            "",
        )],
        found_by: Test::Machine { test: "linux/map_threads" },
    },
    Bug {
        name: "what_is_lent_is_unmapped_by_another_thread",
        changes: &[(
            "lib/libunix/src/mm/calls.rs",
            "    leases::end(&mut p.mm, addr, len);\n    usage::shrinks_by",
            "    usage::shrinks_by",
        )],
        found_by: Test::Machine { test: "linux/map_threads" },
    },
    Bug {
        name: "a_page_leaves_while_a_core_still_shows_it",
        changes: &[(
            "crates/storage/morsel/src/out.rs",
            "        self.cores.invalidate_some(record.id, row, pages);\n        // Who was on the way",
            "        // Who was on the way",
        )],
        found_by: Test::Host { package: "morsel", test: "random_operations_while_pages_leave" },
    },
    Bug {
        name: "a_copied_table_does_not_count_slots",
        changes: &[(
            "crates/storage/morsel/src/walk.rs",
            "let shared = !link.is_claim() && self.share(link.child(level));",
            "let shared = link.is_out() || !link.is_claim() && self.share(link.child(level));",
        )],
        found_by: Test::Host { package: "morsel", test: "random_operations_while_pages_leave" },
    },
    Bug {
        name: "a_slot_is_not_given_back_when_its_page_comes_in",
        changes: &[(
            "crates/storage/morsel/src/out.rs",
            "        if self.unshare(link.child(1)) {\n            left.push(link.child(1));\n        }\n        Ok(true)",
            "        Ok(true)",
        )],
        found_by: Test::Host { package: "morsel", test: "random_operations_while_pages_leave" },
    },
    Bug {
        name: "a_page_that_others_share_leaves_for_all_of_them",
        changes: &[(
            "crates/storage/morsel/src/out.rs",
            "            if self.unshare(child) {\n                left.push(child);\n            }\n        }\n        self.settle_limbo(left);\n        pages",
            "            left.push(child);\n        }\n        self.settle_limbo(left);\n        pages",
        )],
        found_by: Test::Host { package: "morsel", test: "random_operations_while_pages_leave" },
    },
    Bug {
        name: "a_tail_in_the_store_is_not_cleared",
        changes: &[(
            "crates/storage/morsel/src/take.rs",
            "Found::Entry { link, .. } if link.is_out() => return Err(Refused::Out),",
            "Found::Entry { link, .. } if link.is_out() => return Ok(()),",
        )],
        found_by: Test::Host { package: "morsel", test: "random_operations_while_pages_leave" },
    },
    Bug {
        name: "who_is_stopped_while_it_calls_goes_on",
        changes: &[("kernel/src/dispatch/control.rs", "dcb.trip.held.set(true);", "")],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::protocol::abroad::a_stopped_caller_stays_stopped_when_the_answer_comes",
        },
    },
    Bug {
        name: "an_unhandled_fault_of_another_core_is_handled",
        changes: &[("kernel/src/dispatch/calls.rs", "Errand::Answered } else { Errand::Unhandled }", "Errand::Answered } else { Errand::Answered }")],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::protocol::abroad::faults_are_reported_to_another_core",
        },
    },
    Bug {
        name: "an_error_of_the_host_is_no_answer",
        changes: &[(
            "servers/unixd/src/share/exchange.rs",
            "                    // An error is an answer, too.\n                    log.at += 1;\n                    return told.answer.clone().map(|answer| (answer, index));\n",
            "                    let answer = told.answer.clone()?;\n                    log.at += 1;\n                    return Ok((answer, index));\n",
        )],
        found_by: Test::Machine { test: "share/made" },
    },
    Bug {
        name: "a_signal_ends_what_waits_for_the_host",
        changes: &[(
            "servers/unixd/src/wait.rs",
            "    !is_patient && !is_told && !call.unanswered\n",
            "    !is_patient && !is_told\n",
        )],
        found_by: Test::Machine { test: "share/signals" },
    },
    Bug {
        name: "everybody_of_the_host_is_the_administrator",
        changes: &[(
            "servers/unixd/src/share/names.rs",
            "let shown = |id, own| if id == own { 0 } else { NOBODY };",
            "let shown = |id, own| if id == own || id != NOBODY { 0 } else { NOBODY };",
        )],
        found_by: Test::Machine { test: "share/users" },
    },
    Bug {
        name: "an_answer_to_another_request_is_believed",
        changes: &[(
            "crates/protocol/ninep/src/reply.rs",
            "        if its_tag != tag {\n",
            "        if its_tag != tag && kind == kind::ERROR {\n",
        )],
        found_by: Test::Host { package: "ninep", test: "answers_are_understood" },
    },
    Bug {
        name: "pages_in_a_row_are_lost_with_their_object",
        changes: &[(
            "crates/storage/morsel/src/durable.rs",
            "        if count > 0 {\n            self.pages.give_run(first, count);\n        }\n    }\n",
            "    }\n",
        )],
        found_by: Test::Host {
            package: "morsel",
            test: "random_operations_in_a_pool_that_is_nearly_empty",
        },
    },
    Bug {
        name: "records_go_with_the_page_of_another",
        changes: &[(
            "crates/storage/morsel/src/take.rs",
            "if page == 0 || !(0..crate::RECORDS).all(is_free) {",
            "if page == 0 || (0..crate::RECORDS).all(|n| !is_free(n)) {",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "records_that_nobody_needs_give_their_page_back",
        },
    },
    Bug {
        name: "a_page_that_was_replaced_is_looked_at_still",
        changes: &[(
            "crates/storage/files/src/object.rs",
            "            self.renew_layout(ino)?;\n            self.advise_by_grain(ino)?;\n",
            "            self.advise_by_grain(ino)?;\n",
        )],
        found_by: Test::Host {
            package: "files",
            test: "a_change_of_what_is_mapped_changes_the_layout",
        },
    },
    Bug {
        name: "memory_of_files_stays_with_files",
        changes: &[(
            "servers/unixd/src/volatile.rs",
            "while self.chunks.len() > least && self.space()",
            "while self.chunks.len() > usize::MAX && self.space()",
        )],
        found_by: Test::Machine { test: "linux/shared_files" },
    },
    Bug {
        name: "nobody_is_asked_to_forget_pages_of_an_object",
        changes: &[("kernel/src/morsels/machine.rs", "    core.make_forget(whom, Forget::ALL, wait);", "    core.make_forget(whom & !u64::MAX, Forget::ALL, wait);")],
        found_by: Test::Machine { test: "morsel/race/morsel_race_with_taking" },
    },
    Bug {
        name: "pages_are_free_while_somebody_walks",
        changes: &[(
            "kernel/src/morsels/machine.rs",
            "if id != self.view.core.id && walk.is_some() {",
            "if id != self.view.core.id && walk.is_some() && self.number_of(Frame(0)).is_some() {",
        )],
        found_by: Test::Machine { test: "morsel/race/morsel_race_with_taking" },
    },
    Bug {
        name: "who_loses_a_race_for_a_page_loses_a_page",
        changes: &[(
            "kernel/src/operations/morsels.rs",
            "            objects.give_page(frame);",
            "            core::hint::black_box(frame);",
        )],
        found_by: Test::Machine { test: "morsel/race/morsel_race_for_pages" },
    },
    Bug {
        name: "mapping_an_object_looks_at_its_pages",
        changes: &[(
            "kernel/src/operations/morsels.rs",
            "        (is_it && objects.memory.standing().is_open()).then(|| anchor.root())",
            "        for index in 0..ENTRIES {\n            let at = ::morsel::At { frame: anchor.root(), index };\n            \
             if order > 0 && objects.memory.load(at) != 0 {\n                core::hint::black_box(index);\n            }\n        }\n        \
             (is_it && objects.memory.standing().is_open()).then(|| anchor.root())",
        )],
        found_by: Test::Machine { test: "bench/mor-f5.4" },
    },
    Bug {
        name: "a_large_page_reaches_behind_the_limit",
        changes: &[("crates/storage/morsel/src/walk.rs", "(page | 511) < self.limit(record).div_ceil(4096)", "page < self.limit(record).div_ceil(4096)")],
        found_by: Test::Host { package: "morsel", test: "large_pages_end_before_the_limit" },
    },
    Bug {
        name: "a_grown_object_forgets_its_advice",
        changes: &[("crates/storage/morsel/src/shape.rs", "anchor.0 & (Anchor::OWNED | Anchor::LARGE)", "anchor.0 & Anchor::OWNED")],
        found_by: Test::Host { package: "morsel", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "a_giant_is_left_where_something_else_is_mapped",
        changes: &[("crates/user/uvm/src/mmap.rs", "        self.make_way(b, lowest, end)?;\n", "        let _ = lowest;\n")],
        found_by: Test::Host { package: "uvm", test: "a_giant_makes_way" },
    },
    Bug {
        name: "a_giant_shows_more_than_the_object_has",
        changes: &[("crates/user/uvm/src/whole.rs", "pages.end <= next && has_all()", "pages.end <= next")],
        found_by: Test::Host { package: "uvm", test: "a_large_object_is_mapped_by_one_entry" },
    },
    Bug {
        name: "a_giant_says_no_end_of_its_mapping",
        changes: &[("crates/user/uvm/src/whole.rs", "    entry.object_page(entry.end)\n}\n", "    u64::MAX\n}\n")],
        found_by: Test::Host { package: "uvm", test: "nothing_is_seen_behind_the_end_of_a_mapping" },
    },
    Bug {
        name: "a_giant_is_for_nobody_and_can_be_read",
        changes: &[("crates/user/uvm/src/whole.rs", " || entry.prot == Prot::NONE", "")],
        found_by: Test::Host { package: "uvm", test: "what_nobody_may_use_is_no_giant" },
    },
    Bug {
        name: "what_could_not_be_taken_away_stays",
        changes: &[("crates/user/uvm/src/whole.rs", "                self.keeps_wholes = true;\n", "")],
        found_by: Test::Host { package: "uvm", test: "whatever_is_refused" },
    },
    Bug {
        name: "tables_of_objects_count_nothing",
        changes: &[("crates/user/uvm/src/usage.rs", "            all.pages += there.pages;\n", "")],
        found_by: Test::Host { package: "uvm", test: "a_large_object_is_mapped_by_one_entry" },
    },
    Bug {
        name: "an_mprotect_cuts_a_large_page",
        changes: &[("crates/user/uvm/src/protect.rs", "if self.map.cuts_large(at, behind) {", "if self.map.cuts_large(at, at) {")],
        found_by: Test::Host { package: "uvm", test: "nothing_cuts_a_large_page" },
    },
    Bug {
        name: "a_file_grows_behind_mappings_that_show_it",
        changes: &[("crates/storage/files/src/object.rs", "        if shows_too_much {\n", "        if false && shows_too_much {\n")],
        found_by: Test::Host { package: "files", test: "what_would_show_too_much_is_taken_back_before_the_file_grows" },
    },
    Bug {
        name: "a_part_of_a_large_page_counts_as_one",
        changes: &[("crates/storage/morsel/src/survey.rs", "link.is_huge() && inside == 0;", "link.is_huge();")],
        found_by: Test::Machine { test: "native/captest/morsel_survey" },
    },
    Bug {
        name: "a_page_is_published_before_its_zeros",
        changes: &[("crates/storage/morsel/src/walk.rs", "        child.each_frame(|frame| self.memory.zero(frame));\n        self.save(child);\n", "        child.each_frame(|frame| self.memory.zero(frame));\n")],
        found_by: Test::Host { package: "morsel", test: "each_operation_in_depth" },
    },
    Bug {
        name: "who_knows_a_file_is_not_told_of_a_change",
        changes: &[("crates/storage/memfs/src/fs.rs", "            self.hidden.push(Hidden::Inode(ino, inode.shown));\n            if", "            if")],
        found_by: Test::Host { package: "files", test: "contents_are_as_in_the_model" },
    },
    Bug {
        name: "a_known_size_stays_known",
        changes: &[("servers/unixd/src/server.rs", "hidden => self.procs.hide(hidden),", "hidden => _ = hidden,")],
        found_by: Test::Machine { test: "linux/known_sizes" },
    },
    Bug {
        name: "only_the_last_reader_is_told",
        changes: &[("servers/unixd/src/threads.rs", "Shown::Many => self.iter().for_each(hide),", "Shown::Many => {}")],
        found_by: Test::Machine { test: "linux/known_sizes" },
    },
    Bug {
        name: "a_watched_file_is_read_unseen",
        changes: &[("servers/unixd/src/content.rs", "        if !self.is_watched(op.desc) {", "        if op.desc != 0 {")],
        found_by: Test::Machine { test: "linux/inotify" },
    },
    Bug {
        name: "names_of_open_files_stay_what_they_were",
        changes: &[("servers/unixd/src/pathops.rs", "            for _ in 0..self.descs.moved(ino, from, to) {", "            for _ in 0..self.descs.moved(ino, from, from) {")],
        found_by: Test::Machine { test: "linux/inotify" },
    },
    Bug {
        name: "pages_that_others_are_moving_are_none",
        changes: &[("crates/storage/morsel/src/walk.rs", "let frame = self.pages.take(kind.order())?;", "let frame = self.pages.take(kind.order()).map_err(|_| Refused::NoMemory)?;")],
        found_by: Test::Host { package: "morsel", test: "random_operations_in_a_pool_that_others_take_from" },
    },
    Bug {
        name: "an_entry_is_used_before_it_is_safe",
        changes: &[("crates/storage/morsel/src/walk.rs", "        self.write_back(at);\n        self.memory.fence();\n        if claim.replaces()", "        if claim.replaces()")],
        found_by: Test::Host { package: "morsel", test: "each_operation_in_depth" },
    },
    Bug {
        name: "a_record_is_there_before_it_is_written",
        changes: &[("crates/storage/morsel/src/record.rs", "        for (n, value) in body.into_iter().enumerate() {", "        self.memory.store(record.at, Anchor::live(root, order, flags).0);\n        for (n, value) in body.into_iter().enumerate() {")],
        found_by: Test::Host { package: "morsel", test: "each_operation_in_depth" },
    },
    Bug {
        name: "what_dies_is_left_by_recovery",
        changes: &[("crates/storage/morsel/src/recover.rs", "return morsels.reap(record);", "return Ok(true);")],
        found_by: Test::Host { package: "morsel", test: "each_operation_in_depth" },
    },
    Bug {
        name: "pages_are_free_before_they_are_cleared",
        changes: &[("crates/storage/morsel/src/take.rs", "            if !gone.is_empty() {\n                self.put(at, 0);", "            if !gone.is_empty() {\n                self.memory.store(at, 0);")],
        found_by: Test::Host { package: "morsel", test: "all_pairs_of_operations" },
    },
    Bug {
        name: "a_snapshot_leaves_a_right_to_write",
        changes: &[("crates/storage/morsel/src/shape.rs", "let lowered = self.lower(at, link);", "let lowered = link.lowered();")],
        found_by: Test::Host { package: "morsel", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "zeros_are_shown_in_tables_of_others",
        changes: &[("crates/storage/morsel/src/walk.rs", "(table, level, goal) = (root, order, Goal::Show);", "goal = Goal::Show;")],
        found_by: Test::Host { package: "morsel", test: "zeros_are_not_shown_behind_the_limit_of_another" },
    },
    Bug {
        name: "a_table_is_own_again_and_what_is_below_is_not",
        changes: &[("crates/storage/morsel/src/walk.rs", "(matches!(below.kind, Kind::Table(_)) || !self.is_alone(below))", "!self.is_alone(below)")],
        found_by: Test::Host { package: "morsel", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "a_replaced_page_is_still_in_a_tlb",
        changes: &[("crates/storage/morsel/src/walk.rs", "            self.cores.invalidate(path.object, path.below(level));\n", "")],
        found_by: Test::Host { package: "morsel", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "recovery_does_not_count_who_shares",
        changes: &[("crates/storage/morsel/src/recover.rs", "before.may_be_shared(found) && self.0.share(child)", "before.may_be_shared(found)")],
        found_by: Test::Host { package: "morsel", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "a_survey_does_not_see_who_may_write",
        changes: &[("crates/storage/morsel/src/inspection.rs", "notes[0].get() == found && !own", "notes[0].get() == found")],
        found_by: Test::Host { package: "morsel", test: "damaged_pools_are_refused_or_whole" },
    },
    Bug {
        name: "a_survey_forgets_that_objects_go_back",
        changes: &[("crates/storage/morsel/src/inspection.rs", "match morsels.will_be(record)? {", "match anchor {")],
        found_by: Test::Host { package: "morsel", test: "damaged_pools_are_refused_or_whole" },
    },
    Bug {
        name: "a_survey_takes_notes_for_objects",
        changes: &[("servers/unixd/src/pmem/inspection.rs", ".ok_or(DAMAGED)?.own_frames();", ".ok_or(DAMAGED)?.own_frames().min(1);")],
        found_by: Test::Machine { test: "persistent/refused" },
    },
    Bug {
        name: "recovery_takes_a_table_for_a_page",
        changes: &[("crates/storage/morsel/src/durable.rs", "self.0 & !COUNT == as_what.0 && self.0 & FOUND_OWN == 0", "self.0 & FOUND_OWN == 0")],
        found_by: Test::Host { package: "morsel", test: "damaged_pools_are_refused_or_whole" },
    },
    Bug {
        name: "a_page_behind_the_limit_stays_mapped",
        changes: &[("crates/storage/morsel/src/take.rs", "                self.cores.invalidate(record.id, first..first + 1);\n", "")],
        found_by: Test::Host { package: "morsel", test: "nothing_is_mapped_behind_a_limit_of_zero" },
    },
    Bug {
        name: "who_loses_keeps_the_page",
        changes: &[("crates/storage/morsel/src/walk.rs", "        if !self.install(path, at, level, hole, child) {\n            self.give(child);\n        }\n", "        self.install(path, at, level, hole, child);\n")],
        found_by: Test::Host { package: "morsel", test: "two_populate_a_page" },
    },
    Bug {
        name: "a_large_page_is_alone_while_others_have_pieces_of_it",
        changes: &[("crates/storage/morsel/src/durable.rs", "state & WHOLE_COUNT == 0 && !has_piece", "state & WHOLE_COUNT == 0")],
        found_by: Test::Host { package: "morsel", test: "random_operations_in_a_pool_that_does_not_survive" },
    },
    Bug {
        name: "pieces_that_nobody_has_are_not_given_back",
        changes: &[("crates/storage/morsel/src/durable.rs", "            return self.release_pieces(child);\n", "            return;\n")],
        found_by: Test::Host { package: "morsel", test: "both_who_share_a_large_page_write" },
    },
    Bug {
        name: "who_divides_keeps_all_of_it",
        changes: &[("crates/storage/morsel/src/walk.rs", "        } else if self.unshare(huge) {\n            left.push(huge);\n        }", "        }")],
        found_by: Test::Host { package: "morsel", test: "a_large_page_is_divided_while_who_shares_it_is_destroyed" },
    },
    Bug {
        name: "who_leads_to_a_piece_is_not_counted",
        changes: &[("crates/storage/morsel/src/durable.rs", "            if self.share(piece) {\n                let link", "            if true {\n                let link")],
        found_by: Test::Host { package: "morsel", test: "both_who_share_a_large_page_write" },
    },
    Bug {
        name: "a_child_sees_what_its_parent_writes",
        changes: &[("crates/user/uvm/src/fork.rs", "        self.before_fork_of_own(b)?;\n", "")],
        found_by: Test::Host { package: "uvm", test: "agrees_with_the_naive_model" },
    },
    Bug {
        name: "what_is_discarded_stays",
        changes: &[("crates/user/uvm/src/own.rs", "match b.object_punch(object, entry.offset, entry.pages()) {", "match { let _ = b; entry.pages() > 0 && object.index() > 0 } {")],
        found_by: Test::Host { package: "uvm", test: "agrees_with_the_naive_model" },
    },
    Bug {
        name: "what_goes_aside_can_be_written_to_meanwhile",
        changes: &[("crates/user/uvm/src/aside.rs", "        self.discard_tables(b, entry.start, entry.end)?;\n", "")],
        found_by: Test::Host { package: "uvm", test: "agrees_with_the_naive_model" },
    },
    Bug {
        name: "what_went_aside_stays_in_memory",
        changes: &[("crates/user/uvm/src/aside.rs", "let _ = self.amap.free(b, key, lo, hi);", "let _ = (key, lo, hi);")],
        found_by: Test::Host { package: "uvm", test: "agrees_with_the_naive_model" },
    },
    Bug {
        name: "what_was_moved_is_overwritten_by_what_goes_aside",
        changes: &[("crates/user/uvm/src/aside.rs", "self.aside.moved && self.is_elsewhere", "false && self.is_elsewhere")],
        found_by: Test::Host { package: "uvm", test: "what_was_moved_keeps_its_pages" },
    },
    Bug {
        name: "what_a_relative_has_goes_aside_at_once",
        changes: &[("crates/user/uvm/src/aside.rs", "            Some((place, _)) => b.page_shared((place.node, place.slot)),\n", "            Some((place, _)) => place.slot > 256,\n")],
        found_by: Test::Host { package: "uvm", test: "what_a_relative_has_goes_aside_last" },
    },
    Bug {
        name: "what_is_used_goes_aside_first",
        changes: &[("crates/user/uvm/src/aside.rs", "used >> n & 1 != 0 && anons", "used >> n & 1 == 0 && anons")],
        found_by: Test::Host { package: "uvm", test: "what_is_used_goes_aside_last" },
    },
    Bug {
        name: "an_object_that_is_no_more_takes_what_goes_aside",
        changes: &[("crates/user/uvm/src/space.rs", "            self.forget_aside(object);\n", "")],
        found_by: Test::Host { package: "uvm", test: "what_goes_aside_anew_has_another_object" },
    },
    Bug {
        name: "who_meets_a_claim_does_not_write_it_back",
        changes: &[("crates/storage/morsel/src/walk.rs", "                self.complete(path, at, level, link);\n", "                self.exchange(at, link, link.completed());\n")],
        found_by: Test::Host { package: "morsel", test: "who_meets_a_claim_completes_it" },
    },
    Bug {
        name: "a_snapshot_does_not_wait_for_who_writes",
        changes: &[("crates/storage/morsel/src/shape.rs", "        self.cores.invalidate(record.id, 0..pages_of(anchor.order()));\n", "")],
        found_by: Test::Host { package: "morsel", test: "a_snapshot_is_a_cut" },
    },
    Bug {
        name: "a_table_is_free_while_somebody_walks",
        changes: &[("crates/storage/morsel/src/durable.rs", "        self.cores.grace();\n", "")],
        found_by: Test::Host { package: "morsel", test: "a_table_is_discarded_while_somebody_populates_it" },
    },
    Bug {
        name: "an_object_grows_past_another_that_grew_it",
        changes: &[("crates/storage/morsel/src/shape.rs", "match self.memory.compare_exchange(record.at, anchor.0, new.0) {", "self.memory.store(record.at, new.0);\n        match Ok::<u64, u64>(0).map(|_| ()) {")],
        found_by: Test::Host { package: "morsel", test: "two_grow_an_object" },
    },
    Bug {
        name: "a_commit_is_not_safe_when_it_returns",
        changes: &[("crates/storage/morsel/src/commit.rs", "        self.put(record.word(OTHER), hidden);\n", "        self.memory.store(record.word(OTHER), hidden);\n")],
        found_by: Test::Host { package: "morsel", test: "all_pairs_of_operations" },
    },
    Bug {
        name: "what_was_committed_is_freed_before_the_object_has_it",
        changes: &[("crates/storage/morsel/src/commit.rs", "            self.name(record, 0);\n            self.memory.store(hidden.at", "            self.memory.store(record.word(OTHER), 0);\n            self.memory.store(hidden.at")],
        found_by: Test::Host { package: "morsel", test: "all_pairs_of_operations" },
    },
    Bug {
        name: "two_commit_at_once",
        changes: &[("crates/storage/morsel/src/commit.rs", "        if word & BUSY != 0 {\n            return Err(Refused::Again);\n        }\n", "")],
        found_by: Test::Host { package: "morsel", test: "two_commit_an_object" },
    },
    Bug {
        name: "memory_is_removed_without_looking",
        changes: &[("crates/storage/pool/src/chunks.rs", "        let removed = self.words.compare_exchange(word, free.0, Child::ABSENT.0).is_ok();\n", "        let removed = self.words.load(word) == free.0;\n        self.words.store(word, Child::ABSENT.0);\n")],
        found_by: Test::Host { package: "pool", test: "memory_is_removed_while_a_page_is_taken" },
    },
    Bug {
        name: "what_a_core_has_reserved_keeps_memory",
        changes: &[("crates/storage/pool/src/chunks.rs", "if !self.take_tree(tree, CHILD) && !self.steal(tree, CHILD) {", "if !self.take_tree(tree, CHILD) {")],
        found_by: Test::Host { package: "pool", test: "reserved_memory_is_found" },
    },
    Bug {
        name: "who_cannot_remove_keeps_a_right",
        changes: &[("crates/storage/pool/src/chunks.rs", "        if !removed {\n            self.give_tree(tree, CHILD);\n        }\n", "")],
        found_by: Test::Host { package: "pool", test: "memory_is_removed_while_a_page_is_taken" },
    },
    Bug {
        name: "what_is_absent_is_given_back",
        changes: &[("crates/storage/pool/src/lib.rs", "        if now.is_nobodys() {\n", "        if now == Child::GIVING {\n")],
        found_by: Test::Host { package: "pool", test: "memory_that_comes_has_no_descriptors" },
    },
    Bug {
        name: "memory_comes_with_old_bits",
        changes: &[("crates/storage/pool/src/chunks.rs", "        if now == Child::RAW {\n", "        if now == Child::ABSENT {\n")],
        found_by: Test::Host { package: "pool", test: "memory_that_comes_has_no_descriptors" },
    },
    Bug {
        name: "who_only_looks_shows_zeros",
        changes: &[("crates/storage/morsel/src/survey.rs", "self.visit_and(record, first, Goal::Survey, |found| {", "self.visit_and(record, first, Goal::Look, |found| {")],
        found_by: Test::Host { package: "morsel", test: "random_operations_in_a_pool_that_is_nearly_empty" },
    },
    Bug {
        name: "a_chunk_in_use_goes_home",
        changes: &[("kernel/src/operations/chunks.rs", "            return close(cpu, number);\n", "            break;\n")],
        found_by: Test::Host { package: "kernel", test: "whatever_goes_first_all_memory_comes_home" },
    },
    Bug {
        name: "a_chunk_has_copies",
        changes: &[("kernel/src/operations/chunks.rs", "cpu.caps.db.has_copies(slot) || has_parts", "has_parts")],
        found_by: Test::Host { package: "kernel", test: "only_free_ram_of_the_range_comes" },
    },
    Bug {
        name: "pools_of_one_range_have_the_same_pages",
        changes: &[("kernel/src/cores/pools.rs", "state & APART != 0 && has_got(self, pa)", "state & APART != 0")],
        found_by: Test::Host { package: "kernel", test: "a_head_describes_a_range" },
    },
    Bug {
        name: "a_right_is_lost_when_nothing_was_found",
        changes: &[("crates/storage/pool/src/lib.rs", "            self.give_right(tree, size.frames(), core);\n", "")],
        found_by: Test::Host { package: "pool", test: "random_operations_are_those_of_a_set" },
    },
    Bug {
        name: "a_large_page_has_no_bits",
        changes: &[("crates/storage/pool/src/lib.rs", "        (bits..bits + CHILD / 64).for_each(|word| self.words.store(word, u64::MAX));\n", "")],
        found_by: Test::Host { package: "pool", test: "random_operations_are_those_of_a_set" },
    },
    Bug {
        name: "a_closed_tree_is_taken_of",
        changes: &[("crates/storage/pool/src/counters.rs", "(!tree.is_closed() && tree.count() >= need)", "(tree.count() >= need)")],
        found_by: Test::Host { package: "pool", test: "random_operations_are_those_of_a_set" },
    },
    Bug {
        name: "a_core_leaves_and_takes_all_with_it",
        changes: &[("crates/storage/pool/src/lib.rs", "Ok(()) => return self.unreserve(tree, now.count()),", "Ok(()) => return self.unreserve(tree, 0),")],
        found_by: Test::Host { package: "pool", test: "random_operations_are_those_of_a_set" },
    },
    Bug {
        name: "a_page_is_given_back_twice",
        changes: &[("crates/storage/pool/src/lib.rs", "            if now & mask != mask {\n                return Err(Refused::NotTaken);\n            }\n", "")],
        found_by: Test::Host { package: "pool", test: "random_operations_are_those_of_a_set" },
    },
    Bug {
        name: "a_large_page_is_taken_without_an_exchange",
        changes: &[("crates/storage/pool/src/lib.rs", "        if self.words.compare_exchange(word, free.0, Child::HUGE.0).is_err() {\n            return false;\n        }\n", "        if self.words.load(word) != free.0 {\n            return false;\n        }\n        self.words.store(word, Child::HUGE.0);\n")],
        found_by: Test::Host { package: "pool", test: "a_huge_page_and_a_small_one_are_taken" },
    },
    Bug {
        name: "a_reservation_forgets_what_came_back",
        changes: &[("crates/storage/pool/src/counters.rs", "        self.update(word, |now| Some(Tree(now).unreserved().0 + count as u64));\n", "        let _ = Tree::unreserved;\n        self.words.store(word, count as u64);\n")],
        found_by: Test::Host { package: "pool", test: "a_page_comes_back_from_another_core" },
    },
    Bug {
        name: "a_core_reserves_what_was_just_closed",
        changes: &[("crates/storage/pool/src/lib.rs", "        if self.tree(tree).is_closed() {\n            self.leave(core);\n        }\n", "")],
        found_by: Test::Host { package: "pool", test: "a_closed_tree_becomes_empty" },
    },
    Bug {
        name: "a_page_comes_back_twice_with_its_2_mib",
        changes: &[("crates/storage/pool/src/lib.rs", "        let taken = self.words.compare_exchange(word, Child::HUGE.0, Child::GIVING.0);\n", "        let taken = self.words.compare_exchange(word, Child::HUGE.0, Child::GIVING.0);\n        let _ = self.words.compare_exchange(word, Child::GIVING.0, Child::free(0).0);\n")],
        found_by: Test::Host { package: "pool", test: "a_huge_page_and_a_page_of_it_are_given_back_at_once" },
    },
    Bug {
        name: "a_pool_is_formatted_with_old_reservations",
        changes: &[("crates/storage/pool/src/lib.rs", "            while let Err(other) = self.locals.compare_exchange(core, now, Local::NONE.0) {\n                now = other;\n            }\n", "            now = now.min(now);\n            let _ = now;\n")],
        found_by: Test::Host { package: "pool", test: "recovery_takes_what_is_reached" },
    },
    Bug {
        name: "a_name_leads_to_what_is_not_written",
        changes: &[("crates/storage/pmfs/src/log.rs", "        // From here on the bodies are there, and what the operation before has changed.\n        area.fence();\n", "")],
        found_by: Test::Host { package: "pmfs", test: "each_operation_in_depth" },
    },
    Bug {
        name: "an_operation_returns_before_its_record_is_safe",
        changes: &[("crates/storage/pmfs/src/log.rs", "        area.fence();\n        apply(area", "        apply(area")],
        found_by: Test::Host { package: "pmfs", test: "each_operation_in_depth" },
    },
    Bug {
        name: "a_record_is_carried_out_and_never_written_back",
        changes: &[("crates/storage/pmfs/src/log.rs", "        area.write_back(address / WORDS);\n", "        let _ = WORDS;\n")],
        found_by: Test::Host { package: "pmfs", test: "all_pairs_of_operations" },
    },
    Bug {
        name: "the_number_of_half_a_record_is_used_again",
        changes: &[("crates/storage/pmfs/src/log.rs", "(0..LOG_LINES).map(number).max()?", "number(0)")],
        found_by: Test::Host { package: "pmfs", test: "half_a_record_is_never_completed" },
    },
    Bug {
        name: "a_mount_writes_before_it_has_looked",
        changes: &[("crates/storage/pmfs/src/mount.rs", "        let room = word(ROOT, 0)", "        log::apply(&area, pending.clone().into_iter());\n        let room = word(ROOT, 0)")],
        found_by: Test::Host { package: "pmfs", test: "damaged_areas_are_refused_or_whole" },
    },
    Bug {
        name: "a_mount_forgets_the_last_operation",
        changes: &[("crates/storage/pmfs/src/mount.rs", "        log::apply(&self.fs.area, pending.into_iter());\n", "        let _ = pending;\n")],
        found_by: Test::Host { package: "pmfs", test: "each_operation_in_depth" },
    },
    Bug {
        name: "what_has_no_name_stays",
        changes: &[("crates/storage/pmfs/src/mount.rs", "let has_name = |known: &index::Inode| known.names > 0;", "let has_name = |known: &index::Inode| known.names > 0 || known.xattrs == 0;")],
        found_by: Test::Host { package: "pmfs", test: "each_operation_in_depth" },
    },
    Bug {
        name: "attributes_stay_when_their_inode_goes",
        changes: &[("crates/storage/pmfs/src/modify.rs", "            self.drop_xattr(change, ino, line, freed);\n", "            self.index.remove_xattr(ino, line);\n")],
        found_by: Test::Host { package: "pmfs", test: "each_operation_in_depth" },
    },
    Bug {
        name: "lines_in_use_are_not_saved",
        changes: &[("crates/storage/pmfs/src/fs.rs", "            change.high_water(high_water);\n", "            let _ = high_water;\n")],
        found_by: Test::Host { package: "pmfs", test: "all_pairs_of_operations" },
    },
    Bug {
        name: "what_comes_into_use_is_not_cleared",
        changes: &[("crates/storage/pmfs/src/fs.rs", "        clear_heads(&self.area, high..self.lines.high());\n", "        let _ = high;\n")],
        found_by: Test::Host { package: "pmfs", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "an_inode_has_the_generation_of_the_last",
        changes: &[("crates/storage/pmfs/src/modify.rs", "let generation = self.log.number() as u32;", "let generation = 1;")],
        found_by: Test::Host { package: "pmfs", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "lines_of_a_long_name_are_lost",
        changes: &[("crates/storage/pmfs/src/modify.rs", "        self.collect(head.rest, more_lines(head.length as usize), &mut freed);\n        change.set(line, HEAD, 0);", "        change.set(line, HEAD, 0);")],
        found_by: Test::Host { package: "pmfs", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "a_directory_is_exchanged_into_itself",
        changes: &[("crates/storage/pmfs/src/rename.rs", "if self.is_below(from.dir, to.ino) {", "if from.dir == to.ino {")],
        found_by: Test::Host { package: "pmfs", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "a_chain_belongs_to_two",
        changes: &[("crates/storage/pmfs/src/mount.rs", "chain::each_line(load, rest, count, |line| lines.mark(line))", "chain::each_line(load, rest, count, |line| lines.mark(line) || line < lines.high())")],
        found_by: Test::Host { package: "pmfs", test: "damaged_areas_are_refused_or_whole" },
    },
    Bug {
        name: "a_name_is_there_twice",
        changes: &[("crates/storage/pmfs/src/mount.rs", "        ensure(is_new, line, \"name that is there twice\")?;\n", "        let _ = is_new;\n")],
        found_by: Test::Host { package: "pmfs", test: "damaged_areas_are_refused_or_whole" },
    },
    Bug {
        name: "directories_in_a_circle",
        changes: &[("crates/storage/pmfs/src/mount.rs", "ensure(seen == all, ROOT,", "ensure(seen <= all, ROOT,")],
        found_by: Test::Host { package: "pmfs", test: "damaged_areas_are_refused_or_whole" },
    },
    Bug {
        name: "what_was_being_copied_stays_after_a_failure",
        changes: &[("crates/storage/pmfs/src/tree.rs", "        copying.change.mark(Some(top));\n", "")],
        found_by: Test::Host { package: "pmfs", test: "all_pairs_of_operations" },
    },
    Bug {
        name: "a_copy_is_removed_by_the_next_mount",
        changes: &[("crates/storage/pmfs/src/tree.rs", "        copying.change.mark(None);\n", "")],
        found_by: Test::Host { package: "pmfs", test: "each_operation_in_depth" },
    },
    Bug {
        name: "a_disk_grows",
        changes: &[(
            "servers/unixd/src/disks.rs",
            "Some(left @ 1..) => Ok(bytes.min(left)),",
            "Some(1..) => Ok(bytes),",
        )],
        found_by: Test::Machine { test: "linux/memory_disk.gcc" },
    },
    Bug {
        name: "time_is_taken_back_at_a_look",
        changes: &[(
            "kernel/src/object/time.rs",
            "        self.system.store(system, Relaxed);\n",
            "        let whole = ticks - self.at.load(Relaxed);\n        \
             self.system.store(if in_system { system.max(whole) } else { system }, Relaxed);\n",
        )],
        found_by: Test::Host { package: "kernel", test: "no_part_ever_becomes_less" },
    },
    Bug {
        name: "only_the_first_slot_has_an_owner",
        changes: &[(
            "servers/unixd/src/captree.rs",
            "for copy in 0..=copies {",
            "for copy in 0..=copies.min(0) {",
        )],
        found_by: Test::Machine { test: "shell/capabilities.sh" },
    },
    Bug {
        name: "pages_of_who_left_a_cnode_are_own",
        changes: &[(
            "crates/user/uvm/src/amap.rs",
            "        chunk.aliased = chunk.filled;\n        Ok(false)",
            "        Ok(false)",
        )],
        found_by: Test::Host { package: "uvm", test: "who_left_the_cnode_may_have_the_pages_still" },
    },
    Bug {
        name: "pairs_stay_writable_in_a_fork",
        changes: &[(
            "crates/user/uvm/src/amap.rs",
            "Ok(self.shelves.lower(b).inspect_err(|_| self.alias_pairs())?)",
            "Ok(())",
        )],
        found_by: Test::Host { package: "uvm", test: "pairs_are_copied_on_write" },
    },
    Bug {
        name: "mappings_stay_in_pairs_when_a_chunk_becomes_dense",
        changes: &[(
            "crates/user/uvm/src/amap.rs",
            "mappings.filter(|_| mapped.get(slot))",
            "mappings.filter(|_| mapped.is_empty())",
        )],
        found_by: Test::Host { package: "uvm", test: "a_chunk_becomes_dense_as_it_is" },
    },
    Bug {
        name: "a_refused_write_protect_is_ignored",
        changes: &[(
            "crates/user/uvm/src/pmap.rs",
            "        match self.try_lower(b, amap, key) {\n            Ok(()) => Ok(()),\n            \
             Err(Refused) => self.reset(b, key),\n        }",
            "        let _ = self.try_lower(b, amap, key);\n        Ok(())",
        )],
        found_by: Test::Host {
            package: "uvm",
            test: "a_write_protect_that_is_refused_is_no_loss_of_copy_on_write",
        },
    },
    Bug {
        name: "an_object_is_released_before_it_is_mapped_anew",
        changes: &[(
            "crates/user/uvm/src/mmap.rs",
            "let removed = self.remove_pages(b, start, end);",
            "let removed = self.unmap_pages(b, start, end);",
        )],
        found_by: Test::Host {
            package: "uvm",
            test: "an_object_that_takes_the_place_of_its_only_mapping_stays",
        },
    },
    Bug {
        name: "what_could_not_be_deleted_stays_mapped",
        changes: &[(
            "crates/user/uvm/src/space.rs",
            "Err(Refused) => self.pmap.remove_unknown(b, key),",
            "Err(Refused) => self.pmap.forget(b, key, base + lo, base + hi),",
        )],
        found_by: Test::Host { package: "uvm", test: "what_is_refused_is_repeated" },
    },
    Bug {
        name: "slices_of_frames_overlap",
        changes: &[(
            "kernel/src/cap/retype.rs",
            "return self.db.object_inside(src, base, len).is_some();",
            "return false;",
        )],
        found_by: Test::Host { package: "kernel", test: "random_operations_keep_the_invariants" },
    },
    Bug {
        name: "a_repeated_delete_needs_the_way_to_its_slot",
        changes: &[(
            "kernel/src/invoke/any.rs",
            "matches!(lost, Status::Empty | Status::NoSlot | Status::WrongType)",
            "lost == Status::Empty",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "a_delete_may_take_away_the_way_to_its_slot",
        },
    },
    Bug {
        name: "what_was_in_slot_0_is_forgotten",
        changes: &[(
            "kernel/src/operations/delete.rs",
            "    while let Some(parked) = cpu.caps.dying.first() {\n        delete_left(cpu)?;\n",
            "    while let Some(parked) = cpu.caps.dying.first() {\n",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "what_was_in_slot_0_goes_though_the_way_to_it_went",
        },
    },
    Bug {
        name: "whoever_has_a_dispatcher_copies_what_it_lends",
        changes: &[(
            "kernel/src/operations/calls.rs",
            "EndpointRef::of_call(server, caller).ok_or(Status::WrongState)?;",
            "let _ = EndpointRef::of_call(server, caller);",
        )],
        found_by: Test::Host { package: "kernel", test: "nothing_is_lent_when_the_call_is_over_or_by_those_who_do_not_call" },
    },
    Bug {
        name: "registers_of_a_fault_lend",
        changes: &[(
            "kernel/src/operations/calls.rs",
            "if caller.has(flag::FAULT) || caller.has(flag::REDIRECTED) {",
            "if false && caller.has(flag::FAULT) {",
        )],
        found_by: Test::Host { package: "kernel", test: "whoever_faults_lends_nothing_whatever_its_registers_say" },
    },
    Bug {
        name: "what_is_lent_to_be_read_is_written_to",
        changes: &[(
            "kernel/src/operations/calls.rs",
            "caller.ctx.rax.get() & right == 0",
            "caller.ctx.rax.get() & (3 << 25) == 0",
        )],
        found_by: Test::Host { package: "kernel", test: "whoever_is_called_reads_what_is_lent_and_no_more" },
    },
    Bug {
        name: "more_is_copied_than_is_lent",
        changes: &[(
            "kernel/src/operations/calls.rs",
            "Some((at, here.min(left)))",
            "Some((at, here))",
        )],
        found_by: Test::Host { package: "kernel", test: "whoever_is_called_reads_what_is_lent_and_no_more" },
    },
    Bug {
        name: "a_copy_of_what_is_lent_has_no_bound",
        changes: &[(
            "kernel/src/operations/calls.rs",
            "let limit = bytes.min(MOST_COPIED);",
            "let limit = bytes.min(u64::MAX.max(MOST_COPIED));",
        )],
        found_by: Test::Host { package: "kernel", test: "a_copy_is_bounded" },
    },
    Bug {
        name: "the_target_of_a_copy_is_only_read",
        changes: &[(
            "kernel/src/operations/calls.rs",
            "Side::lent(to, args.to_offset, true)",
            "Side::lent(to, args.to_offset, false)",
        )],
        found_by: Test::Host { package: "kernel", test: "between_two_callers_one_copy_goes_by_the_rights_of_each" },
    },
    Bug {
        name: "what_a_reader_cannot_take_is_lost",
        changes: &[(
            "servers/unixd/src/ring.rs",
            "        self.consume(done);\n        done",
            "        self.consume(bytes);\n        done",
        )],
        found_by: Test::Machine { test: "linux/hostile_pipes.gcc" },
    },
    Bug {
        name: "what_is_on_its_way_is_not_counted",
        changes: &[(
            "crates/server/sockets/src/queue.rs",
            "self.here.bytes + self.bytes_lent()",
            "self.here.bytes",
        )],
        found_by: Test::Host { package: "sockets", test: "what_is_on_its_way_is_seen_by_everybody" },
    },
    Bug {
        name: "a_stream_is_lent_with_something_in_its_queue",
        changes: &[(
            "crates/server/sockets/src/queue.rs",
            "self.here.all.is_empty() && self.here.is_small",
            "self.here.is_small",
        )],
        found_by: Test::Host { package: "sockets", test: "a_stream_is_what_was_sent" },
    },
    Bug {
        name: "who_sends_to_a_lent_stream_does_not_take_it_back",
        changes: &[(
            "crates/server/sockets/src/queue.rs",
            "self.loan.as_mut().filter(|loan| loan.ring.is_in_use())",
            "self.loan.as_mut().filter(|loan| !loan.ring.is_open() && loan.ring.is_in_use())",
        )],
        found_by: Test::Host { package: "sockets", test: "a_stream_is_what_was_sent" },
    },
    Bug {
        name: "bytes_that_a_reader_was_passed_are_written_again",
        changes: &[(
            "servers/unixd/src/pipes.rs",
            "blocked.call.done += bytes;",
            "blocked.call.done += bytes / 2;",
        )],
        found_by: Test::Machine { test: "linux/pipes_lent.gcc" },
    },
    Bug {
        name: "everything_in_a_loan_is_made_of_it",
        changes: &[(
            "crates/kernel/mdb/src/order.rs",
            "!is_leaf::<P>(a) || is_record::<P>(b) && P::derives(a, b)",
            "!is_leaf::<P>(a) || is_record::<P>(b) && P::is_derived(b)",
        )],
        found_by: Test::Host { package: "mdb", test: "answers_as_the_list_does" },
    },
    Bug {
        name: "what_a_loan_has_mapped_hangs_from_the_frame",
        changes: &[(
            "crates/kernel/mdb/src/lib.rs",
            "&& !P::is_derived(leaf)",
            "",
        )],
        found_by: Test::Host { package: "mdb", test: "what_was_mapped_through_a_loan_is_the_loans" },
    },
    Bug {
        name: "copies_of_loans_are_no_copies",
        changes: &[(
            "crates/kernel/mdb/src/ring.rs",
            "let leaf = is_record::<P>(&head.cap());",
            "let leaf = crate::order::is_leaf::<P>(&head.cap());",
        )],
        found_by: Test::Host { package: "mdb", test: "answers_as_the_list_does" },
    },
    Bug {
        name: "a_lent_page_is_alone",
        changes: &[(
            "kernel/src/cap/asks.rs",
            "(attrs & attr::LENT == 0 || !self.db.is_marked_lent(slot))",
            "(attrs & attr::LENT == 0 || true)",
        )],
        found_by: Test::Host { package: "kernel", test: "nobody_gains_write_access_to_what_is_lent" },
    },
    Bug {
        name: "the_mark_of_a_lent_frame_goes_with_its_slot",
        changes: &[(
            "kernel/src/cap/loans.rs",
            "other.set_rights(cap.rights, cap.attrs | attr::LENT);",
            "other.set_rights(cap.rights, cap.attrs);",
        )],
        found_by: Test::Host { package: "kernel", test: "the_mark_goes_from_copy_to_copy" },
    },
    Bug {
        name: "a_lent_page_goes_home_with_its_frame",
        changes: &[(
            "kernel/src/operations/delete.rs",
            "cap.word == PAGE && !caps.db.may_be_lent(cap)",
            "cap.word == PAGE",
        )],
        found_by: Test::Host { package: "kernel", test: "a_frame_that_goes_leaves_what_is_lent" },
    },
    Bug {
        name: "a_lent_page_is_a_plain_page",
        changes: &[(
            "kernel/src/operations/pages.rs",
            "        && !caps.db.may_be_lent(&cap)\n",
            "",
        )],
        found_by: Test::Host { package: "kernel", test: "a_frame_that_goes_leaves_what_is_lent" },
    },
    Bug {
        name: "a_page_takes_the_mappings_of_a_frame_around_it",
        changes: &[(
            "kernel/src/operations/pages.rs",
            "if above.is_frame() {",
            "if false {",
        )],
        found_by: Test::Host { package: "kernel", test: "the_library_may_drop_the_whole_frame_before_its_parts" },
    },
    Bug {
        name: "the_next_page_is_inside_what_the_last_was_in",
        changes: &[(
            "crates/kernel/mdb/src/turn.rs",
            "known.filter(|above| Extent::of::<P>(&above.cap()).end >= end)",
            "known",
        )],
        found_by: Test::Host { package: "mdb", test: "answers_as_the_list_does" },
    },
    Bug {
        name: "what_comes_between_is_no_ancestor",
        changes: &[(
            "crates/kernel/mdb/src/tree.rs",
            "self.turn.forget();",
            "",
        )],
        found_by: Test::Host { package: "mdb", test: "the_ancestor_of_the_next_is_asked_again_when_anything_changes" },
    },
    Bug {
        name: "an_ancestor_that_moved_is_where_it_was",
        changes: &[(
            "crates/kernel/mdb/src/lib.rs",
            "self.turn.forget();",
            "",
        )],
        found_by: Test::Host { package: "mdb", test: "the_ancestor_of_the_next_is_asked_again_when_anything_changes" },
    },
    Bug {
        name: "whatever_goes_the_next_is_known",
        changes: &[(
            "crates/kernel/mdb/src/turn.rs",
            "if self.node.get() == Some(node) { self.next.take() } else { None }",
            "self.next.take()",
        )],
        found_by: Test::Host { package: "mdb", test: "the_ancestor_of_the_next_is_asked_again_when_anything_changes" },
    },
    Bug {
        name: "loans_begin_where_frames_do",
        changes: &[(
            "kernel/src/operations/delete.rs",
            "first_part(caps, slot, cap).is_some() || lent()",
            "first_part(caps, slot, cap).is_some() || false && lent()",
        )],
        found_by: Test::Host { package: "kernel", test: "a_frame_that_goes_leaves_what_is_lent" },
    },
    Bug {
        name: "the_kernel_copies_to_what_is_read_only",
        changes: &[(
            "kernel/src/object/walk.rs",
            "Use::Write => read | Flags::WRITE.bits(),",
            "Use::Write => read,",
        )],
        found_by: Test::Host { package: "kernel", test: "bytes_go_where_the_borrower_can_write_and_nowhere_else" },
    },
    Bug {
        name: "a_borrower_can_recall",
        changes: &[(
            "kernel/src/operations/loans.rs",
            "!cap.is_null() && !cap.rights_set().has(Rights::REVOKE)",
            "false && !cap.rights_set().has(Rights::REVOKE)",
        )],
        found_by: Test::Host { package: "kernel", test: "each_act_of_lending_is_an_object" },
    },
    Bug {
        name: "a_run_goes_on_in_other_loans",
        changes: &[(
            "kernel/src/operations/loans.rs",
            "next.is(CapType::Loan) && next.aux == self.cap.aux",
            "next.is(CapType::Loan)",
        )],
        found_by: Test::Host { package: "kernel", test: "a_run_ends_where_another_act_of_lending_begins" },
    },
    Bug {
        name: "what_one_core_has_lent_another_gives_back",
        changes: &[(
            "kernel/src/cap/protocol.rs",
            "let mut covers = self.db.overlapping(MEMORY, base, len, self.db.keepers());",
            "let mut covers = self.db.overlapping(MEMORY, base, len, Class::Objects);",
        )],
        found_by: Test::Host { package: "kernel", test: "what_is_lent_stays_when_another_core_deletes_the_frame" },
    },
    Bug {
        name: "memory_comes_back_while_another_core_covers_it",
        changes: &[(
            "crates/protocol/capproto/src/operation.rs",
            "(true, false) if !bug.is(Mutation::ReclaimUnasked) => {",
            "(true, false) if bug.is(Mutation::ReclaimUnasked) => {",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "memory_that_only_a_part_on_another_core_covers_stays_there",
        },
    },
    Bug {
        name: "a_core_says_that_it_covers_nothing",
        changes: &[(
            "kernel/src/cap/protocol.rs",
            "let first = covers.find(|slot| keeps_memory(slot.ty()))?.cap();",
            "let first = covers.find(|slot| slot.cap().kind() == CapType::Ram)?.cap();",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "memory_that_only_a_part_on_another_core_covers_stays_there",
        },
    },
    Bug {
        name: "containers_that_find_no_room_are_in_use",
        changes: &[(
            "kernel/src/cap/suspects.rs",
            "None => self.overflow = true,",
            "None => self.overflow = false,",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "what_is_lost_after_many_others_is_found",
        },
    },
    Bug {
        name: "a_revoke_marks_nothing",
        changes: &[(
            "crates/protocol/capproto/src/operation.rs",
            "if waiting.count() < 2 || bug.is(Mutation::SkipMark) {",
            "if waiting.count() < 9 || bug.is(Mutation::SkipMark) {",
        )],
        found_by: Test::Host { package: "capproto", test: "directed_cases" },
    },
    Bug {
        name: "anybody_may_look_into_a_process",
        changes: &[(
            "servers/unixd/src/trace.rs",
            "match leader == pid || credentials::may_trace(&from.who, &to.who, to.dumpable) {",
            "match leader == pid || credentials::may_signal(&from.who, &to.who) {",
        )],
        found_by: Test::Machine { test: "linux/ptrace_hostile.gcc" },
    },
    Bug {
        name: "a_step_is_kept_by_who_is_let_go",
        changes: &[(
            "lib/libunix/src/trace/mod.rs",
            "regs.rflags &= !TRAP_FLAG;",
            "regs.rflags |= TRAP_FLAG;",
        )],
        found_by: Test::Machine { test: "linux/ptrace.gcc" },
    },
    Bug {
        name: "a_child_inherits_locks",
        changes: &[
            (
                "servers/unixd/src/server/requests.rs",
                "                self.births().fork(pid, call, op)\n",
                "                \
                 let forked = self.births().fork(pid, call, op);\n                \
                 if let Ok(Outcome::WithCaps(words, _)) = &forked {\n                    \
                 self.locks.inherit(pid, words[1] as Pid);\n                }\n                \
                 forked\n",
            ),
            (
                "servers/unixd/src/locks.rs",
                "impl FileLocks {\n",
                "impl AllLocks {\n    pub fn inherit(&mut self, from: Pid, to: Pid) {\n        \
                 let (from, to) = (Owner::Process(from), Owner::Process(to));\n        \
                 for file in self.files.values_mut() {\n            \
                 file.ranges.inherit(from, to);\n            \
                 file.ranges.users_of(to).for_each(|user| self.users.take(user, 1));\n        \
                 }\n    }\n}\n\nimpl FileLocks {\n",
            ),
            (
                "crates/server/filelock/src/lib.rs",
                "    /// Sets a lock that nothing is in the way of.\n",
                "    /// Bug.\n    pub fn inherit(&mut self, from: Owner, to: Owner) {\n        \
                 let own: Vec<Lock> = self.0.iter().copied().filter(|lock| lock.owner == from).collect();\n        \
                 own.into_iter().for_each(|lock| self.set(Lock { owner: to, ..lock }));\n    }\n\
                 \n    /// Sets a lock that nothing is in the way of.\n",
            ),
        ],
        found_by: Test::Machine { test: "linux/locks.gcc" },
    },
    Bug {
        name: "ephemeral_cores_that_have_forgotten_are_not_remembered",
        changes: &[(
            "crates/kernel/ephemeral/src/cache.rs",
            "this.cores = this.cores.with(Cores::one(here));",
            "",
        )],
        found_by: Test::Host {
            package: "ephemeral",
            test: "a_private_miss_invalidates_here_and_a_hit_elsewhere_there",
        },
    },
    Bug {
        name: "ephemeral_accessed_bit_is_ignored",
        changes: &[(
            "crates/kernel/ephemeral/src/cache.rs",
            "if machine.point(buffers.get(buffer).window, shown.pages()) {",
            "if machine.point(buffers.get(buffer).window, shown.pages()) && N == 0 {",
        )],
        found_by: Test::Host { package: "ephemeral", test: "cache" },
    },
    Bug {
        name: "ephemeral_unused_entries_were_forgotten_by_all",
        changes: &[(
            "crates/kernel/ephemeral/src/cache.rs",
            "                machine.note(Action::EmptyCores);\n            }",
            "                machine.note(Action::EmptyCores);\n            } else {\n                \
             buffers.get_mut(buffer).cores = machine.cores();\n            }",
        )],
        found_by: Test::Host { package: "ephemeral", test: "cache" },
    },
    Bug {
        name: "ephemeral_the_newest_goes_first",
        changes: &[(
            "crates/kernel/ephemeral/src/buffers.rs",
            "Some(self.oldest).filter",
            "Some(self.newest).filter",
        )],
        found_by: Test::Host { package: "ephemeral", test: "cache" },
    },
    Bug {
        name: "ephemeral_users_are_counted_twice",
        changes: &[(
            "crates/kernel/ephemeral/src/cache.rs",
            "buffers.get_mut(buffer).users += 1;",
            "buffers.get_mut(buffer).users += 2;",
        )],
        found_by: Test::Host { package: "ephemeral", test: "cache" },
    },
    Bug {
        name: "ephemeral_what_is_used_again_stays_on_the_list",
        changes: &[(
            "crates/kernel/ephemeral/src/cache.rs",
            "        buffers.unlist(buffer);\n",
            "",
        )],
        found_by: Test::Host { package: "ephemeral", test: "cache" },
    },
    Bug {
        name: "ephemeral_what_is_forgotten_in_use_stays_mapped",
        changes: &[(
            "crates/kernel/ephemeral/src/library.rs",
            "if self.cache.clear_forgotten(mapping) {",
            "if false {",
        )],
        found_by: Test::Host { package: "ephemeral", test: "random_looks" },
    },
    Bug {
        name: "ephemeral_what_was_refused_is_found",
        changes: &[(
            "crates/kernel/ephemeral/src/library.rs",
            "        self.cache.release(mapping);\n        self.cache.forget_mapping(mapping);",
            "        self.cache.release(mapping);",
        )],
        found_by: Test::Host { package: "ephemeral", test: "random_looks" },
    },
    Bug {
        name: "ephemeral_what_has_no_name_is_kept",
        changes: &[(
            "crates/kernel/ephemeral/src/library.rs",
            "if !P::is_kept(&mapping.page) {",
            "if P::is_kept(&mapping.page) && N == 0 {",
        )],
        found_by: Test::Host { package: "ephemeral", test: "random_looks" },
    },
    Bug {
        name: "ephemeral_a_window_that_is_free_waits_for_its_turn",
        changes: &[(
            "crates/kernel/ephemeral/src/cache.rs",
            "self.singles.list_first(buffer);",
            "self.singles.list(buffer);",
        )],
        found_by: Test::Host { package: "ephemeral", test: "random_looks" },
    },
    Bug {
        name: "ephemeral_of_a_run_only_the_first_is_forgotten",
        changes: &[(
            "crates/kernel/ephemeral/src/cache.rs",
            "const WINDOWS: usize = RUN;",
            "const WINDOWS: usize = 1;",
        )],
        found_by: Test::Host { package: "ephemeral", test: "cache" },
    },
    Bug {
        name: "ephemeral_sleepers_are_not_woken",
        changes: &[(
            "crates/kernel/ephemeral/src/guarded.rs",
            "state.are_sleepers = true;",
            "",
        )],
        found_by: Test::Host { package: "ephemeral", test: "whoever_waits_is_woken" },
    },
    Bug {
        name: "ephemeral_sleepers_miss_what_is_freed_before_they_sleep",
        changes: &[(
            "crates/kernel/ephemeral/src/guarded.rs",
            "Err(seen) => self.lock.wait(seen?, flags.has(Flags::INTERRUPTIBLE))?,",
            "Err(seen) => {\n                    let _: u32 = seen?;\n                    \
             let seen = self.lock.with(|state| state.wakes);\n                    \
             self.lock.wait(seen, flags.has(Flags::INTERRUPTIBLE))?;\n                }",
        )],
        found_by: Test::Host { package: "ephemeral", test: "whoever_waits_is_woken" },
    },
    Bug {
        name: "what_was_an_object_stays_in_the_map",
        changes: &[(
            "kernel/src/operations/delete.rs",
            "        arch::hide(cap.base, PAGE);\n    }\n    if at_home",
            "    }\n    if at_home",
        )],
        found_by: Test::Host { package: "kernel", test: "an_object_is_shown_as_long_as_it_is_one" },
    },
    Bug {
        name: "a_container_leaves_its_first_page_only",
        changes: &[(
            "kernel/src/operations/delete.rs",
            "            hide_container(cpu, &cap)?;\n",
            "",
        )],
        found_by: Test::Host { package: "kernel", test: "an_object_is_shown_as_long_as_it_is_one" },
    },
    Bug {
        name: "what_a_retype_has_begun_stays_in_the_map",
        changes: &[(
            "kernel/src/operations/delete.rs",
            "Finaliser::Forget if arch::SPARSE && cap.is(CapType::Blank) => hide_blank(cpu, slot)?,",
            "",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "what_a_retype_has_begun_is_hidden_when_it_is_given_up",
        },
    },
    Bug {
        name: "a_dispatcher_keeps_its_frame_in_the_map",
        changes: &[(
            "kernel/src/dispatch/control.rs",
            "        arch::unshare(before.0);",
            "",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "a_frame_is_shown_for_each_dispatcher_that_has_it",
        },
    },
    Bug {
        name: "frames_are_zeroed_in_the_map",
        changes: &[(
            "kernel/src/cap/retype.rs",
            "if arch::SPARSE && ty.is_kernel_object() {",
            "if arch::SPARSE {",
        )],
        found_by: Test::Host { package: "kernel", test: "random_operations_keep_the_invariants" },
    },
    Bug {
        name: "persistent_memory_is_zeroed",
        changes: &[("kernel/src/cap/retype.rs", "source.kind() == CapType::Ram && kept == 0 &&", "source.kind() == CapType::Ram && kept < 65 &&")],
        found_by: Test::Host { package: "kernel", test: "frames_of_persistent_memory_keep_its_contents" },
    },
    Bug {
        name: "tables_are_made_of_persistent_memory",
        changes: &[("kernel/src/cap/retype.rs", "        if is_of_other_boots(src, ty) {\n            return Err(Status::WrongType);\n        }\n", "        is_of_other_boots(src, ty);\n")],
        found_by: Test::Host { package: "kernel", test: "no_kernel_object_is_made_of_persistent_memory" },
    },
    Bug {
        name: "overlapping_persistent_ranges_are_used",
        changes: &[("kernel/src/arch/firmware_tables.rs", "if !doubtful && start < end", "if start < end")],
        found_by: Test::Host { package: "kernel", test: "what_is_wrong_is_ignored" },
    },
    Bug {
        name: "devices_keep_what_is_unmapped",
        changes: &[("kernel/src/vspace/shootdown.rs", "        flush_devices(self);\n", "")],
        found_by: Test::Machine { test: "devices/iommu/unmapped" },
    },
    Bug {
        name: "devices_keep_pages_that_are_taken_away",
        changes: &[("kernel/src/cores/here.rs", "        if arch::forget_devices() {", "        if false {")],
        found_by: Test::Machine { test: "devices/iommu/discarded" },
    },
    Bug {
        name: "a_part_is_thought_to_be_known_on_its_core_only",
        changes: &[("kernel/src/operations/morsels.rs", "if shared { attr::FOREIGN } else { 0 }", "if false { attr::FOREIGN } else { 0 }")],
        found_by: Test::Host { package: "kernel", test: "a_part_that_two_cores_have_made_is_one" },
    },
    Bug {
        name: "what_was_opened_again_is_thought_to_be_known_here_only",
        changes: &[("kernel/src/operations/morsels.rs", "None if shared.reach.may_be_away(record) && !stays", "None if shared.reach.may_be_away(record) && stays")],
        found_by: Test::Host { package: "kernel", test: "who_deletes_takes_it_from_nobody_else" },
    },
    Bug {
        name: "an_object_is_destroyed_that_other_cores_have",
        changes: &[("kernel/src/operations/morsels.rs", "    if !cap.is_foreign() && !cap.has_remote(attr::COPIES_OR_DESCENDANTS) {\n        return Ok(());", "    if true {\n        return Ok(());")],
        found_by: Test::Host { package: "kernel", test: "a_revoke_takes_an_object_from_all_cores_with_what_shows_it" },
    },
    Bug {
        name: "a_pool_goes_and_other_cores_keep_its_objects",
        changes: &[("kernel/src/operations/morsels.rs", "    if shared.reach.is_away() {", "    if false {")],
        found_by: Test::Host { package: "kernel", test: "a_pool_takes_its_objects_from_all_cores" },
    },
    Bug {
        name: "single_pages_that_another_core_shows_stay",
        changes: &[("kernel/src/operations/taking.rs", "    if whom == 0 {\n        return Ok(());", "    if whom != u64::MAX {\n        return Ok(());")],
        found_by: Test::Host { package: "kernel", test: "single_pages_go_on_all_cores_before_the_pages_do" },
    },
    Bug {
        name: "single_pages_are_not_counted",
        changes: &[("kernel/src/vspace/morsel.rs", "    if is_borrowed(cap) {\n        core.shared", "    if false {\n        core.shared")],
        found_by: Test::Host { package: "kernel", test: "single_pages_go_on_all_cores_before_the_pages_do" },
    },
    Bug {
        name: "a_snapshot_leaves_single_pages_of_other_cores",
        changes: &[("kernel/src/operations/morsels.rs", "taking(cpu, object_of(cap), 0..morsels::MOST_PAGES,", "taking(cpu, object_of(cap), 0..0,")],
        found_by: Test::Host { package: "kernel", test: "single_pages_go_on_all_cores_before_the_pages_do" },
    },
    Bug {
        name: "a_part_of_what_was_asked_for_is_taken_for_all_of_it",
        changes: &[("kernel/src/operations/taking.rs", "    match wanted.is_done() {", "    match true {")],
        found_by: Test::Host { package: "kernel", test: "many_entries_of_single_pages_go_step_by_step" },
    },
    Bug {
        name: "single_pages_are_shown_while_they_are_taken_away",
        changes: &[("kernel/src/operations/taking.rs", "    let done = match pools.taking(object).is_taken() {", "    let done = match false {")],
        found_by: Test::Host { package: "kernel", test: "whoever_comes_second_does_it_later" },
    },
    Bug {
        name: "two_cores_take_away_at_once",
        changes: &[("kernel/src/operations/taking.rs", "    if !pools.taking(object).take(id) {", "    if !pools.taking(object).take(id) && false {")],
        found_by: Test::Host { package: "kernel", test: "whoever_comes_second_does_it_later" },
    },
    Bug {
        name: "two_cores_create_at_once",
        changes: &[("kernel/src/operations/taking.rs", "    if !shared.changes.claim(cpu.core.id) {", "    if !shared.changes.claim(cpu.core.id) && false {")],
        found_by: Test::Host { package: "kernel", test: "whoever_comes_second_does_it_later" },
    },
    Bug {
        name: "a_snapshot_of_another_core_is_nobodys",
        changes: &[("kernel/src/operations/morsels.rs", "                shared.reach.note_maker(id, new);", "                core::hint::black_box(new);")],
        found_by: Test::Host { package: "kernel", test: "a_snapshot_that_another_core_has_made_is_known_to_the_pool" },
    },
    Bug {
        name: "a_snapshot_of_another_core_is_its_own",
        changes: &[("kernel/src/operations/morsels.rs", "if is_home { 0 } else { attr::FOREIGN }", "if true { 0 } else { attr::FOREIGN }")],
        found_by: Test::Host { package: "kernel", test: "a_snapshot_that_another_core_has_made_is_known_to_the_pool" },
    },
    Bug {
        name: "who_is_asked_does_not_say_what_it_has",
        changes: &[("kernel/src/operations/morsels.rs", "    if all.next().is_some() {\n        return true;", "    if false {\n        return true;")],
        found_by: Test::Host { package: "kernel", test: "a_snapshot_that_another_core_has_made_is_known_to_the_pool" },
    },
    Bug {
        name: "what_was_opened_meanwhile_is_destroyed",
        changes: &[("kernel/src/operations/morsels.rs", "    let stays = is_home ||", "    let stays = true ||")],
        found_by: Test::Host { package: "kernel", test: "what_is_opened_while_others_are_asked_is_not_destroyed" },
    },
    Bug {
        name: "who_opens_does_not_say_so",
        changes: &[("kernel/src/operations/morsels.rs", "        shared.changes.occupy();\n", "")],
        found_by: Test::Host { package: "kernel", test: "what_is_opened_while_others_are_asked_is_not_destroyed" },
    },
    Bug {
        name: "what_an_object_shows_stays_when_its_last_foreign_capability_goes",
        changes: &[("kernel/src/operations/leave.rs", "        unmap_morsel(cpu, slot, cap)?;\n", "")],
        found_by: Test::Host { package: "kernel", test: "who_deletes_takes_it_from_nobody_else" },
    },
    Bug {
        name: "a_revoke_leaves_mappings_behind_which_something_larger_stands",
        changes: &[("kernel/src/operations/protocol.rs", "let is_mapped = cap.is_frame() ||", "let is_mapped = false &&")],
        found_by: Test::Host { package: "kernel", test: "a_revoke_takes_mappings_behind_which_something_larger_stands" },
    },
    Bug {
        name: "books_of_objects_are_kept_where_their_pool_is_not",
        changes: &[("crates/protocol/capproto/src/site.rs", "return Some(CoreId(cap.aux as u8));", "return Some(CoreId(0));")],
        found_by: Test::Host { package: "kernel", test: "the_core_of_a_pool_is_always_asked" },
    },
    Bug {
        name: "a_device_keeps_the_translations_of_another_space",
        changes: &[("kernel/src/arch/x86_64/iommu.rs", "        // Some units remember that there was nothing.\n        self.forget_contexts();\n        self.forget_translations();\n", ""), ("kernel/src/arch/x86_64/iommu.rs", "        entry[0].store(0, Ordering::SeqCst);\n        self.forget_contexts();\n        self.forget_translations();\n", "")],
        found_by: Test::Machine { test: "devices/iommu/another_space" },
    },
    Bug {
        name: "a_space_goes_and_its_devices_stay",
        changes: &[("kernel/src/vspace/device.rs", "arch::set_device_context(function as u8, Context::Refuse);", "")],
        found_by: Test::Host { package: "kernel", test: "a_space_that_goes_leaves_its_functions_nothing" },
    },
    Bug {
        name: "who_says_that_there_is_no_memory_is_believed",
        changes: &[(
            "servers/unixd/src/server/relief.rs",
            "if homes::has_memory(core, wanted) {",
            "if op.tries <= PATIENT && homes::has_memory(core, wanted) {",
        )],
        found_by: Test::Machine { test: "linux/hostile_swap" },
    },
    Bug {
        name: "breakpoints_stay_when_their_dispatcher_goes",
        changes: &[("kernel/src/dispatch/registers.rs", "if dcb.has(flag::BREAKPOINTS) | self.watches {", "if dcb.has(flag::BREAKPOINTS) {")],
        found_by: Test::Host { package: "kernel", test: "breakpoints_are_of_a_dispatcher_and_of_its_program" },
    },
    Bug {
        name: "what_was_written_to_is_forgotten_with_its_table",
        changes: &[("crates/user/uvm/src/pmap.rs", "        self.written.add(key * pages, (key + 1) * pages);\n", "")],
        found_by: Test::Host { package: "uvm", test: "what_was_written_to_is_so_without_its_table" },
    },
    Bug {
        name: "what_is_moved_counts_as_not_written_to",
        changes: &[("crates/user/uvm/src/whole.rs", "        self.pmap.written.add(start, end);\n", "")],
        found_by: Test::Host { package: "uvm", test: "what_is_new_or_was_moved_counts_as_written" },
    },
    Bug {
        name: "a_filter_holds_only_inside_its_library",
        changes: &[(
            "servers/unixd/src/server.rs",
            "        if self.restrains && self.procs.has_forgone(pid, &call.any) {\n            return Err(Errno::EPERM);\n        }\n",
            "",
        )],
        found_by: Test::Machine { test: "linux/hostile_seccomp.gcc" },
    },
    Bug {
        name: "pages_made_ahead_of_the_program_are_not_missing",
        changes: &[(
            "crates/user/uvm/src/written.rs",
            "(true, true) => Contents::Unwritten,",
            "(true, true) => Contents::Some,",
        )],
        found_by: Test::Machine { test: "linux/userfaultfd.gcc" },
    },
    Bug {
        name: "what_was_ceded_comes_home_to_who_had_it",
        changes: &[(
            "kernel/src/cap/asks.rs",
            "above.is_none_or(|above| above.ty == super::HOME_RAM && cap.ty != super::HOME_RAM)",
            "above.is_none_or(|above| is_own_home(above) && cap.ty != super::HOME_RAM)",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::protocol::directed::memory_that_has_moved_comes_back_to_its_new_home",
        },
    },
    Bug {
        name: "a_part_is_locked_where_all_of_it_is_at_home",
        changes: &[(
            "crates/protocol/capproto/src/monitor.rs",
            "Need::Retype { part } if part.is_memory() => {",
            "Need::Retype { part } if !part.is_memory() => {",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::protocol::directed::what_is_left_of_a_home_is_used_while_parts_of_it_are_elsewhere",
        },
    },
    Bug {
        name: "runs_of_pages_are_judged_again_and_again",
        changes: &[(
            "crates/server/readahead/src/lib.rs",
            "        object.runs[object.at] = Run::default();\n",
            "",
        )],
        found_by: Test::Host { package: "readahead", test: "a_run_is_looked_at_once_and_later" },
    },
    Bug {
        name: "who_jumps_gets_many_pages",
        changes: &[(
            "crates/server/readahead/src/lib.rs",
            "object.ahead = (object.ahead / 2).max(1);",
            "object.ahead = (object.ahead / 2).max(8);",
        )],
        found_by: Test::Host { package: "readahead", test: "who_jumps_gets_one" },
    },
    Bug {
        name: "an_eager_fork_passes_over_what_is_hidden",
        changes: &[(
            "crates/user/uvm/src/fault.rs",
            "        if is_aliased && b.page_copy(place.node, place.slot)? {",
            "        if is_aliased && key == 0 && b.page_copy(place.node, place.slot)? {",
        )],
        found_by: Test::Host { package: "uvm", test: "an_eager_fork_copies_all_and_no_write_does" },
    },
    Bug {
        name: "an_eager_fork_shows_what_is_hidden",
        changes: &[(
            "crates/user/uvm/src/fault.rs",
            "        if entry.prot != Prot::NONE {\n            return self.own_anon(b, entry, page);",
            "        if entry.pages() > 0 {\n            return self.own_anon(b, entry, page);",
        )],
        found_by: Test::Host { package: "uvm", test: "an_eager_fork_copies_all_and_no_write_does" },
    },
    Bug {
        name: "an_eager_fork_takes_the_last_memory",
        changes: &[("lib/libunix/src/fork.rs", "memd::has(MEMD, 2 * bytes)", "memd::has(MEMD, bytes / 4)")],
        found_by: Test::Machine { test: "linux/fork_eager" },
    },
    Bug {
        name: "what_was_sent_away_counts_as_at_home",
        changes: &[("kernel/src/cap/protocol.rs", "                    self.asks.away.add(cap.base, cap.base + cap.word);\n", "")],
        found_by: Test::Host { package: "kernel", test: "only_what_is_away_is_asked_for" },
    },
    Bug {
        name: "what_is_away_is_forgotten_where_there_is_no_room",
        changes: &[("kernel/src/cap/away.rs", "self.replace(n, n + 2, &[joined]);", "self.replace(n, n + 1 + usize::from(joined.0 == 0), &[]);")],
        found_by: Test::Host { package: "kernel", test: "nothing_is_missing_where_there_is_no_room" },
    },
    Bug {
        name: "who_has_come_home_stays_away",
        changes: &[("kernel/src/operations/reclaim.rs", "    cpu.caps.asks.away.remove(base, base + bytes);\n", "")],
        found_by: Test::Host { package: "kernel", test: "only_what_is_away_is_asked_for" },
    },
    Bug {
        name: "a_child_inherits_what_is_wired",
        changes: &[("crates/user/uvm/src/fork.rs", "        if self.map.may_have(Flags::LOCKED) {\n", "        if self.map.may_have(Flags::LOCKED) && self.low > self.high {\n")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "an_anon_counts_as_own_too_long",
        changes: &[("crates/user/uvm/src/amap.rs", "            chunk.aliased = chunk.filled;\n        }\n        Ok(())", "        }\n        Ok(())")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "a_wired_page_goes_aside",
        changes: &[("crates/user/uvm/src/aside.rs", "Flags::GROWS_DOWN, Flags::LOCKED, Flags::LARGE_PAGES", "Flags::GROWS_DOWN, Flags::SHARED, Flags::LARGE_PAGES")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "a_wired_page_leaves_with_its_piece",
        changes: &[("crates/user/uvm/src/victims.rs", "(entry.object, may_leave(&entry))", "(entry.object, entry.is_private_anonymous())")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_is_lent_is_written_in_place",
        changes: &[("crates/user/uvm/src/pass.rs", "                let prot = entry.prot.read_only();\n", "                let prot = entry.prot;\n")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_is_recalled_stays_read_only",
        changes: &[("crates/user/uvm/src/pass.rs", "filter(|_| passed.is_lowered)", "filter(|_| !passed.is_lowered)")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_passes_begins_at_another_page",
        changes: &[("crates/user/uvm/src/pass.rs", "entry.object.map(|object| (object, entry.offset))", "entry.object.map(|object| (object, entry.offset & !63))")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "the_first_page_of_what_passes_is_zeros",
        changes: &[("crates/user/uvm/src/pass.rs", "self.next_anon(entry.start).filter", "self.next_anon(entry.start + 1).filter")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_was_taken_is_seen",
        changes: &[("crates/user/uvm/src/unmap.rs", "self.discard(b, entry.start + kept, entry.end, false)", "self.discard(b, entry.start + kept + 1, entry.end, false)")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "a_page_that_came_in_is_another",
        changes: &[("crates/user/uvm/src/limited.rs", "self.pmap.enter_object(b, amap, page, object_page, &extent,", "self.pmap.enter_object(b, amap, page, object_page ^ 1, &extent,")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_has_left_and_was_given_up_stays_out",
        changes: &[("crates/user/uvm/src/own.rs", "            if self.map.uses(object) || self.aside.holds(object) {\n", "            if false {\n")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_moved_leaves_a_lock",
        changes: &[("crates/user/uvm/src/remap.rs", "            Ok(_) if entry.flags.has(Flags::LOCKED) => {", "            Ok(_) if entry.flags.has(Flags::LOCKED) && start > self.high => {")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_moves_is_wired_as_new",
        changes: &[("crates/user/uvm/src/remap.rs", "        self.locks_new = false;\n", "")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "loans_end_where_frames_do",
        changes: &[(
            "kernel/src/operations/delete.rs",
            "    caps.db.next_before(slot, cap.base + cap.word)\n",
            "    caps.db.first_descendant(slot).filter(|_| cap.word > 0)\n",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "a_part_that_goes_leaves_what_the_whole_lent_beyond_it",
        },
    },
    Bug {
        name: "a_group_is_left_when_the_first_leaves",
        changes: &[(
            "crates/server/inet/src/groups.rs",
            "        self.members.remove(&(group, device, number));\n        if self.members_of(group, device).next().is_none() {",
            "        self.members.remove(&(group, device, number));\n        if self.members_of(group, device).nth(1).is_none() {",
        )],
        found_by: Test::Host { package: "inet", test: "groups_are_a_map" },
    },
    Bug {
        name: "a_sender_that_is_blocked_is_heard",
        changes: &[(
            "crates/server/inet/src/groups.rs",
            "            Some(membership) => membership.admits(sender),",
            "            Some(_) => true,",
        )],
        found_by: Test::Host { package: "inet", test: "groups_are_a_map" },
    },
    Bug {
        name: "all_groups_are_heard",
        changes: &[(
            "crates/server/netstack/src/stack.rs",
            "            _ if is_strange => &mut self.nothing,\n",
            "",
        )],
        found_by: Test::Host {
            package: "netstack",
            test: "groups_are_joined_and_left_and_others_are_not_heard",
        },
    },
    Bug {
        name: "who_is_killed_in_swapoff_leaves_it_half_done",
        changes: &[("servers/unixd/src/effects.rs", "crate::swap::stays_on(tid)", "()")],
        found_by: Test::Machine { test: "linux/swapon" },
    },
    Bug {
        name: "what_the_disk_refuses_is_lost",
        changes: &[("servers/unixd/src/swap.rs", "if !self.take_back(place) {", "if false {")],
        found_by: Test::Machine { test: "linux/swap_write_error" },
    },
    Bug {
        name: "a_program_goes_where_it_may_not_run",
        changes: &[("servers/unixd/src/homes.rs", "let allowed = if allowed == 0 { u64::MAX } else { allowed };", "let allowed = allowed | u64::MAX;")],
        found_by: Test::Machine { test: "linux/homes_load.gcc" },
    },
    Bug {
        name: "who_runs_elsewhere_counts_here",
        changes: &[("servers/unixd/src/procstatus.rs", "add(self.core_of(proc.pid), others", "add(0, others")],
        found_by: Test::Machine { test: "linux/homes_load.gcc" },
    },
    Bug {
        name: "who_acts_as_its_child_counts",
        changes: &[("servers/unixd/src/procstatus.rs", "u32::from(!acts && runs(&proc.pid))", "u32::from((acts || true) && runs(&proc.pid))")],
        found_by: Test::Machine { test: "linux/homes_load.gcc" },
    },
    Bug {
        name: "a_program_goes_where_as_much_is_to_be_done",
        changes: &[("crates/server/balance/src/lib.rs", "(load(core), core != home, core == SERVERS,", "(load(core), core == home, core == SERVERS,")],
        found_by: Test::Host { package: "balance", test: "as_a_list_says" },
    },
    Bug {
        name: "who_chooses_counts_itself",
        changes: &[("crates/server/balance/src/lib.rs", "self.of(home).saturating_sub(1)", "self.of(home)")],
        found_by: Test::Host { package: "balance", test: "as_a_list_says" },
    },
    Bug {
        name: "of_a_row_that_leaves_only_the_first_page_is_forgotten",
        changes: &[(
            "crates/storage/morsel/src/memory.rs",
            "row + u64::from(first + count)",
            "row + u64::from(first + 1)",
        )],
        found_by: Test::Host { package: "morsel", test: "random_operations_while_pages_leave" },
    },
    Bug {
        name: "slots_of_a_row_need_not_follow_each_other",
        changes: &[
            (
                "crates/storage/pool/src/slots.rs",
                "begins &= free >> longer;",
                "begins &= u64::MAX >> longer;",
            ),
            (
                "crates/storage/pool/src/slots.rs",
                "while now & mask == 0 {",
                "while now & lowest == 0 {",
            ),
        ],
        found_by: Test::Host {
            package: "kernel",
            test: "slots_that_follow_each_other_are_taken_where_there_are_as_many",
        },
    },
    Bug {
        name: "pages_come_in_from_slots_of_others",
        changes: &[(
            "crates/storage/morsel/src/out.rs",
            "if link != Link::out(slot) {",
            "if !link.is_out() {",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "a_row_of_pages_leaves_with_one_invocation_and_comes_back",
        },
    },
    Bug {
        name: "what_parts_cover_is_looked_at_from_the_start_again",
        changes: &[("kernel/src/operations/morsels.rs", "        slot.set_aux(passed);\n", "")],
        found_by: Test::Host { package: "kernel", test: "what_parts_cover_is_passed_over" },
    },
    Bug {
        name: "who_is_being_deleted_may_still_map",
        changes: &[("kernel/src/operations/morsels.rs", "        slot.set_rights(Rights::NONE.0, own.attrs);\n        slot.set_aux(passed)", "        slot.set_aux(passed)")],
        found_by: Test::Host { package: "kernel", test: "what_parts_cover_is_passed_over" },
    },
    Bug {
        name: "who_is_being_deleted_stands_behind_what_it_has_passed",
        changes: &[("kernel/src/operations/morsels.rs", "above.is(CapType::Morsel) && not_passed(&above) <= cap.base", "above.is(CapType::Morsel)")],
        found_by: Test::Host { package: "kernel", test: "what_parts_cover_is_passed_over" },
    },
    Bug {
        name: "an_opened_copy_does_not_begin_a_deletion_anew",
        changes: &[("kernel/src/cap/passed.rs", "        true => unpassed(own.aux),", "        true => own.aux,")],
        found_by: Test::Host { package: "kernel", test: "what_parts_cover_is_passed_over" },
    },
    Bug {
        name: "a_long_part_is_forgotten_where_a_deletion_goes_on",
        changes: &[("kernel/src/operations/morsels.rs", "there.map(|part| part.base + part.word).max().unwrap_or(key)", "there.map(|_| key).max().unwrap_or(key)")],
        found_by: Test::Host { package: "kernel", test: "what_parts_cover_is_passed_over" },
    },
    Bug {
        name: "what_is_made_beside_a_page_that_is_apart_covers_it",
        changes: &[("crates/user/uvm/src/apart.rs", "entry.part(entry.start.max(first), entry.end.min(behind))", "entry.part(entry.start.max(first.min(0)), entry.end.min(behind.max(entry.end)))")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "what_is_given_up_while_it_is_apart_comes_back",
        changes: &[("crates/user/uvm/src/space.rs", "            self.discard_apart(b, start, end);\n", "")],
        found_by: Test::Host { package: "uvm", test: "all_operations_agree_with_the_naive_model" },
    },
    Bug {
        name: "a_stack_never_leaves_memory",
        changes: &[("crates/user/uvm/src/apart.rs", "entry.object.is_some() || entry.flags.has(Flags::GROWS_DOWN)", "entry.object.is_some()")],
        found_by: Test::Machine { test: "linux/swap_private_out.gcc" },
    },
    Bug {
        name: "a_page_of_a_file_that_has_left_cannot_be_copied",
        changes: &[("crates/user/uvm/src/fault.rs", "if tries > 0 && Self::come_in(b, object, object_page)? => {}", "if tries > 200 => {}")],
        found_by: Test::Machine { test: "linux/swap_private_many.gcc" },
    },
    Bug {
        name: "both_have_what_was_divided",
        changes: &[("crates/storage/pool/src/counters.rs", "then(|| Local(local.0 - half(local) as u64))", "then_some(local)")],
        found_by: Test::Host { package: "pool", test: "a_reservation_is_divided" },
    },
    Bug {
        name: "who_leaves_a_divided_tree_leaves_for_all",
        changes: &[("crates/storage/pool/src/counters.rs", "Tree(self.0 - Self::RESERVED)", "Tree(self.0 & !Self::ALL_RESERVED)")],
        found_by: Test::Host { package: "pool", test: "one_of_two_leaves_a_divided_tree" },
    },
    Bug {
        name: "who_has_come_home_leaves_it_to_a_guest",
        changes: &[("kernel/src/dispatch/placement.rs", "if visited && here && idle == Some(last) {", "if visited && here && idle == Some(last) && last.index() == 63 {")],
        found_by: Test::Host { package: "kernel", test: "who_has_come_home_changes_places_with_a_guest" },
    },
    Bug {
        name: "a_guest_goes_where_it_may_not_run",
        changes: &[("kernel/src/dispatch/placement.rs", "self.is_visiting(guest) && self.allowed(guest) & last.bit() != 0", "self.is_visiting(guest)")],
        found_by: Test::Host { package: "kernel", test: "who_has_come_home_changes_places_with_a_guest" },
    },
    Bug {
        name: "pages_and_holes_are_one_run",
        changes: &[("crates/storage/morsel/src/survey.rs", "kind(index) == (is_there, is_out)", "kind(index).1 == is_out")],
        found_by: Test::Host { package: "morsel", test: "random_operations_are_those_of_the_model" },
    },
    Bug {
        name: "who_is_first_in_a_name_space_leaves_the_others",
        changes: &[(
            "servers/unixd/src/exits.rs",
            "for other in self.procs.close_space(pid) {\n            self.kill_at_once(other);",
            "for other in self.procs.close_space(pid) {\n            self.fx.wake(other);",
        )],
        found_by: Test::Machine { test: "linux/hostile_pid_spaces.gcc" },
    },
    Bug {
        name: "setns_leads_out_of_a_name_space_of_process_ids",
        changes: &[(
            "servers/unixd/src/spaces.rs",
            "if !pids::is_in(space, &proc.pids) {",
            "if false {",
        )],
        found_by: Test::Machine { test: "linux/hostile_pid_spaces.gcc" },
    },
    Bug {
        name: "numbers_of_other_name_spaces_mean_somebody",
        changes: &[(
            "servers/unixd/src/pids.rs",
            "*number = space.meaning(*number).unwrap_or(NOBODY);",
            "*number = space.meaning(*number).unwrap_or(*number);",
        )],
        found_by: Test::Machine { test: "linux/hostile_pid_spaces.gcc" },
    },
    Bug {
        name: "what_is_left_is_looked_for_where_it_was_at_first",
        changes: &[(
            "lib/libunix/src/fd/stream.rs",
            "let rest = server::data(left).skip(done);",
            "let rest = server::data(bytes).skip(bytes - left + done);",
        )],
        found_by: Test::Machine { test: "linux/stream_order.gcc" },
    },
    Bug {
        name: "what_joins_a_message_does_not_count",
        changes: &[(
            "crates/server/sockets/src/message.rs",
            "self.outgoing.update(|all| all + bytes.len());",
            "",
        )],
        found_by: Test::Host { package: "sockets", test: "what_nobody_has_taken_counts_for_its_sender" },
    },
    Bug {
        name: "more_is_acknowledged_than_was_sent",
        changes: &[(
            "crates/server/inet/src/wire.rs",
            "let Some(left) = socket.unacknowledged.checked_sub(bytes) else {",
            "let Some(left) = Some(socket.unacknowledged.saturating_sub(bytes)) else {",
        )],
        found_by: Test::Host { package: "inet", test: "what_is_sent_outside_is_bounded_by_what_was_offered" },
    },
    Bug {
        name: "a_short_program_goes_elsewhere",
        changes: &[("servers/unixd/src/homes.rs", "if lengths.is_short(file) && allowed >> home & 1 != 0 {", "if false {")],
        found_by: Test::Machine { test: "linux/homes_load.gcc" },
    },
    Bug {
        name: "a_short_program_stays_where_it_may_not_run",
        changes: &[("servers/unixd/src/homes.rs", "if lengths.is_short(file) && allowed >> home & 1 != 0 {", "if lengths.is_short(file) {")],
        found_by: Test::Machine { test: "linux/homes_load.gcc" },
    },
    Bug {
        name: "who_is_killed_was_short",
        changes: &[("servers/unixd/src/exits.rs", "if status & 0x7f == 0 {\n            proc.change_run(", "if true {\n            proc.change_run(")],
        found_by: Test::Machine { test: "linux/homes_load.gcc" },
    },
    Bug {
        name: "who_is_preempted_on_its_way_back_goes_on",
        changes: &[("kernel/src/object/frame.rs", "if is_enabled && (low..high)", "if false && (low..high)")],
        found_by: Test::Host { package: "kernel", test: "a_library_that_wants_to_is_told_that_somebody_else_ran" },
    },
    Bug {
        name: "a_handler_returns_into_a_sequence",
        changes: &[("lib/libunix/src/thread/restart.rs", "Some(registered) => leave_sequence(&mut p.mm, registered, regs),", "Some(_) => Ok(()),")],
        found_by: Test::Machine { test: "linux/rseq.gcc" },
    },
    Bug {
        name: "the_core_of_before_is_shown",
        changes: &[("lib/libunix/src/thread/restart.rs", "user::load::<u64>(address) == Some(core << 32 | core);", "core <= u64::from(u32::MAX);")],
        found_by: Test::Machine { test: "linux/rseq.gcc" },
    },
    Bug {
        name: "who_waits_for_a_lease_has_not_opened_the_file",
        changes: &[(
            "servers/unixd/src/leases.rs",
            "waiters.any(|writes| *writes)\n                    || descs",
            "descs",
        )],
        found_by: Test::Machine { test: "linux/leases.gcc" },
    },
    Bug {
        name: "who_was_killed_waits_for_a_lease",
        changes: &[(
            "servers/unixd/src/effects.rs",
            "self.list.push(Effect::LeaveLeases(tid))",
            "let _ = Effect::LeaveLeases(tid);",
        )],
        found_by: Test::Machine { test: "linux/leases.gcc" },
    },
    Bug {
        name: "a_directory_is_told_of_more_than_once",
        changes: &[(
            "servers/unixd/src/dnotify.rs",
            "note.stays || !is_told",
            "note.stays || is_told || !is_told",
        )],
        found_by: Test::Machine { test: "linux/dnotify.gcc" },
    },
    Bug {
        name: "each_piece_of_a_call_is_one",
        changes: &[(
            "servers/unixd/src/inet.rs",
            "(call.kept != 0 && has_sent && !goes_on)",
            "(call.kept != 0 && (has_sent || goes_on))",
        )],
        found_by: Test::Machine { test: "linux/zerocopy.gcc" },
    },
    Bug {
        name: "a_call_that_is_given_up_is_not_told_of",
        changes: &[(
            "servers/unixd/src/effects.rs",
            "if let Some(telling) = crate::inet::told_of(call) {",
            "if let Some(telling) = crate::inet::told_of(call).filter(|_| call.done == 0) {",
        )],
        found_by: Test::Machine { test: "linux/zerocopy.gcc" },
    },
    Bug {
        name: "calls_go_with_errors",
        changes: &[(
            "crates/server/inet/src/errors.rs",
            ".partition(|entry| entry.error().is_none());",
            ".partition(|entry| matches!(entry, Entry::Sent(_)));",
        )],
        found_by: Test::Host { package: "inet", test: "calls_are_told_of_once" },
    },
    Bug {
        name: "what_was_sent_is_acknowledged",
        changes: &[(
            "crates/server/inet/src/timestamps.rs",
            "let up_to = socket.timing.sent - u64::from(socket.unacknowledged);",
            "let up_to = socket.timing.sent;",
        )],
        found_by: Test::Host { package: "inet", test: "acknowledgements_are_told_of_as_they_come" },
    },
    Bug {
        name: "a_fault_says_the_slot_of_a_page_that_has_come_in",
        changes: &[(
            "crates/storage/morsel/src/walk.rs",
            "return if link.is_out() { Hole::Out(link.frame()) } else { Hole::None };",
            "return Hole::Out(link.frame());",
        )],
        found_by: Test::Host { package: "kernel", test: "a_fault_on_a_page_in_a_slot_says_which" },
    },
    Bug {
        name: "swapoff_stops_at_a_page_that_cannot_be_read",
        changes: &[(
            "servers/unixd/src/swap.rs",
            "                Err(Errno::EIO) => {\n                    came += 1;",
            "                Err(Errno::EROFS) => {\n                    came += 1;",
        )],
        found_by: Test::Machine { test: "linux/swap_read_error" },
    },
    Bug {
        name: "a_lost_page_that_is_to_move_is_a_want_of_memory",
        changes: &[(
            "crates/user/uvm/src/remap.rs",
            "Err(FaultError::NoPage) => return Err(Error::Fault),",
            "Err(FaultError::NoPage) => return Err(Error::NoMemory),",
        )],
        found_by: Test::Machine { test: "linux/swap_read_error_private" },
    },
    Bug {
        name: "a_handle_of_before_leads_to_another_file",
        changes: &[("servers/unixd/src/filehandles.rs", "inode.generation == op.generation && inode.nlink > 0", "inode.nlink > 0")],
        found_by: Test::Machine { test: "linux/file_handles.gcc" },
    },
    Bug {
        name: "a_mark_of_a_directory_is_always_told_of_children",
        changes: &[("crates/server/notices/src/fan.rs", " && (role != Role::Parent || mask & bits::ON_CHILD != 0)", " && role <= Role::New")],
        found_by: Test::Machine { test: "linux/fanotify.gcc" },
    },
    Bug {
        name: "who_is_light_has_the_share_of_any_other",
        changes: &[("kernel/src/object/schedule.rs", "u128::from(ticks) * u128::from(self.factor())", "u128::from(ticks) * u128::from(ONE)")],
        found_by: Test::Host { package: "kernel", test: "shares_are_by_weight" },
    },
    Bug {
        name: "a_server_waits_for_who_has_a_priority",
        changes: &[("kernel/src/dispatch/queue.rs", "return self.first_server().or(self.prior.first());", "return self.prior.first().or(self.first_server());")],
        found_by: Test::Host { package: "kernel", test: "servers_go_first_where_somebody_has_a_priority" },
    },
    Bug {
        name: "whoever_may_revoke_a_dispatcher_gives_it_a_priority",
        changes: &[("kernel/src/invoke/dispatcher.rs", "!used_slot(dcb, args.kernel)?.cap().is(CapType::Kernel)", "used_slot(dcb, t).is_err()")],
        found_by: Test::Host { package: "kernel", test: "who_sets_schedules_has_the_kernel_and_may_revoke" },
    },
    Bug {
        name: "a_program_begins_with_the_usual_schedule",
        changes: &[("servers/unixd/src/server/setid.rs", "started.inspect(|domain| scheduling.begin(domain.dispatcher()))", "started")],
        found_by: Test::Machine { test: "linux/nice_shares.gcc" },
    },
    Bug {
        name: "a_limit_allows_one_nice_value_more",
        changes: &[("servers/unixd/src/scheduling.rs", "(20 - nice) as u64 <= limits.nice()", "(19 - nice) as u64 <= limits.nice()")],
        found_by: Test::Machine { test: "linux/sched_limits.gcc" },
    },
    Bug {
        name: "a_guest_leaves_its_descriptors_to_the_others",
        changes: &[("lib/libunix/src/beside.rs", "            p.fds.close_table(*table);\n        }\n    }\n}", "            drop(table);\n        }\n    }\n}")],
        found_by: Test::Machine { test: "linux/clone_vm.gcc" },
    },
    Bug {
        name: "a_guest_that_does_not_end_is_left_alone",
        changes: &[("servers/unixd/src/signals.rs", "if is_guest { GUEST_GRACE_NS } else { GRACE_NS }", "if is_guest { 1 << 62 } else { GRACE_NS }")],
        found_by: Test::Machine { test: "linux/hostile_clone_vm.gcc" },
    },
    Bug {
        name: "a_chosen_number_may_be_somebody_elses",
        changes: &[("servers/unixd/src/pids.rs", "Some(number) if one.meaning(*number).is_some() =>", "Some(number) if one.meaning(*number).is_some() && one.is_closed.get() =>")],
        found_by: Test::Machine { test: "linux/set_tid.gcc" },
    },
    Bug {
        name: "a_listener_hears_everybody_who_knows_its_number",
        changes: &[("servers/unixd/src/server/decisions.rs", "calls.filter(|calls| calls.hears(heard_by)).ok_or", "calls.filter(|calls| calls.hears(heard_by) || pid > 0).ok_or")],
        found_by: Test::Machine { test: "linux/hostile_listeners.gcc" },
    },
    Bug {
        name: "a_listener_that_goes_leaves_those_waiting_that_it_heard",
        changes: &[("servers/unixd/src/counters.rs", "calls.waiting().chain(counter.waiters.drain())", "calls.waiting().take(0).chain(counter.waiters.drain())")],
        found_by: Test::Machine { test: "linux/seccomp_listen.gcc" },
    },
    Bug {
        name: "limits_of_others_are_raised_by_everybody",
        changes: &[("servers/unixd/src/limits.rs", "if op.hard > before.hard && !may_raise || is_too_much {", "if op.hard > before.hard && !may_raise && is_too_much {")],
        found_by: Test::Machine { test: "linux/rare_calls.gcc" },
    },
    Bug {
        name: "mounts_of_other_users_are_peers_of_what_they_were_copied_from",
        changes: &[("crates/server/mounttable/src/space.rs", "Follows { group, .. } if locks && group != 0 =>", "Follows { group, .. } if locks && group == 0 =>")],
        found_by: Test::Machine { test: "linux/propagation.gcc" },
    },
    Bug {
        name: "the_last_of_a_group_leaves_its_followers_behind",
        changes: &[("crates/server/mounttable/src/following.rs", "                    other.follows.master = master;", "                    other.follows.master = master.max(group);")],
        found_by: Test::Host { package: "mounttable", test: "nodes_are_let_go_as_often_as_they_are_held" },
    },
    Bug {
        name: "net_half_of_a_window_is_left",
        changes: &[("crates/server/netstack/src/cubic.rs", "const LEFT: usize = 7;", "const LEFT: usize = 5;")],
        found_by: Test::Host { package: "netstack", test: "a_large_window_follows_the_curve" },
    },
    Bug {
        name: "net_what_is_left_is_of_what_is_on_its_way",
        changes: &[("crates/server/netstack/src/sender.rs", "self.is_full && self.recover.is_none()", "self.is_full && self.window == 0")],
        found_by: Test::Host { package: "netstack", test: "of_many_acknowledgements_at_once_none_costs_more" },
    },
    Bug {
        name: "who_watches_is_not_told_what_it_has_lost",
        changes: &[("crates/server/inet/src/packet.rs", "watching.lost.saturating_add((!was_put).into())", "watching.lost.saturating_add(0)")],
        found_by: Test::Host { package: "inet", test: "who_watches_and_does_not_read_loses" },
    },
    Bug {
        name: "a_connection_that_is_taken_back_waits_for_ever",
        changes: &[("crates/server/netstack/src/stack.rs", "if self.conns.get(&id).is_some_and(|conn| conn.state() == State::Listen) {", "if self.conns.get(&id).is_some_and(|conn| conn.state() == State::Closed) {")],
        found_by: Test::Host { package: "netstack", test: "who_asks_and_takes_it_back_leaves_nothing" },
    },
    Bug {
        name: "what_waits_keeps_an_end_from_being_told",
        changes: &[("crates/server/netstack/src/conn.rs", "if state == State::Closed { WINDOW + LAST } else { WINDOW }", "WINDOW")],
        found_by: Test::Host { package: "netstack", test: "an_end_is_told" },
    },
    Bug {
        name: "who_has_reset_a_connection_is_asked_for_more",
        changes: &[("crates/server/netstack/src/stack.rs", "if conn.state() == State::Closed {\n            // It would be answered", "if false {\n            // It would be answered")],
        found_by: Test::Host { package: "netstack", test: "an_end_is_told" },
    },
    Bug {
        name: "a_raw_socket_hears_other_protocols",
        changes: &[("crates/server/inet/src/raw.rs", "raw.protocol != protocol || !is_for", "!is_for")],
        found_by: Test::Machine { test: "linux/raw_sockets.gcc" },
    },
    Bug {
        name: "who_locks_a_lost_page_is_not_told",
        changes: &[(
            "lib/libunix/src/mm/calls.rs",
            "let is_strict = how == Lock::Now && mm.userfaults.is_empty();",
            "let is_strict = false && how == Lock::Now;",
        )],
        found_by: Test::Machine { test: "linux/swap_read_error.gcc" },
    },
    Bug {
        name: "pages_leave_for_a_frame_that_is_only_read",
        changes: &[(
            "kernel/src/operations/store.rs",
            "if !frame.rights_set().has(needed) {",
            "if !frame.rights_set().has(Rights::READ.and(needed)) {",
        )],
        found_by: Test::Host { package: "kernel", test: "wrong_arguments_change_nothing" },
    },
    Bug {
        name: "pages_leave_behind_the_end_of_a_frame",
        changes: &[(
            "kernel/src/operations/store.rs",
            "offset.checked_add(count * PAGE)",
            "offset.checked_add(PAGE)",
        )],
        found_by: Test::Host { package: "kernel", test: "wrong_arguments_change_nothing" },
    },
    Bug {
        name: "what_others_made_of_shared_memory_is_missing",
        changes: &[(
            "lib/libunix/src/mm/userfault.rs",
            "        _ => !has_contents(mm, page),\n",
            "        Some(_) => true,\n        None => !has_contents(mm, page),\n",
        )],
        found_by: Test::Machine { test: "linux/userfaultfd_shared.gcc" },
    },
    Bug {
        name: "who_causes_an_event_goes_on_before_it_is_read",
        changes: &[(
            "lib/libunix/src/mm/userfault.rs",
            "while handler.upgrade().is_some_and(|handler| handler.has_event(event)) {",
            "while handler.upgrade().is_some_and(|handler| !handler.has_event(event)) {",
        )],
        found_by: Test::Machine { test: "linux/userfaultfd_shared.gcc" },
    },
    Bug {
        name: "a_page_that_has_left_memory_is_missing",
        changes: &[(
            "lib/libunix/src/mm/object.rs",
            "|one| one.pages + one.out > 0",
            "|one| one.pages > 0",
        )],
        found_by: Test::Machine { test: "linux/userfaultfd_swap.gcc" },
    },
    Bug {
        name: "a_directory_is_another_and_nobody_sees_it",
        changes: &[(
            "crates/storage/memfs/src/fs.rs",
            "        inode.turn = turn;\n",
            "        inode.turn = if inode.is_dir() { inode.turn } else { turn };\n",
        )],
        found_by: Test::Host {
            package: "memfs",
            test: "a_path_leads_where_it_led_while_the_turns_are_the_same",
        },
    },
    Bug {
        name: "what_is_mounted_changes_no_path",
        changes: &[(
            "servers/unixd/src/nodes.rs",
            "        self.mounted.turn += 1;\n",
            "",
        )],
        found_by: Test::Machine { test: "linux/paths_again.gcc" },
    },
    Bug {
        name: "memory_that_is_kept_keeps_its_pages",
        changes: &[(
            "lib/libunix/src/mm/object.rs",
            "Some((id, punch(object.desc, 0, object.size.div_ceil(PAGE))))",
            "Some((id, punch(object.desc, 0, 1)))",
        )],
        found_by: Test::Machine { test: "linux/own_threads.gcc" },
    },
    Bug {
        name: "a_timer_is_where_the_kernel_has_something",
        changes: &[("kernel/src/arch/firmware_tables.rs", " || taken.contains(&base) {", " || taken.contains(&1) {")],
        found_by: Test::Host { package: "kernel", test: "a_timer_elsewhere_is_none" },
    },
    Bug {
        name: "a_timer_is_in_memory",
        changes: &[("kernel/src/arch/firmware_tables.rs", "    if !info.memory.as_slice().iter().any(used) {\n        info.timer = base;", "    if info.memory.as_slice().iter().any(used) || base > 0 {\n        info.timer = base;")],
        found_by: Test::Host { package: "kernel", test: "a_timer_elsewhere_is_none" },
    },
    Bug {
        name: "registers_are_given_to_be_written_to",
        changes: &[("servers/unixd/src/registers.rs", "    if write {\n", "    if write && TIMER.identify().is_err() {\n")],
        found_by: Test::Machine { test: "linux/hpet.gcc" },
    },
    Bug {
        name: "a_mount_at_no_place_stays",
        changes: &[("servers/unixd/src/descs.rs", "            if place.dissolves {", "            if place.dissolves && place.name.is_empty() {")],
        found_by: Test::Machine { test: "linux/hostile_mount_files.gcc" },
    },
    Bug {
        name: "who_hands_a_file_system_on_gives_the_right_to_make_it",
        changes: &[("servers/unixd/src/detached.rs", "who.has_in(owner, Capability::SysAdmin)", "who.has_own(Capability::SysAdmin) && owner < u64::MAX")],
        found_by: Test::Machine { test: "linux/mount_files.gcc" },
    },
    Bug {
        name: "everybody_sets_the_cores_of_others",
        changes: &[("servers/unixd/src/scheduling.rs", "        if !target.is_of(from) && !from.who.has_over", "        if target.is_of(from) && !from.who.has_over")],
        found_by: Test::Machine { test: "linux/affinity_others.gcc" },
    },
    Bug {
        name: "a_file_that_is_given_is_one_too_many_where_its_number_is_taken",
        changes: &[("lib/libunix/src/fd/mod.rs", "        Some(fd) => put_at(io, index, fd, cloexec),", "        Some(_) => place(&mut io.fds, Entry { file: index, cloexec }, 0, limit),")],
        found_by: Test::Machine { test: "linux/seccomp_addfd.gcc" },
    },
    Bug {
        name: "a_program_gives_back_what_home_has_taken",
        changes: &[(
            "kernel/src/vspace/mod.rs",
            "const RIGHTS_BITS: u64 = WRITABLE | Flags::NO_EXECUTE.bits() | MAY_EXECUTE;",
            "const RIGHTS_BITS: u64 = Flags::WRITE.bits() | Flags::NO_EXECUTE.bits() | MAY_EXECUTE;",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::here::nothing_is_given_back_that_home_has_taken_since",
        },
    },
    Bug {
        name: "a_program_writes_to_what_it_has_lent",
        changes: &[(
            "kernel/src/vspace/protect.rs",
            ".change(at, |entry| entry & !WRITABLE);",
            ".change(at, |entry| entry & !Flags::WRITE.bits());",
        )],
        found_by: Test::Host { package: "kernel", test: "tests::here::what_is_lent_is_not_written_to" },
    },
    Bug {
        name: "a_table_that_others_have_had_keeps_what_may_be_given_back",
        changes: &[(
            "kernel/src/vspace/grant.rs",
            "let (write, accessed) = (WRITABLE, Flags::ACCESSED.bits());",
            "let (write, accessed) = (WRITABLE & Flags::WRITE.bits(), Flags::ACCESSED.bits());",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::here::a_table_that_others_have_had_gives_nothing_back",
        },
    },
    Bug {
        name: "other_cores_keep_what_a_program_has_taken",
        changes: &[(
            "kernel/src/vspace/here.rs",
            "(concerned(home.index(), port, is_such) | at_home)",
            "(concerned(home.index(), port, is_such) & at_home)",
        )],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::shootdown::a_program_takes_rights_where_it_runs",
        },
    },
    Bug {
        name: "rights_that_were_lent_are_said_and_not_set",
        changes: &[(
            "crates/user/uvm/src/lent.rs",
            "self.protect_range(b, (start, end), flags, (Prot::ALL, prot));",
            "self.protect_range(b, (start, start), flags, (Prot::ALL, prot));",
        )],
        found_by: Test::Host { package: "uvm", test: "agrees_with_the_naive_model" },
    },
    Bug {
        name: "advice_gives_others_memory_away",
        changes: &[(
            "servers/unixd/src/trace.rs",
            "if !OF_OTHERS.contains(&op.advice) {",
            "if !OF_OTHERS.contains(&op.advice) && op.advice != 4 {",
        )],
        found_by: Test::Machine { test: "linux/process_madvise" },
    },
    Bug {
        name: "a_known_path_stays_known",
        changes: &[("crates/storage/memfs/src/fs.rs", "                self.hidden.push(Hidden::Ways(passed));\n", "                let _ = passed;\n")],
        found_by: Test::Machine { test: "linux/known_stat" },
    },
    Bug {
        name: "somebody_else_knows_where_paths_lead",
        changes: &[("servers/unixd/src/who.rs", "        self.hide_attributes(pid);\n", "")],
        found_by: Test::Machine { test: "linux/known_stat" },
    },
    Bug {
        name: "who_goes_elsewhere_takes_paths_along",
        changes: &[("servers/unixd/src/standing.rs", "            self.procs.hide(Hidden::Ways(Shown::To(pid)));\n", "")],
        found_by: Test::Machine { test: "linux/known_stat" },
    },
    Bug {
        name: "a_mount_leaves_paths_where_they_led",
        changes: &[("servers/unixd/src/nodes.rs", "        self.files.names_mut().hide_all_ways();\n", "")],
        found_by: Test::Machine { test: "linux/kept_open" },
    },
    Bug {
        name: "a_watched_file_is_kept",
        changes: &[("servers/unixd/src/open.rs", "let is_seen = fx.observed() || !leases", "let is_seen = !leases")],
        found_by: Test::Machine { test: "linux/kept_open" },
    },
    Bug {
        name: "flags_are_kept_with_a_file",
        changes: &[("lib/libunix/src/sys/descriptors.rs", "        io.fds.never_keep(fd);\n", "")],
        found_by: Test::Machine { test: "linux/kept_open" },
    },
    Bug {
        name: "who_takes_what_is_kept_lets_more_be_kept",
        changes: &[("crates/protocol/unixproto/src/session.rs", "        self.keeps.store(0, Ordering::SeqCst);\n", "")],
        found_by: Test::Host { package: "unixproto", test: "what_is_kept_is_of_one_file" },
    },
    Bug {
        name: "a_look_into_memory_ends_a_call_that_is_decided_about",
        changes: &[(
            "servers/unixd/src/trace.rs",
            "            Some(Any::CallNotice(_)) => {",
            "            Some(Any::CallNotice(_)) if tid == 0 => {",
        )],
        found_by: Test::Machine { test: "linux/seccomp_memory" },
    },
    Bug {
        name: "the_last_that_is_counted_stays_counted",
        changes: &[(
            "crates/server/piecewise/src/holdings.rs",
            "if ids.len() >= self.bounds.few {",
            "if ids.len() > self.bounds.few {",
        )],
        found_by: Test::Host {
            package: "piecewise",
            test: "holdings::tests::what_is_counted_is_what_is_held",
        },
    },
    Bug {
        name: "a_program_raises_a_limit_as_far_as_it_likes",
        changes: &[(
            "crates/storage/morsel/src/raise.rs",
            "if !may || pages > more_in(word) {",
            "if !may {",
        )],
        found_by: Test::Host {
            package: "morsel",
            test: "two_raise_a_limit",
        },
    },
    Bug {
        name: "what_a_program_hides_is_still_cached",
        changes: &[(
            "kernel/src/operations/hiding.rs",
            "    if hide_here(root, at)? {\n        forget_tables_of",
            "    if !hide_here(root, at)? {\n        forget_tables_of",
        ), ],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::shootdown::a_program_hides_an_object_where_it_runs",
        },
    },
    Bug {
        name: "a_fault_makes_pages_of_what_is_hidden",
        changes: &[(
            "kernel/src/morsels/fault.rs",
            "    let shows = MORSEL | PRESENT | error & WRITE;",
            "    let shows = MORSEL | error & WRITE;",
        ), ],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::hiding::what_is_hidden_is_seen_by_nobody_and_empty_when_it_is_shown_again",
        },
    },
    Bug {
        name: "what_home_does_not_allow_is_hidden",
        changes: &[(
            "kernel/src/vspace/here.rs",
            "    const BITS: u64 = MAY_HIDE | MORSEL;",
            "    const BITS: u64 = MORSEL;",
        ), ],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::hiding::only_what_home_lets_it_hide_is_hidden_and_shown",
        },
    },
    Bug {
        name: "what_may_be_hidden_no_more_stays_hidden",
        changes: &[(
            "kernel/src/vspace/here.rs",
            "        false => entry & !MAY_HIDE | Flags::PRESENT.bits(),",
            "        false => entry & !MAY_HIDE,",
        ), ],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::hiding::only_what_home_lets_it_hide_is_hidden_and_shown",
        },
    },
    Bug {
        name: "what_can_only_be_read_is_emptied",
        changes: &[(
            "kernel/src/vspace/here.rs",
            "    if allow && !mapping.rights.has(Rights::WRITE) {",
            "    if allow && !mapping.rights.has(Rights::READ) {",
        ), ],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::hiding::what_may_not_be_written_to_may_not_be_hidden",
        },
    },
    Bug {
        name: "pages_that_are_shown_alone_are_taken_from_below",
        changes: &[(
            "kernel/src/operations/hiding.rs",
            "    if core.cores.are_many() && !shared.reach.is_shared() || shows_single() {",
            "    if core.cores.are_many() && !shared.reach.is_shared() || shows_single() && object == 0 {",
        ), ],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::hiding::others_who_show_the_object_see_nothing_either",
        },
    },
    Bug {
        name: "what_is_shown_meanwhile_is_emptied",
        changes: &[(
            "kernel/src/vspace/here.rs",
            "    may_hide_here(root, at).ok().filter(|entry| entry & Flags::PRESENT.bits() == 0)",
            "    may_hide_here(root, at).ok().filter(|entry| entry & MAY_HIDE != 0)",
        ), ],
        found_by: Test::Host {
            package: "kernel",
            test: "tests::shootdown::what_is_shown_meanwhile_stays",
        },
    },
    Bug {
        name: "who_is_late_is_not_known_to_be",
        changes: &[(
            "crates/user/glance/src/kept.rs",
            "                self.late.store(start);",
            "                self.late.store(0);",
        ), ],
        found_by: Test::Host {
            package: "glance",
            test: "who_is_late_changes_nothing_of_others",
        },
    },
    Bug {
        name: "what_threads_keep_is_kept_at_a_fork",
        changes: &[(
            "lib/libunix/src/mm/leases.rs",
            "        if place.kept.pages().is_some_and(|(start, pages)| ends(start, pages)) {",
            "        if place.kept.pages().is_some_and(|(start, pages)| ends(start, pages) && start == 0) {",
        )],
        found_by: Test::Machine { test: "linux/kept_threads" },
    },
    Bug {
        name: "nobody_is_asked_when_a_lent_file_was_changed",
        changes: &[("servers/unixd/src/loans.rs", "    files.names_mut().changed(ino, time(uses.written), now);\n", "    let _ = uses.written;\n")],
        found_by: Test::Machine { test: "linux/lent_writes" },
    },
    Bug {
        name: "attributes_of_a_lent_file_are_looked_at",
        changes: &[("servers/unixd/src/pathops.rs", "lent_to(ino).is_some() => {", "lent_to(ino).is_none() && false => {")],
        found_by: Test::Machine { test: "linux/lent_writes" },
    },
    Bug {
        name: "times_are_set_of_a_lent_file",
        changes: &[("servers/unixd/src/pathops.rs", "        loans::end(self.tree.files_mut(), self.procs, self.clock, ino);\n        let inode", "        let inode")],
        found_by: Test::Machine { test: "linux/lent_writes" },
    },
    Bug {
        name: "who_appends_has_a_file_lent",
        changes: &[("servers/unixd/src/server/requests.rs", "            loans::end(tree.files_mut(), procs, clock, ino);\n", "            let _ = (tree, procs, clock, ino);\n")],
        found_by: Test::Machine { test: "linux/lent_writes" },
    },
    Bug {
        name: "a_limit_is_not_for_lent_files",
        changes: &[("servers/unixd/src/limits.rs", "            self.procs.return_loans(self.procs.get(pid)?);\n", "")],
        found_by: Test::Machine { test: "linux/lent_writes" },
    },
    Bug {
        name: "who_ends_does_not_say_when_it_wrote",
        changes: &[("servers/unixd/src/exits.rs", "            self.procs.return_loans(proc);\n", "            let _ = proc;\n")],
        found_by: Test::Machine { test: "linux/lent_writes" },
    },
    Bug {
        name: "a_program_with_set_id_bits_is_lent",
        changes: &[("servers/unixd/src/content.rs", " && inode.mode & SET_IDS == 0;", " && inode.mode & SET_IDS != 1;")],
        found_by: Test::Machine { test: "linux/lent_writes" },
    },
    Bug {
        name: "any_time_of_a_lent_file_is_believed",
        changes: &[("crates/storage/memfs/src/fs.rs", "            let time = time.min(now);\n", "            let _ = now;\n")],
        found_by: Test::Host { package: "memfs", test: "a_time_is_believed_between_the_loan_and_now" },
    },
    Bug {
        name: "a_lent_file_is_shown",
        changes: &[("crates/storage/memfs/src/fs.rs", "                self.hidden.push(Hidden::Inode(ino, Shown::To(whom)));\n", "")],
        found_by: Test::Host { package: "memfs", test: "who_changes_it_or_is_shown_it_ends_the_loan" },
    },
    Bug {
        name: "a_ring_that_is_closed_is_used",
        changes: &[("crates/protocol/peers/src/lib.rs", "        if (own | other) & CLOSED != 0 {", "        if (own & other) & CLOSED != 0 && self.writes {")],
        found_by: Test::Host { package: "peers", test: "words_that_cannot_be_lead_nowhere" },
    },
    Bug {
        name: "more_bytes_are_believed_than_a_ring_has",
        changes: &[("crates/protocol/peers/src/lib.rs", "    match bytes <= RING {", "    match bytes <= 2 * RING {")],
        found_by: Test::Host { package: "peers", test: "words_that_cannot_be_lead_nowhere" },
    },
    Bug {
        name: "who_sleeps_again_is_not_woken_again",
        changes: &[("crates/protocol/peers/src/lib.rs", "if word & 1 == 1 { 2 } else { 0 }", "0")],
        found_by: Test::Host { package: "peers", test: "each_sleep_is_ended_once" },
    },
    Bug {
        name: "a_read_is_before_the_write",
        changes: &[("crates/protocol/unixproto/src/session.rs", "now().max(state & !LENT).max(1)", "now().max(1)")],
        found_by: Test::Host { package: "unixproto", test: "reads_of_who_has_it_alone_are_told_of" },
    },
    Bug {
        name: "any_time_of_a_read_is_believed",
        changes: &[("crates/storage/memfs/src/fs.rs", "inode.atime.max(time.min(now))", "inode.atime.max(time).max(now.min(0))")],
        found_by: Test::Host { package: "memfs", test: "a_read_is_believed_between_the_last_one_and_now" },
    },
    Bug {
        name: "sockets_are_counted_in_each_network_by_itself",
        changes: &[(
            "crates/server/inet/src/socket.rs",
            "Inet { first, shares, users, away, inside, ..Inet::default() }",
            "Inet { first, shares, users: { drop(users); Inet::default().users }, away, inside, ..Inet::default() }",
        )],
        found_by: Test::Host { package: "inet", test: "name_spaces_have_all_of_their_own" },
    },
    Bug {
        name: "abstract_names_are_those_of_all_networks",
        changes: &[(
            "crates/server/sockets/src/socket.rs",
            "        (self.space, self.kind)",
            "        (0, self.kind)",
        )],
        found_by: Test::Machine { test: "linux/net_spaces" },
    },
    Bug {
        name: "many_descriptors_are_not_inherited",
        changes: &[(
            "servers/unixd/src/morefds.rs",
            "if fds.is_empty() {",
            "if !fds.is_empty() {",
        )],
        found_by: Test::Machine { test: "linux/fd_facts" },
    },
    Bug {
        name: "what_is_passed_is_taken_for_lost",
        changes: &[("crates/server/netstack/src/passing.rs", "let shortest = self.shortest.filter(|_| self.is_seen)?;", "let shortest = self.shortest.filter(|_| self.is_seen && self.losses > 99)?;")],
        found_by: Test::Host { package: "netstack", test: "what_is_passed_is_not_lost" },
    },
    Bug {
        name: "what_was_repeated_in_vain_is_not_taken_back",
        changes: &[("crates/server/netstack/src/passing.rs", "if before.repeated != 1 || !is_sooner {", "if before.repeated != 1 || is_sooner {")],
        found_by: Test::Host { package: "netstack", test: "what_is_passed_is_not_lost" },
    },
    Bug {
        name: "nobody_sums_what_a_device_does_not_know",
        changes: &[("crates/server/netstack/src/stack.rs", "&& !sums::is_right(frame)", "&& !sums::is_segment(frame)")],
        found_by: Test::Host { package: "netstack", test: "a_device_sums" },
    },
    Bug {
        name: "who_lingers_stays",
        changes: &[("crates/server/netstack/src/stack.rs", "if self.lingering.len() > LINGERING {", "if self.lingering.len() > 64 * LINGERING {")],
        found_by: Test::Host { package: "netstack", test: "who_comes_and_goes_leaves_nothing" },
    },
    Bug {
        name: "an_address_of_a_wire_needs_none",
        changes: &[("crates/server/inet/src/address.rs", "            (0, ..) => Err(Errno::EINVAL),", "            (0, ..) => Ok(()),")],
        found_by: Test::Machine { test: "linux/inet_scopes.gcc" },
    },
    Bug {
        name: "a_way_does_not_say_who_asks",
        changes: &[("crates/server/inet/src/ways.rs", "            .number(nl::rtattr_type_t::RTA_UID as u32, asked.unwrap_or(uid))\n", "")],
        found_by: Test::Host { package: "inet", test: "ways_of_both_versions_are_told" },
    },
];

/// A run of all tests looks for one in so many of them, other ones each day; together they take longer than all other tests.
const DAYS: usize = 8;

/// It begins with none when the run has taken so long, so that a slow machine comes to its end, too,
const ENOUGH: Duration = Duration::from_secs(30 * 60);
/// but looks for so many of each kind.
const LEAST: usize = 2;

/// Two cases, which run at the same time: those that tests on the host find, and those that take a machine. The bugs of a case share a copy of
/// the sources, and what was built of it. With the filter `mutations`, all of them; with `mutations/are_found/NAME,NAME`, one case with only
/// these; else those of the day.
pub fn cases(filter: &str) -> Vec<Case> {
    match filter
        .strip_prefix("mutations/are_found/")
        .filter(|named| !["host", "machine"].contains(named))
    {
        Some(_) => vec![Case::single("mutations/are_found".into(), named_are_found)],
        None => vec![
            Case::single("mutations/are_found/machine".into(), |context| {
                some_are_found(context, "mutations-machine", |bug| {
                    matches!(bug.found_by, Test::Machine { .. })
                })
            }),
            Case::single("mutations/are_found/host".into(), |context| {
                some_are_found(context, "mutations", |bug| {
                    matches!(bug.found_by, Test::Host { .. })
                })
            }),
        ],
    }
}

/// All of a kind if they were asked for, else those of the day, while there is time.
fn some_are_found(context: &Context, copy: &str, is_kind: impl Fn(&Bug) -> bool) -> Result<()> {
    let of_kind: Vec<_> = BUGS.iter().filter(|bug| is_kind(bug)).collect();
    if context.asks_for("mutations") {
        return are_found(context, copy, of_kind.into_iter());
    }
    let today = of_day(&of_kind, today());
    let mut names = Vec::new();
    let in_time = today.iter().enumerate().map_while(|(at, bug)| {
        let begins = at < LEAST || context.started.elapsed() < ENOUGH;
        begins.then(|| {
            names.push(bug.name);
            *bug
        })
    });
    let outcome = are_found(context, copy, in_time);
    let (count, all) = (names.len(), today.len());
    let names = names.join(",");
    context.note(&format!(
        "looked for {count} of today's {all}: ./x test mutations/are_found/{names}"
    ));
    outcome
}

/// Those of a day, from another one of them on whenever their turn comes again: the last ones may find no time.
fn of_day<'a>(bugs: &[&'a Bug], day: usize) -> Vec<&'a Bug> {
    let mut today: Vec<_> = bugs.iter().copied().skip(day % DAYS).step_by(DAYS).collect();
    let turns = day / DAYS * LEAST;
    let first = turns.checked_rem(today.len()).unwrap_or(0);
    today.rotate_left(first);
    today
}

fn named_are_found(context: &Context) -> Result<()> {
    let wanted = context.filter.strip_prefix("mutations/are_found/").unwrap_or("");
    let is_wanted = |bug: &&Bug| wanted.split(',').any(|name| bug.name.contains(name));
    are_found(context, "mutations", BUGS.iter().filter(is_wanted))
}

/// What keeps one bug from being planted or tried is a failure like one that is not found: the others are tried still.
fn are_found<'a>(context: &Context, copy: &str, bugs: impl Iterator<Item = &'a Bug>) -> Result<()> {
    let copy = Project { root: context.project.state().join(copy) };
    begin_with_what_is_built(&context.project, &copy)?;
    let mut failures = Vec::new();
    for bug in bugs {
        copy_sources(&context.project, &copy)?;
        let outcome = plant(&copy, bug).and_then(|()| is_found(&copy, bug));
        match outcome {
            Ok(true) => {}
            Ok(false) => failures.push(format!("{} is not found", bug.name)),
            Err(error) => failures.push(format!("{}: {error:#}", bug.name)),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// The sources with it, each file once.
fn planted(sources: &Project, bug: &Bug) -> Result<Vec<(&'static str, String)>> {
    let mut files: Vec<(&'static str, String)> = Vec::new();
    for &(file, right, wrong) in bug.changes {
        let known = files.iter().position(|(name, _)| *name == file);
        let at = match known {
            Some(at) => at,
            None => {
                let text = fs::read_to_string(sources.path(file))
                    .with_context(|| format!("cannot read {file}"))?;
                files.push((file, text));
                files.len() - 1
            }
        };
        let text = &mut files[at].1;
        let places = text.matches(right).count();
        ensure!(places == 1, "{}: {file} has {places} places to plant it, not one", bug.name);
        *text = text.replace(right, wrong);
    }
    Ok(files)
}

fn plant(copy: &Project, bug: &Bug) -> Result<()> {
    for (file, text) in planted(copy, bug)? {
        fs::write(copy.path(file), text)?;
    }
    Ok(())
}

/// Does the test fail? One that does not come to an end fails too. An error if what it is in does not build.
fn is_found(copy: &Project, bug: &Bug) -> Result<bool> {
    let output = match bug.found_by {
        Test::Host { package, test } => {
            let tests = |more: &[&str]| {
                let mut cargo = toolchain::host(copy);
                cargo.args(["test", "--quiet", "--package", package, "--tests"]).args(more);
                cargo
            };
            let built = in_copy(copy, tests(&["--no-run"])).output()?;
            ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            let mut tries = 1;
            let output = loop {
                let output = in_copy(copy, limited(&tests(&["--", test]))).output()?;
                if !output.status.success() || tries == TRIES {
                    break output;
                }
                tries += 1;
            };
            if output.status.code() == Some(TIMED_OUT) {
                return Ok(true);
            }
            output
        }
        Test::Machine { test } => {
            let mut tool = Command::new(std::env::current_exe()?);
            tool.current_dir(&copy.root).env("TESSERA_ROOT", &copy.root).args(["test", test]);
            in_copy(copy, tool).output()?
        }
    };
    if output.status.success() {
        return Ok(false);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let is_found = match bug.found_by {
        // A model checker that panics while it ends its threads has no result to tell.
        Test::Host { .. } => {
            said.contains("test result: FAILED")
                || String::from_utf8_lossy(&output.stderr).contains("panicked at")
        }
        // What does not come to an end is said of the boot in which it is.
        Test::Machine { test } => said
            .lines()
            .filter_map(|line| line.strip_prefix("FAILED  "))
            .filter_map(|line| line.split_whitespace().next())
            .any(|failed| test.starts_with(failed) || failed.starts_with(test)),
    };
    ensure!(is_found, "{said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(true)
}

/// Libraries of others need not be built again for the copy. Nothing writes to their files: they are replaced, and what belongs to the copy's own
/// packages has other names, as their folders are others.
fn begin_with_what_is_built(project: &Project, copy: &Project) -> Result<()> {
    let target = copy.path("target");
    if target.exists() {
        return Ok(());
    }
    fs::create_dir_all(&target)?;
    for name in BUILT.map(|name| project.path(name)) {
        if name.exists() {
            // Where there are no links, it takes longer.
            let _ = Command::new("cp").arg("-al").arg(&name).arg(&target).output()?;
        }
    }
    for name in BUILT {
        for kind in ["", "debug", "release"] {
            let _ = fs::remove_dir_all(copy.path(name).join(kind).join("incremental"));
        }
    }
    Ok(())
}

fn in_copy(copy: &Project, mut command: Command) -> Command {
    command.env("CARGO_TARGET_DIR", copy.path("target")).env("CARGO_TERM_COLOR", "never");
    command.stdin(Stdio::null());
    command
}

/// The same command, ended with all that it has started after [`PATIENCE`].
fn limited(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=10", PATIENCE]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited
}

/// Brings the copy up to date; files that are the same keep their times, so that little is built anew.
fn copy_sources(project: &Project, copy: &Project) -> Result<()> {
    fs::create_dir_all(&copy.root)?;
    for name in SOURCES {
        copy_all(&project.path(name), &copy.path(name))?;
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        let wanted = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        if fs::read(to).ok().as_deref() != Some(&wanted) {
            fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        // What is no source any more.
        if !from.join(entry.file_name()).exists() {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Though a run has time for the least only.
    #[test]
    fn each_has_its_day() {
        let bugs: Vec<&Bug> = BUGS.iter().collect();
        let turns = bugs.len().div_ceil(DAYS).div_ceil(LEAST);
        let mut looked_for: Vec<&str> = (0..2 * DAYS * turns)
            .flat_map(|day| of_day(&bugs, day).into_iter().take(LEAST))
            .map(|bug| bug.name)
            .collect();
        looked_for.sort_unstable();
        looked_for.dedup();
        assert_eq!(looked_for.len(), bugs.len());
    }

    /// Before any of them is tried, which takes long.
    #[test]
    fn each_can_be_planted() -> Result<()> {
        let sources = Project { root: Path::new(env!("CARGO_MANIFEST_DIR")).join("../..") };
        let mut wrong = Vec::new();
        for bug in BUGS {
            let is_changed = |(file, text): &(&str, String)| {
                fs::read_to_string(sources.path(file)).is_ok_and(|right| *text != right)
            };
            match planted(&sources, bug) {
                Ok(files) if files.iter().all(is_changed) => {}
                Ok(_) => wrong.push(format!("{} changes nothing", bug.name)),
                Err(error) => wrong.push(format!("{error:#}")),
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }
}
