// Large private memory that is filled with numbers, and looked at again.
#pragma once
#include <stdlib.h>
#include <sys/mman.h>

#include "heap.h"

static inline uint64_t *some(size_t bytes)
{
	void *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		exit(1);
	return p;
}

static inline void fill(uint64_t *at, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes / 8; i++)
		at[i] = next(&seed);
}
