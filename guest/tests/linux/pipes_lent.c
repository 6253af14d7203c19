// Large reads and writes of pipes, for which buffers are lent: how much is done when the other side ends, when a
// signal comes, when a buffer is not there or goes away, and by whom what is read was written.
//
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

enum { PIPE = 65536, MUCH = 1 << 20 };
static unsigned char *area, *copy;

static unsigned char mark(size_t i) { return (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16)); }
static void fill(void) { for (size_t i = 0; i < MUCH; i++) area[i] = mark(i); }
static size_t bad_bytes(const unsigned char *bytes, size_t from, size_t count) {
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) bad += bytes[i] != mark(from + i);
    return bad;
}

static int ends[2];
static int ready(int fd, short events) {
    struct pollfd one = {fd, events, 0};
    poll(&one, 1, 0);
    return one.revents;
}
static int held(void) {
    int count = -1;
    ioctl(ends[0], FIONREAD, &count);
    return count;
}
static void open_pipe(void) { if (pipe(ends)) printf("no pipe\n"); }
static void close_pipe(void) { close(ends[0]), close(ends[1]); }

// Whole sizes and odd ones, by one process: what fits does not wait.
static void sizes(void) {
    static const int some[] = {4095, 4096, 4097, 5000, 8192, 8193, 20000, 28672, 28673, 65535, 65536};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        open_pipe();
        ssize_t written = write(ends[1], area + i, some[i]);
        int in = held(), can = ready(ends[1], POLLOUT);
        ssize_t n = read(ends[0], copy, MUCH);
        printf("%d: %zd, %d, %x, %zd, %zu bad, %d\n", some[i], written, in, can, n, bad_bytes(copy, i, n), held());
        close_pipe();
    }
    // Around the end of what the pipe holds, again and again.
    open_pipe();
    size_t in = 0, out = 0, bad = 0;
    for (int i = 0; i < 200; i++) {
        size_t n = 4097 + i * 211 % 30000;
        if (write(ends[1], area + in % 4096, n) != (ssize_t)n) printf("short\n");
        for (size_t left = n; left;) {
            ssize_t got = read(ends[0], copy, left > 5001 ? 5001 : left);
            bad += bad_bytes(copy, in % 4096 + n - left, got), left -= got, out += got;
        }
        in += n;
    }
    printf("in turn: %zu, %zu, %zu bad\n", in, out, bad);
    close_pipe();
}

// A child writes much; it is read by pieces of all sizes, also of a byte.
static void pieces(size_t piece, int once) {
    open_pipe();
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (size_t at = 0; at < MUCH; at += once)
            if (write(ends[1], area + at, once) != once) _exit(1);
        _exit(0);
    }
    close(ends[1]);
    size_t done = 0, bad = 0, most = 0;
    ssize_t n;
    while ((n = read(ends[0], copy, piece == 1 && done > 70000 ? PIPE : piece)) > 0)
        bad += bad_bytes(copy, done, n), done += n, most = (size_t)n > most ? (size_t)n : most;
    int status;
    waitpid(pid, &status, 0);
    printf("%zu at a time of %d: %zu, %zu bad, more than the pipe holds: %d, status %d\n", piece, once, done, bad,
           most > PIPE, status);
    close(ends[0]);
}

// Writers whose bytes say whose they are and which; of each all come, in order.
static void many(int writers, int readers, int piece) {
    enum { EACH = 40 };
    int sums[2];
    open_pipe(), pipe(sums);
    for (int w = 0; w < writers; w++)
        if (fork() == 0) {
            memset(area, 'A' + w, piece);
            for (int i = 0; i < EACH; i++)
                if (write(ends[1], area, piece) != piece) _exit(1);
            _exit(0);
        }
    for (int r = 0; r < readers; r++)
        if (fork() == 0) {
            close(ends[1]);
            long counts[27] = {0};
            ssize_t n;
            while ((n = read(ends[0], copy, PIPE)) > 0)
                for (ssize_t i = 0; i < n; i++) counts[copy[i] >= 'A' && copy[i] < 'A' + writers ? copy[i] - 'A' : 26]++;
            write(sums[1], counts, sizeof counts);
            _exit(0);
        }
    close_pipe();
    int status, failed = 0;
    while (wait(&status) > 0) failed += status != 0;
    long counts[27], all[27] = {0}, wrong = 0;
    for (int r = 0; r < readers; r++) {
        read(sums[0], counts, sizeof counts);
        for (int i = 0; i < 27; i++) all[i] += counts[i];
    }
    for (int w = 0; w < writers; w++) wrong += all[w] != (long)EACH * piece;
    printf("%d writers, %d readers, %d: %ld wrong, %ld others, %d failed\n", writers, readers, piece, wrong, all[26], failed);
    close(sums[0]), close(sums[1]);
}

static void nonblocking(void) {
    open_pipe();
    fcntl(ends[0], F_SETFL, O_NONBLOCK), fcntl(ends[1], F_SETFL, O_NONBLOCK);
    SHOW(read(ends[0], copy, MUCH));
    SHOW(write(ends[1], area, MUCH));
    SHOW(write(ends[1], area, MUCH));
    SHOW(write(ends[1], area, 1));
    SHOW(read(ends[0], copy, 10000));
    // A page of four is free altogether.
    SHOW(write(ends[1], area, 4096));
    SHOW(read(ends[0], copy, MUCH) > 50000);
    SHOW(read(ends[0], copy, MUCH));
    close(ends[1]);
    SHOW(read(ends[0], copy, MUCH));
    close(ends[0]);
}

static volatile int signals;
static void count_signal(int signal) { (void)signal, signals++; }

static void handle(int number, int flags) {
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

static void interrupted(void) {
    open_pipe();
    handle(SIGALRM, 0), handle(SIGPIPE, 0);
    ualarm(30000, 0);
    SHOW(read(ends[0], copy, MUCH));
    ualarm(30000, 0);
    SHOW(write(ends[1], area, MUCH));
    SHOW(held());
    ualarm(30000, 0);
    SHOW(write(ends[1], area, MUCH));
    SHOW(read(ends[0], copy, MUCH));
    SHOW((int)bad_bytes(copy, 0, PIPE));
    SHOW(signals);
    // With nobody to read any more: some of it, or nothing.
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        usleep(30000);
        _exit(0);
    }
    close(ends[0]);
    signals = 0;
    SHOW(write(ends[1], area, MUCH));
    SHOW(signals);
    SHOW(write(ends[1], area, MUCH));
    SHOW(signals);
    close(ends[1]);
    waitpid(pid, NULL, 0);
}

// A handler with SA_RESTART comes while nothing was read yet; the bytes after that.
static void restarted(void) {
    open_pipe();
    handle(SIGUSR1, SA_RESTART);
    signals = 0;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        usleep(20000), kill(parent, SIGUSR1), usleep(20000);
        write(ends[1], area, 50000);
        _exit(0);
    }
    SHOW(read(ends[0], copy, MUCH));
    SHOW((int)bad_bytes(copy, 0, 50000));
    SHOW(signals);
    waitpid(pid, NULL, 0);
    close_pipe();
}

static void holes(void) {
    unsigned char *map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(map, 7, 8 * PAGE);
    munmap(map + 4 * PAGE, PAGE);
    mprotect(map + 6 * PAGE, PAGE, PROT_READ);
    mprotect(map + 7 * PAGE, PAGE, PROT_NONE);
    open_pipe();
    SHOW(write(ends[1], map + 4 * PAGE, 3 * PAGE));
    SHOW(write(ends[1], map, 6 * PAGE));
    SHOW(read(ends[0], copy, MUCH));
    SHOW(write(ends[1], map + 7 * PAGE, 5000));
    SHOW(write(ends[1], (void *)0x7ffffffff000, 5000));
    SHOW(write(ends[1], (void *)-5000, 5000));
    SHOW(held());
    // Nothing is lost that cannot be put anywhere.
    write(ends[1], area, 20000);
    SHOW(read(ends[0], map + 6 * PAGE, 5000));
    SHOW(read(ends[0], map + 4 * PAGE, 5000));
    SHOW(read(ends[0], (void *)0xffff888000000000, 5000));
    SHOW(held());
    SHOW(read(ends[0], copy, MUCH));
    SHOW((int)bad_bytes(copy, 0, 20000));
    // Memory that nobody has touched yet, and that of a child.
    unsigned char *fresh = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(write(ends[1], fresh, 30000));
    SHOW(read(ends[0], fresh + MUCH / 2 + 100, 40000));
    SHOW(fresh[MUCH / 2 + 30099]);
    write(ends[1], area, 30000);
    pid_t pid = fork();
    if (pid == 0) {
        SHOW(read(ends[0], area + 200, 20000));
        SHOW((int)bad_bytes(area + 200, 0, 20000));
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    SHOW((int)bad_bytes(area, 0, MUCH));
    SHOW(read(ends[0], fresh, MUCH));
    SHOW((int)bad_bytes(fresh, 20000, 10000));
    munmap(fresh, MUCH), munmap(map, 8 * PAGE);
    close_pipe();
}

static void vectors(void) {
    open_pipe();
    struct iovec to[4] = {{copy, 100}, {copy + 1000, 5000}, {copy + 10000, 1}, {copy + 20000, 50000}};
    struct iovec from[3] = {{area, 10000}, {area + 10000, 7}, {area + 10007, 9993}};
    SHOW(writev(ends[1], from, 3));
    SHOW(readv(ends[0], to + 1, 3));
    SHOW((int)(bad_bytes(copy + 1000, 0, 5000) + bad_bytes(copy + 10000, 5000, 1) + bad_bytes(copy + 20000, 5001, 14999)));
    struct iovec bytes[600];
    for (int i = 0; i < 600; i++) bytes[i] = (struct iovec){area + i * 10, 10};
    SHOW(writev(ends[1], bytes, 600));
    SHOW(read(ends[0], copy, MUCH));
    SHOW((int)bad_bytes(copy, 0, 6000));
    close_pipe();
}

// What happens while a thread waits with its buffer.
static void *writes(void *count) { *(ssize_t *)count = write(ends[1], area, MUCH); return NULL; }
static void *reads(void *count) { *(ssize_t *)count = read(ends[0], copy, MUCH); return NULL; }

static void meanwhile(void) {
    pthread_t thread;
    ssize_t count, n, done = 0;
    size_t bad = 0;
    static unsigned char piece[30000];
    open_pipe();
    pthread_create(&thread, NULL, writes, &count);
    usleep(20000);
    printf("while it waits: %d, %x, %x\n", held(), ready(ends[0], POLLIN), ready(ends[1], POLLOUT));
    // Another process has the same memory now.
    pid_t pid = fork();
    if (pid == 0) pause();
    while (done < MUCH && (n = read(ends[0], piece, sizeof piece)) > 0) bad += bad_bytes(piece, done, n), done += n;
    pthread_join(thread, NULL);
    printf("a fork: %zd, %zd, %zu bad\n", count, done, bad);
    pthread_create(&thread, NULL, reads, &count);
    usleep(20000);
    pid_t second = fork();
    if (second == 0) pause();
    write(ends[1], area, 40000);
    pthread_join(thread, NULL);
    printf("a fork: %zd, %zu bad\n", count, bad_bytes(copy, 0, 40000));
    kill(pid, SIGKILL), kill(second, SIGKILL), waitpid(pid, NULL, 0), waitpid(second, NULL, 0);
    // The buffer loses its pages, and is there again.
    pthread_create(&thread, NULL, reads, &count);
    usleep(20000);
    madvise(copy, MUCH, MADV_DONTNEED);
    write(ends[1], area, 40000);
    pthread_join(thread, NULL);
    printf("without its pages: %zd, %zu bad\n", count, bad_bytes(copy, 0, 40000));
    // Stopped, and goes on.
    pid = fork();
    if (pid == 0) _exit(write(ends[1], area, MUCH) != MUCH);
    close(ends[1]);
    usleep(20000), kill(pid, SIGSTOP);
    int status;
    waitpid(pid, &status, WUNTRACED);
    for (done = 0, bad = 0; done < PIPE && (n = read(ends[0], piece, sizeof piece)) > 0; done += n)
        bad += bad_bytes(piece, done, n);
    kill(pid, SIGCONT);
    while ((n = read(ends[0], piece, sizeof piece)) > 0) bad += bad_bytes(piece, done, n), done += n;
    waitpid(pid, &status, 0);
    printf("stopped: %zd, %zu bad, status %d\n", done, bad, status);
    close(ends[0]);
}

// A thread executes a program, or ends, while another waits with its buffer.
static void ended(int how) {
    open_pipe();
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        static ssize_t count;
        pthread_create(&thread, NULL, how & 1 ? reads : writes, &count);
        usleep(20000);
        if (how < 2) _exit(3);
        execl("/proc/self/exe", "pipes_lent", "exit", NULL);
        _exit(4);
    }
    int status;
    if (how & 1) close(ends[0]);
    else close(ends[1]);
    waitpid(pid, &status, 0);
    ssize_t n = 0, all = 0;
    if (how & 1) SHOW(write(ends[1], area, 5000));
    else while ((n = read(ends[0], copy, MUCH)) > 0) all += n;
    printf("ended %d: %x, %zd\n", how, status, all);
    close_pipe();
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return 5;
    setvbuf(stdout, NULL, _IOLBF, 0);
    area = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    copy = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill();
    sizes();
    pieces(1, PIPE), pieces(100, 8192), pieces(4096, 16384), pieces(PIPE, PIPE), pieces(MUCH, MUCH), pieces(70001, MUCH / 2);
    many(4, 1, 10000), many(3, 3, PIPE), many(5, 2, 100000), many(6, 4, 3000);
    fill();
    nonblocking();
    interrupted();
    restarted();
    holes();
    vectors();
    meanwhile();
    signal(SIGPIPE, SIG_IGN);
    for (int how = 0; how < 4; how++) ended(how);
    return 0;
}
