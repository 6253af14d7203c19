// Files: open flags, offsets, attributes, links, renaming, directories, truncation.
// oracle: linux
#include "test.h"
#include <dirent.h>
#include <limits.h>
#include <sys/time.h>
#include <utime.h>

static struct stat st;
static char buffer[PATH_MAX];

static void names(const char *folder) {
    DIR *open = opendir(folder);
    char found[64][64];
    int count = 0;
    for (struct dirent *entry; open && (entry = readdir(open));)
        snprintf(found[count++], 64, "%.40s %d", entry->d_name, entry->d_type);
    if (open) closedir(open);
    qsort(found, count, 64, (int (*)(const void *, const void *))strcmp);
    printf("%s:", folder);
    for (int i = 0; i < count; i++) printf(" %s,", found[i]);
    puts("");
}

static void opening(void) {
    SHOW(open("none", O_RDONLY));
    SHOW(open("one", O_RDWR | O_CREAT | O_EXCL, 0640));
    SHOW(open("one", O_RDWR | O_CREAT | O_EXCL, 0640));
    SHOW(write(3, "0123456789", 10));
    SHOW(lseek(3, 4, SEEK_SET));
    SHOW(read(3, buffer, 3));
    printf("%.3s\n", buffer);
    SHOW(lseek(3, -2, SEEK_END));
    SHOW(lseek(3, -20, SEEK_CUR));
    SHOW(lseek(3, 0, 99));
    SHOW(lseek(3, 5000, SEEK_SET));
    SHOW(read(3, buffer, 3));
    SHOW(write(3, "end", 3));
    SHOW(fstat(3, &st));
    printf("size %ld mode %#o links %ld\n", (long)st.st_size, st.st_mode, (long)st.st_nlink);
    SHOW(pread(3, buffer, 100, 20));
    printf("the hole reads as zeros: %d %d\n", buffer[0], buffer[99]);
    SHOW(open("one", O_WRONLY | O_APPEND));
    SHOW(write(4, "!", 1));
    SHOW(lseek(4, 0, SEEK_CUR));
    SHOW(read(4, buffer, 1));
    SHOW(pwrite(3, "x", 1, -1));
    SHOW(open("one", O_RDONLY | O_DIRECTORY));
    SHOW(open("one", O_WRONLY | O_TRUNC));
    SHOW(fstat(3, &st));
    printf("size %ld\n", (long)st.st_size);
    SHOW(open(".", O_RDWR));
    SHOW(open(".", O_RDONLY));
    SHOW(read(6, buffer, 1));
    SHOW(open("", O_RDONLY));
    SHOW(open("one/two", O_RDONLY));
    memset(buffer, 'n', 300), buffer[300] = 0;
    SHOW(open(buffer, O_RDONLY));
    for (int fd = 3; fd < 8; fd++) close(fd);
}

static void directories(void) {
    SHOW(mkdir("dir", 0755));
    SHOW(mkdir("dir", 0755));
    SHOW(mkdir("none/dir", 0755));
    SHOW(mkdir("dir/inner", 0700));
    close(open("dir/file", O_CREAT | O_WRONLY, 0600));
    names("dir");
    SHOW(stat("dir", &st));
    CHECK(S_ISDIR(st.st_mode));
    SHOW(rmdir("dir"));
    SHOW(rmdir("dir/file"));
    SHOW(unlink("dir/inner"));
    SHOW(chdir("dir/inner"));
    CHECK(strstr(getcwd(buffer, sizeof buffer), "/dir/inner"));
    SHOW(access("../file", R_OK));
    SHOW(chdir("../.."));
    SHOW(chdir("one"));
    SHOW(rename("dir/file", "dir/inner/moved"));
    SHOW(rename("dir", "dir/inner/dir"));
    SHOW(rename("none", "other"));
    SHOW(rename("dir/inner", "one"));
    SHOW(rename("one", "dir"));
    SHOW(rename("dir/inner", "dir/renamed"));
    names("dir/renamed");
    close(open("dir/target", O_CREAT | O_WRONLY, 0600));
    SHOW(rename("dir/renamed/moved", "dir/target"));
    names("dir");
    SHOW(rmdir("dir/renamed"));
    SHOW(unlink("dir/target"));
    SHOW(rmdir("dir"));
    SHOW(rmdir("dir"));
}

static void links(void) {
    SHOW(symlink("one", "soft"));
    SHOW(symlink("one", "soft"));
    SHOW(readlink("soft", buffer, sizeof buffer));
    SHOW(readlink("soft", buffer, 2));
    SHOW(readlink("one", buffer, 2));
    SHOW(lstat("soft", &st));
    printf("%#o %ld\n", st.st_mode, (long)st.st_size);
    SHOW(link("one", "hard"));
    SHOW(link("one", "hard"));
    SHOW(stat("soft", &st));
    printf("links %ld\n", (long)st.st_nlink);
    SHOW(unlink("one"));
    SHOW(open("soft", O_RDONLY));
    SHOW(stat("hard", &st));
    printf("links %ld\n", (long)st.st_nlink);
    SHOW(symlink("loop", "loop"));
    SHOW(open("loop", O_RDONLY));
    SHOW(open("soft", O_RDONLY | O_NOFOLLOW));
    SHOW(unlink("soft"));
    SHOW(unlink("loop"));
    int fd = open("hard", O_RDWR);
    SHOW(write(fd, "kept", 4));
    SHOW(unlink("hard"));
    SHOW(open("hard", O_RDONLY));
    SHOW(pread(fd, buffer, 10, 0));
    SHOW(fstat(fd, &st));
    printf("links %ld size %ld\n", (long)st.st_nlink, (long)st.st_size);
    close(fd);
}

static void attributes(void) {
    umask(022);
    int fd = open("attr", O_CREAT | O_RDWR, 0666);
    fstat(fd, &st);
    printf("%#o\n", st.st_mode);
    SHOW(chmod("attr", 0751));
    SHOW(fchmod(fd, 04700));
    fstat(fd, &st);
    printf("%#o\n", st.st_mode);
    SHOW(ftruncate(fd, 10000));
    SHOW(truncate("attr", 100));
    SHOW(ftruncate(fd, -1));
    SHOW(truncate("none", 1));
    fstat(fd, &st);
    printf("%ld\n", (long)st.st_size);
    struct timespec times[2] = {{1000000, 5}, {2000000, 7}};
    SHOW(futimens(fd, times));
    fstat(fd, &st);
    printf("%ld %ld %ld\n", (long)st.st_atime, (long)st.st_mtime, st.st_mtim.tv_nsec);
    SHOW(access("attr", F_OK));
    SHOW(access("none", F_OK));
    SHOW(umask(077));
    SHOW(umask(022));
    SHOW(fsync(fd));
    SHOW(unlink("attr"));
    SHOW(chmod("attr", 0600));
}

static void devices(void) {
    int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR);
    int full = open("/dev/full", O_RDWR), random = open("/dev/urandom", O_RDONLY);
    SHOW(read(null, buffer, 10));
    SHOW(write(null, buffer, 10));
    SHOW(read(zero, buffer, 10));
    SHOW(write(full, buffer, 10));
    SHOW(read(random, buffer, 10));
    SHOW(stat("/dev/null", &st));
    printf("%#o %#lx\n", st.st_mode & S_IFMT, (long)st.st_rdev);
}

int main(void) {
    opening();
    directories();
    links();
    attributes();
    devices();
    names(".");
    return 0;
}
