// Memory of which few pages are in memory at a time: what it costs that a page leaves and another comes in, and how many come in by
// policy on fixed strings of uses. The pages that come in are the same on every machine. What they cost is told twice: with the wait for
// the disk, and without what the processor was idle.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <x86intrin.h>

#define PAGE 4096ul
#define PR_TESSERA_PAGEOUT 0x54535041

enum { NONE, FIFO, SECOND_CHANCE, LRU, OPTIMAL };
static const char *const names[] = {"", "fifo", "second_chance", "lru", "optimal"};

struct tessera_pageout {
	uint64_t policy, pages;
	const uint32_t *trace;
	uint64_t uses;
};

enum { PAGES = 512, USES = 6000, ROUNDS = 9 };
static volatile char *range;
static uint32_t uses[USES];
static int used;

static void limit(int policy, int places)
{
	struct tessera_pageout how = {policy, places, uses, used};
	if (prctl(PR_TESSERA_PAGEOUT, range, PAGES * PAGE, &how, sizeof how)) {
		perror("prctl");
		exit(1);
	}
}

// What a line of a file says behind a name.
static unsigned long number_in(const char *path, const char *name)
{
	char line[128];
	unsigned long number = 0;
	size_t length = strlen(name);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, name, length) == 0)
			number = strtoul(line + length, NULL, 10);
	if (f)
		fclose(f);
	return number;
}

static unsigned long brought_in(void)
{
	return number_in("/proc/vmstat", "pswpin ");
}

static unsigned long idle(void)
{
	return number_in("/proc/tessera/counters", "idle_ticks ");
}

// One page leaves and one comes in at each use, of which each is written to.
static void costs(int policy, int places)
{
	enum { TURN = 128 };
	unsigned long all[ROUNDS], busy[ROUNDS];
	used = 0;
	limit(policy, places);
	for (int page = 0; page < places + TURN; page++)
		range[page % PAGES * PAGE] = 1;
	for (int round = 0, page = places + TURN; round < ROUNDS; round++) {
		unsigned long waited = idle();
		unsigned long long begin = __rdtsc();
		for (int n = 0; n < TURN; n++, page++)
			range[page % PAGES * PAGE]++;
		all[round] = __rdtsc() - begin;
		busy[round] = all[round] - (idle() - waited);
	}
	printf("bench out_and_in_again,_%s", names[policy]);
	for (int round = 0; round < ROUNDS; round++)
		printf(" %lu", all[round] / TURN);
	printf(" at=%d:pages\nbench without_the_wait,_%s", places, names[policy]);
	for (int round = 0; round < ROUNDS; round++)
		printf(" %lu", busy[round] / TURN);
	printf(" at=%d:pages\n", places);
}

static uint64_t seed;

static uint32_t below(uint32_t end)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 20) % end;
}

// The same where memory is short and nobody has said which pages are to leave: for each page that comes in.
static void usual(const char *how, int at_random)
{
	enum { LARGE = 96 << 8, TURN = 2048 };
	unsigned long cost[ROUNDS];
	volatile char *large =
		mmap(0, LARGE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int page = 0; page < 2 * LARGE; page++)
		large[page % LARGE * PAGE]++;
	seed = 4;
	for (int round = -1, page = 0; round < ROUNDS; round++) {
		unsigned long before = brought_in(), waited = idle();
		unsigned long long begin = __rdtsc();
		for (int n = 0; n < TURN; n++, page++)
			large[(at_random ? below(LARGE) : (uint32_t)page % LARGE) * PAGE]++;
		unsigned long busy = __rdtsc() - begin - (idle() - waited);
		if (round >= 0)
			cost[round] = busy / (brought_in() - before + 1);
	}
	printf("bench without_the_wait,_memory_is_short,_%s", how);
	for (int round = 0; round < ROUNDS; round++)
		printf(" %lu", cost[round]);
	printf("\n");
	munmap((void *)large, LARGE * PAGE);
}

// Again and again from the first to the last.
static void loop(void)
{
	for (used = 0; used < 3000; used++)
		uses[used] = used % 300;
}

// Nine of ten uses are of one page in ten.
static void hot(void)
{
	seed = 1;
	for (used = 0; used < USES; used++)
		uses[used] = below(10) ? 100 + below(50) : below(PAGES);
}

// Goes on, and somewhere else from time to time.
static void walk(void)
{
	seed = 2;
	for (int at = used = 0; used < USES; used++)
		uses[used] = at = below(30) ? (at + PAGES - 3 + below(8)) % PAGES : below(PAGES);
}

// Two parts in turn, each for a while: what was used often in one is of no use in the other.
static void phases(void)
{
	seed = 3;
	for (used = 0; used < USES; used++)
		uses[used] = used / 1000 % 2 * 256 + (below(4) ? below(90) : below(200));
}

static void misses(const char *name, void (*make)(void))
{
	static const int places[] = {32, 64, 128, 256};
	make();
	for (int n = 0; n < 4; n++)
		for (int policy = FIFO; policy <= OPTIMAL; policy++) {
			limit(policy, places[n]);
			unsigned long before = brought_in();
			for (int at = 0; at < used; at++)
				range[uses[at] * PAGE]++;
			printf("bench %s,_%s %lu unit=pages at=%d:places\n", name, names[policy],
			       brought_in() - before, places[n]);
		}
}

int main(void)
{
	range = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int page = 0; page < PAGES; page++)
		range[page * PAGE] = 1;
	costs(FIFO, 64);
	costs(SECOND_CHANCE, 64);
	costs(LRU, 64);
	costs(LRU, 256);
	usual("in_order", 0);
	usual("at_random", 1);
	misses("loop", loop);
	misses("hot", hot);
	misses("walk", walk);
	misses("phases", phases);
	return 0;
}
