// Timers that a program makes: by which signal they tell, to which thread, with what, how often, and that they go with the program.
// oracle: linux
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
#define SHOW(call) show(#call, (long)(call))
static void show(const char *what, long result) {
    if (result < 0) printf("%s = %ld, errno %d\n", what, result, errno);
    else printf("%s = %ld\n", what, result);
}

static volatile sig_atomic_t count, code, value;
static volatile pid_t by;
static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    count++, code = info->si_code, value = info->si_value.sival_int, by = syscall(SYS_gettid);
}

static struct itimerspec after(long ms, long period) {
    return (struct itimerspec){ { period / 1000, period % 1000 * 1000000 }, { ms / 1000, ms % 1000 * 1000000 } };
}

static void *other(void *argument) {
    *(pid_t *)argument = syscall(SYS_gettid);
    while (!count) usleep(1000);
    return NULL;
}

static void notified(union sigval what) { value = what.sival_int, count++; }

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    timer_t usual, own, thread;
    SHOW(timer_create(99, NULL, &usual));
    struct sigevent event = { .sigev_notify = 77, .sigev_signo = SIGUSR1 };
    SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &usual));
    event.sigev_notify = SIGEV_SIGNAL, event.sigev_signo = 65;
    SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &usual));
    SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, (void *)8));
    SHOW(timer_create(CLOCK_REALTIME, NULL, &usual));
    event.sigev_signo = SIGUSR1, event.sigev_value.sival_int = 1234;
    SHOW(timer_create(CLOCK_MONOTONIC, &event, &own));
    struct itimerspec set = after(20, 0), old;
    SHOW(timer_settime(usual, 0, &set, NULL));
    while (!count) pause();
    printf("usual: code %d\n", code);
    SHOW(timer_gettime(usual, &old));
    printf("over: %ld %ld\n", old.it_value.tv_sec, old.it_value.tv_nsec);
    count = 0;
    set = after(10, 10);
    SHOW(timer_settime(own, 0, &set, NULL));
    while (count < 3) pause();
    printf("three times: code %d value %d\n", code, value);
    set = after(0, 0);
    SHOW(timer_settime(own, 0, &set, &old));
    printf("it was on: %d period %ld\n", old.it_value.tv_nsec > 0, old.it_interval.tv_nsec);
    // While it is blocked, it counts.
    sigset_t blocked;
    sigemptyset(&blocked), sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    set = after(1000000, 0);
    SHOW(timer_settime(own, 0, &set, NULL));
    timer_gettime(own, &old);
    printf("long: %d\n", old.it_value.tv_sec > 990);
    // At a time.
    count = 0;
    clock_gettime(CLOCK_MONOTONIC, &set.it_value);
    set.it_value.tv_nsec += 20000000;
    if (set.it_value.tv_nsec >= 1000000000) set.it_value.tv_nsec -= 1000000000, set.it_value.tv_sec++;
    SHOW(timer_settime(own, TIMER_ABSTIME, &set, NULL));
    siginfo_t info;
    SHOW(sigwaitinfo(&blocked, &info) == SIGUSR1);
    printf("waited: code %d value %d overrun %d\n", info.si_code, info.si_value.sival_int, timer_getoverrun(own));
    set.it_value.tv_sec = 1;
    SHOW(timer_settime(own, TIMER_ABSTIME, &set, NULL));
    SHOW(sigwaitinfo(&blocked, &info) == SIGUSR1);
    set.it_value.tv_nsec = 1000000000;
    SHOW(timer_settime(own, 0, &set, NULL));
    SHOW(syscall(SYS_timer_settime, 77777, 0, &set, NULL));

    pid_t tid = 0;
    pthread_t it;
    count = 0;
    pthread_create(&it, NULL, other, &tid);
    while (!*(volatile pid_t *)&tid) usleep(1000);
    event = (struct sigevent){ .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 55 };
    event.sigev_notify_thread_id = tid;
    SHOW(timer_create(CLOCK_BOOTTIME, &event, &thread));
    set = after(10, 0);
    SHOW(timer_settime(thread, 0, &set, NULL));
    pthread_join(it, NULL);
    printf("the thread: %d value %d\n", by == tid, value);
    SHOW(timer_delete(thread));
    count = 0;
    event = (struct sigevent){ .sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 66, .sigev_notify_function = notified };
    SHOW(timer_create(CLOCK_MONOTONIC, &event, &thread));
    SHOW(timer_settime(thread, 0, &set, NULL));
    while (!count) usleep(1000);
    printf("a function: %d\n", value);
    SHOW(timer_delete(thread));
    // A child has none.
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        SHOW(syscall(SYS_timer_gettime, usual, &old));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    SHOW(timer_delete(own));
    SHOW(syscall(SYS_timer_delete, (int)(long)own));
    return 0;
}
