// A process reads and writes at its offset and elsewhere, in turn, inside of a file and beyond its end, while another one looks and writes
// now and then: bytes, offset and times of access are those that each call leaves behind.
// oracle: linux
// cores: 4
// build: gcc, musl
// args: 1500
// long-args: 30000
//
//   lent_offsets STEPS
#include "must.h"
#include <pthread.h>
#include <sys/uio.h>
#include <time.h>

enum { MOST = 12, THREADS = 4, RECORDS = 500, RECORD = 64 };
#define PATH "/tmp/lent_offsets"

static unsigned long wrongs;
static uint64_t state = 20261131;

static unsigned below(unsigned end) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (state >> 33) % end;
}

static void wrong(const char *what, long here, long there) {
    if (wrongs++ < 10) printf("WRONG: %s: %ld, not %ld\n", what, here, there);
}

static int64_t now_of(clockid_t clock) {
    struct timespec now;
    MUST(clock_gettime(clock, &now) == 0);
    return now.tv_sec * 1000000000l + now.tv_nsec;
}

static int64_t ns_of(struct timespec at) { return at.tv_sec * 1000000000l + at.tv_nsec; }

// What the file is, in memory of both processes.
static struct model {
    size_t size, offset;
    // The last write; the first read after it, and the last one: 0 if there was none.
    int64_t written, first_read, last_read;
    unsigned char bytes[2 * MOST * PAGE];
} *model;

// As relatime has it only the first read counts; in the same tick as the write it is as if it had not been, and one that finds nothing may count.
static void was_read(int64_t before) {
    if (!model->first_read) model->first_read = before;
    model->last_read = now_of(CLOCK_REALTIME);
}

static void look(int fd) {
    struct stat is;
    MUST(fstat(fd, &is) == 0);
    if (is.st_size != (off_t)model->size) wrong("size", is.st_size, model->size);
    if (ns_of(is.st_mtim) < model->written) wrong("time of the last write", ns_of(is.st_mtim), model->written);
    if (model->first_read && ns_of(is.st_atim) < model->first_read) wrong("time of the first read since", ns_of(is.st_atim), model->first_read);
    if (model->last_read && ns_of(is.st_atim) > model->last_read) wrong("time of the last read", ns_of(is.st_atim), model->last_read);
}

static void put(int fd, size_t offset, size_t bytes, int how) {
    static unsigned char buffer[2 * PAGE];
    if (offset + bytes > sizeof model->bytes) return;
    for (size_t i = 0; i < bytes; i++) buffer[i] = below(256);
    struct iovec parts[2] = {{buffer, bytes / 3}, {buffer + bytes / 3, bytes - bytes / 3}};
    int64_t before = now_of(CLOCK_REALTIME_COARSE);
    ssize_t done = how == 0 ? write(fd, buffer, bytes) : how == 1 ? writev(fd, parts, 2) : pwrite(fd, buffer, bytes, offset);
    if (done != (ssize_t)bytes) wrong("bytes written", done, bytes);
    if (!bytes) return;
    if (offset > model->size) memset(model->bytes + model->size, 0, offset - model->size);
    memcpy(model->bytes + offset, buffer, bytes);
    if (offset + bytes > model->size) model->size = offset + bytes;
    model->written = before, model->first_read = 0;
}

static void get(int fd, size_t offset, size_t bytes, int there) {
    static unsigned char buffer[2 * PAGE];
    size_t left = offset < model->size ? model->size - offset : 0;
    int64_t before = now_of(CLOCK_REALTIME_COARSE);
    ssize_t done = there ? pread(fd, buffer, bytes, offset) : read(fd, buffer, bytes);
    if (done != (ssize_t)(bytes < left ? bytes : left)) wrong("bytes read", done, bytes < left ? bytes : left);
    for (ssize_t i = 0; i < done; i++) {
        if (buffer[i] == model->bytes[offset + i]) continue;
        wrong("byte read", buffer[i], model->bytes[offset + i]);
        break;
    }
    if (bytes > 0) was_read(before);
}

// One step, by a descriptor whose offset the model has.
static void step(int fd) {
    size_t bytes = below(4) ? below(600) : below(2 * PAGE), size = model->size, at = below(size + 1);
    // Mostly inside, so that it is lent.
    size_t inside = model->offset + bytes <= size ? bytes : model->offset < size ? size - model->offset : 0;
    switch (below(18)) {
    case 0 ... 4: put(fd, model->offset, inside, 0), model->offset += inside; break;
    case 5: put(fd, model->offset, inside, 1), model->offset += inside; break;
    case 6 ... 7: put(fd, at, bytes < size - at ? bytes : size - at, 2); break;
    case 8 ... 10:
        get(fd, model->offset, bytes, 0);
        if (model->offset < size) model->offset += bytes < size - model->offset ? bytes : size - model->offset;
        break;
    case 11 ... 12: get(fd, at, bytes, 1); break;
    case 13:
        MUST(lseek(fd, at, SEEK_SET) == (off_t)at), model->offset = at;
        break;
    case 14: {
        off_t is = lseek(fd, 0, SEEK_CUR);
        if (is != (off_t)model->offset) wrong("offset", is, model->offset);
        break;
    }
    case 15: look(fd); break;
    case 16:
        // Seldom beyond the end, which it has to be asked for.
        if (below(8)) break;
        if (model->offset + bytes > MOST * PAGE) {
            int64_t before = now_of(CLOCK_REALTIME_COARSE);
            MUST(ftruncate(fd, MOST * PAGE / 2) == 0);
            if (size > MOST * PAGE / 2) model->size = MOST * PAGE / 2;
            else memset(model->bytes + size, 0, MOST * PAGE / 2 - size), model->size = MOST * PAGE / 2;
            model->written = before, model->first_read = 0;
        } else {
            put(fd, model->offset, bytes, 0), model->offset += bytes;
        }
        break;
    case 17:
        if (below(8)) break;
        // What appends leaves its offset at the end.
        MUST(fcntl(fd, F_SETFL, O_APPEND) == 0);
        if (size + 10 < MOST * PAGE) put(fd, size, 10, 0), model->offset = model->size;
        get(fd, at, 5, 1);
        MUST(fcntl(fd, F_SETFL, 0) == 0);
        break;
    }
}

static void serve(int orders, int answers) {
    int fd = open(PATH, O_RDWR);
    char order;
    MUST(fd >= 0);
    while (read(orders, &order, 1) == 1) {
        unsigned long before = wrongs;
        size_t at = below(model->size + 1);
        for (int i = 0; i < order % 4; i++) put(fd, at, model->size - at < 50 ? model->size - at : 50, 2);
        if (order & 4) get(fd, at, 100, 1);
        if (order & 8) look(fd);
        before = wrongs - before;
        MUST(write(answers, &before, sizeof before) == sizeof before);
    }
    _exit(0);
}

static void random_steps(int steps) {
    int orders[2], answers[2];
    MUST(pipe(orders) == 0 && pipe(answers) == 0);
    int fd = open(PATH, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0), close(fd);
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) close(orders[1]), serve(orders[0], answers[1]);
    fd = open(PATH, O_RDWR);
    MUST(fd >= 0);
    for (int i = 0; i < MOST / 2; i++) put(fd, model->offset, PAGE, 0), model->offset += PAGE;
    for (int i = 0; i < steps; i++) {
        for (int n = below(30); n >= 0; n--) step(fd);
        if (below(3)) continue;
        char order = below(16);
        unsigned long more;
        MUST(write(orders[1], &order, 1) == 1 && read(answers[0], &more, sizeof more) == sizeof more);
        wrongs += more;
    }
    look(fd), get(fd, 0, 2 * PAGE, 1);
    close(orders[1]), close(fd);
    MUST(waitpid(child, NULL, 0) == child);
    printf("random steps: %lu wrong\n", wrongs);
}

// A file that is there and lent, with the offset at its start.
static int lent_file(void) {
    static char page[PAGE];
    int fd = open(PATH, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0);
    for (int i = 0; i < THREADS * RECORDS * RECORD / (int)PAGE + 2; i++) MUST(write(fd, page, PAGE) == PAGE);
    for (int i = 0; i < 4; i++) MUST(lseek(fd, 0, SEEK_SET) == 0 && write(fd, page, PAGE) == PAGE);
    MUST(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

// A source that ends in the middle: the offset is where the copy ended.
static void bad_sources(void) {
    int fd = lent_file();
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(at != MAP_FAILED && munmap(at + PAGE, PAGE) == 0);
    memset(at, 'x', PAGE);
    SHOW(write(fd, at + PAGE, 10));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(write(fd, at + PAGE - 100, 200));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(write(fd, at, 0));
    SHOW(write(fd, at, 50));
    SHOW(lseek(fd, 0, SEEK_CUR));
    char bytes[200];
    MUST(pread(fd, bytes, 200, 0) == 200);
    printf("before the end: %d, behind it: %d\n", bytes[149], bytes[150]);
    MUST(munmap(at, PAGE) == 0);
    close(fd);
}

// A description that a child has, too, has one offset; so has one that was duplicated, and one that was closed has none.
static void shared(void) {
    int fd = lent_file(), other = dup(fd);
    MUST(write(fd, "12", 2) == 2);
    SHOW(write(other, "34", 2));
    IN_CHILD("a child", SHOW(write(fd, "56", 2)));
    SHOW(write(fd, "78", 2));
    for (int i = 0; i < 4; i++) MUST(pwrite(fd, "0", 1, 100) == 1);
    SHOW(lseek(other, 0, SEEK_CUR));
    char bytes[9] = {0};
    MUST(pread(fd, bytes, 8, 0) == 8);
    printf("in order: %s\n", bytes);
    close(fd), close(other);
    fd = lent_file();
    SHOW(write(fd, "9", 1));
    SHOW(lseek(fd, 0, SEEK_CUR));
    close(fd);
    SHOW(write(fd, "9", 1));
}

static int shared_file;

static void *records(void *argument) {
    unsigned char record[RECORD];
    for (int i = 0; i < RECORDS; i++) {
        memset(record, (int)(long)argument, RECORD);
        memcpy(record + 1, &i, sizeof i);
        MUST(write(shared_file, record, RECORD) == RECORD);
    }
    return NULL;
}

// Each record of each thread is there once, whole, and in the order in which the thread wrote.
static void threads(void) {
    pthread_t all[THREADS];
    unsigned char record[RECORD];
    int next[THREADS + 1] = {0}, i;
    shared_file = lent_file();
    for (long n = 0; n < THREADS; n++) MUST(pthread_create(&all[n], NULL, records, (void *)(n + 1)) == 0);
    for (int n = 0; n < THREADS; n++) MUST(pthread_join(all[n], NULL) == 0);
    SHOW(lseek(shared_file, 0, SEEK_CUR) == THREADS * RECORDS * RECORD);
    MUST(lseek(shared_file, 0, SEEK_SET) == 0);
    for (int n = 0; n < THREADS * RECORDS; n++) {
        MUST(read(shared_file, record, RECORD) == RECORD);
        memcpy(&i, record + 1, sizeof i);
        if (record[0] < 1 || record[0] > THREADS || record[RECORD - 1] != record[0]) wrong("record", record[0], record[RECORD - 1]);
        else if (i != next[record[0]]++) wrong("number", i, next[record[0]] - 1);
    }
    close(shared_file);
}

int main(int argc, char **argv) {
    model = mmap(NULL, sizeof *model, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(model != MAP_FAILED);
    random_steps(argc > 1 ? atoi(argv[1]) : 3000);
    bad_sources();
    shared();
    threads();
    unlink(PATH);
    printf("%lu wrong\n", wrongs);
    return wrongs != 0;
}
