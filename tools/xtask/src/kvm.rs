//! Finds out whether KVM really works here.
//!
//! `/dev/kvm` may exist where guests cannot run, or only some can. So a tiny guest is tried: it goes
//! from the reset vector to long mode, reads the local APIC through a page table, writes a model
//! specific register and ends the emulator with a status that nothing else gives.

use crate::machine::QEMU;
use crate::project::Project;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What there is of KVM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kvm {
    /// A guest ran.
    Works,
    /// There is no device.
    Absent,
    /// The device may not be opened.
    Forbidden,
    /// A guest did not run.
    Broken,
    /// There is no emulator to try it.
    Untried,
}

/// Finds out, whatever was found out before.
pub fn examine(project: &Project) -> Kvm {
    let device = Path::new("/dev/kvm");
    if !cfg!(target_arch = "x86_64") || !device.exists() {
        return Kvm::Absent;
    }
    let opened = fs::File::options().read(true).write(true).open(device);
    match opened.map_err(|error| error.kind()) {
        Err(std::io::ErrorKind::PermissionDenied) => Kvm::Forbidden,
        _ if !crate::setup::in_path(QEMU) => Kvm::Untried,
        _ if trial(project) => Kvm::Works,
        _ => Kvm::Broken,
    }
}

/// Whether guests run on this machine's processor. Tried once for each start of the machine and
/// version of QEMU.
pub fn usable(project: &Project) -> bool {
    if !cfg!(target_arch = "x86_64") || !Path::new("/dev/kvm").exists() {
        return false;
    }
    let memory = project.state().join("kvm");
    let key = circumstances();
    if let Some(answer) = fs::read_to_string(&memory).ok().and_then(|text| recall(&text, &key)) {
        return answer;
    }
    let answer = trial(project);
    // Without room to remember, it is tried again.
    let _ = fs::write(&memory, format!("{key}{answer}\n"));
    answer
}

fn recall(text: &str, key: &str) -> Option<bool> {
    text.strip_prefix(key)?.trim().parse().ok()
}

/// What the answer depends on: the boot of this machine, QEMU's executable, and the guest.
fn circumstances() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let qemu = ["/usr/bin", "/usr/local/bin"]
        .iter()
        .find_map(|folder| fs::metadata(Path::new(folder).join(QEMU)).ok()?.modified().ok());
    format!("{} {qemu:?} {}\n", boot.trim(), guest::VERSION)
}

const STATUS: i32 = 0x2a * 2 + 1;

fn trial(project: &Project) -> bool {
    let firmware = project.state().join(format!("kvm-trial.{}", std::process::id()));
    let answer = fs::write(&firmware, guest::firmware()).is_ok() && succeeds(&firmware);
    let _ = fs::remove_file(&firmware);
    answer
}

fn succeeds(firmware: &Path) -> bool {
    let child = Command::new(QEMU)
        .args("-machine q35 -accel kvm -cpu host -m 64M -nodefaults -no-user-config".split(' '))
        .args("-no-reboot -display none -device isa-debug-exit,iobase=0xf4,iosize=0x04".split(' '))
        .arg("-bios")
        .arg(firmware)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return status.code() == Some(STATUS);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(target_arch = "x86_64")]
mod guest {
    /// Counts the changes of the trial.
    pub const VERSION: u32 = 1;
    const SIZE: usize = 64 << 10;

    // The firmware is mapped below 4 GiB and, its last 64 KiB, below 1 MiB; the code runs in the
    // second copy, at 0xf0000. The page tables are made in RAM at 0x1000: one 2 MiB page each for
    // the first 2 MiB and, uncached, for the local APIC.
    std::arch::global_asm!(
        r#"
        .pushsection .rodata.kvm_trial, "a"
        .set BASE, 0xf0000
        .code16
    kvm_trial_start:
        cli
        movw %cs:(2f - kvm_trial_start), %ax
        lgdtl %cs:(4f - kvm_trial_start)
        movl %cr0, %eax
        orl $1, %eax
        movl %eax, %cr0
        ljmpl $8, $(BASE + 5f - kvm_trial_start)
    2:  .word 0
        .balign 8
    3:  .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff, 0x00af9a000000ffff
    4:  .word 4 * 8 - 1
        .long BASE + 3b - kvm_trial_start
        .code32
    5:  movw $16, %ax
        movw %ax, %ds
        movw %ax, %es
        movw %ax, %ss
        movl $0x8000, %esp
        cld
        movl $0x1000, %edi
        xorl %eax, %eax
        movl $0x1000, %ecx
        rep stosl
        movl $0x2003, 0x1000
        movl $0x3003, 0x2000
        movl $0x4003, 0x2018
        movl $0x83, 0x3000
        movl $0xfee0009b, 0x4fb8
        movl $0x1000, %eax
        movl %eax, %cr3
        movl $0x6a0, %eax
        movl %eax, %cr4
        movl $0xc0000080, %ecx
        rdmsr
        orl $0x901, %eax
        wrmsr
        movl $0x80010033, %eax
        movl %eax, %cr0
        ljmpl $24, $(BASE + 6f - kvm_trial_start)
        .code64
    6:  movl $0xc0000082, %ecx
        movl $0x12345678, %eax
        xorl %edx, %edx
        wrmsr
        rdmsr
        cmpl $0x12345678, %eax
        jne 7f
        movl $0xfee00030, %ebx
        movl (%rbx), %eax
        testb $0x10, %al
        jz 7f
        pxor %xmm0, %xmm0
        movl $0x2a, %eax
        movw $0xf4, %dx
        outb %al, %dx
    7:  hlt
        jmp 7b
    kvm_trial_end:
        .popsection
        "#,
        options(att_syntax)
    );

    extern "C" {
        static kvm_trial_start: u8;
        static kvm_trial_end: u8;
    }

    /// A firmware image: the code above at its start and a jump to it at the reset vector.
    pub fn firmware() -> Vec<u8> {
        // SAFETY: the two symbols delimit one range of read-only data of this executable.
        let code = unsafe {
            let start = &raw const kvm_trial_start;
            let length = (&raw const kvm_trial_end).offset_from_unsigned(start);
            std::slice::from_raw_parts(start, length)
        };
        let mut image = vec![0; SIZE];
        image[..code.len()].copy_from_slice(code);
        // Far jump to f000:0000.
        image[SIZE - 16..SIZE - 11].copy_from_slice(&[0xea, 0, 0, 0, 0xf0]);
        image
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod guest {
    pub const VERSION: u32 = 0;

    pub fn firmware() -> Vec<u8> {
        Vec::new()
    }
}
