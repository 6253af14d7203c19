// Futexes in memory that others share: a user does not wake who waits there, nor wait there itself and so
// take a wake away from those who do, nor learn who they are. Nor does it learn where in the machine's
// memory things are.
//
// build: gcc
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <linux/futex.h>
#include <time.h>

enum { USER = 1000, INODES = 400, WORD = 16 };

static int failures;
static void check(const char *what, long got, long expected) {
    if (got != expected) printf("FAILED: %s: %ld, not %ld\n", what, got, expected), failures++;
}

static volatile int *shared;
// The user has that open.
static unsigned long own_program;
static long futex(int op, int value, const struct timespec *timeout) {
    return syscall(SYS_futex, shared + WORD / sizeof(int), op, value, timeout, NULL, 0);
}

static void hostile(void) {
    setresgid(USER, USER, USER), setresuid(USER, USER, USER);
    munmap((void *)shared, PAGE);
    long found = 0, woken = 0, waited = 0;
    for (unsigned long inode = 0; inode < INODES; inode++) {
        if (inode == own_program) continue;
        if (REQUEST(OP_FUTEX_FIRST, NULL, inode, WORD) == 0 && raw_results[1] != 0) found++;
        // In front of all others, for half a millisecond each.
        if (REQUEST(OP_FUTEX_COUNT, NULL, 0) == 0 &&
            REQUEST(OP_FUTEX_WAIT, NULL, inode, WORD, raw_results[1], 500000, -1u) != EACCES)
            waited++;
        if (REQUEST(OP_FUTEX_WAKE, NULL, inode, WORD, 100, -1u) == 0) woken += raw_results[1];
    }
    check("found", found, 0);
    check("woken", woken, 0);
    check("waited", waited, 0);
    int fd = open("/proc/tessera/capabilities", O_RDONLY);
    check("sees the machine's memory", fd == -1 ? errno : 0, EACCES);
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    struct stat program;
    stat("/proc/self/exe", &program);
    own_program = program.st_ino;
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t waiter = fork();
    if (waiter == 0) {
        struct timespec long_time = {20, 0};
        shared[0] = 1;
        long result = futex(FUTEX_WAIT, 0, &long_time);
        // Woken by who may, after the word was changed.
        _exit(result != 0 || shared[1] != 1);
    }
    while (!shared[0]) usleep(1000);
    usleep(20000);
    pid_t user = fork();
    if (user == 0) {
        hostile();
        fflush(stdout);
        _exit(failures != 0);
    }
    int status;
    waitpid(user, &status, 0);
    check("the user's process", status, 0);
    shared[1] = 1;
    check("wakes", futex(FUTEX_WAKE, 1, NULL), 1);
    waitpid(waiter, &status, 0);
    check("the one that waited", status, 0);
    check("open", access("/proc/tessera/capabilities", R_OK), 0);
    int fd = open("/proc/tessera/capabilities", O_RDONLY);
    check("the administrator sees it", fd >= 0, 1);
    if (!failures) printf("passed\n");
    return 0;
}
