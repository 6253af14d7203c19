// build: gcc
// mem: 64M
// swap: 16M
// timeout: 200
// expect-stdout: greedy: killed\nbystander: as it was\nprotected: as it was\nvolunteer: killed\nstore: empty\n
//
// A store that is full: of those with heaps the one with most is killed, unless it said otherwise, and nobody else notices.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"
#include "meminfo.h"

static void adjust(const char *text)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		_exit(7);
	close(fd);
}

static int ready[2], go[2];

// A child with a heap that waits until it is to look at it.
static pid_t holder(size_t bytes, const char *text)
{
	char byte;
	pid_t child = fork();
	if (child == 0) {
		adjust(text);
		uint64_t *at = heap(bytes, bytes);
		write(ready[1], "", 1);
		read(go[0], &byte, 1);
		_exit(!same(at, bytes, bytes));
	}
	read(ready[0], &byte, 1);
	return child;
}

static void ended(const char *who, pid_t child)
{
	int status;
	waitpid(child, &status, 0);
	printf("%s: %s\n", who,
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? "killed"
	       : status == 0                                      ? "as it was"
	                                                          : "WRONG");
	fflush(stdout);
}

int main(void)
{
	pipe(ready);
	pipe(go);
	pid_t bystander = holder(4 * MIB, "0\n");
	pid_t greedy = fork();
	if (greedy == 0) {
		heap(200 * MIB, 1);
		_exit(0);
	}
	ended("greedy", greedy);
	write(go[1], "", 1);
	ended("bystander", bystander);
	// Somebody has more, but must not be ended; another one is to be ended first.
	pid_t protected = holder(24 * MIB, "-1000");
	pid_t volunteer = holder(6 * MIB, "1000");
	pid_t other = fork();
	if (other == 0) {
		adjust("-500");
		_exit(!same(heap(22 * MIB, 3), 22 * MIB, 3));
	}
	int status;
	waitpid(other, &status, 0);
	if (status)
		printf("the other: %x\n", status);
	write(go[1], "..", 2);
	ended("protected", protected);
	ended("volunteer", volunteer);
	for (int n = 0; n < 100 && field("SwapTotal") != field("SwapFree"); n++)
		usleep(20000);
	printf("store: %s\n", field("SwapTotal") == field("SwapFree") ? "empty" : "NOT EMPTY");
	return 0;
}
