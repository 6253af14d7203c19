// BSD's minherit, by calls that there are (docs/passing-memory.md).
#pragma once
#include "passing.h"
#include <sched.h>
#include <stdatomic.h>

enum { INHERIT_SHARE, INHERIT_COPY, INHERIT_NONE, INHERIT_ZERO };

// Private again, with what it has: of memory that was shared this is a copy.
static inline int unshare_range(void *addr, size_t len) {
    uint64_t offset;
    int fd = export_range(PASS_COPY | PASS_CLOEXEC, addr, len, &offset);
    if (fd < 0) return -1;
    void *at = import_at(PASS_TAKE, fd, addr, len, offset, PROT_READ | PROT_WRITE, MAP_FIXED);
    int error = errno;
    close(fd);
    errno = error;
    return at == addr ? 0 : -1;
}

static inline int minherit(void *addr, size_t len, int how) {
    uint64_t offset;
    int fd;
    switch (how) {
    case INHERIT_SHARE:
        // The file is the range's from here on.
        if ((fd = export_range(PASS_SHARE | PASS_CLOEXEC, addr, len, &offset)) < 0) return -1;
        close(fd);
        return 0;
    case INHERIT_COPY:
        if (madvise(addr, len, MADV_DOFORK)) return -1;
        // Refused of memory that is shared.
        return madvise(addr, len, MADV_WIPEONFORK) ? unshare_range(addr, len) : madvise(addr, len, MADV_KEEPONFORK);
    case INHERIT_NONE: return madvise(addr, len, MADV_DONTFORK);
    case INHERIT_ZERO: return madvise(addr, len, MADV_WIPEONFORK);
    default: return errno = EINVAL, -1;
    }
}
