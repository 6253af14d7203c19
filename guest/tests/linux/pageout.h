// prctl(PR_TESSERA_PAGEOUT): at most so many pages of a range in memory, and which goes for another one.
#pragma once
#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PAGE
#define PAGE 4096ul
#endif
#define PR_TESSERA_PAGEOUT 0x54535041

enum { NONE, FIFO, SECOND_CHANCE, LRU, OPTIMAL };

struct tessera_pageout {
	uint64_t policy, pages;
	const uint32_t *trace; // of OPTIMAL: numbers of pages of the range, in the order in which they are used
	uint64_t uses;
};

static int limit(void *at, unsigned long pages, struct tessera_pageout it)
{
	return prctl(PR_TESSERA_PAGEOUT, at, pages * PAGE, &it, sizeof it);
}

// Bits of pages of /proc/self/pagemap.
#define THERE (1ull << 63)
#define LEFT (1ull << 62)

static void pagemap(const void *at, int pages, uint64_t *words)
{
	static int from = -1;
	if (from < 0)
		from = open("/proc/self/pagemap", O_RDONLY);
	if (pread(from, words, pages * 8, (uintptr_t)at / PAGE * 8) != pages * 8)
		_exit(7);
	for (int page = 0; page < pages; page++)
		words[page] &= THERE | LEFT;
}
