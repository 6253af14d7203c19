// SIGSTOP and SIGKILL are not up to the process: it may stay disabled for ever, say that it blocks, ignores
// and catches everything, act as its own child, try to run dispatchers of its own, or to go on in a
// domain that nobody can take from it.
//
// build: gcc
// cores: 4
// expect-stdout: passed\n
#include "test.h"
#include "raw.h"
#include <pthread.h>
#include <time.h>

enum { USER = 1000, PATIENCE_MS = 8000 };

static volatile struct { unsigned long main, thread; int ready; long status[8]; } *shared;
static int failures;

#define EXPECT(what, ...)                                   \
    do {                                                    \
        if (!(what)) failures++, printf("FAILED: " __VA_ARGS__), printf("\n"); \
    } while (0)

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// What the server reads in the header: signals that are blocked, ignored and caught.
static void lie(void) {
    volatile unsigned long *masks = (unsigned long *)(RAW_SESSION + 48);
    masks[0] = masks[1] = masks[2] = ~0ul;
}

static void stay_disabled(void) {
    *(volatile unsigned *)RAW_FRAME = 1;
    for (;;) shared->main++;
}

static void *spin(void *unused) {
    for (;;) shared->thread++;
    return unused;
}

static int with_thread;
static void obstinate(void) {
    pthread_t thread;
    if (with_thread) pthread_create(&thread, NULL, spin, NULL);
    lie();
    shared->ready = 1;
    stay_disabled();
}

static void obstinate_child(void) {
    pid_t child = vfork();
    if (child == 0) {
        lie();
        shared->ready = getpid();
        stay_disabled();
    }
    _exit(9);
}

// A reader that tells when it has read.
static int pipe_ends[2];
static void reader(void) {
    char bytes[4];
    shared->ready = 1;
    shared->main = read(pipe_ends[0], bytes, sizeof bytes);
    for (;;) pause();
}

static pid_t start(void (*function)(void)) {
    shared->main = shared->thread = 0, shared->ready = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(USER)) _exit(1);
        function();
        _exit(0);
    }
    for (long from = milliseconds(); !shared->ready && milliseconds() - from < PATIENCE_MS;) usleep(1000);
    usleep(20000);
    return pid;
}

// Waits for news of a child; 0 if there is none.
static int news(pid_t pid, int options, int *status) {
    for (long from = milliseconds(); milliseconds() - from < PATIENCE_MS; usleep(1000))
        if (waitpid(pid, status, options | WNOHANG) == pid) return 1;
    return 0;
}

static int moves_within(volatile unsigned long *counter, long time) {
    unsigned long before = *counter;
    for (long from = milliseconds(); milliseconds() - from < time; usleep(1000))
        if (*counter != before) return 1;
    return 0;
}

// Does somebody run who must not?
static int moves(volatile unsigned long *counter) { return moves_within(counter, 100); }

// Does somebody run who may? The emulator's host may have other things to do than the core that it is on.
static int goes(volatile unsigned long *counter) { return moves_within(counter, PATIENCE_MS); }

static char state_of(pid_t pid) {
    char path[40], text[200] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY);
    if (fd >= 0) read(fd, text, sizeof text - 1), close(fd);
    char *end = strrchr(text, ')');
    return end ? end[2] : '?';
}

static int runs(void) { return goes(&shared->main) && (!with_thread || goes(&shared->thread)); }

static void stop_and_kill(int threads) {
    with_thread = threads;
    pid_t pid = start(obstinate);
    int status = 0;
    EXPECT(runs(), "it does not run");
    kill(pid, SIGSTOP);
    EXPECT(news(pid, WUNTRACED, &status) && WIFSTOPPED(status), "it does not stop: %#x", status);
    EXPECT(!moves(&shared->main), "the first thread runs while it is stopped");
    EXPECT(!moves(&shared->thread), "the second thread runs while it is stopped");
    EXPECT(state_of(pid) == 'T', "its state is %c", state_of(pid));
    kill(pid, SIGCONT);
    EXPECT(news(pid, WCONTINUED, &status) && WIFCONTINUED(status), "it does not go on: %#x", status);
    EXPECT(runs(), "it does not run again");
    kill(pid, SIGSTOP);
    EXPECT(news(pid, WUNTRACED, &status) && WIFSTOPPED(status), "it does not stop again: %#x", status);
    kill(pid, SIGKILL);
    EXPECT(news(pid, 0, &status) && status == SIGKILL, "it does not end: %#x", status);
    EXPECT(!moves(&shared->main) && !moves(&shared->thread), "it runs after its end");
}

static void stop_and_kill_child_of_vfork(void) {
    pid_t pid = start(obstinate_child);
    int status = 0;
    EXPECT(goes(&shared->main), "the child does not run");
    kill(shared->ready, SIGSTOP);
    usleep(50000);
    EXPECT(!moves(&shared->main), "the child runs while it is stopped");
    kill(shared->ready, SIGCONT);
    EXPECT(goes(&shared->main), "the child does not run again");
    kill(shared->ready, SIGKILL);
    // The parent does not do what is asked of it, and goes too.
    EXPECT(news(pid, 0, &status), "nobody ends");
    EXPECT(!moves(&shared->main), "the child runs after its end");
}

// A stopped reader takes nothing, and goes on where it was.
static void stop_reader(void) {
    pipe(pipe_ends);
    pid_t pid = start(reader);
    int status = 0;
    char bytes[4];
    kill(pid, SIGSTOP);
    EXPECT(news(pid, WUNTRACED, &status) && WIFSTOPPED(status), "the reader does not stop");
    write(pipe_ends[1], "abcd", 4);
    usleep(50000);
    fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
    EXPECT(read(pipe_ends[0], bytes, 4) == 4, "a stopped reader has taken something");
    fcntl(pipe_ends[0], F_SETFL, 0);
    kill(pid, SIGCONT);
    write(pipe_ends[1], "efg", 3);
    for (int i = 0; i < 2000 && shared->main == 0; i++) usleep(1000);
    EXPECT(shared->main == 3, "it has read %ld bytes", (long)shared->main);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

enum { MEMORY = 20, NEW_ROOT, NEW_DISPATCHER, NEW_FRAME, WEAK_ROOT, WEAK_DISPATCHER };
enum { SUPERVISED = 4 };

// Dispatchers of its own, and a domain that cannot be taken from it.
static void rebel(void) {
    volatile long *status = shared->status;
    status[0] = INVOKE(CONTINUE, DISPATCHER, 0);
    raw_make_node();
    raw_make_ram(own(RAW_NODE, MEMORY), 64 << 10);
    INVOKE(RETYPE, own(RAW_NODE, MEMORY), L1, 0, 16384, 1, own(RAW_NODE, NEW_ROOT));
    INVOKE(RETYPE, own(RAW_NODE, MEMORY), DISP, 16384, 4096, 1, own(RAW_NODE, NEW_DISPATCHER));
    INVOKE(RETYPE, own(RAW_NODE, MEMORY), FRAME_TYPE, 20480, 4096, 1, own(RAW_NODE, NEW_FRAME));
    // The new CSpace has all that this one has.
    for (unsigned i = 0; i < 256; i++)
        INVOKE(COPY, in_root(0, i), in_root(own(RAW_NODE, NEW_ROOT), i));
    status[1] = INVOKE(CONFIGURE, own(RAW_NODE, NEW_DISPATCHER), ROOT, VSPACE, own(RAW_NODE, NEW_FRAME),
                       RAW_FRAME, 0, SUPERVISED);
    status[2] = INVOKE(CONFIGURE, own(RAW_NODE, NEW_DISPATCHER), own(RAW_NODE, NEW_ROOT), VSPACE,
                       own(RAW_NODE, NEW_FRAME), RAW_FRAME, 0, 0);
    status[3] = INVOKE(START, own(RAW_NODE, NEW_DISPATCHER), 0);
    INVOKE(MINT, own(RAW_NODE, NEW_DISPATCHER), own(RAW_NODE, WEAK_DISPATCHER), 255 & ~RIGHT_REVOKE, 0);
    INVOKE(MINT, own(RAW_NODE, NEW_ROOT), own(RAW_NODE, WEAK_ROOT), 255 & ~RIGHT_REVOKE, 0);
    // In the order in which they are expected, side by side.
    for (int weak = 0; weak < 2; weak++) {
        unsigned long first = own(RAW_NODE, 30 + 2 * weak);
        INVOKE(COPY, own(RAW_NODE, weak ? WEAK_DISPATCHER : NEW_DISPATCHER), first);
        INVOKE(COPY, own(RAW_NODE, weak ? WEAK_ROOT : NEW_ROOT), first + 1);
        long called = INVOKE(CALL | 2 << 16, raw_keeper(), OP_REPLACE, 1, 0, 0, 0, raw_thread(), first, 0);
        status[4 + weak] = called ? -1 : (long)raw_results[0];
    }
    // It still is what it was.
    status[6] = getpid();
    shared->ready = 1;
    _exit(3);
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) {
        printf("passed\n");
        return 0;
    }
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    stop_and_kill(0);
    stop_and_kill(1);
    stop_and_kill_child_of_vfork();
    stop_reader();
    pid_t pid = start(rebel);
    int status = 0;
    EXPECT(news(pid, 0, &status) && status == 0x300, "the rebel ends with %#x", status);
    EXPECT(shared->status[0] == NO_RIGHTS, "Continue of oneself: %ld", shared->status[0]);
    EXPECT(shared->status[1] == NO_RIGHTS, "Configure as supervised: %ld", shared->status[1]);
    EXPECT(shared->status[2] == 0, "Configure: %ld", shared->status[2]);
    EXPECT(shared->status[3] == NO_RIGHTS, "Start of a dispatcher of its own: %ld", shared->status[3]);
    EXPECT(shared->status[4] == EPERM, "Replace by what has copies: %ld", shared->status[4]);
    EXPECT(shared->status[5] == EPERM, "Replace by what cannot be revoked: %ld", shared->status[5]);
    EXPECT(shared->status[6] == pid, "it is %ld", shared->status[6]);
    if (!failures) printf("passed\n");
    return 0;
}
