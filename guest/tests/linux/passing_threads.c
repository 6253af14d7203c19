// Memory that is passed while other threads write to it and other processes take it: no write is lost that was made before or after the
// range became shared, what is copied or donated changes no more, what can be taken once is taken once; and processes that pass
// memory are killed in the middle.
//
// build: gcc, musl
// mem: 512M
// cores: 4
// expect-stdout: passed\n
#include "passing.h"
#include <pthread.h>
#include <sys/time.h>

enum { RW = PROT_READ | PROT_WRITE, WRITERS = 3, ROUNDS = 6 };

static char *volatile range;
static volatile size_t count;
static volatile int stops;
static volatile int written[WRITERS];

// Each writer counts in words of its own in each page, one page after the other: a write that is lost shows.
static void *count_in_pages(void *argument) {
    long which = (long)argument;
    for (long turn = 1; !stops; turn++) {
        for (size_t n = 0; n < count; n += 1 + count / 50) {
            volatile long *word = (long *)(range + n * PAGE) + 8 * which;
            if (*word != turn - 1) {
                printf("writer %ld, page %zu: %ld instead of %ld\n", which, n, *word, turn - 1);
                exit(1);
            }
            *word = turn;
        }
        written[which]++;
    }
    return NULL;
}

static void shares_while_written(size_t pages_of_it) {
    count = pages_of_it;
    range = pages(count, RW);
    memset(range, 0, count * PAGE);
    stops = 0;
    pthread_t threads[WRITERS];
    for (long n = 0; n < WRITERS; n++) {
        written[n] = 0;
        MUST(pthread_create(&threads[n], NULL, count_in_pages, (void *)n) == 0);
    }
    char *seen = NULL;
    for (int n = 0; n < 4; n++) {
        // Copies are of no use but to be in the way.
        uint64_t offset;
        int fd = export_range(n == 1 ? PASS_SHARE : PASS_COPY, range, count * PAGE, &offset);
        MUST(fd >= 0);
        if (n == 1) seen = mmap(NULL, count * PAGE, RW, MAP_SHARED, fd, (off_t)offset);
        close(fd);
        int before[WRITERS];
        for (int w = 0; w < WRITERS; w++) before[w] = written[w];
        for (int w = 0; w < WRITERS; w++)
            while (written[w] < before[w] + 3) sched_yield();
    }
    stops = 1;
    for (int n = 0; n < WRITERS; n++) MUST(pthread_join(threads[n], NULL) == 0);
    MUST(seen != MAP_FAILED && memcmp(seen, range, count * PAGE) == 0);
    MUST(munmap(seen, count * PAGE) == 0 && munmap(range, count * PAGE) == 0);
}

// What was donated: who writes to it meanwhile gets a signal, and what the receiver has stays as it is.
static void *write_until_it_ends(void *argument) {
    (void)argument;
    for (long n = 0;; n++) {
        size_t page = (size_t)n % count;
        if (signal_of(range + page * PAGE + 8, 1)) return NULL;
        written[0]++;
    }
}
static void donates_while_written(size_t pages_of_it) {
    count = pages_of_it;
    range = pages(count, RW);
    memset(range, 1, count * PAGE);
    written[0] = 0;
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, write_until_it_ends, NULL) == 0);
    while (written[0] < 100) sched_yield();
    uint64_t offset;
    int fd = export_range(PASS_DONATE, range, count * PAGE, &offset);
    MUST(fd >= 0);
    MUST(pthread_join(thread, NULL) == 0);
    char *got = import_range(PASS_TAKE, fd, count * PAGE, offset);
    MUST(got != MAP_FAILED);
    close(fd);
    for (size_t n = 0; n < count; n++) {
        char *page = got + n * PAGE;
        MUST(page[0] == 1 && (page[8] == 1 || page[8] == 7) && page[PAGE - 1] == 1);
    }
    MUST(munmap(got, count * PAGE) == 0);
}

// Several processes take the same: one has it.
static void is_taken_once(size_t pages_of_it) {
    enum { TAKERS = 6 };
    char *at = pages(pages_of_it, RW);
    fill(at, pages_of_it, 3);
    uint64_t offset;
    int fd = export_range(PASS_DONATE, at, pages_of_it * PAGE, &offset), go[2];
    MUST(fd >= 0 && pipe(go) == 0);
    pid_t takers[TAKERS];
    for (int n = 0; n < TAKERS; n++) {
        if ((takers[n] = fork()) == 0) {
            char byte;
            close(go[1]);
            MUST(read(go[0], &byte, 1) == 0);
            char *got = import_range(PASS_TAKE, fd, pages_of_it * PAGE, offset);
            if (got == MAP_FAILED) _exit(errno == ENODATA ? 1 : 2);
            MUST(is_filled(got, pages_of_it, 3));
            fill(got, pages_of_it, 60 + n);
            MUST(is_filled(got, pages_of_it, 60 + n));
            _exit(0);
        }
    }
    close(go[0]), close(go[1]);
    int had = 0, had_not = 0;
    for (int n = 0; n < TAKERS; n++) {
        int status;
        MUST(waitpid(takers[n], &status, 0) == takers[n]);
        had += status == 0, had_not += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }
    MUST(had == 1 && had_not == TAKERS - 1);
    close(fd);
}

// A process that passes memory to itself and to children until it is killed.
static void passes_for_ever(unsigned seed) {
    for (;;) {
        size_t n = 1 + (seed = seed * 1103515245 + 12345) / 65536 % 3000;
        int how = PASS_SHARE + (int)(seed >> 8) % 3;
        char *at = pages(n, RW), *got = MAP_FAILED;
        at[0] = at[(n - 1) * PAGE] = 'k';
        uint64_t offset;
        int fd = export_range(how, at, n * PAGE, &offset);
        MUST(fd >= 0);
        if (seed & 1 << 20) got = import_range(seed & 1 << 21 ? PASS_TAKE : PASS_IMPORT, fd, n * PAGE, offset);
        if (got != MAP_FAILED) MUST(got[0] == 'k' && got[(n - 1) * PAGE] == 'k');
        if (seed & 1 << 22) {
            pid_t pid = fork();
            if (pid == 0) {
                got = import_range(PASS_IMPORT, fd, n * PAGE, offset);
                _exit(0);
            }
            // Sometimes nobody waits for it.
            if (seed & 1 << 23) waitpid(pid, NULL, 0);
        }
        if (seed & 1 << 24) close(fd);
        if (seed & 1 << 25 && how != PASS_DONATE) munmap(at, n * PAGE);
        if (got != MAP_FAILED && seed & 1 << 26) munmap(got, n * PAGE);
        for (; fd > 100 && fd >= 3; fd--) close(fd);
    }
}
static void are_killed(void) {
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[3];
        for (int n = 0; n < 3; n++) {
            if ((pids[n] = fork()) == 0) {
                setpgid(0, 0);
                passes_for_ever((unsigned)(round * 3 + n) * 7919);
            }
        }
        struct timespec pause = {0, 20000000 + round * 7000000};
        nanosleep(&pause, NULL);
        for (int n = 0; n < 3; n++) {
            int status;
            kill(-pids[n], SIGKILL), kill(pids[n], SIGKILL);
            MUST(waitpid(pids[n], &status, 0) == pids[n]);
            MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
    }
}

int main(void) {
    catch_faults();
    static const size_t sizes[] = {5, 100, 2100};
    for (unsigned n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        shares_while_written(sizes[n]);
        donates_while_written(sizes[n]);
        is_taken_once(sizes[n]);
    }
    are_killed();
    puts("passed");
}
