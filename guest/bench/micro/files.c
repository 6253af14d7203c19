// What do files cost that are in memory: to open, look at, read, write, make and remove one, and a folder of many?
#include "bench.h"
#include <sys/stat.h>

enum { PIECE = 4096, OPEN_PIECES = 256, TIMES = 64, MOST_FILES = 10000 };
static char piece[PIECE], large[MIB];

static int open_file(const char *path, int flags) {
    int file = open(path, flags, 0644);
    expect("open failed", file < 0, 0);
    return file;
}

// Samples an expression `TIMES` times, after twice unmeasured: who comes again is what is asked for here.
#define MEASURE(name, expression)                          \
    do {                                                   \
        for (int i = 0; i < 2 + TIMES; i++) {              \
            uint64_t from = ticks();                       \
            expression;                                    \
            if (i >= 2) sample(ticks() - from);            \
        }                                                  \
        report(name, 1, "");                               \
    } while (0)

static void open_and_read(void) {
    int file = open_file("there", O_RDONLY);
    expect("read", read(file, piece, PIECE), PIECE);
    close(file);
}

static void of_one_that_is_there(void) {
    struct stat status;
    int file = open_file("there", O_RDWR | O_CREAT | O_TRUNC);
    for (int i = 0; i < OPEN_PIECES; i++) {
        memset(piece, i, PIECE);
        expect("write", write(file, piece, PIECE), PIECE);
    }
    MEASURE("open_and_close", close(open_file("there", O_RDONLY)));
    MEASURE("open,_read_4_KiB,_close", open_and_read());
    MEASURE("stat", expect("stat", stat("there", &status), 0));
    MEASURE("fstat", expect("fstat", fstat(file, &status), 0));
    MEASURE("lseek", expect("lseek", lseek(file, i, SEEK_SET), i));
    MEASURE("pread_4_KiB", expect("pread", pread(file, piece, PIECE, i * PIECE), PIECE));
    expect("what was read", piece[PIECE - 1], 2 + TIMES - 1);
    MEASURE("pwrite_4_KiB", expect("pwrite", pwrite(file, piece, PIECE, i * PIECE), PIECE));
    MEASURE("append_4_KiB",
            expect("pwrite", pwrite(file, piece, PIECE, (OPEN_PIECES + i) * PIECE), PIECE));
    MEASURE("stat_of_none", expect("stat", stat("none", &status), -1));
    close(file);
    expect("unlink", unlink("there"), 0);
}

static void make(const char *path, long bytes) {
    int file = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
    expect("write", write(file, large, bytes), bytes);
    close(file);
}

static void make_and_remove(long bytes) {
    make("new", bytes);
    expect("unlink", unlink("new"), 0);
}

static void map_and_read(void) {
    int file = open_file("mapped", O_RDONLY);
    char *at = mmap(NULL, MIB, PROT_READ, MAP_SHARED, file, 0);
    expect("mmap failed", at == MAP_FAILED, 0);
    int sum = 0;
    for (long n = 0; n < MIB; n += PAGE) sum += at[n];
    expect("sum", sum, 0);
    unmap(at, MIB / PAGE);
    close(file);
}

static void of_new_ones(void) {
    MEASURE("create,_write_4_KiB,_close,_unlink", make_and_remove(PIECE));
    MEASURE("create,_write_1_MiB,_close,_unlink", make_and_remove(MIB));
    MEASURE("mkdir_and_rmdir", expect("folder", mkdir("folder", 0755) | rmdir("folder"), 0));
    make("mapped", MIB);
    MEASURE("open,_map_1_MiB,_read_each_page", map_and_read());
    expect("rename", rename("mapped", "renamed"), 0);
    expect("unlink", unlink("renamed"), 0);
}

static void name_of(char *name, int n) { sprintf(name, "many/%d", n); }

// Of `files` in a folder: each is made and written to, then each is asked for, then each is removed.
static void of_many(int files) {
    char name[32];
    struct stat status;
    expect("mkdir", mkdir("many", 0755), 0);
    uint64_t from = ticks();
    for (int n = 0; n < files; n++) name_of(name, n), make(name, PIECE);
    sample(ticks() - from);
    report("of_many:_create,_write_4_KiB,_close", files, "at=%d:files", files);
    from = ticks();
    for (int n = 0; n < files; n++) name_of(name, n), expect("stat", stat(name, &status), 0);
    sample(ticks() - from);
    report("of_many:_stat", files, "at=%d:files", files);
    expect("size", status.st_size, PIECE);
    from = ticks();
    for (int n = 0; n < files; n++) name_of(name, n), expect("unlink", unlink(name), 0);
    sample(ticks() - from);
    report("of_many:_unlink", files, "at=%d:files", files);
    expect("rmdir", rmdir("many"), 0);
}

int main(void) {
    calibrate();
    expect("mkdir", mkdir("/tmp/files", 0755) | chdir("/tmp/files"), 0);
    of_one_that_is_there();
    of_new_ones();
    int most = getenv("BENCH_SMALL") ? 100 : MOST_FILES;
    for (int files = 100; files <= most; files *= 100) of_many(files);
    expect("chdir", chdir("/"), 0);
    expect("rmdir", rmdir("/tmp/files"), 0);
}
