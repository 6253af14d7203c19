// Another user asks the server about pages that leave memory: pages that somebody has locked stay, nobody's pages leave for more
// memory than there is, what is locked in very many pieces is refused, and nobody is ended because somebody says that he has found no memory.
//
// build: gcc
// mem: 96M
// swap: 128M
// timeout: 200
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"

enum { OP_WIRE = 205, OP_MAKE_MEMORY = 206, OP_RELIEVE = 256, USER = 1000, PIECES = 4096 };
#define MIB (1ul << 20)
#define LOCKED (16 * MIB)

static int failures;

#define EXPECT(what, ...)                                   \
    do {                                                    \
        if (!(what)) failures++, printf("FAILED: " __VA_ARGS__), printf("\n"); \
    } while (0)

static int all_there(char *at, size_t bytes) {
    static unsigned char there[LOCKED / 4096];
    if (mincore(at, bytes, there)) return 0;
    for (size_t page = 0; page < bytes / 4096; page++)
        if (!(there[page] & 1)) return 0;
    return 1;
}

static int ended(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

static void attack(void) {
    setresgid(USER, USER, USER), setresuid(USER, USER, USER);
    EXPECT(REQUEST(OP_OPEN, "/tmp/locked", 0, O_RDONLY) == 0, "it can be read");
    unsigned long desc = raw_results[1];
    REQUEST(OP_WIRE, NULL, desc, 0, LOCKED / 4096, 0);
    REQUEST(OP_WIRE, NULL, desc, 0, ~0ul, 0);
    EXPECT(REQUEST(OP_MAKE_MEMORY, NULL, ~0ul) == ENOMEM, "all memory there is");
    EXPECT(REQUEST(OP_MAKE_MEMORY, NULL, 1ul << 40) == ENOMEM, "more than there is");
    // There is some.
    for (unsigned long tries = 0; tries < 200; tries++) {
        long error = REQUEST(OP_RELIEVE, NULL, tries % 3, tries);
        EXPECT(error == 0 || error == ENOMEM, "no memory, %lu times: %ld", tries, error);
    }
    // Its own.
    int fd = memfd_create("own", 0);
    char *at = ftruncate(fd, 64 * MIB) ? MAP_FAILED : mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT(at != MAP_FAILED, "own memory");
    strcpy(at, "text");
    char name[32];
    sprintf(name, "/proc/self/fd/%d", fd);
    EXPECT(REQUEST(OP_OPEN, name, 0, O_RDWR) == 0, "own file");
    desc = raw_results[1];
    for (unsigned long n = 0; n < 2 * PIECES; n++)
        EXPECT(REQUEST(OP_WIRE, NULL, desc, 2 * n, 0, 1) == 0, "no pages are locked: %lu", n);
    unsigned long n = 0;
    long error = 0;
    while (n < 2 * PIECES && (error = REQUEST(OP_WIRE, NULL, desc, 2 * (n + 1), 1, 1)) == 0) n++;
    EXPECT(error == ENOMEM && n == PIECES, "%lu pieces: %ld", n, error);
    EXPECT(REQUEST(OP_WIRE, NULL, desc, 0, ~0ul, 0) == 0, "all of it may leave again");
    EXPECT(REQUEST(OP_WIRE, NULL, desc, 0, ~0ul, 1) == 0, "all of it stays");
    _exit(failures);
}

// More than there is.
static void press(void) {
    char *at = mmap(NULL, 96 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 2; round++)
        for (size_t page = 0; page < 96 * MIB / 4096; page++) at[page * 4096] = round + 1;
    _exit(at[5 * MIB] != 2);
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) return printf("passed\n"), 0;
    int fd = open("/tmp/locked", O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(fd, LOCKED);
    char *at = mmap(NULL, LOCKED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(at, 7, LOCKED);
    EXPECT(mlock(at, LOCKED) == 0 && all_there(at, LOCKED), "locked");
    pid_t child = fork();
    if (child == 0) attack();
    EXPECT(ended(child), "the other user");
    child = fork();
    if (child == 0) press();
    EXPECT(ended(child), "who needs memory");
    EXPECT(all_there(at, LOCKED), "what was locked has left");
    // A lock goes with its process.
    munlock(at, LOCKED);
    child = fork();
    if (child == 0) _exit(mlock(at, LOCKED) != 0);
    EXPECT(ended(child), "who locks, and ends");
    child = fork();
    if (child == 0) press();
    EXPECT(ended(child), "who needs memory again");
    EXPECT(!all_there(at, LOCKED), "who has ended locks still");
    for (size_t page = 0; page < LOCKED / 4096; page++)
        if (at[page * 4096] != 7) failures++;
    if (!failures) printf("passed\n");
    return 0;
}
