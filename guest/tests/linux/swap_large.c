// build: gcc
// mem: 64M
// swap: 512M
// timeout: 600
// runs: when its suite is asked for
// args: 1
// kernel: check=1
// expect-stdout: sort of 200 MB: in order, and all there\nfork of 300 MB: each has its own\nfour at once: right\nstore: as before\n
//
// Much more memory than there is: a mergesort of 200 MB with 100 MB beside them; a process of 300 MB most of which has left, and a child of it, of which
// each writes to and checks every page; two of either at once, of a quarter to a third of that. Pages are counted by who runs the test, slots here.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filled.h"
#include "meminfo.h"

// Keys of which many are equal, and a place by which is seen that these stay in order, and that what belongs to a key goes with it.
struct record {
	uint64_t key, place, mix[2];
};

static uint64_t mixed(const struct record *r) { return (r->key ^ r->place * 0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93; }

// Sorts; `beside` has room for half of them.
static void sort(struct record *at, size_t count, struct record *beside)
{
	if (count <= 12) {
		for (size_t i = 1; i < count; i++) {
			struct record r = at[i];
			size_t to = i;
			for (; to > 0 && at[to - 1].key > r.key; to--)
				at[to] = at[to - 1];
			at[to] = r;
		}
		return;
	}
	size_t half = count / 2, left = 0, right = half, to = 0;
	sort(at, half, beside);
	sort(at + half, count - half, beside);
	memcpy(beside, at, half * sizeof *at);
	while (left < half)
		at[to++] = right < count && at[right].key < beside[left].key ? at[right++] : beside[left++];
}

static int sorts(size_t bytes, uint64_t seed)
{
	size_t count = bytes / sizeof(struct record);
	struct record *at = (struct record *)some(bytes), *beside = (struct record *)some(bytes / 2);
	uint64_t keys = 0, places = 0;
	for (size_t i = 0; i < count; i++) {
		// The top bits of a multiplication, as `next` alone counts up in even steps.
		at[i].key = (next(&seed) * 0xd6e8feb86659fd93) >> 44;
		at[i].place = i;
		at[i].mix[0] = at[i].mix[1] = mixed(at + i);
		keys += at[i].key * at[i].key, places += i * i;
	}
	sort(at, count, beside);
	int ok = 1;
	for (size_t i = 0; i < count; i++) {
		keys -= at[i].key * at[i].key, places -= at[i].place * at[i].place;
		ok &= at[i].mix[0] == mixed(at + i) && at[i].mix[1] == at[i].mix[0];
		ok &= i == 0 || at[i - 1].key < at[i].key || (at[i - 1].key == at[i].key && at[i - 1].place < at[i].place);
	}
	munmap(at, bytes);
	munmap(beside, bytes / 2);
	return ok && keys == 0 && places == 0;
}

enum { NEW = 1, OF_PARENT = 2, OF_CHILD = 3 };

static uint64_t of(uint64_t whose, size_t word) { return (whose << 32 | word) * 0x9e3779b97f4a7c15; }

static void write_pages(uint64_t *at, size_t from, size_t to, uint64_t whose)
{
	for (size_t word = from * 512; word < to * 512; word++)
		at[word] = of(whose, word);
}

static int are(const uint64_t *at, size_t from, size_t to, uint64_t whose)
{
	int ok = 1;
	for (size_t word = from * 512; word < to * 512; word++)
		ok &= at[word] == of(whose, word);
	return ok;
}

static void tell(int end)
{
	if (write(end, "", 1) != 1)
		_exit(3);
}

static int hears(int end)
{
	char byte;
	return read(end, &byte, 1) == 1;
}

// Both have what there was, and write to all of it, in four steps at the same time: two whole copies are more than memory and disk have. The child gives up
// what it has checked.
static int forks(size_t bytes)
{
	enum { STEPS = 4 };
	size_t pages = bytes / 4096;
	uint64_t *at = some(bytes);
	int to_child[2], to_parent[2], status, ok = 1;
	if (pipe(to_child) || pipe(to_parent))
		return 0;
	write_pages(at, 0, pages, NEW);
	pid_t child = fork();
	if (child < 0)
		return 0;
	int end = child == 0 ? to_parent[1] : to_child[1], other = child == 0 ? to_child[0] : to_parent[0];
	close(child == 0 ? to_parent[0] : to_child[0]);
	close(child == 0 ? to_child[1] : to_parent[1]);
	uint64_t whose = child == 0 ? OF_CHILD : OF_PARENT;
	for (size_t step = 0; step < STEPS && ok; step++) {
		size_t from = pages * step / STEPS, to = pages * (step + 1) / STEPS;
		ok &= are(at, from, to, NEW);
		write_pages(at, from, to, whose);
		ok &= are(at, from, to, whose);
		if (child == 0)
			ok &= madvise(at + from * 512, (to - from) * 4096, MADV_DONTNEED) == 0 && at[from * 512] == 0;
		tell(end);
		ok &= hears(other);
	}
	if (child == 0)
		_exit(!ok);
	ok &= are(at, 0, pages, OF_PARENT);
	ok &= waitpid(child, &status, 0) == child && status == 0;
	close(end);
	close(other);
	munmap(at, bytes);
	return ok;
}

static void said(const char *what, int ok, const char *how)
{
	printf("%s: %s\n", what, ok ? how : "WRONG");
	fflush(stdout);
}

static unsigned long used(void) { return field("SwapTotal") - field("SwapFree"); }

// How much more of the disk is in use than `before`, in KiB, when all ends have been seen to.
static unsigned long more_used(unsigned long before)
{
	unsigned long now = used();
	for (int n = 0; n < 200 && now > before; n++, now = used())
		usleep(10000);
	return now > before ? now - before : 0;
}

int main(int argc, char **argv)
{
	size_t part = atoi(argv[1]);
	unsigned long before = used();
	signal(SIGPIPE, SIG_IGN);
	said("sort of 200 MB", sorts(200 * MIB / part, 1), "in order, and all there");
	said("fork of 300 MB", forks(300 * MIB / part), "each has its own");
	int ok = 1, status;
	for (int n = 0; n < 4; n++)
		if (fork() == 0)
			_exit(!(n % 2 ? sorts(60 * MIB / part, n + 2) : forks(75 * MIB / part)));
	for (int n = 0; n < 4; n++)
		ok &= wait(&status) > 0 && status == 0;
	said("four at once", ok, "right");
	// Small things of this process and of others may have left meanwhile: the kernel's own list of what has left is compared at the end of the test.
	unsigned long more = more_used(before);
	said("store", more < 1024, "as before");
	if (more >= 1024)
		printf("%lu KiB more\n", more);
	return 0;
}
