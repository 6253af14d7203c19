// What is being executed is not written, and what is being written is not executed. Writing through
// descriptions that are only written, as large and as small as there are.
//
// build: gcc, musl
// oracle: linux
#include "test.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

// This program, as a file that users may read.
static int program;

// A copy of this program, which then waits until its standard input ends.
static pid_t run(const char *path, int *stop) {
    int ends[2], ready[2];
    pipe(ends), pipe(ready);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], 0), dup2(ready[1], 1);
        close(ends[0]), close(ends[1]), close(ready[0]), close(ready[1]);
        execl(path, path, "wait", NULL);
        dprintf(1, "%d", errno);
        _exit(1);
    }
    close(ends[0]), close(ready[1]);
    char answer[16] = "";
    read(ready[0], answer, sizeof answer - 1);
    close(ready[0]);
    printf("it says: %s\n", answer);
    *stop = ends[1];
    return pid;
}

static void copy(const char *to) {
    int out = open(to, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    struct stat stat;
    fstat(program, &stat);
    off_t at = 0;
    while (at < stat.st_size) {
        if (sendfile(out, program, &at, stat.st_size - at) <= 0) break;
    }
    CHECK(at == stat.st_size);
    close(out);
}

static void busy(uid_t user) {
    IN_CHILD("as a user", {
        setresgid(user, user, user), setresuid(user, user, user);
        char path[64];
        snprintf(path, sizeof path, "/tmp/busy-%d", (int)user);
        copy(path);
        int stop, fd;
        pid_t pid = run(path, &stop);
        SHOW(open(path, O_WRONLY));
        SHOW(open(path, O_RDWR));
        SHOW(open(path, O_RDONLY | O_TRUNC));
        SHOW(truncate(path, 0));
        SHOW(fd = open(path, O_RDONLY));
        SHOW(close(fd));
        SHOW(access(path, W_OK));
        // A child shares the text; it is over only with both.
        close(stop);
        waitpid(pid, NULL, 0);
        SHOW(close(open(path, O_RDWR)));
        int writer = open(path, O_WRONLY);
        SHOW(execl(path, path, "never", NULL));
        pid = run(path, &stop);
        waitpid(pid, NULL, 0);
        close(stop);
        // Somebody else has the description, too.
        pid_t holder = fork();
        if (holder == 0) {
            for (;;) pause();
        }
        close(writer);
        SHOW(execl(path, path, "never", NULL));
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
        pid = run(path, &stop);
        close(stop);
        waitpid(pid, NULL, 0);
        SHOW(unlink(path));
    });
}

static void fill(char *bytes, size_t count, int seed) {
    for (size_t i = 0; i < count; i++) bytes[i] = (char)(i * 7 + (i >> 12) + seed);
}

// Everything that writes, to a file that is only written.
static void write_only(void) {
    const size_t big = 9 << 20;
    char *from = malloc(big), *back = malloc(big);
    fill(from, big, 1);
    int fd = open("/tmp/only", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    SHOW(write(fd, from, 1));
    SHOW(write(fd, from + 1, 28672 - 1));
    SHOW(write(fd, from + 28672, 28673));
    SHOW(write(fd, from + 57345, big - 57345));
    SHOW(pwrite(fd, "pwrite", 6, 12345));
    SHOW(lseek(fd, 0, SEEK_CUR));
    struct iovec parts[] = {{"one", 3}, {"", 0}, {"three", 5}};
    SHOW(writev(fd, parts, 3));
    SHOW(pwritev(fd, parts, 3, 50000));
    SHOW(read(fd, back, 1));
    SHOW(write(fd, (void *)8, 10));
    SHOW(pwrite(fd, from, 10, -1));
    SHOW(lseek(fd, 0, SEEK_CUR));
    char *half = pages(2, PROT_READ | PROT_WRITE);
    memset(half, 'h', 2 * PAGE);
    munmap(half + PAGE, PAGE);
    SHOW(write(fd, half + PAGE - 5, 10));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW_PTR(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0));
    SHOW(ftruncate(fd, (long)big + 100));
    close(fd);
    memcpy(from + 12345, "pwrite", 6);
    memcpy(from + 50000, "onethree", 8);
    fd = open("/tmp/only", O_RDONLY);
    size_t done = 0;
    while (done < big) {
        ssize_t n = read(fd, back + done, big - done);
        if (n <= 0) break;
        done += n;
    }
    CHECK(done == big);
    CHECK(memcmp(from, back, big) == 0);
    memset(back, 1, 100);
    SHOW(read(fd, back, 200));
    CHECK(memcmp(back, "onethreehhhhh\0\0\0", 16) == 0);
    close(fd);
    fd = open("/tmp/only", O_WRONLY | O_APPEND);
    SHOW(ftruncate(fd, 3));
    SHOW(write(fd, "end", 3));
    SHOW(pwrite(fd, "more", 4, 0));
    SHOW(write(fd, from, 100000));
    SHOW(lseek(fd, 0, SEEK_CUR));
    close(fd);
    fd = open("/tmp/only", O_RDONLY);
    SHOW(read(fd, back, 10));
    CHECK(memcmp(back + 3, "endmore", 7) == 0);
    SHOW(pread(fd, back, 200000, 10));
    CHECK(memcmp(back, from, 100000) == 0);
    close(fd);
    unlink("/tmp/only");
    free(from), free(back);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        char byte;
        write(1, "running", 7);
        while (read(0, &byte, 1) > 0) continue;
        return 0;
    }
    program = open("/proc/self/exe", O_RDONLY);
    busy(1000);
    busy(1001);
    write_only();
    return 0;
}
