// What tests of sockets share that hear what others send.
#pragma once
#include "test.h"
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

// A network where nobody else is, where Linux gives one; in Tessera nobody else is there anyway.
static void own_network(void) {
    if (unshare(CLONE_NEWNET)) return;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    if (ioctl(fd, SIOCSIFFLAGS, &r)) perror("lo");
    close(fd);
}
