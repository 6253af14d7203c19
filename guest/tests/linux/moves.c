// Random operations that move bytes between pipes, files and devices, as Linux answers them: what each returns, its
// error, the bytes that came, the offsets; and now and then the contents of all files. An argument is another seed,
// and has every operation shown.
// oracle: linux
// build: gcc
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIPES = 3, FILES = 13, ALL_BYTES = 300000, OPERATIONS = 2000, SHOWN = 100 };

static unsigned long long state;
static unsigned below(unsigned n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) % n;
}

// What the operations so far have come to.
static unsigned sum;
static void note(const void *bytes, long count) {
    for (long i = 0; i < count; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 16777619u;
}
static void note_number(long long number) { note(&number, sizeof number); }

static int fds[FILES];
static const char *const names[FILES] = {"pipe", "pipe", "pipe", "pipe", "pipe",      "pipe", "a",
                                         "b",    "c",    "a to be read", "zero", "null", "none"};
static unsigned char from[ALL_BYTES + 1000], to[ALL_BYTES];

static size_t length(void) {
    switch (below(8)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return below(100);
    case 3: return 4096;
    case 4: return below(5000);
    case 5: return below(70000);
    case 6: return 65536;
    default: return below(200000);
    }
}
static long long place(void) {
    switch (below(6)) {
    case 0: return 0;
    case 1: return -1;
    case 2: return below(300000);
    case 3: return below(10000);
    default: return below(100000);
    }
}

static int is_pipe(int n) { return n < 2 * PIPES; }
static int is_read_end(int n) { return is_pipe(n) && !(n & 1); }

static void empty_pipes(void) {
    for (int i = 0; i < PIPES; i++)
        while (read(fds[2 * i], to, sizeof to) > 0) continue;
}

// What is put into a pipe is not written to afterwards: Linux would show that.
static long scattered(int fd, int reads, unsigned flags) {
    struct iovec parts[3] = {{from + below(100), length() % 3000}, {from + 4096 * below(4), length() % 3000}, {to, 0}};
    parts[2] = (struct iovec){below(6) ? (void *)(from + 20000) : (void *)8, below(4) ? 0 : length() % 3000};
    if (reads) parts[0].iov_base = to, parts[1].iov_base = to + 100000, parts[2].iov_base = to + 200000;
    long done = vmsplice(fd, parts, below(4), flags);
    if (reads && done > 0) note(to, done < (long)parts[0].iov_len ? done : (long)parts[0].iov_len);
    return done;
}

static long at_places(int fd, off_t at) {
    struct iovec parts[2] = {{to, below(3000)}, {to + 5000, below(5000)}};
    return below(2) ? preadv(fd, parts, 2, at) : pwritev(fd, parts, 2, at);
}

static void operation(int number, int shows) {
    int a = below(FILES), b = below(FILES);
    if (below(3)) a = below(10), b = below(10);
    size_t len = length();
    long long start = place();
    loff_t offsets[2] = {start, place()};
    off_t offset = start;
    unsigned flags = below(5) ? 0 : below(16);
    loff_t *in = below(3) ? NULL : &offsets[0], *out = below(3) ? NULL : &offsets[1];
    // Linux has places in a pipe, and room in some of them: neither is to run out.
    if (number % 5 == 4) empty_pipes();
    if (len > 4000 && (is_pipe(a) || is_pipe(b))) len = below(4000);
    const char *what = "";
    long result = 0;
    int value = 0;
    errno = 0;
    switch (below(16)) {
    case 0:
    case 1: what = "write", result = write(fds[b], from + below(1000), len); break;
    case 2:
    case 3:
        what = "read", result = read(fds[a], to, len);
        note(to, result);
        break;
    case 4:
    case 5: what = "splice", result = splice(fds[a], in, fds[b], out, len, flags | SPLICE_F_NONBLOCK); break;
    case 6: what = "tee", result = tee(fds[a], fds[b], len, flags | SPLICE_F_NONBLOCK); break;
    case 7: what = "vmsplice", result = scattered(fds[b], is_read_end(b), flags | SPLICE_F_NONBLOCK); break;
    case 8:
    case 9: what = "sendfile", result = sendfile(fds[b], fds[a], below(3) ? NULL : &offset, len); break;
    case 10:
    case 11: what = "copy_file_range", result = copy_file_range(fds[a], in, fds[b], out, len, below(8) ? 0 : flags); break;
    case 12: what = "FIONREAD", result = ioctl(fds[a], FIONREAD, &value); break;
    case 13: {
        struct pollfd asked = {fds[a], POLLIN | POLLOUT, 0};
        what = "poll", result = poll(&asked, 1, 0), value = asked.revents;
        break;
    }
    case 14: what = "lseek", result = lseek(fds[a], place(), below(3)); break;
    case 15:
        if (below(3) == 0) what = "ftruncate", result = ftruncate(fds[a], place());
        else what = "preadv or pwritev", result = at_places(fds[a], start);
    }
    int error = result < 0 ? errno : 0;
    if (shows)
        printf("%d %s from %s %d to %s %d, %zu bytes, flags %x, at %lld: %ld, %s, %d; %lld %lld %lld\n", number, what,
               names[a], a, names[b], b, len, flags, start, result, error ? strerrorname_np(error) : "no error", value,
               (long long)offsets[0], (long long)offsets[1], (long long)offset);
    note_number(result), note_number(error), note_number(value);
    note_number(offsets[0]), note_number(offsets[1]), note_number(offset);
}

static void contents(int shows) {
    static const char *const files[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        int fd = open(files[i], O_RDONLY);
        long size = pread(fd, to, sizeof to, 0);
        struct stat stat;
        fstat(fd, &stat);
        note_number(stat.st_size), note(to, size), note_number(lseek(fds[6 + i], 0, SEEK_CUR));
        if (shows) printf("  %s: %lld bytes, sum %x\n", files[i], (long long)stat.st_size, sum);
        close(fd);
    }
}

static void run(unsigned seed, int shows) {
    state = seed * 2654435761ull + 88172645463325252ull, sum = 2166136261u;
    for (int i = 0; i < 10; i++) below(2);
    static const char *const paths[FILES] = {[6] = "a", "b", "c", "a", "/dev/zero", "/dev/null"};
    static const int modes[FILES] = {[6] = O_RDWR | O_CREAT | O_TRUNC, O_RDWR | O_CREAT | O_TRUNC,
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, O_RDONLY, O_RDWR, O_RDWR};
    for (int i = 0; i < PIPES; i++) pipe2(fds + 2 * i, O_NONBLOCK);
    for (int i = 2 * PIPES; i < FILES; i++) fds[i] = paths[i] ? open(paths[i], modes[i], 0600) : -1;
    for (int i = 0; i < OPERATIONS; i++) {
        operation(i, shows);
        if (i % SHOWN == SHOWN - 1) contents(shows), printf("seed %u, %d: %08x\n", seed, i + 1, sum);
    }
    for (int i = 0; i < FILES - 1; i++) close(fds[i]);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    char directory[] = "/tmp/movesXXXXXX";
    if (!mkdtemp(directory) || chdir(directory)) return 1;
    for (int i = 0; i < (int)sizeof from; i++) from[i] = i * 7 + (i >> 8) * 13;
    if (argc > 1) run(atoi(argv[1]), 1);
    else
        for (int seed = 1; seed <= 4; seed++) run(seed, 0);
    unlink("a"), unlink("b"), unlink("c"), chdir("/"), rmdir(directory);
    return 0;
}
