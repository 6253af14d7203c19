// Ends of pipes that several processes use, at once and by turns; writers and readers that go in between;
// how much is written and how much is read at a time.
//
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <pthread.h>
#include <sys/uio.h>

enum { MANY = 300, CHUNK = 100000 };

static size_t read_all(int fd, char *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, to + done, bytes - done);
        if (n <= 0) break;
        done += n;
    }
    return done;
}

// Each byte says who wrote it; of each writer all must come.
static void writers(int count, int chunk, int rounds) {
    int ends[2];
    pipe(ends);
    for (int w = 0; w < count; w++) {
        if (fork() == 0) {
            close(ends[0]);
            char *text = malloc(chunk);
            memset(text, 'a' + w, chunk);
            for (int i = 0; i < rounds; i++)
                if (write(ends[1], text, chunk) != chunk) _exit(1);
            _exit(0);
        }
    }
    close(ends[1]);
    long seen[26] = {0}, others = 0;
    static char buffer[70000];
    ssize_t n;
    while ((n = read(ends[0], buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (buffer[i] >= 'a' && buffer[i] < 'a' + count) seen[buffer[i] - 'a']++;
            else others++;
        }
    close(ends[0]);
    long bad = 0;
    for (int w = 0; w < count; w++) bad += seen[w] != (long)chunk * rounds;
    int status, failed = 0;
    while (wait(&status) > 0) failed += status != 0;
    printf("%d writers, %d at a time: %ld bad, %ld others, %d failed\n", count, chunk, bad, others, failed);
}

static void readers(int count, int chunk) {
    int ends[2], counts[2];
    pipe(ends), pipe(counts);
    for (int r = 0; r < count; r++) {
        if (fork() == 0) {
            close(ends[1]);
            char *buffer = malloc(chunk);
            long sum[2] = {0, 0};
            ssize_t n;
            while ((n = read(ends[0], buffer, chunk)) > 0) {
                sum[0] += n;
                for (ssize_t i = 0; i < n; i++) sum[1] += (unsigned char)buffer[i];
            }
            write(counts[1], sum, sizeof sum);
            _exit(0);
        }
    }
    close(ends[0]);
    static unsigned char text[CHUNK];
    long bytes = 0, value = 0;
    for (int i = 0; i < 40; i++) {
        for (int j = 0; j < CHUNK; j++) text[j] = (unsigned char)(i * 31 + j), value += text[j];
        ssize_t n = write(ends[1], text, CHUNK);
        if (n > 0) bytes += n;
    }
    close(ends[1]);
    for (int r = 0; r < count; r++) {
        long sum[2];
        read(counts[0], sum, sizeof sum);
        bytes -= sum[0], value -= sum[1];
    }
    close(counts[0]), close(counts[1]);
    while (wait(NULL) > 0) continue;
    printf("%d readers, %d at a time: %ld bytes lost, %ld in value\n", count, chunk, bytes, value);
}

// One after the other, large and small, as in `(a; b) | c`.
static void by_turns(void) {
    int ends[2];
    pipe(ends);
    pid_t last = fork();
    if (last == 0) {
        close(ends[1]);
        static char got[2 * CHUNK];
        size_t all = 0, wrong = 0, n;
        while ((n = read_all(ends[0], got, CHUNK + 10)) > 0) {
            int turn = (int)(all / (CHUNK + 10));
            for (size_t i = 0; i < n; i++) wrong += got[i] != (char)(turn + (i >= CHUNK));
            all += n;
        }
        printf("by turns: %zu bytes, %zu wrong\n", all, wrong);
        exit(0);
    }
    for (int i = 0; i < 6; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            static char text[CHUNK];
            memset(text, i, sizeof text);
            write(ends[1], text, CHUNK);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        char small[10];
        memset(small, i + 1, 10);
        write(ends[1], small, 10);
    }
    close(ends[0]), close(ends[1]);
    waitpid(last, NULL, 0);
}

// A process that acts as its parent's child shares its parent's memory.
static void with_vfork(void) {
    int ends[2];
    pipe(ends);
    static char text[CHUNK], got[CHUNK];
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        long sum = 0;
        ssize_t n;
        while ((n = read(ends[0], got, CHUNK)) > 0) sum += n;
        printf("from vfork: %ld\n", sum);
        exit(0);
    }
    for (int i = 0; i < 4; i++) {
        write(ends[1], text, CHUNK);
        pid_t pid = vfork();
        if (pid == 0) {
            write(ends[1], text, CHUNK);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    close(ends[0]), close(ends[1]);
    waitpid(reader, NULL, 0);
}

static int both[2];
static void *writes(void *text) {
    for (int i = 0; i < 10; i++) write(both[1], text, CHUNK);
    return NULL;
}
static void with_threads(void) {
    pipe(both);
    static char text[2][CHUNK];
    memset(text[0], 1, CHUNK), memset(text[1], 2, CHUNK);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, writes, text[i]);
    long sum[3] = {0, 0, 0};
    static char got[70000];
    while (sum[1] + sum[2] < 20 * CHUNK) {
        ssize_t n = read(both[0], got, sizeof got);
        if (n <= 0) break;
        for (ssize_t i = 0; i < n; i++) sum[got[i] == 1 ? 1 : got[i] == 2 ? 2 : 0]++;
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("from threads: %ld %ld %ld\n", sum[0], sum[1], sum[2]);
    close(both[0]), close(both[1]);
}

// What fits, and what of a write that does not.
static void capacity(void) {
    int ends[2];
    pipe(ends);
    fcntl(ends[1], F_SETFL, O_NONBLOCK), fcntl(ends[0], F_SETFL, O_NONBLOCK);
    static char text[2 * CHUNK], got[2 * CHUNK];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 13 + (i >> 9));
    SHOW(write(ends[1], text, 4096));
    SHOW(write(ends[1], text + 4096, 1));
    SHOW(write(ends[1], text + 4097, 4095));
    SHOW(read(ends[0], got, 5000));
    SHOW(write(ends[1], text + 8192, 20000));
    SHOW(read_all(ends[0], got + 5000, 23192));
    CHECK(memcmp(text, got, 28192) == 0);
    SHOW(read(ends[0], got, 10));
    SHOW(write(ends[1], text, 65536));
    SHOW(write(ends[1], text, 1));
    SHOW(read(ends[0], got, 65536));
    CHECK(memcmp(text, got, 65536) == 0);
}

static volatile sig_atomic_t broken;
static void on_pipe(int signal) { (void)signal, broken++; }

// How often the signal comes of a pipe that nobody reads.
static void no_reader(void) {
    static char text[2 * CHUNK];
    static const size_t sizes[] = {1, 4096, 4097, 70000, 2 * CHUNK};
    signal(SIGPIPE, on_pipe);
    for (int i = 0; i < 5; i++) {
        int ends[2];
        pipe(ends);
        close(ends[0]);
        broken = 0;
        errno = 0;
        ssize_t n = write(ends[1], text, sizes[i]);
        printf("write of %zu: %zd, errno %d, %d signals\n", sizes[i], n, errno, (int)broken);
        close(ends[1]);
    }
    // The reader goes in between.
    int ends[2];
    pipe(ends);
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        usleep(50000);
        _exit(0);
    }
    close(ends[0]);
    broken = 0;
    ssize_t n = write(ends[1], text, sizeof text);
    printf("the reader goes: %zd, %d signals\n", n, (int)broken);
    close(ends[1]);
    waitpid(reader, NULL, 0);
    signal(SIGPIPE, SIG_DFL);
    IN_CHILD("killed", { pipe(ends); close(ends[0]); write(ends[1], text, 10); });
}

// A bad address loses nothing.
static void bad_address(void) {
    int ends[2];
    pipe(ends);
    static char text[3 * 4096], got[3 * 4096];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 13 + (i >> 9));
    char *half = pages(3, PROT_READ | PROT_WRITE);
    munmap(half + 2 * PAGE, PAGE);
    mprotect(half + PAGE, PAGE, PROT_READ);
    static const int sizes[] = {3000, 5000, 12000};
    for (int i = 0; i < 3; i++) {
        write(ends[1], text, sizes[i]);
        SHOW(read(ends[0], (char *)8, sizes[i]));
        SHOW(read(ends[0], half + PAGE, sizes[i]));
        struct iovec none[] = {{got, 0}, {(char *)8, 10}};
        SHOW(readv(ends[0], none, 2));
        // Some of it.
        struct iovec parts[] = {{got, 100}, {half + PAGE - 50, 50}, {(char *)8, 3000}};
        ssize_t n = readv(ends[0], parts, 3);
        printf("as far as it goes: %s\n", n == -1 || n == 150 ? "yes" : "NO");
        size_t had = n == 150 ? 150 : 0;
        memcpy(got + 100, half + PAGE - 50, had ? 50 : 0);
        if (!had) memset(got, 0, sizeof got);
        CHECK(read_all(ends[0], got + had, sizes[i] - had) == sizes[i] - had);
        CHECK(memcmp(got, text, sizes[i]) == 0);
    }
}

int main(void) {
    writers(1, 100000, 20);
    writers(3, 100000, 10);
    writers(3, 5000, 100);
    writers(4, 700, 300);
    readers(1, 65536);
    readers(3, 65536);
    readers(2, 1000);
    by_turns();
    with_vfork();
    with_threads();
    capacity();
    no_reader();
    bad_address();
    return 0;
}
