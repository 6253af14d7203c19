// Programs that never stop computing, with the highest real-time priority, on all cores: the system goes on. Who may not have one gets
// none, by system calls, by requests of its own, or of the kernel. Many that change how they are scheduled all the time, and are killed.
//
// cores: 4
// build: gcc
// expect-stdout: passed\n
#include "must.h"
#include "raw.h"
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

enum { LOOPS = 6, CROWD = 240, USER = 1000, OP_SCHEDULE = 250, SET_NICE = 1, SET_POLICY = 3, SET_SCHEDULE = 157 };

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static int set_policy(pid_t pid, int policy, int priority) {
    struct sched_param param = { priority };
    return syscall(SYS_sched_setscheduler, pid, policy, &param) ? errno : 0;
}

// What somebody without a priority wants done.
static void live(const char *when) {
    long begin = now_ms();
    for (int n = 0; n < 2; n++) {
        int pipes[2], status;
        char byte = 0;
        MUST(pipe(pipes) == 0);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            int file = open("/tmp/alive", O_RDWR | O_CREAT, 0600);
            _exit(file < 0 || write(file, "x", 1) != 1 || write(pipes[1], "x", 1) != 1);
        }
        MUST(read(pipes[0], &byte, 1) == 1 && byte == 'x');
        MUST(waitpid(child, &status, 0) == child && status == 0);
        close(pipes[0]), close(pipes[1]);
        usleep(1000);
    }
    if (now_ms() - begin > 20000) printf("%s: %ld ms\n", when, now_ms() - begin);
}

static pid_t pids[CROWD];
static void end_all(int count) {
    for (int n = 0; n < count; n++) kill(pids[n], SIGKILL);
    for (int n = 0; n < count; n++) MUST(waitpid(pids[n], NULL, 0) == pids[n]);
}

static void loops(int policy, int calls) {
    for (int n = 0; n < LOOPS; n++) {
        pids[n] = fork();
        MUST(pids[n] >= 0);
        if (pids[n]) continue;
        MUST(set_policy(0, policy, 99) == 0);
        for (;;)
            if (calls) sched_yield(), getppid(), access("/", R_OK);
    }
    usleep(100000);
    live("beside loops");
    end_all(LOOPS);
}

// A user who has no right to it. `other` is root's.
static void user(pid_t other) {
    MUST(setgid(USER) == 0 && setuid(USER) == 0);
    MUST(set_policy(0, SCHED_FIFO, 1) == EPERM && set_policy(0, SCHED_RR, 99) == EPERM);
    MUST(set_policy(other, SCHED_BATCH, 0) == EPERM && set_policy(other, SCHED_FIFO, 9) == EPERM);
    MUST(setpriority(PRIO_PROCESS, 0, -1) == -1 && errno == EACCES);
    MUST(setpriority(PRIO_PROCESS, other, 19) == -1 && errno == EPERM);
    // The library is not asked.
    MUST(REQUEST(OP_SCHEDULE, 0, SET_POLICY, 0, 0, SCHED_FIFO | 1ul << 32, 0) == EPERM);
    MUST(REQUEST(OP_SCHEDULE, 0, SET_POLICY, 0, other, SCHED_BATCH, 0) == EPERM);
    MUST(REQUEST(OP_SCHEDULE, 0, SET_POLICY, 0, 0, SCHED_FIFO | 200ul << 32, 0) == EINVAL);
    MUST(REQUEST(OP_SCHEDULE, 0, SET_NICE, 0, 0, -20l, 0) == EACCES);
    MUST(REQUEST(OP_SCHEDULE, 0, SET_NICE, 0, other, 19, 0) == EPERM);
    MUST(REQUEST(OP_SCHEDULE, 0, 77, 0, 0, 0, 0) != 0);
    // Nor is `unixd`: nobody else has the kernel, and what stands in its place is none.
    for (unsigned long kernel = 0; kernel < 64; kernel++)
        MUST(INVOKE(SET_SCHEDULE, DISPATCHER, kernel, 99, 0, 0) != DONE);
    MUST(sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == 0);
    MUST(sched_getscheduler(other) == SCHED_OTHER && getpriority(PRIO_PROCESS, other) == 0);
}

// All of them change themselves and each other as they like.
static void crowd(void) {
    for (int n = 0; n < CROWD; n++) {
        pids[n] = fork();
        MUST(pids[n] >= 0);
        if (pids[n]) continue;
        unsigned random = n * 2654435761u + 1;
        for (;;) {
            random = random * 1103515245 + 12345;
            unsigned pick = random >> 16;
            pid_t whom = pick & 1 ? 0 : pids[pick / 2 % (n + 1)];
            if (pick % 7 == 0) set_policy(whom, pick % 3 ? SCHED_OTHER : SCHED_FIFO, pick % 3 ? 0 : 1 + pick % 99);
            else if (pick % 7 == 1) set_policy(whom, SCHED_IDLE, 0);
            else if (pick % 7 == 2) set_policy(whom, SCHED_RR, 1 + pick % 99);
            else setpriority(PRIO_PROCESS, whom, (int)(pick % 40) - 20);
            for (volatile int spin = 0; spin < 2000; spin++) continue;
        }
    }
    live("in a crowd");
    end_all(CROWD);
}

int main(void) {
    pid_t other = fork();
    MUST(other >= 0);
    if (other == 0)
        for (;;) pause();
    loops(SCHED_FIFO, 0);
    loops(SCHED_RR, 1);
    int status;
    pid_t child = fork();
    if (child == 0) {
        user(other);
        exit(0);
    }
    MUST(waitpid(child, &status, 0) == child && status == 0);
    crowd();
    live("afterwards");
    kill(other, SIGKILL), waitpid(other, NULL, 0);
    printf("passed\n");
    return 0;
}
