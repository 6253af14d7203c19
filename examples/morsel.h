/* Memory objects that outlive the program and the machine: files on /pmem, each of which is a morsel.
 *
 *   void *at = morsel_open("/pmem/list", 1 << 20, 0x100000000000);   created if need be; mapped where it belongs
 *   morsel_commit(at, 1 << 20);                                     what it has now it has after a power failure
 *   morsel_snapshot("/pmem/list", "/pmem/list.old");                as it is now, copied when either is written
 *
 * Pointers inside stay valid, as it is always mapped at the address with which it was created: that is an attribute of the file.
 * With morsel_atomic it is after a power failure exactly as at the last morsel_commit. All functions but morsel_open return 0, or -1
 * with errno; it returns NULL. On Linux they work on any file system with extended attributes (clones: Btrfs, XFS), but for
 * morsel_atomic.
 */
#ifndef MORSEL_H
#define MORSEL_H
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MORSEL_ADDRESS "user.morsel.address"
#define MORSEL_ATOMIC 0xa701      /* ioctl: 1 or 0 */
#define MORSEL_CLONE 0x40049409   /* ioctl: FICLONE */

static inline void *morsel_open(const char *path, size_t bytes, uintptr_t address) {
    void *at = NULL;
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0) return NULL;
    /* Whoever sets it first decides. */
    if (fsetxattr(fd, MORSEL_ADDRESS, &address, sizeof address, XATTR_CREATE) != 0)
        if (fgetxattr(fd, MORSEL_ADDRESS, &address, sizeof address) != sizeof address) goto end;
    if (fstat(fd, &st) != 0 || (st.st_size < (off_t)bytes && ftruncate(fd, (off_t)bytes) != 0)) goto end;
    at = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (at == MAP_FAILED) at = NULL;
end:
    close(fd);
    return at;
}

static inline int morsel_atomic(const char *path, int on) {
    int fd = open(path, O_RDWR), result = fd < 0 ? -1 : ioctl(fd, MORSEL_ATOMIC, on);
    if (fd >= 0) close(fd);
    return result;
}

static inline int morsel_commit(void *at, size_t bytes) { return msync(at, bytes, MS_SYNC); }

static inline int morsel_snapshot(const char *from, const char *to) {
    int source = open(from, O_RDONLY), target = open(to, O_RDWR | O_CREAT, 0600);
    int result = source < 0 || target < 0 ? -1 : ioctl(target, MORSEL_CLONE, source);
    if (source >= 0) close(source);
    if (target >= 0) close(target);
    return result;
}
#endif
