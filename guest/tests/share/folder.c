// What programs do to the files of a folder: the same on the host, and in the machine that the folder is shared with. Its argument
// is the folder, which is empty; what it prints and leaves is compared.
#include "../linux/test.h"
#include <dirent.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/uio.h>

static char bytes[100000];

static int make(const char *name, const char *text) {
    int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0644);
    if (fd < 0) return -1;
    long done = write(fd, text, strlen(text));
    return close(fd) != 0 || done != (long)strlen(text) ? -1 : 0;
}

static void show_file(const char *name) {
    struct stat s;
    if (lstat(name, &s) != 0) {
        printf("%s: errno %d\n", name, errno);
        return;
    }
    int is_dir = S_ISDIR(s.st_mode);
    printf("%s: mode %o links %d size %ld\n", name, s.st_mode, is_dir ? 0 : (int)s.st_nlink,
           is_dir ? 0 : (long)s.st_size);
}

static void opening(void) {
    SHOW(make("f", "text"));
    SHOW(mkdir("d", 0750));
    SHOW(symlink("f", "l"));
    SHOW(symlink("nowhere", "broken"));
    SHOW(symlink("loop", "loop"));
    struct { const char *name; int flags; } all[] = {
        {"f", O_RDONLY | O_CREAT | O_EXCL}, {"f/", O_RDONLY}, {"f/x", O_RDONLY}, {"nowhere/x", O_RDONLY},
        {"nowhere", O_RDONLY}, {"d", O_WRONLY}, {"d", O_RDWR}, {"d", O_RDONLY | O_CREAT}, {"d", O_RDONLY},
        {"f", O_RDONLY | O_DIRECTORY}, {"l", O_RDONLY | O_NOFOLLOW}, {"l", O_RDONLY}, {"broken", O_RDONLY},
        {"broken", O_WRONLY | O_CREAT | O_EXCL}, {"loop", O_RDONLY}, {"new/", O_WRONLY | O_CREAT}, {"", O_RDONLY},
        {"l", O_PATH | O_NOFOLLOW}, {"d", O_PATH}, {"d/../f", O_RDONLY}, {"d/./../d/..", O_RDONLY},
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        int fd = open(all[i].name, all[i].flags, 0600);
        printf("open \"%s\" %o: %s %d\n", all[i].name, all[i].flags, fd < 0 ? "errno" : "ok", fd < 0 ? errno : 0);
        if (fd >= 0) close(fd);
    }
    int fd = open("broken", O_WRONLY | O_CREAT, 0604);
    CHECK(fd >= 0);
    SHOW(write(fd, "made", 4));
    SHOW(read(fd, bytes, 4));
    close(fd);
    show_file("nowhere");
    fd = open("f", O_RDONLY);
    SHOW(write(fd, "x", 1));
    SHOW(ftruncate(fd, 1));
    close(fd);
    fd = open("d", O_RDONLY);
    SHOW(read(fd, bytes, 1));
    SHOW(openat(fd, "nothing", O_RDONLY));
    int inner = openat(fd, "inner", O_CREAT | O_RDWR, 0640);
    CHECK(inner >= 0);
    close(inner);
    SHOW(fchmodat(fd, "inner", 0444, 0));
    show_file("d/inner");
    close(fd);
    SHOW(unlink("loop"));
    SHOW(unlink("broken"));
    SHOW(access("f", R_OK | W_OK));
    SHOW(access("nothing", F_OK));
}

static void contents(void) {
    for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = i * 31 + (i >> 8);
    int fd = open("big", O_CREAT | O_RDWR, 0644);
    SHOW(write(fd, bytes, sizeof bytes));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, -50, SEEK_END));
    static char back[sizeof bytes];
    SHOW(read(fd, back, 100));
    CHECK(memcmp(back, bytes + sizeof bytes - 50, 50) == 0);
    SHOW(pread(fd, back, sizeof back, 0));
    CHECK(memcmp(back, bytes, sizeof bytes) == 0);
    SHOW(pread(fd, back, 10, sizeof bytes + 10));
    struct iovec parts[3] = {{back, 10}, {back + 50, 20000}, {back + 30000, 7}};
    SHOW(preadv(fd, parts, 3, 12345));
    CHECK(memcmp(back, bytes + 12345, 10) == 0 && memcmp(back + 50, bytes + 12355, 20000) == 0);
    CHECK(memcmp(back + 30000, bytes + 32355, 7) == 0);
    long far = 5l << 30;
    SHOW(pwrite(fd, "far away", 8, far));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(pread(fd, back, 20, far - 5));
    CHECK(memcmp(back, "\0\0\0\0\0far away", 13) == 0);
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, 3, 99));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(syscall(SYS_read, fd, 8, 10));
    SHOW(syscall(SYS_write, fd, 8, 10));
    SHOW(pread(fd, back, 10, -1));
    SHOW(ftruncate(fd, sizeof bytes));
    SHOW(ftruncate(fd, -1));
    SHOW(truncate("big", 70000));
    SHOW(truncate("d", 0));
    SHOW(truncate("nothing", 0));
    show_file("big");
    SHOW(fsync(fd));
    SHOW(fdatasync(fd));
    SHOW(posix_fallocate(fd, 0, 10) == 0 || 1);
    close(fd);
    int one = open("log", O_CREAT | O_WRONLY | O_APPEND, 0644), two = open("log", O_RDWR | O_APPEND);
    SHOW(write(one, "one ", 4));
    SHOW(write(two, "two ", 4));
    SHOW(write(one, "three", 5));
    SHOW(lseek(one, 0, SEEK_CUR));
    SHOW(pwrite(two, "!", 1, 0));
    SHOW(pread(two, back, 100, 0));
    printf("%.14s\n", back);
    SHOW(lseek(two, 0, SEEK_SET));
    if (fork() == 0) _exit(read(two, back, 5) == 5 ? 7 : 1);
    int status;
    wait(&status);
    SHOW(WEXITSTATUS(status));
    SHOW(lseek(two, 0, SEEK_CUR));
    close(one);
    close(two);
}

static int entries(const char *name, char *first) {
    DIR *dir = opendir(name);
    if (!dir) return -1;
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (count++ == 0 && first) strcpy(first, entry->d_name);
        if (entry->d_type == DT_UNKNOWN) count += 100000;
    }
    closedir(dir);
    return count;
}

static void directories(void) {
    char name[300];
    SHOW(mkdir("many", 0755));
    int fd = open("many", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 700; i++) {
        sprintf(name, "many/%d-and-a-longer-name-for-each-of-them", i);
        if (make(name, "") != 0) printf("%s: %d\n", name, errno);
    }
    SHOW(entries("many", NULL));
    DIR *dir = fdopendir(fd);
    long places[3] = {0};
    char names[3][300];
    struct dirent *entry;
    for (int i = 0; i < 600; i++) {
        if (i % 250 == 0) places[i / 250] = telldir(dir);
        entry = readdir(dir);
        if (i % 250 == 0) strcpy(names[i / 250], entry->d_name);
    }
    for (int i = 2; i >= 0; i--) {
        seekdir(dir, places[i]);
        entry = readdir(dir);
        CHECK(entry && strcmp(entry->d_name, names[i]) == 0);
    }
    rewinddir(dir);
    int left = 0;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.') continue;
        if (unlinkat(fd, entry->d_name, 0) != 0) left++;
    }
    closedir(dir);
    SHOW(left);
    SHOW(entries("many", NULL));
    SHOW(syscall(SYS_getdents64, 0, NULL, 0) == -1);
    fd = open("many", O_RDONLY);
    SHOW(syscall(SYS_getdents64, fd, name, 3));
    close(fd);
    SHOW(rmdir("many"));
    SHOW(entries("many", NULL));
    memset(name, 'n', sizeof name);
    name[255] = 0;
    SHOW(make(name, "long"));
    name[255] = 'n', name[256] = 0;
    SHOW(make(name, "too long"));
    SHOW(make("\xff\xfe\n\t \\\"'*?[\x01", "odd"));
    SHOW(make("...", "dots"));
    SHOW(mkdir("d", 0755));
    SHOW(mkdir("f/x", 0755));
    SHOW(mkdir("nothing/x", 0755));
    SHOW(rmdir("f"));
    SHOW(rmdir("d"));
    SHOW(rmdir("d/."));
    SHOW(rmdir("d/.."));
    SHOW(unlink("d"));
    SHOW(unlink("nothing"));
    SHOW(unlink("f/"));
    SHOW(mkdir("slash/", 0711));
    show_file("slash");
    SHOW(rmdir("slash/"));
}

static void renames(void) {
    SHOW(make("a", "a's"));
    SHOW(make("b", "b's"));
    int fd = open("a", O_RDWR);
    SHOW(rename("a", "b"));
    char text[10] = "";
    SHOW(read(fd, text, 9));
    printf("%s\n", text);
    SHOW(write(fd, "+", 1));
    struct stat by_name, by_fd;
    SHOW(stat("b", &by_name));
    SHOW(fstat(fd, &by_fd));
    CHECK(by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev);
    close(fd);
    SHOW(rename("a", "b"));
    SHOW(rename("b", "b"));
    SHOW(mkdir("x", 0755));
    SHOW(mkdir("x/y", 0755));
    SHOW(mkdir("e", 0755));
    SHOW(rename("x", "e"));
    SHOW(mkdir("x", 0755));
    SHOW(rename("x", "e"));
    SHOW(rename("e", "e/y/z"));
    SHOW(rename("b", "e"));
    SHOW(rename("e", "b"));
    SHOW(rename("nothing", "b"));
    SHOW(rename("b", "nothing/b"));
    SHOW(rename("b", "e/y/moved"));
    show_file("e/y/moved");
    char before[4096], path[4096];
    getcwd(before, sizeof before);
    SHOW(chdir("e/y"));
    SHOW(rename("../../e", "../../ee"));
    getcwd(path, sizeof path);
    printf("now in %s\n", path + strlen(before));
    show_file("moved");
    SHOW(chdir("../.."));
    getcwd(path, sizeof path);
    CHECK(strcmp(path, before) == 0);
    SHOW(rename("ee/y/moved", "b"));
    SHOW(rmdir("x"));
}

static void links(void) {
    SHOW(link("b", "hard"));
    show_file("b");
    struct stat one, two;
    stat("b", &one), stat("hard", &two);
    CHECK(one.st_ino == two.st_ino);
    SHOW(link("b", "hard"));
    SHOW(link("d", "hard2"));
    SHOW(link("nothing", "hard2"));
    SHOW(unlink("b"));
    show_file("hard");
    SHOW(symlink("a text", "l"));
    char text[100] = "";
    SHOW(symlink("", "empty"));
    SHOW(symlink("../f/../\xff", "odd"));
    SHOW(readlink("odd", text, sizeof text));
    SHOW(readlink("odd", text, 3));
    SHOW(readlink("f", text, sizeof text));
    show_file("odd");
    SHOW(symlink("d", "to-d"));
    SHOW(make("to-d/through", "a link"));
    show_file("d/through");
    SHOW(rmdir("to-d"));
    SHOW(chdir("to-d"));
    SHOW(chdir(".."));
    int fd = open("gone", O_CREAT | O_RDWR, 0600);
    SHOW(write(fd, "still there", 11));
    SHOW(unlink("gone"));
    SHOW(pread(fd, text, 11, 0));
    SHOW(pwrite(fd, "S", 1, 0));
    SHOW(pread(fd, text, 11, 0));
    printf("%.11s\n", text);
    SHOW(fstat(fd, &one));
    SHOW(one.st_nlink);
    close(fd);
    show_file("gone");
}

static void attributes(void) {
    umask(027);
    SHOW(make("masked", ""));
    show_file("masked");
    SHOW(chmod("masked", 06751));
    show_file("masked");
    SHOW(chmod("masked", 0400));
    int fd = open("masked", O_RDONLY);
    SHOW(fchmod(fd, 0644));
    close(fd);
    SHOW(chmod("nothing", 0));
    SHOW(chown("masked", -1, -1));
    struct timespec all[][2] = {
        {{1000, 1}, {2000000000, 999999999}}, {{-1000, 5}, {-1, 999999999}}, {{0, UTIME_OMIT}, {7, 0}},
        {{8, 0}, {0, UTIME_OMIT}}, {{0, UTIME_OMIT}, {0, UTIME_OMIT}},
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        struct stat s;
        SHOW(utimensat(AT_FDCWD, "masked", all[i], 0));
        stat("masked", &s);
        printf("%ld.%09ld %ld.%09ld\n", s.st_atim.tv_sec, s.st_atim.tv_nsec, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    }
    struct stat before, after;
    SHOW(utimensat(AT_FDCWD, "masked", NULL, 0));
    stat("masked", &before);
    CHECK(before.st_mtim.tv_sec > 1500000000);
    struct timespec stamp[2] = {{50, 0}, {60, 0}};
    SHOW(utimensat(AT_FDCWD, "odd", stamp, AT_SYMLINK_NOFOLLOW));
    lstat("odd", &after);
    SHOW(after.st_mtim.tv_sec);
    struct statfs fs;
    SHOW(statfs(".", &fs));
    CHECK(fs.f_namelen == 255 && fs.f_blocks > 0 && fs.f_bfree <= fs.f_blocks);
    umask(022);
}

static void mapping(void) {
    int fd = open("big", O_RDONLY);
    char *at = mmap(NULL, 70000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(at != MAP_FAILED);
    CHECK(memcmp(at + 1, bytes + 1, 69999) == 0);
    at[5] = 'x';
    char byte;
    SHOW(pread(fd, &byte, 1, 5));
    CHECK(byte == bytes[5]);
    CHECK(at[70001] == 0);
    munmap(at, 70000);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 16 * PAGE);
    CHECK(at != MAP_FAILED && memcmp(at, bytes + 16 * PAGE, PAGE) == 0);
    SHOW(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
    munmap(at, PAGE);
    SHOW(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    close(fd);
    fd = open("big", O_WRONLY);
    SHOW((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0));
    close(fd);
}

static void locks(void) {
    int fd = open("log", O_RDWR), other = open("log", O_RDWR);
    SHOW(flock(fd, LOCK_EX));
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    SHOW(flock(fd, LOCK_UN));
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    struct flock last = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -3, .l_len = 3};
    SHOW(fcntl(fd, F_SETLK, &last));
    if (fork() == 0) {
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        fcntl(other, F_GETLK, &asked);
        printf("locked: type %d, from %ld, %ld bytes\n", asked.l_type, (long)asked.l_start, (long)asked.l_len);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    close(fd);
    close(other);
}

static void executing(const char *self) {
    int from = open(self, O_RDONLY), to = open("program", O_CREAT | O_WRONLY, 0755);
    static char piece[30000];
    for (long n; (n = read(from, piece, sizeof piece)) > 0;) {
        if (write(to, piece, n) != n) printf("short\n");
    }
    close(from);
    close(to);
    fflush(stdout);
    int status;
    if (fork() == 0) {
        execl("./program", "program", "--say", NULL);
        _exit(errno);
    }
    wait(&status);
    SHOW(WEXITSTATUS(status));
    SHOW(chmod("program", 0644));
    if (fork() == 0) {
        execl("./program", "program", "--say", NULL);
        _exit(errno);
    }
    wait(&status);
    SHOW(WEXITSTATUS(status));
    if (fork() == 0) {
        execl("d", "d", NULL);
        _exit(errno);
    }
    wait(&status);
    SHOW(WEXITSTATUS(status));
    SHOW(unlink("program"));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--say") == 0) {
        printf("I run from there\n");
        return 42;
    }
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 98;
    if (argc < 2 || chdir(argv[1]) != 0) return 99;
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    opening();
    contents();
    directories();
    renames();
    links();
    attributes();
    mapping();
    locks();
    executing(self);
    return 0;
}
