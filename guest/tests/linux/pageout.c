// build: gcc
// mem: 64M
// swap: 64M
// timeout: 400
//
// Which pages a program has come in and leave, by policy, on fixed strings of uses: one line for each run, with each page that comes in and the one
// that goes for it, as /proc/self/pagemap shows it before and after each use. The other file is what the policies say that
// must be (crates/user/selfpaging/tests/guest.rs). As many pages come from the disk as were missing, and no more; contents are
// what they were.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pageout.h"

enum { MOST_PAGES = 200, MOST_USES = 800 };

static const char *const names[] = {"", "fifo", "second-chance", "lru", "optimal"};

struct string {
	const char *name;
	int pages; // of the range
	int places[3];
	int uses;
	uint32_t page[MOST_USES];
};

static uint64_t seed;

static uint32_t below(uint32_t end)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 20) % end;
}

static void use(struct string *it, uint32_t page)
{
	it->page[it->uses++] = page;
}

static void belady(struct string *it)
{
	static const uint32_t all[] = {1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5};
	*it = (struct string){"belady", 6, {3, 4}};
	for (int n = 0; n < 12; n++)
		use(it, all[n]);
}

static void textbook(struct string *it)
{
	static const uint32_t all[] = {7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1};
	*it = (struct string){"textbook", 8, {3}};
	for (int n = 0; n < 20; n++)
		use(it, all[n]);
}

static void loop(struct string *it)
{
	*it = (struct string){"loop", 24, {16}};
	for (int n = 0; n < 5 * 24; n++)
		use(it, n % 24);
}

// A few pages that are used again and again, and many that are not.
static void hot(struct string *it)
{
	seed = 1;
	*it = (struct string){"hot", 130, {12, 24}};
	for (int n = 0; n < 500; n++)
		use(it, below(3) ? 60 + below(10) : below(130));
}

// Goes on and back a bit, and somewhere else from time to time.
static void walk(struct string *it)
{
	seed = 2;
	*it = (struct string){"walk", 200, {20, 70}};
	for (int n = 0, at = 0; n < 700; n++) {
		at = below(25) ? (at + 199 + below(4)) % 200 : below(200);
		use(it, at);
	}
}

static unsigned long brought_in(void)
{
	char line[128];
	unsigned long pages = 0;
	FILE *f = fopen("/proc/vmstat", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "pswpin %lu", &pages);
	if (f)
		fclose(f);
	return pages;
}

static int failed;

static void wrong(const char *what, const struct string *it, int n)
{
	printf("\n%s: use %d of %s\n", what, n, it->name);
	failed = 1;
}

static uint64_t content(int page)
{
	return page * 0x9e3779b97f4a7c15ull + 1;
}

// The range has its contents already; each use changes them.
static void run(volatile uint64_t *at, const struct string *it, int policy, int places)
{
	static uint64_t before[MOST_PAGES], after[MOST_PAGES];
	int used[MOST_PAGES] = {0}, misses = 0;
	struct tessera_pageout how = {policy, places, it->page, it->uses};
	if (limit((void *)at, it->pages, how)) {
		perror("prctl");
		exit(1);
	}
	printf("%s %s %d:", it->name, names[policy], places);
	unsigned long reads = brought_in();
	pagemap((void *)at, it->pages, before);
	for (int n = 0; n < it->uses; n++) {
		int page = it->page[n], there = 0;
		volatile uint64_t *word = at + page * 512;
		uint64_t is;
		pagemap((void *)word, 1, &is);
		if ((is ^ before[page]) & (THERE | LEFT))
			wrong("it came or went by itself", it, n);
		if (*word != content(page) + used[page])
			wrong("contents", it, n);
		// A read brings it in as well as a write does.
		if (n % 3)
			*word = content(page) + ++used[page];
		if (is & THERE)
			continue;
		if (!(is & LEFT))
			wrong("neither there nor out", it, n);
		printf(" %d", page);
		misses++;
		pagemap((void *)at, it->pages, after);
		if (!(after[page] & THERE))
			wrong("it did not come", it, n);
		for (int other = 0; other < it->pages; other++) {
			there += (after[other] & THERE) != 0;
			if ((before[other] & THERE) && (after[other] & LEFT))
				printf("<%d", other);
			else if (other != page && (before[other] & LEFT) && (after[other] & THERE))
				wrong("another one came", it, n);
		}
		if (there > places)
			wrong("too many", it, n);
		memcpy(before, after, sizeof before);
	}
	printf("\n");
	pagemap((void *)at, it->pages, after);
	if (memcmp(before, after, sizeof before))
		wrong("not what it was after the last that came", it, it->uses);
	if (brought_in() - reads != (unsigned long)misses)
		printf("%lu reads of %d pages\n", brought_in() - reads, misses), failed = 1;
	for (int page = 0; page < it->pages; page++)
		if (at[page * 512] != content(page) + used[page])
			wrong("contents at the end", it, page);
}

static void all(volatile uint64_t *at, const struct string *it)
{
	for (int policy = FIFO; policy <= OPTIMAL; policy++)
		for (int n = 0; n < 3 && it->places[n]; n++) {
			for (int page = 0; page < it->pages; page++)
				at[page * 512] = content(page);
			run(at, it, policy, it->places[n]);
		}
	limit(0, 0, (struct tessera_pageout){NONE});
	for (int page = 0; page < it->pages; page++)
		if (at[page * 512] < content(page))
			wrong("contents without a limit", it, page);
}

int main(void)
{
	static struct string it;
	// The range begins where no group of pages does, and is in two tables.
	unsigned long table = PAGE * 512;
	char *area = mmap(0, 3 * table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *middle = (char *)(((uintptr_t)area + 2 * table - 1) / table * table);
	volatile uint64_t *small = (uint64_t *)(middle - 37 * PAGE);
	void (*strings[])(struct string *) = {belady, textbook, loop, hot, walk};
	for (unsigned n = 0; n < sizeof strings / sizeof *strings; n++) {
		strings[n](&it);
		all(small, &it);
	}
	// Memory that is an object from the start, and mapped by few entries.
	area = mmap(0, 16 * table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile uint64_t *large = (uint64_t *)(area + 5 * table + 11 * PAGE);
	for (unsigned long byte = 0; byte < 16 * table; byte += table)
		area[byte] = 1;
	walk(&it);
	it.name = "large";
	all(large, &it);
	printf("%s\n", failed ? "WRONG" : "as it was");
	return failed;
}
