//! Devices behind an IOMMU: `guest/tests/iommutest` boots in place of `init`, and drives a device that copies as it is
//! told; and what all other tests use works as on a machine without.

use super::guest::GuestRun;
use super::native::{collect, read_results};
use super::{feed, this_tool, Case, Context, TestResult};
use crate::machine::{MachineOptions, MemorySize};
use crate::program::Invocation;
use anyhow::{ensure, Result};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(600);
const PROGRAM: &str = "boot/programs/iommutest";
/// Parts that there are at least.
const PARTS: usize = 24;

pub fn cases() -> Vec<Case> {
    let machine = |name: &'static str, cores, la57| {
        Case::several(name.to_owned(), move |context| run(context, name, cores, la57))
    };
    vec![
        machine("devices/iommu", 1, false),
        machine("devices/iommu+la57", 2, true),
        Case::single("devices/console_behind_iommu".to_owned(), console),
    ]
}

fn run(context: &Context, name: &str, cores: u32, la57: bool) -> Vec<TestResult> {
    collect(name, |results| {
        let mem = MemorySize { mib: 512 };
        let run = GuestRun {
            test: name.to_owned(),
            invocation: Invocation::new(vec![PROGRAM.to_owned()], &[])?,
            additions: Vec::new(),
            stdin: Vec::new(),
            machine: MachineOptions {
                cores,
                la57,
                mem,
                iommu: true,
                edu: true,
                ..MachineOptions::default()
            },
            timeout: TIMEOUT,
            command_line: format!("init={PROGRAM}"),
        };
        read_results(context, name, &run.run(context)?, results)?;
        ensure!(results.len() >= PARTS, "parts are missing: there are {}", results.len());
        Ok(())
    })
}

/// The device that a program's streams go over reaches memory through the IOMMU, and passes.
fn console(context: &Context) -> Result<()> {
    let folder = context.folder("devices")?;
    let mut command = this_tool(context, &folder)?;
    command.args(["run", "--iommu", "--verbose", "--mem", "512M", "--timeout=600", "--", "cat"]);
    let input = "a line\n".repeat(10_000);
    let output = feed(&mut command, input.as_bytes())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(text == input, "the input came back as {} bytes", text.len());
    ensure!(said.contains("IOMMU at "), "the kernel says nothing of an IOMMU: {said}");
    Ok(())
}
