// Two that compute on one core share it as their nice values and policies say: processes, programs and threads.
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

enum { MS = 600 };

struct way { int policy, nice; };
static const struct way usual = { SCHED_OTHER, 0 };
static struct way way(int policy, int nice) { return (struct way){ policy, nice }; }

static volatile struct { int go; long work[2]; } *shared;

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void take(struct way way) {
    struct sched_param none = { 0 };
    pid_t tid = syscall(SYS_gettid);
    if (syscall(SYS_sched_setscheduler, tid, way.policy, &none) || setpriority(PRIO_PROCESS, tid, way.nice)) perror("way");
}

static void work(int who) {
    while (!shared->go) sched_yield();
    while (shared->go == 1)
        for (int i = 0; i < 1000; i++) shared->work[who]++;
}

struct part { int who; struct way way; };
static void *thread(void *argument) {
    struct part *part = argument;
    take(part->way);
    work(part->who);
    return NULL;
}

// The percentage of the first.
static long share(void) {
    long all = shared->work[0] + shared->work[1];
    return all ? shared->work[0] * 100 / all : -1;
}

static void begin(void) { shared->go = 0, shared->work[0] = shared->work[1] = 0; }

// Lets them work for a time, by somebody who is before them.
static void let(void) {
    long end = now_ms() + MS;
    shared->go = 1;
    while (now_ms() < end) usleep(20000);
    shared->go = 2;
}

static int memory;
static void see(void) { shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0); }

// `executes`: another program goes on, as with `nice`.
static long processes(int executes, struct way a, struct way b) {
    struct way ways[2] = { a, b };
    pid_t pids[2];
    begin();
    for (int who = 0; who < 2; who++) {
        if ((pids[who] = fork())) continue;
        take(ways[who]);
        char numbers[2][16];
        sprintf(numbers[0], "%d", memory), sprintf(numbers[1], "%d", who);
        if (executes) execl("/proc/self/exe", "nice_shares", numbers[0], numbers[1], (char *)NULL);
        else work(who);
        _exit(0);
    }
    usleep(100000);
    let();
    for (int who = 0; who < 2; who++) waitpid(pids[who], NULL, 0);
    return share();
}

static long threads(struct way a, struct way b) {
    struct part parts[2] = { { 0, a }, { 1, b } };
    pthread_t all[2];
    begin();
    for (int who = 0; who < 2; who++) pthread_create(&all[who], NULL, thread, &parts[who]);
    usleep(50000);
    let();
    for (int who = 0; who < 2; who++) pthread_join(all[who], NULL);
    return share();
}

// Who runs beside this machine takes parts of the time, now from one and now from the other: some tries.
enum { TRIES = 5 };
#define SAY(what, shares, least, most)                                 \
    do {                                                               \
        long share_ = -1;                                              \
        for (int n_ = 0; n_ < TRIES; n_++) {                           \
            share_ = shares;                                           \
            if (share_ >= (least) && share_ <= (most)) break;          \
        }                                                              \
        if (share_ >= (least) && share_ <= (most)) printf("%s: yes\n", what); \
        else printf("%s: NO, %ld %%\n", what, share_);                \
    } while (0)

int main(int count, char **arguments) {
    if (count == 3) {
        memory = atoi(arguments[1]);
        see();
        work(atoi(arguments[2]));
        return 0;
    }
    memory = memfd_create("shared", 0);
    ftruncate(memory, PAGE);
    see();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one)) perror("affinity");
    SAY("alike: half", processes(0, usual, usual), 40, 60);
    SAY("0 and 5: three quarters", processes(0, usual, way(SCHED_OTHER, 5)), 66, 84);
    SAY("5 and 0: one quarter", processes(0, way(SCHED_OTHER, 5), usual), 16, 34);
    SAY("-5 and 0: three quarters", processes(0, way(SCHED_OTHER, -5), usual), 66, 84);
    SAY("0 and 19: nearly all", processes(0, usual, way(SCHED_OTHER, 19)), 92, 100);
    SAY("15 and 19: as 36 and 15", processes(0, way(SCHED_OTHER, 15), way(SCHED_OTHER, 19)), 58, 84);
    SAY("programs, 0 and 19", processes(1, usual, way(SCHED_OTHER, 19)), 92, 100);
    SAY("batch: half", processes(0, usual, way(SCHED_BATCH, 0)), 38, 62);
    SAY("idle: nearly nothing", processes(0, usual, way(SCHED_IDLE, 0)), 93, 100);
    SAY("threads, 0 and 5", threads(usual, way(SCHED_OTHER, 5)), 66, 84);
    SAY("threads, idle and 0", threads(way(SCHED_IDLE, 0), usual), 0, 7);
    return 0;
}
