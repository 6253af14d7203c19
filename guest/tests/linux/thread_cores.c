// Threads on several cores: parallel page faults, system calls and signals; where they run.
// cores: 4
#include "test.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 8 };
static pthread_barrier_t barrier;
static volatile int sum;
static int ends[THREADS][2];

static void *work(void *argument) {
    long number = (long)argument;
    unsigned long total = 0;
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < 20; round++) {
        // Each page is touched for the first time, by several threads at once, and goes away.
        unsigned char *at = pages(64, PROT_READ | PROT_WRITE);
        for (int i = 0; i < 64; i++) at[i * PAGE] = i + number, total += at[i * PAGE];
        mprotect(at, 32 * PAGE, PROT_READ);
        for (int i = 0; i < 64; i++) total += at[i * PAGE];
        munmap(at, 64 * PAGE);
        char byte = round, back = 0;
        write(ends[(number + 1) % THREADS][1], &byte, 1);
        read(ends[number][0], &back, 1);
        total += back;
        char *block = malloc(100000);
        memset(block, number, 100000);
        total += block[99999];
        free(block);
        __atomic_add_fetch(&sum, 1, __ATOMIC_SEQ_CST);
    }
    return (void *)total;
}

static volatile int stop;
static void *pinned(void *argument) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((long)argument, &set);
    if (sched_setaffinity(0, sizeof set, &set)) return (void *)1;
    usleep(1000);
    for (int i = 0; i < 200; i++)
        if (sched_getcpu() != (long)argument) return (void *)2;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    void *result;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) pipe(ends[i]);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    unsigned long all = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        all += (unsigned long)result;
    }
    printf("%d rounds, %lu\n", sum, all);
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    printf("cores %d\n", CPU_COUNT(&set));
    printf("processors %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    for (long i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, pinned, (void *)i);
        pthread_join(threads[i], &result);
        printf("pinned to %ld: %ld\n", i, (long)result);
    }
    return 0;
}
