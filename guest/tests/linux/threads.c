// Threads: creation, results, mutexes, thread-local variables, and everything of pthreads that waits.
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

enum { THREADS = 8, ROUNDS = 20000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread long local = 5;
static __thread char zeroes[300];
static long counter;

static void *count(void *argument) {
    long number = (long)argument;
    local += number;
    for (int i = 0; i < 300; i++) zeroes[i] += number;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    long sum = 0;
    for (int i = 0; i < 300; i++) sum += zeroes[i];
    return (void *)(local * 10000 + sum);
}

static void many(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, count, (void *)i)) printf("no thread\n");
    for (int i = 0; i < THREADS; i++) {
        void *result;
        SHOW(pthread_join(threads[i], &result));
        printf("result %ld\n", (long)result);
    }
    printf("counter %ld local %ld\n", counter, local);
}

// A bounded buffer with condition variables.
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int buffer[4], used, produced;

static void *produce(void *argument) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        while (used == 4) pthread_cond_wait(&emptied, &mutex);
        buffer[used++] = ++produced;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *consume(void *argument) {
    long sum = 0;
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        while (used == 0) pthread_cond_wait(&filled, &mutex);
        sum += buffer[--used];
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&mutex);
    }
    return (void *)sum;
}

static void conditions(void) {
    pthread_t threads[4];
    long sum = 0;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, i & 1 ? consume : produce, NULL);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("sum %ld of %d\n", sum, produced);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_nsec -= 1000000000, soon.tv_sec++;
    pthread_mutex_lock(&mutex);
    SHOW(pthread_cond_timedwait(&filled, &mutex, &soon));
    pthread_mutex_unlock(&mutex);
}

// Barrier, read-write lock, semaphore, once, keys.
static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t semaphore;
static int steps[THREADS], serial, onces, destroyed, a, b, torn;

static void count_once(void) { onces++; }
static void destroy(void *value) { __atomic_add_fetch(&destroyed, (int)(long)value, __ATOMIC_SEQ_CST); }

static void *together(void *argument) {
    long number = (long)argument;
    pthread_once(&once, count_once);
    pthread_setspecific(key, (void *)(number + 1));
    for (int step = 0; step < 50; step++) {
        steps[number] = step;
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) serial++;
        for (int i = 0; i < THREADS; i++)
            if (steps[i] != step) printf("thread %d is at %d, not %d\n", i, steps[i], step);
        pthread_barrier_wait(&barrier);
        if ((step + number) % 4 == 0) {
            pthread_rwlock_wrlock(&rwlock);
            a++;
            sched_yield();
            b++;
        } else {
            pthread_rwlock_rdlock(&rwlock);
            if (a != b) torn++;
        }
        pthread_rwlock_unlock(&rwlock);
    }
    sem_post(&semaphore);
    return NULL;
}

static void others(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_key_create(&key, destroy);
    sem_init(&semaphore, 0, 0);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, together, (void *)i);
    for (int i = 0; i < THREADS; i++) sem_wait(&semaphore);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("serial %d onces %d destroyed %d writes %d torn %d\n", serial, onces, destroyed, a, torn);
    SHOW(sem_trywait(&semaphore));
}

static void *sleeper(void *argument) {
    usleep((long)argument * 1000);
    return argument;
}

// Detached threads; thread ids; many threads one after the other.
static volatile int finished;
static void *detached(void *argument) {
    __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void lives(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        while (pthread_create(&thread, &attributes, detached, NULL)) usleep(1000);
    }
    for (int i = 0; i < 2000 && finished < 100; i++) usleep(1000);
    printf("finished %d\n", finished);
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, (void *)30l);
    SHOW(pthread_tryjoin_np(thread, NULL));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    SHOW(pthread_timedjoin_np(thread, NULL, &now));
    void *result;
    SHOW(pthread_join(thread, &result));
    printf("%ld\n", (long)result);
    CHECK(syscall(SYS_gettid) == getpid());
}

int main(void) {
    many();
    conditions();
    others();
    lives();
    return 0;
}
