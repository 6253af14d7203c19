// build: gcc
// mem: 64M
// swap: 16M
// timeout: 200
// expect-stdout: too much: killed\nbystander: as it was\nheap: as it was\nstore: empty\n
//
// A store that is full: who wants more is killed, and nobody else notices. Some memory is left to what cannot leave.
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

int main(void)
{
	uint64_t *p = some(16 * MIB);
	int status, ok;
	fill(p, 16 * MIB, 1);
	if (fork() == 0) {
		fill(some(200 * MIB), 200 * MIB, 2);
		_exit(0);
	}
	wait(&status);
	ok = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	printf("too much: %s\n", ok ? "killed" : "NOT KILLED");
	printf("bystander: %s\n", same(p, 16 * MIB, 1) ? "as it was" : "WRONG");
	fflush(stdout);
	// Most of the memory is large and private; then small pieces are wanted.
	uint64_t *q = some(20 * MIB), *small[100];
	fill(q, 20 * MIB, 3);
	ok = 1;
	for (int n = 0; n < 100; n++) {
		small[n] = sbrk(64 * 1024);
		ok &= small[n] != (void *)-1;
		fill(small[n], 64 * 1024, 100 + n);
	}
	for (int n = 0; n < 100; n++)
		ok &= same(small[n], 64 * 1024, 100 + n);
	ok &= same(q, 20 * MIB, 3) && same(p, 16 * MIB, 1);
	printf("heap: %s\n", ok ? "as it was" : "WRONG");
	// Small pieces leave, too.
	brk(small[0]);
	munmap(p, 16 * MIB);
	munmap(q, 20 * MIB);
	// Some of the stacks and the data of those who are still there may have left.
	unsigned long used = field("SwapTotal") - field("SwapFree");
	printf("store: %s\n", used < 512 ? "empty" : "NOT EMPTY");
	if (used >= 512)
		printf("%lu KiB\n", used);
	return 0;
}
