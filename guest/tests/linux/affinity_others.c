// Cores of other threads and processes: set from outside, told, kept by what they start and execute, refused to who may not.
// oracle: linux
// cores: 2
#define _GNU_SOURCE
#include "must.h"
#include <pthread.h>
#include <sched.h>

static unsigned long cores_of(pid_t tid) {
    unsigned long mask[16] = {0};
    long bytes = syscall(SYS_sched_getaffinity, tid, sizeof mask, mask);
    return bytes < 0 ? 0 : mask[0] & 3;
}
static long set(pid_t tid, unsigned long mask) {
    return syscall(SYS_sched_setaffinity, tid, sizeof mask, &mask) < 0 ? -errno : 0;
}

static int to[2], from[2];
static char reads_byte(int fd) {
    char byte = 0;
    MUST(read(fd, &byte, 1) == 1);
    return byte;
}
static void writes_byte(int fd) { MUST(write(fd, "x", 1) == 1); }

// What it runs on, and what its child, its thread and a program that it executes have.
static void *in_thread(void *result) {
    *(unsigned long *)result = cores_of(0);
    return NULL;
}
static int told(const char *self) {
    unsigned long own = cores_of(0), thread = 0, status = 0;
    unsigned core;
    pthread_t other;
    syscall(SYS_getcpu, &core, NULL, NULL);
    printf("own %lu, there: %d", own, (int)(own >> core & 1));
    MUST(pthread_create(&other, NULL, in_thread, &thread) == 0 && pthread_join(other, NULL) == 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(cores_of(0));
    waitpid(pid, (int *)&status, 0);
    printf(", of a thread %lu, of a child %lu\n", thread, (status >> 8) & 0xff);
    fflush(stdout);
    if (self) execl(self, self, "executed", NULL);
    return 0;
}

static pid_t tids[2];
static void *waits(void *unused) {
    tids[0] = syscall(SYS_gettid);
    writes_byte(from[1]);
    reads_byte(to[0]);
    tids[1] = cores_of(0);
    return unused;
}

int main(int argc, char **argv) {
    if (argc > 1) return told(NULL);
    MUST(pipe(to) == 0 && pipe(from) == 0);
    MUST(set(0, 3) == 0);
    pid_t child = fork();
    if (child == 0) {
        writes_byte(from[1]);
        reads_byte(to[0]);
        _exit(told(argv[0]));
    }
    reads_byte(from[0]);
    printf("before: %lu\n", cores_of(child));
    printf("none: %ld, none that there is: %ld\n", set(child, 0), set(child, 1ul << 60));
    printf("nobody: %ld %ld\n", set(999999, 1), set(-1, 1));
    printf("set: %ld", set(child, 2));
    printf(", told: %lu\n", cores_of(child));
    writes_byte(to[1]);
    int status;
    waitpid(child, &status, 0);
    printf("status %x, own: %lu\n", status, cores_of(0));
    // A thread beside.
    pthread_t other;
    MUST(pthread_create(&other, NULL, waits, NULL) == 0);
    reads_byte(from[0]);
    printf("beside: %ld", set(tids[0], 1));
    printf(", told: %lu\n", cores_of(tids[0]));
    writes_byte(to[1]);
    pthread_join(other, NULL);
    printf("as it sees it: %d, own: %lu\n", tids[1], cores_of(0));
    // Another user's.
    fflush(stdout);
    child = fork();
    if (child == 0) {
        MUST(setgid(1000) == 0 && setuid(1000) == 0);
        printf("another's: %ld, told: %lu\n", set(getppid(), 1), cores_of(getppid()));
        printf("nobody: %ld, own: %ld\n", set(999999, 1), set(0, 1));
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) pause();
        printf("of its own: %ld, none: %ld", set(pid, 2), set(pid, 0));
        printf(", told: %lu\n", cores_of(pid));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        // Set while it begins, and has its parent's still to take.
        int kept = 0;
        for (int n = 0; n < 100; n++) {
            int go[2];
            MUST(pipe(go) == 0);
            pid = fork();
            if (pid == 0) {
                char byte;
                close(go[1]);
                MUST(read(go[0], &byte, 1) == 0);
                _exit(cores_of(0));
            }
            MUST(set(pid, 2) == 0);
            close(go[0]), close(go[1]);
            waitpid(pid, &status, 0);
            kept += status == 2 << 8;
        }
        printf("while they begin: %d\n", kept);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("status %x, own: %lu\n", status, cores_of(0));
    return 0;
}
