// build: gcc
// mem: 64M
// swap: 64M
// swap-errors: write after 100
// timeout: 300
// expect-stdout: first: as it was\ntoo much: killed\nothers: as they were\noff: all is back\nagain: as it was\nend: as it was\n
//
// A disk that takes 100 requests and refuses all others: what was on its way goes back to memory, what had left is read as
// before, and whoever wants more memory than there is is ended. Nobody else notices. Taken out of use and into use it is tried again.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filled.h"

int main(void)
{
	int status, ok, pipes[2];
	char byte;
	setvbuf(stdout, 0, _IOLBF, 0);
	// 4 MiB are 128 requests: some of them are refused.
	uint64_t *p = some(8 * MIB);
	fill(p, 8 * MIB, 1);
	madvise(p, 4 * MIB, MADV_PAGEOUT);
	printf("first: %s\n", same(p, 8 * MIB, 1) ? "as it was" : "WRONG");

	// A bystander, whose memory has left before.
	pipe(pipes);
	pid_t bystander = fork();
	if (bystander == 0) {
		close(pipes[1]);
		uint64_t *own = some(4 * MIB);
		fill(own, 4 * MIB, 7);
		madvise(own, 4 * MIB, MADV_PAGEOUT);
		while (read(pipes[0], &byte, 1) == 1)
			if (!same(own, 4 * MIB, 7) || !same(p, 8 * MIB, 1))
				_exit(1);
		_exit(0);
	}
	close(pipes[0]);
	pid_t greedy = fork();
	if (greedy == 0) {
		fill(some(200 * MIB), 200 * MIB, 2);
		_exit(0);
	}
	waitpid(greedy, &status, 0);
	ok = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	printf("too much: %s\n", ok ? "killed" : "NOT KILLED");
	ok = same(p, 8 * MIB, 1) && write(pipes[1], "x", 1) == 1;
	fill(p, MIB, 3);
	close(pipes[1]);
	// It was told to look while only its own memory is what it was.
	waitpid(bystander, &status, 0);
	printf("others: %s\n", ok && status == 0 && same(p, MIB, 3) ? "as they were" : "WRONG");

	ok = swapoff("/dev/swap") == 0 && same(p, MIB, 3);
	printf("off: %s\n", ok ? "all is back" : "WRONG");
	ok = swapon("/dev/swap", 0) == 0;
	madvise(p, 8 * MIB, MADV_PAGEOUT);
	ok &= same(p, MIB, 3);
	printf("again: %s\n", ok ? "as it was" : "WRONG");
	pid_t last = fork();
	if (last == 0)
		_exit(!same(p, MIB, 3));
	waitpid(last, &status, 0);
	uint64_t *q = some(8 * MIB);
	fill(q, 8 * MIB, 9);
	printf("end: %s\n", status == 0 && same(q, 8 * MIB, 9) && same(p, MIB, 3) ? "as it was" : "WRONG");
	return 0;
}
