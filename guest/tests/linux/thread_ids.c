// Threads by their ids: /proc/PID/task, names, cores of other threads, states.
// oracle: linux
// cores: 2
#include "test.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

static pid_t first;
static volatile pid_t tids[3];
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

static pid_t tid(void) { return syscall(SYS_gettid); }

// The text of a file of a thread.
static char *text(pid_t of, const char *file) {
    static char buffer[4096];
    char path[100];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", getpid(), of, file);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return strerror(errno);
    ssize_t bytes = read(fd, buffer, sizeof buffer - 1);
    close(fd);
    buffer[bytes < 0 ? 0 : bytes] = 0;
    return buffer;
}

static long field(pid_t of, const char *name) {
    char *at = strstr(text(of, "status"), name);
    return at ? strtol(at + strlen(name) + 2, NULL, strcmp(name, "SigBlk") ? 10 : 16) : -1;
}
static char state(pid_t of) {
    char *at = strrchr(text(of, "stat"), ')');
    return at ? at[2] : '?';
}
static char state_soon(pid_t of, char wanted) {
    for (int i = 0; i < 1000 && state(of) != wanted; i++) usleep(1000);
    return state(of);
}

// What is in a directory, as far as it is a thread's.
static void list(const char *path) {
    DIR *at = opendir(path);
    int all = 0, known = 0, dots = 0;
    for (struct dirent *entry; at && (entry = readdir(at));) {
        pid_t id = atoi(entry->d_name);
        if (id == 0) {
            dots++;
            continue;
        }
        all++;
        for (int i = 0; i < 3; i++) known += id == tids[i];
        known += id == first;
    }
    if (at) closedir(at);
    printf("%d threads, %d known, %d others\n", all, known, dots);
}

static void *body(void *argument) {
    long number = (long)argument;
    char name[20];
    tids[number] = tid();
    if (number == 0) {
        prctl(PR_GET_NAME, name);
        printf("inherited: %s\n", name);
        SHOW(prctl(PR_SET_NAME, "a name that is too long"));
        prctl(PR_GET_NAME, name);
        printf("own: %s\n", name);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    }
    pthread_barrier_wait(&barrier);
    if (number == 0) for (volatile int *stop = (int *)&ends[1]; *stop >= 0;) {}
    if (number == 1) pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex);
    if (number == 2) read(ends[0], name, 1);
    return NULL;
}

static void cores(pid_t of) {
    cpu_set_t set;
    CPU_ZERO(&set);
    long got = syscall(SYS_sched_getaffinity, of, sizeof set, &set);
    printf("cores: %s, core 0 %d core 1 %d\n", got > 0 ? "some" : strerror(errno), !!CPU_ISSET(0, &set), !!CPU_ISSET(1, &set));
}

static void *of_first(void *argument) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(1, &set);
    SHOW(sched_setaffinity(first, sizeof set, &set));
    cores(first);
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    char path[100], name[40] = "";
    first = getpid();
    pipe(ends);
    pthread_mutex_lock(&mutex);
    pthread_barrier_init(&barrier, NULL, 4);
    prctl(PR_SET_NAME, "leader");
    list("/proc/self/task");
    for (long i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, body, (void *)i);
        while (!*(volatile pid_t *)&tids[i]) usleep(1000);
    }
    pthread_barrier_wait(&barrier);
    list("/proc/self/task");
    snprintf(path, sizeof path, "/proc/%d/task", first);
    list(path);
    printf("comm: %s", text(first, "comm"));
    printf("comm: %s", text(tids[0], "comm"));
    printf("comm: %s", text(tids[1], "comm"));
    printf("stat: %d %.9s\n", atoi(text(tids[0], "stat")) == tids[0], strchr(text(tids[0], "stat"), '('));
    for (int i = 0; i < 3; i++)
        printf("Tgid %d Pid %d Threads %ld SigBlk %lx\n", field(tids[i], "Tgid") == first, field(tids[i], "Pid") == tids[i],
               field(tids[i], "Threads"), field(tids[i], "SigBlk"));
    printf("states: %c %c %c\n", state_soon(tids[0], 'R'), state_soon(tids[1], 'S'), state_soon(tids[2], 'S'));
    printf("no such thread: %s\n", text(1, "comm"));
    printf("no such file: %s\n", text(first, "nothing"));
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tids[2]);
    struct stat info;
    SHOW(stat(path, &info));
    snprintf(path, sizeof path, "/proc/self/task/%d", tids[2]);
    SHOW(stat(path, &info));
    printf("directory: %d\n", S_ISDIR(info.st_mode));
    SHOW(readlink("/proc/thread-self", name, sizeof name) > 0);
    snprintf(path, sizeof path, "%d/task/%d", first, first);
    printf("thread-self: %d\n", strcmp(path, name) == 0);

    // Names of other threads.
    SHOW(pthread_setname_np(threads[1], "given"));
    printf("comm: %s", text(tids[1], "comm"));
    SHOW(pthread_setname_np(threads[1], "much too long for it"));
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", tids[2]);
    int fd = open(path, O_RDWR);
    SHOW(write(fd, "written to a file", 17));
    SHOW(lseek(fd, 0, SEEK_SET));
    close(fd);
    printf("comm: %s", text(tids[2], "comm"));
    fd = open("/proc/self/comm", O_WRONLY);
    SHOW(write(fd, "new", 3));
    close(fd);
    prctl(PR_GET_NAME, name);
    printf("leader: %s\n", name);
    SHOW(open("/proc/self/task", O_WRONLY));

    // Cores.
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(1, &set);
    cores(tids[1]);
    SHOW(sched_setaffinity(tids[1], sizeof set, &set));
    cores(tids[1]);
    cores(tids[2]);
    CPU_ZERO(&set);
    SHOW(sched_setaffinity(tids[1], sizeof set, &set));
    cores(999999);
    pthread_t thread;
    pthread_create(&thread, NULL, of_first, NULL);
    pthread_join(thread, NULL);
    cores(0);
    for (int i = 0; i < 1000 && sched_getcpu() != 1; i++) usleep(1000);
    printf("runs on %d\n", sched_getcpu());

    // Processor time of a thread that does nothing else, and of one that does nothing.
    char *busy = strrchr(text(tids[0], "stat"), ')') + 2;
    for (int i = 0; i < 11; i++) busy = strchr(busy, ' ') + 1;
    long ticks = atol(busy);
    for (int i = 0; i < 1000 && ticks == 0; i++) {
        usleep(1000);
        busy = strrchr(text(tids[0], "stat"), ')') + 2;
        for (int j = 0; j < 11; j++) busy = strchr(busy, ' ') + 1;
        ticks = atol(busy);
    }
    printf("busy: %d\n", ticks > 0);

    write(ends[1], "", 1);
    ends[1] = -1;
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    // Whoever waits for a thread may be told shortly before it is gone.
    for (int i = 0; i < 1000; i++)
        if (state(tids[i % 3]) != '?') usleep(1000);
    printf("ended: %s\n", text(tids[0], "comm"));
    list("/proc/self/task");
    return 0;
}
