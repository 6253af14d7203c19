// Memory of files that survive is used as any other: by system calls, pipes, futexes, programs that are executed.
//
// build: gcc, musl
// nvdimm: 64M
// oracle: linux
#include "pmem.h"
// Of linux/futex.h, which not every C library has.
enum { FUTEX_WAIT, FUTEX_WAKE };
#include <pthread.h>
#include <sys/uio.h>
#define MIB (1ul << 20)

static char *map(const char *name, size_t bytes, int *fd) {
    *fd = open(name, O_CREAT | O_RDWR, 0700);
    if (ftruncate(*fd, bytes) != 0) exit(99);
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (at == MAP_FAILED) exit(99);
    return at;
}

static void fill(char *at, size_t bytes, unsigned seed) {
    for (size_t n = 0; n < bytes; n++) at[n] = (seed = seed * 1103515245 + 12345) >> 16;
}

static void pipes(void) {
    int one, other, ends[2];
    char *from = map("from", 4 * MIB, &one), *to = map("to", 4 * MIB, &other);
    fill(from, 4 * MIB, 1);
    SHOW(pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        for (size_t done = 0; done < 4 * MIB;) {
            ssize_t bytes = write(ends[1], from + done, 4 * MIB - done);
            if (bytes <= 0) _exit(1);
            done += bytes;
        }
        _exit(0);
    }
    close(ends[1]);
    size_t done = 0;
    ssize_t bytes;
    while ((bytes = read(ends[0], to + done, 4 * MIB - done)) > 0) done += bytes;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    printf("status %d, %zu bytes\n", status, done);
    CHECK(memcmp(from, to, 4 * MIB) == 0);
    // From a file to a mapping of another, and of itself.
    memset(to, 0, 4 * MIB);
    SHOW(pread(one, to, 4 * MIB, 0));
    CHECK(memcmp(from, to, 4 * MIB) == 0);
    SHOW(pwrite(one, from, MIB, 3 * MIB + 1));
    CHECK(memcmp(from, from + 3 * MIB + 1, MIB - 1) == 0);
    SHOW(pwrite(other, from, 4 * MIB + 1, 0) >= (ssize_t)(4 * MIB));
    struct iovec parts[] = {{to + 100, MIB}, {to + 2 * MIB, MIB}};
    SHOW(preadv(one, parts, 2, 7));
    CHECK(memcmp(to + 2 * MIB, from + 7 + MIB, MIB) == 0);
    struct iovec mine = {to, 4 * MIB}, others = {from, 4 * MIB};
    SHOW(process_vm_readv(getpid(), &mine, 1, &others, 1, 0));
    CHECK(memcmp(from, to, 4 * MIB) == 0);
    // Names and attributes are copied there, too.
    SHOW(stat("from", (struct stat *)(to + 2 * MIB - 8)));
    CHECK(((struct stat *)(to + 2 * MIB - 8))->st_size == 4 * MIB + 1);
    SHOW(getcwd(to + 3 * MIB - 2, 100) != NULL);
    CHECK(strcmp(to + 3 * MIB - 2, folder) == 0);
    SHOW(munmap(from, 4 * MIB));
    SHOW(munmap(to, 4 * MIB));
    SHOW(unlink("from"));
    SHOW(unlink("to"));
    close(one), close(other);
}

static long futex(int *word, int op, int value) { return syscall(SYS_futex, word, op, value, NULL, NULL, 0); }

static void futexes(void) {
    int fd;
    int *words = (int *)map("words", 2 * MIB, &fd);
    // Another mapping at another address, of one page.
    int *same = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, MIB);
    pid_t child = fork();
    if (child == 0) {
        while (__atomic_load_n(&same[3], __ATOMIC_SEQ_CST) == 0) futex(&same[3], FUTEX_WAIT, 0);
        __atomic_store_n(&same[4], 2, __ATOMIC_SEQ_CST);
        futex(&same[4], FUTEX_WAKE, 1);
        _exit(7);
    }
    int *far = words + MIB / sizeof *words;
    __atomic_store_n(&far[3], 1, __ATOMIC_SEQ_CST);
    futex(&far[3], FUTEX_WAKE, 1);
    while (__atomic_load_n(&far[4], __ATOMIC_SEQ_CST) == 0) futex(&far[4], FUTEX_WAIT, 0);
    int status;
    waitpid(child, &status, 0);
    printf("status %d, %d %d\n", WEXITSTATUS(status), far[3], far[4]);
    SHOW(munmap(words, 2 * MIB));
    SHOW(munmap(same, PAGE));
    SHOW(unlink("words"));
    close(fd);
}

enum { THREADS = 4 };

static char *shared;

static void *touch_all(void *number) {
    // Everybody touches every page, from another one on.
    for (size_t n = 0; n < 8 * MIB / PAGE; n++) {
        size_t page = (n + (size_t)number * 300) % (8 * MIB / PAGE);
        __atomic_fetch_add((int *)(shared + page * PAGE), 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void threads(void) {
    int fd;
    shared = map("shared", 8 * MIB, &fd);
    pthread_t all[THREADS];
    for (size_t n = 0; n < THREADS; n++) pthread_create(&all[n], NULL, touch_all, (void *)n);
    for (size_t n = 0; n < THREADS; n++) pthread_join(all[n], NULL);
    int wrong = 0;
    for (size_t at = 0; at < 8 * MIB; at += PAGE) wrong += *(int *)(shared + at) != THREADS;
    printf("%d pages are wrong\n", wrong);
    // Others cut the file off and make it longer while it is read and written.
    pid_t child = fork();
    if (child == 0) {
        for (int n = 0; n < 200; n++) {
            ftruncate(fd, n % 2 ? 8 * MIB : n * PAGE);
        }
        _exit(0);
    }
    char bytes[3 * PAGE];
    int errors = 0;
    for (int n = 0; n < 200; n++) {
        errors += pwrite(fd, "bytes", 5, n * 3001) != 5;
        errors += pread(fd, bytes, sizeof bytes, n * 1001) < 0;
    }
    waitpid(child, NULL, 0);
    printf("%d errors\n", errors);
    SHOW(munmap(shared, 8 * MIB));
    SHOW(unlink("shared"));
    close(fd);
}

static void programs(const char *self) {
    static char bytes[1 << 16];
    int from = open(self, O_RDONLY), to = open("program", O_CREAT | O_WRONLY, 0700);
    ssize_t done;
    while ((done = read(from, bytes, sizeof bytes)) > 0) write(to, bytes, done);
    close(from);
    close(to);
    IN_CHILD("program", execl("program", "program", "as a program", NULL); _exit(1));
    int busy = open("program", O_RDWR);
    IN_CHILD("program that is written", execl("program", "program", "x", NULL); _exit(errno == ETXTBSY));
    close(busy);
    SHOW(unlink("program"));
}

int main(int count, char **arguments) {
    if (count > 1) {
        printf("this is %s\n", arguments[1]);
        return 3;
    }
    char self[300];
    self[readlink("/proc/self/exe", self, sizeof self - 1)] = 0;
    go_to_folder();
    pipes();
    futexes();
    threads();
    programs(self);
    leave_folder();
    return 0;
}
