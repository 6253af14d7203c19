// Signals and threads: masks of their own, who takes a signal, sigwait, cancellation.
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <time.h>

static __thread int number = 0;
static volatile int taker[65], count[65], code[65];
static volatile int ready, stop;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)context;
    // Who waits for the count reads the others then.
    taker[signal] = number, code[signal] = info->si_code, count[signal]++;
}

static void mask(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}

static void until(volatile int *value, int wanted) {
    for (int i = 0; i < 3000 && *value < wanted; i++) usleep(1000);
}

static void *sleeper(void *argument) {
    number = (long)argument;
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!stop) usleep(1000000);
    return NULL;
}

static void *spinner(void *argument) {
    number = (long)argument;
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!stop) {}
    return NULL;
}

static void directed(void) {
    pthread_t threads[3];
    ready = stop = 0;
    pthread_create(&threads[0], NULL, sleeper, (void *)1l);
    pthread_create(&threads[1], NULL, spinner, (void *)2l);
    until(&ready, 2);
    for (int i = 0; i < 2; i++) {
        int before = count[SIGUSR1];
        SHOW(pthread_kill(threads[i], SIGUSR1));
        until(&count[SIGUSR1], before + 1);
        printf("taken by %d, count %d, code %d\n", taker[SIGUSR1], count[SIGUSR1], code[SIGUSR1]);
    }
    SHOW(raise(SIGUSR1));
    printf("taken by %d, count %d\n", taker[SIGUSR1], count[SIGUSR1]);
    // The first thread blocks it: another takes what is for the process.
    mask(SIG_BLOCK, SIGUSR2);
    SHOW(kill(getpid(), SIGUSR2));
    until(&count[SIGUSR2], 1);
    printf("taken by another: %d, count %d, code %d\n", taker[SIGUSR2] > 0, count[SIGUSR2], code[SIGUSR2]);
    // What is for this thread waits.
    SHOW(pthread_kill(pthread_self(), SIGUSR2));
    sigset_t set;
    sigpending(&set);
    printf("pending %d, count %d\n", sigismember(&set, SIGUSR2), count[SIGUSR2]);
    mask(SIG_UNBLOCK, SIGUSR2);
    printf("taken by %d, count %d\n", taker[SIGUSR2], count[SIGUSR2]);
    SHOW(syscall(SYS_tgkill, getpid(), getpid() + 1000, 0));
    SHOW(syscall(SYS_tgkill, getpid(), getpid(), 0));
    SHOW(syscall(SYS_tgkill, getpid() + 1000, getpid(), 0));
    SHOW(syscall(SYS_tgkill, 0, getpid(), 0));
    SHOW(syscall(SYS_tkill, 0, 0));
    SHOW(syscall(SYS_tgkill, getpid(), getpid(), 65));
    stop = 1;
    pthread_kill(threads[0], SIGUSR1);
    for (int i = 0; i < 2; i++) SHOW(pthread_join(threads[i], NULL));
}

static void *waiter(void *argument) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    int signal = 0;
    number = (long)argument;
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    sigwait(&set, &signal);
    return (void *)(long)(signal - SIGRTMIN);
}

static void waiting(void) {
    pthread_t thread;
    void *result;
    mask(SIG_BLOCK, SIGRTMIN);
    ready = 0;
    pthread_create(&thread, NULL, waiter, (void *)3l);
    until(&ready, 1);
    usleep(20000);
    SHOW(kill(getpid(), SIGRTMIN));
    pthread_join(thread, &result);
    printf("got %ld\n", (long)result);
    // Sent before anybody waits.
    kill(getpid(), SIGRTMIN);
    pthread_create(&thread, NULL, waiter, (void *)3l);
    pthread_join(thread, &result);
    printf("got %ld\n", (long)result);
    // To a thread that waits.
    ready = 0;
    pthread_create(&thread, NULL, waiter, (void *)3l);
    until(&ready, 1);
    SHOW(pthread_kill(thread, SIGRTMIN));
    pthread_join(thread, &result);
    printf("got %ld\n", (long)result);
}

// musl calls this with a stack that printf cannot use, where a thread is cancelled at any point.
static void cleanup(void *argument) { if ((long)argument < 4) printf("cleaned up %ld\n", (long)argument); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *cancelled(void *argument) {
    pthread_cleanup_push(cleanup, argument);
    switch ((long)argument) {
    case 0: usleep(10000000); break;
    case 1: {
        int ends[2];
        char byte;
        pipe(ends);
        read(ends[0], &byte, 1);
        break;
    }
    case 2:
        pthread_mutex_lock(&mutex);
        pthread_cond_wait(&cond, &mutex);
        break;
    case 3:
        for (;;) pthread_testcancel();
        break;
    case 4:
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        for (;;) stop = 1;
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void cancelling(void) {
    for (long i = 0; i < 5; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, cancelled, (void *)i);
        usleep(20000);
        usleep(0);
        // The thread may run at once, elsewhere: it speaks after this one.
        flockfile(stdout);
        printf("cancel %d\n", pthread_cancel(thread));
        funlockfile(stdout);
        pthread_join(thread, &result);
        printf("cancelled %d\n", result == PTHREAD_CANCELED);
    }
}

// An alternate stack is the thread's own.
static volatile int on_own;
static char *low;
static void on_alternate(int signal) {
    char here;
    on_own = &here >= low && &here < low + 65536;
}
static void *alternate(void *argument) {
    stack_t old, stack = {.ss_sp = low, .ss_size = 65536};
    sigaltstack(NULL, &old);
    printf("at first: %s\n", old.ss_flags == SS_DISABLE ? "none" : "one");
    sigaltstack(&stack, NULL);
    raise(SIGURG);
    return NULL;
}

static void stacks(void) {
    char *own = malloc(65536);
    low = malloc(65536);
    stack_t stack = {.ss_sp = own, .ss_size = 65536};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_alternate, .sa_flags = SA_ONSTACK};
    sigaction(SIGURG, &action, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, alternate, NULL);
    pthread_join(thread, NULL);
    printf("on its own stack: %d\n", on_own);
    raise(SIGURG);
    printf("on the other's: %d\n", on_own);
}

static void *fault(void *argument) {
    *(volatile int *)8 = 1;
    return NULL;
}
static void *killer(void *argument) {
    kill(getpid(), SIGTERM);
    pause();
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    directed();
    waiting();
    cancelling();
    stacks();
    pthread_t thread;
    IN_CHILD("fault in a thread", pthread_create(&thread, NULL, fault, NULL), pause());
    IN_CHILD("kill by a thread", pthread_create(&thread, NULL, killer, NULL), pthread_join(thread, NULL));
    return 0;
}
