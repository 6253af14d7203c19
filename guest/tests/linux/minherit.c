// What a child has of a range of its parent's: shared, a copy, nothing or zeros, as BSD's minherit says. Sizes that are copied to become shared and such that
// are not; grandchildren; there and back; the pages around it stay what they were.
//
// build: gcc, musl
// cores: 2
// expect-stdout: passed\n
#include "minherit.h"

enum { RW = PROT_READ | PROT_WRITE, FRONT = 3 };
static const size_t sizes[] = {1, 7, 300, 2048 + 5};

// What a child finds in the range, and whether what it writes there is seen here.
static void child_finds(char *at, size_t count, int how, int value) {
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        // In front of it and behind it there are copies, in all modes.
        MUST(is_filled(at - FRONT * PAGE, FRONT, 1) && is_filled(at + count * PAGE, FRONT, 2));
        at[-1] = 7, at[count * PAGE] = 7;
        switch (how) {
        case INHERIT_NONE:
            MUST(signal_of(at, 0) == SIGSEGV && signal_of(at + count * PAGE - 1, 0) == SIGSEGV);
            // There is a place for something else.
            MUST(mmap(at, count * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at && *at == 0);
            break;
        case INHERIT_ZERO:
            for (size_t n = 0; n < count * PAGE; n += PAGE / 2) MUST(at[n] == 0);
            break;
        default:
            MUST(is_filled(at, count, value));
        }
        fill(at, count, value + 1);
        MUST(is_filled(at, count, value + 1));
        pid_t grandchild = fork();
        if (grandchild == 0) {
            if (how == INHERIT_ZERO) MUST(at[0] == 0 && at[(count - 1) * PAGE] == 0);
            else MUST(is_filled(at, count, value + 1));
            fill(at, count, value + 2);
            _exit(0);
        }
        CHILD_IS_WELL(grandchild);
        MUST(is_filled(at, count, value + 1 + (how == INHERIT_SHARE)));
        _exit(0);
    }
    CHILD_IS_WELL(pid);
    MUST(is_filled(at, count, how == INHERIT_SHARE ? value + 2 : value));
    MUST(is_filled(at - FRONT * PAGE, FRONT, 1) && is_filled(at + count * PAGE, FRONT, 2));
    // What is written here while a child is there.
    int go[2];
    char byte;
    MUST(pipe(go) == 0);
    fill(at, count, value);
    pid = fork();
    if (pid == 0) {
        MUST(read(go[0], &byte, 1) == 1);
        if (how == INHERIT_SHARE) MUST(is_filled(at, count, value + 3));
        if (how == INHERIT_COPY) MUST(is_filled(at, count, value));
        _exit(0);
    }
    fill(at, count, value + 3);
    MUST(write(go[1], "x", 1) == 1);
    CHILD_IS_WELL(pid);
    close(go[0]), close(go[1]);
    fill(at, count, value);
}

static void modes(size_t count) {
    static const int order[] = {INHERIT_COPY, INHERIT_SHARE, INHERIT_COPY, INHERIT_NONE, INHERIT_COPY, INHERIT_ZERO, INHERIT_COPY, INHERIT_SHARE};
    char *all = pages(count + 2 * FRONT, RW), *at = all + FRONT * PAGE;
    fill(all, FRONT, 1);
    fill(at + count * PAGE, FRONT, 2);
    for (size_t n = 0; n < sizeof order / sizeof *order; n++) {
        fill(at, count, 10 * (int)n);
        MUST(minherit(at, count * PAGE, order[n]) == 0);
        MUST(is_filled(at, count, 10 * (int)n));
        child_finds(at, count, order[n], 10 * (int)n);
    }
    MUST(munmap(all, (count + 2 * FRONT) * PAGE) == 0);
}

// Two children that share with each other what they got from the parent, which has ended its own part of it.
static void siblings(void) {
    atomic_int *at = (atomic_int *)pages(1, RW);
    MUST(minherit(at, PAGE, INHERIT_SHARE) == 0);
    pid_t children[2];
    for (int n = 0; n < 2; n++) {
        children[n] = fork();
        if (children[n] == 0) {
            for (int turn = 0; turn < 200; turn++) {
                while (atomic_load(at) != 2 * turn + n) sched_yield();
                atomic_fetch_add(at, 1);
            }
            _exit(0);
        }
    }
    MUST(munmap(at, PAGE) == 0);
    for (int n = 0; n < 2; n++) CHILD_IS_WELL(children[n]);
}

static void errors(void) {
    char *at = pages(4, RW);
    MUST(minherit(at, PAGE, 9) == -1 && errno == EINVAL);
    for (int how = INHERIT_SHARE; how <= INHERIT_ZERO; how++)
        MUST(minherit(at + 1, PAGE, how) == -1 && errno == EINVAL);
    MUST(munmap(at + PAGE, PAGE) == 0);
    MUST(minherit(at, 3 * PAGE, INHERIT_SHARE) == -1 && errno == ENOMEM);
    // Nothing has changed.
    fill(at, 1, 5);
    pid_t pid = fork();
    if (pid == 0) fill(at, 1, 6), _exit(0);
    CHILD_IS_WELL(pid);
    MUST(is_filled(at, 1, 5));
}

int main(void) {
    if (access("/proc/tessera", F_OK) != 0) return printf("passed\n"), 0;
    catch_faults();
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) modes(sizes[n]);
    siblings();
    errors();
    printf("passed\n");
    return 0;
}
