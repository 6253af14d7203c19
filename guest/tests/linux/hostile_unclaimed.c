// A process sends the server the only capability to a large tree of CNodes, with requests that do not take
// it: one that takes none at all, one that finds it to be of the wrong type, one that finds out only
// when it has configured what came. The server has to delete all of it. It does so in pieces: whoever asks
// it for something meanwhile is answered, and the sender waits until its tree is gone. A sender that
// is killed before that leaves nothing behind.
//
// At another core its stand-in answers first and deletes then, in pieces: there nobody waits who could be killed, and how long
// it takes is seen by nobody.
//
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <time.h>

enum { MOVED = 1 << 24, USER = 1000, SMALL_ROOT = 4096, LARGE_ROOT = 131072 };
// Slots of the own node.
enum { MEMORY = 20, FIRST = 30, SECOND, FRAME_SLOT };
// Capabilities in the tree: thousands of events of the kernel, of which the server does 32 at a time.
enum { NODES = 2047, NODE_BYTES = 16384, SLOTS = 256 };
// The longest request of somebody else takes at most this part of the time in which a tree is deleted. It takes
// all of it where the server deletes the whole tree before it looks at the next request.
enum { PART = 2, ATTEMPTS = 5 };

static struct shared { volatile long built, called, error, took, asked, longest, stop; } *shared;
static int failures;

#define EXPECT(what, ...)                                   \
    do {                                                    \
        if (!(what)) failures++, printf("FAILED: " __VA_ARGS__), printf("\n"); \
    } while (0)

static void make(unsigned slot, unsigned type, unsigned long bytes) {
    unsigned long ram = own(RAW_NODE, MEMORY);
    if (!raw_make_ram(ram, bytes)) _exit(3);
    if (INVOKE(RETYPE, ram, type, 0, bytes, 1, own(RAW_NODE, slot))) _exit(4);
    INVOKE(DELETE, ram, 0);
}

// A CNode of full CNodes.
static void make_tree(unsigned slot) {
    unsigned long root = own(RAW_NODE, slot), ram = own(RAW_NODE, MEMORY);
    make(slot, L1, LARGE_ROOT);
    for (unsigned node = 1; node <= NODES; node++) {
        if (!raw_make_ram(ram, NODE_BYTES)) _exit(5);
        if (INVOKE(RETYPE, ram, L2, 0, NODE_BYTES, 1, in_root(root, node))) _exit(6);
        INVOKE(DELETE, ram, 0);
        if (node > 1) {
            if (INVOKE(COPY_RANGE, within(root, own(1, 0)), within(root, own(node, 0)), SLOTS, 0)) _exit(7);
            continue;
        }
        for (unsigned at = 0; at < SLOTS; at++)
            if (INVOKE(COPY, UNIXD, within(root, own(node, at)))) _exit(8);
    }
}

static long microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void send(unsigned op, unsigned count) {
    unsigned long label = CALL | (unsigned long)count << 16 | MOVED;
    shared->built = 1;
    // Only requests that begin now count.
    for (long asked = shared->asked; shared->asked < asked + 2;) shared->longest = 0;
    long from = microseconds();
    long called = INVOKE(label, raw_keeper(), op, 0, 0, 0, 0, raw_thread(), own(RAW_NODE, FIRST), 0);
    shared->took = microseconds() - from;
    // The request that was there at the end counts, too.
    for (long asked = shared->asked; shared->asked < asked + 2;) usleep(1000);
    shared->error = called ? -1 : (long)raw_results[0];
    shared->called = 1;
}

static void with_one_that_takes_none(void) {
    make_tree(FIRST);
    send(OP_GET_PGID, 1);
}

static void of_a_wrong_type(void) {
    make_tree(FIRST);
    make(SECOND, L1, SMALL_ROOT);
    send(OP_REPLACE, 2);
}

// The root of the CSpace is full, so that the server finds no room for the domain's own capabilities.
static void found_out_late(void) {
    make(FIRST, DISP, 4096);
    make_tree(SECOND);
    send(OP_REPLACE, 2);
}

static pid_t start(void (*body)(void)) {
    shared->built = shared->called = 0, shared->error = -2;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(USER) || !raw_make_node()) _exit(2);
        body();
        _exit(0);
    }
    return pid;
}

// The host may take the processor away for a while: a few attempts.
static void attack(const char *what, void (*body)(void), long error) {
    for (int attempt = 1;; attempt++) {
        int status = -1;
        waitpid(start(body), &status, 0);
        EXPECT(status == 0 && shared->called, "%s: the sender ends with %#x", what, status);
        EXPECT(shared->error == error, "%s: answered %ld", what, shared->error);
        long took = shared->took, longest = shared->longest;
        if (raw_keeper() != UNIXD || longest * PART <= took) return;
        if (attempt < ATTEMPTS) continue;
        EXPECT(0, "%s: another waited for %ld us of %ld", what, longest, took);
        return;
    }
}

static void kill_while_it_waits(void) {
    int status = -1;
    for (int attempt = 0; attempt < ATTEMPTS && status != SIGKILL; attempt++) {
        pid_t pid = start(with_one_that_takes_none);
        while (!shared->built) usleep(1000);
        // Until the server has begun.
        for (long from = shared->asked; shared->asked < from + 8 && !shared->called;) usleep(100);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    EXPECT(status == SIGKILL, "the one that was killed ends with %#x, answered %ld", status, shared->error);
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t other = fork();
    if (other == 0) {
        // Its own request each time, and one for which the server deletes a capability of its own.
        int ends[2];
        while (!shared->stop) {
            long from = microseconds();
            getpgid(getppid());
            if (shared->asked % 2 && pipe(ends) == 0) close(ends[0]), close(ends[1]);
            // Who rests comes before who works, as the server does for others. It is the server that ends the rest.
            usleep(500);
            long took = microseconds() - from;
            if (took > shared->longest) shared->longest = took;
            shared->asked++;
        }
        _exit(0);
    }
    attack("no capability is taken", with_one_that_takes_none, EINVAL);
    attack("the wrong type", of_a_wrong_type, EINVAL);
    attack("found out late", found_out_late, EINVAL);
    if (raw_keeper() == UNIXD) kill_while_it_waits();
    shared->stop = 1;
    int status = -1;
    waitpid(other, &status, 0);
    EXPECT(status == 0, "the other process ends with %#x", status);
    if (!failures) printf("passed\n");
    return 0;
}
