// web_set MIB REQUESTS: a web server that answers with sendfile, and a client on one connection that asks for files of a set of so many MiB together. Files
// have between 4 and 124 KiB; which is asked for is the same in each run, small and large alike. All were asked for once before anything is counted.
#include "counts.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { PIECE = 65536, UNIT = 4096, MOST = 4096, REQUEST = 64 };
static char buffer[PIECE];
static long sizes[MOST];
static int files;

static void name_of(int file, char *name) { snprintf(name, REQUEST, "/tmp/set/%d", file); }

static void make_set(long mib) {
    char name[REQUEST];
    expect("a folder", mkdir("/tmp/set", 0755) == 0 || errno == EEXIST, 1);
    memset(buffer, 'x', sizeof buffer);
    for (long made = 0; made < mib << 20; files++) {
        expect("few enough files", files < MOST, 1);
        sizes[files] = UNIT * (1 + files * 7 % 31);
        name_of(files, name);
        int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
        for (long left = sizes[files], now; left > 0; left -= now) {
            now = write(fd, buffer, left < PIECE ? left : PIECE);
            expect("it can be written", now > 0, 1);
        }
        close(fd);
        made += sizes[files];
    }
}

static int read_all(int fd, char *to, long bytes) {
    for (long got = 0, now; got < bytes; got += now)
        if ((now = read(fd, to ? to + got : buffer, to || bytes - got < PIECE ? bytes - got : PIECE)) <= 0) return 0;
    return 1;
}

static void serve(int fd) {
    char name[REQUEST];
    while (read_all(fd, name, REQUEST)) {
        struct stat it;
        int file = open(name, O_RDONLY);
        if (file < 0 || fstat(file, &it)) _exit(2);
        for (off_t at = 0; at < it.st_size;)
            if (sendfile(fd, file, &at, it.st_size - at) <= 0) _exit(1);
        close(file);
    }
    _exit(0);
}

static void ask(int fd, int file) {
    char name[REQUEST] = {0};
    name_of(file, name);
    expect("a request", write(fd, name, REQUEST), REQUEST);
    expect("the file", read_all(fd, NULL, sizes[file]), 1);
    expect("its bytes", buffer[0], 'x');
}

int main(int argc, char **argv) {
    expect("arguments", argc, 3);
    long mib = atol(argv[1]), requests = atol(argv[2]);
    make_set(mib);
    int door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    expect("bind", bind(door, (void *)&at, len), 0);
    expect("getsockname", getsockname(door, (void *)&at, &len), 0);
    expect("listen", listen(door, 4), 0);
    calibrate();
    pid_t child = fork();
    if (child == 0) serve(accept(door, NULL, NULL));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    expect("connect", connect(fd, (void *)&at, sizeof at), 0);
    for (int i = 0; i < files; i++) ask(fd, i);
    struct counts from = count_now();
    uint32_t dice = 1;
    for (long i = 0; i < requests; i++) {
        dice = dice * 1664525 + 1013904223;
        ask(fd, (dice >> 8) % files);
    }
    char name[32];
    snprintf(name, sizeof name, "web_set_%s", argv[1]);
    report_since(name, from);
    close(fd);
    wait_for(child);
    char path[REQUEST];
    for (int i = 0; i < files; i++) name_of(i, path), unlink(path);
}
