// Two processes make files in one folder at once, and look at all of them.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir;

static void make(int from, int to) {
    for (int n = from; n < to; n++) {
        char name[300];
        snprintf(name, sizeof name, "%s/many/f%05d", dir, n);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (fd < 0 || write(fd, &n, sizeof n) != sizeof n || close(fd) != 0) {
            perror(name);
            _exit(1);
        }
    }
}

int main(int argc, char **argv) {
    dir = argv[1];
    int count = atoi(argv[2]);
    char name[300];
    snprintf(name, sizeof name, "%s/many", dir);
    if (argc != 3 || mkdir(name, 0755) != 0)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        make(0, count / 2);
        _exit(0);
    }
    make(count / 2, count);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        return 3;
    for (int n = 0; n < count; n += 7) {
        snprintf(name, sizeof name, "%s/many/f%05d", dir, n);
        int fd = open(name, O_RDONLY), got = -1;
        if (fd < 0 || read(fd, &got, sizeof got) != sizeof got || got != n)
            return 4;
        close(fd);
    }
    return 0;
}
