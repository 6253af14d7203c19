// A directory of /proc that changes while it is read, a few entries at a time: what is closed meanwhile hides nothing else.
// oracle: linux
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    for (int n = 3; n < 4096; n++) close(n);
    for (int n = 0; n < 60; n++) open("/dev/null", O_RDONLY);
    for (int round = 0; round < 2; round++) {
        int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), closed = 0;
        char bytes[200];
        for (long got; (got = syscall(SYS_getdents64, dir, bytes, sizeof bytes)) > 0;) {
            for (long at = 0; at < got;) {
                struct dirent64 *one = (struct dirent64 *)(bytes + at);
                int fd = *one->d_name == '.' ? -1 : atoi(one->d_name);
                if (fd > 2 && fd != dir && close(fd) == 0) closed++;
                at += one->d_reclen;
            }
        }
        printf("closed %d\n", closed);
        // From the start, and from a place.
        lseek(dir, 0, SEEK_SET);
        int left = 0;
        while (syscall(SYS_getdents64, dir, bytes, sizeof bytes) > 0) left++;
        printf("left %d\n", left > 0);
        close(dir);
        for (int n = 3; n < 100; n++) left += fcntl(n, F_GETFD) >= 0;
        printf("open %d\n", left - 1);
    }
    return 0;
}
