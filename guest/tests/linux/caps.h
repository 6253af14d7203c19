// Capability invocations by a Linux program: a process may put its own dispatcher into the disabled
// state, in which `syscall` goes to the CPU driver, and try whatever it likes on the capabilities that
// its library has.

// Slots that every process has (abi::slots).
enum { ROOT = 1, DISPATCHER = 2, VSPACE = 3, FRAME = 4, MEMD = 5, UNIXD = 6, SESSION = 7, LIBRARY = 13 };

// captypes::Label
enum {
    COPY = 1, MINT, MOVE, RETYPE, DELETE, REVOKE, IDENTIFY, COPY_RANGE, DELETE_RANGE, RETYPE_COPY,
    NO_OP, COMPARE, RETYPE_MANY, RESIZE, NEW_ID,
    MAP = 20, MAP_MANY, PROTECT, PROTECT_MANY, UNMAP, READ_ENTRY, REPLACE,
    CALL = 30, REPLY_RECV, POLL, LISTEN,
    REPLY = 40, NOTIFY, CONFIGURE, START, SUSPEND, CONTINUE, YIELD, WAIT, SET_TIMER, SET_FS_BASE, USAGE,
    SHUTDOWN = 60, LOG, COLLECT, READ_COUNTER, CHECK_INVARIANTS, NOTIFY_RECLAIMED,
    SET_FLUSH_POLICY, COLLECT_CYCLES,
    PORT_IN = 70, PORT_OUT, PORT_OUT_BYTES, IRQ_BIND, IRQ_ACK,
    PERF_INFO = 80, PERF_PROGRAM, PERF_READ,
    LABELS
};

// captypes::Status
enum { DONE, INVALID, NO_SLOT, EMPTY, OCCUPIED, WRONG_TYPE, NO_RIGHTS, AGAIN = 11, SHARED = 17 };

// captypes::CapType
enum { NULL_TYPE, PHYS, RAM, DEV, FRAME_TYPE, PML5, PML4, PDPT, PD, PT, L1, L2, DISP, EP, MAPPING = 30 };

// Eleven words: rax, rdi, rsi, rdx, r10, r8, r9, r12, r13, r14, r15. The results: rsi, rdx, r10, r8,
// r9, r12, r13. Disabled only in between.
long invoke_words(const unsigned long *words, unsigned long *results);
__asm__(".text\n"
        "invoke_words:\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rdi, %rbx; push %rsi\n"
        "mov $0x7fffe0001000, %rbp\n"
        "mov 0(%rbx), %rax; mov 8(%rbx), %rdi; mov 16(%rbx), %rsi; mov 24(%rbx), %rdx\n"
        "mov 32(%rbx), %r10; mov 40(%rbx), %r8; mov 48(%rbx), %r9; mov 56(%rbx), %r12\n"
        "mov 64(%rbx), %r13; mov 72(%rbx), %r14; mov 80(%rbx), %r15\n"
        "movl $1, (%rbp)\n"
        "syscall\n"
        "movl $0, (%rbp)\n"
        "pop %rbx\n"
        "mov %rsi, 0(%rbx); mov %rdx, 8(%rbx); mov %r10, 16(%rbx)\n"
        "mov %r8, 24(%rbx); mov %r9, 32(%rbx); mov %r12, 40(%rbx); mov %r13, 48(%rbx)\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "ret\n");

// A store that the library does not hear of, should it fault: the process dies then.
void store_disabled(volatile unsigned long *at, unsigned long value);
__asm__(".text\n"
        "store_disabled:\n"
        "mov $0x7fffe0001000, %rax\n"
        "movl $1, (%rax)\n"
        "mov %rsi, (%rdi)\n"
        "movl $0, (%rax)\n"
        "ret\n");

// Places (captypes::Place): a slot of the own CSpace, one of its root, and the same of another's root.
static inline unsigned long own(unsigned l1, unsigned l2) { return (unsigned long)l1 << 8 | l2; }
static inline unsigned long in_root(unsigned long root, unsigned index) { return 1ul << 63 | root << 32 | index; }
