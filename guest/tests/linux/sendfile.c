// sendfile and copy_file_range: what moves, offsets, and every error.
// oracle: linux
#include "letters.h"
#include <sys/resource.h>
#include <sys/sendfile.h>

static unsigned sum(int fd) {
    unsigned sum = 1;
    ssize_t got = pread(fd, other, sizeof(other), 0);
    for (ssize_t i = 0; i < got; i++) sum = sum * 31 + (unsigned char)other[i];
    return sum;
}

static void show(const char *what, int in, int out, off_t at, off_t to) {
    struct stat st;
    fstat(out, &st);
    printf("%s: in at %ld, out at %ld, offsets %ld %ld, %ld bytes, sum %08x\n", what, (long)lseek(in, 0, SEEK_CUR),
           (long)lseek(out, 0, SEEK_CUR), (long)at, (long)to, (long)st.st_size, sum(out));
}

static void sends(void) {
    int in = new_file("send.in", 50000), out = new_file("send.out", 10), ends[2];
    off_t at = 100;
    SHOW(sendfile(out, in, NULL, 5));
    show("five", in, out, at, 0);
    SHOW(sendfile(out, in, &at, 20000));
    show("by an offset", in, out, at, 0);
    at = 49990;
    SHOW(sendfile(out, in, &at, 100));
    SHOW(sendfile(out, in, &at, 100));
    at = 1 << 20;
    SHOW(sendfile(out, in, &at, 100));
    show("the end", in, out, at, 0);
    SHOW(sendfile(out, in, NULL, 0));
    SHOW(sendfile(out, in, &at, 0));
    at = -1;
    SHOW(sendfile(out, in, &at, 1));
    at = 0x7fffffffffffffff;
    SHOW(sendfile(out, in, &at, 1));
    SHOW(sendfile(out, in, (void *)8, 1));
    SHOW(sendfile(out, -1, NULL, 1));
    SHOW(sendfile(-1, in, NULL, 1));
    SHOW(sendfile(-1, -1, NULL, 0));
    pipe(ends);
    at = 0;
    SHOW(write(ends[1], "x", 1));
    SHOW(sendfile(out, ends[0], &at, 1));
    SHOW(sendfile(ends[0], in, NULL, 1));
    SHOW(sendfile(ends[1], in, NULL, 3));
    SHOW(read(ends[0], other, 10));
    int only_read = open("send.out", O_RDONLY), only_write = open("send.in", O_WRONLY), directory = open(".", O_RDONLY);
    int null = open("/dev/null", O_RDWR), path = open("send.in", O_PATH);
    SHOW(sendfile(only_read, in, NULL, 1));
    SHOW(sendfile(out, only_write, NULL, 1));
    SHOW(sendfile(out, directory, NULL, 1));
    SHOW(sendfile(directory, in, NULL, 1));
    SHOW(sendfile(null, in, NULL, 1000));
    SHOW(sendfile(out, path, NULL, 1));
    SHOW(sendfile(path, in, NULL, 1));
    int append = open("send.out", O_WRONLY | O_APPEND);
    SHOW(sendfile(append, in, NULL, 1));
    // In place.
    at = 10;
    SHOW(lseek(in, 20, SEEK_SET));
    SHOW(sendfile(in, in, &at, 5));
    show("in itself", in, in, at, 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    at = 0;
    SHOW(sendfile(ends[1], in, &at, 50000));
    SHOW(sendfile(ends[1], in, &at, 50000) < 50000);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    SHOW(sendfile(ends[1], in, NULL, 5));
    int all[] = {in, out, ends[1], only_read, only_write, directory, null, path, append};
    for (int i = 0; i < 9; i++) close(all[i]);
}

static void copies(void) {
    int in = new_file("send.in", 50000), out = new_file("send.out", 10), ends[2];
    off64_t at = 100, to = 5;
    SHOW(copy_file_range(in, NULL, out, NULL, 5, 0));
    show("five", in, out, at, to);
    SHOW(copy_file_range(in, &at, out, &to, 20000, 0));
    show("by offsets", in, out, at, to);
    at = 49990;
    SHOW(copy_file_range(in, &at, out, NULL, 100, 0));
    SHOW(copy_file_range(in, &at, out, NULL, 100, 0));
    at = 0, to = 100000;
    SHOW(copy_file_range(in, &at, out, &to, 10, 0));
    show("a hole", in, out, at, to);
    SHOW(copy_file_range(in, NULL, out, NULL, 0, 0));
    SHOW(copy_file_range(in, NULL, out, NULL, 1, 1));
    at = -1;
    SHOW(copy_file_range(in, &at, out, NULL, 1, 0));
    at = 0, to = -1;
    SHOW(copy_file_range(in, &at, out, &to, 1, 0));
    at = 0x7fffffffffffffff, to = 0;
    SHOW(copy_file_range(in, &at, out, &to, 1, 0));
    at = 0, to = 0x7fffffffffffffff;
    SHOW(copy_file_range(in, &at, out, &to, 1, 0));
    SHOW(copy_file_range(in, (void *)8, out, NULL, 1, 0));
    SHOW(copy_file_range(in, NULL, out, (void *)8, 1, 0));
    SHOW(copy_file_range(-1, NULL, out, NULL, 1, 0));
    SHOW(copy_file_range(in, NULL, -1, NULL, 1, 0));
    pipe(ends);
    SHOW(copy_file_range(ends[0], NULL, out, NULL, 1, 0));
    SHOW(copy_file_range(in, NULL, ends[1], NULL, 1, 0));
    int only_read = open("send.out", O_RDONLY), only_write = open("send.in", O_WRONLY), directory = open(".", O_RDONLY);
    int null = open("/dev/null", O_RDWR), path = open("send.in", O_PATH);
    SHOW(copy_file_range(in, NULL, only_read, NULL, 1, 0));
    SHOW(copy_file_range(only_write, NULL, out, NULL, 1, 0));
    SHOW(copy_file_range(directory, NULL, out, NULL, 1, 0));
    SHOW(copy_file_range(in, NULL, directory, NULL, 1, 0));
    SHOW(copy_file_range(null, NULL, out, NULL, 1, 0));
    SHOW(copy_file_range(in, NULL, null, NULL, 1, 0));
    SHOW(copy_file_range(path, NULL, out, NULL, 1, 0));
    int append = open("send.out", O_WRONLY | O_APPEND);
    SHOW(copy_file_range(in, NULL, append, NULL, 1, 0));
    // In itself.
    at = 10, to = 12;
    SHOW(copy_file_range(in, &at, in, &to, 5, 0));
    to = 15;
    SHOW(copy_file_range(in, &at, in, &to, 5, 0));
    at = 49999, to = 50002;
    SHOW(copy_file_range(in, &at, in, &to, 5, 0));
    show("in itself", in, in, at, to);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {1000, RLIM_INFINITY};
    SHOW(setrlimit(RLIMIT_FSIZE, &limit));
    at = 0, to = 990;
    SHOW(copy_file_range(in, &at, out, &to, 100, 0));
    SHOW(copy_file_range(in, &at, out, &to, 100, 0));
    lseek(out, 995, SEEK_SET);
    at = 0;
    SHOW(sendfile(out, in, &at, 100));
    SHOW(sendfile(out, in, &at, 100));
    int all[] = {in, out, ends[0], ends[1], only_read, only_write, directory, null, path, append};
    for (int i = 0; i < 10; i++) close(all[i]);
}

int main(void) {
    sends();
    copies();
    unlink("send.in");
    unlink("send.out");
    return 0;
}
