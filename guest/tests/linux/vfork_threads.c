// vfork and posix_spawn in a process that had threads, and in one that has them.
// oracle: linux
// cores: 2
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <spawn.h>

extern char **environ;
static volatile int shared;

static void *nothing(void *argument) { return argument; }

static int waited(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static int spawned(const char *path, const char *word) {
    char *arguments[] = {"vfork_threads", (char *)word, NULL};
    pid_t child = -1;
    int error = posix_spawn(&child, path, NULL, NULL, arguments, environ);
    return error ? -error : waited(child);
}

static void threads(int count) {
    pthread_t all[4];
    for (int i = 0; i < count; i++) pthread_create(&all[i], NULL, nothing, NULL);
    for (int i = 0; i < count; i++) pthread_join(all[i], NULL);
}

// One memory: what the child says, the parent hears. (Its stack is its own: nothing is returned to.)
static int child(void *argument) {
    shared = (long)argument;
    syscall(SYS_exit, 5);
    return 0;
}
static void vforks(void) {
    static char stack[65536] __attribute__((aligned(16)));
    shared = 0;
    pid_t made = vfork();
    if (!made) {
        shared = 7;
        execl("/no/such/file", "x", NULL);
        _exit(errno);
    }
    SHOW(waited(made));
    SHOW(shared);
    SHOW(waited(clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)9l)));
    SHOW(shared);
}

static void *spawn(void *argument) {
    SHOW(spawned("/proc/self/exe", "of a thread"));
    return NULL;
}

static void *spin(void *argument) {
    while (!shared) sched_yield();
    return NULL;
}

int main(int count, char **values) {
    if (count > 1) {
        printf("child: %s\n", values[1]);
        return 3;
    }
    threads(1);
    SHOW(spawned("/no/such/file", "x"));
    SHOW(spawned("/proc/self/exe", "after a thread"));
    vforks();
    threads(4);
    vforks();
    SHOW(spawned("/no/such/file", "x"));
    threads(2);
    // While there are others.
    pthread_t spinner, other;
    shared = 0;
    pthread_create(&spinner, NULL, spin, NULL);
    SHOW(spawned("/proc/self/exe", "beside a thread"));
    pthread_create(&other, NULL, spawn, NULL);
    pthread_join(other, NULL);
    shared = 1;
    pthread_join(spinner, NULL);
    SHOW(spawned("/no/such/file", "x"));
    for (int i = 0; i < 20; i++) {
        threads(1);
        if (spawned("/no/such/file", "x") != -ENOENT) printf("not found otherwise\n");
    }
    return 0;
}
