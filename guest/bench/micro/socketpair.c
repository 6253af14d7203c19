// What do streams of local sockets cost: some bytes there and back between two processes, and what a process says to itself?
#include "bench.h"
#include <sys/socket.h>

enum { MOST = 4096, TIMES = 201 };
static unsigned char buffer[MOST];

// All of it, however many calls that takes.
static void receive(int fd, long bytes) {
    for (long done = 0, now; done < bytes; done += now)
        if ((now = read(fd, buffer + done, bytes - done)) <= 0) _exit(1);
}

static void there_and_back(long bytes, const char *name) {
    int ends[2];
    expect("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        for (int i = 0; i < TIMES; i++) {
            receive(ends[1], bytes);
            buffer[0]++;
            write(ends[1], buffer, bytes);
        }
        _exit(0);
    }
    close(ends[1]);
    for (int i = 0; i < TIMES; i++) {
        buffer[0] = i;
        uint64_t from = ticks();
        write(ends[0], buffer, bytes);
        receive(ends[0], bytes);
        sample(ticks() - from);
        expect("the answer", buffer[0], (i + 1) % 256);
    }
    close(ends[0]);
    wait_for(child);
    report(name, 1, "");
}

// Written and read by the same process.
static void to_itself(void) {
    int ends[2];
    expect("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int i = 0; i < TIMES; i++) {
        uint64_t from = ticks();
        write(ends[0], buffer, 1);
        receive(ends[1], 1);
        sample(ticks() - from);
    }
    close(ends[0]), close(ends[1]);
    report("a_byte_to_itself", 1, "");
}

int main(void) {
    calibrate();
    there_and_back(1, "round_trip_of_a_byte");
    there_and_back(512, "round_trip_of_512_bytes");
    there_and_back(4096, "round_trip_of_4_KiB");
    to_itself();
}
