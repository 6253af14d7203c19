// How threads and processes with threads end, fork and execute.
// oracle: linux
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

static char **arguments;
static int event;

static void *spin(void *argument) { for (;;) {} }
static void *sleep_long(void *argument) { sleep(100); return NULL; }
static void *block(void *argument) {
    int ends[2];
    char byte;
    pipe(ends);
    read(ends[0], &byte, 1);
    return NULL;
}
static void crowd(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, spin, NULL);
    pthread_create(&thread, NULL, sleep_long, NULL);
    pthread_create(&thread, NULL, block, NULL);
    usleep(20000);
}

static void *exit_process(void *argument) { exit((long)argument); }
static void *exit_later(void *argument) {
    usleep(400000);
    syscall(SYS_exit, (long)argument);
    return NULL;
}
static void *run(void *argument) {
    execv("/proc/self/exe", arguments);
    return NULL;
}
static void *run_nothing(void *argument) {
    execv("/no/such/file", arguments);
    return (void *)(long)errno;
}

static void *set_event(void *argument) {
    uint64_t one = 1;
    usleep(20000);
    write(event, &one, 8);
    return NULL;
}

static void *fork_here(void *argument) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        // Only the caller is there, and it is the first thread of its process.
        CHECK(syscall(SYS_gettid) == getpid());
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, set_event, NULL);
        pthread_join(thread, &result);
        _exit(17);
    }
    waitpid(pid, &status, 0);
    printf("child of a thread: %d\n", WEXITSTATUS(status));
    return NULL;
}

static void *wait_for_child(void *argument) {
    int status;
    pid_t pid = waitpid((pid_t)(long)argument, &status, 0);
    printf("waited: %d status %d\n", pid == (pid_t)(long)argument, WEXITSTATUS(status));
    return NULL;
}

static void *yield(void *argument) {
    for (int i = 0; i < 1000; i++) sched_yield();
    return NULL;
}

int main(int count, char **values) {
    if (count > 1) {
        printf("executed: %s, first thread: %d\n", values[1], syscall(SYS_gettid) == getpid());
        return 23;
    }
    char *with[] = {values[0], "again", NULL};
    arguments = with;
    pthread_t thread;
    void *result;
    IN_CHILD("return from main", crowd(), exit(5));
    IN_CHILD("exit in a thread", crowd(), pthread_create(&thread, NULL, exit_process, (void *)6l), pause());
    IN_CHILD("KILL", crowd(), raise(SIGKILL));
    IN_CHILD("the first ends, then the last", pthread_create(&thread, NULL, exit_later, (void *)7l), syscall(SYS_exit, 8));
    IN_CHILD("the last is the first", pthread_create(&thread, NULL, exit_later, (void *)7l), usleep(1200000), syscall(SYS_exit, 9));
    IN_CHILD("pthread_exit in main", pthread_create(&thread, NULL, exit_later, (void *)7l), pthread_exit(NULL));
    IN_CHILD("exec in a thread", crowd(), pthread_create(&thread, NULL, run, NULL), pause());
    IN_CHILD("exec in main", crowd(), run(NULL));
    pthread_create(&thread, NULL, run_nothing, NULL);
    pthread_join(thread, &result);
    printf("exec of nothing: %ld\n", (long)result);
    pthread_create(&thread, NULL, fork_here, NULL);
    pthread_join(thread, NULL);

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) usleep(50000), _exit(31);
    pthread_create(&thread, NULL, wait_for_child, (void *)(long)pid);
    pthread_join(thread, NULL);

    // A stopped process stands still with all its threads.
    fflush(stdout);
    volatile long *ticks = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid = fork();
    if (pid == 0) {
        pthread_create(&thread, NULL, sleep_long, NULL);
        for (;;) ++*ticks;
    }
    while (*ticks == 0) usleep(1000);
    int status;
    kill(pid, SIGSTOP);
    waitpid(pid, &status, WUNTRACED);
    long before = *ticks;
    usleep(30000);
    printf("stopped %d, stands still: %d\n", WIFSTOPPED(status), *ticks == before && before > 0);
    kill(pid, SIGCONT);
    usleep(50000);
    printf("goes on: %d\n", *ticks > before);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("killed by %d\n", WTERMSIG(status));

    event = eventfd(0, 0);
    uint64_t value = 0;
    pthread_create(&thread, NULL, set_event, NULL);
    read(event, &value, 8);
    printf("event %lu\n", (unsigned long)value);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, set_event, NULL);
    int ends[2];
    pipe(ends);
    struct pollfd polled[2] = {{.fd = event, .events = POLLIN}, {.fd = ends[0], .events = POLLIN}};
    SHOW(poll(polled, 2, 5000));
    printf("event %d pipe %d\n", polled[0].revents, polled[1].revents);
    pthread_join(thread, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, yield, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return 0;
}
