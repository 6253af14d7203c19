// Does a server scale that has a listener of its own on each core (SO_REUSEPORT)? On each core there is a process with a listener of the same port, and one that connects to it again and
// again: a request of 100 bytes and an answer of 1 KiB by connection. Or (`kept`) each has one connection, over which it asks again and again.
//
//     listeners CORES REQUESTS [kept] [executed]
//
// `executed`: each process executes this program once more when it is at its core, so that its home is there, too; else all have that of the first.
#include "../micro/bench.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

enum { REQUEST = 100, ANSWER = 1024, PORT = 18200 };
static char buffer[ANSWER];
static int requests, kept;

static void on_core(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    expect("core", sched_setaffinity(0, sizeof set, &set), 0);
}

static struct sockaddr_in at = { .sin_family = AF_INET };

// Time that passes where cores take turns: what one could have executed meanwhile. Else nanoseconds.
static double now(void) {
    static char text[8192];
    int fd = open("/proc/tessera/cores", O_RDONLY);
    if (fd < 0) {
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return time.tv_sec * 1e9 + time.tv_nsec;
    }
    long got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    char *found = strstr(text, "span_time ");
    expect("it says what time passes", found != NULL, 1);
    return atof(found + 10);
}

static int all_of(int fd, long bytes) {
    for (long got = 0, now; got < bytes; got += now)
        if ((now = read(fd, buffer, bytes - got)) <= 0) return 0;
    return 1;
}

static void serve(int ready) {
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    expect("bind", bind(door, (void *)&at, sizeof at), 0);
    expect("listen", listen(door, 64), 0);
    expect("ready", write(ready, "r", 1), 1);
    for (int fd; (fd = accept(door, NULL, NULL)) >= 0; close(fd)) {
        // Each connection has a process where they are kept: which listener it comes to is not the client's choice.
        if (kept && fork() != 0) continue;
        while (all_of(fd, REQUEST))
            if (write(fd, buffer, ANSWER) != ANSWER) _exit(1);
        if (kept) _exit(0);
    }
    _exit(0);
}

static void ask(int go, int ready) {
    int fd = -1, one = 1;
    char word;
    expect("ready", write(ready, "r", 1), 1);
    expect("go", read(go, &word, 1), 1);
    for (int i = 0; i < requests; i++) {
        if (fd < 0) {
            fd = socket(AF_INET, SOCK_STREAM, 0);
            expect("connect", connect(fd, (void *)&at, sizeof at), 0);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        }
        expect("a request", write(fd, buffer, REQUEST), REQUEST);
        expect("an answer", all_of(fd, ANSWER), 1);
        if (!kept) close(fd), fd = -1;
    }
    _exit(0);
}

// This program once more, at this core: with what it is to be, and the ends of pipes.
static void again(const char *what, int go, int ready) {
    char ends[2][16], count[16];
    snprintf(ends[0], sizeof ends[0], "%d", go);
    snprintf(ends[1], sizeof ends[1], "%d", ready);
    snprintf(count, sizeof count, "%d", requests);
    execl("/proc/self/exe", "listeners", what, ends[0], ends[1], count, kept ? "kept" : NULL, NULL);
    _exit(9);
}

int main(int argc, char **argv) {
    calibrate();
    expect("arguments", argc >= 3, 1);
    at.sin_port = htons(PORT), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!strcmp(argv[1], "serve") || !strcmp(argv[1], "ask")) {
        requests = atoi(argv[4]), kept = argc > 5;
        if (*argv[1] == 's') serve(atoi(argv[3]));
        ask(atoi(argv[2]), atoi(argv[3]));
    }
    int cores = atoi(argv[1]), ready[2], go[2];
    requests = atoi(argv[2]), kept = argc > 3 && !strcmp(argv[3], "kept");
    int executed = !strcmp(argv[argc - 1], "executed");
    expect("pipes", pipe(ready) | pipe(go), 0);
    pid_t servers[64], clients[64];
    for (int i = 0; i < cores; i++)
        if ((servers[i] = fork()) == 0) {
            on_core(i), setpgid(0, 0);
            if (executed) again("serve", go[0], ready[1]);
            serve(ready[1]);
        }
    for (int i = 0; i < cores; i++) expect("a server", all_of(ready[0], 1), 1);
    for (int i = 0; i < cores; i++)
        if ((clients[i] = fork()) == 0) {
            on_core(i);
            if (executed) again("ask", go[0], ready[1]);
            ask(go[0], ready[1]);
        }
    for (int i = 0; i < cores; i++) expect("a client", all_of(ready[0], 1), 1);
    double from = now();
    for (int i = 0; i < cores; i++) expect("go", write(go[1], "g", 1), 1);
    for (int i = 0; i < cores; i++) {
        int status;
        expect("a client", waitpid(clients[i], &status, 0), clients[i]);
        expect("its end", status, 0);
    }
    double time = now() - from;
    for (int i = 0; i < cores; i++) kill(-servers[i], SIGKILL);
    const char *homes = executed ? ",_homes_at_each_core" : "";
    printf("bench %s_listeners%s %.0f at=%d:cores\n", kept ? "kept" : "new", homes, time / requests, cores);
}
