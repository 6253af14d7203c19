// build: gcc
// mem: 64M
// swap: 512M
// timeout: 400
// args: 150
// long-args: 1500
// kernel: check=1
// expect-stdout: killed: as often as told\nbystander: as it was\nshared: as it was\nvictims: as they were\nstore: as before\n
//
// Processes are killed at any moment while their pages leave memory and come back: large memory, a heap, copies of a file's pages and stacks, memory with a child, shared
// memory, memory of two threads. Nobody else notices, and nothing stays behind. Arguments: how many, and the seed (else there is another one each time).
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>

#include "meminfo.h"
#include "private.h"

enum { LARGE = 3072, HEAP = 2048, SHARED = 2048, OF_FILE = 1024, OWN = 6144, KINDS = 6 };

// What all see: it stays in memory.
struct told {
	atomic_long wrong[KINDS]; // pages that were not as they were left, of each kind of victim
	atomic_long looked;       // pages that victims have looked at
	atomic_long rounds;       // of the bystander
	atomic_long others;       // pages of the bystander that were not as it left them
	atomic_int stop;
};
static struct told *told;
static uint64_t *shared;
static int file;

static uint64_t random_of(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t of(size_t page, size_t word) { return (page << 20 | word) * 0x9e3779b97f4a7c15; }

static void fill_page(uint64_t *at, size_t page, uint64_t turn)
{
	for (size_t n = 0; n < WORDS; n++)
		at[page * WORDS + n] = of(page, n) + turn;
}

static int is_filled(const uint64_t *at, size_t page, uint64_t turn)
{
	for (size_t n = 0; n < WORDS; n++)
		if (at[page * WORDS + n] != of(page, n) + turn)
			return 0;
	return 1;
}

// Whoever wrote here was ended in the middle of a word's neighbours, but not of a word: each is of some turn.
static int is_of_some_turn(const uint64_t *at, size_t page)
{
	for (size_t n = 0; n < WORDS; n++)
		if (at[page * WORDS + n] - of(page, n) >= 1ul << 32)
			return 0;
	return 1;
}

// Sends pieces away and uses them, without end. What `turns` says of a page is what it has.
static void pages_come_and_go(uint64_t *at, size_t pages, uint64_t seed, int kind)
{
	uint8_t *turns = mmap(0, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (;;) {
		size_t first = random_of(&seed) % pages, count = 1 + random_of(&seed) % 700;
		count = count < pages - first ? count : pages - first;
		madvise(at + first * WORDS, count * PAGE, MADV_PAGEOUT);
		for (size_t n = 0; n < count / 4 + 1; n++) {
			size_t page = first + random_of(&seed) % count;
			told->wrong[kind] += !is_filled(at, page, turns[page]);
			told->looked++;
			if (random_of(&seed) % 2)
				fill_page(at, page, ++turns[page]);
		}
	}
}

static void *threads_memory;
static void *sends(void *seed_of)
{
	uint64_t seed = (uintptr_t)seed_of | 1;
	for (;;)
		madvise((uint64_t *)threads_memory + random_of(&seed) % LARGE / 2 * WORDS, PAGE * (1 + random_of(&seed) % 300), MADV_PAGEOUT);
	return 0;
}

static void __attribute__((noreturn)) victim(int kind, uint64_t seed)
{
	setpgid(0, 0);
	uint64_t *at = 0;
	size_t pages = LARGE;
	switch (kind) {
	case 0: // of tables
	case 3:
	case 5:
		at = some(LARGE * PAGE);
		break;
	case 1: // of Frames
		pages = HEAP;
		at = (uint64_t *)(((uintptr_t)sbrk((HEAP + 1) * PAGE) + PAGE - 1) & -PAGE);
		break;
	case 2:
		pages = OF_FILE;
		at = map(file, OF_FILE);
		break;
	case 4:
		for (uint32_t turn = 1;; turn++) {
			size_t first = random_of(&seed) % (SHARED - 300), page;
			for (page = first; page < first + 300; page++) {
				told->wrong[kind] += !is_of_some_turn(shared, page);
				told->looked++;
				fill_page(shared, page, turn);
			}
			madvise(shared + first * WORDS, 300 * PAGE, MADV_PAGEOUT);
		}
	}
	for (size_t page = 0; page < pages; page++)
		fill_page(at, page, 0);
	pthread_t thread;
	if (kind == 3 && fork() == 0)
		seed ^= 77;
	if (kind == 5) {
		threads_memory = at;
		pthread_create(&thread, 0, sends, (void *)seed);
	}
	if (kind == 2)
		deep(40, seed);
	pages_come_and_go(at, pages, seed | 1, kind);
	_exit(1);
}

// Its memory leaves and comes, too.
static void bystander(void)
{
	uint64_t *at = some(OWN * PAGE), seed = 5;
	uint64_t *heap_of_it = heap(2 * MIB, 3);
	for (size_t page = 0; page < OWN; page++)
		fill_page(at, page, 9);
	for (uint64_t turn = 9; !told->stop; turn++) {
		for (size_t page = 0; page < OWN && !told->stop; page++) {
			told->others += !is_filled(at, page, turn);
			fill_page(at, page, turn + 1);
			if (page % 512 == 0)
				madvise(at + random_of(&seed) % OWN / 2 * WORDS, 400 * PAGE, MADV_PAGEOUT);
		}
		told->others += !same(heap_of_it, 2 * MIB, 3);
		told->rounds++;
	}
	_exit(0);
}

static unsigned long used(void) { return field("SwapTotal") - field("SwapFree"); }

static uint64_t seed;

static void told_of(const char *what, int ok, const char *how)
{
	printf("%s: %s\n", what, ok ? how : "WRONG");
	if (!ok)
		printf("seed %#lx; %ld pages looked at, the bystander went %ld times round\n", seed, told->looked, told->rounds);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int kills = atoi(argv[1]), status, killed = 0;
	getrandom(&seed, sizeof seed, 0);
	if (argc > 2)
		seed = strtoul(argv[2], 0, 0);
	uint64_t state = seed | 1;
	unsigned long before = used();
	told = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared = mmap(0, SHARED * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	file = new_file(OF_FILE, 0);
	for (size_t page = 0; page < SHARED; page++)
		fill_page(shared, page, 0);
	// The copies of the victims begin as all others do.
	uint64_t *whole = mmap(0, OF_FILE * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	for (size_t page = 0; page < OF_FILE; page++)
		fill_page(whole, page, 0);
	munmap(whole, OF_FILE * PAGE);
	pid_t other = fork();
	if (other == 0)
		bystander();
	for (int n = 0; n < kills; n++) {
		int kind = n % KINDS;
		uint64_t its = random_of(&state);
		pid_t child = fork();
		if (child == 0)
			victim(kind, its | 1);
		setpgid(child, child);
		// Most of them while they fill their memory or send it away, some at their very beginning.
		long us = random_of(&state) % (n % 5 == 0 ? 5000 : 200000);
		usleep(us);
		kill(-child, SIGKILL);
		killed += waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	}
	told->stop = 1;
	int ok = waitpid(other, &status, 0) == other && status == 0;
	told_of("killed", killed == kills, "as often as told");
	told_of("bystander", ok && told->others == 0 && told->rounds > 0, "as it was");
	ok = 1;
	for (size_t page = 0; page < SHARED; page++)
		ok &= is_of_some_turn(shared, page);
	told_of("shared", ok, "as it was");
	ok = told->looked > kills;
	for (int kind = 0; kind < KINDS; kind++)
		ok &= told->wrong[kind] == 0;
	told_of("victims", ok, "as they were");
	munmap(shared, SHARED * PAGE);
	close(file);
	for (int n = 0; n < 200 && used() > before + 1024; n++)
		usleep(10000);
	// Small things of this process may have left.
	unsigned long now = used();
	told_of("store", now <= before + 1024, "as before");
	if (now > before + 1024)
		printf("%lu KiB more\n", now - before);
	return 0;
}
