// A reader that has read a file before, and others who change it in every way: each read sees what has become of it. And offsets of
// files that one process has opened, before and after others have them, too.
// oracle: linux
#include "must.h"
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { FILES = 20, LONG = 9000 };
static char bytes[3 * LONG];

// Lets a child do one thing, and waits for its end.
#define OTHER(...)                  \
    do {                            \
        pid_t child = fork();       \
        MUST(child >= 0);           \
        if (child == 0) {           \
            __VA_ARGS__;            \
            _exit(0);               \
        }                           \
        int status;                 \
        MUST(waitpid(child, &status, 0) == child && status == 0); \
    } while (0)

static void name_of(char *name, int n) { sprintf(name, "/tmp/known_%d", n); }

static int open_n(int n, int flags) {
    char name[64];
    name_of(name, n);
    int fd = open(name, flags, 0644);
    MUST(fd >= 0);
    return fd;
}

static void write_n(int n, int flags, long at, const char *what, long length) {
    int fd = open_n(n, flags | O_WRONLY);
    MUST(pwrite(fd, what, length, at) == length);
    close(fd);
}

static void look(const char *what, int fd) {
    memset(bytes, '?', sizeof bytes);
    long got = pread(fd, bytes, sizeof bytes, 0), sum = 0;
    for (long n = 0; n < got; n++) sum += (unsigned char)bytes[n] * (n % 7 + 1);
    struct stat status;
    MUST(fstat(fd, &status) == 0);
    printf("%-28s %ld bytes, sum %ld, behind 8,000 %ld, behind the end %ld, size %ld\n", what, got, sum,
           (long)pread(fd, bytes, 100, 8000), (long)pread(fd, bytes, 100, got), (long)status.st_size);
}

// Reads until it knows the file.
static void get_to_know(int fd) {
    for (int i = 0; i < 4; i++) MUST(pread(fd, bytes, 100, 0) >= 0);
}

static void changes_by_others(void) {
    static char as[LONG], bs[LONG];
    memset(as, 'a', LONG), memset(bs, 'b', LONG);
    write_n(0, O_CREAT | O_TRUNC, 0, as, LONG);
    int fd = open_n(0, O_RDONLY);
    get_to_know(fd), look("as it was made", fd);
    OTHER(write_n(0, O_APPEND, 0, bs, 500));
    look("appended to", fd), get_to_know(fd);
    OTHER(write_n(0, 0, LONG + 1000, bs, 10));
    look("written to behind the end", fd), get_to_know(fd);
    OTHER(MUST(truncate("/tmp/known_0", 100) == 0));
    look("cut", fd), get_to_know(fd);
    OTHER(MUST(truncate("/tmp/known_0", 2 * LONG) == 0));
    look("longer", fd), get_to_know(fd);
    OTHER(write_n(0, 0, 50, bs, 100));
    look("overwritten", fd), get_to_know(fd);
    OTHER(write_n(0, O_TRUNC, 0, as, 3));
    look("opened to be made anew", fd), get_to_know(fd);
    OTHER(int other = open_n(0, O_RDWR); MUST(posix_fallocate(other, 0, 5000) == 0));
    look("allocated", fd), get_to_know(fd);
    OTHER(int other = open_n(0, O_RDWR);
          MUST(fallocate(other, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0));
    look("with a hole", fd), get_to_know(fd);
    OTHER(int other = open_n(0, O_RDWR);
          char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
          MUST(at != MAP_FAILED); memset(at, 'm', 10));
    look("stored to where it is mapped", fd), get_to_know(fd);
    // It is removed, and its number may be that of another one.
    OTHER(MUST(unlink("/tmp/known_0") == 0));
    write_n(0, O_CREAT, 0, bs, 77);
    look("without a name", fd);
    close(fd);
    OTHER(MUST(unlink("/tmp/known_0") == 0));
    write_n(0, O_CREAT, 0, as, 78);
    fd = open_n(0, O_RDONLY);
    look("another one of that name", fd), get_to_know(fd);
    OTHER(write_n(1, O_CREAT, 0, bs, 79); MUST(rename("/tmp/known_1", "/tmp/known_0") == 0));
    look("replaced", fd);
    close(fd);
}

// More files than are known at a time; others change each in turn, and all know all of them.
static void many_readers(void) {
    int fds[FILES], sizes[FILES], go[2], done[2];
    for (int n = 0; n < FILES; n++) {
        write_n(n, O_CREAT | O_TRUNC, 0, "0123456789", sizes[n] = 10);
        fds[n] = open_n(n, O_RDONLY);
    }
    MUST(pipe(go) == 0 && pipe(done) == 0);
    enum { READERS = 3, ROUNDS = 40 };
    for (int reader = 0; reader < READERS; reader++) {
        if (fork() > 0) continue;
        for (int round = 0; round < ROUNDS; round++) {
            int turn[FILES];
            MUST(read(go[0], turn, sizeof turn) == sizeof turn);
            char wrong = 0;
            for (int again = 0; again < 3; again++)
                for (int n = 0; n < FILES; n++) wrong |= pread(fds[n], bytes, 1000, 0) != turn[n];
            MUST(write(done[1], &wrong, 1) == 1);
        }
        _exit(0);
    }
    long wrongs = 0;
    unsigned random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 1 + round % 5; k++) {
            random = random * 1103515245 + 12345;
            int n = (random >> 16) % FILES, fd = open_n(n, O_WRONLY);
            sizes[n] = (random >> 8) % 900;
            MUST(ftruncate(fd, sizes[n]) == 0);
            close(fd);
        }
        for (int reader = 0; reader < READERS; reader++) MUST(write(go[1], sizes, sizeof sizes) == sizeof sizes);
        for (int reader = 0; reader < READERS; reader++) {
            char wrong;
            MUST(read(done[0], &wrong, 1) == 1);
            wrongs += wrong;
        }
    }
    while (wait(NULL) > 0) continue;
    printf("%d readers of %d files, %d rounds: %ld wrong\n", READERS, FILES, ROUNDS, wrongs);
    for (int n = 0; n < FILES; n++) {
        char name[64];
        name_of(name, n);
        close(fds[n]), MUST(unlink(name) == 0);
    }
}

static void where(const char *what, int fd) { printf("%-36s at %ld\n", what, (long)lseek(fd, 0, SEEK_CUR)); }

static void refused(const char *what, long result) { printf("%s: %ld, errno %d\n", what, result, errno); }

static void offsets(void) {
    for (int n = 0; n < 2600; n++) bytes[n] = 'a' + n % 26;
    write_n(0, O_CREAT | O_TRUNC, 0, bytes, 2600);
    int fd = open_n(0, O_RDWR);
    char some[11] = "";
    MUST(read(fd, some, 10) == 10);
    printf("read %s, ", some), where("then", fd);
    MUST(read(fd, some, 10) == 10);
    printf("read %s, ", some), where("then", fd);
    OTHER(MUST(read(fd, some, 10) == 10));
    where("a child has read 10 more", fd);
    MUST(read(fd, some, 10) == 10);
    printf("read %s, ", some), where("then", fd);
    OTHER(MUST(lseek(fd, 1300, SEEK_SET) == 1300));
    where("a child has gone to 1,300", fd);
    close(fd);
    fd = open_n(0, O_RDWR);
    for (int i = 0; i < 3; i++) MUST(read(fd, some, 10) == 10);
    MUST(write(fd, "XYZ", 3) == 3);
    where("read 30, written 3", fd);
    MUST(read(fd, some, 10) == 10);
    printf("read %s, ", some), where("then", fd);
    int copy = dup(fd);
    MUST(read(copy, some, 10) == 10);
    where("read 10 by a duplicate", fd);
    int ends[2];
    MUST(pipe(ends) == 0 && sendfile(ends[1], fd, NULL, 100) == 100);
    where("sent 100", fd);
    MUST(lseek(fd, -10, SEEK_END) == 2590);
    MUST(read(fd, some, 11) == 10);
    where("the last 10", fd);
    printf("at the end %ld, ", (long)read(fd, some, 10)), where("still", fd);
    refused("to -1", lseek(fd, -2601, SEEK_CUR));
    MUST(lseek(fd, 5000, SEEK_SET) == 5000);
    printf("behind the end %ld, ", (long)read(fd, some, 10)), where("still", fd);
    pid_t child = vfork();
    if (child == 0) _exit(read(fd, some, 10));
    MUST(waitpid(child, NULL, 0) == child);
    MUST(write(fd, "!", 1) == 1);
    where("written 1 behind the end", fd);
    close(copy), close(fd);
    fd = open_n(0, O_RDWR | O_APPEND);
    MUST(read(fd, some, 10) == 10 && write(fd, "?", 1) == 1);
    where("appended 1", fd);
    close(fd);
    fd = open_n(0, O_WRONLY);
    refused("not for reading", read(fd, some, 10));
    refused("nor at a place", pread(fd, some, 10, 0));
    close(fd);
    MUST(unlink("/tmp/known_0") == 0);
}

// A program that is executed goes on where this one was.
static void executed(char *self) {
    write_n(0, O_CREAT | O_TRUNC, 0, "0123456789abcdef", 16);
    int fd = open_n(0, O_RDONLY);
    char some[6] = "";
    MUST(read(fd, some, 5) == 5 && fd < 10);
    char number[] = {'0' + fd, 0};
    fflush(stdout);
    OTHER(execl(self, self, number, NULL));
    where("executed, by a child", fd);
    fflush(stdout);
    execl(self, self, number, NULL);
}

static void access_times(void) {
    write_n(0, O_CREAT | O_TRUNC, 0, "12345", 5);
    int fd = open_n(0, O_RDONLY);
    get_to_know(fd);
    struct stat status;
    OTHER(usleep(20000); write_n(0, 0, 0, "abc", 3));
    get_to_know(fd);
    MUST(fstat(fd, &status) == 0);
    long ns = (status.st_atim.tv_sec - status.st_mtim.tv_sec) * 1000000000 + status.st_atim.tv_nsec -
              status.st_mtim.tv_nsec;
    printf("read after it was written: %d\n", ns >= 0);
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    OTHER(MUST(utimensat(AT_FDCWD, "/tmp/known_0", times, 0) == 0));
    get_to_know(fd);
    MUST(fstat(fd, &status) == 0);
    printf("read after its times were set: %d\n", status.st_atim.tv_sec > 1000);
    close(fd);
    MUST(unlink("/tmp/known_0") == 0);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        char some[6] = "";
        MUST(read(argv[1][0] - '0', some, 5) == 5);
        printf("goes on with %s\n", some);
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    changes_by_others();
    many_readers();
    offsets();
    access_times();
    executed(argv[0]);
}
