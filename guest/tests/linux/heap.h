// A heap that is filled as it grows, and looked at again.
#pragma once
#include <stdint.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define PAGE 4096ul

static uint64_t next(uint64_t *state)
{
	return *state += 0x9e3779b97f4a7c15;
}

static uint64_t *heap(size_t bytes, uint64_t seed)
{
	uint64_t *at = sbrk(0);
	for (size_t done = 0; done < bytes; done += 16 * PAGE) {
		uint64_t *piece = sbrk(16 * PAGE);
		if (piece == (void *)-1)
			_exit(9);
		for (size_t i = 0; i < 16 * PAGE / 8; i++)
			piece[i] = next(&seed);
	}
	return at;
}

static int same(const uint64_t *at, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes / 8; i++)
		if (at[i] != next(&seed))
			return 0;
	return 1;
}
