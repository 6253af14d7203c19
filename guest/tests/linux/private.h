// Private copies of pages of a file, a stack that looks after itself, and whether they are what they were.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filled.h"

#define WORDS (PAGE / 8)
static void said(const char *what, int ok)
{
	printf("%s: %s\n", what, ok ? "as it was" : "WRONG");
	fflush(stdout);
}

// What a page of the file has, and what is written over it in a copy.
static uint64_t of_file(size_t page, size_t word) { return page * 1000003 + word; }
static uint64_t of_copy(size_t page, size_t word) { return ~(page * 7919 + word); }

static int new_file(size_t pages, int is_memfd)
{
	char name[] = "/tmp/swap_private_XXXXXX";
	int fd = is_memfd ? memfd_create("copies", 0) : mkstemp(name);
	if (!is_memfd)
		unlink(name);
	uint64_t words[WORDS];
	for (size_t page = 0; page < pages; page++) {
		for (size_t n = 0; n < WORDS; n++)
			words[n] = of_file(page, n);
		if (write(fd, words, PAGE) != PAGE)
			exit(2);
	}
	return fd;
}

static uint64_t *map(int fd, size_t pages)
{
	void *p = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		exit(3);
	return p;
}

static void copy(uint64_t *at, size_t page)
{
	for (size_t n = 0; n < WORDS; n++)
		at[page * WORDS + n] = of_copy(page, n);
}

static int is(const uint64_t *at, size_t page, uint64_t (*what)(size_t, size_t))
{
	for (size_t n = 0; n < WORDS; n++)
		if (at[n] != what(page, n))
			return 0;
	return 1;
}

static int is_written(size_t page) { return page % 3 == 0 || (page > 100 && page < 180); }

static uint64_t *written(int fd, size_t pages)
{
	uint64_t *at = map(fd, pages);
	for (size_t page = 0; page < pages; page++)
		if (is_written(page))
			copy(at, page);
	return at;
}

// Pages from..to of what is mapped there.
static int same_pages(const uint64_t *at, size_t from, size_t to)
{
	int ok = 1;
	for (size_t page = from; page < to; page++)
		ok &= is(at + (page - from) * WORDS, page, is_written(page) ? of_copy : of_file);
	return ok;
}

static int file_is(int fd, size_t pages)
{
	uint64_t words[WORDS];
	int ok = 1;
	for (size_t page = 0; page < pages; page++)
		ok &= pread(fd, words, PAGE, page * PAGE) == PAGE && is(words, page, of_file);
	return ok;
}

static int leaves(void *at, size_t pages)
{
	return madvise(at, pages * PAGE, MADV_PAGEOUT) == 0;
}

static int ends_well(pid_t child)
{
	int status;
	return waitpid(child, &status, 0) == child && status == 0;
}

// A call for each 64 KiB, each of which looks after itself.
static int __attribute__((noinline)) deep(int depth, uint64_t seed)
{
	volatile uint64_t mine[16 * WORDS];
	for (size_t n = 0; n < 16 * WORDS; n++)
		mine[n] = seed + n;
	int ok = depth == 0 || deep(depth - 1, seed * 31 + 7);
	for (size_t n = 0; n < 16 * WORDS; n++)
		ok &= mine[n] == seed + n;
	return ok;
}
