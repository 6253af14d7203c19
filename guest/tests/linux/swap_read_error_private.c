// build: gcc
// mem: 64M
// swap: 64M
// swap-errors: read of 4096
// timeout: 200
// expect-stdout: touched: SIGBUS where it is\nchild: the same\nmoved: EFAULT, and nothing has changed\nwithout it: moved\nswapoff: done\n
//
// A copy of a page of a file that the disk does not give back: who moves it is told that (EFAULT), and not that there is no memory; all stays where
// it was. Sector 4096 is in page 512 of the disk.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 1024ul
#define BYTES (PAGES * 4096)

static sigjmp_buf back;

static void on_signal(int signal)
{
	siglongjmp(back, 1);
}

// How many pages are SIGBUS, and the last of those; how many are not as they were written.
static int lost(volatile uint64_t *at, size_t *which, int *wrong)
{
	volatile int count = 0;
	*wrong = 0;
	for (volatile size_t n = 0; n < PAGES; n++)
		if (sigsetjmp(back, 1) == 0) {
			*wrong += at[512 * n] != 3000 + n;
		} else {
			count++;
			*which = n;
		}
	return count;
}

int main(void)
{
	size_t which = 0, again = 0;
	int wrong, status;
	setvbuf(stdout, 0, _IOLBF, 0);
	signal(SIGBUS, on_signal);
	int fd = memfd_create("file", 0);
	if (fd < 0 || ftruncate(fd, BYTES))
		return 1;
	uint64_t *p = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	for (size_t n = 0; n < PAGES; n++)
		p[512 * n] = 3000 + n;
	madvise(p, BYTES, MADV_PAGEOUT);
	int ok = lost(p, &which, &wrong) == 1 && wrong == 0;
	ok &= lost(p, &again, &wrong) == 1 && wrong == 0 && again == which;
	printf("touched: %s\n", ok ? "SIGBUS where it is" : "WRONG");

	if (fork() == 0)
		_exit(!(lost(p, &again, &wrong) == 1 && wrong == 0 && again == which));
	wait(&status);
	printf("child: %s\n", status == 0 ? "the same" : "WRONG");

	char *place = mmap(0, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ok = mremap(p, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED;
	int error = errno;
	ok &= lost(p, &again, &wrong) == 1 && wrong == 0 && again == which;
	printf("moved: %s\n", !ok ? "WRONG" : error == EFAULT ? "EFAULT, and nothing has changed" : "another error");

	// What it does not have it need not bring in.
	munmap(p + 512 * which, 4096);
	uint64_t *rest = p + 512 * (which + 1);
	size_t bytes = BYTES - 4096 * (which + 1);
	uint64_t *to = mremap(rest, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	ok = to != MAP_FAILED;
	for (size_t n = which + 1; ok && n < PAGES; n++)
		ok &= to[512 * (n - which - 1)] == 3000 + n;
	printf("without it: %s\n", ok ? "moved" : "WRONG");
	printf("swapoff: %s\n", swapoff("/dev/swap") == 0 ? "done" : "FAILS");
	return 0;
}
