//! The first instructions: from the PVH entry point to Rust in the upper half.
//!
//! A loader that follows the PVH protocol finds the entry address in an ELF note and jumps there in
//! 32-bit protected mode without paging, with the physical address of the start information in EBX.
//! We load page tables that are part of the image, enter long mode and call `kernel_main` on the
//! boot stack. Those tables map the first 4 GiB three times: where they are, in the direct map, and
//! (1 GiB) where the kernel is linked. All of it is writable and executable; `memory` replaces it
//! as soon as it can.

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
    movl $(boot_pml4 - KERNEL_BASE), %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax                 // PAE
    movl %eax, %cr4
    movl $0xc0000080, %ecx          // EFER: system call, long mode, no-execute
    rdmsr
    orl $0x901, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80010001, %eax           // paging, write protection, protected mode
    movl %eax, %cr0
    lgdt boot_gdt_pointer - KERNEL_BASE
    ljmp $8, $(boot_long_mode - KERNEL_BASE)

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
    movq $boot_stack_top, %rsp
    xorl %ebp, %ebp                 // the last frame of a backtrace
    movl %ebx, %edi
    call kernel_main
    ud2

    .section .rodata
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 64-bit kernel code
boot_gdt_pointer:
    .word 15
    .quad boot_gdt - KERNEL_BASE

    .section .data
    .balign 4096
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
    .skip 32768
boot_stack_top:
    .text
    "#,
    options(att_syntax)
);
