// Memory after fork: private copies, shared memory, many generations, protections.
// oracle: linux
#include "test.h"

enum { COUNT = 64 };
static char in_data[PAGE] = "data", in_bss[3 * PAGE];

static unsigned sum(const volatile unsigned char *p) {
    unsigned total = 0;
    for (int i = 0; i < COUNT; i++) total = total * 31 + p[i * PAGE];
    return total;
}

int main(void) {
    unsigned char *private = pages(COUNT, PROT_READ | PROT_WRITE);
    unsigned char *shared =
        mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < COUNT; i += 2) private[i * PAGE] = i + 1;
    char *heap = strdup("heap"), stack[] = "stack";
    printf("before: %u\n", sum(private));
    IN_CHILD("child writes", {
        printf("sees %u %s %s %s\n", sum(private), in_data, heap, stack);
        for (int i = 0; i < COUNT; i += 3) private[i * PAGE] = 200;
        for (int i = 0; i < COUNT; i += 5) shared[i * PAGE] = i;
        strcpy(in_data, "DATA"), strcpy(heap, "HEAP"), strcpy(stack, "STACK"), in_bss[5000] = 1;
        printf("has %u %s %s %s\n", sum(private), in_data, heap, stack);
    });
    printf("parent: %u %u %s %s %s %d\n", sum(private), sum(shared), in_data, heap, stack,
           in_bss[5000]);

    int ends[2];
    pipe(ends);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char go;
        read(ends[0], &go, 1);
        printf("child does not see the parent's writes: %u\n", sum(private));
        fflush(stdout);
        _exit(0);
    }
    for (int i = 0; i < COUNT; i++) private[i * PAGE] = i;
    write(ends[1], "x", 1);
    waitpid(pid, NULL, 0);

    // Each generation writes one page more and forks the next.
    fflush(stdout);
    int depth = 0;
    while (depth < 12 && (pid = fork()) == 0) private[depth++ * PAGE] = 100;
    if (depth < 12) waitpid(pid, NULL, 0);
    if (depth % 4 == 0) printf("generation %d: %u\n", depth, sum(private));
    fflush(stdout);
    if (depth > 0) _exit(0);

    mprotect(private, COUNT * PAGE, PROT_READ);
    IN_CHILD("read-only in the child too", private[0] = 1);
    mprotect(private, COUNT * PAGE, PROT_READ | PROT_WRITE);
    IN_CHILD("unmapped by the child only", munmap(private, COUNT * PAGE));
    printf("still there: %u\n", sum(private));
    IN_CHILD("madvise by the child only", madvise(private, COUNT * PAGE, MADV_DONTNEED));
    printf("still there: %u\n", sum(private));
    IN_CHILD("read by a system call", {
        int zero = open("/dev/zero", O_RDONLY);
        SHOW(read(zero, private, 10 * PAGE));
        printf("child: %u\n", sum(private));
    });
    printf("parent: %u\n", sum(private));
    return 0;
}
