// Copy-on-write by the counters: fork copies nothing, a write copies one page, the last owner none.
//
// On Tessera the number of page copies is a line of /proc/tessera/counters. Elsewhere there is no
// such file; then only the contents are checked.
//
// build: gcc
// mem: 512M
// expect-stdout: passed\n
#include "copies.h"

enum { MIB = 256, COUNT = MIB * 256 };

static int to_child[2], to_parent[2];

// What the processes tell each other: shared memory, so that telling costs no copy.
static volatile struct { long copies, bytes; } *report;

// The same for a number of copies, which can be had on Tessera only.
static void expect_copies(const char *what, long got, long wanted) {
    if (counted) expect(what, got, wanted);
}

// Writes every page that the measuring itself writes, so that it is no longer shared.
static void own_what_is_needed(void) {
    volatile char stack[16384];
    for (unsigned i = 0; i < sizeof stack; i += PAGE) stack[i] = 1;
    text[0] = 0;
    copies();
    copies();
}

// Copies caused by writing pages first, first + step, … of `at`.
static long writing(char *at, long first, long step, long count, long value) {
    long before = copies();
    for (long i = 0; i < count; i++) *(volatile long *)(at + (first + i * step) * PAGE) = value;
    return copies() - before;
}

static void wrong_values(const char *who, char *at, long count) {
    long wrong = 0;
    for (long i = 0; i < count; i++) wrong += *(long *)(at + i * PAGE) != i;
    expect(who, wrong, 0);
}

// A child that waits for a byte before each step, and tells when it has done it.
static void tell(int fd) { write(fd, "x", 1); }
static void await(int fd) {
    char byte;
    if (read(fd, &byte, 1) != 1) _exit(9);
}

static void end_of(pid_t pid) {
    int status;
    waitpid(pid, &status, 0);
    expect("status of a child", status, 0);
}

static void large_fork(void) {
    // What any fork costs: two stacks, the counter's buffer, the library's own memory.
    own_what_is_needed();
    long before = copies();
    pid_t small = fork();
    if (small == 0) {
        own_what_is_needed();
        _exit(0);
    }
    end_of(small);
    own_what_is_needed();
    long least = copies() - before;
    char *at = dirty(COUNT);
    own_what_is_needed();
    before = copies();
    pid_t pid = fork();
    if (pid == 0) {
        own_what_is_needed();
        await(to_child[0]);
        report->copies = writing(at, 1000, 5000, 10, -1);
        tell(to_parent[1]);
        await(to_child[0]);
        // Reading copies nothing.
        long now = copies(), sum = 0;
        for (long i = 0; i < COUNT; i++) sum += *(long *)(at + i * PAGE);
        report->bytes = copies() - now;
        _exit(sum == 0);
    }
    // Both sides have written their stack and a few pages of data by now; the library has written
    // down where the pages are, in some bytes for each.
    tell(to_child[1]);
    await(to_parent[0]);
    long by_fork = copies() - before - report->copies;
    if (counted && by_fork > least + COUNT / 512)
        fail("copies by fork", by_fork, least);
    expect_copies("copies by a child that writes 10 pages", report->copies, 10);
    tell(to_child[1]);
    end_of(pid);
    expect_copies("copies by a child that reads everything", report->bytes, 0);
    own_what_is_needed();
    wrong_values("pages that changed under the parent", at, COUNT);
    expect_copies("copies by the parent after the child's end", writing(at, 0, 1, COUNT, 7), 0);
    munmap(at, COUNT * PAGE);
}

// Whoever writes first gets the copy, the other keeps the page.
static void both_write(int child_first) {
    char *at = dirty(1);
    pid_t pid = fork();
    if (pid == 0) {
        own_what_is_needed();
        tell(to_parent[1]);
        await(to_child[0]);
        report->copies = writing(at, 0, 1, 1, -1);
        tell(to_parent[1]);
        await(to_child[0]);
        _exit(*(long *)at != -1);
    }
    own_what_is_needed();
    await(to_parent[0]);
    long own = 0;
    if (!child_first) own = writing(at, 0, 1, 1, -2);
    tell(to_child[1]);
    await(to_parent[0]);
    if (child_first) own = writing(at, 0, 1, 1, -2);
    expect_copies(child_first ? "copies by a child that is first" : "by a child that is second",
                  report->copies, child_first);
    expect_copies(child_first ? "copies by a parent that is second" : "by a parent that is first",
                  own, !child_first);
    tell(to_child[1]);
    end_of(pid);
    expect("the parent's value", *(long *)at, -2);
    munmap(at, PAGE);
}

// Three owners: two copies.
static void three_generations(void) {
    char *at = dirty(3);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            own_what_is_needed();
            _exit(counted && writing(at, 0, 1, 3, -3) != 3);
        }
        end_of(grandchild);
        own_what_is_needed();
        // The grandchild is gone, the parent is not.
        expect_copies("copies by the middle one", writing(at, 0, 1, 2, -2), 2);
        _exit(failures != 0);
    }
    end_of(pid);
    own_what_is_needed();
    expect_copies("copies by the first one", writing(at, 0, 1, 3, -1), 0);
    munmap(at, 3 * PAGE);
}

// A middle generation that ends leaves the page to the outer two.
static void middle_ends(void) {
    char *at = dirty(4);
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0) {
            own_what_is_needed();
            await(to_child[0]);
            report->copies = writing(at, 0, 1, 4, -3);
            report->bytes = writing(at, 0, 1, 4, -4);
            tell(to_parent[1]);
            _exit(0);
        }
        _exit(0);
    }
    end_of(pid);
    tell(to_child[1]);
    await(to_parent[0]);
    own_what_is_needed();
    expect_copies("copies by the grandchild", report->copies, 4);
    expect_copies("copies by writing again", report->bytes, 0);
    expect_copies("copies by the first one", writing(at, 0, 1, 4, -1), 0);
    munmap(at, 4 * PAGE);
}

// What is shared on purpose is never copied; untouched memory has nothing to copy.
static void nothing_to_copy(void) {
    char *shared = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    // Apart from the rest, so that nothing makes its pages ahead of time.
    char *untouched = mmap((void *)0x600000000000, 16 * PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    char *own = dirty(16);
    for (int i = 0; i < 8; i++) shared[i * PAGE] = 1;
    pid_t pid = fork();
    if (pid == 0) {
        own_what_is_needed();
        expect_copies("copies of shared pages", writing(shared, 0, 1, 16, 5), 0);
        expect_copies("copies of untouched pages", writing(untouched, 0, 1, 16, 5), 0);
        // Thrown away, so that what is written is new.
        madvise(own, 8 * PAGE, MADV_DONTNEED);
        expect_copies("copies of pages thrown away", writing(own, 0, 1, 8, 5), 0);
        munmap(own + 8 * PAGE, 8 * PAGE);
        mmap(own + 8 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        expect_copies("copies of pages mapped anew", writing(own, 8, 1, 8, 5), 0);
        _exit(failures != 0);
    }
    end_of(pid);
    own_what_is_needed();
    expect("what the child wrote to shared memory", *(long *)(shared + 15 * PAGE), 5);
    wrong_values("pages of the parent", own, 16);
    expect_copies("copies by the parent", writing(own, 0, 1, 16, 1), 0);
    munmap(shared, 16 * PAGE);
    munmap(untouched, 16 * PAGE);
    munmap(own, 16 * PAGE);
}

// Changes of the map between fork and write.
static void remapped(void) {
    char *at = dirty(32);
    pid_t pid = fork();
    if (pid == 0) {
        own_what_is_needed();
        mprotect(at, 8 * PAGE, PROT_READ);
        mprotect(at, 8 * PAGE, PROT_READ | PROT_WRITE);
        expect_copies("copies after mprotect and back", writing(at, 0, 1, 8, 5), 8);
        char *moved = mremap(at + 8 * PAGE, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
        expect("a moved page", *(long *)(moved + 7 * PAGE), 15);
        expect_copies("copies after mremap", writing(moved, 0, 1, 16, 5), 8);
        munmap(at + 16 * PAGE, 8 * PAGE);
        expect_copies("copies beside a hole", writing(at, 24, 1, 8, 5), 8);
        _exit(failures != 0);
    }
    end_of(pid);
    own_what_is_needed();
    wrong_values("pages of the parent", at, 32);
    expect_copies("copies by the parent", writing(at, 0, 1, 32, 1), 0);
    munmap(at, 32 * PAGE);
}

int main(void) {
    report = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pipe(to_child);
    pipe(to_parent);
    copies();
    if (!counted && access("/proc/tessera", F_OK) == 0) fail("counters that can be read", 0, 1);
    large_fork();
    both_write(1);
    both_write(0);
    three_generations();
    middle_ends();
    nothing_to_copy();
    remapped();
    if (!failures) printf("passed\n");
    return failures != 0;
}
