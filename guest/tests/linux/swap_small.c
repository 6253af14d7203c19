// build: gcc
// oracle: linux
// mem: 64M
// swap: 512M
// timeout: 300
// runs: when its suite is asked for
//
// Small memory, heaps above all, of more than the machine has memory: it leaves for the disk as large memory does, whoever is asked for it,
// through forks, for several at once, and beside processes that give nothing.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"

static void said(const char *what, int ok)
{
	printf("%s: %s\n", what, ok ? "as it was" : "WRONG");
	fflush(stdout);
}

struct record {
	uint64_t key, rest[15];
};

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct record *)a)->key, y = ((const struct record *)b)->key;
	return x < y ? -1 : x > y;
}

// Of 100 MiB each part is sorted, then all are merged.
static void sort(void)
{
	enum { PARTS = 25 };
	size_t part = 4 * MIB / sizeof(struct record);
	struct record *at = sbrk(0);
	size_t index[PARTS] = {0};
	uint64_t sum = 0, merged = 0, seed = 1, last = 0;
	for (size_t i = 0; i < PARTS * part; i++) {
		if (i * sizeof *at % MIB == 0)
			sbrk(MIB);
		at[i].key = next(&seed) ^ seed >> 7;
		sum += at[i].key;
		for (int n = 0; n < 15; n++)
			at[i].rest[n] = at[i].key + n;
	}
	for (int n = 0; n < PARTS; n++)
		qsort(at + n * part, part, sizeof *at, compare);
	int ok = 1;
	for (size_t i = 0; i < PARTS * part; i++) {
		struct record *least = NULL;
		int from = 0;
		for (int n = 0; n < PARTS; n++) {
			struct record *first = at + n * part + index[n];
			if (index[n] < part && (!least || first->key < least->key))
				least = first, from = n;
		}
		index[from]++;
		ok &= least->key >= last;
		for (int n = 0; n < 15; n++)
			ok &= least->rest[n] == least->key + n;
		last = least->key;
		merged += last;
	}
	said("sorted heap", ok && sum == merged);
	brk(at);
}

static int wait_all(int n)
{
	int ok = 1, status;
	while (n-- > 0)
		ok &= wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return ok;
}

// Half of it has left when there is a child, who changes what it has.
static void forked(void)
{
	size_t bytes = 40 * MIB;
	uint64_t *at = heap(bytes, 2);
	if (fork() == 0) {
		int ok = same(at, bytes, 2);
		for (size_t page = 0; page < bytes / PAGE; page += 3)
			at[page * 512 + 1] = page;
		for (size_t page = 0; page < bytes / PAGE; page += 3)
			ok &= at[page * 512 + 1] == page;
		_exit(!ok);
	}
	for (size_t page = 1; page < bytes / PAGE; page += 7)
		at[page * 512 + 2] ^= ~0ul;
	int ok = wait_all(1);
	for (size_t page = 1; page < bytes / PAGE; page += 7)
		at[page * 512 + 2] ^= ~0ul;
	said("heap after a fork", ok && same(at, bytes, 2));
	brk(at);
}

static void four(void)
{
	for (int n = 0; n < 4; n++)
		if (fork() == 0) {
			uint64_t *at = heap(24 * MIB, n + 3);
			_exit(!same(at, 24 * MIB, n + 3));
		}
	said("four at once", wait_all(4));
}

// Many small mappings with holes between them, moved and made usable again.
static void pieces(void)
{
	enum { COUNT = 400, PAGES = 24 };
	static uint64_t *at[COUNT];
	for (int n = 0; n < COUNT; n++) {
		at[n] = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int page = 0; page < PAGES; page += 2)
			at[n][page * 512] = n * 100 + page;
		mprotect(at[n] + 512, PAGE, PROT_NONE);
	}
	heap(36 * MIB, 9);
	int ok = 1;
	for (int n = 0; n < COUNT; n++) {
		ok &= mprotect(at[n], PAGES * PAGE, PROT_READ | PROT_WRITE) == 0;
		at[n] = mremap(at[n], PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
		ok &= at[n] != MAP_FAILED;
		for (int page = 0; ok && page < 2 * PAGES; page++)
			ok &= at[n][page * 512] == (page < PAGES && page % 2 == 0 ? (uint64_t)(n * 100 + page) : 0);
	}
	said("small mappings", ok);
}

// One that is stopped, and one whose memory is to stay, while others need it.
static void ignorant(void)
{
	int ready[2], go[2];
	char byte = 0;
	pipe(ready);
	pipe(go);
	pid_t children[2];
	for (int n = 0; n < 2; n++) {
		children[n] = fork();
		if (children[n] == 0) {
			uint64_t *at = heap((n == 0 ? 10 : 6) * MIB, 20 + n);
			if (n == 1 && mlock(at, 6 * MIB))
				_exit(8);
			write(ready[1], "", 1);
			if (n == 0)
				raise(SIGSTOP);
			read(go[0], &byte, 1);
			_exit(!same(at, (n == 0 ? 10 : 6) * MIB, 20 + n));
		}
		read(ready[0], &byte, 1);
	}
	int status;
	waitpid(children[0], &status, WUNTRACED);
	if (fork() == 0)
		_exit(!same(heap(36 * MIB, 30), 36 * MIB, 30));
	int ok = wait_all(1);
	said("beside who gives nothing", ok);
	kill(children[0], SIGCONT);
	write(go[1], "..", 2);
	said("what they have", wait_all(2));
}

// What is wanted out is out, and is what it was.
static void advice(void)
{
	uint64_t *at = heap(2 * MIB, 40);
	int ok = madvise((void *)(((uintptr_t)at + PAGE - 1) & -PAGE), MIB, MADV_PAGEOUT) == 0;
	ok &= madvise((void *)(((uintptr_t)at + PAGE - 1) & -PAGE), MIB, MADV_COLD) == 0;
	said("advice", ok && same(at, 2 * MIB, 40));
}

int main(void)
{
	void (*all[])(void) = {sort, forked, four, pieces, ignorant, advice};
	for (unsigned n = 0; n < sizeof all / sizeof *all; n++) {
		if (fork() == 0) {
			all[n]();
			_exit(0);
		}
		int status;
		wait(&status);
		if (status)
			printf("%u ended with %x\n", n, status);
		fflush(stdout);
	}
	return 0;
}
