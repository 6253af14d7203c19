// The load on a memcached of this machine that `memtier_benchmark` makes: connections of which each has one request on its way, one to set in ten to get, of keys
// that are chosen at random from those that there are. How long do answers take?
//
//     getset PORT NAME REQUESTS
#include "../micro/bench.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { CONNECTIONS = 50, KEYS = 20000, BYTES = 1000, GETS = 10, MOST = 1000000 };

static struct connection {
    int fd, is_set, key, expected, got;
    uint64_t since;
    char buffer[2 * BYTES];
} all[CONNECTIONS];
static double times[2][MOST];
static int counts[2];
static char value[BYTES + 1];
static unsigned state = 1;

static unsigned chosen(unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static int head_of(char *to, int key) { return sprintf(to, "VALUE key%05d 0 %d\r\n", key, BYTES); }

static void ask(struct connection *it, int key, int is_set) {
    static char request[BYTES + 100], head[64];
    int len = is_set ? sprintf(request, "set key%05d 0 0 %d\r\n%s\r\n", key, BYTES, value) : sprintf(request, "get key%05d\r\n", key);
    it->is_set = is_set, it->key = key, it->got = 0;
    it->expected = is_set ? 8 : head_of(head, key) + BYTES + 7;
    it->since = ticks();
    expect("a request", write(it->fd, request, len), len);
}

// Reads what has come. Is the answer whole?
static int answered(struct connection *it) {
    long now = read(it->fd, it->buffer + it->got, sizeof it->buffer - it->got);
    if (now <= 0) expect("an answer", now, 1);
    if ((it->got += now) < it->expected) return 0;
    uint64_t time = ticks() - it->since;
    expect("its length", it->got, it->expected);
    if (it->is_set) {
        expect("stored", memcmp(it->buffer, "STORED\r\n", 8), 0);
    } else {
        char head[64];
        int len = head_of(head, it->key);
        expect("whose value", memcmp(it->buffer, head, len), 0);
        expect("the value", memcmp(it->buffer + len, value, BYTES), 0);
        expect("its end", memcmp(it->buffer + len + BYTES, "\r\nEND\r\n", 7), 0);
    }
    if (counts[it->is_set] < MOST) times[it->is_set][counts[it->is_set]++] = time;
    return 1;
}

static int compared(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static void tell(const char *what, const char *name, double *times, int count) {
    static const int parts[] = { 500, 900, 990 };
    double sum = 0;
    qsort(times, count, sizeof *times, compared);
    for (int i = 0; i < count; i++) sum += times[i];
    printf("bench %s,_%s,_mean %.0f\n", what, name, sum / count / ticks_per_unit);
    for (int i = 0; i < 3; i++)
        printf("bench %s,_%s %.0f at=%d:percentile\n", what, name, times[(long)count * parts[i] / 1000] / ticks_per_unit, parts[i] / 10);
}

int main(int argc, char **argv) {
    calibrate();
    expect("arguments", argc, 4);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    long requests = atol(argv[3]), asked = 0, done = 0;
    memset(value, 'v', BYTES);
    int events = epoll_create1(0), one = 1;
    for (int i = 0; i < CONNECTIONS; i++) {
        all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        expect("connect", connect(all[i].fd, (void *)&at, sizeof at), 0);
        setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &all[i] };
        expect("epoll_ctl", epoll_ctl(events, EPOLL_CTL_ADD, all[i].fd, &event), 0);
    }
    for (int key = 0; key < KEYS; key++) {
        ask(&all[0], key, 1);
        while (!answered(&all[0])) {}
    }
    counts[1] = 0;
    uint64_t from = ticks();
    for (; asked < CONNECTIONS; asked++) ask(&all[asked], chosen(KEYS), chosen(GETS + 1) == 0);
    while (done < requests) {
        struct epoll_event ready[CONNECTIONS];
        int count = epoll_wait(events, ready, CONNECTIONS, -1);
        for (int i = 0; i < count; i++) {
            struct connection *it = ready[i].data.ptr;
            if (!answered(it)) continue;
            done++;
            if (asked < requests) asked++, ask(it, chosen(KEYS), chosen(GETS + 1) == 0);
        }
    }
    printf("bench request,_%s %.0f\n", argv[2], (double)(ticks() - from) / ticks_per_unit / requests);
    tell("set", argv[2], times[1], counts[1]);
    tell("get", argv[2], times[0], counts[0]);
}
