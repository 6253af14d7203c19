// What do calls cost that ask for little?
#include "scale.h"
#include <sys/stat.h>

enum { REPEATS = 51 };

static void clocks(void) {
    struct timespec now, before = {0, 0};
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        int result = clock_gettime(CLOCK_MONOTONIC, &now);
        sample(ticks() - from);
        expect("clock_gettime", result, 0);
        int forward = now.tv_sec > before.tv_sec
                      || (now.tv_sec == before.tv_sec && now.tv_nsec >= before.tv_nsec);
        expect("time goes on", forward, 1);
        before = now;
    }
    report("clock__gettime", 1, "");
}

static void files(void) {
    int file = open("scale.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    expect("open failed", file < 0, 0);
    expect("write", write(file, "0123456789", 10), 10);
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        off_t at = lseek(file, i % 10, SEEK_SET);
        sample(ticks() - from);
        expect("lseek", at, i % 10);
    }
    report("lseek", 1, "");
    char byte;
    expect("read", read(file, &byte, 1), 1);
    expect("what was read", byte, '0' + (REPEATS - 1) % 10);
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        int flags = fcntl(file, F_GETFL);
        sample(ticks() - from);
        expect("access mode", flags & O_ACCMODE, O_RDWR);
    }
    report("fcntl(F__GETFL)", 1, "");
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        int result = fcntl(file, F_SETFL, i % 2 ? O_APPEND : 0);
        sample(ticks() - from);
        expect("fcntl(F_SETFL)", result, 0);
        expect("O_APPEND", !!(fcntl(file, F_GETFL) & O_APPEND), i % 2);
    }
    report("fcntl(F__SETFL)", 1, "");
    close(file);
    unlink("scale.data");
}

static void folders(void) {
    char path[256];
    expect("mkdir", mkdir("scale.folder", 0700), 0);
    expect("chdir", chdir("scale.folder"), 0);
    for (int i = 0; i < REPEATS; i++) {
        uint64_t from = ticks();
        char *result = getcwd(path, sizeof path);
        sample(ticks() - from);
        expect("getcwd", result == path, 1);
    }
    report("getcwd", 1, "");
    expect("the folder", strcmp(strrchr(path, '/'), "/scale.folder"), 0);
    // It is the same folder, by another name.
    expect("rename", rename("../scale.folder", "../scale.renamed"), 0);
    expect("getcwd", getcwd(path, sizeof path) == path, 1);
    expect("the folder", strcmp(strrchr(path, '/'), "/scale.renamed"), 0);
    expect("chdir", chdir(".."), 0);
    expect("rmdir", rmdir("scale.renamed"), 0);
}

static void own_maps(void) {
    static char text[1 << 16];
    for (int i = 0; i < REPEATS; i++) {
        ssize_t length = 0, now;
        uint64_t from = ticks();
        int file = open("/proc/self/maps", O_RDONLY);
        while ((now = read(file, text + length, sizeof text - 1 - length)) > 0) length += now;
        close(file);
        sample(ticks() - from);
        text[length] = 0;
        expect("a stack is named", strstr(text, "[stack]") != NULL, 1);
    }
    report("/proc/self/maps", 1, "");
}

int main(void) {
    calibrate();
    clocks();
    files();
    folders();
    own_maps();
}
