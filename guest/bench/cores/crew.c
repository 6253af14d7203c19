// Threads that share work and wait for each other: a queue of numbers, a sum, a barrier.
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 8, ROUNDS = 6, TASKS = 64, STEPS = 20000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int next;
static unsigned long sum;

static int take(void) {
    pthread_mutex_lock(&lock);
    int task = next < TASKS ? next++ : -1;
    pthread_mutex_unlock(&lock);
    return task;
}

static void *work(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int task; (task = take()) >= 0;) {
            unsigned state = task + 1;
            for (int step = 0; step < STEPS; step++) state = state * 1664525 + 1013904223;
            pthread_mutex_lock(&lock);
            sum += state >> 8;
            pthread_mutex_unlock(&lock);
        }
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) next = 0;
        pthread_barrier_wait(&barrier);
    }
    return argument;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("sum %lu\n", sum);
    return 0;
}
