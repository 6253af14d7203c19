// Futexes that have an owner: the word, errors, turns, ends of owners, requeueing; mutexes of pthreads.
// oracle: linux
// cores: 4
#include "test.h"
#include <pthread.h>
#include <time.h>

// musl has no <linux/futex.h>.
enum {
    FUTEX_WAIT, FUTEX_WAKE, FUTEX_REQUEUE = 3, FUTEX_LOCK_PI = 6, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI,
    FUTEX_WAIT_REQUEUE_PI = 11, FUTEX_CMP_REQUEUE_PI, FUTEX_LOCK_PI2, FUTEX_PRIVATE = 128, FUTEX_CLOCK_REALTIME = 256,
};
#define WAITERS 0x80000000u
#define OWNER_DIED 0x40000000u

static uint32_t word, target;
static volatile uint32_t order;

static long futex(uint32_t *at, int op, uint32_t value, const void *fourth, uint32_t *second, uint32_t third) {
    return syscall(SYS_futex, at, op | FUTEX_PRIVATE, value, fourth, second, third);
}
static uint32_t tid(void) { return syscall(SYS_gettid); }

// The same for what others answer with output of their own: they are waited for first.
#define SHOW_AFTER(e, ...)                                             \
    do {                                                               \
        long value_ = (e);                                             \
        int error_ = errno;                                            \
        __VA_ARGS__;                                                   \
        printf("%s = %ld", #e, value_);                                \
        printf(value_ == -1 ? ", errno %d\n" : "\n", error_);          \
    } while (0)

// A word without the numbers that are different each time.
static void show(const char *what, uint32_t value, uint32_t owner) {
    printf("%s: %s%s%s\n", what, value & WAITERS ? "waiters " : "", value & OWNER_DIED ? "died " : "",
           (value & 0x3fffffff) == 0 ? "free" : (value & 0x3fffffff) == owner ? "owned" : "another's");
}

static struct timespec in(clockid_t clock, long ms) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ms * 1000000;
    while (time.tv_nsec >= 1000000000) time.tv_nsec -= 1000000000, time.tv_sec++;
    return time;
}

static pthread_t start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, argument);
    usleep(50000);
    return thread;
}
static long end(pthread_t thread) {
    void *result;
    pthread_join(thread, &result);
    return (long)result;
}

static void end_all(pthread_t *threads, int count) {
    long results[4];
    for (int i = 0; i < count; i++) results[i] = end(threads[i]);
    for (int i = 0; i < count; i++) printf("result %ld\n", results[i]);
}

static void errors(void) {
    struct timespec soon = {0, 1}, bad = {0, 1000000000};
    word = 0;
    SHOW(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_LOCK_PI, 0, &bad, NULL, 0));
    SHOW(futex(&word, FUTEX_LOCK_PI, 0, (void *)8, NULL, 0));
    SHOW(futex((uint32_t *)((char *)&word + 2), FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    SHOW(futex((uint32_t *)4096, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_LOCK_PI | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_LOCK_PI, 0, &soon, NULL, 0));
    show("taken", word, tid());
    SHOW(futex(&word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    show("given up", word, tid());
    word = OWNER_DIED;
    SHOW(futex(&word, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
    show("of a dead owner", word, tid());
    SHOW(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    show("given up", word, tid());
    word = 0x3ffffff0;
    SHOW(futex(&word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    word = 0;
}

static void *lock_and_say(void *argument) {
    long result = futex(&word, FUTEX_LOCK_PI, 0, NULL, NULL, 0) ? errno : 0;
    order = order * 10 + (uint32_t)(long)argument;
    show("handed over", word, tid());
    result += futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) ? errno : 0;
    return (void *)result;
}
static void *lock_until(void *argument) {
    int two = argument != NULL;
    struct timespec soon = in(two ? CLOCK_MONOTONIC : CLOCK_REALTIME, 30);
    return (void *)(long)(futex(&word, two ? FUTEX_LOCK_PI2 : FUTEX_LOCK_PI, 0, &soon, NULL, 0) ? errno : 0);
}
static void *try(void *argument) {
    return (void *)(long)(futex(&word, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0) ? errno : 0);
}
static void *unlock(void *argument) {
    return (void *)(long)(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) ? errno : 0);
}
static void *wait_plainly(void *argument) {
    return (void *)(long)(futex(&word, FUTEX_WAIT, word, NULL, NULL, 0) ? errno : 0);
}

static void turns(void) {
    pthread_t threads[4];
    word = tid();
    printf("another tries: %ld\n", end(start(try, NULL)));
    show("after that", word, tid());
    printf("another unlocks: %ld\n", end(start(unlock, NULL)));
    printf("until it is too late: %ld %ld\n", end(start(lock_until, NULL)), end(start(lock_until, &word)));
    for (long i = 1; i <= 3; i++) threads[i] = start(lock_and_say, (void *)i);
    show("waited for", word, tid());
    SHOW(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_REQUEUE, 1, (void *)1, &target, 0));
    SHOW_AFTER(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0), end_all(threads + 1, 3));
    printf("order %u\n", order);
    show("at the end", word, tid());
    // Whoever waits in another way is not waited with.
    word = tid();
    threads[0] = start(wait_plainly, NULL);
    printf("with a plain waiter: %ld\n", end(start(lock_until, NULL)));
    SHOW(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0));
    end(threads[0]);
    word = 0;
}

static volatile int handled;
static void on_signal(int signal) { handled++; }
static void *lock_once(void *argument) {
    return (void *)(long)(futex(&word, FUTEX_LOCK_PI, 0, NULL, NULL, 0) ? errno : 0);
}

// A handler does not end the wait; the end of an owner does.
static void ends(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    word = tid();
    pthread_t thread = start(lock_and_say, (void *)4);
    pthread_kill(thread, SIGUSR1);
    usleep(50000);
    printf("handled %d\n", handled);
    SHOW_AFTER(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0), printf("result %ld\n", end(thread)));
    word = 0;
    end(start(lock_once, NULL));
    show("of an ended thread", word, 0);
    SHOW(futex(&word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    word = 0;
}

static void *own_and_end(void *argument) {
    futex(&word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    usleep(100000);
    return NULL;
}
static void end_with_waiters(void) {
    word = 0;
    pthread_t thread = start(own_and_end, NULL);
    SHOW(futex(&word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    show("inherited", word, tid());
    SHOW(futex(&word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    end(thread);
    word = 0;
}

static uint32_t cond;
static volatile int woken;
static void *wait_requeue(void *argument) {
    long *times = argument;
    struct timespec soon = in(CLOCK_MONOTONIC, times ? *times : 20000);
    if (futex(&cond, FUTEX_WAIT_REQUEUE_PI, 0, &soon, &target, 0)) return (void *)(long)errno;
    printf("%d is the owner: %d\n", __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST), (target & 0x3fffffff) == tid());
    return (void *)(long)(futex(&target, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) ? errno : 0);
}

static void requeues(void) {
    pthread_t threads[4];
    long soon = 30, later = 150;
    cond = target = 0;
    SHOW(futex(&cond, FUTEX_WAIT_REQUEUE_PI, 1, NULL, &target, 0));
    SHOW(futex(&cond, FUTEX_WAIT_REQUEUE_PI, 0, NULL, &cond, 0));
    SHOW(futex(&cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &cond, 0));
    SHOW(futex(&cond, FUTEX_CMP_REQUEUE_PI, 2, (void *)1, &target, 0));
    SHOW(futex(&cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &target, 1));
    SHOW(futex(&cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &target, 0));
    printf("too late: %ld\n", end(start(wait_requeue, &soon)));
    // The target is free: the first is its owner at once.
    for (int i = 0; i < 3; i++) threads[i] = start(wait_requeue, NULL);
    SHOW(futex(&cond, FUTEX_WAKE, 1, NULL, NULL, 0));
    SHOW(futex(&cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &word, 0));
    SHOW_AFTER(futex(&cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)10, &target, 0), end_all(threads, 3));
    show("target", target, tid());
    // It is not: they wait for it, one until it is too late.
    futex(&target, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    for (int i = 0; i < 2; i++) threads[i] = start(wait_requeue, NULL);
    threads[2] = start(wait_requeue, &later);
    SHOW(futex(&cond, FUTEX_CMP_REQUEUE_PI, 1, (void *)10, &target, 0));
    show("target", target, tid());
    printf("result %ld\n", end(threads[2]));
    SHOW_AFTER(futex(&target, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0), end_all(threads, 2));
    show("target", target, tid());
}

static pthread_mutex_t mutex;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long counter, turn;

static void make(pthread_mutex_t *at, int type, int robust, int shared) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    int inherits = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (shared) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    int made = pthread_mutex_init(at, &attributes);
    if (inherits || made) printf("protocol %d, init %d\n", inherits, made);
}

static void *count(void *argument) {
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}
static void *take_turns(void *argument) {
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 4 != (long)argument) pthread_cond_wait(&condition, &mutex);
        turn++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}
static void *lock_and_end(void *argument) {
    pthread_mutex_lock(&mutex);
    usleep((long)argument);
    return NULL;
}
static void *try_mutex(void *argument) {
    struct timespec soon = in(CLOCK_REALTIME, 20);
    int tried = pthread_mutex_trylock(&mutex);
    return (void *)(long)(1000 * tried + pthread_mutex_timedlock(&mutex, &soon));
}

static void mutexes(void) {
    pthread_t threads[4];
    make(&mutex, PTHREAD_MUTEX_NORMAL, 0, 0);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 4; i++) end(threads[i]);
    printf("counter %ld\n", counter);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, take_turns, (void *)i);
    for (int i = 0; i < 4; i++) end(threads[i]);
    printf("turns %ld\n", turn);
    pthread_mutex_lock(&mutex);
    printf("another: %ld\n", end(start(try_mutex, NULL)));
    SHOW(pthread_mutex_unlock(&mutex));
    make(&mutex, PTHREAD_MUTEX_ERRORCHECK, 0, 0);
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    make(&mutex, PTHREAD_MUTEX_RECURSIVE, 0, 0);
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    // Owners that end: before somebody waits, and while somebody does.
    for (long ms = 0; ms <= 100; ms += 100) {
        make(&mutex, PTHREAD_MUTEX_NORMAL, 1, 0);
        threads[0] = start(lock_and_end, (void *)(ms * 1000));
        SHOW(pthread_mutex_lock(&mutex));
        SHOW(pthread_mutex_consistent(&mutex));
        SHOW(pthread_mutex_unlock(&mutex));
        SHOW(pthread_mutex_lock(&mutex));
        SHOW(pthread_mutex_unlock(&mutex));
        end(threads[0]);
    }
}

static void between_processes(void) {
    struct { pthread_mutex_t mutex; long count; } *both =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make(&both->mutex, PTHREAD_MUTEX_NORMAL, 0, 1);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            for (int j = 0; j < 1000; j++) {
                pthread_mutex_lock(&both->mutex);
                both->count++;
                pthread_mutex_unlock(&both->mutex);
            }
            _exit(0);
        }
    for (int i = 0; i < 4; i++) wait(NULL);
    printf("count %ld\n", both->count);
    struct timespec soon = in(CLOCK_REALTIME, 20);
    pthread_mutex_lock(&both->mutex);
    if (fork() == 0) _exit(pthread_mutex_timedlock(&both->mutex, &soon));
    int status;
    wait(&status);
    printf("another process: %d\n", WEXITSTATUS(status));
    SHOW(pthread_mutex_unlock(&both->mutex));
    for (int waits = 0; waits < 2; waits++) {
        make(&both->mutex, PTHREAD_MUTEX_NORMAL, 1, 1);
        if (fork() == 0) {
            pthread_mutex_lock(&both->mutex);
            usleep(waits * 150000);
            _exit(0);
        }
        usleep(70000);
        SHOW(pthread_mutex_lock(&both->mutex));
        SHOW(pthread_mutex_consistent(&both->mutex));
        SHOW(pthread_mutex_unlock(&both->mutex));
        wait(NULL);
    }
}

int main(void) {
    errors();
    turns();
    ends();
    end_with_waiters();
    requeues();
    mutexes();
    between_processes();
    return 0;
}
