// Pipes: order, end of file, SIGPIPE, capacity, non-blocking ends.
// oracle: linux
#include "test.h"

static char big[200000];

int main(void) {
    int ends[2], second[2];
    char buffer[PAGE];
    SHOW(pipe(ends));
    SHOW(write(ends[1], "hello ", 6));
    SHOW(write(ends[1], "world", 5));
    SHOW(read(ends[0], buffer, 8));
    SHOW(read(ends[0], buffer + 8, 100));
    printf("%.11s\n", buffer);
    SHOW(read(ends[0], buffer, 0));
    SHOW(write(ends[0], "x", 1));
    SHOW(read(ends[1], buffer, 1));
    SHOW(lseek(ends[0], 0, SEEK_SET));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    SHOW(read(ends[0], buffer, 1));
    long total = 0, now;
    while ((now = write(ends[1], buffer, PAGE)) > 0) total += now;
    printf("capacity %ld, then errno %d\n", total, errno);
    SHOW(write(ends[1], buffer, 1));
    SHOW(read(ends[0], buffer, PAGE));
    SHOW(write(ends[1], buffer, PAGE));
    close(ends[1]);
    total = 0;
    while ((now = read(ends[0], buffer, sizeof buffer)) > 0) total += now;
    printf("rest %ld, then %ld\n", total, now);

    pipe(second);
    close(second[0]);
    signal(SIGPIPE, SIG_IGN);
    SHOW(write(second[1], "x", 1));
    signal(SIGPIPE, SIG_DFL);
    IN_CHILD("broken pipe", write(second[1], "x", 1));

    pipe(ends);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        for (size_t i = 0; i < sizeof big; i++) big[i] = i % 251;
        _exit(write(ends[1], big, sizeof big) == sizeof big ? 0 : 1);
    }
    close(ends[1]);
    unsigned sum = 0;
    total = 0;
    while ((now = read(ends[0], buffer, 777)) > 0) {
        for (long i = 0; i < now; i++) sum = sum * 33 + (unsigned char)buffer[i];
        total += now;
    }
    int status;
    waitpid(pid, &status, 0);
    printf("200000 bytes through: %ld, sum %u, status %d\n", total, sum, status);
    SHOW(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    SHOW(fcntl(ends[0], F_GETFD));
    SHOW(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    SHOW(pipe2(ends, 0x7));
    struct stat status_of;
    SHOW(fstat(ends[0], &status_of));
    printf("%#o\n", status_of.st_mode);
    return 0;
}
