// build: gcc
// mem: 64M
// swap: 256M
// timeout: 300
//
// What else may happen to memory of which few pages are in memory: what is no such memory is refused; calls, children, threads and other
// changes of the map see what was there; and with the limit gone it is memory as any.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "pageout.h"

static void said(const char *what, int ok)
{
	printf("%s: %s\n", what, ok ? "yes" : "NO");
	fflush(stdout);
}

static uint64_t *some(int pages)
{
	uint64_t *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		exit(1);
	for (int page = 0; page < pages; page++)
		at[page * 512] = page + 1, at[page * 512 + 511] = ~page;
	return at;
}

static int same(const volatile uint64_t *at, int from, int pages)
{
	int ok = 1;
	for (int page = from; page < pages; page++)
		ok &= at[page * 512] == page + 1ul && at[page * 512 + 511] == (uint64_t)~page;
	return ok;
}

static int there(const void *at, int pages)
{
	uint64_t words[1024];
	int count = 0;
	pagemap(at, pages, words);
	for (int page = 0; page < pages; page++)
		count += (words[page] & THERE) != 0;
	return count;
}

static int is(int result, int error)
{
	return result == -1 && errno == error;
}

static void refused(void)
{
	struct tessera_pageout fifo = {FIFO, 4};
	uint64_t *at = some(64);
	static uint32_t trace[2];
	said("bytes are counted", is(prctl(PR_TESSERA_PAGEOUT, at, PAGE, &fifo, 31), EINVAL));
	said("it can be read", is(prctl(PR_TESSERA_PAGEOUT, at, PAGE, 8, sizeof fifo), EFAULT));
	said("policies are known", is(limit(at, 64, (struct tessera_pageout){9, 4}), EINVAL));
	said("no places", is(limit(at, 64, (struct tessera_pageout){LRU, 0}), EINVAL));
	said("too many places", is(limit(at, 64, (struct tessera_pageout){LRU, 1 << 30}), E2BIG));
	said("no pages", is(limit(at, 0, fifo), EINVAL));
	said("no page's beginning", is(limit((char *)at + 8, 1, fifo), EINVAL));
	said("no trace", is(limit(at, 64, (struct tessera_pageout){OPTIMAL, 4, (void *)8, 2}), EFAULT));
	said("too long a trace", is(limit(at, 64, (struct tessera_pageout){OPTIMAL, 4, trace, 1ul << 40}), E2BIG));
	munmap(at + 32 * 512, PAGE);
	said("a hole", is(limit(at, 64, fifo), ENOMEM));
	mlock(at, PAGE);
	said("locked", is(limit(at, 8, fifo), EINVAL));
	void *file = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, open("/proc/self/exe", O_RDONLY), 0);
	said("a file", is(limit(file, 1, fifo), EINVAL));
	void *shared = mmap(0, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	said("shared memory", is(limit(shared, 1, fifo), EINVAL));
	said("all of that changed nothing", at[0] == 1 && there(at, 32) == 32);
}

static void calls(void)
{
	uint64_t *at = some(64), copy[4 * 512];
	limit(at, 64, (struct tessera_pageout){SECOND_CHANCE, 8});
	int ends[2], ok = pipe(ends) == 0, status;
	for (int page = 0; page < 64; page += 4) {
		ok &= write(ends[1], at + page * 512, 4 * PAGE) == 4 * PAGE;
		ok &= read(ends[0], copy, 4 * PAGE) == 4 * PAGE && !memcmp(copy, at + page * 512, 4 * PAGE);
		ok &= there(at, 64) <= 8;
	}
	said("calls", ok && same(at, 0, 64));
	// Both have the limit, each its own pages.
	if (fork() == 0) {
		ok = same(at, 0, 64) && there(at, 64) <= 8;
		for (int page = 0; page < 64; page++)
			at[page * 512 + 7] = page;
		for (int page = 0; page < 64; page++)
			ok &= at[page * 512 + 7] == (uint64_t)page;
		_exit(!ok);
	}
	for (int page = 63; page >= 0; page--)
		at[page * 512 + 7] = 5;
	wait(&status);
	for (int page = 0; page < 64; page++)
		ok &= at[page * 512 + 7] == 5;
	said("a child", ok && status == 0 && same(at, 0, 64) && there(at, 64) <= 8);
}

static void changes(void)
{
	uint64_t *at = some(256), *beside = some(64);
	limit(at, 256, (struct tessera_pageout){LRU, 16});
	int ok = same(at, 0, 256) && same(beside, 0, 64) && there(at, 256) == 16;
	// Zeros where it is given up, and no more pages than before.
	madvise(at, 32 * PAGE, MADV_DONTNEED);
	for (int page = 0; page < 32; page++)
		ok &= at[page * 512] == 0, at[page * 512] = page + 1, at[page * 512 + 511] = ~page;
	said("given up", ok && same(at, 0, 256) && there(at, 256) == 16);
	mprotect(at, 64 * PAGE, PROT_READ);
	ok = same(at, 0, 256);
	mprotect(at, 64 * PAGE, PROT_READ | PROT_WRITE);
	at[3] = 3;
	said("protected", ok && at[3] == 3 && same(at, 0, 256) && there(at, 256) == 16);
	// Locked pages are no part of it.
	mlock(at, 32 * PAGE);
	ok = same(at, 0, 256) && there(at, 32) == 32 && there(at + 32 * 512, 224) <= 16;
	munlock(at, 32 * PAGE);
	said("locked", ok && same(at, 0, 256));
	uint64_t *moved = mremap(at + 128 * 512, 128 * PAGE, 300 * PAGE, MREMAP_MAYMOVE);
	ok = moved != MAP_FAILED;
	for (int page = 0; page < 128; page++)
		ok &= moved[page * 512] == page + 129ul;
	said("moved", ok && same(at, 0, 128) && moved[299 * 512] == 0);
	munmap(at, 32 * PAGE);
	uint64_t *again = mmap(at, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ok = again == at;
	for (int page = 0; page < 32; page++)
		ok &= at[page * 512] == 0, at[page * 512] = page + 1, at[page * 512 + 511] = ~page;
	said("mapped anew", ok && same(at, 0, 128));
	limit(at, 128, (struct tessera_pageout){FIFO, 5});
	said("limited again", same(at, 0, 128) && there(at, 128) == 5);
	limit(0, 0, (struct tessera_pageout){NONE});
	said("not limited", same(at, 0, 128) && there(at, 128) == 128);
	said("a child without", fork() == 0 ? (_exit(!same(at, 0, 128)), 0) : (wait(0), 1));
}

static uint64_t *all;

static void *many(void *seed)
{
	uint64_t state = (uintptr_t)seed;
	for (int n = 0; n < 400; n++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		__atomic_fetch_add(&all[(state >> 40) % 100 * 512 + 9], 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void threads(void)
{
	all = some(100);
	limit(all, 100, (struct tessera_pageout){SECOND_CHANCE, 12});
	pthread_t threads[3];
	uint64_t sum = 0;
	for (int n = 0; n < 3; n++)
		pthread_create(&threads[n], 0, many, (void *)(n + 1l));
	for (int n = 0; n < 3; n++)
		pthread_join(threads[n], 0);
	for (int page = 0; page < 100; page++)
		sum += all[page * 512 + 9];
	said("threads", sum == 1200 && same(all, 0, 100) && there(all, 100) <= 12);
}

// More than there is memory, of which little is to be in memory.
static void much(void)
{
	enum { PAGES = 24 << 8 };
	uint64_t *at = some(PAGES);
	int ok = limit(at, PAGES, (struct tessera_pageout){FIFO, 512}) == 0;
	uint64_t *other = some(PAGES);
	for (int page = 0; page < PAGES; page += 3)
		at[page * 512 + 1] = page;
	for (int page = 0; page < PAGES; page += 3)
		ok &= at[page * 512 + 1] == (uint64_t)page;
	said("much", ok && same(at, 0, PAGES) && same(other, 0, PAGES));
}

int main(void)
{
	void (*tests[])(void) = {refused, calls, changes, threads, much};
	for (unsigned n = 0; n < sizeof tests / sizeof *tests; n++) {
		int status;
		fflush(stdout);
		if (fork() == 0) {
			tests[n]();
			fflush(stdout);
			_exit(0);
		}
		wait(&status);
		if (status)
			printf("%u ended with %x\n", n, status);
	}
	return 0;
}
