// What a hostile process can do beside system calls: it puts its own dispatcher into the disabled
// state, in which `syscall` goes to the CPU driver, and invokes the capabilities that it has.
#include "caps.h"
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// abi::layout; the flag `disabled` is the first field of the dispatcher's frame.
#define RAW_FRAME 0x7fffe0001000ul
#define RAW_SESSION 0x7fffe0002000ul
#define RAW_DATA (RAW_SESSION + 4096)

// Rights.
enum { RIGHT_READ = 1, RIGHT_WRITE = 2, RIGHT_EXEC = 4, RIGHT_SEND = 8, RIGHT_RECV = 16, RIGHT_REVOKE = 32 };

// What the last invocation left in rsi, rdx, r10, r8, r9, r12 and r13.
static unsigned long raw_results[7];

static inline long raw_invoke(unsigned long rax, unsigned long target, const unsigned long *arguments) {
    unsigned long words[11] = {rax, target};
    memcpy(words + 2, arguments, 9 * sizeof *words);
    // What other cores know of is done in pieces.
    long status;
    do status = invoke_words(words, raw_results);
    while (status == AGAIN);
    return status;
}

// Invokes a capability; answers the status.
#define INVOKE(label, target, ...) raw_invoke(label, target, (unsigned long[9]){__VA_ARGS__})

// A slot of the CSpace whose root is in `root`.
static inline unsigned long within(unsigned long root, unsigned long slot) { return root << 32 | slot; }

// Requests to unixd (unixproto::ops), by their numbers.
enum {
    OP_ATTACH = 1, OP_FORK, OP_FORK_COMMIT, OP_FORK_ABORT, OP_BECOME, OP_EXEC, OP_EXIT, OP_WAIT, OP_KILL,
    OP_STOP, OP_SET_PGID, OP_GET_PGID, OP_SET_SID, OP_GET_SID, OP_SET_IDS, OP_CPU_USAGE, OP_SET_NAME,
    OP_REPLACE, OP_SLEEP = 20, OP_PAUSE, OP_SIG_WAIT, OP_SET_TIMER, OP_GET_TIMER,
    OP_OPEN = 30, OP_STAT, OP_CHMOD = 40, OP_CHOWN, OP_SET_TIMES, OP_TRUNCATE, OP_CHDIR,
    OP_MEM_FILE = 47, OP_CLOSE = 50, OP_READ, OP_WRITE, OP_READ_BEGIN, OP_WRITE_BEGIN, OP_FILE_EXTENT,
    OP_SEEK, OP_GET_DENTS, OP_GET_FLAGS, OP_SET_FLAGS, OP_IOCTL, OP_POLL, OP_PIPE, OP_PIPE_READ,
    OP_PIPE_WRITE, OP_DESCRIBE = 66, OP_SET_LOCK, OP_GET_LOCK, OP_SYSTEM_INFO = 80,
    OP_UNKNOWN_CALL, OP_LOG, OP_THREAD = 90, OP_THREAD_EXIT, OP_KILL_THREAD, OP_FUTEX_COUNT = 96,
    OP_FUTEX_WAIT, OP_FUTEX_WAKE, OP_FUTEX_FIRST,
};

// Where requests with capabilities, and those that are answered with some, are sent: to `unixd`, or, if the home is another
// core, to its stand-in there, in a slot that is empty elsewhere.
enum { STANDIN = 12 };
static inline unsigned long raw_keeper(void) { return INVOKE(IDENTIFY, STANDIN, 0) == EMPTY ? UNIXD : STANDIN; }

// What the last word of such a request says: which thread has sent it.
static inline unsigned long raw_thread(void) { return syscall(SYS_gettid); }

// Sends a request through the endpoint in a slot: answers 0, an error number, or -1 if there was no
// answer. `a` goes to the data area; capabilities come back in the slots from `receive` on.
static inline long raw_request_through(unsigned long slot, unsigned op, const char *a, unsigned long receive,
                                       const unsigned long *w) {
    unsigned long length = a ? strlen(a) : 0;
    if (length) memcpy((void *)RAW_DATA, a, length);
    long status = INVOKE(CALL, slot, op | length << 16, w[0], w[1], w[2], w[3], w[4], 0, receive);
    return status ? -1 : (long)raw_results[0];
}

#define REQUEST(op, a, ...) \
    raw_request_through(UNIXD, op, a, 0, (unsigned long[5]){__VA_ARGS__})
// Lends memory with the request: to be read, to be written to.
#define LENDS_READ (1ul << 25)
#define LENDS_WRITE (1ul << 26)
#define LENDING(bits, op, address, bytes, ...) raw_lending(bits, op, address, bytes, (unsigned long[3]){__VA_ARGS__})
static inline long raw_lending(unsigned long bits, unsigned op, const void *address, unsigned long bytes,
                               const unsigned long *w) {
    long status = INVOKE(CALL | bits, UNIXD, op, w[0], w[1], w[2], (unsigned long)address, bytes, 0, 0);
    return status ? -1 : (long)raw_results[0];
}

#define REQUEST_CAPS(op, a, receive, ...) raw_with_caps(op, a, receive, (unsigned long[4]){__VA_ARGS__})
static inline long raw_with_caps(unsigned op, const char *a, unsigned long receive, const unsigned long *w) {
    unsigned long words[5] = {w[0], w[1], w[2], w[3], raw_thread()};
    return raw_request_through(raw_keeper(), op, a, receive, words);
}

// An L2CNode of its own at this index of the root: slots that the library of the process does not use.
enum { RAW_NODE = 62 };
static inline int raw_make_node(void) {
    unsigned long spare = 255;
    while (spare > 16 && INVOKE(IDENTIFY, spare, 0) != EMPTY) spare--;
    if (INVOKE(CALL, MEMD, 1, 16384, 16384, 0, 0, 0, 0, spare)) return 0;
    long made = INVOKE(RETYPE, spare, L2, 0, 16384, 1, in_root(0, RAW_NODE));
    INVOKE(DELETE, spare, 0);
    return made == 0;
}

// RAM of so many bytes in a slot.
static inline int raw_make_ram(unsigned long slot, unsigned long bytes) {
    return INVOKE(CALL, MEMD, 1, bytes, 0, 0, 0, 0, 0, slot) == 0 && raw_results[0] == 0;
}
