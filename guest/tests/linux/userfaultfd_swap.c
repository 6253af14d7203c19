// build: gcc
// mem: 64M
// swap: 64M
// timeout: 200
// expect-stdout: private: left, nobody is asked, as it was; served where it was given up\nshared: left, nobody is asked, as it was; served where it was given up\n
//
// Memory that the program serves itself and that has left for the disk: its pages are not missing. They come from there, and nobody is asked.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 4096 };

static int fd;
static volatile int served, stop;

static void *serve(void *arg)
{
	static char page[4096] __attribute__((aligned(4096)));
	memset(page, 's', sizeof page);
	while (!stop) {
		struct pollfd p = {fd, POLLIN, 0};
		struct uffd_msg m;
		if (poll(&p, 1, 20) != 1 || read(fd, &m, sizeof m) != sizeof m)
			continue;
		served++;
		struct uffdio_copy c = {m.arg.pagefault.address & ~4095ul, (uintptr_t)page, 4096, 0, 0};
		if (ioctl(fd, UFFDIO_COPY, &c) && errno != EEXIST)
			printf("copy: error %d\n", errno);
	}
	return 0;
}

static unsigned long left(void)
{
	char line[128];
	unsigned long pages = 0;
	FILE *f = fopen("/proc/vmstat", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "pswpout %lu", &pages);
	if (f)
		fclose(f);
	return pages;
}

static void look(const char *name, int flags, int give_up)
{
	unsigned long before = left();
	uint64_t *at = mmap(0, PAGES * 4096ul, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	for (long n = 0; n < PAGES; n++)
		at[512 * n] = 7000 + n;
	madvise(at, PAGES * 4096ul, MADV_PAGEOUT);
	printf("%s: %s, ", name, left() - before > PAGES / 2 ? "left" : "NOTHING HAS LEFT");
	fd = syscall(SYS_userfaultfd, O_NONBLOCK | O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {.range = {(uintptr_t)at, PAGES * 4096ul}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &r))
		printf("register: error %d, ", errno);
	pthread_t thread;
	served = stop = 0;
	pthread_create(&thread, 0, serve, 0);
	int wrong = 0;
	// Half of it, so that some are on the disk still.
	for (long n = 0; n < PAGES; n += 2)
		wrong += at[512 * n] != (uint64_t)(7000 + n);
	printf("%s, %s; ", served ? "SOMEBODY IS ASKED" : "nobody is asked", wrong ? "WRONG" : "as it was");
	// One that is in memory, and one that is not.
	madvise(at + 512 * 2, 4096, give_up);
	madvise(at + 512 * 4001, 4096, give_up);
	wrong = memcmp(at + 512 * 2, "ssss", 4) || memcmp(at + 512 * 4001, "ssss", 4) || at[512 * 4003] != 7000 + 4003;
	printf("%s\n", wrong || served != 2 ? "WRONG" : "served where it was given up");
	stop = 1;
	pthread_join(thread, 0);
	close(fd);
	munmap(at, PAGES * 4096ul);
}

int main(void)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	look("private", MAP_PRIVATE, MADV_DONTNEED);
	look("shared", MAP_SHARED, MADV_REMOVE);
	return 0;
}
