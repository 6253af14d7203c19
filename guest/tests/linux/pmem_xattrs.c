// Extended attributes of files that survive. On Linux, of files of a disk, as its tmpfs has none of users.
//
// build: gcc, musl
// nvdimm: 32M
// oracle: linux
#include "test.h"
#include <sys/xattr.h>

static char value[70000];

// Names and lengths of all attributes, which may be in any order.
static void list(const char *name) {
    char names[1000];
    ssize_t bytes = listxattr(name, names, sizeof names);
    int count = 0, sum = 0;
    for (ssize_t at = 0; at < bytes; at += strlen(names + at) + 1) {
        if (strncmp(names + at, "security.", 9) == 0) continue;
        count++;
        sum += strlen(names + at);
    }
    printf("%s: %d names of %d bytes\n", name, count, sum);
}

int main(void) {
    if (access("/pmem", W_OK) == 0) chdir("/pmem");
    SHOW(close(open("f", O_CREAT | O_RDWR, 0644)));
    SHOW(mkdir("d", 0755));
    SHOW(symlink("f", "s"));
    list("f");
    SHOW(getxattr("f", "user.a", value, 10));
    SHOW(setxattr("f", "user.a", "one", 3, 0));
    SHOW(setxattr("f", "user.a", "two", 3, XATTR_CREATE));
    SHOW(setxattr("f", "user.b", "two", 3, XATTR_REPLACE));
    SHOW(setxattr("f", "user.a", "three", 5, XATTR_REPLACE));
    SHOW(setxattr("f", "user.b", "", 0, XATTR_CREATE));
    SHOW(setxattr("s", "user.through-a-link", "x", 1, 0));
    SHOW(lsetxattr("s", "user.of-a-link", "x", 1, 0));
    SHOW(lgetxattr("s", "user.a", value, 10));
    SHOW(setxattr("d", "user.of-a-directory", "x", 1, 0));
    SHOW(setxattr("none", "user.a", "x", 1, 0));
    SHOW(setxattr("f", "trusted.t", "admin", 5, 0));
    list("f");
    list("d");
    SHOW(getxattr("f", "user.a", NULL, 0));
    SHOW(getxattr("f", "user.a", value, 4));
    SHOW(getxattr("f", "user.a", value, 5));
    printf("%.5s\n", value);
    SHOW(getxattr("f", "user.b", value, 5));
    SHOW(getxattr("f", "trusted.t", value, 5));
    // A long name, a long value, and what is too long.
    char name[300] = "user.";
    memset(name + 5, 'n', 250);
    name[255] = 0;
    memset(value, 'v', sizeof value);
    SHOW(setxattr("f", name, value, 2000, 0));
    memset(value, 0, sizeof value);
    SHOW(getxattr("f", name, value, sizeof value));
    CHECK(value[0] == 'v' && value[1999] == 'v' && value[2000] == 0);
    SHOW(removexattr("f", name));
    name[255] = 'n', name[256] = 0;
    SHOW(setxattr("f", name, value, 1, 0));
    SHOW(setxattr("f", "", value, 1, 0));
    SHOW(setxattr("f", "user.", value, 1, 0));
    SHOW(setxattr("f", "nobody.a", value, 1, 0));
    SHOW(setxattr("f", "user.long", value, 65537, 0));
    SHOW(setxattr("f", "user.a", value, 1, 4));
    int fd = open("f", O_RDONLY);
    SHOW(fgetxattr(fd, "user.a", value, 10));
    SHOW(fsetxattr(fd, "user.c", "c", 1, 0));
    SHOW(flistxattr(fd, NULL, 0) > 0);
    SHOW(fremovexattr(fd, "user.c"));
    SHOW(fremovexattr(fd, "user.c"));
    SHOW(fremovexattr(-1, "user.c"));
    close(fd);
    // Whoever may not read has nothing of them, whoever may not write changes nothing.
    SHOW(chmod("f", 0604));
    IN_CHILD("another user", {
        setgid(7);
        setuid(7);
        SHOW(getxattr("f", "user.a", value, 10));
        SHOW(setxattr("f", "user.a", "x", 1, 0));
        SHOW(getxattr("f", "trusted.t", value, 10));
        SHOW(setxattr("f", "trusted.t", "x", 1, 0));
        list("f");
    });
    SHOW(chmod("f", 0600));
    IN_CHILD("another user", {
        setuid(7);
        SHOW(getxattr("f", "user.a", value, 10));
    });
    SHOW(rename("f", "g"));
    SHOW(getxattr("g", "user.a", value, 10));
    SHOW(unlink("g"));
    SHOW(unlink("s"));
    SHOW(rmdir("d"));
    return 0;
}
