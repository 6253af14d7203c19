// Addresses of IPv6 that mean nothing without the interface they are of: bound, connected to, found by name; the interface for groups.
// oracle: linux
// build: gcc, musl
#define _GNU_SOURCE
#include "test.h"
#include "network.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

static void try(const char *what, int kind, const char *ip, unsigned scope, socklen_t len) {
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(7), .sin6_scope_id = scope };
    inet_pton(AF_INET6, ip, &at.sin6_addr);
    int fd = socket(AF_INET6, kind, 0), own = *what == 'b';
    if (own) at.sin6_port = 0;
    long result = own ? bind(fd, (void *)&at, len) : connect(fd, (void *)&at, len);
    printf("%s %s %s%%%u, %u bytes: %ld, errno %d\n", what, kind == SOCK_STREAM ? "stream" : "datagram", ip, scope, len,
           result, result ? errno : 0);
    close(fd);
}

static void found(const char *name) {
    struct addrinfo wish = { .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *all = NULL;
    int result = getaddrinfo(name, "80", &wish, &all);
    printf("%s: %s, scope %u\n", name, result ? "none" : "found",
           result ? 0 : ((struct sockaddr_in6 *)all->ai_addr)->sin6_scope_id);
    if (!result) freeaddrinfo(all);
}

int main(void) {
    own_network();
    for (int i = 0; i < 2; i++) {
        int kind = i ? SOCK_DGRAM : SOCK_STREAM;
        const unsigned scopes[] = { 0, 1, 77 };
        for (int j = 0; j < 3; j++) {
            try("bind", kind, "fe80::1", scopes[j], 28);
            try("connect", kind, "fe80::1", scopes[j], 28);
        }
        try("bind", kind, "fe80::1", 1, 24);
        try("connect", kind, "fe80::1", 1, 24);
        // Of others it means nothing.
        try("bind", kind, "::1", 77, 28);
    }
    found("fe80::1%lo"), found("fe80::1%1"), found("fe80::1");
    int fd = socket(AF_INET6, SOCK_DGRAM, 0), got = 7;
    socklen_t len = sizeof got;
    const int wishes[] = { 1, 0, 77, -1 };
    for (int i = 0; i < 4; i++) {
        int result = setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &wishes[i], sizeof wishes[i]), error = result ? errno : 0;
        getsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &got, &len);
        printf("IPV6_MULTICAST_IF %d: %d, errno %d, then %d\n", wishes[i], result, error, got);
    }
    return 0;
}
