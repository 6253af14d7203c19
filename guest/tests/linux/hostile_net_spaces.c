// A user with many network name spaces: there is an end, sockets and bytes of all of them count together, and with the last who has
// one all of it is gone; forged requests from one reach nothing of another; names that nobody could give.
// oracle: linux
// build: gcc
// cores: 2
// mem: 512M
#include "spaces.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { SPACES = 200, SOCKETS = 40 };

static int up(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int failed = ioctl(fd, SIOCSIFFLAGS, &r);
    close(fd);
    return failed;
}

static struct sockaddr_in at(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

// Many, one after the other, each with sockets that are full of what nobody reads.
static void fill(void) {
    static char bytes[60000];
    int made = 0, bound = 0, sent = 0;
    for (int n = 0; n < SPACES; n++) {
        if (unshare(CLONE_NEWNET) || up()) continue;
        made++;
        for (int s = 0; s < SOCKETS / 8; s++) {
            int fd = socket(AF_INET, SOCK_DGRAM, 0);
            struct sockaddr_in to = at(7000 + s);
            bound += fd >= 0 && bind(fd, (void *)&to, sizeof to) == 0;
            for (int k = 0; k < 3 && n < 4; k++) sent += sendto(fd, bytes, sizeof bytes, MSG_DONTWAIT, (void *)&to, sizeof to) > 0;
        }
    }
    CHECK(made == SPACES && bound == made * (SOCKETS / 8) && sent > 0);
}

static void fill_as_user(void) {
    CHECK(as_user(1000) == 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
    fill();
}

// Killed in the middle of it, by somebody else.
static void killed(void) {
    for (int n = 0; n < 20; n++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (;;) {
                if (unshare(CLONE_NEWNET) == 0 && up() == 0) {
                    int fd = socket(AF_INET, SOCK_STREAM, 0);
                    struct sockaddr_in own = at(7000);
                    if (bind(fd, (void *)&own, sizeof own) || listen(fd, 4)) continue;
                    int client = socket(AF_INET, SOCK_STREAM, 0);
                    if (connect(client, (void *)&own, sizeof own)) continue;
                    close(fd), close(client);
                }
            }
        }
        usleep(1000 * (n % 7) + 500);
        kill(pid, SIGKILL);
        if (wait_for(pid) != SIGKILL) puts("not killed");
    }
    puts("killed");
}

// What netlink is told that is no request, by somebody with all rights there.
static void nonsense(void) {
    CHECK(unshare(CLONE_NEWNET) == 0);
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    unsigned state = 12345;
    for (int n = 0; n < 3000; n++) {
        char bytes[96];
        for (unsigned k = 0; k < sizeof bytes; k++) state = state * 1103515245 + 12345, bytes[k] = state >> 16;
        struct nlmsghdr head = {n % 4 ? sizeof bytes : state % 120, RTM_BASE + state % 16, NLM_F_REQUEST | (state >> 8 & 0x700), n, 0};
        memcpy(bytes, &head, sizeof head);
        if (n % 3 == 0) bytes[16] = n % 2 ? AF_INET : AF_INET6, bytes[17] = state % 140, memset(bytes + 20, 0, 4), bytes[20] = 1;
        send(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        char answer[8192];
        while (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0) continue;
    }
    struct ifreq r = {.ifr_name = "lo"};
    CHECK(ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCGIFINDEX, &r) == 0 && r.ifr_ifindex == 1);
}

// Nothing of that is in the first one.
static void still_as_before(void) {
    struct ifreq r = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(ioctl(fd, SIOCGIFFLAGS, &r));
    SHOW(r.ifr_flags & 0xffff);
    struct sockaddr_in own = at(7000);
    SHOW(bind(fd, (void *)&own, sizeof own));
    close(fd);
}

int main(void) {
    struct rlimit most = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &most);
    // So many that there would be none left if anything stayed of those before.
    for (int n = 0; n < 6; n++) child(fill), child(fill_as_user);
    child(killed);
    child(nonsense);
    still_as_before();
}
