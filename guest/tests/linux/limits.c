// Using up what there is: memory, descriptors, processes. The rest goes on.
// mem: 128M
// expect-stdout: memory came to an end\nit can be used again\ndescriptors came to an end: 24\nprocesses came and went\nend\n
// why: Linux would let its out-of-memory killer choose somebody; here the one who asks is refused
#include "test.h"

static int use_all_memory(void) {
    long taken = 0;
    for (;; taken++) {
        char *at = mmap(NULL, 256 * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (at == MAP_FAILED) return errno == ENOMEM ? 0 : 1;
        for (int i = 0; i < 256; i++) at[i * PAGE] = 1;
        if (taken > 4096) return 2;
    }
}

int main(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(use_all_memory());
    int status;
    waitpid(pid, &status, 0);
    // Refused, or killed for what it touched.
    int ended = status == 0 || WIFSIGNALED(status);
    puts(ended ? "memory came to an end" : "memory has no end");
    char *again = pages(5000, PROT_READ | PROT_WRITE);
    for (int i = 0; i < 5000; i++) again[i * PAGE] = 1;
    puts("it can be used again");
    int last = 0, fd;
    while ((fd = dup(0)) >= 0 && fd < 100000) last = fd;
    printf("descriptors came to an end: %d\n", errno);
    while (last > 2) close(last--);
    fflush(stdout);
    for (int i = 0; i < 200; i++) {
        if ((pid = fork()) == 0) _exit(0);
        if (pid < 0) printf("fork %d: errno %d\n", i, errno);
        if (i % 20 == 19)
            while (wait(NULL) > 0) {}
    }
    puts("processes came and went");
    puts("end");
    return 0;
}
