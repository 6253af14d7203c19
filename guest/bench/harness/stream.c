// Streams to and from whoever starts this machine, as it orders them: stream ADDRESS PORT.
//
// For each a connection of its own, on which the other end says what it is to be, in 16 bytes: 'u' (this end sends) or 'd' (it reads and says 'k' in
// the end, or 'x' if other bytes have come), and how many bytes; or 'e', and there are no more. The byte at N is the highest of N * 2654435761, of 32 bits.
#include "../micro/bench.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { PIECE = 65536, OWN = 0x0a00020f, MASK = 0xffffff00 };
static unsigned char buffer[PIECE];

// Where nobody has said where this machine is, it is where the emulator's network leads to. A driver may need a moment.
static void find_place(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), tries = 0;
    struct ifreq eth = { .ifr_name = "eth0" };
    while (ioctl(fd, SIOCGIFFLAGS, &eth) != 0 && tries++ < 1000) usleep(10000);
    if (ioctl(fd, SIOCGIFADDR, &eth) != 0) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(OWN) };
        memcpy(&eth.ifr_addr, &at, sizeof at);
        expect("an address", ioctl(fd, SIOCSIFADDR, &eth), 0);
        at.sin_addr.s_addr = htonl(MASK);
        memcpy(&eth.ifr_netmask, &at, sizeof at);
        expect("a mask", ioctl(fd, SIOCSIFNETMASK, &eth), 0);
        expect("flags", ioctl(fd, SIOCGIFFLAGS, &eth), 0);
        eth.ifr_flags |= IFF_UP;
        expect("up", ioctl(fd, SIOCSIFFLAGS, &eth), 0);
    }
    close(fd);
}

static unsigned char byte_at(uint32_t at) { return at * 2654435761u >> 24; }

static void send_all(int fd, uint64_t count) {
    for (uint64_t sent = 0; sent < count;) {
        uint64_t now = count - sent < PIECE ? count - sent : PIECE;
        for (uint64_t i = 0; i < now; i++) buffer[i] = byte_at(sent + i);
        for (uint64_t done = 0; done < now;) {
            long part = write(fd, buffer + done, now - done);
            expect("it can be sent", part > 0, 1);
            done += part;
        }
        sent += now;
    }
}

static void read_all(int fd, uint64_t count) {
    int same = 1;
    for (uint64_t got = 0; got < count;) {
        long now = read(fd, buffer, count - got < PIECE ? count - got : PIECE);
        expect("it comes", now > 0, 1);
        for (long i = 0; i < now; i++) same &= buffer[i] == byte_at(got + i);
        got += now;
    }
    expect("the last word", write(fd, same ? "k" : "x", 1), 1);
}

int main(int argc, char **argv) {
    expect("arguments", argc, 3);
    find_place();
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    expect("an address", inet_aton(argv[1], &to.sin_addr), 1);
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        expect("connect", connect(fd, (void *)&to, sizeof to), 0);
        unsigned char order[16];
        expect("an order", recv(fd, order, sizeof order, MSG_WAITALL), sizeof order);
        uint64_t count;
        memcpy(&count, order + 8, 8);
        if (order[0] == 'u') send_all(fd, count);
        else if (order[0] == 'd') read_all(fd, count);
        else return 0;
        // Until the other end has all.
        shutdown(fd, SHUT_WR);
        while (read(fd, buffer, sizeof buffer) > 0)
            ;
        close(fd);
    }
}
