// A load on memory that is larger than the machine's: the same program on every system.
//
//     load PATTERN MIB
//
// PATTERN is one of those in `patterns`. Prints what it has computed, which must be the same everywhere, and ends with status 1 if a
// page is not as it was left. Everything that is random comes from a generator of its own.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed * 0x2545f4914f6cdd1d;
}

static uint64_t below(uint64_t end)
{
	return (unsigned __int128)next() * end >> 64;
}

static void *map(size_t bytes)
{
	void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

static void expect(uint64_t value, uint64_t expected, size_t at)
{
	if (value == expected)
		return;
	printf("WRONG at %zu: %llx, not %llx\n", at, (unsigned long long)value, (unsigned long long)expected);
	exit(1);
}

// A page has words of its own at its beginning, middle and end.
static void fill(uint64_t *page, uint64_t number)
{
	page[0] = number;
	page[WORDS / 2] = ~number;
	page[WORDS - 1] = number * 31;
}

static void look(const uint64_t *page, uint64_t number)
{
	expect(page[WORDS / 2], ~number, number);
	expect(page[WORDS - 1], number * 31, number);
}

// Written once, read three times from the first page to the last, then changed.
static uint64_t sweeps(size_t bytes)
{
	size_t pages = bytes / PAGE;
	uint64_t *at = map(bytes), sum = 0;
	for (size_t n = 0; n < pages; n++)
		fill(at + n * WORDS, n);
	for (int round = 0; round < 3; round++)
		for (size_t n = 0; n < pages; n++) {
			look(at + n * WORDS, n);
			sum += at[n * WORDS];
		}
	for (size_t n = 0; n < pages; n++)
		sum += at[n * WORDS]++;
	return sum;
}

// Page number r, of those that are used most, is used 1/r as often as the first; every fourth use changes it.
static uint64_t zipf(size_t bytes)
{
	size_t pages = bytes / PAGE, uses = pages;
	uint64_t *at = map(bytes), sum = 0;
	double *up_to = malloc(pages * sizeof *up_to), all = 0;
	uint32_t *order = malloc(pages * sizeof *order);
	for (size_t n = 0; n < pages; n++) {
		fill(at + n * WORDS, n);
		up_to[n] = all += 1.0 / (n + 1);
		order[n] = n;
	}
	for (size_t n = pages - 1; n > 0; n--) {
		size_t other = below(n + 1);
		uint32_t kept = order[n];
		order[n] = order[other];
		order[other] = kept;
	}
	for (size_t use = 0; use < uses; use++) {
		double wanted = (next() >> 11) * 0x1p-53 * all;
		size_t low = 0, high = pages - 1;
		while (low < high) {
			size_t middle = (low + high) / 2;
			if (up_to[middle] <= wanted)
				low = middle + 1;
			else
				high = middle;
		}
		uint64_t *page = at + (size_t)order[low] * WORDS;
		look(page, order[low]);
		if (use % 4 == 0)
			page[0]++;
		sum = sum * 3 + page[0];
	}
	return sum;
}

struct record {
	uint64_t key, rest[31];
};

static void exchange(struct record *a, struct record *b)
{
	struct record kept = *a;
	*a = *b;
	*b = kept;
}

static void quicksort(struct record *first, struct record *last)
{
	while (first < last) {
		struct record *low = first, *high = last;
		uint64_t pivot = first[(last - first) / 2].key;
		while (low <= high) {
			while (low->key < pivot)
				low++;
			while (high->key > pivot)
				high--;
			if (low <= high)
				exchange(low++, high--);
		}
		if (high - first < last - low) {
			quicksort(first, high);
			first = low;
		} else {
			quicksort(low, last);
			last = high;
		}
	}
}

// Records of 256 bytes, sorted in place.
static uint64_t sort(size_t bytes)
{
	size_t count = bytes / sizeof(struct record);
	struct record *at = map(bytes);
	uint64_t sum = 0;
	for (size_t n = 0; n < count; n++) {
		at[n].key = next() >> 8;
		at[n].rest[30] = at[n].key * 7;
		sum += at[n].key;
	}
	quicksort(at, at + count - 1);
	for (size_t n = 0; n < count; n++) {
		expect(at[n].rest[30], at[n].key * 7, n);
		if (n > 0 && at[n].key < at[n - 1].key)
			expect(at[n].key, at[n - 1].key, n);
		sum -= at[n].key;
	}
	expect(sum, 0, count);
	return at[count / 2].key;
}

struct object {
	uint32_t fields[4];
	uint64_t mark, number, rest[28];
};

// A collector: objects of 256 bytes, most of whose fields lead to neighbours. What can be reached is marked, and all of the heap is
// swept; then some fields are changed, and again.
static uint64_t collector(size_t bytes)
{
	size_t count = bytes / sizeof(struct object), depth = 0;
	struct object *heap = map(bytes);
	uint32_t *stack = map(count * sizeof *stack);
	uint64_t sum = 0;
	for (size_t n = 0; n < count; n++) {
		heap[n].number = n;
		for (int field = 0; field < 4; field++)
			heap[n].fields[field] = field < 3 ? (n + count - 64 + below(128)) % count : below(50) ? n / 2 : below(count);
	}
	for (uint64_t round = 1; round <= 2; round++) {
		uint64_t marked = 0;
		heap[0].mark = round;
		stack[depth++] = 0;
		while (depth > 0) {
			struct object *object = &heap[stack[--depth]];
			marked++;
			for (int field = 0; field < 4; field++) {
				struct object *other = &heap[object->fields[field]];
				if (other->mark != round) {
					other->mark = round;
					stack[depth++] = other - heap;
				}
			}
		}
		uint64_t free = 0;
		for (size_t n = 0; n < count; n++) {
			expect(heap[n].number, n, n);
			free += heap[n].mark != round;
			if (n % 1000 == 0)
				heap[n].fields[1] = below(count);
		}
		expect(marked + free, count, count);
		sum = sum * 1000003 + marked;
	}
	return sum;
}

// One of several processes: memory that grows, of which mostly what came last is used, and in the end all of it once.
static uint64_t compiler(size_t bytes, int number)
{
	size_t pages = bytes / PAGE;
	uint64_t *at = sbrk(bytes), sum = 0;
	if (at == (void *)-1)
		exit(1);
	at = (uint64_t *)(((uintptr_t)at + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	pages--;
	seed += number;
	for (size_t n = 0; n < pages; n++) {
		fill(at + n * WORDS, n);
		for (int use = 0; use < 4; use++) {
			size_t back = below(10) ? below(n < 256 ? n + 1 : 256) : below(n + 1);
			uint64_t *page = at + (n - back) * WORDS;
			look(page, n - back);
			sum += page[1 + below(WORDS / 2 - 1)]++;
		}
	}
	for (size_t n = 0; n < pages; n++) {
		expect(at[n * WORDS], n, n);
		look(at + n * WORDS, n);
	}
	return sum;
}

// Four at a time, twice.
static uint64_t compile(size_t bytes)
{
	uint64_t sum = 0;
	for (int round = 0; round < 2; round++) {
		int results[2];
		if (pipe(results))
			return 0;
		for (int n = 0; n < 4; n++)
			if (fork() == 0) {
				uint64_t one = compiler(bytes / 4, round * 4 + n);
				_exit(write(results[1], &one, sizeof one) != sizeof one);
			}
		for (int n = 0; n < 4; n++) {
			uint64_t one = 0;
			int status = -1;
			if (wait(&status) < 0 || status != 0)
				expect(status, 0, n);
			if (read(results[0], &one, sizeof one) == sizeof one)
				sum += one;
		}
		close(results[0]);
		close(results[1]);
	}
	return sum;
}

static const struct {
	const char *name;
	uint64_t (*run)(size_t bytes);
} patterns[] = {{"sweeps", sweeps}, {"zipf", zipf}, {"sort", sort}, {"collector", collector}, {"compile", compile}};

int main(int count, char **arguments)
{
	size_t mib = count == 3 ? strtoul(arguments[2], NULL, 10) : 0;
	for (size_t n = 0; mib > 0 && n < sizeof patterns / sizeof *patterns; n++)
		if (strcmp(patterns[n].name, arguments[1]) == 0) {
			printf("%s %llx\n", patterns[n].name, (unsigned long long)patterns[n].run(mib << 20));
			return 0;
		}
	fprintf(stderr, "load PATTERN MIB\n");
	return 2;
}
