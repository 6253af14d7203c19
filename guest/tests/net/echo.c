// Sends back what comes, to many at once, until a connection says "end". Then it tells how many there were, and what they sent.
//
//     echo [PORT [inside]]
//
// inside: one of the connections is a child's, inside of the machine, which tells whether it went on until the end.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 2000

static struct pollfd all[MOST + 1];
static int count;

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        exit(1);
    }
}

// Sends a byte and reads it again, until the other end closes.
static void inside(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (void *)&at, sizeof at) == 0, "connect");
    for (long turns = 0;; turns++) {
        char byte = turns, back;
        if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || read(fd, &back, 1) != 1) {
            printf("inside: %s\n", turns > 10 ? "whole" : "broken");
            return;
        }
        must(back == byte, "another byte");
        usleep(5000);
    }
}

int main(int argc, char **argv)
{
    int port = argc > 1 ? atoi(argv[1]) : 80;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    must(bind(listener, (void *)&at, sizeof at) == 0, "bind");
    must(listen(listener, 1024) == 0, "listen");
    all[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
    count = 1;
    long bytes = 0;
    int came = 0, most = 0, resets = 0;
    pid_t child = argc > 2 ? fork() : 0;
    if (argc > 2 && child == 0) {
        inside(port);
        return 0;
    }
    puts("listening");
    fflush(stdout);
    for (;;) {
        must(poll(all, count, -1) > 0, "poll");
        for (int i = count - 1; i > 0; i--) {
            if (!all[i].revents)
                continue;
            char buffer[8192];
            ssize_t got = read(all[i].fd, buffer, sizeof buffer);
            if (got < 0)
                resets++;
            if (got == 3 && memcmp(buffer, "end", 3) == 0) {
                printf("%d came, %d at once, %ld bytes, %d resets\n", came, most, bytes, resets);
                fflush(stdout);
                while (count > 0)
                    close(all[--count].fd);
                if (child > 0)
                    waitpid(child, NULL, 0);
                return 0;
            }
            for (ssize_t done = 0; done < got;) {
                ssize_t wrote = send(all[i].fd, buffer + done, got - done, MSG_NOSIGNAL);
                if (wrote <= 0)
                    break;
                done += wrote;
            }
            if (got > 0) {
                bytes += got;
                continue;
            }
            close(all[i].fd);
            all[i] = all[--count];
        }
        if (all[0].revents && count <= MOST) {
            struct sockaddr_in from;
            socklen_t length = sizeof from;
            int fd = accept(listener, (void *)&from, &length);
            must(fd >= 0, "accept");
            must(from.sin_family == AF_INET && length == sizeof from, "address");
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            all[count++] = (struct pollfd){ .fd = fd, .events = POLLIN };
            came++;
            if (count - 1 > most)
                most = count - 1;
        }
    }
}
