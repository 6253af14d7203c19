// Files outside of /pmem whose pages processes share: two processes on several cores map, populate, cut and lengthen the same ones
// at once, and are killed in the middle of it; what anybody sees is what somebody stored there, or zeros. Then all memory is back,
// to the page, as it is after large shared memory of every kind.
//
// build: gcc
// cores: 4
// mem: 256M
// timeout: 200
// expect-stdout: wrong: 0\nwrong: 0\nin memfd: memory is back\nin /tmp: memory is back\nshared: memory is back\nkilled: memory is back\nall of it can be had\n
#include "test.h"
#include <setjmp.h>
#include <sys/sysinfo.h>

enum { FILES = 4, PAGES = 600, ROUNDS = 1500, LARGE = 16384 };
static int files[FILES];

static long free_memory(void) {
    struct sysinfo info;
    sysinfo(&info);
    return info.freeram * info.mem_unit;
}

static sigjmp_buf here;
static void on_bus(int signal) {
    (void)signal;
    siglongjmp(here, 1);
}

static unsigned seed;
static unsigned chance(unsigned below) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 12) % below;
}

// A page holds its own number, in all words that anybody has stored to. Answers how many hold something else.
static int look(volatile int *at, int page) {
    int wrong = 0;
    for (int word = 0; word < 1024; word += 97) {
        int value = at[page * 1024 + word];
        if (value != 0 && value != page + 1) wrong++;
    }
    return wrong;
}

static int work(int rounds, unsigned begin) {
    int wrong = 0, page_of[1024];
    seed = begin;
    signal(SIGBUS, on_bus);
    for (int round = 0; round < rounds; round++) {
        int file = files[chance(FILES)], page = chance(PAGES);
        switch (chance(8)) {
        case 0: ftruncate(file, chance(PAGES) * PAGE + chance(2) * 2048); break;
        case 1: fallocate(file, 3, page * PAGE, chance(64) * PAGE + 400); break;
        case 2:
        case 3:
            for (int n = 0; n < 1024; n++) page_of[n] = page + 1;
            pwrite(file, page_of, PAGE, page * PAGE);
            break;
        case 4: {
            int done = pread(file, page_of, PAGE, page * PAGE);
            for (int n = 0; n < done / 4; n++) wrong += page_of[n] != 0 && page_of[n] != page + 1;
            break;
        }
        default: {
            int whole = chance(2);
            size_t bytes = (whole ? 1024 : PAGES) * PAGE;
            volatile int *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            if (at == MAP_FAILED) {
                wrong++;
                break;
            }
            if (sigsetjmp(here, 1) == 0)
                for (int n = 0; n < 40; n++, page = (page + 1) % PAGES) {
                    wrong += look(at, page);
                    at[page * 1024 + chance(10) * 97] = page + 1;
                }
            munmap((void *)at, bytes);
        }
        }
    }
    return wrong;
}

static void race(void) {
    for (int n = 0; n < FILES; n++) {
        char name[32];
        sprintf(name, "/tmp/shared-%d", n);
        files[n] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        unlink(name);
    }
    pid_t child = fork();
    if (child == 0) _exit(work(ROUNDS, 7) > 0);
    int wrong = work(ROUNDS, 1), status;
    waitpid(child, &status, 0);
    printf("wrong: %d\n", wrong + status);
    for (int n = 0; n < FILES; n++) close(files[n]);
}

static void fill(char *at, size_t pages) {
    for (size_t page = 0; page < pages; page++) at[page * PAGE] = 1;
}

static void compared(const char *what, long before) {
    long lost = before - free_memory();
    if (lost > 0) printf("%s: FAILED: %ld bytes lost\n", what, lost);
    else printf("%s: memory is back\n", what);
}

static void use(int file, int flags) {
    if (file >= 0) ftruncate(file, LARGE * PAGE);
    char *at = mmap(NULL, LARGE * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file, 0);
    if (at == MAP_FAILED) printf("FAILED: mmap: %s\n", strerror(errno));
    fill(at, LARGE);
    if (file >= 0) close(file);
    munmap(at, LARGE * PAGE);
}

static int in_tmp(void) {
    int file = open("/tmp/large", O_RDWR | O_CREAT, 0600);
    unlink("/tmp/large");
    return file;
}

static void killed(void) {
    for (int n = 0; n < 20; n++) {
        int file = in_tmp();
        ftruncate(file, 2048 * PAGE);
        pid_t child = fork();
        if (child == 0) {
            char *at = mmap(NULL, 2048 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            for (;;) {
                fill(at, 2048);
                fallocate(file, 3, 0, 2048 * PAGE);
            }
        }
        usleep(1000 + 700 * n);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(file);
    }
}

int main(void) {
    race();
    race();
    // What is kept after the first time is kept for good.
    use(-1, MAP_ANONYMOUS);
    killed();
    long before = free_memory();
    use(memfd_create("large", 0), 0);
    compared("in memfd", before);
    use(in_tmp(), 0);
    compared("in /tmp", before);
    use(-1, MAP_ANONYMOUS);
    compared("shared", before);
    killed();
    // A page that is kept for the next one, and is there sometimes, is not lost: what is lost would grow.
    for (int n = 0; n < 8 && before > free_memory(); n++) killed();
    compared("killed", before);
    // Programs can have what files had: in pieces that are filled as they come, which no memory of files is for.
    const size_t piece = 1 << 20;
    // Each core's memory server keeps a reserve, and what is in too small pieces to be lent.
    for (long left = free_memory() - (36 << 20); left > 0; left -= piece) {
        char *own = mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fill(own, piece / PAGE);
    }
    printf("all of it can be had\n");
    return 0;
}
