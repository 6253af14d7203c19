// Who runs when somebody has a real-time policy, on one core: the highest priority at once, also on waking up; equal ones first come
// first, or in turns; and that others still get something.
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST = 4000 };
static volatile struct {
    int length;
    char text[MOST];
    int go;
    long work;
} *shared;

static void note(char what) {
    int at = __sync_fetch_and_add(&shared->length, 1);
    if (at < MOST) shared->text[at] = what;
}
static void tell(const char *what) { printf("%s: %.*s\n", what, shared->length, (char *)shared->text), shared->length = 0; }

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static long used_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static void compute(long ms) {
    for (long end = used_ms() + ms; used_ms() < end;) continue;
}

static void take(int policy, int priority) {
    struct sched_param param = { priority };
    if (syscall(SYS_sched_setscheduler, 0, policy, &param)) perror("sched_setscheduler");
}

// Children that wait for a byte of their own before they do something.
enum { WAITERS = 4 };
static int pipes[WAITERS][2];
static pid_t pids[WAITERS];
static void waiter(int which, int policy, int priority, void (*act)(char), char name) {
    pipe(pipes[which]);
    if ((pids[which] = fork())) return;
    take(policy, priority);
    char byte;
    read(pipes[which][0], &byte, 1);
    act(name);
    _exit(0);
}
static void let(int which) { write(pipes[which][1], "", 1); }
static void done(int count) {
    for (int which = 0; which < count; which++) {
        waitpid(pids[which], NULL, 0);
        close(pipes[which][0]), close(pipes[which][1]);
    }
}

static void once(char name) { note(name); }
static void twice(char name) {
    note(name);
    compute(60);
    note(name);
}
static void yields(char name) {
    for (int i = 0; i < 3; i++) note(name), sched_yield();
}
// Each of its turns once.
static void in_turns(char name) {
    for (long end = used_ms() + 350; used_ms() < end;)
        if (shared->length == 0 || shared->text[shared->length - 1] != name) note(name);
}

static void order(void) {
    waiter(0, SCHED_FIFO, 10, once, 'a');
    waiter(1, SCHED_FIFO, 30, once, 'b');
    waiter(2, SCHED_RR, 20, once, 'c');
    waiter(3, SCHED_OTHER, 0, once, 'd');
    usleep(50000);
    for (int which = WAITERS; which-- > 0;) let(which);
    note('-');
    done(4);
    tell("by priority");
    waiter(0, SCHED_FIFO, 10, twice, 'a');
    waiter(1, SCHED_FIFO, 10, twice, 'b');
    usleep(50000);
    let(0), let(1);
    note('-');
    done(2);
    tell("first come, first served");
    waiter(0, SCHED_FIFO, 10, yields, 'a');
    waiter(1, SCHED_FIFO, 10, yields, 'b');
    usleep(50000);
    let(0), let(1);
    done(2);
    tell("giving way");
    waiter(0, SCHED_RR, 10, in_turns, 'a');
    waiter(1, SCHED_RR, 10, in_turns, 'b');
    usleep(50000);
    let(0), let(1);
    done(2);
    printf("turns: %s\n", shared->length >= 6 && shared->length <= 12 ? "some" : "NOT SO");
    shared->length = 0;
}

// The one that is woken runs before who has woken it goes on.
static void waking(void) {
    waiter(0, SCHED_FIFO, 10, once, 'w');
    usleep(50000);
    take(SCHED_OTHER, 0);
    let(0);
    note('-');
    take(SCHED_FIFO, 90);
    done(1);
    tell("woken by a pipe");
    waiter(0, SCHED_OTHER, 0, once, 'w');
    usleep(50000);
    let(0);
    compute(40);
    note('-');
    done(1);
    tell("the other way round");
}

static void sleeper(char name) {
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        note(name);
    }
}
static void spinner(char name) {
    note(name);
    while (shared->go) shared->work++;
    note(name);
}
static void from_sleep(void) {
    shared->go = 1;
    waiter(0, SCHED_FIFO, 20, sleeper, 's');
    waiter(1, SCHED_FIFO, 10, spinner, '=');
    usleep(20000);
    let(1), let(0);
    usleep(200000);
    shared->go = 0;
    done(2);
    tell("woken by a timer");
}

// While one runs, those without a priority do not; in the long run they do nevertheless.
static void others(void) {
    shared->go = 1, shared->work = 0;
    waiter(0, SCHED_OTHER, 0, spinner, 'o');
    usleep(20000);
    let(0);
    usleep(20000);
    long before = shared->work;
    compute(300);
    CHECK(shared->work == before);
    for (long end = now_ms() + 2200; now_ms() < end;) continue;
    CHECK(shared->work > before);
    shared->go = 0;
    done(1);
    shared->length = 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static int open_for;
static void *of_thread(void *argument) {
    int priority = (int)(long)argument;
    take(SCHED_FIFO, priority);
    pthread_mutex_lock(&lock);
    while (!open_for) pthread_cond_wait(&wanted, &lock);
    pthread_mutex_unlock(&lock);
    note('0' + priority);
    return NULL;
}
static void threads(void) {
    pthread_t all[3];
    for (long which = 0; which < 3; which++) pthread_create(&all[which], NULL, of_thread, (void *)(which + 3));
    usleep(50000);
    pthread_mutex_lock(&lock), open_for = 1, pthread_cond_broadcast(&wanted), pthread_mutex_unlock(&lock);
    note('-');
    for (int which = 0; which < 3; which++) pthread_join(all[which], NULL);
    tell("threads");
}

int main(void) {
    shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one)) perror("affinity");
    take(SCHED_FIFO, 90);
    order();
    waking();
    from_sleep();
    others();
    threads();
    return 0;
}
