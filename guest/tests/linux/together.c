// Eight processes on four cores do random operations on files, shared memory, pipes and memory of their own at once, each compared with a model that
// all share: what is under one lock is changed by one process at a time, everything else at once. Arguments: seed, operations in all.
//
// args: 1 6000
// long-args: 1 1000000
// cores: 4
// build: gcc, musl
// timeout: 300
// oracle: linux
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

enum { PROCESSES = 8, FILES = 24, MOST = 40960, SHARED = 96, PIPES = 12, OWN = 48, WORDS = PAGE / 8 };

struct file {
    pthread_mutex_t lock;
    int exists, name, mode;
    unsigned size;
    uint64_t ino;
    unsigned char bytes[MOST];
};
struct page { pthread_mutex_t lock; uint64_t value; };
struct channel { pthread_mutex_t lock; uint64_t written, read; };
static struct all {
    struct file files[FILES];
    struct page pages[SHARED];
    struct channel pipes[PIPES];
    atomic_long operations, kinds[24];
} *all;
static uint64_t *memory;
static int ends[PIPES][2];
static long wanted;

// This process.
static int me;
static unsigned long seed;
static uint64_t *own, values[OWN], number;

static unsigned below(unsigned bound) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (seed >> 11) % bound;
}

static void die(int line, const char *what, long at, long has, long should) {
    printf("FAILED at line %d, process %d, operation %ld: %s %ld: has %ld, must have %ld, errno %d\n", line, me, all->operations, what, at, has, should,
           errno);
    fflush(stdout);
    kill(0, SIGKILL);
}
#define SAME(what, at, has, should) \
    do { \
        long h_ = (long)(has), s_ = (long)(should); \
        if (h_ != s_) die(__LINE__, what, at, h_, s_); \
    } while (0)

static void lock(pthread_mutex_t *mutex) { SAME("lock", 0, pthread_mutex_lock(mutex), 0); }
static void unlock(pthread_mutex_t *mutex) { SAME("unlock", 0, pthread_mutex_unlock(mutex), 0); }

// Files.

static char *name_of(int file, int which) {
    static char names[2][64];
    snprintf(names[which & 1], sizeof names[0], "/tmp/together/%c%d", "abc"[which], file);
    return names[which & 1];
}

static int open_it(int number, int flags) {
    int fd = open(name_of(number, all->files[number].name), flags);
    if (fd < 0) die(__LINE__, "open of file", number, fd, 0);
    return fd;
}

static void compare(int number, unsigned from, const unsigned char *bytes, unsigned len) {
    struct file *file = &all->files[number];
    for (unsigned n = 0; n < len; n++) SAME("byte of file", number * 1000000l + from + n, bytes[n], file->bytes[from + n]);
}

static void fill(unsigned char *bytes, unsigned len) {
    for (unsigned n = 0; n < len; n++) bytes[n] = ++number * 13 + me;
}

// What of the model is behind its end is zeros.
static void resize(struct file *file, unsigned size) {
    if (size < file->size) memset(file->bytes + size, 0, file->size - size);
    file->size = size;
}

static void on_file(int kind, int number) {
    static unsigned char bytes[MOST];
    struct file *file = &all->files[number];
    struct stat stat;
    unsigned from = below(MOST), len = 1 + below(below(8) ? 300 : 9000);
    if (from + len > MOST) len = MOST - from;
    if (!file->exists) {
        SAME("open of no file", number, open(name_of(number, file->name), O_RDONLY), -1);
        SAME("errno of no file", number, errno, ENOENT);
        int fd = open(name_of(number, file->name), O_RDWR | O_CREAT | O_EXCL, 0600 | below(0100));
        if (fd < 0 || fstat(fd, &stat)) die(__LINE__, "creation of file", number, fd, 0);
        close(fd);
        SAME("size of a new file", number, stat.st_size, 0);
        file->exists = 1, file->mode = stat.st_mode, file->ino = stat.st_ino;
        resize(file, 0);
        return;
    }
    switch (kind) {
    case 0: case 1: {
        int fd = open_it(number, O_WRONLY);
        fill(bytes, len);
        SAME("pwrite to file", number, pwrite(fd, bytes, len, from), len);
        if (from + len > file->size) file->size = from + len;
        memcpy(file->bytes + from, bytes, len);
        close(fd);
        break;
    }
    case 2: case 3: {
        int fd = open_it(number, O_RDONLY);
        unsigned there = from >= file->size ? 0 : file->size - from < len ? file->size - from : len;
        SAME("pread of file", number, pread(fd, bytes, len, from), there);
        compare(number, from, bytes, there);
        close(fd);
        break;
    }
    case 4: {
        SAME("truncate of file", number, truncate(name_of(number, file->name), from), 0);
        resize(file, from);
        break;
    }
    case 5: {
        if (len > MOST - file->size) len = MOST - file->size;
        int fd = open_it(number, O_WRONLY | O_APPEND);
        fill(bytes, len);
        SAME("append to file", number, write(fd, bytes, len), len);
        memcpy(file->bytes + file->size, bytes, len);
        file->size += len;
        close(fd);
        break;
    }
    case 6: {
        if (below(4)) break;
        SAME("unlink of file", number, unlink(name_of(number, file->name)), 0);
        file->exists = 0;
        break;
    }
    case 7: {
        int other = !file->name;
        SAME("rename of file", number, rename(name_of(number, file->name), name_of(number, other)), 0);
        SAME("old name of file", number, access(name_of(number, file->name), F_OK), -1);
        file->name = other;
        break;
    }
    case 8: {
        int mode = 0600 | below(0100);
        SAME("chmod of file", number, chmod(name_of(number, file->name), mode), 0);
        file->mode = (file->mode & S_IFMT) | mode;
        break;
    }
    case 9: {
        if (file->size == 0) break;
        int fd = open_it(number, O_RDWR);
        unsigned char *map = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) die(__LINE__, "mapping of file", number, -1, 0);
        close(fd);
        from %= file->size;
        if (len > file->size - from) len = file->size - from;
        compare(number, from, map + from, len);
        fill(map + from, len);
        memcpy(file->bytes + from, map + from, len);
        SAME("munmap of file", number, munmap(map, MOST), 0);
        break;
    }
    case 10: {
        int fd = open_it(number, O_WRONLY);
        SAME("hole in file", number, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, len), 0);
        memset(file->bytes + from, 0, len);
        close(fd);
        break;
    }
    case 11: {
        char third[64];
        snprintf(third, sizeof third, "%s", name_of(number, 2));
        SAME("link of file", number, link(name_of(number, file->name), third), 0);
        SAME("stat of link", number, lstat(third, &stat), 0);
        SAME("names of file", number, stat.st_nlink, 2);
        SAME("unlink of link", number, unlink(third), 0);
        break;
    }
    default: break;
    }
    if (!file->exists) return;
    SAME("stat of file", number, lstat(name_of(number, file->name), &stat), 0);
    SAME("size of file", number, stat.st_size, file->size);
    SAME("mode of file", number, stat.st_mode, file->mode);
    SAME("inode of file", number, stat.st_ino, file->ino);
    SAME("names of file", number, stat.st_nlink, 1);
}

// Memory: each word of a page follows from its value, 0 is zeros.

static void check_page(const char *what, int page, const uint64_t *at, uint64_t value) {
    for (int n = 0; n < WORDS; n += 7) SAME(what, page * 1000l + n, at[n], value ? value + n : 0);
}

static void fill_page(uint64_t *at, uint64_t value) {
    for (int n = 0; n < WORDS; n++) at[n] = value + n;
}

static void on_shared(int kind, int page) {
    struct page *model = &all->pages[page];
    uint64_t *at = memory + page * WORDS;
    check_page("shared page", page, at, model->value);
    switch (kind) {
    case 0: case 1: fill_page(at, model->value = ++number << 16 | me << 12); break;
    case 2:
        // Gives up what this process maps, and not what is there.
        SAME("DONTNEED of page", page, madvise(at, PAGE, MADV_DONTNEED), 0);
        check_page("shared page", page, at, model->value);
        break;
    case 3:
        SAME("REMOVE of page", page, madvise(at, PAGE, MADV_REMOVE), 0);
        model->value = 0;
        break;
    case 4:
        SAME("mprotect of page", page, mprotect(at, PAGE, PROT_READ), 0);
        check_page("shared page", page, at, model->value);
        SAME("mprotect of page", page, mprotect(at, PAGE, PROT_READ | PROT_WRITE), 0);
        break;
    default: break;
    }
}

static void on_own(int kind, int page) {
    uint64_t *at = own + page * WORDS;
    check_page("own page", page, at, values[page]);
    switch (kind) {
    case 0: case 1: case 2: fill_page(at, values[page] = ++number << 16 | me << 12); break;
    case 3:
        SAME("DONTNEED of own page", page, madvise(at, PAGE, MADV_DONTNEED), 0);
        values[page] = 0;
        break;
    case 4: {
        // All of it goes elsewhere.
        uint64_t *to = mremap(own, OWN * PAGE, 2 * OWN * PAGE, MREMAP_MAYMOVE);
        if (to == MAP_FAILED) die(__LINE__, "mremap", page, -1, 0);
        own = mremap(to, 2 * OWN * PAGE, OWN * PAGE, 0);
        SAME("mremap that shortens", page, (long)own, (long)to);
        break;
    }
    case 5: {
        if (below(6)) break;
        // A child has what was there, whatever becomes of it here; and what it writes is its own.
        fflush(stdout);
        int child = fork();
        if (child == 0) {
            for (int n = 0; n < OWN; n++) check_page("own page of a child", n, own + n * WORDS, values[n]);
            for (int n = 0; n < OWN; n += 3) fill_page(own + n * WORDS, 77);
            for (int n = 0; n < OWN; n++)
                if (n % 3) check_page("own page of a child, later", n, own + n * WORDS, values[n]);
            _exit(21 + me);
        }
        if (child < 0) die(__LINE__, "fork", page, child, 0);
        for (int n = 0; n < OWN; n += 2) fill_page(own + n * WORDS, values[n] = ++number << 16 | me << 12);
        int status;
        SAME("wait", page, waitpid(child, &status, 0), child);
        SAME("status of a child", page, status, (21 + me) << 8);
        for (int n = 0; n < OWN; n++) check_page("own page after a child", n, own + n * WORDS, values[n]);
        break;
    }
    default: break;
    }
}

static void on_pipe(int kind, int pipe) {
    struct channel *model = &all->pipes[pipe];
    unsigned char bytes[3000];
    uint64_t there = model->written - model->read;
    unsigned len = 1 + below(sizeof bytes);
    if (kind % 2) {
        // There is room for 16 pages at least, of which each may have one byte.
        if (there + len > 4096 * 3) return;
        for (unsigned n = 0; n < len; n++) bytes[n] = (model->written + n) * 31 + pipe;
        SAME("write to pipe", pipe, write(ends[pipe][1], bytes, len), len);
        model->written += len;
        return;
    }
    long got = read(ends[pipe][0], bytes, len);
    if (there == 0) {
        SAME("read of an empty pipe", pipe, got, -1);
        SAME("errno of an empty pipe", pipe, errno, EAGAIN);
        return;
    }
    SAME("read of pipe", pipe, got, there < len ? there : len);
    for (long n = 0; n < got; n++) SAME("byte of pipe", pipe, bytes[n], (unsigned char)((model->read + n) * 31 + pipe));
    model->read += got;
}

static void work(void) {
    own = mmap(NULL, OWN * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) die(__LINE__, "own memory", 0, -1, 0);
    while (atomic_fetch_add(&all->operations, 1) < wanted) {
        int what = below(4), kind = below(12), which;
        atomic_fetch_add(&all->kinds[what], 1);
        switch (what) {
        case 0:
            which = below(FILES);
            lock(&all->files[which].lock);
            on_file(kind, which);
            unlock(&all->files[which].lock);
            break;
        case 1:
            which = below(SHARED);
            lock(&all->pages[which].lock);
            on_shared(kind, which);
            unlock(&all->pages[which].lock);
            break;
        case 2:
            which = below(PIPES);
            lock(&all->pipes[which].lock);
            on_pipe(kind, which);
            unlock(&all->pipes[which].lock);
            break;
        default: on_own(kind, below(OWN));
        }
    }
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
    wanted = argc > 2 ? atol(argv[2]) : 6000;
    unsigned long first = seed * 0x9e3779b97f4a7c15;
    mkdir("/tmp/together", 0700);
    umask(0);
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory = mmap(NULL, SHARED * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || memory == MAP_FAILED) return 2;
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    for (int n = 0; n < FILES; n++) pthread_mutex_init(&all->files[n].lock, &shared);
    for (int n = 0; n < SHARED; n++) pthread_mutex_init(&all->pages[n].lock, &shared);
    for (int n = 0; n < PIPES; n++) {
        pthread_mutex_init(&all->pipes[n].lock, &shared);
        if (pipe2(ends[n], O_NONBLOCK)) return 2;
    }
    for (me = 1; me <= PROCESSES; me++) {
        fflush(stdout);
        if (fork() == 0) {
            seed = first + me * 7919;
            for (int n = 0; n < 20; n++) below(2);
            work();
            _exit(0);
        }
    }
    int status, ended = 0;
    while (wait(&status) > 0) ended += status == 0;
    me = 0;
    printf("processes that have ended well: %d\n", ended);
    // All is as the model says in the end.
    unsigned long long bytes = 0;
    static unsigned char contents[MOST + 1];
    for (int n = 0; n < FILES; n++) {
        if (!all->files[n].exists) continue;
        int fd = open_it(n, O_RDONLY);
        SAME("size of file", n, read(fd, contents, sizeof contents), all->files[n].size);
        compare(n, 0, contents, all->files[n].size);
        close(fd);
        unlink(name_of(n, all->files[n].name));
        bytes += all->files[n].size;
    }
    for (int n = 0; n < SHARED; n++) check_page("shared page", n, memory + n * WORDS, all->pages[n].value);
    for (int n = 0; n < PIPES; n++)
        for (all->operations = 0; all->pipes[n].read < all->pipes[n].written;) on_pipe(0, n);
    SAME("rmdir", 0, rmdir("/tmp/together"), 0);
    int kinds = 0;
    for (int n = 0; n < 4; n++) kinds += all->kinds[n] > wanted / 8;
    printf("of each kind many: %s\n", kinds == 4 && bytes ? "yes" : "no");
    printf("all as the model\n");
    return 0;
}
