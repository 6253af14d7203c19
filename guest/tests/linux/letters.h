// A file of letters, as `bytes` has them, that is read from its start.
#include "test.h"

static char bytes[1 << 17], other[1 << 17];

static int new_file(const char *name, size_t size) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (size_t i = 0; i < size; i++) bytes[i] = 'a' + (i / 7 + i / 4096) % 26;
    if (write(fd, bytes, size) != (ssize_t)size) printf("short\n");
    lseek(fd, 0, SEEK_SET);
    return fd;
}
