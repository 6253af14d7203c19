// build: gcc, musl
// oracle: linux
// name_to_handle_at and open_by_handle_at: files are found again by their handles, by whoever may.
#include "test.h"
#include <sys/prctl.h>

struct handle {
    unsigned bytes;
    int type;
    unsigned words[32];
};

static int name_to(int dir, const char *path, struct handle *h, int *mount, int flags) {
    return (int)syscall(SYS_name_to_handle_at, dir, path, h, mount, flags);
}

static int by_handle(int dir, struct handle *h, int flags) { return (int)syscall(SYS_open_by_handle_at, dir, h, flags); }

// The number of the mount of a file, as /proc/self/fdinfo or mountinfo know it: of the longest place that leads to it.
static int mount_of(const char *path) {
    FILE *file = fopen("/proc/self/mountinfo", "r");
    char line[1024], place[512];
    int number = -1, id;
    size_t longest = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%d %*d %*s %*s %511s", &id, place) != 2) continue;
        size_t length = strlen(place);
        int leads = strncmp(path, place, length) == 0 && (path[length] == '/' || path[length] == 0 || length == 1);
        if (leads && length >= longest) longest = length, number = id;
    }
    if (file) fclose(file);
    return number;
}

int main(void) {
    char dir[] = "/dev/shm/handlesXXXXXX";
    mkdir("/dev/shm", 01777);
    if (!mkdtemp(dir) || chdir(dir)) return 1;
    chmod(dir, 0755);
    close(open("f", O_RDWR | O_CREAT, 0644));
    mkdir("d", 0755);
    close(open("d/g", O_RDWR | O_CREAT, 0600));
    symlink("f", "l");
    struct handle h = {.bytes = 128}, other = {.bytes = 12}, link = {.bytes = 12};
    int mount = -1;
    struct stat st;
    stat("f", &st);
    SHOW(name_to(AT_FDCWD, "f", &h, &mount, 0));
    printf("%u bytes of type %d\n", h.bytes, h.type);
    CHECK(h.words[1] == (unsigned)st.st_ino && h.words[2] == 0);
    CHECK(mount == mount_of(dir));
    int top = open(".", O_RDONLY | O_DIRECTORY), file = open("f", O_RDONLY), path = open("f", O_PATH), pipes[2];
    SHOW(name_to(top, "f", &other, &mount, 0));
    CHECK(memcmp(h.words, other.words, 12) == 0);
    SHOW(name_to(file, "", &other, &mount, AT_EMPTY_PATH));
    CHECK(memcmp(h.words, other.words, 12) == 0);
    SHOW(name_to(path, "", &other, &mount, AT_EMPTY_PATH));
    CHECK(memcmp(h.words, other.words, 12) == 0);
    SHOW(name_to(AT_FDCWD, "l", &other, &mount, AT_SYMLINK_FOLLOW));
    CHECK(memcmp(h.words, other.words, 12) == 0);
    SHOW(name_to(AT_FDCWD, "l", &link, &mount, 0));
    CHECK(memcmp(h.words, link.words, 12) != 0);
    SHOW(name_to(AT_FDCWD, "f", &other, &mount, AT_SYMLINK_NOFOLLOW));
    SHOW(name_to(AT_FDCWD, "none", &other, &mount, 0));
    SHOW(name_to(AT_FDCWD, "", &other, &mount, 0));
    SHOW(name_to(99, "f", &other, &mount, 0));
    SHOW(name_to(file, "f", &other, &mount, 0));
    SHOW(name_to(AT_FDCWD, "f", NULL, &mount, 0));
    SHOW(name_to(AT_FDCWD, "f", &other, NULL, 0));
    if (pipe(pipes)) return 2;
    SHOW(name_to(pipes[0], "", &other, &mount, AT_EMPTY_PATH));
    for (unsigned bytes = 0; bytes < 14; bytes += bytes == 0 ? 11 : 1) {
        struct handle small = {.bytes = bytes};
        mount = -1;
        printf("room for %u: ", bytes);
        SHOW(name_to(AT_FDCWD, "f", &small, &mount, 0));
        printf("%u bytes, mount is told: %d\n", small.bytes, mount != -1);
    }
    other.bytes = 129;
    SHOW(name_to(AT_FDCWD, "f", &other, &mount, 0));

    int found = by_handle(top, &h, O_RDWR);
    if (found < 0 && errno == EPERM) printf("the recorder may not open by handles\n");
    SHOW(write(found, "here", 4));
    char text[8] = "";
    SHOW(pread(file, text, 8, 0));
    printf("%s\n", text);
    close(found);
    found = by_handle(AT_FDCWD, &h, O_RDONLY | O_CLOEXEC);
    CHECK(fcntl(found, F_GETFD) == FD_CLOEXEC);
    close(found);
    other.bytes = 12;
    name_to(AT_FDCWD, "d", &other, &mount, 0);
    found = by_handle(file, &other, O_RDONLY | O_DIRECTORY);
    SHOW(faccessat(found, "g", F_OK, 0));
    close(found);
    SHOW(by_handle(top, &other, O_RDWR));
    SHOW(by_handle(top, &h, O_RDONLY | O_DIRECTORY));
    SHOW(by_handle(top, &link, O_RDONLY));
    SHOW(by_handle(99, &h, O_RDONLY));
    SHOW(by_handle(path, &h, O_RDONLY));
    SHOW(by_handle(pipes[0], &h, O_RDONLY));
    SHOW(by_handle(top, NULL, O_RDONLY));
    struct handle bad = h;
    bad.bytes = 0;
    SHOW(by_handle(top, &bad, O_RDONLY));
    bad.bytes = 129;
    SHOW(by_handle(top, &bad, O_RDONLY));
    bad.bytes = 8;
    SHOW(by_handle(top, &bad, O_RDONLY));
    bad = h, bad.words[0]++;
    SHOW(by_handle(top, &bad, O_RDONLY));
    bad = h, bad.words[2] = 1;
    SHOW(by_handle(top, &bad, O_RDONLY));
    bad = h, bad.words[1] = 0;
    SHOW(by_handle(top, &bad, O_RDONLY));
    bad = h, bad.words[1] = 0x7fffffff;
    SHOW(by_handle(top, &bad, O_RDONLY));
    IN_CHILD("another user", if (setresuid(1000, 1000, 1000)) _exit(1); SHOW(by_handle(top, &h, O_RDONLY));
             SHOW(by_handle(99, NULL, O_RDONLY)); SHOW(name_to(AT_FDCWD, "f", &other, &mount, 0)));
    // Moved, it is the same; gone, it is stale, also when there is another one.
    rename("f", "d/f");
    found = by_handle(top, &h, O_RDONLY);
    SHOW(pread(found, text, 8, 0));
    close(found), close(file), close(path);
    unlink("d/f");
    SHOW(by_handle(top, &h, O_RDONLY));
    for (int n = 0; n < 100; n++) {
        char name[32];
        snprintf(name, sizeof name, "new%d", n);
        close(open(name, O_RDWR | O_CREAT, 0644));
    }
    SHOW(by_handle(top, &h, O_RDONLY));
    return 0;
}
