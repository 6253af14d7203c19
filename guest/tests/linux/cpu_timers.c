// Timers by clocks of processor time: of the process with all its threads, of a thread, of another process (timer_create,
// timer_settime, timer_gettime, setitimer, getitimer, clock_nanosleep), and what ends who has used too much (RLIMIT_CPU).
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
#define MS 1000000L

// How late a timer may be: two ticks, and much for whoever else works on the machine.
enum { LATE = 250 };

static volatile sig_atomic_t count, code, value, by;
static volatile long last;
static clockid_t noted = CLOCK_PROCESS_CPUTIME_ID;

static long now(clockid_t clock) {
    struct timespec t;
    if (syscall(SYS_clock_gettime, clock, &t)) return -errno;
    return t.tv_sec * 1000 + t.tv_nsec / MS;
}
static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    count++, code = info->si_code, value = info->si_value.sival_int, by = syscall(SYS_gettid), last = now(noted);
}
static void compute(long ms) {
    for (long end = now(CLOCK_THREAD_CPUTIME_ID) + ms; now(CLOCK_THREAD_CPUTIME_ID) < end;) continue;
}
static void compute_until_told(void) {
    while (!count) continue;
}
static long wall(void) { return now(CLOCK_MONOTONIC); }
static void say(const char *what, int holds, long number) {
    if (holds) printf("%s: yes\n", what);
    else printf("%s: NO, %ld\n", what, number);
}
static int within(long value, long least, long most) { return value >= least && value <= most; }

static struct itimerspec after(long ms, long period) {
    return (struct itimerspec){ { period / 1000, period % 1000 * MS }, { ms / 1000, ms % 1000 * MS } };
}
static long left_of(timer_t timer) {
    struct itimerspec set;
    if (timer_gettime(timer, &set)) return -errno;
    return set.it_value.tv_sec * 1000 + set.it_value.tv_nsec / MS;
}
static clockid_t make(int id, int kind) { return (clockid_t)(~(unsigned)id << 3 | kind); }

static void own_process(void) {
    timer_t timer;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77 };
    SHOW(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer));
    SHOW(left_of(timer));
    struct itimerspec set = after(60, 0);
    long begin = now(noted);
    SHOW(timer_settime(timer, 0, &set, NULL));
    usleep(100000);
    say("not while it sleeps", count == 0, count);
    long left = left_of(timer);
    say("most is left", within(left, 40, 60), left);
    compute_until_told();
    say("in time", within(last - begin, 59, 60 + LATE), last - begin);
    printf("code %d value %d\n", code, value);
    SHOW(left_of(timer));
    count = 0;
    set = after(20, 20);
    SHOW(timer_settime(timer, 0, &set, NULL));
    begin = now(noted);
    int ends = 0, overruns = 0, before = 0;
    while (now(noted) - begin < 290)
        if (count != before) overruns += timer_getoverrun(timer), before = count;
    ends = count + overruns;
    say("again and again", within(ends, 8, 20), ends);
    set = after(0, 0);
    struct itimerspec old;
    SHOW(timer_settime(timer, 0, &set, &old));
    say("what it was", old.it_interval.tv_nsec == 20 * MS && old.it_value.tv_nsec <= 20 * MS + 8 * MS, old.it_value.tv_nsec);
    count = 0;
    compute(40);
    say("not any more", count == 0, count);
    set = after(1, 0);
    SHOW(timer_settime(timer, TIMER_ABSTIME, &set, NULL));
    for (long end = wall() + 200; !count && wall() < end;) continue;
    say("a time that has passed", count == 1, count);
    count = 0;
    set = after(now(noted) + 50, 0);
    begin = now(noted);
    SHOW(timer_settime(timer, TIMER_ABSTIME, &set, NULL));
    compute_until_told();
    say("at a time", within(last - begin, 49, 50 + LATE), last - begin);
    fflush(stdout);
    // More than `fork` itself takes on a busy machine: the signal would end `waitpid`.
    set = after(300, 0);
    timer_settime(timer, 0, &set, NULL);
    IN_CHILD("a child has none", {
        count = 0;
        compute(350);
        printf("%d %d\n", count, timer_gettime(timer, &set) == -1 && errno == EINVAL);
    });
    SHOW(timer_delete(timer));
    count = 0;
}

static pthread_barrier_t barrier;
static volatile pid_t tid;
static volatile int works;
static void *worker(void *argument) {
    tid = syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    while (works) continue;
    pthread_barrier_wait(&barrier);
    return argument;
}

static void threads(void) {
    timer_t of_other, of_own;
    pthread_t thread;
    clockid_t clock;
    pthread_barrier_init(&barrier, NULL, 2);
    works = 1;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_barrier_wait(&barrier);
    SHOW(pthread_getcpuclockid(thread, &clock));
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
    event.sigev_notify_thread_id = syscall(SYS_gettid);
    SHOW(timer_create(clock, &event, &of_other));
    SHOW(timer_create(CLOCK_THREAD_CPUTIME_ID, NULL, &of_own));
    noted = clock;
    struct itimerspec set = after(50, 0);
    long begin = now(clock);
    SHOW(timer_settime(of_own, 0, &set, NULL));
    SHOW(timer_settime(of_other, 0, &set, NULL));
    while (!count) usleep(1000);
    say("of another thread", within(last - begin, 49, 50 + LATE), last - begin);
    SHOW(by == syscall(SYS_gettid));
    long left = left_of(of_own);
    say("the own one has not run so long", within(left, 10, 50), left);
    // The process sleeps until its threads have worked.
    struct timespec sleep = { 0, 40 * MS };
    begin = now(CLOCK_PROCESS_CPUTIME_ID);
    SHOW(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, &sleep, NULL));
    long slept = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
    say("asleep", within(slept, 39, 40 + LATE), slept);
    begin += 150;
    sleep = (struct timespec){ begin / 1000, begin % 1000 * MS };
    SHOW(syscall(SYS_clock_nanosleep, make(getpid(), 2), TIMER_ABSTIME, &sleep, NULL));
    slept = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
    say("until a time", within(slept, -1, LATE), slept);
    SHOW(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &sleep, NULL));
    SHOW(syscall(SYS_clock_nanosleep, make(0, 6), 0, &sleep, NULL));
    SHOW(syscall(SYS_clock_nanosleep, make(syscall(SYS_gettid), 6), 0, &sleep, NULL));
    works = 0;
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    usleep(20000);
    SHOW(timer_settime(of_other, 0, &set, NULL));
    SHOW(timer_delete(of_other));
    SHOW(timer_delete(of_own));
    noted = CLOCK_PROCESS_CPUTIME_ID, count = 0;
}

static void others(void) {
    timer_t timer;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        for (;;) continue;
    SHOW(timer_create(make(child, 2), NULL, &timer));
    struct itimerspec set = after(50, 0);
    long begin = now(make(child, 2));
    SHOW(timer_settime(timer, 0, &set, NULL));
    while (!count) usleep(1000);
    long used = now(make(child, 2)) - begin;
    say("of a child", within(used, 49, 50 + LATE + 10), used);
    struct timespec sleep = { 0, 30 * MS };
    SHOW(syscall(SYS_clock_nanosleep, make(child, 2), 0, &sleep, NULL));
    kill(child, SIGKILL), waitpid(child, NULL, 0);
    SHOW(syscall(SYS_timer_create, make(child, 2), NULL, &timer));
    SHOW(syscall(SYS_timer_create, make(1, 6), NULL, &timer));
    SHOW(syscall(SYS_timer_create, make(0x3fffff, 2), NULL, &timer));
    SHOW(syscall(SYS_timer_create, make(0, 3), NULL, &timer));
    count = 0;
}

static void set_interval(int which, long ms, long period) {
    struct itimerval set = { { 0, period * 1000 }, { 0, ms * 1000 } };
    if (setitimer(which, &set, NULL)) perror("setitimer");
}
static long interval_left(int which) {
    struct itimerval set;
    getitimer(which, &set);
    return set.it_value.tv_sec * 1000 + set.it_value.tv_usec / 1000;
}
static void *computes(void *argument) {
    while (works) continue;
    return argument;
}
static void intervals(void) {
    static const int which[] = { ITIMER_VIRTUAL, ITIMER_PROF };
    static const int told_by[] = { SIGVTALRM, SIGPROF };
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    for (int n = 0; n < 2; n++) {
        sigaction(told_by[n], &action, NULL);
        count = 0;
        set_interval(which[n], 60, 0);
        long begin = now(noted);
        usleep(100000);
        say("not while it sleeps", count == 0, count);
        long left = interval_left(which[n]);
        say("most is left", within(left, 40, 64), left);
        compute_until_told();
        long used = last - begin;
        say("in time", within(used, 30, 60 + LATE + 20), used);
        say("off", interval_left(which[n]) == 0, interval_left(which[n]));
        // Of both together.
        pthread_t thread;
        works = 1, count = 0;
        pthread_create(&thread, NULL, computes, NULL);
        set_interval(which[n], 100, 0);
        begin = now(noted);
        compute_until_told();
        used = last - begin;
        say("of all threads", within(used, 50, 100 + 2 * LATE + 20), used);
        works = 0;
        pthread_join(thread, NULL);
        count = 0;
    }
    set_interval(ITIMER_PROF, 10, 10);
    IN_CHILD("a child has none", {
        count = 0;
        compute(50);
        printf("%d %ld\n", count, interval_left(ITIMER_PROF));
    });
    set_interval(ITIMER_PROF, 0, 0);
}

static volatile sig_atomic_t warned;
static void on_limit(int signal) {
    (void)signal;
    warned++;
    long used = now(CLOCK_PROCESS_CPUTIME_ID);
    if (!within(used, 700, 1000 + 2 * LATE)) printf("warned at %ld\n", used);
    else printf("warned\n");
}
static void limit(void) {
    IN_CHILD("two seconds", {
        struct rlimit cpu = { 1, 2 };
        signal(SIGXCPU, on_limit);
        SHOW(setrlimit(RLIMIT_CPU, &cpu));
        for (;;) continue;
    });
}

int main(void) {
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    own_process();
    threads();
    others();
    intervals();
    limit();
    return 0;
}
