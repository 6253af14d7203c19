// What strace and gdb look at: threads one after the other, and a child.
#pragma GCC optimize("O0")
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int shared = 5;

static int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += i;
    return sum;
}

static void *worker(void *arg) {
    int sum = work((int)(long)arg);
    __sync_fetch_and_add(&shared, sum);
    return NULL;
}

int main(void) {
    pthread_t thread;
    for (long i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, worker, (void *)(i * 10 + 10));
        pthread_join(thread, NULL);
    }
    if (fork() == 0) {
        write(1, "child\n", 6);
        _exit(3);
    }
    int status;
    wait(&status);
    printf("status %x\n", status);
    printf("shared %d\n", shared);
    return 0;
}
