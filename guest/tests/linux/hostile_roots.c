// A process asks the server to give it a larger root: with none, with something else, with one of the
// wrong size, with one that others have too or that is in use, and twice. Each time it is refused and
// goes on. One that has made very many copies of its root would keep the server busy, and is ended.
//
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"

enum { OP_GROW_ROOT = 83, MOVED = 1 << 24, USER = 1000 };
enum { SMALL_ROOT = 4096, ROOT_BYTES = 16384, LARGE_ROOT = 32768 };
// Slots of the own node.
enum { MEMORY = 20, GIVEN = 30, SECOND, OTHER, COPIES };
// More than an honest process could ever need, and than the server waits for.
enum { NODES = 16, NODE_BYTES = 16384 };

static volatile long *shared;
static int failures;

#define EXPECT(what, ...)                                   \
    do {                                                    \
        if (!(what)) failures++, printf("FAILED: " __VA_ARGS__), printf("\n"); \
    } while (0)

static int make(unsigned slot, unsigned type, unsigned long bytes) {
    unsigned long ram = own(RAW_NODE, MEMORY);
    if (!raw_make_ram(ram, bytes)) return 0;
    long made = INVOKE(RETYPE, ram, type, 0, bytes, 1, own(RAW_NODE, slot));
    INVOKE(DELETE, ram, 0);
    return made == 0;
}

// Sends so many capabilities, moved; answers the error.
static long grow(unsigned count) {
    unsigned long label = CALL | (unsigned long)count << 16 | MOVED;
    long called = INVOKE(label, raw_keeper(), OP_GROW_ROOT, 0, 0, 0, 0, raw_thread(), own(RAW_NODE, GIVEN), 0);
    long error = called ? -1 : (long)raw_results[0];
    INVOKE(DELETE, own(RAW_NODE, GIVEN), 0);
    INVOKE(DELETE, own(RAW_NODE, SECOND), 0);
    return error;
}

#define REFUSED(error, count, what)                                     \
    do {                                                                \
        long got = grow(count);                                         \
        if (got != error) printf("FAILED: " what ": %ld\n", got), shared[0]++; \
    } while (0)
#define MADE(slot, type, bytes) \
    do if (!make(slot, type, bytes)) _exit(3); while (0)

static void forge(void) {
    unsigned long given = own(RAW_NODE, GIVEN), other = own(RAW_NODE, OTHER);
    REFUSED(EINVAL, 0, "no capability");
    MADE(GIVEN, L1, ROOT_BYTES);
    MADE(SECOND, L1, ROOT_BYTES);
    REFUSED(EINVAL, 2, "two");
    MADE(GIVEN, FRAME_TYPE, ROOT_BYTES);
    REFUSED(EINVAL, 1, "a Frame");
    INVOKE(COPY, UNIXD, given);
    REFUSED(EINVAL, 1, "an Endpoint");
    INVOKE(COPY, ROOT, given);
    REFUSED(EPERM, 1, "the own root");
    MADE(GIVEN, L1, SMALL_ROOT);
    REFUSED(EINVAL, 1, "as small as before");
    MADE(GIVEN, L1, LARGE_ROOT);
    REFUSED(EINVAL, 1, "too large");
    MADE(GIVEN, L1, ROOT_BYTES);
    INVOKE(COPY, given, other);
    REFUSED(EPERM, 1, "shared");
    // Alone, but without the right to revoke it.
    MADE(OTHER + 1, L1, ROOT_BYTES);
    INVOKE(MINT, own(RAW_NODE, OTHER + 1), given, 255 & ~RIGHT_REVOKE, 0);
    INVOKE(DELETE, own(RAW_NODE, OTHER + 1), 0);
    REFUSED(EPERM, 1, "without the right to revoke it");
    MADE(GIVEN, L1, ROOT_BYTES);
    INVOKE(COPY, in_root(0, RAW_NODE), in_root(given, 7));
    REFUSED(EINVAL, 1, "not empty");
    // None of these has changed anything.
    if (INVOKE(IDENTIFY, in_root(0, 200), 0) != NO_SLOT) printf("FAILED: it has grown\n"), shared[0]++;
    MADE(GIVEN, L1, ROOT_BYTES);
    REFUSED(0, 1, "as it should be");
    if (INVOKE(IDENTIFY, in_root(0, 200), 0) != EMPTY) printf("FAILED: it has not grown\n"), shared[0]++;
    MADE(GIVEN, L1, ROOT_BYTES);
    REFUSED(EINVAL, 1, "a second time");
    if (getppid() != shared[1]) printf("FAILED: it is not what it was\n"), shared[0]++;
}

// Copies of the own root, in CNodes that no other CSpace leads to.
static int copy_root(void) {
    unsigned long root = own(RAW_NODE, COPIES), ram = own(RAW_NODE, MEMORY);
    MADE(COPIES, L1, SMALL_ROOT);
    for (unsigned node = 1; node <= NODES; node++) {
        if (!raw_make_ram(ram, NODE_BYTES)) return 0;
        if (INVOKE(RETYPE, ram, L2, 0, NODE_BYTES, 1, in_root(root, node))) return 0;
        INVOKE(DELETE, ram, 0);
        for (unsigned slot = 0; slot < 256; slot++)
            if (INVOKE(COPY, ROOT, within(root, own(node, slot)))) return 0;
    }
    return 1;
}

static void make_many(void) {
    if (!copy_root()) _exit(4);
    MADE(GIVEN, L1, ROOT_BYTES);
    shared[2] = 1;
    shared[3] = grow(1);
}

// The child acts in its parent's domain, and asks for that.
static void make_many_as_child(void) {
    if (!copy_root()) _exit(4);
    MADE(GIVEN, L1, ROOT_BYTES);
    if (vfork() == 0) {
        shared[2] = 1;
        shared[3] = grow(1);
        _exit(0);
    }
}

static int in_child(void (*body)(void)) {
    fflush(stdout);
    shared[2] = 0, shared[3] = -2;
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(USER) || !raw_make_node()) _exit(2);
        body();
        _exit(0);
    }
    int status = -1;
    if (waitpid(pid, &status, 0) != pid) return -1;
    return status;
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[1] = getpid();
    int status = in_child(forge);
    EXPECT(status == 0 && shared[0] == 0, "the forger ends with %#x", status);
    status = in_child(make_many);
    EXPECT(shared[2] == 1, "the copies could not be made");
    EXPECT(status == SIGKILL, "who has many copies ends with %#x, answered %ld", status, shared[3]);
    status = in_child(make_many_as_child);
    EXPECT(shared[2] == 1, "the copies could not be made");
    EXPECT(status == SIGKILL, "who has many copies and a child ends with %#x, answered %ld", status, shared[3]);
    // An honest one, afterwards.
    status = in_child(forge);
    EXPECT(status == 0 && shared[0] == 0, "the second forger ends with %#x", status);
    if (!failures) printf("passed\n");
    return 0;
}
