//! The first instructions: from the PVH entry point to Rust in the upper half.
//!
//! A loader that follows the PVH protocol finds the entry address in an ELF note and jumps there in
//! 32-bit protected mode without paging, with the physical address of the start information in EBX.
//! We load page tables that are part of the image, enter long mode and call `kernel_main` on the
//! boot stack. Those tables map the first 4 GiB three times: where they are, in the direct map, and
//! (1 GiB) where the kernel is linked. All of it is writable and executable; `memory` replaces it
//! as soon as it can. With the option `la57` on the command line, and a processor that can, a fifth
//! level is put on top of them, and paging has five levels from the start.
//!
//! Any other core begins in real mode, with a copy of `core_trampoline` in a page below 1 MiB, and
//! goes the same way with the same tables, which stay in the image for that. It finds in
//! `starting_core` which [`Core`](super::super::Core) it is, and in `starting_code` where to go on; `smp`
//! puts both there.

use super::super::context::CORE_STACK;
use core::arch::global_asm;

global_asm!(
    r#"
    .set KERNEL_BASE, 0xffffffff80000000
    .set PRESENT_WRITE, 3
    .set PRESENT_WRITE_HUGE, 0x83

    .section .note.Xen, "a", @note
    .balign 4
    .long 4                         // length of the name
    .long 8                         // length of the value
    .long 18                        // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start - KERNEL_BASE

    .section .text.boot, "ax", @progbits
    .global pvh_start
    .code32
pvh_start:
    cld
    movl $(boot_stack_top - KERNEL_BASE), %esp
    call five_levels_wanted         // cannot be changed once paging is on
    movl $(boot_pml4 - KERNEL_BASE), %edx
    movl $0x20, %ecx                // PAE
    testl %eax, %eax
    jz 1f
    movl $(boot_pml5 - KERNEL_BASE), %edx
    movl $0x1020, %ecx              // and LA57
1:  movl %edx, boot_root - KERNEL_BASE
    movl %ecx, boot_cr4 - KERNEL_BASE
enter_long_mode:                    // edx: root table; ecx: bits of CR4
    movl %edx, %cr3
    movl %cr4, %eax
    orl %ecx, %eax
    movl %eax, %cr4
    movl $0xc0000080, %ecx          // EFER: system call, long mode, no-execute
    rdmsr
    orl $0x901, %eax
    wrmsr
    movl %cr0, %eax
    andl $0x9fffffff, %eax          // caches are off after a reset
    orl $0x80010001, %eax           // paging, write protection, protected mode
    movl %eax, %cr0
    lgdt boot_gdt_pointer - KERNEL_BASE
    ljmp $8, $(boot_long_mode - KERNEL_BASE)

    // Where the trampoline leads.
core_protected_mode:
    movl $24, %eax
    movl %eax, %ds
    xorl %ebx, %ebx                 // no start information: not the boot core
    movl boot_root - KERNEL_BASE, %edx
    movl boot_cr4 - KERNEL_BASE, %ecx
    jmp enter_long_mode

    // Is the word `la57` on the command line, whose address is at 24 in the start information,
    // and can the processor do it? Keeps ebx.
five_levels_wanted:
    movl 24(%ebx), %esi
    testl %esi, %esi
    jz 3f
    movb $0x20, %dl                 // what is in front of a word: a space
1:  cmpb $0, (%esi)
    je 3f
    cmpb $0x20, %dl
    jne 2f
    cmpl $0x3735616c, (%esi)        // "la57"
    jne 2f
    testb $0xdf, 4(%esi)            // and behind it: a space, or the end
    jz 4f
2:  movb (%esi), %dl
    incl %esi
    jmp 1b
3:  xorl %eax, %eax
    ret
4:  movl %ebx, %esi
    xorl %eax, %eax
    cpuid
    cmpl $7, %eax
    jb 5f
    movl $7, %eax
    xorl %ecx, %ecx
    cpuid
    shrl $16, %ecx                  // LA57
    andl $1, %ecx
    movl %ecx, %eax
    movl %esi, %ebx
    ret
5:  movl %esi, %ebx
    jmp 3b

    .code64
boot_long_mode:
    movabsq $boot_high, %rax
    jmpq *%rax
boot_high:
    xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %eax, %fs
    movl %eax, %gs
    xorl %ebp, %ebp                 // the last frame of a backtrace
    testl %ebx, %ebx
    jz core_high
    movq $boot_stack_top, %rsp
    movl %ebx, %edi
    call kernel_main
    ud2

core_high:
    xorl %edi, %edi
    xchgq %rdi, starting_core(%rip)
    testq %rdi, %rdi
    jz 1f                           // too late: nobody waits for this core any more
    movq kernel_root(%rip), %rax
    movq %rax, %cr3
    movq {STACK}(%rdi), %rsp
    call *starting_code(%rip)
1:  cli
    hlt
    jmp 1b

    .section .rodata
    // Copied elsewhere: nothing in it depends on where it is. CS is its address / 16.
    .global core_trampoline
    .code16
core_trampoline:
    cli
    cld
    lgdtl %cs:(1f - core_trampoline)
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $16, $(core_protected_mode - KERNEL_BASE)
1:  .word 31
    .long boot_gdt - KERNEL_BASE
    .global core_trampoline_end
core_trampoline_end:
    .code64

    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 64-bit kernel code
    .quad 0x00cf9b000000ffff        // 32-bit code
    .quad 0x00cf93000000ffff        // data
boot_gdt_pointer:
    .word 31
    .quad boot_gdt - KERNEL_BASE

    .section .data
    .balign 8
    .global starting_core
starting_core:                      // the core that is to start, 0 for none
    .quad 0
    .global starting_code
starting_code:                      // and the function that it calls, for that core
    .quad 0
    .global kernel_root
kernel_root:                        // the tables that it uses from then on
    .quad 0
boot_root:
    .long 0
boot_cr4:
    .long 0
    .balign 4096
boot_pml5:                          // addresses of 48 bits, sign-extended, are in these two
    .quad boot_pml4 - KERNEL_BASE + PRESENT_WRITE
    .fill 510, 8, 0
    .quad boot_pml4 - KERNEL_BASE + PRESENT_WRITE
boot_pml4:
    .quad boot_pdpt_low - KERNEL_BASE + PRESENT_WRITE
    .fill 255, 8, 0
    .quad boot_pdpt_low - KERNEL_BASE + PRESENT_WRITE
    .fill 254, 8, 0
    .quad boot_pdpt_high - KERNEL_BASE + PRESENT_WRITE
boot_pdpt_low:
    .quad boot_pds - KERNEL_BASE + PRESENT_WRITE
    .quad boot_pds - KERNEL_BASE + PRESENT_WRITE + 0x1000
    .quad boot_pds - KERNEL_BASE + PRESENT_WRITE + 0x2000
    .quad boot_pds - KERNEL_BASE + PRESENT_WRITE + 0x3000
    .fill 508, 8, 0
boot_pdpt_high:
    .fill 510, 8, 0
    .quad boot_pds - KERNEL_BASE + PRESENT_WRITE
    .quad 0
boot_pds:
    .set page, 0
    .rept 2048
    .quad (page << 21) + PRESENT_WRITE_HUGE
    .set page, page + 1
    .endr

    .section .bss
    .balign 16
    .skip 131072
boot_stack_top:
    .text
    "#,
    STACK = const CORE_STACK,
    options(att_syntax)
);
