// build: gcc
// mem: 64M
// swap: 256M
// timeout: 300
//
// TESSERA_PAGEOUT: which small memory leaves when memory is short. A heap grows beyond the memory there is, while a part of it near its beginning is in use
// all the time: by FIFO that leaves in its turn; by the others, and by the usual hand, it stays. Nothing is lost in either case, and with a word
// that is none all is as usual. (At the beginning itself it would leave by all of them: when memory is short for the first time, all of it counts as used.)
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "heap.h"
#include "pageout.h"

enum { HOT = 64 }; // pages

static int grow(void)
{
	// What is in one table with the data of the program stays where it is in part.
	sbrk((2 * MIB - (uintptr_t)sbrk(0) % (2 * MIB)) % (2 * MIB));
	uint64_t *cold = heap(12 * MIB, 0), *hot = heap(HOT * PAGE, 1), words[HOT];
	int left = 0;
	for (int mib = 0; mib < 80; mib++) {
		heap(MIB, 2 + mib);
		pagemap(hot, HOT, words);
		for (int page = 0; page < HOT; page++)
			left += (words[page] & LEFT) != 0;
		if (!same(hot, HOT * PAGE, 1))
			return 2;
	}
	uint64_t *at = hot + HOT * 512;
	if (!same(cold, 12 * MIB, 0))
		return 4;
	for (int mib = 0; mib < 80; mib++)
		if (!same(at + mib * (MIB / 8), MIB, 2 + mib))
			return 3;
	return left != 0;
}

int main(int argc, char **argv)
{
	static const char *const values[] = {"fifo", "second-chance", "lru", "whatever", 0};
	if (argc > 1)
		return grow();
	for (int n = 0; n < 5; n++) {
		fflush(stdout);
		if (fork() == 0) {
			if (values[n])
				setenv("TESSERA_PAGEOUT", values[n], 1);
			execl("/proc/self/exe", argv[0], "grow", NULL);
			_exit(9);
		}
		int status;
		wait(&status);
		const char *is[] = {"stays", "leaves", "WRONG"};
		int which = WIFEXITED(status) && WEXITSTATUS(status) < 2 ? WEXITSTATUS(status) : 2;
		printf("%s: what is used %s\n", values[n] ? values[n] : "nothing", is[which]);
	}
	return 0;
}
