// build: gcc
// mem: 48M
// swap: 512M
// timeout: 200
// expect-stdout: 48 of 48\n
//
// Four processes at once, which have more memory than there is, execute programs by vfork: what that takes others give up, or those who are
// waited for before. It never fails for lack of memory that is on its way.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, TIMES = 12, PARTS = 10, PART = 1 << 20 };

// How many programs ended well.
static int executes(void)
{
	int good = 0, status;
	char *parts[PARTS];
	for (int n = 0; n < PARTS; n++) {
		parts[n] = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (parts[n] == MAP_FAILED)
			return 0;
		memset(parts[n], n + 1, PART);
	}
	for (int n = 0; n < TIMES; n++) {
		pid_t child = vfork();
		if (child == 0) {
			execl("/proc/self/exe", "vfork_memory", "child", NULL);
			_exit(errno);
		}
		good += child > 0 && waitpid(child, &status, 0) == child && status == 0;
	}
	for (int n = 0; n < PARTS; n++)
		for (int at = 0; at < PART; at += 4096)
			if (parts[n][at] != n + 1)
				return 0;
	return good;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return 0;
	int good = 0, status;
	for (int n = 0; n < PROCESSES; n++)
		if (fork() == 0)
			_exit(executes());
	while (wait(&status) > 0)
		good += WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	printf("%d of %d\n", good, PROCESSES * TIMES);
	return 0;
}
