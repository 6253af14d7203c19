// setxattrat, getxattrat, listxattrat, removexattrat: which file is meant, and errors of the arguments.
// build: gcc, musl
// nvdimm: 32M
// oracle: linux
#include "test.h"
#include <sys/xattr.h>
struct args { uint64_t value; uint32_t size, flags; uint64_t more; };
static long set(int dir, const char *path, unsigned at, const char *name, void *a, size_t n) { return syscall(463, dir, path, at, name, a, n); }
static long get(int dir, const char *path, unsigned at, const char *name, void *a, size_t n) { return syscall(464, dir, path, at, name, a, n); }
static long list(int dir, const char *path, unsigned at, char *to, size_t n) { return syscall(465, dir, path, at, to, n); }
static long drop(int dir, const char *path, unsigned at, const char *name) { return syscall(466, dir, path, at, name); }
int main(void) {
    // Where files have attributes of users.
    chdir(access("/pmem", W_OK) == 0 ? "/pmem" : "/tmp");
    char place[] = "xattratXXXXXX", text[200], inside[100];
    mkdtemp(place);
    int dir = open(place, O_RDONLY | O_DIRECTORY), fd = openat(dir, "file", O_RDWR | O_CREAT, 0644);
    symlinkat("file", dir, "link");
    struct args a = {(uintptr_t)"value", 5, 0, 0};
    SHOW(set(dir, "file", 0, "user.one", &a, 16));
    SHOW(set(dir, "link", 0, "user.two", &a, 24));
    SHOW(set(fd, "", AT_EMPTY_PATH, "user.three", &a, 16));
    sprintf(inside, "%s/file", place);
    SHOW(llistxattr(inside, text, sizeof text));
    SHOW(llistxattr(inside, text, 2));
    SHOW(setxattr(inside, "user.more", "1", 1, 0));
    SHOW(lremovexattr(inside, "user.absent"));
    SHOW(lremovexattr(inside, "user.more"));
    SHOW(lremovexattr(inside, "user.more"));
    SHOW(set(fd, "", 0, "user.three", &a, 16));
    SHOW(set(dir, "link", AT_SYMLINK_NOFOLLOW, "user.two", &a, 16));
    SHOW(set(dir, "file", 77, "user.one", &a, 16));
    SHOW(set(dir, "file", 0, "user.one", &a, 15));
    SHOW(set(dir, "file", 0, "user.one", &a, 4097));
    SHOW(set(dir, "file", 0, "user.one", NULL, 16));
    SHOW(set(dir, "file", 0, NULL, &a, 16));
    SHOW(set(99, "file", 0, "user.one", &a, 16));
    SHOW(set(dir, "absent", 0, "user.one", &a, 16));
    a.more = 1;
    SHOW(set(dir, "file", 0, "user.one", &a, 24));
    a.more = 0, a.flags = XATTR_CREATE;
    SHOW(set(dir, "file", 0, "user.one", &a, 16));
    a.flags = XATTR_REPLACE;
    SHOW(set(dir, "file", 0, "user.four", &a, 16));
    SHOW(set(dir, "file", 0, "user.one", &a, 16));
    a.flags = 4;
    SHOW(set(dir, "file", 0, "user.one", &a, 16));
    a.flags = 0, a.size = 65537;
    SHOW(set(dir, "file", 0, "user.one", &a, 16));
    a.value = (uintptr_t)text, a.size = sizeof text;
    SHOW(get(dir, "file", 0, "user.one", &a, 16));
    printf("%.5s\n", text);
    SHOW(get(dir, "link", 0, "user.two", &a, 16));
    SHOW(get(dir, "link", AT_SYMLINK_NOFOLLOW, "user.two", &a, 16));
    SHOW(get(fd, "", AT_EMPTY_PATH, "user.three", &a, 16));
    SHOW(get(dir, "file", 0, "user.absent", &a, 16));
    a.size = 2;
    SHOW(get(dir, "file", 0, "user.one", &a, 16));
    a.size = 0;
    SHOW(get(dir, "file", 0, "user.one", &a, 16));
    a.flags = 1;
    SHOW(get(dir, "file", 0, "user.one", &a, 16));
    a.flags = 0;
    SHOW(get(dir, "file", 77, "user.one", &a, 16));
    SHOW(get(dir, "file", 0, "user.one", &a, 15));
    SHOW(get(dir, "file", 0, "user.one", NULL, 16));
    SHOW(get(99, "file", 0, "user.one", &a, 16));
    SHOW(get(dir, "absent", 0, "user.one", &a, 16));
    SHOW(list(dir, "file", 0, text, sizeof text));
    SHOW(list(dir, "file", 0, NULL, 0));
    SHOW(list(dir, "file", 0, text, 3));
    SHOW(list(dir, "link", 0, text, sizeof text));
    SHOW(list(dir, "link", AT_SYMLINK_NOFOLLOW, text, sizeof text));
    SHOW(list(fd, "", AT_EMPTY_PATH, text, sizeof text));
    SHOW(list(dir, "file", 77, text, sizeof text));
    SHOW(list(dir, "absent", 0, text, sizeof text));
    SHOW(list(99, "file", 0, text, sizeof text));
    SHOW(drop(dir, "file", 0, "user.one"));
    SHOW(drop(dir, "file", 0, "user.one"));
    SHOW(drop(dir, "link", 0, "user.two"));
    SHOW(drop(dir, "link", AT_SYMLINK_NOFOLLOW, "user.two"));
    SHOW(drop(fd, "", AT_EMPTY_PATH, "user.three"));
    SHOW(drop(dir, "file", 77, "user.one"));
    SHOW(drop(dir, "file", 0, NULL));
    SHOW(drop(99, "file", 0, "user.one"));
    SHOW(drop(dir, "absent", 0, "user.one"));
    SHOW(list(dir, "file", 0, text, sizeof text));
    unlinkat(dir, "file", 0), unlinkat(dir, "link", 0), rmdir(place);
    return 0;
}
