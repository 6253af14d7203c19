// build: gcc
// mem: 64M
// swap: 64M
// swap-errors: read of 4096
// timeout: 200
// expect-stdout: touched: one page is lost, SIGBUS where it is\nchild: the same\ncall: EFAULT\nlocked: ENOMEM where it is\nswapoff: all but what is lost\nothers: as they were\non again: as they were\ngone: the rest is as it was\n
//
// A page that the disk does not give back: whoever touches it gets SIGBUS with its address, again and again, and nobody else notices, not
// even its neighbours that are read with it. Sector 4096 is in page 512 of the disk.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define PAGES (16 * MIB / 4096)

static sigjmp_buf back;
static siginfo_t info;

static void on_signal(int signal, siginfo_t *it, void *context)
{
	info = *it;
	siglongjmp(back, 1);
}

// Which pages do not read as what was written; how many are SIGBUS. The first of those.
static int lost(volatile uint64_t *at, size_t pages, uint64_t seed, size_t *first, int *wrong)
{
	int count = 0;
	*wrong = 0;
	for (size_t n = 0; n < pages; n++) {
		volatile uint64_t *word = at + 512 * n + n % 512;
		if (sigsetjmp(back, 1) == 0) {
			*wrong += *word != seed + n;
		} else {
			*wrong += info.si_code != BUS_ADRERR || ((uintptr_t)info.si_addr & ~4095ul) != (uintptr_t)(at + 512 * n);
			if (count++ == 0)
				*first = n;
		}
	}
	return count;
}

static void fill(uint64_t *at, size_t pages, uint64_t seed)
{
	for (size_t n = 0; n < pages; n++)
		at[512 * n + n % 512] = seed + n;
}

int main(void)
{
	size_t bytes = PAGES * 4096, first = 0, other = 0;
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	int wrong, status;
	setvbuf(stdout, 0, _IOLBF, 0);
	sigaction(SIGBUS, &action, 0);
	uint64_t *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *q = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fill(p, PAGES, 1000);
	fill(q, 1024, 5);
	madvise(p, bytes, MADV_PAGEOUT);
	madvise(q, 4 * MIB, MADV_PAGEOUT);

	int count = lost(p, PAGES, 1000, &first, &wrong);
	int again = lost(p, PAGES, 1000, &other, &wrong);
	int ok = count == 1 && again == 1 && first == other && wrong == 0;
	printf("touched: %s\n", ok ? "one page is lost, SIGBUS where it is" : "WRONG");
	if (!ok)
		printf("%d lost, then %d; pages %zu, %zu; %d wrong\n", count, again, first, other, wrong);

	if (fork() == 0)
		_exit(!(lost(p, PAGES, 1000, &other, &wrong) == 1 && other == first && wrong == 0));
	wait(&status);
	printf("child: %s\n", status == 0 ? "the same" : "WRONG");

	int pipes[2];
	ok = pipe(pipes) == 0 && write(pipes[1], p + 512 * first, 100) == -1 && errno == EFAULT;
	ok &= write(pipes[1], p + 512 * (first + 1), 8) == 8;
	printf("call: %s\n", ok ? "EFAULT" : "WRONG");

	// Up to it, from it, and without it.
	ok = mlock(p, (first + 1) * 4096) == -1 && errno == ENOMEM;
	ok &= mlock(p + 512 * first, 4096) == -1 && errno == ENOMEM;
	ok &= mlock(p + 512 * (first + 1), 4096) == 0 && mlock(p, first * 4096) == 0;
	ok &= mlockall(MCL_CURRENT) == 0 && munlockall() == 0;
	ok &= lost(p, PAGES, 1000, &other, &wrong) == 1 && other == first && wrong == 0;
	printf("locked: %s\n", ok ? "ENOMEM where it is" : "WRONG");

	ok = swapoff("/dev/swap") == 0;
	// It is out of use, and nothing more comes back.
	ok &= swapoff("/dev/swap") == -1 && errno == EINVAL;
	printf("swapoff: %s\n", ok ? "all but what is lost" : "WRONG");
	ok = lost(q, 1024, 5, &other, &wrong) == 0 && wrong == 0;
	ok &= lost(p, PAGES, 1000, &other, &wrong) == 1 && other == first && wrong == 0;
	printf("others: %s\n", ok ? "as they were" : "WRONG");

	// Its place on the disk is nobody else's.
	ok = swapon("/dev/swap", 0) == 0;
	fill(q, 1024, 77);
	madvise(q, 4 * MIB, MADV_PAGEOUT);
	madvise(p, bytes, MADV_PAGEOUT);
	ok &= lost(q, 1024, 77, &other, &wrong) == 0 && wrong == 0;
	ok &= lost(p, PAGES, 1000, &other, &wrong) == 1 && other == first && wrong == 0;
	printf("on again: %s\n", ok ? "as they were" : "WRONG");

	// Nobody needs it once it is gone.
	munmap(p + 512 * first, 4096);
	ok = swapoff("/dev/swap") == 0;
	ok &= lost(q, 1024, 77, &other, &wrong) == 0 && wrong == 0;
	ok &= lost(p, first, 1000, &other, &wrong) == 0 && wrong == 0;
	printf("gone: %s\n", ok ? "the rest is as it was" : "WRONG");
	return 0;
}
