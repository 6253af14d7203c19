// The cores that a thread may run on stay those in the program that it executes: from the first thread and from another, at homes on
// any core, in a program that runs as somebody else, and in a child.
//
// build: gcc, musl
// cores: 4
// kernel: homes=3
// expect-stdout: first: 0x4 on 2\nanother: 0x2 on 1\nas somebody else: 0x2 on 1\nspawned: 0x8 on 3\nanywhere: 0xf\n
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <spawn.h>

static unsigned long mask(void) {
    unsigned long cores = 0;
    return syscall(SYS_sched_getaffinity, 0, sizeof cores, &cores) > 0 ? cores : 0;
}

static void run_on(unsigned long cores) {
    if (syscall(SYS_sched_setaffinity, 0, sizeof cores, &cores)) exit(9);
}

static void say(const char *who) {
    printf("%s: %#lx on %d\n", who, mask(), sched_getcpu());
    fflush(stdout);
}

static void execute(const char *program, const char *stage) {
    execl(program, program, stage, NULL);
    exit(8);
}

static void *another(void *nothing) {
    run_on(2);
    execute("/proc/self/exe", "2");
    return nothing;
}

int main(int count, char **args) {
    static char as_other[] = "/tmp/as_other";
    char stage = count > 1 ? args[1][0] : '0';
    if (stage == '0') {
        run_on(4);
        execute("/proc/self/exe", "1");
    }
    if (stage == '1') {
        say("first");
        pthread_t thread;
        pthread_create(&thread, NULL, another, NULL);
        for (;;) pause();
    }
    if (stage == '2') {
        say("another");
        // Set-user-id of somebody else.
        char copy[64];
        snprintf(copy, sizeof copy, "cp /proc/%d/exe %s", getpid(), as_other);
        if (system(copy) || chown(as_other, 12, 12) || chmod(as_other, 04755)) exit(7);
        execute(as_other, "3");
    }
    if (stage == '3') {
        if (geteuid() != 12) exit(6);
        say("as somebody else");
        run_on(8);
        char *argv[] = {as_other, "4", NULL};
        pid_t pid;
        if (posix_spawn(&pid, as_other, NULL, NULL, argv, NULL)) exit(5);
        waitpid(pid, NULL, 0);
        run_on(~0ul);
        execute(as_other, "5");
    }
    if (stage == '4') say("spawned");
    if (stage == '5') printf("anywhere: %#lx\n", mask());
    return 0;
}
