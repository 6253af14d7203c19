// A program with shared libraries, its own and such that it opens: what the dynamic linker was told, thread-local variables,
// symbols that are found in both directions.
// build: dynamic
// oracle: linux
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread int own = 5;
static void *count(void *argument) {
    (void)argument;
    for (int n = 0; n < 3; n++) own++;
    return (void *)(long)own;
}

int symbol(void) { return 77; }

static int library(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    if (strstr(info->dlpi_name, "libc.so")) ++*(int *)data;
    return 0;
}

// Constructors run before main.
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }
static void at_end(void) { puts("the end"); fflush(stdout); }

static int lines_with(const char *what) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;
    while (fgets(line, sizeof line, maps)) found += strstr(line, what) != NULL;
    fclose(maps);
    return found;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("executed with %s\n", argv[1]);
        return 3;
    }
    atexit(at_end);
    printf("constructed %d\n", constructed);
    printf("the linker's base: %d, the entry is elsewhere: %d\n", getauxval(AT_BASE) != 0, getauxval(AT_ENTRY) != getauxval(AT_BASE));
    printf("headers: %d of %d bytes\n", getauxval(AT_PHDR) != 0, (int)getauxval(AT_PHENT));
    volatile double two = 2;
    printf("from another library: %.6f\n", pow(two, 0.5));
    void *math = dlopen("libm.so.6", RTLD_NOW | RTLD_NOLOAD), *none = dlopen("libnothere.so.9", RTLD_NOW);
    double (*cosine)(double) = math ? (double (*)(double))dlsym(math, "cos") : NULL;
    printf("opened: %d %d, cos %.6f\n", math != NULL, none != NULL, cosine ? cosine(two) : 0);
    int (*found)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "symbol");
    printf("own symbol: %d\n", found ? found() : -1);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, count, NULL);
    pthread_join(thread, &result);
    printf("thread-local: %ld %d\n", (long)result, own);
    int libraries = 0;
    dl_iterate_phdr(library, &libraries);
    printf("one C library: %d\n", libraries);
    printf("mapped by name: %d %d\n", lines_with("libc.so") > 2, lines_with("ld-linux") > 2);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        char *words[] = { argv[0], "a word", NULL };
        execv(argv[0], words);
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    printf("status %d\n", WEXITSTATUS(status));
    return 0;
}
