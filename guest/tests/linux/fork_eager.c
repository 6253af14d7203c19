// TESSERA_FORK=eager: a fork copies all private pages at once, and no write does; programs see nothing of it but that.
//
// The number of page copies is a line of /proc/tessera/counters.
//
// build: gcc
// mem: 192M
// env: TESSERA_FORK=eager
// expect-stdout: passed\n
#include "copies.h"

enum { COUNT = 2000, LARGE = 100 << 8 };

static long wrong(char *at, long count)
{
    long wrong = 0;
    for (long i = 0; i < count; i++)
        wrong += *(volatile long *)(at + i * PAGE) != i;
    return wrong;
}

// Copies that writing to each page takes.
static long writing(char *at, long count, long value)
{
    long before = copies();
    for (long i = 0; i < count; i++)
        *(volatile long *)(at + i * PAGE) = value;
    return copies() - before;
}

static void end_of(const char *what, pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    expect(what, status, 0);
}

// Nobody's write copies anything, whether the child is there or not; a child of the child copies as well.
static void writes_copy_nothing(void)
{
    char *at = dirty(COUNT);
    long before = copies();
    pid_t pid = fork();
    if (pid == 0) {
        expect("pages of the child", wrong(at, COUNT), 0);
        expect("copies by the child", writing(at, COUNT, -1), 0);
        before = copies();
        pid_t next = fork();
        if (next == 0)
            _exit(0);
        if (copies() - before < COUNT)
            fail("copies by a fork of the child", copies() - before, COUNT);
        end_of("a child of the child", next);
        _exit(failures != 0);
    }
    long by_fork = copies() - before;
    if (by_fork < COUNT || by_fork > 3 * COUNT)
        fail("copies by a fork", by_fork, COUNT);
    // The child may still fork meanwhile, whose copies count, too.
    end_of("a child", pid);
    expect("pages of the parent", wrong(at, COUNT), 0);
    pid = fork();
    if (pid == 0) {
        pause();
        _exit(1);
    }
    expect("copies by the parent", writing(at, COUNT, -2), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    munmap(at, COUNT * PAGE);
}

// Pages that nobody may touch are copied, too, and stay so; what a child is not to see it does not.
static void special_pages(void)
{
    char *at = dirty(40);
    mprotect(at, 10 * PAGE, PROT_NONE);
    mprotect(at + 10 * PAGE, 10 * PAGE, PROT_READ);
    madvise(at + 20 * PAGE, 10 * PAGE, MADV_DONTFORK);
    madvise(at + 30 * PAGE, 10 * PAGE, MADV_WIPEONFORK);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned char there;
        expect("mincore of what is not inherited", mincore(at + 20 * PAGE, PAGE, &there), -1);
        expect("a page that is wiped", *(long *)(at + 35 * PAGE), 0);
        mprotect(at, 20 * PAGE, PROT_READ | PROT_WRITE);
        expect("pages of the child", wrong(at, 20), 0);
        expect("copies by the child", writing(at, 20, -1), 0);
        _exit(failures != 0);
    }
    end_of("the child", pid);
    int ends[2];
    pipe(ends);
    expect("a write from hidden memory", write(ends[1], at, 1), -1);
    expect("its error", errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
    mprotect(at, 20 * PAGE, PROT_READ | PROT_WRITE);
    expect("pages of the parent", wrong(at, 40), 0);
    expect("copies by the parent", writing(at, 40, -1), 0);
    munmap(at, 40 * PAGE);
}

// Where there is no memory for copies, the fork goes well nevertheless.
static void short_memory(void)
{
    char *at = dirty(LARGE);
    pid_t pid = fork();
    if (pid == 0)
        _exit(wrong(at, LARGE) != 0);
    expect("a fork with more than half of the memory", pid > 0, 1);
    if (pid > 0)
        end_of("its child", pid);
    expect("pages of the parent", wrong(at, LARGE), 0);
    munmap(at, LARGE * PAGE);
}

// A program whose environment does not say so forks as any.
static void another_program(char *self)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *arguments[] = {self, "usual", NULL}, *environment[] = {"A=B", NULL};
        execve(self, arguments, environment);
        _exit(9);
    }
    end_of("a program without it", pid);
}

static int usual(void)
{
    char *at = dirty(COUNT);
    long before = copies();
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    end_of("a child", pid);
    if (copies() - before > COUNT / 2)
        fail("copies by a usual fork", copies() - before, 0);
    expect("pages", wrong(at, COUNT), 0);
    return failures != 0;
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    copies();
    if (!counted) {
        puts("FAILED: page copies are not counted");
        _exit(1);
    }
    if (count > 1)
        return usual();
    writes_copy_nothing();
    special_pages();
    short_memory();
    another_program(arguments[0]);
    if (!failures)
        puts("passed");
    return failures != 0;
}
