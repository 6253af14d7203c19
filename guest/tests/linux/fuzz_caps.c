// Random capability invocations: a process may put its own dispatcher into the disabled state, in
// which `syscall` goes to the CPU driver, so that it can try whatever it likes on the capabilities
// that it has. It may destroy itself; the parent, the servers and the CPU driver go on, and all
// memory comes back.
//
//     fuzz_caps SEED CHILDREN [FIRST]
//
// With TRACE in the environment each invocation is printed before it is made.
//
// Every other child first executes this program again, and shares nothing with anybody from then on.
// The others hold all that their parent has, and may not harm it: it looks after each (cow_promise.c
// tries what chance would not find).
// Minutes: 1 20000.
//
// args: 1 150
// kernel: check=1
// build: gcc
// timeout: 240
// expect-stdout: passed\n
#include "test.h"
#include "chance.h"
#include "caps.h"
#include <sched.h>
#include <time.h>

enum { CALLS = 400, STUCK_AFTER_MS = 150, START_MS = 5000, GIVE_UP_AFTER_MS = 20000 };

// A place that linuxdomain leaves alone.
enum { SANDBOX = 62 };

// Bytes that servers and this process may have got for their stock in the meantime. What is lost at
// the end of the session is compared exactly.
enum { STOCK = 3 << 20 };

// In memory that parent and child share: what the child does at the moment.
static volatile struct { long done, accepted; unsigned long words[11]; } *last;
static int tracing;

static unsigned long words[11];

static long invoke(long label, unsigned long target, const unsigned long *arguments) {
    words[0] = label, words[1] = target;
    memcpy(words + 2, arguments, 9 * sizeof *words);
    for (int i = 0; i < 11; i++) last->words[i] = words[i];
    if (tracing) {
        for (int i = 0; i < 11; i++) printf("%lx ", words[i]);
        printf("\n");
    }
    static unsigned long results[7];
    long status = invoke_words(words, results);
    last->done++;
    if (status == 0) last->accepted++;
    return status;
}

#define INVOKE(label, target, ...) invoke(label, target, (unsigned long[9]){__VA_ARGS__})

// One of everything, in a CNode where the library of the process has nothing: a place to play.
static void make_sandbox(void) {
    unsigned long spare = 255;
    while (spare > 16 && INVOKE(IDENTIFY, spare, 0) != EMPTY) spare--;
    INVOKE(CALL, MEMD, 1, 1 << 20, 4096, 0, 0, 0, 0, spare);
    INVOKE(RETYPE, spare, L2, 0, 16384, 1, in_root(0, SANDBOX));
    static const struct { unsigned char type, count, pages; } made[] = {
        {RAM, 3, 8}, {FRAME_TYPE, 8, 1}, {FRAME_TYPE, 2, 4}, {PML4, 1, 1}, {PDPT, 1, 1}, {PD, 2, 1},
        {PT, 3, 1}, {L1, 1, 4}, {L2, 2, 4}, {DISP, 3, 1}, {EP, 3, 1},
    };
    unsigned long slot = 0, offset = 16384;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        unsigned long bytes = made[i].pages * PAGE;
        INVOKE(RETYPE, spare, made[i].type, offset, bytes, made[i].count, own(SANDBOX, slot));
        slot += made[i].count, offset += bytes * made[i].count;
    }
    INVOKE(COPY, MEMD, own(SANDBOX, slot++));
    INVOKE(COPY, UNIXD, own(SANDBOX, slot++));
    INVOKE(COPY, own(SANDBOX, 4), own(SANDBOX, slot++));
}

static unsigned long slot_address(void) {
    switch (below(12)) {
    case 0: return below(40);
    case 1: return own(below(SANDBOX + 6), below(256));
    case 2: return own(PICK(0, 1, 2, 17, 18, 64, 65, 66, 67), PICK(below(256), below(16), 128 + below(16)));
    case 3: return PICK(0, 255, 256, 0xffff, 0x10000, 0xffffff, 0x7fffffff, 0xffffffff);
    default: return own(SANDBOX, below(56));
    }
}

static unsigned long place(void) {
    switch (below(20)) {
    case 0: return ROOT * 1ul << 32 | slot_address();
    case 1: return own(SANDBOX, 21) << 32 | PICK(0, 1, 255, own(1, 2));
    case 2: return in_root(PICK(0, ROOT, own(SANDBOX, 21)), PICK(0, 1, 64, SANDBOX, SANDBOX + 1, 255, 256, 1000));
    case 3: return PICK(-1ul, 0, 1ul << 63, random_word(), slot_address() << 32 | slot_address());
    default: return slot_address();
    }
}

static unsigned long word(void) {
    switch (below(6)) {
    case 0: return random_word() >> below(64);
    case 1: return PICK(-1ul, 1ul << 63, 0x7fffffff, 0xffffffff, 0x80000000, 1ul << 47, 0x7fffe0001000);
    case 2: return place();
    default: return below(100);
    }
}

static unsigned long size(void) {
    return PICK(PAGE * below(8), PAGE, 16384, 0, 1, 4095, -PAGE, 1ul << 63, 2 << 20, random_word());
}

// Kinds of arguments by label: Place, Type, Size, Count, Entry, Flags, paRt, Word.
static const char *const shapes[LABELS] = {
    [COPY] = "P", [MINT] = "PFW", [MOVE] = "P", [RETYPE] = "TSSCP", [DELETE] = "", [REVOKE] = "",
    [NO_OP] = "", [COMPARE] = "P", [RETYPE_MANY] = "PRRRRRRR", [RESIZE] = "P", [NEW_ID] = "P",
    [COLLECT_CYCLES] = "", [PERF_INFO] = "", [PERF_PROGRAM] = "CW", [PERF_READ] = "C",
    [IDENTIFY] = "", [COPY_RANGE] = "PCT", [DELETE_RANGE] = "C", [RETYPE_COPY] = "SPSP",
    [MAP] = "ECPSFP", [MAP_MANY] = "ECPFP", [PROTECT] = "ECF", [PROTECT_MANY] = "CF", [UNMAP] = "ECP",
    [READ_ENTRY] = "E", [CALL] = "WWWWWWPP", [REPLY_RECV] = "WWWWWWPPP", [POLL] = "W",
    [REPLY] = "WWWWWWP", [NOTIFY] = "W", [CONFIGURE] = "PPPWPC", [START] = "", [SUSPEND] = "",
    [CONTINUE] = "", [YIELD] = "", [WAIT] = "", [SET_TIMER] = "W", [SET_FS_BASE] = "W", [USAGE] = "",
    [SHUTDOWN] = "W", [LOG] = "CWWWWW", [COLLECT] = "", [READ_COUNTER] = "C", [CHECK_INVARIANTS] = "",
    [NOTIFY_RECLAIMED] = "W", [PORT_IN] = "WC", [PORT_OUT] = "WCW", [PORT_OUT_BYTES] = "WCWWWWW",
    [IRQ_BIND] = "WP", [IRQ_ACK] = "",
};

static unsigned long argument(char kind) {
    if (below(25) == 0) return random_word() >> below(64);
    switch (kind) {
    case 'P': return place();
    case 'T': return below(22);
    case 'S': return size();
    case 'C': return PICK(1, 1, 1, 2, 3, below(20), 255, 256, 512, 0, -1ul);
    case 'E': return PICK(below(512), below(8), 0, 511, 512, -1ul);
    case 'F': return below(32);
    // A part of a RetypeMany: mostly something small, often nothing.
    case 'R': return below(3) ? 0 : below(256) | (1ul + below(4)) << 26 | (1ul + below(3)) << 46 | (unsigned long)below(22) << 58;
    default: return word();
    }
}

// What blocks or ends the child at once is tried less often, so that the rest is tried at all.
static int is_final(unsigned label) {
    return label == WAIT || label == REPLY_RECV || label == SUSPEND || label == CALL;
}

static int is_deadly(unsigned label) {
    return label == DELETE || label == REVOKE || label == DELETE_RANGE || label == MOVE || label == CONFIGURE;
}

// Cycles: CNodes into each other and into themselves, which at the end only they can reach.
static void make_cycles(void) {
    for (unsigned i = 0; i < 2 + below(4); i++) {
        // The two L2CNodes of the sandbox go to root slots; the sandbox's own is there already.
        unsigned node = 22 + below(2), at = SANDBOX + 1 + below(4);
        INVOKE(COPY, own(SANDBOX, node), in_root(0, at));
        INVOKE(PICK(COPY, MOVE), own(SANDBOX, node), own(PICK(at, SANDBOX), below(256)));
        INVOKE(COPY, PICK(ROOT, DISPATCHER, own(SANDBOX, 21), in_root(0, SANDBOX)), own(at, below(256)));
        if (below(2)) INVOKE(DELETE, in_root(0, at), 0);
    }
}

static void one_invocation(void) {
    unsigned label = below(LABELS);
    while (shapes[label] == NULL) label = below(LABELS);
    if (is_final(label) && below(12)) label = PICK(MAP, RETYPE, COPY, UNMAP, IDENTIFY);
    unsigned long target = place(), arguments[9];
    if (is_deadly(label) && below(10)) target = own(SANDBOX, below(56));
    if (is_final(label) && label != CALL && below(2)) target = own(SANDBOX, below(56));
    if (label == CALL && below(2)) target = PICK(MEMD, UNIXD);
    const char *shape = shapes[label];
    for (int i = 0; i < 9; i++) arguments[i] = argument(*shape ? *shape++ : 'W');
    // The control plane does what a process may ask for, such as killing others: not here.
    if (label == CALL && (arguments[0] & 0xffff) == 9) arguments[0]++;
    unsigned long rax = label;
    if (below(4) == 0) rax |= PICK(1, 2, 4, 5, 255) << 16;
    // An answer to itself would put capabilities elsewhere, too.
    if (label == REPLY || label == REPLY_RECV) rax &= 0xffff;
    if (below(50) == 0) rax = LABELS + (random_word() >> below(64)) % 65000;
    if ((rax & 0xffff) == CALL && (arguments[0] & 0xffff) == 9) return;
    invoke(rax, target, arguments);
}

static void child(unsigned long seed, long number) {
    state = (seed * 1000003 + number + 1) * 0x9e3779b97f4a7c15 | 1;
    for (int i = 0; i < 8; i++) random_word();
    volatile char stack[8 * PAGE];
    for (unsigned i = 0; i < sizeof stack; i += PAGE) stack[i] = 0;
    tracing = getenv("TRACE") != NULL;
    make_sandbox();
    for (int i = 0; i < CALLS; i++) {
        if (i % 100 == 50) make_cycles();
        one_invocation();
    }
    _exit(0);
}

// What every child inherits: a large region, a small one, and each page says which it is.
enum { HEIRLOOM = 700 };
static volatile unsigned long *heirloom;

static void make_heirloom(void) {
    heirloom = pages(HEIRLOOM, PROT_READ | PROT_WRITE);
    for (long page = 0; page < HEIRLOOM; page++) heirloom[page * (PAGE / 8)] = page * 7919;
}

// The first page that is not as it was, or -1. Some are written to again, and are the parent's then.
static long spoilt(long round) {
    for (long page = 0; page < HEIRLOOM; page++) {
        volatile unsigned long *at = heirloom + page * (PAGE / 8);
        if (*at != page * 7919ul) return page;
        if (page % 5 == round % 5) *at = page * 7919;
    }
    return -1;
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Waits for the child, and kills it when it does nothing any more; 0 if it cannot even be killed.
static int reaped(pid_t pid) {
    long start = milliseconds(), changed = start, done = 0, killed = 0;
    while (waitpid(pid, NULL, WNOHANG) != pid) {
        long now = milliseconds();
        if (last->done != done) done = last->done, changed = now;
        if (now - changed > (done ? STUCK_AFTER_MS : START_MS)) {
            if (!killed) killed = now, kill(pid, SIGKILL);
            if (now - killed > GIVE_UP_AFTER_MS) return 0;
        }
        usleep(1000);
    }
    return 1;
}

static long free_memory(void) {
    char text[4096];
    int fd = open("/proc/tessera/memory", O_RDONLY);
    long length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length < 0 ? 0 : length] = 0;
    char *at = strstr(text, "free ");
    return at ? atol(at + 5) : 0;
}

static void map_report(void) {
    int fd = open("/tmp/fuzz_caps", O_RDWR | O_CREAT, 0600);
    ftruncate(fd, PAGE);
    last = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (last == MAP_FAILED) perror("mmap"), exit(99);
}

static void show_last(const char *what, long number, unsigned long seed) {
    printf("FAILED: child %ld of seed %lu %s; last invocation:", number, seed, what);
    for (int i = 0; i < 11; i++) printf(" %#lx", last->words[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    map_report();
    unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    long children = argc > 2 ? atol(argv[2]) : 150, first = argc > 3 ? atol(argv[3]) : 0;
    if (argc > 4) child(seed, first);
    make_heirloom();
    long before = 0, done = 0, accepted = 0, warm = first + (children > 40 ? 20 : 0);
    char number[24];
    for (long i = first; i < first + children; i++) {
        if (i == warm) before = free_memory();
        last->done = last->accepted = 0;
        pid_t pid = fork();
        if (pid < 0) {
            printf("FAILED: fork for child %ld: errno %d\n", i, errno);
            return 1;
        }
        if (pid == 0 && i % 2) child(seed, i);
        if (pid == 0) {
            snprintf(number, sizeof number, "%ld", i);
            execl("/proc/self/exe", argv[0], argc > 1 ? argv[1] : "1", "1", number, "child", NULL);
            _exit(1);
        }
        if (!reaped(pid)) {
            show_last("cannot be reaped", i, seed);
            return 1;
        }
        if (spoilt(i) >= 0) {
            show_last("has changed its parent's memory", i, seed);
            return 1;
        }
        done += last->done, accepted += last->accepted;
    }
    if (children > 1000) printf("seed %lu: %ld invocations, %ld accepted\n", seed, done, accepted);
    long lost = before - free_memory();
    for (int i = 0; i < 50 && lost > STOCK; i++) usleep(20000), lost = before - free_memory();
    unlink("/tmp/fuzz_caps");
    if (lost > STOCK) printf("FAILED: %ld bytes lost\n", lost);
    int enough = accepted > children * 20 && accepted > done / 100;
    if (!enough) printf("FAILED: only %ld of %ld invocations accepted\n", accepted, done);
    if (lost <= STOCK && enough) printf("passed\n");
    return 0;
}
