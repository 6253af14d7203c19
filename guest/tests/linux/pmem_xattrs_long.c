// Extended attributes with long values and long lists, of several processes at once.
//
// build: gcc, musl
// nvdimm: 64M
// expect-status: 0
#include "must.h"
#include <sys/xattr.h>

enum { MOST = 65536, NAMES = 128, PROCESSES = 12 };

static int fails(long result, int error) { return result == -1 && errno == error; }

static void fill(char *value, size_t bytes, unsigned seed) {
    for (size_t n = 0; n < bytes; n++) value[n] = (seed = seed * 1103515245 + 12345) >> 16;
}

static void set_and_get(const char *file, const char *name, size_t bytes, unsigned seed) {
    static char value[MOST], found[MOST + 1];
    fill(value, bytes, seed);
    MUST(setxattr(file, name, value, bytes, 0) == 0);
    MUST(getxattr(file, name, NULL, 0) == (ssize_t)bytes);
    memset(found, 0, sizeof found);
    MUST(getxattr(file, name, found, bytes) == (ssize_t)bytes && memcmp(found, value, bytes) == 0);
    if (bytes > 1) MUST(fails(getxattr(file, name, found, bytes - 1), ERANGE));
    MUST(getxattr(file, name, found, sizeof found) == (ssize_t)bytes && memcmp(found, value, bytes) == 0);
    MUST(found[bytes] == 0 || bytes == MOST);
}

static void sizes(void) {
    size_t some[] = {1, 12000, 12263, 12264, 12280, 12281, 12287, 12288, 12289, 16384, 24576, 24577, 40000, MOST - 1, MOST};
    for (unsigned n = 0; n < sizeof some / sizeof some[0]; n++) {
        set_and_get("f", "user.a", some[n], n);
        set_and_get("d", "user.of-a-directory", some[n], n + 100);
    }
    static char value[MOST + 1];
    MUST(fails(setxattr("f", "user.a", value, MOST + 1, 0), E2BIG));
    MUST(fails(setxattr("f", "user.a", value, MOST, XATTR_CREATE), EEXIST));
    MUST(fails(setxattr("f", "user.none", value, MOST, XATTR_REPLACE), ENODATA));
    MUST(fails(setxattr("none", "user.a", value, MOST, 0), ENOENT));
    MUST(fails(setxattr("f", "user.a", (void *)4096, MOST, 0), EFAULT));
    MUST(fails(getxattr("f", "user.a", (void *)4096, MOST), EFAULT));
    int fd = open("f", O_RDWR);
    fill(value, MOST, 77);
    MUST(fd >= 0 && fsetxattr(fd, "user.a", value, MOST, XATTR_REPLACE) == 0);
    static char found[MOST];
    MUST(fgetxattr(fd, "user.a", found, MOST) == MOST && memcmp(found, value, MOST) == 0 && close(fd) == 0);
    MUST(removexattr("f", "user.a") == 0 && fails(removexattr("f", "user.a"), ENODATA));
}

static const char *name_of(int n) {
    static char name[256];
    snprintf(name, sizeof name, "user.%0250d", n);
    return name;
}

// As many names as there can be, each as long as it can be.
static void lists(void) {
    for (int n = 0; n < NAMES; n++) MUST(setxattr("f", name_of(n), "x", 1, XATTR_CREATE) == 0);
    MUST(fails(setxattr("f", "user.more", "x", 1, 0), ENOSPC));
    static char names[NAMES * 256 + 1];
    char seen[NAMES] = {0};
    MUST(listxattr("f", NULL, 0) == NAMES * 256 && fails(listxattr("f", names, NAMES * 256 - 1), ERANGE));
    MUST(listxattr("f", names, sizeof names) == NAMES * 256);
    for (int at = 0; at < NAMES * 256; at += 256) {
        MUST(strlen(names + at) == 255);
        seen[atoi(names + at + 5)]++;
    }
    for (int n = 0; n < NAMES; n++) MUST(seen[n] == 1 && removexattr("f", name_of(n)) == 0);
    MUST(listxattr("f", names, sizeof names) == 0);
}

// More processes than there are long values on their way: nobody finds what another one has, or half of it.
static void at_once(void) {
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        MUST(children[p] >= 0);
        if (children[p] == 0) {
            char name[32];
            snprintf(name, sizeof name, "user.of-%d", p);
            for (int round = 0; round < 20; round++) {
                set_and_get("f", name, 20000 + 3000 * p + round, p * 1000 + round);
                if (p == 0 && round == 10) break;
            }
            MUST(removexattr("f", name) == 0);
            _exit(0);
        }
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        MUST(waitpid(children[p], &status, 0) == children[p] && status == 0);
    }
}

// One that is not finished is nobody's when its process has ended.
static void killed(void) {
    for (int n = 0; n < 10; n++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            static char value[MOST];
            for (;;) setxattr("f", "user.killed", value, MOST, 0);
        }
        usleep(3000 * n);
        int status;
        MUST(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
        char *found = malloc(MOST);
        ssize_t bytes = getxattr("f", "user.killed", found, MOST);
        MUST(bytes == MOST || fails(bytes, ENODATA));
        free(found);
    }
    removexattr("f", "user.killed");
}

// Until there is no room: what was there is there still, and what is removed makes room.
static void full(void) {
    char name[32];
    int files = 0, last = 0;
    static char value[MOST], found[MOST];
    fill(value, MOST, 5);
    for (int error = 0; !error; files++) {
        snprintf(name, sizeof name, "full%d", files);
        MUST(close(open(name, O_CREAT | O_RDWR, 0600)) == 0);
        for (last = 0; last < NAMES && !error; last++) {
            char attribute[32];
            snprintf(attribute, sizeof attribute, "user.%d", last);
            if (setxattr(name, attribute, value, MOST, 0) != 0) error = errno;
        }
        MUST(error == 0 || error == ENOSPC);
    }
    MUST(last > 1);
    snprintf(name, sizeof name, "full%d", files - 1);
    MUST(getxattr(name, "user.0", found, MOST) == MOST && memcmp(found, value, MOST) == 0);
    MUST(fails(setxattr(name, "user.0", "x", 1, XATTR_CREATE), EEXIST) && setxattr(name, "user.0", "x", 1, 0) == 0);
    set_and_get(name, "user.0", MOST - 1000, 6);
    while (files-- > 0) {
        snprintf(name, sizeof name, "full%d", files);
        MUST(unlink(name) == 0);
    }
    set_and_get("f", "user.again", MOST, 8);
}

int main(void) {
    MUST(chdir("/pmem") == 0 && mkdir("d", 0700) == 0 && close(open("f", O_CREAT | O_RDWR, 0600)) == 0);
    sizes();
    lists();
    at_once();
    killed();
    full();
    MUST(unlink("f") == 0 && rmdir("d") == 0);
    printf("long attributes are as they were set\n");
    return 0;
}
