// Pages that were written to since /proc/PID/clear_refs was asked to forget it: of the process itself and of others, by fork, by
// calls, by a tracer's way, on several cores.
// build: gcc
// cores: 4
// expect-stdout: passed\n
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };
static int failures;
#define CHECK(what) do { if (!(what)) failures++, printf("FAILED %d: %s\n", __LINE__, #what); } while (0)

static int map_of(pid_t pid, const char *file, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return open(path, flags);
}
static uint64_t word(int pagemap, void *at) {
    uint64_t word = 0;
    if (pread(pagemap, &word, 8, (uintptr_t)at / PAGE * 8) != 8) return -1;
    return word;
}
static int dirty(int pagemap, char *at) { return word(pagemap, at) >> 55 & 1; }
// Which of the first pages, as bits.
static uint64_t set(int pagemap, char *at, int pages) {
    uint64_t all = 0;
    for (int i = 0; i < pages; i++) all |= (uint64_t)dirty(pagemap, at + i * PAGE) << i;
    return all;
}
static int clear(pid_t pid, const char *what) {
    int fd = map_of(pid, "clear_refs", O_WRONLY);
    if (fd < 0) return -errno;
    int r = write(fd, what, strlen(what)) < 0 ? -errno : 0;
    close(fd);
    return r;
}
static char *memory(int pages, int flags) {
    char *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    return at == MAP_FAILED ? 0 : at;
}

static long most_resident(void) {
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld", &kib);
    fclose(f);
    return kib;
}
// The most that it had in memory counts from when 5 was written.
static void most(void) {
    char *m = memory(5000, MAP_PRIVATE);
    for (int i = 0; i < 5000; i++) m[i * PAGE] = 1;
    munmap(m, 5000 * PAGE);
    long before = most_resident();
    CHECK(clear(getpid(), "1") == 0 && most_resident() >= 16000);
    CHECK(clear(getpid(), "5") == 0 && most_resident() < before - 16000);
}

static void errors(void) {
    static const struct { const char *text; int error; } cases[] = {
        {"0", EINVAL}, {"1", 0}, {"2", 0}, {"3", 0}, {"4", 0}, {"5", 0}, {"6", EINVAL}, {"x", EINVAL}, {"4x", EINVAL},
        {"-1", EINVAL}, {" 4", 0}, {"4\n", 0}, {"+4", 0}, {"", EINVAL}, {" ", EINVAL},
        {"99999999999999999999", ERANGE}, {"2147483648", ERANGE}, {"-2147483649", ERANGE}, {"2147483647", EINVAL}, {"0x4", EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int r = clear(getpid(), cases[i].text);
        if (r != -cases[i].error) failures++, printf("FAILED: \"%s\": %d\n", cases[i].text, r);
    }
    int refs = map_of(getpid(), "clear_refs", O_WRONLY);
    CHECK(write(refs, "5                    ", 21) == 12 && write(refs, "5\0x", 3) == 3);
    CHECK(write(refs, "\0", 1) == -1 && errno == EINVAL);
    CHECK(pwrite(refs, "5", 1, 100) == 1 && write(refs, (void *)8, 1) == -1 && errno == EFAULT);
    close(refs);
    struct stat st;
    CHECK(stat("/proc/self/clear_refs", &st) == 0 && (st.st_mode & 07777) == 0200);
    int fd = map_of(getpid(), "clear_refs", O_RDWR);
    char c;
    CHECK(fd >= 0 && read(fd, &c, 1) == -1 && errno == EINVAL);
    close(fd);
    pid_t other = fork();
    if (!other) { pause(); _exit(0); }
    pid_t pid = fork();
    if (!pid) {
        setresgid(1000, 1000, 1000), setresuid(1000, 1000, 1000);
        _exit(map_of(other, "clear_refs", O_WRONLY) != -1 || errno != EACCES);
    }
    int status;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    kill(other, SIGKILL), waitpid(other, 0, 0);
    CHECK(clear(other, "4") == -ENOENT);
}

static void alone(int pm) {
    char *m = memory(PAGES, MAP_PRIVATE);
    volatile char seen;
    m[0] = 1, m[PAGE] = 1, seen = m[2 * PAGE];
    CHECK(set(pm, m, 8) == 0xff);                       // It was mapped since.
    CHECK(clear(getpid(), "4") == 0);
    CHECK(set(pm, m, 8) == 0);
    m[PAGE] = 2, seen = m[2 * PAGE], m[3 * PAGE] = 1, seen = m[0];
    CHECK(set(pm, m, 8) == 0xa);
    CHECK(set(pm, m, 8) == 0xa);
    CHECK(clear(getpid(), "4") == 0);
    CHECK(set(pm, m, 8) == 0);
    CHECK(m[PAGE] == 2 && m[3 * PAGE] == 1);
    // Rights come and go.
    m[5 * PAGE] = 1;
    mprotect(m, 8 * PAGE, PROT_READ);
    CHECK(set(pm, m, 8) == 0x20);
    mprotect(m, 8 * PAGE, PROT_READ | PROT_WRITE);
    CHECK(set(pm, m, 8) == 0x20);
    m[6 * PAGE] = 1;
    CHECK(set(pm, m, 8) == 0x60);
    // By calls.
    clear(getpid(), "4");
    int fd[2];
    pipe(fd);
    write(fd[1], m, 2 * PAGE);
    CHECK(set(pm, m, 8) == 0);
    CHECK(read(fd[0], m + PAGE, PAGE) == PAGE);
    CHECK(set(pm, m, 8) == 2);
    struct iovec local = {m, 8}, remote = {m + 4 * PAGE, 8};
    CHECK(process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 8);
    CHECK(set(pm, m, 8) == 0x12);
    int mem = open("/proc/self/mem", O_RDWR);
    CHECK(pwrite(mem, "x", 1, (uintptr_t)m + 7 * PAGE) == 1);
    CHECK(set(pm, m, 8) == 0x92);
    close(mem), close(fd[0]), close(fd[1]);
    // Moved: all of it counts.
    clear(getpid(), "4");
    char *to = mremap(m, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
    CHECK(to != MAP_FAILED && (to == m || (set(pm, to, 8) & 0xff) == 0xff));
    // Mapped anew at the same place.
    clear(getpid(), "4");
    mmap(to + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK((set(pm, to, 4) & 2) == 2);
    munmap(to, 2 * PAGES * PAGE);
    CHECK((word(pm, to) >> 55 & 1) == 0);
}

// Small regions far apart, more than are told apart; and every other page of many.
static void many(int pm) {
    enum { REGIONS = 600, GAP = 4 << 20 };
    char *base = mmap(0, (size_t)REGIONS * GAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < REGIONS; i++) {
        mmap(base + (size_t)i * GAP, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        for (int n = 0; n < 4; n++) base[(size_t)i * GAP + n * PAGE] = 1;
    }
    clear(getpid(), "4");
    int wrong = 0;
    for (int i = 0; i < REGIONS; i++) base[(size_t)i * GAP + i % 4 * PAGE]++;
    for (int i = 0; i < REGIONS; i++) wrong += set(pm, base + (size_t)i * GAP, 4) != 1u << i % 4;
    CHECK(wrong == 0);
    // What is mapped anew counts, wherever it is.
    clear(getpid(), "4");
    for (int i = 0; i < REGIONS; i += 2)
        mmap(base + (size_t)i * GAP, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (int i = 0; i < REGIONS; i += 2) wrong += !(set(pm, base + (size_t)i * GAP, 4) & 1);
    CHECK(wrong == 0);
    munmap(base, (size_t)REGIONS * GAP);
}

static void forks(int pm) {
    char *m = memory(PAGES, MAP_PRIVATE), *s = memory(PAGES, MAP_SHARED);
    memset(m, 1, PAGES * PAGE), memset(s, 1, PAGES * PAGE);
    clear(getpid(), "4");
    m[0] = 2;
    int go[2], done[2];
    pipe(go), pipe(done);
    pid_t pid = fork();
    if (!pid) {
        char c;
        int own = map_of(getpid(), "pagemap", O_RDONLY);
        int bad = !dirty(own, m);                       // As its parent's.
        clear(getpid(), "4");
        bad |= set(own, m, 8) != 0;
        m[2 * PAGE] = 3, s[3 * PAGE] = 3;
        bad |= set(own, m, 8) != 4 || set(own, s, 8) != 8;
        write(done[1], "x", 1), read(go[0], &c, 1);
        bad |= set(own, m, 8) != 0;                     // Cleared by its parent.
        m[5 * PAGE] = 1;
        write(done[1], "x", 1), read(go[0], &c, 1);
        _exit(bad);
    }
    char c;
    read(done[0], &c, 1);
    CHECK(set(pm, m, 8) == 1 && set(pm, s, 8) == 0);
    int his = map_of(pid, "pagemap", O_RDONLY);
    CHECK(set(his, m, 8) == 4);
    CHECK(clear(pid, "4") == 0);
    write(go[1], "x", 1), read(done[0], &c, 1);
    CHECK(set(his, m, 8) == 0x20);
    m[6 * PAGE] = 1, m[2 * PAGE] = 1;
    CHECK(set(pm, m, 8) == 0x45);
    write(go[1], "x", 1);
    int status;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    close(his);
    CHECK(m[2 * PAGE] == 1 && s[3 * PAGE] == 3);
    clear(getpid(), "4");
    m[PAGE] = 1;
    CHECK(set(pm, m, 8) == 2);
}

// Files, private and shared; large memory, whose pages may count as written that were not.
static void kinds(int pm) {
    char name[] = "/tmp/soft_dirtyXXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    ftruncate(fd, 16 * PAGE);
    char *p = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *s = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    volatile char seen = p[0] + s[PAGE];
    clear(getpid(), "4");
    seen = p[0] + s[PAGE];
    CHECK(set(pm, p, 8) == 0);
    p[PAGE] = 1, s[2 * PAGE] = 1;
    CHECK((set(pm, p, 8) & 2) == 2 && (set(pm, s, 8) & 4) == 4);
    (void)seen;
    munmap(p, 16 * PAGE), munmap(s, 16 * PAGE), close(fd);
    size_t large = 64 << 20;
    char *m = memory(large / PAGE, MAP_PRIVATE);
    for (size_t at = 0; at < large; at += PAGE) m[at] = 1;
    clear(getpid(), "4");
    uint64_t *words = malloc(large / PAGE * 8);
    unsigned seed = 7;
    for (int i = 0; i < 500; i++) m[rand_r(&seed) % (large / PAGE) * PAGE] = 2;
    CHECK(pread(pm, words, large / PAGE * 8, (uintptr_t)m / PAGE * 8) == (ssize_t)(large / PAGE * 8));
    int missing = 0;
    for (size_t i = 0; i < large / PAGE; i++) missing += m[i * PAGE] == 2 && !(words[i] >> 55 & 1);
    CHECK(missing == 0);
    free(words), munmap(m, large);
}

// Threads on all cores write while it is asked again and again: each write is seen by one of the answers behind it.
static char *field;
static volatile int stops;
static uint64_t written[4][PAGES];
static void *writer(void *arg) {
    long which = (long)arg;
    unsigned seed = which + 1;
    while (!stops) {
        int page = which * PAGES / 4 + rand_r(&seed) % (PAGES / 4);
        __atomic_add_fetch((long *)(field + page * PAGE), 1, __ATOMIC_SEQ_CST);
        written[which][page]++;
    }
    return 0;
}
static void threads(int pm) {
    field = memory(PAGES, MAP_PRIVATE);
    pthread_t t[4];
    int lost = 0;
    clear(getpid(), "4");
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, writer, (void *)i);
    for (int round = 0; round < 40; round++) {
        // As a collector that stops nobody: what changes behind the clearing is seen later.
        long before[PAGES];
        clear(getpid(), "4");
        for (int i = 0; i < PAGES; i++) before[i] = __atomic_load_n((long *)(field + i * PAGE), __ATOMIC_SEQ_CST);
        usleep(500);
        long after[PAGES];
        for (int i = 0; i < PAGES; i++) after[i] = __atomic_load_n((long *)(field + i * PAGE), __ATOMIC_SEQ_CST);
        uint64_t words[PAGES];
        CHECK(pread(pm, words, sizeof words, (uintptr_t)field / PAGE * 8) == sizeof words);
        for (int i = 0; i < PAGES; i++) lost += after[i] != before[i] && !(words[i] >> 55 & 1);
    }
    stops = 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    for (int i = 0; i < PAGES; i++) lost += *(long *)(field + i * PAGE) != (long)written[i * 4 / PAGES][i];
    CHECK(lost == 0);
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    int pm = open("/proc/self/pagemap", O_RDONLY);
    char *probe = memory(1, MAP_PRIVATE);
    probe[0] = 1;
    errors();
    most();
    if (!dirty(pm, probe) && access("/proc/tessera", F_OK) != 0) { // A Linux without it.
        printf(failures ? "%d failures\n" : "passed\n", failures);
        return failures != 0;
    }
    alone(pm);
    many(pm);
    forks(pm);
    kinds(pm);
    threads(pm);
    printf(failures ? "%d failures\n" : "passed\n", failures);
    return failures != 0;
}
