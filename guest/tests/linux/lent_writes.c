// A process writes to a file inside of its size again and again, and meanwhile others (and itself) look at the file and change it in
// every way there is: what they find is what was written, and its times are those of the last write, whoever asks by whatever call.
// oracle: linux
// cores: 4
// build: gcc, musl
// args: 400
// long-args: 3000
//
//   lent_writes STEPS
#include "must.h"
#include <pthread.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>

enum { FILES = 11, MOST = 24, AGAIN = 5, THREADS = 4, ROUNDS = 300 };
#define PATH "/tmp/lent_writes.%d"

static unsigned long wrongs;
// Times are as exact as the clock.
static int is_exact;
static uint64_t state = 20261130;

static unsigned below(unsigned end) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (state >> 33) % end;
}

static void wrong(const char *what, int file, long here, long there) {
    if (wrongs++ < 10) printf("WRONG: %s of file %d: %ld, not %ld\n", what, file, here, there);
}

static int64_t ns_of(struct timespec at) { return at.tv_sec * 1000000000l + at.tv_nsec; }

// Linux takes times of files from this clock, which shows when its last tick was.
static int64_t coarse(void) {
    struct timespec now;
    MUST(clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0);
    return ns_of(now);
}

static int64_t fine(void) {
    struct timespec now;
    MUST(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return ns_of(now);
}

// What the files are, in memory that all processes have.
struct model {
    size_t size;
    // The last write or change of the time, or exactly that, and the last change.
    int64_t written, exactly, changed;
    unsigned char bytes[MOST * PAGE];
};
static struct model *models;

static char *path_of(int number) {
    static char path[64];
    sprintf(path, PATH, number);
    return path;
}

// The times that a file has are those of the last write.
static void look_at_times(int number, const struct stat *is) {
    struct model *model = &models[number];
    int64_t modified = ns_of(is->st_mtim), changed = ns_of(is->st_ctim), now = fine();
    if (model->exactly && modified != model->exactly) wrong("time that was set", number, modified, model->exactly);
    if (!model->exactly && (modified < model->written || modified > now)) wrong("time of the last write", number, modified, model->written);
    if (changed < model->changed || changed > now) wrong("time of the last change", number, changed, model->changed);
    if (is->st_size != (off_t)model->size) wrong("size", number, is->st_size, model->size);
    // What was seen once is never before that again.
    if (!model->exactly) model->written = modified;
    model->changed = changed;
}

// Who reads what was written since it was read last, is noted (relatime).
static void look_at_access(int number, int fd) {
    struct stat is;
    MUST(fstat(fd, &is) == 0);
    look_at_times(number, &is);
    if (ns_of(is.st_atim) < ns_of(is.st_mtim)) wrong("time of the last read", number, ns_of(is.st_atim), ns_of(is.st_mtim));
}

static void wrote(struct model *model, int64_t when) {
    model->written = model->changed = when;
    model->exactly = 0;
}

// Writes to some bytes.
static void write_some(int number, int fd, size_t offset, size_t bytes, int how) {
    static unsigned char buffer[MOST * PAGE];
    struct model *model = &models[number];
    for (size_t i = 0; i < bytes; i++) buffer[i] = below(256);
    int64_t before = coarse();
    struct iovec parts[2] = {{buffer, bytes / 2}, {buffer + bytes / 2, bytes - bytes / 2}};
    ssize_t done = how == 0   ? pwrite(fd, buffer, bytes, offset)
                   : how == 1 ? pwritev(fd, parts, 2, offset)
                              : (MUST(lseek(fd, offset, SEEK_SET) == (off_t)offset), write(fd, buffer, bytes));
    if (done != (ssize_t)bytes) wrong("bytes written", number, done, bytes);
    memcpy(model->bytes + offset, buffer, bytes);
    if (bytes && offset + bytes > model->size) model->size = offset + bytes;
    if (bytes) wrote(model, before);
}

static void write_inside(int number, int fd) {
    size_t size = models[number].size;
    if (!size) return;
    size_t offset = below(size), most = size - offset, bytes = 1 + below(most < 9000 ? most : 9000);
    write_some(number, fd, offset, bytes, 0);
}

static void compare_bytes(int number, const unsigned char *is, size_t from, size_t bytes, const char *how) {
    for (size_t i = 0; i < bytes; i++) {
        if (is[i] == models[number].bytes[from + i]) continue;
        wrong(how, number, is[i], models[number].bytes[from + i]);
        return;
    }
}

static void truncate_model(int number, size_t size, int64_t when) {
    struct model *model = &models[number];
    if (size < model->size) memset(model->bytes + size, 0, model->size - size);
    model->size = size;
    wrote(model, when);
}

// One of the things that can be done to a file, by a descriptor of the one who does it or by its path.
static void look_or_change(int number, int fd, int what) {
    static unsigned char buffer[MOST * PAGE];
    struct model *model = &models[number];
    const char *path = path_of(number);
    struct stat is;
    struct timespec times[2] = {{5000 + below(1000), 17}, {7000 + below(1000), 23}};
    size_t size = model->size;
    int64_t before = coarse();
    switch (what) {
    case 0: MUST(stat(path, &is) == 0), look_at_times(number, &is); break;
    case 1: MUST(fstat(fd, &is) == 0), look_at_times(number, &is); break;
    case 2: {
        int other = open(path, O_RDONLY);
        MUST(other >= 0 && fstat(other, &is) == 0);
        look_at_times(number, &is);
        ssize_t done = read(other, buffer, sizeof buffer);
        if (done != (ssize_t)size) wrong("bytes read", number, done, size);
        compare_bytes(number, buffer, 0, size, "byte read");
        if (done > 0) look_at_access(number, other);
        close(other);
        break;
    }
    case 3: {
        size_t offset = size ? below(size) : 0;
        ssize_t done = pread(fd, buffer, 5000, offset);
        if (done != (ssize_t)(size - offset < 5000 ? size - offset : 5000)) wrong("bytes read there", number, done, size);
        compare_bytes(number, buffer, offset, done > 0 ? done : 0, "byte read there");
        if (done > 0) look_at_access(number, fd);
        break;
    }
    case 4: {
        if (!size) break;
        unsigned char *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        MUST(at != MAP_FAILED);
        compare_bytes(number, at, 0, size, "byte mapped");
        MUST(munmap(at, size) == 0);
        break;
    }
    case 5: {
        size_t to = below(MOST * PAGE);
        MUST(truncate(path, to) == 0), truncate_model(number, to, before);
        // Without holes, so that it can be lent again.
        if (to > size) write_some(number, fd, size, to - size, 1);
        break;
    }
    case 6:
        MUST(utimensat(AT_FDCWD, path, times, 0) == 0);
        model->exactly = ns_of(times[1]), model->changed = before;
        break;
    case 7:
        times[1].tv_nsec = UTIME_OMIT;
        MUST(futimens(fd, times) == 0), model->changed = before;
        break;
    case 8: MUST(chmod(path, below(2) ? 0600 : 04700) == 0), model->changed = before; break;
    case 9: {
        int other = open(path, O_WRONLY | O_APPEND);
        MUST(other >= 0);
        if (size < MOST * PAGE - 100) write_some(number, other, size, 100, 0);
        close(other);
        break;
    }
    case 10: write_some(number, fd, below(size + 1), size < MOST * PAGE - 50 ? 50 : 0, 1); break;
    case 11: {
        char other[80];
        sprintf(other, "%s.link", path);
        MUST(link(path, other) == 0 && unlink(other) == 0), model->changed = before;
        break;
    }
    case 12: {
        // What is shared appends from now on, and then does not.
        int flags = fcntl(fd, F_GETFL);
        MUST(fcntl(fd, F_SETFL, flags | O_APPEND) == 0);
        if (size < MOST * PAGE - 30) write_some(number, fd, size, 30, 2);
        MUST(fcntl(fd, F_SETFL, flags) == 0);
        break;
    }
    case 13:
        MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0);
        memset(model->bytes, 0, size < PAGE ? size : PAGE), wrote(model, before);
        if (size) write_some(number, fd, 0, size < PAGE ? size : PAGE, 1);
        break;
    case 14: {
        int other = open(path, O_RDWR | O_TRUNC);
        MUST(other >= 0), truncate_model(number, 0, before);
        MUST(fstat(other, &is) == 0), look_at_times(number, &is);
        write_some(number, other, 0, 3 * PAGE, 0);
        close(other);
        break;
    }
    case 15:
        MUST(fstatat(AT_FDCWD, path, &is, AT_SYMLINK_NOFOLLOW) == 0);
        look_at_times(number, &is);
        MUST(fsync(fd) == 0);
        break;
    }
}
enum { KINDS = 16 };

// The other process does what it is told, by descriptors of its own and by those that it shares.
struct order {
    int number, what, shared;
};

static void serve(int orders, int answers, const int *shared) {
    int own[FILES];
    for (int i = 0; i < FILES; i++) MUST((own[i] = open(path_of(i), O_RDWR)) >= 0);
    struct order order;
    unsigned long steps = 0;
    while (read(orders, &order, sizeof order) == sizeof order) {
        state = ++steps * 6364136223846793005ul;
        unsigned long before = wrongs;
        look_or_change(order.number, order.shared ? shared[order.number] : own[order.number], order.what);
        before = wrongs - before;
        MUST(write(answers, &before, sizeof before) == sizeof before);
    }
    _exit(0);
}

static void random_steps(int steps) {
    int files[FILES], orders[2], answers[2];
    models = mmap(NULL, FILES * sizeof *models, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(models != MAP_FAILED && pipe(orders) == 0 && pipe(answers) == 0);
    for (int i = 0; i < FILES; i++) {
        MUST((files[i] = open(path_of(i), O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
        write_some(i, files[i], 0, (1 + below(MOST)) * PAGE, 1);
    }
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) {
        close(orders[1]);
        serve(orders[0], answers[1], files);
    }
    for (int step = 0; step < steps; step++) {
        int number = below(FILES), times = below(AGAIN + 2);
        for (int i = 0; i < times; i++) write_inside(number, files[number]);
        struct order order = {number, below(KINDS), below(2)};
        if (below(3)) {
            unsigned long more;
            MUST(write(orders[1], &order, sizeof order) == sizeof order);
            MUST(read(answers[0], &more, sizeof more) == sizeof more);
            wrongs += more;
        } else {
            look_or_change(number, files[number], order.what);
        }
    }
    close(orders[1]);
    MUST(waitpid(child, NULL, 0) == child);
    for (int i = 0; i < FILES; i++) look_or_change(i, files[i], 2), close(files[i]);
    printf("random steps: %lu wrong\n", wrongs);
}

// What is written when nobody looks is found after its process has ended, in whatever way.
static void ends(const char *how, int what) {
    struct stat is;
    int fd = open(path_of(0), O_RDWR), go[2];
    char buffer[PAGE];
    memset(buffer, what, sizeof buffer);
    MUST(fd >= 0 && pipe(go) == 0 && ftruncate(fd, PAGE) == 0);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    MUST(futimens(fd, old) == 0);
    int64_t before = coarse();
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) {
        for (int i = 0; i < 10; i++) MUST(pwrite(fd, buffer, PAGE, 0) == PAGE);
        usleep(30000);
        int64_t last = coarse();
        MUST(pwrite(fd, buffer, PAGE, 0) == PAGE && write(go[1], &last, sizeof last) == sizeof last);
        if (what == 1) _exit(0);
        if (what == 2) execl("/bin/busybox", "true", (char *)NULL), execl("/bin/true", "true", (char *)NULL), _exit(1);
        if (what == 3) close(fd);
        for (;;) pause();
    }
    MUST(read(go[0], &before, sizeof before) == sizeof before);
    if (what >= 3) MUST(kill(child, SIGKILL) == 0);
    MUST(waitpid(child, NULL, 0) == child && stat(path_of(0), &is) == 0);
    printf("%s: the time is that of the last write: %d\n", how, ns_of(is.st_mtim) >= before && ns_of(is.st_mtim) <= fine());
    MUST(pread(fd, buffer, PAGE, 0) == PAGE);
    printf("%s: what was written is there: %d\n", how, buffer[0] == what && buffer[PAGE - 1] == what);
    close(fd), close(go[0]), close(go[1]);
}

// A watch tells of the first write after it.
static void watched(void) {
    struct inotify_event event;
    char page[PAGE] = {1};
    int fd = open(path_of(1), O_RDWR), notices = inotify_init1(IN_NONBLOCK), told = 0, right = 0;
    struct stat is;
    MUST(fd >= 0 && notices >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, page, PAGE, 0) == PAGE);
    for (int i = 0; i < 20; i++) {
        for (int j = 0; j < 5; j++) MUST(pwrite(fd, page, PAGE, 0) == PAGE);
        usleep(10000);
        int64_t before = coarse();
        MUST(pwrite(fd, page, PAGE, 0) == PAGE);
        int watch = inotify_add_watch(notices, path_of(1), IN_MODIFY);
        MUST(stat(path_of(1), &is) == 0);
        right += ns_of(is.st_mtim) >= before;
        MUST(watch > 0 && read(notices, &event, sizeof event) == -1);
        MUST(pwrite(fd, page, PAGE, 0) == PAGE);
        told += read(notices, &event, sizeof event) == sizeof event && event.mask == IN_MODIFY;
        MUST(inotify_rm_watch(notices, watch) == 0);
        MUST(read(notices, &event, sizeof event) == sizeof event && event.mask == IN_IGNORED);
    }
    printf("writes that a watch told of: %d, and before it had their time: %d\n", told, right);
    close(fd), close(notices);
}

// A limit counts inside of the file as well, when it is set while the file is written to, by whomever.
static void limited(void) {
    char page[PAGE] = {2};
    int fd = open(path_of(2), O_RDWR);
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    for (int i = 0; i < 4; i++) MUST(pwrite(fd, page, PAGE, i * PAGE) == PAGE);
    for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, 3 * PAGE) == PAGE);
    struct rlimit unlimited, limit;
    MUST(getrlimit(RLIMIT_FSIZE, &unlimited) == 0);
    limit = unlimited, limit.rlim_cur = 2 * PAGE + 100;
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    SHOW(pwrite(fd, page, PAGE, 3 * PAGE));
    SHOW(pwrite(fd, page, PAGE, 2 * PAGE));
    SHOW(pwrite(fd, page, PAGE, PAGE));
    for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, 0) == PAGE);
    SHOW(pwrite(fd, page, PAGE, 3 * PAGE));
    MUST(setrlimit(RLIMIT_FSIZE, &unlimited) == 0);
    SHOW(pwrite(fd, page, PAGE, 3 * PAGE));
    close(fd);
}

// A program that is written to by another user than root runs as its owner no more, whenever it got the bit.
static void set_id(void) {
    char page[PAGE] = {3};
    struct stat is;
    int fd = open(path_of(3), O_RDWR);
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, page, PAGE, 0) == PAGE);
    MUST(fchown(fd, 1000, 1000) == 0);
    IN_CHILD("another user", {
        MUST(setgid(1000) == 0 && setuid(1000) == 0);
        for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, 0) == PAGE);
        MUST(fchmod(fd, 04755) == 0 && fstat(fd, &is) == 0);
        printf("mode before: %o\n", is.st_mode);
        MUST(pwrite(fd, page, PAGE, 0) == PAGE && fstat(fd, &is) == 0);
        printf("mode after: %o\n", is.st_mode);
    });
    MUST(fchmod(fd, 04755) == 0);
    IN_CHILD("root that becomes another user", {
        for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, 0) == PAGE);
        MUST(fstat(fd, &is) == 0);
        printf("mode before: %o\n", is.st_mode);
        for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, 0) == PAGE);
        MUST(setgid(1001) == 0 && setuid(1001) == 0);
        MUST(pwrite(fd, page, PAGE, 0) == PAGE && fstat(fd, &is) == 0);
        printf("mode after: %o\n", is.st_mode);
    });
    close(fd);
}

// Another process has what both share append from now on, wherever it is written to.
static void appends(void) {
    char page[PAGE] = {4};
    struct stat is;
    int fd = open(path_of(6), O_RDWR);
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, page, PAGE, 0) == PAGE);
    for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, 0) == PAGE);
    IN_CHILD("who sets flags", MUST(fcntl(fd, F_SETFL, O_APPEND) == 0));
    SHOW(pwrite(fd, page, 10, 0));
    MUST(fstat(fd, &is) == 0);
    printf("bytes: %ld\n", (long)is.st_size);
    IN_CHILD("who takes them back", MUST(fcntl(fd, F_SETFL, 0) == 0));
    for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, 0) == PAGE);
    MUST(fstat(fd, &is) == 0);
    printf("bytes: %ld\n", (long)is.st_size);
    close(fd);
}

// Several processes write to one file, each to pages of its own, while others look: once a write is done, or its bytes are seen, the time is that
// of this write or later.
static void write_together(int writers) {
    struct seen {
        int64_t begun, number;
        char gap[48];
    } *done = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static uint64_t page[PAGE / 8];
    pid_t children[THREADS];
    struct stat is;
    int fd = open(path_of(5), O_RDWR);
    MUST(fd >= 0 && ftruncate(fd, 0) == 0);
    for (int i = 0; i < 2 * writers; i++) MUST(pwrite(fd, page, PAGE, i * PAGE) == PAGE);
    volatile uint64_t *map = mmap(NULL, 2 * writers * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    MUST(map != MAP_FAILED);
    for (int i = 0; i < writers; i++) {
        MUST((children[i] = fork()) >= 0);
        if (children[i]) continue;
        int own = i % 2 ? fd : open(path_of(5), O_RDWR);
        for (int64_t n = 1; n <= 2000; n++) {
            int64_t begun = fine();
            page[0] = begun;
            MUST(pwrite(own, page, 64 + n % 3 * 1000, (2 * i + n % 2) * (long)PAGE) == 64 + n % 3 * 1000);
            __atomic_store_n(&done[i].begun, begun, __ATOMIC_RELEASE);
            __atomic_store_n(&done[i].number, n, __ATOMIC_RELEASE);
            if (n % 100 == 0) usleep(1000);
        }
        _exit(0);
    }
    int64_t last = 0;
    for (int over = 0; over < writers;) {
        int64_t least = 0;
        over = 0;
        for (int i = 0; i < writers; i++) {
            int64_t number = __atomic_load_n(&done[i].number, __ATOMIC_ACQUIRE);
            int64_t begun = __atomic_load_n(&done[i].begun, __ATOMIC_ACQUIRE);
            if (begun > least) least = begun;
            if ((int64_t)map[2 * i * 512] > least) least = map[2 * i * 512];
            over += number == 2000;
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        MUST((last % 2 ? stat(path_of(5), &is) : fstat(fd, &is)) == 0);
        // A tick of Linux's clock, which is that of all of its files, takes at most 10 ms.
        if (ns_of(is.st_mtim) < least - 10000000) wrong("time of who writes together", writers, ns_of(is.st_mtim), least);
        if (!is_exact || ns_of(is.st_mtim) >= least) last++;
        else wrong("exact time of who writes together", writers, ns_of(is.st_mtim), least);
        usleep(500);
    }
    for (int i = 0; i < writers; i++) MUST(waitpid(children[i], NULL, 0) == children[i]);
    MUST(munmap((void *)map, 2 * writers * PAGE) == 0 && munmap(done, PAGE) == 0);
    close(fd);
}

// As often as the end of one falls together with another one's being lent the file.
static void together(int writers, int rounds) {
    unsigned long before = wrongs;
    while (rounds-- > 0) write_together(writers);
    printf("%d processes that write to one file: %lu wrong\n", writers, wrongs - before);
}

static int shared_file, others[40];
static pthread_barrier_t barrier;
static volatile int stop;

// Each writes all of the same bytes, in one of two ways: in the end they are of one of them.
static void *same_bytes(void *argument) {
    long number = (long)argument;
    char *buffer = malloc(3 * PAGE);
    for (int round = 0; round < ROUNDS; round++) {
        memset(buffer, (int)(round * THREADS + number), 3 * PAGE);
        pthread_barrier_wait(&barrier);
        struct iovec part = {buffer, 2 * PAGE + 77};
        ssize_t done = (round + number) % 5 ? pwrite(shared_file, buffer, 2 * PAGE + 77, 100)
                                            : pwritev(shared_file, &part, 1, 100);
        MUST(done == 2 * PAGE + 77);
        pthread_barrier_wait(&barrier);
        if (number == 0) {
            char all[2 * PAGE + 77];
            MUST(pread(shared_file, all, sizeof all, 100) == sizeof all);
            for (size_t i = 1; i < sizeof all; i++) {
                if (all[i] == all[0]) continue;
                wrong("bytes of two threads", round, all[i], all[0]);
                break;
            }
        }
    }
    free(buffer);
    return NULL;
}

// One looks at many files, so that windows show others, while all others write to theirs.
static void *other_windows(void *argument) {
    (void)argument;
    char page[PAGE];
    for (int i = 0; !stop; i++) {
        int file = others[i % 40];
        MUST(pread(file, page, 64, (off_t)(i % 5) * PAGE) == 64 && pread(file, page, PAGE, (off_t)(i % 7) * PAGE) == PAGE);
    }
    return NULL;
}

static void *own_file(void *argument) {
    long number = (long)argument;
    char page[PAGE], path[64];
    sprintf(path, PATH, 100 + (int)number);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0);
    memset(page, (int)number, PAGE);
    for (int i = 0; i < 8; i++) MUST(pwrite(fd, page, PAGE, i * PAGE) == PAGE);
    for (int i = 0; i < 3000; i++) MUST(pwrite(fd, page, PAGE, i % 8 * PAGE) == PAGE);
    for (int i = 0; i < 8; i++) {
        MUST(pread(fd, page, PAGE, i * PAGE) == PAGE);
        for (size_t j = 0; j < PAGE; j++) {
            if (page[j] == number) continue;
            wrong("bytes of another file", (int)number, page[j], number);
            break;
        }
    }
    close(fd), unlink(path);
    return NULL;
}

static void threads(void) {
    pthread_t all[THREADS + 1];
    shared_file = open(path_of(4), O_RDWR);
    MUST(shared_file >= 0 && pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    char *zeros = calloc(8, PAGE);
    MUST(ftruncate(shared_file, 0) == 0 && pwrite(shared_file, zeros, 8 * PAGE, 0) == 8 * (long)PAGE);
    for (int i = 0; i < 8; i++) MUST(pwrite(shared_file, zeros, 8 * PAGE, 0) == 8 * (long)PAGE);
    for (long i = 0; i < THREADS; i++) MUST(pthread_create(&all[i], NULL, same_bytes, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) MUST(pthread_join(all[i], NULL) == 0);
    printf("threads that write to the same bytes: %lu wrong\n", wrongs);
    for (int i = 0; i < 40; i++) {
        char path[64];
        sprintf(path, PATH, 200 + i);
        MUST((others[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
        memset(zeros, 0x80 + i, 8 * PAGE);
        MUST(pwrite(others[i], zeros, 8 * PAGE, 0) == 8 * (long)PAGE);
        unlink(path);
    }
    MUST(pthread_create(&all[THREADS], NULL, other_windows, NULL) == 0);
    for (long i = 0; i < THREADS; i++) MUST(pthread_create(&all[i], NULL, own_file, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) MUST(pthread_join(all[i], NULL) == 0);
    stop = 1;
    MUST(pthread_join(all[THREADS], NULL) == 0);
    for (int i = 0; i < 40; i++) {
        MUST(pread(others[i], zeros, 8 * PAGE, 0) == 8 * (long)PAGE);
        for (size_t j = 0; j < 8 * PAGE; j++) {
            if ((unsigned char)zeros[j] == 0x80 + i) continue;
            wrong("bytes of who wrote elsewhere", i, zeros[j], 0x80 + i);
            break;
        }
    }
    printf("threads that write beside others' windows: %lu wrong\n", wrongs);
    close(shared_file), free(zeros);
}

int main(int argc, char **argv) {
    random_steps(argc > 1 ? atoi(argv[1]) : 400);
    ends("exit", 1);
    ends("exec", 2);
    ends("closed and killed", 3);
    ends("killed", 4);
    watched();
    limited();
    set_id();
    appends();
    is_exact = access("/proc/tessera", F_OK) == 0;
    together(1, 1);
    together(3, 30);
    threads();
    for (int i = 0; i < FILES; i++) unlink(path_of(i));
    printf("%lu wrong\n", wrongs);
    return wrongs != 0;
}
