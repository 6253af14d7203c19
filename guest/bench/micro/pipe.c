// What do pipes cost: 50 MB through one in pieces of 64 KiB, and a byte there and back?
#include "bench.h"

enum { PIECE = 65536 };
static const long WHOLE = 50000000;
static unsigned char buffer[PIECE];

// Bytes follow a pattern that does not repeat with the pieces.
static void fill(long at, long length) {
    for (long i = 0; i < length; i += 251) buffer[i] = (at + i) % 241;
}

static void expect_filled(long at, long length) {
    // Pieces may be cut anywhere; those positions that were filled are those of the writer's pieces.
    for (long i = 0; i < length; i++)
        if ((at + i) % PIECE % 251 == 0)
            expect("a byte", buffer[i], ((at + i) / PIECE * PIECE + (at + i) % PIECE) % 241);
}

static void send_all(int to, int patterned) {
    for (long at = 0; at < WHOLE;) {
        long length = WHOLE - at < PIECE ? WHOLE - at : PIECE;
        if (patterned) fill(at, length);
        for (long sent = 0, now; sent < length; sent += now)
            if ((now = write(to, buffer + sent, length - sent)) <= 0) _exit(1);
        at += length;
    }
    _exit(0);
}

static uint64_t transfer(int patterned) {
    int ends[2];
    expect("pipe", pipe(ends), 0);
    uint64_t from = ticks();
    pid_t child = fork();
    if (child == 0) send_all(ends[1], patterned);
    close(ends[1]);
    long got = 0, now;
    while ((now = read(ends[0], buffer, PIECE)) > 0) {
        if (patterned) expect_filled(got, now);
        got += now;
    }
    uint64_t time = ticks() - from;
    expect("bytes", got, WHOLE);
    close(ends[0]);
    wait_for(child);
    return time;
}

static void bandwidth(void) {
    double rates[3];
    transfer(1);
    for (int i = 0; i < 3; i++) {
        uint64_t time = transfer(0);
        rates[i] = WHOLE * 1e3 / (time / ticks_per_unit);
        sample(time);
    }
    report("50_MB_in_pieces_of_64_KiB", 1, "");
    if (counts_instructions()) return;
    printf("bench bandwidth %.1f %.1f %.1f unit=MB/s better=higher\n", rates[0], rates[1], rates[2]);
}

static void round_trip(void) {
    int there[2], back[2];
    unsigned char byte;
    expect("pipe", pipe(there) | pipe(back), 0);
    pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1) {
            byte++;
            write(back[1], &byte, 1);
        }
        _exit(0);
    }
    close(there[0]);
    for (int i = 0; i < 201; i++) {
        byte = i;
        uint64_t from = ticks();
        write(there[1], &byte, 1);
        read(back[0], &byte, 1);
        sample(ticks() - from);
        expect("the answer", byte, i + 1);
    }
    close(there[1]);
    wait_for(child);
    report("round_trip_of_a_byte", 1, "");
}

int main(void) {
    calibrate();
    bandwidth();
    round_trip();
}
