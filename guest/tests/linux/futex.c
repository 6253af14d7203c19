// futex: errors, timeouts, bit sets, requeueing, operations; shared between processes; robust lists.
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <time.h>

// musl has no <linux/futex.h>.
enum {
    FUTEX_WAIT, FUTEX_WAKE, FUTEX_REQUEUE = 3, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_WAIT_BITSET = 9,
    FUTEX_WAKE_BITSET, FUTEX_PRIVATE = 128, FUTEX_CLOCK_REALTIME = 256,
    FUTEX_WAIT_PRIVATE = FUTEX_WAIT | FUTEX_PRIVATE,
    FUTEX_WAKE_PRIVATE = FUTEX_WAKE | FUTEX_PRIVATE,
    FUTEX_CMP_REQUEUE_PRIVATE = FUTEX_CMP_REQUEUE | FUTEX_PRIVATE,
    FUTEX_WAKE_OP_PRIVATE = FUTEX_WAKE_OP | FUTEX_PRIVATE,
    FUTEX_WAIT_BITSET_PRIVATE = FUTEX_WAIT_BITSET | FUTEX_PRIVATE,
    FUTEX_WAKE_BITSET_PRIVATE = FUTEX_WAKE_BITSET | FUTEX_PRIVATE,
};
enum { FUTEX_OP_SET, FUTEX_OP_ADD, FUTEX_OP_ANDN = 3 };
enum { FUTEX_OP_CMP_EQ, FUTEX_OP_CMP_LT = 2, FUTEX_OP_CMP_GT = 4 };
#define FUTEX_OP(op, arg, cmp, against) \
    ((op) << 28 | (cmp) << 24 | ((arg) & 0xfff) << 12 | ((against) & 0xfff))

static uint32_t word, other;

static long futex(uint32_t *at, int op, uint32_t value, const void *fourth, uint32_t *second, uint32_t third) {
    return syscall(SYS_futex, at, op, value, fourth, second, third);
}

static void on_signal(int signal) { (void)signal; }

static void errors(void) {
    struct timespec soon = {0, 10000000}, bad = {0, 1000000000}, negative = {-1, 0};
    word = 7;
    SHOW(futex(&word, FUTEX_WAIT, 8, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_WAIT_PRIVATE, 7, &soon, NULL, 0));
    SHOW(futex(&word, FUTEX_WAIT, 7, &soon, NULL, 0));
    SHOW(futex(&word, FUTEX_WAIT, 7, &bad, NULL, 0));
    SHOW(futex(&word, FUTEX_WAIT, 7, &negative, NULL, 0));
    SHOW(futex(&word, FUTEX_WAIT, 7, (void *)8, NULL, 0));
    SHOW(futex((uint32_t *)((char *)&word + 1), FUTEX_WAIT, 7, NULL, NULL, 0));
    SHOW(futex((uint32_t *)4096, FUTEX_WAIT, 7, NULL, NULL, 0));
    SHOW(futex((uint32_t *)((char *)&word + 2), FUTEX_WAKE, 1, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_WAIT_BITSET, 7, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_WAKE_BITSET, 7, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_WAIT_BITSET, 7, &soon, NULL, 1));
    SHOW(futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 7, &soon, NULL, 1));
    SHOW(futex(&word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, 0));
    SHOW(futex(&word, 77, 1, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1, &other, 8));
    SHOW(futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1, &other, 7));
    SHOW(futex(&word, FUTEX_CMP_REQUEUE, -1, (void *)1, &other, 7));
    SHOW(futex(&word, FUTEX_REQUEUE, 1, (void *)1, (uint32_t *)((char *)&other + 1), 0));
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGALRM, &action, NULL);
    ualarm(20000, 0);
    SHOW(futex(&word, FUTEX_WAIT, 7, NULL, NULL, 0));
    struct timespec later = {5, 0};
    ualarm(20000, 0);
    SHOW(futex(&word, FUTEX_WAIT, 7, &later, NULL, 0));
}

static void *wait_one(void *argument) {
    return (void *)futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}
static void *wait_bits(void *argument) {
    return (void *)futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uint32_t)(long)argument);
}

static pthread_t start(void *(*body)(void *), long argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, (void *)argument);
    usleep(30000);
    return thread;
}

static void wakes(void) {
    pthread_t threads[5];
    void *result;
    word = other = 0;
    for (int i = 0; i < 5; i++) threads[i] = start(wait_one, 0);
    SHOW(futex(&word, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, &other, 0));
    SHOW(futex(&other, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
    SHOW(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
    for (int i = 0; i < 5; i++) {
        pthread_join(threads[i], &result);
        printf("woken: %ld\n", (long)result);
    }
    threads[0] = start(wait_bits, 1), threads[1] = start(wait_bits, 2), threads[2] = start(wait_bits, 3);
    SHOW(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 4));
    SHOW(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 2));
    SHOW(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    threads[0] = start(wait_one, 0), threads[1] = start(wait_one, 0);
    other = 5;
    SHOW(futex(&other, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word, FUTEX_OP(FUTEX_OP_SET, 3, FUTEX_OP_CMP_GT, 0)));
    printf("word %u\n", word);
    SHOW(futex(&other, FUTEX_WAKE_OP_PRIVATE, 1, (void *)5, &word, FUTEX_OP(FUTEX_OP_ADD, 9, FUTEX_OP_CMP_EQ, 3)));
    printf("word %u\n", word);
    SHOW(futex(&other, FUTEX_WAKE_OP_PRIVATE, 1, (void *)5, &word, FUTEX_OP(FUTEX_OP_ANDN, 4, FUTEX_OP_CMP_LT, -1)));
    printf("word %u\n", word);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void shared(void) {
    uint32_t *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    struct timespec soon = {0, 10000000};
    SHOW(futex(at, FUTEX_WAIT, 0, &soon, NULL, 0));
    SHOW(futex(at, FUTEX_WAIT, 1, NULL, NULL, 0));
    for (int i = 0; i < 3; i++)
        if (fork() == 0) _exit(futex(at, FUTEX_WAIT, 0, NULL, NULL, 0) ? 1 : 40 + i);
    usleep(100000);
    SHOW(futex(at + 1, FUTEX_WAKE, 10, NULL, NULL, 0));
    SHOW(futex(at, FUTEX_WAKE, 2, NULL, NULL, 0));
    SHOW(futex(at, FUTEX_WAKE, 10, NULL, NULL, 0));
    int sum = 0;
    for (int i = 0; i < 3; i++) wait(&status), sum += WEXITSTATUS(status);
    printf("statuses %d\n", sum);

    // A mutex between processes, held by many.
    struct { pthread_mutex_t mutex; pthread_cond_t cond; long count; } *both = (void *)(at + 64);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&both->mutex, &attributes);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            for (int j = 0; j < 3000; j++) {
                pthread_mutex_lock(&both->mutex);
                both->count++;
                pthread_mutex_unlock(&both->mutex);
            }
            _exit(0);
        }
    for (int i = 0; i < 4; i++) wait(NULL);
    printf("count %ld\n", both->count);

    // A robust one, whose owner ends.
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&both->mutex, &attributes);
    if (fork() == 0) {
        pthread_mutex_lock(&both->mutex);
        _exit(0);
    }
    wait(NULL);
    SHOW(pthread_mutex_lock(&both->mutex));
    SHOW(pthread_mutex_consistent(&both->mutex));
    SHOW(pthread_mutex_unlock(&both->mutex));
    SHOW(pthread_mutex_lock(&both->mutex));
    SHOW(pthread_mutex_unlock(&both->mutex));
}

static pthread_mutex_t robust;
static void *lock_and_end(void *argument) {
    pthread_mutex_lock(&robust);
    usleep((long)argument);
    return NULL;
}

static void robust_threads(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_t thread = start(lock_and_end, 0);
    SHOW(pthread_mutex_lock(&robust));
    SHOW(pthread_mutex_unlock(&robust));
    SHOW(pthread_mutex_lock(&robust));
    pthread_join(thread, NULL);
    pthread_mutex_init(&robust, &attributes);
    thread = start(lock_and_end, 60000);
    SHOW(pthread_mutex_lock(&robust));
    SHOW(pthread_mutex_consistent(&robust));
    SHOW(pthread_mutex_unlock(&robust));
    pthread_join(thread, NULL);
    size_t bytes;
    void *head;
    SHOW(syscall(SYS_get_robust_list, 0, &head, &bytes));
    printf("%zu\n", bytes);
    SHOW(syscall(SYS_set_robust_list, head, 23));
}

int main(void) {
    errors();
    wakes();
    shared();
    robust_threads();
    return 0;
}
