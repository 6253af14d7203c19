// How much pipes hold: F_SETPIPE_SZ up and down with something in them, what a user's pipes may hold in all, and what is moved
// at once through a large one.
//
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

enum { MIB = 1 << 20 };
static unsigned char out[2 * MIB], in[2 * MIB];
static int ends[2];

static long size_of(int fd) { return fcntl(fd, F_GETPIPE_SZ); }
static long raw_size(int fd, unsigned long bytes) { return syscall(SYS_fcntl, fd, F_SETPIPE_SZ, bytes); }
static int holds(void) {
    int bytes = -1;
    ioctl(ends[0], FIONREAD, &bytes);
    return bytes;
}
static int ready(int fd, short events) {
    struct pollfd poll_fd = {fd, events, 0};
    return poll(&poll_fd, 1, 0) < 0 ? -1 : poll_fd.revents;
}
static void make(int flags) {
    if (pipe2(ends, flags)) _exit(9);
}
static void drop(void) { close(ends[0]), close(ends[1]); }

// What is read is what was written, from a place of the stream on.
static long written, taken;
static long put(size_t bytes) {
    long count = write(ends[1], out + written % MIB, bytes);
    if (count > 0) written += count;
    return count;
}
static long take(size_t bytes) {
    long count = read(ends[0], in, bytes);
    if (count > 0) {
        for (long i = 0; i < count; i++)
            if (in[i] != out[(taken + i) % MIB]) {
                printf("byte %ld is wrong\n", taken + i);
                break;
            }
        taken += count;
    }
    return count;
}

static void up_and_down(void) {
    make(O_NONBLOCK);
    SHOW(size_of(ends[0]));
    SHOW(raw_size(ends[0], 0));
    SHOW(raw_size(ends[1], 1));
    SHOW(raw_size(ends[1], 4097));
    SHOW(raw_size(ends[1], 65537));
    SHOW(raw_size(ends[0], MIB));
    SHOW(raw_size(ends[0], (1ul << 31) + 1));
    SHOW(raw_size(ends[0], -1ul));
    SHOW(raw_size(open("/dev/null", O_RDONLY), 4096));
    SHOW(raw_size(-1, 4096));
    SHOW(raw_size(ends[0], MIB));
    // Full, in rows and at once.
    for (int i = 0; i < 16; i++) put(48 * 1024);
    SHOW(holds());
    SHOW(put(MIB));
    SHOW(put(1));
    SHOW(ready(ends[1], POLLOUT));
    SHOW(ready(ends[0], POLLIN));
    SHOW(raw_size(ends[0], MIB / 2));
    SHOW(size_of(ends[0]));
    // Round the end.
    SHOW(take(MIB - 4096));
    SHOW(raw_size(ends[0], 4096));
    SHOW(holds());
    SHOW(put(1));
    SHOW(raw_size(ends[0], 32 * 1024));
    SHOW(put(16 * 1024));
    SHOW(take(10000 + 2192));
    SHOW(put(20 * 1024));
    SHOW(raw_size(ends[0], 256 * 1024));
    SHOW(put(MIB - written % MIB < 128 * 1024 ? 4096 : 128 * 1024));
    while (take(MIB) > 0);
    SHOW(written == taken);
    SHOW(holds());
    SHOW(ready(ends[1], POLLOUT));
    SHOW(raw_size(ends[0], 65536));
    drop();
}

// A writer that has much to say, a reader that takes much at a time.
static void in_a_row(long size) {
    make(0);
    SHOW(raw_size(ends[1], size) == size);
    written = taken = 0;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        while (written < 6 * MIB) put(MIB);
        _exit(written != 6 * MIB);
    }
    close(ends[1]);
    while (take(MIB + 12345) > 0);
    SHOW(taken);
    int status;
    SHOW(waitpid(pid, &status, 0) == pid && status == 0);
    close(ends[0]);
    // Nobody need read what there is room for.
    make(0);
    raw_size(ends[1], size);
    written = taken = 0;
    SHOW(put(size) == size);
    SHOW(holds() == size);
    SHOW(take(2 * MIB) == size);
    drop();
}

static void spliced(void) {
    make(O_NONBLOCK);
    raw_size(ends[0], MIB);
    int file = memfd_create("from", 0), to = memfd_create("to", 0);
    write(file, out, MIB);
    loff_t at = 0;
    long moved = 0, count;
    while ((count = splice(file, &at, ends[1], NULL, MIB, SPLICE_F_NONBLOCK)) > 0) moved += count;
    SHOW(moved);
    SHOW(holds());
    int copy[2];
    pipe2(copy, O_NONBLOCK);
    fcntl(copy[0], F_SETPIPE_SZ, MIB);
    moved = 0;
    SHOW(tee(ends[0], copy[1], MIB, SPLICE_F_NONBLOCK));
    loff_t to_at = 0;
    while ((count = splice(ends[0], NULL, to, &to_at, MIB, SPLICE_F_NONBLOCK)) > 0) moved += count;
    SHOW(moved);
    pread(to, in, MIB, 0);
    SHOW(memcmp(in, out, MIB));
    memset(in, 0, MIB);
    SHOW(read(copy[0], in, MIB));
    SHOW(memcmp(in, out, MIB));
    close(copy[0]), close(copy[1]), close(file), close(to);
    drop();
}

// A user without rights.
static void of_a_user(void) {
    pid_t pid = fork();
    if (pid == 0) {
        setgid(1234), setuid(1234);
        make(0);
        SHOW(raw_size(ends[0], MIB + 1));
        SHOW(raw_size(ends[0], 1ul << 31));
        SHOW(raw_size(ends[0], (1ul << 31) + 1));
        SHOW(raw_size(ends[0], MIB));
        drop();
        int fds[100][2], count = 0;
        for (; count < 100; count++) {
            if (pipe(fds[count])) break;
            if (fcntl(fds[count][0], F_SETPIPE_SZ, MIB) != MIB) break;
        }
        printf("%d of 1 MiB, then errno %d\n", count, errno);
        SHOW(size_of(fds[count][0]));
        int more = 0, last[64][2];
        long bytes = 0;
        for (; more < 64; more++) {
            if (pipe(last[more])) break;
            bytes += size_of(last[more][0]);
        }
        printf("%d more of %ld bytes\n", more, bytes);
        SHOW(size_of(last[63][0]));
        SHOW(raw_size(last[63][0], 65536));
        SHOW(raw_size(last[63][0], 4096));
        SHOW(raw_size(last[63][0], 8192));
        SHOW(write(last[62][1], out, 8192));
        SHOW(raw_size(last[62][1], 4096));
        SHOW(raw_size(fds[0][0], 4096));
        SHOW(raw_size(last[63][0], 65536));
        SHOW(read(last[62][0], in, 65536));
        SHOW(memcmp(in, out, 8192));
        // What a child makes is its user's, too.
        pid_t child = fork();
        if (child == 0) {
            int own[2];
            pipe(own);
            SHOW(fcntl(own[0], F_SETPIPE_SZ, 2 * MIB));
            SHOW(fcntl(own[0], F_SETPIPE_SZ, MIB));
            _exit(0);
        }
        waitpid(child, NULL, 0);
        for (int i = 0; i <= count; i++) close(fds[i][0]), close(fds[i][1]);
        make(0);
        SHOW(size_of(ends[0]));
        SHOW(raw_size(ends[0], MIB));
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void named(void) {
    char name[] = "/tmp/pipe_sizesXXXXXX";
    if (!mkdtemp(name) || chdir(name)) _exit(8);
    SHOW(mkfifo("fifo", 0600));
    ends[0] = open("fifo", O_RDONLY | O_NONBLOCK);
    ends[1] = open("fifo", O_WRONLY | O_NONBLOCK);
    SHOW(size_of(ends[0]));
    SHOW(raw_size(ends[0], MIB));
    SHOW(size_of(ends[1]));
    written = taken = 0;
    SHOW(put(2 * MIB > MIB ? MIB : 0));
    SHOW(take(2 * MIB));
    drop();
    ends[0] = open("fifo", O_RDONLY | O_NONBLOCK);
    SHOW(size_of(ends[0]));
    close(ends[0]);
    unlink("fifo"), chdir("/"), rmdir(name);
}

int main(void) {
    for (size_t i = 0; i < sizeof out; i++) out[i] = i % MIB * 7 + i % MIB / 251;
    struct rlimit many = {1024, 1024};
    setrlimit(RLIMIT_NOFILE, &many);
    up_and_down();
    in_a_row(4096);
    in_a_row(64 * 1024);
    in_a_row(MIB);
    spliced();
    of_a_user();
    named();
    return 0;
}
