// splice, tee and vmsplice: what moves, what stays, and every error.
// oracle: linux
#include "letters.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int full[2], ends[2], more[2];

static int waiting(int fd) {
    int count = -1;
    ioctl(fd, FIONREAD, &count);
    return count;
}

static unsigned sum(const char *at, size_t len) {
    unsigned sum = 1;
    while (len--) sum = sum * 31 + (unsigned char)*at++;
    return sum;
}

// Reads what a pipe has, and says what that is.
static void empty(const char *what, int fd) {
    memset(other, 0, sizeof(other));
    int have = waiting(fd);
    ssize_t got = have ? read(fd, other, sizeof(other)) : 0;
    printf("%s: %d waiting, %zd read, '%.5s', sum %08x\n", what, have, got, other, got > 0 ? sum(other, got) : 0);
}

static void from_file(void) {
    int fd = new_file("splice.data", 20000);
    SHOW(splice(fd, NULL, ends[1], NULL, 5, 0));
    SHOW(lseek(fd, 0, SEEK_CUR));
    empty("five", ends[0]);
    loff_t at = 4094;
    SHOW(splice(fd, &at, ends[1], NULL, 6000, 0));
    printf("at %ld, offset %ld\n", (long)at, (long)lseek(fd, 0, SEEK_CUR));
    SHOW(write(ends[1], "behind", 6));
    SHOW(splice(fd, &at, ends[1], NULL, 3, SPLICE_F_MOVE | SPLICE_F_MORE));
    empty("three pieces", ends[0]);
    at = 19990;
    SHOW(splice(fd, &at, ends[1], NULL, 100, 0));
    SHOW(splice(fd, &at, ends[1], NULL, 100, 0));
    empty("the end", ends[0]);
    at = 1 << 20;
    SHOW(splice(fd, &at, ends[1], NULL, 100, 0));
    at = -1;
    SHOW(splice(fd, &at, ends[1], NULL, 100, 0));
    // What changes in the file before it is read.
    at = 0;
    SHOW(splice(fd, &at, ends[1], NULL, 8192, 0));
    SHOW(read(ends[0], other, 1));
    unlink("splice.data");
    SHOW(close(fd));
    empty("of a file that is gone", ends[0]);
    // A hole.
    fd = open("splice.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    SHOW(ftruncate(fd, 10000));
    SHOW(splice(fd, NULL, ends[1], NULL, 10000, 0));
    empty("zeros", ends[0]);
    CHECK(other[0] == 0 && other[9999] == 0);
    close(fd);
    unlink("splice.data");
}

static void to_file(void) {
    int fd = new_file("splice.data", 20), in = new_file("splice.in", 9000);
    SHOW(write(ends[1], "0123456789", 10));
    SHOW(splice(ends[0], NULL, fd, NULL, 4, 0));
    loff_t at = 30;
    SHOW(splice(ends[0], NULL, fd, &at, 100, SPLICE_F_NONBLOCK));
    printf("at %ld, offset %ld\n", (long)at, (long)lseek(fd, 0, SEEK_CUR));
    memset(other, 0, 64);
    SHOW(pread(fd, other, 64, 0));
    printf("%.20s|%.6s\n", other, other + 30);
    CHECK(other[25] == 0);
    SHOW(splice(ends[0], NULL, fd, NULL, 4, SPLICE_F_NONBLOCK));
    SHOW(splice(in, NULL, ends[1], NULL, 9000, 0));
    SHOW(splice(ends[0], NULL, fd, NULL, 5000, 0));
    SHOW(waiting(ends[0]));
    SHOW(splice(ends[0], NULL, fd, NULL, 50000, SPLICE_F_MOVE));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(pread(fd, other, 9000, 4));
    CHECK(!memcmp(other, bytes, 9000));
    SHOW(fcntl(fd, F_SETFL, O_APPEND));
    SHOW(write(ends[1], "x", 1));
    SHOW(splice(ends[0], NULL, fd, NULL, 1, 0));
    SHOW(splice(ends[0], NULL, fd, &at, 1, 0));
    empty("kept", ends[0]);
    close(fd);
    close(in);
    unlink("splice.in");
}

static void between_pipes(void) {
    int fd = new_file("splice.data", 9000);
    SHOW(write(ends[1], "one", 3));
    SHOW(splice(fd, NULL, ends[1], NULL, 5000, 0));
    SHOW(write(ends[1], "two", 3));
    SHOW(tee(ends[0], more[1], 4000, 0));
    SHOW(waiting(ends[0]));
    SHOW(tee(ends[0], more[1], 100000, 0));
    empty("twice", more[0]);
    SHOW(splice(ends[0], NULL, more[1], NULL, 10, 0));
    SHOW(splice(ends[0], NULL, more[1], NULL, 100000, SPLICE_F_NONBLOCK));
    SHOW(waiting(ends[0]));
    empty("moved", more[0]);
    SHOW(splice(ends[0], NULL, more[1], NULL, 1, SPLICE_F_NONBLOCK));
    SHOW(tee(ends[0], more[1], 1, SPLICE_F_NONBLOCK));
    // Full.
    SHOW(write(full[1], "abcdef", 6));
    SHOW(splice(full[0], NULL, more[1], NULL, 3, 0));
    SHOW(tee(full[0], more[1], 2, 0));
    empty("abcde", more[0]);
    fcntl(more[1], F_SETFL, O_NONBLOCK);
    while (write(more[1], bytes, 4096) > 0) {}
    SHOW(waiting(more[0]));
    SHOW(splice(full[0], NULL, more[1], NULL, 3, 0));
    SHOW(tee(full[0], more[1], 3, 0));
    SHOW(splice(full[0], NULL, more[1], NULL, 3, SPLICE_F_NONBLOCK));
    SHOW(splice(fd, NULL, more[1], NULL, 3, SPLICE_F_NONBLOCK));
    fcntl(more[1], F_SETFL, 0);
    SHOW(tee(full[0], more[1], 3, SPLICE_F_NONBLOCK));
    SHOW(splice(fd, NULL, more[1], NULL, 3, SPLICE_F_NONBLOCK));
    empty("full", more[0]);
    empty("def", full[0]);
    close(fd);
    unlink("splice.data");
}

static void of_memory(void) {
    char *at = pages(3, PROT_READ | PROT_WRITE);
    memset(at, 'm', 2 * PAGE);
    struct iovec parts[3] = {{at + 10, 100}, {NULL, 0}, {at + 4000, 200}};
    SHOW(vmsplice(ends[1], parts, 3, 0));
    empty("memory", ends[0]);
    SHOW(vmsplice(ends[1], parts, 0, 0));
    SHOW(vmsplice(ends[1], parts, 1025, 0));
    SHOW(vmsplice(ends[1], (void *)8, 1, 0));
    parts[0].iov_base = (void *)4096;
    SHOW(vmsplice(ends[1], parts, 1, 0));
    parts[0].iov_base = at;
    parts[0].iov_len = 2 * PAGE;
    SHOW(vmsplice(ends[1], parts, 1, SPLICE_F_GIFT));
    SHOW(waiting(ends[0]));
    SHOW(munmap(at, PAGE));
    empty("a gift", ends[0]);
    // The other direction.
    SHOW(write(ends[1], "0123456789", 10));
    memset(at + PAGE, 0, PAGE);
    struct iovec to[2] = {{at + PAGE, 3}, {at + PAGE + 100, 20}};
    SHOW(vmsplice(ends[0], to, 2, 0));
    printf("%s %s\n", at + PAGE, at + PAGE + 100);
    SHOW(vmsplice(ends[0], to, 2, SPLICE_F_NONBLOCK));
    SHOW(vmsplice(ends[0], to, 2, 16));
    SHOW(vmsplice(1000, to, 2, 0));
    int fd = open("/dev/null", O_RDWR);
    SHOW(vmsplice(fd, to, 2, 0));
    close(fd);
    munmap(at + PAGE, 2 * PAGE);
}

static void wrong(void) {
    int fd = new_file("splice.data", 100), second = new_file("splice.in", 100);
    int only_read = open("splice.data", O_RDONLY), only_write = open("splice.data", O_WRONLY);
    int directory = open(".", O_RDONLY), path = open("splice.data", O_PATH), null = open("/dev/null", O_RDWR);
    int zero = open("/dev/zero", O_RDWR);
    loff_t at = 0;
    SHOW(write(ends[1], "abcde", 5));
    SHOW(splice(-1, NULL, ends[1], NULL, 1, 0));
    SHOW(splice(-1, NULL, -1, NULL, 0, 0));
    SHOW(splice(-1, NULL, -1, NULL, 0, 64));
    SHOW(splice(fd, NULL, ends[1], NULL, 1, 16));
    SHOW(splice(fd, NULL, -1, NULL, 1, 0));
    SHOW(splice(fd, NULL, second, NULL, 1, 0));
    SHOW(splice(fd, &at, second, &at, 1, 0));
    SHOW(splice(ends[0], NULL, ends[1], NULL, 1, 0));
    SHOW(splice(ends[0], &at, fd, NULL, 1, 0));
    SHOW(splice(fd, NULL, ends[1], &at, 1, 0));
    SHOW(splice(ends[0], &at, ends[1], NULL, 1, 0));
    SHOW(splice(ends[1], NULL, fd, NULL, 1, 0));
    SHOW(splice(fd, NULL, ends[0], NULL, 1, 0));
    SHOW(splice(only_write, NULL, ends[1], NULL, 1, 0));
    SHOW(splice(ends[0], NULL, only_read, NULL, 1, 0));
    SHOW(splice(directory, NULL, ends[1], NULL, 1, 0));
    SHOW(splice(ends[0], NULL, directory, NULL, 1, 0));
    SHOW(splice(path, NULL, ends[1], NULL, 1, 0));
    SHOW(splice(fd, (void *)8, ends[1], NULL, 1, 0));
    SHOW(splice(ends[0], NULL, fd, (void *)8, 1, 0));
    SHOW(splice(ends[0], NULL, null, NULL, 2, 0));
    SHOW(splice(null, NULL, ends[1], NULL, 2, 0));
    SHOW(splice(ends[0], NULL, zero, NULL, 2, 0));
    SHOW(tee(fd, ends[1], 1, 0));
    SHOW(tee(ends[0], fd, 1, 0));
    SHOW(tee(ends[0], ends[1], 1, 0));
    SHOW(tee(ends[1], more[1], 1, 0));
    SHOW(tee(ends[0], more[0], 1, 0));
    SHOW(tee(-1, -1, 0, 0));
    SHOW(tee(-1, -1, 0, 16));
    SHOW(tee(-1, -1, 1, 0));
    SHOW(tee(ends[0], more[1], 1, 16));
    at = 0x7fffffffffffffff;
    SHOW(splice(fd, &at, ends[1], NULL, 1, 0));
    SHOW(splice(ends[0], NULL, fd, &at, 1, 0));
    empty("left", ends[0]);
    int files[] = {fd, second, only_read, only_write, directory, path, null, zero};
    for (int i = 0; i < 8; i++) close(files[i]);
    unlink("splice.data");
    unlink("splice.in");
}

static void on_socket(void) {
    int pair[2], fd = new_file("splice.data", 3000);
    SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    SHOW(splice(fd, NULL, ends[1], NULL, 3000, 0));
    SHOW(splice(ends[0], NULL, pair[0], NULL, 3000, 0));
    memset(other, 0, 3000);
    SHOW(read(pair[1], other, 4000));
    CHECK(!memcmp(other, bytes, 3000));
    SHOW(write(pair[1], "answer", 6));
    SHOW(splice(pair[0], NULL, ends[1], NULL, 100, 0));
    empty("from a socket", ends[0]);
    SHOW(splice(pair[0], NULL, ends[1], NULL, 100, SPLICE_F_NONBLOCK));
    close(pair[1]);
    SHOW(splice(pair[0], NULL, ends[1], NULL, 100, 0));
    close(pair[0]);
    close(fd);
    unlink("splice.data");
}

static void ends_gone(void) {
    int fd = new_file("splice.data", 100), gone[2];
    signal(SIGPIPE, SIG_IGN);
    pipe(gone);
    SHOW(write(gone[1], "last", 4));
    close(gone[1]);
    SHOW(tee(gone[0], ends[1], 10, 0));
    SHOW(splice(gone[0], NULL, fd, NULL, 10, 0));
    SHOW(splice(gone[0], NULL, fd, NULL, 10, 0));
    SHOW(tee(gone[0], ends[1], 10, 0));
    close(gone[0]);
    pipe(gone);
    close(gone[0]);
    SHOW(splice(fd, NULL, gone[1], NULL, 10, 0));
    SHOW(splice(ends[0], NULL, gone[1], NULL, 10, 0));
    SHOW(tee(ends[0], gone[1], 10, 0));
    empty("still there", ends[0]);
    struct iovec part = {bytes, 10};
    SHOW(vmsplice(gone[1], &part, 1, 0));
    signal(SIGPIPE, SIG_DFL);
    IN_CHILD("spliced to nobody", splice(fd, NULL, gone[1], NULL, 10, 0));
    close(gone[1]);
    close(fd);
    unlink("splice.data");
}

// Blocks until another process has done its part.
static void waits(void) {
    int fd = new_file("splice.data", 100000);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        usleep(20000);
        size_t total = 0;
        ssize_t got;
        while ((got = read(ends[0], other + total, sizeof(other) - total)) > 0) total += got;
        _exit(total != 100000 || memcmp(other, bytes, total));
    }
    loff_t at = 0;
    long total = 0, got;
    while (total < 100000 && (got = splice(fd, &at, ends[1], NULL, 100000 - total, 0)) > 0) total += got;
    printf("%ld spliced, at %ld\n", total, (long)at);
    close(ends[1]);
    int status;
    waitpid(child, &status, 0);
    printf("status %#x\n", status);
    close(ends[0]);
    pipe(ends);
    child = fork();
    if (child == 0) {
        usleep(20000);
        write(ends[1], "late", 4);
        _exit(0);
    }
    SHOW(tee(ends[0], more[1], 10, 0));
    SHOW(splice(ends[0], NULL, fd, NULL, 10, 0));
    empty("late", more[0]);
    waitpid(child, &status, 0);
    close(fd);
    unlink("splice.data");
}

int main(void) {
    pipe(full);
    pipe(ends);
    pipe(more);
    from_file();
    to_file();
    between_pipes();
    of_memory();
    wrong();
    on_socket();
    ends_gone();
    waits();
    return 0;
}
