// What stat and fstat say of files for which a process asks again and again is what they are, whoever has changed them, the paths that lead
// to them, or who asks. Beside each answer is that of statx.
// oracle: linux
// cores: 4
// build: gcc, musl
// args: 300
// long-args: 1500
//
//   known_stat STEPS
#include "must.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FILES = 12, AGAIN = 6 };
static unsigned long wrongs, hashed = 14695981039346656037ul;
static uint64_t state = 20261129;
static unsigned steps_done;

static unsigned below(unsigned end) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (state >> 33) % end;
}

// Of as many steps as there are in any case.
static void fold(uint64_t value) {
    if (steps_done < 300) hashed = (hashed ^ value) * 1099511628211ul;
}

// struct statx, as far as it is looked at.
struct times {
    int64_t seconds;
    uint32_t ns;
    int32_t spare;
};
struct extended {
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode, spare;
    uint64_t ino, size, blocks, attributes_mask;
    struct times atime, btime, ctime, mtime;
    uint32_t rdev[2], dev[2];
    uint64_t more[14];
};

static void differ(const char *what, const char *path, long here, long there) {
    if (wrongs++ < 10) printf("WRONG: %s of %s: %ld, and by statx %ld\n", what, path, here, there);
}

// Is it what statx says, which is always asked?
static void compare(const char *path, int fd, int flags, const struct stat *is, int result) {
    struct extended asked_for;
    int other = syscall(SYS_statx, fd, path, flags, 0x7ff, &asked_for);
    if (result || other) {
        if (result != other) differ("result", path, result, other);
        return;
    }
#define SAME(what, here, there) \
    if ((long)(here) != (long)(there)) differ(what, path, here, there)
    SAME("inode", is->st_ino, asked_for.ino);
    SAME("size", is->st_size, asked_for.size);
    SAME("mode", is->st_mode, asked_for.mode);
    SAME("links", is->st_nlink, asked_for.nlink);
    SAME("owner", is->st_uid, asked_for.uid);
    SAME("group", is->st_gid, asked_for.gid);
    SAME("blocks", is->st_blocks, asked_for.blocks);
    SAME("access", is->st_atim.tv_sec, asked_for.atime.seconds);
    SAME("access", is->st_atim.tv_nsec, asked_for.atime.ns);
    SAME("change", is->st_ctim.tv_nsec, asked_for.ctime.ns);
    SAME("modification", is->st_mtim.tv_sec, asked_for.mtime.seconds);
    SAME("modification", is->st_mtim.tv_nsec, asked_for.mtime.ns);
}

// Of an open file, by another way.
static void compare_open(int fd, const struct stat *is, int result) {
    char link[32];
    sprintf(link, "/proc/self/fd/%d", fd);
    compare(link, AT_FDCWD, 0, is, result);
}

static void name_of(char *name, unsigned n) { sprintf(name, "/tmp/stat/%c/%u", 'a' + n % 3, n); }

// One change, of anything.
static void change(unsigned n, unsigned how, unsigned by) {
    char name[64], other[64];
    name_of(name, n), name_of(other, (n + by) % FILES);
    int fd = -1;
    struct timespec times[2] = {{by, 5}, {2 * by, 7}};
    // Some of it fails, as on Linux.
    switch (how) {
    case 0: fd = open(name, O_WRONLY | O_CREAT, 0644), MUST(fd < 0 || write(fd, name, 10) == 10); break;
    case 1: fd = open(name, O_WRONLY | O_APPEND), MUST(fd < 0 || write(fd, name, 10) == 10); break;
    case 2: truncate(name, by * 700); break;
    case 3: chmod(name, 0400 + by); break;
    case 4: MUST(chown(name, by, by + 1) == 0 || errno == ENOENT || errno == ELOOP); break;
    case 5: utimensat(AT_FDCWD, name, times, 0); break;
    case 6: link(name, other); break;
    case 7: unlink(name); break;
    case 8: rename(name, other); break;
    case 9:
        fd = open(name, O_RDWR);
        if (fd >= 0) {
            char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            struct stat is;
            MUST(at != MAP_FAILED && fstat(fd, &is) == 0);
            if (is.st_size > 0) at[0] = by;
            munmap(at, 4096);
        }
        break;
    case 10: rename("/tmp/stat/a", "/tmp/stat/x"), rename("/tmp/stat/b", "/tmp/stat/a"), rename("/tmp/stat/x", "/tmp/stat/b"); break;
    case 11: chmod("/tmp/stat/a", by % 2 ? 0755 : 0700); break;
    case 12: unlink(name), symlink(by % 2 ? "1" : "../b/1", name); break;
    case 13:
        fd = open(name, O_RDWR);
        if (fd >= 0) fallocate(fd, by % 2 ? 0 : FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
        break;
    case 14: fd = open(name, O_RDONLY); if (fd >= 0) MUST(read(fd, other, 5) >= 0); break;
    case 15: unlink("/tmp/stat/l"), symlink(by % 2 ? "a" : "b", "/tmp/stat/l"); break;
    }
    if (fd >= 0) close(fd);
}

static struct {
    unsigned n, how, by;
} wanted;
static int to[2], done[2];

static void serve(void) {
    while (read(to[0], &wanted, sizeof wanted) == sizeof wanted) {
        change(wanted.n, wanted.how, wanted.by);
        MUST(write(done[1], "", 1) == 1);
    }
    _exit(0);
}

static void look(unsigned n, int fd) {
    char name[64], by_link[64];
    name_of(name, n);
    sprintf(by_link, "/tmp/stat/l/%u", n);
    struct stat is, then;
    for (int i = 0; i < AGAIN; i++) {
        int result = stat(name, &is);
        compare(name, AT_FDCWD, 0, &is, result);
        if (i == 0 && result == 0) fold(is.st_size), fold(is.st_mode), fold(is.st_nlink), fold(is.st_uid);
        if (i == 0) fold(result);
        result = lstat(name, &then);
        compare(name, AT_FDCWD, AT_SYMLINK_NOFOLLOW, &then, result);
        result = stat(by_link, &then);
        compare(by_link, AT_FDCWD, 0, &then, result);
        if (fd >= 0) {
            result = fstat(fd, &then);
            compare_open(fd, &then, result);
        }
    }
    // Files that are opened one after the other, each to be looked at once.
    for (int i = 0; i < 3; i++) {
        char other[64];
        name_of(other, (n + i) % FILES);
        int own = open(other, O_RDONLY);
        if (own < 0) continue;
        int result = fstat(own, &then);
        compare_open(own, &then, result);
        close(own);
    }
    char *relative = strrchr(name, '/') + 1;
    for (int i = 0; i < AGAIN; i++) {
        int result = stat(relative, &then);
        compare(relative, AT_FDCWD, 0, &then, result);
    }
}

static void random_changes(unsigned steps) {
    MUST(pipe(to) == 0 && pipe(done) == 0);
    pid_t server = fork();
    MUST(server >= 0);
    if (server == 0) close(to[1]), serve();
    int fds[FILES];
    for (int n = 0; n < FILES; n++) fds[n] = -1;
    for (unsigned step = 0; step < steps; step++) {
        steps_done = step;
        unsigned n = below(FILES), how = below(16), by = 1 + below(40), here = below(3) == 0;
        if (below(5) == 0) {
            char name[64];
            name_of(name, n);
            if (fds[n] >= 0) close(fds[n]);
            fds[n] = open(name, O_RDONLY);
        }
        if (below(9) == 0) MUST(chdir(below(2) ? "/tmp/stat/a" : "/tmp/stat/b") == 0);
        look(n, fds[n]);
        wanted.n = below(2) ? n : below(FILES), wanted.how = how, wanted.by = by;
        char byte;
        if (here) change(wanted.n, how, by);
        else MUST(write(to[1], &wanted, sizeof wanted) == sizeof wanted && read(done[0], &byte, 1) == 1);
        int other = below(4) == 0;
        if (other) MUST(seteuid(1000) == 0);
        look(n, fds[n]);
        if (other) MUST(seteuid(0) == 0);
        if (below(40) == 0) {
            pid_t child = fork();
            MUST(child >= 0);
            if (child == 0) {
                unsigned long before = wrongs;
                look(n, fds[n]), change(n, how, by), look(n, fds[n]);
                _exit(wrongs != before);
            }
            int status;
            MUST(waitpid(child, &status, 0) == child);
            wrongs += status != 0;
            look(n, fds[n]);
        }
    }
    close(to[1]);
    MUST(waitpid(server, NULL, 0) == server);
    for (int n = 0; n < FILES; n++) close(fds[n]);
    MUST(chdir("/") == 0);
}

// A process changes times of one file, and has a path lead to another one; and says in shared memory how far it has come. What others see
// is at least that, and each is whole.
static struct {
    unsigned times, path, stop;
} *shared;

static void set_times(const char *name, long n) {
    struct timespec times[2] = {{n, 0}, {n, 0}};
    MUST(utimensat(AT_FDCWD, name, times, 0) == 0);
}

static void races(unsigned rounds) {
    enum { READERS = 3 };
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED);
    int fd = open("/tmp/stat/times", O_CREAT | O_RDWR, 0644);
    MUST(fd >= 0 && mkdir("/tmp/stat/d", 0755) == 0 && close(open("/tmp/stat/d/f", O_CREAT | O_RDWR, 0644)) == 0);
    set_times("/tmp/stat/times", 0), set_times("/tmp/stat/d/f", 0);
    pid_t readers[READERS];
    for (int reader = 0; reader < READERS; reader++) {
        readers[reader] = fork();
        MUST(readers[reader] >= 0);
        if (readers[reader]) continue;
        unsigned long before = wrongs;
        struct stat is;
        while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
            long least = __atomic_load_n(&shared->times, __ATOMIC_ACQUIRE);
            MUST(fstat(fd, &is) == 0);
            wrongs += is.st_mtim.tv_sec < least || is.st_atim.tv_sec != is.st_mtim.tv_sec;
            least = __atomic_load_n(&shared->times, __ATOMIC_ACQUIRE);
            MUST(stat("/tmp/stat/times", &is) == 0);
            wrongs += is.st_mtim.tv_sec < least || is.st_atim.tv_sec != is.st_mtim.tv_sec;
            least = __atomic_load_n(&shared->path, __ATOMIC_ACQUIRE);
            MUST(stat("/tmp/stat/d/f", &is) == 0);
            wrongs += is.st_mtim.tv_sec < least;
        }
        _exit(wrongs != before);
    }
    for (unsigned round = 1; round <= rounds; round++) {
        set_times("/tmp/stat/times", round);
        __atomic_store_n(&shared->times, round, __ATOMIC_RELEASE);
        MUST(close(open("/tmp/stat/d/g", O_CREAT | O_RDWR, 0644)) == 0);
        set_times("/tmp/stat/d/g", round);
        MUST(rename("/tmp/stat/d/g", "/tmp/stat/d/f") == 0);
        __atomic_store_n(&shared->path, round, __ATOMIC_RELEASE);
        // They are to get to know it.
        for (unsigned wait = 0; wait < below(3000); wait++) __asm__ volatile("pause");
        if (round % 16 == 0) usleep(500);
        if (round == rounds / 2) {
            // One ends in the middle of it.
            MUST(kill(readers[0], SIGKILL) == 0 && waitpid(readers[0], NULL, 0) == readers[0]);
        }
    }
    __atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
    int status, bad = 0;
    for (int reader = 1; reader < READERS; reader++) {
        MUST(waitpid(readers[reader], &status, 0) == readers[reader]);
        bad += status != 0;
    }
    printf("readers that have seen what had been something else: %d\n", bad);
    close(fd);
}

int main(int argc, char **argv) {
    unsigned steps = argc > 1 ? atoi(argv[1]) : 600;
    umask(022);
    MUST(mkdir("/tmp/stat", 0755) == 0);
    for (int n = 0; n < 3; n++) {
        char name[64];
        sprintf(name, "/tmp/stat/%c", 'a' + n);
        MUST(mkdir(name, 0755) == 0);
    }
    for (unsigned n = 0; n < FILES; n++) change(n, 0, 1);
    random_changes(steps);
    races(steps);
    printf("answers that were wrong: %lu; the first have been %lx\n", wrongs, hashed);
    for (int dir = 0; dir < 3; dir++)
        for (int n = 0; n < FILES; n++) {
            char name[64];
            sprintf(name, "/tmp/stat/%c/%d", 'a' + dir, n), unlink(name);
        }
    unlink("/tmp/stat/l"), unlink("/tmp/stat/times"), unlink("/tmp/stat/d/f");
    MUST(rmdir("/tmp/stat/a") == 0 && rmdir("/tmp/stat/b") == 0 && rmdir("/tmp/stat/c") == 0 && rmdir("/tmp/stat/d") == 0);
    MUST(rmdir("/tmp/stat") == 0);
}
