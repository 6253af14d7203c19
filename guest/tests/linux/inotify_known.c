// Whoever has opened and read a file before somebody watches it, or its folder, is told of all the same.
// oracle: linux
// build: gcc, musl
// cores: 2
#include "test.h"
#include <sys/inotify.h>

static int in[2], out[2];

static void turn(int to, int from) {
    char c = 0;
    write(to, &c, 1), read(from, &c, 1);
}

static void reader(void) {
    char bytes[64], c;
    int fd = open("/tmp/known/file", O_RDWR);
    for (int n = 0; n < 4; n++) pread(fd, bytes, sizeof bytes, 0), read(fd, bytes, 1), lseek(fd, 0, SEEK_SET);
    turn(out[1], in[0]);
    pread(fd, bytes, sizeof bytes, 8);
    turn(out[1], in[0]);
    read(fd, bytes, 1);
    turn(out[1], in[0]);
    pwrite(fd, bytes, 4, 8);
    turn(out[1], in[0]);
    // Nobody watches any more.
    pread(fd, bytes, sizeof bytes, 8);
    write(out[1], &c, 1);
    _exit(0);
}

static void said(int fd, const char *when) {
    char bytes[1024];
    ssize_t length = read(fd, bytes, sizeof bytes);
    printf("%s:", when);
    if (length < 0) printf(" error %d", errno);
    for (char *at = bytes; at < bytes + length;) {
        struct inotify_event *event = (struct inotify_event *)at;
        printf(" %x %s", event->mask, event->len ? event->name : "-");
        at += sizeof *event + event->len;
    }
    printf("\n");
}

static void next(void) {
    char c = 0;
    write(in[1], &c, 1), read(out[0], &c, 1);
}

int main(void) {
    char c;
    mkdir("/tmp/known", 0700);
    int file = open("/tmp/known/file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int n = 0; n < 64; n++) write(file, "a line\n", 7);
    close(file);
    pipe(in), pipe(out);
    pid_t child = fork();
    if (child == 0) reader();
    read(out[0], &c, 1);
    int of_file = inotify_init1(IN_NONBLOCK), of_dir = inotify_init1(IN_NONBLOCK);
    int watch = inotify_add_watch(of_file, "/tmp/known/file", IN_ALL_EVENTS);
    next();
    said(of_file, "pread");
    inotify_rm_watch(of_file, watch);
    said(of_file, "removed");
    inotify_add_watch(of_dir, "/tmp/known", IN_ALL_EVENTS);
    next();
    said(of_dir, "read, in a folder");
    next();
    said(of_dir, "written, in a folder");
    close(of_dir);
    next();
    said(of_file, "nobody");
    waitpid(child, NULL, 0);
    unlink("/tmp/known/file"), rmdir("/tmp/known");
    return 0;
}
