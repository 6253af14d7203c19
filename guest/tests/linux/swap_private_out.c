// build: gcc
// mem: 64M
// swap: 64M
// timeout: 200
// expect-stdout: file: out, and back\nlocked: stays\nfork: each has its own\nkilled: the disk is empty\nstack: out, and back\n
//
// What pagemap, mincore, smaps and meminfo say of copies of pages of files, and of a stack, that have left memory; and that nothing is left on the disk of who
// was killed.
#define _GNU_SOURCE
#include <signal.h>

#include "meminfo.h"
#include "pageout.h"
#include "private.h"

enum { PAGES = 96 };

static void tell(const char *what, int ok)
{
	printf("%s\n", ok ? what : "WRONG");
	fflush(stdout);
}

static unsigned long used(void) { return field("SwapTotal") - field("SwapFree"); }

// KiB that smaps says of the mapping at an address.
static unsigned long of_smaps(const void *at, const char *name)
{
	char line[256], key[32];
	unsigned long from, to, value = 0, kib;
	int is_here = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			is_here = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (is_here && sscanf(line, "%31s %lu kB", key, &kib) == 2 && strcmp(key, name) == 0)
			value += kib;
	}
	fclose(f);
	return value;
}

// Which pages of copies have left, by pagemap; and that mincore says the same.
static int out(void *at, int pages)
{
	uint64_t words[PAGES];
	unsigned char there[PAGES];
	int count = 0;
	pagemap(at, pages, words);
	if (mincore(at, pages * PAGE, there))
		return -1;
	for (int page = 0; page < pages; page++) {
		count += (words[page] & LEFT) != 0;
		if (words[page] & LEFT && (there[page] & 1 || words[page] & THERE))
			return -2;
	}
	return count;
}

static int copies(int pages)
{
	int count = 0;
	for (int page = 0; page < pages; page++)
		count += is_written(page);
	return count;
}

int main(void)
{
	int fd = new_file(PAGES, 0), wanted = copies(PAGES), status;
	unsigned long before = used();
	uint64_t *at = written(fd, PAGES);
	int ok = out(at, PAGES) == 0 && madvise(at, PAGES * PAGE, MADV_PAGEOUT) == 0;
	ok &= out(at, PAGES) == wanted && of_smaps(at, "Swap:") == (unsigned long)wanted * 4 && of_smaps(at, "Anonymous:") == 0;
	ok &= used() >= before + wanted * 4;
	ok &= same_pages(at, 0, PAGES) && out(at, PAGES) == 0 && of_smaps(at, "Swap:") == 0;
	ok &= of_smaps(at, "Anonymous:") == (unsigned long)wanted * 4 && used() == before;
	// Given up while they are out.
	ok &= madvise(at, PAGES * PAGE, MADV_PAGEOUT) == 0 && out(at, PAGES) == wanted;
	ok &= madvise(at, PAGES * PAGE, MADV_DONTNEED) == 0 && out(at, PAGES) == 0 && used() == before;
	munmap(at, PAGES * PAGE);
	tell("file: out, and back", ok);

	at = written(fd, PAGES);
	ok = madvise(at, PAGES * PAGE, MADV_PAGEOUT) == 0 && mlock(at, PAGES / 2 * PAGE) == 0;
	ok &= out(at, PAGES / 2) == 0 && out(at + PAGES / 2 * WORDS, PAGES / 2) == wanted - copies(PAGES / 2);
	ok &= madvise(at, PAGES / 2 * PAGE, MADV_PAGEOUT) != 0 && out(at, PAGES / 2) == 0;
	// To lock what can be written to makes copies of all of it.
	wanted += PAGES / 2 - copies(PAGES / 2);
	ok &= munlock(at, PAGES / 2 * PAGE) == 0 && madvise(at, PAGES * PAGE, MADV_PAGEOUT) == 0;
	ok &= out(at, PAGES) == wanted && same_pages(at, 0, PAGES);
	tell("locked: stays", ok);

	// Both have it out, and one of them changes what it has.
	ok = madvise(at, PAGES * PAGE, MADV_PAGEOUT) == 0;
	pid_t child = fork();
	if (child == 0) {
		ok &= out(at, PAGES) == wanted && at[0] == of_copy(0, 0);
		at[0] = at[9 * WORDS] = 1;
		ok &= madvise(at, PAGES * PAGE, MADV_PAGEOUT) == 0 && out(at, PAGES) == wanted;
		ok &= at[0] == 1 && at[9 * WORDS] == 1 && at[1] == of_copy(0, 1);
		_exit(!ok);
	}
	ok &= waitpid(child, &status, 0) == child && status == 0;
	ok &= out(at, PAGES) == wanted && same_pages(at, 0, PAGES);
	munmap(at, PAGES * PAGE);
	tell("fork: each has its own", ok && used() == before);

	// Killed while its pages leave and come.
	ok = 1;
	for (int round = 0; round < 6; round++) {
		int ready[2];
		char byte;
		if (pipe(ready))
			return 1;
		child = fork();
		if (child == 0) {
			at = written(fd, PAGES);
			for (;;) {
				madvise(at, PAGES * PAGE, MADV_PAGEOUT);
				same_pages(at, 0, PAGES);
				write(ready[1], "", 1);
			}
		}
		for (int n = 0; n <= round; n++)
			ok &= read(ready[0], &byte, 1) == 1;
		kill(child, SIGKILL);
		ok &= waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL;
		close(ready[0]);
		close(ready[1]);
	}
	// What it had goes when its end has been seen to.
	while (used() != before)
		usleep(1000);
	tell("killed: the disk is empty", ok);

	volatile uint64_t mine[40 * WORDS];
	for (size_t n = 0; n < 40 * WORDS; n++)
		mine[n] = n;
	void *first = (void *)(((uintptr_t)mine + PAGE - 1) & -PAGE);
	ok = madvise(first, 39 * PAGE, MADV_PAGEOUT) == 0;
	// Some are in use by this function, others by nobody.
	ok &= out(first, 32) == 32 && of_smaps(first, "Swap:") >= 32 * 4;
	for (size_t n = 0; n < 40 * WORDS; n++)
		ok &= mine[n] == n;
	tell("stack: out, and back", ok && out(first, 32) == 0);
	return 0;
}
